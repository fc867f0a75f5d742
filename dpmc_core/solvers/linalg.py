"""Linear algebra on observed entries: sampled products, singular triplets, eigenpairs.

In shapes, m is the number of rows, n the number of columns and n_entries the number of observed
pairs, sorted by row.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpmc_core.arrays import SMALLEST, Bools, Floats, Ints, Rng, Sparse
from dpmc_core.model import Factors
from dpmc_core.privacy import Harmless, harmless
from dpmc_core.ratings import Index, Ratings
from dpmc_core.stopping import call_cancellable, check_cancelled

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator


_BLOCK_CELLS = 2_000_000  # dense cells of one block of rows: 16 MB
_CHUNK_ENTRIES = 50_000  # entries of whole rows that are processed at once: they stay in the cache
LARGE_CHUNK = 20 * _CHUNK_ENTRIES  # for sums over items, where each chunk adds a column of n sums
_MAX_PASSES = 40  # passes of subspace iteration; a few are usual
_MIN_FILTER_DEGREE = 4  # degree of the filter after which random columns reveal every larger value
_GATHER_DENSITY = 0.005  # density below which gathering rows is faster than blocked dense products
_MAX_DENSE_ROWS = 60  # rows of a matrix whose eigenvectors are all computed at once
# Smallest number of vectors in a search for eigenvectors; with 20, the search takes twice as long
# if the noise is larger than what is sought.
_KRYLOV_VECTORS = 40
_INITIAL_EIGENPAIRS = 8  # eigenpairs computed at first


@dataclass(frozen=True, eq=False)
class Pattern:
    """The observed entries of a matrix, sorted by row.

    Attributes:
        items: shape (n_entries,), the column of each entry.
        indptr: shape (m + 1,); the entries of row i are indptr[i] to indptr[i + 1].
        shape: (m, n).
    """

    items: Index
    indptr: Ints
    shape: tuple[int, int]

    @classmethod
    def from_ratings(cls, ratings: Ratings) -> Pattern:
        """Return the (user, item) pairs that are rated."""
        return cls(ratings.items, ratings.indptr, ratings.shape)

    @classmethod
    def from_matrix(cls, matrix: Sparse) -> Pattern:
        """Return the stored entries of a row-compressed matrix."""
        items = matrix.indices.astype(np.int32, copy=False)
        return cls(items, matrix.indptr.astype(np.int64), matrix.shape)

    @cached_property
    def counts(self) -> Ints:
        """The number of entries of each row, shape (m,)."""
        return np.diff(self.indptr)

    @cached_property
    def users(self) -> Index:
        """The row of each entry, shape (n_entries,)."""
        return self.expand_rows(np.arange(self.shape[0], dtype=np.int32))

    def expand_rows(self, row_values: Any) -> Any:
        """Repeat each row's value at the row's entries.

        Args:
            row_values: shape (m,).

        Returns:
            Array of shape (n_entries,).
        """
        return np.repeat(row_values, self.counts)

    @cached_property
    def _item_order(self) -> tuple[Ints, Ints]:
        """The indices that sort the entries by column, and (n + 1,) offsets of the columns."""
        order = np.argsort(self.items, kind="stable")
        counts = np.bincount(self.items, minlength=self.shape[1])
        return order, np.append(0, np.cumsum(counts))

    def select_columns(self, columns: Ints) -> tuple[Pattern, Bools]:
        """Return the entries of some columns, which are renumbered from 0.

        Args:
            columns: shape (n_columns,), in increasing order.

        Returns:
            The pattern of these columns, and a mask of shape (n_entries,) of the entries it has.
        """
        mask = np.isin(self.items, columns)
        selected = self.select_entries(mask)
        items = np.searchsorted(columns, selected.items).astype(np.int32)
        return Pattern(items, selected.indptr, (self.shape[0], len(columns))), mask

    def select_entries(self, mask: Bools) -> Pattern:
        """Return some of the entries, in a pattern of the same shape.

        Args:
            mask: shape (n_entries,).
        """
        indptr = np.append(0, np.cumsum(mask))[self.indptr]
        return Pattern(self.items[mask], indptr, self.shape)

    def build_matrix(self, values: Floats) -> Sparse:
        """Return the row-compressed matrix with these values at the observed entries.

        Args:
            values: shape (n_entries,).

        Returns:
            Sparse array of shape (m, n).
        """
        from scipy.sparse import csr_array

        starts = self.indptr
        if len(self.items) < 2**31:  # indices of one type are not copied, and short ones are faster
            starts = starts.astype(self.items.dtype)
        return csr_array((values, self.items, starts), shape=self.shape)

    def build_transpose(self, values: Floats) -> Sparse:
        """Return the transpose of `build_matrix`, row-compressed, as products run along rows.

        Args:
            values: shape (n_entries,).

        Returns:
            Sparse array of shape (n, m).
        """
        order, indptr = self._item_order
        return Pattern(self.users[order], indptr, self.shape[::-1]).build_matrix(values[order])

    def iter_chunks(
        self,
        max_entries: int = _CHUNK_ENTRIES,
        max_rows: int | None = None,
        *,
        dense: bool = False,
    ) -> Iterator[tuple[slice, slice, Pattern]]:
        """Iterate over chunks of whole rows with at most `max_entries` entries, or of one row.

        Args:
            max_entries: the largest number of entries of a chunk.
            max_rows: the largest number of rows of a chunk; None: `max_entries`.
            dense: whether to limit the cells of a chunk's dense form instead of its entries.

        Yields:
            The slice of the rows, the slice of their entries, and the pattern of the chunk.
        """
        m, n = self.shape
        indptr = self.indptr
        start = 0
        while start < m:
            check_cancelled()
            if dense:
                stop = start + _BLOCK_CELLS // n
            else:
                stop = int(np.searchsorted(indptr, indptr[start] + max_entries, side="right")) - 1
                stop = min(stop, start + (max_rows or max_entries))
            stop = min(max(stop, start + 1), m)
            span = slice(int(indptr[start]), int(indptr[stop]))
            chunk = Pattern(
                self.items[span], indptr[start : stop + 1] - span.start, (stop - start, n)
            )
            yield slice(start, stop), span, chunk
            start = stop

    def iter_similar_rows(self) -> Iterator[tuple[Ints, Ints]]:
        """Iterate over groups of rows of similar length, which are padded to one length.

        A row's own length alone decides its padding, which is at most an eighth.

        Yields:
            The k rows of a group, and the indices of their entries, shape (k, length), where
            n_entries stands for no entry.
        """
        # A length below 2^e is rounded up to a multiple of 2^(e-4), an eighth of it at most.
        _, exponents = np.frexp(self.counts)
        steps = 2 ** np.maximum(exponents - 4, 0)
        lengths = -(-self.counts // steps) * steps
        order = np.argsort(lengths, kind="stable")
        distinct, starts = np.unique(lengths[order], return_index=True)
        for length, rows in zip(distinct, np.split(order, starts[1:]), strict=True):
            positions = np.arange(length)
            index = self.indptr[rows][:, None] + positions
            yield rows, np.where(positions < self.counts[rows, None], index, len(self.items))

    def sample_product(self, left: Floats, right: Floats, out: Floats | None = None) -> Floats:
        """Return the entries of left @ right' at the observed pairs.

        Args:
            left: shape (m, d).
            right: shape (n, d).
            out: shape (n_entries,), an array that the result may overwrite; None: a new one.

        Returns:
            Array of shape (n_entries,).
        """
        if len(self.items) < _GATHER_DENSITY * self.shape[0] * self.shape[1]:
            return Factors(left, right).predict(self.users, self.items)
        out = np.empty(len(self.items)) if out is None else out
        for rows, span, chunk in self.iter_chunks(dense=True):
            out[span] = (left[rows] @ right.T)[chunk.users, chunk.items]
        return out


class Triplets(NamedTuple):
    """Leading singular triplets.

    Attributes:
        left: shape (m, b), left singular vectors.
        values: shape (b,), singular values in descending order.
        right: shape (n, b), right singular vectors.
    """

    left: Floats
    values: Floats
    right: Floats

    @property
    def rank(self) -> int:
        """The number of triplets."""
        return len(self.values)

    @property
    def T(self) -> Triplets:
        """The triplets of the transpose."""
        return Triplets(*self[::-1])

    def dot(self, other: Triplets) -> float:
        """Return the Frobenius inner product with another matrix of triplets."""
        products = (self.left.T @ other.left) * (self.right.T @ other.right)
        return float(self.values @ products @ other.values)


def frobenius_distance(a: Any, b: Any) -> float:
    """Return ||A - B||_F of two matrices of one type, from their inner products."""
    return math.sqrt(max(0.0, a.dot(a) - 2 * a.dot(b) + b.dot(b)))


MatrixProduct = Callable[[Floats], Floats]


class Operator(NamedTuple):
    """A matrix A known by its products.

    Attributes:
        shape: (m, n).
        multiply: maps a block of shape (n, b) to A @ block of shape (m, b).
        multiply_transposed: maps a block of shape (m, b) to A' @ block of shape (n, b).
        gram: the smaller one of A'A and AA' where it has been computed, A'A for a square A; else
            None.
    """

    shape: tuple[int, ...]
    multiply: MatrixProduct
    multiply_transposed: MatrixProduct
    gram: Floats | None = None

    @property
    def T(self) -> Operator:
        """The operator of A'; a square one loses its Gram matrix, which would be AA'."""
        gram_matrix = None if len({*self.shape}) == 1 else self.gram
        return Operator(self.shape[::-1], self.multiply_transposed, self.multiply, gram_matrix)


def dense_operator(matrix: Floats) -> Operator:
    """Return the operator of a dense matrix, with its Gram matrix.

    Args:
        matrix: shape (m, n).
    """
    wide_matrix = min(matrix.T, matrix, key=len)  # the one with fewer rows
    return Operator(
        matrix.shape, matrix.__matmul__, matrix.T.__matmul__, wide_matrix @ wide_matrix.T
    )


def low_rank_plus_sparse(left: Floats, right: Floats, pattern: Pattern, values: Floats) -> Operator:
    """Return the operator of left @ right' plus a sparse matrix.

    Args:
        left: shape (m, d).
        right: shape (n, d).
        pattern: where the sparse matrix has values.
        values: shape (n_entries,).
    """
    sparse = pattern.build_matrix(values)
    return Operator(
        pattern.shape,
        lambda block: left @ (right.T @ block) + sparse @ block,
        lambda block: right @ (left.T @ block) + sparse.T @ block,
    )


def l1_threshold(values: Floats, radius: float) -> float:
    """Return the theta >= 0 with sum max(values - theta, 0) = radius; 0 if their sum is smaller.

    See Duchi, Shalev-Shwartz, Singer, Chandra (2008).

    Args:
        values: shape (k,), non-negative, in descending order.
        radius: the largest sum allowed, in the unit of the values.
    """
    if values.sum() <= radius:
        return 0.0
    # The theta that would be right if exactly the first 1, 2, ... values were above it.
    candidates = (np.cumsum(values) - radius) / np.arange(1, len(values) + 1)
    return float(candidates[np.flatnonzero(values > candidates)[-1]])


def dense_triplets(operator: Operator) -> Triplets:
    """Compute all singular triplets through the Gram matrix of the smaller side.

    It is slower than a search for a few triplets, but it always succeeds. Values below 1e-8 of the
    largest are lost in rounding and left out; no threshold in use is that low.

    Args:
        operator: the matrix, of shape (m, n).
    """
    m, n = operator.shape
    if m > n:
        return dense_triplets(operator.T).T
    matrix = call_cancellable(operator.multiply_transposed, np.eye(m)).T  # A, by the smaller side
    squares, left = call_cancellable(np.linalg.eigh, call_cancellable(np.matmul, matrix, matrix.T))
    values = np.sqrt(np.maximum(squares[::-1], 0.0))
    left = left[:, ::-1]
    # Smaller values are lost, since rounding of the squares is 1e-16 of the largest square.
    is_resolved = values > 1e-8 * max(values[0], SMALLEST)
    left, values = left[:, is_resolved], values[is_resolved]
    return Triplets(left, values, call_cancellable(np.matmul, matrix.T, left) / values)


def leading_triplets(
    operator: Operator,
    start: Floats,
    count_needed: Callable[[Floats], int],
    tolerance: float,
    rng: Rng,
) -> Triplets | None:
    """Compute leading singular triplets by Chebyshev-filtered subspace iteration.

    See Zhou, Saad et al. (2006). The block of vectors grows until its smallest value is not needed.
    Then no value outside the block is needed either, unless the random columns in it miss one,
    which is practically impossible after some filtering. Values are accepted only after that: a
    start that is an invariant subspace has no residual, even if it misses larger values.

    Args:
        operator: the matrix.
        start: shape (k, b), the block to begin from, k the smaller side of the operator; vectors of
            that side from a previous search make this one quick.
        count_needed: how many of the leading triplets are needed, given singular values in
            descending order.
        tolerance: bound on the Frobenius norm of the residuals of the needed triplets.
        rng: draws the random columns.

    Returns:
        The needed triplets; None where the block would pass half of the smaller side, because a
        full decomposition is cheaper then.
    """
    m, n = operator.shape
    if m < n:
        transposed_triplets = leading_triplets(operator.T, start, count_needed, tolerance, rng)
        return transposed_triplets and transposed_triplets.T
    width = start.shape[1]
    basis = _append_random_columns(start, min(max(8, width + 4 + width // 4), n), n, rng)
    filtered = 0  # total degree since columns were last added
    for _ in range(_MAX_PASSES):
        check_cancelled()
        if basis.shape[1] > n // 2:
            return None
        # Rayleigh-Ritz: the singular triplets of A restricted to the span of the block.
        basis = np.linalg.qr(basis)[0]
        image = operator.multiply(basis)
        squares, rotation = np.linalg.eigh(image.T @ image)
        squares, rotation = np.maximum(squares[::-1], 0.0), rotation[:, ::-1]
        values = np.sqrt(squares)
        right, image = basis @ rotation, image @ rotation
        count = count_needed(values)
        if count >= len(values):
            basis = _append_random_columns(right, len(values) + max(8, len(values) // 2), n, rng)
            filtered = 0
            continue
        check_cancelled()
        filtered_image = operator.multiply_transposed(image)  # A'A right: the first filter product
        kept_values = values[:count]
        residual = (filtered_image[:, :count] - right[:, :count] * squares[:count]) / kept_values
        if filtered >= _MIN_FILTER_DEGREE and np.linalg.norm(residual) <= tolerance:
            return Triplets(image[:, :count] / kept_values, kept_values, right[:, :count])
        basis, degree = _apply_chebyshev_filter(operator, right, filtered_image, squares)
        filtered += degree
    return None


class SingularValueShrinker:
    """Soft-thresholding of singular values; each search starts at the vectors of the last one."""

    def __init__(self, rng: Rng) -> None:
        self._rng, self._basis = rng, np.empty((0, 0))

    def find_leading_triplets(
        self, operator: Operator, count_needed: Callable[[Floats], int], tolerance: float
    ) -> Triplets:
        """Compute the leading triplets as `leading_triplets` does, or all where these are cheaper.

        Args:
            operator: the matrix.
            count_needed: how many of the leading triplets are needed, given singular values of
                shape (b,).
            tolerance: bound on the Frobenius norm of the residuals.
        """
        triplets = leading_triplets(operator, self._basis, count_needed, tolerance, self._rng)
        return triplets or dense_triplets(operator)

    def soft_threshold(
        self, operator: Operator, threshold: Callable[[Floats], float], tolerance: float
    ) -> Triplets:
        """Return the triplets whose values are above a threshold, with their values lowered by it.

        Args:
            operator: the matrix.
            threshold: the threshold, given singular values of shape (b,) in descending order.
            tolerance: bound on the Frobenius norm of the residuals.
        """

        def count_above(values: Floats) -> int:
            # At least one triplet is requested: in a new block, none may exceed the threshold yet.
            return max(int(np.sum(values > threshold(values))), int(values[0] > 0))

        left, values, right = self.find_leading_triplets(operator, count_above, tolerance)
        theta = threshold(values)
        is_above = values > theta
        left, right = left[:, is_above], right[:, is_above]
        self._basis = left if operator.shape[0] <= operator.shape[1] else right
        return Triplets(left, values[is_above] - theta, right)


def cancellable_operator(matrix: Sparse) -> LinearOperator:
    """Wrap a sparse matrix for a search that multiplies it often; each product can be cancelled."""
    from scipy.sparse.linalg import LinearOperator

    def multiply(block: Floats, matrix: Any = matrix) -> Floats:
        check_cancelled()
        return matrix @ block

    multiply_transposed = partial(multiply, matrix=matrix.T)
    return LinearOperator(
        matrix.shape,
        matvec=multiply,
        matmat=multiply,
        rmatvec=multiply_transposed,
        rmatmat=multiply_transposed,
        dtype=matrix.dtype,
    )


def leading_eigenpairs(
    multiply: MatrixProduct,
    size: int,
    count: int,
    tolerance: float = 0.0,
    start: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Compute the largest eigenvalues of a symmetric matrix and their vectors.

    Args:
        multiply: maps a block of shape (size, b) to the matrix times the block.
        size: the number of rows of the matrix.
        count: the number of eigenpairs.
        tolerance: bound on the residual of a pair, relative to its value; 0: machine precision.
        start: shape (size,), a vector to begin from; None: random numbers, the same in every run.

    Returns:
        Eigenvalues of shape (count,) in ascending order, and vectors of shape (size, count).
    """
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    def multiply_vectors(x: Floats) -> Floats:
        check_cancelled()
        return multiply(x.reshape(size, -1)).reshape(x.shape)

    if size <= max(_MAX_DENSE_ROWS, 2 * count):
        values, vectors = call_cancellable(np.linalg.eigh, multiply_vectors(np.eye(size)))
        return values[-count:], vectors[:, -count:]
    operator = LinearOperator((size, size), matvec=multiply_vectors, dtype=np.float64)
    n_krylov = min(size, max(2 * count + 1, _KRYLOV_VECTORS))
    search = partial(eigsh, operator, count, which="LA", ncv=n_krylov, tol=tolerance)
    fixed_start = np.random.default_rng(0).standard_normal(size)
    try:
        values, vectors = search(v0=fixed_start if start is None else start)
    except ArpackError:  # the matrix maps the start to zero
        if not multiply_vectors(fixed_start).any():
            return np.zeros(count), np.eye(size, count)
        values, vectors = search(v0=fixed_start)
    return values, vectors


