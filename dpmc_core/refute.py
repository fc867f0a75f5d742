"""Try to refute what a mechanism claims and what its releases certify: audits that anybody can run.

Three methods, each from the noisy answers of the releases, from which all else follows:

- the sensitivity probe: how far the queries really move between neighbouring data sets. Exact for
  the pair it shows; needs no confidence;
- canaries: things of the mechanism's own unit, each planted by a fair coin in one run and guessed
  from what was published (95 % confidence);
- the sampler: draws of each noise against its density, and the worst event, chosen on one half of
  the draws and counted on the other.

What an audit does not refute it does not confirm. The same seed gives the same numbers.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from dpmc_core.faults import Fault
from dpmc_core.model import Mechanism
from dpmc_core.privacy import Certified, Change
from dpmc_core.ratings import Ratings
from dpmc_core.stopping import Stop

CONFIDENCE = 0.95  # of a bound by canaries or by events
FALSE_ALARM = 1e-4  # chance that honest noise is told from its density, all tests of a run together
RUNS = 200  # how often a mechanism is run for the pairs, and again for the canaries


class Method(enum.Enum):
    """How a finding came about. words: the same for people."""

    PROBE = "probe"
    CANARIES = "canaries"
    SAMPLER = "sampler"


class Refuted(enum.Enum):
    """What a valid finding contradicts."""

    NOTHING = "nothing"  # which confirms nothing
    CLAIM = "claim"  # measured above what is claimed: a finding about the paper
    CERTIFICATE = "certificate"  # measured above what is certified: a bug of this program


@dataclass(frozen=True)
class Spent:
    """One release in a finding.

    name: as on the card; query: what is asked. measured: what the finding found of it: how far the
    answer moved in the release's norm (probe), or the epsilon of one publication (sampler);
    allowed: the same by its record. norm: the norm's words, 'epsilon' for the sampler.
    p_value: of the noise against its density (sampler only).
    counts: whether it is a part of the bound. A probe counts only answers whose move does not hang
    on earlier answers.
    """

    name: str
    query: str
    measured: float
    allowed: float
    norm: str
    counts: bool = True
    p_value: float | None = None


@dataclass(frozen=True)
class Pair:
    """Two neighbouring data sets: what one has in the cells that change, and the other.

    user, items: counted from 0, as in the data; before, after: ratings, None where there is none.
    words: the change in plain words, with the names in the data.
    """

    user: int
    items: tuple[int, ...]
    before: tuple[float | None, ...]
    after: tuple[float | None, ...]
    words: str


@dataclass(frozen=True)
class Finding:
    """What one method found, so far or at its end.

    valid: whether `epsilon` is a bound yet: runs and guesses are fixed beforehand, so a part of the
    canaries or draws bounds nothing, while every pair of a probe stands for itself. epsilon: no
    smaller one holds, at `delta`, for the change of the report; 0: nothing found; None where the
    method bounds single releases only (sampler). confidence: of the bound; None: exact.
    done, total: pairs tried, canaries scored or draws made. guesses, right: canaries. pair: the
    worst one (probe). given: what an attacker is taken to know besides ('' : nothing).
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
    pair: Pair | None = None
    guesses: int = 0
    right: int = 0
    given: str = ""


@dataclass(frozen=True)
class Report:
    """All that an audit found. fault: what was planted (the card is the honest one).

    claimed: the claim's epsilon for `change`; None where the claim is for another unit.
    certified: for `change` at the claim's delta. skipped: methods that do not apply, and why.
    """

    mechanism: Mechanism
    data: str
    change: Change
    claimed: float | None
    certified: Certified
    seed: int
    runs: int
    fault: Fault | None
    findings: tuple[Finding, ...]
    skipped: tuple[tuple[Method, str], ...] = ()
    stopped: bool = False

    @property
    def measured(self) -> float:
        """The largest valid lower bound on epsilon: 0 where none was found yet."""
        raise NotImplementedError

    @property
    def valid(self) -> bool:
        """Whether there is a bound at all yet."""
        raise NotImplementedError

    @property
    def refuted(self) -> Refuted:
        """The gravest contradiction found."""
        raise NotImplementedError

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values: what `dpmc audit --json` prints."""
        raise NotImplementedError


# done, total: parts of all methods together; label: what is being done; the report so far.
Tell = Callable[[int, int, str, Report], None]


def refute(
    mechanism: Mechanism,
    ratings: Ratings | None = None,
    *,
    change: Change | None = None,
    runs: int = RUNS,
    methods: Collection[Method] = tuple(Method),
    fault: Fault | None = None,
    seed: int = 1,
    tell: Tell | None = None,
    stop: Stop | None = None,
) -> Report:
    """Audit a mechanism on ratings prepared for its task; None: on `small_data`.

    change: the unit (the card's own by default). runs: for pairs, and for canaries: each canary
    takes a run to score. fault: planted in a copy that is audited against the honest card.
    tell: told after every part. Asked to stop, it returns what is there, `stopped`; what was not
    finished is not valid. Raises InvalidSetting for a fault or unit that does not apply.
    """
    raise NotImplementedError


def small_data(mechanism: Mechanism, seed: int = 1) -> tuple[Mechanism, Ratings]:
    """Ratings of a task, small enough to run a mechanism hundreds of times.

    For output perturbation the known instance, with the settings that show it most (the mechanism
    as given if it has settings of its own).
    """
    raise NotImplementedError
