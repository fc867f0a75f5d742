"""Private taste against private popularity, at the same unit and budget.

    python benchmarks/implicit_feedback.py [--seeds N]

On MovieLens 100K, Amazon Instant Video and a generated shop of 50,000 readers x 2,000 books. The
latest interaction is held out (random where there are no times); HR@10 among 99 sampled negatives
and among all unseen items. The variants of DPIMF beside printed numbers: `dpmc papers ryhh24`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import generated
import numpy as np

from dpmc_core import metrics, registry
from dpmc_core.data import datasets
from dpmc_core.data.transforms import Implicit
from dpmc_core.problem import LeaveLast
from dpmc_core.ratings import Ratings

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def measured(id: str, train: Ratings, test: Ratings, seed: int, epsilon=None) -> np.ndarray:
    """HR@10 and NDCG@10 among sampled negatives, then among all unseen items."""
    mechanism = registry.create(id, epsilon=epsilon)
    for step in mechanism.fit(train, np.random.default_rng([seed, 1])):
        model = step.model
    sampled = metrics.ranking(model, train, test, np.random.default_rng([seed, 2]))
    full = metrics.ranking(model, train, test, np.random.default_rng(seed), negatives=None)
    return np.array([*sampled, *full])


def over_seeds(id: str, ratings: Ratings, seeds: int, epsilon=None) -> np.ndarray:
    """seeds x 4; the split, the noise and the negatives change with the seed."""
    rows = []
    for seed in range(seeds):
        train, test = LeaveLast()(ratings, np.random.default_rng([seed, 0]))
        rows.append(measured(id, train, test, seed, epsilon))
    return np.array(rows)


def text(rows: np.ndarray) -> str:
    """Means with standard errors over the seeds."""
    error = rows.std(axis=0, ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else 0 * rows[0]
    return "  ".join(f"{m:.4f} ({e:.4f})" for m, e in zip(rows.mean(axis=0), error, strict=True))


def load(name: str) -> Ratings:
    files = {"ml-100k": "ml-100k/u.data", "amazon": "amazon-instant-video"}
    ratings = datasets.load(str(DATA / files[name])).ratings
    return Implicit().apply(ratings, ratings)


def user_level(seeds: int) -> None:
    print("\nper user, delta 1e-6: private taste - private popularity, hr@10 among 99 negatives")
    for name in ("ml-100k", "amazon", "shop 50,000 x 2,000"):
        ratings = generated.large_bookshop(3) if name.startswith("shop") else load(name)
        for epsilon in (1.0, 2.0, 5.0):
            start = time.perf_counter()
            floor = over_seeds("private-popularity", ratings, seeds, epsilon)
            found = over_seeds("private-taste", ratings, seeds, epsilon)
            gap = found[:, :1] - floor[:, :1]
            print(
                f"{name:<20} eps {epsilon:g}  floor {floor[:, 0].mean():.4f}"
                f"  taste {found[:, 0].mean():.4f}  gap {text(gap)}"
                f"  all unseen {floor[:, 2].mean():.4f} / {found[:, 2].mean():.4f}"
                f"  {time.perf_counter() - start:.0f} s",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    user_level(args.seeds)


if __name__ == "__main__":
    main()
