"""What the experiments of RYHH24 measure: rankings learnt by ten parties, and what bounds them.

RYHH24: Ran, Ye, Huang, Hu, "Differentially Private Implicit Matrix Factorization" (2024).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from dpmc_core import registry
from dpmc_core.data import datasets
from dpmc_core.lab.protocol import federated
from dpmc_core.lab.protocol.simulate import measured
from dpmc_core.lab.views.implicit import figure_5_settings
from dpmc_core.mechanisms.dpimf import Profiles
from dpmc_core.model import Task
from dpmc_core.problem import LeaveLast, Problem, build_problem, generator
from dpmc_core.ratings import Ratings
from dpmc_core.solvers.linalg import Pattern, leading_right
from dpmc_core.stopping import look

PARTIES = federated.PAPER["parties"]


class Size(NamedTuple):
    """Exchanges with the server, and noisy solves of a party between two of them."""

    rounds: int
    local: int

    def __str__(self) -> str:
        return f"{self.rounds} x {self.local}"


PRINTED = Size(federated.PAPER["rounds"], federated.PAPER["local"])
LOOKS = (1, 3, 10, 30, 100)  # rounds after which the ranking is measured


@lru_cache(maxsize=2)
def problem_of(data: str, seed: int) -> Problem:
    """Clicks of a data set, everybody's last held out. Raises DpmcError."""
    found = datasets.load(data, for_ranking=True)
    return build_problem(found, Task.RANKING, split=LeaveLast(), seed=seed)


def among_parties(
    problem: Problem,
    variant: str,
    epsilon: float,
    seed: int,
    *,
    profiles: Profiles,
    size: Size,
    rank: int,
    regularisation: float,
) -> dict[str, Any]:
    """Ranking metrics of a variant that ten parties learn, the norms read off the data.

    Beside them `after`: the same after each of LOOKS rounds, by number. Raises InvalidSetting, also
    where the factors shrink to zero.
    """
    flow = federated.build(
        variant,
        epsilon,
        parties=PARTIES,
        rounds=size.rounds,
        local=size.local,
        profiles=profiles,
        clip=None,
        rank=rank,
        regularisation=regularisation,
        # Alpha and the shares of the budget are printed for that figure only.
        **figure_5_settings(variant),
    )
    run = federated.start(flow, problem, seed)
    after = {}
    for round in run.play():
        look()
        if round in LOOKS or round == size.rounds:
            after[str(round)] = _metrics(measured(Task.RANKING, run.model(), problem, seed, ()))
    return {**after[str(size.rounds)], "after": after}


def by_one(problem: Problem, id: str, seed: int, **settings: Any) -> dict[str, float]:
    """Ranking metrics of a mechanism that sees all clicks."""
    mechanism = registry.create(id, **settings)
    *_, last = mechanism.fit(problem.train, generator(seed, f"{id} on {problem.train.fingerprint}"))
    assert last.model is not None
    return _metrics(measured(Task.RANKING, last.model, problem, seed, ()))


def _metrics(report: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in report["metrics"].items()}


class Survivors(NamedTuple):
    """Singular values of the clicks, the largest first, and what the ridge takes off each.

    At alpha = 1 every row of m x n clicks is ridged by lambda n and every column by lambda m, and
    lambda (n |P|^2 + m |Q|^2) >= 2 lambda sqrt(mn) ||P Q'||_* with equality at the best split: the
    loss (RYHH24, Eq. 11 and 12) is least at the clicks with `taken` off each singular value.
    """

    values: tuple[float, ...]
    taken: float

    @property
    def kept(self) -> int:
        """The rank of the minimum without noise: 0 is a model that scores everything 0."""
        return sum(value > self.taken for value in self.values)


def survivors(ratings: Ratings, regularisation: float, rank: int) -> Survivors:
    """What the loss at alpha = 1 leaves of these clicks; `rank` values at most."""
    values, _ = leading_right(Pattern.of(ratings), ratings.values, rank)
    taken = regularisation * math.sqrt(ratings.public.users * ratings.public.items)
    return Survivors(tuple(float(value) for value in values), taken)
