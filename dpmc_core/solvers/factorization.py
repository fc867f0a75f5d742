"""Least-squares factorization of ratings and of clicks, row by row and exactly. No privacy here.

Clicks: with S the observed cells of an m x n matrix of zeros and ones, rows p_u and columns q_i,

    L = sum_S (p'q - 1)^2 + alpha sum_D (p'q)^2 + ridge,  D = all cells, or the missing ones

(Rendle, Krichene, Zhang, Koren, "Revisiting the performance of iALS on item recommendation
benchmarks", 2021; RYHH24, Eq. 1 and 11). Ratings, from the middle of their public range:

    L = sum_S (r - p'q)^2 + user_penalty ||P||_F^2 + item_penalty ||Q||_F^2

with ||p_u|| <= 1 where it is set (HXZ15: Hua, Xia, Zhong, "Differentially Private Matrix
Factorization", 2015).
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpmc_core.arrays import AnyArray, Floats, Ints, Rng, Sparse
from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_core.ratings import Ratings, group_rows_by_length
from dpmc_core.settings import mechanism, setting
from dpmc_core.solvers.linalg import MatrixProduct, Pattern
from dpmc_core.solvers.rows import (
    clip_dense_rows,
    draw_random_factors,
    normal_equations,
    solve_ridge,
)
from dpmc_core.stopping import call_cancellable, check_cancelled

_BLOCK_ROWS = 20_000  # rows of factors gathered at once: they stay near the cache
_MAX_DIRECT_RANK = 32  # up to which building and solving a row's equations is faster
_MAX_CG_STEPS = 100  # of conjugate gradients; three to ten are usual
_CG_TOLERANCE = 5e-5  # of the residual, relative; the loss is then right to eight digits
_TINY = float(np.finfo(np.float32).tiny)
_START_STD = 0.1  # standard deviation of starting item factors around (1, 0, ..., 0)
_MAX_NEWTON_ROUNDS = 100  # rounds of Newton's method; a handful is usual


# --- clicks ----------------------------------------------------------------------------------


class PenalisedCells(enum.Enum):
    """The cells whose predictions the loss penalises, which pulls these to zero."""

    ALL = "all"  # every cell (iALS)
    MISSING = "missing"  # cells that were not observed (the complementary loss of RYHH24)


@dataclass(frozen=True)
class ImplicitLoss:
    """The weights of the loss of clicks.

    Attributes:
        alpha: the weight of the cells that pull to zero, at least 0.
        regularisation: lambda, the weight of the ridge.
        penalised_cells: which cells pull to zero.
        frequency: whether a row with k clicks among n cells has the ridge lambda (k + alpha n), or
            lambda (k + alpha (n - k)) if only missing cells pull to zero; otherwise every row has
            the ridge lambda.
    """

    alpha: float
    regularisation: float
    penalised_cells: PenalisedCells = PenalisedCells.ALL
    frequency: bool = True

    def ridge(self, counts: Ints, n_cells: int) -> Floats:
        """Return the ridge of each row.

        Args:
            counts: shape (k,), the number of clicks of each row.
            n_cells: the number of cells of a row.

        Returns:
            Array of shape (k,).
        """
        if not self.frequency:
            return np.full(len(counts), float(self.regularisation))
        n_penalised = n_cells if self.penalised_cells is PenalisedCells.ALL else n_cells - counts
        return self.regularisation * (counts + self.alpha * n_penalised)

    @property
    def observed_weight(self) -> float:
        """The weight of an observed cell's q q', in addition to alpha q q' of every cell."""
        return 1.0 if self.penalised_cells is PenalisedCells.ALL else 1.0 - self.alpha

    def value(self, matrix: Sparse, left: Floats, right: Floats) -> float:
        """Return the loss, without building a users x items array.

        Args:
            matrix: the clicks, a sparse matrix of ones, shape (m, n).
            left: shape (m, d), the factors p of the rows.
            right: shape (n, d), the factors q of the columns.
        """
        m, n = matrix.shape
        observed = Pattern.from_matrix(matrix).sample_product(left, right)
        fit_term = np.sum((observed - 1.0) ** 2)
        # The sum of (p'q)^2 over all cells is that of the products of two d x d matrices.
        penalty_term = np.sum((left.T @ left) * (right.T @ right))
        if self.penalised_cells is PenalisedCells.MISSING:
            penalty_term -= np.sum(observed**2)
        row_counts = np.diff(matrix.indptr).astype(np.int64)
        column_counts = np.bincount(matrix.indices, minlength=n).astype(np.int64)
        ridge = self.ridge(row_counts, n) @ np.sum(left**2, axis=1)
        ridge += self.ridge(column_counts, m) @ np.sum(right**2, axis=1)
        return float(fit_term + self.alpha * penalty_term + ridge)


