"""Exact samplers with operating-system entropy, for answers that are really published.

Textbook noise leaks: the least significant bits of value + noise show which value it was (Mironov,
"On significance of the least significant bits for differential privacy", 2012). Here a value is
rounded to a multiple of 2^k and gets noise that is discrete on the same grid, so every output can
come from every value: Laplace and Gaussian noise by the package opendp (extra `release`), channels
by random bits compared with probabilities that are multiples of 2^-62.

The rounding is counted: N coordinates move by at most N 2^k in l1 and sqrt(N) 2^k in l2, and k is
chosen so that this is at most 2^-40 of the noise scale. The coins of a sampled sum are random bits
compared with probabilities that are rounded down: a term that is drawn less often spends less.

Two things are not covered: the rounding of floating point inside a query, before its noise, which
may move an answer a little further than its sensitivity says; and the running time of a
computation.
"""

from __future__ import annotations

import enum
import math
import os
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

import numpy as np

from dpmc_core.arrays import Bools, Floats, Integers, Ints, Rng, Uint64s
from dpmc_core.errors import CannotRelease, InvalidSetting, check_number

_ROUNDING_BITS = 40  # rounding may cost 2^-40 of the noise scale, negligible beside any budget
_PROBABILITY_BITS = 62  # bits of a channel's probabilities: their sum then fits a 64-bit word
_MIN_PROBABILITY = 2.0**-40  # multiples of 2^-62 represent it to about seven digits
_COORDINATES_PER_BLOCK = 100_000  # sampled at once: a second or two, then Ctrl-C takes effect
# Relative decrease of a coin's probability, which exceeds the rounding errors on the way.
_COIN_MARGIN = 2.0**-40
_SMOOTHING_STEPS = 6.0  # in grid steps; see `discrete_gaussian_mu`
_ROUND_UP = 1 + 2.0**-50  # a bound computed in floats stays a bound


class Harmless(enum.Enum):
    """The random choices on which no privacy rests: anybody may know them.

    They are drawn independently of the data. For every outcome of them, known or not, a change of
    the data moves a mechanism's releases no further than its guarantee says. So the promise holds
    for each outcome, and for a random one.
    """

    # A guarantee bounds every answer whatever the starting point of its search: by a clip or a
    # feasible set, or because the whole search works on published answers.
    START = "where a search starts"
    # For a given key the ratings a row keeps are a function of that row alone, so two data sets
    # that differ in one user's row still do after the cap. That does not hold for single cells:
    # one more rating can displace another one. Only guarantees for whole users may rely on it.
    CAP = "which of a user's own ratings a cap keeps"


def harmless(rng: Rng, choice: Harmless) -> Rng:
    """Return the generator for a choice on which no privacy rests.

    Args:
        rng: a seeded generator, which is returned itself; or a `SecureSource`, which returns a
            plain generator and refuses to draw without this call.
        choice: the choice.
    """
    return rng.harmless(choice) if isinstance(rng, SecureSource) else rng


class SecureSource(Rng):
    """A source of randomness that makes every release sample its noise exactly.

    It is passed to `fit` in place of a seeded generator. A release draws its noise by the methods
    below. The draws of a NumPy generator raise CannotRelease; a choice on which no privacy rests
    gets its generator by `harmless`.

    Attributes:
        draw_counts: how often each noise was sampled, by (kind, scale, number of coordinates), for
            comparison with a guarantee; for channels and coins it is the number of symbols or of
            coins, with scale 0 and one coordinate.
        harmless_counts: how often each harmless choice was requested.
    """

    def __init__(self) -> None:
        super().__init__(np.random.PCG64())  # never drawn from: see `_refuse_draw`
        load_opendp()  # a missing package is reported before the work, not after
        self.draw_counts: Counter[tuple[str, float, int]] = Counter()
        self.harmless_counts: Counter[Harmless] = Counter()
        self._plain = np.random.default_rng()  # seeded by the operating system

    def harmless(self, choice: Harmless) -> Rng:
        """Return a plain generator for this choice alone."""
        self.harmless_counts[choice] += 1
        return self._plain

    def add_noise(self, kind: str, value: Floats, scale: float) -> Floats:
        """Round a value to the grid and add discrete noise, coordinate by coordinate.

        Args:
            kind: "laplace" or "gaussian".
            value: array of any shape.
            scale: scale of the noise, in the unit of the value.

        Returns:
            Array of the same shape.
        """
        flat = value.ravel()
        out = np.empty(value.size)
        k = grid_exponent(scale, flat.size)
        for start in range(0, flat.size, _COORDINATES_PER_BLOCK):
            chunk = flat[start : start + _COORDINATES_PER_BLOCK]
            out[start : start + _COORDINATES_PER_BLOCK] = build_measurement(
                kind, scale, chunk.size, k
            )(chunk.tolist())
        self.draw_counts[kind, scale, flat.size] += 1
        return out.reshape(value.shape)

    def pass_channel(self, matrix: Floats, symbols: Integers) -> Integers:
        """Pass each symbol a through row a of a channel.

        Args:
            matrix: array of shape (n_inputs, n_outputs), rows of probabilities.
            symbols: integer array of any shape, inputs.

        Returns:
            Array of the same shape and type, outputs.
        """
        self.draw_counts["channel", 0.0, 1] += symbols.size
        out = np.empty_like(symbols)
        for a, row in enumerate(matrix):
            mask = symbols == a
            out[mask] = _sample_categorical(quantise_probabilities(row), int(mask.sum()))
        return out

    def flip_coins(self, weights: Floats) -> Bools:
        """Flip a coin for each term, with probability 1/w rounded down (see `quantise_inclusions`).

        Args:
            weights: array of shape (n_terms,), at least 1.

        Returns:
            Mask of shape (n_terms,), True for terms that are drawn.
        """
        self.draw_counts["coin", 0.0, 1] += weights.size
        thresholds = quantise_inclusions(weights)
        return _draw_uniform_integers(thresholds.size) < thresholds


