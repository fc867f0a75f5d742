"""Users' rows as the user-level methods see them: capped, centred, clipped; their Gram matrix; and
least squares of many rows at once.

Every step here looks at one row at a time, so a user can do it alone, and one changed row never
changes another row. Row i is regressed on the factors of the other side: minimise
sum_j w_ij (y_ij - f_j'u)^2 + penalty ||u||^2 over u, j over the row's stored cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpmc_core.arrays import Bools, Floats, Ints, Rng, Sparse
from dpmc_core.model import Factors
from dpmc_core.privacy import Harmless, harmless
from dpmc_core.ratings import PublicFacts, Ratings, draw_cap_mask
from dpmc_core.solvers.linalg import LARGE_CHUNK, MatrixProduct, Pattern
from dpmc_core.stopping import call_cancellable, check_cancelled

_PRODUCTS_AT_ONCE = 64  # of two factors, summed at once
_SPARSE_GAIN = 250.0  # how much more one multiplication costs in a sparse product
_ITEM_STD = 0.1  # how much item means differ, in widths of the rating range
_GAIN_PRIOR = 0.3  # the chance beforehand that facts tell something
_RATING_STD = 0.2  # how much the ratings of one item differ, likewise


@dataclass(frozen=True, eq=False)
class ResidualRows:
    """Users' ratings less what each user knows of them beforehand.

    entries: where they are. values: in rating points, less the predictions of base, which knows all
    items. columns: which items the columns are, in increasing order; None: all.
    """

    entries: Pattern
    values: Floats
    base: Factors
    columns: Ints | None = None

    @classmethod
    def from_ratings(
        cls, ratings: Ratings, base: Factors, mask: Bools | None = None
    ) -> ResidualRows:
        """mask: which ratings; None: all."""
        entries = Pattern.from_ratings(ratings)
        entries = entries if mask is None else entries.select_entries(mask)
        values = base.predict(ratings.users, ratings.items)
        np.subtract(ratings.values, values, out=values)
        return cls(entries, values if mask is None else values[mask], base)

    def select_columns(self, columns: Ints | None) -> ResidualRows:
        """The same rows with the columns of some items alone; None: of all."""
        if columns is None:
            return self
        entries, mask = self.entries.select_columns(columns)
        return replace(self, entries=entries, values=self.values[mask], columns=columns)

    def build_model(self, fitted: Factors, **user_arrays: Any) -> Factors:
        """The model in rating points of what was fitted to the values.

        user_arrays: what else a user takes for the own row of it, see `OwnSide`.
        """
        if self.columns is not None:
            user_arrays["columns"] = self.columns
        right = scatter_rows(fitted.right, self.columns, len(self.base.right))
        return Factors(
            np.column_stack([fitted.left, self.base.left]),
            np.column_stack([right, self.base.right]),
            {
                **self.base.user_arrays,
                **{name: np.array(array) for name, array in user_arrays.items()},
            },
        )


def scatter_rows(rows: Floats, columns: Ints | None, items: int) -> Floats:
    """Rows that belong to some of the items as rows of all, items x r: zeros for the others."""
    if columns is None:
        return rows
    scattered = np.zeros((items, rows.shape[1]))
    scattered[columns] = rows
    return scattered


def cap_ratings(ratings: Ratings, cap: int, key: int) -> Ratings:
    """At most `cap` ratings of each user."""
    mask = cap_mask(ratings, cap, key)
    return ratings if mask is None else ratings.select(mask)


def cap_mask(ratings: Ratings, cap: int, key: int) -> Bools | None:
    """At most `cap` ratings of each user, chosen at random by a hash of the user's own cells.

    key: see `draw_cap_key`; the ratings of one user never decide those of another.
    None: all of them.
    """
    is_within_cap = np.diff(ratings.indptr).max() <= cap
    return None if is_within_cap else draw_cap_mask(ratings, cap, key)


def draw_cap_key(rng: Rng) -> int:
    """What keys the choice of the ratings that a cap keeps."""
    return int(harmless(rng, Harmless.CAP).integers(2**63))


def centre_ratings(ratings: Ratings, item_effects: Floats | None = None) -> ResidualRows:
    """Ratings less item effects (length n; None: zeros), then less each user's own mean of those.

    Without ratings that mean is the middle of the range.
    """
    (m, n), entries = ratings.shape, Pattern.from_ratings(ratings)
    item_effects = np.zeros(n) if item_effects is None else item_effects
    values = ratings.values - item_effects[entries.items]
    user_means = row_means(entries, values, ratings.public.middle)
    base = factors_with_offsets(np.zeros((m, 0)), np.zeros((n, 0)), user_means, item_effects)
    values -= entries.expand_rows(user_means)
    return ResidualRows(entries, values, base)


def row_means(entries: Pattern, values: Floats, empty_mean: float) -> Floats:
    """Mean of each row, `empty_mean` where a row has no cell; length m."""
    means = row_sums(entries, values) / np.maximum(entries.counts, 1)
    return np.where(entries.counts > 0, means, empty_mean)


def row_sums(entries: Pattern, values: Floats) -> Floats:
    """Sum of each row, length m; of values with columns m x columns."""
    sums = np.zeros((entries.shape[0], *values.shape[1:]))
    nonempty = entries.counts > 0  # reduceat would give an empty row its neighbour's value
    if len(values):
        sums[nonempty] = np.add.reduceat(values, entries.indptr[:-1][nonempty])
    return sums


def item_sums(entries: Pattern, values: ArrayLike = 1.0, row_factors: ArrayLike = 1.0) -> Floats:
    """Sum of each column, whose cells count times the factor of their row; length n."""
    (m, n), sums = entries.shape, np.zeros(entries.shape[1])
    values, row_factors = (
        np.broadcast_to(values, len(entries.items)),
        np.broadcast_to(row_factors, m),
    )
    for rows, span, chunk in entries.iter_chunks(LARGE_CHUNK):
        sums += np.bincount(
            chunk.items, weights=values[span] * chunk.expand_rows(row_factors[rows]), minlength=n
        )
    return sums


def shrinkage(norms: Floats, max_norm: float) -> Floats:
    """The factors <= 1 that bring rows of those norms to `max_norm` at most; length m."""
    with np.errstate(divide="ignore"):
        return np.minimum(max_norm / norms, 1.0)


def row_norms(entries: Pattern, values: Floats) -> Floats:
    """The l2 norm of each row, length m."""
    squares = np.empty(entries.shape[0])
    for rows, span, chunk in entries.iter_chunks():
        squares[rows] = row_sums(chunk, values[span] ** 2)
    return np.sqrt(squares)


def clip_rows(entries: Pattern, values: Floats, max_norm: float) -> Floats:
    """Scale the rows to l2 norm `max_norm` at most, in place; by which factors <= 1, length m."""
    factors = shrinkage(row_norms(entries, values), max_norm)
    scale_rows(entries, values, factors)
    return factors


def scale_rows(entries: Pattern, values: Floats, factors: Floats) -> None:
    """Multiply each row by its factor, in place."""
    for rows, span, chunk in entries.iter_chunks():
        values[span] *= chunk.expand_rows(factors[rows])


def normalise_rows(vectors: Floats, min_length: float = 0.0) -> Floats:
    """Each row of length one; zeros where it is not longer than `min_length`."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(lengths > min_length, vectors / lengths, 0.0)


