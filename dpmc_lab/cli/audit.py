"""Audit the claim of a mechanism: `dpmc audit`."""

from __future__ import annotations

from typing import Annotated

from dpmc_core.privacy import ROW_VALUES, Change
from dpmc_core.problem import DEFAULT_SEED, prepare_all_ratings
from dpmc_lab.audit import RUNS, AuditReport, audit_mechanism
from dpmc_lab.audit import AuditMethod as AuditMethod
from dpmc_lab.cli import options
from dpmc_lab.cli.interface import (
    CommandReport,
    Option,
    Progress,
    accept_plugins,
    format_table,
    paragraph,
)
from dpmc_lab.cli.options import DATA, UNITS, BudgetOptions, Method, ReadingOptions, Seed, Steps
from dpmc_lab.views import audits, cards
from dpmc_lab.views.measurements import METHOD_LABELS


@accept_plugins
def run_audit(
    mechanism: Method,
    data: Annotated[str | None, Option("DATA", f"{DATA} (default: a few invented)")] = None,
    *,
    budget: BudgetOptions,
    prepare: Steps = (),
    reading: ReadingOptions,
    unit: Annotated[Change | None, Option(choices={**UNITS, "row": ROW_VALUES})] = None,
    runs: int = RUNS,
    method: tuple[AuditMethod, ...] = (),
    seed: Seed = DEFAULT_SEED,
) -> CommandReport:
    """Attack a mechanism to refute its claimed epsilon.

    Search for two neighbouring data sets that the mechanism distinguishes better than its claim
    allows. One attack traces a single change, the other guesses planted ratings (canaries).

    Args:
        unit: the privacy unit to attack (default: that of the claim)
        runs (N): number of pairs to try, and of runs with canaries
        method: which attack to run (repeatable; default: both)
        json: one JSON object instead of the report

    examples:
      dpmc audit output --epsilon 1
      dpmc audit randomised-response restaurants --epsilon 2 --unit cell --runs 300

    The probe is exact for the pair that it shows. A bound from canaries is too large in at most 5 %
    of audits, and refutes a true claim in at most 0.01 %. An audit that refutes nothing does not
    prove the claim.
    """

    built_mechanism = budget.mechanism(mechanism)
    steps = options.parse_steps(prepare)
    ratings = None
    if data is not None:
        loaded = reading.load(data, built_mechanism.task, prepare)
        ratings, _ = prepare_all_ratings(loaded.ratings, built_mechanism.task, steps)
    with Progress() as progress:
        report = audit_mechanism(
            built_mechanism,
            ratings,
            data=data or "",
            change=unit,
            runs=runs,
            methods=method or tuple(AuditMethod),
            seed=seed,
            on_progress=lambda n_done, total, label, _: progress.update(
                f"{built_mechanism.id}: {label}",
                n_done,
                total,
                lambda share: f"{100 * share // total} %",
            ),
        )
    return CommandReport(report.as_dict(), _format_report(report))


def _format_report(report: AuditReport) -> list[str]:
    """Return the audited mechanism, the verdict and each method as blocks of text."""
    certified = cards.format_budget(report.certified.epsilon, report.certified.delta)
    claimed = "-" if report.claimed is None else cards.format_epsilon(report.claimed)
    head = (
        f"{report.mechanism.name} on {report.data}, {report.change.label}"
        f" ({report.change.relation}): claimed {claimed}, certified {certified}"
    )
    paragraphs = [paragraph(head), audits.describe_audit(report)]
    for finding in report.findings:
        text = f"{METHOD_LABELS[finding.method]}. {audits.describe_finding(finding, report.change)}"
        paragraphs.append(paragraph(text))
    for method, reason in report.skipped:
        paragraphs.append(paragraph(f"{METHOD_LABELS[method]}. Does not apply: {reason}."))
    if any(finding.releases for finding in report.findings):
        paragraphs.append(format_table(audits.tabulate_audit(report), "  "))
    paragraphs.append(f"Seed {report.seed}, {report.runs} runs: the same again with the same seed.")
    return paragraphs
