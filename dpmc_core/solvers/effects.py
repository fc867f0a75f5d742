"""Item effects and taste from what users' rows released with noise, and each user's own regression.

The first half is what users do with their own rows, given public item features: a ridge regression
and bounded sums. The second half sees no raw data: each user with k ratings entered a count with
1/sqrt(k) and a sum with weights of unit length, so that one row moves an answer equally far
whatever its length. What an item was released as is then normal about a known multiple of its
effect, with a known variance, and is shrunk accordingly (empirical Bayes); how the effects vary
over items is estimated from the same answers.

Letters: N counts, b effects, V their variances, a weights of the items, f the average gain of the
users (see `weighted_rows`), W the width of the rating range.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from dpmc_core.arrays import Floats, Ints
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.rows import (
    item_sums,
    normal_equations,
    normalise_rows,
    posterior_positive_mean,
    row_norms,
    row_sums,
    scatter_rows,
)
from dpmc_core.stopping import check_cancelled

MOST = 4.0  # of a user's gain or square, as released
_BLOCK = 4_000_000  # numbers gathered at once: 32 MB
_SHORT = 4  # a row with one cell for so many features, or fewer, has few cells
_LARGEST_FACTOR = 1.5  # by which a weighted row may be stretched to its clip
# What is believed beforehand, in widths of the rating range unless a unit is given.
_MEAN_SPREAD = 0.25  # sd of the mean of all users about the middle, in half widths
_RATING_SD = 0.22  # of a rating about user and item effects
_OWN_SD = 0.21  # the same, as the user's own regression takes it
_EFFECT_SD = 0.08  # of the item effects, with as much weight as
_EFFECT_PSEUDO = 20.0  # so many items
_TREND_SDS = (10.0, 0.02, 0.01)  # of the coefficients of 1, L, L^2, L the standardised log count
_GAIN, _GAIN_SPREAD, _GAIN_LIMITS = 1.1, 0.3, (0.4, 2.0)  # relative to the gain of unclipped rows
OWN = 3  # coefficients of a user besides taste
OWN_PSEUDO = 3.0  # ratings at the mean that every user is given
_OWN_TREND, _OWN_SLOPE = 0.15 / 4, 0.5  # sds of a user's slopes on L (widths) and b (plain)
_OWN_SPREAD, _OWN_LIMITS = 0.5, (0.02, 4.0)  # of what users differ by, relative to the above
SLOPE_STD = 0.06  # of a user's slopes on the public features of items
SHARED_SLOPE_STD = SLOPE_STD / math.sqrt(1 + math.exp(0.5))  # where all users have one model
_SLOPE_SCALES = (0.5, 1.0, 2.0)  # of the above, among which each user's ratings decide
_FEATURES_LOG_ODDS = -0.5  # of slopes on any features, before a user's ratings are seen
_NO_EFFECTS_LOG_ODDS = -1.0  # that item effects say nothing of a user's ratings
_NOISE_PSEUDO = 2.0  # ratings that support the variance about the regression
_MAX_GROUPS = 5  # of features, of which all subsets are compared
_FACT_TRENDS = (1e-5, 0.01, 0.03, 0.1)  # of the effects' slopes on it, one of these
_TASTE_SD = 0.05  # of taste, in the rule that decides about it
_TASTE_LEAST, _TASTE_HALF, _TASTE_MOST = 8.0, 30.0, 0.95  # of rho; see `taste_share`
_GRID = np.geomspace(0.1, 5.0, 40)  # of the sd of the effects, relative to the above
_WOBBLE = 1.05  # of the edge of a noise matrix
_ROUNDS = 30  # of EM


class Block(NamedTuple):
    """Some whole rows, each regressed on the features of its items.

    Attributes:
        rows: the slice of the k rows.
        pattern: their cells, c of them.
        values: shape (c,), the values regressed.
        features: shape (n, d), of all items.
        solved: shape (c, d), A^-1 times the features of each cell, A = Z'Z + noise precision of its
            row.
        coefficients: shape (k, d).
    """

    rows: slice
    pattern: Pattern
    values: Floats
    features: Floats
    solved: Floats
    coefficients: Floats

    def residuals(self) -> Floats:
        """Return what the regression leaves of each cell, shape (c,)."""
        fitted = np.einsum(
            "kj,kj->k",
            self.features.take(self.pattern.items, axis=0),
            self.coefficients.take(self.pattern.users, axis=0),
        )
        left: Floats = self.values - fitted
        return left

    def left_out(self) -> tuple[Floats, Floats]:
        """Regress every cell on the other cells of its row.

        Returns:
            The residual of each cell, shape (c,), and the coefficients of that regression, shape
            (c, d).
        """
        x, own = self.features.take(self.pattern.items, axis=0), self.pattern.users
        leverage = np.einsum("kj,kj->k", x, self.solved)
        residual = self.residuals() / np.maximum(1.0 - leverage, 1e-9)
        others = self.coefficients.take(own, axis=0) - self.solved * residual[:, None]
        others[self.pattern.expand_rows(self.pattern.counts == 1)] = 0.0  # not what rounding leaves
        return residual, others


class Design(NamedTuple):
    """A user's regression of values on the features of the rated items.

    Nothing here looks at two rows at once, so one changed row never changes what another user
    finds, not even in the last bit: sums run along a row, and no product mixes rows.

    Attributes:
        features: shape (n, d), of the items.
        precision: shape (d, d), the inverse prior covariance of the coefficients.
        noise: the variance of the values about the regression.
        offsets: shape (n,), of the items, subtracted from the values first; None: zeros.
    """

    features: Floats
    precision: Floats
    noise: float
    offsets: Floats | None = None

    def coefficients(self, cells: Pattern, values: Floats) -> Floats:
        """Return the ridge solution of each row.

        Args:
            cells: the rated cells, sorted by user.
            values: shape (n_cells,).

        Returns:
            Array of shape (users, d); zeros for a row without cells.
        """
        found = np.zeros((cells.shape[0], self.features.shape[1]))
        for block in self.blocks(cells, values):
            found[block.rows] = block.coefficients
        return found

    def differences(self, cells: Pattern, values: Floats, count: int) -> Floats:
        """Sum over users how much their coefficients differ relative to the prior.

        Of a coefficient theta the posterior variance is p times the variance beforehand. Then E
        theta^2 over that variance is (1 - p)^2 x + p (1 - p) where the true variance is x times the
        one beforehand: the first row sums theta^2 less p (1 - p) <= 1/4 over MOST, which may be
        negative, the second (1 - p)^2, for the first `count` coefficients. The last column has the
        mean square of a row about the regression over the noise, and 1. The ratio of the two rows
        estimates x / MOST.

        Args:
            cells: the rated cells, sorted by user.
            values: shape (n_cells,), in rating points.
            count: how many of the d coefficients are compared.

        Returns:
            Array of shape (2, count + 1); each user adds numbers in [-1/16, 1].
        """
        total = np.zeros((2, count + 1))
        for block in self.blocks(cells, values):
            part = block.pattern
            inside = part.counts
            learnt = row_sums(part, block.solved * self.features.take(part.items, axis=0))
            kept = 1 - learnt[:, :count]
            squares = (block.coefficients**2 * np.diag(self.precision))[:, :count]
            left = row_sums(part, block.residuals() ** 2) / self.noise + learnt.sum(axis=1)
            shown = np.zeros((2, len(inside), count + 1))
            shown[0, :, :count] = np.minimum(squares, MOST) - kept * (1 - kept)
            shown[0, :, count] = np.minimum(left / np.maximum(inside, 1), MOST)
            shown[0] /= MOST
            shown[1, :, :count] = (1 - kept) ** 2
            shown[1, :, count] = 1.0
            total += shown[:, inside > 0].sum(axis=1)
        return total

    def blocks(self, cells: Pattern, values: Floats) -> Iterator[Block]:
        """Solve the ridge regression of every row, in blocks of whole rows.

        A row with few cells is solved by as many equations as it has cells (the matrix inversion
        lemma). Only the length of a row decides how it is solved.

        Args:
            cells: the rated cells, sorted by user.
            values: shape (n_cells,).
        """
        d, prior = len(self.precision), np.linalg.inv(self.noise * self.precision)
        for rows, k, part in cells.iter_chunks(_BLOCK // d, 1 + _BLOCK // d**2):
            own, x = values[k], self.features.take(part.items, axis=0)
            if self.offsets is not None:
                own = own - self.offsets.take(part.items)
            solved = np.empty_like(x)
            long = part.counts > d // _SHORT
            for length in np.unique(part.counts[~long]):
                of = np.flatnonzero(part.counts == length)
                places = part.indptr[of][:, None] + np.arange(length)
                scaled = x[places] @ prior
                inner = np.eye(length) + scaled @ np.swapaxes(x[places], 1, 2)
                solved[places] = np.linalg.solve(inner, scaled)
            if long.any():
                inside, rest = part.expand_rows(long), part.build_matrix(own)[long]
                squares, _ = normal_equations(rest, self.features)
                squares += self.noise * self.precision
                inverse = np.asarray(np.linalg.inv(squares))
                solved[inside] = _along_rows(Pattern.from_matrix(rest), x[inside], inverse)
            found = row_sums(part, solved * own[:, None])
            yield Block(rows, part, own, self.features, solved, found)


class UserModels(NamedTuple):
    """The regressions over which a user averages: which features, how strongly, with what effects.

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
            prior = -math.log(math.comb(n_groups, len(chosen)))
            if chosen:
                prior += _FEATURES_LOG_ODDS - math.log(len(_SLOPE_SCALES))
            for scale in _SLOPE_SCALES if chosen else (1.0,):
                slopes = scale * np.isin(groups, chosen)
                scales = np.concatenate([np.ones(OWN), slopes, np.ones(n_factors)])
                models.append((scales, 1.0, prior))
                if len(chosen) in (0, n_groups):
                    models.append((scales, 0.0, prior + _NO_EFFECTS_LOG_ODDS))
        return cls(*(np.array(column) for column in zip(*models, strict=True)))

    def average(
        self, design: Design, entries: Pattern, centered: Floats, effects: Floats
    ) -> Floats:
        """Average each user's ridge solutions, weighted by the evidence in the user's own ratings.

        A model keeps the columns Z of its features and has the ridge L = noise x precision, divided
        by its scales. With y the centred ratings, less item effects where it uses them, A = Z'Z +
        L, theta = A^-1 Z'y and k ratings, its log evidence is log |L| / 2 - log |A| / 2 - (2 + k)/2
        log(2 noise + y'y - theta'Z'y).

        Args:
            design: the regression on all features at scale 1; its offsets are not used.
            entries: the rated cells, sorted by user.
            centered: shape (n_cells,), ratings less the mean.
            effects: shape (n,), the item effects.

        Returns:
            Array of shape (users, d + 1): the averaged coefficients, and the weight of the item
            effects.
        """
        d, n_models = len(design.precision), len(self.log_priors)
        ridge = np.zeros((d + 1, d + 1))
        ridge[:d, :d] = design.noise * design.precision
        ridge[d, d] = _NOISE_PSEUDO * design.noise
        averages = np.empty((entries.shape[0], d + 1))
        for rows, span, chunk in entries.iter_chunks(
            _BLOCK // d, 1 + _BLOCK // (d * max(d, n_models))
        ):
            offsets = effects.take(chunk.items)
            squares, moments = normal_equations(chunk.build_matrix(centered[span]), design.features)
            offset_moments = np.asarray(chunk.build_matrix(offsets) @ design.features)
            matrices = {}  # Z'Z, Z'y and y'y in one, by the weight of the item effects in y
            for weight in (0.0, 1.0):
                totals = row_sums(chunk, (centered[span] - weight * offsets) ** 2)
                matrices[weight] = _border(squares, moments - weight * offset_moments, totals)
            log_weights = np.empty((n_models, len(chunk.counts)))
            coefficients = np.zeros((*log_weights.shape, d))
            for model, (scales, weight, log_prior) in enumerate(zip(*self, strict=True)):
                check_cancelled()
                kept = np.append(np.flatnonzero(scales), d)
                factors = np.append(scales, 1.0)[kept]
                penalty = ridge[np.ix_(kept, kept)] / np.outer(factors, factors)
                roots = np.linalg.cholesky(matrices[weight][:, kept[:, None], kept] + penalty)
                # The last of each root's diagonal squared is 2 noise + y'y - theta'Z'y.
                log_diagonal = np.log(np.diagonal(roots, axis1=1, axis2=2))
                volume = np.linalg.slogdet(penalty[:-1, :-1])[1] / 2 - log_diagonal[:, :-1].sum(1)
                spread = (_NOISE_PSEUDO + chunk.counts) * log_diagonal[:, -1]
                log_weights[model] = log_prior + volume - spread
                coefficients[model][:, kept[:-1]] = _solve_transposed(roots)
            weights = np.exp(log_weights - log_weights.max(axis=0))
            weights /= weights.sum(axis=0)
            averages[rows, :d] = np.einsum("mk,mkd->kd", weights, coefficients)
            averages[rows, d] = np.einsum("mk,m->k", weights, self.effect_weights)
        return averages


