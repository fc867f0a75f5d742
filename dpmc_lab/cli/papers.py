"""Show every figure and table of five papers, printed beside ours, with verdicts: `dpmc papers`."""

from __future__ import annotations

import json as plain_json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from dpmc_core import paths
from dpmc_core.errors import DpmcError, InvalidSetting
from dpmc_core.stopping import Stopped
from dpmc_lab import papers
from dpmc_lab import sweep as core
from dpmc_lab.cli.interface import (
    CommandReport,
    ExclusiveOptions,
    Json,
    Option,
    format_facts,
    format_table,
    paragraph,
)
from dpmc_lab.cli.options import Seeds
from dpmc_lab.cli.sweep import open_local_pool, run_plan, watch_progress
from dpmc_lab.papers import engine, verdicts, views
from dpmc_lab.papers.engine import Experiment, GridRecipe, Made, Paper, TrialRecipe
from dpmc_lab.store import Store


@dataclass(frozen=True, kw_only=True)
class PaperView(ExclusiveOptions):
    """Options for what is shown or done.

    Args:
        run: make the experiment, or all; what is done already is kept
        theory: a paper's theorems beside measurements
        bibtex: how to cite the papers
        report (FILE): all papers as one HTML page
    """

    run: bool = False
    theory: bool = False
    bibtex: bool = False
    report: Path | None = None


