"""One contract for every method of the registry, mechanisms and baselines alike."""

import dataclasses
import functools
import random
import re
from typing import NamedTuple

import numpy as np
import pytest

from dpmc_core import privacy, registry
from dpmc_core.arrays import FactorAxis, ItemAxis, UserAxis
from dpmc_core.errors import InvalidSetting
from dpmc_core.links import Probit
from dpmc_core.mechanisms.dpimf import Profiles
from dpmc_core.mechanisms.factorization import NoiseForm
from dpmc_core.mechanisms.frank_wolfe import StepRule
from dpmc_core.mechanisms.one_bit import OutputBound
from dpmc_core.mechanisms.plain import Similarity
from dpmc_core.mechanisms.user_ranking import ProtectedUnit
from dpmc_core.model import Estimator, Task
from dpmc_core.privacy import (
    USER_EMPTIED,
    USER_REPLACED,
    Additive,
    LocalChannel,
    ModifiedLaplace,
    Notion,
    RandomizedResponse,
    SampledLaplace,
)
from dpmc_core.problem import prepare_all_ratings
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import list_settings, parse_setting, serialise_setting
from dpmc_core.solvers.factorization import PenalisedCells, PublicUserFactors
from dpmc_core.solvers.recovery import Regress

USERS, ITEMS = 24, 16
METHODS = sorted(registry.MECHANISMS)
PRIVATE = [id for id in METHODS if registry.adds_noise(registry.get_mechanism(id))]

_PUBLISHED = {"estimator": Estimator.PUBLISHED}
_EVEN = {"user_penalty": 0.4, "item_penalty": 0.4}  # as iALS without frequency weights
# At a huge epsilon a method meets its twin where nothing but noise keeps them apart: enough
# rounds to converge, a bound that cuts nothing off, labels that no clipping moves.
LIMIT = {
    **{
        id: {"estimator": Estimator.PUBLISHED}
        for id in ("input-flip", "objective", "objective-statistic")
    },
    "gradient": {"rounds": 400, "clamp": 1.0} | _PUBLISHED,
    "output": {"bound": 20.0},
    "private-frank-wolfe": {"residual": 1.0, "clip": 0.8} | _PUBLISHED,
    "private-frank-wolfe-oja": {"residual": 1.0, "clip": 0.8, "rounds": 1, "updates": 20}
    | _PUBLISHED,
    "private-pgd": {"clip": 0.8} | _PUBLISHED,
    "private-svd": _PUBLISHED,
    "svd-after-cleansing": _PUBLISHED,
    "dpals": _PUBLISHED,
    **{
        f"dpimf-{variant}": {"rank": 2, "clip": 8.0, "clip_l2": 8.0, "rounds": 150}
        for variant in ("strawman", "complementary", "symmetric", "optimal")
    },
    "private-popularity": {"contributions": ITEMS},
    **{
        id: {"estimator": Estimator.PUBLISHED, "recovery": Regress.DEBIASED}
        for id in ("modified-laplace", "randomised-response")
    },
    "dpmf-clicks": {"rank": 2, "iterations": 150, "unit_ball": False} | _EVEN,
    "dplcf": {"estimator": Estimator.PUBLISHED},
    "ldpicf": {"estimator": Estimator.PUBLISHED},
}
UNLIKE_AT_LIMIT = {
    "dp-sgd": "no counterpart has its slopes and weight decay: see test_dp_sgd.py",
    "dpimf-sampled": "its sample stays random at any epsilon",
    "private-item-mean": "users' slopes are no part of its twin: see test_private_effects.py",
    "private-effects": "taste is no part of its twin: see test_private_effects.py",
    "private-taste": "its profiles are directions, not least squares: see test_private_taste.py",
}
_DPIMF = {"rank": 2, "regularisation": 0.004, "rounds": 150, "over": PenalisedCells.MISSING}
# What a twin must be told to solve the same problem there.
COUNTERPART_AT_LIMIT = {
    "private-frank-wolfe": {"step": StepRule.FIXED, "rounds": 15, "tolerance": 0},
    "private-frank-wolfe-oja": {"step": StepRule.FIXED, "rounds": 1, "tolerance": 0},
    "private-pgd": {"rounds": 5},
    "dpimf-strawman": _DPIMF | {"alpha": 0.8, "over": PenalisedCells.ALL},
    "dpimf-complementary": _DPIMF | {"alpha": 0.8},
    "dpimf-symmetric": _DPIMF | {"alpha": 0.8},
    "dpimf-optimal": _DPIMF | {"alpha": 1.0},
    "dpmf-clicks": {"rank": 2, "regularisation": 0.4, "rounds": 150, "over": PenalisedCells.MISSING}
    | {"alpha": 1.0, "frequency": False},
    "dplcf": {"similarity": Similarity.JACCARD},
    "ldpicf": {"similarity": Similarity.COSINE},
}


