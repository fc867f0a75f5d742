"""Many runs, resumed by running them again: `dpmc sweep` and `dpmc papers`.

A sweep is a grid into the result store; of five papers every figure and table is shown, what is
printed beside ours, with verdicts, and made.
"""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from dpmc_core import paths, registry
from dpmc_core.data import SAMPLES, datasets
from dpmc_core.data.synthetic import DRAWN
from dpmc_core.errors import DpmcError, InvalidSetting, unknown_name
from dpmc_core.lab import papers, shipped
from dpmc_core.lab import sweep as core
from dpmc_core.lab.cli.interface import (
    INTERRUPTED,
    CommandReport,
    Json,
    OneOf,
    Option,
    Plugins,
    Progress,
    facts,
    paragraph,
    table,
)
from dpmc_core.lab.cli.options import (
    DATA,
    HeldOut,
    Published,
    Reading,
    Seeds,
    Steps,
    Tried,
    tell_columns,
    values_to_try,
)
from dpmc_core.lab.papers import engine, verdicts, views
from dpmc_core.lab.papers.engine import Experiment, GridRecipe, Made, Paper, TrialRecipe
from dpmc_core.lab.store import Store, records, without_epsilon
from dpmc_core.lab.store import curves as curves_of
from dpmc_core.lab.sweep import presets
from dpmc_core.lab.views import people
from dpmc_core.model import Task
from dpmc_core.stopping import Stop, Stopped

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
        parts = {
            "epsilons": self.epsilons and core.parse_epsilons(self.epsilons),
            "seeds": self.seeds and core.parse_seeds(self.seeds),
            "steps": self.reading.prepare(self.prepare, *given["mechanisms"]),
            "split": self.held_out.split,
        }
        given |= {name: value for name, value in parts.items() if value}
        given["settings"] = {**given.get("settings", {}), **values_to_try(self.set, "--epsilons")}
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
    skip_shipped: bool = False,
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
        skip_shipped: leave out the runs that ship with the samples
        curves (FOLDER): when all is done, write each data set's curves there, as they ship with the
            samples; rows that are there already count as done, but for those of the first seed
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
    processes = core.processes(jobs, "--jobs")
    if cluster is None:
        core.warm_up()
    else:
        from dpmc_core.lab.sweep import cluster as clusters  # no other sweep needs it

        clusters.check_address(cluster)
        if plugin:
            limit = "left out with --cluster, whose workers know installed packages alone"
            raise InvalidSetting("--plugin", limit, plugin[0])
    with Store(store) as rows:
        plan = core.plan(grid)
        if skip_shipped:
            plan = _without_shipped(plan)
        for source in plan.sources.values():
            tell_columns(core.ratings_of(source), json)
        if curves is not None:
            for source in plan.sources.values():
                if not isinstance(source, core.Whole):  # a file could not tell its curves apart
                    raise InvalidSetting("data of curves", "one data set, split here", source.name)
            try:
                curves.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                words = f"{curves} ({error.strerror})"
                raise InvalidSetting("--curves", "a folder", words) from None
            for source, task in product(plan.sources.values(), Task):
                path = curves / shipped.file_name(
                    source.name, task, facts=registry.uses_facts(grid.steps)
                )
                if path.is_file():
                    with path.open(encoding="utf-8", newline="") as stream:
                        shipped.read(stream, store=rows, but=core.LISTS_OF)

        def open_pool() -> core.Pool:
            if cluster is not None:
                print(f"dpmc: connecting to {cluster} ...", file=sys.stderr, flush=True)
                return clusters.ClusterPool(cluster, plan.sources)
            return _pool(plan, processes)

        _run(plan, rows, open_pool, json)
        if curves is not None:
            _write_curves(rows, plan, curves, facts=registry.uses_facts(grid.steps))


sweep.__doc__ = "\n".join(
    [
        (sweep.__doc__ or "").rstrip(),
        *(f"      {name:<17}{preset.summary}" for name, preset in PRESETS.items()),
    ]
)


def _without_shipped(plan: core.Plan) -> core.Plan:
    """The units whose rows do not ship with the samples.

    With a curve that does not ship, the reference of the first seed runs again: the lists of new
    curves are compared with its lists, which are in no shipped file.
    """
    places = {(unit.name, unit.mechanism.task) for unit in plan.units}
    keys = {key for place in places for key in shipped.units(*place)}
    known = {unit.curve for unit in plan.units if unit.key in keys}
    first = [unit for unit in plan.units if unit.seed == core.LISTS_OF]
    if any(unit.curve not in known for unit in first):
        keys -= {u.key for u in first if u.mechanism.id in registry.REFERENCES.values()}
    return plan._replace(units=tuple(unit for unit in plan.units if unit.key not in keys))


