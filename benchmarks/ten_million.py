"""Ten million ratings on this machine, from the file to three private models, and Stop on the way.

    python benchmarks/ten_million.py [--ratings N]

Writes a CSV file of 100,000 users and 2,000 items, then reads and describes it and fits `dpals`,
`private-effects` and `input-flip` at epsilon 1, telling how far each is. At last a fit is asked to
stop, and how long that takes is printed. Goal: five minutes, 4 GB; the file is not counted.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from table import films

from dpmc_core import load, registry
from dpmc_core.data.transforms import apply_steps, parse_step
from dpmc_core.ratings import Ratings
from dpmc_core.stopping import Stopped, stopping

USERS, ITEMS = 100_000, 2_000
METHODS = ("dpals", "private-effects", "input-flip")


def write(path: Path, count: int) -> None:
    import pandas as pd

    ratings = films(USERS, ITEMS, count)
    order = np.random.default_rng(1).permutation(count)
    columns = {"user": ratings.users + 1, "item": ratings.items + 1, "rating": ratings.values}
    frame = pd.DataFrame({name: found[order].astype(np.int32) for name, found in columns.items()})
    frame.to_csv(path, index=False)


def fit(id: str, ratings: Ratings) -> None:
    start = time.perf_counter()
    for step in registry.create(id, epsilon=1.0).fit(ratings, np.random.default_rng(0)):
        spent = time.perf_counter() - start
        print(f"  {id}: {step.index} of {step.total}, {spent:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ratings", type=int, default=10_000_000)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write(options.write, options.ratings)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ratings.csv"  # by another process: its memory is not counted
        words = [sys.executable, __file__, "--ratings", str(options.ratings), "--write", str(path)]
        subprocess.run(words, check=True)
        print(f"a file of {path.stat().st_size / 1e6:,.0f} MB", flush=True)
        begun = time.perf_counter()
        data = load(path, low=1, high=5)
        print(f"read in {time.perf_counter() - begun:.1f} s", *data.report, sep="\n  ", flush=True)
    signs = None
    for id in METHODS:
        ratings = data.ratings
        if id == "input-flip":
            signs = ratings = apply_steps([parse_step("binarise=middle")], ratings, None)[0]
        fit(id, ratings)
    spent = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"in all {spent:.0f} s (goal 300), at most {peak:.2f} GB (goal 4)", flush=True)
    for id in METHODS:
        asked = time.monotonic() + 2.0
        try:
            with stopping(lambda asked=asked: time.monotonic() > asked):
                ratings = signs if id == "input-flip" and signs is not None else data.ratings
                for _ in registry.create(id, epsilon=1.0).fit(ratings, np.random.default_rng(0)):
                    pass
            print(f"{id}: done before it was asked to stop")
        except Stopped:
            print(f"{id}: stopped {time.monotonic() - asked:.2f} s after it was asked")


if __name__ == "__main__":
    main()
