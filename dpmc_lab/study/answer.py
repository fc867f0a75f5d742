"""Compute what privacy costs on the user's ratings: affordable, not affordable, or unclear.

An inquiry fixes what is protected and how much may be lost. The recommended mechanism at the
requested epsilon is compared with the private baseline and the nonprivate reference, all on the
same splits and seeds. The scores of every user are kept, so that losses are compared user by user.
All of this reads raw held-out ratings: it is for evaluation only, and not private.
"""

from __future__ import annotations

import csv
import enum
import math
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np

from dpmc_core import metrics, registry
from dpmc_core.arrays import Floats, Rng
from dpmc_core.dataset import Dataset
from dpmc_core.errors import DpmcError, InvalidSetting, check_number, format_number
from dpmc_core.experiment import Result, collect_publications
from dpmc_core.mechanisms.private_effects import PrivateEffects
from dpmc_core.metrics import Metric
from dpmc_core.model import Mechanism, Steps, Task
from dpmc_core.preparation import UseItemFeatures
from dpmc_core.privacy import (
    DEFAULT_DELTA,
    USER_REPLACED,
    Budget,
    Certified,
    Change,
    Guarantee,
    LocalChannel,
    RandomizedResponse,
)
from dpmc_core.problem import (
    OFFICIAL_SPLIT,
    Split,
    build_problem,
    prepare_all_ratings,
    prepare_public_facts,
)
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import mechanism, setting
from dpmc_core.solvers.streams import EarlierRelease
from dpmc_core.stopping import StopCheck, Stopped, check_cancelled, stop_when
from dpmc_data import archives
from dpmc_data.paths import check_new_file, write_atomically
from dpmc_lab.store import Record, Store
from dpmc_lab.study.advice import Advice, PrivacyUnit, calibrate_mechanism, recommend_method
from dpmc_lab.study.paired import IntervalEstimate, PairedMetrics
from dpmc_lab.study.release import compute_decay
from dpmc_lab.sweep import Grid, LocalPool, SweepData, Unit, format_seeds, run_unit_locally
from dpmc_lab.sweep.engine import POLL_SECONDS
from dpmc_lab.sweep.grid import format_command_options
from dpmc_lab.sweep.presets import EPSILONS

SEEDS = (1, 2, 3, 4, 5)
N_CURVE_SEEDS = 3  # the first of them, over all epsilons
WEEKS = 52  # of a year
COARSE_EPSILONS = (1.0, 0.1, 10.0, 0.3, 3.0)  # of a first curve with one seed, in this order
MIN_NOISE_DEVIATIONS = 2.0  # a distinguishable count exceeds this many standard deviations of noise
FEW_RATINGS = 10  # a user with fewer ratings counts as one who gave few
N_HEAD_ITEMS = 100  # how many items count as the most rated, unless there are few items
_MIN_GROUP_SHARE = 0.05  # of the held-out ratings; smaller groups are too small to compare
_N_GROUPS = 2  # comparisons made on the same runs: users with few ratings, and less rated items


class BudgetPeriod(enum.Enum):
    """What a budget pays for: all publications of a year, or each of them."""

    YEAR = "year"
    PUBLICATION = "publication"