def _write_curves(store: Store, plan: core.Plan, folder: Path, *, facts: bool) -> None:
    """One file for each data set and task, as they ship with the samples."""
    units = set(plan.keys.units)
    for mark, source in plan.sources.items():
        assert isinstance(source, core.Whole)  # checked before
        known = curves_of(store, keys=plan.keys.curves, source=mark, count=False)
        for task in Task:
            # Of a grid with facts, what uses none of them is no part of its file.
            asked = task.value, facts
            found = [i for i in known if (i.task, registry.uses_facts(i.prepare)) == asked]
            rows = records(store, [info.id for info in found])
            mine = [record for record in rows if record["key"] in units]
            if mine:
                path = folder / shipped.file_name(source.name, task, facts=facts)
                with path.open("w", encoding="utf-8", newline="") as stream:
                    shipped.write(mine, source.dataset, mark, stream)
                keys = {info.key: info.mechanism for info in found}
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
    mine = (source.fingerprint, task, core.LISTS_OF)
    references = [key for key, id in keys.items() if id == registry.REFERENCES[task]]
    units = [u for u in plan.units if (u.source, u.mechanism.task, u.seed) == mine]
    if not references or not units:
        return
    if source.name in SAMPLES:  # with the names that no result depends on
        source = core.Whole(datasets.load(source.name))
    train = core.problem_of(units[0], source).train
    if found := people.of_store(store, keys, references[0], train):
        joined = {}
        for unit in units if source.name in SAMPLES else ():
            id, stops = unit.mechanism.id, presets.EPSILONS
            changed = registry.changed_settings(id, without_epsilon(unit.settings))
            if unit.epsilon != stops[0] or changed or not {*found[1][unit.curve]} >= {*stops}:
                continue
            methods = [registry.create(id, epsilon=epsilon) for epsilon in stops]
            if people.asked(methods[0], source.dataset):
                joined[unit.curve] = people.yours(methods, source.dataset, lambda *_: None)
        with path.open("w", encoding="utf-8") as stream:
            people.write(*found, joined, stream)


def _pool(plan: core.Plan, processes: int) -> core.LocalPool:
    return core.LocalPool(plan.sources, min(processes, max(len(plan.units), 1)))


def _run(
    plan: core.Plan,
    store: Store,
    open_pool: Callable[[], core.Pool],
    as_json: bool,
) -> None:
    """Run a plan and say what was done.

    Raises KeyboardInterrupt where it was stopped, DpmcError for failures.
    """
    with watched(as_json) as (show, stop):
        report = core.run(plan.units, store, open_pool, on_progress=show, stop=stop)
    kept = report.done + report.skipped
    if report.stopped:
        print(
            f"dpmc: {kept:,} of {report.total:,} rows are kept in {store.path}; the same command"
            " goes on from there",
            file=sys.stderr,
        )
        raise KeyboardInterrupt
    if not as_json:
        print(f"{kept:,} rows ({report.done:,} new) in {store.path}")
    if report.failed:
        reasons = Counter(report.failed.values())
        first = {reason: unit for unit, reason in reversed(report.failed.items())}
        lines = (
            f"{first[reason]}{f' and {n - 1} more' if n > 1 else ''}: {reason}"
            for reason, n in reasons.items()
        )
        count = len(report.failed)
        raise DpmcError(f"{count:,} of {report.total:,} units failed: {'; '.join(lines)}")


class _Bar:
    """Progress on standard error, and what went wrong as soon as it did."""

    def __init__(self) -> None:
        self._progress, self._said = Progress(), {""}
        self._before: int | None = None
        self.close = self._progress.close

    def __call__(self, report: core.SweepReport) -> None:
        if self._before is None:  # one more comes with every row of another sweep on the store
            self._before = report.skipped
        done, total = report.ended, report.total - report.skipped
        task = "sweep" if not self._before else f"sweep ({self._before:,} rows there before)"
        for unit, reason in (("", report.note), *report.failed.items()):
            if reason not in self._said:
                self._said.add(reason)
                self.close()
                print(f"dpmc: {unit}{unit and ': '}{reason}", file=sys.stderr)
        if total:
            self._progress.update(task, done, total)


_GROUND = 5  # units, or seconds, before which nobody can tell how long the others take


