"""Time to a relative objective gap of 1e-3: this project's solver against a plain dense one.

    python benchmarks/solver.py [--base FILE] [--repeats N]

One-bit completion without privacy (logistic link, radius 0.7 sqrt(users x items), no bound) of
MovieLens 100K's u1.base, or of the movie-night sample where that file is absent. The peer is
written out below: the same spectral projected gradient with a full SVD in every projection. Both
run in this process, alternating; the figure is the ratio of their median times.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

from dpmc_core.data import datasets
from dpmc_core.links import LOGISTIC
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.one_bit import NuclearBall, likelihood, minimise

U1 = Path(__file__).resolve().parents[2] / "shared" / "data" / "ml-100k" / "u1.base"


def dense_spg(loss, ratings, radius, target):
    """Non-monotone spectral projected gradient, one full SVD per projection, until `target`."""
    cells = ratings.users, ratings.items
    x = np.zeros(ratings.shape)
    objective, gradient = loss(x[cells])
    history, step = [objective], 1.0
    rounds = 0
    while objective > target:
        rounds += 1
        moved = x.copy()
        moved[cells] -= step * gradient
        u, s, vt = np.linalg.svd(moved, full_matrices=False)
        if s.sum() > radius:
            means = (np.cumsum(s) - radius) / np.arange(1, len(s) + 1)
            s = np.maximum(s - means[np.flatnonzero(s > means)[-1]], 0)
        direction = (u * s) @ vt - x
        slope = float(gradient @ direction[cells])
        share = 1.0
        while True:
            trial, trial_gradient = loss((x + share * direction)[cells])
            if trial <= max(history[-10:]) + 1e-4 * share * slope:
                break
            share /= 2
        change = share * direction
        curvature = float(change[cells] @ (trial_gradient - gradient))
        step = float(np.clip(np.vdot(change, change) / curvature, 1e-3, 1e3))
        x, objective, gradient = x + change, trial, trial_gradient
        history.append(objective)
    return rounds


def ours(loss, ratings, radius, target):
    feasible = NuclearBall(Pattern.of(ratings), radius, np.random.default_rng(0))
    for iterate in minimise(loss, feasible, iterations=1000, tolerance=1e-9):
        if iterate.objective <= target:
            return iterate.index
    raise SystemExit("the target was not reached")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, default=U1)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    source = str(options.base) if options.base.exists() else "movie-night"
    ratings = datasets.load(source).ratings
    labels = (ratings.values >= ratings.values.mean()).astype(float)
    loss = likelihood(LOGISTIC, labels)
    radius = 0.7 * np.sqrt(np.prod(ratings.shape))
    feasible = NuclearBall(Pattern.of(ratings), radius, np.random.default_rng(0))
    *_, best = minimise(loss, feasible, iterations=1000, tolerance=1e-5)
    target = best.objective * (1 + 1e-3)
    print(f"{Path(source).name}: {len(ratings):,} ratings, optimum {best.objective:.1f}")
    seconds: dict[str, list[float]] = {"dense": [], "ours": []}
    for _ in range(options.repeats):
        for name, solver in (("dense", dense_spg), ("ours", ours)):
            start = time.perf_counter()
            rounds = solver(loss, ratings, radius, target)
            seconds[name].append(time.perf_counter() - start)
            print(f"  {name}: {rounds} rounds, {seconds[name][-1]:.2f} s")
    dense, own = (statistics.median(seconds[name]) for name in ("dense", "ours"))
    print(f"ratio of medians, ours / dense: {own / dense:.3f}")


if __name__ == "__main__":
    main()
