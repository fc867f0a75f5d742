"""Mechanisms side by side: a sweep in the background, its curves while they fill, what follows."""

import enum
import io
import shlex
from collections.abc import Collection
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpmc_core import registry
from dpmc_core.errors import DpmcError, InvalidSetting
from dpmc_core.metrics import choose_headline_metric
from dpmc_core.model import Task
from dpmc_core.problem import choose_default_split
from dpmc_lab import glossary, store
from dpmc_lab.curves import comparison, groups, lines, numbers, trade
from dpmc_lab.curves.lines import CurveChart, EpsilonUnit, PlottedLine
from dpmc_lab.curves.numbers import RequiredEpsilon
from dpmc_lab.curves.trade import AttackerPosition, QuestionScope, QuestionSwitches, Relation
from dpmc_lab.store import Store
from dpmc_lab.sweep import Grid, PlanKeys, parse_epsilons
from pages.ui import (
    blocks,
    prepare,
    report,
    rows,
    shell,
    sources,
    stage,
    state,
    sweeps,
    widgets,
)
from pages.ui.charts import Figure
from pages.ui.charts import compare as charts_compare
from pages.ui.report import Exhibit
from pages.ui.rows import GridRows, RunLocation
from pages.ui.text import escape, format_count

MOST_SEEDS = 100
_TASKS = {
    Task.BINARY: "Likes and dislikes",
    Task.RATINGS: "Ratings",
    Task.RANKING: "Top lists",
}
_GRIDS = {
    **{name: f"{len(g)} from {g[0]:g} to {g[-1]:g}" for name, g in rows.GRIDS.items()},
    "own": "my own list",
}
E = TypeVar("E", bound=enum.Enum)
_FIRST = 6  # mechanisms chosen at the start; more would hide each other
_HERE = "brought"  # the mechanism that was at hand when this page was opened last
_HIDDEN = {"label_visibility": "collapsed"}


class Sought(NamedTuple):
    """What is to be compared, and where its rows are. switches: of the trade, where it is shown."""

    where: RunLocation
    grid: Grid
    keys: PlanKeys
    count: EpsilonUnit
    switches: QuestionSwitches | None

    def rows(self) -> GridRows:
        """Those of the grid in its headline metric. Raises StoreError."""
        ids, grid = self.grid.mechanisms, self.grid
        metric = choose_headline_metric(registry.get_mechanism(ids[0]).task)
        return rows.read_grid_rows(self.where, self.keys, ids, [metric], grid.epsilons, grid.seeds)


def page() -> None:
    choices = stage.lay_out_choices("Compare mechanisms")
    chips, body = st.container(key="chips"), st.container()
    try:
        asked = controls(choices, chips)
        where, grid, keys, *_ = asked
        there = asked.rows()
        label = "Go on" if there.present else "Start"
        with choices:
            running = rows.show_run_buttons(where, grid, keys, there, label)
        with body:
            rows.poll_runs(
                where, keys.name, lambda: show(asked, label, running=running), running=running
            )
        others(asked)
    except (DpmcError, OSError) as error:
        with body:
            blocks.show_error(error)


# --- what is compared --------------------------------------------------------------------------


