"""What an audit found: findings by method, and the report they make together."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dpmc_core.arrays import JsonObject
from dpmc_core.errors import DpmcError, InvalidSetting
from dpmc_core.experiment import serialise_settings
from dpmc_core.model import Mechanism
from dpmc_core.privacy import Certified, Change, Guarantee
from dpmc_lab.measured import AuditMethod, MeasuredBound, Refuted

CONFIDENCE = 0.95  # of a bound by canaries
FALSE_ALARM = 1e-4  # chance that canaries refute what holds
ROUNDING_FACTOR = 1 + 1e-9  # what passes a bound by less passes it by rounding


class Inapplicable(DpmcError):
    """A method has nothing to work on in a mechanism; says why."""


@dataclass(frozen=True)
class AuditSubject:
    """What a method works on. mechanism: maybe with a fault; guarantee: of the honest one, for a
    change.

    Its `audit(ratings, runs)` yields what it has found so far, and at last what it found; it raises
    Inapplicable where it has nothing to work on.
    """

    mechanism: Mechanism
    guarantee: Guarantee
    change: Change
    seed: int

    @property
    def claimed(self) -> float | None:
        """The claim's epsilon; None where there is none for this change."""
        claim = self.guarantee.claimed
        return claim.epsilon if claim and self.guarantee.change is self.change else None

    @cached_property
    def certified(self) -> Certified:
        """What the card certifies for the change, at the claim's delta."""
        return self.guarantee.certified(self.change)

    def find_contradiction(
        self, epsilon: float, releases: Iterable[ReleaseFinding] = ()
    ) -> Refuted:
        """What a valid bound, or a release that does not fit its record, contradicts.

        Where nothing is certified, a record that is passed refutes no certificate.
        """
        certified = self.certified.epsilon
        fits = math.isinf(certified) or all(release.fits for release in releases)
        if epsilon > certified * ROUNDING_FACTOR or not fits:
            return Refuted.CERTIFICATE
        exceeds_claim = self.claimed is not None and epsilon > self.claimed * ROUNDING_FACTOR
        return Refuted.CLAIM if exceeds_claim else Refuted.NOTHING


@dataclass(frozen=True)
class ReleaseFinding:
    """One release in a finding.

    name: as on the card; query: what is asked. measured: how far the answer moved, in the release's
    norm; allowed: the same by its record (inf: no bound). norm: the norm's words. counts: whether
    it is a part of the finding's bound: a probe counts the answers that hang on no earlier answer.
    """

    name: str
    query: str
    measured: float
    allowed: float
    norm: str
    counts: bool = True

    @property
    def fits(self) -> bool:
        """Whether the answer moved no further than the record allows."""
        return self.measured <= self.allowed * ROUNDING_FACTOR


@dataclass(frozen=True)
class ChangedRow:
    """One user's row in two neighbouring data sets, on the items where they differ.

    user, items: counted from 0. before, after: ratings, None where there is none. rest: how many
    ratings of the user stay as they are.
    """

    user: int
    items: tuple[int, ...]
    before: tuple[float | None, ...]
    after: tuple[float | None, ...]
    rest: int


@dataclass(frozen=True, kw_only=True)
class AuditFinding:
    """What one method found, so far or at its end.

    valid: whether `epsilon` is a bound yet. Canaries, draws and guesses are fixed beforehand, so a
    part of them bounds nothing; every pair of a probe stands for itself. epsilon: none smaller
    holds, at `delta`, for the report's change; 0: nothing found. confidence: of the bound; None:
    exact. refuted: by a bound with a false alarm of FALSE_ALARM, or exact. done, total: pairs
    tried, canaries scored. right of guesses: canaries. given: what the bound takes for known or
    granted, in words ('': nothing). pair: the worst one of a probe.
    """

    method: AuditMethod
    valid: bool
    epsilon: float | None
    delta: float
    confidence: float | None = None
    done: int
    total: int
    refuted: Refuted
    canaries: int = 0
    guesses: int = 0
    right: int = 0
    given: str = ""
    pair: ChangedRow | None = None
    releases: tuple[ReleaseFinding, ...] = ()

    def as_dict(self) -> JsonObject:
        """Plain JSON values. Infinite is null."""
        values: JsonObject = _to_json(dataclasses.asdict(self))
        for release_values, release in zip(values["releases"], self.releases, strict=True):
            release_values["fits"] = release.fits
        return values


def _to_json(value: Any) -> Any:
    """As plain JSON values; infinite is null."""
    if isinstance(value, dict):
        return {name: _to_json(element) for name, element in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_to_json, value))
    if isinstance(value, enum.Enum):
        return value.value
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class AuditReport(AuditSubject):
    """All that an audit found so far.

    data: what the ratings are called. skipped: methods that do not apply, and why. stopped: asked
    to, before all was done.
    """

    data: str
    runs: int
    findings: tuple[AuditFinding, ...] = ()
    skipped: tuple[tuple[AuditMethod, str], ...] = ()
    stopped: bool = False

    @property
    def best(self) -> AuditFinding | None:
        """The finding with the largest valid lower bound on epsilon."""
        bounds = [f for f in self.findings if f.valid and f.epsilon is not None]
        return max(bounds, key=lambda f: f.epsilon or 0.0, default=None)

    @property
    def valid(self) -> bool:
        """Whether there is a bound on epsilon at all yet."""
        return self.best is not None

    @property
    def measured(self) -> float:
        """That bound; 0 where nothing was found."""
        return (self.best and self.best.epsilon) or 0.0

    @property
    def refuted(self) -> Refuted:
        """The gravest contradiction found."""
        order = list(Refuted)
        return max((f.refuted for f in self.findings), key=order.index, default=Refuted.NOTHING)

    def as_dict(self) -> JsonObject:
        """Plain JSON values: what `dpmc audit --json` prints. Infinite is null."""
        return {
            "mechanism": self.mechanism.id,
            "revision": self.mechanism.revision,
            "settings": serialise_settings(self.mechanism),
            "data": self.data,
            "unit": self.change.unit,
            "neighbours": self.change.neighbours,
            "delta": self.certified.delta,
            "claimed": self.claimed,
            "certified": _to_json(self.certified.epsilon),
            "measured": self.measured if self.valid else None,
            "refuted": self.refuted.value,
            "seed": self.seed,
            "runs": self.runs,
            "stopped": self.stopped,
            "findings": [finding.as_dict() for finding in self.findings],
            "skipped": {method.value: reason for method, reason in self.skipped},
        }


# done, total: parts of all methods together; what is being done; the report so far.
AuditProgress = Callable[[int, int, str, AuditReport], None]


def build_measured_bound(report: AuditReport) -> MeasuredBound:
    """The best bound of a report. Raises InvalidSetting where there is none."""
    if report.best is None:
        raise InvalidSetting("the audit", "one with a bound", report.mechanism.id)
    values = report.best.as_dict() | report.as_dict()
    values["epsilon"] = float(values["settings"].get("epsilon", 0.0))
    return MeasuredBound(
        **{field.name: values[field.name] for field in dataclasses.fields(MeasuredBound)}
    )
