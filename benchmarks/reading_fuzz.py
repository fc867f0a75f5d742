"""Read generated files of ratings, and compare with a slow, simple reader.

    python benchmarks/reading_fuzz.py [COUNT] [--seed N] [--keep FOLDER]

The script prints every traceback and mismatch, the slowest file and the one that needs most memory.
It ends with an error if a file is read wrong, takes over 2 s or needs over 500 MB. Failing files
are written to FOLDER.
"""

from __future__ import annotations

import argparse
import faulthandler
import resource
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.reading_files import (
    File,
    find_disagreement,
    find_killing_signal,
    generate,
    read_with_oracle,
    read_with_program,
)

SECONDS, MEGABYTES = 2.0, 500.0


def main() -> None:
    """Read generated files, and print what was wrong with them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("count", nargs="?", type=int, default=20_000, help="files (20000)")
    parser.add_argument("--seed", type=int, default=0, help="of the first file; then 1 more each")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where failing files go")
    args = parser.parse_args()
    faulthandler.enable()
    warnings.simplefilter("error")  # a warning shows a case that the reader does not handle
    read_with_program(generate(Random(1)), "error")  # so that imports count for no file
    counts_by_kind: Counter[str] = Counter()
    faults = 0
    slowest, largest = (0.0, ""), (0.0, "")
    start = time.perf_counter()
    for seed in range(args.seed, args.seed + args.count):
        file = generate(Random(seed))
        for bad_rows in ("error", "leave-out"):
            problem, seconds, megabytes = _check_file(file, bad_rows)
            label = f"seed {seed} ({file.kind}, bad_rows={bad_rows})"
            counts_by_kind[
                f"{file.kind}: {type(read_with_oracle(file, bad_rows)).__name__.lower()}"
            ] += 1
            slowest = max(slowest, (seconds, label))
            largest = max(largest, (megabytes, label))
            if seconds > SECONDS or megabytes > MEGABYTES:
                problem += f"\n{seconds:.1f} s, {megabytes:.0f} MB"
            if problem:
                faults += 1
                print(f"--- {label}\n{problem}\n{file.options}\n{file.content[:600]!r}", flush=True)
                if args.keep:
                    _save_failing(file, args.keep / f"{seed}-{bad_rows}")
    print(f"{args.count:,} files, each read twice, in {time.perf_counter() - start:.0f} s")
    for kind, amount in sorted(counts_by_kind.items()):
        print(f"  {kind:24}{amount:>8,}")
    print(f"slowest: {slowest[0]:.2f} s, {slowest[1]}")
    print(f"most memory for one file: {largest[0]:.0f} MB, {largest[1]}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak resident memory: {peak:.0f} MB")
    print(f"wrong: {faults:,}")
    sys.exit(bool(faults))


def _check_file(file: File, bad_rows: str) -> tuple[str, float, float]:
    """Return what is wrong, the seconds of reading, and the megabytes by which the process grew."""
    if problem := find_killing_signal(file, bad_rows):
        return problem, 0.0, 0.0
    prior_memory = _read_resident()
    start = time.perf_counter()
    try:
        data = read_with_program(file, bad_rows)
    except Exception:  # what a user would see as a traceback
        problem = traceback.format_exc(limit=-4)
    seconds, megabytes = time.perf_counter() - start, _read_resident(peak=True) - prior_memory
    return problem or find_disagreement(file, bad_rows, data), seconds, megabytes


def _read_resident(peak: bool = False) -> float:
    """Return the resident megabytes now, from which the peak counts, or the peak since then."""
    try:
        if not peak:
            Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:  # no Linux: growth of the peak over the whole run
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    name = "VmHWM:" if peak else "VmRSS:"
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def _save_failing(file: File, target: Path) -> None:
    """Write a file and its reading options beside each other."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.with_suffix(Path(file.name).suffix).write_bytes(file.content)
    target.with_suffix(".options").write_text(f"{file.options!r}\n")


if __name__ == "__main__":
    main()
