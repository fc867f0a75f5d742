"""HXZ15: Hua, Xia, Zhong, "Differentially Private Matrix Factorization" (2015).

Known here by a summary of one page, which names data, metrics and no number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any

import numpy as np

from dpmc_core import metrics, registry
from dpmc_core.model import Model, Task
from dpmc_core.problem import Problem, build_problem, create_generator
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.rows import factors_with_offsets
from dpmc_core.stopping import check_cancelled
from dpmc_lab.papers.engine import Trial, TrialRecipe, make_exact_recipe, parse_texts
from dpmc_lab.protocol import Traffic, simulate
from dpmc_lab.protocol.scenarios import DynamicUsers, Scenario, ScenarioRun, StaticUsers
from dpmc_lab.sweep import open_source

_DATA = "ml-100k/u1"
_USERS = 943
_EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
_SIZES = tuple(np.arange(0.0, 4.25, 0.25).tolist())  # up to the width of the ratings' range
_IN_PHASES = "scenario 2, in phases"
_FREE = {"PMF": "pmf", "mean rating": "global-mean"}  # without noise, the same at every epsilon
Forms = Mapping[str, Mapping[str, str]]
SCENARIOS: Mapping[str, Scenario] = {
    "scenario 2": StaticUsers(epsilon=1.0, phases=1),
    "scenario 3": DynamicUsers(epsilon=1.0, phases=1),
}


# --- errors of predictions ----------------------------------------------------------------------


@lru_cache(maxsize=1)
def _problem() -> Problem:
    """The official split u1 of MovieLens 100K. Raises DpmcError, OSError."""
    return build_problem(open_source(_DATA).for_seed(0), Task.RATINGS)


def errors(model: Model, problem: Problem) -> dict[str, Any]:
    """Mean absolute error of the predictions, and the shares of them up to each size."""
    test, public = problem.test, problem.train.public
    predicted = np.clip(model.predict(test.users, test.items), public.low, public.high)
    off = np.abs(predicted - test.values)
    return {"mae": float(off.mean()), "shares": metrics.error_cdf(off, _SIZES).tolist()}


def _fitted(id: str, seed: int, **settings: Any) -> dict[str, Any]:
    problem = _problem()
    rng = create_generator(seed, f"{id} on {problem.train.fingerprint}")
    *_, last = registry.create(id, **settings).fit(problem.train, rng)
    assert last.model is not None
    return errors(last.model, problem)


def _in_phases(epsilon: float, seed: int) -> dict[str, Any]:
    """Scenario 2 by its law, without messages."""
    problem, settings = _problem(), StaticUsers(epsilon=epsilon, shrink=False)
    public, mechanism = problem.train.public, settings.mechanism
    sides = mechanism.build_matrices(problem.train)
    rng = create_generator(seed, f"scenario 2 on {problem.train.fingerprint}")
    items = simulate.simulate_phases(
        settings, settings.phase_mechanisms(public.users), sides, public, rng
    )
    users = mechanism.fit_users(sides, items)
    return errors(factors_with_offsets(users, items, public.middle), problem)


def _free(label: str, value: Any) -> Trial:
    return Trial(label, _FREE[label], None, label, partial(_fitted, _FREE[label]), value)


def _private(form: str, texts: Mapping[str, str], epsilon: float) -> Trial:
    """texts: settings of the method."""
    make = partial(_fitted, "dpmf", **parse_texts("dpmf", texts), epsilon=epsilon)
    return Trial(form, "dpmf", epsilon, f"{form} epsilon {epsilon:g}", make, itemgetter("mae"))


def _recipe(trials: Sequence[Trial], forms: Sequence[str], **more: Any) -> TrialRecipe:
    settings = {"data": _DATA, "epsilons": _EPSILONS, "forms": forms, **more.pop("settings", {})}
    mechanisms = ("dpmf", *_FREE.values())
    return TrialRecipe(
        trials=trials, settings=settings, mechanisms=mechanisms, seeds=(1, 2, 3), **more
    )


def shares(forms: Forms) -> TrialRecipe:
    """How large the errors are, at each epsilon."""

    def value(found: Mapping[str, Any]) -> Mapping[float, float]:
        return dict(zip(_SIZES, found["shares"], strict=True))

    private = [
        _private(form, texts, e)._replace(label=f"epsilon {e:g}", value=value)
        for form, texts in forms.items()
        for e in _EPSILONS
    ]
    return _recipe([*(_free(label, value) for label in _FREE), *private], list(forms))


def increases(forms: Forms) -> TrialRecipe:
    """How much more the mean error is than without noise, over epsilon."""
    mae, budgets = itemgetter("mae"), {}
    trials = [_free("mean rating", mae)]
    trials += [_private(form, texts, e) for form, texts in forms.items() for e in _EPSILONS]
    for e in _EPSILONS:
        key, make = f"{_IN_PHASES} epsilon {e:g}", partial(_in_phases, e)
        trials.append(Trial(_IN_PHASES, "dpmf", e, key, make, mae))
        budgets[f"{e:g}"] = [
            part.epsilon for part in StaticUsers(epsilon=e).phase_mechanisms(_USERS)
        ]
    settings = {"parts of epsilon by phase": budgets}
    return _recipe(trials, [*forms, _IN_PHASES], baseline=_free("PMF", mae), settings=settings)


# --- bytes --------------------------------------------------------------------------------------


def bytes_counted(settings: Scenario, users: int) -> int:
    """Bytes of a run in which so many users rated one item, every message counted."""
    public = PublicFacts(users=users, items=1, low=1, high=5)
    values = np.ones(users) * public.middle
    ratings = Ratings.build(np.arange(users), np.zeros(users, dtype=int), values, public)
    run = ScenarioRun(settings, ratings, np.random.default_rng(0))
    for _ in run.play():
        check_cancelled()
    return run.transcript.total.bytes


def bytes_by_formula(settings: Scenario, users: int) -> int:
    """The same without a run."""
    return Traffic.total(settings.predict_traffic(np.array([users]), users).values()).bytes


def traffic(counted: Sequence[int], by_formula: Sequence[int]) -> TrialRecipe:
    """Bytes over users, whose noise no size knows of."""
    ways = {
        "by formula": (by_formula, bytes_by_formula),
        "counted": (counted, bytes_counted),
    }
    lines = {f"{name}, {way}": (name, *ways[way]) for name in SCENARIOS for way in ways}
    return make_exact_recipe(
        lambda: {
            label: (users, [size(SCENARIOS[name], many) for many in users])
            for label, (name, users, size) in lines.items()
        },
        dict.fromkeys(lines),
        settings={name: simulate.collect_settings(one) for name, one in SCENARIOS.items()},
    )
