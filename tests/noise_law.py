"""The law of noise: whether what a release draws follows the density on its record.

An oracle of the tests, independent of the samplers: distribution functions from SciPy. Honest
noise is accused with a chance of `FALSE_ALARM` at most, all releases of a card together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import betainc, gammainc, ndtr

from dpmc_core.arrays import Floats, Rng
from dpmc_core.privacy import (
    Additive,
    Gaussian,
    Guarantee,
    ModifiedLaplace,
    NormLaplace,
    RandomizedResponse,
    Release,
    SymbolChannel,
)

FALSE_ALARM = 1e-4
DRAWS = 20_000  # numbers drawn of each release, at least
N_OBSERVED = 64  # ratings, where a record leaves their number open
MAX_TESTED = 200_000  # draws in one test


def find_misfits(guarantee: Guarantee, planted: Guarantee, seed: int = 1) -> list[str]:
    """Return the names of the releases whose draws do not follow the card's densities.

    Args:
        guarantee: the honest guarantee.
        planted: the guarantee whose releases draw; the same one where there is no fault.
    """
    stated_releases, drawing = dict(guarantee.releases), dict(planted.releases)
    misfits = []
    for k, (name, release) in enumerate(stated_releases.items()):
        rng = np.random.default_rng([seed, 4, k])
        p_values = list(compute_p_values(release, drawing[name], rng))
        if min(p_values) * len(p_values) * len(stated_releases) < FALSE_ALARM:
            misfits.append(name)
    return misfits


def compute_p_values(stated: Release, drawing: Release, rng: Rng) -> Iterator[float]:
    """Yield p-values of the drawing release's outputs under the honest release's law."""
    shape = _fill_shape(stated)
    times = max(2, math.ceil(min(2, math.prod(shape)) * DRAWS / math.prod(shape)))
    if isinstance(stated, Additive):
        yield from _additive_p_values(stated, _publish(drawing, np.zeros(shape), times, rng))
        return
    times = max(2, math.ceil(DRAWS / math.prod(shape)))
    for value in _list_inputs(stated):
        yield from _output_p_values(stated, value, _publish(drawing, value, times, rng))


def _fill_shape(release: Release) -> tuple[int, ...]:
    return tuple(N_OBSERVED if n is None else n for n in release.shape)


def _publish(release: Release, value: Any, times: int, rng: Rng) -> list[Any]:
    return [release.publish(value, rng) for _ in range(times)]


def _additive_p_values(release: Additive, outputs: list[Floats]) -> Iterator[float]:
    """Test distribution and mean size of draws, neighbours in an answer, answers in a row."""
    noise = np.stack(outputs)
    if isinstance(release, NormLaplace):
        d = release.length
        rows = noise.reshape(len(noise), -1, d)
        norms = np.linalg.norm(rows, axis=-1)
        cells = gammainc(d, norms / release.scale)
        yield _uniform_p_value(cells)
        yield _mean_p_value(norms / release.scale, d, d)
        if d > 1:  # a coordinate of a uniform direction
            projection = 0.5 * (1 + rows[..., 0] / norms)
            yield _uniform_p_value(betainc((d - 1) / 2, (d - 1) / 2, projection))
    else:
        z, gaussian = noise / release.scale, isinstance(release, Gaussian)
        cells = (ndtr(z) if gaussian else _laplace_cdf(z)).reshape(len(noise), -1)
        yield _uniform_p_value(cells)
        yield _mean_p_value(z**2, 1, 2) if gaussian else _mean_p_value(np.abs(z), 1, 1)
    if cells.shape[1] > 1:
        yield _correlation_p_value(cells[:, :-1:2], cells[:, 1::2])
    yield _correlation_p_value(cells[:-1:2], cells[1::2])


def _laplace_cdf(z: Floats) -> Floats:
    """Return the distribution function of Laplace noise of scale 1."""
    return stats.laplace.cdf(z)


def _uniform_p_value(values: Floats) -> float:
    """Return the Kolmogorov-Smirnov p-value of uniform numbers."""
    return float(stats.kstest(values.ravel()[:MAX_TESTED], "uniform", method="asymp").pvalue)


def _mean_p_value(values: Floats, mean: float, variance: float) -> float:
    """Return the two-sided p-value of a mean, by the central limit theorem."""
    values = values.ravel()[:MAX_TESTED]
    return float(2 * ndtr(-abs(float(values.mean()) - mean) / math.sqrt(variance / len(values))))


def _correlation_p_value(first: Floats, second: Floats) -> float:
    """Return the p-value of the correlation between two lists of uniform numbers."""
    a, b = first.ravel()[:MAX_TESTED], second.ravel()[:MAX_TESTED]
    n = min(len(a), len(b))
    z = 12 * float(((a[:n] - 0.5) * (b[:n] - 0.5)).sum()) / math.sqrt(n)
    return float(2 * ndtr(-abs(z)))


def _frequency_p_value(counts: Floats, chances: Floats) -> float:
    """Return the chi-square p-value of counts; rare outcomes join the most frequent."""
    possible, total = chances > 0, counts.sum()
    if counts[~possible].any():
        return 0.0
    observed, expected = counts[possible], total * chances[possible]
    rare = expected < 5
    if rare.any():
        rare[expected.argmax()] = True
        observed, expected = (
            np.append(x[~rare], total - x[~rare].sum()) for x in (observed, expected)
        )
    return 1.0 if len(expected) < 2 else float(stats.chisquare(observed, expected).pvalue)


def _list_inputs(release: Release) -> list[Any]:
    """Values with one input everywhere."""
    shape = _fill_shape(release)
    if isinstance(release, RandomizedResponse):
        return [np.full(shape, k) for k in range(len(release.channel))]
    from scipy.sparse import csr_array

    ends = (1.0, float(len(release.levels))) if isinstance(release, SymbolChannel) else (-1.0, 1.0)
    return [*(csr_array(np.full(shape, end)) for end in ends), csr_array(shape)]


def _output_p_values(release: Release, value: Any, outputs: list[Any]) -> Iterator[float]:
    if isinstance(release, ModifiedLaplace):
        rated = value.nnz > 0
        noise = np.concatenate([y.data for y in outputs]).astype(float)
        chance = 1 - release.flip if rated else release.flip
        counts = np.array([len(noise), math.prod(value.shape) * len(outputs) - len(noise)], float)
        yield _frequency_p_value(counts, np.array([chance, 1 - chance]))
        yield _uniform_p_value(
            _laplace_cdf((noise - (value.data[0] if rated else 0.0)) / release.scale)
        )
        return
    assert isinstance(release, RandomizedResponse | SymbolChannel)
    symbol, *symbols = (
        (array.toarray() if isinstance(release, SymbolChannel) else np.asarray(array)).ravel()
        for array in (value, *outputs)
    )
    row, answers = release.matrix[int(symbol[0])], np.concatenate(symbols).astype(np.int64)
    yield _frequency_p_value(np.bincount(answers, minlength=len(row)).astype(float), row)
    answer_pairs = answers[: len(answers) // 2 * 2].reshape(-1, 2)
    pairs = np.bincount(answer_pairs[:, 0] * len(row) + answer_pairs[:, 1], minlength=len(row) ** 2)
    yield _frequency_p_value(pairs.astype(float), np.outer(row, row).ravel())
