"""What noisy rows tell: every statistic against the channel's own chances, then the whole."""

import math
import tracemalloc

import numpy as np
import pytest
from scipy import integrate, stats

from dpmc_core import registry
from dpmc_core.errors import BadRatings
from dpmc_core.privacy import channels
from dpmc_core.problem import RandomShare
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers import noisy_reports as noisy_rows
from dpmc_core.solvers import rows
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.sizes import check_report_count
from sample_data import generate
from tests.replay import fit_model, predict_all
from tests.statistics_helpers import FALSE_ALARM, assert_frequencies

IDS = ("modified-laplace", "randomised-response")
EPSILONS = (0.01, 0.5, 1.0, 4.0, 10.0, 50.0)
PUBLIC = PublicFacts(users=30, items=40, low=1, high=5)


def build_noise_model(id, epsilon, public=PUBLIC, **settings):
    mechanism = registry.create(id, epsilon=epsilon, **settings)
    return mechanism.build_noise_model(mechanism.channel(public))


def compute_moments(id, epsilon, x, **settings):
    """P(B), E[T] and E[T^2] of the report of a cell rated x (None: missing), by the channel."""
    mechanism = registry.create(id, epsilon=epsilon, **settings)
    channel, noise_model = mechanism.channel(PUBLIC), build_noise_model(id, epsilon, **settings)
    if id == "randomised-response":
        row = channel.matrix[
            0 if x is None else 1 + int(np.argmin(np.abs(np.array(channel.levels) - x)))
        ]
        scores = noise_model.score_reports(np.arange(1, len(row)))
        return row[1:].sum(), row[1:] @ scores, row[1:] @ scores**2
    report_rate = channel.reported_if_missing if x is None else channel.reported_if_rated
    noise = stats.laplace(x or 0.0, channel.scale)
    inside = [
        float(noise_model.score_reports(np.array([1.0]))[0]) ** k
        * integrate.quad(lambda z, k=k: z**k * noise.pdf(z), -1, 1, points=[x or 0.0])[0]
        for k in (1, 2)
    ]
    end = float(noise_model.score_reports(np.array([3.0]))[0])
    first = inside[0] + end * (noise.sf(1) - noise.cdf(-1))
    second = inside[1] + end**2 * (noise.sf(1) + noise.cdf(-1))
    return report_rate, report_rate * first, report_rate * second


def compute_bias(id, epsilon, x):
    """How far E[T] lies off the rating, by the noise model: nothing but for Laplace noise."""
    is_exact = id == "randomised-response"
    return 0.0 if is_exact else float(build_noise_model(id, epsilon).expected_score(x) - x)


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_counts_and_sums_are_unbiased_whatever_the_cell(id, epsilon):
    noise_model = build_noise_model(id, epsilon)
    report_rate, mean, _ = compute_moments(id, epsilon, None)
    assert report_rate == pytest.approx(noise_model.if_missing, rel=1e-9)
    assert abs(mean) < 1e-9 * noise_model.genuine_probability
    for x in (-1.0, -0.5, 0.0, 0.5, 1.0):
        report_rate, mean, _ = compute_moments(id, epsilon, x)
        assert (report_rate - noise_model.if_missing) / noise_model.slope == pytest.approx(
            1, rel=1e-9
        )
        assert mean / noise_model.genuine_probability == pytest.approx(
            x + compute_bias(id, epsilon, x), abs=1e-5
        )


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_noise_is_that_of_the_channel(monkeypatch, id, epsilon):
    noise_model = build_noise_model(id, epsilon)
    report_rate, _, square = compute_moments(id, epsilon, None)
    assert report_rate * (1 - report_rate) / noise_model.slope**2 == pytest.approx(
        noise_model.count_variance, rel=1e-6
    )
    assert square / noise_model.genuine_probability**2 == pytest.approx(
        noise_model.sum_variance, rel=1e-6
    )
    for x in (0.0, 0.5, 1.0):
        report_rate, _, square = compute_moments(id, epsilon, x)
        centre = x + compute_bias(id, epsilon, x)
        genuine = noise_model.genuine_probability * (
            float(noise_model.genuine_variance(np.array([x]))[0]) + centre**2
        )
        assert square == pytest.approx(
            genuine + (report_rate - noise_model.genuine_probability) * noise_model.missing_square,
            rel=1e-6,
        )
    # ratings at +-1/2, as likely
    measured = (
        np.mean([compute_moments(id, epsilon, x)[2] for x in (-0.5, 0.5)])
        / noise_model.genuine_probability**2
    )
    monkeypatch.setattr(noisy_rows, "_RATING_STD", 0.5)
    expected = noise_model.sum_variance + noise_model.rating_variance
    assert measured == pytest.approx(expected, rel=0.05 if id == "modified-laplace" else 1e-6)


def split_long_tail(seed=1, users=600, items=1200, ratings=60_000):
    generated = generate.generate_long_tail(seed, users=users, items=items, ratings=ratings).ratings
    return RandomShare(0.2)(generated, np.random.default_rng(seed))


