"""Paired intervals against hand-computed numbers, and how often they hold on generated data."""

import math

import numpy as np
import pytest
from scipy import stats

from dpmc_lab.study.paired import IntervalEstimate, PairedMetrics

# Method, floor, reference.
NUMERATOR, DENOMINATOR = (np.array([1.0, -1.0, 0.0]), np.array([0.0, -1.0, 1.0]))
MIDDLE, SEED_LOADINGS = np.array([-0.3, -0.9, 0.0]), np.array([1.0, 0.5, 0.0])


def test_two_users_and_two_seeds_by_hand():
    """One rating each; hits of one method: seed 1 (1, 0), seed 2 (1, 1)."""
    totals = np.array([[[1.0], [0.0]], [[1.0], [1.0]]])
    paired = PairedMetrics.from_totals(totals, np.ones_like(totals))
    assert paired.mean == pytest.approx([0.75])
    # Influences: seed 1 (0.5, -0.5), seed 2 (0, 0); users' means (0.25, -0.25).
    assert paired.by_user == pytest.approx(np.array([[2 * 0.25**2 / 2]]))
    assert paired.by_seed == pytest.approx(np.array([[2 * 0.25**2 / 2]]))
    assert paired.by_both == pytest.approx(np.array([[4 * 0.25**2 / (2 * 2)]]))
    # Var = 1/16 + 1/16 - 1/16, on 1/(1/1 + 1/1) = half a degree of freedom.
    half = stats.t.ppf(0.975, 0.5) / 4
    assert paired.estimate_interval(np.array([1.0])) == pytest.approx(
        IntervalEstimate(0.75, 0.75 - half, 0.75 + half)
    )


def test_equal_seeds_give_the_paired_t_interval_of_users():
    rng = np.random.default_rng(0)
    seed_values = rng.random((1, 40, 2))
    paired = PairedMetrics.from_totals(np.repeat(seed_values, 3, axis=0), np.ones((3, 40, 2)))
    interval = paired.estimate_interval(np.array([1.0, -1.0]))
    t = stats.ttest_rel(seed_values[0, :, 0], seed_values[0, :, 1]).confidence_interval()
    assert interval == pytest.approx(
        IntervalEstimate((seed_values[0, :, 0] - seed_values[0, :, 1]).mean(), t.low, t.high)
    )


def test_a_root_is_the_delta_method():
    rng = np.random.default_rng(1)
    squares = 9 * rng.random((2, 500, 1))  # a root about 1.5, whose slope is 1/3
    counts = rng.integers(1, 4, (2, 500, 1)).astype(float)
    plain, root = (
        PairedMetrics.from_totals(squares, counts),
        PairedMetrics.from_totals(squares, counts, root=True),
    )
    unit = np.ones(1)
    mean = (squares.sum(axis=1) / counts.sum(axis=1))[:, 0]
    assert root.mean == pytest.approx([np.sqrt(mean).mean()])
    wide, narrow = (
        p.estimate_interval(unit).high - p.estimate_interval(unit).low for p in (plain, root)
    )
    assert narrow == pytest.approx(wide / (2 * math.sqrt(mean.mean())), rel=0.02)


def test_users_without_a_rating_do_not_count():
    totals, counts = np.ones((2, 3, 1)), np.ones((2, 3, 1))
    totals[:, 1] = counts[:, 1] = 0
    assert PairedMetrics.from_totals(totals, counts).users == 2


def test_one_seed_or_one_user_says_nothing():
    for shape in ((1, 50, 3), (5, 1, 3)):
        paired = PairedMetrics.from_totals(np.random.default_rng(0).random(shape), np.ones(shape))
        assert paired.estimate_interval(NUMERATOR).sign == 0
        assert paired.estimate_interval(NUMERATOR).high == math.inf
        assert paired.estimate_share(NUMERATOR, DENOMINATOR) is None


def test_no_share_of_a_gain_that_may_be_nothing():
    rng = np.random.default_rng(2)
    base = rng.random((5, 100, 1))
    totals = np.concatenate([base, base + rng.normal(size=(5, 100, 1)), base], axis=2)
    assert (
        PairedMetrics.from_totals(totals, np.ones_like(totals)).estimate_share(
            NUMERATOR, DENOMINATOR
        )
        is None
    )


