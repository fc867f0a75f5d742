"""Accuracy against epsilon over several seeds, as CSV files.

Precomputed curves of the sample data ship in sample_data/curves. This writes them again:

    dpmc sweep --preset samples --curves sample_data/curves

The first line of a file is a comment with its stamp: version, settings and public facts. Metrics
are evaluation only: they are measured on raw held-out ratings.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from dpmc_core import experiment, registry
from dpmc_core.data import Dataset
from dpmc_core.errors import BadRatings, DpmcError, InvalidSetting
from dpmc_core.model import Task
from dpmc_core.problem import Problem, build_problem
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.store import Record, Store, curves, records
from dpmc_core.sweep import Plan, Whole
from dpmc_core.sweep.presets import EPSILONS, SEEDS, noisy
from dpmc_core.version import version

FOLDER = Path(__file__).resolve().parent.parent / "sample_data" / "curves"  # also in a wheel
_COLUMNS = ("data", "mechanism", "epsilon", "seed", "metric", "value")


class Row(NamedTuple):
    """One measurement; epsilon is NaN for methods without one."""

    data: str
    mechanism: str
    epsilon: float
    seed: int
    metric: str
    value: float


@dataclass(frozen=True)
class Stamp:
    """What a set of rows was computed with: enough to draw its guarantee without the data.

    settings, revisions: by mechanism id; prepared: data-dependent steps, in words.
    """

    version: str
    data: str
    title: str
    public: PublicFacts
    ratings: int
    fingerprint: str
    prepared: tuple[str, ...]
    steps: tuple[str, ...]
    split: str
    settings: Mapping[str, Mapping[str, Any]]
    revisions: Mapping[str, int]


@dataclass(frozen=True)
class Curves:
    """The rows of one data set with their stamp."""

    stamp: Stamp
    rows: tuple[Row, ...]


def mechanisms(task: str = "binary") -> tuple[str, ...]:
    """Ids of the mechanisms with an epsilon for a task, in the registry's order."""
    return noisy(Task(task))


def offered(ratings: Ratings | None = None) -> tuple[str, ...]:
    """Ids of the mechanisms that make sense for some ratings; of all of them without any.

    Clicks (all of value 1) can only be ranked; ratings can be ranked too, as interactions.
    """
    ranking = noisy(Task.RANKING)
    if ratings is not None and bool((ratings.values == 1.0).all()):
        return ranking
    return noisy(Task.BINARY) + noisy(Task.RATINGS) + ranking


def check(plan: Plan) -> None:
    """Raise InvalidSetting where one file for each data set could not tell its curves apart."""
    for mark, source in plan.sources.items():
        if not isinstance(source, Whole):
            raise InvalidSetting("data of curves", "one data set, split here", source.name)
        found: dict[str, str] = {}
        for unit in plan.units:
            if (
                unit.source == mark
                and found.setdefault(unit.mechanism.id, unit.curve) != unit.curve
            ):
                raise InvalidSetting(
                    "settings of curves", "one per mechanism", f"several of {unit.mechanism.id}"
                )


def collect(store: Store, plan: Plan) -> list[Curves]:
    """The curves of a plan out of the store its units ran into, one for each data set.

    Raises DpmcError where rows are missing, or where `check` would.
    """
    check(plan)
    found = []
    for mark, source in plan.sources.items():
        keys = {unit.key for unit in plan.units if unit.source == mark}
        ids = [info.id for info in curves(store, keys=plan.curves, source=mark, count=False)]
        mine = [record for record in records(store, ids) if record["key"] in keys]
        if len(mine) < len(keys):
            raise DpmcError(f"the curves of {source.name} lack {len(keys) - len(mine)} rows")
        assert isinstance(source, Whole)  # checked above
        found.append(_from_records(source.dataset, mine))
    return found


def _from_records(dataset: Dataset, mine: Sequence[Record]) -> Curves:
    settings: dict[str, Mapping[str, Any]] = {}
    revisions: dict[str, int] = {}
    rows: list[Row] = []
    for record in mine:
        id = record["mechanism"]
        settings[id], revisions[id] = _without_epsilon(record["settings"]), record["revision"]
        epsilon = record["settings"].get("epsilon", math.nan)
        rows += _rows(dataset.name, id, epsilon, record["seed"], record["metrics"])
    first = min(mine, key=lambda record: record["seed"])["data"]
    stamp = Stamp(
        version=", ".join(sorted({record["version"] for record in mine})),
        data=dataset.name,
        title=dataset.title,
        public=PublicFacts(**{n: first[n] for n in ("users", "items", "low", "high", "cap")}),
        ratings=len(dataset.ratings),
        fingerprint=dataset.ratings.fingerprint,
        prepared=tuple(first["prepared"]),
        steps=tuple(first["prepare"]),
        split=first["split"],
        settings=settings,
        revisions=revisions,
    )
    return Curves(stamp, tuple(rows))


