"""Users' rows as the user-level methods see them, and least squares of many rows at once.

Rows are capped, centred and clipped here, and their Gram matrix is built. Every step looks at one
row at a time, so a user can do it alone, and one changed row never changes another row. Row i is
regressed on the factors of the other side: minimise sum_j w_ij (y_ij - f_j'u)^2 + penalty ||u||^2
over u, j over the row's stored entries.

In shapes, m is the number of rows (users), n the number of columns (items), n_entries the number of
observed pairs, sorted by row, and d the length of a factor.
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

_PRODUCTS_AT_ONCE = 64  # products of two factors that are summed at once
_SPARSE_COST = 250.0  # cost of a multiplication in a sparse product, relative to a dense one
# Ratings at the mean that every item is given: ratings of an item vary twice as much as item means.
_ITEM_PSEUDO_RATINGS = 4


@dataclass(frozen=True, eq=False)
class ResidualRows:
    """The residuals of users' ratings: what a model that each user already has leaves of them.

    Attributes:
        entries: the observed (user, item) pairs, sorted by user.
        values: shape (n_entries,), ratings less the predictions of `base`, in rating points.
        base: the model whose predictions are subtracted; it covers all items.
        columns: shape (n_columns,), the item of each column, in increasing order; None: all items.
    """

    entries: Pattern
    values: Floats
    base: Factors
    columns: Ints | None = None

    @classmethod
    def from_ratings(
        cls, ratings: Ratings, base: Factors, mask: Bools | None = None
    ) -> ResidualRows:
        """Subtract the predictions of `base` from the ratings.

        Args:
            ratings: the users' ratings.
            base: the model that each user already has.
            mask: shape (n_ratings,), which ratings are used; None: all.
        """
        entries = Pattern.from_ratings(ratings)
        entries = entries if mask is None else entries.select_entries(mask)
        values = base.predict(ratings.users, ratings.items)
        np.subtract(ratings.values, values, out=values)
        return cls(entries, values if mask is None else values[mask], base)

    def select_columns(self, columns: Ints | None) -> ResidualRows:
        """Return the same rows restricted to the columns of some items.

        Args:
            columns: shape (n_columns,), the items, in increasing order; None: all items.
        """
        if columns is None:
            return self
        entries, mask = self.entries.select_columns(columns)
        return replace(self, entries=entries, values=self.values[mask], columns=columns)

    def build_model(self, fitted: Factors, **user_arrays: Any) -> Factors:
        """Return the model in rating points that follows from factors fitted to the values.

        Args:
            fitted: user factors of shape (m, d) and factors of the columns of shape (n_columns, d).
            user_arrays: further arrays from which a user computes the user's row, see `OwnSide`.
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
    """Extend rows that belong to some items to all items, with zeros for the rest.

    Args:
        rows: shape (n_columns, d).
        columns: shape (n_columns,), the item of each row; None: all items.
        items: the number of all items.

    Returns:
        Array of shape (items, d).
    """
    if columns is None:
        return rows
    scattered = np.zeros((items, rows.shape[1]))
    scattered[columns] = rows
    return scattered


def cap_ratings(ratings: Ratings, cap: int, key: int) -> Ratings:
    """Return at most `cap` ratings of each user, chosen as `cap_mask` chooses them.

    Args:
        ratings: the users' ratings.
        cap: the largest number of ratings of a user.
        key: the key of the hash, see `draw_cap_key`.
    """
    mask = cap_mask(ratings, cap, key)
    return ratings if mask is None else ratings.select(mask)


def cap_mask(ratings: Ratings, cap: int, key: int) -> Bools | None:
    """Choose at most `cap` ratings of each user at random, by a hash of the user's own cells.

    The ratings of one user never decide which ratings of another user are chosen.

    Args:
        ratings: the users' ratings.
        cap: the largest number of ratings of a user.
        key: the key of the hash, see `draw_cap_key`.

    Returns:
        Array of shape (n_ratings,); None where no user has more than `cap` ratings.
    """
    return None if (np.diff(ratings.indptr).max() <= cap) else draw_cap_mask(ratings, cap, key)


