"""Scores that rank items: by similar items, noisy counts, and users' profiles. No privacy here.

Item-to-item scores (neighbours; EASE: Steck, "Embarrassingly shallow autoencoders for sparse data",
2019) never hold more than a block of users' scores. A user's profile is the direction of the sum of
the features of the user's items. Sums of profiles over each item's users, to which every user adds
a bounded amount, show how the users of one item differ from those of all ("taste" below).

In shapes, m is the number of users and n of items.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmc_core.arrays import SMALLEST, AnyArray, Floats, Ints, Sparse
from dpmc_core.model import Factors, Model
from dpmc_core.ratings import Ratings
from dpmc_core.solvers.empirical_bayes import (
    ESTIMATED_MARGIN,
    EXACT_MARGIN,
    fit_normal_prior,
    is_above_noise,
)
from dpmc_core.solvers.linalg import Pattern, invert_upper_triangle
from dpmc_core.solvers.rows import clip_dense_rows, gram, normalise_rows
from dpmc_core.stopping import check_cancelled

BLOCK = 2_000_000  # scores, or pairs of items, held at once: 16 MB
_MIN_FLIP = 1e-150  # flip probability whose square is still a number: no cell of a pair is at 0
_MAX_GATHERED = 4_000_000  # numbers gathered at once: 32 MB
_ROUNDING = 1e-9  # a sum that is this much shorter than its longest term counts as zero
_MIN_PROFILE_VARIANCE = 0.02  # of profiles, in units of 1/d, their variance if no direction differs
_MIN_TASTE_VARIANCE = 1e-4  # of taste at the start, in the same unit
_N_NOISE_DRAWS = 20  # simulations of the noise, whose largest eigenvalue taste has to exceed
_RIDGE = 0.1  # added to the variance of profiles, in the same unit
_MAX_FEATURE_LENGTH = 6.0  # of an item's features, once they are uncorrelated and of variance 1
# Items, average in all features, that every user is taken to have besides the user's own ones.
_AVERAGE_ITEMS = 20.0
_MIN_RELATIVE_VARIANCE = 1e-6  # of a direction, over the largest; less is rounding


@dataclass(frozen=True, eq=False)
class ItemScores:
    """Scores from item-to-item weights: score(u, i) = sum over the user's items j of weights[j, i].

    Attributes:
        rows: shape (users, items), the users' own items.
        weights: shape (items, items), dense or sparse.
    """

    rows: Sparse
    weights: Any
    factors: ClassVar[None] = None

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        """Return the scores of (user, item) pairs, in blocks of distinct users.

        Args:
            users: user indices.
            items: item indices; both broadcast to the shape of the result.
        """
        distinct_users, inverse = np.unique(users, return_inverse=True)
        positions, item_indices = np.broadcast_arrays(inverse, items)
        scores = np.empty(positions.shape)
        size = max(1, BLOCK // self.rows.shape[1])
        for start in range(0, len(distinct_users), size):
            check_cancelled()
            block = self.rows[distinct_users[start : start + size]] @ self.weights
            inside = (positions >= start) & (positions < start + size)
            dense = block if isinstance(block, np.ndarray) else block.toarray()
            scores[inside] = dense[positions[inside] - start, item_indices[inside]]
        return scores


def ease_weights(ratings: Ratings, ridge: float) -> Floats:
    """Return the B with zero diagonal that minimises ||X - X B||^2 + ridge ||B||^2 (EASE).

    Column j of B predicts item j: B = -P / diag(P) off the diagonal, with P = (X'X + ridge I)^-1.
    Where there are fewer users than items, P follows from the smaller matrix XX': ridge P = I -
    X'(XX' + ridge I)^-1 X.

    Args:
        ratings: X, the interactions.
        ridge: the weight of the ridge.

    Returns:
        Array of shape (items, items).
    """
    rows, by_users = ratings.matrix, ratings.public.users < ratings.public.items
    squares = (rows @ rows.T).toarray() if by_users else gram(rows)  # XX' or X'X
    squares.flat[:: len(squares) + 1] += ridge
    check_cancelled()
    inverse = invert_upper_triangle(squares)  # the matrix is positive definite by its ridge
    weights = np.triu(inverse, 1)
    check_cancelled()
    weights += weights.T
    check_cancelled()
    if by_users:
        np.fill_diagonal(weights, inverse.diagonal())
        weights = rows.T @ np.ascontiguousarray((rows.T @ weights).T)
        weights /= 1.0 - weights.diagonal()
        np.fill_diagonal(weights, 0.0)
    else:
        weights /= -inverse.diagonal()
    return weights


@dataclass(frozen=True, eq=False)
class MostRatedModel:
    """A model of the most rated items, with a simpler one for the rest.

    Attributes:
        model: of the most rated items.
        item_index: shape (n,), the index of each item in `model`; below 0: not in it.
        fallback: the model of the items that are not in `model`.
    """

    model: Model
    item_index: NDArray[np.int32]
    fallback: Model
    factors: ClassVar[None] = None

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        """Return the predictions of (user, item) pairs, whose indices broadcast together."""
        u, i = np.broadcast_arrays(users, items)
        scores, index = self.fallback.predict(u, i), self.item_index[i]
        inside = index >= 0
        scores[inside] = self.model.predict(u[inside], index[inside])
        return scores


def find_nearest_items(items: int, count: int, similarities: Callable[[Ints], Any]) -> Sparse:
    """Find the `count` most similar items of each item (ties: lower index first).

    Only items of positive similarity count.

    Args:
        items: the number of items.
        count: the number of neighbours.
        similarities: maps a block of item indices to their similarities with all items, shape
            (len(block), items), dense or sparse.

    Returns:
        Sparse array of shape (items, items), row i with the similarities of the neighbours of i.
    """
    from scipy.sparse import coo_array, csr_array

    chunks = []
    size = max(1, BLOCK // items)
    for start in range(0, items, size):
        check_cancelled()
        block_similarities = coo_array(similarities(np.arange(start, min(start + size, items))))
        first, second = block_similarities.row.astype(np.int64) + start, block_similarities.col
        is_neighbour = (block_similarities.data > 0) & (first != second)  # not an item itself
        first, second = first[is_neighbour], second[is_neighbour]
        values = block_similarities.data[is_neighbour]
        rank = np.arange(len(first)) - np.searchsorted(first, first)
        order = np.lexsort((-values, first))[rank < count]  # ties keep their order
        chunks.append((first[order], second[order], values[order]))
    first, second, values = map(np.concatenate, zip(*chunks, strict=True))
    return csr_array((values, (first, second)), shape=(items, items))


def find_items_sharing_users(
    rows: Sparse, count: int, similarity: Callable[[Floats, Floats, Floats], Floats]
) -> Sparse:
    """Find the most similar items of each item by the users that items share.

    Most pairs of items share no user, so it works on sparse arrays.

    Args:
        rows: shape (users, items), ones.
        count: the number of neighbours.
        similarity: `jaccard` or `cosine`.

    Returns:
        Sparse array of shape (items, items), as of `find_nearest_items`.
    """
    from scipy.sparse import coo_array

    columns = rows.T.tocsr()
    counts = np.diff(columns.indptr).astype(float)

    def similarities(block: Ints) -> Any:
        shared = (columns[block] @ rows).sorted_indices().tocoo()
        values = similarity(shared.data, counts[block][shared.row], counts[shared.col])
        return coo_array((values, shared.coords), shape=shared.shape)

    return find_nearest_items(rows.shape[1], count, similarities)


def jaccard(shared: Floats, first: Floats, second: Floats) -> Floats:
    """Return the Jaccard similarity |A and B| / |A or B| of pairs of items with user sets A and B.

    It is 0 where an estimate of the shared users or of the union is not positive.

    Args:
        shared: the number of users of both items; the arrays broadcast to the shape of the pairs.
        first: the number of users of the first item.
        second: the number of users of the second item.
    """
    union = first + second - shared
    return _divide_positive(np.minimum(shared, union), union)


def cosine(shared: Floats, first: Floats, second: Floats) -> Floats:
    """Return the cosine similarity |A and B| / sqrt(|A| |B|) of pairs of items.

    It is 0 where an estimated number of users is not positive.

    Args:
        shared: the number of users of both items; the arrays broadcast to the shape of the pairs.
        first: the number of users of the first item.
        second: the number of users of the second item.
    """
    return _divide_positive(shared, np.sqrt(np.maximum(first, 0.0) * np.maximum(second, 0.0)))


def _divide_positive(numerator: Floats, denominator: Floats) -> Floats:
    """Return the quotients of two positive numbers, and 0 where either is not positive."""
    is_positive = (denominator > 0) & (numerator > 0)
    return np.divide(numerator, denominator, out=np.zeros(is_positive.shape), where=is_positive)


def compute_profiles(pattern: Pattern, features: Floats) -> Floats:
    """Return each user's profile: the direction of the sum of the features of the user's items.

    Args:
        pattern: the users' items.
        features: shape (items, d).

    Returns:
        Array of shape (users, d), unit rows; zeros for a user whose features cancel, or without
        items.
    """
    return normalise_rows(_sum_features(pattern, features), _min_profile_length(features))


def decorrelate_columns(feature: Floats, counts: Floats) -> Floats:
    """Transform the columns of a feature to be uncorrelated, of mean 0 and variance 1 over ratings.

    A column that is a linear combination of the others becomes zero; an item's row is cut to length
    `_MAX_FEATURE_LENGTH`.

    Args:
        feature: shape (items, c).
        counts: shape (items,), the ratings of each item.

    Returns:
        Array of shape (items, c).
    """
    share = counts / counts.sum()
    centred = feature - share @ feature
    values, axes = np.linalg.eigh(centred.T @ (centred * share[:, None]))
    min_variance = max(_MIN_RELATIVE_VARIANCE * values.max(initial=0), SMALLEST)
    whitened = centred @ (axes * np.where(values > min_variance, values, np.inf) ** -0.5)
    return clip_dense_rows(whitened, _MAX_FEATURE_LENGTH)[0]


class UserFeatureSums(NamedTuple):
    """Sums of the public features of each user's items, which score other items.

    Attributes:
        item_features: shape (items, d), each feature's columns as of `decorrelate_columns`.
        sums: shape (users, d), of the features over each user's items.
        counts: shape (users, 1), how many items a user has.
        groups: shape (d,), the index of the feature that each column belongs to.
    """

    item_features: Floats
    sums: Floats
    counts: Floats
    groups: Ints

    @classmethod
    def from_pattern(
        cls, pattern: Pattern, features: Sequence[Floats], posterior_counts: Floats
    ) -> UserFeatureSums:
        """Sum public features over each user's items.

        Args:
            pattern: the users' items.
            features: each of shape (items, c).
            posterior_counts: shape (items,), how many users have each item.
        """
        check_cancelled()
        columns = [decorrelate_columns(feature, posterior_counts) for feature in features]
        groups = np.repeat(np.arange(len(columns)), [feature.shape[1] for feature in columns])
        item_features = np.hstack([np.zeros((pattern.shape[1], 0)), *columns])
        counts = pattern.counts[:, None].astype(float)
        return cls(item_features, _sum_features(pattern, item_features), counts, groups)

    def add_to_scores(self, model: Factors, gain_probabilities: Floats) -> Factors:
        """Return the model with scores from item features added to its own.

        It adds x_j . s / (k + 20) to the score of item j: x_j are the item's features, each times
        the square root of the probability that it helps, and s is the sum of these over the user's
        k items.

        Args:
            model: scores in log odds.
            gain_probabilities: shape (n_features,), the probability that each feature helps.
        """
        weights = np.sqrt(gain_probabilities)[self.groups]
        left = np.hstack([model.left, self.sums * weights / (self.counts + _AVERAGE_ITEMS)])
        return Factors(
            left, np.hstack([model.right, self.item_features * weights]), model.user_arrays
        )

    def compute_gains(self, pattern: Pattern) -> Floats:
        """Return how well each feature of a user's other items predicts an item of the user.

        It is the average over the user's items of the score that the other items give. With s the
        sum of the features x, the products (s - x)'x of all items add up to s's less the sum of
        x'x.

        Returns:
            Array of shape (users, n_features); 0 for a user without two items.
        """
        products = self.sums**2 - _sum_features(pattern, self.item_features**2)
        gains = products @ np.eye(self.groups[-1] + 1)[self.groups]
        return gains / np.maximum(self.counts * (self.counts - 1 + _AVERAGE_ITEMS), 1.0)


def sum_feature_gains(ratings: Ratings, posterior_counts: Floats) -> Floats:
    """Sum over users by how much each feature predicts their items better than chance.

    It is `UserFeatureSums.compute_gains` less the same after the features are shuffled over items.
    The shuffle is the same in every run, and each user's difference is clipped to [-1, 1].

    Args:
        ratings: the users' items.
        posterior_counts: shape (items,), how many users have each item.

    Returns:
        Array of shape (n_features,).
    """
    order = np.random.default_rng(0).permutation(len(posterior_counts))
    pattern, features = Pattern.from_ratings(ratings), ratings.used_features
    gains, shuffled_gains = (
        UserFeatureSums.from_pattern(pattern, used, posterior_counts).compute_gains(pattern)
        for used in (features, [feature[order] for feature in features])
    )
    return np.clip(gains - shuffled_gains, -1.0, 1.0).sum(axis=0)


def sum_profiles_by_item(pattern: Pattern, weights: Floats, features: Floats) -> Floats:
    """Sum over each item's users the weight times the user's profile without this item.

    A user adds a matrix of Frobenius norm at most the l2 norm of the user's weights, because each
    profile has length 1 or 0.

    Args:
        pattern: the users' items.
        weights: shape (n_entries,).
        features: shape (items, d).

    Returns:
        Array of shape (items, d).
    """
    from scipy.sparse import csc_array

    sums, min_length = _sum_features(pattern, features), _min_profile_length(features)
    items, d = features.shape
    moments = np.zeros((items, d))
    for rows, span, chunk in pattern.iter_chunks(_MAX_GATHERED // max(1, d)):
        others = sums[rows][chunk.users] - features[chunk.items]
        by_item = csc_array(
            (weights[span], chunk.items, np.arange(len(others) + 1)), shape=(items, len(others))
        )
        moments += np.asarray(by_item @ normalise_rows(others, min_length))
    return moments


def _sum_features(pattern: Pattern, features: Floats) -> Floats:
    """Sum the items' features over each user's items, to shape (users, d)."""
    return pattern.build_matrix(np.ones(len(pattern.users))) @ features


def _min_profile_length(features: Floats) -> float:
    """Return the length up to which a sum of features counts as zero."""
    return _ROUNDING * np.linalg.norm(features, axis=1).max()


class Taste(NamedTuple):
    """The mean profile of each item's users less that of all, as far as the noise lets one see.

    Attributes:
        means: shape (n, d), posterior means.
        uncertainty: shape (d, d), the posterior covariance, averaged over items by their users.
        prior: shape (d, d), the prior covariance.
    """

    means: Floats
    uncertainty: Floats
    prior: Floats


class Audiences(NamedTuple):
    """How the users of each item differ from all users in their profiles.

    Attributes:
        taste: taste along the axes that exceed the noise.
        unpruned_taste: taste along all axes; the features of the next round follow from it.
        centre: shape (d,), the mean profile of all.
        profile_covariance: shape (d, d), the covariance of users' profiles.
        count_shares: shape (n,), each item's share of all counts.
    """

    taste: Taste
    unpruned_taste: Taste
    centre: Floats
    profile_covariance: Floats
    count_shares: Floats

    @classmethod
    def from_noisy_sums(
        cls,
        profile_sums: Floats,
        noise_std: float,
        second_moments: Floats,
        second_noise_std: float,
        posterior_counts: Floats,
        n_users: int,
    ) -> Audiences:
        """Estimate taste from noisy sums of profiles.

        The mean profile of an item with count N is N(t, (noise/N)^2 I + S w/N), because of the
        noise and of which users it happens to have; w is the mean weight of a cell and S the
        covariance of profiles. The prior of taste is t ~ N(0, G) along the axes on which these
        means exceed that noise, with G by expectation-maximisation; on other axes G would fit the
        noise.

        Args:
            profile_sums: shape (n, d), noisy weighted sums of the profiles of each item's users.
            noise_std: the standard deviation of the noise on `profile_sums`.
            second_moments: shape (d + 1, d + 1), the noisy sum of (u, 1)(u, 1)' over all users'
                profiles u.
            second_noise_std: the standard deviation of the noise on `second_moments`.
            posterior_counts: shape (n,), the items' counts, with the weights of `profile_sums`.
            n_users: the number of users.
        """
        d, total_count = profile_sums.shape[1], posterior_counts.sum()
        profile_covariance = _estimate_profile_covariance(
            second_moments / n_users, second_noise_std / n_users
        )
        centre, deviations = _compute_mean_profiles(profile_sums, posterior_counts)
        # Items whose counts differ by a thousandth share a level, with one error covariance.
        log_levels, level_index = np.unique(
            np.round(np.log(posterior_counts), 3), return_inverse=True
        )
        level_counts = np.exp(log_levels)[:, None, None]
        errors = (noise_std / level_counts) ** 2 * np.eye(d) + profile_covariance * (
            n_users / total_count / level_counts
        )
        # A deviation's square is as exact as the precision is squared, which sets its weight.
        squared_precisions = np.trace(np.linalg.inv(errors), axis1=1, axis2=2)[level_index] ** 2
        weights = squared_precisions / squared_precisions.sum()
        expected_noise = np.einsum("l,lab->ab", np.bincount(level_index, weights), errors)
        moments = (deviations * weights[:, None]).T @ deviations - expected_noise
        variances, axes = np.linalg.eigh(moments)
        variances = np.maximum(variances, _MIN_TASTE_VARIANCE / d)
        edge = _simulate_noise_edge(errors, level_index, weights, expected_noise)
        count_shares = posterior_counts / total_count
        # Once on the axes above the noise, and once on all of them.
        taste, unpruned_taste = (
            _fit_taste(deviations, errors, level_index, axes[:, k], variances[k], count_shares)
            for k in (is_above_noise(variances, edge, ESTIMATED_MARGIN), slice(None))
        )
        return cls(taste, unpruned_taste, centre, profile_covariance, count_shares)

    @property
    def discriminants(self) -> Floats:
        """S^-1 t of each item, shape (n, d)."""
        return np.asarray(np.linalg.solve(self.profile_covariance, self.taste.means.T).T, float)

    @property
    def signal(self) -> float:
        """How far taste moves the scores of an item's users, in log odds, less for uncertainty.

        With E the mean of t' S^-1 t over all users' items it is sqrt(E), times the share of E in
        the sum of E and the same of the uncertainty.
        """
        energy = self._average_product(self.taste.means)
        noise = np.trace(np.linalg.solve(self.profile_covariance, self.taste.uncertainty))
        return math.sqrt(energy) * energy / (energy + noise + SMALLEST)

    def measure_agreement(self, profile_sums: Floats, posterior_counts: Floats) -> Floats:
        """Compare taste t with the estimate t' that other noisy sums of profiles give.

        The noise of t' is independent of that in t. So the ratio of the two results is about 1
        where t has the size of the true taste, and less where t has fitted noise.

        Args:
            profile_sums: shape (n, d), another publication of the sums.
            posterior_counts: shape (n,), the items' counts.

        Returns:
            Array of shape (2,): the means of t' S^-1 t and of t S^-1 t, weighted by counts.
        """
        _, deviations = _compute_mean_profiles(profile_sums, posterior_counts)
        return np.array([self._average_product(x) for x in (deviations, self.taste.means)])

    def _average_product(self, vectors: Floats) -> float:
        """Return the mean of x' S^-1 t over all users' items, for vectors x of shape (n, d)."""
        return float(np.sum(self.discriminants * self.count_shares[:, None] * vectors))

    def score_items(
        self, user_profiles: Floats, posterior_counts: Floats, reliability: float = 1.0
    ) -> Factors:
        """Return log N + (u - centre)' S^-1 t - t' S^-1 t / 2 as factors.

        Args:
            user_profiles: u, shape (users, d).
            posterior_counts: N, shape (n,), the items' counts.
            reliability: by what t is multiplied, because some of it is noise.
        """
        taste, right = reliability * self.taste.means, reliability * self.discriminants
        base = np.log(posterior_counts) - 0.5 * (taste * right).sum(axis=1)
        left = user_profiles - self.centre
        return Factors(np.column_stack([np.ones(len(left)), left]), np.column_stack([base, right]))

    def compute_next_features(self, posterior_counts: Floats) -> Floats:
        """Return the item features of the next round: taste along its principal axes.

        The mean square of a feature over users is the share of taste, and not uncertainty, along
        its axis.

        Args:
            posterior_counts: shape (n,), the items' counts.

        Returns:
            Array of shape (n, d).
        """
        means, uncertainty, prior = self.unpruned_taste
        _, axes = np.linalg.eigh(prior)
        features = means @ axes
        mean_squares = posterior_counts @ features**2 / posterior_counts.sum()
        mean_squares += np.diag(axes.T @ uncertainty @ axes)
        return features / np.sqrt(np.maximum(mean_squares, SMALLEST))


def _compute_mean_profiles(sums: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Return the mean profile of all users, and that of each item's users less it."""
    centre = sums.sum(axis=0) / counts.sum()
    return centre, sums / counts[:, None] - centre


