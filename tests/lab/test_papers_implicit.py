"""The experiments of RYHH24 and HXZ15: what they run, and what bounds their results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.preparation import Implicit
from dpmc_core.privacy import RATING
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.factorization import (
    ImplicitLoss,
    PenalisedCells,
    binary_matrix,
    solve_implicit_rows,
)
from dpmc_core.solvers.linalg import leading_eigenpairs
from dpmc_core.solvers.rows import gram_products
from dpmc_data import datasets, facts
from dpmc_lab.papers.engine import parse_texts
from tests import ratings_helpers

pytestmark = pytest.mark.slow

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def draw_clicks(users: int, items: int, share: float, seed: int = 0) -> Ratings:
    return ratings_helpers.clicks(np.random.default_rng(seed).random((users, items)) < share)


def compute_singular_values(ratings: Ratings, ridge: float, rank: int) -> tuple[np.ndarray, float]:
    """Singular values of the clicks, and what the ridge takes off each at alpha = 1.

    Every row of m x n clicks is ridged by lambda n and every column by lambda m, and
    lambda (n |P|^2 + m |Q|^2) >= 2 lambda sqrt(mn) ||P Q'||_* with equality at the best split: the
    loss (RYHH24, Eq. 11 and 12) is least at the clicks with so much off each singular value.
    """
    exact = gram_products(ratings.matrix)
    squares, _ = leading_eigenpairs(exact, ratings.public.items, rank)
    return np.sqrt(np.maximum(squares[::-1], 0.0)), ridge * np.sqrt(
        ratings.public.users * ratings.public.items
    )


# --- RYHH24 --------------------------------------------------------------------------------------


def test_the_ridge_takes_as_much_off_every_singular_value() -> None:
    """Alternating solves at alpha = 1 end at the clicks with their singular values thresholded."""
    ratings = draw_clicks(50, 40, 0.3)
    matrix, ridge = binary_matrix(ratings), 0.12
    values, reduction = compute_singular_values(ratings, ridge, 39)
    u, s, vt = np.linalg.svd(matrix.toarray(), full_matrices=False)
    assert values == pytest.approx(s[:39])
    assert np.sum(values > reduction) == 3
    expected = u @ np.diag(np.maximum(s - reduction, 0)) @ vt
    loss = ImplicitLoss(1.0, ridge, PenalisedCells.MISSING)
    right = np.random.default_rng(1).random((40, 8))
    for _ in range(2000):
        left = solve_implicit_rows(matrix, right, loss)
        right = solve_implicit_rows(matrix.T.tocsr(), left, loss)
    assert left @ right.T == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("file", "printed", "rank", "n_surviving"),
    [("ml-100k/u.data", 0.07, 20, 1), ("amazon-instant-video", 1.0, 8, 0)],
)
def test_what_the_printed_lambda_leaves_of_the_papers_data(
    file, printed, rank, n_surviving
) -> None:
    if not (DATA / file).exists():
        pytest.skip(f"{file} is not here")
    ratings = datasets.load(str(DATA / file), for_ranking=True).ratings
    ratings = Implicit().apply(ratings, ratings)
    values, reduction = compute_singular_values(ratings, printed, rank)
    assert np.sum(values > reduction) == n_surviving


# --- HXZ15 ---------------------------------------------------------------------------------------


def test_of_the_forms_only_public_user_factors_prove_the_promise() -> None:
    public = PublicFacts(users=943, items=1682, low=1, high=5)
    forms = facts.load_toml("dpmc_lab.papers", "hxz15.toml")["experiments"][1]["recipe"]["forms"]
    for name, texts in forms.items():
        mechanism = registry.create("dpmf", epsilon=1.0, **parse_texts("dpmf", texts))
        guarantee = mechanism.guarantee(public)
        assert guarantee.certified(RATING).finite == (name == "public user factors")
