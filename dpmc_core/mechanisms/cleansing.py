"""SVD after cleansing under per-user privacy, JTT18's strongest baseline, and without privacy.

McSherry, Mironov, "Differentially Private Recommender Systems: Building Privacy into the Netflix
Prize Contenders" (2009): item means, shrunken covariance, local prediction; here with every release
accounted per user.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpmc_core.arrays import Floats, Rng
from dpmc_core.mechanisms.per_user import (
    EffectsFirst,
    EffectsReleases,
    PerUser,
    effects_releases,
    enforced_cap,
    most_rated_only,
    own_model,
    published_effects,
    regression_side,
    user_gaussian,
)
from dpmc_core.mechanisms.plain import Plain, on_most_rated
from dpmc_core.model import ArrayPart, Estimator, Model, OwnSide, Step, Steps
from dpmc_core.privacy import Gaussian, Guarantee, Publishes, Releases
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import AsPublished, mechanism, same_setting, setting
from dpmc_core.solvers.effects import taste_of_gram
from dpmc_core.solvers.linalg import Pattern, leading_eigenpairs
from dpmc_core.solvers.ranking import ItemScores
from dpmc_core.solvers.rows import (
    Rows,
    cap_key,
    capped,
    gram,
    gram_products,
    item_sums,
    ridge_rows,
    row_sums,
    with_offsets,
    within,
)
from dpmc_core.solvers.sizes import check_gram, check_rank, gram_items
from dpmc_core.stopping import check_cancelled
from dpmc_core.style import RED, Style

_EFFECTS_SHARE = 0.5  # of the budget, with the noise-aware estimator
_EIGEN_TOLERANCE = 1e-6  # of the pairs that stay
_LEAST_WEIGHT = 0.01  # noise may leave the weights of two items at nothing or below
_LEAST_VARIANCE = 0.01  # of the average, likewise
_LEAST_RIDGE = 1e-10  # of the largest eigenvalue kept, so that no user's equations are singular


class Predictor(enum.Enum):
    """How a user's own predictions follow from the covariance of the items."""

    SVD = "svd"  # coordinates on its leading eigenvectors
    NEIGHBOURS = "neighbours"  # own ratings of the most correlated items


@mechanism
class Cleansing:
    """The method's public settings and its steps."""

    rank: int = setting(3, "eigenvectors kept of the covariance", at_least=1, at_most=1_000)
    item_prior: float = setting(
        10.0, "fictitious average ratings of each item (beta_m)", above=0, at_most=1e4
    )
    user_prior: float = setting(
        5.0, "fictitious average ratings of each user (beta_p)", above=0, at_most=1e4
    )
    shrink: float = setting(
        10.0, "average entries added to each covariance (beta)", at_least=0, at_most=1e4
    )
    clamp: float = setting(
        0.25, "largest |residual| B, in widths of the rating range", above=0, at_most=1
    )
    predictor: Predictor = setting(Predictor.SVD, "local prediction from the covariance")
    neighbours: int = setting(20, "most similar items that vote", at_least=1, at_most=10_000)

    def cleanse(
        self,
        ratings: Ratings,
        ask: Callable[[str, Floats], Floats] = lambda _, statistic: statistic,
    ) -> Step:
        """The model, and how many residuals were clamped.

        Ratings reach anything but their user's own row only through ask(name, statistic), which
        answers with noise or without.
        """
        public, cells = ratings.public, Pattern.of(ratings)
        half, about = public.half_width, ratings.values - public.middle
        total = float(ask("total", np.asarray(about.sum())))
        count = max(float(ask("count", np.asarray(float(len(about))))), 1.0)
        overall = float(np.clip(total / count, -half, half))
        sums = ask("item_sums", item_sums(cells, about))
        counts = np.maximum(ask("item_counts", item_sums(cells)), 0.0)
        means = (sums + self.item_prior * overall) / (counts + self.item_prior)
        means = np.clip(means, -half, half)

        raw = about - means[cells.items]
        offsets = row_sums(cells, raw) / (np.diff(cells.indptr) + self.user_prior)
        bound = self.clamp * public.width
        residuals = np.clip(raw - offsets[cells.users], -bound, bound)
        trace = {"residuals clamped": float((residuals != raw - offsets[cells.users]).sum())}

        # A user counts as 1/||e_u||_2 = 1/sqrt(ratings): the fourth root goes into either factor.
        root = cells.along(np.maximum(cells.counts, 1) ** -0.25)
        products = ask("products", gram(cells.by_user(residuals * root)))
        weights = ask("weights", gram(cells.by_user(root)))
        matrix = shrunken_covariance(products, weights, self.shrink)
        user = offsets + public.middle
        if self.predictor is Predictor.NEIGHBOURS:
            nearest = min(self.neighbours, public.items)
            model: Model = Neighbours.of(cells, residuals, user, means, matrix, nearest)
            return Step.of(1, 1, model, trace)
        factors, noise = leading_factors(matrix, self.rank)
        (left,) = ridge_rows(cells, residuals, factors, noise)
        found = with_offsets(left, factors, user, means)
        return Step.of(1, 1, replace(found, own={"noise": np.asarray(noise)}), trace)


