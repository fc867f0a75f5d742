"""Private popularity and taste: sensitivities, both branches, exact accounting, what it learns."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_core.mechanisms import user_ranking
from dpmc_core.mechanisms.user_ranking import PrivateTaste, ProtectedUnit
from dpmc_core.privacy import USER_EMPTIED, USER_REPLACED, Change, Gaussian, record_publications
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.ranking import Audiences, compute_profiles, sum_profiles_by_item
from dpmc_core.solvers.rows import contribution_weights
from tests.ratings_helpers import clicks
from tests.replay import fit_model, measure_changes, predict_all, record_fit
from tests.statistics_helpers import assert_release_noise

USERS, ITEMS = 14, 10
PUBLIC = PublicFacts(users=USERS, items=ITEMS, low=0, high=1)
N_QUESTIONS = 6


def draw_cells(seed: int, density: float = 0.4) -> np.ndarray:
    return (np.random.default_rng(seed).random((USERS, ITEMS)) < density).astype(float)


@pytest.fixture(params=[True, False], ids=["taste", "counts"])
def branch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(user_ranking, "_is_signal_detectable", lambda _: request.param)
    rounds = tuple((n_questions, 0.0) for n_questions, _ in user_ranking._ROUNDS)
    monkeypatch.setattr(user_ranking, "_ROUNDS", rounds)
    return request.param


def make_neighbours(change: Change, trial: int) -> tuple[np.ndarray, np.ndarray]:
    """Full, single, half and random rows against an empty one or each other."""
    rows = [np.ones(ITEMS), np.eye(ITEMS)[0], np.arange(ITEMS) < 5, np.arange(ITEMS) >= 5]
    rows += [np.arange(ITEMS) < 2, np.random.default_rng(trial).random(ITEMS) < 0.5]
    before = draw_cells(trial)
    after = before.copy()
    before[3] = rows[trial % 6]
    after[3] = 0 if change is USER_EMPTIED else rows[(trial // 6 + trial + 1) % 6]
    return before, after


@pytest.mark.usefixtures("branch")
@pytest.mark.parametrize("change", [USER_EMPTIED, USER_REPLACED])
@pytest.mark.parametrize("epsilon", [0.5, 1e3])
def test_no_user_moves_a_release_further_than_stated(change, epsilon) -> None:
    """Under one history, neighbouring data meet the same queries, each within its sensitivity."""
    mechanism = PrivateTaste(epsilon=epsilon, rank=3)
    largest: dict[str, float] = {}
    for trial in range(24):
        pair = (clicks(cells) for cells in make_neighbours(change, trial))
        changes = measure_changes(mechanism, *pair, change, seed=trial)
        assert len(changes) == 1 + 2 * N_QUESTIONS
        for value_change in changes:
            largest[value_change.query] = max(
                largest.get(value_change.query, 0.0), value_change.change / value_change.allowed
            )
    assert max(largest.values()) <= 1 + 1e-9
    if change is USER_EMPTIED:  # and the counts use all of theirs
        assert largest["how many users have each item, rows scaled to length 1"] >= 1 - 1e-9
        assert max(v for k, v in largest.items() if "profiles without it" in k) >= 1 - 1e-9


def test_the_stated_bounds_are_approached_by_profiles_that_turn_round() -> None:
    """Two rows that share all but one item, whose feature outweighs the others'."""
    items = 400
    features = np.ones((items, 1))
    features[-2:, 0] = 2.0 * items, -2.0 * items
    ends = []
    for last in (items - 2, items - 1):
        cells = np.zeros((1, items))
        cells[0, : items - 2] = cells[0, last] = 1
        ratings = clicks(cells)
        weights = contribution_weights(ratings, 1)
        rows = np.bincount(ratings.items, weights, minlength=items)
        sums = sum_profiles_by_item(Pattern.from_ratings(ratings), weights, features)
        ends.append(np.hstack([math.sqrt(0.2) * rows[:, None], math.sqrt(0.8) * sums]))
    stated = PrivateTaste(epsilon=1.0, rank=1).guarantee(PUBLIC).releases.rounds
    assert stated.sensitivity[USER_REPLACED] == pytest.approx(math.sqrt(3.2))
    distance = np.linalg.norm(ends[0] - ends[1])
    assert 0.99 * math.sqrt(3.2) <= distance <= math.sqrt(3.2) * (1 + 1e-9)
    gram = np.array([1.0, 1.0]), np.array([-1.0, 1.0])
    assert np.linalg.norm(np.outer(gram[0], gram[0]) - np.outer(gram[1], gram[1])) == pytest.approx(
        math.sqrt(8)
    )


