"""What leaves a mechanism and what that proves: releases, their noise, and their guarantee.

A guarantee lists its releases. Private values leave a mechanism only through
`release.publish(value, rng)`, and the certified epsilon is computed from the same records, so the
claim of the guarantee and the noise in the code cannot drift apart.

A Laplace release, and the epsilon it certifies. One rating of 1..5 moves the sum by at most 4:

>>> from dpmc_core.privacy import *
>>> total = Laplace(query="sum of all ratings", shape=(), sensitivity={RATING: 4}, scale=8)
>>> total.loss(4).epsilon
0.5

A Gaussian budget, split over two releases, and the exact epsilon to which they compose:

>>> from dpmc_core.privacy.accounting import gaussian_mu
>>> sums, counts = Loss(mu=gaussian_mu(epsilon=1.0, delta=1e-6)).split(0.6, 0.4)
>>> item_sums = Gaussian(
...     query="sums", shape=(1682,), sensitivity={USER_EMPTIED: 30}, scale=30 / sums.mu
... )
>>> item_counts = Gaussian(
...     query="counts", shape=(1682,), sensitivity={USER_EMPTIED: 9}, scale=9 / counts.mu
... )
>>> spent = item_sums.loss(30) + item_counts.loss(9)
>>> print(f"{spent.epsilon_at(1e-6):.6f}")
1.000000

What the epsilon of one cell means for a whole user, of whom at most 20 ratings are used:

>>> from dpmc_core.ratings import PublicFacts
>>> public = PublicFacts(users=943, items=1682, low=0, high=1, cap=20)
>>> bits = RandomizedResponse(
...     query="every bit", shape=public.shape, sensitivity={CELL: 1},
...     channel=((0.75, 0.25), (0.25, 0.75)),
... )
>>> for change in (CELL, USER_EMPTIED, USER_REPLACED):
...     changed = sensitivity_at(bits.sensitivity, change, public)
...     print(f"{change.label}, {change.relation}: {bits.loss(changed).epsilon:.1f}")
per user-item cell, it changes, comes or goes: 1.1
per user, row becomes empty: 22.0
per user, row becomes any other: 43.9
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
    sensitivity_at,
)
from dpmc_core.privacy.channels import (
    LocalChannel,
    ModifiedLaplace,
    RandomizedResponse,
    SymbolChannel,
)
from dpmc_core.privacy.exact_noise import Harmless, harmless
from dpmc_core.privacy.guarantee import (
    DEFAULT_DELTA,
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
    record_publications,
)
from dpmc_core.privacy.sampled import SampledLaplace, Sums
from dpmc_core.privacy.shares import SharedLaplace, Shares

__all__ = [
    "CELL",
    "DEFAULT_DELTA",
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
    "Harmless",
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
    "SampledLaplace",
    "SharedLaplace",
    "Shares",
    "Sums",
    "SymbolChannel",
    "Trust",
    "Unaccounted",
    "calibrate",
    "harmless",
    "record_publications",
    "sensitivity_at",
]
