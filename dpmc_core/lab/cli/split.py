"""`dpmc split`: the rows that methods learn from and are tested on, as files."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from dpmc_core.data import Dataset, datasets, parse_step
from dpmc_core.lab.cli import arguments, output
from dpmc_core.lab.study import split_files as core
from dpmc_core.model import Task
from dpmc_core.problem import Split, default_split, options_text, split_words, usual_task

EPILOG = """examples:
  dpmc split ratings.csv --range 1:5 --export split
  dpmc split clicks.csv --task ranking --export split --json

Train the model you run today on train.csv, score it on test.csv as the note split.json says, and
give the number to dpmc answer as --reference. The split is that of dpmc answer, unless options say
otherwise: the latest rating of every user where there are times. Ids and ratings are as in the
source; cells are not guarded against spreadsheets, so read ids as text."""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "split",
        help="write training and test ratings as files, to score a model of your own",
        description="Write the training and test ratings that methods get, so that a model of your"
        " own can be trained and scored on the same rows.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("data", metavar="DATA", help=arguments.DATA_HELP)
    add("--export", metavar="FOLDER", type=Path, required=True, help="where the files go")
    add("--force", action="store_true", help="overwrite the files of a split that is there")
    add(
        "--task",
        choices=[task.value for task in Task],
        help="what is predicted (default: ratings, or ranking where all are clicks)",
    )
    arguments.add_prepare(parser)
    arguments.add_split(parser)
    arguments.add_reading(parser)
    arguments.add_seed(parser)
    add("--json", action="store_true", help="the note as one JSON object instead of the report")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> None:
    steps = [parse_step(text) for text in args.prepare]  # mistakes are told before a file is read
    core.check(args.export, force=args.force)
    asked = [Task(args.task)] if args.task else []
    data = datasets.load(args.data, **arguments.reading_of(args, args.data, asked))
    task = asked[0] if asked else usual_task(data.ratings)
    split = arguments.split_of(args) or default_split(task)
    note = core.export(
        data,
        task,
        args.export,
        steps=steps,
        split=split,
        seed=args.seed,
        file=datasets.file_of(args.data),
        force=args.force,
    )
    if args.json:
        output.write_json(note)
    else:
        print("\n\n".join(report(args, data, note, task, split)))


def report(
    args: argparse.Namespace, data: Dataset, note: dict[str, Any], task: Task, split: Split
) -> list[str]:
    """What was written, how to score a model on it, and what to do with its number."""
    train, test = (note["files"][name] for name in (core.TRAIN, core.TEST))
    written = (
        f"{args.export / core.TRAIN}: {train['rows']:,} rows, {train['users']:,} users,"
        f" {train['items']:,} items\n"
        f"{args.export / core.TEST}: {test['rows']:,} rows, {split_words(note['split'])},"
        f" seed {args.seed}"
    )
    words = ["dpmc", "answer", args.data, "--task", task.value]
    words += [*options_text(data.reading, (), split), "--reference", "VALUE"]
    told = [
        f"Next: train the model you run today on {core.TRAIN}, score it on {core.TEST}, and pass"
        " its number as VALUE.",
        f"The number is {note['scored']}.",
    ]
    if "random" in note["split"]:
        told.append(
            "What is held out is drawn by the seed: the mean over the splits of seeds 1 to 5, which"
            " the answer uses, says more than one number."
        )
    if args.prepare:
        told.append("The answer prepares nothing itself: compare with dpmc fit and this --prepare.")
    return [written, output.paragraph(" ".join(told)), f"  {shlex.join(words)}"]
