"""Releases that learn from each other: weights follow the noise, items their rows, and the noise
that is left is as stated."""

import math

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.streams import EarlierRelease, StatisticStream
from dpmc_lab.study.answer import LaterPublication

N = 400


def make_public(users=100, items=N):
    return PublicFacts(users=users, items=items, low=1, high=5)


def make_earlier(arrays, scales, rows=None, decay=1.0, users=100):
    rows = np.arange(N) if rows is None else rows
    present = rows >= 0
    per_item = ("noisy_counts", "noisy_sums", "noisy_residuals", "sum_units", "sum_centres")
    aligned = {n: a.take(rows, axis=1) if n in per_item else a for n, a in arrays.items()}
    return EarlierRelease(users, scales, aligned, present, decay)


def test_without_earlier_releases_an_average_is_the_statistic_itself():
    stream, values = StatisticStream(make_public()), np.arange(float(N))
    assert stream.average_over_users("noisy_gain", values, 0.3) == (pytest.approx(values), 0.3)
    assert stream.average_counts(values, 0.7)[1] == 0.7
    sums, noise, shift = stream.average_sums("noisy_sums", values, 0.9, values + 1, values)
    assert (noise, shift.any()) == (0.9, False)
    assert np.array_equal(sums, values)


@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0])
def test_weights_follow_the_noise_of_each_release(scale):
    """Two releases of one statistic: weights of inverse variances leave the least noise."""
    rng, truth = np.random.default_rng(1), 7.0
    earlier = make_earlier(
        {"noisy_own": truth + scale * rng.normal(size=(1, N))}, {"noisy_own": scale}
    )
    stream = StatisticStream(make_public(), [earlier])
    published = truth + 2.0 * rng.normal(size=N)
    averaged, noise = stream.average_over_users("noisy_own", published, 2.0)
    assert noise == pytest.approx((scale**-2 + 2.0**-2) ** -0.5)
    expected = (earlier.arrays["noisy_own"][0] / scale**2 + published / 4) * noise**2
    np.testing.assert_allclose(averaged, expected)
    assert np.std(averaged - truth) == pytest.approx(noise, rel=0.15)


def test_a_decayed_release_weighs_less_and_one_of_fewer_people_tells_of_fewer():
    values = {"noisy_mean": np.array([[10.0]])}
    halved = make_earlier(values, {"noisy_mean": 1.0}, decay=0.5)
    averaged, _ = StatisticStream(make_public(), [halved]).average_over_users(
        "noisy_mean", np.array([40.0]), 1.0
    )
    assert averaged == pytest.approx([(0.5 * 10 + 40) / 1.5])
    smaller = make_earlier(values, {"noisy_mean": 1.0}, users=25)
    averaged, noise = StatisticStream(make_public(), [smaller]).average_over_users(
        "noisy_mean", np.array([40.0]), 1.0
    )
    assert averaged == pytest.approx([40.0])  # 10 of 25 people are 40 of 100
    assert noise == pytest.approx(1 / math.sqrt(1 + 0.25**2))


def test_the_last_of_a_growing_year_has_1_4_times_the_noise_of_one_release_at_the_full_budget():
    weeks, counts = 52, np.full(N, 1000.0)
    contents = np.sqrt(np.arange(1, weeks + 1) / weeks)
    arrays = [{"noisy_counts": (c * counts)[None]} for c in contents]
    earlier = [make_earlier(a, {"noisy_counts": math.sqrt(weeks)}) for a in arrays[:-1]]
    averaged, noise = StatisticStream(make_public(), earlier).average_counts(
        counts, math.sqrt(weeks)
    )
    np.testing.assert_allclose(averaged, counts, rtol=1e-3)
    np.testing.assert_allclose(noise, 1.40, atol=0.01)  # alone: 7.2


def test_items_are_averaged_over_the_releases_that_have_them():
    """Rows are not positions: the earlier release had the items in another order, and fewer."""
    rng = np.random.default_rng(2)
    counts = rng.uniform(50, 500, N)
    order = rng.permutation(N)[: N - 100]
    rows = np.full(N, -1)
    rows[order] = np.arange(len(order))
    earlier = make_earlier({"noisy_counts": counts[order][None]}, {"noisy_counts": 1.0}, rows)
    stream = StatisticStream(make_public(), [earlier])
    averaged, noise = stream.average_counts(counts, 1.0)
    # The mean of the items that both have is near that of all.
    np.testing.assert_allclose(averaged[rows < 0], counts[rows < 0])
    np.testing.assert_allclose(averaged, counts, rtol=0.05)
    np.testing.assert_allclose(noise[rows < 0], 1.0)
    np.testing.assert_allclose(noise[rows >= 0], math.sqrt(0.5), rtol=0.05)


