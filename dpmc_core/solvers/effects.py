"""Item effects and low-rank factors from noisy sums over users' rows, and each user's regression.

The first half is what users do with their own rows, given public item features: ridge regression
and bounded sums. The second half sees no raw data. Each user with k ratings entered a count with
1/sqrt(k) and a sum with weights of unit length, so that one row moves a release equally far
whatever its length. An item's released sum is then normal about a known multiple of its effect,
with a known variance, and is shrunk accordingly (see `empirical_bayes`); how much effects vary over
items is estimated from the same releases.

In shapes, n is the number of items, n_entries the number of ratings, d the number of features of a
regression and r the rank. A user's gain is the average factor with which the own weighted row was
stretched to its clip, see `weigh_rows`. "Widths" are widths of the public rating range.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from dpmc_core.arrays import SMALLEST, Floats, Ints
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.empirical_bayes import (
    fit_normal_prior,
    normal_log_likelihood,
    posterior_positive_mean,
    shrink_eigenvalues,
    update_normal,
)
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.rows import item_sums, normalise_rows, row_norms, scatter_rows
from dpmc_core.stopping import check_cancelled

MAX_STATISTIC = 4.0  # the largest gain or square of one user that enters a release in full
_MAX_GATHERED = 4_000_000  # numbers gathered at once: 32 MB
_SHORT = 2  # a row with at most one rating for so many features has few ratings
_MAX_STRETCH = 1.5  # the largest factor by which a weighted row is stretched to its clip
# Prior standard deviations, in widths unless a unit is given.
_MEAN_STD = 0.25  # of the mean of all users about the middle, in half widths
_RATING_STD = 0.22  # of a rating about user and item effects
_USER_RATING_STD = 0.21  # the same, in a user's own regression
_EFFECT_STD = 0.08  # of the item effects; this guess counts as
_EFFECT_PSEUDO_COUNT = 20.0  # so many items
_TREND_STDS = (10.0, 0.02, 0.01)  # of the coefficients of 1, L, L^2, L the standardised log count
_FEATURE_TREND_STDS = (1e-5, 0.01, 0.03, 0.1)  # of the effects' slopes on features: one of these
_EFFECT_STD_GRID = np.geomspace(0.1, 5.0, 40)  # of the std of the effects, relative to the above
_USUAL_GAIN, _GAIN_STD, _GAIN_LIMITS = 1.1, 0.3, (0.4, 2.0)  # relative to that of unclipped rows
N_USER_COEFFICIENTS = 3  # of a user, besides item features and low-rank factors
USER_PSEUDO_RATINGS = 3.0  # ratings at the mean that every user is given
_POPULARITY_SLOPE_STD = 0.15 / 4  # of a user's slope on L
_EFFECT_SLOPE_STD = 0.5  # of a user's slope on the item effects, a plain number
# How much users differ, relative to the above: its prior standard deviation about 1, and limits.
_USER_VARIANCE_STD, _USER_VARIANCE_LIMITS = 0.5, (0.02, 4.0)
SLOPE_STD = 0.06  # of a user's slopes on the public features of items
SHARED_SLOPE_STD = SLOPE_STD / math.sqrt(1 + math.exp(0.5))  # where all users have one model
_SLOPE_SCALES = (0.5, 1.0, 2.0)  # of the above, among which each user's ratings decide
_FEATURES_LOG_ODDS = -0.5  # that a user has slopes on any features, before the ratings are seen
_NO_EFFECTS_LOG_ODDS = -1.0  # that a user's ratings are not about the item effects
_NOISE_PSEUDO_COUNT = 2.0  # ratings that the noise variance of the regression counts for
_MAX_GROUPS = 5  # of features, of which all subsets are compared
_MIN_SCALE, _SCALE_STD = 0.3, 0.3  # of one factor for all item effects, see `scale_down`
_LOW_RANK_STD = 0.05  # of the low-rank part, in the rule that decides about it
_MIN_RHO, _HALF_RHO, _MAX_LOW_RANK_SHARE = 8.0, 30.0, 0.95  # see `choose_low_rank_share`


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
                statistics = np.zeros((2, len(group.rows), n_coefficients + 1))
                statistics[0, :, :n_coefficients] = np.minimum(squares, MAX_STATISTIC)
                statistics[0, :, :n_coefficients] -= shrinkage * (1 - shrinkage)
                statistics[0, :, n_coefficients] = np.minimum(excess / group.counts, MAX_STATISTIC)
                statistics[0] /= MAX_STATISTIC
                statistics[1, :, :n_coefficients] = (1 - shrinkage) ** 2
                statistics[1, :, n_coefficients] = 1.0
                total += statistics.sum(axis=1)
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
        d, prior = len(ridge), np.linalg.inv(ridge)
        gathered = _gather_entries(self.item_features, chunk, values)
        for rows, index in chunk.iter_similar_rows():
            columns = gathered.take(index, axis=0)
            z, y = columns[:, :, :d], columns[:, :, d]
            transposed = np.swapaxes(z, 1, 2)
            if index.shape[1] > d // _SHORT:
                solved = z @ np.linalg.inv(transposed @ z + ridge)
            else:
                scaled = z @ prior
                solved = np.linalg.solve(np.eye(index.shape[1]) + scaled @ transposed, scaled)
            coefficients = (y[:, None] @ solved)[:, 0]
            yield RegressedRows(rows, chunk.counts[rows], index, y, z, solved, coefficients)


def _gather_entries(item_features: Floats, chunk: Pattern, *columns: Floats) -> Floats:
    """Return the features of each entry's item and further columns, and a last row of zeros.

    Args:
        item_features: shape (n, d).
        chunk: the rated pairs.
        columns: each of shape (n_entries,).

    Returns:
        Array of shape (n_entries + 1, d + n_columns).
    """
    d = item_features.shape[1]
    gathered = np.zeros((len(chunk.items) + 1, d + len(columns)))
    gathered[:-1, :d] = item_features.take(chunk.items, axis=0)
    for position, column in enumerate(columns, d):
        gathered[:-1, position] = column
    return gathered


class RidgeFits(NamedTuple):
    """Ridge regressions of k rows at one scale: of the ratings y, and of the item effects e.

    Attributes:
        volume: shape (k,), (log |L| - log |A|) / 2.
        squares: shape (k, 2, 2), what they leave of the products of y and e, ridge included.
        solutions: shape (k, 2, d).
    """

    volume: Floats
    squares: Floats
    solutions: Floats


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
            gathered = _gather_entries(
                regression.item_features, chunk, centered[span], item_effects.take(chunk.items)
            )
            products = np.empty((len(chunk.counts), d + 2, d + 2))
            is_long = np.zeros(len(chunk.counts), dtype=bool)
            for rows, index in chunk.iter_similar_rows():
                columns = gathered.take(index, axis=0)
                if index.shape[1] > d // _SHORT:
                    is_long[rows] = True
                    products[rows] = np.swapaxes(columns, 1, 2) @ columns
                else:
                    fits = self._fit_short_rows(regression, columns)
                    averages[users.start + rows] = self._average(
                        regression, chunk.counts[rows], fits
                    )
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
            kept = np.flatnonzero(scales)
            penalty = ridge[np.ix_(kept, kept)] / np.outer(scales[kept], scales[kept])
            columns, border = np.append(kept, [d, d + 1]), scalar * np.eye(len(kept) + 2)
            border[:-2, :-2] = penalty
            half_volume, explained, kept_solutions = _solve_bordered(
                products[:, columns[:, None], columns] + border
            )
            solutions = np.zeros((len(products), 2, d))
            solutions[:, :, kept] = kept_solutions
            volume = np.linalg.slogdet(penalty)[1] / 2 - half_volume
            yield RidgeFits(volume, products[:, d:, d:] - explained, solutions)

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
        z, transposed = columns[:, :, :-2], np.swapaxes(columns[:, :, -2:], 1, 2)
        scaled = z @ np.linalg.inv(regression.ridge)
        k, length, _ = z.shape
        bordered = np.empty((k, length + 2, length + 2))
        bordered[:, -2:, :-2] = transposed
        scalar = _NOISE_PSEUDO_COUNT * regression.noise_variance
        bordered[:, -2:, -2:] = transposed @ columns[:, :, -2:] + scalar * np.eye(2)
        for scales in np.unique(self.scales, axis=0):
            bordered[:, :-2, :-2] = np.eye(length) + ((z * scales**2) @ np.swapaxes(scaled, 1, 2))
            half_volume, squares, solutions = _solve_bordered(bordered)
            yield RidgeFits(-half_volume, squares, solutions @ scaled * scales**2)


def _solve_bordered(matrices: Floats) -> tuple[Floats, Floats, Floats]:
    """Solve A x = b for two right-hand sides b, by Cholesky's method.

    Args:
        matrices: shape (k, n + 2, n + 2), positive definite; each has A, and below it the two b.
            Only the lower triangle matters.

    Returns:
        log |A| / 2, shape (k,), the products b'x, shape (k, 2, 2), and x, shape (k, 2, n).
    """
    roots = np.asarray(np.linalg.cholesky(matrices), dtype=float)
    # With R R' = A, the last rows of each root are R^-1 b.
    projections, roots = roots[:, -2:, :-2], roots[:, :-2, :-2]
    diagonal = np.diagonal(roots, axis1=1, axis2=2)
    solutions = projections.copy()
    for column in reversed(range(roots.shape[1])):
        later = slice(column + 1, None)
        solved = np.einsum("kj,ksj->ks", roots[:, later, column], solutions[:, :, later])
        solutions[:, :, column] -= solved
        solutions[:, :, column] /= diagonal[:, column, None]
    half_volume = np.log(diagonal).sum(axis=1)
    return half_volume, projections @ np.swapaxes(projections, 1, 2), solutions


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
    with np.errstate(divide="ignore", invalid="ignore"):
        lengths = row_norms(entries, weights)
        scaled = values * (weights / entries.expand_rows(lengths))
        factor = np.minimum(_MAX_STRETCH, norm / row_norms(entries, scaled))
        gains = np.where(entries.counts > 0, np.sqrt(entries.counts) * factor / lengths, 0.0)
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
    regression = item_effects.build_user_regression(low_rank, SHARED_SLOPE_STD)
    for _, chunk, groups in regression.iter_chunks(Pattern.from_ratings(ratings), ratings.values):
        n_entries = len(chunk.items)
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


@dataclass(frozen=True, eq=False)
class ItemEffects:
    """What the releases so far say of the n items.

    Attributes:
        public: the public facts.
        mean: the mean of all users, in rating points.
        mean_variance: the posterior variance of the mean, in squared rating points.
        noisy_counts: shape (n,), the released sums of 1/sqrt(k) over an item's users.
        count_noise: the standard deviation of the noise on `noisy_counts`.
        weights: shape (n,), the weight of an item in a user's row.
        effects: shape (n,), posterior means of the item effects, in rating points.
        variances: shape (n,), their posterior variances, in squared rating points.
        user_variances: shape (N_USER_COEFFICIENTS + 1,), the variances of users' coefficients and
            of ratings about the regression, relative to the prior ones.
        item_features: shape (n, d), the public features of the items.
        scale_precision: the sum of 1/variance over estimates of one factor for all effects.
        scale_target: the sum of these estimates, each over its variance.
    """

    public: PublicFacts
    mean: float
    mean_variance: float
    noisy_counts: Floats
    count_noise: float
    weights: Floats
    effects: Floats
    variances: Floats
    user_variances: Floats = field(default_factory=lambda: np.ones(N_USER_COEFFICIENTS + 1))
    item_features: Floats = field(kw_only=True)
    scale_precision: float = 0.0
    scale_target: float = 0.0

    def select_most_rated(self, max_items: int) -> Ints | None:
        """Return the items with the largest released counts, in increasing order of their indices.

        Args:
            max_items: how many items are returned at most.

        Returns:
            Array of item indices; None: all items.
        """
        if self.public.items <= max_items:
            return None
        return np.sort(np.argsort(-self.noisy_counts, kind="stable")[:max_items])

    @classmethod
    def from_counts(
        cls,
        public: PublicFacts,
        mean: tuple[float, float],
        noisy_counts: Floats,
        count_noise: float,
        sums_noise: float,
        item_features: Floats,
    ) -> ItemEffects:
        """Return what is known before any sum of ratings is released: all effects are zero.

        Args:
            public: the public facts.
            mean: the mean of all users and its variance, in rating points.
            noisy_counts: shape (n,), the released counts.
            count_noise: the standard deviation of the noise on them.
            sums_noise: the standard deviation of the noise on the sums to come, in rating points.
            item_features: shape (n, d).
        """
        n = public.items
        variance = (_EFFECT_STD * public.width) ** 2
        weights = compute_item_weights(
            posterior_positive_mean(noisy_counts, count_noise), sums_noise / math.sqrt(variance)
        )
        return cls(
            *(public, *mean, noisy_counts, count_noise, weights, np.zeros(n)),
            np.full(n, variance),
            item_features=item_features,
        )

    @classmethod
    def from_public(
        cls, public: PublicFacts, item_features: Floats, mean: tuple[float, float] | None = None
    ) -> ItemEffects:
        """Return what is known without counts and sums: all items are alike but for features.

        Args:
            public: the public facts.
            item_features: shape (n, d).
            mean: the mean of all users and its variance, in rating points; None: the middle of the
                range with its prior variance.
        """
        mean = mean or (public.middle, (_MEAN_STD * public.half_width) ** 2)
        return cls.from_counts(
            public, mean, np.ones(public.items), 1.0, public.width, item_features
        )

    @property
    def counts(self) -> Floats:
        """The posterior means of the counts, shape (n,), all above 0; their prior is flat."""
        return posterior_positive_mean(self.noisy_counts, self.count_noise)

    @property
    def rating_variance(self) -> float:
        """The variance that a unit of squared weight adds to a sum, in squared rating points.

        A unit of count stands for as many users as 1/sqrt(k) is on average over ratings.
        """
        return (self.public.users / self.counts.sum()) * (_RATING_STD * self.public.width) ** 2

    def scale_down(self) -> ItemEffects:
        """Return the effects times one factor in [0, 1], as far as the rounds confirm them.

        The rounds' sums are about the residuals that the effects leave, and their noise is new: so
        they say how much of the effects is there. The prior mean of the factor is near 1 where the
        released counts stand out of their noise, and `_MIN_SCALE` where they drown in it: the flat
        prior of a count then makes the effects of rare items too large.
        """
        energy = max(float(np.mean(self.noisy_counts**2)) - self.count_noise**2, 0.0)
        reliability = energy / (energy + self.count_noise**2)
        prior_mean = _MIN_SCALE + (1 - _MIN_SCALE) * reliability
        target = prior_mean / _SCALE_STD**2 + self.scale_target
        scale = target / (1 / _SCALE_STD**2 + self.scale_precision)
        return replace(self, effects=min(max(scale, 0.0), 1.0) * self.effects)

    def compute_popularity(self) -> Floats:
        """Return the log count about its mean over ratings, of standard deviation one at most.

        Here the prior of counts is exponential, so that no item stands out where noise drowns them:
        its posterior is that of the flat prior with the noisy counts less noise variance / mean.

        Returns:
            Array of shape (n,), clipped to -3..3.
        """
        mean = max(self.noisy_counts.mean(), self.count_noise / math.sqrt(len(self.noisy_counts)))
        counts = posterior_positive_mean(
            self.noisy_counts - self.count_noise**2 / mean, self.count_noise
        )
        shares, logs = counts / counts.sum(), np.log(counts)
        logs = logs - shares @ logs
        return np.clip(logs / max(math.sqrt(shares @ logs**2), 1.0), -3.0, 3.0)

    def build_user_regression(
        self, low_rank: LowRankFactors | None = None, slope_std: float = SLOPE_STD
    ) -> UserRegression:
        """Return the regression of a user's ratings less mean and item effects.

        Its features are 1, popularity, the item effect about its mean, the public features about
        theirs, and the low-rank factors.

        Args:
            low_rank: the low-rank factors of the items; None: none.
            slope_std: the prior standard deviation of a user's slopes on the public features, in
                widths of the rating range.
        """
        width, counts = self.public.width, self.counts
        effects, item_features = (
            x - counts @ x / counts.sum() for x in (self.effects, self.item_features)
        )
        columns = [np.ones(len(effects)), self.compute_popularity(), effects, item_features]
        intercept_variance = (_USER_RATING_STD * width) ** 2 / USER_PSEUDO_RATINGS
        prior_variances = np.array(
            [
                intercept_variance + self.mean_variance,
                (_POPULARITY_SLOPE_STD * width) ** 2,
                _EFFECT_SLOPE_STD**2,
            ]
        )
        slope_variances = np.full(item_features.shape[1], (slope_std * width) ** 2)
        variances = np.append(self.user_variances[:-1] * prior_variances, slope_variances)
        precision, first = np.diag(1.0 / variances), len(variances)
        if low_rank is not None:
            columns.append(low_rank.item_factors)
            precision = np.pad(precision, (0, len(low_rank.user_moments)))
            precision[first:, first:] = np.linalg.inv(low_rank.user_moments)
        noise_variance = float(self.user_variances[-1]) * (_USER_RATING_STD * width) ** 2
        return UserRegression(
            np.column_stack(columns), precision, noise_variance, self.mean + self.effects
        )


class LowRankFactors(NamedTuple):
    """Factors of items, with the prior of users' factors.

    Attributes:
        item_factors: shape (n, r), in rating points.
        user_moments: shape (r, r), positive definite: E u u' of a user's factors u.
    """

    item_factors: Floats
    user_moments: Floats


class FactorLikelihood(NamedTuple):
    """What noisy sums say of each item's factors q: exp(t'q - q'Pq / 2).

    Attributes:
        precisions: P, shape (n, r, r).
        targets: t, shape (n, r).
    """

    precisions: Floats
    targets: Floats

    @classmethod
    def from_sums(
        cls,
        values: Floats,
        basis: Floats,
        sums: Floats,
        noise_variance: float,
        rating_variance: float,
    ) -> FactorLikelihood:
        """Return the likelihood of sums ~ N(A q, v I + s^2 A) of each item.

        Args:
            values: shape (n, r), the eigenvalues of A.
            basis: shape (n, r, r), the eigenvectors of A, or (r, r) where all items share them.
            sums: shape (n, r).
            noise_variance: v.
            rating_variance: s^2.
        """
        weights, transposed = values / (noise_variance + rating_variance * values), basis.mT
        precisions = (basis * (weights * values)[:, None]) @ transposed
        targets = (weights[:, None] * (sums[:, None] @ basis)) @ transposed
        return cls(precisions, targets[:, 0])


def compute_item_weights(counts: Floats, drowned_count: float) -> Floats:
    """Return the weight of an item in a user's row: (N + drowned_count)^(-1/2).

    Where noise is small, N^(-1/2) leaves the least error over ratings; more weight for items that
    noise drowns would be wasted. The weights are scaled to mean square one over ratings.

    Args:
        counts: N, shape (n,).
        drowned_count: the noise of the sums over the standard deviation of the effects, which is
            the count at which they are equal.

    Returns:
        Array of shape (n,).
    """
    weights = 1.0 / np.sqrt(counts + drowned_count)
    return weights / math.sqrt(counts @ weights**2 / counts.sum())


def estimate_mean_of_users(
    total: float, count: float, noise: float, public: PublicFacts
) -> tuple[float, float]:
    """Estimate the mean of the users' means and its variance from noisy sums over users.

    Args:
        total: the noisy sum of (mean - middle) / half width.
        count: the noisy number of users with ratings.
        noise: the standard deviation of the noise on both.
        public: the public facts.

    Returns:
        The mean in rating points, and its posterior variance in squared rating points.
    """
    count = min(max(count, public.users / 2), public.users)
    noisy_mean = min(max(total / count, -1.0), 1.0)
    mean, variance = update_normal(noisy_mean, 1.0, (noise / count) ** 2, _MEAN_STD**2)
    half_width = public.half_width
    return public.middle + half_width * float(mean), float(variance) * half_width**2


def estimate_mean_gain(total: float, noise: float, public: PublicFacts) -> float:
    """Estimate the users' average gain.

    Args:
        total: the noisy sum of gains over MAX_STATISTIC.
        noise: the standard deviation of its noise.
        public: the public facts.
    """
    unit = MAX_STATISTIC / public.users
    prior_variance = (_GAIN_STD * _USUAL_GAIN) ** 2
    mean, _ = update_normal(unit * total, 1.0, (unit * noise) ** 2, prior_variance, _USUAL_GAIN)
    low, high = _GAIN_LIMITS
    return min(max(float(mean), low * _USUAL_GAIN), high * _USUAL_GAIN)


def estimate_item_effects(
    prior: ItemEffects, sums: Floats, noise: float, gain: float
) -> ItemEffects:
    """Return the item effects, given each item's noisy weighted sum of users' residuals.

    With counts N, weights a and the average gain f, S_j ~ N(n_j b_j, noise^2 + n_j a_j f v), where
    n_j = N_j a_j f and v is `rating_variance`. The effects b are normal about a trend in the log of
    n_j and in the public features. Their standard deviation about the trend, and that of the slopes
    on the features, maximise the marginal likelihood on a grid.

    Args:
        prior: what is known of the items so far.
        sums: S, shape (n,), in rating points.
        noise: the standard deviation of the noise on S.
        gain: f, the average gain of the users.
    """
    width = prior.public.width
    reach = prior.counts * prior.weights * gain  # n: by how much S moves with an effect
    noise_variances = (noise**2 + reach * prior.weights * gain * prior.rating_variance) / reach**2
    noisy_effects = sums / reach
    logs = np.log(reach)
    logs = (logs - logs.mean()) / max(logs.std(), 1e-9)
    trend = np.hstack([np.vander(logs, 3, increasing=True), prior.item_features])
    n_features = prior.item_features.shape[1]
    best = -math.inf
    for variance in (_EFFECT_STD * width * _EFFECT_STD_GRID) ** 2:
        precisions = 1.0 / (noise_variances + variance)
        squares = trend.T @ (trend * precisions[:, None])
        moments = trend.T @ (precisions * noisy_effects)
        ratio = (_EFFECT_STD * width) ** 2 / variance
        for slope_std in _FEATURE_TREND_STDS if n_features else _FEATURE_TREND_STDS[:1]:
            stds = np.array([*_TREND_STDS, *[slope_std] * n_features]) * width
            normal = squares + np.diag(stds**-2)
            slopes = np.linalg.solve(normal, moments)
            means = trend @ slopes
            # Twice the log likelihood, with the slopes integrated over their prior.
            likelihood = 2 * normal_log_likelihood(noisy_effects - means, 1 / precisions)
            likelihood += _EFFECT_PSEUDO_COUNT * (math.log(ratio) - ratio)
            likelihood -= np.linalg.slogdet(normal)[1]
            likelihood += 2 * normal_log_likelihood(slopes[3:], stds[3:] ** 2)
            if likelihood > best:
                best = likelihood
                best_effects = noisy_effects, 1.0, noise_variances, variance, means
    effects, variances = update_normal(*best_effects)
    return replace(prior, effects=effects, variances=variances)


def refine_item_effects(
    prior: ItemEffects, sums: Floats, noise: float, gain: float, share: float
) -> ItemEffects:
    """Return the item effects after noisy weighted sums of residuals about them.

    As in `estimate_item_effects`, with the change c of the effects in place of b: S_j ~ N(n_j c_j,
    noise^2 + share N_j a_j^2 f^2 v) with n_j = sqrt(share) N_j a_j f. The prior of c_j has the
    posterior variance of the effect.

    Args:
        prior: what is known of the items so far.
        sums: shape (n,), in rating points.
        noise: the standard deviation of the noise on the sums.
        gain: the average gain of the users.
        share: the share of the squared length of a user's row that went into the sums.
    """
    root = math.sqrt(share)
    reach = root * prior.counts * prior.weights * gain
    noise_variances = noise**2 + root * reach * prior.weights * gain * prior.rating_variance
    changes, variances = update_normal(sums, reach, noise_variances, prior.variances)
    # Residuals of the effects e are (q - 1) e where the true effects are q e. So the sums over
    # `unit` estimate (q - 1) N e, and their product with e estimates (q - 1) times the energy.
    unit = root * prior.weights * gain
    energy = max(float(estimate_count_mixture(prior) @ prior.effects**2), SMALLEST)
    scale = 1 + float(prior.effects @ (sums / unit)) / energy
    precision = (energy / (noise * max(float(np.linalg.norm(prior.effects / unit)), SMALLEST))) ** 2
    return replace(
        prior,
        effects=prior.effects + changes,
        variances=variances,
        scale_precision=prior.scale_precision + precision,
        scale_target=prior.scale_target + precision * scale,
    )


def estimate_count_mixture(item_effects: ItemEffects) -> Floats:
    m, n = item_effects.public.shape
    noisy, noise = item_effects.noisy_counts, item_effects.count_noise
    grid = np.exp(np.arange(math.log(0.02 * m / n), math.log(max(m, 2 * 0.02 * m / n)) + 0.25, 0.5))
    from scipy.special import log_ndtr
    z = (noisy[:, None] - noise**2 / grid) / noise  # exponential tilts
    logl = -np.log(grid) + noise**2 / (2 * grid**2) - noisy[:, None] / grid + log_ndtr(z)
    mills = np.exp(-0.5 * z * z - 0.5 * math.log(2 * math.pi) - log_ndtr(z))
    mean_k = np.maximum(noise * (z + mills), 1e-9)
    best = []
    centre = math.log(2.5 * m / n)
    for spread in (0.5, 1.0, 1.5, 2.0):
        for M in centre + np.linspace(-1.5, 1.5, 13):
            lw = -0.5 * ((np.log(grid) - M) / spread) ** 2
            lw -= np.logaddexp.reduce(lw)
            t = logl + lw
            ev = np.logaddexp.reduce(t, axis=1)
            best.append((ev.sum() - 0.5 * ((M - centre) / 0.5) ** 2, t - ev[:, None]))
    evs = np.array([b[0] for b in best]); w = np.exp(evs - evs.max()); w /= w.sum()
    r = sum(wi * np.exp(b[1]) for wi, b in zip(w, best) if wi > 1e-6)
    r /= r.sum(axis=1, keepdims=True)
    mean = (r * mean_k).sum(1)
    return np.maximum(mean, 1e-6)


def estimate_user_variances(prior: ItemEffects, sums: Floats, noise: float) -> ItemEffects:
    """Return the item effects with how much users differ, from noisy sums over users.

    Args:
        prior: what is known so far.
        sums: shape (2, N_USER_COEFFICIENTS + 1), as of `UserRegression.sum_coefficient_variation`.
        noise: the standard deviation of the noise on the sums.
    """
    ratios, _ = update_normal(
        MAX_STATISTIC * sums[0],
        np.maximum(sums[1], 0.0),
        (MAX_STATISTIC * noise) ** 2,
        _USER_VARIANCE_STD**2,
        prior_mean=1.0,
    )
    variances = np.clip(prior.user_variances * ratios, *_USER_VARIANCE_LIMITS)
    return replace(prior, user_variances=variances)


def choose_low_rank_share(item_effects: ItemEffects, clip: float, mu: float) -> float:
    """Return the share of a round that goes into low-rank factors, by how clear they would be.

    It is rho / (rho + 30), at most 0.95, and 0 below rho = 8. rho is the mean of the squared counts
    less their noise, times the squared standard deviation of the low-rank part, over (clip / mu)^2,
    the squared noise of the whole budget on rows of norm `clip`.

    Args:
        item_effects: the item effects, with the released counts.
        clip: the l2 norm of a row, in rating points.
        mu: the whole budget.
    """
    counts, width = item_effects.noisy_counts, item_effects.public.width
    energy = max((counts**2).sum() - len(counts) * item_effects.count_noise**2, 0.0)
    rho = energy * (_LOW_RANK_STD * width * mu / clip) ** 2 / len(counts)
    return min(rho / (rho + _HALF_RHO), _MAX_LOW_RANK_SHARE) if rho >= _MIN_RHO else 0.0


def start_low_rank(item_effects: ItemEffects, random: Floats) -> LowRankFactors:
    """Return low-rank factors to begin with: popularity, the item effects, then random ones.

    Args:
        item_effects: the item effects.
        random: shape (n, r), N(0, 1).
    """
    factors, rank, width = random.copy(), random.shape[1], item_effects.public.width
    effects = item_effects.effects
    standardised = (effects - effects.mean()) / max(effects.std(), 1e-9 * width)
    start = np.column_stack([item_effects.compute_popularity(), standardised])[:, :rank]
    factors[:, : start.shape[1]] = start
    return LowRankFactors(_EFFECT_STD * width * factors, np.eye(rank) / rank)


def estimate_low_rank(
    item_effects: ItemEffects,
    sums: Floats,
    noise: float,
    gain: float,
    moments: Floats,
    previous: FactorLikelihood | None = None,
) -> tuple[LowRankFactors, FactorLikelihood]:
    """Estimate low-rank factors from noisy sums of residuals times the users' unit vectors.

    With n_j = N_j f and v the `rating_variance`, row j is N(n_j K q_j, noise^2 I + n_j f v K).
    Directions that noise drowns come out as zero. The round before says almost the same of the
    factors, with other noise, so both likelihoods are multiplied.

    Args:
        item_effects: the item effects.
        sums: shape (n, r), in rating points.
        noise: the standard deviation of the noise on the sums.
        gain: f, the average gain of the users.
        moments: K, shape (r, r), the noisy mean of u u' over users.
        previous: what the sums of the round before say; None: no round before.

    Returns:
        The factors, and what these sums alone say of them.
    """
    values, basis = np.linalg.eigh(0.5 * (moments + moments.T))
    values = np.clip(values, 0.1 / len(moments), 1.0)
    reach = item_effects.counts[:, None] * gain
    likelihood = FactorLikelihood.from_sums(
        reach * values, basis, sums, noise**2, gain * item_effects.rating_variance
    )
    precisions, targets = likelihood
    if previous is not None:
        precisions, targets = precisions + previous.precisions, targets + previous.targets
    start_variance = (_EFFECT_STD * item_effects.public.width) ** 2
    factors = fit_normal_prior(precisions, targets, start_variance)
    return LowRankFactors(factors, (basis * values) @ basis.T), likelihood


def estimate_item_factors(squares: Floats, moments: Floats, noise: float, width: float) -> Floats:
    """Estimate item factors from noisy normal equations, shrunk by what the noise says.

    b_j ~ N(A_j q_j, noise^2 I + s^2 A_j) with the item factors q_j ~ N(0, G).

    Args:
        squares: A, shape (n, r, r), positive semidefinite.
        moments: b, shape (n, r).
        noise: the standard deviation of the noise on b.
        width: of the rating range, in rating points.

    Returns:
        Array of shape (n, r).
    """
    values, basis = np.linalg.eigh(squares)
    values, rating_variance = np.maximum(values, 0.0), (_RATING_STD * width) ** 2
    likelihood = FactorLikelihood.from_sums(values, basis, moments, noise**2, rating_variance)
    # EM starts from 1, as users' factors are in rating points.
    return fit_normal_prior(*likelihood, 1.0)


def estimate_low_rank_from_gram(
    item_effects: ItemEffects,
    values: Floats,
    vectors: Floats,
    edge: float,
    n_pairs: float,
    columns: Ints | None = None,
) -> LowRankFactors | None:
    """Estimate low-rank factors from a noisy Gram matrix of the users' residual rows.

    Args:
        item_effects: the item effects.
        values: shape (k,), leading eigenvalues of the matrix off its diagonal, as only that holds
            low-rank factors.
        vectors: shape (n_columns, k), their eigenvectors.
        edge: the largest eigenvalue of the noise.
        n_pairs: the (weighted) number of pairs of ratings in the matrix, spread over items as N_j
            N_k.
        columns: shape (n_columns,), the items of the matrix; None: all.

    Returns:
        The factors; None where everything is noise.
    """
    strengths = shrink_eigenvalues(values, edge)
    is_clear = strengths > 0
    if not is_clear.any():
        return None
    strengths, vectors = strengths[is_clear], vectors[:, is_clear]
    counts = item_effects.counts if columns is None else item_effects.counts[columns]
    reach = math.sqrt(max(n_pairs, 1.0)) * counts / counts.sum()
    noisy_factors = vectors * np.sqrt(strengths)  # about reach x factor
    noise_variances = (edge / 2) ** 2 / len(vectors) / strengths
    prior_variances = (noisy_factors**2).sum(axis=0) / (reach @ reach)
    factors, _ = update_normal(noisy_factors, reach[:, None], noise_variances, prior_variances)
    return LowRankFactors(
        scatter_rows(factors, columns, item_effects.public.items), np.eye(len(strengths))
    )
