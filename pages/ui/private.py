"""Keep the private folder for sweeps on a session's upload."""

from __future__ import annotations

import atexit
import weakref

from dpmc_core.dataset import Dataset
from dpmc_lab.sweep import PrivateFolder
from pages.ui import sweeps

upload_folders: weakref.WeakSet[UploadFolder] = weakref.WeakSet()


class UploadFolder:
    """The private folder of the session's upload, on disk once a sweep on it has started."""

    def __init__(self) -> None:
        self._folder: PrivateFolder | None = None
        upload_folders.add(self)

    def open_folder(self, dataset: Dataset) -> PrivateFolder:
        """Return the folder of this upload; the folder of an earlier upload is removed."""
        if self._folder is None or self._folder.dataset is not dataset:
            self.close()
            self._folder = PrivateFolder(dataset)
        return self._folder

    def close(self) -> None:
        """Stop every sweep on the upload and remove all of it."""
        if self._folder is not None:
            _remove_folder(self._folder)
        self._folder = None


@atexit.register
def close_all_uploads() -> None:
    """Remove every upload when the server ends."""
    for upload_folder in list(upload_folders):
        upload_folder.close()


def remove_orphans() -> None:
    """Stop and remove what killed servers left of uploads."""
    for folder in PrivateFolder.claim_orphans():
        _remove_folder(folder)


def _remove_folder(folder: PrivateFolder) -> None:
    """Stop the sweeps of a private folder at once, and remove it."""
    sweeps.cancel_folder_sweeps(folder.path / "sweeps")  # its rows go too
    folder.close()
