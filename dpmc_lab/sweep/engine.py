"""Run a plan: every finished unit is stored at once, and nothing that is stored runs again.

A worker runs one unit and remembers the data and solves that units share. Units run in processes of
this machine, or wherever another pool takes them. Units without a row in the store are handed out
until none are left.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeVar

from dpmc_core import experiment
from dpmc_core.errors import DpmcError, check_number
from dpmc_core.experiment import Result, serialise_settings
from dpmc_core.model import Rounds
from dpmc_core.preparation import parse_step
from dpmc_core.problem import Problem, build_problem
from dpmc_core.ratings import Ratings
from dpmc_core.stopping import StopCheck
from dpmc_data.paths import get_version
from dpmc_lab import plugins
from dpmc_lab.locks import Claims
from dpmc_lab.store import (
    Record,
    Store,
    StoreError,
    StoreLocked,
    digest_values,
    drop_epsilon,
    list_certified_units,
)
from dpmc_lab.sweep import toplists
from dpmc_lab.sweep.grid import Unit
from dpmc_lab.sweep.sources import SweepData

T = TypeVar("T")

# --- what a worker does --------------------------------------------------------------------------

_LARGE = 2_000_000  # with more ratings (32 MB), a process caches a single split
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class RecentCache:
    """The most recent problems and solves of a process, which may run units in several threads."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._lock = threading.RLock()
        self._cached: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the value of a key, computing it if it is not cached."""
        with self._lock:
            if key not in self._cached:
                while len(self._cached) >= self.size:  # freed before the new value is computed
                    self._cached.popitem(last=False)
                self._cached[key] = compute()
            self._cached.move_to_end(key)
            value: T = self._cached[key]
            return value


_sources: dict[str, SweepData] = {}
_problems = RecentCache(4)
_solves = RecentCache(2)


class SharedSources:
    """Data sets whose arrays all processes of a pool share, instead of a copy each.

    The memory has no name, so nothing of it remains when processes are killed. It can only be
    passed to a process that is being started.
    """

    def __init__(self, sources: Mapping[str, SweepData], context: Any) -> None:
        buffers: list[pickle.PickleBuffer] = []
        self._pickled = pickle.dumps(dict(sources), 5, buffer_callback=buffers.append)
        self._arrays = [context.RawArray("b", buffer.raw().nbytes) for buffer in buffers]
        for array, buffer in zip(self._arrays, buffers, strict=True):
            memoryview(array).cast("B")[:] = buffer.raw()

    def open(self) -> dict[str, SweepData]:
        """Return the data sets, whose arrays are read-only views of the shared memory."""
        buffers = [memoryview(array).toreadonly() for array in self._arrays]
        sources: dict[str, SweepData] = pickle.loads(self._pickled, buffers=buffers)
        return sources


def initialise_worker(
    sources: SharedSources, lifeline: Connection, files: Mapping[str, bytes]
) -> None:
    """Prepare a worker process that lives only as long as its parent.

    Args:
        sources: the data of the units.
        lifeline: a pipe; the process ends when the parent's end of it is closed.
        files: source texts of the loaded plugins, by path.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches everybody; the parent decides

    def watch_lifeline() -> None:
        """End this process when the parent's end of the pipe is closed."""
        with suppress(EOFError, OSError):
            lifeline.recv_bytes()
        os._exit(1)

    threading.Thread(target=watch_lifeline, daemon=True).start()
    _sources.update(sources.open())
    for path, source in files.items():  # the parent's text, even if the file has changed since
        plugins.run_plugin(path, source)


def run_unit(
    unit: Unit,
    source: SweepData | None = None,
    pin: bool = False,
    also: Callable[[Result], Any] | None = None,
) -> Record | str:
    """Return the record of a unit, or a sentence that says why there is none.

    Args:
        unit: the unit.
        source: its data; None in a process that `initialise_worker` gave the data.
        pin: whether to limit linear algebra to one thread.
        also: computes a further value from the result, stored in the record as "also".
    """
    try:
        if pin:
            limit_threads()
        result, record = run_unit_locally(unit, source or _sources[unit.source])
        return record if also is None else {**record, "also": also(result)}
    except DpmcError as error:
        return str(error)
    except MemoryError:
        return "not enough memory; take smaller data or another method"
    except Exception as error:  # a fault of this program must not end a sweep of a thousand units
        return f"unexpected {type(error).__name__}: {error}"


