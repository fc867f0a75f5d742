"""Signs estimated from noisy reports of known noise, and from who rated what. No privacy here.

A report x of a sign s is unbiased, E[x | s] = s, with a known E[x^2]. Where the pattern is public,
it says a lot on its own: active users are stricter, films seen by the same people are alike. So

x_ui = (1, F_u)' B (1, G_i) + a_u + b_i + p_u . q_i + e

with features F, G of the pattern alone, B by ridge regression with a variance for each kind of
coefficient (MacKay, "Bayesian interpolation", 1992), effects and taste by `variational`, and the
features' share chosen on held-out reports (Breiman, "Stacked regressions", 1996).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core.model import Step
from dpmc_core.solvers.linalg import Pattern, looking
from dpmc_core.solvers.rows import with_offsets
from dpmc_core.solvers.variational import effects_and_taste
from dpmc_core.stopping import look

Floats = NDArray[np.float64]

_VECTORS = 8  # singular vectors of the pattern on each side
_FARTHEST = 5.0  # standard deviations at which a feature is cut
_FOLDS = 5
_ROUNDS = 30
_TURNS = 2  # of regression and effects
_EFFECT = 0.1  # variance of effects on signs, before any are seen
_NOISY = 1.2  # second moment of reports from which on their noise is taken as known


@dataclass(frozen=True, eq=False)
class SignReports:
    """Debiased reports, one per cell: E[values] = sign. second: E[values^2]."""

    values: Floats
    second: float

    @classmethod
    def of_flips(cls, flipped: Floats, p_plus: float, p_minus: float) -> SignReports:
        """Of signs as 0/1 after flips; p_plus, p_minus: chances that +1, -1 is told wrongly."""
        gain = 1 - p_plus - p_minus
        values = (2 * flipped - 1 + p_plus - p_minus) / gain
        # One sign may be noisier than the other: the mean over the share of each.
        lean = float(np.clip(values.mean(), -1.0, 1.0))
        noise = [4 * p * (1 - p) / gain**2 for p in (p_plus, p_minus)]
        return cls(values, 1 + ((1 + lean) * noise[0] + (1 - lean) * noise[1]) / 2)

    @classmethod
    def of_laplace(cls, noisy: Floats, epsilon: float) -> SignReports:
        """Of 1{sign = +1} + Laplace(1/epsilon).

        Clipped to [0, 1] it tells as much of the sign; t = tanh(epsilon (clip - 1/2)) is its
        likelihood ratio as a correlation, and E[t | s] = s c with c = E[t^2] for either sign.
        """
        t = np.tanh(epsilon * (np.clip(noisy, 0.0, 1.0) - 0.5))
        c = clipped_information(epsilon)
        return cls(t / c, 1 / c)

    @property
    def spread(self) -> float:
        """Variance of a report about the mean of all signs."""
        mean = float(self.values.mean())
        return max(self.second - max(mean**2 - self.second / len(self.values), 0.0), 1e-3)

    @property
    def mean(self) -> float:
        """Of the signs, shrunk as if every share of +1 had been as likely (variance 1/3)."""
        return float(self.values.mean()) / (1 + 3 * self.spread / len(self.values))


def clipped_information(epsilon: float) -> float:
    """E[tanh^2(epsilon (clip(s + Laplace(1/epsilon), 0, 1) - 1/2))], the same for s = 0 and 1."""
    a = epsilon / 2
    if a > 300:
        return 1.0
    inside = math.exp(-a) * (math.sinh(a) - 2 * math.atan(math.tanh(a / 2)))
    return inside + math.tanh(a) ** 2 * (1 + math.exp(-2 * a)) / 2


class Features(NamedTuple):
    """What the pattern alone tells: a constant 1, then columns of mean 0 and variance 1 over cells.

    user: m x p; item: n x q. Log counts come first, then singular vectors of the pattern.
    """

    user: Floats
    item: Floats

    @classmethod
    def of(cls, pattern: Pattern) -> Features:
        from scipy.sparse.linalg import svds

        m, n = pattern.shape
        counts = [
            np.bincount(index, minlength=size).astype(float)
            for index, size in ((pattern.users, m), (pattern.items, n))
        ]
        roots = [np.sqrt(count + count.mean()) for count in counts]
        vectors: tuple[Floats, Floats] = np.empty((m, 0)), np.empty((n, 0))
        if (kept := min(_VECTORS + 1, m - 1, n - 1)) > 1:
            scaled = 1 / (roots[0][pattern.users] * roots[1][pattern.items])
            start = np.random.default_rng(0).normal(size=min(m, n))  # of the search: no noise
            u, values, vt = svds(looking(pattern.by_user(scaled)), k=kept, v0=start)
            others = np.argsort(-values)[1:]  # the first is popularity, which the counts tell
            vectors = u[:, others], vt[others].T
        sides = [
            _standardised(np.column_stack([np.log1p(count), own / root[:, None]]), count)
            for count, own, root in zip(counts, vectors, roots, strict=True)
        ]
        return cls(*sides)

    def regression(self, pattern: Pattern, values: Floats, noise: float) -> Floats:
        """B, p x q, from values with that variance about what it predicts.

        The prior variance of each block of B (item counts, item vectors, user counts, user vectors,
        products, product of counts) by EM with pseudo-counts; of the constant .02.
        """
        p, q = self.user.shape[1], self.item.shape[1]
        # sum of (f x g)(f x g)' over cells = sum over users of ff' x (sum of gg' over their items)
        pairs = np.triu_indices(q)
        squares = pattern.by_user(np.ones(len(values))) @ (
            self.item[:, pairs[0]] * self.item[:, pairs[1]]
        )
        gram = np.empty((p, p, q, q))
        for k, (a, b) in enumerate(zip(*pairs, strict=True)):
            look()
            gram[:, :, a, b] = gram[:, :, b, a] = self.user.T @ (squares[:, [k]] * self.user)
        gram = gram.transpose(0, 2, 1, 3).reshape(p * q, p * q) / noise
        moments = (self.user.T @ (pattern.by_user(values) @ self.item)).ravel() / noise
        kind = np.add.outer(3 * _kinds(p), _kinds(q)).ravel()
        kind[np.isin(kind, (5, 7))] = 8  # count x vector, as vector x vector
        variance = np.full(9, 0.02)
        for _ in range(_ROUNDS):
            covariance = np.linalg.inv(gram + np.diag(1 / variance[kind]))
            found = covariance @ moments
            second = found**2 + np.diag(covariance)
            count = np.bincount(kind, minlength=9)
            variance = (np.bincount(kind, second, minlength=9) + 2 * 0.001) / (count + 2)
        coefficients: Floats = found.reshape(p, q)
        return coefficients


def _kinds(width: int) -> NDArray[np.int64]:
    """0: the constant; 1: log count; 2: singular vectors."""
    return np.minimum(np.arange(width), 2)


def _standardised(columns: Floats, counts: Floats) -> Floats:
    """A column of ones, then these with mean 0 and variance 1 over cells, cut at a few sd."""
    columns = columns - np.average(columns, axis=0, weights=counts)
    spread = np.sqrt(np.average(columns**2, axis=0, weights=counts))
    scaled = np.where(spread > 1e-9, columns / np.maximum(spread, 1e-9), 0.0)
    return np.column_stack([np.ones(len(scaled)), np.clip(scaled, -_FARTHEST, _FARTHEST)])


class Effects(NamedTuple):
    """Of users (m) and items (n), with the variance each kind has."""

    user: Floats
    item: Floats
    variance: tuple[float, float]

    @classmethod
    def of(cls, pattern: Pattern, values: Floats, noise: float) -> Effects:
        """Behind values of that noise variance, by marginal likelihood, one side after the other.

        EM, as the engine has it, hardly moves where noise is most of what a row tells.
        """
        sides = (pattern.users, pattern.items)
        counts = [np.bincount(k, minlength=s) for k, s in zip(sides, pattern.shape, strict=True)]
        mean = [np.zeros(size) for size in pattern.shape]
        doubt = [np.zeros(size) for size in pattern.shape]
        variance = [_EFFECT, _EFFECT]
        for _ in range(3):
            for own, other in ((1, 0), (0, 1)):
                look()
                seen, count = counts[own] > 0, counts[own]
                left = np.bincount(sides[own], values - mean[other][sides[other]], len(seen))
                unsure = np.bincount(sides[own], doubt[other][sides[other]], len(seen))
                y, v = left[seen] / count[seen], (noise + unsure[seen] / count[seen]) / count[seen]
                variance[own] = t = _variance_behind(y, v)
                mean[own][seen], doubt[own][seen] = y * t / (t + v), v * t / (t + v)
        return cls(mean[0], mean[1], (variance[0], variance[1]))

    def predict(self, pattern: Pattern) -> Floats:
        return self.user[pattern.users] + self.item[pattern.items]


def _variance_behind(y: Floats, v: Floats) -> float:
    """Of the values that y measures with noise variances v: posterior mean of its logarithm.

    Before any y is seen: about `_EFFECT`, give or take a factor e.
    """
    logs = np.linspace(math.log(1e-4), 0.0, 40)
    chance = np.array([-np.sum(np.log(t + v) + y**2 / (t + v)) / 2 for t in np.exp(logs)])
    chance -= (logs - math.log(_EFFECT)) ** 2 / 2
    return math.exp(np.average(logs, weights=np.exp(chance - chance.max())))


class Fit(NamedTuple):
    """What is said of the cells before taste: user . item', then effects."""

    user: Floats
    item: Floats
    effects: Effects

    @classmethod
    def of(cls, pattern: Pattern, values: Floats, noise: float) -> Fit:
        """The regression on features, and effects on what it leaves; both twice."""
        features, rest = Features.of(pattern), values
        for _ in range(_TURNS):
            user = features.user @ features.regression(pattern, rest, noise)
            left = values - pattern.sample(user, features.item)
            effects = Effects.of(pattern, left, noise)
            rest = values - effects.predict(pattern)
        return cls(user, features.item, effects)

    def predict(self, pattern: Pattern) -> Floats:
        return pattern.sample(self.user, self.item) + self.effects.predict(pattern)


