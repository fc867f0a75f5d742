"""Provide curves to pages: where runs are stored, which rows exist, and how a sweep is going."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st

from dpmc_core import registry
from dpmc_core.errors import DpmcError, format_sentence
from dpmc_core.metrics import Metric
from dpmc_core.model import Task
from dpmc_data import paths
from dpmc_data.synthetic import SAMPLES
from dpmc_lab import shipped as files
from dpmc_lab import store, sweep
from dpmc_lab.store import Store, StoreMissing, default_path
from dpmc_lab.sweep import Grid, PlanKeys, presets
from dpmc_lab.views import lines
from dpmc_lab.views.lines import CurveChart
from pages.ui import blocks, classroom, sources, state, sweeps
from pages.ui.sweeps import Sweep
from pages.ui.text import escape, format_count

POLL_SECONDS = 1.0  # seconds between two looks at runs
GRIDS: Mapping[str, tuple[float, ...]] = {
    "coarse": (0.1, 0.3, 1.0, 3.0, 10.0),
    "medium": (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0),
    "fine": presets.EPSILONS,
    "wide": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
}
DEFAULT_SEEDS = 3  # of a curve that is computed here
CUSTOM_GRID = "own"  # epsilons that are typed in
DISK_NOTICE = (
    "Computing writes these ratings, without names, to a temporary folder. Only this server's"
    " account can read it, and it is removed with the upload or the session."
)


class RunLocation(NamedTuple):
    """Where runs on a data set are computed and stored: shared, or private to an upload.

    Attributes:
        name: id of the data on the pages.
        data: as the command line takes them.
        store: file of the results.
        folder: of the traces of sweeps.
        environment: of the child process.
        private: whether the data are an upload.
        steps: of preparation, besides a task's own.
    """

    name: str
    data: str
    store: Path
    folder: Path
    environment: Mapping[str, str] | None = None
    private: bool = False
    steps: tuple[str, ...] = ()


class GridRows(NamedTuple):
    """The available rows of a grid.

    Attributes:
        last: id of the store's newest row; 0 without a store.
        present: number of units with a row in the store.
        charts: one chart for each requested metric.
        shipped: number of further units whose rows came with the app.
    """

    last: int
    present: int
    charts: tuple[CurveChart, ...]
    shipped: int = 0

    @property
    def available(self) -> int:
        """Return the number of units with a row."""
        return self.present + self.shipped


def locate_runs(name: str) -> RunLocation:
    """Return where runs on a data set are computed and stored.

    That is the shared store, or for an upload a folder that `start_runs` creates and its session
    removes.
    """
    if name != sources.UPLOAD:
        return RunLocation(name, name, default_path(), paths.find_home_folder() / "sweeps")
    upload_folder = state.get_upload_folder().open_folder(sources.get_dataset(name))
    return RunLocation(
        name,
        str(upload_folder.data),
        upload_folder.store,
        upload_folder.path / "sweeps",
        upload_folder.environment,
        True,
    )


def plan_keys(grid: Grid, location: RunLocation) -> PlanKeys:
    """Return the keys of a grid's units and curves, planned once.

    Raises:
        DpmcError: the grid does not fit the data.
    """
    name = " ".join(grid.argv())
    if not location.private:
        return _plan_shared_keys(name, grid)
    full_dataset = sweep.SplitSource(sources.get_dataset(location.name))
    return state.memoize(
        "upload keys", name, lambda: sweep.build_plan(grid, [sweep.drop_names(full_dataset)]).keys
    )


@st.cache_resource(max_entries=20, show_spinner="Planning the runs")
def _plan_shared_keys(name: str, _grid: Grid) -> PlanKeys:  # noqa: ARG001
    """Return the keys of a grid on data that all sessions share, cached by its name."""
    return sweep.build_plan(_grid).keys


def build_link(grid: Grid, location: RunLocation) -> dict[str, Any]:
    """Return the parameters of an address that opens a grid on the page Compare.

    The grid must have the seeds 1, 2, ...
    """
    grid_name = next(
        (name for name, values in GRIDS.items() if values == grid.epsilons), CUSTOM_GRID
    )
    custom_epsilons = (
        {"epsilons": ", ".join(f"{e:g}" for e in grid.epsilons)} if grid_name == CUSTOM_GRID else {}
    )
    task = registry.get_mechanism(grid.mechanisms[0]).task
    return {
        "data": location.name,
        **({"task": task.value} if len(sources.list_available_tasks(location.name)) > 1 else {}),
        "mechanisms": list(grid.mechanisms),
        "grid": grid_name,
        **custom_epsilons,
        "seeds": len(grid.seeds),
    }


def to_terminal_grid(grid: Grid, location: RunLocation) -> Grid:
    """Return the grid for a command in a terminal, in which an upload is the visitor's own file."""
    if not location.private:
        return grid
    return replace(grid, data=["YOUR_FILE"], reading=sources.get_dataset(location.name).reading)


