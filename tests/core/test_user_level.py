"""The user-level family's promises: sensitivities, accounting, clips, and bugs that must show."""

import dataclasses
import math
from collections import defaultdict

import numpy as np
import pytest
from scipy import stats

from dpmc_core import privacy
from dpmc_core.errors import InvalidSetting
from dpmc_core.mechanisms import dp_sgd, dpals, frank_wolfe, per_user
from dpmc_core.mechanisms.dpals import ItemBudget
from dpmc_core.mechanisms.frank_wolfe import StepRule
from dpmc_core.model import Estimator
from dpmc_core.privacy import USER_EMPTIED, USER_REPLACED, Calibration, Notion
from dpmc_core.privacy.accounting import gaussian_epsilon
from dpmc_core.ratings import PublicFacts
from dpmc_core.solvers.rows import cap_ratings, draw_cap_key
from tests.replay import measure_changes
from tests.statistics_helpers import FALSE_ALARM, assert_drawn_from
from tests.user_level_helpers import (
    CAP,
    FAMILY,
    IDS,
    PAPERS,
    PUBLIC,
    USERS,
    VARIANTS,
    build_ratings,
    create_mechanism,
    list_neighbours,
    make_extreme_rows,
    make_rows,
)

JESTER = PublicFacts(users=24983, items=100, low=0, high=5)


def assert_sensitivities_hold(mechanism, relation):
    """No release moves more than its card allows; returns the largest share of it each used."""
    used = defaultdict(float)
    for first, second in list_neighbours(relation):
        for a, b in ((first, second), (second, first)):
            for value_change in measure_changes(mechanism, a, b, relation):
                assert value_change.change <= value_change.allowed * (1 + 1e-9), value_change
                used[value_change.query] = max(
                    used[value_change.query], value_change.change / value_change.allowed
                )
    return used


@pytest.mark.slow_unless_planted
@pytest.mark.parametrize("relation", [USER_EMPTIED, USER_REPLACED])
@pytest.mark.parametrize(("id", "settings"), VARIANTS, ids=IDS)
def test_no_row_moves_a_release_further_than_its_card_says(id, settings, relation):
    used = assert_sensitivities_hold(create_mechanism(id, **settings), relation)
    assert len(used) == len(
        {r.query for _, r in create_mechanism(id, **settings).guarantee(PUBLIC).releases}
    )


def test_the_worst_rows_nearly_use_the_bounds_up():
    """The stated sensitivities are not padded: a full row of extremes comes close to them."""
    tight = create_mechanism("private-frank-wolfe", clip=0.3, residual=1.0, item_share=0.1)
    used = assert_sensitivities_hold(tight, USER_EMPTIED)
    # a gain, and what a user differs by, is near its bound for rows that do not occur
    assert sum(share > 0.9 for share in used.values()) == len(used) - 2, used
    used = assert_sensitivities_hold(create_mechanism("dpals", factor_clip=0.01), USER_EMPTIED)
    assert sum(share > 0.6 for share in used.values()) >= len(used) - 2, used
    # with its diagonal, which the noise-aware estimator leaves out
    clipped = create_mechanism("private-svd", clip=0.2, estimator=Estimator.PUBLISHED)
    used = assert_sensitivities_hold(clipped, USER_EMPTIED)
    assert used[clipped.guarantee(PUBLIC).releases.gram.query] > 0.99, used
    # all three parts of a gradient reach their clips, mean, offsets and factors
    (share,) = assert_sensitivities_hold(create_mechanism("dp-sgd"), USER_EMPTIED).values()
    assert share > 0.95