def _border(squares: Floats, moments: Floats, totals: Floats) -> Floats:
    """Return each matrix with one more row and column.

    Args:
        squares: shape (k, d, d).
        moments: shape (k, d), the new row and column without their corner.
        totals: shape (k,), the corners.

    Returns:
        Array of shape (k, d + 1, d + 1).
    """
    k, d = moments.shape
    bordered = np.empty((k, d + 1, d + 1))
    bordered[:, :d, :d], bordered[:, d, d] = squares, totals
    bordered[:, :d, d] = bordered[:, d, :d] = moments
    return bordered


def _solve_transposed(roots: Floats) -> Floats:
    """Solve R't = r of each Cholesky root, R all but its last row and column, r its last row.

    Args:
        roots: shape (k, d + 1, d + 1), lower triangular.

    Returns:
        Array of shape (k, d).
    """
    solutions = roots[:, -1, :-1].copy()
    for column in reversed(range(solutions.shape[1])):
        later = slice(column + 1, solutions.shape[1])
        known = np.einsum("kj,kj->k", roots[:, later, column], solutions[:, later])
        solutions[:, column] = (solutions[:, column] - known) / roots[:, column, column]
    return solutions


def _along_rows(cells: Pattern, x: Floats, matrices: Floats) -> Floats:
    """Each cell's numbers times the matrix of its row; x: c x d, matrices: k x d x d."""
    from scipy.sparse import csr_array

    (c, d), k = x.shape, len(matrices)
    # Each cell's numbers, where its row's matrix is in the stack of all of them.
    places = (cells.users[:, None] * np.int32(d) + np.arange(d, dtype=np.int32)).ravel()
    starts = np.arange(0, c * d + 1, d, dtype=np.int32)
    spread = csr_array((x.ravel(), places, starts), shape=(c, k * d))
    return np.asarray(spread @ matrices.reshape(-1, d))


