"""Runs of mechanisms: their models, what they publish, and an exact sensitivity probe.

A round's query depends on what was published before. Two neighbouring data sets are compared under
one history: the second run hears the answers of the first, so the difference of its private values
is what one unit moves, release by release.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmc_core import privacy
from dpmc_core.privacy import sensitivity_at


def fit_model(mechanism, ratings, seed=0):
    """The model of the last step."""
    *_, last = mechanism.fit(ratings, np.random.default_rng(seed))
    return last.model


def predict_all(model, shape):
    """The predictions for every user and item."""
    return model.predict(np.arange(shape[0])[:, None], np.arange(shape[1]))


def record_fit(mechanism, ratings, seed=0, replayed=None):
    """What a run publishes; replayed: publications of an earlier run, whose answers it hears."""
    with privacy.record_publications(replayed=replayed) as publications:
        list(mechanism.fit(ratings, np.random.default_rng(seed)))
    return publications


@dataclass(frozen=True)
class ValueChange:
    """How far one publication's private value moved, against what its card says."""

    query: str
    change: float
    allowed: float


def measure_changes(mechanism, ratings, other, change, seed=0) -> list[ValueChange]:
    """One entry a publication: the change between two data sets under the first one's history."""
    publications = record_fit(mechanism, ratings, seed)
    replayed = record_fit(mechanism, other, seed, publications)
    changes = []
    for p, q in zip(publications, replayed, strict=True):
        allowed = sensitivity_at(p.release.sensitivity, change, ratings.public)
        changes.append(ValueChange(q.release.query, l2_distance(p.private, q.private), allowed))
    return changes


def l2_distance(first, second) -> float:
    """The l2 distance of two private values."""
    return float(np.linalg.norm(first - np.asarray(second, dtype=float)))


@dataclass(frozen=True)
class Observation:
    """What others can see of a run: their predictions, and what no trace marks as raw, by step."""

    other_predictions: list
    user_predictions: list
    public_traces: list


def observe_run(steps, user, shape) -> Observation:
    """The steps of a run as everybody but `user` sees them, and that user's own predictions."""
    scores = [None if s.model is None else predict_all(s.model, shape) for s in steps]
    return Observation(
        [None if s is None else np.delete(s, user, axis=0) for s in scores],
        [None if s is None else s[user] for s in scores],
        [{k: v for k, v in s.trace.items() if k not in s.raw} for s in steps],
    )


def replay_run(mechanism, ratings, other, user, seed=0) -> tuple[Observation, Observation]:
    """The run on one data set, and on another one that is answered as the first was.

    Where the two differ in one user's row alone, a mechanism that lets raw values past its
    releases shows it to somebody else, or in a trace.
    """
    with privacy.record_publications() as publications:
        first_run = list(mechanism.fit(ratings, np.random.default_rng(seed)))
    with privacy.record_publications(replayed=publications) as replayed:
        second_run = list(mechanism.fit(other, np.random.default_rng(seed)))
    assert len(replayed) == len(publications)
    return observe_run(first_run, user, ratings.shape), observe_run(second_run, user, ratings.shape)
