"""Preparation steps against brute force on small random ratings."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_core.preparation import (
    Binarise,
    CapPerUser,
    Implicit,
    Rescale,
    ThresholdRule,
    TopItems,
    apply_steps,
    parse_step,
)
from dpmc_core.privacy import CELL, RATING
from dpmc_core.ratings import PublicFacts, Ratings
from tests.ratings_helpers import with_values


def draw_ratings(seed: int, users: int = 12, items: int = 9, density: float = 0.5) -> Ratings:
    rng = np.random.default_rng(seed)
    u, i = np.nonzero(rng.random((users, items)) < density)
    return Ratings.build(
        u,
        i,
        rng.integers(1, 6, len(u)),
        PublicFacts(users=users, items=items, low=1, high=5),
        times=rng.integers(0, 50, len(u)),
        titles=tuple(f"title {k}" for k in range(items)),
        item_ids=tuple(f"id {k}" for k in range(items)),
    )


def list_cells(ratings: Ratings) -> dict[tuple[int, int], float]:
    cells = zip(ratings.users.tolist(), ratings.items.tolist(), strict=True)
    return dict(zip(cells, ratings.values.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_binarise_uses_the_training_mean_on_both_sides(seed: int) -> None:
    train, test = draw_ratings(seed), draw_ratings(seed + 100)
    signs, test_signs = apply_steps([Binarise(ThresholdRule.MEAN)], train, test)
    mean = sum(list_cells(train).values()) / len(train)
    assert test_signs is not None
    for before, after in ((train, signs), (test, test_signs)):
        assert list_cells(after) == {
            c: 1.0 if v >= mean else -1.0 for c, v in list_cells(before).items()
        }
        assert (after.public.low, after.public.high) == (-1, 1)
        assert len(after.prepared) == 1
        assert f"{mean:.4f}"[:4] in after.prepared[0]


def test_binarise_above_the_middle_reads_nothing_of_the_ratings() -> None:
    ratings = draw_ratings(0)
    signs, _ = apply_steps([Binarise()], ratings)
    assert signs.prepared == ()
    assert list_cells(signs) == {c: 1.0 if v > 3 else -1.0 for c, v in list_cells(ratings).items()}
    jokes = with_values(ratings, ratings.values - 3, low=-10, high=10)
    assert np.array_equal(apply_steps([Binarise()], jokes)[0].values > 0, jokes.values > 0)
    # Another value of one rating moves one label: at the mean it may move many.
    for k in range(20):
        other = ratings.values.copy()
        other[k] = 6 - other[k]
        changed = apply_steps([Binarise()], with_values(ratings, other, low=1, high=5))[0]
        assert np.flatnonzero(changed.values != signs.values).tolist() in ([], [k])


@pytest.mark.parametrize("step", [Binarise(1), Binarise(5.5)])
def test_binarise_says_that_there_is_one_class_only(step: Binarise) -> None:
    with pytest.raises(BadRatings, match=r"only one class.* binarise=VALUE"):
        apply_steps([step], draw_ratings(0))


def test_implicit_keeps_high_ratings_as_ones() -> None:
    ratings = draw_ratings(1)
    liked, _ = apply_steps([Implicit(4)], ratings)
    assert list_cells(liked) == {c: 1.0 for c, v in list_cells(ratings).items() if v >= 4}
    assert len(apply_steps([Implicit()], ratings)[0]) == len(ratings)


def test_an_implicit_limit_makes_the_pattern_private_and_the_card_says_so() -> None:
    """One rating that rises past the limit is one more interaction: a cell, and not a value."""
    ratings = draw_ratings(1)
    low = np.flatnonzero(ratings.values < 4)[0]
    raised = ratings.values.copy()
    raised[low] = 5
    other = dataclasses.replace(ratings, values=raised)
    liked, liked_other = (apply_steps([Implicit(4)], r)[0] for r in (ratings, other))
    assert len(liked_other) == len(liked) + 1
    (phrase,) = liked.prepared
    assert phrase == "which ratings are 4 or more (matters per rating only)"
    guarantee = (
        registry.create("dplcf", epsilon=1.0)
        .guarantee(liked.public)
        .with_preparation(liked.prepared)
    )
    assert guarantee.caveats[-1] == f"certified given that {phrase} is public"
    # Per rating this card is proved through cells, so it holds for the raw ratings too.
    assert guarantee.certified(RATING).epsilon == guarantee.certified(CELL).epsilon
    assert apply_steps([Implicit()], ratings)[0].prepared == ()
    with pytest.raises(BadRatings, match="no rating is 9 or more"):
        apply_steps([Implicit(9)], ratings)


@pytest.mark.parametrize("seed", range(5))
def test_top_items_are_those_of_the_training_side(seed: int) -> None:
    train, test = draw_ratings(seed), draw_ratings(seed + 50)
    kept_train, kept_test = apply_steps([TopItems(4)], train, test)
    assert kept_test is not None
    counts = [sum(i == k for _, i in list_cells(train)) for k in range(9)]
    best = sorted(sorted(range(9), key=lambda k: (-counts[k], k))[:4])
    for before, after in ((train, kept_train), (test, kept_test)):
        renamed = {(u, best[i]): v for (u, i), v in list_cells(after).items()}
        assert renamed == {c: v for c, v in list_cells(before).items() if c[1] in best}
        assert after.public.items == 4
        assert after.titles == tuple(f"title {k}" for k in best)
        assert after.prepared == ("the choice of the 4 most rated items",)
    assert apply_steps([TopItems(9)], train)[0] is train


@pytest.mark.parametrize("seed", range(3))
def test_cap_keeps_a_random_subset_and_says_so_in_the_public_facts(seed: int) -> None:
    ratings = draw_ratings(seed, users=200, items=30)
    capped, test = apply_steps([CapPerUser(5, seed)], ratings, ratings)
    assert test is ratings  # a cap is a promise about training data only
    assert capped.public.cap == 5
    assert np.array_equal(np.diff(capped.indptr), np.minimum(np.diff(ratings.indptr), 5))
    assert list_cells(capped).items() <= list_cells(ratings).items()
    assert not np.array_equal(
        capped.items, apply_steps([CapPerUser(5, seed + 1)], ratings)[0].items
    )


def test_cap_is_uniform_over_the_ratings_of_a_user() -> None:
    users, items, cap = 4000, 20, 5
    grid = np.indices((users, items)).reshape(2, -1)
    full = Ratings.build(
        *grid, np.ones(users * items), PublicFacts(users=users, items=items, low=0, high=1)
    )
    item_counts = np.bincount(apply_steps([CapPerUser(cap)], full)[0].items, minlength=items)
    expected = users * cap / items
    # Negatively correlated hypergeometric counts: five binomial deviations are generous.
    assert np.abs(item_counts - expected).max() < 5 * np.sqrt(expected * (1 - cap / items))


def test_one_row_does_not_decide_which_ratings_another_row_keeps() -> None:
    ratings = draw_ratings(3, users=50, items=30)
    without_first = ratings.select(ratings.users != 0)
    capped = [apply_steps([CapPerUser(4)], r)[0] for r in (ratings, without_first)]
    other_cells = [{c: v for c, v in list_cells(r).items() if c[0] != 0} for r in capped]
    assert other_cells[0] == other_cells[1]


def test_one_cell_swaps_at_most_one_other_cell_of_its_user() -> None:
    ratings = draw_ratings(4, users=6, items=40)
    retained = set(list_cells(apply_steps([CapPerUser(4)], ratings)[0]))
    for removed in range(len(ratings)):
        fewer = ratings.select(np.arange(len(ratings)) != removed)
        assert len(retained ^ set(list_cells(apply_steps([CapPerUser(4)], fewer)[0]))) <= 2


def test_rescale_is_linear_on_the_public_range_not_on_the_data() -> None:
    every = draw_ratings(2)
    ratings = every.select((every.values > 1) & (every.values < 5))
    scaled, _ = apply_steps([Rescale(-1, 1)], ratings)
    assert np.allclose(scaled.values, (ratings.values - 3) / 2)
    assert (scaled.public.low, scaled.public.high, scaled.prepared) == (-1, 1, ())


@pytest.mark.parametrize(
    "text",
    [
        *("binarise=middle", "binarise=mean", "binarise=3.5", "implicit=all", "implicit=4"),
        *("top-items=400", "cap=20", "cap=20:7", "rescale=-1:1", "rescale=0:0.1234567890123"),
    ],
)
def test_steps_and_their_text_are_inverse(text: str) -> None:
    assert str(parse_step(text)) == text
    assert parse_step(str(parse_step(text))) == parse_step(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("binarize=3", "preparation step must be one of"),
        ("binarise=nan", "threshold must be a finite number"),
        ("binarise=high", "binarise must be a number, got 'high'"),
        ("top-items=0", "top-items must be >= 1, got 0"),
        ("top-items=2.5", "top-items must be an integer, got '2.5'"),
        ("cap=", "cap must be an integer"),
        ("rescale=1", "LOW:HIGH"),
        ("rescale=1:0", "LOW < HIGH"),
    ],
)
def test_a_bad_step_is_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InvalidSetting, match=sentence):
        parse_step(text)


def test_caps_only_tighten() -> None:
    ratings = draw_ratings(0)
    assert apply_steps([CapPerUser(3), CapPerUser(7)], ratings)[0].public.cap == 3


def test_an_empty_test_side_names_the_step() -> None:
    train = draw_ratings(0)
    test = train.select(train.values < 4)
    with pytest.raises(BadRatings, match="test ratings after implicit=4: no rating is 4 or more"):
        apply_steps([Implicit(4)], train, test)
