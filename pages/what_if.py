"""What does privacy cost? One slider over computed curves; nothing is trained while it moves."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError, capitalise
from dpmc_core.metrics import Metric
from dpmc_core.model import Task
from dpmc_core.privacy import Guarantee
from dpmc_core.problem import build_problem
from dpmc_core.ratings import PublicFacts
from dpmc_lab.lessons import LESSONS
from dpmc_lab.store import Store, StoreError, StoreMissing
from dpmc_lab.study.advice import PrivacyUnit, recommend_for_unit
from dpmc_lab.sweep import LISTS_SEED, Grid, PlanKeys
from dpmc_lab.sweep.presets import EPSILONS
from dpmc_lab.views import cards, groups, lines, people
from dpmc_lab.views.lines import CurveChart
from dpmc_lab.views.numbers import describe_chart_at
from dpmc_lab.views.people import PeopleWithLists
from dpmc_lab.views.what_if import Stop
from pages.ui import (
    blocks,
    instrument,
    rows,
    scene,
    sentences,
    shell,
    sources,
    stage,
    state,
    widgets,
)
from pages.ui.rows import GridRows, RunLocation
from pages.ui.scene import Scene
from pages.ui.session import Session, session
from pages.ui.text import escape, keep_units

OTHER_UNIT = "own"  # of a method that somebody chose, whose privacy unit is neither of the two
# By name in component, session and address: the default, and all possible values. The targets, of
# usefulness and of risk, may be any number.
SETTINGS: Mapping[str, tuple[Any, Sequence[Any]]] = {
    "epsilon": (1.0, EPSILONS),
    "person": (0, range(len(people.QUANTILES))),
    "target": (None, ()),
    "limit": (None, ()),
    "pinned": (None, EPSILONS),
}
OLDER_PARAMS = {"need": "target"}  # in links that people have saved


class CurveSource(NamedTuple):
    """The runs of a curve.

    Attributes:
        location: where they are.
        grid, keys: which they are.
        shipped: whether they came with the program.
    """

    location: RunLocation
    grid: Grid
    keys: PlanKeys
    shipped: bool

    @property
    def id(self) -> str:
        """Return the id of the mechanism."""
        return self.grid.mechanisms[0]

    @property
    def task(self) -> Task:
        """Return the task of the mechanism."""
        return registry.get_mechanism(self.id).task

    def read_rows(self) -> GridRows:
        """Read what the runs say so far. Raises StoreError."""
        metrics = lines.list_plotted_metrics(self.task)
        return rows.read_grid_rows(
            self.location, self.keys, [self.id], metrics, EPSILONS, self.grid.seeds
        )

    def load_charts(self) -> tuple[CurveChart, ...]:
        """Load the curve in each metric, which has no line before its first point.

        A broken store hides no shipped curve.
        """
        try:
            return self.read_rows().charts
        except StoreError:
            if not self.shipped:
                raise
            return load_shipped_curve(self.location, self.id) or ()

    def load_public_facts(self, charts: tuple[CurveChart, ...]) -> PublicFacts:
        """Load public facts of the prepared ratings. Raises DpmcError, OSError."""
        if charts[0].lines and not self.location.steps:
            return charts[0].lines[0].info.public
        return sources.get_public_facts(self.location.name, self.task, self.location.steps)


def load_shipped_curve(location: RunLocation, id: str) -> tuple[CurveChart, ...] | None:
    """Load the shipped curve of a mechanism, if there is one."""
    return rows.load_shipped(location.name, id, with_item_features=bool(location.steps))


def page() -> None:
    answer = stage.ask_question("What does privacy cost?")
    choices = stage.lay_out_choices()
    for key in ("layer", "asked"):  # of an older version
        state.note_removed(
            key, f"The choice “{key}” in the link is gone from this page; it is left out."
        )
    with choices:  # at once: without anything in it the line has no height
        data = sources.choose_data(label_visibility="collapsed")
    figure, ways, details = stage.reserve_figure(), st.container(), st.container()
    with ways:
        show_ways_on()
    with choices:
        unit_choice = blocks.lay_out_row(width="content", gap="small")
        id = widgets.choose_mechanism(data, shortlist=True)
    with blocks.show_errors_in(figure):
        with choices:
            location = rows.locate_runs(data)
            location = location._replace(steps=widgets.choose_item_features(data, [id]))
        source = find_curve(location, id)
        charts = source.load_charts()
        settings = restore_state()
        carry_target(charts[0].metric, settings["target"])
        with figure:
            running = not source.shipped and control_curve_runs(source)
        curve_scene = build_scene(source, charts, running=running)
        stop = curve_scene.find_stop(settings["epsilon"])
        with unit_choice:
            choose_privacy_unit(data, stop.guarantee)
        rated = curve_scene.find_person(settings["person"]).rated
        sentence = sentences.write_answer(charts[0], stop, rated, refuted=curve_scene.refuted)
        answer.html(sentences.render_answer(sentence))
        with figure:
            rows.poll_runs(
                location,
                source.keys.name,
                lambda: show_curves(source, stop.epsilon, running=running),
                running=running,
            )
        if charts[0].lines:
            with choices.container(key="download", width="content"):
                show_page_downloads(source, curve_scene, settings)
        with details:
            show_curve_details(charts, curve_scene, stop, rated)


def show_ways_on() -> None:
    """Show a link to the first lesson, and three ways on."""
    first = next(iter(LESSONS.values()))
    with blocks.lay_out_row(key="next"):
        st.page_link(
            "pages/learn.py",
            label=f"Lesson {first.number}, {first.minutes} minutes →",
            query_params={"lesson": first.id},
        )
        st.page_link("pages/compare.py", label="Compare")
        st.page_link("pages/train.py", label="Train")
        st.page_link("pages/data.py", label="Use my ratings")


def find_curve(location: RunLocation, id: str) -> CurveSource:
    """Find the runs of a mechanism's curve: shipped ones, or those that this page would start."""
    seeds = range(1, 1 + rows.count_default_seeds(location.name, registry.get_mechanism(id).task))
    grid = scene.build_curve_grid(location.data, id, seeds, location.steps)
    shipped = load_shipped_curve(location, id)
    keys = rows.build_chart_keys(shipped[0]) if shipped else rows.plan_keys(grid, location)
    return CurveSource(location, grid, keys, bool(shipped))


