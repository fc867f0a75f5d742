"""Five papers: every figure and table, what is printed beside ours, and two verdicts."""

import sys
from collections.abc import Sequence

import streamlit as st

from dpmc_core import papers, paths
from dpmc_core.errors import DpmcError
from dpmc_core.papers import picture, results, words
from dpmc_core.papers.frame import Paper
from dpmc_core.papers.verdicts import Accuracy, Privacy
from dpmc_core.papers.words import Look
from pages.ui import blocks, shell, state, sweeps, widgets
from pages.ui.charts import papers as charts_papers
from pages.ui.sweeps import Sweep

TICK = 1.0  # seconds between two looks at a run
ALL = "all"
FIRST = "lwhm22-1b"
TABLE = "papers table"
COLORS = {
    Accuracy.AGREES: ("green", ":material/check_circle:"),
    Accuracy.TREND: ("blue", ":material/trending_up:"),
    Accuracy.DIFFERS: ("orange", ":material/difference:"),
    Accuracy.SMALLER: ("gray", ":material/straighten:"),
    Accuracy.OPEN: ("gray", ":material/help:"),
    Accuracy.NOT_RUN: ("gray", ":material/hourglass_empty:"),
    Accuracy.UNJUDGED: ("gray", ":material/remove:"),
    Privacy.PROVED: ("green", ":material/verified:"),
    Privacy.NARROWER: ("blue", ":material/compress:"),
    Privacy.UNPROVED: ("orange", ":material/radio_button_unchecked:"),
    Privacy.COUNTEREXAMPLE: ("red", ":material/dangerous:"),
}


def page() -> None:
    try:
        looks = words.all_looks(papers.PAPERS.values())
    except (DpmcError, OSError) as error:
        blocks.heading("Five papers, checked", "")
        blocks.problem(error)
        return
    blocks.heading("Five papers, checked", words.count(looks))
    found = choose(looks)
    of_link(found)
    one(found)
    running(found)
    take_along(found)


def choose(looks: Sequence[Look]) -> Look:
    """The table of all, or of one paper; a click on a row, or the list, chooses."""
    places = {found.experiment.id: found for found in looks}
    names = {
        id: f"{found.paper.key}, {found.experiment.place}: {found.experiment.title}"
        for id, found in places.items()
    }
    only = widgets.switch(
        "Paper",
        "the paper",
        {ALL: "All", **{key.lower(): key for key in papers.PAPERS}},
        "paper",
        ALL,
        label_visibility="collapsed",
    )
    shown = [found for found in looks if only in (ALL, found.paper.key.lower())]
    ids = [found.experiment.id for found in shown]

    def clicked() -> None:
        rows = st.session_state[f"{TABLE} {only}"]["selection"]["rows"]
        if rows and rows[0] < len(ids):
            st.session_state["experiment"] = ids[rows[0]]

    narrow = {"accuracy": 96, "privacy": 116, "paper": 76, "place": 84, "run time": 76}
    blocks.show_table(
        words.overview(shown),
        height=248,
        alt="Every figure and table with its verdicts",
        key=f"{TABLE} {only}",
        on_select=clicked,
        selection_mode="single-row",
        column_config={
            name: st.column_config.TextColumn(width=width) for name, width in narrow.items()
        },
    )
    id = widgets.choose("Figure or table", "the figure", names, "experiment", FIRST)
    return places[id]


def of_link(found: Look) -> None:
    """A permanent link names the result that it was made for: say so where that is another now."""
    asked = st.query_params.get("made")
    if asked is None:
        return
    del st.query_params["made"]
    if found.made is None or found.made.mark != asked:
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
    st.markdown(blocks.escape(experiment.title))
    with st.container(horizontal=True, vertical_alignment="center"):
        badge("accuracy", judged.verdict)
        if found.worst is not None:
            badge("privacy", found.worst.verdict)
        st.caption(blocks.escape(judged.reason), width="content")
    left, right = st.columns([3, 2], gap="large")
    with left:
        shown(found)
    with right:
        said(found)
    promised(found)
    more(found)


def badge(what: str, verdict: Accuracy | Privacy) -> None:
    color, icon = COLORS[verdict]
    st.badge(f"{what}: {verdict.value}", icon=icon, color=color)


def shown(found: Look) -> None:
    """The chart with its numbers, or a table where the paper has one."""
    numbers = words.numbers(found)
    if picture.drawn(found):
        blocks.chart(
            charts_papers.experiment(found, state.theme()),
            alt=f"{found.experiment.y.title} over {found.experiment.x.title}."
            f" {words.we_see(found.made)}",
            key="experiment chart",
            caption=(
                "Ours: the mean over seeds in its 95 % band. Hollow: printed, with the error of"
                " reading it."
                if found.experiment.printed
                else "The mean over seeds in its 95 % band; the paper prints no numbers."
            )
            + f" {blocks.EVALUATION}",
            table=numbers,
        )
    elif any(numbers.values()):
        blocks.show_table(numbers, alt="Ours beside what is printed")


