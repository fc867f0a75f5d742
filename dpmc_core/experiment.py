"""Single runs: fit a mechanism on a problem with a seed and measure it beside its baselines.

`run` does all of it. `fit`, `measure` and `fit_baselines` are its parts, for callers that show
progress, share a solve, or need no baselines. Inside `stop_when(stop)` each can be stopped.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

import dpmc_core
from dpmc_core import metrics, registry
from dpmc_core.dataset import Dataset
from dpmc_core.display import Summarised, format_metrics
from dpmc_core.errors import DpmcError, InvalidSetting, check_number, unknown_name_error
from dpmc_core.model import AddsNoiseLast, Estimator, Mechanism, Model, Rounds, Step, Task
from dpmc_core.privacy import Guarantee, Publication, record_publications
from dpmc_core.problem import Problem, build_problem, create_generator
from dpmc_core.ratings import Ratings
from dpmc_core.settings import list_settings, serialise_setting
from dpmc_core.stopping import Stopped, allow_grace, check_cancelled

_GRACE_SECONDS = 0.5  # seconds in which the model of a stopped run may be measured

EVALUATION_ONLY = "evaluation only, not private: measured on raw held-out ratings"
# The fields of `Result.as_dict` that no guarantee covers. The duration of a run and its number of
# rounds may also depend on the ratings.
COMPUTED_FROM_RAW = (
    *(f"data.{name}" for name in ("ratings", "fingerprint", "test_ratings")),
    *("metrics", "baselines", "reference_users", "rounds", "stopped", "seconds"),
)

OnStep = Callable[[Mechanism, Step], None]
Solve = Callable[[AddsNoiseLast, Ratings], Rounds]  # as `AddsNoiseLast.solve_without_noise`


@dataclass(frozen=True, eq=False, repr=False)
class FittedModel:
    """A model that a mechanism has fitted, before anything is measured.

    Attributes:
        mechanism: the mechanism with its settings.
        problem: the training and test ratings.
        seed: the seed from which the noise was drawn.
        model: the last publishable model that the mechanism yielded.
        trace: the numbers that each round reported.
        seconds: duration of the fit.
        stopped: whether the caller ended the fit before its last round.
    """

    mechanism: Mechanism
    problem: Problem
    seed: int
    model: Model
    trace: tuple[Mapping[str, float], ...]
    seconds: float
    stopped: bool

    @property
    def rounds(self) -> int:
        """The number of rounds that were run."""
        return len(self.trace)


@dataclass(frozen=True, eq=False, repr=False)
class Result(Summarised, FittedModel):
    """A fitted model with its guarantee and its measures.

    Metrics and baselines are for evaluation only and not private.

    >>> import dpmc_core as dpmc
    >>> result = dpmc.run("private-item-mean", "restaurants", epsilon=1)
    >>> list(result.metrics), result.baseline_id
    (['rmse', 'mae'], 'private-own-mean')

    Attributes:
        guarantee: the mechanism's privacy guarantee, with the preparation steps as caveats.
        metrics: the measures of the model, by name.
        baselines: the measures of the baselines and nonprivate methods, by id and name.
        reference_users: the number of random users that the methods without privacy, apart from
            baselines, were fitted to and measured on; None for all users.
    """

    guarantee: Guarantee
    metrics: Mapping[str, float]
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    reference_users: int | None = None

    @property
    def baseline_id(self) -> str:
        """The id of the baseline to which the mechanism is compared.

        Only methods for ratings have alternatives, of which the RMSE without noise chooses one.
        """
        errors = {id: values["rmse"] for id, values in self.baselines.items() if "rmse" in values}
        return registry.choose_baseline(type(self.mechanism), self.problem.steps, errors)

    def summarise(self) -> dict[str, object]:
        """Return what was run, what it measured beside its baseline, and what is certified."""
        settings, id = serialise_settings(self.mechanism), self.baseline_id
        return {
            "mechanism": self.mechanism.id,
            "settings": registry.find_changed_settings(self.mechanism.id, settings),
            "data": self.problem.name,
            "seed": self.seed,
            "metrics": format_metrics(self.metrics),
            f"baseline {id}": format_metrics(self.baselines.get(id, {})),
            "certified": self.guarantee.certified(),
        }

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for the mechanism and for each other method.

        The columns `data`, `mechanism`, `epsilon` and `seed` name the run, so that frames of
        several runs can be concatenated; the others are `method` and one column per metric.
        """
        import pandas

        run_columns = {
            "data": self.problem.name,
            "mechanism": self.mechanism.id,
            "epsilon": getattr(self.mechanism, "epsilon", None),
            "seed": self.seed,
        }
        measured = {self.mechanism.id: self.metrics, **self.baselines}
        return pandas.DataFrame([{**run_columns, "method": id, **measured[id]} for id in measured])

    def as_dict(self) -> dict[str, Any]:
        """Return the object that `dpmc fit --json` prints: plain JSON, null for non-finite numbers.

        Its field `raw` names the fields computed from raw data, which no guarantee covers.
        """
        train, test = self.problem.train, self.problem.test
        return _to_json(
            {
                "mechanism": self.mechanism.id,
                "revision": self.mechanism.revision,
                "task": self.mechanism.task.value,
                "data": {
                    "name": self.problem.name,
                    "users": train.public.users,
                    "items": train.public.items,
                    "ratings": len(train),
                    "fingerprint": train.fingerprint,
                    "test_ratings": len(test),
                    "split": self.problem.split,
                    "prepare": list(self.problem.steps),
                },
                "settings": serialise_settings(self.mechanism),
                "seed": self.seed,
                "guarantee": self.guarantee.as_dict(),
                "metrics": dict(self.metrics),
                "baselines": {id: dict(values) for id, values in self.baselines.items()},
                "reference_users": self.reference_users,
                "evaluation": EVALUATION_ONLY,
                "raw": list(COMPUTED_FROM_RAW),
                "rounds": self.rounds,
                "stopped": self.stopped,
                "seconds": round(self.seconds, 3),
            }
        )