@pytest.mark.slow
@pytest.mark.parametrize("id", IDS)
def test_what_is_left_for_taste_has_the_mean_and_the_variance_stated(id):
    """Cells rated with a known chance, ratings about a known mean: y is 0 on average, w y^2 is 1.

    Within 3 %: at 400,000 reports the law of large numbers leaves less than 1.
    """
    rng, chance, std = np.random.default_rng(3), 0.3, math.sqrt(noisy_rows._RESIDUAL_STD**2)
    m, n = 1000, 800
    users, items = np.nonzero(rng.random((m, n)) < chance)
    x = 0.1 + std * rng.choice([-1.0, 1.0], len(users))
    if id == "randomised-response":  # three levels of the same mean and variance
        square = 0.1**2 + noisy_rows._RESIDUAL_STD**2
        shares = [(square - 0.1) / 2, 1 - square, (square + 0.1) / 2]
        x = rng.choice([-1.0, 0.0, 1.0], len(users), p=shares)
    public = PublicFacts(users=m, items=n, low=-1, high=1)
    ratings = Ratings.build(users, items, x, public)
    for epsilon in (1.0, 3.0):
        mechanism = registry.create(id, epsilon=epsilon)
        channel = mechanism.channel(public)
        reported = channel.publish(mechanism.encode_rows(ratings, channel), rng)
        reports = noisy_rows._ScoredReports(reported, mechanism.build_noise_model(channel))
        expectations = np.full(m, chance), np.ones(n), np.full(m, 0.1), np.zeros(n)
        _, y, w = noisy_rows._compute_residual_scores(reports, *expectations)
        assert len(y) == reported.nnz
        assert abs(np.average(y, weights=w)) < 6 / math.sqrt(w.sum())
        assert np.mean(w * y**2) == pytest.approx(1, rel=0.03)


@pytest.mark.slow
def test_the_cells_kept_for_taste_are_the_likeliest(monkeypatch):
    train, _ = split_long_tail()
    mechanism = registry.create("randomised-response", epsilon=1.0)
    channel = mechanism.channel(train.public)
    reported = channel.publish(mechanism.encode_rows(train, channel), np.random.default_rng(0))
    monkeypatch.setattr(noisy_rows, "CELLS", 30_000)
    rng = np.random.default_rng(1)
    u, i = rng.random(600), rng.random(1200)
    reports = noisy_rows._ScoredReports(reported, mechanism.build_noise_model(channel))
    pattern, _, _ = noisy_rows._compute_residual_scores(
        reports, u, i, np.zeros(600), np.zeros(1200)
    )
    assert 0.9 * 30_000 < len(pattern.users) <= 30_000
    product = np.sort(Pattern.from_matrix(reported).build_matrix(np.ones(reported.nnz)).multiply(
        np.outer(u, i)).data)  # fmt: skip
    assert u[pattern.users] @ i[pattern.items] == pytest.approx(
        product[-len(pattern.users) :].sum(), rel=1e-9
    )


@pytest.mark.slow
def test_estimated_counts_beat_raw_ones_and_are_the_counts_where_there_is_no_noise():
    rng = np.random.default_rng(0)
    truth = np.round(rng.gamma(0.6, 80, 3000))
    assert np.array_equal(noisy_rows.shrink_counts(truth, 0.0)[0], truth)
    for sd in (5.0, 60.0, 600.0):
        raw = truth + sd * rng.normal(size=3000)
        estimates, variances = noisy_rows.shrink_counts(raw, sd**2)
        assert (estimates >= 0).all()
        assert (variances >= 0).all()
        # next to no noise the cut at 0 is as good
        slack = 1.05 if sd < 10 else 0.9
        assert np.mean((estimates - truth) ** 2) < slack * np.mean(
            (np.maximum(raw, 0) - truth) ** 2
        )
        assert (estimates >= raw - sd * 1.0001).all()


SHAPES = {"one user": (1, 30), "one item": (30, 1), "two by two": (2, 2), "tall": (300, 3)}


