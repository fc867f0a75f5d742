"""`dpmc papers`: every figure and table of five papers, what is printed beside ours, verdicts."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from json import dumps
from pathlib import Path
from typing import Annotated, Any

from dpmc_core import paths
from dpmc_core.errors import InvalidSetting, unknown_name
from dpmc_core.lab import papers
from dpmc_core.lab import sweep as core
from dpmc_core.lab.cli import output
from dpmc_core.lab.cli import sweep as grids
from dpmc_core.lab.cli.interface import CommandReport, Json, OneOf, Option
from dpmc_core.lab.cli.options import Seeds, workers
from dpmc_core.lab.papers import engine, verdicts, views
from dpmc_core.lab.papers.engine import Experiment, GridRecipe, Made, Paper, TrialRecipe
from dpmc_core.lab.store import Store
from dpmc_core.stopping import Stopped


@dataclass(frozen=True, kw_only=True)
class PaperView(OneOf):
    """What is shown or done.

    Args:
        run: make the experiment; what is done already is kept
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
        seeds: with --run: other seeds, 1,2,3 or FIRST:LAST
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
      dpmc papers --report papers.html    all of it as one page that needs no server
    """
    paper, experiment = _named(name)
    if view.run:
        if experiment is None:
            raise InvalidSetting("NAME", "an experiment with --run", name or "none")
        return _make(experiment, making, json)
    for option, value in vars(making).items():
        if value is not None:
            raise InvalidSetting(f"--{option}", "left out without --run", str(value))
    chosen = (paper,) if paper else tuple(papers.PAPERS.values())
    if view.report is not None:
        page = views.html(views.all_looks(papers.PAPERS.values()))
        _write(view.report, page, "report")
        return None
    if view.bibtex:
        cited = {one.key: one.bibtex for one in chosen}
        return CommandReport(cited, cited.values())
    if view.csv is not None:
        looks = [
            found for found in views.all_looks(chosen) if experiment in (None, found.experiment)
        ]
        _write(view.csv, views.csv_text(looks), "table")
        return None
    if view.theory:
        tables = {one.key: views.theory_table(one) for one in chosen}
        return CommandReport(tables, _theory(chosen, tables))
    if experiment is not None and paper is not None:
        found = views.look(paper, experiment)
        return CommandReport(views.as_dict(found), _one(found))
    looks = views.all_looks(chosen)
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
    known = [*(key.lower() for key in papers.PAPERS), *(e.id for _, e in papers.experiments())]
    if name.lower() not in known:
        raise unknown_name("paper or experiment", name, known, listed="dpmc papers")
    return papers.find(name)


def _list(chosen: Sequence[Paper], looks: list[views.Look]) -> Iterator[str]:
    columns = views.overview(looks)
    order = ("preset", "place", "accuracy", "privacy", "run time", "what it shows")
    yield output.table({name: columns[name] for name in order})
    yield views.count(looks)
    meant = verdicts.meanings(found.judged.verdict for found in looks)
    yield "\n".join(output.paragraph(text, "    ", "  ") for text in meant)
    if len(chosen) == 1:
        paper = chosen[0]
        head = f"{', '.join(paper.authors)}: {paper.title}, {paper.venue} {paper.year}"
        yield "\n".join(filter(None, (head, paper.unjudged)))
    yield "One of them: dpmc papers NAME; make it: dpmc papers NAME --run"


def _one(found: views.Look) -> Iterator[str]:
    paper, one = found.paper, found.experiment
    yield f"{one.id}: {paper.key}, {one.place}\n{output.paragraph(one.title)}"
    facts = [
        ("accuracy", f"{found.judged.verdict.value}: {found.judged.reason}"),
        ("privacy", views.privacy_text(found)),
        *views.facts(found),
    ]
    yield "\n".join(output.paragraph(t, " " * 13, f"  {n:<11}") for n, t in facts if t)
    for columns in (views.numbers(found), views.statements(found), views.promises_table(found)):
        if columns and any(columns.values()):
            yield output.table(columns, "  ")


def _theory(chosen: Sequence[Paper], tables: Mapping[str, Any]) -> Iterator[str]:
    for paper in chosen:
        columns = {k: v for k, v in tables[paper.key].items() if k != "instance"}
        # That is too wide for a line; a contradiction names its own below.
        head = f"{paper.key}: {paper.title}"
        if not columns["theorem"]:
            yield f"{head}\n  No theorem of it is known here."
            continue
        notes = (output.paragraph(note, "    ", "  ") for note in views.theory_notes(paper))
        yield "\n".join([head, output.table(columns, "  "), *notes])


def _make(experiment: Experiment, making: Making, json: bool) -> CommandReport | None:
    seeds = None if making.seeds is None else core.parse_seeds(making.seeds)
    processes = workers(making.jobs)
    recipe = engine.recipe_of(experiment, seeds)
    folder = making.write or engine.own_folder()
    engine.ready(folder)
    if isinstance(recipe, GridRecipe):
        core.warm_up()
        with Store(making.store) as store:
            plan = engine.planned(recipe)
            pool = partial(core.LocalPool, plan.sources, min(processes, max(len(plan.units), 1)))
            with grids.watched(json) as (tell, stop):
                done = core.run(plan.units, store, pool, on_progress=tell, stop=stop)
            grids.conclude(done, store.path, json)
            made = engine.of_rows(experiment, recipe, plan, store)
    else:
        made = _by_pieces(experiment, recipe, json)
    path = engine.write(made, folder)
    paper, _ = papers.find(experiment.id)
    found = views.look(paper, experiment, made)
    if not json:
        return CommandReport(None, (f"the result is in {path}", *_one(found)))
    judged = found.judged
    print(dumps({"result": str(path), "accuracy": judged.verdict.value, "reason": judged.reason}))
    return None


def _by_pieces(experiment: Experiment, recipe: TrialRecipe, as_json: bool) -> Made:
    with grids.watched(as_json) as (tell, stop):
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
