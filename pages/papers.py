"""Five papers: every figure and table, what is printed beside ours, and two verdicts."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from dpmc_core import paths
from dpmc_core.errors import DpmcError, format_sentence
from dpmc_lab import papers
from dpmc_lab.papers import engine, views
from dpmc_lab.papers.engine import Paper
from dpmc_lab.papers.verdicts import HOLDS, MEANING, Accuracy, Privacy
from dpmc_lab.papers.views import Look
from pages.ui import blocks, report, rows, shell, sweeps, widgets
from pages.ui.charts import papers as charts_papers
from pages.ui.sweeps import Sweep

ALL = "all"
FIRST = "lwhm22-1b"
LOOKS = {  # colour and icon of a verdict
    "agrees": ("green", ":material/check_circle:"),
    "same trend": ("blue", ":material/trending_up:"),
    "depends on what is not printed": ("violet", ":material/tune:"),
    "differs": ("orange", ":material/difference:"),
    "differs at this size": ("gray", ":material/straighten:"),
    "cannot tell": ("gray", ":material/help:"),
    "not run": ("gray", ":material/hourglass_empty:"),
    "no verdict": ("gray", ":material/remove:"),
    "proved": ("green", ":material/verified:"),
    "proved for a narrower unit": ("blue", ":material/compress:"),
    "not proved here": ("orange", ":material/radio_button_unchecked:"),
    "counterexample": ("red", ":material/dangerous:"),
    "counterexamples": ("red", ":material/dangerous:"),
}
HELD = {HOLDS[True]: "green", HOLDS[False]: "orange", HOLDS[None]: "gray"}  # at some: violet


def page() -> None:
    st.title("Five papers, checked")
    try:
        looks = views.all_looks(papers.PAPERS.values())
    except (DpmcError, OSError) as error:
        blocks.show_error(error)
        return
    found = choose(looks)
    of_link(found)
    one(found)
    running(found)
    take_along(found)


def choose(looks: Sequence[Look]) -> Look:
    """The list and the table of all, or of one paper; a choice in either shows in both."""
    places = {found.experiment.id: found for found in looks}
    names = {
        id: f"{found.paper.key}, {found.experiment.place}: {found.experiment.title}"
        for id, found in places.items()
    }

    def of(key: str) -> list[str]:
        return [id for id, found in places.items() if key in (ALL, found.paper.key.lower())]

    def turned() -> None:
        """To a paper's first figure that has a result, where another paper's is shown."""
        ids = of(st.session_state["paper"])
        if st.session_state.get("experiment", FIRST) not in ids:
            made = (id for id in ids if places[id].made)
            st.session_state["experiment"] = next(made, ids[0])

    head = st.empty()
    left, right = st.columns([2, 3], vertical_alignment="bottom")
    with left:
        only = widgets.choose_segment(
            "Paper",
            "the paper",
            {ALL: "All", **{key.lower(): key for key in papers.PAPERS}},
            "paper",
            ALL,
            on_change=turned,
        )
    if "experiment" not in st.query_params and "experiment" not in st.session_state:
        turned()
    id = widgets.choose_option(
        "Figure or table", "the figure", names, "experiment", FIRST, container=right
    )
    ids, key = of(only), f"papers table {only}"
    some = [places[id] for id in ids]
    head.markdown(views.opening(some), help=views.count(some))

    def clicked() -> None:
        """Wherever in a row."""
        for row, _ in st.session_state[key]["selection"]["cells"]:
            if row < len(ids):
                st.session_state["experiment"] = ids[row]

    # What is chosen stands in the list: a cell that stays marked keeps its tool bar in the way.
    st.session_state[key] = {"selection": {"rows": [], "columns": [], "cells": []}}
    narrow = {"paper": 76, "place": 84, "run time": 76}
    columns: dict[str, Any] = dict(views.overview(some))
    configs = {name: st.column_config.TextColumn(width=width) for name, width in narrow.items()}
    for name, width in {"accuracy": 205, "privacy": 330}.items():
        columns[name] = [text.split(", ") if text else [] for text in columns[name]]
        options = sorted({one for cell in columns[name] for one in cell})
        configs[name] = st.column_config.MultiselectColumn(
            width=width,
            options=options,
            color=[LOOKS[one.lstrip("0123456789 ")][0] for one in options],
        )
    blocks.show_table(
        columns,
        height=318,
        alt="Every figure and table with its verdicts",
        key=key,
        on_select=clicked,
        selection_mode="single-cell",
        column_config=configs,
    )
    return places[id]


def of_link(found: Look) -> None:
    """A permanent link names the result that it was made for: say so where that is another now."""
    asked = st.query_params.get("made")
    if asked is None:
        return
    del st.query_params["made"]
    if not found.made or found.made.mark != asked:
        st.info(
            "The link was made for another result of this experiment: another version, other"
            " settings or other seeds.",
            icon=":material/history:",
        )


# --- one experiment ------------------------------------------------------------------------------


def one(found: Look) -> None:
    """Its verdicts, its chart on the paper's axes, what is said of it."""
    experiment, judged = found.experiment, found.judged
    st.header(f"{found.paper.key}, {experiment.place}", anchor=False)
    with st.container(horizontal=True, vertical_alignment="center"):
        badge("accuracy", judged.verdict)
        for text, verdict in found.kept:
            badge("privacy", verdict, text)
        st.markdown(blocks.escape(judged.reason), width="content")
    numbers = views.numbers(found)
    left = right = st.container()
    if views.drawn(found) or numbers:
        left, right = st.columns([3, 2], gap="large")
    with left:
        st.markdown(f"**{blocks.escape(experiment.title)}**")
        shown(found, numbers)
    with right:
        said(found)
    promised(found)
    more(found)


