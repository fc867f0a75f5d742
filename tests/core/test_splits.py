"""Splits: a partition of the ratings, of the stated sizes, each choice uniform."""

from __future__ import annotations

import numpy as np
import pytest

from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_core.problem import LeaveLast, RandomShare, SharePerUser
from dpmc_core.ratings import PublicFacts, Ratings


def draw_ratings(seed: int = 0, users: int = 40, items: int = 25, times: bool = True) -> Ratings:
    rng = np.random.default_rng(seed)
    density = rng.random((users, 1)) * 0.6
    u, i = np.nonzero(rng.random((users, items)) < density)
    return Ratings.build(
        u,
        i,
        rng.integers(1, 6, len(u)),
        PublicFacts(users=users, items=items, low=1, high=5),
        times=rng.integers(0, 8, len(u)) if times else None,  # many ties
    )


def list_rows(ratings: Ratings) -> list[tuple[float, ...]]:
    times = ratings.times if ratings.times is not None else np.zeros(len(ratings))
    columns = (ratings.users, ratings.items, ratings.values, times)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


SPLITS = {"random": RandomShare(0.2), "per user": SharePerUser(0.2), "leave last": LeaveLast()}


@pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS.keys())
@pytest.mark.parametrize("seed", range(4))
def test_a_split_is_a_partition_with_the_same_public_facts(split, seed: int) -> None:
    ratings = draw_ratings(seed)
    train, test = split(ratings, np.random.default_rng(seed))
    assert sorted(list_rows(train) + list_rows(test)) == list_rows(ratings)
    assert train.public == test.public == ratings.public
    repeated = split(ratings, np.random.default_rng(seed))
    assert list_rows(repeated[1]) == list_rows(test)


def test_random_share_holds_out_exactly_its_share() -> None:
    ratings = draw_ratings()
    for share in (0.01, 0.2, 0.5, 0.99):
        _, test = RandomShare(share)(ratings, np.random.default_rng(0))
        assert len(test) == round(share * len(ratings))
    assert len(RandomShare(1e-9)(ratings, np.random.default_rng(0))[1]) == 1
    assert len(RandomShare(1 - 1e-9)(ratings, np.random.default_rng(0))[0]) == 1


def test_per_user_share_is_exact_on_average_and_leaves_one_in_training() -> None:
    ratings = draw_ratings(1, users=3000, items=12)
    train, test = SharePerUser(0.3)(ratings, np.random.default_rng(0))
    counts, n_held_out = np.diff(ratings.indptr), np.diff(test.indptr)
    assert (np.diff(train.indptr)[counts > 0] >= 1).all()
    assert (np.abs(n_held_out - 0.3 * counts) < 1).all()
    for n in (2, 5, 8):
        mean = n_held_out[counts == n].mean()
        standard_error = 0.5 / np.sqrt((counts == n).sum())
        assert abs(mean - 0.3 * n) < 5 * standard_error
    position = np.arange(len(ratings)) - ratings.indptr[ratings.users]
    held_out = np.isin(ratings.users * 12 + ratings.items, test.users * 12 + test.items)
    for k in range(4):  # of those with eight ratings, each as often as any other
        share = held_out[(counts[ratings.users] == 8) & (position == k)].mean()
        assert abs(share - 0.3) < 5 * 0.5 / np.sqrt((counts == 8).sum())


@pytest.mark.parametrize("seed", range(4))
def test_leave_last_out_takes_a_latest_rating_of_every_user_with_two(seed: int) -> None:
    ratings = draw_ratings(seed)
    _, test = LeaveLast()(ratings, np.random.default_rng(seed))
    assert test.times is not None
    held_out_times = dict(zip(test.users.tolist(), test.times.tolist(), strict=True))
    assert len(held_out_times) == len(test)
    for user in range(ratings.public.users):
        user_times = [t for u, _, _, t in list_rows(ratings) if u == user]
        if len(user_times) >= 2:
            assert held_out_times[user] == max(user_times)
        else:
            assert user not in held_out_times


def test_ties_in_time_and_missing_times_are_broken_uniformly() -> None:
    users, items = 6000, 4
    grid = np.indices((users, items)).reshape(2, -1)
    public = PublicFacts(users=users, items=items, low=0, high=1)
    for times in (None, np.tile([5, 9, 9, 1], users)):
        ratings = Ratings.build(*grid, np.ones(users * items), public, times=times)
        _, test = LeaveLast()(ratings, np.random.default_rng(0))
        counts = np.bincount(test.items, minlength=items)
        shares = [0.25] * 4 if times is None else [0, 0.5, 0.5, 0]
        # Five deviations of a binomial count: false alarm rate below 1e-5.
        assert np.abs(counts - users * np.array(shares)).max() < 5 * np.sqrt(users / 4)


def test_bad_shares_and_too_little_data_are_sentences() -> None:
    ratings, rng = draw_ratings(), np.random.default_rng(0)
    for share in (0, 1, -0.1, float("nan")):
        with pytest.raises(InvalidSetting, match="share of test ratings must be > 0 and < 1"):
            RandomShare(share)(ratings, rng)
    one_each = ratings.select(np.r_[True, np.diff(ratings.users) > 0])
    for split in (SPLITS["leave last"], SPLITS["per user"]):
        with pytest.raises(BadRatings, match="no user has a second rating"):
            split(one_each, rng)
    with pytest.raises(BadRatings, match="at least 2 ratings"):
        RandomShare(0.5)(ratings.select([0]), rng)
