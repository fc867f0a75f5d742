"""What each user does alone with the own row, given public item features: a ridge regression.

Nothing here looks at two rows at once, so one changed row never changes what another user finds,
not even in the last bit: sums run along a row, and no product mixes rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.rows import item_sums, row_norms, row_sums
from dpmc_core.stopping import look

Floats = NDArray[np.float64]

MOST = 4.0  # of a user's gain or square, as released
_BLOCK = 4_000_000  # numbers gathered at once: 32 MB
_LARGEST_FACTOR = 1.5  # by which a weighted row may be stretched to its clip


@dataclass(frozen=True, eq=False)
class Design:
    """A user's regression of values on the features of the rated items.

    features: items x d. precision: d x d, of the coefficients beforehand. noise: variance of the
    values about the regression.
    """

    features: Floats
    precision: Floats
    noise: float

    def coefficients(self, cells: Pattern, values: Floats) -> Floats:
        """The ridge solution of each row, users x d; zeros for a row without cells."""
        found = np.zeros((cells.shape[0], self.features.shape[1]))
        for block in self._blocks(cells, values):
            found[block.rows] = block.coefficients
        return found

    def differences(self, cells: Pattern, values: Floats, count: int) -> Floats:
        """How much users differ, as sums over them; 2 x (count + 1), a user's part in [-1/16, 1].

        Of a coefficient theta the posterior variance is p times the variance beforehand. Then
        E theta^2 over that variance is (1 - p)^2 x + p (1 - p) where the true variance is x times
        the one beforehand: above are sums of theta^2 less p (1 - p) <= 1/4 over MOST, which may be
        negative, below of (1 - p)^2, for the first `count` coefficients. Last: the mean square of a
        row about the regression over the noise, and 1. The ratio of the two rows estimates
        x / MOST.
        """
        total = np.zeros((2, count + 1))
        for block in self._blocks(cells, values):
            part, inverse = block.pattern, self.noise * block.inverse
            inside = np.diff(part.indptr)
            kept = (np.einsum("ujj->uj", inverse) * np.diag(self.precision))[:, :count]
            squares = (block.coefficients**2 * np.diag(self.precision))[:, :count]
            fitted = np.einsum("kj,kj->k", block.features, block.coefficients[part.users])
            spent = len(self.precision) - np.einsum("uij,ji->u", inverse, self.precision)
            left = row_sums(part, (values[block.cells] - fitted) ** 2) / self.noise + spent
            shown = np.zeros((2, len(inside), count + 1))
            shown[0, :, :count] = np.minimum(squares, MOST) - kept * (1 - kept)
            shown[0, :, count] = np.minimum(left / np.maximum(inside, 1), MOST)
            shown[0] /= MOST
            shown[1, :, :count] = (1 - kept) ** 2
            shown[1, :, count] = 1.0
            total += shown[:, inside > 0].sum(axis=1)
        return total

    def left_out(self, cells: Pattern, values: Floats) -> Iterator[LeftOut]:
        """Every cell against the regression on the row's other cells, in blocks of whole rows."""
        for block in self._blocks(cells, values):
            x, own = block.features, block.pattern.users
            solved = np.einsum("kij,kj->ki", block.inverse[own], x)
            fitted = np.einsum("kj,kj->k", x, block.coefficients[own])
            leverage = np.einsum("kj,kj->k", x, solved)
            residual = (values[block.cells] - fitted) / np.maximum(1.0 - leverage, 1e-9)
            others = block.coefficients[own] - solved * residual[:, None]
            yield LeftOut(block.pattern, x, residual, others, block.coefficients)

    def _blocks(self, cells: Pattern, values: Floats) -> Iterator[_Block]:
        d = self.features.shape[1]
        most = max(1, _BLOCK // (d * d))
        start, rows = 0, cells.shape[0]
        while start < rows:
            look()
            # as many whole rows as fit, and at least one
            stop = int(np.searchsorted(cells.indptr, cells.indptr[start] + most, side="right")) - 1
            stop = min(max(stop, start + 1), start + most, rows)
            k = slice(int(cells.indptr[start]), int(cells.indptr[stop]))
            x = self.features[cells.items[k]]
            rated = cells.indptr[start : stop + 1] - k.start
            filled = np.flatnonzero(np.diff(rated) > 0)
            begin = rated[filled]
            squares = np.tile(self.noise * self.precision, (stop - start, 1, 1))
            moments = np.zeros((stop - start, d))
            if len(filled):
                columns, known = np.ascontiguousarray(x.T), values[k]
                for i in range(d):  # column by column: much faster than whole outer products
                    moments[filled, i] = np.add.reduceat(columns[i] * known, begin)
                    for j in range(i + 1):
                        sums = np.add.reduceat(columns[i] * columns[j], begin)
                        squares[filled, i, j] += sums
                        if j < i:
                            squares[filled, j, i] += sums
            inverse = np.asarray(np.linalg.inv(squares))
            coefficients = np.einsum("uij,uj->ui", inverse, moments)
            users = cells.users[k] - np.int32(start)
            part = Pattern(users, cells.items[k], rated, (stop - start, cells.shape[1]))
            yield _Block(slice(start, stop), k, part, x, inverse, coefficients)
            start = stop


@dataclass(frozen=True, eq=False)
class _Block:
    rows: slice
    cells: slice
    pattern: Pattern
    features: Floats
    inverse: Floats
    coefficients: Floats


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Some whole rows. features, others: one row a cell, c x d: of its item, and coefficients of
    the row without it; residual: length c, of that regression; coefficients: of whole rows."""

    pattern: Pattern
    features: Floats
    residual: Floats
    others: Floats
    coefficients: Floats


def weighted_rows(
    cells: Pattern, values: Floats, weights: Floats, norm: float
) -> tuple[Floats, Floats]:
    """The values times weights of unit length in each row, in rows of l2 norm `norm` at most.

    weights: one per cell, positive. A row shorter than `norm` is stretched, by 1.5 at most. Also
    each user's gain (length m): sqrt(cells) times the factor over the length of the own weights,
    so that a cell enters with gain x weight / sqrt(cells).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        lengths = row_norms(cells, weights)
        scaled = values * (weights / lengths[cells.users])
        factor = np.minimum(_LARGEST_FACTOR, norm / row_norms(cells, scaled))
        count = np.diff(cells.indptr)
        gain = np.where(count > 0, np.sqrt(count) * factor / lengths, 0.0)
    return scaled * factor[cells.users], gain


def unit_rows(vectors: Floats) -> Floats:
    """Each row scaled to length one; a zero row stays."""
    length = np.sqrt(np.einsum("kr,kr->k", vectors, vectors))
    return vectors / np.where(length > 0, length, 1.0)[:, None]


def round_statistics(
    cells: Pattern,
    values: Floats,
    design: Design,
    weights: Floats,
    rank: int,
    share: float,
    norm: float,
) -> tuple[Floats, Floats]:
    """What a round asks of all users: sums over them, of which one user's part is bounded.

    The n x (rank + 1) sums: residuals of the regression on the row's other cells, weighted by item
    (weights: length n), in rows of l2 norm sqrt(1 - share) norm; then residuals about all but
    taste, times the unit vector of the taste in the row's other cells, sqrt(share) norm. The
    rank^2 + 2 moments: products u u' of the unit vectors of taste, and the gains of either
    weighting over MOST, at most 1. Zeros for taste where share is 0.
    """
    sums, moments = np.zeros((cells.shape[1], rank + 1)), np.zeros(rank * rank + 2)
    for rows in design.left_out(cells, values):
        part, residual = rows.pattern, rows.residual
        scaled, gains = weighted_rows(part, residual, weights[part.items], norm)
        sums[:, 0] += item_sums(part, math.sqrt(1 - share) * scaled)
        moments[-2] += bounded_gain(gains)
        if share > 0:
            taste = rows.others[:, -rank:]
            about = residual + np.einsum("kr,kr->k", rows.features[:, -rank:], taste)
            scaled, gains = weighted_rows(part, about, np.ones_like(about), norm)
            for column, direction in enumerate(unit_rows(taste).T, 1):
                sums[:, column] += item_sums(part, math.sqrt(share) * scaled * direction)
            unit = unit_rows(rows.coefficients[:, -rank:])
            moments[:-2] += (unit.T @ unit).ravel()
            moments[-1] += bounded_gain(gains)
    return sums, moments


def bounded_gain(gains: Floats) -> float:
    """The sum of the users' gains over MOST, at most 1 each."""
    return float((np.minimum(gains, MOST) / MOST).sum())
