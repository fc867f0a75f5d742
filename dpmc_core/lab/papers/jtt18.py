"""JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial

import numpy as np

from dpmc_core import experiment, registry
from dpmc_core.data import datasets
from dpmc_core.lab.papers import theory
from dpmc_core.lab.papers.frame import Piece, PieceRecipe, Point, Series, curves, parsed
from dpmc_core.model import Task
from dpmc_core.problem import Problem, RandomShare, build_problem
from dpmc_core.settings import setting_text

FW, OJA, FREE, GUESS = (
    "private-frank-wolfe",
    "private-frank-wolfe-oja",
    "frank-wolfe",
    "user-mean",
)
_OWN = "the matrix's own"


# --- the generated matrix: too large for a store's row with lists --------------------------------


@lru_cache(maxsize=1)
def _drawn(users: int, items: int, seed: int) -> Problem:
    """A draw, split; the one before is let go."""
    made = datasets.load("jtt18-synthetic", users=users, items=items, seed=seed)
    return build_problem(made, Task.RATINGS, split=RandomShare(0.01), seed=seed)


def run(
    users: int,
    items: int,
    settings: Mapping[str, str],
    id: str,
    epsilon: float | None,
    seed: int,
) -> float:
    """RMSE of one run; the nuclear norm is that of the matrix drawn."""
    problem = _drawn(users, items, seed)
    assert problem.truth is not None
    sides = (problem.truth.left, problem.truth.right)
    nuclear = math.prod(float(np.linalg.norm(side)) for side in sides)
    radius = f"{nuclear / math.sqrt(users * items):.3g}"
    texts = {
        name: radius if text == _OWN else text
        for full, text in settings.items()
        for owner, _, name in (full.rpartition("."),)
        if owner in ("", id)
    }
    given = {**registry.published(id).settings, **parsed(id, texts)}
    mechanism = registry.create(id, epsilon=epsilon, delta=1e-6, **given)
    return experiment.run(mechanism, problem, seed, with_baselines=False).metrics["rmse"]


def synthetic(
    users: int,
    items: int,
    epsilons: Sequence[float],
    names: Mapping[str, str],
    methods: Sequence[str],
    settings: Mapping[str, str],
) -> PieceRecipe:
    """Methods on the paper's generated matrix. names: labels, by the id that they begin with."""
    labels = {rule.split()[0]: label for rule, label in names.items()}
    early = [id for id in methods if id != OJA]  # what takes longest comes last

    def pieces(seeds: tuple[int, ...]) -> Iterator[Piece]:
        def one(seed: int, id: str, epsilon: float | None) -> Piece:
            at = "" if epsilon is None else f" {epsilon:g}"
            return Piece(
                f"{seed} {id}{at}", partial(run, users, items, settings, id, epsilon, seed)
            )

        places = sorted(epsilons, key=lambda epsilon: abs(math.log(epsilon)))
        for place in places:
            for seed in seeds:
                if place == places[0]:
                    yield from (one(seed, id, None) for id in (GUESS, FREE))
                yield from (one(seed, id, place) for id in early)
        for place in places if OJA in methods else ():
            yield from (one(seed, OJA, place) for seed in seeds)

    def series(found: Mapping[str, float]) -> tuple[Series, ...]:
        values: dict[tuple[str, str], dict[float | None, list[float]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for key, value in found.items():
            _, id, *at = key.split()
            values[labels[id], id][float(at[0]) if at else None].append(value)
        return curves(
            {of: {x: Point.of(v) for x, v in points.items()} for of, points in values.items()}
        )

    published = {
        f"{id}.{name}": setting_text(value)
        for id in methods
        for name, value in registry.published(id).settings.items()
    }
    return PieceRecipe(
        pieces=pieces,
        series=series,
        settings={"users": users, "items": items, **published, **settings},
        mechanisms=(GUESS, FREE, *methods),
        seeds=(1, 2),
    )


# --- tables --------------------------------------------------------------------------------------


def powers(theorem: str) -> PieceRecipe:
    """What our versions of a theorem give, by the rows of the theory table."""

    def measured() -> list[float]:
        return [row.measured for row in theory.table("JTT18") if row.theorem == theorem]

    def series(found: Mapping[str, list[float]]) -> tuple[Series, ...]:
        row = found["powers"]
        return (Series.exact("Private FW", range(len(row)), row, FW),)

    return PieceRecipe(
        pieces=lambda seeds: [Piece("powers", measured)],  # noqa: ARG005
        series=series,
        settings={"row of the theory table": theorem},
    )