def weighted_rows(
    cells: Pattern, values: Floats, weights: Floats, norm: float
) -> tuple[Floats, Floats]:
    """Multiply values by weights of unit length in each row, and bring the rows to l2 norm `norm`.

    A row shorter than `norm` is stretched, by 1.5 at most. A user's gain is sqrt(cells) times the
    factor over the length of the own weights, so that a cell enters with gain x weight /
    sqrt(cells).

    Args:
        cells: the cells, sorted by user.
        values: shape (n_cells,).
        weights: shape (n_cells,), positive.
        norm: the largest l2 norm of a row, in the unit of the values.

    Returns:
        The weighted values, shape (n_cells,), and the gains, shape (users,).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        lengths = row_norms(cells, weights)
        scaled = values * (weights / cells.expand_rows(lengths))
        factor = np.minimum(_LARGEST_FACTOR, norm / row_norms(cells, scaled))
        gain = np.where(cells.counts > 0, np.sqrt(cells.counts) * factor / lengths, 0.0)
    return scaled * cells.expand_rows(factor), gain


def round_statistics(
    ratings: Ratings,
    items: ItemEffects,
    taste: Taste | None,
    rank: int,
    share: float,
    norm: float,
) -> tuple[Floats, Floats]:
    """Sum over users what a round asks of them; one user's part is bounded.

    Args:
        ratings: the users' ratings.
        items: what is believed of the n items.
        taste: the directions of taste, None at the start.
        rank: the number of directions of taste.
        share: the share of a row's squared length that goes into taste, phi.
        norm: the l2 norm C of a row, in rating points.

    Returns:
        Sums of shape (n, rank + 1): residuals of the regression on the row's other cells, weighted
        by item, in rows of l2 norm sqrt(1 - share) norm; then residuals about all but taste, times
        the unit vector of the taste in the row's other cells, in rows of norm sqrt(share) norm.
        Moments of shape (rank^2 + 2,): products u u' of the unit vectors of taste, and the gains of
        either weighting over MOST, at most 1.
        All that is about taste is zero where share is 0.
    """
    sums, moments = np.zeros((ratings.public.items, rank + 1)), np.zeros(rank * rank + 2)
    for rows in items.design(taste, SHARED_SLOPE_STD).blocks(
        Pattern.from_ratings(ratings), ratings.values
    ):
        part, (residual, others) = rows.pattern, rows.left_out()
        scaled, gains = weighted_rows(part, residual, items.weights[part.items], norm)
        sums[:, 0] += item_sums(part, math.sqrt(1 - share) * scaled)
        moments[-2] += bounded_gain(gains)
        if share > 0:
            tastes = others[:, -rank:]
            directions = rows.features[:, -rank:].take(part.items, axis=0)
            about = residual + np.einsum("kr,kr->k", directions, tastes)
            scaled, gains = weighted_rows(part, about, np.ones_like(about), norm)
            for column, direction in enumerate(normalise_rows(tastes).T, 1):
                sums[:, column] += item_sums(part, math.sqrt(share) * scaled * direction)
            unit = normalise_rows(rows.coefficients[:, -rank:])
            moments[:-2] += (unit.T @ unit).ravel()
            moments[-1] += bounded_gain(gains)
    return sums, moments


def bounded_gain(gains: Floats) -> float:
    """Return the sum of the users' gains over MOST, at most 1 each.

    Args:
        gains: shape (users,).
    """
    return float((np.minimum(gains, MOST) / MOST).sum())


@dataclass(frozen=True, eq=False)
class ItemEffects:
    """What is believed of the n items.

    Attributes:
        public: the public facts.
        mean: of all users, in rating points.
        doubt: the variance of the mean, in squared rating points.
        raw: shape (n,), the sums of 1/sqrt(k) over an item's users, as released.
        noise: the standard deviation of the noise on `raw`.
        weights: shape (n,), of an item in a user's row.
        effects: shape (n,), in rating points.
        variances: shape (n,), of the effects, in squared rating points.
        own: shape (OWN + 1,), the variances of users' coefficients and ratings, relative to the
            usual ones.
        features: shape (n, d), what is publicly known of the items.
    """

    public: PublicFacts
    mean: float
    doubt: float
    raw: Floats
    noise: float
    weights: Floats
    effects: Floats
    variances: Floats
    own: Floats = field(default_factory=lambda: np.ones(OWN + 1))
    features: Floats = field(kw_only=True)

    def most_rated(self, most: int) -> Ints | None:
        """Return at most `most` items with the largest released counts, in increasing order.

        Returns:
            Array of item indices; None: all items.
        """
        if self.public.items <= most:
            return None
        return np.sort(np.argsort(-self.raw, kind="stable")[:most])

    @classmethod
    def counted(
        cls,
        public: PublicFacts,
        mean: tuple[float, float],
        raw: Floats,
        noise: float,
        sums_noise: float,
        features: Floats,
    ) -> ItemEffects:
        """Return what is known before any sum of ratings: no effects.

        Args:
            public: the public facts.
            mean: the mean of all users and its variance, in rating points.
            raw: shape (n,), the released counts.
            noise: the standard deviation of the noise on them.
            sums_noise: the standard deviation of the noise on the sums to come, in rating points.
            features: shape (n, d).
        """
        n = public.items
        variance = (_EFFECT_SD * public.width) ** 2
        weights = item_weights(
            posterior_positive_mean(raw, noise), sums_noise / math.sqrt(variance)
        )
        return cls(
            *(public, *mean, raw, noise, weights, np.zeros(n), np.full(n, variance)),
            features=features,
        )

    @classmethod
    def unknown(
        cls, public: PublicFacts, features: Floats, mean: tuple[float, float] | None = None
    ) -> ItemEffects:
        """Return what is known without any release: features, and every item is like any other.

        Args:
            public: the public facts.
            features: shape (n, d).
            mean: the mean of all users and its variance, in rating points; None: the middle of the
                range.
        """
        n = public.items
        mean = mean or mean_of_users(0.0, 0.0, math.inf, public)
        return cls.counted(public, mean, np.ones(n), 1.0, public.width, features)

    @property
    def counts(self) -> Floats:
        """The believed counts, shape (n,), all above 0: the posterior mean under a flat prior."""
        return posterior_positive_mean(self.raw, self.noise)

    @property
    def spread(self) -> float:
        """The users per unit of count: the average of 1/sqrt(k) over ratings."""
        return self.public.users / float(self.counts.sum())

    @property
    def variance(self) -> float:
        """What a unit of squared weight adds to a sum's variance, in squared rating points."""
        return self.spread * (_RATING_SD * self.public.width) ** 2

    def popularity(self) -> Floats:
        """Return the log count about its mean over ratings, of standard deviation one at most.

        Here counts are exponential beforehand: where noise drowns them, no item stands out.

        Returns:
            Array of shape (n,), cut at 3.
        """
        mean = max(float(self.raw.mean()), self.noise / math.sqrt(len(self.raw)))
        counts = posterior_positive_mean(self.raw - self.noise**2 / mean, self.noise)
        share, log = counts / counts.sum(), np.log(counts)
        log = log - share @ log
        found: Floats = np.clip(log / max(math.sqrt(float(share @ log**2)), 1.0), -3.0, 3.0)
        return found

    def design(self, taste: Taste | None = None, slope_std: float = SLOPE_STD) -> Design:
        """Return the regression of a user's ratings less mean and item effects.

        The features are 1, popularity, the item effect about its mean, the public features about
        theirs, and the directions of taste.

        Args:
            taste: the directions of taste; None: none.
            slope_std: the standard deviation of a user's slopes on the public features, in widths
                of the rating range.
        """
        width, counts = self.public.width, self.counts
        slope, facts = (x - counts @ x / counts.sum() for x in (self.effects, self.features))
        features = np.column_stack([np.ones(len(slope)), self.popularity(), slope, facts])
        # Variances of the users' intercepts and slopes before anything is known of them.
        intercept = (_OWN_SD * width) ** 2 / OWN_PSEUDO + self.doubt
        usual = np.array([intercept, (_OWN_TREND * width) ** 2, _OWN_SLOPE**2])
        slope_variances = np.full(facts.shape[1], (slope_std * width) ** 2)
        variances = np.concatenate([self.own[:OWN] * usual, slope_variances])
        both = np.diag(1.0 / variances)
        if taste is not None:
            features = np.column_stack([features, taste.directions])
            precision, (first, rank) = both, (len(both), len(taste.moments))
            both = np.zeros((first + rank, first + rank))
            both[:first, :first], both[first:, first:] = precision, np.linalg.inv(taste.moments)
        noise = float(self.own[OWN]) * (_OWN_SD * width) ** 2
        return Design(features, both, noise, self.mean + self.effects)


