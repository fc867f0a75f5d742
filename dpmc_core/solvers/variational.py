"""User and item effects and low-rank taste by variational Bayes, from values whose noise is known.

    x_ui = a_u + b_i + p_u . q_i + e,   e ~ N(0, s2 / w_ui),   a, p_k, q_k normal about zero,
                                                                b about what items have in common

with a normal posterior for each user's (p_u, a_u) and each item's (q_i, b_i) and variances of the
priors estimated from the values themselves (Lim, Teh, "Variational Bayesian approach to movie
rating prediction", 2007; the pruning of directions: Nakajima, Sugiyama, "Theoretical analysis of
Bayesian matrix factorization", 2011). Where noise drowns a direction of taste it is not looked for,
or its variance shrinks by itself: no rank has to be chosen. No privacy here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpmc_core.solvers.linalg import Pattern, looking
from dpmc_core.stopping import look, waited

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]

_TASTE = 3.0  # variance of a user's taste at the start, in units of `pseudo`
_PSEUDO = 4  # rows that a variance of effects is believed to have been seen in beforehand
_EFFECTS_ALONE = 5  # rounds before taste is looked for
_FLIPS = 3  # draws of signs whose largest singular values taste has to pass
_MOST = 5.0  # times the common precision that one user's may reach
_SETTLED = 1e-3  # relative change of the effects and factors of users that ends the rounds
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class EffectsAndTaste:
    """Posterior means after a round. user: m; item: n; left: m x r; right: n x r; all in the
    values' unit. noise: s2, the mean over cells. taste: r, the prior variance of each direction's
    products. final: nothing follows."""

    user: Floats
    item: Floats
    left: Floats
    right: Floats
    noise: float
    taste: Floats
    final: bool

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
    users_differ: bool = False,
    rank: int = 8,
    rounds: int = 30,
    spread: float | tuple[float, float] = 0.02,
    pseudo: float = 0.01,
) -> Iterator[EffectsAndTaste]:
    """Rounds over users and items, each started at the one before; at most `rounds` of them.

    values: about zero, one per cell. weights: w; None: ones. noise: s2 where it is known; None: it
    is estimated, at least `least_noise`, and with `users_differ` for each user. spread: variance of
    effects at the start, or of users' and of items'. pseudo: the variance that their pseudo-counts
    speak for.
    """
    w = np.ones(len(values)) if weights is None else weights
    by_user = pattern.by_user(w), pattern.by_user(w * values)
    by_item = pattern.by_item(w), pattern.by_item(w * values)
    m, n = pattern.shape
    cells = np.diff(pattern.indptr).astype(float)
    squares = np.bincount(pattern.users, weights=w * values**2, minlength=m)
    least = max(least_noise, _TINY)
    s2 = noise if noise is not None else max(float(squares.sum()) / max(len(w), 1), least)
    of_users, of_items = spread if isinstance(spread, tuple) else (spread, spread)
    users = _Side.flat(m, of_users, pseudo, 1.0 / s2)
    items = _Side.flat(n, of_items, pseudo, 1.0)

    def round_() -> None:
        nonlocal s2
        missed = squares + users.update(*by_user, items)
        if noise is None:
            missed -= 2 * (by_user[1] @ items.mean[:, -1]) - by_user[0] @ items.second[:, -1, -1]
            s2 = max(float(missed.sum()) / max(len(w), 1), least)
            users.precision = _precisions(missed, cells, s2) if users_differ else np.full(m, 1 / s2)
        items.update(*by_item, users, centre=True)

    # Taste is looked for in what effects leave.
    for _ in range(_EFFECTS_ALONE):
        round_()
    rank = min(rank, m - 1, n - 1)
    if rank > 0:
        left = values - users.mean[pattern.users, -1] - items.mean[pattern.items, -1]
        users, items = _with_taste(
            pattern, w * s2 * users.precision[pattern.users], left, users, items, rank
        )
    for left_over in reversed(range(rounds)):
        before = users.mean
        round_()
        moved = float(np.linalg.norm(users.mean - before))
        final = not left_over or moved <= _SETTLED * float(np.linalg.norm(users.mean))
        yield EffectsAndTaste(
            users.mean[:, -1],
            items.mean[:, -1],
            users.mean[:, :-1],
            items.mean[:, :-1],
            s2,
            users.variance[:-1] * items.variance[:-1],
            final,
        )
        if final:
            return


def _precisions(missed: Floats, cells: Floats, s2: float) -> Floats:
    """1 / s2 of each user, from expected weighted sums of squares that the fit missed.

    Shrunk to the common s2 as the best linear estimate has it: by as many cells of its own as the
    spread of those sums over users, beyond what chance gives normal errors, leaves to believe
    (Buhlmann, "Experience rating and credibility", 1967).
    """
    beyond = float(((missed - cells * s2) ** 2 - 2 * cells * s2**2).sum())
    spread = max(beyond / max(float(cells @ cells), 1.0), _TINY * s2**2)
    prior = 2 * s2**2 / spread
    own = (np.maximum(missed, 0.0) + prior * s2) / (cells + prior)
    return np.minimum(1.0 / own, _MOST / s2)


class _Side:
    """Posterior of the rows of one side: factors, then the effect as the last coordinate.

    mean: k x (r + 1). second: k x (r + 1) x (r + 1), E[theta theta']. variance: of the prior, about
    zero, for effects about `centre`. precision: k; a cell's is the product of w and of both rows'.
    """

    def __init__(
        self,
        mean: Floats,
        second: Floats,
        variance: Floats,
        pseudo: float,
        precision: Floats,
        centre: float = 0.0,
    ) -> None:
        self.mean, self.second, self.variance, self.pseudo = mean, second, variance, pseudo
        self.precision, self.centre = precision, centre

    @classmethod
    def flat(cls, count: int, spread: float, pseudo: float, precision: float) -> _Side:
        """Effects alone, all zero."""
        each = np.full(count, precision)
        return cls(np.zeros((count, 1)), np.zeros((count, 1, 1)), np.full(1, spread), pseudo, each)

    def update(self, w: csr_array, wx: csr_array, other: _Side, *, centre: bool = False) -> Floats:
        """The posterior given the other side's, then the prior, its centre too where asked.

        Returns each row's sum of w (E[(theta . f)^2] - 2 E[theta . f (x - b)]), f and b the other
        side's factors and effects: what estimating s2 needs.
        """
        k, size = self.mean.shape
        upper = np.triu_indices(size)
        # f = (q, 1), E[f f'] from the other side's moments; E[f b].
        f = other.mean.copy()
        f[:, -1] = 1.0
        ff = other.second.copy()
        ff[:, -1, :] = ff[:, :, -1] = f
        fb = other.second[:, :, -1].copy()
        fb[:, -1] = other.mean[:, -1]
        known = other.precision[:, None]
        look()
        sums = np.asarray(w @ (known * np.hstack([ff[:, upper[0], upper[1]], fb])))
        data = np.empty((k, size, size))
        data[:, upper[0], upper[1]] = data[:, upper[1], upper[0]] = sums[:, :-size]
        moments = np.asarray(wx @ (known * f)) - sums[:, -size:]
        precision = data * self.precision[:, None, None]
        diagonal = np.arange(size)
        precision[:, diagonal, diagonal] += 1.0 / self.variance
        covariance = waited(np.linalg.inv, precision)
        look()
        wanted = moments * self.precision[:, None]
        wanted[:, -1] += self.centre / self.variance[-1]
        self.mean = np.einsum("kij,kj->ki", covariance, wanted)
        self.second = covariance + self.mean[:, :, None] * self.mean[:, None, :]
        total = np.einsum("kii->i", self.second)
        self.variance = np.maximum(total / max(k, 1), _TINY)
        effects = float(self.mean[:, -1].sum())
        if centre:
            self.centre = effects / (k + _PSEUDO)
        about = total[-1] - 2 * self.centre * effects + k * self.centre**2
        self.variance[-1] = (about + _PSEUDO * self.pseudo) / (k + _PSEUDO)
        missed: Floats = np.einsum("kij,kij->k", data, self.second)
        missed -= 2 * np.einsum("ki,ki->k", self.mean, moments)
        return missed

    def with_factors(self, factors: Floats, variance: float) -> _Side:
        """The same effects beside factors as they are at the start."""
        mean = np.hstack([factors, self.mean])
        second = mean[:, :, None] * mean[:, None, :]
        second[:, -1, -1] = self.second[:, -1, -1]
        return _Side(
            mean,
            second,
            np.append(np.full(factors.shape[1], variance), self.variance[-1]),
            self.pseudo,
            self.precision,
            self.centre,
        )


def _with_taste(
    pattern: Pattern, w: Floats, left: Floats, users: _Side, items: _Side, rank: int
) -> tuple[_Side, _Side]:
    """Both sides with factors that start at the leading directions of what the effects leave.

    Of them those that stand out of noise: whose singular value is beyond what the same residuals
    have with random signs (Hong, Sheng, Dobriban, "Selecting the number of components in PCA via
    random signflips", 2020). Others would only teach the engine its own noise.
    """
    from scipy.sparse.linalg import svds

    m, n = pattern.shape
    degrees = [
        np.bincount(index, weights=w, minlength=size)
        for index, size in ((pattern.users, m), (pattern.items, n))
    ]
    roots = [np.sqrt(degree + max(float(degree.mean()), _TINY)) for degree in degrees]
    scaled = w * left / (roots[0][pattern.users] * roots[1][pattern.items])
    if not scaled.any():
        return users, items
    rng = np.random.default_rng(0)  # where the search begins, and signs: no noise
    start = rng.normal(size=min(m, n))

    def leading(values: Floats, count: int) -> tuple[Floats, Floats, Floats]:
        u, sizes, vt = svds(looking(pattern.by_user(values)), k=count, v0=start)
        return u, np.asarray(sizes), vt

    flips = [rng.choice([-1.0, 1.0], len(scaled)) for _ in range(_FLIPS)]
    edge = max(float(leading(scaled * signs, 1)[1][0]) for signs in flips)
    u, sizes, vt = leading(scaled, rank)
    found = sizes > edge
    p, q = (u * sizes)[:, found] / roots[0][:, None], vt[found].T / roots[1][:, None]
    unit = np.sqrt(np.average(q**2, axis=0, weights=degrees[1] + _TINY)) + _TINY
    return (
        users.with_factors(p * unit, _TASTE * users.pseudo),
        items.with_factors(q / unit, 1.0),
    )
