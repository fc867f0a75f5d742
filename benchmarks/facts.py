"""Measure the benefit of item features, and the cost of useless ones.

    python benchmarks/facts.py [--seeds 5] [--epsilons 0.1 0.3 1 3 10] [--mechanisms ...]

The data are the generated samples, sets that are generated for this script, and MovieLens 100K (u1,
and the latest click of every user). Every method that can use item features runs without them, with
them, and with the features of permuted items ("dealt anew"). Differences are paired over seeds;
"worse" means by more than two standard errors. A first line has the metric that features and one's
own ratings reach without other people's ratings ("alone"). All numbers are for evaluation only.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from dpmc_core import registry
from dpmc_core.dataset import Dataset
from dpmc_core.metrics import choose_headline_metric, evaluate
from dpmc_core.model import Task
from dpmc_core.preparation import UseItemFeatures
from dpmc_core.problem import Problem, build_problem
from dpmc_core.ratings import Ratings
from dpmc_data import datasets, features, synthetic
from sample_data import generate

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "ml-100k"
DEFAULT_MECHANISMS = (
    "private-effects",
    "private-item-mean",
    "dpals",
    "private-popularity",
    "private-taste",
    "dplcf",
)


def add_features(make: synthetic.Generated) -> Ratings:
    """Return generated ratings with their genres as item features."""
    return features.add_public_features(make.ratings, make.genres)[0]


def build_problems(seed: int) -> Iterator[tuple[str, Problem]]:
    """Yield the name and the problem of each data set: ratings, then clicks."""
    for name in ("movie-night", "long-tail", "restaurants", "bookshop-clicks"):
        data = datasets.load(name)
        task = Task.RANKING if data.ratings.has_only_clicks else Task.RATINGS
        yield name, build_problem(data, task, seed=seed)
    tail = generate.generate_long_tail(100 + seed, users=900, items=700, ratings=60_000)
    films = generate.generate_films(
        100 + seed, replace(generate.MOVIE_NIGHT, users=1_500, items=800)
    )
    shop = generate.generate_clicks(
        100 + seed, generate.Shop(users=4_000, items=800, clicks=60_000)
    )
    for name, generated, task in (
        ("films", films, Task.RATINGS),
        ("tail", tail, Task.RATINGS),
        ("shop", shop, Task.RANKING),
    ):
        ratings = add_features(generated)
        data = Dataset(ratings, f"drawn {name}")
        yield data.name, build_problem(data, task, seed=seed)
    if DATA.is_dir():
        pair = datasets.read_pair(DATA / "u1.base", DATA / "u1.test")
        yield "ml-100k u1", build_problem(pair, Task.RATINGS)
        clicks = datasets.load(str(DATA / "u.data"))
        yield "ml-100k clicks", build_problem(clicks, Task.RANKING, seed=seed)


def measure_mechanism(
    problem: Problem, id: str, epsilon: float | None, feature_use: str, seed: int
) -> float:
    """Return the headline metric of one fit without, with or with permuted features."""
    train, mechanism = problem.train, registry.create(id, epsilon=epsilon)
    if feature_use == "dealt anew":
        order = np.random.default_rng(seed).permutation(train.public.items)
        train = train.with_item_features(
            {name: columns[order] for name, columns in train.item_features.items()}
        )
    if feature_use != "without":
        train = UseItemFeatures().apply(train, train)
    *_, last = mechanism.fit(train, np.random.default_rng([seed, 1]))
    rng = np.random.default_rng([seed, 2])
    metrics = evaluate(mechanism.task, last.model, problem.train, problem.test, rng)
    return metrics[choose_headline_metric(mechanism.task).name]


def print_row(name: str, runs: list[Problem], id: str, epsilons: list[float]) -> None:
    """Print a mechanism's metrics without, with and with permuted features."""
    metric = choose_headline_metric(registry.get_mechanism(id).task)
    for kind in ("without", "with", "dealt anew"):
        averages, marks = [], []
        for epsilon in epsilons:
            variant_metrics, featureless_metrics = (
                np.array([measure_mechanism(p, id, epsilon, k, s) for s, p in enumerate(runs)])
                for k in (kind, "without")
            )
            improvement = metric.sign * (variant_metrics - featureless_metrics)
            error = (
                improvement.std(ddof=1) / np.sqrt(len(improvement))
                if len(improvement) > 1
                else np.inf
            )
            averages.append(f"{variant_metrics.mean():.4f}")
            marks.append("worse" if improvement.mean() < -2 * error else "")
        pairs = zip(averages, marks, strict=True)
        line = "  ".join(f"{mean} {mark}".strip() for mean, mark in pairs)
        print(f"{name:<16} {id:<20} {kind:<11} {line}", flush=True)


def main() -> None:
    """Measure all methods on all data sets, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.3, 1.0, 3.0, 10.0])
    parser.add_argument("--mechanisms", nargs="+", default=DEFAULT_MECHANISMS)
    args = parser.parse_args()
    seeds = [list(build_problems(seed)) for seed in range(args.seeds)]
    for seed_problems in zip(*seeds, strict=True):
        name, runs = seed_problems[0][0], [problem for _, problem in seed_problems]
        task = Task.RANKING if runs[0].train.has_only_clicks else Task.RATINGS
        feature_metrics = [
            measure_mechanism(p, registry.WITHOUT_OTHERS_BASELINES[task], None, "with", s)
            for s, p in enumerate(runs)
        ]
        print(f"{name:<16} alone {np.mean(feature_metrics):.4f}", flush=True)
        for id in args.mechanisms:
            if registry.get_mechanism(id).task is task:
                print_row(name, runs, id, args.epsilons)


if __name__ == "__main__":
    main()
