"""Which items come next: items scored by other items, noisy counts, taste. No privacy here.

Item-to-item scores (neighbours; EASE: Steck, "Embarrassingly shallow autoencoders for sparse data",
2019) never hold more than a block of users' scores. A profile is where a user's row points among
public item features; sums of profiles, to which each user adds a bounded part, tell how an item's
audience differs from the others', and which features tell audiences apart next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmc_core.arrays import Floats, Ints, Sparse
from dpmc_core.model import Factors, Model
from dpmc_core.ratings import Ratings
from dpmc_core.solvers.linalg import Pattern, invert_upper_triangle
from dpmc_core.solvers.rows import gram, normalise_rows, posterior_positive_mean
from dpmc_core.stopping import check_cancelled

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
_LONGEST = 6.0  # of an item among facts that are uncorrelated and of variance 1
TELLING = (0.3, 0.15, 0.03)  # what facts are worth to users, see `facts_apart` and `telling`
_AVERAGE = 20.0  # items that every user is taken to have beside the own ones, average in all facts
_SAME = 1e-6  # of the largest variance: facts that others tell already


@dataclass(frozen=True, eq=False)
class ItemScores:
    """Scores from item-to-item weights: score(u, i) = sum over the user's items j of weights[j, i].

    Attributes:
        rows: shape (users, items), the users' own items.
        weights: shape (items, items), dense or sparse.
    """

    rows: Sparse
    weights: Any
    factors: ClassVar[None] = None

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        wanted, row = np.unique(np.asarray(users), return_inverse=True)
        where, which = np.broadcast_arrays(row.reshape(np.shape(users)), np.asarray(items))
        scores = np.empty(where.shape)
        size = max(1, BLOCK // self.rows.shape[1])
        for start in range(0, len(wanted), size):
            check_cancelled()
            block = self.rows[wanted[start : start + size]] @ self.weights
            inside = (where >= start) & (where < start + size)
            dense = block if isinstance(block, np.ndarray) else block.toarray()
            scores[inside] = dense[where[inside] - start, which[inside]]
        return scores


def ease_weights(ratings: Ratings, ridge: float) -> Floats:
    """Return the B of least ||X - X B||^2 + ridge ||B||^2 whose diagonal is zero (EASE).

    B = -P / diag(P) off the diagonal, P = (X'X + ridge I)^-1: column j predicts item j. Through the
    smaller side: ridge P = I - X'(XX' + ridge I)^-1 X.

    Args:
        ratings: X, the interactions.
        ridge: the weight of the ridge.

    Returns:
        Array of shape (items, items).
    """
    rows, by_users = ratings.matrix, ratings.public.users < ratings.public.items
    squares = (rows @ rows.T).toarray() if by_users else gram(rows)
    squares.flat[:: len(squares) + 1] += ridge
    check_cancelled()
    inverse = invert_upper_triangle(squares)  # the matrix is positive definite by its ridge
    weights = np.triu(inverse, 1)
    check_cancelled()
    weights += weights.T
    check_cancelled()
    if by_users:
        np.fill_diagonal(weights, inverse.diagonal())
        weights = rows.T @ np.ascontiguousarray((rows.T @ weights).T)
        weights /= 1.0 - weights.diagonal()
        np.fill_diagonal(weights, 0.0)
    else:
        weights /= -inverse.diagonal()
    return weights


@dataclass(frozen=True, eq=False)
class OnMostRated:
    """One model for some items, and another for the rest.

    Attributes:
        model: of the items that have a place.
        place: shape (items,), the index of each item in `model`; below 0: it has none.
        other: of the items without a place.
    """

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


def nearest(items: int, count: int, similarities: Callable[[Ints], Any]) -> Sparse:
    """Find the `count` most similar items of each item (ties: lower index first).

    Only items of positive similarity count.

    Args:
        items: the number of items.
        count: the number of neighbours.
        similarities: from the items of a block to their similarities with all items, shape
            (len(block), items), dense or sparse.

    Returns:
        Sparse array of shape (items, items).
    """
    from scipy.sparse import coo_array, csr_array

    parts = []
    size = max(1, BLOCK // items)
    for start in range(0, items, size):
        check_cancelled()
        found = coo_array(similarities(np.arange(start, min(start + size, items))))
        one, other = found.row.astype(np.int64) + start, found.col
        kept = (found.data > 0) & (one != other)  # an item is no neighbour of itself
        one, other, alike = one[kept], other[kept], found.data[kept]
        place = np.arange(len(one)) - np.searchsorted(one, one)
        order = np.lexsort((-alike, one))[place < count]  # which leaves ties in their order
        parts.append((one[order], other[order], alike[order]))
    one, other, alike = map(np.concatenate, zip(*parts, strict=True))
    return csr_array((alike, (one, other)), shape=(items, items))


def sharing(rows: Sparse, count: int, alike: Callable[[Floats, Floats, Floats], Floats]) -> Sparse:
    """Return `nearest` by how many users items have in common, of which most pairs have none.

    Args:
        rows: shape (users, items), ones.
        count: the number of neighbours.
        alike: the similarity of pairs, from the users of both items, of the first and of the
            second.
    """
    from scipy.sparse import coo_array

    columns = rows.T.tocsr()
    counts = np.diff(columns.indptr).astype(float)

    def similarities(block: Ints) -> Any:
        both = (columns[block] @ rows).sorted_indices().tocoo()
        found = alike(both.data, counts[block][both.row], counts[both.col])
        return coo_array((found, both.coords), shape=both.shape)

    return nearest(rows.shape[1], count, similarities)


def jaccard(both: Floats, one: Floats, other: Floats) -> Floats:
    """Return |A and B| / |A or B| of a block of pairs; 0 where an estimated union is not positive.

    Args:
        both: the users of both items; the three arrays broadcast to the shape of the pairs.
        one: the users of the first item.
        other: the users of the second item.
    """
    union = one + other - both
    return _ratio(np.minimum(both, union), union)


def cosine(both: Floats, one: Floats, other: Floats) -> Floats:
    """Return |A and B| / sqrt(|A| |B|); 0 where an estimated size is not positive.

    Args:
        both: the users of both items; the three arrays broadcast to the shape of the pairs.
        one: the users of the first item.
        other: the users of the second item.
    """
    return _ratio(both, np.sqrt(np.maximum(one, 0.0) * np.maximum(other, 0.0)))


def _ratio(above: Floats, below: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((below > 0) & (above > 0), above / below, 0.0)


class FlippedPairs:
    """What flipped bits tell about pairs of items.

    Attributes:
        bits: shape (users, items), 0 and 1, each flipped with probability `flip`.
        flip: the probability of a flip, below 1/2.
        users: the number of users.
        items: the number of items.
        sums: shape (items,), the ones that are reported.
    """

    def __init__(self, bits: ArrayLike, flip: float) -> None:
        self.bits, self.flip = np.asarray(bits, dtype=np.float32), flip
        self.users, self.items = self.bits.shape
        self.sums = self.bits.sum(axis=0, dtype=np.float64)

    def observed(self, block: Ints) -> Floats:
        """Count the users whose reports have both items of a pair.

        Args:
            block: shape (k,), item indices.

        Returns:
            Array of shape (k, items).
        """
        # Counts stay below 2^24, so single precision is exact.
        return (self.bits[:, block].T @ self.bits).astype(np.float64)

    @property
    def counts(self) -> Floats:
        """The unbiased estimate of each item's ones, shape (items,)."""
        found: Floats = (self.sums - self.users * self.flip) / (1 - 2 * self.flip)
        return found

    def both(self, block: Ints) -> Floats:
        """Return the unbiased estimate of the users who have both items of a pair.

        It inverts the 2x2 channel on either bit. The two items differ: an item with itself means
        nothing here.

        Args:
            block: shape (k,), item indices.

        Returns:
            Array of shape (k, items).
        """
        p = self.flip
        sums = self.sums[block][:, None] + self.sums
        estimate: Floats = self.observed(block) - p * sums + self.users * p * p
        return estimate / (1 - 2 * p) ** 2

    def likeliest(self, block: Ints, iterations: int) -> tuple[Floats, Floats, Floats]:
        """Return maximum-likelihood counts of the pairs of a block with all items.

        The shares of the four cells of a pair lie in the simplex. Where the unbiased estimate does,
        it is the maximum; elsewhere expectation-maximisation runs from its projection.

        Args:
            block: shape (k,), item indices.
            iterations: of expectation-maximisation.

        Returns:
            The users of both items, of the first and of the second, each of shape (k, items).
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
        inside, told = np.maximum(share[outside], 1e-3), seen[outside] / m
        inside /= inside.sum(axis=-1, keepdims=True)
        for _ in range(iterations):
            check_cancelled()
            inside = inside * ((told / (inside @ channel)) @ channel)
        share[outside] = inside
        both = m * share[..., 0]
        return both, both + m * share[..., 1], both + m * share[..., 2]


def profiles(pattern: Pattern, features: Floats) -> Floats:
    """Return each user's profile: the direction of the sum of the features of the own items.

    Args:
        pattern: the users' items.
        features: shape (items, d).

    Returns:
        Array of shape (users, d), unit rows; zeros for a user whose features cancel, or without
        items.
    """
    return normalise_rows(_sums(pattern, features), _shortest(features))


def uncorrelated(fact: Floats, counts: Floats) -> Floats:
    """Turn the columns of a fact so that over ratings each has mean 0 and variance 1, uncorrelated.

    What others of them tell already is 0.

    Args:
        fact: shape (items, c).
        counts: shape (items,), the ratings of each item.

    Returns:
        Array of shape (items, c).
    """
    share = counts / counts.sum()
    centred = fact - share @ fact
    values, axes = np.linalg.eigh(centred.T @ (centred * share[:, None]))
    least = max(_SAME * float(values.max(initial=0)), float(np.finfo(float).tiny))
    white = centred @ (axes * np.where(values > least, values, np.inf) ** -0.5)
    length = np.linalg.norm(white, axis=1, keepdims=True)
    found: Floats = white * np.minimum(1.0, _LONGEST / np.maximum(length, 1.0))
    return found


class OwnFacts(NamedTuple):
    """How the facts about a user's own items speak for other items.

    Attributes:
        right: shape (items, d), each fact's columns uncorrelated, of mean 0 and variance 1 over
            ratings.
        sums: shape (users, d), over the own items.
        counts: shape (users, 1), how many items a user has.
        groups: the columns of each fact.
    """

    right: Floats
    sums: Floats
    counts: Floats
    groups: tuple[slice, ...]

    @classmethod
    def of(
        cls, pattern: Pattern, facts: Sequence[Floats], believed: Floats, order: Ints | None = None
    ) -> OwnFacts:
        """Sum facts over each user's own items.

        Args:
            pattern: the users' items.
            facts: each of shape (items, c).
            believed: shape (items,), the items' counts.
            order: shape (items,), to shuffle the facts; None: as they are.
        """
        check_cancelled()
        dealt = [fact if order is None else fact[order] for fact in facts]
        parts = [uncorrelated(fact, believed) for fact in dealt]
        ends = np.cumsum([part.shape[1] for part in parts])
        groups = (slice(int(e) - p.shape[1], int(e)) for e, p in zip(ends, parts, strict=True))
        right = np.hstack([np.zeros((len(believed), 0)), *parts])
        counts = np.diff(pattern.indptr)[:, None].astype(float)
        return cls(right, _sums(pattern, right), counts, tuple(groups))

    def added(self, model: Factors, tells: Floats) -> Factors:
        """Return the model with what facts say added to its scores.

        It adds x_j . s / (k + 20): x_j an item's facts, times the square root of the chance that
        they tell, s their sum over the own k items.

        Args:
            model: scores in log odds.
            tells: shape (n_facts,), the chance that each fact tells something.
        """
        weight = np.ones(self.right.shape[1])
        for group, chance in zip(self.groups, tells, strict=True):
            weight[group] = math.sqrt(chance)
        left = np.hstack([model.left, self.sums * weight / (self.counts + _AVERAGE)])
        return Factors(left, np.hstack([model.right, self.right * weight]), model.user_arrays)

    def worth(self, pattern: Pattern) -> Floats:
        """Return how far the facts about the other items speak for each own one, on average.

        Returns:
            Array of shape (users, n_facts); 0 for a user without two items.
        """
        found = np.zeros((len(self.sums), len(self.groups)))
        users, mine = pattern.users, self.right[pattern.items]
        for column, group in enumerate(self.groups):
            x = mine[:, group]
            told = np.einsum("kd,kd->k", self.sums[users, group] - x, x)
            found[:, column] = np.bincount(users, told, len(self.sums))
        return found / np.maximum(self.counts * (self.counts - 1 + _AVERAGE), 1.0)


def facts_apart(ratings: Ratings, believed: Floats) -> Floats:
    """Sum over users how much more each fact tells than the same fact dealt to other items would.

    It is `OwnFacts.worth` less that after a shuffle, the same in every run, in [-1, 1] for each
    user.

    Args:
        ratings: the users' items.
        believed: shape (items,), the items' counts.

    Returns:
        Array of shape (n_facts,).
    """
    order = np.random.default_rng(0).permutation(len(believed))
    pattern, facts = Pattern.from_ratings(ratings), ratings.used_features
    found, chance = (OwnFacts.of(pattern, facts, believed, k).worth(pattern) for k in (None, order))
    told: Floats = np.clip(found - chance, -1.0, 1.0).sum(axis=0)
    return told


def cross_moments(pattern: Pattern, weights: Floats, features: Floats) -> Floats:
    """Sum over each item's users the weight times the user's profile without this item.

    The part of one user has Frobenius norm at most the l2 norm of that user's weights, because each
    profile has length 1 or 0.

    Args:
        pattern: the users' items.
        weights: shape (n_cells,).
        features: shape (items, d).

    Returns:
        Array of shape (items, d).
    """
    from scipy.sparse import csr_array

    sums, shortest = _sums(pattern, features), _shortest(features)
    items, d = features.shape
    moments = np.zeros((items, d))
    size = max(1, _GATHERED // max(1, d))
    for start in range(0, len(pattern.users), size):
        check_cancelled()
        k = slice(start, start + size)
        u, i = pattern.users[k], pattern.items[k]
        others = normalise_rows(sums[u] - features[i], shortest)
        cells = np.arange(len(u))
        moments += np.asarray(csr_array((weights[k], (i, cells)), shape=(items, len(u))) @ others)
    return moments


def _sums(pattern: Pattern, features: Floats) -> Floats:
    return pattern.build_matrix(np.ones(len(pattern.users))) @ features


def _shortest(features: Floats) -> float:
    return _ZERO * float(np.linalg.norm(features, axis=1).max())


class Counts(NamedTuple):
    """Noisy counts of the items' users.

    Attributes:
        noisy: shape (n,).
        noise: the standard deviation of their noise.
    """

    noisy: Floats
    noise: float

    @property
    def believed(self) -> Floats:
        """Positive counts in the same order, shape (n,): means given that no count is negative."""
        return posterior_positive_mean(self.noisy, self.noise, min_stds=1e-12)

    def with_also(self, noisy: Floats, noise: float) -> Counts:
        """Return both answers, weighed by their precision.

        Args:
            noisy: shape (n,), another answer.
            noise: the standard deviation of its noise.
        """
        old, new = self.noise**-2, noise**-2
        return Counts((old * self.noisy + new * noisy) / (old + new), (old + new) ** -0.5)


class Audiences(NamedTuple):
    """What the profiles of items' users tell.

    Attributes:
        taste: shape (n, d), how far the mean profile of an item's users lies from that of all, the
            noise shrunk away, along the axes that stand out of it.
        doubt: shape (d, d), the covariance that is left of it, over all users.
        centre: shape (d,), the mean profile of all.
        spread: shape (d, d), the covariance of profiles.
        faint: shape (n, d), as `taste` along all axes: what to ask next.
        faint_doubt: shape (d, d), as `doubt` along all axes.
        prior: shape (d, d), the covariance of taste along all axes.
        share: shape (n,), of the counts.
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
        """Estimate what profiles tell from noisy sums.

        What the noise explains of how far the spread is from that of profiles that lie anywhere is
        taken out (Ledoit, Wolf, "A well-conditioned estimator for large-dimensional covariance
        matrices", 2004, with the noise known). An item's mean profile is off by the noise and by
        which users it happens to have: N(t, (noise/N)^2 I + S w/N), w the mean weight of a cell. t
        ~ N(0, G) along the axes on which moments stand out of that noise, G by
        expectation-maximisation from those moments; elsewhere G would fit the noise.

        Args:
            moments: shape (n, d), noisy sums of profiles.
            noise: the standard deviation of the noise on `moments`.
            second: shape (d + 1, d + 1), the noisy sum of (u, 1)(u, 1)' over all users.
            second_noise: the standard deviation of the noise on `second`.
            believed: shape (n,), the items' counts, whose weights are those of the moments.
            users: the number of users.
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
        # Items whose counts differ by a thousandth are equally uncertain.
        logs, place = np.unique(np.round(np.log(believed), 3), return_inverse=True)
        each = np.exp(logs)[:, None, None]
        off = (noise / each) ** 2 * np.eye(d) + spread * (users / believed.sum() / each)
        precise = np.linalg.inv(off)
        sure = np.trace(precise, axis1=1, axis2=2)[place] ** 2
        weight = sure / sure.sum()
        known = np.einsum("l,lab->ab", np.bincount(place, weight), off)
        values, axes = np.linalg.eigh((apart * weight[:, None]).T @ apart - known)
        values = np.maximum(values, _TINY / d)
        clear = values > _MARGIN * _edge(off, place, weight, known)
        faint, doubts, prior = _posterior(apart, off, place, axes, values)
        faint_doubt = np.einsum("l,lab->ab", np.bincount(place, share), doubts)
        taste, doubt = faint, faint_doubt
        if not clear.all():
            taste, doubts, _ = _posterior(apart, off, place, axes[:, clear], values[clear])
            doubt = np.einsum("l,lab->ab", np.bincount(place, share), doubts)
        return cls(taste, doubt, centre, spread, faint, faint_doubt, prior, share)

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
        """Return (t . t', t . t) in S^-1 over all users, t' from another answer about taste.

        Its noise is independent of that in t, so that their ratio is 1 where t is as large as taste
        is, and less where t holds noise that was taken for taste.

        Args:
            moments: shape (n, d), the other answer.
            believed: shape (n,), the items' counts.

        Returns:
            Array of shape (2,).
        """
        other = moments / believed[:, None] - moments.sum(axis=0) / believed.sum()
        right = np.linalg.solve(self.spread, self.taste.T).T * self.share[:, None]
        return np.array([np.sum(right * other), np.sum(right * self.taste)])

    def scores(self, own: Floats, believed: Floats, trust: float = 1.0) -> Factors:
        """Return log N + (u - centre)' S^-1 t - t' S^-1 t / 2 as factors.

        Args:
            own: u, shape (users, d), the users' profiles.
            believed: N, shape (n,), the items' counts.
            trust: how much of t is taste.
        """
        taste = trust * self.taste
        right = np.linalg.solve(self.spread, taste.T).T
        base = np.log(believed) - 0.5 * (taste * right).sum(axis=1)
        left = own - self.centre
        return Factors(np.hstack([np.ones((len(own), 1)), left]), np.hstack([base[:, None], right]))

    def features(self, believed: Floats) -> Floats:
        """Return item features of the next round: taste along its axes.

        Over users, each axis has mean square 1 times the share of what is seen along it that is
        taste and not doubt.

        Args:
            believed: shape (n,), the items' counts.

        Returns:
            Array of shape (n, d).
        """
        _, axes = np.linalg.eigh(self.prior)
        found = self.faint @ axes
        square = believed @ found**2 / believed.sum()
        known = square + np.diag(axes.T @ self.faint_doubt @ axes)
        found /= np.sqrt(np.maximum(known, np.finfo(float).tiny))
        return np.asarray(found)


def _posterior(
    apart: Floats, off: Floats, place: Ints, axes: Floats, values: Floats
) -> tuple[Floats, Floats, Floats]:
    """Taste along some axes (d x r): its mean, n x d, and covariances by level, and its prior.

    apart ~ N(taste, off[place]), off: levels x d x d; values: r, the prior's variances where the
    sweeps start.
    """
    n, d = apart.shape
    if not axes.size:
        return np.zeros((n, d)), np.zeros_like(off), np.zeros((d, d))
    prior, many = np.diag(values), np.bincount(place)
    precise = np.linalg.inv(axes.T @ off @ axes)
    told = np.einsum("jrs,js->jr", precise[place], apart @ axes)
    for _ in range(_SWEEPS):
        check_cancelled()
        doubts = np.linalg.inv(np.linalg.inv(prior) + precise)
        taste = np.einsum("jrs,js->jr", doubts[place], told)
        prior = (taste.T @ taste + np.einsum("l,lrs->rs", many, doubts)) / n
        prior += np.eye(len(prior)) * np.finfo(float).eps
    return taste @ axes.T, axes @ doubts @ axes.T, axes @ prior @ axes.T


def _edge(off: Floats, place: Ints, weight: Floats, known: Floats) -> float:
    """The largest eigenvalue that noise alone gives the weighted moments beyond what is known."""
    rng = np.random.default_rng(0)  # of draws that look at no data
    roots = np.linalg.cholesky(off)[place]
    largest = 0.0
    for _ in range(_DRAWS):
        check_cancelled()
        drawn = np.einsum("jab,jb->ja", roots, rng.normal(size=roots.shape[:2]))
        seen = (drawn * weight[:, None]).T @ drawn - known
        largest = max(largest, float(np.linalg.eigvalsh(seen)[-1]))
    return largest


# --- rankings from flipped bits: what stands clear of the known noise in their spectrum -----------
#
# The reports are held as bytes and read a block of users at a time, so that nothing of size users x
# items is ever held as floats.

_CELLS = 4_000_000  # cells of reports held in single precision at once: 16 MB
_BYTE = 255  # the largest number in a byte
_DIRECTIONS = 40  # directions kept at most
_WIDTH, _DEPTH = 48, 6  # of the block Krylov space that finds them
_CLEAR = 1.01  # how far above the edge of the noise a direction stands, which itself wobbles


class FlippedBits(NamedTuple):
    """What the server has: bits of users x items, each flipped with a known probability.

    Attributes:
        packed: shape (users, ceil(items / 8)), eight bits to a byte.
        items: the number of items.
        flip: the probability of a flip, below 1/2.
    """

    packed: NDArray[np.uint8]
    items: int
    flip: float

    @property
    def users(self) -> int:
        """The number of users."""
        return len(self.packed)

    @property
    def seen(self) -> Floats:
        """The share of users whose reports have each item, shape (n,)."""
        sums = np.zeros(self.items)
        for _, part in self._blocks(np.uint8):
            for start in range(0, len(part), _BYTE):  # whose sums fit in a byte
                sums += part[start : start + _BYTE].sum(axis=0, dtype=np.uint8)
        return sums / self.users

    def whole(self) -> NDArray[np.float32]:
        """Return all reports as numbers, shape (users, items)."""
        return self._part(slice(None)).astype(np.float32)

    def _part(self, rows: slice) -> NDArray[np.uint8]:
        return np.unpackbits(self.packed[rows], axis=1, count=self.items)

    @property
    def gain(self) -> float:
        """How much of a bit is left in the mean of its report: 1 - 2 flip, or a rounding of it."""
        return max(1 - 2 * self.flip, 1e-12)

    @property
    def shares(self) -> Floats:
        """The unbiased share of users with each item, shape (n,), which may be negative."""
        found: Floats = (self.seen - self.flip) / self.gain
        return found

    @property
    def variance(self) -> float:
        """What the flips add to the variance of every cell of `times`: f (1 - f) / (1 - 2f)^2."""
        return self.flip * (1 - self.flip) / self.gain**2

    def activity(self, usual: float) -> float:
        """Estimate the mean squared number of a user's items over the usual one; at least 1."""
        lengths = self.times(np.ones((self.items, 1)))
        square = float(np.mean(lengths**2)) - self.items * self.variance
        return float(np.clip(square / usual**2, 1.0, self.users))

    def times(self, block: Floats) -> Floats:
        """Return H @ block for the unbiased estimate H = (bits - flip) / gain of the true rows.

        Args:
            block: shape (items, b).

        Returns:
            Array of shape (users, b).
        """
        out = np.empty((self.users, block.shape[1]))
        single = block.astype(np.float32)
        for rows, part in self._blocks():
            out[rows] = part @ single
        found: Floats = (out - self.flip * block.sum(axis=0)) / self.gain
        return found

    def transposed(self, block: Floats) -> Floats:
        """Return H' @ block for the unbiased estimate H of the true rows.

        Args:
            block: shape (users, b).

        Returns:
            Array of shape (items, b).
        """
        out = np.zeros((self.items, block.shape[1]))
        single = block.astype(np.float32)
        for rows, part in self._blocks():
            out += part.T @ single[rows]
        found: Floats = (out - self.flip * block.sum(axis=0)) / self.gain
        return found

    def _blocks(self, kind: type = np.float32) -> Iterator[tuple[slice, NDArray[Any]]]:
        step = max(1, _CELLS // self.items)
        for start in range(0, self.users, step):
            check_cancelled()
            rows = slice(start, start + step)
            yield rows, self._part(rows).astype(kind, copy=False)


class ClickTaste(NamedTuple):
    """What the server tells everybody, from reports alone.

    Attributes:
        shares: shape (n,), the debiased popularity.
        expected: shape (n,), the same held within 0..1.
        loadings: shape (n, r), how the chances of a usual user move with r independent tastes of
            variance 1.
        noise: the variance of an item that a user has or not, weighed by popularity.
    """

    shares: Floats
    expected: Floats
    loadings: Floats
    noise: float

    @classmethod
    def of(cls, reports: FlippedBits, facts: Sequence[Floats] = ()) -> ClickTaste:
        """Find the directions of the reports that clear the noise, beside their common popularity.

        How many items a user has moves all items in step with their popularity. That direction is
        the strongest and says nothing about which items, so it is taken out first. In the rest the
        noise of a column is v + p (1 - p); a direction of population variance alpha then shows as
        the eigenvalue psi(alpha) of H'H / m (see `_Edge`), and what it owes to the noise is known.

        Args:
            reports: the flipped bits.
            facts: what is publicly known of the items, each of shape (items, c): further
                directions.
        """
        users = reports.users
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
        taken = np.column_stack([common, loadings])
        found = [_told(reports, fact, expected, taken, v + each) for fact in facts]
        return cls(shares, expected, np.hstack([loadings, *found]), noise)

    def scores(self, rows: Sparse) -> Factors:
        """Return each user's ranking from the own true row, as factors.

        A user with a times as many items as expected has each with chance a (p + loadings z), z the
        own tastes; given the row, z is Gaussian with noise a d.

        Args:
            rows: shape (users, items), ones.
        """
        lengths = np.diff(rows.indptr).astype(float)
        activity = np.maximum(lengths, 0.5) / self.expected.sum()
        own = (rows @ self.loadings) - np.outer(activity, self.expected @ self.loadings)
        values, basis = np.linalg.eigh(self.loadings.T @ self.loadings / self.noise)
        along = (own / self.noise) @ basis
        tastes = (along / (1 / activity[:, None] + values)) @ basis.T
        left = np.hstack([activity[:, None], tastes])
        return Factors(left, np.hstack([self.shares[:, None], self.loadings]))


def _told(
    reports: FlippedBits, fact: Floats, expected: Floats, taken: Floats, variances: Floats
) -> Floats:
    """Loadings of a fact, items x c: expected x fact, of the spread that reports show along it.

    taken: directions that are known already. variances: of the noise in each item's reports. Their
    mean square over users less the noise estimates the spread; less one standard error of the
    noise, so that a fact that tells nothing comes out as nothing.
    """
    basis = np.linalg.qr(taken)[0]
    along = expected[:, None] * uncorrelated(fact, expected)
    along -= basis @ (basis.T @ along)
    length = np.maximum((along**2).sum(axis=0), np.finfo(float).tiny)
    noise = variances @ along**2 / length
    seen = (reports.times(along) ** 2).mean(axis=0) / length
    doubt = math.sqrt(2 * float((noise**2 / length**2).sum()) / reports.users) / len(length)
    spread = float(((seen - noise) / length).mean()) - doubt
    return math.sqrt(max(spread, 0.0)) * along


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
        """Return the eigenvalue at which a direction of population variance alpha shows."""
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
    users, items = reports.users, reports.items
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
    keep = min(_DIRECTIONS, len(squares), users)
    return squares[::-1][:keep], (basis @ rotation)[:, ::-1][:, :keep]
