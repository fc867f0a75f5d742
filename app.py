"""DPMC Lab: what differential privacy costs when a matrix of ratings is completed."""

import streamlit as st

from pages.ui import shell
from pages.ui.shell import Entry

# The navigation, section by section; the pages of the one without a name stand by themselves.
SECTIONS: dict[str, tuple[Entry, ...]] = {
    "": (
        Entry(
            "what_if",
            "What if",
            ":material/tune:",
            "What does epsilon cost? Move one slider and see accuracy and risk at once.",
            next_page=("compare", "Which mechanism costs least? Compare them"),
        ),
        Entry(
            "learn",
            "Learn",
            ":material/school:",
            "Short lessons on epsilon: predict, move, see, and one sentence to take home.",
            next_page=("what_if", "Move epsilon on film ratings"),
        ),
        Entry(
            "room",
            "Class",
            ":material/groups:",
            "Ask a class yes or no: every phone changes its answer before it sends it.",
            next_page=("guarantees", "What do other mechanisms promise?"),
        ),
    ),
    "Try": (
        Entry(
            "train",
            "Train",
            ":material/play_circle:",
            "Train one mechanism live and look at what it learned.",
            next_page=("noise", "See the noise that went in"),
        ),
        Entry(
            "compare",
            "Compare",
            ":material/stacked_line_chart:",
            "Mechanisms side by side over a grid of epsilons; runs in the background and resumes.",
            next_page=("train", "Train one of them and watch"),
        ),
        Entry(
            "noise",
            "Noise",
            ":material/blur_on:",
            "The noise itself: its density, its size, and ratings before and after it.",
            next_page=("guarantees", "What does this noise prove?"),
        ),
    ),
    "Evidence": (
        Entry(
            "guarantees",
            "Guarantees",
            ":material/verified_user:",
            "What each mechanism claims, what is certified, and why the two differ.",
            next_page=("protocol", "And if nobody can be trusted? Watch the messages"),
        ),
        Entry(
            "protocol",
            "Protocol",
            ":material/forum:",
            "Learning without a trusted recommender: every message, what each party sees, attacks.",
            next_page=("papers", "Does it hold what the papers print? Look them up"),
        ),
        Entry(
            "papers",
            "Papers",
            ":material/menu_book:",
            "Every figure and table of five papers: what is printed beside what is measured.",
            next_page=("data", "Bring your own ratings"),
        ),
    ),
    "Data": (
        Entry(
            "data",
            "Ratings",
            ":material/grid_on:",
            "Choose sample ratings or bring your own, and see what they look like.",
            next_page=("what_if", "See what epsilon costs on these ratings"),
        ),
        Entry(
            "answer",
            "The answer",
            ":material/balance:",
            "What would privacy cost on your ratings, and can you afford it?",
            next_page=("what_if", "Move epsilon and watch"),
        ),
    ),
}


if __name__ == "__main__":  # Streamlit runs this file for every visitor
    shell.run(SECTIONS)
else:  # and imports it once, to serve it
    from starlette.middleware import Middleware

    from pages.ui import classroom, door, server

    app = st.App(
        __file__,
        lifespan=server.manage_lifespan,
        routes=[*server.ROUTES, *classroom.build_routes(st.get_option("server.baseUrlPath"))],
        middleware=[
            Middleware(door.HostGuard),
            Middleware(classroom.UploadGuard),
            Middleware(server.ChartPreloader),
        ],
    )