def _refuse_draw(draw: str) -> Callable[..., NoReturn]:
    """Return a method for `SecureSource` that refuses the draw of this name."""

    def refuse(self: SecureSource, *_: Any, **__: Any) -> NoReturn:  # noqa: ARG001
        raise CannotRelease(
            f"the plain draw '{draw}' has no exact sampler: what privacy rests on leaves by a"
            " release, and other choices are named (dpmc_core.privacy.harmless)"
        )

    return refuse


for _draw in dir(Rng):
    if not _draw.startswith("_") and callable(getattr(Rng, _draw)):
        setattr(SecureSource, _draw, _refuse_draw(_draw))


@cache
def load_opendp() -> Any:
    """Import the package opendp.

    Raises:
        CannotRelease: if it is not installed.
    """
    try:
        import opendp.prelude as dp
    except ImportError:
        raise CannotRelease(
            "exact noise needs the package opendp: run 'pip install \"dpmc-lab[release]\"'"
        ) from None
    dp.enable_features("contrib")  # required for all of its samplers
    return dp


def grid_exponent(scale: float, count: int) -> int:
    """Return k such that rounding `count` coordinates to 2^k moves them by <= 2^-40 scale in l1.

    Args:
        scale: scale of the noise.
        count: number of coordinates of the answer.

    Raises:
        InvalidSetting: if the scale is too small or too large for the grid.
    """
    check_number("noise scale that is to be sampled", scale, at_least=1e-200, at_most=1e200)
    return math.frexp(scale)[1] - 1 - _ROUNDING_BITS - (max(count, 1) - 1).bit_length()


def build_measurement(kind: str, scale: float, count: int, k: int) -> Any:
    """Build OpenDP's measurement of `count` coordinates on the grid 2^k.

    Args:
        kind: "laplace" or "gaussian".
        scale: scale of the noise.
        count: number of coordinates.
        k: exponent of the grid.
    """
    dp = load_opendp()
    numbers = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=max(count, 1))
    if kind == "laplace":
        return dp.m.make_laplace(numbers, dp.l1_distance(T=float), scale=scale, k=k)
    return dp.m.make_gaussian(numbers, dp.l2_distance(T=float), scale=scale, k=k)


def discrete_laplace_epsilon(scale: float, count: int, sensitivity: float) -> float:
    """Return the pure epsilon of one answer of `count` coordinates, by OpenDP's own map.

    The rounding to the grid is included.

    Args:
        scale: scale of the Laplace noise.
        count: number of coordinates of the answer.
        sensitivity: the l1 sensitivity of the answer, in the unit of `scale`.
    """
    return _map_sensitivity("laplace", scale, count, sensitivity)


def discrete_gaussian_mu(scale: float, count: int, sensitivity: float) -> float:
    """Return a Gaussian ratio mu that one answer of `count` coordinates does not exceed.

    The answer is no worse than a Gaussian mechanism of that ratio.

    OpenDP's map gives rho = mu^2/2 with the rounding in it (Canonne, Kamath, Steinke, "The discrete
    Gaussian for differential privacy", 2020). The exact Gaussian curve needs more than rho. Take
    sigma, tau in grid steps. Continuous noise of variance sigma^2 - tau^2 on a grid point, then a
    discrete Gaussian of variance tau^2 around the result, is post-processing of a Gaussian
    mechanism, and has the probabilities of the discrete Gaussian of variance sigma^2 up to a factor
    ((1 + e)/(1 - e))^N, e = 2 sum_j exp(-2 pi^2 tau^2 j^2): the sum over the grid of a Gaussian
    around any point is constant up to 1 +- e, by Poisson summation (Peikert, "An efficient and
    parallel Gaussian sampler for lattices", 2010). With tau = 6, e < 1e-308, which no float can
    show; what counts is the ratio of sigma^2 - tau^2 to sigma^2.

    Args:
        scale: standard deviation of the noise.
        count: number of coordinates of the answer.
        sensitivity: the l2 sensitivity of the answer, in the unit of `scale`.
    """
    rho = _map_sensitivity("gaussian", scale, count, sensitivity)
    return _continuous_mu(rho, scale / 2.0 ** grid_exponent(scale, count))


