"""The look of every chart, and what charts share. Core results in, Plotly's figures out."""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core.arrays import Floats
from dpmc_core.lab.views.audits import Tick
from dpmc_core.lab.views.lines import Band
from dpmc_core.lab.views.numbers import isotonic
from dpmc_core.registry import style as style
from dpmc_core.style import BLUE, GREEN, ORANGE, PURPLE, RED, SKY, Style

Values = Sequence[Any] | Floats
Ends = tuple[float, float]

HEIGHT = 380


class Theme(NamedTuple):
    """Colours that follow the surface: light or dark."""

    name: str
    ink: str
    muted: str
    grid: str
    paper: str
    missing: str  # cells without a value, apart from every colour of a value


LIGHT = Theme("dpmc-light", "#1c1e21", "#6b7076", "#e6e6e1", "#fdfdfc", "#b4b8bd")
DARK = Theme("dpmc-dark", "#e8e9ec", "#9aa0a8", "#2c3138", "#14161a", "#5d646d")


ENDS = (RED, BLUE)  # of a scale of values: the lowest and the highest
ACCENT = "#4c5fd5"  # of the app, see .streamlit/config.toml; what moves, not which method
# Charts are drawn for the light surface; where they are shown on the dark one, these colours take
# the place of those: a blue that stands out from it, and from the other one.
_, INK, MUTED, GRID, PAPER, MISSING = LIGHT
DENSE, THIN = "#00334f", "#56b4ea"  # cells of which most are rated, and hardly any
_SHADES = dict(zip(LIGHT[1:], DARK[1:], strict=True))
_SHADES |= {BLUE: "#4a8cf0", ACCENT: "#9aa6f2", DENSE: "#a9dcff", THIN: "#00466e"}


