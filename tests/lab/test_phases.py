"""Scenarios 2 and 3 in phases: what is published, what it costs, and what is never sent."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from dpmc_core import privacy
from dpmc_core.errors import InvalidSetting
from dpmc_core.model import Task
from dpmc_core.privacy import RATING, Shares
from dpmc_core.problem import build_problem
from dpmc_data import datasets
from dpmc_lab.protocol import RECOMMENDER, THIRD_PARTY, scenarios
from dpmc_lab.protocol.scenarios import (
    ANSWER,
    HIDDEN_SHARE,
    ONLINE,
    PUBLISHED,
    Departures,
    DynamicUsers,
    HeldUserFactors,
    ProtocolAborted,
    StaticUsers,
)
from dpmc_lab.protocol.simulate import measure_gap, simulate_phases
from tests.protocol_helpers import (
    SCENARIOS,
    assert_counts,
    compute_reference_items,
    make_ratings,
    play_scenario,
)
from tests.statistics_helpers import assert_drawn_from

THREE = {"epsilon": 1.0, "phases": 3, "iterations": 4}


def sum_by_item(run, rows, item_rows):
    """Sum rows of the users' pairs by item."""
    total = np.zeros_like(run.items)
    np.add.at(total, run.item_of_pair[item_rows], rows)
    return total


@pytest.mark.parametrize("shares", list(Shares))
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_noise_of_every_phase_has_the_scale_of_the_card(scenario, shares):
    """Planted bugs: the noise of a phase halved, or skipped."""
    settings = scenario(epsilon=1.0, phases=3, iterations=1, shares=shares)
    ratings = make_ratings(2, 6, 30, 0.9)
    guarantee = settings.guarantee(ratings.public)
    noise = [[], [], []]
    for seed in range(40):
        run, _ = play_scenario(settings, ratings, seed)
        for k, phase in enumerate(run.phases):
            noise[k].append(phase.noise[phase.active])
    for draws, term in zip(noise, guarantee.releases.linear_term, strict=True):
        assert_drawn_from(np.concatenate(draws), stats.laplace(scale=term.scale).cdf)


@pytest.mark.parametrize("shares", list(Shares))
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_two_phases_share_noise_masks_or_secrets(scenario, shares):
    """False alarm: two of some thousand independent numbers within 1e-12, less than 1e-5."""
    with privacy.record_publications() as published:
        run, _ = play_scenario(scenario(**THREE, shares=shares), watch=0)
    noise = [(p.published - p.private) / p.release.scale for p in published]
    assert len(noise) == 3
    numbers = np.sort(np.abs(np.concatenate([np.ravel(d) for d in noise])))
    if shares is Shares.GAMMA:  # Gaussian shares of an item have H in common, not the numbers
        assert np.diff(numbers[numbers > 1e-9]).min() > 1e-12
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(noise[first] - noise[second]).max(axis=1).min() > 1e-12
        noises = [run.phases[k].noise / run.phases[k].release.scale for k in (first, second)]
        assert abs(np.corrcoef(*(n[run.phase.active].ravel() for n in noises))[0, 1]) < 0.9
    sent = [tuple(m.payload["answer"]) for m in run.transcript if m.kind in (ANSWER, HIDDEN_SHARE)]
    assert len(sent) == len(set(sent))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_secret_of_the_third_party_is_another_in_every_phase(scenario):
    if scenario is StaticUsers:
        pytest.skip("the third party has no secret")
    secrets = []
    for phases in (1, 2):
        settings = scenario(epsilon=1.0, phases=phases, iterations=2, shares=Shares.GAMMA)
        secrets.append(play_scenario(settings)[0].third_party.secret)
    assert not (secrets[0] == secrets[1]).any()  # false alarm: 24 numbers of 48 bits, 1e-13


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_phase_is_one_release_and_they_add_up_to_the_claim(scenario):
    settings, public = scenario(**THREE, growth=2.0, shares=Shares.GAMMA), make_ratings().public
    with privacy.record_publications() as published:
        play_scenario(settings)
    guarantee = settings.guarantee(public)
    terms = guarantee.releases.linear_term
    assert [publication.release for publication in published] == list(terms)
    assert len({term.query for term in terms}) == 3
    spent = [term.sensitivity[RATING] / term.scale for term in terms]
    assert spent == pytest.approx([1 / 7, 2 / 7, 4 / 7])
    assert guarantee.claimed.epsilon == 1.0
    assert not guarantee.certified().finite  # user factors are fitted to the ratings
    accounted = dataclasses.replace(guarantee, unaccounted=()).certified().epsilon
    assert accounted <= 1.0
    assert accounted == pytest.approx(1.0)
    assert "0.143 + 0.286 + 0.571 = 1" in guarantee.caveats[0]


