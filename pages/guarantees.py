"""What each mechanism claims, what is certified, and why the two differ."""

import dataclasses
import html
from collections.abc import Callable

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError, sentence
from dpmc_core.lab.refute import small_data
from dpmc_core.lab.refute.faults import Flaw, faults_of
from dpmc_core.lab.teach import glossary
from dpmc_core.lab.views import audits, cards, groups
from dpmc_core.lab.views.groups import Choice, Group
from dpmc_core.lab.views.lights import Lights
from dpmc_core.privacy import RATING, Change, Guarantee
from dpmc_core.problem import SEED
from dpmc_core.ratings import PublicFacts
from pages.ui import blocks, runs, shell, sources, state, widgets
from pages.ui.charts import guarantees as charts_guarantees
from pages.ui.charts import shaded, style
from pages.ui.jobs import Snapshot, look
from pages.ui.runs import Audited

AUDIT = "audit"
WAYS = {"data": "of the open data", "typed": "typed in"}
MOST = 10_000_000  # users or items that can be typed in
UNITS = {change.unit: change.label for change in Change}
# On a narrow screen the cells lie beneath each other, each under its own title.
LOOK = """<style>
.promises { width: 100%; border-collapse: collapse; font-size: 0.875rem; line-height: 1.4; }
.promises th { text-align: left; font-weight: 600; vertical-align: top; }
.promises :is(th, td) { padding: 0.25rem 0.9rem 0.25rem 0; vertical-align: top; }
.promises tr { border-top: 1px solid rgba(128, 128, 128, 0.35); }
.promises thead tr { border: 0; }
.promises th:nth-child(3) { width: 40%; }
.promises em { font-style: normal; opacity: 0.8; margin-right: 0.3rem; }
.promises .title { display: none; font-weight: 600; }
.promises .one { white-space: nowrap; margin-right: 0.5rem; }
.promises i { display: inline-block; width: 0.7em; height: 0.7em; border-radius: 50%;
  border: 2px solid var(--dot); background: var(--dot); margin-right: 0.25em; }
.promises i.open { background: transparent; }
@media (max-width: 700px) {
  .promises :is(thead, th, td:empty) { display: none; }
  .promises :is(tbody, tr, td) { display: block; }
  .promises .title { display: block; }
}
</style>"""