def carry_target(metric: Metric, target: float | None) -> None:
    """Take a target for usefulness along to Compare, once: there it can be moved on."""
    if target is not None and session.carried != (metric, target):
        session.carried = metric, target
        value = 100 * target if metric.is_share else target
        session.wanted[metric.name] = round(float(value), 6)


def choose_privacy_unit(data: str, guarantee: Guarantee) -> None:
    """Choose whom to protect, which chooses the recommended method."""
    unit = PrivacyUnit.from_guarantee(guarantee)
    names = {**sentences.UNIT_LABELS, **({} if unit else {OTHER_UNIT: "Other privacy guarantee"})}
    session.protect = unit or OTHER_UNIT
    st.caption("Protect", width="content")
    st.segmented_control(
        "Whom to protect",
        list(names),
        format_func=names.__getitem__,
        key="protect",
        required=True,
        help=None if unit else capitalise(groups.format_group_promise(guarantee)),
        on_change=choose_recommended,
        args=(data,),
        label_visibility="collapsed",
    )


def choose_recommended(data: str) -> None:
    """Choose the recommended method for a privacy unit; some data sets have none."""
    unit: PrivacyUnit | str = session.protect
    if not isinstance(unit, PrivacyUnit):
        return
    with suppress(DpmcError, OSError):  # the page says so where it needs the data
        id = recommend_for_unit(
            unit, sources.list_available_tasks(data), partial(sources.get_public_facts, data)
        )
        if id is not None:
            session.mechanism = id


