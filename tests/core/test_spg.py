"""The solver against cvxpy, optimality conditions, and the reference optimum on real data."""

import numpy as np
import pytest
from scipy.optimize import brentq

from dpmc_core.links import LOGISTIC, Probit
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.one_bit import (
    NuclearBall,
    NuclearBox,
    flipped_likelihood_loss,
    likelihood_loss,
    minimise_loss,
)

pytestmark = pytest.mark.slow


def draw_signs(rows=14, columns=10, seed=0):
    rng = np.random.default_rng(seed)
    truth = 2 * rng.normal(size=(rows, 2)) @ rng.normal(size=(2, columns))
    users, items = np.nonzero(rng.random((rows, columns)) < 0.6)
    signs = np.where(rng.random(len(users)) < 1 / (1 + np.exp(-truth[users, items])), 1.0, -1.0)
    public = PublicFacts(users=rows, items=columns, low=-1, high=1)
    return Ratings.build(users, items, signs, public)


def make_ball(ratings, radius, bound=None):
    rng = np.random.default_rng(1)
    if bound is None:
        return NuclearBall(Pattern.from_ratings(ratings), radius, rng)
    return NuclearBox(Pattern.from_ratings(ratings), radius, bound, rng)


ITERATIONS = 3000


def solve(loss, feasible, tolerance=1e-6, iterations=ITERATIONS):
    *_, last = minimise_loss(loss, feasible, iterations=iterations, tolerance=tolerance)
    return last


def predict_all(point, shape):
    return point.build_model().predict(np.arange(shape[0])[:, None], np.arange(shape[1]))


def solve_with_cvxpy(ratings, link, radius, bound):
    cp = pytest.importorskip("cvxpy")
    x = cp.Variable(ratings.shape)
    signed = cp.multiply(ratings.values, x[ratings.users, ratings.items])
    if link == LOGISTIC:
        loss = cp.sum(cp.logistic(-signed))
    else:
        loss = -cp.sum(cp.log_normcdf(signed / link.sigma))
    limits = [cp.normNuc(x) <= radius]
    if bound is not None:
        limits.append(cp.abs(x) <= bound)
    problem = cp.Problem(cp.Minimize(loss), limits)
    problem.solve(solver="SCS", eps=1e-7, max_iters=50_000)
    return problem.value, x.value


def test_a_block_outside_the_first_answer_joins_it():
    """All +1 on observed diagonal blocks of sizes n_k: the optimum is c_k on block k with
    n_k / (1 + exp(c_k)) equal for all and sum n_k c_k = radius, found by bisection. The small
    blocks enter late, while the vectors of the large ones are invariant."""
    sizes = np.array([100, 95, 40, 40, 40])
    block = np.repeat(np.arange(len(sizes)), sizes)
    users, items = np.nonzero(block[:, None] == block)
    public = PublicFacts(users=len(block), items=len(block), low=-1, high=1)
    ratings = Ratings.build(users, items, np.ones(len(users)), public)
    radius = 1.5 * len(block)

    def levels(slope):
        return np.log(np.maximum(sizes / slope - 1, 1))

    slope = brentq(lambda t: sizes @ levels(t) - radius, 1e-6, sizes.max())
    optimum = np.square(sizes) @ np.log1p(np.exp(-levels(slope)))
    last = solve(likelihood_loss(LOGISTIC, np.ones(len(users))), make_ball(ratings, radius), 1e-5)
    assert last.index < ITERATIONS  # the tolerance was met
    assert last.objective <= optimum * (1 + 1e-6)


@pytest.mark.parametrize("bound", [None, 0.8])
def test_logistic_optimum_equals_cvxpy(bound):
    ratings = draw_signs()
    radius = 0.6 * np.sqrt(np.prod(ratings.shape))
    expected, _ = solve_with_cvxpy(ratings, LOGISTIC, radius, bound)
    loss = likelihood_loss(LOGISTIC, (ratings.values > 0).astype(float))
    solution = solve(loss, make_ball(ratings, radius, bound))
    assert solution.objective == pytest.approx(expected, rel=1e-4)
    matrix = predict_all(solution.point, ratings.shape)
    assert np.linalg.norm(matrix, "nuc") <= radius * (1 + 1e-4)
    if bound is not None:
        assert np.abs(matrix).max() <= bound


