"""The sampler: what each release draws, against the noise and the epsilon on its record.

Each release publishes again and again, values that are known. Its draws are tested against their
density, and against each other; then two values that lie as far apart as the record allows are told
apart by the worst event, chosen on one half of the draws and counted on the other (DP-Sniper, 2021;
DP-Auditorium, 2024). Honest noise is accused with a chance of `FALSE_ALARM` at most, all together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, chdtrc, gammainc, kolmogorov, ndtr

from dpmc_core.lab.refute.report import (
    FALSE_ALARM,
    Inapplicable,
    Measured,
    Method,
    Spent,
    Subject,
    refuted_by,
)
from dpmc_core.privacy import (
    Additive,
    Gaussian,
    Laplace,
    LocalChannel,
    ModifiedLaplace,
    NormLaplace,
    RandomizedResponse,
    Release,
    SymbolChannel,
    sensitivity_at,
)
from dpmc_core.privacy.audit import event_bound
from dpmc_core.stopping import look

Floats = NDArray[np.float64]

DRAWS = 20_000  # of each value of each release, at least; of numbers in twos as many twos
_OBSERVED = 64  # ratings, where a record leaves their number open
_KEPT = 200_000  # draws that are looked at


@dataclass(frozen=True)
class Sampler(Subject):
    """Draws from every noise."""

    def audit(self, tell: Callable[[Measured], None]) -> Measured:
        """All releases of the card. Raises Inapplicable where there is none."""
        planted = dict(self.mechanism.guarantee(self.card.public).releases)
        names = [name for name, _ in self.card.releases]
        if not names:
            raise Inapplicable("nothing is randomised")
        found: list[Spent] = []
        for name, honest in self.card.releases:
            look()
            rng = np.random.default_rng([self.seed, 4, len(found)])
            alarm = FALSE_ALARM / len(names) / 2
            found.append(self._spent(name, honest, planted[name], alarm, len(names), rng))
            if len(found) < len(names):
                tell(self._measured(found, len(names)))
        return self._measured(found, len(names))

    def _measured(self, found: list[Spent], total: int) -> Measured:
        return Measured(
            Method.SAMPLER,
            valid=len(found) == total,
            epsilon=None,
            delta=self.delta,
            confidence=1 - FALSE_ALARM,
            done=len(found),
            total=total,
            refuted=refuted_by(None, None, 0.0, found),  # a record is true or not on its own
            releases=tuple(found),
        )

    def _spent(
        self,
        name: str,
        honest: Release,
        release: Release,
        alarm: float,
        releases: int,
        rng: np.random.Generator,
    ) -> Spent:
        if isinstance(honest, Additive):
            moves = sensitivity_at(honest.sensitivity, self.change, self.card.public)
            p_values, epsilon, moves = _additive(honest, release, moves, self.delta, alarm, rng)
        else:
            moves = 1.0
            p_values, epsilon = _channel(honest, release, self.delta, alarm, rng)
        once = dataclasses.replace(honest, times=1).loss(moves)
        p = min(1.0, 2 * releases * len(p_values) * min(p_values))
        allowed = once.epsilon_at(self.delta)
        return Spent(name, honest.query, epsilon, allowed, "epsilon", False, p)


def _additive(
    honest: Additive,
    release: Release,
    moves: float,
    delta: float,
    alarm: float,
    rng: np.random.Generator,
) -> tuple[list[float], float, float]:
    """p-values of the draws; the epsilon of the worst event between two values `moves` apart.

    An answer of several numbers is looked at in twos, which move against each other: noise that
    they share would show.
    """
    shape = tuple(_OBSERVED if n is None else n for n in honest.shape)
    size = math.prod(shape)
    times = max(2, math.ceil(min(2, size) * DRAWS / size))
    unit = moves if 0 < moves < math.inf else honest.scale  # no bound: as far as the noise
    pattern = _against_each_other(honest, shape, unit)
    here, there = (
        np.stack([_published(release, value, rng) for _ in range(times)])
        for value in (np.zeros(shape), pattern)
    )
    p_values = list(_fit(honest, here))
    a, b = (_groups(honest, noisy)[: 4 * DRAWS] for noisy in (here, there))
    low, high = _groups(honest, np.zeros((1, *shape)))[0], _groups(honest, pattern[None])[0]

    def ratio(noisy: Floats) -> Floats:
        logs = honest.log_likelihood(noisy, high) - honest.log_likelihood(noisy, low)
        summed: Floats = logs if logs.ndim == 1 else logs.sum(axis=-1)
        return summed

    def apart(noisy: Floats) -> Floats:
        gap: Floats = (noisy[:, 0] - noisy[:, 1]) / honest.scale
        return gap

    views = [ratio] if a.shape[-1] == 1 else [ratio, apart]
    epsilon = max(
        # rounded: the last bits of floating point tell any two values apart
        event_bound(*np.round((view(b), view(a)), 9), delta=delta, alarm=alarm / len(views))
        for view in views
    )
    return p_values, epsilon, unit


def _published(release: Release, value: Floats, rng: np.random.Generator) -> Floats:
    look()
    return np.asarray(release.publish(value, rng), dtype=float)


def _against_each_other(release: Additive, shape: tuple[int, ...], unit: float) -> Floats:
    """A value in which every two numbers, or every row, are `unit` from zero in the norm."""
    size = math.prod(shape)
    width = release.length if isinstance(release, NormLaplace) else min(2, size)
    signs = np.resize([1.0, -1.0], width)
    each = signs * unit / (width if isinstance(release, Laplace) else math.sqrt(width))
    return np.resize(each, shape)


def _groups(release: Additive, noisy: Floats) -> Floats:
    """Twos of numbers, or rows, of publications (first axis): groups x their length."""
    size = math.prod(noisy.shape[1:])
    if isinstance(release, NormLaplace):
        return noisy.reshape(-1, release.length)
    width = min(2, size)
    kept = noisy.reshape(len(noisy), -1)[:, : size // width * width]
    return kept.reshape(-1, width)


def _fit(release: Additive, noise: Floats) -> Iterator[float]:
    """p-values: distribution and mean size of draws, neighbours in an answer, answers in a row."""
    if isinstance(release, NormLaplace):
        rows = noise.reshape(len(noise), -1, release.length)
        norms = np.linalg.norm(rows, axis=-1)
        d = release.length
        uniform = gammainc(d, norms / release.scale)
        yield _uniform(uniform)
        yield _mean(norms / release.scale, d, d)
        if d > 1:  # a coordinate of a uniform direction
            along = 0.5 * (1 + rows[..., 0] / norms)
            yield _uniform(betainc((d - 1) / 2, (d - 1) / 2, along))
        cells = uniform
    else:
        cells = _distribution(release, noise).reshape(len(noise), -1)
        yield _uniform(cells)
        size = np.abs(noise) / release.scale
        yield _mean(size**2, 1, 2) if isinstance(release, Gaussian) else _mean(size, 1, 1)
    if cells.shape[1] > 1:
        yield _related(cells[:, :-1:2], cells[:, 1::2])
    yield _related(cells[:-1:2], cells[1::2])


def _distribution(release: Additive, noise: Floats) -> Floats:
    z = noise / release.scale
    if isinstance(release, Gaussian):
        return np.asarray(ndtr(z))
    tail = 0.5 * np.exp(-np.abs(z))
    return np.where(z > 0, 1 - tail, tail)


def _uniform(values: Floats) -> float:
    """Kolmogorov-Smirnov: the chance that uniform numbers are so uneven."""
    ordered = np.sort(values.ravel()[:_KEPT])
    n = len(ordered)
    steps = np.arange(n + 1) / n
    apart = max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max())
    return float(kolmogorov(math.sqrt(n) * apart))


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
    possible = chances > 0
    if counts[~possible].any():
        return 0.0
    observed, expected = counts[possible], counts.sum() * chances[possible]
    rare = expected < 5
    if rare.any():  # together with the most frequent
        place = int(expected.argmax())
        observed = np.append(np.delete(observed, place)[~np.delete(rare, place)], 0)
        kept = np.delete(expected, place)[~np.delete(rare, place)]
        observed[-1] = counts.sum() - observed.sum()
        expected = np.append(kept, counts.sum() - kept.sum())
    if len(expected) < 2:
        return 1.0
    return float(chdtrc(len(expected) - 1, float(((observed - expected) ** 2 / expected).sum())))


def _channel(
    honest: Release, release: Release, delta: float, alarm: float, rng: np.random.Generator
) -> tuple[list[float], float]:
    """p-values of the outputs of each input, and the epsilon of the worst event between two."""
    inputs = _inputs(honest)
    told = [[_told(release, value, rng) for _ in range(_times(honest))] for value in inputs]
    p_values: list[float] = []
    for value, outputs in zip(inputs, told, strict=True):
        p_values += _outputs_fit(honest, value, outputs)
    epsilon, pairs = 0.0, [(0, k) for k in range(1, len(inputs))]
    for i, j in pairs:
        a, b = (
            np.concatenate(
                [
                    (
                        honest.log_likelihood(y, inputs[i]) - honest.log_likelihood(y, inputs[j])
                    ).ravel()
                    for y in told[k]
                ]
            )
            for k in (i, j)
        )
        n = min(len(a), len(b), 8 * DRAWS)
        found = event_bound(a[:n], b[:n], delta=delta, alarm=alarm / len(pairs))
        epsilon = max(epsilon, found)
    return p_values, epsilon


def _told(release: Release, value: Any, rng: np.random.Generator) -> Any:
    look()
    return release.publish(value, rng)


def _times(release: Release) -> int:
    size = math.prod(_OBSERVED if n is None else n for n in release.shape)
    return max(2, math.ceil(DRAWS / size))


def _inputs(release: Release) -> list[Any]:
    """Values with one input everywhere."""
    shape = tuple(_OBSERVED if n is None else n for n in release.shape)
    if isinstance(release, RandomizedResponse):
        return [np.full(shape, k) for k in range(len(release.channel))]
    from scipy.sparse import csr_array

    assert isinstance(release, LocalChannel)
    missing = csr_array(shape)
    ends = (-1.0, 1.0) if isinstance(release, ModifiedLaplace) else _ends(release)
    return [*(csr_array(np.full(shape, end)) for end in ends), missing]


def _ends(release: LocalChannel) -> tuple[float, float]:
    assert isinstance(release, SymbolChannel)
    return 1.0, float(len(release.levels))


def _outputs_fit(release: Release, value: Any, outputs: list[Any]) -> Iterator[float]:
    if isinstance(release, ModifiedLaplace):
        size = math.prod(value.shape)
        rated = value.nnz > 0
        reported = sum(y.nnz for y in outputs)
        chance = 1 - release.flip if rated else release.flip
        counts = np.array([reported, size * len(outputs) - reported], dtype=float)
        yield _frequencies(counts, np.array([chance, 1 - chance]))
        centre = value.data[0] if rated else 0.0
        noise = np.concatenate([y.data for y in outputs]).astype(float) - centre
        z = noise / release.scale
        tail = 0.5 * np.exp(-np.abs(z))
        yield _uniform(np.where(z > 0, 1 - tail, tail))
        return
    assert isinstance(release, RandomizedResponse | SymbolChannel)
    if isinstance(release, SymbolChannel):
        symbol = int(value.data[0]) if value.nnz else 0
        answers = [y.toarray().ravel().astype(np.int64) for y in outputs]
    else:
        symbol, answers = int(value.flat[0]), [np.ravel(y).astype(np.int64) for y in outputs]
    row = release.matrix[symbol]
    told = np.concatenate(answers)
    yield _frequencies(np.bincount(told, minlength=len(row)).astype(float), row)
    twos = told[: len(told) // 2 * 2].reshape(-1, 2)
    pairs = np.bincount(twos[:, 0] * len(row) + twos[:, 1], minlength=len(row) ** 2)
    yield _frequencies(pairs.astype(float), np.outer(row, row).ravel())