def check_interactions(ratings: Ratings) -> None:
    """Raise BadRatings unless every rating is an interaction, of value 1."""
    if not ratings.has_only_clicks:
        is_invalid = ratings.values != 1.0
        raise BadRatings(
            f"{int(is_invalid.sum())} of {len(ratings)} ratings are not 1, first"
            f" {ratings.values[is_invalid][0]:g}: ranking takes interactions of value 1, so prepare"
            " the ratings with implicit=all or implicit=VALUE (the lowest rating that counts)"
        )


def binary_matrix(ratings: Ratings) -> Sparse:
    """Return the interactions as a matrix of ones, shape (users, items).

    Raises:
        BadRatings: a rating is not 1.
    """
    check_interactions(ratings)
    return ratings.matrix


def solve_implicit_rows(
    matrix: Sparse,
    column_factors: Floats,
    loss: ImplicitLoss,
    *,
    single: bool = False,
    start: Floats | None = None,
) -> Floats:
    """Return the factors of every row that minimise the loss, given the factors of the columns.

    They are p = A^-1 sum_S q with A = w sum_S q q' + alpha Q'Q + ridge I, where S are the row's
    clicks and w is the loss's `observed_weight`. Long factors in single precision are found by
    conjugate gradients, which never build A (Takacs, Pilaszy, Tikk, "Applications of the conjugate
    gradient method for implicit feedback collaborative filtering", 2011).

    Args:
        matrix: the clicks, a sparse matrix of ones, shape (r, c).
        column_factors: Q, shape (c, d).
        loss: the weights of the loss.
        single: whether to gather and solve in single precision, about twice as fast and good to six
            digits or so.
        start: shape (r, d), where conjugate gradients start; None: zeros.

    Returns:
        Array of shape (r, d).

    Raises:
        InvalidSetting: the ridge is lost in rounding, so that A has no inverse.
    """
    from scipy.linalg import solve

    counts = np.diff(matrix.indptr).astype(np.int64)
    gram = loss.alpha * (column_factors.T @ column_factors)
    penalties = loss.ridge(counts, matrix.shape[1])
    try:
        if loss.observed_weight == 0 and np.ptp(penalties) == 0:  # all rows share one A
            gram.flat[:: len(gram) + 1] += penalties[0]
            return solve(gram, (matrix @ column_factors).T, assume_a="pos").T
        if start is None:
            start = np.zeros((len(counts), len(gram)))
        dtype = np.float32 if single else np.float64
        return _solve_each_row(matrix, column_factors, loss, gram, penalties, dtype, start)
    except np.linalg.LinAlgError:
        raise InvalidSetting(
            "regularisation",
            f"large enough for factors of length {column_factors.shape[1]}: a row's equations have"
            " no single solution",
            loss.regularisation,
            "a smaller rank helps too",
        ) from None


