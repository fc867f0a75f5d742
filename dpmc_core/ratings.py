"""The data model: sparse, validated ratings and the public facts about them."""

from __future__ import annotations

import enum
import hashlib
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmc_core.arrays import AnyArray, Bools, Floats, Ints, ItemAxis, Sparse, Uint64s, UserAxis
from dpmc_core.display import Summarised
from dpmc_core.errors import (
    BadRatings,
    check_number,
    check_range,
    check_type,
    format_value,
    unknown_name_error,
)
from dpmc_core.stopping import check_cancelled

Index = NDArray[np.int32]
T = TypeVar("T")

FEATURES_REVISION = 2  # raised when results with item features change, whatever the mechanism


@dataclass(frozen=True, kw_only=True)
class PublicFacts:
    """What is known before any rating is read.

    Attributes:
        users: number of rows of the matrix.
        items: number of columns of the matrix.
        low: lower end of the public rating range, in rating points.
        high: upper end of the public rating range, in rating points.
        cap: the largest number of ratings of any user, set only if the input was capped.
        features: the item features that are used, as pairs of a name and its number of columns.
        available_features: the item features that come with the data, as such pairs.
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
        # Equal facts must print alike whatever their number types: fingerprints hash the text.
        field_types = {"users": int, "items": int, "low": float, "high": float, "cap": int}
        for name, kind in field_types.items():
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else kind(value))
        for name in ("features", "available_features"):
            pairs = tuple((str(feature), int(columns)) for feature, columns in getattr(self, name))
            object.__setattr__(self, name, pairs)

    def as_dict(self) -> dict[str, Any]:
        """Return the facts on which results depend, as plain JSON values."""
        values = asdict(self)
        del values["available_features"]
        if not self.features:
            del values["features"]
        return values

    @property
    def columns(self) -> int:
        """The number of columns of the used item features together."""
        return sum(columns for _, columns in self.features)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix, (n_users, n_items)."""
        return self.users, self.items

    @property
    def axes(self) -> tuple[UserAxis, ItemAxis]:
        """The shape of the matrix, as the named axes of a release."""
        return UserAxis(self.users), ItemAxis(self.items)

    @property
    def width(self) -> float:
        """The width of the rating range, in rating points."""
        return self.high - self.low

    @property
    def half_width(self) -> float:
        """The largest distance of a rating from the middle of the range, in rating points."""
        return self.width / 2

    @property
    def middle(self) -> float:
        """The middle of the rating range, in rating points."""
        return (self.low + self.high) / 2


def check_facts_type(public: object) -> None:
    """Raise BadRatings unless an object holds public facts, such as those of some ratings."""
    remedy = (
        "take `public` of ratings: dpmc_core.load(data).ratings.public for a name or file, and"
        " Ratings.from_frame(frame, low=1, high=5).public for a data frame"
    )
    check_type("public facts", public, PublicFacts, remedy)


class Origin(enum.Enum):
    """From where it is known which users and items there are."""

    DECLARED = "declared"  # their numbers were given by the code that built the ratings
    PUBLIC = "public"  # those of a public or a generated set
    LISTED = "given"  # listed beside the ratings
    FROM_DATA = "from-data"  # read off the ratings, and declared public
    READ = "read"  # read off the ratings, without any declaration


