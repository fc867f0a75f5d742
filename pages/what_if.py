"""What does epsilon cost? One slider over computed curves; nothing is trained while it moves."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError, capitalise
from dpmc_core.model import Task
from dpmc_core.privacy import Guarantee
from dpmc_core.problem import build_problem
from dpmc_core.ratings import PublicFacts
from dpmc_core.stopping import stop_when
from dpmc_lab.curves import cards, groups, lines, people
from dpmc_lab.curves.lines import CurveChart
from dpmc_lab.curves.numbers import describe_chart_at
from dpmc_lab.curves.people import YOU, PeopleWithLists
from dpmc_lab.store import Store, StoreError, StoreMissing
from dpmc_lab.study.advice import PrivacyUnit, recommend_for_unit
from dpmc_lab.sweep import LISTS_SEED, Grid, PlanKeys
from dpmc_lab.sweep.presets import EPSILONS
from pages.ui import (
    blocks,
    instrument,
    jobs,
    rows,
    scene,
    sentences,
    shell,
    sources,
    stage,
    state,
    widgets,
)
from pages.ui.jobs import Job
from pages.ui.rows import GridRows, RunLocation
from pages.ui.scene import Scene

KEY, LATE = "instrument", "what if told late"
OWN = "own"  # a promise of neither kind, made by a method that somebody chose
# What the instrument is set to, by its name in session and address: its name in the component, the
# usual value, and all it may be; a quality may be any number.
HELD: Mapping[str, tuple[str, Any, Sequence[Any]]] = {
    "epsilon": ("stop", 1.0, EPSILONS),
    "person": ("person", 0, (*range(len(people.QUANTILES)), YOU)),
    "need": ("wanted", None, ()),
    "limit": ("limit", None, ()),
}


class Own(NamedTuple):
    """A curve: where its runs are, which they are, and what they say so far."""

    where: RunLocation
    grid: Grid
    keys: PlanKeys
    shipped: bool

    @property
    def id(self) -> str:
        return self.grid.mechanisms[0]

    def rows(self) -> GridRows:
        """The curve in each metric. Raises StoreError."""
        metrics = lines.list_plotted_metrics(registry.get_mechanism(self.id).task)
        return rows.read_grid_rows(
            self.where, self.keys, [self.id], metrics, EPSILONS, self.grid.seeds
        )

    def pictures(self) -> tuple[CurveChart, ...]:
        """What to draw; nothing before its first point. A store out of order hides no shipped
        curve."""
        try:
            found = self.rows().pictures
        except StoreError:
            if not self.shipped:
                raise
            return came(self.where, self.id) or ()
        return found if found[0].lines else ()


def came(where: RunLocation, id: str) -> tuple[CurveChart, ...] | None:
    return rows.load_shipped(where.name, id, with_item_features=bool(where.steps))


def page() -> None:
    question = stage.ask_question("What does privacy cost?")
    choices = stage.lay_out_choices()
    for key in ("layer", "asked"):
        state.note_removed(
            key, f"The link's choice “{key}” is gone from this page; it is left out."
        )
    body, below = stage.reserve_figure(), st.container()
    with choices:
        data = sources.choose_data(label_visibility="collapsed")
        whom = st.container(horizontal=True, vertical_alignment="center", width="content")
        id = widgets.choose_mechanism(data)
    try:
        with choices:
            where = rows.locate_runs(data)._replace(steps=widgets.choose_item_features(data, [id]))
        seeds = range(1, 1 + rows.count_default_seeds(data, registry.get_mechanism(id).task))
        grid, shipped = scene.build_curve_grid(where.data, id, seeds, where.steps), came(where, id)
        keys = rows.build_picture_keys(shipped[0]) if shipped else rows.plan_keys(grid, where)
        own = Own(where, grid, keys, bool(shipped))
        found = own.pictures()
        card = promise(own, found)
        with whom:
            protect(data, card)
        question.html(answer(own, found, card))
        with body:
            running = not shipped and runs(own)
            at = standing()["stop"]
            rows.poll_runs(
                where, keys.name, lambda: moving(own, at, running=running), running=running
            )
        with choices.container(key="download", width="content"):
            take_away(own, found)
        with below:
            numbers(own, found, card)
    except (DpmcError, OSError) as error:
        blocks.show_error(error)


def answer(own: Own, found: tuple[CurveChart, ...], card: Guarantee) -> str:
    """The answer where the knob stands, at once; the instrument writes the others."""
    epsilon = EPSILONS[standing()["stop"]]
    mechanism = registry.create(own.id, epsilon=epsilon)
    sentence = sentences.write_answer(picture_of(own.id, found), mechanism, card, epsilon)
    return sentences.render_answer(sentence)


def picture_of(id: str, found: tuple[CurveChart, ...]) -> CurveChart:
    task = registry.get_mechanism(id).task
    return found[0] if found else CurveChart(lines.list_plotted_metrics(task)[0])


# --- whom to protect ---------------------------------------------------------------------------


def protect(data: str, card: Guarantee) -> None:
    """The first choice."""
    own = PrivacyUnit.from_guarantee(card)
    names = {
        **sentences.UNIT_LABELS,
        **({} if own else {OWN: "Another promise"}),
    }
    st.session_state["protect"] = own or OWN
    st.segmented_control(
        "Whom to protect",
        list(names),
        format_func=names.__getitem__,
        key="protect",
        required=True,
        help=None if own else capitalise(groups.format_group_promise(card)),
        on_change=follow,
        args=(data,),
        label_visibility="collapsed",
    )


def follow(data: str) -> None:
    """The recommended method for whom one protects; none is recommended for every data set."""
    chosen: PrivacyUnit | str = st.session_state["protect"]
    if not isinstance(chosen, PrivacyUnit):  # the method's own, which stands there already
        return
    with suppress(DpmcError, OSError):  # the page says so where it needs the data
        id = recommend_for_unit(
            chosen, sources.list_available_tasks(data), partial(sources.get_public_facts, data)
        )
        if id is not None:
            st.session_state["mechanism"] = id


def answered() -> None:
    """In the place of people, of whom no upload shows any: whether it can be afforded."""
    found: str | None = st.session_state.get("answer found")
    with st.container(border=True):
        if found is not None:
            st.markdown(found)
        st.page_link(
            "pages/answer.py",
            label="Can I afford it? Get the answer" if found is None else "The whole answer",
            icon=":material/arrow_forward:",
        )


def promise(own: Own, found: tuple[CurveChart, ...]) -> Guarantee:
    """The card at the epsilon that the instrument stands at. Raises DpmcError, OSError."""
    mechanism = registry.create(own.id, epsilon=EPSILONS[standing()["stop"]])
    card = mechanism.guarantee(facts(own.where, mechanism.task, found))
    return card.with_preparation(found[0].lines[0].prepared) if found else card


def facts(where: RunLocation, task: Task, found: tuple[CurveChart, ...]) -> PublicFacts:
    """Public facts of the prepared ratings; a curve knows its own. Raises DpmcError, OSError."""
    if found and not where.steps:
        return found[0].lines[0].info.public
    return sources.get_public_facts(where.name, task, where.steps)


def runs(own: Own) -> bool:
    """The runs behind a curve: begun, stopped and continued with one button; whether they run."""
    there, (where, grid, keys, _) = own.rows(), own
    label = "Go on" if there.present else "Compute the curve"
    if not rows.is_running(where, keys.name):
        rows.show_grid_state(where, keys.name, there, len(keys.units), label)
    return rows.show_run_buttons(where, grid, keys, there, label)


# --- the instrument ----------------------------------------------------------------------------


def moving(own: Own, at: int, *, running: bool) -> None:
    """The slider with everything that moves with it; while runs go on, this part looks again."""
    where, id, found = own.where, own.id, own.pictures()
    if running:
        if standing()["stop"] != at:  # a stop is the whole page's matter
            st.rerun()
        rows.show_grid_state(where, own.keys.name, own.rows(), len(own.keys.units), "")
    if where.private:
        answered()
    theme, shown = state.get_theme(), look(where, id, found, running=running)
    job = joining(where, shown)
    now = jobs.get_snapshot(job)
    yours = (shown.yours or now.result) if standing()["person"] == YOU else None
    body = state.memoize(
        "instrument",
        (where.name, where.steps, id, found, theme, running, yours is None),
        lambda: scene.build_view(shown._replace(yours=yours), theme),
    )
    blocks.poll_job(job, now, blocks.show_job_progress)
    instrument.show_instrument(body | standing(), key=KEY, on_change=moved)


def joining(where: RunLocation, shown: Scene) -> Job | None:
    """What makes the lists of a visitor who stands in the picture, where they did not come with the
    program: for everybody alike, once."""
    if standing()["person"] != YOU or not shown.public_context.prompts or shown.yours:
        return None
    job = _joining(where.name, shown.id)
    if jobs.get_snapshot(job).state == "failed":
        _joining.clear(where.name, shown.id)  # the next one to come tries again
    return job


@st.cache_resource(max_entries=20, show_spinner=False)
def _joining(data: str, id: str) -> Job:
    methods, dataset = scene.create_mechanisms(id), sources.get_dataset(data)

    def work(tell: jobs.ProgressReporter, stopped: Callable[[], bool]) -> people.VisitorLists:
        with stop_when(stopped):
            return people.build_visitor_lists(methods, dataset, tell)

    return Job(work)


def look(
    where: RunLocation, id: str, found: tuple[CurveChart, ...], *, running: bool = False
) -> Scene:
    """What the instrument shows. An upload shows no person. Raises DpmcError, OSError."""

    def seen() -> Scene:
        methods = scene.create_mechanisms(id)
        task = methods[0].task
        picture = picture_of(id, found)
        shown = None if where.private or running or not found else known(where, picture)
        bare = Scene(methods, picture, facts(where, task, found), shown)
        if shown is None:
            return bare
        around = people.describe_people(shown[0], sources.get_dataset(where.name), methods[0])
        return bare._replace(
            public_context=around,
            yours=people.load_visitor_lists(where.name, task, picture.lines[0].key),
        )

    return state.memoize("scene", (where.name, where.steps, id, found, running), seen)


def known(where: RunLocation, picture: CurveChart) -> PeopleWithLists | None:
    """People with their lists: shipped with a sample's curve, else out of the store."""
    line = picture.lines[0]
    task = registry.get_mechanism(line.mechanism).task
    came = people.load_people(where.name, task, line.key)
    without = picture.nonprivate_reference
    if came is not None or without is None:
        return came
    with suppress(StoreMissing), Store(where.store, read_only=True) as file:
        train = build_problem(sources.get_dataset(where.name), task, seed=LISTS_SEED).train
        found = people.load_people_from_store(file, [line.key], without.key, train)
        if found is not None and line.key in found[1]:
            return found[0], found[1][line.key]
    return None


