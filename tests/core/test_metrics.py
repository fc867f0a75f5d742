"""Metrics against definitions written out in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpmc_core import experiment, metrics, registry
from dpmc_core.errors import BadRatings
from dpmc_core.model import Constant, Dense, Factors, Task
from dpmc_core.problem import LeaveLast, Problem, RandomShare
from dpmc_core.ratings import PublicFacts, Ratings
from tests.ratings_helpers import with_values


def draw_interactions(seed: int, users: int = 30, items: int = 40, density: float = 0.3) -> Ratings:
    rng = np.random.default_rng(seed)
    u, i = np.nonzero(rng.random((users, items)) < density)
    return Ratings.build(
        u, i, np.ones(len(u)), PublicFacts(users=users, items=items, low=0, high=1)
    )


def rank_by_brute_force(scores, train: Ratings, test: Ratings, k: int) -> tuple[float, float]:
    rated = set(zip(train.users.tolist(), train.items.tolist(), strict=True))
    rated |= set(zip(test.users.tolist(), test.items.tolist(), strict=True))
    hits, gains = [], []
    for u, i in zip(test.users.tolist(), test.items.tolist(), strict=True):
        rank = 0
        for j in range(train.public.items):
            if (u, j) not in rated and not scores[u][j] < scores[u][i]:
                rank += 1
        hits.append(rank < k)
        gains.append(1 / math.log2(rank + 2) if rank < k else 0.0)
    return sum(hits) / len(hits), sum(gains) / len(gains)


def test_errors() -> None:
    rng = np.random.default_rng(0)
    estimate, truth = rng.normal(size=50), rng.normal(size=50)
    errors = [a - b for a, b in zip(estimate, truth, strict=True)]
    assert metrics.rmse(estimate, truth) == pytest.approx(
        math.sqrt(math.fsum(e * e for e in errors) / 50)
    )
    assert metrics.mae(estimate, truth) == pytest.approx(math.fsum(abs(e) for e in errors) / 50)


def test_accuracy_counts_zero_and_nan_as_wrong() -> None:
    assert metrics.accuracy([0.1, -2, 0.0, math.nan, 1e-320], [1, -1, 1, 1, 1]) == 3 / 5
    assert metrics.accuracy([0.0, 0.0], [1, -1]) == 0


def test_are_is_the_relative_squared_error_of_all_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    truth = Factors(rng.normal(size=(23, 2)), rng.normal(size=(17, 2)))
    model = Factors(rng.normal(size=(23, 3)), rng.normal(size=(17, 3)))
    matrix, guess = truth.left @ truth.right.T, model.left @ model.right.T
    expected = sum((a - b) ** 2 for a, b in zip(guess.flat, matrix.flat, strict=True)) / sum(
        b * b for b in matrix.flat
    )
    for cells in (metrics.CELLS_PER_BLOCK, 50):  # 50: in blocks smaller than the matrix
        monkeypatch.setattr(metrics, "CELLS_PER_BLOCK", cells)
        assert metrics.model_are(model, truth) == pytest.approx(expected)
        assert metrics.model_are(Dense(guess), truth) == pytest.approx(expected)
    assert metrics.model_are(Constant(0.0), truth) == 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("block", [30, 4_000_000])
def test_full_ranking_equals_brute_force(
    seed: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "CELLS_PER_BLOCK", block)
    rng = np.random.default_rng(seed)
    train, test = RandomShare(0.2)(draw_interactions(seed), rng)
    scores = rng.integers(0, 6, train.shape).astype(float)  # plenty of ties
    result = metrics.evaluate_ranking(Dense(scores), train, test, rng, k=5, negatives=None)
    assert result == pytest.approx(rank_by_brute_force(scores, train, test, 5))


@pytest.mark.parametrize("negatives", [None, 99])
def test_items_with_the_same_factors_tie_whatever_the_order_of_a_sum(negatives: int | None) -> None:
    """All items alike hit nothing, as under a constant model. A matrix product rounds its last
    columns, here those tested, differently from the others: a plain comparison gives hits."""
    rng = np.random.default_rng(0)
    public = PublicFacts(users=50, items=399, low=0, high=1)
    users, items = np.arange(50), 396 + np.arange(50) % 3
    test = Ratings.build(users, items, np.ones(50), public)
    train = Ratings.build(users, items - 10, np.ones(50), public)
    for rank in (2, 7, 30):
        tied = Factors(rng.normal(size=(50, rank)), np.tile(rng.normal(size=rank), (399, 1)))
        assert metrics.evaluate_ranking(tied, train, test, rng, negatives=negatives) == (0, 0)
        distinct = Factors(tied.left, tied.right * (1 + 1e-9 * rng.random((399, 1))))
        options = {"k": 50 if negatives else 200, "negatives": negatives}
        assert metrics.evaluate_ranking(distinct, train, test, rng, **options).hr > 0.1


def test_sampled_candidates_are_distinct_unseen_and_uniform() -> None:
    rng = np.random.default_rng(0)
    ratings = draw_interactions(0, users=5, items=12, density=0.4)
    seen_items = metrics._SeenItems(ratings, ratings)
    users = np.repeat(np.arange(5, dtype=np.int32), 3000)
    candidates, is_unseen = seen_items.sample_unseen(users, 4, rng)
    assert is_unseen.all()
    for user in range(5):
        rated = set(ratings.items[ratings.users == user].tolist())
        unseen = sorted(set(range(12)) - rated)
        user_candidates = candidates[users == user]
        assert all(len(set(row)) == 4 for row in user_candidates.tolist())
        counts = np.bincount(user_candidates.ravel(), minlength=12)
        assert set(np.flatnonzero(counts).tolist()) == set(unseen)
        share = 4 / len(unseen)
        # Five binomial deviations per item, 60 items: false alarm rate below 1e-4.
        limit = 5 * math.sqrt(3000 * share * (1 - share))
        assert np.abs(counts[unseen] - 3000 * share).max() <= limit


def count_unseen(train: Ratings, test: Ratings) -> list[int]:
    """How many items the user of each test interaction has in neither."""
    items_of_user: list[set[int]] = [set() for _ in range(train.public.users)]
    for ratings in (train, test):
        for u, i in zip(ratings.users.tolist(), ratings.items.tolist(), strict=True):
            items_of_user[u].add(i)
    return [train.public.items - len(items_of_user[u]) for u in test.users.tolist()]


@pytest.mark.parametrize("negatives", [None, 12])
def test_who_has_too_few_items_left_is_left_out_of_the_means(negatives: int | None) -> None:
    """Among k candidates or fewer every model hits; a constant one never does otherwise."""
    rng = np.random.default_rng(6)
    ratings = draw_interactions(6, users=40, items=14, density=0.5)
    few = count_unseen(ratings, ratings)
    assert min(few) < 8 <= max(few)
    train, test = LeaveLast()(ratings, rng)
    for value in (0.0, math.nan):
        options = {"k": 8, "negatives": negatives}
        assert metrics.evaluate_ranking(Constant(value), train, test, rng, **options) == (0, 0)
    model = Dense(rng.normal(size=train.shape))
    measured = test.select([k for k, n in enumerate(count_unseen(train, test)) if n >= 8])
    assert 0 < len(measured) < len(test)
    result = metrics.evaluate_ranking(model, train, test, rng, k=8, negatives=negatives)
    # who is left out still counts as seen: the others' candidates stay as they were
    hits = gains = 0.0
    for u, i in zip(measured.users.tolist(), measured.items.tolist(), strict=True):
        rated = set(train.items[train.users == u].tolist()) | {i}
        rank = sum(model.matrix[u, j] >= model.matrix[u, i] for j in set(range(14)) - rated)
        hits += rank < 8
        gains += (rank < 8) / math.log2(rank + 2)
    if negatives is None:
        assert result == pytest.approx((hits / len(measured), gains / len(measured)))


def test_what_cannot_be_measured_is_refused_before_anything_is_trained() -> None:
    ratings = draw_interactions(7, users=20, items=9)
    train, test = LeaveLast()(ratings, np.random.default_rng(0))
    problem = Problem(train=train, test=test, name="small", steps=(), split="", truth=None)
    with pytest.raises(BadRatings, match="hr@10 needs users with at least 10 items"):
        experiment.fit(
            registry.create("ials"), problem, 0, lambda *_: pytest.fail("it was trained")
        )


def test_evaluate_clips_ratings_and_names_the_metrics() -> None:
    rng = np.random.default_rng(0)
    public = PublicFacts(users=2, items=3, low=1, high=5)
    ratings = Ratings.build([0, 0, 1, 1], [0, 1, 1, 2], [1, 5, 5, 5], public)
    train, test = ratings.select([0, 1]), ratings.select([2, 3])
    assert metrics.evaluate(Task.RATINGS, Constant(80.0), train, test, rng) == {"rmse": 0, "mae": 0}
    signs = with_values(test, [1, -1], low=-1, high=1)
    assert metrics.evaluate(Task.BINARY, Constant(2.0), train, signs, rng) == {"accuracy": 0.5}
    clicks = LeaveLast()(draw_interactions(0), rng)
    names = [metric.name for metric in metrics.RANKING_METRICS]
    assert [*metrics.evaluate(Task.RANKING, Constant(0.0), *clicks, rng)] == names


def test_evaluate_measures_lists_among_a_hundred_and_among_all() -> None:
    train, test = LeaveLast()(
        draw_interactions(0, items=400, density=0.05), np.random.default_rng(0)
    )
    model = Dense(np.random.default_rng(1).normal(size=train.shape))
    measured = metrics.evaluate(Task.RANKING, model, train, test, np.random.default_rng(2))
    sampled, full = (
        metrics.evaluate_ranking(model, train, test, np.random.default_rng(2), negatives=negatives)
        for negatives in (99, None)
    )
    assert sampled.hr > full.hr
    assert tuple(measured.values()) == (*full, *sampled)


def test_a_metric_knows_which_way_is_better() -> None:
    """By what is measured: errors are, whatever they are called, better where they are smaller."""
    lower = {name for name, metric in metrics.METRICS.items() if metric.lower_is_better}
    assert lower == {"are", "rmse", "mae"}
    rmse, accuracy = metrics.METRICS["rmse"], metrics.METRICS["accuracy"]
    assert rmse.is_reached(0.9, 1.0)
    assert rmse.is_reached(1.0, 1.0)
    assert not rmse.is_reached(1.1, 1.0)
    assert accuracy.is_reached(0.8, 0.7)
    assert accuracy.format_difference(-0.0312) == "3.1 points"
    assert rmse.format_difference(0.0312) == "0.031 rating points"
    assert accuracy.format_difference(0.0001) == rmse.format_difference(0.0001) == ""


def test_factors_and_their_matrix_rank_alike() -> None:
    rng = np.random.default_rng(3)
    train, test = LeaveLast()(draw_interactions(3), rng)
    factors = Factors(rng.normal(size=(30, 4)), rng.normal(size=(40, 4)))
    dense = Dense(factors.left @ factors.right.T)
    for negatives in (None, 10):
        a, b = (
            metrics.evaluate_ranking(m, train, test, np.random.default_rng(0), negatives=negatives)
            for m in (factors, dense)
        )
        assert a == pytest.approx(b)


def test_all_that_is_measured_is_a_metric_and_each_task_has_a_headline() -> None:
    headlines = {metrics.choose_headline_metric(task).name for task in Task}
    assert headlines == {"accuracy", "rmse", "hr@10_full"}
    assert metrics.RANKING_METRICS[0] == metrics.choose_headline_metric(Task.RANKING)
    panels = [metric.panel_title for metric in metrics.RANKING_METRICS]
    assert len(set(panels)) == len(panels) == 4
