"""Frank-Wolfe, projected gradient, alternating least squares, Oja and their helpers."""

import math

import cvxpy as cp
import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.data import datasets
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.als import (
    bounded_scale,
    nearest_positive,
    normal_equations,
    ridge,
    ridge_rows,
)
from dpmc_core.solvers.cleansing import Predictor, shrunken_covariance
from dpmc_core.solvers.frank_wolfe import Expansion, StepRule, complete, top_right_pair, top_vector
from dpmc_core.solvers.lapack import top_eigenpairs
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.pgd import Descent, Schedule
from dpmc_core.solvers.rows import (
    clip_dense_rows,
    clip_rows,
    gram,
    item_sums,
    recentred,
    row_sums,
    shrunken_means,
    times_vector,
    user_rows,
)


def pattern(mask):
    users, items = np.nonzero(mask)
    indptr = np.concatenate(([0], np.cumsum(mask.sum(axis=1))))
    return Pattern(users.astype(np.int32), items.astype(np.int32), indptr, mask.shape)


def problem(m=40, n=15, rank=1, density=0.5, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(m, rank)) @ rng.normal(size=(rank, n))
    mask = rng.random((m, n)) < density
    mask[0] = False  # a user without ratings
    target = (matrix + noise * rng.normal(size=(m, n)))[mask]
    return matrix, mask, pattern(mask), target


def dense(cells, values):
    matrix = np.zeros(cells.shape)
    matrix[cells.users, cells.items] = values
    return matrix


def run(cells, target, radius, rounds, rule=StepRule.LINE_SEARCH, tolerance=0.0):
    steps = list(
        complete(
            cells, target, radius, rounds=rounds, rule=rule, tolerance=tolerance,
            rng=np.random.default_rng(1),
        )
    )  # fmt: skip
    factors = steps[-1][1].factors()
    return [s[0] for s in steps], factors.left @ factors.right.T


# --- Frank-Wolfe --------------------------------------------------------------------------------


def test_one_round_recovers_a_fully_seen_rank_one_matrix():
    matrix, _, _, _ = problem()
    cells = pattern(np.ones_like(matrix, dtype=bool))
    radius = np.linalg.norm(matrix, "nuc")
    _, found = run(cells, matrix.ravel(), radius, rounds=1)
    assert np.allclose(found, matrix, atol=1e-6 * radius)


@pytest.mark.parametrize("rule", StepRule)
def test_rank_one_is_recovered_from_half_its_entries(rule):
    matrix, mask, cells, target = problem(m=120, n=30)
    radius = np.linalg.norm(matrix[1:], "nuc")
    _, found = run(cells, target, radius, rounds=1500, rule=rule)
    error = np.linalg.norm((found - matrix)[1:]) / np.linalg.norm(matrix[1:])
    if rule is StepRule.FIXED:  # from zero, steps of 1/T leave (1 - 1/T)^T = 1/e of the way undone
        assert error == pytest.approx(math.exp(-1), abs=0.05)
        return
    assert error < 0.02
    assert np.linalg.norm((found - matrix)[1:][~mask[1:]]) < 0.05 * np.linalg.norm(matrix[1:])


@pytest.mark.parametrize("items", [2, 6, 600])
def test_the_top_pair_is_found_from_a_start_that_the_matrix_takes_to_zero(items):
    rng = np.random.default_rng(5)
    mask = rng.random((40, items)) < 0.5
    mask[:, -1] = False  # nobody rated the last item
    mask[0, 0] = True
    cells = pattern(mask)
    matrix = np.zeros(mask.shape)
    matrix[mask] = rng.normal(size=int(mask.sum()))
    sigma, v = top_right_pair(cells, matrix[mask], np.eye(items)[-1])
    assert sigma == pytest.approx(np.linalg.norm(matrix, 2), rel=1e-3)
    assert np.linalg.norm(matrix @ v) == pytest.approx(sigma, rel=1e-3)


@pytest.mark.parametrize("radius", [0.5, 10.0, 1000.0])
def test_frank_wolfe_never_fails_on_a_small_catalogue(radius):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        u, i = np.nonzero(rng.random((12, 6)) < 0.6)
        public = PublicFacts(users=12, items=6, low=1, high=5)
        ratings = Ratings.build(u, i, rng.integers(1, 6, len(u)).astype(float), public)
        steps = list(registry.create("frank-wolfe", radius=radius).fit(ratings, rng))
        assert np.isfinite(steps[-1].model.predict(np.arange(12)[:, None], np.arange(6))).all()