def draw_cap_key(rng: Rng) -> int:
    """Draw the key of the hash that chooses the ratings under a cap.

    Args:
        rng: the generator of the run.
    """
    return int(harmless(rng, Harmless.CAP).integers(2**63))


def centre_ratings(ratings: Ratings, item_effects: Floats | None = None) -> ResidualRows:
    """Subtract item effects and then each user's own mean from the ratings.

    The mean of a user without ratings is the middle of the range.

    Args:
        ratings: the users' ratings.
        item_effects: shape (n,), in rating points; None: zeros.
    """
    m, n = ratings.shape
    entries = Pattern.from_ratings(ratings)
    item_effects = np.zeros(n) if item_effects is None else item_effects
    values = ratings.values - item_effects[entries.items]
    user_means = row_means(entries, values, ratings.public.middle)
    base = factors_with_offsets(np.zeros((m, 0)), np.zeros((n, 0)), user_means, item_effects)
    values -= entries.expand_rows(user_means)
    return ResidualRows(entries, values, base)


def row_means(entries: Pattern, values: Floats, empty_mean: float) -> Floats:
    """Return the mean of each row.

    Args:
        entries: the observed pairs.
        values: shape (n_entries,).
        empty_mean: the mean of a row without entries.

    Returns:
        Array of shape (m,).
    """
    means = row_sums(entries, values) / np.maximum(entries.counts, 1)
    return np.where(entries.counts > 0, means, empty_mean)


def row_sums(entries: Pattern, values: Floats) -> Floats:
    """Return the sum of each row's values.

    Args:
        entries: the observed pairs.
        values: shape (n_entries,).

    Returns:
        Array of shape (m,).
    """
    sums = np.zeros(entries.shape[0])
    nonempty = entries.counts > 0  # reduceat would give an empty row its neighbour's value
    if len(values):
        sums[nonempty] = np.add.reduceat(values, entries.indptr[:-1][nonempty])
    return sums


def item_sums(entries: Pattern, values: ArrayLike = 1.0, row_factors: ArrayLike = 1.0) -> Floats:
    """Return the sum of each item's values, with every value multiplied by the factor of its row.

    Args:
        entries: the observed pairs.
        values: shape (n_entries,), or one number for all entries.
        row_factors: shape (m,), or one number for all rows.

    Returns:
        Array of shape (n,).
    """
    sums = np.zeros(entries.shape[1])
    values = np.broadcast_to(values, len(entries.items))
    row_factors = np.broadcast_to(row_factors, entries.shape[0])
    for rows, span, chunk in entries.iter_chunks(LARGE_CHUNK):
        sums += chunk.build_matrix(values[span]).T @ row_factors[rows]
    return sums


def shrinkage(norms: Floats, max_norm: Floats | float) -> Floats:
    """Return the factors, at most 1, that scale rows down to norm `max_norm`.

    Args:
        norms: shape (m,), the norms of the rows.
        max_norm: the largest norm allowed, in the unit of the norms; a number, or shape (m,).

    Returns:
        Array of shape (m,).
    """
    with np.errstate(divide="ignore"):
        return np.minimum(max_norm / norms, 1.0)


def row_norms(entries: Pattern, values: Floats) -> Floats:
    """Return the l2 norm of each row.

    Args:
        entries: the observed pairs.
        values: shape (n_entries,).

    Returns:
        Array of shape (m,).
    """
    squares = np.empty(entries.shape[0])
    for rows, span, chunk in entries.iter_chunks():
        squares[rows] = row_sums(chunk, values[span] ** 2)
    return np.sqrt(squares)


def clip_rows(entries: Pattern, values: Floats, max_norm: float) -> Floats:
    """Scale the rows down to l2 norm `max_norm`, in place.

    Args:
        entries: the observed pairs.
        values: shape (n_entries,), overwritten.
        max_norm: the largest norm allowed, in the unit of the values.

    Returns:
        Array of shape (m,), the factor of each row, at most 1.
    """
    factors = shrinkage(row_norms(entries, values), max_norm)
    scale_rows(entries, values, factors)
    return factors


