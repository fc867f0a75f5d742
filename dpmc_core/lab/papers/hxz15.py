"""HXZ15: Hua, Xia, Zhong, "Differentially Private Matrix Factorization" (2015).

Known here by a summary of one page, which names data, metrics and no number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dpmc_core import metrics, registry
from dpmc_core.lab.papers.frame import (
    BYTES,
    EPSILON_LOG,
    ERROR,
    Axis,
    Experiment,
    Paper,
    Piece,
    PieceRecipe,
    Point,
    Promise,
    Series,
)
from dpmc_core.lab.protocol import simulate, trusted
from dpmc_core.lab.protocol.messages import Traffic
from dpmc_core.lab.protocol.scenarios import DynamicUsers, Scenario, ScenarioRun, StaticUsers
from dpmc_core.lab.sweep import open_source
from dpmc_core.mechanisms.factorization import NoiseForm
from dpmc_core.model import Model, Task
from dpmc_core.privacy import RATING
from dpmc_core.problem import Problem, build_problem, generator
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.factorization import PublicUserFactors
from dpmc_core.solvers.rows import with_offsets
from dpmc_core.stopping import look

_MOVIELENS = PublicFacts(users=943, items=1682, low=1, high=5)
_NETFLIX = PublicFacts(users=191_668, items=100, low=1, high=5)
_SUMMARY = "Known by a one-page summary: no figure, table or number of it can be compared."
_DATA = "ml-100k/u1"
_SEEDS = (1, 2, 3)
_EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
_SIZES = tuple(np.arange(0.0, 4.25, 0.25).tolist())  # up to the width of the ratings' range
_COUNTED, _BY_FORMULA = (10, 100, 1000), (10, 100, 1000, 10_000, _NETFLIX.users)
_PAPER = {"noise": NoiseForm.NORM, "shrink": False}
_FORMS: Mapping[str, Mapping[str, Any]] = {
    "as published": _PAPER,
    "Laplace coordinates": {"noise": NoiseForm.COORDINATE, "shrink": False},
    "our penalty": {"noise": NoiseForm.NORM, "shrink": True},
    "public user factors": {**_PAPER, "user_factors": PublicUserFactors("random:0")},
}
_IN_PHASES = "scenario 2, in phases"
_FREE = {"PMF": "pmf", "mean rating": "global-mean"}  # without noise, the same at every epsilon


def _promises(public: PublicFacts) -> tuple[Promise, ...]:
    return (Promise(mechanism="dpmf", change=RATING, public=public),)


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
    items = trusted.in_phases(
        settings,
        settings.parts(public.users),
        sides,
        public,
        generator(seed, f"scenario 2 on {problem.train.fingerprint}"),
    )
    users = mechanism.fit_users(sides, items)
    return errors(with_offsets(users, items, public.middle), problem)


def _key(label: str, epsilon: float | None, seed: int) -> str:
    return f"{label}{'' if epsilon is None else f' epsilon {epsilon:g}'} seed {seed}"


def _pieces(forms: Sequence[str], seeds: tuple[int, ...]) -> Iterator[Piece]:
    for seed in seeds:
        for label, id in _FREE.items():
            yield Piece(_key(label, None, seed), partial(_fitted, id, seed))
        for label in forms:
            for epsilon in _EPSILONS:
                make = (
                    partial(_in_phases, epsilon, seed)
                    if label == _IN_PHASES
                    else partial(_fitted, "dpmf", seed, epsilon=epsilon, **_FORMS[label])
                )
                yield Piece(_key(label, epsilon, seed), make)


def _recipe(forms: Sequence[str], series: Any) -> PieceRecipe:
    plans = {f"{epsilon:g}": StaticUsers(epsilon=epsilon) for epsilon in _EPSILONS}
    settings: dict[str, Any] = {"data": _DATA, "epsilons": _EPSILONS, "forms": list(forms)}
    if _IN_PHASES in forms:
        settings["parts of epsilon by phase"] = {
            name: [part.epsilon for part in plan.parts(_MOVIELENS.users)]
            for name, plan in plans.items()
        }
    return PieceRecipe(
        pieces=partial(_pieces, forms),
        series=series,
        settings=settings,
        mechanisms=("dpmf", *_FREE.values()),
        seeds=_SEEDS,
    )


def _seeds_of(found: Mapping[str, Any]) -> list[int]:
    return sorted({int(key.rpartition(" ")[2]) for key in found})


def _shares(found: Mapping[str, Any]) -> tuple[Series, ...]:
    seeds, curves = _seeds_of(found), []
    private = ((f"epsilon {epsilon:g}", "as published", epsilon) for epsilon in _EPSILONS)
    for name, label, epsilon in (*((free, free, None) for free in _FREE), *private):
        rows = [found[_key(label, epsilon, seed)]["shares"] for seed in seeds]
        at = {x: Point.of([row[k] for row in rows]) for k, x in enumerate(_SIZES)}
        curves.append(Series.of(name, at, _FREE.get(name, "dpmf")))
    return tuple(curves)


def _increases(found: Mapping[str, Any]) -> tuple[Series, ...]:
    seeds = _seeds_of(found)

    def more(label: str, epsilon: float | None) -> Point:
        pairs = (
            (found[_key(*of, s)]["mae"] for of in ((label, epsilon), ("PMF", None))) for s in seeds
        )
        return Point.of([here - without for here, without in pairs])

    forms = (*_FORMS, _IN_PHASES)
    curves = [Series.of(one, {x: more(one, x) for x in _EPSILONS}, "dpmf") for one in forms]
    guess = {x: more("mean rating", None) for x in _EPSILONS}
    return Series.of("mean rating", guess, _FREE["mean rating"], level=True), *curves


# --- bytes --------------------------------------------------------------------------------------


def _scenarios() -> dict[str, Scenario]:
    return {
        f"scenario {number}": kind(epsilon=1.0, phases=1)
        for number, kind in (("2", StaticUsers), ("3", DynamicUsers))
    }


def _counted(settings: Scenario, users: int) -> int:
    """Bytes of a run in which so many users rated one item, every message counted."""
    public = PublicFacts(users=users, items=1, low=1, high=5)
    values = np.ones(users) * public.middle
    ratings = Ratings.build(np.arange(users), np.zeros(users, dtype=int), values, public)
    run = ScenarioRun(settings, ratings, np.random.default_rng(0))
    for _ in run.play():
        look()
    return run.transcript.total.bytes


def _by_formula(settings: Scenario, users: int) -> int:
    cost = settings.cost(np.array([users]), users)
    return Traffic.total(cost.values()).bytes


def _bytes(seeds: tuple[int, ...]) -> Iterator[Piece]:  # noqa: ARG001 - no noise reaches a size
    for name, settings in _scenarios().items():
        for users in _COUNTED:
            yield Piece(f"{name} {users}", partial(_counted, settings, users))


def _traffic(found: Mapping[str, Any]) -> tuple[Series, ...]:
    curves = []
    for name, settings in _scenarios().items():
        sizes = [float(_by_formula(settings, users)) for users in _BY_FORMULA]
        curves.append(Series.exact(f"{name}, by formula", _BY_FORMULA, sizes))
        counted = [float(found[f"{name} {users}"]) for users in _COUNTED]
        curves.append(Series.exact(f"{name}, counted", _COUNTED, counted))
    return tuple(curves)


_NOT_PRINTED = (
    "Factor length, penalties and rounds are not in the summary: this program's defaults.",
    "The summary names no split: the official split u1 of MovieLens 100K.",
)


PAPER = Paper(
    key="HXZ15",
    title="Differentially Private Matrix Factorization",
    authors=("Jingyu Hua", "Chang Xia", "Sheng Zhong"),
    year=2015,
    venue="IJCAI",
    entry="inproceedings",
    more={
        "booktitle": "Proceedings of the 24th International Joint Conference on Artificial"
        " Intelligence (IJCAI)",
        "pages": "1763--1770",
    },
    unjudged=_SUMMARY,
    theory=False,
    experiments=(
        Experiment(
            id="hxz15-cdf",
            place="summary, performance",
            title="How large the errors are at several epsilons, MovieLens 100K",
            x=ERROR,
            y=Axis("share of held-out ratings with an error up to this"),
            promises=_promises(_MOVIELENS),
            unknown=_NOT_PRINTED,
            recipe=_recipe(["as published"], _shares),
        ),
        Experiment(
            id="hxz15-increase",
            place="summary, performance",
            title="Mean increase of the error over the same method without privacy, MovieLens 100K",
            x=EPSILON_LOG,
            y=Axis("mean increase of the absolute error (rating points)"),
            promises=_promises(_MOVIELENS),
            why="Only with public user factors is epsilon per rating proved: in the other curves"
            " they are fitted to the ratings.",
            unknown=_NOT_PRINTED,
            recipe=_recipe([*_FORMS, _IN_PHASES], _increases),
        ),
        Experiment(
            id="hxz15-communication",
            place="summary, performance",
            title="Bytes that the untrusted recommender costs, scenarios 2 and 3",
            x=Axis("users of one item", log=True),
            y=BYTES,
            promises=_promises(_MOVIELENS),
            changed=("One phase; each further one costs as much again.",),
            unknown=(
                "The size of a message is not in the summary: 8 bytes for a number, 8 for which"
                " item and round it is about.",
            ),
            recipe=PieceRecipe(
                pieces=_bytes,
                series=_traffic,
                settings={name: simulate.shown_settings(one) for name, one in _scenarios().items()},
            ),
        ),
        Experiment(
            id="hxz15-netflix",
            place="summary, data",
            title="The same on Netflix ratings, 191,668 users and 100 films",
            x=EPSILON_LOG,
            y=Axis("mean increase of the absolute error (rating points)"),
            promises=_promises(_NETFLIX),
            not_run="the Netflix ratings are no longer given out",
        ),
    ),
)