def test_a_known_reference_varies_with_the_seeds_alone():
    totals, counts = np.random.default_rng(3).random((3, 50, 2)), np.ones((3, 50, 2))
    last, difference = np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, -1.0])
    paired = PairedMetrics.from_totals(totals, counts, known=[0.9] * 3)
    assert paired.estimate_interval(last) == IntervalEstimate(0.9, 0.9, 0.9)
    values = [0.5, 0.7, 0.9]
    interval = PairedMetrics.from_totals(totals, counts, known=values).estimate_interval(last)
    half_width = stats.t.ppf(0.975, 2) * np.std(values, ddof=1) / math.sqrt(3)
    assert interval == pytest.approx((0.7, 0.7 - half_width, 0.7 + half_width))
    # Where it moves with a method from seed to seed, their difference does not move with the seed.
    moving = totals[:, :, 0].mean(axis=1) - 0.1
    paired = PairedMetrics.from_totals(totals, counts, known=moving)
    assert difference @ paired.by_seed @ difference == pytest.approx(0, abs=1e-15)
    assert paired.estimate_interval(difference).value == pytest.approx(0.1)


def test_the_ends_of_a_share_are_where_the_difference_may_be_zero():
    paired = PairedMetrics.from_totals(*draw_values(np.random.default_rng(4), 400, 5, 0.1, 0.5))
    share = paired.estimate_share(NUMERATOR, DENOMINATOR)
    for end in share[1:]:
        interval = paired.estimate_interval(NUMERATOR - end * DENOMINATOR)
        assert min(abs(interval.low), abs(interval.high)) < 1e-6
    inside = paired.estimate_interval(NUMERATOR - share.value * DENOMINATOR)
    assert inside.value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_the_interval_of_a_share_that_cannot_vary_is_that_share(scale):
    """A method that does what the baseline does has a share of exactly 0 with no variance."""
    rng = np.random.default_rng(5)
    base = rng.integers(0, 2, (3, 40, 1)).astype(float)
    reference = base + 1 + rng.random((3, 40, 1))
    totals = np.concatenate([base + scale * (reference - base), base, reference], axis=2)
    paired = PairedMetrics.from_totals(totals, np.ones_like(totals))
    share = paired.estimate_share(NUMERATOR, DENOMINATOR)
    assert share == pytest.approx(IntervalEstimate(scale, scale, scale), abs=1e-7)


def draw_values(rng, users, seeds, by_seed, by_both):
    """Draw hits of three methods: users differ, noise moves a seed's users together and apart."""
    size = (seeds, users, 3)
    odds = rng.normal(size=(1, users, 1)) + 0.5 * rng.normal(size=(1, users, 3))
    odds = odds + by_seed * rng.normal(size=(seeds, 1, 3)) * SEED_LOADINGS
    odds = odds + by_both * rng.normal(size=size) + MIDDLE
    hits = (rng.random((1, users, 1)) < 1 / (1 + np.exp(-odds))).astype(float)
    return hits, np.ones(size)


def compute_hit_chances(by_seed, by_both):
    """Compute the expected hits of `draw_values` by quadrature."""
    x, weights = np.polynomial.hermite_e.hermegauss(80)
    std = np.sqrt(1 + 0.25 + (by_seed * SEED_LOADINGS) ** 2 + by_both**2)
    return (weights / weights.sum()) @ (1 / (1 + np.exp(-(MIDDLE + x[:, None] * std))))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("users", "seeds", "by_seed", "by_both"),
    [(300, 5, 0.0, 0.8), (300, 5, 0.15, 0.5), (60, 5, 0.1, 0.5), (1500, 3, 0.1, 0.0)],
)
def test_intervals_hold_as_often_as_they_say(users, seeds, by_seed, by_both):
    """Of 95 % intervals of the share 92 to 98.5 % hold; a limit at the truth is called affordable,
    and not affordable, falsely in at most 5 % of the cases each."""
    rng = np.random.default_rng(5)
    expected = compute_hit_chances(by_seed, by_both)
    truth = float(NUMERATOR @ expected) / float(DENOMINATOR @ expected)
    intervals = [
        PairedMetrics.from_totals(*draw_values(rng, users, seeds, by_seed, by_both))
        for _ in range(300)
    ]
    shares = [
        share
        for paired in intervals
        if (share := paired.estimate_share(NUMERATOR, DENOMINATOR)) is not None
    ]
    assert len(shares) > 290
    above = sum(share.low > truth for share in shares) / len(shares)
    share_below = sum(share.high < truth for share in shares) / len(shares)
    assert above <= 0.05
    assert share_below <= 0.05
    assert 0.92 <= 1 - above - share_below <= 0.985
