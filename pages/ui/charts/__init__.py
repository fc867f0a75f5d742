"""Define the style of every chart, and what charts share: core results in, Plotly's figures out."""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import style as palette
from dpmc_core.arrays import Floats
from dpmc_core.registry import get_style as get_style
from dpmc_core.style import Style
from dpmc_data import facts
from dpmc_lab.measured import MeasuredBound
from dpmc_lab.views.lines import Band, Role
from dpmc_lab.views.measurements import describe_measured_bound
from dpmc_lab.views.numbers import fit_isotonic
from dpmc_lab.views.text import COLORS, LOOK

Values = Sequence[Any] | Floats
Interval = tuple[float, float]


class Theme(NamedTuple):
    """The colours of a surface, light or dark.

    Attributes:
        name: of the theme.
        ink, muted, grid, paper: colours of text, secondary text, lines and background.
        missing: colour of cells without a value, unlike every colour of a value.
        neutral: colour of a value in the middle of its range.
    """

    name: str
    ink: str
    muted: str
    grid: str
    paper: str
    missing: str
    neutral: str


LIGHT, DARK = (
    Theme(
        name,
        *(
            pair[k]
            for pair in map(COLORS.get, ("text", "note", "line", "card", "baseline", "line"))
        ),
    )
    for k, name in enumerate(("dpmc-light", "dpmc-dark"))
)
_, INK, MUTED, GRID, PAPER, BASELINE, _ = LIGHT
ACCENT, RISK, USEFULNESS, NOISE, NOISE_EDGE, NOISE_TEXT = (
    COLORS[name][0] for name in ("act", "risk", "usefulness", "noise", "noise-edge", "noise-text")
)
# Charts are drawn for the light surface; on the dark one other colours take the place of theirs.
_DARK_COLORS = dict(COLORS.values()) | LOOK["mechanisms"]


def with_opacity(color: str, opacity: float) -> str:
    """Return a hex colour with two more digits for its opacity, 0..1."""
    return f"{color}{round(255 * opacity):02x}"


def apply_theme(drawing: Any, theme: Theme) -> Any:
    """Return a drawing whose colours, wherever they stand in it, are those of a theme."""
    if theme is LIGHT:
        return drawing
    return _replace_texts(drawing, lambda text: _DARK_COLORS.get(text[:7], text[:7]) + text[7:])


def _replace_texts(drawing: Any, replace: Callable[[str], str]) -> Any:
    """Return a copy of nested lists and dictionaries with every text replaced."""
    if isinstance(drawing, str):
        return replace(drawing)
    if isinstance(drawing, dict):
        return {key: _replace_texts(value, replace) for key, value in drawing.items()}
    if isinstance(drawing, list | tuple):
        return [_replace_texts(value, replace) for value in drawing]
    return drawing


# look.toml names colours as dpmc_core/style.py and the table of looks do, before their opacity.
_NAMED = {name.replace("-", "_").upper(): pair[0] for name, pair in COLORS.items()}
_NAMED |= {**vars(palette), "FONT": LOOK["font"]}
STYLE_SHEET = _replace_texts(
    facts.load_toml(__name__, "look.toml"),
    lambda text: re.sub(r"^[A-Z_]+(?=\w{2}$|$)", lambda name: _NAMED[name[0]], text),
)
LOG: dict[str, Any] = STYLE_SHEET["log"]
EPSILON_AXIS: dict[str, Any] = STYLE_SHEET["epsilon"]
STYLES = {name: Style(*style_entry) for name, style_entry in STYLE_SHEET["styles"].items()}
# Of what has no epsilon, or has one and is no method: colour and dash.
LEVEL_STYLES = {Role.NO_PRIVACY: (INK, "dash")} | dict.fromkeys(
    (Role.BASELINE, Role.WITHOUT_OTHERS), (BASELINE, "dot")
)
HOVER_TEXT = "%{text}<extra></extra>"  # where one points: a text for each point


