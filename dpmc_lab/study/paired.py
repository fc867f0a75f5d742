"""Intervals for methods that were measured on the same held-out ratings with the same seeds.

Two things vary: which users there happen to be, and each seed's split and noise. The mean over a
crossed design of U users and S seeds has variance Vu/U + Vs/S + Vus/(US): the mean squares over
users and over seeds estimate the first and the second together with the third, which is therefore
taken off once (Owen, "The pigeonhole bootstrap", 2007). A metric is linear in users up to terms of
order 1/U, so each user has an influence on it. Ratios are by Fieller's theorem (1954): a share r of
a gain is possible as long as the mean of (part - r gain) may be 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from dpmc_core.arrays import Floats

LEVEL = 0.95
_MAX_SHARE = 1e6  # a share beyond is no share


class IntervalEstimate(NamedTuple):
    """A value with the ends of its interval; both infinite where nothing is known of them."""

    value: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 or -1 where it is above or below zero, and 0 where it may be either."""
        return int(self.low > 0) - int(self.high < 0)


@dataclass(frozen=True, eq=False)
class PairedMetrics:
    """Metrics of M methods (mean over seeds) and how they vary together.

    by_user, by_seed, by_both: M x M covariances of that mean, as the mean squares over users, over
    seeds and over both give them. users, seeds: how many.
    """

    mean: Floats
    by_user: Floats
    by_seed: Floats
    by_both: Floats
    users: int
    seeds: int

    @classmethod
    def from_totals(cls, totals: Floats, counts: Floats, *, root: bool = False) -> PairedMetrics:
        """totals, counts: seeds x users x methods, sums over a user's held-out ratings and how
        many those are. A metric is the sum of totals over that of counts, or its root.

        Needs a rating of every method in every seed.
        """
        has_ratings = counts.any(axis=(0, 2))
        totals, counts = totals[:, has_ratings], counts[:, has_ratings]
        seeds, users, methods = totals.shape
        n_ratings = counts.sum(axis=1, keepdims=True)
        means = totals.sum(axis=1, keepdims=True) / n_ratings
        influence = users * (totals - means * counts) / n_ratings
        values = means[:, 0]
        if root:
            values = np.sqrt(values)
            influence /= 2 * np.maximum(values, np.finfo(float).tiny)[:, None]
        user_influence = influence.mean(axis=0)
        by_user = by_both = by_seed = np.zeros((methods, methods))
        if users > 1:
            by_user = user_influence.T @ user_influence / (users * (users - 1))
        if seeds > 1:
            deviations = values - values.mean(axis=0)
            by_seed = deviations.T @ deviations / (seeds * (seeds - 1))
        if users > 1 and seeds > 1:
            residuals = (influence - user_influence).reshape(-1, methods)
            by_both = residuals.T @ residuals / (seeds * (seeds - 1) * users * (users - 1))
        return cls(values.mean(axis=0), by_user, by_seed, by_both, users, seeds)

    def with_constant(self, value: float) -> PairedMetrics:
        """One more method, whose metric is known: it does not vary."""
        user, seed, interaction = (
            np.pad(matrix, ((0, 1), (0, 1)))
            for matrix in (self.by_user, self.by_seed, self.by_both)
        )
        return PairedMetrics(
            np.append(self.mean, value), user, seed, interaction, self.users, self.seeds
        )

    def estimate_interval(self, weights: Floats, level: float = LEVEL) -> IntervalEstimate:
        """Of a weighted sum of the metrics."""
        value = float(weights @ self.mean)
        half = self._half_width(weights, level)
        return IntervalEstimate(value, value - half, value + half)

    def estimate_share(self, numerator: Floats, denominator: Floats) -> IntervalEstimate | None:
        """Of one weighted sum in another; None where the other is not clearly above 0."""
        total = self.estimate_interval(denominator)
        if total.sign < 1:
            return None
        share = float(numerator @ self.mean) / total.value

        def possible(r: float) -> bool:
            weights = numerator - r * denominator
            return abs(float(weights @ self.mean)) <= self._half_width(weights, LEVEL)

        return IntervalEstimate(
            share,
            _find_interval_end(possible, share, -1.0),
            _find_interval_end(possible, share, 1.0),
        )

    def _half_width(self, weights: Floats, level: float) -> float:
        """Half the width of an interval: t times the standard error, degrees of freedom by
        Satterthwaite."""
        if self.seeds < 2 or self.users < 2:
            return math.inf
        user, seed, interaction = (
            max(float(weights @ matrix @ weights), 0.0)
            for matrix in (self.by_user, self.by_seed, self.by_both)
        )
        variance = max(user + seed - interaction, user, seed)
        if variance == 0:
            return 0.0
        degrees_of_freedom = variance**2 / (user**2 / (self.users - 1) + seed**2 / (self.seeds - 1))
        return float(stdtrit(degrees_of_freedom, 0.5 + level / 2)) * math.sqrt(variance)


def _find_interval_end(possible: Callable[[float], bool], start: float, sign: float) -> float:
    """How far a condition that holds at the start holds in one direction."""
    lower, upper = 0.0, 1e-6
    while possible(start + sign * upper):
        lower, upper = upper, 2 * upper
        if upper > _MAX_SHARE:
            return sign * math.inf
    while upper - lower > 1e-9 * upper:
        middle = (lower + upper) / 2
        lower, upper = (middle, upper) if possible(start + sign * middle) else (lower, middle)
    return start + sign * lower
