"""Run work in the background, a few jobs at once and the others in a queue, without Streamlit."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dpmc_core.errors import DpmcError, format_sentence

MAX_RUNNING_JOBS = 2  # of each kind below; all share one interpreter, and more would slow it down
_MIN_DONE = 3  # units of work that must be done before there is ground for an estimate
_MIN_SECONDS = 2.0  # seconds that must have passed as well


@dataclass(frozen=True)
class Snapshot:
    """The state of a job at one moment.

    A halt is a moment at which the work can wait, such as the end of a round.

    Attributes:
        state: queued, running, done, stopped or failed.
        ahead: number of jobs before it in the queue.
        done, total: finished and total units of the current work.
        label: what the job is doing.
        points: the points that the work has reported, in order.
        seconds: running time.
        result: what it returned, or its result so far.
        display: what a page shows of the work while it runs.
        message: why it failed or stopped, in a sentence.
        stopping: whether it was asked to stop; it stops at its next report.
        is_held: whether it was asked to wait at its next halt.
        paused: whether it is waiting there.
        work_start: seconds and units done when the work that `total` counts began.
    """

    state: str = "queued"
    ahead: int = 0
    done: int = 0
    total: int = 0
    label: str = ""
    points: tuple[Any, ...] = ()
    seconds: float = 0.0
    result: Any = None
    display: Any = None
    message: str = ""
    stopping: bool = False
    is_held: bool = False
    paused: bool = False
    work_start: tuple[float, int] = (0.0, 0)

    @property
    def active(self) -> bool:
        """Return whether the job is queued or running."""
        return self.state in ("queued", "running")

    @property
    def share(self) -> float:
        """Return the finished share of the current work."""
        return min(1.0, self.done / self.total) if self.total else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimate the remaining seconds at the pace so far; None while it is too early."""
        start_seconds, start_done = self.work_start
        seconds = self.seconds - start_seconds
        n_done = self.done - start_done
        if not self.total or n_done < _MIN_DONE or seconds < _MIN_SECONDS:
            return None
        return max(0.0, seconds * (self.total - self.done) / n_done)


ProgressReporter = Callable[..., None]  # how work says where it is, see Job._report
Work = Callable[[ProgressReporter, Callable[[], bool]], Any]


class WorkerSlots:
    """A number of slots for running work; further work waits in order of arrival.

    Paused work leaves its slot to others. Otherwise a class that goes step by step would block the
    whole server.
    """

    def __init__(self, n_slots: int = MAX_RUNNING_JOBS) -> None:
        self._free = n_slots
        self._waiting: deque[Job] = deque()
        self.turn = threading.Condition()

    def enqueue(self, job: Job, *, first: bool = False) -> None:
        """Put a job at the end of the queue, or at its front."""
        with self.turn:
            (self._waiting.appendleft if first else self._waiting.append)(job)

    def acquire(self, job: Job, stopped: Callable[[], bool]) -> None:
        """Wait for the job's slot.

        A stopped job only has to end, so it gets a slot at once.
        """
        with self.turn:
            self.turn.wait_for(lambda: stopped() or (self._free > 0 and self._waiting[0] is job))
            self._waiting.remove(job)
            self._free -= 1
            self.turn.notify_all()

    def release(self) -> None:
        """Return a slot."""
        with self.turn:
            self._free += 1
            self.turn.notify_all()

    def cancel_jobs(self) -> None:
        """Stop every job that has a slot here or waits for one."""
        for job in list(_active):
            if job.slots is self:
                job.cancel()


TRAINING_SLOTS = WorkerSlots()
READING_SLOTS = WorkerSlots()  # no file waits for a training
VISITOR_SLOTS = WorkerSlots()  # of a class: its teacher does not wait for them
_active: list[Job] = []  # queued or running, in the order they begin


