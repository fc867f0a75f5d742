"""Check how real files of ratings are read: right, after a question, not at all, or wrong.

    python benchmarks/wild.py [FOLDER] [--only WORD] [--long]

FOLDER (../shared/data/wild) has the files, and `right.json` with the truth about each. A file
counts as `read` if users, items, ratings and their mean agree; as `asked` if one of the readings
that `dpmc data check` offers gives these; as `refused` if no reading is offered; as `unoffered` if
none of the readings offered is right; and as `misread` if it is read with other ratings, or "This
reads it" gives others. The script ends with an error if a file is misread.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from dpmc_core.errors import DpmcError
from dpmc_data import datasets

SHAPE = {"users", "items"}  # the values that agree even if rows beyond the range are left out
WILD = Path(__file__).resolve().parents[2] / "shared" / "data" / "wild"


def main() -> None:
    """Judge the files of a folder, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=WILD, help="of the files")
    parser.add_argument("--only", default="", help="files whose name holds this")
    parser.add_argument("--long", action="store_true", help="whole sentences")
    args = parser.parse_args()
    outcomes = judge_folder(args.folder, args.only)
    for name, (outcome, note) in outcomes.items():
        print(f"{name:34}{outcome:10}{note if args.long else note[:150]}")
    counts = Counter(outcome for outcome, _ in outcomes.values())
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    sys.exit(bool(counts["misread"]))


def judge_folder(folder: Path, only: str = "") -> dict[str, tuple[str, str]]:
    """Return the outcome of each file of right.json, and a note, by name."""
    truths = json.loads((folder / "right.json").read_text(encoding="utf-8"))
    return {name: judge(folder / name, truth) for name, truth in truths.items() if only in name}


def judge(path: Path, truth: dict[str, Any]) -> tuple[str, str]:
    """Return the outcome of a file (read, asked, refused, unoffered or misread) and a note.

    Args:
        path: the file.
        truth: the right values by name.
    """
    options: dict[str, Any] = {}
    mean = truth.get("mean", 1)
    ends = truth.get("range", "0:1" if mean < 1 else "1:5" if mean <= 5 else "0:1000")
    if ends is not None:
        options = dict(zip(("low", "high"), map(float, ends.split(":")), strict=True))
    try:
        summary = describe(datasets.load(path, **options))
    except DpmcError as error:
        refusal = str(error)
    else:
        return ("read" if agrees(summary, truth) else "misread"), format_counts(summary)
    try:
        examination = datasets.examine_file(path, **options)
    except DpmcError as error:
        return "refused", str(error)
    notes = []
    for reading in examination.readings:
        try:
            summary = describe(datasets.load(path, **{**options, **reading.options}))
        except DpmcError as error:
            notes.append(f"{reading.options}: {error}")
            continue
        expected = truth
        if "bad_rows" in reading.options:
            expected = {name: truth[name] for name in SHAPE & {*truth}}
        if agrees(summary, expected):
            return "asked", f"{len(examination.readings)} readings: {reading.options}"
        notes.append(f"{reading.options}: {format_counts(summary)}")
        if examination.only and "n" in truth:
            return "misread", f"'This reads it' {notes[-1]}"
    if examination.readings and "n" in truth:
        return "unoffered", " | ".join([refusal, *notes])
    return "refused", " | ".join([refusal, *notes])


def describe(data: datasets.LoadedDataset) -> dict[str, float]:
    """Return the values of a data set that are compared, by name."""
    ratings = data.ratings
    return {
        "users": ratings.public.users,
        "items": ratings.public.items,
        "n": len(ratings),
        "mean": float(ratings.values.mean()),
    }


def agrees(summary: dict[str, float], truth: dict[str, Any]) -> bool:
    """Return whether a summary has all right values; False if none is given."""
    expected = {name: truth[name] for name in summary if name in truth}
    return bool(expected) and all(
        math.isclose(summary[name], value, abs_tol=1e-5) for name, value in expected.items()
    )


def format_counts(summary: dict[str, float]) -> str:
    """Return a summary as text."""
    return ", ".join(f"{name} {value:g}" for name, value in summary.items())


if __name__ == "__main__":
    main()
