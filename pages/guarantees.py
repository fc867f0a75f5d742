"""What each mechanism claims, what is certified, and why the two differ."""

import dataclasses

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError, sentence
from dpmc_core.privacy import RATING, Change, Guarantee
from dpmc_core.problem import SEED
from dpmc_core.ratings import PublicFacts
from dpmc_lab import glossary
from dpmc_lab.audit.report import record
from dpmc_lab.curves import audits, cards, groups, measurements, trade
from dpmc_lab.curves.audits import Lights
from dpmc_lab.curves.trade import Question
from pages.ui import blocks, shell, sources, stage, state, widgets
from pages.ui.audits import Audited, audit
from pages.ui.charts import guarantees as charts_guarantees
from pages.ui.jobs import Snapshot, look
from pages.ui.text import many

AUDIT = "audit"
CLICKS = "clicks on claims"
MOST = 10_000_000  # users or items that can be typed in
PLANTED = (  # a choice of an older version
    "The link plants a fault. This page no longer does that."
)
FACTS = {"data": "of the open data", "typed": "typed in"}
TYPED: dict[str, tuple[str, str, float]] = {  # facts without data: label, name, usual value
    "users": ("Users", "the number of users", 943),
    "items": ("Items", "the number of items", 1682),
    "low": ("Lowest rating", "the lowest rating", 1.0),
    "high": ("Highest rating", "the highest rating", 5.0),
}
UNITS = {change.unit: change.label for change in Change}


@st.fragment
def page() -> None:
    frame = stage.stage("Which promises hold?")
    state.note_removed("fault", PLANTED)
    with frame.choices:
        data = sources.pick(label_visibility="collapsed")
        picked = st.container(width="content")
        every = widgets.toggle("All methods", "all methods", "every")
        facts = st.popover("Public facts", icon=":material/tune:")
    try:
        with facts:
            wide = widgets.wide()
            public, prepared = facts_of(data)
    except (DpmcError, OSError) as error:
        with frame.figure:
            blocks.problem(error)
        return
    with frame.figure:
        drawn = st.container()
        epsilon = widgets.epsilon(wide)
        made, problems = groups.cards_of(sources.mechanisms(data), public, epsilon)
        for error in problems:
            blocks.problem(error)
    found = {id: card.given(prepared) for id, card in made.items()}
    if not found:
        return
    with picked:
        id = widgets.picker(found)
    note_attack()
    with drawn:
        words = claims(found, id, epsilon, every=every)
    with frame.panel:
        audited = at_hand(found[id], id, epsilon)
    with frame.below:
        blocks.folded(
            "The chart in words and numbers",
            lambda: table(found, words, epsilon),
            key="every claim",
            type="compact",
        )
        if audited is not None:
            report(audited)
        attacker(found[id], id, epsilon)
        ledger(found[id])


def facts_of(data: str) -> tuple[PublicFacts, tuple[str, ...]]:
    """Public facts, and the data-dependent steps behind them. Raises DpmcError, OSError."""
    way = widgets.switch(
        "Public facts", "the facts", FACTS, "facts", "data", help=glossary.help("facts")
    )
    if way == "typed":
        return typed_facts(), ()
    ratings = sources.get(data).ratings
    public = ratings.public
    cap = capped(public.items)
    if cap is not None:
        public = dataclasses.replace(public, cap=min(cap, public.cap or cap))
    st.caption(
        f"{many(public.users, 'user')}, {many(public.items, 'item')}, ratings {public.low:g} to"
        f" {public.high:g}, " + (f"at most {public.cap} per user." if public.cap else "no cap.")
    )
    return public, ratings.prepared


def typed_facts() -> PublicFacts:
    """Facts without data. Raises DpmcError where they make no sense."""
    found = {}
    for key, (label, what, usual) in TYPED.items():
        ends, form = ((1, MOST), "%d") if isinstance(usual, int) else ((None, None), "%g")
        found[key] = widgets.number(label, what, *ends, usual, key, width=130, format=form)
    return PublicFacts(**found, cap=capped(MOST))


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


