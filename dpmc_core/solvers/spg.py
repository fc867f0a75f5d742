"""Non-monotone spectral projected gradient (Birgin, Martinez, Raydan 2000).

As used for one-bit completion by Davenport, Plan, van den Berg, Wootters (2014). No privacy here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.solvers.feasible import FeasiblePoint, FeasibleSet
from dpmc_core.stopping import look

Floats = NDArray[np.float64]
Loss = Callable[[Floats], tuple[float, Floats]]

STEP_LIMITS = (1e-3, 1e3)
_MEMORY = 10  # objectives the line search may fall back to
_DECREASE = 1e-4
_BACKTRACKS = 40


@dataclass(frozen=True)
class Iterate:
    """One accepted point.

    stationarity: an upper bound on ||P(X - gradient) - X||_F at the point before it; final: the
    tolerance is met or the rounds are used up.
    """

    index: int
    point: Any
    objective: float
    step: float
    stationarity: float
    final: bool


def minimise(
    loss: Loss,
    feasible: FeasibleSet,
    *,
    iterations: int,
    tolerance: float,
) -> Iterator[Iterate]:
    """Minimise loss over the set; loss maps observed values to (objective, gradient there).

    Stops when ||P(X - gradient) - X||_F <= tolerance max(1, ||X||_F). The bound on that norm costs
    nothing: ||P(X - t gradient) - X|| grows with t and, divided by t, falls with it.
    """
    point: FeasiblePoint = feasible.origin()
    objective, gradient = loss(point.observed)
    history = [objective]
    step = feasible.first_step(gradient)
    size = point.norm()
    moved = feasible.radius
    for index in range(1, iterations + 1):
        goal = tolerance * max(1.0, size)
        accuracy = max(0.1 * goal, 0.02 * moved)
        while True:
            look()
            target = feasible.project(point, step, gradient, accuracy)
            slope = float(gradient @ (target.observed - point.observed))
            if slope < 0 or accuracy < 1e-3 * goal:
                break
            accuracy /= 10  # not a descent direction: the projection was too coarse
        distance = _distance(target, point)
        stationarity = distance * max(1.0, 1.0 / step)
        converged = stationarity <= goal
        share, new_objective, new_gradient = _line_search(
            loss, point.observed, target.observed, max(history[-_MEMORY:]), slope
        )
        taken = step
        reached = target if share == 1 else point.towards(target, share)
        step = spectral_step(reached, point, new_gradient - gradient) or STEP_LIMITS[1]
        point, objective, gradient = reached, new_objective, new_gradient
        history.append(objective)
        moved = share * distance
        size = point.norm()
        final = converged or index == iterations
        yield Iterate(index, point, objective, taken, stationarity, final)
        if final:
            return


def spectral_step(
    here: FeasiblePoint, before: FeasiblePoint, gradient_change: Floats
) -> float | None:
    """Barzilai-Borwein step ||s||^2 / <s, y> within its limits; None unless <s, y> > 0."""
    curvature = float(gradient_change @ (here.observed - before.observed))
    if curvature <= 0:
        return None
    return float(np.clip(_distance(here, before) ** 2 / curvature, *STEP_LIMITS))


def _distance(a: FeasiblePoint, b: FeasiblePoint) -> float:
    return math.sqrt(max(0.0, a.dot(a) - 2 * a.dot(b) + b.dot(b)))


def _line_search(
    loss: Loss, here: Floats, there: Floats, reference: float, slope: float
) -> tuple[float, float, Floats]:
    """Largest tried share of the way with sufficient decrease below the reference objective."""
    share = 1.0
    objective, gradient = loss(there)
    for _ in range(_BACKTRACKS):
        look()
        if objective <= reference + _DECREASE * share * slope:
            break
        curvature = objective - reference - share * slope
        parabola = -0.5 * slope * share * share / curvature if curvature > 0 else 0.5 * share
        share = min(max(parabola, 0.1 * share), 0.5 * share)
        objective, gradient = loss(here + share * (there - here))
    return share, objective, gradient