def clip_dense_rows(rows: Floats, max_norm: float) -> tuple[Floats, int]:
    """A dense m x n matrix whose rows are clipped likewise, and how many were scaled."""
    factors = shrinkage(np.linalg.norm(rows, axis=1), max_norm)
    return rows * factors[:, None], int((factors < 1).sum())


def gram(rows: Sparse) -> Floats:
    """A'A of the m x n matrix A of the rows, n x n, dense.

    Blocks of rows as dense matrices, or one sparse product where rows are nearly empty.
    """
    entries = Pattern.from_matrix(rows)
    m, n = entries.shape
    if _SPARSE_GAIN * np.square(entries.counts, dtype=float).sum() < m * n * n:
        return np.asarray(call_cancellable(rows.T.__matmul__, rows).toarray())
    total = np.zeros((n, n))
    for row_slice, *_ in entries.iter_chunks(dense=True):
        block = rows[row_slice].toarray()
        total += block.T @ block
    return total


def gram_products(
    rows: Sparse, row_factors: Floats | float = 1.0, *, diagonal: bool = True
) -> MatrixProduct:
    """The products of A'A, or of what is off its diagonal, with blocks of columns.

    A: the rows, each times its factor.
    """
    row_factors = np.broadcast_to(row_factors, rows.shape[0])[:, None]
    squares = 0.0 if diagonal else rows.power(2).T @ row_factors**2
    return partial(_multiply_gram, rows, row_factors, squares)