class Taste(NamedTuple):
    """Directions in which users' tastes differ.

    Attributes:
        directions: shape (n, r), in rating points.
        moments: shape (r, r), positive definite: E u u' of a user's taste u.
    """

    directions: Floats
    moments: Floats


def item_weights(counts: Floats, drowned: float) -> Floats:
    """Return how much an item counts in a user's row: (N + drowned)^(-1/2).

    Where noise is small, N^(-1/2) leaves the least error over ratings; more for items that it
    drowns would be wasted. The weights are scaled to mean square one over ratings.

    Args:
        counts: N, shape (n,).
        drowned: the noise of the sums over the standard deviation of the effects, the count at
            which they are equal.

    Returns:
        Array of shape (n,).
    """
    weights = 1.0 / np.sqrt(counts + drowned)
    return weights / math.sqrt(float(counts @ weights**2) / float(counts.sum()))


def mean_of_users(
    total: float, count: float, noise: float, public: PublicFacts
) -> tuple[float, float]:
    """Estimate the mean of the users' means and its variance from noisy sums over users.

    The mean has a prior standard deviation of a quarter of half the range.

    Args:
        total: the noisy sum of (mean - middle) / half width.
        count: the noisy number of users with ratings.
        noise: the standard deviation of the noise on both.
        public: the public facts.

    Returns:
        The mean in rating points, and its variance in squared rating points.
    """
    count = min(max(count, public.users / 2), public.users)
    found = min(max(total / count, -1.0), 1.0)
    kept = 1.0 / (1.0 + (noise / count / _MEAN_SPREAD) ** 2)
    variance = (1 - kept) * (_MEAN_SPREAD * public.half_width) ** 2
    return public.middle + public.half_width * kept * found, variance


