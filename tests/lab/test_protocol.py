"""Scenarios 2 and 3: the result of scenario 1, counted messages, attacks, drop-outs."""

import copy
import dataclasses

import numpy as np
import pytest
from scipy import stats

from dpmc_core import privacy
from dpmc_core.errors import InvalidSetting
from dpmc_core.privacy import RATING, Shares
from dpmc_lab.protocol import RECOMMENDER, THIRD_PARTY, FixedPoint, Traffic, attacks, scenarios
from dpmc_lab.protocol.scenarios import (
    ANSWER,
    HIDDEN_NOISE,
    HIDDEN_SHARE,
    MODEL,
    RESTART,
    SUM,
    Departures,
    DynamicUsers,
    HeldUserFactors,
    ProtocolAborted,
    ScenarioRun,
    StaticUsers,
)
from tests.protocol_helpers import (
    SCENARIOS,
    assert_counts,
    compute_reference_items,
    list_received,
    make_ratings,
    play_scenario,
)
from tests.statistics_helpers import assert_drawn_from, assert_frequencies


@pytest.mark.parametrize("shares", list(Shares))
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_result_is_scenario_1_with_the_same_noise_up_to_the_fixed_point_step(scenario, shares):
    settings = scenario(epsilon=1.0, shares=shares, iterations=15)
    run, rounds = play_scenario(settings)
    assert rounds == list(range(1, 16))
    difference = np.abs(run.items - run.phase.models[0]).max()
    # a round's sum is off by half a step for each user (twice: gradient and noise), its step size
    # is 1 / (2 (k + penalty)), and errors of earlier rounds do not grow
    bound = 15 * settings.fixed_point.step
    assert np.abs(run.items - compute_reference_items(run)).max() <= bound < 1e-4 * difference


@pytest.mark.parametrize("shares", list(Shares))
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_noise_in_the_sums_is_laplace_of_scenario_1s_scale(scenario, shares):
    settings = scenario(epsilon=1.0, shares=shares, iterations=1)
    ratings = make_ratings(2, 6, 30, 0.9)
    noise, scale = [], 0.0
    for seed in range(60):
        run, _ = play_scenario(settings, ratings, seed)
        noise.append(run.phase.noise[run.phase.active])
        scale = run.phase.release.scale
    assert scale == pytest.approx(2 * 4 * np.sqrt(3))
    assert_drawn_from(np.concatenate(noise), stats.laplace(scale=scale).cdf)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_release_is_published_once_and_certified_as_scenario_1s(scenario):
    settings = scenario(epsilon=0.8, shares=Shares.GAMMA)
    with privacy.record_publications() as published:
        play_scenario(settings)
    guarantee = settings.guarantee(make_ratings().public)
    queries = [term.query for term in guarantee.releases.linear_term]
    assert [publication.release.query for publication in published] == queries
    assert not guarantee.certified().finite  # user factors fitted on the same ratings
    public_input = dataclasses.replace(guarantee, unaccounted=())
    assert public_input.certified().epsilon == pytest.approx(0.8)


@pytest.mark.parametrize("colluding", [0, 1])
@pytest.mark.parametrize("masks", [True, False])
@pytest.mark.parametrize("shares", list(Shares))
def test_scenario_2_counts_agree_with_the_formula(shares, masks, colluding):
    if colluding and shares is Shares.GAUSSIAN:
        pytest.skip("Gaussian shares allow no collusion")
    options = {"shares": shares, "masks": masks, "colluding": colluding}
    settings = StaticUsers(epsilon=1.0, iterations=4, rank=2, **options)
    run, _ = play_scenario(settings)
    assert_counts(run, settings.predict_traffic(run.raters, run.public.users))


def test_scenario_3_counts_agree_with_the_formula_when_a_user_leaves():
    settings = DynamicUsers(epsilon=1.0, iterations=3, leaves=Departures(((2, 1),)))
    run, _ = play_scenario(settings)
    pairs, items = len(run.user_of_pair), len(run.phase.active)
    rated_items = run.item_of_pair[run.user_of_pair == 1]
    n_repeated = int(np.isin(run.item_of_pair, rated_items).sum()) - len(rated_items)
    d = settings.rank  # that round's items of the user who left are tried again, by all others
    expected = settings.predict_traffic(run.raters, run.public.users) | {
        MODEL: Traffic.from_messages(3 * pairs + n_repeated, 3 * d),
        ANSWER: Traffic.from_messages(3 * pairs - len(rated_items) + n_repeated, d),
        RESTART: Traffic.from_messages(len(rated_items), 1),
        SUM: Traffic.from_messages(3 * items, d),
    }
    assert_counts(run, expected)


