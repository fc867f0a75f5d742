"""Mechanisms side by side: a sweep in the background, its curves while they fill, what follows."""

import enum
import io
import shlex
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpmc_core import registry
from dpmc_core.errors import InvalidSetting
from dpmc_core.metrics import choose_headline_metric
from dpmc_core.model import Task
from dpmc_core.problem import choose_default_split
from dpmc_lab import glossary, store
from dpmc_lab.store import Store
from dpmc_lab.sweep import Grid, PlanKeys, parse_epsilons
from dpmc_lab.views import compare, groups, lines, numbers, text, trade
from dpmc_lab.views.compare import LineComparison
from dpmc_lab.views.lines import CurveChart, EpsilonUnit, PlottedLine
from dpmc_lab.views.numbers import RequiredEpsilon
from dpmc_lab.views.trade import AttackerPosition, QuestionScope, QuestionSwitches, Relation
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
from pages.ui.session import session
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
_MAX_FIRST_CHOICE = 6  # mechanisms chosen at the start; more would hide each other
_COLLAPSED = {"label_visibility": "collapsed"}
_VIEWS = {
    "Quality": "Accuracy",
    "Difference": "Zoom: difference",
    "Trade": "Accuracy against risk",
}


class Query(NamedTuple):
    """What is to be compared, and where its rows are.

    Attributes:
        location: where its rows are.
        grid: the grid of runs.
        keys: of its runs and curves.
        unit: what an epsilon counts.
        view: the view that is shown.
        switches: of the question in the trade-off.
    """

    location: RunLocation
    grid: Grid
    keys: PlanKeys
    unit: EpsilonUnit
    view: str = "Quality"
    switches: QuestionSwitches | None = None

    def read_rows(self) -> GridRows:
        """Read those of the grid in its headline metric.

        Raises:
            StoreError: the store cannot be read.
        """
        ids, grid = self.grid.mechanisms, self.grid
        metric = choose_headline_metric(registry.get_mechanism(ids[0]).task)
        return rows.read_grid_rows(
            self.location, self.keys, ids, [metric], grid.epsilons, grid.seeds
        )


def page() -> None:
    choices = stage.lay_out_choices("Compare mechanisms")
    chips, body = st.container(key="chips"), st.container()
    with blocks.show_errors_in(body):
        query = choose_query(choices, chips)
        location, grid, keys, *_ = query
        grid_rows = query.read_rows()
        label = "Go on" if grid_rows.present else "Start"
        with choices:
            running = rows.control_runs(location, grid, keys, grid_rows, label)
        with body:
            rows.poll_runs(
                location,
                keys.name,
                lambda: show_results(query, label, running=running),
                running=running,
            )
        show_other_sweeps(query)


# --- what is compared --------------------------------------------------------------------------


def choose_query(choices: DeltaGenerator, chips: DeltaGenerator) -> Query:
    """Show the widgets, whose values are in the address.

    Raises:
        DpmcError: the grid is impossible.
    """
    with choices:
        data = sources.choose_data(**_COLLAPSED)
        add_visited_mechanism(data)
        task = choose_compared_task(data)
        view_place = st.container(width="content")
        settings = st.popover("Settings", icon=":material/tune:")
    with chips:
        ids = choose_mechanisms(data, task)
        question_place = st.container()
    with settings:
        grid_name = widgets.choose_option(
            "epsilons",
            "the grid of epsilons",
            _GRIDS,
            "grid",
            "fine",
            help=f"Each mechanism runs at these epsilons. {glossary.explain_terms('epsilon')}",
        )
        epsilons = rows.GRIDS.get(grid_name) or parse_epsilons(
            [
                st.text_input(
                    "epsilons",
                    "0.5, 1, 2, 4",
                    key="epsilons",
                    bind="query-params",
                    help="Numbers above 0 with commas between them. Or LOW:HIGH:COUNT for a"
                    " logarithmic grid, such as 0.1:10:11.",
                )
            ],
            "epsilons",
        )
        seeds = choose_seeds(data, task)
        unit = widgets.choose_segment(
            "What epsilon protects",
            "the unit",
            {unit: unit.value for unit in EpsilonUnit},
            "count",
            EpsilonUnit.PAPER,
            help=f"{glossary.explain_terms('unit')} Papers use different units. The same unit uses"
            " certified values only.",
        )
        published, feature_steps = (
            widgets.choose_as_published(),
            widgets.choose_item_features(data, ids),
        )
        ratings = sources.get_dataset(data).ratings
        timed = ratings.times is not None
        steps, split = prepare.choose_preparation(ratings.public, task, timed=timed)
    if not ids:
        raise InvalidSetting("mechanisms", "at least one: choose what to compare", "none")
    location = rows.locate_runs(data)._replace(steps=feature_steps)
    grid = Grid(
        data=[location.data],
        mechanisms=ids,
        epsilons=epsilons,
        seeds=range(1, int(seeds) + 1),
        steps=[*map(str, steps), *feature_steps],
        split=None if split == choose_default_split(task) else split,
    )
    grid = grid.as_published() if published else grid
    query = Query(location, grid, plan_curves(grid, location), unit)
    with view_place:
        view = widgets.choose_segment("View", "the view", _VIEWS, "layer", "Quality", **_COLLAPSED)
    with question_place:
        switches = choose_attacker_question(task, settings) if view == "Trade" else None
    return query._replace(view=view, switches=switches)


