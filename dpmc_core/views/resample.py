"""Curves over seeds on one axis: seeds drawn again with replacement, values read between points.

The mean of few seeds drawn again spreads too little: by sqrt((S - 1) / S), and without the t
distribution's tails. Resampled means are therefore stretched about the mean until their 95 %
interval is that of Student's t, and then read like the mean itself. Measured on a sloped line, the
interval covers the truth 93 to 97 times in 100; unstretched 54 times for two seeds, 84 for five.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DRAWS = 2_000
LEVEL = 0.95


class Estimate(NamedTuple):
    """An epsilon with its 95 % interval from resampled and stretched means over seeds.

    Not reached within the epsilons computed: inf (or 0 where already the smallest is enough).
    seeds: how many it rests on; with a single one the interval is the value itself.
    """

    value: float
    low: float
    high: float
    seeds: int


def complete(values: Floats) -> NDArray[np.bool_]:
    """Which seeds (columns) have a value at every epsilon."""
    return np.asarray(~np.isnan(values).any(axis=0), dtype=np.bool_)


def at(x: Floats, values: Floats, wanted: Floats) -> Floats:
    """Values (E x S) at other epsilons, linear in log epsilon between neighbours: W x S."""
    place, grid = np.log(wanted), np.log(x)
    return np.stack([np.interp(place, grid, column) for column in values.T], axis=1)


def resamples(seeds: int, rng: np.random.Generator, draws: int = DRAWS) -> Ints:
    """draws x seeds: which seeds each resample takes."""
    return rng.integers(0, seeds, (draws, seeds))


def means(values: Floats, drawn: Ints) -> Floats:
    """Mean over each resample of the seeds (values: X x S, S >= 2), stretched: draws x X."""
    mean, seeds = values.mean(axis=1), values.shape[1]
    stretched: Floats = mean + _stretch(seeds) * (values[:, drawn].mean(axis=2).T - mean)
    return stretched


def _stretch(seeds: int) -> float:
    end = 0.5 + LEVEL / 2
    return float(stdtrit(seeds - 1, end) / ndtri(end)) * math.sqrt(seeds / (seeds - 1))


def estimate(value: float, drawn: Floats, seeds: int) -> Estimate:
    """The percentile interval of values read off `means`; infinite ones count as such."""
    tail = (1 - LEVEL) / 2
    ordered = np.sort(drawn)
    low = ordered[int(np.floor(tail * (len(ordered) - 1)))]
    high = ordered[int(np.ceil((1 - tail) * (len(ordered) - 1)))]
    return Estimate(value, min(float(low), value), max(float(high), value), seeds)


def words(found: Estimate, first: float, last: float) -> str:
    """'1.4 (95 % bootstrap interval over 5 seeds, widened as a t interval: 1.2 to 1.7)'."""
    value = short(found.value, 2)
    if found.seeds < 2:
        return f"{value} (one seed: no interval)"
    low = f"below {short(first)}" if found.low < first else short(found.low, 2)
    high = f"beyond {short(last)}" if found.high > last else short(found.high, 2)
    kind = f"95 % bootstrap interval over {found.seeds} seeds, widened as a t interval"
    return f"{value} ({kind}: {low} to {high})"


def short(value: float, digits: int = 4) -> str:
    """A number for people, without powers of ten: 2,170,000 rather than 2.17e+06."""
    return f"{float(f'{value:.{digits}g}'):,.10g}"