@st.fragment
def page() -> None:
    first, choices, seen = st.container(), st.container(), st.container()
    with choices, st.container(horizontal=True, vertical_alignment="bottom"):
        way = widgets.switch(
            "Public facts",
            "the facts",
            WAYS,
            "facts",
            "data",
            help=glossary.help("facts"),
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
    epsilon = widgets.epsilon(wide)
    found: dict[str, Guarantee] = {}
    if public is not None:
        cards_found, problems = groups.cards_of(registry.offered(), public, epsilon)
        found = {id: card.given(prepared) for id, card in cards_found.items()}
        for error in problems:
            blocks.problem(error)
    placed = groups.grouped(found)
    with first:
        blocks.heading(
            groups.summary(placed, epsilon) if found else "What do the promises cover?",
            "A row says what is protected, a column from whom, a line what is published: ● proved,"
            " ○ only claimed.",
        )
    if public is None or not found:
        return
    with seen:
        st.html(in_one_look(placed))
        st.caption(
            f"For {public.users:,} users, {public.items:,} items, ratings {public.low:g} to"
            f" {public.high:g}, " + (f"at most {public.cap} per user." if public.cap else "no cap.")
        )
    body(found, epsilon)


def in_one_look(placed: tuple[Group, ...]) -> str:
    """What is protected x whom one trusts, with what is published, as a table of HTML."""
    trusts = list(dict.fromkeys(group.trust for group in sorted(placed, key=lambda g: g.rank)))
    cells = {(group.protects, group.trust): group for group in placed}
    head = "".join(f'<th scope="col">{html.escape(trust)}</th>' for trust in trusts)
    rows = ""
    for protects in dict.fromkeys(group.protects for group in placed):
        rows += f'<tr><th scope="row">{html.escape(protects)}</th>'
        for trust in trusts:
            group = cells.get((protects, trust))
            rows += "<td></td>" if group is None else f"<td>{cell(group)}</td>"
        rows += "</tr>"
    return (
        f'{LOOK}<table class="promises"><thead><tr><th scope="col">Protected</th>{head}</tr>'
        f"</thead><tbody>{rows}</tbody></table>"
    )


def cell(group: Group) -> str:
    """One group: a line for each thing published, a dot for each mechanism."""
    lines: dict[str, list[Choice]] = {}
    for choice in group.choices:
        lines.setdefault(choice.publishes, []).append(choice)
    parts = [f'<div class="title">{html.escape(group.title)}</div>']
    for publishes, choices in lines.items():
        dots = " ".join(
            f'<span class="one"><i class="{"" if choice.upheld else "open"}"'
            f' style="--dot: {shaded(style(choice.id).color, state.theme())}" role="img"'
            f' aria-label="{"proved" if choice.upheld else "only claimed"}"></i>'
            f"{html.escape(registry.short_name(choice.id))}</span>"
            for choice in choices
        )
        parts.append(f"<div><em>{html.escape(publishes)}</em> {dots}</div>")
    return "".join(parts)


def facts_of_data() -> tuple[PublicFacts, tuple[str, ...]]:
    """Facts of a data set with a cap, and the data-dependent steps behind them in words."""
    ratings = sources.get(sources.pick()).ratings
    public = ratings.public
    cap = capped(public.items)
    if cap is not None:
        public = dataclasses.replace(public, cap=min(cap, public.cap or cap))
    return public, ratings.prepared


def typed_facts() -> PublicFacts:
    """Facts without data. Raises DpmcError where they make no sense."""
    one = {"width": 130}
    users = widgets.number("Users", "the number of users", 1, MOST, 943, "users", **one)
    items = widgets.number("Items", "the number of items", 1, MOST, 1682, "items", **one)
    one["format"] = "%g"
    low = widgets.number("Lowest rating", "the lowest rating", None, None, 1.0, "low", **one)
    high = widgets.number("Highest rating", "the highest rating", None, None, 5.0, "high", **one)
    return PublicFacts(users=users, items=items, low=low, high=high, cap=capped(MOST))


def capped(items: int) -> int | None:
    """The most ratings a user may have; None for no cap."""
    return widgets.number(
        "Cap on ratings per user",
        "the cap",
        1,
        items,
        None,
        "cap",
        width=200,
        placeholder="no cap",
        help=f"{glossary.help('cap')} Only where the input is already capped.",
    )


def body(found: dict[str, Guarantee], epsilon: float) -> None:
    """One card in words, all claims in numbers, and what one mechanism releases."""
    st.header("One promise in words", help=glossary.help("claimed", "certified"))
    id = widgets.picker(found)
    left, right = st.columns(2, gap="large")
    with left, st.container(border=True):
        blocks.guarantee(found[id], id)
    with right:
        attacker(found[id], id, epsilon)
    ledger(found[id])
    attempt(id, epsilon)
    every = st.expander(
        "Every claim beside what is proved",
        icon=":material/table:",
        key="every claim",
        on_change="rerun",
    )
    if every.open:
        with every:
            table(found, epsilon)


def measured_at(epsilon: float) -> Callable[[str], audits.Tick | None]:
    """What ships of mechanisms at this epsilon."""

    def measured(id: str) -> audits.Tick | None:
        found = audits.shipped_of(id)
        return None if found is None or found.epsilon != epsilon else audits.as_tick(found)

    return measured


def table(found: dict[str, Guarantee], epsilon: float) -> None:
    """Claimed beside certified for every mechanism, in the order of the groups."""
    order = [choice.id for group in groups.grouped(found) for choice in group.choices]
    rows = [cards.card_row(registry.get(id).name, found[id]) for id in order]
    narrow = {"claimed": 64, "certified": 76, cards.PER_USER: 104}
    columns = {name: st.column_config.TextColumn(width=width) for name, width in narrow.items()}
    columns["mechanism"] = st.column_config.TextColumn(pinned=True, width=138)
    blocks.show_table(
        cards.table(rows) | {"mechanism": [registry.short_name(id) for id in order]},
        height="content",
        alt="Claimed and certified epsilon of every mechanism, per rating and per user",
        column_config=columns,
    )
    st.caption(
        f"{glossary.help('unit', 'rating', 'cell', 'user')} Numbers of different columns cannot be"
        " compared."
    )
    blocks.picture(
        charts_guarantees.claimed_and_certified(order, rows, state.theme(), measured_at(epsilon)),
        alt=cards.table_words(rows),
        key="claims",
    )
    st.caption(
        "Filled is certified, hollow only claimed; a tick is measured: it is at least that, by an"
        " audit of small invented data at epsilon 1. Epsilon as each claim counts it: lines of"
        " different methods may count different things. An arrow stands for no bound."
    )
    st.markdown("**Why they differ, and what to mind**")
    st.markdown(
        "\n".join(
            f"- **{blocks.escape(row.mechanism)}**: {blocks.escape(sentence(row.why))}"
            for row in rows
            if row.why
        )
    )
    st.caption(glossary.help("trust", "notion"))


def attacker(card: Guarantee, id: str, epsilon: float) -> None:
    """How often the best attacker is right about the card's unit, here and at other epsilons."""
    grid = widgets.grid(True)
    made = [registry.create(id, epsilon=e).guarantee(card.public) for e in grid]
    shares = [one.attacker() for one in made]
    blocks.chart(
        charts_guarantees.attacker(grid, shares, epsilon, state.theme()),
        alt=cards.attacker(card),
        key="attacker",
        caption="How often the best attacker is right at most, of two equally likely cases that"
        f" differ in {card.change.protects}: what {registry.get(id).name} certifies.",
        table={"epsilon": grid, "right in 100": [cards.of_hundred(share) for share in shares]},
    )


def ledger(card: Guarantee) -> None:
    """Every release of one mechanism with what it costs."""
    st.header("The ledger: every noisy answer it gives", help=glossary.help("composition"))
    unit = widgets.switch(
        "Count the cost", "the unit", UNITS, "unit", RATING.unit, help=glossary.help("unit")
    )
    change = next(change for change in (card.change, *Change) if change.unit == unit)
    rows = cards.ledger(card, change)
    blocks.show_table(cards.ledger_table(rows), alt="Releases and their cost")
    total = card.certified(change)
    whole = cards.budget_text(total.epsilon, total.delta)
    st.markdown(
        f"Together, {UNITS[unit]} ({change.relation}): **epsilon"
        f" {whole}**. {blocks.escape(sentence(total.reason))}"
        f" For one person: {blocks.escape(sentence(cards.person(card)))}"
    )
    st.caption(blocks.escape(f"Claim: {card.source}."))


# --- the attempt to refute it ------------------------------------------------------------------


def attempt(id: str, epsilon: float) -> None:
    """An audit of the chosen mechanism on small invented ratings, or of a copy with a fault."""
    st.header("Try to refute this claim", help=glossary.help("measured"))
    if blocks.reserved("start an audit", "What audits have measured stands on the cards."):
        return
    mechanism = registry.create(id, epsilon=epsilon)
    offered = faults_of(mechanism, small_data(mechanism).public)
    names = {"none": "No fault", **{flaw.value: audits.FLAWS[flaw] for flaw in offered}}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = widgets.switch(
            "Plant a fault in a copy",
            "the fault",
            names,
            "fault",
            "none",
            help="Would the audit notice? The copy is never published.",
        )
        flaw = None if name == "none" else Flaw(name)
        about = f"{mechanism!r} {name}"
        job = state.jobs().get(AUDIT)
        if job is not None and job.about != about:
            job = None
        now = look(job)
        if blocks.start_and_stop(job, now, "Try to refute it", ":material/policy:"):
            state.jobs().start(AUDIT, runs.audit(mechanism, flaw, SEED), about=about)
            st.rerun()
    blocks.ticking(job, now, found_so_far)


def found_so_far(now: Snapshot) -> None:
    """The report of an audit, as far as it is."""
    blocks.progress_or_problem(now)
    found: Audited | None = now.result or now.shown
    if found is None:
        return
    report = found.report
    st.subheader(audits.verdict(report), anchor=False)
    if report.flaw is not None:
        st.markdown(audits.noticed(report))
    left, right = st.columns([3, 2], gap="large")
    with left:
        blocks.chart(
            charts_guarantees.audit(report, audits.METHODS, state.theme()),
            alt=audits.verdict(report),
            key="audit",
            caption=f"Small invented ratings, {report.runs} runs, seed {report.seed}; what is"
            " bounded is an epsilon from below. The command dpmc audit does the same.",
            table=audits.table(report),
        )
    with right:
        for one in report.findings:
            words = audits.finding(one, report.change)
            st.markdown(f"**{audits.METHODS[one.method]}.** {blocks.escape(words)}")
        for method, why in report.skipped:
            st.caption(f"{audits.METHODS[method]} does not apply: {blocks.escape(why)}.")
    if found.lights is not None:
        lit(found.lights)


def lit(found: Lights) -> None:
    """What one rating moves in the matrix that output perturbation publishes."""
    said = (
        f"One rating moves {found.cells:,} cells, by {found.total:.3g} together; the proof allows"
        f" {found.allowed:g}"
    )
    st.subheader(said, anchor=False)
    blocks.picture(
        charts_guarantees.lights(found, state.theme()),
        alt=said,
        key="lights",
    )
    st.caption(
        "The matrix before its noise, 40 users and 400 items, with and without the rating that"
        " changed; so no smaller epsilon than"
        f" {cards.epsilon_text(found.epsilon)} holds where {found.claimed:g} is claimed."
    )


shell.enter()
page()
