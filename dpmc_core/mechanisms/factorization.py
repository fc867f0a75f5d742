"""Differentially private matrix factorization with a trusted recommender (scenario 1).

HXZ15: Hua, Xia, Zhong, "Differentially Private Matrix Factorization" (2015).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpmc_core.model import Constant, OwnSide, Step, Task
from dpmc_core.privacy import (
    RATING,
    Budget,
    Guarantee,
    Laplace,
    NormLaplace,
    Notion,
    Publishes,
    Releases,
    Trust,
    Unaccounted,
)
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import AsPublished, check_settings, setting
from dpmc_core.solvers.als import normal_equations, ridge
from dpmc_core.solvers.least_squares_mf import LeastSquaresMF, PublicUserFactors, Sides
from dpmc_core.solvers.rows import with_offsets

Floats = NDArray[np.float64]

LINEAR_TERM = "linear term of each item's objective"


class NoiseForm(enum.Enum):
    """Which noise vector an item's objective gets."""

    NORM = "norm"  # density prop. to exp(-eps ||eta||_2 / (2 width)), as published for scenario 1
    COORDINATE = "coordinate"  # Laplace coordinates, as in the scenarios without a trusted party


@dataclass(frozen=True)
class LinearTerm(Releases):
    linear_term: NormLaplace | Laplace


@dataclass(frozen=True, kw_only=True)
class DPMF(LeastSquaresMF):
    """Objective perturbation of the item factors, user factors held fixed (HXZ15, scenario 1).

    Fit without noise, keep U secret and fixed, add eta_j'v_j to each item's objective:
    v_j = (A_j + mu I)^-1 (b_j - eta_j/2) with A_j = sum u_i u_i', b_j = sum r_ij u_i. One rating
    moves the linear term -2 b_j by at most 2 width ||u_i|| <= 2 width. V is published; each user
    computes the own factors again from V and the own ratings, at home.
    """

    id: ClassVar[str] = "dpmf"
    name: ClassVar[str] = "Private matrix factorization"
    task: ClassVar[Task] = Task.RATINGS
    twin: ClassVar[str] = "pmf"
    floor: ClassVar[str] = "private-mean"
    revision: ClassVar[int] = 1
    published: ClassVar[AsPublished] = AsPublished(
        {"noise": NoiseForm.NORM, "shrink": False},
        "rank and penalties stay what they are: the summary that this program knows the paper by"
        " prints none",
    )
    epsilon: float = setting(help="privacy budget per rating", above=0, at_most=1e6)
    noise: NoiseForm = setting(
        NoiseForm.NORM,
        "noise by the norm of an item's vector (published), or Laplace on each coordinate",
    )
    shrink: bool = setting(
        True, "raise the item penalty with the noise, by a rule that reads no data"
    )
    user_factors: PublicUserFactors | None = setting(
        None,
        "public user factors: random:SEED or a .npy file of users x rank (none: fitted)",
        parse=PublicUserFactors.parse,
    )

    def scale(self, public: PublicFacts) -> float:
        """Noise scale, in rating points: 2 width / eps, times sqrt(rank) for coordinates."""
        spread = 2 * public.width / self.epsilon
        return spread if self.noise is NoiseForm.NORM else spread * math.sqrt(self.rank)

    def noisy_penalty(self, public: PublicFacts) -> float:
        """The ridge penalty of the noisy solution.

        With `shrink` it grows by the standard deviation of eta/2 over that of an item factor,
        taken to be a quarter of the range: what suits a vector known that badly, from public
        numbers alone.
        """
        if not self.shrink:
            return self.item_penalty
        per_coordinate = (
            math.sqrt(self.rank + 1) if self.noise is NoiseForm.NORM else math.sqrt(2.0)
        )
        return self.item_penalty + 0.5 * self.scale(public) * per_coordinate / (public.width / 4)

    def guarantee(self, public: PublicFacts) -> Guarantee[LinearTerm]:
        norm = self.noise is NoiseForm.NORM
        moves = 2 * public.width * (1 if norm else math.sqrt(self.rank))
        bounded = self.unit_ball or self.user_factors is not None
        release = (NormLaplace if norm else Laplace)(
            query=LINEAR_TERM,
            shape=(public.items, self.rank),
            sensitivity={RATING: moves} if bounded else {},
            scale=self.scale(public),
        )
        fitted = (
            Unaccounted(
                "user factors, fitted on the same ratings without noise",
                "the proof holds them constant; through them one rating moves every item",
            ),
            Unaccounted(
                "the sum of u u' over the factors u of an item's raters",
                "enters the published factors without noise",
            ),
        )
        return Guarantee(
            change=RATING,
            notion=Notion.PURE,
            trust=Trust.CURATOR,
            publishes=Publishes.FACTORS_ALONE,
            public=public,
            claimed=Budget(self.epsilon),
            source="HXZ15, scenario 1",
            releases=LinearTerm(release),
            unaccounted=fitted if self.user_factors is None else (),
            caveats=()
            if self.user_factors is None
            else (f"certified given that the user factors ({self.user_factors}) are public",),
        )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        sides = self.sides(ratings)
        public = ratings.public
        rounds = 1 if self.user_factors else self.iterations + 1
        if self.user_factors is not None:
            users = self.user_factors.load(public.users, self.rank)
        else:
            for k, (users, items) in enumerate(self.alternate(sides, rng), start=1):
                objective = self.objective(sides, users, items)
                yield Step(
                    index=k,
                    total=rounds,
                    model=None,  # no noise yet: not publishable
                    trace={"objective": objective},
                    raw=frozenset({"objective"}),
                )
        items = self.private_items(sides, users, public, rng)
        users = self.fit_users(sides, items)
        objective = self.objective(sides, users, items)
        within = ", over u of length 1 at most" if self.unit_ball else ""
        own = OwnSide(
            f"items is [V, 1]. S are the items that the user rated and y = x_S - {public.middle!r};"
            f" u minimises |y - V_S u|^2 + {self.user_penalty!r} |u|^2{within}; the prediction for"
            f" item j is {public.middle!r} + V_j u"
        )
        yield Step(
            index=rounds,
            total=rounds,
            model=replace(with_offsets(users, items, public.middle), own=own),
            trace={"objective": objective},
            raw=frozenset({"objective"}),
            final=True,
        )

    def private_items(
        self, sides: Sides, users: Floats, public: PublicFacts, rng: np.random.Generator
    ) -> Floats:
        """Item factors from the noisy linear terms; zeros for items that nobody rated."""
        releases = self.guarantee(public).releases
        squares, moments = normal_equations(sides.by_item, users)
        noisy = releases.linear_term.publish(-2 * moments, rng)
        items = ridge(squares, -noisy / 2, self.noisy_penalty(public))
        items[np.diff(sides.by_item.indptr) == 0] = 0.0  # which ratings exist is public here
        return items


