"""HXZ15: Hua, Xia, Zhong, "Differentially Private Matrix Factorization" (2015).

We know it by a summary of one page, which names data and metrics but no number.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dpmc_core import registry
from dpmc_core.model import Model, Task
from dpmc_core.preparation import parse_step
from dpmc_core.problem import Problem, build_problem, create_generator
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.rows import factors_with_offsets
from dpmc_core.stopping import check_cancelled
from dpmc_lab.papers.engine import Trial, TrialRecipe, make_exact_recipe, parse_texts
from dpmc_lab.protocol import Traffic, simulate
from dpmc_lab.protocol.scenarios import DynamicUsers, Scenario, ScenarioRun, StaticUsers
from dpmc_lab.sweep import open_source

_DATA = "ml-100k/u1"
_EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
_SIZES = tuple(np.arange(0.0, 4.25, 0.25).tolist())  # up to the width of the ratings' range
_IN_PHASES = "scenario 2, in phases"
_FREE = {"PMF": "pmf", "mean rating": "global-mean"}  # without noise, the same at every epsilon
Forms = Mapping[str, Mapping[str, str]]
Source = tuple[str, str]  # data, and how it is prepared
SCENARIOS: Mapping[str, Scenario] = {
    "scenario 2": StaticUsers(epsilon=1.0, phases=1),
    "scenario 3": DynamicUsers(epsilon=1.0, phases=1),
}


# --- errors of predictions ----------------------------------------------------------------------


@lru_cache(maxsize=1)
def _load_problem(data: str, step: str) -> Problem:
    """Load data, prepared by a step if one is given; raises DpmcError, OSError."""
    steps = [parse_step(step)] if step else []
    return build_problem(open_source(data).for_seed(0), Task.RATINGS, steps=steps)


def measure_errors(model: Model, problem: Problem) -> dict[str, Any]:
    """Return the mean absolute error of predictions, and the share of errors up to each size."""
    test, public = problem.test, problem.train.public
    predicted = np.clip(model.predict(test.users, test.items), public.low, public.high)
    absolute_errors = np.abs(predicted - test.values)
    return {
        "mae": float(absolute_errors.mean()),
        "shares": [float((absolute_errors <= size).mean()) for size in _SIZES],
    }


def _measure_fit(id: str, source: Source, seed: int, **settings: Any) -> dict[str, Any]:
    """Fit a mechanism to the training ratings, and return its errors on the test ratings."""
    problem = _load_problem(*source)
    rng = create_generator(seed, f"{id} on {problem.train.fingerprint}")
    *_, last = registry.create(id, **settings).fit(problem.train, rng)
    assert last.model is not None
    return measure_errors(last.model, problem)


@lru_cache(maxsize=10)
def _measure_pmf(source: Source, seed: int) -> float:
    """Return the mean absolute error without noise."""
    return float(_measure_fit("pmf", source, seed)["mae"])


def _measure_phases(source: Source, epsilon: float, seed: int) -> dict[str, Any]:
    """Measure scenario 2 from the distribution of its noise, without sending messages."""
    problem, settings = _load_problem(*source), StaticUsers(epsilon=epsilon, shrink=False)
    public, mechanism = problem.train.public, settings.mechanism
    matrices = mechanism.build_matrices(problem.train)
    rng = create_generator(seed, f"scenario 2 on {problem.train.fingerprint}")
    items = simulate.simulate_phases(
        settings, settings.phase_mechanisms(public.users), matrices, public, rng
    )
    users = mechanism.fit_users(matrices, items)
    return measure_errors(factors_with_offsets(users, items, public.middle), problem)


def _build_trials(source: Source, forms: Forms, value: Callable[[Any], Any]) -> list[Trial]:
    """Return the runs without noise, and those of each form of the method at each epsilon."""
    free = [
        Trial(label, id, None, label, partial(_measure_fit, id, source), value)
        for label, id in _FREE.items()
    ]
    return free + [
        Trial(form, "dpmf", e, f"{form} epsilon {e:g}", partial(make, epsilon=e), value)
        for form, texts in forms.items()
        for make in (partial(_measure_fit, "dpmf", source, **parse_texts("dpmf", texts)),)
        for e in _EPSILONS
    ]


def _build_recipe(
    trials: Sequence[Trial], data: str, forms: Iterable[str], settings: Mapping[str, Any]
) -> TrialRecipe:
    """Return the recipe of trials, with what a result states of them."""
    return TrialRecipe(
        trials,
        {"data": data, "epsilons": _EPSILONS, "forms": list(forms), **settings},
        ("dpmf", *_FREE.values()),
        (1, 2, 3),
    )


def share_errors(forms: Forms) -> TrialRecipe:
    """Return the recipe of the shares of errors up to each size, at each epsilon."""

    def get_shares(output: Mapping[str, Any]) -> Mapping[float, float]:
        return dict(zip(_SIZES, output["shares"], strict=True))

    trials = [
        trial if trial.x is None else trial._replace(label=f"epsilon {trial.x:g}")
        for trial in _build_trials((_DATA, ""), forms, get_shares)
    ]
    return _build_recipe(trials, _DATA, forms, {})


def increase_errors(
    forms: Forms, data: str = _DATA, step: str = "", users: int = 943
) -> TrialRecipe:
    """Return the recipe of how much larger than without noise the mean error is, over epsilon."""
    source = data, step

    def measure_increase(measure: Callable[[int], dict[str, Any]], seed: int) -> float:
        return float(measure(seed)["mae"] - _measure_pmf(source, seed))

    trials = [t for t in _build_trials(source, forms, float) if t.mechanism != "pmf"]
    trials += [
        Trial(
            _IN_PHASES,
            "dpmf",
            e,
            f"{_IN_PHASES} epsilon {e:g}",
            partial(_measure_phases, source, e),
        )
        for e in _EPSILONS
    ]
    budgets = {
        f"{e:g}": [phase.epsilon for phase in StaticUsers(epsilon=e).phase_mechanisms(users)]
        for e in _EPSILONS
    }
    increases = [
        trial._replace(key=f"increase, {trial.key}", make=partial(measure_increase, trial.make))
        for trial in trials
    ]
    return _build_recipe(
        increases, data, [*forms, _IN_PHASES], {"parts of epsilon by phase": budgets}
    )


# --- bytes --------------------------------------------------------------------------------------


def count_bytes_of_run(settings: Scenario, users: int) -> int:
    """Count the bytes of all messages of a run in which so many users rated one item."""
    public = PublicFacts(users=users, items=1, low=1, high=5)
    values = np.ones(users) * public.middle
    ratings = Ratings.build(np.arange(users), np.zeros(users, dtype=int), values, public)
    run = ScenarioRun(settings, ratings, np.random.default_rng(0))
    for _ in run.play():
        check_cancelled()
    return run.transcript.total.bytes


def compute_bytes(settings: Scenario, users: int) -> int:
    """Compute the same by a formula, without a run."""
    return Traffic.total(settings.predict_traffic(np.array([users]), users).values()).bytes


def count_bytes(counted: Sequence[int], by_formula: Sequence[int]) -> TrialRecipe:
    """Return the recipe of the bytes over the number of users; noise does not change them."""
    methods = {"by formula": (by_formula, compute_bytes), "counted": (counted, count_bytes_of_run)}
    lines = {
        f"{name}, {method}": (name, *methods[method]) for name in SCENARIOS for method in methods
    }
    return make_exact_recipe(
        lambda: {
            label: (users, [size(SCENARIOS[name], n_users) for n_users in users])
            for label, (name, users, size) in lines.items()
        },
        dict.fromkeys(lines),
        settings={name: simulate.collect_settings(s) for name, s in SCENARIOS.items()},
    )