def start_runs(grid: Grid, location: RunLocation, grid_keys: PlanKeys) -> None:
    """Run in the background the units of a grid that neither the store nor the app has.

    Args:
        grid: the grid.
        location: where to run it.
        grid_keys: keys of the grid.

    Raises:
        DpmcError: the runs cannot be started.
        OSError: the upload cannot be written.
    """
    command = sweep.build_sweep_command(grid, store=location.store if location.private else None)
    description = {"title": sources.list_names()[location.name], "link": build_link(grid, location)}
    start_command(location, grid_keys.name, [*command, "--skip-shipped"], description)


def start_command(
    location: RunLocation, name: str, command: Sequence[str], description: Mapping[str, Any]
) -> None:
    """Run a command in the background on the data of a location.

    Args:
        location: where to run it.
        name: of the sweep.
        command: of the child process.
        description: stored with the sweep.

    Raises:
        DpmcError: it cannot be started.
        OSError: the upload cannot be written.
    """
    classroom.require_teacher()
    if location.private:
        sweeps.check_can_start()
        state.get_upload_folder().open_folder(sources.get_dataset(location.name)).write()
    sweeps.start_sweep(
        location.folder, name, command, description=description, environment=location.environment
    )


def cancel_runs(location: RunLocation, name: str) -> None:
    """Stop a sweep.

    Raises:
        DpmcError: it cannot be stopped from here.
    """
    classroom.require_teacher()
    sweeps.cancel_sweep(location.folder, name)


def read_grid_rows(
    location: RunLocation,
    grid_keys: PlanKeys,
    mechanisms: Sequence[str],
    metrics: Sequence[Metric],
    epsilons: Collection[float],
    seeds: Collection[int],
) -> GridRows:
    """Read the rows of a grid from the store, completed by those that came with the app.

    The store is opened once in a run of the page, and rows are read only when one has arrived.

    Args:
        location: where the runs are stored.
        grid_keys: keys of the grid.
        mechanisms: ids of the mechanisms.
        metrics: one chart is built for each.
        epsilons, seeds: the only ones to read.

    Raises:
        StoreError: the store cannot be read.
    """
    names = [metric.name for metric in metrics]
    dependencies = (grid_keys.name, names, tuple(epsilons), tuple(seeds))

    def collect_rows(results_store: Store | None, last: int) -> GridRows:
        """Read the stored and the shipped rows of the grid, and build a chart for each metric.

        With a shipped curve of the grid come the shipped baselines and nonprivate methods that use
        item features as the grid does, even if they are not in the grid.
        """
        stored_curves: dict[str, lines.CurveRows] = {}
        shipped_curves: dict[str, lines.CurveRows] = {}
        present: Collection[str] = ()
        if results_store is not None:
            filters = {"keys": grid_keys.curves, "epsilons": epsilons, "seeds": seeds}
            stored_curves = lines.load_curve_rows(results_store, mechanisms, metrics, **filters)
            present = results_store.find_stored_keys(grid_keys.units)
        for id in mechanisms:
            curve_rows = load_shipped_rows(location.name, id)
            with_features = registry.has_features_step(location.steps)
            mismatched_keys = {
                key
                for key, rows in curve_rows.items()
                if rows.info.mechanism != id and lines.has_item_features(rows) == with_features
            }
            if any(key in grid_keys.curves for key in curve_rows.keys() - mismatched_keys):
                shipped_curves |= {
                    k: curve_rows[k].select_seeds(seeds)
                    for k in curve_rows
                    if k in mismatched_keys or k in grid_keys.curves
                }
        units = {*grid_keys.units}  # none are planned where the curve came with the app
        shipped_only = units and units & load_shipped_units(
            location.name, registry.get_mechanism(mechanisms[0]).task
        )
        charts = tuple(
            lines.build_curve_chart(stored_curves, mechanisms, metric, shipped_curves)
            for metric in metrics
        )
        return GridRows(last, len(present), charts, len(shipped_only.difference(present)))

    key = (location.store, *dependencies)

    def read_store() -> GridRows:
        """Open the store, and collect the rows if one has arrived."""
        with suppress(StoreMissing), Store(location.store, read_only=True) as file:
            last = store.get_last_row_id(file)
            return state.memoize("rows", (key, last), lambda: collect_rows(file, last))
        return state.memoize("rows", (key, 0), lambda: collect_rows(None, 0))

    return state.memoize_in_run(key, read_store)


cache_shipped = st.cache_resource(max_entries=100, show_spinner=False)  # what came with the app
load_shipped_rows = cache_shipped(lines.load_shipped_rows)
load_shipped = cache_shipped(lines.load_shipped_charts)
load_shipped_units = cache_shipped(files.list_shipped_run_keys)


