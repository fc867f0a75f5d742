"""What each mechanism claims, what is certified, and why the two differ."""

import dataclasses

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError, format_sentence
from dpmc_core.privacy import RATING, Change, Guarantee
from dpmc_core.problem import DEFAULT_SEED
from dpmc_core.ratings import PublicFacts
from dpmc_lab import glossary
from dpmc_lab.audit.report import build_measured_bound
from dpmc_lab.curves import audits, cards, groups, measurements, trade
from dpmc_lab.curves.audits import RatingInfluence
from dpmc_lab.curves.trade import AttackerQuestion
from pages.ui import blocks, shell, sources, stage, state, widgets
from pages.ui.audits import Audited, make_audit_work
from pages.ui.charts import guarantees as charts_guarantees
from pages.ui.jobs import Snapshot, get_snapshot
from pages.ui.text import format_count

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
    frame = stage.lay_out_stage("Which promises hold?")
    state.note_removed("fault", PLANTED)
    with frame.choices:
        data = sources.choose_data(label_visibility="collapsed")
        picked = st.container(width="content")
        every = widgets.choose_toggle("All methods", "all methods", "every")
        facts = st.popover("Public facts", icon=":material/tune:")
    try:
        with facts:
            wide = widgets.choose_wide_range()
            public, prepared = facts_of(data)
    except (DpmcError, OSError) as error:
        with frame.figure:
            blocks.show_error(error)
        return
    with frame.figure:
        drawn = stage.reserve_figure()
        epsilon = widgets.show_epsilon_slider(wide)
        made, problems = groups.build_guarantees(
            sources.list_available_mechanisms(data), public, epsilon
        )
        for error in problems:
            blocks.show_error(error)
    found = {id: card.with_preparation(prepared) for id, card in made.items()}
    if not found:
        return
    with picked:
        id = widgets.choose_by_guarantee(found)
    note_attack()
    with drawn:
        words = claims(found, id, epsilon, every=every)
    with frame.panel:
        audited = at_hand(found[id], id, epsilon)
    with frame.details:
        blocks.show_expander(
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
    way = widgets.choose_segment(
        "Public facts", "the facts", FACTS, "facts", "data", help=glossary.explain_terms("facts")
    )
    if way == "typed":
        return typed_facts(), ()
    ratings = sources.get_dataset(data).ratings
    public = ratings.public
    cap = capped(public.items)
    if cap is not None:
        public = dataclasses.replace(public, cap=min(cap, public.cap or cap))
    st.caption(
        f"{format_count(public.users, 'user')}, {format_count(public.items, 'item')}, ratings"
        f" {public.low:g} to"
        f" {public.high:g}, " + (f"at most {public.cap} per user." if public.cap else "no cap.")
    )
    return public, ratings.prepared


def typed_facts() -> PublicFacts:
    """Facts without data. Raises DpmcError where they make no sense."""
    found = {}
    for key, (label, what, usual) in TYPED.items():
        ends, form = ((1, MOST), "%d") if isinstance(usual, int) else ((None, None), "%g")
        found[key] = widgets.choose_number(label, what, *ends, usual, key, width=130, format=form)
    return PublicFacts(**found, cap=capped(MOST))


def capped(items: int) -> int | None:
    """The most ratings a user may have; None for no cap."""
    return widgets.choose_number(
        "Cap on ratings per user",
        "the cap",
        1,
        items,
        None,
        "cap",
        width=200,
        placeholder="no cap",
        help=f"{glossary.explain_terms('cap')} Only where the input is already capped.",
    )


def claims(found: dict[str, Guarantee], id: str, epsilon: float, *, every: bool) -> str:
    """A line for each mechanism that predicts the same, or for every one, and the same in words.

    A click on one takes it up.
    """
    task = registry.get_mechanism(id).task
    alike = {
        one: card
        for one, card in found.items()
        if every or registry.get_mechanism(one).task is task
    }
    shown, rows = groups.group_mechanisms(alike, refuted), rows_of(alike, epsilon)
    st.markdown(
        f"**{groups.describe_claim_states(shown, epsilon)}.** ○ claimed, ⊗ refuted, ● proved, |"
        " measured",
        help=f"{glossary.explain_terms('claimed', 'certified', 'measured')} Numbers of different"
        " groups"
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
        one: measurements.build_measured_point(t)
        for one in rows
        if (t := blocks.find_measurement(one, epsilon)) and t.epsilon == epsilon
    }
    words = cards.describe_guarantees(list(rows.values()))
    fig = charts_guarantees.plot_claims(shown, rows, id, ticks)
    blocks.show_figure(fig, alt=words, key=key, on_select=clicked, selection_mode="points")
    return words


def refuted(id: str) -> bool:
    """Whether an attack found more than a mechanism claims, at any epsilon."""
    return any(map(measurements.is_refuted, blocks.list_attacks(id)))


def rows_of(found: dict[str, Guarantee], epsilon: float) -> dict[str, cards.GuaranteeRow]:
    return {
        id: cards.build_guarantee_row(
            registry.get_short_name(id),
            card,
            refuted=refuted(id),
            measured=tick.measured if tick is not None and tick.epsilon == epsilon else None,
        )
        for id, card in found.items()
        for tick in [blocks.find_measurement(id, epsilon)]
    }


def table(found: dict[str, Guarantee], words: str, epsilon: float) -> None:
    """Claimed beside certified for every mechanism, and why they differ."""
    st.text(words)
    rows = [*rows_of(found, epsilon).values()]
    narrow = {"claimed": 64, "certified": 76, cards.PER_USER: 104}
    columns = {name: st.column_config.TextColumn(width=width) for name, width in narrow.items()}
    columns["mechanism"] = st.column_config.TextColumn(pinned=True, width=138)
    blocks.show_table(
        cards.tabulate_guarantees(rows),
        height="content",
        alt="Claimed and certified epsilon of every mechanism, per rating and per user",
        column_config=columns,
    )
    st.caption(
        f"{glossary.explain_terms('unit', 'rating', 'cell', 'user')} Numbers of different columns"
        " cannot be"
        f" compared. {glossary.explain_terms('trust', 'notion')}"
    )
    st.markdown("**Why they differ, and what to mind**")
    for row in rows:
        if row.reason:
            name, why = blocks.escape(row.mechanism), blocks.escape(format_sentence(row.reason))
            st.markdown(f"- **{name}** ({row.state.word}): {why}")


def at_hand(card: Guarantee, id: str, epsilon: float) -> Audited | None:
    """The mechanism that was picked, and the attempt to refute it: what that has found."""
    own, found = card.certified(), blocks.find_measurement(id, epsilon)
    small, everything = questions(card, id)
    st.markdown(
        f"**{blocks.escape(small.describe_answer(card))}**", help=glossary.explain_terms("attacker")
    )
    if own.finite:
        st.markdown(blocks.escape(everything.describe_answer(card)))
    st.markdown(cards.describe_protection(card))
    claimed = cards.format_epsilon(card.claimed.epsilon if card.claimed else None)
    told = f"Claimed {claimed}, certified {cards.format_epsilon(own.epsilon)} {card.change.label}"
    if found is not None:
        told += f"; measured at least {cards.format_epsilon(found.measured, round_down=True)}"
        told += f" at {found.epsilon:g}" * (found.epsilon != epsilon)
    st.caption(f"{told}.")
    against = next(filter(measurements.is_refuted, reversed(blocks.list_attacks(id))), None)
    if against is not None:
        st.markdown(
            f"⊗ **Refuted**: {blocks.escape(measurements.describe_counterexample(against))}."
        )
    with st.popover("Why?", icon=":material/verified_user:"):
        blocks.show_guarantee(card, id)
    return attempt(id, epsilon)


def attacker(card: Guarantee, id: str, epsilon: float) -> None:
    """How often the best attacker is right about one unit, here and at other epsilons."""
    st.header("The attacker")
    grid, (question, _) = widgets.list_epsilons(True), questions(card, id)
    made = [registry.create(id, epsilon=e).guarantee(card.public) for e in grid]
    shares = [question.success_rate(one) for one in made]
    blocks.show_chart(
        charts_guarantees.plot_attacker_success(grid, shares, epsilon),
        alt=question.describe_answer(card),
        key="attacker",
        caption=f"“{question.text}” How often an attacker who asks this is right at most, by what"
        f" {registry.get_mechanism(id).name} certifies. The attacker knows everything else.",
        table={
            "epsilon": grid,
            "right at most (%)": [cards.format_limit_percent(one) for one in shares],
        },
    )


def questions(card: Guarantee, id: str) -> tuple[AttackerQuestion, AttackerQuestion]:
    """What is asked about a person, on every page alike."""
    return trade.list_questions(card, registry.get_mechanism(id).task, cards.TYPICAL_RATINGS)


def ledger(card: Guarantee) -> None:
    """Every release of one mechanism with what it costs."""
    st.header("The ledger: every noisy answer it gives", help=glossary.explain_terms("composition"))
    unit = widgets.choose_segment(
        "Count the cost",
        "the unit",
        UNITS,
        "unit",
        RATING.unit,
        help=glossary.explain_terms("unit"),
    )
    change = next(change for change in (card.change, *Change) if change.unit == unit)
    rows = cards.build_ledger(card, change)
    blocks.show_table(cards.tabulate_ledger(rows), alt="Releases and their cost")
    total = card.certified(change)
    whole = cards.format_budget(total.epsilon, total.delta)
    st.markdown(
        f"Together, {UNITS[unit]} ({change.relation}): **epsilon"
        f" {whole}**. {blocks.escape(format_sentence(total.reason))}"
        f" For one person: {blocks.escape(format_sentence(cards.describe_person_guarantee(card)))}"
    )
    st.caption(blocks.escape(f"Claim: {card.source}."))


# --- the attempt to refute it ------------------------------------------------------------------


def attempt(id: str, epsilon: float) -> Audited | None:
    """An audit of the chosen mechanism on small invented ratings."""
    if blocks.is_reserved_for_teacher(
        "start an audit", "What audits have measured stands on the cards."
    ):
        return None
    mechanism = registry.create(id, epsilon=epsilon)
    about = repr(mechanism)
    job = state.get_jobs().get(AUDIT)
    if job is not None and job.data_id != about:
        job = None
    now = get_snapshot(job)
    if now.active:
        blocks.show_stop_button(job, now)
    elif st.button("Try to refute it", type="primary", icon=":material/policy:"):
        state.get_jobs().start(AUDIT, make_audit_work(mechanism, DEFAULT_SEED), data_id=about)
        st.rerun()
    blocks.poll_job(job, now, found_so_far)
    return now.result or now.display


def found_so_far(now: Snapshot) -> None:
    """How far an audit is, and its verdict."""
    blocks.show_job_progress(now)
    found: Audited | None = now.result or now.display
    if found is not None:
        st.markdown(
            f"**{blocks.escape(audits.describe_audit(found.report))}** The details are below."
        )


def note_attack() -> None:
    """Keep what the last attack found, so that panel, chart and table show it at once."""
    now = get_snapshot(state.get_jobs().get(AUDIT))
    found: Audited | None = now.result or now.display
    if found is not None and found.report.valid:
        kept = st.session_state.setdefault(blocks.ATTACKS, {})
        last = build_measured_bound(found.report)
        kept.pop((last.mechanism, last.epsilon), None)
        kept[last.mechanism, last.epsilon] = last


def report(found: Audited) -> None:
    """What an audit has measured, by each way to look."""
    report = found.report
    st.header("What the attempt found", help=glossary.explain_terms("measured"))
    st.subheader(audits.describe_audit(report), anchor=False)
    left, right = st.columns([3, 2], gap="large")
    with left:
        blocks.show_chart(
            charts_guarantees.plot_audit(report, measurements.METHOD_LABELS),
            alt=audits.describe_audit(report),
            key="audit",
            caption=f"Small invented ratings, {report.runs} runs, seed {report.seed}; what is"
            " bounded is an epsilon from below. The command dpmc audit does the same.",
            table=audits.tabulate_audit(report),
        )
    with right:
        for one in report.findings:
            words = audits.describe_finding(one, report.change)
            st.markdown(f"**{measurements.METHOD_LABELS[one.method]}.** {blocks.escape(words)}")
        for method, why in report.skipped:
            st.caption(
                f"{measurements.METHOD_LABELS[method]} does not apply: {blocks.escape(why)}."
            )
    if found.lights is not None:
        lit(found.lights)


def lit(found: RatingInfluence) -> None:
    """What one rating moves in the matrix that output perturbation publishes."""
    said = (
        f"One rating moves {found.cells:,} cells, by {found.total:.3g} together; the proof allows"
        f" {found.allowed:g}"
    )
    st.subheader(said, anchor=False)
    blocks.show_figure(
        charts_guarantees.plot_rating_influence(found),
        alt=said,
        key="lights",
    )
    st.caption(
        "The matrix before its noise, 40 users and 400 items, with and without the rating that"
        " changed; so no smaller epsilon than"
        f" {cards.format_epsilon(found.epsilon)} holds where {found.claimed:g} is claimed."
    )


shell.enter_through_app()
page()
