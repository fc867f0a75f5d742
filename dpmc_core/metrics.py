"""Measures of a model on held-out ratings: for evaluation only, never private."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmc_core.arrays import Bools, Floats, Integers, Ints, Rng, Sparse
from dpmc_core.errors import BadRatings, capitalise
from dpmc_core.model import Factors, Model, Task
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.stopping import check_cancelled

CELLS_PER_BLOCK = 4_000_000  # cells scored at once: 32 MB
LIST_LENGTH = 10  # length of the list whose hits count


@dataclass(frozen=True)
class Metric:
    """A measure of held-out quality, with the texts and number formats in which it is displayed.

    Attributes:
        name: its column in tables and its key in JSON.
        label: its name within a sentence.
        explanation: what it measures, as a sentence.
        lower_is_better: whether smaller values are better.
        is_share: whether it is a share in 0..1, displayed in percent.
        unit: the unit of its values; empty if they have none.
        candidates: which items a held-out item is ranked among; empty for other tasks.
    """

    name: str
    label: str
    explanation: str
    lower_is_better: bool = False
    is_share: bool = False
    unit: str = ""
    candidates: str = ""

    @property
    def sign(self) -> float:
        """The factor that makes a difference positive if it is an improvement."""
        return -1.0 if self.lower_is_better else 1.0

    @property
    def title(self) -> str:
        """The name at the start of a sentence."""
        return capitalise(self.label)

    @property
    def axis_title(self) -> str:
        """The title of an axis on which up is better, which it states if lower values are."""
        notes = [self.unit and f"in {self.unit}", "up is better" * self.lower_is_better]
        suffix = f" ({', '.join(filter(None, notes))})" if any(notes) else ""
        if self.candidates and self.is_share:
            return f"Next item among ten suggestions ({self.panel_title})"
        return f"{self.panel_title}{',' * bool(self.candidates)} on held-out ratings{suffix}"

    @property
    def panel_title(self) -> str:
        """The title of a chart, with the ranking candidates by which such charts differ."""
        return f"{self.title}, {self.candidates}" if self.candidates else self.title

    @property
    def number_format(self) -> str:
        """The format specification of a value, for Python and for charts."""
        return ".1%" if self.is_share else ".3f"

    @property
    def unit_label(self) -> str:
        """The label of a bare number, such as 'accuracy, share'."""
        return ", ".join(filter(None, (self.label, self.unit or "share" * self.is_share)))

    def format_value(self, value: float) -> str:
        """Format a value without its unit."""
        return f"{100 * value:.1f} %" if self.is_share else f"{value:.3f}"

    def format_with_unit(self, value: float) -> str:
        """Format a value with its unit."""
        return f"{self.format_value(value)} {self.unit}".rstrip()

    def in_units_of(self, public: PublicFacts) -> Metric:
        """Return the metric in the unit of a range: rating points from 1 to 5 are called stars."""
        stars = self.unit and (public.low, public.high) == (1, 5)
        return replace(self, unit="stars") if stars else self

    def format_difference(self, value: float) -> str:
        """Format the absolute value of a difference; return '' if it rounds to zero."""
        size = f"{100 * abs(value):.1f}" if self.is_share else f"{abs(value):.3f}"
        if float(size) == 0:
            return ""
        return f"{size} points" if self.is_share else f"{size} {self.unit}".rstrip()

    def is_reached(self, value: float, target: float) -> bool:
        """Return whether a value is at least as good as a target."""
        return self.sign * value >= self.sign * target


_ACCURACY = "The share of held-out likes and dislikes that are predicted correctly."
_ARE = "The squared error over all cells, relative to the squares of the true values."
_RMSE = "How far predicted ratings are off, in rating points: the root of the mean squared error."
_MAE = "How far predicted ratings are off on average, in rating points."
_HR = f"HR@{LIST_LENGTH}: how often a held-out item is among the first {LIST_LENGTH} of the list."
_NDCG = f"NDCG@{LIST_LENGTH}: the further down the list the item is, the less it counts."
_POINTS = "rating points"
_SAMPLED, _FULL = "99 sampled negatives", "all unseen items"

METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric("accuracy", "accuracy", _ACCURACY, is_share=True),
            Metric("are", "ARE", _ARE, lower_is_better=True),
            Metric("rmse", "RMSE", _RMSE, lower_is_better=True, unit=_POINTS),
            Metric("mae", "MAE", _MAE, lower_is_better=True, unit=_POINTS),
            Metric("hr@10", "HR@10", _HR, is_share=True, candidates=_SAMPLED),
            Metric("ndcg@10", "NDCG@10", _NDCG, candidates=_SAMPLED),
            Metric("hr@10_full", "HR@10", _HR, is_share=True, candidates=_FULL),
            Metric("ndcg@10_full", "NDCG@10", _NDCG, candidates=_FULL),
        )
    }
)
_HEADLINE_METRICS = {Task.BINARY: "accuracy", Task.RATINGS: "rmse", Task.RANKING: "hr@10_full"}
# The headline metric comes first.
RANKING_METRICS = tuple(
    METRICS[name] for name in ("hr@10_full", "ndcg@10_full", "hr@10", "ndcg@10")
)


def choose_headline_metric(task: Task) -> Metric:
    """Return the metric that represents a task, a mean over held-out ratings (RMSE: its root).

    Lists are judged among all unseen items, because a real list is never chosen from a hundred
    items drawn at random. Among so few, a popular list looks far better than it is.
    """
    return METRICS[_HEADLINE_METRICS[task]]


class RankingScore(NamedTuple):
    """Means over the ranked test interactions.

    Attributes:
        hr: hit ratio.
        ndcg: normalised discounted cumulative gain.
    """

    hr: float
    ndcg: float


def rmse(estimate: ArrayLike, truth: ArrayLike) -> float:
    """Return the root mean squared error, in the unit of the arguments (rating points).

    Args:
        estimate: array of any shape, predicted ratings.
        truth: array of the same shape, true ratings.
    """
    return float(np.sqrt(np.mean(np.square(np.subtract(estimate, truth)))))


def mae(estimate: ArrayLike, truth: ArrayLike) -> float:
    """Return the mean absolute error, in the unit of the arguments (rating points).

    Args:
        estimate: array of any shape, predicted ratings.
        truth: array of the same shape, true ratings.
    """
    return float(np.mean(np.abs(np.subtract(estimate, truth))))


def accuracy(scores: ArrayLike, signs: ArrayLike) -> float:
    """Return the share of +1/-1 ratings whose sign the score has; scores of 0 or NaN are wrong.

    Args:
        scores: array of any shape, real scores.
        signs: array of the same shape, ratings of +1 or -1.
    """
    return float(np.mean(np.sign(scores) == np.sign(signs)))


def model_are(model: Model, truth: Factors) -> float:
    """Return the average relative error (ARE), ||estimate - truth||_F^2 / ||truth||_F^2.

    It has no root and is over all cells, of which a block of rows is computed at a time.

    Args:
        model: the model that estimates the matrix.
        truth: the factors of the true matrix.
    """
    error = norm = 0.0
    for rows in _split_rows(len(truth.left), len(truth.right)):
        check_cancelled()
        target = truth.left[rows] @ truth.right.T
        error += float(np.sum(np.square(_score_all_items(model, rows, len(truth.right)) - target)))
        norm += float(np.sum(np.square(target)))
    return error / norm


def evaluate_ranking(
    model: Model,
    train: Ratings,
    test: Ratings,
    rng: Rng,
    k: int = LIST_LENGTH,
    negatives: int | None = 99,
) -> RankingScore:
    """Rank each test interaction among items its user has in neither train nor test.

    Ties count against the model, and so do scores that are not numbers. Scores of factors are ties
    if they differ by less than the rounding of a dot product. Among k candidates or fewer every
    model hits, so the means leave out test interactions with fewer than k such items.

    Args:
        model: the model to evaluate.
        train: training interactions, of shape (n_users, n_items).
        test: test interactions, of the same shape.
        rng: draws the candidates.
        k: length of the list in which an interaction counts as a hit.
        negatives: how many candidates are drawn without replacement for each test interaction
            (fewer if the user has fewer); None for all of them.

    Raises:
        BadRatings: if no test interaction can be ranked among k candidates or more.
    """
    seen_items = _SeenItems(train, test)
    n_candidates = seen_items.n_unseen[test.users]
    if negatives is not None:
        n_candidates = np.minimum(n_candidates, negatives)
    _check_candidates(n_candidates, k)
    if negatives is None:
        rank = _rank_all_items(model, seen_items)[n_candidates >= k]
    else:
        if (n_candidates < k).any():
            test = test.select(n_candidates >= k)
        candidates, is_real = seen_items.sample_unseen(test.users, negatives, rng)
        check_cancelled()
        target = model.predict(test.users, test.items)
        scores = model.predict(test.users[:, None], candidates)
        threshold = target - _bound_rounding(model, test.users)
        # A candidate is ahead unless its score is lower, also if a score is not a number.
        rank = (~(scores < threshold[:, None]) & is_real).sum(axis=1)
    is_hit = rank < k
    return RankingScore(
        float(is_hit.mean()), float(np.where(is_hit, 1.0 / np.log2(rank + 2.0), 0).mean())
    )


def evaluate(task: Task, model: Model, train: Ratings, test: Ratings, rng: Rng) -> dict[str, float]:
    """Compute the task's metrics on the test ratings, under the names of the command line.

    Predicted ratings are first clipped to the public range.

    Args:
        task: what the model predicts.
        model: the model to evaluate.
        train: training ratings, of shape (n_users, n_items).
        test: test ratings, of the same shape.
        rng: draws the ranking candidates.

    Raises:
        BadRatings: if no model could be measured on these ratings.
    """
    check_measurable(task, train, test)
    if task is Task.RANKING:
        sampled = evaluate_ranking(model, train, test, rng, LIST_LENGTH)
        full = evaluate_ranking(model, train, test, rng, LIST_LENGTH, negatives=None)
        return {
            "hr@10_full": full.hr,
            "ndcg@10_full": full.ndcg,
            "hr@10": sampled.hr,
            "ndcg@10": sampled.ndcg,
        }
    predicted = model.predict(test.users, test.items)
    if task is Task.BINARY:
        return {"accuracy": accuracy(predicted, test.values)}
    clipped = np.clip(predicted, test.public.low, test.public.high)
    return {"rmse": rmse(clipped, test.values), "mae": mae(clipped, test.values)}


def score_test_ratings(task: Task, model: Model, train: Ratings, test: Ratings) -> Floats:
    """Compute what every test rating contributes to the measure of `choose_headline_metric`.

    Args:
        task: what the model predicts.
        model: the model to evaluate.
        train: training ratings, of shape (n_users, n_items).
        test: test ratings, of the same shape.

    Returns:
        Array of shape (n_test,): squared errors in squared rating points; or 1 for a right sign or
        a hit among all unseen items and 0 for a wrong sign or a miss; NaN for a test interaction
        that is not ranked (see `evaluate_ranking`).
    """
    if task is not Task.RANKING:
        predicted = model.predict(test.users, test.items)
        if task is Task.BINARY:
            return (np.sign(predicted) == np.sign(test.values)).astype(float)
        return (np.clip(predicted, test.public.low, test.public.high) - test.values) ** 2
    seen_items = _SeenItems(train, test)
    scores = np.full(len(test), np.nan)
    is_ranked = seen_items.n_unseen[test.users] >= LIST_LENGTH
    scores[is_ranked] = _rank_all_items(model, seen_items)[is_ranked] < LIST_LENGTH
    return scores


def check_measurable(task: Task, train: Ratings, test: Ratings) -> None:
    """Check that `evaluate` can measure a model on such ratings.

    Raises:
        BadRatings: if the shapes differ, or no test interaction can be ranked.
    """
    if train.shape != test.shape:
        raise BadRatings(
            f"training ratings are {train.shape[0]} x {train.shape[1]} (users x items), test"
            f" ratings {test.shape[0]} x {test.shape[1]}: load both over one shared index space"
        )
    if task is Task.RANKING:
        _check_candidates(_SeenItems(train, test).n_unseen[test.users], LIST_LENGTH)


def _check_candidates(n_candidates: Integers, k: int) -> None:
    """Raise BadRatings unless some test interaction is ranked among k candidates or more."""
    max_candidates = int(n_candidates.max(initial=0))
    if max_candidates < k:
        raise BadRatings(
            f"at most {max_candidates} items are there to rank a held-out one against, and among"
            f" {k} candidates or fewer every model hits: hr@{k} needs users with at least {k}"
            " items that they have in neither training nor test ratings"
        )


class _SeenItems:
    """The items that each user has in train or test.

    Attributes:
        test: test ratings.
        matrix: boolean CSR array of shape (n_users, n_items), True where a user has an item, with
            sorted cells.
    """

    def __init__(self, train: Ratings, test: Ratings) -> None:
        self.test = test
        self.matrix = _mark_cells(train) + _mark_cells(test)

    @property
    def n_unseen(self) -> Ints:
        """The number of items that each user does not have, of shape (n_users,)."""
        return self.matrix.shape[1] - np.diff(self.matrix.indptr)

    def sample_unseen(self, users: NDArray[np.int32], count: int, rng: Rng) -> tuple[Ints, Bools]:
        """Sample distinct unseen items of each user.

        Floyd's algorithm for sampling without replacement draws ranks among the unseen items, for
        all users at once: O(n count^2) time without any array of users x items. A user with fewer
        than `count` unseen items gets all of them.

        Args:
            users: array of shape (n,), user indices.
            count: how many items to sample per user.
            rng: draws the ranks.

        Returns:
            Item indices of shape (n, count), and a mask of the same shape of those that are real;
            the others are filled with item 0.
        """
        n_unseen = self.n_unseen[users]
        ranks = np.empty((len(users), count), dtype=np.int64)
        for j in range(count):
            check_cancelled()
            # Draw j is of the ranks 0..last. A rank that has been drawn is replaced by the last.
            last = np.maximum(n_unseen - count, 0) + j
            sampled = rng.integers(0, last, endpoint=True)
            is_taken = (ranks[:, :j] == sampled[:, None]).any(axis=1)
            ranks[:, j] = np.where(is_taken | (n_unseen <= count), last, sampled)
        is_real = ranks < n_unseen[:, None]
        # The seen item s at position p of its row has s - p unseen items below it. So the unseen
        # item of rank k is k plus the number of the user's seen items with s - p <= k. One search
        # finds these numbers for all users, in sorted keys of a user and s - p.
        n_users, n_items = self.matrix.shape
        indptr = self.matrix.indptr
        owners = np.repeat(np.arange(n_users), np.diff(indptr))
        position = np.arange(len(owners)) - indptr[owners]
        keys = owners * (n_items + 1) + (self.matrix.indices - position)
        check_cancelled()
        user_column = users.astype(np.int64)[:, None]
        targets = user_column * (n_items + 1) + np.where(is_real, ranks, 0)
        ranks += np.searchsorted(keys, targets, side="right") - indptr[user_column]
        return np.where(is_real, ranks, 0), is_real


def _rank_all_items(model: Model, seen_items: _SeenItems) -> Ints:
    """Return the rank (0, 1, ...) of each test interaction among all items its user lacks."""
    test = seen_items.test
    rank = np.empty(len(test), dtype=np.int64)
    for rows in _split_rows(len(test), test.public.items):
        check_cancelled()
        users = test.users[rows]
        scores = _score_all_items(model, users, test.public.items)
        target = scores[np.arange(len(users)), test.items[rows]]
        # Ties count as ahead, also those that only rounding breaks, and so does NaN.
        is_ahead = ~(scores < (target - _bound_rounding(model, users))[:, None])
        is_ahead[seen_items.matrix[users].nonzero()] = False
        rank[rows] = is_ahead.sum(axis=1)
    return rank


def _bound_rounding(model: Model, users: Integers) -> Floats | float:
    """Bound how far scores of two items with equal factors differ by rounding, for each user.

    It is 0 for models without factors. A dot product of r terms is off by at most r eps |l|'|r| <=
    r eps ||l|| ||r||, and the difference of two by twice that. A matrix product may add up the
    terms of some columns in another order than those of others, so equal items may differ.

    Args:
        model: the model.
        users: array of shape (n,), user indices.

    Returns:
        Array of shape (n,), or 0.
    """
    if not isinstance(model, Factors) or not model.right.size:
        return 0.0
    longest = float(np.linalg.norm(model.right, axis=1).max())
    unit = 2 * model.right.shape[1] * float(np.finfo(float).eps)
    return unit * longest * np.linalg.norm(model.left[users], axis=1)


def _score_all_items(model: Model, users: Integers, n_items: int) -> Floats:
    """Return the scores of all items for some users.

    Args:
        model: the model.
        users: array of shape (n,), user indices.
        n_items: number of items.

    Returns:
        Array of shape (n, n_items).
    """
    if isinstance(model, Factors):  # one matrix product instead of a gather
        return model.left[users] @ model.right.T
    return model.predict(users[:, None], np.arange(n_items)[None, :])


def _split_rows(rows: int, columns: int) -> list[Ints]:
    """Split the indices of rows into blocks of at most `CELLS_PER_BLOCK` cells, or of one row.

    Args:
        rows: number of rows.
        columns: number of cells of a row.
    """
    size = max(1, CELLS_PER_BLOCK // columns)
    return [np.arange(start, min(start + size, rows)) for start in range(0, rows, size)]


def _mark_cells(ratings: Ratings) -> Sparse:
    """Return a boolean CSR array of shape (n_users, n_items) that is True at the rated cells."""
    from scipy.sparse import csr_array

    marks = np.ones(len(ratings), dtype=bool)
    return csr_array((marks, ratings.items, ratings.indptr), shape=ratings.shape)
