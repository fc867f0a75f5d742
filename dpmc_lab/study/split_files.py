"""Write the training and test ratings of seeds as CSV, for a system outside this program."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from dpmc_core.dataset import Dataset
from dpmc_core.errors import format_number
from dpmc_core.model import Task
from dpmc_core.problem import Split, build_problem
from dpmc_core.ratings import Ratings
from dpmc_data.paths import check_new_file, write_atomically


def write_split_files(
    folder: Path, dataset: Dataset, task: Task, split: Split | None, seeds: Sequence[int]
) -> None:
    """Write train-SEED.csv and test-SEED.csv: what runs learn from and are measured on.

    Args:
        folder: where the files go; it is made if there is none.
        dataset: the data set with the ids of its users and items.
        task: what is predicted. Clicks have the rating 1, likes and dislikes 1 and -1.
        split: how ratings are held out.
        seeds: of the splits.

    Raises:
        DpmcError: a file exists, or cannot be written.
        OSError: the folder cannot be made.
    """
    folder.mkdir(mode=0o700, exist_ok=True)  # single ratings: for their owner alone
    files = {seed: [folder / f"{side}-{seed}.csv" for side in ("train", "test")] for seed in seeds}
    for paths in files.values():
        for path in paths:
            check_new_file(path)
    for seed, (train, test) in files.items():
        problem = build_problem(dataset, task, split=split, seed=seed)
        _write_csv(train, problem.train)
        _write_csv(test, problem.test)


def _write_csv(path: Path, ratings: Ratings) -> None:
    """Write ratings with their ids, or with the numbers of users and items where they have none."""
    columns = (
        indices.tolist() if ids is None else (ids[k] for k in indices.tolist())
        for ids, indices in ((ratings.user_ids, ratings.users), (ratings.item_ids, ratings.items))
    )
    with (
        write_atomically(path) as partial_path,
        partial_path.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("user", "item", "rating"))
        writer.writerows(zip(*columns, map(format_number, ratings.values.tolist()), strict=True))
