"""Curves for pages: where runs are computed and kept, which rows are there, how a sweep goes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import streamlit as st

from dpmc_core import paths, registry
from dpmc_core.errors import DpmcError, sentence
from dpmc_core.metrics import Metric
from dpmc_core.model import Task
from dpmc_lab import shipped as files
from dpmc_lab import store, sweep
from dpmc_lab.curves import lines
from dpmc_lab.curves.lines import Picture
from dpmc_lab.store import Store, StoreMissing, default_path
from dpmc_lab.sweep import Grid, Keys, presets
from pages.ui import blocks, classroom, sources, state, sweeps
from pages.ui.sweeps import Sweep
from pages.ui.text import many

TICK = 1.0  # seconds between two looks at runs
T = TypeVar("T")
GRIDS: Mapping[str, tuple[float, ...]] = {
    "coarse": (0.1, 0.3, 1.0, 3.0, 10.0),
    "medium": (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0),
    "fine": presets.EPSILONS,
    "wide": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
}
USUAL_SEEDS = 3  # of a curve that is computed here
OWN = "own"  # epsilons that are typed in
ON_DISK = (
    "Computing writes these ratings, without names, to a temporary folder that only this server's"
    " account can read; it is removed with the upload or the session."
)


class Place(NamedTuple):
    """Where runs on a data set are computed and kept: shared, or private to an upload.

    name: the data's id on the pages; data: as the command line takes them; folder: of the traces
    of sweeps; environment: of the child. steps: of preparation, beside a task's own.
    """

    name: str
    data: str
    store: Path
    folder: Path
    environment: Mapping[str, str] | None = None
    private: bool = False
    steps: tuple[str, ...] = ()


class GridRows(NamedTuple):
    """What there is of a grid. last: changes with every row of the store; present: units with a row
    in the store; pictures: one for each metric asked for; came: further units whose rows came with
    the app."""

    last: int
    present: int
    pictures: tuple[Picture, ...]
    came: int = 0

    @property
    def done(self) -> int:
        return self.present + self.came


def place(name: str) -> Place:
    """The shared store, or for an upload a folder that `start` makes and its session removes."""
    if name != sources.UPLOAD:
        return Place(name, name, default_path(), paths.home() / "sweeps")
    own = state.private().folder(sources.get(name))
    return Place(name, str(own.data), own.store, own.path / "sweeps", own.environment, True)


def keys(grid: Grid, where: Place) -> Keys:
    """The keys of a grid's units and curves; planned once. Raises DpmcError."""
    name = " ".join(grid.argv())
    if not where.private:
        return _shared_keys(name, grid)
    whole = sweep.Whole(sources.get(where.name))
    return state.kept("upload keys", name, lambda: sweep.plan(grid, [sweep.lean(whole)]).keys)


@st.cache_resource(max_entries=20, show_spinner="Planning the runs")
def _shared_keys(name: str, _grid: Grid) -> Keys:  # noqa: ARG001
    return sweep.plan(_grid).keys


def link(grid: Grid, where: Place) -> dict[str, Any]:
    """What an address of Compare must hold to open a grid of seeds 1, 2, ..."""
    named = next((name for name, values in GRIDS.items() if values == grid.epsilons), OWN)
    own = {"epsilons": ", ".join(f"{e:g}" for e in grid.epsilons)} if named == OWN else {}
    task = registry.get(grid.mechanisms[0]).task
    return {
        "data": where.name,
        **({"task": task.value} if len(sources.tasks(where.name)) > 1 else {}),
        "mechanisms": list(grid.mechanisms),
        "grid": named,
        **own,
        "seeds": len(grid.seeds),
    }


def typed(grid: Grid, where: Place) -> Grid:
    """A grid as one types it in a terminal, where an upload is a file that is read again."""
    if not where.private:
        return grid
    return replace(grid, data=["YOUR_FILE"], reading=sources.get(where.name).reading)


def start(grid: Grid, where: Place, wanted: Keys) -> None:
    """Run in the background what is there of a grid neither in the store nor with the app.

    Raises DpmcError, OSError.
    """
    command = sweep.command(grid, store=where.store if where.private else None)
    about = {"title": sources.names()[where.name], "link": link(grid, where)}
    begin(where, wanted.name, [*command, "--skip-shipped"], about)


def begin(where: Place, name: str, command: Sequence[str], about: Mapping[str, Any]) -> None:
    """Run a command in the background on the data of a place. Raises DpmcError, OSError."""
    classroom.check_allowed()
    if where.private:
        sweeps.check()
        state.private().folder(sources.get(where.name)).write()
    sweeps.start(where.folder, name, command, about=about, environment=where.environment)


def cancel(where: Place, name: str) -> None:
    """End what was begun. Raises DpmcError."""
    classroom.check_allowed()
    sweeps.cancel(where.folder, name)


