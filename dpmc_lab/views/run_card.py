"""Present a finished run: its numbers, Markdown, factors, and the command that repeats it."""

import io
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpmc_core import registry
from dpmc_core.errors import format_number
from dpmc_core.experiment import Result, serialise_settings
from dpmc_core.metrics import METRICS, Metric, choose_headline_metric
from dpmc_core.model import Model
from dpmc_core.problem import Split
from dpmc_core.settings import list_settings, serialise_setting
from dpmc_lab.sweep.grid import format_command_options
from dpmc_lab.views import cards, numbers
from dpmc_lab.views.lines import NO_PRIVACY, CurveChart, format_baseline_name
from dpmc_lab.views.text import Table, format_split
from dpmc_lab.views.train import RunRecording, TopItem, list_top_items

SEED_NOTE = (
    "A fixed seed is for demonstration: anybody who knows it can compute the noise and subtract it."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class FinishedRun:
    """A finished training run with what is needed to repeat it.

    Attributes:
        result: the run.
        data: name of the data set, as `datasets.load` takes it.
        title: of the data.
        split: how ratings were held out.
        fresh: whether the seed came from the operating system; such a seed is never shown.
        reading: options of `datasets.load`.
        nonprivate_model: model of the nonprivate reference, where it was trained.
        recording: the run round by round.
        number: of the run in its session.
    """

    result: Result
    data: str
    title: str
    split: Split
    fresh: bool
    reading: Mapping[str, Any] = field(default_factory=dict)
    nonprivate_model: Model | None = None
    recording: RunRecording | None = None
    number: int = 0


def collect_metrics(result: Result) -> dict[str, Mapping[str, float]]:
    """Return the metrics of the mechanism, then those of what it is compared with, by name."""
    cls = type(result.mechanism)
    roles = {
        cls.nonprivate_counterpart: registry.get_mechanism(cls.nonprivate_counterpart).name,
        registry.NONPRIVATE_REFERENCES[cls.task]: NO_PRIVACY.capitalize(),
        result.baseline_id: format_baseline_name(result.baseline_id).capitalize(),
    }
    baseline_ids = registry.list_baselines(cls, result.problem.steps)
    # Of several baselines, those that the data did not choose are left out.
    hidden = {*baseline_ids} - {*roles}
    n_users = result.reference_users
    sample = f" (on {n_users:,} of {result.problem.train.public.users:,} users)" if n_users else ""
    comparisons = {
        roles.get(id, id) + sample * (id not in baseline_ids): metrics
        for id, metrics in result.baselines.items()
        if id not in hidden
    }
    return {result.mechanism.name: result.metrics} | comparisons


def find_run_metric(result: Result) -> Metric:
    """Return the headline metric of a run's task, in units of the data."""
    return choose_headline_metric(result.mechanism.task).in_units_of(result.problem.train.public)


def describe_on_curve(run: FinishedRun, charts: Sequence[CurveChart] | None) -> str:
    """Describe the curve of a run's method at the run's epsilon, over many seeds.

    The curve has the same data, preparation, split and settings as the run. The text is empty if
    the first chart has no such curve. It leaves out baselines and references, whose seeds and
    splits are not those of the run.
    """
    result = run.result
    settings = serialise_settings(result.mechanism)
    epsilon = settings.pop("epsilon")
    run_key = (run.title, result.problem.steps, result.problem.split, settings)
    for chart in (charts or ())[:1]:
        for line in chart.lines:
            info = line.info
            if (info.title, info.prepare, info.split, info.settings) == run_key:
                alone = chart._replace(lines=(line,))
                return numbers.describe_at_epsilon(alone, epsilon, with_endpoints=False)
    return ""


@dataclass(frozen=True, eq=False, kw_only=True)
class RememberedRun:
    """A small summary of a run, without any rating but those in the corner of its recording.

    Attributes:
        number: of the run in its session.
        data_key: key of the data; the run is forgotten together with them.
        title: of the data.
        mechanism: id of the mechanism.
        metric: the headline metric.
        metrics: values by name of the metric.
        recording: the run round by round.
        nonprivate_list: list of the recording's person without privacy.
        details: what decided the run, as text by name.
        default_details: names of details that have the default of a setting.
        stopped: whether the run was stopped early.
    """

    number: int
    data_key: str
    title: str
    mechanism: str
    metric: Metric
    metrics: Mapping[str, float]
    recording: RunRecording
    nonprivate_list: tuple[TopItem, ...] | None
    details: Mapping[str, str]
    default_details: frozenset[str]
    stopped: bool

    @property
    def value(self) -> float:
        """Return the headline metric."""
        return self.metrics[self.metric.name]

    @property
    def top(self) -> tuple[TopItem, ...]:
        """Return the private model's recommendation list for the person of the recording."""
        return self.recording.frames[-1].top


def remember_run(run: FinishedRun, data_key: str) -> RememberedRun:
    """Return the summary of a run that has a recording; see `RememberedRun` for `data_key`."""
    result = run.result
    recording = run.recording
    assert recording is not None
    mechanism = result.mechanism
    problem = result.problem
    settings = {
        name: (cards.format_delta if name == "delta" else format_number)(value)
        if isinstance(value, float)
        else str(value)
        for name, value in serialise_settings(mechanism).items()
    }
    details = {
        "data": run.title,
        "mechanism": mechanism.name,
        **settings,
        "preparation": ", ".join(problem.steps) or "none",
        "held out": format_split(problem.split),
        "seed": "not kept" if run.fresh else str(result.seed),
    }
    if result.stopped:
        details["stopped"] = f"after round {result.rounds}"
    defaults = {
        s.name
        for s in list_settings(type(mechanism))
        if s.name != "epsilon" and getattr(mechanism, s.name) == s.default
    }
    person = recording.corner.person
    reference_metrics = result.baselines.get(registry.NONPRIVATE_REFERENCES[mechanism.task], {})
    return RememberedRun(
        number=run.number,
        data_key=data_key,
        title=run.title,
        mechanism=mechanism.id,
        metric=recording.metric,
        metrics=result.metrics,
        # The reference of this run, since the recording may have that of an earlier one.
        recording=replace(recording, reference=reference_metrics.get(recording.metric.name)),
        nonprivate_list=list_top_items(run.nonprivate_model, problem.train, person)
        if run.nonprivate_model
        else None,
        details=details,
        default_details=frozenset(defaults),
        stopped=result.stopped,
    )


def describe_remembered(run: RememberedRun) -> str:
    """Return what a run reached, as a sentence without its end."""
    forms = {"accuracy": "predicts {} of held-out ratings right", "rmse": "is off by {} on average"}
    form = forms.get(run.metric.name, "finds {} of next items among ten suggestions")
    subject = format_run_epsilon(run).removeprefix(" · ").capitalize() or "This run"
    return f"{subject} {form.format(run.metric.format_with_unit(run.value))}"


def describe_earlier(run: RememberedRun) -> str:
    """Return what an earlier run reached, as the end of a sentence."""
    epsilon = format_run_epsilon(run).replace(" ·", " at")
    return f"the earlier run{epsilon} had {run.metric.format_value(run.value)}"


def format_run_epsilon(run: RememberedRun) -> str:
    """Return ' · epsilon 1', or nothing for a run without epsilon."""
    epsilon = run.details.get("epsilon")
    return "" if epsilon is None else f" · epsilon {epsilon}"


def tabulate_differences(first: RememberedRun, second: RememberedRun) -> Table:
    """Return the details in which two runs differ, such as settings and data, as columns.

    A setting that only one of the mechanisms has is left out if it has its default.
    """
    pairs = ((first, second), (second, first))
    names = [
        name
        for name in {**first.details, **second.details}
        if first.details.get(name) != second.details.get(name)
        and not any(
            name in run.default_details and name not in other_run.details
            for run, other_run in pairs
        )
    ]
    return {"what differs": names} | {
        f"run {run.number}": [run.details.get(name, "") for name in names]
        for run in (first, second)
    }


def compare_runs(first: RememberedRun, second: RememberedRun) -> str:
    """Return which of two runs is better, as a title."""
    names = " and ".join(f"run {run.number}" for run in (first, second))
    same_inputs = [
        first.details[name] == second.details[name] for name in ("data", "preparation", "held out")
    ]
    if first.metric != second.metric or not all(same_inputs):
        return f"{names.capitalize()} were tested on different ratings"
    gap = first.metric.format_difference(first.value - second.value)
    if not gap:
        values = " and ".join(
            dict.fromkeys(first.metric.format_with_unit(run.value) for run in (first, second))
        )
        return f"{names.capitalize()} are equally good: {first.metric.label} {values}"
    better, worse = (first, second)
    if first.metric.sign * (first.value - second.value) < 0:
        better, worse = worse, better
    return (
        f"Run {better.number} is better by {gap}: {first.metric.label}"
        f" {first.metric.format_value(better.value)} against"
        f" {first.metric.format_value(worse.value)}"
    )


def tabulate_metrics(metrics_by_method: Mapping[str, Mapping[str, float]]) -> Table:
    """Return metrics by method as columns of text; the columns are the first method's metrics."""
    return {"method": list(metrics_by_method)} | {
        name: [METRICS[name].format_value(values[name]) for values in metrics_by_method.values()]
        for name in next(iter(metrics_by_method.values()))
    }


def format_run_json(run: FinishedRun) -> str:
    """Return the `dpmc fit --json` object, without a seed that came from the operating system."""
    hidden = {"seed": None} if run.fresh else {}
    return json.dumps(run.result.as_dict() | hidden, indent=2) + "\n"


def format_fit_command(run: FinishedRun) -> str:
    """Return the `dpmc fit` command that repeats the run."""
    result = run.result
    # A file name that starts with a dash would be read as an option.
    data = f"./{run.data}" if run.data.startswith("-") else run.data
    arguments = ["dpmc", "fit", data, result.mechanism.id]
    for s in list_settings(type(result.mechanism)):
        value = getattr(result.mechanism, s.name)
        if s.name in ("epsilon", "delta"):
            arguments += [f"--{s.name}", format_number(value)]
        elif value != s.default:
            arguments += [
                "--set",
                f"{s.name}={'none' if value is None else serialise_setting(value)}",
            ]
    arguments += format_command_options(run.reading, result.problem.steps, run.split)
    if not run.fresh:
        arguments += ["--seed", str(result.seed)]
    return shlex.join([*arguments, "--json"])


def pack_factors(result: Result) -> bytes | None:
    """Return the model's factors as an .npz file without pickles; None where it has none."""
    model_factors = result.model.factors
    if model_factors is None:
        return None
    stream = io.BytesIO()
    np.savez_compressed(
        stream, allow_pickle=False, left=model_factors.left, right=model_factors.right
    )
    return stream.getvalue()
