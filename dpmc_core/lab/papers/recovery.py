"""Theorem 3 of Z16 against practice, on generated ratings whose truth is known.

Z16: Zheng, "Two Differentially Private Rating Collection Mechanisms for Recommender Systems".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core import metrics, registry
from dpmc_core.data.synthetic import known_truth
from dpmc_core.errors import InvalidSetting, sentence
from dpmc_core.lab.papers.bounds import DRAWABLE
from dpmc_core.lab.papers.bounds.collection import recovery_error
from dpmc_core.mechanisms.collection import Collection
from dpmc_core.model import Factors
from dpmc_core.ratings import Ratings
from dpmc_core.solvers.recovery import Regress, Reports, Rule, on_unit_scale

Floats = NDArray[np.float64]


class RecoveryBounds(NamedTuple):
    """Against epsilon, on the scale -1..1: rho = ||P(Theta - Z)||_F at the truth, measured,
    bounded by Theorem 3 and told by the channel's moments; the error ||Theta^ - Theta||_F of both
    recoveries, and Equation 5's bound on it with C0 = 1.

    reported: ||P(Z)||_F of the reports. kept: norm of the paper's own recovery, the matrix of least
    nuclear norm within Theorem 3's bound of the reports; about 0 where that is ||P(Z)||_F or more,
    as the zero matrix is then within it; residual: its distance from the reports. tight: our bound
    on rho. size: ||Theta||_F. published: the error of the paper's own recovery.
    """

    epsilon: Floats
    rho: Floats
    theorem: Floats
    moments: Floats
    naive: Floats
    debiased: Floats
    equation_5: Floats
    reported: Floats
    kept: Floats
    residual: Floats
    tight: Floats
    size: Floats
    published: Floats


def bounds(id: str, epsilons: Sequence[float], seed: int = 0) -> RecoveryBounds:
    """Collect, measure, recover at each epsilon. Raises InvalidSetting for another mechanism."""
    if not issubclass(registry.get(id), Collection):
        raise InvalidSetting("mechanism", "one that collects whole rows", id)
    rng = np.random.default_rng(seed)
    ratings, scaled, misfit = _known(rng)
    public = ratings.public
    rows = []
    for epsilon in epsilons:
        settings = {"epsilon": epsilon, "intrinsic": misfit / 2}
        mechanism = registry.create(id, **settings)
        assert isinstance(mechanism, Collection)
        channel = mechanism.guarantee(public).releases.rows
        out = channel.publish(mechanism.rows(ratings, channel), rng)
        reports = mechanism.reports(out, channel, public)
        rho = float(
            np.linalg.norm(scaled[reports.pattern.users, reports.pattern.items] - reports.values)
        )
        theorem = mechanism.rho(public, len(ratings))

        def recovered(
            recovery: Regress,
            rule: Rule,
            rng: np.random.Generator,
            settings: dict[str, float] = settings,
            reports: Reports = reports,
        ) -> tuple[Floats, float]:
            solver = registry.create(id, **settings, recovery=recovery, rule=rule)
            assert isinstance(solver, Collection)
            *_, last = solver.recover(reports, public, rng, raw=False)
            assert isinstance(last.model, Factors)
            found = on_unit_scale(last.model.left @ last.model.right.T, public)
            return found, last.trace["residual"]

        errors = [
            float(np.linalg.norm(recovered(recovery, Rule.NOISE_LEVEL, rng)[0] - scaled))
            for recovery in Regress
        ]
        kept, residual = recovered(Regress.NAIVE, Rule.THEOREM, np.random.default_rng(0))
        share = out.nnz / scaled.size
        rows.append(
            (
                epsilon,
                rho,
                theorem,
                float(np.sqrt(reports.variance * out.nnz)),
                *errors,
                recovery_error(theorem, share),
                float(np.linalg.norm(reports.values)),
                float(np.linalg.norm(kept)),
                residual,
                mechanism.rho(public, len(ratings), tight=True),
                float(np.linalg.norm(scaled)),
                float(np.linalg.norm(kept - scaled)),
            )
        )
    return RecoveryBounds(*np.array(rows).T)


def first_useful(id: str) -> float:
    """The epsilon per cell from which the paper's own recovery is expected to keep anything.

    Where Theorem 3's bound falls to the root of E||P(Z)||_F^2, by bisection up to 1e4.
    """
    ratings, scaled, misfit = _known(np.random.default_rng(0))
    given = on_unit_scale(ratings.values, ratings.public)
    square, density = float(np.mean(given**2)), len(ratings) / scaled.size

    def keeps(epsilon: float) -> bool:
        mechanism = registry.create(id, epsilon=epsilon, intrinsic=misfit / 2)
        assert isinstance(mechanism, Collection)
        channel = mechanism.guarantee(ratings.public).releases.rows
        size = math.sqrt(channel.energy(square, density) * scaled.size)
        return mechanism.rho(ratings.public, len(ratings)) < size

    low, high = 1e-2, 1e4
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def beyond() -> tuple[float, float]:
    """The share of true ratings outside -1..1, which Theorem 3's proof excludes, and the mean of
    all their squares, of which it needs no more than that it is at most 1."""
    _, truth, _ = _known(np.random.default_rng(0))
    return float(np.mean(np.abs(truth) > 1)), float(np.mean(truth**2))


def _known(rng: np.random.Generator) -> tuple[Ratings, Floats, float]:
    """Ratings, their true matrix on the scale -1..1, and how far they are from it."""
    generated = known_truth(rng, density=0.3)
    ratings, truth = generated.ratings, generated.truth
    assert truth is not None
    scaled = on_unit_scale(truth.left @ truth.right.T, ratings.public)
    given = on_unit_scale(ratings.values, ratings.public)
    return ratings, scaled, metrics.rmse(given, scaled[ratings.users, ratings.items])


def words(view: RecoveryBounds, epsilon: float) -> str:
    """The two charts as text, at the measured epsilon nearest to one."""
    k = int(np.argmin(np.abs(view.epsilon - epsilon)))
    return (
        f"At epsilon {view.epsilon[k]:g} per cell the reports lie {view.rho[k]:.0f} from the truth;"
        f" Theorem 3 allows {view.theorem[k]:.0f}. Taking reports as they come misses the truth by"
        f" {view.naive[k]:.0f}, allowing for spurious cells by {view.debiased[k]:.0f};"
        f" Equation 5 allows {view.equation_5[k]:.0f}, with 1 for the constant that it leaves open."
        + (" The paper's own rule returns the zero matrix." if rule_is_void(view)[k] else "")
    )


def near(bound: Floats, measured: Floats) -> Floats:
    """A bound where it may be drawn, below ten times what is measured; elsewhere no number."""
    return np.where(bound < DRAWABLE * measured, bound, np.nan)


def bounds_words(view: RecoveryBounds) -> str:
    """Where the bounds on the residual are drawn, and how far they are from what is measured."""
    return " ".join(
        _drawn(name, view.epsilon, bound / view.rho)
        for name, bound in (("Theorem 3", view.theorem), ("our bound", view.tight))
    )


def _drawn(name: str, epsilons: Floats, factor: Floats) -> str:
    shown = [f"{e:g}" for e, f in zip(epsilons, factor, strict=True) if f < DRAWABLE]
    if not shown:
        where = "nowhere"
    elif len(shown) == len(factor):
        where = "everywhere"
    else:
        where = f"at epsilon {', '.join(shown)}"
    return sentence(
        f"{name} is {_times(factor.min())} to {_times(factor.max())} times what is measured, under"
        f" {DRAWABLE:g} times {where}"
    )


def _times(factor: float) -> str:
    return f"{factor:.0f}" if factor >= DRAWABLE else f"{factor:.1f}"


def rule_is_void(view: RecoveryBounds) -> NDArray[np.bool_]:
    """At which epsilons Theorem 3's bound is above the norm of the reports, so that the zero matrix
    is within it and is what the paper's rule returns."""
    return np.asarray(view.theorem >= view.reported)


def table(view: RecoveryBounds) -> dict[str, list[Any]]:
    """The numbers as columns."""
    names = (
        "epsilon per cell",
        "residual at the truth",
        "Theorem 3",
        "by the moments",
        "error, reports as they come",
        "error, allowing for spurious cells",
        "Equation 5",
        "norm of the reports",
        "norm, by the paper's rule",
        "distance from the reports, by the paper's rule",
        "our bound on the residual",
    )
    return {
        name: [float(f"{v:.4g}") for v in column] for name, column in zip(names, view, strict=False)
    }
