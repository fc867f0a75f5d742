"""Sweeps as a child process, and on ratings that must not outlive their session."""

from __future__ import annotations

import os
import re
import secrets
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from dpmc_core.data import Dataset
from dpmc_core.lab import locks
from dpmc_core.lab.sweep.grid import Grid
from dpmc_core.lab.sweep.sources import SNAPSHOT, write_snapshot

_NAME = "dpmc-private-{}"
_WATCH = (
    "import pathlib, sys; from dpmc_core.lab import locks; locks.outlive(pathlib.Path(sys.argv[1]))"
)
_NAMES = re.compile(_NAME.format("[0-9a-f]{16}"))


def command(grid: Grid, *, store: Path | None = None, jobs: int | None = None) -> list[str]:
    """The command line of a child process that sweeps a grid and reports on standard output."""
    words = [sys.executable, "-m", "dpmc_core", "sweep", *grid.argv()]
    words += [] if store is None else ["--store", str(store)]
    words += [] if jobs is None else ["--jobs", str(jobs)]
    return [*words, "--json"]


class PrivateFolder:
    """A folder of this user alone for sweeps on one upload: ratings, store and temporary files.

    Nothing is on disk before `write`, and nothing after `close`. This process holds a lock in the
    folder for as long as it lives: where it is killed its children end (`locks.end_with_owner`),
    and a process that does nothing else removes the folder; what is left where the whole machine
    stopped is known: see `orphans`.
    Pass `environment` to the child, and its command `data` and `store`; end it before `close`.
    """

    def __init__(self, dataset: Dataset | None, name: str | None = None) -> None:
        self.dataset = dataset
        self.path = Path(tempfile.gettempdir(), name or _NAME.format(secrets.token_hex(8)))
        self.data = self.path / f"ratings{SNAPSHOT}"
        self.store = self.path / "results.sqlite"
        self._lock: IO[str] | None = None
        self._watch: subprocess.Popen[bytes] | None = None

    @classmethod
    def orphans(cls) -> list[PrivateFolder]:
        """The folders that killed processes of this user left, held by this one from now on."""
        found = []
        for path in Path(tempfile.gettempdir()).glob(_NAME.format("*")):
            folder = cls(None, path.name)
            with suppress(OSError):
                if locks.AVAILABLE and _NAMES.fullmatch(path.name) and _is_mine(path):
                    folder._lock = locks.hold(_owner(path))
            if folder._lock is not None:
                found.append(folder)
        return found

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the child: its home and its temporary files are here too."""
        here = str(self.path)
        names = (locks.OWNED, "DPMC_HOME", "TMPDIR", "TEMP", "TMP")
        return {**os.environ, **dict.fromkeys(names, here)}

    def write(self) -> None:
        """Put the ratings there, unless they are: folders 0700, files 0600. Raises OSError."""
        if self._lock is not None or self.dataset is None:
            return
        making = self.path.with_name(f".{self.path.name}")  # no orphan before it is locked
        making.mkdir(mode=0o700)
        try:
            self._lock = locks.hold(_owner(making))
            making.rename(self.path)
            write_snapshot(self.dataset, self.data)
            self.store.touch(mode=0o600, exist_ok=False)  # SQLite's other files take its mode
        except BaseException:
            self.close()
            locks.remove(making)
            raise
        if locks.AVAILABLE:
            self._watch = subprocess.Popen(
                (sys.executable, "-c", _WATCH, str(self.path)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a closed terminal ends the server alone
            )

    def close(self) -> None:
        """Remove the folder with everything in it."""
        if self._lock is None:
            return
        locks.remove(self.path)
        self._lock.close()
        self._lock = None
        if self._watch is not None:
            self._watch.kill()
            self._watch.wait()


def _owner(folder: Path) -> Path:
    return folder / locks.OWNER


def _is_mine(folder: Path) -> bool:
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
