"""Z16: Zheng, "Two Differentially Private Rating Collection Mechanisms for Recommender Systems".

Its theorems and equations against practice, on generated ratings whose truth is known: 300 x 200 of
which 30 % are given. The bounds of Theorem 3 are settings of `dpmc_core.mechanisms.collection`.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from dpmc_core import registry
from dpmc_core.privacy import USER_REPLACED
from dpmc_core.ratings import PublicFacts
from dpmc_lab.papers.z16 import NAMES, _sample_ratings, measure_recovery
from tests.theory import make_row


def recovery_error(rho: float, reported: float, constant: float = 1.0) -> float:
    """Equation 5: ||Theta^ - Theta||_F <= C0 p^(-1/2) rho, under restricted isometry.

    reported: p, the share of cells reported; constant: C0, which the paper leaves open. Its
    condition (Definition 4) asks that no matrix of low rank vanish on the reported cells. One that
    is zero but for a cell has rank one, so the condition fails as soon as a cell is not reported.
    """
    return constant * rho / math.sqrt(reported)


def beyond() -> tuple[float, float]:
    """The share of true ratings outside -1..1, which Theorem 3's proof excludes, and the mean of
    all their squares, of which it needs no more than that it is at most 1."""
    _, truth, _ = _sample_ratings(np.random.default_rng(0))
    return float(np.mean(np.abs(truth) > 1)), float(np.mean(truth**2))


@cache
def theorems():
    """Each statement beside a measurement, the same every time."""
    return tuple(_measured())


def _measured():
    public = PublicFacts(users=300, items=200, low=1, high=5)
    for id in NAMES:
        guarantee = registry.create(id, epsilon=1.0).guarantee(public)
        yield make_row(
            f"privacy, {id}",
            bound=guarantee.certified(USER_REPLACED).epsilon,
            printed=float(public.items),
            measured=public.items * loss_of_a_cell(id, 1.0),
        )
        measured = measure_recovery(id, (1.0, 4.0))
        for index in range(2):
            v = {name: float(values[index]) for name, values in measured.items()}
            yield make_row("rho", bound=v["tight"], printed=v["theorem"], measured=v["rho"])
            error, bound, size = v["published"], recovery_error(v["rho"], v["share"]), v["size"]
            yield make_row("error", bound=bound, measured=error, trivial=size)


def loss_of_a_cell(id: str, epsilon: float) -> float:
    """The largest log-ratio of a report's chances between any two contents of a cell: of the ends
    and the middle of the range and no rating, or of six symbols, by Definitions 2 and 3 alone."""
    chances = 1 + math.expm1(epsilon) * np.eye(6)
    if id == "modified-laplace":
        keep_rate, y = 1 / (1 + math.exp(-epsilon / 2)), np.linspace(-3, 3, 25)
        speaks = np.array([[keep_rate], [keep_rate], [keep_rate], [1 - keep_rate]])
        distances = np.abs(y - np.array([[-1], [0], [1], [0]]))
        chances = np.hstack([1 - speaks, speaks * np.exp(-epsilon / 2 * distances)])
    return float(np.ptp(np.log(chances), axis=0).max())
