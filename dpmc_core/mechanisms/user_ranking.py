"""Rankings that protect whole users: private popularity, alone and with low-rank factors."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from dpmc_core.arrays import Floats, ItemAxis, Rng
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
from dpmc_core.solvers.empirical_bayes import CountEstimate, feature_gain_probability
from dpmc_core.solvers.factorization import check_interactions
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.ranking import (
    Audiences,
    UserFeatureSums,
    compute_profiles,
    sum_feature_gains,
    sum_profiles_by_item,
)
from dpmc_core.solvers.rows import contribution_weights, item_sums
from dpmc_core.style import PURPLE, Style

_POPULARITY_SHARE = 0.25  # share of the budget (mu squared) for the first count
# For each round, how often its query is published, and the smallest signal with which the next
# round estimates taste. It is 0 after the first, whose features are random and show little taste.
_ROUNDS = ((1, 0.0), (2, 0.02), (3, 0.0))
_MOMENTS_SHARE = 0.03  # share of a round's budget for the second moments of profiles
_FEATURES_SHARE = 0.03  # share of the budget for the gains of public item features, if any
_FEATURE_GAIN_QUERY = "how much more each public fact tells the users than by chance"
# Share of the squared length of a user's contribution for the count; the rest is for the profile.
_COUNT_SHARE = 0.2
# Mean squared count over the squared noise of the whole budget, from which taste is estimated.
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
    """The privacy unit of the budget: everything of one user, or one user-item cell."""

    USER = "user"
    CELL = "cell"


@dataclass(frozen=True)
class NoisyCounts(Releases):
    """The releases of private popularity.

    Attributes:
        counts: shape (items,), how many users have each item.
        facts: shape (n_features,), the gain of each public feature (see `sum_feature_gains`); None
            without public features.
    """

    counts: Laplace | Gaussian
    facts: Laplace | Gaussian | None


def format_user_formula(public: PublicFacts, profile: str) -> str:
    """Return the formula by which a user scores item j, for `OwnSide.formula`.

    Args:
        public: the public facts.
        profile: the formula without item features, without its last closing bracket.
    """
    features_text = f", {_FEATURES_FORMULA.format(public.columns)}" if public.features else ")"
    return profile + features_text


def score_own_items(arrays: Mapping[str, Floats], rated: Sequence[int], _: Floats) -> Floats:
    """Compute a user's own scores of all items, as the formulas of this module say.

    Args:
        arrays: the published arrays.
        rated: the rows of the user's items.
    """
    items, own_side = arrays["items"], np.ones(1)
    if "features" in arrays:
        profile = arrays["features"][rated].sum(axis=0)
        own_side = np.append(1.0, profile / (np.linalg.norm(profile) or 1.0) - arrays["centre"])
    d = len(own_side)
    added = items[:, d:] @ items[rated, d:].sum(axis=0) / (len(rated) + 20)
    return np.asarray(items[:, :d] @ own_side + added)


def publish_feature_gains(
    release: Laplace | Gaussian | None, ratings: Ratings, posterior_counts: Floats, rng: Rng
) -> Floats | None:
    """Publish the gains of item features, and return the probability that each of them helps.

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
    noisy_gains = release.publish(ratings.sum_over_users(sum_feature_gains, posterior_counts), rng)
    return feature_gain_probability(noisy_gains / n_users, release.std / n_users)


