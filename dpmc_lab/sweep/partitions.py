"""Read, index, split, count and measure the ratings of one partition of users.

Each function depends on its arguments alone, so running it again gives the same result.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpmc_core.arrays import Ints
from dpmc_core.errors import BadRatings
from dpmc_core.metrics import score_test_ratings
from dpmc_core.model import Task
from dpmc_core.problem import prepare_all_ratings
from dpmc_core.ratings import Ratings, hash_cells, rank_within_user
from dpmc_data import ReadOptions
from dpmc_data.reading import clean, natural_order, read_table
from dpmc_data.source import Source

# Returns these of one file's ratings, as a tuple.
CATALOGUE = attrgetter("user_ids", "item_ids", "public", "columns")


def index_all_names(
    files: Sequence[Path], catalogues: Sequence[tuple[Any, ...]]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the index of each user's name, and of each item's, among those of all files.

    Args:
        files: the files.
        catalogues: what CATALOGUE returns for each of them.

    Raises:
        BadRatings: ranges differ, or a user is in two files.
    """
    _, _, first_facts, _ = catalogues[0]
    file_of_user: dict[str, Path] = {}
    for path, (ids, _, public, _) in zip(files, catalogues, strict=True):
        if (public.low, public.high) != (first_facts.low, first_facts.high):
            names = f"{files[0].name} and {path.name}"
            raise BadRatings(f"{names} have different rating ranges: give the range, low and high")
        for id in ids:
            if file_of_user.setdefault(id, path) != path:
                raise BadRatings(
                    f"user '{id[:60]}' is in {file_of_user[id].name} and {path.name}: with"
                    " --cluster all ratings of a user must be in one file; write the folder"
                    " partitioned by user, or leave --cluster out"
                )
    items = list(dict.fromkeys(chain.from_iterable(rated for _, rated, *_ in catalogues)))
    return index_in_order(list(file_of_user)), index_in_order(items)


def index_in_order(names: Sequence[str]) -> dict[str, int]:
    """Return the position of each name in natural order."""
    order = natural_order(pa.array(names, pa.string()))
    return {names[k]: position for position, k in enumerate(order)}


def read_file_stamp(path: Path) -> tuple[int, int]:
    """Return the size and the modification time of a file, which show whether it has changed."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def read_file(path: str, options: ReadOptions, expected_stamp: tuple[int, int]) -> Ratings:
    """Read the ratings of a file.

    Args:
        path: of the file.
        options: how it is read.
        expected_stamp: its size and modification time when the fit began.

    Raises:
        BadRatings: its stamp is no longer the expected one.
    """
    # Dask reads a file again, in the middle of a fit, when a worker is lost.
    if Path(path).is_file() and read_file_stamp(Path(path)) != expected_stamp:
        raise BadRatings(f"{Path(path).name} has changed while it was used: run the command again")
    (ratings,), _ = clean(options, read_table(Source.from_file(path), options))
    return ratings


def reindex_ratings(
    ratings: Ratings, user_positions: Ints, item_indices: Ints, n_items: int, task: Task
) -> Ratings:
    """Return a file's ratings with item indices over all files, prepared for the task.

    Args:
        ratings: of the file.
        user_positions: array of shape (n_users,), position of each of its users among all.
        item_indices: array of shape (n_items,), index of each of its items among all.
        n_items: number of all items.
        task: what the ratings are prepared for.
    """
    public = replace(ratings.public, items=n_items)
    cells = ratings.users, item_indices[ratings.items], ratings.values
    reindexed = Ratings.build(*cells, public, times=ratings.times, user_positions=user_positions)
    prepared_ratings, _ = prepare_all_ratings(reindexed, task)
    return prepared_ratings


def split_ratings(
    ratings: Ratings, share: float | None, key: int
) -> tuple[Ratings, Ratings | None]:
    """Split into training ratings and test ratings, if there are any.

    The test ratings are each user's latest, or a share that always leaves every user one rating.
    The split is by a hash, so it is the same in any partition.

    Args:
        ratings: of a partition.
        share: share of test ratings; None to hold out the latest rating of each user.
        key: of the hash.
    """
    hashes = hash_cells(ratings, key)
    if share is None:  # hashes decide between ratings of the same time
        latest = () if ratings.times is None else (-ratings.times,)
        is_held_out = rank_within_user(ratings, hashes, *latest) == 0
        is_held_out &= np.diff(ratings.indptr)[ratings.users] > 1
    else:  # the rating with the largest hash is never held out
        is_held_out = (hashes < share * 2.0**64) & (rank_within_user(ratings, ~hashes) > 0)
    return ratings.select(~is_held_out), ratings.select(is_held_out) if is_held_out.any() else None


def summarise_content(ratings: Ratings | None) -> tuple[int, Any]:
    """Return the number of ratings, and the sum of a hash of each, which identifies them.

    Both can be summed over partitions.
    """
    if ratings is None:
        return 0, np.zeros(1, dtype=np.uint64)
    hashes = hash_cells(ratings, 0) * ratings.values.view(np.uint64) + hash_cells(ratings, 1)
    return len(ratings), hashes.sum(keepdims=True)  # modulo 2^64


def sum_test_measures(
    paired: tuple[Any, tuple[Ratings, Ratings | None]],
    task: Task,
    function: Callable[..., Any],
    state: tuple[Any, ...],
) -> tuple[float, int]:
    """Return the sum of what test ratings add to the task's metric, and the number of these.

    Args:
        paired: what the model needs of a partition, and its training and test ratings.
        task: what is predicted.
        function, state: `function(partition, *state)` is the model of the partition's users.
    """
    partition, (train, test) = paired
    if test is None:
        return 0.0, 0
    measures = score_test_ratings(task, function(partition, *state), train, test)
    is_measured = ~np.isnan(measures)
    return float(measures[is_measured].sum()), int(is_measured.sum())


def apply_function(partition: Any, call: tuple[Callable[..., Any], tuple[Any, ...]]) -> Any:
    """Apply a function with its further arguments to a partition."""
    return call[0](partition, *call[1])


def add_results(first: Any, *remaining: Any) -> Any:
    """Add arrays or numbers, or tuples of them."""
    if isinstance(first, tuple):
        return tuple(map(add_results, first, *remaining))
    return sum(remaining, first)


def pair_partitions(*values: Any) -> tuple[Any, ...]:
    """Return the values of several futures as one tuple; a worker fetches them to call this."""
    return values