def compute(
    dataset: Dataset,
    ids: Sequence[str],
    epsilons: Sequence[float] = EPSILONS,
    seeds: Sequence[int] = SEEDS,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    stop: Callable[[], bool] | None = None,
    before: Curves | None = None,
) -> Iterator[tuple[int, int, Curves]]:
    """Run every mechanism at every epsilon and seed; yields (done, total, the rows so far).

    settings: what differs from a mechanism's defaults, by id. All mechanisms of a seed share its
    split, floor and twin. Once `stop()` is true the run under way is dropped and nothing follows.
    before: what an earlier call with the same arguments yielded last; its runs are not done again.
    """
    settings = settings or {}
    rows: list[Row] = list(before.rows) if before else []
    used: dict[str, Mapping[str, Any]] = dict(before.stamp.settings) if before else {}
    revisions: dict[str, int] = dict(before.stamp.revisions) if before else {}
    there = {(row.mechanism, row.epsilon, row.seed) for row in rows}
    total, done = len(ids) * len(epsilons) * len(seeds), 0
    for seed in seeds:
        known = _plain_of(rows, seed)
        problems: dict[Any, Problem] = {}
        for id in ids:
            task = registry.get(id).task
            if task not in problems:
                problems[task] = build_problem(dataset, task, seed=seed)
            problem = problems[task]
            for epsilon in epsilons:
                if (id, epsilon, seed) in there:
                    done += 1
                    continue
                mechanism = registry.create(id, epsilon=epsilon, **settings.get(id, {}))
                try:
                    result = experiment.run(mechanism, problem, seed, stop=stop, known=known)
                except DpmcError:
                    if stop is not None and stop():
                        return
                    raise
                if stop is not None and stop():
                    return
                for other, found in result.baselines.items():
                    if other not in known:
                        known[other] = found
                        rows += _rows(dataset.name, other, math.nan, seed, found)
                rows += _rows(dataset.name, id, epsilon, seed, result.metrics)
                used[id] = _without_epsilon(experiment.settings_dict(mechanism))
                revisions[id] = mechanism.revision
                done += 1
                stamp = _stamp(dataset, problem, used, revisions)
                yield done, total, Curves(stamp, tuple(rows))


def _plain_of(rows: Sequence[Row], seed: int) -> dict[str, Mapping[str, float]]:
    """Metrics of the methods without an epsilon, by id, where a seed's rows have them."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.seed == seed and math.isnan(row.epsilon):
            found.setdefault(row.mechanism, {})[row.metric] = row.value
    return dict(found)


def write(curves: Curves, stream: IO[str]) -> None:
    """The stamp as a comment line, then CSV."""
    stamp = dataclasses.asdict(curves.stamp)
    stream.write("# " + json.dumps(stamp) + "\n")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in curves.rows:
        epsilon = "" if math.isnan(row.epsilon) else f"{row.epsilon:g}"
        writer.writerow(
            (row.data, row.mechanism, epsilon, row.seed, row.metric, f"{row.value:.6g}")
        )


def read(stream: IO[str]) -> Curves:
    """The inverse of `write`. Raises BadRatings where the file is not one of ours."""
    try:
        head = json.loads(stream.readline().removeprefix("# "))
        head["public"] = PublicFacts(**head["public"])
        head["prepared"], head["steps"] = tuple(head["prepared"]), tuple(head["steps"])
        rows = tuple(
            Row(
                r["data"],
                r["mechanism"],
                float(r["epsilon"] or "nan"),
                int(r["seed"]),
                r["metric"],
                float(r["value"]),
            )
            for r in csv.DictReader(stream)
        )
        return Curves(Stamp(**head), rows)
    except (ValueError, KeyError, TypeError) as error:
        raise BadRatings(f"the file of curves cannot be read: {error}") from None


def file_name(data: str, task: Task = Task.BINARY) -> str:
    """Where the curves of a data set and a task are kept; they differ in preparation and split."""
    name = data.replace("/", "-").replace(":", "-")
    return f"{name}.csv" if task is Task.BINARY else f"{name}-{task.value}.csv"


def task_of(curves: Curves) -> Task:
    """What the mechanisms of a set of curves predict."""
    return registry.get(curves.rows[0].mechanism).task


def shipped(data: str, task: Task = Task.BINARY) -> Curves | None:
    """The precomputed curves of a sample data set for a task, or None where there are none."""
    path = FOLDER / file_name(data, task)
    if not path.is_file():
        return None
    with path.open("r", encoding="utf-8", newline="") as stream:
        return read(stream)


def _stamp(
    dataset: Dataset,
    problem: Any,
    settings: Mapping[str, Mapping[str, Any]],
    revisions: Mapping[str, int],
) -> Stamp:
    train = problem.train
    return Stamp(
        version=version(),
        data=dataset.name,
        title=dataset.title,
        public=train.public,
        ratings=len(dataset.ratings),
        fingerprint=dataset.ratings.fingerprint,
        prepared=train.prepared,
        steps=problem.steps,
        split=problem.split,
        settings=dict(settings),
        revisions=dict(revisions),
    )


def _without_epsilon(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "epsilon"}


def _rows(
    data: str, mechanism: str, epsilon: float, seed: int, found: Mapping[str, float]
) -> list[Row]:
    return [Row(data, mechanism, epsilon, seed, metric, value) for metric, value in found.items()]
