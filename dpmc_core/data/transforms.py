"""Preparation steps: learnt on the training ratings, applied to training and test ratings alike.

A step that reads its parameter off the data leaves a phrase in `Ratings.prepared`, which the
guarantee card copies as a caveat.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import BadRatings, InvalidSetting, check_number, exact
from dpmc_core.ratings import Ratings

Learned = Callable[[Ratings], Ratings]

ENTRY_ONLY = "(matters per user-item cell only)"  # ends the phrase of a step that is free elsewhere


class Transform(Protocol):
    """A preparation step; `str(step)` is its command-line text, the inverse of `parse_step`."""

    training_only: ClassVar[bool]  # the test ratings pass unchanged

    def learn(self, train: Ratings) -> Learned:
        """The function to apply, its data-dependent parameters taken from `train`."""
        ...


@dataclass(frozen=True)
class Binarise:
    """value >= threshold -> +1, else -1; threshold in rating points, None = the training mean."""

    threshold: float | None = None
    training_only: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.threshold is not None:
            check_number("threshold", self.threshold)

    def __str__(self) -> str:
        return f"binarise={'mean' if self.threshold is None else exact(self.threshold)}"

    def learn(self, train: Ratings) -> Learned:
        """Raises BadRatings where all training ratings fall into one class."""
        step = ""
        threshold = self.threshold
        if threshold is None:
            threshold = float(train.values.mean())
            step = f"the threshold {threshold:.6g} (mean of the training ratings)"
        above = train.values >= threshold
        if above.all() or not above.any():
            side = "at or above" if above.all() else "below"
            raise BadRatings(
                f"all {len(train)} training ratings are {side} the threshold {threshold:g}, so"
                " there is only one class: choose a threshold inside the range of the ratings"
            )
        cut = threshold

        def apply(ratings: Ratings) -> Ratings:
            signs = np.where(ratings.values >= cut, 1.0, -1.0)
            return ratings.with_values(signs, low=-1, high=1, step=step)

        return apply


@dataclass(frozen=True)
class Implicit:
    """Keep the ratings >= at_least (rating points; None: all of them) as interactions of value 1.

    The result has the range 0..1 with zeros left out, as ranking mechanisms expect. With a limit,
    the pattern tells values, which a guarantee per rating takes as public: hence the phrase in
    `prepared`. One per cell or user holds: a rating that changes is a cell that comes or goes.
    """

    at_least: float | None = None
    training_only: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.at_least is not None:
            check_number("at_least", self.at_least)

    def __str__(self) -> str:
        return f"implicit={'all' if self.at_least is None else exact(self.at_least)}"

    def learn(self, train: Ratings) -> Learned:  # noqa: ARG002 - nothing to learn
        step = ""
        if self.at_least is not None:
            step = f"which ratings are {exact(self.at_least)} or more (matters per rating only)"

        def apply(ratings: Ratings) -> Ratings:
            if self.at_least is not None:
                keep = ratings.values >= self.at_least
                if not keep.any():
                    raise BadRatings(
                        f"no rating is {self.at_least:g} or more, so no interaction is left:"
                        " choose a lower limit"
                    )
                ratings = ratings.select(keep)
            return ratings.with_values(np.ones(len(ratings)), low=0, high=1, step=step)

        return apply


@dataclass(frozen=True)
class TopItems:
    """Keep the `count` items with most training ratings (ties: the lower index), re-indexed."""

    count: int
    training_only: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("top-items", self.count, at_least=1, integer=True)

    def __str__(self) -> str:
        return f"top-items={self.count}"

    def learn(self, train: Ratings) -> Learned:
        items = train.public.items
        if self.count >= items:
            return lambda ratings: ratings
        counts = np.bincount(train.items, minlength=items)
        kept = np.sort(np.argsort(-counts, kind="stable")[: self.count])
        new_index = np.full(items, -1, dtype=np.int32)
        new_index[kept] = np.arange(self.count, dtype=np.int32)
        step = f"the choice of the {self.count} most rated items"

        def apply(ratings: Ratings) -> Ratings:
            inside = new_index[ratings.items] >= 0
            if not inside.any():
                raise BadRatings(f"no rating is left among the {self.count} most rated items")
            chosen = ratings.select(inside)
            return dataclasses.replace(
                chosen,
                items=new_index[chosen.items],
                public=dataclasses.replace(ratings.public, items=self.count),
                item_ids=_pick(ratings.item_ids, kept),
                titles=_pick(ratings.titles, kept),
                prepared=(*ratings.prepared, step),
            )

        return apply


@dataclass(frozen=True)
class CapPerUser:
    """Keep at most `count` training ratings of each user, chosen at random; sets PublicFacts.cap.

    A cell is kept by a hash of (seed, user, item), so one user's ratings never decide which
    ratings of another are kept: changing one row changes one row. One cell that comes or goes may
    swap another cell of its user in or out, hence the phrase in `prepared`.
    """

    count: int
    seed: int = 0
    training_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("cap", self.count, at_least=1, integer=True)
        check_number("seed of the cap", self.seed, at_least=0, integer=True)

    def __str__(self) -> str:
        return f"cap={self.count}" + (f":{self.seed}" if self.seed else "")

    def learn(self, train: Ratings) -> Learned:  # noqa: ARG002 - nothing to learn
        step = f"the choice of the ratings that the cap of {self.count} per user keeps {ENTRY_ONLY}"

        def apply(ratings: Ratings) -> Ratings:
            chosen = ratings.select(kept_at_random(ratings, self.count, self.seed))
            cap = min(self.count, ratings.public.cap or self.count)
            return dataclasses.replace(
                chosen,
                public=dataclasses.replace(ratings.public, cap=cap),
                prepared=(*ratings.prepared, step),
            )

        return apply


@dataclass(frozen=True)
class Rescale:
    """Map the public range linearly onto low..high."""

    low: float
    high: float
    training_only: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("low", self.low)
        check_number("high", self.high)
        if self.low >= self.high:
            raise InvalidSetting("rescale", "LOW:HIGH with LOW < HIGH", f"{self.low}:{self.high}")

    def __str__(self) -> str:
        return f"rescale={exact(self.low)}:{exact(self.high)}"

    def learn(self, train: Ratings) -> Learned:  # noqa: ARG002 - the public range decides alone
        def apply(ratings: Ratings) -> Ratings:
            public = ratings.public
            share = (ratings.values - public.low) / public.width
            values = np.clip(self.low + share * (self.high - self.low), self.low, self.high)
            return ratings.with_values(values, low=self.low, high=self.high)

        return apply


def kept_at_random(ratings: Ratings, count: int, key: int) -> NDArray[np.bool_]:
    """Which ratings stay where each user keeps at most `count`, chosen at random.

    A cell's place is a hash of (key, user, item): other users' ratings never matter.
    """
    offset = np.random.SeedSequence(key).generate_state(1, np.uint64).astype(np.uint64)
    cell = ratings.users.astype(np.uint64) * np.uint64(ratings.public.items)
    priority = _mix(_mix(cell + ratings.items.astype(np.uint64)) + offset)
    return place_in_row(ratings, priority) < count


def place_in_row(ratings: Ratings, *keys: NDArray[Any]) -> NDArray[np.int64]:
    """Each rating's place (0, 1, ...) within its user's row, ordered by the last of the keys, ties
    by the one before it and at last by the item."""
    order = np.lexsort((*keys, ratings.users))
    place = np.empty(len(ratings), dtype=np.int64)
    place[order] = np.arange(len(ratings)) - ratings.indptr[ratings.users[order]]
    return place


def parse_step(text: str) -> Transform:
    """A step from its command-line text: binarise=mean|VALUE, implicit=all|VALUE, top-items=N,
    cap=N[:SEED], rescale=LOW:HIGH. Raises InvalidSetting."""
    name, _, value = text.partition("=")
    name, value = name.strip().lower(), value.strip().lower()
    if name == "binarise":
        return Binarise(None if value in ("", "mean") else _number(name, value))
    if name == "implicit":
        return Implicit(None if value in ("", "all") else _number(name, value))
    if name == "top-items":
        return TopItems(_integer(name, value))
    if name == "cap":
        count, _, seed = value.partition(":")
        return CapPerUser(_integer(name, count), _integer("seed of the cap", seed or "0"))
    if name == "rescale":
        low, colon, high = value.partition(":")
        if not colon:
            raise InvalidSetting("rescale", "LOW:HIGH, for example rescale=0:1", value)
        return Rescale(_number(name, low), _number(name, high))
    raise InvalidSetting(
        "preparation step",
        "one of binarise=mean|VALUE, implicit=all|VALUE, top-items=N, cap=N, rescale=LOW:HIGH",
        text,
    )


def apply_steps(
    steps: Iterable[Transform], train: Ratings, test: Ratings | None = None
) -> tuple[Ratings, Ratings | None]:
    """Apply each step in turn: learnt on the training ratings as they are by then."""
    for step in steps:
        apply = step.learn(train)
        train = apply(train)
        if test is not None and not step.training_only:
            try:
                test = apply(test)
            except BadRatings as error:
                raise BadRatings(f"test ratings after {step}: {error}") from None
    return train, test


def _pick(names: Sequence[str] | None, kept: NDArray[np.int64]) -> tuple[str, ...] | None:
    return None if names is None else tuple(names[k] for k in kept)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The splitmix64 finaliser: a bijection of 64-bit words that looks random."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _number(field: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidSetting(field, "a number", text) from None


def _integer(field: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidSetting(field, "an integer", text) from None
