"""The runs behind a curve of What if: begun, stopped and continued with one button."""

from __future__ import annotations

import streamlit as st

from dpmc_core import curves
from pages.ui import blocks, runs, sources, state

SEEDS = (1, 2, 3)


def panel(data: str, id: str, found: curves.Curves | None) -> None:
    """The button, how far the runs are, and what became of them; nothing for a whole curve."""
    name = sources.curve_job(data, id)
    job = state.jobs().get(name)
    now = None if job is None else job.snapshot()
    if now is not None and now.active:
        st.button(
            "Stop", icon=":material/stop:", on_click=job.cancel, disabled=now.stopping, key="stop"
        )
        blocks.ticking(name, blocks.progress_or_problem)
        return
    before = now.points[-1] if now is not None and now.points else None
    if found is not None and (found is not before or now.done >= now.total):
        return
    if before is None:
        count = len(curves.EPSILONS) * len(SEEDS)
        st.info(f"This curve has not been computed: it takes {count} short training runs.")
    else:
        st.info(f"{now.done} of {now.total} runs, stopped: the curve shows what there is.")
    if now is not None:
        blocks.progress_or_problem(now)
    if data == sources.UPLOAD:
        st.caption("On real data every run spends its epsilon again: publish none of it.")
    if st.button(
        "Compute the curve" if before is None else "Continue",
        type="primary",
        icon=":material/timeline:",
    ):
        dataset = sources.get(data)
        spend = state.tally().spend if data == sources.UPLOAD else None
        work = runs.curve(lambda: dataset, [id], curves.EPSILONS, SEEDS, {}, spend, before)
        state.jobs().start(name, work, about=data)
        st.rerun()