FRAME_OPTIONS = "user", "item", "rating", "low", "high"  # of Ratings.from_frame


def run(
    mechanism: Mechanism | str,
    data: Any,
    seed: int = 0,
    *,
    reading: Mapping[str, Any] = MappingProxyType({}),
    **settings: Any,
) -> Result:
    """Fit a mechanism, then its baselines, and measure all of them on the test ratings.

    >>> frame = {"user": [*"aabbcc"], "item": [*"xyxyxy"], "rating": [5, 3, 4, 2, 5, 1]}
    >>> result = run("private-constant", frame, epsilon=1, low=1, high=5)
    >>> result.guarantee.certified().change.label
    'per user'

    Args:
        mechanism: a mechanism, or the id of one, which `create` makes with the settings.
        data: a prepared problem, a data set, ratings, an official pair (training, test), the name
            of a data set, the path of a file, or a data frame. All but a problem are split and
            prepared by `build_problem` with the same seed and default steps.
        seed: decides the split, the noise and the sampled ranking candidates.
        reading: of a name or path: options of `load`; of a data frame: those of
            `Ratings.from_frame`.
        settings: the settings of a mechanism that is given by its id, and of a data frame also the
            options of `Ratings.from_frame`, such as the ends `low` and `high` of the public range.

    Raises:
        BadRatings: if the data cannot be read, or nothing can be measured on the test ratings;
            raised before any fit.
        InvalidSetting: if the mechanism or a setting is unknown or invalid.
    """
    is_frame = not isinstance(data, str | os.PathLike | Problem | Dataset | Ratings | tuple)
    if not isinstance(reading, Mapping):
        raise InvalidSetting("reading", "a mapping such as {'low': 1, 'high': 5}", reading)
    if is_frame:
        reading = {**reading, **{n: settings.pop(n) for n in FRAME_OPTIONS if n in settings}}
        for name in reading.keys() - FRAME_OPTIONS:
            raise unknown_name_error("reading of a data frame", name, FRAME_OPTIONS)
    if isinstance(mechanism, str):
        mechanism = registry.create(mechanism, **settings)
    elif settings or not isinstance(mechanism, Mechanism):
        raise InvalidSetting("mechanism", "an id, or a mechanism with its settings", mechanism)
    if isinstance(data, str | os.PathLike):
        data = dpmc_core.load(str(data), **reading)
    elif is_frame:
        data = Dataset(Ratings.from_frame(data, **reading), "data frame")
    elif reading:
        raise InvalidSetting("reading", "left out for data that was read before", [*reading])
    if not isinstance(data, Problem):
        data = build_problem(data, mechanism.task, seed=seed)
    *_, result = fit_baselines(measure(fit(mechanism, data, seed)))
    return result


