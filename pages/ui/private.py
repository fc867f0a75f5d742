"""What belongs to a session's upload alone: the folder of its sweeps, and what runs have spent."""

from __future__ import annotations

import threading
from pathlib import Path

from dpmc_core.data.datasets import Dataset
from dpmc_core.sweep import PrivateFolder
from pages.ui import sweeps


class Private:
    """The private folder of the session's upload, made when it is first needed."""

    def __init__(self) -> None:
        self._dataset: Dataset | None = None
        self._folder: PrivateFolder | None = None

    def folder(self, dataset: Dataset) -> PrivateFolder:
        """The folder of this upload; that of an earlier one is removed. Raises OSError."""
        if self._folder is None or self._dataset is not dataset:
            self.close()
            self._folder, self._dataset = PrivateFolder(dataset), dataset
        return self._folder

    @property
    def store(self) -> Path | None:
        """The results of sweeps on the upload; None before the first."""
        return None if self._folder is None else self._folder.store

    def close(self) -> None:
        """End every sweep on the upload and remove all of it."""
        if self._folder is not None:
            sweeps.cancel_all(self._folder.path / "sweeps")
            self._folder.close()
        self._folder = self._dataset = None


class Tally:
    """Private training runs on an upload, and the epsilons they spent; jobs add to it."""

    def __init__(self) -> None:
        self._epsilons: list[float] = []
        self._lock = threading.Lock()

    def spend(self, epsilon: float) -> None:
        """One run has touched the ratings."""
        with self._lock:
            self._epsilons.append(epsilon)

    @property
    def spent(self) -> tuple[int, float]:
        """(runs, sum of their epsilons)."""
        with self._lock:
            return len(self._epsilons), sum(self._epsilons)
