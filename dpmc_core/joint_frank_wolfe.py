"""What the two private Frank-Wolfe methods share: they differ in the release of the eigenpair.

JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import InvalidSetting
from dpmc_core.joint import (
    UserLevel,
    check_paper_epsilon,
    private_item_means,
)
from dpmc_core.linalg import Pattern
from dpmc_core.model import Step
from dpmc_core.privacy import Calibration, Guarantee, Release
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.rows import (
    clip_rows,
    recentred,
    times_vector,
    user_rows,
    with_offsets,
)
from dpmc_core.settings import setting
from dpmc_core.solvers.frank_wolfe import Expansion, StepRule

Floats = NDArray[np.float64]

_FAILURE = 1 / 3  # the paper's beta in the eigenvalue slack


@dataclass(frozen=True, kw_only=True)
class UserFrankWolfe(UserLevel, ABC):
    """The two private Frank-Wolfe methods: they differ in how the top eigenpair is released.

    A round reads the users' residual rows A = P(Y - Y*), clipped to `residual` x L, for a noisy
    top eigenpair (v, lambda^2) of A'A; each user then takes the step -(k/lambda') A_i v v' alone.
    """

    twin: ClassVar[str] = "frank-wolfe"
    rounds: int = setting(15, "Frank-Wolfe rounds that share the budget", at_least=1, at_most=500)
    step: StepRule = setting(StepRule.FIXED, "share of the new part: 1/T, or 2/(t+1) in round t")
    radius: float = setting(
        0.5, "nuclear-norm radius k, in units of half the range x sqrt(users x items)",
        above=0, at_most=1e3,
    )  # fmt: skip
    residual: float = setting(
        0.6,
        "largest norm of a residual row, in units of the row clip (2: never cuts, as published)",
        above=0,
        at_most=2,
    )
    slack: float = setting(
        0.0, "share of the paper's eigenvalue slack that is added (1: as published)",
        at_least=0, at_most=10,
    )  # fmt: skip
    calibration: Calibration = setting(
        Calibration.TIGHT, "noise by the exact Gaussian curve, or by the paper's constant"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_paper_epsilon(self.epsilon, self.delta, self.calibration)
        if self.step is StepRule.LINE_SEARCH:
            raise InvalidSetting(
                "step", "fixed or decreasing", "line-search",
                "a line search reads every user's ratings, which no release covers",
            )  # fmt: skip

    def budget(self) -> float:
        """mu of all releases; the paper's is eps / (2 sqrt(ln(1/delta)))."""
        if self.calibration is Calibration.PAPER:
            return self.epsilon / (2 * math.sqrt(math.log(1 / self.delta)))
        return super().budget()

    def sensitivity(self, public: PublicFacts) -> float:
        """How far one row of the residual moves A'A, in squared rating points."""
        return (self.residual * self.row_norm(public)) ** 2

    def guarantee(self, public: PublicFacts) -> Guarantee:
        releases = self.item_releases(public, self.budget())
        paper = self.calibration is Calibration.PAPER
        return self.card(
            public,
            {**releases, **self.eigen_releases(public)},
            f"JTT18, {self.theorem}"
            if paper
            else f"exact Gaussian curve for JTT18, {self.theorem}",
            self.caveats(),
        )

    theorem: ClassVar[str]

    def caveats(self) -> tuple[str, ...]:
        return ()

    @abstractmethod
    def eigen_releases(self, public: PublicFacts) -> dict[str, Release]:
        """The releases of all rounds."""

    @abstractmethod
    def top_pair(
        self,
        releases: Mapping[str, Release],
        index: int,
        cells: Pattern,
        residual: Floats,
        rng: np.random.Generator,
    ) -> tuple[Floats, float, float]:
        """(v, lambda^2, noise scale) of round `index` from clipped residual rows."""

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        public = ratings.public
        releases = self.guarantee(public).releases
        bound = self.row_norm(public)
        rows = user_rows(ratings, self.most(public), rng)
        offsets = private_item_means(releases, rows, bound, public, rng)
        rows = recentred(rows, offsets.means)
        cells = rows.cells
        target, clipped = clip_rows(cells, rows.values, bound)
        solution = Expansion(cells, self.rounds)
        radius = self.radius * 0.5 * public.width * math.sqrt(public.users * public.items)
        for index in range(1, self.rounds + 1):
            residual = solution.observed - target
            kept, cut = clip_rows(cells, residual, self.residual * bound)
            v, square, scale = self.top_pair(releases, index, cells, kept, rng)
            top = math.sqrt(max(square, 0.0))
            top += self.slack * math.sqrt(
                scale * math.log(public.items / _FAILURE)
            ) * public.items**0.25  # fmt: skip
            # Each user on their own, with the whole residual row: only the release is clipped.
            column = times_vector(cells, residual, v)
            if top > 0:
                solution.step(self.step.share(index, self.rounds), column * (-radius / top), v)
            else:  # all noise: no direction to move along
                solution.step(0.0, np.zeros_like(column), v)
            scaled = solution.scale_rows(bound)
            fit = solution.observed - target
            factors = solution.factors()
            clips = {
                "rows clipped": float(clipped),
                "residual rows clipped": float(cut),
                "predicted rows scaled": float(scaled),
            }
            error = {"training rmse": math.sqrt(float(fit @ fit) / len(fit))}
            yield Step(
                index=index,
                total=self.rounds,
                model=with_offsets(factors.left, factors.right, rows.means, offsets.means),
                trace={"top singular value": top, **error, **clips},
                raw=frozenset({*error, *clips}),
                final=index == self.rounds,
            )
