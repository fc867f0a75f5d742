"""Uploads read with a range of 1..5, and their ratings by the names of users and items."""

from __future__ import annotations

from dpmc_core.ratings import Ratings
from dpmc_data import datasets


def read_upload(
    text: str | bytes, name: str = "x.csv", **options: object
) -> datasets.LoadedDataset:
    content = text.encode() if isinstance(text, str) else text
    return datasets.load_upload(content, name, **{"low": 1, "high": 5, **options})


def ratings_by_pair(ratings: Ratings) -> dict[tuple[str, str], float]:
    assert ratings.user_ids is not None
    assert ratings.item_ids is not None
    return {
        (ratings.user_ids[u], ratings.item_ids[i]): v
        for u, i, v in zip(ratings.users, ratings.items, ratings.values.tolist(), strict=True)
    }