@dataclass(frozen=True, kw_only=True)
class Inquiry:
    """A question: is privacy of this kind affordable on the user's ratings?

    Attributes:
        task: what is predicted.
        privacy_unit: what is protected.
        epsilon, delta: the requested budget.
        times: number of publications in a year.
        per: what the budget pays for.
        keep: share of the gain from personalisation that must be left, in 0..1.
        reference: what the user's own model without privacy reaches, as values of `metric`: one for
            each seed's split, or one for all; empty to run the nonprivate reference of the task.
        with_item_features: whether public item features are used.
    """

    task: Task
    privacy_unit: PrivacyUnit = PrivacyUnit.PERSON
    epsilon: float = 1.0
    delta: float = DEFAULT_DELTA
    times: int = 1
    per: BudgetPeriod = BudgetPeriod.YEAR
    keep: float = 0.8
    reference: tuple[float, ...] = ()
    with_item_features: bool = False

    def __post_init__(self) -> None:
        check_number("epsilon", self.epsilon, above=0)
        check_number("delta", self.delta, above=0, below=1)
        check_number("times a year", self.times, at_least=1, at_most=100_000, integer=True)
        check_number("share of the gain to keep", self.keep, above=0, at_most=1)
        for value in self.reference:
            upper_limit = 1 if self.metric.is_share else None
            check_number(self._reference_label, value, at_least=0, at_most=upper_limit)

    @property
    def n_composed(self) -> int:
        """Return how many publications share the budget."""
        return self.times if self.per is BudgetPeriod.YEAR else 1

    @property
    def metric(self) -> Metric:
        """Return the task's metric to which each held-out rating contributes on its own."""
        return metrics.choose_headline_metric(self.task)

    @property
    def _reference_label(self) -> str:
        """Return what errors call the user's own reference."""
        return f"reference ({self.metric.label})"

    @property
    def change(self) -> Change:
        """Return how neighbouring data sets differ: the change that epsilon protects."""
        return self.privacy_unit.change(self.task)

    def prepare_public_facts(self, public: PublicFacts) -> PublicFacts:
        """Return the public facts that ratings with these facts have once they are prepared."""
        return prepare_public_facts(
            public, self.task, [UseItemFeatures()] * self.with_item_features
        )

    def find_advice(self, public: PublicFacts) -> Advice:
        """Return the recommended mechanism, at the setting that the budget leaves each time.

        Args:
            public: public facts of the ratings before preparation.

        Raises:
            InvalidSetting: if no mechanism can be proved to keep the requested budget, or if the
                user's own model (`reference`) has an error wider than the range of ratings.
        """
        prepared = self.prepare_public_facts(public)
        if max(self.reference, default=0.0) > prepared.width:
            limit = f"at most {prepared.width:g}, the width of the rating range"
            raise InvalidSetting(self._reference_label, limit, max(self.reference))
        return recommend_method(
            self.task,
            self.change,
            prepared,
            epsilon=self.epsilon,
            delta=self.delta,
            trust=self.privacy_unit.trust,
            personal=True,
            times=self.n_composed,
        )

    def calibrate_curve(self, id: str, public: PublicFacts) -> dict[float, Mechanism]:
        """Return a mechanism at what each budget of the curve leaves each time.

        A budget for one publication is the setting itself, so that other pages share the runs.

        Args:
            id: of the mechanism.
            public: public facts of the ratings before preparation.
        """
        curve = {e: registry.create(id, epsilon=e, delta=self.delta) for e in EPSILONS}
        if self.n_composed == 1:
            return curve
        prepared = self.prepare_public_facts(public)
        return {
            epsilon: calibrate_mechanism(
                mechanism, prepared, Budget(epsilon, self.delta), self.change, self.n_composed
            )
            for epsilon, mechanism in curve.items()
        }

    def match_references(self, seeds: Sequence[int]) -> dict[int, float]:
        """Return the reference of each seed; empty without any.

        Raises:
            InvalidSetting: there are several values, but not one for each seed.
        """
        count = len(self.reference)
        if count > 1 and count != len(seeds):
            limit = f"one value, or one for each of the {len(seeds)} seeds in their order"
            raise InvalidSetting(self._reference_label, limit, f"{count} values")
        return dict(zip(seeds, self.reference * (1 if count > 1 else len(seeds)), strict=False))

    def build_grid(
        self,
        advice: Advice,
        data: str,
        *,
        split: Split | None = None,
        curve: Mapping[float, Mechanism] = MappingProxyType({}),
        seeds: Sequence[int] = SEEDS,
    ) -> Grid:
        """Build the grid of runs that answer the inquiry.

        Its rows serve the pages What if and Compare too.

        Args:
            advice: the recommended mechanism.
            data: the data set, as it is typed.
            split: how ratings are held out (default: as the task does it).
            curve: the mechanism at each budget of a curve; if empty, it runs as advised.
            seeds: of the splits and the noise.
        """
        method = advice.mechanism
        has_own_delta = self.delta != DEFAULT_DELTA and registry.has_setting(type(method), "delta")
        return Grid(
            [data],
            [method.id],
            [*map(read_epsilon, curve.values())] or [read_epsilon(method)],
            seeds=seeds,
            settings={"delta": [format_number(self.delta)]} if has_own_delta else {},
            steps=[str(UseItemFeatures())] * self.with_item_features,
            split=split,
        )


@mechanism
class AverageOfReleases(PrivateEffects):
    """The average of the statistics of several releases, drawn once with the noise that it has."""

    noise_factor: float = setting(1.0, "its noise over that of one release", above=0)

    def guarantee(self, public: PublicFacts) -> Guarantee[Any]:
        """Return the guarantee of the average: that of one release with its noise scaled."""
        ideal = super().guarantee(public)

        def scale_noise(release: Any) -> Any:
            """Return a release with the noise of the average."""
            return replace(release, scale=self.noise_factor * release.scale)

        return replace(ideal, releases=ideal.releases.map_releases(scale_noise))


