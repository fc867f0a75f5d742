"""What was measured of each mechanism at its default settings, as it ships with the program.

Numbers alone, made by `dpmc audit --all --write dpmc_core/lab/refute/measured.json`. A record
counts for the revision and the epsilon that it was measured at.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files

from dpmc_core import registry
from dpmc_core.errors import InvalidSetting
from dpmc_core.lab.refute.report import Report
from dpmc_core.model import Mechanism
from dpmc_core.privacy import Change


@dataclass(frozen=True)
class Shipped:
    """A lower bound on epsilon. mechanism, revision, epsilon, delta: what was measured.

    unit, neighbours: of the change; measured: the bound; confidence: None where it is exact;
    method: how it was found; refuted: what it contradicts; given: what it takes for known.
    """

    mechanism: str
    revision: int
    epsilon: float
    delta: float
    unit: str
    neighbours: str
    measured: float
    confidence: float | None
    method: str
    refuted: str
    given: str
    seed: int
    runs: int

    @property
    def change(self) -> Change:
        return Change.of(self.unit, self.neighbours)


def record(report: Report) -> Shipped:
    """The best bound of a report. Raises InvalidSetting where there is none, or a fault in it."""
    best = report.best
    if best is None or report.flaw is not None:
        raise InvalidSetting("the audit", "an honest one with a bound", report.mechanism.id)
    return Shipped(
        mechanism=report.mechanism.id,
        revision=report.mechanism.revision,
        epsilon=float(getattr(report.mechanism, "epsilon", 0.0)),
        delta=report.certified.delta,
        unit=report.change.unit,
        neighbours=report.change.neighbours,
        measured=report.measured,
        confidence=best.confidence,
        method=best.method.value,
        refuted=report.refuted.value,
        given=best.given,
        seed=report.seed,
        runs=report.runs,
    )


def records_text(records: list[Shipped]) -> str:
    """Records as the text of a file, one a line."""
    lines = ",\n".join(f"  {json.dumps(asdict(found))}" for found in records)
    return f"[\n{lines}\n]\n"


@cache
def _records() -> dict[str, Shipped]:
    text = files("dpmc_core.lab.refute").joinpath("measured.json").read_text(encoding="utf-8")
    return {found["mechanism"]: Shipped(**found) for found in json.loads(text)}


def shipped(mechanism: Mechanism) -> Shipped | None:
    """What was measured of a mechanism at these very settings; None where nothing was."""
    found = _records().get(mechanism.id)
    if found is None or found.revision != mechanism.revision:
        return None
    asked = {} if found.delta == 0 else {"delta": found.delta}
    if type(mechanism) is not registry.get(mechanism.id):
        return None
    same = mechanism == registry.create(mechanism.id, epsilon=found.epsilon, **asked)
    return found if same else None
