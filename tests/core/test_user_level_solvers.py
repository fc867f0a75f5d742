"""Frank-Wolfe, projected gradient, alternating least squares, Oja and their helpers."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpmc_core import privacy, registry
from dpmc_core.mechanisms.cleansing import shrink_covariance
from dpmc_core.mechanisms.frank_wolfe import (
    StepRule,
    build_exact_top_pair,
    build_nuclear_projection,
    iterate_frank_wolfe,
    iterate_projected_gradient,
    run_oja,
)
from dpmc_core.metrics import rmse
from dpmc_core.model import Estimator
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.empirical_bayes import CountEstimate
from dpmc_core.solvers.item_effects import ItemEffects, estimate_user_variances
from dpmc_core.solvers.linalg import eigenpairs_above, leading_eigenpairs, low_rank_plus_sparse
from dpmc_core.solvers.rows import (
    centre_ratings,
    clip_dense_rows,
    clip_rows,
    gram,
    gram_products,
    item_normal_equations,
    item_sums,
    low_rank_gram_products,
    normal_equations,
    project_to_semidefinite,
    row_sums,
    solve_ridge_rows,
)
from tests.ratings_helpers import make_pattern, random_stars
from tests.replay import predict_all


def draw_problem(m=40, n=15, rank=1, density=0.5, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(m, rank)) @ rng.normal(size=(rank, n))
    mask = rng.random((m, n)) < density
    mask[0] = False  # a user without ratings
    target = (matrix + noise * rng.normal(size=(m, n)))[mask]
    return matrix, mask, make_pattern(mask), target


def fill_matrix(cells, values):
    matrix = np.zeros(cells.shape)
    matrix[cells.users, cells.items] = values
    return matrix


def run_frank_wolfe(cells, target, radius, rounds, rule=StepRule.LINE_SEARCH):
    top_pair = build_exact_top_pair(cells.shape[1], np.random.default_rng(1))
    steps = list(
        iterate_frank_wolfe(cells, target, radius, rounds=rounds, step=rule, top_pair=top_pair)
    )
    factors = steps[-1].factors
    return steps, factors.left @ factors.right.T


def compute_objective(step):
    return 0.5 * step.squared_norms[0]


# --- Frank-Wolfe --------------------------------------------------------------------------------


@pytest.mark.parametrize("items", [2, 6, 600])
def test_the_top_pair_is_found_from_a_start_that_the_matrix_takes_to_zero(items):
    rng = np.random.default_rng(5)
    mask = rng.random((40, items)) < 0.5
    mask[:, -1] = False  # nobody rated the last item
    mask[0, 0] = True
    cells = make_pattern(mask)
    matrix = np.zeros(mask.shape)
    matrix[mask] = rng.normal(size=int(mask.sum()))
    exact = gram_products(cells.build_matrix(matrix[mask]))
    (square,), (v,) = (p.T for p in leading_eigenpairs(exact, items, 1, 1e-4, np.eye(items)[-1]))
    sigma = math.sqrt(square)
    assert sigma == pytest.approx(np.linalg.norm(matrix, 2), rel=1e-3)
    assert np.linalg.norm(matrix @ v) == pytest.approx(sigma, rel=1e-3)


@pytest.mark.slow
def test_the_duality_gap_bounds_the_distance_to_the_optimum_of_an_independent_solver():
    _, mask, cells, target = draw_problem(rank=3, noise=0.3)
    radius = 12.0
    import cvxpy as cp

    variable = cp.Variable(cells.shape)
    fit = 0.5 * cp.sum_squares(cp.multiply(mask, variable) - fill_matrix(cells, target))
    best = cp.Problem(cp.Minimize(fit), [cp.normNuc(variable) <= radius]).solve(solver="SCS")
    steps, completed = run_frank_wolfe(cells, target, radius, rounds=300)
    for step in steps:
        assert compute_objective(step) - step.duality_gap <= best * (1 + 1e-3)
        assert compute_objective(step) >= best * (1 - 1e-3)
    objectives = [compute_objective(s) for s in steps]
    assert objectives == sorted(objectives, reverse=True)
    assert objectives[-1] == pytest.approx(best, rel=0.02)
    assert np.linalg.norm(completed, "nuc") <= radius * (1 + 1e-6)


@pytest.mark.slow
def test_projected_gradient_reaches_the_same_optimum():
    _, _, cells, target = draw_problem(rank=3, noise=0.3)
    radius = 12.0
    steps, _ = run_frank_wolfe(cells, target, radius, rounds=600)
    project = build_nuclear_projection(radius, 1e-6, np.random.default_rng(0))
    rounds = list(iterate_projected_gradient(cells, target, [1.0] * 400, project))
    assert not any(step.n_clipped for step in rounds)
    left, right = rounds[-1].factors.left, rounds[-1].factors.right
    reached = 0.5 * rmse(cells.sample_product(left, right), target) ** 2 * len(target)
    assert reached == pytest.approx(compute_objective(steps[-1]), rel=5e-3)
    assert reached <= compute_objective(steps[-1])
    assert np.linalg.norm(left @ right.T, "nuc") <= radius * (1 + 1e-6)


def test_factors_and_observed_cells_stay_together_where_rows_are_scaled():
    rng = np.random.default_rng(0)
    _, mask, cells, target = draw_problem()
    shape, norm = cells.shape, 0.8
    matrix = np.zeros(shape)

    def top_pair(*_):
        return rng.normal(size=shape[1]), 2.0, True

    options = {"rounds": 5, "step": StepRule.DECREASING, "top_pair": top_pair, "max_row_norm": norm}
    for step in iterate_frank_wolfe(cells, target, 3.0, **options):
        v = step.factors.right[:, -1]
        before = matrix[mask] - target
        new = np.outer(fill_matrix(cells, before) @ v * (-3.0 / 2.0), v)
        matrix = (1 - step.share) * matrix + step.share * new
        row_norms = np.linalg.norm(matrix * mask, axis=1)
        assert step.n_scaled == (row_norms > norm).sum()
        matrix *= (norm / np.maximum(row_norms, norm))[:, None]
        assert np.allclose(step.factors.left @ step.factors.right.T, matrix)
        after = matrix[mask] - target
        assert np.allclose(step.squared_norms, [before @ before, after @ after])


# --- rows ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n", "density"), [(50, 12, 0.6), (30, 400, 0.01), (3000, 900, 0.2)])
def test_gram_and_sums_agree_with_dense_algebra(m, n, density):
    _, _, cells, values = draw_problem(m, n, 2, density)
    matrix = fill_matrix(cells, values)
    square, block = matrix.T @ matrix, np.random.default_rng(1).normal(size=(n, 3))
    assert np.allclose(gram(cells.build_matrix(values)), square)
    rows = cells.build_matrix(values)
    assert np.allclose(gram_products(rows)(block), square @ block)
    assert np.allclose(gram_products(rows)(np.eye(n)), square)
    factor = np.random.default_rng(2).uniform(size=m)
    square = (matrix * factor[:, None]).T @ (matrix * factor[:, None])
    assert np.allclose(gram_products(rows, factor)(block), square @ block)
    off_diagonal = square - np.diag(np.diag(square))
    assert np.allclose(gram_products(rows, factor, diagonal=False)(block), off_diagonal @ block)
    assert np.allclose(gram_products(rows, factor, diagonal=False)(np.eye(n)), off_diagonal)
    v = np.random.default_rng(0).normal(size=n)
    assert np.allclose(row_sums(cells, values * v[cells.items]), matrix @ v)
    assert np.allclose(row_sums(cells, values), matrix.sum(axis=1))
    assert np.allclose(item_sums(cells, values), matrix.sum(axis=0))
    assert np.allclose(item_sums(cells, values, factor), factor @ matrix)
    assert np.array_equal(item_sums(cells), (matrix != 0).sum(axis=0))


def test_clipped_rows_have_the_norm_and_the_direction():
    _, _, cells, values = draw_problem()
    before = fill_matrix(cells, values)
    factor = clip_rows(cells, values, 1.5)
    after = fill_matrix(cells, values)
    norms = np.linalg.norm(before, axis=1)
    assert np.linalg.norm(after, axis=1).max() <= 1.5 * (1 + 1e-12)
    assert (factor < 1).sum() == (norms > 1.5).sum() > 0
    assert np.allclose(after, before * factor[:, None])
    assert np.allclose(after[norms <= 1.5], before[norms <= 1.5])
    clipped, n_clipped = clip_dense_rows(before, 1.5)
    assert np.allclose(clipped, after)
    assert n_clipped == (factor < 1).sum()
    assert np.array_equal(clip_dense_rows(before, math.inf)[0], before)


def test_rows_beyond_the_first_part_are_clipped_too():
    """Rows are worked on in parts of 50,000 cells; here are more than two such parts."""
    cells = make_pattern(np.ones((1_200, 100), dtype=bool))
    values = np.random.default_rng(0).normal(size=120_000)
    expected = 1.5 * values / np.repeat(np.linalg.norm(values.reshape(1_200, 100), axis=1), 100)
    clip_rows(cells, values, 1.5)
    assert np.allclose(values, expected)


def test_rows_are_centred_on_their_own_mean_also_after_item_means():
    rng = np.random.default_rng(3)
    ratings = random_stars(20, 8, 0.4, rng)
    ratings = replace(ratings, public=replace(ratings.public, users=21))
    rows = centre_ratings(ratings)
    assert np.abs(row_sums(rows.entries, rows.values)).max() < 1e-9
    assert rows.base.predict(20, 0) == 3.0  # nothing rated: the middle of the range
    centred_again = centre_ratings(ratings, rng.normal(size=8))
    assert np.abs(row_sums(centred_again.entries, centred_again.values)).max() < 1e-9
    back = centred_again.values + centred_again.base.predict(ratings.users, ratings.items)
    assert np.allclose(back, ratings.values)


def test_eigenpairs_above_a_bound_are_all_of_them():
    matrix = np.random.default_rng(0).normal(size=(150, 150))
    matrix = matrix + matrix.T
    exact = np.linalg.eigvalsh(matrix)[::-1]
    for bound, count in ((exact[0] + 1, 0), (exact[4] - 1e-6, 5), (exact[70] - 1e-6, 71)):

        def above(values, bound=bound):
            return int((values > bound).sum())

        values, vectors = eigenpairs_above(matrix.__matmul__, 150, above, 0.0)
        assert np.allclose(values, exact[:count])
        assert np.allclose(matrix @ vectors, vectors * values)
    assert eigenpairs_above(matrix.__matmul__, 150, len, 0.0)[1].shape == (150, 150)


def test_rows_of_the_stepped_matrix_are_clipped_to_their_norm_as_a_dense_matrix_is():
    _, mask, cells, target = draw_problem(rank=3, noise=0.3)
    basis = np.linalg.qr(np.random.default_rng(4).normal(size=(15, 2)))[0]
    products, grams = [], []

    def project(*stepped):
        products.append(low_rank_plus_sparse(*stepped).multiply(np.eye(15)))
        grams.append(low_rank_gram_products(*stepped)(np.eye(15)))
        return basis, np.array([0.9, 0.5])

    matrix, norm = np.zeros(cells.shape), 1.2
    for step in iterate_projected_gradient(cells, target, [0.7] * 3, project, norm):
        matrix += 0.7 * np.where(mask, fill_matrix(cells, target) - matrix, 0.0)
        matrix, clipped = clip_dense_rows(matrix, norm)
        assert np.allclose(products[-1], matrix)
        assert np.allclose(grams[-1], matrix.T @ matrix)
        assert step.n_clipped == clipped > 0
        matrix = matrix @ basis * [0.9, 0.5] @ basis.T
        assert np.allclose(step.factors.left @ step.factors.right.T, matrix)


# --- alternating least squares ------------------------------------------------------------------


@pytest.mark.parametrize("rank", [2, 12, 20])
def test_normal_equations_are_the_weighted_sums(rank):
    _, _, cells, values = draw_problem(rank=2)
    rng = np.random.default_rng(1)
    left, weights = rng.normal(size=(40, rank)), rng.random(len(values))
    w, x = fill_matrix(cells, weights), fill_matrix(cells, values)
    weighted, transposed = cells.build_transpose(values * weights), cells.build_transpose(weights)
    for bound, (squares, moments) in (
        (math.inf, normal_equations(weighted, left, transposed)),
        (math.inf, item_normal_equations(cells, values, left, weights)),
        (0.1, item_normal_equations(cells, values, left, weights, 0.1)),
    ):
        for j in range(15):
            assert np.allclose(squares[j], (left * w[:, j, None]).T @ left)
            assert np.allclose(moments[j], left.T @ (w[:, j] * np.clip(x[:, j], -bound, bound)))


def test_nearest_positive_is_the_projection():
    rng = np.random.default_rng(2)
    for matrix in rng.normal(size=(5, 4, 4)):
        symmetric = matrix + matrix.T
        projected = project_to_semidefinite(symmetric[None])[0]
        assert np.linalg.eigvalsh(projected).min() >= -1e-12
        # The residual of a projection to a cone is negative semidefinite and orthogonal to it.
        assert np.linalg.eigvalsh(symmetric - projected).max() <= 1e-12
        assert abs(np.sum((symmetric - projected) * projected)) < 1e-10


# --- Oja and the rest ---------------------------------------------------------------------------


def test_cleansing_as_published_has_no_singular_system():
    """Also where noise leaves a trace at or below zero, and users have fewer ratings than rank."""
    for seed in range(400):
        rng = np.random.default_rng(seed)
        m, n = (int(k) for k in rng.integers((2, 1), (12, 9)))
        cells = rng.random((m, n)) < rng.choice([0.1, 0.3, 0.6, 1.0])
        cells[0, 0] = True
        users, items = np.nonzero(cells)
        low, high = [(1, 5), (0, 1), (-10, 10), (0, 1e6), (0, 1e-6)][seed % 5]
        values = rng.choice(np.linspace(low, high, 5), len(users))
        ratings = Ratings.build(
            users, items, values, PublicFacts(users=m, items=n, low=low, high=high)
        )
        mechanism = registry.create("svd-after-cleansing", epsilon=float(10 ** rng.uniform(-2, 5)),
                               estimator=Estimator.PUBLISHED,
                               rank=int(rng.integers(1, n + 1)))  # fmt: skip
        (step,) = mechanism.fit(ratings, rng)
        assert np.isfinite(predict_all(step.model, (m, n))).all()


def test_ojas_answers_are_those_of_the_residual_rows():
    """Each product is A'A v and the squared norm |A v|^2, for clipped rows A of one round."""
    rng = np.random.default_rng(1)
    ratings = random_stars(300, 40, 0.3, rng)
    mechanism = registry.create("private-frank-wolfe-oja", epsilon=1.0, rounds=1, item_share=0.0,
                           estimator=Estimator.PUBLISHED, updates=5, cap=None)  # fmt: skip
    with privacy.record_publications() as publications:
        (step,) = mechanism.fit(ratings, np.random.default_rng(2))
    rows = centre_ratings(ratings)
    for share in (1.0, mechanism.residual):
        clip_rows(rows.entries, rows.values, share * mechanism.row_norm(ratings.public))
    matrix = fill_matrix(rows.entries, rows.values)
    *products, norm = publications
    v = draw_start(40, 2)
    for product in products:
        assert np.allclose(product.private, matrix.T @ (matrix @ v))
        v = v + product.published / (5 * product.release.scale * math.sqrt(40))
        v /= np.linalg.norm(v)
    assert np.allclose(step.model.factors.right[:, 0], v)
    assert float(norm.private) == pytest.approx(float(np.sum((matrix @ v) ** 2)))