def _add_feature_scores(
    model: Factors, ratings: Ratings, gain_probabilities: Floats | None, posterior_counts: Floats
) -> Factors:
    """Return a model of log odds with the scores from item features added, if there are any."""
    if gain_probabilities is None:
        return model
    return UserFeatureSums.from_pattern(
        Pattern.from_ratings(ratings), ratings.used_features, posterior_counts
    ).add_to_scores(model, gain_probabilities)


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
        """Return the guarantee: noisy counts, and gains of item features if there are any."""
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
        # Rows have no negative entries, so two of them are at most sqrt(2) times as far apart in l2
        # as one of them is from an empty row.
        counts_release = self._build_release(
            "how many users have each item",
            (ItemAxis(public.items),),
            counts_budget,
            row_norm,
            math.sqrt(2) * row_norm,
        )
        features_release = None
        if n_features:  # a single cell may change all of a user's gains, each of them in -1..1
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
        """Return a release with noise for its budget.

        Args:
            query: what is published, in words.
            shape: the shape of the answer.
            budget: of the release.
            sensitivity: how far an emptied row moves the answer, or a changed cell if cells are
                protected; in l1 for Laplace noise (delta = 0), in l2 for Gaussian noise.
            replaced_sensitivity: how far a replaced row moves it in l2, if users are protected.
        """
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
        """Describe how a user computes the user's own scores."""
        return _describe_common_scores(public)

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield one step, scores by noisy counts and, if there are any, by item features."""
        releases = self.guarantee(ratings.public).releases
        counts = CountEstimate(
            releases.counts.publish(ratings.sum_over_users(self._count_users), rng),
            releases.counts.std,
        )
        gain_probabilities = publish_feature_gains(releases.facts, ratings, counts.posterior, rng)
        model = ratings.build_model(_score_by_popularity, counts, gain_probabilities)
        yield Step(1, 1, model, {"most popular item": counts.noisy.max()}, final=True)

    def _count_users(self, ratings: Ratings) -> Floats:
        """Count how many of some users have each item; active users count less for each."""
        check_interactions(ratings)
        values = np.ones(len(ratings))
        if self.per is ProtectedUnit.USER:
            values = contribution_weights(ratings, self.contributions, 2 if self.delta else 1)
        return item_sums(Pattern.from_ratings(ratings), values)


def _score_by_popularity(
    ratings: Ratings, counts: CountEstimate, gain_probabilities: Floats | None, divisor: int = 1
) -> Factors:
    """Score items by noisy counts; with item features by their logarithms plus feature scores.

    Args:
        ratings: the users' items.
        counts: the released counts.
        gain_probabilities: shape (n_features,), the probability that each public feature helps;
            None without public features.
        divisor: divides the counts, so that scores are shares of users; it changes no ranking.
    """
    scores = counts.noisy / divisor if gain_probabilities is None else np.log(counts.posterior)
    model = Factors(np.ones((ratings.public.users, 1)), scores[:, None])
    return _add_feature_scores(model, ratings, gain_probabilities, counts.posterior)


def _describe_common_scores(public: PublicFacts) -> OwnSide:
    """Describe how a user computes scores by popularity, to which item features may add."""
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
        facts: shape (n_features,), the gain of each public feature (see `sum_feature_gains`); None
            without public features.
    """

    popularity: Gaussian
    rounds: Gaussian
    moments: Gaussian
    facts: Gaussian | None


@mechanism
class PrivateTaste(PerUser):
    """Popularity, and taste in rounds as long as the releases show it stands out of the noise.

    It is linear discriminant analysis of user profiles u: the direction of the sum of the features
    of the user's items (zero for an empty row, else of length 1). With N the items' counts, S the
    covariance of profiles and t the mean profile of an item's users less that of all users, the
    score is log N + (u - centre)' S^-1 t - t' S^-1 t / 2.

    Everything that reaches the items from users goes through Gaussian noise. The releases, what a
    user of k items adds to them, and their l2 sensitivity if a row becomes empty (in brackets: if
    it becomes any other row):

    - popularity, once: 1/sqrt(k) to each of the user's items: 1 (sqrt 2, as no entry is negative);
    - rounds, six times: to each of the user's items sqrt(.2)/sqrt(k) in column 0 and
      sqrt(.8)/sqrt(k) times the profile without that item in the others: 1 (sqrt(2 + 2 (.8 - .2)),
      if all profiles are reversed and no item changes);
    - moments, six times: (u, 1)(u, 1)': sqrt 3, because the last entry is the public m (sqrt 8).

    Features start random, and the taste found in a round gives the features of the next one. The
    three rounds are published once, twice and three times. If the released popularity is too weak
    for taste, or a round found no taste, the remaining publications count again, with all of a
    user's contribution: 1/sqrt(k) in column 0. Either way every release has the shape, scale and
    bounds that the guarantee states, and the choice is post-processing. Each user's own profile and
    scores stay with that user.
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
        """Return the guarantee: popularity, rounds and moments six times, and feature gains."""
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
            )
        popularity_budget, rounds_budget, moments_budget = budget.split(
            _POPULARITY_SHARE,
            (1 - _POPULARITY_SHARE) * (1 - _MOMENTS_SHARE),
            (1 - _POPULARITY_SHARE) * _MOMENTS_SHARE,
        )
        # The docstring of the class derives it, and those of the moments below.
        replaced_sensitivity = math.sqrt(2 + 2 * (1 - 2 * _COUNT_SHARE))
        releases = TasteReleases(
            popularity=build_gaussian_release(
                "how many users have each item, rows scaled to length 1",
                (ItemAxis(public.items),),
                popularity_budget,
                1.0,
                math.sqrt(2),
            ),
            rounds=build_gaussian_release(
                "how many users have each item, and the sum of their profiles without it (where"
                " those would drown: how many users alone)",
                (ItemAxis(public.items), d + 1),
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
        """Describe how a user computes the user's own scores."""
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
        """Yield a model after each of the six publications; see the class for the three rounds."""
        releases, (n_users, n_items) = self.guarantee(ratings.public).releases, ratings.public.shape
        exact_counts = ratings.sum_over_users(_sum_unit_rows)
        noise_scale = releases.rounds.scale
        counts = CountEstimate(
            releases.popularity.publish(exact_counts, rng), releases.popularity.std
        )
        is_detectable = _is_signal_detectable(counts)
        gain_probabilities = publish_feature_gains(releases.facts, ratings, counts.posterior, rng)
        features = harmless(rng, Harmless.START).uniform(-1.0, 1.0, (n_items, self.rank))
        features *= np.sqrt(counts.posterior)[:, None]  # less weight for rare items
        index = 0
        for n_repeats, min_signal in _ROUNDS:
            # The exact answers of a round: counts, and profiles as long as taste can be heard.
            exact_sums = np.zeros((n_items, self.rank + 1))
            exact_moments = np.zeros((self.rank + 1, self.rank + 1))
            count_share = _COUNT_SHARE if is_detectable else 1.0
            count_scale, profile_scale = math.sqrt(count_share), math.sqrt(1 - count_share)
            exact_sums[:, 0] = count_scale * exact_counts
            if is_detectable:
                features = features - counts.posterior @ features / counts.posterior.sum()
                query_features = features
                profiled_users = ratings.map_users(_UserProfiles.from_ratings, features)
                profile_sums, exact_moments = profiled_users.sum_over_users(
                    _UserProfiles.sum_profiles, features
                )
                exact_sums[:, 1:] = profile_scale * profile_sums
            # They are published several times, and the means of what was published are used.
            mean_sums, moments = np.zeros_like(exact_sums), np.zeros_like(exact_moments)
            agreement, audiences = np.zeros(2), None
            for repeat in range(1, n_repeats + 1):
                noisy_sums = releases.rounds.publish(exact_sums, rng)
                mean_sums += (noisy_sums - mean_sums) / repeat
                moments += (releases.moments.publish(exact_moments, rng) - moments) / repeat
                index += 1
                counts = counts.combine(noisy_sums[:, 0] / count_scale, noise_scale / count_scale)
                signal = 0.0
                if is_detectable:
                    mean_profiles = mean_sums[:, 1:] / profile_scale
                    if audiences is not None:  # other noise than that which the taste has fitted
                        repeated_profiles = noisy_sums[:, 1:] / profile_scale
                        agreement += audiences.measure_agreement(
                            repeated_profiles, counts.posterior
                        )
                    profile_noise = noise_scale / math.sqrt((1 - count_share) * repeat)
                    moments_noise = releases.moments.scale / math.sqrt(repeat)
                    audiences = Audiences.from_noisy_sums(
                        mean_profiles,
                        profile_noise,
                        moments,
                        moments_noise,
                        counts.posterior,
                        n_users,
                    )
                    # How much of the size of the taste other noise confirms, over all repeats.
                    confirmed, fitted = agreement
                    reliability = min(max(confirmed / fitted, 0.0), 1.0) if fitted > 0 else 1.0
                    signal = reliability * audiences.signal
                    build = partial(
                        profiled_users.build_model,
                        _UserProfiles.score_items,
                        audiences,
                        query_features,
                        counts.posterior,
                        reliability,
                        gain_probabilities,
                    )
                    features = audiences.compute_next_features(counts.posterior)
                else:
                    build = partial(
                        ratings.build_model,
                        _score_by_popularity,
                        counts,
                        gain_probabilities,
                        n_users,
                    )
                yield Step(index, releases.rounds.times, build, {"taste that is heard": signal})
            is_detectable = is_detectable and signal >= min_signal


