"""Pictures of the implicit family: noise of the variants, sampling weights, bounds on the loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core import registry
from dpmc_core.bounds import implicit as bounds
from dpmc_core.mechanisms.dpimf import Dpimf
from dpmc_core.model import Factors
from dpmc_core.privacy import Additive
from dpmc_core.privacy.importance import (
    amplified_losses,
    uniform_weights,
    utility_weights,
    weights_of_sample,
)
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import settings_of

Floats = NDArray[np.float64]

# RYHH24, section VI-B: the setting of figure 5, and of figure 6.
FIGURE_5 = {"alpha": 0.8, "beta1": 0.1, "beta2": 0.8, "beta3": 0.1}
FIGURE_5_EPSILON = 0.1
VARIANTS = ("dpimf-strawman", "dpimf-complementary", "dpimf-symmetric", "dpimf-optimal")
COEFFICIENTS = {"second": "second moment (A2)", "first": "first order (A1)", "ridge": "ridge"}
SAMPLES = (20.0, 100.0)
USERS, RANK = 2000, 20
_ROUNDS = 5  # of the fit behind figure 6: the norms hardly move after it


class NoiseDensity(NamedTuple):
    """Noise in one coefficient of a variant; scale 0: none is added, and there is no density."""

    mechanism: str
    scale: float
    x: Floats
    density: Floats | None


class SamplingWeights(NamedTuple):
    """Weights of users' terms at one expected sample size, users by rising l1 norm.

    kept: by strategy, the largest privacy loss of a term, where the longest term's loss without
    sampling is 1.
    """

    sample: float
    norm: Floats
    weights: Mapping[str, Floats]
    kept: Mapping[str, float]


class Bound(NamedTuple):
    """Expected excess loss of a variant against epsilon (Theorem 5, corrected)."""

    mechanism: str
    epsilon: Floats
    loss: Floats


def figure_5(
    public: PublicFacts,
    coefficient: str = "second",
    *,
    epsilon: float = FIGURE_5_EPSILON,
    longest: float | None = None,
    points: int = 401,
) -> tuple[NoiseDensity, ...]:
    """The noise in one number of a coefficient, exactly, from the releases of each variant's card.

    coefficient: first, second or ridge. longest: the bound on ||p||_1, with that on ||p||_2 in the
    proportion of the defaults; None: the defaults. The grid reaches six scales of the middle one.
    """
    found = []
    for id in VARIANTS:
        declared = {s.name for s in settings_of(registry.get(id))}
        settings = {name: value for name, value in FIGURE_5.items() if name in declared}
        if longest is not None:
            settings |= {"clip": longest, "clip_l2": longest * _l2_share(id)}
        card = registry.create(id, epsilon=epsilon, **settings).guarantee(public)
        found.append((id, dict(card.releases).get(coefficient)))
    scales = sorted(r.scale for _, r in found if isinstance(r, Additive))
    reach = 6 * scales[len(scales) // 2]
    x = np.linspace(-reach, reach, points)
    return tuple(
        NoiseDensity(id, r.scale, x, r.density(x))
        if isinstance(r, Additive)
        else NoiseDensity(id, 0.0, x, None)
        for id, r in found
    )


def user_factors(ratings: Ratings, seed: int = 0) -> Floats:
    """Factors of the first 2000 users, fitted without privacy: users x 20, for looking at only."""
    part = ratings.select(ratings.users < USERS)
    twin = registry.create("ials", rank=RANK, rounds=_ROUNDS)
    *_, last = twin.fit(part, np.random.default_rng(seed))
    assert isinstance(last.model, Factors)
    return np.asarray(last.model.left[:USERS], dtype=float)


def figure_6(factors: Floats, samples: Sequence[float] = SAMPLES) -> tuple[SamplingWeights, ...]:
    """Sampling weights of one item's first-order terms at given sample sizes.

    factors: users x d. A term's loss at weight 1 is its l1 norm over the longest; importance
    weights keep the smallest loss with that sample. Utility-optimal ones minimise the variance
    sum ||p||_2^2 (w - 1). Raises InvalidSetting where a sample is larger than the users.
    """
    lengths = np.abs(factors).sum(axis=1)
    order = np.argsort(lengths, kind="stable")
    norm, l2 = lengths[order], np.linalg.norm(factors[order], axis=1)
    loss = norm / norm.max()
    found = []
    for sample in samples:
        weights = {
            "importance": weights_of_sample(loss, sample)[0],
            "utility-optimal": utility_weights(l2, sample),
            "uniform": uniform_weights(len(norm), sample),
        }
        kept = {name: float(amplified_losses(loss, w).max()) for name, w in weights.items()}
        found.append(SamplingWeights(float(sample), norm, weights, kept))
    return tuple(found)


def _l2_share(id: str) -> float:
    made = registry.create(id, epsilon=1.0)
    assert isinstance(made, Dpimf)
    assert made.clip is not None
    return made.clip_l2 / made.clip


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
