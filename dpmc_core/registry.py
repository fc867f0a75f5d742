"""Every method by its command-line id: baselines and mechanisms alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dpmc_core.errors import InvalidSetting, check_number, unknown_name
from dpmc_core.mechanisms.cleansing import SvdAfterCleansing
from dpmc_core.mechanisms.collection import LaplaceCollection, ResponseCollection
from dpmc_core.mechanisms.dpals import Dpals
from dpmc_core.mechanisms.dpimf import Complementary, Optimal, Sampled, Strawman, Symmetric
from dpmc_core.mechanisms.factorization import DPMF
from dpmc_core.mechanisms.frank_wolfe import (
    PrivateFrankWolfe,
    PrivateFrankWolfeOja,
    PrivatePgd,
    PrivateSvd,
)
from dpmc_core.mechanisms.local_ranking import Dplcf, Ldpicf
from dpmc_core.mechanisms.one_bit import Gradient, InputFlip, Objective, ObjectiveStatistic, Output
from dpmc_core.mechanisms.per_user import PrivateItemMean
from dpmc_core.mechanisms.plain import (
    PMF,
    Als,
    CleansedSvd,
    Clear,
    FrankWolfe,
    GlobalMean,
    Ials,
    ItemMean,
    ItemNeighbours,
    Majority,
    Pgd,
    Popularity,
    SoftImpute,
    Svd,
    UserMean,
)
from dpmc_core.mechanisms.user_ranking import DpimfUser, PrivatePopularity
from dpmc_core.model import Mechanism, Task
from dpmc_core.settings import settings_of, show_setting

# To add a method, import its class and name it here: the command line, the app, the contract
# test and the table of guarantees read this mapping.
MECHANISMS: Mapping[str, type[Mechanism]] = MappingProxyType(
    {
        cls.id: cls
        for cls in (
            InputFlip,
            Objective,
            ObjectiveStatistic,
            Gradient,
            Output,
            LaplaceCollection,
            ResponseCollection,
            DPMF,
            Clear,
            Majority,
            GlobalMean,
            PrivateFrankWolfe,
            PrivateFrankWolfeOja,
            PrivateSvd,
            PrivatePgd,
            SvdAfterCleansing,
            Dpals,
            PrivateItemMean,
            FrankWolfe,
            Als,
            Pgd,
            Svd,
            CleansedSvd,
            ItemMean,
            UserMean,
            SoftImpute,
            PMF,
            Strawman,
            Complementary,
            Symmetric,
            Optimal,
            Sampled,
            DpimfUser,
            Dplcf,
            Ldpicf,
            PrivatePopularity,
            Ials,
            ItemNeighbours,
            Popularity,
        )
    }
)


def get(id: str) -> type[Mechanism]:
    """The class of a method. Raises InvalidSetting with the nearest names."""
    if id not in MECHANISMS:
        raise unknown_name("mechanism", id, MECHANISMS, listed="dpmc list")
    return MECHANISMS[id]


def has_setting(mechanism: type[Mechanism], name: str) -> bool:
    """Whether the class declares a setting of that name; without `epsilon` it adds no noise."""
    return any(s.name == name for s in settings_of(mechanism))


def noisy(task: Task) -> tuple[str, ...]:
    """Ids of the mechanisms with an epsilon for a task, in the order above."""
    return tuple(
        id for id, cls in MECHANISMS.items() if cls.task is task and has_setting(cls, "epsilon")
    )


def offered(*, clicks: bool = False) -> tuple[str, ...]:
    """Ids of the mechanisms that make sense for ratings, or for clicks.

    Clicks (all of value 1) can only be ranked; ratings can be ranked too, as interactions.
    """
    ranking = noisy(Task.RANKING)
    return ranking if clicks else noisy(Task.BINARY) + noisy(Task.RATINGS) + ranking


def create(
    id: str, *, epsilon: float | None = None, delta: float | None = None, **settings: Any
) -> Mechanism:
    """An instance; epsilon and delta are checked always and reach only the classes that have them.

    Raises InvalidSetting for an unknown id or setting, a required one left out, or a bad value.
    """
    cls = get(id)
    if epsilon is not None:
        check_number("epsilon", epsilon, above=0)
    if delta is not None:
        check_number("delta", delta, at_least=0, below=1)
    declared = {s.name: s for s in settings_of(cls)}
    values = dict(settings)
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if value is not None and name in declared:
            values[name] = value
    for name in values:
        if name not in declared:
            raise unknown_name(f"setting of {id}", name, declared)
    for name, s in declared.items():
        if s.default is dataclasses.MISSING and name not in values:
            raise InvalidSetting(name, f"given: {s.info.help}" if s.info.help else "given", None)
    return cls(**values)


def changed_settings(id: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of settings as plain JSON values, those that are not the method's defaults.

    Of a method unknown here: all of them.
    """
    declared = settings_of(MECHANISMS[id]) if id in MECHANISMS else ()
    defaults = {s.name: show_setting(s.default) for s in declared}
    return {
        name: value
        for name, value in settings.items()
        if name not in defaults or defaults[name] != value
    }