def _solve_each_row(
    matrix: Sparse,
    column_factors: Floats,
    loss: ImplicitLoss,
    gram: Floats,
    penalties: Floats,
    dtype: type[np.floating],
    start: Floats,
) -> Floats:
    """Solve the equations of each row (see `solve_implicit_rows`) in blocks, on a few threads.

    Args:
        matrix: the clicks, a sparse matrix of ones, shape (r, c).
        column_factors: Q, shape (c, d).
        loss: the weights of the loss.
        gram: alpha Q'Q, shape (d, d).
        penalties: shape (r,), the ridge of each row.
        dtype: the number type in which they are solved.
        start: shape (r, d), where conjugate gradients start.

    Returns:
        Array of shape (r, d); zeros for a row without clicks.
    """
    # Rows of a block are padded to one length with the index -1, whose factors are zero.
    factors = np.vstack([column_factors, np.zeros((1, column_factors.shape[1]))]).astype(dtype)
    gram, penalties = gram.astype(dtype), penalties.astype(dtype)
    solutions = np.zeros_like(start)
    counts = np.diff(matrix.indptr).astype(np.int64)
    is_iterative = dtype is np.float32 and len(gram) > _MAX_DIRECT_RANK

    def solve_block(block: Ints) -> None:
        positions = np.arange(int(counts[block].max()))
        is_stored = positions < counts[block, None]
        entry_indices = np.where(is_stored, matrix.indptr[block, None] + positions, 0)
        # `take` gathers rows several times as fast as an index does.
        gathered = factors.take(np.where(is_stored, matrix.indices[entry_indices], -1), axis=0)
        values = matrix.data[entry_indices].astype(dtype, copy=False)
        transposed, weight = np.swapaxes(gathered, 1, 2), dtype(loss.observed_weight)
        moments = (values[:, None, :] @ gathered)[:, 0]
        if is_iterative:
            multiply = partial(_multiply_rows, gathered, weight, gram, penalties[block, None])
            solutions[block] = _conjugate_gradients(multiply, moments, start[block].astype(dtype))
            return
        squares = transposed @ gathered
        squares *= weight
        squares += gram
        solutions[block] = solve_ridge(squares, moments, penalties[block])

    # NumPy releases the interpreter lock while it gathers and multiplies. Long rows go first.
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for _ in pool.map(solve_block, reversed(list(group_rows_by_length(counts, _BLOCK_ROWS)))):
            check_cancelled()  # an error here drops the blocks that have not begun
    return solutions


def _multiply_rows(
    gathered: Floats, weight: Any, gram: Floats, penalties: Floats, vectors: Floats
) -> Floats:
    """Return (weight F'F + gram + penalty I) p for each row's vector p, with F the row's factors.

    Args:
        gathered: F, shape (k, length, d).
        weight: of F'F, a number of the type of the factors.
        gram: shape (d, d).
        penalties: shape (k, 1).
        vectors: p, shape (k, d).

    Returns:
        Array of shape (k, d).
    """
    fitted = gathered @ vectors[:, :, None]
    products = weight * (np.swapaxes(gathered, 1, 2) @ fitted)[:, :, 0]
    products += vectors @ gram + penalties * vectors
    return products


def _conjugate_gradients(multiply: MatrixProduct, moments: Floats, solutions: Floats) -> Floats:
    """Solve A x = b of each row by conjugate gradients (Hestenes, Stiefel, 1952).

    Args:
        multiply: maps vectors of shape (k, d), one for each row, to A times them.
        moments: b, shape (k, d).
        solutions: shape (k, d), where the search starts, overwritten.

    Returns:
        Array of shape (k, d), whose residuals are at most `_CG_TOLERANCE` times as long as b.
    """
    residuals = moments - multiply(solutions)
    directions, squares = residuals, _square_rows(residuals)
    limits = _CG_TOLERANCE**2 * _square_rows(moments)
    for _ in range(_MAX_CG_STEPS):
        if (squares <= limits).all():
            break
        products = multiply(directions)
        curvatures = np.maximum((directions * products).sum(axis=1, keepdims=True), _TINY)
        solutions += squares / curvatures * directions
        residuals = residuals - squares / curvatures * products
        previous_squares, squares = np.maximum(squares, _TINY), _square_rows(residuals)
        directions = residuals + squares / previous_squares * directions
    return solutions


