"""How methods are drawn: colour, marker and dash identify a method on every page."""

from __future__ import annotations

from typing import NamedTuple


class Style(NamedTuple):
    """How one method is drawn on every page.

    Attributes:
        color: hexadecimal colour.
        marker: name of the marker.
        dash: name of the line style.
    """

    color: str
    marker: str
    dash: str = "solid"


# Of Okabe and Ito's colours, safe for colour blindness: orange means noise elsewhere, green is too
# near to the colour of usefulness, and yellow is too faint on white. No stars: open and filled ones
# look alike from the back of a room.
BLUE, VERMILION, SKY, PURPLE = _COLORS = "#0072b2", "#d55e00", "#56b4e9", "#cc79a7"
_MARKERS = ("square", "pentagon", "hexagon", "triangle-down", "cross", "hourglass")


def pick_style(id: str) -> Style:
    """Return the style of a method whose class has none; it depends on the method's id alone."""
    checksum = sum(id.encode())
    return Style(
        _COLORS[checksum % len(_COLORS)], _MARKERS[checksum // len(_COLORS) % len(_MARKERS)]
    )
