"""JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018).

Its baseline by another paper's accounting, and methods on matrices that are too large for a row of
the store. tests/theory has its bounds.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np

from dpmc_core import experiment, registry
from dpmc_core.mechanisms.cleansing import CleansingMeans, CleansingStatistics, SvdAfterCleansing
from dpmc_core.mechanisms.per_user import effective_cap
from dpmc_core.model import Mechanism, Task
from dpmc_core.preparation import parse_step
from dpmc_core.privacy import USER_EMPTIED, Gaussian, Guarantee
from dpmc_core.problem import Problem, RandomShare, build_problem
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import format_setting
from dpmc_data import datasets
from dpmc_lab.papers.engine import Trial, TrialRecipe, fit_model
from dpmc_lab.sweep import Grid

GUESS = "user-mean"
FREE = ("frank-wolfe", "pgd")
_OWN = "the matrix's own"


# --- the baseline by its own paper's accounting -------------------------------------------------

BY_RATING = "svd-after-cleansing by rating"
_RATINGS = 80  # xi of section 4, which prints epsilon_entry = epsilon_user/80 for all data


class ByRating(SvdAfterCleansing):
    """SVD after cleansing with the noise of its own paper, which protects a rating at epsilon/80.

    Shares of epsilon add up there. Sigma is sqrt(2 ln(2/delta))/epsilon times the sensitivity to
    one rating: half the range for a sum, 1 for a count. For a row's products and weights it is
    sqrt(2) B^2 and sqrt(2) over the root of their number, with the row's mean held fixed.
    """

    def guarantee(self, public: PublicFacts) -> Guarantee[CleansingStatistics]:
        """Return the guarantee with each release's share of the budget, but counted by rating."""
        guarantee, k = super().guarantee(public), effective_cap(self.cap, public)
        releases, mu, root = guarantee.releases, self.budget().mu, math.sqrt(k)
        rating = self.epsilon / _RATINGS / math.sqrt(2 * math.log(2 / self.delta))

        def count_by_rating(release: Gaussian, divisor: float) -> Gaussian:
            """Return the release at its sensitivity to a rating, a row's over the divisor."""
            sensitivity = release.sensitivity[USER_EMPTIED]
            share = (sensitivity / release.scale / mu) ** 2
            return replace(release, scale=sensitivity / divisor / (rating * share))

        # A row has up to k ratings, which a number adds up, and a vector holds in as many entries.
        mean_releases = {
            name: count_by_rating(release, root if release.shape else k)
            for name, release in vars(releases.means).items()
        }
        pairs = (
            count_by_rating(release, root / math.sqrt(2))
            for release in (releases.products, releases.weights)
        )
        per_rating = CleansingStatistics(CleansingMeans(**mean_releases), *pairs)
        return replace(guarantee, releases=per_rating)


# --- what is no grid: a matrix too large for a store's row with lists, and that baseline ----------


@lru_cache(maxsize=1)
def _load_problem(data: str, step: str, seed: int) -> Problem:
    """Load a draw of a data set, split; only the latest one is kept in memory."""
    dataset = datasets.load(f"{data},seed={seed}" if ":" in data else data)
    steps = [parse_step(step)] if step else []
    return build_problem(dataset, Task.RATINGS, steps=steps, split=RandomShare(0.01), seed=seed)


def run(
    data: str, step: str, settings: Mapping[str, str], method: str, epsilon: float | None, seed: int
) -> float:
    """Return the RMSE of one run."""
    problem, id = _load_problem(data, step, seed), method.split()[0]
    texts = dict(settings)
    if problem.truth is not None:  # of rank one
        left, right = problem.truth.left, problem.truth.right
        nuclear = np.linalg.norm(left) * np.linalg.norm(right)
        radius = f"{nuclear / math.sqrt(len(left) * len(right)):.3g}"
        texts = {name: radius if text == _OWN else text for name, text in texts.items()}
    options = {name: [text] for name, text in texts.items()}
    ids = [id, *(name.partition(".")[0] for name in texts if "." in name)]
    grid = Grid([data], ids, [1.0], settings=options).as_published()
    chosen = {name: value for name, (value,) in grid.parse_values(id).items()} | {"delta": 1e-6}
    create: Callable[..., Mechanism] = partial(registry.create, id)
    if method == BY_RATING:
        create = ByRating
    mechanism = create(epsilon=epsilon, **chosen)
    model = fit_model(mechanism, problem, seed)
    return experiment.measure_model(mechanism, model, problem, seed)["rmse"]


def compare_methods(
    data: str,
    epsilons: Sequence[float],
    names: Mapping[str, str],
    methods: Sequence[str],
    settings: Mapping[str, str],
    about: Mapping[str, Any],
    step: str = "",
    seeds: int = 2,
) -> TrialRecipe:
    """Return the recipe of the error of methods on a data set.

    Args:
        data, step: the data set and how it is prepared.
        epsilons, methods, settings: what is run.
        names: the label of each method.
        about: facts on the data that identify the result.
        seeds: how many.
    """
    labels = {method.removesuffix(" rounds=400"): label for method, label in names.items()}
    trials = [
        Trial(
            labels[method],
            method.split()[0],
            epsilon,
            method if epsilon is None else f"{method} {epsilon:g}",
            partial(run, data, step, settings, method, epsilon),
        )
        for group, grid in (((GUESS, *FREE), [None]), (methods, epsilons))
        for method, epsilon in product(group, grid)
        if method in labels
    ]
    ids = tuple(method for method in methods if method != BY_RATING)
    published = {
        f"{id}.{name}": format_setting(value)
        for id in ids
        for name, value in registry.get_published_settings(id).settings.items()
    }
    return TrialRecipe(
        trials,
        {**about, **published, **settings},
        (GUESS, *(id for id in FREE if id in labels), *ids),
        seeds=tuple(range(1, seeds + 1)),
    )
