"""Accounting against dp-accounting, against many-digit arithmetic, and against itself."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest

from dpmc_core.errors import InvalidSetting
from dpmc_core.privacy.accounting import (
    _TRANSFORM_ERROR,
    Loss,
    PureReleases,
    _GridLoss,
    attacker_certainty,
    channel_epsilon,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_log_delta,
    gaussian_mu,
)

EPSILONS = (0.01, 0.1, 0.5, 1.0, 4.0, 10.0, 50.0)
DELTAS = (1e-3, 1e-6, 1e-9, 1e-12)


def compute_exact_delta(epsilon: float, mu: float) -> mpmath.mpf:
    """delta by its definition in enough digits to survive the cancellation."""
    u = epsilon / mu - mu / 2
    with mpmath.workdps(60 + int(u * u / 4)):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


def compute_exact_log_delta(epsilon: float, mu: float) -> float:
    """Its logarithm, rounded."""
    u = epsilon / mu - mu / 2
    with mpmath.workdps(60 + int(u * u / 4)):
        return float(mpmath.log(compute_exact_delta(epsilon, mu)))


@pytest.mark.parametrize("mu", [1e-9, 1e-6, 1e-4, 0.009, 0.011, 0.1, 1.0, 3.0, 9.9, 10.1, 30, 100])
@pytest.mark.parametrize("epsilon", [0, 1e-8, 1e-4, *EPSILONS, 5000.0])
def test_delta_matches_many_digit_arithmetic(epsilon: float, mu: float) -> None:
    if epsilon / mu - mu / 2 > 38:
        assert gaussian_delta(epsilon, mu) < 1e-300
        return
    expected = compute_exact_log_delta(epsilon, mu)
    assert gaussian_log_delta(epsilon, mu) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_mu_spends_the_target_and_never_more(epsilon: float, delta: float) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assert compute_exact_log_delta(epsilon, mu) == pytest.approx(math.log(delta), abs=1e-10)
    back = gaussian_epsilon(mu, delta)
    assert back <= epsilon
    assert back == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 10.0, 100.0])
def test_epsilon_is_the_smallest_that_holds(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    if epsilon > 0:
        assert gaussian_delta(epsilon * (1 - 1e-9), mu) > delta


def test_epsilon_is_never_understated_not_even_in_the_last_digits() -> None:
    rng = np.random.default_rng(3)
    for mu, delta in zip(10 ** rng.uniform(-3, 1, 60), 10 ** rng.uniform(-12, -2, 60), strict=True):
        epsilon = gaussian_epsilon(float(mu), float(delta))
        assert compute_exact_log_delta(epsilon, float(mu)) <= math.log(delta)


@pytest.mark.parametrize("mu", [0.009, 0.0101, 0.011, 0.02, 0.05, 0.1])
def test_epsilon_is_not_understated_where_evaluation_is_least_exact(mu: float) -> None:
    """Small ratios beside small deltas, in many digits: a float's ln delta hides the excess."""
    for delta in 10 ** np.random.default_rng(int(1e6 * mu)).uniform(-12, -8, 30):
        epsilon = gaussian_epsilon(mu, float(delta))
        assert compute_exact_delta(epsilon, mu) <= mpmath.mpf(float(delta))


@pytest.mark.parametrize(("mu", "step"), [(0.05, 1e-4), (0.5, 1e-4), (1.0, 1e-4), (5.0, 1e-3)])
def test_epsilon_matches_dp_accounting(mu: float, step: float) -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld

    loss = pld.from_gaussian_mechanism(1.0 / mu, value_discretization_interval=step)
    for delta in (1e-3, 1e-6, 1e-9):
        epsilon, peer_epsilon = gaussian_epsilon(mu, delta), loss.get_epsilon_for_delta(delta)
        assert epsilon == pytest.approx(peer_epsilon, rel=1e-5)
        # the peer's is a pessimistic discretisation
        assert epsilon <= peer_epsilon + 1e-6 * peer_epsilon


def compose_gaussians(mus: list[float]) -> Loss:
    return sum((Loss(mu=mu) for mu in mus), Loss())


