"""Private SVD: one noisy Gram matrix, its leading subspace, local projection (JTT18, Algorithm 4).

JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpmc_core.joint import (
    UserLevel,
    check_paper_epsilon,
    check_rank,
    noisy_gram,
    private_item_means,
    top_eigenpairs,
)
from dpmc_core.model import Step
from dpmc_core.privacy import Calibration, Gaussian, Guarantee, by_unit
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.rows import check_gram, clip_rows, gram, recentred, user_rows, with_offsets
from dpmc_core.settings import setting


@dataclass(frozen=True, kw_only=True)
class PrivateSvd(UserLevel):
    """Y_i = (1/p) P(Y*_i) V V', V the leading r eigenvectors of one noisy Gram matrix.

    p = |Omega|/(m n): how many ratings there are is private too, so it is counted with noise
    (l2 sensitivity: the cap) unless a public density is given. Rows have norm <= L, so the Gram
    matrix moves by L^2 (empty) or sqrt(2) L^2 (replaced); the paper's sigma =
    L^2 sqrt(64 ln(1/delta))/eps is made for 4 L^2.
    """

    id: ClassVar[str] = "private-svd"
    name: ClassVar[str] = "Private SVD"
    twin: ClassVar[str] = "svd"
    revision: ClassVar[int] = 1
    rank: int = setting(3, "eigenvectors kept", at_least=1, at_most=1_000)
    density: float | None = setting(
        None, "public share of cells observed (none: counted with noise)", above=0, at_most=1
    )
    count_share: float = setting(
        0.01, "share of the budget for the number of ratings, where it is not public",
        above=0, below=1,
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
        check_rank(self.rank, public)
        check_gram(public.items)
        budget, n, most = self.budget(), public.items, self.most(public)
        paper = self.calibration is Calibration.PAPER
        moves = self.row_norm(public) ** 2
        releases = self.item_releases(public, budget)
        rest = self.rest(budget)
        if self.density is None:
            releases["ratings"] = Gaussian(
                query="number of ratings",
                shape=(),
                sensitivity=by_unit(user_empty=most, user_replace=most),
                scale=most / (rest * math.sqrt(self.count_share)),
            )
            rest *= math.sqrt(1 - self.count_share)
        releases["gram"] = Gaussian(
            query="Gram matrix of the users' rows",
            shape=(n, n),
            sensitivity=by_unit(user_empty=moves, user_replace=math.sqrt(2) * moves),
            scale=(4 * moves if paper else moves) / rest,
        )
        theorem = "JTT18, Theorem B.1"
        return self.card(
            public, releases, theorem if paper else f"exact Gaussian curve for {theorem}"
        )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        public = ratings.public
        releases = self.guarantee(public).releases
        bound = self.row_norm(public)
        rows = user_rows(ratings, self.most(public), rng)
        offsets = private_item_means(releases, rows, bound, public, rng)
        rows = recentred(rows, offsets.means)
        density = self.density
        if density is None:
            count = float(releases["ratings"].publish(len(rows.values), rng))
            density = min(max(count / (public.users * public.items), 1 / public.items), 1.0)
        kept, clipped = clip_rows(rows.cells, rows.values, bound)
        noisy = noisy_gram(releases["gram"], gram(rows.cells, kept), self.symmetric, rng)
        squares, basis = top_eigenpairs(noisy, self.rank)
        left = np.asarray(rows.cells.by_user(rows.values) @ basis) / density
        yield Step(
            index=1,
            total=1,
            model=with_offsets(left, basis, rows.means, offsets.means),
            trace={
                "top singular value": math.sqrt(max(float(squares[-1]), 0.0)),
                "density": density,
                "rows clipped": float(clipped),
            },
            raw=frozenset({"rows clipped"}),
            final=True,
        )
