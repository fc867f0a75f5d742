"""Where sweeps on an upload happen: a folder of this session alone, gone when it ends."""

from __future__ import annotations

from dpmc_core.datasets import Dataset
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

    def close(self) -> None:
        """End every sweep on the upload and remove all of it."""
        if self._folder is not None:
            sweeps.cancel_all(self._folder.path / "sweeps")
            self._folder.close()
        self._folder = self._dataset = None