def _multiply_gram(
    rows: Sparse, row_factors: Floats, squares: Floats | float, block: Floats
) -> Floats:
    if block.shape[1] < rows.shape[1]:
        return np.asarray(rows.T @ (row_factors**2 * (rows @ block))) - squares * block
    entries = Pattern.from_matrix(rows)  # for so many columns the matrix itself is less work
    gram_matrix = gram(entries.build_matrix(rows.data * entries.expand_rows(row_factors[:, 0])))
    return call_cancellable(gram_matrix.__matmul__, block) - squares * block


def low_rank_gram_products(
    left: Floats, right: Floats, entries: Pattern, values: Floats
) -> MatrixProduct:
    """The products of A'A with blocks of columns, A = left right' and the values on the cells."""
    sparse = entries.build_matrix(values)
    inner, cross, multiply_sparse = left.T @ left, sparse.T @ left, gram_products(sparse)

    def multiply(block: Floats) -> Floats:
        projection = right.T @ block
        return (
            right @ (inner @ projection + cross.T @ block)
            + cross @ projection
            + multiply_sparse(block)
        )

    return multiply


def normal_equations(rows: Any, factors: Floats, weights: Any = None) -> tuple[Floats, Floats]:
    """A (m x d x d) and b (m x d) of all rows, zeros where a row has no cell.

    rows: w_ij y_ij, compressed either way; weights: w_ij on the same cells, None: ones. Cell after
    cell, so no row changes the last bit of another's.
    """
    (m, _), d = rows.shape, factors.shape[1]
    if weights is None:
        weights = type(rows)((np.ones(rows.nnz), rows.indices, rows.indptr), shape=rows.shape)
    squares, lower = np.empty((m, d, d)), np.transpose(np.tril_indices(d))
    for start in range(0, len(lower), _PRODUCTS_AT_ONCE):
        check_cancelled()
        i, j = lower[start : start + _PRODUCTS_AT_ONCE].T
        squares[:, i, j] = squares[:, j, i] = weights @ (factors[:, i] * factors[:, j])
    return squares, np.asarray(rows @ factors)


def solve_ridge(squares: Floats, moments: Floats, penalty: ArrayLike) -> Floats:
    """(A_i + penalty I)^-1 b_i, m x d.

    squares: m x d x d, or d x d shared by all; moments: m x d; penalty > 0: a number or m.
    """
    regularised = squares.copy()
    diagonal = np.arange(squares.shape[-1])
    regularised[..., diagonal, diagonal] += np.asarray(penalty)[..., None]
    if squares.ndim == 2:
        return np.asarray(np.linalg.solve(regularised, moments.T).T)
    return call_cancellable(np.linalg.solve, regularised, moments[..., None])[..., 0]


def item_normal_equations(
    entries: Pattern,
    values: Floats,
    factors: Floats,
    weights: ArrayLike = 1.0,
    clip: float = math.inf,
) -> tuple[Floats, Floats]:
    """Those of every column, of values cut to +-bound; factors: of the rows."""
    (_, n), d = entries.shape, factors.shape[1]
    squares, moments = np.zeros((n, d, d)), np.zeros((n, d))
    weights = np.broadcast_to(weights, len(values))
    for rows, span, chunk in entries.iter_chunks(LARGE_CHUNK):
        clipped = weights[span] * np.clip(values[span], -clip, clip)
        weighted, chunk_weights = (chunk.build_matrix(x).T for x in (clipped, weights[span]))
        chunk_equations = normal_equations(weighted, factors[rows], chunk_weights)
        squares, moments = squares + chunk_equations[0], moments + chunk_equations[1]
    return squares, moments


def solve_ridge_rows(
    entries: Pattern, values: Floats, factors: Floats, *penalties: float
) -> Floats:
    """The ridge solutions of every row, penalties x m x d; zeros for a row without cells."""
    solutions = np.empty((len(penalties), entries.shape[0], factors.shape[1]))
    for rows, span, chunk in entries.iter_chunks(LARGE_CHUNK):
        squares, moments = normal_equations(chunk.build_matrix(values[span]), factors)
        for index, penalty in enumerate(penalties):
            solutions[index, rows] = solve_ridge(squares, moments, penalty)
    return solutions


def project_to_semidefinite(matrices: Floats) -> Floats:
    """Each symmetric matrix of a k x r x r batch projected to the positive semidefinite cone."""
    values, vectors = np.linalg.eigh(matrices)
    projected: Floats = np.einsum(
        "kij,kj,klj->kil", vectors, np.maximum(values, 0.0), vectors, optimize=True
    )
    return projected


