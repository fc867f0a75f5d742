"""Audits find what is wrong, say nothing of what is right, and repeat with their seed.

Of honest mechanisms the canaries refute 1 in 10,000 at other seeds, and the test of the noise's
law accuses as many; the probe refutes none. At the seed used here an assertion always holds or
always fails.
"""

from __future__ import annotations

import dataclasses
import json
import math
import threading

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.errors import CannotRelease, InvalidSetting
from dpmc_core.privacy import (
    CELL,
    RATING,
    ROW_VALUES,
    USER_EMPTIED,
    USER_REPLACED,
    Change,
)
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_lab.audit import AuditMethod, Refuted, audit_mechanism, generate_small_ratings
from dpmc_lab.audit.canaries import Scorer, build_plans
from dpmc_lab.audit.probe import RatingTable, generate_neighbours, mutate_pair, record_history
from dpmc_lab.measured import _load_records, find_measured_bound
from dpmc_lab.study.release import export_release
from dpmc_lab.views import audits
from dpmc_lab.views.audits import build_known_instance, measure_rating_influence
from tests import noise_law
from tests.flawed_mechanisms import PlantedFault, plant_fault

LOCAL = ["input-flip", "private-majority", "modified-laplace", "randomised-response", "dplcf"]
ADDITIVE = ["objective", "gradient", "private-mean", "private-popularity", "private-taste"]


def run_audit(id, **options):
    mechanism = registry.create(id, epsilon=options.pop("epsilon", 1.0))
    return audit_mechanism(mechanism, **{"runs": 12} | options)


@pytest.mark.slow
@pytest.mark.parametrize("id", LOCAL + ADDITIVE)
def test_an_honest_certificate_is_not_refuted(id):
    report = run_audit(id)
    assert report.refuted is Refuted.NOTHING
    assert report.valid
    for finding in report.findings:
        if finding.method is AuditMethod.PROBE:
            assert finding.epsilon <= report.certified.epsilon * (1 + 1e-9)
    assert all(release.fits for finding in report.findings for release in finding.releases)


@pytest.mark.parametrize("id", ["objective", "gradient", "private-mean", "private-popularity"])
def test_a_tight_certificate_is_measured_in_full(id):
    """Where the card is tight the probe shows it, with the pair."""
    report = run_audit(id, methods=[AuditMethod.PROBE])
    assert report.measured == pytest.approx(1.0, rel=1e-6)
    assert report.best.confidence is None
    assert report.best.pair.items


@pytest.mark.slow
@pytest.mark.parametrize(
    ("id", "flaw"),
    [
        *((id, PlantedFault.HALVED) for id in LOCAL + ADDITIVE),
        *(
            (id, PlantedFault.SHARED)
            for id in ("input-flip", "dplcf", "objective", "gradient", "private-popularity")
        ),
        ("private-popularity", PlantedFault.UNCLIPPED),
        ("private-svd", PlantedFault.UNCLIPPED),
        ("private-pgd", PlantedFault.UNCLIPPED),
        ("dpals", PlantedFault.UNCLIPPED),
    ],
)
def test_a_planted_fault_is_noticed(id, flaw):
    """At any seed but 1 in 1,000: halved noise is told from its density by 20,000 draws, one draw
    by the first two numbers, and a clip by a row that it would have cut."""
    mechanism = registry.create(id, epsilon=1.0)
    public = generate_small_ratings(mechanism).public
    if flaw is PlantedFault.UNCLIPPED:
        planted = plant_fault(mechanism, flaw, public)
        for method, refuted in ((mechanism, Refuted.NOTHING), (planted, Refuted.CERTIFICATE)):
            report = audit_mechanism(method, methods=[AuditMethod.PROBE], runs=12)
            assert report.refuted is refuted
        return
    guarantee = mechanism.guarantee(public)
    assert not noise_law.find_misfits(guarantee, guarantee)
    assert noise_law.find_misfits(guarantee, plant_fault(mechanism, flaw, public).guarantee(public))


@pytest.mark.slow
def test_an_uncertified_mechanism_has_no_certificate_to_refute():
    report = run_audit("dpmf", methods=[AuditMethod.PROBE], runs=2)
    assert math.isinf(report.certified.epsilon)
    assert report.refuted is Refuted.CLAIM
    assert report.findings[0].given  # the solver starts at random


@pytest.mark.slow
def test_stop_gives_what_there_is():
    stop = threading.Event()

    def tell(*args):
        if args[2] == "canaries":
            stop.set()

    mechanism = registry.create("private-item-mean", epsilon=1.0)
    report = audit_mechanism(mechanism, runs=8, on_progress=tell, stop=stop.is_set)
    assert report.stopped
    assert {f.method for f in report.findings} == {AuditMethod.PROBE, AuditMethod.CANARIES}
    assert [f.valid for f in report.findings] == [True, False]
    assert report.measured == report.findings[0].epsilon
    assert len(repr(report)) < 400
    assert f"measured={report.measured:.3g}" in repr(report)


