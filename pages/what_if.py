"""What does epsilon cost? One slider over computed curves; nothing is trained while it moves."""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.lab.store import Store, StoreError, StoreMissing
from dpmc_core.lab.study.answer import Finding, Protect, method_for
from dpmc_core.lab.sweep import LISTS_OF, Grid, Keys
from dpmc_core.lab.sweep.presets import EPSILONS
from dpmc_core.lab.views import answer as words
from dpmc_core.lab.views import cards, groups, lines, people
from dpmc_core.lab.views.lines import Picture
from dpmc_core.lab.views.numbers import words_at
from dpmc_core.lab.views.people import YOU, Scores, Shown
from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import Guarantee
from dpmc_core.problem import build_problem
from dpmc_core.ratings import PublicFacts
from dpmc_core.stopping import stopping
from pages.ui import (
    blocks,
    explorable,
    instrument,
    jobs,
    rows,
    scene,
    shell,
    sources,
    stage,
    state,
    sweeps,
    widgets,
)
from pages.ui.charts import curve as charts_curve
from pages.ui.jobs import Job
from pages.ui.rows import GridRows, Place
from pages.ui.scene import Scene

TICK = 1.0  # seconds between two looks at the store
KEY = "instrument"
OWN = "own"  # a promise of neither kind, made by a method that somebody chose
# What the instrument is set to, by its name in session and address: its name in the component, the
# usual value, and how text is read.
HELD: Mapping[str, tuple[str, Any, Callable[[str], Any]]] = {
    "epsilon": ("stop", 1.0, lambda text: {f"{e:g}": e for e in EPSILONS}[text]),
    "person": (
        *("person", 0),
        lambda text: text if text == YOU else range(len(people.QUANTILES))[int(text)],
    ),
    "asked": ("asked", 0, lambda text: range(2)[int(text)]),
    "need": ("wanted", None, lambda text: wanted(text)),
    "layer": ("layer", scene.LAYERS[0], {name: name for name in scene.LAYERS}.__getitem__),
}


def page() -> None:
    choices = stage.line("What does privacy cost?", quiet=True)
    body, below = st.container(), st.container()
    with choices:
        data = sources.pick(label_visibility="collapsed")
        whom = st.container(horizontal=True, vertical_alignment="center", width="content")
        id = widgets.mechanism(data)
    try:
        with choices:
            steps = widgets.facts(data, [id])
        where = rows.place(data)._replace(steps=steps)
        grid = scene.grid(where.data, id, seeds_of(where, id), steps)
        came = rows.shipped(data, id, facts=bool(steps))
        keys = rows.keys(grid, where) if came is None else rows.keys_of(came[0])
        found = curves(where, id, keys)
        card = promise(where, id, found)
        with whom:
            protect(data, card)
        with body:
            if came is None and runs(where, grid, keys):
                arriving(where, id, keys)
            else:
                moving(where, id, found)
        with below:
            with st.container(horizontal=True):
                with st.popover("Why?", icon=":material/verified_user:"):
                    blocks.guarantee(card, id)
                take_away(where, id, found)
            numbers(found, certified=cards.upheld(card))
    except (DpmcError, OSError) as error:
        blocks.problem(error)


# --- whom to protect ---------------------------------------------------------------------------


def protect(data: str, card: Guarantee) -> None:
    """The first choice."""
    own = Protect.of(card)
    names = {**words.PROTECT, **({} if own else {OWN: groups.promised(card)})}
    st.session_state["protect"] = own or OWN
    st.caption("Protect", width="content")
    st.radio(
        "Protect",
        list(names),
        format_func=names.__getitem__,
        key="protect",
        on_change=follow,
        args=(data,),
        horizontal=True,
        label_visibility="collapsed",
        width="content",
    )


def follow(data: str) -> None:
    """The recommended method for whom one protects; none is recommended for every data set."""
    chosen: Protect | str = st.session_state["protect"]
    if not isinstance(chosen, Protect):  # the method's own, which stands there already
        return
    with suppress(DpmcError, OSError):  # the page says so where it needs the data
        id = method_for(chosen, sources.tasks(data), partial(sources.facts, data))
        if id is not None:
            st.session_state["mechanism"] = id


def answered() -> None:
    """In the place of people, of whom no upload shows any: whether it can be afforded."""
    found: Finding | None = st.session_state.get("answer found")
    with st.container(border=True):
        if found is not None:
            said = words.said(found)
            st.markdown(f"At epsilon {found.question.epsilon:g}: {said.verdict} {said.found}")
        st.page_link(
            "pages/answer.py",
            label="Can I afford it? Get the answer" if found is None else "The whole answer",
            icon=":material/arrow_forward:",
        )