def fit(
    mechanism: Mechanism,
    problem: Problem,
    seed: int,
    on_step: OnStep | None = None,
    solve: Solve | None = None,
) -> FittedModel:
    """Fit a mechanism until it ends or the work is stopped.

    Args:
        mechanism: the mechanism to fit.
        problem: the training and test ratings.
        seed: decides the noise.
        on_step: called with the mechanism and every step that it yields.
        solve: returns the noiseless rounds for a mechanism that adds its noise last.

    Raises:
        BadRatings: if nothing could be measured on the test ratings; raised before the fit.
        Stopped: if the work was stopped before there was a publishable model.
        DpmcError: if the mechanism yields no model.
    """
    check_number("seed", seed, at_least=0, integer=True)
    problem.check(mechanism.task)
    start = time.perf_counter()
    rng = create_generator(seed, format_run_key(mechanism, problem))
    if solve is not None and isinstance(mechanism, AddsNoiseLast):
        steps = mechanism.fit(problem.train, rng, solve(mechanism, problem.train))
    else:
        steps = mechanism.fit(problem.train, rng)
    last: Step | None = None
    trace: list[Mapping[str, float]] = []
    complete = stopped = False
    try:
        for step in steps:
            last = step if step.build is not None else last  # before the noise is in, none
            complete = step.final or step.index == step.total
            trace.append(step.trace)
            if on_step is not None:
                on_step(mechanism, step)
            check_cancelled()
    except Stopped:
        stopped = not complete  # a stop after the last round cuts nothing short
    if last is None:
        if stopped:
            raise Stopped("stopped before adding noise: no model to publish")
        raise DpmcError(f"{mechanism.id} yielded none: no model to publish")
    with allow_grace(_GRACE_SECONDS):  # of all rounds' models only this one may have to be built
        model = last.model
    assert model is not None  # for the type checker: `build` is there
    seconds = time.perf_counter() - start
    return FittedModel(mechanism, problem, seed, model, tuple(trace), seconds, stopped)


def measure(fitted: FittedModel) -> Result:
    """Measure a fitted model on the test ratings and state its guarantee.

    The model of a stopped fit is measured too, if that takes at most half a second.

    Raises:
        Stopped: if the work was stopped before the model was measured.
    """
    mechanism, train = fitted.mechanism, fitted.problem.train
    with allow_grace(_GRACE_SECONDS):
        measures = measure_model(mechanism, fitted.model, fitted.problem, fitted.seed)
    guarantee = mechanism.guarantee(train.public).with_preparation(train.prepared)
    return Result(**vars(fitted), guarantee=guarantee, metrics=measures)


def fit_baselines(
    result: Result, on_step: OnStep | None = None, max_reference_ratings: float = math.inf
) -> Iterator[Result]:
    """Yield a result, then the result again after each baseline that is fitted and added to it.

    Baselines that the result has already are not fitted again. If the work is stopped, what was
    yielded stays valid and nothing follows.

    Args:
        result: the result of the mechanism.
        on_step: called with every step and the method that yielded it.
        max_reference_ratings: with more training ratings than this, methods without privacy get as
            many, of random users; baselines, which cost little, always get all.
    """
    yield result
    problem, seed = result.problem, result.seed
    reference_problem = problem
    if len(problem.train) > max_reference_ratings:
        rng = create_generator(seed, f"references on {problem.train.fingerprint}")
        reference_problem = problem.sample_users(max_reference_ratings, rng)
        result = replace(result, reference_users=reference_problem.train.public.users)
    baseline_ids = registry.list_baselines(type(result.mechanism), problem.steps)
    with suppress(Stopped):
        for method in build_baselines(result.mechanism, problem.steps):
            if method.id in result.baselines:
                continue
            check_cancelled()
            compared = problem if method.id in baseline_ids else reference_problem
            fitted = fit(method, compared, seed, on_step)
            if fitted.stopped:
                return
            measures = measure_model(method, fitted.model, compared, seed)
            result = replace(result, baselines={**result.baselines, method.id: measures})
            yield result


