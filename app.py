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
            "What does privacy cost? Move one slider and see accuracy and risk at once.",
        ),
        Entry(
            "learn",
            "Learn",
            ":material/school:",
            "Take short lessons on epsilon. Each one ends with a sentence to take home.",
            next_page=("what_if", "Move epsilon on film ratings"),
        ),
        Entry(
            "room",
            "Class",
            ":material/groups:",
            "Ask a class yes or no. Every phone may change its answer before it sends it.",
            next_page=("guarantees", "See what other mechanisms promise"),
        ),
        Entry(
            "data",
            "Your data",
            ":material/balance:",
            "See what privacy costs on your ratings, and whether you can afford it.",
            next_page=("what_if", "Move epsilon on these ratings"),
        ),
    ),
    "Try": (
        Entry(
            "train",
            "Train",
            ":material/play_circle:",
            "Train one mechanism and watch what it learns.",
            next_page=("noise", "See the noise of this mechanism"),
        ),
        Entry(
            "compare",
            "Compare",
            ":material/stacked_line_chart:",
            "Compare mechanisms over many epsilons. Runs continue in the background.",
            next_page=("train", "Train one of them and watch"),
        ),
        Entry(
            "noise",
            "Noise",
            ":material/blur_on:",
            "See the noise itself: its density, its size, and a rating before and after it.",
            next_page=("guarantees", "See what this noise proves"),
        ),
    ),
    "Evidence": (
        Entry(
            "guarantees",
            "Guarantees",
            ":material/verified_user:",
            "See what each mechanism claims, what is proved, and what attacks measure.",
            next_page=("protocol", "See how people learn together without a trusted server"),
        ),
        Entry(
            "protocol",
            "Protocol",
            ":material/forum:",
            "Follow every message when nobody trusts the recommender, and attack it.",
            next_page=("papers", "See whether the papers' figures hold"),
        ),
        Entry(
            "papers",
            "Papers",
            ":material/menu_book:",
            "Compare every figure and table of five papers with our own measurements.",
            next_page=("data", "Use your own ratings"),
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
