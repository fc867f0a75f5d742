"""Which method: one certified method for a unit, a trust and a task, by a rule that reads no data.

The rule was fixed on generated data of several sizes; `python benchmarks/recommend.py` prints what
it rests on. It knows the public sizes and epsilon, and sees no rating.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpmc_core import registry
from dpmc_core.errors import InvalidSetting, check_number
from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import DELTA, RATING, Budget, Certified, Change, Guarantee, Trust
from dpmc_core.privacy.guarantee import calibrate
from dpmc_core.ratings import PublicFacts

LOUD = 2.0  # epsilon per cell from which on rounded ratings tell more than noisy ones
HEARD = 3.0  # epsilon per cell from which on few users tell more one by one than together


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
    local = trust is Trust.LOCAL
    if task is Task.BINARY:
        if change is not RATING:
            raise InvalidSetting(
                "unit", "rating for likes", change.label,
                "which ratings exist is public there; take unit rating, or task ratings",
            )  # fmt: skip
        return "input-flip", (
            "any private report of one bit tells at most what a coin flip tells, and flips need"
            " nobody's trust"
        )
    if local and change.per_user:
        raise InvalidSetting(
            "unit", "a rating or a cell where nobody is trusted", change.label,
            "a whole row costs epsilon for each of its items; trust a curator, or take unit cell",
        )  # fmt: skip
    if task is Task.RANKING:
        if change.per_user:
            return "private-taste", (
                "popularity first, and taste only where the released counts show it can be heard"
            )
        return "dplcf", "every cell reports, so tastes are seen through the flips; no trust needed"
    if local or (not change.per_user and epsilon >= HEARD and public.users < public.items):
        if epsilon < LOUD:
            return "modified-laplace", (
                f"nobody is trusted, and below epsilon {LOUD:g} noisy ratings tell a little more"
                " than rounded ones"
            )
        why = "nobody is trusted" if local else "few users for many items"
        return "randomised-response", (
            f"{why}, and from epsilon {LOUD:g} on rounded ratings tell more than noisy ones"
        )
    return "private-effects", (
        "item effects and taste from sums over many users, each user's own side for free"
    )
