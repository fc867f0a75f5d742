"""A run round by round, and pictures of what it learned: evaluation only, never private."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import registry
from dpmc_core.arrays import Floats, Ints
from dpmc_core.links import LOGISTIC, Link
from dpmc_core.metrics import Metric, error_cdf, headline
from dpmc_core.model import Mechanism, Model, Step, Task
from dpmc_core.privacy import Publication
from dpmc_core.problem import Problem
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_lab.curves.data import busiest, counts, grid, somebody, title
from dpmc_lab.curves.lines import GUESSING, WITHOUT, guess_name
from dpmc_lab.curves.text import Table, columns
from dpmc_lab.sweep import toplists

_TOP = 10  # items shown of a user
SIDE = 25  # users and items of the corner; odd, so that one of the users is the middle one
FRAMES = 60  # kept of a run, however long it is
_LARGEST = 5_000_000  # numbers of a release that is looked at while it is published


class ErrorCdf(NamedTuple):
    """Share of held-out ratings with an error of at most x."""

    error: Floats
    share: Floats


class TopItem(NamedTuple):
    """One recommended item: index, title and score."""

    item: int
    title: str
    score: float


def link_of(mechanism: Mechanism) -> Link:
    """How a binary mechanism's score becomes the chance of +1; logistic where it does not say."""
    return getattr(mechanism, "link", LOGISTIC)


def errors(model: Model, task: Task, test: Ratings, link: Link = LOGISTIC) -> Floats:
    """|prediction - truth| per held-out rating: rating points, or for BINARY |P(+1) - 1{Y=+1}|."""
    if task is Task.BINARY:
        return np.abs(link.probability(model.predict(test.users, test.items)) - (test.values > 0))
    clipped = np.clip(model.predict(test.users, test.items), test.public.low, test.public.high)
    return np.abs(clipped - test.values)


def cdf(model: Model, task: Task, test: Ratings, link: Link = LOGISTIC) -> ErrorCdf:
    """The error CDF on a grid over all possible errors."""
    grid = np.linspace(0.0, 1.0 if task is Task.BINARY else test.public.width, 101)
    return ErrorCdf(grid, error_cdf(errors(model, task, test, link), grid))


def top_items(model: Model, train: Ratings, user: int) -> tuple[TopItem, ...]:
    """The ten highest-scored items a user has not rated in training (ties: the lower index)."""
    ranked = zip(*toplists.best(model, train, user, _TOP), strict=True)
    return tuple(TopItem(int(i), title(train, int(i)), float(score)) for i, score in ranked)


def cdf_words(private: ErrorCdf, clear: ErrorCdf | None) -> str:
    """The error CDF as text."""
    text = f"Half of the held-out ratings have an error of at most {_median(private):.2g}"
    return text + (f", without privacy {_median(clear):.2g}." if clear else ".")


def _median(view: ErrorCdf) -> float:
    return float(view.error[np.argmax(view.share >= 0.5)])


class Corner(NamedTuple):
    """A few users and items of a problem: what a picture of the matrix has room for.

    users, items: indices. The users are spread evenly from the busiest to the one with the fewest
    ratings, the items are the most rated ones. who: the person in the middle, in words. rated:
    users x items, each training rating as its place in the range (0 lowest, 1 highest; 1 for a
    click), NaN where there is none.
    """

    users: Ints
    items: Ints
    who: str
    rated: Floats

    @property
    def middle(self) -> int:
        """The row of the person with the median number of ratings."""
        return len(self.users) // 2

    @property
    def person(self) -> int:
        """The index of the person in the middle row, whose list is shown."""
        return int(self.users[self.middle])


