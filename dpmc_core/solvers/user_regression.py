"""What each user does with the own row, given what was published of the items.

Ridge regression, averages over regressions, and the bounded sums that a user adds to a release. No
step looks at two rows at once.

In shapes, n is the number of items, n_entries the number of ratings, d the number of features of a
regression and r the rank. A user's gain is the average factor with which the own weighted row was
stretched to its clip, see `weigh_rows`. "Widths" are widths of the public rating range.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from dpmc_core.arrays import SMALLEST, Floats, Ints
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.empirical_bayes import PRIORS
from dpmc_core.solvers.item_effects import (
    MAX_STATISTIC,
    N_USER_COEFFICIENTS,
    ItemEffects,
    LowRankFactors,
)
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.rows import item_sums, normalise_rows, row_norms
from dpmc_core.stopping import check_cancelled

_MAX_GATHERED = 4_000_000  # numbers gathered at once: 32 MB
_SHORT = 2  # a row with at most one rating for so many features has few ratings
# The largest factor by which a weighted row is stretched to its clip: rows of small residuals then
# say more than the noise, and no row says much that is only its own noise.
MAX_STRETCH = 1.5
USER_PSEUDO_RATINGS = 3.0  # ratings at the mean that every user is given
SHARED_SLOPE_STD = PRIORS.feature_slope / math.sqrt(1 + math.exp(0.5))  # of users with one model
_SLOPE_SCALES = (0.5, 1.0, 2.0)  # of `feature_slope`, among which each user's ratings decide
_FEATURES_LOG_ODDS = -0.5  # that a user has slopes on any features, before the ratings are seen
_NO_EFFECTS_LOG_ODDS = -1.0  # that a user's ratings are not about the item effects
_NOISE_PSEUDO_COUNT = 2.0  # ratings that the noise variance of the regression counts for
_MAX_GROUPS = 5  # of features, of which all subsets are compared


class RegressedRows(NamedTuple):
    """Some users' rows of similar length, each regressed on the features of its items.

    Rows are padded to one length with entries whose features and values are zero.

    Attributes:
        rows: shape (k,), which users of a chunk they are.
        counts: shape (k,), the ratings of each row.
        entry_index: shape (k, length), the entries of the chunk; its n_entries for padding.
        values: shape (k, length), the values regressed.
        features: shape (k, length, d).
        solved: shape (k, length, d), the features times the inverse of A = Z'Z + ridge of their
            row, with Z the row's features.
        coefficients: shape (k, d).
    """

    rows: Ints
    counts: Ints
    entry_index: Ints
    values: Floats
    features: Floats
    solved: Floats
    coefficients: Floats

    def compute_residuals(self) -> Floats:
        """Return what the regression leaves of each entry, shape (k, length)."""
        return self.values - (self.features @ self.coefficients[:, :, None])[:, :, 0]

    def leave_one_out(self) -> Floats:
        """Return the residual of each entry from the regression of the row's other entries.

        Returns:
            Array of shape (k, length).
        """
        leverages = np.einsum("kld,kld->kl", self.features, self.solved)
        # A leverage is below 1; rounding may bring it there.
        return self.compute_residuals() / np.maximum(1.0 - leverages, 1e-9)

    def leave_one_out_coefficients(self, residuals: Floats, n_last: int) -> Floats:
        """Return the last coefficients of the regressions of `leave_one_out`.

        Args:
            residuals: shape (k, length), as `leave_one_out` returns them.
            n_last: how many of the d coefficients are returned.

        Returns:
            Array of shape (k, length, n_last).
        """
        coefficients = (
            self.coefficients[:, None, -n_last:]
            - self.solved[:, :, -n_last:] * residuals[:, :, None]
        )
        coefficients[self.counts == 1] = 0.0  # exactly, whatever rounding leaves
        return coefficients


class UserRegression(NamedTuple):
    """Ridge regression of each user's ratings on item features, one user at a time.

    Users never share an operation: changing one user's ratings leaves every other user's result
    bit-identical, which the sensitivity bounds rely on.

    Attributes:
        item_features: shape (n, d).
        precision: shape (d, d), the inverse prior covariance of the coefficients.
        noise_variance: of a rating about the regression, in squared rating points.
        item_offsets: shape (n,), subtracted from the ratings first; None: zeros.
    """

    item_features: Floats
    precision: Floats
    noise_variance: float
    item_offsets: Floats | None = None

    @property
    def ridge(self) -> Floats:
        """The noise variance times the precision, shape (d, d)."""
        return self.noise_variance * self.precision

    def fit_coefficients(self, entries: Pattern, ratings: Floats) -> Floats:
        """Return the ridge solution of each row.

        Args:
            entries: the rated (user, item) pairs, sorted by user.
            ratings: shape (n_entries,), in rating points.

        Returns:
            Array of shape (n_users, d); zeros for a row without ratings.
        """
        coefficients = np.empty((entries.shape[0], self.item_features.shape[1]))
        for users, _, groups in self.iter_chunks(entries, ratings):
            for group in groups:
                coefficients[users.start + group.rows] = group.coefficients
        return coefficients

    def sum_coefficient_variation(
        self, entries: Pattern, ratings: Floats, n_coefficients: int
    ) -> Floats:
        """Sum over users how much their coefficients vary relative to the prior.

        Let p be the posterior variance of a coefficient theta over its prior variance. If the true
        variance is x times the prior one, E theta^2 over the prior variance is (1 - p)^2 x + p (1 -
        p). The first row sums theta^2 less p (1 - p) <= 1/4, over MAX_STATISTIC, which may be
        negative, and the second (1 - p)^2. The last column has the mean square of a row about the
        regression over the noise variance, and 1. The ratio of the two rows estimates x /
        MAX_STATISTIC.

        Args:
            entries: the rated pairs, sorted by user.
            ratings: shape (n_entries,), in rating points.
            n_coefficients: how many of the d coefficients are compared, the first ones.

        Returns:
            Array of shape (2, n_coefficients + 1); each user adds numbers in [-1/16, 1].
        """
        total = np.zeros((2, n_coefficients + 1))
        for _, _, groups in self.iter_chunks(entries, ratings):
            for group in groups:
                if not group.entry_index.size:  # users without ratings add nothing
                    continue
                learnt = np.einsum("kld,kld->kd", group.solved, group.features)
                shrinkage = 1 - learnt[:, :n_coefficients]  # p
                squares = (group.coefficients**2 * np.diag(self.precision))[:, :n_coefficients]
                excess = (group.compute_residuals() ** 2).sum(axis=1) / self.noise_variance
                excess += learnt.sum(axis=1)
                variation = np.minimum(squares, MAX_STATISTIC) - shrinkage * (1 - shrinkage)
                residual_squares = np.minimum(excess / group.counts, MAX_STATISTIC)
                statistics = np.column_stack([variation, residual_squares]) / MAX_STATISTIC
                weights = np.column_stack([(1 - shrinkage) ** 2, np.ones(len(shrinkage))])
                total += [statistics.sum(axis=0), weights.sum(axis=0)]
        return total

    def iter_chunks(
        self, entries: Pattern, ratings: Floats
    ) -> Iterator[tuple[slice, Pattern, Iterator[RegressedRows]]]:
        """Solve the regression of every row, in chunks of whole rows.

        Args:
            entries: the rated pairs, sorted by user.
            ratings: shape (n_entries,), in rating points.

        Yields:
            The users of a chunk, their entries, and their regressions in groups of similar rows.
        """
        d = len(self.precision)
        for users, span, chunk in entries.iter_chunks(
            _MAX_GATHERED // d, 1 + _MAX_GATHERED // d**2
        ):
            values = ratings[span]
            if self.item_offsets is not None:
                values = values - self.item_offsets.take(chunk.items)
            yield users, chunk, self._solve_rows(chunk, values)

    def _solve_rows(self, chunk: Pattern, values: Floats) -> Iterator[RegressedRows]:
        """Solve the regressions of the users of a chunk.

        A row with few ratings is solved by as many equations as it has ratings (the matrix
        inversion lemma). Only the length of a row decides how it is solved.

        Args:
            chunk: the rated pairs.
            values: shape (n_entries,), what is regressed.
        """
        ridge = self.ridge
        prior = np.linalg.inv(ridge)
        for rows, index, columns, is_short in _iter_similar_rows(self.item_features, chunk, values):
            z, y = columns[:, :, :-1], columns[:, :, -1]
            if not is_short:
                solved = z @ np.linalg.inv(z.mT @ z + ridge)
            else:
                scaled = z @ prior
                solved = np.linalg.solve(np.eye(index.shape[1]) + scaled @ z.mT, scaled)
            coefficients = (y[:, None] @ solved)[:, 0]
            yield RegressedRows(rows, chunk.counts[rows], index, y, z, solved, coefficients)


def _iter_similar_rows(
    item_features: Floats, chunk: Pattern, *columns: Floats
) -> Iterator[tuple[Ints, Ints, Floats, bool]]:
    """Gather the features of the items of each row, for groups of rows of similar length.

    Args:
        item_features: shape (n, d).
        chunk: the rated pairs.
        columns: what else each entry has, each of shape (n_entries,).

    Yields:
        The k rows of a group; the indices of their entries, shape (k, length); their features and
        further columns, zeros for padding, shape (k, length, d + n_columns); and whether a row has
        so few ratings for d features that as many equations as it has ratings are faster.
    """
    gathered = np.column_stack([item_features.take(chunk.items, axis=0), *columns])
    padded = np.pad(gathered, ((0, 1), (0, 0)))  # its last row stands for no entry
    for rows, index in chunk.iter_similar_rows():
        is_short = index.shape[1] <= item_features.shape[1] // _SHORT
        yield rows, index, padded.take(index, axis=0), is_short


# Ridge regressions of k rows at one scale, of the ratings y and of the item effects e, are three
# arrays: (log |L| - log |A|) / 2, shape (k,); what they leave of the products of y and e, ridge
# included, shape (k, 2, 2); and their solutions, shape (k, 2, d).
RidgeFits = tuple[Floats, Floats, Floats]


class UserModels(NamedTuple):
    """The regressions over which a user averages: which features, how strongly, and what effects.

    Attributes:
        scales: shape (n_models, d), the factors of the prior standard deviations of the
            coefficients; 0 where a model leaves a feature out.
        effect_weights: shape (n_models,), 1 where the item effects are subtracted first, else 0.
        log_priors: shape (n_models,), the log weights of the models before any rating is seen.
    """

    scales: Floats
    effect_weights: Floats
    log_priors: Floats

    @classmethod
    def from_public(cls, public: PublicFacts, n_factors: int = 0) -> UserModels:
        """Return one model for each set of feature groups and each scale of their slopes.

        With many groups the sets are: none, one, all but one, and all. Models of no group and of
        all groups exist without item effects, too.

        Args:
            public: the public facts, with the groups of features and their columns.
            n_factors: the number of low-rank factors, which all models use.
        """
        n_groups, models = len(public.features), []
        groups = np.repeat(np.arange(n_groups), [columns for _, columns in public.features])
        sizes = {*range(n_groups + 1)}
        if n_groups > _MAX_GROUPS:
            sizes = {0, 1, n_groups - 1, n_groups}
        for chosen in (c for size in sorted(sizes) for c in combinations(range(n_groups), size)):
            log_prior = -math.log(math.comb(n_groups, len(chosen)))
            if chosen:
                log_prior += _FEATURES_LOG_ODDS - math.log(len(_SLOPE_SCALES))
            for scale in _SLOPE_SCALES if chosen else (1.0,):
                slopes = scale * np.isin(groups, chosen)
                scales = np.concatenate([np.ones(N_USER_COEFFICIENTS), slopes, np.ones(n_factors)])
                models.append((scales, 1.0, log_prior))
                if len(chosen) in (0, n_groups):
                    models.append((scales, 0.0, log_prior + _NO_EFFECTS_LOG_ODDS))
        return cls(*(np.array(column) for column in zip(*models, strict=True)))

    def average_regressions(
        self, regression: UserRegression, entries: Pattern, centered: Floats, item_effects: Floats
    ) -> Floats:
        """Average each user's ridge solutions, weighted by the evidence in the user's own ratings.

        A model keeps the columns Z of its features and has the ridge L = noise variance x
        precision, divided by its scales. With y the centred ratings, less item effects where it
        uses them, A = Z'Z + L, theta = A^-1 Z'y and k ratings, its log evidence is log |L| / 2 -
        log |A| / 2 - (2 + k)/2 log(2 noise variance + y'y - theta'Z'y).

        Args:
            regression: on all features at scale 1; its offsets are not used.
            entries: the rated pairs, sorted by user.
            centered: shape (n_entries,), ratings less the mean, in rating points.
            item_effects: shape (n,), in rating points.

        Returns:
            Array of shape (n_users, d + 1): the averaged coefficients, and the weight of the item
            effects.
        """
        d, n_models = len(regression.precision), len(self.log_priors)
        averages = np.empty((entries.shape[0], d + 1))
        for users, span, chunk in entries.iter_chunks(
            _MAX_GATHERED // d, 1 + _MAX_GATHERED // (d * max(d, n_models))
        ):
            products = np.empty((len(chunk.counts), d + 2, d + 2))
            is_long = np.zeros(len(chunk.counts), dtype=bool)
            for rows, _, columns, is_short in _iter_similar_rows(
                regression.item_features, chunk, centered[span], item_effects.take(chunk.items)
            ):
                if is_short:
                    fits = self._fit_short_rows(regression, columns)
                    averages[users.start + rows] = self._average(
                        regression, chunk.counts[rows], fits
                    )
                else:
                    is_long[rows], products[rows] = True, columns.mT @ columns
            fits = self._fit_long_rows(regression, products[is_long])
            averages[users][is_long] = self._average(regression, chunk.counts[is_long], fits)
        return averages

    def _average(
        self, regression: UserRegression, counts: Ints, fits: Iterable[RidgeFits]
    ) -> Floats:
        """Average the solutions of k rows by prior and evidence.

        Args:
            regression: on all features at scale 1.
            counts: shape (k,), the ratings of each row.
            fits: for each distinct row of `scales`, in the order of `np.unique`.

        Returns:
            Array of shape (k, d + 1), as of `average_regressions`.
        """
        log_weights = np.empty((len(self.log_priors), len(counts)))
        coefficients = np.empty((*log_weights.shape, self.scales.shape[1]))
        model_scales = np.unique(self.scales, axis=0, return_inverse=True)[1]
        for index, (volume, squares, solutions) in enumerate(fits):
            check_cancelled()
            for model in np.flatnonzero(model_scales == index):
                direction = np.array([1.0, -self.effect_weights[model]])  # y, less e or not
                misfit = _NOISE_PSEUDO_COUNT * regression.noise_variance
                misfit = misfit + direction @ squares @ direction
                log_evidence = volume - (_NOISE_PSEUDO_COUNT + counts) * np.log(misfit) / 2
                log_weights[model] = self.log_priors[model] + log_evidence
                coefficients[model] = direction @ solutions
        weights = np.exp(log_weights - log_weights.max(axis=0))
        weights /= weights.sum(axis=0)
        return np.column_stack(
            [
                np.einsum("mk,mkd->kd", weights, coefficients),
                np.einsum("mk,m->k", weights, self.effect_weights),
            ]
        )

    def _fit_long_rows(self, regression: UserRegression, products: Floats) -> Iterator[RidgeFits]:
        """Fit k rows by d equations each, at each of the distinct scales.

        Args:
            regression: on all features at scale 1.
            products: shape (k, d + 2, d + 2), of Z's columns, the ratings y and the item effects e.
        """
        ridge = regression.ridge
        d, scalar = len(ridge), _NOISE_PSEUDO_COUNT * regression.noise_variance
        for scales in np.unique(self.scales, axis=0):
            kept = np.flatnonzero(scales)  # a feature of scale 0 has the coefficient 0
            penalty = ridge[np.ix_(kept, kept)] / np.outer(scales[kept], scales[kept])
            columns, border = np.append(kept, [d, d + 1]), scalar * np.eye(len(kept) + 2)
            border[:-2, :-2] = penalty
            half_volume, explained, kept_solutions = _solve_bordered(
                products[:, columns[:, None], columns] + border
            )
            solutions = np.zeros((len(products), 2, d))
            solutions[:, :, kept] = kept_solutions
            _, log_volume = np.linalg.slogdet(penalty)
            volume = log_volume / 2 - half_volume
            yield volume, products[:, d:, d:] - explained, solutions

    def _fit_short_rows(self, regression: UserRegression, columns: Floats) -> Iterator[RidgeFits]:
        """Fit k rows by as many equations as a row has entries, at each of the distinct scales.

        With K = Z L^-1 Z' the solution is L^-1 Z' (I + K)^-1 y. In the evidence |I + K| takes the
        place of |A| / |L| and y'(I + K)^-1 y that of y'y - theta'Z'y. Features of different scales
        are independent in the prior, so scales may multiply L^-1 on one side.

        Args:
            regression: on all features at scale 1.
            columns: shape (k, length, d + 2), the columns of Z, the ratings y and the item effects
                e.
        """
        z, targets = columns[:, :, :-2], columns[:, :, -2:]
        scaled, scalar = z @ np.linalg.inv(regression.ridge), regression.noise_variance
        k, length, _ = z.shape
        bordered = np.empty((k, length + 2, length + 2))
        bordered[:, -2:, :-2] = targets.mT
        bordered[:, -2:, -2:] = targets.mT @ targets + _NOISE_PSEUDO_COUNT * scalar * np.eye(2)
        for scales in np.unique(self.scales, axis=0):
            bordered[:, :-2, :-2] = np.eye(length) + (z * scales**2) @ scaled.mT
            half_volume, squares, solutions = _solve_bordered(bordered)
            yield -half_volume, squares, solutions @ scaled * scales**2


def _solve_bordered(matrices: Floats) -> tuple[Floats, Floats, Floats]:
    """Solve A x = b for two right-hand sides b, by Cholesky's method.

    Args:
        matrices: shape (k, n + 2, n + 2), positive definite; each has A, and below it the two b.
            Only the lower triangle matters.

    Returns:
        log |A| / 2, shape (k,), the products b'x, shape (k, 2, 2), and x, shape (k, 2, n).
    """
    roots = np.linalg.cholesky(matrices)
    # With R R' = A, the last rows of each root are R^-1 b.
    projections, roots = roots[:, -2:, :-2], roots[:, :-2, :-2]
    half_volume = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
    solutions = np.linalg.solve(roots.mT, projections.mT).mT
    return half_volume, projections @ projections.mT, solutions


def build_user_regression(
    item_effects: ItemEffects,
    low_rank: LowRankFactors | None = None,
    slope_std: float = PRIORS.feature_slope,
) -> UserRegression:
    """Return the regression of a user's ratings less mean and item effects.

    Its features are 1, popularity, the item effect about its mean, the public features about
    theirs, and the low-rank factors.

    Args:
        item_effects: what was published of the items.
        low_rank: the low-rank factors of the items; None: none.
        slope_std: the prior standard deviation of a user's slopes on the public features, in
            widths of the rating range.
    """
    width, counts = item_effects.public.width, item_effects.counts
    effects, item_features = (
        x - counts @ x / counts.sum() for x in (item_effects.effects, item_effects.item_features)
    )
    columns = [np.ones(len(effects)), item_effects.compute_popularity(), effects, item_features]
    intercept_variance = (PRIORS.rating * width) ** 2 / USER_PSEUDO_RATINGS
    prior_variances = np.array(
        [
            intercept_variance + item_effects.mean_variance,
            (PRIORS.popularity_slope * width) ** 2,
            PRIORS.effect_slope**2,
        ]
    )
    slope_variances = np.full(item_features.shape[1], (slope_std * width) ** 2)
    variances = np.append(item_effects.user_variances[:-1] * prior_variances, slope_variances)
    precision, first = np.diag(1.0 / variances), len(variances)
    if low_rank is not None:
        columns.append(low_rank.item_factors)
        precision = np.pad(precision, (0, len(low_rank.user_moments)))
        precision[first:, first:] = np.linalg.inv(low_rank.user_moments)
    noise_variance = float(item_effects.user_variances[-1]) * (PRIORS.rating * width) ** 2
    offsets = item_effects.mean + item_effects.effects
    return UserRegression(np.column_stack(columns), precision, noise_variance, offsets)


def weigh_rows(
    entries: Pattern, values: Floats, weights: Floats, norm: float
) -> tuple[Floats, Floats]:
    """Multiply values by weights of unit length in each row, and bring the rows to l2 norm `norm`.

    A row shorter than `norm` is stretched, by 1.5 at most. A user's gain is sqrt(entries) times the
    factor over the length of the user's weights, so that a rating enters with gain x weight /
    sqrt(entries).

    Args:
        entries: the rated pairs, sorted by user.
        values: shape (n_entries,), in rating points.
        weights: shape (n_entries,), positive.
        norm: the largest l2 norm of a row, in rating points.

    Returns:
        The weighted values, shape (n_entries,), and the gains, shape (n_users,).
    """
    lengths = row_norms(entries, weights)
    scaled = values * (weights / entries.expand_rows(lengths))
    with np.errstate(divide="ignore"):
        factor = np.minimum(MAX_STRETCH, norm / row_norms(entries, scaled))
    gains = np.sqrt(entries.counts) * factor / np.maximum(lengths, SMALLEST)
    return scaled * entries.expand_rows(factor), gains


def sum_bounded_gains(gains: Floats) -> float:
    """Return the sum of the users' gains over MAX_STATISTIC, each at most 1.

    Args:
        gains: shape (n_users,).
    """
    return float((np.minimum(gains, MAX_STATISTIC) / MAX_STATISTIC).sum())


def sum_round_statistics(
    ratings: Ratings,
    item_effects: ItemEffects,
    low_rank: LowRankFactors | None,
    rank: int,
    share: float,
    norm: float,
) -> tuple[Floats, Floats]:
    """Sum over users the statistics that a round releases; what one user adds is bounded.

    Args:
        ratings: the users' ratings.
        item_effects: the item effects so far.
        low_rank: the low-rank factors so far; None: none.
        rank: r, the number of low-rank factors.
        share: phi, the share of a row's squared length that goes into the low-rank factors.
        norm: C, the l2 norm of a row, in rating points.

    Returns:
        Sums of shape (n, r + 1): first the residuals of each rating from the regression on the
        user's other ratings, weighted by item, in rows of l2 norm sqrt(1 - share) norm; then the
        residuals about all but the low-rank factors, times the unit vector of the user's factors
        from the other ratings, in rows of norm sqrt(share) norm. Moments of shape (r^2 + 2,): the
        products u u' of the users' unit vectors, and the gains of either weighting over
        MAX_STATISTIC, at most 1. All that is about low-rank factors is zero where share is 0.
    """
    sums, moments = np.zeros((ratings.public.items, rank + 1)), np.zeros(rank * rank + 2)
    regression = build_user_regression(item_effects, low_rank, SHARED_SLOPE_STD)
    for _, chunk, groups in regression.iter_chunks(Pattern.from_ratings(ratings), ratings.values):
        n_entries = len(chunk.items)
        # Rows are padded with an entry beyond the last, which is dropped below.
        residuals, about_rest = np.empty(n_entries + 1), np.empty(n_entries + 1)
        user_factors = np.empty((n_entries + 1, rank))  # without the entry at hand
        for group in groups:
            left_out = group.leave_one_out()
            residuals[group.entry_index] = left_out
            if share > 0:
                factors = group.leave_one_out_coefficients(left_out, rank)
                user_factors[group.entry_index] = factors
                about_rest[group.entry_index] = left_out + np.einsum(
                    "klr,klr->kl", group.features[:, :, -rank:], factors
                )
                unit_vectors = normalise_rows(group.coefficients[:, -rank:])
                moments[:-2] += (unit_vectors.T @ unit_vectors).ravel()
        scaled, gains = weigh_rows(chunk, residuals[:-1], item_effects.weights[chunk.items], norm)
        sums[:, 0] += item_sums(chunk, math.sqrt(1 - share) * scaled)
        moments[-2] += sum_bounded_gains(gains)
        if share > 0:
            scaled, gains = weigh_rows(chunk, about_rest[:-1], np.ones(n_entries), norm)
            for column, direction in enumerate(normalise_rows(user_factors[:-1]).T, 1):
                sums[:, column] += item_sums(chunk, math.sqrt(share) * scaled * direction)
            moments[-1] += sum_bounded_gains(gains)
    return sums, moments