# --- pure releases together, and with Gaussian ones ------------------------------------------

STUDIES: dict[str, tuple[tuple[PureReleases, ...], float]] = {
    "one number": ((PureReleases(1.0, 1, laplace=True),), 0.0),
    "numbers": ((PureReleases(0.2, 30, laplace=True),), 0.0),
    "many numbers": ((PureReleases(0.01, 2000, laplace=True),), 0.0),
    "bits": ((PureReleases(0.05, 80),), 0.0),
    "few bits": ((PureReleases(1.0, 3),), 0.0),
    "bits of two kinds": ((PureReleases(0.3, 7), PureReleases(0.07, 40)), 0.0),
    "bits and numbers": ((PureReleases(0.5, 3), PureReleases(0.2, 10, laplace=True)), 0.0),
    "a bit and a Gaussian": ((PureReleases(1.0, 1),), 0.19),
    "numbers and a Gaussian": ((PureReleases(0.1, 40, laplace=True),), 0.5),
    "large": ((PureReleases(3.0, 2), PureReleases(0.5, 4, laplace=True)), 1.5),
}


def build_peer_loss(
    pure: tuple[PureReleases, ...], mu: float, *, above: bool, step: float = 2e-4
) -> Any:
    """The same by dp-accounting, rounded up or down."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    options = {
        "value_discretization_interval": step,
        "pessimistic_estimate": above,
        "use_connect_dots": above,
    }
    losses = [
        pld.from_laplace_mechanism(1 / releases.epsilon, **options).self_compose(releases.times)
        if releases.laplace
        else pld.from_randomized_response(
            2 / (1 + math.exp(releases.epsilon)),
            2,
            pessimistic_estimate=above,
            value_discretization_interval=step,
        ).self_compose(releases.times)
        for releases in pure
    ]
    if mu:
        losses.append(pld.from_gaussian_mechanism(1 / mu, **options))
    return functools.reduce(lambda a, b: a.compose(b), losses)


@pytest.mark.parametrize("name", STUDIES)
def test_pure_releases_lie_between_two_roundings_of_dp_accounting(name: str) -> None:
    pure, mu = STUDIES[name]
    high, low = build_peer_loss(pure, mu, above=True), build_peer_loss(pure, mu, above=False)
    loss = sum((Loss.from_pure(releases) for releases in pure), Loss(mu=mu))
    for delta in (1e-3, 1e-6, 1e-9):
        value = loss.epsilon_at(delta)
        above = high.get_epsilon_for_delta(delta)
        assert low.get_epsilon_for_delta(delta) - 1e-9 <= value <= above * (1 + 1e-4) + 1e-9
        assert value <= loss.epsilon + gaussian_epsilon(mu, delta)
        # epsilon is the end of a bisection: its delta is the one asked for, and no larger
        assert loss.delta_at(value) <= delta * (1 + 1e-3) + 1e-15
    for epsilon in (0.0, 0.3, 2.0):
        value = loss.delta_at(epsilon)
        above = high.get_delta_for_epsilon(epsilon)
        assert low.get_delta_for_epsilon(epsilon) - 1e-12 <= value <= above * (1 + 1e-3) + 1e-12


def list_compositions() -> list[tuple[tuple[PureReleases, ...], float, tuple[float, ...]]]:
    """240 points of one kind of release, 72 with a Gaussian, and 500 random mixtures."""
    deltas = (1e-3, 1e-4, 1e-6, 1e-9)
    alone = itertools.product((True, False), (0.001, 0.01, 0.1, 0.5, 2.0), (1, 2, 5, 12, 40, 200))
    mixed = itertools.product((0.01, 0.3, 1.0), (3, 30), (0.05, 0.5, 2.0))
    compositions = [((PureReleases(e, n, laplace),), 0.0, deltas) for laplace, e, n in alone]
    compositions += [((PureReleases(e, n, True),), mu, deltas) for e, n, mu in mixed]
    rng = np.random.default_rng(6)
    for _ in range(500):
        n_kinds = rng.integers(1, 4)
        kinds = 10 ** rng.uniform((-3, 0, 0), (0.3, 1.8, 1), (n_kinds, 3))
        pure = tuple(PureReleases(float(e), int(n), x < 4) for e, n, x in kinds)
        mu = 10 ** rng.uniform(-2, 0.3) if rng.random() < 0.5 else 0.0
        compositions.append((pure, float(mu), (float(10 ** rng.uniform(-10, -3)),)))
    return compositions


def check_close_to_peer(
    pure: tuple[PureReleases, ...], mu: float, deltas: tuple[float, ...]
) -> None:
    variance = sum(p.times * min(p.epsilon, 2.0) ** 2 for p in pure) + mu * mu
    high, low = (
        build_peer_loss(pure, mu, above=above, step=math.sqrt(variance) / 2000)
        for above in (True, False)
    )
    loss = sum((Loss.from_pure(releases) for releases in pure), Loss(mu=mu))
    for delta in deltas:
        least = low.get_epsilon_for_delta(delta)
        most = 1.01 * high.get_epsilon_for_delta(delta)
        assert least - 1e-12 <= loss.epsilon_at(delta) <= most, (pure, mu, delta)


@pytest.mark.parametrize(
    ("epsilon", "times", "mu"),
    [(0.01, 12, 0.0), (0.01, 3, 0.0), (0.1, 12, 0.0), (0.3, 5, 0.0), (0.01, 12, 0.001)],
)
def test_few_small_laplace_releases_cost_no_more_than_by_dp_accounting(
    epsilon: float, times: int, mu: float
) -> None:
    """Where all losses are at their largest more often than delta."""
    check_close_to_peer((PureReleases(epsilon, times, laplace=True),), mu, (0.03, 1e-3, 1e-4))


def test_some_compositions_are_within_a_percent_of_dp_accounting() -> None:
    for composition in list_compositions()[3::80]:
        check_close_to_peer(*composition)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(8))
def test_compositions_are_within_a_percent_of_dp_accounting(chunk: int) -> None:
    for composition in list_compositions()[chunk::8]:
        check_close_to_peer(*composition)


def sum_exact_delta(
    bits: dict[float, int], mu: float, epsilon: float, max_flips: int = 200
) -> mpmath.mpf:
    """delta of randomised responses (epsilon -> how many) and a Gaussian, in many digits.

    Over all outputs by their number of lies, up to so many of each kind: then it is a lower bound.
    """
    with mpmath.workdps(60):
        distribution = {mpmath.mpf(0): mpmath.mpf(1)}
        for e, times in bits.items():
            truth = 1 / (1 + mpmath.exp(-mpmath.mpf(e)))
            group = {
                (times - 2 * k) * mpmath.mpf(e): mpmath.binomial(times, k)
                * truth ** (times - k)
                * (1 - truth) ** k
                for k in range(min(times, max_flips) + 1)
            }
            convolution: dict[mpmath.mpf, mpmath.mpf] = {}
            for (a, p), (b, q) in itertools.product(distribution.items(), group.items()):
                convolution[a + b] = convolution.get(a + b, 0) + p * q
            distribution = convolution
        delta = mpmath.mpf(0)
        for loss, p in distribution.items():
            margin = mpmath.mpf(epsilon) - loss
            if mu == 0:
                delta += p * max(0, 1 - mpmath.exp(margin))
            else:
                ends = (sign * mpmath.mpf(mu) / 2 - margin / mu for sign in (1, -1))
                right, wrong = (mpmath.ncdf(end) for end in ends)
                delta += p * (right - mpmath.exp(margin) * wrong)
        return delta


@pytest.mark.parametrize(("epsilon", "times"), [(0.05, 80), (0.3, 80), (1.0, 5), (2.0, 1)])
def test_randomised_responses_are_summed_exactly(epsilon: float, times: int) -> None:
    loss = Loss.from_pure(PureReleases(epsilon, times))
    for target_epsilon in (0.0, 0.4 * epsilon * times, 0.8 * epsilon * times):
        exact = float(sum_exact_delta({epsilon: times}, 0.0, target_epsilon))
        assert loss.delta_at(target_epsilon) == pytest.approx(exact, rel=1e-9)
    for delta in (1e-3, 1e-9):
        assert sum_exact_delta({epsilon: times}, 0.0, loss.epsilon_at(delta)) <= mpmath.mpf(delta)


@pytest.mark.parametrize(
    ("bits", "mu"),
    [
        ({0.5: 200, 0.02: 100}, 0.0),
        ({0.01: 500, 0.011: 500}, 0.0),
        ({0.1: 1000}, 0.3),
        ({2.0: 20, 0.02: 20}, 0.05),
    ],
)
def test_delta_is_not_understated_far_out(bits: dict[float, int], mu: float) -> None:
    """Where it comes from losses so rare that a transform drowns them in its rounding.

    Planted bug: what a transform may lose is not added, and delta is 0 where it is 1e-73.
    """
    loss = Loss.from_pure(*(PureReleases(*group) for group in bits.items())) + Loss(mu=mu)
    for share in (0.97, 0.99, 0.9999, *((1.01, 1.02) if mu else ())):
        epsilon = share * loss.epsilon
        exact = sum_exact_delta(bits, mu, epsilon, max_flips=30)
        assert mpmath.mpf(loss.delta_at(epsilon)) >= exact * (1 - 1e-12)


@pytest.mark.parametrize("mu", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("epsilon", [1.0, 10.0, 30.0])
def test_a_mass_that_a_transform_loses_is_counted_wherever_it_lies(
    mu: float, epsilon: float
) -> None:
    """Of all that the grid's rounding may hide, no place makes more of delta than is added."""
    grid = _GridLoss.from_releases(
        (PureReleases(0.5, 60), PureReleases(0.02, 30)),
        mu,
        lambda log_moment, t: log_moment - t * epsilon,
    )

    none = np.zeros_like(grid.masses)
    added = replace(grid, masses=none).delta(epsilon)
    for k in range(0, len(none), 97):
        masses = none.copy()
        masses[k] = _TRANSFORM_ERROR
        assert replace(grid, masses=masses).delta(epsilon) - added <= added * (1 + 1e-9)