def _square_rows(rows: Floats) -> Floats:
    """Return the squared length of each row, shape (k, 1)."""
    return np.square(rows).sum(axis=1, keepdims=True)


# --- ratings ---------------------------------------------------------------------------------


class RatingMatrices(NamedTuple):
    """Deviations of ratings from the middle of their range, in rating points.

    Attributes:
        by_user: shape (users, items).
        by_item: shape (items, users), its transpose.
    """

    by_user: Sparse
    by_item: Sparse


@mechanism
class LeastSquaresMF:
    """The settings of a least-squares factorization of ratings, and its alternating fit."""

    rank: int = setting(3, "length of a factor", at_least=1, at_most=200)
    user_penalty: float = setting(4.0, "ridge penalty on user factors", above=0, at_most=1e6)
    item_penalty: float = setting(4.0, "ridge penalty on item factors", above=0, at_most=1e6)
    iterations: int = setting(20, "alternations without noise", at_least=1, at_most=10_000)
    unit_ball: bool = setting(True, "hold each user's factors within length 1")

    def build_matrices(self, ratings: Ratings) -> RatingMatrices:
        """Return the ratings by user and by item."""
        entries = Pattern.from_ratings(ratings)
        deviations = ratings.values - ratings.public.middle
        return RatingMatrices(entries.build_matrix(deviations), entries.build_transpose(deviations))

    def normal_equation_terms(self, rows: Sparse, factors: Floats) -> tuple[Floats, Floats]:
        """Return sum f f' and sum r f of each row, over the row's stored entries.

        Args:
            rows: shape (k, n), the ratings r of each row.
            factors: f, shape (n, d), of the columns.

        Returns:
            Squares of shape (k, d, d), or (d, d) where all rows share them, and moments of shape
            (k, d).
        """
        return normal_equations(rows, factors)

    def draw_item_factors(self, n_items: int, rng: Rng) -> Floats:
        """Draw starting item factors near (1, 0, ..., 0), so that a first fit finds the means.

        Args:
            n_items: the number of items.
            rng: the generator of the run.

        Returns:
            Array of shape (n_items, rank).
        """
        start = draw_random_factors(n_items, self.rank, rng, _START_STD)
        start[:, 0] += 1.0
        return start

    def fit_users(self, matrices: RatingMatrices, item_factors: Floats) -> Floats:
        """Fit every user's factors given those of the items.

        Args:
            matrices: the ratings.
            item_factors: shape (items, rank).

        Returns:
            Array of shape (users, rank); zeros for a user without ratings.
        """
        squares, moments = self.normal_equation_terms(matrices.by_user, item_factors)
        if not self.unit_ball:
            return solve_ridge(squares, moments, self.user_penalty)
        return minimise_in_ball(squares + self.user_penalty * np.eye(self.rank), 2 * moments, 1.0)

    def fit_items(self, matrices: RatingMatrices, user_factors: Floats) -> Floats:
        """Fit every item's factors given those of the users.

        Args:
            matrices: the ratings.
            user_factors: shape (users, rank).

        Returns:
            Array of shape (items, rank); zeros for an item without ratings.
        """
        return solve_ridge(
            *self.normal_equation_terms(matrices.by_item, user_factors), self.item_penalty
        )

    def alternate(self, matrices: RatingMatrices, rng: Rng) -> Iterator[tuple[Floats, Floats]]:
        """Alternate between items and users, and yield both factors after each alternation.

        Args:
            matrices: the ratings.
            rng: draws the starting item factors.

        Yields:
            User factors of shape (users, rank), fitted last, and item factors of shape (items,
            rank).
        """
        user_factors = self.fit_users(
            matrices, self.draw_item_factors(matrices.by_item.shape[0], rng)
        )
        for _ in range(self.iterations):
            item_factors = self.fit_items(matrices, user_factors)
            user_factors = self.fit_users(matrices, item_factors)
            yield user_factors, item_factors

    def objective(
        self, matrices: RatingMatrices, user_factors: Floats, item_factors: Floats
    ) -> float:
        """Return the value that the alternation minimises.

        Args:
            matrices: the ratings.
            user_factors: shape (users, rank).
            item_factors: shape (items, rank).
        """
        fitted = Pattern.from_matrix(matrices.by_user).sample_product(user_factors, item_factors)
        error_term = self.squared_error(matrices.by_user.data, fitted, user_factors, item_factors)
        ridge_term = self.user_penalty * np.square(user_factors).sum()
        return float(error_term + ridge_term + self.item_penalty * np.square(item_factors).sum())

    def squared_error(
        self,
        values: Floats,
        fitted: Floats,
        user_factors: Floats,  # noqa: ARG002
        item_factors: Floats,  # noqa: ARG002
    ) -> Any:
        """Return the sum of squared errors over the stored ratings.

        A subclass whose errors are summed over all cells needs the factors, which are ignored here.

        Args:
            values: shape (n_entries,), the stored ratings.
            fitted: shape (n_entries,), the predictions of them.
            user_factors: shape (users, rank).
            item_factors: shape (items, rank).
        """
        return np.square(values - fitted).sum()