def _estimate_profile_covariance(second_moments: Floats, noise_std: float) -> Floats:
    """Estimate the covariance S of users' profiles, with a ridge.

    It is shrunk towards one that is alike in all directions, by the share of their distance that
    noise explains (Ledoit, Wolf, "A well-conditioned estimator for large-dimensional covariance
    matrices", 2004, with the noise known).

    Args:
        second_moments: shape (d + 1, d + 1), the noisy mean of (u, 1)(u, 1)' over profiles u.
        noise_std: the standard deviation of their noise.
    """
    d = len(second_moments) - 1
    symmetric = 0.5 * (second_moments + second_moments.T)
    mean = symmetric[:d, d]
    covariance = symmetric[:d, :d] - np.outer(mean, mean)
    # Profiles have length 1, so their total variance is known; its direction is estimated.
    total_variance = 1 - max(float(mean @ mean) - 0.5 * d * noise_std**2, 0.0)
    isotropic = max(total_variance, _MIN_PROFILE_VARIANCE) / d * np.eye(d)
    anisotropy = np.sum((covariance - isotropic) ** 2)
    # Averaging the symmetric halves leaves half of the noise off the diagonal.
    noise_anisotropy = 0.5 * d * (d + 1) * noise_std**2
    share = max(0.0, anisotropy - noise_anisotropy) / max(anisotropy, SMALLEST)
    values, vectors = np.linalg.eigh(share * covariance + (1 - share) * isotropic)
    values = np.clip(values, _MIN_PROFILE_VARIANCE / d, 1.0) + _RIDGE / d
    return (vectors * values) @ vectors.T