class Frame(NamedTuple):
    """One round: predictions for the corner as places in the range, the headline metric (None
    where it was not measured) and the list of the person in the middle.

    For RANKING a prediction is the title's place in the user's order of the corner's titles.
    """

    round: int
    predicted: Floats
    metric: float | None
    top: tuple[TopItem, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Film:
    """A run to watch, of at most FRAMES rounds, evenly thinned; it holds no ratings but the corner.

    id: of the run; mechanism: its id. axis: what the metric is drawn on from the first round to the
    last. floor, reference: of the guess and without privacy, once they are known; guess, best: what
    these are. total: announced rounds. released: of the corner, where something per rating is
    released, as `Corner.rated`, and its query.
    """

    id: str
    mechanism: str
    task: Task
    corner: Corner
    metric: Metric
    axis: tuple[float, float]
    total: int = 0
    floor: float | None = None
    guess: str = GUESSING
    reference: float | None = None
    best: str = WITHOUT
    released: Floats | None = None
    query: str = ""
    frames: tuple[Frame, ...] = ()


class Camera:
    """Makes a film of a run while it trains."""

    def __init__(
        self,
        mechanism: Mechanism,
        problem: Problem,
        id: str = "",
        floor: float | None = None,
        reference: float | None = None,
        best: str = WITHOUT,
        data: str = "",
        floor_id: str = "",
    ) -> None:
        self._mechanism, self._problem, self._every = mechanism, problem, 1
        metric = headline(mechanism.task).on(problem.train.public)
        self.film = Film(
            id=id,
            mechanism=mechanism.id,
            task=mechanism.task,
            corner=corner(mechanism.task, problem, data),
            metric=metric,
            axis=axis(metric, floor, reference),
            floor=floor,
            guess=guess_name(floor_id or registry.floor_of(type(mechanism), problem.steps)),
            reference=reference,
            best=best,
        )
        shapes = [r.shape for _, r in mechanism.guarantee(problem.train.public).releases]
        sizes = {(None,): len(problem.train), problem.train.shape: math.prod(problem.train.shape)}
        self.witnesses = 0 < sum(sizes.get(shape, 0) for shape in shapes) <= _LARGEST
        if self.witnesses:  # there will be something to show
            self.tell(released=np.full(self.film.corner.rated.shape, np.nan))

    def wants(self, step: Step) -> bool:
        """Whether this round will be in the film."""
        first = not self.film.frames
        return step.model is not None and (
            first or step.final or step.index == step.total or step.index % self._every == 0
        )

    def see(self, round: int, model: Model, metric: float | None) -> None:
        """Add a round; one that is there already is replaced."""
        recording, train = self.film, self._problem.train
        predictions = predicted(self._mechanism, model, recording.corner, train.public)
        top = top_items(model, train, recording.corner.person)
        if not recording.query:  # whatever was released, it was not the ratings
            self.tell(released=None)
        earlier = [f for f in recording.frames if f.round < round]
        if len(earlier) == FRAMES:
            self._every *= 2
        earlier = [f for f in earlier if f.round % self._every == 0]
        frames = [*earlier, Frame(round, predictions, metric, top)]
        self.tell(frames=tuple(frames))

    def hear(self, publications: Iterable[Publication]) -> None:
        """Keep what the first release per rating says of the corner."""
        if self.film.query:
            return
        for publication in publications:
            released_corner = released(publication, self.film.corner, self._problem.train)
            if released_corner is not None:
                self.tell(released=released_corner, query=publication.release.query)
                return

    def tell(self, **values: Any) -> None:
        """Add what is known of the whole run: total, reference."""
        self.film = dataclasses.replace(self.film, **values)


def axis(metric: Metric, baseline: float | None, reference: float | None) -> tuple[float, float]:
    """A range that holds the way from the floor to the reference, and room for what is worse.

    Where one of them is not known, the metric's own limit stands for it.
    """
    best, worst = (0.0, 1.0) if metric.lower else (1.0, 0.0)
    start = worst if baseline is None else baseline
    end = best if reference is None else reference
    ends = sorted((start, end))
    gap = max(ends[1] - ends[0], 0.05 * max(map(abs, ends)), 1e-3)
    margin_below, margin_above = (0.15, 0.5) if metric.lower else (0.5, 0.15)
    low, high = ends[0] - margin_below * gap, ends[1] + margin_above * gap
    return max(0.0, low), high if metric.lower else min(1.0, high)


def corner(task: Task, problem: Problem, data: str = "") -> Corner:
    """Which users and items are shown; held-out ratings count too, so no split changes them."""
    train = problem.train
    by_user, by_item = map(np.add, counts(train), counts(problem.test))
    active_users = busiest(by_user, int(np.count_nonzero(by_user)))
    positions = (
        np.linspace(0, len(active_users) - 1, min(SIDE, len(active_users))).round().astype(np.int64)
    )
    users, items = active_users[positions], busiest(by_item, SIDE)
    scaled_values = (train.values - train.public.low) / train.public.width
    rated = grid(
        np.ones_like(scaled_values) if task is Task.RANKING else scaled_values, train, users, items
    )
    assert rated is not None  # a value per rating
    return Corner(
        users,
        items,
        somebody(counts(train)[0][users[len(users) // 2]], data, clicks=train.clicks),
        rated,
    )


def predicted(mechanism: Mechanism, model: Model, corner: Corner, public: PublicFacts) -> Floats:
    """What a model says of the corner, 0..1: see `Frame`; chances of +1 for BINARY."""
    scores = model.predict(corner.users[:, None], corner.items[None, :])
    if mechanism.task is Task.BINARY:
        return np.asarray(link_of(mechanism).probability(scores))
    if mechanism.task is Task.RANKING:
        order = scores.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
        return np.asarray(order / max(1, scores.shape[1] - 1))
    return np.clip((scores - public.low) / public.width, 0.0, 1.0)


def released(publication: Publication, corner: Corner, train: Ratings) -> Floats | None:
    """A publication in the corner, in the units of its ratings; None where it is not of ratings.

    Methods write a rating in many ways (0 and 1, a symbol, scaled to -1..1). Whatever went in as a
    straight function of the rating comes out on the same scale.
    """
    before, after = (
        grid(values, train, corner.users, corner.items)
        for values in (publication.private, publication.published)
    )
    if before is None or after is None:
        return None
    is_known = ~np.isnan(before) & ~np.isnan(corner.rated)
    x, y = before[is_known], corner.rated[is_known]
    if not len(x) or (np.ptp(x) == 0) != (np.ptp(y) == 0):
        return None
    slope = 1.0 if np.ptp(x) == 0 else float(np.polyfit(x, y, 1)[0])
    offset = float(y.mean() - slope * x.mean())
    if np.abs(offset + slope * x - y).max() > 1e-6:
        return None
    return np.asarray(offset + slope * after)


def film_words(recording: Film) -> str:
    """The film's curve as text."""
    metric = recording.metric
    measured = [
        (frame.round, frame.metric) for frame in recording.frames if frame.metric is not None
    ]
    ends = dict([measured[0], measured[-1]]) if measured else {}
    told = ", ".join(f"{metric.text(value)} in round {k}" for k, value in ends.items())
    phrases = [f"{metric.title}: {told or 'none yet'}"]
    phrases += [
        f"{name} {metric.text(value)}"
        for name, value in (
            (recording.guess, recording.floor),
            (recording.best, recording.reference),
        )
        if value is not None
    ]
    return "; ".join(phrases) + "."


def film_table(recording: Film) -> Table:
    """The film's rounds as columns: the metric, and what leads the list of the middle person."""
    text = recording.metric.text
    return columns(
        ("round", recording.metric.spoken, "first in the list"),
        (
            (
                frame.round,
                "" if frame.metric is None else text(frame.metric),
                frame.top[0].title if frame.top else "",
            )
            for frame in recording.frames
        ),
    )
