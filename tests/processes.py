"""Processes of a sweep, found and killed without warning (Linux)."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def start_sweep(*arguments, **options):
    """A sweep in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "dpmc_lab", "sweep", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def list_children(pid):
    child_ids = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == pid:
                child_ids.append(int(stat.parent.name))
    return child_ids


def list_descendants(pid):
    process_ids = list_children(pid)
    for child in list(process_ids):
        process_ids += list_descendants(child)
    return process_ids


def list_workers(pid):
    """The processes that run units: children of the sweep's fork server."""
    return [grandchild for child in list_children(pid) for grandchild in list_children(child)]


def count_members(group):
    """Living processes of a process group."""
    listing = subprocess.run(
        ["ps", "-eo", "pgid=,stat="], capture_output=True, text=True, check=True
    )
    lines = [line.split() for line in listing.stdout.splitlines()]
    return sum(int(pgid) == group and not stat.startswith("Z") for pgid, stat in lines)


def kill_process(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def is_alive(pid):
    """Whether a process runs; one that only waits to be collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until(condition, seconds=PATIENCE_SECONDS):
    """Return whether it becomes so within these seconds, which the program may promise."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False
