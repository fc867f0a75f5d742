"""`dpmc fit`: one mechanism on one data set, beside its floor and its non-private twin."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from dpmc_core import registry
from dpmc_core.data import datasets, parse_step, read_pair
from dpmc_core.errors import DpmcError
from dpmc_core.experiment import Result, baselines_of, run
from dpmc_core.lab.cli import arguments, output
from dpmc_core.lab.cli.listing import settings_table
from dpmc_core.lab.cli.output import Progress
from dpmc_core.lab.study import ledger
from dpmc_core.lab.sweep import Pair
from dpmc_core.lab.views import as_published, cards
from dpmc_core.lab.views.run_card import SEED_NOTE, methods
from dpmc_core.model import Mechanism
from dpmc_core.problem import Problem, build_problem, split_words

EPILOG = """examples:
  dpmc fit movie-night input-flip --epsilon 2
  dpmc fit u1.base objective --epsilon 1 --test u1.test --set link=probit --json
  dpmc fit ratings.csv clear --range 1:5 --prepare binarise=4 --holdout 0.1

`dpmc list` names the mechanisms, `dpmc list MECHANISM` their settings, `dpmc data` the samples."""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "fit",
        help="train one mechanism and measure it",
        description="Train a mechanism; show its metrics beside guessing and no privacy, and what"
        " its privacy claim covers.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_method(parser)
    arguments.add_published(parser)
    arguments.add_plugin(parser)
    arguments.add_split(parser).add_argument(
        "--test", metavar="FILE", type=Path, help="official test ratings"
    )
    arguments.add_reading(parser)
    arguments.add_run(parser)
    parser.set_defaults(command=fit)


def fit(args: argparse.Namespace) -> None:
    mechanism = mechanism_of(args)  # a wrong setting is told before a large file is read
    problem, source = problem_of(args, mechanism)
    with closing(Progress()) as progress:
        result = run(mechanism, problem, args.seed, on_step=progress.step)
    switch = None
    if args.as_published:
        switch = as_published.switched(
            mechanism.id,
            given_of(args),
            problem.train.public,
            epsilon=args.epsilon,
            delta=args.delta,
        )
    if args.json:
        added = {} if switch is None else {"as_published": switch.as_dict()}
        output.write_json(result.as_dict() | added)
    else:
        told = [] if switch is None else [output.paragraph(" ".join(as_published.words(switch)))]
        print("\n\n".join([*report(result), *told]))
    done = [mechanism, *(one for one in baselines_of(mechanism) if one.id in result.baselines)]
    noting(source, problem.name, ledger.fits(done, problem, source, args.seed))


def noting(source: str, name: str, entries: Iterable[ledger.LedgerEntry]) -> None:
    """Put runs for one's own eyes in the ledger; where it cannot be written, say so."""
    try:
        ledger.note(source, name, entries)
    except DpmcError as error:
        print(f"dpmc: not noted: {error}", file=sys.stderr)


def mechanism_of(args: argparse.Namespace) -> Mechanism:
    """The mechanism the options ask for. Raises InvalidSetting."""
    given = given_of(args)
    if getattr(args, "as_published", False):
        given = as_published.with_published(args.mechanism, given)
    return registry.create(args.mechanism, epsilon=args.epsilon, delta=args.delta, **given)


def given_of(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that --set gives. Raises InvalidSetting."""
    cls = registry.get(args.mechanism)

    def hint(_: str) -> str:
        known = settings_table(cls)
        return f"{cls.id} has these:\n{known}" if known else f"{cls.id} has no settings"

    own = ("--epsilon", "--delta")
    return arguments.settings(args.set, own, lambda _: cls, cls.id, hint)


def problem_of(args: argparse.Namespace, mechanism: Mechanism) -> tuple[Problem, str]:
    """The prepared problem the options ask for, and the fingerprint of its whole data.

    Raises DpmcError or OSError.
    """
    steps = [parse_step(text) for text in args.prepare]
    options = arguments.reading_of(args, args.data, [mechanism.task])
    if args.test is not None:
        pair = read_pair(args.data, args.test, **options)
        name = Path(args.data).name
        found = build_problem(pair, mechanism.task, steps=steps, seed=args.seed, name=name)
        return found, Pair(*pair, name, name).fingerprint
    split = arguments.split_of(args)
    data = datasets.load(args.data, **options)
    found = build_problem(data, mechanism.task, steps=steps, split=split, seed=args.seed)
    return found, ledger.source_of(data)


def report(result: Result) -> list[str]:
    """The result as paragraphs: the data, the metrics, the guarantee, how to repeat it."""
    public, problem = result.problem.train.public, result.problem
    data = (
        f"{result.mechanism.name} on {problem.name}: {public.users:,} users x {public.items:,}"
        f" items, {len(problem.train):,} ratings\ntested on {split_words(problem.split)}"
        f" ({len(problem.test):,})"
    )
    if problem.steps:
        data += f"; prepared with {', '.join(problem.steps)}"
    rounds = f"{result.rounds} round{'' if result.rounds == 1 else 's'}"
    ending = output.paragraph(
        f"{rounds} in {result.seconds:.1f} s, seed {result.seed}. {SEED_NOTE}"
    )
    promise = output.card(cards.card(result.guarantee))
    return [data, output.metrics(methods(result)), promise, ending]
