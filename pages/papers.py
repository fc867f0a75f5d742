"""Five papers: what is printed beside what is measured, and what we concluded."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from dpmc_core.errors import DpmcError, format_sentence
from dpmc_data import paths
from dpmc_lab import papers
from dpmc_lab.papers import engine, verdicts, views
from dpmc_lab.papers.engine import Paper, Recipe
from dpmc_lab.papers.verdicts import COLORS
from dpmc_lab.papers.views import ExperimentView
from dpmc_lab.sweep import format_seeds
from pages.ui import blocks, report, rows, shell, sweeps, widgets
from pages.ui.charts import papers as charts_papers
from pages.ui.session import session
from pages.ui.text import escape

ALL = "all"


@st.cache_resource(max_entries=2, show_spinner=False)
def load_all_views(own_times: object) -> list[ExperimentView]:  # noqa: ARG001 - part of the key
    """Return every experiment; a file of one's own results has a new time when it changes."""
    return views.load_views(papers.PAPERS.values())


def page() -> None:
    st.html("<style>.stMainBlockContainer { padding-inline: max(1rem, 50vw - 35rem); }</style>")
    st.title("Five papers, checked")
    try:
        own_files = engine.get_own_folder().glob("*")
        all_views = load_all_views([file.stat().st_mtime_ns for file in own_files])
    except (DpmcError, OSError) as error:
        blocks.show_error(error)
        return
    by_paper = {
        key.lower(): [view for view in all_views if view.paper.key == key] for key in papers.PAPERS
    }
    key = choose_paper(by_paper)
    if key == ALL:
        st.markdown(views.summarise_statements(all_views))
        columns = [*st.columns(3), *st.columns(3)]
        for place, (name, chosen) in zip(columns, by_paper.items(), strict=False):
            with place.container(border=True, height="stretch"):
                show_card(chosen)
                st.button(
                    "Show its figures",
                    key=f"open {name}",
                    on_click=session.update,
                    kwargs={"paper": name},
                )
        st.header("All figures and tables")
        show_overview(all_views, key)
        return
    show_card(by_paper[key])
    show_experiment(choose_experiment(by_paper[key], key))


def choose_paper(by_paper: Mapping[str, Sequence[ExperimentView]]) -> str:
    """Show the choice of a paper; a link to a figure opens its paper."""
    requested = st.query_params.get("experiment", "")
    key = next(filter(requested.lower().startswith, by_paper), None)
    if key and session.paper is None and "paper" not in st.query_params:
        st.query_params["paper"] = key
    labels = {key: chosen[0].paper.short_label for key, chosen in by_paper.items()}
    return widgets.choose_segment("Paper", "the paper", {ALL: "All", **labels}, "paper", ALL)


def show_card(chosen: Sequence[ExperimentView]) -> None:
    """Show who wrote a paper, what we found, and how many of its statements hold."""
    paper = chosen[0].paper
    st.markdown(f"**{escape(paper.title)}**")
    st.caption(escape(f"{', '.join(paper.authors)}. {paper.venue}, {paper.year}."))
    st.markdown(escape(paper.summary))
    st.markdown(f"**{views.summarise_statements(chosen)}**")


def choose_experiment(chosen: Sequence[ExperimentView], key: str) -> ExperimentView:
    """Show the list and the table of a paper's figures; a choice in either shows in both."""
    by_id = {view.experiment.id: view for view in chosen}
    names = {id: view.name for id, view in by_id.items()}
    first = next(iter(by_id))
    if (session.experiment or first) not in by_id:
        session.experiment = first
    with st.expander("All its figures and tables"):
        show_overview(chosen, key)
    id = widgets.choose_option("Figure or table", "the figure", names, "experiment", first)
    return by_id[id]


def show_overview(chosen: Sequence[ExperimentView], key: str) -> None:
    """Show a row for each figure; a click on one opens it."""

    def open_row() -> None:
        for index, _ in session.table[key]["selection"]["cells"]:
            if index < len(chosen):
                session.paper = chosen[index].paper.key.lower()
                session.experiment = chosen[index].experiment.id

    # What is chosen is in the list: a cell that stays marked keeps its tool bar in the way.
    session.table[key] = {"selection": {"rows": [], "columns": [], "cells": []}}
    columns: dict[str, Any] = dict(views.tabulate_overview(chosen))
    configs = {}
    for name, width in {"verdict": 230, "privacy": 330}.items():
        columns[name] = [text.split(", ") if text else [] for text in columns[name]]
        configs[name] = st.column_config.ListColumn(width=width)
    blocks.show_table(
        columns,
        height=318,
        alt="Every figure and table with its verdict",
        key=session.table.key_of(key),
        on_select=open_row,
        selection_mode="single-cell",
        column_config=configs,
    )


# --- one experiment ------------------------------------------------------------------------------