def test_the_duality_gap_bounds_the_distance_to_the_optimum_of_an_independent_solver():
    _, mask, cells, target = problem(rank=3, noise=0.3)
    radius = 12.0
    variable = cp.Variable(cells.shape)
    fit = 0.5 * cp.sum_squares(cp.multiply(mask, variable) - dense(cells, target))
    best = cp.Problem(cp.Minimize(fit), [cp.normNuc(variable) <= radius]).solve(solver="SCS")
    steps, found = run(cells, target, radius, rounds=300)
    for step in steps:
        assert step.objective - step.gap <= best * (1 + 1e-3)
        assert step.objective >= best * (1 - 1e-3)
    objectives = [s.objective for s in steps]
    assert objectives == sorted(objectives, reverse=True)
    assert objectives[-1] == pytest.approx(best, rel=0.02)
    assert np.linalg.norm(found, "nuc") <= radius * (1 + 1e-6)


def test_projected_gradient_reaches_the_same_optimum():
    _, _, cells, target = problem(rank=3, noise=0.3)
    radius = 12.0
    steps, _ = run(cells, target, radius, rounds=600)
    descent = Descent(cells, target)
    for _ in range(400):
        squares, cut = descent.stepped_gram(1.0, math.inf)
        assert cut == 0
        descent.project(1.0, math.inf, *np.linalg.eigh(squares), radius)
    objective = 0.5 * descent.residual_rmse() ** 2 * len(target)
    assert objective == pytest.approx(steps[-1].objective, rel=5e-3)
    assert objective <= steps[-1].objective
    assert np.linalg.norm(descent.left @ descent.right.T, "nuc") <= radius * (1 + 1e-6)


def test_it_stops_where_the_gap_is_small():
    _, _, cells, target = problem(noise=0.3)
    steps, _ = run(cells, target, 5.0, rounds=500, tolerance=0.05)
    assert steps[-1].final
    assert len(steps) < 500
    assert steps[-1].gap <= 0.05 * steps[-1].objective


@pytest.mark.parametrize("rule", [StepRule.FIXED, StepRule.DECREASING])
def test_public_steps_are_those_of_the_papers(rule):
    assert [StepRule.FIXED.share(t, 4) for t in (1, 2, 4)] == [0.25] * 3
    assert [StepRule.DECREASING.share(t, 4) for t in (1, 2, 4)] == [1.0, 2 / 3, 0.4]
    _, _, cells, target = problem()
    steps, _ = run(cells, target, 5.0, rounds=4, rule=rule)
    assert [s.share for s in steps] == [rule.share(t, 4) for t in (1, 2, 3, 4)]


def test_the_expansion_keeps_factors_and_observed_cells_together():
    rng = np.random.default_rng(0)
    _, _, cells, _ = problem()
    expansion = Expansion(cells, 5)
    matrix = np.zeros(cells.shape)
    for share in (0.3, 0.5, 0.2):
        column, direction = rng.normal(size=cells.shape[0]), rng.normal(size=cells.shape[1])
        expansion.step(share, column, direction)
        matrix = (1 - share) * matrix + share * np.outer(column, direction)
        seen = np.linalg.norm(matrix * dense(cells, np.ones(len(cells.users))), axis=1)
        assert expansion.scale_rows(0.8) == (seen > 0.8).sum()
        matrix *= (0.8 / np.maximum(seen, 0.8))[:, None]
        factors = expansion.factors()
        assert np.allclose(factors.left @ factors.right.T, matrix)
        assert np.allclose(dense(cells, expansion.observed)[cells.users, cells.items],
                           matrix[cells.users, cells.items])  # fmt: skip


# --- rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "n", "density"), [(50, 12, 0.6), (30, 400, 0.01), (3000, 900, 0.2)])
def test_gram_and_sums_agree_with_dense_algebra(m, n, density):
    _, _, cells, values = problem(m, n, 2, density)
    matrix = dense(cells, values)
    assert np.allclose(gram(cells, values), matrix.T @ matrix)
    v = np.random.default_rng(0).normal(size=n)
    assert np.allclose(times_vector(cells, values, v), matrix @ v)
    assert np.allclose(row_sums(cells, values), matrix.sum(axis=1))
    assert np.allclose(item_sums(cells, values), matrix.sum(axis=0))


def test_clipped_rows_have_the_norm_and_the_direction():
    _, _, cells, values = problem()
    clipped, count = clip_rows(cells, values, 1.5)
    before, after = dense(cells, values), dense(cells, clipped)
    norms = np.linalg.norm(before, axis=1)
    assert np.linalg.norm(after, axis=1).max() <= 1.5 * (1 + 1e-12)
    assert count == (norms > 1.5).sum() > 0
    assert np.allclose(after[norms <= 1.5], before[norms <= 1.5])
    whole, again = clip_dense_rows(before, 1.5)
    assert np.allclose(whole, after)
    assert again == count
    assert np.array_equal(clip_dense_rows(before, math.inf)[0], before)