def load_first_curve() -> None:
    """Load the curve that What if shows first, before anybody visits."""
    name = next(iter(SAMPLES))
    with suppress(DpmcError, OSError):  # the page says so
        count_default_seeds(name, Task.BINARY)
        load_shipped_rows(name, registry.list_private_mechanisms(Task.BINARY)[0])


def count_default_seeds(name: str, task: Task) -> int:
    """Return the number of seeds behind the shipped curves of a data set, or the default."""
    shipped_curves = (
        load_shipped(name, id, with_item_features=False)  # as What if asks for it
        for id in registry.list_private_mechanisms(task)
    )
    first_shipped = next(filter(None, shipped_curves), None)
    return DEFAULT_SEEDS if first_shipped is None else len(first_shipped[0].lines[0].seeds)


@cache_shipped
def list_ready_mechanisms(name: str) -> frozenset[str]:
    """Return the ids of the mechanisms whose curve for a data set came with the app."""
    return frozenset().union(
        *(files.list_shipped_mechanisms(name, task) for task in sources.list_available_tasks(name))
    )


def build_chart_keys(chart: CurveChart) -> PlanKeys:
    """Return the keys of a chart's curves, to find them in another store."""
    curves = {curve.key: curve.mechanism for curve in (*chart.lines, *chart.endpoints)}
    return PlanKeys(" ".join(curves), (), curves)


# --- runs on a page ----------------------------------------------------------------------------


def is_running(location: RunLocation, name: str) -> bool:
    """Return whether a sweep of this name is running, whoever started it."""
    current = sweeps.load_sweep(location.folder, name)
    return current is not None and current.running


def control_runs(
    location: RunLocation, grid: Grid, grid_keys: PlanKeys, grid_rows: GridRows, label: str
) -> bool:
    """Offer to stop, start or continue a grid's runs; return whether they run.

    Args:
        location: where the runs are computed.
        grid: the grid.
        grid_keys: its keys.
        grid_rows: its available rows.
        label: of the button that starts them.
    """
    running = is_running(location, grid_keys.name)
    if running:
        if st.button("Stop", icon=":material/stop:"):
            cancel_runs(location, grid_keys.name)
            st.rerun()
    elif (
        grid_rows.available < len(grid_keys.units)
        and classroom.is_teacher()
        and st.button(label, type="primary", icon=":material/play_arrow:")
    ):
        start_runs(grid, location, grid_keys)
        st.rerun()
    return running


def poll_runs(location: RunLocation, name: str, draw: Callable[[], None], *, running: bool) -> None:
    """Draw a part of the page, again every second while runs continue, and at their end the page.

    Args:
        location: where they run.
        name: of the sweep.
        draw: draws the part.
        running: whether the sweep is running now.
    """

    is_drawn = False

    def poll() -> None:
        """Draw the part, or the whole page again once the runs have ended."""
        nonlocal is_drawn
        if running and not is_running(location, name):
            st.rerun()
        if is_drawn:  # the first time, the page has just read the store
            state.begin_run()
        is_drawn = True
        try:
            draw()
        except DpmcError as error:
            blocks.show_error(error)

    (st.fragment(poll, run_every=POLL_SECONDS) if running else poll)()


def show_sweep_progress(running: Sweep, n_done: int, total: int, unit: str = "runs") -> None:
    """Show the progress of a sweep; `total` is 0 until the sweep has counted its runs."""
    seconds_left = running.counts.get("seconds_left")
    status_text = (
        "starting" if seconds_left is None else f"about {blocks.format_duration(seconds_left)} left"
    )
    count_text = f"{n_done:,} of {total:,} {unit} · " * bool(total)
    st.progress(n_done / max(total, 1), text=count_text + status_text)
    if running.counts.get("note"):
        st.warning(escape(format_sentence(running.counts["note"])))


def show_grid_state(
    location: RunLocation, name: str, grid_rows: GridRows, total: int, button_label: str
) -> None:
    """Show the progress of a grid's runs, and how the last attempt ended.

    Args:
        location: where they run.
        name: of the sweep.
        grid_rows: the available rows.
        total: number of units.
        button_label: label of the button that starts them.
    """
    current = sweeps.load_sweep(location.folder, name)
    if current is not None and current.running:
        show_sweep_progress(current, grid_rows.available, total)
    elif grid_rows.available < total:
        is_reserved = blocks.is_reserved_for_teacher(
            "compute it", "What is there is drawn for everybody."
        )
        st.info(
            f"{grid_rows.available:,} of {format_count(total, 'run')} are there"
            f"{'' if is_reserved else f': press {button_label} for the others'}."
            if grid_rows.available
            else f"This has not been computed here yet: it takes"
            f" {format_count(total, 'short training run')}. The first points appear within seconds."
        )
        if location.private:
            warning = "On real data every run spends its epsilon again: publish none of it."
            st.caption(f"{warning} {DISK_NOTICE}")
        if current is not None and current.message:
            blocks.show_error(DpmcError(current.message))
