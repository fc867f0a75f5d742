"""DPIMF-U and private popularity: sensitivities, exact accounting, the floor, what it learns."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant
from replay import moves
from statistics_helpers import assert_release_noise

from benchmarks import generated
from dpmc_core import metrics, registry
from dpmc_core.data import synthetic
from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_core.mechanisms import user_ranking
from dpmc_core.mechanisms.user_ranking import DpimfUser, Per
from dpmc_core.privacy import USER_EMPTIED, USER_REPLACED, Change, Gaussian, witness
from dpmc_core.problem import LeaveLast
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.rows import contributions
from dpmc_core.solvers.taste import cross_moments, profiles, signal_energy

USERS, ITEMS = 14, 10
FACTS = PublicFacts(users=USERS, items=ITEMS, low=0, high=1)


def ratings_of(cells: np.ndarray) -> Ratings:
    u, i = np.nonzero(cells)
    return Ratings.build(u, i, np.ones(len(u)), FACTS)


def cells_of(seed: int, density: float = 0.4) -> np.ndarray:
    return (np.random.default_rng(seed).random((USERS, ITEMS)) < density).astype(float)


def queries(mechanism: DpimfUser, cells: np.ndarray, features: np.ndarray) -> dict:
    """The three private values of a round, for given public features."""
    ratings = ratings_of(cells)
    pattern, weights = Pattern.of(ratings), contributions(ratings, mechanism.contributions)
    own = np.hstack([profiles(pattern, features), np.ones((USERS, 1))])
    return {
        "popularity": np.bincount(ratings.items, weights, minlength=ITEMS),
        "taste": cross_moments(pattern, weights, features),
        "gram": own.T @ own,
    }


@pytest.mark.parametrize("change", [USER_EMPTIED, USER_REPLACED])
def test_no_user_moves_a_release_further_than_stated(change: Change) -> None:
    """Random and worst rows: full, single, disjoint ones, and features that turn profiles round."""
    rng = np.random.default_rng(0)
    mechanism = DpimfUser(epsilon=1.0, rank=3, contributions=4)
    stated = dict(mechanism.guarantee(FACTS).releases)
    most = dict.fromkeys(stated, 0.0)
    rows = [np.ones(ITEMS), np.eye(ITEMS)[0], np.arange(ITEMS) < 4, np.arange(ITEMS) >= 6]
    for trial in range(300):
        features = rng.normal(size=(ITEMS, 3)) * 10.0 ** rng.integers(-3, 4)
        if trial % 3 == 0:  # two halves of the items point opposite ways
            features = np.where(np.arange(ITEMS) < 5, 1.0, -1.0)[:, None] * [[1.0, 0.0, 0.0]]
        before = cells_of(trial)
        after = before.copy()
        user = int(rng.integers(USERS))
        before[user] = rows[trial % 4] if trial % 2 else rng.random(ITEMS) < 0.5
        after[user] = 0 if change is USER_EMPTIED else rows[int(rng.integers(4))]
        one, other = (queries(mechanism, c, features) for c in (before, after))
        for name in most:
            most[name] = max(most[name], stated[name].distance(one[name], other[name]))
    for name, moved in most.items():
        bound = stated[name].sensitivity[change]
        assert moved <= bound * (1 + 1e-9), name
        assert moved >= 0.6 * bound, f"{name}: the bound is never approached"


def test_fit_publishes_exactly_those_queries() -> None:
    mechanism = DpimfUser(epsilon=1e3, rank=3)
    ratings = ratings_of(cells_of(1))
    with witness() as seen:
        list(mechanism.fit(ratings, np.random.default_rng(0)))
    counts = contributions(ratings, mechanism.contributions)
    assert seen[0].private == pytest.approx(np.bincount(ratings.items, counts, minlength=ITEMS))
    grams = [p.private for p in seen if p.private.shape == (4, 4)]
    assert len(grams) == mechanism.rounds
    for gram in grams:  # of unit profiles and an intercept
        assert gram[3, 3] == USERS
        assert 0 < np.trace(gram[:3, :3]) <= USERS * (1 + 1e-9)


def test_where_taste_cannot_be_heard_fit_asks_for_the_popularity_again() -> None:
    mechanism = DpimfUser(epsilon=0.5, rank=3)
    with witness() as seen:
        *_, last = mechanism.fit(ratings_of(cells_of(1)), np.random.default_rng(0))
    again = [p for p in seen if p.private.shape == (ITEMS, 3)]
    assert len(again) == mechanism.rounds
    for p in again:
        assert p.private[:, 0] == pytest.approx(seen[0].private)
        assert not p.private[:, 1:].any()
    weights = [p.release.scale**-2 for p in (seen[0], *again)]
    heard = [seen[0].published, *(p.published[:, 0] for p in again)]
    scores = last.model.predict(np.arange(USERS)[:, None], np.arange(ITEMS))
    mean = np.average(heard, axis=0, weights=weights) / USERS
    assert scores == pytest.approx(np.tile(mean, (USERS, 1)))


def test_asking_again_leaves_the_noise_of_private_popularity() -> None:
    """Only the Gram matrix's tenth of the taste share is lost, whatever that share."""
    for users, epsilon in ((100, 1.0), (943, 1.0), (5130, 1.0), (5130, 2.0), (10**5, 1.0)):
        public = PublicFacts(users=users, items=1685, low=0, high=1)
        mechanism = DpimfUser(epsilon=epsilon)
        mine = mechanism.guarantee(public).releases
        floor = registry.create("private-popularity", epsilon=epsilon).guarantee(public)
        known = mine.popularity.scale**-2 + mine.taste.times * mine.taste.scale**-2
        lost = 1 - known * floor.releases.counts.scale**2
        assert lost == pytest.approx(0.1 * mechanism.share(public), abs=1e-6)


