"""What does epsilon cost? One slider over computed curves; nothing is trained while it moves."""

import streamlit as st

from dpmc_core import curves, registry
from dpmc_core.errors import DpmcError
from dpmc_core.model import Mechanism
from dpmc_core.privacy import Guarantee
from dpmc_core.problem import split_words
from dpmc_core.views import cards, compare, noise, twins
from dpmc_core.views import curves as picture
from pages.ui import (
    blocks,
    curve_job,
    shell,
    sources,
    state,
    stored,
    widgets,
)
from pages.ui.charts import curve as charts_curve


def page() -> None:
    blocks.heading(
        "What does epsilon cost?",
        "Choose data and a mechanism, then move the slider: left is more private, right is more"
        " accurate.",
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        data = sources.pick()
        id = widgets.mechanism(sources.mechanisms(data))
        label = "Pause" if st.session_state.get("playing") else "Play"
        icon = ":material/pause:" if label == "Pause" else ":material/play_arrow:"
        st.button(label, icon=icon, on_click=widgets.toggle_play, help="Sweep over all epsilons.")
    found = sources.curves_of(data, id) or stored.curves(data, id)
    try:
        curve_job.panel(data, id, found)
        instrument(data, id, found)
    except (DpmcError, OSError) as error:
        blocks.problem(error)


def instrument(data: str, id: str, found: curves.Curves | None) -> None:
    """The slider with everything that moves with it; only this part runs again."""
    playing = bool(st.session_state.get("playing"))
    task = registry.get(id).task
    public = found.stamp.public if found else sources.facts(data, task)
    prepared = found.stamp.prepared if found else sources.corner(data, task).prepared

    @st.fragment(run_every=1.0 if playing else None)
    def draw() -> None:
        if playing and widgets.play_is_over():
            st.rerun()
        epsilon = widgets.epsilon(link={"data": data, "mechanism": id})
        mechanism = registry.create(id, epsilon=epsilon)
        card = mechanism.guarantee(public)
        left, right = st.columns([2, 1], gap="large")
        with left:
            if found is None:
                the_noise(id, card)
            else:
                curve(data, found, picture.situation(found, id, epsilon), card)
        with right:
            if found is not None:
                tiles(picture.situation(found, id, epsilon))
            with st.container(border=True):
                blocks.guarantee(card.given(prepared))
        if found is None:
            the_row(mechanism, data)
            return
        blocks.rankings(found, id, epsilon, certified=cards.upheld(card))
        left, right = st.columns(2, gap="large")
        with left:
            the_noise(id, card)
        with right:
            the_row(mechanism, data)

    draw()


def curve(data: str, found: curves.Curves, view: picture.Situation, card: Guarantee) -> None:
    """Accuracy against epsilon, with what it was measured on."""
    c, id = view.curve, view.curve.mechanism
    band = compare.band_words(compare.Band(c.epsilon, c.mean, c.low, c.high, c.seeds))
    blocks.chart(
        charts_curve.curve(view, certified=cards.upheld(card), theme=state.theme()),
        alt=picture.words(view),
        key="curve",
        caption=f"{blocks.EVALUATION} {blocks.sentence(band)} Tested on"
        f" {split_words(found.stamp.split)}."
        f" Privacy is counted {card.unit.label}. Filled markers are certified, hollow ones only"
        f" claimed. Version {found.stamp.version}, default settings.",
        table=picture.table(view),
    )
    if view.twin is not None and twins.is_above(c.metric, c.low, c.high, view.twin):
        st.caption(blocks.escape(twins.why_above([id], data)))


def tiles(view: picture.Situation) -> None:
    """The answer: the metric here, what privacy costs, and what it still gains over guessing."""
    if view.here is None:
        st.markdown(f"epsilon {view.epsilon:g} has not been computed yet.")
        return
    metric, here = view.curve.metric, view.here
    half = picture.amount(metric, here.half_width)
    st.metric(
        f"{picture.title(metric)} at epsilon {view.epsilon:g}",
        picture.amount(metric, here.mean),
        help="One seed: no interval."
        if here.seeds == 1
        else f"Mean over {here.seeds} seeds, plus or minus {half} (95 % t interval).",
    )
    for line in picture.comparison(view):
        st.markdown(line)


def the_noise(id: str, card: Guarantee) -> None:
    st.subheader("The noise at this epsilon")
    blocks.noise_of(id, noise.main_release(card), height=260)


def the_row(mechanism: Mechanism, data: str) -> None:
    st.subheader("One person's row, before and after")
    corner = sources.corner(data, mechanism.task)
    blocks.row(mechanism.id, noise.before_after(mechanism, corner))


shell.enter()
page()