# Settings that make other releases, or come to them another way.
OTHERWISE = [
    *(
        (id, _PUBLISHED)
        for id in PRIVATE
        if id != "gradient"
        and any(s.name == "estimator" for s in list_settings(registry.get_mechanism(id)))
    ),
    ("gradient", {"rounds": 3} | _PUBLISHED),  # one round shows nothing of how they are counted
    ("objective", {"link": Probit(), "bound": 1.0} | _PUBLISHED),
    ("output", {"within": OutputBound.SOLVER}),
    ("dpmf", {"noise": NoiseForm.COORDINATE}),
    ("dpmf", {"user_factors": PublicUserFactors("random:7")}),
    ("dpmf-clicks", {"noise": NoiseForm.COORDINATE}),
    ("dpmf-clicks", {"user_factors": PublicUserFactors("random:7")}),
    ("private-popularity", {"delta": 0.0}),
    ("private-popularity", {"per": ProtectedUnit.CELL}),
    *((id, {"profiles": Profiles.USERS}) for id in PRIVATE if id.startswith("dpimf")),
]
VARIANTS = [*((id, {}) for id in METHODS), *OTHERWISE]
IDS = [f"{id}-{'-'.join(settings)}".strip("-") for id, settings in VARIANTS]
NOISY = [(id, settings) for id, settings in VARIANTS if id in PRIVATE]
NOISY_IDS = [name for name, (id, _) in zip(IDS, VARIANTS, strict=True) if id in PRIVATE]


def make(id, **settings):
    return registry.create(id, **{"epsilon": 1.0, "delta": 1e-6} | settings)


def make_ratings(task, seed=7):
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((USERS, ITEMS)) < 0.6)
    low_rank = rng.normal(size=(USERS, 2)) @ rng.normal(size=(2, ITEMS))
    signal = low_rank[users, items] + 0.3 * rng.normal(size=len(users))
    if task is Task.BINARY:
        values, low, high = np.where(signal >= 0, 1.0, -1.0), -1, 1
    elif task is Task.RATINGS:
        values, low, high = np.clip(np.round(3 + signal), 1, 5), 1, 5
    else:
        values, low, high = np.ones(len(users)), 0, 1
    public = PublicFacts(users=USERS, items=ITEMS, low=low, high=high)
    return Ratings.build(users, items, values, public)


def fit(mechanism, ratings, seed=0):
    return list(mechanism.fit(ratings, np.random.default_rng(seed)))


class Run(NamedTuple):
    """A fit on the ratings of its task, which several tests look at."""

    ratings: Ratings
    steps: list
    published: list
    is_early: bool  # whether a model was there before any release


@functools.cache
def run_once(id, seed=0, variant=0):
    """Run a variant of a method: by its number in `VARIANTS`, 0 for the default settings."""
    mechanism = make(id, **(VARIANTS[variant][1] if variant else {}))
    ratings, steps, is_early = make_ratings(mechanism.task), [], False
    with privacy.record_publications() as published:
        for step in mechanism.fit(ratings, np.random.default_rng(seed)):
            is_early |= step.model is not None and not published
            steps.append(step)
    return Run(ratings, steps, published, is_early)


def run_variant(id, settings, seed=0):
    return run_once(id, seed, VARIANTS.index((id, settings)) if settings else 0)


def predict_all(steps):
    return steps[-1].model.predict(np.arange(USERS)[:, None], np.arange(ITEMS))


@pytest.fixture(params=METHODS)
def id(request):
    return request.param


@pytest.fixture(params=PRIVATE)
def private_id(request):
    return request.param


def test_is_a_frozen_keyword_only_record_of_public_settings(id):
    cls = registry.get_mechanism(id)
    mechanism = make(id)
    assert cls.id == id
    assert cls.__doc__
    assert all(f.kw_only for f in dataclasses.fields(cls))
    assert {s.name for s in list_settings(cls)} == {f.name for f in dataclasses.fields(cls)}
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.epsilon = 9.0
    assert cls.revision >= 1


