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

from dpmc_core.mechanisms.per_user import CappedPerUser, user_gaussian
from dpmc_core.model import Step
from dpmc_core.privacy import Gaussian, Guarantee, Publishes, Releases
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.cleansing import Answer, Answers, Cleansing
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.rows import capped
from dpmc_core.solvers.sizes import check_gram, check_rank


@dataclass(frozen=True)
class CleansingStatistics(Releases):
    total: Gaussian
    count: Gaussian
    item_sums: Gaussian
    item_counts: Gaussian
    products: Gaussian
    weights: Gaussian


@dataclass(frozen=True, kw_only=True)
class SvdAfterCleansing(CappedPerUser, Cleansing):
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

    def guarantee(self, public: PublicFacts) -> Guarantee[CleansingStatistics]:
        check_rank(self.rank, public)
        check_gram(public.items)
        n, most = public.items, self.most(public)
        half, bound = public.half_width, self.clamp * public.width
        root, both = math.sqrt(most), math.sqrt(min(2 * most, n))
        budget = self.budget()
        # The overall mean and the item means are easy, the covariance is what costs.
        releases = CleansingStatistics(
            total=user_gaussian(
                *("sum of all ratings less the middle of the range", (), budget * 0.01),
                *(most * half, 2 * most * half),
            ),
            count=user_gaussian("number of ratings", (), budget * 0.01, most, most),
            item_sums=user_gaussian(
                "sum of the ratings of each item less the middle of the range",
                *((n,), budget * 0.05, root * half, 2 * root * half),
            ),
            item_counts=user_gaussian(
                "number of ratings of each item", (n,), budget * 0.03, root, both
            ),
            products=user_gaussian(
                *("weighted products of residuals of each two items", (n, n), budget * 0.7),
                *(root * bound**2, math.sqrt(2) * root * bound**2),
            ),
            weights=user_gaussian(
                *("weighted number of users who rated each two items", (n, n), budget * 0.2),
                *(root, math.sqrt(2) * root),
            ),
        )
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

        def noisy(release: Gaussian) -> Answer:
            return lambda statistic: release.publish(statistic, rng)

        answers = Answers(
            total=noisy(releases.total),
            count=noisy(releases.count),
            item_sums=noisy(releases.item_sums),
            item_counts=noisy(releases.item_counts),
            products=noisy(releases.products),
            weights=noisy(releases.weights),
        )
        model, clamped = self.complete(Pattern.of(kept), kept.values, public, answers)
        trace = {"residuals clamped": float(clamped)}
        yield Step(1, 1, model, trace, frozenset(trace), True)
