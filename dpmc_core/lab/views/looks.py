"""How each method is drawn, wherever it is: colour, marker and dash say the same thing."""

from __future__ import annotations

from typing import NamedTuple


class Style(NamedTuple):
    """How one method is drawn on every page: colour, marker and dash say the same thing."""

    color: str
    marker: str
    dash: str


# Okabe and Ito's colours, safe for colour blindness; yellow is left out: too faint on white. No
# stars: hollow and filled ones look alike from the back of a room.
BLUE, ORANGE, GREEN, RED = "#0072b2", "#e69f00", "#009e73", "#d55e00"
SKY, PURPLE = "#56b4e9", "#cc79a7"
STYLES = {
    "input-flip": Style(ORANGE, "circle", "solid"),
    "objective": Style(BLUE, "square", "longdash"),
    "objective-statistic": Style(SKY, "diamond", "dashdot"),
    "gradient": Style(GREEN, "triangle-up", "longdashdot"),
    "output": Style(RED, "x", "8px,3px"),
    "private-frank-wolfe": Style(BLUE, "circle", "solid"),
    "private-frank-wolfe-oja": Style(SKY, "triangle-down", "longdash"),
    "private-svd": Style(ORANGE, "square", "dashdot"),
    "private-pgd": Style(PURPLE, "diamond", "longdashdot"),
    "svd-after-cleansing": Style(RED, "triangle-up", "8px,3px"),
    "dpals": Style(GREEN, "triangle-left", "solid"),
    "private-item-mean": Style(PURPLE, "cross", "dash"),
    "modified-laplace": Style(RED, "hexagon", "dot"),
    "randomised-response": Style(GREEN, "pentagon", "longdash"),
    "dpmf": Style(PURPLE, "triangle-right", "dot"),
    "dpimf-strawman": Style(RED, "triangle-down", "dot"),
    "dpimf-complementary": Style(ORANGE, "pentagon", "dash"),
    "dpimf-symmetric": Style(SKY, "hexagon", "dashdot"),
    "dpimf-optimal": Style(BLUE, "circle", "solid"),
    "dpimf-sampled": Style(GREEN, "cross", "longdash"),
    "private-taste": Style(PURPLE, "diamond-tall", "solid"),
    "dpmf-clicks": Style(RED, "triangle-right", "8px,3px"),
    "dplcf": Style(ORANGE, "hourglass", "longdashdot"),
    "ldpicf": Style(GREEN, "bowtie", "dot"),
    "private-popularity": Style(PURPLE, "triangle-left", "dot"),
    "local-popularity": Style(SKY, "square", "dot"),
    "private-majority": Style(PURPLE, "pentagon", "dot"),
    "private-effects": Style(ORANGE, "diamond-tall", "solid"),
    "private-mean": Style(SKY, "hourglass", "dot"),
    "local-mean": Style(ORANGE, "bowtie", "dot"),
}
_SPARE = (PURPLE, GREEN, BLUE, ORANGE, RED, SKY)
_SPARE_MARKERS = ("square", "pentagon", "hexagon", "triangle-down", "cross", "hourglass")


def style(mechanism: str) -> Style:
    """The fixed style of a method; one without an entry gets the same one every time."""
    if mechanism in STYLES:
        return STYLES[mechanism]
    k = sum(mechanism.encode())
    return Style(_SPARE[k % 6], _SPARE_MARKERS[k // 6 % 6], "solid")
