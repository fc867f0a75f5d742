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

from dpmc_core.mechanisms.per_user import (
    CappedPerUser,
    EffectsReleases,
    effects_releases,
    most_rated_only,
    own_model,
    published_effects,
    regression_side,
    user_gaussian,
)
from dpmc_core.model import Estimator, OwnSide, Step
from dpmc_core.privacy import Gaussian, Guarantee, Loss, Publishes, Releases
from dpmc_core.ratings import PublicFacts, Ratings, kept_at_random
from dpmc_core.settings import AsPublished, setting
from dpmc_core.solvers.cleansing import Answer, Answers, Cleansing, Predictor
from dpmc_core.solvers.item_effects import taste_of_gram
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.rows import cap_key, capped
from dpmc_core.solvers.sizes import check_gram, check_rank, gram_items
from dpmc_core.style import RED, Style

_EFFECTS_SHARE = 0.5  # of the budget, with the noise-aware estimator


@dataclass(frozen=True)
class CleansingMeans(Releases):
    """As the paper takes its means."""

    total: Gaussian
    count: Gaussian
    item_sums: Gaussian
    item_counts: Gaussian


@dataclass(frozen=True)
class CleansingStatistics(Releases):
    means: CleansingMeans | EffectsReleases
    products: Gaussian
    weights: Gaussian


@dataclass(frozen=True, kw_only=True)
class SvdAfterCleansing(CappedPerUser, Cleansing):
    """Noisy global and item means, a noisy shrunken covariance of the items, local prediction.

    With at most k ratings a user, each rating within half the range R of its middle and each
    residual within B: the total moves by k R/2, the count by k, the item sums by sqrt(k) R/2, the
    item counts by sqrt(k), and, users weighted by 1/||e_u||_2, the products by sqrt(k) B^2 and the
    weights by sqrt(k) where a row becomes empty. The noise-aware estimator starts from private item
    effects instead, and keeps what stands out of the noise of the products.
    """

    id: ClassVar[str] = "svd-after-cleansing"
    name: ClassVar[str] = "SVD after cleansing"
    short: ClassVar[str] = "Cleansed SVD"
    style: ClassVar[Style] = Style(RED, "triangle-up", "8px,3px")
    twin: ClassVar[str] = "cleansed-svd"
    revision: ClassVar[int] = 2
    published: ClassVar[AsPublished] = AsPublished(
        {"estimator": Estimator.PUBLISHED},
        "JTT18 tunes the shrinking parameters, from 5 to 25: they stay what they are; the noise is"
        " accounted for each user by the exact curve, where the method's own paper counts ratings",
    )
    estimator: Estimator = setting(
        Estimator.NOISE_AWARE,
        "item effects and what stands out of the noise, or as published (neighbours: always)",
    )

    @property
    def aware(self) -> bool:
        """Whether the estimator is the noise-aware one; neighbours vote as published only."""
        return self.estimator is Estimator.NOISE_AWARE and self.predictor is Predictor.SVD

    def guarantee(self, public: PublicFacts) -> Guarantee[CleansingStatistics]:
        check_rank(self.rank, public)
        if not self.aware:
            check_gram(public.items, "estimator noise-aware works on the most rated of them")
        n = gram_items(public)
        bound, root = self.clamp * public.width, math.sqrt(self.most(public))
        budget = self.budget()
        if self.aware:
            first, rest = budget.split(_EFFECTS_SHARE, 1 - _EFFECTS_SHARE)
            means: CleansingMeans | EffectsReleases = effects_releases(public, first)
            products, weights = rest.split(0.95, 0.05)
        else:
            # The overall mean and the item means are easy, the covariance is what costs.
            means = self._means(public, budget)
            products, weights = budget * 0.7, budget * 0.2
        releases = CleansingStatistics(
            means=means,
            products=user_gaussian(
                *("weighted products of residuals of each two items", (n, n), products),
                *(root * bound**2, math.sqrt(2) * root * bound**2),
            ),
            weights=user_gaussian(
                *("weighted number of users who rated each two items", (n, n), weights),
                *(root, math.sqrt(2) * root),
            ),
        )
        return self.card(
            public,
            releases,
            "exact Gaussian curve for McSherry and Mironov (2009), whose own card is per rating",
            caveats=most_rated_only(public),
            publishes=Publishes.ITEM_COVARIANCE,
        )

    def _means(self, public: PublicFacts, budget: Loss) -> CleansingMeans:
        n, most, half = public.items, self.most(public), public.half_width
        root, both = math.sqrt(most), math.sqrt(min(2 * most, n))
        return CleansingMeans(
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
        )

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        if self.aware:
            return regression_side(columns, range(min(self.rank, gram_items(public)) + 1))
        return super().own_side(public, columns)

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        releases = self.guarantee(ratings.public).releases
        if isinstance(releases.means, EffectsReleases):
            yield self._aware(releases, releases.means, ratings, rng)
        else:
            yield self._as_published(releases, releases.means, ratings, rng)

    def _aware(
        self,
        releases: CleansingStatistics,
        first: EffectsReleases,
        ratings: Ratings,
        rng: np.random.Generator,
    ) -> Step:
        public = ratings.public
        items = published_effects(first, ratings, rng)
        raw = ratings.values - own_model(ratings, items).predict(ratings.users, ratings.items)
        kept = kept_at_random(ratings, self.most(public), cap_key(rng))
        cells, bound = Pattern.of(ratings.select(kept)), self.clamp * public.width
        residuals = np.clip(raw[kept], -bound, bound)
        columns = items.most_rated(gram_items(public))
        if columns is not None:
            cells, inside = cells.on(columns)
            residuals = residuals[inside]
        exact, weights = self.products(cells, residuals)
        noisy = releases.products.publish(exact, rng)
        pairs = releases.weights.publish(weights, rng)
        off = float(pairs.sum() - np.trace(pairs))
        edge = math.sqrt(2 * len(noisy)) * releases.products.scale
        taste = taste_of_gram(items, 0.5 * (noisy + noisy.T), edge, self.rank, off, columns)
        trace = {"residuals clamped": float((np.abs(raw[kept]) > bound).sum())}
        return Step(1, 1, own_model(ratings, items, taste), trace, frozenset(trace), True)

    def _as_published(
        self,
        releases: CleansingStatistics,
        first: CleansingMeans,
        ratings: Ratings,
        rng: np.random.Generator,
    ) -> Step:
        public = ratings.public
        kept = capped(ratings, self.most(public), rng)

        def noisy(release: Gaussian) -> Answer:
            return lambda statistic: release.publish(statistic, rng)

        answers = Answers(
            total=noisy(first.total),
            count=noisy(first.count),
            item_sums=noisy(first.item_sums),
            item_counts=noisy(first.item_counts),
            products=noisy(releases.products),
            weights=noisy(releases.weights),
        )
        model, clamped = self.complete(Pattern.of(kept), kept.values, public, answers)
        trace = {"residuals clamped": float(clamped)}
        return Step(1, 1, model, trace, frozenset(trace), True)
