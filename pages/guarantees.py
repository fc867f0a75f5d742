"""Show what each mechanism claims, what is proved, and what attacks measure."""

import dataclasses
import math
from collections.abc import Sequence

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError, format_sentence
from dpmc_core.privacy import Change, Guarantee
from dpmc_core.ratings import PublicFacts
from dpmc_lab import glossary
from dpmc_lab.audit.report import AuditReport, build_measured_bound
from dpmc_lab.views import audits, cards, groups, measurements, trade
from dpmc_lab.views.groups import MechanismGroup
from pages.ui import blocks, shell, sources, stage, state, widgets
from pages.ui.audits import make_audit_work
from pages.ui.charts import Figure
from pages.ui.charts import guarantees as charts_guarantees
from pages.ui.jobs import Snapshot, get_snapshot
from pages.ui.session import session
from pages.ui.text import escape, format_count, keep_units

AUDIT = "audit"
MAX_COUNT = 10_000_000  # users or items that can be typed in
MIN_ROW_HEIGHT, AXIS_HEIGHT = 44, 60  # pixels that the two lines of a row need, and the axis
FACT_SOURCES = {"data": "from the chosen data", "typed": "typed in"}
TYPED_FACTS: dict[str, tuple[str, str, float]] = {  # facts without data: label, name, usual value
    "users": ("Users", "the number of users", 943),
    "items": ("Items", "the number of items", 1682),
    "low": ("Lowest rating", "the lowest rating", 1.0),
    "high": ("Highest rating", "the highest rating", 5.0),
}
UNITS = {change.unit: change.label for change in Change}


@st.fragment
def page() -> None:
    frame = stage.lay_out_stage("Which promises hold?")
    # in an older version
    state.note_removed("fault", "The link plants a fault. This page no longer does that.")
    with frame.choices:
        data = sources.choose_data(label_visibility="collapsed")
        picker = st.container(width="content")
        show_all = widgets.choose_toggle("All methods", "all methods", "every")
        facts_popover = st.popover("Settings", icon=":material/tune:")
    try:
        with facts_popover:
            wide = widgets.choose_wide_range()
            public, prepared = choose_public_facts(data)
    except (DpmcError, OSError) as error:
        with frame.figure:
            blocks.show_error(error)
        return
    with frame.figure:
        epsilon = widgets.choose_epsilon(wide)
        figure = stage.reserve_figure()
        available, problems = groups.build_guarantees(
            sources.list_available_mechanisms(data), public, epsilon
        )
        for error in problems:
            blocks.show_error(error)
    guarantees = {id: g.with_preparation(prepared) for id, g in available.items()}
    if not guarantees:
        return
    with picker:
        id = widgets.choose_by_guarantee(guarantees)
    store_last_attack()
    task = registry.get_mechanism(id).task
    visible = {
        other: guarantee
        for other, guarantee in guarantees.items()
        if show_all or registry.get_mechanism(other).task is task
    }
    mechanism_groups = groups.group_mechanisms(visible, blocks.is_mechanism_refuted)
    alt = f"{groups.describe_claim_states(mechanism_groups, epsilon)}."
    with figure:
        rows = build_guarantee_rows(visible, epsilon)
        fig = plot_claims(mechanism_groups, rows, id, epsilon, alt)
    with frame.panel:
        show_panel(guarantees[id], id, epsilon)
        report = control_attack(id, epsilon)
        blocks.show_downloads(figure=(alt, fig))
    with frame.details:
        blocks.show_expander(
            "The chart in words and numbers",
            lambda: show_claims_table(guarantees, alt, epsilon),
            key="every claim",
            type="compact",
        )
        if report is not None:
            show_audit_report(report)
        show_ledger(guarantees[id])


def choose_public_facts(data: str) -> tuple[PublicFacts, tuple[str, ...]]:
    """Choose public facts, and return the data-dependent steps behind them, too.

    Raises:
        DpmcError, OSError: the data cannot be read.
    """
    source = widgets.choose_segment(
        "Numbers of users and items",
        "the facts",
        FACT_SOURCES,
        "facts",
        "data",
        help=glossary.explain_terms("facts"),
    )
    if source == "typed":
        return type_public_facts(), ()
    ratings = sources.get_dataset(data).ratings
    public = ratings.public
    cap = choose_cap(public.items)
    if cap is not None:
        public = dataclasses.replace(public, cap=min(cap, public.cap or cap))
    st.caption(
        f"{format_count(public.users, 'user')}, {format_count(public.items, 'item')}, ratings"
        f" {public.low:g} to"
        f" {public.high:g}, " + (f"at most {public.cap} per user." if public.cap else "no cap.")
    )
    return public, ratings.prepared


def type_public_facts() -> PublicFacts:
    """Show fields for public facts without data. Raises DpmcError where they make no sense."""
    values = {}
    for key, (label, description, default) in TYPED_FACTS.items():
        ends, form = ((1, MAX_COUNT), "%d") if isinstance(default, int) else ((None, None), "%g")
        values[key] = widgets.choose_number(
            label, description, *ends, default, key, width=130, format=form
        )
    return PublicFacts(**values, cap=choose_cap(MAX_COUNT))


