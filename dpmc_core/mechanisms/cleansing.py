"""SVD after cleansing under per-user privacy, JTT18's strongest baseline, and without privacy.

McSherry, Mironov, "Differentially Private Recommender Systems: Building Privacy into the Netflix
Prize Contenders" (2009): item means, a shrunken covariance and local prediction; here every release
is accounted per user.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpmc_core.arrays import Floats, ItemAxis, Rng
from dpmc_core.mechanisms.per_user import (
    EffectsFirst,
    EffectsReleases,
    PerUser,
    build_effects_releases,
    build_gaussian_release,
    describe_user_regression,
    effective_cap,
    fit_user_regressions,
    most_rated_caveats,
    publish_item_effects,
    split_effects_budget,
)
from dpmc_core.mechanisms.plain import NonprivateMechanism, fit_on_most_rated
from dpmc_core.model import ArraySpec, Estimator, Model, OwnSide, Step, Steps
from dpmc_core.privacy import Gaussian, Guarantee, Loss, Publishes, Releases
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import PublishedSettings, inherit_setting, mechanism, setting
from dpmc_core.solvers.item_effects import estimate_low_rank_from_gram
from dpmc_core.solvers.linalg import Pattern, leading_eigenpairs
from dpmc_core.solvers.ranking import ItemScores
from dpmc_core.solvers.rows import (
    ResidualRows,
    cap_mask,
    cap_ratings,
    draw_cap_key,
    factors_with_offsets,
    gram,
    gram_products,
    item_sums,
    row_sums,
    solve_ridge_rows,
)
from dpmc_core.solvers.sizes import check_gram, check_rank, count_gram_items
from dpmc_core.stopping import check_cancelled
from dpmc_core.style import VERMILION, Style

_EFFECTS_SHARE = 0.5  # share of the budget for item effects, with the noise-aware estimator
_EIGEN_TOLERANCE = 1e-6  # relative accuracy of the eigenpairs
_MIN_WEIGHT = 0.01  # noise may leave the weights of two items at 0 or below
_MIN_VARIANCE = 0.01  # in units of the average: noise may leave a variance at 0 or below
_MIN_RIDGE = 1e-10  # in units of the largest eigenvalue, so that no user's equations are singular


class Predictor(enum.Enum):
    """How a user's own predictions follow from the covariance of the items."""

    SVD = "svd"  # coordinates on its leading eigenvectors
    NEIGHBOURS = "neighbours"  # own ratings of the most correlated items


@mechanism
class Cleansing:
    """The settings and the computation of SVD after cleansing, with noise or without."""

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
        query: Callable[[str, Floats], Floats] = lambda _, statistic: statistic,
    ) -> Step:
        """Return the only step: the model, and how many residuals were clamped.

        Everything that depends on several users' ratings goes through `query`, which may add noise;
        otherwise a user's ratings only affect the user's own row of the model.

        Args:
            ratings: the users' ratings.
            query: maps the name and the exact value of a statistic to its published value: numbers
                for "total" and "count", shape (n,) for "item_sums" and "item_counts", shape (n, n)
                for "products" and "weights". The default publishes exact values.
        """
        public = ratings.public
        entries = Pattern.from_ratings(ratings)
        half_width = public.half_width
        centred = ratings.values - public.middle
        total = float(query("total", np.asarray(centred.sum())))
        count = max(float(query("count", np.asarray(float(len(centred))))), 1.0)
        global_mean = np.clip(total / count, -half_width, half_width)
        sums = query("item_sums", item_sums(entries, centred))
        counts = np.maximum(query("item_counts", item_sums(entries)), 0.0)
        item_means = (sums + self.item_prior * global_mean) / (counts + self.item_prior)
        item_means = np.clip(item_means, -half_width, half_width)

        item_residuals = centred - item_means[entries.items]
        user_offsets = row_sums(entries, item_residuals) / (entries.counts + self.user_prior)
        user_residuals = item_residuals - user_offsets[entries.users]
        bound = self.clamp * public.width
        residuals = np.clip(user_residuals, -bound, bound)
        trace = {"residuals clamped": (residuals != user_residuals).sum()}

        # The products of a user with k ratings have the weight 1/sqrt(k): the root of it, k^(-1/4),
        # on each factor.
        root_weights = entries.expand_rows(np.maximum(entries.counts, 1) ** -0.25)
        products = query("products", gram(entries.build_matrix(residuals * root_weights)))
        weights = query("weights", gram(entries.build_matrix(root_weights)))
        covariance = shrink_covariance(products, weights, self.shrink)
        user_means = user_offsets + public.middle
        if self.predictor is Predictor.NEIGHBOURS:
            n_neighbours = min(self.neighbours, public.items)
            model: Model = NeighbourModel.from_covariance(
                entries, residuals, user_means, item_means, covariance, n_neighbours
            )
            return Step.from_trace(1, 1, model, trace)
        factors, noise = leading_factors(covariance, self.rank)
        (user_factors,) = solve_ridge_rows(entries, residuals, factors, noise)
        low_rank_model = factors_with_offsets(user_factors, factors, user_means, item_means)
        return Step.from_trace(
            1, 1, replace(low_rank_model, user_arrays={"noise": np.asarray(noise)}), trace
        )


