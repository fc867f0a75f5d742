"""Which runs to compare: the controls of a grid, and what it stands for in a result store."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st

from dpmc_core import paths, registry, sweep
from dpmc_core.cli import grids
from dpmc_core.errors import DpmcError, InvalidSetting
from dpmc_core.model import Task
from dpmc_core.problem import LeaveLast, RandomShare, default_split
from dpmc_core.store import default_path, digest
from dpmc_core.sweep import presets
from pages.ui import prepare, sources, state

EPSILONS: Mapping[str, tuple[float, ...]] = {
    "coarse": (0.1, 0.3, 1.0, 3.0, 10.0),
    "medium": (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0),
    "fine": presets.EPSILONS,
    "wide": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
}
OWN = "own"
MOST_SEEDS = 100
_GRIDS = {
    "coarse": "5 from 0.1 to 10",
    "medium": "10 from 0.1 to 10",
    "fine": "14 from 0.1 to 10",
    "wide": "9 from 0.01 to 100",
    OWN: "my own list",
}
_TASKS = {
    Task.BINARY: "Likes and dislikes",
    Task.RATINGS: "Ratings",
    Task.RANKING: "Top lists",
}
_FIRST = 6  # mechanisms chosen at the start; more would hide each other


@dataclass(frozen=True)
class Choice:
    """What is to be compared; steps as command-line text, leave_last: instead of a random fifth."""

    data: str
    task: Task
    mechanisms: tuple[str, ...]
    epsilons: tuple[float, ...]
    seeds: tuple[int, ...]
    steps: tuple[str, ...]
    leave_last: bool


class Target(NamedTuple):
    """The rows a choice stands for. units: their keys; curves: mechanism id by curve key."""

    key: str
    units: tuple[str, ...]
    curves: Mapping[str, str]


class Place(NamedTuple):
    """Where a choice is computed. data: as the command line takes it; environment: of the child."""

    data: str
    store: Path
    folder: Path
    environment: Mapping[str, str] | None
    private: bool


def controls() -> Choice:
    """The widgets; their values live in the address. Raises DpmcError for an impossible grid."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        data = sources.pick()
        task = _task(data)
        name = _grid()
        state.number_from_link("seeds", "the number of seeds", 1, MOST_SEEDS)
        seeds = st.number_input(
            "Seeds",
            1,
            MOST_SEEDS,
            3,
            key="seeds",
            bind="query-params",
            width=140,
            help="How often each point is computed, with another split and other noise. The band"
            " shows how much the seeds disagree.",
        )
    text = ""
    if name == OWN:
        text = st.text_input(
            "epsilons",
            "0.5, 1, 2, 4",
            key="epsilons",
            bind="query-params",
            help="Numbers > 0 separated by commas, or LOW:HIGH:COUNT, spread evenly over the"
            " logarithmic scale: 0.1:10:11.",
        )
    ids = _mechanisms(task)
    public = sources.get(data).ratings.public
    with st.expander("Preparation and hold-out", icon=":material/shuffle:"):
        prepared = prepare.controls(public, task)
    if not ids:
        raise InvalidSetting("mechanisms", "at least one: choose what to compare", "none")
    return Choice(
        data,
        task,
        tuple(ids),
        EPSILONS[name] if name != OWN else epsilons(text),
        tuple(range(1, int(seeds) + 1)),
        tuple(str(step) for step in prepared.steps),
        isinstance(prepared.split, LeaveLast),
    )


def epsilons(text: str) -> tuple[float, ...]:
    """A typed list of epsilons. Raises InvalidSetting."""
    try:
        found = grids.epsilons([text])
    except DpmcError as error:
        raise DpmcError(str(error).replace("--epsilons", "epsilons")) from None
    return found


def place(choice: Choice) -> Place:
    """The shared store, or for an upload a folder that ends with the session. Raises OSError."""
    if choice.data != sources.UPLOAD:
        return Place(choice.data, default_path(), paths.home() / "sweeps", None, False)
    own = state.private().folder(sources.get(choice.data))
    return Place(str(own.data), own.store, own.path / "sweeps", own.environment, True)


