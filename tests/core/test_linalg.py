"""Sampled products, thresholds and leading triplets against plain dense linear algebra."""

import numpy as np
import pytest

from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.linalg import (
    Pattern,
    dense_operator,
    dense_triplets,
    l1_threshold,
    leading_triplets,
    low_rank_plus_sparse,
)


def draw_pattern(rows, columns, share, seed=0):
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((rows, columns)) < share)
    public = PublicFacts(users=rows, items=columns, low=-1, high=1)
    return Pattern.from_ratings(Ratings.build(users, items, np.ones(len(users)), public))


@pytest.mark.parametrize("share", [0.002, 0.3])  # gathered and blocked routes
def test_sampled_product_is_the_dense_one_on_the_cells(share):
    cells = draw_pattern(400, 300, share)
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(400, 5)), rng.normal(size=(300, 5))
    expected = (left @ right.T)[cells.users, cells.items]
    assert np.allclose(cells.sample_product(left, right), expected, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_threshold_is_the_euclidean_projection_on_the_l1_ball(seed):
    rng = np.random.default_rng(seed)
    values = np.sort(rng.exponential(size=12))[::-1]
    radius = rng.uniform(0.01, 1.3) * values.sum()
    theta = l1_threshold(values, radius)
    projected = np.maximum(values - theta, 0)
    assert projected.sum() == pytest.approx(min(radius, values.sum()))
    # Optimality: no feasible point lies in the half space the residual points into.
    for _ in range(200):
        other = rng.dirichlet(np.ones(12)) * radius * rng.uniform()
        assert (values - projected) @ (other - projected) <= 1e-9


def draw_low_rank_plus_sparse(m, n, seed, rank=6):
    rng = np.random.default_rng(seed)
    cells = draw_pattern(m, n, 0.15, seed)
    left, right = rng.normal(size=(m, rank)), rng.normal(size=(n, rank))
    values = rng.normal(size=len(cells.users))
    dense = left @ right.T
    dense[cells.users, cells.items] += values
    return low_rank_plus_sparse(left, right, cells, values), dense


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n"), [(120, 200), (200, 120)])
def test_leading_triplets_match_a_full_decomposition(m, n):
    operator, dense = draw_low_rank_plus_sparse(m, n, seed=3)
    u, s, vt = np.linalg.svd(dense)
    radius = 0.3 * s.sum()
    theta = l1_threshold(s, radius)

    def above(values):
        return int(np.sum(values > l1_threshold(values, radius)))

    start = np.empty((min(m, n), 0))
    triplets = leading_triplets(operator, start, above, 1e-6, np.random.default_rng(0))
    count = int((s > theta).sum())
    assert len(triplets.values) == count
    assert np.allclose(triplets.values, s[:count], atol=1e-6)
    shrunk = (triplets.left * (triplets.values - theta)) @ triplets.right.T
    expected = (u[:, :count] * (s[:count] - theta)) @ vt[:count]
    assert np.linalg.norm(shrunk - expected) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scale"), [(4, 1), (7, 1), (2, 100)])
def test_an_invariant_start_hides_no_larger_value(width, scale):
    """Singular vectors as the start leave no residual, whatever they miss: one value among those
    that matter. Planted bug: residuals believed before the fresh columns are filtered."""
    rng = np.random.default_rng(7)
    for _ in range(40):
        n = int(rng.integers(100, 200))
        m, rank = n + int(rng.integers(0, 50)), width + 40
        u = np.linalg.qr(rng.normal(size=(m, rank)))[0]
        v = np.linalg.qr(rng.normal(size=(n, rank)))[0]
        hidden, tail = rng.uniform(4, 20, 1), rng.uniform(0, 1, 39)
        s = np.concatenate([scale * rng.uniform(5, 20, width), hidden, tail])
        radius = np.maximum(s - 2, 0).sum()

        def above(values, radius=radius):
            return int(np.sum(values > l1_threshold(values, radius)))

        tolerance = 10 ** rng.uniform(-6, -1) * radius
        triplets = leading_triplets(
            dense_operator((u * s) @ v.T), v[:, :width], above, tolerance, np.random.default_rng(8)
        )
        theta = l1_threshold(triplets.values, radius)
        shrunk = (triplets.left * np.maximum(triplets.values - theta, 0)) @ triplets.right.T
        expected = (u * np.maximum(s - 2, 0)) @ v.T
        assert np.linalg.norm(shrunk - expected) <= 1.5 * tolerance


def test_a_block_past_half_the_side_is_left_to_the_full_decomposition():
    operator, dense = draw_low_rank_plus_sparse(40, 30, seed=5)
    start = np.empty((30, 0))
    assert leading_triplets(operator, start, len, 1e-6, np.random.default_rng(0)) is None
    triplets = dense_triplets(operator)
    assert np.allclose(triplets.values, np.linalg.svd(dense, compute_uv=False), atol=1e-6)
    assert np.allclose((triplets.left * triplets.values) @ triplets.right.T, dense, atol=1e-6)
