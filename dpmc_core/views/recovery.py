"""Theorem 3 of Z16 against practice, on generated ratings whose truth is known.

Z16: Zheng, "Two Differentially Private Rating Collection Mechanisms for Recommender Systems".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core import metrics, registry
from dpmc_core.bounds.collection import recovery_error
from dpmc_core.data.synthetic import known_truth
from dpmc_core.errors import InvalidSetting
from dpmc_core.mechanisms.collection import Collection
from dpmc_core.model import Factors
from dpmc_core.solvers.recovery import Regress, Rule, on_unit_scale

Floats = NDArray[np.float64]


class RecoveryBounds(NamedTuple):
    """Against epsilon, on the scale -1..1: rho = ||P(Theta - Z)||_F at the truth, measured,
    bounded by Theorem 3 and told by the channel's moments; the error ||Theta^ - Theta||_F of both
    recoveries, and Equation 5's bound on it with C0 = 1."""

    epsilon: Floats
    rho: Floats
    theorem: Floats
    moments: Floats
    naive: Floats
    debiased: Floats
    equation_5: Floats


def bounds(id: str, epsilons: Sequence[float]) -> RecoveryBounds:
    """Collect, measure, recover at each epsilon. Raises InvalidSetting for another mechanism."""
    if not issubclass(registry.get(id), Collection):
        raise InvalidSetting("mechanism", "one that collects whole rows", id)
    rng = np.random.default_rng(0)
    generated = known_truth(rng, density=0.3)
    ratings, truth = generated.ratings, generated.truth
    assert truth is not None
    public = ratings.public
    scaled = on_unit_scale(truth.left @ truth.right.T, public)
    given = on_unit_scale(ratings.values, public)
    misfit = metrics.rmse(given, scaled[ratings.users, ratings.items])
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
        errors = []
        for recovery in Regress:
            solver = registry.create(id, **settings, recovery=recovery, rule=Rule.NOISE_LEVEL)
            assert isinstance(solver, Collection)
            *_, last = solver.recover(reports, public, rng, raw=False)
            assert isinstance(last.model, Factors)
            found = on_unit_scale(last.model.left @ last.model.right.T, public)
            errors.append(float(np.linalg.norm(found - scaled)))
        share = out.nnz / scaled.size
        moments = float(np.sqrt(reports.variance * out.nnz))
        rows.append((epsilon, rho, theorem, moments, *errors, recovery_error(theorem, share)))
    return RecoveryBounds(*np.array(rows).T)


def words(view: RecoveryBounds, epsilon: float) -> str:
    """The two charts as text, at the measured epsilon nearest to one."""
    k = int(np.argmin(np.abs(view.epsilon - epsilon)))
    return (
        f"At epsilon {view.epsilon[k]:g} per cell the reports lie {view.rho[k]:.0f} from the truth;"
        f" Theorem 3 allows {view.theorem[k]:.0f}. Taking reports as they come misses the truth by"
        f" {view.naive[k]:.0f}, allowing for spurious cells by {view.debiased[k]:.0f};"
        f" Equation 5 allows {view.equation_5[k]:.0f}."
    )


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
    )
    return {
        name: [float(f"{v:.4g}") for v in column] for name, column in zip(names, view, strict=True)
    }