def test_names_a_twin_and_a_floor_of_its_own_task(id):
    """The twin has no noise. The floor may have some, beside a method that has some itself."""
    cls = registry.get_mechanism(id)
    for other in (cls.nonprivate_counterpart, cls.baseline):
        assert registry.get_mechanism(other).task is cls.task
    assert cls.nonprivate_counterpart not in PRIVATE
    assert (
        registry.get_mechanism(cls.nonprivate_counterpart).nonprivate_counterpart
        == cls.nonprivate_counterpart
    )
    assert cls.baseline not in PRIVATE or id in PRIVATE
    assert registry.get_mechanism(cls.baseline).baseline == cls.baseline


def test_a_private_floor_keeps_the_promise_that_the_method_claims(private_id):
    cls = registry.get_mechanism(private_id)
    if cls.baseline not in PRIVATE:
        pytest.skip("its floor has no noise")
    public = make_ratings(cls.task).public
    guarantee = make(private_id, epsilon=0.7).guarantee(public)
    baseline = make(cls.baseline, epsilon=0.7).guarantee(public)
    # Popularity counts rows that become empty, also beside a claim for rows that become any other.
    change = USER_EMPTIED if guarantee.change is USER_REPLACED else guarantee.change
    assert baseline.certified(change, 1e-6).epsilon <= guarantee.claimed.epsilon * (1 + 1e-9)


def test_settings_survive_their_text_form(id):
    mechanism = make(id)
    cls = type(mechanism)
    for s in list_settings(cls):
        value = getattr(mechanism, s.name)
        serialised = serialise_setting(value)
        text = "none" if serialised is None else str(serialised).lower()
        assert parse_setting(cls, s.name, text) == value
        assert s.info.help, f"{id}.{s.name} has no help"


def test_same_seed_same_result_and_global_randomness_untouched(id):
    first = predict_all(run_once(id).steps)
    ratings = make_ratings(registry.get_mechanism(id).task)
    before_numpy, before_python = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    assert np.array_equal(first, predict_all(fit(make(id), ratings)))
    assert np.array_equal(before_numpy, np.random.get_state()[1])  # noqa: NPY002
    assert before_python == random.getstate()


def test_another_seed_gives_other_noise(private_id):
    first, second = (predict_all(run_once(private_id, seed).steps) for seed in (0, 1))
    assert not np.array_equal(first, second)


def test_ratings_are_left_as_they_were(id):
    after, before = run_once(id).ratings, make_ratings(registry.get_mechanism(id).task)
    for name in ("users", "items", "values"):
        assert np.array_equal(getattr(before, name), getattr(after, name))


def test_steps_count_up_to_the_announced_total(id):
    steps = run_once(id).steps
    assert [s.index for s in steps] == list(range(1, len(steps) + 1))
    assert len({s.total for s in steps}) == 1
    assert steps[-1].final or steps[-1].index == steps[-1].total
    assert not any(s.final for s in steps[:-1])
    assert all(s.raw <= set(s.trace) for s in steps)


def test_the_last_model_predicts_finite_numbers_everywhere(id):
    predictions = predict_all(run_once(id).steps)
    assert predictions.shape == (USERS, ITEMS)
    assert np.isfinite(predictions).all()