def compose_epsilon(publications, relation, delta):
    """Epsilon of what was really published, by dp-accounting from scales and sensitivities."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    ratios = [p.release.sensitivity[relation] / p.release.scale for p in publications]
    loss = None
    for ratio in sorted(set(ratios)):
        composed = pld.from_gaussian_mechanism(1 / ratio, value_discretization_interval=2e-4)
        composed = composed.self_compose(ratios.count(ratio))
        loss = composed if loss is None else loss.compose(composed)
    return loss.get_epsilon_for_delta(delta)


def remove_release(releases, dropped):
    """The releases with None in place of one of them."""
    return releases.map_releases(lambda release: None if release is dropped else release)


@pytest.mark.slow
@pytest.mark.parametrize("relation", [USER_EMPTIED, USER_REPLACED])
@pytest.mark.parametrize(("id", "settings"), VARIANTS, ids=IDS)
def test_certified_is_what_dp_accounting_finds_for_everything_published(id, settings, relation):
    """Fails if any one release is left out of the card, or counted too rarely."""
    mechanism = create_mechanism(id, **settings)
    with privacy.record_publications() as publications:
        list(mechanism.fit(build_ratings(make_rows()), np.random.default_rng(0)))
    guarantee = mechanism.guarantee(PUBLIC)
    peer_epsilon = compose_epsilon(publications, relation, 1e-6)
    certified = guarantee.certified(relation).epsilon
    assert certified == pytest.approx(peer_epsilon, rel=2e-3)
    ratios = [p.release.sensitivity[relation] / p.release.scale for p in publications]
    assert certified == pytest.approx(gaussian_epsilon(math.hypot(*ratios), 1e-6), rel=1e-9)
    for name, release in guarantee.releases:
        fewer = remove_release(guarantee.releases, release)
        if list(fewer):
            less = dataclasses.replace(guarantee, releases=fewer).certified(relation)
            assert less.epsilon < certified * (1 - 1e-5), f"{name} would not be missed"
        if release.times > 1:
            rare = dataclasses.replace(release, times=1)
            understated = guarantee.releases.map_releases(
                lambda r, original=release, rare=rare: rare if r is original else r
            )
            less = dataclasses.replace(guarantee, releases=understated).certified(relation)
            assert less.epsilon < certified * (1 - 1e-5)


@pytest.mark.slow_unless_planted
@pytest.mark.parametrize("id", FAMILY)
def test_tight_calibration_spends_the_budget_and_no_more(id):
    for epsilon in (0.1, 1.0, 5.0):
        for public in (PUBLIC, JESTER):
            certified = create_mechanism(id, epsilon=epsilon).guarantee(public).certified()
            assert epsilon * (1 - 1e-6) <= certified.epsilon <= epsilon
            assert certified.delta == 1e-6


@pytest.mark.parametrize("id", PAPERS)
def test_the_published_estimator_spends_the_budget_and_no_more(id):
    certified = (
        create_mechanism(id, epsilon=1.0, estimator=Estimator.PUBLISHED)
        .guarantee(PUBLIC)
        .certified()
    )
    assert 1 - 1e-6 <= certified.epsilon <= 1


def test_the_card_is_joint_per_user_for_everyone():
    for id in FAMILY:
        guarantee = create_mechanism(id).guarantee(JESTER)
        assert guarantee.change is USER_EMPTIED
        assert guarantee.notion is Notion.JOINT
        assert guarantee.change.protects == "everything one person rated"
        assert "that user alone" in guarantee.publishes.value
        replaced = guarantee.certified(USER_REPLACED)
        assert replaced.finite
        assert replaced.epsilon > guarantee.certified().epsilon


PAPER = {"calibration": Calibration.PAPER, "item_share": 0.0, "cap": None}


def test_the_papers_constant_certifies_what_was_worked_out_by_hand():
    """Epsilon 1, delta 1e-6: 0.545 against the empty row, 0.790 against another (JTT18)."""
    guarantee = create_mechanism(
        "private-frank-wolfe", epsilon=1.0, residual=2.0, **PAPER
    ).guarantee(JESTER)
    assert guarantee.certified().epsilon == pytest.approx(0.545, abs=1e-3)
    assert guarantee.certified(USER_REPLACED).epsilon == pytest.approx(0.790, abs=1e-3)
    scale = guarantee.releases.gram[0].scale
    norm = 0.45 * 2.5 * 10
    paper = norm**2 * math.sqrt(64 * 3 * math.log(1e6))
    assert scale == pytest.approx(paper, rel=1e-12)


@pytest.mark.parametrize(("rounds", "certified"), [(1, 0.26), (10, 0.89), (20, 1.30), (50, 2.13)])
def test_ojas_noise_leaves_out_the_rounds(rounds, certified):
    mechanism = create_mechanism(
        "private-frank-wolfe-oja", epsilon=1.0, rounds=rounds, updates=20, residual=2.0, **PAPER
    )
    guarantee = mechanism.guarantee(JESTER)
    assert guarantee.certified().epsilon == pytest.approx(certified, abs=5e-3)
    assert sum(r.times for _, r in guarantee.releases) == rounds * 21


# --- planted bugs -------------------------------------------------------------------------------


def assert_noise_as_carded(mechanism):
    """Every cell of every publication differs from its private value by N(0, scale^2)."""
    with privacy.record_publications() as publications:
        for seed in range(30):
            list(mechanism.fit(build_ratings(make_rows()), np.random.default_rng(seed)))
    guarantee = mechanism.guarantee(PUBLIC)
    scales = {r.query: r.scale for _, r in guarantee.releases}
    rounds = defaultdict(list)
    for p in publications:
        z = (p.published - p.private) / scales[p.release.query]
        rounds[p.release.query].append(np.atleast_1d(z).ravel())
    for query, draws in rounds.items():
        assert all((d != 0).all() for d in draws), f"'{query}' was once published without noise"
        each = FALSE_ALARM / len(rounds)
        assert_drawn_from(np.concatenate(draws), stats.norm.cdf, each)


@pytest.mark.slow
@pytest.mark.parametrize(("id", "settings"), VARIANTS, ids=IDS)
def test_every_publication_carries_the_noise_of_its_card(id, settings):
    assert_noise_as_carded(create_mechanism(id, **settings))


def _disable_clipping(cells, values, norm):  # noqa: ARG001
    return np.ones(cells.shape[0])


def _clip_nothing(norms, norm):  # noqa: ARG001
    return np.ones_like(norms)


@pytest.mark.slow_unless_planted
@pytest.mark.parametrize(
    ("id", "where", "name", "broken", "settings"),
    [
        ("private-frank-wolfe", frank_wolfe, "shrinkage", _clip_nothing, {"clip": 0.2}),
        ("private-frank-wolfe-oja", frank_wolfe, "shrinkage", _clip_nothing, {"clip": 0.2}),
        ("private-svd", per_user, "clip_rows", _disable_clipping, {"clip": 0.2}),
        (
            "private-item-mean", per_user, "weigh_rows",
            lambda cells, values, *_: (values, np.zeros(cells.shape[0])), {},
        ),
        ("dpals", dpals, "clip_dense_rows", lambda left, _: (left, 0), {"factor_clip": 0.01}),
        ("dpals", dpals, "clip_rows", _disable_clipping, {"items": ItemBudget.ADAPTIVE}),
        ("dp-sgd", dp_sgd, "shrinkage", _clip_nothing, {}),
    ],
)  # fmt: skip
def test_planted_missing_clip_is_caught(id, where, name, broken, settings, monkeypatch):
    mechanism = create_mechanism(id, **settings)
    assert_sensitivities_hold(mechanism, USER_EMPTIED)
    monkeypatch.setattr(where, name, broken)
    with pytest.raises(AssertionError):
        assert_sensitivities_hold(mechanism, USER_EMPTIED)


def test_planted_unclipped_iterate_of_projected_gradient_is_caught(monkeypatch):
    mechanism = create_mechanism("private-pgd", clip=0.1, radius=5.0, step=1.0)
    assert_sensitivities_hold(mechanism, USER_EMPTIED)
    monkeypatch.setattr(frank_wolfe, "shrinkage", _clip_nothing)
    with pytest.raises(AssertionError):
        assert_sensitivities_hold(mechanism, USER_EMPTIED)


# --- caps and clips -----------------------------------------------------------------------------


def test_the_cap_is_drawn_by_each_users_own_randomness():
    rows = make_rows()
    changed = [*rows[:4], make_extreme_rows()[0], *rows[5:]]
    first = cap_ratings(build_ratings(rows), CAP, draw_cap_key(np.random.default_rng(3)))
    second = cap_ratings(build_ratings(changed), CAP, draw_cap_key(np.random.default_rng(3)))
    assert np.bincount(first.users).max() == np.bincount(second.users)[4] == CAP
    other_rows = [
        {tuple(c) for c in zip(r.users, r.items, strict=True) if c[0] != 4} for r in (first, second)
    ]
    assert other_rows[0] == other_rows[1]
    repeated = cap_ratings(build_ratings(rows), CAP, draw_cap_key(np.random.default_rng(4)))
    assert not np.array_equal(first.items, repeated.items)


# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize("id", FAMILY)
def test_a_delta_of_one_over_the_users_is_refused(id):
    with pytest.raises(InvalidSetting, match=r"delta must be < 1/users = 0.0333, got 0.05"):
        create_mechanism(id, delta=0.05).guarantee(PUBLIC)
    with pytest.raises(InvalidSetting, match=r"delta must be < 1/users"):
        create_mechanism(id, delta=1 / USERS).guarantee(PUBLIC)
    with pytest.raises(InvalidSetting, match="delta must be"):
        create_mechanism(id, delta=0.0)


@pytest.mark.parametrize(
    "id", ["private-frank-wolfe", "private-frank-wolfe-oja", "private-svd", "private-pgd"]
)
def test_the_papers_constant_needs_a_small_epsilon(id):
    with pytest.raises(InvalidSetting, match=r"<= 2 ln\(1/delta\) = 27.63 with the paper's"):
        create_mechanism(id, epsilon=30.0, calibration=Calibration.PAPER)
    create_mechanism(id, epsilon=30.0)
    create_mechanism(id, epsilon=27.0, calibration=Calibration.PAPER)


def test_other_impossible_settings_are_sentences():
    with pytest.raises(InvalidSetting, match="line search reads every user's ratings"):
        create_mechanism("private-frank-wolfe", step=StepRule.LINE_SEARCH)
    with pytest.raises(InvalidSetting, match="item_share must be > 0 for tail or adaptive"):
        create_mechanism("dpals", items=ItemBudget.TAIL, item_share=0.0)
    huge = PublicFacts(users=10_000, items=6_000, low=1, high=5)
    with pytest.raises(InvalidSetting, match=r"items must be <= 5000.*item_share above 0"):
        create_mechanism("private-frank-wolfe", item_share=0.0).guarantee(huge)
    assert create_mechanism("private-frank-wolfe").guarantee(huge).certified().finite
    assert create_mechanism("private-frank-wolfe-oja").guarantee(huge).certified().finite


@pytest.mark.parametrize(("epsilon", "holds"), [(8.2, True), (8.4, False)])
def test_under_replacement_the_paper_overspends_above_eight(epsilon, holds):
    guarantee = create_mechanism(
        "private-frank-wolfe", epsilon=epsilon, residual=2.0, **PAPER
    ).guarantee(JESTER)
    assert (guarantee.certified(USER_REPLACED).epsilon <= epsilon) is holds