def build_neighbours():
    """Return data sets that differ in one rating, from one end of the range to the other."""
    ratings = make_ratings()
    k = int(np.flatnonzero((ratings.users == 1) & (ratings.items == 0))[0])
    cases = []
    for value in (1.0, 5.0):
        values = ratings.values.copy()
        values[k] = value
        cases.append(dataclasses.replace(ratings, values=values))
    return cases


def compare_neighbours(settings, refits):
    """By phase, how far linear terms and A lie apart for neighbours who saw the same item factors.

    A: the sum of u u' over an item's raters. refits: which user factors each has, given the run;
    None: its own. Third comes the release of every phase.
    """
    terms, squares, answers = [], [], None
    for ratings, refit in zip(build_neighbours(), refits, strict=True):
        with pytest.MonkeyPatch.context() as patch:
            if refit is not None:
                patch.setattr("dpmc_lab.protocol.scenarios.ScenarioRun.refit_users", refit)
            with privacy.record_publications(replayed=answers) as published:
                run, _ = play_scenario(settings, ratings)
        answers = answers or published
        all_pairs = np.arange(len(run.user_of_pair))
        terms.append(
            [sum_by_item(run, publication.private, all_pairs) for publication in published]
        )
        user_factors = [
            phase.user_factors[run.user_of_pair[run.item_of_pair == 0]] for phase in run.phases
        ]
        squares.append([rows.T @ rows for rows in user_factors])
    distances = [
        [np.abs(first - second) for first, second in zip(*pair, strict=True)]
        for pair in (terms, squares)
    ]
    return *distances, [publication.release for publication in published]


def build_refit(seed):
    """Return a refit with random user factors of length 1: each phase asks for the next."""
    rng = np.random.default_rng(seed)

    def refit(run, items):
        rows = rng.choice([-1.0, 1.0], (run.public.users, items.shape[1]))
        if seed:
            rows = rng.normal(size=rows.shape)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    return refit


@pytest.mark.parametrize("seed", range(4))
def test_given_any_user_factors_the_phases_spend_what_the_card_says(seed):
    """Seed 0 is the worst case, all coordinates alike: the bound is met with equality."""
    settings = StaticUsers(**THREE, shares=Shares.GAMMA)
    distances, squares, releases = compare_neighbours(
        settings, [build_refit(seed), build_refit(seed)]
    )
    assert not np.any(squares)  # A is a function of user factors alone
    spent = 0.0
    for change, release in zip(distances, releases, strict=True):
        assert (change.sum(axis=1) > 1e-12).sum() == 1  # one rating moves one item
        assert change.sum() <= release.sensitivity[RATING] * (1 + 1e-9)
        # what the odds of any answer can change by: Laplace noise, whoever chose the next question
        spent += change.sum() / release.scale
    assert spent <= settings.epsilon * (1 + 1e-9)
    if seed == 0:
        assert spent == pytest.approx(settings.epsilon)


def test_fitted_user_factors_move_other_items_and_a_so_the_card_certifies_nothing():
    """The independent check of `Unaccounted`: what has no noise differs between neighbours."""
    settings = StaticUsers(epsilon=50.0, phases=3, iterations=4, shares=Shares.GAMMA)
    distances, squares, _ = compare_neighbours(settings, [None, None])
    assert all((change.sum(axis=1) > 1e-9).sum() > 1 for change in distances)
    assert all(change.max() > 1e-3 for change in squares)
    guarantee = settings.guarantee(make_ratings().public)
    assert not guarantee.certified().finite
    assert [u.query.split(",")[0] for u in guarantee.unaccounted] == [
        "user factors",
        "the sum of u u' over the factors u of an item's raters",
    ]


