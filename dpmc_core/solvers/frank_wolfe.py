"""Frank-Wolfe over the nuclear ball: min 1/2 ||P(Y - Y*)||^2 with ||Y||_nuc <= k. No privacy here.

Jaggi, Sulovsky, "A simple algorithm for nuclear norm regularized problems" (2010); Jaggi,
"Revisiting Frank-Wolfe" (2013). P keeps the observed cells.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmc_core.model import Factors
from dpmc_core.privacy import Harmless, harmless
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.rows import row_norms, shrinkage, times_vector
from dpmc_core.stopping import look

Floats = NDArray[np.float64]

_CHUNK = 4_000_000  # cells updated at once: bounds the scratch to some 100 MB
_DENSE = 500  # items up to which the exact eigenproblem stands in where the iterative one fails
_EIGEN_TOLERANCE = 1e-4  # of the top singular pair: Frank-Wolfe needs it only roughly


class StepRule(enum.Enum):
    """The share of the new rank-one matrix in round t = 1, 2, ... of T."""

    FIXED = "fixed"  # 1/T
    DECREASING = "decreasing"  # 2/(t + 1): the first round forgets the start
    LINE_SEARCH = "line-search"  # exact, reads the ratings

    def share(self, index: int, total: int) -> float:
        return 1 / total if self is StepRule.FIXED else 2 / (index + 1)


class Expansion:
    """Y = left right', grown by one rank-one matrix a round; `observed` is Y on the cells."""

    def __init__(self, cells: Pattern, rounds: int) -> None:
        m, n = cells.shape
        self.cells = cells
        self.observed = np.zeros(len(cells.users))
        self._left, self._right = np.zeros((m, rounds)), np.zeros((n, rounds))
        self._rank = 0

    def step(self, share: float, column: Floats, direction: Floats) -> None:
        """Y <- (1 - share) Y + share column direction'; column: length m, direction: length n."""
        self._left[:, : self._rank] *= 1 - share
        self._left[:, self._rank], self._right[:, self._rank] = share * column, direction
        added, users, items = share * column, self.cells.users, self.cells.items
        for start in range(0, len(self.observed), _CHUNK):
            k = slice(start, start + _CHUNK)
            self.observed[k] *= 1 - share
            self.observed[k] += added[users[k]] * direction[items[k]]
        self._rank += 1

    def scale_rows(self, norm: float) -> int:
        """Scale each row so that its observed part has l2 norm <= norm; how many were scaled."""
        factor = shrinkage(row_norms(self.cells, self.observed), norm)
        cut = int((factor < 1).sum())
        if cut:
            self._left[:, : self._rank] *= factor[:, None]
            for start in range(0, len(self.observed), _CHUNK):
                k = slice(start, start + _CHUNK)
                self.observed[k] *= factor[self.cells.users[k]]
        return cut

    def factors(self) -> Factors:
        """A copy of Y's factors, users x rank and items x rank."""
        return Factors(self._left[:, : self._rank].copy(), self._right[:, : self._rank].copy())


@dataclass(frozen=True)
class FrankWolfeRound:
    """One round: objective 1/2 ||P(Y - Y*)||^2 before it, its duality gap, the step taken."""

    index: int
    objective: float
    gap: float
    share: float
    final: bool


def complete(
    cells: Pattern,
    target: Floats,
    radius: float,
    *,
    rounds: int,
    rule: StepRule,
    tolerance: float,
    rng: np.random.Generator,
) -> Iterator[tuple[FrankWolfeRound, Expansion]]:
    """Frank-Wolfe from zero on target values at the cells.

    The gap <P(Y - Y*), Y - Z> bounds how far the objective is from its minimum; stops where it is
    <= tolerance x objective. radius: the nuclear norm k.
    """
    expansion = Expansion(cells, rounds)
    start = harmless(rng, Harmless.START).standard_normal(cells.shape[1])
    for index in range(1, rounds + 1):
        residual = expansion.observed - target
        objective = 0.5 * float(residual @ residual)
        sigma, v = top_right_pair(cells, residual, start)
        start = v
        gap = float(residual @ expansion.observed) + radius * sigma
        if sigma > 0:
            column = times_vector(cells, residual, v) * (-radius / sigma)
        else:
            column = np.zeros(cells.shape[0])
        if rule is StepRule.LINE_SEARCH:
            move = column[cells.users] * v[cells.items] - expansion.observed
            length = float(move @ move)
            share = min(max(gap / length, 0.0), 1.0) if length > 0 else 0.0
        else:
            share = rule.share(index, rounds)
        expansion.step(share, column, v)
        final = index == rounds or gap <= tolerance * objective
        yield FrankWolfeRound(index, objective, gap, share, final), expansion
        if final:
            return


def top_right_pair(cells: Pattern, values: Floats, start: Floats) -> tuple[float, Floats]:
    """The largest singular value and its right vector (length n) of the sparse matrix."""
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    n = cells.shape[1]
    if not values.any():
        return 0.0, start / np.linalg.norm(start)
    rows, columns = cells.by_user(values), cells.by_item(values)

    def product(x: Floats) -> Floats:
        look()
        return np.asarray(columns @ (rows @ x.ravel()))

    operator = LinearOperator((n, n), matvec=product, dtype=np.float64)

    def top(v0: Floats) -> tuple[Floats, Floats]:
        found: tuple[Floats, Floats] = eigsh(operator, k=1, v0=v0, tol=_EIGEN_TOLERANCE)
        return found

    if n <= 3:  # too small for the iterative solver
        squares, vectors = np.linalg.eigh((columns @ rows).toarray())
    else:
        try:
            squares, vectors = top(start)
        except ArpackError:  # the matrix takes the start to zero
            if n <= _DENSE:
                squares, vectors = np.linalg.eigh((columns @ rows).toarray())
            else:
                squares, vectors = top(np.random.default_rng(0).standard_normal(n))
    return math.sqrt(max(float(squares[-1]), 0.0)), vectors[:, -1]


def top_vector(
    product: Callable[[Floats], Floats],
    size: int,
    updates: int,
    step: float,
    rng: np.random.Generator,
) -> Floats:
    """v <- v + step product(v), normalised at the start and after every update; length `size`.

    product(v): A'A v with or without noise, for ||v|| = 1. The starting direction is uniform; the
    paper leaves the first vector un-normalised, which would scale the first product with it.
    """
    v: Floats = harmless(rng, Harmless.START).standard_normal(size)
    v /= np.linalg.norm(v)
    for _ in range(updates):
        look()
        v = v + step * product(v)
        v /= np.linalg.norm(v)
    return v
