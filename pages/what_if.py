"""What does epsilon cost? One slider over computed curves; nothing is trained while it moves."""

import streamlit as st

from dpmc_core import curves, registry
from dpmc_core.privacy import Guarantee
from dpmc_core.views import cards, noise, twins
from dpmc_core.views import curves as picture
from pages.ui import (
    blocks,
    charts_curve,
    runs,
    shell,
    sources,
    state,
    stored,
    widgets,
)

SEEDS = (1, 2, 3)


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
    if found is not None:
        instrument(data, id, found)
    else:
        compute(data, id)


def instrument(data: str, id: str, found: curves.Curves) -> None:
    """The slider with everything that moves with it; only this part runs again."""
    playing = bool(st.session_state.get("playing"))

    @st.fragment(run_every=1.0 if playing else None)
    def draw() -> None:
        if playing and widgets.play_is_over():
            st.rerun()
        epsilon = widgets.epsilon(link={"data": data, "mechanism": id})
        card = registry.create(id, epsilon=epsilon).guarantee(found.stamp.public)
        view = picture.situation(found, id, epsilon)
        left, right = st.columns([2, 1], gap="large")
        with left:
            blocks.chart(
                charts_curve.curve(view, certified=cards.upheld(card), theme=state.theme()),
                alt=picture.words(view),
                key="curve",
                caption=f"{blocks.EVALUATION} Band: 95 % t interval of the mean over"
                f" {view.curve.seeds} seeds, tested on {found.stamp.split}. Privacy is counted"
                f" {card.unit.label}. Filled markers are certified, hollow ones only claimed."
                f" Version {found.stamp.version}, default settings.",
                table=picture.table(view),
            )
            c, twin = view.curve, view.twin
            if twin is not None and twins.is_above(c.metric, c.low, c.high, twin):
                st.caption(blocks.escape(twins.why_above([id], data)))
        with right:
            tiles(view)
            with st.container(border=True):
                blocks.guarantee(card.given(found.stamp.prepared))
        blocks.rankings(found, id, epsilon, certified=cards.upheld(card))
        pictures(data, id, epsilon, card)

    draw()


def tiles(view: picture.Situation) -> None:
    """The answer: the metric here, what privacy costs, and what it still gains over guessing."""
    if view.here is None:
        st.markdown(f"epsilon {view.epsilon:g} has not been computed yet.")
        return
    metric = view.curve.metric
    st.metric(
        f"{picture.title(metric)} at epsilon {view.epsilon:g}",
        picture.amount(metric, view.here.mean),
        help=f"Mean over {view.here.seeds} seeds, plus or minus"
        f" {picture.amount(metric, view.here.half_width)} (95 % t interval).",
    )
    for line in picture.comparison(view):
        st.markdown(line)


def pictures(data: str, id: str, epsilon: float, card: Guarantee) -> None:
    """The noise at this epsilon, and one row before and after it."""
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("The noise at this epsilon")
        blocks.noise_of(id, noise.main_release(card), height=260)
    with right:
        st.subheader("One person's row, before and after")
        mechanism = registry.create(id, epsilon=epsilon)
        blocks.row(id, noise.before_after(mechanism, sources.corner(data, mechanism.task)))


def compute(data: str, id: str) -> None:
    """No curve yet: one button runs it, in the background."""
    name, runs_needed = sources.curve_job(data, id), len(curves.EPSILONS) * len(SEEDS)
    if (job := state.jobs().get(name)) is None or not job.snapshot().active:
        st.info(f"This curve has not been computed: it takes {runs_needed} short training runs.")
        if data == sources.UPLOAD:
            st.caption("On real data every run spends its epsilon again: publish none of it.")
        dataset = sources.get(data)
        spend = state.tally().spend if data == sources.UPLOAD else None
        work = runs.curve(lambda: dataset, [id], curves.EPSILONS, SEEDS, {}, spend)
        if st.button("Compute the curve", type="primary", icon=":material/timeline:"):
            state.jobs().start(name, work, about=data)
            st.rerun()
    elif st.button("Stop", icon=":material/stop:"):
        job.cancel()
    blocks.ticking(name, blocks.progress_or_problem)


shell.enter()
page()
