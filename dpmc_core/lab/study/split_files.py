"""A split as files, so that a model from elsewhere learns and is scored on the very same rows.

Rows are those of `build_problem` with the same arguments; users, items and ratings are as in the
source. The files are CSV as Python's `csv` writes and reads it, in UTF-8: fields with a comma, a
quote or a line break are quoted, and nothing else is changed. No cell is guarded against
spreadsheets, because an id must come back as it is: read ids as text.
"""

from __future__ import annotations

import csv
import dataclasses
import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.arrays import Ints
from dpmc_core.data import Dataset, Transform
from dpmc_core.data.source import Source
from dpmc_core.errors import DpmcError, number_text
from dpmc_core.metrics import K, check_measurable, counted
from dpmc_core.model import Task
from dpmc_core.paths import version, whole_file
from dpmc_core.problem import Problem, Split, build_problem
from dpmc_core.ratings import Ratings, numbered
from dpmc_core.stopping import check_cancelled

TRAIN, TEST, ITEMS, NOTE = "train.csv", "test.csv", "items.csv", "split.json"
_BLOCK = 100_000  # rows turned into text at a time


def check(folder: Path, *, force: bool) -> None:
    """Raise DpmcError where that is no folder, or holds a split already, unless force."""
    if folder.exists() and not folder.is_dir():
        raise DpmcError(f"{folder} is a file: choose a folder for the split")
    there = [name for name in (TRAIN, TEST, ITEMS, NOTE) if (folder / name).exists()]
    if there and not force:
        raise DpmcError(
            f"{folder} holds {', '.join(there)} already: choose another folder, or overwrite with"
            " --force"
        )


def export(
    data: Dataset,
    task: Task,
    folder: Path,
    *,
    steps: Sequence[Transform] = (),
    split: Split | None = None,
    seed: int,
    file: Path | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Write a split of the data into a folder, made where it is missing; all files or none.

    file: where the data were read from, for its checksum. Returns the note that lies beside the
    rows, as plain JSON values. Raises BadRatings where there is nothing to split or to measure,
    DpmcError where the folder holds a split already, OSError.
    """
    check(folder, force=force)
    public = data.ratings.public
    whole = dataclasses.replace(
        data.ratings,
        user_ids=data.ratings.user_ids or numbered(public.users),
        item_ids=data.ratings.item_ids or numbered(public.items),
    )
    named = dataclasses.replace(data, ratings=whole)
    problem = build_problem(named, task, steps=steps, split=split, seed=seed)
    check_measurable(task, problem.train, problem.test)
    sides = {TRAIN: problem.train, TEST: problem.test}
    sources = {name: _in_source(side, whole) for name, side in sides.items()}
    # What is predicted, where that is not the rating: signs, or another scale.
    target = task is not Task.RANKING and any(
        (whole.values[sources[name]] != side.values).any() for name, side in sides.items()
    )
    folder.mkdir(parents=True, exist_ok=True)
    counts = {}
    with ExitStack() as stack:

        def new(name: str) -> Path:
            return stack.enter_context(whole_file(folder / name))

        for name, side in sides.items():
            part = new(name)
            columns = _columns(side, whole, sources[name], target=target)
            _write(part, columns)
            counts[name] = {
                "rows": len(side),
                "users": len(np.unique(side.users)),
                "items": len(np.unique(side.items)),
                "sha256": Source.file(part).checksum,
            }
        if task is Task.RANKING:
            ids = list(problem.train.item_ids or ())
            _write(new(ITEMS), {"item": (np.arange(len(ids)), ids)})
        note = {
            "data": data.name,
            "title": data.title,
            "licence": data.licence,
            "source_sha256": None if file is None else Source.file(file).checksum,
            "fingerprint": data.ratings.fingerprint,
            "task": task.value,
            "split": problem.split,
            "seed": seed,
            "prepare": list(problem.steps),
            "range": [public.low, public.high],
            "columns": list(columns),
            "files": counts,
            "metric": counted(task).name,
            "scored": scored(problem, task, "target" if target else "rating"),
            "ids": "text, as in the source: read them as text (pandas: dtype=str)",
            "version": version(),
        }
        new(NOTE).write_text(json.dumps(note, indent=2, ensure_ascii=False) + "\n", "utf-8")
    if task is not Task.RANKING:
        (folder / ITEMS).unlink(missing_ok=True)  # of a split that was there before
    return note


def scored(problem: Problem, task: Task, column: str) -> str:
    """How to score a model on the test rows as this program does, in words."""
    spoken, public = counted(task).spoken, problem.train.public
    if task is Task.RANKING:
        return (
            f"{spoken}: the share of rows of {TEST} whose item is among the {K} best of its user's"
            f" candidates. Candidates are the held-out item and all unseen items: each of {ITEMS}"
            f" that the user has in neither {TRAIN} nor {TEST}. A tie counts as lost; rows of users"
            f" with fewer than {K} unseen items are left out"
        )
    if task is Task.BINARY:
        return (
            f"{spoken}: the share of rows of {TEST} whose {column}, 1 for a like and -1 for none,"
            " is told right"
        )
    return (
        f"{spoken}: the root of the mean squared error against {column} over the rows of {TEST},"
        f" predictions cut to {public.low:g}..{public.high:g}"
    )


def _in_source(side: Ratings, whole: Ratings) -> Ints:
    """The place of each row of one side among all ratings. Steps may have re-indexed items."""
    place = {id: k for k, id in enumerate(whole.item_ids or ())}
    items = np.array([place[id] for id in side.item_ids or ()], dtype=np.int64)
    width = whole.public.items
    cells = whole.users.astype(np.int64) * width + whole.items
    return np.searchsorted(cells, side.users.astype(np.int64) * width + items[side.items])


_Column = tuple[NDArray[Any], Sequence[str] | None]  # values, or codes into texts


def _columns(side: Ratings, whole: Ratings, rows: Ints, *, target: bool) -> dict[str, _Column]:
    columns: dict[str, _Column] = {
        "user": (side.users, side.user_ids),
        "item": (side.items, side.item_ids),
    }
    if not whole.clicks:
        columns["rating"] = whole.values[rows], None
    if target:
        columns["target"] = side.values, None
    if whole.times is not None:
        columns["time"] = whole.times[rows], None
    return columns


def _write(path: Path, columns: dict[str, _Column]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        rows = len(next(iter(columns.values()))[0])
        for start in range(0, rows, _BLOCK):
            check_cancelled()
            part = slice(start, start + _BLOCK)
            texts = [_texts(values[part], ids) for values, ids in columns.values()]
            writer.writerows(zip(*texts, strict=True))


def _texts(values: NDArray[Any], ids: Sequence[str] | None) -> Iterable[str]:
    if ids is not None:
        return [ids[k] for k in values.tolist()]
    if values.dtype.kind == "i":
        return map(str, values.tolist())
    return map(number_text, values.tolist())
