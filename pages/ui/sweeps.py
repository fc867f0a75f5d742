"""Run sweeps as child processes: start, watch, cancel and find them again, without Streamlit.

A running sweep holds a lock for as long as it lives, however it ends. So any tab and any later
server can tell that it runs, and nobody starts it twice.
"""

import atexit
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from dpmc_core.errors import DpmcError
from dpmc_lab import locks

MAX_RUNNING_SWEEPS = 2  # sweeps of one folder; each has a worker for every core
GRACE = 5.0  # seconds a cancelled sweep has to put its finished rows away
SHUTDOWN_SECONDS = 1.0  # seconds they have at the end of the server
_TAIL_BYTES = 65536  # of the output, which hold the longest message of a failure
_KEEP_SECONDS = 7 * 24 * 3600.0  # seconds after which the traces of an old sweep are removed
_children: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True)
class Sweep:
    """What is known about a sweep at one moment.

    Attributes:
        key: of the sweep.
        running: whether it runs.
        started: time of its start, in seconds since the epoch.
        description: what its starter wrote.
        counts: total, skipped, done, failed and seconds_left, as far as it has reported them.
        message: why it failed, or that it ended unfinished; empty after its end or a stop.
    """

    key: str
    running: bool
    started: float
    description: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""

    @property
    def n_done(self) -> int:
        """Return how many of all units have a row, from before or by this sweep."""
        return sum(self.counts.get(name, 0) for name in ("skipped", "done"))


def check_can_start() -> None:
    """Check that sweeps can be started from here.

    Raises:
        DpmcError: the system has no locks.
    """
    if not locks.AVAILABLE:
        raise DpmcError(
            "this page starts sweeps on Linux and macOS only: run the command below in a terminal,"
            " and look here again"
        )


def start_sweep(
    folder: Path,
    key: str,
    command: Sequence[str],
    *,
    description: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
) -> bool:
    """Start a sweep, and return False if it runs already.

    Args:
        folder: of the traces of sweeps.
        key: of the sweep.
        command: of the child process.
        description: stored with the sweep.
        environment: of a child whose files only this user may read (default: that of this process).

    Raises:
        DpmcError: it cannot be started.
    """
    check_can_start()
    with _explain_write_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for sweep in list_sweeps(folder):
            if not sweep.running and time.time() - sweep.started > _KEEP_SECONDS:
                for kind in ("json", "out", "err"):
                    _trace_path(folder, sweep.key, kind).unlink(missing_ok=True)
        n_running = sum(sweep.running and sweep.key != key for sweep in list_sweeps(folder))
        if n_running >= MAX_RUNNING_SWEEPS:
            raise DpmcError(
                f"{MAX_RUNNING_SWEEPS} other sweeps run already: wait for one or cancel it"
            )
        lock = locks.acquire_lock(_trace_path(folder, key, "lock"))
        if lock is None:
            return False
        with lock:
            _trace_path(folder, key, "json").unlink(missing_ok=True)  # names a process that is gone
            with (
                _open_for_writing(folder, key, "out") as out,
                _open_for_writing(folder, key, "err") as err,
            ):
                child = subprocess.Popen(
                    list(command),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    env=None if environment is None else dict(environment),
                    cwd=Path(__file__).resolve().parents[2],
                    start_new_session=True,  # a group of its own, to be ended as one
                    pass_fds=(lock.fileno(),),
                    # A sweep with its own environment is of private data: only its account reads.
                    umask=-1 if environment is None else 0o077,
                )
            status = {
                "process": child.pid,
                "born": _read_start_ticks(child.pid),
                "started": time.time(),
                "about": dict(description),
            }
            with _open_for_writing(folder, key, "json") as file:
                file.write(json.dumps(status).encode())
    _children.add(child)
    threading.Thread(target=_reap, args=(child,), daemon=True).start()
    return True


def load_sweep(folder: Path, key: str) -> Sweep | None:
    """Load the sweep of this key, running or over; None if there was none."""
    try:
        status = json.loads(_trace_path(folder, key, "json").read_text(encoding="utf-8"))
        started = float(status["started"])
        description = status["about"]
    except (OSError, ValueError, KeyError):
        return None
    is_alive = _is_running(folder, key)
    report = _read_report(_trace_path(folder, key, "out"))
    sweep = Sweep(key, is_alive, started, description, report)
    if is_alive or report.get("ended", "failed") != "failed":
        return sweep
    if "ended" in report:
        message = report.get("message", "Something went wrong inside the program")
    elif "total" in report and sweep.n_done == report["total"]:
        return sweep
    else:  # a kill or a power cut leaves no last line
        message = "The program ended before its work was done; the finished rows are kept"
    return replace(sweep, message=message)


