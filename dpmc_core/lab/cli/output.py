"""What commands write: JSON, aligned tables, short numbers, and progress on standard error."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpmc_core.errors import printable
from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.lab.views.cards import Card
from dpmc_core.lab.views.run_card import metrics_table
from dpmc_core.model import Mechanism, Step

LINE = 100  # characters
INTERRUPTED, UNREAD = 130, 141  # exit status after Ctrl-C, and where nobody reads on
BAR = 24  # cells of a bar of progress
REDRAW = 0.1  # seconds between redraws on a terminal
REPEAT = 10.0  # seconds between plain lines elsewhere


class Printable:
    """A stream on which what others wrote is shown and never obeyed; lines end where they end."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        self._stream.write(printable(text, lines=True))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def write_json(value: Any) -> None:
    """One JSON document on standard output, in ASCII: it is the same on any terminal."""
    json.dump(value, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def table(found: Sequence[Sequence[str]] | Mapping[str, Sequence[str]], indent: str = "") -> str:
    """Columns padded to their widest cell: of rows, the first of which is the head, or by name."""
    if isinstance(found, Mapping):
        found = [tuple(found), *zip(*found.values(), strict=True)]
    rows = [[printable(cell) for cell in row] for row in found]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        (indent + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))).rstrip()
        for row in rows
    )


def metrics(found: Mapping[str, Mapping[str, float]]) -> str:
    """Metrics by method as a table."""
    return f"{table(metrics_table(found), indent='  ')}\n  {EVALUATION_ONLY}"


def card(shown: Card) -> str:
    """A guarantee as a paragraph with its facts below."""
    lines = [paragraph(text, " " * 13, f"  {name:<11}") for name, text in shown.facts]
    return "\n".join([paragraph(shown.protects), *lines])


def paragraph(text: str, indent: str = "", first: str | None = None) -> str:
    """Text wrapped to a readable width; `first` replaces the first line's indent."""
    return textwrap.fill(
        text,
        LINE,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
    )


class Progress:
    """Progress with time left, one task after another, on standard error.

    A bar on a terminal, now and then a plain line elsewhere.
    """

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
            self._task, self._start, self._last = task, now, now - REDRAW
        over = done >= total
        if now - self._last < (REDRAW if self._terminal else REPEAT) and not (
            over and self._terminal
        ):
            return
        self._last = now
        left = (now - self._start) / done * (total - done) if done else 0.0
        head, tail = f"{task} {amount(done)}/{amount(total)}", f"{_clock(left)} left" * (done > 0)
        if self._terminal:
            filled = BAR * done // max(total, 1)
            text = f"{head} [{'#' * filled}{'.' * (BAR - filled)}] {tail}"
            self._write("\r" + text.ljust(self._shown))
            self._shown = len(text)
        else:
            self._write(f"{head}  {tail}\n")

    def step(self, method: Mechanism, step: Step) -> None:
        """A step of a method's fit is over."""
        self.update(method.id, step.index, step.total)

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