@dataclass(frozen=True)
class Catalogue:
    """Which users and items exist, on which the shape of everything published rests.

    Attributes:
        origin: how that is known.
        source: the name of a public or generated set.
        users_listed: whether the users are listed; False if only their number is given.
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
        """The condition of a guarantee that covers whether a rating exists, as a clause."""
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


# Where a matrix has its users and items, in place of a column's name.
LINE_NUMBER, OTHERS = "the number of the line", "every other column"


@dataclass(frozen=True)
class ColumnRoles:
    """Which columns of a file hold the users, items, ratings and times.

    Attributes:
        names: pairs of a role ("user", "item", "rating", "time") and its column's name, written as
            in the file, or "column 2" if the file has no header. Empty for generated data.
        guessed: the roles that neither the header names unmistakably nor a person has chosen.
    """

    names: tuple[tuple[str, str], ...] = ()
    guessed: tuple[str, ...] = ()


class UserData:
    """The operations of a fit on the data of users, which may lie in one place or in partitions.

    A fit that reaches ratings only through public facts and the three methods below runs on both.
    Each method takes a function(local data of some users, *state) that treats one user's row at a
    time and draws nothing, so that its result is the same however often it is called and on any
    partition. The state consists of published values.
    """

    @property
    def local_data(self) -> Any:
        """The data that the functions receive."""
        return self

    def sum_over_users(self, function: Callable[..., T], *state: Any) -> T:
        """Sum a function's results over all users; the sum is private until a release publishes it.

        Args:
            function: returns an array, a number, or a tuple of them.
            state: further arguments of the function.
        """
        return function(self.local_data, *state)

    def map_users(self, function: Callable[..., Any], *state: Any) -> UserData:
        """Apply a function to the data of users; its result stays with the users.

        Args:
            function: returns anything that is computed user by user.
            state: further arguments of the function.
        """
        return UserResults(function(self.local_data, *state))

    def build_model(self, function: Callable[..., T], *state: Any) -> T:
        """Build a model whose user factors are computed where the users' data lies.

        Args:
            function: returns the model.
            state: further arguments of the function.
        """
        return function(self.local_data, *state)


@dataclass(frozen=True, eq=False)
class UserResults(UserData):
    """What was computed from users' data and stays with the users.

    Attributes:
        value: the result of the function.
    """

    value: Any

    @property
    def local_data(self) -> Any:
        """The result of the function."""
        return self.value


@dataclass(frozen=True, eq=False, repr=False)
class Ratings(UserData, Summarised):
    """Observed cells of a users x items matrix, sorted by user, then item.

    Build them with `from_frame`, or with `build` from arrays of indices.

    >>> frame = {"user": ["ann", "ann", "bob"], "item": ["Dune", "Emma", "Emma"],
    ...          "rating": [5, 3, 4]}
    >>> Ratings.from_frame(frame, low=1, high=5)
    Ratings(users: 2, items: 2, ratings: 3, range: 1 to 5)

    Attributes:
        users: array of shape (n_obs,), int32 user indices.
        items: array of shape (n_obs,), int32 item indices.
        values: array of shape (n_obs,), float64, in rating points.
        public: the public facts.
        times: array of shape (n_obs,), int64 Unix seconds; or None.
        user_ids: names of the users in the source, by index.
        item_ids: names of the items in the source, by index.
        titles: titles of the items, by index.
        prepared: the data-dependent steps that produced these ratings, as phrases.
        catalogue: how it is known which users and items exist; not part of the fingerprint.
        item_features: public item features by name, each of shape (n_items, n_columns) and of mean
            square about 1.
        features_digest: digest of the item features, if a person gave them with the ratings.
        user_positions: array of shape (n_users,), the positions of a partition's users among all
            users; None if there are no partitions.
        columns: the columns of the file that these ratings came from; not part of the fingerprint.
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
        for name in ("users", "items", "values"):
            check_type(name, getattr(self, name), np.ndarray, "Ratings.build takes lists")
        check_facts_type(self.public)
        # The certified values of whole users rest on the cap, so every instance is checked.
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
        """Validate and sort ratings.

        Args:
            users: array of shape (n_obs,), user indices from 0.
            items: array of shape (n_obs,), item indices from 0.
            values: array of shape (n_obs,), in rating points.
            public: the public facts.
            times: array of shape (n_obs,), Unix seconds; or None.
            names: further fields of the class.

        Raises:
            BadRatings: for the first fault, with its place.
        """
        check_facts_type(public)
        user_array, item_array = np.asarray(users), np.asarray(items)
        value_array = _as_numbers("ratings", values, float)
        if not user_array.shape == item_array.shape == value_array.shape == (value_array.size,):
            raise BadRatings("users, items and values must be three columns of one length")
        time_array = None if times is None else _as_numbers("times", times, np.int64)
        if time_array is not None and time_array.shape != value_array.shape:
            raise BadRatings(f"there are {len(value_array)} ratings but {time_array.size} times")
        if len(value_array) == 0:
            raise BadRatings("there are no ratings: the data is empty")
        _check_indices("user", user_array, public.users)
        _check_indices("item", item_array, public.items)

        def describe_cell(position: int) -> str:
            """Name the user and the item of a rating, by their ids if these are known."""
            user, item = user_array[position], item_array[position]
            user_ids, item_ids = names.get("user_ids"), names.get("item_ids")
            if user_ids is None or item_ids is None:
                return f"user {user}, item {item} (counted from 0)"
            return f"user {format_value(user_ids[user])}, item {format_value(item_ids[item])}"

        _check_values(value_array, public, describe_cell)
        cell_indices = user_array.astype(np.int64) * public.items + item_array
        order = np.argsort(cell_indices, kind="stable")
        cell_indices, user_array, item_array, value_array = (
            array[order] for array in (cell_indices, user_array, item_array, value_array)
        )
        duplicates = np.flatnonzero(np.diff(cell_indices) == 0)
        if len(duplicates):
            raise BadRatings(
                f"{len(duplicates)} user-item pairs appear more than once, first"
                f" {describe_cell(duplicates[0])}: keep one rating per pair"
            )
        return cls(
            users=user_array.astype(np.int32),
            items=item_array.astype(np.int32),
            values=value_array,
            public=public,
            times=None if time_array is None else time_array[order],
            **names,
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        user: Hashable = "user",
        item: Hashable = "item",
        rating: Hashable = "rating",
        low: float | None = None,
        high: float | None = None,
    ) -> Ratings:
        """Build ratings from three columns of a data frame.

        The users and items are those with ratings, in the order of their ids: as numbers if the
        column holds numbers, else as text.

        Args:
            frame: a pandas DataFrame, or another mapping of names to columns.
            user: the name of the column of user ids.
            item: the name of the column of item ids.
            rating: the name of the column of ratings, in rating points.
            low: lower end of the public rating range, in rating points; it must be given, because
                an end that is read from ratings tells something about them.
            high: upper end of the public rating range, in rating points, which must be given too.

        Raises:
            BadRatings: if a value is missing, a rating is no number or out of range, or a user has
                rated an item twice, or the public range is missing.
            InvalidSetting: if a column is missing, or the public range is impossible.
        """
        if not (isinstance(frame, Mapping) or hasattr(frame, "columns")):
            raise BadRatings(
                "ratings must be a data frame or a mapping of names to columns, got"
                f" {format_value(frame)}; dpmc_core.load takes files and names of data sets"
            )
        if low is None or high is None:
            raise BadRatings(
                "low and high must be given: the ends of the public rating scale, such as low=1,"
                " high=5. Ends that are read from ratings would tell something about them"
            )
        roles = ("user", user), ("item", item), ("rating", rating)
        user_column, item_column, values = (_read_column(frame, *role) for role in roles)
        user_ids, users = _index_ids(user_column)
        item_ids, items = _index_ids(item_column)
        return cls.build(
            users,
            items,
            _as_numbers(f"ratings in the column '{rating}'", values, float),
            PublicFacts(users=len(user_ids), items=len(item_ids), low=low, high=high),
            user_ids=user_ids,
            item_ids=item_ids,
            catalogue=Catalogue(Origin.READ),
            columns=ColumnRoles(tuple((role, str(name)) for role, name in roles)),
        )

    def __len__(self) -> int:
        return len(self.values)

    def summarise(self) -> dict[str, object]:
        """Return the sizes and the public range in rating points, by label."""
        facts = self.public
        sizes = {"users": facts.users, "items": facts.items, "ratings": len(self)}
        return {**sizes, "range": f"{facts.low:g} to {facts.high:g}"}

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix, (n_users, n_items)."""
        return self.public.shape

    @property
    def density(self) -> float:
        """The share of cells observed, in 0..1."""
        return len(self) / (self.public.users * self.public.items)

    @property
    def has_only_clicks(self) -> bool:
        """Whether all ratings are 1, as those of interactions are."""
        return bool((self.values == 1.0).all())

    @cached_property
    def indptr(self) -> Ints:
        """The first rating of each user, shape (n_users + 1,): user u has indptr[u]:indptr[u+1]."""
        return np.searchsorted(self.users, np.arange(self.public.users + 1, dtype=np.int32))

    @cached_property
    def matrix(self) -> Sparse:
        """The ratings as a CSR array of shape (n_users, n_items); an observed zero stays stored."""
        from scipy.sparse import csr_array

        return csr_array((self.values, self.items, self.indptr), shape=self.shape)

    @property
    def used_features(self) -> list[Floats]:
        """The item features that are used, each of shape (n_items, n_columns)."""
        return [self.item_features[name] for name, _ in self.public.features]

    @cached_property
    def features(self) -> Floats:
        """The used item features side by side, of shape (n_items, public.columns)."""
        return np.hstack([np.zeros((self.public.items, 0)), *self.used_features])

    @cached_property
    def fingerprint(self) -> str:
        """A content hash (16 hex digits) of cells, values and public facts, without names."""
        public = self.public
        # The text of these values is hashed, in which 1 and 1.0 must not differ.
        hashed_facts = (
            public.users,
            public.items,
            float(public.low),
            float(public.high),
            public.cap,
            self.prepared,
        )
        digest = hashlib.sha256(repr(hashed_facts).encode())
        # Without features the fingerprint is what it was before there were any.
        used_arrays = []
        if public.features:
            used_arrays = [self.features, np.array([FEATURES_REVISION])]
        for array in (self.users, self.items, self.values, *used_arrays):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    def select(self, keep: AnyArray) -> Ratings:
        """Return the ratings at some positions, with the same users, items and public facts.

        Args:
            keep: boolean mask of shape (n_obs,), or sorted positions.

        Raises:
            BadRatings: if no rating is left.
        """
        selected = replace(
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
        """Return the ratings of some items, re-indexed in their order.

        Args:
            positions: array of shape (n_items,), the new index of each item; -1 drops the item.
        """
        selected = self.select(positions[self.items] >= 0)
        retained = np.flatnonzero(positions >= 0)
        item_ids, titles = (
            None if names is None else tuple(names[k] for k in retained.tolist())
            for names in (self.item_ids, self.titles)
        )
        return replace(
            selected,
            items=positions[selected.items],
            public=replace(self.public, items=len(retained)),
            item_ids=item_ids,
            titles=titles,
            item_features={name: columns[retained] for name, columns in self.item_features.items()},
        )

    def select_users(self, positions: Index) -> Ratings:
        """Return the ratings of some users without their names, re-indexed in their order.

        Args:
            positions: array of shape (n_users,), the new index of each user; -1 drops the user.
        """
        selected = self.select(positions[self.users] >= 0)
        return replace(
            selected,
            users=positions[selected.users],
            public=replace(self.public, users=int(positions.max()) + 1),
            user_ids=None,
        )

    def with_item_features(
        self, item_features: Mapping[str, Floats], *, digest: str = ""
    ) -> Ratings:
        """Return the same ratings with item features available.

        Args:
            item_features: arrays of shape (n_items, n_columns), by name.
            digest: digest of the features, if a person gave them.
        """
        available = tuple((name, columns.shape[1]) for name, columns in item_features.items())
        public = replace(self.public, available_features=available)
        return replace(self, public=public, item_features=item_features, features_digest=digest)

    @property
    def used_feature_names(self) -> list[str]:
        """The names of the item features that are used."""
        return [name for name, _ in self.public.features]

    def use_features(self, names: Sequence[str]) -> Ratings:
        """Return the same ratings with these item features used.

        Raises:
            KeyError: if a feature is not available.
        """
        used = tuple((name, self.item_features[name].shape[1]) for name in names)
        return replace(self, public=replace(self.public, features=used))


def number_ids(count: int) -> tuple[str, ...]:
    """Return the ids 1, 2, ..., count of users, items or columns without names."""
    return tuple(map(str, range(1, count + 1)))


def index_most_rated(ratings: Ratings, count: int) -> NDArray[np.int32]:
    """Return the index of each item among the `count` most rated ones, and -1 for the others.

    Ties are broken by the lower index.

    Args:
        ratings: the ratings.
        count: how many items are kept.

    Returns:
        Array of shape (n_items,), indices in the order of the items.
    """
    counts = np.bincount(ratings.items, minlength=ratings.public.items)
    top_items = np.sort(np.argsort(-counts, kind="stable")[:count])
    positions = np.full(len(counts), -1, dtype=np.int32)
    positions[top_items] = np.arange(len(top_items), dtype=np.int32)
    return positions


def draw_cap_mask(ratings: Ratings, count: int, key: int) -> Bools:
    """Choose at most `count` ratings of each user at random.

    The order of a user's cells is a hash of (key, user, item), so other users' ratings never
    matter.

    Args:
        ratings: the ratings.
        count: the largest number of ratings a user keeps.
        key: seed of the hash.

    Returns:
        Mask of shape (n_obs,), True for ratings that stay.
    """
    return rank_within_user(ratings, hash_cells(ratings, key)) < count


def hash_cells(ratings: Ratings, key: int) -> Uint64s:
    """Return a pseudorandom number for each rated cell, the same in any partition of the users.

    The users of a partition are identified by their positions among all users. Different cells have
    different numbers.

    Args:
        ratings: the ratings.
        key: seed of the hash.

    Returns:
        Array of shape (n_obs,), uniform over 64-bit integers.
    """
    offset = np.random.SeedSequence(key).generate_state(1, np.uint64).astype(np.uint64)
    positions = ratings.user_positions
    users = ratings.users if positions is None else positions[ratings.users]
    cells = users.astype(np.uint64) * np.uint64(ratings.public.items)
    return _mix_bits(_mix_bits(cells + ratings.items.astype(np.uint64)) + offset)


def group_rows_by_length(counts: Ints, max_entries: int) -> Iterator[Ints]:
    """Yield rows in groups of similar length, each of about `max_entries` entries in all.

    Args:
        counts: array of shape (n_rows,), number of entries of each row.
        max_entries: the approximate limit of a group; a longer row is a group of its own.

    Yields:
        Arrays of row indices; empty rows are left out.
    """
    order = np.argsort(counts, kind="stable")
    order = order[counts[order] > 0]
    lengths = counts[order]
    start = 0
    while start < len(order):
        longest = int(lengths[start]) * 9 // 8  # padding adds an eighth at most
        end = int(np.searchsorted(lengths, longest, side="right"))
        end = min(end, start + max(1, max_entries // longest))
        check_cancelled()
        yield order[start:end]
        start = end


def rank_within_user(ratings: Ratings, *keys: AnyArray) -> Ints:
    """Rank the ratings (0, 1, ...) of each user.

    Args:
        ratings: the ratings.
        keys: arrays of shape (n_obs,); the last one decides the order, ties are broken by the one
            before it and finally by the item.

    Returns:
        Array of shape (n_obs,), the rank of each rating within its user's row.
    """
    order = np.lexsort((*keys, ratings.users))
    rank = np.empty(len(ratings), dtype=np.int64)
    rank[order] = np.arange(len(ratings)) - ratings.indptr[ratings.users[order]]
    return rank


def _read_column(frame: Any, role: str, name: Hashable) -> AnyArray:
    """Return a column of a data frame, after a check that no value is missing."""
    # An Arrow table and a data frame have these attributes; a mapping iterates over its names.
    names = [*map(str, getattr(frame, "column_names", getattr(frame, "columns", frame)))]
    if str(name) not in names:
        raise unknown_name_error(f"{role} column", str(name), names)
    if names.count(str(name)) > 1:
        raise BadRatings(f"several columns have the name '{name}': rename all but one")
    column = frame[name]
    values = np.asarray(column)
    if not len(values):
        raise BadRatings("there are no ratings: the data is empty")
    if hasattr(column, "isna"):  # pandas has several missing values
        is_missing = np.asarray(column.isna())
    elif values.dtype == object:
        is_missing = np.array([value is None or value != value for value in values])
    else:
        is_missing = values != values  # NaN differs from itself
    if is_missing.any():
        raise BadRatings(
            f"{is_missing.sum()} of {len(values)} values in the column '{name}' are missing, first"
            f" in row {is_missing.argmax()} (counted from 0): drop these rows"
        )
    return values


def _index_ids(column: AnyArray) -> tuple[tuple[str, ...], Ints]:
    """Return the ids of a column in their order, as text, and the index of each row's id."""
    if column.dtype.kind == "f" and (column % 1 == 0).all():
        column = column.astype(np.int64)  # pandas stores whole numbers so, next to missing ones
    elif column.dtype.kind not in "iu":
        column = np.array([*map(str, column)], dtype=object)
    ids, index = np.unique(column, return_inverse=True)
    return tuple(map(str, ids.tolist())), index


