"""DPMF on clicks: which clicks exist is what its noise must cover; the card says when it does."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from dpmc_core import privacy
from dpmc_core.mechanisms.factorization import ClickDPMF, NoiseForm
from dpmc_core.privacy import CELL, RATING, USER_EMPTIED, USER_REPLACED
from dpmc_core.ratings import PublicFacts
from dpmc_core.solvers.factorization import PublicUserFactors
from tests.ratings_helpers import clicks
from tests.replay import fit_model, record_fit

Floats = NDArray[np.float64]
USERS, ITEMS = 30, 12
RANDOM = PublicUserFactors("random:5")
FORMS = pytest.mark.parametrize("form", NoiseForm)


def draw_clicks(seed: int = 0, share: float = 0.3) -> NDArray[np.bool_]:
    matrix: NDArray[np.bool_] = np.random.default_rng(seed).random((USERS, ITEMS)) < share
    return matrix


def record_linear_term(mechanism: ClickDPMF, matrix: NDArray[np.bool_]) -> Floats:
    """What the noise is put on."""
    (publication,) = record_fit(mechanism, clicks(matrix))
    return np.asarray(publication.private)


@FORMS
def test_a_click_that_comes_or_goes_moves_the_linear_term_within_the_card(form: NoiseForm) -> None:
    mechanism = ClickDPMF(epsilon=0.7, rank=3, noise=form, user_factors=RANDOM)
    guarantee = mechanism.guarantee(clicks(draw_clicks()).public)
    release = guarantee.releases.linear_term
    before, largest = record_linear_term(mechanism, draw_clicks()), 0.0
    for user in range(USERS):
        other = draw_clicks()
        other[user, user % ITEMS] ^= True
        largest = max(largest, release.distance(before, record_linear_term(mechanism, other)))
    assert largest <= release.sensitivity[CELL] * (1 + 1e-12)
    assert largest > 0.5 * release.sensitivity[CELL]  # user factors of length 1
    assert guarantee.certified().change is CELL
    assert guarantee.certified().epsilon == pytest.approx(0.7)


def test_nothing_else_of_the_clicks_reaches_what_is_published() -> None:
    """The same answer to the noisy question, the same item factors, whatever the clicks are."""
    mechanism = ClickDPMF(epsilon=1.0, rank=3, user_factors=RANDOM)
    public = clicks(draw_clicks()).public
    users = RANDOM.build(USERS, 3)
    quadratic = users.T @ users + mechanism.noisy_penalty(public) * np.eye(3)
    for seed in (1, 2):
        with privacy.record_publications() as publications:
            *_, last = mechanism.fit(clicks(draw_clicks(seed)), np.random.default_rng(seed))
        noisy = np.asarray(publications[0].published)
        expected = np.linalg.solve(quadratic, -noisy.T / 2).T
        assert np.allclose(last.model.factors.right, expected)


def test_the_card_says_what_is_and_what_is_not_proved() -> None:
    public = clicks(draw_clicks()).public
    fitted = ClickDPMF(epsilon=1.0).guarantee(public)
    for change in (CELL, RATING, USER_EMPTIED, USER_REPLACED):
        assert not fitted.certified(change).finite
    assert "user factors, fitted on the same clicks" in fitted.certified().reason
    assert fitted.claimed is not None
    assert (fitted.claimed.epsilon, fitted.change) == (1.0, CELL)
    fixed = ClickDPMF(epsilon=1.0, user_factors=RANDOM).guarantee(public)
    assert fixed.certified(USER_REPLACED).epsilon == pytest.approx(ITEMS)  # a cell of every item
    assert any("random:5) are public" in text for text in fixed.caveats)


def test_the_scale_does_not_follow_a_range_that_clicks_came_with() -> None:
    wide = PublicFacts(users=USERS, items=ITEMS, low=1, high=5)
    mechanism = ClickDPMF(epsilon=0.5, user_factors=RANDOM)
    assert mechanism.guarantee(wide).releases.linear_term.scale == 4.0


def test_an_item_that_nobody_chose_gets_noise_as_the_others_do() -> None:
    matrix = draw_clicks()
    matrix[:, 4] = False
    model = fit_model(ClickDPMF(epsilon=1.0, rank=3), clicks(matrix))
    assert np.abs(model.factors.right[4]).min() > 0


def test_the_two_half_steps_are_least_squares_over_every_cell() -> None:
    matrix = draw_clicks().astype(float)
    model = ClickDPMF(epsilon=1.0, rank=3, user_penalty=0.3, item_penalty=2.0, unit_ball=False)
    matrices = model.build_matrices(clicks(draw_clicks()))
    rng = np.random.default_rng(1)
    users, items = rng.normal(size=(USERS, 3)), rng.normal(size=(ITEMS, 3))

    def dense(users: Floats, items: Floats) -> float:
        ridge = 0.3 * np.square(users).sum() + 2.0 * np.square(items).sum()
        return float(np.square(matrix - users @ items.T).sum() + ridge)

    assert model.objective(matrices, users, items) == pytest.approx(dense(users, items))
    best = minimize(lambda v: dense(users, v.reshape(ITEMS, 3)), items.ravel()).x.reshape(ITEMS, 3)
    assert np.allclose(model.fit_items(matrices, users), best, atol=1e-4)
    best = minimize(lambda u: dense(u.reshape(USERS, 3), items), users.ravel()).x.reshape(USERS, 3)
    assert np.allclose(model.fit_users(matrices, items), best, atol=1e-4)
    users_in_ball = ClickDPMF(epsilon=1.0, rank=3, user_penalty=0.3).fit_users(matrices, items / 10)
    assert np.linalg.norm(users_in_ball, axis=1).max() <= 1 + 1e-9