def choose_cap(items: int) -> int | None:
    """Choose the largest number of ratings that a user may have; None for no cap."""
    return widgets.choose_number(
        "Cap on ratings per user",
        "the cap",
        1,
        items,
        None,
        "cap",
        width=200,
        placeholder="no cap",
        help=f"{glossary.explain_terms('cap')} Set it only if the data already respect it.",
    )


def plot_claims(
    mechanism_groups: Sequence[MechanismGroup],
    rows: dict[str, cards.GuaranteeRow],
    id: str,
    epsilon: float,
    alt: str,
) -> Figure:
    """Show a line for each mechanism, which a click on it chooses, and all of them in words."""
    blocks.show_headline(
        alt.removesuffix("."),
        key="title",
        help="● proved, ○ claimed only, ⊗ refuted, ❘ measured on invented ratings."
        f" {glossary.explain_terms('claimed', 'certified', 'measured')} Different groups count"
        " different changes: compare numbers only within a group. Methods have the names of"
        " their papers; “strawman” is a paper's word for its simplest method.",
    )
    min_height = MIN_ROW_HEIGHT * (len(rows) + len(mechanism_groups)) + AXIS_HEIGHT
    st.html(f"<style>.st-key-figure.st-key-figure {{ --least: {min_height}px; }}</style>")
    clicks = session.clicks
    key = session.claims.key_of(clicks)  # a new key forgets the last selection

    def choose_clicked() -> None:
        session.clicks = clicks + 1
        for point in session.claims[clicks].selection.points:
            session.mechanism = point["customdata"][0]

    measured = {
        other: bound
        for other in rows
        if (bound := blocks.find_measurement(other, epsilon)) and bound.epsilon == epsilon
    }
    fig = charts_guarantees.plot_claims(mechanism_groups, rows, id, measured)
    blocks.show_figure(fig, alt=alt, key=key, on_select=choose_clicked, selection_mode="points")
    return fig


def build_guarantee_rows(
    guarantees: dict[str, Guarantee], epsilon: float
) -> dict[str, cards.GuaranteeRow]:
    """Build the row of each mechanism by its id, with what an attack measured at this epsilon."""
    return {
        id: cards.build_guarantee_row(
            registry.get_short_name(id),
            guarantee,
            refuted=blocks.is_mechanism_refuted(id),
            measured=bound.measured if bound is not None and bound.epsilon == epsilon else None,
        )
        for id, guarantee in guarantees.items()
        for bound in [blocks.find_measurement(id, epsilon)]
    }


def show_claims_table(guarantees: dict[str, Guarantee], alt: str, epsilon: float) -> None:
    """Show the claimed and the proved epsilon of every mechanism, and why they differ."""
    rows = [*build_guarantee_rows(guarantees, epsilon).values()]
    st.text(alt)
    widths = {"claimed": 64, "proved": 76, cards.PER_USER: 104}
    columns = {name: st.column_config.TextColumn(width=width) for name, width in widths.items()}
    columns["mechanism"] = st.column_config.TextColumn(pinned=True, width=138)
    blocks.show_table(
        cards.tabulate_guarantees(rows),
        height="content",
        alt="Claimed and proved epsilon of every mechanism, per rating and per user",
        column_config=columns,
    )
    st.caption(
        f"{glossary.explain_terms('unit', 'rating', 'cell', 'user')} Numbers of different columns"
        f" cannot be compared. {glossary.explain_terms('trust', 'notion')}"
    )
    st.markdown("**Why claimed and proved differ, and what else to know**")
    for row in rows:
        if row.reason:
            name, reason = escape(row.mechanism), escape(format_sentence(row.reason))
            st.markdown(f"- **{name}** ({row.state.word}): {reason}")


def show_panel(guarantee: Guarantee, id: str, epsilon: float) -> None:
    """Show the chosen mechanism's promise."""
    row = build_guarantee_rows({id: guarantee}, epsilon)[id]
    question, everything = trade.list_questions(
        guarantee, registry.get_mechanism(id).task, cards.TYPICAL_RATINGS
    )
    risk = question.assess(guarantee)
    claimed, proved = map(cards.format_epsilon, (row.claimed, row.certified))
    proved = "no epsilon" if math.isinf(row.certified) else f"epsilon {proved}"
    claim = f"The claim is epsilon {claimed} {guarantee.change.label}"
    sentence = f"{claim}." if proved == f"epsilon {claimed}" else f"{claim}; {proved} is proved."
    if row.state is not cards.ClaimState.PROVED:  # first why the claim fails, then what holds
        reason = guarantee.certified().reason or "; ".join(guarantee.caveats[:1])
        sentence = (
            f"{claim}. Why it is not proved: {format_sentence(reason)} What can be proved instead"
            f" is {proved}."
        )
    if row.measured is not None:
        sentence += (
            " An attack on invented ratings measured at least"
            f" {cards.format_epsilon(row.measured, round_down=True)}."
        )
    st.container(key="answer").markdown(
        f"**{row.state.value[0]} {row.state.word.capitalize()}.** {keep_units(escape(sentence))}",
        help=glossary.explain_terms("claimed", "certified", "measured"),
    )
    st.markdown(
        keep_units(escape(risk.describe())),
        help=glossary.explain_terms("attacker"),
    )
    st.caption(cards.describe_protection(guarantee))
    with st.popover("Read why", icon=":material/verified_user:"):
        if risk.is_informative:
            st.markdown(keep_units(escape(everything.assess(guarantee).describe())))
        blocks.show_guarantee(guarantee, id)
        for bound in list(filter(measurements.is_refuted, blocks.list_attacks(id)))[-1:]:
            sentence = format_sentence(measurements.describe_counterexample(bound))
            st.markdown(escape(sentence))
            st.page_link(
                "pages/learn.py",
                label="See in a lesson how a claim fails",
                query_params={"lesson": "claim"},
            )


