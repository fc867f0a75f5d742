"""Item neighbourhoods from locally flipped bits: DPLCF and LDPICF.

Each user reports the whole 0/1 row, every bit flipped with probability 1/(1 + e^eps); the server
estimates item similarities from the reports; each user scores items with the own true row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpmc_core.model import Step, Task
from dpmc_core.privacy import (
    CELL,
    Budget,
    Guarantee,
    Notion,
    Publishes,
    RandomizedResponse,
    Releases,
    Trust,
)
from dpmc_core.privacy.channels import flip_chance
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import check_settings, setting
from dpmc_core.solvers.implicit import binary_matrix
from dpmc_core.solvers.neighbours import FlippedPairs, Neighbourhood, cosine, jaccard, nearest
from dpmc_core.solvers.sizes import check_reported

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class FlippedBits(Releases):
    bits: RandomizedResponse


@dataclass(frozen=True, kw_only=True)
class LocalNeighbours:
    """The report and the scoring that both methods share."""

    task: ClassVar[Task] = Task.RANKING
    floor: ClassVar[str] = "popularity"
    source: ClassVar[str]
    epsilon: float = setting(help="privacy budget per user-item cell", above=0, at_most=1e6)
    neighbours: int = setting(100, "nearest items that score an item", at_least=1, at_most=10_000)

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def flip(self) -> float:
        """Probability 1/(1 + e^eps) that a bit is reported wrongly."""
        return flip_chance(self.epsilon)

    def guarantee(self, public: PublicFacts) -> Guarantee[FlippedBits]:
        return Guarantee(
            change=CELL,
            notion=Notion.PURE,
            trust=Trust.LOCAL,
            publishes=Publishes.FLIPPED_ROWS,
            public=public,
            claimed=Budget(self.epsilon),
            source=self.source,
            releases=FlippedBits(
                bits=RandomizedResponse.binary(
                    self.flip,
                    self.flip,
                    query="every bit of every row",
                    shape=public.shape,
                    sensitivity={CELL: 1},
                )
            ),
            caveats=("each user scores with the own true row, on the own device",),
        )

    def similarities(self, pairs: FlippedPairs, block: Ints) -> Floats:
        """Estimated similarity of the items of a block to all items."""
        raise NotImplementedError

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        check_reported(ratings.public)
        rows = binary_matrix(ratings)
        bits = np.zeros(ratings.shape, dtype=np.int64)
        bits[ratings.users, ratings.items] = 1
        reported = self.guarantee(ratings.public).releases.bits.publish(bits, rng)
        pairs = FlippedPairs(reported, self.flip)
        similar = nearest(
            ratings.public.items, self.neighbours, lambda block: self.similarities(pairs, block)
        )
        trace = {
            "share of bits reported as 1": float(pairs.sums.sum() / reported.size),
            "neighbours per item": similar.nnz / ratings.public.items,
        }
        yield Step(1, 1, Neighbourhood(rows, similar), trace, final=True)


@dataclass(frozen=True, kw_only=True)
class Dplcf(LocalNeighbours):
    """DPLCF: Jaccard similarity from unbiased estimates of intersections and unions.

    Gao, Huang, Lin, Jin, Li, "DPLCF: Differentially Private Local Collaborative Filtering" (2020).
    """

    id: ClassVar[str] = "dplcf"
    name: ClassVar[str] = "DPLCF"
    twin: ClassVar[str] = "item-knn"
    revision: ClassVar[int] = 1
    source: ClassVar[str] = "Gao et al. 2020; randomised response on every bit"

    def similarities(self, pairs: FlippedPairs, block: Ints) -> Floats:
        counts = pairs.counts
        return jaccard(pairs.both(block), counts[block][:, None], counts)


@dataclass(frozen=True, kw_only=True)
class Ldpicf(LocalNeighbours):
    """LDPICF: cosine similarity from maximum-likelihood pair frequencies in the simplex.

    Guo, Luo, Dong, Yang, "Locally Differentially Private Item-based Collaborative Filtering"
    (2019).
    """

    id: ClassVar[str] = "ldpicf"
    name: ClassVar[str] = "LDPICF"
    twin: ClassVar[str] = "item-knn"
    revision: ClassVar[int] = 1
    source: ClassVar[str] = "Guo et al. 2019; randomised response on every bit"
    iterations: int = setting(
        20, "expectation-maximisation steps of a pair", at_least=1, at_most=10_000
    )

    def similarities(self, pairs: FlippedPairs, block: Ints) -> Floats:
        return cosine(*pairs.likeliest(block, self.iterations))
