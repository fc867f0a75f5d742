"""Ratings: validated, sorted, sparse, and never beyond the public facts they carry."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_core.ratings import Origin, PublicFacts, Ratings

PUBLIC = PublicFacts(users=3, items=4, low=1, high=5)


def build_ratings(
    users: Any, items: Any, values: Any, public: PublicFacts = PUBLIC, **options: Any
) -> Ratings:
    return Ratings.build(users, items, values, public, **options)


def draw_ratings(rng: np.random.Generator, users: int = 20, items: int = 30) -> Ratings:
    cells = rng.permutation(users * items)[:200]
    values = rng.uniform(-1, 1, 200)
    public = PublicFacts(users=users, items=items, low=-1, high=1)
    times = rng.integers(0, 10**9, 200)
    return build_ratings(cells // items, cells % items, values, public, times=times)


# Public facts


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"users": 0}, "users must be >= 1, got 0"),
        ({"items": 2.5}, "items must be an integer >= 1, got 2.5"),
        ({"high": math.inf}, "high end of the rating range must be a finite number, got inf"),
        ({"low": 5}, "rating range must be a low end below its high end, got '5:5'"),
        ({"cap": 0}, "cap on ratings per user must be >= 1, got 0"),
    ],
)
def test_impossible_facts(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidSetting, match=sentence):
        dataclasses.replace(PUBLIC, **changes)


# Building


def test_cells_come_out_sorted_and_everything_moves_together() -> None:
    rng = np.random.default_rng(1)
    ratings = draw_ratings(rng)
    cell = ratings.users.astype(int) * 30 + ratings.items
    assert (np.diff(cell) > 0).all()
    shuffled = rng.permutation(len(ratings))
    assert ratings.times is not None
    repeated = build_ratings(
        ratings.users[shuffled],
        ratings.items[shuffled],
        ratings.values[shuffled],
        ratings.public,
        times=ratings.times[shuffled],
    )
    for name in ("users", "items", "values", "times"):
        np.testing.assert_array_equal(getattr(repeated, name), getattr(ratings, name))
    assert repeated.fingerprint == ratings.fingerprint


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (([], [], []), "there are no ratings"),
        (([0, 1], [0], [1, 2]), "three columns of one length"),
        (([0, 3], [0, 0], [1, 2]), r"user index must lie in 0\.\.2, got 3"),
        (([0, 1], [-1, 0], [1, 2]), r"item index must lie in 0\.\.3, got -1"),
        (([0, 1], [0, 1], [1, 6]), r"1 rating is outside 1\.\.5, first 6 of user 1, item 1"),
        (([0, 1], [0, 1], [1, math.nan]), "1 rating is not finite, first nan of user 1, item 1"),
        (([0, 1], [0, 1], [1, "five"]), "ratings must be numbers"),
        (([0, 1.5], [0, 1], [1, 2]), "user indices must be integers, got float64 values"),
        (([2, 0, 2], [1, 0, 1], [1, 2, 3]), "pairs appear more than once, first user 2"),
    ],
)
def test_bad_columns_are_sentences(columns: tuple[Any, Any, Any], sentence: str) -> None:
    with pytest.raises(BadRatings, match=sentence):
        build_ratings(*columns)


def test_times_must_match_the_ratings_sorted_or_not() -> None:
    for users in ([0, 1], [1, 0]):
        with pytest.raises(BadRatings, match="2 ratings but 3 times"):
            build_ratings(users, [0, 0], [1, 2], times=[5, 6, 7])
    for times in (["monday", "tuesday"], [1.0, math.nan]):
        with pytest.raises(BadRatings, match="times must be numbers"):
            build_ratings([0, 1], [0, 0], [1, 2], times=times)


def test_an_observed_zero_stays_observed() -> None:
    public = PublicFacts(users=2, items=3, low=0, high=2)
    ratings = build_ratings([0, 0, 1], [0, 2, 1], [0, 1, 0], public)
    assert ratings.matrix.nnz == 3
    assert ratings.density == 0.5
    np.testing.assert_array_equal(ratings.matrix.toarray(), [[0, 0, 1], [0, 0, 0]])


# Data frames

COLUMNS = {"reader": ["10", "9", "10"], "book": ["b", "a", "a"], "stars": [1.0, 2.0, 5.0]}


def build_from_frame(frame: Any, low: float = 1, high: float = 5, **names: Any) -> Ratings:
    names = {"user": "reader", "item": "book", "rating": "stars"} | names
    return Ratings.from_frame(frame, low=low, high=high, **names)


def test_a_frame_a_table_and_a_mapping_give_the_same_ratings() -> None:
    columns: dict[str, Any] = COLUMNS | {"reader": [10, 9, 10]}
    frame = pd.DataFrame(columns)
    frames = [
        *(frame, columns, pa.table(columns)),
        frame.convert_dtypes().set_index("stars", drop=False),
        frame.astype({"reader": float, "book": "category", "stars": "float32"}),
        frame.rename(columns={"reader": 0}),
    ]
    for given in frames:
        ratings = build_from_frame(given, user=0 if given is frames[-1] else "reader")
        assert (ratings.user_ids, ratings.item_ids) == (("9", "10"), ("a", "b"))
        np.testing.assert_array_equal(ratings.matrix.toarray(), [[2, 0], [5, 1]])
        assert ratings.public == PublicFacts(users=2, items=2, low=1, high=5)
        assert ratings.catalogue.origin is Origin.READ  # nobody declared users or items public
        assert dict(ratings.columns.names)["item"] == "book"
        assert not ratings.columns.guessed
    assert build_from_frame(COLUMNS).user_ids == ("10", "9")  # text is sorted as text


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pa.table])
@pytest.mark.parametrize(
    ("changes", "options", "sentence"),
    [
        (
            {},
            {"user": "readers"},
            "user column must be one of reader, book, stars, got 'readers'",
        ),
        ({"stars": ["1", "good", "3"]}, {}, "the column 'stars' must be numbers, got 'good'"),
        ({"stars": [1, None, 3]}, {}, r"1 of 3 values in the column 'stars' are missing, .* row 1"),
        ({"book": ["a", None, None]}, {}, "2 of 3 values in the column 'book' are missing"),
        ({"reader": [1.0, 2.0, math.nan]}, {}, "the column 'reader' are missing, first in row 2"),
        ({"stars": [1, 2, 7]}, {}, r"1 rating is outside 1\.\.5, first 7 of user '10', item 'a'"),
        ({"stars": [1, 2, math.inf]}, {}, "1 rating is not finite, first inf of user '10'"),
        ({"book": ["a", "a", "a"]}, {}, "more than once, first user '10', item 'a': keep one"),
        ({name: [] for name in COLUMNS}, {}, "there are no ratings"),
        ({}, {"low": 5}, "rating range must be a low end below its high end"),
    ],
)
def test_what_is_wrong_with_a_frame_is_a_sentence(
    kind: Any, changes: dict[str, Any], options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((BadRatings, InvalidSetting), match=sentence):
        build_from_frame(kind(COLUMNS | changes), **options)


def test_more_ways_in_which_a_frame_is_wrong() -> None:
    missing = pd.DataFrame(COLUMNS | {"reader": pd.array([1, None, 2], dtype="Int64")})
    with pytest.raises(BadRatings, match="1 of 3 values in the column 'reader' are missing"):
        build_from_frame(missing)
    with pytest.raises(BadRatings, match="several columns have the name 'reader'"):
        build_from_frame(pd.DataFrame([[1, 2, 3]], columns=["reader", "reader", "stars"]))
    with pytest.raises(BadRatings, match="three columns of one length"):
        build_from_frame(COLUMNS | {"stars": [1, 2]})


# The cap: certified values of whole users rest on it


def test_a_cap_the_ratings_break_is_refused_on_every_route() -> None:
    capped = dataclasses.replace(PUBLIC, cap=2)
    rows = ([0, 1, 1, 1], [0, 0, 1, 2], [1, 2, 3, 4])
    with pytest.raises(BadRatings, match=r"user 1 .* has 3 ratings, more than the cap of 2"):
        build_ratings(*rows, capped)
    free = build_ratings(*rows)
    with pytest.raises(BadRatings, match="more than the cap of 2"):
        dataclasses.replace(free, public=capped)
    selected = free.select(np.array([True, True, True, False]))
    assert dataclasses.replace(selected, public=capped).public.cap == 2
    assert dataclasses.replace(free, public=dataclasses.replace(PUBLIC, cap=3)).public.cap == 3


# Selecting and new values


def test_select_keeps_facts_and_order() -> None:
    ratings = draw_ratings(np.random.default_rng(3))
    keep = ratings.values > 0
    chosen = ratings.select(keep)
    assert chosen.public == ratings.public
    np.testing.assert_array_equal(chosen.values, ratings.values[keep])
    assert chosen.times is not None
    assert ratings.times is not None
    np.testing.assert_array_equal(chosen.times, ratings.times[keep])
    np.testing.assert_array_equal(ratings.select(np.flatnonzero(keep)).users, chosen.users)
    assert chosen.matrix.nnz == keep.sum()  # nothing cached leaks from the whole
    with pytest.raises(BadRatings, match="no rating is left"):
        ratings.select(np.zeros(len(ratings), dtype=bool))


# Fingerprints


def test_a_fingerprint_is_of_content_only() -> None:
    ratings = build_ratings([0, 1], [2, 3], [1.0, 5.0])
    equal = [
        build_ratings([1, 0], [3, 2], [5.0, 1.0]),
        build_ratings([0, 1], [2, 3], [1, 5], user_ids=["ann", "bob", "cy"]),
        build_ratings([0, 1], [2, 3], [1, 5], dataclasses.replace(PUBLIC, low=np.float64(1))),
    ]
    different = [
        build_ratings([0, 1], [2, 3], [1.0, 4.0]),
        build_ratings([0, 1], [2, 2], [1.0, 5.0]),
        build_ratings([0, 2], [2, 3], [1.0, 5.0]),
        build_ratings([0, 1], [2, 3], [1, 5], dataclasses.replace(PUBLIC, users=4)),
        build_ratings([0, 1], [2, 3], [1, 5], dataclasses.replace(PUBLIC, low=0)),
        build_ratings([0, 1], [2, 3], [1, 5], dataclasses.replace(PUBLIC, cap=1)),
        dataclasses.replace(ratings, prepared=("a step",)),
    ]
    assert {r.fingerprint for r in equal} == {ratings.fingerprint}
    assert len({r.fingerprint for r in different} | {ratings.fingerprint}) == len(different) + 1
    assert len(ratings.fingerprint) == 16