def claims(found: dict[str, Guarantee], id: str, epsilon: float, *, every: bool) -> str:
    """A line for each mechanism that predicts the same, or for every one, and the same in words.

    A click on one takes it up.
    """
    task = registry.get(id).task
    alike = {one: card for one, card in found.items() if every or registry.get(one).task is task}
    shown, rows = groups.grouped(alike, refuted), rows_of(alike, epsilon)
    st.markdown(
        f"**{groups.summary(shown, epsilon)}.** ○ claimed, ⊗ refuted, ● proved, | measured",
        help=f"{glossary.help('claimed', 'certified', 'measured')} Numbers of different groups"
        " count different things. Methods have the names of their papers, where a strawman is the"
        " plain way that the others improve on.",
    )
    high = 18 * (len(rows) + len(shown))  # pixels in which no two lines touch
    st.html(f"<style>.st-key-figure.st-key-figure {{ --least: {high}px; }}</style>")
    clicks = st.session_state.get(CLICKS, 0)
    key = f"claims {clicks}"  # a new one forgets what was clicked

    def clicked() -> None:
        st.session_state[CLICKS] = clicks + 1
        for point in st.session_state[key].selection.points:
            st.session_state["mechanism"] = point["customdata"][0]

    ticks = {
        one: measurements.as_tick(t)
        for one in rows
        if (t := blocks.measured(one, epsilon)) and t.epsilon == epsilon
    }
    words = cards.table_words(list(rows.values()))
    fig = charts_guarantees.claims(shown, rows, id, ticks)
    blocks.picture(fig, alt=words, key=key, on_select=clicked, selection_mode="points")
    return words


def refuted(id: str) -> bool:
    """Whether an attack found more than a mechanism claims, at any epsilon."""
    return any(map(measurements.refuted, blocks.attacks(id)))


def rows_of(found: dict[str, Guarantee], epsilon: float) -> dict[str, cards.CardRow]:
    return {
        id: cards.card_row(
            registry.short_name(id),
            card,
            refuted=refuted(id),
            measured=tick.measured if tick is not None and tick.epsilon == epsilon else None,
        )
        for id, card in found.items()
        for tick in [blocks.measured(id, epsilon)]
    }


def table(found: dict[str, Guarantee], words: str, epsilon: float) -> None:
    """Claimed beside certified for every mechanism, and why they differ."""
    st.text(words)
    rows = [*rows_of(found, epsilon).values()]
    narrow = {"claimed": 64, "certified": 76, cards.PER_USER: 104}
    columns = {name: st.column_config.TextColumn(width=width) for name, width in narrow.items()}
    columns["mechanism"] = st.column_config.TextColumn(pinned=True, width=138)
    blocks.show_table(
        cards.table(rows),
        height="content",
        alt="Claimed and certified epsilon of every mechanism, per rating and per user",
        column_config=columns,
    )
    st.caption(
        f"{glossary.help('unit', 'rating', 'cell', 'user')} Numbers of different columns cannot be"
        f" compared. {glossary.help('trust', 'notion')}"
    )
    st.markdown("**Why they differ, and what to mind**")
    for row in rows:
        if row.why:
            name, why = blocks.escape(row.mechanism), blocks.escape(sentence(row.why))
            st.markdown(f"- **{name}** ({row.state.word}): {why}")


def at_hand(card: Guarantee, id: str, epsilon: float) -> Audited | None:
    """The mechanism that was picked, and the attempt to refute it: what that has found."""
    own, found = card.certified(), blocks.measured(id, epsilon)
    small, everything = questions(card, id)
    st.markdown(f"**{blocks.escape(small.answer(card))}**", help=glossary.help("attacker"))
    if own.finite:
        st.markdown(blocks.escape(everything.answer(card)))
    st.markdown(cards.protects(card))
    claimed = cards.epsilon_text(card.claimed.epsilon if card.claimed else None)
    told = f"Claimed {claimed}, certified {cards.epsilon_text(own.epsilon)} {card.change.label}"
    if found is not None:
        told += f"; measured at least {cards.epsilon_text(found.measured, least=True)}"
        told += f" at {found.epsilon:g}" * (found.epsilon != epsilon)
    st.caption(f"{told}.")
    against = next(filter(measurements.refuted, reversed(blocks.attacks(id))), None)
    if against is not None:
        st.markdown(f"⊗ **Refuted**: {blocks.escape(measurements.counterexample(against))}.")
    with st.popover("Why?", icon=":material/verified_user:"):
        blocks.guarantee(card, id)
    return attempt(id, epsilon)