def shrunken_covariance(products: Floats, weights: Floats, shrink: float) -> Floats:
    """Entrywise covariance from weighted products and weights (n x n), shrunk towards its mean.

    `shrink` average products and weights are added to every entry; the average is over entries.
    """
    check_cancelled()
    average, weight = float(products.mean()), max(float(weights.mean()), _LEAST_WEIGHT)
    total = np.maximum(weights, 0.0) + shrink * weight
    check_cancelled()
    found = (products + shrink * average) / np.maximum(total, _LEAST_WEIGHT)
    check_cancelled()
    return 0.5 * (found + found.T)


def leading_factors(matrix: Floats, rank: int) -> tuple[Floats, float]:
    """n x rank factors F of the best positive semidefinite approximation F F', and the variance
    of a rating that they leave (at least a hundredth of the average).

    Noise may leave a trace at or below zero beside large eigenvalues. The variance is therefore at
    least 1e-10 of the largest one, which bounds F_S' F_S for any items S: a user's ridge system has
    a condition number of 1e10 at most and is close to its limit, the pseudo-inverse of F_S.
    """
    values, vectors = leading_eigenpairs(matrix.__matmul__, len(matrix), rank)
    kept = np.maximum(values, 0.0)
    average = max(float(np.trace(matrix)) / len(matrix), 1e-12)
    left = average - float(kept.sum()) / len(matrix)
    factors: Floats = vectors * np.sqrt(kept)
    return factors, max(left, 0.01 * average, _LEAST_RIDGE * float(kept.max()))


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Predictions from a user's own ratings of similar items.

    user + item offset + sum s_jk r_uk / (1 + sum s_jk) over the rated items k among the most
    similar ones to j: one rating's worth of doubt, as few or dissimilar neighbours say little.
    """

    user: Floats
    item: Floats
    votes: ItemScores
    voters: ItemScores
    factors: ClassVar[None] = None

    @classmethod
    def of(
        cls,
        cells: Pattern,
        residuals: Floats,
        user: Floats,
        item: Floats,
        matrix: Floats,
        count: int,
    ) -> Neighbours:
        """Of a covariance matrix: correlations, of each item the `count` largest."""
        from scipy.sparse import csr_array

        variance = np.diag(matrix)
        least = max(_LEAST_VARIANCE * float(np.abs(variance).mean()), 1e-12)
        spread = np.sqrt(np.maximum(variance, least))
        similarity = np.clip(matrix / spread[:, None] / spread, 0.0, 1.0)
        np.fill_diagonal(similarity, 0.0)
        if count < len(similarity):
            cut = np.partition(similarity, -count, axis=1)[:, -count]
            similarity = np.where(similarity >= cut[:, None], similarity, 0.0)
        weights = csr_array(similarity.T)
        rows = (cells.by_user(values) for values in (residuals, np.ones_like(residuals)))
        return cls(user, item, *(ItemScores(row, weights) for row in rows))

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        u, j = np.broadcast_arrays(np.asarray(users), np.asarray(items))
        heard = self.votes.predict(u, j) / (self.voters.predict(u, j) + 1.0)
        found: Floats = self.user[u] + self.item[j] + heard
        return found


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
    weights: Gaussian  # with the noise-aware estimator their sum


@mechanism
class SvdAfterCleansing(PerUser, Cleansing):
    """Noisy global and item means, a noisy shrunken covariance of the items, local prediction.

    With at most k ratings a user, each rating within half the range R of its middle and each
    residual within B: the total moves by k R/2, the count by k, the item sums by sqrt(k) R/2, the
    item counts by sqrt(k), and, users weighted by 1/||e_u||_2, the products by sqrt(k) B^2 and the
    weights by sqrt(k) where a row becomes empty. The noise-aware estimator starts from private item
    effects instead, and keeps what stands out of the noise of the products of two different items,
    which move by sqrt(k - 1) B^2; of the weights it takes the sum, moved by sqrt(k) (k - 1).
    """

    id = "svd-after-cleansing"
    place = 1
    name = "SVD after cleansing"
    short = "Cleansed SVD"
    style = Style(RED, "triangle-up", "8px,3px")
    twin = "cleansed-svd"
    revision = 3
    publishes = Publishes.ITEM_COVARIANCE
    published = AsPublished(
        {"estimator": Estimator.PUBLISHED},
        "JTT18 tunes the shrinking parameters, from 5 to 25: they stay what they are; the noise is"
        " accounted for each user by the exact curve, where the method's own paper counts ratings",
    )
    cap: int | None = same_setting(EffectsFirst, "cap")
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
        bound, root = self.clamp * public.width, math.sqrt(enforced_cap(self.cap, public))
        budget = self.budget()
        if self.aware:
            first, rest = budget.split(_EFFECTS_SHARE, 1 - _EFFECTS_SHARE)
            means: CleansingMeans | EffectsReleases = effects_releases(public, first)
            products, weights = rest.split(0.99, 0.01)
            emptied = math.sqrt(max(root**2 - 1, 1))
            most = root * emptied**2
            pairs = user_gaussian(
                *("weighted number of pairs of ratings of one user", (), weights, most, most)
            )
        else:
            # The overall mean and the item means are easy, the covariance is what costs.
            most, half = enforced_cap(self.cap, public), public.half_width
            means = CleansingMeans(
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
                    "number of ratings of each item",
                    *((n,), budget * 0.03, root, math.sqrt(min(2 * most, n))),
                ),
            )
            emptied, products = root, budget * 0.7
            pairs = user_gaussian(
                *("weighted number of users who rated each two items", (n, n), budget * 0.2),
                *(root, math.sqrt(2) * root),
            )
        releases = CleansingStatistics(
            means=means,
            products=user_gaussian(
                *("weighted products of residuals of each two items", (n, n), products),
                *(emptied * bound**2, math.sqrt(2) * root * bound**2),
            ),
            weights=pairs,
        )
        return self.card(
            public,
            releases,
            "exact Gaussian curve for McSherry and Mironov (2009), whose own card is per rating",
            *most_rated_only(public),
        )

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        """How a user finds the own predictions; neighbours have no factors for it."""
        if self.aware:
            return regression_side(public, columns, range(min(self.rank, gram_items(public)) + 1))
        bound = self.clamp * public.width
        return OwnSide(
            f"items is [V, 1, e], V its first {columns - 2} columns and e the last. S are the"
            " items that the user rated, where there are more than the cap as many of them, chosen"
            f" at random; b = sum of (x_S - {public.middle!r} - e_S) / (number of S +"
            f" {self.user_prior!r}), y = x_S - {public.middle!r} - e_S - b cut to +-{bound!r},"
            f" u = (V_S' V_S + noise I)^-1 V_S' y; the prediction for item j is"
            f" {public.middle!r} + b + e_j + V_j u",
            () if self.predictor is Predictor.NEIGHBOURS else range(2, self.rank + 3),
            {"noise": ArrayPart(())},
        )

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        public = ratings.public
        releases = self.guarantee(public).releases
        cap, bound = enforced_cap(self.cap, public), self.clamp * public.width
        if not isinstance(releases.means, EffectsReleases):
            kept = capped(ratings, cap, cap_key(rng))
            asked = {**vars(releases.means), **vars(releases)}
            yield self.cleanse(kept, lambda name, value: asked[name].publish(value, rng))
            return
        items = published_effects(releases.means, ratings, rng)
        rows = Rows.less(ratings, own_model(ratings, items), within(ratings, cap, cap_key(rng)))
        trace = {"residuals clamped": float((np.abs(rows.values) > bound).sum())}
        rows = rows.on(items.most_rated(gram_items(public)))
        residuals = np.clip(rows.values, -bound, bound, out=rows.values)
        counts = rows.cells.counts
        matrix, roots = rows.cells.by_user(residuals), np.maximum(counts, 1) ** -0.25
        exact = gram_products(matrix, roots, diagonal=False)
        noisy, n = releases.products.products(exact, rng), gram_items(public)
        pairs = releases.weights.publish(float(np.sqrt(counts) @ np.maximum(counts - 1, 0)), rng)
        edge = math.sqrt(2 * n) * releases.products.scale
        leading = leading_eigenpairs(noisy, n, min(self.rank, n), _EIGEN_TOLERANCE)
        taste = taste_of_gram(items, *leading, edge, float(pairs), rows.columns)
        yield Step.of(1, 1, own_model(ratings, items, taste), trace)


@mechanism
class CleansedSvd(Cleansing, Plain):
    """SVD after cleansing with exact statistics (McSherry and Mironov 2009).

    Of the 5,000 most rated items where there are more; others have user and item means.
    """

    id = "cleansed-svd"
    name = "SVD after cleansing, no privacy"

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        check_rank(self.rank, ratings.public)
        yield from on_most_rated(lambda inside, _: iter([self.cleanse(inside)]), ratings, rng)
