"""Seconds and memory to read a million ratings of a million users, format by format.

    python benchmarks/reading.py [ROWS]

Each generated file is read in a process of its own, beside pandas.read_csv of it (for JSON lines
and Parquet: of the same rows as CSV). Times are per million ratings, the best of three; the ratio
is of processor time, which other programs on the machine change less.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpmc_core.data import datasets

ITEMS, WIDE_ITEMS, REPEATS = 2_000, 250, 3
PANDAS: dict[str, dict[str, Any]] = {
    "TSV": {"sep": "\t"},
    "::": {"sep": ":", "header": None},  # pandas takes one character: every second field is empty
    "wide": {},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000, help="ratings (1000000)")
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        files = write(Path(folder), rows)
        heads = (
            ("MB", 7),
            ("s", 8),
            ("processor s", 13),
            ("pandas s", 10),
            ("ratio", 7),
            ("MB peak", 9),
        )
        print(f"{'format':<12}" + "".join(f"{head:>{width}}" for head, width in heads))
        for name, path in files.items():
            seconds, busy, count, peak = _alone(_dpmc, path)
            plain = path if path.suffix in (".csv", ".tsv", ".dat") else files["CSV"]
            _, other, _, _ = _alone(_pandas, plain, PANDAS.get(name, {}))
            million = 1e6 / count
            print(
                f"{name:<12}{path.stat().st_size / 1e6:>7.0f}{seconds * million:>8.2f}"
                f"{busy * million:>13.2f}{other * million:>10.2f}{busy / other:>7.1f}{peak:>9.0f}",
                flush=True,
            )


def write(folder: Path, rows: int, seed: int = 0) -> dict[str, Path]:
    """The same ratings in each format, every user once, in random order; wide: as many cells."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "user": [f"user{k}" for k in rng.permutation(rows)],
            "item": [f"item{k}" for k in rng.integers(ITEMS, size=rows)],
            "rating": rng.integers(1, 11, size=rows) / 2,
            "timestamp": rng.integers(978_300_760, 1_711_908_000, size=rows),
        }
    )
    paths = {
        name: folder / f"million.{end}"
        for name, end in (("CSV", "csv"), ("TSV", "tsv"), ("::", "dat"), ("JSON lines", "jsonl"),
                          ("Parquet", "parquet"), ("wide", "wide.csv"))
    }  # fmt: skip
    frame.to_csv(paths["CSV"], index=False)
    frame.to_csv(paths["TSV"], index=False, sep="\t")
    with paths["::"].open("w") as file:
        columns = (frame[name].tolist() for name in frame)
        file.writelines(f"{u}::{i}::{r}::{t}\n" for u, i, r, t in zip(*columns, strict=True))
    frame.to_json(paths["JSON lines"], orient="records", lines=True)
    frame.to_parquet(paths["Parquet"])
    with paths["wide"].open("w") as file:
        file.write("user," + ",".join(f"item{k}" for k in range(WIDE_ITEMS)) + "\n")
        for user in range(2 * rows // WIDE_ITEMS):  # half of the cells are filled
            cells = rng.integers(1, 6, size=WIDE_ITEMS).astype(str)
            cells[rng.random(WIDE_ITEMS) < 0.5] = ""
            file.write(f"user{user}," + ",".join(cells) + "\n")
    return paths


def _alone(read: Callable[..., int], *what: Any) -> tuple[float, float, int, float]:
    """Seconds, processor seconds, ratings and peak megabytes of `read` in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measured, read, *what).result()


def _measured(read: Callable[..., int], *what: Any) -> tuple[float, float, int, float]:
    seconds, busy = [], []
    for _ in range(REPEATS):
        start, processor = time.perf_counter(), time.process_time()
        count = read(*what)
        seconds.append(time.perf_counter() - start)
        busy.append(time.process_time() - processor)
    return min(seconds), min(busy), count, _peak()


def _dpmc(path: Path) -> int:
    return len(datasets.load(path, low=0.5, high=5).ratings)


def _pandas(path: Path, how: dict[str, Any]) -> int:
    return len(pd.read_csv(path, **how))


def _peak() -> float:
    try:  # of this program alone: ru_maxrss starts at that of the process that started it
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    main()