def believed_gain(total: float, noise: float, public: PublicFacts) -> float:
    """Estimate the users' average gain, shrunk towards the usual one.

    Args:
        total: the noisy sum of gains over MOST.
        noise: the standard deviation of its noise.
        public: the public facts.
    """
    mean, noise = MOST * total / public.users, MOST * noise / public.users
    prior, noisy = (_GAIN_SPREAD * _GAIN) ** 2, noise**2
    found = (mean * prior + _GAIN * noisy) / (prior + noisy)
    low, high = _GAIN_LIMITS
    return min(max(found, low * _GAIN), high * _GAIN)


def with_sums(prior: ItemEffects, sums: Floats, noise: float, gain: float) -> ItemEffects:
    """Return the effects, given each item's noisy weighted sum of users' residuals.

    S_j ~ N(n_j b_j, noise^2 + n_j a_j f spread s^2), n_j = N_j a_j f, about a trend of the effects
    in the log of n_j and in what is publicly known; the spread about the trend, and of the slopes
    on that, by the likelihood.

    Args:
        prior: what was believed before.
        sums: S, shape (n,), in rating points.
        noise: the standard deviation of the noise on S.
        gain: f, the average gain of the users.
    """
    width = prior.public.width
    reach = prior.counts * prior.weights * gain
    variance = (noise**2 + reach * prior.weights * gain * prior.variance) / reach**2
    seen = sums / reach
    log = np.log(reach)
    log = (log - log.mean()) / max(float(log.std()), 1e-9)
    trend = np.hstack([np.vander(log, 3, increasing=True), prior.features])
    known = prior.features.shape[1]
    best = -math.inf
    for slope in _FACT_TRENDS if known else _FACT_TRENDS[:1]:
        precision = np.diag(1.0 / (np.array([*_TREND_SDS, *[slope] * known]) * width) ** 2)
        for tau in (_EFFECT_SD * width * _GRID) ** 2:
            weight = 1.0 / (variance + tau)
            normal = trend.T @ (trend * weight[:, None]) + precision
            slopes = np.linalg.solve(normal, trend.T @ (weight * seen))
            mean = trend @ slopes
            usual = (_EFFECT_SD * width) ** 2 / tau
            likelihood = np.log(weight).sum() - weight @ (seen - mean) ** 2
            likelihood += _EFFECT_PSEUDO * (math.log(usual) - usual) - np.linalg.slogdet(normal)[1]
            if known:
                squares = np.diag(precision)[-known:]
                likelihood += np.log(squares).sum() - squares @ slopes[-known:] ** 2
            if likelihood > best:
                best = likelihood
                effects = mean + tau * weight * (seen - mean)
                left = tau * variance * weight
    return replace(prior, effects=effects, variances=left)


