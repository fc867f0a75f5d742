"""Draw a run while it trains, and the trained model on held-out ratings."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpmc_core.arrays import Floats
from dpmc_core.model import Task
from dpmc_lab.views.noise import BINARY_NAMES
from dpmc_lab.views.train import (
    ErrorCdf,
    RunRecording,
    choose_metric_axis,
    conclude_recording,
    describe_recording,
)
from pages.ui.charts import STYLES, Figure, create_figure
from pages.ui.charts.lines import choose_ticks

Points = Sequence[tuple[int, float]]  # round and value
_MISSING = 255  # the byte of a cell without a value
_CONTRAST = 0.6  # exponent of a cell's distance from the middle of the range


def plot_objective(points: Points) -> Figure:
    """Plot the objective by round."""
    rounds, values = zip(*points, strict=True)
    fig = create_figure("objective", xaxis_range=[0.5, rounds[-1] + 0.5])
    hover = "round %{x}: <b>%{y:.4~g}</b><extra></extra>"
    mode = "lines+markers" if len(points) < 40 else "lines"
    fig.add_line(rounds, values, STYLES["usefulness"], hover, mode=mode)
    return fig


def build_stage(
    film: RunRecording, *, live: bool, earlier: tuple[RunRecording, str] | None = None
) -> dict[str, Any]:
    """Return all that is drawn of a run, as plain JSON values.

    Args:
        film: the recorded run.
        live: whether more rounds will follow.
        earlier: an earlier run with the same metric, and its name.
    """
    metric, corner = film.metric, film.corner
    clicks = film.task is Task.RANKING
    given = corner.rated if film.released is None else film.released
    # What noise has moved by half of the range counts as flipped.
    flipped = np.abs(given - corner.rated) >= 0.5
    low, high = BINARY_NAMES.get(film.task) or ("lowest rating", "highest rating")
    before = earlier[0] if earlier else film
    # What is not known of one run, because its reference was stopped, is that of the other.
    ends = [
        choose_metric_axis(metric, run.baseline or other.baseline, run.reference or other.reference)
        for run, other in ((film, before), (before, film))
    ]
    axis = (min(ends)[0], max(high for _, high in ends))
    last = film.frames[-1].round if film.frames and not live else film.total
    levels = ((film.best, film.reference, "dash"), (film.baseline_name, film.baseline, "dot"))
    return {
        "id": film.id,
        "live": live,
        "rows": len(corner.users),
        "columns": len(corner.items),
        "given": _encode_cells(given),
        "flipped": _encode_cells(np.where(flipped, 1.0, 0.0)) if film.query else "",
        "frames": [
            {
                "round": frame.round,
                "cells": _encode_cells(frame.predicted, contrast=not clicks),
                "value": frame.metric,
                "text": "" if frame.metric is None else metric.format_value(frame.metric),
            }
            for frame in film.frames
        ],
        "last": max(last, 1),
        "titles": [
            f"The server gets these {'clicks' if clicks else 'ratings'}"
            + ", with noise" * bool(film.query),
            "The model fills the empty cells",
            "Every cell has a prediction",
        ],
        "key": [low, high],
        "metric": metric.panel_title + (" (up is better)" if metric.lower_is_better else ""),
        "axis": axis[::-1] if metric.lower_is_better else axis,
        "ticks": choose_ticks(axis, is_share=metric.is_share),
        "levels": [
            {"at": value, "text": name, "dash": dash}
            for name, value, dash in levels
            if value is not None
        ],
        "ghost": None
        if earlier is None
        else {
            "points": [(f.round, f.metric) for f in before.frames if f.metric is not None],
            "text": earlier[1],
        },
        "words": describe_recording(film),
        "conclusion": conclude_recording(film, earlier and earlier[0]),
    }


def _encode_cells(cells: Floats, *, contrast: bool = False) -> str:
    """Encode numbers in 0..1 as one byte each, in base64; NaN becomes the byte _MISSING.

    With contrast, what lies near the middle differs visibly from it.
    """
    if contrast:
        distance = 2 * cells - 1
        cells = (1 + np.sign(distance) * np.abs(distance) ** _CONTRAST) / 2
    scaled = np.clip(np.nan_to_num(cells), 0, 1) * (_MISSING - 1)
    codes = np.where(np.isnan(cells), _MISSING, scaled.round()).astype(np.uint8)
    return base64.b64encode(codes.tobytes()).decode("ascii")


def plot_error_cdfs(private: ErrorCdf, nonprivate: ErrorCdf | None, name: str, axis: str) -> Figure:
    """Plot the share of held-out ratings within an error, with privacy and without.

    Args:
        private: errors with privacy.
        nonprivate: errors without privacy, if known.
        name: of the mechanism.
        axis: name of the axis of errors.
    """
    hover = "error up to %{x:.2f}: <b>%{y:.1%}</b> of ratings<extra></extra>"
    fig = create_figure("errors", xaxis_title_text=axis)
    curves = {"no privacy": nonprivate, name: private}
    # The better curve is above the other, and so is its name.
    places = (("no privacy", 0.7, "above"), ("usefulness", 0.3, "below"))
    for label, (style, share, note) in zip(curves, places, strict=True):
        if curve := curves[label]:
            fig.add_line(*curve, STYLES[style], hover, name=label, mode="lines")
            k = int(np.searchsorted(curve.share, share))
            fig.add_annotation(note, text=label, x=curve.error[k], y=curve.share[k])
    return fig
