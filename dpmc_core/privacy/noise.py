"""Samplers of privacy noise that NumPy does not have, reached only through `release.publish()`.

They are textbook samplers in floating point, meant for simulation: the least significant bits of
such noise leak (Mironov, "On significance of the least significant bits for differential privacy",
2012). Given a `SecureSource`, channels and coins sample exactly instead; its plain draws, which all
others use, raise CannotRelease.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy  # loads scipy.linalg at its first use

from dpmc_core.arrays import SMALLEST, Bools, Floats, Integers, Ints, Rng
from dpmc_core.privacy.exact_noise import SecureSource
from dpmc_core.stopping import check_cancelled

# Smallest norm of a unit vector's remainder orthogonal to the published directions that counts.
_MIN_NEW_NORM = 1e-10


class SymmetricGaussian:
    """Products of a private symmetric matrix plus symmetric Gaussian noise W = (N + N') / 2.

    N has independent N(0, sigma^2) entries. The distribution of the noise is the same in every
    orthonormal basis. Along a new direction q, orthogonal to those published before, q'Wq ~ N(0,
    sigma^2), and the rest of Wq is N(0, sigma^2 / 2) across all of them; symmetry gives the part
    along them. So every answer is a combination of published images, and private products are taken
    with new directions only, each with fresh noise. A column of length one whose remainder
    orthogonal to these directions is shorter than `_MIN_NEW_NORM` adds none; the remainder counts
    as zero.

    Args:
        private: returns the product of the private matrix with an array of shape (size, b).
        size: number of rows of the matrix.
        sigma: standard deviation of the entries of N, in the unit of the matrix.
        rng: draws the noise.
    """

    def __init__(
        self, private: Callable[[Floats], Floats], size: int, sigma: float, rng: Rng
    ) -> None:
        self._private, self._sigma, self._rng = private, sigma, rng
        self._directions, self._images = np.empty((2, 0, size))  # as rows, those published

    def multiply(self, block: Floats) -> Floats:
        """Return the noisy matrix times a block of columns.

        Args:
            block: array of shape (size, b).

        Returns:
            Array of shape (size, b).
        """
        new = self._find_directions(block)
        if len(new):
            self._publish_images(new)
        return self._images.T @ (self._directions @ block)

    def _find_directions(self, block: Floats) -> Floats:
        """Return orthonormal rows that span what a block adds to the published directions.

        Args:
            block: array of shape (size, b).
        """
        directions = self._directions
        if len(block) == block.shape[1]:  # asks for the whole matrix
            basis = np.asarray(scipy.linalg.qr(directions.T)[0], dtype=float)
            return basis[:, len(directions) :].T
        new = block / np.maximum(np.linalg.norm(block, axis=0), SMALLEST)
        for _ in range(2):  # once leaves rounding errors along the directions
            # Pivots sort the columns by what each adds: after a short one, all are short.
            basis, factor, _ = scipy.linalg.qr(
                new - directions.T @ (directions @ new), mode="economic", pivoting=True
            )
            lengths = np.diag(factor)
            new = (basis * np.sign(lengths))[:, np.abs(lengths) >= _MIN_NEW_NORM]
        return new.T

    def _publish_images(self, new: Floats) -> None:
        """Publish the noisy images of new directions.

        Args:
            new: array of shape (b, size), the directions.
        """
        directions = self._directions
        noise = self._rng.normal(0.0, self._sigma / math.sqrt(2), new.shape)
        images = self._private(new.T).T + noise
        images -= (images @ directions.T) @ directions
        # Each pair of directions keeps one of its two numbers, as the matrix is symmetric. A
        # direction's number with itself gets noise of twice the variance.
        among_new = images @ new.T
        symmetric = np.triu(among_new) + np.triu(among_new, 1).T
        symmetric += np.diag((math.sqrt(2) - 1) * np.einsum("ij,ij->i", noise, new))
        images += (symmetric - among_new) @ new + (new @ self._images.T) @ directions
        self._directions = np.vstack([directions, new])
        self._images = np.vstack([self._images, images])


def draw_norm_laplace(scale: float, shape: tuple[int, ...], rng: Rng) -> Floats:
    """Draw independent rows of length d with density proportional to exp(-||x||_2 / scale).

    The norm is Gamma(d, scale), the direction uniform (Chaudhuri, Monteleoni, Sarwate 2011).

    Args:
        scale: scale of the noise, in the unit of the answer.
        shape: shape of the array; its last axis has length d.
        rng: draws the numbers.
    """
    direction = rng.normal(size=shape)
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    return rng.gamma(shape[-1], scale, (*shape[:-1], 1)) * direction


_UNIFORM_STEP = 2.0**-53  # resolution of uniform draws
_END_WIDTH = 2.0**-40  # distance from an end of [0, 1) at which they get further digits


def pass_channel(matrix: Floats, symbols: Integers, rng: Rng) -> Integers:
    """Pass each symbol a through the channel matrix[a, o] = P(output o | input a).

    Symbols are sampled by inverse transform, one row of the matrix at a time. Draws
    near 0 or 1 get further digits, counted from their own end: otherwise a probability far below
    2^-53 (a flip at epsilon = 40) would be 0, and the output would reveal its input. For that, rare
    outputs must stand at the ends of a row, as they do beside a single likely one. Bits given as
    bytes are numerous, and if both flip alike, each takes one random byte.

    Args:
        matrix: array of shape (n_inputs, n_outputs), rows of probabilities.
        symbols: integer array of any shape, inputs.
        rng: draws the outputs.

    Returns:
        Array of the shape and type of `symbols`, outputs.
    """
    if isinstance(rng, SecureSource):
        return rng.pass_channel(matrix, symbols)
    if symbols.dtype == np.uint8 and matrix.shape == (2, 2) and matrix[0, 1] == matrix[1, 0]:
        return symbols ^ _draw_flips(matrix[0, 1], symbols.size, rng).reshape(symbols.shape)
    out = np.empty_like(symbols)
    totals = matrix.sum(axis=1, keepdims=True)
    # Output o is drawn by a uniform number between the ends of o - 1 and o. A last end of 1 - 1e-16
    # would leave room for an impossible output.
    ends = np.cumsum(matrix, axis=1)
    ends /= ends[:, -1:]
    # The same from the other end: probabilities of the last 1, 2, ... outputs.
    tails = np.cumsum(matrix[:, ::-1], axis=1) / totals
    for a in range(len(matrix)):
        lower_ends, upper_ends = ends[a, :-1], tails[a, :-1]
        check_cancelled()
        mask = symbols == a
        uniform = rng.random(int(mask.sum()))
        draws = np.searchsorted(lower_ends, uniform, side="right")
        low, high = uniform < _END_WIDTH, uniform >= 1 - _END_WIDTH
        if low.any() or high.any():
            # Digits beyond the generator's resolution: e^-Exp(1) is uniform in 0..1. They are added
            # to the distance from 0, or to the distance from 1.
            digits = _UNIFORM_STEP * np.exp(-rng.standard_exponential(len(uniform)))
            from_zero, from_one = uniform + digits, (1 - uniform - _UNIFORM_STEP) + digits
            draws[low] = np.searchsorted(lower_ends, from_zero[low], side="right")
            draws[high] = len(upper_ends) - np.searchsorted(upper_ends, from_one[high], side="left")
        out[mask] = draws
    return out


def _draw_flips(probability: float, count: int, rng: Rng) -> Bools:
    """Return whether each of `count` bits flips, which it does with the given probability.

    A random byte below 256 x probability flips the bit; where the byte is the one that 256 x
    probability cuts, a second draw decides.
    """
    # A word of 64 bits gives eight bytes.
    random_bytes = rng.integers(0, 2**64, -(-count // 8), dtype=np.uint64).view(np.uint8)[:count]
    threshold_byte, fraction = divmod(256 * probability, 1.0)
    flips = random_bytes < int(threshold_byte)
    tied = np.flatnonzero(random_bytes == int(threshold_byte))
    tie_channel = np.array([[1 - fraction, fraction], [0.0, 1.0]])
    flips[tied] = pass_channel(tie_channel, np.zeros(len(tied), dtype=np.int64), rng)
    return flips


def pass_missing_channel(row: Floats, rated_cells: Ints, total: int, rng: Rng) -> tuple[Ints, Ints]:
    """Pass the symbol 0 of every cell that is not rated through a row of a channel.

    Args:
        row: array of shape (n_outputs,), P(output | input 0).
        rated_cells: sorted array of shape (n_rated,), indices of rated cells in 0..total-1.
        total: how many cells there are, rated or not.
        rng: draws the outputs.

    Returns:
        Two arrays of one length: the cells with another output than 0, sorted, and these outputs.
    """
    if isinstance(rng, SecureSource):
        symbols = rng.pass_channel(row[None], np.zeros(total - len(rated_cells), dtype=np.uint8))
        ranks = np.flatnonzero(symbols)
        return _map_to_free_cells(ranks, rated_cells), symbols[ranks].astype(np.int64)
    other_probabilities = row[1:]
    # The sum, because 1 - row[0] would lose its digits.
    cells = draw_hits(rated_cells, total, float(other_probabilities.sum()), rng)
    if not len(cells):
        return cells, np.empty(0, dtype=np.int64)
    return cells, rng.choice(
        len(other_probabilities), size=len(cells), p=other_probabilities / other_probabilities.sum()
    ) + 1


def draw_hits(excluded: Ints, total: int, probability: float, rng: Rng) -> Ints:
    """Draw each of 0..total-1 that is not excluded with the same probability, independently.

    The gaps between hits are geometric, and they are drawn one after the other. So memory and time
    are proportional to the number of hits.

    Args:
        excluded: sorted array of shape (n_excluded,), indices in 0..total-1.
        total: how many indices there are, excluded or not.
        probability: the probability with which each index is drawn.
        rng: draws the hits.

    Returns:
        Array of shape (n_hits,), sorted indices.
    """
    n_free = total - len(excluded)
    if probability <= 0 or n_free <= 0:
        return np.empty(0, dtype=np.int64)
    chunks, last = [], -1
    while last < n_free - 1:
        expected = (n_free - last) * probability
        gaps = rng.geometric(probability, int(expected + 4 * np.sqrt(expected)) + 8)
        # Larger gaps lie beyond the end anyway, and their sums would overflow.
        positions = last + np.cumsum(np.minimum(gaps, n_free + 1))
        chunks.append(positions[positions < n_free])
        last = int(positions[-1])
    return _map_to_free_cells(np.concatenate(chunks), excluded)


def _map_to_free_cells(ranks: Ints, excluded: Ints) -> Ints:
    """Return the indices of the cells that have these ranks among those that are not excluded.

    Args:
        ranks: array of shape (n,), 0 for the first cell that is not excluded.
        excluded: sorted array of shape (n_excluded,), cell indices.

    Returns:
        Array of shape (n,), cell indices.
    """
    # excluded[k] has excluded[k] - k free cells before it.
    return ranks + np.searchsorted(excluded - np.arange(len(excluded)), ranks, side="right")


def flip_coins(weights: Floats, rng: Rng) -> Bools:
    """Flip a coin of probability 1/w for each term; an infinite weight is never drawn.

    Args:
        weights: array of shape (n_terms,), w >= 1.
        rng: draws the coins.

    Returns:
        Mask of shape (n_terms,), True for terms that are drawn.
    """
    if isinstance(rng, SecureSource):
        return rng.flip_coins(weights)
    return rng.random(len(weights)) * weights < 1.0


def draw_gaussian_shares(scale: float, mixing: Floats, group_sizes: Floats, rng: Rng) -> Floats:
    """Draw shares scale sqrt(2 H) C with C ~ N(0, 1/k).

    Over H ~ Exp(1), the sum of k shares with one H is Laplace(scale); given H it is Gaussian of
    variance 2 H scale^2 (Hua, Xia, Zhong 2015).

    Args:
        scale: scale of the summed noise, in the unit of the answer.
        mixing: array of shape (n_shares, d), the variable H of each share.
        group_sizes: array of shape (n_shares,), the number k of shares in the sum of each.
        rng: draws the numbers C.

    Returns:
        Array of shape (n_shares, d).
    """
    return scale * np.sqrt(2 * mixing / group_sizes[:, None]) * rng.standard_normal(mixing.shape)


def draw_gamma_shares(scale: float, n_shares: Floats, length: int, rng: Rng) -> Floats:
    """Draw shares Gamma(1/k, scale) - Gamma(1/k, scale).

    The sum of k of them is Laplace(scale), which is infinitely divisible.

    Args:
        scale: scale of the summed noise, in the unit of the answer.
        n_shares: array of shape (n,), the number k of shares that sum to Laplace noise, per row.
        length: length of a row.
        rng: draws the numbers.

    Returns:
        Array of shape (n, length).
    """
    shape = np.broadcast_to(1 / n_shares[:, None], (len(n_shares), length))
    return scale * (rng.standard_gamma(shape) - rng.standard_gamma(shape))
