"""Choose the privacy unit and the mechanism that is recommended for it."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from dpmc_core import registry
from dpmc_core.dataset import Dataset
from dpmc_core.errors import DpmcError, InvalidSetting, check_number
from dpmc_core.experiment import Result, run
from dpmc_core.mechanisms.private_effects import PrivateEffects
from dpmc_core.model import Mechanism, PrivacyRequest, Task
from dpmc_core.privacy import (
    CELL,
    DEFAULT_DELTA,
    RATING,
    USER_EMPTIED,
    Budget,
    Certified,
    Change,
    Guarantee,
    Trust,
)
from dpmc_core.privacy.guarantee import calibrate
from dpmc_core.problem import build_problem
from dpmc_core.ratings import PublicFacts


class PrivacyUnit(enum.Enum):
    """What is protected: all ratings of a person from readers, or each rating from everybody."""

    PERSON = "person"
    RATING = "rating"

    @classmethod
    def from_guarantee(cls, guarantee: Guarantee) -> PrivacyUnit | None:
        """Return the unit that a guarantee protects; None where it protects neither."""
        trust_and_scope = guarantee.trust, guarantee.change.per_user
        return next(
            (
                privacy_unit
                for privacy_unit in cls
                if (privacy_unit.trust, privacy_unit is cls.PERSON) == trust_and_scope
            ),
            None,
        )

    @property
    def trust(self) -> Trust:
        """Return whom users have to trust."""
        return Trust.CURATOR if self is PrivacyUnit.PERSON else Trust.LOCAL

    def is_possible(self, task: Task) -> bool:
        """Return whether a mechanism for this unit exists.

        For likes it is public which ratings exist, so no mechanism protects a whole person.
        """
        return self is PrivacyUnit.RATING or task is not Task.BINARY

    def change(self, task: Task) -> Change:
        """Return how neighbouring data sets differ: the change that epsilon protects for a task."""
        if self is PrivacyUnit.PERSON:
            return USER_EMPTIED
        return RATING if task is Task.BINARY else CELL


# --- which method ------------------------------------------------------------------------
# The method `recommendation_reason` of a mechanism decides for which requests it is best. These
# rules were fixed on generated data of several sizes; `python benchmarks/recommend.py` prints the
# comparison behind them. They use public sizes and epsilon, and no rating.

# Where users x epsilon is below this times sqrt(items), private effects have lost to own averages
# or drawn with them. On twelve generated sets it then lost up to .0023 of the range's width in RMSE
# and won up to .0011; above, it lost at most .0014. How many ratings a person has decides between
# these, but that is not public.
_MIN_EFFECTS_SIGNAL = 2.5


class Advice(NamedTuple):
    """The recommended mechanism for an epsilon.

    Attributes:
        mechanism: the mechanism at the largest setting that certifies at most the requested
            epsilon.
        certified: what is certified for the requested unit, at delta 0 where the noise allows it.
        reason: why this mechanism is recommended, in a sentence.
    """

    mechanism: Mechanism
    certified: Certified
    reason: str


def recommend_method(
    task: Task,
    change: Change,
    public: PublicFacts,
    *,
    epsilon: float,
    delta: float = DEFAULT_DELTA,
    trust: Trust = Trust.CURATOR,
    personal: bool = False,
    times: int = 1,
) -> Advice:
    """Return the recommended mechanism, calibrated to (epsilon, delta) for the change.

    Args:
        task: what is predicted.
        change: how neighbouring data sets differ.
        public: public facts of the prepared ratings.
        epsilon: the requested epsilon.
        delta: the requested delta.
        trust: CURATOR, or LOCAL where nobody may see raw ratings.
        personal: whether to recommend a mechanism that learns from other users even where it loses
            to its baseline, for a comparison of both.
        times: number of publications that share the budget.

    Raises:
        InvalidSetting: no mechanism certifies the request; the message names the nearest one that a
            mechanism certifies.
    """
    check_number("epsilon", epsilon, above=0)
    share = epsilon
    # The rule asks for the epsilon of one publication, which depends on the mechanism's noise.
    for _ in range(1 + (times > 1)):
        id, reason = _choose_method(task, PrivacyRequest(change, share, trust, public), personal)
        mechanism = calibrate_mechanism(
            registry.create(id, epsilon=epsilon, delta=delta),
            public,
            Budget(epsilon, delta),
            change,
            times,
        )
        has_delta = registry.has_setting(type(mechanism), "delta")
        certified = mechanism.guarantee(public).certified(change, delta if has_delta else 0.0)
        share = certified.epsilon
    return Advice(mechanism, certified, reason)


def calibrate_mechanism(
    mechanism: Mechanism, public: PublicFacts, budget: Budget, change: Change, times: int = 1
) -> Mechanism:
    """Return a mechanism at the epsilon setting that keeps a budget for a change.

    The setting is the largest one, rounded down to five digits so that people can type it. At four
    digits, some compositions would leave more than a thousandth of the budget unspent.

    >>> import dpmc_core as dpmc
    >>> public = dpmc.load("restaurants").ratings.public
    >>> mechanism = dpmc.create("randomised-response", epsilon=1)
    >>> calibrated = calibrate_mechanism(mechanism, public, Budget(5.0), USER_EMPTIED)
    >>> calibrated.epsilon, str(calibrated.guarantee(public).certified(USER_EMPTIED))
    (0.038461, 'epsilon 5 per user at delta 0')

    Args:
        mechanism: the mechanism with its other settings.
        public: public facts of the prepared ratings.
        budget: of all publications together. A single publication by a mechanism without a delta
            keeps it at delta 0.
        change: how neighbouring data sets differ.
        times: number of publications, each with fresh noise.

    Raises:
        InvalidSetting: no setting keeps the budget.
    """

    def create_at(epsilon_setting: float) -> Mechanism:
        """Create the mechanism at an epsilon setting."""
        return registry.create(mechanism.id, **{**vars(mechanism), "epsilon": epsilon_setting})

    def guarantee_at(epsilon_setting: float) -> Guarantee:
        """Return the guarantee of all publications at an epsilon setting."""
        return create_at(epsilon_setting).guarantee(public).repeat(times)

    if times == 1 and not registry.has_setting(type(mechanism), "delta"):
        target = Budget(budget.epsilon, 0.0)
    else:
        target = budget
    calibrated = calibrate(guarantee_at, target, change)
    # A calibrated value that has five digits up to rounding stays.
    unit = 10.0 ** (math.floor(math.log10(calibrated)) - 4)
    return create_at(float(f"{math.floor(calibrated / unit * (1 + 1e-12)) * unit:.5g}"))


def run_at_guarantee(
    id: str, data: Dataset, epsilon: float, change: Change = USER_EMPTIED, seed: int = 0
) -> Result:
    """Run a mechanism at the largest setting with a certified epsilon, to compare at equal terms.

    >>> import dpmc_core as dpmc
    >>> result = run_at_guarantee("randomised-response", dpmc.load("restaurants"), 2.0)
    >>> str(result.guarantee.certified(USER_EMPTIED))
    'epsilon 2 per user at delta 0'

    Args:
        id: of the mechanism.
        data: the data set.
        epsilon: the epsilon that is certified, at the mechanism's delta (0 where it has none).
        change: how neighbouring data sets differ: what is protected.
        seed: decides the split and the noise.

    Raises:
        InvalidSetting: no setting of the mechanism certifies that; the message says why.
    """
    mechanism = registry.create(id, epsilon=epsilon)
    problem = build_problem(data, mechanism.task, seed=seed)
    budget = Budget(epsilon, getattr(mechanism, "delta", 0.0))
    return run(calibrate_mechanism(mechanism, problem.train.public, budget, change), problem, seed)


def find_recommended_id(
    task: Task,
    change: Change,
    public: PublicFacts,
    epsilon: float,
    trust: Trust,
    personal: bool = False,
) -> str | None:
    """Return the id of the recommended mechanism; None where no mechanism certifies the request.

    Unlike `recommend_method`, it calibrates nothing.

    Args:
        task: what is predicted.
        change: how neighbouring data sets differ.
        public: public facts of the prepared ratings.
        epsilon: the requested epsilon.
        trust: whom users trust.
        personal: see `recommend_method`.
    """
    try:
        return _choose_method(task, PrivacyRequest(change, epsilon, trust, public), personal)[0]
    except InvalidSetting:
        return None


def _choose_method(task: Task, request: PrivacyRequest, personal: bool) -> tuple[str, str]:
    """Return the id of the recommended mechanism, and the reason in a sentence.

    It is the last registered mechanism of the task that has a reason for this request, or its
    baseline where it would lose to that and need not be personal.

    Raises:
        InvalidSetting: no mechanism has one.
    """
    public, change = request.public, request.change
    signal = request.epsilon * public.users / math.sqrt(public.items)
    loses = signal < _MIN_EFFECTS_SIGNAL and not public.features and not personal
    for id in reversed(registry.list_private_mechanisms(task)):
        reason = registry.get_mechanism(id).recommendation_reason(request)
        if reason and id == PrivateEffects.id and loses:
            return PrivateEffects.baseline, "too few users for sums over them to beat own averages"
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


def recommend_for_unit(
    privacy_unit: PrivacyUnit,
    tasks: Sequence[Task],
    public_facts_for: Callable[[Task], PublicFacts],
) -> str | None:
    """Return the id of the mechanism recommended for a privacy unit, for the first task with one.

    It is chosen at epsilon 1, so that it stays the same while epsilon changes.

    Args:
        privacy_unit: what is protected.
        tasks: the tasks, in order of preference.
        public_facts_for: returns the public facts of the ratings prepared for a task.
    """
    for task in tasks:
        with suppress(DpmcError):  # ratings that cannot be prepared for it
            id = find_recommended_id(
                task,
                privacy_unit.change(task),
                public_facts_for(task),
                1.0,
                privacy_unit.trust,
                personal=True,
            )
            if id is not None:
                return id
    return None