@pytest.mark.slow
@pytest.mark.parametrize("id", [*IDS, "local-mean"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_small_and_lopsided_data_give_finite_answers_in_reach(id, epsilon, shape):
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random(shape) < 0.5)
    public = PublicFacts(users=shape[0], items=shape[1], low=-10, high=10)
    values = np.round(rng.uniform(-10, 10, len(users)), 2)
    ratings = Ratings.build(users, items, values, public)
    settings = {} if id == "modified-laplace" else {"levels": 7}
    mechanism = registry.create(id, epsilon=epsilon, **settings)
    predictions = predict_all(fit_model(mechanism, ratings), shape)
    assert np.isfinite(predictions).all()
    assert np.abs(predictions).max() < 30


@pytest.mark.slow
@pytest.mark.parametrize("id", IDS)
def test_rows_published_block_by_block_meet_the_same_law(id, monkeypatch):
    """Chi-square of who reports, rated and missing cells apart, in blocks of one row to all."""
    train, _ = split_long_tail(users=300, items=400, ratings=15_000)
    mechanism = registry.create(id, epsilon=1.0)
    channel = mechanism.channel(train.public)
    rows = mechanism.encode_rows(train, channel)
    for block in (1, 3_000, 10**9):
        monkeypatch.setattr(channels, "_REPORTS_PER_BLOCK", block)
        out = channel.publish(rows, np.random.default_rng(4))
        assert out.has_canonical_format
        categories = np.zeros(train.shape, dtype=int)
        categories[train.users, train.items] = 2
        categories[np.repeat(np.arange(300), np.diff(out.indptr)), out.indices] += 1
        counts = np.bincount(categories.ravel(), minlength=4)
        rated, missing = channel.reported_if_rated, channel.reported_if_missing
        assert_frequencies(counts[:2], [1 - missing, missing], FALSE_ALARM / 6)
        assert_frequencies(counts[2:], [1 - rated, rated], FALSE_ALARM / 6)


def test_a_secure_source_counts_every_cell_once_whatever_the_block(monkeypatch):
    pytest.importorskip("opendp")
    from dpmc_core.privacy.exact_noise import SecureSource

    monkeypatch.setattr(channels, "_REPORTS_PER_BLOCK", 500)
    train, _ = split_long_tail(users=60, items=50, ratings=1_400)
    source = SecureSource()
    mechanism = registry.create("randomised-response", epsilon=1.0)
    channel = mechanism.channel(train.public)
    channel.publish(mechanism.encode_rows(train, channel), source)
    assert source.draw_counts == {("channel", 0.0, 1): 60 * 50}


def test_rows_too_many_to_hold_are_refused_before_they_are_drawn():
    public = PublicFacts(users=1_000_000, items=1_000, low=1, high=5)
    with pytest.raises(BadRatings, match="keep fewer items"):
        check_report_count(public, 0.6, for_regression=False)
    million = PublicFacts(users=6_040, items=3_706, low=1, high=5)
    check_report_count(million, 5 / 6, for_regression=False)
    ratings = Ratings.build([0], [0], [3.0], public)
    mechanism = registry.create("modified-laplace", epsilon=1.0)
    with pytest.raises(BadRatings, match="are reported"):
        next(mechanism.fit(ratings, np.random.default_rng(0)))


@pytest.mark.slow
@pytest.mark.parametrize("id", IDS)
def test_it_takes_less_memory_than_one_users_x_items_matrix(id, monkeypatch):
    train, _ = split_long_tail(users=2_000, items=1_500, ratings=60_000)
    monkeypatch.setattr(channels, "_REPORTS_PER_BLOCK", 40_000)
    monkeypatch.setattr(noisy_rows, "CELLS", 40_000)
    monkeypatch.setattr(noisy_rows, "BLOCK", 40_000)
    monkeypatch.setattr(rows, "LARGE_CHUNK", 40_000)
    mechanism = registry.create(id, epsilon=1.0)
    tracemalloc.start()
    try:
        for _ in mechanism.fit(train, np.random.default_rng(0)):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * 2_000 * 1_500


@pytest.mark.parametrize("epsilon", [*EPSILONS, 1.5, 2.0, 3.0, 6.0])
def test_laplace_scores_bend_by_less_than_their_noise_over_a_thousand_ratings(epsilon):
    noise_model, x = build_noise_model("modified-laplace", epsilon), np.linspace(-1, 1, 201)
    bias = noise_model.expected_score(x) - x
    assert np.abs(bias).max() < 0.05
    assert np.sqrt(np.mean(bias**2)) < math.sqrt(noise_model.sum_variance / (0.05 * 1000))
    if epsilon >= 6:
        assert np.abs(bias).max() < 1e-3
    b = 2 / epsilon
    assert noise_model.missing_square <= b**2 * (2 - math.exp(-1 / b)) * (1 + 1e-9)


@pytest.mark.parametrize("levels", [2, 3, 10])
def test_symbols_are_unbiased_for_any_number_of_levels(levels):
    noise_model = build_noise_model("randomised-response", 1.0, levels=levels)
    for x in np.linspace(-1, 1, levels):
        _, mean, _ = compute_moments("randomised-response", 1.0, x, levels=levels)
        assert mean / noise_model.genuine_probability == pytest.approx(x, abs=1e-9)


def test_effects_are_shrunk_as_far_as_the_noise_asks():
    """The error is the posterior variance stated, and at most that of the raw quotients."""
    rng = np.random.default_rng(1)
    count, zero = rng.uniform(5, 200, 4000), np.zeros(4000)
    for sd in (3.0, 30.0, 3000.0):
        truth = 0.2 * rng.normal(size=4000)
        total = count * truth + sd * rng.normal(size=4000)
        estimates, variances = noisy_rows.shrink_effects(total, count, zero, np.full(4000, sd**2))
        error = np.mean((estimates - truth) ** 2)
        assert error < np.mean((total / count - truth) ** 2)
        assert error < 1.02 * np.mean(truth**2)
        if sd < 100:  # where they can be told from noise at all
            assert error == pytest.approx(variances.mean(), rel=0.15)
