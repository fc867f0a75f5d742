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
Stop = Callable[[], bool]

_PAUSE = 0.05  # seconds between looks while one call takes long
_AT_ONCE = threading.Semaphore(2)  # such calls, those included that nobody waits for any more
_stop: ContextVar[Stop | None] = ContextVar("dpmc_stop", default=None)


class Stopped(DpmcError):
    """Work that was asked to stop, and did."""


@contextmanager
def stopping(stop: Stop | None) -> Iterator[None]:
    """Inside the block a look raises Stopped once `stop()` is true. None: as around the block."""
    token = _stop.set(stop or _stop.get())
    try:
        yield
    finally:
        _stop.reset(token)


@contextmanager
def grace(seconds: float) -> Iterator[None]:
    """Inside the block the work goes on for so long after the first look that sees the stop."""
    stop, until = _stop.get(), math.inf

    def over() -> bool:
        nonlocal until
        now = time.monotonic()
        if until == math.inf and stop is not None and stop():
            until = now + seconds
        return now > until

    with stopping(stop and over):
        yield


def check_cancelled() -> None:
    """Raise Stopped where the work has been asked to stop; costs next to nothing."""
    stop = _stop.get()
    if stop is not None and stop():
        raise Stopped("stopped before there was a result")


def cancellable(call: Callable[..., T], *arguments: Any) -> T:
    """What a call gives that cannot look for itself: one into a library, that takes seconds.

    Asked to stop, nobody waits for it any more; it ends by itself, and what it gives is dropped.
    It must let other threads run, and nothing may change what it was given.
    """
    check_cancelled()
    if _stop.get() is None:
        return call(*arguments)
    while not _AT_ONCE.acquire(timeout=_PAUSE):
        check_cancelled()
    future: Future[T] = Future()
    context = copy_context()

    def answer() -> None:
        try:
            future.set_result(context.run(call, *arguments))
        except BaseException as error:
            future.set_exception(error)
        finally:
            _AT_ONCE.release()

    threading.Thread(target=answer, daemon=True).start()  # a server that ends does not wait either
    while wait([future], _PAUSE).not_done:
        check_cancelled()
    return future.result()
