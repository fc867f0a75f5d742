"""One run, live: train a mechanism, then look at what it learned."""

import secrets

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.problem import build_problem
from dpmc_core.views.run_card import SEED_NOTE
from pages.ui import (
    blocks,
    live,
    prepare,
    result,
    rows,
    runs,
    shell,
    sources,
    state,
    widgets,
)

JOB = "train"


def page() -> None:
    blocks.heading(
        "Train one mechanism",
        "Choose data, a mechanism and epsilon, then press Train and watch it learn.",
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        data = sources.pick()
        id = widgets.mechanism(sources.mechanisms(data))
        wide = widgets.wide()
    epsilon = widgets.epsilon(wide, link={"data": data, "mechanism": id})
    try:
        dataset = sources.get(data)
    except (DpmcError, OSError) as error:
        blocks.problem(error)
        return
    cls = registry.get(id)
    chosen = widgets.settings(cls)
    with st.expander("Preparation, hold-out and randomness", icon=":material/shuffle:"):
        prepared = prepare.controls(dataset.ratings.public, cls.task)
        seed = randomness()
    mechanism = widgets.build(id, epsilon, chosen)
    job = state.jobs().get(JOB)
    busy = job is not None and job.snapshot().active
    with st.container(horizontal=True):
        if st.button(
            "Train",
            type="primary",
            icon=":material/play_arrow:",
            disabled=busy or mechanism is None,
        ):
            fresh = seed is None
            number = secrets.randbits(128) if fresh else seed
            work = runs.train(
                mechanism,
                lambda: build_problem(
                    dataset, cls.task, steps=prepared.steps, split=prepared.split, seed=number
                ),
                number,
                data=dataset.opened,
                reading=dataset.reading,
                title=dataset.title,
                split=prepared.split,
                fresh=fresh,
                spend=state.tally().spend if data == sources.UPLOAD else None,
            )
            state.jobs().start(JOB, work, about=data)
            st.rerun()
        st.button(
            "Stop",
            icon=":material/stop:",
            on_click=job.cancel if busy else None,
            disabled=not busy or job.snapshot().stopping,
        )
    if data == sources.UPLOAD:
        rows.tally()
    if job is None:
        st.caption("Nothing has been trained yet in this session.")
        return
    blocks.ticking(JOB, live.panel)
    now = job.snapshot()
    live.rounds(now)
    if now.result is not None:
        if now.state == "stopped" and not now.result.result.stopped:
            st.warning("Stopped before everything was trained that it is compared with.")
        result.show(now.result)


def randomness() -> int | None:
    """The seed, or None for fresh randomness from the operating system."""
    left, right = st.columns([1, 3], vertical_alignment="bottom")
    fresh = left.toggle(
        "Fresh randomness",
        key="fresh",
        bind="query-params",
        help="Take the seed from the operating system and forget it.",
    )
    state.number_from_link("seed", "the seed", 0, 2**31)
    seed = right.number_input(
        "Seed", 0, 2**31, 1, key="seed", bind="query-params", disabled=fresh, help=SEED_NOTE
    )
    return None if fresh else int(seed)


shell.enter()
page()