def test_kept_messages_have_the_counted_sizes():
    ratings = make_ratings(3, 5, 3, 1.0)
    item_ratings = ratings.select(ratings.items == 0)
    settings = StaticUsers(epsilon=1.0, iterations=2)
    run, _ = play_scenario(settings, item_ratings, watch=0)
    assert len(run.transcript) == run.transcript.total.messages
    assert sum(m.bytes for m in run.transcript) == run.transcript.total.bytes
    assert all(m.summary for m in run.transcript)
    assert run.transcript[0].sender == RECOMMENDER
    message_kinds = {m.kind for m in list_received(run.transcript, THIRD_PARTY)}
    assert message_kinds == {ANSWER}  # no ratings, no factors, no masks


def test_the_third_party_sees_uniform_numbers_whatever_the_ratings():
    """Top bits of masked answers: uniform, and independent of the rating behind them."""
    settings = StaticUsers(epsilon=5.0, iterations=150)
    ratings = make_ratings(4)
    for data in (ratings, dataclasses.replace(ratings, values=6 - ratings.values)):
        run, _ = play_scenario(settings, data, watch=0)
        assert_uniform(m.payload["answer"] for m in run.transcript if m.kind == ANSWER)


def assert_uniform(residues):
    """Check the top three of 48 bits, at the false-alarm rate of `assert_frequencies`."""
    top = (np.concatenate([np.ravel(w) for w in residues]) >> np.uint64(45)).astype(int)
    assert_frequencies(np.bincount(top, minlength=8), np.full(8, 1 / 8))


@pytest.mark.parametrize("shares", list(Shares))
def test_in_scenario_3_each_party_sees_uniform_numbers(shares):
    """What the third party is sent, what it knows of the sums with its own secret, and what the
    recommender holds of the noise. Planted bugs: secret 0; shares, or gradients, without a mask."""
    settings = DynamicUsers(epsilon=5.0, shares=shares, iterations=5)
    sent, sums, received = {HIDDEN_SHARE: [], ANSWER: []}, [], []
    for seed in range(40):
        run, _ = play_scenario(settings, make_ratings(4), seed, watch=0)
        for m in run.transcript:
            if m.kind in sent:
                sent[m.kind].append(m.payload["answer"])
            elif m.kind in (SUM, HIDDEN_NOISE):  # as the third party has it, but for its secret
                sums.append(m.payload["sum"])
        received.append(run.recommender.noise[run.phase.active])
    for residues in (*sent.values(), sums, received):
        assert_uniform(residues)


@pytest.mark.parametrize("shares", list(Shares))
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_parties_draw_from_generators_of_their_own(scenario, shares):
    """None of them could replay what another draws: their streams have no number in common."""
    run = ScenarioRun(
        scenario(epsilon=1.0, shares=shares), make_ratings(), np.random.default_rng(1)
    )
    generators = (run.rng, run.recommender.rng, run.third_party.rng)
    streams = [copy.deepcopy(rng).integers(0, 2**64, 2000, dtype=np.uint64) for rng in generators]
    assert len(np.unique(np.concatenate(streams))) == 6000  # by chance less: 1e-12


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_a_party_draws_depends_on_its_own_generator_alone(scenario):
    """Another recommender: the users' Gamma shares and the third party's secret are the same.
    Planted bugs: a secret drawn from the recommender's stream, or equal to its masks."""
    payloads = []
    for other in (False, True):
        settings = scenario(epsilon=1.0, shares=Shares.GAMMA, iterations=1)
        run = ScenarioRun(settings, make_ratings(), np.random.default_rng(1))
        if other:
            run.recommender.rng = np.random.default_rng(99)
        list(run.play())
        payloads.append((run.phase.noise, run.third_party.secret))
    assert np.array_equal(payloads[0][0], payloads[1][0])
    assert np.array_equal(payloads[0][1], payloads[1][1])
    assert payloads[0][1].any() == (scenario is DynamicUsers)


class FixedUserFactors(HeldUserFactors):
    """Any user factors, held fixed."""

    public = None

    def load(self, *_):
        return self.source


def test_long_user_factors_move_no_linear_term_further_than_stated():
    """Every rating from one end of the range to the other. Planted bug: factors that are not cut
    to the unit ball."""
    ratings, factors = make_ratings(), 3 * np.random.default_rng(9).normal(size=(12, 3))
    settings = StaticUsers(epsilon=1.0, iterations=1, user_factors=FixedUserFactors(factors))
    ends = []
    for value in (1.0, 5.0):
        data = dataclasses.replace(ratings, values=np.full(len(ratings), value))
        with privacy.record_publications() as published:
            play_scenario(settings, data)
        ends.append(published[0].private)
    max_change = np.abs(ends[0] - ends[1]).sum(axis=1).max()
    stated = published[0].release.sensitivity[RATING]
    assert 0.8 * stated <= max_change <= stated * (1 + 1e-9)


