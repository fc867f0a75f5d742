"""Distribution tests with one stated false-alarm rate, for noise and channels of any mechanism.

A correct sampler fails any one of these assertions with probability FALSE_ALARM; with the fixed
seeds the tests use, it either always passes or always fails. Each helper is itself tested on
planted bugs in test_noise.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from dpmc_core.privacy import (
    Additive,
    Gaussian,
    Harmless,
    Laplace,
    NormLaplace,
    RandomizedResponse,
    harmless,
)

FALSE_ALARM = 1e-6

Floats = NDArray[np.float64]


def assert_drawn_from(
    draws: ArrayLike, cdf: Callable[[Floats], Any], false_alarm: float = FALSE_ALARM
) -> None:
    """Kolmogorov-Smirnov: independent draws come from the continuous distribution `cdf`."""
    flat = np.asarray(draws, dtype=float).ravel()
    p = stats.kstest(flat, cdf).pvalue
    assert p >= false_alarm, f"{flat.size} draws do not follow the distribution: p = {p:.2g}"


def assert_frequencies(
    counts: ArrayLike, probabilities: ArrayLike, false_alarm: float = FALSE_ALARM
) -> None:
    """Chi-square: counts of outcomes follow `probabilities`; impossible outcomes never occur."""
    observed, p = np.asarray(counts, dtype=float), np.asarray(probabilities, dtype=float)
    assert observed[p == 0].sum() == 0, "an impossible outcome occurred"
    observed, expected = observed[p > 0], observed.sum() * p[p > 0] / p.sum()
    assert expected.min() >= 5, "too few trials for a chi-square test"
    if len(expected) > 1:
        tail = stats.chisquare(observed, expected).pvalue
        assert tail >= false_alarm, f"{observed} where {expected} is expected: p = {tail:.2g}"


def assert_independent(runs: ArrayLike, false_alarm: float = FALSE_ALARM) -> None:
    """No pair of columns of a runs x cells array is correlated (Spearman, Bonferroni)."""
    array = np.asarray(runs, dtype=float)
    count, cells = array.shape
    ranks = stats.rankdata(array, axis=0)
    correlation = np.corrcoef(ranks, rowvar=False)[np.triu_indices(cells, 1)]
    limit = stats.norm.isf(false_alarm / 2 / len(correlation)) / np.sqrt(count - 1)
    worst = np.abs(correlation).max()
    assert worst <= limit, f"two cells are correlated: {worst:.3g} > {limit:.3g}"


def publish_noise(
    release: Additive, runs: int, rng: np.random.Generator, observed: int = 8
) -> Floats:
    """The noise of `runs` publications, shape (runs, *shape); `observed` replaces None.

    Every other run publishes zeros, where a cell without noise shows exactly.
    """
    shape = tuple(observed if n is None else n for n in release.shape)
    values = (np.zeros(shape), harmless(rng, Harmless.START).normal(size=shape))
    noise = [release.publish(values[k % 2], rng) - values[k % 2] for k in range(runs)]
    assert np.all(noise[::2]), "a cell was published without noise"
    return np.stack(noise)


def assert_release_noise(release: Additive, rng: np.random.Generator, runs: int = 4000) -> None:
    """Every publication adds fresh noise of the release's own distribution to every cell.

    Three tests at FALSE_ALARM / 3 each: the distribution over all cells and runs, independence of
    the cells (at most 8 are compared), independence of successive publications.
    """
    noise = publish_noise(release, runs, rng)
    cells = noise.reshape(runs, -1)[:, :8]
    each = FALSE_ALARM / 3
    if isinstance(release, NormLaplace):
        assert_norm_laplace(noise, release.scale, each)
        cells = noise.reshape(runs, -1, release.length)[:, :8, 0]  # coordinates share the norm
    elif isinstance(release, Laplace):
        assert_drawn_from(noise, stats.laplace(scale=release.scale).cdf, each)
    else:
        assert isinstance(release, Gaussian)
        assert_drawn_from(noise, stats.norm(scale=release.scale).cdf, each)
    if cells.shape[1] > 1:
        assert_independent(cells, each)
    assert_independent(np.stack([cells[:-1, 0], cells[1:, 0]], axis=1), each)


def assert_scale(noise: ArrayLike, release: Additive, false_alarm: float = FALSE_ALARM) -> None:
    """The size of all noise together: sum |x|/scale is Gamma, for Gaussian noise sum x^2/scale^2
    chi-square; rows of `NormLaplace` count by their norm.

    Sees far smaller errors of a scale than the distribution tests: with 120,000 numbers, 3 % are
    10 standard deviations of Laplace and 14 of Gaussian noise.
    """
    z = np.asarray(noise, dtype=float) / release.scale
    if isinstance(release, Gaussian):
        total, distribution = float(np.square(z).sum()), stats.chi2(z.size)
    else:
        rows = isinstance(release, NormLaplace)
        size = np.linalg.norm(z, axis=-1) if rows else np.abs(z)
        total, distribution = float(size.sum()), stats.gamma(z.size)
    p = 2 * min(distribution.cdf(total), distribution.sf(total))
    scale_ratio = total / distribution.mean()
    assert p >= false_alarm, (
        f"{z.size} numbers have a scale off by a factor {scale_ratio:.4f}: p = {p:.2g}"
    )


def assert_norm_laplace(rows: Floats, scale: float, false_alarm: float = FALSE_ALARM) -> None:
    """Rows (last axis) have Gamma(d, scale) norms, a uniform direction, and the two independent."""
    d = rows.shape[-1]
    flat = rows.reshape(-1, d)
    norms = np.linalg.norm(flat, axis=1)
    each = false_alarm / (d + 2)
    assert_drawn_from(norms, stats.gamma(d, scale=scale).cdf, each)
    if d == 1:
        assert_frequencies([(flat > 0).sum(), (flat < 0).sum()], [0.5, 0.5], each)
        return
    cosine = flat / norms[:, None]
    for coordinate in cosine.T:  # of a uniform direction: (1 + cos)/2 ~ Beta((d-1)/2, (d-1)/2)
        assert_drawn_from((1 + coordinate) / 2, stats.beta((d - 1) / 2, (d - 1) / 2).cdf, each)
    assert_independent(np.column_stack([norms, cosine[:, 0]]), each)


def assert_channel(
    release: RandomizedResponse, rng: np.random.Generator, per_symbol: int = 20_000
) -> None:
    """Each input symbol meets its row of the channel, and neighbouring cells are independent."""
    matrix = release.matrix
    inputs, outputs = matrix.shape
    each = FALSE_ALARM / (2 * inputs)
    shape = release.shape
    symbols = np.resize(
        np.repeat(np.arange(inputs), 2), _fill_shape(shape, 2 * inputs * per_symbol)
    )
    published = np.asarray(release.publish(symbols, rng)).ravel()
    first, second = symbols.ravel()[:-1:2], symbols.ravel()[1::2]
    out_first, out_second = published[:-1:2], published[1::2]
    for a in range(inputs):
        row = matrix[a]
        assert_frequencies(
            np.bincount(published[symbols.ravel() == a], minlength=outputs), row, each
        )
        matches_both = (first == a) & (second == a)
        pairs = out_first[matches_both] * outputs + out_second[matches_both]
        joint = np.outer(row, row).ravel()
        counts = np.bincount(pairs, minlength=outputs * outputs)
        rare = joint * matches_both.sum() < 5
        assert_frequencies(counts[~rare], joint[~rare], each)


def _fill_shape(shape: tuple[int | None, ...], total: int) -> tuple[int, ...]:
    """The shape with its free axis long enough for about `total` cells."""
    known_size = int(np.prod([n for n in shape if n is not None]))
    assert None in shape, "the channel's shape must have a free axis"
    return tuple(max(1, total // known_size) if n is None else n for n in shape)