def draw_start(size, seed):
    """The first direction: drawn after the key of the cap."""
    rng = np.random.default_rng(seed)
    rng.integers(2**63)
    v = rng.standard_normal(size)
    return v / np.linalg.norm(v)


def test_it_stops_where_the_gap_is_small():
    method = registry.create("frank-wolfe", rounds=500, tolerance=0.05, radius=0.3)
    rng = np.random.default_rng(3)
    steps = list(method.fit(random_stars(60, 20, 0.5, rng), rng))
    assert [step.final for step in steps] == [False] * (len(steps) - 1) + [True]
    assert len(steps) < 500
    assert steps[-1].trace["duality gap"] <= 0.05 * steps[-1].trace["objective"]


def test_the_ridge_of_rows_is_every_users_exact_solution():
    _, mask, cells, values = draw_problem(rank=3, noise=0.2)
    right = np.random.default_rng(1).normal(size=(15, 3))
    penalties = (0.7, 20.0)
    matrix = fill_matrix(cells, values)
    for penalty, solution in zip(
        penalties, solve_ridge_rows(cells, values, right, *penalties), strict=True
    ):
        for u in range(40):
            v = right[mask[u]]
            exact = np.linalg.solve(v.T @ v + penalty * np.eye(3), v.T @ matrix[u, mask[u]])
            assert np.allclose(solution[u], exact)


