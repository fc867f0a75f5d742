"""A finished run for people: numbers, Markdown, factors, the command that repeats it."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpmc_core import registry
from dpmc_core.errors import number_text
from dpmc_core.experiment import Result, settings_dict
from dpmc_core.metrics import METRICS, Metric, headline
from dpmc_core.model import Mechanism, Model
from dpmc_core.problem import Split, options_text, split_words
from dpmc_core.settings import settings_of, show_setting
from dpmc_lab.curves import cards, numbers
from dpmc_lab.curves.lines import WITHOUT, Picture, guess_name
from dpmc_lab.curves.text import Table
from dpmc_lab.curves.training import Film, TopItem, top_items

SEED_NOTE = (
    "A fixed seed is for demonstration: whoever knows it can compute the noise and subtract it."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """A finished training run, and what it takes to repeat it.

    data, reading: what `datasets.load` is given, name and options; title: of the data. fresh: the
    seed came from the operating system and is not told. clear: the model of the reference
    without privacy, where it was trained. film: the run round by round; number: in its session.
    """

    result: Result
    data: str
    title: str
    split: Split
    fresh: bool
    reading: Mapping[str, Any] = field(default_factory=dict)
    clear: Model | None = None
    film: Film | None = None
    number: int = 0


def methods(result: Result) -> dict[str, Mapping[str, float]]:
    """Metrics of the mechanism, then of what it is compared with, by name."""
    cls = type(result.mechanism)
    roles = {
        cls.twin: registry.get(cls.twin).name,
        registry.REFERENCES[cls.task]: WITHOUT.capitalize(),
        result.guess: guess_name(result.guess).capitalize(),
    }
    hidden = {*registry.baselines_of(cls, result.problem.steps)} - {*roles}
    comparisons = {
        roles.get(id, id): metrics for id, metrics in result.baselines.items() if id not in hidden
    }
    return {result.mechanism.name: result.metrics} | comparisons


def metric_of(result: Result) -> Metric:
    """What stands for a run where there is room for one number."""
    return headline(result.mechanism.task).on(result.problem.train.public)


def finding(result: Result) -> str:
    """What a run found, as a title. One split and one draw of noise tell no share of the gain."""
    metric, guess = metric_of(result), guess_name(result.guess)
    names, metrics_by_method = (guess, WITHOUT), methods(result)
    baseline, reference = (
        metrics_by_method.get(name.capitalize(), {}).get(metric.name) for name in names
    )
    value, told = result.metrics[metric.name], []
    if baseline is not None and reference is not None and metric.reached(baseline, reference):
        told.append("nothing can be learnt here")
    elif baseline is not None and (
        metric.reached(baseline, value) or not metric.distance(value - baseline)
    ):
        told.append(f"no better than {guess}")
    elif reference is not None and metric.reached(value, reference):
        told.append("as good as without privacy")
    ends = zip(names, (baseline, reference), strict=True)
    told += [f"{name} {metric.text(level)}" for name, level in ends if level is not None]
    return f"{metric.title} {metric.full(value)}: {', '.join(told)}, in this run"


def beside(run: Run, charts: Sequence[Picture] | None) -> str:
    """Where the curve of the run's method, settings and preparation stands at its epsilon; "" where
    none is among what came."""
    result = run.result
    settings = settings_dict(result.mechanism)
    epsilon = settings.pop("epsilon")
    run_key = (run.title, result.problem.steps, result.problem.split, settings)
    for chart in (charts or ())[:1]:
        for line in chart.lines:
            info = line.info
            if (info.title, info.prepare, info.split, info.settings) == run_key:
                return numbers.at_words(chart._replace(lines=(line,)), epsilon)
    return ""


@dataclass(frozen=True, eq=False, kw_only=True)
class KeptRun:
    """What is remembered of a run: small, and without any rating but the corner in its film.

    about: the data it is forgotten with. facts: what decided it, by name, as text; usual: those
    that are a setting's default. clear: the list of the film's person without privacy.
    """

    number: int
    about: str
    title: str
    mechanism: str
    metric: Metric
    metrics: Mapping[str, float]
    film: Film
    clear: tuple[TopItem, ...] | None
    facts: Mapping[str, str]
    usual: frozenset[str]
    stopped: bool

    @property
    def value(self) -> float:
        return self.metrics[self.metric.name]

    @property
    def top(self) -> tuple[TopItem, ...]:
        """The list of the film's person, with privacy."""
        return self.film.frames[-1].top


