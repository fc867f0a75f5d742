"""Ending long work early: whoever starts it says how it is asked, and all that is long checks.

Nothing else has to know of a stop: a check raises, so that nothing follows that was not there yet.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

from dpmc_core.errors import DpmcError

T = TypeVar("T")
StopCheck = Callable[[], bool]

_POLL_SECONDS = 0.05  # seconds between looks while one call takes long
_CALL_SLOTS = threading.Semaphore(2)  # such calls, those included that nobody waits for any more
_stop_check: ContextVar[StopCheck | None] = ContextVar("dpmc_stop", default=None)


class Stopped(DpmcError):
    """Work that was asked to stop, and did."""


@contextmanager
def stop_when(stop: StopCheck | None) -> Iterator[None]:
    """Inside the block a look raises Stopped once `stop()` is true. None: as around the block."""
    token = _stop_check.set(stop or _stop_check.get())
    try:
        yield
    finally:
        _stop_check.reset(token)


@contextmanager
def allow_grace(seconds: float) -> Iterator[None]:
    """Inside the block the work goes on for so long after the first look that sees the stop."""
    stop, deadline = _stop_check.get(), math.inf

    def has_expired() -> bool:
        nonlocal deadline
        now = time.monotonic()
        if deadline == math.inf and stop is not None and stop():
            deadline = now + seconds
        return now > deadline

    with stop_when(stop and has_expired):
        yield


def check_cancelled() -> None:
    """Raise Stopped where the work has been asked to stop; costs next to nothing."""
    stop = _stop_check.get()
    if stop is not None and stop():
        raise Stopped("stopped before there was a result")


def call_cancellable(call: Callable[..., T], *arguments: Any) -> T:
    """What a call gives that cannot look for itself: one into a library, that takes seconds.

    Asked to stop, nobody waits for it any more; it ends by itself, and what it gives is dropped.
    It must let other threads run, and nothing may change what it was given.
    """
    check_cancelled()
    if _stop_check.get() is None:
        return call(*arguments)
    while not _CALL_SLOTS.acquire(timeout=_POLL_SECONDS):
        check_cancelled()
    future: Future[T] = Future()
    context = copy_context()

    def run_call() -> None:
        try:
            future.set_result(context.run(call, *arguments))
        except BaseException as error:
            future.set_exception(error)
        finally:
            _CALL_SLOTS.release()

    threading.Thread(
        target=run_call, daemon=True
    ).start()  # a server that ends does not wait either
    while wait([future], _POLL_SECONDS).not_done:
        check_cancelled()
    return future.result()
