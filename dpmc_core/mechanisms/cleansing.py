"""SVD after cleansing under per-user privacy, JTT18's strongest baseline.

McSherry, Mironov, "Differentially Private Recommender Systems: Building Privacy into the Netflix
Prize Contenders" (2009), with every release accounted per user.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpmc_core.mechanisms.per_user import PerUser, check_rank, split
from dpmc_core.model import Step
from dpmc_core.privacy import USER_EMPTIED, USER_REPLACED, Gaussian, Guarantee, Publishes
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.cleansing import Cleansing
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.rows import capped, check_gram

# Shares of mu^2: the overall mean and the item means are easy, the covariance is what costs.
_SHARES = {
    "total": 0.01,
    "count": 0.01,
    "item sums": 0.05,
    "item counts": 0.03,
    "products": 0.7,
    "weights": 0.2,
}
_QUERIES = {
    "total": "sum of all ratings less the middle of the range",
    "count": "number of ratings",
    "item sums": "sum of the ratings of each item less the middle of the range",
    "item counts": "number of ratings of each item",
    "products": "weighted products of residuals of each two items",
    "weights": "weighted number of users who rated each two items",
}


@dataclass(frozen=True, kw_only=True)
class SvdAfterCleansing(PerUser, Cleansing):
    """Noisy global and item means, a noisy shrunken covariance of the items, local prediction.

    With at most k ratings a user, each rating within half the range R of its middle and each
    residual within B: the total moves by k R/2, the count by k, the item sums by sqrt(k) R/2, the
    item counts by sqrt(k), and, users weighted by 1/||e_u||_2, the products by sqrt(k) B^2 and the
    weights by sqrt(k) where a row becomes empty.
    """

    id: ClassVar[str] = "svd-after-cleansing"
    name: ClassVar[str] = "SVD after cleansing"
    twin: ClassVar[str] = "cleansed-svd"
    revision: ClassVar[int] = 1

    def guarantee(self, public: PublicFacts) -> Guarantee:
        check_rank(self.rank, public)
        check_gram(public.items)
        n, most = public.items, self.most(public)
        half, bound = 0.5 * public.width, self.clamp * public.width
        root, both = math.sqrt(most), math.sqrt(min(2 * most, n))
        moves = {  # where the row becomes empty, and where it becomes another
            "total": (most * half, 2 * most * half),
            "count": (float(most), float(most)),
            "item sums": (root * half, 2 * root * half),
            "item counts": (root, both),
            "products": (root * bound**2, math.sqrt(2) * root * bound**2),
            "weights": (root, math.sqrt(2) * root),
        }
        shapes: dict[str, tuple[int, ...]] = {
            "total": (), "count": (), "item sums": (n,), "item counts": (n,),
            "products": (n, n), "weights": (n, n),
        }  # fmt: skip
        mus = split(self.budget(), {name: math.sqrt(s) for name, s in _SHARES.items()})
        releases = {
            name: Gaussian(
                query=_QUERIES[name],
                shape=shapes[name],
                sensitivity={USER_EMPTIED: empty, USER_REPLACED: other},
                scale=empty / mus[name],
            )
            for name, (empty, other) in moves.items()
        }
        return self.card(
            public,
            releases,
            "exact Gaussian curve for McSherry and Mironov (2009), whose own card is per rating",
            publishes=Publishes.ITEM_COVARIANCE,
        )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        public = ratings.public
        releases = self.guarantee(public).releases
        kept = capped(ratings, self.most(public), rng)
        model, clamped = self.complete(
            Pattern.of(kept), kept.values, public, lambda name, x: releases[name].publish(x, rng)
        )
        yield Step(
            index=1,
            total=1,
            model=model,
            trace={"residuals clamped": float(clamped)},
            raw=frozenset({"residuals clamped"}),
            final=True,
        )