def controls(choices: DeltaGenerator, chips: DeltaGenerator) -> Sought:
    """The widgets; their values live in the address. Raises DpmcError for an impossible grid."""
    with choices:
        data = sources.choose_data(**_HIDDEN)
        bring(data)
        task = the_task(data)
        accuracy, trade_of = "Quality", "Trade"
        layers = {one: one for one in (accuracy, trade_of)}
        layer = widgets.choose_segment(
            "The figure", "the figure", layers, "layer", accuracy, **_HIDDEN
        )
        settings = st.popover("Settings", icon=":material/tune:")
    with chips:
        ids = the_mechanisms(data, task)
        traded = the_question(task, settings) if layer == trade_of else None
    with settings:
        named = widgets.choose_option(
            "epsilons",
            "the grid of epsilons",
            _GRIDS,
            "grid",
            "fine",
            help=f"What each mechanism is run at. {glossary.explain_terms('epsilon')}",
        )
        epsilons = rows.GRIDS.get(named) or parse_epsilons(
            [
                st.text_input(
                    "epsilons",
                    "0.5, 1, 2, 4",
                    key="epsilons",
                    bind="query-params",
                    help="Numbers > 0 separated by commas, or LOW:HIGH:COUNT, spread evenly over"
                    " the logarithmic scale: 0.1:10:11.",
                )
            ],
            "epsilons",
        )
        seeds = the_seeds(data, task)
        count = widgets.choose_segment(
            "What an epsilon counts",
            "the unit",
            {count: count.value for count in EpsilonUnit},
            "count",
            EpsilonUnit.PAPER,
            help=f"{glossary.explain_terms('unit')} Papers differ in it; the same unit uses only"
            " what is"
            " certified.",
        )
        published, facts = widgets.choose_as_published(), widgets.choose_item_features(data, ids)
        ratings = sources.get_dataset(data).ratings
        timed = ratings.times is not None
        steps, split = prepare.show_preparation_controls(ratings.public, task, timed=timed)
    if not ids:
        raise InvalidSetting("mechanisms", "at least one: choose what to compare", "none")
    where = rows.locate_runs(data)._replace(steps=facts)
    grid = Grid(
        data=[where.data],
        mechanisms=ids,
        epsilons=epsilons,
        seeds=range(1, int(seeds) + 1),
        steps=[*map(str, steps), *facts],
        split=None if split == choose_default_split(task) else split,
    )
    grid = grid.as_published() if published else grid
    return Sought(where, grid, both(grid, where), count, traded)


def bring(data: str) -> None:
    """The mechanism that one comes with from another page is among those compared, and what it
    predicts is the task. Once: what is chosen here later stays."""
    id = st.session_state.get("mechanism")
    if id == st.session_state.get(_HERE) or id not in sources.list_available_mechanisms(data):
        return
    task = registry.get_mechanism(id).task
    names = registry.list_private_mechanisms(task)
    now = [other for other in st.session_state.get("mechanisms") or [] if other in names]
    chosen = now or alike(id, names, rows.list_ready_mechanisms(data))
    st.session_state[_HERE] = id
    st.session_state["mechanisms"] = chosen if id in chosen else [*chosen, id]
    if len(sources.list_available_tasks(data)) > 1:
        st.session_state["task"] = task
    st.rerun()  # only what was there in the last run gets into the address


def alike(id: str, names: Collection[str], ready: Collection[str]) -> list[str]:
    """A mechanism with those of these that promise the same and have a curve; where there are none,
    the same of whomever one trusts. Guesses are left out: they are drawn beside each."""
    found, _ = groups.build_guarantees(names, groups.ANY_PUBLIC_FACTS)
    floors = {registry.get_mechanism(other).baseline for other in names}.union(
        *registry.BASELINE_ALTERNATIVES.values()
    )
    drawn = {*({*names} & {*ready} or names)} - floors | {id}
    able = [other for other in found if other in drawn]
    same = [other for other in able if found[other].change is found[id].change]
    trusted = [other for other in same if found[other].trust is found[id].trust]
    near = next((some for some in (trusted, same) if len(some) > 1), able)
    return [*dict.fromkeys((id, *near))][:_FIRST]


def the_task(data: str) -> Task:
    names = {task: _TASKS[task] for task in sources.list_available_tasks(data)}
    first = next(iter(names))
    if len(names) == 1:
        return first
    words = "What is predicted. Mechanisms for different tasks cannot share a chart."
    return widgets.choose_option("Predict", "the task", names, "task", first, help=words, **_HIDDEN)


def the_mechanisms(data: str, task: Task) -> list[str]:
    """Those of a link, else those like the first: as if one came with that from another page."""
    names = {id: registry.get_mechanism(id).name for id in registry.list_private_mechanisms(task)}
    state.apply_link_choice("mechanisms", "the mechanism", names)
    first = alike(next(iter(names)), names, rows.list_ready_mechanisms(data))
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
        **_HIDDEN,
    )
    return [id for id in names if id in chosen]


