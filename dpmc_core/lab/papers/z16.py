"""Z16: Zheng, "Two Differentially Private Rating Collection Mechanisms for Recommender Systems".

What its theorems promise of generated ratings, whose truth is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from dpmc_core.lab.papers import recovery
from dpmc_core.lab.papers.frame import Piece, PieceRecipe, Point, Series

NAMES = {"modified-laplace": "modified Laplace", "randomised-response": "randomised response"}
_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_ZERO = "the zero matrix"
_WHATS = {
    "measured": "rho",
    "Theorem 3": "theorem",
    "norm of the reports": "reported",
    "the paper's rule": "published",
    "allowing for spurious cells": "debiased",
    _ZERO: "size",
}


def recovered(whats: Sequence[str]) -> PieceRecipe:
    """What is recovered of both mechanisms' reports. whats: the curves of each."""

    def pieces(seeds: tuple[int, ...]) -> Iterator[Piece]:
        for seed in seeds:
            for id in NAMES:
                for epsilon in _EPSILONS:
                    yield Piece(f"{seed} {id} {epsilon:g}", partial(_piece, id, epsilon, seed))

    def series(found: Mapping[str, Mapping[str, float]]) -> tuple[Series, ...]:
        values: dict[tuple[str, str], dict[float, list[float]]] = defaultdict(dict)
        for key, row in found.items():
            _, id, epsilon = key.split()
            for what in whats:
                # the zero matrix is the same whatever is reported
                curve = values[("", what) if what == _ZERO else (id, what)]
                if what != _ZERO or id == next(iter(NAMES)):
                    curve.setdefault(float(epsilon), []).append(row[what])
        return tuple(
            Series.of(
                f"{NAMES[id]}, {what}" if id else what,
                {x: Point.of(one) for x, one in points.items()},
                id or None,
                level=not id,
            )
            for (id, what), points in values.items()
        )

    return PieceRecipe(
        pieces=pieces,
        series=series,
        settings={"data": "300 x 200 ratings 1..5 of rank 4, 30 % given", "gamma": "0.05"},
        mechanisms=tuple(NAMES),
        seeds=tuple(range(1, 11)),
    )


def _piece(id: str, epsilon: float, seed: int) -> dict[str, float]:
    found = recovery.bounds(id, [epsilon], seed)
    return {what: float(getattr(found, name)[0]) for what, name in _WHATS.items()}
