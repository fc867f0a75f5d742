"""Noise drawn in shares sums to Laplace noise, and each test of that would see a wrong share."""

import numpy as np
import pytest
from scipy import stats

from dpmc_core import privacy
from dpmc_core.errors import InvalidSetting
from dpmc_core.privacy import RATING, SharedLaplace, Shares
from tests.statistics_helpers import FALSE_ALARM, assert_drawn_from, assert_scale

SIZES = (2, 3, 7, 40)


def make_release(shares, rows=400, length=3, colluding=0):
    return SharedLaplace(
        query="linear term",
        shape=(rows, length),
        sensitivity={RATING: 1},
        scale=2.5,
        shares=shares,
        colluding=colluding,
    )


def sum_shares(shared, sizes, rng, keep=None):
    """Row sums of the shares of groups of those sizes; keep: only the first so many shares."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    values = np.zeros((len(groups), shared.shape[1]))
    published = shared.publish_shares(values, groups, shared.draw_mixing(rng), rng)
    rank = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    total = np.zeros((len(sizes), shared.shape[1]))
    for g, row, r in zip(groups, published, rank, strict=True):
        if keep is None or r < keep[g]:
            total[g] += row
    return total


@pytest.mark.slow
@pytest.mark.parametrize("shares", list(Shares))
@pytest.mark.parametrize("size", SIZES)
def test_the_shares_of_a_group_sum_to_laplace_noise(shares, size):
    shared = make_release(shares, rows=2000)
    totals = sum_shares(shared, np.full(2000, size), np.random.default_rng(size))
    assert_drawn_from(totals, stats.laplace(scale=2.5).cdf, FALSE_ALARM / 8)


@pytest.mark.parametrize("shares", list(Shares))
def test_the_scale_of_the_sums_is_exact(shares):
    """Planted bug: shares that are 3 % short."""
    shared, rng = make_release(shares, rows=40_000), np.random.default_rng(3)
    groups = np.repeat(np.arange(40_000), 2)
    published = shared.publish_shares(np.zeros((80_000, 3)), groups, shared.draw_mixing(rng), rng)
    total = published[::2] + published[1::2]
    assert_scale(total, shared)
    with pytest.raises(AssertionError, match="scale off"):
        assert_scale(0.97 * total, shared)


@pytest.mark.parametrize("t", [1, 3])
def test_hardened_shares_without_those_of_t_users_still_sum_to_laplace_noise(t):
    shared = make_release(Shares.GAMMA, rows=2000, colluding=t)
    sizes = np.full(2000, 6)
    totals = sum_shares(shared, sizes, np.random.default_rng(t), keep=sizes - t)
    assert_drawn_from(totals, stats.laplace(scale=2.5).cdf)


@pytest.mark.slow
def test_given_its_mixing_variable_the_gaussian_sum_has_the_variance_the_recommender_knows():
    shared = make_release(Shares.GAUSSIAN, rows=3000)
    rng = np.random.default_rng(0)
    mixing = shared.draw_mixing(rng)
    groups = np.repeat(np.arange(3000), 5)
    published = shared.publish_shares(np.zeros((15_000, 3)), groups, mixing, rng)
    total = np.zeros((3000, 3))
    np.add.at(total, groups, published)
    assert_drawn_from(total / (2.5 * np.sqrt(2 * mixing)), stats.norm.cdf)


@pytest.mark.slow
def test_a_gaussian_group_that_lost_a_user_has_too_little_noise():
    shared = make_release(Shares.GAUSSIAN, rows=4000)
    sizes = np.full(4000, 3)
    with pytest.raises(AssertionError):
        assert_drawn_from(
            sum_shares(shared, sizes, np.random.default_rng(1), keep=sizes - 1),
            stats.laplace(scale=2.5).cdf,
        )


def test_values_are_added_and_the_witness_sees_one_publication():
    shared, rng = make_release(Shares.GAMMA, rows=2), np.random.default_rng(0)
    groups = np.array([0, 0, 1, 1, 1])
    values = np.arange(15.0).reshape(5, 3)
    with privacy.record_publications() as published:
        noisy = shared.publish_shares(values, groups, None, np.random.default_rng(4))
    noise_only = shared.publish_shares(np.zeros((5, 3)), groups, None, np.random.default_rng(4))
    assert np.allclose(noisy - noise_only, values)
    assert [publication.release.query for publication in published] == ["linear term"]
    assert shared.draw_mixing(rng) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.publish_shares(np.zeros((1, 3)), np.array([0]), None, None), "got 1"),
        (lambda r: r.publish_shares(np.zeros((2, 2)), np.array([0, 0]), None, None), "shape"),
        (lambda r: r.publish_shares(np.full((2, 3), np.nan), np.array([0, 0]), None, None), "nan"),
    ],
)
def test_bad_shares_are_refused_in_a_sentence(call, message):
    with pytest.raises(InvalidSetting, match=message):
        call(make_release(Shares.GAMMA, rows=1))
