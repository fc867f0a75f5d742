"""Splits into training and test ratings over one shared index space.

Public facts pass to both sides unchanged. Official folds need no function here: load their two
files with `datasets.read_pair`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpmc_core.data.datasets import Dataset
from dpmc_core.data.transforms import Binarise, Implicit, Transform, apply_steps, place_in_row
from dpmc_core.errors import BadRatings, InvalidSetting, check_number, exact
from dpmc_core.model import Factors, Task
from dpmc_core.ratings import Ratings


def random_share(
    ratings: Ratings, share: float, rng: np.random.Generator
) -> tuple[Ratings, Ratings]:
    """Hold out round(share n_obs) ratings chosen uniformly; both sides keep at least one."""
    check_number("share of test ratings", share, above=0, below=1)
    total = len(ratings)
    if total < 2:
        raise BadRatings("a split needs at least 2 ratings, got 1")
    count = min(max(round(share * total), 1), total - 1)
    held = np.zeros(total, dtype=bool)
    held[rng.choice(total, size=count, replace=False)] = True
    return _split(ratings, held)


def per_user_share(
    ratings: Ratings, share: float, rng: np.random.Generator
) -> tuple[Ratings, Ratings]:
    """Hold out a share of every user's ratings, chosen uniformly; one always stays in training.

    A user of n ratings loses floor(share n + U), U uniform on [0, 1): share n on average, also for
    users with few ratings.
    """
    check_number("share of test ratings", share, above=0, below=1)
    counts = np.diff(ratings.indptr)
    quota = np.floor(share * counts + rng.random(len(counts))).astype(np.int64)
    quota = np.minimum(quota, counts - 1)
    return _split(ratings, place_in_row(ratings, rng.random(len(ratings))) < quota[ratings.users])


def leave_last_out(ratings: Ratings, rng: np.random.Generator) -> tuple[Ratings, Ratings]:
    """Hold out each user's latest rating (ties in time, or no times at all: a random one).

    A user with a single rating keeps it in training.
    """
    tie = rng.random(len(ratings))
    latest_first = () if ratings.times is None else (-ratings.times,)
    newest = place_in_row(ratings, tie, *latest_first) == 0
    return _split(ratings, newest & (np.diff(ratings.indptr)[ratings.users] > 1))


def _split(ratings: Ratings, held: NDArray[np.bool_]) -> tuple[Ratings, Ratings]:
    if not held.any():
        raise BadRatings("no user has a second rating to hold out, so there is nothing to test on")
    return ratings.select(~held), ratings.select(held)


class Split(Protocol):
    """How ratings are held out; `str(split)` completes 'tested on ...'.

    The split is drawn by these words, so two shares must not read alike.
    """

    def __call__(self, ratings: Ratings, rng: np.random.Generator) -> tuple[Ratings, Ratings]:
        """(train, test) over the same index space."""
        ...


@dataclass(frozen=True)
class RandomShare:
    """A random share of all ratings, in 0..1."""

    share: float = 0.2

    def __str__(self) -> str:
        return f"a random {exact(self.share)} of the ratings"

    def __call__(self, ratings: Ratings, rng: np.random.Generator) -> tuple[Ratings, Ratings]:
        return random_share(ratings, self.share, rng)


@dataclass(frozen=True)
class SharePerUser:
    """A random share of every user's ratings, in 0..1."""

    share: float = 0.2

    def __str__(self) -> str:
        return f"a random {exact(self.share)} of every user's ratings"

    def __call__(self, ratings: Ratings, rng: np.random.Generator) -> tuple[Ratings, Ratings]:
        return per_user_share(ratings, self.share, rng)


@dataclass(frozen=True)
class LeaveLast:
    """The latest rating of every user."""

    def __str__(self) -> str:
        return "the latest rating of every user"

    def __call__(self, ratings: Ratings, rng: np.random.Generator) -> tuple[Ratings, Ratings]:
        return leave_last_out(ratings, rng)


@dataclass(frozen=True, eq=False)
class Problem:
    """Prepared training and test ratings over one index space.

    truth: the matrix behind generated ratings, where it is known and still in their units.
    steps: the preparation as command-line text; split: what the test ratings are, in words.
    """

    train: Ratings
    test: Ratings
    name: str
    steps: tuple[str, ...]
    split: str
    truth: Factors | None = None


