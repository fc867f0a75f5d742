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
    upload_folder = state.private().folder(sources.get(name))
    return Place(
        name,
        str(upload_folder.data),
        upload_folder.store,
        upload_folder.path / "sweeps",
        upload_folder.environment,
        True,
    )


def keys(grid: Grid, location: Place) -> Keys:
    """The keys of a grid's units and curves; planned once. Raises DpmcError."""
    name = " ".join(grid.argv())
    if not location.private:
        return _shared_keys(name, grid)
    full_dataset = sweep.Whole(sources.get(location.name))
    return state.kept(
        "upload keys", name, lambda: sweep.plan(grid, [sweep.lean(full_dataset)]).keys
    )


@st.cache_resource(max_entries=20, show_spinner="Planning the runs")
def _shared_keys(name: str, _grid: Grid) -> Keys:  # noqa: ARG001
    return sweep.plan(_grid).keys


def link(grid: Grid, location: Place) -> dict[str, Any]:
    """What an address of Compare must hold to open a grid of seeds 1, 2, ..."""
    grid_name = next((name for name, values in GRIDS.items() if values == grid.epsilons), OWN)
    custom_epsilons = (
        {"epsilons": ", ".join(f"{e:g}" for e in grid.epsilons)} if grid_name == OWN else {}
    )
    task = registry.get(grid.mechanisms[0]).task
    return {
        "data": location.name,
        **({"task": task.value} if len(sources.tasks(location.name)) > 1 else {}),
        "mechanisms": list(grid.mechanisms),
        "grid": grid_name,
        **custom_epsilons,
        "seeds": len(grid.seeds),
    }


def typed(grid: Grid, location: Place) -> Grid:
    """A grid as one types it in a terminal, where an upload is a file that is read again."""
    if not location.private:
        return grid
    return replace(grid, data=["YOUR_FILE"], reading=sources.get(location.name).reading)


def start(grid: Grid, location: Place, grid_keys: Keys) -> None:
    """Run in the background what is there of a grid neither in the store nor with the app.

    Raises DpmcError, OSError.
    """
    command = sweep.command(grid, store=location.store if location.private else None)
    description = {"title": sources.names()[location.name], "link": link(grid, location)}
    begin(location, grid_keys.name, [*command, "--skip-shipped"], description)


def begin(
    location: Place, name: str, command: Sequence[str], description: Mapping[str, Any]
) -> None:
    """Run a command in the background on the data of a place. Raises DpmcError, OSError."""
    classroom.check_allowed()
    if location.private:
        sweeps.check()
        state.private().folder(sources.get(location.name)).write()
    sweeps.start(
        location.folder, name, command, about=description, environment=location.environment
    )


def cancel(location: Place, name: str) -> None:
    """End what was begun. Raises DpmcError."""
    classroom.check_allowed()
    sweeps.cancel(location.folder, name)


def read(
    location: Place,
    grid_keys: Keys,
    mechanisms: Sequence[str],
    metrics: Sequence[Metric],
    epsilons: Collection[float],
    seeds: Collection[int],
) -> GridRows:
    """The rows of a grid: what the store has, filled up with what came with the app.

    Read again only when something has arrived. Raises StoreError.
    """
    names = [metric.name for metric in metrics]
    dependencies = (grid_keys.name, names, tuple(epsilons), tuple(seeds))

    def drawn(results_store: Store | None, last: int) -> GridRows:
        stored_curves: dict[str, lines.CurveRows] = {}
        shipped_curves: dict[str, lines.CurveRows] = {}
        present: Collection[str] = ()
        if results_store is not None:
            filters = {"keys": grid_keys.curves, "epsilons": epsilons, "seeds": seeds}
            stored_curves = lines.stored(results_store, mechanisms, metrics, **filters)
            present = results_store.present(grid_keys.units)
        for id in mechanisms:
            curve_rows = shipped_rows(location.name, id)
            with_features = registry.uses_facts(location.steps)
            mismatched_keys = {
                key
                for key, rows in curve_rows.items()
                if rows.info.mechanism != id and lines.uses_facts(rows) == with_features
            }
            if any(key in grid_keys.curves for key in curve_rows.keys() - mismatched_keys):
                shipped_curves |= {
                    k: curve_rows[k].only(seeds)
                    for k in curve_rows
                    if k in mismatched_keys or k in grid_keys.curves
                }
        shipped_only = shipped_units(location.name, registry.get(mechanisms[0]).task) & {
            *grid_keys.units
        }
        pictures = tuple(
            lines.picture(stored_curves, mechanisms, metric, shipped_curves) for metric in metrics
        )
        return GridRows(last, len(present), pictures, len(shipped_only.difference(present)))

    return looked("rows", location.store, dependencies, drawn)


