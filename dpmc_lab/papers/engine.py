"""Describe a paper's figures and tables as data: what is printed, what is claimed, what makes ours.

Every figure and table of a paper is an `Experiment`, also one that cannot be made here. What a
paper prints and says is in its TOML file; `dpmc_lab.papers` reads it. An experiment is made from
rows of the store or from trials: finished work is kept, and the same call continues from there.
Results hold metrics alone, a small file each. Shipped results are made by
`dpmc papers ID --run --write sample_data/papers`; a user's own results are below DPMC_HOME.
"""

from __future__ import annotations

import ast
import inspect
import json
import math
import os
import re
import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import experiment as core
from dpmc_core import registry
from dpmc_core.arrays import Floats
from dpmc_core.errors import (
    BadRatings,
    DpmcError,
    InvalidSetting,
    check_number,
    format_number,
    parse_number,
    unknown_name_error,
)
from dpmc_core.model import Mechanism, Model
from dpmc_core.privacy import Change
from dpmc_core.problem import Problem
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import format_setting, parse_setting
from dpmc_core.stopping import StopCheck, Stopped, stop_when
from dpmc_data import datasets, facts, paths, public_sets
from dpmc_data.archives import parse_json
from dpmc_lab import locks, store, sweep
from dpmc_lab.citation import CitedPaper
from dpmc_lab.store import Store, digest_values
from dpmc_lab.sweep import Grid, Plan, SweepReport, Unit, format_seeds
from dpmc_lab.sweep.engine import share_solve
from dpmc_lab.views.lines import compute_interval

FOLDER = Path(__file__).resolve().parents[2] / "sample_data" / "papers"  # also in a wheel
ROUNDING = 1e-6  # relative: files hold seven digits of a value
SETTING_SEPARATOR = " | "  # between the name of a setting and the label of a curve
CHANGE_MARK = "+"  # in the id of an experiment, before what was changed
_DIGITS = 7
_TOLERANCE = 1 + 1e-9  # where a bound is met exactly


@dataclass(frozen=True)
class Axis:
    """An axis of a figure.

    An axis with `names` has them at 0, 1, ... in place of numbers, and the figure is a table.
    """

    title: str = ""
    log: bool = False
    names: tuple[str, ...] = ()


class Point(NamedTuple):
    """A mean with its 95 % interval, over `seeds` seeds: 0 where nothing is random, 1 without one.

    `draws` has the value of each seed, in the order of the seeds; it is empty where unknown.
    """

    mean: float
    half_width: float = 0.0
    seeds: int = 0
    draws: tuple[float, ...] = ()

    @classmethod
    def from_draws(cls, draws: Sequence[float]) -> Point:
        """Build from the value of each seed, in an order that all curves of a result share."""
        return cls(*compute_interval(draws), tuple(map(float, draws)))


@dataclass(frozen=True, kw_only=True)
class Series:
    """A curve of points (see `Point`), by columns; a `level` is the same at every x."""

    label: str
    mechanism: str | None = None
    x: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    seeds: tuple[int, ...]
    level: bool = False
    draws: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def from_points(
        cls,
        label: str,
        points: Mapping[float, Point],
        mechanism: str | None = None,
        level: bool = False,
    ) -> Series:
        """Build from the point at each x."""
        x = tuple(sorted(points))
        mean, half_width, seeds, draws = zip(*(points[value] for value in x), strict=True)
        low, high = (
            tuple(np.add(mean, np.multiply(sign, half_width)).tolist()) for sign in (-1, 1)
        )
        columns = {"x": x, "mean": mean, "low": low, "high": high, "seeds": seeds}
        draws = draws if all(draws) else ()
        return cls(label=label, mechanism=mechanism, level=level, draws=draws, **columns)

    def get_point(self, x: float) -> Point | None:
        """Return the point at an x (-inf, inf: at an end), None without one: no interpolation."""
        x = min(max(x, self.x[0]), self.x[-1]) if math.isinf(x) else x  # to the nearer end
        for index, value in enumerate(self.x):
            if self.level or abs(value - x) <= 1e-9 * max(abs(x), 1.0):
                half_width = (self.high[index] - self.low[index]) / 2
                draws = self.draws[index] if self.draws else ()
                return Point(self.mean[index], half_width, self.seeds[index], draws)
        return None


def build_series(
    points: Mapping[tuple[str, str | None], Mapping[float | None, Point]],
) -> list[Series]:
    """Build curves by label and mechanism from the point at each x; at None: at every x."""
    # A level is drawn from the first x of all curves to the last one.
    all_x = [x for curve in points.values() for x in curve if x is not None]
    ends = min(all_x, default=0.0), max(all_x, default=1.0)
    return [
        Series.from_points(label, dict.fromkeys(ends, curve[None]), id, level=True)
        if None in curve
        else Series.from_points(
            label, {x: point for x, point in curve.items() if x is not None}, id
        )
        for (label, id), curve in points.items()
    ]