def promise(where: Place, id: str, found: tuple[Picture, ...]) -> Guarantee:
    """The card at the epsilon that the instrument stands at. Raises DpmcError, OSError."""
    mechanism = registry.create(id, epsilon=EPSILONS[standing()["stop"]])
    card = mechanism.guarantee(facts(where, mechanism.task, found))
    return card.given(found[0].lines[0].prepared) if found else card


def facts(where: Place, task: Task, found: tuple[Picture, ...]) -> PublicFacts:
    """Public facts of the prepared ratings; a curve knows its own. Raises DpmcError, OSError."""
    if found and not where.steps:
        return found[0].lines[0].info.public
    return sources.facts(where.name, task, where.steps)


# --- the runs behind a curve -------------------------------------------------------------------


def runs(where: Place, grid: Grid, keys: Keys) -> bool:
    """The runs behind a curve: begun, stopped and continued with one button; whether they run."""
    last = sweeps.look(where.folder, keys.name)
    if last is not None and last.running:
        if st.button("Stop", icon=":material/stop:"):
            rows.cancel(where, keys.name)
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
        if blocks.reserved("compute it", "Other mechanisms and samples have curves to look at."):
            return False
        if st.button(
            "Go on" if done else "Compute the curve",
            type="primary",
            icon=":material/timeline:",
        ):
            rows.start(grid, where, keys)
            st.rerun()
    return False


def read(where: Place, id: str, keys: Keys) -> GridRows:
    """The curve in each metric. Raises StoreError."""
    metrics = lines.metrics_of(registry.get(id).task)
    return rows.read(where, keys, [id], metrics, EPSILONS, seeds_of(where, id))


def seeds_of(where: Place, id: str) -> range:
    """Those of a curve."""
    return range(1, 1 + rows.usual_seeds(where.name, registry.get(id).task))


def curves(where: Place, id: str, keys: Keys) -> tuple[Picture, ...]:
    """What to draw; nothing before its first point. A store out of order hides no shipped curve."""
    try:
        found = read(where, id, keys).pictures
    except StoreError:
        came = rows.shipped(where.name, id, facts=bool(where.steps))
        if came is None:
            raise
        return came
    return found if found[0].lines else ()


# --- the instrument ----------------------------------------------------------------------------


def arriving(where: Place, id: str, keys: Keys) -> None:
    """The instrument while runs go on: this part looks again; a stop is the whole page's matter."""
    at = standing()["stop"]

    @st.fragment(run_every=TICK)
    def again() -> None:
        now = sweeps.look(where.folder, keys.name)
        if now is None or not now.running or standing()["stop"] != at:
            st.rerun()
        rows.progress(now, read(where, id, keys).present, len(keys.units))
        moving(where, id, curves(where, id, keys), running=True)

    again()


def moving(where: Place, id: str, found: tuple[Picture, ...], *, running: bool = False) -> None:
    """The slider with everything that moves with it."""
    if where.private:
        answered()
        rows.ledger()
    theme, shown = state.theme(), look(where, id, found, running=running)
    job = joining(where, shown)
    now = jobs.look(job)
    body = state.kept(
        "instrument",
        (where.name, where.steps, id, found, theme, running, now.result is None),
        lambda: scene.view(shown._replace(yours=now.result), theme),
    )
    instrument.show(body | standing(), key=KEY, on_change=moved)
    blocks.ticking(job, now, blocks.progress_or_problem)


def joining(where: Place, shown: Scene) -> Job | None:
    """What makes the lists of a visitor who stands in the picture: for everybody alike, once."""
    if standing()["person"] != YOU or not shown.around.six:
        return None
    job = _joining(where.name, shown.id)
    if jobs.look(job).state == "failed":
        _joining.clear(where.name, shown.id)  # the next one to come tries again
    return job


@st.cache_resource(max_entries=20, show_spinner=False)
def _joining(data: str, id: str) -> Job:
    methods, dataset = scene.at_stops(id), sources.get(data)

    def work(tell: jobs.Tell, stopped: Callable[[], bool]) -> people.Yours:
        with stopping(stopped):
            return people.yours(methods, dataset, tell)

    return Job(work)


