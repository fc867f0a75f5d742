"""What lines run between, the axis they need, and their names at the right of the frame."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import registry
from dpmc_lab.curves.lines import GUESSING, POPULAR, Band, Line, Picture, guess_name
from pages.ui.charts import INK, LEVELS, MUTED, Ends, Figure, Style, spread, style

_WIDE = 17  # characters in a line of a name: all that a phone has room for
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # of the axis: it seldom moves while rows arrive


class Tag(NamedTuple):
    """A name in the column. at: what it belongs to, on the vertical axis; None: nothing yet.

    solid: of a mechanism, whose marker it has; None for a level. end: where the curve ends.
    """

    text: str
    at: float | None
    look: Style
    solid: bool | None = None
    end: float = 0.0

    @property
    def lines(self) -> str:
        """Its text in lines for the column; a line break in it stays."""
        parts = self.text.replace(" %", "\u00a0%").split("\n")
        whole = {"break_long_words": False, "break_on_hyphens": False}
        return "<br>".join(line for part in parts for line in textwrap.wrap(part, _WIDE, **whole))

    @property
    def high(self) -> int:
        """The pixels it takes."""
        return 16 * self.lines.count("<br>") + 20


def beside(fig: Figure, tags: Sequence[Tag], up: Sequence[float], high: float) -> list[float]:
    """Names at the right of the frame, near what they name and apart from each other.

    up: the ends of the upright axis. high: the frame, in pixels. The heights they stand at.
    """
    scale = (up[1] - up[0]) / high
    wanted = [high if tag.at is None else (up[1] - tag.at) / scale for tag in tags]
    places = spread(wanted, [tag.high for tag in tags], high)
    for place, tag in zip(places, tags, strict=True):
        color = MUTED if tag.solid is None else INK
        fig.note("beside", text=tag.lines, y=1 - place / high, font_color=color)
    return [up[1] - place * scale for place in places]


def between(
    fig: Figure,
    picture: Picture,
    ends: Ends,
    guesses: Sequence[tuple[Line, Band, Sequence[str]]],
    ids: Sequence[str] = (),
    **more: Any,
) -> list[Tag]:
    """What lines run between: levels across the frame, and guesses with what is said of them.

    Several guesses, each beside other methods, have the colours of theirs.
    """
    metric, tags = picture.metric, []
    for name, level in picture.levels:
        value, look = level.level.mean, level_look(name, level.mechanism, ids)
        fig.level(ends, value, look, f"{name}: {metric.text(value)}", **more)
        words = f"{name}: {level.label.lower()}" if name in (GUESSING, POPULAR) else name
        words += f" {metric.text(value)}"
        tags.append(Tag(words, value, Style(look[0], "circle"), end=ends[1]))
    for line, over, texts in guesses:
        color = style(line.mechanism).color if len(guesses) > 1 else MUTED
        x, y, name = over.x.tolist(), over.mean.tolist(), guess_name(line.mechanism)
        told = "%{text}" * bool(texts)
        label = f"{name}: {line.label}"
        hover = f"{label}<br>{told}<b>%{{y:{metric.form}}}</b><extra></extra>"
        fig.stroke(x, y, color, line_dash="dot", name=label, text=texts, hover=hover, **more)
        words = f"{name}: {line.label.lower()} {metric.text(y[-1])}"
        tags.append(Tag(words, y[-1], Style(color, "circle"), end=x[-1]))
    return tags


def level_look(name: str, id: str, ids: Iterable[str]) -> tuple[str, str]:
    """Colour and dash of a level; that of one of the mechanisms alone has its colour."""
    own = [style(other).color for other in ids if registry.get(other).twin == id]
    return LEVELS.get(name) or (own[0] if len(own) == 1 else MUTED, "dash")


def reach(picture: Picture, lines: Sequence[Line], guesses: Sequence[Line]) -> list[float]:
    """An upright axis over what lines run between, with some room, to the next round numbers.

    Bands reach up to a third beyond that: one wild seed hides no curve.
    """
    means = [level.level.mean for _, level in picture.levels]
    means += [v for one in (*lines, *guesses) for v in one.band.mean]
    if not means:
        return [0.0, 1.0]
    low, high = min(means), max(means)
    bands = [v for one in lines for v in (*one.band.low, *one.band.high)]
    third = (high - low) / 3
    ends = np.clip([*means, *bands], low - third, high + third)
    low, high = float(ends.min()), float(ends.max())
    room = 0.06 * (high - low) or 0.01
    step = next((s for s in _STEPS if high - low <= 12 * s), _STEPS[-1])
    return [step * math.floor((low - room) / step), step * math.ceil((high + room) / step)]
