"""Item neighbourhoods from pair counts, in blocks: no items x items matrix is ever dense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmc_core.solvers.linalg import Pattern

if TYPE_CHECKING:
    from scipy.sparse import csr_array


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCK = 2_000_000  # cells of pairs of items held at once: 16 MB
_RAREST = 1e-150  # flip chance whose square is still a number: no cell of a pair is impossible


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """score(u, i) = sum of the similarities of i's neighbours that the user has.

    rows: users x items, the users' own ones. similar: items x items, a row of neighbours per item.
    """

    rows: csr_array
    similar: csr_array
    factors: ClassVar[None] = None

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        wanted, place = np.unique(np.asarray(users), return_inverse=True)
        place = place.reshape(np.shape(users))
        where, which = np.broadcast_arrays(place, np.asarray(items))
        scores = np.empty(where.shape)
        to_items = self.similar.T.tocsr()
        size = max(1, BLOCK // self.similar.shape[0])
        for start in range(0, len(wanted), size):
            dense = (self.rows[wanted[start : start + size]] @ to_items).toarray()
            inside = (where >= start) & (where < start + size)
            scores[inside] = dense[where[inside] - start, which[inside]]
        return scores


def nearest(items: int, count: int, similarities: Callable[[Ints], Floats]) -> csr_array:
    """The `count` most similar items of each item with positive similarity (ties: lower index).

    similarities(block): similarity of the items of a block to all items, len(block) x items.
    """
    from scipy.sparse import csr_array

    count = min(count, items - 1)
    size = max(1, BLOCK // items)
    columns, values, lengths = [], [], []
    for start in range(0, items, size):
        block = np.arange(start, min(start + size, items))
        found = similarities(block)
        found[np.arange(len(block)), block] = -np.inf  # an item is no neighbour of itself
        order = np.argsort(-found, axis=1, kind="stable")[:, :count]
        kept = np.take_along_axis(found, order, axis=1)
        positive = kept > 0
        columns.append(order[positive])
        values.append(kept[positive])
        lengths.append(positive.sum(axis=1))
    indptr = np.concatenate(([0], np.cumsum(np.concatenate(lengths))))
    return csr_array(
        (np.concatenate(values), np.concatenate(columns), indptr), shape=(items, items)
    )


def jaccard(both: Floats, one: Floats, other: Floats) -> Floats:
    """|A and B| / |A or B| of a block of pairs; 0 where an estimated union is not positive."""
    union = one + other - both
    return _ratio(np.minimum(both, union), union)


def cosine(both: Floats, one: Floats, other: Floats) -> Floats:
    """|A and B| / sqrt(|A| |B|); 0 where an estimated size is not positive."""
    return _ratio(both, np.sqrt(np.maximum(one, 0.0) * np.maximum(other, 0.0)))


def _ratio(above: Floats, below: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((below > 0) & (above > 0), above / below, 0.0)


class FlippedPairs:
    """What flipped bits tell about pairs of items.

    bits: users x items of 0 and 1, each flipped with probability `flip` < 1/2.
    """

    def __init__(self, bits: NDArray[np.integer], flip: float) -> None:
        self.bits, self.flip = np.asarray(bits, dtype=np.float32), flip
        self.users, self.items = self.bits.shape
        self.sums = self.bits.sum(axis=0, dtype=np.float64)

    def observed(self, block: Ints) -> Floats:
        """Users whose reports have both items of a pair, len(block) x items."""
        # Counts stay below 2^24, so single precision is exact.
        return (self.bits[:, block].T @ self.bits).astype(np.float64)

    @property
    def counts(self) -> Floats:
        """Unbiased estimate of each item's ones."""
        counts: Floats = (self.sums - self.users * self.flip) / (1 - 2 * self.flip)
        return counts

    def both(self, block: Ints) -> Floats:
        """Unbiased estimate of the users who have both items: the inverse of the 2x2 channel on
        either bit. Of two different items; an item with itself means nothing here."""
        p = self.flip
        sums = self.sums[block][:, None] + self.sums
        estimate: Floats = self.observed(block) - p * sums + self.users * p * p
        return estimate / (1 - 2 * p) ** 2

    def likeliest(self, block: Ints, iterations: int) -> tuple[Floats, Floats, Floats]:
        """Maximum-likelihood (both, first, second) counts of the pairs of a block with all items.

        The shares of the four cells of a pair lie in the simplex. Where the unbiased estimate does,
        it is the maximum; elsewhere expectation-maximisation runs from its projection.
        """
        m, p = self.users, max(self.flip, _RAREST)
        seen_both = self.observed(block)
        first, second = np.broadcast_arrays(self.sums[block][:, None], self.sums)
        seen = np.stack([seen_both, first - seen_both, second - seen_both, seen_both], axis=-1)
        seen[..., 3] = m - seen[..., :3].sum(axis=-1)
        keep = np.array([[1 - p, p], [p, 1 - p]])
        channel = np.kron(keep, keep)  # of cells (1,1), (1,0), (0,1), (0,0); symmetric
        share = (seen / m) @ np.linalg.inv(channel)
        outside = (share < 0).any(axis=-1)
        share[outside] = _expectation_maximisation(
            share[outside], seen[outside] / m, channel, iterations
        )
        both = m * share[..., 0]
        return both, both + m * share[..., 1], both + m * share[..., 2]


