"""A run as a film: the component that plays it in the browser, without asking the server."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from dpmc_core.arrays import Floats
from dpmc_core.model import Task
from dpmc_lab.curves.noise import two_values
from dpmc_lab.curves.training import Film, Frame, film_table, film_words
from pages.ui import blocks, state
from pages.ui.charts import ENDS, Theme, style

PACE = 3000  # milliseconds that a short run is shown for
_MISSING = 255  # the byte of a cell without a value
_HERE = Path(__file__)
_HTML = """
<div class="film">
  <div class="stage">
    <div><div class="panels"></div><div class="legend"></div></div>
    <div class="curve"><div class="name"></div><svg role="img"></svg></div>
    <div class="list"><div class="name"></div><ol></ol></div>
  </div>
  <div class="bar">
    <button type="button">Skip</button>
    <input type="range" min="0" step="1" aria-label="Round" />
    <output aria-live="off"></output>
  </div>
</div>
"""
_player = st.components.v2.component(
    "dpmc_film",
    html=_HTML,
    css=_HERE.with_suffix(".css").read_text(encoding="utf-8"),
    js=_HERE.with_suffix(".js").read_text(encoding="utf-8"),
)


def show(film: Film, *, live: bool = False) -> None:
    """A film that plays when it is new, and can be replayed and scrubbed.

    One that has the id of the last goes on where that is. live: rounds still come.
    """
    _player(key="film", data=data_of(film, live, state.theme()))
    blocks.numbers(film_words(film), film_table(film), "film")


def data_of(film: Film, live: bool, theme: Theme) -> dict[str, Any]:
    """What the player is told, as plain JSON values."""
    metric, shown, frames = film.metric, film.corner, film.frames
    last = frames[-1].round if frames else film.total
    titles = {item.item: item.title for frame in frames for item in frame.top}
    rated, released = shown.rated, film.released
    if film.task is Task.RANKING:  # what was not clicked is known not to have been
        rated = np.nan_to_num(rated)
    panels = [
        {"name": name, "help": help, "cells": cells if cells is None else _bytes(cells)}
        for name, help, cells in (
            ("Rated", "the training ratings of a corner of the matrix", rated),
            ("Released", f"released with noise: {film.query}", released),
            ("Predicted", "what the model says of the same corner", None),
        )
        if name != "Released" or cells is not None
    ]
    return {
        "id": film.id,
        "live": live,
        "pace": PACE,
        "rows": len(shown.users),
        "columns": len(shown.items),
        "panels": panels,
        "legend": _legend(film.task, theme),
        "frames": [_frame(film, frame) for frame in frames],
        "names": titles,
        "person": f"For {shown.who}",
        "total": film.total,
        "of": last,
        "waits": "before round 1" if frames or not film.total else "no model before the noise",
        "metric": metric.panel + (", lower is better" if metric.lower else ""),
        "axis": film.axis,
        "ticks": [(tick, format(tick, metric.ticks or ".3g")) for tick in _ticks(film.axis)],
        "lines": _lines(film, theme),
        "words": film_words(film),
        "colors": {
            "missing": theme.missing,
            "scale": _scale(film.task, theme),
            "line": style(film.mechanism).color,
            "grid": theme.grid,
            "paper": theme.paper,
        },
    }


def _frame(film: Film, frame: Frame) -> dict[str, Any]:
    value = frame.metric
    levels = [level for level in (film.floor, film.reference) if level is not None]
    nearest_level = min(levels, key=lambda level: abs(level - (value or 0.0)), default=0.0)
    return {
        "round": frame.round,
        "cells": _bytes(frame.predicted),
        "value": value,
        "text": "" if value is None else film.metric.text(value),
        "below": value is not None and value < nearest_level,  # its label keeps clear of the line
        "top": [item.item for item in frame.top],
    }


def _bytes(cells: Floats) -> str:
    """Places in the range as one byte each."""
    scaled = np.clip(np.nan_to_num(cells), 0, 1) * (_MISSING - 1)
    codes = np.where(np.isnan(cells), _MISSING, scaled.round()).astype(np.uint8)
    return base64.b64encode(codes.tobytes()).decode("ascii")


def _colors(task: Task, theme: Theme) -> tuple[str, ...]:
    """From the lowest place to the highest; nobody dislikes what was merely not clicked."""
    return (theme.paper, ENDS[1]) if task is Task.RANKING else (ENDS[0], theme.paper, ENDS[1])


def _scale(task: Task, theme: Theme) -> list[str]:
    """The colour of each byte."""
    anchors = np.array(
        [[int(color[k : k + 2], 16) for k in (1, 3, 5)] for color in _colors(task, theme)]
    )
    positions = np.linspace(0, len(anchors) - 1, _MISSING)
    interpolated = np.stack(
        [np.interp(positions, np.arange(len(anchors)), channel) for channel in anchors.T], axis=1
    )
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in interpolated.round().astype(int)]


def _legend(task: Task, theme: Theme) -> list[tuple[str, str]]:
    low, high = two_values(task) or ("lowest rating", "highest")
    if task is Task.RANKING:
        return [(high, ENDS[1]), (low, theme.paper)]
    return [(low, ENDS[0]), (high, ENDS[1]), ("no rating", theme.missing)]


def _ticks(axis: tuple[float, float]) -> list[float]:
    """Three round numbers or more within an axis."""
    low, high = axis
    size = 10.0 ** np.floor(np.log10(high - low))
    step = next(s for s in (size, size / 2, size / 4, size / 5) if (high - low) / s >= 3)
    first = np.ceil(low / step)
    return [float(k * step) for k in np.arange(first, np.floor(high / step) + 1)]


def _lines(film: Film, theme: Theme) -> list[dict[str, Any]]:
    """Guessing and no privacy, each named on its outer side."""
    baseline, reference = film.floor, film.reference
    baseline_above = baseline is not None and (
        baseline > reference if reference is not None else film.metric.lower
    )
    levels = (
        (film.guess, baseline, theme.muted, "2 4", baseline_above),
        (film.best, reference, theme.ink, "7 5", not baseline_above),
    )
    return [
        {
            "at": value,
            "text": f"{name} {film.metric.text(value)}",
            "color": color,
            "dash": dash,
            "above": above,
        }
        for name, value, color, dash, above in levels
        if value is not None
    ]
