"""Record a run round by round, and show what it learned: for evaluation only, never private."""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import registry
from dpmc_core.arrays import Floats, Ints
from dpmc_core.links import LOGISTIC, Link
from dpmc_core.metrics import Metric, choose_headline_metric
from dpmc_core.model import Mechanism, Model, Step, Task
from dpmc_core.privacy import Publication
from dpmc_core.problem import Problem
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_lab.sweep import toplists
from dpmc_lab.views.data import (
    count_ratings,
    describe_anonymous_user,
    extract_block,
    format_item_title,
    has_rating_values,
    rank_by_count,
)
from dpmc_lab.views.lines import BASELINE, NO_PRIVACY, format_baseline_name
from dpmc_lab.views.text import Table, build_table

_N_TOP_ITEMS = 10  # items shown of a user
CORNER_SIZE = 25  # users and items of the corner; odd, so that one of the users is the middle one
MAX_FRAMES = 60  # kept of a run, however long it is
_MAX_RELEASE_SIZE = 5_000_000  # numbers; a larger release is not recorded


class ErrorCdf(NamedTuple):
    """Share of held-out ratings with an error of at most x.

    Attributes:
        error: array of shape (n_points,), increasing errors.
        share: array of shape (n_points,).
    """

    error: Floats
    share: Floats


class TopItem(NamedTuple):
    """One recommended item, with its index, title and score."""

    item: int
    title: str
    score: float


def find_link(mechanism: Mechanism) -> Link:
    """Return how a binary mechanism turns scores into chances of +1 (default: logistic)."""
    return getattr(mechanism, "link", LOGISTIC)


def compute_errors(model: Model, task: Task, test: Ratings, link: Link = LOGISTIC) -> Floats:
    """Compute the absolute error of each held-out rating.

    Args:
        model: the model.
        task: what it predicts.
        test: the held-out ratings.
        link: turns scores into chances of +1, for BINARY.

    Returns:
        Array of shape (n_ratings,): |prediction - truth| in rating points, or for BINARY |P(+1) -
        1{Y=+1}|.
    """
    if task is Task.BINARY:
        return np.abs(link.probability(model.predict(test.users, test.items)) - (test.values > 0))
    clipped = np.clip(model.predict(test.users, test.items), test.public.low, test.public.high)
    return np.abs(clipped - test.values)


def compute_error_cdf(model: Model, task: Task, test: Ratings, link: Link = LOGISTIC) -> ErrorCdf:
    """Compute the error CDF on a grid over all possible errors; see `compute_errors`."""
    grid = np.linspace(0.0, 1.0 if task is Task.BINARY else test.public.width, 101)
    errors = np.sort(compute_errors(model, task, test, link))
    return ErrorCdf(grid, np.searchsorted(errors, grid, side="right") / len(errors))


def list_top_items(model: Model, train: Ratings, user: int) -> tuple[TopItem, ...]:
    """Return the ten highest-scored items not rated in training; ties take the lower index.

    Args:
        model: the model.
        train: the training ratings.
        user: index of the user.
    """
    ranked = zip(*toplists.rank_items(model, train, user, _N_TOP_ITEMS), strict=True)
    return tuple(
        TopItem(int(i), format_item_title(train, int(i)), float(score)) for i, score in ranked
    )


def describe_error_cdf(private: ErrorCdf, nonprivate: ErrorCdf | None) -> str:
    """Describe the error CDF of the private and of the nonprivate model in words."""
    text = (
        f"Half of the held-out ratings have an error of at most {_find_median_error(private):.2g}"
    )
    return text + (
        f", without privacy {_find_median_error(nonprivate):.2g}." if nonprivate else "."
    )


def _find_median_error(view: ErrorCdf) -> float:
    """Return the smallest error of the grid that half of the ratings do not exceed."""
    return float(view.error[np.argmax(view.share >= 0.5)])


