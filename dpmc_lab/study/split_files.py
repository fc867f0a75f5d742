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
from dpmc_data.paths import check_new_file


def write_split_files(
    folder: Path, dataset: Dataset, task: Task, split: Split | None, seeds: Sequence[int]
) -> None:
    """Write train-SEED.csv and test-SEED.csv: what runs learn from and are measured on.

    Args:
        folder: where the files go, a new folder.
        dataset: the data set with the ids of its users and items.
        task: what is predicted. Clicks have the rating 1, likes and dislikes 1 and -1.
        split: how ratings are held out.
        seeds: of the splits.

    Raises:
        DpmcError: the folder exists already, or cannot be made there.
        OSError: a file cannot be written.
    """
    check_new_file(folder)
    folder.mkdir(mode=0o700)  # single ratings: for their owner alone
    for seed in seeds:
        problem = build_problem(dataset, task, split=split, seed=seed)
        _write_csv(folder / f"train-{seed}.csv", problem.train)
        _write_csv(folder / f"test-{seed}.csv", problem.test)


def _write_csv(path: Path, ratings: Ratings) -> None:
    """Write ratings with their ids, or with the numbers of users and items where they have none."""
    public = ratings.public
    users, items = ratings.user_ids or range(public.users), ratings.item_ids or range(public.items)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("user", "item", "rating"))
        columns = (ratings.users.tolist(), ratings.items.tolist(), ratings.values.tolist())
        for user, item, value in zip(*columns, strict=True):
            writer.writerow((users[user], items[item], format_number(value)))