def looked(
    name: str, path: Path | None, dependencies: object, make: Callable[[Store | None, int], T]
) -> T:
    """What is made of a store and the number of its last row, None and 0 before there is one.

    Made again only where that or marks have changed. Raises StoreError.
    """
    with suppress(StoreMissing):
        if path is not None:
            with Store(path, read_only=True) as file:
                last = store.last_row(file)
                return state.kept(name, (path, dependencies, last), lambda: make(file, last))
    return state.kept(name, (path, dependencies, 0), lambda: make(None, 0))


cached = st.cache_resource(max_entries=100, show_spinner=False)  # what came with the app
shipped_rows, shipped = cached(lines.shipped_rows), cached(lines.shipped)
shipped_units = cached(files.units)


def usual_seeds(name: str, task: Task) -> int:
    """How many seeds the curves of a data set rest on, where nobody says."""
    first_shipped = next(filter(None, (shipped(name, id) for id in registry.noisy(task))), None)
    return USUAL_SEEDS if first_shipped is None else len(first_shipped[0].lines[0].seeds)


@cached
def ready(name: str) -> frozenset[str]:
    """Ids of the mechanisms whose curve for a data set came with the app."""
    return frozenset().union(*(files.ready(name, task) for task in sources.tasks(name)))


def keys_of(picture: Picture) -> Keys:
    """The keys of the curves of a picture, to look for them in another store."""
    all_lines = [*picture.lines, *picture.guesses, *(level for _, level in picture.levels)]
    curves = {curve_line.key: curve_line.mechanism for curve_line in all_lines}
    return Keys(" ".join(curves), (), curves)


# --- runs on a page ----------------------------------------------------------------------------


def runs(location: Place, name: str) -> bool:
    """Whether what has this name runs, whoever began it."""
    current = sweeps.look(location.folder, name)
    return current is not None and current.running


def steer(location: Place, grid: Grid, grid_keys: Keys, grid_rows: GridRows, label: str) -> bool:
    """The button that ends the runs of a grid, or begins or continues them; whether they run."""
    running = runs(location, grid_keys.name)
    if running:
        if st.button("Stop", icon=":material/stop:"):
            cancel(location, grid_keys.name)
            st.rerun()
    elif (
        grid_rows.done < len(grid_keys.units)
        and classroom.allowed()
        and st.button(label, type="primary", icon=":material/play_arrow:")
    ):
        start(grid, location, grid_keys)
        st.rerun()
    return running


def watch(location: Place, name: str, draw: Callable[[], None], *, running: bool) -> None:
    """A part of the page that is drawn again and again while runs go on; then the whole page is."""

    def look() -> None:
        if running and not runs(location, name):
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


def standing(location: Place, name: str, there: GridRows, total: int, press: str) -> None:
    """How far the runs of a grid are, and how the last attempt ended. press: what begins them."""
    current = sweeps.look(location.folder, name)
    if current is not None and current.running:
        progress(current, there.done, total)
    elif there.done < total:
        barred = blocks.reserved("compute it", "What is there is drawn for everybody.")
        st.info(
            f"{there.done:,} of {many(total, 'run')} are there"
            f"{'' if barred else f': press {press} for the others'}."
            if there.done
            else f"This has not been computed here yet: it takes"
            f" {many(total, 'short training run')}. The first points appear within seconds."
        )
        if location.private:
            spends = "On real data every run spends its epsilon again: publish none of it."
            st.caption(f"{spends} {ON_DISK}")
        if current is not None and current.message:
            blocks.problem(DpmcError(current.message))