def test_nothing_leaks_onto_items_the_user_does_not_have(branch) -> None:
    mechanism = PrivateTaste(epsilon=5.0, rank=3)
    before = draw_cells(1)
    before[3] = np.arange(ITEMS) < 4
    after = before.copy()
    after[3] = 0
    values = [[p.private for p in record_fit(mechanism, clicks(c))] for c in (before, after)]
    assert np.array_equal(values[0][0][4:], values[1][0][4:])
    if not branch:  # features of taste depend on the counts heard, which differ here
        assert np.array_equal(values[0][1][4:], values[1][1][4:])
    features = np.random.default_rng(2).normal(size=(ITEMS, 3))
    sums = [
        sum_profiles_by_item(Pattern.from_ratings(r), contribution_weights(r, 1), features)
        for r in map(clicks, (before, after))
    ]
    assert sums[0][4:] == pytest.approx(sums[1][4:], abs=1e-12)


def test_both_branches_publish_what_is_on_the_card(branch) -> None:
    mechanism = PrivateTaste(epsilon=2.0, rank=3)
    ratings = clicks(draw_cells(1))
    with record_publications() as publications:
        steps = list(mechanism.fit(ratings, np.random.default_rng(0)))
    assert len(steps) == N_QUESTIONS
    releases = mechanism.guarantee(ratings.public).releases
    assert [p.release for p in publications] == [
        releases.popularity,
        *([releases.rounds, releases.moments] * N_QUESTIONS),
    ]
    for p in publications[1::2]:
        factor = math.sqrt(0.2) if branch else 1.0
        assert p.private[:, 0] == pytest.approx(factor * publications[0].private)
        assert p.private[:, 1:].any() == branch
    for p in publications[2::2]:
        assert p.private.any() == branch


def test_counts_alone_are_the_mean_of_all_answers_by_precision() -> None:
    mechanism = PrivateTaste(epsilon=0.5, rank=3)
    with record_publications() as publications:
        scores = predict_all(fit_model(mechanism, clicks(draw_cells(1))), (USERS, ITEMS))
    counts = [publications[0].published, *(p.published[:, 0] for p in publications[1::2])]
    weights = [p.release.scale**-2 for p in (publications[0], *publications[1::2])]
    mean = np.average(counts, axis=0, weights=weights) / USERS
    assert scores == pytest.approx(np.tile(mean, (USERS, 1)))
    baseline = registry.create("private-popularity", epsilon=0.5).guarantee(PUBLIC).releases.counts
    moment_share = 1 - sum(weights) * baseline.scale**2  # what the moments cost
    assert moment_share == pytest.approx(0.75 * 0.03, abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("id", ["private-taste", "private-popularity"])
def test_certified_is_claimed_and_what_an_independent_accountant_finds(id, epsilon) -> None:
    from dp_accounting import dp_event
    from dp_accounting.pld import pld_privacy_accountant

    public = PublicFacts(users=943, items=1682, low=0, high=1)
    guarantee = registry.create(id, epsilon=epsilon, delta=1e-6).guarantee(public)
    proved = guarantee.certified()
    assert proved.epsilon <= epsilon
    assert proved.epsilon == pytest.approx(epsilon, rel=1e-6)
    accountant = pld_privacy_accountant.PLDAccountant()
    for _, release in guarantee.releases:
        assert isinstance(release, Gaussian)
        event = dp_event.GaussianDpEvent(release.scale / release.sensitivity[USER_EMPTIED])
        accountant.compose(event, release.times)
    assert proved.epsilon == pytest.approx(accountant.get_epsilon(1e-6), rel=2e-3)
    assert epsilon < guarantee.certified(USER_REPLACED).epsilon


@pytest.mark.slow
@pytest.mark.usefixtures("branch")
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0, 1e6])
@pytest.mark.parametrize("shape", [(2, 1), (2, 2), (1, 3), (30, 4), (4, 30)])
def test_no_size_and_no_budget_breaks_it(epsilon, shape) -> None:
    cells = np.zeros(shape)
    cells[0] = 1  # every other row is empty
    for step in PrivateTaste(epsilon=epsilon).fit(clicks(cells), np.random.default_rng(0)):
        assert np.isfinite(predict_all(step.model, shape)).all()
        assert np.isfinite(list(step.trace.values())).all()


def test_a_profile_leaves_the_item_out() -> None:
    rng = np.random.default_rng(4)
    cells = draw_cells(5)
    ratings, features = clicks(cells), rng.normal(size=(ITEMS, 3))
    weights = rng.random(len(ratings))
    expected = np.zeros((ITEMS, 3))
    for u, i, w in zip(ratings.users, ratings.items, weights, strict=True):
        other_items = cells[u].copy()
        other_items[i] = 0
        total = other_items @ features
        if other_items.any():
            expected[i] += w * total / np.linalg.norm(total)
    assert sum_profiles_by_item(Pattern.from_ratings(ratings), weights, features) == pytest.approx(
        expected
    )
    lengths = np.linalg.norm(compute_profiles(Pattern.from_ratings(ratings), features), axis=1)
    assert lengths == pytest.approx(cells.any(axis=1).astype(float))


def test_features_that_cancel_have_no_direction() -> None:
    """Their sum is 5.6e-17, which is rounding: a direction would be of length 1."""
    pattern = Pattern.from_ratings(clicks(np.ones((1, 3))))
    assert not compute_profiles(pattern, np.array([[0.1], [0.2], [-0.3]])).any()


