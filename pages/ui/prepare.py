"""Preparation and hold-out controls: what happens to ratings before a mechanism meets them."""

from __future__ import annotations

import streamlit as st

from dpmc_core.data.transforms import Binarise, CapPerUser, TopItems, Transform
from dpmc_core.model import Task
from dpmc_core.problem import LeaveLast, RandomShare, Split, default_split, split_words
from dpmc_core.ratings import PublicFacts
from dpmc_lab import glossary
from pages.ui import widgets


def controls(
    public: PublicFacts, task: Task, *, timed: bool = True
) -> tuple[list[Transform], Split]:
    """The chosen steps, in order, and the hold-out; each step says what it does to privacy.

    timed: whether the ratings have times, so that a user has a latest one.
    The same choices on every page and in the address.
    """
    grid = st.grid(4, min_column_width=200)
    cap = widgets.number(
        "Cap on ratings per user",
        "the cap",
        1,
        public.items,
        None,
        "cap",
        place=grid,
        placeholder="no cap",
        help=f"{glossary.help('cap')} They are chosen without a look at their values; test ratings"
        " are not capped.",
    )
    top = widgets.number(
        "Most rated items only",
        "the number of items",
        1,
        public.items,
        None,
        "top_items",
        place=grid,
        placeholder="all items",
        help="Which items are rated most is read off the data without noise: the guarantee then"
        " holds only if that choice is public.",
    )
    threshold = None
    if task is Task.BINARY and (public.low, public.high) != (-1, 1):
        threshold = widgets.number(
            "Like starts at",
            "the threshold",
            public.low,
            public.high,
            None,
            "binarise",
            place=grid,
            placeholder="above the middle",
            help="Ratings from here on become +1, the others -1; left empty, those strictly above"
            " the middle of the range. Neither reads a rating.",
        )
    # Clicks come in time, ratings at any time: each kind has its default, so each has its choice.
    default = "last" if default_split(task) == LeaveLast() else "share"
    holdout = widgets.choose(
        "Held out for testing",
        "the hold-out",
        {
            "share": split_words(str(RandomShare())),
            "last": "each user's latest rating" if timed else "one random rating of each user",
        },
        "holdout" if default == "share" else "ranking_holdout",
        default,
        place=grid,
        help=glossary.help("held_out"),
    )
    requested_steps = ((TopItems, top), (CapPerUser, cap), (Binarise, threshold))
    steps: list[Transform] = [step(value) for step, value in requested_steps if value is not None]
    return steps, LeaveLast() if holdout == "last" else RandomShare()
