"""What every mechanism shares: its task, the steps of its fit and the model it yields."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, ClassVar, NamedTuple, NoReturn, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dpmc_core.arrays import AnyArray, Floats, Rng
from dpmc_core.errors import unknown_name_error
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
from dpmc_core.ratings import PublicFacts, Ratings, check_facts_type
from dpmc_core.settings import PublishedSettings, check_settings
from dpmc_core.stopping import check_cancelled
from dpmc_core.style import Style

R = TypeVar("R", bound=Releases)


class Task(enum.Enum):
    """What a mechanism predicts."""

    BINARY = "binary"  # the sign of a +1/-1 rating; predict() returns a real score
    RATINGS = "ratings"  # a rating in the public range
    RANKING = "ranking"  # which unseen items come next; predict() returns a score

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise unknown_name_error("task", str(value), [task.value for task in cls])


class Estimator(enum.Enum):
    """How a model is estimated from noisy reports; the reports and their guarantee are the same."""

    NOISE_AWARE = "noise-aware"  # effects and low-rank factors, fitted to the known noise
    PUBLISHED = "published"  # the paper's own


class Model(Protocol):
    """A trained predictor."""

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        """Return the score of each (users[k], items[k]) pair.

        Args:
            users: array of user indices.
            items: array of item indices; both broadcast to one shape.
        """
        ...

    @property
    def factors(self) -> Factors | None:
        """The user and item factors; None if the model has none."""
        ...


@dataclass(frozen=True)
class ArraySpec:
    """The format of one array of a release.

    Attributes:
        shape: length of each axis. A letter is a length that depends on the noise: at most
            `max_size`, and the same wherever the letter occurs.
        description: what the array holds.
        type: NumPy name of the number type, or "text".
        low: smallest allowed value of integers.
        high: largest allowed value of integers, or the letter of a length: then increasing values
            end at that length.
        increasing: whether the values must increase.
        max_size: largest length that a letter may stand for.
        optional: whether the array may be missing.
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
    """How a user computes predictions from published item factors and the user's own ratings.

    Attributes:
        formula: the computation in words; `items` are the right factors, x is the user's ratings.
        columns: how many columns `items` may have.
        arrays: the formats of further arrays it needs, by name. They are computed from what was
            published, so they may be published too.
    """

    formula: str
    columns: Collection[int]
    arrays: Mapping[str, ArraySpec] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class Factors:
    """A model X = left right'.

    Attributes:
        left: array of shape (n_users, r), user factors.
        right: array of shape (n_items, r), item factors.
        user_arrays: further arrays, by name. From these and `right` each user can compute the
            user's row of `left` without other users' data.
    """

    left: Floats
    right: Floats
    user_arrays: Mapping[str, AnyArray] = field(default_factory=dict)

    @property
    def factors(self) -> Factors:
        """The model itself."""
        return self

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        """Return left[u] . right[i] of (user, item) pairs, whose indices broadcast together."""
        user_indices, item_indices = np.broadcast_arrays(users, items)
        scores = np.empty(user_indices.size)
        flat_users, flat_items = user_indices.ravel(), item_indices.ravel()
        # At most 32 MB of user factors, and as many of item factors, are gathered at once.
        chunk_size = max(1, 4_000_000 // max(1, self.left.shape[1]))
        for start in range(0, user_indices.size, chunk_size):
            check_cancelled()
            chunk = slice(start, start + chunk_size)
            np.einsum(
                "kr,kr->k",
                self.left[flat_users[chunk]],
                self.right[flat_items[chunk]],
                out=scores[chunk],
            )
        return scores.reshape(user_indices.shape)


@dataclass(frozen=True, eq=False)
class Dense:
    """A full matrix of scores, for outputs that are dense by nature.

    Attributes:
        matrix: array of shape (n_users, n_items).
    """

    matrix: Floats
    factors: ClassVar[None] = None

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        """Return the scores of (user, item) pairs, whose indices broadcast together."""
        return self.matrix[np.asarray(users), np.asarray(items)]


@dataclass(frozen=True)
class Constant:
    """The same score for every user and item.

    Attributes:
        value: the score.
    """

    value: float
    factors: ClassVar[None] = None

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        """Return the score, in the shape to which the indices broadcast."""
        return np.full(np.broadcast_shapes(np.shape(users), np.shape(items)), self.value)


@dataclass(frozen=True)
class Step:
    """One round of `fit`.

    Attributes:
        index: number of the round, from 1 to at most `total`.
        total: announced number of rounds.
        build: the model after the round, or a function that builds it and draws nothing; None
            before the noise is added.
        trace: numbers to plot, by name.
        raw: names of the numbers in `trace` that are computed from raw data without noise (for
            evaluation only, not private).
        final: whether no round follows; a solver may converge early.
    """

    index: int
    total: int
    build: Model | Callable[[], Model] | None
    trace: Mapping[str, float] = field(default_factory=dict)
    raw: frozenset[str] = frozenset()
    final: bool = False

    def __post_init__(self) -> None:
        trace = {name: float(value) for name, value in self.trace.items()}
        object.__setattr__(self, "trace", trace)

    @cached_property
    def model(self) -> Model | None:
        """The model after the round, built when first read: those of many rounds never are."""
        return self.build() if callable(self.build) else self.build

    @classmethod
    def from_trace(
        cls,
        index: int,
        total: int,
        model: Model | Callable[[], Model] | None,
        trace: Mapping[str, float],
        published_names: Collection[str] = (),
        *,
        converged: bool = False,
    ) -> Step:
        """Build the step of a round, which is final if it is the last one or the solver converged.

        Args:
            index: number of the round, from 1 to `total`.
            total: announced number of rounds.
            model: the model after the round, if it may be published.
            trace: numbers to plot, by name.
            published_names: names of those that follow from what was published; all others are raw.
            converged: whether the solver converged.
        """
        raw = frozenset(trace) - frozenset(published_names)
        return cls(index, total, model, trace, raw, converged or index == total)


Steps = Iterator[Step]


class PrivacyRequest(NamedTuple):
    """A promise for which a person seeks a mechanism.

    Attributes:
        change: what the promise must protect.
        epsilon: the privacy budget.
        trust: CURATOR, or LOCAL if nobody may see raw ratings.
        public: the public facts of the ratings.
    """

    change: Change
    epsilon: float
    trust: Trust
    public: PublicFacts


def _check_facts(guarantee: Any) -> Any:
    """Return the method `guarantee` of a class with a check of its argument."""

    @wraps(guarantee)
    def checked(self: Mechanism, public: PublicFacts) -> Guarantee:
        check_facts_type(public)
        return guarantee(self, public)

    return checked


class Mechanism:
    """A frozen, keyword-only dataclass of public settings with the methods `guarantee` and `fit`.

    Private data and randomness enter only as arguments of `fit`. Everything else that is known of a
    method is a class variable, which the registry, charts, privacy cards and recommendations read.
    A mechanism that publishes item factors also has a method `own_side(public, columns)`, which
    returns an `OwnSide`: how users compute their predictions from item factors of so many columns.

    Attributes:
        id: command-line name.
        name: name on screen.
        short: name in narrow columns, if it differs.
        style: how the method is drawn; None for a style that follows from its id.
        list_order: position in lists of a task: -1 first, 2 and 3 for baselines, 5 for nonprivate
            methods.
        nonprivate_counterpart: id of the same method without privacy.
        baseline: id of the baseline it must beat, which is private too if it reads the data.
        task: what the method predicts.
        supports_partitions: whether users may lie in partitions, see `ratings.UserData`.
        uses_item_features: whether public item features are used, if they are given.
        revision: raised when results change; part of a stored row's key.
        published_revision: the revision that last changed results as published, which are with the
            estimator "published" and without private item effects; None: `revision`.
        published_settings: the settings that the method has in its paper.
        change: what a pure promise protects. This and the next three are read by `pure_guarantee`;
            other guarantees state them themselves.
        trust: who sees raw ratings.
        publishes: what leaves the trusted side.
        source: the paper or text that makes the claim.
    """

    id: ClassVar[str]
    name: ClassVar[str]
    short: ClassVar[str] = ""
    style: ClassVar[Style | None] = None
    list_order: ClassVar[int] = 0
    nonprivate_counterpart: ClassVar[str]
    baseline: ClassVar[str]
    task: ClassVar[Task]
    supports_partitions: ClassVar[bool] = False
    uses_item_features: ClassVar[bool] = False
    revision: ClassVar[int]
    published_revision: ClassVar[int | None] = None
    published_settings: ClassVar[PublishedSettings] = PublishedSettings()
    change: ClassVar[Change]
    trust: ClassVar[Trust]
    publishes: ClassVar[Publishes]
    source: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """Let the `guarantee` of every mechanism refuse a data frame with a sentence."""
        super().__init_subclass__()
        if "guarantee" in vars(cls):
            setattr(cls, "guarantee", _check_facts(cls.guarantee))  # noqa: B010 - it is a method

    def __post_init__(self) -> None:
        check_settings(self)

    @classmethod
    def recommendation_reason(cls, request: PrivacyRequest) -> str | None:  # noqa: ARG003
        """Return why this mechanism is the best choice for a request; None if it is not.

        If several mechanisms of a task give a reason, the last one in the registry is chosen.
        """
        return None

    def guarantee(self, public: PublicFacts) -> Guarantee:
        """Return the privacy guarantee on given public facts: releases, claimed budget, caveats."""
        raise NotImplementedError

    def pure_guarantee(
        self,
        public: PublicFacts,
        releases: R,
        caveats: tuple[str, ...] = (),
        unaccounted: tuple[Unaccounted, ...] = (),
    ) -> Guarantee[R]:
        """Build the guarantee of a pure epsilon-DP claim from the class variables and `epsilon`.

        Args:
            public: the public facts of the ratings.
            releases: what the mechanism releases.
            caveats: conditions under which the guarantee holds.
            unaccounted: data accesses that no noise covers.
        """
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
        """Train on ratings, yielding a Step per round.

        Every release is one of `self.guarantee(ratings.public)`.

        Args:
            ratings: training ratings, of shape (n_users, n_items).
            rng: draws the noise and all other random choices.
        """
        raise NotImplementedError


# The rounds of a solve without noise. Only the last one comes with a model, the others with None.
Rounds = Iterable[tuple[Step, Model | None]]


@runtime_checkable
class AddsNoiseLast(Protocol):
    """A mechanism that solves on raw ratings and only then adds noise to the solution itself.

    The solve does not know epsilon, so runs at several epsilons may share it: the release covers
    any solution. No other mechanism may start from it, because no guarantee accounts for that
    access.
    """

    def solve_without_noise(self, ratings: Ratings) -> Rounds:
        """Solve without noise; the result depends on neither epsilon nor the seed.

        Args:
            ratings: training ratings, of shape (n_users, n_items).
        """
        ...

    def fit(self, ratings: Ratings, rng: Rng, rounds: Rounds | None = None) -> Steps:
        """Train as `Mechanism.fit` does.

        Args:
            ratings: training ratings, of shape (n_users, n_items).
            rng: draws the noise.
            rounds: the rounds of an earlier solve of the same ratings and settings; None to solve
                now.
        """
        ...
