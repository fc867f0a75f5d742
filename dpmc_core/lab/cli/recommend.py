"""`dpmc recommend`: one certified method for a data set and a promise, and why."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from dpmc_core.data import datasets
from dpmc_core.errors import number_text
from dpmc_core.experiment import settings_dict
from dpmc_core.lab.cli import arguments, output
from dpmc_core.lab.study import recommend as core
from dpmc_core.lab.views import cards
from dpmc_core.model import Task
from dpmc_core.privacy import CELL, DELTA, RATING, USER_EMPTIED, USER_REPLACED, Trust
from dpmc_core.problem import options_text, prepared_facts, usual_task
from dpmc_core.ratings import PublicFacts

UNITS = {
    "rating": RATING,
    "cell": CELL,
    "user": USER_EMPTIED,
    "user-replaced": USER_REPLACED,
}
TRUST = {"curator": Trust.CURATOR, "nobody": Trust.LOCAL}


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "recommend",
        help="one certified method for a promise, and why",
        description="Which method to take for a unit, a trust and a task. The rule was fixed on"
        " generated data and sees the public sizes alone, no rating.",
    )
    add = parser.add_argument
    add("data", metavar="DATA", help=arguments.DATA_HELP)
    add("--unit", choices=UNITS, default="user", help="what is protected (default user)")
    add("--epsilon", metavar="E", type=arguments.number, default=1.0, help="default 1")
    add("--delta", metavar="D", type=arguments.number, default=DELTA, help="default 1e-6")
    add("--trust", choices=TRUST, default="curator", help="who may see raw ratings")
    add(
        "--task",
        choices=[task.value for task in Task],
        help="what is predicted (default: ratings, or ranking where all are clicks)",
    )
    arguments.add_reading(parser)
    add("--json", action="store_true", help="one JSON document")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> None:
    reading = arguments.reading_of(args, args.data, [Task(args.task)] if args.task else ())
    data = datasets.load(args.data, **reading)
    task = Task(args.task) if args.task else usual_task(data.ratings)
    public: PublicFacts = prepared_facts(data.ratings.public, task)
    change = UNITS[args.unit]
    advice = core.recommend(
        task, change, public, epsilon=args.epsilon, delta=args.delta, trust=TRUST[args.trust]
    )
    mechanism = advice.mechanism
    setting = number_text(settings_dict(mechanism)["epsilon"])
    words = ["dpmc", "fit", args.data, mechanism.id, "--epsilon", setting]
    if args.delta != DELTA:
        words += ["--delta", number_text(args.delta)]
    words += options_text(data.reading, (), None)
    command = " ".join(map(shlex.quote, words))
    if args.json:
        output.write_json(
            {
                "mechanism": mechanism.id,
                "task": task.value,
                "settings": settings_dict(mechanism),
                "unit": change.unit,
                "neighbours": change.neighbours,
                "certified": {
                    "epsilon": advice.certified.epsilon,
                    "delta": advice.certified.delta,
                },
                "reason": advice.reason,
                "command": command,
            }
        )
        return
    print(f"{mechanism.name} ({mechanism.id}), epsilon setting {setting}\n")
    proved = advice.certified
    print(output.paragraph(f"Certified: {cards.certified(proved)}."))
    print(output.paragraph(f"Why: {advice.reason}."))
    print(f"\n{command}")
