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
from dpmc_core.lab.views.people import Scores, Shown
from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import Guarantee
from dpmc_core.problem import build_problem
from dpmc_core.ratings import PublicFacts
from pages.ui import (
    blocks,
    classroom,
    explorable,
    instrument,
    rows,
    scene,
    shell,
    sources,
    state,
    sweeps,
    widgets,
)
from pages.ui.charts import ranking as charts_ranking
from pages.ui.rows import GridRows, Place
from pages.ui.scene import Scene

TICK = 1.0  # seconds between two looks at the store
KEY = "instrument"
OWN = "own"  # a promise of neither kind, made by a method that somebody chose
# What the instrument is set to, by its name in session and address: its name in the component, the
# usual value, and how text is read.
HELD: Mapping[str, tuple[str, Any, Callable[[str], Any]]] = {
    "epsilon": ("stop", 1.0, lambda text: {f"{e:g}": e for e in EPSILONS}[text]),
    "person": ("person", 0, lambda text: range(len(people.QUANTILES))[int(text)]),
    "asked": ("asked", 0, lambda text: range(2)[int(text)]),
    "need": ("wanted", None, lambda text: wanted(text)),
}


def page() -> None:
    left, right = st.columns([5, 3], vertical_alignment="bottom", gap="large")
    left.title("What does privacy cost?", anchor=False)
    with right:
        data = sources.pick(label_visibility="collapsed")
    whom = st.container(horizontal=True, vertical_alignment="center")
    body, below = st.container(), st.container()
    with below:
        more = st.container(horizontal=True, vertical_alignment="center")
    with more:
        id = widgets.mechanism(data)
    try:
        with more:
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
        with more, st.popover("Why?", icon=":material/verified_user:"):
            blocks.guarantee(card, id)
        with more:
            take_away(where, id, found)
        with below:
            numbers(found, certified=cards.upheld(card))
    except (DpmcError, OSError) as error:
        blocks.problem(error)


# --- whom to protect ---------------------------------------------------------------------------


def protect(data: str, card: Guarantee) -> None:
    """The first choice."""
    own = Protect.of(card)
    names = {**words.PROTECT, **({} if own else {OWN: groups.promised(card)})}
    st.session_state["protect"] = own or OWN
    st.radio(
        "Protect",
        list(names),
        format_func=lambda one: f"Protect {names[one]}",
        key="protect",
        on_change=follow,
        args=(data,),
        horizontal=True,
        label_visibility="collapsed",
        width="content",
    )
    st.markdown("Drag the slider, and see who sees what.")


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
    theme = state.theme()
    body = state.kept(
        "instrument",
        (where.name, where.steps, id, found, theme, running),
        lambda: scene.view(look(where, id, found, running=running), theme),
    )
    instrument.show(body | standing(), key=KEY, on_change=moved)


def look(where: Place, id: str, found: tuple[Picture, ...], *, running: bool = False) -> Scene:
    """What the instrument shows. An upload shows no person. Raises DpmcError, OSError."""

    def seen() -> Scene:
        methods = scene.at_stops(id)
        task = methods[0].task
        picture = found[0] if found else Picture(lines.metrics_of(task)[0])
        shown = None if where.private or running or not found else known(where, picture)
        scores = leaving(where, methods) if shown else ()
        return Scene(methods, picture, facts(where, task, found), shown, scores)

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
    """Where the instrument stands, from the session or the address; junk is noted."""
    for name, (_, _, parsed) in HELD.items():
        if name not in st.session_state and name in st.query_params:
            try:
                st.session_state[name] = parsed(st.query_params[name])
            except (ValueError, LookupError):
                state.impossible(name, f"the {name}")
                del st.query_params[name]
    found = {}
    for name, (told, usual, _) in HELD.items():
        value = found[told] = st.session_state.get(name, usual)
        text = None if value == usual else f"{value:g}"
        if st.query_params.get(name) != text:  # chosen here, or on another page
            if text is None:
                del st.query_params[name]
            else:
                st.query_params[name] = text
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
    """The page as a file of its own, standing where the slider stands."""
    if not found or not classroom.allowed():
        return
    title, shown, stands = sources.names()[where.name], look(where, id, found), standing()

    def file() -> str:
        more = [] if where.private else explorable.others(where.name, shown)
        return explorable.html(where.name, title, [shown, *more], stands, private=where.private)

    st.download_button(
        "Take it away",
        file,
        f"what-if-{where.name}.html",
        "text/html",
        on_click="ignore",
        icon=":material/download:",
        help="This page as one HTML file, which works without a network: about 5 MB.",
    )


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
                charts_ranking.against_epsilon(found, epsilon, certified=certified),
                alt=lines.panels_words(found),
                caption="Ten items, ranked among 99 drawn at random or among all unseen ones:"
                " compare numbers of one kind only.",
                table=lines.panels_table(found),
            )


shell.enter()
page()
