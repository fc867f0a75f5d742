"""Show controls for preparation and hold-out, before a mechanism sees the ratings."""

import streamlit as st

from dpmc_core.model import Task
from dpmc_core.preparation import Binarise, CapPerUser, TopItems, Transform
from dpmc_core.problem import LeaveLast, RandomShare, Split, choose_default_split
from dpmc_core.ratings import PublicFacts
from dpmc_lab import glossary
from dpmc_lab.views.text import format_split
from pages.ui import widgets


def choose_preparation(
    public: PublicFacts, task: Task, *, timed: bool = True
) -> tuple[list[Transform], Split]:
    """Show the preparation steps and the hold-out, and return the choices.

    The choices are the same on every page and in the address. Each control says what it does to
    privacy.

    Args:
        public: public facts of the ratings.
        task: of the mechanism.
        timed: whether the ratings have times, so that a user has a latest one.
    """
    with st.grid(4, min_column_width=200):
        cap = widgets.choose_number(
            "Cap on ratings per user",
            "the cap",
            1,
            public.items,
            None,
            "cap",
            placeholder="no cap",
            help=f"{glossary.explain_terms('cap')} They are chosen without a look at their values;"
            " test ratings"
            " are not capped.",
        )
        top = widgets.choose_number(
            "Most rated items only",
            "the number of items",
            1,
            public.items,
            None,
            "top_items",
            placeholder="all items",
            help="The most rated items are found in the data without noise. The guarantee then"
            " holds only if that choice is public.",
        )
        threshold = None
        if task is Task.BINARY and (public.low, public.high) != (-1, 1):
            threshold = widgets.choose_number(
                "Like starts at",
                "the threshold",
                public.low,
                public.high,
                None,
                "binarise",
                placeholder="above the middle",
                help="Ratings from here on become +1, the others -1; left empty, those strictly"
                " above the middle of the range. Neither reads a rating.",
            )
        # Clicks come in time, ratings at any time: each kind has its default and its choice.
        default = "last" if choose_default_split(task) == LeaveLast() else "share"
        holdout = widgets.choose_option(
            "Held out for testing",
            "the hold-out",
            {
                "share": format_split(str(RandomShare())),
                "last": "each user's latest rating" if timed else "one random rating of each user",
            },
            "holdout" if default == "share" else "ranking_holdout",
            default,
            help=glossary.explain_terms("held_out"),
        )
    requested_steps = ((TopItems, top), (CapPerUser, cap), (Binarise, threshold))
    steps: list[Transform] = [step(value) for step, value in requested_steps if value is not None]
    return steps, LeaveLast() if holdout == "last" else RandomShare()
