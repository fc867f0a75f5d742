"""Run many fits into the result store; running the command again resumes it: `dpmc sweep`."""

from __future__ import annotations

import json as plain_json
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from dpmc_core import registry
from dpmc_core.errors import DpmcError, InvalidSetting, unknown_name_error
from dpmc_core.stopping import StopCheck
from dpmc_data.synthetic import GENERATORS
from dpmc_lab import shipped
from dpmc_lab import sweep as core
from dpmc_lab.cli.interface import (
    INTERRUPTED,
    CommandReport,
    Json,
    Option,
    Plugins,
    Progress,
    has_packages,
    report_end,
    write_end,
)
from dpmc_lab.cli.options import (
    DATA,
    HeldOutOptions,
    Published,
    ReadingOptions,
    Seeds,
    SettingListTexts,
    Steps,
    parse_setting_lists,
    print_columns,
)
from dpmc_lab.store import Store
from dpmc_lab.sweep import presets
from dpmc_lab.views.text import format_count

_END_SIGNAL = 0  # is no signal's number; it ends the thread that listens for signals


def _load_paper_presets() -> Mapping[str, presets.Preset]:
    """Load the grids behind the papers' experiments by name.

    There are none if the package papers is missing, or the package protocol, which it imports.
    """
    if not has_packages("papers", "protocol"):
        return {}
    from dpmc_lab import papers

    return papers.list_presets()


PRESETS: Mapping[str, presets.Preset] = {**presets.PRESETS, **_load_paper_presets()}


@dataclass(frozen=True, kw_only=True)
class HeldOutOrTests(HeldOutOptions):
    """Options for held-out ratings, or files to test on.

    Args:
        test (FILE): files of test ratings, one for each DATA
    """

    test: list[str] | None = None


@dataclass(frozen=True, kw_only=True)
class GridOptions:
    """Options for what is combined, as `Grid.argv` writes them.

    Args:
        preset (NAME): name of a grid; other options override it
        mechanisms (ID): ids of mechanisms, separated by commas or spaces
        epsilons (E): privacy budgets: 0.5,1,2 or LO:HI:COUNT, spaced evenly on a logarithmic scale
        seeds: 1,2,3 or FIRST:LAST (default 1:5)
        prepare: preparation, as for dpmc fit (repeatable, in order)
    """

    preset: str | None = None
    data: Annotated[
        list[str] | None,
        Option(
            "DATA",
            f"{DATA}, an official fold such as ml-100k/u1, or SAMPLE:NAME=VALUE,... of"
            f" {', '.join(GENERATORS)} (seed=each: drawn anew for each seed)",
        ),
    ] = None
    mechanisms: list[str] | None = None
    epsilons: list[str] | None = None
    seeds: Seeds = None
    set: SettingListTexts = ()
    as_published: Published = False
    prepare: Steps = ()
    held_out: HeldOutOrTests
    reading: ReadingOptions

    def grid(self) -> core.Grid:
        """Return the grid that the options ask for.

        Raises:
            InvalidSetting: an option is not valid; this is before any data is read.
        """
        grid_values: dict[str, Any] = {}
        if self.preset is not None:
            if self.preset not in PRESETS:
                raise unknown_name_error("preset", self.preset, PRESETS)
            grid_values = dict(vars(PRESETS[self.preset].grid))
        if self.data:
            grid_values["data"] = self.data
        if self.mechanisms:
            grid_values["mechanisms"] = dict.fromkeys(core.split_values(self.mechanisms))
        for name in ("data", "mechanisms"):
            if not grid_values.get(name):
                raise InvalidSetting(f"--{name}", "given: the grid is empty", "none")
        parsed = {
            "epsilons": self.epsilons and core.parse_epsilons(self.epsilons),
            "seeds": self.seeds and core.parse_seeds(self.seeds),
            "steps": self.reading.prepare(self.prepare, *grid_values["mechanisms"]),
            "split": self.held_out.split,
        }
        grid_values |= {name: value for name, value in parsed.items() if value}
        grid_values["settings"] = {
            **grid_values.get("settings", {}),
            **parse_setting_lists(self.set, "--epsilons"),
        }
        grid_values["tests"] = self.held_out.test or ()
        for text in grid_values["data"]:
            grid_values["reading"] = self.reading.load_options(text)
        grid = core.Grid(**grid_values)
        return grid.as_published() if self.as_published else grid


