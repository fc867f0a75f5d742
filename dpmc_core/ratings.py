"""The data model: sparse, validated ratings and the facts about them that are public."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmc_core.arrays import Bools, Floats, Ints
from dpmc_core.errors import BadRatings, check_number, check_range
from dpmc_core.stopping import check_cancelled

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Index = NDArray[np.int32]
T = TypeVar("T")

_RATINGS_PER_BATCH = 50_000  # ratings among which places are drawn


@dataclass(frozen=True, kw_only=True)
class PublicFacts:
    """What is known before any rating is read: sizes, the rating range, an enforced cap.

    users, items: matrix shape. low, high: the public rating range, in rating points.
    cap: the most ratings any user can have, only where the input was already capped.
    available_features: facts about every item that come with the data, each with its number of
    columns; features: those of them that are used.
    """

    users: int
    items: int
    low: float
    high: float
    cap: int | None = None
    features: tuple[tuple[str, int], ...] = ()
    available_features: tuple[tuple[str, int], ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        check_number("users", self.users, at_least=1, integer=True)
        check_number("items", self.items, at_least=1, integer=True)
        check_range(self.low, self.high)
        if self.cap is not None:
            check_number("cap on ratings per user", self.cap, at_least=1, integer=True)
        # Equal facts must print alike, whatever number types they came in: fingerprints hash them.
        field_types = {"users": int, "items": int, "low": float, "high": float, "cap": int}
        for name, kind in field_types.items():
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else kind(value))
        for name in ("features", "available_features"):
            pairs = tuple((str(feature), int(columns)) for feature, columns in getattr(self, name))
            object.__setattr__(self, name, pairs)

    def as_dict(self) -> dict[str, Any]:
        """What results depend on, as plain JSON values."""
        values = dataclasses.asdict(self)
        del values["available_features"]
        return values if self.features else {k: v for k, v in values.items() if k != "features"}

    @property
    def columns(self) -> int:
        """How many columns the features of an item have."""
        return sum(columns for _, columns in self.features)

    @property
    def shape(self) -> tuple[int, int]:
        return self.users, self.items

    @property
    def width(self) -> float:
        """Width of the rating range, in rating points."""
        return self.high - self.low

    @property
    def half_width(self) -> float:
        """How far a rating can lie from the middle of the range, in rating points."""
        return self.width / 2

    @property
    def middle(self) -> float:
        """Middle of the rating range, in rating points."""
        return (self.low + self.high) / 2


class Origin(enum.Enum):
    """How it is known which users and items there are."""

    DECLARED = "declared"  # their numbers came with the ratings: whoever built them vouches
    PUBLIC = "public"  # of a public or a generated set
    LISTED = "given"  # listed beside the ratings
    FROM_DATA = "from-data"  # read off the ratings, and said to be public
    READ = "read"  # read off the ratings, and nobody has said anything


@dataclass(frozen=True)
class Catalogue:
    """Which users and items there are, on which the shape of everything published rests.

    source: the set, of a public one. users_listed: False where their number alone is given.
    """

    origin: Origin = Origin.DECLARED
    source: str = ""
    users_listed: bool = True

    @property
    def has_public_names(self) -> bool:
        """Whether the names of items, and of users if listed, may be published."""
        return self.origin in (Origin.PUBLIC, Origin.LISTED)

    @property
    def condition(self) -> str:
        """On what a certificate rests that covers whether a rating exists, in words."""
        users = "the list of users" if self.users_listed else "the number of users"
        return {
            Origin.DECLARED: "certified given that the numbers of users and items were known"
            " before any rating was read",
            Origin.PUBLIC: f"certified given that the users and items are those of {self.source}",
            Origin.LISTED: f"certified given that the list of items and {users} were known before"
            " any rating was read",
            Origin.FROM_DATA: "certified given that the users and items of the data are public:"
            " they were read off the ratings, so who reads this learns which items somebody rated"
            " and how many users rated any",
            Origin.READ: "not certified: the users and items were read off the ratings",
        }[self.origin]


@dataclass(frozen=True)
class ColumnRoles:
    """Which columns of a file hold the users, items, ratings and times.

    Attributes:
        names: pairs of a role ("user", "item", "rating", "time") and its column's name, written as
            in the file, or "column 2" where the file has no header. Empty for generated data.
        guessed: the roles that neither the header names unmistakably nor a person has chosen.
    """

    names: tuple[tuple[str, str], ...] = ()
    guessed: tuple[str, ...] = ()


class UserData:
    """What a fit asks of users, all of whom are in one place; elsewhere they lie in partitions.

    A fit that reaches ratings through public facts and these three methods alone runs on either.
    function(what is held of some whole users, *state) looks at one user's row at a time and draws
    nothing, so that it gives the same however often it is called, and on any partition. state: of
    what was published.
    """

    @property
    def local_data(self) -> Any:
        return self

    def sum_over_users(self, function: Callable[..., T], *state: Any) -> T:
        """The sum over all users: of an array, a number, or a tuple of them. Private until a
        release has published it."""
        return function(self.local_data, *state)

    def map_users(self, function: Callable[..., Any], *state: Any) -> UserData:
        """What the function gives, held where its users are."""
        return UserResults(function(self.local_data, *state))

    def build_model(self, function: Callable[..., T], *state: Any) -> T:
        """A model whose users' own side is computed where they are."""
        return function(self.local_data, *state)