def the_question(task: Task, settings: DeltaGenerator) -> QuestionSwitches:
    """What an attacker is asked; how a row may change, among the settings."""
    with st.container(horizontal=True):
        about, seat = (
            switch("asked about", QuestionScope.RATING),
            switch("attacker", AttackerPosition.READER),
        )
    if task is Task.RANKING and about is QuestionScope.RATING:  # a click is there or not
        return QuestionSwitches(about, Relation.REPLACED, seat)
    with settings:
        return QuestionSwitches(about, switch("relation", Relation.REPLACED), seat)


def switch(label: str, first: E) -> E:
    return widgets.choose_segment(
        label, f"the {label}", {e: e.value for e in type(first)}, label, first
    )


def the_seeds(data: str, task: Task) -> Any:
    usual = rows.count_default_seeds(data, task)
    if st.session_state.get("seeds") == st.session_state.get("usual seeds", usual) != usual:
        st.session_state["seeds"] = usual  # as it stood for other data
    st.session_state["usual seeds"] = usual
    return widgets.choose_number(
        "Seeds",
        "the number of seeds",
        1,
        MOST_SEEDS,
        usual,
        "seeds",
        help="How often each point is computed, with another split and other noise."
        f" {glossary.explain_terms('band')}",
    )


def both(grid: Grid, where: RunLocation) -> PlanKeys:
    """What the grid asks for; with public facts, its curves without them stand beside them."""
    keys = rows.plan_keys(grid, where)
    if not where.steps:
        return keys
    plain = replace(grid, steps=[step for step in grid.steps if step not in where.steps])
    before = rows.plan_keys(plain, where).curves.items()
    more = {
        key: id for key, id in before if registry.can_use_item_features(registry.get_mechanism(id))
    }
    return keys._replace(curves=more | dict(keys.curves))


def others(asked: Sought) -> None:
    """Other grids that run in the background can be looked at or ended from here."""
    for other in sweeps.list_sweeps(asked.where.folder):
        if not other.running or other.key == asked.keys.name:
            continue
        with st.container(horizontal=True, vertical_alignment="center"):
            counts = other.counts
            far = f": {other.n_done:,} of {counts['total']:,} runs" if counts else ""
            title = escape(str(other.description.get("title", "other data")))
            url = widgets.build_address(other.description.get("link", {}))
            st.markdown(f"Another grid is being computed on {title}{far}. [Look at it]({url})")
            if st.button("Stop it", key=f"stop {other.key}", icon=":material/stop:"):
                rows.cancel_runs(asked.where, other.key)
                st.rerun()


# --- what the rows so far say ------------------------------------------------------------------


class Shown(NamedTuple):
    """What the page draws. waiting: mechanisms without a curve; across: the axis of epsilon; marks:
    what all of it depends on."""

    picture: CurveChart
    placed: list[PlottedLine]
    waiting: list[str]
    across: tuple[float, float]
    marks: tuple[object, ...]


def show(asked: Sought, press: str, *, running: bool) -> None:
    """Everything there is to see, from the rows so far; an empty chart before the first."""
    there, parts, (where, grid, keys, count, switches) = asked.rows(), stage.lay_out_body(), asked
    with parts.panel:
        rows.show_grid_state(where, keys.name, there, len(keys.units), press)
    picture, ends = there.pictures[0], (min(grid.epsilons), max(grid.epsilons))
    placed, guesses = (
        [lines.place_on_axis(line, count) for line in side]
        for side in (picture.lines, picture.private_baselines)
    )
    drawn = {line.mechanism for line in picture.lines}
    waiting = [id for id in grid.mechanisms if id not in drawn]
    marks = (keys.name, there.last, count)
    across = charts_compare.get_epsilon_range(ends, [*placed, *guesses])
    shown, words = (
        Shown(picture, placed, waiting, across, marks),
        lines.describe_chart(picture, placed),
    )
    fig = state.memoize(
        "comparison figure",
        marks,
        lambda: charts_compare.plot_comparison(picture, placed, ends, waiting, guesses),
    )
    if switches and placed:
        trading(shown, switches, parts)
    else:
        figure(fig, words, parts)
    said = caption(placed, there, len(keys.units))
    with parts.details:
        blocks.show_chart_numbers(words, lines.tabulate_chart(placed), "comparison")
        hollow = [
            f"{one.line.label} is hollow: {one.reason}." for one in placed if not one.is_certified
        ]
        for sentence in (*lines.describe_crossings(picture), *hollow):
            st.caption(escape(sentence))
    found = conclusions(shown, parts) if placed and not running else []
    with parts.panel:
        curves = Exhibit("", "", "", fig, "", said)
        downloads(asked, there, [curves, *found] if found else [])
        st.caption("Evaluation only, not private", help=said)
    if placed:
        with parts.details:
            means(shown)


