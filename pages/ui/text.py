"""Text that others wrote, for where pages show it."""

from __future__ import annotations

import html

from dpmc_core.errors import printable
from dpmc_lab.curves.text import escape_markdown
from dpmc_lab.curves.text import many as many


def escape(text: str) -> str:
    """Plain text in Streamlit's Markdown; what keeps things apart there is an empty span."""
    return escape_markdown(text, ":color[]")


def in_chart(text: str) -> str:
    """Plain text in a chart, where tags and entities are obeyed; of quotes Plotly knows nothing."""
    return html.escape(printable(text), quote=False)
