"""What two papers say of the noise, measured: a theorem of Z16, figures 5 and 6 of RYHH24."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from dpmc_core.errors import DpmcError
from dpmc_core.model import Task
from dpmc_core.problem import build_problem
from dpmc_core.ratings import Ratings
from dpmc_lab.papers import ryhh24, z16
from pages.ui import blocks, sources, widgets
from pages.ui.charts import paper_noise as charts
from pages.ui.report import Exhibit

RAN = "Ran, Ye, Huang, Hu, “Differentially Private Implicit Matrix Factorization”"
LONGEST = {0.15: "0.15, this app's default", 1.0: "1", 3.0: "3", 10.0: "10"}  # factors of figure 5
MEASURED = (0.1, 0.3, 1.0, 3.0, 10.0)  # epsilons at which recovery is measured


def bounds(id: str, epsilon: float) -> None:
    """Theorem 3 and Equation 5 beside measurements on generated ratings with a known truth."""
    st.header("What can be recovered from it")
    st.caption(
        "Measured on generated ratings whose truth is known, 300 users by 200 items, on the scale"
        " -1..1. Dashed: bounds on the residual that hold with chance 95 %, where they are near;"
        " the constant of Equation 5, on the error of the recovery, is not printed."
    )
    view = measured(id)
    told = z16.words(view, epsilon), z16.table(view)
    at, bound = (id, view, epsilon), z16.bounds_words(view)
    blocks.beside(
        [
            Exhibit("residual bound", "", "", charts.residual(*at), bound, *told),
            Exhibit("error bound", "", "", charts.error(*at), "", *told),
        ]
    )


@st.cache_data(max_entries=4, show_spinner="Collecting and recovering")
def measured(id: str) -> z16.RecoveryBounds:
    return z16.bounds(id, MEASURED)


def variants(data: str) -> None:
    """Figure 5 of the paper, from the cards of this app."""
    st.header("Noise of the variants (figure 5)", anchor=False)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        coefficient = widgets.switch(
            "Coefficient of the loss",
            "the coefficient",
            ryhh24.COEFFICIENTS,
            "coefficient",
            "second",
            help="A profile minimises a quadratic: noise enters its second-order part, its"
            " first-order part and the ridge. The paper's figure shows the second order.",
        )
        longest = widgets.choose(
            "Longest factor L",
            "the longest factor",
            LONGEST,
            "longest",
            0.15,
            width=260,
            help="The bound on the sum of sizes of a fixed factor's numbers. The bound on the root"
            " of the sum of squares goes along, at 0.47 of it.",
        )
    try:
        view = ryhh24.figure_5(sources.facts(data, Task.RANKING), coefficient, longest=longest)
    except (DpmcError, OSError) as error:
        blocks.problem(error)
        return
    blocks.chart(
        charts.densities(view, coefficient),
        alt=ryhh24.noise_words(view, coefficient),
        key="figure 5",
        caption=f"Exact densities from the releases of each variant's card, in the setting of"
        f" {RAN}, figure 5: epsilon 0.1, alpha 0.8, shares 0.1, 0.8, 0.1 of epsilon for first"
        " order, second moment and ridge. Taller and steeper is less noise; the vertical axis is"
        " logarithmic.",
        table=ryhh24.noise_table(view),
    )
    said(ryhh24.noise_sentences(view, coefficient))


def sampling(data: str) -> None:
    """Figure 6 of the paper, from the chosen data."""
    st.header("Which users to sample (figure 6)", anchor=False)
    try:
        with st.spinner("Fitting the factors of 2,000 users"):
            views = sources.look(data, user_weights)
    except (DpmcError, OSError) as error:
        blocks.problem(error)
        return
    blocks.beside(
        [
            Exhibit(
                f"figure 6, {view.sample:g}",
                "",
                f"A sample of {view.sample:g} of {len(view.norm):,} users",
                charts.weights(view),
                "",
                ryhh24.weights_words(view),
                ryhh24.weights_table(view),
            )
            for view in views
        ]
    )
    st.caption(
        f"Each user is drawn with chance 1/w, and a drawn click counts w times. {RAN}, figure 6,"
        f" has 2,000 users of ML-10M; here are the first {len(views[0].norm):,} of the chosen data,"
        f" with {ryhh24.RANK} factors each, fitted without privacy: for looking at, never to"
        " publish."
    )
    said(ryhh24.weights_sentences(views))


def user_weights(ratings: Ratings) -> tuple[ryhh24.SamplingWeights, ...]:
    clicks = build_problem((ratings, ratings), Task.RANKING).train
    return ryhh24.figure_6(ryhh24.user_factors(clicks))


def said(sentences: Mapping[str, str]) -> None:
    for head, sentence in sentences.items():
        st.markdown(f"- **{head}.** {blocks.escape(sentence)}")
