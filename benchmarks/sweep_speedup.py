"""One sweep with one worker and with two: wall time, rows per minute, speed-up, first row; memory.

    python benchmarks/sweep_speedup.py [--seeds N] [--repeats N] [--ratings N]

The command line as anybody types it: the one-bit mechanisms on MovieLens 100K's official split u1
(on the movie-night sample where that is absent), 10 epsilons, each into a new store; linear
algebra has one thread per worker in both. Repeats alternate, and the best time of each counts,
because other programs on the machine can only slow a sweep down; the load is printed beside it.

Memory: of workers on ten million ratings, each user's mean on a new split for each seed, without
the process that gave them the data: proportional set size at the worst of five looks a second
(Linux), where what processes share is counted once.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from answer import shared_once, tree

from dpmc_core import registry
from dpmc_core.data import Dataset
from dpmc_core.lab import sweep
from dpmc_core.model import Task
from dpmc_core.ratings import PublicFacts, Ratings

ROOT = Path(__file__).resolve().parent.parent
FOLD = ROOT.parent / "shared" / "data" / "ml-100k" / "u1"
EPSILONS = (0.1, 0.2, 0.5, 0.7, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0)


def timed(jobs, seeds):
    """(rows, seconds until the first row is stored, seconds in all) of a sweep."""
    data = str(FOLD) if FOLD.with_name("u1.base").is_file() else "movie-night"
    with tempfile.TemporaryDirectory() as folder:
        grid = sweep.Grid(
            data=[data],
            mechanisms=registry.noisy(Task.BINARY),
            epsilons=EPSILONS,
            seeds=range(1, seeds + 1),
        )
        words = sweep.command(grid, store=Path(folder) / "results.sqlite", jobs=jobs)
        begin = time.perf_counter()
        child = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        first, state = None, {}
        for line in child.stdout:
            state = json.loads(line)
            if first is None and state["done"]:
                first = time.perf_counter() - begin
        if child.wait() or state["failed"]:
            raise SystemExit("the sweep failed")
        return state["done"], first, time.perf_counter() - begin


def memory(jobs, source):
    """Megabytes that the workers of a pool hold together, on units of several seeds."""
    grid = sweep.Grid(data=["drawn"], mechanisms=["user-mean"], seeds=range(1, 7))
    units = sweep.plan(grid, [source]).units
    pool = sweep.LocalPool({source.fingerprint: source}, jobs)
    running = [pool.submit(unit) for unit in units if unit.mechanism.id == "user-mean"]
    most = 0.0
    while any(one.running() or not one.done() for one in running):
        most = max(most, shared_once(tree(os.getpid())[1:]))
        time.sleep(0.2)
    pool.close(at_once=False)
    assert not any(isinstance(one.result(), str) for one in running)
    return most


def drawn(count):
    """A hundred ratings a user of 2,000 items."""
    rng, (users, items) = np.random.default_rng(0), (max(10, count // 100), 2_000)
    cells = np.unique(rng.integers(users * items, size=count))
    values = rng.integers(1, 6, size=len(cells)).astype(float)
    public = PublicFacts(users=users, items=items, low=1, high=5)
    ratings = Ratings.build(*np.divmod(cells, items), values, public)
    return sweep.Whole(Dataset(ratings, "drawn", "Drawn", "", "", ()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--ratings", type=int, default=10_000_000)
    args = parser.parse_args()
    best = {}
    for _ in range(args.repeats):
        for jobs in (1, 2):
            load = os.getloadavg()[0]
            rows, first, seconds = timed(jobs, args.seeds)
            print(
                f"{jobs} worker{'s' * (jobs > 1)}: {rows} rows in {seconds:.1f} s,"
                f" {60 * rows / seconds:.0f} rows per minute, first row after {first:.2f} s"
                f" (load {load:.1f} before, {os.getloadavg()[0]:.1f} after)",
                flush=True,
            )
            best[jobs] = min(seconds, best.get(jobs, seconds))
    print(f"speed-up from one worker to two: {best[1] / best[2]:.2f}")
    source = drawn(args.ratings)
    for jobs in (1, 2):
        held = memory(jobs, source)
        print(f"{jobs} workers on {args.ratings:,} ratings: {held:.0f} MB together", flush=True)


if __name__ == "__main__":
    main()