@mechanism
class LaterPublication(PrivateEffects):
    """A publication that averages its statistics with those of all before it, of the same ratings.

    A sum of independent normal noise is normal, so the earlier releases are drawn as one: their
    weighted average, with the weights of `dpmc release --after`. Means and counts thus have the
    distribution that they have after all these releases. The residuals of early releases were about
    other effects, which costs them a little; here they are about those of the average.
    """

    publication: int = setting(2, "which publication it is, from 1", at_least=2)
    weeks: float = setting(1.0, "weeks from one publication to the next", above=0)

    def fit(self, ratings: Ratings, rng: Rng, earlier: Sequence[EarlierRelease] = ()) -> Steps:
        """Yield the steps of this publication after the average of the earlier ones is drawn."""
        weights = compute_decay(self.weeks * np.arange(1, self.publication))
        squares = float(weights @ weights)
        settings = {name: getattr(self, name) for name in ("epsilon", "delta", "rank", "rounds")}
        average = AverageOfReleases(noise_factor=math.sqrt(squares) / weights.sum(), **settings)
        *_, last = average.fit(ratings, rng)
        arrays = cast(Any, last.model).user_arrays
        rows = np.arange(ratings.public.items)
        # Its inverse variance times this decay is the sum of the weights of all that are in it.
        decay = squares / weights.sum()
        aligned = average.align_earlier(ratings.public, arrays, rows, decay)
        yield from super().fit(ratings, rng, [*earlier, aligned])


def add_later_publications(question: Inquiry, units: Sequence[Unit]) -> tuple[Unit, ...]:
    """Return units, then runs of later publications where a mechanism learns from earlier ones.

    Args:
        question: the inquiry.
        units: of `question.build_grid`.
    """
    later = [
        replace(
            unit,
            mechanism=LaterPublication(
                epsilon=unit.mechanism.epsilon,
                delta=unit.mechanism.delta,
                publication=publication,
                weeks=WEEKS / question.times,
            ),
        )
        for unit in units
        if isinstance(unit.mechanism, PrivateEffects)
        for publication in list_publications(question.times)[1:]
    ]
    return (*units, *later)


def list_publications(times: int) -> list[int]:
    """Return which publications of a year are run: the powers of four, and the last one."""
    powers = [4**k for k in range(times.bit_length()) if 4**k < times]
    return [*powers, times]


def weigh_publications(times: int) -> Floats:
    """Return the weights with which the publications that are run give the average of the year.

    Between them, squared errors are interpolated linearly in the logarithm of the number. On
    curves a + b / (n + c), that misses the average by at most 2 % of the range.
    """
    logs = np.log(np.arange(1, times + 1))
    points = np.log(list_publications(times))
    return np.array([np.interp(logs, points, row).mean() for row in np.eye(len(points))])


def select_coarse_units(
    units: Sequence[Unit], id: str, curve: Mapping[float, Mechanism]
) -> list[Unit]:
    """Return the private runs of the first seed at few epsilons, which make a first curve.

    Args:
        units: of a grid.
        id: of the mechanism that comes first; its private baselines follow.
        curve: the mechanism at each budget of the curve.
    """
    first = [
        unit
        for epsilon in (read_epsilon(curve[budget]) for budget in COARSE_EPSILONS)
        for unit in units
        if unit.seed == units[0].seed and unit.epsilon == epsilon
    ]
    return sorted(first, key=lambda unit: unit.mechanism.id != id)


def build_child_command(
    question: Inquiry, data: str, store: Path, *, curve: bool = True
) -> list[str]:
    """Return the command of a child process that answers an inquiry and stores the rows of runs.

    Args:
        question: the inquiry.
        data: the data set, as it is typed.
        store: path of the store.
        curve: whether other epsilons are run as well, for the curve.
    """
    arguments = [
        sys.executable,
        "-m",
        "dpmc_lab",
        *build_arguments(question, data),
        "--store",
        str(store),
    ]
    return [*arguments, *["--no-curve"] * (not curve), "--progress"]


def build_arguments(
    question: Inquiry,
    data: str,
    seeds: Sequence[int] = SEEDS,
    reading: Mapping[str, Any] | None = None,
    split: Split | None = None,
) -> list[str]:
    """Return the arguments of `dpmc` with everything that the verdict depends on.

    Args:
        question: the inquiry.
        data: the data set, as it is typed.
        seeds: seeds of the splits and the noise.
        reading: options of `data.load` for reading a file.
        split: how ratings are held out, if not as the task does it.
    """
    arguments = [
        "answer",
        data,
        "--protect",
        question.privacy_unit.value,
        "--task",
        question.task.value,
    ]
    arguments += [
        "--epsilon",
        format_number(question.epsilon),
        "--delta",
        format_number(question.delta),
    ]
    arguments += ["--often", str(question.times), "--keep", format_number(question.keep)]
    if question.per is not BudgetPeriod.YEAR:
        arguments += ["--per", question.per.value]
    if question.reference:
        arguments += ["--reference", ",".join(map(format_number, question.reference))]
    arguments += ["--seeds", format_seeds(seeds), *format_command_options(reading or {}, (), split)]
    return [*arguments, *["--facts"] * question.with_item_features]


