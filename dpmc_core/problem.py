"""Splits into training and test ratings over one shared index space.

Public facts pass to both sides unchanged. Official folds need no split: load their two files with
`data.read_pair`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np

from dpmc_core.arrays import Bools, Rng
from dpmc_core.dataset import Dataset
from dpmc_core.errors import BadRatings, InvalidSetting, check_number, check_type, format_number
from dpmc_core.metrics import check_measurable, evaluate
from dpmc_core.model import Factors, Model, Task
from dpmc_core.preparation import Binarise, Implicit, Transform, apply_steps, parse_step
from dpmc_core.ratings import PublicFacts, Ratings, rank_within_user
from dpmc_core.stopping import check_cancelled

# The steps that bring ratings into the form that a task needs.
_TASK_STEPS: Mapping[Task, tuple[Transform, ...]] = {
    Task.BINARY: (Binarise(),),
    Task.RATINGS: (),
    Task.RANKING: (Implicit(),),
}
OFFICIAL_SPLIT = "the given test ratings"  # `Problem.split` of an official pair


def _split_ratings(ratings: Ratings, is_held_out: Bools) -> tuple[Ratings, Ratings]:
    """Return (training, test) ratings; raise BadRatings if nothing is held out."""
    if not is_held_out.any():
        raise BadRatings("no user has a second rating to hold out, so there is nothing to test on")
    return ratings.select(~is_held_out), ratings.select(is_held_out)


@dataclass(frozen=True)
class RandomShare:
    """A split that holds out round(share n_obs) ratings at random; both sides keep at least one.

    Attributes:
        share: share of the ratings that are held out, in 0..1.
        population: what the share is a share of, in its description.
    """

    share: float = 0.2
    population: ClassVar[str] = "the ratings"

    def __str__(self) -> str:
        return f"a random {format_number(self.share)} of {self.population}"

    def describe(self, ratings: Ratings) -> str:  # noqa: ARG002
        """Return a description that completes 'tested on ...'."""
        return str(self)

    def __call__(self, ratings: Ratings, rng: Rng) -> tuple[Ratings, Ratings]:
        """Split ratings.

        Args:
            ratings: the ratings to split.
            rng: draws the ratings that are held out.

        Returns:
            Training and test ratings.

        Raises:
            BadRatings: if there is nothing to hold out.
        """
        check_number("share of test ratings", self.share, above=0, below=1)
        return _split_ratings(ratings, self._draw_held_out(ratings, rng))

    def _draw_held_out(self, ratings: Ratings, rng: Rng) -> Bools:
        """Draw which ratings are held out, a mask of shape (n_obs,)."""
        total = len(ratings)
        if total < 2:
            raise BadRatings("a split needs at least 2 ratings, got 1")
        count = min(max(round(self.share * total), 1), total - 1)
        is_held_out = np.zeros(total, dtype=bool)
        is_held_out[rng.choice(total, size=count, replace=False)] = True
        return is_held_out


@dataclass(frozen=True)
class SharePerUser(RandomShare):
    """A split that holds out a share of every user's ratings; one always stays in training.

    A user with n ratings loses floor(share n + U) of them, chosen uniformly, with U uniform on [0,
    1): share n on average, also for users with few ratings.
    """

    population: ClassVar[str] = "every user's ratings"

    def _draw_held_out(self, ratings: Ratings, rng: Rng) -> Bools:
        """Draw which ratings are held out, a mask of shape (n_obs,)."""
        counts = np.diff(ratings.indptr)
        quota = np.floor(self.share * counts + rng.random(len(counts))).astype(np.int64)
        quota = np.minimum(quota, counts - 1)
        return rank_within_user(ratings, rng.random(len(ratings))) < quota[ratings.users]


@dataclass(frozen=True)
class LeaveLast:
    """A split that holds out each user's latest rating; ties, or ratings without times, at random.

    A user with a single rating keeps it in training.
    """

    def __str__(self) -> str:
        return "the latest rating of every user"

    def describe(self, ratings: Ratings) -> str:
        """Return a description that completes 'tested on ...' for these ratings.

        Without times, or if they order nobody's ratings, the split is described as a random draw.
        """
        same_user = np.diff(ratings.users) == 0
        timed = ratings.times is not None and (np.diff(ratings.times)[same_user] != 0).any()
        label = "the latest rating" if timed else "one random rating"
        has_single_ratings = (np.diff(ratings.indptr) == 1).any()  # those stay in training
        return f"{label} of every user{' with two or more' if has_single_ratings else ''}"

    def __call__(self, ratings: Ratings, rng: Rng) -> tuple[Ratings, Ratings]:
        """Split ratings.

        Args:
            ratings: the ratings to split.
            rng: draws among ratings of one user with the same time.

        Returns:
            Training and test ratings.

        Raises:
            BadRatings: if no user has a second rating.
        """
        tie_break = rng.random(len(ratings))
        latest_first = () if ratings.times is None else (-ratings.times,)
        is_latest = rank_within_user(ratings, tie_break, *latest_first) == 0
        return _split_ratings(ratings, is_latest & (np.diff(ratings.indptr)[ratings.users] > 1))


# How ratings are held out: split(ratings, rng) returns (train, test) over the same index space.
# `str(split)` names the split, and this name seeds its draws.
Split: TypeAlias = RandomShare | LeaveLast


@dataclass(frozen=True, eq=False)
class Problem:
    """Prepared training and test ratings over one index space.

    Attributes:
        train: training ratings, of shape (n_users, n_items).
        test: test ratings, of the same shape.
        name: the name of the data set.
        steps: the preparation steps as texts.
        split: what the test ratings are, as `Split.describe` returns it.
        truth: factors of the matrix behind generated ratings; None if it is unknown or the
            preparation changed the unit of the ratings.
    """

    train: Ratings
    test: Ratings
    name: str
    steps: tuple[str, ...]
    split: str
    truth: Factors | None = None

    def check(self, task: Task) -> None:
        """Check that the metrics of a task can be measured.

        Raises:
            BadRatings: if no model could be measured.
        """
        check_measurable(task, self.train, self.test)

    def evaluate(self, task: Task, model: Model, rng: Rng) -> dict[str, float]:
        """Compute the task's metrics on the test ratings.

        Args:
            task: what the model predicts.
            model: the model to evaluate.
            rng: draws the ranking candidates.
        """
        return evaluate(task, model, self.train, self.test, rng)

    def sample_users(self, max_ratings: float, rng: Rng) -> Problem:
        """Return the problem of random users with about `max_ratings` training ratings in all.

        Args:
            max_ratings: how many training ratings suffice; the last user drawn may exceed it.
            rng: draws the users.
        """
        counts = np.diff(self.train.indptr)
        order = rng.permutation(len(counts))
        drawn = np.sort(order[np.cumsum(counts[order]) - counts[order] < max_ratings])
        positions = np.full(len(counts), -1, dtype=np.int32)
        positions[drawn] = np.arange(len(drawn))
        truth = self.truth
        return replace(
            self,
            train=self.train.select_users(positions),
            test=self.test.select_users(positions),
            truth=truth and Factors(truth.left[drawn], truth.right),
        )


def build_problem(
    data: Dataset | Ratings | tuple[Ratings, Ratings],
    task: Task,
    *,
    steps: Sequence[Transform | str] = (),
    split: Split | None = None,
    seed: int = 0,
    name: str = "",
) -> Problem:
    """Split a data set, or take an official pair, and prepare both sides.

    Steps are learnt on the training ratings and applied to both sides. For BINARY, ratings that are
    not yet -1/+1 are finally cut at the middle of their public range; for RANKING, all ratings
    count as interactions.

    >>> import dpmc_core as dpmc
    >>> problem = build_problem(dpmc.load("restaurants"), Task.RATINGS, split=RandomShare(0.5))
    >>> problem.split
    'a random 0.5 of the ratings'

    Args:
        data: a data set, its ratings, or a pair (training, test).
        task: what is to be predicted.
        steps: the preparation steps, or their texts as on the command line, such as "cap=20".
        split: how ratings are held out. The default is a random fifth; for RANKING it is the latest
            rating of every user, or a random one without times.
        seed: decides the split.
        name: replaces the name of the data set.

    Raises:
        BadRatings: if ratings are to be predicted and all of them are equal.
        InvalidSetting: if a step or the split is none, or a split is given for an official pair.
    """
    check_number("seed", seed, at_least=0, integer=True)
    check_type("the name of a problem", name, str, "give a text")
    task, truth = Task(task if isinstance(task, Task) else str(task)), None
    step_list = [steps] if isinstance(steps, str) or not isinstance(steps, Iterable) else steps
    transforms = [s if isinstance(s, Transform) else parse_step(str(s)) for s in step_list]
    if not isinstance(split, Split | None):
        raise InvalidSetting("split", "a RandomShare, SharePerUser or LeaveLast", split)
    if isinstance(data, tuple) and len(data) == 2:
        if split is not None:
            raise InvalidSetting("split", "left out where the test ratings are given", str(split))
        train, test = (Dataset(ratings, name).ratings for ratings in data)
        split_label = OFFICIAL_SPLIT
    else:
        data = data if isinstance(data, Dataset) else Dataset(data, "ratings")
        split = split or choose_default_split(task)
        key = f"split {split} of {data.ratings.fingerprint}"
        check_cancelled()
        train, test = split(data.ratings, create_generator(seed, key))
        check_cancelled()
        split_label = split.describe(data.ratings)
        name = name or data.name
        truth = data.truth
    check_varied(task, train)
    initial_public = train.public
    train, prepared_test, step_texts = _prepare_ratings(task, transforms, train, test)
    assert prepared_test is not None  # because a test set was passed
    public = train.public
    same_range = (public.low, public.high) == (initial_public.low, initial_public.high)
    is_comparable = same_range and public.shape == initial_public.shape
    return Problem(
        train=train,
        test=prepared_test,
        name=name,
        steps=step_texts,
        split=split_label,
        truth=truth if is_comparable else None,
    )


def check_varied(task: Task, train: Ratings) -> None:
    """Check that training ratings are not all equal, unless they are to be ranked.

    If all ratings have one value, as clicks do, predicting that value is always right. The check is
    not made for what is released, because a refusal would reveal something about the ratings.

    Raises:
        BadRatings: if the task is not ranking and all ratings are equal.
    """
    if task is not Task.RANKING and len(train) and (train.values == train.values[0]).all():
        raise BadRatings(
            f"every rating to learn from is {train.values[0]:g}, so there is nothing to"
            " predict: predict top lists instead (ranking), from who rated what"
        )


def prepare_all_ratings(
    ratings: Ratings, task: Task, steps: Sequence[Transform] = ()
) -> tuple[Ratings, tuple[str, ...]]:
    """Prepare all ratings as `build_problem` does, but hold none out.

    The public facts and the steps of the result do not depend on whether the ratings already had
    the form that the task needs, because the step for it is always applied; ratings that have the
    form keep their values.

    Returns:
        The prepared ratings, and all steps as texts.
    """
    prepared, _, _ = _prepare_ratings(task, steps, ratings)
    task_steps = _TASK_STEPS[task]
    if task is Task.RANKING:  # the step also changes the public range, to 0..1
        prepared, _ = apply_steps(task_steps, prepared)
    has_task_step = task_steps and steps and isinstance(steps[-1], type(task_steps[0]))
    if not has_task_step:
        steps = [*steps, *task_steps]
    return prepared, tuple(str(step) for step in steps)


def prepare_public_facts(
    public: PublicFacts, task: Task, steps: Sequence[Transform] = ()
) -> PublicFacts:
    """Return public facts after the steps and those that the task needs, as in `build_problem`.

    No rating is read. So for RANKING the range is always 0..1, although `build_problem` keeps the
    range of ratings that are all 1.
    """
    for step in (*steps, *_TASK_STEPS[task]):
        public = step.transform_facts(public)
    return public


def _prepare_ratings(
    task: Task, steps: Sequence[Transform], train: Ratings, test: Ratings | None = None
) -> tuple[Ratings, Ratings | None, tuple[str, ...]]:
    """Apply the steps, and then the step that the task needs unless the ratings have its form.

    Args:
        task: what is to be predicted.
        steps: the preparation steps.
        train: training ratings, from which steps learn.
        test: test ratings; None without any.

    Returns:
        Prepared training and test ratings, and all steps as texts.
    """
    steps = [step.for_ratings(train) for step in steps]
    train, test = apply_steps(steps, train, test)
    if task is Task.RANKING:
        is_prepared = train.has_only_clicks
    else:
        is_signed = (train.public.low, train.public.high) == (-1, 1)
        is_prepared = is_signed and (abs(train.values) == 1).all()
    task_steps = () if is_prepared else _TASK_STEPS[task]
    train, test = apply_steps(task_steps, train, test)
    return train, test, tuple(str(step) for step in [*steps, *task_steps])


def choose_default_split(task: Task) -> Split:
    """Return the default split of a task: clicks come in order of time, ratings at any time."""
    return LeaveLast() if task is Task.RANKING else RandomShare()


def choose_default_task(ratings: Ratings) -> Task:
    """Return the default task of ratings: ranking for clicks, else predicting ratings."""
    return Task.RANKING if ratings.has_only_clicks else Task.RATINGS


def create_generator(seed: int, key: str) -> Rng:
    """Create the random generator of one unit of work; only the seed and the key determine it."""
    digest = hashlib.sha256(key.encode()).digest()
    return np.random.default_rng(
        np.random.SeedSequence([seed, int.from_bytes(digest[:16], "little")])
    )
