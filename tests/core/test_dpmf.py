"""Private matrix factorization: its solver, its sensitivity, and what its card may claim."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from dpmc_core import privacy, registry
from dpmc_core.errors import InvalidSetting
from dpmc_core.mechanisms.factorization import DPMF, NoiseForm
from dpmc_core.privacy import CELL, RATING, USER_EMPTIED
from dpmc_core.ratings import PublicFacts
from dpmc_core.solvers.factorization import PublicUserFactors
from dpmc_core.solvers.rows import normal_equations, solve_ridge
from tests.ratings_helpers import random_stars

RANDOM = PublicUserFactors("random:7")


def draw_ratings(rng, users=20, items=12, density=0.5):
    return random_stars(users, items, density, rng)


def change_rating(ratings, k, value):
    values = ratings.values.copy()
    values[k] = value
    return dataclasses.replace(ratings, values=values)


def test_the_ball_solution_meets_its_kkt_conditions():
    rng = np.random.default_rng(1)
    factors = rng.normal(size=(12, 3))
    pmf = registry.create("pmf", rank=3, user_penalty=0.5)
    matrices = pmf.build_matrices(draw_ratings(rng))
    squares, moments = normal_equations(matrices.by_user, factors)
    solution = pmf.fit_users(matrices, factors)
    free = solve_ridge(squares, moments, 0.5)
    lengths = np.linalg.norm(solution, axis=1)
    inside = np.linalg.norm(free, axis=1) <= 1
    assert np.allclose(solution[inside], free[inside])
    assert (~inside).any()
    assert np.allclose(lengths[~inside], 1, atol=1e-9)
    for a, b, u in zip(squares[~inside], moments[~inside], solution[~inside], strict=True):
        slope = b - (a + 0.5 * np.eye(3)) @ u  # = nu u with nu > 0
        nu = slope @ u
        assert nu > 0
        assert np.allclose(slope, nu * u, atol=1e-7 * np.linalg.norm(b))


def test_the_objective_falls_with_every_alternation():
    ratings = draw_ratings(np.random.default_rng(2), 40, 30)
    steps = list(registry.create("pmf").fit(ratings, np.random.default_rng(0)))
    objectives = [s.trace["objective"] for s in steps]
    assert all(b <= a + 1e-9 for a, b in itertools.pairwise(objectives))


@pytest.mark.parametrize("form", list(NoiseForm))
@pytest.mark.parametrize("rank", [1, 4])
def test_sensitivity_covers_the_worst_neighbours(form, rank):
    """Every changed rating of a small set, at both ends of the range, with public factors."""
    mechanism = DPMF(epsilon=1.0, noise=form, rank=rank, user_factors=RANDOM)
    ratings = draw_ratings(np.random.default_rng(3), 8, 5)
    release = mechanism.guarantee(ratings.public).releases.linear_term
    stated = release.sensitivity[RATING]
    users = mechanism.user_factors.build(8, rank)

    def query(data):
        return -2 * normal_equations(mechanism.build_matrices(data).by_item, users)[1]

    worst = 0.0
    for k in range(len(ratings)):
        difference = query(change_rating(ratings, k, 1.0)) - query(change_rating(ratings, k, 5.0))
        worst = max(worst, release.distance(difference, np.zeros_like(difference)))
    assert worst <= stated + 1e-9
    if form is NoiseForm.NORM:  # unit rows and the full range: the bound is met
        assert worst == pytest.approx(stated)
    corner = np.full((1, rank), 1 / math.sqrt(rank))  # the worst user for coordinates
    assert 2 * 4 * np.abs(corner).sum() <= 2 * 4 * math.sqrt(rank) + 1e-9


@pytest.mark.parametrize("form", list(NoiseForm))
def test_certified_with_public_factors_and_infinite_as_published(form):
    public = PublicFacts(users=8, items=5, low=1, high=5)
    guarantee = DPMF(epsilon=0.7, noise=form, user_factors=RANDOM).guarantee(public)
    assert guarantee.certified().epsilon == pytest.approx(0.7)
    assert not guarantee.certified(CELL).finite
    assert not guarantee.certified(USER_EMPTIED).finite
    published = DPMF(epsilon=0.7, noise=form).guarantee(public).certified()
    assert not published.finite
    assert "the sum of u u'" in published.reason
    assert "fitted on the same ratings" in published.reason
    loose = DPMF(epsilon=0.7, noise=form, unit_ball=False).guarantee(public)
    loose = dataclasses.replace(loose, unaccounted=())
    assert not loose.certified().finite  # without the ball nothing bounds ||u||


def test_item_factors_see_ratings_through_the_release_alone(monkeypatch):
    """A deaf release gives the same public item factors whatever the ratings say."""
    mechanism = DPMF(epsilon=1.0, user_factors=RANDOM)
    ratings = draw_ratings(np.random.default_rng(4))
    other = dataclasses.replace(ratings, values=6 - ratings.values)
    users = RANDOM.build(20, 3)
    monkeypatch.setattr(
        privacy.Additive, "publish", lambda self, value, rng: self._draw_noise(np.shape(value), rng)
    )
    first, second = (
        mechanism.fit_private_items(
            mechanism.build_matrices(data), users, data.public, np.random.default_rng(0)
        )
        for data in (ratings, other)
    )
    assert np.array_equal(first, second)


def test_the_noisy_solution_minimises_the_perturbed_objective():
    mechanism = DPMF(epsilon=1.0, user_factors=RANDOM)
    ratings = draw_ratings(np.random.default_rng(5))
    matrices, users = mechanism.build_matrices(ratings), RANDOM.build(20, 3)
    with privacy.record_publications() as publications:
        items = mechanism.fit_private_items(
            matrices, users, ratings.public, np.random.default_rng(0)
        )
    eta = publications[0].published - publications[0].private
    squares, moments = normal_equations(matrices.by_item, users)
    penalty = mechanism.noisy_penalty(ratings.public)
    slope = 2 * np.einsum("jab,jb->ja", squares, items) - 2 * moments + eta + 2 * penalty * items
    assert np.abs(slope).max() < 1e-9 * np.abs(eta).max()


@pytest.mark.parametrize(("noise", "std"), [("norm", 8 * 2), ("coordinate", 8 * math.sqrt(6))])
def test_the_penalty_grows_by_the_deviation_of_half_the_noise(noise, std):
    """In 1..5 at epsilon 1 and rank 3 the norm's scale is 8; a quarter of the range is 1."""
    public = PublicFacts(users=20, items=12, low=1, high=5)
    mechanism = DPMF(epsilon=1.0, rank=3, noise=NoiseForm(noise))
    assert mechanism.noisy_penalty(public) == pytest.approx(mechanism.item_penalty + std / 2)


def test_public_factors_are_cut_to_the_unit_ball():
    given = PublicUserFactors("mine", np.array([[3.0, 4.0], [0.3, 0.4]]))
    factors = given.build(2, 2)
    assert np.allclose(factors, [[0.6, 0.8], [0.3, 0.4]])
    assert np.allclose(np.linalg.norm(RANDOM.build(50, 5), axis=1), 1)


def test_public_factors_that_do_not_fit_are_refused():
    with pytest.raises(InvalidSetting, match=r"shape of user_factors must be \(4, 2\)"):
        PublicUserFactors("mine", np.zeros((3, 2))).build(4, 2)
    with pytest.raises(InvalidSetting, match="finite numbers"):
        PublicUserFactors("mine", np.array([[1.0, np.nan]])).build(1, 2)
    with pytest.raises(InvalidSetting, match="read from its file before"):
        PublicUserFactors("mine.npy").build(1, 2)