class Stamp(NamedTuple):
    """How a result was made: settings by curve, revisions by mechanism, seconds of computing."""

    version: str
    command: str
    settings: Mapping[str, Any]
    seeds: str
    revisions: Mapping[str, int]
    seconds: float

    @property
    def is_as_published(self) -> bool:
        """Whether all curves have the published estimator and no private item effects."""
        by_curve = [value for value in self.settings.values() if isinstance(value, Mapping)]
        pairs = [pair for settings in (self.settings, *by_curve) for pair in settings.items()]
        values = [(name.rpartition(".")[2], value) for name, value in pairs]
        return all(
            value == "published" if name == "estimator" else float(value) == 0
            for name, value in values
            if name in ("estimator", "item_share")
        )


@dataclass(frozen=True, kw_only=True)
class CurveSet:
    """Our result of an experiment."""

    id: str
    series: tuple[Series, ...]
    stamp: Stamp

    def get_series(self, label: str) -> Series | None:
        """Return the curve with that label."""
        return next((series for series in self.series if series.label == label), None)

    def get_point(self, label: str | float, x: float) -> Point | None:
        """Return a curve's point at an x, None where there is none; a number is its own point."""
        if not isinstance(label, str):
            return Point(label)
        series = self.get_series(label)
        return None if series is None else series.get_point(x)

    @property
    def is_current(self) -> bool:
        """Return whether no result with these settings has been revised since."""
        mechanisms, as_published = registry.MECHANISMS, self.stamp.is_as_published
        return all(
            id in mechanisms
            and revision
            in (
                mechanisms[id].revision,
                mechanisms[id].published_revision if as_published else None,
            )
            for id, revision in self.stamp.revisions.items()
        )


class Printed(NamedTuple):
    """A printed number, compared with our curve `series`.

    `error` is that of reading it from a plot, or half a unit of its last printed digit.
    """

    series: str
    x: float
    value: float
    error: float
    place: str


