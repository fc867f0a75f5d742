"""Which items come next: items scored by other items, noisy counts, taste. No privacy here.

Item-to-item scores (neighbours; EASE: Steck, "Embarrassingly shallow autoencoders for sparse data",
2019) never hold more than a block of users' scores. A profile is where a user's row points among
public item features; sums of profiles, to which each user adds a bounded part, tell how an item's
audience differs from the others', and which features tell audiences apart next.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmc_core.model import Factors, Model
from dpmc_core.ratings import Ratings
from dpmc_core.solvers.linalg import Pattern, inverse_triangle
from dpmc_core.solvers.rows import gram, positive_part
from dpmc_core.stopping import look

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCK = 2_000_000  # scores, or pairs of items, held at once: 16 MB
_RAREST = 1e-150  # flip chance whose square is still a number: no cell of a pair is impossible
_GATHERED = 4_000_000  # numbers gathered at once: 32 MB
_ZERO = 1e-9  # a sum this much shorter than its terms is rounding
_SWEEPS = 30  # of expectation-maximisation
_LEAST = 0.02  # smallest variance of profiles, in that of d directions alike
_TINY = 1e-4  # smallest variance of taste at the start, likewise
_MARGIN = 1.3  # the known noise is known through released counts and moments only
_DRAWS = 20  # of noise alone, whose largest eigenvalue taste has to pass
_RIDGE = 0.1


@dataclass(frozen=True, eq=False)
class ItemScores:
    """score(u, i) = sum over the user's items j of weights[j, i].

    rows: users x items, the users' own ones. weights: items x items, dense or sparse.
    """

    rows: csr_array
    weights: Any
    factors: ClassVar[None] = None

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        wanted, row = np.unique(np.asarray(users), return_inverse=True)
        where, which = np.broadcast_arrays(row.reshape(np.shape(users)), np.asarray(items))
        scores = np.empty(where.shape)
        size = max(1, BLOCK // self.rows.shape[1])
        for start in range(0, len(wanted), size):
            look()
            block = self.rows[wanted[start : start + size]] @ self.weights
            inside = (where >= start) & (where < start + size)
            dense = block if isinstance(block, np.ndarray) else block.toarray()
            scores[inside] = dense[where[inside] - start, which[inside]]
        return scores


def ease_weights(ratings: Ratings, ridge: float) -> Floats:
    """The B (n x n) of least ||X - X B||^2 + ridge ||B||^2 whose diagonal is zero (EASE).

    B = -P / diag(P) off the diagonal, P = (X'X + ridge I)^-1: column j predicts item j.
    """
    inverse = gram(Pattern.of(ratings), ratings.values)
    inverse.flat[:: len(inverse) + 1] += ridge
    look()
    inverse = inverse_triangle(inverse)  # the matrix is positive definite by its ridge
    weights: Floats = np.triu(inverse, 1)
    look()
    weights += weights.T
    look()
    weights /= -inverse.diagonal()
    return weights


@dataclass(frozen=True, eq=False)
class OnMostRated:
    """One model for some items, by their place there, and another for the items without one."""

    model: Model
    place: NDArray[np.int32]
    other: Model
    factors: ClassVar[None] = None

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        u, i = np.broadcast_arrays(np.asarray(users), np.asarray(items))
        scores, place = self.other.predict(u, i), self.place[i]
        inside = place >= 0
        scores[inside] = self.model.predict(u[inside], place[inside])
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
    size = max(1, _GATHERED // max(1, d))
    for start in range(0, len(pattern.users), size):
        look()
        k = slice(start, start + size)
        u, i = pattern.users[k], pattern.items[k]
        others = _directions(sums[u] - features[i], shortest)
        cells = np.arange(len(u))
        moments += np.asarray(csr_array((weights[k], (i, cells)), shape=(items, len(u))) @ others)
    return moments


def _sums(pattern: Pattern, features: Floats) -> Floats:
    return np.asarray(pattern.by_user(np.ones(len(pattern.users))) @ features)


def _shortest(features: Floats) -> float:
    return _ZERO * float(np.linalg.norm(features, axis=1).max())


def _directions(vectors: Floats, shortest: float) -> Floats:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        unit: Floats = np.where(length > shortest, vectors / length, 0.0)
    return unit


class Counts(NamedTuple):
    """Noisy counts of the items' users, length n, and the standard deviation of their noise."""

    noisy: Floats
    noise: float

    @property
    def believed(self) -> Floats:
        """Positive numbers in the same order: means given that no count is negative."""
        return positive_part(self.noisy, self.noise, least=1e-12)

    def with_also(self, noisy: Floats, noise: float) -> Counts:
        """Both answers, weighed by their precision."""
        old, new = self.noise**-2, noise**-2
        return Counts((old * self.noisy + new * noisy) / (old + new), (old + new) ** -0.5)


class Audiences(NamedTuple):
    """What the profiles of items' users tell.

    taste: items x d, how far the mean profile of an item's users lies from that of all (centre:
    d), the noise shrunk away, along the axes that stand out of it. doubt: d x d, what is left of
    it, over all users. spread: d x d, the covariance of profiles. faint, faint_doubt, prior: the
    same along all axes, and the covariance of taste: what to ask next. share: length n, of the
    counts.
    """

    taste: Floats
    doubt: Floats
    centre: Floats
    spread: Floats
    faint: Floats
    faint_doubt: Floats
    prior: Floats
    share: Floats

    @classmethod
    def of(
        cls,
        moments: Floats,
        noise: float,
        second: Floats,
        second_noise: float,
        believed: Floats,
        users: int,
    ) -> Audiences:
        """moments: items x d, noisy sums of profiles; noise: their standard deviation.

        second: (d + 1) x (d + 1), noisy sum of (u, 1)(u, 1)' over all users; second_noise: its
        standard deviation. What that noise explains of how far the spread is from that of profiles
        that lie anywhere is taken out (Ledoit, Wolf, "A well-conditioned estimator for
        large-dimensional covariance matrices", 2004, with the noise known). believed: the items'
        counts, whose weights are those of the moments. An item's mean profile is off by the noise
        and by which users it happens to have: N(t, (noise/N)^2 I + S w/N), w the mean weight of a
        cell. t ~ N(0, G) along the axes on which moments stand out of that noise, G by
        expectation-maximisation from those moments; elsewhere G would fit the noise.
        """
        d = moments.shape[1]
        symmetric = 0.5 * (second + second.T) / users
        mean = symmetric[:d, d]
        seen = symmetric[:d, :d] - np.outer(mean, mean)
        # Profiles have length 1: how much they spread is known, only along what is not.
        centred = 1 - max(float(mean @ mean) - 0.5 * d * (second_noise / users) ** 2, 0.0)
        level = max(centred, _LEAST) / d
        beyond = float(np.sum((seen - level * np.eye(d)) ** 2))
        chance = 0.5 * d * (d + 1) * (second_noise / users) ** 2  # halves of a symmetric matrix
        kept = max(0.0, beyond - chance) / max(beyond, float(np.finfo(float).tiny))
        values, vectors = np.linalg.eigh(kept * seen + (1 - kept) * level * np.eye(d))
        spread = (vectors * (np.clip(values, _LEAST / d, 1.0) + _RIDGE / d)) @ vectors.T
        share = believed / believed.sum()
        centre = moments.sum(axis=0) / believed.sum()
        apart = moments / believed[:, None] - centre
        off = (noise / believed)[:, None, None] ** 2 * np.eye(d)
        off += spread * (users / believed.sum() / believed)[:, None, None]
        precise = np.linalg.inv(off)
        sure = np.trace(precise, axis1=1, axis2=2) ** 2
        weight = sure / sure.sum()
        known = np.einsum("j,jab->ab", weight, off)
        values, axes = np.linalg.eigh((apart * weight[:, None]).T @ apart - known)
        values = np.maximum(values, _TINY / d)
        clear = values > _MARGIN * _edge(off, weight, known)
        faint, faint_doubts, prior = _posterior(apart, off, axes, values)
        taste, doubts, _ = _posterior(apart, off, axes[:, clear], values[clear])
        return cls(
            *(taste, np.einsum("j,jab->ab", share, doubts), centre, spread),
            *(faint, np.einsum("j,jab->ab", share, faint_doubts), prior, share),
        )

    @property
    def told(self) -> float:
        """How far taste moves the scores of an item's users, as far as that is known: log odds.

        The root of the mean over items of t' S^-1 t, times its share of that and doubt.
        """
        inverse = np.linalg.inv(self.spread)
        taste = float(np.sum(inverse * ((self.taste * self.share[:, None]).T @ self.taste)))
        seen = taste + float(np.sum(inverse * self.doubt)) + float(np.finfo(float).tiny)
        return math.sqrt(taste) * taste / seen

    def agreement(self, moments: Floats, believed: Floats) -> Floats:
        """(t . t', t . t) in S^-1 over all users, t' what another answer, moments, tells of taste.

        Its noise is independent of that in t, so that their ratio is 1 where t is as large as taste
        is, and less where t holds noise that was taken for taste.
        """
        other = moments / believed[:, None] - moments.sum(axis=0) / believed.sum()
        right = np.linalg.solve(self.spread, self.taste.T).T * self.share[:, None]
        return np.array([np.sum(right * other), np.sum(right * self.taste)])

    def scores(self, own: Floats, believed: Floats, trust: float = 1.0) -> Factors:
        """log N + (u - centre)' S^-1 t - t' S^-1 t / 2 as factors; own: users x d profiles.

        trust: how much of t is taste.
        """
        taste = trust * self.taste
        right = np.linalg.solve(self.spread, taste.T).T
        base = np.log(believed) - 0.5 * (taste * right).sum(axis=1)
        left = own - self.centre
        return Factors(np.hstack([np.ones((len(own), 1)), left]), np.hstack([base[:, None], right]))

    def features(self, believed: Floats) -> Floats:
        """Item features of the next round, items x d: taste along its axes.

        Over users, each axis has mean square 1 times the share of what is seen along it that is
        taste and not doubt.
        """
        _, axes = np.linalg.eigh(self.prior)
        found = self.faint @ axes
        square = believed @ found**2 / believed.sum()
        known = square + np.diag(axes.T @ self.faint_doubt @ axes)
        scaled: Floats = found / np.sqrt(np.maximum(known, np.finfo(float).tiny))
        return scaled


def _posterior(
    apart: Floats, off: Floats, axes: Floats, values: Floats
) -> tuple[Floats, Floats, Floats]:
    """Taste along some axes (d x r): its mean, n x d, and covariances, n x d x d, and its prior.

    apart ~ N(taste, off); values: r, the prior's variances where the sweeps start.
    """
    n, d = apart.shape
    if not axes.size:
        return np.zeros((n, d)), np.zeros((n, d, d)), np.zeros((d, d))
    prior = np.diag(values)
    precise = np.linalg.inv(axes.T @ off @ axes)
    told = np.einsum("jrs,js->jr", precise, apart @ axes)
    for _ in range(_SWEEPS):
        look()
        doubts = np.linalg.inv(np.linalg.inv(prior) + precise)
        taste = np.einsum("jrs,js->jr", doubts, told)
        prior = (taste.T @ taste + doubts.sum(axis=0)) / n
        prior += np.eye(len(prior)) * np.finfo(float).eps
    return taste @ axes.T, axes @ doubts @ axes.T, axes @ prior @ axes.T


def _edge(off: Floats, weight: Floats, known: Floats) -> float:
    """The largest eigenvalue that noise alone gives the weighted moments beyond what is known."""
    rng = np.random.default_rng(0)  # of draws that look at no data
    roots = np.linalg.cholesky(off)
    largest = 0.0
    for _ in range(_DRAWS):
        look()
        drawn = np.einsum("jab,jb->ja", roots, rng.normal(size=roots.shape[:2]))
        seen = (drawn * weight[:, None]).T @ drawn - known
        largest = max(largest, float(np.linalg.eigvalsh(seen)[-1]))
    return largest