def test_losses_of_any_order_and_size_are_told() -> None:
    first, second = (
        Loss.from_pure(PureReleases(0.1, 3)),
        Loss.from_pure(PureReleases(0.1, 4), PureReleases(0.2, 1, laplace=True)),
    )
    assert set((first + second).pure) == set((second + first).pure)
    assert (first + first).pure == Loss.from_pure(PureReleases(0.1, 6)).pure
    assert (first + second).epsilon_at(1e-6) == (second + first).epsilon_at(1e-6)
    large_epsilon = Loss.from_pure(PureReleases(1.0, 10**6)).epsilon_at(1e-6)
    assert 10**6 * math.tanh(0.5) < large_epsilon < 10**6
    assert Loss.from_pure(PureReleases(1e-4, 10**9, laplace=True)).epsilon_at(1e-6) < 1e5
    assert Loss.from_pure(PureReleases(5000.0, 1, laplace=True)).epsilon_at(1e-6) == pytest.approx(
        5000
    )
    assert (Loss.from_pure(PureReleases(5000.0, 2, laplace=True))).delta_at(1.0) == pytest.approx(1)
    assert Loss(math.inf).epsilon_at(1e-6) == math.inf
    assert Loss(math.inf).delta_at(3.0) == 1.0


def test_the_ends_of_the_scale() -> None:
    assert gaussian_delta(1.0, 0.0) == 0.0
    assert gaussian_delta(1.0, math.inf) == 1.0
    assert gaussian_epsilon(0.0, 0.0) == 0.0
    assert gaussian_epsilon(1.0, 0.0) == math.inf
    assert gaussian_epsilon(math.inf, 1e-6) == math.inf
    assert gaussian_epsilon(1e200, 1e-6) == math.inf
    assert gaussian_epsilon(1e-7, 1e-6) == 0.0  # delta(0) = 4e-8 is within the target
    assert gaussian_delta(0.0, 1e-17) == pytest.approx(1e-17 / math.sqrt(2 * math.pi), rel=1e-12)
    assert gaussian_delta(3.0, 1e-200) == 0.0
    assert gaussian_epsilon(100.0, 1e-12) == pytest.approx(5702.482, abs=1e-3)
    assert gaussian_delta(1e6, 100.0) == 0.0
    assert compose_gaussians([]) == Loss(0.0, 0.0)
    assert compose_gaussians([3.0, 4.0]) == Loss(0.0, 5.0)


