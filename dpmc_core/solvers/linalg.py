"""Linear algebra on observed cells: sampled products, leading singular triplets, l1 threshold."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpmc_core.arrays import Bools, Floats, Ints, Rng, Sparse
from dpmc_core.model import Factors
from dpmc_core.privacy import Harmless, harmless
from dpmc_core.ratings import Index, Ratings
from dpmc_core.stopping import call_cancellable, check_cancelled

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator


_BLOCK_CELLS = 2_000_000  # dense scratch of one block of rows: 16 MB
_CHUNK_ENTRIES = 50_000  # cells of whole rows that are worked on at once: they stay in the cache
LARGE_CHUNK = 20 * _CHUNK_ENTRIES  # where a part costs as much as a column for every item
_PASSES = 40  # of subspace iteration; it needs a few
_MIN_FILTER_DEGREE = 4  # degree of filtering after which random columns show every larger value
_GATHER_BELOW = 0.005  # density under which gathering rows beats blocked dense products
_MAX_DENSE_ROWS = 60  # rows of a matrix whose eigenvectors are all found at once
_KRYLOV_VECTORS = (
    40  # vectors of a search for eigenvectors: where noise drowns them 20 take twice as long
)
_INITIAL_EIGENPAIRS = 8  # eigenpairs asked for at first


@dataclass(frozen=True, eq=False)
class Pattern:
    """The observed cells of a matrix, sorted by row: items[k], row starts indptr."""

    items: Index
    indptr: Ints
    shape: tuple[int, int]

    @classmethod
    def from_ratings(cls, ratings: Ratings) -> Pattern:
        return cls(ratings.items, ratings.indptr, ratings.shape)

    @classmethod
    def from_matrix(cls, matrix: Sparse) -> Pattern:
        """The stored cells of a row-compressed matrix."""
        items = matrix.indices.astype(np.int32, copy=False)
        indptr = matrix.indptr.astype(np.int64)
        return cls(items, indptr, matrix.shape)

    @cached_property
    def counts(self) -> Ints:
        """How many cells each row has."""
        return np.diff(self.indptr)

    @cached_property
    def users(self) -> Index:
        """The row of each cell."""
        row_indices: Index = self.expand_rows(np.arange(self.shape[0], dtype=np.int32))
        return row_indices

    def expand_rows(self, row_values: Any) -> Any:
        """At each cell the number of its row, of one a row."""
        return np.repeat(row_values, self.counts)

    @cached_property
    def _item_order(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.items, kind="stable")
        counts = np.bincount(self.items, minlength=self.shape[1])
        return order, np.concatenate(([0], np.cumsum(counts)))

    def select_columns(self, columns: Ints) -> tuple[Pattern, Bools]:
        """The cells of some columns (increasing), counted anew, and which cells those are."""
        mask = np.isin(self.items, columns)
        selected = self.select_entries(mask)
        items = np.searchsorted(columns, selected.items).astype(np.int32)
        return Pattern(items, selected.indptr, (self.shape[0], len(columns))), mask

    def select_entries(self, mask: Bools) -> Pattern:
        """Some of the cells."""
        indptr = np.concatenate(([0], np.cumsum(mask)))[self.indptr]
        return Pattern(self.items[mask], indptr, self.shape)

    def build_matrix(self, values: Floats) -> Sparse:
        """The sparse matrix with these values on the observed cells."""
        from scipy.sparse import csr_array

        starts = self.indptr
        if len(self.items) < 2**31:  # indices of one type are not copied, and short ones are faster
            starts = starts.astype(self.items.dtype)
        return csr_array((values, self.items, starts), shape=self.shape)

    def build_transpose(self, values: Floats) -> Sparse:
        """Its transpose, also row-compressed, because CSR products run along rows."""
        order, indptr = self._item_order
        return Pattern(self.users[order], indptr, self.shape[::-1]).build_matrix(values[order])

    def iter_chunks(
        self, max_entries: int = _CHUNK_ENTRIES, *, dense: bool = False
    ) -> Iterator[tuple[slice, slice, Pattern]]:
        """Whole rows, as many at once as have `max_entries` cells, at least one: rows, cells,
        pattern.

        dense: as many as have a small dense form instead.
        """
        (m, n), start, indptr = self.shape, 0, self.indptr
        while start < m:
            check_cancelled()
            stop = int(np.searchsorted(indptr, indptr[start] + max_entries, side="right")) - 1
            stop = start + _BLOCK_CELLS // n if dense else min(stop, start + max_entries)
            stop = min(max(stop, start + 1), m)
            span = slice(int(indptr[start]), int(indptr[stop]))
            chunk = Pattern(
                self.items[span], indptr[start : stop + 1] - span.start, (stop - start, n)
            )
            yield slice(start, stop), span, chunk
            start = stop

    def sample_product(self, left: Floats, right: Floats, out: Floats | None = None) -> Floats:
        """(left @ right') on the observed cells; left: rows x r, right: columns x r.

        out: an array that the answer may take the place of.
        """
        if len(self.items) < _GATHER_BELOW * self.shape[0] * self.shape[1]:
            return Factors(left, right).predict(self.users, self.items)
        out = np.empty(len(self.items)) if out is None else out
        for rows, span, chunk in self.iter_chunks(dense=True):
            out[span] = (left[rows] @ right.T)[chunk.users, chunk.items]
        return out


class Triplets(NamedTuple):
    """Leading singular triplets: left: m x b, values: b (descending), right: n x b."""

    left: Floats
    values: Floats
    right: Floats

    @property
    def rank(self) -> int:
        return len(self.values)

    @property
    def T(self) -> Triplets:
        return Triplets(*self[::-1])

    def dot(self, other: Triplets) -> float:
        """Frobenius inner product."""
        products = (self.left.T @ other.left) * (self.right.T @ other.right)
        return float(self.values @ products @ other.values)


def frobenius_distance(a: Any, b: Any) -> float:
    """||A - B||_F of two matrices of one kind, known by their inner products."""
    return math.sqrt(max(0.0, a.dot(a) - 2 * a.dot(b) + b.dot(b)))


MatrixProduct = Callable[[Floats], Floats]


class Operator(NamedTuple):
    """A matrix A known by its products.

    multiply: A @ block, block: columns x b. multiply_transposed: A' @ block, block: rows x b. gram:
    the smaller one of A'A and AA' where it is at hand; where they are of a size A'A.
    """

    shape: tuple[int, ...]
    multiply: MatrixProduct
    multiply_transposed: MatrixProduct
    gram: Floats | None = None

    @property
    def T(self) -> Operator:
        gram_matrix = None if len({*self.shape}) == 1 else self.gram
        return Operator(self.shape[::-1], self.multiply_transposed, self.multiply, gram_matrix)


def dense_operator(matrix: Floats) -> Operator:
    """A whole matrix."""
    wide_matrix = min(matrix.T, matrix, key=len)
    return Operator(
        matrix.shape, matrix.__matmul__, matrix.T.__matmul__, wide_matrix @ wide_matrix.T
    )


def low_rank_plus_sparse(left: Floats, right: Floats, pattern: Pattern, values: Floats) -> Operator:
    """left @ right' + the sparse matrix `values` on a pattern."""
    sparse = pattern.build_matrix(values)
    return Operator(
        pattern.shape,
        lambda block: left @ (right.T @ block) + sparse @ block,
        lambda block: right @ (left.T @ block) + sparse.T @ block,
    )


def l1_threshold(values: Floats, radius: float) -> float:
    """The theta >= 0 with sum max(values - theta, 0) = radius, or 0 if the sum is within it.

    values: non-negative, descending (Duchi, Shalev-Shwartz, Singer, Chandra 2008).
    """
    if values.sum() <= radius:
        return 0.0
    means = (np.cumsum(values) - radius) / np.arange(1, len(values) + 1)
    return float(means[np.flatnonzero(values > means)[-1]])


def dense_triplets(operator: Operator) -> Triplets:
    """All singular triplets through the Gram matrix of the smaller side: the checked fallback.

    Values under about 1e-8 of the largest are not resolved; a threshold never sits that low.
    """
    m, n = operator.shape
    if m > n:
        return dense_triplets(operator.T).T
    matrix = call_cancellable(operator.multiply_transposed, np.eye(m)).T  # through the smaller side
    squares, left = call_cancellable(np.linalg.eigh, call_cancellable(np.matmul, matrix, matrix.T))
    values = np.sqrt(np.maximum(squares[::-1], 0.0))
    left = left[:, ::-1]
    is_resolved = values > 1e-8 * max(values[0], np.finfo(float).tiny)
    left, values = left[:, is_resolved], values[is_resolved]
    return Triplets(left, values, call_cancellable(np.matmul, matrix.T, left) / values)


def leading_triplets(
    operator: Operator,
    start: Floats,
    count_needed: Callable[[Floats], int],
    tolerance: float,
    rng: Rng,
) -> Triplets | None:
    """Leading singular triplets by Chebyshev-filtered subspace iteration (Zhou, Saad et al. 2006).

    start: k x b block to begin from, k = the smaller side of the operator (a previous answer's
    vectors of that side make it quick). enough(values) says how many leading triplets matter; the
    block grows until the smallest value in it does not: none outside it does then, unless the
    random columns in it miss one, which has no real chance once they are filtered. Until then they
    are not believed: an invariant start leaves no residual, whatever it misses.
    tolerance: bound on the Frobenius norm of the residuals of those that matter.
    None when the block would pass half of the smaller side: a full decomposition is then cheaper.
    """
    m, n = operator.shape
    if m < n:
        transposed_triplets = leading_triplets(operator.T, start, count_needed, tolerance, rng)
        return transposed_triplets and transposed_triplets.T
    width = start.shape[1]
    basis = _append_random_columns(start, min(max(8, width + 4 + width // 4), n), n, rng)
    filtered = 0  # total degree since columns were last drawn
    for _ in range(_PASSES):
        check_cancelled()
        if basis.shape[1] > n // 2:
            return None
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
        filtered_image = operator.multiply_transposed(
            image
        )  # A'A right: also the filter's first product
        kept_values = values[:count]
        residual = (filtered_image[:, :count] - right[:, :count] * squares[:count]) / kept_values
        if filtered >= _MIN_FILTER_DEGREE and np.linalg.norm(residual) <= tolerance:
            return Triplets(image[:, :count] / kept_values, kept_values, right[:, :count])
        basis, degree = _apply_chebyshev_filter(operator, right, filtered_image, squares)
        filtered += degree
    return None


class SingularValueShrinker:
    """Soft-thresholds singular values; each search starts at the vectors of the last."""

    def __init__(self, rng: Rng) -> None:
        self._rng, self._basis = rng, np.empty((0, 0))

    def find_leading_triplets(
        self, operator: Operator, count_needed: Callable[[Floats], int], tolerance: float
    ) -> Triplets:
        """See `leading_triplets`; all triplets where they are cheaper."""
        triplets = leading_triplets(operator, self._basis, count_needed, tolerance, self._rng)
        return triplets or dense_triplets(operator)

    def soft_threshold(
        self, operator: Operator, threshold: Callable[[Floats], float], tolerance: float
    ) -> Triplets:
        """The triplets whose values are above threshold(values), lowered by it."""

        def count_above(values: Floats) -> int:
            # One is made accurate: of a fresh block none may have grown above the threshold.
            return max(int(np.sum(values > threshold(values))), int(values[0] > 0))

        left, values, right = self.find_leading_triplets(operator, count_above, tolerance)
        theta = threshold(values)
        is_above = values > theta
        left, right = left[:, is_above], right[:, is_above]
        self._basis = left if operator.shape[0] <= operator.shape[1] else right
        return Triplets(left, values[is_above] - theta, right)


def cancellable_operator(matrix: Sparse) -> LinearOperator:
    """The matrix for a search that takes many products with it: each looks whether to stop."""
    from scipy.sparse.linalg import LinearOperator

    def multiply(block: Floats, matrix: Any = matrix) -> Floats:
        check_cancelled()
        return np.asarray(matrix @ block)

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
    """The `count` largest eigenvalues (ascending) of a symmetric matrix and their vectors.

    Args:
        multiply: its products with blocks of columns. size: how many rows it has.
        tolerance: of a pair's residual, beside its value; 0: to the last digit.
        start: a vector to begin from; by default fixed numbers that no structure is blind to.
    """
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    def multiply_vectors(x: Floats) -> Floats:
        check_cancelled()
        return multiply(x.reshape(size, -1)).reshape(x.shape)

    if size <= max(_MAX_DENSE_ROWS, 2 * count):
        squares, vectors = call_cancellable(np.linalg.eigh, multiply_vectors(np.eye(size)))
        return squares[-count:], vectors[:, -count:]
    operator = LinearOperator((size, size), matvec=multiply_vectors, dtype=np.float64)
    fixed_start = np.random.default_rng(0).standard_normal(size)
    n_krylov = min(size, max(2 * count + 1, _KRYLOV_VECTORS))
    try:
        start = fixed_start if start is None else start
        eigenpairs = eigsh(operator, count, None, None, "LA", start, n_krylov, tol=tolerance)
    except ArpackError:  # the matrix takes the start to zero
        if not multiply_vectors(fixed_start).any():
            return np.zeros(count), np.eye(size, count)
        eigenpairs = eigsh(operator, count, None, None, "LA", fixed_start, n_krylov, tol=tolerance)
    return np.asarray(eigenpairs[0]), np.asarray(eigenpairs[1])


def eigenpairs_above(
    multiply: MatrixProduct, size: int, count_above: Callable[[Floats], int], tolerance: float
) -> tuple[Floats, Floats]:
    """The largest eigenvalues (descending) and vectors, as many as `count_above` tells of them
    matter.

    It is asked with more and more of them until the smallest does not matter, or these are all.
    """
    count = _INITIAL_EIGENPAIRS
    while True:
        values, vectors = leading_eigenpairs(multiply, size, min(count, size), tolerance)
        n_kept = count_above(values[::-1])
        if n_kept < len(values) or count >= size:
            return values[::-1][:n_kept], vectors[:, ::-1][:, :n_kept]
        count *= 4


def _apply_chebyshev_filter(
    operator: Operator, block: Floats, first_product: Floats, squares: Floats
) -> tuple[Floats, int]:
    """Chebyshev polynomial of A'A that stays small on [0, squares[-1]] and grows above it.

    With its degree, which is small where squares[0] is huge beside the rest.
    """
    half = max(squares[-1], 1e-12 * squares[0]) / 2
    if half == 0:
        return block, _MIN_FILTER_DEGREE  # the zero matrix hides nothing
    # The degree is held where the largest value's growth would lift rounding errors above 1e-7.
    growth = 2 * max(squares[0] / half - 1, 1.0 + 1e-9)
    degree = int(np.clip(np.log(1e9) / np.log(growth), 1, 8))
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
    start = harmless(rng, Harmless.START)
    extra = start.standard_normal((rows, max(0, width - block.shape[1])))
    return np.hstack([block.reshape(rows, -1), extra])


def invert_upper_triangle(matrix: Floats) -> Floats:
    """The upper triangle of the inverse of a positive definite matrix; below it, whatever.

    By LAPACK routines that let other threads run, in less than half of the time of a general
    inverse; SciPy's own wrappers hold all threads up. Raises LinAlgError where the matrix is not
    positive definite.
    """
    n, inverse = len(matrix), np.array(matrix, order="F")
    call_cancellable(_call_lapack, "dpotrf", b"U", n, inverse, n)
    call_cancellable(_call_lapack, "dpotri", b"U", n, inverse, n)
    return inverse


def _call_lapack(routine: str, *arguments: Any) -> None:
    """A routine by its Fortran arguments but the last, which says whether it worked."""
    from scipy.linalg import cython_lapack

    api = ctypes.pythonapi
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    capsule = vars(cython_lapack)["__pyx_capi__"][routine]
    address = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    info = np.zeros((), dtype=np.intc)
    arrays = [np.asarray(a, np.intc if isinstance(a, int) else None) for a in (*arguments, info)]
    # ctypes lets go of the interpreter for as long as the routine runs.
    ctypes.CFUNCTYPE(None)(address)(*(ctypes.c_void_p(a.ctypes.data) for a in arrays))
    if info:
        raise np.linalg.LinAlgError(f"{routine} gave up ({info})")