@pytest.mark.parametrize("change", [USER_EMPTIED, USER_REPLACED])
@pytest.mark.parametrize("epsilon", [0.5, 1e3])
def test_what_is_asked_follows_from_what_was_released(epsilon: float, change: Change) -> None:
    """Under one history, neighbouring data meet the same queries, each within its sensitivity."""
    mechanism = DpimfUser(epsilon=epsilon, rank=3, contributions=2)
    for trial in range(20):
        before = cells_of(trial)
        after = before.copy()
        before[3] = np.arange(ITEMS) < 1 + trial % 4
        after[3] = 0 if change is USER_EMPTIED else np.arange(ITEMS) >= 5
        found = moves(mechanism, ratings_of(before), ratings_of(after), change)
        assert len(found) == 1 + 2 * mechanism.rounds
        for moved in found:
            assert moved.change <= moved.allowed * (1 + 1e-9), moved


@pytest.mark.parametrize("epsilon", [0.5, 1e3])
def test_planted_bug_rows_that_are_not_scaled_are_caught(
    monkeypatch: pytest.MonkeyPatch, epsilon: float
) -> None:
    monkeypatch.setattr(user_ranking, "contributions", lambda ratings, _: np.ones(len(ratings)))
    before = cells_of(0)
    before[3] = 1
    after = before.copy()
    after[3] = 0
    found = moves(
        DpimfUser(epsilon=epsilon, rank=3),
        *(ratings_of(c) for c in (before, after)),
        USER_EMPTIED,
    )
    assert found[0].change > 2 * found[0].allowed
    assert any(m.change > 2 * m.allowed for m in found[1:])


