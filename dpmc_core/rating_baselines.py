"""Rating prediction without privacy: the twins and floors of the user-level mechanisms, and ALS."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpmc_core.baselines import no_guarantee
from dpmc_core.joint import check_rank
from dpmc_core.linalg import Pattern
from dpmc_core.model import Step, Task
from dpmc_core.privacy import Guarantee
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.rows import (
    Rows,
    check_gram,
    gram,
    item_sums,
    recentred,
    user_rows,
    with_offsets,
)
from dpmc_core.settings import check_settings, setting
from dpmc_core.solvers.als import (
    bounded_scale,
    item_statistics,
    random_factors,
    solve_ridge,
    user_ridge,
)
from dpmc_core.solvers.cleansing import Cleansing
from dpmc_core.solvers.frank_wolfe import StepRule, complete
from dpmc_core.solvers.means import shrunken_means
from dpmc_core.solvers.pgd import Descent, Schedule

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RatingBaseline:
    """A method for ratings that reads every rating as it is."""

    task: ClassVar[Task] = Task.RATINGS
    floor: ClassVar[str] = "user-mean"
    revision: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_settings(self)

    def guarantee(self, public: PublicFacts) -> Guarantee:
        return no_guarantee(public, "every rating", "everything it learns")


def centred(ratings: Ratings, rng: np.random.Generator) -> tuple[Rows, Floats]:
    """All rows less user and item means, and the item means (length n)."""
    rows = user_rows(ratings, ratings.public.items, rng)
    sums = item_sums(rows.cells, rows.values)
    counts = item_sums(rows.cells, np.ones_like(rows.values))
    means = shrunken_means(sums, counts, ratings.public.width)
    return recentred(rows, means), means


@dataclass(frozen=True, kw_only=True)
class UserMean(RatingBaseline):
    """Each user's own mean for every item; under joint privacy this needs no noise at all."""

    id: ClassVar[str] = "user-mean"
    name: ClassVar[str] = "User mean"
    twin: ClassVar[str] = "user-mean"

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        rows = user_rows(ratings, ratings.public.items, rng)
        m, n = ratings.shape
        model = with_offsets(np.zeros((m, 0)), np.zeros((n, 0)), rows.means, np.zeros(n))
        yield Step(1, 1, model, final=True)


@dataclass(frozen=True, kw_only=True)
class ItemMean(RatingBaseline):
    """Each user's own mean plus the mean of each item's centred ratings."""

    id: ClassVar[str] = "item-mean"
    name: ClassVar[str] = "User and item means"
    twin: ClassVar[str] = "item-mean"

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        rows, means = centred(ratings, rng)
        m, n = ratings.shape
        model = with_offsets(np.zeros((m, 0)), np.zeros((n, 0)), rows.means, means)
        yield Step(1, 1, model, final=True)


@dataclass(frozen=True, kw_only=True)
class FrankWolfe(RatingBaseline):
    """Nuclear-norm completion by Frank-Wolfe (Jaggi and Sulovsky 2010; JTT18, Algorithm 3)."""

    id: ClassVar[str] = "frank-wolfe"
    name: ClassVar[str] = "Frank-Wolfe, no privacy"
    twin: ClassVar[str] = "frank-wolfe"
    rounds: int = setting(100, "most Frank-Wolfe rounds", at_least=1, at_most=10_000)
    step: StepRule = setting(
        StepRule.LINE_SEARCH, "share of the new part: 1/T, 2/(t+1) in round t, or exact line search"
    )
    radius: float = setting(
        0.8,
        "nuclear-norm radius k, in units of half the range x sqrt(users x items)",
        above=0,
        at_most=1e3,
    )
    tolerance: float = setting(
        1e-3, "stop when the duality gap is this small a part of the objective", at_least=0, below=1
    )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        public = ratings.public
        rows, means = centred(ratings, rng)
        radius = self.radius * 0.5 * public.width * math.sqrt(public.users * public.items)
        solver = complete(
            rows.cells,
            rows.values,
            radius,
            rounds=self.rounds,
            rule=self.step,
            tolerance=self.tolerance,
            rng=rng,
        )
        for iterate, solution in solver:
            factors = solution.factors()
            trace = {
                "objective": iterate.objective,
                "duality gap": iterate.gap,
                "step": iterate.share,
            }
            yield Step(
                index=iterate.index,
                total=self.rounds,
                model=with_offsets(factors.left, factors.right, rows.means, means),
                trace=trace,
                raw=frozenset(trace),
                final=iterate.final,
            )


