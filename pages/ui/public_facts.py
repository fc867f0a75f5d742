"""Public facts without data: the sizes, range and cap a guarantee needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.privacy import Guarantee
from dpmc_core.problem import prepared_facts
from dpmc_core.ratings import PublicFacts
from pages.ui import blocks, sources, state

_WAYS = {"data": "of the open data", "typed": "typed in"}


class Facts(NamedTuple):
    """Public facts, and data-dependent steps behind them in words."""

    public: PublicFacts
    prepared: tuple[str, ...]

    def cards(
        self, ids: Sequence[str], epsilon: float
    ) -> tuple[dict[str, Guarantee], list[DpmcError]]:
        """The card of every mechanism these facts allow, and why others are not, each once."""
        found: dict[str, Guarantee] = {}
        problems: dict[str, DpmcError] = {}
        for id in ids:
            try:
                public = prepared_facts(self.public, registry.get(id).task)
                card = registry.create(id, epsilon=epsilon).guarantee(public)
            except DpmcError as error:
                problems.setdefault(str(error), error)
            else:
                found[id] = card.given(self.prepared)
        return found, list(problems.values())


def controls() -> Facts | None:
    """Facts of a data set, or typed in; None where they make no sense (a sentence says why)."""
    state.from_link("facts", "the facts", _WAYS, "data")
    way = st.segmented_control(
        "Public facts",
        list(_WAYS),
        default="data",
        required=True,
        format_func=_WAYS.__getitem__,
        key="facts",
        bind="query-params",
        help="Guarantees need no ratings, only what is public: how many users and items there are,"
        " the rating range, and an enforced cap on ratings per user.",
    )
    try:
        return _of_data() if way == "data" else Facts(_typed(), ())
    except (DpmcError, OSError) as error:
        blocks.problem(error)
        return None


def _of_data() -> Facts:
    left, right = st.columns([3, 1])
    with left:
        ratings = sources.get(sources.pick()).ratings
    cap = _cap(right, ratings.public.items)
    public = ratings.public
    if cap is not None:
        public = dataclasses.replace(public, cap=min(cap, public.cap or cap))
    st.caption(
        f"{public.users:,} users, {public.items:,} items, ratings {public.low:g} to"
        f" {public.high:g}, " + (f"at most {public.cap} per user." if public.cap else "no cap.")
    )
    return Facts(public, ratings.prepared)


def _typed() -> PublicFacts:
    columns = st.columns(5)
    users = _whole(columns[0], "Users", 943, "users")
    items = _whole(columns[1], "Items", 1682, "items")
    low = columns[2].number_input(
        "Lowest rating", value=1.0, format="%g", key="low", bind="query-params"
    )
    high = columns[3].number_input(
        "Highest rating", value=5.0, format="%g", key="high", bind="query-params"
    )
    cap = _cap(columns[4], 10_000_000)
    return PublicFacts(users=users, items=items, low=low, high=high, cap=cap)


def _whole(place: st.delta_generator.DeltaGenerator, label: str, default: int, key: str) -> int:
    state.number_from_link(key, f"the number of {key}", 1, 10_000_000)
    return int(place.number_input(label, 1, 10_000_000, default, key=key, bind="query-params"))


def _cap(place: st.delta_generator.DeltaGenerator, items: int) -> int | None:
    state.number_from_link("cap", "the cap", 1, items)
    return place.number_input(
        "Cap on ratings per user",
        1,
        items,
        None,
        placeholder="no cap",
        key="cap",
        bind="query-params",
        help="Only where the input is already capped: what makes a row's guarantee finite.",
    )