def test_planted_bug_a_choice_by_the_private_counts_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One user more or less then decides what is asked: a release moves beyond its bound."""
    before = cells_of(0)
    before[3] = 1
    after = before.copy()
    after[3] = 0
    of = {c.sum(): bool(c[3].any()) for c in (before, after)}
    private = []
    honest = user_ranking.contributions

    def spying(ratings, count):
        private.append(of[len(ratings)])
        return honest(ratings, count)

    monkeypatch.setattr(user_ranking, "contributions", spying)
    monkeypatch.setattr(user_ranking, "_audible", lambda *_: private[-1])
    pair = (ratings_of(c) for c in (before, after))
    found = moves(DpimfUser(epsilon=1.0, rank=3), *pair, USER_EMPTIED)
    assert any(m.change > m.allowed for m in found)


def test_believed_counts_are_positive_and_keep_the_order() -> None:
    for noise in (1e-3, 1.0, 50.0):
        counts = noise * np.concatenate([np.linspace(-12, 12, 500), [1e3, 1e6]])
        believed = user_ranking._believed(counts, noise)
        assert (believed > 0).all()
        assert (np.diff(believed) > 0).all()
        assert believed[-1] == pytest.approx(counts[-1])


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
def test_certified_is_what_an_independent_accountant_finds(epsilon: float) -> None:
    public = PublicFacts(users=943, items=1682, low=0, high=1)
    for id in ("dpimf-user", "private-popularity"):
        card = registry.create(id, epsilon=epsilon, delta=1e-6).guarantee(public)
        proved = card.certified()
        assert proved.epsilon <= epsilon
        accountant = pld_privacy_accountant.PLDAccountant()
        for _, release in card.releases:
            assert isinstance(release, Gaussian)
            moved = release.sensitivity[USER_EMPTIED]
            event = dp_event.GaussianDpEvent(release.scale / moved)
            accountant.compose(event, release.times)
        assert proved.epsilon == pytest.approx(accountant.get_epsilon(1e-6), rel=2e-3)
        assert card.certified(USER_REPLACED).epsilon > epsilon


def test_where_nothing_clears_the_noise_the_ranking_is_the_released_popularity() -> None:
    """Asked for taste or not: here it is asked for, and drowns."""
    ratings = synthetic.bookshop_clicks(0).ratings
    with witness() as seen:
        *_, last = DpimfUser(epsilon=2.2).fit(ratings, np.random.default_rng(0))
    assert any(p.private[:, 1:].any() for p in seen[1:] if p.private.shape[1] == 8)
    assert last.trace["directions that clear the noise"] == 0
    scores = last.model.predict(np.arange(5)[:, None], np.arange(ratings.public.items))
    assert scores == pytest.approx(np.tile(seen[0].published / ratings.public.users, (5, 1)))


def test_pure_noise_clears_the_edge_rarely() -> None:
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(300):
        values = np.linalg.svd(rng.normal(size=(400, 8)) * 3.0, compute_uv=False)
        found += int(np.count_nonzero(signal_energy(values, 3.0, 400, 8)))
    # The largest value of such noise wobbles by about 2 % around its edge.
    assert found <= 30


def test_a_planted_direction_keeps_its_strength() -> None:
    rng = np.random.default_rng(3)
    left, right = rng.normal(size=400), rng.normal(size=8)
    signal = 300.0 * np.outer(left / np.linalg.norm(left), right / np.linalg.norm(right))
    values = np.linalg.svd(signal + rng.normal(size=(400, 8)) * 3.0, compute_uv=False)
    clean = signal_energy(values, 3.0, 400, 8)
    assert clean[0] == pytest.approx(300.0, rel=0.05)
    assert not clean[1:].any()


def test_a_profile_leaves_the_item_out() -> None:
    rng = np.random.default_rng(4)
    cells = cells_of(5)
    ratings, features = ratings_of(cells), rng.normal(size=(ITEMS, 3))
    weights = rng.random(len(ratings))
    expected = np.zeros((ITEMS, 3))
    for u, i, w in zip(ratings.users, ratings.items, weights, strict=True):
        others = cells[u].copy()
        others[i] = 0
        total = others @ features
        if others.any():
            expected[i] += w * total / np.linalg.norm(total)
    assert cross_moments(Pattern.of(ratings), weights, features) == pytest.approx(expected)


def test_contributions_bound_every_user_by_the_own_row_alone() -> None:
    ratings = ratings_of(cells_of(6, density=0.8))
    for norm, power in ((1, 1), (2, 2)):
        weights = contributions(ratings, 3, norm)
        lengths = np.bincount(ratings.users, weights**power, minlength=USERS)
        assert lengths.max() <= 3 * (1 + 1e-12)
    short = np.diff(ratings.indptr)[ratings.users] <= 3
    assert (contributions(ratings, 3)[short] == 1).all()


def hit_ratio(id: str, epsilon: float | None, train: Ratings, test: Ratings, seed: int = 0):
    mechanism = registry.create(id, epsilon=epsilon)
    *_, last = mechanism.fit(train, np.random.default_rng(seed))
    return metrics.ranking(last.model, train, test, np.random.default_rng(0)).hr


def test_with_a_large_budget_it_ranks_like_ials() -> None:
    ratings = synthetic.bookshop_clicks(1).ratings
    train, test = LeaveLast()(ratings, np.random.default_rng(0))
    found, plain, floor = (
        hit_ratio(id, epsilon, train, test)
        for id, epsilon in (("dpimf-user", 1e5), ("ials", None), ("popularity", None))
    )
    assert found > floor + 0.08
    assert found > plain - 0.06


@pytest.mark.slow
def test_on_a_large_shop_it_beats_private_popularity_by_three_points() -> None:
    ratings = generated.large_bookshop(5, users=20_000, items=1_000)
    train, test = LeaveLast()(ratings, np.random.default_rng(0))
    gaps = {
        epsilon: hit_ratio("dpimf-user", epsilon, train, test)
        - hit_ratio("private-popularity", epsilon, train, test)
        for epsilon in (1.0, 5.0)
    }
    assert gaps[1.0] > -math.sqrt(0.25 / len(test))
    assert gaps[5.0] >= 0.03


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("per", ["user", "cell"])
def test_private_popularity_counts_within_its_sensitivity(delta: float, per: str) -> None:
    kind = registry.get("private-popularity")
    from dpmc_core.settings import parse_setting

    mechanism = registry.create(
        "private-popularity",
        epsilon=0.7,
        delta=delta,
        per=parse_setting(kind, "per", per),
        contributions=3,
    )
    card = mechanism.guarantee(FACTS)
    assert card.certified().epsilon == pytest.approx(0.7)
    release = card.releases.counts
    rng = np.random.default_rng(7)
    for trial in range(100):
        before = cells_of(trial)
        after = before.copy()
        if per == "user":
            after[3] = 0
        else:
            after[3, rng.integers(ITEMS)] = 1 - after[3, rng.integers(ITEMS)]
            if np.abs(after - before).sum() != 1:
                continue
        values = []
        for cells in (before, after):
            with witness() as seen:
                list(mechanism.fit(ratings_of(cells), np.random.default_rng(0)))
            values.append(seen[0].private)
        bound = release.sensitivity[card.change]
        assert release.distance(*values) <= bound * (1 + 1e-9)
    assert_release_noise(release, rng, runs=1500)


class _Half(Gaussian):
    norm: ClassVar[str] = "l2"

    def _noise(self, shape, rng):
        return super()._noise(shape, rng) / 2


def test_planted_bug_half_the_noise_is_caught() -> None:
    release = DpimfUser(epsilon=1.0, rank=3).guarantee(FACTS).releases.taste
    wrong = _Half(
        query="taste", shape=release.shape, sensitivity=release.sensitivity, scale=release.scale
    )
    assert_release_noise(release, np.random.default_rng(8), runs=1500)
    with pytest.raises(AssertionError):
        assert_release_noise(wrong, np.random.default_rng(8), runs=1500)


def test_bad_input_is_a_sentence() -> None:
    with pytest.raises(InvalidSetting, match="delta must be > 0 and < 1, got 0"):
        DpimfUser(epsilon=1.0, delta=0.0)
    with pytest.raises(InvalidSetting, match="taste_share must be > 0 and < 1, got 1"):
        DpimfUser(epsilon=1.0, taste_share=1.0)
    stars = Ratings.build([0], [0], [4.0], PublicFacts(users=2, items=3, low=1, high=5))
    for id in ("dpimf-user", "private-popularity", "popularity", "dplcf"):
        with pytest.raises(BadRatings, match="ranking takes interactions"):
            list(registry.create(id, epsilon=1.0).fit(stars, np.random.default_rng(0)))


@pytest.mark.parametrize("id", ["dpimf-user", "private-popularity"])
def test_a_delta_of_one_over_the_users_is_refused(id: str) -> None:
    public = PublicFacts(users=40, items=12, low=0, high=1)
    for delta in (0.025, 0.5):
        with pytest.raises(InvalidSetting, match=r"delta must be < 1/users = 0.025, got"):
            registry.create(id, epsilon=1.0, delta=delta).guarantee(public)
    assert registry.create(id, epsilon=1.0, delta=0.0249).guarantee(public).certified().finite


def test_a_delta_per_cell_may_be_larger_than_one_over_the_users() -> None:
    public = PublicFacts(users=40, items=12, low=0, high=1)
    cell = registry.create("private-popularity", epsilon=1.0, delta=0.05, per=Per.CELL)
    assert cell.guarantee(public).certified().finite


def test_a_user_who_saw_everything_and_an_item_nobody_saw() -> None:
    cells = cells_of(9)
    cells[2], cells[:, 4], cells[6] = 1, 0, 0
    for id in ("dpimf-user", "private-popularity"):
        *_, last = registry.create(id, epsilon=1.0).fit(ratings_of(cells), np.random.default_rng(0))
        scores = last.model.predict(np.arange(USERS)[:, None], np.arange(ITEMS))
        assert np.isfinite(scores).all()
