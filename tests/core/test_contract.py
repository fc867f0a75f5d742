"""One contract for every method of the registry, mechanisms and baselines alike."""

import dataclasses
import functools
import re

import numpy as np
import pytest

from dpmc_core import registry
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
    RATING,
    USER_EMPTIED,
    USER_REPLACED,
    Laplace,
    Publication,
)
from dpmc_core.problem import prepare_all_ratings
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import list_settings
from dpmc_core.solvers.factorization import PenalisedCells, PublicUserFactors
from dpmc_core.solvers.recovery import Regress
from dpmc_lab.testing import (
    CHECKS,
    ITEMS,
    MIN_DISTANCE,
    Contract,
    find_least_distance,
    sample_ratings,
)

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
CHECKS_OF_VARIANTS = ("check_publications", "check_axes", "check_fresh_noise")
NOISY = [variant for variant, (id, _) in enumerate(VARIANTS) if id in PRIVATE]


@functools.cache
def get_contract(variant):
    """The contract of a variant, by its number in `VARIANTS`; its fits are shared."""
    id, settings = VARIANTS[variant]
    limit = None if id in UNLIKE_AT_LIMIT else LIMIT.get(id, {})
    cls = registry.get_mechanism(id)
    return Contract(cls, settings, COUNTERPART_AT_LIMIT.get(id, {}), limit)


@pytest.mark.parametrize(
    ("variant", "check"),
    [
        pytest.param(variant, check, id=f"{name}-{check}")
        for variant, name in enumerate(IDS)
        for check in (CHECKS if variant < len(METHODS) else CHECKS_OF_VARIANTS)
    ],
)
def test_a_mechanism_keeps_the_contract(variant, check):
    contract = get_contract(variant)
    if (IDS[variant], check) == ("dpimf-sampled", "check_noise_of_releases"):
        contract = dataclasses.replace(contract, settings={"clip_l2": 1.0})  # none is left out
    getattr(contract, check)()


@pytest.mark.parametrize("id", METHODS)
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


@pytest.mark.parametrize("private_id", PRIVATE)
def test_a_private_floor_keeps_the_promise_that_the_method_claims(private_id):
    cls = registry.get_mechanism(private_id)
    if cls.baseline not in PRIVATE:
        pytest.skip("its floor has no noise")
    public = sample_ratings(cls.task).public
    guarantee, baseline = (
        registry.create(id, epsilon=0.7, delta=1e-6).guarantee(public)
        for id in (private_id, cls.baseline)
    )
    # Popularity counts rows that become empty, also beside a claim for rows that become any other.
    change = USER_EMPTIED if guarantee.change is USER_REPLACED else guarantee.change
    assert baseline.certified(change, 1e-6).epsilon <= guarantee.claimed.epsilon * (1 + 1e-9)


@pytest.mark.parametrize(("low", "high"), [(1, 1 + 1e-15), (-1e15, 1e15)])
@pytest.mark.parametrize("id", METHODS)
def test_a_range_at_the_limits_is_fitted_without_a_warning(id, low, high):
    mechanism, ends = registry.create(id, epsilon=1.0, delta=1e-6), np.array([low, high])
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
        *_, last = mechanism.fit(ratings, np.random.default_rng(0))
    assert np.isfinite(last.model.predict(np.arange(12)[:, None], np.arange(8))).all()


@pytest.mark.parametrize("ends", ["0:1e-150", "0:1e150", "-1e-150:1e-150", "0:1e-300"])
def test_a_range_on_which_squares_are_no_numbers_is_refused_in_a_sentence(ends):
    low, high = map(float, ends.split(":"))
    limit = r"within -1e\+15:1e\+15 and at least 1e-15 wide"
    with pytest.raises(InvalidSetting, match=f"rating range must be {limit}, got"):
        PublicFacts(users=2, items=2, low=low, high=high)


@pytest.mark.parametrize("variant", NOISY, ids=[IDS[variant] for variant in NOISY])
def test_a_source_that_names_a_mechanism_names_the_noise_that_is_drawn(variant):
    guarantee = get_contract(variant).guarantee
    laws = re.findall(r"(Gaussian|Laplace) mechanism", guarantee.source)
    assert not laws or {type(release).__name__ for _, release in guarantee.releases} == {*laws}


@pytest.mark.parametrize("id", PRIVATE)
def test_the_counts_of_two_items_are_not_mistaken_for_other_pairs(id):
    rank = {"rank": 1} if registry.has_setting(registry.get_mechanism(id), "rank") else {}
    mechanism = registry.create(id, epsilon=1.0, delta=1e-6, **rank)
    public = sample_ratings(mechanism.task).public
    releases = [
        mechanism.guarantee(dataclasses.replace(public, items=items)).per_item_release
        for items in (2, ITEMS)
    ]
    assert len({release and release.query for release in releases}) == 1


@pytest.mark.parametrize("planted", ["reused", "mirrored", "skipped"])
def test_that_check_sees(planted):
    """Two numbers of noise that are one draw; at most 60,000 numbers are compared elsewhere."""
    noise = np.random.default_rng(0).laplace(size=1000)
    second = {"reused": noise[::-1], "mirrored": -noise, "skipped": np.zeros(1000)}[planted]
    release = Laplace(query="numbers", shape=(1000,), sensitivity={RATING: 1}, scale=1.0)
    values = np.random.default_rng(1).normal(0, 50, 1000)
    first, other = (
        Publication(release, value, value + drawn)
        for value, drawn in ((np.zeros(1000), noise), (values, second))
    )
    assert find_least_distance([first]) > MIN_DISTANCE
    assert find_least_distance([first, other]) <= MIN_DISTANCE