@dataclass(frozen=True, eq=False)
class UserResults(UserData):
    """What was computed of users and stays with them."""

    value: Any

    @property
    def local_data(self) -> Any:
        return self.value


@dataclass(frozen=True, eq=False)
class Ratings(UserData):
    """Observed cells of a users x items matrix, sorted by user, then item. Build with `build`.

    users, items: int32 arrays of length n_obs; values: float64, in rating points.
    times: int64 Unix seconds, or None. user_ids, item_ids: the names in the source, by index.
    titles: item titles, by index. prepared: data-dependent steps that made these ratings, in words.
    catalogue: how it is known which users and items there are; no part of the fingerprint.
    columns: the file's columns that these ratings came from; no part of the fingerprint.
    item_features: what is publicly known of the items, by name, each items x columns of mean square
    one or so; features_digest: a digest of it where somebody gave it with them. user_positions: of
    a partition, where its users stand among all.
    """

    users: Index
    items: Index
    values: Floats
    public: PublicFacts
    times: Ints | None = None
    user_ids: Sequence[str] | None = None
    item_ids: Sequence[str] | None = None
    titles: Sequence[str] | None = None
    prepared: tuple[str, ...] = ()
    catalogue: Catalogue = Catalogue()
    item_features: Mapping[str, Floats] = field(default_factory=dict)
    features_digest: str = ""
    user_positions: Ints | None = None
    columns: ColumnRoles = ColumnRoles()

    def __post_init__(self) -> None:
        # The certified values of whole users rest on the cap, so no route may get around it.
        cap = self.public.cap
        if cap is not None and len(self) > cap:
            counts = np.bincount(self.users)
            if counts.max() > cap:
                user = int(counts.argmax())
                raise BadRatings(
                    f"user {user} (counted from 0) has {counts[user]} ratings, more than the cap"
                    f" of {cap} per user: cap the ratings first"
                )

    @classmethod
    def build(
        cls,
        users: ArrayLike,
        items: ArrayLike,
        values: ArrayLike,
        public: PublicFacts,
        *,
        times: ArrayLike | None = None,
        **names: Any,
    ) -> Ratings:
        """Validate and sort. Raises BadRatings for the first thing wrong, with its place."""
        user_array, item_array = np.asarray(users), np.asarray(items)
        value_array = _as_numbers("ratings", values, float)
        if not (
            user_array.ndim == item_array.ndim == value_array.ndim == 1
            and len(user_array) == len(item_array) == len(value_array)
        ):
            raise BadRatings("users, items and values must be three columns of one length")
        time_array = None if times is None else _as_numbers("times", times, np.int64)
        if time_array is not None and time_array.shape != value_array.shape:
            raise BadRatings(f"there are {len(value_array)} ratings but {time_array.size} times")
        if len(value_array) == 0:
            raise BadRatings("there are no ratings: the data is empty")
        for name, index, size in (
            ("user", user_array, public.users),
            ("item", item_array, public.items),
        ):
            if index.dtype.kind not in "iu":
                raise BadRatings(f"{name} indices must be integers, got {index.dtype} values")
            if index.min() < 0 or index.max() >= size:
                invalid = int(index[(index < 0) | (index >= size)][0])
                raise BadRatings(f"{name} index must lie in 0..{size - 1}, got {invalid}")
        _check_values(user_array, item_array, value_array, public)
        cell_indices = user_array.astype(np.int64) * public.items + item_array
        if (np.diff(cell_indices) <= 0).any():
            order = np.argsort(cell_indices, kind="stable")
            cell_indices, user_array, item_array, value_array = (
                cell_indices[order],
                user_array[order],
                item_array[order],
                value_array[order],
            )
            duplicates = np.flatnonzero(np.diff(cell_indices) == 0)
            if len(duplicates):
                raise BadRatings(
                    f"{len(duplicates)} user-item pairs appear more than once, first user"
                    f" {user_array[duplicates[0]]} with item {item_array[duplicates[0]]} (counted"
                    " from 0):"
                    " keep one rating per pair"
                )
            time_array = None if time_array is None else time_array[order]
        return cls(
            users=user_array.astype(np.int32),
            items=item_array.astype(np.int32),
            values=value_array,
            public=public,
            times=time_array,
            **names,
        )

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, int]:
        return self.public.shape

    @property
    def density(self) -> float:
        """Share of cells observed, in 0..1."""
        return len(self) / (self.public.users * self.public.items)

    @property
    def has_only_clicks(self) -> bool:
        """Whether all ratings are 1: interactions, as ranking takes them."""
        return bool((self.values == 1.0).all())

    @cached_property
    def indptr(self) -> Ints:
        """Where each user's ratings start: user u owns positions indptr[u]:indptr[u+1]."""
        return np.searchsorted(self.users, np.arange(self.public.users + 1, dtype=np.int32))

    @cached_property
    def matrix(self) -> csr_array:
        """The ratings as a users x items CSR array (an observed zero stays stored)."""
        from scipy.sparse import csr_array

        return csr_array((self.values, self.items, self.indptr), shape=self.shape)

    @property
    def used_features(self) -> list[Floats]:
        """What is used of the facts about the items, each items x columns."""
        return [self.item_features[name] for name, _ in self.public.features]

    @cached_property
    def features(self) -> Floats:
        """All of them side by side: items x public.columns."""
        return np.hstack([np.zeros((self.public.items, 0)), *self.used_features])

    @cached_property
    def fingerprint(self) -> str:
        """Content hash (16 hex digits) of cells, values and public facts; names do not count."""
        public = self.public
        hashed_facts = (
            public.users,
            public.items,
            float(public.low),
            float(public.high),
            public.cap,
            self.prepared,
        )  # 1 is 1.0
        digest = hashlib.sha256(repr(hashed_facts).encode())
        used_arrays = [self.features] if self.public.features else []
        for array in (self.users, self.items, self.values, *used_arrays):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    def select(self, keep: NDArray[Any]) -> Ratings:
        """The ratings at a boolean mask or sorted positions, same users, items and public facts."""
        selected = dataclasses.replace(
            self,
            users=self.users[keep],
            items=self.items[keep],
            values=self.values[keep],
            times=None if self.times is None else self.times[keep],
        )
        if len(selected) == 0:
            raise BadRatings("no rating is left after the selection")
        return selected

    def select_items(self, positions: NDArray[np.int32]) -> Ratings:
        """The ratings of the items with a place >= 0, over these items, in their order."""
        selected, retained = self.select(positions[self.items] >= 0), np.flatnonzero(positions >= 0)
        item_ids, titles = (
            None if names is None else tuple(names[k] for k in retained.tolist())
            for names in (self.item_ids, self.titles)
        )
        return dataclasses.replace(
            selected,
            items=positions[selected.items],
            public=dataclasses.replace(self.public, items=len(retained)),
            item_ids=item_ids,
            titles=titles,
            item_features={name: columns[retained] for name, columns in self.item_features.items()},
        )

    def with_item_features(
        self, item_features: Mapping[str, Floats], *, digest: str = ""
    ) -> Ratings:
        """The same ratings with facts about the items beside them; each items x columns."""
        available = tuple((name, columns.shape[1]) for name, columns in item_features.items())
        public = dataclasses.replace(self.public, available_features=available)
        return dataclasses.replace(
            self, public=public, item_features=item_features, features_digest=digest
        )

    @property
    def used_feature_names(self) -> list[str]:
        """The names of the facts that are used."""
        return [name for name, _ in self.public.features]

    def use_features(self, names: Sequence[str]) -> Ratings:
        """The same ratings with these facts used. Raises KeyError for one that is not there."""
        used = tuple((name, self.item_features[name].shape[1]) for name in names)
        return dataclasses.replace(self, public=dataclasses.replace(self.public, features=used))


