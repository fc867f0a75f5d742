"""The frame around every page, and the way in through app.py."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from pages.ui import state
from pages.ui.charts import DARK

# Drawn here, because Streamlit's own icons for a tab are fetched from elsewhere.
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    '<rect width="32" height="32" rx="7" fill="#4c5fd5"/>'
    '<path d="M6 24c8 0 7-16 20-16" fill="none" stroke="#fff" stroke-width="3"/>'
    '<circle cx="15.5" cy="16.5" r="4" fill="#fff"/></svg>'
)
# The accent must be light to be read as text on a dark surface; what is written on it is dark.
_ON_ACCENT = (
    "<style>"
    '[data-testid^="stBaseButton-primary"]:not(:disabled),'
    '[data-testid^="stBaseButton-primary"]:not(:disabled) * { color: #14161a; }'
    "</style>"
)


def run(pages: list[st.Page]) -> None:
    """Everything app.py does: the frame, then the page the address asks for."""
    st.set_page_config(page_title="DPMC Lab", page_icon=_ICON, layout="wide")
    page = st.navigation(pages, position="top")
    if state.theme() is DARK:
        st.html(_ON_ACCENT)
    notes = st.container()
    st.session_state["inside"] = True
    page.run()
    with notes:
        state.show_notes()


def enter() -> None:
    """Call first in every page.

    Until st.navigation has run once in the server, Streamlit takes pages/ for its older kind of
    app and opens a linked page without app.py: then go back in through the front door.
    """
    if not st.session_state.get("inside"):
        root = Path(__file__).parents[2]
        st.navigation([root / "app.py", *sorted((root / "pages").glob("*.py"))])
        st.rerun()
