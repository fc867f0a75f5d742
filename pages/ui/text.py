"""Escape text that others wrote, for pages that show it."""

import html
import re

from dpmc_core.errors import make_printable
from dpmc_lab.views.text import escape_markdown
from dpmc_lab.views.text import format_count as format_count


def escape(text: str) -> str:
    """Return plain text for Streamlit's Markdown, with empty spans between special characters."""
    return escape_markdown(text, ":color[]")


def keep_units(text: str) -> str:
    """Return a text in which no line ends between a number and its unit or its name."""
    return re.sub(r"(?<=\d) (?=%|stars|times)|(?<=epsilon) (?=\d)", "\u00a0", text)


def escape_for_chart(text: str) -> str:
    """Return plain text for a chart, which interprets tags and entities but not quotes."""
    return html.escape(make_printable(text), quote=False)