@pytest.mark.parametrize(("low", "high"), [(1, 1 + 1e-15), (-1e15, 1e15)])
def test_a_range_at_the_limits_is_fitted_without_a_warning(id, low, high):
    mechanism, ends = make(id), np.array([low, high])
    users, items = np.divmod(np.arange(0, 96, 2), 8)
    public = PublicFacts(users=12, items=8, low=low, high=high)
    ratings = Ratings.build(users, items, ends[(users + items // 2) % 3 % 2], public)
    ratings, _ = prepare_all_ratings(ratings, mechanism.task)
    if mechanism.task is not Task.RATINGS:  # the others bring every range to one of their own
        assert ratings.public.as_dict() == public.as_dict() | {
            "low": -1.0 if mechanism.task is Task.BINARY else 0.0,
            "high": 1.0,
        }
        return
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        model = fit(mechanism, ratings)[-1].model
    assert np.isfinite(model.predict(np.arange(12)[:, None], np.arange(8))).all()


@pytest.mark.parametrize("ends", ["0:1e-150", "0:1e150", "-1e-150:1e-150", "0:1e-300"])
def test_a_range_on_which_squares_are_no_numbers_is_refused_in_a_sentence(ends):
    low, high = map(float, ends.split(":"))
    limit = r"within -1e\+15:1e\+15 and at least 1e-15 wide"
    with pytest.raises(InvalidSetting, match=f"rating range must be {limit}, got"):
        PublicFacts(users=2, items=2, low=low, high=high)


@pytest.mark.parametrize(("id", "settings"), VARIANTS, ids=IDS)
def test_what_is_published_are_the_records_of_the_card_as_often_as_they_say(id, settings):
    """Records in full: of another scale, table or channel, one is another record."""
    ratings, _, published, _ = run_variant(id, settings)
    releases = make(id, **settings).guarantee(ratings.public).releases
    expected = [release for _, release in releases for _ in range(release.times)]
    for publication in published:
        assert publication.release in expected, (
            f"not on the card, or too often: {publication.release}"
        )
        expected.remove(publication.release)
    assert not expected, "on the card, and never published"


@pytest.mark.parametrize(("id", "settings"), NOISY, ids=NOISY_IDS)
def test_a_source_that_names_a_mechanism_names_the_noise_that_is_drawn(id, settings):
    mechanism = make(id, **settings)
    guarantee = mechanism.guarantee(make_ratings(mechanism.task).public)
    laws = re.findall(r"(Gaussian|Laplace) mechanism", guarantee.source)
    assert not laws or {type(release).__name__ for _, release in guarantee.releases} == {*laws}


@pytest.mark.parametrize(("id", "settings"), NOISY, ids=NOISY_IDS)
def test_the_axes_of_users_and_items_are_named_whatever_their_lengths(id, settings):
    """Of two numbers of users and items, no other axis happens to have the same two lengths."""
    mechanism = make(id, **settings)
    facts = [
        dataclasses.replace(make_ratings(mechanism.task).public, users=users, items=items)
        for users, items in ((61, 59), (67, 71), (53, 53))
    ]
    shapes = [[r.shape for _, r in mechanism.guarantee(public).releases] for public in facts]
    names = {(61, 67): UserAxis, (59, 71): ItemAxis, (None, None): type(None)}
    for first, second, square in zip(*shapes, strict=True):
        for lengths in zip(first, second, square, strict=True):
            (axis,) = {type(length) for length in lengths}
            assert names.get(lengths[:2], axis) is axis
            assert axis in (*names.values(), int, FactorAxis)
            if axis is FactorAxis:
                assert set(lengths) == {mechanism.rank}
            elif axis is not int:
                assert lengths[:2] in names


@pytest.mark.parametrize("id", PRIVATE)
def test_the_counts_of_two_items_are_not_mistaken_for_other_pairs(id):
    mechanism = make(id, **({"rank": 1} if hasattr(registry.get_mechanism(id), "rank") else {}))
    public = make_ratings(mechanism.task).public
    releases = [
        mechanism.guarantee(dataclasses.replace(public, items=items)).per_item_release
        for items in (2, ITEMS)
    ]
    assert len({release and release.query for release in releases}) == 1


def standardise_noise(publications):
    """The noise of every number with additive noise, in units of its scale."""
    standard_noise = (
        ((p.published - p.private) / p.release.scale).ravel()
        for p in publications
        if isinstance(p.release, Additive)
    )
    return np.concatenate([np.empty(0), *standard_noise])


def compute_least_distance(noise):
    """The smallest difference of the sizes of two numbers: 0 if one draw serves twice, or none."""
    return np.diff(np.sort(np.abs(noise))).min(initial=np.inf)


@pytest.mark.parametrize(("id", "settings"), NOISY, ids=NOISY_IDS)
def test_no_two_cells_rounds_or_runs_share_their_noise(id, settings):
    """At most 60,000 numbers: independent ones come so near with a chance below 2e-4."""
    runs = [run_variant(id, settings, seed) for seed in (0, 1)]
    noise = standardise_noise([p for run in runs for p in run.published])
    assert len(noise) <= 60_000
    assert compute_least_distance(noise) > 1e-13


@pytest.mark.parametrize("planted", ["reused", "mirrored", "skipped"])
def test_that_check_sees(planted):
    noise = np.random.default_rng(0).laplace(size=1000)
    value = np.random.default_rng(1).normal(0, 50, 1000)
    second = {"reused": noise[::-1], "mirrored": -noise, "skipped": 0.0}[planted]
    assert compute_least_distance(noise) > 1e-13
    assert compute_least_distance(np.concatenate([noise, (value + second) - value])) <= 1e-13


def test_no_model_is_yielded_before_the_first_release(private_id):
    assert not run_once(private_id).is_early


def test_certified_is_finite_or_says_why(id):
    mechanism = make(id)
    guarantee = mechanism.guarantee(make_ratings(mechanism.task).public)
    for change in privacy.Change:
        proved = guarantee.certified(change)
        assert proved.finite or proved.reason
        assert proved.epsilon >= 0
    assert guarantee.source
    assert guarantee.publishes
    if id in PRIVATE:
        assert guarantee.claimed is not None
        assert guarantee.notion is not Notion.NONE
        assert list(guarantee.releases)
    else:
        assert guarantee.claimed is None
        assert guarantee.notion is Notion.NONE
        assert guarantee.unaccounted


def test_certified_grows_with_epsilon_and_noise_shrinks(private_id):
    public = make_ratings(registry.get_mechanism(private_id).task).public
    guarantees = [make(private_id, epsilon=e).guarantee(public) for e in (0.5, 1.0, 4.0)]
    proved = [guarantee.certified().epsilon for guarantee in guarantees]
    assert proved == sorted(proved)
    for versions in zip(*(guarantee.releases for guarantee in guarantees), strict=True):
        scales = [getattr(release, "scale", None) for _, release in versions]
        if scales[0] is not None:
            assert scales == sorted(scales, reverse=True)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "much"])
def test_an_impossible_epsilon_is_refused_in_a_sentence(private_id, bad):
    with pytest.raises(InvalidSetting, match="epsilon must be"):
        make(private_id, epsilon=bad)


def test_fit_uses_the_releases_of_the_guarantee(private_id, monkeypatch):
    """A card with another noise scale gives other noise: claim and code are one thing."""
    settings = {"clip_l2": 1.0} if private_id == "dpimf-sampled" else {}  # none is left out
    mechanism = make(private_id, **settings)
    ratings = make_ratings(mechanism.task)
    original_guarantee = type(mechanism).guarantee
    first = _record_first_noise(mechanism, ratings)

    def doctored(self, public):
        guarantee = original_guarantee(self, public)
        return dataclasses.replace(
            guarantee, releases=guarantee.releases.map_releases(_amplify_noise)
        )

    monkeypatch.setattr(type(mechanism), "guarantee", doctored)
    second = _record_first_noise(mechanism, ratings)
    release = _get_only_release(original_guarantee(mechanism, ratings.public))
    if isinstance(release, RandomizedResponse | LocalChannel):
        assert np.any(first)
        assert np.abs(second).max() <= 1e-4
    else:
        assert np.allclose(second, 1000 * first, rtol=1e-6)


def _amplify_noise(release):
    """The release with a thousandfold noise; a channel becomes the silent one."""
    if isinstance(release, SampledLaplace):
        release = dataclasses.replace(release, budget=release.budget / 1000)  # the same weights
    if isinstance(release, Additive):
        return dataclasses.replace(release, scale=1000 * release.scale)
    if isinstance(release, ModifiedLaplace):
        return dataclasses.replace(release, flip=1e-9, scale=1e-6)
    size = len(release.channel)
    identity = tuple(tuple(float(a == o) for o in range(size)) for a in range(size))
    return dataclasses.replace(release, channel=identity)


def _get_only_release(guarantee):
    return next(iter(guarantee.releases))[1]


def _record_first_noise(mechanism, ratings):
    with privacy.record_publications() as publications:
        fit(mechanism, ratings)
    change = publications[0].published - publications[0].private
    return change.toarray() if hasattr(change, "toarray") else change  # sparse rows


def test_meets_its_twin_where_epsilon_is_huge(private_id):
    if private_id in UNLIKE_AT_LIMIT:
        pytest.skip(UNLIKE_AT_LIMIT[private_id])
    mechanism = make(private_id, epsilon=1e5, **LIMIT.get(private_id, {}))
    ratings = make_ratings(mechanism.task)
    counterpart = mechanism.nonprivate_counterpart
    shared = {
        s.name: getattr(mechanism, s.name)
        for s in list_settings(registry.get_mechanism(counterpart))
        if s.name in ("link", "radius") and hasattr(mechanism, s.name)
    }
    plain = registry.create(counterpart, **shared | COUNTERPART_AT_LIMIT.get(private_id, {}))
    scores_at_limit, expected = (predict_all(fit(method, ratings)) for method in (mechanism, plain))
    assert np.linalg.norm(scores_at_limit - expected) <= 0.05 * np.linalg.norm(expected), (
        f"name the settings with which {private_id} does in LIMIT, "
        "or why it cannot in UNLIKE_AT_LIMIT"
    )
