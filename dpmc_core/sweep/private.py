"""Sweeps as a child process, and on ratings that must not outlive their session."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

from dpmc_core.data import Dataset
from dpmc_core.sweep.grid import Grid
from dpmc_core.sweep.sources import SNAPSHOT, write_snapshot

_PREFIX = "dpmc-private-"


def command(grid: Grid, *, store: Path | None = None, jobs: int | None = None) -> list[str]:
    """The command line of a child process that sweeps a grid and reports on standard output."""
    words = [sys.executable, "-m", "dpmc_core", "sweep", *grid.argv()]
    words += [] if store is None else ["--store", str(store)]
    words += [] if jobs is None else ["--jobs", str(jobs)]
    return [*words, "--json"]


class PrivateFolder:
    """A folder of this user alone for sweeps on one upload: ratings, store and temporary files.

    Nothing of them enters the shared store. `close` removes everything, as does the end of this
    process; what a killed one left behind is removed when the next folder is made. Pass
    `environment` to the child, and its command `data` and `store`.
    """

    def __init__(self, dataset: Dataset) -> None:
        _remove_orphans()
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))  # mode 0700
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        try:
            self.data = self.path / f"ratings{SNAPSHOT}"
            write_snapshot(dataset, self.data)
            self.store = self.path / "results.sqlite"
            self.store.touch(mode=0o600, exist_ok=False)  # SQLite's other files take its mode
        except BaseException:
            self.close()
            raise

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the child: its home and its temporary files are here too."""
        here = str(self.path)
        return {**os.environ, "DPMC_HOME": here, "TMPDIR": here, "TEMP": here, "TMP": here}

    @property
    def open(self) -> bool:
        return self._remove.alive

    def close(self) -> None:
        """Remove the folder with everything in it; end the child first."""
        self._remove()


def _remove_orphans() -> None:
    """Folders of processes of this user that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with suppress(OSError):
            if owner.isdigit() and _is_mine(folder) and not _is_alive(int(owner)):
                shutil.rmtree(folder, ignore_errors=True)


def _is_mine(folder: Path) -> bool:
    return not hasattr(os, "getuid") or folder.lstat().st_uid == os.getuid()


def _is_alive(process: int) -> bool:
    if os.name == "nt":  # a signal would end it there
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
