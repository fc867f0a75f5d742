"""Define the work of background jobs, without Streamlit: train, read a file, download a set."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dpmc_core import experiment, registry
from dpmc_core.errors import DpmcError
from dpmc_core.metrics import choose_headline_metric
from dpmc_core.model import Mechanism, Model, Step
from dpmc_core.privacy import Publication, record_publications
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


@dataclass
class Training:
    """The work of one training job: fit a baseline, the mechanism, then the nonprivate methods.

    It is called once, by the job. Every round is reported and recorded. The baseline comes first,
    since it is cheap and the picture of the run starts from it.

    Attributes:
        mechanism: the mechanism.
        make_problem: prepares the data.
        seed: of the run.
        run_fields: further fields of `FinishedRun`.
        recording_id: id of its recording.
        reference: the headline metric without privacy and its name, if they are known beforehand;
            they decide the axis of the recording.
        find_example: finds the user whose list is displayed.
    """

    mechanism: Mechanism
    make_problem: Callable[[], Problem]
    seed: int
    run_fields: Mapping[str, Any]
    recording_id: str = ""
    reference: Sequence[Any] = ()
    find_example: Callable[[], int] | None = None

    _report: ProgressReporter = field(init=False)
    _is_stopped: Callable[[], bool] = field(init=False)
    _problem: Problem = field(init=False)
    _recorder: RunRecorder = field(init=False)
    _baselines: dict[str, Mechanism] = field(init=False)
    # The last step with a model of each method: models of other rounds need not be built.
    _latest_steps: dict[str, Step] = field(init=False, default_factory=dict)
    _publications: list[Publication] = field(init=False)  # of the current round
    _start: float = field(init=False)
    _evaluation_seconds: float = field(init=False, default=0.0)
    _spent: str = field(init=False)

    @property
    def metric_name(self) -> str:
        """Return the name of the headline metric."""
        return choose_headline_metric(self.mechanism.task).name

    def __call__(self, report: ProgressReporter, stopped: Callable[[], bool]) -> FinishedRun:
        """Do the work; if it is stopped without a model, the message says what it has spent."""
        self._report, self._is_stopped = report, stopped
        self._spent = "no epsilon spent"
        try:
            with stop_when(stopped):
                return self._run()
        except DpmcError as error:
            raise DpmcError(f"{error}; {self._spent}") if stopped() else error from None

    def _run(self) -> FinishedRun:
        """Fit and measure all methods, and return the finished run."""
        self._report(0, 0, "preparing the data")
        self._problem = self.make_problem()
        baseline_metrics = self._measure_baselines()
        self._recorder = self._build_recorder(baseline_metrics)
        self._start = time.monotonic()
        self._report(0, 0, f"{self.mechanism.name}: starting", display=self._recorder.recording)
        witnesses = self._recorder.witnesses
        with record_publications() if witnesses else nullcontext([]) as self._publications:
            fitted = experiment.fit(self.mechanism, self._problem, self.seed, self._handle_step)
            measured = replace(experiment.measure(fitted), baselines=baseline_metrics)
            for result in experiment.fit_baselines(measured, self._handle_step):
                self._report_result(result)
        return self._build_run(result)

    def _measure_baselines(self) -> dict[str, Mapping[str, float]]:
        """Fit the cheap baselines, and return their metrics by id."""
        steps = self._problem.steps
        methods = experiment.build_baselines(self.mechanism, steps)
        self._baselines = {method.id: method for method in methods}
        metrics = {}
        for id in registry.list_baselines(type(self.mechanism), steps):
            if baseline := self._baselines.get(id):
                self._report(0, 0, f"{baseline.name}, for comparison: starting")
                fitted = experiment.fit(baseline, self._problem, self.seed)
                metrics[id] = experiment.measure(fitted).metrics
        return metrics

    def _build_recorder(self, baseline_metrics: Mapping[str, Mapping[str, float]]) -> RunRecorder:
        """Build the recorder, with the baseline to which the mechanism is compared."""
        errors = {id: metrics[self.metric_name] for id, metrics in baseline_metrics.items()}
        steps = self._problem.steps
        baseline_id = registry.choose_baseline(type(self.mechanism), steps, errors)
        return RunRecorder(
            self.mechanism,
            self._problem,
            self.recording_id,
            errors.get(baseline_id),
            *self.reference,
            baseline_id=baseline_id,
            example=self.find_example() if self.find_example else None,
        )

    def _handle_step(self, method: Mechanism, step: Step) -> None:
        """Keep the step of a round, and record and report the round."""
        if step.build is not None:
            self._latest_steps[method.id] = step
        released, self._publications[:] = tuple(self._publications), []
        label = f"round {step.index} of at most {step.total}"
        if method.id != self.mechanism.id:
            self._report(step.index, step.total, f"{method.name}, for comparison: {label}")
            return
        if step.index == 1:
            self._recorder.update_recording(total=step.total)
            self._spent = self._describe_spending()
        self._recorder.add_publications(released)
        if self._recorder.needs_round(step) and step.model is not None:
            metric = self._evaluate_round(step, step.model)
            self._recorder.add_round(step.index, step.model, metric)
        self._report(
            step.index,
            step.total,
            f"{method.name}: {label}",
            Round(step.index, step.trace.get("objective"), "objective" in step.raw),
            display=self._recorder.recording,
            halt=not (step.final or step.index == step.total),
        )

    def _describe_spending(self) -> str:
        """Say what a run has spent that is stopped after its first round."""
        train = self._problem.train
        guarantee = self.mechanism.guarantee(train.public).with_preparation(train.prepared)
        certified = guarantee.certified()
        budget = cards.format_budget(certified.epsilon, certified.delta)
        return f"what it had begun counts as spent, epsilon {budget} {guarantee.change.label}"

    def _evaluate_round(self, step: Step, model: Model) -> float | None:
        """Return the metric in this round, or None if measuring has taken too long already."""
        start = time.monotonic()
        max_seconds = _EVALUATION_SECONDS + _EVALUATION_SHARE * (start - self._start)
        is_last = step.final or step.index == step.total
        if self._is_stopped() or not (is_last or self._evaluation_seconds < max_seconds):
            return None
        metrics = experiment.measure_model(self.mechanism, model, self._problem, self.seed)
        self._evaluation_seconds += time.monotonic() - start
        return metrics[self.metric_name]

    def _report_result(self, result: experiment.Result) -> None:
        """Report the run so far, and the method that is fitted next."""
        following = [method for id, method in self._baselines.items() if id not in result.baselines]
        label = f"{following[0].name}, for comparison: starting" if following else ""
        run = self._build_run(result)
        self._report(0, 0, label, result=run, display=run.recording)

    def _build_run(self, result: experiment.Result) -> FinishedRun:
        """Return the run so far; its recording has the last round, and the reference if fitted."""
        frames = self._recorder.recording.frames
        if not frames or frames[-1].round < result.rounds or frames[-1].metric is None:
            with stop_when(lambda: False):  # small, and there even where the run was stopped
                metric = result.metrics[self.metric_name]
                self._recorder.add_round(result.rounds, result.model, metric)
        nonprivate_id = registry.NONPRIVATE_REFERENCES[self.mechanism.task]
        nonprivate_model = None
        if nonprivate_id in result.baselines:
            reference = result.baselines[nonprivate_id][self.metric_name]
            self._recorder.update_recording(reference=reference, best=NO_PRIVACY)
            nonprivate_model = self._latest_steps[nonprivate_id].model
        return FinishedRun(
            result=result,
            nonprivate_model=nonprivate_model,
            recording=self._recorder.recording,
            **self.run_fields,
        )


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
        "title": "",
        "split": choose_default_split(mechanism.task),
        "fresh": False,
    }
    train = Training(
        mechanism,
        lambda: build_problem(pair, mechanism.task, name=dataset.name),
        0,
        run_fields,
        recording_id=name,
        find_example=lambda: small.public.users - 1,
    )
    run = train(report, has_nonprivate_model)
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
