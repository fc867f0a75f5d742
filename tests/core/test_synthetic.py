"""Generated data: the promised shapes, the promised structure, the same bytes again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import eigh

from benchmarks import generated
from dpmc_core.data import synthetic
from dpmc_core.errors import InvalidSetting
from dpmc_core.links import LOGISTIC, Probit
from dpmc_core.ratings import Ratings
from sample_data import generate


def test_the_stored_samples_are_what_the_generator_writes(tmp_path: Path) -> None:
    written = generate.write(tmp_path)
    stored = [path for kind in ("*.npz", "*-items.csv") for path in synthetic.FOLDER.glob(kind)]
    assert {path.name for path in written} == {path.name for path in stored}
    for path in written:
        assert path.read_bytes() == (synthetic.FOLDER / path.name).read_bytes(), path.name


@pytest.mark.parametrize("name", synthetic.SAMPLES)
def test_a_stored_sample_reads_back_exactly(name: str) -> None:
    stored, genres, truth = synthetic.read(name)
    fresh = generate.MAKERS[name](synthetic.SEED)
    assert stored.public == fresh.ratings.public
    assert stored.fingerprint == fresh.ratings.fingerprint
    assert stored.titles == (None if fresh.ratings.titles is None else tuple(fresh.ratings.titles))
    assert (stored.times is None) == (fresh.ratings.times is None)
    if stored.times is not None:
        assert np.array_equal(stored.times, fresh.ratings.times)
    assert genres == fresh.genres
    assert (truth is None) == (fresh.truth is None)
    if truth is not None and fresh.truth is not None:
        assert np.array_equal(truth.left, fresh.truth.left)


def test_sample_files_are_small() -> None:
    assert sum(path.stat().st_size for path in synthetic.FOLDER.glob("*.*")) < 5e6  # curves aside


def test_movie_night_has_the_shape_of_movielens_100k() -> None:
    ratings, genres, _ = synthetic.read("movie-night")
    assert ratings.shape == (943, 1682)
    levels, counts = np.unique(ratings.values, return_counts=True)
    assert levels.tolist() == [1, 2, 3, 4, 5]
    assert counts.tolist() == [6110, 11370, 27145, 34174, 21201]
    per_user = np.bincount(ratings.users, minlength=943)
    per_item = np.bincount(ratings.items, minlength=1682)
    assert per_user.min() >= 20
    assert per_item.min() >= 1
    assert per_user.max() > 8 * np.median(per_user)  # long tails: 11 and 22 in MovieLens 100K
    assert per_item.max() > 15 * np.median(per_item)
    assert ratings.titles is not None
    assert genres is not None
    assert len(set(ratings.titles)) == len(genres) == 1682
    assert ratings.times is not None
    weekday_hour = (ratings.times // 3600) % (7 * 24)  # hour 0 is Thursday 1 January 1970, 0:00
    assert set((weekday_hour // 24).tolist()) == {1}  # Friday


def _two_way_rmse(train: Ratings, test: Ratings, rank: int) -> float:
    """Test error of mean + damped user and item means + a damped SVD of the residual."""
    mean = train.values.mean()
    users, items = np.zeros(train.public.users), np.zeros(train.public.items)
    for _ in range(5):
        left = train.values - mean - users[train.users]
        items = np.bincount(train.items, left, train.public.items) / (
            np.bincount(train.items, minlength=train.public.items) + 5
        )
        left = train.values - mean - items[train.items]
        users = np.bincount(train.users, left, train.public.users) / (
            np.bincount(train.users, minlength=train.public.users) + 5
        )
    base = mean + users[:, None] + items[None, :]
    guess = np.zeros(train.shape)
    for _ in range(10 if rank else 0):  # soft-impute of the residual
        filled = guess.copy()
        filled[train.users, train.items] = train.values - base[train.users, train.items]
        first = len(filled) - rank
        squares, u = eigh(filled @ filled.T, subset_by_index=[first, len(filled) - 1])
        shrink = np.maximum(1 - 12 / np.sqrt(squares), 0)
        guess = (u * shrink) @ (u.T @ filled)
    predicted = np.clip((base + guess)[test.users, test.items], 1, 5)
    return float(np.sqrt(np.mean((predicted - test.values) ** 2)))


@pytest.mark.slow
def test_movie_night_rewards_completion() -> None:
    ratings = synthetic.read("movie-night").ratings
    held = np.random.default_rng(0).random(len(ratings)) < 0.2
    train, test = ratings.select(~held), ratings.select(held)
    biases, low_rank = (_two_way_rmse(train, test, rank) for rank in (0, 4))
    # On MovieLens 100K itself the same code gives 0.942 and 0.917.
    assert 0.90 < biases < 0.97
    assert low_rank < biases - 0.01


def test_restaurants_have_the_shape_of_the_uci_set() -> None:
    ratings = synthetic.read("restaurants").ratings
    assert ratings.shape == (138, 130)
    assert np.unique(ratings.values, return_counts=True)[1].tolist() == [254, 421, 486]
    assert np.diff(ratings.indptr).min() >= 3


def test_jokes_are_dense_and_continuous() -> None:
    ratings = synthetic.read("jokes").ratings
    assert ratings.shape == (12_000, 100)
    assert 0.70 < ratings.density < 0.74
    assert np.array_equal(ratings.values, np.round(ratings.values, 2))
    assert len(np.unique(ratings.values)) > 1900
    counts = np.bincount(ratings.items, minlength=100)
    assert (counts == 12_000).sum() == 10


@pytest.mark.parametrize("link", [LOGISTIC, Probit(0.5)])
@pytest.mark.parametrize(("rank", "alpha"), [(1, 1.0), (3, 2.5)])
def test_one_bit_lab_follows_its_model(link, rank: int, alpha: float) -> None:
    ratings, _, truth = synthetic.one_bit_lab(
        d1=300,
        d2=200,
        rank=rank,
        alpha=alpha,
        observed=0.8,
        link=link,
        rng=np.random.default_rng(rank),
    )
    assert truth is not None
    matrix = truth.left @ truth.right.T
    assert np.linalg.matrix_rank(matrix) == rank
    assert np.abs(matrix).max() == pytest.approx(alpha)
    assert len(ratings) == 48_000
    chance = link.probability(matrix[ratings.users, ratings.items])
    for part in np.array_split(np.argsort(chance), 10):
        share, expected = (ratings.values[part] > 0).mean(), chance[part].mean()
        # Five binomial deviations in ten bins: false alarm rate below 1e-5.
        assert abs(share - expected) < 5 * np.sqrt(0.25 / len(part))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"observed": 0}, "observed must be > 0 and <= 1, got 0"),
        ({"rank": 101}, "rank must be >= 1 and <= 100, got 101"),
        ({"alpha": float("nan")}, "alpha must be > 0"),
    ],
)
def test_bad_settings_of_the_lab_are_sentences(settings: dict[str, float], sentence: str) -> None:
    with pytest.raises(InvalidSetting, match=sentence):
        synthetic.one_bit_lab(rng=np.random.default_rng(0), **settings)  # type: ignore[arg-type]


def test_ml1m_like_is_large() -> None:
    ratings = generated.ml1m_like(0)
    assert ratings.shape == (6040, 3706)
    assert len(ratings) == 1_000_000
    assert np.diff(ratings.indptr).min() >= 20


def test_netflix_like_has_the_shape_of_many_users_and_few_items() -> None:
    ratings = generated.netflix_like(0, users=80_000)
    assert ratings.shape == (80_000, 100)
    assert len(ratings) == 1_000_000
    assert (ratings.public.low, ratings.public.high) == (1, 5)


def test_generators_depend_on_their_seed_alone() -> None:
    first, again, other = (generate.restaurants(seed).ratings for seed in (1, 1, 2))
    assert first.fingerprint == again.fingerprint != other.fingerprint


def test_rank_one_ratings_are_drawn_in_blocks_and_exact():
    made = synthetic.rank_one(users=9_000, items=30, per_user=7, rng=np.random.default_rng(3))
    ratings, truth = made.ratings, made.truth
    assert truth is not None
    assert (np.bincount(ratings.users, minlength=9_000) == 7).all()
    assert ratings.public.cap == 7
    assert np.array_equal(ratings.values, truth.predict(ratings.users, ratings.items))
    largest = np.abs(truth.left).max() * np.abs(truth.right).max()
    assert largest == pytest.approx(1)  # unit infinity norm
    seen = np.bincount(ratings.items, minlength=30)
    assert stats.chisquare(seen).pvalue > 1e-6
    # Not built by `Ratings.build`, which would find whatever is not sorted, unique or in range.
    checked = Ratings.build(ratings.users, ratings.items, ratings.values, ratings.public)
    assert checked.fingerprint == ratings.fingerprint
    for name in ("users", "items", "values"):
        assert getattr(checked, name).dtype == getattr(ratings, name).dtype


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"users": 10, "items": 5, "per_user": 6}, "ratings per user must be"),
        ({"users": 0}, "users must be >= 1"),
    ],
)
def test_bad_options_of_rank_one_are_sentences(options: dict[str, int], sentence: str) -> None:
    with pytest.raises(InvalidSetting, match=sentence):
        synthetic.rank_one(rng=np.random.default_rng(0), **options)
