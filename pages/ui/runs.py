"""Define the work of background jobs, without Streamlit: train, read a file, download a set."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from dpmc_core import experiment, registry
from dpmc_core.errors import DpmcError
from dpmc_core.metrics import choose_headline_metric
from dpmc_core.model import Mechanism, Model, Step
from dpmc_core.privacy import record_publications
from dpmc_core.problem import Problem, build_problem, choose_default_split, create_generator
from dpmc_core.stopping import stop_when
from dpmc_data import LoadedDataset, datasets, public_sets
from dpmc_data.source import Refused
from dpmc_lab.views import cards, noise
from dpmc_lab.views.lines import NO_PRIVACY
from dpmc_lab.views.people import find_example_user
from dpmc_lab.views.run_card import FinishedRun
from dpmc_lab.views.train import RunRecorder, RunRecording
from pages.ui.jobs import ProgressReporter, Work

# Seconds that looking at held-out ratings while training may take in all, and the part of the
# time beyond that.
_EVALUATION_SECONDS = 0.5
_EVALUATION_SHARE = 0.1
_EXAMPLE_SIZE = 100  # users and items


class Round(NamedTuple):
    """The objective of a round, where there is one.

    Attributes:
        round: its number.
        objective: its value, or None.
        raw: whether it was computed from raw ratings, without noise.
    """

    round: int
    objective: float | None
    raw: bool


def make_training_work(
    mechanism: Mechanism,
    make: Callable[[], Problem],
    seed: int,
    *,
    number: int = 0,
    film: str = "",
    reference: Sequence[Any] = (),
    find_example: Callable[[], int] | None = None,
    **run_fields: Any,
) -> Work:
    """Return the work that fits the baseline, the mechanism and its nonprivate counterparts.

    It prepares the data and reports every round.

    Args:
        mechanism: the mechanism.
        make: builds the problem.
        seed: of the run.
        number: of the run in its session.
        film: name of its recording (default: from the number).
        reference: the headline metric without privacy and its name, if they are known beforehand;
            they decide the axis of the recording.
        find_example: finds the user whose list is displayed.
        **run_fields: further fields of `FinishedRun`.
    """
    metric = choose_headline_metric(mechanism.task).name

    def work(report: ProgressReporter, stopped: Callable[[], bool]) -> FinishedRun:
        """Fit everything, report every round, and return the finished run."""
        report(0, 0, "preparing the data")
        with stop_when(stopped):
            problem = make()
        baseline_metrics: dict[str, Mapping[str, float]] = {}
        baselines = {
            baseline.id: baseline
            for baseline in experiment.build_baselines(mechanism, problem.steps)
        }
        # They are cheap, and the picture of the run starts from one of them.
        for id in registry.list_baselines(type(mechanism), problem.steps):
            if cheap_baseline := baselines.get(id):
                report(0, 0, f"{cheap_baseline.name}, for comparison: starting")
                baseline_result = experiment.run(
                    cheap_baseline, problem, seed, stop=stopped, with_baselines=False
                )
                baseline_metrics[id] = baseline_result.metrics
        errors = {id: method_metrics[metric] for id, method_metrics in baseline_metrics.items()}
        baseline_id = registry.choose_baseline(type(mechanism), problem.steps, errors)
        camera_args = (film or f"run {number}", errors.get(baseline_id), *reference)
        camera = RunRecorder(
            mechanism,
            problem,
            *camera_args,
            baseline_id=baseline_id,
            example=find_example() if find_example else None,
        )
        models: dict[str, Model] = {}
        training_start = time.monotonic()
        evaluation_seconds = 0.0
        report(0, 0, f"{mechanism.name}: starting", display=camera.recording)

        def evaluate_round(step: Step, model: Model) -> float | None:
            """Return the metric in this round, or None if measuring has taken too long already."""
            nonlocal evaluation_seconds
            start = time.monotonic()
            last = step.final or step.index == step.total
            if stopped() or not (
                last
                or evaluation_seconds
                < _EVALUATION_SECONDS + _EVALUATION_SHARE * (start - training_start)
            ):
                return None
            method_metrics = experiment.measure_model(mechanism, model, problem, seed)
            evaluation_seconds += time.monotonic() - start
            return method_metrics[metric]

        def on_step(method: Mechanism, step: Step) -> None:
            """Report a round, record it in the film, and note what the run has spent."""
            if step.model is not None:
                models[method.id] = step.model
            new_releases, publications[:] = tuple(publications), []
            if step.index == 1 and method.id == mechanism.id:
                guarantee = method.guarantee(problem.train.public).with_preparation(
                    problem.train.prepared
                )
                certified_budget = guarantee.certified()
                budget = cards.format_budget(certified_budget.epsilon, certified_budget.delta)
                spent_messages.append(
                    f"what it had begun counts as spent, epsilon {budget} {guarantee.change.label}"
                )
            if method.id != mechanism.id:
                progress_label = (
                    f"{method.name}, for comparison: round {step.index} of at most {step.total}"
                )
                report(step.index, step.total, progress_label)
                return
            if step.index == 1:
                camera.update_recording(total=step.total)
            camera.add_publications(new_releases)
            if step.model is not None and camera.needs_round(step):
                camera.add_round(step.index, step.model, evaluate_round(step, step.model))
            report(
                step.index,
                step.total,
                f"{method.name}: round {step.index} of at most {step.total}",
                Round(step.index, step.trace.get("objective"), "objective" in step.raw),
                display=camera.recording,
                halt=not (step.final or step.index == step.total),
            )

        nonprivate_id = registry.NONPRIVATE_REFERENCES[mechanism.task]

        def show(result: experiment.Result) -> None:
            """Report the run with its private model, before nonprivate methods are fitted."""
            remaining = [
                baseline.name for id, baseline in baselines.items() if id not in result.baselines
            ]
            label = f"{remaining[0]}, for comparison: starting" if remaining else ""
            report(0, 0, label, result=build_run(result), display=camera.recording)

        def build_run(result: experiment.Result) -> FinishedRun:
            """Return the finished run, with a film that has the last round and the reference."""
            frames = camera.recording.frames
            if not frames or frames[-1].round < result.rounds or frames[-1].metric is None:
                with stop_when(lambda: False):  # small, and there even where the run was stopped
                    camera.add_round(result.rounds, result.model, result.metrics[metric])
            nonprivate_model = None
            if nonprivate_id in result.baselines:
                camera.update_recording(
                    reference=result.baselines[nonprivate_id][metric], best=NO_PRIVACY
                )
                nonprivate_model = models.get(nonprivate_id)
            return FinishedRun(
                result=result,
                nonprivate_model=nonprivate_model,
                recording=camera.recording,
                number=number,
                **run_fields,
            )

        with record_publications() if camera.witnesses else nullcontext([]) as publications:
            result = experiment.run(
                mechanism,
                problem,
                seed,
                on_step,
                stopped,
                on_result=show,
                cached_baselines=baseline_metrics,
            )
        return build_run(result)

    spent_messages = ["no epsilon spent"]

    def work_with_budget_note(report: ProgressReporter, stopped: Callable[[], bool]) -> FinishedRun:
        """Do the work; if it is stopped, add to the message what it has spent."""
        try:
            return work(report, stopped)
        except DpmcError as error:
            raise DpmcError(f"{error}; {spent_messages[-1]}") if stopped() else error from None

    return work_with_budget_note


def make_example_film(mechanism: Mechanism, dataset: LoadedDataset) -> RunRecording:
    """Record a fast run on the busiest users and most rated items of a sample.

    Args:
        mechanism: the mechanism.
        dataset: the sample.

    Raises:
        DpmcError: the run is not possible.
    """
    ratings, size = dataset.ratings, _EXAMPLE_SIZE
    small = noise.select_block(ratings, size, size, find_example_user(dataset))
    rng = create_generator(0, f"example of {ratings.fingerprint}")
    pair = choose_default_split(mechanism.task)(small, rng)
    partial_runs: list[FinishedRun] = []

    def report(*_: Any, result: FinishedRun | None = None, **__: Any) -> None:
        """Keep every result that the work reports."""
        partial_runs.extend([] if result is None else [result])

    def has_nonprivate_model() -> bool:
        # The run ends here: the nonprivate counterpart is not in the picture.
        return bool(partial_runs and partial_runs[-1].nonprivate_model)

    name = f"example {mechanism!r} on {ratings.fingerprint}"
    run_fields = {
        "data": dataset.name,
        "find_example": lambda: small.public.users - 1,
        "title": "",
        "split": choose_default_split(mechanism.task),
        "fresh": False,
    }
    work = make_training_work(
        mechanism,
        lambda: build_problem(pair, mechanism.task, name=dataset.name),
        0,
        film=name,
        **run_fields,
    )
    run = work(report, has_nonprivate_model)
    assert run.recording is not None
    return run.recording


def make_reading_work(content: bytes, name: str, options: Mapping[str, Any]) -> Work:
    """Return the work that reads an upload; it results in a data set, or in the file's faults.

    Args:
        content: of the file.
        name: of the file.
        options: how it is read, see `datasets.load_upload`.
    """

    def work(report: ProgressReporter, stopped: Callable[[], bool]) -> LoadedDataset | Refused:
        """Read the upload; return its faults if it is refused."""

        def tell(n_done: int, total: int) -> None:
            """Report how much has been read."""
            label = "sorting the ids" if n_done >= total else f"{100 * n_done // total} % read"
            report(n_done, total, label)

        report(0, 0, "opening the file")
        try:
            with stop_when(stopped):
                return datasets.load_upload(content, name, tell, **options)
        except Refused as error:
            return error

    return work


def make_download_work(name: str) -> Work:
    """Return the work that downloads a public set, checks it and unpacks it."""

    def work(report: ProgressReporter, stopped: Callable[[], bool]) -> None:
        """Download the set."""

        def progress(have: int, total: int | None) -> None:
            """Report how much has arrived, and end the download if the job is stopped."""
            if stopped():
                raise DpmcError("stopped; what arrived is dropped, and a new start begins anew")
            size = "" if total is None else f" of {total / 1e6:.1f}"
            report(have, total or 0, f"{have / 1e6:.1f}{size} MB")

        report(0, 0, "asking the server")
        public_sets.get_public_set(name, progress=progress)

    return work