# --- public user factors ---------------------------------------------------------------------

_RANDOM = "random:"


@dataclass(frozen=True)
class PublicUserFactors:
    """Public user factors.

    Attributes:
        source: 'random:SEED', or the name of the array, such as that of its .npy file.
        array: of shape (n_users, rank); None for random factors, and for a file that is not read.
    """

    source: str
    array: AnyArray | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.source

    @classmethod
    def parse(cls, text: str) -> PublicUserFactors:
        """Parse the text form, a file's name or 'random:SEED'.

        Raises:
            InvalidSetting: the text names neither a .npy file nor a seed.
        """
        seed = text.removeprefix(_RANDOM)
        if seed != text and not seed.isdecimal():
            raise InvalidSetting("user_factors", "random:SEED with a whole-numbered SEED", text)
        if seed == text and not text.endswith(".npy"):
            raise InvalidSetting("user_factors", "random:SEED or a .npy file", text)
        return cls(text)

    @property
    def unread_file(self) -> str:
        """The name of the file that the array has to be read from; "" if there is none."""
        has_values = self.array is not None or self.source.startswith(_RANDOM)
        return "" if has_values else self.source

    def build(self, n_users: int, rank: int) -> Floats:
        """Return the user factors, with rows scaled to length 1 at most.

        Returns:
            Array of shape (n_users, rank).

        Raises:
            InvalidSetting: the array was not read, has another shape or is not of finite numbers.
        """
        factors = self.array
        if factors is None:
            if self.unread_file:
                raise InvalidSetting("user_factors", "read from its file before", self.source)
            return _random_directions(n_users, rank, int(self.source.removeprefix(_RANDOM)))
        if factors.shape != (n_users, rank):
            raise InvalidSetting("shape of user_factors", f"({n_users}, {rank})", factors.shape)
        if factors.dtype.kind not in "fiu" or not np.isfinite(factors).all():
            raise InvalidSetting("user_factors", "finite numbers", self.source)
        return clip_dense_rows(factors.astype(float), 1.0)[0]


def _random_directions(n_users: int, rank: int, seed: int) -> Floats:
    """Draw unit rows: half of the squared length is in a shared first coordinate, the rest random.

    The shared coordinate lets item factors hold item means; with rank 1 it is the only one.

    Returns:
        Array of shape (n_users, rank).
    """
    factors = np.ones((n_users, rank))
    if rank > 1:
        random_part = np.random.default_rng(seed).standard_normal((n_users, rank - 1))
        factors[:, 1:] = random_part / np.linalg.norm(random_part, axis=1, keepdims=True)
        factors /= np.sqrt(2.0)
    return factors


