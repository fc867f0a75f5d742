"""Rankings from flipped bits: what stands clear of the known noise in the spectrum of the reports.

The reports are m x n bits, each flipped with a chance everybody knows. They are held as bytes and
read a block of users at a time, so that nothing of size users x items is ever held as floats.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core.arrays import Floats, Sparse
from dpmc_core.model import Factors
from dpmc_core.stopping import look

Bits = NDArray[np.integer]

_BLOCK = 4_000_000  # cells of reports held in single precision at once: 16 MB
_MOST = 40  # directions kept at most
_WIDTH, _DEPTH = 48, 6  # of the block Krylov space that finds them
_CLEAR = 1.01  # how far above the edge of the noise a direction stands, which itself wobbles


@dataclass(frozen=True, eq=False)
class FlippedBits:
    """What the server has: bits, users x items, each flipped with chance `flip` < 1/2."""

    bits: Bits
    flip: float

    @property
    def gain(self) -> float:
        """How much of a bit is left in the mean of its report: 1 - 2 flip, or a rounding of it."""
        return max(1 - 2 * self.flip, 1e-12)

    @property
    def shares(self) -> Floats:
        """Unbiased estimate of the share of users with each item, length n; may be negative."""
        sums = self.bits.sum(axis=0, dtype=np.int64)
        found: Floats = (sums / len(self.bits) - self.flip) / self.gain
        return found

    @property
    def variance(self) -> float:
        """What the flips add to the variance of every cell of `times`: f (1 - f) / (1 - 2f)^2."""
        return self.flip * (1 - self.flip) / self.gain**2

    def activity(self, usual: float) -> float:
        """Estimate of the mean square of how many items a user has, over the usual number; >= 1."""
        users, items = self.bits.shape
        lengths = (self.bits.sum(axis=1, dtype=np.int64) - items * self.flip) / self.gain
        square = float(np.mean(lengths**2)) - items * self.variance
        return float(np.clip(square / usual**2, 1.0, users))

    def times(self, block: Floats) -> Floats:
        """H @ block for the unbiased estimate H = (bits - flip) / gain of the true rows."""
        out = np.empty((len(self.bits), block.shape[1]))
        single = block.astype(np.float32)
        for rows, part in self._blocks():
            out[rows] = part @ single
        found: Floats = (out - self.flip * block.sum(axis=0)) / self.gain
        return found

    def transposed(self, block: Floats) -> Floats:
        """H' @ block."""
        out = np.zeros((self.bits.shape[1], block.shape[1]))
        single = block.astype(np.float32)
        for rows, part in self._blocks():
            out += part.T @ single[rows]
        found: Floats = (out - self.flip * block.sum(axis=0)) / self.gain
        return found

    def _blocks(self) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        users, items = self.bits.shape
        step = max(1, _BLOCK // items)
        for start in range(0, users, step):
            look()
            rows = slice(start, min(start + step, users))
            yield rows, self.bits[rows].astype(np.float32)


class ClickTaste(NamedTuple):
    """What the server tells everybody, from reports alone.

    shares: length n, the debiased popularity. expected: the same held within 0..1. loadings: n x r,
    how the chances of a usual user move with r independent tastes of variance 1. noise: variance
    of an item that a user has or not, weighed by popularity.
    """

    shares: Floats
    expected: Floats
    loadings: Floats
    noise: float

    @classmethod
    def of(cls, reports: FlippedBits) -> ClickTaste:
        """The directions of the reports that clear the noise, beside their common popularity.

        How many items a user has moves all items in step with their popularity. That direction is
        the strongest and says nothing about which items, so it is taken out first. In the rest the
        noise of a column is v + p (1 - p); a direction of population variance alpha then shows as
        the eigenvalue psi(alpha) of H'H / m (see `_Edge`), and what it owes to the noise is known.
        """
        users = len(reports.bits)
        shares, v = reports.shares, reports.variance
        spread = math.sqrt(max(v, 1 / users) / users)  # of a share, about
        least = max(0.3 * spread, 0.1 * float(shares.mean()), 0.2 / users)
        expected = np.clip(shares, least, 0.95)
        each = expected * (1 - expected)
        noise = float(expected @ each / expected.sum())
        common = expected / np.linalg.norm(expected)
        squares, vectors = _leading(reports, common)
        edge = _Edge(v + each, users)
        clear = squares / users > _CLEAR * edge.height
        alpha = np.array([edge.population(s) for s in squares[clear] / users])
        # For a population covariance diag(t) + l l' the eigenvector is (alpha - t)^-1 l.
        vectors = vectors[:, clear]
        loadings = (alpha - (v + each)[:, None]) * vectors
        strength = np.maximum((loadings * vectors).sum(axis=0), np.finfo(float).tiny)
        loadings /= np.sqrt(strength * reports.activity(float(expected.sum())))
        return cls(shares, expected, loadings, noise)

    def scores(self, rows: Sparse) -> Factors:
        """Each user's ranking from the own true row (users x items of ones), as factors.

        A user with a times as many items as expected has each with chance a (p + loadings z), z the
        own tastes; given the row, z is Gaussian with noise a d.
        """
        lengths = np.diff(rows.indptr).astype(float)
        activity = np.maximum(lengths, 0.5) / self.expected.sum()
        own = (rows @ self.loadings) - np.outer(activity, self.expected @ self.loadings)
        values, basis = np.linalg.eigh(self.loadings.T @ self.loadings / self.noise)
        along = (own / self.noise) @ basis
        tastes = (along / (1 / activity[:, None] + values)) @ basis.T
        left = np.hstack([activity[:, None], tastes])
        return Factors(left, np.hstack([self.shares[:, None], self.loadings]))


class _Edge:
    """Eigenvalues of the covariance of m rows of independent noise with variances t, and spikes.

    A direction of population variance alpha above all noise shows as psi(alpha) =
    alpha + (alpha / m) sum t / (alpha - t), as long as psi grows there (Bai, Yao, "On sample
    eigenvalues in a generalized spiked population model", 2012); the noise alone ends where psi is
    least. With all t alike these are the edge and the shrinkage of Marchenko and Pastur's law.
    """

    def __init__(self, variances: Floats, rows: int) -> None:
        from scipy.optimize import brentq

        self._t, self._m = variances, rows

        def slope(alpha: float) -> float:
            return 1 - float(np.sum((variances / (alpha - variances)) ** 2)) / rows

        most = float(variances.max())
        low, high = most * (1 + 1e-9), most * (2 + math.sqrt(len(variances) / rows))
        self._least = brentq(slope, low, high) if slope(low) < 0 else low
        self.height = self.psi(self._least)

    def psi(self, alpha: float) -> float:
        return alpha * (1 + float(np.sum(self._t / (alpha - self._t))) / self._m)

    def population(self, seen: float) -> float:
        """The alpha whose eigenvalue is `seen`, which is above the noise."""
        from scipy.optimize import brentq

        return brentq(lambda alpha: self.psi(alpha) - seen, self._least, seen)


def _leading(reports: FlippedBits, common: Floats) -> tuple[Floats, Floats]:
    """The largest eigenvalues of P H'H P, P = I - common common', and their vectors (n x r).

    By a block Krylov space (Musco, Musco 2015) from a public random start, the same in every run:
    the blocks are orthogonal, and the eigenvalues are those of H'H within the space.
    """
    users, items = reports.bits.shape
    width = min(_WIDTH, items)
    block = np.random.default_rng(0).normal(size=(items, width))
    basis = common[:, None]
    for _ in range(_DEPTH):
        for _ in range(2):  # once more for what rounding leaves
            block -= basis @ (basis.T @ block)
        block = np.linalg.qr(block)[0]
        room = items - basis.shape[1]
        if room <= 0:
            break
        basis = np.hstack([basis, block[:, :room]])
        block = reports.transposed(reports.times(block))
    basis = np.linalg.qr(basis)[0][:, 1:]  # the last blocks may have added little but rounding
    image = reports.times(basis)
    squares, rotation = np.linalg.eigh(image.T @ image)
    keep = min(_MOST, len(squares), users)
    return squares[::-1][:keep], (basis @ rotation)[:, ::-1][:, :keep]