def write_split_files(
    folder: Path, dataset: Dataset, task: Task, split: Split | None, seeds: Sequence[int]
) -> None:
    """Write train-SEED.csv and test-SEED.csv: what runs learn from and are measured on.

    Args:
        folder: where the files go, a new folder.
        dataset: the data set with the ids of its users and items.
        task: what is predicted. Clicks have the rating 1, likes and dislikes 1 and -1.
        split: how ratings are held out.
        seeds: of the splits.

    Raises:
        DpmcError: the folder exists already, or cannot be made there.
        OSError: a file cannot be written.
    """
    check_new_file(folder)
    folder.mkdir(mode=0o700)  # single ratings: for their owner alone
    for seed in seeds:
        problem = build_problem(dataset, task, split=split, seed=seed)
        _write_csv(folder / f"train-{seed}.csv", problem.train)
        _write_csv(folder / f"test-{seed}.csv", problem.test)


def _write_csv(path: Path, ratings: Ratings) -> None:
    """Write ratings with their ids, or with the numbers of users and items where they have none."""
    public = ratings.public
    users, items = ratings.user_ids or range(public.users), ratings.item_ids or range(public.items)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("user", "item", "rating"))
        columns = (ratings.users.tolist(), ratings.items.tolist(), ratings.values.tolist())
        for user, item, value in zip(*columns, strict=True):
            writer.writerow((users[user], items[item], format_number(value)))


class DistinguishableItems(NamedTuple):
    """How many items have a count that the noise does not hide.

    Attributes:
        n_distinguishable: number of items whose count clearly exceeds the noise.
        n_items: number of all items.
    """

    n_distinguishable: int
    n_items: int


def count_distinguishable_items(
    mechanism: Mechanism, ratings: Ratings
) -> DistinguishableItems | None:
    """Count the items whose count exceeds twice the standard deviation of the noise on it.

    The release is the first of the guarantee that has a number per item, or else the randomised
    reports, from which counts are estimated. For reports of signs, the count is the difference
    between likes and dislikes. No model is fitted. The function reads raw ratings, so the result is
    only for the owner of the data.

    Returns:
        None where nothing is released about items.
    """
    ratings, _ = prepare_all_ratings(ratings, mechanism.task)
    guarantee = mechanism.guarantee(ratings.public)
    items = ratings.public.items
    rated = np.bincount(ratings.items, minlength=items).astype(float)
    if (per_item := guarantee.per_item_release) is not None:
        counts = collect_publications(mechanism, ratings, {per_item.query})[-1].private
        return _count_above_noise(counts, per_item.std)
    for _, release in guarantee.releases:
        if isinstance(release, LocalChannel):
            if_missing = release.reported_if_missing
            if_rated = release.reported_if_rated
            return _count_above_noise(
                rated, _compute_count_std(ratings.public.users, if_missing, if_rated - if_missing)
            )
        if isinstance(release, RandomizedResponse) and len(release.channel) == 2:
            flip = release.channel[0][1]
            if release.is_matrix:
                return _count_above_noise(
                    rated, _compute_count_std(ratings.public.users, flip, 1 - 2 * flip)
                )
            balance = np.bincount(ratings.items, ratings.values, minlength=items)
            return _count_above_noise(
                np.abs(balance), 2 * _compute_count_std(rated, flip, 1 - 2 * flip)
            )
    return None


def _compute_count_std(n_reports: Floats | int, chance: float, debias_factor: float) -> Floats:
    """Return the standard deviation of a count that is estimated from randomised reports.

    Args:
        n_reports: number of reports about an item, as a number or an array of shape (n_items,).
        chance: probability of one of a report's two values.
        debias_factor: what the sum of the reports is divided by.
    """
    return np.sqrt(np.asarray(n_reports) * chance * (1 - chance)) / debias_factor


def _count_above_noise(counts: Floats, noise_std: Floats | float) -> DistinguishableItems:
    """Count the items whose count exceeds MIN_NOISE_DEVIATIONS standard deviations of its noise.

    Args:
        counts: array of shape (n_items,).
        noise_std: standard deviation of the noise on each count, or on all of them.
    """
    n_clear = int(np.count_nonzero(counts > MIN_NOISE_DEVIATIONS * noise_std))
    return DistinguishableItems(n_clear, len(counts))


