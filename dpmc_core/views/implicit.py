"""Pictures of the implicit family: noise of the variants, sampling weights, bounds on the loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core import registry
from dpmc_core.bounds import implicit as bounds
from dpmc_core.privacy import Additive
from dpmc_core.ratings import PublicFacts
from dpmc_core.solvers.importance import uniform_weights, utility_weights, weights_of_sample

Floats = NDArray[np.float64]

# RYHH24, section VI-B: the setting of figure 5.
FIGURE_5 = {"alpha": 0.8, "beta1": 0.1, "beta2": 0.8, "beta3": 0.1}
VARIANTS = ("dpimf-strawman", "dpimf-complementary", "dpimf-symmetric")


class NoiseDensity(NamedTuple):
    """Noise of one off-diagonal second-order coefficient of a variant: scale and density."""

    mechanism: str
    scale: float
    x: Floats
    density: Floats


class SamplingWeights(NamedTuple):
    """Weights of users' terms at one expected sample size, users by rising norm.

    epsilon: what the importance weights keep every term's loss at, where the longest term's loss
    without sampling is 1.
    """

    sample: float
    norm: Floats
    importance: Floats
    utility: Floats
    uniform: Floats
    epsilon: float


class Bound(NamedTuple):
    """Expected excess loss of a variant against epsilon (Theorem 5, corrected)."""

    mechanism: str
    epsilon: Floats
    loss: Floats


def figure_5(
    public: PublicFacts, epsilon: float = 0.1, points: int = 401
) -> tuple[NoiseDensity, ...]:
    """The noise in a second-order coefficient of the three variants, exact Laplace densities.

    At the clip of the defaults; where the clip is read off the data, only the common factor
    changes. The grid reaches six scales of the middle one.
    """
    found = []
    for id in VARIANTS:
        settings = {"alpha": FIGURE_5["alpha"]} if id == "dpimf-strawman" else FIGURE_5
        card = registry.create(id, epsilon=epsilon, **settings).guarantee(public)
        release = card.releases["second"]
        assert isinstance(release, Additive)
        found.append((id, release))
    reach = 6 * sorted(release.scale for _, release in found)[1]
    x = np.linspace(-reach, reach, points)
    return tuple(NoiseDensity(id, r.scale, x, r.density(x)) for id, r in found)


def figure_6(factors: Floats, samples: Sequence[float] = (20, 100)) -> tuple[SamplingWeights, ...]:
    """Sampling weights of one item's first-order terms at given sample sizes.

    factors: users x d, of which the l1 norms count. A term's loss at weight 1 is its norm over that
    of the longest; the importance weights keep the smallest epsilon with that sample.
    """
    norm = np.sort(np.abs(factors).sum(axis=1))
    loss = norm / norm.max()
    found = []
    for sample in samples:
        importance, epsilon = weights_of_sample(loss, sample)
        found.append(
            SamplingWeights(
                float(sample),
                norm,
                importance,
                utility_weights(norm, sample),
                uniform_weights(len(norm), sample),
                epsilon,
            )
        )
    return tuple(found)


def loss_bounds(
    epsilons: Sequence[float],
    *,
    rank: int,
    regularisation: float,
    largest: float,
    alpha: float = FIGURE_5["alpha"],
    beta1: float = FIGURE_5["beta1"],
    beta2: float = FIGURE_5["beta2"],
) -> tuple[Bound, ...]:
    """Theorem 5 as curves, all variants at the same settings."""
    grid = np.asarray(epsilons, dtype=float)
    size = rank, regularisation, largest
    curves = {
        "dpimf-strawman": [bounds.strawman(e, *size) for e in grid],
        "dpimf-complementary": [
            bounds.complementary(e, *size, alpha=alpha, beta1=beta1, beta2=beta2) for e in grid
        ],
        "dpimf-symmetric": [
            bounds.symmetric(e, *size, alpha=alpha, beta1=beta1, beta2=beta2) for e in grid
        ],
        "dpimf-optimal": [bounds.optimal(e, *size) for e in grid],
    }
    return tuple(Bound(id, grid, np.array(values)) for id, values in curves.items())