def refined(
    prior: ItemEffects, sums: Floats, noise: float, gain: float, share: float
) -> ItemEffects:
    """Return the effects after noisy weighted sums of residuals about them (a Kalman update).

    Args:
        prior: what was believed before.
        sums: shape (n,), in rating points.
        noise: the standard deviation of the noise on the sums.
        gain: the average gain of the users.
        share: the share of the squared length of a user's row that went into the sums.
    """
    root = math.sqrt(share)
    reach = root * prior.counts * prior.weights * gain
    variance = noise**2 + root * reach * prior.weights * gain * prior.variance
    total = reach**2 * prior.variances + variance
    step = reach * prior.variances / total
    return replace(
        prior,
        effects=prior.effects + step * sums,
        variances=prior.variances * variance / total,
    )


def with_own(prior: ItemEffects, sums: Floats, noise: float) -> ItemEffects:
    """Return how much users differ, from noisy `Design.differences`.

    Args:
        prior: what was believed before.
        sums: shape (2, OWN + 1).
        noise: the standard deviation of the noise on the sums.
    """
    above, below = MOST * sums[0], np.maximum(sums[1], 0.0)
    doubt = (MOST * noise / _OWN_SPREAD) ** 2
    found = (above * below + doubt) / (below**2 + doubt)
    return replace(prior, own=np.clip(prior.own * found, *_OWN_LIMITS))


