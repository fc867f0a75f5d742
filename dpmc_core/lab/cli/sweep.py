"""`dpmc sweep`: a grid of runs into the result store, resumed by running it again."""

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
from dpmc_core.data import SAMPLES, datasets
from dpmc_core.data.samples import DRAWN
from dpmc_core.errors import DpmcError, InvalidSetting, unknown_name
from dpmc_core.lab import papers, shipped
from dpmc_core.lab import sweep as core
from dpmc_core.lab.cli.interface import Json, Option, Plugins
from dpmc_core.lab.cli.options import (
    DATA,
    HeldOut,
    Published,
    Reading,
    Seeds,
    Steps,
    Tried,
    values_to_try,
    workers,
)
from dpmc_core.lab.cli.output import INTERRUPTED, Progress
from dpmc_core.lab.store import Store, records
from dpmc_core.lab.store import curves as curves_of
from dpmc_core.lab.sweep import presets
from dpmc_core.lab.views import people
from dpmc_core.model import Task

_OVER = 0  # no number of a signal: nothing more to listen to
PRESETS: Mapping[str, presets.Preset] = {**presets.PRESETS, **papers.presets()}


@dataclass(frozen=True, kw_only=True)
class HeldOutOrTests(HeldOut):
    """Or files to test on.

    Args:
        test (FILE): official test ratings, one file per DATA
    """

    test: list[str] | None = None


@dataclass(frozen=True, kw_only=True)
class GridOptions:
    """What is combined: `Grid.argv` writes these options.

    Args:
        preset (NAME): a named grid; other options replace its parts
        mechanisms (ID): methods, separated by commas or spaces
        epsilons (E): budgets: 0.5,1,2 or LO:HI:COUNT, evenly spaced in the logarithm
        seeds: seeds: 1,2,3 or FIRST:LAST (default 1:5)
        prepare: preparation, as for dpmc fit (repeatable, in order)
    """

    preset: str | None = None
    data: Annotated[
        list[str] | None,
        Option(
            "DATA",
            f"{DATA}, an official fold such as ml-100k/u1, or SAMPLE:NAME=VALUE,... of"
            f" {', '.join(DRAWN)} (seed=each: drawn anew for each seed)",
        ),
    ] = None
    mechanisms: list[str] | None = None
    epsilons: list[str] | None = None
    seeds: Seeds = None
    set: Tried = ()
    as_published: Published = False
    prepare: Steps = ()
    held_out: HeldOutOrTests
    reading: Reading

    def grid(self) -> core.Grid:
        """The grid the options ask for. Raises InvalidSetting before any data is read."""
        given: dict[str, Any] = {}
        if self.preset is not None:
            if self.preset not in PRESETS:
                raise unknown_name("preset", self.preset, PRESETS)
            given = dict(vars(PRESETS[self.preset].grid))
        if self.data:
            given["data"] = self.data
        if self.mechanisms:
            given["mechanisms"] = dict.fromkeys(core.pieces(self.mechanisms))
        for name in ("data", "mechanisms"):
            if not given.get(name):
                raise InvalidSetting(f"--{name}", "given: the grid is empty", "none")
        if self.epsilons is not None:
            given["epsilons"] = core.parse_epsilons(self.epsilons)
        if self.seeds is not None:
            given["seeds"] = core.parse_seeds(self.seeds)
        if self.prepare:
            given["steps"] = self.prepare
        if (split := self.held_out.split) is not None:
            given["split"] = split
        tried = values_to_try(self.set, "--epsilons")
        given["settings"] = {**given.get("settings", {}), **tried}
        given["tests"] = self.held_out.test or ()
        for text in given["data"]:
            given["reading"] = self.reading.of(text)
        grid = core.Grid(**given)
        return grid.as_published() if self.as_published else grid