def badge(what: str, verdict: Accuracy | Privacy, text: str = "") -> None:
    color, icon = LOOKS[verdict.value]
    meaning = format_sentence(MEANING[verdict]) if isinstance(verdict, Accuracy) else None
    st.badge(f"{what}: {text or verdict.value}", icon=icon, color=color, help=meaning)


def shown(found: Look, numbers: Mapping[str, Sequence[str]]) -> None:
    """The chart with its numbers, or a table where the paper has one."""
    if not views.drawn(found):
        if numbers:
            blocks.show_table(numbers, alt="Ours beside what is printed")
        return
    across, up = views.titles(found)
    blocks.show_chart(
        charts_papers.plot_experiment(found),
        alt=f"{up} over {across}. {views.we_see(found)}",
        key="experiment chart",
        caption=views.legend(found),
        table=numbers,
    )


def said(found: Look) -> None:
    """What the paper says, why ours differs, what we changed and could not know."""
    *known, texts, places = views.statements(found).values()
    if texts:
        st.markdown("**The paper says**")
        heres = known[0] if known else [""] * len(texts)
        st.markdown("\n".join(map(held, heres, texts, places)))
    for name, text in views.facts(found):
        if name in views.TOLD:
            lines = views.why(found.experiment) if name == "why" else [text]
            st.markdown("  \n".join([f"**{views.TOLD[name]}**", *map(blocks.escape, lines)]))


def held(here: str, text: str, place: str) -> str:
    """A statement after a badge of whether it holds; at which settings, behind it."""
    short, _, names = here.partition(": ")
    badge = f":{HELD.get(short, 'violet')}-badge[{short}] " if short else ""
    at = f" ({names})" if names else ""
    return f"- {badge}{blocks.escape(text + at)} *{blocks.escape(place)}*"


def promised(found: Look) -> None:
    """What becomes of the promise of each method."""
    if not found.promises:
        return
    st.subheader("What becomes of the promises", anchor=False)
    for names, verdict, why, command in zip(*views.promises_table(found).values(), strict=True):
        color, icon = LOOKS[verdict]
        shows = "" if verdict == Privacy.PROVED.value else f"  \n`{command}`"
        st.markdown(
            f":{color}-badge[{icon} {verdict}] **{blocks.escape(names)}**:"
            f" {blocks.escape(why)}{shows}"
        )