def draw_audiences(
    strength: float, rng: np.random.Generator, n_more: int = 0, second_noise: float = 0
):
    """t ~ N(0, G) and its noise drawn as the model has it; and other answers to the question."""
    items, users, d, noise = 800, 5000, 3, 10.0
    counts = rng.gamma(2.0, 40.0, items)
    low_rank = strength * rng.normal(size=(items, 1)) * np.eye(d)[0]
    covariance = np.eye(d) / d
    deviations = np.sqrt(users / counts.sum() / counts)[:, None] * rng.normal(size=(items, d))
    exact = counts[:, None] * (low_rank + deviations / math.sqrt(d))
    answers = [exact + noise * rng.normal(size=(items, d)) for _ in range(1 + n_more)]
    second = np.block([[users * covariance, np.zeros((d, 1))], [np.zeros((1, d)), users]])
    second = second + second_noise * rng.normal(size=second.shape)
    estimate = Audiences.from_noisy_sums(answers[0], noise, second, second_noise, counts, users)
    return estimate, low_rank, counts, answers[1:]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("per", ["user", "cell"])
def test_private_popularity_counts_within_its_sensitivity(delta: float, per: str) -> None:
    settings = {"epsilon": 0.7, "delta": delta, "contributions": 3, "per": ProtectedUnit(per)}
    mechanism = registry.create("private-popularity", **settings)
    guarantee = mechanism.guarantee(PUBLIC)
    assert guarantee.certified().epsilon == pytest.approx(0.7)
    release = guarantee.releases.counts
    rng = np.random.default_rng(7)
    for trial in range(100):
        before = draw_cells(trial)
        after = before.copy()
        if per == "user":
            after[3] = 0
        else:
            after[3, rng.integers(ITEMS)] = 1 - after[3, rng.integers(ITEMS)]
            if np.abs(after - before).sum() != 1:
                continue
        values = [record_fit(mechanism, clicks(cells))[0].private for cells in (before, after)]
        bound = release.sensitivity[guarantee.change]
        assert release.distance(*values) <= bound * (1 + 1e-9)
    assert_release_noise(release, rng, runs=1500)


def test_contributions_bound_every_user_by_the_own_row_alone() -> None:
    ratings = clicks(draw_cells(6, density=0.8))
    for norm, power in ((1, 1), (2, 2)):
        weights = contribution_weights(ratings, 3, norm)
        lengths = np.bincount(ratings.users, weights**power, minlength=USERS)
        assert lengths.max() <= 3 * (1 + 1e-12)
    short = np.diff(ratings.indptr)[ratings.users] <= 3
    assert (contribution_weights(ratings, 3)[short] == 1).all()


def test_bad_input_is_a_sentence() -> None:
    with pytest.raises(InvalidSetting, match="delta must be > 0 and < 1, got 0"):
        PrivateTaste(epsilon=1.0, delta=0.0)
    rated = Ratings.build([0, 1], [0, 1], [1.0, 3.0], PublicFacts(users=2, items=2, low=1, high=5))
    for id in ("private-taste", "private-popularity", "popularity", "dplcf", "local-popularity"):
        with pytest.raises(BadRatings, match="ranking takes interactions of value 1"):
            list(registry.create(id, epsilon=1.0).fit(rated, np.random.default_rng(0)))


@pytest.mark.parametrize("id", ["private-taste", "private-popularity"])
def test_a_delta_of_one_over_the_users_is_refused(id: str) -> None:
    public = PublicFacts(users=40, items=12, low=0, high=1)
    for delta in (0.025, 0.5):
        with pytest.raises(InvalidSetting, match=r"delta must be < 1/users = 0.025, got"):
            registry.create(id, epsilon=1.0, delta=delta).guarantee(public)
    assert registry.create(id, epsilon=1.0, delta=0.0249).guarantee(public).certified().finite


def test_another_answer_agrees_with_taste_and_not_with_noise_taken_for_it() -> None:
    estimate, _, counts, (other,) = draw_audiences(0.15, np.random.default_rng(7), n_more=1)
    agreed, self_agreement = estimate.measure_agreement(other, counts)
    assert agreed / self_agreement == pytest.approx(1.0, abs=0.15)
    noisy, _, counts, (other,) = draw_audiences(0.0, np.random.default_rng(8), n_more=1)
    mistaken = noisy._replace(
        taste=noisy.taste._replace(
            means=noisy.unpruned_taste.means + np.random.default_rng(9).normal(size=(800, 3))
        )
    )
    agreed, self_agreement = mistaken.measure_agreement(other, counts)
    assert abs(agreed) < 0.1 * self_agreement


def test_a_delta_per_cell_may_be_larger_than_one_over_the_users() -> None:
    public = PublicFacts(users=40, items=12, low=0, high=1)
    cell = registry.create("private-popularity", epsilon=1.0, delta=0.05, per=ProtectedUnit.CELL)
    assert cell.guarantee(public).certified().finite
