"""What reports of known noise tell, once it is allowed for: effects and taste, signs, whole rows.

`effects_and_taste` is the engine of all three. No privacy here: reports are what was published, and
their law is public.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core.arrays import Floats, Sparse
from dpmc_core.model import Factors, Step, Steps
from dpmc_core.ratings import PublicFacts
from dpmc_core.solvers.linalg import Pattern, cancellable_operator
from dpmc_core.solvers.one_bit import SignReports
from dpmc_core.solvers.rows import (
    factors_with_offsets,
    item_sums,
    row_sums,
    truncated_normal_moments,
)
from dpmc_core.stopping import call_cancellable, check_cancelled

_TINY = 1e-12


# --- the engine -----------------------------------------------------------------------------
#
# User and item effects and low-rank taste by variational Bayes, from values whose noise is known.
#
#     x_ui = a_u + b_i + p_u . q_i + e,   e ~ N(0, s2 / w_ui),   a, p_k, q_k normal about zero,
#                                                                 b about what items have in common
#
# with a normal posterior for each user's (p_u, a_u) and each item's (q_i, b_i) and variances of
# the priors estimated from the values themselves (Lim, Teh, "Variational Bayesian approach to
# movie rating prediction", 2007; the pruning of directions: Nakajima, Sugiyama, "Theoretical
# analysis of Bayesian matrix factorization", 2011). Where noise drowns a direction of taste it is
# not looked for, or its variance shrinks by itself: no rank has to be chosen.

_TASTE = 3.0  # variance of a user's taste at the start, in units of `pseudo`
_PSEUDO = 4  # rows that a variance of effects is believed to have been seen in beforehand
_EFFECTS_ALONE = 5  # rounds before taste is looked for
_FLIPS = 3  # draws of signs whose largest singular values taste has to pass
_MOST = 5.0  # times the common precision that one user's may reach
_SETTLED = 1e-3  # relative change of the effects and factors of users that ends the rounds


class EffectsAndTaste(NamedTuple):
    """Posterior means after a round, all in the unit of the values.

    Attributes:
        user: shape (m,), the effects of users.
        item: shape (n,), the effects of items.
        left: shape (m, r).
        right: shape (n, r).
        noise: s2, the mean over cells.
        taste: shape (r,), the prior variance of each direction's products.
        final: whether nothing follows.
    """

    user: Floats
    item: Floats
    left: Floats
    right: Floats
    noise: float
    taste: Floats
    final: bool

    def predict(self, pattern: Pattern) -> Floats:
        """Return the expected values of the cells of a pattern, shape (n_cells,)."""
        fitted = self.user[pattern.users] + self.item[pattern.items]
        return fitted + pattern.sample_product(self.left, self.right) if self.left.size else fitted


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
    spread: tuple[float, float] = (0.02, 0.02),
    pseudo: float = 0.01,
) -> Iterator[EffectsAndTaste]:
    """Yield rounds over users and items, each started at the one before.

    Args:
        pattern: the observed cells.
        values: x, shape (n_cells,), about zero.
        weights: w, shape (n_cells,); None: ones.
        noise: s2 where it is known; None: it is estimated.
        least_noise: the smallest estimate of s2.
        users_differ: whether s2 is estimated for each user.
        rank: the largest number of directions of taste.
        rounds: the largest number of rounds.
        spread: the variances of users' and of items' effects at the start.
        pseudo: the variance that their pseudo-counts speak for.
    """
    w = np.ones(len(values)) if weights is None else weights
    by_user = pattern.build_matrix(w), pattern.build_matrix(w * values)
    by_item = pattern.build_transpose(w), pattern.build_transpose(w * values)
    m, n = pattern.shape
    cells = np.diff(pattern.indptr).astype(float)
    squares = np.bincount(pattern.users, weights=w * values**2, minlength=m)
    least = max(least_noise, _TINY)
    s2 = noise if noise is not None else max(float(squares.sum()) / max(len(w), 1), least)
    users = _Side.flat(m, spread[0], pseudo, 1.0 / s2)
    items = _Side.flat(n, spread[1], pseudo, 1.0)

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
        left, right, taste = users.mean, items.mean, users.variance[:-1] * items.variance[:-1]
        found = left[:, -1], right[:, -1], left[:, :-1], right[:, :-1]
        yield EffectsAndTaste(*found, s2, taste, final)
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


@dataclass(eq=False)
class _Side:
    """Posterior of the rows of one side: factors, then the effect as the last coordinate.

    mean: k x (r + 1). second: k x (r + 1) x (r + 1), E[theta theta']. variance: of the prior, about
    zero, for effects about `centre`. precision: k; a cell's is the product of w and of both rows'.
    """

    mean: Floats
    second: Floats
    variance: Floats
    pseudo: float
    precision: Floats
    centre: float = 0.0

    @classmethod
    def flat(cls, count: int, spread: float, pseudo: float, precision: float) -> _Side:
        """Effects alone, all zero."""
        each = np.full(count, precision)
        return cls(np.zeros((count, 1)), np.zeros((count, 1, 1)), np.full(1, spread), pseudo, each)

    def update(self, w: Sparse, wx: Sparse, other: _Side, *, centre: bool = False) -> Floats:
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
        check_cancelled()
        sums = np.asarray(w @ (known * np.hstack([ff[:, upper[0], upper[1]], fb])))
        data = np.empty((k, size, size))
        data[:, upper[0], upper[1]] = data[:, upper[1], upper[0]] = sums[:, :-size]
        moments = np.asarray(wx @ (known * f)) - sums[:, -size:]
        precision = data * self.precision[:, None, None]
        diagonal = np.arange(size)
        precision[:, diagonal, diagonal] += 1.0 / self.variance
        covariance = call_cancellable(np.linalg.inv, precision)
        check_cancelled()
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
        """Return the same effects beside factors as they are at the start.

        Args:
            factors: shape (k, r).
            variance: the prior variance of a factor.
        """
        mean = np.hstack([factors, self.mean])
        second = mean[:, :, None] * mean[:, None, :]
        second[:, -1, -1] = self.second[:, -1, -1]
        spread = np.append(np.full(factors.shape[1], variance), self.variance[-1])
        return replace(self, mean=mean, second=second, variance=spread)


def _with_taste(
    pattern: Pattern, w: Floats, left: Floats, users: _Side, items: _Side, rank: int
) -> tuple[_Side, _Side]:
    """Both sides with factors that start at the leading directions of what the effects leave.

    Of them those that stand out of noise: whose singular value is beyond what the same residuals
    have with random signs (Hong, Sheng, Dobriban, "Selecting the number of components in PCA via
    random signflips", 2020). Others would only teach the engine its own noise.
    """
    degrees = _totals(pattern, w)
    roots = _smoothed_roots(degrees)
    scaled = w * left / (roots[0][pattern.users] * roots[1][pattern.items])
    if not scaled.any():
        return users, items
    rng = np.random.default_rng(0)  # where the search begins, and signs: no noise
    start = rng.normal(size=min(pattern.shape))
    flips = [rng.choice([-1.0, 1.0], len(scaled)) for _ in range(_FLIPS)]
    edge = max(_singular_triplets(pattern, scaled * signs, 1, start)[1][0] for signs in flips)
    u, sizes, vt = _singular_triplets(pattern, scaled, rank, start)
    found = sizes > edge
    p, q = (u * sizes)[:, found] / roots[0][:, None], vt[found].T / roots[1][:, None]
    unit = np.sqrt(np.average(q**2, axis=0, weights=degrees[1] + _TINY)) + _TINY
    return (
        users.with_factors(p * unit, _TASTE * users.pseudo),
        items.with_factors(q / unit, 1.0),
    )


def _totals(pattern: Pattern, values: Floats | None = None) -> list[Floats]:
    """The sums of values on the cells (None: ones) of each user, and of each item."""
    sides = zip((pattern.users, pattern.items), pattern.shape, strict=True)
    return [np.bincount(index, values, size).astype(float) for index, size in sides]


def _smoothed_roots(degrees: list[Floats]) -> list[Floats]:
    """Square roots of degrees, each after the side's mean degree is added."""
    return [np.sqrt(degree + max(float(degree.mean()), _TINY)) for degree in degrees]


def _singular_triplets(pattern: Pattern, values: Floats, count: int, start: Floats) -> Any:
    """The leading singular vectors and values of the values on a pattern."""
    from scipy.sparse.linalg import svds

    return svds(cancellable_operator(pattern.build_matrix(values)), k=count, v0=start)


# --- signs ----------------------------------------------------------------------------------
#
# Signs estimated from noisy reports of known noise, and from who rated what.
#
# A report x of a sign s is unbiased, E[x | s] = s, with a known E[x^2]. Where the pattern is
# public, it says a lot on its own: active users are stricter, films seen by the same people are
# alike. So
#
# x_ui = (1, F_u)' B (1, G_i) + a_u + b_i + p_u . q_i + e
#
# with features F, G of the pattern alone, B by ridge regression with a variance for each kind of
# coefficient (MacKay, "Bayesian interpolation", 1992), effects and taste by `effects_and_taste`,
# and the features' share chosen on held-out reports (Breiman, "Stacked regressions", 1996).

_VECTORS = 8  # singular vectors of the pattern on each side
_FARTHEST = 5.0  # standard deviations at which a feature is cut
_FOLDS = 5
_SIGN_ROUNDS = 30
_TURNS = 2  # of regression and effects
_SIGN_EFFECT = 0.1  # variance of effects on signs, before any are seen
_NOISY = 1.2  # second moment of reports from which on their noise is taken as known


class Features(NamedTuple):
    """What the pattern alone tells: a constant 1, then columns of mean 0 and variance 1 over cells.

    Log counts come first, then singular vectors of the pattern.

    Attributes:
        user: shape (m, p).
        item: shape (n, q).
    """

    user: Floats
    item: Floats

    @classmethod
    def of(cls, pattern: Pattern) -> Features:
        """Return the features of a pattern."""
        m, n = pattern.shape
        counts = _totals(pattern)
        roots = _smoothed_roots(counts)
        vectors: tuple[Floats, Floats] = np.empty((m, 0)), np.empty((n, 0))
        if (kept := min(_VECTORS + 1, m - 1, n - 1)) > 1:
            scaled = 1 / (roots[0][pattern.users] * roots[1][pattern.items])
            start = np.random.default_rng(0).normal(size=min(m, n))  # of the search: no noise
            u, values, vt = _singular_triplets(pattern, scaled, kept, start)
            others = np.argsort(-values)[1:]  # the first is popularity, which the counts tell
            vectors = u[:, others], vt[others].T
        sides = [
            _standardised(np.column_stack([np.log1p(count), own / root[:, None]]), count)
            for count, own, root in zip(counts, vectors, roots, strict=True)
        ]
        return cls(*sides)

    def regression(self, pattern: Pattern, values: Floats, noise: float) -> Floats:
        """Estimate B from values, given their variance about what it predicts.

        The prior variance of each block of B (item counts, item vectors, user counts, user vectors,
        products, product of counts) by EM with pseudo-counts; of the constant .02.

        Args:
            pattern: the observed cells.
            values: shape (n_cells,).
            noise: their variance about the prediction.

        Returns:
            Array of shape (p, q).
        """
        p, q = self.user.shape[1], self.item.shape[1]
        # sum of (f x g)(f x g)' over cells = sum over users of ff' x (sum of gg' over their items)
        pairs = np.triu_indices(q)
        ones = pattern.build_matrix(np.ones(len(values)))
        squares = ones @ (self.item[:, pairs[0]] * self.item[:, pairs[1]])
        gram = np.empty((p, p, q, q))
        for k, (a, b) in enumerate(zip(*pairs, strict=True)):
            check_cancelled()
            gram[:, :, a, b] = gram[:, :, b, a] = self.user.T @ (squares[:, [k]] * self.user)
        gram = gram.transpose(0, 2, 1, 3).reshape(p * q, p * q) / noise
        moments = (self.user.T @ (pattern.build_matrix(values) @ self.item)).ravel() / noise
        # of a column 0: the constant; 1: log count; 2: singular vectors
        kinds = [np.minimum(np.arange(width), 2) for width in (p, q)]
        kind = np.add.outer(3 * kinds[0], kinds[1]).ravel()
        kind[np.isin(kind, (5, 7))] = 8  # count x vector, as vector x vector
        variance = np.full(9, 0.02)
        count = np.bincount(kind, minlength=9)
        for _ in range(_SIGN_ROUNDS):
            covariance = np.linalg.inv(gram + np.diag(1 / variance[kind]))
            found = covariance @ moments
            second = found**2 + np.diag(covariance)
            variance = (np.bincount(kind, second, minlength=9) + 2 * 0.001) / (count + 2)
        return np.asarray(found.reshape(p, q))


def _standardised(columns: Floats, counts: Floats) -> Floats:
    """A column of ones, then these with mean 0 and variance 1 over cells, cut at a few sd."""
    columns = columns - np.average(columns, axis=0, weights=counts)
    spread = np.sqrt(np.average(columns**2, axis=0, weights=counts))
    scaled = np.where(spread > 1e-9, columns / np.maximum(spread, 1e-9), 0.0)
    return np.column_stack([np.ones(len(scaled)), np.clip(scaled, -_FARTHEST, _FARTHEST)])


class Effects(NamedTuple):
    """Effects of users and items.

    Attributes:
        user: shape (m,).
        item: shape (n,).
        variance: the prior variances of the users' and of the items' effects.
    """

    user: Floats
    item: Floats
    variance: tuple[float, float]

    @classmethod
    def of(cls, pattern: Pattern, values: Floats, noise: float) -> Effects:
        """Estimate the effects behind noisy values by marginal likelihood, one side after another.

        EM, as the engine has it, hardly moves where noise is most of what a row tells.

        Args:
            pattern: the observed cells.
            values: shape (n_cells,).
            noise: the variance of their noise.
        """
        sides, counts = (pattern.users, pattern.items), _totals(pattern)
        mean, doubt = ([np.zeros(size) for size in pattern.shape] for _ in range(2))
        variance = [_SIGN_EFFECT, _SIGN_EFFECT]
        for _ in range(3):
            for own, other in ((1, 0), (0, 1)):
                check_cancelled()
                seen = counts[own] > 0
                count = counts[own][seen]
                left = np.bincount(sides[own], values - mean[other][sides[other]], len(seen))[seen]
                unsure = np.bincount(sides[own], doubt[other][sides[other]], len(seen))[seen]
                y, v = left / count, (noise + unsure / count) / count
                variance[own] = t = _variance_behind(y, v)
                mean[own][seen], doubt[own][seen] = y * t / (t + v), v * t / (t + v)
        return cls(mean[0], mean[1], (variance[0], variance[1]))

    def predict(self, pattern: Pattern) -> Floats:
        return self.user[pattern.users] + self.item[pattern.items]


def _variance_behind(y: Floats, v: Floats) -> float:
    """Of the values that y measures with noise variances v: posterior mean of its logarithm.

    Before any y is seen: about `_SIGN_EFFECT`, give or take a factor e.
    """
    logs = np.linspace(math.log(1e-4), 0.0, 40)
    chance = np.array([-np.sum(np.log(t + v) + y**2 / (t + v)) / 2 for t in np.exp(logs)])
    chance -= (logs - math.log(_SIGN_EFFECT)) ** 2 / 2
    return math.exp(np.average(logs, weights=np.exp(chance - chance.max())))


def fit_features(pattern: Pattern, values: Floats, noise: float) -> tuple[Floats, Floats, Effects]:
    """Fit the regression on features, and effects on what it leaves; both twice.

    Args:
        pattern: the observed cells.
        values: shape (n_cells,).
        noise: the variance of their noise.

    Returns:
        Factors of shape (m, q) and (n, q) whose products are the features' predictions, and the
        effects.
    """
    features, rest = Features.of(pattern), values
    for _ in range(_TURNS):
        user = features.user @ features.regression(pattern, rest, noise)
        left = values - pattern.sample_product(user, features.item)
        effects = Effects.of(pattern, left, noise)
        rest = values - effects.predict(pattern)
    return user, features.item, effects


def complete_signs(pattern: Pattern, reports: SignReports, *, raw: bool = False) -> Steps:
    """Rounds of the engine on what the features leave; a score's sign is the prediction.

    raw: the reports are the signs themselves, so the trace is marked.
    """
    noise, mean = reports.variance, reports.mean
    values = reports.values - mean
    share = features_share(pattern, values, noise)
    user, item, _ = fit_features(pattern, values, noise)
    user *= share
    left = values - pattern.sample_product(user, item)
    engine = effects_and_taste(
        pattern,
        left,
        noise=noise if reports.second_moment > _NOISY else None,
        rounds=_SIGN_ROUNDS,
        spread=Effects.of(pattern, left, noise).variance,
    )
    for index, found in enumerate(engine, 1):
        sides = np.hstack([user, found.left]), np.hstack([item, found.right])
        model = factors_with_offsets(*sides, mean + found.user, found.item)
        trace = {
            "share of the pattern": share,
            "directions of taste": float(len(found.taste)),
            "noise variance": float(found.noise),
        }
        told = () if raw else trace
        yield Step.from_trace(index, _SIGN_ROUNDS, model, trace, told, converged=found.final)


def features_share(pattern: Pattern, values: Floats, noise: float) -> float:
    """Return how much of the features' prediction held-out reports support, in [0, 1].

    It is a posterior mean; the prior density goes with the square of the share, for the regression
    shrinks already.

    Args:
        pattern: the observed cells.
        values: shape (n_cells,).
        noise: the variance of their noise.
    """
    fold = np.random.default_rng(0).integers(0, _FOLDS, len(values))
    along = across = 0.0
    for k in range(_FOLDS):
        kept, out = pattern.select_entries(fold != k), pattern.select_entries(fold == k)
        if len(kept.users) and len(out.users):
            plain = Effects.of(kept, values[fold != k], noise).predict(out)
            user, item, effects = fit_features(kept, values[fold != k], noise)
            step = out.sample_product(user, item) + effects.predict(out) - plain
            along += float((values[fold == k] - plain) @ step)
            across += float(step @ step)
    shares = np.linspace(0.0, 1.0, 101) ** (1 / 3)
    chance = (shares * along - shares**2 * across / 2) / noise
    return float(np.average(shares, weights=np.exp(chance - chance.max())))


# --- rows in which every cell was randomised ------------------------------------------------
#
# Ratings from rows in which every cell was randomised: what the reports tell once their noise is
# known.
#
# Each cell of users x items, rated or not, may be reported. The public channel says how likely,
# and what a report is worth: B = 1 where there is one and T, its score on the scale -1..1 (0 where
# there is none), have known means and variances whether the cell is rated or missing. Sums of B
# and T over a row or a column are then unbiased counts and sums of ratings with noise of known
# size, from which the mean and the effects of users and items follow by empirical Bayes (Efron,
# Morris, "Stein's estimation rule and its competitors", 1973). What taste is left is looked for in
# the cells most likely to be genuine. One rule for every budget: where noise drowns a part, it
# shrinks to nothing.
#
# Reports are read block by block of users, so that no pass needs more memory than one block.

BLOCK = 1_000_000  # reports read at once: some 30 MB of scratch
CELLS = 1_500_000  # reported cells in which taste is looked for
ROUNDS = 20
_RANK = 5
_GENUINE = 0.9  # most that a cell is believed to be rated
# On the scale -1..1, so in half ranges; chosen on generated ratings.
_MEAN = 0.25  # standard deviation of the mean rating about 0
_RATING = 0.55  # of a rating about the mean
_EFFECT = 0.15  # of the effect of a user or item, worth _WORTH of them
_WORTH = 4
_DIFFER = 0.19  # variance of a rating about its effects
_RATED, _TOGETHER = 0.05, 1000  # of the cells; ratings of an effect: see LaplaceLaw
_SPREAD, _POOL = 2.5e-3, 1.25e-3  # variances of effects that the search for taste starts from
_LEAST = 1e-12  # a chance below it counts as this one


@dataclass(frozen=True)
class Law:
    """What the channel does to one cell, whose rating is x in [-1, 1] where there is one.

    Attributes:
        if_missing: f0, the chance that a missing cell is reported.
        if_rated: f1, the chance that a rated cell is reported.
        gain: kappa, the chance that a rated cell's report tells of x: E[T] = kappa x, and 0 if the
            cell is missing.
        square: V_n, E[T^2] over the reports of missing cells.
    """

    if_missing: float
    if_rated: float
    gain: float
    square: float

    def scores(self, reports: NDArray[Any]) -> Floats:
        """Return the scores T of reported cells.

        Args:
            reports: shape (k,), as they were published.

        Returns:
            Array of shape (k,).
        """
        raise NotImplementedError

    def scored(self, reports: NDArray[Any]) -> float:
        """Return the sum of the scores of any number of reports.

        Args:
            reports: shape (k,), as they were published.
        """
        starts = range(0, len(reports), BLOCK)
        return math.fsum(float(self.scores(reports[k : k + BLOCK]).sum()) for k in starts)

    def spread(self, x: Floats) -> Floats:
        """Return V_r, the variance of T where it tells of a rating x.

        Args:
            x: shape (k,), on the scale -1..1.

        Returns:
            Array of shape (k,).
        """
        raise NotImplementedError

    @property
    def slope(self) -> float:
        """g1 = f1 - f0: how much a rating adds to the chance of a report."""
        return self.if_rated - self.if_missing

    @property
    def count_noise(self) -> float:
        """v_c: variance of (B - f0)/g1 of a missing cell; its mean is 1 if rated, else 0."""
        return self.if_missing * (1 - self.if_missing) / self.slope**2

    @property
    def sum_noise(self) -> float:
        """v_t: variance of T/kappa of a missing cell; its mean is x if rated, else 0."""
        return self.if_missing * self.square / self.gain**2

    @property
    def rating_noise(self) -> float:
        """What a rated cell adds to v_t, where ratings are around 0 with variance _RATING^2."""
        told = (_RATING**2 + float(self.spread(np.zeros(1))[0])) / self.gain
        noise_less = self.if_missing - (self.if_rated - self.gain)  # it speaks in noise alone
        return told - noise_less * self.square / self.gain**2


@dataclass(frozen=True)
class SymbolLaw(Law):
    """Symbols 1..d that stand for levels of mean 0, kept or replaced by any one alike.

    Attributes:
        levels: shape (d,), on the scale -1..1.
    """

    levels: Floats

    @classmethod
    def of(cls, if_missing: float, gain: float, levels: Floats) -> SymbolLaw:
        """Return the law of a symbol channel.

        Args:
            if_missing: the chance that a missing cell is reported.
            gain: how much likelier the own symbol is than each other one.
            levels: shape (d,), on the scale -1..1.
        """
        gain = max(gain, _LEAST)
        return cls(if_missing, if_missing + gain, gain, float(np.mean(levels**2)), levels)

    def scores(self, reports: NDArray[Any]) -> Floats:
        """Return the levels of reported symbols.

        Args:
            reports: shape (k,), symbols from 1 on.

        Returns:
            Array of shape (k,).
        """
        return self.levels[reports.astype(np.intp) - 1]

    def spread(self, x: Floats) -> Floats:
        """Return zeros: a symbol that tells of x is the level x.

        Args:
            x: shape (k,), on the scale -1..1.

        Returns:
            Array of shape (k,).
        """
        return np.zeros(len(x))


@dataclass(frozen=True)
class LaplaceLaw(Law):
    """Ratings with Laplace noise of scale b, that may vanish; missing cells speak in noise alone.

    How far a report z lies beyond -1..1 tells nothing of x: T = z/slope within, +-end/slope beyond.
    With end = 1 + b, the mean of such z, E[T] is x exactly, at a variance of b^2 (2 - P(|z| > 1))
    in place of 2 b^2. A lower end has less noise and bends E[T], -(1 + b - end) e^(-1/b) sinh(x/b)
    off the line: the end is that of the least mean square error for the mean of _TOGETHER ratings,
    a share of _RATED of the cells.

    Attributes:
        scale: b.
        end: what a report beyond -1..1 counts as.
        inner: 1/slope.
    """

    scale: float
    end: float
    inner: float  # 1/slope

    @classmethod
    def of(cls, flip: float, scale: float) -> LaplaceLaw:
        """flip: the chance that a missing cell is reported, or a rated one is not."""
        x, if_rated = np.linspace(-1, 1, 41), flip + max(1 - 2 * flip, _LEAST)

        def ended(end: float) -> LaplaceLaw:
            law = cls(flip, if_rated, 1 - flip, 0.0, scale, end, 1.0)
            law = replace(law, inner=float(x @ x) / float(x @ law.expected(x)))
            return replace(law, square=float(law.spread(np.zeros(1))[0]))

        def error(law: LaplaceLaw) -> float:
            bent = float(np.mean((law.expected(x) - x) ** 2))
            return law.sum_noise / (_RATED * _TOGETHER) + bent

        return min(map(ended, (1 + scale * np.linspace(0, 1, 21)).tolist()), key=error)

    def scores(self, reports: NDArray[Any]) -> Floats:
        """Return the scores T of reported cells.

        Args:
            reports: shape (k,), noisy ratings on the scale -1..1.

        Returns:
            Array of shape (k,).
        """
        found = reports.astype(float)
        return self.inner * np.where(np.abs(found) <= 1, found, np.sign(found) * self.end)

    def expected(self, x: Floats) -> Floats:
        """Return E[T] where it tells of a rating x.

        Args:
            x: shape (k,), on the scale -1..1.

        Returns:
            Array of shape (k,).
        """
        b, size = self.scale, np.abs(x)
        sinh = -np.exp((size - 1) / b) * np.expm1(-2 * size / b) / 2  # times e^(-1/b)
        return self.inner * (x - np.sign(x) * (1 + b - self.end) * sinh)

    def spread(self, x: Floats) -> Floats:
        """Return V_r, the variance of T where it tells of a rating x.

        Args:
            x: shape (k,), on the scale -1..1.

        Returns:
            Array of shape (k,).
        """
        b, end = self.scale, self.end
        within = (np.expm1((x - 1) / b) + np.expm1((-1 - x) / b)) / 2  # -P(|z| <= 1)
        more = end**2 - 1 - 2 * b
        square = x**2 + more + (more - 2 * b**2) * within
        return self.inner**2 * square - self.expected(x) ** 2


class _Reports:
    """Published rows and what the channel did to them, read some users at a time."""

    def __init__(self, reported: Sparse, law: Law) -> None:
        self.cells, self.data, self.law = Pattern.from_matrix(reported), reported.data, law

    def blocks(self) -> Iterator[tuple[slice, Pattern, Floats]]:
        """Whole rows, as many at once as have BLOCK reports: rows, cells, scores."""
        for rows, k, cells in self.cells.iter_chunks(BLOCK):
            yield rows, cells, self.law.scores(self.data[k])

    def sums(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """(reports, sum of scores) of each user, and of each item."""
        users, items = (np.zeros(size) for size in self.cells.shape)
        for rows, cells, scores in self.blocks():
            users[rows] = row_sums(cells, scores)
            items += np.bincount(cells.items, scores, len(items))
        return (self.cells.counts.astype(float), users), (item_sums(self.cells), items)

    def over_items(self, values: Floats) -> Floats:
        """Sum the items' values over each user's reports.

        Args:
            values: shape (n,).

        Returns:
            Array of shape (m,).
        """
        blocks = self.cells.iter_chunks(BLOCK)
        return np.concatenate([row_sums(cells, values[cells.items]) for *_, cells in blocks])


@dataclass(frozen=True, eq=False)
class _Margin:
    """What is known of the users, or the items, of whom each has `cells` cells.

    raw: unbiased counts of ratings; count, doubt: their posterior means and variances; total:
    unbiased sums of ratings less the mean rating; noise: their variance.
    """

    cells: int
    raw: Floats
    count: Floats
    doubt: Floats
    total: Floats
    noise: Floats

    def effects(self, exposed: Floats, unsure: Floats) -> Floats:
        """Estimate the effects from the sums, less what the other side's effects add to them.

        Args:
            exposed: shape (k,), what the other side's effects add.
            unsure: shape (k,), its variance.

        Returns:
            Array of shape (k,).
        """
        total, noise = self.total - exposed, self.noise + unsure
        return shrunken_effects(total, self.count, self.doubt, noise)[0]


def believed_counts(raw: Floats, variance: float) -> tuple[Floats, Floats]:
    """Return posterior means and variances of counts, given unbiased noisy ones.

    A normal prior about their mean, its variance from the counts themselves. The prior's pull is at
    most one standard deviation of the noise, for counts have long tails (Efron, Morris, "Limiting
    the risk of Bayes and empirical Bayes estimators", 1972); what is left below 0 is cut off.

    Args:
        raw: shape (k,).
        variance: of the noise on each.

    Returns:
        Two arrays of shape (k,).
    """
    sd, mean = math.sqrt(variance), max(float(raw.mean()), 0.0)
    signal = max(float(np.mean((raw - mean) ** 2)) - variance, 0.0)
    weight = signal / (signal + variance) if signal > 0 else 0.0
    centre = np.clip(mean + weight * (raw - mean), raw - sd, raw + sd)
    return truncated_normal_moments(centre, math.sqrt(max(weight, _LEAST) * variance))


def shrunken_effects(
    total: Floats, count: Floats, doubt: Floats, noise: Floats
) -> tuple[Floats, Floats]:
    """Return posterior means and variances of effects b.

    The best linear estimate; the prior variance of b by expectation and maximisation.

    Args:
        total: shape (k,), N b plus noise.
        count: shape (k,), the posterior mean of N.
        doubt: shape (k,), the posterior variance of N.
        noise: shape (k,), the variance of the noise.

    Returns:
        Two arrays of shape (k,).
    """
    variance = _EFFECT**2
    for _ in range(500):
        check_cancelled()
        gain = count * variance / ((count**2 + doubt) * variance + noise)
        effects = gain * total
        left = variance * (1 - gain * count)
        before = variance
        variance = float(np.sum(effects**2 + left) + _WORTH * _EFFECT**2) / (len(total) + _WORTH)
        if abs(variance - before) <= 1e-5 * before:
            break
    return effects, left


class Mean(NamedTuple):
    """An estimate of the mean rating.

    Attributes:
        rating: the mean on the scale -1..1.
        ratings: the number of ratings.
    """

    rating: float
    ratings: float


def mean_rating(told: float, scored: float, cells: int, law: Law) -> Mean:
    """Estimate the mean rating and the number of ratings from sums over all reports.

    The best linear estimate, for a number of ratings that is only known to be positive.

    Args:
        told: the number of cells that were reported.
        scored: the sum of their scores.
        cells: the number of all cells.
        law: of the channel.
    """
    raw = (told - cells * law.if_missing) / law.slope
    found, spread = truncated_normal_moments(np.array([raw]), math.sqrt(cells * law.count_noise))
    count, doubt = float(found[0]), float(spread[0])
    noise = cells * law.sum_noise + count * law.rating_noise
    gain = count * _MEAN**2 / max((count**2 + doubt) * _MEAN**2 + noise, _LEAST)
    return Mean(gain * scored / law.gain, count)


def recovered(reported: Sparse, law: Law, public: PublicFacts) -> Steps:
    """Yield models in rating points from published rows: effects first, then rounds of taste.

    Args:
        reported: shape (users, items), a stored number for each reported cell, sorted by user and
            item.
        law: of the channel.
        public: the public facts.
    """
    m, n = public.shape
    reports = _Reports(reported, law)
    del reported  # the last that holds them goes before taste takes its memory
    by_user, by_item = reports.sums()
    mean = mean_rating(float(by_user[0].sum()), float(by_user[1].sum()), m * n, law)
    users, items = _margin(*by_user, n, law, mean), _margin(*by_item, m, law, mean)
    a, b = _effects(reports, users, items)
    a += mean.rating
    trace = {
        "ratings, estimated": mean.ratings,
        "mean rating": public.middle + public.half_width * mean.rating,
        "rank": 0.0,
    }
    model = _in_points(a, b, np.zeros((m, 0)), np.zeros((n, 0)), public)
    step = Step(1, ROUNDS + 1, model, trace)
    scale = mean.ratings / max(float(users.count.sum() * items.count.sum()), _LEAST)
    pattern, y, w = _left_over(reports, scale * users.count, items.count, a, b)
    del reports
    rounds = effects_and_taste(
        pattern,
        y - np.average(y, weights=w) if len(y) else y,  # or what effects miss passes for taste
        weights=w,
        least_noise=1.0,
        rank=_RANK,
        rounds=ROUNDS,
        spread=(_SPREAD, _SPREAD),
        pseudo=_POOL,
    )
    for index, now in enumerate(rounds if len(y) else (), 2):
        yield step
        model = _in_points(a + now.user, b + now.item, now.left, now.right, public)
        step = Step(index, ROUNDS + 1, model, trace | {"rank": float(now.left.shape[1])})
    yield replace(step, final=True)


def _in_points(a: Floats, b: Floats, left: Floats, right: Floats, public: PublicFacts) -> Factors:
    half = public.half_width
    return factors_with_offsets(half * left, right, public.middle + half * a, half * b)


def _margin(told: Floats, scored: Floats, cells: int, law: Law, mean: Mean) -> _Margin:
    raw = (told - cells * law.if_missing) / law.slope
    count, doubt = believed_counts(raw, cells * law.count_noise)
    own = count * law.rating_noise
    noise = cells * (law.sum_noise + mean.rating**2 * law.count_noise) + own
    return _Margin(cells, raw, count, doubt, scored / law.gain - mean.rating * raw, noise)


def _effects(reports: _Reports, users: _Margin, items: _Margin) -> tuple[Floats, Floats]:
    """Effects of users and items in turn, each from sums less what the other side's add to them."""
    a = np.zeros(len(users.count))
    for _ in range(3):
        over = item_sums(reports.cells, row_factors=a)
        b = items.effects(*_exposure(over, a, users, items, reports.law))
        a = users.effects(*_exposure(reports.over_items(b), b, items, users, reports.law))
    return a, b


def _exposure(
    over: Floats, effects: Floats, of: _Margin, side: _Margin, law: Law
) -> tuple[Floats, Floats]:
    """Sums of the other side's effects over each row's ratings: posterior means and variances.

    over: their sums over the row's reports, which are shrunk towards count x mean effect: with a
    prior variance in proportion to the count, for such a sum has as many terms.
    """
    mean = float(np.average(effects, weights=of.count + np.finfo(float).tiny))
    centred = effects - mean
    reported = side.cells * law.if_missing + side.raw * law.slope
    raw = (over - mean * reported - law.if_missing * float(centred.sum())) / law.slope
    noise = law.count_noise * float(centred @ centred)
    signal = max(float(raw @ raw) - noise * len(raw), 0.0)
    prior = signal / max(float(side.count.sum()), 1.0) * side.count
    weight = prior / np.maximum(prior + noise, np.finfo(float).tiny)
    return mean * side.count + weight * raw, weight * noise


def _likely(reports: _Reports, users: Floats, items: Floats) -> float:
    """The least product users x items of a reported cell at which at most CELLS lie above it."""
    edges = max(float(users.max() * items.max()), _LEAST) * np.exp(np.linspace(-20.0, 0.0, 2_000))
    seen = np.zeros(len(edges) + 1)
    for rows, cells, _ in reports.blocks():
        product = cells.expand_rows(users[rows]) * items[cells.items]
        seen += np.bincount(np.searchsorted(edges, product), minlength=len(seen))
    above = np.append(np.cumsum(seen[::-1])[::-1], 0.0)  # [k]: those above edge k - 1
    first = int(np.argmax(above <= CELLS))
    return float(edges[min(first, len(edges)) - 1]) if first else -1.0


def _left_over(
    reports: _Reports, users: Floats, items: Floats, a: Floats, b: Floats
) -> tuple[Pattern, Floats, Floats]:
    """What scores tell beyond the effects, and its precision, on the cells most likely to be rated.

    users x items: the chance of that; a + b: the rating that the effects expect.

    The score of a reported cell is rho x on average, rho the chance that it tells of the rating x;
    its variance is that of noise (V_n), of a genuine report (V_r, and what ratings differ), and of
    not knowing which of the two it is.
    """
    law, least, found = reports.law, _likely(reports, users, items), []
    for block, cells, scores in reports.blocks():
        chance = cells.expand_rows(users[block]) * items[cells.items]
        keep = np.flatnonzero(chance > least)
        rows, columns = block.start + cells.users[keep], cells.items[keep]
        chance = np.minimum(chance[keep], _GENUINE)
        rho = chance * law.gain / (law.if_missing + chance * law.slope)
        rho = np.maximum(rho, _LEAST)
        expected = a[rows] + b[columns]
        x = np.clip(expected, -1, 1)
        variance = (1 - rho) * law.square + rho * (law.spread(x) + _DIFFER)
        variance += rho * (1 - rho) * x**2
        y, w = scores[keep] / rho - expected, rho**2 / variance
        found.append((rows, columns, y, w))
    rows, columns, y, w = (np.concatenate(c) for c in zip(*found, strict=True))
    indptr = np.searchsorted(rows, np.arange(len(users) + 1))
    return Pattern(columns, indptr, reports.cells.shape), y, w
