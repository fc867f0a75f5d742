"""DPMC Lab: what differential privacy costs when a matrix of ratings is completed."""

import streamlit as st
from starlette.middleware import Middleware

from pages.ui import server, shell


def pages() -> list[st.Page]:
    """The app, screen by screen, in the order of its navigation."""
    return [
        st.Page(
            "pages/what_if.py",
            title="What if",
            icon=":material/tune:",
            help="What does epsilon cost? Move one slider and see accuracy and risk at once.",
            default=True,
        ),
        st.Page(
            "pages/data.py",
            title="Data",
            icon=":material/grid_on:",
            help="Choose sample ratings or bring your own, and see what they look like.",
        ),
        st.Page(
            "pages/answer.py",
            title="The answer",
            icon=":material/balance:",
            help="What would privacy cost on your ratings, and can you afford it?",
        ),
        st.Page(
            "pages/train.py",
            title="Train",
            icon=":material/play_circle:",
            help="Train one mechanism live and look at what it learned.",
        ),
        st.Page(
            "pages/compare.py",
            title="Compare",
            icon=":material/stacked_line_chart:",
            help="Mechanisms side by side over a grid of epsilons; runs in the background and"
            " resumes.",
        ),
        st.Page(
            "pages/noise.py",
            title="Noise",
            icon=":material/blur_on:",
            help="The noise itself: its density, its size, and ratings before and after it.",
        ),
        st.Page(
            "pages/guarantees.py",
            title="Guarantees",
            icon=":material/verified_user:",
            help="What each mechanism claims, what is certified, and why the two differ.",
        ),
        st.Page(
            "pages/protocol.py",
            title="Protocol",
            icon=":material/forum:",
            help="Learning without a trusted recommender: every message, what each party sees,"
            " attacks.",
        ),
    ]


if __name__ == "__main__":  # Streamlit runs this file for every visitor
    shell.run(pages())
else:  # and imports it once, to serve it
    app = st.App(
        __file__,
        lifespan=server.ready,
        routes=server.ROUTES,
        middleware=[Middleware(server.ChartsAhead)],
    )
