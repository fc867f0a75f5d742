"""Work in the background: a few jobs at once, a queue beyond, nothing of Streamlit inside."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

from dpmc_core.errors import DpmcError, sentence

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


Tell = Callable[..., None]  # how work says where it is: done, total, label, point, result
Work = Callable[[Tell, Callable[[], bool]], Any]


_POOL = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="dpmc-job")
READERS = ThreadPoolExecutor(
    AT_ONCE, thread_name_prefix="dpmc-read"
)  # no file waits for a training
_active: list[Job] = []  # queued or running, in the order they begin


class Job:
    """One piece of work that begins once a thread is free, first come, first served.

    Its snapshot is replaced whole and by one thread at a time, so that anyone may look.
    """

    def __init__(self, work: Work, about: str = "", pool: Executor = _POOL) -> None:
        self.about = about
        self._pool = pool
        self._work: Work | None = work
        self._stop = threading.Event()
        self._now = Snapshot()
        self._started = 0.0
        self._future = pool.submit(self._run)
        _active.append(self)
        self._future.add_done_callback(self._over)

    def cancel(self) -> None:
        """Ask the work to end, which it does at its next report; in the queue it never begins."""
        self._stop.set()
        self._future.cancel()

    def wait(self, seconds: float) -> None:
        """Give short work the time to end."""
        wait([self._future], timeout=seconds)

    def snapshot(self) -> Snapshot:
        now = self._now
        if now.state == "running":
            now = replace(now, seconds=time.monotonic() - self._started)
        elif now.state == "queued":
            before = itertools.takewhile(lambda job: job is not self, list(_active))
            waiting = [job for job in before if job._pool is self._pool]
            now = replace(now, ahead=sum(job._now.state == "queued" for job in waiting))
        return replace(now, stopping=now.active and self._stop.is_set())

    def _change(self, **values: Any) -> None:
        self._now = replace(self._now, **values)

    def _report(
        self, done: int, total: int, label: str, point: Any = None, result: Any = None
    ) -> None:
        now = self._now
        self._change(
            done=done,
            total=total,
            label=label,
            points=now.points if point is None else (*now.points, point),
            result=now.result if result is None else result,
        )

    def _run(self) -> None:
        self._started = time.monotonic()
        self._change(state="running")
        try:
            result = self._work(self._report, self._stop.is_set)
            self._finish(state="stopped" if self._stop.is_set() else "done", result=result)
        except DpmcError as error:
            self._finish(
                state="stopped" if self._stop.is_set() else "failed",
                message=sentence(str(error)),
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

    def _finish(self, **values: Any) -> None:
        self._change(seconds=time.monotonic() - self._started, **values)

    def _over(self, future: Future[None]) -> None:
        """Let go of the work and the data in it."""
        _active.remove(self)
        self._work = None
        if future.cancelled():
            self._change(state="stopped", message="Stopped before it began.")


def cancel_all() -> None:
    """Stop every job there is: Python does not end before the threads of a pool do."""
    for job in list(_active):
        job.cancel()


class Jobs:
    """The jobs of one session, by name: a new one replaces and cancels the old one."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}

    def start(self, name: str, work: Work, about: str = "", pool: Executor = _POOL) -> Job:
        """about: the data it works on, so that it can be forgotten with it."""
        if name in self._jobs:
            self._jobs[name].cancel()
        self._jobs[name] = Job(work, about, pool)
        return self._jobs[name]

    def drop(self, name: str) -> None:
        """Cancel a job and forget what it found."""
        if name in self._jobs:
            self._jobs.pop(name).cancel()

    def get(self, name: str) -> Job | None:
        return self._jobs.get(name)

    def forget_about(self, data: str) -> None:
        """Cancel and drop the jobs on a data set, their results included."""
        for name in [name for name, job in self._jobs.items() if job.about == data]:
            self.drop(name)

    def cancel(self) -> None:
        """Stop everything: the session has ended."""
        for job in self._jobs.values():
            job.cancel()
