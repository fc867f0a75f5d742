"""Show every figure and table of five papers, printed beside ours: `dpmc papers`."""

from __future__ import annotations

import json as plain_json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from dpmc_core import registry
from dpmc_core.errors import DpmcError, InvalidSetting
from dpmc_core.stopping import Stopped
from dpmc_data import paths
from dpmc_lab import citation, papers
from dpmc_lab import sweep as core
from dpmc_lab.citation import CitedPaper
from dpmc_lab.cli.interface import (
    CommandReport,
    ExclusiveOptions,
    Json,
    Option,
    format_facts,
    format_table,
    paragraph,
    report_end,
)
from dpmc_lab.cli.options import Seeds, SettingTexts, parse_assignment
from dpmc_lab.cli.sweep import open_local_pool, run_plan, watch_progress
from dpmc_lab.papers import engine, views
from dpmc_lab.papers.engine import CurveSet, Experiment, GridRecipe, Paper, TrialRecipe
from dpmc_lab.store import Store

_MAX_ROWS = 30  # of a table of numbers that is printed, beside the first of each curve


@dataclass(frozen=True, kw_only=True)
class PaperView(ExclusiveOptions):
    """Options for what is shown or done.

    Args:
        run: run the experiment, or all; finished runs are kept
        check: check that the stored rows still support the verdicts
        theory: compare the theorems of a paper with measurements
        bibtex: print the citations of this program and of the papers (all, or those of NAME)
        report (FILE): write all papers as one HTML page
    """

    run: bool = False
    check: bool = False
    theory: bool = False
    bibtex: bool = False
    report: Path | None = None


@dataclass(frozen=True, kw_only=True)
class MakeOptions:
    """Options for making an experiment.

    Args:
        set (NAME=VALUE): run with another setting, such as epsilon=2 (repeatable)
        seeds: with --run: seeds 1,2,3 or FIRST:LAST; printed: as many as in the paper
        jobs (N): with --run of a grid: number of processes (default: one per core)
        store (FILE): with --run of a grid: result store (default: the shared one)
        write (FOLDER): with --run: folder for the result (default: with your other results)
    """

    set: SettingTexts = ()
    seeds: Seeds = None
    jobs: int | None = None
    store: Path | None = None
    write: Path | None = None


@report_end("run", "json")
def show(
    name: Annotated[str | None, Option("NAME")] = None,
    *,
    view: PaperView,
    making: MakeOptions,
    json: Json = False,
) -> CommandReport | None:
    """Compare the experiments of five papers with our own.

    Compare every figure and table of five papers with what this program measures, and state a
    verdict. A verdict whose rows have changed is marked "check again".

    Args:
        name: a paper (lwhm22), an experiment (lwhm22-1b), or with --bibtex a mechanism (output)
        json: one JSON document; with --run, progress as JSON lines whose last line names the result

    examples:
      dpmc papers                         every figure and table, with its verdict
      dpmc papers lwhm22                  one paper; add --theory for its theorems
      dpmc papers lwhm22-1b               one experiment: the paper's figure and ours
      dpmc papers lwhm22-1b --run         run it; after Ctrl-C the same command continues
      dpmc papers ryhh24-5c --set epsilon=2   run it with one thing changed
      dpmc papers --run --seeds printed   run all that have data and no result yet
      dpmc papers output --bibtex         how to cite this program and the papers of a mechanism
      dpmc papers --check                 check that stored rows still support the verdicts
      dpmc papers --report papers.html    write everything as one HTML page
    """
    if view.bibtex and name in registry.MECHANISMS:
        return _cite(citation.find_papers_running([name or ""]))
    paper, experiment = _find_named(name)
    chosen = (paper,) if paper else tuple(papers.PAPERS.values())
    if making.set and not experiment:
        raise InvalidSetting("--set", "given for one experiment, such as lwhm22-1b", making.set[0])
    if view.run or making.set:
        if experiment:
            return _make_experiment(experiment, making, json)
        _make_all(chosen, making, json)
        return None
    for option, value in vars(making).items():
        if value not in (None, ()):
            raise InvalidSetting(f"--{option}", "left out without --run", str(value))
    if view.report:
        text = views.render_report(views.load_views(papers.PAPERS.values()))
        with paths.write_atomically(view.report) as partial_path:
            partial_path.write_text(text, encoding="utf-8")
        print(f"the report is in {view.report}")
        return None
    if view.bibtex:
        return _cite(chosen)
    if view.theory:
        tables = {entry.key: views.tabulate_theorems(entry) for entry in chosen}
        return CommandReport(tables, _format_theory(chosen, tables))
    comparisons = (
        [views.load_view(paper, experiment)] if paper and experiment else views.load_views(chosen)
    )
    if view.check:
        return _check_verdicts(comparisons)
    if experiment:
        return CommandReport(views.convert_view(comparisons[0]), _format_experiment(comparisons[0]))
    return CommandReport(
        [views.convert_view(entry) for entry in comparisons], _format_overview(chosen, comparisons)
    )


