"""Simulate whole runs of scenarios 2 and 3 on a problem, and report them.

The module also measures what a trusted server achieves in their place, and what causes the
difference. Some functions for reports serve the federated flow too. HXZ15: Hua, Xia, Zhong,
"Differentially Private Matrix Factorization" (2015).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import experiment, metrics
from dpmc_core.arrays import Floats, JsonObject, Rng
from dpmc_core.mechanisms.factorization import DPMF
from dpmc_core.model import Mechanism, Model, Task
from dpmc_core.privacy.shares import min_group_size
from dpmc_core.problem import Problem, create_generator
from dpmc_core.ratings import PublicFacts
from dpmc_core.registry import create
from dpmc_core.settings import list_settings, serialise_setting
from dpmc_core.solvers.factorization import RatingMatrices
from dpmc_core.solvers.rows import factors_with_offsets, normal_equations
from dpmc_lab.protocol import Traffic, Transcript, attacks
from dpmc_lab.protocol.scenarios import DynamicUsers, Scenario, ScenarioRun, StaticUsers

GapProgress = Callable[[int, int], None]

SCENARIOS: dict[str, type[Scenario]] = {cls.number: cls for cls in (StaticUsers, DynamicUsers)}


def start_scenario_run(
    settings: Scenario, problem: Problem, seed: int, *, watch: int | None = None
) -> ScenarioRun:
    """Return a run on the training ratings, before its first message.

    Args:
        settings: of the scenario.
        problem: the training and test ratings.
        seed: of the run.
        watch: index of the item whose messages are kept, if any.

    Raises:
        DpmcError: the ratings do not fit the scenario.
    """
    rng = create_generator(seed, f"scenario {settings.number} on {problem.train.fingerprint}")
    return ScenarioRun(settings, problem.train, rng, watch=watch)


def report_scenario_run(run: ScenarioRun, problem: Problem, seed: int, gap: Gap) -> JsonObject:
    """Report a run as plain JSON values.

    Everything about raw ratings is for evaluation only.

    Args:
        run: a finished run.
        problem: what it ran on.
        seed: of the run.
        gap: difference from scenario 1 on the same problem.
    """
    settings = run.settings
    public = run.public
    expected = None  # no formula where attendance was random
    if settings.has_full_attendance:
        expected = Traffic.total(settings.predict_traffic(run.raters, public.users).values())
    return {
        "scenario": settings.number,
        "title": settings.title,
        "data": describe_problem_data(problem),
        "settings": collect_settings(settings),
        "seed": seed,
        "guarantee": settings.guarantee(public).as_dict(),
        "rounds": run.rounds,
        "phases": len(run.phases),
        "skipped": {reason: len(skipped) for reason, skipped in run.skipped.items()},
        **evaluate_with_baselines(
            Task.RATINGS, run.build_model(), problem, seed, map(create, ("global-mean", "pmf"))
        ),
        "gap": gap.as_dict(),
        "communication": report_communication(run.transcript, expected)
        | {"bytes per user": run.transcript.total.bytes / public.users},
    }


def run_attacks(run: ScenarioRun) -> JsonObject:
    """Run every attack on the watched item of a finished run, and report plain JSON values."""
    item = run.wire.watch
    assert item is not None
    difference_results = attacks.run_difference_attack(run)
    attendance_results = attacks.run_attendance_attack(run, item)
    sums = attacks.run_sum_attacks(run)
    return {
        "difference": {
            "users": len(difference_results),
            "recovered": sum(result.succeeds for result in difference_results),
            "largest error": max((result.error for result in difference_results), default=None),
        },
        "attendance": {
            "users": len(attendance_results),
            "recovered": sum(result.succeeds for result in attendance_results),
            "centred": any(result.centred for result in attendance_results),
            "largest relative error": max(
                (result.relative_error for result in attendance_results), default=None
            ),
        },
        "passive": sums.passive,
        "active": sums.active,
        "largest entry of A": sums.largest,
    }


def describe_problem_data(problem: Problem) -> JsonObject:
    """Return the name, size and fingerprint of the training ratings, for a report."""
    train = problem.train
    return {
        "name": problem.name,
        "users": train.public.users,
        "items": train.public.items,
        "ratings": len(train),
        "fingerprint": train.fingerprint,
    }


def collect_settings(*sources: Any) -> JsonObject:
    """Return the settings of dataclasses as plain JSON values by name; later ones win."""
    return {
        s.name: serialise_setting(getattr(source, s.name))
        for source in sources
        for s in list_settings(type(source))
    }


def evaluate_with_baselines(
    task: Task, model: Model, problem: Problem, seed: int, baselines: Iterable[Mechanism]
) -> JsonObject:
    """Evaluate a model, and baselines that are fitted here, on the test ratings.

    Args:
        task: what is predicted.
        model: the model.
        problem: the training and test ratings.
        seed: of the baselines and the evaluation.
        baselines: the baselines to fit.

    Returns:
        The metrics of the model, and of each baseline by its id, as plain JSON values.
    """

    def evaluate(model: Model) -> dict[str, float]:
        """Return the metrics of a model; every model gets the same random numbers."""
        rng = create_generator(seed, f"evaluate on {problem.test.fingerprint}")
        return metrics.evaluate(task, model, problem.train, problem.test, rng)

    baseline_metrics = {}
    for baseline in baselines:
        *_, final_step = baseline.fit(problem.train, create_generator(seed, baseline.id))
        assert final_step.model is not None
        baseline_metrics[baseline.id] = evaluate(final_step.model)
    return {
        "metrics": evaluate(model),
        "baselines": baseline_metrics,
        "evaluation": experiment.EVALUATION_ONLY,
    }


def report_communication(transcript: Transcript, expected: Traffic | None) -> JsonObject:
    """Return counted messages and bytes, by kind and in total, as plain JSON values.

    Args:
        transcript: of the run.
        expected: the total traffic by formula; None without one.
    """
    return transcript.total._asdict() | {
        "by kind": {kind: sent._asdict() for kind, sent in transcript.traffic.items()},
        "by formula": None if expected is None else expected._asdict(),
    }


# --- comparison with a trusted server -------------------------------------------------------------

N_DRAWS = 5  # of a run's noise


class MeanWithError(NamedTuple):
    """A mean over draws of the noise, and twice its standard error."""

    mean: float
    error: float

    @classmethod
    def from_values(cls, values: Floats) -> MeanWithError:
        """Return the mean and the error of one value per draw."""
        return cls(float(values.mean()), float(2 * values.std(ddof=1) / np.sqrt(len(values))))


class Gap(NamedTuple):
    """Test RMSE of scenario 1, and what scenario 2 adds to it, which is `refit` plus `split`.

    Everybody is online. The names of the fields are those of a report.

    Attributes:
        trusted: scenario 1 with noise on each coordinate and all of epsilon.
        distributed: scenario 2.
        refit: cost of fitting user factors to published item factors and of ending steps early,
            with all of epsilon in every phase.
        split: cost of dividing epsilon.
        draws: number of draws.
        phases: number of phases.
        held: whether user factors are held instead of fitted in phases.
    """

    trusted: MeanWithError
    distributed: MeanWithError
    refit: MeanWithError
    split: MeanWithError
    draws: int
    phases: int
    held: bool

    def as_dict(self) -> JsonObject:
        """Return plain JSON values; errors are twice the standard error of a mean."""
        return {
            name: value._asdict() if isinstance(value, MeanWithError) else value
            for name, value in self._asdict().items()
        }


def measure_gap(
    settings: Scenario,
    problem: Problem,
    seed: int,
    on_progress: GapProgress | None = None,
    draws: int = N_DRAWS,
) -> Gap:
    """Measure and decompose the difference from scenario 1 on a problem, using raw test ratings.

    Args:
        settings: of scenario 2.
        problem: the training and test ratings.
        seed: of the draws.
        on_progress: called with (finished draws, draws) after each; an exception ends the work.
        draws: number of draws.
    """
    train = problem.train
    public = problem.train.public
    mechanism = settings.mechanism
    rating_matrices = mechanism.build_matrices(train)
    phase_mechanisms = settings.phase_mechanisms(public.users)
    start_rng = create_generator(seed, f"scenario 1 on {train.fingerprint}")
    held_factors = None
    if settings.user_factors is not None:
        held_factors = fitted = settings.user_factors.load(
            mechanism, rating_matrices, public, start_rng
        )
    else:
        *_, (fitted, _) = mechanism.alternate(rating_matrices, start_rng)

    def measure_rmse(items: Floats) -> float:
        """Return the test RMSE of item factors with user factors fitted to them."""
        model = factors_with_offsets(
            mechanism.fit_users(rating_matrices, items), items, public.middle
        )
        return metrics.evaluate(Task.RATINGS, model, train, problem.test, start_rng)["rmse"]

    # All of epsilon in every phase, and epsilon divided over the phases. These are the same plan if
    # there is a single phase.
    plans = [(mechanism,) * len(phase_mechanisms)]
    if len(phase_mechanisms) > 1:
        plans.append(phase_mechanisms)
    errors = np.empty((3, draws))  # the rows are scenario 1 and the two plans
    for k in range(draws):
        key = f"draw {k} on {train.fingerprint}"  # the same random numbers for every epsilon
        items = mechanism.fit_private_items(
            rating_matrices, fitted, public, create_generator(seed, key)
        )
        errors[0, k] = measure_rmse(items)
        # A single phase spends all of epsilon, so one simulation fills the rows of both plans.
        for row, plan in enumerate(plans, 1):
            rng = create_generator(seed, key)
            errors[row:, k] = measure_rmse(
                simulate_phases(settings, plan, rating_matrices, public, rng, held_factors)
            )
        if on_progress is not None:
            on_progress(k + 1, draws)
    trusted, undivided, divided = errors
    return Gap(
        trusted=MeanWithError.from_values(trusted),
        distributed=MeanWithError.from_values(divided),
        refit=MeanWithError.from_values(undivided - trusted),
        split=MeanWithError.from_values(divided - undivided),
        draws=draws,
        phases=len(phase_mechanisms),
        held=held_factors is not None,
    )


def simulate_phases(
    settings: Scenario,
    plan: Sequence[DPMF],
    rating_matrices: RatingMatrices,
    public: PublicFacts,
    rng: Rng,
    held_factors: Floats | None = None,
) -> Floats:
    """Simulate the item factors after all phases of scenario 2, without messages.

    They have the distribution of a run with messages.

    Args:
        settings: of the scenario.
        plan: for each phase, the mechanism with the epsilon that the phase spends.
        rating_matrices: the ratings.
        public: public facts of the ratings.
        rng: random numbers of the first item factors and of the noise.
        held_factors: array of shape (n_users, rank), user factors held throughout, if any.

    Returns:
        Array of shape (n_items, rank).
    """
    mechanism = settings.mechanism
    raters = np.diff(rating_matrices.by_item.indptr)
    items = mechanism.draw_item_factors(public.items, rng)
    for phase_mechanism in plan:
        users = (
            mechanism.fit_users(rating_matrices, items) if held_factors is None else held_factors
        )
        # By item: the sums of u u' and of r u over its raters.
        squares, moments = normal_equations(rating_matrices.by_item, users)
        linear = phase_mechanism.guarantee(public).releases.linear_term.publish(-2 * moments, rng)
        penalty = phase_mechanism.noisy_penalty(public)
        for _ in range(settings.iterations):
            gradient = 2 * np.einsum("jkl,jl->jk", squares, items) + linear + 2 * penalty * items
            items -= gradient / (2 * (raters + penalty))[:, None]
        items[raters < min_group_size(settings.colluding)] = 0.0
    return items