def add_visited_mechanism(data: str) -> None:
    """Add the mechanism of the page before, once, and choose its task."""
    id = session.mechanism
    if id == session.last_visited or id not in sources.list_available_mechanisms(data):
        return
    task = registry.get_mechanism(id).task
    names = registry.list_private_mechanisms(task)
    now = [other for other in session.mechanisms or [] if other in names]
    chosen = now or list_comparable(id, names, rows.list_ready_mechanisms(data))
    session.last_visited = id
    session.mechanisms = chosen if id in chosen else [*chosen, id]
    if len(sources.list_available_tasks(data)) > 1:
        session.task = task
    st.rerun()  # only what was there in the last run gets into the address


def list_comparable(id: str, names: Collection[str], ready_ids: Collection[str]) -> list[str]:
    """Return a mechanism and others with its privacy unit, preferably with its trust and a curve.

    Baselines are left out, because the chart draws them anyway.
    """
    guarantees, _ = groups.build_guarantees(names, groups.ANY_PUBLIC_FACTS)
    baselines = {registry.get_mechanism(other).baseline for other in names}.union(
        *registry.BASELINE_ALTERNATIVES.values()
    )
    candidates = {*({*names} & {*ready_ids} or names)} - baselines | {id}
    plotted_ids = [other for other in guarantees if other in candidates]
    same_unit = [
        other for other in plotted_ids if guarantees[other].change is guarantees[id].change
    ]
    same_trust = [other for other in same_unit if guarantees[other].trust is guarantees[id].trust]
    preferred = next((group for group in (same_trust, same_unit) if len(group) > 1), plotted_ids)
    return [*dict.fromkeys((id, *preferred))][:_MAX_FIRST_CHOICE]


def choose_compared_task(data: str) -> Task:
    """Choose what the compared mechanisms predict."""
    names = {task: _TASKS[task] for task in sources.list_available_tasks(data)}
    first = next(iter(names))
    if len(names) == 1:
        return first
    return widgets.choose_option(
        "Predict",
        "the task",
        names,
        "task",
        first,
        help="Mechanisms for different tasks cannot share a chart.",
        **_COLLAPSED,
    )


def choose_mechanisms(data: str, task: Task) -> list[str]:
    """Show the choice of mechanisms: those of a link, else those comparable to the first."""
    names = {id: registry.get_mechanism(id).name for id in registry.list_private_mechanisms(task)}
    if st.query_params.get_all("mechanisms") != [""]:  # what Streamlit writes for a choice of none
        state.apply_link_choice("mechanisms", "the mechanism", names)
    first = list_comparable(next(iter(names)), names, rows.list_ready_mechanisms(data))
    if now := session.mechanisms:  # maybe chosen for another task
        session.mechanisms = [id for id in now if id in names] or first
    chosen = st.pills(
        "Mechanisms",
        list(names),
        selection_mode="multi",
        default=first,
        format_func=names.__getitem__,
        key="mechanisms",
        bind="query-params",
        **_COLLAPSED,
    )
    return [id for id in names if id in chosen]