def _cite(chosen: Iterable[CitedPaper]) -> CommandReport:
    """Report the citations of this program and of some papers."""
    cited = {"dpmc-lab": citation.format_software_entry()}
    cited |= {entry.key: entry.bibtex for entry in chosen}
    return CommandReport(cited, cited.values())


def _find_named(name: str | None) -> tuple[Paper | None, Experiment | None]:
    """Return the paper with this name, or an experiment with its paper; nothing for None."""
    if name is None:
        return None, None
    if name.upper() in papers.PAPERS:
        return papers.PAPERS[name.upper()], None
    return papers.find_experiment(name)


def _format_overview(
    chosen: Sequence[Paper], comparisons: list[views.ExperimentView]
) -> Iterator[str]:
    """Yield the experiments of the chosen papers with their verdicts, as blocks of text."""
    for paper in chosen:
        of_paper = [comparison for comparison in comparisons if comparison.paper is paper]
        summary = f"{paper.summary} {views.summarise_statements(of_paper)}"
        yield f"{paper.key}: {paper.label}\n{paragraph(summary, '  ', '  ')}"
    columns = views.tabulate_overview(comparisons)
    order = ("preset", "place", "verdict", "privacy", "run time", "what it shows")
    yield format_table({name: columns[name] for name in order})
    yield "\n".join(paragraph(text, "    ", "  ") for text in views.describe_labels(comparisons))
    yield views.summarise_statements(comparisons)
    yield "One of them: dpmc papers NAME; make it: dpmc papers NAME --run"