def control_curve_runs(source: CurveSource) -> bool:
    """Show the state and the buttons of the runs behind a curve; return whether they run."""
    grid_rows, (location, grid, keys, _) = source.read_rows(), source
    label = "Go on" if grid_rows.present else "Compute the curve"
    if not rows.is_running(location, keys.name):
        rows.show_grid_state(location, keys.name, grid_rows, len(keys.units), label)
    return rows.control_runs(location, grid, keys, grid_rows, label)


# --- the instrument ----------------------------------------------------------------------------


def show_curves(source: CurveSource, epsilon: float, *, running: bool) -> None:
    """Show the slider and everything that moves with it; runs that go on add points."""
    location, keys, charts = source.location, source.keys, source.load_charts()
    settings = restore_state()
    if running:
        if settings["epsilon"] != epsilon:  # the answer on top follows
            st.rerun()
        rows.show_grid_state(location, keys.name, source.read_rows(), len(keys.units), "")
    if location.private:
        label = "Can I afford it? Get the answer"
        st.page_link("pages/data.py", label=label, icon=":material/arrow_forward:")
    curve_scene = build_scene(source, charts, running=running)
    view = state.memoize(
        "instrument",
        (location.name, location.steps, source.id, charts, running, curve_scene.refuted),
        lambda: scene.build_view(curve_scene),
    )
    instrument.show_instrument(view | settings, key=Session.instrument.key, on_change=save_state)


def build_scene(
    source: CurveSource, charts: tuple[CurveChart, ...], *, running: bool = False
) -> Scene:
    """Collect what the instrument shows; no person of an upload. Raises DpmcError, OSError."""
    location, refuted = source.location, blocks.is_mechanism_refuted(source.id)

    def build() -> Scene:
        chart, public = charts[0], source.load_public_facts(charts)
        is_hidden = location.private or running or not chart.lines
        displayed_people = None if is_hidden else load_displayed_people(location, chart)
        return scene.build_scene(
            source.id,
            chart,
            public,
            displayed_people,
            sources.get_dataset(location.name) if displayed_people else None,
            refuted=refuted,
        )

    dependencies = (location.name, location.steps, source.id, charts, running, refuted)
    return state.memoize("scene", dependencies, build)


def load_displayed_people(location: RunLocation, chart: CurveChart) -> PeopleWithLists | None:
    """Load people with their lists: shipped with a sample's curve, else out of the store."""
    line, reference = chart.lines[0], chart.nonprivate_reference
    task = registry.get_mechanism(line.mechanism).task
    shipped_people = people.load_people(location.name, task, line.key)
    if shipped_people is not None or reference is None:
        return shipped_people
    with suppress(StoreMissing), Store(location.store, read_only=True) as store:
        train = build_problem(sources.get_dataset(location.name), task, seed=LISTS_SEED).train
        stored = people.load_people_from_store(store, [line.key], reference.key, train)
        if stored is not None and line.key in stored[1]:
            return stored[0], stored[1][line.key]
    return None


def restore_state() -> dict[str, Any]:
    """Return the instrument's state from the session, or from the address where the two differ.

    The address wins when it differs from what this session wrote last: the visitor went back.
    Impossible values are noted and replaced by the default.
    """
    last_written, values, rewritten = session.last_written_params, {}, session.rewritten_params
    del session.rewritten_params
    for older, param in OLDER_PARAMS.items():
        if older in st.query_params:
            st.query_params.setdefault(param, st.query_params.pop(older))
    for param, (default, possible) in SETTINGS.items():
        requested = st.query_params.get(param)
        if param not in st.session_state or (
            param in last_written and requested != last_written[param]
        ):
            st.session_state[param] = default
            if requested is not None:
                try:
                    st.session_state[param] = parse_param(requested, possible)
                except (ValueError, LookupError):
                    state.note_impossible_value(param, f"the {param}")
        value = values[param] = st.session_state[param]
        text = last_written[param] = None if value == default else format_param(value)
        if requested != text or param in rewritten:
            st.query_params[param] = text or ""
            if text is None:
                del st.query_params[param]
    # Other pages have further epsilons, of which the knob shows the nearest.
    return values | {"epsilon": min(EPSILONS, key=lambda epsilon: abs(epsilon - values["epsilon"]))}


