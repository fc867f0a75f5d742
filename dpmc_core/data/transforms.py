"""Preparation steps: learnt on the training ratings, applied to training and test ratings alike;
and the ratings of a public list of users and items.

A step that reads its parameter off the data leaves a phrase in `Ratings.prepared`, which the
guarantee card copies as a caveat.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dpmc_core.arrays import Bools, Floats, Ints
from dpmc_core.errors import (
    BadRatings,
    InvalidSetting,
    check_number,
    format_number,
    format_value,
    parse_number,
)
from dpmc_core.privacy import CELL, Change
from dpmc_core.ratings import (
    Catalogue,
    Origin,
    PublicFacts,
    Ratings,
    draw_cap_mask,
    index_most_rated,
)

# How the phrase ends of a step that is free for some changes; any other is free for none.
_FREE_EXCEPT_CELLS = "(matters per user-item cell only)"
_FREE_EXCEPT_VALUES = "(matters per rating only)"
_FREE_FOR_VALUES = "most rated items"
_ITEM_FEATURES = "what is known of the items"  # free for all: computed from no ratings


def preserves_neighbours(step: str, change: Change) -> bool:
    """Whether a step of `Ratings.prepared` takes neighbouring ratings to neighbouring ones.

    It is free where what it decides cannot differ between neighbours, or differs by the same change
    again. Which ratings a cap keeps is decided for each row by which cells are rated: a row stays
    one row and no value matters, but one cell more may put another one out. Which ratings reach a
    limit is decided cell by cell: a cell stays one cell, but a value decides whether it exists,
    which a promise about values alone calls public. Which items are rated most is decided by all
    rated cells: only a promise that takes these as public may take the choice as public. A mean of
    the ratings moves with every value.
    """
    if step.startswith(_ITEM_FEATURES):
        return True
    if step.endswith(_FREE_EXCEPT_CELLS):
        return change is not CELL
    if step.endswith(_FREE_EXCEPT_VALUES):
        return change.covers_existence
    return step.endswith(_FREE_FOR_VALUES) and not change.covers_existence


class Transform(abc.ABC):
    """A preparation step; `str(step)` is its command-line text, the inverse of `parse_step`."""

    training_only: ClassVar[bool] = False  # whether test ratings pass unchanged

    def for_ratings(self, ratings: Ratings) -> Transform:  # noqa: ARG002
        """The same, naming what it takes that came with the ratings."""
        return self

    @property
    def dependency(self) -> str:
        """What it takes from the ratings, in words as `Ratings.prepared` has them; "": nothing."""
        return ""

    @abc.abstractmethod
    def apply(self, ratings: Ratings, train: Ratings) -> Ratings:
        """The step on some ratings, its data-dependent parameters taken from `train`."""

    @abc.abstractmethod
    def changed_facts(self, public: PublicFacts) -> dict[str, Any]:
        """Those public facts that are others once the step is applied, by name."""

    def transform_facts(self, public: PublicFacts) -> PublicFacts:
        """Public facts of training ratings once the step is applied: they follow from the old."""
        return dataclasses.replace(public, **self.changed_facts(public))

    def _apply_changes(self, ratings: Ratings, dependency: str, **changes: Any) -> Ratings:
        """Ratings with the facts of the step, what it read of them, and some arrays changed."""
        prepared = (*ratings.prepared, dependency) if dependency else ratings.prepared
        public = self.transform_facts(ratings.public)
        return dataclasses.replace(ratings, public=public, prepared=prepared, **changes)


class ThresholdRule(enum.Enum):
    """Where likes begin, if no threshold is typed."""

    MIDDLE = "middle"  # strictly above the middle of the public range: reads no rating
    MEAN = "mean"  # at the mean of the training ratings, which no noise covers


@dataclass(frozen=True)
class Binarise(Transform):
    """Liked -> +1, else -1. threshold: a value, in rating points, from which on it is liked, or a
    rule that finds one."""

    threshold: float | ThresholdRule = ThresholdRule.MIDDLE

    def __post_init__(self) -> None:
        if not isinstance(self.threshold, ThresholdRule):
            check_number("threshold", self.threshold)

    def __str__(self) -> str:
        rule = self.threshold
        text = rule.value if isinstance(rule, ThresholdRule) else format_number(rule)
        return f"binarise={text}"

    @property
    def dependency(self) -> str:
        return "the mean of the training ratings" if self.threshold is ThresholdRule.MEAN else ""

    def apply(self, ratings: Ratings, train: Ratings) -> Ratings:
        """Raises BadRatings where all training ratings fall into one class."""
        threshold, label, dependency = self.threshold, "threshold", ""
        if threshold is ThresholdRule.MIDDLE:
            threshold, label = train.public.middle, "middle of the range"
        elif threshold is ThresholdRule.MEAN:
            threshold, label = float(train.values.mean()), "mean"
            dependency = f"the threshold {threshold:.6g} (mean of the training ratings)"

        def is_liked(values: Floats) -> Bools:
            return (
                values > threshold
                if self.threshold is ThresholdRule.MIDDLE
                else values >= threshold
            )

        if (liked_in_train := is_liked(train.values)).all() or not liked_in_train.any():
            is_strict = self.threshold is ThresholdRule.MIDDLE
            outcomes = ("above", "at or below") if is_strict else ("at or above", "below")
            raise BadRatings(
                f"all {len(train)} training ratings are {outcomes[not liked_in_train.any()]} the"
                f" {label}"
                f" {threshold:g}, so there is only one class: choose another threshold inside the"
                " range of the ratings with binarise=VALUE, or binarise=mean"
            )
        return self._apply_changes(
            ratings, dependency, values=np.where(is_liked(ratings.values), 1.0, -1.0)
        )

    def changed_facts(self, public: PublicFacts) -> dict[str, Any]:  # noqa: ARG002 - whatever it was
        return {"low": -1, "high": 1}


@dataclass(frozen=True)
class Implicit(Transform):
    """Keep the ratings >= at_least (rating points; None: all of them) as interactions of value 1.

    The result has the range 0..1 with zeros left out, as ranking mechanisms expect. With a limit,
    the pattern tells values, which a guarantee per rating takes as public: hence the phrase in
    `prepared`. One per cell or user holds: a rating that changes is a cell that comes or goes.
    """

    at_least: float | None = None

    def __post_init__(self) -> None:
        if self.at_least is not None:
            check_number("at_least", self.at_least)

    def __str__(self) -> str:
        return f"implicit={'all' if self.at_least is None else format_number(self.at_least)}"

    @property
    def dependency(self) -> str:
        limit = self.at_least
        return (
            ""
            if limit is None
            else f"which ratings are {format_number(limit)} or more {_FREE_EXCEPT_VALUES}"
        )

    def apply(self, ratings: Ratings, train: Ratings) -> Ratings:  # noqa: ARG002 - nothing to learn
        if self.at_least is not None:
            keep = ratings.values >= self.at_least
            if not keep.any():
                raise BadRatings(
                    f"no rating is {self.at_least:g} or more, so no interaction is left:"
                    " choose a lower limit"
                )
            ratings = ratings.select(keep)
        return self._apply_changes(ratings, self.dependency, values=np.ones(len(ratings)))

    def changed_facts(self, public: PublicFacts) -> dict[str, Any]:  # noqa: ARG002 - whatever it was
        return {"low": 0, "high": 1}


@dataclass(frozen=True)
class TopItems(Transform):
    """Keep the `count` items with most training ratings (ties: the lower index), re-indexed."""

    count: int

    def __post_init__(self) -> None:
        check_number("top-items", self.count, at_least=1, integer=True)

    def __str__(self) -> str:
        return f"top-items={self.count}"

    @property
    def dependency(self) -> str:
        return f"the choice of the {self.count} {_FREE_FOR_VALUES}"

    def apply(self, ratings: Ratings, train: Ratings) -> Ratings:
        if self.count >= train.public.items:
            return ratings
        positions = index_most_rated(train, self.count)
        if (positions[ratings.items] < 0).all():
            raise BadRatings(f"no rating is left among the {self.count} most rated items")
        return self._apply_changes(ratings.select_items(positions), self.dependency)

    def changed_facts(self, public: PublicFacts) -> dict[str, Any]:
        return {"items": min(public.items, self.count)}


@dataclass(frozen=True)
class CapPerUser(Transform):
    """Keep at most `count` training ratings of each user, chosen at random; sets PublicFacts.cap.

    A cell is kept by a hash of (seed, user, item), so one user's ratings never decide which
    ratings of another are kept: changing one row changes one row. One cell that comes or goes may
    swap another cell of its user in or out, hence the phrase in `prepared`.
    """

    count: int
    seed: int = 0
    training_only = True

    def __post_init__(self) -> None:
        check_number("cap", self.count, at_least=1, integer=True)
        check_number("seed of the cap", self.seed, at_least=0, integer=True)

    def __str__(self) -> str:
        return f"cap={self.count}" + (f":{self.seed}" if self.seed else "")

    @property
    def dependency(self) -> str:
        return (
            f"the choice of the ratings that the cap of {self.count} per user keeps"
            f" {_FREE_EXCEPT_CELLS}"
        )

    def apply(self, ratings: Ratings, train: Ratings) -> Ratings:  # noqa: ARG002 - nothing to learn
        capped = ratings.select(draw_cap_mask(ratings, self.count, self.seed))
        return self._apply_changes(capped, self.dependency)

    def changed_facts(self, public: PublicFacts) -> dict[str, Any]:
        return {"cap": min(self.count, public.cap or self.count)}


@dataclass(frozen=True)
class Rescale(Transform):
    """Map the public range linearly onto low..high."""

    low: float
    high: float

    def __post_init__(self) -> None:
        check_number("low", self.low)
        check_number("high", self.high)
        if self.low >= self.high:
            raise InvalidSetting("rescale", "LOW:HIGH with LOW < HIGH", f"{self.low}:{self.high}")

    def __str__(self) -> str:
        return f"rescale={format_number(self.low)}:{format_number(self.high)}"

    def apply(self, ratings: Ratings, train: Ratings) -> Ratings:  # noqa: ARG002 - nothing to learn
        public = ratings.public
        share = (ratings.values - public.low) / public.width
        values = np.clip(self.low + share * (self.high - self.low), self.low, self.high)
        return self._apply_changes(ratings, "", values=values)

    def changed_facts(self, public: PublicFacts) -> dict[str, Any]:  # noqa: ARG002 - whatever it was
        return {"low": self.low, "high": self.high}


@dataclass(frozen=True)
class UseItemFeatures(Transform):
    """Use what is publicly known of the items. names: which of the facts; none: all there are.
    digest: digest of the table, of one that somebody gave."""

    names: tuple[str, ...] = ()
    digest: str = ""

    def __str__(self) -> str:
        table = f"#{self.digest}" if self.digest else ""
        return "features" + (f"={','.join(self.names)}{table}" if self.names or table else "")

    def for_ratings(self, ratings: Ratings) -> UseItemFeatures:
        """The same, naming the table that was given with the ratings."""
        return dataclasses.replace(self, digest=ratings.features_digest)

    def apply(self, ratings: Ratings, train: Ratings) -> Ratings:
        """Raises BadRatings where nothing is known of the items, or something else."""
        if self.digest not in ("", ratings.features_digest):
            raise BadRatings(f"what is known of the items is another table than #{self.digest}")
        chosen = self.changed_facts(train.public)["features"]
        dependency = f"{_ITEM_FEATURES} ({', '.join(name for name, _ in chosen)})"
        return self._apply_changes(ratings, dependency)

    def changed_facts(self, public: PublicFacts) -> dict[str, Any]:
        """Raises BadRatings where a fact is not there."""
        available = dict(public.available_features)
        for name in self.names:
            if name not in available:
                raise BadRatings(
                    f"nothing is known of the items by the name '{name}'; known:"
                    f" {', '.join(available) or 'nothing'}: give a table of the items with --items"
                )
        if not available:
            raise BadRatings(
                "nothing is known of the items of these data: give a table of them with --items"
            )
        return {"features": tuple((name, available[name]) for name in self.names or available)}


def parse_step(text: str) -> Transform:
    """A step from its command-line text: binarise=middle|mean|VALUE, implicit=all|VALUE,
    top-items=N, cap=N[:SEED], rescale=LOW:HIGH, features[=NAME,...]. Raises InvalidSetting."""
    name, _, value = text.partition("=")
    name, raw_value, value = name.strip().lower(), value.strip(), value.strip().lower()
    if name == "binarise":
        rules = {"": ThresholdRule.MIDDLE} | {rule.value: rule for rule in ThresholdRule}
        return Binarise(rules[value] if value in rules else parse_number(float, value, name))
    if name == "implicit":
        return Implicit(None if value in ("", "all") else parse_number(float, value, name))
    if name == "top-items":
        return TopItems(parse_number(int, value, name))
    if name == "cap":
        count, _, seed = value.partition(":")
        return CapPerUser(
            parse_number(int, count, name), parse_number(int, seed or "0", "seed of the cap")
        )
    if name == "rescale":
        low, colon, high = value.partition(":")
        if not colon:
            raise InvalidSetting("rescale", "LOW:HIGH, for example rescale=0:1", value)
        return Rescale(parse_number(float, low, name), parse_number(float, high, name))
    if name == "features":
        names, _, digest = raw_value.partition("#")
        return UseItemFeatures(
            tuple(filter(None, (feature.strip() for feature in names.split(",")))), digest
        )
    raise InvalidSetting(
        "preparation step",
        "one of binarise=middle|mean|VALUE, implicit=all|VALUE, top-items=N, cap=N,"
        " rescale=LOW:HIGH, features",
        text,
    )


def apply_steps(
    steps: Iterable[Transform], train: Ratings, test: Ratings | None = None
) -> tuple[Ratings, Ratings | None]:
    """Apply each step in turn: learnt on the training ratings as they are by then."""
    for step in steps:
        prior_train, train = train, step.apply(train, train)
        if test is not None and not step.training_only:
            try:
                test = step.apply(test, prior_train)
            except BadRatings as error:
                raise BadRatings(f"test ratings after {step}: {error}") from None
    return train, test


# A list of users and items that is known before any rating is read -------------------------------
#
# Without one the lists are read off the ratings, and the shape of what is published tells which
# items somebody rated and how many users rated any.

_MAX_EXAMPLES = 5
MAX_USERS = 2**31 - 1  # users that an index of 32 bits counts


class OutsideRatings(enum.Enum):
    """What to do with ratings by users, or of items, that a catalogue does not hold."""

    ERROR = "error"
    LEAVE_OUT = "leave-out"


def read_ids(path: str | Path) -> tuple[str, ...]:
    """The ids of a text file in UTF-8, one a line; blank lines do not count. Raises BadRatings."""
    file = Path(path)
    if not file.is_file():
        raise BadRatings(f"there is no file {file} with one id a line")
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise BadRatings(f"{file.name} is no text in UTF-8: write one id a line") from None
    ids = tuple(line.strip() for line in lines if line.strip())
    if not ids:
        raise BadRatings(f"{file.name} has no ids: write one a line")
    return ids


def align_to_catalogue(
    ratings: Ratings,
    items: Sequence[str],
    users: Sequence[str] | int,
    on_outside: OutsideRatings = OutsideRatings.ERROR,
    shuffle: random.Random | None = None,
) -> tuple[Ratings, str]:
    """The ratings over all items and users of a catalogue, rated or not; and what was left out.

    Rows are in the order of the lists. users: their ids, or how many there are: then those with
    ratings come first, by id, or with `shuffle` at places drawn at random. A promise per cell or
    user needs that draw, from the operating system: whoever loses the last rating leaves the list,
    and all behind would move up by a row; drawn, only which rows there are matters.

    Raises BadRatings for ratings outside, where `on_outside` does not say to leave them out.
    """
    if ratings.item_ids is None or ratings.user_ids is None:
        raise BadRatings(
            "these users and items have no names, so no catalogue can list them: their numbers are"
            " taken as given with the ratings"
        )
    item_positions = _index_ids("items", items)
    new_items = np.array([item_positions.get(id, -1) for id in ratings.item_ids], dtype=np.int64)
    if isinstance(users, int):
        new_users = _assign_rows(ratings, users, shuffle)
        n_users, user_ids = users, None
    else:
        user_positions = _index_ids("users", users)
        new_users = np.array(
            [user_positions.get(id, -1) for id in ratings.user_ids], dtype=np.int64
        )
        n_users, user_ids = len(users), tuple(users)
    rows, columns = new_users[ratings.users], new_items[ratings.items]
    is_inside = (rows >= 0) & (columns >= 0)
    message = _describe_outside(ratings, rows, columns)
    if message and on_outside is OutsideRatings.ERROR:
        raise BadRatings(f"{message}: list them, or leave these ratings out (--outside leave-out)")
    titles = dict(zip(ratings.item_ids, ratings.titles, strict=True)) if ratings.titles else {}
    # What is known of the rated items alone would show which items nobody rated.
    public = dataclasses.replace(
        ratings.public, users=n_users, items=len(items), features=(), available_features=()
    )
    aligned = Ratings.build(
        rows[is_inside],
        columns[is_inside],
        ratings.values[is_inside],
        public,
        times=None if ratings.times is None else ratings.times[is_inside],
        user_ids=user_ids,
        item_ids=tuple(items),
        titles=tuple(titles.get(id, id) for id in items) if titles else None,
        prepared=ratings.prepared,
        columns=ratings.columns,
        catalogue=Catalogue(Origin.LISTED, users_listed=user_ids is not None),
    )
    return aligned, message


def declare_catalogue_public(ratings: Ratings) -> Ratings:
    """The same ratings, their users and items said to be public though read off the ratings."""
    return dataclasses.replace(ratings, catalogue=Catalogue(Origin.FROM_DATA))


def _index_ids(kind: str, ids: Sequence[str]) -> dict[str, int]:
    index_by_id = {id: k for k, id in enumerate(ids)}
    if len(index_by_id) < len(ids):
        repeated = next(id for k, id in enumerate(ids) if index_by_id[id] != k)
        raise BadRatings(f"the catalogue lists {kind} twice, first {format_value(repeated)}")
    return index_by_id


def _assign_rows(ratings: Ratings, users: int, shuffle: random.Random | None) -> Ints:
    """A place among so many for every user with ratings, in the order of their ids or drawn."""
    check_number("number of users", users, at_least=1, at_most=MAX_USERS, integer=True)
    rated = np.unique(ratings.users)
    if len(rated) > users:
        raise InvalidSetting("number of users", f">= {len(rated)}, who have ratings", users)
    rows = np.full(ratings.public.users, -1, dtype=np.int64)
    chosen_rows = range(len(rated)) if shuffle is None else shuffle.sample(range(users), len(rated))
    rows[rated] = chosen_rows
    return rows


def _describe_outside(ratings: Ratings, users: Ints, items: Ints) -> str:
    """How many ratings lie outside, and by whom or of what, in words; "": none."""
    count = int(np.count_nonzero((users < 0) | (items < 0)))
    if not count:
        return ""
    clauses = []
    for kind, index, positions, ids in (
        ("items", ratings.items, items, ratings.item_ids),
        ("users", ratings.users, users, ratings.user_ids),
    ):
        missing = np.unique(index[positions < 0]).tolist()
        if missing:
            examples = ", ".join(format_value((ids or ())[k]) for k in missing[:_MAX_EXAMPLES])
            ellipsis = ", ..." if len(missing) > _MAX_EXAMPLES else ""
            noun = kind.removesuffix("s") if len(missing) == 1 else kind
            clauses.append(f"{len(missing):,} {noun} ({examples}{ellipsis})")
    subject = "1 rating is" if count == 1 else f"{count:,} ratings are"
    return f"{subject} outside the catalogue, which lacks {' and '.join(clauses)}"
