"""`dpmc audit`: try to refute what a mechanism claims and what its releases certify."""

from __future__ import annotations

import argparse
import dataclasses
from contextlib import closing
from pathlib import Path
from typing import Any

from dpmc_core import registry
from dpmc_core.data import datasets, parse_step
from dpmc_core.errors import InvalidSetting
from dpmc_core.lab.cli import arguments, output
from dpmc_core.lab.cli.fit import mechanism_of, noting
from dpmc_core.lab.cli.output import Progress
from dpmc_core.lab.refute import RUNS, Method, Report, refute
from dpmc_core.lab.refute.faults import Flaw
from dpmc_core.lab.refute.shipped import record, records_text
from dpmc_core.lab.study import ledger
from dpmc_core.lab.views import audits, cards
from dpmc_core.lab.views.audits import known_instance, lights
from dpmc_core.mechanisms.one_bit import Output
from dpmc_core.model import Mechanism
from dpmc_core.paths import whole_file
from dpmc_core.privacy import CELL, RATING, ROW_VALUES, USER_EMPTIED, USER_REPLACED
from dpmc_core.problem import prepare_all
from dpmc_core.ratings import Ratings

UNITS = {
    "rating": RATING,
    "row": ROW_VALUES,
    "cell": CELL,
    "user": USER_EMPTIED,
    "user-replaced": USER_REPLACED,
}
EPILOG = """examples:
  dpmc audit output --epsilon 1
  dpmc audit private-popularity --epsilon 1 --plant halved
  dpmc audit randomised-response restaurants --epsilon 2 --unit cell --runs 300

The probe is exact for the pair that it shows. A bound by canaries is too large in at most 5 of 100
audits; what holds is refuted by them, or by the sampler, in at most 1 of 10,000. An audit that
finds nothing confirms nothing."""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "audit",
        help="try to refute what a mechanism claims",
        description="Look for neighbouring data sets that a mechanism tells apart better than it"
        " claims, by its queries, by canaries in one run, and by the noise it draws.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("mechanism", metavar="MECHANISM", nargs="?", help="a method's id")
    add("data", metavar="DATA", nargs="?", help=f"{arguments.DATA_HELP} (default: a few invented)")
    arguments.add_budget(parser)
    arguments.add_prepare(parser)
    arguments.add_plugin(parser)
    arguments.add_reading(parser)
    add("--unit", choices=[*UNITS], help="what changes (default: the claim's own)")
    add(
        "--runs",
        metavar="N",
        type=arguments.integer,
        default=RUNS,
        help=f"pairs to try, and canaries that take a run each (default {RUNS})",
    )
    names = [method.value for method in Method]
    add("--method", choices=names, action="append", help="one of three (repeatable; default all)")
    flaws = [flaw.value for flaw in Flaw]
    add("--plant", choices=flaws, help="plant a fault in a copy, to see whether it is noticed")
    add("--all", action="store_true", help="every mechanism, with its default settings")
    add("--write", metavar="FILE.json", type=Path, help="with --all: what was measured, to ship")
    arguments.add_run(parser)
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> None:
    if args.all:
        _all(args)
        return
    if args.mechanism is None:
        raise InvalidSetting("MECHANISM", "given, or --all", None)
    if args.write is not None:
        raise InvalidSetting("--write", "left out without --all", str(args.write))
    mechanism = mechanism_of(args)
    ratings, name, source = None, "", ""
    if args.data is not None:
        ratings, source = _prepared(args, mechanism)
        name = args.data
    report = _audit(args, mechanism, ratings, name, args.seed)
    if ratings is not None:
        runs = ledger.entry(ledger.Kind.AUDIT, mechanism, ratings.public, count=report.runs)
        noting(source, name, [runs])
    if args.json:
        output.write_json(report.as_dict() | _lit(mechanism, ratings))
    else:
        print("\n\n".join(told(report) + _lights(mechanism, ratings)))


def _prepared(args: argparse.Namespace, mechanism: Mechanism) -> tuple[Ratings, str]:
    """The ratings as the mechanism takes them, and under which name the ledger knows them."""
    steps = [parse_step(text) for text in args.prepare]
    data = datasets.load(args.data, **arguments.reading_of(args, args.data, [mechanism.task]))
    return prepare_all(data.ratings, mechanism.task, steps)[0], ledger.source_of(data)