@dataclass(frozen=True)
class NoisySum(Releases):
    total: Laplace


@dataclass(frozen=True, kw_only=True)
class PrivateMean:
    """The mean rating with Laplace noise on the sum: a guess under the same promise.

    How many ratings there are is public where a promise covers their values only.
    """

    id: ClassVar[str] = "private-mean"
    name: ClassVar[str] = "Private mean"
    task: ClassVar[Task] = Task.RATINGS
    twin: ClassVar[str] = "global-mean"
    floor: ClassVar[str] = "private-mean"
    revision: ClassVar[int] = 1
    epsilon: float = setting(help="privacy budget per rating", above=0, at_most=1e6)

    def __post_init__(self) -> None:
        check_settings(self)

    def guarantee(self, public: PublicFacts) -> Guarantee[NoisySum]:
        return Guarantee(
            change=RATING,
            notion=Notion.PURE,
            trust=Trust.CURATOR,
            publishes=Publishes.ONE_NUMBER,
            public=public,
            claimed=Budget(self.epsilon),
            source="Laplace mechanism",
            releases=NoisySum(
                Laplace(
                    query="sum of the ratings less the middle of the range",
                    shape=(),
                    sensitivity={RATING: public.width},
                    scale=public.width / self.epsilon,
                )
            ),
        )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        public = ratings.public
        total = float((ratings.values - public.middle).sum())
        noisy = float(self.guarantee(public).releases.total.publish(total, rng))
        mean = float(np.clip(public.middle + noisy / len(ratings), public.low, public.high))
        yield Step(1, 1, Constant(mean), {"mean": mean}, final=True)
