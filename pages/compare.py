"""Mechanisms side by side: a sweep in the background, its curves while they fill, what follows."""

import io
import shlex
from dataclasses import replace

import streamlit as st

from dpmc_core import registry, store
from dpmc_core.errors import DpmcError, InvalidSetting
from dpmc_core.metrics import Metric, headline
from dpmc_core.model import Task
from dpmc_core.problem import default_split
from dpmc_core.store import Store
from dpmc_core.sweep import Grid, Keys, parse_epsilons
from dpmc_core.views import comparison, lines
from dpmc_core.views.lines import Count, Picture, Placed
from pages.ui import (
    blocks,
    prepare,
    report,
    rows,
    shell,
    sources,
    state,
    sweeps,
    widgets,
)
from pages.ui.charts import LIGHT, Figure, Theme
from pages.ui.charts import compare as charts_compare
from pages.ui.rows import GridRows, Place
from pages.ui.sweeps import Sweep

TICK = 0.5  # seconds between two looks at the store
MOST_SEEDS = 100
_GRIDS = {
    "coarse": "5 from 0.1 to 10",
    "medium": "10 from 0.1 to 10",
    "fine": "14 from 0.1 to 10",
    "wide": "9 from 0.01 to 100",
    rows.OWN: "my own list",
}
_TASKS = {
    Task.BINARY: "Likes and dislikes",
    Task.RATINGS: "Ratings",
    Task.RANKING: "Top lists",
}
_FIRST = 6  # mechanisms chosen at the start; more would hide each other


def page() -> None:
    blocks.heading(
        "Compare mechanisms",
        "Choose data, mechanisms, epsilons and seeds, then press Start: every finished run joins"
        " the chart and is kept.",
    )
    try:
        where, grid = controls()
        keys = rows.keys(grid, where)
        running = buttons(where, grid, keys)
        others(where, keys)
        watch(where, grid, keys, running=running)
    except (DpmcError, OSError) as error:
        blocks.problem(error)
        return
    with st.expander("The command that does the same", icon=":material/terminal:"):
        st.code(typed(where, grid), language="bash", wrap_lines=True)
        st.caption(
            f"It makes {len(keys.units):,} runs; the same command again goes on where it stopped."
            " Rows that it stores appear on this page."
        )