@pytest.mark.parametrize(
    "settings",
    [
        StaticUsers(epsilon=1.0, iterations=3, masks=False),
        StaticUsers(epsilon=1.0, iterations=3),
        DynamicUsers(epsilon=1.0, iterations=3),
    ],
)
def test_the_difference_attack_works_without_masks_and_fails_with_them(settings):
    run, _ = play_scenario(settings, watch=0)
    everyone, has_masks = attacks.run_difference_attack(run), getattr(settings, "masks", True)
    assert len(everyone) == run.raters[0]
    for recovered in everyone:
        assert recovered.succeeds is not has_masks
        if has_masks:
            assert recovered.error > 1e3 * np.abs(recovered.truth).max()


def test_an_active_recommender_reads_a_off_the_noisy_sums():
    run, _ = play_scenario(StaticUsers(epsilon=0.1, iterations=20), watch=0)
    truth = attacks.compute_true_squares(run, 0)
    recovered = attacks.recover_squares_actively(
        attacks.build_sum_query(run, 0), truth.shape[0], attacks.compute_longest_reach(run, 0)
    )
    assert np.abs(recovered - truth).max() <= 1e-8
    sums = [s[0] for s in run.phase.sums]
    models = [v[0] for v in run.phase.models[:-1]]
    passive = attacks.recover_squares_passively(models, sums)
    assert np.abs(passive - truth).max() > 100 * np.abs(recovered - truth).max()


@pytest.mark.parametrize("shares", list(Shares))
def test_a_listening_recommender_gets_single_gradients_where_one_round_misses_a_user(shares):
    settings = DynamicUsers(
        epsilon=0.1, shares=shares, iterations=12, leaves=Departures(((6, 1), (9, 2)))
    )
    run, _ = play_scenario(settings)
    recovered = attacks.run_attendance_attack(run, 0)
    assert [f.user for f in recovered] == ["user 1", "user 2"]
    for gradient, (round, user) in zip(recovered, settings.leaves.departures, strict=True):
        (pair,) = np.flatnonzero((run.user_of_pair == user) & (run.item_of_pair == 0))
        expected = run.users.gradient(np.array([pair]), run.phase.models[round - 1][[0]])[0]
        assert np.array_equal(gradient.truth, expected)  # of the round the user was absent from
    assert all(f.relative_error < 1e-3 and f.succeeds for f in recovered)
    # It hid nothing.
    assert all(np.abs(f.truth).max() < run.phase.release.scale / 5 for f in recovered)


@pytest.mark.slow
def test_a_listening_recommender_gets_every_gradient_where_attendance_is_left_to_chance():
    settings = DynamicUsers(epsilon=0.5, shares=Shares.GAMMA, iterations=60, online=0.6)
    run, _ = play_scenario(settings)
    recovered = attacks.run_attendance_attack(run, 0)
    assert len(recovered) == run.raters[0]
    assert all(f.succeeds for f in recovered)


def test_the_attendance_attack_finds_nothing_where_noise_is_fresh_or_all_are_there():
    settings = DynamicUsers(epsilon=0.5, iterations=12, leaves=Departures(((6, 1),)))
    run, _ = play_scenario(settings)
    rng = np.random.default_rng(0)
    # what the repair would do: other noise wherever other people are summed
    sums, scale = run.phase.sums, run.phase.release.scale
    sums[5] = sums[5] + rng.laplace(0, scale, sums[5].shape)
    assert not any(f.succeeds for f in attacks.run_attendance_attack(run, 0))
    for scenario in SCENARIOS:
        run, _ = play_scenario(scenario(epsilon=0.5, iterations=12))
        assert attacks.run_attendance_attack(run, 0) == []


def test_the_card_of_scenario_3_says_that_single_gradients_are_covered_by_nothing():
    public = make_ratings().public
    for settings in (DynamicUsers(epsilon=1.0), StaticUsers(epsilon=1.0)):
        guarantee = settings.guarantee(public)
        listed = any("gradients of single users" in u.query for u in guarantee.unaccounted)
        assert listed is isinstance(settings, DynamicUsers)
        # not even with user factors that are public and nothing else in the way
        only = dataclasses.replace(
            guarantee, unaccounted=tuple(u for u in guarantee.unaccounted if "single" in u.query)
        )
        assert only.certified().finite is not listed


