"""Files as people bring them: read right, asked about with the right reading offered, or refused.

    python benchmarks/wild.py [FOLDER] [--only WORD] [--long]

FOLDER holds the files and `right.json`, what each of them says (../shared/data/wild). A file counts
as read right if users, items, ratings and their mean agree; as asked if one of the readings that
`dpmc data check` offers gives these; as refused if no reading is offered; as misread if ratings
come that are not these, or a "This reads it" that gives others. Ends with an error where one is
misread.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from dpmc_core.data import datasets
from dpmc_core.errors import DpmcError

SHAPE = {"users", "items"}  # what agrees where rows beyond the range are left out
WILD = Path(__file__).resolve().parents[2] / "shared" / "data" / "wild"


def main() -> None:
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
    """The outcome of each file of right.json, and a note, by name."""
    truths = json.loads((folder / "right.json").read_text(encoding="utf-8"))
    return {name: judge(folder / name, truth) for name, truth in truths.items() if only in name}


def judge(path: Path, truth: dict[str, Any]) -> tuple[str, str]:
    """read, asked, refused, unfinished or misread, and a note."""
    options: dict[str, Any] = {}
    mean = truth.get("mean", 1)
    ends = truth.get("range", "0:1" if mean < 1 else "1:5" if mean <= 5 else "0:1000")
    if ends is not None:
        options = dict(zip(("low", "high"), map(float, ends.split(":")), strict=True))
    try:
        found = describe(datasets.load(path, **options))
    except DpmcError as error:
        refusal = str(error)
    else:
        return ("read" if agrees(found, truth) else "misread"), format_counts(found)
    examination = datasets.examine_file(path, **options)
    notes = []
    for reading in examination.readings:
        try:
            found = describe(datasets.load(path, **{**options, **reading.options}))
        except DpmcError as error:
            notes.append(f"{reading.options}: {error}")
            continue
        told = (
            truth if "bad_rows" not in reading.options else {k: truth[k] for k in SHAPE & {*truth}}
        )
        if agrees(found, told):
            return "asked", f"{len(examination.readings)} readings: {reading.options}"
        notes.append(f"{reading.options}: {format_counts(found)}")
        if examination.only and "n" in truth:
            return "misread", f"'This reads it' {notes[-1]}"
    if examination.readings and "n" in truth:
        return "unoffered", " | ".join([refusal, *notes])
    return "refused", " | ".join([refusal, *notes])


def describe(data: datasets.Dataset) -> dict[str, float]:
    """What is compared of the ratings."""
    ratings = data.ratings
    return {
        "users": ratings.public.users,
        "items": ratings.public.items,
        "n": len(ratings),
        "mean": float(ratings.values.mean()),
    }


def agrees(found: dict[str, float], truth: dict[str, Any]) -> bool:
    """Whether everything that is known of the file is so; never where nothing is."""
    known = {name: truth[name] for name in found if name in truth}
    return bool(known) and all(
        math.isclose(found[name], value, abs_tol=1e-5) for name, value in known.items()
    )


def format_counts(found: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in found.items())


if __name__ == "__main__":
    main()
