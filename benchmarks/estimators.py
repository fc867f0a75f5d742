"""Measure what privacy costs with the default estimators: one table for each goal.

    python benchmarks/estimators.py [TABLE] [--seeds 10] [--jobs N] [--folder FOLDER]

TABLE is one-bit, statistic, collection, user-jester, user-ml, user-long, ranking-user,
ranking-local, references, samples or fresh. FOLDER has ml-100k and jester (default:
../shared/data). Means are over seeds. A goal is met if it is missed by at most .003 of accuracy or
.005 of RMSE. Gains are paired over seeds and tested one-sided, with Holm's correction at 5 % over
the table. All numbers are for evaluation only, not private. MovieLens, Jester and restaurant data
are test data: no default was chosen on them.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.stats import ttest_rel

from dpmc_core import experiment, registry
from dpmc_core.dataset import Dataset
from dpmc_core.metrics import choose_headline_metric
from dpmc_core.model import Task
from dpmc_core.preparation import Rescale
from dpmc_core.problem import Problem, RandomShare, build_problem
from dpmc_core.settings import parse_setting
from dpmc_data import datasets, synthetic
from dpmc_data.datasets import load
from dpmc_data.synthetic import SAMPLES
from dpmc_lab.sweep.presets import EPSILONS
from sample_data import generate

HOME = Path(__file__).resolve().parents[2] / "shared" / "data"
LEVEL = 0.05
SLACK = {"accuracy": 0.003, "rmse": 0.005}


@dataclass(frozen=True)
class Row:
    """A method on a data set at several epsilons.

    Attributes:
        data: name of the data set.
        method: id of the mechanism.
        epsilons: settings of epsilon; 0 for methods without one.
        goals: the metric that it should reach at each epsilon, if any.
        settings: further settings as text.
        beats: id of a method that it should beat, paired over seeds.
    """

    data: str
    method: str
    epsilons: Sequence[float]
    goals: Sequence[float] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    beats: str = ""


def build_tables(epsilons: Sequence[float] | None) -> dict[str, list[Row]]:
    """Return all tables, at these epsilons or at their own."""
    six, long = (0.1, 0.3, 0.5, 1, 2, 4), "long-tail-full"
    rows_by_table = {
        "one-bit": [
            Row("u1", "input-flip", six, (0.618, 0.677, 0.694, 0.714, 0.727, 0.734)),
            Row("u1", "input-flip", six, settings={"estimator": "published"}),
            Row("u1", "private-majority", six),
        ],
        "statistic": [
            Row("u1", "objective-statistic", (0.5, 1, 2), (0.689, 0.709, 0.721)),
            Row("u1", "objective-statistic", (0.5, 1, 2), settings={"estimator": "published"}),
        ],
        "collection": [
            Row("u1", "randomised-response", (1, 2, 4, 10), (1.132, 1.071, 0.980, 0.924)),
            Row("u1", "modified-laplace", (1, 2, 4), (1.130, 1.076, 1.010)),
            Row("u1", "local-mean", (1, 2, 4, 10)),
        ],
        "user-jester": [Row("jester", "private-effects", (0.5, 1), (1.030, 1.027))],
        "user-ml": [Row("u1", "private-effects", (1, 4), (1.022, 0.967))],
        "user-long": [
            Row(long, "private-effects", (0.5, 1, 2)),
            Row(long, "user-mean", (0,)),
            Row(long, "item-mean", (0,)),
        ],
        "ranking-user": [Row(long, "private-taste", (1, 2, 5), beats="private-popularity")],
        "ranking-local": [
            Row(data, method, (1, 2, 4), beats="local-popularity")
            for data in ("ml-100k", long)
            for method in ("dplcf", "ldpicf")
        ],
        "references": [
            Row(data, registry.NONPRIVATE_REFERENCES[task], (0,), beats=rival)
            for data, sample in SAMPLES.items()
            for task, rivals in TRIVIAL.items()
            for rival in rivals
            if sample.clicks == (task is Task.RANKING)
            and not (task is Task.RATINGS and data.startswith("one-bit"))
        ],
        "fresh": [
            Row(data, method, (0.5, 1, 2, 4), beats=baseline)
            for data in FRESH
            for method, baseline in BASELINES.items()
            if (data == "fresh-shop") == (registry.get_mechanism(method).task is Task.RANKING)
        ],
    }
    rows_by_table["samples"] = [
        Row(data, id, EPSILONS)
        for data, sample in SAMPLES.items()
        for id in registry.list_suitable_mechanisms(clicks=sample.clicks)
        if not (data.startswith("one-bit") and registry.get_mechanism(id).task is not Task.BINARY)
        and (sample.clicks or registry.get_mechanism(id).task is not Task.RANKING)
    ]
    if epsilons:
        rows_by_table = {
            name: [_restrict_epsilons(row, epsilons) for row in rows]
            for name, rows in rows_by_table.items()
        }
    return rows_by_table


TRIVIAL = {
    Task.BINARY: ("majority", "clear"),
    Task.RATINGS: ("global-mean", "user-mean", "item-mean", "als", "soft-impute", "svd"),
    Task.RANKING: ("popularity", "ials", "item-knn"),
}
BASELINES = {
    "input-flip": "private-majority",
    "randomised-response": "local-mean",
    "private-effects": "user-mean",
    "private-taste": "private-popularity",
    "dplcf": "local-popularity",
}
# These sets exist for this table alone: no default was chosen on them.
FRESH: Mapping[str, Callable[[], synthetic.Generated]] = {
    "fresh-tail": lambda: generate.generate_long_tail(
        77, users=3_000, items=1_500, ratings=300_000
    ),
    "fresh-films": lambda: generate.generate_films(
        generate.Shape(
            users=2_500, items=900, low=1, histogram=(9_000, 14_000, 31_000, 40_000, 26_000),
            min_items=8, activity_std=0.9, popularity_std=1.4, user_std=0.55, item_std=0.5,
            preference_std=0.35, noise_std=0.8, noise_tail=0.3, rank=6, preference_strength=0.8,
        ),
        77,
    ),
    "fresh-shop": lambda: generate.generate_clicks(
        generate.Shop(users=6_000, items=900, clicks=150_000, rank=6, preference_strength=1.3), 77
    ),
}  # fmt: skip


def _restrict_epsilons(row: Row, epsilons: Sequence[float]) -> Row:
    """Return the row at other epsilons; its goal is NaN where it has none."""
    goals = dict(zip(row.epsilons, row.goals, strict=False))
    goals_at = tuple(goals.get(e, float("nan")) for e in epsilons) if row.goals else ()
    return Row(row.data, row.method, tuple(epsilons), goals_at, row.settings, row.beats)


@lru_cache(maxsize=4)
def load_data(data: str, folder: str) -> Any:
    """Load a data set by its name."""
    if data == "u1":
        folder_path = Path(folder) / "ml-100k"
        return datasets.read_pair(folder_path / "u1.base", folder_path / "u1.test")
    if data == "jester":
        return load(Path(folder) / "jester" / "jester-data-1.csv")
    if data == "ml-100k":
        return load(Path(folder) / "ml-100k")
    generators = {
        **FRESH,
        "long-tail-full": lambda: generate.generate_long_tail(synthetic.SAMPLE_SEED),
    }
    if data in generators:
        ratings = generators[data]().ratings
        return Dataset(ratings, data, data)
    return load(data)


@lru_cache(maxsize=4)
def build_split(data: str, task: Task, seed: int, folder: str) -> Problem:
    """Build a split for a seed; u1 always has its official one."""
    steps, split = (), None
    if data == "jester":
        steps, split = (Rescale(0.0, 5.0),), RandomShare(0.01)
    return build_problem(load_data(data, folder), task, steps=steps, split=split, seed=seed)


def run_once(job: tuple[str, str, float, int, tuple[tuple[str, str], ...], str]) -> float:
    """Return the headline metric of one run.

    Args:
        job: name of the data, id of the method, epsilon (0 for none), seed, further settings as
            text, and the folder of data. The job is a tuple, so that processes can share it.
    """
    data, id, epsilon, seed, settings, folder = job
    cls = registry.get_mechanism(id)
    chosen = {name: parse_setting(cls, name, text) for name, text in settings}
    mechanism = registry.create(id, epsilon=epsilon or None, **chosen)
    task = cls.task
    fitted = experiment.fit(mechanism, build_split(data, task, seed, folder), seed)
    return experiment.measure(fitted).metrics[choose_headline_metric(task).name]


def main() -> None:
    """Run a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", nargs="?", default="user-long")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path, default=HOME)
    parser.add_argument("--epsilons", type=float, nargs="+")
    parser.add_argument("--only", nargs="+", metavar="METHOD")
    options = parser.parse_args()
    rows = build_tables(options.epsilons)[options.table]
    rows = [row for row in rows if not options.only or row.method in options.only]
    real = {"u1": "ml-100k", "ml-100k": "ml-100k", "jester": "jester"}
    missing = {real[r.data] for r in rows if r.data in real} - set(os.listdir(options.folder))
    if missing:
        print(f"there is no {' or '.join(missing)} in {options.folder}: give its folder")
        return
    seeds = range(1, options.seeds + 1)
    with ProcessPoolExecutor(options.jobs) as pool:
        print_results(rows, seeds, pool, str(options.folder))


