"""Progress with time left, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

WIDTH = 24  # cells of the bar
TICK = 0.1  # seconds between redraws on a terminal
LINE = 10.0  # seconds between plain lines elsewhere


class Progress:
    """One task after another: a bar on a terminal, now and then a plain line elsewhere."""

    def __init__(self) -> None:
        self._stream = sys.stderr
        self._terminal = self._stream.isatty()
        self._task = ""
        self._start = self._last = 0.0
        self._shown = 0

    def update(self, task: str, done: int, total: int, amount: Callable[[int], str] = str) -> None:
        """`done` of `total` parts of the named task are over; `amount` writes a count of parts."""
        now = time.monotonic()
        if task != self._task:
            self.close()
            self._task, self._start, self._last = task, now, now - TICK
        over = done >= total
        if now - self._last < (TICK if self._terminal else LINE) and not (over and self._terminal):
            return
        self._last = now
        left = (now - self._start) / done * (total - done) if done else 0.0
        head, tail = f"{task} {amount(done)}/{amount(total)}", f"{_clock(left)} left" * (done > 0)
        if self._terminal:
            filled = WIDTH * done // max(total, 1)
            text = f"{head} [{'#' * filled}{'.' * (WIDTH - filled)}] {tail}"
            self._write("\r" + text.ljust(self._shown))
            self._shown = len(text)
        else:
            self._write(f"{head}  {tail}\n")

    def close(self) -> None:
        """Wipe the bar, so that what follows starts on a clean line."""
        if self._shown:
            self._write("\r" + " " * self._shown + "\r")
            self._shown = 0
        self._task = ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}" if whole < 3600 else f"{seconds / 3600:.1f} h"