class Statement(NamedTuple):
    """What the paper says, in our words, which say how a word such as "close" is read.

    `checks` are comparisons of our rows that are true where it holds, each a name and arguments
    (`verdicts`); there are none where rows alone do not decide.
    """

    text: str
    place: str
    checks: tuple[Sequence[Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """What was concluded about an experiment, as data, and what it rests on.

    Attributes:
        label: one of `verdicts.LABELS`.
        statements: whether each statement of the paper holds, in their order.
        rows: the digest of the rows that it was concluded from.
        commit: of this program when it was concluded.
    """

    label: str
    sentence: str
    statements: tuple[str, ...] = ()
    rows: str
    commit: str


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What a method promises, by the paper, for the unit `change`; a note says what remains true.

    `settings` are those that differ from the published ones.
    """

    mechanism: str
    change: Change
    public: PublicFacts
    epsilon: float = 1.0
    delta: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class GridRecipe:
    """A grid of runs whose rows become curves; `dpmc sweep --preset ID` runs it too.

    Attributes:
        curves: the label of a mechanism's runs by its id, or by 'ID SETTING=VALUE ...' of the runs
            with these settings; other runs are left out.
        by_epsilon: whether each epsilon is a curve of its own.
        x: what is on the x axis: an option of the generated data, such as 'items', or a share of
            it, such as '0.4 * items'; empty: epsilon.
    """

    grid: Grid
    metric: str
    curves: Mapping[str, str]
    by_epsilon: bool = False
    x: str = ""
    is_random = True

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(self.grid.seeds)

    @property
    def n_runs(self) -> int:
        """Return how many runs each method without other settings has."""
        return len(self.seeds) * (len(self.grid.epsilons) or 1)

    @property
    def sweep_command(self) -> str:
        """Return the sweep of the same runs."""
        return shlex.join(["dpmc", "sweep", *self.grid.argv()])

    def label_unit(self, unit: Unit) -> str | None:
        """Return the label of the curve that a run belongs to, None to leave it out."""
        settings = {name: format_setting(value) for name, value in unit.settings.items()}
        for rule, label in self.curves.items():
            id, *conditions = rule.split()
            if (
                id == unit.mechanism.id
                and dict(text.split("=") for text in conditions).items() <= settings.items()
            ):
                split = self.by_epsilon and unit.epsilon is not None
                return f"{label}, epsilon {unit.epsilon:g}" if split else label
        return None

    def locate_unit(self, unit: Unit) -> float | None:
        """Return the x of a run, None for one that holds at every x."""
        if not self.x:
            return unit.epsilon
        share, _, option = self.x.rpartition(" * ")
        _, _, options_text = unit.name.partition(":")  # rank-one:users=1000,items=50
        options = dict(text.split("=", 1) for text in options_text.split(","))
        # Rounded, so that a product such as 0.1 * 3 is the number that the figure has.
        return round(float(share or 1) * float(options[option]), 6)


class Trial(NamedTuple):
    """The runs behind a point of a curve, whose outputs (plain JSON values) are kept.

    Attributes:
        x: None where it holds at every x.
        key: distinguishes its runs from others; trials may share runs.
        make: a run by its seed, without one where nothing is random.
        value: of an output, or at each x.
    """

    label: str
    mechanism: str | None
    x: float | None
    key: str
    make: Callable[..., Any]
    value: Callable[[Any], float | Mapping[float, float]] = float
    level: bool = False


@dataclass(frozen=True)
class TrialRecipe:
    """Curves that are no rows of the store, in the order of their trials.

    Attributes:
        settings, mechanisms: all that outputs depend on beside the seeds, and on whose revisions.
        is_random: whether each trial is run once per seed.
        pool: of experiments that share their outputs: the file, and what outputs depend on.
    """

    trials: Sequence[Trial]
    settings: Mapping[str, Any] = field(default_factory=dict)
    mechanisms: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (1,)
    is_random: bool = True
    pool: tuple[Any, ...] = ()
    sweep_command = ""  # its runs are no rows of a store

    @property
    def n_runs(self) -> int:
        return len(self.list_runs())

    def _list_runs(self, trial: Trial) -> dict[str, tuple[int, ...]]:
        if not self.is_random:
            return {trial.key: ()}
        return {f"{trial.key} seed {seed}": (seed,) for seed in self.seeds}

    def list_runs(self) -> dict[str, Callable[[], Any]]:
        """Return the runs by their keys, seed by seed."""
        runs = {
            key: (trial.make, seeds)
            for trial in self.trials
            for key, seeds in self._list_runs(trial).items()
        }
        in_order = sorted(runs.items(), key=lambda run: run[1][1])  # by seeds
        return {key: partial(make, *seeds) for key, (make, seeds) in in_order}

    def build_series(self, outputs: Mapping[str, Any]) -> tuple[Series, ...]:
        """Build curves from outputs by key; what is missing is left out."""
        draws: Any = defaultdict(lambda: defaultdict(list))
        for trial in self.trials:
            for output in (outputs[key] for key in self._list_runs(trial) if key in outputs):
                value = trial.value(output)
                by_x = value if isinstance(value, Mapping) else {trial.x: value}
                for x, y in by_x.items():
                    draws[trial.label, trial.mechanism][x].append(y)
        build = Point.from_draws if self.is_random else lambda values: Point(*values)
        curves = build_series(
            {name: {x: build(values) for x, values in c.items()} for name, c in draws.items()}
        )
        levels = {trial.label for trial in self.trials if trial.level}
        return tuple(replace(c, level=c.level or c.label in levels) for c in curves)


Recipe = GridRecipe | TrialRecipe


def make_exact_recipe(
    compute_curves: Callable[[], Mapping[str, tuple[Iterable[float], Iterable[float]]]],
    mechanisms_by_label: Mapping[str, str | None],
    **options: Any,
) -> TrialRecipe:
    """Return the recipe of curves without randomness, which one run computes together.

    Args:
        compute_curves: returns the x and the y of each curve by its label.
        mechanisms_by_label: the mechanism behind each curve, None without one.
        **options: fields of the recipe.
    """

    def get_curve(label: str, output: Mapping[str, Any]) -> Mapping[float, float]:
        return dict(zip(*output[label], strict=True))

    trials = [
        Trial(label, id, None, "curves", compute_curves, partial(get_curve, label))
        for label, id in mechanisms_by_label.items()
    ]
    return TrialRecipe(trials, is_random=False, **options)


def count_data(
    sets: Mapping[str, str], columns: Sequence[str], clicks: bool = False
) -> TrialRecipe:
    """Return the recipe of a table of the sizes of data sets, whose labels are `sets`."""

    def count_set(data: str) -> list[float]:
        """Return the requested columns of a set."""
        ratings = datasets.load(data, for_ranking=clicks).ratings
        (users, items), n_ratings, values = ratings.shape, len(ratings), ratings.values
        counts = {
            "users": users,
            "items": items,
            # In percent: of all ratings, and of the four fifths that are trained on.
            "density": 100 * n_ratings / (users * items),
            "four fifths": 80 * n_ratings / (users * items),
            "lowest": float(values.min()),
            "highest": float(values.max()),
            "per user": n_ratings / users,
            "per item": n_ratings / items,
        }
        return [counts[name] for name in columns]

    positions = range(len(columns))
    return make_exact_recipe(
        lambda: {label: (positions, count_set(data)) for data, label in sets.items()},
        dict.fromkeys(sets.values()),
    )


_OPERATORS = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
}


def compute_formula(formula: str, numbers: Mapping[str, Floats]) -> Floats:
    """Compute a formula of arithmetic and log. Nothing else of Python is run.

    Args:
        formula: in the notation of Python.
        numbers: arrays of one shape by the names in the formula.

    Raises:
        ValueError: if the formula holds anything else.
    """

    def compute(node: ast.expr) -> Any:
        """Return the value of a part; only what stands here is allowed, since a file is data."""
        match node:
            case ast.Constant(value=int() | float()):
                return node.value
            case ast.Name(id=name) if name in numbers:
                return numbers[name]
            case ast.BinOp(op=op) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](compute(node.left), compute(node.right))
            case ast.Call(func=ast.Name(id="log"), args=[argument], keywords=[]):
                return np.log(compute(argument))
        raise ValueError(f"no formula of {', '.join(numbers)}: {formula}")

    return np.asarray(compute(ast.parse(formula, mode="eval").body), dtype=float)


def evaluate_formulas(
    columns: Mapping[str, Sequence[float]],
    curves: Mapping[str, str],
    mechanisms: Mapping[str, str] = MappingProxyType({}),
    x: str = "",
) -> TrialRecipe:
    """Return the recipe of curves by formulas of a paper, a point for each row of some columns.

    Args:
        columns: numbers by name.
        curves: formulas of these names by label, as `compute_formula` reads them.
        mechanisms: the mechanism of a curve.
        x: the column on the x axis; empty: 0, 1, ...
    """

    def compute() -> dict[str, tuple[Any, Any]]:
        numbers = {name: np.array(values, dtype=float) for name, values in columns.items()}
        results = {label: compute_formula(formula, numbers) for label, formula in curves.items()}
        return {label: (columns.get(x, range(len(y))), y.tolist()) for label, y in results.items()}

    return make_exact_recipe(
        compute,
        {label: mechanisms.get(label) for label in curves},
        settings={"columns": columns, "curves": curves},
    )


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A figure or a table of a paper.

    Attributes:
        found, why: why ours differ, with the evidence (an id, a command), and what is supposed.
        changed, unknown: what we changed, and settings the paper does not state.
        cut: whether what we changed is less work, or other data, so that a difference does not
            speak against the paper; or the labels of such curves.
        not_run: why it cannot be made here, where it has no recipe.
        methods: the mechanism behind a curve's label, for its colour.
        guesses: labels of what looks at no rating; its value, or nan for a curve of the result.
        tried: why other settings that are not printed are reasonable, by name.
        sweep: what makes the curves at all of them.
        draws: how many the paper averages over, 0 where it does not say.
        needs: public sets that it reads.
        make: makes the recipe of trials, also with other arguments.
        changes: what differs from the paper's figure, as NAME=VALUE.
        at_size: the same on the paper's own set, where another stands in for it.
    """

    id: str
    place: str
    title: str
    x: Axis = Axis("epsilon")
    y: Axis = Axis()
    printed: tuple[Printed, ...] = ()
    statements: tuple[Statement, ...] = ()
    found: tuple[tuple[str, str], ...] = ()
    why: str = ""
    changed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    cut: bool | tuple[str, ...] = False
    promises: tuple[Promise, ...] = ()
    methods: Mapping[str, str] = field(default_factory=dict)
    guesses: Mapping[str, float] = field(default_factory=dict)
    recipe: Recipe | None = None
    not_run: str = ""
    tried: Mapping[str, str] = field(default_factory=dict)
    sweep: TrialRecipe | None = None
    draws: int = 0
    needs: tuple[str, ...] = ()
    make: Any = None
    changes: tuple[str, ...] = ()
    at_size: Experiment | None = None
    verdict: Conclusion | None = None

    def __repr__(self) -> str:
        return f"Experiment({self.id}: {self.title})"

    def makes(self, result: CurveSet) -> bool:
        """Return whether its recipe still has a result's settings; a grid's rows have their own."""
        recipe = self.recipe
        return not isinstance(recipe, TrialRecipe) or digest_values(
            recipe.settings
        ) == digest_values(result.stamp.settings)

    @property
    def download_commands(self) -> str:
        """Return what downloads the data that is missing, empty where nothing is."""
        is_here = public_sets.is_downloaded
        return ", ".join(f"dpmc data get {name}" for name in self.needs if not is_here(name))

    @property
    def fullest(self) -> Experiment:
        """Return it at its size where the data for that is here."""
        return self.at_size if self.at_size and not self.at_size.download_commands else self

    def match_size(self, result: CurveSet | None) -> Experiment:
        """Return it at the size that a result has."""
        return self.at_size if self.at_size and result and self.at_size.makes(result) else self

    def add_guesses(self, result: CurveSet) -> CurveSet:
        """Return a result with what needs no run before its curves."""
        x = {value for series in result.series for value in series.x}
        levels = (
            Series.from_points(label, dict.fromkeys(x, Point(value)), level=True)
            for label, value in self.guesses.items()
            if not math.isnan(value)
        )
        return replace(result, series=(*levels, *result.series))

    @property
    def at_settings(self) -> Experiment:
        """Return what makes its curves at the settings tried."""
        id, title = f"{self.id}-settings", f"{self.title}, at settings that are not printed"
        return replace(
            self,
            id=id,
            title=title,
            recipe=self.sweep,
            make=None,
            tried={},
            printed=(),
            verdict=None,
        )

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Return the ids of the mechanisms that it runs."""
        recipe = self.recipe.grid if isinstance(self.recipe, GridRecipe) else self.recipe
        return tuple(recipe.mechanisms if recipe else ())

    @property
    def command(self) -> str:
        """Return what makes it."""
        options = [word for change in self.changes for word in ("--set", change)] or ["--run"]
        return shlex.join(["dpmc", "papers", self.id.partition(CHANGE_MARK)[0], *options])

    def list_settings(self) -> dict[str, str]:
        """Return the settings that `change_settings` takes, each with its text in this figure.

        The text is empty where the methods of a grid have different values.
        """
        recipe = self.recipe
        if not isinstance(recipe, GridRecipe):
            arguments = list_arguments(self.make) if self.make else {}
            return {
                name: ",".join(map(str, value)) if isinstance(value, list) else str(value)
                for name, value in arguments.items()
            }
        grid = recipe.grid
        texts = {"epsilon": ",".join(map(format_number, grid.epsilons))}
        texts |= {} if recipe.x else {"data": " ".join(grid.data)}
        own: dict[str, str] = {}
        for variant in (v for id in grid.mechanisms for v in grid.create_variants(id)):
            for name, value in core.serialise_settings(variant).items():
                text = format_setting(value)
                own[name] = text if own.get(name, text) == text else ""
        return {**texts, **own, **texts}  # these first

    def change_settings(self, texts: Mapping[str, str]) -> Experiment:
        """Return it with other settings and without what is known of the paper's figure.

        Args:
            texts: the values by the names of settings: of the grid's mechanisms, and epsilon; or
                arguments of what makes the trials.

        Raises:
            InvalidSetting: there is no such setting, or no such value of it.
            DpmcError: it cannot be made here.
        """
        recipe = choose_recipe(self)
        if isinstance(recipe, GridRecipe):
            recipe = replace(recipe, grid=_change_grid(recipe, texts))
        elif self.make is None:
            raise DpmcError(
                f"{self.id} has other settings already: change one of the figure itself"
            )
        else:
            recipe = self.make(**_parse_arguments(self.make, texts))
        changes = tuple(f"{name}={text}" for name, text in texts.items())
        of_paper: dict[str, Any] = dict.fromkeys(("printed", "statements", "found", "promises"), ())
        return replace(
            self,
            id=re.sub(r'[<>:"/\\|?*]', "-", CHANGE_MARK.join((self.id, *changes))),
            title=f"{self.title}, with {', '.join(changes)}",
            changed=(*self.changed, f"We set {', '.join(changes)}."),
            recipe=recipe,
            changes=changes,
            verdict=None,
            at_size=None,
            **of_paper,
            tried={},
            why="",
        )


def _change_grid(recipe: GridRecipe, texts: Mapping[str, str]) -> Grid:
    """Return a grid with other settings, each the same for every mechanism that has it."""
    grid = recipe.grid
    for name, text in texts.items():
        if name == "epsilon":
            grid = replace(grid, epsilons=sweep.parse_epsilons([text], name))
        elif name == "data" and not recipe.x:  # else the axis shows an option of the data
            grid = replace(grid, data=[text])
        else:
            # A value for one mechanism would win over the value for all.
            names = [name, *(key for key in grid.settings if key.endswith(f".{name}"))]
            grid = replace(grid, settings={**grid.settings, **dict.fromkeys(names, (text,))})
    return grid


def list_arguments(make: Callable[..., TrialRecipe]) -> dict[str, Any]:
    """Return the numbers, texts and lists of them with which a function makes a recipe, by name."""
    defaults = {name: p.default for name, p in inspect.signature(make).parameters.items()}
    arguments = defaults | getattr(make, "keywords", {})
    return {
        name: value
        for name, value in arguments.items()
        if value
        and {*map(type, value if isinstance(value, list) else [value])} <= {int, float, str}
    }


def _parse_arguments(make: Callable[..., TrialRecipe], texts: Mapping[str, str]) -> dict[str, Any]:
    """Parse arguments as the types that they have; raises InvalidSetting."""
    arguments = list_arguments(make)

    def parse(name: str, current: Any, text: str) -> Any:
        if isinstance(current, list):
            return [parse(name, current[0], item) for item in text.split(",")]
        if isinstance(current, str):
            return text
        number = parse_number(type(current), text, name)
        check_number(name, number, above=0)
        return number

    for name in texts:
        if name not in arguments:
            raise unknown_name_error("setting of the figure", name, arguments)
    return {name: parse(name, arguments[name], text) for name, text in texts.items()}


@dataclass(frozen=True, kw_only=True)
class TheoryRow:
    """A printed theorem beside one measurement of a quantity at a setting.

    Attributes:
        bound, printed: as we prove it (or as printed where we have none), and the paper's own.
        open_constant: whether what is printed leaves a constant open, which is taken as 1.
        spread: the standard error of `measured`, 0 where that is exact.
        trivial: what holds without any theorem.
        note: what is wrong with what is printed, as we read it, and why.
    """

    theorem: str
    quantity: str
    setting: str
    bound: float
    measured: float
    printed: float | None = None
    spread: float = 0.0
    open_constant: bool = False
    trivial: float = math.inf
    note: str = ""

    @property
    def factor(self) -> float:
        """Return the bound over what was measured; infinite where that is not above 0."""
        return self.bound / self.measured if self.measured > 0 else math.inf

    @property
    def is_contradicted(self) -> bool:
        """Return whether the measurement contradicts what is printed, whatever its constants."""
        printed = self.bound if self.printed is None else self.printed
        # Beyond four standard errors of the measurement.
        return not self.open_constant and self.measured > printed * _TOLERANCE + 4 * self.spread

    @property
    def triviality(self) -> str:
        """Return a sentence where the bound says nothing, else nothing."""
        if self.bound < self.trivial:
            return ""
        return f"The bound says nothing here: {self.trivial:.3g} holds without it."


@dataclass(frozen=True, kw_only=True, repr=False)
class Paper(CitedPaper):
    """A paper with its experiments, what we found in two sentences, and a sample to try it on.

    Theorems are beside measurements on small generated instances; tests/theory computes them again.
    `unjudged` says why there is no verdict on its accuracy, where there is none.
    """

    experiments: tuple[Experiment, ...]
    summary: str
    sample: str
    theorems: tuple[TheoryRow, ...] = ()
    unjudged: str = ""


def parse_texts(mechanism: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return a mechanism's settings from their texts, those that it has."""
    cls = registry.get_mechanism(mechanism)
    return {
        name: parse_setting(cls, name, text)
        for name, text in texts.items()
        if registry.has_setting(cls, name)
    }


# --- making it ---------------------------------------------------------------------------------


def choose_recipe(experiment: Experiment, seeds: Sequence[int] = ()) -> Recipe:
    """Return its recipe, with other seeds if given; raises DpmcError where it has none."""
    recipe = experiment.recipe
    if recipe is None:
        raise DpmcError(f"{experiment.id} cannot be made here: {experiment.not_run}")
    if not seeds:
        return recipe
    if isinstance(recipe, GridRecipe):
        return replace(recipe, grid=replace(recipe.grid, seeds=tuple(seeds)))
    return replace(recipe, seeds=tuple(seeds))


def _build_result(
    experiment: Experiment,
    recipe: Recipe,
    series: Iterable[Series],
    settings: Mapping[str, Any],
    revisions: Mapping[str, int],
    seconds: float,
) -> CurveSet:
    """Return a result with the command that makes it again."""
    has_default_seeds = experiment.recipe and experiment.recipe.seeds == recipe.seeds
    seeds = format_seeds(recipe.seeds)
    command = experiment.command + ("" if has_default_seeds else f" --seeds {seeds}")
    stamp = Stamp(paths.get_version(), command, settings, seeds, revisions, round(seconds, 1))
    return CurveSet(id=experiment.id, series=tuple(series), stamp=stamp)


def plan_grid(recipe: GridRecipe) -> Plan:
    """Return the runs behind curves; raises DpmcError, OSError where data cannot be read."""
    plan = sweep.build_plan(recipe.grid)
    units = tuple(unit for unit in plan.units if recipe.label_unit(unit) is not None)
    if not units:
        raise DpmcError(f"no curve has these settings: {', '.join(recipe.curves)}")
    source = plan.sources[units[0].source]
    if recipe.metric == "are" and sweep.build_unit_problem(units[0], source).truth is None:
        raise InvalidSetting("data", "generated, as errors are from a known matrix", units[0].name)
    return plan._replace(units=units)


def fit_model(mechanism: Mechanism, problem: Problem, seed: int) -> Model:
    """Return what a run ends with.

    Raises:
        Stopped: the fit was stopped; the model of its rounds so far is no result.
    """
    fitted = core.fit(mechanism, problem, seed, solve=share_solve)
    if fitted.stopped:
        raise Stopped("stopped before the last round")
    return fitted.model


def make_setting_recipe(
    recipe: GridRecipe,
    fits: object,
    *,
    only: Collection[str],
    epsilons: Sequence[float],
    seeds: str,
    settings: Mapping[str, Sequence[str]] = MappingProxyType({}),
    fit: str = "",
) -> TrialRecipe:
    """Return the recipe of a grid's curves of some methods with other settings, a run per seed.

    They are fitted by the function `fit` of `fits`, where there is one.
    """
    grid = replace(recipe.grid, epsilons=epsilons, settings={**recipe.grid.settings, **settings})
    fit_unit: Callable[[Mechanism, Problem, int], Model] = getattr(fits, fit, fit_model)

    def make(seed: int) -> list[tuple[Any, ...]]:
        """Return the label, the x and the metric of each run with this seed."""
        plan, rows = plan_grid(replace(recipe, grid=replace(grid, seeds=(seed,)))), []
        for unit in plan.units:
            if unit.mechanism.id in only:
                problem = sweep.build_unit_problem(unit, plan.sources[unit.source])
                model = fit_unit(unit.mechanism, problem, seed)
                metrics = core.measure_model(unit.mechanism, model, problem, seed)
                x = recipe.locate_unit(unit)
                rows.append((recipe.label_unit(unit), x, metrics[recipe.metric]))
        return rows

    def get_curve(label: str, rows: Iterable[tuple[str, Any, float]]) -> Mapping[Any, float]:
        return {x: value for name, x, value in rows if name == label}

    key = {"fit": fit, "only": [*only], "epsilons": [*epsilons], "settings": dict(grid.settings)}
    digest = digest_values(key)
    labels = [(rule.split()[0], label) for rule, label in recipe.curves.items()]
    return TrialRecipe(
        [
            Trial(label, id, None, digest, make, partial(get_curve, label))
            for id, label in labels
            if id in only
        ],
        settings=key,
        mechanisms=tuple(only),
        seeds=sweep.parse_seeds([seeds]),
    )


def join_setting_recipes(recipes: Mapping[str, TrialRecipe]) -> TrialRecipe:
    """Return the recipe of the curves at several settings, each with its setting's name."""
    trials = [
        trial._replace(label=f"{name}{SETTING_SEPARATOR}{trial.label}")
        for name, recipe in recipes.items()
        for trial in recipe.trials
    ]
    ids = dict.fromkeys(id for recipe in recipes.values() for id in recipe.mechanisms)
    settings = {name: recipe.settings for name, recipe in recipes.items()}
    first, *_ = recipes.values()
    return replace(first, trials=trials, settings=settings, mechanisms=tuple(ids))


def build_grid_result(
    experiment: Experiment, recipe: GridRecipe, plan: Plan, opened: Store
) -> CurveSet:
    """Build a result from the rows of a plan that are there; raises DpmcError without any."""
    ids = [info.id for info in store.list_curves(opened, keys=plan.keys.curves, count=False)]
    rows = {row["key"]: row for row in store.iterate_records(opened, ids)}
    values: Any = defaultdict(lambda: defaultdict(dict))
    curve_keys: dict[tuple[str, float | None], str] = {}
    settings: dict[str, Any] = {}
    revisions: dict[str, int] = {}
    seconds = 0.0
    for unit in plan.units:
        label, row = recipe.label_unit(unit), rows.get(unit.key)
        if label is None or row is None or row["metrics"].get(recipe.metric) is None:
            continue
        id, x = unit.mechanism.id, recipe.locate_unit(unit)
        if curve_keys.setdefault((label, x), unit.curve_key) != unit.curve_key:
            if registry.adds_noise(type(unit.mechanism)):
                raise DpmcError(f"{label} of {experiment.id} stands for more than one setting")
            continue  # what two methods share without privacy: as the first of them has it
        values[label, id][x][unit.seed] = float(row["metrics"][recipe.metric])
        settings[label] = {
            name: format_setting(value)
            for name, value in unit.settings.items()
            if name != "epsilon"
        }
        revisions[id] = unit.mechanism.revision
        seconds += float(row["seconds"])
    if not values:
        raise DpmcError(f"there is no row of {experiment.id} yet: {experiment.command} makes them")

    def build_point(by_seed: Mapping[int, float]) -> Point:
        """Pair it with those of other curves only where no seed is missing."""
        point = Point.from_draws([by_seed[seed] for seed in recipe.seeds if seed in by_seed])
        return point if point.seeds == len(recipe.seeds) else point._replace(draws=())

    curves = build_series(
        {name: {x: build_point(v) for x, v in curve.items()} for name, curve in values.items()}
    )
    order = {id: index for index, id in enumerate(recipe.grid.mechanisms)}
    curves.sort(key=lambda series: order.get(series.mechanism or "", -1))
    return _build_result(experiment, recipe, curves, settings, revisions, seconds)


def run_trials(
    experiment: Experiment,
    recipe: TrialRecipe,
    *,
    folder: Path | None = None,
    report: Callable[[SweepReport], None] = lambda _: None,
    stop: StopCheck | None = None,
) -> CurveSet:
    """Do the runs that are missing, then build the curves of all; outputs are kept in a folder.

    Raises:
        Stopped: finished runs are kept.
        DpmcError: another process makes the same.
    """
    revisions = {id: registry.get_mechanism(id).revision for id in recipe.mechanisms}
    # Outputs of other seeds have other keys: they stay beside these.
    default = recipe if experiment.recipe is None else experiment.recipe
    pool = recipe.pool or (experiment.id, recipe.settings, list(default.seeds), revisions)
    path = (folder or get_own_folder()) / f"{pool[0]}.pieces.jsonl"
    runs = recipe.list_runs()
    with _open_outputs(path, digest_values(*pool)[:16]) as outputs, stop_when(stop):
        missing = {key: make for key, make in runs.items() if key not in outputs}
        progress = SweepReport(total=len(runs), skipped=len(runs) - len(missing))
        report(progress)
        for n_done, (key, make) in enumerate(missing.items(), 1):
            if stop is not None and stop():
                raise Stopped("stopped: finished pieces are kept")
            start = time.process_time()
            output = json.dumps(make(), default=lambda array: np.asarray(array).tolist())
            outputs[key] = json.loads(output), time.process_time() - start
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, *outputs[key]]) + "\n")
            report(replace(progress, done=n_done))
    # Each output is a pair of a value and the seconds that it took.
    series = recipe.build_series({key: outputs[key][0] for key in runs})
    seconds = sum(outputs[key][1] for key in runs)
    return _build_result(experiment, recipe, series, dict(recipe.settings), revisions, seconds)