def _fit_taste(
    deviations: Floats,
    error_covariances: Floats,
    level_index: Ints,
    axes: Floats,
    start_variances: Floats,
    count_shares: Floats,
) -> Taste:
    """Estimate taste along some axes, with its prior covariance by expectation-maximisation.

    The deviations of an item are N(taste, error_covariances[level of the item]).

    Args:
        deviations: shape (n, d), noisy mean profiles of items' users, less the centre.
        error_covariances: shape (n_levels, d, d).
        level_index: shape (n,), the level of each item.
        axes: shape (d, r), orthonormal columns.
        start_variances: shape (r,), the prior variances along the axes at the start.
        count_shares: shape (n,), each item's share of all counts.
    """
    if not axes.size:
        return Taste(np.zeros_like(deviations), *np.zeros((2, len(axes), len(axes))))
    precisions = np.asarray(np.linalg.inv(axes.T @ error_covariances @ axes), float)
    targets = np.einsum("jrs,js->jr", precisions[level_index], deviations @ axes)
    means, covariances, prior = fit_normal_prior(
        precisions, targets, start_variances, np.finfo(float).eps, level_index
    )
    uncertainty = np.einsum("l,lrs->rs", np.bincount(level_index, count_shares), covariances)
    return Taste(means @ axes.T, axes @ uncertainty @ axes.T, axes @ prior @ axes.T)