def show_ledger(guarantee: Guarantee) -> None:
    """Show every release of one mechanism with its cost."""
    st.header("What each noisy answer costs", help=glossary.explain_terms("composition"))
    unit = guarantee.change.unit
    widgets.follow_default("unit", unit)
    unit = widgets.choose_segment(
        "Privacy unit",
        "the unit",
        UNITS,
        "unit",
        unit,
        help=glossary.explain_terms("unit"),
    )
    change = next(change for change in (guarantee.change, *Change) if change.unit == unit)
    rows = cards.build_ledger(guarantee, change)
    blocks.show_table(cards.tabulate_ledger(rows), alt="Every noisy answer and its cost")
    total = guarantee.certified(change)
    budget = cards.format_budget(total.epsilon, total.delta)
    person = format_sentence(cards.describe_person_guarantee(guarantee))
    st.markdown(
        f"All answers together cost **epsilon {budget}** {UNITS[unit]} ({change.relation})."
        f" {escape(format_sentence(total.reason))}"
        f" For one person: {escape(person)}"
    )
    if cards.exceeds_total(rows, total.epsilon):
        st.markdown(
            "The rows add up to more than this total. Separate noise rarely helps an attacker"
            " in every answer at once."
        )
    if guarantee.change is Change.USER_EMPTIED is not change:
        st.markdown(
            "This method protects whole people. For anything less, only the limit for another row"
            " is proved. Another row moves an answer up to twice as far as an emptied row."
        )
    st.caption(escape(f"Source of the claim: {guarantee.source}."))


# --- the attempt to refute it ------------------------------------------------------------------


def control_attack(id: str, epsilon: float) -> AuditReport | None:
    """Offer an attack on small invented ratings, and return what it found so far."""
    if blocks.is_reserved_for_teacher(
        "start an attack", "You can read what earlier attacks measured."
    ):
        return None
    mechanism = registry.create(id, epsilon=epsilon)
    settings = repr(mechanism)
    job = state.get_jobs().get(AUDIT)
    if job is not None and job.data_id != settings:
        job = None
    now = get_snapshot(job)
    if now.active:
        blocks.show_stop_button(job, now)
    elif st.button("Attack this claim", type="primary", icon=":material/policy:"):
        state.get_jobs().start(AUDIT, make_audit_work(mechanism), data_id=settings)
        st.rerun()
    blocks.poll_job(job, now, show_attack_progress)
    return now.result or now.display


def show_attack_progress(now: Snapshot) -> None:
    """Show how far an attack is, and its verdict."""
    blocks.show_job_progress(now)
    report: AuditReport | None = now.result or now.display
    if report is not None:
        st.markdown(f"**{escape(audits.describe_audit(report))}** Details are below.")


def store_last_attack() -> None:
    """Store what the last attack measured, so that panel, chart and table show it at once."""
    now = get_snapshot(state.get_jobs().get(AUDIT))
    report: AuditReport | None = now.result or now.display
    if report is not None and report.valid:
        last = build_measured_bound(report)
        session.attacks.pop((last.mechanism, last.epsilon), None)
        session.attacks[last.mechanism, last.epsilon] = last


def show_audit_report(report: AuditReport) -> None:
    """Show what each method of an attack measured."""
    summary = audits.describe_audit(report)
    blocks.show_headline(summary.removesuffix("."), help=glossary.explain_terms("measured"))
    left, right = st.columns([3, 2], gap="large")
    with left:
        blocks.show_chart(
            charts_guarantees.plot_audit(report, measurements.METHOD_LABELS),
            alt=summary,
            key="audit",
            caption="Each bar shows an epsilon that the attack reached; the true one is at least"
            f" that large. The ratings are invented; {report.runs} runs, seed {report.seed}. The"
            " command dpmc audit does the same.",
            table=audits.tabulate_audit(report),
        )
    with right:
        for finding in report.findings:
            text = audits.describe_finding(finding, report.change)
            st.markdown(f"**{measurements.METHOD_LABELS[finding.method]}.** {escape(text)}")
        for method, reason in report.skipped:
            st.caption(f"{measurements.METHOD_LABELS[method]} does not apply: {escape(reason)}.")


shell.enter_through_app()
page()
