"""Ratings as one private file: what an upload becomes while a sweep of its own runs on it."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.data import Dataset
from dpmc_core.errors import BadRatings
from dpmc_core.ratings import PublicFacts, Ratings

SUFFIX = ".dpmc.npz"


def is_snapshot(data: str | Path) -> bool:
    """Whether DATA names a file of ours."""
    return str(data).endswith(SUFFIX) and Path(data).is_file()


def write(dataset: Dataset, path: Path) -> None:
    """Write cells, values, times and public facts, readable by this user alone (mode 0600).

    Names of users and items are left out. The file must not exist yet.
    """
    ratings, public = dataset.ratings, dataset.ratings.public
    arrays: dict[str, NDArray[Any]] = {
        "users": ratings.users,
        "items": ratings.items,
        "values": ratings.values,
        "shape": np.array([public.users, public.items, public.cap or 0]),
        "range": np.array([public.low, public.high]),
        "prepared": np.array(ratings.prepared, dtype=np.str_),
        "name": np.array([dataset.name, dataset.title]),
    }
    if ratings.times is not None:
        arrays["times"] = ratings.times
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read(path: Path) -> Dataset:
    """The inverse of `write`. Raises BadRatings where the file is not one of ours."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            parts = dict(stored)
        users, items, cap = (int(n) for n in parts["shape"])
        low, high = (float(end) for end in parts["range"])
        public = PublicFacts(users=users, items=items, low=low, high=high, cap=cap or None)
        ratings = Ratings.build(
            parts["users"],
            parts["items"],
            parts["values"],
            public,
            times=parts.get("times"),
            prepared=tuple(str(step) for step in parts["prepared"]),
        )
        name, title = (str(text) for text in parts["name"])
    except BadRatings:
        raise
    except (OSError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise BadRatings(f"{path.name} is not a snapshot of ratings: {error}") from None
    return Dataset(ratings, name, title, "a snapshot", "as its source", ())