def shrink_covariance(products: Floats, weights: Floats, shrink: float) -> Floats:
    """Return the covariance of the items, shrunk towards its mean entry by entry.

    `shrink` average products and weights are added to every entry; the average is over entries.

    Args:
        products: shape (n, n), weighted sums of products of residuals, in squared rating points.
        weights: shape (n, n), the sums of their weights.
        shrink: the setting beta.

    Returns:
        Array of shape (n, n), symmetric.
    """
    mean_product = products.mean()
    shrunk_weights = np.maximum(weights, 0.0) + shrink * max(weights.mean(), _MIN_WEIGHT)
    check_cancelled()
    covariance = (products + shrink * mean_product) / np.maximum(shrunk_weights, _MIN_WEIGHT)
    return 0.5 * (covariance + covariance.T)


def leading_factors(matrix: Floats, rank: int) -> tuple[Floats, float]:
    """Return factors F of the best semidefinite approximation F F', and the remaining variance.

    The latter is the mean variance of an item beyond F F', and at least a hundredth of the mean
    variance. Noise may make the trace zero or negative even if there are large eigenvalues. So the
    remaining variance is also at least 1e-10 of the largest eigenvalue, which bounds F_S' F_S for
    any items S: the condition number of a user's ridge system is then at most 1e10.

    Args:
        matrix: the covariance, shape (n, n).
        rank: the number of factors.

    Returns:
        F of shape (n, rank), and the variance in squared rating points.
    """
    values, vectors = leading_eigenpairs(matrix.__matmul__, len(matrix), rank)
    positive_values = np.maximum(values, 0.0)
    # Noise may leave nothing for the residuals, or less than nothing: each bound below keeps the
    # regressions on the factors solvable.
    mean_variance = max(np.trace(matrix) / len(matrix), 1e-12)
    residual_variance = mean_variance - positive_values.sum() / len(matrix)
    return vectors * np.sqrt(positive_values), max(
        residual_variance, 0.01 * mean_variance, _MIN_RIDGE * positive_values.max()
    )