def spectral_scale(item_factors: Floats) -> float:
    """What takes the largest singular value of item factors, n x r, to sqrt(n); 1 for zeros."""
    largest = float(np.linalg.norm(item_factors, 2))
    return math.sqrt(len(item_factors)) / largest if largest > 0 else 1.0


def bound_spectral_norm(item_factors: Floats) -> Floats:
    """Item factors scaled down until their largest singular value is <= sqrt(n); n x r.

    The entries along it are then about one and user factors are in rating points. Factors that a
    ridge has shrunk, because noise drowned them, stay small: nobody fits them.
    """
    return item_factors * min(spectral_scale(item_factors), 1.0)


def draw_random_factors(count: int, rank: int, rng: Rng, std: float = 1.0) -> Floats:
    """Starting factors that look at no data: independent N(0, spread^2), count x rank."""
    return harmless(rng, Harmless.START).normal(0.0, std, (count, rank))


def factors_with_offsets(
    left: Floats, right: Floats, user: Floats | float, item: Floats | None = None
) -> Factors:
    """The model user_i + item_j + left_i . right_j as plain factors: a pair more for each offset.

    user: length m, or one number for all; item: length n, or None for no such offset.
    """
    left = np.column_stack([left, np.broadcast_to(user, len(left))])
    right = np.column_stack([right, np.ones(len(right))])
    if item is None:
        return Factors(left, right)
    return Factors(np.column_stack([left, np.ones(len(left))]), np.column_stack([right, item]))


def nuclear_radius(share: float, public: PublicFacts) -> float:
    """A nuclear norm in rating points; share: in units of half the range x sqrt(m n)."""
    return share * public.half_width * math.sqrt(public.users * public.items)


def contribution_weights(ratings: Ratings, n_full: int, norm: int = 2) -> Floats:
    """A weight in 0..1 for each rating, so that no user's weights are longer than a row of
    `n_full`.

    norm 2: l2 length <= sqrt(count), weights min(1, sqrt(count / own)), own = the user's ratings;
    norm 1: l1 length <= count, weights min(1, count / own). They depend on the user's row alone.
    """
    share = shrinkage(np.diff(ratings.indptr).astype(float), n_full)[ratings.users]
    return np.sqrt(share) if norm == 2 else share


def shrink_item_means(sums: Floats, counts: Floats) -> Floats:
    """Item means from sums of centred ratings and how many there are, in rating points; length n.

    Item means are taken as spread by a tenth of the public range, ratings about them by a fifth:
    the mean of C ratings is shrunk as by four more ratings of the average item.
    """
    return sums / (counts + (_RATING_STD / _ITEM_STD) ** 2)


def feature_gain_probability(
    released: Floats, noise: float, mean: float, std: float, null_std: float
) -> Floats:
    """The chance that facts tell users something, from what was released of their worth.

    released: a fact's worth, averaged over users, with noise of that standard deviation: N(mean,
    spread^2) where it tells, N(0, idle^2) where it does not.
    """
    gain_variance, null_variance = std**2 + noise**2, null_std**2 + noise**2
    log_odds = 0.5 * (released**2 / null_variance - (released - mean) ** 2 / gain_variance)
    log_odds += math.log(_GAIN_PRIOR / (1 - _GAIN_PRIOR)) + 0.5 * math.log(
        null_variance / gain_variance
    )
    probabilities: Floats = 1 / (1 + np.exp(-np.clip(log_odds, -30, 30)))
    return probabilities


def truncated_normal_moments(mean: Floats, std: float) -> tuple[Floats, Floats]:
    """Mean and variance of normal variables that are known to be positive."""
    from scipy.special import log_ndtr

    if std == 0:
        return np.maximum(mean, 0.0), np.zeros(len(mean))
    z = mean / std
    hazard = np.exp(-0.5 * z * z - 0.5 * math.log(2 * math.pi) - log_ndtr(z))
    variance = np.maximum(std**2 * (1 - hazard * (z + hazard)), 0.0)
    return np.maximum(std * (z + hazard), 0.0), variance


def posterior_positive_mean(noisy: Floats, noise_std: float, min_stds: float = 1e-3) -> Floats:
    """The mean of a number >= 0, a priori anywhere, of which x + N(0, noise^2) was seen.

    At least `min_stds` standard deviations of the noise.
    """
    return np.maximum(truncated_normal_moments(noisy, noise_std)[0], min_stds * noise_std)
