"""Claims put to the test: `dpmc audit`."""

from __future__ import annotations

from typing import Annotated

from dpmc_core.privacy import ROW_VALUES, Change
from dpmc_core.problem import SEED, prepare_all
from dpmc_lab.audit import RUNS, refute
from dpmc_lab.audit import Method as Way
from dpmc_lab.audit import Report as Audit
from dpmc_lab.cli import options
from dpmc_lab.cli.interface import (
    CommandReport,
    Option,
    Progress,
    extensible,
    paragraph,
    table,
)
from dpmc_lab.cli.options import DATA, UNITS, Budgeted, Method, Reading, Seed, Steps
from dpmc_lab.curves import audits, cards
from dpmc_lab.curves.measurements import METHODS


@extensible
def audit(
    mechanism: Method,
    data: Annotated[str | None, Option("DATA", f"{DATA} (default: a few invented)")] = None,
    *,
    budget: Budgeted,
    prepare: Steps = (),
    reading: Reading,
    unit: Annotated[Change | None, Option(words={**UNITS, "row": ROW_VALUES})] = None,
    runs: int = RUNS,
    method: tuple[Way, ...] = (),
    seed: Seed = SEED,
) -> CommandReport:
    """Try to refute what a mechanism claims.

    Look for neighbouring data sets that a mechanism tells apart better than it claims, by its
    queries and by canaries in one run.

    Args:
        unit: what changes (default: the claim's own)
        runs (N): pairs to try, and canaries that take a run each
        method: one of two (repeatable; default both)
        json: one JSON object instead of the report

    examples:
      dpmc audit output --epsilon 1
      dpmc audit randomised-response restaurants --epsilon 2 --unit cell --runs 300

    The probe is exact for the pair that it shows. A bound by canaries is too large in at most 5 of
    100 audits; what holds is refuted by them in at most 1 of 10,000. An audit that finds nothing
    confirms nothing.
    """

    made, steps = budget.mechanism(mechanism), options.steps_of(prepare)
    ratings = None
    if data is not None:
        loaded = reading.load(data, made.task, prepare)
        ratings, _ = prepare_all(loaded.ratings, made.task, steps)
    with Progress() as progress:
        report = refute(
            made,
            ratings,
            data=data or "",
            change=unit,
            runs=runs,
            methods=method or tuple(Way),
            seed=seed,
            tell=lambda done, total, label, _: progress.update(
                f"{made.id}: {label}", done, total, lambda part: f"{100 * part // total} %"
            ),
        )
    return CommandReport(report.as_dict(), _told(report))


def _told(report: Audit) -> list[str]:
    """What was audited, the verdict, each method."""
    certified = cards.budget_text(report.certified.epsilon, report.certified.delta)
    claimed = "-" if report.claimed is None else cards.epsilon_text(report.claimed)
    head = (
        f"{report.mechanism.name} on {report.data}, {report.change.label}"
        f" ({report.change.relation}): claimed {claimed}, certified {certified}"
    )
    paragraphs = [paragraph(head), audits.verdict(report)]
    for found in report.findings:
        text = f"{METHODS[found.method]}. {audits.finding(found, report.change)}"
        paragraphs.append(paragraph(text))
    for method, why in report.skipped:
        paragraphs.append(paragraph(f"{METHODS[method]}. Does not apply: {why}."))
    if any(found.releases for found in report.findings):
        paragraphs.append(table(audits.table(report), "  "))
    paragraphs.append(f"Seed {report.seed}, {report.runs} runs: the same again with the same seed.")
    return paragraphs