# --- quadratics over a ball ------------------------------------------------------------------


def minimise_in_ball(quadratic: Floats, linear: Floats, radius: float) -> Floats:
    """Return argmin x'A x - b'x over ||x||_2 <= radius for each of k problems.

    The minimiser solves (A + nu I) x = b/2 with nu >= max(0, -smallest eigenvalue) and nu > 0 only
    on the sphere (More, Sorensen, "Computing a trust region step", 1983); nu is the root of the
    secular equation ||x(nu)|| = radius.

    Args:
        quadratic: A, shape (k, d, d), or (d, d) where all problems share it; only its symmetric
            part matters, and it may be indefinite.
        linear: b, shape (k, d).
        radius: the radius of the ball.

    Returns:
        Array of shape (k, d).
    """
    symmetric = 0.5 * (quadratic + np.swapaxes(quadratic, -1, -2))
    values, vectors = call_cancellable(np.linalg.eigh, symmetric)
    if quadratic.ndim == 2:
        beta = 0.5 * (linear @ vectors)
        in_eigenbasis = _minimise_in_eigenbasis(np.broadcast_to(values, beta.shape), beta, radius)
        return in_eigenbasis @ vectors.T
    in_eigenbasis = _minimise_in_eigenbasis(
        values, 0.5 * np.einsum("nji,nj->ni", vectors, linear), radius
    )
    return np.einsum("nij,nj->ni", vectors, in_eigenbasis)


def _minimise_in_eigenbasis(values: Floats, beta: Floats, radius: float) -> Floats:
    """Solve (A + nu I) x = b/2 in the eigenbasis V of A, with nu as in `minimise_in_ball`.

    If the smallest eigenvalue is negative, it is subtracted from all of them and nu is counted from
    its opposite: in the nearly hard case nu + smallest is too small to be computed as a difference.
    Newton's method finds the root of 1/radius - 1/||x||, which is nearly linear and concave in nu,
    from below: it starts where a single coordinate is as long as the radius.

    Args:
        values: shape (k, d), the eigenvalues of each problem in ascending order.
        beta: shape (k, d), V'b/2.
        radius: the radius of the ball.

    Returns:
        V'x, shape (k, d).
    """
    is_indefinite = values[:, :1] < 0
    values = values - np.where(is_indefinite, values[:, :1], 0.0)
    nu = np.maximum(np.max(np.abs(beta) / radius - values, axis=1, keepdims=True), 0.0)

    for _ in range(_MAX_NEWTON_ROUNDS):
        check_cancelled()
        gap = values + nu
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 is replaced by 0
            x = np.where(beta == 0, 0.0, beta / gap)
            slope = np.where(beta == 0, 0.0, x * x / gap).sum(axis=1, keepdims=True)
        norm = np.linalg.norm(x, axis=1, keepdims=True)
        is_outside = norm > radius * (1 + 1e-14)
        if not is_outside.any():
            break
        slope[~is_outside] = np.inf
        # Newton's step, with d||x||/dnu = -slope / ||x||.
        nu = nu + (norm / radius - 1.0) * norm * norm / slope
    # The hard case: the minimum of an indefinite quadratic is on the sphere. The missing length is
    # added along an eigenvector of the smallest eigenvalue, where the quadratic is constant.
    is_short = (is_indefinite & ~(norm >= radius * (1 - 1e-12)))[:, 0]
    squared_length = np.sum(x[is_short, 1:] ** 2, axis=1)
    x[is_short, 0] = np.copysign(
        np.sqrt(np.maximum(radius**2 - squared_length, 0.0)), beta[is_short, 0]
    )
    return x