class MatrixCorner(NamedTuple):
    """A few users and items of a problem, as many as a picture of the matrix has room for.

    Attributes:
        users: indices, spread evenly from the busiest user to the one with the fewest ratings. The
            middle one is the user whom all pages show, where that user is known.
        items: indices of the most rated items.
        person_label: the person in the middle row, in words.
        rated: array of shape (len(users), len(items)), each training rating as its position in the
            range (0 lowest, 1 highest; 1 for a click), NaN where there is none.
    """

    users: Ints
    items: Ints
    person_label: str
    rated: Floats

    @property
    def middle(self) -> int:
        """Return the row of the person whose list is displayed."""
        return len(self.users) // 2

    @property
    def person(self) -> int:
        """Return the index of the person in the middle row, whose list is displayed."""
        return int(self.users[self.middle])


class RecordedRound(NamedTuple):
    """One round of a recording.

    Attributes:
        round: its number.
        predicted: array of the corner's shape, predictions as positions in the range. For RANKING a
            prediction is the item's position in the user's order of the corner's items.
        metric: the headline metric, or None where it was not measured.
        top: recommendation list of the person in the middle row.
    """

    round: int
    predicted: Floats
    metric: float | None
    top: tuple[TopItem, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class RunRecording:
    """A run as it trained, in at most MAX_FRAMES rounds, evenly thinned.

    Of the ratings it holds only those of the corner.

    Attributes:
        id: of the run.
        mechanism: id of the mechanism.
        task: of the mechanism.
        corner: the users and items that are displayed.
        metric: the headline metric.
        axis: range in which the metric is drawn from the first round to the last.
        total: number of announced rounds.
        baseline: metric of the baseline, once it is known.
        baseline_name: what the baseline is, in words.
        reference: metric of the nonprivate reference, once it is known.
        best: what the reference is, in words.
        released: array of the corner's shape, the released ratings, where something is released per
            rating.
        query: of that release.
        frames: the recorded rounds.
    """

    id: str
    mechanism: str
    task: Task
    corner: MatrixCorner
    metric: Metric
    axis: tuple[float, float]
    total: int = 0
    baseline: float | None = None
    baseline_name: str = BASELINE
    reference: float | None = None
    best: str = NO_PRIVACY
    released: Floats | None = None
    query: str = ""
    frames: tuple[RecordedRound, ...] = ()


class RunRecorder:
    """Records a run while it trains.

    Args:
        mechanism: the mechanism that trains.
        problem: what it trains on.
        id: of the run.
        baseline, reference: metrics of the baseline and the nonprivate reference, if known yet.
        best: name of the reference.
        baseline_id: id of the baseline (default: that of the mechanism).
        example: the user in the middle row (default: one with a median number of ratings).

    Attributes:
        recording: the recording so far.
        witnesses: whether the mechanism may release something per rating, which
            `add_publications` records.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        problem: Problem,
        id: str = "",
        baseline: float | None = None,
        reference: float | None = None,
        best: str = NO_PRIVACY,
        baseline_id: str = "",
        example: int | None = None,
    ) -> None:
        self._mechanism = mechanism
        self._problem = problem
        self._every = 1
        metric = choose_headline_metric(mechanism.task).in_units_of(problem.train.public)
        self.recording = RunRecording(
            id=id,
            mechanism=mechanism.id,
            task=mechanism.task,
            corner=select_corner(mechanism.task, problem, example),
            metric=metric,
            axis=choose_metric_axis(metric, baseline, reference),
            baseline=baseline,
            baseline_name=format_baseline_name(
                baseline_id or registry.choose_baseline(type(mechanism), problem.steps)
            ),
            reference=reference,
            best=best,
        )
        sizes = (
            math.prod(len(problem.train) if n is None else n for n in release.shape)
            for _, release in mechanism.guarantee(problem.train.public).releases
            if has_rating_values(release)  # others cannot be recorded
        )
        self.witnesses = 0 < sum(sizes) <= _MAX_RELEASE_SIZE
        if self.witnesses:  # the corner appears empty before the release
            self.update_recording(released=np.full(self.recording.corner.rated.shape, np.nan))

    def needs_round(self, step: Step) -> bool:
        """Return whether this round will be in the recording."""
        first = not self.recording.frames
        return step.build is not None and (
            first or step.final or step.index == step.total or step.index % self._every == 0
        )

    def add_round(self, round: int, model: Model, metric: float | None) -> None:
        """Add a round, replacing one with the same number.

        When there are MAX_FRAMES rounds, every other one is dropped.

        Args:
            round: number of the round.
            model: the model after it.
            metric: the headline metric, if it was measured.
        """
        recording = self.recording
        train = self._problem.train
        predictions = predict_corner(self._mechanism, model, recording.corner, train.public)
        top = list_top_items(model, train, recording.corner.person)
        if not recording.query:  # no publication before the first round held the ratings
            self.update_recording(released=None)
        earlier = [f for f in recording.frames if f.round < round]
        if len(earlier) == MAX_FRAMES:
            self._every *= 2
        earlier = [f for f in earlier if f.round % self._every == 0]
        last = RecordedRound(round, predictions, metric, top)
        self.update_recording(frames=(*earlier, last))

    def add_publications(self, publications: Iterable[Publication]) -> None:
        """Record the corner of the first publication that has a value per rating."""
        if self.recording.query:
            return
        for publication in publications:
            released_corner = extract_released_corner(
                publication, self.recording.corner, self._problem.train
            )
            if released_corner is not None:
                self.update_recording(released=released_corner, query=publication.release.query)
                return

    def update_recording(self, **values: Any) -> None:
        """Set fields that describe the whole run, such as total and reference."""
        self.recording = dataclasses.replace(self.recording, **values)


def choose_metric_axis(
    metric: Metric, baseline: float | None, reference: float | None
) -> tuple[float, float]:
    """Return the range in which a metric is drawn: from baseline to reference, with some room.

    There is more room on the side of worse values. The best or worst possible value stands for a
    reference or baseline that is not known.

    Args:
        metric: the metric.
        baseline, reference: what these reach, if it is known.
    """
    best, worst = (0.0, 1.0) if metric.lower_is_better else (1.0, 0.0)
    start = worst if baseline is None else baseline
    end = best if reference is None else reference
    low, high = sorted((start, end))
    # Equal ends would leave no room at all, so the gap is at least 5 % of the larger one.
    gap = max(high - low, 0.05 * max(abs(low), abs(high)), 1e-3)
    # A private curve often lies beyond the baseline, rarely beyond the reference.
    margin_below, margin_above = (0.15, 0.5) if metric.lower_is_better else (0.5, 0.15)
    low -= margin_below * gap
    high += margin_above * gap
    return max(0.0, low), high if metric.lower_is_better else min(1.0, high)


def select_corner(task: Task, problem: Problem, example: int | None = None) -> MatrixCorner:
    """Select the displayed users and items from all ratings, so that no split changes them.

    Args:
        task: of the mechanism.
        problem: training and held-out ratings.
        example: the user in the middle row (default: one with a median number of ratings).
    """
    train = problem.train
    by_user, by_item = map(np.add, count_ratings(train), count_ratings(problem.test))
    active_users = rank_by_count(by_user, int(np.count_nonzero(by_user)))
    positions = (
        np.linspace(0, len(active_users) - 1, min(CORNER_SIZE, len(active_users)))
        .round()
        .astype(np.int64)
    )
    users = active_users[positions]
    middle = users[len(users) // 2]
    if example is not None:  # who changes places with the user there
        users = np.select([users == middle, users == example], [example, middle], users)
        middle = example
    items = rank_by_count(by_item, CORNER_SIZE)
    scaled_values = (train.values - train.public.low) / train.public.width
    rated = extract_block(
        np.ones_like(scaled_values) if task is Task.RANKING else scaled_values, train, users, items
    )
    return MatrixCorner(
        users,
        items,
        describe_anonymous_user(
            count_ratings(train)[0][middle], problem.name, clicks=train.has_only_clicks
        ),
        rated,
    )


def predict_corner(
    mechanism: Mechanism, model: Model, corner: MatrixCorner, public: PublicFacts
) -> Floats:
    """Return predictions for the corner in 0..1, see `RecordedRound`; for BINARY chances of +1.

    Args:
        mechanism: the mechanism.
        model: its model.
        corner: the displayed users and items.
        public: public facts of the ratings.
    """
    scores = model.predict(corner.users[:, None], corner.items[None, :])
    if mechanism.task is Task.BINARY:
        return np.asarray(find_link(mechanism).probability(scores))
    if mechanism.task is Task.RANKING:
        # Sorting the sorting order gives the rank of each item in its row.
        ranks = scores.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
        return np.asarray(ranks / max(1, scores.shape[1] - 1))
    return np.clip((scores - public.low) / public.width, 0.0, 1.0)


def extract_released_corner(
    publication: Publication, corner: MatrixCorner, train: Ratings
) -> Floats | None:
    """Return the corner of what is released, on the scale of the corner's ratings.

    Methods represent a rating in many ways (0 and 1, a symbol, scaled to -1..1). The result is None
    if the answer before noise is no linear function of the ratings; the inverse of that function
    converts the released values.

    Args:
        publication: what was released.
        corner: the displayed users and items, with their ratings.
        train: the training ratings.
    """
    if not has_rating_values(publication.release):
        return None
    before, after = (
        extract_block(values, train, corner.users, corner.items)
        for values in (publication.private, publication.published)
    )
    is_known = ~np.isnan(before) & ~np.isnan(corner.rated)
    x = before[is_known]
    y = corner.rated[is_known]
    if not len(x) or (np.ptp(x) == 0) != (np.ptp(y) == 0):
        return None
    slope = 1.0 if np.ptp(x) == 0 else float(np.polyfit(x, y, 1)[0])
    offset = float(y.mean() - slope * x.mean())
    if np.abs(offset + slope * x - y).max() > 1e-6:
        return None
    return np.asarray(offset + slope * after)


def describe_recording(recording: RunRecording) -> str:
    """Describe the curve of the recording in words."""
    metric = recording.metric
    measured = [
        (frame.round, frame.metric) for frame in recording.frames if frame.metric is not None
    ]
    ends = dict([measured[0], measured[-1]]) if measured else {}  # one entry for a single round
    ends_text = ", ".join(
        f"{metric.format_value(value)} in round {round_number}"
        for round_number, value in ends.items()
    )
    phrases = [f"{metric.title}: {ends_text or 'none yet'}"]
    phrases += [
        f"{name} {metric.format_value(value)}"
        for name, value in (
            (recording.baseline_name, recording.baseline),
            (recording.best, recording.reference),
        )
        if value is not None
    ]
    return "; ".join(phrases) + "."


def conclude_recording(recording: RunRecording, earlier: RunRecording | None = None) -> str:
    """Return what the last round reached, as the title of the curve.

    It names no share of the benefit, because a run is one split with one draw of the noise. The
    curve over seeds names that share.

    Args:
        recording: the recording.
        earlier: the recording of an earlier run with the same metric.
    """
    metric = recording.metric
    value, before = (
        next((f.metric for f in reversed(r.frames) if f.metric is not None), None) if r else None
        for r in (recording, earlier)
    )
    baseline, reference = recording.baseline, recording.reference
    if value is None or (before is None and baseline is None):
        return metric.panel_title

    def compare_with(other: float) -> float:
        """Return how much better the value is, or 0 where both read the same."""
        is_equal = metric.format_value(value) == metric.format_value(other)
        return 0.0 if is_equal else metric.sign * (value - other)

    if before is not None:
        gain = compare_with(before)
        return f"{'Better than' if gain > 0 else 'Worse than' if gain else 'As good as'} before"
    assert baseline is not None
    if compare_with(baseline) <= 0:
        return f"No better than {recording.baseline_name}"
    if reference is not None and compare_with(reference) >= 0:
        return "As good as without privacy"
    return f"Better than {recording.baseline_name}"


def tabulate_recording(recording: RunRecording) -> Table:
    """Return the recorded rounds as columns: the metric and the first item of the list."""
    return build_table(
        ("round", recording.metric.label, "first in the list"),
        (
            (
                frame.round,
                "" if frame.metric is None else recording.metric.format_value(frame.metric),
                frame.top[0].title if frame.top else "",
            )
            for frame in recording.frames
        ),
    )
