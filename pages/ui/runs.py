"""What background jobs do: a training run, a file read or fetched. No Streamlit inside."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from dpmc_core import experiment, registry
from dpmc_core.data import Dataset, Refused, datasets, public_sets
from dpmc_core.errors import DpmcError
from dpmc_core.metrics import headline
from dpmc_core.model import Mechanism, Model, Step
from dpmc_core.privacy import witness
from dpmc_core.problem import Problem, build_problem, default_split, generator
from dpmc_core.ratings import Ratings
from dpmc_core.stopping import stopping
from dpmc_lab.curves import cards, noise
from dpmc_lab.curves.lines import WITHOUT
from dpmc_lab.curves.run_card import Run
from dpmc_lab.curves.training import Camera, Film
from pages.ui.jobs import Tell, Work

# Seconds that looking at held-out ratings while training may take in all, and the part of the
# time beyond that.
_LOOKS, _LOOK_SHARE = 0.5, 0.1
_EXAMPLE = 60  # users and items


class Round(NamedTuple):
    """The objective of a round, where there is one.

    raw: whether it was computed from raw ratings, without noise.
    """

    round: int
    objective: float | None
    raw: bool


def train(
    mechanism: Mechanism,
    make: Callable[[], Problem],
    seed: int,
    *,
    number: int = 0,
    film: str = "",
    reference: Sequence[Any] = (),
    **run_fields: Any,
) -> Work:
    """Prepare the data, fit the floor, the mechanism, then its twins, reporting every round.

    run_fields: what a `Run` says beside its result and its number. film: name of its film, else by
    the number.
    reference: the headline metric without privacy and what that is, where it is known before; it
    decides the axis.
    """
    metric = headline(mechanism.task).name

    def work(report: Tell, stopped: Callable[[], bool]) -> Run:
        report(0, 0, "preparing the data")
        with stopping(stopped):
            problem = make()
        baseline_metrics: dict[str, Mapping[str, float]] = {}
        baselines = {
            baseline.id: baseline for baseline in experiment.baselines_of(mechanism, problem.steps)
        }
        # They are cheap, and the picture of the run starts from one of them.
        for id in registry.baselines_of(type(mechanism), problem.steps):
            if guess := baselines.get(id):
                report(0, 0, f"{guess.name}, for comparison: starting")
                baseline_result = experiment.run(
                    guess, problem, seed, stop=stopped, with_baselines=False
                )
                baseline_metrics[id] = baseline_result.metrics
        errors = {id: method_metrics[metric] for id, method_metrics in baseline_metrics.items()}
        baseline_id = registry.floor_of(type(mechanism), problem.steps, errors)
        baseline_error = errors.get(baseline_id)
        camera_args = (film or f"run {number}", baseline_error, *reference)
        camera = Camera(
            mechanism, problem, *camera_args, data=run_fields.get("data", ""), floor_id=baseline_id
        )
        models: dict[str, Model] = {}
        training_start = time.monotonic()
        looked = 0.0
        report(0, 0, f"{mechanism.name}: starting", shown=camera.film)

        def look(step: Step, model: Model) -> float | None:
            """The metric in this round, where there is time for it."""
            nonlocal looked
            start = time.monotonic()
            last = step.final or step.index == step.total
            if stopped() or not (last or looked < _LOOKS + _LOOK_SHARE * (start - training_start)):
                return None
            method_metrics = experiment.measure(mechanism, model, problem, seed)
            looked += time.monotonic() - start
            return method_metrics[metric]

        def on_step(method: Mechanism, step: Step) -> None:
            if step.model is not None:
                models[method.id] = step.model
            new_releases, publications[:] = tuple(publications), []
            if step.index == 1 and method.id == mechanism.id:
                card = method.guarantee(problem.train.public).given(problem.train.prepared)
                certified_budget = card.certified()
                budget = cards.budget_text(certified_budget.epsilon, certified_budget.delta)
                spent.append(
                    f"what it had begun counts as spent, epsilon {budget} {card.change.label}"
                )
            if method.id != mechanism.id:
                progress_label = (
                    f"{method.name}, for comparison: round {step.index} of at most {step.total}"
                )
                report(step.index, step.total, progress_label)
                return
            if step.index == 1:
                camera.tell(total=step.total)
            camera.hear(new_releases)
            if step.model is not None and camera.wants(step):
                camera.see(step.index, step.model, look(step, step.model))
            report(
                step.index,
                step.total,
                f"{method.name}: round {step.index} of at most {step.total}",
                Round(step.index, step.trace.get("objective"), "objective" in step.raw),
                shown=camera.film,
                halt=not (step.final or step.index == step.total),
            )

        nonprivate_id = registry.REFERENCES[mechanism.task]

        def show(result: experiment.Result) -> None:
            """The private model first; methods without privacy join it later."""
            left = [
                baseline.name for id, baseline in baselines.items() if id not in result.baselines
            ]
            label = f"{left[0]}, for comparison: starting" if left else ""
            report(0, 0, label, result=so_far(result), shown=camera.film)

        def so_far(result: experiment.Result) -> Run:
            frames = camera.film.frames
            if not frames or frames[-1].round < result.rounds or frames[-1].metric is None:
                with stopping(lambda: False):  # small, and there even where the run was stopped
                    camera.see(result.rounds, result.model, result.metrics[metric])
            nonprivate_model = None
            if nonprivate_id in result.baselines:
                camera.tell(reference=result.baselines[nonprivate_id][metric], best=WITHOUT)
                nonprivate_model = models.get(nonprivate_id)
            return Run(
                result=result, clear=nonprivate_model, film=camera.film, number=number, **run_fields
            )

        with witness() if camera.witnesses else nullcontext([]) as publications:
            result = experiment.run(
                mechanism, problem, seed, on_step, stopped, so_far=show, known=baseline_metrics
            )
        return so_far(result)

    spent = [f"{mechanism.name} had not begun and has spent nothing"]

    def told(report: Tell, stopped: Callable[[], bool]) -> Run:
        try:
            return work(report, stopped)
        except DpmcError as error:
            raise DpmcError(f"{error}; {spent[-1]}") if stopped() else error from None

    return told


def example(mechanism: Mechanism, ratings: Ratings, data: str = "") -> Film:
    """A run on the busiest users and most rated items of a sample: small enough not to wait for.

    data: the sample's name. Raises DpmcError.
    """
    small = noise.block(ratings, _EXAMPLE, _EXAMPLE)
    rng = generator(0, f"example of {ratings.fingerprint}")
    pair = default_split(mechanism.task)(small, rng)
    partial_runs: list[Run] = []

    def report(*_: Any, result: Run | None = None, **__: Any) -> None:
        partial_runs.extend([] if result is None else [result])

    def enough() -> bool:
        return bool(partial_runs and partial_runs[-1].clear)  # its twin is not in the picture

    name = f"example {mechanism!r} on {ratings.fingerprint}"
    run_fields = {"data": data, "title": "", "split": default_split(mechanism.task), "fresh": False}
    work = train(mechanism, lambda: build_problem(pair, mechanism.task), 0, film=name, **run_fields)
    run = work(report, enough)
    assert run.film is not None
    return run.film


def reading_of(content: bytes, name: str, options: Mapping[str, Any]) -> Work:
    """Read an upload: its ratings, or everything that is wrong with it."""

    def work(report: Tell, stopped: Callable[[], bool]) -> Dataset | Refused:
        def tell(done: int, total: int) -> None:
            label = "sorting the ids" if done >= total else f"{100 * done // total} % read"
            report(done, total, label)

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
        public_sets.get(name, progress=progress)

    return work
