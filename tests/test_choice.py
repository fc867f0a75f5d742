"""A private choice: what one person can move, what a run spends, and what comes out."""

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.data import Dataset, datasets
from dpmc_core.errors import InvalidSetting
from dpmc_core.lab.cli import main
from dpmc_core.lab.study import choice as core
from dpmc_core.lab.study.choice import Scored, contest, held_out
from dpmc_core.model import Constant, Task
from dpmc_core.privacy import (
    CELL,
    RATING,
    USER_EMPTIED,
    USER_REPLACED,
    Budget,
    Gaussian,
    Laplace,
    witness,
)
from dpmc_core.privacy.accounting import gaussian_epsilon
from dpmc_core.privacy.selection import RandomRuns
from dpmc_core.ratings import PublicFacts, Ratings

FACTS = PublicFacts(users=60, items=9, low=1, high=5)
BUDGET = Budget(1.0, 1e-6)


def dataset(cells):
    """Ratings of a small matrix: cells maps (user, item) to a value."""
    users, items = np.array(sorted(cells)).T
    values = [cells[cell] for cell in sorted(cells)]
    return Dataset(Ratings.build(users, items, values, FACTS), "tiny", "Tiny", "", "", ())


def cells_of(ratings):
    return dict(
        zip(
            zip(ratings.users.tolist(), ratings.items.tolist(), strict=True),
            ratings.values.tolist(),
            strict=True,
        )
    )


def drawn_cells(rng):
    return {
        (user, item): float(rng.integers(1, 6))
        for user, item in itertools.product(range(FACTS.users), range(FACTS.items))
        if rng.random() < 0.3
    }


def differing(one, other):
    return {cell for cell in one.keys() | other.keys() if one.get(cell) != other.get(cell)}


def test_one_changed_cell_moves_one_training_cell_of_that_user_and_one_test_cell():
    rng = np.random.default_rng(1)
    before = drawn_cells(rng)
    for _ in range(300):
        after, cell = dict(before), (int(rng.integers(FACTS.users)), int(rng.integers(9)))
        if rng.random() < 0.5:
            after.pop(cell, None)
        else:
            after[cell] = float(rng.integers(1, 6))
        one, other = (held_out(dataset(cells), Task.RATINGS) for cells in (before, after))
        trained = differing(cells_of(one.train), cells_of(other.train))
        assert len(trained) <= 1
        tested = differing(cells_of(one.test), cells_of(other.test))
        assert {user for user, _ in trained | tested} <= {cell[0]}
        counts = np.bincount(other.test.users, minlength=FACTS.users)
        assert counts.max() == 1  # of everybody who has rated anything
        assert set(other.test.users.tolist()) == {user for user, _ in after}


@pytest.mark.parametrize("task", [Task.RATINGS, Task.BINARY])
def test_nobody_moves_the_score_by_more_than_its_sensitivity(task):
    rng = np.random.default_rng(2)
    before = drawn_cells(rng)
    (moves,) = core._MOVES.values()
    model = Constant(5.0 if task is Task.RATINGS else 1.0)
    scores = {core.score(task, model, held_out(dataset(before), task))}
    for _ in range(60):  # one user's row becomes any other, or empty
        user = int(rng.integers(FACTS.users))
        after = {cell: value for cell, value in before.items() if cell[0] != user}
        after |= {(user, i): float(rng.integers(1, 6)) for i in range(9) if rng.random() < 0.4}
        scores.add(core.score(task, model, held_out(dataset(after), task)))
    first = core.score(task, model, held_out(dataset(before), task))
    assert max(abs(score - first) for score in scores) <= moves
    assert len(scores) > 1


def test_the_score_counts_half_the_range_as_the_largest_error():
    one_each = dataset({(0, 0): 1.0, (1, 0): 3.0, (2, 0): 4.0})
    two = dataset({(0, 0): 1.0, (0, 1): 2.0})
    problem = dataclasses.replace(
        held_out(dataset(drawn_cells(np.random.default_rng(1))), Task.RATINGS),
        train=two.ratings,
        test=one_each.ratings,
    )
    # errors 3, 1 and 0, each in units of 2 and at most 1
    assert core.score(Task.RATINGS, Constant(4.0), problem) == pytest.approx(0 + 0.75 + 1)
    assert core.score(Task.RATINGS, Constant(math.nan), problem) == 0


def test_a_ranking_is_scored_by_hits_alone():
    problem = held_out(datasets.load("bookshop-clicks"), Task.RANKING)
    hits = core.score(Task.RANKING, Constant(0.0), problem)
    assert hits == 0  # ties count against the model
    assert len(problem.test) <= problem.test.public.users