def figure(fig: Figure, alt: str, parts: stage.Stage) -> None:
    """A layer of the figure, at least as high as its names need."""
    with parts.figure:
        st.html(charts_compare.format_figure_height(fig))
        blocks.show_figure(fig, alt=alt)


def trading(shown: Shown, switches: QuestionSwitches, parts: stage.Stage) -> None:
    """The other layer: what is predicted against what an attacker may know for it."""
    task = registry.get_mechanism(shown.picture.lines[0].mechanism).task
    epsilon = st.session_state.get("epsilon", 1.0)
    found = state.memoize(
        "trade",
        (shown.marks, switches),
        lambda: trade.build_trade_chart(shown.picture, task, switches),
    )
    words = trade.describe_trade_chart(found, epsilon)
    figure(charts_compare.plot_accuracy_against_attacker(found, epsilon), words, parts)
    head, *told = map(escape, trade.describe_trade(found, epsilon))
    with parts.details:
        st.markdown("\n- ".join([f"{head}\n", *told]))
        st.caption(escape(f"{blocks.EVALUATION} {trade.LEGEND}"))
        blocks.show_chart_numbers(words, trade.tabulate_trade(found), "trade")


def caption(placed: list[PlottedLine], there: GridRows, total: int) -> str:
    """What is drawn and what it rests on, in words and numbers."""
    said = [blocks.EVALUATION, lines.format_caption(placed)]
    if there.available == total:
        which = "they" if there.shipped == total else f"{there.shipped:,} of them"
        whence = f"; {which} came with the app" if there.shipped else ""
        said.append(f"All {format_count(total, 'run')} of this grid are there{whence}.")
    return " ".join(filter(None, said))


def conclusions(shown: Shown, parts: stage.Stage) -> list[Exhibit]:
    """What a wanted quality costs and who is better where: a sentence each, the pictures below."""
    picture, placed, waiting, across, marks = shown
    metric = picture.metric
    with parts.panel:
        first = st.container()
        wanted = the_quality(picture, placed)
    answers = state.memoize(
        "comparison answers",
        (*marks, wanted),
        lambda: [numbers.find_required_epsilons(one, [wanted])[0] for one in placed],
    )
    duels = state.memoize("comparison duels", marks, lambda: comparison.compare_pairs(placed))
    found = comparison.compare_lines(placed, duels)
    leader = comparison.describe_leader(found)
    told = comparison.COMPARISON_NOTE if leader else comparison.NOT_COMPARABLE
    if len(placed) < 2:
        told = comparison.TOO_FEW
    floor = numbers.describe_baseline_limit(picture) if EpsilonUnit.PAPER in marks else ""
    cost = escape(numbers.describe_cost(answers, picture.nonprivate_reference))
    first.header(cost.replace(" %", "\u00a0%"), anchor=False)
    with parts.panel:
        for sentence in filter(None, (leader or told, floor)):
            st.markdown(escape(sentence.removesuffix(".") + "."))
        onwards(answers)
    price = f"What {metric.label} {metric.format_value(wanted)} costs"
    better = leader or "Which is better, and where?"
    exhibits = [
        Exhibit(
            "price",
            price,
            price,
            charts_compare.plot_epsilon_needed(answers, across, waiting),
            "Bars: 95 % intervals over seeds. Nothing is extended beyond what was computed.",
            "\n".join(
                numbers.describe_required_epsilon(answer, picture.nonprivate_reference)
                for answer in answers
            ),
            numbers.tabulate_required_epsilons(answers),
        ),
        Exhibit(
            "standing",
            better,
            better,
            charts_compare.plot_best_ranges(found, across, waiting) if leader else None,
            "Thick: clearly better than all others. Thin: none is clearly better. Dotted: one is."
            if leader
            else told,
            f"{leader}. {told}" if leader else told,
            comparison.tabulate_line_comparisons(found),
        ),
    ]
    with parts.details:
        blocks.show_exhibits(exhibits)
    return exhibits