def run_unit_locally(unit: Unit, source: SweepData) -> tuple[Result, Record]:
    """Run a unit in this process and return its result and its record.

    Raises:
        DpmcError: the unit cannot be run.
    """
    key = unit.source, unit.steps, unit.split, unit.mechanism.task
    seed = unit.seed if source.per_seed or unit.split is not None else 0
    problem = _problems.get((*key, seed), lambda: build_unit_problem(unit, source))
    if len(problem.train) > _LARGE:
        _problems.size = 1  # units come seed by seed, and a split is as large as its data
    fitted = experiment.fit(unit.mechanism, problem, unit.seed, solve=share_solve)
    result = experiment.measure(fitted)
    record = result.as_dict()
    del record["baselines"], record["evaluation"], record["raw"]
    record["data"] |= {
        **problem.train.public.as_dict(),
        "source": unit.source,
        "title": source.title,
        "split": unit.split_text,
        "prepared": list(problem.train.prepared),
    }
    record["guarantee"] |= list_certified_units(result.guarantee)
    if unit.seed == toplists.LISTS_SEED:
        record["lists"] = toplists.list_recommendations(result.model, problem.train)
    return result, {"key": unit.key, "version": get_version(), **record}


def build_unit_problem(unit: Unit, source: SweepData) -> Problem:
    """Return the training and test ratings of a unit, prepared and split as it asks."""
    return build_problem(
        source.for_seed(unit.seed),
        unit.mechanism.task,
        steps=[parse_step(step) for step in unit.steps],
        split=unit.split,
        seed=unit.seed,
        name=source.name,
    )


def share_solve(mechanism: Any, ratings: Ratings) -> Rounds:
    """Return the rounds of a mechanism's solve before noise, computed once for all epsilons."""
    settings = drop_epsilon(serialise_settings(mechanism))
    key = digest_values(mechanism.id, mechanism.revision, settings, ratings.fingerprint)
    return _solves.get(key, lambda: tuple(mechanism.solve_without_noise(ratings)))


def limit_threads() -> None:
    """Limit linear algebra in this process to one thread, unless the environment does already."""
    if all(os.environ.get(name) == "1" for name in THREADS[:2]):
        return
    with suppress(ImportError):
        from threadpoolctl import threadpool_limits

        threadpool_limits(limits=1)
        os.environ.update(dict.fromkeys(THREADS, "1"))


# --- where units run -----------------------------------------------------------------------------


