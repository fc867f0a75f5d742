"""The pictures of the lessons, in the colours of the surface."""

from __future__ import annotations

from dpmc_core.lab.teach.lessons.drawing import Colors, svg
from dpmc_core.lab.teach.lessons.frame import Drawing
from pages.ui.charts import ENDS, Theme, shaded


def picture(drawing: Drawing, theme: Theme) -> str:
    """As HTML, which changes without a flash."""
    other, one = shaded(ENDS, theme)
    return svg(drawing, Colors(theme.ink, theme.muted, theme.grid, theme.paper, one, other))
