"""Item features from a donor: other ratings that are published and share no people with yours.

What a donor says of an item is as public as its genre, so it costs no epsilon. Items are joined by
title and year, or by id; a column says what each was joined with.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from dpmc_core.arrays import Floats
from dpmc_core.data.features import DONOR_ITEM, extract_years
from dpmc_core.data.transforms import DONOR
from dpmc_core.errors import BadRatings
from dpmc_core.ratings import Ratings
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.rows import item_sums, row_sums

MIN_RATINGS = 3  # of an item of the donor; rarer ones are left out
N_FACTORS = 4
_PSEUDO = 5.0  # ratings at the mean that each user and each item is given
_ARTICLE = re.compile(r"^(.*), (the|a|an|le|la|les|der|die|das|el)$")


def describe_items(donor: Ratings) -> dict[str, Floats]:
    """Return what a donor's ratings say of each of its items.

    The effect is the shrunk mean residual about the users' means. The factors are the leading right
    singular vectors of what is left, each residual divided by the roots of the numbers of ratings
    of its user and of its item.

    Args:
        donor: the published ratings.

    Returns:
        Arrays of shape (n_items,) by the name of the feature, in rating points for the effect.
    """
    from scipy.sparse.linalg import svds

    entries = Pattern.from_ratings(donor)
    user_weights = 1 / (entries.counts + _PSEUDO)
    item_counts = item_sums(entries)
    residuals = donor.values - donor.values.mean()
    residuals = residuals - entries.expand_rows(row_sums(entries, residuals) * user_weights)
    effects = item_sums(entries, residuals) / (item_counts + _PSEUDO)
    residuals -= effects[entries.items]
    matrix = entries.build_matrix(residuals * np.sqrt(entries.expand_rows(user_weights)))
    scales = 1 / np.sqrt(item_counts + _PSEUDO)
    rank = min(N_FACTORS, *(size - 1 for size in matrix.shape))
    numbers = {f"{DONOR}effect": effects, f"{DONOR}log count": np.log(np.maximum(item_counts, 1))}
    if rank < 1:
        return numbers
    _, _, right = svds(matrix.multiply(scales).tocsr(), k=rank, random_state=0)
    for k, vector in enumerate(right[::-1], 1):
        sign = np.sign(vector[np.argmax(np.abs(vector))])
        numbers[f"{DONOR}factor {k}"] = sign * vector * scales
    return numbers


def normalise_title(text: str) -> str:
    """Return a title as it is compared: letters without accents, words in order, and the year."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter)).strip()
    (year,) = extract_years([plain])
    title = re.sub(r"\([^)]*\)", "", plain).strip()  # the year, and names in other languages
    title = _ARTICLE.sub(r"\2 \1", title)
    return " ".join([*re.sub(r"[\W_]+", " ", title).split(), year or ""]).strip()


def match_items(
    columns: Mapping[str, Sequence[str]], donor: Ratings, by_id: bool = False
) -> tuple[str, list[int | None]]:
    """Find each item of a table among the items of a donor.

    The column is the one that names most of the donor's items. A name that stands for several items
    on either side matches none.

    Args:
        columns: the texts of the table, by the name of the column.
        donor: the published ratings.
        by_id: whether ids are compared as they are written, instead of titles.

    Returns:
        The name of the column, and the donor's item for each row; None where there is none.

    Raises:
        BadRatings: no column names items of the donor.
    """
    names = (donor.item_ids if by_id else donor.titles or donor.item_ids) or ()
    simplify = str.strip if by_id else normalise_title
    keys = [simplify(name) for name in names]
    key_counts = Counter(keys)
    positions = {key: item for item, key in enumerate(keys) if key and key_counts[key] == 1}
    best: tuple[str, list[int | None]] = "", []
    for name, texts in columns.items():
        row_keys = [simplify(text) for text in texts]
        counts = Counter(row_keys)
        matches = [positions.get(key) if counts[key] == 1 else None for key in row_keys]
        if len(matches) - matches.count(None) > len(best[1]) - best[1].count(None):
            best = name, matches
    if not best[0]:
        example = f", such as '{names[0]}'" if names else ""
        kind = "ids" if by_id else "titles"
        raise BadRatings(
            f"no column of the table of items has {kind} of the donor's items{example}; join by"
            f" {'title' if by_id else 'id'} with --by {'title' if by_id else 'id'}"
        )
    return best


def build_feature_table(
    columns: Mapping[str, Sequence[str]], donor: Ratings, by_id: bool = False
) -> tuple[str, dict[str, list[str]]]:
    """Return a table of items with what a donor says of each, as texts.

    Args:
        columns: the texts of the table of items, by the name of the column; the first has the ids.
        donor: the published ratings.
        by_id: whether items are joined by id instead of title.

    Returns:
        The column by which items were joined, and the columns of the new table: the ids, what the
        donor says (empty where an item is not among its items), and the donor's name of the item.
    """
    column, matches = match_items(columns, donor, by_id)
    counts = np.bincount(donor.items, minlength=donor.public.items)
    known = [None if k is None or counts[k] < MIN_RATINGS else k for k in matches]
    names = donor.titles or donor.item_ids or ()
    id, ids = next(iter(columns.items()))
    table = {id: [*ids]}
    for name, numbers in describe_items(donor).items():
        table[name] = ["" if k is None else f"{numbers[k]:.6g}" for k in known]
    table[DONOR_ITEM] = ["" if k is None else names[k] for k in known]
    return column, table
