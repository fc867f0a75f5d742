"""`dpmc papers`: every figure and table of five papers, what is printed beside ours, verdicts."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpmc_core import paths
from dpmc_core.errors import InvalidSetting, check_number, unknown_name
from dpmc_core.lab import papers
from dpmc_core.lab import sweep as core
from dpmc_core.lab.cli import arguments, output
from dpmc_core.lab.cli import sweep as grids
from dpmc_core.lab.papers import report, run, verdicts, words
from dpmc_core.lab.papers.frame import Experiment, GridRecipe, Made, Paper, PieceRecipe
from dpmc_core.lab.store import Store
from dpmc_core.stopping import Stopped

EPILOG = """examples:
  dpmc papers                         every figure and table, with two verdicts
  dpmc papers lwhm22                  those of one paper; --theory: its theorems beside measurements
  dpmc papers lwhm22-1b               one: what is printed beside ours, and what the paper says
  dpmc papers lwhm22-1b --run         make it; after Ctrl-C the same command goes on
  dpmc papers --report papers.html    all of it as one page that needs no server
"""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "papers",
        help="the experiments of five papers, printed beside ours",
        description="Every figure and table of the five papers: what is printed beside what is"
        " measured here, and what becomes of accuracy and of privacy.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, view = parser.add_argument, parser.add_mutually_exclusive_group().add_argument
    add("name", nargs="?", metavar="NAME", help="a paper (lwhm22) or an experiment (lwhm22-1b)")
    view("--run", action="store_true", help="make the experiment; what is done already is kept")
    add("--seeds", metavar="N", nargs="+", help="with --run: other seeds, 1,2,3 or FIRST:LAST")
    add(
        "--jobs",
        metavar="N",
        type=arguments.integer,
        help="with --run of a grid: processes (default: one per core)",
    )
    add(
        "--store",
        metavar="FILE",
        type=Path,
        help="with --run of a grid: result store (default: the shared one)",
    )
    add(
        "--write",
        metavar="FOLDER",
        type=Path,
        help="with --run: where the result goes (default: with your other results)",
    )
    view("--theory", action="store_true", help="a paper's theorems beside measurements (seconds)")
    view("--bibtex", action="store_true", help="how to cite the papers")
    view("--csv", metavar="FILE", type=Path, help="ours and what is printed, as a table")
    view("--report", metavar="FILE", type=Path, help="all papers as one HTML page")
    add(
        "--json",
        action="store_true",
        help="one JSON document; with --run progress as JSON lines, of which the last one names the"
        " result",
    )
    parser.set_defaults(command=show)


def show(args: argparse.Namespace) -> None:
    paper, experiment = _named(args.name)
    if args.run:
        if experiment is None:
            raise InvalidSetting("NAME", "an experiment with --run", args.name or "none")
        _make(experiment, args)
        return
    for option in ("seeds", "jobs", "store", "write"):
        if getattr(args, option) is not None:
            value = str(getattr(args, option))
            raise InvalidSetting(f"--{option}", "left out without --run", value)
    chosen = (paper,) if paper else tuple(papers.PAPERS.values())
    if args.report is not None:
        with paths.whole_file(args.report) as part:
            part.write_text(report.html(words.all_looks(papers.PAPERS.values())), encoding="utf-8")
        print(f"the report is in {args.report}")
    elif args.bibtex:
        if args.json:
            output.write_json({one.key: one.bibtex for one in chosen})
        else:
            print("\n\n".join(one.bibtex for one in chosen))
    elif args.csv is not None:
        looks = [
            found for found in words.all_looks(chosen) if experiment in (None, found.experiment)
        ]
        with paths.whole_file(args.csv) as part:
            part.write_text(words.csv_text(looks), encoding="utf-8")
        print(f"the table is in {args.csv}")
    elif args.theory and args.json:
        output.write_json({one.key: words.theory_table(one) for one in chosen})
    elif args.json:
        if experiment is not None and paper is not None:
            output.write_json(words.as_dict(words.look(paper, experiment)))
        else:
            output.write_json([words.as_dict(one) for one in words.all_looks(chosen)])
    elif args.theory:
        _print_theory(chosen)
    elif experiment is not None and paper is not None:
        _print_one(words.look(paper, experiment))
    else:
        _print_list(chosen)


def _named(name: str | None) -> tuple[Paper | None, Experiment | None]:
    if name is None:
        return None, None
    if name.upper() in papers.PAPERS:
        return papers.PAPERS[name.upper()], None
    known = [*(key.lower() for key in papers.PAPERS), *(e.id for _, e in papers.experiments())]
    if name.lower() not in known:
        raise unknown_name("paper or experiment", name, known, listed="dpmc papers")
    return papers.find(name)


def _print_list(chosen: Sequence[Paper]) -> None:
    looks = words.all_looks(chosen)
    columns = words.overview(looks)
    order = ("preset", "place", "accuracy", "privacy", "run time", "what it shows")
    rows = zip(*(columns[name] for name in order), strict=True)
    print(output.table([order, *rows]))
    print(f"\n{words.count(looks)}\n")
    for text in verdicts.meanings(found.judged.verdict for found in looks):
        print(output.paragraph(text, "    ", "  "))
    if len(chosen) == 1:
        paper = chosen[0]
        print(f"\n{', '.join(paper.authors)}: {paper.title}, {paper.venue} {paper.year}")
        if paper.unjudged:
            print(paper.unjudged)
    print("\nOne of them: dpmc papers NAME; make it: dpmc papers NAME --run")


def _print_one(found: words.Look) -> None:
    paper, one = found.paper, found.experiment
    print(f"{one.id}: {paper.key}, {one.place}\n{output.paragraph(one.title)}\n")
    facts = [
        ("accuracy", f"{found.judged.verdict.value}: {found.judged.reason}"),
        ("privacy", words.privacy_text(found)),
        *words.facts(found),
    ]
    print("\n".join(output.paragraph(t, " " * 13, f"  {n:<11}") for n, t in facts if t))
    columns = words.numbers(found)
    if columns and any(columns.values()):
        print("\n" + output.table([tuple(columns), *zip(*columns.values(), strict=True)], "  "))
    said = words.statements(found)
    if said["the paper says"]:
        print("\n" + output.table([tuple(said), *zip(*said.values(), strict=True)], "  "))
    kept = words.promises_table(found)
    if kept["method"]:
        print("\n" + output.table([tuple(kept), *zip(*kept.values(), strict=True)], "  "))


def _print_theory(chosen: Sequence[Paper]) -> None:
    for paper in chosen:
        columns = words.theory_table(paper)
        del columns["instance"]  # too wide for a line; a contradiction names its own below
        print(f"{paper.key}: {paper.title}")
        if not columns["theorem"]:
            print("  No theorem of it is known here.\n")
            continue
        print(output.table([tuple(columns), *zip(*columns.values(), strict=True)], "  "))
        for note in words.theory_notes(paper):
            print(output.paragraph(note, "    ", "  "))
        print()


def _make(experiment: Experiment, args: argparse.Namespace) -> None:
    seeds = None if args.seeds is None else core.parse_seeds(args.seeds)
    if args.jobs is not None:
        check_number("--jobs", args.jobs, at_least=1, at_most=1024, integer=True)
    recipe = run.recipe_of(experiment, seeds)
    folder = args.write or run.own_folder()
    run.ready(folder)
    if isinstance(recipe, GridRecipe):
        core.warm_up()
        with Store(args.store) as store:
            plan = run.planned(recipe)
            jobs = min(args.jobs or core.default_jobs(), max(len(plan.units), 1))
            with grids.watched(args.json) as (tell, stop):
                done = core.run(
                    plan.units,
                    store,
                    lambda: core.LocalPool(plan.sources, jobs),
                    on_progress=tell,
                    stop=stop,
                )
            grids.conclude(done, store.path, args.json)
            made = run.of_rows(experiment, recipe, plan, store)
    else:
        made = _by_pieces(experiment, recipe, args.json)
    path = run.write(made, folder)
    paper, _ = papers.find(experiment.id)
    found = words.look(paper, experiment, made)
    if args.json:
        verdict = found.judged.verdict.value
        print(json.dumps({"result": str(path), "accuracy": verdict, "reason": found.judged.reason}))
    else:
        print(f"the result is in {path}\n")
        _print_one(found)


def _by_pieces(experiment: Experiment, recipe: PieceRecipe, as_json: bool) -> Made:
    with grids.watched(as_json) as (tell, stop):
        ways: list[run.Way] = []

        def told(way: run.Way) -> None:
            ways.append(way)
            before = ways[0].done
            tell(core.SweepReport(total=way.total, skipped=before, done=way.done - before))

        try:
            return run.of_pieces(experiment, recipe, tell=told, stop=stop)
        except Stopped:
            kept = f"{ways[-1].done:,} of {ways[-1].total:,} parts are kept"
            print(f"dpmc: {kept}; the same command goes on from there", file=sys.stderr)
            raise KeyboardInterrupt from None
