"""Soft-impute by its optimality conditions, the rules for its penalty, and Theorem 3's bounds."""

import math

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.mechanisms.collection import count_levels
from dpmc_core.model import Estimator
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers import recovery
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.recovery import Recovery, Regress, Regression, Reports, Rule
from dpmc_lab.papers.z16 import measure_recovery
from tests.ratings_helpers import with_values
from tests.replay import fit_model, predict_all
from tests.theory.z16 import recovery_error


def draw_regression(rng, shape=(40, 30), debias_factor=1.0, ridge=None, density=0.5):
    truth = rng.normal(size=(shape[0], 2)) @ rng.normal(size=(2, shape[1])) + 0.5
    users, items = np.nonzero(rng.random(shape) < density)
    starts = np.searchsorted(users, np.arange(shape[0] + 1))
    pattern = Pattern(items.astype(np.int32), starts, shape)
    values = truth[users, items] + 0.1 * rng.normal(size=len(users))
    return Regression(pattern, debias_factor * values, debias_factor, ridge)


def solve(problem, penalty, tolerance=1e-7, **options):
    rng = np.random.default_rng(0)
    *_, last = recovery.iterate_penalties(
        problem, penalty=penalty, steps=50, tolerance=tolerance, rng=rng, **options
    )
    return last


@pytest.mark.slow
@pytest.mark.parametrize("debias_factor", [1.0, 0.6, 0.3])
@pytest.mark.parametrize("ridge", [None, 5.0])
def test_the_solution_meets_the_optimality_conditions(debias_factor, ridge):
    problem = draw_regression(np.random.default_rng(1), debias_factor=debias_factor, ridge=ridge)
    for penalty in (0.5, 3.0):
        solution = solve(problem, penalty)
        fitted = solution.offset + problem.pattern.sample_product(
            solution.left * solution.values, solution.right
        )
        gradient = problem.gain * problem.residual(fitted)
        dense = problem.pattern.build_matrix(gradient).toarray()
        # the subdifferential: G = penalty (U V' + W) with W orthogonal to U, V and ||W|| <= 1
        assert np.linalg.norm(dense, 2) <= penalty * (1 + 1e-4)
        inside = solution.left.T @ dense @ solution.right
        assert np.allclose(inside, penalty * np.eye(solution.rank), atol=1e-4 * penalty)
        if ridge is None:
            assert solution.offset == 0
        else:
            assert abs(gradient.sum() - ridge * solution.offset) < 1e-4 * np.abs(gradient).sum()


@pytest.mark.slow
def test_agrees_with_a_convex_solver():
    cvxpy = pytest.importorskip("cvxpy")
    problem = draw_regression(np.random.default_rng(2), (12, 9), debias_factor=0.6)
    x = cvxpy.Variable((12, 9))
    cells = problem.pattern
    picked = cvxpy.hstack(
        [x[int(u), int(i)] for u, i in zip(cells.users, cells.items, strict=True)]
    )
    loss = 0.5 * cvxpy.sum_squares(problem.target - cvxpy.multiply(problem.gain, picked))
    cvxpy.Problem(cvxpy.Minimize(loss + 0.7 * cvxpy.normNuc(x))).solve(solver=cvxpy.SCS, eps=1e-7)
    solution = solve(problem, 0.7)
    assert np.allclose((solution.left * solution.values) @ solution.right.T, x.value, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.9, 0.5, 0.2])
def test_the_discrepancy_principle_meets_its_residual(share):
    problem = draw_regression(np.random.default_rng(4))
    goal = share * float(np.linalg.norm(problem.target))
    options = {"residual_goal": goal, "steps": 60, "tolerance": 1e-6}
    solutions = list(recovery.iterate_penalties(problem, **options, rng=np.random.default_rng(0)))
    assert 0.95 * goal <= solutions[-1].residual <= goal
    penalties = [s.penalty for s in solutions if s.residual > goal]
    assert penalties == sorted(penalties, reverse=True)


@pytest.mark.parametrize("recovery_name", list(Regress))
def test_a_rule_sets_the_penalty_or_the_residual(recovery_name):
    """The spectral norm of noise on a share p of cells is about std sqrt(p) (sqrt(m) + sqrt(n))."""
    pattern, target, *_ = draw_regression(np.random.default_rng(5))
    public = PublicFacts(users=40, items=30, low=1, high=5)
    goal = 0.8 * float(np.linalg.norm(target))
    reports = Reports(pattern, target, gain=0.6, variance=0.2, rho=goal)

    def recover(rule):
        settings = Recovery(recovery=recovery_name, rule=rule)
        *_, last = settings.recover(reports, public, np.random.default_rng(0), raw=True)
        return last.trace

    gain = {Regress.NAIVE: 1.0, Regress.DEBIASED: 0.6}[recovery_name]
    noise = math.sqrt(0.2 * len(target) / 1200) * (math.sqrt(40) + math.sqrt(30))
    assert recover(Rule.NOISE_LEVEL)["penalty"] == pytest.approx(1.25 * gain * noise)
    assert 0.9 * goal <= recover(Rule.THEOREM)["residual"] <= goal


