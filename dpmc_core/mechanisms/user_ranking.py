"""Rankings that protect whole users: private popularity, and DPIMF made to hold for users."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

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
from dpmc_core.solvers.taste import cross_moments, profiles, signal_energy

Floats = NDArray[np.float64]

_GRAM = 0.1  # share of a round's budget for the small Gram matrix
_EVEN = 100.0  # mu users / sqrt(items) at which popularity and taste share the budget evenly
_MOST = 0.9  # of the budget for taste
_LEAST = 0.3  # of the noise: the smallest believed count
_SPREAD = 2.0  # believed variance of an item's moments goes with its popularity to this power
_DROWNED = 0.02  # weight of a direction below the noise, relative to the noise
_FLOOR = 0.05  # smallest eigenvalue of the Gram matrix, relative to that of spread-out profiles


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
    taste: Gaussian
    gram: Gaussian


@dataclass(frozen=True, kw_only=True)
class DpimfUser:
    """Popularity plus taste along directions that stand clear of the noise.

    Linear discriminant analysis of user profiles x_u, the direction of the user's row among public
    item features (zero for an empty row, else of length 1). With S the covariance of profiles and
    t_i how far the mean profile of item i's users lies from the mean of all, the score is

        log popularity_i + (x_u - mean x)' S^-1 t_i - t_i' S^-1 t_i / 2.

    All that items learn from users goes through Gaussian noise, l2 for USER_EMPTIED:

    - popularity b, once: the rows, each scaled to length sqrt(k), sqrt(k);
    - taste, each round: sum of weight x profile-without-the-item over an item's users, sqrt(k);
    - Gram, each round: sum (x, 1)(x, 1)', sqrt(3), because the last entry is the public m.

    For USER_REPLACED they are sqrt(2 k), 2 sqrt(k) and sqrt(8). Features start random; each round's
    taste matrix gives the next ones. Its singular values that do not clear the known noise are set
    to zero and the others shrunk, so where nothing clears it the ranking is the private popularity
    that was released, exactly. Where the released popularity shows that taste could not be heard
    (`_audible`), the taste release asks for the same popularity again, in its first column: it
    moves by sqrt(k) too (USER_REPLACED: sqrt(2 k)), and a choice by released numbers alone is
    adaptive composition. Each user's own profile and scores stay with that user.
    """

    id: ClassVar[str] = "dpimf-user"
    name: ClassVar[str] = "DPIMF-U"
    task: ClassVar[Task] = Task.RANKING
    twin: ClassVar[str] = "ials"
    floor: ClassVar[str] = "popularity"
    revision: ClassVar[int] = 2
    epsilon: float = setting(help="privacy budget per user", above=0, at_most=1e6)
    delta: float = setting(1e-6, "chance of failure", above=0, below=1)
    rank: int = setting(8, "taste directions looked for (d)", at_least=1, at_most=256)
    rounds: int = setting(4, "times the directions are refined", at_least=1, at_most=1000)
    contributions: int = setting(
        1, "items a user counts for in full (k); longer rows count less", at_least=1, at_most=10**6
    )
    taste_share: float | None = setting(
        None, "share of the budget (mu squared) for taste (none: by size)", above=0, below=1
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def share(self, public: PublicFacts) -> float:
        """Share of mu^2 that goes to taste: more where more users speak against the noise.

        A direction of taste shared by all users grows with m; the noise it has to clear with
        sqrt(items) / mu.
        """
        if self.taste_share is not None:
            return self.taste_share
        clear = gaussian_mu(self.epsilon, self.delta) * public.users / math.sqrt(public.items)
        return min(clear**2 / (clear**2 + _EVEN**2), _MOST)

    def guarantee(self, public: PublicFacts) -> Guarantee[TasteReleases]:
        check_delta(self.delta, public)
        share, budget = self.share(public), Loss(mu=gaussian_mu(self.epsilon, self.delta))
        popularity, taste, gram = budget.split(1 - share, share * (1 - _GRAM), share * _GRAM)
        row = math.sqrt(min(self.contributions, public.items))
        d = self.rank
        releases = TasteReleases(
            popularity=user_gaussian(
                "how many users have each item, rows scaled",
                *((public.items,), popularity, row, math.sqrt(2) * row),
            ),
            taste=user_gaussian(
                "sum of the profiles of each item's users, the item left out (where that"
                " cannot be heard: how many users, again)",
                *((public.items, d), taste / self.rounds, row, 2 * row, self.rounds),
            ),
            gram=user_gaussian(
                "second moments of the profiles and an intercept",
                *((d + 1, d + 1), gram / self.rounds, math.sqrt(3), math.sqrt(8), self.rounds),
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
        releases = self.guarantee(ratings.public).releases
        check_interactions(ratings)
        pattern = Pattern.of(ratings)
        weights = contributions(ratings, self.contributions)
        users, items = ratings.public.users, ratings.public.items
        count = item_sums(pattern, weights)
        counts = releases.popularity.publish(count, rng)
        noise = releases.popularity.scale
        if not _audible(counts, noise, releases.taste.scale):
            yield from self._again(users, count, counts, releases, rng)
            return
        least = _LEAST * noise  # no count is believed to be less
        chance = np.maximum(counts, least) / np.maximum(counts, least).sum()
        features = rng.uniform(-1.0, 1.0, (items, self.rank))  # no data in it
        features *= np.sqrt(chance)[:, None]  # what is told about rare items drowns
        features[counts <= noise] = 0.0
        for k in range(1, self.rounds + 1):
            features = features - chance @ features  # what popularity alone would give
            own = profiles(pattern, features)
            moments = releases.taste.publish(cross_moments(pattern, weights, features), rng)
            with_one = np.hstack([own, np.ones((users, 1))])
            gram = releases.gram.publish(with_one.T @ with_one, rng)
            taste = _Taste.of(moments, gram, counts / users, users, releases.taste.scale)
            model = _popularity(counts, users)
            if taste.found:
                model = taste.model(own, _believed(counts, noise), chance)
            trace = {"directions that clear the noise": float(taste.found)}
            yield Step(k, self.rounds, model, trace, final=k == self.rounds)
            features = taste.features(chance)

    def _again(
        self,
        users: int,
        count: Floats,
        counts: Floats,
        releases: TasteReleases,
        rng: np.random.Generator,
    ) -> Iterator[Step]:
        """Rounds that ask for the popularity again and average it with what is known."""
        known, new = releases.popularity.scale**-2, releases.taste.scale**-2
        asked = np.zeros((len(count), self.rank))
        asked[:, 0] = count
        nothing = np.zeros((self.rank + 1, self.rank + 1))
        for k in range(1, self.rounds + 1):
            more = releases.taste.publish(asked, rng)[:, 0]
            releases.gram.publish(nothing, rng)  # on the card, so it is spent
            counts = (known * counts + new * more) / (known + new)
            known += new
            trace = {"directions that clear the noise": 0.0}
            yield Step(k, self.rounds, _popularity(counts, users), trace, final=k == self.rounds)


def _audible(counts: Floats, noise: float, taste_noise: float) -> bool:
    """Whether one round of taste could be heard, judged by the released popularity.

    Taste divides the users of an item, so that its moments along a direction are a part of the
    item's count: their length over all items is a part of the length of the counts. It has to be
    told from noise of length taste_noise sqrt(items).
    """
    energy = float(counts @ counts) - len(counts) * noise**2  # unbiased: the noise is known
    return energy >= len(counts) * taste_noise**2


def _believed(counts: Floats, noise: float) -> Floats:
    """Noisy counts as positive numbers in the same order: means given that no count is negative."""
    from scipy.special import log_ndtr

    z = counts / noise
    mills = np.exp(-0.5 * z**2 - 0.5 * math.log(2 * math.pi) - log_ndtr(z))
    believed: Floats = np.maximum(counts + noise * mills, 1e-12 * noise)
    return believed


def _popularity(counts: Floats, users: int) -> Factors:
    return Factors(np.ones((users, 1)), counts[:, None] / users)


class _Taste(NamedTuple):
    """Post-processing of one round: what the items' taste is once the noise is taken out.

    rotation: d x d, directions in the space of profiles, strongest first. strength: d, their
    singular values without the noise, 0 where it drowns them. moments: items x d, centred and
    rotated, still noisy. centre: mean profile. gram: d x d, centred and rotated.
    """

    rotation: Floats
    strength: Floats
    moments: Floats
    centre: Floats
    gram: Floats
    noise: float
    edge: float

    @classmethod
    def of(cls, moments: Floats, gram: Floats, base: Floats, users: int, noise: float) -> _Taste:
        items, d = moments.shape
        symmetric = 0.5 * (gram + gram.T)
        sums = symmetric[:d, d]
        moments = moments - np.outer(base, sums)
        _, values, directions = np.linalg.svd(moments, full_matrices=False)
        rotation = directions.T
        centred = symmetric[:d, :d] - np.outer(sums, sums) / users
        return cls(
            rotation,
            signal_energy(values, noise, items, d),
            moments @ rotation,
            sums / users,
            rotation.T @ centred @ rotation,
            noise,
            noise * (math.sqrt(items) + math.sqrt(d)),
        )

    @property
    def found(self) -> int:
        """How many directions clear the noise."""
        return int(np.count_nonzero(self.strength))

    def shrunk(self, strength: Floats, chance: Floats) -> Floats:
        """Moments with the noise shrunk away, items x d: rare items are believed to vary less."""
        spread = chance**_SPREAD
        prior = np.outer(spread / spread.sum(), strength**2)
        clean: Floats = self.moments * prior / (prior + self.noise**2)
        return clean

    def model(self, own: Floats, believed: Floats, chance: Floats) -> Factors:
        """The discriminant scores as factors. believed: the items' counts, positive."""
        r = self.found
        values, vectors = np.linalg.eigh(self.gram[:r, :r])
        floor = _FLOOR * len(own) / len(self.strength)
        inverse = (vectors / np.maximum(values, floor)) @ vectors.T * len(own)
        apart = self.shrunk(self.strength, chance)[:, :r] / believed[:, None]
        right = apart @ inverse
        base = np.log(believed) - 0.5 * (apart * right).sum(axis=1)
        left = (own - self.centre) @ self.rotation[:, :r]
        return Factors(np.hstack([np.ones((len(own), 1)), left]), np.hstack([base[:, None], right]))

    def features(self, chance: Floats) -> Floats:
        """Item features of the next round: how an item's taste differs from what is usual.

        Directions weigh by the root of their strength; drowned ones stay in, weakly, because they
        may clear the noise once more of the profiles lies along them.
        """
        strength = np.maximum(self.strength, _DROWNED * self.edge)
        loading = self.shrunk(strength, chance) / chance[:, None]
        loading /= np.sqrt(chance @ loading**2)
        scaled: Floats = loading * np.sqrt(strength / strength.max())
        return scaled