@pytest.mark.parametrize("id", ["private-effects", "private-popularity", "svd-after-cleansing"])
@pytest.mark.parametrize("change", [USER_EMPTIED, USER_REPLACED, CELL])
def test_a_run_spends_its_budget_on_training_and_score_together(id, change):
    method = registry.create(id, epsilon=5.0)
    rules = contest([method], FACTS, BUDGET, change, RandomRuns(mean=4), share=0.3)
    (candidate,) = rules.candidates
    training = candidate.mechanism.guarantee(FACTS).loss(change)
    score = candidate.card.releases.score
    alone = score.loss(1.0)
    together = training + alone
    assert candidate.card.loss(change) == together
    assert 0.99 < together.epsilon_at(1e-6) <= 1.0 + 1e-12
    assert isinstance(score, Gaussian if training.mu > 0 else Laplace)
    if training.mu > 0:
        assert gaussian_epsilon(alone.mu / math.sqrt(0.3), 1e-6) == pytest.approx(1.0)
    else:
        assert alone.epsilon == pytest.approx(0.3)
    assert rules.price().epsilon < rules.naive().epsilon


def test_candidates_must_suit_each_other_and_have_a_finite_epsilon():
    runs = RandomRuns(mean=4)
    effects, flips, clicks = (
        registry.create(id, epsilon=1.0)
        for id in ("private-effects", "input-flip", "private-popularity")
    )
    with pytest.raises(InvalidSetting, match="of one task, as private-effects is"):
        contest([effects, clicks], FACTS, BUDGET, USER_EMPTIED, runs)
    with pytest.raises(InvalidSetting, match="which ratings exist is public"):
        contest([flips], FACTS, BUDGET, USER_EMPTIED, runs)
    with pytest.raises(InvalidSetting, match="at least one"):
        contest([], FACTS, BUDGET, USER_EMPTIED, runs)
    with pytest.raises(InvalidSetting, match="a method with an epsilon"):
        contest([registry.create("user-mean")], FACTS, BUDGET, USER_EMPTIED, runs)
    (one,) = contest([flips], FACTS, BUDGET, RATING, runs).candidates
    assert one.card.certified(RATING).epsilon <= 1.0 + 1e-12


def test_the_best_score_wins_and_every_run_releases_what_its_card_says():
    methods = [registry.create(id, epsilon=1.0) for id in ("private-effects", "private-item-mean")]
    problem = held_out(datasets.load("restaurants"), Task.RATINGS)
    rules = contest(methods, problem.train.public, BUDGET, USER_EMPTIED, RandomRuns(mean=6))
    begun = []
    with witness() as publications:
        winner = core.choose(rules, problem, 3, on_run=lambda: begun.append(1))
    score = rules.candidates[0].card.releases.score
    scores = [float(p.published) for p in publications if p.release.query == score.query]
    assert len(scores) == len(begun) > 1
    assert winner.score == max(scores)
    assert winner.candidate in rules.candidates
    training = [p for p in publications if p.release.query != score.query]
    for p in training:
        assert any(p.release == r for c in rules.candidates for _, r in c.card.releases)
    again = core.choose(rules, problem, 3)
    assert (again.score, again.candidate) == (winner.score, winner.candidate)
    others = {core.choose(rules, problem, seed).score for seed in (4, 5)}
    assert winner.score not in others


def test_a_card_of_a_run_lists_training_and_score():
    method = registry.create("private-effects", epsilon=1.0)
    rules = contest([method], FACTS, BUDGET, USER_EMPTIED, RandomRuns(mean=2))
    releases = rules.candidates[0].card.releases
    assert isinstance(releases, Scored)
    names = [name for name, _ in releases]
    assert names[-1] == "score"
    assert len(names) == len(list(method.guarantee(FACTS).releases)) + 1


def test_the_command_chooses_and_tells_both_prices(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    words = ["choose", "restaurants", "--mechanisms", "private-effects,private-item-mean"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert round(found["price"]["epsilon"], 2) == 2.15
    assert round(found["naive"]["epsilon"], 2) == 3.52
    assert found["chosen"]["mechanism"] in ("private-effects", "private-item-mean")
    assert found["runs"] == {"expected": 10, "spread": "geometric"}  # and not how many it took
    assert main([*words, "--spread", "logarithmic"]) == 0
    assert "1.8" in capsys.readouterr().out
    for wrong, sentence in (
        (["--runs", "0"], "--runs must be >= 1"),
        (["--score", "1"], "share of the score must be > 0 and < 1"),
        (["--set", "epsilon=3"], "epsilon is given with --epsilon"),
        (["--epsilon", "0"], "epsilon must be > 0"),
    ):
        assert main([*words, *wrong]) == 1
        assert sentence in capsys.readouterr().err


def test_a_setting_is_chosen_from_those_given(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    words = ["choose", "restaurants", "--mechanisms", "private-item-mean", "--delta", "1e-5"]
    settings = {s.name for s in dataclasses.fields(registry.get("private-item-mean"))}
    assert "delta" in settings
    assert main([*words, "--epsilon", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["chosen"]["settings"]["delta"] == 1e-5
    assert found["each"] == {"epsilon": 2.0, "delta": 1e-5}