def test_losses_add_up_and_nothing_is_their_zero() -> None:
    first, second = Loss(1.0, 3.0), Loss(0.5, 4.0)
    assert first + second == second + first == Loss(1.5, 5.0)
    assert first + Loss() == Loss() + first == first
    assert Loss(epsilon=0.7).epsilon_at(0.0) == 0.7
    assert gaussian_epsilon(3.0, 1e-6) < first.epsilon_at(1e-6) < 1.0 + gaussian_epsilon(3.0, 1e-6)
    assert first.epsilon_at(0.0) == math.inf


@pytest.mark.parametrize("mu", [math.nan, -1.0])
def test_a_ratio_that_is_no_ratio_certifies_nothing(mu: float) -> None:
    with pytest.raises(InvalidSetting, match="Gaussian ratio mu must be >= 0"):
        gaussian_epsilon(mu, 1e-6)
    with pytest.raises(InvalidSetting, match="Gaussian ratio mu must be >= 0"):
        gaussian_delta(1.0, mu)


def test_bad_budgets_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="epsilon must be >= 0, got -1"):
        gaussian_delta(-1.0, 1.0)
    with pytest.raises(InvalidSetting, match="delta must be >= 0 and < 1, got 1"):
        gaussian_epsilon(1.0, 1.0)
    with pytest.raises(InvalidSetting, match="epsilon must be > 0, got 0"):
        gaussian_mu(0.0, 1e-6)
    with pytest.raises(InvalidSetting, match="delta must be > 0 and < 1, got 0"):
        gaussian_mu(1.0, 0.0)


