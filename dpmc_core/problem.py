"""A problem: ratings split into training and test ratings and prepared for a task.

Randomness is shared where it should be and nowhere else. A split depends on the data, the kind of
split and the seed, so all mechanisms of a comparison meet the same ratings. Each unit of work has
its own `generator(seed, key)`, so a result does not depend on the order or the process of runs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpmc_core import splits
from dpmc_core.datasets import Dataset
from dpmc_core.errors import BadRatings, InvalidSetting, check_number
from dpmc_core.model import Factors, Task
from dpmc_core.ratings import Ratings
from dpmc_core.transforms import Binarise, Implicit, Transform, apply_steps


class Split(Protocol):
    """How ratings are held out; `str(split)` completes 'tested on ...'."""

    def __call__(self, ratings: Ratings, rng: np.random.Generator) -> tuple[Ratings, Ratings]:
        """(train, test) over the same index space."""
        ...


@dataclass(frozen=True)
class RandomShare:
    """A random share of all ratings, in 0..1."""

    share: float = 0.2

    def __str__(self) -> str:
        return f"a random {_text(self.share)} of the ratings"

    def __call__(self, ratings: Ratings, rng: np.random.Generator) -> tuple[Ratings, Ratings]:
        return splits.random_share(ratings, self.share, rng)


@dataclass(frozen=True)
class SharePerUser:
    """A random share of every user's ratings, in 0..1."""

    share: float = 0.2

    def __str__(self) -> str:
        return f"a random {_text(self.share)} of every user's ratings"

    def __call__(self, ratings: Ratings, rng: np.random.Generator) -> tuple[Ratings, Ratings]:
        return splits.per_user_share(ratings, self.share, rng)


@dataclass(frozen=True)
class LeaveLast:
    """The latest rating of every user."""

    def __str__(self) -> str:
        return "the latest rating of every user"

    def __call__(self, ratings: Ratings, rng: np.random.Generator) -> tuple[Ratings, Ratings]:
        return splits.leave_last_out(ratings, rng)


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


def _text(share: float) -> str:
    short = f"{share:g}"  # two shares must not read alike: the split is drawn by these words
    return short if float(short) == share else repr(share)


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
