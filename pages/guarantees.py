"""What each mechanism claims, what is certified, and why the two differ."""

import streamlit as st

from dpmc_core import curves, registry
from dpmc_core.privacy import RATING, Change, Guarantee
from dpmc_core.privacy.accounting import attacker_certainty
from dpmc_core.views import cards
from pages.ui import blocks, charts_guarantees, public_facts, shell, state, widgets

UNITS = {change.unit: change.label for change in Change}


def page() -> None:
    blocks.heading(
        "What do the promises cover?",
        "Choose epsilon and the public facts; the table shows what each paper claims and what its"
        " releases prove.",
    )
    facts = public_facts.controls()
    wide = widgets.wide()
    if facts is not None:
        body(facts, wide)


@st.fragment
def body(facts: public_facts.Facts, wide: bool) -> None:
    """All that moves with epsilon."""
    epsilon = widgets.epsilon(wide, link={})
    found, problems = facts.cards(curves.offered(), epsilon)
    for error in problems:
        blocks.problem(error)
    if not found:
        return
    table(found)
    st.subheader("In words")
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
    st.dataframe(
        cards.table(rows)
        | {"mechanism": [cards.SHORT.get(id, registry.get(id).name) for id in found]},
        hide_index=True,
        height="content",
        alt="Claimed and certified epsilon of every mechanism, per rating and per user",
        column_config=columns,
    )
    st.caption(cards.RELATIONS)
    with st.expander("Why they differ, and what to mind", icon=":material/help:"):
        st.markdown(
            "\n".join(
                f"- **{blocks.escape(row.mechanism)}**: {blocks.escape(blocks.sentence(row.why))}"
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
    st.subheader("The ledger: every noisy answer it gives")
    state.from_link("unit", "the unit", UNITS, RATING.unit)
    unit = st.segmented_control(
        "Count the cost",
        list(UNITS),
        default=RATING.unit,
        required=True,
        format_func=UNITS.__getitem__,
        key="unit",
        bind="query-params",
    )
    change = next(change for change in (card.change, *Change) if change.unit == unit)
    rows = cards.ledger(card, change)
    st.dataframe(cards.ledger_table(rows), hide_index=True, alt="Releases and their cost")
    total = card.certified(change)
    st.markdown(
        f"Together, {UNITS[unit]} ({change.relation}): **epsilon"
        f" {cards.epsilon_text(total.epsilon)}**. {blocks.escape(blocks.sentence(total.reason))}"
        + (f" {cards.relations(card)}" if card.change.per_user and total.finite else "")
    )
    st.caption(blocks.escape(f"Claim: {card.source}."))


shell.enter()
page()