def _simulate_noise_edge(
    error_covariances: Floats, level_index: Ints, weights: Floats, known_noise: Floats
) -> float:
    """Simulate the largest eigenvalue that the weighted second moments have without any taste.

    Args:
        error_covariances: shape (n_levels, d, d).
        level_index: shape (n,), the level of each item.
        weights: shape (n,), of the items.
        known_noise: shape (d, d), the expected second moments, which are subtracted.
    """
    rng = np.random.default_rng(0)  # the draws depend on no data
    roots = np.linalg.cholesky(error_covariances)[level_index]
    largest = 0.0
    for _ in range(_N_NOISE_DRAWS):
        check_cancelled()
        noise = np.einsum("jab,jb->ja", roots, rng.normal(size=roots.shape[:2]))
        moments = (noise * weights[:, None]).T @ noise - known_noise
        largest = max(largest, float(np.linalg.eigvalsh(moments)[-1]))
    return largest


# --- rankings from flipped bits: directions of their spectrum that exceed the known noise ---------
#
# The reports are held as bytes and read a block of users at a time, so that nothing of size users x
# items is ever held as floats.

_CELLS = 4_000_000  # cells of reports held in single precision at once: 16 MB
_MAX_DIRECTIONS = 40
_WIDTH, _DEPTH = 48, 6  # columns and blocks of the Krylov space in which they are found