def keep(run: Run, data_key: str) -> KeptRun:
    """What is remembered of a run; data_key: see `KeptRun`."""
    result, recording = run.result, run.film
    assert recording is not None  # it was watched
    mechanism, problem = result.mechanism, result.problem
    details = {
        "data": run.title,
        "mechanism": mechanism.name,
        **_settings(mechanism),
        "preparation": ", ".join(problem.steps) or "none",
        "held out": split_words(problem.split),
        "seed": "not kept" if run.fresh else str(result.seed),
    }
    if result.stopped:
        details["stopped"] = f"after round {result.rounds}"
    defaults = {
        s.name
        for s in settings_of(type(mechanism))
        if s.name != "epsilon" and getattr(mechanism, s.name) == s.default
    }
    person = recording.corner.person
    reference_metrics = result.baselines.get(registry.REFERENCES[mechanism.task], {})
    return KeptRun(
        number=run.number,
        about=data_key,
        title=run.title,
        mechanism=mechanism.id,
        metric=recording.metric,
        metrics=result.metrics,
        film=replace(
            recording, reference=reference_metrics.get(recording.metric.name)
        ),  # none that others reached
        clear=top_items(run.clear, problem.train, person) if run.clear else None,
        facts=details,
        usual=frozenset(defaults),
        stopped=result.stopped,
    )


def _settings(mechanism: Mechanism) -> dict[str, str]:
    """Its settings for people."""
    return {
        name: (cards.delta_text if name == "delta" else number_text)(value)
        if isinstance(value, float)
        else str(value)
        for name, value in settings_dict(mechanism).items()
    }


def differing(first: KeptRun, second: KeptRun) -> Table:
    """What decided two runs, where it differs, as columns; own settings left alone do not count."""
    names = [
        name
        for name in {**first.facts, **second.facts}
        if first.facts.get(name) != second.facts.get(name)
        and not any(
            name not in b.facts and name in a.usual for a, b in ((first, second), (second, first))
        )
    ]
    return {"what differs": names} | {
        f"run {run.number}": [run.facts.get(name, "") for name in names] for run in (first, second)
    }


def rounds_table(first: KeptRun, second: KeptRun) -> Table:
    """The metric of two runs by round, as columns."""
    values_by_run = {
        f"run {run.number}": {
            frame.round: run.metric.text(frame.metric)
            for frame in run.film.frames
            if frame.metric is not None
        }
        for run in (first, second)
    }
    rounds = sorted({frame.round for run in (first, second) for frame in run.film.frames})
    return {"round": rounds} | {
        name: [values.get(round_number, "") for round_number in rounds]
        for name, values in values_by_run.items()
    }


def compared(one: KeptRun, second: KeptRun) -> str:
    """Which of two runs is better, as a title."""
    names = " and ".join(f"run {run.number}" for run in (one, second))
    same_inputs = [
        one.facts[name] == second.facts[name] for name in ("data", "preparation", "held out")
    ]
    if one.metric != second.metric or not all(same_inputs):
        return f"{names.capitalize()} were tested on different ratings"
    gap = one.metric.distance(one.value - second.value)
    if not gap:
        values = " and ".join(dict.fromkeys(one.metric.full(run.value) for run in (one, second)))
        return f"{names.capitalize()} are about equally good: {one.metric.spoken} {values}"
    better, worse = (one, second)
    if one.metric.sign * (one.value - second.value) < 0:
        better, worse = worse, better
    return (
        f"Run {better.number} is better by {gap}: {one.metric.spoken}"
        f" {one.metric.text(better.value)} against {one.metric.text(worse.value)}"
    )


def metrics_table(metrics_by_method: Mapping[str, Mapping[str, float]]) -> Table:
    """Metrics by method as columns of text; those of the first."""
    return {"method": list(metrics_by_method)} | {
        name: [METRICS[name].text(values[name]) for values in metrics_by_method.values()]
        for name in next(iter(metrics_by_method.values()))
    }


def as_json(run: Run) -> str:
    """The `dpmc fit --json` object; without the seed where it came from the operating system."""
    hidden = {"seed": None} if run.fresh else {}
    return json.dumps(run.result.as_dict() | hidden, indent=2) + "\n"


def command(run: Run) -> str:
    """The `dpmc fit` command that repeats the run."""
    result = run.result
    opened = f"./{run.data}" if run.data.startswith("-") else run.data  # else an option
    arguments = ["dpmc", "fit", opened, result.mechanism.id]
    for s in settings_of(type(result.mechanism)):
        value = getattr(result.mechanism, s.name)
        if s.name in ("epsilon", "delta"):
            arguments += [f"--{s.name}", number_text(value)]
        elif value != s.default:
            arguments += ["--set", f"{s.name}={'none' if value is None else show_setting(value)}"]
    arguments += options_text(_reading(run), result.problem.steps, run.split)
    if not run.fresh:
        arguments += ["--seed", str(result.seed)]
    return shlex.join([*arguments, "--json"])


def factors(result: Result) -> bytes | None:
    """The model's factors as an .npz file without pickles; None where it has none."""
    model_factors = result.model.factors
    if model_factors is None:
        return None
    stream = io.BytesIO()
    np.savez_compressed(
        stream, allow_pickle=False, left=model_factors.left, right=model_factors.right
    )
    return stream.getvalue()


def _reading(run: Run) -> dict[str, Any]:
    """The options that decide what is read, as plain values: no limits of size, nothing empty."""
    return {
        name: show_setting(value)
        for name, value in run.reading.items()
        if value is not None and not name.startswith("max_")
    }