def read(
    where: Place,
    wanted: Keys,
    mechanisms: Sequence[str],
    metrics: Sequence[Metric],
    epsilons: Collection[float],
    seeds: Collection[int],
) -> GridRows:
    """The rows of a grid: what the store has, filled up with what came with the app.

    Read again only when something has arrived. Raises StoreError.
    """
    names = [metric.name for metric in metrics]
    marks = (wanted.name, names, tuple(epsilons), tuple(seeds))

    def drawn(file: Store | None, last: int) -> GridRows:
        own: dict[str, lines.CurveRows] = {}
        came: dict[str, lines.CurveRows] = {}
        present: Collection[str] = ()
        if file is not None:
            only = {"keys": wanted.curves, "epsilons": epsilons, "seeds": seeds}
            own = lines.stored(file, mechanisms, metrics, **only)
            present = file.present(wanted.units)
        for id in mechanisms:
            whole = shipped_rows(where.name, id)
            facts = registry.uses_facts(where.steps)
            other = {
                key
                for key, one in whole.items()
                if one.info.mechanism != id and lines.uses_facts(one) == facts
            }
            if any(key in wanted.curves for key in whole.keys() - other):
                came |= {k: whole[k].only(seeds) for k in whole if k in other or k in wanted.curves}
        more = shipped_units(where.name, registry.get(mechanisms[0]).task) & {*wanted.units}
        pictures = tuple(lines.picture(own, mechanisms, metric, came) for metric in metrics)
        return GridRows(last, len(present), pictures, len(more.difference(present)))

    return looked("rows", where.store, marks, drawn)


def looked(
    name: str, path: Path | None, marks: object, make: Callable[[Store | None, int], T]
) -> T:
    """What is made of a store and the number of its last row, None and 0 before there is one.

    Made again only where that or marks have changed. Raises StoreError.
    """
    with suppress(StoreMissing):
        if path is not None:
            with Store(path, read_only=True) as file:
                last = store.last_row(file)
                return state.kept(name, (path, marks, last), lambda: make(file, last))
    return state.kept(name, (path, marks, 0), lambda: make(None, 0))


cached = st.cache_resource(max_entries=100, show_spinner=False)  # what came with the app
shipped_rows, shipped = cached(lines.shipped_rows), cached(lines.shipped)
shipped_units = cached(files.units)


def usual_seeds(name: str, task: Task) -> int:
    """How many seeds the curves of a data set rest on, where nobody says."""
    found = next(filter(None, (shipped(name, id) for id in registry.noisy(task))), None)
    return USUAL_SEEDS if found is None else len(found[0].lines[0].seeds)


@cached
def ready(name: str) -> frozenset[str]:
    """Ids of the mechanisms whose curve for a data set came with the app."""
    return frozenset().union(*(files.ready(name, task) for task in sources.tasks(name)))


def keys_of(picture: Picture) -> Keys:
    """The keys of the curves of a picture, to look for them in another store."""
    drawn = [*picture.lines, *picture.guesses, *(level for _, level in picture.levels)]
    curves = {one.key: one.mechanism for one in drawn}
    return Keys(" ".join(curves), (), curves)


# --- runs on a page ----------------------------------------------------------------------------


def runs(where: Place, name: str) -> bool:
    """Whether what has this name runs, whoever began it."""
    now = sweeps.look(where.folder, name)
    return now is not None and now.running


def steer(where: Place, grid: Grid, wanted: Keys, there: GridRows, label: str) -> bool:
    """The button that ends the runs of a grid, or begins or continues them; whether they run."""
    running = runs(where, wanted.name)
    if running:
        if st.button("Stop", icon=":material/stop:"):
            cancel(where, wanted.name)
            st.rerun()
    elif (
        there.done < len(wanted.units)
        and classroom.allowed()
        and st.button(label, type="primary", icon=":material/play_arrow:")
    ):
        start(grid, where, wanted)
        st.rerun()
    return running


def watch(where: Place, name: str, draw: Callable[[], None], *, running: bool) -> None:
    """A part of the page that is drawn again and again while runs go on; then the whole page is."""

    def look() -> None:
        if running and not runs(where, name):
            st.rerun()
        try:
            draw()
        except DpmcError as error:
            blocks.problem(error)

    (st.fragment(look, run_every=TICK) if running else look)()


def progress(running: Sweep, done: int, total: int, of: str = "runs") -> None:
    """How far a sweep is."""
    left = running.counts.get("seconds_left")
    far = "starting" if left is None else f"about {blocks.duration(left)} left"
    st.progress(done / max(total, 1), text=f"{done:,} of {total:,} {of} · {far}")
    if running.counts.get("note"):
        st.warning(blocks.escape(sentence(running.counts["note"])))


def standing(where: Place, name: str, there: GridRows, total: int, press: str) -> None:
    """How far the runs of a grid are, and how the last attempt ended. press: what begins them."""
    now = sweeps.look(where.folder, name)
    if now is not None and now.running:
        progress(now, there.done, total)
    elif there.done < total:
        barred = blocks.reserved("compute it", "What is there is drawn for everybody.")
        st.info(
            f"{there.done:,} of {many(total, 'run')} are there"
            f"{'' if barred else f': press {press} for the others'}."
            if there.done
            else f"This has not been computed here yet: it takes"
            f" {many(total, 'short training run')}. The first points appear within seconds."
        )
        if where.private:
            spends = "On real data every run spends its epsilon again: publish none of it."
            st.caption(f"{spends} {ON_DISK}")
        if now is not None and now.message:
            blocks.problem(DpmcError(now.message))
