"""Solvers of the implicit family against optimality conditions and independent solvers."""

from __future__ import annotations

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.factorization import (
    ImplicitLoss,
    PenalisedCells,
    binary_matrix,
    minimise_in_ball,
    solve_implicit_rows,
)
from tests.ratings_helpers import clicks

LOSSES = [
    ImplicitLoss(0.3, 0.02),
    ImplicitLoss(0.3, 0.02, PenalisedCells.MISSING),
    ImplicitLoss(1.0, 0.05, PenalisedCells.MISSING),
    ImplicitLoss(0.0, 0.05),
    ImplicitLoss(0.4, 0.7, frequency=False),
]


def draw_interactions(
    seed: int = 0, users: int = 30, items: int = 20, density: float = 0.25
) -> Ratings:
    return clicks(np.random.default_rng(seed).random((users, items)) < density)


def compute_dense_loss(loss: ImplicitLoss, cells, left, right) -> float:
    """The loss written out cell by cell."""
    scores = left @ right.T
    pull = np.ones_like(cells) if loss.penalised_cells is PenalisedCells.ALL else 1 - cells
    value = np.sum(cells * (scores - 1) ** 2) + loss.alpha * np.sum(pull * scores**2)
    for axis, factors in ((1, left), (0, right)):
        weight = cells.sum(axis=axis) + loss.alpha * pull.sum(axis=axis)
        weight = weight if loss.frequency else np.ones_like(weight)
        value += loss.regularisation * weight @ np.sum(factors**2, axis=1)
    return float(value)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_loss_is_the_sum_over_cells(loss: ImplicitLoss) -> None:
    rng = np.random.default_rng(1)
    matrix = binary_matrix(draw_interactions())
    left, right = rng.normal(size=(30, 3)), rng.normal(size=(20, 3))
    assert loss.value(matrix, left, right) == pytest.approx(
        compute_dense_loss(loss, matrix.toarray(), left, right)
    )


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_a_row_solve_is_the_direct_dense_solve(loss: ImplicitLoss) -> None:
    rng = np.random.default_rng(2)
    matrix = binary_matrix(draw_interactions())
    cells, right = matrix.toarray(), rng.normal(size=(20, 4))
    solution = solve_implicit_rows(matrix, right, loss)
    for u, row in enumerate(cells):
        penalised = np.ones(20) if loss.penalised_cells is PenalisedCells.ALL else 1 - row
        gram = right.T @ ((row + loss.alpha * penalised)[:, None] * right)
        weight = np.sum(row + loss.alpha * penalised) if loss.frequency else 1.0
        if row.sum() == 0:
            assert not solution[u].any()
        else:
            direct = np.linalg.solve(gram + loss.regularisation * weight * np.eye(4), right.T @ row)
            assert solution[u] == pytest.approx(direct, rel=1e-9)


def test_ratings_that_are_not_interactions_are_refused_in_a_sentence() -> None:
    public = PublicFacts(users=2, items=2, low=0, high=5)
    with pytest.raises(BadRatings, match=r"1 of 2 ratings are not 1, first 4: .*implicit=all"):
        binary_matrix(Ratings.build([0, 1], [0, 1], [1, 4], public))


@pytest.mark.parametrize(
    ("id", "settings"),
    [
        ("dpimf-optimal", {"regularisation": 1e-9}),
        ("dpimf-complementary", {"regularisation": 1e-12, "alpha": 0.0}),
        ("dpimf-optimal", {"regularisation": 1e-15, "rank": 64}),
    ],
)
def test_a_ridge_that_drowns_in_rounding_is_a_sentence(id: str, settings: dict) -> None:
    rng = np.random.default_rng(0)
    few = clicks(rng.random((5, 4)) < 0.6)  # fewer items than a factor is long
    mechanism = registry.create(id, epsilon=1.0, rounds=2, **settings)
    with pytest.raises(InvalidSetting, match=r"regularisation must be large enough for factors of"):
        list(mechanism.fit(few, rng))


# -- the trust region ----------------------------------------------------------------------------


def draw_problems(rng, count: int, d: int, shift: float):
    a = rng.normal(size=(count, d, d)) + shift * np.eye(d)
    return a, rng.normal(size=(count, d))


@pytest.mark.parametrize("shift", [-3.0, 0.0, 4.0])
@pytest.mark.parametrize("radius", [0.05, 1.0, 20.0])
def test_trust_region_meets_the_optimality_conditions(shift: float, radius: float) -> None:
    """Feasible, and (A + nu I) x = b/2 with nu >= 0, A + nu I semidefinite, nu (r - |x|) = 0."""
    rng = np.random.default_rng(5)
    a, b = draw_problems(rng, 60, 5, shift)
    for matrix, linear, x in zip(a, b, minimise_in_ball(a, b, radius), strict=True):
        symmetric = (matrix + matrix.T) / 2
        assert np.linalg.norm(x) <= radius * (1 + 1e-9)
        slack = linear / 2 - symmetric @ x
        nu = float(slack @ x / (x @ x))
        assert slack == pytest.approx(nu * x, abs=1e-7 * max(1, np.abs(slack).max()))
        assert nu >= -1e-8
        assert np.linalg.eigvalsh(symmetric).min() + nu >= -1e-7
        assert nu * (radius - np.linalg.norm(x)) == pytest.approx(0, abs=1e-6 * (1 + nu))