def attacker(card: Guarantee, id: str, epsilon: float) -> None:
    """How often the best attacker is right about one unit, here and at other epsilons."""
    st.header("The attacker")
    grid, (question, _) = widgets.grid(True), questions(card, id)
    made = [registry.create(id, epsilon=e).guarantee(card.public) for e in grid]
    shares = [question.right(one) for one in made]
    blocks.chart(
        charts_guarantees.attacker(grid, shares, epsilon),
        alt=question.answer(card),
        key="attacker",
        caption=f"“{question.text}” How often an attacker who asks this is right at most, by what"
        f" {registry.get(id).name} certifies. The attacker knows everything else.",
        table={"epsilon": grid, "right at most (%)": [cards.of_hundred(one) for one in shares]},
    )


def questions(card: Guarantee, id: str) -> tuple[Question, Question]:
    """What is asked about a person, on every page alike."""
    return trade.questions(card, registry.get(id).task, cards.TYPICAL)


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


def attempt(id: str, epsilon: float) -> Audited | None:
    """An audit of the chosen mechanism on small invented ratings."""
    if blocks.reserved("start an audit", "What audits have measured stands on the cards."):
        return None
    mechanism = registry.create(id, epsilon=epsilon)
    about = repr(mechanism)
    job = state.jobs().get(AUDIT)
    if job is not None and job.about != about:
        job = None
    now = look(job)
    if now.active:
        blocks.stop(job, now)
    elif st.button("Try to refute it", type="primary", icon=":material/policy:"):
        state.jobs().start(AUDIT, audit(mechanism, SEED), about=about)
        st.rerun()
    blocks.ticking(job, now, found_so_far)
    return now.result or now.shown


def found_so_far(now: Snapshot) -> None:
    """How far an audit is, and its verdict."""
    blocks.progress_or_problem(now)
    found: Audited | None = now.result or now.shown
    if found is not None:
        st.markdown(f"**{blocks.escape(audits.verdict(found.report))}** The details are below.")


def note_attack() -> None:
    """Keep what the last attack found, so that panel, chart and table show it at once."""
    now = look(state.jobs().get(AUDIT))
    found: Audited | None = now.result or now.shown
    if found is not None and found.report.valid:
        kept = st.session_state.setdefault(blocks.ATTACKS, {})
        last = record(found.report)
        kept.pop((last.mechanism, last.epsilon), None)
        kept[last.mechanism, last.epsilon] = last


def report(found: Audited) -> None:
    """What an audit has measured, by each way to look."""
    report = found.report
    st.header("What the attempt found", help=glossary.help("measured"))
    st.subheader(audits.verdict(report), anchor=False)
    left, right = st.columns([3, 2], gap="large")
    with left:
        blocks.chart(
            charts_guarantees.audit(report, measurements.METHODS),
            alt=audits.verdict(report),
            key="audit",
            caption=f"Small invented ratings, {report.runs} runs, seed {report.seed}; what is"
            " bounded is an epsilon from below. The command dpmc audit does the same.",
            table=audits.table(report),
        )
    with right:
        for one in report.findings:
            words = audits.finding(one, report.change)
            st.markdown(f"**{measurements.METHODS[one.method]}.** {blocks.escape(words)}")
        for method, why in report.skipped:
            st.caption(f"{measurements.METHODS[method]} does not apply: {blocks.escape(why)}.")
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
        charts_guarantees.lights(found),
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