def test_rows_are_centred_on_their_own_mean_also_after_item_means():
    rng = np.random.default_rng(3)
    users, items = np.nonzero(rng.random((20, 8)) < 0.4)
    public = PublicFacts(users=21, items=8, low=1, high=5)
    ratings = Ratings.build(users, items, rng.integers(1, 6, len(users)).astype(float), public)
    rows = user_rows(ratings, 8, rng)
    assert np.abs(row_sums(rows.cells, rows.values)).max() < 1e-9
    assert rows.means[20] == 3.0  # nothing rated: the middle of the range
    item = rng.normal(size=8)
    again = recentred(rows, item)
    assert np.abs(row_sums(again.cells, again.values)).max() < 1e-9
    back = again.values + again.means[ratings.users] + item[ratings.items]
    assert np.allclose(back, ratings.values)


def test_top_eigenpairs_are_the_largest():
    matrix = np.random.default_rng(0).normal(size=(12, 12))
    matrix = matrix + matrix.T
    values, vectors = top_eigenpairs(matrix, 3)
    assert np.allclose(values, np.linalg.eigvalsh(matrix)[-3:])
    assert np.allclose(matrix @ vectors, vectors * values)


def test_item_means_are_shrunk_by_four_ratings():
    counts = np.array([0.0, 1.0, 4.0, 100.0])
    sums = 0.5 * counts
    assert np.allclose(shrunken_means(sums, counts), sums / (counts + 4))


# --- alternating least squares ------------------------------------------------------------------


def test_the_ridge_of_rows_is_every_users_exact_solution():
    _, mask, cells, values = problem(rank=3, noise=0.2)
    right = np.random.default_rng(1).normal(size=(15, 3))
    found = ridge_rows(cells.by_user(values), right, 0.7)
    matrix = dense(cells, values)
    for u in range(40):
        v = right[mask[u]]
        exact = np.linalg.solve(v.T @ v + 0.7 * np.eye(3), v.T @ matrix[u, mask[u]])
        assert np.allclose(found[u], exact)


def test_normal_equations_are_the_weighted_sums():
    _, _, cells, values = problem(rank=2)
    rng = np.random.default_rng(1)
    left, weights = rng.normal(size=(40, 2)), rng.random(len(values))
    by_item = cells.by_item(values), left, cells.by_item(weights).data
    squares, moments = normal_equations(*by_item)
    w, x = dense(cells, weights), dense(cells, values)
    for j in range(15):
        assert np.allclose(squares[j], (left * w[:, j, None]).T @ left)
        assert np.allclose(moments[j], left.T @ (w[:, j] * x[:, j]))


def test_nearest_positive_is_the_projection():
    rng = np.random.default_rng(2)
    for matrix in rng.normal(size=(5, 4, 4)):
        symmetric = matrix + matrix.T
        found = nearest_positive(symmetric[None])[0]
        assert np.linalg.eigvalsh(found).min() >= -1e-12
        # The residual of a projection to a cone is negative semidefinite and orthogonal to it.
        assert np.linalg.eigvalsh(symmetric - found).max() <= 1e-12
        assert abs(np.sum((symmetric - found) * found)) < 1e-10


def test_factors_are_scaled_to_rating_points():
    right = 3 * np.random.default_rng(0).normal(size=(50, 3))
    scaled = bounded_scale(right)
    assert np.linalg.norm(scaled, 2) == pytest.approx(math.sqrt(50))
    assert np.allclose(scaled / right, (scaled / right)[0, 0])
    assert np.array_equal(bounded_scale(right / 100), right / 100)
    assert np.allclose(
        ridge(np.eye(2)[None] * 3, np.array([[4.0, 8.0]]), np.array([1.0])), [[1.0, 2.0]]
    )


def test_alternating_least_squares_recovers_low_rank_ratings():
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((300, 40)) < 0.5)
    taste = 0.4 * rng.normal(size=(300, 2)) @ rng.normal(size=(2, 40))
    values = np.clip(3 + taste[users, items], 1, 5)
    public = PublicFacts(users=300, items=40, low=1, high=5)
    train = Ratings.build(users, items, values, public)
    als = registry.create("als", rank=3, rounds=30, ridge=0.1, item_ridge=0.1)
    last = list(als.fit(train, np.random.default_rng(0)))[-1]
    assert last.trace["training rmse"] < 0.1
    hidden = np.ones((300, 40), dtype=bool)
    hidden[users, items] = False
    u, i = np.nonzero(hidden)
    error = last.model.predict(u, i) - np.clip(3 + taste[u, i], 1, 5)
    assert math.sqrt(np.mean(error**2)) < 0.2 * taste.std()


