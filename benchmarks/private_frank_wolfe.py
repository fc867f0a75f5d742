"""Private Frank-Wolfe at the scale of JTT18's synthetic data: 40,000,000 ratings.

    python benchmarks/private_frank_wolfe.py [--users 500000] [--items 400] [--per-user 80]

Generates a rank-one matrix in blocks, runs 20 rounds, and prints a line a round with the time left,
the peak memory, and the cost of a round against one pass over the ratings' bytes (reading the row
starts, items and values once, summed) on the same machine.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from dpmc_core import registry
from dpmc_core.data import synthetic
from dpmc_core.ratings import Ratings

ROUNDS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=500_000)
    parser.add_argument("--items", type=int, default=400)
    parser.add_argument("--per-user", type=int, default=80)
    options = parser.parse_args()

    start = time.perf_counter()
    sizes = {"users": options.users, "items": options.items, "per_user": options.per_user}
    made = synthetic.rank_one(np.random.default_rng(0), **sizes)
    ratings, truth = made.ratings, made.truth
    print(f"{len(ratings):,} ratings of {ratings.shape} in {time.perf_counter() - start:.1f} s")
    one_pass = seconds_of_one_pass(ratings)
    size = ratings.users.nbytes + ratings.items.nbytes + ratings.values.nbytes
    print(f"one pass over their {size / 2**30:.2f} GiB: {one_pass:.2f} s")

    mechanism = registry.create("private-frank-wolfe", epsilon=1.0, delta=1e-6, rounds=ROUNDS)
    card = mechanism.guarantee(ratings.public).certified()
    print(f"{mechanism.name}, certified epsilon {card.epsilon:.4g} per user at delta {card.delta}")
    start = time.perf_counter()
    ends = [start]
    for step in mechanism.fit(ratings, np.random.default_rng(0)):
        ends.append(time.perf_counter())
        spent = ends[-1] - start
        left = spent / step.index * (step.total - step.index)
        error = step.trace["training rmse"]
        print(
            f"round {step.index:2} of {step.total}: training rmse {error:.4f},"
            f" {spent:.0f} s spent, {left:.0f} s left, peak {peak():.2f} GiB",
            flush=True,
        )
    each = float(np.median(np.diff(ends)[1:]))
    print(f"a round takes {each:.2f} s: {each / one_pass:.0f} passes over the ratings' bytes")
    sample = np.random.default_rng(1)
    users = sample.integers(0, options.users, 200_000)
    items = sample.integers(0, options.items, 200_000)
    error = step.model.predict(users, items) - truth.predict(users, items)
    spread = truth.predict(users, items).std()
    print(
        f"rmse of 200,000 random cells {np.sqrt(np.mean(error**2)):.4f}, their spread {spread:.4f}"
    )
    print(f"peak resident memory {peak():.2f} GiB")


def seconds_of_one_pass(ratings: Ratings) -> float:
    """Best of three reads of every byte of the ratings."""
    found = []
    for _ in range(3):
        start = time.perf_counter()
        for array in (ratings.users, ratings.items, ratings.values):
            array.view(np.int64 if array.nbytes % 8 == 0 else np.uint8).sum()
        found.append(time.perf_counter() - start)
    return min(found)


def peak() -> float:
    """Largest resident memory so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
