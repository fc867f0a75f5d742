"""Cancellation of long work: the caller sets a condition, and all long computations check it.

A check raises an error, so no other code has to handle the end, and nothing new follows it.
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

_POLL_SECONDS = 0.05  # seconds between checks during a long call
# Limits calls in threads to two at a time, including those whose result nobody waits for any more.
_CALL_SLOTS = threading.Semaphore(2)
_stop_check: ContextVar[StopCheck | None] = ContextVar("dpmc_stop", default=None)


class Stopped(DpmcError):
    """The work was cancelled by its caller."""


@contextmanager
def stop_when(stop: StopCheck | None) -> Iterator[None]:
    """Let checks inside the block raise Stopped once `stop()` is true.

    Args:
        stop: the condition; None keeps that of the enclosing block.
    """
    token = _stop_check.set(stop or _stop_check.get())
    try:
        yield
    finally:
        _stop_check.reset(token)


@contextmanager
def allow_grace(seconds: float) -> Iterator[None]:
    """Let the work in the block continue for some time after it should stop.

    Args:
        seconds: how long, from the first check at which the stop condition is true.
    """
    stop = _stop_check.get()
    deadline = math.inf

    def has_expired() -> bool:
        """Return whether the grace is over; it begins when the condition first holds."""
        nonlocal deadline
        now = time.monotonic()
        if deadline == math.inf and stop is not None and stop():
            deadline = now + seconds
        return now > deadline

    with stop_when(stop and has_expired):
        yield


def check_cancelled() -> None:
    """Raise Stopped if the work has been cancelled; the check costs next to nothing."""
    stop = _stop_check.get()
    if stop is not None and stop():
        raise Stopped("stopped before there was a result")


def call_cancellable(call: Callable[..., T], *arguments: Any) -> T:
    """Call a function that cannot check for itself, such as one of a library that takes seconds.

    After a cancellation nobody waits for the call any more; it ends by itself, and its result is
    dropped. The function must release the interpreter lock, and nothing may change its arguments.

    Raises:
        Stopped: if the work was cancelled before the call returned.
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

    # A daemon, so that a server that ends does not wait for it either.
    threading.Thread(target=run_call, daemon=True).start()
    while wait([future], _POLL_SECONDS).not_done:
        check_cancelled()
    return future.result()