def _sum_unit_rows(ratings: Ratings) -> Floats:
    """Count how many of some users have each item, with every row scaled to l2 length 1."""
    check_interactions(ratings)
    return item_sums(Pattern.from_ratings(ratings), contribution_weights(ratings, 1))


class _UserProfiles(NamedTuple):
    """Some users' items and profiles.

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
        return cls(ratings, compute_profiles(Pattern.from_ratings(ratings), features))

    def sum_profiles(self, features: Floats) -> tuple[Floats, Floats]:
        """Sum the profiles of each item's users, and the second moments of all profiles.

        Args:
            features: shape (items, d), of which the profiles are made.

        Returns:
            The sums by `sum_profiles_by_item`, shape (items, d), and the sum of (u, 1)(u, 1)' over
            the users' profiles u, shape (d + 1, d + 1).
        """
        weights = contribution_weights(self.ratings, 1)
        profiles_and_intercept = np.hstack(
            [self.user_profiles, np.ones((len(self.user_profiles), 1))]
        )
        moments = sum_profiles_by_item(Pattern.from_ratings(self.ratings), weights, features)
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
            audiences: taste, from the profiles of items' users.
            features: shape (items, d), of which the profiles are made.
            posterior_counts: shape (items,), the items' counts.
            reliability: by what taste is multiplied, because some of it is noise.
            gain_probabilities: shape (n_features,), the probability that each public feature helps;
                None without public features.
        """
        model = audiences.score_items(self.user_profiles, posterior_counts, reliability)
        model = replace(model, user_arrays={"features": features, "centre": audiences.centre})
        return _add_feature_scores(model, self.ratings, gain_probabilities, posterior_counts)


def _is_signal_detectable(counts: CountEstimate) -> bool:
    """Return whether taste could exceed the noise, judged by the first released counts only.

    Sums of profiles over an item's users are never longer than the item's count. So the mean square
    of the counts, less the known noise, is compared with the noise of the whole budget.
    """
    return counts.energy >= _DETECTION_RATIO * _POPULARITY_SHARE * counts.noise_energy
