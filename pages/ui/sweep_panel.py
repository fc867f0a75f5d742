"""How a sweep is going, in words, and how to pass it on."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

import streamlit as st

from dpmc_core.errors import DpmcError
from pages.ui import blocks, grid, rows, state
from pages.ui.grid import Choice, Place, Target
from pages.ui.rows import Rows
from pages.ui.sweeps import Sweep


def progress(where: Place, target: Target, sweep: Sweep | None, there: Rows) -> None:
    """How far the runs of this grid are, and how the last attempt ended."""
    total, done = len(target.units), there.present
    if sweep is not None and sweep.running:
        left = sweep.counts.get("seconds_left")
        far = "starting" if left is None else f"about {blocks.duration(left)} left"
        st.progress(done / total, text=f"{done:,} of {total:,} runs · {far}")
        if sweep.counts.get("note"):
            st.warning(blocks.escape(blocks.sentence(sweep.counts["note"])))
    elif done == total:
        st.caption(f"All {total:,} runs of this grid are there.")
    elif done:
        st.info(
            f"{done:,} of {total:,} runs are there; Resume goes on with the others.",
            icon=":material/pause_circle:",
        )
    else:
        st.info(
            f"No run of this grid has been computed here yet: it takes {total:,} short training"
            " runs. The first points appear within seconds.",
            icon=":material/timeline:",
        )
    if sweep is not None and sweep.message and done < total:
        blocks.problem(DpmcError(sweep.message))
    if where.private:
        tally()


def tally() -> None:
    """What all runs on an upload have spent together: sweeps here, Train, What if."""
    swept, trained = rows.spent(state.private().store), state.tally().spent
    runs, epsilon = swept[0] + trained[0], swept[1] + trained[1]
    st.warning(
        f"Spent on your ratings in {runs:,} private run{'' if runs == 1 else 's'}: epsilon"
        f" {epsilon:,.4g} in all, as each paper counts. Sweeps: {swept[0]:,}; Train and What if:"
        f" {trained[0]:,}. Every run, seed and epsilon spends again, and the methods without"
        " privacy protect nothing: what they find is for you alone.",
        icon=":material/toll:",
    )


def share(choice: Choice) -> None:
    """How to pass this view on."""
    with st.popover("Share", icon=":material/share:"):
        st.markdown(
            "The browser's address bar holds every choice on this page: copy it, and whoever opens"
            " it sees the same comparison. Or only the grid:"
        )
        st.code(_address(grid.link(choice)), language=None, wrap_lines=True)


def elsewhere(sweep: Sweep) -> None:
    """Another grid that is being computed."""
    counts = sweep.counts
    done = counts.get("skipped", 0) + counts.get("done", 0)
    far = f": {done:,} of {counts['total']:,} runs" if counts else ""
    title = blocks.escape(str(sweep.about.get("title", "other data")))
    url = _address(sweep.about.get("link", {}))
    st.markdown(f"Another grid is being computed on {title}{far}. [Look at it]({url})")


def _address(link: Mapping[str, object]) -> str:
    return f"{(st.context.url or '').split('?')[0]}?{urlencode(link, doseq=True)}"
