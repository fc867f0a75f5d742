"""One fit on users in partitions: what is trained and tested on, and what is done in a partition.

What is done with all partitions is a sum over users, see `ratings.Here`. Each function of one
partition is a function of its arguments alone: a second time it gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpmc_core.arrays import Floats, Ints, Rng
from dpmc_core.data import Implicit, ReadOptions
from dpmc_core.data.reading import clean, read_table
from dpmc_core.data.source import Source
from dpmc_core.errors import BadRatings, DpmcError, check_number, number_text
from dpmc_core.metrics import counted, each
from dpmc_core.model import Model, Task
from dpmc_core.problem import (
    Problem,
    RandomShare,
    Split,
    default_split,
    generator,
    prepare_all,
)
from dpmc_core.ratings import ColumnRoles, PublicFacts, Ratings, hashes, place_in_row
from dpmc_lab.store import digest


@dataclass(frozen=True, eq=False)
class PartsModel:
    """A model of which each partition has that of its users: function(partition, *state)."""

    parts: Any
    function: Callable[..., Model]
    state: tuple[Any, ...]
    factors: ClassVar[None] = None

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:  # noqa: ARG002
        raise DpmcError("what is predicted for users stays with their partition")


class PartsProblem(Problem):
    """Training and test ratings of users in partitions, measured where they are."""

    def check(self, task: Task) -> None:
        pass

    def evaluate(self, task: Task, model: Any, rng: Rng) -> dict[str, float]:  # noqa: ARG002
        test: Any = self.test
        errors, count = model.parts.beside(test).total(measured, task, model.function, model.state)
        if not count:
            raise BadRatings(
                "no rating is held out that could be tested on: hold out a larger share"
            )
        metric, mean = counted(task), errors / count
        return {metric.name: float(np.sqrt(mean) if metric.lower else mean)}


def problem(whole: Any, name: str, task: Task, split: Split | None, seed: int) -> PartsProblem:
    """All ratings, split into those to train and those to test on. Raises InvalidSetting."""
    chosen = split or default_split(task)
    share, words = None, f"{chosen}, without times a random one"
    if isinstance(chosen, RandomShare):
        share, words = chosen.share, f"a random {number_text(chosen.share)} of every user's ratings"
        check_number("share of test ratings", share, above=0, below=1)
    key = int(generator(seed, f"split {words} of {whole.fingerprint}").integers(2**63))
    both = whole.map(split_ratings, share, key)
    train, test = (with_count(both.map(itemgetter(k))) for k in (0, 1))
    ratings: Any = train
    held: Any = replace(both, count=test.count)
    steps = (str(Implicit()),) if task is Task.RANKING else ()
    return PartsProblem(ratings, held, name, steps, words)


def with_count(parts: Any) -> Any:
    """With how many ratings there are, and their fingerprint."""
    count, content = parts.total(content_of)
    mark = digest("partitions", parts.public.as_dict(), int(content[0]))[:16]
    return replace(parts, count=count, fingerprint=mark)


# --- what is done in one partition ---------------------------------------------------------------


def apply(part: Any, sent: tuple[Callable[..., Any], tuple[Any, ...]]) -> Any:
    """What a function gives; sent: the function and its further arguments."""
    return sent[0](part, *sent[1])


def added(one: Any, *other: Any) -> Any:
    """A sum of arrays or numbers, or of tuples of them."""
    if isinstance(one, tuple):
        return tuple(map(added, one, *other))
    return sum(other, one)


def pair(*both: Any) -> tuple[Any, ...]:
    """What two partitions hold of the same users."""
    return both


def stamp(path: Path) -> tuple[int, int]:
    """What changes where a file is written anew."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def read_file(path: str, options: ReadOptions, seen: tuple[int, int]) -> Ratings:
    """The ratings of a file. Raises BadRatings where its stamp is no more the one that was seen."""
    if Path(path).is_file() and stamp(Path(path)) != seen:  # read again, in the middle of a fit
        raise BadRatings(f"{Path(path).name} has changed while it was used: run the command again")
    return clean(options, read_table(Source.file(path), options))[0][0]


def catalogue(ratings: Ratings) -> tuple[Sequence[str], Sequence[str], PublicFacts, ColumnRoles]:
    """The ids of users and items, public facts and what each column was."""
    return ratings.user_ids or (), ratings.item_ids or (), ratings.public, ratings.columns


def placed(ratings: Ratings, places: Ints, items: Ints, count: int, task: Task) -> Ratings:
    """A file's ratings over the items of all; places: of its users among all."""
    public = replace(ratings.public, items=count)
    cells = ratings.users, items[ratings.items], ratings.values
    return prepare_all(Ratings.build(*cells, public, times=ratings.times, places=places), task)[0]


def split_ratings(
    ratings: Ratings, share: float | None, key: int
) -> tuple[Ratings, Ratings | None]:
    """Training ratings, and test ratings where there are any: each user's latest, or a share of
    which one rating of each user is never a part. By a hash, so the same in any partition."""
    number = hashes(ratings, key)
    if share is None:
        latest = () if ratings.times is None else (-ratings.times,)
        held = place_in_row(ratings, number, *latest) == 0
        held &= np.diff(ratings.indptr)[ratings.users] > 1
    else:
        held = (number < share * 2.0**64) & (place_in_row(ratings, ~number) > 0)
    return ratings.select(~held), ratings.select(held) if held.any() else None


def content_of(ratings: Ratings | None) -> tuple[int, Any]:
    """How many ratings, and a sum over them that tells other ratings apart."""
    if ratings is None:
        return 0, np.zeros(1, dtype=np.uint64)
    marks = hashes(ratings, 0) * ratings.values.view(np.uint64) + hashes(ratings, 1)
    return len(ratings), marks.sum(keepdims=True)


def measured(
    both: tuple[Any, tuple[Ratings, Ratings | None]],
    task: Task,
    function: Callable[..., Model],
    state: tuple[Any, ...],
) -> tuple[float, int]:
    """The sum of the measures of the test ratings that have one, and how many these are."""
    part, (train, test) = both
    if test is None:
        return 0.0, 0
    found = each(task, function(part, *state), train, test)
    there = ~np.isnan(found)
    return float(found[there].sum()), int(there.sum())
