"""The noise itself: its shape, its size against epsilon, and ratings before and after it."""

import streamlit as st

from dpmc_core import curves, registry
from dpmc_core.errors import DpmcError
from dpmc_core.mechanisms.collection import Collection
from dpmc_core.model import Mechanism
from dpmc_core.views import noise, noise_words
from pages.ui import (
    blocks,
    charts_noise,
    implicit_blocks,
    recovery_blocks,
    shell,
    sources,
    state,
    widgets,
)


def page() -> None:
    blocks.heading(
        "What the noise looks like",
        "Move epsilon and see the same noise three ways: its shape, its size, and what it does to"
        " ratings.",
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        data = sources.pick()
        id = widgets.mechanism(sources.mechanisms(data))
        wide = widgets.wide()
    chosen = widgets.settings(registry.get(id))
    draw(data, id, wide, chosen)
    implicit_blocks.figures(data, id)


@st.fragment
def draw(data: str, id: str, wide: bool, chosen: dict | None) -> None:
    """All that moves with epsilon."""
    epsilon = widgets.epsilon(wide, link={"data": data, "mechanism": id})
    mechanism = widgets.build(id, epsilon, chosen)
    if mechanism is None:
        return
    try:
        corner = sources.corner(data, mechanism.task)
        public = sources.facts(data, mechanism.task)
        views = noise.before_after(mechanism, corner)
    except (DpmcError, OSError) as error:
        blocks.problem(error)
        return
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Its shape")
        for _, release in mechanism.guarantee(public).releases:
            blocks.noise_of(id, release)
    with right:
        st.subheader("Its size")
        sizes(id, epsilon, wide, chosen, public)
    if views:
        st.subheader("What it does to ratings")
    for number, view in enumerate(views):
        rows(mechanism, view, "row" if number == 0 else f"row {number}")
    if isinstance(mechanism, Collection):
        recovery_blocks.bounds(id, epsilon)


def sizes(id: str, epsilon: float, wide: bool, chosen: dict, public: sources.PublicFacts) -> None:
    """Noise against epsilon: the mechanisms that share the chosen one's kind of noise."""
    grid = widgets.grid(wide)
    views = []
    for other in curves.mechanisms(registry.get(id).task.value):
        settings = chosen if other == id else {}
        name = registry.get(other).name
        found = noise.scales(other, grid, public, settings, main=other != id)
        views += [(other, name, v) for v in found]
    unit = next((v.unit for other, _, v in views if other == id), None)
    alike = [view for view in views if view[2].unit == unit]
    if unit is None:
        st.markdown("This method adds no noise.")
        return
    others = sorted({name for _, name, v in views if v.unit != unit})
    label = registry.create(id, epsilon=epsilon, **chosen).guarantee(public).change.label
    blocks.chart(
        charts_noise.scales(alike, id, unit, epsilon, state.theme()),
        alt=noise_words.scales_words(alike, epsilon),
        key="scales",
        caption=noise_words.scales_caption({other for other, _, _ in alike}, others, label),
        table=noise_words.scales_table(alike),
    )


def rows(mechanism: Mechanism, view: noise.BeforeAfter, key: str) -> None:
    """One row and a block of the ratings, before and after one release."""
    id, theme = mechanism.id, state.theme()
    st.markdown(f"**Released: {blocks.escape(view.query)}**")
    st.caption(
        "The mechanism run on a corner of the data alone, the busiest users and the"
        f" {len(view.items)} most rated items. The values before the noise"
        " are raw: for looking at, never to publish."
    )
    left, right = st.columns(2, gap="large") if len(view.users) > 1 else (st.container(), None)
    with left:
        row, last = 1, len(view.users)
        if last > 1:
            words = f"1 is the first of the {view.rows}, the busiest."
            row = st.slider("Row", 1, last, 1, key=key, persist_state="session", help=words)
        blocks.chart(
            charts_noise.strip(id, view, row - 1, theme),
            alt=noise_words.words(view, row - 1),
            key=f"row of {view.query}",
            table=noise_words.row_table(view, row - 1),
        )
    if right is None:  # one number per item, all users together: the row says it all
        return
    with right:
        blocks.chart(
            charts_noise.heat(id, view, theme),
            alt=noise_words.block_words(view),
            key=f"block of {view.query}",
            caption=noise_words.block_caption(view),
            table=noise_words.block_table(view),
        )


shell.enter()
page()
