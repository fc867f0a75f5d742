"""What background jobs do: one training run, or the runs behind a curve. No Streamlit inside."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpmc_core import curves, experiment
from dpmc_core.datasets import Dataset
from dpmc_core.model import Mechanism, Model, Step
from dpmc_core.problem import Problem, Split
from dpmc_core.views.curves import HEADLINE
from pages.ui.jobs import Report, Work

_LOOK_EVERY = 0.25  # seconds between two looks at the held-out ratings while training


@dataclass(frozen=True)
class Point:
    """One round as the live chart shows it; metric is None where it was not looked at."""

    mechanism: str
    round: int
    total: int
    objective: float | None
    metric: float | None


@dataclass(frozen=True, eq=False)
class Run:
    """A finished training run with the model of its twin without privacy, where it was trained.

    data, reading: what `datasets.load` is given to open the data again.
    """

    result: experiment.Result
    clear: Model | None
    data: str
    reading: Mapping[str, Any]
    title: str
    split: Split
    fresh: bool


def train(
    mechanism: Mechanism,
    make: Callable[[], Problem],
    seed: int,
    *,
    spend: Callable[[float], None] | None = None,
    **about: Any,
) -> Work:
    """Prepare the data, fit the mechanism, then its floor and its twin, reporting every round.

    spend: told the mechanism's epsilon with its first round, whether or not the run gets further.
    """

    def work(report: Report, stopped: Callable[[], bool]) -> Run:
        report(0, 0, "preparing the data")
        problem = make()
        models: dict[str, Model] = {}
        begun: list[bool] = []
        looked = 0.0

        def on_step(method: Mechanism, step: Step) -> None:
            nonlocal looked
            if step.model is not None:
                models[method.id] = step.model
            mine = method.id == mechanism.id
            if mine and spend is not None and not begun:
                begun.append(True)
                spend(epsilon_of(method))
            metric = None
            if mine and step.model is not None:
                now = time.monotonic()
                if now - looked >= _LOOK_EVERY or step.final:
                    looked = now
                    found = experiment.measure(method, step.model, problem, seed)
                    metric = found.get(HEADLINE[method.task])
            name = method.name if mine else f"{method.name}, for comparison"
            point = Point(method.id, step.index, step.total, step.trace.get("objective"), metric)
            report(
                step.index,
                step.total,
                f"{name}: round {step.index} of at most {step.total}",
                point if mine else None,
            )

        result = experiment.run(mechanism, problem, seed, on_step, stopped)
        return Run(result, models.get(mechanism.twin), **about)

    return work


def curve(
    dataset: Callable[[], Dataset],
    ids: Sequence[str],
    epsilons: Sequence[float],
    seeds: Sequence[int],
    settings: Mapping[str, Mapping[str, Any]],
    spend: Callable[[float], None] | None = None,
) -> Work:
    """The runs behind accuracy-epsilon curves; what is there when it is stopped is the result.

    spend: told the epsilon of every run.
    """

    def work(report: Report, stopped: Callable[[], bool]) -> curves.Curves | None:
        report(0, len(ids) * len(epsilons) * len(seeds), "preparing the data")
        latest = None
        steps = curves.compute(dataset(), ids, epsilons, seeds, settings, stopped)
        for done, total, found in steps:
            latest = found
            if spend is not None:
                spend(epsilons[(done - 1) % len(epsilons)])
            report(done, total, f"run {done} of {total}", found)
        return latest

    return work


def epsilon_of(mechanism: Mechanism) -> float:
    """The epsilon a mechanism is set to; 0 for one that adds no noise and so keeps no budget."""
    return float(getattr(mechanism, "epsilon", 0.0))