@dataclass(frozen=True, kw_only=True)
class MakeOptions:
    """Options for making an experiment.

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
    making: MakeOptions,
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
    paper, experiment = _find_named(name)
    chosen = (paper,) if paper else tuple(papers.PAPERS.values())
    if view.run:
        if experiment:
            comparison = _make_experiment(experiment, making, json)
            return (
                CommandReport(None, _format_experiment(comparison))
                if comparison and not json
                else None
            )
        _make_all(chosen, making, json)
        return None
    for option, value in vars(making).items():
        if value is not None:
            raise InvalidSetting(f"--{option}", "left out without --run", str(value))
    if view.report:
        text = views.html(views.all_looks(papers.PAPERS.values()))
        with paths.write_atomically(view.report) as partial_path:
            partial_path.write_text(text, encoding="utf-8")
        print(f"the report is in {view.report}")
        return None
    if view.bibtex:
        cited = {entry.key: entry.bibtex for entry in chosen}
        return CommandReport(cited, cited.values())
    if view.theory:
        tables = {entry.key: views.theory_table(entry) for entry in chosen}
        return CommandReport(tables, _format_theory(chosen, tables))
    comparisons = (
        [views.look(paper, experiment)] if paper and experiment else views.all_looks(chosen)
    )
    if experiment:
        return CommandReport(views.as_dict(comparisons[0]), _format_experiment(comparisons[0]))
    return CommandReport(
        [views.as_dict(entry) for entry in comparisons], _format_overview(chosen, comparisons)
    )


def _find_named(name: str | None) -> tuple[Paper | None, Experiment | None]:
    if name is None:
        return None, None
    if name.upper() in papers.PAPERS:
        return papers.PAPERS[name.upper()], None
    return papers.find(name)


def _format_overview(chosen: Sequence[Paper], comparisons: list[views.Look]) -> Iterator[str]:
    yield paragraph(views.opening(comparisons))
    if len(chosen) > 1:
        yield format_table(views.standing(comparisons), "  ")
    columns = views.overview(comparisons)
    order = ("preset", "place", "accuracy", "privacy", "run time", "what it shows")
    yield format_table({name: columns[name] for name in order})
    yield views.count(comparisons)
    meanings = verdicts.meanings(comparison.judged.verdict for comparison in comparisons)
    yield "\n".join(paragraph(text, "    ", "  ") for text in meanings)
    if len(chosen) == 1:
        paper = chosen[0]
        head = f"{', '.join(paper.authors)}: {paper.title}, {paper.venue} {paper.year}"
        yield "\n".join(filter(None, (head, paper.unjudged)))
    yield "One of them: dpmc papers NAME; make it: dpmc papers NAME --run"


def _format_experiment(comparison: views.Look) -> Iterator[str]:
    experiment = comparison.experiment
    verdict = comparison.judged
    yield (
        f"{experiment.id}: {comparison.paper.key},"
        f" {experiment.place}\n{paragraph(experiment.title)}"
    )
    accuracy = "accuracy", f"{verdict.verdict.value}: {verdict.reason}"
    yield format_facts([accuracy, ("privacy", comparison.privacy), *views.facts(comparison)])
    for columns in (
        views.numbers(comparison),
        views.statements(comparison),
        views.promises_table(comparison),
    ):
        if columns and any(columns.values()):
            yield format_table(columns, "  ")


def _format_theory(chosen: Sequence[Paper], tables: Mapping[str, Any]) -> Iterator[str]:
    for paper in chosen:
        columns = {k: v for k, v in tables[paper.key].items() if k != "instance"}
        # That is too wide for a line; a contradiction names its own below.
        head = f"{paper.key}: {paper.title}"
        if not columns["theorem"]:
            yield f"{head}\n  No theorem of it is known here."
            continue
        notes = (paragraph(note, "    ", "  ") for note in views.theory_notes(paper))
        yield "\n".join([head, format_table(columns, "  "), *notes])


def _make_experiment(
    experiment: Experiment, making: MakeOptions, json: bool, again: bool = True
) -> views.Look | None:
    """Make an experiment and return its view; `again` also remakes one with the same seeds."""
    experiment = experiment.fullest
    seeds: Sequence[int] = range(1, experiment.draws + 1)
    if making.seeds != ["printed"]:
        seeds = core.parse_seeds(making.seeds) if making.seeds else ()
    recipe = engine.recipe_of(experiment, seeds)
    if not again:
        if engine.there(experiment, recipe, making.write):
            return None
        print(f"dpmc: {experiment.id}: {experiment.title}", file=sys.stderr)
    processes = core.resolve_jobs(making.jobs, "--jobs")
    folder = making.write or engine.own_folder()
    engine.ready(folder)
    if isinstance(recipe, GridRecipe):
        core.warm_up()
        with Store(making.store) as store:
            plan = engine.planned(recipe)
            run_plan(plan, store, partial(open_local_pool, plan, processes), json)
            result = engine.of_rows(experiment, recipe, plan, store)
    else:
        result = _run_trials(experiment, recipe, json)
    path = engine.write(result, folder)
    comparison = views.look(papers.find(experiment.id)[0], experiment, result)
    summary = {"accuracy": comparison.judged.verdict.value, "reason": comparison.judged.reason}
    print(plain_json.dumps({"result": str(path)} | summary) if json else f"the result is in {path}")
    return comparison


def _make_all(chosen: Sequence[Paper], making: MakeOptions, json: bool) -> None:
    """Make what does not exist yet, and say what lacks its data.

    Raises:
        DpmcError: an experiment failed.
    """
    failures = []
    all_experiments = papers.experiments(settings=True)
    experiments = [
        experiment.fullest
        for paper, experiment in all_experiments
        if paper in chosen and experiment.recipe
    ]
    for experiment in sorted(
        experiments, key=lambda experiment: not experiment.absent
    ):  # what is left out is told first
        try:
            if experiment.absent:
                print(
                    f"dpmc: {experiment.id} is left out: first {experiment.absent}", file=sys.stderr
                )
            else:
                _make_experiment(experiment, making, json, again=False)
        except DpmcError as error:
            failures.append(f"{experiment.id}: {error}")
    if failures:
        raise DpmcError("; ".join(failures))
    print("dpmc: all whose data is here is made", file=sys.stderr)


def _run_trials(experiment: Experiment, recipe: TrialRecipe, as_json: bool) -> Made:
    with watch_progress(as_json) as (tell, stop):
        progress_reports: list[engine.Way] = []

        def report_progress(progress: engine.Way) -> None:
            progress_reports.append(progress)
            n_before = progress_reports[0].done
            tell(
                core.SweepReport(
                    total=progress.total, skipped=n_before, done=progress.done - n_before
                )
            )

        try:
            return engine.of_pieces(experiment, recipe, tell=report_progress, stop=stop)
        except Stopped:
            note = f"{progress_reports[-1].done:,} of {progress_reports[-1].total:,} parts are kept"
            print(f"dpmc: {note}; the same command goes on from there", file=sys.stderr)
            raise KeyboardInterrupt from None