def count_cores() -> int:
    """Return how many processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resolve_jobs(jobs: int | None) -> int:
    """Return the number of processes that --jobs gives, or one per core.

    Raises:
        InvalidSetting: it is not between 1 and 1024.
    """
    if jobs is None:
        return count_cores()
    check_number("--jobs", jobs, at_least=1, at_most=1024, integer=True)
    return jobs


class Pool(Protocol):
    """Workers that run units.

    Attributes:
        size: how many units run at the same time.
    """

    size: int

    def submit(self, unit: Unit) -> Future[Record | str]:
        """Hand a unit to a worker.

        Returns:
            The future record of the unit, or a sentence that says why there is none.

        Raises:
            BrokenExecutor: the pool is lost; the future may raise it too.
        """

    def close(self, *, at_once: bool) -> None:
        """End the workers, dropping the running units if `at_once`."""


class LocalPool:
    """Processes of this machine, each with one thread of linear algebra.

    The processes never outlive this one: each watches a pipe whose other end only this process
    holds.

    Attributes:
        size: how many units run at the same time.
    """

    def __init__(self, sources: Mapping[str, SweepData], jobs: int) -> None:
        self.size = jobs
        context = _get_process_context()
        self._reader, self._lifeline = context.Pipe(duplex=False)
        arguments = (
            SharedSources(sources, context),
            self._reader,
            dict(plugins.list_loaded_plugins()),
        )
        self._executor = ProcessPoolExecutor(
            self.size, context, initializer=initialise_worker, initargs=arguments
        )

    def submit(
        self, unit: Unit, also: Callable[[Result], Any] | None = None
    ) -> Future[Record | str]:
        """Hand a unit to a worker.

        Args:
            unit: the unit.
            also: computes a further value from the result, see `run_unit`.

        Raises:
            BrokenExecutor: no process can be started.
        """
        try:
            with _prepare_children():
                return self._executor.submit(run_unit, unit, also=also)
        except (EOFError, OSError) as error:  # no process can be started
            raise BrokenExecutor(str(error)) from None

    def close(self, *, at_once: bool) -> None:
        """End the processes, dropping the running units if `at_once`."""
        if at_once:
            self._lifeline.close()
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._lifeline.close()
        self._reader.close()


def warm_up() -> None:
    """Start loading the library, in the background, in the process that workers are forked from."""
    if _get_process_context().get_start_method() == "forkserver":
        from multiprocessing import forkserver

        with _prepare_children():
            forkserver.ensure_running()


def _get_process_context() -> Any:
    """Return how this system starts worker processes."""
    # When a sweep is killed, the resource tracker removes its semaphores. Its warning about that
    # would puzzle.
    sys.warnoptions.append("ignore:resource_tracker")
    # This process is never forked, since it may hold locks and threads. A fork server has loaded
    # the library once and starts copies in milliseconds. On other systems each worker loads it.
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dpmc_lab.sweep.engine"])
    return context


@contextmanager
def _prepare_children() -> Iterator[None]:
    """Give processes that the block starts one thread of linear algebra, and no Ctrl-C."""
    if os.name == "posix":
        resource_tracker.ensure_running()  # first, because its start unblocks Ctrl-C again
    previous = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    can_mask = hasattr(signal, "pthread_sigmask")
    blocked_signals = (
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if can_mask else set()
    )
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        if can_mask:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked_signals)


# --- running all of them -------------------------------------------------------------------------

POLL_SECONDS = 0.2  # between two checks whether to stop
MAX_LOSSES_TOGETHER = 2  # lost workers after which a unit runs while no other unit does
MAX_LOSSES_ALONE = 2  # further lost workers after which it is reported as failed
MAX_BREAKS = 8  # broken pools in a row without a finished unit
# With 100,000 units it takes long to look for rows of other sweeps. The pause until the next look
# is this many times as long as the look itself.
POLL_PAUSE_FACTOR = 10
PATIENCE = 60.0  # seconds to go on trying a locked store once everything else is done
ELSEWHERE_NOTE = (
    "what is left is being computed by another sweep on this store; waiting for its rows"
)


@dataclass
class SweepReport:
    """Progress of a sweep.

    Attributes:
        total: number of units.
        skipped: rows that existed before or came from another sweep.
        done: rows that this sweep wrote; with `skipped`, all rows that the store has.
        failed: units without a result, with the reason in a sentence.
        stopped: whether the sweep was stopped.
        note: what the sweep is waiting for, in words.
    """

    total: int
    skipped: int = 0
    done: int = 0
    failed: dict[Unit, str] = field(default_factory=dict)
    stopped: bool = False
    note: str = ""

    @property
    def n_ended(self) -> int:
        """Return how many units of this sweep are over, whether written or failed."""
        return self.done + len(self.failed)


def run(
    units: Sequence[Unit],
    store: Store,
    open_pool: Callable[[], Pool],
    *,
    on_progress: Callable[[SweepReport], None] = lambda _: None,
    stop: StopCheck = lambda: False,
    patience: float = PATIENCE,
) -> SweepReport:
    """Run every unit without a row in the store, and write each as soon as it is finished.

    Units that another sweep on the store computes meanwhile are left to it, and taken over if it
    ends. Where a worker was killed, `open_pool` is called again and its unit is tried again,
    finally on its own; it is reported as failed if that kills its worker too. Once `stop()` is true
    the running units are dropped.

    Args:
        units: the units.
        store: receives the rows.
        open_pool: opens the workers.
        on_progress: called with the report whenever it may have changed.
        stop: returns whether to stop.
        patience: seconds to wait for a locked store at the end.

    Raises:
        StoreError: rows cannot be written; what was written stays.
        DpmcError: the workers are killed again and again.
    """
    stored_keys = store.find_stored_keys(unit.key for unit in units)
    report = SweepReport(total=len(units), skipped=sum(unit.key in stored_keys for unit in units))
    todo = deque(unit for unit in units if unit.key not in stored_keys)
    on_progress(report)
    if not todo:
        return report
    breaks = 0
    with store.claims() as claims:
        sweep = _Sweep(todo, store, report, claims, on_progress, stop)
        try:
            while todo and not report.stopped:
                n_finished_before, n_failed_before = sweep.n_finished, len(report.failed)
                pool = open_pool()
                try:
                    broken = sweep.drain(pool)
                except BaseException:
                    pool.close(at_once=True)
                    raise
                pool.close(at_once=report.stopped or broken)
                sweep.requeue_suspects()
                finished = sweep.n_finished
                # A failed unit is progress too, once any unit has shown that workers can finish.
                made_progress = finished > n_finished_before or (
                    finished and len(report.failed) > n_failed_before
                )
                breaks = breaks + 1 if broken and not made_progress else 0
                if breaks == MAX_BREAKS:
                    raise DpmcError(
                        f"the worker processes ended {MAX_BREAKS} times before any unit was"
                        " through: is there enough memory? The rows so far are kept"
                    )
                sweep.report_progress()
        finally:
            sweep.write_all(patience)
        sweep.report_progress(at_once=True)
    return report


@dataclass(eq=False)
class _Sweep:
    """The units that are left, and rows that are not in the store yet.

    A unit stays claimed until its row is written.

    Attributes:
        _todo: units without a row that are not running.
        _losses: how often the worker of a unit was lost, by the unit's key.
        _suspects: units that were running when a pool broke.
        _waiting: finished rows that are not written yet, for example because the store is locked.
        _next_write, _next_poll: earliest times, in seconds of the monotonic clock, to write, and to
            look for other sweeps' rows.
        _last_stamp: the store's stamp at the last look.
    """

    _todo: deque[Unit]
    _store: Store
    _report: SweepReport
    _claims: Claims
    _on_progress: Callable[[SweepReport], None]
    _stop: StopCheck
    _losses: Counter[str] = field(default_factory=Counter)
    _suspects: list[Unit] = field(default_factory=list)
    _waiting: list[Record] = field(default_factory=list)
    _next_write: float = 0.0
    _next_poll: float = 0.0
    _last_stamp: int = -1

    @property
    def n_finished(self) -> int:
        """Return how many units of this sweep have a result, written or waiting."""
        return self._report.done + len(self._waiting)

    def report_progress(self, *, at_once: bool = False) -> None:
        """Count the rows of other sweeps and report the progress."""
        self._count_other_rows(at_once=at_once)
        self._on_progress(self._report)

    def drain(self, pool: Pool) -> bool:
        """Run units until none is left, the user stops or the pool breaks.

        Returns:
            Whether the pool broke.
        """
        todo, report = self._todo, self._report
        running: dict[Future[Record | str], Unit] = {}
        broken = False
        while running or (todo and not broken):
            report.stopped = bool(self._stop())
            try:
                if not report.stopped:
                    self._submit_units(pool, running)
            except BrokenExecutor:
                broken = True
            # Whether other sweeps have claimed all units that are left.
            elsewhere = bool(todo) and not running and not broken and not report.stopped
            if elsewhere:
                time.sleep(POLL_SECONDS)
            finished_futures, _ = wait(
                running, 0 if report.stopped else POLL_SECONDS, FIRST_COMPLETED
            )
            cut_off = False
            for future in finished_futures:
                unit = running.pop(future)
                try:
                    outcome = future.result()
                except BrokenExecutor:  # every running unit gets this, one after the other
                    broken = True
                    self._suspects.append(unit)
                    continue
                except CancelledError:  # a cluster lost the data or is gone; opening a pool shows
                    broken = cut_off = True
                    todo.appendleft(unit)
                    continue
                except Exception as error:  # the executor itself could not run it
                    first_line = (str(error) or type(error).__name__).splitlines()[0]
                    outcome = f"its worker was lost: {first_line}"
                if isinstance(outcome, str):
                    self._record_failure(unit, outcome)
                else:
                    self._waiting.append(outcome)
            if cut_off:  # units submitted since then would never answer
                todo.extendleft(running.values())
                running.clear()
            self._write_waiting()
            if not self._waiting:
                report.note = ELSEWHERE_NOTE if elsewhere else ""
            self.report_progress()
            if report.stopped:  # it does not count as stopped if everything is done
                todo.extendleft(running.values())
                report.stopped = bool(todo)
                break
        return broken

    def _submit_units(self, pool: Pool, running: dict[Future[Record | str], Unit]) -> None:
        """Hand units to the pool until it is full or all units that are left are claimed elsewhere.

        Args:
            pool: the workers.
            running: the running units; this call adds to them.

        Raises:
            BrokenExecutor: the pool is lost.
        """
        todo = self._todo
        for _ in range(len(todo)):  # each unit at most once
            # A unit that has lost too many workers runs while no other unit does.
            candidates = (todo[0], *running.values())
            fragile = (
                running
                and max(self._losses[candidate.key] for candidate in candidates)
                >= MAX_LOSSES_TOGETHER
            )
            # One more than there are workers, so that none waits while a row is written.
            if len(running) > pool.size or fragile:
                break
            if not self._claims.take(todo[0].key):
                todo.rotate(-1)
                continue
            stored = set[str]()
            with suppress(StoreLocked):  # at worst it is computed twice
                stored = self._store.find_stored_keys([todo[0].key])
            if stored:  # another sweep wrote it before it was claimed here
                self._claims.drop(todo[0].key)
                self._report.skipped += 1
            else:
                running[pool.submit(todo[0])] = todo[0]
            todo.popleft()

    def requeue_suspects(self) -> None:
        """Put the units whose pool broke at the front of the queue, or report them as failed.

        A unit fails once it has lost too many workers.
        """
        while self._suspects:
            unit = self._suspects.pop()
            self._losses[unit.key] += 1
            if self._losses[unit.key] < MAX_LOSSES_TOGETHER + MAX_LOSSES_ALONE:
                self._todo.appendleft(unit)
            else:
                self._record_failure(
                    unit,
                    f"its worker process was killed {self._losses[unit.key]} times, the last times"
                    " with nothing else running: out of memory, perhaps",
                )

    def write_all(self, patience: float) -> None:
        """Write the waiting rows, for as long as `patience` in seconds allows.

        Raises:
            StoreError: the store stayed locked.
        """
        end = time.monotonic() + patience
        while self._waiting:
            self._next_write = 0.0
            self._write_waiting()
            self.report_progress()
            if not self._waiting:
                break
            if time.monotonic() > end or self._stop():
                unwritten = _format_row_count(self._waiting)
                self._waiting.clear()
                raise StoreError(
                    f"the result store {self._store.path} stayed locked by another program, so"
                    f" {unwritten} could not be written: run the same command again"
                )
            time.sleep(POLL_SECONDS)

    def _record_failure(self, unit: Unit, reason: str) -> None:
        """Report a unit as failed, and release its claim."""
        self._report.failed[unit] = reason
        self._claims.drop(unit.key)

    def _count_other_rows(self, *, at_once: bool) -> None:
        """Remove units from the queue whose rows another sweep has written; count them as skipped.

        Args:
            at_once: whether to look even before the pause since the last look is over.
        """
        start = time.monotonic()
        if start < self._next_poll and not at_once:
            return
        with suppress(StoreLocked):
            stamp = self._store.stamp()
            if stamp == self._last_stamp:
                return
            stored_keys = self._store.find_stored_keys(unit.key for unit in self._todo)
            remaining = [unit for unit in self._todo if unit.key not in stored_keys]
            self._report.skipped += len(self._todo) - len(remaining)
            self._todo.clear()
            self._todo.extend(remaining)
            self._last_stamp = stamp
        self._next_poll = start + POLL_PAUSE_FACTOR * (time.monotonic() - start)

    def _write_waiting(self) -> None:
        """Write the waiting rows; a locked store is tried again later.

        Raises:
            StoreError: they cannot be written for another reason.
        """
        if not self._waiting or time.monotonic() < self._next_write:
            return
        try:
            n_new = self._store.add(self._waiting)
        except StoreLocked as error:
            self._report.note = f"{error}; waiting with {_format_row_count(self._waiting)}"
            self._next_write = time.monotonic() + 1.0
            return
        except StoreError as error:
            unwritten = _format_row_count(self._waiting)
            self._waiting.clear()
            raise StoreError(f"{error} ({unwritten} could not be written)") from None
        for record in self._waiting:
            self._claims.drop(record["key"])
        self._report.done += n_new
        self._report.skipped += len(self._waiting) - n_new
        self._waiting.clear()
        self._report.note = ""


def _format_row_count(waiting: Sequence[Record]) -> str:
    """Return the number of finished rows with its noun."""
    return f"{len(waiting)} finished row{'' if len(waiting) == 1 else 's'}"