def test_with_public_user_factors_the_card_certifies_the_claim():
    public = make_ratings().public
    for shares in Shares:
        settings = StaticUsers(epsilon=0.7, shares=shares, user_factors=HeldUserFactors("random:3"))
        guarantee = settings.guarantee(public)
        assert guarantee.certified().epsilon == pytest.approx(0.7)
        assert guarantee.certified().epsilon <= 0.7
        assert any("that the user factors (random:3)" in caveat for caveat in guarantee.caveats)
    fitted = StaticUsers(epsilon=0.7, user_factors=HeldUserFactors("pmf")).guarantee(public)
    assert not fitted.certified().finite
    assert "fitted on the same ratings" in fitted.certified().reason


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_refitted_factors_stay_at_home_and_read_the_own_ratings_alone(scenario):
    run, _ = play_scenario(scenario(**THREE, shares=Shares.GAMMA), watch=0)
    from_users = {m.kind for m in run.transcript if m.sender not in (RECOMMENDER, THIRD_PARTY)}
    assert from_users <= {ANSWER, HIDDEN_SHARE, ONLINE}
    published_messages = [m for m in run.transcript if m.kind == PUBLISHED]
    assert {m.sender for m in published_messages} == {RECOMMENDER}
    assert {m.round for m in published_messages} == {4, 8, 12}
    original, repeated = (
        play_scenario(scenario(**THREE), data)[0].refit_users(run.items)
        for data in build_neighbours()
    )
    assert np.flatnonzero(np.abs(original - repeated).sum(axis=1) > 1e-12).tolist() == [1]
    assert np.linalg.norm(original, axis=1).max() <= 1 + 1e-12


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_phases_end_where_a_trusted_server_ends_with_the_same_noise_and_steps(scenario):
    run, rounds = play_scenario(scenario(epsilon=1.0, phases=3, iterations=15))
    assert rounds == list(range(1, 46))
    assert run.rounds == 45
    difference = np.abs(run.items - run.phases[0].models[0]).max()
    assert np.abs(run.items - compute_reference_items(run)).max() < 1e-4 * difference
    # and it compares what it says: not with one phase, nor with other noise
    run.phases[1].noise = run.phases[1].noise * 0.5
    assert np.abs(run.items - compute_reference_items(run)).max() > 1e-3 * difference


def test_a_trusted_server_in_phases_follows_the_law_of_a_run():
    """Without noise to speak of and from the same start: the same item factors."""
    settings = StaticUsers(epsilon=1e6, phases=3, iterations=10)
    ratings = make_ratings()
    run, _ = play_scenario(settings, ratings)
    generator = np.random.default_rng(1).spawn(4)[0]
    mechanisms = settings.phase_mechanisms(ratings.public.users)
    items = simulate_phases(settings, mechanisms, run.rating_matrices, ratings.public, generator)
    assert np.abs(items - run.mask_unpublished(run.items)).max() < 1e-3


@pytest.mark.parametrize("shares", list(Shares))
def test_counts_agree_with_the_formula(shares):
    for settings in (
        StaticUsers(**THREE, shares=shares),
        DynamicUsers(**THREE, shares=shares),
        DynamicUsers(**THREE, shares=shares, picked=3),
    ):
        run, _ = play_scenario(settings)
        assert_counts(run, settings.predict_traffic(run.raters, run.public.users))


def test_one_who_leaves_in_a_later_phase_ends_scenario_2_and_not_3():
    leaves = Departures(((6, 1),))
    with pytest.raises(ProtocolAborted, match="round 6 is aborted"):
        play_scenario(StaticUsers(**THREE, leaves=leaves))
    run, rounds = play_scenario(DynamicUsers(**THREE, leaves=leaves))
    assert rounds == list(range(1, 13))
    absent = [1 not in run.user_of_pair[pairs] for phase in run.phases for pairs, _ in phase.steps]
    assert np.flatnonzero(absent).tolist() == [5]
    # who leaves in the last round of a phase, or in the first set-up, is there in the next set-up
    for departure_round in (4, 0):
        leaves = Departures(((departure_round, 1),))
        with privacy.record_publications() as published:
            play_scenario(DynamicUsers(**THREE, leaves=leaves, shares=Shares.GAMMA))
        assert {len(p.private) for p in published[-2:]} == {len(run.user_of_pair)}
    with pytest.raises(InvalidSetting, match=r"rounds 0\.\.12 "):
        play_scenario(DynamicUsers(**THREE, leaves=Departures(((13, 0),))))