@report_end("json")
def run_sweep(
    *,
    grid_options: GridOptions,
    plugin: Plugins = (),
    jobs: int | None = None,
    cluster: str | None = None,
    store: Path | None = None,
    skip_shipped: bool = False,
    json: Json = False,
) -> CommandReport:
    """Run a grid of mechanisms, epsilons and seeds.

    Run every combination of data, mechanism, settings, epsilon and seed, and store each result. The
    baselines and the runs without privacy are included.

    Args:
        jobs (N): number of processes (default: one per core)
        cluster (ADDRESS): use a Dask scheduler instead, tcp://HOST:PORT
        store (FILE): result store (default: the shared one)
        skip_shipped: skip the runs that ship with the samples
        json: progress as JSON lines on standard output; the last one says how it ended

    examples:
      dpmc sweep --data movie-night --mechanisms input-flip,output --epsilons 0.1:10:11 --seeds 1:5
      dpmc sweep --data u1.base --test u1.test --mechanisms output --epsilons 1 4 --set bound=0.1,1
      dpmc sweep --preset lwhm22-3b --jobs 2

    The store keeps every finished run at once. After Ctrl-C, a crash or a power cut, the same
    command continues where it stopped. Two sweeps on one store share their work. Results do not
    depend on --jobs, --cluster or the order.

    presets:
    """
    grid = grid_options.grid()  # reports mistakes before anything is read or started
    processes = core.resolve_jobs(jobs)
    if cluster is None:
        core.warm_up()
    else:
        from dpmc_lab.sweep import cluster as clusters  # no other sweep needs it

        clusters.check_scheduler_address(cluster)
        if plugin:
            limit = "left out with --cluster, whose workers know installed packages alone"
            raise InvalidSetting("--plugin", limit, plugin[0])
    with Store(store) as rows:
        plan = core.build_plan(grid)
        if skip_shipped:
            plan = _drop_shipped(plan)
        for source in plan.sources.values():
            print_columns(core.load_training_ratings(source), json)

        def open_pool() -> core.Pool:
            """Open the workers: those of the given cluster, or else processes of this machine."""
            if cluster is not None:
                print(f"dpmc: connecting to {cluster} ...", file=sys.stderr, flush=True)
                return clusters.ClusterPool(cluster, plan.sources)
            return open_local_pool(plan, processes)

        return CommandReport(_count_units(run_plan(plan, rows, open_pool, json)), ())


run_sweep.__doc__ = "\n".join(
    [
        (run_sweep.__doc__ or "").rstrip(),
        *(f"      {name:<17}{preset.summary}" for name, preset in PRESETS.items()),
    ]
)


def _drop_shipped(plan: core.Plan) -> core.Plan:
    """Return the plan without the units whose rows ship with the samples.

    If the plan has a curve that is not shipped, the nonprivate reference still runs with the first
    seed: recommendation lists of new curves are compared with its lists, which are not shipped.
    """
    sources_and_tasks = {(unit.name, unit.mechanism.task) for unit in plan.units}
    keys = {
        key
        for source_and_task in sources_and_tasks
        for key in shipped.list_shipped_run_keys(*source_and_task)
    }
    shipped_curves = {unit.curve_key for unit in plan.units if unit.key in keys}
    first_units = [unit for unit in plan.units if unit.seed == core.LISTS_SEED]
    if any(unit.curve_key not in shipped_curves for unit in first_units):
        keys -= {
            u.key for u in first_units if u.mechanism.id in registry.NONPRIVATE_REFERENCES.values()
        }
    return plan._replace(units=tuple(unit for unit in plan.units if unit.key not in keys))


def open_local_pool(plan: core.Plan, processes: int) -> core.LocalPool:
    """Open processes for a plan, no more than it has units."""
    return core.LocalPool(plan.sources, min(processes, max(len(plan.units), 1)))


def run_plan(
    plan: core.Plan,
    store: Store,
    open_pool: Callable[[], core.Pool],
    as_json: bool,
) -> core.SweepReport:
    """Run a plan, and print how many rows there are or which units failed; return the counts.

    Args:
        plan: the plan.
        store: receives the rows.
        open_pool: opens the workers.
        as_json: whether progress is written as JSON lines for programs.

    Raises:
        KeyboardInterrupt: it was stopped.
        DpmcError: a unit failed.
    """
    with watch_progress(as_json) as (on_progress, stop):
        report = core.run(plan.units, store, open_pool, on_progress=on_progress, stop=stop)
    n_stored = report.done + report.skipped
    if report.stopped:
        print(
            f"dpmc: {n_stored:,} of {report.total:,} rows are kept in {store.path};"
            " the same command goes on from there",
            file=sys.stderr,
        )
        raise KeyboardInterrupt
    if not as_json:
        print(f"{format_count(n_stored, 'row')} ({report.done:,} new) in {store.path}")
    if report.failed:
        reasons = Counter(report.failed.values())
        # In reverse order, so that the first unit with a reason remains.
        example_units = {reason: unit for unit, reason in reversed(report.failed.items())}
        lines = (
            f"{example_units[reason]}{f' and {n - 1} more' if n > 1 else ''}: {reason}"
            for reason, n in reasons.items()
        )
        count = len(report.failed)
        raise DpmcError(f"{count:,} of {report.total:,} units failed: {'; '.join(lines)}")
    return report


