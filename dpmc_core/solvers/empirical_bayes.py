"""Empirical Bayes: what noisy numbers say of the numbers behind them, given the noise.

Each function is one formula, with the paper or the identity it rests on. The estimators of ratings
(`item_effects`, `noisy_reports`) and of rankings (`ranking`) are built from them: each states its
model of how a release follows from what it is about, and the formulas here do the rest. All noise
is known; variances of what lies behind it are estimated from the releases themselves (Efron,
Morris, "Stein's estimation rule and its competitors", 1973). No privacy here.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpmc_core.arrays import SMALLEST, Bools, Floats
from dpmc_core.stopping import call_cancellable

_ROUNDS = 30  # of expectation-maximisation, after which the prior is nearly the likeliest one
# Of the means of a mixture of exponential priors of counts: how they may spread in logarithms, and
# about what multiple of the usual count, with what standard deviation.
_TAIL_STDS, _TAIL_CENTRE, _TAIL_CENTRE_STD = (0.5, 1.0, 1.5, 2.0), 2.5, 0.5
# Over the edge of noise, which is itself random: by how much a value has to exceed it where the
# spectrum of the noise is known at this size, only its limit for large matrices, or only an
# estimate of its covariance; and where the edge is the largest of a few draws of the noise.
EXACT_MARGIN, LIMIT_MARGIN, ESTIMATED_MARGIN, SAMPLED_MARGIN = 1.01, 1.05, 1.3, 1.0
# The gain of a public feature that helps: its mean and standard deviation; the standard deviation
# of one that does not, which agrees with users by chance; and how likely a feature helps at all.
_GAIN_MEAN, _GAIN_STD, _NULL_GAIN_STD, _HELPS = 0.3, 0.15, 0.03, 0.3


class Priors(NamedTuple):
    """Prior standard deviations in widths of the public range of ratings; of slopes plain numbers.

    They were chosen on generated ratings, and are the same for all data and every epsilon.

    Attributes:
        mean: of the mean of all users about the middle, as most people rate above it.
        rating: of a rating about user and item effects, which is what good models leave.
        rating_about_mean: of a rating about the mean of all, with the effects of users and items.
        item_effect: of an item's effect, as items differ less than ratings of one item do.
        popularity_slope: of a user's slope on the standardised log count, as tastes for the popular
            are weak.
        effect_slope: of a user's slope on item effects, as some follow others' taste and some not.
        feature_slope: of a user's slope on a public feature of variance 1, if it matters at all.
        low_rank: of what low-rank factors add to a rating, which is less than effects do.
    """

    mean: float = 0.125
    rating: float = 0.21
    rating_about_mean: float = 0.255
    item_effect: float = 0.08
    popularity_slope: float = 0.15 / 4
    effect_slope: float = 0.5
    feature_slope: float = 0.06
    low_rank: float = 0.05


PRIORS = Priors()


# --- one number, measured with normal noise --------------------------------------------------


def update_normal(
    observed: ArrayLike,
    factor: ArrayLike,
    noise_variance: ArrayLike,
    prior_variance: ArrayLike,
    prior_mean: ArrayLike = 0.0,
    factor_variance: ArrayLike = 0.0,
) -> tuple[Floats, Floats]:
    """Return the posterior means and variances of numbers b, given observed = n b + noise.

    With b ~ N(mean, V), noise ~ N(0, v) and a known factor n the posterior is normal, and the step
    from the prior mean is the Kalman gain n V / (n^2 V + v) times (observed - n mean). A factor
    that is itself uncertain adds its variance times E b^2 to the noise; the result is then the best
    linear estimate. All arguments broadcast.

    Args:
        observed: the noisy numbers.
        factor: n, or its mean.
        noise_variance: v.
        prior_variance: V, in the squared unit of b.
        prior_mean: the mean of b.
        factor_variance: the variance of n.

    Returns:
        The means and the variances of b.
    """
    n, mean, variance = (np.asarray(x, float) for x in (factor, prior_mean, prior_variance))
    noise = noise_variance + factor_variance * (variance + mean**2)
    total = np.maximum(n**2 * variance + noise, SMALLEST)
    means = mean + n * variance / total * (observed - n * mean)
    return means, variance * (noise / total)


def normal_log_likelihood(residuals: Floats, variances: Floats) -> float:
    """Return the log density of independent N(0, variance) numbers, up to a constant."""
    return -0.5 * float(np.log(variances).sum() + (residuals**2 / variances).sum())


def estimate_variance(
    square_sums: ArrayLike, counts: ArrayLike, prior_guess: float, prior_count: float
) -> Floats:
    """Return the variance of numbers about their mean, given their expected squares.

    It is the M-step of expectation-maximisation with an inverse-gamma prior: the prior counts as
    `prior_count` further numbers whose mean square is `prior_guess`.

    Args:
        square_sums: the sum of E b^2 over the numbers of each kind.
        counts: how many numbers of each kind there are.
        prior_guess: the variance before any are seen.
        prior_count: how many numbers that guess counts for.
    """
    total = np.asarray(square_sums) + prior_count * prior_guess
    return total / np.add(counts, prior_count)


# --- counts ----------------------------------------------------------------------------------


def truncated_normal_moments(mean: Floats, std: float | Floats) -> tuple[Floats, Floats]:
    """Return the means and variances of normal variables that are known to be positive.

    Args:
        mean: the means before that is known, of any shape.
        std: their standard deviation before that is known.

    Returns:
        Two arrays of that shape, the means and the variances.
    """
    from scipy.special import log_ndtr

    if np.all(std == 0):
        return np.maximum(mean, 0.0), np.zeros_like(mean)
    z = mean / std
    # The inverse Mills ratio phi(z) / Phi(z), by logarithms so that nothing underflows.
    mills = np.exp(-0.5 * z * z - 0.5 * math.log(2 * math.pi) - log_ndtr(z))
    variance = np.maximum(std**2 * (1 - mills * (z + mills)), 0.0)
    return np.maximum(std * (z + mills), 0.0), variance


def estimate_counts(
    noisy: Floats,
    noise_std: float | Floats,
    prior_mean: ArrayLike = math.inf,
    min_stds: float = 1e-3,
) -> Floats:
    """Return the posterior means of counts, given each with noise N(0, noise_std^2).

    The prior is exponential. Its density falls by 1/mean, which is as if the noisy count were less
    by noise variance / mean; so the prior of infinite mean is flat above 0.

    Args:
        noisy: shape (k,).
        noise_std: the standard deviation of the noise.
        prior_mean: the mean of the prior.
        min_stds: the smallest mean that is returned, in standard deviations of the noise.

    Returns:
        Array above 0, of the shape to which the counts and prior means broadcast.
    """
    tilted = noisy - noise_std**2 / np.asarray(prior_mean)
    return np.maximum(truncated_normal_moments(tilted, noise_std)[0], min_stds * noise_std)


class CountEstimate(NamedTuple):
    """Noisy counts of the items' users.

    Attributes:
        noisy: shape (n,), the unbiased counts.
        noise_std: the standard deviation of their noise, or one for each item.
    """

    noisy: Floats
    noise_std: float | Floats

    @property
    def posterior(self) -> Floats:
        """The posterior means given that no count is negative, shape (n,), all above 0."""
        return estimate_counts(*self, min_stds=1e-12)

    @property
    def noise_energy(self) -> float:
        """The mean square of the noise."""
        return float(np.mean(np.square(self.noise_std)))

    @property
    def energy(self) -> float:
        """The mean squared count, less what noise adds to it; below 0 where noise drowns it."""
        return float(np.mean(self.noisy**2)) - self.noise_energy

    def combine(self, noisy: Floats, noise_std: float | Floats) -> CountEstimate:
        """Return the average of these counts and others, weighted by their precisions.

        Args:
            noisy: shape (n,), other noisy counts.
            noise_std: the standard deviation of their noise.
        """
        old, new = self.noise_std**-2, noise_std**-2
        return CountEstimate((old * self.noisy + new * noisy) / (old + new), (old + new) ** -0.5)


def estimate_long_tailed_counts(
    noisy: Floats, noise_std: float | Floats, usual_count: float
) -> Floats:
    """Return the posterior means of counts most of which are small and few of which are large.

    The prior is a mixture of exponential ones, whose means are log-normal. How they lie is averaged
    over by the likelihood of all counts.

    Args:
        noisy: shape (k,), counts with noise N(0, noise_std^2).
        noise_std: the standard deviation of the noise.
        usual_count: the public number of users over that of items.

    Returns:
        Array of shape (k,), above 0.
    """
    from scipy.special import log_ndtr

    # The grid of exponential means, relative to the usual count: from far below it to more than all
    # counts together.
    logs = np.arange(math.log(0.02), math.log(max(50 * len(noisy), 2.0)) + 0.5, 0.5)
    means, stds_of_noise = usual_count * np.exp(logs), np.reshape(noise_std, (-1, 1))
    tilted = noisy[:, None] / stds_of_noise - stds_of_noise / means
    # The log density of a noisy count under each exponential, up to what all of them share.
    log_density = 0.5 * tilted**2 + log_ndtr(tilted) - np.log(means)
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    # The candidates for the log-normal distribution of the means: its width, and where it lies.
    stds, offsets = np.meshgrid(_TAIL_STDS, np.linspace(-1.5, 1.5, 13))
    centres = math.log(_TAIL_CENTRE) + offsets.reshape(-1, 1)
    shares = np.exp(-0.5 * ((logs - centres) / stds.reshape(-1, 1)) ** 2)
    shares /= shares.sum(axis=1, keepdims=True)
    # Priors are weighted by the evidence of all counts, with a prior on where the tail lies.
    evidence = np.maximum(density @ shares.T, SMALLEST)  # of each count, under each such prior
    log_weights = np.log(evidence).sum(axis=0) - 0.5 * (offsets.ravel() / _TAIL_CENTRE_STD) ** 2
    weights = np.exp(log_weights - log_weights.max())
    posterior = density * ((weights / evidence) @ shares)
    posterior /= posterior.sum(axis=1, keepdims=True)
    return (posterior * estimate_counts(noisy[:, None], stds_of_noise, means)).sum(axis=1)


# --- vectors ---------------------------------------------------------------------------------


class NormalPosterior(NamedTuple):
    """What is known of n vectors of length r, and of their prior.

    Attributes:
        means: shape (n, r).
        covariances: shape (k, r, r); vectors that share a precision share a covariance.
        prior: G, shape (r, r), the covariance of the vectors about zero.
    """

    means: Floats
    covariances: Floats
    prior: Floats


def update_normal_vectors(
    prior_precision: Floats, precisions: Floats, targets: Floats, index: Any = slice(None)
) -> tuple[Floats, Floats]:
    """Return the posterior means and covariances of vectors with a normal prior.

    The likelihood of a vector v is exp(t'v - v'Pv/2), and the covariance is (prior precision +
    P)^-1.

    Args:
        prior_precision: shape (r, r).
        precisions: P, shape (k, r, r), symmetric.
        targets: t, shape (n, r), and the prior precision times the prior mean where that is not 0.
        index: shape (n,), which of the k precisions each vector has; by default its own.

    Returns:
        The means, shape (n, r), and the covariances, shape (k, r, r).
    """
    covariances = call_cancellable(np.linalg.inv, prior_precision + precisions)
    return np.einsum("nij,nj->ni", covariances[index], targets), covariances


def fit_normal_prior(
    precisions: Floats,
    targets: Floats,
    start_variances: ArrayLike,
    min_variance: float,
    index: Any = slice(None),
) -> NormalPosterior:
    """Estimate vectors v ~ N(0, G), and G by expectation-maximisation.

    Vectors that say no more than noise would are shrunk to nothing.

    Args:
        precisions: P, shape (k, r, r), see `update_normal_vectors`.
        targets: t, shape (n, r).
        start_variances: shape (r,), or one number; G starts as the diagonal matrix of these.
        min_variance: added to each variance, so that G stays invertible.
        index: shape (n,), which of the k precisions each vector has; by default its own.
    """
    prior = np.diag(np.broadcast_to(start_variances, targets.shape[1]))
    for _ in range(_ROUNDS):
        means, covariances = update_normal_vectors(np.linalg.inv(prior), precisions, targets, index)
        prior = (means.T @ means + covariances[index].sum(axis=0)) / len(means)
        prior += min_variance * np.eye(len(prior))
    return NormalPosterior(means, covariances, prior)


def is_above_noise(values: Floats, edge: float, margin: float = LIMIT_MARGIN) -> Bools:
    """Return which eigenvalues or singular values stand out of the noise.

    Args:
        values: shape (k,).
        edge: the largest one that noise alone has, or is expected to have.
        margin: one of the margins above, by how well the edge is known.

    Returns:
        Array of shape (k,).
    """
    return np.asarray(values > margin * edge)


def shrink_eigenvalues(values: Floats, edge: float) -> Floats:
    """Take the noise out of eigenvalues of a symmetric matrix; those that it drowns become 0.

    Above the edge the result is sqrt(x^2 - edge^2), which is optimal in Frobenius norm as the
    matrix grows (Gavish, Donoho, "Optimal shrinkage of singular values", 2017, for Wigner noise).

    Args:
        values: shape (k,).
        edge: the largest eigenvalue of the noise alone.

    Returns:
        Array of shape (k,).
    """
    return np.where(
        is_above_noise(values, edge), np.sqrt(np.maximum(values**2 - edge**2, 0.0)), 0.0
    )


# --- a choice between two explanations -------------------------------------------------------


def feature_gain_probability(released: Floats, noise: float) -> Floats:
    """Return the posterior probability that each public feature helps users, from released gains.

    The released gain of a feature is N(mean, std^2) where it helps and N(0, null std^2) where it
    does not, each plus the noise of the release.

    Args:
        released: shape (n_features,), gains averaged over users.
        noise: the standard deviation of the noise on a gain.

    Returns:
        Array of shape (n_features,), probabilities.
    """
    gain_variance, null_variance = _GAIN_STD**2 + noise**2, _NULL_GAIN_STD**2 + noise**2
    # The logarithm of the ratio of both densities, and then of the prior odds.
    log_odds = 0.5 * (released**2 / null_variance - (released - _GAIN_MEAN) ** 2 / gain_variance)
    log_odds += math.log(_HELPS / (1 - _HELPS)) + 0.5 * math.log(null_variance / gain_variance)
    # Beyond 30 the probability is 0 or 1 up to 1e-13, and its exponential may overflow.
    return 1 / (1 + np.exp(-np.clip(log_odds, -30, 30)))