# Channels


def test_channels_with_zeros() -> None:
    assert channel_epsilon(np.array([[0.5, 0.5], [1.0, 0.0]])) == math.inf
    assert channel_epsilon(np.eye(3)) == math.inf
    zero_column = np.array([[0.75, 0.0, 0.25], [0.25, 0.0, 0.75]])  # an output that never occurs
    assert channel_epsilon(zero_column) == pytest.approx(math.log(3))
    assert channel_epsilon(np.array([[0.2, 0.8], [0.2, 0.8]])) == 0.0
    assert channel_epsilon(np.array([[0.2, 0.8]])) == 0.0


def test_channel_epsilon_is_the_largest_ratio_over_all_pairs() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        channel = rng.dirichlet(np.ones(4), size=5)
        worst = max(
            abs(math.log(channel[a, o] / channel[b, o]))
            for a in range(5)
            for b in range(5)
            for o in range(4)
        )
        assert channel_epsilon(channel) == pytest.approx(worst, rel=1e-12)


# Attackers


@pytest.mark.slow
@pytest.mark.parametrize("prior", [0.0, 0.05, 0.4, 0.5, 0.6, 0.8, 0.95, 1.0])
def test_the_best_attacker_from_any_prior(prior: float) -> None:
    """By the definition: over all reports, and over the integral of two normal laws."""
    for epsilon, times in ((0.1, 1), (1.0, 10), (2.0, 1), (2.0, 2), (2.0, 3)):
        flip = 1 / (1 + math.exp(epsilon))
        exact = 0.0
        for yes in range(times + 1):
            n_ways = math.comb(times, yes)
            present = n_ways * (1 - flip) ** yes * flip ** (times - yes)
            absent = n_ways * flip**yes * (1 - flip) ** (times - yes)
            exact += max(prior * present, (1 - prior) * absent)
        assert Loss.from_pure(PureReleases(epsilon, times)).attacker_accuracy(
            prior
        ) == pytest.approx(exact, abs=1e-12)
    mu = 0.7
    density = functools.partial(mpmath.npdf, mu=0), functools.partial(mpmath.npdf, mu=mu)
    present, absent = density
    accuracy = mpmath.quad(
        lambda x: max(prior * present(x), (1 - prior) * absent(x)),
        np.linspace(-10, 11, 43).tolist(),
    )
    assert Loss(0.0, mu).attacker_accuracy(prior) == pytest.approx(float(accuracy), abs=1e-4)
    assert Loss(math.inf).attacker_accuracy(prior) == 1.0


