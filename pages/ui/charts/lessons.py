"""The pictures of the lessons, in the colours of the surface."""

from __future__ import annotations

from dpmc_core.lab.teach.pictures import Colors, Picture, drawn
from pages.ui.charts import ENDS, Theme, shaded


def picture(found: Picture, theme: Theme) -> str:
    """As HTML, which changes without a flash."""
    other, one = shaded(ENDS, theme)
    return drawn(found, Colors(theme.ink, theme.muted, theme.grid, theme.paper, one, other))
