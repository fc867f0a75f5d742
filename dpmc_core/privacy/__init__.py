"""What leaves a mechanism, and what that proves: releases, their noise, and the card they certify.

A guarantee lists its releases. Private values leave a mechanism only through
`release.publish(value, rng)`, and the certified epsilon is computed from the same records, so the
claim on the card and the noise in the code cannot drift apart.
"""

from __future__ import annotations

from dpmc_core.privacy.accounting import Loss
from dpmc_core.privacy.changes import (
    CELL,
    RATING,
    ROW_VALUES,
    USER_EMPTIED,
    USER_REPLACED,
    Change,
    Sensitivity,
    read_only,
    sensitivity_at,
)
from dpmc_core.privacy.channels import (
    LocalChannel,
    ModifiedLaplace,
    RandomizedResponse,
    SymbolChannel,
)
from dpmc_core.privacy.guarantee import (
    Budget,
    Calibration,
    Certified,
    Guarantee,
    Notion,
    Publishes,
    Trust,
    Unaccounted,
    calibrate,
)
from dpmc_core.privacy.releases import (
    Additive,
    Gaussian,
    Laplace,
    NormLaplace,
    Publication,
    Release,
    Releases,
    ledger,
    witness,
)
from dpmc_core.privacy.shares import SharedLaplace, Shares

__all__ = [
    "CELL",
    "RATING",
    "ROW_VALUES",
    "USER_EMPTIED",
    "USER_REPLACED",
    "Additive",
    "Budget",
    "Calibration",
    "Certified",
    "Change",
    "Gaussian",
    "Guarantee",
    "Laplace",
    "LocalChannel",
    "Loss",
    "ModifiedLaplace",
    "NormLaplace",
    "Notion",
    "Publication",
    "Publishes",
    "RandomizedResponse",
    "Release",
    "Releases",
    "Sensitivity",
    "SharedLaplace",
    "Shares",
    "SymbolChannel",
    "Trust",
    "Unaccounted",
    "calibrate",
    "ledger",
    "read_only",
    "sensitivity_at",
    "witness",
]
