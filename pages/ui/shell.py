"""The frame around every page: the list of pages, and the way in through app.py."""

from __future__ import annotations

import streamlit as st

from pages.ui import state

# Drawn here, because Streamlit's own icons for a tab are fetched from elsewhere.
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    '<rect width="32" height="32" rx="7" fill="#4c5fd5"/>'
    '<path d="M6 24c8 0 7-16 20-16" fill="none" stroke="#fff" stroke-width="3"/>'
    '<circle cx="15.5" cy="16.5" r="4" fill="#fff"/></svg>'
)
_PAGES = (
    (
        "pages/what_if.py",
        "What if",
        ":material/tune:",
        "What does epsilon cost? Move one slider and see accuracy and risk at once.",
    ),
    (
        "pages/data.py",
        "Data",
        ":material/grid_on:",
        "Choose sample ratings or bring your own, and see what they look like.",
    ),
    (
        "pages/train.py",
        "Train",
        ":material/play_circle:",
        "Train one mechanism live and look at what it learned.",
    ),
    (
        "pages/compare.py",
        "Compare",
        ":material/stacked_line_chart:",
        "Mechanisms side by side over a grid of epsilons; runs in the background and resumes.",
    ),
    (
        "pages/noise.py",
        "Noise",
        ":material/blur_on:",
        "The noise itself: its density, its size, and ratings before and after it.",
    ),
    (
        "pages/guarantees.py",
        "Guarantees",
        ":material/verified_user:",
        "What each mechanism claims, what is certified, and why the two differ.",
    ),
    (
        "pages/protocol.py",
        "Protocol",
        ":material/forum:",
        "Learning without a trusted recommender: every message, what each party sees, attacks.",
    ),
)


def run() -> None:
    """Everything app.py does: the frame, then the page the address asks for."""
    page = _navigation()
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
        _navigation()
        st.rerun()


def _navigation():
    st.set_page_config(page_title="DPMC Lab", page_icon=_ICON, layout="wide")
    pages = [
        st.Page(path, title=title, icon=icon, help=words, default=path == _PAGES[0][0])
        for path, title, icon, words in _PAGES
    ]
    return st.navigation(pages, position="top")
