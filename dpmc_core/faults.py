"""Faults planted in a copy of a mechanism, to see whether an audit notices.

The copy shows the honest card and draws other noise, or clips nothing. It is of a class of its own
that no id names, and `release.export` refuses it.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import CannotRelease, InvalidSetting
from dpmc_core.model import Mechanism
from dpmc_core.privacy import (
    Additive,
    Guarantee,
    ModifiedLaplace,
    NormLaplace,
    RandomizedResponse,
    Release,
    SymbolChannel,
)
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import settings_of

Floats = NDArray[np.float64]

# Settings that bound what one user adds to a query, in a release whose sensitivity they set.
_CLIPS = (
    *("bound", "clamp", "clip", "clip_l2", "contributions", "factor_clip"),
    *("residual", "residual_clip"),
)


class Fault(enum.Enum):
    """What is wrong with the copy. words: the same for people."""

    HALVED = "halved"
    SHARED = "shared"
    UNCLIPPED = "unclipped"

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    Fault.HALVED: "half the noise",
    Fault.SHARED: "one draw of noise for every number of an answer",
    Fault.UNCLIPPED: "nothing is clipped",
}


def faults_of(mechanism: Mechanism, public: PublicFacts) -> tuple[Fault, ...]:
    """The faults that can be planted in a mechanism on these public facts."""
    raise NotImplementedError


def plant(mechanism: Mechanism, fault: Fault, public: PublicFacts) -> Mechanism:
    """A copy with the fault. Raises InvalidSetting where it does not apply."""
    raise NotImplementedError


def planted(mechanism: Mechanism) -> Fault | None:
    """Which fault a mechanism carries; None for an honest one."""
    raise NotImplementedError