@dataclass(frozen=True, eq=False)
class FlippedBits:
    """The reports that the server holds: users x items bits, flipped with a known probability.

    Attributes:
        packed: shape (users, ceil(items / 8)), eight bits to a byte.
        items: the number of items.
        flip: the probability of a flip, below 1/2.
    """

    packed: NDArray[np.uint8]
    items: int
    flip: float

    @property
    def users(self) -> int:
        """The number of users."""
        return len(self.packed)

    @cached_property
    def reported_counts(self) -> Floats:
        """How many users report each item, shape (items,)."""
        blocks = (bits for _, bits in self._iter_blocks(np.uint8))
        return np.sum([bits.sum(axis=0, dtype=float) for bits in blocks], axis=0)

    @property
    def reported_shares(self) -> Floats:
        """The share of users who report each item, shape (items,)."""
        return self.reported_counts / self.users

    @cached_property
    def dense(self) -> NDArray[np.float32]:
        """All reports as numbers, shape (users, items)."""
        return np.unpackbits(self.packed, axis=1, count=self.items).astype(np.float32)

    @property
    def debias_factor(self) -> float:
        """1 - 2 flip, by which the flips shrink the effect of a bit on its mean report; above 0."""
        return max(1 - 2 * self.flip, 1e-12)

    @property
    def counts(self) -> Floats:
        """The unbiased estimate of how many users have each item, shape (items,)."""
        return (self.reported_counts - self.users * self.flip) / self.debias_factor

    @property
    def shares(self) -> Floats:
        """The unbiased estimate of the share of users who have each item, shape (n,)."""
        return (self.reported_shares - self.flip) / self.debias_factor

    @property
    def variance(self) -> float:
        """The variance f (1 - f) / (1 - 2f)^2 that the flips give each cell of the estimate H."""
        return self.flip * (1 - self.flip) / self.debias_factor**2

    def estimate_activity(self, usual_count: float) -> float:
        """Estimate the mean squared number of items per user, in units of `usual_count` squared.

        It is at least 1 and at most the number of users.
        """
        lengths = self.multiply(np.ones((self.items, 1)))
        mean_square = np.mean(lengths**2) - self.items * self.variance
        return float(np.clip(mean_square / usual_count**2, 1.0, self.users))

    def count_reported_pairs(self, block: Ints) -> Floats:
        """Count the users who report both items, for all pairs of a block's items with any item.

        Args:
            block: shape (k,), item indices.

        Returns:
            Array of shape (k, items).
        """
        # Counts stay below 2^24, so single precision is exact.
        return (self.dense[:, block].T @ self.dense).astype(np.float64)

    def estimate_shared_users(self, block: Ints) -> Floats:
        """Return unbiased estimates of how many users have both items of a pair.

        It inverts the flips of both bits. The estimate of an item paired with itself means nothing.

        Args:
            block: shape (k,), item indices.

        Returns:
            Array of shape (k, items).
        """
        p = self.flip
        count_sums = self.reported_counts[block][:, None] + self.reported_counts
        estimate = self.count_reported_pairs(block) - p * count_sums + self.users * p * p
        return estimate / self.debias_factor**2

    def fit_pair_counts(self, block: Ints, iterations: int) -> tuple[Floats, Floats, Floats]:
        """Return maximum-likelihood counts of the pairs of a block with all items.

        The shares of users with both items, the first, the second, and neither are estimated. Where
        the unbiased estimates are not negative, they maximise the likelihood; elsewhere
        expectation-maximisation runs from estimates raised to a small positive number.

        Args:
            block: shape (k,), item indices.
            iterations: the number of steps of expectation-maximisation.

        Returns:
            How many users have both items, the first and the second, each of shape (k, items).
        """
        m, p = self.users, max(self.flip, _MIN_FLIP)
        both = self.count_reported_pairs(block)
        first, second = self.reported_counts[block][:, None] - both, self.reported_counts - both
        reported = np.stack([both, first, second, m - both - first - second], axis=-1) / m
        bit_channel = np.array([[1 - p, p], [p, 1 - p]])
        # Of both, the first, the second and neither; it is symmetric.
        channel = np.kron(bit_channel, bit_channel)
        shares = reported @ np.linalg.inv(channel)
        is_outside = (shares < 0).any(axis=-1)
        # Expectation-maximisation multiplies, so a share that starts at 0 would stay there.
        projected, reported = np.maximum(shares[is_outside], 1e-3), reported[is_outside]
        projected /= projected.sum(axis=-1, keepdims=True)
        for _ in range(iterations):
            check_cancelled()
            projected = projected * ((reported / (projected @ channel)) @ channel)
        shares[is_outside] = projected
        shared = m * shares[..., 0]
        return shared, shared + m * shares[..., 1], shared + m * shares[..., 2]

    def multiply(self, block: Floats) -> Floats:
        """Return H @ block, H = (bits - flip) / `debias_factor` the unbiased estimate of true rows.

        Args:
            block: shape (items, b).

        Returns:
            Array of shape (users, b).
        """
        single = block.astype(np.float32)
        return self._debias(np.concatenate([b @ single for _, b in self._iter_blocks()]), block)

    def multiply_transposed(self, block: Floats) -> Floats:
        """Return H' @ block for the unbiased estimate H of the true rows.

        Args:
            block: shape (users, b).

        Returns:
            Array of shape (items, b).
        """
        single = block.astype(np.float32)
        products = (bits.T @ single[rows] for rows, bits in self._iter_blocks())
        return self._debias(sum(products, np.zeros((self.items, block.shape[1]))), block)

    def _debias(self, products: AnyArray, block: Floats) -> Floats:
        """Turn products of the reports with a block into those of the estimate H."""
        return np.asarray(products - self.flip * block.sum(axis=0)) / self.debias_factor

    def _iter_blocks(self, dtype: type = np.float32) -> Iterator[tuple[slice, AnyArray]]:
        """Yield the slice of the users of a block, and their reports as 0 and 1 of this type."""
        step = max(1, _CELLS // self.items)
        for start in range(0, self.users, step):
            check_cancelled()
            rows = slice(start, start + step)
            bits = np.unpackbits(self.packed[rows], axis=1, count=self.items)
            yield rows, bits.astype(dtype, copy=False)


class ClickFactors(NamedTuple):
    """A model of clicks that the server publishes, from flipped reports only.

    Attributes:
        shares: shape (n,), the debiased share of users who have each item.
        expected: shape (n,), the same clipped to the inside of 0..1.
        loadings: shape (n, r), by how much each of r independent tastes of variance 1 changes the
            probability that a typical user has the item.
        noise: the variance p (1 - p) of whether a user has an item, averaged by popularity p.
    """

    shares: Floats
    expected: Floats
    loadings: Floats
    noise: float

    @classmethod
    def from_reports(cls, reports: FlippedBits, features: Sequence[Floats] = ()) -> ClickFactors:
        """Find the directions in which reports vary by more than the noise, besides popularity.

        How many items a user has changes all items in proportion to their popularity. That
        direction is the strongest and says nothing about which items, so it is removed first. In
        the remainder the noise of a column is v + p (1 - p), with v of the flips. A direction of
        population variance alpha appears as the eigenvalue psi(alpha) of H'H / m (see
        `_NoiseSpectrum`), so alpha follows from the eigenvalue.

        Args:
            reports: the flipped bits.
            features: public item features, each of shape (items, c), which are further directions.
        """
        users = reports.users
        shares, flip_variance = reports.shares, reports.variance
        share_std = math.sqrt(max(flip_variance, 1 / users) / users)  # approximately
        # A noisy share may be negative. No item is taken for far rarer than the noise resolves,
        # than the mean share, or than one user; nor for so common that no user differs.
        min_share = max(0.3 * share_std, 0.1 * shares.mean(), 0.2 / users)
        expected = np.clip(shares, min_share, 0.95)
        click_variances = expected * (1 - expected)
        noise = float(expected @ click_variances / expected.sum())
        common = expected / np.linalg.norm(expected)
        squares, vectors = _find_leading_directions(reports, common)
        spectrum = _NoiseSpectrum(flip_variance + click_variances, users)
        is_clear = is_above_noise(squares / users, spectrum.height, EXACT_MARGIN)
        alpha = np.array([spectrum.invert_psi(s) for s in squares[is_clear] / users])
        # For a population covariance diag(t) + l l' the eigenvector is (alpha - t)^-1 l.
        vectors = vectors[:, is_clear]
        loadings = (alpha - (flip_variance + click_variances)[:, None]) * vectors
        strength = np.maximum((loadings * vectors).sum(axis=0), SMALLEST)
        loadings /= np.sqrt(strength * reports.estimate_activity(expected.sum()))
        known_directions = np.column_stack([common, loadings])
        feature_loadings = [
            _compute_feature_loadings(
                reports, feature, expected, known_directions, flip_variance + click_variances
            )
            for feature in features
        ]
        return cls(shares, expected, np.hstack([loadings, *feature_loadings]), noise)

    def score_items(self, rows: Sparse) -> Factors:
        """Return each user's scores, computed from the user's own true row, as factors.

        A user with a times as many items as expected has each item with probability a (p + loadings
        z), with z the user's tastes. The posterior mean of z takes each item to have Gaussian noise
        of variance a times `noise`.

        Args:
            rows: shape (users, items), ones.
        """
        lengths = np.diff(rows.indptr).astype(float)
        activity = np.maximum(lengths, 0.5) / self.expected.sum()
        residuals = (rows @ self.loadings) - np.outer(activity, self.expected @ self.loadings)
        values, basis = np.linalg.eigh(self.loadings.T @ self.loadings / self.noise)
        projections = (residuals / self.noise) @ basis
        tastes = (projections / (1 / activity[:, None] + values)) @ basis.T
        left = np.hstack([activity[:, None], tastes])
        return Factors(left, np.hstack([self.shares[:, None], self.loadings]))


def _compute_feature_loadings(
    reports: FlippedBits,
    feature: Floats,
    expected: Floats,
    known_directions: Floats,
    variances: Floats,
) -> Floats:
    """Return the loadings of a public feature: expected x feature, scaled to its variance.

    The mean square of the reports along a direction, less that of the noise, estimates the variance
    between users along it. One standard error of the noise is subtracted too, so that a feature
    without effect gets loadings of zero.

    Args:
        reports: the flipped bits.
        feature: shape (items, c).
        expected: shape (items,), the share of users who have each item.
        known_directions: shape (items, r), which are removed from the feature first.
        variances: shape (items,), of the noise in each item's reports.

    Returns:
        Array of shape (items, c).
    """
    basis, _ = np.linalg.qr(known_directions)
    directions = expected[:, None] * decorrelate_columns(feature, expected)
    directions -= basis @ (basis.T @ directions)
    squared_lengths = np.maximum((directions**2).sum(axis=0), SMALLEST)
    noise = variances @ directions**2 / squared_lengths
    mean_squares = (reports.multiply(directions) ** 2).mean(axis=0) / squared_lengths
    standard_error = math.sqrt(2 * (noise**2 / squared_lengths**2).sum() / reports.users) / len(
        squared_lengths
    )
    variance = ((mean_squares - noise) / squared_lengths).mean() - standard_error
    return math.sqrt(max(variance, 0.0)) * directions


class _NoiseSpectrum:
    """Eigenvalues of the sample covariance of m rows whose columns have noise of variances t.

    A direction of population variance alpha, above all noise, has the sample eigenvalue psi(alpha)
    = alpha + (alpha / m) sum t / (alpha - t) where psi increases (Bai, Yao, "On sample eigenvalues
    in a generalized spiked population model", 2012). The minimum of psi is the largest eigenvalue
    that noise alone has. With all t equal these are the edge and the shrinkage of Marchenko and
    Pastur.

    Attributes:
        height: the largest eigenvalue that noise alone has.
    """

    def __init__(self, variances: Floats, rows: int) -> None:
        from scipy.optimize import brentq

        self._t, self._m = variances, rows

        def slope(alpha: float) -> float:
            """Return the slope of psi, whose minimum is the edge of the spectrum of noise."""
            return 1 - np.sum((variances / (alpha - variances)) ** 2) / rows

        max_variance = variances.max()
        # The slope is -inf at the largest variance, and positive at the upper end.
        low, high = max_variance * (1 + 1e-9), max_variance * (2 + math.sqrt(len(variances) / rows))
        self._edge_alpha = brentq(slope, low, high) if slope(low) < 0 else low
        self.height = self.psi(self._edge_alpha)

    def psi(self, alpha: float) -> float:
        """Return the sample eigenvalue of a direction of population variance alpha."""
        return alpha * (1 + np.sum(self._t / (alpha - self._t)) / self._m)

    def invert_psi(self, eigenvalue: float) -> float:
        """Return the population variance of a sample eigenvalue that is above the noise."""
        from scipy.optimize import brentq

        return brentq(lambda alpha: self.psi(alpha) - eigenvalue, self._edge_alpha, eigenvalue)


def _find_leading_directions(reports: FlippedBits, common: Floats) -> tuple[Floats, Floats]:
    """Return the largest eigenvalues of P H'H P with P = I - common common', and their vectors.

    They are those of H'H within a block Krylov space (Musco, Musco 2015), which starts from public
    random vectors, the same in every run.

    Args:
        reports: the flipped bits, of which H is the unbiased estimate.
        common: shape (items,), the unit vector that is removed.

    Returns:
        Eigenvalues of shape (r,) in descending order, and vectors of shape (items, r).
    """
    users, items = reports.users, reports.items
    width = min(_WIDTH, items)
    block = np.random.default_rng(0).normal(size=(items, width))
    basis = common[:, None]
    for _ in range(_DEPTH):
        for _ in range(2):  # twice, because rounding leaves a remainder
            block -= basis @ (basis.T @ block)
        block = np.linalg.qr(block)[0]
        room = items - basis.shape[1]
        if room <= 0:
            break
        basis = np.hstack([basis, block[:, :room]])
        block = reports.multiply_transposed(reports.multiply(block))
    basis = np.linalg.qr(basis)[0][:, 1:]  # again, as the last blocks may be mostly rounding
    image = reports.multiply(basis)
    squares, rotation = np.linalg.eigh(image.T @ image)
    n_kept = min(_MAX_DIRECTIONS, len(squares), users)
    return squares[::-1][:n_kept], (basis @ rotation)[:, ::-1][:, :n_kept]
