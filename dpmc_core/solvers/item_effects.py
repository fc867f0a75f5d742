"""What noisy sums over users say of items: effects and low-rank factors. No raw data here.

Each user with k ratings entered a count with 1/sqrt(k) and a sum with weights of unit length (see
`user_regression`), so that one row moves a release equally far whatever its length. An item's
released sum is then normal about a known multiple of its effect, with a known variance, and is
shrunk accordingly (see `empirical_bayes`); how much effects vary over items is estimated from the
same releases. Items weigh by private counts, so that the noise falls where ratings are rare
(Krichene, Mayoraz, Rendle, Song, Thakurta, Zhang, "Multi-Task Differential Privacy Under
Distribution Skew", ICML 2023).

In shapes, n is the number of items, d the number of their public features and r the rank. A user's
gain is the average factor with which the own weighted row was stretched to its clip. "Widths" are
widths of the public rating range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from dpmc_core.arrays import SMALLEST, Floats, Ints
from dpmc_core.ratings import PublicFacts
from dpmc_core.solvers.empirical_bayes import (
    PRIORS,
    CountEstimate,
    estimate_counts,
    estimate_long_tailed_counts,
    fit_normal_prior,
    normal_log_likelihood,
    shrink_eigenvalues,
    update_normal,
)
from dpmc_core.solvers.rows import scatter_rows

# Gains and squares of a user enter a release in full up to here. Few are larger, and a higher limit
# would mean more noise for everybody.
MAX_STATISTIC = 4.0
N_USER_COEFFICIENTS = 3  # of a user, besides item features and low-rank factors
# The standard deviation of the effects is one of these multiples of its prior guess. The guess
# counts for 20 items, so that a few do not overrule it.
_EFFECT_STD_GRID, _EFFECT_PSEUDO_COUNT = np.geomspace(0.1, 5.0, 40), 20.0
# Of the coefficients of 1, L and L^2, with L the standardised log count. The first may be anything;
# popularity explains hundredths of the range at most.
_TREND_STDS = (10.0, 0.02, 0.01)
# Of the effects' slopes on features: one of these, the first for features that say nothing.
_FEATURE_TREND_STDS = (1e-5, 0.01, 0.03, 0.1)
# The usual gain, its standard deviation and its limits. It is 1 for rows that are neither stretched
# nor clipped, and most are stretched a little; the limits keep noise from blowing up the effects.
_USUAL_GAIN, _GAIN_STD, _GAIN_LIMITS = 1.1, 0.33, (0.44, 2.2)
# How much users differ, relative to the priors: its standard deviation about 1, as the priors may
# be wrong by half, and limits that keep a noisy release from switching coefficients off.
_USER_VARIANCE_STD, _USER_VARIANCE_LIMITS = 0.5, (0.02, 4.0)
# Of one factor for all item effects: the prior mean where noise drowns the counts, elsewhere nearer
# to 1, and the prior standard deviation.
_MIN_SCALE, _SCALE_STD = 0.3, 0.3
# Low-rank factors get nothing below rho = 8, where they drown, half of a round at 30, and at most
# .95, so that the effects are refined, too; see `choose_low_rank_share`.
_MIN_RHO, _HALF_RHO, _MAX_LOW_RANK_SHARE = 8.0, 30.0, 0.95


@dataclass(frozen=True, eq=False)
class ItemEffects:
    """What the releases so far say of the n items.

    Attributes:
        public: the public facts.
        mean: the mean of all users, in rating points.
        mean_variance: the posterior variance of the mean, in squared rating points.
        noisy_counts: the released sums of 1/sqrt(k) over an item's users.
        weights: shape (n,), the weight of an item in a user's row.
        effects: shape (n,), posterior means of the item effects, in rating points.
        variances: shape (n,), their posterior variances, in squared rating points.
        user_variances: shape (N_USER_COEFFICIENTS + 1,), the variances of users' coefficients and
            of ratings about the regression, relative to the prior ones.
        item_features: shape (n, d), the public features of the items.
        scale: the posterior mean of one factor for all effects, of which rare items have too large
            ones where noise drowns the counts: their prior is flat.
        scale_variance: its posterior variance.
    """

    public: PublicFacts
    mean: float
    mean_variance: float
    noisy_counts: CountEstimate
    weights: Floats
    effects: Floats
    variances: Floats
    user_variances: Floats = field(default_factory=lambda: np.ones(N_USER_COEFFICIENTS + 1))
    item_features: Floats = field(kw_only=True)
    scale: float = 1.0
    scale_variance: float = 0.0

    def select_most_rated(self, max_items: int) -> Ints | None:
        """Return the items with the largest released counts, in increasing order of their indices.

        Args:
            max_items: how many items are returned at most.

        Returns:
            Array of item indices; None: all items.
        """
        if self.public.items <= max_items:
            return None
        return np.sort(np.argsort(-self.noisy_counts.noisy, kind="stable")[:max_items])

    @classmethod
    def from_counts(
        cls,
        public: PublicFacts,
        mean: tuple[float, float],
        noisy_counts: CountEstimate,
        sums_noise: float | Floats,
        item_features: Floats,
    ) -> ItemEffects:
        """Return what is known before any sum of ratings is released: all effects are zero.

        Args:
            public: the public facts.
            mean: the mean of all users and its variance, in rating points.
            noisy_counts: the released counts.
            sums_noise: the standard deviation of the noise on the sums to come, in rating points.
            item_features: shape (n, d).
        """
        n = public.items
        energy = max(noisy_counts.energy, 0.0)
        reliability = energy / (energy + noisy_counts.noise_energy)
        variance = (PRIORS.item_effect * public.width) ** 2
        weights = compute_item_weights(
            estimate_counts(*noisy_counts), sums_noise / math.sqrt(variance)
        )
        return cls(
            *(public, *mean, noisy_counts, weights, np.zeros(n)),
            np.full(n, variance),
            item_features=item_features,
            scale=_MIN_SCALE + (1 - _MIN_SCALE) * reliability,
            scale_variance=_SCALE_STD**2,
        )

    @classmethod
    def from_public(
        cls, public: PublicFacts, item_features: Floats, mean: tuple[float, float] | None = None
    ) -> ItemEffects:
        """Return what is known without counts and sums: all items are alike but for features.

        Args:
            public: the public facts.
            item_features: shape (n, d).
            mean: the mean of all users and its variance, in rating points; None: the middle of the
                range with its prior variance.
        """
        mean = mean or (public.middle, (PRIORS.mean * public.width) ** 2)
        no_counts = CountEstimate(np.ones(public.items), 1.0)
        return cls.from_counts(public, mean, no_counts, public.width, item_features)

    @property
    def counts(self) -> Floats:
        """The posterior means of the counts, shape (n,), all above 0; their prior is flat."""
        return estimate_counts(*self.noisy_counts)

    @property
    def rating_variance(self) -> float:
        """The variance that a unit of squared weight adds to a sum, in squared rating points.

        A unit of count stands for as many users as 1/sqrt(k) is on average over ratings.
        """
        return (self.public.users / self.counts.sum()) * (PRIORS.rating * self.public.width) ** 2

    def scale_down(self) -> ItemEffects:
        """Return the effects times their common factor `scale`, at least 0 and at most 1.

        The flat prior of the counts makes the effects of rare items too large, and the factor mends
        that from released values alone. A full Bayesian posterior of the counts within the
        estimator is as good at epsilon .1 and .5, but it loses at 1 where counts have long tails: a
        trend of the effects in log counts is noise where noise drowns the counts. So the factor was
        chosen.
        """
        return replace(self, effects=min(max(self.scale, 0.0), 1.0) * self.effects)

    def compute_popularity(self) -> Floats:
        """Return the log count about its mean over ratings, of standard deviation one at most.

        Here the prior of counts is exponential, so that no item stands out where noise drowns them.

        Returns:
            Array of shape (n,), clipped to -3..3.
        """
        noisy, noise_std = self.noisy_counts
        mean = max(noisy.mean(), float(np.mean(noise_std)) / math.sqrt(len(noisy)))
        counts = estimate_counts(noisy, noise_std, mean)
        shares, logs = counts / counts.sum(), np.log(counts)
        logs = logs - shares @ logs
        return np.clip(logs / max(math.sqrt(shares @ logs**2), 1.0), -3.0, 3.0)


class LowRankFactors(NamedTuple):
    """Factors of items, with the prior of users' factors.

    Attributes:
        item_factors: shape (n, r), in rating points.
        user_moments: shape (r, r), positive definite: E u u' of a user's factors u.
    """

    item_factors: Floats
    user_moments: Floats


class FactorLikelihood(NamedTuple):
    """What noisy sums say of each item's factors q: exp(t'q - q'Pq / 2).

    Attributes:
        precisions: P, shape (n, r, r).
        targets: t, shape (n, r).
    """

    precisions: Floats
    targets: Floats

    @classmethod
    def from_sums(
        cls,
        values: Floats,
        basis: Floats,
        sums: Floats,
        noise_variance: float,
        rating_variance: float,
    ) -> FactorLikelihood:
        """Return the likelihood of sums ~ N(A q, v I + s^2 A) of each item.

        Args:
            values: shape (n, r), the eigenvalues of A.
            basis: shape (n, r, r), the eigenvectors of A, or (r, r) where all items share them.
            sums: shape (n, r).
            noise_variance: v.
            rating_variance: s^2.
        """
        weights, transposed = values / (noise_variance + rating_variance * values), basis.mT
        precisions = (basis * (weights * values)[:, None]) @ transposed
        targets = (weights[:, None] * (sums[:, None] @ basis)) @ transposed
        return cls(precisions, targets[:, 0])


def compute_item_weights(counts: Floats, drowned_count: float | Floats) -> Floats:
    """Return the weight of an item in a user's row: (N + drowned_count)^(-1/2).

    Where noise is small, N^(-1/2) leaves the least error over ratings (as in Krichene et al. 2023);
    more weight for items that noise drowns would be wasted. The weights are scaled to mean square
    one over ratings.

    Args:
        counts: N, shape (n,).
        drowned_count: the noise of the sums over the standard deviation of the effects, which is
            the count at which they are equal.

    Returns:
        Array of shape (n,).
    """
    weights = 1.0 / np.sqrt(counts + drowned_count)
    return weights / math.sqrt(counts @ weights**2 / counts.sum())


def estimate_mean_of_users(
    total: float, count: float, noise: float, public: PublicFacts
) -> tuple[float, float]:
    """Estimate the mean of the users' means and its variance from noisy sums over users.

    Args:
        total: the noisy sum of (mean - middle) / half width.
        count: the noisy number of users with ratings.
        noise: the standard deviation of the noise on both.
        public: the public facts.

    Returns:
        The mean in rating points, and its posterior variance in squared rating points.
    """
    # Noise must not make the count useless: at least half of the users are taken to have ratings.
    count = min(max(count, public.users / 2), public.users)
    noisy_mean = min(max(total / count, -1.0), 1.0)
    mean, variance = update_normal(noisy_mean, 1.0, (noise / count) ** 2, (2 * PRIORS.mean) ** 2)
    half_width = public.half_width
    return public.middle + half_width * float(mean), float(variance) * half_width**2


def estimate_mean_gain(total: float, noise: float, public: PublicFacts) -> float:
    """Estimate the users' average gain.

    Args:
        total: the noisy sum of gains over MAX_STATISTIC.
        noise: the standard deviation of its noise.
        public: the public facts.
    """
    unit = MAX_STATISTIC / public.users
    mean, _ = update_normal(unit * total, 1.0, (unit * noise) ** 2, _GAIN_STD**2, _USUAL_GAIN)
    return float(np.clip(mean, *_GAIN_LIMITS))


def estimate_item_effects(
    prior: ItemEffects, sums: Floats, noise: float | Floats, gain: float
) -> ItemEffects:
    """Return the item effects, given each item's noisy weighted sum of users' residuals.

    With counts N, weights a and the average gain f, S_j ~ N(n_j b_j, noise^2 + n_j a_j f v), where
    n_j = N_j a_j f and v is `rating_variance`. The effects b are normal about a trend in the log of
    n_j and in the public features. Their standard deviation about the trend, and that of the slopes
    on the features, maximise the marginal likelihood on a grid.

    Args:
        prior: what is known of the items so far.
        sums: S, shape (n,), in rating points.
        noise: the standard deviation of the noise on S, or shape (n,).
        gain: f, the average gain of the users.
    """
    reach, noise_variances = _compute_reach(prior, noise, gain)
    noise_variances /= reach**2
    noisy_effects = sums / reach
    logs = np.log(reach)
    logs = (logs - logs.mean()) / max(logs.std(), 1e-9)  # all alike if their counts are equal
    # 1, the log and its square, then the public features; the slopes are in this order.
    trend = np.hstack([np.vander(logs, 3, increasing=True), prior.item_features])
    width, n_features = prior.public.width, prior.item_features.shape[1]
    fits = []
    for relative_std in _EFFECT_STD_GRID:
        variance = (PRIORS.item_effect * width * relative_std) ** 2
        precisions = 1.0 / (noise_variances + variance)
        squares = trend.T @ (trend * precisions[:, None])
        moments = trend.T @ (precisions * noisy_effects)
        for slope_std in _FEATURE_TREND_STDS if n_features else _FEATURE_TREND_STDS[:1]:
            stds = np.array([*_TREND_STDS, *[slope_std] * n_features]) * width
            normal = squares + np.diag(stds**-2)
            slopes = np.linalg.solve(normal, moments)
            means = trend @ slopes
            # The log likelihood, with the slopes integrated over their prior, and that of the std.
            likelihood = normal_log_likelihood(noisy_effects - means, 1 / precisions)
            likelihood += normal_log_likelihood(slopes[3:], stds[3:] ** 2)
            likelihood -= float(np.linalg.slogdet(normal)[1]) / 2
            prior_log_density = -math.log(relative_std) - relative_std**-2 / 2
            likelihood += _EFFECT_PSEUDO_COUNT * prior_log_density
            fits.append((likelihood, variance, means))
    _, variance, means = max(fits, key=itemgetter(0))
    effects, variances = update_normal(noisy_effects, 1.0, noise_variances, variance, means)
    return replace(prior, effects=effects, variances=variances)


def _compute_reach(
    prior: ItemEffects, noise: float | Floats, gain: float, share: float = 1.0
) -> tuple[Floats, Floats]:
    """Return by how much an item's noisy sum moves with its effect, and the variance about that.

    Args:
        prior: what is known of the items so far.
        noise: the standard deviation of the noise on the sums, or shape (n,).
        gain: the average gain of the users.
        share: the share of the squared length of a user's row that went into the sums.

    Returns:
        Two arrays of shape (n,).
    """
    root = math.sqrt(share)
    reach = root * prior.counts * prior.weights * gain
    return reach, noise**2 + root * reach * prior.weights * gain * prior.rating_variance


def refine_item_effects(
    prior: ItemEffects, sums: Floats, noise: float | Floats, gain: float, share: float
) -> ItemEffects:
    """Return the item effects after noisy weighted sums of residuals about them.

    As in `estimate_item_effects`, with the change c of the effects in place of b: S_j ~ N(n_j c_j,
    noise^2 + share N_j a_j^2 f^2 v) with n_j = sqrt(share) N_j a_j f. The prior of c_j has the
    posterior variance of the effect. The sums also say how much of the effects is there at all, as
    their noise is new. What is not there the round takes away in part, as it does any error.

    Args:
        prior: what is known of the items so far.
        sums: shape (n,), in rating points.
        noise: the standard deviation of the noise on the sums.
        gain: the average gain of the users.
        share: the share of the squared length of a user's row that went into the sums.
    """
    reach, noise_variances = _compute_reach(prior, noise, gain, share)
    changes, variances = update_normal(sums, reach, noise_variances, prior.variances)
    # If the true effects are q e, their residuals are (q - 1) e. So the sums over `unit` estimate
    # (q - 1) N e, and their product with e estimates q - 1 times the energy of the effects.
    unit = math.sqrt(share) * prior.weights * gain
    usual_count = prior.public.users / prior.public.items
    counts = estimate_long_tailed_counts(*prior.noisy_counts, usual_count)
    energies = counts * prior.effects**2
    energy = max(float(energies.sum()), SMALLEST)
    scale, scale_variance = update_normal(
        1 + prior.effects @ (sums / unit) / energy,
        1.0,
        (prior.effects / unit / energy) ** 2 @ noise_variances,
        prior.scale_variance,
        prior.scale,
    )
    remaining = float(energies @ (variances / prior.variances)) / energy  # of what is not there
    return replace(
        prior,
        effects=prior.effects + changes,
        variances=variances,
        scale=1 - remaining * (1 - float(scale)),
        scale_variance=remaining**2 * float(scale_variance),
    )


def estimate_user_variances(prior: ItemEffects, sums: Floats, noise: float) -> ItemEffects:
    """Return the item effects with how much users differ, from noisy sums over users.

    Args:
        prior: what is known so far.
        sums: shape (2, N_USER_COEFFICIENTS + 1), as of `UserRegression.sum_coefficient_variation`.
        noise: the standard deviation of the noise on the sums.
    """
    numerators, denominators = sums
    ratios, _ = update_normal(
        MAX_STATISTIC * numerators,
        np.maximum(denominators, 0.0),
        (MAX_STATISTIC * noise) ** 2,
        _USER_VARIANCE_STD**2,
        prior_mean=1.0,
    )
    variances = np.clip(prior.user_variances * ratios, *_USER_VARIANCE_LIMITS)
    return replace(prior, user_variances=variances)


def choose_low_rank_share(item_effects: ItemEffects, clip: float, mu: float) -> float:
    """Return the share of a round that goes into low-rank factors, by how clear they would be.

    It is rho / (rho + 30), at most 0.95, and 0 below rho = 8. rho is the mean of the squared counts
    less their noise, times the squared standard deviation of the low-rank part, over (clip / mu)^2,
    the squared noise of the whole budget on rows of norm `clip`.

    Args:
        item_effects: the item effects, with the released counts.
        clip: the l2 norm of a row, in rating points.
        mu: the whole budget.
    """
    std = PRIORS.low_rank * item_effects.public.width
    rho = item_effects.noisy_counts.energy * (std * mu / clip) ** 2
    return min(rho / (rho + _HALF_RHO), _MAX_LOW_RANK_SHARE) if rho >= _MIN_RHO else 0.0


def start_low_rank(item_effects: ItemEffects, random: Floats) -> LowRankFactors:
    """Return low-rank factors to begin with: popularity, the item effects, then random ones.

    Args:
        item_effects: the item effects.
        random: shape (n, r), N(0, 1).
    """
    rank, width, effects = random.shape[1], item_effects.public.width, item_effects.effects
    standardised = (effects - effects.mean()) / max(effects.std(), 1e-9 * width)
    start = [item_effects.compute_popularity(), standardised, random[:, 2:]]
    # The first two random columns are replaced. A lower rank than 3 has no random ones at all.
    factors = PRIORS.item_effect * width * np.column_stack(start)[:, :rank]
    return LowRankFactors(factors, np.eye(rank) / rank)


def estimate_low_rank(
    item_effects: ItemEffects,
    sums: Floats,
    noise: float,
    gain: float,
    moments: Floats,
    previous: FactorLikelihood | None = None,
) -> tuple[LowRankFactors, FactorLikelihood]:
    """Estimate low-rank factors from noisy sums of residuals times the users' unit vectors.

    With n_j = N_j f and v the `rating_variance`, row j is N(n_j K q_j, noise^2 I + n_j f v K).
    Directions that noise drowns come out as zero. The round before says almost the same of the
    factors, with other noise, so both likelihoods are multiplied.

    Args:
        item_effects: the item effects.
        sums: shape (n, r), in rating points.
        noise: the standard deviation of the noise on the sums.
        gain: f, the average gain of the users.
        moments: K, shape (r, r), the noisy mean of u u' over users.
        previous: what the sums of the round before say; None: no round before.

    Returns:
        The factors, and what these sums alone say of them.
    """
    values, basis = np.linalg.eigh(0.5 * (moments + moments.T))
    # Second moments of unit vectors add up to at most 1; noise may make them negative or larger.
    # None is taken for less than a tenth of an equal share.
    values = np.clip(values, 0.1 / len(moments), 1.0)
    reach = item_effects.counts[:, None] * gain
    likelihood = FactorLikelihood.from_sums(
        reach * values, basis, sums, noise**2, gain * item_effects.rating_variance
    )
    precisions, targets = likelihood
    if previous is not None:
        precisions, targets = precisions + previous.precisions, targets + previous.targets
    start_variance = (PRIORS.item_effect * item_effects.public.width) ** 2
    factors = fit_normal_prior(precisions, targets, start_variance, 1e-6 * start_variance).means
    return LowRankFactors(factors, (basis * values) @ basis.T), likelihood


def estimate_item_factors(squares: Floats, moments: Floats, noise: float, width: float) -> Floats:
    """Estimate item factors from noisy normal equations, shrunk by what the noise says.

    b_j ~ N(A_j q_j, noise^2 I + s^2 A_j) with the item factors q_j ~ N(0, G).

    Args:
        squares: A, shape (n, r, r), positive semidefinite.
        moments: b, shape (n, r).
        noise: the standard deviation of the noise on b.
        width: of the rating range, in rating points.

    Returns:
        Array of shape (n, r).
    """
    values, basis = np.linalg.eigh(squares)
    values, rating_variance = np.maximum(values, 0.0), (PRIORS.rating * width) ** 2
    likelihood = FactorLikelihood.from_sums(values, basis, moments, noise**2, rating_variance)
    # EM starts from 1, as users' factors are in rating points.
    return fit_normal_prior(*likelihood, 1.0, 1e-6).means


def estimate_low_rank_from_gram(
    item_effects: ItemEffects,
    values: Floats,
    vectors: Floats,
    edge: float,
    n_pairs: float,
    columns: Ints | None = None,
) -> LowRankFactors | None:
    """Estimate low-rank factors from a noisy Gram matrix of the users' residual rows.

    Args:
        item_effects: the item effects.
        values: shape (k,), leading eigenvalues of the matrix off its diagonal, as only that holds
            low-rank factors.
        vectors: shape (n_columns, k), their eigenvectors.
        edge: the largest eigenvalue of the noise.
        n_pairs: the (weighted) number of pairs of ratings in the matrix, spread over items as N_j
            N_k.
        columns: shape (n_columns,), the items of the matrix; None: all.

    Returns:
        The factors; None where everything is noise.
    """
    strengths = shrink_eigenvalues(values, edge)
    is_clear = strengths > 0
    if not is_clear.any():
        return None
    strengths, vectors = strengths[is_clear], vectors[:, is_clear]
    counts = item_effects.counts if columns is None else item_effects.counts[columns]
    reach = math.sqrt(max(n_pairs, 1.0)) * counts / counts.sum()
    noisy_factors = vectors * np.sqrt(strengths)  # about reach x factor
    noise_variances = (edge / 2) ** 2 / len(vectors) / strengths
    prior_variances = (noisy_factors**2).sum(axis=0) / (reach @ reach)
    factors, _ = update_normal(noisy_factors, reach[:, None], noise_variances, prior_variances)
    return LowRankFactors(
        scatter_rows(factors, columns, item_effects.public.items), np.eye(len(strengths))
    )
