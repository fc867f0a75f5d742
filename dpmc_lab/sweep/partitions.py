"""Ratings of one partition of users: read, placed among all, split, counted and measured.

Each function depends on its arguments alone, so running it again gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpmc_core.arrays import Ints
from dpmc_core.data import ReadOptions
from dpmc_core.data.reading import clean, natural_order, read_table
from dpmc_core.data.source import Source
from dpmc_core.errors import BadRatings
from dpmc_core.metrics import score_test_ratings
from dpmc_core.model import Task
from dpmc_core.problem import prepare_all_ratings
from dpmc_core.ratings import Ratings, hash_cells, rank_within_user

CATALOGUE = attrgetter("user_ids", "item_ids", "public", "columns")  # of one file's ratings


def join_ratings(
    files: Sequence[Path], catalogues: Sequence[tuple[Any, ...]]
) -> tuple[dict[str, int], dict[str, int]]:
    """Where each user and each item of some files stands among all. Raises BadRatings."""
    first = catalogues[0][2]
    owner: dict[str, Path] = {}
    for path, (ids, _, public, _) in zip(files, catalogues, strict=True):
        if (public.low, public.high) != (first.low, first.high):
            names = f"{files[0].name} and {path.name}"
            raise BadRatings(f"{names} have different rating ranges: give the range, low and high")
        for id in ids:
            if owner.setdefault(id, path) != path:
                raise BadRatings(
                    f"user '{id[:60]}' is in {owner[id].name} and {path.name}: with --cluster all"
                    " ratings of a user must be in one file; write the folder partitioned by user,"
                    " or leave --cluster out"
                )
    items = list(dict.fromkeys(chain.from_iterable(rated for _, rated, *_ in catalogues)))
    return index_in_order(list(owner)), index_in_order(items)


def index_in_order(names: Sequence[str]) -> dict[str, int]:
    """Each name's place in natural order."""
    order = natural_order(pa.array(names, pa.string()))
    return {names[k]: n for n, k in enumerate(order)}


def read_file_stamp(path: Path) -> tuple[int, int]:
    """What changes where a file is written anew."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def read_file(path: str, options: ReadOptions, seen: tuple[int, int]) -> Ratings:
    """The ratings of a file. Raises BadRatings where its stamp is no more the one that was seen."""
    if (
        Path(path).is_file() and read_file_stamp(Path(path)) != seen
    ):  # read again, in the middle of a fit
        raise BadRatings(f"{Path(path).name} has changed while it was used: run the command again")
    return clean(options, read_table(Source.from_file(path), options))[0][0]


def reindex_ratings(ratings: Ratings, places: Ints, items: Ints, count: int, task: Task) -> Ratings:
    """A file's ratings over the items of all; places: of its users among all."""
    public = replace(ratings.public, items=count)
    cells = ratings.users, items[ratings.items], ratings.values
    return prepare_all_ratings(
        Ratings.build(*cells, public, times=ratings.times, user_positions=places), task
    )[0]


def split_ratings(
    ratings: Ratings, share: float | None, key: int
) -> tuple[Ratings, Ratings | None]:
    """Training ratings, and test ratings where there are any: each user's latest, or a share of
    which one rating of each user is never a part. By a hash, so the same in any partition."""
    number = hash_cells(ratings, key)
    if share is None:
        latest = () if ratings.times is None else (-ratings.times,)
        held = rank_within_user(ratings, number, *latest) == 0
        held &= np.diff(ratings.indptr)[ratings.users] > 1
    else:
        held = (number < share * 2.0**64) & (rank_within_user(ratings, ~number) > 0)
    return ratings.select(~held), ratings.select(held) if held.any() else None


def summarise_content(ratings: Ratings | None) -> tuple[int, Any]:
    """How many ratings, and a sum over them that tells other ratings apart."""
    if ratings is None:
        return 0, np.zeros(1, dtype=np.uint64)
    marks = hash_cells(ratings, 0) * ratings.values.view(np.uint64) + hash_cells(ratings, 1)
    return len(ratings), marks.sum(keepdims=True)


def sum_test_measures(
    both: tuple[Any, tuple[Ratings, Ratings | None]],
    task: Task,
    function: Callable[..., Any],
    state: tuple[Any, ...],
) -> tuple[float, int]:
    """The sum of the measures of the test ratings that have one, and how many these are."""
    part, (train, test) = both
    if test is None:
        return 0.0, 0
    found = score_test_ratings(task, function(part, *state), train, test)
    there = ~np.isnan(found)
    return float(found[there].sum()), int(there.sum())


def apply_function(part: Any, sent: tuple[Callable[..., Any], tuple[Any, ...]]) -> Any:
    """What a function gives; sent: the function and its further arguments."""
    return sent[0](part, *sent[1])


def add_results(one: Any, *other: Any) -> Any:
    """A sum of arrays or numbers, or of tuples of them."""
    if isinstance(one, tuple):
        return tuple(map(add_results, one, *other))
    return sum(other, one)


def pair_partitions(*both: Any) -> tuple[Any, ...]:
    """What two partitions hold of the same users."""
    return both