def choose_attacker_question(task: Task, settings: DeltaGenerator) -> QuestionSwitches:
    """Show the choice of the attacker's question; how a row may change is among the settings."""
    with st.container(horizontal=True):
        scope, position = (
            choose_member("asked about", QuestionScope.RATING),
            choose_member("attacker", AttackerPosition.READER),
        )
    if task is Task.RANKING and scope is QuestionScope.RATING:  # a click is there or not
        return QuestionSwitches(scope, Relation.REPLACED, position)
    with settings:
        return QuestionSwitches(scope, choose_member("relation", Relation.REPLACED), position)


def choose_member(label: str, first: E) -> E:
    """Show the choice of a member of an enumeration, at first the given one."""
    return widgets.choose_segment(
        label, f"the {label}", {e: e.value for e in type(first)}, label, first
    )


def choose_seeds(data: str, task: Task) -> Any:
    """Choose the number of seeds, by default that of the shipped curves."""
    default = rows.count_default_seeds(data, task)
    widgets.follow_default("seeds", default)  # it depends on the data
    return widgets.choose_number(
        "Seeds",
        "the number of seeds",
        1,
        MOST_SEEDS,
        default,
        "seeds",
        help="Each point is the mean over this many runs, with different splits and noise."
        f" {glossary.explain_terms('band')}",
    )


def plan_curves(grid: Grid, location: RunLocation) -> PlanKeys:
    """Return the keys of a grid, and of its curves without the item features if it has some."""
    keys = rows.plan_keys(grid, location)
    if not location.steps:
        return keys
    plain = replace(grid, steps=[step for step in grid.steps if step not in location.steps])
    plain_curves = {
        key: id
        for key, id in rows.plan_keys(plain, location).curves.items()
        if registry.get_mechanism(id).uses_item_features
    }
    return keys._replace(curves=plain_curves | dict(keys.curves))


def show_other_sweeps(query: Query) -> None:
    """Show the other grids that run in the background, with a link and a button that stops them."""
    for sweep in sweeps.list_sweeps(query.location.folder):
        if not sweep.running or sweep.key == query.keys.name:
            continue
        with blocks.lay_out_row():
            counts = sweep.counts
            progress = f": {sweep.n_done:,} of {counts['total']:,} runs" if counts else ""
            title = escape(str(sweep.description.get("title", "other data")))
            url = widgets.build_address(sweep.description.get("link", {}))
            st.markdown(f"Another grid runs on {title}{progress}. [Open it]({url})")
            if st.button("Stop it", key=f"stop {sweep.key}", icon=":material/stop:"):
                rows.cancel_runs(query.location, sweep.key)
                st.rerun()


# --- what the rows so far say ------------------------------------------------------------------


def show_results(query: Query, start_label: str, *, running: bool) -> None:
    """Show all results of the available rows; an empty chart before the first row."""
    grid_rows = query.read_rows()
    location, grid, keys, unit, view, switches = query
    chart, ends = grid_rows.charts[0], (min(grid.epsilons), max(grid.epsilons))
    plotted_lines, baselines = (
        [lines.place_on_axis(line, unit) for line in group]
        for group in (chart.lines, chart.private_baselines)
    )
    plotted_ids = {line.mechanism for line in chart.lines}
    waiting = [id for id in grid.mechanisms if id not in plotted_ids]
    refuted = (*filter(blocks.is_mechanism_refuted, grid.mechanisms),)
    dependencies = (keys.name, grid_rows.last, unit, refuted)
    x_range = charts_compare.get_epsilon_range(ends, [*plotted_lines, *baselines])
    summary = lines.describe_chart(chart, plotted_lines)
    comparisons = state.memoize(
        "line comparisons",
        dependencies,
        lambda: compare.compare_lines(plotted_lines, compare.compare_pairs(plotted_lines)),
    )
    is_complete = bool(plotted_lines) and not running
    if is_complete:  # before the figure, which it would move
        show_leader(comparisons)
    frame = stage.lay_out_body()
    with frame.panel:
        rows.show_grid_state(location, keys.name, grid_rows, len(keys.units), start_label)
    with frame.figure:
        figure_place = st.container()
        epsilon = widgets.choose_epsilon()
    title = compare.conclude_comparison(plotted_lines, comparisons, epsilon)

    def plot(epsilon: float | None = None) -> Figure:
        return charts_compare.plot_comparison(
            chart, plotted_lines, ends, waiting, baselines, refuted, epsilon
        )

    if switches and plotted_lines:
        show_trade(chart, dependencies, switches, frame, figure_place)
    elif view == "Difference" and plotted_lines:
        unbeaten = [c.plotted.line.mechanism for c in compare.find_unbeaten(comparisons)]
        differences = charts_compare.plot_differences(
            chart, plotted_lines, ends, unbeaten, refuted, epsilon
        )
        alt = f"Difference to the best at each epsilon. {summary}"
        show_view(differences, title, alt, figure_place)
    else:
        show_view(plot(epsilon), title, summary, figure_place)
    caption, notes = describe_available_rows(plotted_lines, grid_rows, query)
    with frame.details:
        st.caption(escape(caption), help=escape(notes) or None)
        blocks.show_chart_numbers(summary, lines.tabulate_chart(plotted_lines), "comparison")
        uncertified = [
            f"{entry.line.label} has markers with a white middle: {entry.reason}."
            for entry in plotted_lines
            if not entry.is_certified
        ]
        for sentence in (*lines.describe_crossings(chart), *uncertified):
            st.caption(escape(sentence))
    exhibits = []
    if is_complete:
        curves = Exhibit("", "", plot(), "", f"{caption} {notes}")
        with frame.panel:
            target = choose_target(chart, plotted_lines)
        answers = state.memoize(
            "comparison answers",
            (*dependencies, target),
            lambda: [numbers.find_required_epsilons(entry, [target])[0] for entry in plotted_lines],
        )
        limit = numbers.describe_baseline_limit(chart) if unit is EpsilonUnit.PAPER else ""
        finding = numbers.describe_cost(answers, chart.nonprivate_reference)
        fig = charts_compare.plot_epsilon_needed(answers, x_range, waiting, refuted)
        cost = build_cost_exhibit(chart, answers, finding, fig)
        with frame.details:
            blocks.show_exhibits([cost])
        with frame.panel:
            show_conclusions(answers, finding, limit)
        exhibits = [curves, cost]
    with frame.panel:
        show_comparison_downloads(query, grid_rows, exhibits)