def test_in_scenario_2_a_user_who_leaves_the_set_up_ends_the_run_before_any_answer():
    settings = StaticUsers(epsilon=1.0, iterations=5, leaves=Departures(((0, 2),)))
    run = ScenarioRun(settings, make_ratings(), np.random.default_rng(0), watch=0)
    with pytest.raises(ProtocolAborted, match=r"the set-up is aborted: user 2 left .*costs nothin"):
        list(run.play())
    assert ANSWER not in run.transcript.traffic
    assert not run.phase.sums
    # who takes no part at all may go
    play_scenario(StaticUsers(epsilon=1.0, iterations=2, leaves=Departures(((0, 11),))))
    # masked answers of a first round that is never summed tell nobody anything
    for masks, message in ((True, "costs nothing"), (False, "spends epsilon again")):
        settings = StaticUsers(epsilon=1.0, masks=masks, leaves=Departures(((1, 2),)))
        with pytest.raises(ProtocolAborted, match=message):
            play_scenario(settings)


@pytest.mark.parametrize("round", [0, 2])
def test_in_scenario_3_a_user_who_leaves_changes_neither_noise_nor_result(round):
    settings = DynamicUsers(epsilon=1.0, iterations=4, leaves=Departures(((round, 1),)))
    run, rounds = play_scenario(settings, watch=0)
    assert rounds == [1, 2, 3, 4]
    # the noise in each round's sum is the whole noise, whoever answered
    user_factors, group, phase = run.users.factors, run.item_of_pair, run.phase
    for (pairs, item_positions), sums, model in zip(
        phase.steps, phase.sums, phase.models, strict=False
    ):
        slope = np.zeros_like(run.items)
        np.add.at(slope, group[pairs], run.users.gradient(pairs, model[group[pairs]]))
        gap = np.abs(sums - slope - run.phase.noise)[item_positions]
        assert gap.max() <= run.raters.max() * settings.fixed_point.step
        assert np.array_equal(np.unique(group[pairs]), item_positions)
    assert np.abs(run.items - compute_reference_items(run)).max() <= 10 * settings.fixed_point.step
    departed = run.user_of_pair[run.phase.steps[round - 1][0]] if round else np.empty(0)
    assert 1 not in departed
    assert len(user_factors) == len(group)


@pytest.mark.slow
def test_in_scenario_3_the_noise_has_the_same_law_with_and_without_a_user_leaving():
    ratings = make_ratings(5, 5, 20, 1.0)
    for leaves in (Departures(), Departures(((0, 1),))):
        settings = DynamicUsers(epsilon=1.0, iterations=1, leaves=leaves)
        noise = []
        for seed in range(80):
            run, _ = play_scenario(settings, ratings, seed)
            noise.append(run.phase.noise[run.phase.active])
        assert_drawn_from(np.concatenate(noise), stats.laplace(scale=run.phase.release.scale).cdf)


def test_in_scenario_3_nothing_of_who_left_reaches_the_others():
    """Another rating of the user who left gives the same transcript of that round."""
    ratings = make_ratings()
    k = int(np.flatnonzero((ratings.users == 1) & (ratings.items == 0))[0])
    values = ratings.values.copy()
    values[k] = 6 - values[k] if values[k] != 3 else 5
    fixed_factors = FixedUserFactors(np.random.default_rng(9).normal(size=(12, 3)))
    leaves = Departures(((1, 1),))
    settings = DynamicUsers(epsilon=1.0, iterations=1, leaves=leaves, user_factors=fixed_factors)
    received = []
    for data in (ratings, dataclasses.replace(ratings, values=values)):
        run, _ = play_scenario(settings, data, watch=0)
        received.append([(m.sender, m.receiver, m.kind, m.summary) for m in run.transcript])
    assert received[0] == received[1]
    assert any(kind == RESTART for _, _, kind, _ in received[0])
    # and the second try uses fresh masks and pieces: no number is sent twice
    models = [m.payload for m in run.transcript if m.kind == MODEL]
    residues = [number for model in models for number in (*model["mask"], *model["piece"])]
    assert len(residues) == len(set(residues))


