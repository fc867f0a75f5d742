"""Bounds, figure data and printed tables of RYHH24."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest

from dpmc_core.mechanisms.dpimf import Complementary, Optimal, Strawman, Symmetric
from dpmc_core.privacy import sampled
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.factorization import (
    ImplicitLoss,
    PenalisedCells,
    binary_matrix,
    solve_implicit_rows,
)
from tests.ratings_helpers import clicks
from tests.theory import ryhh24 as bounds

pytestmark = pytest.mark.slow

FULL_BUDGET = {"alpha": 1.0, "beta1": 1.0, "beta2": 0.0}


def bound_complementary(epsilon, rank, regularisation, largest, **split):
    scales = bounds.scales(epsilon, rank, largest, bounds.BudgetSplit(**split))
    return bounds.excess_loss(scales, rank, regularisation)


def bound_strawman(epsilon, rank, regularisation, largest):
    scales = bounds.scales(epsilon, rank, largest)
    return bounds.excess_loss(scales, rank, regularisation)


symmetric = partial(bound_complementary, symmetric=True)


BETAS = [(0.1, 0.8), (0.5, 0.49), (0.34, 0.33)]


@pytest.mark.parametrize("variant", ["strawman", "complementary", "symmetric"])
@pytest.mark.parametrize("rank", [1, 4])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9])
def test_theorem_5_bounds_the_excess_loss_of_every_variant(variant, rank, alpha) -> None:
    """Noise on all three terms, also where next to no budget is left for the ridge."""
    rng = np.random.default_rng(2)
    users, runs = 60, 600
    interacted = rng.random(users) < 0.4
    columns = binary_matrix(clicks(np.repeat(interacted[:, None], runs, axis=1))).T.tocsr()
    for largest, ridge, epsilon in itertools.product((0.01, 0.3), (0.05, 1.0), (0.1, 2.0)):
        factors = rng.uniform(-largest, largest, (users, rank))
        settings = {"clip": rank * largest, "clip_l2": math.sqrt(rank) * largest}
        settings |= {"rank": rank, "regularisation": ridge, "alpha": alpha}
        size = epsilon, rank, ridge, largest
        for beta1, beta2 in BETAS if variant != "strawman" else BETAS[:1]:
            if variant == "strawman":
                mechanism = Strawman(epsilon=epsilon, **settings)
                limit = bound_strawman(*size)
            else:
                kind = Complementary if variant == "complementary" else Symmetric
                remainder = 1 - beta1 - beta2
                mechanism = kind(
                    epsilon=epsilon, beta1=beta1, beta2=beta2, beta3=remainder, **settings
                )
                bound = bound_complementary if variant == "complementary" else symmetric
                limit = bound(*size, alpha=alpha, beta1=beta1, beta2=beta2)
            loss = mechanism.loss
            a = (
                loss.observed_weight * factors[interacted].T @ factors[interacted]
                + alpha * factors.T @ factors
            )
            a += loss.ridge(np.array([interacted.sum()]), users)[0] * np.eye(rank)
            b = 2 * factors[interacted].sum(axis=0)
            best = -b @ np.linalg.solve(a, b) / 4
            q = mechanism.solve_private_profiles(
                columns, factors, mechanism.build_releases(runs), rng
            )
            excess = np.einsum("nd,de,ne->n", q, a, q) - q @ b - best
            assert excess.min() >= -1e-9
            assert excess.mean() <= limit, (largest, ridge, epsilon, beta1)


@pytest.mark.parametrize("alpha", [0.05, 0.5, 1.0])
def test_theorem_4_bounds_what_the_complementary_loss_costs(alpha) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        users, rank, ridge = 40, 3, float(rng.choice([0.01, 0.1, 2.0]))
        factors = rng.uniform(-0.5, 0.5, (users, rank))
        interacted = rng.random(users) < rng.uniform(0.1, 1.0)
        row = np.flatnonzero(interacted)
        public = PublicFacts(users=users, items=1, low=0, high=1)
        data = Ratings.build(row, np.zeros(len(row), int), np.ones(len(row)), public)
        column = binary_matrix(data).T.tocsr()

        def value(q, cells, interacted=interacted, factors=factors, ridge=ridge, users=users):
            score = factors @ q
            pull = np.ones(users) if cells is PenalisedCells.ALL else ~interacted
            weight = ridge * (interacted.sum() + alpha * pull.sum())
            fit = np.sum((score[interacted] - 1) ** 2) + alpha * np.sum(pull * score**2)
            return fit + weight * q @ q

        all_minimiser, missing_minimiser = (
            solve_implicit_rows(column, factors, ImplicitLoss(alpha, ridge, cells))[0]
            for cells in PenalisedCells
        )
        size = alpha, len(row), ridge, rank, float(np.abs(factors).max())
        cost = value(missing_minimiser, PenalisedCells.ALL) - value(
            all_minimiser, PenalisedCells.ALL
        )
        assert -1e-9 <= cost <= bounds.loss_change(*size)
        # what is printed compares the two minima, of which the one is never above the other
        assert (
            value(missing_minimiser, PenalisedCells.MISSING)
            <= value(all_minimiser, PenalisedCells.ALL) + 1e-9
        )
        assert bounds.loss_change(*size) <= bounds.loss_change(*size, printed=True)
        # no minimiser need be taken: the cost is below the bound for every profile in the ball
        q = rng.normal(size=rank)
        q /= np.linalg.norm(q) * np.sqrt(ridge)
        gap = value(q, PenalisedCells.ALL) - value(q, PenalisedCells.MISSING)
        assert gap <= bounds.loss_change(*size) * (1 + 1e-9)


@pytest.mark.parametrize("loss", [1e-3, 0.1, 0.7])
def test_a_term_has_one_largest_weight_up_to_its_own_loss(loss) -> None:
    """Counted on a grid, and against the weights that the sampler finds by bisection."""
    w = np.geomspace(1.0, 1e8, 200_001)
    for epsilon in (0.5 * loss, 1.5 * loss, 4 * loss):
        crossings = np.count_nonzero(np.diff(sampled.amplified_losses(loss, w) > epsilon))
        assert crossings == bounds.unique_weight_exists(loss, epsilon)
        weight = float(sampled.importance_weights([loss], epsilon)[0])
        assert (weight > 1) == bounds.unique_weight_exists(loss, epsilon)


def test_scales_are_those_of_the_cards() -> None:
    """For a worst factor, all entries at c: clip d c, clip_l2 sqrt(d) c."""
    d, c, epsilon = 5, 0.3, 0.7
    settings = {"rank": d, "clip": d * c, "clip_l2": math.sqrt(d) * c, "epsilon": epsilon}
    split = {"alpha": 0.6, "beta1": 0.5, "beta2": 0.3}
    betas = split | {"beta3": 0.2}
    for mechanism, scales in (
        (Strawman(**settings), bounds.scales(epsilon, d, c)),
        (
            Complementary(**settings, **betas),
            bounds.scales(epsilon, d, c, bounds.BudgetSplit(**split)),
        ),
        (
            Symmetric(**settings, **betas),
            bounds.scales(epsilon, d, c, bounds.BudgetSplit(**split, symmetric=True)),
        ),
        (Optimal(**settings), bounds.scales(epsilon, d, c, bounds.BudgetSplit(**FULL_BUDGET))),
    ):
        actual = {name: release.scale for name, release in mechanism.build_releases(1)}
        assert actual == pytest.approx({k: v for k, v in scales._asdict().items() if v})