def draw_low_rank_ratings(rng, shape=(300, 200), density=0.3):
    users, items = np.nonzero(rng.random(shape) < density)
    low_rank = rng.normal(size=(shape[0], 2)) @ rng.normal(size=(2, shape[1]))
    truth = np.clip(3.6 + 0.7 * low_rank, 1, 5)
    public = PublicFacts(users=shape[0], items=shape[1], low=1, high=5)
    return Ratings.build(users, items, truth[users, items], public), truth


@pytest.mark.parametrize("id", ["modified-laplace", "randomised-response"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_the_moments_tell_the_residual_at_the_truth(id, epsilon):
    """Of ratings as they come (Equation 3) and shrunk by the gain: means of 20 draws, to 2 %."""
    ratings, truth = draw_low_rank_ratings(np.random.default_rng(12), density=0.4)
    if id == "randomised-response":
        truth = np.rint(truth)
        ratings = with_values(ratings, truth[ratings.users, ratings.items], low=1, high=5)
    mechanism = registry.create(id, epsilon=epsilon, intrinsic=1e-6)
    channel = mechanism.guarantee(ratings.public).releases.rows
    predicted, measured = [], []
    for seed in range(20):
        out = channel.publish(mechanism.encode_rows(ratings, channel), np.random.default_rng(seed))
        reports = mechanism.build_reports(out, channel, ratings.public)
        scaled_truth = (truth[reports.pattern.users, reports.pattern.items] - 3) / 2
        factors = (1.0, reports.gain)  # with which ratings are debiased
        predicted.append([reports.estimate_residual(factor) for factor in factors])
        off = [reports.values - factor * scaled_truth for factor in factors]
        measured.append(np.linalg.norm(off, axis=1))
    assert np.mean(predicted, axis=0) == pytest.approx(np.mean(measured, axis=0), rel=0.02)


def test_the_bounds_are_those_of_the_paper():
    """With gamma = 0.05; a symbol of five is half a point on the scale -1..1."""
    public = PublicFacts(users=10, items=20, low=1, high=5)
    settings = {"epsilon": 1.0, "intrinsic": 0.25}
    rho = registry.create("modified-laplace", **settings).bound_residual(public, 30)
    spurious = math.sqrt(2 * 200 / ((math.exp(0.5) + 1) * 0.05) * 9)
    assert rho == pytest.approx(0.5 * math.sqrt(30) + 4 * math.sqrt(600) + spurious)
    rho = registry.create("randomised-response", **settings).bound_residual(public, 30)
    changed = 8 * math.sqrt(2 * 200 * 5 / ((math.e + 5) * 0.05)) / 2
    assert rho == pytest.approx(0.5 * math.sqrt(30) + changed)
    assert recovery_error(3.0, 0.25) == pytest.approx(6.0)


@pytest.mark.slow
@pytest.mark.parametrize("id", ["modified-laplace", "randomised-response"])
@pytest.mark.parametrize("estimator", list(Estimator))
def test_no_rating_reaches_the_model_past_the_channel(monkeypatch, id, estimator):
    """A deaf channel reports the same cells whatever goes in: so must the model be the same."""
    mechanism = registry.create(id, epsilon=2.0, estimator=estimator)
    some, _ = draw_low_rank_ratings(np.random.default_rng(10))
    channel = mechanism.guarantee(some.public).releases.rows
    reports = channel.publish(mechanism.encode_rows(some, channel), np.random.default_rng(0))
    monkeypatch.setattr(type(channel), "publish", lambda *_: reports)
    models = []
    for seed, density in ((11, 0.1), (12, 0.4)):
        ratings, _ = draw_low_rank_ratings(np.random.default_rng(seed), density=density)
        models.append(predict_all(fit_model(mechanism, ratings, 1), (300, 200)))
    assert np.array_equal(*models)


def test_reports_are_no_further_off_than_theorem_3_says():
    measured = measure_recovery("randomised-response", [16.0])
    rho, tight, theorem, moments, share = (
        float(measured[name].item()) for name in ("rho", "tight", "theorem", "moments", "share")
    )
    assert rho <= tight <= theorem
    assert moments == pytest.approx(rho, rel=0.02)
    assert share == pytest.approx(0.3, abs=0.01)  # of the cells are rated and reported


def test_levels_follow_a_whole_numbered_range():
    def levels(public):
        return count_levels(None, public)

    sizes = {"users": 2, "items": 2}
    assert levels(PublicFacts(low=1, high=5, **sizes)) == 5
    assert levels(PublicFacts(low=0, high=2, **sizes)) == 3
    assert levels(PublicFacts(low=-10, high=10, **sizes)) == 5
    assert levels(PublicFacts(low=0.5, high=5, **sizes)) == 5


def test_a_user_without_ratings_and_a_full_row_are_both_fine():
    public = PublicFacts(users=3, items=4, low=1, high=5)
    ratings = Ratings.build([0, 0, 0, 0, 2], [0, 1, 2, 3, 1], [1.0, 5, 3, 2, 4], public)
    for id in ("modified-laplace", "randomised-response", "dpmf", "soft-impute", "pmf"):
        model = fit_model(registry.create(id, epsilon=1.0), ratings)
        assert np.isfinite(predict_all(model, (3, 4))).all()
