"""The formulas that the noise-aware estimators share, each against an independent oracle."""

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from dpmc_core.solvers import empirical_bayes
from dpmc_core.solvers.empirical_bayes import (
    CountEstimate,
    estimate_counts,
    estimate_long_tailed_counts,
    estimate_variance,
    feature_gain_probability,
    fit_normal_prior,
    normal_log_likelihood,
    truncated_normal_moments,
    update_normal,
)


def condition_on_observed(n, noise, variance, mean, factor_variance, observed):
    """Best linear estimate by the joint covariance of (b, N b + e), N with mean n and variance."""
    of_observed = n**2 * variance + factor_variance * (variance + mean**2) + noise
    covariance = np.array([[variance, n * variance], [n * variance, of_observed]])
    slope = covariance[0, 1] / covariance[1, 1]
    return mean + slope * (observed - n * mean), covariance[0, 0] - slope * covariance[0, 1]


def test_one_number_is_updated_as_its_joint_normal_distribution_says():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n, mean, observed = rng.normal(size=3)
        noise, variance, factor_variance = rng.uniform(0.1, 3.0, 3)
        exact = condition_on_observed(n, noise, variance, mean, factor_variance, observed)
        found = update_normal(observed, n, noise, variance, mean, factor_variance)
        assert np.allclose(found, exact, rtol=1e-12)
    # Without noise it is the number, and a small variance does not cancel.
    assert update_normal(3.0, 2.0, 0.0, 5.0, 7.0) == (1.5, 0.0)
    assert update_normal(1.0, 1.0, 1e-14, 1.0)[1] == pytest.approx(1e-14, rel=1e-12)


def test_the_best_linear_estimate_with_an_uncertain_factor_has_the_least_error():
    rng = np.random.default_rng(1)
    b, factor = 0.5 + rng.normal(size=400_000), 2 + 0.7 * rng.normal(size=400_000)
    observed = factor * b + 0.3 * rng.normal(size=400_000)
    means, variances = update_normal(observed, 2.0, 0.09, 1.0, 0.5, 0.49)
    error = float(np.mean((means - b) ** 2))
    assert error == pytest.approx(float(np.mean(variances)), rel=0.02)
    design = np.column_stack([np.ones_like(b), observed])
    least = float(np.mean((design @ np.linalg.lstsq(design, b, rcond=None)[0] - b) ** 2))
    assert error == pytest.approx(least, rel=1e-3)


def test_densities_and_truncated_moments_are_those_of_scipy():
    rng = np.random.default_rng(2)
    residuals, variances = rng.normal(size=9), rng.uniform(0.1, 4.0, 9)
    exact = scipy.stats.norm(0, np.sqrt(variances)).logpdf(residuals).sum()
    found = normal_log_likelihood(residuals, variances) - 4.5 * math.log(2 * math.pi)
    assert found == pytest.approx(exact, rel=1e-12)
    means = np.linspace(-6.0, 6.0, 25)
    exact = scipy.stats.truncnorm(-means / 1.5, math.inf, loc=means, scale=1.5)
    assert np.allclose(truncated_normal_moments(means, 1.5)[0], exact.mean(), rtol=1e-7)
    assert np.allclose(truncated_normal_moments(means, 1.5)[1], exact.var(), rtol=1e-4)
    assert np.allclose(estimate_counts(means, 1.5), exact.mean(), rtol=1e-7)
    assert estimate_counts(np.array([-1e9]), 2.0) == 2e-3


def test_a_variance_maximises_its_posterior():
    """The prior is inverse gamma with mode `guess` of weight `count`, as of so many numbers."""
    numbers, guess, count = np.random.default_rng(3).normal(size=12), 0.4, 5.0

    def loss(log_variance):
        variance = math.exp(log_variance)
        prior = -count / 2 * (math.log(variance) + guess / variance)
        return -normal_log_likelihood(numbers, np.full(12, variance)) - prior

    best = math.exp(scipy.optimize.minimize_scalar(loss, (-3.0, 3.0)).x)
    found = estimate_variance(float(numbers @ numbers), 12, guess, count)
    assert float(found) == pytest.approx(best, rel=1e-6)


