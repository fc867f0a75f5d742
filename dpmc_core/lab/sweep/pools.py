"""Where units run: processes of this machine, or a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any, Protocol

from dpmc_core import plugins
from dpmc_core.errors import DpmcError, InvalidSetting, check_number
from dpmc_core.lab.store import Record
from dpmc_core.lab.sweep import worker
from dpmc_core.lab.sweep.grid import Unit
from dpmc_core.lab.sweep.sources import SweepData
from dpmc_core.lab.sweep.worker import THREADS, run_unit
from dpmc_core.paths import version

PATIENCE = 10.0  # seconds to reach a scheduler, and to wait for its first worker


_ADDRESS = re.compile(r"(tcp|tls)://(\[[\w:.%]+\]|[^\s:/@\[\]]+):(\d{1,5})")


class Pool(Protocol):
    """Workers that take units. Units already running are dropped when a pool is closed at once."""

    @property
    def size(self) -> int:
        """How many units run at the same time."""
        ...

    def submit(self, unit: Unit) -> Future[Record | str]:
        """What `worker.run_unit` finds."""
        ...

    def close(self, *, at_once: bool) -> None: ...


def default_jobs() -> int:
    """The processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processes(jobs: int | None, name: str = "jobs") -> int:
    """How many processes: those given, else one per core. Raises InvalidSetting.

    name: what people know the number by.
    """
    if jobs is None:
        return default_jobs()
    check_number(name, jobs, at_least=1, at_most=1024, integer=True)
    return jobs


class LocalPool:
    """Processes of this machine, each with one thread of linear algebra.

    They never outlive this process: each watches a pipe whose other end only this process holds.
    """

    def __init__(self, sources: Mapping[str, SweepData], jobs: int | None = None) -> None:
        self.size = processes(jobs)
        context = _context()
        self._reader, self._lifeline = context.Pipe(duplex=False)
        arguments = dict(sources), self._reader, dict(plugins.loaded())
        self._executor = ProcessPoolExecutor(
            self.size, context, initializer=worker.start, initargs=arguments
        )

    def submit(self, unit: Unit) -> Future[Record | str]:
        try:
            with _birth():
                return self._executor.submit(run_unit, unit)
        except (EOFError, OSError) as error:  # no process can be started
            raise BrokenExecutor(str(error)) from None

    def close(self, *, at_once: bool) -> None:
        if at_once:
            self._lifeline.close()
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._lifeline.close()
        self._reader.close()


def warm_up() -> None:
    """Begin to load the library in the process that workers are forked from, in the background."""
    if _context().get_start_method() == "forkserver":
        from multiprocessing import forkserver

        with _birth():
            forkserver.ensure_running()


def _context() -> Any:
    # Never a fork of this process: it may hold locks and threads. A fork server has loaded the
    # library once and hands out copies in milliseconds; elsewhere each worker loads it anew.
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dpmc_core.lab.sweep.worker"])
    return context


@contextmanager
def _birth() -> Iterator[None]:
    """Processes started inside the block have one thread of linear algebra, and no Ctrl-C."""
    if os.name == "posix":
        resource_tracker.ensure_running()  # first, because its start lets Ctrl-C through again
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    masks = hasattr(signal, "pthread_sigmask")
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if masks else set()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        if masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)


def check_address(address: str) -> None:
    """Raise InvalidSetting unless it is the address of a scheduler as Dask prints it."""
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found[3]) < 2**16:
        raise InvalidSetting("--cluster", "tcp://HOST:PORT or tls://HOST:PORT", address)


class ClusterPool:
    """The workers of a running Dask scheduler. Needs the extra `cluster`."""

    def __init__(self, address: str, sources: Mapping[str, SweepData]) -> None:
        check_address(address)
        try:
            from distributed import Client
        except ImportError:
            raise DpmcError(
                "a cluster needs Dask: run 'pip install \"dpmc-lab[cluster]\"', or leave --cluster"
                " out"
            ) from None
        kind: Any = Client
        self._client = kind.__new__(kind)  # in two steps: half a client has to be closed
        try:
            self._client.__init__(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            self._client.status = "closed"  # else it says goodbye for 20 s when it is collected
            raise DpmcError(
                f"the cluster at {address} cannot be reached ({error}): start it with 'dask"
                " scheduler' and 'dask worker', or leave --cluster out"
            ) from None
        try:
            self._check_workers(address)
            self.size = sum(self._client.nthreads().values())
            self._data = {
                mark: self._client.scatter(source, broadcast=True, hash=False)
                for mark, source in sources.items()
            }
        except BaseException:
            self._client.close()
            raise
        self._running: dict[Future[Record | str], Any] = {}

    def submit(self, unit: Unit) -> Future[Record | str]:
        task = self._client.submit(run_unit, unit, self._data[unit.source], True, pure=False)
        if self._client.status != "running":  # looking for its scheduler; this one got lost
            raise BrokenExecutor("the connection to the cluster was lost")
        # Not Dask's own executor: it prints a traceback, and never answers, where the scheduler
        # is lost between the end of a task and the arrival of its result.
        answer: Future[Record | str] = Future()
        self._running[answer] = task
        task.add_done_callback(lambda task: self._pass_on(task, answer))
        return answer

    def _pass_on(self, task: Any, answer: Future[Record | str]) -> None:
        self._running.pop(answer, None)
        try:
            if task.status == "error":
                answer.set_exception(task.exception(timeout=PATIENCE))
            else:
                answer.set_result(task.result(timeout=PATIENCE))
        except Exception:  # cancelled, or no longer to be had
            answer.set_exception(CancelledError())

    def close(self, *, at_once: bool) -> None:
        with suppress(Exception):  # the scheduler may be gone
            if at_once:
                self._client.cancel(list(self._running.values()))
            else:
                wait(list(self._running))
        with suppress(Exception):
            self._data.clear()
            self._client.close()

    def _check_workers(self, address: str) -> None:
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise DpmcError(
                f"the cluster at {address} has no workers: start some with 'dask worker {address}'"
            ) from None
        try:
            there = {*self._client.run(version).values(), self._client.run_on_scheduler(version)}
        except Exception as error:
            raise DpmcError(
                f"the scheduler and the workers of {address} must be able to load this program:"
                f" install dpmc-lab {version()} there too ({type(error).__name__})"
            ) from None
        if there != {version()}:
            raise DpmcError(
                f"{address} runs version {' and '.join(sorted(there))} of dpmc-lab, and this is"
                f" {version()}: install the same everywhere"
            )