def taste_share(items: ItemEffects, clip: float, mu: float) -> float:
    """Return the share of a round that goes into taste, by how far it would stand out of the noise.

    rho = sum of squared counts less their noise, times the squared standard deviation of taste,
    over the noise of the whole budget on rows of norm `clip`. The share is 0 below rho = 8.

    Args:
        items: what is believed of the items.
        clip: the l2 norm of a row, in rating points.
        mu: the whole budget.
    """
    energy = max(float((items.raw**2).sum()) - len(items.raw) * items.noise**2, 0.0)
    rho = energy * (_TASTE_SD * items.public.width * mu / clip) ** 2 / len(items.raw)
    return min(rho / (rho + _TASTE_HALF), _TASTE_MOST) if rho >= _TASTE_LEAST else 0.0


def first_taste(items: ItemEffects, random: Floats) -> Taste:
    """Return directions to begin with: popularity, the effects, then random ones.

    Args:
        items: what is believed of the n items.
        random: shape (n, r), N(0, 1).
    """
    directions = random.copy()
    spread = max(float(items.effects.std()), 1e-9 * items.public.width)
    start = np.column_stack([items.popularity(), (items.effects - items.effects.mean()) / spread])
    width = min(2, directions.shape[1])
    directions[:, :width] = start[:, :width]
    rank = directions.shape[1]
    return Taste(_EFFECT_SD * items.public.width * directions, np.eye(rank) / rank)


def taste_from(
    items: ItemEffects, sums: Floats, noise: float, gain: float, moments: Floats
) -> Taste:
    """Estimate directions of taste from noisy sums of residuals times the users' unit vectors.

    Row j ~ N(n_j K v_j, noise^2 I + n_j f spread s^2 K), n_j = N_j f, where v_j ~ N(0, G) and K =
    moments; G by EM. Directions that noise drowns come out as nothing.

    Args:
        items: what is believed of the n items.
        sums: shape (n, r), in rating points.
        noise: the standard deviation of the noise on the sums.
        gain: f, the average gain of the users.
        moments: K, shape (r, r), the mean of u u' over users.
    """
    rank = len(moments)
    values, basis = np.linalg.eigh(0.5 * (moments + moments.T))
    values = np.clip(values, 0.1 / rank, 1.0)
    moments = (basis * values) @ basis.T
    reach = items.counts[:, None] * gain
    variance = noise**2 + reach * gain * items.variance * values
    precision = (reach * values) ** 2 / variance  # n x r, in the eigenbasis of K
    target = reach * values / variance * (sums @ basis)
    prior = (_EFFECT_SD * items.public.width) ** 2
    found = normal_means(precision[:, :, None] * np.eye(rank), target, prior)
    return Taste(found @ basis.T, moments)