def test_ojas_vector_has_nearly_the_top_rayleigh_quotient():
    _, _, cells, values = draw_problem(200, 25, 3, noise=1.0)
    square = gram(cells.build_matrix(values))
    top = np.linalg.eigvalsh(square)[-1]
    v = run_oja(lambda x: square @ x, 25, 60, 10 / top, np.random.default_rng(0))
    assert np.linalg.norm(v) == pytest.approx(1)
    assert v @ square @ v >= (1 - 1e-2) * top


@pytest.mark.parametrize(("noise", "ratio"), [(1e-9, 2.0), (0.5, 1.5), (1e9, 1.0)])
def test_how_much_users_differ_lies_between_the_sums_and_the_prior(noise, ratio):
    """The prior ratio is 1 with variance 1/4. Sums over 4 give 2, and noise 2 on 4 ratios counts
    as much as that: the noise on the sums is a quarter of it."""
    nothing = np.zeros(3)
    prior = ItemEffects(
        *(PublicFacts(users=9, items=3, low=1, high=5), 3.0, 1.0),
        *(CountEstimate(nothing, 1.0), *[nothing] * 3, np.array([1.0, 0.5])),
        item_features=np.zeros((3, 0)),
    )
    sums = np.array([[2.0, 2.0], [4.0, 4.0]])
    posterior = estimate_user_variances(prior, sums, noise)
    assert posterior.user_variances == pytest.approx(ratio * prior.user_variances)


def test_covariances_shrink_towards_their_average():
    rng = np.random.default_rng(0)
    products, weights = rng.normal(size=(6, 6)), 1 + rng.random((6, 6))
    products, weights = products + products.T, weights + weights.T
    assert np.allclose(shrink_covariance(products, weights, 0.0), products / weights)
    average = products.mean() / weights.mean()
    drowned = shrink_covariance(products, np.zeros((6, 6)), 0.0)  # noise left no weight at all
    assert np.allclose(drowned, products / 0.01)
    assert np.allclose(shrink_covariance(products, weights, 1e9), average, atol=1e-6)