def collect_publications(
    mechanism: Mechanism, ratings: Ratings, queries: Collection[str]
) -> list[Publication]:
    """Collect what a mechanism publishes until each of some queries has been answered once.

    The private values before the noise are included, so the result is for inspection only. The fit
    ends as soon as all queries have been answered.

    Args:
        mechanism: the mechanism to fit, with seed 0.
        ratings: the training ratings.
        queries: the names of the queries.
    """
    with record_publications(until_queries=queries) as collected:
        for _ in mechanism.fit(ratings, np.random.default_rng(0)):
            check_cancelled()
    return collected


def measure_model(
    mechanism: Mechanism, model: Model, problem: Problem, seed: int
) -> dict[str, float]:
    """Compute the task's metrics on the test ratings.

    If the true matrix is known, the average relative error over all its cells (`are`) is added. A
    ranking has none: its scores order items and do not estimate the entries of the matrix. The
    sampled ranking candidates depend on the test ratings and the seed, not on the mechanism.

    Args:
        mechanism: the mechanism, whose task decides the metrics.
        model: the model to measure.
        problem: the training and test ratings.
        seed: decides the sampled ranking candidates.

    Returns:
        The value of each metric, by name.
    """
    rng = create_generator(seed, f"evaluate on {problem.test.fingerprint}")
    measures = problem.evaluate(mechanism.task, model, rng)
    if problem.truth is not None and mechanism.task is not Task.RANKING:
        measures["are"] = metrics.model_are(model, problem.truth)
    return measures


def build_baselines(mechanism: Mechanism, steps: Iterable[str] = ()) -> list[Mechanism]:
    """Build the baselines, the nonprivate reference and the nonprivate counterpart of a mechanism.

    The mechanism itself is left out. The counterpart is omitted if the mechanism uses the
    noise-aware estimator, which is not the paper's. A setting carries over if both classes declare
    it with the same default (link, radius), so that like is compared with like; if the defaults
    differ, it plays a different role (output perturbation's bound sets its noise, gradient
    perturbation's rounds share its budget).

    Args:
        mechanism: the mechanism to compare.
        steps: the preparation steps as texts.
    """
    defaults = {s.name: s.default for s in list_settings(type(mechanism))}
    baselines = []
    ids = [
        *registry.list_baselines(type(mechanism), [*steps]),
        registry.NONPRIVATE_REFERENCES[mechanism.task],
    ]
    if getattr(mechanism, "estimator", None) is not Estimator.NOISE_AWARE:
        ids.append(mechanism.nonprivate_counterpart)
    for id in dict.fromkeys(ids):
        if id != mechanism.id:
            shared = {
                s.name: getattr(mechanism, s.name)
                for s in list_settings(registry.get_mechanism(id))
                if s.name in defaults and s.default == defaults[s.name]
            }
            baselines.append(registry.create(id, **shared))
    return baselines


def serialise_settings(mechanism: Mechanism) -> dict[str, Any]:
    """Return the mechanism's settings by name as plain JSON; equal settings give equal values."""
    values = {s.name: (s.type, getattr(mechanism, s.name)) for s in list_settings(type(mechanism))}
    return {
        name: serialise_setting(float(value) if kind is float and value is not None else value)
        for name, (kind, value) in values.items()
    }


def format_run_key(mechanism: Mechanism, problem: Problem) -> str:
    """Format the key of a run without its seed: mechanism, revision, settings, training data."""
    settings = json.dumps(serialise_settings(mechanism), sort_keys=True)
    return f"{mechanism.id} {mechanism.revision} {settings} on {problem.train.fingerprint}"


def _to_json(value: Any) -> Any:
    """Return a value with lists for tuples, text keys, and None for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(key): _to_json(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(element) for element in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