def show_leader(comparisons: Sequence[LineComparison]) -> None:
    """Show which mechanism is best over all epsilons, or why nothing can be said."""
    leader = compare.describe_leader(comparisons)
    doubt = compare.NOT_COMPARABLE if len(comparisons) > 1 else compare.TOO_FEW
    note = compare.COMPARISON_NOTE if leader else None
    blocks.show_headline(leader or doubt, key="answer", help=note)


def show_view(fig: Figure, title: str, alt: str, place: DeltaGenerator) -> None:
    """Show a view of the figure under its title, at least as high as its names need."""
    with place:
        st.html(
            f"<style>.st-key-stage .st-key-figure {{ --least: {fig.layout['height']}px; }}</style>"
        )
        blocks.show_headline(title, key="title")
        blocks.show_figure(fig, alt=alt)


def show_trade(
    chart: CurveChart,
    dependencies: tuple[object, ...],
    switches: QuestionSwitches,
    frame: stage.Stage,
    place: DeltaGenerator,
) -> None:
    """Show the metric against what an attacker may learn."""
    task = registry.get_mechanism(chart.lines[0].mechanism).task
    epsilon = session.epsilon
    tradeoff = state.memoize(
        "trade",
        (dependencies, switches),
        lambda: trade.build_trade_chart(chart, task, switches),
    )
    summary = trade.describe_trade_chart(tradeoff, epsilon)
    fig = charts_compare.plot_accuracy_against_attacker(tradeoff, epsilon)
    show_view(fig, trade.conclude_trade(tradeoff, epsilon), summary, place)
    question, *sentences = map(escape, trade.describe_trade(tradeoff, epsilon))
    with frame.details:
        st.markdown("\n- ".join([f"{question}\n", *sentences]))
        st.caption(escape(f"{blocks.EVALUATION} {trade.LEGEND}"))
        blocks.show_chart_numbers(summary, trade.tabulate_trade(tradeoff), "trade")


def describe_available_rows(
    plotted_lines: list[PlottedLine], grid_rows: GridRows, query: Query
) -> tuple[str, str]:
    """Return the seeds and the grid, and what the marks mean and where the rows come from."""
    grid, total = query.grid, len(query.keys.units)
    runs = (
        f"All {format_count(total, 'run')} of this grid are there; {grid_rows.shipped:,} came with"
        " the app."
    )
    return (
        f"{format_count(len(grid.seeds), 'seed')} at each of"
        f" {format_count(len(grid.epsilons), 'epsilon')} from {min(grid.epsilons):g} to"
        f" {max(grid.epsilons):g}. {blocks.EVALUATION}",
        f"{lines.format_caption(plotted_lines)} {runs * (grid_rows.available == total)}".strip(),
    )


