"""Laplace noise on sums of terms that are drawn: each counts w times with chance 1/w.

The weights are those of Poisson importance sampling (RYHH24, section IV-C): the expected sum stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpmc_core.arrays import Bools, Floats, Rng, Sparse
from dpmc_core.errors import InvalidSetting, check_number
from dpmc_core.privacy import noise
from dpmc_core.privacy.accounting import Loss, PureReleases
from dpmc_core.privacy.releases import Laplace
from dpmc_core.stopping import check_cancelled

_BISECTIONS = 200
_MAX_EXPONENT = 700.0  # e to it is a float
_MAX_WEIGHT = 2.0**1023  # the largest power of two that is a float


def importance_weights(losses: ArrayLike, epsilon: float) -> Floats:
    """The largest weights w >= 1 at which sampling with probability 1/w keeps the loss at epsilon.

    losses: a >= 0, the privacy loss of each term at weight 1; at weight w it is a w. A term drawn
    with probability 1/w and then counted w times has the loss ln(1 + (e^{a w} - 1)/w), which is
    epsilon where (e^{a w} - 1)/w = e^epsilon - 1 (RYHH24, Theorem 2 and Problem 1; its Algorithm 3
    drops the -1/w). A term with a >= epsilon keeps w = 1; one with a = 0 has no largest weight
    and gets infinity, so it is never drawn; so does one whose weight no float can hold. By
    bisection, all terms at once.
    """
    check_number("epsilon", epsilon, above=0)
    a = np.asarray(losses, dtype=float)
    target = _log_expm1(np.asarray(float(epsilon)))

    def too_large(w: Floats) -> Bools:
        return _log_expm1(a * w) > target + np.log(w)

    low = np.ones_like(a)
    high = np.full_like(a, 2.0)
    is_open = (a > 0) & (a < epsilon)
    while (growing := is_open & (high < _MAX_WEIGHT) & ~too_large(high)).any():
        low = np.where(growing, high, low)
        high = np.where(growing, 2.0 * high, high)
    is_unbounded = (a == 0) | (is_open & ~too_large(high))
    for _ in range(_BISECTIONS):
        check_cancelled()
        middle = 0.5 * (low + high)
        is_above = too_large(middle)
        high = np.where(is_above, middle, high)
        low = np.where(is_above, low, middle)
        if np.all(high - low <= 1e-14 * high):
            break
    return np.where(is_unbounded, np.inf, np.where(is_open, low, 1.0))


def amplified_losses(losses: ArrayLike, weights: ArrayLike) -> Floats:
    """The privacy loss of each term that is drawn with chance 1/w and counted w times.

    ln(1 + (e^{a w} - 1)/w) (RYHH24, Theorem 2), without overflow; 0 where the loss a at weight 1
    is 0, and for an infinite weight: that term is never drawn.
    """
    a, w = np.broadcast_arrays(np.asarray(losses, float), np.asarray(weights, float))
    amplified: Floats = np.zeros(a.shape)
    is_small = np.isfinite(w)
    with np.errstate(over="ignore"):
        scaled_losses = np.multiply(a, w, where=is_small, out=np.zeros(a.shape))
    is_large = scaled_losses > _MAX_EXPONENT
    is_small &= ~is_large
    amplified[is_small] = np.log1p(np.expm1(scaled_losses[is_small]) / w[is_small])
    with np.errstate(divide="ignore"):  # a term that is always drawn: ln 0
        log_not_drawn = np.log1p(-1.0 / w[is_large])
    amplified[is_large] = np.logaddexp(log_not_drawn, scaled_losses[is_large] - np.log(w[is_large]))
    return amplified


def _log_expm1(x: Floats) -> Floats:
    """ln(e^x - 1) without overflow; -inf at 0."""
    with np.errstate(divide="ignore"):
        logs: Floats = np.where(
            x > 1.0, x + np.log1p(-np.exp(-x)), np.log(np.expm1(np.minimum(x, 1.0)))
        )
    return logs


# --- the release -----------------------------------------------------------------------------

_RELATIVE_LENGTHS = 2.0 ** -np.arange(
    40
)  # of terms whose loss is worked out, in the longest one's length
_SLACK = 1e-9  # relative: what floats lose in a term's length and weight


@dataclass(frozen=True, eq=False)
class Sums:
    """What a `SampledLaplace` is asked: sums of public terms; as an array, these sums.

    rows: rows x terms, sparse: its stored cells are what each row adds up, once each, whatever
    their values. terms: of d numbers each.
    """

    rows: Sparse
    terms: Floats

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return self.sum_terms(np.ones(len(self.rows.indices))).astype(dtype, copy=False)

    @property
    def lengths(self) -> Floats:
        """The l1 length of each term."""
        l1_lengths: Floats = np.abs(self.terms).sum(axis=1)
        return l1_lengths

    def sum_terms(self, times: Floats) -> Floats:
        """The sums with each of the stored cells counted so often."""
        from scipy.sparse import csr_array

        rows = csr_array((times, self.rows.indices, self.rows.indptr), shape=self.rows.shape)
        return np.asarray(rows @ self.terms)


@dataclass(frozen=True, kw_only=True)
class SampledLaplace(Laplace):
    """Coordinate-wise Laplace noise on sums of terms, each drawn by a coin of its own.

    longest: no term's l1 length s is greater. budget: what a term may spend that is not always
    counted. Always counted, a term has the loss a = s/scale; its weight is the largest w >= 1 with
    which it spends no more than the budget (see `importance_weights`), and it is drawn with chance
    1/w. Of a plain array every term counts once.

    Given all other coins, let f be the density of the answer without a term, and g with it, counted
    w times: g/f is within e^{-aw}..e^{aw}. Where the term comes, drawn with chance q, the density
    goes from f to (1 - q) f + q g, so it rises by 1 + q (e^{aw} - 1) at most. By its going it rises
    by 1/(1 - q (1 - e^{-aw})) at most, which is no more: the first times the inverse of the second
    is 1 + q (1 - q) (e^{aw} + e^{-aw} - 2) >= 1. So either way the term spends
    ln(1 + q (e^{aw} - 1)) (RYHH24, Theorem 2), and less with a smaller q than 1/w. The average over
    the other coins keeps the bound, and several terms add up, one after the other.

    sensitivity: in l1, before any is drawn: `longest` for each term that may come or go. A shorter
    term is drawn rarely, counted more, and spends as much, so only whole multiples are bounds.
    """

    longest: float
    budget: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(f"longest term of '{self.query}'", self.longest, above=0)
        check_number(f"budget of a term of '{self.query}'", self.budget, above=0)
        for change, s in self.sensitivity.items():
            terms = max(round(s / self.longest), 1 if s > 0 else 0)
            excess = s - terms * self.longest  # a hair, where a release counts its rounding
            if not -_SLACK * s <= excess <= 1e-3 * self.longest:
                raise InvalidSetting(
                    f"sensitivity of '{self.query}' {change.label}",
                    f"a multiple of {self.longest:g}, the length of the longest term",
                    s,
                )

    def weights(self, lengths: Floats) -> Floats:
        """How often a drawn term of each l1 length counts; infinite for one that is never drawn."""
        return importance_weights(lengths / self.scale, self.budget)

    @property
    def term_epsilon(self) -> float:
        """The most that one term spends in one publication, by coming or going."""
        return _largest_loss(self.longest / self.scale, self.budget)

    def loss(self, sensitivity: float) -> Loss:
        # terms may meet in one row, where several are no independent answers
        return Loss.from_pure(
            PureReleases(sensitivity / self.longest * self.term_epsilon, self.times)
        )

    def _apply_sampling(self, value: ArrayLike, array: Floats, rng: Rng) -> Floats:
        if not isinstance(value, Sums):
            return array
        weights = self.weights(value.lengths)
        spent = amplified_losses(value.lengths / self.scale, weights)
        if not (spent <= self.term_epsilon * (1 + _SLACK)).all():
            max_length = float(value.lengths.max())
            raise InvalidSetting(
                f"length of a term of '{self.query}'", f"<= {self.longest:g}", max_length
            )
        entry_weights = weights[value.rows.indices]
        return value.sum_terms(np.where(noise.flip_coins(entry_weights, rng), entry_weights, 0.0))


@lru_cache(maxsize=1024)
def _largest_loss(longest: float, budget: float) -> float:
    """The most that a term of loss 0..longest spends with its weight.

    Worked out at the longest one, at one that spends the budget, and at shorter ones: these all
    spend as much, for their weights solve one equation.
    """
    losses = np.append(longest * _RELATIVE_LENGTHS, min(longest, budget))
    return float(amplified_losses(losses, importance_weights(losses, budget)).max())
