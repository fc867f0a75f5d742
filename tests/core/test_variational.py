"""Effects and low-rank taste by variational Bayes: optimal, equivariant, robust, and no noise."""

import numpy as np
import pytest

from dpmc_core.solvers.noisy_reports import fit_effects_and_taste
from tests.ratings_helpers import make_pattern


def plant_low_rank(seed, m=120, n=80, share=0.4, low_rank=0.4, noise=0.4, rank=2):
    """A pattern, noisy values on it and the true matrix: effects (sd .3) and taste."""
    rng = np.random.default_rng(seed)
    left, right = rng.normal(size=(m, rank)), rng.normal(size=(n, rank))
    truth = 0.3 * rng.normal(size=(m, 1)) + 0.3 * rng.normal(size=n)
    truth = truth + low_rank * left @ right.T / np.sqrt(max(rank, 1))
    pattern = make_pattern(rng.random((m, n)) < share)
    values = truth[pattern.users, pattern.items]
    return pattern, values + noise * rng.normal(size=len(values)), truth


def fit_last(pattern, values, **settings):
    *_, fitted = fit_effects_and_taste(pattern, values, **settings)
    return fitted


def predict_all(fitted):
    return fitted.user[:, None] + fitted.item + fitted.left @ fitted.right.T


def measure_error(fitted, truth):
    return float(np.sqrt(np.mean((predict_all(fitted) - truth) ** 2)))


@pytest.mark.slow
def test_effects_alone_solve_the_normal_equations_of_their_model():
    """With known noise the posterior means of effects are the solution of one linear system, given
    the variances and the centre of items that these means in turn suggest: both hold at the end."""
    pattern, values, _ = plant_low_rank(1, low_rank=0.0)
    weights = np.random.default_rng(2).uniform(0.5, 2.0, len(values))
    fitted = fit_last(pattern, values, weights=weights, noise=0.16, rank=0, rounds=400)
    m, n = pattern.shape
    design = np.zeros((len(values), m + n))
    design[np.arange(len(values)), pattern.users] = 1.0
    design[np.arange(len(values)), m + pattern.items] = 1.0
    precision = design.T @ (weights[:, None] * design) / 0.16
    moments = design.T @ (weights * values) / 0.16
    centre = fitted.item.sum() / (n + 4)
    prior = np.full(m + n, 1 / 0.05)
    for _ in range(200):  # the variances alone are iterated: of each block's independent posterior
        prior = np.repeat(
            [
                (k + 4) / (((x - c) ** 2).sum() + (1 / (information + before)).sum() + 4 * 0.01)
                for k, x, c, information, before in (
                    (m, fitted.user, 0.0, np.diag(precision)[:m], prior[:m]),
                    (n, fitted.item, centre, np.diag(precision)[m:], prior[m:]),
                )
            ],
            (m, n),
        )
    prior_means = np.repeat([0.0, centre], (m, n))
    exact = np.linalg.solve(precision + np.diag(prior), moments + prior * prior_means)
    assert np.abs(np.concatenate([fitted.user, fitted.item]) - exact).max() < 2e-3


@pytest.mark.slow
def test_planted_effects_and_taste_are_recovered():
    """A cell's error is near what (m + n)(rank + 1) free numbers cost, sd sqrt(numbers/cells)."""
    for seed in range(4):
        pattern, values, truth = plant_low_rank(seed, share=0.7)
        numbers = sum(pattern.shape) * 3
        cost = 0.4 * np.sqrt(numbers / len(values))
        fitted = fit_last(pattern, values)
        assert measure_error(fitted, truth) < 1.25 * cost
        assert measure_error(fit_last(pattern, values, rank=0), truth) > 1.5 * cost
        assert fitted.noise == pytest.approx(0.16, rel=0.1)
        assert fitted.left.shape[1] == 2


@pytest.mark.parametrize("noise_by_user", [False, True])
@pytest.mark.parametrize(
    "mask",
    [
        np.ones((1, 1), bool),
        np.ones((1, 5), bool),
        np.ones((5, 1), bool),
        np.ones((2, 2), bool),
        np.eye(6, dtype=bool),
        np.pad(np.ones((3, 3), bool), ((0, 4), (4, 0))),
    ],
    ids=["cell", "user", "item", "square", "diagonal", "empty rows and columns"],
)
@pytest.mark.parametrize("kind", ["constant", "zero", "random"])
def test_whatever_the_shape_numbers_are_finite_and_within_reason(mask, kind, noise_by_user):
    pattern = make_pattern(mask)
    count = int(mask.sum())
    values = {
        "constant": np.full(count, 0.7),
        "zero": np.zeros(count),
        "random": np.random.default_rng(1).uniform(-1, 1, count),
    }[kind]
    steps = list(fit_effects_and_taste(pattern, values, noise_by_user=noise_by_user, rank=10))
    assert steps[-1].final
    assert not any(step.final for step in steps[:-1])
    assert np.isfinite(predict_all(steps[-1])).all()
    assert np.abs(predict_all(steps[-1])).max() <= 2 * np.abs(values).max() + 1e-9
    if kind == "zero":
        assert np.abs(predict_all(steps[-1])).max() < 1e-6


def test_a_weight_is_as_many_observations():
    """Weight k with the mean of k observations, each of noise s2: the same posterior as noise
    s2 / k; the engine may not know the difference."""
    pattern, values, _ = plant_low_rank(5)
    heavy = fit_last(pattern, values, weights=np.full(len(values), 4.0), noise=0.64)
    plain = fit_last(pattern, values, noise=0.16)
    assert np.allclose(predict_all(heavy), predict_all(plain), atol=1e-9)
