"""Mechanisms side by side: a sweep in the background, its curves while they fill, what follows."""

import io
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError, InvalidSetting
from dpmc_core.lab import store
from dpmc_core.lab.store import Store
from dpmc_core.lab.sweep import Grid, Keys, parse_epsilons
from dpmc_core.lab.teach import glossary
from dpmc_core.lab.views import as_published, comparison, lines, numbers
from dpmc_core.lab.views.comparison import Standing
from dpmc_core.lab.views.lines import Count, Picture, Placed
from dpmc_core.metrics import headline
from dpmc_core.model import Task
from dpmc_core.problem import default_split
from pages.ui import (
    blocks,
    classroom,
    prepare,
    report,
    rows,
    shell,
    sources,
    state,
    sweeps,
    widgets,
)
from pages.ui.charts import Figure
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
NEUTRAL = "Compare mechanisms"
_FIRST = 6  # mechanisms chosen at the start; more would hide each other


def page() -> None:
    top, title = st.container(), NEUTRAL  # the title says what the rows below it say
    try:
        where, grid = controls()
        keys = both(grid, where)
        running = buttons(where, grid, keys)
        others(where, keys)
        title = watch(where, grid, keys, running=running) or NEUTRAL
        with st.expander("The command that does the same", icon=":material/terminal:"):
            st.code(typed(where, grid), language="bash", wrap_lines=True)
            st.caption(
                f"It makes {len(keys.units):,} runs; the same command again goes on where it"
                " stopped. Rows that it stores appear on this page."
            )
    except (DpmcError, OSError) as error:
        blocks.problem(error)
    with top:
        blocks.heading(
            blocks.escape(title).replace(" %", "\u00a0%"),
            "Choose mechanisms and a wanted quality; what has no curve yet is computed by Start.",
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
            "fine",
            help=f"What each mechanism is run at. {glossary.help('epsilon')}",
        )
        usual = rows.usual_seeds(data, task)
        if st.session_state.get("seeds") == st.session_state.get("usual seeds", usual) != usual:
            st.session_state["seeds"] = usual  # as it stood for other data
        st.session_state["usual seeds"] = usual
        seeds = widgets.number(
            "Seeds",
            "the number of seeds",
            1,
            MOST_SEEDS,
            usual,
            "seeds",
            width=140,
            help="How often each point is computed, with another split and other noise."
            f" {glossary.help('band')}",
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
    with st.container(horizontal=True):
        published = widgets.as_published()
        facts = widgets.facts(data, ids)
    if published:
        papers(data, ids, task)
    with st.expander("Preparation and hold-out", icon=":material/shuffle:"):
        ratings = sources.get(data).ratings
        timed = ratings.times is not None
        steps, split = prepare.controls(ratings.public, task, timed=timed)
    if not ids:
        raise InvalidSetting("mechanisms", "at least one: choose what to compare", "none")
    where = rows.place(data)._replace(steps=facts)
    grid = Grid(
        data=[where.data],
        mechanisms=ids,
        epsilons=rows.GRIDS.get(named) or parse_epsilons([text], "epsilons"),
        seeds=range(1, int(seeds) + 1),
        steps=[*map(str, steps), *facts],
        split=None if split == default_split(task) else split,
    )
    return where, grid.as_published() if published else grid


def both(grid: Grid, where: Place) -> Keys:
    """What the grid asks for; with public facts, its curves without them stand beside them."""
    keys = rows.keys(grid, where)
    if not where.steps:
        return keys
    plain = replace(grid, steps=[step for step in grid.steps if step not in where.steps])
    before = rows.keys(plain, where).curves.items()
    takes = {id for id in grid.mechanisms if registry.takes_facts(registry.get(id))}
    more = {key: id for key, id in before if id in takes}
    return keys._replace(curves=more | dict(keys.curves))


def papers(data: str, ids: list[str], task: Task) -> None:
    """What the papers' settings change and what they cost."""
    found = as_published.table(ids, sources.facts(data, task), 1.0)
    with st.expander("What the papers' settings change", icon=":material/history_edu:"):
        if found["mechanism"]:
            blocks.show_table(found, alt="Settings and certificates as published")
        else:
            st.caption("Nothing for these mechanisms.")


def the_task(data: str) -> Task:
    known = sources.tasks(data)
    if len(known) == 1:
        return known[0]
    return widgets.choose(
        "Predict",
        "the task",
        {task: _TASKS[task] for task in known},
        "task",
        known[0],
        help="What is predicted. Mechanisms for different tasks cannot share a chart.",
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
    """Start, Go on and Stop of this very grid, whoever started it; whether it runs."""
    last = sweeps.look(where.folder, keys.name)
    running = last is not None and last.running
    there = read(where, grid, keys)
    idle = not running and there.present + there.came < len(keys.units)
    if idle and blocks.reserved("compute a grid", "What is there is drawn for everybody."):
        return False
    with st.container(horizontal=True, vertical_alignment="center"):
        start = st.button(
            "Go on" if idle and there.present else "Start",
            type="primary",
            icon=":material/play_arrow:",
            disabled=not idle,
        )
        stop = st.button("Stop", icon=":material/stop:", disabled=not running)
    if where.private and idle:
        st.caption(rows.ON_DISK)
    if start and idle:
        rows.start(grid, where, keys)
        st.rerun()
    if stop:
        rows.cancel(where, keys.name)
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
            if st.button("Stop it", key=f"stop {other.key}", icon=":material/stop:"):
                rows.cancel(where, other.key)
                st.rerun()


def watch(where: Place, grid: Grid, keys: Keys, *, running: bool) -> str:
    """Progress and all that the rows so far say; what they say in a title, '' while they arrive.

    While they do, only this part runs again by itself.
    """
    if not running:
        return panel(where, grid, keys, running=False)

    @st.fragment(run_every=TICK)
    def again() -> None:
        panel(where, grid, keys, running=True)

    again()
    return ""


def panel(where: Place, grid: Grid, keys: Keys, *, running: bool) -> str:
    now = sweeps.look(where.folder, keys.name)
    if running and not (now is not None and now.running):
        st.rerun()
    try:
        there = read(where, grid, keys)
        progress(where, keys, now, there)
        return show(where, grid, keys, there, running=running)
    except DpmcError as error:
        blocks.problem(error)
        return ""


def progress(where: Place, keys: Keys, now: Sweep | None, there: GridRows) -> None:
    """How far the runs of this grid are, and how the last attempt ended."""
    total, done = len(keys.units), there.present + there.came
    if now is not None and now.running:
        rows.progress(now, there.present, total)
    elif done == total:
        many = "they" if there.came == total else f"{there.came:,} of them"
        whence = f"; {many} came with the app" if there.came else ""
        st.caption(f"All {total:,} runs of this grid are there{whence}.")
    elif done:
        press = f": press {'Go on' if there.present else 'Start'} for the others"
        st.info(
            f"{done:,} of {total:,} runs are there{press if classroom.allowed() else ''}.",
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
        rows.ledger()


class Shown(NamedTuple):
    """What the page draws. waiting: mechanisms without a curve; across: the axis of epsilon."""

    picture: Picture
    placed: list[Placed]
    guesses: list[Placed]
    waiting: list[str]
    ends: tuple[float, float]

    @property
    def across(self) -> tuple[float, float]:
        return charts_compare.axis(self.ends, [*self.placed, *self.guesses])

    def curves(self) -> Figure:
        return charts_compare.compare(
            self.picture, self.placed, self.ends, self.waiting, self.guesses
        )


def show(where: Place, grid: Grid, keys: Keys, there: GridRows, *, running: bool) -> str:
    """Everything there is to see, from the rows so far; an empty chart before the first.

    Returns what it says in a title, '' where it says nothing.
    """
    count = widgets.switch(
        "What an epsilon counts",
        "the unit",
        {count: count.value for count in Count},
        "count",
        Count.PAPER,
        help=f"{glossary.help('unit')} Papers differ in it; the same unit uses only what is"
        " certified.",
    )
    picture = there.pictures[0]
    placed, guesses = (
        [lines.place(line, count) for line in side] for side in (picture.lines, picture.guesses)
    )
    drawn = {line.mechanism for line in picture.lines}
    waiting = [id for id in grid.mechanisms if id not in drawn]
    shown = Shown(picture, placed, guesses, waiting, (min(grid.epsilons), max(grid.epsilons)))
    marks = (keys.name, there.last, count)
    said = [blocks.EVALUATION, lines.caption(placed)]
    if lines.envelope(placed) is not None:
        said.append(f"Pale line: {lines.ENVELOPE}.")
    floor = numbers.guess_words(picture) if count is Count.PAPER and not running else ""
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.header(
            blocks.escape(floor or "What does privacy cost?"),
            anchor=False,
            help=glossary.help("guessing", "without"),
        )
        blocks.chart(
            state.kept("comparison figure", marks, shown.curves),
            alt=lines.words(picture, placed),
            caption=" ".join(said),
            table=lines.table(placed),
            key="comparison",
        )
        for sentence in lines.apart_words(picture):
            st.caption(blocks.escape(sentence))
    if running or not placed:
        with right:
            hollow(placed)
            if running:
                st.caption("What follows from the curves is drawn here once the runs are through.")
        if placed:
            means(shown)
        return ""
    with right:
        cost, title = price(shown, marks)
    left, right = st.columns([3, 2], gap="large")
    with left:
        better = standing(shown, marks)
    with right:
        hollow(placed)
        parts = [Part("", shown.curves, [" ".join(said)]), cost, better]
        downloads(where, grid, keys, there, parts, lines.table(placed))
    means(shown)
    return title


def hollow(placed: list[Placed]) -> None:
    """Why some curves are only claimed, for those who ask."""
    claimed = [one for one in placed if not one.solid]
    if not claimed:
        return
    names = ", ".join(lines.short_label(one.line) for one in claimed)
    with st.expander(f"Why hollow? {blocks.escape(names)}", type="compact"):
        for one in claimed:
            label, reason = blocks.escape(one.line.label), blocks.escape(one.reason)
            st.markdown(f"**{label}** is hollow: {reason}.")


def means(shown: Shown) -> None:
    """All means of all epsilons, as wide as the page."""
    table = lines.means_table(shown.placed)
    for id in shown.waiting:
        for name, column in table.items():
            missing = f"{registry.short_name(id)} ({charts_compare.MISSING})"
            column.append(missing if name == "mechanism" else "")
    wide = 24 + 7 * max(map(len, ["mechanism...", *table["mechanism"]]))  # none is cut off
    columns = {name: st.column_config.TextColumn(width=56) for name in table}
    columns["mechanism"] = st.column_config.TextColumn(pinned=True, width=min(260, wide))
    st.header(f"Mean {shown.picture.metric.spoken} at every epsilon", anchor=False)
    blocks.show_table(
        table,
        alt="Means over seeds: one row per mechanism, one column per epsilon",
        column_config=columns,
    )


class Part(NamedTuple):
    """A picture with its title and sentences; draw: None where there is nothing to draw."""

    title: str
    draw: Callable[[], Figure] | None
    words: list[str]


def price(shown: Shown, marks: tuple[object, ...]) -> tuple[Part, str]:
    """What a wanted quality costs; and that as a title of the page."""
    picture, placed = shown.picture, shown.placed
    st.header("What does a wanted quality cost?", anchor=False)
    wanted = the_quality(picture, placed)
    answers = state.kept(
        "comparison answers",
        (*marks, wanted),
        lambda: [numbers.smallest_epsilons(one, [wanted])[0] for one in placed],
    )
    without = picture.without
    words = [numbers.answer_words(answer, without) for answer in answers]

    def draw() -> Figure:
        return charts_compare.price(answers, shown.across, shown.waiting)

    blocks.chart(
        draw(),
        alt="\n".join(words),
        caption="Bars: 95 % intervals over seeds. Nothing is extended beyond what was computed.",
        table=numbers.answers_table(answers),
        key="price",
    )
    title = f"What {picture.metric.spoken} {picture.metric.full(wanted)} costs"
    return Part(title, draw, words), numbers.cost_words(answers, without)


def standing(shown: Shown, marks: tuple[object, ...]) -> Part:
    """Who is better, and where."""
    standings, won, rest = state.kept("comparison duels", marks, lambda: judged(shown.placed))
    leader = comparison.leader_words(standings)
    title = leader or "Which is better, and where?"
    st.header(blocks.escape(title), anchor=False)
    words = list(dict.fromkeys([*won, *rest]))
    if not leader:
        for sentence in won:
            st.markdown(blocks.escape(sentence))
        return Part(title, None, words)

    def draw() -> Figure:
        return charts_compare.standing(standings, shown.across, shown.waiting)

    blocks.chart(
        draw(),
        alt="\n".join([*words, comparison.HOW]),
        caption="Thick: clearly better than all others. Thin: none is clearly better."
        " Dotted: one is.",
        table=comparison.standings_table(standings),
        key="standing",
    )
    return Part(title, draw, [*words, comparison.HOW])


def downloads(
    where: Place,
    grid: Grid,
    keys: Keys,
    there: GridRows,
    parts: list[Part],
    table: dict[str, list[object]],
) -> None:
    """Everything to take along."""
    if not classroom.allowed():
        return

    def as_html() -> str:
        name = f"Mechanisms compared on {sources.names()[where.name]}"
        drawn = [
            (part.title, charts_compare.roomy(part.draw()))
            for part in parts
            if part.draw is not None
        ]
        told = [sentence for part in parts for sentence in part.words]
        return report.comparison(name, drawn, told, table, typed(where, grid))

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
            "Charts and numbers (HTML)",
            as_html,
            f"compare-{where.name}.html",
            "text/html",
            on_click="ignore",
            icon=":material/html:",
        )


def judged(placed: list[Placed]) -> tuple[list[Standing], list[str], list[str]]:
    """How each stands among the others, and the pairs in words."""
    found = comparison.duels(placed)
    return comparison.standings(placed, found), *comparison.verdicts(placed, found)


def the_quality(picture: Picture, placed: list[Placed]) -> float:
    """The wanted value of the metric on a slider."""
    metric = picture.metric
    levels = [level.level.mean for _, level in picture.levels]
    label, scale = f"Wanted {metric.spoken}", 1
    if metric.share:
        low, high, step = 50.0 if metric.name == "accuracy" else 0.0, 100.0, 0.5
        start, form, scale = (
            round(100 * sum(levels) / len(levels)) if levels else 50,
            "%.1f %%",
            100,
        )
    else:
        means = [float(v) for one in placed for v in one.band.mean]
        low, high, step = numbers.limits([*levels, *means])
        middle = sum(levels) / len(levels) if levels else (low + high) / 2
        start, form = step * round(middle / step), "%.3f" if step >= 0.001 else "%.4g"
        label += " at most"
    start = float(min(high, max(low, start)))
    key = f"wanted {metric.name}"
    state.number_from_link(key, f"the wanted {metric.spoken}", low, high)
    if not low <= st.session_state.get(key, low) <= high:  # chosen for other rows
        del st.session_state[key]
    chosen = st.slider(label, low, high, start, step, form, key=key, bind="query-params")
    return float(chosen) / scale


shell.enter()
page()