def _continuous_mu(rho: float, steps: float) -> float:
    """Return mu of the continuous mechanism behind discrete noise; see `discrete_gaussian_mu`.

    Args:
        rho: the loss of the discrete mechanism, mu^2/2.
        steps: sigma of the discrete noise, in grid steps.
    """
    return math.sqrt(2 * rho / (1 - (_SMOOTHING_STEPS / steps) ** 2)) * _ROUND_UP


def _map_sensitivity(kind: str, scale: float, count: int, sensitivity: float) -> float:
    """Return the loss by OpenDP's own map: epsilon for "laplace" noise, rho for "gaussian".

    Args:
        kind: "laplace" or "gaussian".
        scale: scale of the noise.
        count: number of coordinates of the answer.
        sensitivity: the sensitivity of the answer, in the unit of `scale`.
    """
    if sensitivity == 0:  # the same value is rounded the same way
        return 0.0
    loss = build_measurement(kind, scale, count, grid_exponent(scale, count)).map(sensitivity)
    return float(loss)


def quantise_probabilities(row: Floats) -> Uint64s:
    """Round probabilities to the multiples of 2^-62 that are sampled.

    Args:
        row: array of shape (n_outputs,), probabilities.

    Returns:
        Array of shape (n_outputs,), integers that sum to 2^62.

    Raises:
        CannotRelease: if a probability is positive and below 2^-40.
    """
    if ((row > 0) & (row < _MIN_PROBABILITY)).any():
        smallest = float(row[row > 0].min())
        raise CannotRelease(
            f"the channel has an output of chance {smallest:.2g}, and below"
            f" {_MIN_PROBABILITY:.2g} it cannot be sampled exactly: take a smaller epsilon"
        )
    # The products are exact: a power of two only shifts.
    integers = [round(float(p) * 2**_PROBABILITY_BITS) for p in row]
    # The most likely output takes up the rounding of all.
    integers[int(np.argmax(row))] += 2**_PROBABILITY_BITS - sum(integers)
    return np.array(integers, dtype=np.uint64)


def quantise_inclusions(weights: Floats) -> Uint64s:
    """Return the probabilities 1/w in multiples of 2^-62; 0 for an infinite weight.

    Probabilities below 1 are first lowered by 2^-40 of themselves, for the rounding errors on the
    way, and then rounded down. A term drawn with probability q and counted w times spends ln(1 + q
    (e^{a w} - 1)), which grows with q.

    Args:
        weights: array of shape (n_terms,), w >= 1.

    Returns:
        Array of shape (n_terms,), integers in 0..2^62.

    Raises:
        InvalidSetting: if a weight is below 1.
    """
    if not (weights >= 1).all():
        raise InvalidSetting("weight of a sampled term", ">= 1", float(weights.min()))
    probabilities = np.where(weights > 1, (1 - _COIN_MARGIN) / weights, 1.0)
    return np.floor(np.ldexp(probabilities, _PROBABILITY_BITS)).astype(np.uint64)


def discrete_channel_epsilon(matrix: Floats) -> float:
    """Return the pure epsilon of one symbol with the sampled probabilities: the largest |ln ratio|.

    Args:
        matrix: array of shape (n_inputs, n_outputs), rows of probabilities.
    """
    rows = [quantise_probabilities(row).tolist() for row in matrix]
    largest = 0.0
    for column in zip(*rows, strict=True):
        low, high = min(column), max(column)
        if high > 0:
            largest = max(largest, math.log1p((high - low) / low) if low > 0 else math.inf)
    return largest * _ROUND_UP


def _sample_categorical(probabilities: Uint64s, count: int) -> Ints:
    """Sample `count` outputs with exactly these probabilities, in multiples of 2^-62."""
    return np.searchsorted(
        np.cumsum(probabilities), _draw_uniform_integers(count), side="right"
    ).astype(np.int64)


def _draw_uniform_integers(count: int) -> Uint64s:
    """Draw uniform integers of 62 random bits."""
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(
        64 - _PROBABILITY_BITS
    )
