"""Preparation steps, and alignment of ratings to a public list of users and items.

Steps are learnt on the training ratings and applied to training and test ratings alike. A step that
reads its parameter off the data leaves a phrase in `Ratings.prepared`, which the guarantee repeats
as a caveat.
"""

from __future__ import annotations

import abc
import enum
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dpmc_core.arrays import Ints
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

# The end of a step's phrase tells for which changes the step is free; others are free for none.
_FREE_EXCEPT_CELLS = "(matters per user-item cell only)"
_FREE_EXCEPT_VALUES = "(matters per rating only)"
_FREE_FOR_VALUES = "most rated items"
_ITEM_FEATURES = "what is known of the items"  # free for all changes: computed from no ratings

DONOR = "donor "  # how the names of features begin that come from other, published ratings
_SHARED = "the donor shares no people with these ratings, as you confirmed"


def preserves_neighbours(step: str, change: Change) -> bool:
    """Return whether a step of `Ratings.prepared` maps neighbouring ratings to neighbouring ones.

    It does if what it decides cannot differ between neighbours, or differs by the same change
    again. Which ratings a cap keeps is decided for each row by which cells are rated: a row stays
    one row and no value matters, but one cell more may displace another one. Which ratings reach a
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
    """A preparation step; `str(step)` is its text, the inverse of `parse_step`.

    Attributes:
        training_only: whether test ratings pass unchanged.
    """

    training_only: ClassVar[bool] = False

    def for_ratings(self, ratings: Ratings) -> Transform:  # noqa: ARG002
        """Return the same step, naming what it uses that came with the ratings."""
        return self

    @property
    def dependency(self) -> str:
        """What the step reads off the ratings, as a phrase of `Ratings.prepared`; may be empty."""
        return ""

    @abc.abstractmethod
    def apply(self, ratings: Ratings, train: Ratings) -> Ratings:
        """Apply the step to ratings, with its data-dependent parameters taken from `train`.

        Raises:
            BadRatings: if the step cannot be applied to such ratings.
        """

    @abc.abstractmethod
    def changed_facts(self, public: PublicFacts) -> dict[str, Any]:
        """Return the public facts that the step changes, by name."""

    def transform_facts(self, public: PublicFacts) -> PublicFacts:
        """Return the public facts of training ratings after the step, from those before it."""
        return replace(public, **self.changed_facts(public))

    def _apply_changes(self, ratings: Ratings, dependency: str, **changes: Any) -> Ratings:
        """Return ratings with the step's facts, what it read off them, and some arrays changed."""
        prepared = (*ratings.prepared, dependency) if dependency else ratings.prepared
        public = self.transform_facts(ratings.public)
        return replace(ratings, public=public, prepared=prepared, **changes)


class ThresholdRule(enum.Enum):
    """The rule that finds the threshold of likes if no value is given."""

    MIDDLE = "middle"  # strictly above the middle of the public range: reads no rating
    MEAN = "mean"  # at the mean of the training ratings, which no noise covers


@dataclass(frozen=True)
class Binarise(Transform):
    """Replace each rating by +1 if it is liked, else by -1.

    Attributes:
        threshold: the smallest liked value, in rating points; or a rule that finds one.
    """

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
        """The mean, if the threshold is one."""
        return "the mean of the training ratings" if self.threshold is ThresholdRule.MEAN else ""

    def apply(self, ratings: Ratings, train: Ratings) -> Ratings:
        """Apply the threshold to ratings.

        Raises:
            BadRatings: if all training ratings fall into one class.
        """
        threshold, label, dependency = self.threshold, "threshold", ""
        if threshold is ThresholdRule.MIDDLE:
            threshold, label = train.public.middle, "middle of the range"
        elif threshold is ThresholdRule.MEAN:
            threshold, label = float(train.values.mean()), "mean"
            dependency = f"the threshold {threshold:.6g} (mean of the training ratings)"

        is_strict = self.threshold is ThresholdRule.MIDDLE
        is_liked = np.greater if is_strict else np.greater_equal
        liked_in_train = is_liked(train.values, threshold)
        if liked_in_train.all() or not liked_in_train.any():
            outcomes = ("above", "at or below") if is_strict else ("at or above", "below")
            raise BadRatings(
                f"all {len(train)} training ratings are {outcomes[not liked_in_train.any()]} the"
                f" {label} {threshold:g}, so there is only one class: choose another threshold"
                " inside the range of the ratings with binarise=VALUE, or binarise=mean"
            )
        return self._apply_changes(
            ratings, dependency, values=np.where(is_liked(ratings.values, threshold), 1.0, -1.0)
        )

    def changed_facts(self, public: PublicFacts) -> dict[str, Any]:  # noqa: ARG002 - whatever it was
        """Return the range -1..1."""
        return {"low": -1, "high": 1}