def more(found: Look) -> None:
    """The paper's theorems, and how to cite it; both folded."""
    if found.paper.theorems:
        blocks.show_expander(
            f"The theorems of {found.paper.key} beside measurements",
            lambda: theorems(found.paper),
            key=f"theory {found.paper.key}",
            icon=":material/functions:",
        )
    with st.expander(f"How to cite {found.paper.key}", icon=":material/format_quote:"):
        st.code(found.paper.bibtex, language="latex", wrap_lines=True)


def theorems(paper: Paper) -> None:
    blocks.show_table(views.theory_table(paper), alt="Bounds beside measurements", height="content")
    for text in views.theory_notes(paper):
        st.caption(blocks.escape(text))


# --- make it again -------------------------------------------------------------------------------


def running(found: Look) -> None:
    """The command and the button that make it, and how far that is."""
    experiment = found.experiment
    if experiment.recipe is None:
        return
    st.subheader("Make it again" if found.made else "Make it", anchor=False)
    st.code(views.command(found), language="bash", wrap_lines=True)
    if found.made:
        whose = "Your own run" if found.own else "Came with the app"
        st.caption(blocks.escape(f"{whose}. {views.made_text(found.made)}"))
    now = look(experiment.id)
    running = now is not None and now.running
    if not blocks.is_reserved_for_teacher(
        "run an experiment", "Results that are there are shown to everybody."
    ):
        try:
            buttons(found, active=running)
        except (DpmcError, OSError) as error:
            blocks.show_error(error)
            return

    @st.fragment(run_every=1.0 if running else None)
    def again() -> None:
        """How far a run is, and why it did not come to its end; drawn anew when it is over."""
        now = look(experiment.id)
        if running and not (now and now.running):
            st.rerun()
        if now is None:
            return
        total = now.counts.get("total", 0)
        if running:
            rows.show_sweep_progress(now, now.n_done, total, "parts")
            st.caption("It goes on when you leave; what is done is kept.")
        elif now.message:
            blocks.show_error(DpmcError(now.message))
        elif now.n_done < total:
            st.info(
                f"{now.n_done:,} of {total:,} parts are there: run it again for the others.",
                icon=":material/pause_circle:",
            )

    again()


def runs() -> Path:
    return paths.find_home_folder() / "papers" / "runs"


def look(id: str) -> Sweep | None:
    return sweeps.load_sweep(runs(), id)


def buttons(found: Look, *, active: bool) -> None:
    """Run, stop, and back to the result that came. Raises DpmcError, OSError."""
    key = found.experiment.id
    with st.container(horizontal=True, vertical_alignment="center"):
        label = "Run it again" if found.made else "Run it"
        if st.button(label, icon=":material/play_arrow:", disabled=active):
            _, *words = views.command(found).split()
            command = (sys.executable, "-m", "dpmc_lab", *words, "--json")
            sweeps.start_sweep(runs(), key, command, description={"title": found.experiment.title})
            st.rerun()
        if st.button("Stop", icon=":material/stop:", disabled=not active):
            sweeps.cancel_sweep(runs(), key)
            st.rerun()
        if engine.own(key) is not None and st.button(
            "Forget my run", icon=":material/delete:", disabled=active
        ):
            engine.forget(key)
            st.rerun()


def take_along(found: Look) -> None:
    """A permanent link, and the numbers as a file."""
    made = {} if not found.made else {"made": found.made.mark}
    st.caption("Permanent link to this figure and this result")
    st.code(widgets.build_address({"experiment": found.experiment.id, **made}), language=None)
    if found.made is not None or found.experiment.printed:
        name = f"{found.experiment.id}.csv"
        blocks.show_downloads(
            blocks.File(
                "Numbers (CSV)",
                name,
                "text/csv",
                lambda: report.format_csv(views.exact_numbers(found)),
            )
        )


shell.enter_through_app()
page()