def said(found: Look) -> None:
    """What we see, what the paper says, why they differ."""
    if text := words.we_see(found.made):
        st.markdown(f"**We see**  \n{blocks.escape(text)}")
    if found.judged.statements:
        st.markdown("**The paper says**")
        st.markdown(
            "\n".join(
                f"- {blocks.escape(text)} *{blocks.escape(place)}*: **{here}**"
                for text, place, here in zip(*words.statements(found).values(), strict=True)
            )
        )
    if found.experiment.why:
        st.markdown(f"**Why they differ**  \n{blocks.escape(found.experiment.why)}")
    for name, label in (("changed", "We changed"), ("unknown", "We could not know")):
        text = dict(words.facts(found)).get(name)
        if text:
            st.markdown(f"**{label}**  \n{blocks.escape(text)}")


def promised(found: Look) -> None:
    """What becomes of the promise of each method."""
    if not found.promises:
        return
    st.subheader("What becomes of the promises", anchor=False)
    blocks.show_table(
        words.promises_table(found),
        height="content",
        alt="The promise of each method, and what becomes of it",
        column_config={
            "method": st.column_config.TextColumn(width=130, pinned=True),
            "promise": st.column_config.TextColumn(width=170),
        },
    )


def more(found: Look) -> None:
    """The paper's theorems, and how to cite it; both folded."""
    if found.paper.theory:
        key = f"theory {found.paper.key}"
        folded = st.expander(
            f"The theorems of {found.paper.key} beside measurements",
            icon=":material/functions:",
            key=key,
            on_change="rerun",
        )
        if folded.open:
            with folded, st.spinner("Measuring small instances"):
                theorems(found.paper)
    with st.expander(f"How to cite {found.paper.key}", icon=":material/format_quote:"):
        st.code(found.paper.bibtex, language="latex", wrap_lines=True)


def theorems(paper: Paper) -> None:
    blocks.show_table(words.theory_table(paper), alt="Bounds beside measurements", height="content")
    for text in words.theory_notes(paper):
        st.caption(blocks.escape(text))


# --- make it again -------------------------------------------------------------------------------


def running(found: Look) -> None:
    """The command and the button that make it, and how far that is."""
    experiment = found.experiment
    if experiment.recipe is None:
        return
    st.subheader("Make it again", anchor=False)
    st.code(words.command(found), language="bash", wrap_lines=True)
    if found.made is not None:
        whose = "Your own run" if found.own else "Came with the app"
        st.caption(blocks.escape(f"{whose}: {words.made_text(found.made)}"))
    folder, key = paths.home() / "papers" / "runs", experiment.id
    now = sweeps.look(folder, key)
    active = now is not None and now.running
    try:
        with st.container(horizontal=True, vertical_alignment="center"):
            if st.button("Run it again", icon=":material/play_arrow:", disabled=active):
                command = (sys.executable, "-m", "dpmc_core", "papers", key, "--run", "--json")
                sweeps.start(folder, key, command, about={"title": experiment.title})
                st.rerun()
            if st.button("Stop", icon=":material/stop:", disabled=not active):
                sweeps.cancel(folder, key)
                st.rerun()
            mine = results.own(key) is not None
            if mine and st.button("Forget my run", icon=":material/delete:", disabled=active):
                results.forget(key)
                st.rerun()
    except (DpmcError, OSError) as error:
        blocks.problem(error)
        return
    if now is not None and now.running:
        progress(key)
    elif now is not None:
        ended(now)


def progress(key: str) -> None:
    """How far a run is; the page is drawn anew when it is over."""

    @st.fragment(run_every=TICK)
    def again() -> None:
        now = sweeps.look(paths.home() / "papers" / "runs", key)
        if now is None or not now.running:
            st.rerun()
        total = now.counts.get("total", 0)
        done = now.counts.get("skipped", 0) + now.counts.get("done", 0)
        left = now.counts.get("seconds_left")
        far = "starting" if left is None else f"about {blocks.duration(left)} left"
        st.progress(done / total if total else 0.0, text=f"{done:,} of {total:,} parts · {far}")
        st.caption("It goes on when you leave; what is done is kept.")

    again()


def ended(now: Sweep) -> None:
    """Why a run did not come to its end."""
    if now.message:
        blocks.problem(DpmcError(now.message))
        return
    done = now.counts.get("skipped", 0) + now.counts.get("done", 0)
    if done < now.counts.get("total", 0):
        st.info(
            f"{done:,} of {now.counts['total']:,} parts are there: run it again for the others.",
            icon=":material/pause_circle:",
        )


def take_along(found: Look) -> None:
    """A permanent link, and the numbers as a file."""
    made = {} if found.made is None else {"made": found.made.mark}
    st.caption("Permanent link to this figure and this result")
    st.code(widgets.address({"experiment": found.experiment.id, **made}), language=None)
    st.download_button(
        "Numbers as CSV",
        data=lambda: words.csv_text([found]),
        file_name=f"{found.experiment.id}.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
    )


shell.enter()
page()
