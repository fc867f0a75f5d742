"""What each mechanism claims, what is certified, and why the two differ."""

import dataclasses
from typing import Any

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError, sentence
from dpmc_core.privacy import RATING, Change, Guarantee
from dpmc_core.privacy.accounting import attacker_certainty
from dpmc_core.problem import prepared_facts
from dpmc_core.ratings import PublicFacts
from dpmc_core.views import cards
from pages.ui import blocks, shell, sources, state, widgets
from pages.ui.charts import guarantees as charts_guarantees

WAYS = {"data": "of the open data", "typed": "typed in"}
MOST = 10_000_000  # users or items that can be typed in
UNITS = {change.unit: change.label for change in Change}


def page() -> None:
    blocks.heading(
        "What do the promises cover?",
        "Choose epsilon and the public facts; the table shows what each paper claims and what its"
        " releases prove.",
    )
    way = widgets.switch(
        "Public facts",
        "the facts",
        WAYS,
        "facts",
        "data",
        help="Guarantees need no ratings, only what is public: how many users and items there are,"
        " the rating range, and an enforced cap on ratings per user.",
    )
    public, prepared = None, ()
    try:
        if way == "data":
            public, prepared = facts_of_data()
        else:
            public = typed_facts()
    except (DpmcError, OSError) as error:
        blocks.problem(error)
    wide = widgets.wide()
    if public is not None:
        body(public, prepared, wide)


def facts_of_data() -> tuple[PublicFacts, tuple[str, ...]]:
    """Facts of a data set with a cap, and the data-dependent steps behind them in words."""
    left, right = st.columns([3, 1])
    with left:
        ratings = sources.get(sources.pick()).ratings
    public = ratings.public
    cap = capped(public.items, right)
    if cap is not None:
        public = dataclasses.replace(public, cap=min(cap, public.cap or cap))
    st.caption(
        f"{public.users:,} users, {public.items:,} items, ratings {public.low:g} to"
        f" {public.high:g}, " + (f"at most {public.cap} per user." if public.cap else "no cap.")
    )
    return public, ratings.prepared


def typed_facts() -> PublicFacts:
    """Facts without data. Raises DpmcError where they make no sense."""
    columns = st.columns(5)
    users = widgets.number("Users", "the number of users", 1, MOST, 943, "users", place=columns[0])
    items = widgets.number("Items", "the number of items", 1, MOST, 1682, "items", place=columns[1])
    low = widgets.number(
        "Lowest rating", "the lowest rating", None, None, 1.0, "low", place=columns[2], format="%g"
    )
    high = widgets.number(
        "Highest rating",
        "the highest rating",
        None,
        None,
        5.0,
        "high",
        place=columns[3],
        format="%g",
    )
    cap = capped(MOST, columns[4])
    return PublicFacts(users=users, items=items, low=low, high=high, cap=cap)


def capped(items: int, place: Any) -> int | None:
    """The most ratings a user may have; None for no cap."""
    return widgets.number(
        "Cap on ratings per user",
        "the cap",
        1,
        items,
        None,
        "cap",
        place=place,
        placeholder="no cap",
        help="Only where the input is already capped: what makes a row's guarantee finite.",
    )


@st.fragment
def body(public: PublicFacts, prepared: tuple[str, ...], wide: bool) -> None:
    """All that moves with epsilon."""
    epsilon = widgets.epsilon(wide)
    found: dict[str, Guarantee] = {}
    problems: dict[str, DpmcError] = {}  # each is told once
    for id in registry.offered():
        try:
            facts = prepared_facts(public, registry.get(id).task)
            card = registry.create(id, epsilon=epsilon).guarantee(facts)
        except DpmcError as error:
            problems.setdefault(str(error), error)
        else:
            found[id] = card.given(prepared)
    for error in problems.values():
        blocks.problem(error)
    if not found:
        return
    table(found)
    st.header("In words")
    id = widgets.mechanism(list(found))
    left, right = st.columns(2, gap="large")
    with left, st.container(border=True):
        blocks.guarantee(found[id])
    with right:
        certainty(epsilon)
    ledger(found[id])


def table(found: dict[str, Guarantee]) -> None:
    """Claimed beside certified for every mechanism."""
    rows = [cards.card_row(registry.get(id).name, card) for id, card in found.items()]
    blocks.chart(
        charts_guarantees.claimed_and_certified(list(found), rows, state.theme()),
        alt=cards.table_words(rows),
        key="claims",
        caption="On every page: filled is certified, hollow is only claimed. Epsilon as each claim"
        " counts it, so lines of different methods may count different things: the table says"
        " which. An arrow stands for no bound.",
    )
    narrow = {"claimed": 64, "certified": 76, cards.PER_USER: 104}
    columns = {name: st.column_config.TextColumn(width=width) for name, width in narrow.items()}
    columns["mechanism"] = st.column_config.TextColumn(pinned=True, width=138)
    blocks.show_table(
        cards.table(rows)
        | {"mechanism": [cards.SHORT.get(id, registry.get(id).name) for id in found]},
        height="content",
        alt="Claimed and certified epsilon of every mechanism, per rating and per user",
        column_config=columns,
    )
    st.caption(cards.RELATIONS)
    with st.expander("Why they differ, and what to mind", icon=":material/help:"):
        st.markdown(
            "\n".join(
                f"- **{blocks.escape(row.mechanism)}**: {blocks.escape(sentence(row.why))}"
                for row in rows
                if row.why
            )
        )
        st.caption(cards.GLOSSARY)


def certainty(epsilon: float) -> None:
    """What an attacker can at most conclude."""
    grid = widgets.grid(True)
    shares = [attacker_certainty(e) for e in grid]
    blocks.chart(
        charts_guarantees.certainty(grid, shares, epsilon, state.theme()),
        alt=cards.certainty(epsilon),
        key="certainty",
        caption="The most an attacker can be sure of one protected unit, knowing everything else"
        " and starting from a 50/50 guess.",
        table={
            "epsilon": grid,
            "at most sure": [cards.percent(attacker_certainty(e)) for e in grid],
        },
    )


def ledger(card: Guarantee) -> None:
    """Every release of one mechanism with what it costs."""
    st.header("The ledger: every noisy answer it gives")
    unit = widgets.switch("Count the cost", "the unit", UNITS, "unit", RATING.unit)
    change = next(change for change in (card.change, *Change) if change.unit == unit)
    rows = cards.ledger(card, change)
    blocks.show_table(cards.ledger_table(rows), alt="Releases and their cost")
    total = card.certified(change)
    st.markdown(
        f"Together, {UNITS[unit]} ({change.relation}): **epsilon"
        f" {cards.epsilon_text(total.epsilon)}**. {blocks.escape(sentence(total.reason))}"
        + (f" {cards.relations(card)}" if card.change.per_user and total.finite else "")
    )
    st.caption(blocks.escape(f"Claim: {card.source}."))


shell.enter()
page()
