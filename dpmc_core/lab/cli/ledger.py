"""`dpmc ledger`: what was done with a data set, composed, and what repeated releases add up to."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from dpmc_core import registry
from dpmc_core.data import Dataset
from dpmc_core.errors import InvalidSetting, check_number
from dpmc_core.lab import sweep
from dpmc_core.lab.cli import arguments, output
from dpmc_core.lab.cli.recommend import UNITS
from dpmc_core.lab.store import Store, StoreMissing
from dpmc_core.lab.study import ledger as core
from dpmc_core.lab.study.ledger import Study
from dpmc_core.lab.views import ledger as words
from dpmc_core.lab.views.cards import delta_text
from dpmc_core.privacy import DELTA, Budget, Certified, Guarantee
from dpmc_core.problem import prepared_facts
from dpmc_core.ratings import PublicFacts

EPILOG = """examples:
  dpmc ledger restaurants
  dpmc ledger ratings.csv --range 1:5 --delta 1e-5 --json
  dpmc ledger restaurants --repeat weekly --mechanism private-effects --epsilon 1

Counted: the runs in the result store, and what dpmc fit, answer, audit and release have noted on
this machine."""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "ledger",
        help="everything done with a data set, composed per unit of privacy",
        description="One ledger for a study: what it would cost if everything were published, and"
        " what was released.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("data", metavar="DATA", help=arguments.DATA_HELP)
    delta = f"of everything together (default {delta_text(DELTA)})"
    add("--delta", metavar="D", type=arguments.number, default=DELTA, help=delta)
    add("--store", metavar="FILE", type=Path, help="result store (default: the shared one)")
    add("--test", metavar="FILE", help="official test ratings, where runs were made with them")
    repeat = f"what releases add up to in a year: {arguments.OFTEN}, or times a year"
    add("--repeat", metavar="OFTEN", help=repeat)
    add("--mechanism", metavar="ID", help="the method that is repeated")
    add("--epsilon", metavar="E", type=arguments.number, default=1.0, help="its (default 1)")
    add("--unit", choices=UNITS, help="counted for it (default: the method's own)")
    arguments.add_plugin(parser)
    arguments.add_reading(parser)
    add("--json", action="store_true", help="one JSON document")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> None:
    check_number("--delta", args.delta, at_least=0, below=1)
    if (args.repeat is None) != (args.mechanism is None):
        names = ("--mechanism", "--repeat")
        missing, given = names if args.mechanism is None else names[::-1]
        raise InvalidSetting(missing, f"given where {given} is", "none")
    tasks = [] if args.mechanism is None else [registry.get(args.mechanism).task]
    data = sweep.open_source(args.data, args.test, **arguments.reading_of(args, args.data, tasks))
    found = study_of(data.fingerprint, args.store, args.delta)
    repeated = None if args.repeat is None else _Repeated(args, _public(data))
    if args.json:
        document = words.as_dict(found) | {"data": data.name, "source": data.fingerprint}
        output.write_json(document | ({} if repeated is None else {"repeated": repeated.as_dict()}))
        return
    print(report(data.name, found))
    if repeated is not None:
        print("\n" + repeated.words())


def study_of(source: str, store: Path | None, delta: float) -> Study:
    """Everything known of a data set: rows of a store, and what was noted. Raises DpmcError."""
    noted = core.noted(source)
    try:
        with Store(store, read_only=True) as opened:
            return core.study(source, opened, noted, delta)
    except StoreMissing:
        if store is not None:  # it was asked for
            raise
    return core.study(source, None, noted, delta)


def report(name: str, study: Study) -> str:
    """The ledger as paragraphs: what was done, both sums, what they are made of, what to know."""
    head = f"{name}: {words.summary(study)}"
    if not study.entries:
        return output.paragraph(head)
    blocks = [output.paragraph(head)]
    if study.count():
        sums, made_of = words.table(study), words.parts(study)
        blocks += [
            f"At delta {delta_text(study.delta)}\n{_table(sums)}",
            f"Made of\n{_table(made_of)}",
        ]
    told = [*words.reasons(study), *words.NOTES]
    return "\n\n".join([*blocks, "\n".join(map(output.paragraph, told))])


def _table(columns: dict[str, list[str]]) -> str:
    return output.table([tuple(columns), *zip(*columns.values(), strict=True)], indent="  ")


def _public(data: sweep.SweepData) -> PublicFacts:
    found = data.at(0)
    return (found.ratings if isinstance(found, Dataset) else found[0]).public


class _Repeated:
    """Releases of one method on one data set, so many times a year."""

    def __init__(self, args: argparse.Namespace, public: PublicFacts) -> None:
        cls = registry.get(args.mechanism)
        self.often, self.id = str(args.repeat), cls.id
        self.times = arguments.times_a_year("--repeat", self.often)
        check_number("times a year", self.times, at_least=1, at_most=100_000, integer=True)
        if not registry.adds_noise(cls):
            raise InvalidSetting("--mechanism", "a method with an epsilon", cls.id)
        prepared = prepared_facts(public, cls.task)

        def card(epsilon: float) -> Guarantee:
            return registry.create(cls.id, epsilon=epsilon, delta=args.delta).guarantee(prepared)

        own = card(args.epsilon)
        change = UNITS[args.unit] if args.unit else own.change
        delta = args.delta if own.loss(change).mu > 0 else 0.0
        self.target = Certified(change, args.epsilon, delta)
        self.found = core.repeats(
            card, args.epsilon, self.times, Budget(args.epsilon, delta), change
        )

    def words(self) -> str:
        often = self.often if not self.often.isdigit() else f"{self.times:,} times"
        return output.paragraph(f"{self.id}: {words.repeated(self.found, often, self.target)}")

    def as_dict(self) -> dict[str, Any]:
        total, each = self.found
        return {
            "mechanism": self.id,
            "times": self.times,
            "unit": self.target.change.unit,
            "neighbours": self.target.change.neighbours,
            "epsilon": self.target.epsilon,
            "delta": self.target.delta,
            "epsilon_of_all": total if math.isfinite(total) else None,
            "epsilon_each": each,
        }
