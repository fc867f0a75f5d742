"""What can be recovered from collected rows, in theory and in practice."""

from __future__ import annotations

import streamlit as st

from dpmc_core.views import recovery
from pages.ui import blocks, charts_recovery, state

_EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)


def bounds(id: str, epsilon: float) -> None:
    """Theorem 3 and Equation 5 beside measurements on generated ratings with a known truth."""
    st.subheader("What can be recovered from it")
    st.caption(
        "Measured on generated ratings whose truth is known, 300 users by 200 items, on the scale"
        " -1..1. Theorem 3 bounds the residual with chance 95 %; Equation 5 the error of the"
        " recovery, with its open constant taken as 1."
    )
    view, words = _measured(id), recovery.words(_measured(id), epsilon)
    left, right = st.columns(2, gap="large")
    with left:
        fig = charts_recovery.residual(id, view, epsilon, state.theme())
        blocks.chart(fig, alt=words, table=recovery.table(view), key="residual bound")
    with right:
        fig = charts_recovery.error(id, view, epsilon, state.theme())
        blocks.chart(fig, alt=words, table=recovery.table(view), key="error bound")


@st.cache_data(max_entries=4, show_spinner="Collecting and recovering")
def _measured(id: str) -> recovery.RecoveryBounds:
    return recovery.bounds(id, _EPSILONS)