def normal_means(precisions: Floats, targets: Floats, prior: float) -> Floats:
    """Return posterior means of rows v ~ N(0, G), G by EM from prior x I.

    Rows that say no more than noise would are shrunk to nothing.

    Args:
        precisions: P, shape (n, r, r), of each row's likelihood exp(t'v - v'Pv/2).
        targets: t, shape (n, r).
        prior: the variance at which EM starts.

    Returns:
        Array of shape (n, r).
    """
    rank = targets.shape[1]
    spread, least = prior * np.eye(rank), 1e-6 * prior * np.eye(rank)
    by_row = np.ascontiguousarray(precisions.transpose(1, 2, 0))
    for _ in range(_ROUNDS):
        check_cancelled()
        left = np.linalg.inv(spread)[:, :, None] + by_row
        for k in range(rank):  # Gauss-Jordan on all rows at once, faster than one after the other
            column, scale = left[:, k].copy(), 1.0 / left[k, k]
            row = left[k] * scale
            left -= column[:, None] * row
            left[k], left[:, k], left[k, k] = row, -column * scale, scale
        found = np.einsum("ijn,nj->ni", left, targets)
        spread = (found.T @ found + left.sum(axis=2)) / len(found) + least
    return np.asarray(found)


def noisy_factors(squares: Floats, moments: Floats, noise: float, width: float) -> Floats:
    """Estimate item factors from noisy normal equations, shrunk by what the noise says.

    b_j ~ N(A_j v_j, noise^2 I + s^2 A_j) and v_j ~ N(0, G), G by EM from I, as users' factors are
    in rating points.

    Args:
        squares: A, shape (n, r, r), positive semidefinite.
        moments: b, shape (n, r).
        noise: the standard deviation of the noise on b.
        width: of the rating range, in rating points.

    Returns:
        Array of shape (n, r).
    """
    values, basis = np.linalg.eigh(squares)
    values = np.maximum(values, 0.0)
    each = values / (noise**2 + (_RATING_SD * width) ** 2 * values)
    precisions = np.einsum("nij,nj,nkj->nik", basis, each * values, basis, optimize=True)
    targets = np.einsum("nij,nj,nkj,nk->ni", basis, each, basis, moments, optimize=True)
    return normal_means(precisions, targets, 1.0)


def without_noise(values: Floats, edge: float) -> Floats:
    """Take the noise out of eigenvalues of a symmetric matrix; those that it drowns become 0.

    Above the edge the result is sqrt(x^2 - edge^2), which is optimal in Frobenius norm as the
    matrix grows (Gavish, Donoho 2017, for Wigner noise).

    Args:
        values: shape (k,).
        edge: the largest eigenvalue of the noise alone.

    Returns:
        Array of shape (k,).
    """
    above = values > _WOBBLE * edge
    return np.where(above, np.sqrt(np.maximum(values**2 - edge**2, 0.0)), 0.0)


def taste_of_gram(
    items: ItemEffects,
    values: Floats,
    vectors: Floats,
    edge: float,
    pairs: float,
    columns: Ints | None = None,
) -> Taste | None:
    """Estimate directions of taste from a noisy Gram matrix of the users' residual rows.

    Args:
        items: what is believed of the items.
        values: shape (k,), leading eigenvalues of what is off its diagonal: only that tells of
            taste.
        vectors: shape (n_columns, k), their vectors.
        edge: the largest eigenvalue of the noise.
        pairs: the (weighted) number of pairs of ratings in the matrix, spread over items as N_j
            N_k.
        columns: shape (n_columns,), the items that the matrix is about; None: all.

    Returns:
        The taste; None where everything is noise.
    """
    strength = without_noise(values, edge)
    kept = strength > 0
    if not kept.any():
        return None
    strength, vectors = strength[kept], vectors[:, kept]
    counts = items.counts if columns is None else items.counts[columns]
    reach = math.sqrt(max(pairs, 1.0)) * counts / float(counts.sum())
    seen = vectors * np.sqrt(strength)  # about reach x direction
    noise = (edge / 2) ** 2 / len(vectors) / strength
    prior = (seen**2).sum(axis=0) / float(reach @ reach)
    directions = seen * reach[:, None] / (reach[:, None] ** 2 + noise / prior)
    return Taste(scatter_rows(directions, columns, items.public.items), np.eye(kept.sum()))
