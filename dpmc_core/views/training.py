"""Pictures of a trained model on held-out ratings: evaluation only, never private."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core import toplists
from dpmc_core.links import LOGISTIC, Link
from dpmc_core.metrics import error_cdf
from dpmc_core.model import Mechanism, Model, Task
from dpmc_core.ratings import Ratings
from dpmc_core.views.data import title

Floats = NDArray[np.float64]

_TOP = 10  # items shown of a user


class ErrorCdf(NamedTuple):
    """Share of held-out ratings with an error of at most x."""

    error: Floats
    share: Floats


class CalibrationCurve(NamedTuple):
    """Equal-sized groups of held-out ratings by predicted value, from low to high.

    predicted: mean prediction of the group; observed: mean truth; size: ratings in it. For BINARY
    both are chances of +1 (the prediction through the link), else rating points.
    """

    predicted: Floats
    observed: Floats
    size: NDArray[np.int64]


class TopItem(NamedTuple):
    """One recommended item: index, title and score."""

    item: int
    title: str
    score: float


def link_of(mechanism: Mechanism) -> Link:
    """How a binary mechanism's score becomes the chance of +1; logistic where it does not say."""
    link: Link = getattr(mechanism, "link", LOGISTIC)
    return link


def errors(task: Task, model: Model, test: Ratings, link: Link = LOGISTIC) -> Floats:
    """|prediction - truth| per held-out rating: rating points, or for BINARY |P(+1) - 1{Y=+1}|."""
    if task is Task.BINARY:
        chance = link.probability(model.predict(test.users, test.items))
        return np.abs(chance - (test.values > 0))
    clipped = np.clip(model.predict(test.users, test.items), test.public.low, test.public.high)
    return np.abs(clipped - test.values)


def cdf(task: Task, model: Model, test: Ratings, link: Link = LOGISTIC) -> ErrorCdf:
    """The error CDF on a grid over all possible errors."""
    widest = 1.0 if task is Task.BINARY else test.public.width
    grid = np.linspace(0.0, widest, 101)
    return ErrorCdf(grid, error_cdf(errors(task, model, test, link), grid))


def calibration(
    task: Task, model: Model, test: Ratings, link: Link = LOGISTIC, groups: int = 12
) -> CalibrationCurve:
    """Mean truth against mean prediction in groups of equal size."""
    predicted = model.predict(test.users, test.items)
    truth = test.values
    if task is Task.BINARY:
        predicted, truth = link.probability(predicted), (truth > 0).astype(float)
    order = np.argsort(predicted, kind="stable")
    parts = [p for p in np.array_split(order, min(groups, len(order))) if len(p)]
    return CalibrationCurve(
        np.array([predicted[p].mean() for p in parts]),
        np.array([truth[p].mean() for p in parts]),
        np.array([len(p) for p in parts], dtype=np.int64),
    )


def spectrum(model: Model, limit: int = 40) -> Floats | None:
    """The largest singular values of a model with factors, from large to small; else None.

    From the QR of each side: the triangular factors' product has the same singular values.
    """
    if model.factors is None:
        return None
    left, right = np.linalg.qr(model.factors.left)[1], np.linalg.qr(model.factors.right)[1]
    values: Floats = np.linalg.svd(left @ right.T, compute_uv=False)[:limit]
    return values


def top_items(model: Model, train: Ratings, user: int) -> tuple[TopItem, ...]:
    """The ten highest-scored items a user has not rated in training (ties: the lower index)."""
    found = zip(*toplists.best(model, train, user, _TOP), strict=True)
    return tuple(TopItem(int(i), title(train, int(i)), float(score)) for i, score in found)


def cdf_words(private: ErrorCdf, clear: ErrorCdf | None) -> str:
    """The error CDF as text."""
    text = f"Half of the held-out ratings have an error of at most {_median(private):.2g}"
    return text + (f", without privacy {_median(clear):.2g}." if clear else ".")


def calibration_words(view: CalibrationCurve) -> str:
    """The calibration as text."""
    gap = np.average(np.abs(view.predicted - view.observed), weights=view.size)
    return f"Predictions in {len(view.size)} equal groups are off by {gap:.2g} on average."


def spectrum_words(values: Floats) -> str:
    """The singular values as text."""
    share = float(values[:5].sum() / values.sum()) if values.sum() > 0 else 0.0
    return (
        f"{len(values)} singular values, the largest {values.max(initial=0):.3g}; the first five"
        f" hold {share:.0%} of their sum."
    )


def _median(view: ErrorCdf) -> float:
    return float(view.error[np.argmax(view.share >= 0.5)])
