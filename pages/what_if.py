"""What does epsilon cost? One slider over computed curves; nothing is trained while it moves."""

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError, sentence
from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import Guarantee
from dpmc_core.problem import split_words
from dpmc_core.store import StoreError
from dpmc_core.sweep import Grid, Keys
from dpmc_core.sweep.presets import BOTH, EPSILONS
from dpmc_core.views import cards, lines, noise, ranking
from dpmc_core.views.lines import Line, Picture
from pages.ui import (
    blocks,
    rows,
    shell,
    sources,
    state,
    sweeps,
    widgets,
)
from pages.ui.charts import curve as charts_curve
from pages.ui.charts import ranking as charts_ranking
from pages.ui.rows import GridRows, Place

SEEDS = (1, 2, 3)  # of a curve that is computed here
TICK = 1.0  # seconds between two looks at the store, and two steps of the slider


def page() -> None:
    blocks.heading(
        "What does epsilon cost?",
        "Choose data and a mechanism, then move the slider: left is more private, right is more"
        " accurate.",
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        data = sources.pick()
        id = widgets.mechanism(data)
        label = "Pause" if st.session_state.get("playing") else "Play"
        icon = ":material/pause:" if label == "Pause" else ":material/play_arrow:"
        st.button(label, icon=icon, on_click=widgets.toggle_play, help="Sweep over all epsilons.")
    try:
        where = rows.place(data)
        grid = grid_of(where, id)
        came = rows.shipped(data, id)
        keys = rows.keys(grid, where) if came is None else rows.keys_of(came[0])
        running = came is None and runs(where, grid, keys)
        instrument(where, id, keys, running=running)
    except (DpmcError, OSError) as error:
        blocks.problem(error)


def grid_of(where: Place, id: str) -> Grid:
    """A curve for each estimator: same reports and certificate, what is made of them differs."""
    settings = BOTH if registry.has_setting(registry.get(id), "estimator") else {}
    return Grid(
        data=[where.data], mechanisms=[id], epsilons=EPSILONS, seeds=SEEDS, settings=settings
    )


def runs(where: Place, grid: Grid, keys: Keys) -> bool:
    """The runs behind a curve: begun, stopped and continued with one button; whether they run."""
    last = sweeps.look(where.folder, keys.name)
    if last is not None and last.running:
        if st.button("Stop", icon=":material/stop:"):
            sweeps.cancel(where.folder, keys.name)
            st.rerun()
        return True
    done, total = read(where, grid.mechanisms[0], keys).present, len(keys.units)
    if done < total:
        if done:
            st.info(f"{done} of {total} runs are there: the curve shows what there is.")
        else:
            st.info(f"This curve has not been computed: it takes {total} short training runs.")
        rows.ending(last, done, total)
        if where.private:
            spends = "On real data every run spends its epsilon again: publish none of it."
            st.caption(f"{spends} {rows.ON_DISK}")
        if st.button(
            "Continue" if done else "Compute the curve",
            type="primary",
            icon=":material/timeline:",
        ):
            rows.start(grid, where, keys)
            st.rerun()
    return False


def read(where: Place, id: str, keys: Keys) -> GridRows:
    """The curve in each metric, as it came with the app unless the store has it whole.

    Raises StoreError.
    """

    def whole(line: Line) -> bool:
        return line.has(EPSILONS, SEEDS)

    metrics = rows.metrics_of(registry.get(id).task)
    return rows.read(where, keys, [id], metrics, EPSILONS, enough=whole)


def curves(where: Place, id: str, keys: Keys) -> tuple[Picture, ...]:
    """What to draw; nothing before its first point. A store out of order hides no shipped curve."""
    try:
        found = read(where, id, keys).pictures
    except StoreError:
        came = rows.shipped(where.name, id)
        if came is None:
            raise
        return came
    return found if found[0].lines else ()


def instrument(where: Place, id: str, keys: Keys, *, running: bool) -> None:
    """The slider with everything that moves with it; only this part runs again."""
    playing = bool(st.session_state.get("playing"))

    @st.fragment(run_every=TICK if playing or running else None)
    def draw() -> None:
        if playing and widgets.play_is_over():
            st.rerun()
        if running:
            now = sweeps.look(where.folder, keys.name)
            if now is None or not now.running:
                st.rerun()
            rows.progress(now, read(where, id, keys).present, len(keys.units))
        if where.private:
            rows.tally()
        epsilon = widgets.epsilon(link={"data": where.name, "mechanism": id})
        show(where, id, epsilon, curves(where, id, keys))

    draw()


def show(where: Place, id: str, epsilon: float, found: tuple[Picture, ...]) -> None:
    """The curve with the answer and the card, and what the noise is and does at this epsilon."""
    mechanism = registry.create(id, epsilon=epsilon)
    if found:
        line = found[0].lines[0]
        public, prepared = line.info.public, line.prepared
    else:
        public = sources.facts(where.name, mechanism.task)
        prepared = sources.corner(where.name, mechanism.task).prepared
    card = mechanism.guarantee(public)
    left, right = st.columns([2, 1], gap="large")
    with left:
        if found:
            curve(found[0], epsilon, card)
        else:
            the_noise(id, card)
    with right:
        if found:
            tiles(found[0], epsilon)
        with st.container(border=True):
            blocks.guarantee(card.given(prepared))
    if not found:
        the_row(mechanism, where.name)
        return
    if mechanism.task is Task.RANKING:
        rankings(found, epsilon, certified=cards.upheld(card))
    left, right = st.columns(2, gap="large")
    with left:
        the_noise(id, card)
    with right:
        the_row(mechanism, where.name)


def curve(picture: Picture, epsilon: float, card: Guarantee) -> None:
    """Accuracy against epsilon, with what it was measured on."""
    line = picture.lines[0]
    blocks.chart(
        charts_curve.curve(picture, epsilon, certified=cards.upheld(card), theme=state.theme()),
        alt=lines.words_at(picture, epsilon),
        key="curve",
        caption=f"{blocks.EVALUATION} {sentence(lines.band_words(line.band))} Tested on"
        f" {split_words(line.info.split)}."
        f" Privacy is counted {card.change.label}. Filled markers are certified, hollow ones only"
        f" claimed. Version {line.version}, default settings.",
        table=lines.table_of(line),
    )
    for said in lines.apart_words(picture):
        st.caption(blocks.escape(said))


def tiles(picture: Picture, epsilon: float) -> None:
    """The answer: the metric here, what privacy costs, and what it still gains over guessing."""
    here, metric = picture.lines[0].at(epsilon), picture.metric
    if here is None:
        st.markdown(f"epsilon {epsilon:g} has not been computed yet.")
        return
    half = metric.text(here.half_width)
    st.metric(
        f"{metric.title} at epsilon {epsilon:g}",
        metric.text(here.mean),
        help="One seed: no interval."
        if here.seeds == 1
        else f"Mean over {here.seeds} seeds, plus or minus {half} (95 % t interval).",
    )
    for line in lines.gains(picture, epsilon):
        st.markdown(line)


def rankings(panels: tuple[Picture, ...], epsilon: float, *, certified: bool) -> None:
    """HR@10 and NDCG@10 against epsilon under both candidate sets, for methods that rank."""
    st.subheader("Ten items, ranked among few or among all")
    blocks.chart(
        charts_ranking.against_epsilon(panels, epsilon, certified=certified, theme=state.theme()),
        alt=ranking.panels_words(panels),
        key="rankings",
        caption="Dashed: no privacy. Dotted: popularity. Among 99 items drawn at random it is a"
        " far easier race than among all unseen items: compare numbers of one kind only.",
        table=ranking.panels_table(panels),
    )


def the_noise(id: str, card: Guarantee) -> None:
    st.subheader("The noise at this epsilon")
    blocks.noise_of(id, noise.main_release(card), height=260)


def the_row(mechanism: Mechanism, data: str) -> None:
    st.subheader("One person's row, before and after")
    blocks.row(mechanism.id, sources.before_after(data, mechanism))


shell.enter()
page()