def _expectation_maximisation(
    start: Floats, seen: Floats, channel: Floats, iterations: int
) -> Floats:
    """Pairs x 4 shares after so many steps, from the start moved just inside the simplex."""
    share = np.maximum(start, 1e-3)
    share /= share.sum(axis=-1, keepdims=True)
    for _ in range(iterations):
        share = share * ((seen / (share @ channel)) @ channel)
    return share


_BLOCK = 4_000_000  # numbers gathered at once: 32 MB
_ZERO = 1e-9  # a sum this much shorter than its terms is rounding


def profiles(pattern: Pattern, features: Floats) -> Floats:
    """Unit rows, users x d: the direction of the sum of each user's item features (items x d).

    A user whose features cancel, or without items, gets zeros.
    """
    return _directions(_sums(pattern, features), _shortest(features))


def cross_moments(pattern: Pattern, weights: Floats, features: Floats) -> Floats:
    """sum over a row's users of weight x (profile without this item), items x d.

    weights: one per observed cell. The part of one user has Frobenius norm at most the l2 norm of
    that user's weights, because each profile has length 1 or 0.
    """
    from scipy.sparse import csr_array

    sums, shortest = _sums(pattern, features), _shortest(features)
    items, d = features.shape
    moments = np.zeros((items, d))
    size = max(1, _BLOCK // max(1, d))
    for start in range(0, len(pattern.users), size):
        k = slice(start, start + size)
        u, i = pattern.users[k], pattern.items[k]
        others = _directions(sums[u] - features[i], shortest)
        cells = np.arange(len(u))
        moments += np.asarray(csr_array((weights[k], (i, cells)), shape=(items, len(u))) @ others)
    return moments


def signal_energy(values: Floats, noise: float, rows: int, columns: int) -> Floats:
    """Singular values of a rows x columns matrix with the noise taken out; 0 where it drowns them.

    values: of the matrix plus independent noise of that standard deviation. The shrinkage is
    optimal in Frobenius norm as the sizes grow (Gavish, Donoho, "Optimal shrinkage of singular
    values", 2017): with beta = columns/rows and y the value over noise sqrt(rows),
    sqrt((y^2 - beta - 1)^2 - 4 beta)/y above the edge 1 + sqrt(beta).
    """
    beta = columns / rows
    y = values / (noise * np.sqrt(rows))
    above = y > 1.02 * (1.0 + np.sqrt(beta))  # the edge itself wobbles a little
    root = np.sqrt(np.maximum((y**2 - beta - 1.0) ** 2 - 4.0 * beta, 0.0))
    clean: Floats = np.where(above, root / np.maximum(y, 1e-300), 0.0) * noise * np.sqrt(rows)
    return clean


def _sums(pattern: Pattern, features: Floats) -> Floats:
    return np.asarray(pattern.by_user(np.ones(len(pattern.users))) @ features)


def _shortest(features: Floats) -> float:
    return _ZERO * float(np.linalg.norm(features, axis=1).max())


def _directions(vectors: Floats, shortest: float) -> Floats:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        unit: Floats = np.where(length > shortest, vectors / length, 0.0)
    return unit
