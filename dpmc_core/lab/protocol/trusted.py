"""What a trusted server gets where scenarios 2 and 3 have none, and what the difference is made of.

HXZ15: Hua, Xia, Zhong, "Differentially Private Matrix Factorization" (2015).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core import metrics
from dpmc_core.lab.protocol.scenarios import Scenario, ScenarioRun
from dpmc_core.mechanisms.factorization import DPMF
from dpmc_core.model import Task
from dpmc_core.privacy.shares import fewest_sharing
from dpmc_core.problem import Problem, generator
from dpmc_core.ratings import PublicFacts
from dpmc_core.solvers.als import normal_equations, ridge
from dpmc_core.solvers.factorization import Sides
from dpmc_core.solvers.rows import with_offsets

Floats = NDArray[np.float64]

Tell = Callable[[int, int], None]

DRAWS = 5  # of start and noise


def reference_items(run: ScenarioRun) -> Floats:
    """Item factors by the same phases and gradient steps in floating point, without messages.

    The noise, the attendance and the start are the run's; users refit theirs to these factors.
    """
    items = run.phases[0].models[0].copy()
    for k, phase in enumerate(run.phases):
        users = run.refit(run.published(items)) if k else phase.user_factors
        for pairs, where in phase.steps:
            own, group = users[run.who[pairs]], run.what[pairs]
            errors = np.einsum("pd,pd->p", own, items[group]) - run.users.deviations[pairs]
            slope = np.zeros_like(items)
            np.add.at(slope, group, 2 * errors[:, None] * own)
            slope += phase.noise + 2 * phase.penalty * items
            items[where] -= slope[where] / (2 * (run.raters[where] + phase.penalty))[:, None]
    return items


def exact_items(run: ScenarioRun) -> Floats:
    """The minimum of the last phase's noisy objective with everybody's gradient in it.

    Items that the phase had no noise for are as the run has them.
    """
    phase, items = run.phase, run.items.copy()
    squares, moments = normal_equations(run.sides.by_item, phase.user_factors)
    exact = ridge(squares, moments - phase.noise / 2, phase.penalty)
    items[phase.active] = exact[phase.active]
    return items


class Spread(NamedTuple):
    """A mean over draws of the noise, and twice its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: Floats) -> Spread:
        """Of one value for each draw."""
        return cls(float(values.mean()), float(2 * values.std(ddof=1) / np.sqrt(len(values))))


class Gap(NamedTuple):
    """Test RMSE of scenario 1, and what scenario 2 adds to it: `refit` plus `split` is all of it.

    trusted: scenario 1 with noise on each coordinate and all of epsilon. refit: what it costs that
    users fit their factors to published item factors and that steps end, with all of epsilon in
    every phase; split: what it costs to divide it. Everybody online. draws, phases: how many. held:
    user factors are not fitted in phases but held.
    """

    trusted: Spread
    distributed: Spread
    refit: Spread
    split: Spread
    draws: int
    phases: int
    held: bool

    def as_dict(self) -> dict[str, Any]:
        """As plain JSON values; errors are twice the standard error of a mean."""
        return {
            name: value._asdict() if isinstance(value, Spread) else value
            for name, value in self._asdict().items()
        }


def gap(
    settings: Scenario, problem: Problem, seed: int, tell: Tell | None = None, draws: int = DRAWS
) -> Gap:
    """The difference from scenario 1, taken apart on a problem; raw test ratings are read.

    tell: told (finished draws, draws) after each; what it raises ends the work.
    """
    train, public, mechanism = problem.train, problem.train.public, settings.mechanism
    sides, parts = mechanism.sides(train), settings.parts(public.users)
    start = generator(seed, f"scenario 1 on {train.fingerprint}")
    held = fitted = None
    if settings.user_factors is not None:
        held = fitted = settings.user_factors.load(mechanism, sides, public, start)
    else:
        *_, (fitted, _) = mechanism.alternate(sides, start)

    def error(items: Floats) -> float:
        model = with_offsets(mechanism.fit_users(sides, items), items, public.middle)
        return metrics.evaluate(Task.RATINGS, model, train, problem.test, start)["rmse"]

    found = np.empty((3, draws))
    for k in range(draws):
        key = f"draw {k} on {train.fingerprint}"  # the same noise, whatever epsilon
        items = mechanism.private_items(sides, fitted, public, generator(seed, key))
        found[0, k] = error(items)
        for row, plan in ((1, (mechanism,) * len(parts)), (2, parts)):
            if row == 1 or len(parts) > 1:
                rng = generator(seed, key)
                found[row, k] = error(in_phases(settings, plan, sides, public, rng, held))
            else:
                found[row, k] = found[1, k]
        if tell is not None:
            tell(k + 1, draws)
    trusted, undivided, divided = found
    return Gap(
        trusted=Spread.of(trusted),
        distributed=Spread.of(divided),
        refit=Spread.of(undivided - trusted),
        split=Spread.of(divided - undivided),
        draws=draws,
        phases=len(parts),
        held=held is not None,
    )


def in_phases(
    settings: Scenario,
    plan: Sequence[DPMF],
    sides: Sides,
    public: PublicFacts,
    rng: np.random.Generator,
    held: Floats | None = None,
) -> Floats:
    """Item factors after all phases, by the law of a run of scenario 2, without messages.

    plan: the mechanism of each phase, whose epsilon it spends. held: user factors held throughout.
    """
    mechanism, raters = settings.mechanism, np.diff(sides.by_item.indptr)
    items = mechanism.first_items(public.items, rng)
    for part in plan:
        users = mechanism.fit_users(sides, items) if held is None else held
        squares, moments = normal_equations(sides.by_item, users)
        linear = part.guarantee(public).releases.linear_term.publish(-2 * moments, rng)
        penalty = part.noisy_penalty(public)
        for _ in range(settings.iterations):
            slope = 2 * np.einsum("jkl,jl->jk", squares, items) + linear + 2 * penalty * items
            items -= slope / (2 * (raters + penalty))[:, None]
        items[raters < fewest_sharing(settings.colluding)] = 0.0
    return items
