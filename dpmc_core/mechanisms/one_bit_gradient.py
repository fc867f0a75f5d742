"""Gradient perturbation of one-bit matrix completion: noise in every round.

LWHM22: Li, Wei, Huang, Mao, Wang, "One-Bit Matrix Completion with Differential Privacy" (2022).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpmc_core.links import Logistic
from dpmc_core.model import Step
from dpmc_core.perturbation import OneBit
from dpmc_core.privacy import Guarantee, Laplace, by_unit
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import setting
from dpmc_core.solvers.one_bit import OneBitModel, likelihood, positive
from dpmc_core.solvers.spg import spectral_step

_PROJECTION = 1e-3  # accuracy of a projection, relative to ||X||_F


@dataclass(frozen=True, kw_only=True)
class Gradient(OneBit, OneBitModel):
    """Gradient perturbation: projected descent on clamped, noised gradients (LWHM22, Algorithm 3).

    The data are touched through those gradients alone: no line search and no stopping rule on the
    true objective; the spectral step comes from the noisy gradients. Flipping one sign moves one
    clamped entry by at most min(2 clamp, 1) for the logistic link (its gradient moves by exactly
    1), 2 clamp in general. The rounds share the budget evenly, so noise grows with their number:
    the default 1 + eps/10 takes a second round only where the noise allows it.
    """

    id: ClassVar[str] = "gradient"
    name: ClassVar[str] = "Gradient perturbation"
    revision: ClassVar[int] = 1
    rounds: int | None = setting(
        None, "rounds that share the budget (none: 1 + eps/10)", at_least=1, at_most=1_000
    )
    clamp: float = setting(0.5, "largest |gradient| of one cell", above=0, at_most=1e3)

    @property
    def rounds_taken(self) -> int:
        return self.rounds or min(1 + int(self.epsilon / 10), 100)

    def guarantee(self, public: PublicFacts) -> Guarantee:
        moves = 2 * self.clamp
        if isinstance(self.link, Logistic):
            moves = min(moves, 1.0)
        return self.per_rating(
            public,
            source="LWHM22, Theorem 3",
            releases={
                "gradient": Laplace(
                    query="clamped loss gradient on the observed cells",
                    shape=(None,),
                    sensitivity=by_unit(value=moves),
                    scale=self.rounds_taken * moves / self.epsilon,
                    times=self.rounds_taken,
                )
            },
        )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        release = self.guarantee(ratings.public).releases["gradient"]
        loss = likelihood(self.link, positive(ratings))
        feasible = self.feasible(ratings, rng)
        point, before, step = feasible.origin(), None, 0.0
        for k in range(1, self.rounds_taken + 1):
            objective, gradient = loss(point.observed)
            noisy = release.publish(np.clip(gradient, -self.clamp, self.clamp), rng)
            if before is None:
                step = feasible.first_step(noisy)
            else:
                step = spectral_step(point, before[0], noisy - before[1]) or step
            before = point, noisy
            point = feasible.project(point, step, noisy, _PROJECTION * max(1.0, point.norm()))
            yield Step(
                index=k,
                total=self.rounds_taken,
                model=point.model(),
                trace={"objective": objective, "step length": step},
                raw=frozenset({"objective"}),
                final=k == self.rounds_taken,
            )