@contextmanager
def _open_outputs(path: Path, digest: str) -> Iterator[dict[str, tuple[Any, float]]]:
    """Yield outputs and seconds of runs by key; none of a file that begins with another digest.

    The file is written again first, so that new lines follow complete ones of this digest.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = locks.acquire_lock(path.with_suffix(".lock"))
    if lock is None:
        raise DpmcError(f"{path.stem.partition('.')[0]} is being made by another process already")
    with lock:
        first, *lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else [""]
        outputs, complete_lines = {}, [digest]
        for line in lines if first == digest else ():
            with suppress(ValueError):  # cut off while it was written
                key, output, seconds = json.loads(line)
                outputs[key] = output, seconds
                complete_lines.append(line)
        path.write_text("".join(f"{line}\n" for line in complete_lines), encoding="utf-8")
        yield outputs


# --- files -------------------------------------------------------------------------------------


def get_own_folder() -> Path:
    """Return the folder of the user's own results."""
    return paths.find_home_folder() / "papers"


def convert_result(result: CurveSet) -> dict[str, Any]:
    """Return a result as plain JSON values."""
    return {
        "id": result.id,
        "stamp": result.stamp._asdict(),
        "series": [asdict(series) for series in result.series],
    }


def prepare_folder(folder: Path) -> None:
    """Make a folder for results; raises DpmcError, OSError where it cannot hold any."""
    if folder.exists() and not folder.is_dir():
        raise DpmcError(f"{folder} is a file: name a folder for the result")
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise DpmcError(f"{folder} cannot be written to: name another folder for the result")


