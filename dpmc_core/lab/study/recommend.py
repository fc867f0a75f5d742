"""Which method: one certified method for a unit, a trust and a task, by a rule that reads no data.

Each class says in `recommended` where it is the one to take. That was fixed on generated data of
several sizes; `python benchmarks/recommend.py` prints what it rests on. The rule knows the public
sizes and epsilon, and sees no rating.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpmc_core import registry
from dpmc_core.errors import InvalidSetting, check_number
from dpmc_core.model import Mechanism, Task, Wanted
from dpmc_core.privacy import DELTA, Budget, Certified, Change, Guarantee, Trust
from dpmc_core.privacy.guarantee import calibrate
from dpmc_core.ratings import PublicFacts


@dataclass(frozen=True)
class Advice:
    """mechanism: at the largest setting that certifies at most what was asked for.

    certified: for the unit asked for; at delta 0 where the noise allows a pure promise. reason: why
    this one, in a sentence.
    """

    mechanism: Mechanism
    certified: Certified
    reason: str


def recommend(
    task: Task,
    change: Change,
    public: PublicFacts,
    *,
    epsilon: float,
    delta: float = DELTA,
    trust: Trust = Trust.CURATOR,
) -> Advice:
    """The method for a task under a promise, certified at (epsilon, delta) for the change.

    public: of the prepared ratings. trust: CURATOR, or LOCAL where nobody may see raw ratings.
    Raises InvalidSetting where no method certifies it, with the nearest that one does.
    """
    check_number("epsilon", epsilon, above=0)
    id, reason = _chosen(task, change, public, epsilon, trust)

    def made(at: float) -> Mechanism:
        return registry.create(id, epsilon=at, delta=delta)

    def card(at: float) -> Guarantee:
        return made(at).guarantee(public)

    if not registry.has_setting(registry.get(id), "delta"):
        delta = 0.0
    setting = typed(calibrate(card, Budget(epsilon, delta), change))
    return Advice(made(setting), card(setting).certified(change, delta), reason)


def typed(setting: float) -> float:
    """A few digits less, never more: a setting that can be typed."""
    unit = 10.0 ** (math.floor(math.log10(setting)) - 3)
    return float(f"{math.floor(setting / unit * (1 + 1e-12)) * unit:.4g}")


def advised(
    task: Task, change: Change, public: PublicFacts, epsilon: float, trust: Trust
) -> str | None:
    """The id of the method alone, which needs no calibration; None where no method certifies it."""
    try:
        return _chosen(task, change, public, epsilon, trust)[0]
    except InvalidSetting:
        return None


def _chosen(
    task: Task, change: Change, public: PublicFacts, epsilon: float, trust: Trust
) -> tuple[str, str]:
    wanted = Wanted(change, epsilon, trust, public)
    for id in reversed(registry.noisy(task)):
        reason = getattr(registry.get(id), "recommended", Mechanism.recommended)(wanted)
        if reason:
            return id, reason
    if task is Task.BINARY:
        raise InvalidSetting(
            "unit", "rating for likes", change.label,
            "which ratings exist is public there; take unit rating, or task ratings",
        )  # fmt: skip
    raise InvalidSetting(
        "unit", "a rating or a cell where nobody is trusted", change.label,
        "a whole row costs epsilon for each of its items; trust a curator, or take unit cell",
    )  # fmt: skip
