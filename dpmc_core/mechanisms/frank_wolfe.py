"""Private Frank-Wolfe with the exact eigenproblem (JTT18, Algorithm 1).

JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpmc_core.joint import noisy_gram, scale_of, top_eigenpairs
from dpmc_core.joint_frank_wolfe import UserFrankWolfe
from dpmc_core.linalg import Pattern
from dpmc_core.privacy import Calibration, Gaussian, Release, by_unit
from dpmc_core.ratings import PublicFacts
from dpmc_core.rows import check_gram, gram
from dpmc_core.settings import setting

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PrivateFrankWolfe(UserFrankWolfe):
    """Private Frank-Wolfe with a noisy Gram matrix a round (JTT18, Algorithm 1).

    The Gram matrix of rows of norm <= C moves by C^2 where a row becomes empty and by sqrt(2) C^2
    where it becomes any other, in the Frobenius norm. The paper takes C = 2 L and sigma =
    L^2 sqrt(64 T ln(1/delta))/eps; clipping the residual rows below 2 L and the exact curve let
    the same promise hold with less noise.
    """

    id: ClassVar[str] = "private-frank-wolfe"
    name: ClassVar[str] = "Private Frank-Wolfe"
    revision: ClassVar[int] = 1
    theorem: ClassVar[str] = "Theorem 3.1"
    symmetric: bool = setting(
        True, "average the noise matrix with its transpose (else mirror its upper triangle)"
    )
    growth: float = setting(
        1.0, "signal-to-noise ratio of a round over that of the round before", above=0.1, at_most=10
    )

    def eigen_releases(self, public: PublicFacts) -> dict[str, Release]:
        check_gram(public.items, "private-frank-wolfe-oja does not build it")
        n, moves = public.items, self.sensitivity(public)
        # The paper's constant is for rows of norm 2 L, whatever the residual rows are clipped to.
        paper = self.calibration is Calibration.PAPER
        counted = 4 * self.row_norm(public) ** 2 if paper else moves
        shares = [self.growth**t for t in range(self.rounds)]
        length = math.sqrt(math.fsum(s * s for s in shares))
        mus = [self.rest(self.budget()) * s / length for s in shares]

        def release(mu: float, times: int, name: str) -> Gaussian:
            return Gaussian(
                query=f"Gram matrix of the residual rows{name}",
                shape=(n, n),
                sensitivity=by_unit(user_empty=moves, user_replace=math.sqrt(2) * moves),
                scale=counted / mu,
                times=times,
            )

        if self.growth == 1:
            return {"gram": release(mus[0], self.rounds, "")}
        return {f"gram {t}": release(mu, 1, f", round {t}") for t, mu in enumerate(mus, 1)}

    def top_pair(
        self,
        releases: Mapping[str, Release],
        index: int,
        cells: Pattern,
        residual: Floats,
        rng: np.random.Generator,
    ) -> tuple[Floats, float, float]:
        release = releases["gram" if self.growth == 1 else f"gram {index}"]
        noisy = noisy_gram(release, gram(cells, residual), self.symmetric, rng)
        squares, vectors = top_eigenpairs(noisy, 1)
        return vectors[:, -1], float(squares[-1]), scale_of(release)
