"""What commands write: JSON, aligned tables and short numbers."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from dpmc_core.privacy import Certified

LINE = 100  # characters
PERCENT_METRICS = ("accuracy", "hr@")


def write_json(value: Any) -> None:
    """One JSON document on standard output."""
    json.dump(value, sys.stdout, indent=2, allow_nan=False, ensure_ascii=False)
    sys.stdout.write("\n")


def table(rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Columns padded to their widest cell; the first row is the head."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        (indent + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))).rstrip()
        for row in rows
    )


def number(value: float) -> str:
    """Four significant digits, without an exponent for large values."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def measure(name: str, value: float) -> str:
    """A metric as a person reads it: shares in percent, errors as numbers."""
    return f"{100 * value:.1f} %" if name.startswith(PERCENT_METRICS) else number(value)


def budget(epsilon: float, delta: float) -> str:
    """'epsilon 1' or 'epsilon 1, delta 1e-06'."""
    return f"epsilon {number(epsilon)}" + (f", delta {delta:g}" if delta else "")


def certified(proved: Certified) -> str:
    """'epsilon 1 per rating', or 'no bound per user: ...' with the reason."""
    if proved.finite:
        return f"{budget(proved.epsilon, proved.delta)} {proved.change.label}"
    return f"no bound {proved.change.label}: {proved.reason}"


def paragraph(text: str, indent: str = "", first: str | None = None) -> str:
    """Text wrapped to a readable width; `first` replaces the first line's indent."""
    return textwrap.fill(
        text,
        LINE,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
    )
