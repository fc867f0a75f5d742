"""Text that others wrote, for where pages show it."""

from __future__ import annotations

import html

from dpmc_core.errors import make_printable
from dpmc_lab.curves.text import escape_markdown
from dpmc_lab.curves.text import format_count as format_count


def escape(text: str) -> str:
    """Plain text in Streamlit's Markdown; what keeps things apart there is an empty span."""
    return escape_markdown(text, ":color[]")


def escape_for_chart(text: str) -> str:
    """Plain text in a chart, where tags and entities are obeyed; of quotes Plotly knows nothing."""
    return html.escape(make_printable(text), quote=False)