def test_an_item_without_noise_in_one_phase_takes_part_in_another():
    settings = DynamicUsers(epsilon=1.0, phases=4, iterations=3, online=0.3)
    ratings = make_ratings(6, 12, 10, 0.5)
    run, _ = play_scenario(settings, ratings)
    active = [set(phase.active) for phase in run.phases]
    assert len({frozenset(a) for a in active}) > 1
    assert set(run.skipped[scenarios.NOISELESS_ITEMS]).isdisjoint(set.union(*active))
    for phase in run.phases:
        assert not np.delete(phase.noise, phase.active, axis=0).any()
        for _, item_positions in phase.steps:
            assert set(item_positions) <= set(phase.active)
    assert np.abs(run.items - compute_reference_items(run)).max() < 1e-3


@pytest.mark.parametrize("picked", [2, 3])
def test_the_recommender_picks_so_many_of_an_item_and_others_each_round(picked):
    settings = DynamicUsers(epsilon=1.0, iterations=6, picked=picked, shares=Shares.GAMMA)
    with privacy.record_publications() as published:
        run, _ = play_scenario(settings)
    expected = np.minimum(run.raters[run.phase.active], picked)
    assert len(published[0].private) == expected.sum()
    groups = []
    for (pairs, item_positions), sums, model in zip(
        run.phase.steps, run.phase.sums, run.phase.models, strict=False
    ):
        counts = np.bincount(run.item_of_pair[pairs], minlength=len(run.items))
        assert counts[run.phase.active].tolist() == expected.tolist()
        groups.append(tuple(pairs))
        # the sum over few holds all of the noise
        slope = sum_by_item(run, run.users.gradient(pairs, model[run.item_of_pair[pairs]]), pairs)
        off = np.abs(sums - slope - run.phase.noise)[item_positions]
        assert off.max() <= run.raters.max() * settings.fixed_point.step
    assert len(set(groups)) == 6
    assert np.abs(run.items - compute_reference_items(run)).max() <= 10 * settings.fixed_point.step


@pytest.mark.slow
@pytest.mark.parametrize("shares", list(Shares))
def test_the_noise_made_by_few_has_the_same_law(shares):
    settings = DynamicUsers(epsilon=1.0, iterations=1, picked=2, shares=shares)
    noise = []
    for seed in range(60):
        run, _ = play_scenario(settings, make_ratings(2, 6, 30, 0.9), seed)
        noise.append(run.phase.noise[run.phase.active])
    assert_drawn_from(np.concatenate(noise), stats.laplace(scale=run.phase.release.scale).cdf)


def test_fewer_picked_than_can_hide_are_refused():
    with pytest.raises(InvalidSetting, match=r"picked must be 0 .* or >= 2"):
        DynamicUsers(epsilon=1.0, picked=1)
    with pytest.raises(InvalidSetting, match=r"picked must be 0 .* or >= 4"):
        DynamicUsers(epsilon=1.0, picked=3, shares=Shares.GAMMA, colluding=3)


def test_held_user_factors_are_the_ones_that_are_used(tmp_path):
    rows = 3 * np.random.default_rng(0).normal(size=(12, 3))
    file = tmp_path / "u.npy"
    np.save(file, rows)
    run, _ = play_scenario(StaticUsers(epsilon=1.0, user_factors=HeldUserFactors(str(file))))
    assert np.allclose(run.phase.user_factors, rows / np.linalg.norm(rows, axis=1)[:, None])
    fitted, _ = play_scenario(StaticUsers(epsilon=1.0, user_factors=HeldUserFactors("pmf")))
    assert len(fitted.phases) == 1
    refitted = play_scenario(StaticUsers(epsilon=1.0))[0].refit_users(fitted.phases[0].models[0])
    assert not np.allclose(fitted.phase.user_factors, refitted)


@pytest.fixture(scope="module")
def movie_night():
    return build_problem(datasets.load("movie-night"), Task.RATINGS)


@pytest.mark.slow
def test_refit_and_split_make_up_the_difference_from_scenario_1(movie_night):
    gap = measure_gap(StaticUsers(epsilon=3.0), movie_night, 0, draws=2)
    assert gap.phases == 2
    excess = gap.distributed.mean - gap.trusted.mean
    assert gap.refit.mean + gap.split.mean == pytest.approx(excess)
    noisier = measure_gap(StaticUsers(epsilon=1.0), movie_night, 0, draws=2)
    assert noisier.phases == 1
    assert noisier.split == (0.0, 0.0)
    assert noisier.refit.mean > 5 * noisier.refit.error
    held = StaticUsers(epsilon=1.0, user_factors=HeldUserFactors("pmf"))
    with_held_factors = measure_gap(held, movie_night, 0, draws=2)
    assert with_held_factors.held
    assert abs(with_held_factors.refit.mean) < 0.005
