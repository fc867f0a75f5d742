"""The sampler: what each release draws, against the noise and the epsilon on its record.

Each release publishes again and again, values that are known. Its draws are tested against their
density, and against each other; then two values that lie as far apart as the record allows are told
apart by the worst event, chosen on one half of the draws and counted on the other (DP-Sniper, 2021;
DP-Auditorium, 2024). Honest noise is accused with a chance of `FALSE_ALARM` at most, all together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import betainc, chdtrc, gammainc, ndtr

from dpmc_core.arrays import Floats, Rng
from dpmc_core.lab.refute.report import FALSE_ALARM, Measured, Method, Refuted, Spent, Subject
from dpmc_core.privacy import (
    Additive,
    Gaussian,
    Laplace,
    ModifiedLaplace,
    NormLaplace,
    RandomizedResponse,
    Release,
    SymbolChannel,
    sensitivity_at,
)
from dpmc_core.privacy.audit import event_bound
from dpmc_core.stopping import check_cancelled

DRAWS = 20_000  # of each value of each release, at least; of numbers in twos as many twos
_OBSERVED = 64  # ratings, where a record leaves their number open
_KEPT = 200_000  # draws that are looked at


class Sampler(Subject):
    """Draws from every noise."""

    def audit(self, *_: object) -> Iterator[Measured]:
        """All releases of the card."""
        planted = dict(self.mechanism.guarantee(self.card.public).releases)
        releases, delta = dict(self.card.releases), self.certified.delta
        alarm = FALSE_ALARM / len(releases) / 2
        found: list[Spent] = []
        for name, honest in releases.items():
            check_cancelled()
            rng = np.random.default_rng([self.seed, 4, len(found)])
            if isinstance(honest, Additive):
                moves = sensitivity_at(honest.sensitivity, self.change, self.card.public)
                if not 0 < moves < math.inf:  # no bound: as far as the noise
                    moves = honest.scale
                p_values, epsilon = _additive(honest, planted[name], moves, delta, alarm, rng)
            else:
                moves = 1.0
                p_values, epsilon = _channel(honest, planted[name], delta, alarm, rng)
            allowed = dataclasses.replace(honest, times=1).loss(moves).epsilon_at(delta)
            p = min(1.0, 2 * len(releases) * len(p_values) * min(p_values))
            found.append(Spent(name, honest.query, epsilon, allowed, "epsilon", False, p))
            fit = all(one.fits for one in found)  # a record is true or not on its own
            yield Measured(
                method=Method.SAMPLER,
                valid=len(found) == len(releases),
                epsilon=None,
                delta=delta,
                confidence=1 - FALSE_ALARM,
                done=len(found),
                total=len(releases),
                refuted=Refuted.NOTHING if fit else Refuted.CERTIFICATE,
                releases=tuple(found),
            )


def _shape(release: Release) -> tuple[int, ...]:
    return tuple(_OBSERVED if n is None else n for n in release.shape)


def _told(release: Release, value: Any, times: int, rng: Rng) -> list[Any]:
    """So many publications of a value."""
    found = []
    for _ in range(times):
        check_cancelled()
        found.append(release.publish(value, rng))
    return found


# --- noise added to an array ------------------------------------------------------------------


def _additive(
    honest: Additive, release: Release, moves: float, delta: float, alarm: float, rng: Rng
) -> tuple[list[float], float]:
    """p-values of the draws; the epsilon of the worst event between two values `moves` apart.

    An answer of several numbers is looked at in twos, which move against each other: noise that
    they share would show.
    """
    shape = _shape(honest)
    size = math.prod(shape)
    width = honest.length if isinstance(honest, NormLaplace) else min(2, size)
    # every two numbers, or every row, `moves` from zero in the norm
    each = moves / (width if isinstance(honest, Laplace) else math.sqrt(width))
    pattern = np.resize(np.resize([1.0, -1.0], width) * each, shape)
    times = max(2, math.ceil(min(2, size) * DRAWS / size))
    zero = np.zeros(shape)
    here, there = (np.stack(_told(release, value, times, rng)) for value in (zero, pattern))

    def groups(noisy: Floats) -> Floats:
        """Twos of numbers, or rows, of publications (first axis): groups x their length."""
        return noisy.reshape(len(noisy), -1)[:, : size // width * width].reshape(-1, width)

    low, high = groups(zero[None])[0], groups(pattern[None])[0]

    def ratio(noisy: Floats) -> Floats:
        logs = honest.log_likelihood(noisy, high) - honest.log_likelihood(noisy, low)
        return logs if logs.ndim == 1 else logs.sum(axis=-1)

    def apart(noisy: Floats) -> Floats:
        return (noisy[:, 0] - noisy[:, 1]) / honest.scale

    a, b = (groups(noisy)[: 4 * DRAWS] for noisy in (here, there))
    views = [ratio] if width == 1 else [ratio, apart]
    epsilon = max(
        # rounded: the last bits of floating point tell any two values apart
        event_bound(*np.round((view(b), view(a)), 9), delta=delta, alarm=alarm / len(views))
        for view in views
    )
    return list(_fit(honest, here)), epsilon


def _fit(release: Additive, noise: Floats) -> Iterator[float]:
    """p-values: distribution and mean size of draws, neighbours in an answer, answers in a row."""
    if isinstance(release, NormLaplace):
        d = release.length
        rows = noise.reshape(len(noise), -1, d)
        norms = np.linalg.norm(rows, axis=-1)
        cells = gammainc(d, norms / release.scale)
        yield _uniform(cells)
        yield _mean(norms / release.scale, d, d)
        if d > 1:  # a coordinate of a uniform direction
            along = 0.5 * (1 + rows[..., 0] / norms)
            yield _uniform(betainc((d - 1) / 2, (d - 1) / 2, along))
    else:
        z, gaussian = noise / release.scale, isinstance(release, Gaussian)
        cells = (ndtr(z) if gaussian else _laplace(z)).reshape(len(noise), -1)
        yield _uniform(cells)
        yield _mean(z**2, 1, 2) if gaussian else _mean(np.abs(z), 1, 1)
    if cells.shape[1] > 1:
        yield _related(cells[:, :-1:2], cells[:, 1::2])
    yield _related(cells[:-1:2], cells[1::2])


# --- tests of draws ---------------------------------------------------------------------------


def _laplace(z: Floats) -> Floats:
    """The distribution function of Laplace noise of scale 1."""
    tail = 0.5 * np.exp(-np.abs(z))
    return np.where(z > 0, 1 - tail, tail)


def _uniform(values: Floats) -> float:
    """Kolmogorov-Smirnov: the chance that uniform numbers are so uneven."""
    from scipy.stats import kstest

    return float(kstest(values.ravel()[:_KEPT], "uniform", method="asymp").pvalue)


def _mean(values: Floats, mean: float, variance: float) -> float:
    """The chance that the mean of so many numbers lies so far off."""
    kept = values.ravel()[:_KEPT]
    z = (float(kept.mean()) - mean) / math.sqrt(variance / len(kept))
    return float(2 * ndtr(-abs(z)))


def _related(one: Floats, other: Floats) -> float:
    """The chance that independent uniform numbers go together so much."""
    a, b = one.ravel()[:_KEPT], other.ravel()[:_KEPT]
    n = min(len(a), len(b))
    z = 12 * float(((a[:n] - 0.5) * (b[:n] - 0.5)).sum()) / math.sqrt(n)
    return float(2 * ndtr(-abs(z)))


def _frequencies(counts: Floats, chances: Floats) -> float:
    """Chi-square: the chance that counts lie so far from their chances."""
    possible, total = chances > 0, counts.sum()
    if counts[~possible].any():
        return 0.0
    observed, expected = counts[possible], total * chances[possible]
    rare = expected < 5
    if rare.any():  # together with the most frequent
        rare[expected.argmax()] = True
        observed, expected = (
            np.append(one[~rare], total - one[~rare].sum()) for one in (observed, expected)
        )
    if len(expected) < 2:
        return 1.0
    return float(chdtrc(len(expected) - 1, float(((observed - expected) ** 2 / expected).sum())))


# --- channels ---------------------------------------------------------------------------------


def _channel(
    honest: Release, release: Release, delta: float, alarm: float, rng: Rng
) -> tuple[list[float], float]:
    """p-values of the outputs of each input, and the epsilon of the worst event between two."""
    inputs = _inputs(honest)
    times = max(2, math.ceil(DRAWS / math.prod(_shape(honest))))
    told = [_told(release, value, times, rng) for value in inputs]
    p_values: list[float] = []
    for value, outputs in zip(inputs, told, strict=True):
        p_values += _outputs_fit(honest, value, outputs)
    bounds = []
    for k in range(1, len(inputs)):

        def ratios(outputs: list[Any], other: Any = inputs[k]) -> Floats:
            logs = [
                honest.log_likelihood(y, inputs[0]) - honest.log_likelihood(y, other)
                for y in outputs
            ]
            return np.concatenate(logs, axis=None)[: 8 * DRAWS]

        a, b = ratios(told[0]), ratios(told[k])
        bounds.append(event_bound(a, b, delta=delta, alarm=alarm / (len(inputs) - 1)))
    return p_values, max(bounds)


def _inputs(release: Release) -> list[Any]:
    """Values with one input everywhere."""
    shape = _shape(release)
    if isinstance(release, RandomizedResponse):
        return [np.full(shape, k) for k in range(len(release.channel))]
    from scipy.sparse import csr_array

    ends = (1.0, float(len(release.levels))) if isinstance(release, SymbolChannel) else (-1.0, 1.0)
    return [*(csr_array(np.full(shape, end)) for end in ends), csr_array(shape)]


def _outputs_fit(release: Release, value: Any, outputs: list[Any]) -> Iterator[float]:
    if isinstance(release, ModifiedLaplace):
        rated = value.nnz > 0
        noise = np.concatenate([y.data for y in outputs]).astype(float)
        chance = 1 - release.flip if rated else release.flip
        counts = np.array([len(noise), math.prod(value.shape) * len(outputs) - len(noise)], float)
        yield _frequencies(counts, np.array([chance, 1 - chance]))
        yield _uniform(_laplace((noise - (value.data[0] if rated else 0.0)) / release.scale))
        return
    assert isinstance(release, RandomizedResponse | SymbolChannel)
    symbol, *told = (
        (one.toarray() if isinstance(release, SymbolChannel) else np.asarray(one)).ravel()
        for one in (value, *outputs)
    )
    row, answers = release.matrix[int(symbol[0])], np.concatenate(told).astype(np.int64)
    yield _frequencies(np.bincount(answers, minlength=len(row)).astype(float), row)
    twos = answers[: len(answers) // 2 * 2].reshape(-1, 2)
    pairs = np.bincount(twos[:, 0] * len(row) + twos[:, 1], minlength=len(row) ** 2)
    yield _frequencies(pairs.astype(float), np.outer(row, row).ravel())