def show_experiment(view: ExperimentView) -> None:
    """Show a figure's verdict, its chart on the paper's axes, and what is said of it."""
    experiment, assessment = view.experiment, view.assessment
    st.header(f"{view.paper.short_label}, {experiment.place}")
    with blocks.lay_out_row():
        for label in view.labels:
            meaning = verdicts.LABELS.get(label, " ".join(map(format_sentence, assessment.doubts)))
            st.badge(label, color=COLORS.get(label, "gray"), help=meaning)
        for text, label in view.promise_counts:
            st.badge(f"privacy: {text}", color=COLORS.get(label, "gray"))
    st.markdown(escape(assessment.sentence))
    show_next_steps(view)
    st.markdown(f"**{escape(experiment.title)}**")
    figure_place = st.container()
    changed = choose_run(view)
    shown = [view] if changed is view else [view, changed]
    with figure_place:
        show_figure(shown)
    show_statements(view)
    show_promises(view)
    show_paper(view.paper)
    show_downloads(shown)


def show_next_steps(view: ExperimentView) -> None:
    """Link to the pages that train and compare the figure's methods as published."""
    train, compare = views.list_links(view)
    if train:
        with st.container(horizontal=True):
            with st.popover("Train this as published", icon=":material/play_circle:"):
                for label, query in train.items():
                    st.page_link("pages/train.py", label=label, query_params=query)
            st.page_link(
                "pages/compare.py",
                label="Compare its methods",
                icon=":material/compare_arrows:",
                query_params=compare,
            )


def show_figure(shown: Sequence[ExperimentView]) -> None:
    """Show the charts of a figure, as printed and as changed, or tables where it has none."""
    charts = []
    for view in shown:
        changes = f"With {', '.join(view.experiment.changes)}" * bool(view.experiment.changes)
        if not views.has_chart(view):
            if numbers := views.tabulate_numbers(view):
                blocks.show_table(numbers, alt=f"Our numbers and the printed ones. {changes}")
            continue
        charts += [(changes or "Measured here", view, False)] * bool(view.series)
        charts += [("Printed in the paper", view, True)] * bool(view.experiment.printed)
    columns = st.columns(min(len(charts), 2) or 1)
    for index, (name, view, is_printed) in enumerate(charts):
        with columns[index % 2]:
            curves = view.printed_series if is_printed else view.series
            title = f"{name}. {views.conclude_curves(view, curves)}"
            st.markdown(f"**{escape(title)}**")
            fig = charts_papers.plot_experiment(view, printed=is_printed, beside=shown)
            x_title, y_title = views.format_axis_titles(view)
            alt = f"{title} {y_title} over {x_title}."
            blocks.show_figure(fig, alt=alt, key=f"experiment chart {index}")
            if not (is_printed and view.series):  # whose table has the printed numbers too
                blocks.show_chart_numbers(alt, views.tabulate_numbers(view), f"chart {index}")
    if charts:
        st.caption(escape(views.describe_marks(shown[0])))


def show_statements(view: ExperimentView) -> None:
    """Show what the paper says, why ours differs, what we changed and what is not stated."""
    if view.assessment.statements:
        st.markdown("**The paper says**")
        st.markdown("\n".join(map(format_statement, view.assessment.statements)))
    for name, text in views.list_facts(view):
        if name in views.FACTS:
            lines = views.explain_difference(view.experiment) if name == "evidence" else [text]
            st.markdown("  \n".join([f"**{views.FACTS[name]}**", *map(escape, lines)]))


def format_statement(judged: verdicts.JudgedStatement) -> str:
    """Return a statement after a badge of whether it holds, and at which settings."""
    color = COLORS.get(judged.outcome, "gray")
    settings = f" ({'; '.join(judged.settings)})" if judged.settings else ""
    text, place = judged.statement.text + settings, judged.statement.place
    return f"- :{color}-badge[{judged.outcome}] {escape(text)} *{escape(place)}*"


def show_promises(view: ExperimentView) -> None:
    """Show what holds of the claim of each method."""
    if not view.promises:
        return
    st.subheader("Privacy claims, checked")
    table = views.tabulate_promises(view)
    for names, label, reason, command in zip(*table.values(), strict=True):
        shown_by = f"  \n`{command}`" * (label != verdicts.PROVED)
        st.markdown(
            f":{COLORS.get(label, 'gray')}-badge[{label}] **{escape(names)}**:"
            f" {escape(reason)}{shown_by}"
        )


def show_paper(paper: Paper) -> None:
    """Show a paper's theorems and how to cite it, both folded."""
    if paper.theorems:
        blocks.show_expander(
            "Its theorems and our measurements",
            lambda: show_theorems(paper),
            key=f"theory {paper.key}",
            icon=":material/functions:",
        )
    with st.expander("How to cite it"):
        st.code(paper.bibtex, language="latex", wrap_lines=True)


def show_theorems(paper: Paper) -> None:
    alt = "Bounds beside measurements"
    blocks.show_table(views.tabulate_theorems(paper), alt=alt, height="content")
    for text in views.list_theorem_notes(paper):
        st.caption(escape(text))


# --- make it again, or with one thing changed ----------------------------------------------------


