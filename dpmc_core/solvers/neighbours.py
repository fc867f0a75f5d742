"""Item neighbourhoods from pair counts, in blocks: no items x items matrix is ever dense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmc_core.stopping import look

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
            look()
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
        look()
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
        look()
        share = share * ((seen / (share @ channel)) @ channel)
    return share
