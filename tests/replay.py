"""Exact sensitivity probe for mechanisms of many rounds.

A round's query depends on what was published before. Two neighbouring data sets are compared under
one history: the second run hears the answers of the first, so the difference of its private values
is what one unit moves, release by release.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from dpmc_core import privacy, releases
from dpmc_core.privacy import sensitivity_at


@contextmanager
def answers_replaced(answers, seen) -> Iterator[None]:
    """Publish as always (the same draws are used up), but answer from the list in order."""
    honest = releases.Additive.publish
    queue = iter(answers)

    def publish(self, value, rng):
        honest(self, value, rng)
        seen.append((self, np.array(value, dtype=float)))
        return next(queue).copy()

    releases.Additive.publish = publish
    try:
        yield
    finally:
        releases.Additive.publish = honest


@dataclass(frozen=True)
class Moved:
    """How far one publication's private value moved, against what its card says."""

    query: str
    change: float
    allowed: float


def moves(mechanism, ratings, other, unit, neighbours, seed=0) -> list[Moved]:
    """One entry a publication: the change between two data sets under the first one's history."""
    with privacy.witness() as publications:
        list(mechanism.fit(ratings, np.random.default_rng(seed)))
    seen = []
    with answers_replaced([p.published for p in publications], seen):
        list(mechanism.fit(other, np.random.default_rng(seed)))
    assert len(seen) == len(publications)
    found = []
    for p, (release, value) in zip(publications, seen, strict=True):
        allowed = sensitivity_at(p.release.sensitivity, unit, neighbours, ratings.public)
        found.append(Moved(release.query, float(np.linalg.norm(p.private - value)), allowed))
    return found