def look(where: Place, id: str, found: tuple[Picture, ...], *, running: bool = False) -> Scene:
    """What the instrument shows. An upload shows no person. Raises DpmcError, OSError."""

    def seen() -> Scene:
        methods = scene.at_stops(id)
        task = methods[0].task
        picture = found[0] if found else Picture(lines.metrics_of(task)[0])
        shown = None if where.private or running or not found else known(where, picture)
        bare = Scene(methods, picture, facts(where, task, found), shown)
        if shown is None:
            return bare
        around = people.around(shown[0], sources.get(where.name), methods[0])
        return bare._replace(scores=leaving(where, methods), around=around)

    return state.kept("scene", (where.name, where.steps, id, found, running), seen)


def known(where: Place, picture: Picture) -> Shown | None:
    """People with their lists: shipped with a sample's curve, else out of the store."""
    line = picture.lines[0]
    task = registry.get(line.mechanism).task
    came = people.load(where.name, task, line.key)
    without = picture.without
    if came is not None or without is None:
        return came
    with suppress(StoreMissing), Store(where.store, read_only=True) as file:
        train = build_problem(sources.get(where.name), task, seed=LISTS_OF).train
        found = people.of_store(file, [line.key], without.key, train)
        if found is not None and line.key in found[1]:
            return found[0], found[1][line.key]
    return None


def leaving(where: Place, methods: tuple[Mechanism, ...]) -> tuple[Scores, ...]:
    """What leaves a server that is trusted with raw ratings."""
    found: tuple[Scores, ...] = sources.look(
        where.name,
        lambda ratings: scene.leaving(methods, ratings),
        f"scores of {methods[0].id}",
    )
    return found


def standing() -> dict[str, Any]:
    """Where the instrument stands, from the session or the address; junk is noted.

    Where the address says otherwise than was last written there, somebody went back.
    """
    written: dict[str, str | None] = st.session_state.setdefault(state.WRITTEN, {})
    found = {}
    for name, (told, usual, parsed) in HELD.items():
        asked = st.query_params.get(name)
        if name not in st.session_state or (name in written and asked != written[name]):
            st.session_state[name] = usual
            if asked is not None:
                try:
                    st.session_state[name] = parsed(asked)
                except (ValueError, LookupError):
                    state.impossible(name, f"the {name}")
        value = found[told] = st.session_state[name]
        text = f"{value:g}" if isinstance(value, int | float) else value
        written[name] = None if value == usual else text
        if asked != written[name]:
            if written[name] is None:
                del st.query_params[name]
            else:
                st.query_params[name] = written[name]
    epsilon = found.pop("stop")
    return found | {"stop": min(range(len(EPSILONS)), key=lambda k: abs(EPSILONS[k] - epsilon))}


def wanted(text: str) -> float:
    """A quality out of an address. Raises ValueError."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def moved() -> None:
    """The instrument was let go: the address and the other pages know."""
    told = st.session_state[KEY]
    for name, (short, _, _) in HELD.items():
        if short in told:
            st.session_state[name] = EPSILONS[int(told[short])] if short == "stop" else told[short]


def take_away(where: Place, id: str, found: tuple[Picture, ...]) -> None:
    """The page as a file of its own, standing where the slider stands, and its curve."""
    if not found:
        return
    title, shown, stands = sources.names()[where.name], look(where, id, found), standing()
    data = "YOUR_FILE" if where.private else where.name
    grid = scene.grid(data, id, seeds_of(where, id), where.steps)
    shown = shown._replace(yours=jobs.look(joining(where, shown)).result)

    def file() -> str:
        more = [] if where.private else explorable.others(where.name, shown)
        return explorable.html(where.name, title, [shown, *more], stands, private=where.private)

    page = blocks.File(
        "This page (HTML, 6 MB, needs no network)", f"what-if-{where.name}.html", "text/html", file
    )
    blocks.take(page, picture=found[0], argv=["dpmc", "sweep", *grid.argv()])


def numbers(found: tuple[Picture, ...], *, certified: bool) -> None:
    """What the numbers are measured on, and all of them."""
    if not found:
        return
    picture = found[0]
    line = picture.lines[0]
    for said in lines.measured_words(picture):
        st.caption(blocks.escape(said))
    folded = st.expander("The curve in numbers", type="compact", key="numbers", on_change="rerun")
    if not folded.open:
        return
    with folded:
        epsilon = EPSILONS[standing()["stop"]]
        st.text(words_at(picture, epsilon))
        blocks.show_table(lines.table_of(line), alt="The curve, point by point")
        if registry.get(line.mechanism).task is Task.RANKING:
            blocks.chart(
                charts_curve.against_epsilon(found, epsilon, certified=certified),
                alt=lines.panels_words(found),
                caption="Ten items, ranked among 99 drawn at random or among all unseen ones:"
                " compare numbers of one kind only.",
                table=lines.panels_table(found),
            )


shell.enter()
page()
