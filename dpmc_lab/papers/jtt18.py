"""JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018).

Bounds leave out the constants and logarithms that their O() and O~() hide: shapes and crossings
mean something, heights do not. Errors are mean squared errors of one entry, in squared rating
points; the empirical risk is half of that on the seen entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import experiment, registry
from dpmc_core.data import datasets
from dpmc_core.data.transforms import parse_step
from dpmc_core.mechanisms.cleansing import CleansingMeans, CleansingStatistics, SvdAfterCleansing
from dpmc_core.mechanisms.per_user import effective_cap
from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import USER_EMPTIED, Gaussian, Guarantee
from dpmc_core.problem import Problem, RandomShare, build_problem
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import format_setting
from dpmc_lab.papers.engine import Trial, TrialRecipe, make_exact_recipe, parse_texts

FW, FREE, GUESS = "private-frank-wolfe", "frank-wolfe", "user-mean"
_OWN = "the matrix's own"


class Regime(NamedTuple):
    """What the bounds depend on.

    users m, items n, seen |Omega|, nuclear-norm bound k, bound L on the l2 norm of a row's seen
    part (rating points for both), epsilon, delta.
    """

    users: float
    items: float
    seen: float
    nuclear: float
    row: float
    epsilon: float
    delta: float = 1e-6


def rank_one(users: float, items: float, epsilon: float, delta: float = 1e-6) -> Regime:
    """Remarks 1, 3, 5: entries of size one, sqrt(n) of each row seen, k = sqrt(m n), L = n^1/4."""
    seen, nuclear = users * math.sqrt(items), math.sqrt(users * items)
    return Regime(users, items, seen, nuclear, math.pow(items, 0.25), epsilon, delta)


def best_empirical_risk(s: Regime) -> float:
    """Theorem 3.2 at its best number of rounds: k^(6/5) n^(1/5) L^(4/5) / (|Omega| eps^(2/5))."""
    top = math.pow(s.nuclear, 1.2) * math.pow(s.items, 0.2) * math.pow(s.row, 0.8)
    return top / (s.seen * math.pow(s.epsilon, 0.4))


def price_of_privacy(s: Regime) -> float:
    """Corollary 3.1: what privacy adds to the error of completion."""
    top = math.pow(s.nuclear, 4 / 3) * s.row * math.pow(s.items, 0.25)
    both = math.pow(s.users + s.items, 1 / 6)
    return top / math.sqrt(s.epsilon * math.pow(s.seen, 13 / 6) * both)


# --- the baseline by its own paper's accounting -------------------------------------------------

BY_RATING = "svd-after-cleansing by rating"
_RATINGS = 80  # xi of section 4, which prints epsilon_entry = epsilon_user/80 for all data


class ByRating(SvdAfterCleansing):
    """SVD after cleansing with the noise of its own paper's unit: a rating at epsilon/80.

    Shares of epsilon add up there, and sigma = sqrt(2 ln(2/delta))/epsilon times what a rating that
    comes or goes moves: half the range, 1, and sqrt(2) B^2 and sqrt(2) of a row's products and
    weights over the root of their number, its own mean held fixed.
    """

    def guarantee(self, public: PublicFacts) -> Guarantee[CleansingStatistics]:
        guarantee, k = super().guarantee(public), effective_cap(self.cap, public)
        releases, mu, root = guarantee.releases, self.budget().mu, math.sqrt(k)
        rating = self.epsilon / _RATINGS / math.sqrt(2 * math.log(2 / self.delta))

        def count_by_rating(release: Gaussian, divisor: float) -> Gaussian:
            """divisor: how many times less a rating moves it than a row does."""
            sensitivity = release.sensitivity[USER_EMPTIED]
            share = (sensitivity / release.scale / mu) ** 2
            return replace(release, scale=sensitivity / divisor / (rating * share))

        means = vars(releases.means).items()
        mean = {
            name: count_by_rating(release, root if release.shape else k) for name, release in means
        }
        pairs = (
            count_by_rating(release, root / math.sqrt(2))
            for release in (releases.products, releases.weights)
        )
        per_rating = CleansingStatistics(CleansingMeans(**mean), *pairs)
        return replace(guarantee, releases=per_rating)


# --- what is no grid: a matrix too large for a store's row with lists, and that baseline ----------


@lru_cache(maxsize=1)
def _load_problem(data: str, step: str, seed: int) -> Problem:
    """A draw, split; the one before is let go."""
    dataset = datasets.load(f"{data},seed={seed}" if ":" in data else data)
    steps = [parse_step(step)] if step else []
    return build_problem(dataset, Task.RATINGS, steps=steps, split=RandomShare(0.01), seed=seed)


def run(
    data: str, step: str, settings: Mapping[str, str], method: str, epsilon: float | None, seed: int
) -> float:
    """RMSE of one run."""
    problem, id = _load_problem(data, step, seed), method.split()[0]
    texts = {
        name: text
        for full, text in settings.items()
        for owner, _, name in (full.rpartition("."),)
        if owner in ("", id)
    }
    if texts.get("radius") == _OWN:
        assert problem.truth is not None
        left, right = problem.truth.left, problem.truth.right  # of rank one
        nuclear = np.linalg.norm(left) * np.linalg.norm(right)
        texts["radius"] = f"{nuclear / math.sqrt(len(left) * len(right)):.3g}"
    chosen = {
        **registry.get_published_settings(id).settings,
        **parse_texts(id, texts),
        "delta": 1e-6,
    }
    create: Callable[..., Mechanism] = partial(registry.create, id)
    if method == BY_RATING:
        create = ByRating
    mechanism = create(epsilon=epsilon, **chosen)
    return experiment.run(mechanism, problem, seed, with_baselines=False).metrics["rmse"]


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
    """Methods on a set. names: labels, by method. about: what tells its results from others."""
    labels = {method.removesuffix(" rounds=400"): label for method, label in names.items()}
    trials = [
        Trial(
            labels[method],
            method.split()[0],
            epsilon,
            method if epsilon is None else f"{method} {epsilon:g}",
            partial(run, data, step, settings, method, epsilon),
        )
        for group, grid in (((GUESS, FREE), [None]), (methods, epsilons))
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
        trials=trials,
        settings={**about, **published, **settings},
        mechanisms=(GUESS, FREE, *ids),
        seeds=tuple(range(1, seeds + 1)),
    )


# --- tables --------------------------------------------------------------------------------------


def growth(bound: Callable[[float, float], float]) -> tuple[float, float]:
    """The powers of the users and of the items that a bound of both grows with."""
    users, items, more = 1e12, 1e4, 16.0
    grown = bound(more * users, items), bound(users, more * items)
    of_users, of_items = (math.log(value / bound(users, items), more) for value in grown)
    return of_users, of_items


def users_needed() -> float:
    """Remark 3 and Table 1: the power of n that m must outgrow for the error to vanish."""
    of_users, of_items = growth(lambda m, n: price_of_privacy(rank_one(m, n, 1.0)))
    return -of_items / of_users


def low_rank_error(users: float, items: float) -> float:
    """Table 2: ||Y - Y*||_F where all is seen and rows have norm 1."""
    size = Regime(users, items, users * items, math.sqrt(users), 1.0, 1.0)
    return math.sqrt(users * items * best_empirical_risk(size))


def compare_powers(theorem: str) -> TrialRecipe:
    """The powers in the row of private Frank-Wolfe of Table 1 or 2, as our versions give them."""
    tables = {
        "Remark 3 and Table 1": lambda: [users_needed()],
        "Table 2, Private Frank-Wolfe": lambda: list(growth(low_rank_error)),
    }

    def compute() -> dict[str, tuple[range, list[float]]]:
        powers = tables[theorem]()
        return {"Private FW": (range(len(powers)), powers)}

    return make_exact_recipe(
        compute, {"Private FW": FW}, settings={"row of the theory table": theorem}
    )
