"""Popularity counts with noise: the floor a private ranking has to beat at the same unit."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpmc_core.accounting import gaussian_mu
from dpmc_core.joint import check_delta
from dpmc_core.model import Factors, Step, Task
from dpmc_core.privacy import (
    Budget,
    Gaussian,
    Guarantee,
    Laplace,
    Neighbours,
    Notion,
    Release,
    Trust,
    Unit,
    by_unit,
)
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import check_settings, setting
from dpmc_core.solvers.contributions import contributions
from dpmc_core.solvers.implicit import check_interactions


class Per(enum.Enum):
    """Whose presence the budget covers."""

    USER = "user"
    CELL = "cell"


@dataclass(frozen=True, kw_only=True)
class PrivatePopularity:
    """How many users have each item, with noise; a user's row counts with length at most sqrt(k).

    Per user, each row of ones is scaled to length sqrt(k) where it is longer, so heavy users count
    less per item (Gaussian noise: l2 sqrt(k) under EMPTY; Laplace at delta = 0 scales to l1 length
    k instead). Per cell nothing is scaled, and one cell moves one count by 1.
    """

    id: ClassVar[str] = "private-popularity"
    name: ClassVar[str] = "Private popularity"
    task: ClassVar[Task] = Task.RANKING
    twin: ClassVar[str] = "ials"
    floor: ClassVar[str] = "popularity"
    revision: ClassVar[int] = 2
    epsilon: float = setting(help="privacy budget", above=0, at_most=1e6)
    delta: float = setting(1e-6, "chance of failure (0: Laplace noise)", at_least=0, below=1)
    per: Per = setting(Per.USER, "what the budget protects", choices=tuple(m.value for m in Per))
    contributions: int = setting(
        1, "items a user counts for in full (k); longer rows count less", at_least=1, at_most=10**6
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def guarantee(self, public: PublicFacts) -> Guarantee:
        user = self.per is Per.USER
        if user:
            check_delta(self.delta, public)
        k = min(self.contributions, public.items)
        release: Release
        if self.delta == 0:
            moves = float(k) if user else 1.0
            release = Laplace(
                query="how many users have each item",
                shape=(public.items,),
                sensitivity=by_unit(user_empty=moves) if user else by_unit(entry=1.0),
                scale=moves / self.epsilon,
            )
        else:
            moves = math.sqrt(k) if user else 1.0
            # Rows have no negative parts, so two of them are at most sqrt(2) times as far apart.
            table = by_unit(user_empty=moves, user_replace=math.sqrt(2.0) * moves)
            release = Gaussian(
                query="how many users have each item",
                shape=(public.items,),
                sensitivity=table if user else by_unit(entry=1.0),
                scale=moves / gaussian_mu(self.epsilon, self.delta),
            )
        return Guarantee(
            unit=Unit.USER if user else Unit.ENTRY,
            neighbours=Neighbours.EMPTY if user else Neighbours.REPLACE,
            notion=Notion.APPROX if self.delta else Notion.PURE,
            trust=Trust.CURATOR,
            publishes="one number per item",
            public=public,
            claimed=Budget(self.epsilon, self.delta),
            source="Gaussian mechanism" if self.delta else "Laplace mechanism",
            releases={"counts": release},
        )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        check_interactions(ratings)
        values = np.ones(len(ratings))
        if self.per is Per.USER:
            norm = 2 if self.delta else 1
            values = contributions(ratings, self.contributions, norm)
        counts = np.bincount(ratings.items, values, minlength=ratings.public.items)
        noisy = self.guarantee(ratings.public).releases["counts"].publish(counts, rng)
        model = Factors(np.ones((ratings.public.users, 1)), noisy[:, None])
        yield Step(1, 1, model, {"most popular item": float(noisy.max())}, final=True)
