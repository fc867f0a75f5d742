"""Lock files; a lock ends with the process that holds it, however that process ends.

Where the system has no such locks (Windows), another process never holds anything.
"""

import errno
import os
import shutil
import threading
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

AVAILABLE = fcntl is not None
OWNER_LOCK = "owner.lock"  # in a private folder; held by the process that the folder belongs to
FOLDER_VARIABLE = "DPMC_PRIVATE_FOLDER"  # environment variable with the path of the folder
_PATIENCE = 2.0  # seconds in which a process that is being killed may still write


def open_private_file(name: str, flags: int) -> int:
    """Open a file that only this user may read; an `opener` of `open`."""
    return os.open(name, flags, 0o600)


def acquire_lock(path: Path, *, wait: bool = False) -> IO[str] | None:
    """Open a file and lock it until it is closed here and in processes that inherit it.

    Args:
        path: the file.
        wait: whether to wait for as long as another process holds it.

    Returns:
        None where another process holds it.

    Raises:
        OSError: the file cannot be opened.
    """
    file = open(path, "w", encoding="utf-8", opener=open_private_file)  # noqa: SIM115
    if fcntl is None:
        return file
    if wait:
        fcntl.flock(file, fcntl.LOCK_EX)
        return file
    for _ in range(5):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)  # another process may hold it for a moment in `is_held`
        else:
            return file
    file.close()
    return None


def is_held(path: Path) -> bool:
    """Return whether some process holds the lock on a file."""
    if fcntl is None:
        return False
    try:
        with path.open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def remove_folder(folder: Path) -> None:
    """Remove a folder with everything in it, trying again while files are still written there."""
    end = time.monotonic() + _PATIENCE
    while folder.exists() and time.monotonic() < end:
        shutil.rmtree(folder, ignore_errors=True)


def end_with_owner() -> None:
    """Start a thread that ends this process, and removes its private folder, once no owner lives.

    Nothing happens unless the environment names a folder (FOLDER_VARIABLE).
    """
    if AVAILABLE and FOLDER_VARIABLE in os.environ:
        threading.Thread(
            target=outlive, args=(Path(os.environ[FOLDER_VARIABLE]),), daemon=True
        ).start()


def outlive(folder: Path) -> None:
    """Wait until nobody holds the lock in a folder, remove it, and end this process."""
    if (folder / OWNER_LOCK).exists():  # otherwise it is removed already, or no private folder
        with suppress(OSError), acquire_lock(folder / OWNER_LOCK, wait=True) or nullcontext():
            remove_folder(folder)
    os._exit(1)  # its workers end with it


class Claims:
    """Claims on hexadecimal names, each of which one process at a time can hold.

    To claim a name is to lock the byte of a file that stands for it. A process can claim the same
    name again. By the rules of POSIX locks, it loses all claims if it opens the file a second time
    and closes it.
    """

    def __init__(self, path: Path | None, mode: int = 0o600) -> None:
        """Open the file of claims.

        Args:
            path: the file, created with this mode where it is missing; None where nobody else
                claims anything.
            mode: of a new file.

        Raises:
            OSError: the file cannot be opened.
        """
        self._file: int | None = None
        if path is None or fcntl is None:
            return
        if not path.exists():
            path.touch()
            path.chmod(mode)
        self._file = os.open(path, os.O_RDWR)

    def take(self, name: str) -> bool:
        """Claim a name; return False where another process has it."""
        if self._file is not None:
            try:
                fcntl.lockf(
                    self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _compute_byte_offset(name)
                )
            except OSError as error:
                # Any other error means that the file system has no such locks.
                return error.errno not in (errno.EAGAIN, errno.EACCES)
        return True

    def drop(self, name: str) -> None:
        """Release a name, so that others can claim it."""
        if self._file is not None:
            with suppress(OSError):
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _compute_byte_offset(name))

    def close(self) -> None:
        """Release all names."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _compute_byte_offset(name: str) -> int:
    """Return the position of the byte that stands for a name; it may lie beyond the file's end."""
    return int(name[:15], 16)  # 15 digits fit into a file position
