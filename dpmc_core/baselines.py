"""Methods without privacy: the non-private twins and the trivial predictors of every chart."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpmc_core.linalg import Pattern
from dpmc_core.model import Constant, Step, Task
from dpmc_core.privacy import Guarantee, Neighbours, Notion, Trust, Unaccounted, Unit
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.least_squares_mf import LeastSquaresMF, in_points
from dpmc_core.solvers.one_bit import Completion, as_step, likelihood, positive
from dpmc_core.solvers.recovery import Recovery, Reports, centre


def no_guarantee(public: PublicFacts, query: str, publishes: str) -> Guarantee:
    """The card of a method that reads raw ratings and adds no noise."""
    return Guarantee(
        unit=Unit.VALUE,
        neighbours=Neighbours.REPLACE,
        notion=Notion.NONE,
        trust=Trust.CURATOR,
        publishes=publishes,
        public=public,
        claimed=None,
        source="no privacy",
        unaccounted=(Unaccounted(query, "used without noise"),),
    )


@dataclass(frozen=True, kw_only=True)
class Clear(Completion):
    """Maximum-likelihood one-bit completion without privacy (Davenport et al. 2014)."""

    id: ClassVar[str] = "clear"
    name: ClassVar[str] = "No privacy"
    task: ClassVar[Task] = Task.BINARY
    twin: ClassVar[str] = "clear"
    floor: ClassVar[str] = "majority"
    revision: ClassVar[int] = 1

    def guarantee(self, public: PublicFacts) -> Guarantee:
        return no_guarantee(public, "every rating", "completed matrix")

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        loss = likelihood(self.link, positive(ratings))
        for iterate in self.solve(loss, ratings, rng):
            yield as_step(iterate, self.iterations, publishable=True, raw=True)


@dataclass(frozen=True, kw_only=True)
class Majority:
    """One score for every cell: the log odds of +1, whose sign is the more frequent one."""

    id: ClassVar[str] = "majority"
    name: ClassVar[str] = "Majority sign"
    task: ClassVar[Task] = Task.BINARY
    twin: ClassVar[str] = "clear"
    floor: ClassVar[str] = "majority"
    revision: ClassVar[int] = 2

    def guarantee(self, public: PublicFacts) -> Guarantee:
        return no_guarantee(public, "the more frequent sign", "one sign")

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:  # noqa: ARG002
        labels = positive(ratings)
        up, count = float(labels.sum()), len(labels)
        # Half a rating on either side keeps the odds finite; a tie counts as +1.
        score = math.log((up + 0.5) / (count - up + 0.5)) or 1e-9
        trace = {"share of +1": up / count}
        yield Step(1, 1, Constant(score), trace, frozenset(trace), True)


@dataclass(frozen=True, kw_only=True)
class GlobalMean:
    """The mean rating for every cell."""

    id: ClassVar[str] = "global-mean"
    name: ClassVar[str] = "Global mean"
    task: ClassVar[Task] = Task.RATINGS
    twin: ClassVar[str] = "global-mean"
    floor: ClassVar[str] = "global-mean"
    revision: ClassVar[int] = 1

    def guarantee(self, public: PublicFacts) -> Guarantee:
        return no_guarantee(public, "the mean of all ratings", "one number")

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:  # noqa: ARG002
        mean = float(ratings.values.mean())
        yield Step(1, 1, Constant(mean), {"mean": mean}, frozenset({"mean"}), True)


@dataclass(frozen=True, kw_only=True)
class SoftImpute(Recovery):
    """Nuclear-norm recovery from the ratings themselves (Mazumder, Hastie, Tibshirani 2010)."""

    id: ClassVar[str] = "soft-impute"
    name: ClassVar[str] = "Soft-impute, no privacy"
    task: ClassVar[Task] = Task.RATINGS
    twin: ClassVar[str] = "soft-impute"
    floor: ClassVar[str] = "global-mean"
    revision: ClassVar[int] = 1

    def guarantee(self, public: PublicFacts) -> Guarantee:
        return no_guarantee(public, "every rating", "completed matrix")

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        public = ratings.public
        reports = Reports(
            pattern=Pattern.of(ratings),
            values=(ratings.values - centre(public)) / (public.width / 2),
            gain=1.0,
            variance=self.misfit**2,
            rho=self.misfit * len(ratings) ** 0.5,
        )
        yield from self.recover(reports, public, rng, raw=True)


@dataclass(frozen=True, kw_only=True)
class PMF(LeastSquaresMF):
    """Regularised least-squares factorization (PMF), user factors in the unit ball, as in HXZ15."""

    id: ClassVar[str] = "pmf"
    name: ClassVar[str] = "PMF, no privacy"
    task: ClassVar[Task] = Task.RATINGS
    twin: ClassVar[str] = "pmf"
    floor: ClassVar[str] = "global-mean"
    revision: ClassVar[int] = 1

    def guarantee(self, public: PublicFacts) -> Guarantee:
        return no_guarantee(public, "every rating", "item factors and user factors")

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        sides = self.sides(ratings)
        for k, (users, items) in enumerate(self.alternate(sides, rng), start=1):
            yield Step(
                index=k,
                total=self.iterations,
                model=in_points(users, items, ratings.public),
                trace={"objective": self.objective(sides, users, items)},
                raw=frozenset({"objective"}),
                final=k == self.iterations,
            )