def list_sweeps(folder: Path) -> list[Sweep]:
    """Return every sweep that left a trace in the folder, the newest first."""
    sweeps = [load_sweep(folder, path.stem) for path in folder.glob("*.json")]
    return sorted((s for s in sweeps if s is not None), key=lambda s: -s.started)


def cancel_sweep(folder: Path, key: str, grace: float = GRACE) -> None:
    """Stop a sweep with all its processes, whichever server started it.

    Every finished row stays in the store.

    Args:
        folder: of the traces of sweeps.
        key: of the sweep.
        grace: seconds to write the last rows.

    Raises:
        DpmcError: it was started in another container.
    """
    if not _is_running(folder, key):
        return
    try:
        status = json.loads(_trace_path(folder, key, "json").read_text(encoding="utf-8"))
        process = int(status["process"])
        start_ticks = status["born"]
    except (OSError, ValueError, KeyError):
        return  # it has only just been started by somebody else
    if (
        _read_start_ticks(process) != start_ticks
    ):  # the lock is held, but not by the process of that number here
        raise DpmcError("this sweep was started in another container: cancel it from there")
    if grace:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    _wait_until_ended(folder, key, grace)
    if _is_running(folder, key):  # so its number is its own still
        _kill_group(process)
        _wait_until_ended(folder, key, GRACE)
    out = _trace_path(folder, key, "out")
    if "ended" not in _read_report(out):  # it had no time to say so itself
        with out.open("a") as file:
            file.write('\n{"ended": "stopped"}\n')


def cancel_folder_sweeps(folder: Path) -> None:
    """Stop at once every sweep of the folder that can be stopped from here."""
    for sweep in list_sweeps(folder):
        with suppress(DpmcError):
            cancel_sweep(folder, sweep.key, grace=0.0)


def _open_for_writing(folder: Path, key: str, kind: str) -> IO[bytes]:
    """Open one of a sweep's files, which only this user may read."""
    return open(_trace_path(folder, key, kind), "wb", opener=locks.open_private_file)


def _is_running(folder: Path, key: str) -> bool:
    """Return whether a sweep is running, which holds its lock."""
    return locks.is_held(_trace_path(folder, key, "lock"))


def _wait_until_ended(folder: Path, key: str, seconds: float) -> None:
    """Wait until a sweep has ended, for at most this many seconds."""
    end = time.monotonic() + seconds
    while _is_running(folder, key) and time.monotonic() < end:
        time.sleep(0.02)


def _read_start_ticks(process: int) -> str:
    """Return when a process began, in ticks of the machine's clock; empty if unknown.

    It tells the process from a later one to which the system gave the same number.
    """
    # Field 22 of the file, see proc(5). The first two are cut off: a name may hold brackets and
    # blanks.
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def _read_report(path: Path) -> dict[str, Any]:
    """Return a sweep's last line of progress, and after it the line that says how it ended."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            tail = file.read().decode("utf-8", "replace")
    except OSError:
        return {}
    report: dict[str, Any] = {}
    for line in reversed(tail.split("\n")[:-1]):  # what follows the last line end is unfinished
        with suppress(ValueError):
            document = json.loads(line)
            if isinstance(document, dict):
                report = document | report
        if "total" in report:
            break
    return report


def _trace_path(folder: Path, key: str, kind: str) -> Path:
    """Return the path of a sweep's file: 'json' (description), 'out', 'err' or 'lock'."""
    return folder / f"{key}.{kind}"


def _reap(child: subprocess.Popen[bytes]) -> None:
    """Wait for a child process to end, so that none stays as a zombie."""
    child.wait()
    _children.discard(child)


def _kill_group(process: int) -> None:
    """Kill a sweep's process and its workers, which are its process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


@atexit.register
def terminate_children() -> None:
    """Stop everything that this server started, when it ends."""
    for child in list(_children):
        with suppress(ProcessLookupError):
            child.terminate()
    limit = time.monotonic() + SHUTDOWN_SECONDS
    for child in list(_children):
        try:
            child.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            _kill_group(child.pid)


@contextmanager
def _explain_write_errors(folder: Path) -> Iterator[None]:
    """Turn errors of the file system inside the block into one that says what to do."""
    try:
        yield
    except OSError as error:
        raise DpmcError(
            f"the sweep could not be started: {folder} cannot be written"
            f" ({(error.strerror or str(error)).lower()}); set DPMC_HOME to a folder that can"
        ) from None
