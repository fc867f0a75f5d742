"""User-level privacy on Jester part 1: every method of the family in one table.

    python benchmarks/jester.py [FOLDER] [--epsilon 0.5 1] [--only ID ...] [--splits SEED ...]

FOLDER holds jester-data-1.csv (default: ../shared/data/jester). Three named splits hold out 1 % of
the ratings each; three seeds of the mechanism's randomness per split; scale 0..5; delta 1e-6. Every
mechanism runs with one setting throughout, its documented default. The defaults were chosen on a
validation share of Jester drawn without regard to these splits, so tuning saw their test ratings.
The certified value counts every release, for a row that is emptied / replaced. RMSE is evaluation
only, not private.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np

from dpmc_core import experiment, registry
from dpmc_core.data import datasets
from dpmc_core.data.transforms import Rescale
from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import USER_EMPTIED, USER_REPLACED
from dpmc_core.problem import Problem, RandomShare, build_problem, generator
from dpmc_core.settings import parse_setting

SPLITS = {"split A": 1, "split B": 2, "split C": 3}
SEEDS = (1, 2, 3)
REPORTED = (USER_EMPTIED, USER_REPLACED)
FREE = ("user-mean", "item-mean", "frank-wolfe", "als", "pgd", "svd", "cleansed-svd")
# The published kind of noise and no item means; radius, rounds and clip, which the paper leaves to
# cross-validation, from about a dozen tried on the same share.
AS_PUBLISHED = {
    "estimator": "published",
    "calibration": "paper",
    "residual": "2",
    "symmetric": "false",
    "item_share": "0",
    "rounds": "3",
    "radius": "0.6",
    "clip": "0.25",
}
PRIVATE = (
    ("private-effects", {}),
    ("private-item-mean", {}),
    ("private-frank-wolfe", {}),
    ("private-frank-wolfe", {"calibration": "paper"}),
    ("private-frank-wolfe", AS_PUBLISHED),
    ("private-frank-wolfe-oja", {}),
    ("private-svd", {}),
    ("private-pgd", {}),
    ("svd-after-cleansing", {}),
    ("dpals", {}),
    ("dpals", {"items": "tail"}),
    ("dpals", {"items": "adaptive"}),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    home = Path(__file__).resolve().parents[2] / "shared" / "data" / "jester"
    parser.add_argument("folder", nargs="?", type=Path, default=home)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.5, 1.0])
    parser.add_argument("--only", nargs="+", default=None, metavar="ID")
    parser.add_argument(
        "--splits",
        nargs="+",
        type=int,
        metavar="SEED",
        help="other splits than A, B and C, such as some that no default was ever looked at on",
    )
    options = parser.parse_args()
    splits = {f"split {s}": s for s in options.splits} if options.splits else SPLITS
    if not (options.folder / "jester-data-1.csv").is_file():
        print(f"there is no jester-data-1.csv in {options.folder}: give its folder")
        return

    def wanted(id: str) -> bool:
        return options.only is None or id in options.only

    dataset = datasets.load(options.folder)
    problems = {
        name: build_problem(
            dataset, Task.RATINGS, steps=[Rescale(0, 5)], split=RandomShare(0.01), seed=seed
        )
        for name, seed in splits.items()
    }
    print(
        f"{'method':40} {'eps':>4} {'certified':>15} {'':1}", *(f"{n:>9}" for n in splits), end=""
    )
    print(f" {'mean':>8} {'seconds':>8}")
    for id in FREE:
        if wanted(id):
            row(registry.create(id), problems, "none", id, seeds=SEEDS[:1])
    for epsilon in options.epsilon:
        for id, text in PRIVATE:
            if not wanted(id):
                continue
            settings = {
                name: parse_setting(registry.get(id), name, value) for name, value in text.items()
            }
            mechanism = registry.create(id, epsilon=epsilon, delta=1e-6, **settings)
            words = ", ".join(f"{name} {value}" for name, value in text.items())
            if text is AS_PUBLISHED:
                words = "as published"
            row(mechanism, problems, f"{epsilon:g}", f"{id} {words}".strip(), SEEDS)


def row(
    mechanism: Mechanism,
    problems: dict[str, Problem],
    epsilon: str,
    name: str,
    seeds: tuple[int, ...],
) -> None:
    """One line: RMSE of each split (mean over seeds), their mean, seconds a run."""
    public = next(iter(problems.values())).train.public
    card = mechanism.guarantee(public)
    shown = "-"
    if card.claimed:
        empty, other = (card.certified(change).epsilon for change in REPORTED)
        shown = f"{empty:.3f} / {other:.3f}"
    start, means = time.perf_counter(), []
    for problem in problems.values():
        found = []
        for seed in seeds:
            rng = generator(seed, experiment.key_of(mechanism, problem))
            for step in mechanism.fit(problem.train, rng):
                model = step.model
            found.append(experiment.measure(mechanism, model, problem, seed)["rmse"])
        means.append(float(np.mean(found)))
    each = (time.perf_counter() - start) / (len(problems) * len(seeds))
    print(f"{name:40} {epsilon:>4} {shown:>15} {'':1}", *(f"{m:9.4f}" for m in means), end="")
    print(f" {math.fsum(means) / len(means):8.4f} {each:8.1f}", flush=True)


if __name__ == "__main__":
    main()