def complete_signs(pattern: Pattern, reports: SignReports, *, raw: bool = False) -> Iterator[Step]:
    """Rounds of the engine on what the features leave; a score's sign is the prediction.

    raw: the reports are the signs themselves, so the trace is marked.
    """
    noise = reports.spread
    mean = reports.mean
    values = reports.values - mean
    share = features_share(pattern, values, noise)
    fit = Fit.of(pattern, values, noise)
    user, item = share * fit.user, fit.item
    left = values - pattern.sample(user, item)
    engine = effects_and_taste(
        pattern,
        left,
        noise=noise if reports.second > _NOISY else None,
        rounds=_ROUNDS,
        spread=Effects.of(pattern, left, noise).variance,
    )
    for index, found in enumerate(engine, 1):
        model = with_offsets(
            np.hstack([user, found.left]),
            np.hstack([item, found.right]),
            mean + found.user,
            found.item,
        )
        trace = {
            "share of the pattern": share,
            "directions of taste": float(len(found.taste)),
            "noise variance": float(found.noise),
        }
        yield Step(
            index, _ROUNDS, model, trace, frozenset(trace) if raw else frozenset(), found.final
        )


def features_share(pattern: Pattern, values: Floats, noise: float) -> float:
    """How much of the features' prediction held-out reports support, in 0..1: they never hurt.

    Posterior mean; beforehand its density goes with its square, for the regression shrinks already.
    """
    fold = np.random.default_rng(0).integers(0, _FOLDS, len(values))
    along = across = 0.0
    for k in range(_FOLDS):
        kept, out = _part(pattern, fold != k), _part(pattern, fold == k)
        if len(kept.users) and len(out.users):
            plain = Effects.of(kept, values[fold != k], noise).predict(out)
            step = Fit.of(kept, values[fold != k], noise).predict(out) - plain
            along += float((values[fold == k] - plain) @ step)
            across += float(step @ step)
    shares = np.linspace(0.0, 1.0, 101) ** (1 / 3)
    chance = (shares * along - shares**2 * across / 2) / noise
    return float(np.average(shares, weights=np.exp(chance - chance.max())))


def _part(pattern: Pattern, chosen: NDArray[np.bool_]) -> Pattern:
    users = pattern.users[chosen]
    counts = np.bincount(users, minlength=pattern.shape[0])
    indptr = np.concatenate(([0], np.cumsum(counts)))
    return Pattern(users, pattern.items[chosen], indptr, pattern.shape)
