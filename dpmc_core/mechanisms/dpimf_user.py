"""Implicit factorisation that holds for whole users, with every release accounted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core.accounting import gaussian_mu, split_gaussian
from dpmc_core.joint import check_delta
from dpmc_core.linalg import Pattern
from dpmc_core.model import Factors, Step, Task
from dpmc_core.privacy import (
    Budget,
    Gaussian,
    Guarantee,
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
from dpmc_core.solvers.leave_one_out import cross_moments, profiles, signal_energy

Floats = NDArray[np.float64]

_GRAM = 0.1  # share of a round's budget (in mu^2) for the small Gram matrix
_EVEN = 120.0  # mu users / sqrt(items) at which popularity and taste share the budget evenly
_MOST = 0.9  # of the budget for taste
_LEAST = 0.3  # of the noise: the smallest believed count
_SPREAD = 1.5  # taste of an item is believed to vary with its popularity to this power, squared
_DROWNED = 0.02  # weight of a direction below the noise, relative to the noise
_FLOOR = 0.05  # smallest eigenvalue of the Gram matrix, relative to that of spread-out profiles


@dataclass(frozen=True, kw_only=True)
class DpimfUser:
    """Popularity plus taste along directions that stand clear of the noise.

    A linear model of each item on user profiles, y_ui = b_i + (x_u - mean x)' q_i, x_u the
    direction of the user's row among public item features (zero for an empty row, else of length
    1). All that items learn from users goes through Gaussian noise, l2 per user under EMPTY:

    - popularity b, once: the rows, each scaled to length sqrt(k), sqrt(k);
    - taste, each round: sum of weight x profile-without-the-item over an item's users, sqrt(k);
    - Gram, each round: sum (x, 1)(x, 1)', sqrt(3), because the last entry is the public m.

    Under REPLACE they are sqrt(2 k), 2 sqrt(k) and sqrt(8). Features start random; each round's
    taste matrix gives the next ones. Its singular values that do not clear the known noise are set
    to zero and the others shrunk, so where nothing clears it the ranking is the private popularity
    that was released, exactly. Each user's own profile and scores stay with that user.
    """

    id: ClassVar[str] = "dpimf-user"
    name: ClassVar[str] = "DPIMF-U"
    task: ClassVar[Task] = Task.RANKING
    twin: ClassVar[str] = "ials"
    floor: ClassVar[str] = "popularity"
    revision: ClassVar[int] = 1
    epsilon: float = setting(help="privacy budget per user", above=0, at_most=1e6)
    delta: float = setting(1e-6, "chance of failure", above=0, below=1)
    rank: int = setting(8, "taste directions looked for (d)", at_least=1, at_most=256)
    rounds: int = setting(4, "times the directions are refined", at_least=1, at_most=1000)
    contributions: int = setting(
        5, "items a user counts for in full (k); longer rows count less", at_least=1, at_most=10**6
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

    def guarantee(self, public: PublicFacts) -> Guarantee:
        check_delta(self.delta, public)
        taste = self.share(public) / self.rounds
        weights = {
            "popularity": math.sqrt(1 - self.share(public)),
            "taste": math.sqrt((1 - _GRAM) * taste),
            "gram": math.sqrt(_GRAM * taste),
        }
        times = {"popularity": 1, "taste": self.rounds, "gram": self.rounds}
        mu = split_gaussian(self.epsilon, self.delta, weights, times)
        row = math.sqrt(min(self.contributions, public.items))
        d = self.rank
        releases: dict[str, Release] = {
            "popularity": Gaussian(
                query="how many users have each item, rows scaled",
                shape=(public.items,),
                sensitivity=by_unit(user_empty=row, user_replace=math.sqrt(2) * row),
                scale=row / mu["popularity"],
            ),
            "taste": Gaussian(
                query="sum of the profiles of each item's users, the item left out",
                shape=(public.items, d),
                times=self.rounds,
                sensitivity=by_unit(user_empty=row, user_replace=2 * row),
                scale=row / mu["taste"],
            ),
            "gram": Gaussian(
                query="second moments of the profiles and an intercept",
                shape=(d + 1, d + 1),
                times=self.rounds,
                sensitivity=by_unit(user_empty=math.sqrt(3), user_replace=math.sqrt(8)),
                scale=math.sqrt(3) / mu["gram"],
            ),
        }
        return Guarantee(
            unit=Unit.USER,
            neighbours=Neighbours.EMPTY,
            notion=Notion.JOINT,
            trust=Trust.CURATOR,
            publishes="item factors, and to each user the own scores",
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
        counts = releases["popularity"].publish(
            np.bincount(ratings.items, weights, minlength=ratings.public.items), rng
        )
        noise = _scale(releases["popularity"])
        least = _LEAST * noise  # no count is believed to be less
        chance = np.maximum(counts, least) / np.maximum(counts, least).sum()
        features = rng.uniform(-1.0, 1.0, (ratings.public.items, self.rank))  # no data in it
        features[counts <= noise] = 0.0
        for k in range(1, self.rounds + 1):
            features = features - chance @ features  # what popularity alone would give
            own = profiles(pattern, features)
            moments = releases["taste"].publish(cross_moments(pattern, weights, features), rng)
            with_one = np.hstack([own, np.ones((len(own), 1))])
            gram = releases["gram"].publish(with_one.T @ with_one, rng)
            taste = _Taste.of(moments, gram, counts / len(own), len(own), _scale(releases["taste"]))
            model = taste.model(own, counts / len(own), chance)
            trace = {"directions that clear the noise": float(taste.found)}
            yield Step(k, self.rounds, model, trace, final=k == self.rounds)
            features = taste.features(chance)


def _scale(release: Release) -> float:
    assert isinstance(release, Gaussian)
    return release.scale


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

    def model(self, own: Floats, base: Floats, chance: Floats) -> Factors:
        """b_i + (x_u - mean x)' q_i as factors; b alone where no direction was found."""
        r = self.found
        values, vectors = np.linalg.eigh(self.gram[:r, :r])
        floor = _FLOOR * len(own) / len(self.strength)
        inverse = (vectors / np.maximum(values, floor)) @ vectors.T
        right = self.shrunk(self.strength, chance)[:, :r] @ inverse
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
