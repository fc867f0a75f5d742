"""The guarantee of a mechanism, what its releases certify, and settings calibrated to that."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Self

from dpmc_core.display import Summarised, format_bound
from dpmc_core.errors import InvalidSetting, check_number
from dpmc_core.privacy.accounting import Loss, bisect
from dpmc_core.privacy.changes import Change, sensitivity_at
from dpmc_core.privacy.releases import Additive, Releases
from dpmc_core.ratings import PublicFacts

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R = TypeVar("R", bound=Releases, covariant=True, default=Releases)
else:
    from typing import TypeVar

    R = TypeVar("R")  # before Python 3.13 a default is known to type checkers only


DEFAULT_DELTA = 1e-6  # if no other is given


class Notion(enum.Enum):
    """The kind of promise that a guarantee makes."""

    PURE = "pure"  # epsilon-DP
    APPROX = "approx"  # (epsilon, delta)-DP
    JOINT = "joint"  # the same for everything except the user's own output
    NONE = "none"  # no promise


class Calibration(enum.Enum):
    """Which constant scales the noise if that of a paper is loose."""

    PAPER = "paper"
    TIGHT = "tight"


class Trust(enum.Enum):
    """Who sees raw ratings."""

    CURATOR = "curator"  # a trusted server
    LOCAL = "local"  # nobody: each user randomises first
    AGGREGATOR = "aggregator"  # nobody, if the recommender and a third party do not collude
    FEDERATED = "federated"  # each party sees its own users, and the server sees nobody


class Publishes(enum.Enum):
    """What leaves the trusted side, in the words of the privacy card."""

    MATRIX = "completed matrix"
    FLIPPED_SIGNS = "flipped signs"
    RANDOMISED_ROWS = "randomised rows"
    FLIPPED_ROWS = "flipped rows, hence item similarities"
    ITEM_COUNTS = "one number per item"
    ITEM_MEANS = "item means; each user's predictions go to that user alone"
    ITEM_COVARIANCE = "item means and covariance; each user's predictions go to that user alone"
    ITEM_FACTORS = "item factors; each user's predictions go to that user alone"
    FACTORS_AND_SCORES = "item factors, and to each user the own scores"
    FACTORS_ALONE = "item factors; each user's own factors stay with the user"
    ITEM_PROFILES = "item profiles, to the server and every party"
    USER_PROFILES = "user profiles, to the server and every party"
    # The others are for methods without privacy.
    ONE_SIGN = "one sign"
    ONE_NUMBER = "one number"
    ITEM_SIMILARITIES = "item similarities"
    ITEM_AND_USER_FACTORS = "item factors and user factors"
    USER_AND_ITEM_FACTORS = "user and item factors"
    EVERYTHING = "everything it learns"


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta) pair.

    Attributes:
        epsilon: at least 0.
        delta: at least 0 and below 1.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        check_number("epsilon", self.epsilon, at_least=0)
        check_number("delta", self.delta, at_least=0, below=1)
        object.__setattr__(self, "epsilon", float(self.epsilon))  # NumPy numbers become plain JSON
        object.__setattr__(self, "delta", float(self.delta))


@dataclass(frozen=True)
class Certified:
    """A certified budget for one change.

    Attributes:
        change: what is protected.
        epsilon: the certified epsilon; infinite if nothing can be certified.
        delta: the delta at which it holds.
        reason: why epsilon is infinite, as a clause.
    """

    change: Change
    epsilon: float
    delta: float
    reason: str = ""

    @property
    def finite(self) -> bool:
        """Whether epsilon is finite."""
        return math.isfinite(self.epsilon)

    def __str__(self) -> str:
        if not self.finite:
            return f"no epsilon {self.change.label}: {self.reason}"
        return f"epsilon {format_bound(self.epsilon)} {self.change.label} at delta {self.delta:g}"


@dataclass(frozen=True)
class Unaccounted:
    """A data access that no noise covers; a single one makes every certified epsilon infinite.

    Attributes:
        query: what is accessed.
        reason: why no noise covers it.
    """

    query: str
    reason: str


@dataclass(frozen=True, kw_only=True, repr=False)
class Guarantee(Summarised, Generic[R]):
    """A privacy claim with everything on which it rests, for a mechanism on given public facts.

    >>> import dpmc_core as dpmc
    >>> public = dpmc.load("restaurants").ratings.public
    >>> guarantee = dpmc.create("private-item-mean", epsilon=1).guarantee(public)
    >>> round(guarantee.certified().epsilon, 3), guarantee.certified().delta
    (1.0, 1e-06)

    Attributes:
        change: what the claim protects.
        notion: the kind of promise.
        trust: who sees raw ratings.
        publishes: what leaves the trusted side.
        public: the public facts of the ratings.
        claimed: the claimed budget; None if nothing is claimed.
        source: the paper or text that makes the claim.
        releases: everything that is released.
        unaccounted: data accesses that no noise covers.
        caveats: conditions under which the guarantee holds.
    """

    change: Change
    notion: Notion
    trust: Trust
    publishes: Publishes
    public: PublicFacts
    claimed: Budget | None
    source: str
    releases: R
    unaccounted: tuple[Unaccounted, ...] = ()
    caveats: tuple[str, ...] = ()

    def summarise(self) -> dict[str, object]:
        """Return what is protected, claimed and certified, by label."""
        return {
            "protects": self.change.protects,
            "trust": self.trust.value,
            "publishes": self.publishes.value,
            "claimed": self.claimed,
            "certified": self.certified(),
        }

    def certified(self, change: Change | None = None, delta: float | None = None) -> Certified:
        """Return the budget that the releases prove for a change, or infinity and the reason.

        The losses of pure releases add up at delta 0, and Gaussian losses compose exactly. For the
        composition of pure releases, or of both kinds, at a delta above 0 see `accounting`.

        Args:
            change: what is to be protected; None for the change of the claim.
            delta: the delta at which epsilon is certified; None for the delta of the claim.
        """
        target_change = self.change if change is None else change
        if delta is None:
            delta = self.claimed.delta if self.claimed else 0.0
        check_number("delta", delta, at_least=0, below=1)
        spent, reason = self._compose_loss(target_change)
        epsilon = spent.epsilon_at(delta)
        if math.isinf(epsilon) and math.isfinite(spent.epsilon):
            reason = "Gaussian noise gives no finite epsilon at delta = 0"
        elif math.isinf(epsilon) and not reason:
            reason = "some outputs reveal their input"
        return Certified(target_change, epsilon, delta, reason)

    def attacker_accuracy(self, change: Change | None = None) -> float:
        """Return the probability with which the best attacker guesses which data set was used.

        Two neighbouring data sets are equally likely beforehand. The probability is exact for
        randomised responses of one epsilon, for one number with Laplace noise, and for Gaussian
        releases, if the change may move an answer by all of its sensitivity; otherwise it is an
        upper bound.

        Args:
            change: how the data sets differ; None for the change of the claim.
        """
        return self.loss(change).attacker_accuracy()

    def loss(self, change: Change | None = None) -> Loss:
        """Return the loss of all releases for a change; infinite if nothing is certified.

        Args:
            change: what is to be protected; None for the change of the claim.
        """
        return self._compose_loss(self.change if change is None else change)[0]

    def _compose_loss(self, change: Change) -> tuple[Loss, str]:
        """Return the loss of all releases for a change, and the reason if it is infinite."""
        if not isinstance(change, Change):
            allowed = f"a Change: {', '.join(Change.__members__)}"
            raise InvalidSetting("change", allowed, change)
        nothing_holds = Loss(math.inf)
        if self.unaccounted:
            return nothing_holds, "; ".join(f"{u.query}: {u.reason}" for u in self.unaccounted)
        spent = Loss()
        for _, release in self.releases:
            sensitivity = sensitivity_at(release.sensitivity, change, self.public)
            if math.isinf(sensitivity) and not release.sensitivity:
                return nothing_holds, f"the noise scale of '{release.query}' is read off the data"
            if math.isinf(sensitivity):
                return nothing_holds, (
                    f"'{release.query}' covers the values of ratings only: which ratings exist is"
                    f" public, so it has no bound {change.label}"
                )
            spent += release.loss(sensitivity)
        return (spent, "") if [*self.releases] else (nothing_holds, "nothing is randomised")

    @property
    def per_item_release(self) -> Additive | None:
        """The first release that adds noise to one number per item; None if there is none."""
        releases = (release for _, release in self.releases if isinstance(release, Additive))
        return next((release for release in releases if release.is_per_item), None)

    def repeat(self, times: int) -> Self:
        """Return the guarantee of several publications of the same ratings with separate noise.

        It claims nothing, because the claim is for a single one.

        Args:
            times: how often everything is published.
        """
        repeated = self.releases.map_releases(lambda one: replace(one, times=times * one.times))
        return replace(self, claimed=None, releases=repeated)

    def with_preparation(self, prepared: tuple[str, ...]) -> Self:
        """Return the same guarantee with the data-dependent preparation steps as caveats.

        Args:
            prepared: the steps as phrases, as in `Ratings.prepared`.
        """
        added = tuple(f"certified given that {step} is public" for step in prepared)
        return replace(self, caveats=self.caveats + added)

    def as_dict(self) -> dict[str, Any]:
        """Return the guarantee as plain JSON values, the `guarantee` object of the command line."""
        certified = self.certified()
        return {
            "unit": self.change.unit,
            "neighbours": self.change.neighbours,
            "notion": self.notion.value,
            "trust": self.trust.value,
            "publishes": self.publishes.value,
            "claimed": asdict(self.claimed) if self.claimed else None,
            "certified": {"epsilon": certified.epsilon, "delta": certified.delta}
            if certified.finite
            else None,
            "reason": certified.reason,
            "source": self.source,
            "caveats": list(self.caveats),
        }


_DOUBLINGS = 100  # a factor of 1e30 either way, more than between any two privacy units


def calibrate(
    guarantee_at: Callable[[float], Guarantee],
    target: Budget,
    change: Change | None = None,
) -> float:
    """Return the largest epsilon setting whose certified epsilon does not exceed that of a target.

    Args:
        guarantee_at: returns the guarantee at a setting. It must certify a finite epsilon that
            grows with the setting; it may raise InvalidSetting above some limit, which then ends
            the search.
        target: the budget that may be spent.
        change: what is to be protected; None for the change of the claim.

    Raises:
        InvalidSetting: if the certified epsilon is infinite (with its reason) or never crosses the
            target.
    """
    check_number("target epsilon", target.epsilon, above=0)

    def certified(setting: float) -> Certified:
        return guarantee_at(setting).certified(change, target.delta)

    def fits(setting: float) -> bool:
        try:
            return certified(setting).epsilon <= target.epsilon
        except InvalidSetting:
            return False

    probe = certified(target.epsilon)
    if not probe.finite:
        raise InvalidSetting("certified epsilon", "finite to calibrate", math.inf, probe.reason)
    # Halve a setting until it fits and double another until it does not, then bisect.
    low = target.epsilon
    for _ in range(_DOUBLINGS):
        if fits(low):
            break
        low /= 2.0
    else:
        min_epsilon = certified(2.0 * low).epsilon
        raise InvalidSetting(
            "target epsilon", f"at least {min_epsilon:g}, spent at any setting", target.epsilon
        )
    high = 2.0 * low
    for _ in range(_DOUBLINGS):
        if not fits(high):
            break
        low, high = high, 2.0 * high
    else:
        max_epsilon = certified(low).epsilon
        raise InvalidSetting(
            "target epsilon",
            f"below {max_epsilon:g}, the most that any setting spends",
            target.epsilon,
        )
    return bisect(fits, low, high, relative=1e-12)[0]  # the end that fits, never above the target
