"""User and item effects and low-rank taste by variational Bayes, from values whose noise is known.

    x_ui = a_u + b_i + p_u . q_i + e,   e ~ N(0, s2 / w_ui),   a, b, p_k, q_k normal about zero

with a normal posterior for each user's (p_u, a_u) and each item's (q_i, b_i) and variances of the
priors estimated from the values themselves (Lim, Teh, "Variational Bayesian approach to movie
rating prediction", 2007; the pruning of directions: Nakajima, Sugiyama, "Theoretical analysis of
Bayesian matrix factorization", 2011). Where noise drowns a direction of taste, its variance goes to
zero by itself: no rank has to be chosen. No privacy here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpmc_core.solvers.linalg import Pattern

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]

_USER_TASTE = 0.03  # variance of a user's taste at the start, in squares of the values' own scale
_PSEUDO = 4  # rows that a variance of effects is believed to have been seen in beforehand
_SETTLED = 1e-3  # relative change of the effects and factors of users that ends the rounds


@dataclass(frozen=True, eq=False)
class EffectsAndTaste:
    """Posterior means after a round. user: m; item: n; left: m x r; right: n x r; all in the
    values' unit. noise: s2. taste: r, the prior variance of each direction's products."""

    user: Floats
    item: Floats
    left: Floats
    right: Floats
    noise: float
    taste: Floats

    def predict(self, pattern: Pattern) -> Floats:
        """The values expected on the cells of a pattern."""
        fitted = self.user[pattern.users] + self.item[pattern.items]
        return fitted + pattern.sample(self.left, self.right) if self.left.size else fitted


def effects_and_taste(
    pattern: Pattern,
    values: Floats,
    *,
    weights: Floats | None = None,
    noise: float | None = None,
    least_noise: float = 0.0,
    rank: int = 8,
    rounds: int = 30,
    spread: float | tuple[float, float] = 0.02,
    pseudo: float = 0.01,
) -> Iterator[EffectsAndTaste]:
    """Rounds over users and items, each started at the one before; at most `rounds` of them.

    values: about zero, one per cell. weights: w; None: ones. noise: s2 where it is known; None: it
    is estimated, at least `least_noise`. spread: variance of effects at the start, or of
    users' and items'. pseudo: the variance that their pseudo-counts speak for.
    """
    w = np.ones(len(values)) if weights is None else weights
    by_user = pattern.by_user(w), pattern.by_user(w * values)
    by_item = pattern.by_item(w), pattern.by_item(w * values)
    squares = float(w @ values**2)
    s2 = noise if noise is not None else max(squares / max(float(len(w)), 1.0), least_noise, 1e-12)
    m, n = pattern.shape
    of_users, of_items = spread if isinstance(spread, tuple) else (spread, spread)
    users = _Side.flat(m, 0, of_users, pseudo)
    items = _Side.flat(n, 0, of_items, pseudo)
    # Effects alone first: taste is looked for in what they leave.
    for _ in range(3):
        items.update(*by_item, users, s2)
        users.update(*by_user, items, s2)
    rank = min(rank, m - 1, n - 1)
    if rank > 0:
        left = values - users.mean[pattern.users, -1] - items.mean[pattern.items, -1]
        if noise is None:
            s2 = max(float(w @ left**2) / len(w), least_noise, 1e-12)
        users, items = _with_taste(pattern, w, left, users, items, rank)
    for _ in range(rounds):
        before = users.mean
        loss = users.update(*by_user, items, s2)
        if noise is None:
            seen = squares - 2 * float((by_item[1].sum(axis=1) * items.mean[:, -1]).sum())
            seen += float((by_item[0].sum(axis=1) * items.second[:, -1, -1]).sum())
            s2 = max((seen + loss) / max(len(w), 1), least_noise, 1e-12)
        items.update(*by_item, users, s2)
        yield EffectsAndTaste(
            users.mean[:, -1],
            items.mean[:, -1],
            users.mean[:, :-1],
            items.mean[:, :-1],
            s2,
            users.variance[:-1] * items.variance[:-1],
        )
        moved = float(np.linalg.norm(users.mean - before))
        if moved <= _SETTLED * float(np.linalg.norm(users.mean)):
            return


class _Side:
    """Posterior of the rows of one side: factors, then the effect as the last coordinate.

    mean: k x (r + 1). second: k x (r + 1) x (r + 1), E[theta theta']. variance: of the prior.
    """

    def __init__(self, mean: Floats, second: Floats, variance: Floats, pseudo: float) -> None:
        self.mean, self.second, self.variance, self.pseudo = mean, second, variance, pseudo

    @classmethod
    def flat(cls, count: int, rank: int, spread: float, pseudo: float) -> _Side:
        size = rank + 1
        return cls(
            np.zeros((count, size)), np.zeros((count, size, size)), np.full(size, spread), pseudo
        )

    def update(self, w: csr_array, wx: csr_array, other: _Side, s2: float) -> float:
        """The posterior given the other side's, then the variances of the prior.

        Returns sum w (E[(theta . f)^2] - 2 E[theta . f] (x - b)): what estimating s2 needs.
        """
        size = self.mean.shape[1]
        upper = np.triu_indices(size)
        # f = (q, 1), E[f f'] from the other side's moments; E[f b], b the other side's effect.
        f = other.mean.copy()
        f[:, -1] = 1.0
        ff = other.second.copy()
        ff[:, -1, :] = ff[:, :, -1] = f
        fb = other.second[:, :, -1].copy()
        fb[:, -1] = other.mean[:, -1]
        sums = np.asarray(w @ np.hstack([ff[:, upper[0], upper[1]], fb]))
        precision = np.empty((len(self.mean), size, size))
        precision[:, upper[0], upper[1]] = precision[:, upper[1], upper[0]] = sums[:, :-size]
        moments = np.asarray(wx @ f) - sums[:, -size:]
        data = precision.copy()
        precision /= s2
        diagonal = np.arange(size)
        precision[:, diagonal, diagonal] += 1.0 / self.variance
        covariance = np.linalg.inv(precision)
        self.mean = np.einsum("kij,kj->ki", covariance, moments) / s2
        self.second = covariance + self.mean[:, :, None] * self.mean[:, None, :]
        total = np.einsum("kii->i", self.second)
        self.variance = np.maximum(total / max(len(self.mean), 1), 1e-12)
        self.variance[-1] = (total[-1] + _PSEUDO * self.pseudo) / (len(self.mean) + _PSEUDO)
        return float((data * self.second).sum()) - 2 * float((self.mean * moments).sum())


def _with_taste(
    pattern: Pattern, w: Floats, left: Floats, users: _Side, items: _Side, rank: int
) -> tuple[_Side, _Side]:
    """Both sides with factors that start at the leading directions of what the effects leave.

    Of them those that stand out of noise: whose singular value is above the largest that the same
    residuals have with random signs (Hong, Sheng, Dobriban, "Selecting the number of components in
    PCA via random signflips", 2020). Others would only teach the engine its own noise.
    """
    from scipy.sparse.linalg import svds

    m, n = pattern.shape
    degrees = [
        np.bincount(index, weights=w, minlength=size)
        for index, size in ((pattern.users, m), (pattern.items, n))
    ]
    roots = [np.sqrt(degree + max(float(degree.mean()), 1e-12)) for degree in degrees]
    scaled = w * left / (roots[0][pattern.users] * roots[1][pattern.items])
    if not scaled.any():
        return users, items
    rng = np.random.default_rng(0)  # where the search begins, and signs: no noise
    start = rng.normal(size=min(m, n))
    signs = 2.0 * rng.integers(0, 2, len(scaled)) - 1.0
    edge = svds(pattern.by_user(scaled * signs), k=1, v0=start, return_singular_vectors=False)
    u, values, vt = svds(pattern.by_user(scaled), k=rank, v0=start)
    found = values > edge
    u, values, vt = u[:, found], values[found], vt[found]
    p, q = u * values / roots[0][:, None], vt.T / roots[1][:, None]
    size = np.sqrt(np.average(q**2, axis=0, weights=degrees[1] + 1e-12))
    size = np.maximum(size, 1e-12)
    p, q = p * size, q / size
    return (
        _grown(users, p, np.full(found.sum(), _USER_TASTE * users.pseudo / 0.01)),
        _grown(items, q, np.ones(found.sum())),
    )


def _grown(side: _Side, factors: Floats, variance: Floats) -> _Side:
    mean = np.hstack([factors, side.mean])
    second = mean[:, :, None] * mean[:, None, :]
    second[:, -1, -1] = side.second[:, -1, -1]
    return _Side(mean, second, np.append(variance, side.variance[-1]), side.pseudo)
