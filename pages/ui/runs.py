"""What background jobs do: a training run, a file read or fetched. No Streamlit inside."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dpmc_core import experiment, registry
from dpmc_core.data import Dataset, Refused, datasets, download
from dpmc_core.errors import DpmcError
from dpmc_core.metrics import headline
from dpmc_core.model import Mechanism, Model, Step
from dpmc_core.problem import Problem
from dpmc_core.stopping import stopping
from dpmc_core.views.run_card import Run
from pages.ui.jobs import Tell, Work

# Seconds between two looks at the held-out ratings while training, and the part of the time that
# looking may take where there are many.
_LOOK_EVERY, _LOOK_SHARE = 0.25, 0.1


@dataclass(frozen=True)
class Round:
    """One round as the live chart shows it; metric is None where it was not looked at.

    raw: whether the objective was computed from raw ratings, without noise.
    """

    mechanism: str
    round: int
    total: int
    objective: float | None
    metric: float | None
    raw: bool


def train(
    mechanism: Mechanism,
    make: Callable[[], Problem],
    seed: int,
    *,
    spend: Callable[[float], None] | None = None,
    **about: Any,
) -> Work:
    """Prepare the data, fit the mechanism, then its floor and its twin, reporting every round.

    about: what a `Run` says beside its result.
    spend: told the mechanism's epsilon with its first round, whether or not the run gets further.
    """

    def work(report: Tell, stopped: Callable[[], bool]) -> Run:
        report(0, 0, "preparing the data")
        with stopping(stopped):
            problem = make()
        models: dict[str, Model] = {}
        begun: list[bool] = []
        look_at = 0.0
        report(0, 0, f"{mechanism.name}: starting")

        def on_step(method: Mechanism, step: Step) -> None:
            nonlocal look_at
            if step.model is not None:
                models[method.id] = step.model
            mine = method.id == mechanism.id
            if mine and spend is not None and not begun:
                begun.append(True)
                spend(epsilon_of(method))
            metric = None
            start = time.monotonic()
            due = start >= look_at or step.final
            if mine and step.model is not None and due and not stopped():
                found = experiment.measure(method, step.model, problem, seed)
                metric = found.get(headline(method.task).name)
                end = time.monotonic()
                look_at = end + max(_LOOK_EVERY, (end - start) / _LOOK_SHARE)
            name = method.name if mine else f"{method.name}, for comparison"
            objective, raw = step.trace.get("objective"), "objective" in step.raw
            point = Round(method.id, step.index, step.total, objective, metric, raw)
            report(
                step.index,
                step.total,
                f"{name}: round {step.index} of at most {step.total}",
                point if mine else None,
            )

        others = [method.id for method in experiment.baselines_of(mechanism)]
        reference = registry.REFERENCES[mechanism.task]

        def show(result: experiment.Result) -> None:
            """The private model first; guessing and methods without privacy join it later."""
            clear = models.get(reference) if reference in result.baselines else None
            left = [id for id in others if id not in result.baselines]
            label = f"{registry.get(left[0]).name}, for comparison: starting" if left else ""
            report(0, 0, label, result=Run(result=result, clear=clear, **about))

        result = experiment.run(mechanism, problem, seed, on_step, stopped, so_far=show)
        return Run(result=result, clear=models.get(reference), **about)

    return work


def reading_of(content: bytes, name: str, options: Mapping[str, Any]) -> Work:
    """Read an upload: its ratings, or everything that is wrong with it."""

    def work(report: Tell, stopped: Callable[[], bool]) -> Dataset | Refused:
        def tell(done: int, total: int) -> None:
            words = "sorting the ids" if done >= total else f"{100 * done // total} % read"
            report(done, total, words)

        report(0, 0, "opening the file")
        try:
            with stopping(stopped):
                return datasets.load_upload(content, name, tell, **options)
        except Refused as error:
            return error

    return work


def download_of(name: str) -> Work:
    """Fetch a public set, check it and unpack it."""

    def work(report: Tell, stopped: Callable[[], bool]) -> None:
        def progress(have: int, total: int | None) -> None:
            if stopped():
                raise DpmcError("stopped; what arrived is dropped, and a new start begins anew")
            size = "" if total is None else f" of {total / 1e6:.1f}"
            report(have, total or 0, f"{have / 1e6:.1f}{size} MB")

        report(0, 0, "asking the server")
        download.get(name, progress=progress)

    return work


def epsilon_of(mechanism: Mechanism) -> float:
    """The epsilon a mechanism is set to; 0 for one that adds no noise and so keeps no budget."""
    return float(getattr(mechanism, "epsilon", 0.0))
