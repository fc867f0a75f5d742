"""Write the training and test ratings of seeds as CSV, for a system outside this program."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from dpmc_core.dataset import Dataset
from dpmc_core.errors import DpmcError, format_number
from dpmc_core.model import Task
from dpmc_core.problem import Problem, Split, build_problem
from dpmc_core.ratings import Ratings
from dpmc_data.paths import check_new_file, write_atomically

COLUMNS = ("user", "item", "rating")


def write_split_files(
    folder: Path, dataset: Dataset, task: Task, split: Split | None, seeds: Sequence[int]
) -> Mapping[str, list[Path]]:
    """Write the prepared ratings on which runs with these seeds learn and are measured.

    Args:
        folder: where the files go; it is made if there is none.
        dataset: the data set with the ids of its users and items.
        task: what is predicted. Clicks have the rating 1, likes and dislikes 1 and -1.
        split: how ratings are held out.
        seeds: of the splits.

    Returns:
        The files by 'train' and 'test', in the order of the seeds.

    Raises:
        DpmcError: a file exists, or cannot be written.
    """
    files = {side: [folder / f"{side}-{seed}.csv" for seed in seeds] for side in ("train", "test")}
    try:
        folder.mkdir(mode=0o700, exist_ok=True)  # single ratings: for their owner alone
        for path in (*files["train"], *files["test"]):
            check_new_file(path)
        for seed, *paths in zip(seeds, files["train"], files["test"], strict=True):
            problem: Problem = build_problem(dataset, task, split=split, seed=seed)
            for path, ratings in zip(paths, (problem.train, problem.test), strict=True):
                _write_csv(path, ratings)
    except OSError as error:
        raise DpmcError(f"{folder} cannot be written ({error.strerror})") from None
    return files


def _write_csv(path: Path, ratings: Ratings) -> None:
    """Write ratings with their ids, or with the numbers of users and items where they have none."""
    columns = [
        indices.tolist() if ids is None else [ids[k] for k in indices.tolist()]
        for ids, indices in ((ratings.user_ids, ratings.users), (ratings.item_ids, ratings.items))
    ]
    with (
        write_atomically(path) as partial_path,
        partial_path.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(zip(*columns, map(format_number, ratings.values.tolist()), strict=True))