def show_conclusions(answers: list[RequiredEpsilon], finding: str, limit: str) -> None:
    """Show what the target quality costs, what limits a comparison, and what to do next."""
    equal = numbers.find_equal_costs(answers)
    same = [lines.format_short_label(answer.plotted.line) for answer in equal]
    for sentence in filter(None, (finding + (f": {'; '.join(same)}" if same else ""), limit)):
        st.markdown(f"{escape(sentence.removesuffix('.'))}.")
    link_cheapest_run(answers)


def build_cost_exhibit(
    chart: CurveChart, answers: list[RequiredEpsilon], finding: str, fig: Figure
) -> Exhibit:
    """Build the figure of what a target quality costs, in words and numbers too."""
    metric = chart.metric
    title = finding or f"What {metric.label} {metric.format_value(answers[0].target)} costs"
    return Exhibit(
        "price",
        title,
        fig,
        "Bars: 95 % intervals over seeds. Nothing is extended beyond what was computed.",
        "\n".join(
            numbers.describe_required_epsilon(answer, chart.nonprivate_reference)
            for answer in answers
        ),
        numbers.tabulate_required_epsilons(answers),
    )


def link_cheapest_run(answers: list[RequiredEpsilon]) -> None:
    """Link to the run of the mechanism that costs least; certified ones come first."""
    cheapest = min(
        answers, key=lambda answer: (not answer.plotted.is_certified, answer.epsilon.value)
    )
    id = cheapest.plotted.line.mechanism
    st.page_link(
        "pages/train.py",
        label=f"Train {registry.get_short_name(id)}",
        icon=":material/play_circle:",
        query_params={"mechanism": registry.get_mechanism(id).name},
    )


def show_comparison_downloads(query: Query, grid_rows: GridRows, exhibits: list[Exhibit]) -> None:
    """Offer the charts, the rows, and the command that repeats them."""
    location, chart = query.location, grid_rows.charts[0]
    argv = ["dpmc", "sweep", *rows.to_terminal_grid(query.grid, location).argv()]
    # Taken here: files are made without the session.
    title = f"Mechanisms compared on {sources.list_names()[location.name]}"

    def as_html() -> str:
        pictures = [
            (exhibit.title, charts_compare.widen_margin(exhibit.fig))
            for exhibit in exhibits
            if exhibit.fig
        ]
        sentences = [sentence for exhibit in exhibits for sentence in exhibit.alt.split("\n")]
        plotted_lines = [lines.place_on_axis(line, query.unit) for line in chart.lines]
        sections = (
            text.render_paragraphs(*sentences),
            text.render_heading("Numbers"),
            text.render_table(lines.tabulate_chart(plotted_lines)),
        )
        return report.render_report_page(
            title, [*report.render_charts(pictures), *sections], shlex.join(argv)
        )

    def csv() -> str:
        """Every stored row of the curves, also of other epsilons and seeds. Raises StoreError."""
        stream = io.StringIO()
        with Store(location.store, read_only=True) as file:
            store.write_csv(
                file, store.list_curves(file, keys=query.keys.curves, count=False), stream
            )
        return stream.getvalue()

    name, files = f"compare-{location.name}", []
    if exhibits:
        files.append(blocks.File("Charts and numbers (HTML)", f"{name}.html", "text/html", as_html))
    if grid_rows.present:  # curves that came with the app have no rows in the store
        files.append(blocks.File("Rows (CSV)", f"{name}-rows.csv", "text/csv", csv))
    blocks.show_downloads(*files, chart=chart, argv=argv)


def choose_target(chart: CurveChart, plotted_lines: list[PlottedLine]) -> float:
    """Show the target value of the metric on a slider."""
    metric = chart.metric
    low, high, step, start, scale = numbers.choose_targets(chart, plotted_lines)
    chosen = widgets.choose_on_slider(
        f"Target {metric.label}{'' if metric.is_share else ' at most'}",
        f"the target {metric.label}",
        low,
        high,
        start,
        session.wanted.key_of(metric.name),
        step=step,
        format="%.1f %%" if metric.is_share else "%.3f" if step >= 0.001 else "%.4g",
    )
    return float(chosen) / scale


shell.enter_through_app()
page()
