"""Maximum-likelihood completion of a sign matrix: settings, losses, solution. No privacy here."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import BadRatings
from dpmc_core.links import LINK_CHOICES, LOGISTIC, Link, Logistic, parse_link
from dpmc_core.model import Step
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import check_settings, setting
from dpmc_core.solvers.feasible import FeasibleSet, NuclearBall, NuclearBox
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.spg import Loss, minimise

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class OneBitModel:
    """Public settings of the model and its feasible set (LWHM22, section 3.2)."""

    link: Link = setting(
        LOGISTIC,
        "how a score becomes the chance of +1",
        parse=parse_link,
        choices=LINK_CHOICES,
    )
    radius: float = setting(
        0.7, "nuclear-norm radius, in units of sqrt(users x items)", above=0, at_most=1e3
    )
    bound: float | None = setting(
        None, "largest |score| allowed inside the solver (none: no limit)", above=0, at_most=1e3
    )

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def dense(self) -> bool:
        """Whether what is found is a whole matrix, not factors."""
        return self.bound is not None

    def nuclear_radius(self, public: PublicFacts) -> float:
        """tau, in score units."""
        return self.radius * math.sqrt(public.users * public.items)

    def feasible(self, ratings: Ratings, rng: np.random.Generator) -> FeasibleSet:
        pattern = Pattern.of(ratings)
        tau = self.nuclear_radius(ratings.public)
        if self.bound is None:
            return NuclearBall(pattern, tau, rng)
        return NuclearBox(pattern, tau, self.bound, rng)


@dataclass(frozen=True, kw_only=True)
class Completion(OneBitModel):
    """The model with the settings of the solver that fits it."""

    iterations: int = setting(100, "most solver rounds", at_least=1, at_most=10_000)
    tolerance: float = setting(
        1e-3, "stop when the projected gradient is this small, relative to ||X||", above=0, below=1
    )

    def solve(
        self, loss: Loss, ratings: Ratings, rng: np.random.Generator, *, raw: bool
    ) -> Iterator[Step]:
        """Spectral projected gradient from zero; the trace is marked raw where the loss is."""
        feasible = self.feasible(ratings, rng)
        for iterate in minimise(
            loss, feasible, iterations=self.iterations, tolerance=self.tolerance
        ):
            trace = {
                "objective": iterate.objective,
                "projected gradient": iterate.stationarity,
                "step length": iterate.step,
            }
            if iterate.point.rank is not None:
                trace["rank"] = float(iterate.point.rank)
            yield Step(
                index=iterate.index,
                total=self.iterations,
                model=iterate.point.model(),
                trace=trace,
                raw=frozenset(trace) if raw else frozenset(),
                final=iterate.final,
            )


def positive(ratings: Ratings) -> Floats:
    """1{Y = +1} as 0/1 floats. Raises BadRatings unless every rating is -1 or +1."""
    wrong = np.abs(ratings.values) != 1
    if wrong.any():
        value = ratings.values[np.argmax(wrong)]
        raise BadRatings(f"one-bit methods need ratings -1 or +1, got {value:g}: binarise first")
    return (ratings.values > 0).astype(float)


def likelihood(link: Link, labels: Floats) -> Loss:
    """-sum [s ln h(x) + (1 - s) ln(1 - h(x))] for labels s; convex for s in [0, 1].

    For the logistic link it is sum softplus(x) - s x, linear in s and convex for every real s.
    """
    if isinstance(link, Logistic):

        def logistic(x: Floats) -> tuple[float, Floats]:
            return float(np.sum(np.logaddexp(0.0, x) - labels * x)), link.probability(x) - labels

        return logistic

    def general(x: Floats) -> tuple[float, Floats]:
        value = labels * link.log_probability(x) + (1 - labels) * link.log_probability(-x)
        return -float(np.sum(value)), (1 - labels) * link.score(-x) - labels * link.score(x)

    return general


def flipped_likelihood(link: Link, flipped: Floats, p_plus: float, p_minus: float) -> Loss:
    """Exact likelihood of flipped signs: P(+1) = c(x) = h (1 - p_plus) + (1 - h) p_minus.

    flipped: 0/1 after the flips. Not convex: stationary points are what a solver finds.
    """

    def loss(x: Floats) -> tuple[float, Floats]:
        h, complement = link.probability(x), link.probability(-x)
        up = h * (1 - p_plus) + complement * p_minus
        down = h * p_plus + complement * (1 - p_minus)
        seen = np.where(flipped > 0, up, down)
        sign = np.where(flipped > 0, 1.0, -1.0)
        gradient = -sign * (1 - p_plus - p_minus) * link.density(x) / seen
        return -float(np.sum(np.log(seen))), gradient

    return loss
