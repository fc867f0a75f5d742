"""Budget planner: the smallest epsilon that reaches a wanted accuracy, with its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core.views import resample
from dpmc_core.views.compare import Placed, Reference
from dpmc_core.views.resample import Estimate, short

Floats = NDArray[np.float64]


class Answer(NamedTuple):
    """What a wanted value costs on one line. epsilon: inf where it is not reached.

    best: the best value of the monotone fit; at: the epsilon it is first reached at.
    """

    placed: Placed
    wanted: float
    epsilon: Estimate
    best: float
    at: float


def smallest_epsilon(placed: Placed, wanted: float, rng: np.random.Generator) -> Answer:
    """Invert the monotone fit of the means: more epsilon cannot make a mechanism worse.

    The fit is isotonic least squares on the means over seeds, linear in log epsilon
    between the epsilons computed; it is never extended beyond them.
    """
    line = placed.line
    direction = line.metric.sign
    whole = resample.complete(line.values)
    x, goal = placed.x, direction * wanted
    if whole.sum() >= 2:
        values = direction * line.values[:, whole]
        weights = np.ones(len(x))
        fitted = isotonic(values.mean(axis=1), weights)
        drawn = resample.resamples(values.shape[1], rng)
        found = _reach(x, isotonic(resample.means(values, drawn), weights), goal)
        value = float(_reach(x, fitted[None], goal)[0])
        estimate = resample.estimate(value, found, values.shape[1])
    else:
        weights = np.sum(~np.isnan(line.values), axis=1).astype(float)
        fitted = isotonic(direction * np.nanmean(line.values, axis=1), weights)
        value = float(_reach(x, fitted[None], goal)[0])
        estimate = Estimate(value, value, value, 1)
    return Answer(placed, wanted, estimate, direction * float(fitted[-1]), _first(x, fitted))


def sentence(answer: Answer, name: str = "", twin: Reference | None = None) -> str:
    """The answer in words. name: of the mechanism, where not the line's label."""
    line, x = answer.placed.line, answer.placed.x
    name = name or line.label
    wanted = f"{line.metric.spoken} {line.metric.text(answer.wanted)}"
    unit = answer.placed.counts
    epsilon = answer.epsilon
    if math.isinf(epsilon.value):
        text = (
            f"{name}: {wanted} is not reachable up to epsilon {short(x[-1])} {unit}; the best is"
            f" {line.metric.text(answer.best)} at epsilon {short(answer.at)}."
        )
        if twin is not None and not line.metric.reached(float(twin.values.mean()), answer.wanted):
            without = line.metric.text(float(twin.values.mean()))
            text += f" Even without privacy it is {without}."
        elif epsilon.seeds > 1 and math.isfinite(epsilon.low):
            text += f" Some resampled seeds reach it, from epsilon {epsilon.low:.2g} on."
        return text
    if epsilon.value <= x[0]:
        least = short(x[0])
        return (
            f"{name}: {wanted} is reached already at the smallest epsilon computed, {least} {unit}."
        )
    found = resample.words(epsilon, float(x[0]), float(x[-1]))
    hollow = "" if answer.placed.solid else " This epsilon is claimed, not certified."
    return f"{name}: {wanted} needs epsilon {found} {unit}.{hollow}"


def limits(values: Sequence[float]) -> tuple[float, float, float]:
    """The smallest and the largest wanted value worth asking for, and a step between them.

    Round numbers around all values, in about a hundred steps of 1, 2 or 5 times a power of ten.
    """
    low, high = min(values), max(values)
    least = max((high - low) / 100, 1e-6 * max(abs(low), abs(high)), 1e-6)
    power = 10.0 ** math.floor(math.log10(least))
    step = next(k * power for k in (1, 2, 5, 10) if k * power >= least * (1 - 1e-9))
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    start, end = math.floor(low / step), math.ceil(high / step)
    if end == start:
        end += 1
    return round(start * step, digits), round(end * step, digits), round(step, digits)


def isotonic(values: Floats | Sequence[float], weights: Floats | Sequence[float]) -> Floats:
    """The nearest increasing sequences in weighted least squares; values: ... x E, weights: E.

    Each is max over a <= k of min over b >= k of the mean from a to b (Barlow, Bartholomew,
    Bremner, Brunk, "Statistical inference under order restrictions", 1972).
    """
    heights, masses = np.asarray(values, dtype=float), np.asarray(weights, dtype=float)
    sums = np.cumsum(heights * masses, axis=-1)
    fitted = np.full(heights.shape, -np.inf)
    for a in range(len(masses)):
        until = sums[..., a:] - sums[..., a : a + 1] + (heights * masses)[..., a : a + 1]
        means = until / np.cumsum(masses[a:])
        least = np.minimum.accumulate(means[..., ::-1], axis=-1)[..., ::-1]
        fitted[..., a:] = np.maximum(fitted[..., a:], least)
    return fitted


def _reach(x: Floats, fitted: Floats, goal: float) -> Floats:
    """The smallest epsilon at which each fit (draws x E) is at least the goal; inf for none."""
    above = fitted >= goal
    k = np.argmax(above, axis=1)
    row, before = np.arange(len(k)), np.maximum(k - 1, 0)
    low, high = fitted[row, before], fitted[row, k]
    share = (goal - low) / np.where(high > low, high - low, 1.0)
    between = np.exp(np.log(x[before]) + share * np.log(x[k] / x[before]))
    found: Floats = np.where(k == 0, x[0], between)
    found[~above.any(axis=1)] = np.inf
    return found


def _first(x: Floats, fitted: Floats) -> float:
    near = 1e-12 * abs(float(fitted[-1]))  # equal means differ by rounding
    return float(x[int(np.flatnonzero(fitted >= fitted[-1] - near)[0])])