@dataclass(frozen=True, kw_only=True)
class Als(RatingBaseline):
    """Matrix factorisation by alternating least squares on user- and item-centred ratings.

    Salakhutdinov and Mnih, "Probabilistic Matrix Factorization" (2007), solved by exact ridge
    problems; item factors are rescaled each round so that user factors are in rating points.
    """

    id: ClassVar[str] = "als"
    name: ClassVar[str] = "ALS, no privacy"
    twin: ClassVar[str] = "als"
    rank: int = setting(3, "length of the factors", at_least=1, at_most=200)
    rounds: int = setting(10, "rounds of alternating least squares", at_least=1, at_most=1_000)
    ridge: float = setting(10.0, "ridge of the users' problems", above=0, at_most=1e6)
    item_ridge: float = setting(
        1.0, "ridge of the items' problems, in squared rating points", above=0, at_most=1e6
    )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        check_rank(self.rank, ratings.public)
        rows, means = centred(ratings, rng)
        cells = rows.cells
        right = bounded_scale(random_factors(ratings.public.items, self.rank, rng))
        left = user_ridge(cells, rows.values, right, self.ridge)
        for index in range(1, self.rounds + 1):
            squares, moments = item_statistics(cells, rows.values, left)
            right = bounded_scale(solve_ridge(squares, moments, self.item_ridge))
            left = user_ridge(cells, rows.values, right, self.ridge)
            residual = cells.sample(left, right) - rows.values
            trace = {"training rmse": math.sqrt(float(residual @ residual) / len(residual))}
            yield Step(
                index=index,
                total=self.rounds,
                model=with_offsets(left, right, rows.means, means),
                trace=trace,
                raw=frozenset(trace),
                final=index == self.rounds,
            )


@dataclass(frozen=True, kw_only=True)
class Svd(RatingBaseline):
    """The zero-filled centred matrix over its density, cut to rank r (JTT18, Algorithm 4)."""

    id: ClassVar[str] = "svd"
    name: ClassVar[str] = "SVD, no privacy"
    twin: ClassVar[str] = "svd"
    rank: int = setting(3, "eigenvectors kept", at_least=1, at_most=1_000)

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        check_rank(self.rank, ratings.public)
        check_gram(ratings.public.items)
        rows, means = centred(ratings, rng)
        squares, vectors = np.linalg.eigh(gram(rows.cells, rows.values))
        basis = vectors[:, -self.rank :]
        left = np.asarray(rows.cells.by_user(rows.values) @ basis) / ratings.density
        trace = {"top singular value": math.sqrt(max(float(squares[-1]), 0.0))}
        model = with_offsets(left, basis, rows.means, means)
        yield Step(1, 1, model, trace, frozenset(trace), True)


@dataclass(frozen=True, kw_only=True)
class Pgd(RatingBaseline):
    """Nuclear-norm completion by projected gradient descent (Cai, Candes, Shen 2010)."""

    id: ClassVar[str] = "pgd"
    name: ClassVar[str] = "Projected gradient, no privacy"
    twin: ClassVar[str] = "pgd"
    rounds: int = setting(20, "rounds", at_least=1, at_most=1_000)
    schedule: Schedule = setting(Schedule.CONSTANT, "step size by round")
    step: float = setting(0.5, "step size of the constant schedule", above=0, at_most=1)
    radius: float = setting(
        0.6,
        "nuclear-norm radius k, in units of half the range x sqrt(users x items)",
        above=0,
        at_most=1e3,
    )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        public = ratings.public
        check_gram(public.items)
        rows, means = centred(ratings, rng)
        descent = Descent(rows.cells, rows.values)
        radius = self.radius * 0.5 * public.width * math.sqrt(public.users * public.items)
        for index in range(1, self.rounds + 1):
            step = self.schedule.step(index, self.step)
            exact, _ = descent.stepped_gram(step, math.inf)
            descent.project(step, math.inf, *np.linalg.eigh(exact), radius)
            factors = descent.factors()
            trace = {
                "training rmse": descent.residual_rmse(),
                "rank": float(factors.right.shape[1]),
            }
            yield Step(
                index=index,
                total=self.rounds,
                model=with_offsets(factors.left, factors.right, rows.means, means),
                trace=trace,
                raw=frozenset(trace),
                final=index == self.rounds,
            )


@dataclass(frozen=True, kw_only=True)
class CleansedSvd(Cleansing, RatingBaseline):
    """SVD after cleansing with exact statistics (McSherry and Mironov 2009)."""

    id: ClassVar[str] = "cleansed-svd"
    name: ClassVar[str] = "SVD after cleansing, no privacy"
    twin: ClassVar[str] = "cleansed-svd"

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:  # noqa: ARG002
        check_rank(self.rank, ratings.public)
        check_gram(ratings.public.items)
        model, clamped = self.complete(
            Pattern.of(ratings), ratings.values, ratings.public, lambda _, statistic: statistic
        )
        trace = {"residuals clamped": float(clamped)}
        yield Step(1, 1, model, trace, frozenset(trace), True)