# --- Oja ----------------------------------------------------------------------------------------


def test_ojas_vector_has_nearly_the_top_rayleigh_quotient():
    _, _, cells, values = problem(200, 25, 3, noise=1.0)
    square = gram(cells, values)
    top = np.linalg.eigvalsh(square)[-1]
    v = top_vector(lambda x: square @ x, 25, 60, 10 / top, np.random.default_rng(0))
    assert np.linalg.norm(v) == pytest.approx(1)
    assert v @ square @ v >= (1 - 1e-2) * top


@pytest.mark.slow
def test_ojas_vector_on_jester_is_within_a_hundredth_of_the_eigenvectors_quotient(shared_data):
    ratings = datasets.load(shared_data / "jester").ratings
    public = ratings.public
    rng = np.random.default_rng(0)
    mechanism = registry.create("private-frank-wolfe-oja", epsilon=1.0, rounds=1, updates=20)
    bound = mechanism.residual * mechanism.row_norm(public)
    rows = user_rows(ratings, mechanism.most(public), rng)
    residual, _ = clip_rows(rows.cells, rows.values, bound)
    square = gram(rows.cells, residual)
    top = np.linalg.eigvalsh(square)[-1]
    releases = mechanism.guarantee(public).releases
    v, found, *_ = mechanism.top_pair(releases, 1, rows.cells, residual, rng)
    assert v @ square @ v >= (1 - 1e-2) * top
    assert found == pytest.approx(top, rel=0.05)


# --- the rest -----------------------------------------------------------------------------------


def test_schedules():
    assert [Schedule.ROOT.step(t, 0.3) for t in (1, 4)] == [1.0, 0.5]
    assert [Schedule.INVERSE.step(t, 0.3) for t in (1, 4)] == [1.0, 0.25]
    assert [Schedule.CONSTANT.step(t, 0.3) for t in (1, 4)] == [0.3, 0.3]


def test_covariances_shrink_towards_their_average():
    rng = np.random.default_rng(0)
    products, weights = rng.normal(size=(6, 6)), 1 + rng.random((6, 6))
    products, weights = products + products.T, weights + weights.T
    assert np.allclose(shrunken_covariance(products, weights, 0.0), products / weights)
    average = products.mean() / weights.mean()
    assert np.allclose(shrunken_covariance(products, weights, 1e9), average, atol=1e-6)


@pytest.mark.parametrize("predictor", Predictor)
def test_cleansing_beats_the_means_on_structured_ratings(predictor):
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((600, 30)) < 0.5)
    taste = rng.normal(size=(600, 2)) @ rng.normal(size=(2, 30))
    values = np.clip(3 + 0.5 * taste[users, items] + 0.2 * rng.normal(size=len(users)), 1, 5)
    public = PublicFacts(users=600, items=30, low=1, high=5)
    held = rng.random(len(users)) < 0.1
    whole = Ratings.build(users, items, values, public)
    train, test = whole.select(~held), whole.select(held)

    def rmse(id, **settings):
        step = list(registry.create(id, **settings).fit(train, np.random.default_rng(0)))[-1]
        return math.sqrt(np.mean((step.model.predict(test.users, test.items) - test.values) ** 2))

    # One variable name a line would say the same: structured ratings, so tastes must help.
    assert rmse("cleansed-svd", predictor=predictor) < 0.9 * rmse("item-mean")


def test_ojas_products_are_the_sparse_sums():
    _, _, cells, target = problem(m=300, n=40, rank=2)
    vector = np.random.default_rng(1).normal(size=cells.shape[1])
    made = registry.create("private-frank-wolfe-oja", epsilon=1.0, rounds=2, updates=5)
    releases = made.releases(PublicFacts(users=300, items=40, low=-1, high=1))
    scale, n = releases.products.scale, cells.shape[1]

    def product(v):
        along = times_vector(cells, target, v)
        return releases.products.publish(item_sums(cells, target * along[cells.users]), rng)

    rng = np.random.default_rng(2)
    expected = top_vector(product, n, 5, 1 / (5 * scale * np.sqrt(n)), rng)
    along = times_vector(cells, target, expected)
    square = releases.squared_norms.publish(float(along @ along), rng)
    found = made.top_pair(releases, 1, cells, target, np.random.default_rng(2))
    np.testing.assert_allclose(found[0], expected, rtol=1e-12, atol=1e-14)
    assert found[1] == pytest.approx(square, rel=1e-12)
    np.testing.assert_allclose(
        cells.by_user(target) @ vector, times_vector(cells, target, vector), atol=1e-12
    )