def number_ids(count: int) -> tuple[str, ...]:
    """Ids of users or items, or names of columns, that have none: 1, 2, ..., count."""
    return tuple(map(str, range(1, count + 1)))


def index_most_rated(ratings: Ratings, count: int) -> NDArray[np.int32]:
    """Where each item is among the `count` most rated ones (ties: the lower index), -1 for one that
    is not."""
    counts = np.bincount(ratings.items, minlength=ratings.public.items)
    top_items = np.sort(np.argsort(-counts, kind="stable")[:count])
    positions = np.full(len(counts), -1, dtype=np.int32)
    positions[top_items] = np.arange(len(top_items), dtype=np.int32)
    return positions


def draw_cap_mask(ratings: Ratings, count: int, key: int) -> Bools:
    """Which ratings stay where each user keeps at most `count`, chosen at random.

    A cell's place is a hash of (key, user, item): other users' ratings never matter.
    """
    counts, retained = np.diff(ratings.indptr), np.ones(len(ratings), dtype=bool)
    for users in group_rows_by_length(np.where(counts > count, counts, 0), _RATINGS_PER_BATCH):
        offset = np.arange(counts[users].max())
        is_entry = offset < counts[users, None]
        entries = np.where(is_entry, ratings.indptr[users, None] + offset, 0)
        hash_values = _hash_user_items(ratings, users[:, None], ratings.items[entries], key)
        priority = np.where(is_entry, hash_values, ~np.uint64(0))
        cutoff = np.sort(priority, axis=1)[:, count - 1 : count]
        retained[entries[is_entry]] = (priority <= cutoff)[is_entry]
    return retained