def test_items_too_few_were_there_to_make_noise_for_take_no_part_and_are_listed():
    settings = DynamicUsers(epsilon=1.0, iterations=8, online=0.3)
    ratings = make_ratings(6, 12, 10, 0.5)
    run, _ = play_scenario(settings, ratings)
    unmade = set(run.skipped[scenarios.NOISELESS_ITEMS])
    assert 0 < len(unmade) < 8
    assert unmade.isdisjoint(run.phase.active)
    assert unmade.isdisjoint(
        {*run.skipped[scenarios.UNRATED_ITEMS], *run.skipped[scenarios.RARE_ITEMS]}
    )
    other_items = {
        *run.phase.active,
        *run.skipped[scenarios.UNRATED_ITEMS],
        *run.skipped[scenarios.RARE_ITEMS],
    }
    assert unmade | other_items == set(range(10))
    for item in range(10):
        summed = any(item in item_positions for _, item_positions in run.phase.steps)
        assert not (item in unmade and summed)
        assert np.array_equal(run.phase.noise[item], np.zeros(3)) is (item not in run.phase.active)
    # No factors: the middle of the range.
    assert not run.build_model().right[sorted(unmade), :3].any()
    full_run, _ = play_scenario(DynamicUsers(epsilon=1.0, iterations=2), ratings)
    assert len(full_run.skipped[scenarios.NOISELESS_ITEMS]) == 0


def test_fixed_point_goes_there_and_back_and_masks_vanish():
    rng = np.random.default_rng(0)
    for bits, fraction in ((16, 4), (48, 20), (64, 30)):
        fixed = FixedPoint(modulus_bits=bits, fraction_bits=fraction)
        values = rng.uniform(-1, 1, (50, 3)) * fixed.max_sum / 60
        encoded = fixed.encode(values, 50, "value")
        assert np.abs(fixed.decode(encoded) - values).max() <= fixed.step / 2
        masks = fixed.sample_uniform(encoded.shape, rng)
        groups = np.zeros(50, dtype=np.int64)
        hidden = fixed.sum_groups(fixed.reduce(encoded + masks), groups, 1)
        decoded = fixed.decode(fixed.reduce(hidden - fixed.sum_groups(masks, groups, 1)))
        slack = 25 * fixed.step + 1e-12 * fixed.max_sum
        assert np.abs(decoded[0] - values.sum(axis=0)).max() <= slack
        assert int(masks.max()) < 2**bits


def test_sums_that_would_wrap_around_are_refused_never_silent():
    fixed = FixedPoint(modulus_bits=16, fraction_bits=8)
    fixed.encode([60.0], 2, "a user's gradient")
    with pytest.raises(InvalidSetting, match=r"a user's gradient must be within \+-.*wrap around"):
        fixed.encode([70.0], 2, "a user's gradient")
    with pytest.raises(InvalidSetting, match="wrap around"):
        fixed.encode([np.nan], 2, "a user's gradient")
    for scenario in SCENARIOS:
        with pytest.raises(InvalidSetting, match="raise modulus_bits or lower fraction_bits"):
            play_scenario(scenario(epsilon=0.01, modulus_bits=24, fraction_bits=20))


def test_leaves_have_a_text_form_and_must_fit_the_run():
    assert Departures.parse("3:1,5:2") == Departures(((3, 1), (5, 2)))
    assert str(Departures.parse("3:1,5:2")) == "3:1,5:2"
    assert Departures.parse(str(Departures())) == Departures()
    for text in ("3", "a:b", "1:2:3", "1:-2"):
        with pytest.raises(InvalidSetting, match="leaves must be ROUND:USER"):
            Departures.parse(text)
    for departure in ((99, 0), (1, 99)):
        with pytest.raises(InvalidSetting, match="leaves must be ROUND:USER with rounds"):
            play_scenario(DynamicUsers(epsilon=1.0, leaves=Departures((departure,))))


def test_a_watched_item_must_have_raters_to_hide_behind():
    for item in (6, 7, 99):
        with pytest.raises(InvalidSetting, match="watched item must be"):
            play_scenario(StaticUsers(epsilon=1.0), watch=item)


def test_who_takes_no_part_is_reported():
    run, _ = play_scenario(StaticUsers(epsilon=1.0, iterations=2))
    assert run.skipped[scenarios.UNRATED_ITEMS].tolist() == [7]
    assert run.skipped[scenarios.RARE_ITEMS].tolist() == [6]
    assert run.skipped[scenarios.SILENT_USERS].tolist() == [11]
    assert np.array_equal(run.items[6:], run.phase.models[0][6:])  # data-free
    settings = StaticUsers(epsilon=1.0, iterations=2, shares=Shares.GAMMA, colluding=5)
    hardened, _ = play_scenario(settings)
    rare_items = np.flatnonzero(np.isin(hardened.raters, range(1, 6)))
    assert set(hardened.skipped[scenarios.RARE_ITEMS]) == set(rare_items)
