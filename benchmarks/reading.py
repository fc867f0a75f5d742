"""Measure processor time and memory of reading ratings by format, compared with pandas.

    python benchmarks/reading.py [ROWS] [--kind once|many]

There are two kinds of file: `once`, in which every user has one rating, and `many`, with many
ratings of each user, as in MovieLens-1M (6,040 users and 3,706 items). Each file is read in a
process of its own, and compared with pandas.read_csv, pandas.read_json(lines=True) or
pandas.read_parquet of the same file. Processor times are per million ratings, the best of three.
Memory is the growth of the process at its peak. It is compared with the size of the columns: codes
of users and items, ratings and times with 8 bytes each, and the bytes of the distinct ids.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet  # noqa: F401 - loaded before memory is measured

from dpmc_data import datasets

ONCE_ITEMS, WIDE_ITEMS, REPEATS = 2_000, 250, 3
MANY_SIZE = (6_040, 3_706)  # users, items
# The separator of pandas is one character, so with "::" every second field is empty.
PANDAS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "CSV": (pd.read_csv, {}),
    "TSV": (pd.read_csv, {"sep": "\t"}),
    "::": (pd.read_csv, {"sep": ":", "header": None}),
    "JSON lines": (pd.read_json, {"lines": True}),
    "Parquet": (pd.read_parquet, {}),
    "wide": (pd.read_csv, {}),
}
COLUMN_WIDTHS = (
    ("MB", 7),
    ("s", 8),
    ("processor s", 13),
    ("pandas s", 10),
    ("ratio", 7),
    ("MB peak", 9),
    ("columns", 9),
    ("ratio", 7),
)


def main() -> None:
    """Measure every format, and print a table for each kind of file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000, help="ratings (1000000)")
    parser.add_argument("--kind", choices=("once", "many"), help="of file (both)")
    args = parser.parse_args()
    for kind in (args.kind,) if args.kind else ("once", "many"):
        print(
            f"\n{kind}\n{'format':<12}"
            + "".join(f"{head:>{width}}" for head, width in COLUMN_WIDTHS)
        )
        with tempfile.TemporaryDirectory() as folder:
            for name, path in write_files(Path(folder), args.rows, kind):
                seconds, processor_seconds, (count, size), peak = _measure_in_process(
                    _read_with_dpmc, path
                )
                _, pandas_seconds, _, _ = _measure_in_process(_read_with_pandas, path, name)
                million = 1e6 / count
                print(
                    f"{name:<12}{path.stat().st_size / 1e6:>7.0f}{seconds * million:>8.2f}"
                    f"{processor_seconds * million:>13.2f}{pandas_seconds * million:>10.2f}"
                    f"{processor_seconds / pandas_seconds:>7.1f}"
                    f"{peak:>9.0f}{size:>9.0f}{peak / size:>7.1f}",
                    flush=True,
                )
                path.unlink()


def write_files(folder: Path, rows: int, kind: str, seed: int = 0) -> Iterator[tuple[str, Path]]:
    """Write the same ratings in each format, one file after the other, in random order.

    The kind `once` has every user once, and `many` has distinct cells of few users. The format
    `wide` always has half the cells of a matrix.

    Args:
        folder: where to write.
        rows: number of ratings.
        kind: `once` or `many`.
        seed: of the random numbers.

    Yields:
        The name of the format, and the path.
    """
    rng = np.random.default_rng(seed)
    if kind == "once":
        users, items = rng.permutation(rows), rng.integers(ONCE_ITEMS, size=rows)
    else:
        width = MANY_SIZE[1]
        # Each pair occurs once, and at most half of the cells are used.
        height = max(MANY_SIZE[0], -(-2 * rows // width))
        users, items = np.divmod(rng.permutation(height * width)[:rows], width)
    mark = "user" if kind == "once" else ""
    texts = {
        "user": np.array([f"{mark}{k}" for k in range(users.max() + 1)], dtype=object)[users],
        "item": np.array([f"item{k}" for k in range(items.max() + 1)], dtype=object)[items],
    }
    frame = pd.DataFrame(
        texts
        | {
            "rating": rng.integers(1, 11, size=rows) / 2,
            "timestamp": rng.integers(978_300_760, 1_711_908_000, size=rows),
        }
    )
    del texts
    path = folder / "ratings.csv"
    frame.to_csv(path, index=False)
    yield "CSV", path
    path = folder / "ratings.tsv"
    frame.to_csv(path, index=False, sep="\t")
    yield "TSV", path
    path = folder / "ratings.dat"
    with path.open("w") as file:
        columns = (frame[name].tolist() for name in frame)
        file.writelines(f"{u}::{i}::{r}::{t}\n" for u, i, r, t in zip(*columns, strict=True))
    yield "::", path
    path = folder / "ratings.jsonl"
    frame.to_json(path, orient="records", lines=True)
    yield "JSON lines", path
    path = folder / "ratings.parquet"
    frame.to_parquet(path)
    yield "Parquet", path
    del frame
    path = folder / "wide.csv"
    with path.open("w") as file:
        file.write("user," + ",".join(f"item{k}" for k in range(WIDE_ITEMS)) + "\n")
        for user in range(2 * rows // WIDE_ITEMS):
            cells = rng.integers(1, 6, size=WIDE_ITEMS).astype(str)
            cells[rng.random(WIDE_ITEMS) < 0.5] = ""
            file.write(f"user{user}," + ",".join(cells) + "\n")
    yield "wide", path


def _measure_in_process(
    read: Callable[..., Any], *arguments: Any
) -> tuple[float, float, Any, float]:
    """Return seconds, processor seconds, the result of `read` and added megabytes."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure, read, *arguments).result()


def _measure(read: Callable[..., Any], *arguments: Any) -> tuple[float, float, Any, float]:
    """Return the same as `_measure_in_process`, measured in this process."""
    seconds, processor_times = [], []
    prior_memory, peak = _read_resident("VmRSS:"), 0.0
    for _ in range(REPEATS):
        start, processor = time.perf_counter(), time.process_time()
        result = read(*arguments)
        seconds.append(time.perf_counter() - start)
        processor_times.append(time.process_time() - processor)
        # Only of the first reading, since later ones reuse memory that the allocator has kept.
        peak = peak or _read_resident("VmHWM:") - prior_memory
    return min(seconds), min(processor_times), result, peak


def _read_with_dpmc(path: Path) -> tuple[int, float]:
    """Return the number of ratings, and the megabytes of their columns."""
    # If every user has one rating, the column of users has to be named.
    user = {} if path.name == "wide.csv" else {"user": 1}
    ratings = datasets.load(path, low=0.5, high=5, max_bytes=2_000_000_000, **user).ratings
    ids = sum(len(name) for names in (ratings.user_ids, ratings.item_ids) for name in names or ())
    return len(ratings), (4 * 8 * len(ratings) + ids) / 1e6


def _read_with_pandas(path: Path, name: str) -> int:
    """Return the number of rows that pandas reads from a file of a format."""
    read, options = PANDAS[name]
    return len(read(path, **options))


def _read_resident(name: str) -> float:
    """Return the megabytes of this program now (VmRSS) or at its peak (VmHWM)."""
    try:  # ru_maxrss would start at the peak of the parent process
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


if __name__ == "__main__":
    main()