def eigenpairs_above(
    multiply: MatrixProduct, size: int, count_above: Callable[[Floats], int], tolerance: float
) -> tuple[Floats, Floats]:
    """Compute as many of the largest eigenpairs of a symmetric matrix as are needed.

    It computes a few, and all if the smallest of these is needed. Where noise decides how many are
    needed, these are many of nearly equal value, and searching for them takes longer than computing
    all at once.

    Args:
        multiply: maps a block of shape (size, b) to the matrix times the block.
        size: the number of rows of the matrix.
        count_above: how many eigenvalues are needed, given leading ones in descending order.
        tolerance: bound on the residual of a pair, relative to its value.

    Returns:
        Eigenvalues of shape (k,) in descending order, and vectors of shape (size, k).
    """
    for count in (min(_INITIAL_EIGENPAIRS, size), size):
        values, vectors = leading_eigenpairs(multiply, size, count, tolerance)
        n_kept = count_above(values[::-1])
        if n_kept < count:
            break
    return values[::-1][:n_kept], vectors[:, ::-1][:, :n_kept]


def _apply_chebyshev_filter(
    operator: Operator, block: Floats, first_product: Floats, squares: Floats
) -> tuple[Floats, int]:
    """Apply a Chebyshev polynomial of A'A that is small on [0, squares[-1]] and grows above it.

    Args:
        operator: A.
        block: shape (n, b), approximate right singular vectors.
        first_product: A'A times the block.
        squares: shape (b,), the squares of their singular values, in descending order.

    Returns:
        The filtered block, and the degree of the polynomial, which is small if squares[0] is far
        above the others.
    """
    # x / half - 1 maps the damped interval to [-1, 1], where Chebyshev polynomials stay below 1.
    half = max(squares[-1], 1e-12 * squares[0]) / 2
    if half == 0:
        return block, _MIN_FILTER_DEGREE  # the zero matrix has no larger values to reveal
    # Each degree multiplies the largest value by up to `growth`. Above 1e9 in all, rounding errors
    # along it would exceed 1e-7.
    growth = 2 * max(squares[0] / half - 1, 1.0 + 1e-9)
    degree = int(np.clip(np.log(1e9) / np.log(growth), 1, 8))
    # The recurrence T_k+1(x) = 2 x T_k(x) - T_k-1(x), from T_0(x) = 1 and T_1(x) = x.
    previous, current = block, first_product / half - block
    for _ in range(degree - 1):
        check_cancelled()
        if operator.gram is None:
            product = operator.multiply_transposed(operator.multiply(current))
        else:
            product = operator.gram @ current
        previous, current = current, 2 * (product / half - current) - previous
    return current / np.linalg.norm(current, axis=0), degree


