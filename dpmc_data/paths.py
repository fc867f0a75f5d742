"""Folders of downloads, results and caches, atomic writing of files, and the program's version."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dpmc_core
from dpmc_core.errors import DpmcError


def find_home_folder() -> Path:
    """Return the folder that DPMC_HOME names, else the platform's folder for user data.

    Raises:
        DpmcError: if neither is known.
    """
    try:
        if folder := os.environ.get("DPMC_HOME"):
            return Path(folder).expanduser()
        if sys.platform == "win32":
            base, default_folder = os.environ.get("LOCALAPPDATA"), Path("AppData", "Local")
        elif sys.platform == "darwin":
            base, default_folder = None, Path("Library", "Application Support")
        else:
            base, default_folder = os.environ.get("XDG_DATA_HOME"), Path(".local", "share")
        return (Path(base) if base else Path.home() / default_folder) / "dpmc-lab"
    except RuntimeError:  # no HOME, and a user unknown to the system
        raise DpmcError("no home folder is known: name a folder in DPMC_HOME") from None


def check_file_location(path: Path) -> None:
    """Check that a file can be written at a path.

    Raises:
        DpmcError: if the path is a folder, or its parent folder does not exist.
    """
    if path.is_dir():
        raise DpmcError(f"{path} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise DpmcError(f"there is no folder {path.parent} to write {path.name} to")


def check_new_file(path: Path) -> None:
    """Check that a new file can be written at a path, before the work that fills it.

    Raises:
        DpmcError: if the file exists, or cannot be written there.
    """
    if path.exists():
        raise DpmcError(f"{path} is there already: give another name, or remove it first")
    check_file_location(path)


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` only if the block ends without an error.

    Raises:
        DpmcError: if there is no such folder, or the disk is full.
    """
    check_file_location(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes files for their owner alone; this one is like any other that is written.
        temporary.chmod(0o666 & ~_read_umask())
        temporary.replace(path)
    except OSError as error:  # if the disk is full, the error does not even name the file
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        reason = os.strerror(error.errno).lower()
        raise DpmcError(f"{path} could not be written: {reason}; nothing of it is left") from None
    finally:
        temporary.unlink(missing_ok=True)


def _read_umask() -> int:
    """Return the process's umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def get_version() -> str:
    """Return the version of this program; a cluster calls it on its workers."""
    return dpmc_core.__version__