@dataclass(frozen=True)
class Implicit(Transform):
    """Keep the ratings that reach a limit, as interactions of value 1.

    The result has the range 0..1 with zeros left out, as ranking mechanisms expect. With a limit,
    the pattern reveals values, which a guarantee per rating takes as public: hence the phrase in
    `prepared`. A guarantee per cell or user holds: a rating that changes is a cell that comes or
    goes.

    Attributes:
        at_least: the limit, in rating points; None to keep all ratings.
    """

    at_least: float | None = None

    def __post_init__(self) -> None:
        if self.at_least is not None:
            check_number("at_least", self.at_least)

    def __str__(self) -> str:
        return f"implicit={'all' if self.at_least is None else format_number(self.at_least)}"

    @property
    def dependency(self) -> str:
        """Which ratings reach the limit, if there is one."""
        if self.at_least is None:
            return ""
        return f"which ratings are {format_number(self.at_least)} or more {_FREE_EXCEPT_VALUES}"

    def apply(self, ratings: Ratings, train: Ratings) -> Ratings:  # noqa: ARG002 - nothing to learn
        """Drop the ratings below the limit and set all others to 1.

        Raises:
            BadRatings: if no rating reaches the limit.
        """
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
        """Return the range 0..1."""
        return {"low": 0, "high": 1}


@dataclass(frozen=True)
class TopItems(Transform):
    """Keep the items with most training ratings (ties: the lower index), re-indexed.

    Attributes:
        count: how many items are kept.
    """

    count: int

    def __post_init__(self) -> None:
        check_number("top-items", self.count, at_least=1, integer=True)

    def __str__(self) -> str:
        return f"top-items={self.count}"

    @property
    def dependency(self) -> str:
        """The choice of the items."""
        return f"the choice of the {self.count} {_FREE_FOR_VALUES}"

    def apply(self, ratings: Ratings, train: Ratings) -> Ratings:
        """Drop the ratings of all other items.

        Raises:
            BadRatings: if no rating is left.
        """
        if self.count >= train.public.items:
            return ratings
        positions = index_most_rated(train, self.count)
        if (positions[ratings.items] < 0).all():
            raise BadRatings(f"no rating is left among the {self.count} most rated items")
        return self._apply_changes(ratings.select_items(positions), self.dependency)

    def changed_facts(self, public: PublicFacts) -> dict[str, Any]:
        """Return the number of items."""
        return {"items": min(public.items, self.count)}


