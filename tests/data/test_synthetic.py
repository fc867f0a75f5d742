"""Generated data: the promised shapes, the promised structure, the same bytes again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dpmc_core.links import LOGISTIC, Probit
from dpmc_core.ratings import Ratings
from dpmc_data import synthetic
from sample_data import generate


@pytest.mark.slow
def test_the_stored_samples_are_what_the_generator_writes(tmp_path: Path) -> None:
    paths = generate.write_samples(tmp_path)
    stored = [
        path for kind in ("*.npz", "*-items.csv") for path in synthetic.SAMPLE_FOLDER.glob(kind)
    ]
    assert {path.name for path in paths} == {path.name for path in stored}
    for path in paths:
        assert path.read_bytes() == (synthetic.SAMPLE_FOLDER / path.name).read_bytes(), path.name


@pytest.mark.parametrize("link", [LOGISTIC, Probit(0.5)])
@pytest.mark.parametrize(("rank", "alpha"), [(1, 1.0), (3, 2.5)])
def test_one_bit_lab_follows_its_model(link, rank: int, alpha: float) -> None:
    ratings, _, truth = synthetic.generate_one_bit_lab(
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
    for decile in np.array_split(np.argsort(chance), 10):
        share, expected = (ratings.values[decile] > 0).mean(), chance[decile].mean()
        # Five binomial deviations in ten bins: false alarm rate below 1e-5.
        assert abs(share - expected) < 5 * np.sqrt(0.25 / len(decile))


def test_rank_one_ratings_are_drawn_in_blocks_and_exact():
    data = synthetic.generate_rank_one(
        users=9_000, items=30, per_user=7, rng=np.random.default_rng(3)
    )
    ratings, truth = data.ratings, data.truth
    assert truth is not None
    assert (np.bincount(ratings.users, minlength=9_000) == 7).all()
    assert ratings.public.cap == 7
    assert np.array_equal(ratings.values, truth.predict(ratings.users, ratings.items))
    largest = np.abs(truth.left).max() * np.abs(truth.right).max()
    assert largest == pytest.approx(1)  # unit infinity norm
    item_counts = np.bincount(ratings.items, minlength=30)
    assert stats.chisquare(item_counts).pvalue > 1e-6
    # Not built by `Ratings.build`, which would find whatever is not sorted, unique or in range.
    checked = Ratings.build(ratings.users, ratings.items, ratings.values, ratings.public)
    assert checked.fingerprint == ratings.fingerprint
    for name in ("users", "items", "values"):
        assert getattr(checked, name).dtype == getattr(ratings, name).dtype
