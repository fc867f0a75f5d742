"""Private Frank-Wolfe with Oja's method in place of the eigenproblem (JTT18, Algorithm 2).

JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpmc_core.joint import scale_of
from dpmc_core.joint_frank_wolfe import UserFrankWolfe
from dpmc_core.linalg import Pattern
from dpmc_core.privacy import Calibration, Gaussian, Release, by_unit
from dpmc_core.ratings import PublicFacts
from dpmc_core.rows import item_sums, times_vector
from dpmc_core.settings import setting
from dpmc_core.solvers.oja import top_vector

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PrivateFrankWolfeOja(UserFrankWolfe):
    """Private Frank-Wolfe with Oja's method, for many items (JTT18, Algorithm 2).

    A round releases `updates` noisy products A'A v of unit vectors and the noisy squared norm
    ||A v||^2: no items x items matrix is built. Each moves by at most C^2 for rows of norm C, also
    where a row becomes any other one. The paper's sigma = L^2 sqrt(256 Gamma ln(2/delta))/eps is
    for one eigenproblem: it leaves out the number of rounds T.
    """

    id: ClassVar[str] = "private-frank-wolfe-oja"
    name: ClassVar[str] = "Private Frank-Wolfe (Oja)"
    revision: ClassVar[int] = 1
    theorem: ClassVar[str] = "Theorem 3.1 with Algorithm 2"
    # Every update costs as much budget as a whole Gram matrix: few of either pay.
    rounds: int = setting(3, "Frank-Wolfe rounds that share the budget", at_least=1, at_most=500)
    radius: float = setting(
        0.2,
        "nuclear-norm radius k, in units of half the range x sqrt(users x items)",
        above=0,
        at_most=1e3,
    )
    updates: int = setting(8, "vector updates a round (Gamma)", at_least=1, at_most=1_000)

    def caveats(self) -> tuple[str, ...]:
        if self.calibration is Calibration.TIGHT or self.rounds == 1:
            return ()
        return (
            "the paper's noise is for one eigenproblem; the certified value counts every round",
        )

    def eigen_releases(self, public: PublicFacts) -> dict[str, Release]:
        moves = self.sensitivity(public)
        if self.calibration is Calibration.PAPER:
            spent = self.epsilon * math.sqrt(1 - self.item_share)
            constant = math.sqrt(256 * self.updates * math.log(2 / self.delta))
            scale = self.row_norm(public) ** 2 * constant / spent
        else:
            each = self.rest(self.budget()) / math.sqrt(self.rounds * (self.updates + 1))
            scale = moves / each
        both = by_unit(user_empty=moves, user_replace=moves)
        return {
            "products": Gaussian(
                query="Gram matrix of the residual rows times a unit vector",
                shape=(public.items,),
                sensitivity=both,
                scale=scale,
                times=self.rounds * self.updates,
            ),
            "squared norms": Gaussian(
                query="squared norm of the residual rows along a unit vector",
                shape=(),
                sensitivity=both,
                scale=scale,
                times=self.rounds,
            ),
        }

    def top_pair(
        self,
        releases: Mapping[str, Release],
        index: int,  # noqa: ARG002 - every round has the same noise
        cells: Pattern,
        residual: Floats,
        rng: np.random.Generator,
    ) -> tuple[Floats, float, float]:
        products, squares = releases["products"], releases["squared norms"]
        scale, n = scale_of(products), cells.shape[1]

        def product(v: Floats) -> Floats:
            along = times_vector(cells, residual, v)
            exact = item_sums(cells, residual * along[cells.users])
            noisy: Floats = products.publish(exact, rng)
            return noisy

        step = 1 / (self.updates * scale * math.sqrt(n))
        v = top_vector(product, n, self.updates, step, rng)
        along = times_vector(cells, residual, v)
        return v, float(squares.publish(float(along @ along), rng)), scale
