"""Mechanisms side by side: a sweep in the background, its curves while they fill, what follows."""

import streamlit as st

from dpmc_core.errors import DpmcError
from pages.ui import blocks, comparison, grid, rows, shell, sources, sweep_panel, sweeps
from pages.ui.grid import Choice, Place, Target

TICK = 0.5  # seconds between two looks at the store


def page() -> None:
    blocks.heading(
        "Compare mechanisms",
        "Choose data, mechanisms, epsilons and seeds, then press Start: every finished run joins"
        " the chart and is kept.",
    )
    try:
        choice = grid.controls()
        where = grid.place(choice)
        target = grid.target(choice, where)
        running = buttons(choice, where, target)
        others(where, target)
        watch(choice, where, target, running=running)
    except (DpmcError, OSError) as error:
        blocks.problem(error)
        return
    with st.expander("The command that does the same", icon=":material/terminal:"):
        st.code(grid.typed(choice, where), language="bash", wrap_lines=True)
        st.caption(
            f"It makes {len(target.units):,} runs; the same command again goes on where it stopped."
            " Rows that it stores appear on this page."
        )


def buttons(choice: Choice, where: Place, target: Target) -> bool:
    """Start, Resume and Cancel of this very grid, whoever started it; whether it runs."""
    sweep = sweeps.look(where.folder, target.key)
    running = sweep is not None and sweep.running
    present = rows.read(choice, where, target).present
    idle = not running and present < len(target.units)
    with st.container(horizontal=True, vertical_alignment="center"):
        start = st.button(
            "Resume" if idle and present else "Start",
            type="primary",
            icon=":material/play_arrow:",
            disabled=not idle,
        )
        cancel = st.button("Cancel", icon=":material/stop:", disabled=not running)
        sweep_panel.share(choice)
    if start and idle:
        sweeps.start(
            where.folder,
            target.key,
            grid.command(choice, where),
            about={"title": sources.names()[choice.data], "link": grid.link(choice)},
            environment=where.environment,
        )
        st.rerun()
    if cancel:
        sweeps.cancel(where.folder, target.key)
        st.rerun()
    return running


def watch(choice: Choice, where: Place, target: Target, *, running: bool) -> None:
    """Progress and all that the rows so far say; only this part runs again by itself."""

    @st.fragment(run_every=TICK if running else None)
    def panel() -> None:
        sweep = sweeps.look(where.folder, target.key)
        if running and not (sweep is not None and sweep.running):
            st.rerun()
        try:
            there = rows.read(choice, where, target)
            sweep_panel.progress(where, target, sweep, there)
            comparison.show(choice, where, rows.with_shipped(choice, there), running=running)
        except DpmcError as error:
            blocks.problem(error)

    panel()


def others(where: Place, target: Target) -> None:
    """Other grids that run in the background can be looked at or ended from here."""
    for sweep in sweeps.found(where.folder):
        if sweep.running and sweep.key != target.key:
            with st.container(horizontal=True, vertical_alignment="center"):
                sweep_panel.elsewhere(sweep)
                if st.button("Cancel it", key=f"cancel {sweep.key}", icon=":material/stop:"):
                    sweeps.cancel(where.folder, sweep.key)
                    st.rerun()


shell.enter()
page()
