"""Z16: Zheng, "Two Differentially Private Rating Collection Mechanisms for Recommender Systems".

Its theorems and equations against practice, on generated ratings with a known truth: 300 users and
200 items, of which 30 % are rated. `dpmc_core.mechanisms.collection` has the bounds of Theorem 3.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import cast

import numpy as np

from dpmc_core import metrics, registry
from dpmc_core.arrays import Floats
from dpmc_core.mechanisms.collection import Collection
from dpmc_core.model import Factors
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.recovery import Regress, Reports, Rule, scale_to_unit_range
from dpmc_lab.papers.engine import Trial, TrialRecipe, parse_texts

NAMES = {"modified-laplace": "modified Laplace", "randomised-response": "randomised response"}


def _sample_ratings(rng: np.random.Generator) -> tuple[Ratings, Floats, float]:
    """Draw whole-numbered ratings 1..5 of a low-rank matrix of opinions, with noise of one point.

    The opinions are a mean of 3.3 and three tastes, in rating points, before rounding and cutting.

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
    truth = scale_to_unit_range(left @ right.T, public)
    scaled = scale_to_unit_range(ratings.values, ratings.public)
    return ratings, truth, metrics.rmse(scaled, truth[ratings.users, ratings.items])


def _collect(mechanism: Collection, ratings: Ratings, rng: np.random.Generator) -> Reports:
    channel = mechanism.guarantee(ratings.public).releases.rows
    out = channel.publish(mechanism.encode_rows(ratings, channel), rng)
    return mechanism.build_reports(out, channel, ratings.public)


def measure_algorithms(
    algorithms: Mapping[str, Mapping[str, str]], id: str, epsilon: float, seed: int
) -> dict[str, float]:
    """Fit algorithms without privacy to reports, as if these were ratings.

    Reports of modified Laplace beyond the range of ratings are cut to it.

    Returns:
        ||Theta^ - Theta||_F on the scale -1..1 by algorithm, and ||Theta||_F.
    """
    rng, norm = np.random.default_rng(seed), np.linalg.norm
    ratings, truth, _ = _sample_ratings(rng)
    public = ratings.public
    pattern, values, *_ = _collect(
        cast(Collection, registry.create(id, epsilon=epsilon)), ratings, rng
    )
    reports = public.middle + public.half_width * np.clip(values, -1, 1)
    reported = Ratings.build(pattern.users, pattern.items, reports, public)
    errors = {_ZERO: float(norm(truth))}
    for algorithm, texts in algorithms.items():
        *_, last = registry.create(algorithm, **parse_texts(algorithm, texts)).fit(reported, rng)
        assert last.model is not None
        predicted = np.asarray(last.model.predict(*np.indices(public.shape)), dtype=float)
        errors[algorithm] = float(norm(scale_to_unit_range(predicted, public) - truth))
    return errors