def test_sums_in_other_units_and_about_other_effects_say_the_same_of_an_item():
    """Without noise, what is averaged is what this release would have published."""
    rng = np.random.default_rng(3)
    counts, effects = rng.uniform(50, 500, N), rng.normal(size=N)
    units, centres = rng.uniform(0.5, 2, (2, N)), rng.normal(size=(2, N))
    sums = counts * units * (effects - centres)
    arrays = {
        "noisy_counts": counts[None],
        "noisy_residuals": np.stack([sums[0], rng.normal(size=N)], axis=1)[None],
        "sum_units": units[:1],
        "sum_centres": centres[:1],
    }
    scales = {"noisy_counts": 0.01, "noisy_residuals": 3.0}
    stream = StatisticStream(make_public(), [make_earlier(arrays, scales)])
    averaged_counts, _ = stream.average_counts(counts, 0.01)
    averaged, noise, shift = stream.average_sums(
        "noisy_residuals", np.stack([sums[1], effects], axis=1), 5.0, units[1], centres[1]
    )
    expected = averaged_counts * units[1] * (effects - centres[1])
    np.testing.assert_allclose(averaged + averaged_counts * units[1] * shift, expected, atol=1e-6)
    ratio = units[1] / units[0]
    np.testing.assert_allclose(noise, 0.5 * np.sqrt((3 * ratio) ** 2 + 5**2), rtol=1e-6)


def draw_ratings(rng, effects, users=400, share=0.3):
    users_rated, items = np.nonzero(rng.random((users, len(effects))) < share)
    scores = 3 + effects[items] + 0.7 * rng.normal(size=len(items))
    return Ratings.build(
        users_rated, items, np.clip(scores, 1, 5), make_public(users, len(effects))
    )


def estimate_effects(model):
    return model.right[:, -1]


def test_averaged_releases_are_nearer_to_the_truth_than_the_last_one_alone():
    rng = np.random.default_rng(4)
    effects = rng.normal(size=60) * 0.7
    effects -= effects.mean()
    mechanism = registry.create("private-effects", epsilon=0.4, delta=1e-6)
    ratings, earlier, errors = draw_ratings(rng, effects), [], []
    for seed in range(12):
        models = []
        for history in ((), earlier):
            *_, last = mechanism.fit(ratings, np.random.default_rng(seed), history)
            models.append(last.model)
        errors.append([np.std(estimate_effects(m) - effects) for m in models])
        arrays, rows = models[1].user_arrays, np.arange(60)
        earlier.append(mechanism.align_earlier(ratings.public, arrays, rows, 1.0))
    alone, averaged = np.array(errors).T
    assert averaged[0] == alone[0]  # nothing to learn from
    assert averaged[-4:].mean() < 0.7 * alone.mean()
    # What the answer simulates: the ninth to the twelfth publication, each without the others.
    simulated = []
    for publication in range(9, 13):
        later = LaterPublication(epsilon=0.4, publication=publication, weeks=1e-9)
        *_, last = later.fit(ratings, np.random.default_rng(publication))
        simulated.append(np.std(estimate_effects(last.model) - effects))
    assert np.mean(simulated) == pytest.approx(averaged[-4:].mean(), rel=0.2)


def test_what_a_later_release_takes_is_what_was_published_and_the_noise_of_the_guarantee():
    rng = np.random.default_rng(5)
    ratings = draw_ratings(rng, rng.normal(size=30), users=200)
    mechanism = registry.create("private-effects", epsilon=2.0, delta=1e-6)
    *_, last = mechanism.fit(ratings, np.random.default_rng(0))
    rows = np.append(rng.permutation(30)[:20], -1)
    earlier = mechanism.align_earlier(ratings.public, last.model.user_arrays, rows, 0.25)
    releases = dict(mechanism.guarantee(ratings.public).releases)
    assert earlier.scales == {f"noisy_{name}": r.scale for name, r in releases.items()}
    assert (earlier.users, earlier.decay) == (200, 0.25)
    assert earlier.is_present.tolist() == [True] * 20 + [False]
    published = last.model.user_arrays
    np.testing.assert_array_equal(
        earlier.arrays["noisy_residuals"][:, :20], published["noisy_residuals"][:, rows[:20]]
    )
    np.testing.assert_array_equal(earlier.arrays["noisy_moments"], published["noisy_moments"])
