"""Run tests again and again, each time in a new process that imports little.

    python tests/forked.py

The working directory is a copy of the program. A process that runs one test spends most of its time
on importing NumPy, SciPy, pandas and Streamlit. This process imports once what the tests import
from outside the program, and then forks for each run; a run imports the program itself.

Each line of the input is a list in JSON: a file, a number of seconds, and the arguments of pytest.
A line of the output answers with the exit status, "null" if the tests took longer. The file holds
what pytest printed.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import math
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

MODULES = Path("foreign-modules.txt")


def fork(work: Callable[[], int], output: Path, seconds: float = math.inf) -> int | None:
    """Return the exit status of work that a forked process does; None if it takes too long.

    Args:
        work: what to do there; its result is the exit status.
        output: file for what the process prints.
        seconds: after these the process is killed.
    """
    if not (child := os.fork()):
        _do_and_exit(work, output)
    deadline = time.monotonic() + seconds
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(ended[1])


def _do_and_exit(work: Callable[[], int], output: Path) -> NoReturn:
    """Do the work and leave the process without what this file would still do."""
    status = 3  # pytest's for an error of its own
    try:
        with output.open("wb") as file, open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        status = int(work())
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def list_foreign_modules() -> int:
    """Write the names of modules from outside the program that its tests import to MODULES."""
    pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", "tests"])
    names = (name for name, module in sys.modules.items() if not is_own(module))
    MODULES.write_text("\n".join(names), encoding="utf-8")
    return 0


def is_own(module: ModuleType) -> bool:
    """Return whether a module is a file, or a folder, of the program; this file does not count."""
    if module is sys.modules["__main__"]:
        return False
    places = [*getattr(module, "__path__", ()), getattr(module, "__file__", None) or ""]
    return any(str(place).startswith(os.getcwd() + os.sep) for place in places)


def main() -> None:
    """Import what all runs need, and answer each line of the input."""
    sys.path[0] = os.getcwd()
    fork(list_foreign_modules, Path(os.devnull))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in MODULES.read_text(encoding="utf-8").split():
            # Some are made by another module, and no file holds them.
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    own_names = [name for name, module in sys.modules.items() if is_own(module)]
    assert own_names == [], f"a fault in {own_names} would not be run"
    gc.freeze()  # otherwise each run looks through all of these objects for garbage
    for line in sys.stdin:
        output, seconds, *arguments = json.loads(line)
        run_tests = functools.partial(pytest.main, arguments)
        sys.stdout.write(json.dumps(fork(run_tests, Path(output), seconds)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
