"""Preparation and hold-out controls: what happens to ratings before a mechanism meets them."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from dpmc_core.data.transforms import Binarise, CapPerUser, TopItems, Transform
from dpmc_core.model import Task
from dpmc_core.problem import LeaveLast, RandomShare, Split, default_split, split_words
from dpmc_core.ratings import PublicFacts
from pages.ui import state


class Prepared(NamedTuple):
    """The chosen steps, in order, and the hold-out."""

    steps: tuple[Transform, ...]
    split: Split


_SPLITS = {"share": split_words(str(RandomShare())), "last": "each user's latest rating"}


def controls(public: PublicFacts, task: Task) -> Prepared:
    """The same choices on every page and in the address; each step says what it does to privacy."""
    columns = st.columns(4)
    for key, what, low, high in (
        ("cap", "the cap", 1, public.items),
        ("top_items", "the number of items", 1, public.items),
        ("binarise", "the threshold", public.low, public.high),
    ):
        state.number_from_link(key, what, low, high)
        now = st.session_state.get(key)
        if now is not None and not low <= now <= high:  # chosen for other data
            st.session_state[key] = None
    cap = columns[0].number_input(
        "Cap on ratings per user",
        1,
        public.items,
        None,
        placeholder="no cap",
        key="cap",
        bind="query-params",
        help="Keep at most this many ratings of each person, chosen without looking at their"
        " values. It bounds what one person can reveal: a guarantee for k ratings is k times the"
        " one for a single rating. Test ratings are not capped.",
    )
    top = columns[1].number_input(
        "Most rated items only",
        1,
        public.items,
        None,
        placeholder="all items",
        key="top_items",
        bind="query-params",
        help="Which items are rated most is read off the data without noise: the guarantee then"
        " holds only if that choice is public.",
    )
    threshold = None
    if task is Task.BINARY and (public.low, public.high) != (-1, 1):
        threshold = columns[2].number_input(
            "Like starts at",
            public.low,
            public.high,
            None,
            placeholder="the mean",
            key="binarise",
            bind="query-params",
            help="Ratings from here on become +1, the others -1. A number chosen beforehand costs"
            " nothing; the mean is read off the data without noise, and the guarantee then holds"
            " only if it is public.",
        )
    # Clicks come in time, ratings at any time: each kind has its default, so each has its choice.
    default = "last" if default_split(task) == LeaveLast() else "share"
    key = "holdout" if default == "share" else "ranking_holdout"
    state.from_link(key, "the hold-out", _SPLITS, default)
    held = columns[3].selectbox(
        "Held out for testing",
        list(_SPLITS),
        index=list(_SPLITS).index(default),
        format_func=_SPLITS.__getitem__,
        key=key,
        bind="query-params",
        help="These ratings are never trained on; the metrics are measured on them.",
    )
    steps: list[Transform] = []
    if top is not None:
        steps.append(TopItems(top))
    if cap is not None:
        steps.append(CapPerUser(cap))
    if threshold is not None:
        steps.append(Binarise(threshold))
    return Prepared(tuple(steps), LeaveLast() if held == "last" else RandomShare())
