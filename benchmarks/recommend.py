"""Compare the methods that may be recommended, on generated data of several sizes.

    python benchmarks/recommend.py [--seeds 3] [--jobs N] [--epsilons 0.3 1 3]

Each line compares two methods that certify the same epsilon for the same privacy unit. RMSE and
HR@10 are for evaluation only, not private.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from dpmc_core import experiment, registry
from dpmc_core.dataset import Dataset
from dpmc_core.metrics import choose_headline_metric
from dpmc_core.model import Task
from dpmc_core.privacy import CELL, USER_EMPTIED, Budget, Change, Guarantee
from dpmc_core.privacy.guarantee import calibrate
from dpmc_core.problem import Problem, build_problem
from sample_data import generate

DELTA = 1e-6
SIZES = ((150, 200, 6_000), (500, 300, 40_000), (600, 1_200, 100_000), (3_000, 600, 300_000))
PAIRS: tuple[tuple[Change, str, str], ...] = (
    (CELL, "modified-laplace", "randomised-response"),
    (CELL, "randomised-response", "private-effects"),
    (USER_EMPTIED, "private-own-mean", "private-effects"),
    (CELL, "ldpicf", "dplcf"),
    (CELL, "dplcf", "private-taste"),
    (USER_EMPTIED, "private-popularity", "private-taste"),
)


@lru_cache(maxsize=4)
def generate_problem(size: tuple[int, int, int], task: str, seed: int) -> Problem:
    """Generate a problem of this size for a task."""
    users, items, ratings = size
    generated = generate.generate_long_tail(seed, users=users, items=items, ratings=ratings).ratings
    data = Dataset(generated, "drawn")
    return build_problem(data, Task(task), seed=seed)


def run_once(
    id: str, change: Change, epsilon: float, size: tuple[int, int, int], seed: int
) -> float:
    """Return the metric of one run with the setting that certifies epsilon for the change.

    Args:
        id: of the method.
        change: how neighbouring data sets differ.
        epsilon: to certify.
        size: numbers of users, items and ratings.
        seed: of the data, the split and the noise.
    """
    cls = registry.get_mechanism(id)
    generated = generate_problem(size, cls.task.value, seed)
    setting = None
    if registry.adds_noise(cls):

        def build_guarantee(setting_value: float) -> Guarantee:
            """Return the guarantee of the method at a setting of epsilon."""
            return registry.create(id, epsilon=setting_value).guarantee(generated.train.public)

        setting = calibrate(build_guarantee, Budget(epsilon, DELTA), change)
    fitted = experiment.fit(registry.create(id, epsilon=setting), generated, seed)
    return experiment.measure(fitted).metrics[choose_headline_metric(cls.task).name]


def main() -> None:
    """Compare all pairs of methods, and print a line for each size and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    options = parser.parse_args()
    seeds = range(1, options.seeds + 1)
    with ProcessPoolExecutor(options.jobs) as pool:
        for change, *rivals in PAIRS:
            print(f"\n{change.label}: {' against '.join(rivals)}", flush=True)
            runs = {
                (size, epsilon): [
                    [pool.submit(run_once, id, change, epsilon, size, seed) for seed in seeds]
                    for id in rivals
                ]
                for size in SIZES
                for epsilon in options.epsilons
            }
            for (size, epsilon), pair in runs.items():
                averages = [float(np.mean([run.result() for run in group])) for group in pair]
                users, items, ratings = size
                sizes = f"{users:>5,} users {items:>5,} items {ratings / users:>4.0f} each"
                print(
                    f"  {sizes}  epsilon {epsilon:<4g} {averages[0]:.4f} {averages[1]:.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