def scale_rows(entries: Pattern, values: Floats, factors: Floats) -> None:
    """Multiply each row by its factor, in place.

    Args:
        entries: the observed pairs.
        values: shape (n_entries,), overwritten.
        factors: shape (m,).
    """
    for rows, span, chunk in entries.iter_chunks():
        values[span] *= chunk.expand_rows(factors[rows])


def normalise_rows(vectors: Floats, min_length: float = 0.0) -> Floats:
    """Scale each row to length one; rows no longer than `min_length` become zero.

    Args:
        vectors: shape (m, d).
        min_length: the length up to which a row counts as zero.

    Returns:
        Array of shape (m, d).
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > min_length)


def clip_dense_rows(rows: Floats, max_norm: float) -> tuple[Floats, int]:
    """Scale the rows of a dense matrix down to l2 norm `max_norm`.

    Args:
        rows: shape (m, n).
        max_norm: the largest norm allowed, in the unit of the rows.

    Returns:
        The scaled rows, shape (m, n), and the number of rows that were scaled.
    """
    factors = shrinkage(np.linalg.norm(rows, axis=1), max_norm)
    return rows * factors[:, None], (factors < 1).sum()


def gram(rows: Sparse) -> Floats:
    """Return the Gram matrix A'A of the sparse matrix A of the rows, dense.

    It sums blocks of rows as dense matrices, or takes one sparse product where rows are nearly
    empty.

    Args:
        rows: A, shape (m, n).

    Returns:
        Array of shape (n, n).
    """
    entries = Pattern.from_matrix(rows)
    m, n = entries.shape
    if _SPARSE_COST * np.square(entries.counts, dtype=float).sum() < m * n * n:
        return call_cancellable(rows.T.__matmul__, rows).toarray()
    total = np.zeros((n, n))
    for row_slice, *_ in entries.iter_chunks(dense=True):
        block = rows[row_slice].toarray()
        total += block.T @ block
    return total


def gram_products(
    rows: Sparse, row_factors: Floats | float = 1.0, *, diagonal: bool = True
) -> MatrixProduct:
    """Return the function that multiplies A'A, or its off-diagonal part, by blocks of columns.

    Args:
        rows: shape (m, n); A is these rows, each multiplied by its factor.
        row_factors: shape (m,), or one number for all rows.
        diagonal: whether the diagonal of A'A is included.

    Returns:
        A function from blocks of shape (n, b) to blocks of shape (n, b).
    """
    row_factors = np.broadcast_to(row_factors, rows.shape[0])[:, None]
    squares = 0.0 if diagonal else rows.power(2).T @ row_factors**2
    return partial(_multiply_gram, rows, row_factors, squares)


def _multiply_gram(
    rows: Sparse, row_factors: Floats, squares: Floats | float, block: Floats
) -> Floats:
    """Multiply A'A, or its off-diagonal part, by a block of columns; see `gram_products`.

    Args:
        rows: shape (m, n); A is these rows, each multiplied by its factor.
        row_factors: shape (m, 1).
        squares: the diagonal of A'A, shape (n, 1), which is subtracted; 0 to keep it.
        block: shape (n, b).

    Returns:
        Array of shape (n, b).
    """
    if block.shape[1] < rows.shape[1]:
        return rows.T @ (row_factors**2 * (rows @ block)) - squares * block
    entries = Pattern.from_matrix(rows)  # for so many columns, building the Gram matrix is faster
    gram_matrix = gram(entries.build_matrix(rows.data * entries.expand_rows(row_factors[:, 0])))
    return call_cancellable(gram_matrix.__matmul__, block) - squares * block


def low_rank_gram_products(
    left: Floats, right: Floats, entries: Pattern, values: Floats
) -> MatrixProduct:
    """Return the function that multiplies A'A by blocks, A = left right' plus a sparse matrix.

    Args:
        left: shape (m, d).
        right: shape (n, d).
        entries: where the sparse matrix has values.
        values: shape (n_entries,).

    Returns:
        A function from blocks of shape (n, b) to blocks of shape (n, b).
    """
    # With A = L R' + S it is A'A = R L'L R' + R L'S + S'L R' + S'S.
    sparse = entries.build_matrix(values)
    inner = left.T @ left
    cross = sparse.T @ left
    multiply_sparse = gram_products(sparse)

    def multiply(block: Floats) -> Floats:
        projection = right.T @ block
        return (
            right @ (inner @ projection + cross.T @ block)
            + cross @ projection
            + multiply_sparse(block)
        )

    return multiply


def normal_equations(rows: Any, factors: Floats, weights: Any = None) -> tuple[Floats, Floats]:
    """Build A_i = sum_j w_ij f_j f_j' and b_i = sum_j w_ij y_ij f_j of every row.

    The sums run entry after entry, so no row changes the last bit of another row's sums.

    Args:
        rows: w_ij y_ij, a sparse matrix of shape (m, n), compressed along either axis.
        factors: f, shape (n, d).
        weights: w_ij, a sparse matrix with the same stored entries; None: ones.

    Returns:
        A of shape (m, d, d) and b of shape (m, d), zeros where a row has no entry.
    """
    m, d = rows.shape[0], factors.shape[1]
    if weights is None:
        weights = type(rows)((np.ones(rows.nnz), rows.indices, rows.indptr), shape=rows.shape)
    squares = np.empty((m, d, d))
    lower_pairs = np.transpose(np.tril_indices(d))  # A_i is symmetric
    for start in range(0, len(lower_pairs), _PRODUCTS_AT_ONCE):
        check_cancelled()
        i, j = lower_pairs[start : start + _PRODUCTS_AT_ONCE].T
        squares[:, i, j] = squares[:, j, i] = weights @ (factors[:, i] * factors[:, j])
    return squares, rows @ factors


def solve_ridge(squares: Floats, moments: Floats, penalty: ArrayLike) -> Floats:
    """Solve the ridge problems (A_i + penalty I)^-1 b_i of all rows.

    Args:
        squares: A, shape (m, d, d), or (d, d) where all rows share it.
        moments: b, shape (m, d).
        penalty: above 0, one number, or shape (m,) where each row has its own A.

    Returns:
        Array of shape (m, d).

    Raises:
        LinAlgError: a penalty is below the rounding of its A, which has no inverse.
    """
    regularised = np.multiply.outer(penalty, np.eye(len(squares.T))) + squares
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
    """Build the normal equations of every column, from values clipped to [-clip, clip].

    Args:
        entries: the observed pairs.
        values: shape (n_entries,).
        factors: shape (m, d), of the rows.
        weights: shape (n_entries,), or one number for all entries.
        clip: the largest absolute value, in the unit of the values.

    Returns:
        Squares of shape (n, d, d) and moments of shape (n, d).
    """
    n, d = entries.shape[1], factors.shape[1]
    squares, moments = np.zeros((n, d, d)), np.zeros((n, d))
    weights = np.broadcast_to(weights, len(values))
    for rows, span, chunk in entries.iter_chunks(LARGE_CHUNK):
        clipped = weights[span] * np.clip(values[span], -clip, clip)
        weighted, chunk_weights = (chunk.build_matrix(x).T for x in (clipped, weights[span]))
        chunk_squares, chunk_moments = normal_equations(weighted, factors[rows], chunk_weights)
        squares += chunk_squares
        moments += chunk_moments
    return squares, moments


def solve_ridge_rows(
    entries: Pattern, values: Floats, factors: Floats, *penalties: float
) -> Floats:
    """Solve the ridge problem of every row for each penalty.

    Args:
        entries: the observed pairs.
        values: shape (n_entries,).
        factors: shape (n, d), of the columns.
        penalties: numbers above 0.

    Returns:
        Array of shape (n_penalties, m, d); zeros for a row without entries.
    """
    solutions = np.empty((len(penalties), entries.shape[0], factors.shape[1]))
    for rows, span, chunk in entries.iter_chunks(LARGE_CHUNK):
        squares, moments = normal_equations(chunk.build_matrix(values[span]), factors)
        for index, penalty in enumerate(penalties):
            solutions[index, rows] = solve_ridge(squares, moments, penalty)
    return solutions


def project_to_semidefinite(matrices: Floats) -> Floats:
    """Project each symmetric matrix to the cone of positive semidefinite matrices.

    Args:
        matrices: shape (k, d, d).

    Returns:
        Array of shape (k, d, d).
    """
    values, vectors = np.linalg.eigh(matrices)
    return np.einsum("kij,kj,klj->kil", vectors, np.maximum(values, 0.0), vectors, optimize=True)


def spectral_scale(item_factors: Floats) -> float:
    """Return the factor that brings the largest singular value of item factors to sqrt(n).

    Args:
        item_factors: shape (n, d).

    Returns:
        The factor; 1 where all factors are zero.
    """
    largest = float(np.linalg.norm(item_factors, 2))
    return math.sqrt(len(item_factors)) / largest if largest > 0 else 1.0


def bound_spectral_norm(item_factors: Floats) -> Floats:
    """Scale item factors down until their largest singular value is at most sqrt(n).

    Item factors along the largest direction are then about 1 in size, and user factors are in
    rating points. Smaller factors, which a ridge has shrunk because of the noise, are not scaled
    up, so that the users' ridge hardly fits them either.

    Args:
        item_factors: shape (n, d).

    Returns:
        Array of shape (n, d).
    """
    return item_factors * min(spectral_scale(item_factors), 1.0)


def draw_random_factors(count: int, rank: int, rng: Rng, std: float = 1.0) -> Floats:
    """Draw starting factors that look at no data: independent N(0, std^2).

    Args:
        count: the number of rows.
        rank: the number of columns.
        rng: the generator of the run.
        std: the standard deviation of an entry.

    Returns:
        Array of shape (count, rank).
    """
    return harmless(rng, Harmless.START).normal(0.0, std, (count, rank))


def factors_with_offsets(
    left: Floats, right: Floats, user: Floats | float, item: Floats | None = None
) -> Factors:
    """Return the model user_i + item_j + left_i . right_j as plain factors, a pair for each offset.

    Args:
        left: shape (m, d).
        right: shape (n, d).
        user: shape (m,), or one number for all users, in rating points.
        item: shape (n,), in rating points; None: no item offset.
    """
    left = np.column_stack([left, np.broadcast_to(user, len(left))])
    right = np.column_stack([right, np.ones(len(right))])
    if item is None:
        return Factors(left, right)
    return Factors(np.column_stack([left, np.ones(len(left))]), np.column_stack([right, item]))


def nuclear_radius(share: float, public: PublicFacts) -> float:
    """Convert a nuclear norm to rating points.

    Args:
        share: the norm in units of half the range times sqrt(m n).
        public: the public range and the numbers of users and items.
    """
    return share * public.half_width * math.sqrt(public.users * public.items)


def contribution_weights(ratings: Ratings, n_full: int, norm: int = 2) -> Floats:
    """Weigh the ratings so that a user's weights are at most as long as `n_full` weights of 1.

    The weights of a user depend on the user's own row alone. With k ratings of the user they are
    min(1, sqrt(n_full / k)) for norm 2 (l2 length at most sqrt(n_full)) and min(1, n_full / k) for
    norm 1 (l1 length at most n_full).

    Args:
        ratings: the users' ratings.
        n_full: how many ratings of a user count in full.
        norm: 1 or 2.

    Returns:
        Array of shape (n_ratings,), values in [0, 1].
    """
    share = shrinkage(np.diff(ratings.indptr).astype(float), n_full)[ratings.users]
    return np.sqrt(share) if norm == 2 else share


def shrink_item_means(sums: Floats, counts: Floats) -> Floats:
    """Return item means of centred ratings, shrunk to 0 as if each item had four more ratings of 0.

    Args:
        sums: shape (n,), in rating points.
        counts: shape (n,), the numbers of ratings.

    Returns:
        Array of shape (n,), in rating points.
    """
    return sums / (counts + _ITEM_PSEUDO_RATINGS)
