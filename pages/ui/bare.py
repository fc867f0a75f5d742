"""What if, before a curve is there: the slider moves the card and the noise all the same."""

from __future__ import annotations

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.views import noise
from pages.ui import blocks, sources, widgets


def instrument(data: str, id: str) -> None:
    """The slider with the noise, the card and one row; only this part runs again."""
    playing = bool(st.session_state.get("playing"))

    @st.fragment(run_every=1.0 if playing else None)
    def draw() -> None:
        if playing and widgets.play_is_over():
            st.rerun()
        epsilon = widgets.epsilon(link={"data": data, "mechanism": id})
        mechanism = registry.create(id, epsilon=epsilon)
        try:
            corner = sources.corner(data, mechanism.task)
            card = mechanism.guarantee(sources.facts(data, mechanism.task))
            rows = noise.before_after(mechanism, corner)
        except (DpmcError, OSError) as error:
            blocks.problem(error)
            return
        left, right = st.columns([2, 1], gap="large")
        with left:
            st.subheader("The noise at this epsilon")
            blocks.noise_of(id, noise.main_release(card), height=260)
            st.subheader("One person's row, before and after")
            blocks.row(id, rows)
        with right, st.container(border=True):
            blocks.guarantee(card.given(corner.prepared))

    draw()