class Job:
    """A piece of work that begins when a slot is free, in order of arrival.

    Its snapshot is replaced as a whole and by one thread at a time, so that any thread can read it.
    """

    def __init__(
        self,
        work: Work,
        data_id: str = "",
        slots: WorkerSlots = TRAINING_SLOTS,
        start_paused: bool = False,
    ) -> None:
        """Queue the work.

        Args:
            work: the work.
            data_id: the data that it uses.
            slots: where it runs.
            start_paused: whether it waits at its first halt, however soon that is.
        """
        self.data_id = data_id
        self.slots = slots
        self._work: Work | None = work
        self._stop = threading.Event()
        self._turn = threading.Condition()
        self._free = not start_paused  # to go on
        self._single_step = False  # to go on up to the next halt
        self._now = Snapshot()
        self._started = 0.0
        _active.append(self)
        slots.enqueue(self)
        self._thread = threading.Thread(target=self._run, name="dpmc-job")
        self._thread.start()

    def cancel(self) -> None:
        """Ask the work to end at its next report; queued work never begins."""
        self._stop.set()
        for turn in (self._turn, self.slots.turn):
            with turn:
                turn.notify_all()

    def pause(self) -> None:
        """Let the work wait at its next halt."""
        with self._turn:
            self._free = False

    def resume(self) -> None:
        """Let the work continue."""
        with self._turn:
            self._free = True
            self._turn.notify_all()

    def step(self) -> None:
        """Let the work continue to its next halt, and give it a moment to get there."""
        with self._turn:
            self._free = False
            self._single_step = self._now.paused
            self._turn.notify_all()
        self.wait_for_halt()

    def wait_for_halt(self) -> None:
        """Give the work a moment, 0.3 seconds at most, to reach its next halt."""
        with self._turn:
            self._turn.wait_for(self._is_halted, timeout=0.3)

    def _is_halted(self) -> bool:
        """Return whether the job is over, or waits for somebody to resume it."""
        return not self._now.active or (self._now.paused and not self._single_step)

    def wait(self, seconds: float) -> None:
        """Give short work the time to end."""
        self._thread.join(seconds)

    def snapshot(self) -> Snapshot:
        """Return the current state of the job."""
        now = self._now
        if now.state == "running" and not now.paused:
            now = replace(now, seconds=time.monotonic() - self._started)
        elif now.state == "queued":
            earlier_jobs = itertools.takewhile(lambda job: job is not self, list(_active))
            waiting = [job for job in earlier_jobs if job.slots is self.slots]
            now = replace(now, ahead=sum(job._now.state == "queued" for job in waiting))
        stopping = self._stop.is_set()
        is_held = not self._free
        return replace(now, stopping=now.active and stopping, is_held=now.active and is_held)

    def _update_snapshot(self, **values: Any) -> None:
        """Replace fields of the snapshot."""
        self._now = replace(self._now, **values)

    def _report(
        self,
        n_done: int,
        total: int,
        label: str,
        point: Any = None,
        result: Any = None,
        *,
        display: Any = None,
        halt: bool = False,
    ) -> None:
        """Report progress, and wait at a halt if the job is paused.

        Args:
            n_done, total: finished and all units of the current work.
            label: what the job is doing.
            point: a value to add to the snapshot's points.
            result: the result so far.
            display: what a page shows of the work.
            halt: whether the work can wait now.
        """
        now = self._now
        if total != now.total or n_done < now.done:
            self._update_snapshot(work_start=(time.monotonic() - self._started, n_done))
        self._update_snapshot(
            done=n_done,
            total=total,
            label=label,
            points=now.points if point is None else (*now.points, point),
            result=now.result if result is None else result,
            display=now.display if display is None else display,
        )
        if halt and not self._free:
            self._wait_for_resume()

    def _wait_for_resume(self) -> None:
        """Wait until a person resumes, steps or stops the job; this time is not counted."""
        wait_start = time.monotonic()
        self.slots.release()
        with self._turn:
            self._update_snapshot(paused=True, seconds=wait_start - self._started)
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._free or self._single_step or self._stop.is_set())
            self._single_step = False
            self._started += time.monotonic() - wait_start
            self._update_snapshot(paused=False)
        self.slots.enqueue(self, first=True)
        self.slots.acquire(self, self._stop.is_set)

    def _run(self) -> None:
        """Wait for a slot, work, and release the work with its data."""
        self.slots.acquire(self, self._stop.is_set)
        try:
            if self._stop.is_set():
                self._update_snapshot(state="stopped", message="Stopped before it began.")
            else:
                self._run_work()
        finally:
            self.slots.release()
            _active.remove(self)
            self._work = None

    def _run_work(self) -> None:
        """Do the work, and record how it ended."""
        self._started = time.monotonic()
        self._update_snapshot(state="running")
        try:
            result = self._work(self._report, self._stop.is_set)
            self._finish(state="stopped" if self._stop.is_set() else "done", result=result)
            return
        except DpmcError as error:
            message = format_sentence(str(error))
            if self._stop.is_set():
                self._finish(state="stopped", message=message)
                return
        except MemoryError:
            message = "There is not enough memory for this: use fewer users or items."
        except Exception:
            logging.getLogger(__name__).exception("a job failed")
            message = "Something went wrong inside the program; the server's log has details."
        self._finish(state="failed", message=message)

    def _finish(self, **values: Any) -> None:
        """Record the end of the job, with these values of its snapshot."""
        with self._turn:
            self._update_snapshot(seconds=time.monotonic() - self._started, **values)
            self._turn.notify_all()


def get_snapshot(job: Job | None) -> Snapshot:
    """Return a job's snapshot; that of a finished job without result if there is no job."""
    return Snapshot("done") if job is None else job.snapshot()


def cancel_all_jobs() -> None:
    """Stop every job, since Python does not end before their threads do."""
    for job in list(_active):
        job.cancel()


class Jobs:
    """The jobs of one session by name; a new job replaces and cancels an old one of its name."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}

    def start(
        self,
        name: str,
        work: Work,
        data_id: str = "",
        slots: WorkerSlots = TRAINING_SLOTS,
        start_paused: bool = False,
    ) -> Job:
        """Start a job.

        Args:
            name: of the job.
            work: the work.
            data_id: the data that it uses, with which it can be forgotten.
            slots: where it runs.
            start_paused: whether it waits at its first halt.
        """
        if name in self._jobs:
            self._jobs[name].cancel()
        self._jobs[name] = Job(work, data_id, slots, start_paused)
        return self._jobs[name]

    def drop(self, name: str) -> None:
        """Cancel a job and forget its result."""
        if name in self._jobs:
            self._jobs.pop(name).cancel()

    def get(self, name: str) -> Job | None:
        """Return the job of this name, if there is one."""
        return self._jobs.get(name)

    def forget_data(self, data: str) -> None:
        """Cancel and drop the jobs on a data set, including their results."""
        for name in [name for name, job in self._jobs.items() if job.data_id == data]:
            self.drop(name)

    def cancel(self) -> None:
        """Stop all jobs, since the session has ended."""
        for job in self._jobs.values():
            job.cancel()