def test_what_cannot_be_audited_is_refused():
    mechanism = registry.create("private-mean", epsilon=1.0)
    with pytest.raises(InvalidSetting, match="the fault in private-mean must be halved"):
        plant_fault(mechanism, PlantedFault.SHARED, generate_small_ratings(mechanism).public)
    with pytest.raises(InvalidSetting, match="runs must be >= 2"):
        run_audit("private-mean", runs=1)
    public = PublicFacts(users=2, items=2, low=-1, high=1)
    lone_ratings = Ratings.build([1, 1], [0, 1], [1.0, -1.0], public)
    with pytest.raises(InvalidSetting, match="users with ratings must be >= 2, got 1"):
        run_audit("objective", ratings=lone_ratings)
    huge = PublicFacts(users=10_000, items=10_000, low=-1, high=1)
    with pytest.raises(InvalidSetting, match="users x items must be at most 4,000,000"):
        run_audit("objective", ratings=Ratings.build([0, 1], [0, 1], [1.0, -1.0], huge))
    clicks = run_audit("dplcf", change=RATING)
    assert {method for method, _ in clicks.skipped} >= {AuditMethod.PROBE, AuditMethod.CANARIES}


# Faults


NOISY = [id for id, cls in registry.MECHANISMS.items() if registry.adds_noise(cls)]


@pytest.mark.parametrize(
    ("id", "flaw"),
    [("private-popularity", flaw) for flaw in PlantedFault] + [("input-flip", PlantedFault.HALVED)],
)
def test_a_planted_fault_is_never_exported(id, flaw):
    mechanism = registry.create(id, epsilon=1.0)
    ratings = generate_small_ratings(mechanism)
    with pytest.raises(CannotRelease, match="planted fault"):
        export_release(plant_fault(mechanism, flaw, ratings.public), ratings)


# Pairs of rows


def build_table(cap=None, clicks=False):
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((8, 6)) < 0.4)
    values = np.ones(len(users)) if clicks else rng.integers(1, 6, len(users))
    public = PublicFacts(users=8, items=6, low=0 if clicks else 1, high=1 if clicks else 5, cap=cap)
    keep = np.array([sum(users[:k] == u) < (cap or 9) for k, u in enumerate(users)])
    return RatingTable.from_ratings(Ratings.build(users[keep], items[keep], values[keep], public))


@pytest.mark.parametrize("change", Change)
@pytest.mark.parametrize("cap", [None, 3])
def test_pairs_are_neighbours_and_stay_so(change, cap):
    table, rng = build_table(cap), np.random.default_rng(1)
    pairs = generate_neighbours(table, change, rng)
    for _ in range(60):
        rows = next(pairs)
        for _ in range(3):
            rows = mutate_pair(rows, table, change, rng)
            masks = [~np.isnan(row) for row in (rows.before, rows.after)]
            assert max(map(np.count_nonzero, masks)) <= table.max_row_ratings
            differing = len(rows.to_changed_row().items)
            if change in (RATING, ROW_VALUES):
                assert (masks[0] == masks[1]).all()
            if change in (RATING, CELL):
                assert differing <= 1
            if change is USER_EMPTIED:
                assert not masks[1].any()


# Canaries


@pytest.mark.parametrize("change", Change)
def test_canaries_are_of_the_unit(change):
    for clicks in (False, True):
        if clicks and change in (RATING, ROW_VALUES):
            continue
        for plan in build_plans(build_table(clicks=clicks), change, np.random.default_rng(0)):
            coins = np.random.default_rng(1).random(plan.count) < 0.5
            for canary in range(plan.count):
                flipped_coins = coins.copy()
                flipped_coins[canary] ^= True
                first, second = (
                    RatingTable.from_ratings(plan.build_ratings(c)).values if c.any() else None
                    for c in (coins, flipped_coins)
                )
                if first is None or second is None:
                    continue
                is_equal = (first == second) | (np.isnan(first) & np.isnan(second))
                users, cells = np.unique(np.nonzero(~is_equal)[0]), np.count_nonzero(~is_equal)
                assert len(users) == 1
                if change in (RATING, CELL):
                    assert cells == 1
                if change in (RATING, ROW_VALUES):
                    assert (np.isnan(first) == np.isnan(second)).all()
                if change is USER_EMPTIED:
                    assert np.isnan(first[users]).all() != np.isnan(second[users]).all()


