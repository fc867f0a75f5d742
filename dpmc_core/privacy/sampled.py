"""Laplace noise on sums of sampled terms: each term counts w times with probability 1/w.

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

_BISECTIONS = 200  # at most; doubles are settled before
_MAX_EXPONENT = 700.0  # its exponential is still finite
_MAX_WEIGHT = 2.0**1023  # the largest power of two that is a float


def importance_weights(losses: ArrayLike, epsilon: float) -> Floats:
    """Return the largest weights w >= 1 for which sampling with probability 1/w has loss epsilon.

    A term of loss a at weight 1 has the loss a w at weight w. Drawn with probability 1/w and then
    counted w times, it has the loss ln(1 + (e^{a w} - 1)/w), which is epsilon where (e^{a w} - 1)/w
    = e^epsilon - 1 (RYHH24, Theorem 2 and Problem 1; its Algorithm 3 drops the -1/w). A term with a
    >= epsilon keeps w = 1. One with a = 0 has no largest weight and gets infinity, so it is never
    drawn; so does one whose weight no float can hold. The weights are found by bisection, all terms
    at once.

    Args:
        losses: array of any shape, the loss a >= 0 of each term at weight 1.
        epsilon: the loss that a sampled term may have.

    Returns:
        Array of the same shape.
    """
    check_number("epsilon", epsilon, above=0)
    a = np.asarray(losses, dtype=float)
    target = _log_expm1(np.asarray(float(epsilon)))

    def is_too_large(w: Floats) -> Bools:
        return _log_expm1(a * w) > target + np.log(w)

    low = np.ones_like(a)
    high = np.full_like(a, 2.0)
    is_sampled = (a > 0) & (a < epsilon)
    # The upper ends double until they are too large, or as large as floats go.
    while (growing := is_sampled & (high < _MAX_WEIGHT) & ~is_too_large(high)).any():
        low = np.where(growing, high, low)
        high = np.where(growing, 2.0 * high, high)
    is_unbounded = (a == 0) | (is_sampled & ~is_too_large(high))
    for _ in range(_BISECTIONS):
        check_cancelled()
        middle = 0.5 * (low + high)
        is_above = is_too_large(middle)
        high = np.where(is_above, middle, high)
        low = np.where(is_above, low, middle)
        if np.all(high - low <= 1e-14 * high):  # a few units in the last place
            break
    return np.where(is_unbounded, np.inf, np.where(is_sampled, low, 1.0))


def amplified_losses(losses: ArrayLike, weights: ArrayLike) -> Floats:
    """Return the privacy loss of each term that is drawn with probability 1/w and counted w times.

    It is ln(1 + (e^{a w} - 1)/w) (RYHH24, Theorem 2), computed without overflow. It is 0 if a = 0,
    and for an infinite weight, because that term is never drawn.

    Args:
        losses: array of any shape, the loss a >= 0 of each term at weight 1.
        weights: array that broadcasts with it, w >= 1.

    Returns:
        Array of the broadcast shape.
    """
    a, w = np.broadcast_arrays(np.asarray(losses, float), np.asarray(weights, float))
    amplified = np.zeros(a.shape)
    is_finite = np.isfinite(w)
    with np.errstate(over="ignore"):  # an infinite loss is large, see below
        scaled_losses = np.multiply(a, w, where=is_finite, out=np.zeros(a.shape))
    is_large = scaled_losses > _MAX_EXPONENT
    is_small = is_finite & ~is_large
    amplified[is_small] = np.log1p(np.expm1(scaled_losses[is_small]) / w[is_small])
    # For large a w the -1/w of the formula is left apart: ln((1 - 1/w) + e^(a w)/w).
    with np.errstate(divide="ignore"):  # ln 0 of a term that is always drawn
        log_not_drawn = np.log1p(-1.0 / w[is_large])
    amplified[is_large] = np.logaddexp(log_not_drawn, scaled_losses[is_large] - np.log(w[is_large]))
    return amplified


def _log_expm1(x: Floats) -> Floats:
    """Return ln(e^x - 1) of an array of any shape, x >= 0, without overflow; -inf at 0."""
    with np.errstate(divide="ignore"):  # ln 0 where x is 0
        return np.where(x > 1.0, x + np.log1p(-np.exp(-x)), np.log(np.expm1(np.minimum(x, 1.0))))


# --- the release -----------------------------------------------------------------------------

# Lengths of the terms whose loss is computed, relative to the longest one.
_RELATIVE_LENGTHS = 2.0 ** -np.arange(40)
_SLACK = 1e-9  # relative rounding error of a term's length and weight


@dataclass(frozen=True, eq=False)
class Sums:
    """The query of a `SampledLaplace`: sums of public terms. `np.asarray` computes the sums.

    Attributes:
        rows: sparse matrix of shape (n_rows, n_terms); its stored cells are the terms that each row
            adds up, once each, whatever their values.
        terms: array of shape (n_terms, d).
    """

    rows: Sparse
    terms: Floats

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        """Return the sums with every term counted once, shape (n_rows, d)."""
        return self.sum_terms(np.ones(len(self.rows.indices))).astype(dtype, copy=False)

    @property
    def lengths(self) -> Floats:
        """The l1 length of each term, of shape (n_terms,)."""
        return np.abs(self.terms).sum(axis=1)

    def sum_terms(self, times: Floats) -> Floats:
        """Sum the terms with each stored cell counted a number of times.

        Args:
            times: array of shape (n_stored,), how often each stored cell counts.

        Returns:
            Array of shape (n_rows, d).
        """
        from scipy.sparse import csr_array

        rows = csr_array((times, self.rows.indices, self.rows.indptr), shape=self.rows.shape)
        return np.asarray(rows @ self.terms)


@dataclass(frozen=True, kw_only=True)
class SampledLaplace(Laplace):
    """Coordinate-wise Laplace noise on sums of terms, each drawn by its own coin.

    A term that always counts has the loss a = s/scale, with s its l1 length. Its weight is the
    largest w >= 1 with which it spends no more than the budget (see `importance_weights`), and it
    is drawn with probability 1/w. In a plain array every term counts once.

    Given all other coins, let f be the density of the answer without a term, and g with it, counted
    w times: g/f is within e^{-aw}..e^{aw}. If the term comes, drawn with probability q, the density
    goes from f to (1 - q) f + q g, so it rises by 1 + q (e^{aw} - 1) at most. If it goes, the
    density rises by 1/(1 - q (1 - e^{-aw})) at most, which is no more: the first times the inverse
    of the second is 1 + q (1 - q) (e^{aw} + e^{-aw} - 2) >= 1. So either way the term spends ln(1 +
    q (e^{aw} - 1)) (RYHH24, Theorem 2), and less with a smaller q than 1/w. The average over the
    other coins keeps the bound, and several terms add up, one after the other.

    The sensitivity is in l1, before any term is drawn: `longest` for each term that may come or go.
    A shorter term is drawn rarely, counted more often, and spends as much, so only whole multiples
    of `longest` are bounds.

    Attributes:
        longest: the largest l1 length of a term, in the unit of the answer.
        budget: the epsilon that a term may spend if it is not always counted.
    """

    longest: float
    budget: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(f"longest term of '{self.query}'", self.longest, above=0)
        check_number(f"budget of a term of '{self.query}'", self.budget, above=0)
        for change, s in self.sensitivity.items():
            terms = max(round(s / self.longest), 1 if s > 0 else 0)
            # The rounding of an exact sampler may raise a sensitivity slightly.
            excess = s - terms * self.longest
            if not -_SLACK * s <= excess <= 1e-3 * self.longest:
                raise InvalidSetting(
                    f"sensitivity of '{self.query}' {change.label}",
                    f"a multiple of {self.longest:g}, the length of the longest term",
                    s,
                )

    def weights(self, lengths: Floats) -> Floats:
        """Return how often a sampled term counts; infinite for a term that is never drawn.

        Args:
            lengths: array of any shape, the l1 length of each term.
        """
        return importance_weights(lengths / self.scale, self.budget)

    @property
    def term_epsilon(self) -> float:
        """The most that one term spends in one publication, by coming or going."""
        return _largest_loss(self.longest / self.scale, self.budget)

    def loss(self, sensitivity: float) -> Loss:
        """Return the loss if sensitivity / `longest` terms change, in all publications."""
        # Terms may lie in one row, so several of them are not independent answers.
        return Loss.from_pure(
            PureReleases(sensitivity / self.longest * self.term_epsilon, self.times)
        )

    def _apply_sampling(self, value: ArrayLike, array: Floats, rng: Rng) -> Floats:
        """Return the sums of sampled terms; a plain array is returned as it is.

        Args:
            value: the answer as it was passed to `publish`, which may be `Sums`.
            array: the answer as an array.
            rng: flips a coin for each term of each row.

        Raises:
            InvalidSetting: if a term is longer than `longest`.
        """
        if not isinstance(value, Sums):
            return array
        weights = self.weights(value.lengths)
        # A term that is too long would spend more than the guarantee counts.
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
    """Return the largest loss of any sampled term whose loss at weight 1 is in 0..longest.

    A term of at least the budget is always counted and spends its own loss, so the longest matters.
    A shorter one gets the weight with which it spends the budget, up to rounding. So the loss is
    computed at the longest term, at one that just spends the budget, and at many shorter ones.

    Args:
        longest: the loss at weight 1 of the longest term.
        budget: the loss that a term may have if it is not always counted.
    """
    losses = np.append(longest * _RELATIVE_LENGTHS, min(longest, budget))
    return float(amplified_losses(losses, importance_weights(losses, budget)).max())
