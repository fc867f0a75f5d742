"""Audits hold their confidence on certified mechanisms and catch planted bugs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.sparse import csr_array

from dpmc_core.errors import InvalidSetting
from dpmc_core.privacy import (
    CELL,
    RATING,
    Gaussian,
    Laplace,
    ModifiedLaplace,
    NormLaplace,
    RandomizedResponse,
    SymbolChannel,
)
from dpmc_core.privacy.accounting import gaussian_epsilon
from dpmc_lab.audit_bounds import (
    canary_bound,
    canary_p_value,
    clopper_pearson,
    count_right_guesses,
    gaussian_canary_bound,
)

Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]

# The canary bound


def test_p_values_match_the_definition() -> None:
    for epsilon, k, v, delta in ((1.0, 40, 33, 0.0), (0.5, 30, 22, 1e-4), (2.0, 25, 25, 1e-3)):
        m = 50
        w = stats.binom(k, math.exp(epsilon) / (1 + math.exp(epsilon)))
        tail = sum(w.pmf(x) for x in range(v, k + 1))
        worst = max(sum(w.pmf(x) for x in range(v - i, v)) / i for i in range(1, v + 1))
        expected = min(1.0, tail + 2 * m * delta * worst)
        assert canary_p_value(epsilon, m, k, v, delta) == pytest.approx(expected, rel=1e-9)
    assert canary_p_value(1.0, 10, 10, 0) == 1.0


def test_the_bound_is_where_the_p_value_crosses() -> None:
    for k, v, delta in ((1000, 731, 0.0), (100, 100, 0.0), (1000, 800, 1e-5), (50, 40, 1e-4)):
        bound = canary_bound(1000, k, v, delta=delta)
        assert canary_p_value(bound, 1000, k, v, delta) <= 0.05
        assert canary_p_value(bound + 1e-6, 1000, k, v, delta) > 0.05
        # Clopper-Pearson on the share of right guesses is the pure case.
        low = stats.binomtest(v, k, alternative="greater").proportion_ci(0.95).low
        if delta == 0:
            assert bound == pytest.approx(math.log(low / (1 - low)), abs=1e-6)
        else:
            assert bound < math.log(low / (1 - low))


def test_bad_counts_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="guesses must be >= 1 and <= 10, got 11"):
        canary_bound(10, 11, 5)
    with pytest.raises(InvalidSetting, match="right guesses must be >= 0 and <= 5, got 6"):
        canary_bound(10, 5, 6)


# Whole audits: canaries are bits, each planted by a fair coin

Mechanism = Callable[[Bits, np.random.Generator], Floats]


def build_response(epsilon: float) -> Mechanism:
    p = 1 / (1 + math.exp(epsilon))
    release = RandomizedResponse(
        query="bits", shape=(None,), sensitivity={RATING: 1}, channel=((1 - p, p), (p, 1 - p))
    )
    return lambda bits, rng: release.publish(bits, rng) - 0.5


@pytest.mark.parametrize("confidence", [1e-6, 1e-5, 0.5, 0.95, 1 - 1e-9])
@pytest.mark.parametrize("guesses", [1, 10, 1000])
def test_the_bound_of_guesses_that_are_all_right_is_the_closed_form(guesses, confidence) -> None:
    """q^k = 1 - confidence for q = e^eps / (1 + e^eps)."""
    log_q = math.log1p(-confidence) / guesses
    expected = max(0.0, log_q - math.log(-math.expm1(log_q)))
    bound = canary_bound(guesses, guesses, guesses, confidence=confidence)
    assert bound == pytest.approx(expected, abs=1e-6)


def build_gaussian(mu: float) -> Mechanism:
    release = Gaussian(query="bits", shape=(None,), sensitivity={RATING: 1}, scale=1 / mu)
    return lambda bits, rng: release.publish(bits, rng) - 0.5


def simulate_bounds(
    mechanism: Mechanism, runs: int, guesses: int = 1000, delta: float = 0.0, seed: int = 0
) -> Floats:
    rng = np.random.default_rng(seed)
    bounds = []
    for _ in range(runs):
        planted = rng.random(1000) < 0.5
        right = count_right_guesses(mechanism(planted, rng), planted, guesses)
        bounds.append(canary_bound(1000, guesses, right, delta=delta))
    return np.array(bounds)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_randomised_response_is_measured_nearly_in_full(epsilon: float) -> None:
    """Valid in at least 179 of 200 runs (more than 21 misses: below 0.1 % if valid), and tight."""
    bounds = simulate_bounds(build_response(epsilon), 200)
    assert (bounds > epsilon).sum() <= 21
    assert np.median(bounds) >= 0.8 * epsilon


# The bound for Gaussian releases


@pytest.mark.slow
@pytest.mark.parametrize(("mu", "guesses"), [(0.3, 1000), (0.3, 50), (1.0, 200), (2.0, 50)])
def test_the_gaussian_bound_holds_its_confidence(mu: float, guesses: int) -> None:
    """Above mu in at most 21 of 200 runs (more: below 0.1 % if it is valid)."""
    rng = np.random.default_rng(0)
    misses = 0
    for _ in range(200):
        planted = rng.random(1000) < 0.5
        right = count_right_guesses(build_gaussian(mu)(planted, rng), planted, guesses)
        misses += gaussian_canary_bound(1000, guesses, right) > mu
    assert misses <= 21


@pytest.mark.slow
def test_the_gaussian_bound_shows_more_than_that_for_epsilon_and_delta() -> None:
    rng = np.random.default_rng(1)
    planted = rng.random(10_000) < 0.5
    right = count_right_guesses(build_gaussian(0.9)(planted, rng), planted, 500)
    sharp = gaussian_epsilon(gaussian_canary_bound(10_000, 500, right), 1e-5)
    assert sharp > 1.2 * canary_bound(10_000, 500, right, delta=1e-5)


def test_clopper_pearson_is_the_interval_of_a_share() -> None:
    for count, n_trials in ((0, 20), (7, 20), (20, 20), (300, 4000)):
        for alternative, lower in (("greater", True), ("less", False)):
            interval = stats.binomtest(count, n_trials, alternative=alternative).proportion_ci(0.99)
            expected = interval.low if lower else interval.high
            assert clopper_pearson(
                count, n_trials, lower=lower, error_probability=0.01
            ) == pytest.approx(expected)


# What an answer says of the value behind it


@pytest.mark.parametrize(
    "release",
    [
        Laplace(query="q", shape=(3,), sensitivity={RATING: 1}, scale=0.7),
        Gaussian(query="q", shape=(3,), sensitivity={RATING: 1}, scale=0.7),
        NormLaplace(query="q", shape=(4, 3), sensitivity={RATING: 1}, scale=0.7),
    ],
)
def test_the_likelihood_of_a_number_is_its_density(release) -> None:
    rng = np.random.default_rng(0)
    y, a, b = (rng.normal(size=[n or 5 for n in release.shape]) for _ in range(3))
    ratio = release.log_likelihood(y, a) - release.log_likelihood(y, b)
    if isinstance(release, NormLaplace):
        norms = [np.linalg.norm(y - x, axis=1) for x in (a, b)]
        assert ratio == pytest.approx((norms[1] - norms[0]) / 0.7)
    else:
        assert ratio == pytest.approx(np.log(release.density(y - a) / release.density(y - b)))


def test_the_likelihood_of_a_channel_is_its_matrix_also_where_nothing_is_stored() -> None:
    shape = (1, 4)
    symbols = SymbolChannel.symmetric(
        1.0, (-1.0, 1.0), query="q", shape=shape, sensitivity={CELL: 1}
    )
    private, reported = csr_array([[0, 1, 2, 2]]), csr_array([[1, 0, 2, 1]])
    expected = np.log(symbols.matrix[[0, 1, 2, 2], [1, 0, 2, 1]])
    assert symbols.log_likelihood(reported, private).ravel() == pytest.approx(expected)
    row = ModifiedLaplace.from_epsilon(1.0, query="q", shape=shape, sensitivity={CELL: 1})
    stored_zero = csr_array((np.array([0.0, 1.0]), ([0, 0], [0, 1])), shape=shape)
    reported = csr_array((np.array([0.5, 0.5]), ([0, 0], [0, 2])), shape=shape)
    likelihoods = row.log_likelihood(reported, stored_zero).ravel()
    density = stats.laplace(scale=row.scale).logpdf(0.5)
    assert likelihoods == pytest.approx(
        [
            math.log(1 - row.flip) + density,
            math.log(row.flip),
            math.log(row.flip) + density,
            math.log(1 - row.flip),
        ]
    )


def test_more_right_guesses_prove_more_and_chance_proves_nothing() -> None:
    bounds = [canary_bound(1000, 1000, v) for v in range(450, 1001, 10)]
    assert (np.diff(bounds) >= 0).all()
    assert canary_bound(1000, 1000, 500) == 0.0
    assert canary_bound(1000, 1000, 0) == 0.0
    assert canary_bound(1, 1, 1) == 0.0  # one right guess is no evidence at 95 %
    assert canary_bound(1000, 1000, 1000) == pytest.approx(math.log(1000 / 3), abs=0.01)
    assert canary_bound(1000, 1000, 900, delta=0.1) == 0.0  # delta explains everything
    stricter = canary_bound(1000, 1000, 900, confidence=0.999)
    assert stricter < canary_bound(1000, 1000, 900)


def test_the_gaussian_bound_starts_where_the_binomial_one_does() -> None:
    """At mu = 0 it rejects from 528 of 1,000 right on, the binomial from 527."""
    for canaries, guesses in ((1000, 1000), (1000, 100), (10_000, 200)):
        first, binomial = (
            next(right for right in range(guesses // 2, guesses + 1) if bound(right) > 0)
            for bound in (
                lambda right, m=canaries, k=guesses: gaussian_canary_bound(m, k, right),
                lambda right, m=canaries, k=guesses: canary_bound(m, k, right),
            )
        )
        assert binomial <= first <= binomial + 1