def test_all_scores_at_once_are_those_of_one_canary_after_another():
    mechanism = registry.create("objective", epsilon=1.0)
    ratings = generate_small_ratings(mechanism)
    (plan,) = build_plans(RatingTable.from_ratings(ratings), RATING, np.random.default_rng(0))
    plan = plan.keep_first(12)
    history = record_history(mechanism, plan.build_ratings(np.arange(12) % 3 == 0), 1)
    scorer = Scorer(mechanism, plan, history, 3)
    at_once, one_by_one = scorer.score_together([0]), list(scorer.score_each())
    # beside the others' middle, a half that the middle is not taken from
    assert at_once == pytest.approx(one_by_one, abs=1e-9)


# One history for two data sets


# The law of the noise


# Output perturbation


def test_one_rating_lights_up_the_matrix():
    """40 x 400 signs: the matrix moves by about 51 in l1 where the proof allows 2."""
    mechanism, ratings, position = build_known_instance()
    influence = measure_rating_influence(mechanism, ratings, position)
    assert influence.changes.shape == (40, 400)
    assert influence.total == pytest.approx(influence.changes.sum()) == pytest.approx(51, rel=0.05)
    assert influence.allowed == 2.0
    assert influence.epsilon == pytest.approx(influence.total / 2)
    assert 3 * influence.claimed <= influence.epsilon
    assert influence.epsilon <= mechanism.guarantee(ratings.public).certified().epsilon
    assert influence.cells > 300
    with pytest.raises(InvalidSetting, match="position of the rating"):
        measure_rating_influence(mechanism, ratings, len(ratings))


# What ships


def test_what_was_measured_ships_for_every_mechanism_as_it_is_now():
    """After a change of results: python benchmarks/audits.py --shipped"""
    for id in NOISY:
        bound = find_measured_bound(registry.create(id, epsilon=1.0))
        assert bound is not None, id
        assert bound.measured >= 0
        assert Refuted(bound.refuted) is not Refuted.CERTIFICATE
        mechanism = registry.create(id, epsilon=1.0)
        guarantee = mechanism.guarantee(generate_small_ratings(mechanism).public)
        proved = guarantee.certified(bound.change, bound.delta).epsilon
        assert bound.measured <= proved * (1 + 1e-9), id
    assert set(_load_records()) == set(NOISY)


def test_a_tick_is_for_these_settings_alone():
    assert find_measured_bound(registry.create("input-flip", epsilon=2.0)) is None
    assert find_measured_bound(registry.create("output", epsilon=1.0, bound=0.2)) is None
    mechanism = registry.create("output", epsilon=1.0)
    assert find_measured_bound(mechanism).refuted == "claim"
    newer = type("Newer", (type(mechanism),), {"revision": 99})
    assert find_measured_bound(newer(epsilon=1.0)) is None
    public = PublicFacts(users=5, items=5, low=-1, high=1)
    assert find_measured_bound(plant_fault(mechanism, PlantedFault.HALVED, public)) is None
    assert dataclasses.is_dataclass(find_measured_bound(mechanism))


def test_canaries_notice_halved_noise():
    """Randomised response on bits, 1,000 canaries: 1.65 measured where 1 is certified."""
    mechanism = registry.create("dplcf", epsilon=1.0)
    halved = plant_fault(mechanism, PlantedFault.HALVED, generate_small_ratings(mechanism).public)
    report = audit_mechanism(halved, methods=[AuditMethod.CANARIES], runs=12)
    assert report.refuted is Refuted.CERTIFICATE
    assert report.measured > 1.3
    assert report.findings[0].canaries == 1000


def test_a_bound_for_another_unit_is_held_against_that_unit():
    report = run_audit("private-popularity", change=USER_REPLACED, methods=[AuditMethod.PROBE])
    assert report.claimed is None
    assert 1 < report.measured <= report.certified.epsilon


def test_numbers_follow_the_seed_and_nothing_else():
    first, repeated, third = (run_audit("input-flip", seed=seed).as_dict() for seed in (1, 1, 2))
    assert first == repeated
    assert first["findings"] != third["findings"]
    assert json.loads(json.dumps(first, allow_nan=False)) == first


def test_a_bound_above_the_certificate_by_chance_refutes_nothing():
    """Found among the first 40 seeds but once in 8 (5 % each)."""
    mechanism = registry.create("dplcf", epsilon=1.0)
    options = {"methods": [AuditMethod.CANARIES]}
    reports = (audit_mechanism(mechanism, seed=seed, **options) for seed in range(1, 41))
    above = next(report for report in reports if report.measured > 1)
    assert above.refuted is Refuted.NOTHING
    assert audits.describe_audit(above).endswith("try another seed.")
