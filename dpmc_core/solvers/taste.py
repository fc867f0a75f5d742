"""Popularity and taste from clicks under noise: what users add up to, and what items learn from it.

A profile is where a user's row points among public item features. The first half is sums over users
to which each adds a bounded part; the second reads the noisy sums: how many users an item has, how
its audience differs from the others', and which features tell audiences apart next.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core.model import Factors
from dpmc_core.solvers.linalg import Pattern

Floats = NDArray[np.float64]

_BLOCK = 4_000_000  # numbers gathered at once: 32 MB
_ZERO = 1e-9  # a sum this much shorter than its terms is rounding
_SWEEPS = 30  # of expectation-maximisation
_LEAST = 0.02  # smallest variance of profiles, in that of d directions alike
_TINY = 1e-4  # smallest variance of taste at the start, likewise
_RIDGE = 0.1


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
        from scipy.special import log_ndtr

        z = self.noisy / self.noise
        mills = np.exp(-0.5 * z**2 - 0.5 * math.log(2 * math.pi) - log_ndtr(z))
        believed: Floats = np.maximum(self.noisy + self.noise * mills, 1e-12 * self.noise)
        return believed

    def with_also(self, noisy: Floats, noise: float) -> Counts:
        """Both answers, weighed by their precision."""
        old, new = self.noise**-2, noise**-2
        return Counts((old * self.noisy + new * noisy) / (old + new), (old + new) ** -0.5)


class Audiences(NamedTuple):
    """What the profiles of items' users tell.

    taste: items x d, how far the mean profile of an item's users lies from that of all (centre:
    d), the noise shrunk away. doubt: d x d, what is left of it, over all users. spread: d x d, the
    covariance of profiles; prior: d x d, that of taste. share: length n, of the counts.
    """

    taste: Floats
    doubt: Floats
    centre: Floats
    spread: Floats
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
        cell. t ~ N(0, G), G by expectation-maximisation from its moments: where nothing is heard it
        starts next to nothing, which it would reach in very many sweeps only.
        """
        d = moments.shape[1]
        symmetric = 0.5 * (second + second.T) / users
        mean = symmetric[:d, d]
        seen = symmetric[:d, :d] - np.outer(mean, mean)
        level = min(max(float(np.trace(seen)) / d, _LEAST / d), 1 / d)
        beyond = float(np.sum((seen - level * np.eye(d)) ** 2))
        chance = 0.5 * d * (d + 1) * (second_noise / users) ** 2  # halves of a symmetric matrix
        known = max(0.0, 1.0 - chance / max(beyond, chance))
        values, vectors = np.linalg.eigh(known * seen + (1 - known) * level * np.eye(d))
        spread = (vectors * (np.clip(values, _LEAST / d, 1.0) + _RIDGE / d)) @ vectors.T
        share = believed / believed.sum()
        centre = moments.sum(axis=0) / believed.sum()
        apart = moments / believed[:, None] - centre
        off = (noise / believed)[:, None, None] ** 2 * np.eye(d)
        off += spread * (users / believed.sum() / believed)[:, None, None]
        precise = np.linalg.inv(off)
        sure = np.trace(precise, axis1=1, axis2=2) ** 2
        seen = (apart * (sure / sure.sum())[:, None]).T @ apart
        values, vectors = np.linalg.eigh(seen - np.einsum("j,jab->ab", sure / sure.sum(), off))
        prior = (vectors * np.maximum(values, _TINY / d)) @ vectors.T
        told = np.einsum("jab,jb->ja", precise, apart)
        for _ in range(_SWEEPS):
            doubts = np.linalg.inv(np.linalg.inv(prior) + precise)
            taste = np.einsum("jab,jb->ja", doubts, told)
            prior = (taste.T @ taste + doubts.sum(axis=0)) / len(taste)
            prior += np.eye(d) * np.finfo(float).eps
        return cls(taste, np.einsum("j,jab->ab", share, doubts), centre, spread, prior, share)

    @property
    def told(self) -> float:
        """How far taste moves the scores of an item's users, as far as that is known: log odds.

        The root of the mean over items of t' S^-1 t, times its share of that and doubt.
        """
        inverse = np.linalg.inv(self.spread)
        taste = float(np.sum(inverse * ((self.taste * self.share[:, None]).T @ self.taste)))
        seen = taste + float(np.sum(inverse * self.doubt)) + float(np.finfo(float).tiny)
        return math.sqrt(taste) * taste / seen

    def scores(self, own: Floats, believed: Floats) -> Factors:
        """log N + (u - centre)' S^-1 t - t' S^-1 t / 2 as factors; own: users x d profiles."""
        right = np.linalg.solve(self.spread, self.taste.T).T
        base = np.log(believed) - 0.5 * (self.taste * right).sum(axis=1)
        left = own - self.centre
        return Factors(np.hstack([np.ones((len(own), 1)), left]), np.hstack([base[:, None], right]))

    def features(self, believed: Floats) -> Floats:
        """Item features of the next round, items x d: taste along its axes.

        Over users, each axis has mean square 1 times the share of what is seen along it that is
        taste and not doubt.
        """
        _, axes = np.linalg.eigh(self.prior)
        found = self.taste @ axes
        square = believed @ found**2 / believed.sum()
        known = square + np.diag(axes.T @ self.doubt @ axes)
        scaled: Floats = found / np.sqrt(np.maximum(known, np.finfo(float).tiny))
        return scaled