def print_results(rows: list[Row], seeds: range, pool: ProcessPoolExecutor, folder: str) -> None:
    """Run the rows of a table and print it.

    Args:
        rows: the rows.
        seeds: of the splits and the noise.
        pool: processes for the runs.
        folder: of the data sets.
    """

    def submit_runs(row: Row, method: str, epsilon: float) -> list[Any]:
        """Return the futures of a method's runs, each of which is submitted only once."""
        settings = tuple(row.settings.items()) if method == row.method else ()
        used_epsilon = epsilon if registry.adds_noise(registry.get_mechanism(method)) else 0.0
        key = (row.data, method, used_epsilon, settings)
        if key not in jobs:
            jobs[key] = [
                pool.submit(run_once, (row.data, method, used_epsilon, s, settings, folder))
                for s in seeds
            ]
        return jobs[key]

    jobs: dict[Any, list[Any]] = {}
    plan = [
        (
            row,
            epsilon,
            submit_runs(row, row.method, epsilon),
            row.beats and submit_runs(row, row.beats, epsilon),
        )
        for row in rows
        for epsilon in row.epsilons
    ]
    tests = []
    for row, group in itertools.groupby(plan, key=lambda entry: entry[0]):
        metric = choose_headline_metric(registry.get_mechanism(row.method).task)
        chosen = " ".join(f"{k}={v}" for k, v in row.settings.items())
        print(f"\n{row.data}: {row.method} {chosen}".rstrip() + f", {metric.name}", flush=True)
        for k, (_, epsilon, futures, rival_futures) in enumerate(group):
            metrics = np.array([future.result() for future in futures])
            label = f"  epsilon {epsilon:<5g}" if epsilon else "  no privacy   "
            line = (
                f"{label} {metrics.mean():.4f} (sd"
                f" {metrics.std(ddof=1) if len(metrics) > 1 else 0:.4f})"
            )
            if row.goals:
                shortfall = metric.sign * (row.goals[k] - metrics.mean())
                outcome = "met" if shortfall <= SLACK[metric.name] else f"missed by {shortfall:.3f}"
                line += f"  goal {row.goals[k]:.3f} {outcome}"
            if rival_futures:
                rival_metrics = np.array([future.result() for future in rival_futures])
                line += f"  {row.beats} {rival_metrics.mean():.4f}"
                improvement = metric.sign * (metrics - rival_metrics)
                p = (
                    ttest_rel(metrics, rival_metrics, alternative="two-sided").pvalue
                    if improvement.any()
                    else 1.0
                )
                p = p / 2 if improvement.mean() > 0 else 1 - p / 2  # one-sided
                line += f"  gain {improvement.mean():+.4f}"
                tests.append((float(p), f"{row.data} {row.method} at {epsilon:g}"))
            print(line, flush=True)
    print_holm(tests)


def print_holm(tests: list[tuple[float, str]]) -> None:
    """Print which comparisons are significant together, by Holm's step-down procedure.

    Args:
        tests: the p-value and the name of each comparison.
    """
    if not tests:
        return
    ordered = sorted(tests)
    n_significant = 0
    while n_significant < len(ordered) and ordered[n_significant][0] <= LEVEL / (
        len(ordered) - n_significant
    ):
        n_significant += 1
    print(f"\nabove at {LEVEL:.0%}, Holm-corrected: {n_significant} of {len(ordered)}")
    for p, name in ordered[n_significant:]:
        print(f"  not shown: {name} (p {p:.2g})")


if __name__ == "__main__":
    main()