class SweepLines:
    """The same for programs: a JSON object per line, whenever something changed."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._last: dict[str, Any] = {}

    def __call__(self, report: core.SweepReport) -> None:
        done = report.ended
        left = report.total - report.skipped - done
        state = vars(report) | {"failed": len(report.failed)}
        del state["stopped"]
        if state == self._last:
            return
        self._last = state
        spent = time.monotonic() - self._start
        grounded = done and (done >= _GROUND or spent >= _GROUND or not left)
        seconds = spent / done * left if grounded else None
        sys.stdout.write(plain_json.dumps(state | {"seconds_left": seconds}) + "\n")
        sys.stdout.flush()

    def close(self) -> None:
        """Every line is out already."""


@contextmanager
def watched(as_json: bool) -> Iterator[tuple[_Bar | SweepLines, Stop]]:
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
def _stop_button(show: _Bar | SweepLines) -> Iterator[Stop]:
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


# --- the papers -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PaperView(OneOf):
    """What is shown or done.

    Args:
        run: make the experiment, or all; what is done already is kept
        theory: a paper's theorems beside measurements (seconds)
        bibtex: how to cite the papers
        csv (FILE): ours and what is printed, as a table
        report (FILE): all papers as one HTML page
    """

    run: bool = False
    theory: bool = False
    bibtex: bool = False
    csv: Path | None = None
    report: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Making:
    """How an experiment is made.

    Args:
        seeds: with --run: other seeds, 1,2,3 or FIRST:LAST; printed: as many as the paper has
        jobs (N): with --run of a grid: processes (default: one per core)
        store (FILE): with --run of a grid: result store (default: the shared one)
        write (FOLDER): with --run: where the result goes (default: with your other results)
    """

    seeds: Seeds = None
    jobs: int | None = None
    store: Path | None = None
    write: Path | None = None


def show(
    name: Annotated[str | None, Option("NAME")] = None,
    *,
    view: PaperView,
    making: Making,
    json: Json = False,
) -> CommandReport | None:
    """The experiments of five papers, printed beside ours.

    Every figure and table of the five papers: what is printed beside what is measured here, and
    what becomes of accuracy and of privacy.

    Args:
        name: a paper (lwhm22) or an experiment (lwhm22-1b)
        json: one JSON document; with --run progress as JSON lines, of which the last one names the
            result

    examples:
      dpmc papers                         every figure and table, with two verdicts
      dpmc papers lwhm22                  those of one paper; --theory: its theorems, measured
      dpmc papers lwhm22-1b               one: what is printed beside ours, and what the paper says
      dpmc papers lwhm22-1b --run         make it; after Ctrl-C the same command goes on
      dpmc papers --run --seeds printed   all whose data is there and that are not there yet
      dpmc papers --report papers.html    all of it as one page that needs no server
    """
    paper, experiment = _named(name)
    chosen = (paper,) if paper else tuple(papers.PAPERS.values())
    if view.run:
        if experiment:
            made = _make(experiment, making, json)
            return CommandReport(None, _one(made)) if made and not json else None
        _make_all(chosen, making, json)
        return None
    for option, value in vars(making).items():
        if value is not None:
            raise InvalidSetting(f"--{option}", "left out without --run", str(value))
    if view.report:
        _write(view.report, views.html(views.all_looks(papers.PAPERS.values())), "report")
        return None
    if view.bibtex:
        cited = {one.key: one.bibtex for one in chosen}
        return CommandReport(cited, cited.values())
    if view.theory:
        tables = {one.key: views.theory_table(one) for one in chosen}
        return CommandReport(tables, _theory(chosen, tables))
    looks = [views.look(paper, experiment)] if paper and experiment else views.all_looks(chosen)
    if view.csv:
        _write(view.csv, views.csv_text(looks), "table")
        return None
    if experiment:
        return CommandReport(views.as_dict(looks[0]), _one(looks[0]))
    return CommandReport([views.as_dict(one) for one in looks], _list(chosen, looks))


def _write(path: Path, text: str, what: str) -> None:
    with paths.whole_file(path) as part:
        part.write_text(text, encoding="utf-8")
    print(f"the {what} is in {path}")


def _named(name: str | None) -> tuple[Paper | None, Experiment | None]:
    if name is None:
        return None, None
    if name.upper() in papers.PAPERS:
        return papers.PAPERS[name.upper()], None
    return papers.find(name)


def _list(chosen: Sequence[Paper], looks: list[views.Look]) -> Iterator[str]:
    yield paragraph(views.opening(looks))
    if len(chosen) > 1:
        yield table(views.standing(looks), "  ")
    columns = views.overview(looks)
    order = ("preset", "place", "accuracy", "privacy", "run time", "what it shows")
    yield table({name: columns[name] for name in order})
    yield views.count(looks)
    meant = verdicts.meanings(found.judged.verdict for found in looks)
    yield "\n".join(paragraph(text, "    ", "  ") for text in meant)
    if len(chosen) == 1:
        paper = chosen[0]
        head = f"{', '.join(paper.authors)}: {paper.title}, {paper.venue} {paper.year}"
        yield "\n".join(filter(None, (head, paper.unjudged)))
    yield "One of them: dpmc papers NAME; make it: dpmc papers NAME --run"


def _one(found: views.Look) -> Iterator[str]:
    one, judged = found.experiment, found.judged
    yield f"{one.id}: {found.paper.key}, {one.place}\n{paragraph(one.title)}"
    accuracy = "accuracy", f"{judged.verdict.value}: {judged.reason}"
    yield facts([accuracy, ("privacy", found.privacy), *views.facts(found)])
    for columns in (views.numbers(found), views.statements(found), views.promises_table(found)):
        if columns and any(columns.values()):
            yield table(columns, "  ")


def _theory(chosen: Sequence[Paper], tables: Mapping[str, Any]) -> Iterator[str]:
    for paper in chosen:
        columns = {k: v for k, v in tables[paper.key].items() if k != "instance"}
        # That is too wide for a line; a contradiction names its own below.
        head = f"{paper.key}: {paper.title}"
        if not columns["theorem"]:
            yield f"{head}\n  No theorem of it is known here."
            continue
        notes = (paragraph(note, "    ", "  ") for note in views.theory_notes(paper))
        yield "\n".join([head, table(columns, "  "), *notes])


def _make(
    experiment: Experiment, making: Making, json: bool, again: bool = True
) -> views.Look | None:
    """What there is of it then. again: also what is there with the same seeds."""
    experiment = experiment.fullest
    seeds: Sequence[int] = range(1, experiment.draws + 1)
    if making.seeds != ["printed"]:
        seeds = core.parse_seeds(making.seeds) if making.seeds else ()
    recipe = engine.recipe_of(experiment, seeds)
    if not again:
        if engine.there(experiment, recipe, making.write):
            return None
        print(f"dpmc: {experiment.id}: {experiment.title}", file=sys.stderr)
    processes = core.processes(making.jobs, "--jobs")
    folder = making.write or engine.own_folder()
    engine.ready(folder)
    if isinstance(recipe, GridRecipe):
        core.warm_up()
        with Store(making.store) as store:
            plan = engine.planned(recipe)
            _run(plan, store, partial(_pool, plan, processes), json)
            made = engine.of_rows(experiment, recipe, plan, store)
    else:
        made = _by_pieces(experiment, recipe, json)
    path = engine.write(made, folder)
    found = views.look(papers.find(experiment.id)[0], experiment, made)
    told = {"accuracy": found.judged.verdict.value, "reason": found.judged.reason}
    print(plain_json.dumps({"result": str(path)} | told) if json else f"the result is in {path}")
    return found


def _make_all(chosen: Sequence[Paper], making: Making, json: bool) -> None:
    """Make what is not there yet, and say what lacks its data. Raises DpmcError for failures."""
    wrong = []
    every = papers.experiments(settings=True)
    made = [one.fullest for paper, one in every if paper in chosen and one.recipe]
    for one in sorted(made, key=lambda one: not one.absent):  # what is left out is told first
        try:
            if one.absent:
                print(f"dpmc: {one.id} is left out: first {one.absent}", file=sys.stderr)
            else:
                _make(one, making, json, again=False)
        except DpmcError as error:
            wrong.append(f"{one.id}: {error}")
    if wrong:
        raise DpmcError("; ".join(wrong))
    print("dpmc: all whose data is here is made", file=sys.stderr)


def _by_pieces(experiment: Experiment, recipe: TrialRecipe, as_json: bool) -> Made:
    with watched(as_json) as (tell, stop):
        ways: list[engine.Way] = []

        def told(way: engine.Way) -> None:
            ways.append(way)
            before = ways[0].done
            tell(core.SweepReport(total=way.total, skipped=before, done=way.done - before))

        try:
            return engine.of_pieces(experiment, recipe, tell=told, stop=stop)
        except Stopped:
            kept = f"{ways[-1].done:,} of {ways[-1].total:,} parts are kept"
            print(f"dpmc: {kept}; the same command goes on from there", file=sys.stderr)
            raise KeyboardInterrupt from None
