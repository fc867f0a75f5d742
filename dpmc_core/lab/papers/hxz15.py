"""HXZ15: Hua, Xia, Zhong, "Differentially Private Matrix Factorization" (2015).

Known here by a summary of one page, which names data, metrics and no number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dpmc_core import metrics, registry
from dpmc_core.lab.papers.frame import Piece, PieceRecipe, Point, Series, parsed
from dpmc_core.lab.protocol import Traffic, simulate
from dpmc_core.lab.protocol.scenarios import DynamicUsers, Scenario, ScenarioRun, StaticUsers
from dpmc_core.lab.sweep import open_source
from dpmc_core.model import Model, Task
from dpmc_core.problem import Problem, build_problem, generator
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.rows import with_offsets
from dpmc_core.stopping import check_cancelled

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
    return build_problem(open_source(_DATA).at(0), Task.RATINGS)


def errors(model: Model, problem: Problem) -> dict[str, Any]:
    """Mean absolute error of the predictions, and the shares of them up to each size."""
    test, public = problem.test, problem.train.public
    predicted = np.clip(model.predict(test.users, test.items), public.low, public.high)
    off = np.abs(predicted - test.values)
    return {"mae": float(off.mean()), "shares": metrics.error_cdf(off, _SIZES).tolist()}


def _fitted(id: str, seed: int, **settings: Any) -> dict[str, Any]:
    problem = _problem()
    rng = generator(seed, f"{id} on {problem.train.fingerprint}")
    *_, last = registry.create(id, **settings).fit(problem.train, rng)
    assert last.model is not None
    return errors(last.model, problem)


def _in_phases(epsilon: float, seed: int) -> dict[str, Any]:
    """Scenario 2 by its law, without messages."""
    problem, settings = _problem(), StaticUsers(epsilon=epsilon, shrink=False)
    public, mechanism = problem.train.public, settings.mechanism
    sides = mechanism.sides(problem.train)
    rng = generator(seed, f"scenario 2 on {problem.train.fingerprint}")
    items = simulate.in_phases(settings, settings.parts(public.users), sides, public, rng)
    users = mechanism.fit_users(sides, items)
    return errors(with_offsets(users, items, public.middle), problem)


def _key(label: str, epsilon: float | None, seed: int) -> str:
    return f"{label}{'' if epsilon is None else f' epsilon {epsilon:g}'} seed {seed}"


def _recipe(forms: Forms, series: Any, *, in_phases: bool) -> PieceRecipe:
    """forms: settings of the method, by the label of their curve."""

    def pieces(seeds: tuple[int, ...]) -> Iterator[Piece]:
        for seed in seeds:
            for label, id in _FREE.items():
                yield Piece(_key(label, None, seed), partial(_fitted, id, seed))
            for label, texts in forms.items():
                for epsilon in _EPSILONS:
                    given = {**parsed("dpmf", texts), "epsilon": epsilon}
                    yield Piece(_key(label, epsilon, seed), partial(_fitted, "dpmf", seed, **given))
            for epsilon in _EPSILONS if in_phases else ():
                yield Piece(_key(_IN_PHASES, epsilon, seed), partial(_in_phases, epsilon, seed))

    settings: dict[str, Any] = {"data": _DATA, "epsilons": _EPSILONS, "forms": list(forms)}
    if in_phases:
        settings["forms"].append(_IN_PHASES)
        settings["parts of epsilon by phase"] = {
            f"{e:g}": [part.epsilon for part in StaticUsers(epsilon=e).parts(_USERS)]
            for e in _EPSILONS
        }
    return PieceRecipe(
        pieces=pieces,
        series=series,
        settings=settings,
        mechanisms=("dpmf", *_FREE.values()),
        seeds=(1, 2, 3),
    )


def _seeds_of(found: Mapping[str, Any]) -> list[int]:
    return sorted({int(key.rpartition(" ")[2]) for key in found})


def shares(forms: Forms) -> PieceRecipe:
    """How large the errors are, at each epsilon."""

    def series(found: Mapping[str, Any]) -> Iterator[Series]:
        private = [(f"epsilon {e:g}", "dpmf", form, e) for form in forms for e in _EPSILONS]
        free = [(label, id, label, None) for label, id in _FREE.items()]
        for label, id, form, epsilon in (*free, *private):
            keys = [_key(form, epsilon, seed) for seed in _seeds_of(found)]
            rows = np.array([found[key]["shares"] for key in keys])
            yield Series.of(label, dict(zip(_SIZES, map(Point.of, rows.T), strict=True)), id)

    return _recipe(forms, lambda found: tuple(series(found)), in_phases=False)


def increases(forms: Forms) -> PieceRecipe:
    """How much more the mean error is than without noise, over epsilon."""

    def series(found: Mapping[str, Any]) -> tuple[Series, ...]:
        def more(label: str, epsilon: float | None) -> Point:
            of = (label, epsilon), ("PMF", None)
            pairs = ((found[_key(*one, seed)]["mae"] for one in of) for seed in _seeds_of(found))
            return Point.of([here - without for here, without in pairs])

        guess = dict.fromkeys(_EPSILONS, more("mean rating", None))
        return (
            Series.of("mean rating", guess, _FREE["mean rating"], level=True),
            *(
                Series.of(one, {x: more(one, x) for x in _EPSILONS}, "dpmf")
                for one in (*forms, _IN_PHASES)
            ),
        )

    return _recipe(forms, series, in_phases=True)


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
    return Traffic.total(settings.cost(np.array([users]), users).values()).bytes


def traffic(counted: Sequence[int], by_formula: Sequence[int]) -> PieceRecipe:
    """Bytes over users, whose noise no size knows of."""

    def pieces(seeds: tuple[int, ...]) -> Iterator[Piece]:  # noqa: ARG001
        for name, settings in SCENARIOS.items():
            for users in counted:
                yield Piece(f"{name} {users}", partial(bytes_counted, settings, users))

    def series(found: Mapping[str, Any]) -> Iterator[Series]:
        for name, settings in SCENARIOS.items():
            sizes = [float(bytes_by_formula(settings, users)) for users in by_formula]
            yield Series.exact(f"{name}, by formula", by_formula, sizes)
            sizes = [float(found[f"{name} {users}"]) for users in counted]
            yield Series.exact(f"{name}, counted", counted, sizes)

    return PieceRecipe(
        pieces=pieces,
        series=lambda found: tuple(series(found)),
        settings={name: simulate.shown_settings(one) for name, one in SCENARIOS.items()},
    )
