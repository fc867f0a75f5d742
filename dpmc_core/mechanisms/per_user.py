"""What the user-level mechanisms for ratings share: budget, card, and private item means.

JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018).
The unit is a user's whole row and the notion is joint: everything but a user's own predictions is
private, so what a user computes from the own row alone (mean, clip, last update) costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import InvalidSetting
from dpmc_core.model import Step, Task
from dpmc_core.privacy import (
    USER_EMPTIED,
    USER_REPLACED,
    Budget,
    Gaussian,
    Guarantee,
    Loss,
    Notion,
    Publishes,
    Releases,
    Trust,
)
from dpmc_core.privacy.accounting import gaussian_mu
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import check_settings, setting
from dpmc_core.solvers.rows import (
    Rows,
    clip_rows,
    item_sums,
    recentred,
    row_norms,
    shrinkage,
    shrunken_means,
    user_rows,
)

Floats = NDArray[np.float64]

_SUMS_SHARE = 0.6  # of the item means' budget; the counts get the rest

R = TypeVar("R", bound=Releases)
T = TypeVar("T")


@dataclass(frozen=True)
class ItemStatistics(Releases):
    item_sums: Gaussian
    item_counts: Gaussian


@dataclass(frozen=True)
class ItemMeansReleases(Releases):
    """What a method with private item means releases first; none where they get no budget."""

    means: ItemStatistics | None


@dataclass(frozen=True, kw_only=True)
class PerUser:
    """A budget per user and the cap on ratings per user."""

    task: ClassVar[Task] = Task.RATINGS
    floor: ClassVar[str] = "user-mean"
    epsilon: float = setting(help="privacy budget per user", above=0, at_most=1e6)
    delta: float = setting(1e-6, "chance the promise may fail; less than 1/users", above=0, below=1)
    cap: int | None = setting(
        80, "most ratings of a user that are used, chosen by own randomness (none: all)", at_least=1
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def most(self, public: PublicFacts) -> int:
        """The enforced cap on ratings per user: at most the number of items."""
        return min(self.cap or public.items, public.cap or public.items, public.items)

    def budget(self) -> Loss:
        """What all releases together may spend, by the exact curve."""
        return Loss(mu=gaussian_mu(self.epsilon, self.delta))

    def card(
        self,
        public: PublicFacts,
        releases: R,
        source: str,
        caveats: tuple[str, ...] = (),
        publishes: Publishes = Publishes.ITEM_FACTORS,
    ) -> Guarantee[R]:
        """The user-level card. Raises InvalidSetting where delta is not below 1/users."""
        check_delta(self.delta, public)
        few: tuple[str, ...] = ()
        if public.users < public.items:
            few = (
                f"there are fewer users ({public.users}) than items ({public.items}): per-user"
                " privacy needs many users for every item, so expect little more than each user's"
                " own mean",
            )
        return Guarantee(
            change=USER_EMPTIED,
            notion=Notion.JOINT,
            trust=Trust.CURATOR,
            publishes=publishes,
            public=public,
            claimed=Budget(self.epsilon, self.delta),
            source=source,
            releases=releases,
            caveats=(*caveats, *few),
        )


@dataclass(frozen=True, eq=False)
class ItemMeans:
    """means: length n, in rating points; counts: the published ones; clipped: rows scaled down."""

    means: Floats
    counts: Floats
    clipped: int


@dataclass(frozen=True, kw_only=True)
class ClippedRows(PerUser):
    """Centred rows are clipped before anything is asked of them, first of all the item means."""

    clip: float = setting(
        0.45,
        "largest l2 norm of a user's centred row, in units of half the range x sqrt(cap)",
        above=0,
        at_most=10,
    )

    def row_norm(self, public: PublicFacts) -> float:
        """The clip L of a centred row, in rating points."""
        return self.clip * public.half_width * math.sqrt(self.most(public))

    def item_statistics(self, public: PublicFacts, budget: Loss) -> ItemStatistics:
        """Sums and counts of the users' weighted rows by item, which spend the budget together.

        A user's weight brings the centred row to l2 norm L at most and is never above one; with k
        ratings at most the row of weights has norm sqrt(k), and two such rows differ by at most
        sqrt(min(2k, items)).
        """
        sums, counts = budget.split(_SUMS_SHARE, 1 - _SUMS_SHARE)
        n, norm, most = public.items, self.row_norm(public), self.most(public)
        root, both = math.sqrt(most), math.sqrt(min(2 * most, n))
        return ItemStatistics(
            user_gaussian(
                "weighted sum of centred ratings of each item", (n,), sums, norm, 2 * norm
            ),
            user_gaussian("weighted number of ratings of each item", (n,), counts, root, both),
        )

    def item_means(
        self,
        releases: ItemStatistics | None,
        rows: Rows,
        public: PublicFacts,
        rng: np.random.Generator,
    ) -> ItemMeans:
        """Item means of capped rows from `item_statistics`; zeros where none are released."""
        if releases is None:
            return ItemMeans(np.zeros(public.items), np.zeros(public.items), 0)
        cells = rows.cells
        weights = shrinkage(row_norms(cells, rows.values), self.row_norm(public))
        each = weights[cells.users]
        sums, counts = releases.item_sums, releases.item_counts
        noisy_sums = sums.publish(item_sums(cells, rows.values * each), rng)
        noisy_counts = counts.publish(item_sums(cells, each), rng)
        means = shrunken_means(noisy_sums, noisy_counts, public.width, sums.scale, counts.scale)
        return ItemMeans(means, noisy_counts, int((weights < 1).sum()))


@dataclass(frozen=True, kw_only=True)
class ItemMeansFirst(ClippedRows):
    """The methods that spend a share of the budget on item means first."""

    item_share: float = setting(
        0.1, "share of the budget spent on private item means first (0: none)", at_least=0, below=1
    )

    def item_releases(self, public: PublicFacts) -> ItemStatistics | None:
        """Releases of the private item means, for their share of the budget; none for share 0."""
        if self.item_share == 0:
            return None
        return self.item_statistics(public, self.budget() * self.item_share)

    def rest(self) -> Loss:
        """What is left of the budget after the item means."""
        return self.budget() * (1 - self.item_share)

    def by_round(
        self, growth: float, rounds: int, release: Callable[[Loss, int, str], T]
    ) -> tuple[T, ...]:
        """What rounds release with the rest: release(budget of one publication, times, words).

        growth: of the signal-to-noise ratio from round to round; at 1 one record stands for all.
        """
        if growth == 1:
            return (release(self.rest() / rounds, rounds, ""),)
        parts = self.rest().split(*(growth ** (2 * t) for t in range(rounds)))
        return tuple(release(part, 1, f", round {t}") for t, part in enumerate(parts, 1))

    def clipped_rows(
        self, ratings: Ratings, releases: ItemMeansReleases, rng: np.random.Generator
    ) -> tuple[Rows, Floats, int]:
        """Capped rows less the private item means; their values clipped to L; rows scaled down."""
        public = ratings.public
        rows = user_rows(ratings, self.most(public), rng)
        rows = recentred(rows, self.item_means(releases.means, rows, public, rng).means)
        return rows, *clip_rows(rows.cells, rows.values, self.row_norm(public))


def user_gaussian(
    query: str,
    shape: tuple[int, ...],
    part: Loss,
    emptied: float,
    replaced: float,
    times: int = 1,
) -> Gaussian:
    """Gaussian noise of which each publication spends `part` where a row becomes empty.

    emptied, replaced: how far in l2 the answer moves then, and where a row becomes any other.
    """
    return Gaussian(
        query=query,
        shape=shape,
        sensitivity={USER_EMPTIED: emptied, USER_REPLACED: replaced},
        scale=emptied / part.mu,
        times=times,
    )


def check_delta(delta: float, public: PublicFacts) -> None:
    """Raise InvalidSetting unless the delta of a promise per user is below 1/users."""
    if delta >= 1 / public.users:
        raise InvalidSetting(
            "delta",
            f"< 1/users = {1 / public.users:.3g}",
            delta,
            "with more, publishing one random user's row would count as private",
        )


@dataclass(frozen=True, kw_only=True)
class PrivateItemMean(ClippedRows):
    """Each user's own mean, which is free, plus item means that take the whole budget."""

    id: ClassVar[str] = "private-item-mean"
    name: ClassVar[str] = "Private user and item means"
    twin: ClassVar[str] = "item-mean"
    revision: ClassVar[int] = 1

    def guarantee(self, public: PublicFacts) -> Guarantee[ItemStatistics]:
        return self.card(
            public,
            self.item_statistics(public, self.budget()),
            "exact Gaussian curve",
            publishes=Publishes.ITEM_MEANS,
        )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        public = ratings.public
        releases = self.guarantee(public).releases
        rows = user_rows(ratings, self.most(public), rng)
        found = self.item_means(releases, rows, public, rng)
        rows = recentred(user_rows(ratings, public.items, rng), found.means)
        clipped = {"rows clipped": float(found.clipped)}
        yield Step(1, 1, rows.model(), clipped, frozenset(clipped), True)