def _count_units(report: core.SweepReport) -> dict[str, Any]:
    """Return a report for programs, in which failed units are counted."""
    return {k: v for k, v in vars(report).items() if k != "stopped"} | {
        "failed": len(report.failed)
    }


class _ProgressBar:
    """Progress on standard error, with failures as soon as they happen."""

    def __init__(self) -> None:
        self._progress = Progress()
        self._printed = {""}
        self._skipped_at_start: int | None = None
        self.close = self._progress.close

    def __call__(self, report: core.SweepReport) -> None:
        """Show a report; the total leaves out rows that this sweep need not compute."""
        # Later, `skipped` also counts the rows of other sweeps on the store.
        if self._skipped_at_start is None:
            self._skipped_at_start = report.skipped
        n_done = report.n_ended
        total = report.total - report.skipped
        task = (
            "sweep"
            if not self._skipped_at_start
            else f"sweep ({format_count(self._skipped_at_start, 'row')} there before)"
        )
        for unit, reason in (("", report.note), *report.failed.items()):
            if reason not in self._printed:
                self._printed.add(reason)
                self.close()
                print(f"dpmc: {unit}{unit and ': '}{reason}", file=sys.stderr)
        if total:
            self._progress.update(task, n_done, total)


_MIN_SAMPLE = 5  # finished units, or seconds, before the remaining time is estimated


class ProgressLines:
    """Progress for programs: a JSON object per line whenever something changed."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._last: dict[str, Any] = {}

    def __call__(self, report: core.SweepReport) -> None:
        """Write a report with an estimate of the remaining time, unless nothing changed."""
        n_done = report.n_ended
        n_left = report.total - report.skipped - n_done
        state = _count_units(report)
        if state == self._last:
            return
        self._last = state
        elapsed = time.monotonic() - self._start
        can_estimate = n_done and (n_done >= _MIN_SAMPLE or elapsed >= _MIN_SAMPLE or not n_left)
        seconds = elapsed / n_done * n_left if can_estimate else None
        sys.stdout.write(plain_json.dumps(state | {"seconds_left": seconds}) + "\n")
        sys.stdout.flush()

    def close(self) -> None:
        """Do nothing, since every line is already written."""


@contextmanager
def watch_progress(as_json: bool) -> Iterator[tuple[_ProgressBar | ProgressLines, StopCheck]]:
    """Show the progress of long work, which Ctrl-C and SIGTERM ask to stop.

    Args:
        as_json: whether to write JSON lines to standard output, for programs.

    Yields:
        A function that shows a report, and one that returns whether to stop.
    """
    show = ProgressLines() if as_json else _ProgressBar()
    try:
        with _handle_stop_signals(show) as stop:
            yield show, stop
    finally:
        show.close()


STOPPING = (
    "stopping: what is being computed is dropped; waiting until finished rows are stored and the"
    " workers have ended. A second Ctrl-C (or SIGTERM) ends it at once"
)
ENDED = "ended at once; every row stored before is kept, and the same command goes on from there"


@contextmanager
def _handle_stop_signals(show: _ProgressBar | ProgressLines) -> Iterator[StopCheck]:
    """Let Ctrl-C and SIGTERM ask to stop, and say so at once; a second one ends the process.

    Python writes the number of a signal to a socket, from which a thread of its own reads, because
    the main thread may be waiting for a locked store.

    Args:
        show: shows the progress, and is closed before a message.

    Yields:
        A function that returns whether to stop.
    """
    pressed = threading.Event()
    receiver, sender = socket.socketpair()
    sender.setblocking(False)

    def listen_for_signals() -> None:
        """Ask to stop at the first signal, and end the process at the second."""
        while (signum := receiver.recv(1)[0]) != _END_SIGNAL:
            if signum not in signals:
                continue
            show.close()
            if pressed.is_set():
                print(f"dpmc: {ENDED}", file=sys.stderr, flush=True)
                for worker in multiprocessing.active_children():
                    worker.kill()
                if isinstance(show, ProgressLines):
                    # A pipe that nobody reads would hold the line back, and with it the end.
                    threading.Timer(1.0, os._exit, [INTERRUPTED]).start()
                    write_end("stopped")
                os._exit(INTERRUPTED)  # which also releases its claims on units
            pressed.set()
            print(f"dpmc: {STOPPING}", file=sys.stderr, flush=True)

    signals = [signal.SIGINT, signal.SIGTERM]
    listener = threading.Thread(target=listen_for_signals, daemon=True)
    listener.start()
    previous_handlers = [signal.signal(signum, lambda *_: None) for signum in signals]
    previous_fd = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    try:
        yield pressed.is_set
    finally:
        signal.set_wakeup_fd(previous_fd)
        for signum, handler in zip(signals, previous_handlers, strict=True):
            signal.signal(signum, handler)
        sender.send(bytes([_END_SIGNAL]))
        listener.join()
        receiver.close()
        sender.close()
