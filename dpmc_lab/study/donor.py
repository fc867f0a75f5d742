"""Build item features from a donor: published ratings of people who are not among yours.

What a donor's ratings reveal about an item is as public as its genre, so it costs no epsilon. Items
are joined by title and year, or by id; a column names the donor's item that each was joined with.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from dpmc_core.arrays import Floats
from dpmc_core.errors import BadRatings
from dpmc_core.preparation import DONOR
from dpmc_core.ratings import Ratings
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.rows import item_sums, row_sums
from dpmc_data.features import DONOR_ITEM, extract_years

MIN_RATINGS = 3  # of an item of the donor; rarer ones are left out
N_FACTORS = 4
_N_PSEUDO_RATINGS = 5.0  # ratings at the mean, added to each user and item to shrink its effect
_ARTICLE = re.compile(r"^(.*), (the|a|an|le|la|les|der|die|das|el)$")


def describe_items(donor: Ratings) -> dict[str, Floats]:
    """Compute features of a donor's items from its ratings: effect, log count and factors.

    The effect is the shrunk mean residual about the users' means. The factors are the leading right
    singular vectors of the remaining residuals. Each residual is divided by the roots of the
    numbers of ratings of its user and of its item. The sign of a factor makes its largest entry
    positive, since singular vectors have no sign of their own.

    Args:
        donor: the published ratings.

    Returns:
        Arrays of shape (n_items,) by the name of the feature, in rating points for the effect.
    """
    from scipy.sparse.linalg import svds

    entries = Pattern.from_ratings(donor)
    user_weights = 1 / (entries.counts + _N_PSEUDO_RATINGS)
    item_counts = item_sums(entries)
    residuals = donor.values - donor.values.mean()
    residuals = residuals - entries.expand_rows(row_sums(entries, residuals) * user_weights)
    effects = item_sums(entries, residuals) / (item_counts + _N_PSEUDO_RATINGS)
    residuals -= effects[entries.items]
    matrix = entries.build_matrix(residuals * np.sqrt(entries.expand_rows(user_weights)))
    scales = 1 / np.sqrt(item_counts + _N_PSEUDO_RATINGS)
    rank = min(N_FACTORS, *(size - 1 for size in matrix.shape))  # svds finds fewer than all
    features = {f"{DONOR}effect": effects, f"{DONOR}log count": np.log(np.maximum(item_counts, 1))}
    if rank < 1:
        return features
    _, _, right = svds(matrix.multiply(scales).tocsr(), k=rank, random_state=0)
    for k, vector in enumerate(right[::-1], 1):  # the largest singular value comes last
        sign = np.sign(vector[np.argmax(np.abs(vector))])
        features[f"{DONOR}factor {k}"] = sign * vector * scales
    return features


def normalise_title(text: str) -> str:
    """Return a title in the form in which titles are compared.

    It has letters without accents, an article at the front, no punctuation, and the year.
    """
    letters = unicodedata.normalize("NFKD", text.casefold())
    unaccented = "".join(letter for letter in letters if not unicodedata.combining(letter)).strip()
    (year,) = extract_years([unaccented])
    # Parentheses hold the year, and names in other languages.
    title = re.sub(r"\([^)]*\)", "", unaccented).strip()
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
    build_key = str.strip if by_id else normalise_title
    keys = [build_key(name) for name in names]
    key_counts = Counter(keys)
    positions = {key: item for item, key in enumerate(keys) if key and key_counts[key] == 1}
    best: tuple[str, list[int | None]] = "", []
    for name, texts in columns.items():
        row_keys = [build_key(text) for text in texts]
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
    """Build a table of items with a donor's features of each, as texts.

    Args:
        columns: the texts of the table of items, by the name of the column; the first has the ids.
        donor: the published ratings.
        by_id: whether items are joined by id instead of title.

    Returns:
        The column by which items were joined, and the columns of the new table: the ids, the
        donor's features, and the donor's name of the item. Where an item is not among the donor's
        items, or has fewer than MIN_RATINGS ratings there, all but its id is empty.
    """
    column, matches = match_items(columns, donor, by_id)
    counts = np.bincount(donor.items, minlength=donor.public.items)
    donor_items = [None if k is None or counts[k] < MIN_RATINGS else k for k in matches]
    names = donor.titles or donor.item_ids or ()
    id_column, ids = next(iter(columns.items()))
    table = {id_column: [*ids]}
    for name, feature in describe_items(donor).items():
        table[name] = ["" if k is None else f"{feature[k]:.6g}" for k in donor_items]
    table[DONOR_ITEM] = ["" if k is None else names[k] for k in donor_items]
    return column, table