@dataclass(frozen=True, eq=False)
class UserScores:
    """The scores of one run, by user and by whether an item is among the most rated.

    The names of the fields are those of the arrays in the files of `UserScoreCache`.

    Attributes:
        totals: array of shape (n_users, 2), for the most rated items and all others: sum over
            held-out ratings of what each adds to the counted metric.
        counts: array of shape (n_users, 2), number of these ratings.
        given: array of shape (n_users,), number of training ratings.
    """

    totals: Floats
    counts: Floats
    given: Floats

    @classmethod
    def from_result(cls, result: Result) -> UserScores:
        """Return the scores of a run's held-out ratings."""
        problem = result.problem
        train = problem.train
        test = problem.test
        values = metrics.score_test_ratings(result.mechanism.task, result.model, train, test)
        is_measured = ~np.isnan(values)
        users, items = train.public.shape
        rated = np.bincount(train.items, minlength=items)
        is_tail = np.ones(items, dtype=np.int64)
        is_tail[np.argsort(-rated, kind="stable")[: count_head_items(items)]] = 0
        # Each user has two bins: one for the most rated items, one for all others.
        bins = 2 * test.users[is_measured].astype(np.int64) + is_tail[test.items[is_measured]]
        totals, counts = (
            np.bincount(bins, weights, 2 * users).reshape(users, 2).astype(float)
            for weights in (values[is_measured], None)
        )
        return cls(totals, counts, np.bincount(train.users, minlength=users).astype(float))