def choose_run(view: ExperimentView) -> ExperimentView:
    """Show the choice of a setting, the commands and the buttons; return the figure that it makes.

    That is the figure of the paper as long as nothing is changed.
    """
    if view.experiment.recipe is None:
        return view
    st.subheader("Change one thing, or run it again")
    try:
        chosen, recipe, command = choose_change(view)
    except DpmcError as error:
        blocks.show_error(error)
        return view
    st.code(command, language="bash", wrap_lines=True)
    if recipe.sweep_command:
        with st.expander("The sweep of the same runs"):
            st.code(recipe.sweep_command, language="bash", wrap_lines=True)
    if result := chosen.result:
        origin = "Your own run" if chosen.is_own else "Came with the app"
        st.caption(escape(f"{origin}: {views.describe_result(result)}"))
    elif (seconds := views.estimate_seconds(view, recipe)) is not None:
        duration = views.format_duration(max(1.0, seconds))
        st.caption(f"It needs about {duration} of computing, by the runs of the paper's figure.")
    now = sweeps.load_sweep(get_run_folder(), chosen.experiment.id)
    is_running = bool(now and now.running)
    if not blocks.is_reserved_for_teacher(
        "run an experiment", "Results that are there are shown to everybody."
    ):
        try:
            show_run_buttons(chosen, command, is_running=is_running)
        except (DpmcError, OSError) as error:
            blocks.show_error(error)
            return chosen

    @st.fragment(run_every=1.0 if is_running else None)
    def show_progress() -> None:
        """Show how far a run is, or why it failed; the page is drawn again at its end."""
        now = sweeps.load_sweep(get_run_folder(), chosen.experiment.id)
        if is_running and not (now and now.running):
            st.rerun()
        if now is None:
            return
        total = now.counts.get("total", 0)
        if is_running:
            rows.show_sweep_progress(now, now.n_done, total, "parts")
            st.caption("It goes on when you leave; what is done is kept.")
        elif now.message:
            blocks.show_error(DpmcError(now.message))
        elif now.n_done < total:
            st.info(
                f"{now.n_done:,} of {total:,} parts are there: run it again for the others.",
                icon=":material/pause_circle:",
            )

    show_progress()
    return chosen


def choose_change(view: ExperimentView) -> tuple[ExperimentView, Recipe, str]:
    """Show the choice of a setting; return the figure with it, its recipe and its command.

    Raises:
        DpmcError: the setting has no such value.
    """
    experiment = view.experiment.fullest
    recipe, settings = engine.choose_recipe(experiment), experiment.list_settings()
    unchanged = view, recipe, views.get_command(view)
    if not settings:
        return unchanged
    names = {"": "nothing", **{name: name for name in settings}}
    key = session.change.key_of(experiment.id)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = widgets.choose_option("Change", "the setting", names, key, "", shared=False)
        if not name:
            return unchanged
        key = session.change.key_of(f"{experiment.id} {name}")
        text = st.text_input(f"New {name}", settings[name], key=key, persist_state="session")
        seeds: Sequence[int] = ()
        if recipe.is_random:
            key = session.change.key_of("seeds")
            seeds = range(1, 1 + st.number_input("Number of runs", 1, 100, 3, key=key))
    if text == settings[name]:
        st.caption(f"The figure has {escape(text)}: type another value.")
        return unchanged
    changed = experiment.change_settings({name: text})
    command = changed.command + f" --seeds {format_seeds(seeds)}" * bool(seeds)
    return views.load_view(view.paper, changed), engine.choose_recipe(changed, seeds), command


def get_run_folder() -> Path:
    return paths.find_home_folder() / "papers" / "runs"


def show_run_buttons(view: ExperimentView, command: str, *, is_running: bool) -> None:
    """Show the buttons to run, to stop, and to go back to the shipped result.

    Raises:
        DpmcError: a run cannot be started.
        OSError: likewise.
    """
    key, folder = view.experiment.id, get_run_folder()
    with blocks.lay_out_row():
        label = "Run it again" if view.result else "Run it"
        if st.button(label, icon=":material/play_arrow:", disabled=is_running):
            argv = (sys.executable, "-m", "dpmc_lab", *shlex.split(command)[1:], "--json")
            sweeps.start_sweep(folder, key, argv, description={"title": view.experiment.title})
            st.rerun()
        if st.button("Stop", icon=":material/stop:", disabled=not is_running):
            sweeps.cancel_sweep(folder, key)
            st.rerun()
        if view.is_own and st.button(
            "Forget my run", icon=":material/delete:", disabled=is_running
        ):
            engine.remove_own_result(key)
            st.rerun()


def show_downloads(shown: Sequence[ExperimentView]) -> None:
    """Show the numbers as files."""
    files = [
        blocks.File(
            " with ".join(["Numbers", *view.experiment.changes]) + " (CSV)",
            f"{view.experiment.id}.csv",
            "text/csv",
            lambda view=view: report.format_csv(views.tabulate_exact_numbers(view)),
        )
        for view in shown
        if view.result is not None or view.experiment.printed
    ]
    if files:
        blocks.show_downloads(*files)


shell.enter_through_app()
page()
