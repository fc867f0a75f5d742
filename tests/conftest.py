"""Fixtures that several test files share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpmc_core import datasets
from dpmc_core.ratings import Ratings


@pytest.fixture(autouse=True)
def _own_main() -> Iterator[None]:
    """Streamlit leaves its last script as `__main__`, which worker processes would run again."""
    before = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = before


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the real rating sets, whose terms forbid keeping them here."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"real rating data is not at {folder}")
    return folder


@pytest.fixture(scope="session")
def movielens_u1(shared_data: Path) -> tuple[Ratings, Ratings]:
    """MovieLens 100K, official split 1: training and test ratings over one index space."""
    folder = shared_data / "ml-100k"
    return datasets.read_pair(folder / "u1.base", folder / "u1.test")
