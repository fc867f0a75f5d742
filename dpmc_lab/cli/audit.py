"""Claims put to the test: `dpmc audit`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from dpmc_core import registry
from dpmc_core.arrays import Plain
from dpmc_core.errors import InvalidSetting
from dpmc_core.mechanisms.one_bit import Output
from dpmc_core.model import Mechanism
from dpmc_core.paths import whole_file
from dpmc_core.privacy import ROW_VALUES, Change
from dpmc_core.problem import SEED, prepare_all
from dpmc_core.ratings import Ratings
from dpmc_lab.audit import RUNS, refute
from dpmc_lab.audit import Method as Way
from dpmc_lab.audit import Report as Audit
from dpmc_lab.audit.faults import Flaw
from dpmc_lab.audit.report import record
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
from dpmc_lab.measured import records_text


@extensible
def audit(
    mechanism: Method | None = None,
    data: Annotated[str | None, Option("DATA", f"{DATA} (default: a few invented)")] = None,
    *,
    budget: Budgeted,
    prepare: Steps = (),
    reading: Reading,
    unit: Annotated[Change | None, Option(words={**UNITS, "row": ROW_VALUES})] = None,
    runs: int = RUNS,
    method: tuple[Way, ...] = (),
    plant: Flaw | None = None,
    all: bool = False,
    write: Path | None = None,
    seed: Seed = SEED,
) -> CommandReport:
    """Try to refute what a mechanism claims.

    Look for neighbouring data sets that a mechanism tells apart better than it claims, by its
    queries and by canaries in one run.

    Args:
        unit: what changes (default: the claim's own)
        runs (N): pairs to try, and canaries that take a run each
        method: one of two (repeatable; default both)
        plant: plant a fault in a copy, to see whether it is noticed
        all: every mechanism, with its default settings
        write (FILE.json): with --all: what was measured, to ship
        json: one JSON object instead of the report

    examples:
      dpmc audit output --epsilon 1
      dpmc audit private-popularity --epsilon 1 --plant halved
      dpmc audit randomised-response restaurants --epsilon 2 --unit cell --runs 300

    The probe is exact for the pair that it shows. A bound by canaries is too large in at most 5 of
    100 audits; what holds is refuted by them in at most 1 of 10,000. An audit that finds nothing
    confirms nothing.
    """

    asked = {"mechanism": mechanism, "data": data, "unit": unit, "plant": plant}

    def audited(made: Mechanism, seed: int, ratings: Ratings | None = None) -> Audit:
        with Progress() as progress:
            return refute(
                *(made, ratings),
                data=data or "",
                change=unit,
                runs=runs,
                methods=method or tuple(Way),
                flaw=plant,
                seed=seed,
                tell=lambda done, total, label, _: progress.update(
                    f"{made.id}: {label}", done, total, lambda part: f"{100 * part // total} %"
                ),
            )

    if all:
        for name, value in asked.items():
            if value is not None:
                raise InvalidSetting(name, "left out with --all", getattr(value, "value", value))
        return _audit_all(audited, budget, seed, write)
    if mechanism is None:
        raise InvalidSetting("MECHANISM", "given, or --all", None)
    if write is not None:
        raise InvalidSetting("--write", "left out without --all", str(write))
    made, steps = budget.mechanism(mechanism), options.steps_of(prepare)
    if data is None:
        found, (lit, words) = audited(made, seed), _lit(made)
        return CommandReport(found.as_dict() | lit, _told(found) + words)
    loaded = reading.load(data, made.task, prepare)
    ratings, _ = prepare_all(loaded.ratings, made.task, steps)
    found = audited(made, seed, ratings)
    return CommandReport(found.as_dict(), _told(found))


def _audit_all(
    audited: Callable[[Mechanism, int], Audit], budget: Budgeted, seed: int, write: Path | None
) -> CommandReport:
    """Every mechanism that adds noise, and the file of what was measured."""
    records, rows = [], []
    epsilon = 1.0 if budget.epsilon is None else budget.epsilon
    for id, cls in registry.MECHANISMS.items():
        if registry.adds_noise(cls):
            made = registry.create(id, epsilon=epsilon, delta=budget.delta)
            found = audited(made, seed)
            if found.best is not None and found.best.method is Way.CANARIES:
                # Coins decide the bound: the one in the middle of five seeds.
                others = [audited(made, seed + k) for k in range(1, 5)]
                found = sorted([found, *others], key=lambda one: one.measured)[2]
            records.append(record(found))
            values = (found.claimed, found.certified.epsilon, found.measured)
            known = ("-" if value is None else cards.epsilon_text(value) for value in values)
            rows.append((id, found.change.label, *known, found.refuted.value))
    if write is not None:
        with whole_file(write) as part:
            part.write_text(records_text(records), encoding="utf-8")
    head = ("mechanism", "protects", "claimed", "certified", "measured", "refuted")
    return CommandReport(list(map(dataclasses.asdict, records)), [table([head, *rows])])


def _told(report: Audit) -> list[str]:
    """What was audited, the verdict, each method."""
    certified = cards.budget_text(report.certified.epsilon, report.certified.delta)
    claimed = "-" if report.claimed is None else cards.epsilon_text(report.claimed)
    head = (
        f"{report.mechanism.name} on {report.data}, {report.change.label}"
        f" ({report.change.relation}): claimed {claimed}, certified {certified}"
    )
    verdict = [audits.noticed(report), audits.verdict(report)]
    paragraphs = [paragraph(head), "\n".join(filter(None, verdict))]
    for found in report.findings:
        rows = f"\n{table(audits.releases(found), '  ')}" if found.releases else ""
        words = f"{METHODS[found.method]}. {audits.finding(found, report.change)}"
        paragraphs.append(paragraph(words) + rows)
    for method, why in report.skipped:
        paragraphs.append(paragraph(f"{METHODS[method]}. Does not apply: {why}."))
    paragraphs.append(f"Seed {report.seed}, {report.runs} runs: the same again with the same seed.")
    return paragraphs


def _lit(mechanism: Mechanism) -> tuple[Plain, list[str]]:
    """What one rating moves in output perturbation, on its known instance; and in words."""
    if not isinstance(mechanism, Output):
        return {}, []
    found = audits.lights(*audits.known_instance(mechanism.epsilon))
    names = ("user", "item", "cells", "total", "allowed", "epsilon", "claimed")
    told = (
        f"One rating (item {found.item} of user {found.user}) on the known instance moves"
        f" {found.cells:,} cells of the matrix, by {found.total:.3g} together; the proof allows"
        f" {found.allowed:g}, so epsilon is at least {found.epsilon:.3g} there."
    )
    return {"lights": {name: getattr(found, name) for name in names}}, [paragraph(told)]