def controls() -> tuple[Place, Grid]:
    """The widgets; their values live in the address. Raises DpmcError for an impossible grid."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        data = sources.pick()
        task = the_task(data)
        named = widgets.choose(
            "epsilons",
            "the grid of epsilons",
            _GRIDS,
            "grid",
            "coarse",
            help="At which privacy budgets each mechanism is run: smaller is more private.",
        )
        seeds = widgets.number(
            "Seeds",
            "the number of seeds",
            1,
            MOST_SEEDS,
            3,
            "seeds",
            width=140,
            help="How often each point is computed, with another split and other noise. The band"
            " shows how much the seeds disagree.",
        )
    text = ""
    if named == rows.OWN:
        text = st.text_input(
            "epsilons",
            "0.5, 1, 2, 4",
            key="epsilons",
            bind="query-params",
            help="Numbers > 0 separated by commas, or LOW:HIGH:COUNT, spread evenly over the"
            " logarithmic scale: 0.1:10:11.",
        )
    ids = the_mechanisms(task)
    with st.expander("Preparation and hold-out", icon=":material/shuffle:"):
        steps, split = prepare.controls(sources.get(data).ratings.public, task)
    if not ids:
        raise InvalidSetting("mechanisms", "at least one: choose what to compare", "none")
    where = rows.place(data)
    grid = Grid(
        data=[where.data],
        mechanisms=ids,
        epsilons=rows.GRIDS.get(named) or parse_epsilons([text], "epsilons"),
        seeds=range(1, int(seeds) + 1),
        steps=[str(step) for step in steps],
        split=None if split == default_split(task) else split,
    )
    return where, grid


def the_task(data: str) -> Task:
    known = sources.tasks(data)
    if len(known) == 1:
        return known[0]
    return widgets.choose(
        "Task",
        "the task",
        {task: _TASKS[task] for task in known},
        "task",
        known[0],
        help="What is predicted. Methods for different tasks cannot share a chart.",
    )


def the_mechanisms(task: Task) -> list[str]:
    names = {id: registry.get(id).name for id in registry.noisy(task)}
    state.many_from_link("mechanisms", "the mechanism", names)
    first = list(names)[:_FIRST]
    if now := st.session_state.get("mechanisms"):  # maybe chosen for another task
        st.session_state["mechanisms"] = [id for id in now if id in names] or first
    chosen = st.pills(
        "Mechanisms",
        list(names),
        selection_mode="multi",
        default=first,
        format_func=names.__getitem__,
        key="mechanisms",
        bind="query-params",
        help="Each is drawn in its own colour, marker and dash, the same on every page.",
    )
    return [id for id in names if id in chosen]


def typed(where: Place, grid: Grid) -> str:
    """The command line of the grid, for people to copy."""
    shown = replace(grid, data=["YOUR_FILE"]) if where.private else grid
    return shlex.join(["dpmc", "sweep", *shown.argv()])


def read(where: Place, grid: Grid, keys: Keys) -> GridRows:
    """The rows of the grid in its headline metric. Raises StoreError."""
    metric = headline(registry.get(grid.mechanisms[0]).task)
    return rows.read(where, keys, grid.mechanisms, [metric], grid.epsilons, grid.seeds)


def buttons(where: Place, grid: Grid, keys: Keys) -> bool:
    """Start, Resume and Cancel of this very grid, whoever started it; whether it runs."""
    last = sweeps.look(where.folder, keys.name)
    running = last is not None and last.running
    present = read(where, grid, keys).present
    idle = not running and present < len(keys.units)
    with st.container(horizontal=True, vertical_alignment="center"):
        start = st.button(
            "Resume" if idle and present else "Start",
            type="primary",
            icon=":material/play_arrow:",
            disabled=not idle,
        )
        cancel = st.button("Cancel", icon=":material/stop:", disabled=not running)
    if where.private and idle:
        st.caption(rows.ON_DISK)
    if start and idle:
        rows.start(grid, where, keys)
        st.rerun()
    if cancel:
        sweeps.cancel(where.folder, keys.name)
        st.rerun()
    return running


def others(where: Place, keys: Keys) -> None:
    """Other grids that run in the background can be looked at or ended from here."""
    for other in sweeps.found(where.folder):
        if not other.running or other.key == keys.name:
            continue
        with st.container(horizontal=True, vertical_alignment="center"):
            counts = other.counts
            done = counts.get("skipped", 0) + counts.get("done", 0)
            far = f": {done:,} of {counts['total']:,} runs" if counts else ""
            title = blocks.escape(str(other.about.get("title", "other data")))
            url = widgets.address(other.about.get("link", {}))
            st.markdown(f"Another grid is being computed on {title}{far}. [Look at it]({url})")
            if st.button("Cancel it", key=f"cancel {other.key}", icon=":material/stop:"):
                sweeps.cancel(where.folder, other.key)
                st.rerun()


def watch(where: Place, grid: Grid, keys: Keys, *, running: bool) -> None:
    """Progress and all that the rows so far say; only this part runs again by itself."""

    @st.fragment(run_every=TICK if running else None)
    def panel() -> None:
        now = sweeps.look(where.folder, keys.name)
        if running and not (now is not None and now.running):
            st.rerun()
        try:
            there = read(where, grid, keys)
            progress(where, keys, now, there.present)
            show(where, grid, keys, there, running=running)
        except DpmcError as error:
            blocks.problem(error)

    panel()


def progress(where: Place, keys: Keys, now: Sweep | None, done: int) -> None:
    """How far the runs of this grid are, and how the last attempt ended."""
    total = len(keys.units)
    if now is not None and now.running:
        rows.progress(now, done, total)
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
    rows.ending(now, done, total)
    if where.private:
        rows.tally()


def show(where: Place, grid: Grid, keys: Keys, there: GridRows, *, running: bool) -> None:
    """Everything there is to see, from the rows so far; an empty chart before the first."""
    count = widgets.switch(
        "What an epsilon counts",
        "the unit",
        {count: count.value for count in Count},
        "count",
        Count.PAPER,
        help="Papers protect different things: one rating, a cell, everything one person gave."
        " The same unit uses only what is certified.",
    )
    picture = there.pictures[0]
    placed = [lines.place(line, count) for line in picture.lines]
    theme = state.theme()
    marks = (keys.name, there.last, count, theme.name)
    said = [blocks.EVALUATION, lines.caption(placed), lines.came_words(picture)]
    left, right = st.columns([3, 2], gap="large")
    with left:
        blocks.chart(
            state.kept(
                "comparison figure", marks, lambda: figure(grid, picture, placed, count, theme)
            ),
            alt=lines.words(picture, placed),
            caption=" ".join(said),
            table=lines.table(placed),
            key="comparison",
        )
    with right:
        if placed:
            means = lines.means_table(placed)
            wide = 16 + 7 * max(map(len, means["mechanism"]))  # none is cut off
            blocks.show_table(
                means,
                alt="Means over seeds: one row per mechanism, one column per epsilon",
                column_config={
                    "mechanism": st.column_config.TextColumn(pinned=True, width=min(240, wide))
                },
            )
        for one in placed:
            if not one.solid:
                label = blocks.escape(one.line.label)
                st.markdown(
                    f":material/radio_button_unchecked: **{label}** is hollow:"
                    f" {blocks.escape(one.reason)}."
                )
    for sentence in lines.apart_words(picture):
        st.caption(blocks.escape(sentence))
    if running:
        st.caption("What follows from the curves is said here once the runs are through.")
    elif placed:
        consequences(where, grid, keys, there, picture, placed, said, count)


def figure(
    grid: Grid, picture: Picture, placed: list[Placed], count: Count, theme: Theme
) -> Figure:
    drawn = {one.line.mechanism for one in placed}
    waiting = [id for id in grid.mechanisms if id not in drawn]
    ends = (min(grid.epsilons), max(grid.epsilons))
    guesses = [lines.place(guess, count) for guess in picture.guesses]
    return charts_compare.compare(picture, placed, ends, theme, waiting, guesses)


def consequences(
    where: Place,
    grid: Grid,
    keys: Keys,
    there: GridRows,
    picture: Picture,
    placed: list[Placed],
    said: list[str],
    count: Count,
) -> None:
    """Who is better where, what a wanted quality costs, and everything to take along."""
    left, right = st.columns(2, gap="large")
    won, rest = comparison.verdicts(placed, comparison.same_seeds())
    with left:
        st.header("Which is better, and where?", anchor=False)
        for sentence in won:
            st.markdown(f"- {blocks.escape(sentence)}")
        if len(placed) > 1:
            st.caption(comparison.HOW)
        if rest:
            with st.expander(f"Pairs the seeds cannot tell apart: {len(rest)}", type="compact"):
                for sentence in rest:
                    st.markdown(f"- {blocks.escape(sentence)}")
    with right:
        st.header("What does a wanted quality cost?", anchor=False)
        planner(picture, placed)

    def as_html() -> str:
        title = f"Mechanisms compared on {sources.names()[where.name]}"
        light = figure(grid, picture, placed, count, LIGHT)
        told = [" ".join(said[:2]), said[2], *won, *rest]
        return report.comparison(title, light, told, lines.table(placed), typed(where, grid))

    def csv() -> str:
        """Every stored row of the curves, also of other epsilons and seeds. Raises StoreError."""
        stream = io.StringIO()
        with Store(where.store, read_only=True) as file:
            store.write_csv(file, store.curves(file, keys=keys.curves, count=False), stream)
        return stream.getvalue()

    with st.container(horizontal=True):
        if there.present:  # curves that came with the app have no rows in the store
            st.download_button(
                "Rows (CSV)",
                csv,
                f"compare-{where.name}.csv",
                "text/csv",
                on_click="ignore",
                icon=":material/table:",
            )
        st.download_button(
            "Chart and numbers (HTML)",
            as_html,
            f"compare-{where.name}.html",
            "text/html",
            on_click="ignore",
            icon=":material/html:",
        )


def planner(picture: Picture, placed: list[Placed]) -> None:
    """The smallest epsilon for a wanted quality, mechanism by mechanism."""
    wanted = the_quality(picture, placed)
    without = next((level for name, level in picture.levels if name == lines.WITHOUT), None)
    for one in placed:
        answer = comparison.smallest_epsilon(one, wanted, comparison.same_seeds())
        st.markdown(f"- {blocks.escape(comparison.answer_words(answer, without))}")
    st.caption(
        "From a monotone fit of the means, never extended beyond the epsilons computed; the"
        " interval comes from resampled seeds."
    )


def the_quality(picture: Picture, placed: list[Placed]) -> float:
    """The wanted value of the metric on a slider."""
    metric: Metric = picture.metric
    levels = [level.level.mean for _, level in picture.levels]
    middle = sum(levels) / len(levels) if levels else 0.5
    key = f"wanted {metric.name}"
    if metric.share:
        low = 50.0 if metric.name == "accuracy" else 0.0
        state.number_from_link(key, f"the wanted {metric.spoken}", low, 100.0)
        start = min(100.0, max(low, float(round(100 * middle))))
        label = f"Wanted {metric.spoken}"
        percent = st.slider(label, low, 100.0, start, 0.5, "%.1f %%", key=key, bind="query-params")
        return float(percent) / 100
    means = [float(v) for one in placed for v in one.band.mean]
    low, high, step = comparison.limits([*levels, *means])
    state.number_from_link(key, f"the wanted {metric.spoken}", low, high)
    if not low <= st.session_state.get(key, low) <= high:  # chosen for other rows
        del st.session_state[key]
    start = step * round((middle if levels else (low + high) / 2) / step)
    start = min(high, max(low, start))
    label = f"Wanted {metric.spoken} at most"
    chosen = st.slider(label, low, high, start, step, "%.4g", key=key, bind="query-params")
    return float(chosen)


shell.enter()
page()
