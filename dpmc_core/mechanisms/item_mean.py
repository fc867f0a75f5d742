"""Private user and item means: the floor a user-level mechanism must beat at the same budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpmc_core.joint import PerUser, item_mean_releases, private_item_means
from dpmc_core.model import Step
from dpmc_core.privacy import Guarantee
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.rows import recentred, user_rows, with_offsets
from dpmc_core.settings import setting


@dataclass(frozen=True, kw_only=True)
class PrivateItemMean(PerUser):
    """Each user's own mean, which is free, plus item means that take the whole budget."""

    id: ClassVar[str] = "private-item-mean"
    name: ClassVar[str] = "Private user and item means"
    twin: ClassVar[str] = "item-mean"
    revision: ClassVar[int] = 1
    clip: float = setting(
        0.45,
        "largest l2 norm of a user's centred row, in units of half the range x sqrt(cap)",
        above=0,
        at_most=10,
    )

    def row_norm(self, public: PublicFacts) -> float:
        """The clip of a centred row, in rating points."""
        return self.clip * 0.5 * public.width * float(np.sqrt(self.most(public)))

    def guarantee(self, public: PublicFacts) -> Guarantee:
        releases = item_mean_releases(
            public, self.budget(), self.row_norm(public), self.most(public)
        )
        return self.card(
            public,
            releases,
            "exact Gaussian curve",
            publishes="item means; each user's predictions go to that user alone",
        )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        public = ratings.public
        releases = self.guarantee(public).releases
        rows = user_rows(ratings, self.most(public), rng)
        found = private_item_means(releases, rows, self.row_norm(public), public, rng)
        rows = recentred(user_rows(ratings, public.items, rng), found.means)
        none = np.zeros((public.users, 0)), np.zeros((public.items, 0))
        yield Step(
            index=1,
            total=1,
            model=with_offsets(*none, rows.means, found.means),
            trace={"rows clipped": float(found.clipped)},
            raw=frozenset({"rows clipped"}),
            final=True,
        )
