"""Public item features, encoded as columns of numbers from a table beside the ratings.

Public is what an outsider knows without the users: genre, year, author, price. What was computed
from the users' data is not public, whatever it is called; a column that correlates with how often
items are rated, or how well, is marked.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from dpmc_core.arrays import Floats
from dpmc_core.errors import BadRatings
from dpmc_core.ratings import Ratings
from dpmc_data.source import MEGABYTE, Source
from dpmc_data.text import parse_decimal

DONOR_ITEM = "donor item"  # the column that says what an item was joined with
CATEGORIES = 50  # largest number of categories of a column; the most frequent ones stay
_SEPARATORS = "|;"  # between several categories of one item
_MAX_BYTES = 50 * MEGABYTE  # of a table of items
_MIN_COVERED_SHARE = 0.1  # share of the texts that the retained categories must cover
_MIN_NUMERIC_SHARE = 0.95  # share of the filled cells that must be numbers
# A column is marked if its rank correlation with the users' data is larger, at a smaller p-value.
_SUSPICIOUS_CORRELATION = 0.5
_SUSPICIOUS_P_VALUE = 1e-3
_YEAR = re.compile(r"\((\d{4})\)\s*$")  # at the end of a title


@dataclass(frozen=True, eq=False)
class ItemFeature:
    """A column of a table of items.

    Attributes:
        name: the name of the column.
        summary: how the column was encoded, or why it was left aside.
        columns: array of shape (n_items, n_columns), of mean square one over the items that have a
            value; None if the column was left aside.
        mark: why the column may not be public; empty if nothing suggests that.
        names: the names of the encoded columns, if they are categories.
    """

    name: str
    summary: str
    columns: Floats | None = None
    mark: str = ""
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"of the items: {self.name}: {self.summary}" + f"; {self.mark}" * bool(self.mark)


def read_items(source: Source, ratings: Ratings) -> tuple[ItemFeature, ...]:
    """Read a CSV or Parquet file with one row per item, one of whose columns holds the items' ids.

    Returns:
        The columns of the file, first the one with the ids.

    Raises:
        BadRatings: if the file cannot be read, no column names the items of the ratings, or an item
            has several rows.
    """
    table = read_item_table(source)
    if ratings.item_ids is None:
        raise BadRatings("the items of these ratings have no ids that a table could name")
    ids = {*ratings.item_ids}
    # Distinct ids count: a column of years may repeat texts that are also ids.
    matches = {name: len(ids & {*column}) for name, column in table.items()}
    id = max(matches, key=matches.__getitem__, default="")
    if not matches.get(id):
        raise BadRatings(
            f"{source.name}: no column holds the ids of the rated items, such as"
            f" '{ratings.item_ids[0]}'"
        )
    repeated = [text for text, count in Counter(table[id]).items() if count > 1 and text in ids]
    if repeated:
        raise BadRatings(f"{source.name} has several rows for '{repeated[0]}': one row an item")
    rows = {text: k for k, text in enumerate(table.pop(id))}
    texts = {
        name: [column[rows[item]] if item in rows else None for item in ratings.item_ids]
        for name, column in table.items()
    }
    missing = len(ids - rows.keys())
    id_feature = ItemFeature(
        id, f"names the items; {missing:,} of {len(ids):,} are not in the table"
    )
    return id_feature, *(
        _mark_suspicious(encode_column(name, column), ratings) for name, column in texts.items()
    )


def encode_column(name: str, texts: Sequence[str | None]) -> ItemFeature:
    """Encode a column of texts as numbers, years or categories, or leave it aside.

    Args:
        name: the name of the column.
        texts: one text per item, None if it has none.
    """
    filled = [text for text in texts if text]
    if name == DONOR_ITEM:
        return ItemFeature(name, f"left aside: it names the donor's items, {len(filled):,} of them")
    if len(set(filled)) < 2:
        return ItemFeature(name, "left aside: the same for all")
    numbers = [parse_decimal(text) if text else None for text in texts]
    if sum(number is not None for number in numbers) >= _MIN_NUMERIC_SHARE * len(filled):
        return ItemFeature(name, "a number", encode_numbers(numbers))
    year_texts = extract_years(texts)
    # Titles with a year; the others have no year in their names.
    if sum(year is not None for year in year_texts) >= 0.5 * len(filled):
        return replace(encode_column(name, year_texts), summary="the year at its end")
    split_texts = [_split_categories(text) for text in texts]
    counts = Counter(label for labels in split_texts for label in labels)
    retained = [label for label, count in counts.most_common(CATEGORIES) if count > 1]
    if sum(counts[label] for label in retained) < _MIN_COVERED_SHARE * sum(counts.values()):
        return ItemFeature(name, f"left aside: {len(counts):,} texts, each of few items")
    n_rare = len(counts) - len(retained)
    summary = f"{len(retained)} categories" + f"; {n_rare:,} rarer ones left aside" * (n_rare > 0)
    return ItemFeature(
        name, summary, encode_categories(split_texts, retained), names=tuple(retained)
    )


def encode_categories(split_texts: Sequence[Sequence[str]], retained: Sequence[str]) -> Floats:
    """Encode categories as one column each, in rows of length one; zeros for an item without any.

    Args:
        split_texts: the categories of each item.
        retained: the categories that get a column.

    Returns:
        Array of shape (n_items, n_categories).
    """
    positions = {label: k for k, label in enumerate(retained)}
    columns = np.zeros((len(split_texts), len(retained)))
    for row, labels in zip(columns, split_texts, strict=True):
        indices = [positions[label] for label in labels if label in positions]
        row[indices] = 1 / np.sqrt(max(len(indices), 1))
    return columns


def encode_numbers(numbers: Sequence[float | None]) -> Floats:
    """Encode numbers by their rank among all items and its square, each of mean square one half.

    Args:
        numbers: one number per item, None if it has none.

    Returns:
        Array of shape (n_items, 2); zeros for an item without a number.
    """
    from scipy.stats import rankdata

    values = np.array(numbers, dtype=np.float64)  # NaN for None
    is_present = np.isfinite(values)
    rank = (rankdata(values[is_present]) - 0.5) / max(is_present.sum(), 1)  # uniform on 0..1
    # Centred and scaled to variance 1: a uniform rank has variance 1/12. Then the variance of the
    # square is 4/5. Two columns of mean square 1/2 have rows of mean square 1.
    linear = np.sqrt(12) * (rank - 0.5)
    columns = np.zeros((len(values), 2))
    columns[is_present] = np.column_stack([linear, np.sqrt(1.25) * (linear**2 - 1)]) / np.sqrt(2)
    return columns


def add_public_features(
    ratings: Ratings, genres: Sequence[tuple[str, ...]] | None
) -> tuple[Ratings, tuple[ItemFeature, ...]]:
    """Return ratings of a public set with the item features that come with it.

    The features are the genres, and the years in titles.
    """
    texts: dict[str, Sequence[str | None]] = {
        "genre": ["|".join(item_genres) for item_genres in genres or ()],
        "year": extract_years(ratings.titles or ()),
    }
    item_features = tuple(
        encode_column(name, column) for name, column in texts.items() if any(column)
    )
    return attach_features(ratings, item_features), item_features


def attach_features(
    ratings: Ratings,
    item_features: Sequence[ItemFeature],
    names: Sequence[str] | None = None,
    *,
    with_digest: bool = False,
) -> Ratings:
    """Return ratings with the encoded item features available.

    Args:
        ratings: the ratings.
        item_features: the columns of a table of items.
        names: the features that are public; None for all.
        with_digest: whether results name the features by a digest, because a person gave them.
    """
    columns_by_name = {
        feature.name: feature.columns
        for feature in item_features
        if feature.columns is not None and (names is None or feature.name in names)
    }
    return ratings.with_item_features(
        columns_by_name, digest=hash_features(columns_by_name) if with_digest else ""
    )


def hash_features(columns_by_name: Mapping[str, Floats]) -> str:
    """Return the eight hex digits by which results name a table of items.

    Args:
        columns_by_name: arrays of shape (n_items, n_columns), by the name of the feature.
    """
    hasher = hashlib.sha256(repr([*columns_by_name]).encode())
    for columns in columns_by_name.values():
        hasher.update(columns.tobytes())
    return hasher.hexdigest()[:8]


def is_encoded(columns: Floats) -> bool:
    """Return whether `encode_column` can have produced these columns, from numbers or categories.

    Args:
        columns: array of shape (n_items, n_columns).
    """
    if columns.shape[1] == 2:
        numbers = [float(row[0]) if row.any() else None for row in columns]
        if np.array_equal(encode_numbers(numbers), columns):
            return True
    has_category = columns > 0
    lengths = np.sqrt(np.maximum(has_category.sum(axis=1), 1))[:, None]
    is_repeated = bool((has_category.sum(axis=0) > 1).all())
    return (
        columns.shape[1] <= CATEGORIES
        and is_repeated
        and np.array_equal(has_category / lengths, columns)
    )


def extract_years(titles: Sequence[str | None]) -> list[str | None]:
    """Return the year at the end of each title, None if there is none."""
    return [match[1] if title and (match := _YEAR.search(title)) else None for title in titles]


def _split_categories(text: str | None) -> tuple[str, ...]:
    """Split a cell at the first separator that it holds; each category is kept once."""
    separator = next((token for token in _SEPARATORS if token in (text or "")), "|")
    tokens = (token.strip() for token in (text or "").split(separator))
    return tuple(dict.fromkeys(filter(None, tokens)))


def _mark_suspicious(feature: ItemFeature, ratings: Ratings) -> ItemFeature:
    """Mark a numeric feature that correlates with how often, or how well, items are rated."""
    from scipy.stats import spearmanr

    if feature.columns is None or feature.columns.shape[1] != 2:
        return feature
    count = np.bincount(ratings.items, minlength=ratings.public.items)
    sums = np.bincount(ratings.items, ratings.values, ratings.public.items)
    rated = count > 0
    for manner, measure in (("often", count[rated]), ("well", sums[rated] / count[rated])):
        # The first column of a number is linear in its rank.
        correlation, p_value = (
            spearmanr(feature.columns[rated, 0], measure) if np.ptp(measure) else (0.0, 1.0)
        )
        if abs(correlation) > _SUSPICIOUS_CORRELATION and p_value < _SUSPICIOUS_P_VALUE:
            mark = f"goes along with how {manner} items are rated: was it computed from that?"
            return replace(feature, mark=mark)
    return feature


def read_item_table(source: Source) -> dict[str, list[str]]:
    """Return the columns of a CSV or Parquet file by name, as texts; empty cells are ""."""
    from pyarrow import parquet

    source.check_size(_MAX_BYTES)
    try:
        with source.open() as file:
            if source.read_head().startswith(b"PAR1"):
                table = parquet.read_table(file).to_pydict()
                return {name: list(map(_format_cell, column)) for name, column in table.items()}
            text = io.TextIOWrapper(file, "utf-8-sig", newline="")
            rows = [*filter(None, csv.reader(text, strict=True))]
            names = Counter(rows[0] if rows else ())
            for name, count in names.items():
                if count > 1:
                    raise ValueError(f"{count} columns are called '{name}'")
            for row in rows:
                if len(row) > len(names):
                    raise ValueError(f"'{row[0]}' has {len(row)} cells under {len(names)} names")
            return {name: column for name, *column in zip_longest(*rows, fillvalue="")}
    except (ValueError, OSError, LookupError, csv.Error) as error:
        raise BadRatings(
            f"{source.name} cannot be read as a table of items, CSV or Parquet: {error}"
        ) from None


def _format_cell(cell: Any) -> str:
    """Return a cell of a Parquet table as text; "" for None and NaN, which differs from itself."""
    return "" if cell is None or cell != cell else str(cell)