@dataclass(frozen=True, eq=False)
class NeighbourModel:
    """Predictions from a user's own ratings of similar items.

    The prediction is user + item offset + sum s_jk r_uk / (1 + sum s_jk) over the rated items k
    among the most similar ones to j. The 1 counts one rating at the offsets, because few or
    dissimilar neighbours say little.

    Attributes:
        user_means: shape (m,), in rating points.
        item_means: shape (n,), in rating points.
        weighted_sums: the sums of s_jk r_uk for each user u and item j, as scores.
        weight_sums: the sums of s_jk for each user and item, as scores.
    """

    user_means: Floats
    item_means: Floats
    weighted_sums: ItemScores
    weight_sums: ItemScores
    factors: ClassVar[None] = None

    @classmethod
    def from_covariance(
        cls,
        entries: Pattern,
        residuals: Floats,
        user_means: Floats,
        item_means: Floats,
        covariance: Floats,
        n_neighbours: int,
    ) -> NeighbourModel:
        """Build the model from a covariance matrix: s_jk are the largest correlations of each item.

        Args:
            entries: the observed ratings.
            residuals: r, shape (n_entries,), in rating points.
            user_means: shape (m,), in rating points.
            item_means: shape (n,), in rating points.
            covariance: shape (n, n).
            n_neighbours: the number of neighbours of an item.
        """
        from scipy.sparse import csr_array

        variance = np.diag(covariance)
        std = np.sqrt(np.maximum(variance, max(_MIN_VARIANCE * np.abs(variance).mean(), 1e-12)))
        # Correlations, of which each row then keeps the `n_neighbours` largest.
        similarity = np.clip(covariance / std[:, None] / std, 0.0, 1.0)
        np.fill_diagonal(similarity, 0.0)
        if n_neighbours < len(similarity):
            threshold = np.partition(similarity, -n_neighbours, axis=1)[:, -n_neighbours]
            similarity = np.where(similarity >= threshold[:, None], similarity, 0.0)
        weights = csr_array(similarity.T)
        matrices = (entries.build_matrix(values) for values in (residuals, np.ones_like(residuals)))
        return cls(user_means, item_means, *(ItemScores(sparse, weights) for sparse in matrices))

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        """Return the predicted ratings of (user, item) pairs, whose indices broadcast together."""
        u, j = np.broadcast_arrays(users, items)
        neighbour_mean = self.weighted_sums.predict(u, j) / (self.weight_sums.predict(u, j) + 1.0)
        return self.user_means[u] + self.item_means[j] + neighbour_mean


@dataclass(frozen=True)
class CleansingMeans(Releases):
    """The releases of the means, as the paper takes them.

    Attributes:
        total: a number, the sum of all ratings less the middle of the range.
        count: a number, of ratings.
        item_sums: shape (n,), the sum of each item's ratings less the middle of the range.
        item_counts: shape (n,), the number of each item's ratings.
    """

    total: Gaussian
    count: Gaussian
    item_sums: Gaussian
    item_counts: Gaussian


