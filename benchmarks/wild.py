"""Check how files of ratings are read: right, after a question, not at all, or wrong.

    python benchmarks/wild.py [FOLDER ...] [--mutations COUNT] [--seed N] [--only WORD] [--long]

FOLDER (../shared/data/wild and wild-2) has files, and `right.json` with the truth about each.
Mutations are files of `tests/reading_mutations.py`. A file counts as `taken` if it is read with the
right users, items, ratings and mean; as `first` if the first of the readings that are offered gives
these, as `among` if another does, as `none` if none does, as `refused` if none is offered; and as
`wrong` if it is read with other ratings, or "This reads it" gives others. Of a file without a right
reading, `first` means that nothing is taken. The script ends with an error if a file is wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dpmc_core.errors import DpmcError
from dpmc_data import datasets
from tests.reading_mutations import mutate

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
OUTCOMES = ("taken", "first", "among", "none", "refused", "wrong")


def main() -> None:
    """Judge the files of folders and mutations, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    folders = [SHARED / "wild", SHARED / "wild-2"]
    parser.add_argument("folders", nargs="*", type=Path, help="of the files", default=folders)
    parser.add_argument("--mutations", type=int, default=0, help="how many (0)")
    parser.add_argument("--seed", type=int, default=0, help="of the first; then 1 more each")
    parser.add_argument("--only", default="", help="files whose name holds this")
    parser.add_argument("--long", action="store_true", help="whole sentences")
    args = parser.parse_args()
    outcomes: dict[str, dict[str, tuple[str, str]]] = {}
    if args.mutations:
        outcomes["mutations"] = judge_mutations(range(args.seed, args.seed + args.mutations))
    else:
        outcomes = {folder.name: judge_folder(folder, args.only) for folder in args.folders}
    for title, by_name in outcomes.items():
        for name, (outcome, note) in by_name.items():
            if args.long or outcome not in ("taken", "first"):
                print(f"{name:34}{outcome:10}{note if args.long else note[:170]}")
        counts = Counter(outcome for outcome, _ in by_name.values())
        print(f"{title}: {', '.join(f'{counts[outcome]} {outcome}' for outcome in OUTCOMES)}")
    sys.exit(any(outcome == "wrong" for by in outcomes.values() for outcome, _ in by.values()))


def judge_folder(folder: Path, only: str = "") -> dict[str, tuple[str, str]]:
    """Return the outcome of each file of right.json, and a note, by name."""
    truths = json.loads((folder / "right.json").read_text(encoding="utf-8"))
    outcomes = {}
    for name, truth in truths.items():
        if only in name:
            mean = truth.get("mean", 1)
            usual = "0:1" if mean < 1 else "1:5" if mean <= 5 else "0:1000"
            ends = truth.get("range", usual)
            options = (
                dict(zip(("low", "high"), map(float, ends.split(":")), strict=True)) if ends else {}
            )
            outcomes[name] = _try_to_judge(folder / name, truth, options)
    return outcomes


def judge_mutations(seeds: range) -> dict[str, tuple[str, str]]:
    """Return the outcome of the file of each seed, and a note, by name."""
    outcomes = {}
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            mutation = mutate(seed)
            path = Path(folder) / mutation.name
            path.write_bytes(mutation.content)
            outcome, note = _try_to_judge(path, mutation.truth, mutation.ends)
            outcomes[mutation.name] = outcome, f"{mutation.what} {note}"
            path.unlink()
    return outcomes


def _try_to_judge(path: Path, truth: dict[str, Any], options: dict[str, Any]) -> tuple[str, str]:
    """Return what `judge` does; a traceback counts as wrong."""
    try:
        return judge(path, truth, options)
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"


def judge(path: Path, truth: dict[str, Any], options: dict[str, Any]) -> tuple[str, str]:
    """Return the outcome of a file, one of OUTCOMES, and a note.

    Args:
        path: the file.
        truth: the right values by name.
        options: of reading, that a person gives.
    """
    has_truth = "users" in truth
    try:
        summary = describe(datasets.load(path, **options))
    except DpmcError as error:
        refusal = str(error)
    else:
        return ("taken" if agrees(summary, truth) else "wrong"), format_counts(summary)
    try:
        examination = datasets.examine_file(path, **options)
    except DpmcError as error:
        return "refused", str(error)
    notes = [refusal]
    outcome = "none" if examination.readings else "refused"
    for k, reading in enumerate(examination.readings):
        try:
            summary = describe(datasets.load(path, **{**options, **reading.options}))
        except DpmcError as error:
            notes.append(f"{reading.options}: {error}")
            continue
        if agrees(summary, truth):
            outcome = "first" if k == 0 else "among"
            return outcome, f"{k + 1} of {len(examination.readings)}: {reading.options}"
        notes.append(f"{reading.options}: {format_counts(summary)}")
        if examination.only and has_truth:
            return "wrong", f"'This reads it' {notes[-1]}"
    if not has_truth:
        outcome = "first"
    return outcome, " | ".join(notes)


def describe(data: datasets.Dataset) -> dict[str, float]:
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
    counts = [summary[name] for name in ("users", "items", "n")]
    if counts in truth.get("also", []):
        return True
    expected = {name: truth[name] for name in summary if name in truth}
    return bool(expected) and all(
        math.isclose(summary[name], value, abs_tol=1e-5) for name, value in expected.items()
    )


def format_counts(summary: dict[str, float]) -> str:
    """Return a summary as text."""
    return ", ".join(f"{name} {value:g}" for name, value in summary.items())


if __name__ == "__main__":
    main()