def sweep(
    *,
    asked: GridOptions,
    plugin: Plugins = (),
    jobs: int | None = None,
    cluster: str | None = None,
    store: Path | None = None,
    curves: Path | None = None,
    json: Json = False,
) -> None:
    """Run a grid of mechanisms, epsilons and seeds.

    Run every combination of data, mechanism, settings, epsilon and seed, with the floor and the
    method without privacy beside them, and store each result.

    Args:
        jobs (N): processes (default: one per core)
        cluster (ADDRESS): a Dask scheduler instead, tcp://HOST:PORT
        store (FILE): result store (default: the shared one)
        curves (FOLDER): when all is done, write each data set's curves there, as they ship with the
            samples
        json: progress as JSON lines on standard output

    examples:
      dpmc sweep --data movie-night --mechanisms input-flip,output --epsilons 0.1:10:11 --seeds 1:5
      dpmc sweep --data u1.base --test u1.test --mechanisms output --epsilons 1 4 --set bound=0.1,1
      dpmc sweep --preset lwhm22-3b --jobs 2

    Every finished run is a row of the store at once. Ctrl-C, a crash or a power cut lose none of
    them: the same command goes on where it stopped. Two sweeps on one store share their work. Rows
    do not depend on --jobs, --cluster or the order.

    presets:
    """
    grid = asked.grid()  # a wrong word is told before anything is read or started
    processes = workers(jobs)
    if cluster is None:
        core.warm_up()
    else:
        core.check_address(cluster)
        if plugin:
            limit = "left out with --cluster, whose workers know installed packages alone"
            raise InvalidSetting("--plugin", limit, plugin[0])
        # Dask reports every lost connection at length; what matters is said in a sentence
        quiet = dict.fromkeys(("distributed", "distributed.client"), "critical")
        os.environ.setdefault("DASK_DISTRIBUTED__LOGGING", repr(quiet))
    with Store(store) as rows:
        plan = core.plan(grid)
        if curves is not None:
            _check_curves(plan)
            try:
                curves.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                words = f"{curves} ({error.strerror})"
                raise InvalidSetting("--curves", "a folder", words) from None

        def open_pool() -> core.LocalPool | core.ClusterPool:
            if cluster is not None:
                print(f"dpmc: connecting to {cluster} ...", file=sys.stderr, flush=True)
                return core.ClusterPool(cluster, plan.sources)
            return core.LocalPool(plan.sources, min(processes, len(plan.units)))

        with watched(json) as (show, stop):
            report = core.run(plan.units, rows, open_pool, on_progress=show, stop=stop)
        conclude(report, rows.path, json)
        if curves is not None:
            _write_curves(rows, plan, curves)


sweep.__doc__ = "\n".join(
    [
        (sweep.__doc__ or "").rstrip(),
        *(f"      {name:<17}{preset.summary}" for name, preset in PRESETS.items()),
    ]
)


def _check_curves(plan: core.Plan) -> None:
    """Raise InvalidSetting where one file for each data set could not tell its curves apart."""
    for source in plan.sources.values():
        if not isinstance(source, core.Whole):
            raise InvalidSetting("data of curves", "one data set, split here", source.name)


def _write_curves(store: Store, plan: core.Plan, folder: Path) -> None:
    """One file for each data set and task, as they ship with the samples."""
    units = set(plan.keys.units)
    for mark, source in plan.sources.items():
        assert isinstance(source, core.Whole)  # checked before
        found = curves_of(store, keys=plan.keys.curves, source=mark, count=False)
        for task in Task:
            ids = [info.id for info in found if info.task == task.value]
            mine = [record for record in records(store, ids) if record["key"] in units]
            if mine:
                path = folder / shipped.file_name(source.name, task)
                with path.open("w", encoding="utf-8", newline="") as stream:
                    shipped.write(mine, source.dataset, mark, stream)
                keys = {info.key: info.mechanism for info in found if info.task == task.value}
                _write_lists(store, plan, source, task, keys, path.with_suffix(".json"))


def _write_lists(
    store: Store,
    plan: core.Plan,
    source: core.Whole,
    task: Task,
    keys: Mapping[str, str],
    path: Path,
) -> None:
    """What people are shown at every epsilon, where the first seed was among those computed."""
    reference = next((key for key, id in keys.items() if id == registry.REFERENCES[task]), None)
    units = (u for u in plan.units if u.source == source.fingerprint and u.mechanism.task is task)
    unit = next((unit for unit in units if unit.seed == core.LISTS_OF), None)
    if reference is None or unit is None:
        return
    if source.name in SAMPLES:  # with the names that no result depends on
        source = core.Whole(datasets.load(source.name))
    train = core.problem_of(unit, source).train
    found = people.of_store(store, keys, reference, train)
    if found is not None:
        with path.open("w", encoding="utf-8") as stream:
            people.write(*found, stream)