def build_problem(
    data: Dataset | tuple[Ratings, Ratings],
    task: Task,
    *,
    steps: Sequence[Transform] = (),
    split: Split | None = None,
    seed: int = 0,
    name: str = "",
) -> Problem:
    """Split a data set, or take an official pair, and prepare it.

    The default split is a random fifth, for RANKING the latest rating of every user. Steps are
    learnt on the training ratings and applied to both. For BINARY, ratings that are not yet -1/+1
    are at last cut at the training mean; for RANKING, all ratings count as interactions. Raises
    BadRatings where a rating is to be predicted and all are the same.
    """
    check_number("seed", seed, at_least=0, integer=True)
    truth = None
    if isinstance(data, tuple):
        if split is not None:
            raise InvalidSetting("split", "left out where the test ratings are given", str(split))
        train, test = data
        words = "the given test ratings"
    else:
        split = split or default_split(task)
        key = f"split {split} of {data.ratings.fingerprint}"
        train, test = split(data.ratings, generator(seed, key))
        words, name, truth = str(split), name or data.name, data.truth
    check_varied(task, train)
    before = train.public
    chosen = list(steps)
    train, prepared_test = apply_steps(chosen, train, test)
    needed = _needed(task, train)
    if needed is not None:
        chosen.append(needed)
        train, prepared_test = apply_steps(chosen[-1:], train, prepared_test)
    assert prepared_test is not None  # a test set went in
    same_units = train.shape == before.shape and (train.public.low, train.public.high) == (
        before.low,
        before.high,
    )
    return Problem(
        train=train,
        test=prepared_test,
        name=name,
        steps=tuple(str(step) for step in chosen),
        split=words,
        truth=truth if same_units else None,
    )


def check_varied(task: Task, train: Ratings) -> None:
    """Clicks and the like can only be ranked: whoever says their one value is always right.

    Not asked of what is released: to refuse would be to tell something of the ratings.
    """
    if task is not Task.RANKING and len(train) and bool((train.values == train.values[0]).all()):
        raise BadRatings(
            f"every rating to learn from is {train.values[0]:g}, so there is nothing to"
            " predict: use a mechanism that predicts rankings (dpmc list names them)"
        )


def prepare_all(
    ratings: Ratings, task: Task, steps: Sequence[Transform] = ()
) -> tuple[Ratings, tuple[str, ...]]:
    """All ratings, none held out, prepared as `build_problem` prepares them; and the steps."""
    chosen = list(steps)
    ratings, _ = apply_steps(chosen, ratings)
    needed = _needed(task, ratings)
    if needed is not None:
        chosen.append(needed)
        ratings, _ = apply_steps(chosen[-1:], ratings)
    return ratings, tuple(str(step) for step in chosen)


def default_split(task: Task) -> Split:
    """What is held out where nobody says: clicks come in time, ratings at any time."""
    return LeaveLast() if task is Task.RANKING else RandomShare()


def split_words(split: str) -> str:
    """A split for people: 'a random 20 % of the ratings' where its name says 0.2."""
    return re.sub(
        r"^a random ([\d.e-]+) of", lambda found: f"a random {100 * float(found[1]):g} % of", split
    )


def generator(seed: int, key: str) -> np.random.Generator:
    """The generator of one unit of work: seed and key decide, nothing else does."""
    digest = hashlib.sha256(key.encode()).digest()
    return np.random.default_rng(
        np.random.SeedSequence([seed, int.from_bytes(digest[:16], "little")])
    )


def _needed(task: Task, train: Ratings) -> Transform | None:
    """The step that a task cannot do without, where the ratings do not have its form yet."""
    if task is Task.BINARY and not _are_signs(train):
        return Binarise()
    if task is Task.RANKING and not (train.values == 1.0).all():
        return Implicit()
    return None


def _are_signs(ratings: Ratings) -> bool:
    range_is_signed = (ratings.public.low, ratings.public.high) == (-1, 1)
    return range_is_signed and bool((np.abs(ratings.values) == 1).all())
