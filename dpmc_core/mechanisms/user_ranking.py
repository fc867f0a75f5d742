"""Rankings that protect whole users: private popularity, and popularity with taste."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpmc_core.mechanisms.per_user import check_delta, user_gaussian
from dpmc_core.model import Factors, Step, Task
from dpmc_core.privacy import (
    CELL,
    USER_EMPTIED,
    USER_REPLACED,
    Budget,
    Gaussian,
    Guarantee,
    Laplace,
    Loss,
    Notion,
    Publishes,
    Releases,
    Trust,
)
from dpmc_core.privacy.accounting import gaussian_mu
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import check_settings, setting
from dpmc_core.solvers.implicit import check_interactions
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.rows import contributions, item_sums
from dpmc_core.solvers.taste import Audiences, Counts, cross_moments, profiles, unit_rows

Floats = NDArray[np.float64]

_FIRST = 0.25  # share of the budget (mu squared) for the first count
_ASKS = (1, 2, 3)  # how often each round's profiles are asked for; as many counts without taste
_MOMENTS = 0.03  # share of an answer's budget for the second moments of profiles
_COUNT = 0.2  # of the length of a user's part that counts the user; the rest is the profile
_HEARD = 20.0  # squared counts against the noise of the whole budget, from where on taste is heard


class Per(enum.Enum):
    """Whose presence the budget covers."""

    USER = "user"
    CELL = "cell"


@dataclass(frozen=True)
class NoisyCounts(Releases):
    counts: Laplace | Gaussian


@dataclass(frozen=True, kw_only=True)
class PrivatePopularity:
    """How many users have each item, with noise; a user's row counts with length at most sqrt(k).

    Per user, each row of ones is scaled to length sqrt(k) where it is longer, so heavy users count
    less per item (Gaussian noise: l2 sqrt(k) for USER_EMPTIED; Laplace at delta = 0 scales to l1
    length k instead). Per cell nothing is scaled, and one cell moves one count by 1.
    """

    id: ClassVar[str] = "private-popularity"
    name: ClassVar[str] = "Private popularity"
    task: ClassVar[Task] = Task.RANKING
    twin: ClassVar[str] = "ials"
    floor: ClassVar[str] = "popularity"
    revision: ClassVar[int] = 2
    epsilon: float = setting(help="privacy budget", above=0, at_most=1e6)
    delta: float = setting(1e-6, "chance of failure (0: Laplace noise)", at_least=0, below=1)
    per: Per = setting(Per.USER, "what the budget protects")
    contributions: int = setting(
        1, "items a user counts for in full (k); longer rows count less", at_least=1, at_most=10**6
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def guarantee(self, public: PublicFacts) -> Guarantee[NoisyCounts]:
        user = self.per is Per.USER
        if user:
            check_delta(self.delta, public)
        k = min(self.contributions, public.items) if user else 1
        query, shape = "how many users have each item", (public.items,)
        release: Laplace | Gaussian
        if self.delta == 0:
            table = {USER_EMPTIED if user else CELL: k}
            release = Laplace(query=query, shape=shape, sensitivity=table, scale=k / self.epsilon)
        else:
            l2, mu = math.sqrt(k), gaussian_mu(self.epsilon, self.delta)
            # Rows have no negative parts, so two of them are at most sqrt(2) times as far apart.
            moves = {USER_EMPTIED: l2, USER_REPLACED: math.sqrt(2.0) * l2} if user else {CELL: l2}
            release = Gaussian(query=query, shape=shape, sensitivity=moves, scale=l2 / mu)
        return Guarantee(
            change=USER_EMPTIED if user else CELL,
            notion=Notion.APPROX if self.delta else Notion.PURE,
            trust=Trust.CURATOR,
            publishes=Publishes.ITEM_COUNTS,
            public=public,
            claimed=Budget(self.epsilon, self.delta),
            source="Gaussian mechanism" if self.delta else "Laplace mechanism",
            releases=NoisyCounts(release),
        )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        check_interactions(ratings)
        values = np.ones(len(ratings))
        if self.per is Per.USER:
            norm = 2 if self.delta else 1
            values = contributions(ratings, self.contributions, norm)
        counts = item_sums(Pattern.of(ratings), values)
        noisy = self.guarantee(ratings.public).releases.counts.publish(counts, rng)
        model = Factors(np.ones((ratings.public.users, 1)), noisy[:, None])
        yield Step(1, 1, model, {"most popular item": float(noisy.max())}, final=True)


@dataclass(frozen=True)
class TasteReleases(Releases):
    popularity: Gaussian
    rounds: Gaussian
    moments: Gaussian


@dataclass(frozen=True, kw_only=True)
class PrivateTaste:
    """Popularity, and taste in rounds where the released popularity says that it can be heard.

    Linear discriminant analysis of user profiles u, the direction of the user's row among public
    item features (zero for an empty row, else of length 1). With N the items' counts, S the
    covariance of profiles and t how far the mean profile of an item's users lies from that of all,
    the score is log N + (u - centre)' S^-1 t - t' S^-1 t / 2.

    All that items learn from users goes through Gaussian noise. A user of k items adds, in l2 where
    the row becomes empty (and where it becomes any other row):

    - popularity, once: 1/sqrt(k) to each own item: 1 (sqrt 2, for no part is negative);
    - rounds, six times: to each own item sqrt(.2)/sqrt(k) in column 0 and sqrt(.8)/sqrt(k) times
      the profile without that item in the others: 1 (sqrt(2 + 2 (.8 - .2)), where all profiles
      turn round and no item changes);
    - moments, six times: (u, 1)(u, 1)': sqrt 3, because the last entry is the public m (sqrt 8).

    Features start random; what items learned in a round are the next ones, and a round's question
    is asked once, twice, then three times. Where the released popularity is so faint that taste
    drowns, column 0 alone is asked, six times, for counts with rows a/||a|| of length 1: the
    weights a of the items favour those little is known of. Either way all releases have the shapes,
    scales and bounds on the card, and which way is post-processing. Each user's own profile and
    scores stay with that user.
    """

    id: ClassVar[str] = "private-taste"
    name: ClassVar[str] = "Private popularity and taste"
    task: ClassVar[Task] = Task.RANKING
    twin: ClassVar[str] = "ials"
    floor: ClassVar[str] = "popularity"
    revision: ClassVar[int] = 1
    epsilon: float = setting(help="privacy budget per user", above=0, at_most=1e6)
    delta: float = setting(1e-6, "chance of failure", above=0, below=1)
    rank: int = setting(10, "taste directions looked for", at_least=1, at_most=64)

    def __post_init__(self) -> None:
        check_settings(self)

    def guarantee(self, public: PublicFacts) -> Guarantee[TasteReleases]:
        check_delta(self.delta, public)
        budget, asks, d = Loss(mu=gaussian_mu(self.epsilon, self.delta)), sum(_ASKS), self.rank
        first, rounds, moments = budget.split(
            _FIRST, (1 - _FIRST) * (1 - _MOMENTS), (1 - _FIRST) * _MOMENTS
        )
        turned = math.sqrt(2 + 2 * (1 - 2 * _COUNT))
        releases = TasteReleases(
            popularity=user_gaussian(
                "how many users have each item, rows scaled to length 1",
                *((public.items,), first, 1.0, math.sqrt(2)),
            ),
            rounds=user_gaussian(
                "how many users have each item, and the sum of their profiles without it (where"
                " those would drown: how many users alone)",
                *((public.items, d + 1), rounds / asks, 1.0, turned, asks),
            ),
            moments=user_gaussian(
                "second moments of the profiles and an intercept",
                *((d + 1, d + 1), moments / asks, math.sqrt(3), math.sqrt(8), asks),
            ),
        )
        return Guarantee(
            change=USER_EMPTIED,
            notion=Notion.JOINT,
            trust=Trust.CURATOR,
            publishes=Publishes.FACTORS_AND_SCORES,
            public=public,
            claimed=Budget(self.epsilon, self.delta),
            source="Gaussian mechanism, composed exactly",
            releases=releases,
        )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        check_interactions(ratings)
        releases, pattern = self.guarantee(ratings.public).releases, Pattern.of(ratings)
        plain = unit_rows(pattern, np.ones(ratings.public.items))
        noisy = releases.popularity.publish(item_sums(pattern, plain), rng)
        counts = Counts(noisy, np.full(len(noisy), releases.popularity.scale))
        branch = self._tastes if _heard(noisy, releases.popularity.scale) else self._counts
        for k, (model, heard) in enumerate(branch(pattern, plain, counts, releases, rng), 1):
            yield Step(k, sum(_ASKS), model, {"taste that is heard": heard})

    def _tastes(
        self,
        pattern: Pattern,
        plain: Floats,
        counts: Counts,
        releases: TasteReleases,
        rng: np.random.Generator,
    ) -> Iterator[tuple[Factors, float]]:
        """The models after each answer, and the sum of the variances of taste."""
        users, items = pattern.shape
        count, profile = math.sqrt(_COUNT), math.sqrt(1 - _COUNT)
        noise, rows = releases.rounds.scale, item_sums(pattern, plain)
        features = rng.normal(size=(items, self.rank))  # no data in it
        features *= np.sqrt(counts.believed)[:, None]  # what is told about rare items drowns
        for asks in _ASKS:
            believed = counts.believed
            features = features - believed @ features / believed.sum()
            own = profiles(pattern, features)
            others = cross_moments(pattern, plain, features)
            asked = np.hstack([count * rows[:, None], profile * others])
            with_one = np.hstack([own, np.ones((users, 1))])
            gram = with_one.T @ with_one
            moments, second = np.zeros_like(others), np.zeros_like(gram)
            for times in range(1, asks + 1):
                answer = releases.rounds.publish(asked, rng)
                counts = counts.with_also(answer[:, 0] / count, noise / count)
                believed = counts.believed
                moments += (answer[:, 1:] / profile - moments) / times
                second += (releases.moments.publish(gram, rng) - second) / times
                found = Audiences.of(
                    moments, noise / profile / math.sqrt(times), second, believed, users
                )
                yield found.scores(own, believed), float(np.trace(found.prior))
            features = found.features(believed)

    def _counts(
        self,
        pattern: Pattern,
        plain: Floats,  # noqa: ARG002
        counts: Counts,
        releases: TasteReleases,
        rng: np.random.Generator,
    ) -> Iterator[tuple[Factors, float]]:
        """The same where only counts are asked for; the moments are on the card, so are spent."""
        users, items = pattern.shape
        nothing = np.zeros((self.rank + 1, self.rank + 1))
        for _ in range(sum(_ASKS)):
            asked = np.zeros((items, self.rank + 1))
            asked[:, 0] = item_sums(pattern, unit_rows(pattern, counts.weights))
            answer = releases.rounds.publish(asked, rng)[:, 0]
            releases.moments.publish(nothing, rng)
            counts = counts.asked(answer, releases.rounds.scale)
            yield Factors(np.ones((users, 1)), counts.believed[:, None] / users), 0.0


def _heard(noisy: Floats, noise: float) -> bool:
    """Whether rounds of taste could be heard, judged by the first released counts alone.

    Taste divides the users of an item, so its moments are a part of the item's count: the mean
    square of the counts, less the known noise, is held against the noise that the whole budget
    would leave.
    """
    energy = float(noisy @ noisy) / len(noisy) - noise**2
    return energy >= _HEARD * _FIRST * noise**2