def merge_options(target: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Add options to a nested dictionary: change `target` in place and return it.

    Options are in Plotly's short form: line_color stands for target["line"]["color"]. Names that
    contain an underscore themselves must not be used, because they are split at it.
    """
    for name, value in options.items():
        *path, last = name.split("_")
        node = target
        for key in path:
            node = node.setdefault(key, {})
        if isinstance(value, dict):
            merge_options(node.setdefault(last, {}), value)
        else:
            node[last] = value
    return target


def create_figure(name: str = "", **layout: Any) -> Figure:
    """Create an empty figure in the house style.

    Args:
        name: of its layout in look.toml (default: none).
        **layout: further layout, in Plotly's short form.
    """
    preset = copy.deepcopy(STYLE_SHEET["figures"].get(name, {}))
    return Figure(merge_options(preset, layout) | {"template": STYLE_SHEET["template"]})


@dataclass(frozen=True)
class Figure:
    """What Plotly draws in the browser, in the form in which it is sent.

    Plotly's own figures check and copy every part of themselves, which took half of the processor
    time of a rerun. Options are in Plotly's short form.

    Attributes:
        layout: Plotly's layout.
        data: Plotly's traces.
    """

    layout: dict[str, Any]
    data: list[dict[str, Any]] = field(default_factory=list)

    def to_plotly(self, theme: Theme) -> dict[str, Any]:
        """Return the figure for Plotly in the colours of a surface."""
        return dict(apply_theme({"data": self.data, "layout": self.layout}, theme))

    def update_layout(self, **layout: Any) -> None:
        """Add to the layout."""
        merge_options(self.layout, layout)

    def add_trace(self, preset: str = "", *, hover: str = "", **trace: Any) -> None:
        """Add a trace; arrays are sent as binary numbers.

        Args:
            preset: its kind and style in look.toml (default: a scatter).
            hover: text at the pointer; none if empty.
            **trace: its other options.
        """
        options = merge_options({}, STYLE_SHEET["traces"].get(preset, {}))
        if hover or "hovertemplate" not in options:
            options |= {"hovertemplate": hover} if hover else {"hoverinfo": "skip"}
        arrays = {name: _encode_array(value) for name, value in trace.items()}
        self.data.append({"type": "scatter"} | merge_options(options, arrays))

    def add_line(self, x: Values, y: Values, method_style: Style, hover: str, **trace: Any) -> None:
        """Add a line with markers in the style of a method; `trace` has its other options."""
        options = {
            "mode": "lines+markers",
            "line_dash": method_style.dash,
            "line_width": 2.5,
            "marker_symbol": method_style.marker,
            "marker_size": 8,
        }
        self.add_stroke(list(x), list(y), method_style.color, hover=hover, **options | trace)

    def add_stroke(self, x: Values, y: Values, color: str, **trace: Any) -> None:
        """Add a line without markers."""
        self.add_trace(x=x, y=y, **{"mode": "lines", "line_color": color} | trace)

    def add_level(
        self, ends: Interval, value: float, color_and_dash: tuple[str, str], text: str, **trace: Any
    ) -> None:
        """Add a horizontal line, for a method without epsilon.

        Args:
            ends: ends of the line on the horizontal axis.
            value: where it is on the vertical axis.
            color_and_dash: its colour and its dash.
            text: text at the pointer.
            **trace: its other options.
        """
        trace |= {"line_dash": color_and_dash[1], "hover": f"{text}<extra></extra>"}
        self.add_stroke(list(ends), [value] * 2, color_and_dash[0], **trace)

    def add_markers(self, x: Values, y: Values, marker: Mapping[str, Any], **trace: Any) -> None:
        """Add markers alone."""
        self.add_trace(x=x, y=y, mode="markers", marker=marker, **trace)

    def make_marker(self, method_style: Style, *, solid: bool, size: int = 9) -> dict[str, Any]:
        """Return a filled marker for what is certified, else a hollow one.

        A hollow marker is larger with a thick edge, and filled with the background, so that no line
        shows through it.
        """
        return {
            "symbol": method_style.marker,
            "size": size if solid else size + 3,
            "color": method_style.color if solid else PAPER,
            "line": {"color": method_style.color, "width": 1 if solid else 2.5},
            "opacity": 1,
        }

    def add_measurement(
        self, x: float, y: Any, method_style: Style, measurement: MeasuredBound
    ) -> None:
        """Add a tick at a measured bound, which is neither a claim (hollow) nor certified (filled).

        Args:
            x, y: where the tick is.
            method_style: style of the method.
            measurement: the bound.
        """
        hover = f"{describe_measured_bound(measurement)}<extra></extra>"
        self.add_trace("tick", x=[x], y=[y], marker_line_color=method_style.color, hover=hover)

    def add_curve(
        self,
        seed_band: Band,
        method_style: Style,
        hover: str,
        *,
        fill: float = 0.16,
        **trace: Any,
    ) -> None:
        """Add the line of means, and below it the band of their intervals over seeds.

        Args:
            seed_band: means and intervals.
            method_style: style of the method.
            hover: text at the pointer.
            fill: opacity of the band.
            **trace: further options of the line.
        """
        self.add_band(seed_band, with_opacity(method_style.color, fill))
        self.add_line(seed_band.x.tolist(), seed_band.mean.tolist(), method_style, hover, **trace)

    def add_band(self, seed_band: Band, color: str) -> None:
        """Add a filled band between the ends of the intervals, wherever there are several seeds."""
        several = np.flatnonzero(seed_band.seeds > 1)
        for run in np.split(several, np.flatnonzero(np.diff(several) > 1) + 1):
            if len(run):
                x = [*seed_band.x[run], *seed_band.x[run[::-1]]]
                y = [*seed_band.high[run], *seed_band.low[run[::-1]]]
                filled = {"fill": "toself", "fillcolor": color, "line_width": 0}
                self.add_stroke(x, y, color, showlegend=False, **filled)

    def add_vertical_line(self, x_value: float, *, dash: str = "solid") -> None:
        """Add a vertical rule, such as the one at the chosen epsilon."""
        self.add_shape("rule", x0=x_value, x1=x_value, line_dash=dash, yref="y domain")

    def add_annotation(self, kind: str = "", **note: Any) -> None:
        """Add text to the picture; `kind` is its style in look.toml."""
        self._append_layout_entry("annotations", STYLE_SHEET["notes"].get(kind, {}), note)

    def add_shape(self, kind: str, **shape: Any) -> None:
        """Add a shape; `kind` is its style in look.toml."""
        self._append_layout_entry("shapes", STYLE_SHEET["shapes"][kind], shape)

    def _append_layout_entry(
        self, layout_key: str, preset: dict[str, Any], options: dict[str, Any]
    ) -> None:
        """Add an annotation or a shape to the layout's list, with options over its preset."""
        self.layout.setdefault(layout_key, []).append(
            merge_options(merge_options({}, preset), options)
        )


def _encode_array(values: Any) -> Any:
    """Return an array of numbers in Plotly's binary form, and any other array as a list.

    A value that is no array is returned as it is.
    """
    if not isinstance(values, np.ndarray):
        return values
    if values.dtype.kind not in "iuf":
        return values.tolist()
    raw = base64.b64encode(values.astype("<f8").tobytes()).decode()
    return {"dtype": "f8", "bdata": raw, "shape": ", ".join(map(str, values.shape))}


def separate_labels(
    targets: Sequence[float], heights: Sequence[float], total_height: float
) -> list[float]:
    """Return positions for labels that are as near as possible to their targets but do not overlap.

    All are between 0 and `total_height`, in its unit, if there is room for them.

    Args:
        targets: where the middle of each label should be.
        heights: height of each label.
        total_height: of the available space.
    """
    sizes = np.array(heights, dtype=float)
    order = np.argsort(targets, kind="stable")
    middle = np.cumsum(sizes[order]) - sizes[order] / 2  # of each, were they packed at 0
    offsets = fit_isotonic(np.array(targets, dtype=float)[order] - middle, np.ones(len(order)))
    sizes[order] = np.clip(offsets, 0, max(0.0, total_height - sizes.sum())) + middle
    return sizes.tolist()