def write_result(result: CurveSet, folder: Path) -> Path:
    """Write a result's file, complete or not at all; raises as `prepare_folder`."""
    prepare_folder(folder)
    path = folder / f"{result.id}.json"
    id, stamp, series = convert_result(result).values()
    lines = ",\n".join(f"  {json.dumps(_round_numbers(curve))}" for curve in series)
    text = (
        f'{{\n "id": {json.dumps(id)},\n "stamp": {json.dumps(stamp)},\n'
        f' "series": [\n{lines}\n ]\n}}\n'
    )
    with paths.write_atomically(path) as partial_path:
        partial_path.write_text(text, encoding="utf-8")
    return path


def _round_numbers(value: Any, digits: int = _DIGITS) -> Any:
    """Return plain JSON values with every float rounded to significant digits."""
    if isinstance(value, dict):
        return {name: _round_numbers(item, digits) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_round_numbers(item, digits) for item in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def digest_rows(*results: CurveSet | None) -> str:
    """Return eight digits for the numbers of results, whenever and by whichever version made."""
    series = [asdict(series) for result in results if result for series in result.series]
    return digest_values(_round_numbers(series, 4))[:8]


def read_result(path: Path) -> CurveSet:
    """Read a result's file; raises BadRatings where it is not one of ours, OSError."""
    try:
        table = parse_json(path.read_text(encoding="utf-8"))
        series = tuple(map(_parse_series, table["series"]))
        return CurveSet(id=table["id"], series=series, stamp=Stamp(**table["stamp"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadRatings(
            f"{path} is no result of a paper's experiment, or damaged: remove it, or make it again"
        ) from None


def _parse_series(table: Mapping[str, Any]) -> Series:
    """Return a curve of a result's file. Raises ValueError where its columns differ in length."""
    series = facts.build_from_table(Series, table, "a curve")
    seeds = [len(draws) for draws in series.draws] or list(series.seeds)
    columns = (series.x, series.mean, series.low, series.high, seeds)
    lengths = {len(column) for column in columns}
    if not series.x or lengths != {len(seeds)} or seeds != [*series.seeds]:
        raise ValueError(f"{series.label} has no x, or not one number and draw for each")
    return series


def load_result(id: str, folder: Path) -> CurveSet | None:
    """Return the result that is in a folder, None without one."""
    path = folder / f"{id}.json"
    return read_result(path) if path.is_file() else None


def load_shipped_result(id: str) -> CurveSet | None:
    """Return the result that came with the program."""
    return load_result(id, FOLDER)


def load_own_result(id: str) -> CurveSet | None:
    """Return the result of the user's own run."""
    return load_result(id, get_own_folder())


def has_result(experiment: Experiment, recipe: Recipe, folder: Path | None) -> bool:
    """Return whether a recipe would only repeat a result: in a folder, one's own or shipped."""
    id, seeds = experiment.id, format_seeds(recipe.seeds)
    result = load_result(id, folder or get_own_folder())
    if not (result or folder):
        result = load_shipped_result(id)
    return bool(
        result and result.stamp.seeds == seeds and result.is_current and experiment.makes(result)
    )


def remove_own_result(id: str) -> None:
    """Remove the user's own result; its rows and outputs are kept. Raises OSError."""
    (get_own_folder() / f"{id}.json").unlink(missing_ok=True)