def onwards(answers: list[RequiredEpsilon]) -> None:
    """What to do next: the one that costs least, on its own."""

    def least(one: RequiredEpsilon) -> tuple[bool, float, float]:
        line = one.plotted.line
        return not one.plotted.is_certified, one.epsilon.value, -line.metric.sign * one.best

    id = min(answers, key=least).plotted.line.mechanism
    name, carried = registry.get_short_name(id), {"mechanism": registry.get_mechanism(id).name}
    for label, icon, target in (
        (f"Train the best: {name}", "play_circle", "train"),
        (f"What if: {name}", "tune", "what_if"),
    ):
        st.page_link(
            f"pages/{target}.py", label=label, icon=f":material/{icon}:", query_params=carried
        )


def means(shown: Shown) -> None:
    """All means of all epsilons, as wide as the page."""
    table = lines.tabulate_means(shown.placed)
    for id in shown.waiting:
        for name, column in table.items():
            missing = f"{registry.get_short_name(id)} ({charts_compare.MISSING})"
            column.append(missing if name == "mechanism" else "")
    st.header(f"Mean {shown.picture.metric.label} at every epsilon", anchor=False)
    blocks.show_table(
        table,
        alt="Means over seeds: one row per mechanism, one column per epsilon",
        column_config={"mechanism": st.column_config.TextColumn(pinned=True, width=260)},
    )


def downloads(asked: Sought, there: GridRows, parts: list[Exhibit]) -> None:
    """Everything to take along."""
    where, picture = asked.where, there.pictures[0]
    argv = ["dpmc", "sweep", *rows.to_terminal_grid(asked.grid, where).argv()]
    # Taken here: files are made without the session.
    title = f"Mechanisms compared on {sources.list_names()[where.name]}"

    def as_html() -> str:
        pictures = [
            (part.title, charts_compare.widen_margin(part.fig)) for part in parts if part.fig
        ]
        told = [sentence for part in parts for sentence in part.alt.split("\n")]
        placed = [lines.place_on_axis(line, asked.count) for line in picture.lines]
        return report.render_comparison(
            title, pictures, told, lines.tabulate_chart(placed), shlex.join(argv)
        )

    def csv() -> str:
        """Every stored row of the curves, also of other epsilons and seeds. Raises StoreError."""
        stream = io.StringIO()
        with Store(where.store, read_only=True) as file:
            store.write_csv(
                file, store.list_curves(file, keys=asked.keys.curves, count=False), stream
            )
        return stream.getvalue()

    name, files = f"compare-{where.name}", []
    if parts:
        files.append(blocks.File("Charts and numbers (HTML)", f"{name}.html", "text/html", as_html))
    if there.present:  # curves that came with the app have no rows in the store
        files.append(blocks.File("Rows (CSV)", f"{name}-rows.csv", "text/csv", csv))
    blocks.show_downloads(*files, picture=picture, argv=argv)


def the_quality(picture: CurveChart, placed: list[PlottedLine]) -> float:
    """The wanted value of the metric on a slider."""
    metric = picture.metric
    levels = [at.mean for _, at in picture.list_endpoints(1.0)]
    label, scale, form = f"Wanted {metric.label}", 100 if metric.is_share else 1, "%.1f %%"
    if metric.is_share:
        low, high, step = 50.0 if metric.name == "accuracy" else 0.0, 100.0, 0.5
        start = round(100 * sum(levels) / len(levels)) if levels else 50
    else:
        means = [float(v) for one in placed for v in one.band.mean]
        low, high, step = numbers.choose_target_range([*levels, *means])
        middle = sum(levels) / len(levels) if levels else (low + high) / 2
        start, form = step * round(middle / step), "%.3f" if step >= 0.001 else "%.4g"
        label += " at most"
    what, key = f"the wanted {metric.label}", f"wanted {metric.name}"
    start = float(min(high, max(low, start)))
    chosen = widgets.choose_on_slider(label, what, low, high, start, key, step=step, format=form)
    return float(chosen) / scale


shell.enter_through_app()
page()
