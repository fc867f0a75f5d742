"""Ranking without privacy: iALS, item neighbours, popularity."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpmc_core.baselines import no_guarantee
from dpmc_core.model import Factors, Step, Task
from dpmc_core.privacy import Guarantee
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import check_settings, setting
from dpmc_core.solvers.implicit import (
    ImplicitLoss,
    Over,
    binary_matrix,
    check_interactions,
    initial_factors,
    solve_rows,
    transposed,
)
from dpmc_core.solvers.neighbours import Neighbourhood, cosine, jaccard, nearest

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Ials:
    """Implicit alternating least squares (iALS), exact, without privacy.

    Rendle, Krichene, Zhang, Koren, "Revisiting the performance of iALS on item recommendation
    benchmarks" (2021). `over = missing` is the complementary loss of RYHH24.
    """

    id: ClassVar[str] = "ials"
    name: ClassVar[str] = "iALS, no privacy"
    task: ClassVar[Task] = Task.RANKING
    twin: ClassVar[str] = "ials"
    floor: ClassVar[str] = "popularity"
    revision: ClassVar[int] = 1
    rank: int = setting(20, "number of factors (d)", at_least=1, at_most=1024)
    regularisation: float = setting(0.003, "weight of the ridge (lambda)", above=0, at_most=1e3)
    alpha: float = setting(
        0.2, "weight of cells that were not observed (alpha0)", at_least=0, at_most=1
    )
    over: Over = setting(
        Over.ALL,
        "which cells pull predictions to zero",
        choices=tuple(m.value for m in Over),
    )
    frequency: bool = setting(True, "ridge in proportion to a row's weight, else constant")
    single: bool = setting(True, "single precision: six digits or so, twice as fast")
    rounds: int = setting(15, "alternations of users and items", at_least=1, at_most=10_000)

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def loss(self) -> ImplicitLoss:
        return ImplicitLoss(self.alpha, self.regularisation, self.over, self.frequency)

    def guarantee(self, public: PublicFacts) -> Guarantee:
        return no_guarantee(public, "every rating", "user and item factors")

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        matrix = binary_matrix(ratings)
        columns = transposed(matrix)
        left, right = initial_factors(*ratings.shape, self.rank, rng)
        for k in range(1, self.rounds + 1):
            left = solve_rows(matrix, right, self.loss, single=self.single)
            right = solve_rows(columns, left, self.loss, single=self.single)
            raw = {"loss": self.loss.value(matrix, left, right)}
            yield Step(k, self.rounds, Factors(left, right), raw, frozenset(raw), k == self.rounds)


@dataclass(frozen=True, kw_only=True)
class Popularity:
    """Every user gets the items that most users have."""

    id: ClassVar[str] = "popularity"
    name: ClassVar[str] = "Popularity"
    task: ClassVar[Task] = Task.RANKING
    twin: ClassVar[str] = "ials"
    floor: ClassVar[str] = "popularity"
    revision: ClassVar[int] = 1

    def guarantee(self, public: PublicFacts) -> Guarantee:
        return no_guarantee(public, "how many users have each item", "one number per item")

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:  # noqa: ARG002
        check_interactions(ratings)
        counts = np.bincount(ratings.items, minlength=ratings.public.items)
        model = Factors(np.ones((ratings.public.users, 1)), counts.astype(float)[:, None])
        most = {"most popular item": float(counts.max())}
        yield Step(1, 1, model, most, frozenset(most), True)


class Similarity(enum.Enum):
    """How alike two items are, from the users who have them."""

    JACCARD = "jaccard"
    COSINE = "cosine"


@dataclass(frozen=True, kw_only=True)
class ItemNeighbours:
    """Nearest-neighbour scores over items, without privacy: the limit of DPLCF and LDPICF."""

    id: ClassVar[str] = "item-knn"
    name: ClassVar[str] = "Item neighbours, no privacy"
    task: ClassVar[Task] = Task.RANKING
    twin: ClassVar[str] = "item-knn"
    floor: ClassVar[str] = "popularity"
    revision: ClassVar[int] = 1
    neighbours: int = setting(100, "nearest items that score an item", at_least=1, at_most=10_000)
    similarity: Similarity = setting(
        Similarity.JACCARD,
        "how alike two items are",
        choices=tuple(m.value for m in Similarity),
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def guarantee(self, public: PublicFacts) -> Guarantee:
        return no_guarantee(public, "every rating", "item similarities")

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:  # noqa: ARG002
        rows = binary_matrix(ratings)
        columns = transposed(rows)
        counts = np.diff(columns.indptr).astype(float)
        alike = jaccard if self.similarity is Similarity.JACCARD else cosine

        def similarities(block: Ints) -> Floats:
            both = (columns[block] @ rows).toarray()
            return alike(both, counts[block][:, None], counts)

        similar = nearest(ratings.public.items, self.neighbours, similarities)
        trace = {"neighbours per item": similar.nnz / ratings.public.items}
        yield Step(1, 1, Neighbourhood(rows, similar), trace, frozenset(trace), True)
