"""Compute intervals for methods measured on the same held-out ratings with the same seeds.

Two things vary: the users, and each seed's split and noise. The mean over a crossed design of U
users and S seeds has variance Vu/U + Vs/S + Vus/(US). The mean squares over users and over seeds
estimate the first and the second together with the third, which is therefore subtracted once (Owen,
"The pigeonhole bootstrap", 2007). A metric is linear in users up to terms of order 1/U, so each
user has an influence on it. Ratios follow Fieller's theorem (1954): a share r of a gain is possible
as long as the mean of (numerator - r gain) may be 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from dpmc_core.arrays import Floats

LEVEL = 0.95
_MAX_SHARE = 1e6  # an end of a share's interval that is further away counts as infinite
_MIN_DISTANCE = 1e-18  # a share's interval that ends nearer to the share counts as ending there


class IntervalEstimate(NamedTuple):
    """A value with the ends of its interval, which are infinite where they are unknown."""

    value: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """Return 1 or -1 where the interval is above or below zero, and 0 where it is not clear."""
        return int(self.low > 0) - int(self.high < 0)


@dataclass(frozen=True, eq=False)
class PairedMetrics:
    """Metrics of several methods (mean over seeds) and how they vary together.

    Attributes:
        mean: array of shape (n_methods,).
        by_user, by_seed, by_both: arrays of shape (n_methods, n_methods), covariances of the mean
            from the mean squares over users, over seeds and over both.
        users, seeds: how many there are.
    """

    mean: Floats
    by_user: Floats
    by_seed: Floats
    by_both: Floats
    users: int
    seeds: int

    @classmethod
    def from_totals(
        cls, totals: Floats, counts: Floats, *, root: bool = False, known: Sequence[float] = ()
    ) -> PairedMetrics:
        """Compute the metrics from sums per user.

        A metric is the sum of totals divided by the sum of counts, or its square root. Every method
        needs a rating in every seed.

        Args:
            totals: array of shape (n_seeds, n_users, n_methods), sums over a user's held-out
                ratings.
            counts: array of the same shape, number of these ratings.
            root: whether to take the square root.
            known: the metric of one more method in each seed, which becomes the last one. Its
                scores by user are unknown, so it is taken as it is for these users.
        """
        has_ratings = counts.any(axis=(0, 2))
        totals = totals[:, has_ratings]
        counts = counts[:, has_ratings]
        seeds, users, methods = totals.shape
        n_ratings = counts.sum(axis=1, keepdims=True)
        means = totals.sum(axis=1, keepdims=True) / n_ratings
        influence = users * (totals - means * counts) / n_ratings
        values = means[:, 0]
        if root:  # by the delta method, with the derivative 1 / (2 sqrt(mean))
            values = np.sqrt(values)
            influence /= 2 * np.maximum(values, np.finfo(float).tiny)[:, None]
        if len(known):
            values = np.column_stack([values, known])
            influence = np.pad(influence, ((0, 0), (0, 0), (0, 1)))
            methods += 1
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

    def estimate_interval(self, weights: Floats, level: float = LEVEL) -> IntervalEstimate:
        """Estimate a weighted sum of the metrics, with its interval.

        Args:
            weights: array of shape (n_methods,).
            level: confidence level of the interval.
        """
        value = float(weights @ self.mean)
        half = self._half_width(weights, level)
        return IntervalEstimate(value, value - half, value + half)

    def estimate_share(self, numerator: Floats, denominator: Floats) -> IntervalEstimate | None:
        """Estimate the ratio of two weighted sums of the metrics, with its interval.

        The result is None where the denominator is not clearly above 0.

        Args:
            numerator, denominator: arrays of shape (n_methods,), weights of the metrics.
        """
        total = self.estimate_interval(denominator)
        if total.sign < 1:
            return None
        share = float(numerator @ self.mean) / total.value

        def is_possible(r: float) -> bool:
            """Return whether the share may be r, so that numerator - r denominator may be 0."""
            weights = numerator - r * denominator
            return abs(float(weights @ self.mean)) <= self._half_width(weights, LEVEL)

        return IntervalEstimate(
            share,
            _find_interval_end(is_possible, share, -1.0),
            _find_interval_end(is_possible, share, 1.0),
        )

    def _half_width(self, weights: Floats, level: float) -> float:
        """Return half the width of the interval of a weighted sum: t times its standard error.

        The degrees of freedom follow Satterthwaite.

        Args:
            weights: array of shape (n_methods,).
            level: confidence level of the interval.
        """
        if self.seeds < 2 or self.users < 2:
            return math.inf
        user, seed, interaction = (
            max(float(weights @ matrix @ weights), 0.0)
            for matrix in (self.by_user, self.by_seed, self.by_both)
        )
        # The variances of users and of seeds both hold the interaction, which counts once.
        variance = max(user + seed - interaction, user, seed)
        if variance == 0:
            return 0.0
        degrees_of_freedom = variance**2 / (user**2 / (self.users - 1) + seed**2 / (self.seeds - 1))
        return float(stdtrit(degrees_of_freedom, 0.5 + level / 2)) * math.sqrt(variance)


def _find_interval_end(is_possible: Callable[[float], bool], start: float, sign: float) -> float:
    """Return the last number, going up or down from `start`, at which a condition still holds.

    The distance is doubled until the condition fails, and then bisected. The bisection ends at
    `_MIN_DISTANCE` if the condition holds at the start alone.

    Args:
        is_possible: the condition, which holds at the start.
        start: where the search starts.
        sign: 1 to go up, -1 to go down.

    Returns:
        The number; infinite if it is further than _MAX_SHARE from the start.
    """
    lower, upper = 0.0, 1e-6
    while is_possible(start + sign * upper):
        lower, upper = upper, 2 * upper
        if upper > _MAX_SHARE:
            return sign * math.inf
    while upper - lower > max(1e-9 * upper, _MIN_DISTANCE):
        middle = (lower + upper) / 2
        lower, upper = (middle, upper) if is_possible(start + sign * middle) else (lower, middle)
    return start + sign * lower