def _format_experiment(comparison: views.ExperimentView) -> Iterator[str]:
    """Yield one experiment with its verdicts and tables, as blocks of text."""
    experiment, assessment = comparison.experiment, comparison.assessment
    yield (
        f"{experiment.id}: {comparison.paper.key},"
        f" {experiment.place}\n{paragraph(experiment.title)}"
    )
    verdict = "verdict", f"{assessment.label}: {assessment.sentence}"
    privacy = "privacy", ", ".join(text for text, _ in comparison.promise_counts)
    yield format_facts([verdict, privacy, *views.list_facts(comparison)])
    numbers = views.tabulate_numbers(comparison)
    labels = numbers.get("curve", ())
    step = -(-len(labels) // _MAX_ROWS)  # rounded up
    # Every curve has a row.
    visible = [k for k, label in enumerate(labels) if k % step == 0 or label not in labels[:k]]
    for columns in (
        {name: [texts[k] for k in visible] for name, texts in numbers.items()},
        views.tabulate_statements(comparison),
        views.tabulate_promises(comparison),
    ):
        if columns and any(columns.values()):
            yield format_table(columns, "  ")
    if step > 1:
        yield f"{len(visible)} of {len(labels)} rows are shown; the file of the result has all."


def _check_verdicts(comparisons: Sequence[views.ExperimentView]) -> CommandReport:
    """Check that stored rows still support the verdicts.

    Raises:
        DpmcError: a verdict is to be checked again.
    """
    doubts = {c.experiment.id: c.assessment.doubts for c in comparisons if c.assessment.doubts}
    if doubts:
        texts = (f"{id}: {'; '.join(reasons)}" for id, reasons in doubts.items())
        raise DpmcError("check again: " + "; ".join(texts))
    n_verdicts = sum(comparison.experiment.verdict is not None for comparison in comparisons)
    return CommandReport(
        {"verdicts": n_verdicts, "check again": []},
        [f"The stored rows support all {n_verdicts} verdicts."],
    )


def _format_theory(chosen: Sequence[Paper], tables: Mapping[str, Any]) -> Iterator[str]:
    """Yield the theorems of each chosen paper with measurements, as blocks of text.

    Args:
        chosen: the papers.
        tables: the table of theorems, by the key of the paper.
    """
    for paper in chosen:
        columns = {k: v for k, v in tables[paper.key].items() if k != "instance"}
        # That is too wide for a line; a contradiction names its own below.
        head = f"{paper.key}: {paper.title}"
        if not columns["theorem"]:
            yield f"{head}\n  No theorem of it is known here."
            continue
        notes = (paragraph(note, "    ", "  ") for note in views.list_theorem_notes(paper))
        yield "\n".join([head, format_table(columns, "  "), *notes])


def _make_experiment(
    experiment: Experiment, making: MakeOptions, json: bool, again: bool = True
) -> CommandReport | None:
    """Run an experiment, write its result and return a report of it.

    Args:
        experiment: the experiment.
        making: the options.
        json: whether to print for programs.
        again: whether to run it even if there is a result with the same seeds.

    Returns:
        None if it has a result already, and `again` is false.
    """
    experiment = experiment.fullest  # at the size of the paper, if its data are here
    if making.set:
        assignments = (parse_assignment("--set", text) for text in making.set)
        experiment = experiment.change_settings(dict(assignments))
    seeds: Sequence[int] = range(1, experiment.draws + 1)
    if making.seeds != ["printed"]:
        seeds = core.parse_seeds(making.seeds) if making.seeds else ()
    recipe = engine.choose_recipe(experiment, seeds)
    if not again:
        if engine.has_result(experiment, recipe, making.write):
            return None
        print(f"dpmc: {experiment.id}: {experiment.title}", file=sys.stderr)
    processes = core.resolve_jobs(making.jobs)
    folder = making.write or engine.get_own_folder()
    engine.prepare_folder(folder)
    if isinstance(recipe, GridRecipe):
        core.warm_up()
        with Store(making.store) as store:
            plan = engine.plan_grid(recipe)
            run_plan(plan, store, partial(open_local_pool, plan, processes), json)
            result = engine.build_grid_result(experiment, recipe, plan, store)
    else:
        result = _run_trials(experiment, recipe, json)
    path = engine.write_result(result, folder)
    paper, _ = papers.find_experiment(experiment.id.partition(engine.CHANGE_MARK)[0])
    comparison = views.load_view(paper, experiment, result)
    assessment = comparison.assessment
    summary = {"accuracy": assessment.label, "reason": assessment.sentence}
    summary |= {"check again": "; ".join(assessment.doubts)}
    if not json:
        print(f"the result is in {path}")
    blocks = [*_format_experiment(comparison)]
    if recipe.sweep_command:
        summary["sweep"] = recipe.sweep_command
        blocks.append(f"The same runs: {recipe.sweep_command}")
    return CommandReport({"result": str(path)} | summary, blocks)


def _make_all(chosen: Sequence[Paper], making: MakeOptions, json: bool) -> None:
    """Make the experiments of some papers that have no result yet, and say which lack their data.

    Args:
        chosen: the papers.
        making: the options.
        json: whether to print for programs.

    Raises:
        DpmcError: an experiment failed.
    """
    failures = []
    experiments = [
        experiment.fullest
        for paper, experiment in papers.list_experiments(with_settings=True)
        if paper in chosen and experiment.recipe
    ]
    # Experiments that lack their data come first, so that they are reported before long runs.
    for experiment in sorted(experiments, key=lambda experiment: not experiment.download_commands):
        try:
            if experiment.download_commands:
                print(
                    f"dpmc: {experiment.id} is left out: first {experiment.download_commands}",
                    file=sys.stderr,
                )
            else:
                report = _make_experiment(experiment, making, json, again=False)
                if json and report:
                    print(plain_json.dumps(report.document))
        except DpmcError as error:
            failures.append(f"{experiment.id}: {error}")
    if failures:
        raise DpmcError("; ".join(failures))
    print("dpmc: all whose data is here is made", file=sys.stderr)


def _run_trials(experiment: Experiment, recipe: TrialRecipe, as_json: bool) -> CurveSet:
    """Run the trials of an experiment and show their progress.

    Args:
        experiment: the experiment.
        recipe: its trials.
        as_json: whether to write the progress as JSON lines, for programs.

    Raises:
        KeyboardInterrupt: it was stopped.
    """
    with watch_progress(as_json) as (show_progress, stop):
        try:
            return engine.run_trials(experiment, recipe, report=show_progress, stop=stop)
        except Stopped:
            note = "finished parts are kept; the same command goes on from there"
            print(f"dpmc: {note}", file=sys.stderr)
            raise KeyboardInterrupt from None
