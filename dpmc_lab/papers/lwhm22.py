"""LWHM22: Li, Wei, Huang, Mao, Wang, "One-Bit Matrix Completion with Differential Privacy" (2022).

Other ways to fit its methods, for experiments at settings that the paper does not state.
"""

from functools import partial

import numpy as np

from dpmc_core.experiment import format_run_key
from dpmc_core.mechanisms.one_bit import Gradient
from dpmc_core.model import Factors, Mechanism, Model
from dpmc_core.problem import Problem, create_generator
from dpmc_core.solvers.one_bit import build_feasible_set, likelihood_loss, positive_labels
from dpmc_lab.papers.engine import fit_model


def cut(mechanism: Mechanism, problem: Problem, seed: int) -> Factors:
    """Return the estimate that a run ends with, truncated to its first singular value."""
    matrix = fit_model(mechanism, problem, seed).predict(*np.indices(problem.train.shape))
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    return Factors(left[:, :1] * values[0], right[:1].T)


def one_round(step: float, mechanism: Gradient, problem: Problem, seed: int) -> Model:
    """Return the model after one round of gradient perturbation with a step of that length."""
    ratings, rng = problem.train, create_generator(seed, format_run_key(mechanism, problem))
    feasible = build_feasible_set(ratings, mechanism.radius, mechanism.bound, rng)
    start = feasible.origin()
    _, gradient = likelihood_loss(mechanism.link, positive_labels(ratings))(start.observed)
    clamped = np.clip(gradient, -mechanism.clamp, mechanism.clamp)
    noisy = mechanism.guarantee(ratings.public).releases.gradient.publish(clamped, rng)
    model: Model = feasible.project(start, step, noisy, 1e-4).build_model()
    return model


one_round_1, one_round_10, one_round_100 = (partial(one_round, step) for step in (1.0, 10.0, 100.0))
