"""Output perturbation of one-bit matrix completion: complete, then add noise.

LWHM22: Li, Wei, Huang, Mao, Wang, "One-Bit Matrix Completion with Differential Privacy" (2022).
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpmc_core.linalg import Pattern
from dpmc_core.model import Dense, Rounds, Step
from dpmc_core.perturbation import OneBit
from dpmc_core.privacy import Guarantee, Laplace, by_unit
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import setting
from dpmc_core.solvers.feasible import FeasibleSet, NuclearBall, check_dense
from dpmc_core.solvers.one_bit import Completion, as_step, likelihood, positive


class OutputBound(enum.Enum):
    """How output perturbation keeps scores within its bound."""

    CLIP = "clip"  # solve under the nuclear bound, clip before the noise
    SOLVER = "solver"  # as published: the bound is a constraint of the solver


@dataclass(frozen=True, kw_only=True)
class Output(OneBit, Completion):
    """Output perturbation: complete, then Laplace(2 bound / eps) on every cell (LWHM22, Alg. 4).

    The paper takes 2 bound as the l1 sensitivity of the matrix; it bounds one cell. Any two
    matrices of the feasible set are within min(2 bound m n, 2 tau sqrt(m n)) of each other in l1,
    which is what is certified, whatever the change in the data. What is published is held to both
    limits after the solver, which meets its constraints to a tolerance only.
    """

    id: ClassVar[str] = "output"
    name: ClassVar[str] = "Output perturbation"
    revision: ClassVar[int] = 3
    bound: float = setting(0.1, "largest |score|; sets the noise", above=0, at_most=1e3)
    within: OutputBound = setting(
        OutputBound.CLIP,
        "clip to the bound after solving, or solve under the bound (published, slower)",
        choices=tuple(m.value for m in OutputBound),
    )

    def guarantee(self, public: PublicFacts) -> Guarantee:
        cells = public.users * public.items
        diameter = 2 * min(self.bound * cells, self.largest_sum(public))
        return self.per_rating(
            public,
            source="LWHM22, Theorem 4",
            releases={
                "matrix": Laplace(
                    query="completed matrix",
                    shape=public.shape,
                    sensitivity=by_unit(value=diameter, user_replace=diameter),
                    scale=2 * self.bound / self.epsilon,
                )
            },
            caveats=(
                "the claim holds for publishing one cell: 2 bound is one cell's sensitivity, and"
                " one rating moves many cells",
                "the number of solver rounds, shown beside a run, is read off the raw ratings"
                " without noise: evaluation only, not private",
            ),
        )

    def largest_sum(self, public: PublicFacts) -> float:
        """The largest sum of |scores|: ||X||_1 <= sqrt(m n) ||X||_F <= sqrt(m n) ||X||_*."""
        return self.nuclear_radius(public) * math.sqrt(public.users * public.items)

    def feasible(self, ratings: Ratings, rng: np.random.Generator) -> FeasibleSet:
        if self.within is OutputBound.SOLVER:
            return super().feasible(ratings, rng)
        return NuclearBall(Pattern.of(ratings), self.nuclear_radius(ratings.public), rng)

    def before_noise(self, ratings: Ratings) -> Rounds:
        """The solve without noise, the same for every epsilon."""
        loss = likelihood(self.link, positive(ratings))
        start = np.random.default_rng(0)  # where the search for singular vectors begins: no noise
        for iterate in self.solve(loss, ratings, start):
            step = as_step(iterate, self.iterations, publishable=False, raw=True)
            yield step, iterate.point.model() if iterate.final else None

    def fit(
        self, ratings: Ratings, rng: np.random.Generator, rounds: Rounds | None = None
    ) -> Iterator[Step]:
        check_dense(ratings.shape, "output perturbation")
        release = self.guarantee(ratings.public).releases["matrix"]
        largest = self.largest_sum(ratings.public)
        for step, solution in self.before_noise(ratings) if rounds is None else rounds:
            if solution is None:
                yield step
                continue
            rows = np.arange(ratings.public.users)[:, None]
            matrix = solution.predict(rows, np.arange(ratings.public.items))
            clipped = np.clip(matrix, -self.bound, self.bound)
            total = float(np.abs(clipped).sum())
            if total > largest:
                clipped *= largest / total
            yield dataclasses.replace(step, model=Dense(release.publish(clipped, rng)))