def assert_global_minimum(a, b, x, radius: float) -> None:
    """The optimality conditions to rounding, nu by least squares, all relative to the problem."""
    symmetric = (a + a.T) / 2
    scale = max(np.abs(np.linalg.eigvalsh(symmetric)).max(), np.linalg.norm(b) / radius)
    slack = b / 2 - symmetric @ x
    nu = float(slack @ x / (x @ x))
    assert np.linalg.norm(x) <= radius * (1 + 1e-12)
    assert np.abs(slack - nu * x).max() <= 1e-12 * scale * radius
    assert np.linalg.eigvalsh(symmetric + nu * np.eye(len(x))).min() >= -1e-12 * scale
    assert nu * (radius - np.linalg.norm(x)) <= 1e-12 * scale * radius


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [1e-3, 1e-6, 1e-9, 1e-12, 1e-14, 1e-15, 1e-16, 1e-18, 1e-100])
@pytest.mark.parametrize("full_linear", [True, False])
def test_trust_region_holds_near_the_hard_case(ratio: float, full_linear: bool) -> None:
    """Indefinite, and next to no linear part: all of it, or along the lowest eigenvector only.

    The root lies so close above minus the smallest eigenvalue that it drowns in that number.
    """
    rng = np.random.default_rng(8)
    a, b = draw_problems(rng, 40, 6, 0.0)
    values = np.linalg.eigvalsh((a + a.swapaxes(1, 2)) / 2)
    assert (values[:, 0] < 0).all()
    if full_linear:
        b *= ratio
    else:
        a, b = np.array([np.diag(v) for v in values]), b / 10
        b[:, 0] *= ratio
    for matrix, linear, x in zip(a, b, minimise_in_ball(a, b, 1.3), strict=True):
        assert np.linalg.norm(x) == pytest.approx(1.3, rel=1e-12)
        assert_global_minimum(matrix, linear, x, 1.3)
        if not full_linear:  # the side that the linear part, however small, pulls to
            assert x[0] * linear[0] >= 0


@pytest.mark.slow
def test_same_loss_as_the_implicit_package() -> None:
    """With a constant ridge and its weights mapped, from the same factors, after each alternation.

    Its loss c sum_S (x'y - 1)^2 + sum_{not S} (x'y)^2 + l (|x|^2 + |y|^2) is ours over missing
    cells divided by alpha, with c = 1/alpha and l = lambda/alpha.
    """
    peer = pytest.importorskip("implicit.cpu._als", reason="the package implicit is not installed")
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(8)
    loss = ImplicitLoss(0.2, 0.3, PenalisedCells.MISSING, frequency=False)
    matrix = binary_matrix(draw_interactions(9, users=200, items=80))
    columns = matrix.T.tocsr()
    left, right = rng.normal(0, 0.1, (200, 6)), rng.normal(0, 0.1, (80, 6))
    x, y = left.astype(np.float32), right.astype(np.float32)
    weights = csr_matrix(matrix.toarray().astype(np.float32) / 0.2)
    transposed = weights.T.tocsr()
    for _ in range(10):
        left = solve_implicit_rows(matrix, right, loss)
        right = solve_implicit_rows(columns, left, loss)
        peer.least_squares(weights, x, y, 0.3 / 0.2, num_threads=1)
        peer.least_squares(transposed, y, x, 0.3 / 0.2, num_threads=1)
        loss_value, peer_value = (
            loss.value(matrix, *(np.asarray(f, dtype=float) for f in pair))
            for pair in ((left, right), (x, y))
        )
        assert loss_value == pytest.approx(peer_value, rel=1e-4)


def test_long_factors_in_single_precision_minimise_the_loss_by_conjugate_gradients() -> None:
    rng = np.random.default_rng(5)
    matrix = binary_matrix(draw_interactions(9, users=200, items=80))
    right = rng.normal(0, 0.2, (80, 40))
    loss = ImplicitLoss(0.2, 0.05)
    exact = solve_implicit_rows(matrix, right, loss)
    for start in (None, rng.normal(size=exact.shape)):
        left = solve_implicit_rows(matrix, right, loss, single=True, start=start)
        assert not left[np.diff(matrix.indptr) == 0].any()
        values = [loss.value(matrix, factors, right) for factors in (left, exact)]
        assert 0 <= values[0] / values[1] - 1 < 1e-8


def test_trust_region_holds_where_several_lowest_values_are_equal() -> None:
    rng = np.random.default_rng(9)
    for ratio in (1.0, 1e-10, 1e-18, 0.0):
        b = rng.normal(size=(1, 4)) * [ratio, ratio, 1.0, 1.0] / 10
        x = minimise_in_ball(np.diag([-2.0, -2.0, 0.5, 1.0])[None], b, 0.8)[0]
        assert np.linalg.norm(x) == pytest.approx(0.8, rel=1e-12)
        assert_global_minimum(np.diag([-2.0, -2.0, 0.5, 1.0]), b[0], x, 0.8)