@dataclass(frozen=True)
class CleansingStatistics(Releases):
    """All releases of SVD after cleansing.

    Attributes:
        means: the means as published, or private item effects with the noise-aware estimator.
        products: shape (n, n), weighted products of residuals, in squared rating points.
        weights: shape (n, n), the sums of their weights; with the noise-aware estimator a number,
            their total.
    """

    means: CleansingMeans | EffectsReleases
    products: Gaussian
    weights: Gaussian


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
    list_order = 1
    name = "SVD after cleansing"
    short = "Cleansed SVD"
    style = Style(VERMILION, "triangle-up", "8px,3px")
    nonprivate_counterpart = "cleansed-svd"
    revision = 4
    published_revision = 3
    publishes = Publishes.ITEM_COVARIANCE
    published_settings = PublishedSettings(
        {"estimator": Estimator.PUBLISHED},
        "JTT18 tunes the shrinking parameters, from 5 to 25: they stay what they are; the noise is"
        " accounted for each user by the exact curve, where the method's own paper counts ratings",
    )
    cap: int | None = inherit_setting(EffectsFirst, "cap")
    estimator: Estimator = setting(
        Estimator.NOISE_AWARE,
        "item effects and what stands out of the noise, or as published (neighbours: always)",
    )

    @property
    def is_noise_aware(self) -> bool:
        """Whether the estimator is the noise-aware one; neighbours are as published only."""
        return self.estimator is Estimator.NOISE_AWARE and self.predictor is Predictor.SVD

    def guarantee(self, public: PublicFacts) -> Guarantee[CleansingStatistics]:
        """Return the guarantee: means or item effects, products of residuals, and their weights."""
        check_rank(self.rank, public)
        build = self._build_noise_aware_releases if self.is_noise_aware else self._build_releases
        return self.build_guarantee(
            public,
            build(public),
            "exact Gaussian curve for McSherry and Mironov (2009), whose own card is per rating",
            *most_rated_caveats(public),
        )

    def _build_noise_aware_releases(self, public: PublicFacts) -> CleansingStatistics:
        """Return the releases of item effects, products of residuals, and one sum of weights."""
        sqrt_cap = math.sqrt(effective_cap(self.cap, public))
        effects_budget, remainder = self.budget().split(_EFFECTS_SHARE, 1 - _EFFECTS_SHARE)
        products, weights = remainder.split(0.99, 0.01)  # the sum is one number of many pairs
        emptied_norm = math.sqrt(max(sqrt_cap**2 - 1, 1))  # without the squares on the diagonal
        max_sum = sqrt_cap * emptied_norm**2  # sqrt(k) (k - 1) of a row with k ratings
        return CleansingStatistics(
            means=build_effects_releases(public, split_effects_budget(public, effects_budget)),
            products=self._build_products_release(public, products, emptied_norm),
            weights=build_gaussian_release(
                "weighted number of pairs of ratings of one user", (), weights, max_sum, max_sum
            ),
        )

    def _build_releases(self, public: PublicFacts) -> CleansingStatistics:
        """Return the releases of the published method: means, products and weights of all items.

        The means need little of the budget, the covariance most of it. All shares add up to 1.
        """
        check_gram(public.items, "estimator noise-aware works on the most rated of them")
        n, cap, budget = ItemAxis(public.items), effective_cap(self.cap, public), self.budget()
        half_width, sqrt_cap = public.half_width, math.sqrt(cap)
        means = CleansingMeans(
            total=build_gaussian_release(
                "sum of all ratings less the middle of the range",
                (),
                budget * 0.01,
                cap * half_width,
            ),
            count=build_gaussian_release("number of ratings", (), budget * 0.01, cap, cap),
            item_sums=build_gaussian_release(
                "sum of the ratings of each item less the middle of the range",
                (n,),
                budget * 0.05,
                sqrt_cap * half_width,
            ),
            item_counts=build_gaussian_release(
                "number of ratings of each item",
                (n,),
                budget * 0.03,
                sqrt_cap,
                math.sqrt(min(2 * cap, n)),
            ),
        )
        products = budget * 0.7
        return CleansingStatistics(
            means=means,
            products=self._build_products_release(public, products, sqrt_cap),
            weights=build_gaussian_release(
                "weighted number of users who rated each two items",
                (n, n),
                budget * 0.2,
                sqrt_cap,
                math.sqrt(2) * sqrt_cap,
            ),
        )

    def _build_products_release(
        self, public: PublicFacts, budget: Loss, emptied_norm: float
    ) -> Gaussian:
        """Return the release of the weighted products of residuals of each two items.

        Args:
            public: the public facts.
            budget: the budget of the release.
            emptied_norm: how long the products of one row may be, in units of B^2.
        """
        n, bound = ItemAxis(count_gram_items(public)), self.clamp * public.width
        sqrt_cap = math.sqrt(effective_cap(self.cap, public))
        return build_gaussian_release(
            "weighted products of residuals of each two items",
            (n, n),
            budget,
            emptied_norm * bound**2,
            math.sqrt(2) * sqrt_cap * bound**2,
        )

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        """Describe how a user computes the user's own predictions.

        With the predictor `neighbours` no number of columns is allowed, as there are no factors.
        """
        if self.is_noise_aware:
            return describe_user_regression(
                public, columns, range(min(self.rank, count_gram_items(public)) + 1)
            )
        bound = self.clamp * public.width
        return OwnSide(
            f"items is [V, 1, e], V its first {columns - 2} columns and e the last. S are the"
            " items that the user rated, where there are more than the cap as many of them, chosen"
            f" at random; b = sum of (x_S - {public.middle!r} - e_S) / (number of S +"
            f" {self.user_prior!r}), y = x_S - {public.middle!r} - e_S - b cut to +-{bound!r},"
            f" u = (V_S' V_S + noise I)^-1 V_S' y; the prediction for item j is"
            f" {public.middle!r} + b + e_j + V_j u",
            # V may have any number of columns up to the rank; 1 and e follow.
            () if self.predictor is Predictor.NEIGHBOURS else range(2, self.rank + 3),
            {"noise": ArraySpec(())},
        )

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield the only step: cleansing as published, or item effects and low-rank factors."""
        public = ratings.public
        releases = self.guarantee(public).releases
        cap = effective_cap(self.cap, public)
        if isinstance(releases.means, EffectsReleases):
            yield self._fit_noise_aware(ratings, releases, releases.means, rng)
            return
        capped_ratings = cap_ratings(ratings, cap, draw_cap_key(rng))
        # The releases by the names of the statistics that `cleanse` asks for.
        releases_by_name = {**vars(releases.means), **vars(releases)}
        yield self.cleanse(
            capped_ratings, lambda name, value: releases_by_name[name].publish(value, rng)
        )

    def _fit_noise_aware(
        self,
        ratings: Ratings,
        releases: CleansingStatistics,
        effects_releases: EffectsReleases,
        rng: Rng,
    ) -> Step:
        """Return the step with item effects and the low-rank factors that exceed the noise.

        Args:
            ratings: the users' ratings.
            releases: all releases.
            effects_releases: those of the item effects among them.
            rng: draws the noise.
        """
        public = ratings.public
        cap = effective_cap(self.cap, public)
        bound = self.clamp * public.width
        item_effects = publish_item_effects(effects_releases, ratings, rng)
        rows = ResidualRows.from_ratings(
            ratings,
            fit_user_regressions(ratings, item_effects),
            cap_mask(ratings, cap, draw_cap_key(rng)),
        )
        trace = {"residuals clamped": (np.abs(rows.values) > bound).sum()}
        n = count_gram_items(public)
        rows = rows.select_columns(item_effects.select_most_rated(n))
        residuals = np.clip(rows.values, -bound, bound, out=rows.values)
        matrix = rows.entries.build_matrix(residuals)
        counts = rows.entries.counts
        # Each of the two factors of a product has the weight k^-1/4.
        exact_products = gram_products(matrix, np.maximum(counts, 1) ** -0.25, diagonal=False)
        noisy_products = releases.products.publish_products(exact_products, rng)
        # A user with k ratings has k (k - 1) ordered pairs, each of the weight 1/sqrt(k).
        n_pairs = releases.weights.publish(np.sqrt(counts) @ np.maximum(counts - 1, 0), rng)
        noise_edge = math.sqrt(2 * n) * releases.products.scale  # largest eigenvalue of the noise
        leading = leading_eigenpairs(noisy_products, n, min(self.rank, n), _EIGEN_TOLERANCE)
        low_rank = estimate_low_rank_from_gram(
            item_effects, *leading, noise_edge, float(n_pairs), rows.columns
        )
        model = fit_user_regressions(ratings, item_effects, low_rank)
        return Step.from_trace(1, 1, model, trace)


@mechanism
class CleansedSvd(Cleansing, NonprivateMechanism):
    """SVD after cleansing with exact statistics (McSherry and Mironov 2009).

    It covers the 5,000 most rated items where there are more; others have user and item means.
    """

    id = "cleansed-svd"
    name = "SVD after cleansing, no privacy"

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield the only step: cleansing with exact statistics, on the most rated items."""
        check_rank(self.rank, ratings.public)
        yield from fit_on_most_rated(
            lambda most_rated_ratings, _: iter([self.cleanse(most_rated_ratings)]), ratings, rng
        )