@dataclass(frozen=True)
class CapPerUser(Transform):
    """Keep at most `count` training ratings of each user, chosen at random; sets PublicFacts.cap.

    A cell is kept by a hash of (seed, user, item), so one user's ratings never decide which ratings
    of another are kept: changing one row changes one row. One cell that comes or goes may swap
    another cell of its user in or out, hence the phrase in `prepared`.

    Attributes:
        count: the largest number of ratings of a user.
        seed: seed of the hash.
        training_only: True; test ratings pass unchanged.
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
        """The choice of the ratings that the cap keeps."""
        return (
            f"the choice of the ratings that the cap of {self.count} per user keeps"
            f" {_FREE_EXCEPT_CELLS}"
        )

    def apply(self, ratings: Ratings, train: Ratings) -> Ratings:  # noqa: ARG002 - nothing to learn
        """Drop the ratings of each user beyond the cap."""
        capped = ratings.select(draw_cap_mask(ratings, self.count, self.seed))
        return self._apply_changes(capped, self.dependency)

    def changed_facts(self, public: PublicFacts) -> dict[str, Any]:
        """Return the cap, or a smaller one that already holds."""
        return {"cap": min(self.count, public.cap or self.count)}


@dataclass(frozen=True)
class Rescale(Transform):
    """Map the public range linearly onto another one.

    Attributes:
        low: lower end of the new range.
        high: upper end of the new range.
    """

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
        """Rescale all values."""
        public = ratings.public
        share = (ratings.values - public.low) / public.width
        values = np.clip(self.low + share * (self.high - self.low), self.low, self.high)
        return self._apply_changes(ratings, "", values=values)

    def changed_facts(self, public: PublicFacts) -> dict[str, Any]:  # noqa: ARG002 - whatever it was
        """Return the new range."""
        return {"low": self.low, "high": self.high}


def describe_features(names: Iterable[str]) -> str:
    """List item features, with what has to be true where some come from a donor."""
    text, is_donated = ", ".join(names), any(name.startswith(DONOR) for name in names)
    return f"{text}; {_SHARED}" if is_donated else text


@dataclass(frozen=True)
class UseItemFeatures(Transform):
    """Use public item features.

    Attributes:
        names: the features to use; empty for all that are available.
        digest: digest of the table of items, if a person gave it.
    """

    names: tuple[str, ...] = ()
    digest: str = ""

    def __str__(self) -> str:
        table = f"#{self.digest}" if self.digest else ""
        return "features" + (f"={','.join(self.names)}{table}" if self.names or table else "")

    def for_ratings(self, ratings: Ratings) -> UseItemFeatures:
        """Return the same step, naming the table that was given with the ratings."""
        return replace(self, digest=ratings.features_digest)

    def apply(self, ratings: Ratings, train: Ratings) -> Ratings:
        """Record the features that are used.

        Raises:
            BadRatings: if a feature is not available, or the table is another one.
        """
        if self.digest not in ("", ratings.features_digest):
            raise BadRatings(f"what is known of the items is another table than #{self.digest}")
        chosen = self.changed_facts(train.public)["features"]
        dependency = f"{_ITEM_FEATURES} ({describe_features(dict(chosen))})"
        return self._apply_changes(ratings, dependency)

    def changed_facts(self, public: PublicFacts) -> dict[str, Any]:
        """Return the features that are used, with their numbers of columns.

        Raises:
            BadRatings: if a feature is not available.
        """
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
    """Parse the text of a step.

    The texts are binarise=middle|mean|VALUE, implicit=all|VALUE, top-items=N, cap=N[:SEED],
    rescale=LOW:HIGH and features[=NAME,...]. They are read here and not by the command line,
    because rows, releases and keys of curves store them.

    Raises:
        InvalidSetting: if the text is no step.
    """
    name, _, value = text.partition("=")
    name, raw_value, value = name.strip().lower(), value.strip(), value.strip().lower()
    match name:
        case "binarise":
            rules = {"": ThresholdRule.MIDDLE} | {rule.value: rule for rule in ThresholdRule}
            return Binarise(rules[value] if value in rules else parse_number(float, value, name))
        case "implicit":
            return Implicit(None if value in ("", "all") else parse_number(float, value, name))
        case "top-items":
            return TopItems(parse_number(int, value, name))
        case "cap":
            count, _, seed = value.partition(":")
            return CapPerUser(
                parse_number(int, count, name), parse_number(int, seed or "0", "seed of the cap")
            )
        case "rescale":
            low, colon, high = value.partition(":")
            if not colon:
                raise InvalidSetting("rescale", "LOW:HIGH, for example rescale=0:1", value)
            return Rescale(parse_number(float, low, name), parse_number(float, high, name))
        case "features":
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
    """Apply each step in turn, learnt on the training ratings as the earlier steps left them.

    Raises:
        BadRatings: if a step cannot be applied to the training or the test ratings.
    """
    for step in steps:
        prior_train, train = train, step.apply(train, train)
        if test is not None and not step.training_only:
            try:
                test = step.apply(test, prior_train)
            except BadRatings as error:
                raise BadRatings(f"test ratings after {step}: {error}") from None
    return train, test


# Catalogues: lists of users and items that are known before any rating is read --------------------
#
# Without one the lists are read off the ratings, and the shape of what is published reveals which
# items have a rating and how many users have any.

_MAX_EXAMPLES = 5
MAX_USERS = 2**31 - 1  # the largest number that a 32-bit index counts


class OutsideRatings(enum.Enum):
    """What to do with ratings by users, or of items, that a catalogue does not hold."""

    ERROR = "error"
    LEAVE_OUT = "leave-out"


def align_to_catalogue(
    ratings: Ratings,
    items: Sequence[str],
    users: Sequence[str] | int,
    on_outside: OutsideRatings = OutsideRatings.ERROR,
    shuffle: random.Random | None = None,
) -> tuple[Ratings, str]:
    """Align ratings to all items and users of a catalogue, rated or not.

    Rows and columns are in the order of the lists. If only the number of users is given, those with
    ratings come first, by id; or with `shuffle` at rows drawn at random. A promise per cell or user
    needs that draw, from the operating system: a user who loses their last rating leaves the list,
    and all behind would move up by a row; after a draw only the set of rows matters.

    Args:
        ratings: ratings whose users and items have ids.
        items: the ids of all items.
        users: the ids of all users, or how many there are.
        on_outside: what to do with ratings outside the catalogue.
        shuffle: draws the rows if only the number of users is given.

    Returns:
        The aligned ratings, and a message about the ratings that were left out.

    Raises:
        BadRatings: if ratings lie outside and `on_outside` is ERROR, a list repeats an id, or the
            ratings have no ids.
    """
    if ratings.item_ids is None or ratings.user_ids is None:
        raise BadRatings(
            "these users and items have no names, so no catalogue can list them: their numbers are"
            " taken as given with the ratings"
        )
    new_items = _locate_ids("items", items, ratings.item_ids)
    if isinstance(users, int):
        new_users = _assign_rows(ratings, users, shuffle)
        n_users, user_ids = users, None
    else:
        new_users = _locate_ids("users", users, ratings.user_ids)
        n_users, user_ids = len(users), tuple(users)
    rows, columns = new_users[ratings.users], new_items[ratings.items]
    is_inside = (rows >= 0) & (columns >= 0)
    message = _describe_outside(ratings, rows, columns)
    if message and on_outside is OutsideRatings.ERROR:
        raise BadRatings(f"{message}: list them, or leave these ratings out (--outside leave-out)")
    titles = dict(zip(ratings.item_ids, ratings.titles, strict=True)) if ratings.titles else {}
    # Features of the rated items alone would reveal which items nobody rated.
    public = replace(
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
    """Return the same ratings, with users and items declared public though read off the ratings."""
    return replace(ratings, catalogue=Catalogue(Origin.FROM_DATA))


def _locate_ids(kind: str, listed: Sequence[str], ids: Sequence[str]) -> Ints:
    """Return the position of each id in a list, -1 where the list does not hold it."""
    index_by_id = {id: k for k, id in enumerate(listed)}
    if len(index_by_id) < len(listed):
        repeated = next(id for k, id in enumerate(listed) if index_by_id[id] != k)
        raise BadRatings(f"the catalogue lists {kind} twice, first {format_value(repeated)}")
    return np.array([index_by_id.get(id, -1) for id in ids], dtype=np.int64)


def _assign_rows(ratings: Ratings, users: int, shuffle: random.Random | None) -> Ints:
    """Assign a row to every user with ratings, in the order of their ids or drawn."""
    check_number("number of users", users, at_least=1, at_most=MAX_USERS, integer=True)
    rated = np.unique(ratings.users)
    if len(rated) > users:
        raise InvalidSetting("number of users", f">= {len(rated)}, who have ratings", users)
    rows = np.full(ratings.public.users, -1, dtype=np.int64)
    chosen_rows = range(len(rated)) if shuffle is None else shuffle.sample(range(users), len(rated))
    rows[rated] = chosen_rows
    return rows


def _describe_outside(ratings: Ratings, users: Ints, items: Ints) -> str:
    """Describe how many ratings lie outside, and by whom or of what; "" if none do."""
    count = int(np.count_nonzero((users < 0) | (items < 0)))
    if not count:
        return ""
    clauses = []
    for kind, index, positions, ids in (
        ("item", ratings.items, items, ratings.item_ids),
        ("user", ratings.users, users, ratings.user_ids),
    ):
        missing = np.unique(index[positions < 0]).tolist()
        if missing:
            examples = ", ".join(format_value((ids or ())[k]) for k in missing[:_MAX_EXAMPLES])
            ellipsis = ", ..." if len(missing) > _MAX_EXAMPLES else ""
            clauses.append(
                f"{len(missing):,} {kind}{'s' * (len(missing) > 1)} ({examples}{ellipsis})"
            )
    subject = "1 rating is" if count == 1 else f"{count:,} ratings are"
    return f"{subject} outside the catalogue, which lacks {' and '.join(clauses)}"