def measure_recovery(id: str, epsilons: Sequence[float], seed: int = 0) -> dict[str, Floats]:
    """Collect the ratings with a mechanism at each epsilon, and measure reports and recoveries.

    Returns:
        On the scale -1..1, for each epsilon: `rho` = ||P(Theta - Z)||_F at the truth; its bound of
        Theorem 3, `theorem`, and ours, `tight`; and `moments`, the same from the channel's moments.
        ||P(Z)||_F of the reports is `reported`, and ||Theta||_F `size`. The error
        ||Theta^ - Theta||_F is that of both recoveries, `naive` and `debiased`, and of the paper's
        own, `published`: Equation 4, the matrix of least nuclear norm within rho of the reports,
        so the zero matrix where rho is ||P(Z)||_F or more. `share` is that of the cells reported.
    """
    rng, norm = np.random.default_rng(seed), np.linalg.norm
    ratings, truth, misfit = _sample_ratings(rng)
    public, rows = ratings.public, []
    for epsilon in epsilons:
        create = partial(registry.create, id, epsilon=epsilon, intrinsic=misfit / 2)
        mechanism = cast(Collection, create())
        reports = _collect(mechanism, ratings, rng)
        rho = float(norm(truth[reports.pattern.users, reports.pattern.items] - reports.values))
        errors = {}
        for name, recovery, rule in (
            *((recovery.value, recovery, Rule.NOISE_LEVEL) for recovery in Regress),
            ("published", Regress.NAIVE, Rule.THEOREM),  # with Equation 3's rho for its bound
        ):
            solver = cast(Collection, create(recovery=recovery, rule=rule))
            *_, last = solver.recover(reports._replace(rho=rho), public, rng, raw=False)
            assert isinstance(last.model, Factors)
            errors[name] = norm(
                scale_to_unit_range(last.model.left @ last.model.right.T, public) - truth
            )
        rows.append(
            errors
            | {
                "rho": rho,
                "theorem": mechanism.bound_residual(public, len(ratings), tight=False),
                "tight": mechanism.bound_residual(public, len(ratings), tight=True),
                "moments": reports.estimate_residual(1.0),
                "share": len(reports.values) / truth.size,
                "reported": norm(reports.values),
                "size": norm(truth),
            }
        )
    return {name: np.array([row[name] for row in rows], dtype=float) for name in rows[0]}


# --- as experiments ----------------------------------------------------------------------------

_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_DATA = "300 x 200 ratings 1..5 of rank 4, 30 % given"
_ZERO = "the zero matrix"
_MEASUREMENTS = {  # the name in `measure_recovery` of what a curve is labelled with
    "measured": "rho",
    "Theorem 3": "theorem",
    "norm of the reports": "reported",
    "the paper's rule": "published",
    "allowing for spurious cells": "debiased",
    _ZERO: "size",
}


def _list_trials(
    measure: Callable[[str, float, int], dict[str, float]],
    names: Mapping[str, str],
    epsilons: Sequence[float],
) -> list[Trial]:
    """Return the runs of both mechanisms; `names` has what is measured by its label."""
    first, *_ = NAMES
    return [
        Trial(
            label if label == _ZERO else f"{mechanism}, {label}",
            None if label == _ZERO else id,
            epsilon,
            f"{id} {epsilon:g}",
            partial(measure, id, epsilon),
            itemgetter(name),
            level=label == _ZERO,
        )
        for id, mechanism in NAMES.items()
        for label, name in names.items()
        if label != _ZERO or id == first  # it is the same whatever is reported
        for epsilon in epsilons
    ]


def use_algorithms(
    algorithms: Mapping[str, Mapping[str, str]],
    labels: Mapping[str, str],
    epsilons: Sequence[float],
) -> TrialRecipe:
    """Return the recipe of the error of algorithms that take reports for ratings."""
    return TrialRecipe(
        _list_trials(partial(measure_algorithms, algorithms), {**labels, _ZERO: _ZERO}, epsilons),
        settings={"data": _DATA, "algorithms": dict(algorithms)},
        mechanisms=(*NAMES, *algorithms),
        seeds=(1, 2, 3, 4, 5),
    )


def recover_ratings(quantities: Sequence[str]) -> TrialRecipe:
    """Return the recipe of curves of some quantities, for the reports of both mechanisms."""

    def measure(id: str, epsilon: float, seed: int) -> dict[str, float]:
        measured = measure_recovery(id, [epsilon], seed)
        return {label: float(measured[name][0]) for label, name in _MEASUREMENTS.items()}

    trials = _list_trials(measure, dict(zip(quantities, quantities, strict=True)), _EPSILONS)
    return TrialRecipe(
        trials,
        {
            "data": _DATA,
            "gamma": "0.05",
            "the paper's rule": "Equation 4 with rho of Equation 3",
        },
        mechanisms=tuple(NAMES),
        seeds=tuple(range(1, 11)),
    )