def count_head_items(items: int) -> int:
    """Return how many items count as the most rated: a hundred, or a tenth of fewer items."""
    return N_HEAD_ITEMS if items >= 2 * N_HEAD_ITEMS else max(1, items // 10)


class UserScoreCache:
    """Scores of runs by the key of their unit, in memory and optionally in a folder.

    The folder lies beside a store and is just as private, because it holds measures of single
    users.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._scores: dict[str, UserScores] = {}

    @classmethod
    def from_store_path(cls, store: Path) -> UserScoreCache:
        """Return the cache in the folder beside a store."""
        return cls(store.with_name(f"{store.stem}-users"))

    def get(self, key: str) -> UserScores | None:
        """Return the scores of the unit with this key; None where there are none."""
        if key not in self._scores and self._folder is not None:
            with suppress(archives.BadArchive, TypeError):  # TypeError if it holds other arrays
                self._scores[key] = UserScores(**archives.read_npz(self._folder / f"{key}.npz"))
        return self._scores.get(key)

    def save(self, key: str, scores: UserScores) -> None:
        """Keep the scores of the unit with this key, in the folder too if there is one.

        Raises:
            DpmcError: the folder cannot be written.
        """
        self._scores[key] = scores
        if self._folder is None:
            return
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with (
                write_atomically(self._folder / f"{key}.npz") as partial_path,
                partial_path.open("wb") as file,
            ):
                np.savez_compressed(file, **vars(scores))
            os.chmod(self._folder / f"{key}.npz", 0o600)
        except OSError as error:
            raise DpmcError(f"{self._folder} cannot be written ({error.strerror})") from None


def run_missing_units(
    units: Sequence[Unit],
    source: SweepData,
    cache: UserScoreCache,
    *,
    store: Store | None = None,
    report_progress: Callable[[int, int], None] = lambda *_: None,
    stop: StopCheck | None = None,
    jobs: int = 0,
) -> None:
    """Run every unit whose scores are not in the cache; rows go to the store at once.

    Where the store already has a row of a run, running it again repeats the same release, number by
    number.

    Args:
        units: the units.
        source: the data they run on.
        cache: receives the scores.
        store: receives the rows, where given.
        report_progress: called with the number of runs done and needed.
        stop: returns whether to stop.
        jobs: number of processes; 0 to run one unit after the other in this process.

    Raises:
        Stopped: `stop()` returned true.
        DpmcError: a unit failed.
    """

    def list_missing() -> list[Unit]:
        """Return the units whose scores are not in the cache yet."""
        return [unit for unit in units if cache.get(unit.key) is None]

    report_progress(len(units) - len(list_missing()), len(units))
    # If a process is killed, its unit runs again in a single process: it may lack memory.
    for n_processes in (jobs, 1) if jobs else (0,):
        runs = _run_units(list_missing(), source, n_processes)
        with stop_when(stop), suppress(BrokenExecutor), closing(runs):
            for unit, record, scores in runs:
                cache.save(unit.key, scores)
                if store is not None and not isinstance(unit.mechanism, LaterPublication):
                    store.add([record])
                report_progress(len(units) - len(list_missing()), len(units))
    if list_missing():
        raise DpmcError(
            "a run was killed twice, the second time with nothing beside it: is there enough"
            " memory?"
        )


def _run_units(
    units: Sequence[Unit], source: SweepData, jobs: int
) -> Generator[tuple[Unit, Record, UserScores]]:
    """Yield each unit with its record and scores as it finishes.

    Args:
        units: the units.
        source: the data they run on.
        jobs: number of processes; 0 to run one unit after the other in this process.

    Raises:
        BrokenExecutor: a process was killed.
    """
    for unit in units if jobs == 0 else ():
        check_cancelled()
        result, record = run_unit_locally(unit, source)
        if result.stopped:
            raise Stopped("stopped before there was an answer")
        yield unit, record, UserScores.from_result(result)
    if jobs == 0 or not units:
        return
    pool = LocalPool({unit.source: source for unit in units}, min(jobs, len(units)))
    running: dict[Future[Record | str], Unit] = {}
    try:
        running.update((pool.submit(unit, UserScores.from_result), unit) for unit in units)
        while running:
            check_cancelled()
            for future in wait(running, POLL_SECONDS, FIRST_COMPLETED).done:
                unit = running.pop(future)
                outcome = future.result()
                if isinstance(outcome, str):
                    raise DpmcError(outcome)
                record = dict(outcome)
                yield unit, record, record.pop("also")  # the scores, see `run_unit`
    finally:
        pool.close(at_once=bool(running))


class Verdict(enum.Enum):
    """How the interval of the gain share compares with the limit."""

    AFFORDABLE = "affordable"
    NOT_AFFORDABLE = "not affordable"
    CANNOT_TELL = "cannot tell"  # the interval crosses the limit
    NO_GAIN = "no gain"  # personalisation adds nothing measurable: there is no share of it
    BEATEN = "the reference is beaten"  # there is a better method, so the gain is not known
    TOO_EARLY = "too early"  # one seed or one user: no interval


class Cost(NamedTuple):
    """The epsilons that are certified for one publication, and for a year of them.

    Attributes:
        certified: what is certified for one publication.
        year: what is certified for all publications of a year.
        replaced: epsilon of a year where a row becomes any other; None where the unit is not a row.
    """

    certified: Certified
    year: Certified
    replaced: float | None


class Attack(NamedTuple):
    """Success rate of the best attacker on two equally likely cases.

    Attributes:
        right: chance of being right.
        exact: whether some data reach this chance; otherwise it is a bound.
    """

    right: float
    exact: bool


class Payer(NamedTuple):
    """A group of users or items that loses clearly more accuracy than all others.

    The names of the fields are those in the JSON of a finding.

    Attributes:
        by: 'users' or 'items'.
        limit: for users, the group has fewer training ratings than this; for items, the group is
            all but this many most rated ones.
        loss: how much worse the metric of the group becomes through privacy, with its interval.
        others: the same for all others.
    """

    by: str
    limit: int
    loss: IntervalEstimate
    others: IntervalEstimate


class YearAverage(NamedTuple):
    """What a year of publications reaches, each of which learns from those before.

    The names of the fields are those in the JSON of a finding.

    Attributes:
        method: the metric over the held-out ratings of all publications together.
        last: the metric of the last publication.
        verdict: how the share of the gain that `method` leaves compares with the limit.
        kept: this share; None where there is no gain.
    """

    method: IntervalEstimate
    last: IntervalEstimate
    verdict: Verdict
    kept: IntervalEstimate | None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The answer to an inquiry, with everything that the sentences need.

    Attributes:
        question: the inquiry.
        mechanism: the recommended mechanism.
        public: public facts of the ratings before preparation.
        split: how ratings were held out, in words.
        verdict: how the share of the gain compares with the limit.
        method, reference, baseline: the metric of the mechanism, of the reference and of the
            baseline.
        baseline_id: id of the baseline.
        gain_share: share of the gain that is left; None where there is no gain.
        year: the average of a year of publications that learn from each other, of which all other
            fields describe the first; None where each stands alone, or it is not computed.
        payers: groups that lose more than the others.
        cost: what is certified.
        attack: success rate of the best attacker who has all publications of a year.
        users, seeds: how many were measured.
        provisional: whether more seeds are to come.
        n_private_fits: number of private runs behind the answer.
    """

    question: Inquiry
    mechanism: Mechanism
    public: PublicFacts
    split: str
    verdict: Verdict
    method: IntervalEstimate
    reference: IntervalEstimate
    baseline: IntervalEstimate
    baseline_id: str
    gain_share: IntervalEstimate | None
    year: YearAverage | None
    payers: tuple[Payer, ...]
    cost: Cost
    attack: Attack
    users: int
    seeds: int
    provisional: bool
    n_private_fits: int

    @property
    def decision(self) -> tuple[Verdict, IntervalEstimate | None]:
        """Return verdict and share for the period: of the year's average where there is one."""
        return self.year[2:] if self.year else (self.verdict, self.gain_share)


def compute_finding(
    question: Inquiry,
    advice: Advice,
    units: Sequence[Unit],
    cache: UserScoreCache,
    ratings: Ratings,
) -> Finding | None:
    """Compute the answer from the seeds that are complete; None before the first.

    Args:
        question: the inquiry.
        advice: the recommended mechanism.
        units: units of `question.build_grid` at the requested epsilon, and those that
            `add_later_publications` adds.
        cache: scores of the units that have run.
        ratings: ratings before preparation; only their public facts and whether they have times
            matter.
    """
    method = advice.mechanism
    task = question.task
    public = ratings.public
    split = units[0].split
    steps = units[0].steps
    baselines = registry.list_baselines(type(method), steps)
    ids = [method.id, *baselines]
    references = question.match_references(list(dict.fromkeys(unit.seed for unit in units)))
    if not references:
        ids.append(registry.NONPRIVATE_REFERENCES[task])
    scores_by_seed: dict[int, dict[str, UserScores]] = {}
    later_by_seed: dict[int, list[UserScores | None]] = {}
    for unit in units:
        scores = cache.get(unit.key) if unit.mechanism.id in ids else None
        if isinstance(unit.mechanism, LaterPublication):
            later_by_seed.setdefault(unit.seed, []).append(scores)
        elif scores is not None:
            scores_by_seed.setdefault(unit.seed, {})[unit.mechanism.id] = scores
    complete = {
        seed: scores_by_method
        for seed, scores_by_method in scores_by_seed.items()
        if len(scores_by_method) == len(ids)
    }
    errors = {
        id: _compute_mean_error([scores_by_method[id] for scores_by_method in complete.values()])
        for id in baselines
        if complete
    }
    # Of several baselines one is compared. Mechanism, baseline and reference remain, in this order.
    ids[1 : 1 + len(baselines)] = [registry.choose_baseline(type(method), steps, errors)]
    runs = [[scores_by_method[id] for id in ids] for scores_by_method in complete.values()]
    if not runs or not any(scores.counts.any() for scores in runs[0]):
        return None
    columns = runs  # scores of the mechanism, the baseline and the reference, of each seed
    later = [[scores for scores in later_by_seed.get(seed, ()) if scores] for seed in complete]
    n_later = len(list_publications(question.times)) - 1
    if has_year := n_later > 0 and all(len(scores) == n_later for scores in later):
        columns = [
            [*run[:2], _average_year(question.times, [run[0], *scores]), scores[-1], *run[2:]]
            for run, scores in zip(runs, later, strict=True)
        ]
    totals, counts = (  # arrays of shape (n_seeds, n_users, n_methods)
        np.array(
            [[getattr(scores, name).sum(axis=1) for scores in run] for run in columns]
        ).swapaxes(1, 2)
        for name in ("totals", "counts")
    )
    known = [references[seed] for seed in complete if references]
    paired = PairedMetrics.from_totals(totals, counts, root=task is Task.RATINGS, known=known)
    # The weights that select the mechanism, the baseline, average and last, and the reference.
    method_weights, baseline_weights, *year_weights, best_weights = np.eye(len(paired.mean))
    has_interval = paired.seeds > 1 and paired.users > 1

    def judge_method(weights: Floats) -> tuple[Verdict, IntervalEstimate | None]:
        """Return the verdict, and the share of the gain that it is about."""
        sign = question.metric.sign
        gain_share = paired.estimate_share(
            sign * (weights - baseline_weights), sign * (best_weights - baseline_weights)
        )
        beaten = (
            not references and paired.estimate_interval(sign * (weights - best_weights)).sign > 0
        )
        decision = decide_verdict(gain_share, question.keep, beaten=beaten)
        return decision if has_interval else Verdict.TOO_EARLY, gain_share

    decision, gain_share = judge_method(method_weights)
    year_average = None
    if has_year:
        average, last = map(paired.estimate_interval, year_weights)
        year_average = YearAverage(average, last, *judge_method(year_weights[0]))
    guarantee = method.guarantee(question.prepare_public_facts(public))
    year = guarantee.repeat(question.times)
    return Finding(
        question=question,
        mechanism=method,
        public=public,
        split=OFFICIAL_SPLIT if split is None else split.describe(ratings),
        verdict=decision,
        method=paired.estimate_interval(method_weights),
        baseline=paired.estimate_interval(baseline_weights),
        baseline_id=ids[1],
        reference=paired.estimate_interval(best_weights),
        gain_share=gain_share,
        year=year_average,
        payers=() if references else _find_payers(runs, question, public),
        cost=_compute_cost(question, advice, year),
        attack=_compute_attack(question, year),
        users=paired.users,
        seeds=paired.seeds,
        provisional=has_interval and paired.seeds < len({unit.seed for unit in units}),
        n_private_fits=sum(
            cache.get(unit.key) is not None
            for unit in units
            if unit.mechanism.id in (method.id, *baselines)
            and registry.adds_noise(type(unit.mechanism))
        ),
    )


def _average_year(times: int, publications: Sequence[UserScores]) -> UserScores:
    """Return the scores of an average publication of a year from those of the ones that are run."""
    totals = np.array([scores.totals for scores in publications])
    return replace(publications[0], totals=np.tensordot(weigh_publications(times), totals, 1))


def _compute_mean_error(runs: Sequence[UserScores]) -> float:
    """Return the mean over held-out ratings of what each adds to the metric.

    This is the mean squared error for the task RATINGS.
    """
    total = np.sum([run.counts for run in runs])
    return float(np.sum([run.totals for run in runs]) / max(total, 1.0))


def decide_verdict(gain_share: IntervalEstimate | None, limit: float, *, beaten: bool) -> Verdict:
    """Compare the share of the gain that is kept with a limit.

    Args:
        gain_share: the share with its interval, or None without a gain.
        limit: the share that must be left.
        beaten: whether the mechanism is clearly better than the reference.
    """
    if beaten:
        return Verdict.BEATEN
    if gain_share is None:
        return Verdict.NO_GAIN
    if gain_share.low >= limit:
        return Verdict.AFFORDABLE
    return Verdict.NOT_AFFORDABLE if gain_share.high < limit else Verdict.CANNOT_TELL


def _find_payers(
    runs: Sequence[Sequence[UserScores]], question: Inquiry, public: PublicFacts
) -> tuple[Payer, ...]:
    """Find groups that lose clearly more than the others do.

    The groups are users with few training ratings, and items that are not among the most rated.
    They share one error probability of 5 %, by the Bonferroni correction.

    Args:
        runs: for each seed, the scores of the mechanism, the baseline and the reference.
        question: the inquiry.
        public: public facts of the ratings.
    """
    n_training = np.array([run[0].given for run in runs])  # seeds x users
    n_tested = np.array([run[0].counts for run in runs])  # seeds x users x (head, tail)
    few = FEW_RATINGS
    if not _is_substantial(n_tested.sum(axis=2)[n_training < few].sum(), n_tested.sum()):
        # Then the limit is where half of the held-out ratings are of users with fewer.
        weights = n_tested.sum(axis=2).ravel()
        order = np.argsort(n_training.ravel(), kind="stable")
        half = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
        few = int(n_training.ravel()[order][min(half, len(order) - 1)])
    is_tail = np.array([0.0, 1.0])
    candidates = (  # masks are of shape (n_seeds, n_users, 2), like n_tested
        ("users", few, (n_training < few)[:, :, None] * np.ones(2)),
        ("items", count_head_items(public.items), np.broadcast_to(is_tail, n_tested.shape)),
    )
    payers = []
    for group_kind, limit, group_mask in candidates:
        if not _is_substantial((n_tested * group_mask).sum(), n_tested.sum()):
            continue
        # Mechanism and reference on the group, then mechanism and reference on all others.
        sums = [
            (
                (np.array([run[method].totals for run in runs]) * mask).sum(axis=2),
                (n_tested * mask).sum(axis=2),
            )
            for mask in (group_mask, 1 - group_mask)
            for method in (0, 2)
        ]
        if any((counts.sum(axis=1) == 0).any() for _, counts in sums):
            continue
        totals, counts = (np.stack(arrays, axis=2) for arrays in zip(*sums, strict=True))
        paired = PairedMetrics.from_totals(totals, counts, root=question.task is Task.RATINGS)
        loss = question.metric.sign * np.array([-1.0, 1.0, 0.0, 0.0])
        other_loss = np.roll(loss, 2)  # the same of the others
        level = 1 - 0.05 / _N_GROUPS
        is_clear = paired.estimate_interval(loss - other_loss, level).sign > 0
        if is_clear and paired.estimate_interval(loss, level).sign > 0:
            payers.append(
                Payer(
                    group_kind,
                    limit,
                    paired.estimate_interval(loss),
                    paired.estimate_interval(other_loss),
                )
            )
    return tuple(payers)


def _is_substantial(group_total: float, total: float) -> bool:
    """Return whether a group and the remainder each have enough of the held-out ratings."""
    return _MIN_GROUP_SHARE <= group_total / max(total, 1.0) <= 1 - _MIN_GROUP_SHARE


def _compute_cost(question: Inquiry, advice: Advice, year: Guarantee) -> Cost:
    """Certify one publication by the advised mechanism, and all publications of a year.

    Args:
        question: the inquiry.
        advice: the advised mechanism.
        year: guarantee of all publications of a year.
    """
    change, one = question.change, advice.certified
    total = one if question.times == 1 else year.certified(change, question.delta)
    replaced = year.certified(USER_REPLACED, question.delta).epsilon if change.per_user else None
    return Cost(one, total, replaced)


def _compute_attack(question: Inquiry, guarantee: Guarantee) -> Attack:
    """Return the accuracy of the best attacker; it is exact for one randomised bit or no loss."""
    (_, first), *remaining = guarantee.releases
    is_single_bit = (
        not remaining and isinstance(first, RandomizedResponse) and len(first.channel) == 2
    )
    exact = is_single_bit or guarantee.loss(question.change).epsilon == 0
    return Attack(guarantee.attacker_accuracy(question.change), exact)


def read_epsilon(method: Mechanism) -> float:
    """Return the epsilon setting of a private mechanism, which every such mechanism has."""
    epsilon: float = method.epsilon  # type: ignore[attr-defined]
    return epsilon
