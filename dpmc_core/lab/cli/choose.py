"""`dpmc choose`: the best of a random number of private runs, and what it costs."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from dpmc_core.data import datasets, parse_step
from dpmc_core.errors import check_number, number_text
from dpmc_core.experiment import settings_dict
from dpmc_core.lab import sweep
from dpmc_core.lab.cli import arguments, output
from dpmc_core.lab.cli.fit import noting
from dpmc_core.lab.cli.recommend import UNITS
from dpmc_core.lab.study import choice as core
from dpmc_core.lab.study import ledger
from dpmc_core.lab.views import ledger as words
from dpmc_core.privacy import DELTA, Budget
from dpmc_core.privacy.selection import RandomRuns
from dpmc_core.registry import changed_settings

EPILOG = """examples:
  dpmc choose restaurants --mechanisms private-effects,private-item-mean --epsilon 1 --unit user
  dpmc choose restaurants --mechanisms private-svd --set rank=1,2,4,8 --runs 10

How many runs are made is drawn at random and not told; each draws one of the candidates. Training
and score of a run together spend --epsilon. The noise is simulated from a seed: what comes out is
for your eyes, and its price is what publishing it would cost with exact noise."""

_SPREAD = {"geometric": 1.0, "logarithmic": 0.0}


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "choose",
        help="the best of several settings, chosen privately, with its price",
        description="Make a random number of private runs over a grid of settings, declared"
        " beforehand, and keep the best by a private score: what comes out costs little more than"
        " one run, where publishing all runs costs their composition.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("data", metavar="DATA", help=arguments.DATA_HELP)
    ids = "methods, separated by commas or spaces"
    add("--mechanisms", metavar="ID", nargs="+", required=True, help=ids)
    arguments.add_values_to_try(parser)
    add("--epsilon", metavar="E", type=arguments.number, default=1.0, help="of a run (default 1)")
    add("--delta", metavar="D", type=arguments.number, default=DELTA, help="default 1e-6")
    add("--unit", choices=UNITS, default="user", help="what is protected (default user)")
    add("--runs", metavar="N", type=arguments.integer, default=10, help="expected (default 10)")
    spread = "how the number of runs is drawn; logarithmic: cheaper, and often one run alone"
    add("--spread", choices=_SPREAD, default="geometric", help=spread)
    share = f"share of a run's budget for its score (default {core.SHARE:g})"
    add("--score", metavar="SHARE", type=arguments.number, default=core.SHARE, help=share)
    arguments.add_prepare(parser)
    arguments.add_plugin(parser)
    arguments.add_reading(parser)
    arguments.add_run(parser)
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> None:
    check_number("--runs", args.runs, at_least=1, at_most=10_000, integer=True)
    grid = sweep.Grid(
        data=[args.data],
        mechanisms=list(dict.fromkeys(sweep.pieces(args.mechanisms))),
        epsilons=[args.epsilon],
        settings=arguments.values_to_try(args.set, "--epsilon", "--delta"),
        steps=args.prepare,
    )
    budget = Budget(args.epsilon, args.delta)
    candidates = [one for id in grid.mechanisms for one in grid.variants(id)]
    runs = RandomRuns(mean=args.runs, eta=_SPREAD[args.spread])
    task = candidates[0].task
    data = datasets.load(args.data, **arguments.reading_of(args, args.data, [task]))
    problem = core.held_out(data, task, [parse_step(text) for text in args.prepare], args.seed)
    rules = core.contest(
        candidates, problem.train.public, budget, UNITS[args.unit], runs, args.score
    )
    price = words.chosen(rules)
    if not args.json:
        print(output.paragraph(f"{len(candidates)} candidates. {price}"), flush=True)
    else:
        print("choosing ...", file=sys.stderr, flush=True)
    noting(ledger.source_of(data), data.name, [rules.entry()])
    winner = core.choose(rules, problem, args.seed)
    if args.json:
        output.write_json(_document(args, rules, winner, problem.train.prepared))
        return
    method = winner.candidate.mechanism
    changed = changed_settings(method.id, settings_dict(method)).items()
    shown = ", ".join(f"{name}={value}" for name, value in changed if name != "epsilon")
    print(
        "\n"
        + output.paragraph(
            f"Chosen: {method.name} ({method.id}), epsilon {number_text(_epsilon(method))}"
            f"{f', {shown}' if shown else ''}. Noisy score {winner.score:.1f} of {winner.users:,}."
        )
    )
    for step in problem.train.prepared:
        print(output.paragraph(f"Given that {step} is public."))
    print(output.paragraph(words.SIMULATED))


def _epsilon(method: Any) -> float:
    found: float = method.epsilon
    return found


def _document(
    args: argparse.Namespace, rules: core.Contest, winner: core.Winner, prepared: tuple[str, ...]
) -> dict[str, Any]:
    price, naive = rules.price(), rules.naive()
    return {
        "candidates": len(rules.candidates),
        "runs": {"expected": args.runs, "spread": args.spread},
        "unit": rules.change.unit,
        "neighbours": rules.change.neighbours,
        "each": {"epsilon": args.epsilon, "delta": args.delta},
        "price": {"epsilon": price.epsilon, "delta": price.delta},
        "naive": {"epsilon": naive.epsilon, "delta": naive.delta},
        "chosen": {
            "mechanism": winner.candidate.mechanism.id,
            "settings": settings_dict(winner.candidate.mechanism),
            "noisy_score": winner.score,
            "users": winner.users,
        },
        "prepared": list(prepared),
        "seed": args.seed,
        "said": words.SIMULATED,
    }