def test_attacker_certainty_in_plain_figures() -> None:
    assert [round(100 * attacker_certainty(e), 1) for e in (0.1, 1, 4)] == [52.5, 73.1, 98.2]
    assert attacker_certainty(0.0) == 0.5
    assert attacker_certainty(0.0, 0.2) == pytest.approx(0.6)
    assert attacker_certainty(1.0, 0.1) == pytest.approx((math.e + 0.1) / (1 + math.e))
    assert attacker_certainty(1000.0) == 1.0
    assert attacker_certainty(math.inf) == 1.0


# Splits


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (8.0, 1e-9)])
def test_a_gaussian_split_spends_the_budget_and_keeps_the_proportions(
    epsilon: float, delta: float
) -> None:
    budget = Loss(mu=gaussian_mu(epsilon, delta))
    count, means, rounds = budget.split(0.25, 1.0, 180.0)
    each = rounds / 20
    assert means.mu / count.mu == pytest.approx(2.0)
    assert each.mu / means.mu == pytest.approx(3.0)
    total = compose_gaussians([count.mu, means.mu, *[each.mu] * 20])
    assert total.mu == pytest.approx(budget.mu, rel=1e-11)
    assert total.epsilon_at(delta) <= epsilon


def test_a_pure_split_spends_the_budget_and_keeps_the_proportions() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        weights = rng.uniform(0.1, 10, 7).tolist()
        times = rng.integers(1, 50, 7).tolist()
        shares = Loss(epsilon=3.0).split(*weights)
        assert sum(shares, Loss()).epsilon <= 3.0
        total = sum(n * (share / n).epsilon for n, share in zip(times, shares, strict=True))
        assert total <= 3.0
        assert total == pytest.approx(3.0, rel=1e-11)
        assert shares[3].epsilon / shares[5].epsilon == pytest.approx(weights[3] / weights[5])
        assert all(share.mu == 0 for share in shares)
    assert Loss(epsilon=1.0).split(7.0)[0].epsilon == pytest.approx(1.0)


def test_composition_matches_dp_accounting() -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld

    loss = pld.from_gaussian_mechanism(2.0, value_discretization_interval=1e-3)
    loss = loss.self_compose(5)
    loss = loss.compose(pld.from_gaussian_mechanism(1.5, value_discretization_interval=1e-3))
    total = compose_gaussians([0.5] * 5 + [1 / 1.5])
    for delta in (1e-3, 1e-6):
        epsilon = total.epsilon_at(delta)
        assert epsilon == pytest.approx(loss.get_epsilon_for_delta(delta), rel=1e-4)


@pytest.mark.parametrize("s", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("share", [0.5, 0.95])
def test_one_laplace_number_tells_more_than_two_that_move_as_far_in_all(
    s: float, share: float
) -> None:
    single, *pair = (
        Loss.from_pure(PureReleases(e, 1, laplace=True)) for e in (s, share * s, (1 - share) * s)
    )
    two = pair[0] + pair[1]
    for epsilon in np.linspace(0, s, 6)[:-1]:
        assert two.delta_at(float(epsilon)) <= single.delta_at(float(epsilon)) * (1 + 1e-3)
    assert single.delta_at(0.0) == pytest.approx(1 - math.exp(-s / 2), rel=1e-12)


def test_attacker_certainty_bounds_the_best_test_of_a_gaussian() -> None:
    """Against one Gaussian release the best guess is right with probability Phi(mu/2)."""
    for mu in (0.1, 1.0, 3.0):
        best = float(mpmath.ncdf(mu / 2))
        bounds = [attacker_certainty(e, gaussian_delta(e, mu)) for e in np.linspace(0, 10, 101)]
        assert min(bounds) == pytest.approx(best, abs=1e-12)  # attained at epsilon = 0
