"""DPIMF: sensitivities against brute force, certified values, planted bugs, importance sampling."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.errors import InvalidSetting
from dpmc_core.mechanisms.dpimf import Dpimf, FactorNorms, Profiles
from dpmc_core.privacy import CELL, USER_EMPTIED, USER_REPLACED, Sums, record_publications
from dpmc_core.privacy.sampled import importance_weights
from dpmc_core.ratings import PublicFacts
from dpmc_core.solvers.factorization import binary_matrix
from tests.ratings_helpers import clicks
from tests.replay import fit_model, predict_all

VARIANTS = ("strawman", "complementary", "symmetric", "optimal")
USERS, ITEMS, RANK = 12, 9, 4


def make(variant: str, **settings) -> Dpimf:
    mechanism = registry.create(
        f"dpimf-{variant}", **{"epsilon": 1.3, "rank": RANK, "rounds": 1} | settings
    )
    assert isinstance(mechanism, Dpimf)
    return mechanism


def draw_cells(seed: int = 0, density: float = 0.4) -> np.ndarray:
    return (np.random.default_rng(seed).random((USERS, ITEMS)) < density).astype(float)


def record_private_terms(mechanism: Dpimf, cells: np.ndarray, factors: np.ndarray) -> dict:
    """What goes into each release of one solve, by query; factors are fixed."""
    rng = np.random.default_rng(0)
    columns = binary_matrix(clicks(cells)).T.tocsr()
    releases = mechanism.build_releases(columns.shape[0])
    with record_publications() as publications:
        mechanism.solve_private_profiles(columns, factors, releases, rng)
    return {p.release.query: (p.release, p.private) for p in publications}


def measure_distances(
    mechanism: Dpimf, before: np.ndarray, after: np.ndarray, factors: np.ndarray
) -> dict:
    """How far each release's value moves, in the norm of its noise."""
    first, second = (record_private_terms(mechanism, cells, factors) for cells in (before, after))
    return {q: first[q][0].distance(first[q][1], second[q][1]) for q in first}


def make_factor_sets(rng) -> list[np.ndarray]:
    """Random rows and the worst ones: along one axis and spread over all, long and short."""
    worst = np.zeros((USERS, RANK))
    worst[::2, 0] = 5.0
    worst[1::2] = 3.0
    return [worst, *(rng.normal(size=(USERS, RANK)) * s for s in (0.01, 0.3, 10.0))]


@pytest.mark.parametrize("variant", VARIANTS)
def test_one_cell_moves_no_release_further_than_stated_and_reaches_it(variant: str) -> None:
    rng = np.random.default_rng(1)
    mechanism = make(variant)
    stated = {r.query: r.sensitivity for _, r in mechanism.build_releases(ITEMS)}
    largest = dict.fromkeys(stated, 0.0)
    for factors in make_factor_sets(rng):
        for _ in range(30):
            before = draw_cells(int(rng.integers(1000)))
            after = before.copy()
            u, i = rng.integers(USERS), rng.integers(ITEMS)
            after[u, i] = 1 - after[u, i]
            for query, distance in measure_distances(mechanism, before, after, factors).items():
                largest[query] = max(largest[query], distance)
    for query, distance in largest.items():
        bound = stated[query][CELL]
        assert distance <= bound * (1 + 1e-9), query
        assert distance >= 0.7 * bound, f"{query}: the bound is never approached"


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_whole_row_is_bounded_by_the_group_of_its_cells(variant: str) -> None:
    rng = np.random.default_rng(2)
    mechanism = make(variant)
    guarantee = mechanism.guarantee(clicks(draw_cells()).public)
    for change in (USER_EMPTIED, USER_REPLACED):
        proved = guarantee.certified(change).epsilon
        assert proved == pytest.approx(1.3 * ITEMS)
        for factors in make_factor_sets(rng):
            before = draw_cells(3)
            after = before.copy()
            after[4] = 0 if change is USER_EMPTIED else 1 - after[4]
            first, second = (record_private_terms(mechanism, c, factors) for c in (before, after))
            spent = sum(r.distance(v, second[q][1]) / r.scale for q, (r, v) in first.items())
            assert spent <= proved * (1 + 1e-9)


