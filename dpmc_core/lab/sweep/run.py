"""Running a plan: every finished unit is stored at once, and nothing that is stored runs again."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field

from dpmc_core.errors import DpmcError
from dpmc_core.lab.locks import Claims
from dpmc_core.lab.store import Record, Store, StoreError, StoreLocked
from dpmc_core.lab.sweep.grid import Unit
from dpmc_core.lab.sweep.pools import Pool

TICK = 0.2  # seconds between two looks at the stop button
COMPANY = 2  # times a unit may lose its worker beside others, before it runs on its own
ALONE = 2  # times it may on its own, before it is given up
BREAKS = 8  # broken pools in a row without one finished unit
SPARING = 10  # how long the looks for others' rows rest, in their own times: there may be 100,000
PATIENCE = 60.0  # seconds to go on trying a locked store once everything else is done
ELSEWHERE = "what is left is being computed by another sweep on this store; waiting for its rows"


@dataclass
class SweepReport:
    """How far a sweep is.

    skipped: rows that were there or came from another sweep; done: those written by this one;
    together the rows that the store has. failed: units without a result, with the reason in a
    sentence.
    """

    total: int
    skipped: int = 0
    done: int = 0
    failed: dict[Unit, str] = field(default_factory=dict)
    stopped: bool = False
    note: str = ""

    @property
    def ended(self) -> int:
        """Units of this sweep that are over, written or failed."""
        return self.done + len(self.failed)


OnProgress = Callable[[SweepReport], None]


def run(
    units: Sequence[Unit],
    store: Store,
    open_pool: Callable[[], Pool],
    *,
    on_progress: OnProgress = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
    patience: float = PATIENCE,
) -> SweepReport:
    """Run every unit that the store has no row of; each finished one is written as it comes.

    What another sweep on the store computes meanwhile is left to it, and taken over where it ends.
    open_pool is called again where a worker was killed: its unit is tried again, in the end on its
    own, and reported as failed if that kills its worker too. Once `stop()` is true the units
    running are dropped. Raises StoreError where rows cannot be written; what was written stays.
    """
    present = store.present(unit.key for unit in units)
    report = SweepReport(total=len(units), skipped=sum(unit.key in present for unit in units))
    todo = deque(unit for unit in units if unit.key not in present)
    lost: Counter[str] = Counter()
    breaks = 0
    on_progress(report)
    if not todo:
        return report
    with store.claims() as claims:
        writer = _Writer(store, report, claims)

        def tell(at_once: bool = False) -> None:
            writer.find_others(todo, at_once=at_once)
            on_progress(report)

        try:
            while todo and not report.stopped:
                before = writer.finished, len(report.failed)
                pool = open_pool()
                try:
                    broken, suspects = _drain(pool, todo, lost, report, writer, tell, stop)
                except BaseException:
                    pool.close(at_once=True)
                    raise
                pool.close(at_once=report.stopped or broken)
                _sort_out(suspects, todo, lost, report, writer)
                finished = writer.finished
                onward = finished > before[0] or (finished and len(report.failed) > before[1])
                breaks = breaks + 1 if broken and not onward else 0
                if breaks == BREAKS:
                    raise DpmcError(
                        f"the worker processes ended {BREAKS} times before any unit was through:"
                        " is there enough memory? The rows so far are kept"
                    )
                tell()
        finally:
            writer.finish(patience, stop, tell)
        tell(at_once=True)
    return report


def _drain(
    pool: Pool,
    todo: deque[Unit],
    lost: Counter[str],
    report: SweepReport,
    writer: _Writer,
    tell: Callable[[], None],
    stop: Callable[[], bool],
) -> tuple[bool, list[Unit]]:
    """Work until nothing is left, the stop button, or a broken pool; then the units it took."""
    running: dict[Future[Record | str], Unit] = {}
    suspects: list[Unit] = []
    broken = False
    while running or (todo and not broken):
        report.stopped = bool(stop())
        try:
            for _ in range(0 if report.stopped else len(todo)):  # one look at each
                # One more than there are workers, so that none waits while a row is written.
                if len(running) > pool.size or not _may_start(todo[0], running, lost):
                    break
                if not writer.claims.take(todo[0].key):
                    todo.rotate(-1)
                    continue
                if writer.is_there(todo[0]):  # looked up once nobody else can write it
                    writer.claims.drop(todo[0].key)
                    report.skipped += 1
                else:
                    running[pool.submit(todo[0])] = todo[0]
                todo.popleft()
        except BrokenExecutor:
            broken = True
        elsewhere = bool(todo) and not running and not broken and not report.stopped
        if elsewhere:
            time.sleep(TICK)
        done, _ = wait(running, 0 if report.stopped else TICK, FIRST_COMPLETED)
        cut_off = False
        for future in done:
            unit = running.pop(future)
            try:
                outcome = future.result()
            except BrokenExecutor:  # all that run are told so, one after the other
                broken = True
                suspects.append(unit)
                continue
            except CancelledError:  # a cluster lost the data, or is gone: connecting will tell
                broken = cut_off = True
                todo.appendleft(unit)
                continue
            except Exception as error:  # the executor itself could not run it
                first = (str(error) or type(error).__name__).splitlines()[0]
                outcome = f"its worker was lost: {first}"
            if isinstance(outcome, str):
                report.failed[unit] = outcome
                writer.claims.drop(unit.key)
            else:
                writer.waiting.append(outcome)
        if cut_off:  # one handed over meanwhile would never answer
            todo.extendleft(running.values())
            running.clear()
        writer.retry()
        if not writer.waiting:
            report.note = ELSEWHERE if elsewhere else ""
        tell()
        if report.stopped:  # unless that was the last of it
            todo.extendleft(running.values())
            report.stopped = bool(todo)
            break
    return broken, suspects


def _may_start(unit: Unit, running: dict[Future[Record | str], Unit], lost: Counter[str]) -> bool:
    """A unit that was there twice when a worker died runs with no other beside it."""
    alone = any(lost[other.key] >= COMPANY for other in running.values())
    return not running or (not alone and lost[unit.key] < COMPANY)


def _sort_out(
    suspects: list[Unit],
    todo: deque[Unit],
    lost: Counter[str],
    report: SweepReport,
    writer: _Writer,
) -> None:
    """Put units whose pool broke back to the front, except those that break it on their own."""
    for unit in reversed(suspects):
        lost[unit.key] += 1
        if lost[unit.key] >= COMPANY + ALONE:
            report.failed[unit] = (
                f"its worker process was killed {lost[unit.key]} times, the last times with nothing"
                " else running: out of memory, perhaps"
            )
            writer.claims.drop(unit.key)
        else:
            todo.appendleft(unit)


class _Writer:
    """Rows on their way to the store; those it cannot take while it is locked wait here.

    A unit stays claimed until its row is written.
    """

    def __init__(self, store: Store, report: SweepReport, claims: Claims) -> None:
        self._store, self._report, self.claims = store, report, claims
        self.waiting: list[Record] = []
        self._again = self._look = 0.0
        self._seen = -1

    @property
    def finished(self) -> int:
        """How many units of this sweep have a result, written or waiting."""
        return self._report.done + len(self.waiting)

    def is_there(self, unit: Unit) -> bool:
        with suppress(StoreLocked):
            return bool(self._store.present([unit.key]))
        return False  # at worst it is computed twice

    def find_others(self, todo: deque[Unit], *, at_once: bool = False) -> None:
        """Count the rows that other sweeps have written since, so that nothing runs twice and the
        count is the store's."""
        start = time.monotonic()
        if start < self._look and not at_once:
            return
        with suppress(StoreLocked):
            stamp = self._store.stamp()
            if stamp == self._seen:
                return
            there = self._store.present(unit.key for unit in todo)
            left = [unit for unit in todo if unit.key not in there]
            self._report.skipped += len(todo) - len(left)
            todo.clear()
            todo.extend(left)
            self._seen = stamp
        self._look = start + SPARING * (time.monotonic() - start)

    def retry(self) -> None:
        """Write what waits. Raises StoreError unless the store is merely locked."""
        if not self.waiting or time.monotonic() < self._again:
            return
        try:
            new = self._store.add(self.waiting)
        except StoreLocked as error:
            self._report.note = f"{error}; waiting with {_rows(len(self.waiting))}"
            self._again = time.monotonic() + 1.0
        except StoreError as error:
            lost = len(self.waiting)
            self.waiting.clear()
            raise StoreError(f"{error} ({_rows(lost)} could not be written)") from None
        else:
            for record in self.waiting:
                self.claims.drop(record["key"])
            self._report.done += new
            self._report.skipped += len(self.waiting) - new
            self.waiting.clear()
            self._report.note = ""

    def finish(self, patience: float, stop: Callable[[], bool], tell: Callable[[], None]) -> None:
        """Write what still waits, for as long as `patience` in seconds allows."""
        end = time.monotonic() + patience
        while self.waiting:
            self._again = 0.0
            self.retry()
            tell()
            if not self.waiting:
                break
            if time.monotonic() > end or stop():
                lost = len(self.waiting)
                self.waiting.clear()
                raise StoreError(
                    f"the result store {self._store.path} stayed locked by another program, so"
                    f" {_rows(lost)} could not be written: run the same command again"
                )
            time.sleep(TICK)


def _rows(count: int) -> str:
    return f"{count} finished row{'' if count == 1 else 's'}"
