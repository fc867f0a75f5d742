"""What an audit found: findings by method, and the report they make together."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dpmc_core.errors import DpmcError
from dpmc_core.experiment import settings_dict
from dpmc_core.lab.refute.faults import Flaw
from dpmc_core.model import Mechanism
from dpmc_core.privacy import Certified, Change, Guarantee

CONFIDENCE = 0.95  # of a bound by canaries
FALSE_ALARM = 1e-4  # chance that canaries, or the sampler, refute what holds
TIGHT = 1 + 1e-9  # what passes a bound by less passes it by rounding


class Method(enum.Enum):
    """How a finding came about."""

    PROBE = "probe"
    CANARIES = "canaries"
    SAMPLER = "sampler"


class Refuted(enum.Enum):
    """What a finding contradicts, the gravest last."""

    NOTHING = "nothing"  # which confirms nothing
    CLAIM = "claim"  # measured above what is claimed: a finding about the paper
    CERTIFICATE = "certificate"  # above what is certified: a bug of this program


@dataclass(frozen=True)
class Subject:
    """What a method works on. mechanism: maybe with a fault; card: of the honest one, for a change.

    claimed: None where there is no claim for this change. delta: of the bound.
    """

    mechanism: Mechanism
    card: Guarantee
    change: Change
    claimed: float | None
    delta: float
    seed: int


class Inapplicable(DpmcError):
    """A method has nothing to work on in a mechanism; says why."""


@dataclass(frozen=True)
class Spent:
    """One release in a finding.

    name: as on the card; query: what is asked. measured: how far the answer moved, in the release's
    norm (probe), or a lower bound on the epsilon of one publication (sampler); allowed: the same by
    its record (inf: no bound). norm: the norm's words, or 'epsilon'. counts: whether it is a part
    of the finding's bound: a probe counts the answers that hang on no earlier answer. p_value: of
    the draws against their density, times the number of tests (sampler).
    """

    name: str
    query: str
    measured: float
    allowed: float
    norm: str
    counts: bool = True
    p_value: float | None = None

    @property
    def fits(self) -> bool:
        """Whether the record holds: no further than it allows, and draws of its density."""
        drawn = self.p_value is None or self.p_value >= FALSE_ALARM
        return drawn and self.measured <= self.allowed * TIGHT


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


@dataclass(frozen=True)
class Measured:
    """What one method found, so far or at its end.

    valid: whether `epsilon` is a bound yet. Canaries, draws and guesses are fixed beforehand, so a
    part of them bounds nothing; every pair of a probe stands for itself. epsilon: none smaller
    holds, at `delta`, for the report's change; 0: nothing found; None: the method bounds single
    releases alone (sampler). confidence: of the bound; None: exact. refuted: by a bound with a
    false alarm of FALSE_ALARM, or exact. done, total: pairs tried,
    canaries scored or releases drawn from. given: what the bound takes for known or granted, in
    words ('': nothing). right of guesses: canaries. pair: the worst one of a probe.
    """

    method: Method
    valid: bool
    epsilon: float | None
    delta: float
    confidence: float | None
    done: int
    total: int
    refuted: Refuted = Refuted.NOTHING
    releases: tuple[Spent, ...] = ()
    pair: ChangedRow | None = None
    canaries: int = 0
    guesses: int = 0
    right: int = 0
    given: str = ""


@dataclass(frozen=True)
class Report:
    """All that an audit found so far.

    claimed: the claim's epsilon; None where there is none for this change. certified: for the
    change, at the claim's delta. skipped: methods that do not apply, and why. flaw: what was
    planted; the card is the honest one. stopped: asked to, before all was done.
    """

    mechanism: Mechanism
    data: str
    change: Change
    claimed: float | None
    certified: Certified
    seed: int
    runs: int
    flaw: Flaw | None = None
    findings: tuple[Measured, ...] = ()
    skipped: tuple[tuple[Method, str], ...] = ()
    stopped: bool = False

    @property
    def valid(self) -> bool:
        """Whether there is a bound on epsilon at all yet."""
        return any(f.valid and f.epsilon is not None for f in self.findings)

    @property
    def measured(self) -> float:
        """The largest valid lower bound on epsilon; 0 where nothing was found."""
        return max((f.epsilon for f in self.findings if f.valid and f.epsilon), default=0.0)

    @property
    def best(self) -> Measured | None:
        """The finding with that bound."""
        bounds = [f for f in self.findings if f.valid and f.epsilon is not None]
        return max(bounds, key=lambda f: f.epsilon or 0.0, default=None)

    @property
    def refuted(self) -> Refuted:
        """The gravest contradiction found."""
        order = list(Refuted)
        return max((f.refuted for f in self.findings), key=order.index, default=Refuted.NOTHING)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values: what `dpmc audit --json` prints. Infinite is null."""
        return {
            "mechanism": self.mechanism.id,
            "revision": self.mechanism.revision,
            "settings": settings_dict(self.mechanism),
            "data": self.data,
            "unit": self.change.unit,
            "neighbours": self.change.neighbours,
            "delta": self.certified.delta,
            "claimed": self.claimed,
            "certified": _plain(self.certified.epsilon),
            "measured": self.measured if self.valid else None,
            "refuted": self.refuted.value,
            "seed": self.seed,
            "runs": self.runs,
            "planted": self.flaw.value if self.flaw else None,
            "stopped": self.stopped,
            "findings": [_finding(f) for f in self.findings],
            "skipped": {method.value: why for method, why in self.skipped},
        }


# done, total: parts of all methods together; what is being done; the report so far.
Tell = Callable[[int, int, str, Report], None]


def _finding(found: Measured) -> dict[str, Any]:
    pair = found.pair
    return {
        "method": found.method.value,
        "valid": found.valid,
        "epsilon": _plain(found.epsilon),
        "delta": found.delta,
        "confidence": found.confidence,
        "done": found.done,
        "total": found.total,
        "refuted": found.refuted.value,
        "canaries": found.canaries,
        "guesses": found.guesses,
        "right": found.right,
        "given": found.given,
        "pair": None
        if pair is None
        else {
            "user": pair.user,
            "items": list(pair.items),
            "before": list(pair.before),
            "after": list(pair.after),
            "rest": pair.rest,
        },
        "releases": [
            {
                "name": r.name,
                "query": r.query,
                "measured": _plain(r.measured),
                "allowed": _plain(r.allowed),
                "norm": r.norm,
                "counts": r.counts,
                "p_value": r.p_value,
                "fits": r.fits,
            }
            for r in found.releases
        ],
    }


def _plain(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def refuted_by(
    epsilon: float | None,
    claimed: float | None,
    certified: float,
    releases: Sequence[Spent] = (),
) -> Refuted:
    """What a valid bound, or a release that does not fit its record, contradicts.

    Where nothing is certified, a record that is passed refutes no certificate.
    """
    bound = epsilon or 0.0
    fit = math.isinf(certified) or all(release.fits for release in releases)
    if bound > certified * TIGHT or not fit:
        return Refuted.CERTIFICATE
    return Refuted.CLAIM if claimed is not None and bound > claimed * TIGHT else Refuted.NOTHING
