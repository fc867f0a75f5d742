"""Play a run as a film: a component in the browser that does not ask the server."""

import base64
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from dpmc_core.arrays import Floats
from dpmc_core.model import Task
from dpmc_lab.views.noise import BINARY_NAMES
from dpmc_lab.views.train import (
    RecordedRound,
    RunRecording,
    describe_recording,
    tabulate_recording,
)
from pages.ui import blocks, state
from pages.ui.charts import VALUE_COLORS, Theme, apply_theme, get_style

DURATION_MS = 3000  # milliseconds that a short run is shown for
_MISSING = 255  # the byte of a cell without a value
_CONTRAST = 0.6  # exponent of a cell's distance from the middle of the range
_MODULE_PATH = Path(__file__)
_HTML = """
<div class="film">
  <div class="stage">
    <div><div class="panels"></div><div class="legend"></div></div>
    <div class="curve"><div class="name"></div><svg role="img"></svg></div>
  </div>
  <div class="bar">
    <button type="button">Skip</button>
    <input type="range" min="0" step="1" aria-label="Round" />
    <output aria-live="off"></output>
  </div>
  <div class="list"><div class="name"></div><ol></ol></div>
</div>
"""
_player = st.components.v2.component(
    "dpmc_film",
    html=_HTML,
    css=_MODULE_PATH.with_suffix(".css").read_text(encoding="utf-8"),
    js=_MODULE_PATH.with_suffix(".js").read_text(encoding="utf-8"),
)


def show_film(film: RunRecording, *, live: bool = False) -> None:
    """Show a film that plays when it is new, and can be replayed and scrubbed.

    A film with the id of the last one continues where that was.

    Args:
        film: the recorded run.
        live: whether more rounds will follow.
    """
    _player(key="film", data=build_player_data(film, live, state.get_theme()))
    blocks.show_chart_numbers(describe_recording(film), tabulate_recording(film), "film")


def build_player_data(film: RunRecording, live: bool, theme: Theme) -> dict[str, Any]:
    """Return everything that the player needs as plain JSON values.

    Args:
        film: the recorded run.
        live: whether more rounds will follow.
        theme: colours.
    """
    metric = film.metric
    corner = film.corner
    frames = film.frames
    last = frames[-1].round if frames else film.total
    titles = {item.item: item.title for frame in frames for item in frame.top}
    rated = corner.rated
    released = film.released
    if film.task is Task.RANKING:  # what was not clicked is known not to have been
        rated = np.nan_to_num(rated)
    panels = [
        {"name": name, "help": help, "cells": cells if cells is None else _encode_cells(cells)}
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
        "pace": DURATION_MS,
        "rows": len(corner.users),
        "columns": len(corner.items),
        "panels": panels,
        "legend": _build_legend(film.task, theme),
        "frames": [_build_frame(film, frame) for frame in frames],
        "names": titles,
        "person": f"For {corner.person_label}",
        "total": film.total,
        "of": last,
        "waits": "before round 1" if frames or not film.total else "no model before the noise",
        "metric": metric.panel_title + (", lower is better" if metric.lower_is_better else ""),
        "axis": film.axis,
        "ticks": [
            (tick, f"{100 * tick:.3g}%" if metric.is_share else f"{tick:.3g}")
            for tick in _choose_ticks(film.axis)
        ],
        "lines": _build_levels(film, theme),
        "words": describe_recording(film),
        "colors": {
            "missing": theme.missing,
            "scale": _build_color_scale(film.task, theme),
            "line": get_style(film.mechanism).color,
            "grid": theme.grid,
            "paper": theme.paper,
        },
    }


def _build_frame(film: RunRecording, frame: RecordedRound) -> dict[str, Any]:
    """Return what the player shows of a round, as plain JSON values."""
    value = frame.metric
    return {
        "round": frame.round,
        "cells": _encode_cells(frame.predicted),
        "value": value,
        "text": "" if value is None else film.metric.format_value(value),
        "top": [item.item for item in frame.top],
    }


def _encode_cells(cells: Floats) -> str:
    """Encode numbers in 0..1 as one byte each, in base64; NaN becomes the byte _MISSING."""
    scaled = np.clip(np.nan_to_num(cells), 0, 1) * (_MISSING - 1)
    codes = np.where(np.isnan(cells), _MISSING, scaled.round()).astype(np.uint8)
    return base64.b64encode(codes.tobytes()).decode("ascii")


def _get_scale_colors(task: Task, theme: Theme) -> tuple[str, ...]:
    """Return the colours from the lowest position to the highest.

    For clicks the low end is neutral, since an item without a click is not disliked.
    """
    low, high = apply_theme(list(VALUE_COLORS), theme)
    return (theme.neutral, high) if task is Task.RANKING else (low, theme.neutral, high)


def _build_color_scale(task: Task, theme: Theme) -> list[str]:
    """Return the colour of each byte; what lies near the middle differs visibly from it."""
    colors = _get_scale_colors(task, theme)
    anchors = np.array([[int(color[k : k + 2], 16) for k in (1, 3, 5)] for color in colors])
    positions = np.linspace(-1, 1, _MISSING)
    if task is not Task.RANKING:
        positions = np.sign(positions) * np.abs(positions) ** _CONTRAST
    knots = np.linspace(-1, 1, len(anchors))
    interpolated = np.stack([np.interp(positions, knots, channel) for channel in anchors.T], axis=1)
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in interpolated.round().astype(int)]


def _build_legend(task: Task, theme: Theme) -> list[tuple[str, str]]:
    """Return the entries of the legend, each a name and its colour."""
    low, high = BINARY_NAMES.get(task) or ("lowest rating", "highest")
    colors = _get_scale_colors(task, theme)
    entries = [(low, colors[0]), (high, colors[-1])]
    return entries if task is Task.RANKING else [*entries, ("no rating", theme.missing)]


def _choose_ticks(axis: tuple[float, float]) -> list[float]:
    """Return at least three round numbers within an axis."""
    low, high = axis
    size = 10.0 ** np.floor(np.log10(high - low))
    step = next(s for s in (size, size / 2, size / 4, size / 5) if (high - low) / s >= 3)
    return [float(k * step) for k in np.arange(np.ceil(low / step), np.floor(high / step) + 1)]


def _build_levels(film: RunRecording, theme: Theme) -> list[dict[str, Any]]:
    """Return the lines of the baseline and of no privacy, with labels in short lines."""
    levels = (
        (film.baseline_name, film.baseline, theme.muted, "2 4"),
        (film.best, film.reference, theme.ink, "7 5"),
    )
    return [
        {
            "at": value,
            "text": "\n".join(textwrap.wrap(f"{name} {film.metric.format_value(value)}", 17)),
            "color": color,
            "dash": dash,
        }
        for name, value, color, dash in levels
        if value is not None
    ]
