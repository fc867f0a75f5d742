"""Z16: Zheng, "Two Differentially Private Rating Collection Mechanisms for Recommender Systems".

Its theorems and equations against practice, on generated ratings whose truth is known: 300 x 200 of
which 30 % are given. The bounds of Theorem 3 are settings of `dpmc_core.mechanisms.collection`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, cast

import numpy as np

from dpmc_core import metrics, registry
from dpmc_core.arrays import Floats
from dpmc_core.errors import InvalidSetting
from dpmc_core.mechanisms.collection import Collection
from dpmc_core.model import Factors
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.recovery import Regress, Rule, scale_to_unit_range
from dpmc_lab.papers.engine import Trial, TrialRecipe

NAMES = {"modified-laplace": "modified Laplace", "randomised-response": "randomised response"}


def recovery_error(rho: float, reported: float, constant: float = 1.0) -> float:
    """Equation 5: ||Theta^ - Theta||_F <= C0 p^(-1/2) rho, under restricted isometry.

    reported: p, the share of cells reported; constant: C0, which the paper leaves open. Its
    condition (Definition 4) asks that no matrix of low rank vanish on the reported cells. One that
    is zero but for a cell has rank one, so the condition fails as soon as a cell is not reported.
    """
    return constant * rho / math.sqrt(reported)


class RecoveryBounds(NamedTuple):
    """Against epsilon, on the scale -1..1: rho = ||P(Theta - Z)||_F at the truth, measured,
    bounded by Theorem 3 and told by the channel's moments; the error ||Theta^ - Theta||_F of both
    recoveries, and Equation 5's bound on that of the paper's own with C0 = 1.

    reported: ||P(Z)||_F of the reports. published: the error of the paper's own recovery, Equation
    4: the matrix of least nuclear norm within rho of the reports, so the zero matrix where rho is
    ||P(Z)||_F or more. tight: our bound on rho. size: ||Theta||_F.
    """

    epsilon: Floats
    rho: Floats
    theorem: Floats
    tight: Floats
    moments: Floats
    naive: Floats
    debiased: Floats
    published: Floats
    equation_5: Floats
    reported: Floats
    size: Floats


def _draw_ratings(rng: np.random.Generator) -> tuple[Ratings, Floats, float]:
    """Draw whole-numbered ratings 1..5 of a low-rank matrix of opinions, with noise of one point.

    Of 300 users and 200 items, 30 % of the cells are rated. The opinions are a mean of 3.3 and
    three tastes, in rating points, before rounding and cutting.

    Returns:
        The ratings, the matrix of opinions on the scale -1..1, and the error of the ratings there.
    """
    users, items = 300, 200
    left = np.column_stack([rng.normal(size=(users, 3)) / np.sqrt(3), np.full(users, 3.3)])
    right = np.column_stack([rng.normal(size=(items, 3)), np.ones(items)])
    u, i = np.nonzero(rng.random((users, items)) < 0.3)
    noisy = Factors(left, right).predict(u, i) + rng.normal(size=len(u))
    public = PublicFacts(users=users, items=items, low=1, high=5)
    ratings = Ratings.build(u, i, np.clip(np.rint(noisy), 1, 5), public)
    scaled = scale_to_unit_range(left @ right.T, public)
    given = scale_to_unit_range(ratings.values, ratings.public)
    return ratings, scaled, metrics.rmse(given, scaled[ratings.users, ratings.items])


def _collection(id: str, **settings: Any) -> Collection:
    if not issubclass(registry.get_mechanism(id), Collection):
        raise InvalidSetting("mechanism", "one that collects whole rows", id)
    return cast(Collection, registry.create(id, **settings))


def bounds(id: str, epsilons: Sequence[float], seed: int = 0) -> RecoveryBounds:
    """Collect, measure, recover at each epsilon. Raises InvalidSetting for another mechanism."""
    rng = np.random.default_rng(seed)
    ratings, scaled, misfit = _draw_ratings(rng)
    public, norm = ratings.public, np.linalg.norm
    rows = []
    for epsilon in epsilons:
        create = partial(_collection, id, epsilon=epsilon, intrinsic=misfit / 2)
        mechanism = create()
        channel = mechanism.guarantee(public).releases.rows
        out = channel.publish(mechanism.encode_rows(ratings, channel), rng)
        reports = mechanism.build_reports(out, channel, public)
        rho = float(norm(scaled[reports.pattern.users, reports.pattern.items] - reports.values))
        errors = []
        for recovery, rule in (
            *((recovery, Rule.NOISE_LEVEL) for recovery in Regress),
            (Regress.NAIVE, Rule.THEOREM),  # with Equation 3's rho in the place of its bound
        ):
            solver = create(recovery=recovery, rule=rule)
            *_, last = solver.recover(reports._replace(rho=rho), public, rng, raw=False)
            assert isinstance(last.model, Factors)
            completed = scale_to_unit_range(last.model.left @ last.model.right.T, public)
            errors.append(norm(completed - scaled))
        limits = (
            mechanism.bound_residual(public, len(ratings), tight=tight) for tight in (False, True)
        )
        allowed = recovery_error(rho, out.nnz / scaled.size)
        row = (epsilon, rho, *limits, reports.estimate_residual(1.0), *errors, allowed)
        rows.append((*row, norm(reports.values), norm(scaled)))
    return RecoveryBounds(*np.array(rows, dtype=float).T)


# --- as experiments ----------------------------------------------------------------------------

_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_ZERO = "the zero matrix"
_QUANTITIES = {
    "measured": "rho",
    "Theorem 3": "theorem",
    "norm of the reports": "reported",
    "the paper's rule": "published",
    "allowing for spurious cells": "debiased",
    _ZERO: "size",
}


def recover_ratings(quantities: Sequence[str]) -> TrialRecipe:
    """What is recovered of both mechanisms' reports. quantities: the curves of each."""
    first, *_ = NAMES
    trials = [
        Trial(
            quantity if quantity == _ZERO else f"{name}, {quantity}",
            None if quantity == _ZERO else id,
            epsilon,
            f"{id} {epsilon:g}",
            partial(_measure_recovery, id, epsilon),
            itemgetter(quantity),
            level=quantity == _ZERO,
        )
        for id, name in NAMES.items()
        for quantity in quantities
        if quantity != _ZERO or id == first  # it is the same whatever is reported
        for epsilon in _EPSILONS
    ]
    return TrialRecipe(
        trials=trials,
        settings={
            "data": "300 x 200 ratings 1..5 of rank 4, 30 % given",
            "gamma": "0.05",
            "the paper's rule": "Equation 4 with rho of Equation 3",
        },
        mechanisms=tuple(NAMES),
        seeds=tuple(range(1, 11)),
    )


def _measure_recovery(id: str, epsilon: float, seed: int) -> dict[str, float]:
    result = bounds(id, [epsilon], seed)
    return {quantity: float(getattr(result, name)[0]) for quantity, name in _QUANTITIES.items()}
