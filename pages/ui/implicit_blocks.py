"""Figures 5 and 6 of the DPIMF paper on the Noise page, computed from this app's cards and data."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.mechanisms.dpimf import Dpimf
from dpmc_core.model import Task
from dpmc_core.problem import build_problem
from dpmc_core.ratings import Ratings
from dpmc_core.views import implicit
from pages.ui import blocks, charts_implicit, sources, state

_PAPER = "Ran, Ye, Huang, Hu, “Differentially Private Implicit Matrix Factorization”"
_BOUNDS = {None: "0.15, this app's default", 1.0: "1", 3.0: "3", 10.0: "10"}


def figures(data: str, id: str) -> None:
    """Both figures, for a variant of DPIMF."""
    if not issubclass(registry.get(id), Dpimf):
        return
    st.header("The paper's figures, computed here", anchor=False)
    _variants(data)
    _sampling(data)


@st.fragment
def _variants(data: str) -> None:
    st.subheader("Noise of the variants (figure 5)")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        coefficient = st.segmented_control(
            "Coefficient of the loss",
            list(implicit.COEFFICIENTS),
            default="second",
            required=True,
            format_func=implicit.COEFFICIENTS.__getitem__,
            key="figure 5 coefficient",
            help="A profile minimises a quadratic: noise enters its second-order part, its"
            " first-order part and the ridge. The paper's figure shows the second order.",
        )
        longest = st.selectbox(
            "Longest factor L",
            list(_BOUNDS),
            format_func=_BOUNDS.__getitem__,
            key="figure 5 longest",
            width=260,
            help="The bound on the sum of sizes of a fixed factor's numbers. The bound on the root"
            " of the sum of squares goes along, at 0.47 of it.",
        )
    try:
        view = implicit.figure_5(sources.facts(data, Task.RANKING), coefficient, longest=longest)
    except (DpmcError, OSError) as error:
        blocks.problem(error)
        return
    blocks.chart(
        charts_implicit.densities(view, coefficient, state.theme()),
        alt=implicit.noise_words(view, coefficient),
        key="figure 5",
        caption=f"Exact densities from the releases of each variant's card, in the setting of"
        f" {_PAPER}, figure 5: epsilon 0.1, alpha 0.8, shares 0.1, 0.8, 0.1 of epsilon for first"
        " order, second moment and ridge. Taller and steeper is less noise; the vertical axis is"
        " logarithmic.",
        table=implicit.noise_table(view),
    )
    _said(implicit.noise_sentences(view, coefficient))


def _sampling(data: str) -> None:
    st.subheader("Which users to sample (figure 6)")
    try:
        with st.spinner("Fitting the factors of 2,000 users"):
            views = sources.look(data, _weights)
    except (DpmcError, OSError) as error:
        blocks.problem(error)
        return
    for column, view in zip(st.columns(len(views), gap="large"), views, strict=True):
        with column:
            st.markdown(f"**A sample of {view.sample:g} of {len(view.norm):,} users**")
            blocks.chart(
                charts_implicit.weights(view, state.theme()),
                alt=implicit.weights_words(view),
                key=f"figure 6, {view.sample:g}",
                table=implicit.weights_table(view),
            )
    st.caption(
        f"Each user is drawn with chance 1/w, and a drawn click counts w times. {_PAPER}, figure 6,"
        f" has 2,000 users of ML-10M; here are the first {len(views[0].norm):,} of the chosen data,"
        f" with {implicit.RANK} factors each, fitted without privacy: for looking at, never to"
        " publish."
    )
    _said(implicit.weights_sentences(views))


def _weights(ratings: Ratings) -> tuple[implicit.SamplingWeights, ...]:
    clicks = build_problem((ratings, ratings), Task.RANKING).train
    return implicit.figure_6(implicit.user_factors(clicks))


def _said(sentences: Mapping[str, str]) -> None:
    for head, sentence in sentences.items():
        st.markdown(f"- **{head}.** {blocks.escape(sentence)}")
