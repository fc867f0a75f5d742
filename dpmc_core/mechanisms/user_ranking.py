"""Rankings that protect whole users: private popularity, and popularity with taste."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace

import numpy as np

from dpmc_core.arrays import Rng
from dpmc_core.mechanisms.per_user import PerUser, check_delta, user_gaussian
from dpmc_core.model import (
    ArrayPart,
    Factors,
    Mechanism,
    OwnSide,
    Step,
    Steps,
    Task,
    Wanted,
)
from dpmc_core.privacy import (
    CELL,
    USER_EMPTIED,
    USER_REPLACED,
    Budget,
    Gaussian,
    Guarantee,
    Harmless,
    Laplace,
    Notion,
    Publishes,
    Releases,
    Trust,
    harmless,
)
from dpmc_core.privacy.accounting import gaussian_mu
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import mechanism, setting
from dpmc_core.solvers.factorization import check_interactions
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.ranking import Audiences, Counts, cross_moments, profiles
from dpmc_core.solvers.rows import contributions, item_sums
from dpmc_core.style import PURPLE, Style

_FIRST = 0.25  # share of the budget (mu squared) for the first count
# How often each round's question is asked, and what it must tell so that the next is about taste:
# the first features are random and show a part of the taste.
_ROUNDS = ((1, 0.0), (2, 0.02), (3, 0.0))
_MOMENTS = 0.03  # share of an answer's budget for the second moments of profiles
_COUNT = 0.2  # of the length of a user's part that counts the user; the rest is the profile
_HEARD = 40.0  # squared counts against the noise of the whole budget, from where on taste is heard


_SAME_FOR_ALL = OwnSide("everybody's score of item j is items_j", (1,))
_OWN_PROFILE = (
    "f is the sum of the rows of `features` of the user's items, and g = f / |f|, or zero where |f|"
    " is at most 1e-9 of the longest row of `features`; the score of item j is items_j (1, g -"
    " centre)"
)


class Per(enum.Enum):
    """Whose presence the budget covers."""

    USER = "user"
    CELL = "cell"


@dataclass(frozen=True)
class NoisyCounts(Releases):
    counts: Laplace | Gaussian


@mechanism
class PrivatePopularity(Mechanism):
    """How many users have each item, with noise; a user's row counts with length at most sqrt(k).

    Per user, each row of ones is scaled to length sqrt(k) where it is longer, so heavy users count
    less per item (Gaussian noise: l2 sqrt(k) for USER_EMPTIED; Laplace at delta = 0 scales to l1
    length k instead). Per cell nothing is scaled, and one cell moves one count by 1.
    """

    id = "private-popularity"
    name = "Private popularity"
    short = "Popularity"
    style = Style(PURPLE, "triangle-left", "dot")
    place = 3
    task = Task.RANKING
    twin = "popularity"
    floor = "private-popularity"
    revision = 2
    epsilon: float = setting(help="privacy budget", above=0, at_most=1e6)
    delta: float = setting(1e-6, "chance of failure (0: Laplace noise)", at_least=0, below=1)
    per: Per = setting(Per.USER, "what the budget protects")
    contributions: int = setting(
        1, "items a user counts for in full (k); longer rows count less", at_least=1, at_most=10**6
    )

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

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:  # noqa: ARG002
        return _SAME_FOR_ALL

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
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


@mechanism
class PrivateTaste(PerUser):
    """Popularity, and taste in rounds as long as what was released says that it is heard.

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
    would drown, or a round told nothing of taste, what is left of the six asks is for the counts
    again, with all of a user's part: 1/sqrt(k) in column 0. Either way every release has the shape,
    scale and bounds on the card, and which way is post-processing. Each user's own profile and
    scores stay with that user.
    """

    id = "private-taste"
    place = -1
    name = "Private popularity and taste"
    short = "Private taste"
    style = Style(PURPLE, "diamond-tall")
    task = Task.RANKING
    twin = "reference-ranking"
    floor = "private-popularity"
    revision = 1
    publishes = Publishes.FACTORS_AND_SCORES
    delta: float = setting(1e-6, "chance of failure", above=0, below=1)
    rank: int = setting(10, "taste directions looked for", at_least=1, at_most=64)

    @classmethod
    def recommended(cls, wanted: Wanted) -> str | None:
        if not wanted.change.per_user or wanted.trust is Trust.LOCAL:
            return None
        return "popularity first, and taste only where the released counts show it can be heard"

    def guarantee(self, public: PublicFacts) -> Guarantee[TasteReleases]:
        d = self.rank
        asks = sum(times for times, _ in _ROUNDS)
        first, rounds, moments = self.budget().split(
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
        return self.card(public, releases, "Gaussian mechanism, composed exactly")

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        if columns == 1:  # no taste was heard
            return _SAME_FOR_ALL
        arrays = {
            "features": ArrayPart((public.items, self.rank)),
            "centre": ArrayPart((self.rank,)),
        }
        return OwnSide(_OWN_PROFILE, (self.rank + 1,), arrays)

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        check_interactions(ratings)
        releases, pattern = self.guarantee(ratings.public).releases, Pattern.of(ratings)
        users, items = ratings.public.shape
        weights = contributions(ratings, 1)
        rows = item_sums(pattern, weights)
        noise = releases.rounds.scale
        counts = Counts(releases.popularity.publish(rows, rng), releases.popularity.scale)
        hear = _heard(counts)
        features = harmless(rng, Harmless.START).uniform(-1.0, 1.0, (items, self.rank))
        features *= np.sqrt(counts.believed)[:, None]  # what is told about rare items drowns
        step = 0
        for asks, least in _ROUNDS:
            asked, gram = np.zeros((items, self.rank + 1)), np.zeros((self.rank + 1, self.rank + 1))
            share = _COUNT if hear else 1.0
            asked[:, 0] = math.sqrt(share) * rows
            if hear:
                features = features - counts.believed @ features / counts.believed.sum()
                asked_with = features
                own = profiles(pattern, features)
                asked[:, 1:] = math.sqrt(1 - share) * cross_moments(pattern, weights, features)
                with_one = np.hstack([own, np.ones((users, 1))])
                gram = with_one.T @ with_one
            answer, moments = np.zeros_like(asked), np.zeros_like(gram)
            agreed, found = np.zeros(2), None
            for times in range(1, asks + 1):
                new = releases.rounds.publish(asked, rng)
                answer += (new - answer) / times
                moments += (releases.moments.publish(gram, rng) - moments) / times
                counts = counts.with_also(new[:, 0] / math.sqrt(share), noise / math.sqrt(share))
                shares = counts.noisy[:, None] / users
                model, told = Factors(np.ones((users, 1)), shares), 0.0
                if hear:
                    profile = answer[:, 1:] / math.sqrt(1 - share)
                    if found is not None:
                        again = new[:, 1:] / math.sqrt(1 - share)
                        agreed += found.agreement(again, counts.believed)
                    off = noise / math.sqrt((1 - share) * times)
                    blur = releases.moments.scale / math.sqrt(times)
                    found = Audiences.of(profile, off, moments, blur, counts.believed, users)
                    trust = min(max(agreed[0] / agreed[1], 0.0), 1.0) if agreed[1] > 0 else 1.0
                    model, told = found.scores(own, counts.believed, trust), trust * found.told
                    own_arrays = {"features": asked_with, "centre": found.centre}
                    model = replace(model, own=own_arrays)
                    features = found.features(counts.believed)
                step += 1
                yield Step(step, releases.rounds.times, model, {"taste that is heard": told})
            hear = hear and told >= least


def _heard(counts: Counts) -> bool:
    """Whether a round of taste could be heard, judged by the first released counts alone.

    Taste divides the users of an item, so its moments are a part of the item's count: the mean
    square of the counts, less the known noise, is held against the noise that the whole budget
    would leave.
    """
    energy = float(counts.noisy @ counts.noisy) / len(counts.noisy) - counts.noise**2
    return energy >= _HEARD * _FIRST * counts.noise**2