def target(choice: Choice, where: Place) -> Target:
    """What the choice stands for; worked out once. Raises DpmcError."""
    if not where.private:
        return _shared_target(choice, where.data)
    kept: dict[Any, Target] = st.session_state.setdefault("upload targets", {})
    if (choice, where.data) not in kept:
        kept.clear()
        kept[choice, where.data] = _target(choice, where.data)
    return kept[choice, where.data]


@st.cache_resource(max_entries=20, show_spinner="Planning the runs")
def _shared_target(choice: Choice, data: str) -> Target:
    return _target(choice, data)


def _target(choice: Choice, data: str) -> Target:
    plan = sweep.plan(
        sweep.Grid(
            sources=[sweep.open_source(data)],
            mechanisms=choice.mechanisms,
            epsilons=choice.epsilons,
            seeds=choice.seeds,
            steps=choice.steps,
            split=_split(choice),
        )
    )
    units = tuple(unit.key for unit in plan.units)
    curves = {unit.curve: unit.mechanism.id for unit in plan.units}
    return Target(digest(sorted(units))[:16], units, curves)


def _split(choice: Choice) -> LeaveLast | RandomShare:
    return LeaveLast() if choice.leave_last else RandomShare()


def command(choice: Choice, where: Place) -> list[str]:
    """The command line of the child process."""
    options = [word for step in choice.steps for word in ("--prepare", step)]
    if (split := _split(choice)) != default_split(choice.task):  # else the command line's own
        share = ["--holdout", f"{split.share:g}"] if isinstance(split, RandomShare) else []
        options += share or ["--leave-last"]
    return sweep.command(
        [where.data],
        choice.mechanisms,
        choice.epsilons,
        choice.seeds,
        options=[*options, "--json"],
        store=where.store if where.private else None,
    )


def typed(choice: Choice, where: Place) -> str:
    """The same for people to copy."""
    words = command(choice, where)[1:-1]
    words = ["dpmc", *words[words.index("sweep") :]]
    words[words.index("--seeds") + 1] = f"{choice.seeds[0]}:{choice.seeds[-1]}"
    words[words.index("--epsilons") + 1] = ",".join(f"{e:g}" for e in choice.epsilons)
    if where.private:
        cut = words.index("--store")
        del words[cut : cut + 2]
        words[words.index(where.data)] = "YOUR_FILE"
    return shlex.join(words)


def link(choice: Choice) -> dict[str, Any]:
    """What a shared address must hold to open this comparison."""
    named = next((name for name, values in EPSILONS.items() if values == choice.epsilons), OWN)
    own = {"epsilons": ", ".join(f"{e:g}" for e in choice.epsilons)} if named == OWN else {}
    return {
        "data": choice.data,
        **({"task": choice.task.value} if len(tasks(choice.data)) > 1 else {}),
        "mechanisms": list(choice.mechanisms),
        "grid": named,
        **own,
        "seeds": len(choice.seeds),
    }


def tasks(data: str) -> list[Task]:
    """The tasks that make sense for a data set, in the order of its mechanisms."""
    return list(dict.fromkeys(registry.get(id).task for id in sources.mechanisms(data)))


def _task(data: str) -> Task:
    known = tasks(data)
    if len(known) == 1:
        return known[0]
    names = {task: _TASKS[task] for task in known}
    state.from_link("task", "the task", {task.value: names[task] for task in known}, known[0].value)
    chosen: Task = st.selectbox(
        "Task",
        known,
        format_func=names.__getitem__,
        key="task",
        bind="query-params",
        help="What is predicted. Methods for different tasks cannot share a chart.",
    )
    return chosen


def _grid() -> str:
    state.from_link("grid", "the grid of epsilons", _GRIDS, "coarse")
    chosen: str = st.selectbox(
        "epsilons",
        list(_GRIDS),
        format_func=_GRIDS.__getitem__,
        key="grid",
        bind="query-params",
        help="At which privacy budgets each mechanism is run: smaller is more private.",
    )
    return chosen


def _mechanisms(task: Task) -> list[str]:
    names = {id: registry.get(id).name for id in presets.noisy(task)}
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