def _as_numbers(name: str, column: ArrayLike, kind: type[Any]) -> AnyArray:
    """Return a column as an array of a number type; raise BadRatings if it holds no numbers."""
    try:
        with np.errstate(invalid="raise"):  # a NaN among whole numbers
            return np.asarray(column).astype(kind, copy=False)
    except (TypeError, ValueError, FloatingPointError):
        raise BadRatings(f"{name} must be numbers{_describe_text(column)}") from None


def _describe_text(column: ArrayLike) -> str:
    """Return the end of a message, with a column's first value that is no number, if any."""
    for value in np.asarray(column).ravel().tolist():
        try:
            float(value)
        except (TypeError, ValueError):
            return f", got {format_value(value)}"
    return ""


def _check_indices(name: str, index: NDArray[Any], size: int) -> None:
    """Raise BadRatings unless all indices are integers in 0..size - 1."""
    if index.dtype.kind not in "iu":
        raise BadRatings(f"{name} indices must be integers, got {index.dtype} values")
    if index.min() < 0 or index.max() >= size:
        invalid = int(index[(index < 0) | (index >= size)][0])
        raise BadRatings(f"{name} index must lie in 0..{size - 1}, got {invalid}")


def _check_values(values: Floats, public: PublicFacts, describe_cell: Callable[[int], str]) -> None:
    """Raise BadRatings, with the first such rating, unless all ratings are in the public range."""
    # NaN compares false, so it is invalid too.
    is_invalid = ~((values >= public.low) & (values <= public.high))
    if is_invalid.any():
        first = int(np.argmax(is_invalid))
        value = float(values[first])
        problem = (
            f"outside {public.low:g}..{public.high:g}" if math.isfinite(value) else "not finite"
        )
        raise BadRatings(
            f"{(n := int(is_invalid.sum()))} rating{' is' if n == 1 else 's are'} {problem},"
            f" first {value:g} of {describe_cell(first)}"
        )


def _mix_bits(x: Uint64s) -> Uint64s:
    """Mix the bits of 64-bit words by the finaliser of splitmix64, which is a bijection.

    The constants are those of Steele, Lea, Flood, "Fast splittable pseudorandom number generators"
    (2014), in the variant of Stafford.
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
