"""Rankings that protect whole users: private popularity, alone and with low-rank factors."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpmc_core.arrays import Floats, Rng
from dpmc_core.mechanisms.per_user import PerUser, build_gaussian_release, check_delta
from dpmc_core.model import (
    ArraySpec,
    Factors,
    Mechanism,
    OwnSide,
    PrivacyRequest,
    Step,
    Steps,
    Task,
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
    Loss,
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
from dpmc_core.solvers.ranking import (
    TELLING,
    Audiences,
    Counts,
    OwnFacts,
    cross_moments,
    facts_apart,
    profiles,
)
from dpmc_core.solvers.rows import contribution_weights, feature_gain_probability, item_sums
from dpmc_core.style import PURPLE, Style

_POPULARITY_SHARE = 0.25  # share of the budget (mu squared) for the first count
# How often each round's query is published, and the signal from which on the next is about taste:
# the first features are random and show only a part of it.
_ROUNDS = ((1, 0.0), (2, 0.02), (3, 0.0))
_MOMENTS_SHARE = 0.03  # share of an answer's budget for the second moments of profiles
_FEATURES_SHARE = 0.03  # share of the budget for the gains of public item features, if any
_FEATURE_GAIN_QUERY = "how much more each public fact tells the users than by chance"
# Share of the squared length of a user's contribution that counts the user; not the profile.
_COUNT_SHARE = 0.2
# Squared counts over the squared noise of the whole budget, from which on taste is estimated.
_DETECTION_RATIO = 40.0


_PROFILE_FORMULA = (
    "f is the sum of the rows of `features` of the user's items, and g = f / |f|, or zero where |f|"
    " is at most 1e-9 of the longest row of `features`; the score of item j is items_j (1, g -"
    " centre"
)
_FEATURES_FORMULA = (
    "s / (k + 20)): s is the sum of the last {} columns of `items` over the user's k items"
)


class ProtectedUnit(enum.Enum):
    """The privacy unit: whose presence the budget covers."""

    USER = "user"
    CELL = "cell"


@dataclass(frozen=True)
class NoisyCounts(Releases):
    """The releases of private popularity.

    Attributes:
        counts: shape (items,), how many users have each item.
        facts: shape (n_features,), how much each public feature helps; None without public
            features.
    """

    counts: Laplace | Gaussian
    facts: Laplace | Gaussian | None


def format_user_formula(public: PublicFacts, profile: str) -> str:
    """Say how a user scores item j.

    Args:
        public: the public facts.
        profile: the formula without item features, up to its last bracket.
    """
    features_text = f", {_FEATURES_FORMULA.format(public.columns)}" if public.features else ")"
    return profile + features_text


def publish_feature_gains(
    release: Laplace | Gaussian | None, ratings: Ratings, posterior_counts: Floats, rng: Rng
) -> Floats | None:
    """Publish how much item features help users, and return the probability that each of them does.

    Args:
        release: of the gains; None where there are no public features.
        ratings: the users' items.
        posterior_counts: shape (items,), the items' counts.
        rng: draws the noise.

    Returns:
        Array of shape (n_features,); None without public features.
    """
    if release is None:
        return None
    n_users = ratings.public.users
    noisy_gains = release.publish(ratings.sum_over_users(facts_apart, posterior_counts), rng)
    noise_scale = release.scale * (math.sqrt(2) if isinstance(release, Laplace) else 1)
    return feature_gain_probability(noisy_gains / n_users, noise_scale / n_users, *TELLING)


def _add_feature_scores(
    model: Factors, ratings: Ratings, gain_probabilities: Floats | None, posterior_counts: Floats
) -> Factors:
    """Add to scores in log odds what item features say, as far as they help."""
    if gain_probabilities is None:
        return model
    return OwnFacts.of(
        Pattern.from_ratings(ratings), ratings.used_features, posterior_counts
    ).added(model, gain_probabilities)


@mechanism
class PrivatePopularity(Mechanism):
    """How many users have each item, with noise; a user's row counts with length at most sqrt(k).

    Per user, each row of ones is scaled to length sqrt(k) where it is longer, so users with many
    items count less for each (Gaussian noise: l2 sqrt(k) for USER_EMPTIED; Laplace noise, at delta
    = 0, scales to l1 length k instead). Per cell nothing is scaled, and one cell moves one count by
    1.
    """

    uses_item_features = True
    id = "private-popularity"
    supports_partitions = True
    name = "Private popularity"
    short = "Popularity"
    style = Style(PURPLE, "triangle-left", "dot")
    list_order = 3
    task = Task.RANKING
    nonprivate_counterpart = "popularity"
    baseline = "private-popularity"
    revision = 2
    epsilon: float = setting(help="privacy budget", above=0, at_most=1e6)
    delta: float = setting(1e-6, "chance of failure (0: Laplace noise)", at_least=0, below=1)
    per: ProtectedUnit = setting(ProtectedUnit.USER, "what the budget protects")
    contributions: int = setting(
        1, "items a user counts for in full (k); longer rows count less", at_least=1, at_most=10**6
    )

    def guarantee(self, public: PublicFacts) -> Guarantee[NoisyCounts]:
        per_user, n_features = self.per is ProtectedUnit.USER, len(public.features)
        if per_user:
            check_delta(self.delta, public)
        k = min(self.contributions, public.items) if per_user else 1
        is_pure = self.delta == 0
        total_budget = (
            Loss(self.epsilon) if is_pure else Loss(mu=gaussian_mu(self.epsilon, self.delta))
        )
        counts_budget, features_budget = (
            total_budget.split(1 - _FEATURES_SHARE, _FEATURES_SHARE)
            if n_features
            else (total_budget, total_budget)
        )
        row_norm = float(k) if is_pure else math.sqrt(k)
        # Rows have no negative parts, so two of them are at most sqrt(2) times as far apart.
        counts_release = self._build_release(
            "how many users have each item",
            (public.items,),
            counts_budget,
            row_norm,
            math.sqrt(2) * row_norm,
        )
        features_release = None
        if n_features:  # one cell, too, may change all that a user says about the features
            features_norm = float(n_features) if is_pure else math.sqrt(n_features)
            features_release = self._build_release(
                _FEATURE_GAIN_QUERY,
                (n_features,),
                features_budget,
                features_norm if per_user else 2 * features_norm,
                2 * features_norm,
            )
        return Guarantee(
            change=USER_EMPTIED if per_user else CELL,
            notion=Notion.APPROX if self.delta else Notion.PURE,
            trust=Trust.CURATOR,
            publishes=Publishes.ITEM_COUNTS,
            public=public,
            claimed=Budget(self.epsilon, self.delta),
            source="Gaussian mechanism" if self.delta else "Laplace mechanism",
            releases=NoisyCounts(counts_release, features_release),
        )

    def _build_release(
        self,
        query: str,
        shape: tuple[int, ...],
        budget: Loss,
        sensitivity: float,
        replaced_sensitivity: float,
    ) -> Laplace | Gaussian:
        """Return the release of an answer that what the budget protects moves by `sensitivity`."""
        sensitivities = {USER_EMPTIED if self.per is ProtectedUnit.USER else CELL: sensitivity}
        if self.delta == 0:
            scale = sensitivity / budget.epsilon
            return Laplace(query=query, shape=shape, sensitivity=sensitivities, scale=scale)
        if self.per is ProtectedUnit.USER:
            sensitivities[USER_REPLACED] = replaced_sensitivity
        return Gaussian(
            query=query, shape=shape, sensitivity=sensitivities, scale=sensitivity / budget.mu
        )

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:  # noqa: ARG002
        """Describe how a user computes the own scores."""
        return _describe_common_scores(public)

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        releases = self.guarantee(ratings.public).releases
        counts = Counts(
            releases.counts.publish(ratings.sum_over_users(self._count_users), rng),
            releases.counts.scale,
        )
        gain_probabilities = publish_feature_gains(releases.facts, ratings, counts.believed, rng)
        model = ratings.build_model(_score_by_popularity, counts, gain_probabilities)
        yield Step(1, 1, model, {"most popular item": float(counts.noisy.max())}, final=True)

    def _count_users(self, ratings: Ratings) -> Floats:
        """Count how many of some users have each item."""
        check_interactions(ratings)
        values = np.ones(len(ratings))
        if self.per is ProtectedUnit.USER:
            norm = 2 if self.delta else 1
            values = contribution_weights(ratings, self.contributions, norm)
        return item_sums(Pattern.from_ratings(ratings), values)


def _score_by_popularity(
    ratings: Ratings, counts: Counts, gain_probabilities: Floats | None, divisor: int = 1
) -> Factors:
    """Score items by counts over `divisor`, or by their logs where item features add to them."""
    scores = counts.noisy / divisor if gain_probabilities is None else np.log(counts.believed)
    model = Factors(np.ones((ratings.public.users, 1)), scores[:, None])
    return _add_feature_scores(model, ratings, gain_probabilities, counts.believed)


def _describe_common_scores(public: PublicFacts) -> OwnSide:
    """Describe how a user computes scores that are the same for everybody but for item features."""
    if not public.features:
        return OwnSide("everybody's score of item j is items_j", (1,))
    return OwnSide(
        format_user_formula(public, "the score of item j is items_j (1"), (1 + public.columns,)
    )


@dataclass(frozen=True)
class TasteReleases(Releases):
    """The releases of private popularity and taste.

    Attributes:
        popularity: shape (items,), how many users have each item.
        rounds: shape (items, rank + 1), counts and sums of profiles.
        moments: shape (rank + 1, rank + 1), second moments of the profiles and an intercept.
        facts: shape (n_features,), how much each public feature helps; None without public
            features.
    """

    popularity: Gaussian
    rounds: Gaussian
    moments: Gaussian
    facts: Gaussian | None


@mechanism
class PrivateTaste(PerUser):
    """Popularity, and taste in rounds as long as the releases show it stands out of the noise.

    It is linear discriminant analysis of user profiles u, the direction of the user's row among
    public item features (zero for an empty row, else of length 1). With N the items' counts, S the
    covariance of profiles and t how far the mean profile of an item's users lies from that of all,
    the score is log N + (u - centre)' S^-1 t - t' S^-1 t / 2.

    All that items learn from users goes through Gaussian noise. A user of k items adds, in l2 where
    the row becomes empty (and where it becomes any other row):

    - popularity, once: 1/sqrt(k) to each own item: 1 (sqrt 2, for no part is negative);
    - rounds, six times: to each own item sqrt(.2)/sqrt(k) in column 0 and sqrt(.8)/sqrt(k) times
      the profile without that item in the others: 1 (sqrt(2 + 2 (.8 - .2)), where all profiles turn
      round and no item changes);
    - moments, six times: (u, 1)(u, 1)': sqrt 3, because the last entry is the public m (sqrt 8).

    Features start random; what items learned in a round are the next ones, and a round's query is
    published once, twice, then three times. Where the released popularity is so faint that taste
    would drown, or where a round said nothing about taste, the rest of the six publications goes to
    the counts again, with all of a user's contribution: 1/sqrt(k) in column 0. Either way every
    release has the shape, scale and bounds that the guarantee states, and the choice is
    post-processing. Each user's own profile and scores stay with that user.
    """

    id = "private-taste"
    supports_partitions = True
    list_order = -1
    name = "Private popularity and taste"
    short = "Private taste"
    style = Style(PURPLE, "diamond-tall")
    task = Task.RANKING
    nonprivate_counterpart = "reference-ranking"
    baseline = "private-popularity"
    revision = 2
    publishes = Publishes.FACTORS_AND_SCORES
    delta: float = setting(1e-6, "chance of failure", above=0, below=1)
    rank: int = setting(10, "taste directions looked for", at_least=1, at_most=64)

    @classmethod
    def recommendation_reason(cls, request: PrivacyRequest) -> str | None:
        """Return why this mechanism suits the request, None where it does not."""
        if not request.change.per_user or request.trust is Trust.LOCAL:
            return None
        return "popularity first, and taste only where the released counts show it can be heard"

    def guarantee(self, public: PublicFacts) -> Guarantee[TasteReleases]:
        d, n_features, budget = self.rank, len(public.features), self.budget()
        n_publications = sum(n_repeats for n_repeats, _ in _ROUNDS)
        features_release = None
        if n_features:
            budget, features_budget = budget.split(1 - _FEATURES_SHARE, _FEATURES_SHARE)
            features_release = build_gaussian_release(
                _FEATURE_GAIN_QUERY,
                (n_features,),
                features_budget,
                math.sqrt(n_features),
                2 * math.sqrt(n_features),
            )
        popularity_budget, rounds_budget, moments_budget = budget.split(
            _POPULARITY_SHARE,
            (1 - _POPULARITY_SHARE) * (1 - _MOMENTS_SHARE),
            (1 - _POPULARITY_SHARE) * _MOMENTS_SHARE,
        )
        replaced_sensitivity = math.sqrt(2 + 2 * (1 - 2 * _COUNT_SHARE))
        releases = TasteReleases(
            popularity=build_gaussian_release(
                "how many users have each item, rows scaled to length 1",
                (public.items,),
                popularity_budget,
                1.0,
                math.sqrt(2),
            ),
            rounds=build_gaussian_release(
                "how many users have each item, and the sum of their profiles without it (where"
                " those would drown: how many users alone)",
                (public.items, d + 1),
                rounds_budget / n_publications,
                1.0,
                replaced_sensitivity,
                n_publications,
            ),
            moments=build_gaussian_release(
                "second moments of the profiles and an intercept",
                (d + 1, d + 1),
                moments_budget / n_publications,
                math.sqrt(3),
                math.sqrt(8),
                n_publications,
            ),
            facts=features_release,
        )
        return self.build_guarantee(public, releases, "Gaussian mechanism, composed exactly")

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        """Describe how a user computes the own scores."""
        if columns == 1 + public.columns:  # taste did not stand out of the noise
            return _describe_common_scores(public)
        arrays = {
            "features": ArraySpec((public.items, self.rank)),
            "centre": ArraySpec((self.rank,)),
        }
        return OwnSide(
            format_user_formula(public, _PROFILE_FORMULA), (self.rank + 1 + public.columns,), arrays
        )

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        releases, (n_users, n_items) = self.guarantee(ratings.public).releases, ratings.public.shape
        exact_counts = ratings.sum_over_users(_sum_unit_rows)
        noise_scale = releases.rounds.scale
        counts = Counts(releases.popularity.publish(exact_counts, rng), releases.popularity.scale)
        is_detectable = _is_signal_detectable(counts)
        gain_probabilities = publish_feature_gains(releases.facts, ratings, counts.believed, rng)
        features = harmless(rng, Harmless.START).uniform(-1.0, 1.0, (n_items, self.rank))
        features *= np.sqrt(counts.believed)[:, None]  # noise drowns what rare items would show
        index = 0
        for n_repeats, min_signal in _ROUNDS:
            exact_sums = np.zeros((n_items, self.rank + 1))
            exact_moments = np.zeros((self.rank + 1, self.rank + 1))
            count_share = _COUNT_SHARE if is_detectable else 1.0
            exact_sums[:, 0] = math.sqrt(count_share) * exact_counts
            if is_detectable:
                features = features - counts.believed @ features / counts.believed.sum()
                query_features = features
                profiled_users = ratings.map_users(_UserProfiles.from_ratings, features)
                profile_sums, exact_moments = profiled_users.sum_over_users(
                    _UserProfiles.sum_profiles, features
                )
                exact_sums[:, 1:] = math.sqrt(1 - count_share) * profile_sums
            mean_sums, moments = np.zeros_like(exact_sums), np.zeros_like(exact_moments)
            agreement, audiences = np.zeros(2), None
            for repeat in range(1, n_repeats + 1):
                noisy_sums = releases.rounds.publish(exact_sums, rng)
                mean_sums += (noisy_sums - mean_sums) / repeat
                moments += (releases.moments.publish(exact_moments, rng) - moments) / repeat
                counts = counts.with_also(
                    noisy_sums[:, 0] / math.sqrt(count_share), noise_scale / math.sqrt(count_share)
                )
                signal = 0.0
                if is_detectable:
                    mean_profiles = mean_sums[:, 1:] / math.sqrt(1 - count_share)
                    if audiences is not None:
                        repeated_profiles = noisy_sums[:, 1:] / math.sqrt(1 - count_share)
                        agreement += audiences.agreement(repeated_profiles, counts.believed)
                    profile_noise = noise_scale / math.sqrt((1 - count_share) * repeat)
                    moments_noise = releases.moments.scale / math.sqrt(repeat)
                    audiences = Audiences.of(
                        mean_profiles,
                        profile_noise,
                        moments,
                        moments_noise,
                        counts.believed,
                        n_users,
                    )
                    reliability = (
                        min(max(agreement[0] / agreement[1], 0.0), 1.0) if agreement[1] > 0 else 1.0
                    )
                    signal = reliability * audiences.told
                    model = profiled_users.build_model(
                        _UserProfiles.score_items,
                        audiences,
                        query_features,
                        counts.believed,
                        reliability,
                        gain_probabilities,
                    )
                    features = audiences.features(counts.believed)
                else:
                    model = ratings.build_model(
                        _score_by_popularity, counts, gain_probabilities, n_users
                    )
                index += 1
                yield Step(index, releases.rounds.times, model, {"taste that is heard": signal})
            is_detectable = is_detectable and signal >= min_signal


def _sum_unit_rows(ratings: Ratings) -> Floats:
    """Count how many of some users have each item, with rows scaled to length 1."""
    check_interactions(ratings)
    return item_sums(Pattern.from_ratings(ratings), contribution_weights(ratings, 1))


class _UserProfiles(NamedTuple):
    """Some users' ratings and profiles.

    Attributes:
        ratings: the users' items.
        user_profiles: shape (users, d), unit rows or zeros.
    """

    ratings: Ratings
    user_profiles: Floats

    @classmethod
    def from_ratings(cls, ratings: Ratings, features: Floats) -> _UserProfiles:
        """Compute the users' profiles.

        Args:
            ratings: the users' items.
            features: shape (items, d).
        """
        return cls(ratings, profiles(Pattern.from_ratings(ratings), features))

    def sum_profiles(self, features: Floats) -> tuple[Floats, Floats]:
        """Sum the profiles by item, and their second moments with an intercept.

        Args:
            features: shape (items, d).

        Returns:
            Arrays of shape (items, d) and (d + 1, d + 1).
        """
        weights = contribution_weights(self.ratings, 1)
        profiles_and_intercept = np.hstack(
            [self.user_profiles, np.ones((len(self.user_profiles), 1))]
        )
        moments = cross_moments(Pattern.from_ratings(self.ratings), weights, features)
        return moments, profiles_and_intercept.T @ profiles_and_intercept

    def score_items(
        self,
        audiences: Audiences,
        features: Floats,
        posterior_counts: Floats,
        reliability: float,
        gain_probabilities: Floats | None,
    ) -> Factors:
        """Score items by popularity, taste and what item features add.

        Args:
            audiences: what the profiles of items' users say.
            features: shape (items, d), of which the profiles are made.
            posterior_counts: shape (items,), the items' counts.
            reliability: how much of what `audiences` says is taste, not noise.
            gain_probabilities: shape (n_features,), that each public feature helps; None without
                any.
        """
        model = audiences.scores(self.user_profiles, posterior_counts, reliability)
        model = replace(model, user_arrays={"features": features, "centre": audiences.centre})
        return _add_feature_scores(model, self.ratings, gain_probabilities, posterior_counts)


def _is_signal_detectable(counts: Counts) -> bool:
    """Whether a round of taste could be heard, judged by the first released counts alone.

    Taste divides the users of an item, so its moments are a part of the item's count: the mean
    square of the counts, less the known noise, is compared with the noise that the whole budget
    would leave.
    """
    signal_energy = float(counts.noisy @ counts.noisy) / len(counts.noisy) - counts.noise**2
    return signal_energy >= _DETECTION_RATIO * _POPULARITY_SHARE * counts.noise**2
