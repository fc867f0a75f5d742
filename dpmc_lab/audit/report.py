"""Define what an audit finds: findings by method, and the report of all of them."""

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
ROUNDING_FACTOR = 1 + 1e-9  # what exceeds a bound by a smaller factor does so by rounding


class Inapplicable(DpmcError):
    """A method has nothing to work on in a mechanism; the message says why."""


@dataclass(frozen=True)
class AuditSubject:
    """What an audit method works on.

    A subclass's `audit(ratings, runs)` yields its finding so far, and finally the complete one. It
    raises Inapplicable where it has nothing to work on.

    Attributes:
        mechanism: the mechanism, possibly with a planted fault.
        guarantee: the guarantee of the mechanism without a fault.
        change: how the data sets differ.
        seed: of the audit.
    """

    mechanism: Mechanism
    guarantee: Guarantee
    change: Change
    seed: int

    @property
    def claimed(self) -> float | None:
        """Return the claimed epsilon; None where nothing is claimed for this change."""
        claim = self.guarantee.claimed
        return claim.epsilon if claim and self.guarantee.change is self.change else None

    @cached_property
    def certified(self) -> Certified:
        """Return what the guarantee certifies for the change, at the claim's delta."""
        return self.guarantee.certified(self.change)

    def find_contradiction(
        self, epsilon: float, releases: Iterable[ReleaseFinding] = ()
    ) -> Refuted:
        """Return what a lower bound on epsilon, or a release beyond its sensitivity, contradicts.

        Where nothing is certified, an exceeded sensitivity refutes no certificate.

        Args:
            epsilon: a valid lower bound on epsilon.
            releases: the findings on single releases.
        """
        certified_epsilon = self.certified.epsilon
        releases_fit = math.isinf(certified_epsilon) or all(release.fits for release in releases)
        if epsilon > certified_epsilon * ROUNDING_FACTOR or not releases_fit:
            return Refuted.CERTIFICATE
        exceeds_claim = self.claimed is not None and epsilon > self.claimed * ROUNDING_FACTOR
        return Refuted.CLAIM if exceeds_claim else Refuted.NOTHING


@dataclass(frozen=True)
class ReleaseFinding:
    """One release in a finding.

    Attributes:
        name: as in the guarantee.
        query: of the release.
        measured: how far the answer moved, in the release's norm.
        allowed: the sensitivity in the guarantee (inf where there is no bound).
        norm: the norm in words.
        counts: whether the release counts for the finding's bound; a probe counts answers that
            depend on no earlier answer.
    """

    name: str
    query: str
    measured: float
    allowed: float
    norm: str
    counts: bool = True

    @property
    def fits(self) -> bool:
        """Return whether the answer moved no further than the guarantee allows."""
        return self.measured <= self.allowed * ROUNDING_FACTOR


@dataclass(frozen=True)
class ChangedRow:
    """One user's row in two neighbouring data sets, on the items where they differ.

    The names of the fields are those that `dpmc audit --json` prints.

    Attributes:
        user, items: indices, counted from 0.
        before, after: ratings, None where there is none.
        rest: how many ratings of the user do not change.
    """

    user: int
    items: tuple[int, ...]
    before: tuple[float | None, ...]
    after: tuple[float | None, ...]
    rest: int


@dataclass(frozen=True, kw_only=True)
class AuditFinding:
    """The result of one method so far, or in the end.

    The names of the fields are those that `dpmc audit --json` prints.

    Attributes:
        method: the method.
        valid: whether `epsilon` is a bound yet. Canaries, draws and guesses are fixed beforehand,
            so some of them prove nothing; every pair of a probe is valid on its own.
        epsilon: no smaller epsilon holds, at `delta`, for the report's change; 0 where nothing was
            found.
        delta: of the bound.
        confidence: of the bound; None where it is exact.
        done, total: number of pairs tried, or of canaries scored.
        refuted: what is contradicted by an exact bound, or one with false alarm probability
            FALSE_ALARM.
        canaries, guesses, right: number of canaries, of guesses and of right guesses.
        given: what the bound assumes, in words; empty for nothing.
        pair: the worst pair of a probe.
        releases: the releases.
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
        """Return the finding as plain JSON values, with null for infinite numbers."""
        values: JsonObject = _to_json(dataclasses.asdict(self))
        for release_values, release in zip(values["releases"], self.releases, strict=True):
            release_values["fits"] = release.fits
        return values


def _to_json(value: Any) -> Any:
    """Return a value as plain JSON values, with null for infinite numbers."""
    if isinstance(value, dict):
        return {name: _to_json(element) for name, element in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_to_json, value))
    if isinstance(value, enum.Enum):
        return value.value
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class AuditReport(AuditSubject):
    """All that an audit has found so far.

    Attributes:
        data: name of the ratings.
        runs: how many pairs the probe tries, and the maximum of canaries that take a run each.
        findings: findings by method.
        skipped: methods that do not apply, and why.
        stopped: whether the audit was stopped early.
    """

    data: str
    runs: int
    findings: tuple[AuditFinding, ...] = ()
    skipped: tuple[tuple[AuditMethod, str], ...] = ()
    stopped: bool = False

    def __repr__(self) -> str:
        claim, bound = self.guarantee.claimed, f"measured={self.measured:.3g}"
        return f"AuditReport({self.mechanism}, {bound}, claimed={claim}, refuted={self.refuted})"

    @property
    def best(self) -> AuditFinding | None:
        """Return the finding with the largest valid lower bound on epsilon."""
        bounds = [f for f in self.findings if f.valid and f.epsilon is not None]
        return max(bounds, key=lambda f: f.epsilon or 0.0, default=None)

    @property
    def valid(self) -> bool:
        """Return whether there is a bound on epsilon yet."""
        return self.best is not None

    @property
    def measured(self) -> float:
        """Return the largest valid lower bound on epsilon; 0 where nothing was found."""
        return (self.best and self.best.epsilon) or 0.0

    @property
    def refuted(self) -> Refuted:
        """Return the most severe contradiction among the findings."""
        order = list(Refuted)
        return max((f.refuted for f in self.findings), key=order.index, default=Refuted.NOTHING)

    def as_dict(self) -> JsonObject:
        """Return what `dpmc audit --json` prints, with null for what is infinite."""
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


# Called with the number of finished steps and of all steps, the method's name, the report so far.
AuditProgress = Callable[[int, int, str, AuditReport], None]


def build_measured_bound(report: AuditReport) -> MeasuredBound:
    """Return the best bound of a report as the record that ships with the program.

    Raises:
        InvalidSetting: the report has no bound.
    """
    if report.best is None:
        raise InvalidSetting("the audit", "one with a bound", report.mechanism.id)
    values = report.best.as_dict() | report.as_dict()
    # A record's `epsilon` is the setting; the bound is its `measured`.
    values["epsilon"] = float(values["settings"].get("epsilon", 0.0))
    return MeasuredBound(
        **{field.name: values[field.name] for field in dataclasses.fields(MeasuredBound)}
    )