def faded(color: str, opacity: float) -> str:
    """A hex colour with an opacity, for bands and fills."""
    red, green, blue = (int(color[k : k + 2], 16) for k in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


_FADED = {faded(c, 0)[:-3]: faded(_SHADES[c], 0)[:-3] for c in (PAPER, MUTED, ACCENT)}


def shaded(look: Any, theme: Theme) -> Any:
    """Colours as this surface shows them, wherever they are in what is drawn."""
    if theme is LIGHT or look is None:
        return look
    if isinstance(look, str):
        head, comma, opacity = look.rpartition(",")
        return _SHADES.get(look, _FADED.get(head, head) + comma + opacity)
    if isinstance(look, dict):
        return {key: shaded(value, theme) for key, value in look.items()}
    if isinstance(look, list | tuple):
        return [shaded(value, theme) for value in look]
    return look


LONG_LEGEND = {"font": {"size": 12}, "maxheight": 400}  # in a column on a phone, none cut off


def wrapped(name: str) -> str:
    """A name of the legend in lines that fit a phone; a remark after " · " has its own."""
    width = 42
    if len(name) <= width:
        return name
    first, *remarks = name.split(" · ")
    lines = textwrap.wrap(first, width, break_long_words=False)
    return "<br>".join([*lines, *(f"· {remark}" for remark in remarks)])


def _template() -> dict[str, Any]:
    axis = {
        "gridcolor": GRID,
        "linecolor": GRID,
        "zeroline": False,
        "ticks": "",
        "automargin": True,
        "exponentformat": "power",  # never "5k" or "600µ"
        "minexponent": 5,
        "title": {"font": {"size": 13, "color": MUTED}, "standoff": 10},
    }
    return {
        "font": {"family": '"Source Sans", sans-serif', "size": 14, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "colorway": [BLUE, ORANGE, GREEN, RED, SKY, PURPLE],
        "margin": {"l": 8, "r": 8, "t": 34, "b": 8},
        "height": HEIGHT,
        "xaxis": axis,
        "yaxis": axis,
        "legend": {
            "orientation": "h",
            "yanchor": "bottom",
            "y": 1.0,
            "xanchor": "left",
            "x": 0,
            "font": {"size": 13},
            "bgcolor": "rgba(0,0,0,0)",
        },
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": PAPER,
            "bordercolor": GRID,
            "font": {"color": INK, "size": 13},
        },
        "modebar": {
            "bgcolor": "rgba(0,0,0,0)",
            "color": MUTED,
            "activecolor": INK,
        },
        "dragmode": False,  # a page scrolls under a finger; zooming is in the tool bar
        "bargap": 0.08,
    }


_TEMPLATE = {"layout": _template()}


@dataclass(frozen=True)
class Figure:
    """What Plotly draws in the browser, written down as it goes there.

    Plotly's own figures check and copy every part of themselves, which took half of the processor
    time of a rerun. panel: of several, counted from 1.
    """

    layout: dict[str, Any]
    data: list[dict[str, Any]] = field(default_factory=list)

    def on(self, theme: Theme) -> dict[str, Any]:
        """What Plotly is given on a surface."""
        found: dict[str, Any] = shaded({"data": self.data, "layout": self.layout}, theme)
        return found

    def draw(self, kind: str, *, panel: int = 1, hover: str = "", **trace: Any) -> None:
        """A trace: scatter, bar or heatmap. Arrays go as numbers that need no text.

        hover: what is said where one points; nothing without it.
        """
        place = {} if panel == 1 else {"xaxis": f"x{panel}", "yaxis": f"y{panel}"}
        packed = {k: _packed(v) if isinstance(v, np.ndarray) else v for k, v in trace.items()}
        told = {"hovertemplate": hover} if hover else {"hoverinfo": "skip"}
        self.data.append({"type": kind} | packed | told | place)

    def line(
        self, x: Values, y: Values, look: Style, hover: str, *, width: float = 2.5, **more: Any
    ) -> None:
        """A line with markers in the look of a method; more: what else the trace says."""
        drawn = {
            "mode": "lines+markers",
            "line": {"color": look.color, "dash": look.dash, "width": width},
            "marker": {"symbol": look.marker, "size": 8},
        }
        self.draw("scatter", x=list(x), y=list(y), hover=hover, **drawn | more)

    def stroke(
        self, x: Values, y: Values, color: str, *, width: float = 2, dash: str = "", **more: Any
    ) -> None:
        """A line without markers."""
        line = {"color": color, "width": width} | ({"dash": dash} if dash else {})
        self.draw("scatter", x=x, y=y, line=line, **{"mode": "lines"} | more)

    def level(self, ends: Ends, at: float, look: tuple[str, str], text: str, **more: Any) -> None:
        """A line at the level of a method without epsilon; look: its colour and dash."""
        color, dash = look
        self.stroke(list(ends), [at] * 2, color, dash=dash, hover=f"{text}<extra></extra>", **more)

    def dots(self, x: Values, y: Values, marker: Mapping[str, Any], **more: Any) -> None:
        """Markers alone."""
        self.draw("scatter", x=x, y=y, mode="markers", marker=marker, **more)

    def marker(self, look: Style, *, solid: bool, size: int = 9) -> dict[str, Any]:
        """A filled marker for what is certified, else a hollow one.

        Hollow is larger with a thick edge, and filled with the surface: no line shows through it.
        """
        return {
            "symbol": look.marker,
            "size": size if solid else size + 3,
            "color": look.color if solid else PAPER,
            "line": {"color": look.color, "width": 1 if solid else 2.5},
            "opacity": 1,
        }

    def tick(self, x: float, y: Any, look: Style, found: Tick) -> None:
        """The mark of what was measured, beside hollow (claimed) and filled (certified) ones."""
        mark = {"symbol": "line-ns", "size": 15, "line": {"color": look.color, "width": 3}}
        self.dots([x], [y], mark, hover=f"{found.words}<extra></extra>", showlegend=False)

    def band(self, over: Band, color: str, **more: Any) -> None:
        """The band over seeds behind a line; one seed has none."""
        several = np.flatnonzero(over.seeds > 1)
        for run in np.split(several, np.flatnonzero(np.diff(several) > 1) + 1):
            if len(run):
                part = slice(run[0], run[-1] + 1)
                x = [*over.x[part], *over.x[part][::-1]]
                y = [*over.high[part], *over.low[part][::-1]]
                filled = {"fill": "toself", "fillcolor": color, "line": {"width": 0}}
                self.draw("scatter", x=x, y=y, mode="lines", **filled, **more)

    def rule(self, at: float, *, dash: str = "solid") -> None:
        """The vertical rule at the chosen epsilon, or size."""
        look = {"line": {"color": INK, "width": 1.5, "dash": dash}, "opacity": 0.55}
        for name in [name for name in self.layout if name.startswith("xaxis")] or ["xaxis"]:
            k = name.removeprefix("xaxis")
            ends = {"y0": 0, "y1": 1, "yref": f"y{k} domain"}
            self.shape(type="line", x0=at, x1=at, xref=f"x{k}", **ends, **look)

    def note(self, *, size: float | None = None, color: str | None = None, **note: Any) -> None:
        """Words in the picture, without an arrow unless one is asked for."""
        font = {k: v for k, v in (("size", size), ("color", color)) if v is not None}
        whole = {"showarrow": False} | ({"font": font} if font else {}) | note
        self.layout.setdefault("annotations", []).append(whole)

    def shape(self, **shape: Any) -> None:
        self.layout.setdefault("shapes", []).append(shape)

    def x(self, title: str | None = None, *, panel: int = 1, **axis: Any) -> None:
        """Say more of a horizontal axis."""
        self._axis(f"xaxis{_number(panel)}", title, axis)

    def y(self, title: str | None = None, *, panel: int = 1, **axis: Any) -> None:
        """Say more of a vertical axis."""
        self._axis(f"yaxis{_number(panel)}", title, axis)

    def panels(self, rows: int, columns: int, *, across: float = 0.1, down: float = 0.2) -> range:
        """Split into panels, row by row from above, with gaps (shares of the whole) between."""
        wide = (1 - across * (columns - 1)) / columns
        high = (1 - down * (rows - 1)) / rows
        for k in (found := range(1, rows * columns + 1)):
            row, column = divmod(k - 1, columns)
            left, top = column * (wide + across), 1 - row * (high + down)
            self.x(panel=k, anchor=f"y{_number(k)}", domain=[left, left + wide])
            self.y(panel=k, anchor=f"x{_number(k)}", domain=[max(0.0, top - high), top])
        return found

    def name(self, panel: int, text: str) -> None:
        """A name above a panel."""
        left, right = self.layout[f"xaxis{_number(panel)}"]["domain"]
        top = self.layout[f"yaxis{_number(panel)}"]["domain"][1]
        place = {"x": (left + right) / 2, "xref": "paper", "xanchor": "center"}
        place |= {"y": top, "yref": "paper", "yanchor": "bottom"}
        self.note(text=text, size=16, **place)

    def _axis(self, name: str, title: str | None, more: dict[str, Any]) -> None:
        axis = self.layout.setdefault(name, {})
        axis |= more | ({} if title is None else {"title": {"text": title}})


def _number(panel: int) -> str:
    return "" if panel == 1 else str(panel)


def _packed(values: NDArray[Any]) -> dict[str, str] | list[Any]:
    """An array as Plotly reads it fastest; words and the like as a list."""
    if values.dtype.kind not in "iuf":
        return values.tolist()
    raw = np.ascontiguousarray(values, dtype="<f8")
    packed = {"dtype": "f8", "bdata": base64.b64encode(raw).decode("ascii")}
    return packed | ({"shape": ", ".join(map(str, raw.shape))} if raw.ndim > 1 else {})


def figure(**layout: Any) -> Figure:
    """An empty figure in the house style."""
    return Figure({"template": _TEMPLATE, **layout})


def ticks(values: list[float]) -> dict[str, object]:
    """Ticks of a logarithmic axis at round numbers only."""
    return {"tickmode": "array", "tickvals": values, "ticktext": [f"{v:,.10g}" for v in values]}


def powers(low: int, high: int, step: int = 1) -> dict[str, object]:
    """Ticks of a logarithmic axis at powers of ten, from 10**low to below 10**high."""
    return ticks([10.0**k for k in range(low, high, step)])


EPSILON_AXIS: dict[str, Any] = {
    "type": "log",
    "title": "epsilon (left: more private)",
    **ticks([0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100]),
}


def spread(wanted: Sequence[float], heights: Sequence[float], room: float) -> list[float]:
    """Places nearest to the wanted ones, in their order, for what is so high and may not overlap.

    All between 0 and `room`, in its unit, where there is room for them.
    """
    if not len(wanted):
        return []
    order = np.argsort(wanted, kind="stable")
    high = np.asarray(heights, dtype=float)[order]
    middle = np.cumsum(high) - high / 2  # of each, were they packed at 0
    moved = isotonic(np.asarray(wanted, dtype=float)[order] - middle, np.ones(len(order)))
    places = np.empty(len(order))
    places[order] = np.clip(moved, 0, max(0.0, room - float(high.sum()))) + middle
    return [float(place) for place in places]