def format_param(value: Any) -> str:
    """Return a value as it stands in the address."""
    return value if isinstance(value, str) else f"{value:g}"


def parse_param(text: str, possible: Sequence[Any]) -> Any:
    """Read a value from an address: a possible one, or any number. Raises ValueError, KeyError."""
    if possible:
        return {format_param(value): value for value in possible}[text]
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def save_state() -> None:
    """Save the state of the released instrument for the address and the other pages."""
    current = session.instrument
    session.rewritten_params = [param for param in SETTINGS if param in current]
    for (
        param
    ) in session.rewritten_params:  # the address of this request may be older: it is written again
        st.session_state[param] = current[param]
        session.last_written_params.pop(param, None)


# --- downloads and details ---------------------------------------------------------------------


def show_page_downloads(
    source: CurveSource, curve_scene: Scene, settings: Mapping[str, Any]
) -> None:
    """Offer this page as one file in its present state, and its curve."""
    location = source.location
    title = sources.list_names()[location.name]
    grid = rows.to_terminal_grid(source.grid, location)

    def render() -> str:
        from pages.ui import explorable  # large, and seldom asked for

        name, private = location.name, location.private
        scenes = [] if private else explorable.load_other_scenes(name, curve_scene)
        return explorable.render_explorable(
            name, title, [curve_scene, *scenes], settings, private=private
        )

    label, name = "This page (HTML, needs no network)", f"what-if-{location.name}.html"
    file = blocks.File(label, name, "text/html", render)
    blocks.show_downloads(file, chart=curve_scene.chart, argv=["dpmc", "sweep", *grid.argv()])


def show_curve_details(
    charts: tuple[CurveChart, ...], curve_scene: Scene, stop: Stop, rated: int
) -> None:
    """Show why the limit holds, the curves in numbers, and how they were measured."""
    guarantee = stop.guarantee
    label = f"Why is {'this limit' if cards.is_upheld(guarantee) else 'the claim not'} proved?"

    def show_reasons() -> None:
        """Show the guarantee, and what the paper's own estimator reaches."""
        blocks.show_guarantee(guarantee, curve_scene.id)
        risks = stop.risk, stop.person_risks[rated]
        for text in dict.fromkeys(risk.describe() for risk in risks):
            st.caption(keep_units(escape(text)))
        for line in charts[0].lines[1:]:
            ends = lines.format_curve_ends(line)
            st.caption(f"**With the paper's own estimator**: {line.metric.label} {ends}.")

    blocks.show_expander(label, show_reasons, key="why", type="compact")
    if charts[0].lines:
        tables = partial(show_tables, charts, curve_scene, stop.epsilon, rated)
        blocks.show_expander("The curves in numbers", tables, key="numbers", type="compact")
        for sentence in lines.describe_measurement(charts[0]):
            st.caption(escape(sentence))


def show_tables(
    charts: tuple[CurveChart, ...], curve_scene: Scene, epsilon: float, rated: int
) -> None:
    """Show usefulness and risk, point by point."""
    st.text(describe_chart_at(charts[0], epsilon))
    blocks.show_table(lines.tabulate_line(charts[0].lines[0]), alt="Usefulness, point by point")
    risk = sentences.tabulate_risk(curve_scene.stops, rated)
    blocks.show_table(risk, alt="Risk, point by point")
    if curve_scene.mechanism.task is Task.RANKING:
        st.caption("The next item is ranked among all unseen items, or among 99 drawn at random.")
        blocks.show_table(lines.tabulate_panels(charts), alt="Four measures, point by point")


shell.enter_through_app()
page()