def standing() -> dict[str, Any]:
    """Where the instrument stands, from the session or the address; junk is noted.

    Where the address says otherwise than was last written there, somebody went back.
    """
    written: dict[str, str | None] = st.session_state.setdefault(state.LAST_WRITTEN_PARAMS, {})
    found, late = {}, st.session_state.pop(LATE, ())
    for name, (told, usual, values) in HELD.items():
        asked = st.query_params.get(name)
        if name not in st.session_state or (name in written and asked != written[name]):
            st.session_state[name] = usual
            if asked is not None:
                try:
                    st.session_state[name] = read(asked, values)
                except (ValueError, LookupError):
                    state.note_impossible_value(name, f"the {name}")
        value = found[told] = st.session_state[name]
        text = written[name] = None if value == usual else spelt(value)
        if asked != text or name in late:
            st.query_params[name] = text or ""
            if text is None:
                del st.query_params[name]
    epsilon = found.pop("stop")
    return found | {"stop": min(range(len(EPSILONS)), key=lambda k: abs(EPSILONS[k] - epsilon))}


def spelt(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def read(text: str, values: Sequence[Any]) -> Any:
    """A value out of an address, one of these or any number. Raises ValueError, LookupError."""
    if values:
        return {spelt(value): value for value in values}[text]
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def moved() -> None:
    """The instrument was let go: the address and the other pages know."""
    told = st.session_state[KEY]
    late = st.session_state[LATE] = [name for name, held in HELD.items() if held[0] in told]
    for name in late:  # the address that came along may be of before: it is told again
        value = told[HELD[name][0]]
        st.session_state[name] = EPSILONS[int(value)] if name == "epsilon" else value
        st.session_state[state.LAST_WRITTEN_PARAMS].pop(name, None)


def take_away(own: Own, found: tuple[CurveChart, ...]) -> None:
    """The page as a file of its own, standing where the slider stands, and its curve."""
    if not found:
        return
    where, id = own.where, own.id
    title, shown, stands = sources.list_names()[where.name], look(where, id, found), standing()
    grid = rows.to_terminal_grid(own.grid, where)
    shown = shown._replace(yours=shown.yours or jobs.get_snapshot(joining(where, shown)).result)

    def file() -> str:
        from pages.ui import explorable  # large, and seldom asked for

        more = [] if where.private else explorable.load_other_scenes(where.name, shown)
        return explorable.render_explorable(
            where.name, title, [shown, *more], stands, private=where.private
        )

    page = blocks.File(
        "This page (HTML, needs no network)", f"what-if-{where.name}.html", "text/html", file
    )
    blocks.show_downloads(page, picture=found[0], argv=["dpmc", "sweep", *grid.argv()])


def numbers(own: Own, found: tuple[CurveChart, ...], card: Guarantee) -> None:
    """Why the limit holds, the curves in numbers, and what these are measured on."""
    label = "Why is this limit proved?" if cards.is_upheld(card) else "Why is no limit proved?"
    blocks.show_expander(
        label, lambda: blocks.show_guarantee(card, own.id), key="why", type="compact"
    )
    if not found:
        return
    blocks.show_expander(
        "The curves in numbers", lambda: unfolded(own, found), key="numbers", type="compact"
    )
    for said in lines.describe_measurement(found[0]):
        st.caption(blocks.escape(said))


def unfolded(own: Own, found: tuple[CurveChart, ...]) -> None:
    st.text(describe_chart_at(found[0], EPSILONS[standing()["stop"]]))
    risk = look(own.where, own.id, found).risk_table()
    blocks.show_table(lines.tabulate_line(found[0].lines[0]), alt="Usefulness, point by point")
    blocks.show_table(risk, alt="Risk, point by point")
    if registry.get_mechanism(own.id).task is Task.RANKING:
        st.caption("Ten items, ranked among 99 drawn at random or among all unseen ones.")
        blocks.show_table(lines.tabulate_panels(found), alt="Four measures, point by point")


shell.enter_through_app()
page()