def hash_cells(ratings: Ratings, key: int) -> NDArray[np.uint64]:
    """A number for each cell that looks random; the same whatever partition the user is in."""
    return _hash_user_items(ratings, ratings.users, ratings.items, key)


def _hash_user_items(
    ratings: Ratings, users: NDArray[Any], items: NDArray[Any], key: int
) -> NDArray[np.uint64]:
    """Of cells of these ratings, whose users count as where they stand among all."""
    offset = np.random.SeedSequence(key).generate_state(1, np.uint64).astype(np.uint64)
    user_indices = users if ratings.user_positions is None else ratings.user_positions[users]
    cell = user_indices.astype(np.uint64) * np.uint64(ratings.public.items) + items.astype(
        np.uint64
    )
    return _mix_bits(_mix_bits(cell) + offset)


def group_rows_by_length(counts: Ints, max_entries: int) -> Iterator[Ints]:
    """Which rows have any of so many cells, in groups of similar length and `max_entries` cells or
    so."""
    order = np.argsort(counts, kind="stable")
    order = order[counts[order] > 0]
    lengths = counts[order]
    start = 0
    while start < len(order):
        longest = int(lengths[start]) * 9 // 8
        end = int(np.searchsorted(lengths, longest, side="right"))
        end = min(end, start + max(1, max_entries // longest))
        check_cancelled()
        yield order[start:end]
        start = end


def rank_within_user(ratings: Ratings, *keys: NDArray[Any]) -> Ints:
    """Each rating's place (0, 1, ...) within its user's row, ordered by the last of the keys, ties
    by the one before it and at last by the item."""
    order = np.lexsort((*keys, ratings.users))
    rank = np.empty(len(ratings), dtype=np.int64)
    rank[order] = np.arange(len(ratings)) - ratings.indptr[ratings.users[order]]
    return rank


def _as_numbers(name: str, column: ArrayLike, kind: type[Any]) -> NDArray[Any]:
    try:
        with np.errstate(invalid="raise"):  # a NaN among whole numbers
            return np.asarray(column).astype(kind, copy=False)
    except (TypeError, ValueError, FloatingPointError):
        raise BadRatings(f"{name} must be numbers") from None


def _check_values(users: Any, items: Any, values: Floats, public: PublicFacts) -> None:
    is_invalid = ~(
        (values >= public.low) & (values <= public.high)
    )  # NaN compares false: also wrong
    if is_invalid.any():
        first = int(np.argmax(is_invalid))
        value = float(values[first])
        problem = (
            f"outside {public.low:g}..{public.high:g}" if math.isfinite(value) else "not finite"
        )
        raise BadRatings(
            f"{int(is_invalid.sum())} ratings are {problem}, first {value:g} of user"
            f" {users[first]},"
            f" item {items[first]} (counted from 0)"
        )


def _mix_bits(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The splitmix64 finaliser: a bijection of 64-bit words that looks random."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
