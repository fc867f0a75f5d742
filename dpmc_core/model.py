"""What every mechanism shares: its task, the steps of its fit and the model it yields."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmc_core.arrays import Floats, Rng
from dpmc_core.privacy import (
    Budget,
    Change,
    Guarantee,
    Notion,
    Publishes,
    Releases,
    Trust,
    Unaccounted,
)
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import PublishedSettings, check_settings
from dpmc_core.stopping import check_cancelled
from dpmc_core.style import Style

R = TypeVar("R", bound=Releases)


class Task(enum.Enum):
    """What a mechanism predicts."""

    BINARY = "binary"  # the sign of a +1/-1 rating; predict() returns a real score
    RATINGS = "ratings"  # a rating in the public range
    RANKING = "ranking"  # which unseen items come next; predict() returns a score


class Estimator(enum.Enum):
    """What is made of noisy reports; either way the same reports, so the same certificate."""

    NOISE_AWARE = "noise-aware"  # effects and low-rank taste, given what noise the reports carry
    PUBLISHED = "published"  # the paper's own


class Model(Protocol):
    """A trained predictor."""

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        """Score of each (users[k], items[k]) pair; index arrays broadcast to one shape."""
        ...

    @property
    def factors(self) -> Factors | None:
        """User and item factors where the model has them."""
        ...


@dataclass(frozen=True)
class ArraySpec:
    """An array of a release.

    shape: a letter is a size that the noise decides, `max_size` at most, the same wherever it
    stands. low, high: of whole numbers; where they rise, a letter for high is what the last one is.
    """

    shape: tuple[int | str, ...]
    description: str = "for the own predictions"
    type: str = "float64"
    low: int = 0
    high: int | str = 0
    increasing: bool = False
    max_size: int = 2**62
    optional: bool = False


@dataclass(frozen=True)
class OwnSide:
    """How a user finds the own predictions from published item factors and the own ratings alone.

    formula: in words, `items` being the right factors and x the own ratings. arrays: by name, what
    it takes besides. They are computed from what was published, so they may be published too.
    columns: how many `items` may have.
    """

    formula: str
    columns: Collection[int]
    arrays: Mapping[str, ArraySpec] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Factors:
    """X = left right', left: users x r, right: items x r.

    own: the arrays by which, with right, each user finds the own row of left alone.
    """

    left: Floats
    right: Floats
    user_arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def factors(self) -> Factors:
        return self

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        user_indices, item_indices = np.broadcast_arrays(np.asarray(users), np.asarray(items))
        scores = np.empty(user_indices.size)
        flat_users, flat_items = user_indices.ravel(), item_indices.ravel()
        block = max(1, 4_000_000 // max(1, self.left.shape[1]))  # at most 32 MB per gathered side
        for start in range(0, user_indices.size, block):
            check_cancelled()
            chunk = slice(start, start + block)
            np.einsum(
                "kr,kr->k",
                self.left[flat_users[chunk]],
                self.right[flat_items[chunk]],
                out=scores[chunk],
            )
        return scores.reshape(user_indices.shape)


@dataclass(frozen=True, eq=False)
class Dense:
    """A whole users x items matrix of scores, for outputs that are that dense by nature."""

    matrix: Floats
    factors: ClassVar[None] = None

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        scores: Floats = self.matrix[np.asarray(users), np.asarray(items)]
        return scores


@dataclass(frozen=True)
class Constant:
    """The same score everywhere."""

    value: float
    factors: ClassVar[None] = None

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        return np.full(np.broadcast_shapes(np.shape(users), np.shape(items)), self.value)


@dataclass(frozen=True)
class Step:
    """One round of `fit`.

    index: 1, 2, ... up to at most `total`, the announced rounds; final: nothing follows (a solver
    may converge early). model: None before the noise is in. trace: numbers to draw; `raw` names
    those computed from raw data without noise (evaluation only, not private).
    """

    index: int
    total: int
    model: Model | None
    trace: Mapping[str, float] = field(default_factory=dict)
    raw: frozenset[str] = frozenset()
    final: bool = False

    @classmethod
    def from_trace(
        cls,
        index: int,
        total: int,
        model: Model | None,
        trace: Mapping[str, float],
        published_names: Collection[str] = (),
        *,
        converged: bool = False,
    ) -> Step:
        """The round of that index, final where it is the last or enough.

        published_names: the numbers of the trace that follow from what was published; all others
        are raw.
        """
        raw = frozenset(trace) - frozenset(published_names)
        return cls(index, total, model, trace, raw, converged or index == total)


Steps = Iterator[Step]


class PrivacyRequest(NamedTuple):
    """A promise that somebody asks for. trust: CURATOR, or LOCAL where nobody sees raw ratings."""

    change: Change
    epsilon: float
    trust: Trust
    public: PublicFacts


class Mechanism:
    """A frozen, keyword-only dataclass of public settings with the two methods below.

    Private data and randomness arrive only as arguments of `fit`. What is known of a method beside
    its settings stands on its class: the registry, charts, cards and recommendations read it there.
    One of item factors has a method `own_side(public, columns)`, an `OwnSide`, too: what a user of
    so many factors does with them.
    """

    id: ClassVar[str]  # command-line name
    name: ClassVar[str]  # on screen
    short: ClassVar[str] = ""  # in a narrow column, where it differs
    style: ClassVar[Style | None] = None  # how it is drawn; None: one of the spare ones
    list_order: ClassVar[int] = (
        0  # in lists of a task: -1 first, guesses 2 and 3, without privacy 5
    )
    nonprivate_counterpart: ClassVar[str]  # id of the same method without privacy
    baseline: ClassVar[str]  # id of the guess drawn beside it: private too, where it reads the data
    task: ClassVar[Task]
    supports_partitions: ClassVar[bool] = (
        False  # whether users may be in partitions, see `ratings.Here`
    )
    uses_item_features: ClassVar[bool] = (
        False  # what is publicly known of the items, where it is given
    )
    revision: ClassVar[int]  # raised when results change; part of a stored row's key
    published_settings: ClassVar[PublishedSettings] = (
        PublishedSettings()
    )  # the settings that it has in its paper
    # What a card of a pure promise says; other cards say it themselves.
    change: ClassVar[Change]
    trust: ClassVar[Trust]
    publishes: ClassVar[Publishes]
    source: ClassVar[str]

    def __post_init__(self) -> None:
        check_settings(self)

    @classmethod
    def recommendation_reason(cls, request: PrivacyRequest) -> str | None:  # noqa: ARG003
        """Why this is the method to take, in words; None where it is not.

        Where several methods of a task say so, the last in the registry is taken.
        """
        return None

    def guarantee(self, public: PublicFacts) -> Guarantee:
        """The card: releases, claimed budget, caveats."""
        raise NotImplementedError

    def pure_guarantee(
        self,
        public: PublicFacts,
        releases: R,
        caveats: tuple[str, ...] = (),
        unaccounted: tuple[Unaccounted, ...] = (),
    ) -> Guarantee[R]:
        """The card of a pure promise of the setting epsilon, with what is on the class."""
        return Guarantee(
            change=self.change,
            notion=Notion.PURE,
            trust=self.trust,
            publishes=self.publishes,
            public=public,
            claimed=Budget(getattr(self, "epsilon")),  # noqa: B009 - not all have one
            source=self.source,
            releases=releases,
            unaccounted=unaccounted,
            caveats=caveats,
        )

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Train, yielding a Step per round; every release goes through self.guarantee(...)."""
        raise NotImplementedError


# The rounds of a solve without noise, each with None but the last, which comes with the solution.
Rounds = Iterable[tuple[Step, Model | None]]


@runtime_checkable
class AddsNoiseLast(Protocol):
    """A mechanism that solves on raw ratings and only then adds noise, to the solution itself.

    That solve knows no epsilon, so runs at several epsilons may share it: the release covers
    whatever the solution is. No other mechanism may start from it: an access nobody accounts for.
    """

    def solve_without_noise(self, ratings: Ratings) -> Rounds:
        """The solve before any noise: depends on ratings and settings, neither epsilon nor seed."""
        ...

    def fit(self, ratings: Ratings, rng: Rng, rounds: Rounds | None = None) -> Steps:
        """As every `fit`; rounds: those of an earlier solve of the same ratings and settings."""
        ...