@pytest.mark.parametrize("bound", [None, 0.8])
def test_probit_optimum_equals_cvxpy(bound):
    """cvxpy's log_normcdf is itself an approximation, so its point is judged by the exact loss."""
    ratings = draw_signs(seed=3)
    radius = 0.6 * np.sqrt(np.prod(ratings.shape))
    link = Probit(0.9)
    loss = likelihood_loss(link, (ratings.values > 0).astype(float))
    _, x = solve_with_cvxpy(ratings, link, radius, bound)
    expected, _ = loss(x[ratings.users, ratings.items])
    solution = solve(loss, make_ball(ratings, radius, bound))
    assert solution.objective <= expected * (1 + 1e-4)
    assert solution.objective >= expected * (1 - 1e-2)


@pytest.mark.parametrize("bound", [None, 0.5])
def test_projection_is_the_nearest_feasible_point(bound):
    """Against Dykstra's alternating projections with full decompositions."""
    ratings = draw_signs(seed=5)
    rng = np.random.default_rng(6)
    gradient = 3 * rng.normal(size=len(ratings))
    radius = 5.0
    feasible = make_ball(ratings, radius, bound)
    point = feasible.project(feasible.origin(), 1.0, gradient, 1e-7)
    target = np.zeros(ratings.shape)
    target[ratings.users, ratings.items] = -gradient

    def nuclear(matrix):
        u, s, vt = np.linalg.svd(matrix, full_matrices=False)
        means = (np.cumsum(s) - radius) / np.arange(1, len(s) + 1)
        theta = max(0.0, means[np.flatnonzero(s > means)[-1]])
        return (u * np.maximum(s - theta, 0)) @ vt

    x, p, q = target, np.zeros_like(target), np.zeros_like(target)
    for _ in range(20_000):
        y = nuclear(x + p)
        p = x + p - y
        x = y if bound is None else np.clip(y + q, -bound, bound)
        q = y + q - x
    assert np.linalg.norm(predict_all(point, ratings.shape) - x) < 1e-4


def test_stationary_for_the_loss_of_flipped_signs():
    """That loss is not convex, so the fixed point itself is checked, with a full decomposition."""
    ratings = draw_signs(30, 25, seed=8)
    loss = flipped_likelihood_loss(LOGISTIC, (ratings.values > 0).astype(float), 0.27, 0.27)
    radius = 0.7 * np.sqrt(np.prod(ratings.shape))
    feasible = make_ball(ratings, radius)
    last = solve(loss, feasible)
    assert last.index < ITERATIONS  # the tolerance was met
    _, gradient = loss(last.point.observed)
    projected = make_ball(ratings, radius).project(last.point, 1.0, gradient, 1e-9)
    distance = np.linalg.norm(
        predict_all(projected, ratings.shape) - predict_all(last.point, ratings.shape)
    )
    assert distance <= 1e-5 * max(1, np.sqrt(last.point.dot(last.point)))


def test_flipped_loss_gradient_and_its_negative_curvature():
    x = np.linspace(-1, 1, 201)
    p = 1 / (1 + np.e)
    for label in (0.0, 1.0):
        loss = flipped_likelihood_loss(LOGISTIC, np.array([label]), p, p)
        values = np.array([loss(np.array([t]))[0] for t in x])
        slopes = np.array([loss(np.array([t]))[1][0] for t in x])
        assert np.allclose(np.gradient(values, x)[1:-1], slopes[1:-1], atol=1e-4)
        assert np.gradient(slopes, x).min() == pytest.approx(-0.053, abs=2e-3)
