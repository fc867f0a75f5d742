"""Work in the background: a few jobs at once, a queue beyond, nothing of Streamlit inside."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from dpmc_core.errors import DpmcError

AT_ONCE = 2  # jobs share one interpreter; more would only slow each other down


@dataclass(frozen=True)
class Snapshot:
    """What a page may know of a job at one moment.

    state: queued, running, done, stopped or failed. ahead: jobs before it in the queue. points:
    what the work reported so far, in order. result: what it returned, or has so far. message: why
    it failed or stopped, in a sentence. stopping: asked to end, which it does at its next look.
    """

    state: str = "queued"
    ahead: int = 0
    done: int = 0
    total: int = 0
    label: str = ""
    points: tuple[Any, ...] = ()
    seconds: float = 0.0
    result: Any = None
    message: str = ""
    stopping: bool = False

    @property
    def active(self) -> bool:
        return self.state in ("queued", "running")

    @property
    def share(self) -> float:
        return min(1.0, self.done / self.total) if self.total else 0.0

    @property
    def left(self) -> float | None:
        """Seconds left at the pace so far; None before the first report."""
        if not self.done or not self.total:
            return None
        return max(0.0, self.seconds * (self.total - self.done) / self.done)


class Report(Protocol):
    """How work tells where it is; raises nothing, returns nothing."""

    def __call__(
        self, done: int, total: int, label: str, point: Any = None, result: Any = None
    ) -> None: ...


Work = Callable[[Report, Callable[[], bool]], Any]


class Slots:
    """First come, first served: at most `count` holders at a time."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[object] = deque()
        self._change = threading.Condition()

    def acquire(self, give_up: threading.Event) -> bool:
        """Wait for a slot; False when `give_up` is set first."""
        ticket = object()
        with self._change:
            self._waiting.append(ticket)
            while not give_up.is_set():
                if self._free and self._waiting[0] is ticket:
                    self._waiting.popleft()
                    self._free -= 1
                    self._change.notify_all()
                    return True
                self._change.wait(0.1)
            self._waiting.remove(ticket)
            self._change.notify_all()
            return False

    def release(self) -> None:
        with self._change:
            self._free += 1
            self._change.notify_all()

    @property
    def waiting(self) -> int:
        with self._change:
            return len(self._waiting)


_SLOTS = Slots(AT_ONCE)


@dataclass
class Job:
    """One piece of work on its own thread, with a lock-guarded snapshot."""

    work: Work
    about: str = ""
    slots: Slots = field(default_factory=lambda: _SLOTS)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._now = Snapshot(ahead=self.slots.waiting)
        self._started = 0.0
        threading.Thread(target=self._run, name="dpmc-job", daemon=True).start()

    def cancel(self) -> None:
        """Ask the work to end; it does so at its next report."""
        self._stop.set()

    def snapshot(self) -> Snapshot:
        with self._lock:
            now = self._now
            if now.state == "running":
                now = replace(now, seconds=time.monotonic() - self._started)
            return replace(now, stopping=now.active and self._stop.is_set())

    def _change(self, **values: Any) -> None:
        with self._lock:
            self._now = replace(self._now, **values)

    def _report(
        self, done: int, total: int, label: str, point: Any = None, result: Any = None
    ) -> None:
        with self._lock:
            points = self._now.points if point is None else (*self._now.points, point)
            self._now = replace(
                self._now,
                done=done,
                total=total,
                label=label,
                points=points,
                result=self._now.result if result is None else result,
            )

    def _run(self) -> None:
        if not self.slots.acquire(self._stop):
            self._change(state="stopped", message="Stopped before it began.")
            return
        try:
            self._started = time.monotonic()
            self._change(state="running", ahead=0)
            result = self.work(self._report, self._stop.is_set)
            state = "stopped" if self._stop.is_set() else "done"
            self._finish(state=state, result=result)
        except DpmcError as error:
            stopped = self._stop.is_set()
            text = str(error)
            self._finish(
                state="stopped" if stopped else "failed", message=f"{text[:1].upper()}{text[1:]}."
            )
        except MemoryError:
            self._finish(
                state="failed",
                message="There is not enough memory for this: use fewer users or items.",
            )
        except Exception:
            logging.getLogger(__name__).exception("a job failed")
            self._finish(
                state="failed",
                message="Something went wrong inside the program; the server's log has details.",
            )
        finally:
            self.slots.release()

    def _finish(self, **values: Any) -> None:
        self._change(seconds=time.monotonic() - self._started, **values)


class Jobs:
    """The jobs of one session, by name: a new one replaces and cancels the old one."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}

    def start(self, name: str, work: Work, about: str = "") -> Job:
        """about: the data it works on, so that it can be forgotten with it."""
        if name in self._jobs:
            self._jobs[name].cancel()
        self._jobs[name] = Job(work, about)
        return self._jobs[name]

    def get(self, name: str) -> Job | None:
        return self._jobs.get(name)

    def forget_about(self, data: str) -> None:
        """Cancel and drop the jobs on a data set, their results included."""
        for name in [name for name, job in self._jobs.items() if job.about == data]:
            self._jobs.pop(name).cancel()

    def cancel(self) -> None:
        """Stop everything: the session has ended."""
        for job in self._jobs.values():
            job.cancel()