def test_certified_per_cell_for_one_solve_with_a_public_clip_only() -> None:
    public = PublicFacts(users=USERS, items=ITEMS, low=0, high=1)
    for variant in (*VARIANTS, "sampled"):
        guarantee = make(variant).guarantee(public)
        assert guarantee.certified(CELL).epsilon == pytest.approx(1.3)
        assert guarantee.certified(USER_EMPTIED).epsilon == pytest.approx(1.3 * ITEMS)
        capped = PublicFacts(users=USERS, items=ITEMS, low=0, high=1, cap=2)
        capped_guarantee = make(variant).guarantee(capped)
        assert capped_guarantee.certified(USER_EMPTIED).epsilon == pytest.approx(2.6)
        assert capped_guarantee.certified(USER_REPLACED).epsilon == pytest.approx(5.2)
        users = make(variant, profiles=Profiles.USERS).guarantee(public).certified(CELL)
        assert not users.finite
        assert "item factors: fitted to every user's raw row" in users.reason
        several = make(variant, rounds=2).guarantee(public).certified(CELL)
        assert not several.finite
        assert "refitted" in several.reason
        read_off = make(variant, clip=None).guarantee(public).certified(CELL)
        assert not read_off.finite
        assert "read off the data" in read_off.reason


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_clip_read_off_the_data_scales_the_noise_by_the_largest_norm(variant: str) -> None:
    factors = np.random.default_rng(3).normal(size=(USERS, RANK))
    norms = FactorNorms.from_factors(factors)
    outer = factors[:, :, None] * factors[:, None, :]
    assert norms.full == pytest.approx(np.abs(outer).sum(axis=(1, 2)).max())
    assert norms.upper == pytest.approx(np.abs(np.triu(outer)).sum(axis=(1, 2)).max())
    mechanism = make(variant, clip=None)
    stated = mechanism.build_coefficients(norms, ITEMS)
    used = [
        release for release, _ in record_private_terms(mechanism, draw_cells(), factors).values()
    ]
    assert [r.scale for r in used] == pytest.approx([release.scale for _, release in stated])
    assert not any(r.sensitivity for r in used)


def test_clipping_keeps_short_rows_and_bounds_both_norms() -> None:
    mechanism = make("optimal", clip=0.3, clip_l2=0.2)
    rows = np.random.default_rng(6).normal(size=(200, RANK)) * 0.2
    rows[0] = 0.0
    clipped = mechanism.clip_factors(rows)
    assert np.abs(clipped).sum(axis=1).max() <= 0.3 * (1 + 1e-12)
    assert np.linalg.norm(clipped, axis=1).max() <= 0.2 * (1 + 1e-12)
    inside = (np.abs(rows).sum(axis=1) <= 0.3) & (np.linalg.norm(rows, axis=1) <= 0.2)
    assert inside.sum() > 5
    assert np.array_equal(clipped[inside], rows[inside])


def test_noise_that_would_not_fit_in_memory_is_refused() -> None:
    mechanism = make("complementary", rank=256)
    with pytest.raises(InvalidSetting, match="rank must be small enough"):
        mechanism.check_noise_fits(10_000)


@pytest.mark.parametrize("variant", [*VARIANTS, "sampled"])
@pytest.mark.parametrize("profiles", list(Profiles))
def test_a_user_who_saw_everything_and_an_item_nobody_saw(variant: str, profiles) -> None:
    cells = draw_cells()
    cells[3], cells[:, 5] = 1, 0
    cells[7] = 0
    mechanism = make(variant, rounds=3, profiles=profiles)
    model = fit_model(mechanism, clicks(cells))
    assert np.isfinite(predict_all(model, (USERS, ITEMS))).all()


# -- importance sampling -------------------------------------------------------------------------


def test_weights_solve_their_equation_and_short_terms_weigh_more() -> None:
    a = np.array([0.01, 0.2, 0.5, 0.9, 1.0, 1.5, 0.0])
    w = importance_weights(a, 1.0)
    inside = w[:4]
    assert np.expm1(a[:4] * inside) / inside == pytest.approx(np.full(4, math.expm1(1.0)))
    assert (np.diff(inside) < 0).all()
    assert w[4] == w[5] == 1
    assert w[6] == math.inf
    large = importance_weights(np.array([10.0, 1000.0]), 1e5)
    assert np.isfinite(large).all()


def test_sampled_sums_are_unbiased() -> None:
    mechanism = make("sampled", epsilon=1.0)
    cells = draw_cells(8)
    factors = mechanism.clip_factors(
        np.abs(np.random.default_rng(9).normal(size=(USERS, RANK))) * 0.03
    )
    columns = binary_matrix(clicks(cells)).T.tocsr()
    releases = mechanism.build_releases(ITEMS)
    rng = np.random.default_rng(10)
    sums = Sums(columns, 2 * factors)
    runs = np.array(
        [releases.first._apply_sampling(sums, np.asarray(sums), rng) for _ in range(1000)]
    )
    exact = 2 * columns @ factors
    error = runs.std(axis=0) / math.sqrt(len(runs))
    # 36 cells within 5 standard errors: false alarm rate about 2e-5.
    assert (np.abs(runs.mean(axis=0) - exact) <= 5 * error + 1e-12).all()


def test_importance_weights_that_no_float_can_hold_are_infinite() -> None:
    with np.errstate(all="raise", under="ignore"):
        weights = importance_weights([1e-306, 1e-310, 0.0, 1e-300, 2.0], 1.0)
    assert weights[:3].tolist() == [math.inf] * 3
    assert 1e300 < weights[3] < math.inf
    assert weights[4] == 1
    assert math.log(np.expm1(1.0)) == pytest.approx(
        1e-300 * weights[3] - math.log(weights[3]), abs=1e-9
    )


def test_symmetric_noise_needs_the_clip_of_the_second_norm() -> None:
    """One-hot rows have upper = full, so under an l1 clip alone mirrored noise is no smaller."""
    loose = make("symmetric", clip=0.2, clip_l2=0.2).public_norms()
    assert loose.upper == pytest.approx(loose.full)
    tight = make("symmetric", clip=0.2, clip_l2=0.08).public_norms()
    assert tight.upper < 0.65 * tight.full