def _audit(
    args: argparse.Namespace, mechanism: Mechanism, ratings: Ratings | None, name: str, seed: int
) -> Report:
    with closing(Progress()) as progress:
        return refute(
            mechanism,
            ratings,
            data=name,
            change=UNITS[args.unit] if args.unit else None,
            runs=args.runs,
            methods=[Method(name) for name in args.method] if args.method else tuple(Method),
            flaw=Flaw(args.plant) if args.plant else None,
            seed=seed,
            tell=lambda done, total, label, _: progress.update(
                f"{mechanism.id}: {label}", done, total, lambda part: f"{100 * part // total} %"
            ),
        )


def told(report: Report) -> list[str]:
    """A report as paragraphs: what was audited, the verdict, each method."""
    certified = cards.epsilon_text(report.certified.epsilon)
    claimed = "-" if report.claimed is None else cards.epsilon_text(report.claimed)
    delta = f", delta {cards.delta_text(report.certified.delta)}" if report.certified.delta else ""
    head = (
        f"{report.mechanism.name} on {report.data}, {report.change.label}"
        f" ({report.change.relation}){delta}: claimed {claimed}, certified {certified}"
    )
    verdict = [audits.noticed(report), audits.verdict(report)]
    paragraphs = [output.paragraph(head), "\n".join(filter(None, verdict))]
    for found in report.findings:
        words = f"{audits.METHODS[found.method]}. {audits.finding(found, report.change)}"
        rows = [output.table(audits.releases(found), indent="  ")] if found.releases else []
        paragraphs.append("\n".join([output.paragraph(words), *rows]))
    for method, why in report.skipped:
        paragraphs.append(output.paragraph(f"{audits.METHODS[method]}. Does not apply: {why}."))
    paragraphs.append(f"Seed {report.seed}, {report.runs} runs: the same again with the same seed.")
    return paragraphs


def _lights(mechanism: Mechanism, ratings: Ratings | None) -> list[str]:
    found = _lit(mechanism, ratings).get("lights")
    if found is None:
        return []
    return [
        output.paragraph(
            f"One rating (item {found['item']} of user {found['user']}) on the known instance moves"
            f" {found['cells']:,} cells of the matrix, by {found['total']:.3g} together; the proof"
            f" allows {found['allowed']:g}, so epsilon is at least {found['epsilon']:.3g} there."
        )
    ]


def _lit(mechanism: Mechanism, ratings: Ratings | None) -> dict[str, Any]:
    """What one rating moves in output perturbation, on its known instance."""
    if not isinstance(mechanism, Output) or ratings is not None:
        return {}
    found = lights(*known_instance(mechanism.epsilon))
    names = ("user", "item", "cells", "total", "allowed", "epsilon", "claimed")
    return {"lights": {name: getattr(found, name) for name in names}}


def _usual(args: argparse.Namespace, mechanism: Mechanism) -> Report:
    """An audit; where coins decide the bound, the one in the middle of five seeds."""
    report = _audit(args, mechanism, None, "", args.seed)
    if report.best is None or report.best.method is not Method.CANARIES:
        return report
    others = [_audit(args, mechanism, None, "", args.seed + k) for k in range(1, 5)]
    return sorted([report, *others], key=lambda found: found.measured)[2]


def _all(args: argparse.Namespace) -> None:
    for name in ("mechanism", "data", "unit", "plant"):
        if getattr(args, name) is not None:
            raise InvalidSetting(name, "left out with --all", getattr(args, name))
    epsilon = 1.0 if args.epsilon is None else args.epsilon
    reports = []
    for id, cls in registry.MECHANISMS.items():
        if registry.adds_noise(cls):
            mechanism = registry.create(id, epsilon=epsilon, delta=args.delta)
            reports.append(_usual(args, mechanism))
    records = [record(report) for report in reports]
    if args.write is not None:
        with whole_file(args.write) as part:
            part.write_text(records_text(records), encoding="utf-8")
    if args.json:
        output.write_json([dataclasses.asdict(found) for found in records])
        return
    rows: list[tuple[str, ...]] = [("mechanism", "protects", "claimed", "certified", "measured")]
    for report in reports:
        values = (report.claimed, report.certified.epsilon, report.measured)
        texts = ("-" if value is None else cards.epsilon_text(value) for value in values)
        rows.append((report.mechanism.id, report.change.label, *texts, report.refuted.value))
    print(output.table([(*rows[0], "refuted"), *rows[1:]]))
