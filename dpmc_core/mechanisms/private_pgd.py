"""Private projected gradient descent, JTT18's baseline (Algorithm 5).

JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpmc_core.joint import UserLevel, check_paper_epsilon, noisy_gram, private_item_means
from dpmc_core.model import Step
from dpmc_core.privacy import Calibration, Gaussian, Guarantee, by_unit
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.rows import check_gram, clip_rows, recentred, user_rows, with_offsets
from dpmc_core.settings import setting
from dpmc_core.solvers.pgd import Descent, Schedule, check_cells


@dataclass(frozen=True, kw_only=True)
class PrivatePgd(UserLevel):
    """Gradient step, noisy Gram matrix of the whole iterate, soft-thresholded singular values.

    The rows of the iterate are clipped to L before the Gram matrix, for without that the paper's
    sigma = L^2 sqrt(64 T ln(1/delta))/eps has no bound to stand on.
    """

    id: ClassVar[str] = "private-pgd"
    name: ClassVar[str] = "Private projected gradient"
    twin: ClassVar[str] = "pgd"
    revision: ClassVar[int] = 1
    rounds: int = setting(5, "rounds that share the budget", at_least=1, at_most=500)
    schedule: Schedule = setting(Schedule.CONSTANT, "step size by round")
    step: float = setting(0.5, "step size of the constant schedule", above=0, at_most=1)
    radius: float = setting(
        0.6, "nuclear-norm radius k, in units of half the range x sqrt(users x items)",
        above=0, at_most=1e3,
    )  # fmt: skip
    symmetric: bool = setting(
        True, "average the noise matrix with its transpose (else mirror its upper triangle)"
    )
    calibration: Calibration = setting(
        Calibration.TIGHT, "noise by the exact Gaussian curve, or by the paper's constant"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_paper_epsilon(self.epsilon, self.delta, self.calibration)

    def budget(self) -> float:
        """mu of all releases; in the paper's arithmetic eps / (2 sqrt(ln(1/delta)))."""
        if self.calibration is Calibration.PAPER:
            return self.epsilon / (2 * math.sqrt(math.log(1 / self.delta)))
        return super().budget()

    def guarantee(self, public: PublicFacts) -> Guarantee:
        check_gram(public.items)
        check_cells(public.shape)
        budget, n = self.budget(), public.items
        paper = self.calibration is Calibration.PAPER
        moves = self.row_norm(public) ** 2
        releases = self.item_releases(public, budget)
        releases["gram"] = Gaussian(
            query="Gram matrix of the completed rows",
            shape=(n, n),
            sensitivity=by_unit(user_empty=moves, user_replace=math.sqrt(2) * moves),
            scale=(4 * moves if paper else moves) * math.sqrt(self.rounds) / self.rest(budget),
            times=self.rounds,
        )
        name = "JTT18, Algorithm 5"
        return self.card(public, releases, name if paper else f"exact Gaussian curve for {name}")

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        public = ratings.public
        releases = self.guarantee(public).releases
        bound = self.row_norm(public)
        rows = user_rows(ratings, self.most(public), rng)
        offsets = private_item_means(releases, rows, bound, public, rng)
        rows = recentred(rows, offsets.means)
        target, clipped = clip_rows(rows.cells, rows.values, bound)
        descent = Descent(rows.cells, target)
        radius = self.radius * 0.5 * public.width * math.sqrt(public.users * public.items)
        for index in range(1, self.rounds + 1):
            step = self.schedule.step(index, self.step)
            exact, cut = descent.stepped_gram(step, bound)
            noisy = noisy_gram(releases["gram"], exact, self.symmetric, rng)
            descent.project(step, bound, *np.linalg.eigh(noisy), radius)
            factors = descent.factors()
            yield Step(
                index=index,
                total=self.rounds,
                model=with_offsets(factors.left, factors.right, rows.means, offsets.means),
                trace={
                    "training rmse": descent.residual_rmse(),
                    "rank": float(factors.right.shape[1]),
                    "rows clipped": float(clipped),
                    "completed rows clipped": float(cut),
                },
                raw=frozenset({"training rmse", "rows clipped", "completed rows clipped"}),
                final=index == self.rounds,
            )