def _append_random_columns(block: Floats, width: int, rows: int, rng: Rng) -> Floats:
    """Append random columns to a block until it has `width` columns.

    Args:
        block: shape (rows, b), or an empty array.
        width: the number of columns.
        rows: the number of rows.
        rng: draws the columns.
    """
    extra = harmless(rng, Harmless.START).standard_normal((rows, max(0, width - block.shape[1])))
    return np.hstack([block.reshape(rows, -1), extra])


def invert_upper_triangle(matrix: Floats) -> Floats:
    """Return the upper triangle of the inverse of a positive definite matrix.

    The entries below the diagonal are arbitrary. It calls LAPACK routines directly, so that other
    threads run meanwhile, which SciPy's own wrappers prevent. It takes less than half of the time
    of a general inverse.

    Args:
        matrix: shape (n, n).

    Returns:
        Array of shape (n, n).

    Raises:
        LinAlgError: the matrix is not positive definite.
    """
    n = len(matrix)
    inverse = np.array(matrix, order="F")  # LAPACK overwrites it, column by column
    call_cancellable(_call_lapack, "dpotrf", b"U", n, inverse, n)
    call_cancellable(_call_lapack, "dpotri", b"U", n, inverse, n)
    return inverse


def _call_lapack(routine: str, *arguments: Any) -> None:
    """Call a LAPACK routine, and raise LinAlgError if it fails.

    Args:
        routine: the name of the routine.
        arguments: its Fortran arguments except the last, which reports success: integers, bytes
            for characters, and arrays, which it may overwrite.
    """
    from scipy.linalg import cython_lapack

    api = ctypes.pythonapi
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    capsule = vars(cython_lapack)["__pyx_capi__"][routine]
    address = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    info = np.zeros((), dtype=np.intc)
    # A Fortran routine takes the address of every argument.
    arrays = [np.asarray(a, np.intc if isinstance(a, int) else None) for a in (*arguments, info)]
    # ctypes releases the interpreter for as long as the routine runs.
    ctypes.CFUNCTYPE(None)(address)(*(ctypes.c_void_p(a.ctypes.data) for a in arrays))
    if info:
        raise np.linalg.LinAlgError(f"{routine} gave up ({info})")