def test_the_prior_of_vectors_is_the_likeliest(monkeypatch):
    """Targets are N(0, P G P + P). After many rounds the means, which follow from G, are those of a
    direct search for the G of largest likelihood; after 30 they are nearly so."""
    rng = np.random.default_rng(4)
    roots = rng.normal(size=(60, 2, 2))
    precisions = roots @ roots.mT + 0.5 * np.eye(2)
    truth = rng.multivariate_normal(np.zeros(2), [[2.0, 0.6], [0.6, 0.5]], 60)
    noise = np.array([rng.multivariate_normal(np.zeros(2), p) for p in precisions])
    targets = np.einsum("nij,nj->ni", precisions, truth) + noise

    def build_prior(parameters):
        root = np.array([[parameters[0], 0.0], [parameters[1], parameters[2]]])
        return root @ root.T

    def compute_loss(parameters):
        covariances = precisions @ build_prior(parameters) @ precisions + precisions
        energies = np.einsum("ni,nij,nj->n", targets, np.linalg.inv(covariances), targets)
        return float((np.linalg.slogdet(covariances)[1] + energies).sum()) / 2

    best = scipy.optimize.minimize(compute_loss, [1.0, 0.0, 1.0], method="Nelder-Mead").x
    inverse = np.linalg.inv(build_prior(best))
    exact = np.linalg.solve(inverse + precisions, targets[:, :, None])[:, :, 0]
    for rounds, tolerance in ((30, 0.06), (1_000, 1e-3)):
        monkeypatch.setattr(empirical_bayes, "_ROUNDS", rounds)
        fitted = fit_normal_prior(precisions, targets, 1.0, 1e-6)
        error = np.linalg.norm(fitted.means - exact)
        assert error < tolerance * np.linalg.norm(exact)


def test_vectors_that_share_a_precision_are_fitted_as_if_each_had_its_own():
    rng = np.random.default_rng(5)
    roots, index = rng.normal(size=(3, 2, 2)), np.arange(40) % 5 % 3
    precisions, targets = roots @ roots.mT + 0.5 * np.eye(2), rng.normal(size=(40, 2))
    shared = fit_normal_prior(precisions, targets, (1.0, 0.5), 1e-6, index)
    separate = fit_normal_prior(precisions[index], targets, (1.0, 0.5), 1e-6)
    assert np.allclose(shared.means, separate.means, rtol=1e-9)
    assert np.allclose(shared.covariances[index], separate.covariances, rtol=1e-9)
    assert np.allclose(shared.prior, separate.prior, rtol=1e-9)


def test_the_energy_of_counts_is_that_without_their_noise():
    noisy = 3.0 + 2.0 * np.random.default_rng(6).normal(size=100_000)
    assert CountEstimate(noisy, 2.0).energy == pytest.approx(9.0, rel=0.02)


def test_the_probability_that_a_feature_helps_is_bayes_rule():
    released = np.linspace(-0.2, 0.7, 12)
    helps = scipy.stats.norm(0.3, math.hypot(0.15, 0.1)).pdf(released) * 0.3
    does_not = scipy.stats.norm(0.0, math.hypot(0.03, 0.1)).pdf(released) * 0.7
    found = feature_gain_probability(released, 0.1)
    assert np.allclose(found, helps / (helps + does_not), rtol=1e-9)


def integrate_posterior_mean(noisy, noise_std, density):
    """The posterior mean of a count by quadrature, for any prior density on counts above 0."""
    grid = np.linspace(1e-6, 80.0, 400_001)
    weights = density(grid) * scipy.stats.norm.pdf(noisy, grid, noise_std)
    return float(grid @ weights / weights.sum())


@pytest.mark.parametrize(("noisy", "prior_mean"), [(-3.0, 0.5), (1.0, 2.0), (7.0, 4.0), (2.0, 1e9)])
def test_counts_with_an_exponential_prior_are_what_quadrature_gives(noisy, prior_mean):
    exact = integrate_posterior_mean(noisy, 2.0, lambda n: np.exp(-n / prior_mean))
    found = estimate_counts(np.array([noisy]), 2.0, prior_mean)
    assert found[0] == pytest.approx(exact, rel=1e-3)


def test_counts_with_a_long_tail_are_what_quadrature_gives(monkeypatch):
    """Given how exponential priors are mixed, which is fixed here by a single such mixture."""
    monkeypatch.setattr(empirical_bayes, "_TAIL_STDS", (1.5,))
    monkeypatch.setattr(empirical_bayes, "_TAIL_CENTRE_STD", 1e-3)  # only the middle offset is left
    noisy, usual = np.array([-2.0, 0.5, 3.0, 9.0]), 0.8
    logs = np.arange(math.log(0.02), math.log(50 * len(noisy)) + 0.5, 0.5)
    shares = scipy.stats.norm.pdf(logs, math.log(2.5), 1.5)

    def density(n):
        return sum(
            s * np.exp(-n / m) / m for s, m in zip(shares, usual * np.exp(logs), strict=True)
        )

    exact = [integrate_posterior_mean(y, 2.0, density) for y in noisy]
    assert np.allclose(estimate_long_tailed_counts(noisy, 2.0, usual), exact, rtol=1e-3)


def test_counts_that_noise_drowns_add_up_to_their_number():
    """With a flat prior they would add up to several times as much."""
    rng = np.random.default_rng(6)
    counts = np.exp(1.2 * rng.normal(size=3000)) / 2
    noisy = counts + 4.0 * rng.normal(size=3000)
    found = estimate_long_tailed_counts(noisy, 4.0, 0.4)
    assert found.sum() == pytest.approx(counts.sum(), rel=0.2)
    assert estimate_counts(noisy, 4.0).sum() > 3 * counts.sum()
    assert np.mean((found - counts) ** 2) < np.mean((estimate_counts(noisy, 4.0) - counts) ** 2) / 3