def conclude(report: core.SweepReport, path: Path, as_json: bool) -> None:
    """Say what was done. Raises KeyboardInterrupt where it was stopped, DpmcError for failures."""
    kept = report.done + report.skipped
    if report.stopped:
        print(
            f"dpmc: {kept:,} of {report.total:,} rows are kept in {path}; the same command goes on"
            " from there",
            file=sys.stderr,
        )
        raise KeyboardInterrupt
    if not as_json:
        print(f"{kept:,} rows ({report.done:,} new) in {path}")
    if report.failed:
        reasons = Counter(report.failed.values())
        first = {reason: unit for unit, reason in reversed(report.failed.items())}
        lines = [
            f"{first[reason]}{f' and {n - 1} more' if n > 1 else ''}: {reason}"
            for reason, n in reasons.items()
        ]
        count = len(report.failed)
        raise DpmcError(f"{count:,} of {report.total:,} units failed: {'; '.join(lines)}")


class _Bar:
    """Progress on standard error, and what went wrong as soon as it did."""

    def __init__(self) -> None:
        self._progress, self._said = Progress(), {""}
        self._before: int | None = None

    def __call__(self, report: core.SweepReport) -> None:
        if self._before is None:  # one more comes with every row of another sweep on the store
            self._before = report.skipped
        done, total = report.done + len(report.failed), report.total - report.skipped
        task = "sweep" if not self._before else f"sweep ({self._before:,} rows there before)"
        failures = [f"{unit}: {reason}" for unit, reason in report.failed.items()]
        reasons = [report.note, *report.failed.values()]
        for reason, words in zip(reasons, [report.note, *failures], strict=True):
            if reason not in self._said:
                self._said.add(reason)
                self._progress.close()
                print(f"dpmc: {words}", file=sys.stderr)
        if total:
            self._progress.update(task, done, total)

    def close(self) -> None:
        self._progress.close()


_GROUND = 5  # units, or seconds, before which nobody can tell how long the others take


class SweepLines:
    """The same for programs: a JSON object per line, whenever something changed."""

    def __init__(self) -> None:
        self._start, self._last = time.monotonic(), ""

    def __call__(self, report: core.SweepReport) -> None:
        done = report.done + len(report.failed)
        left = report.total - report.skipped - done
        state = {
            "total": report.total,
            "skipped": report.skipped,
            "done": report.done,
            "failed": len(report.failed),
            "note": report.note,
        }
        if plain_json.dumps(state) == self._last:
            return
        self._last = plain_json.dumps(state)
        spent = time.monotonic() - self._start
        grounded = done and (done >= _GROUND or spent >= _GROUND or not left)
        seconds = spent / done * left if grounded else None
        sys.stdout.write(plain_json.dumps(state | {"seconds_left": seconds}) + "\n")
        sys.stdout.flush()

    def close(self) -> None:
        """Every line is out already."""


@contextmanager
def watched(
    as_json: bool,
) -> Iterator[tuple[Callable[[core.SweepReport], None], Callable[[], bool]]]:
    """Progress of long work, and whether it has been asked to stop.

    as_json: a JSON object per line on standard output, for programs.
    """
    show = SweepLines() if as_json else _Bar()
    try:
        with _stop_button(show) as stop:
            yield show, stop
    finally:
        show.close()


STOPPING = (
    "stopping: what is being computed is dropped; waiting until finished rows are stored and the"
    " workers have ended. A second Ctrl-C (or SIGTERM) ends it at once"
)
ENDED = "ended at once; every row stored before is kept, and the same command goes on from there"


@contextmanager
def _stop_button(show: _Bar | SweepLines) -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM ask to stop, and are answered at once; a second one ends the process.

    A thread of its own listens: a main thread that waits for a locked store does not.
    """
    pressed = threading.Event()
    ear, mouth = socket.socketpair()
    mouth.setblocking(False)

    def listen() -> None:
        while (number := ear.recv(1)[0]) != _OVER:
            if number not in signals:
                continue
            show.close()
            if pressed.is_set():
                print(f"dpmc: {ENDED}", file=sys.stderr, flush=True)
                for worker in multiprocessing.active_children():
                    worker.kill()
                os._exit(INTERRUPTED)  # its claims end with it
            pressed.set()
            print(f"dpmc: {STOPPING}", file=sys.stderr, flush=True)

    signals = [signal.SIGINT, signal.SIGTERM]
    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    before = [signal.signal(number, lambda *_: None) for number in signals]
    others = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    try:
        yield pressed.is_set
    finally:
        signal.set_wakeup_fd(others)
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
        mouth.send(bytes([_OVER]))
        listener.join()
        ear.close()
        mouth.close()
