"""A paper's figures and tables as data: what is printed, what is said of it, what makes ours.

Every figure and table of a paper is an `Experiment`, also one that cannot be made here. What a
paper prints and says stands in its TOML file; `dpmc_lab.papers` reads it. An experiment is
made from rows of the store or piece by piece: what is done is kept, and the same call goes on from
there. Results hold metrics alone, a small file each. Shipped ones are made by
`dpmc papers ID --run --write sample_data/papers`; one's own lie below DPMC_HOME.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import repeat
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import experiment as core
from dpmc_core import facts, paths, registry
from dpmc_core.archives import parse_json
from dpmc_core.data import datasets, public_sets
from dpmc_core.errors import BadRatings, DpmcError
from dpmc_core.model import Mechanism, Model
from dpmc_core.privacy import Change
from dpmc_core.problem import Problem
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import format_setting, parse_setting
from dpmc_core.stopping import StopCheck, Stopped, stop_when
from dpmc_lab import locks, store, sweep
from dpmc_lab.citation import CitedPaper
from dpmc_lab.curves.lines import compute_interval
from dpmc_lab.store import Store, digest_values
from dpmc_lab.sweep import Grid, Plan, Unit, format_seeds
from dpmc_lab.sweep.engine import share_solve

FOLDER = Path(__file__).resolve().parents[2] / "sample_data" / "papers"  # also in a wheel
ROUNDED = 1e-6  # of a value: files hold seven digits of it
AT = " | "  # between a setting's name and a curve's label
_DIGITS = 7
_ROUNDING = 1 + 1e-9  # where a bound is met exactly


@dataclass(frozen=True)
class Axis:
    """What an axis shows, with its unit. log: on a logarithmic scale. better: 1 where more is, -1
    where less is.

    names: of the places 0, 1, ... where it holds no numbers; what stands on it is then a table.
    """

    title: str = ""
    log: bool = False
    better: int = 0
    names: tuple[str, ...] = ()


class Point(NamedTuple):
    """An interval that knows what it rests on. seeds: 0 where nothing is drawn; one seed alone has
    no interval. draws: the value of each seed, in their order; empty where that is not known.
    """

    mean: float
    half_width: float = 0.0
    seeds: int = 0
    draws: tuple[float, ...] = ()

    @classmethod
    def of(cls, values: Sequence[float]) -> Point:
        """From the value of each seed, in an order that all curves of a result share."""
        return cls(*compute_interval(values), tuple(map(float, values)))


@dataclass(frozen=True, kw_only=True)
class Series:
    """A curve: the mean over seeds at each x, within its 95 % interval.

    mechanism: its id, None where it is none's. seeds: how many each mean rests on, 0 where nothing
    is drawn. level: one value, whatever x is. draws: at each x the value of each seed, in their
    order; empty where that is not known.
    """

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
    def of(
        cls,
        label: str,
        points: Mapping[float, Point],
        mechanism: str | None = None,
        level: bool = False,
    ) -> Series:
        """From the interval at each x."""
        x = tuple(sorted(points))
        mean, half, seeds, draws = zip(*(points[at] for at in x), strict=True)
        low, high = (tuple(np.add(mean, np.multiply(sign, half)).tolist()) for sign in (-1, 1))
        known = draws if all(draws) else ()
        columns = {"x": x, "mean": mean, "low": low, "high": high, "seeds": seeds, "draws": known}
        return cls(label=label, mechanism=mechanism, level=level, **columns)

    def at(self, x: float) -> Point | None:
        """The interval at an x, or at an end for -inf and inf; None where there is none: values are
        never interpolated."""
        x = min(max(x, self.x[0]), self.x[-1]) if math.isinf(x) else x
        for k, here in enumerate(self.x):
            if self.level or abs(here - x) <= 1e-9 * max(abs(x), 1.0):
                draws = self.draws[k] if self.draws else ()
                return Point(self.mean[k], (self.high[k] - self.low[k]) / 2, self.seeds[k], draws)
        return None


def curves(values: Mapping[tuple[str, str | None], Mapping[float | None, Point]]) -> list[Series]:
    """Curves by label and mechanism from the interval at each x; at None: whatever x is."""
    places = [x for points in values.values() for x in points if x is not None]
    ends = min(places, default=0.0), max(places, default=1.0)
    return [
        Series.of(label, dict.fromkeys(ends, points[None]), id, level=True)
        if None in points
        else Series.of(label, {x: one for x, one in points.items() if x is not None}, id)
        for (label, id), points in values.items()
    ]


class Stamp(NamedTuple):
    """How a result was made. command: what makes it again; seeds: as typed.

    settings: of each curve, by its label; revisions: of each mechanism, by its id; seconds: of
    computing, all runs together.
    """

    version: str
    command: str
    settings: Mapping[str, Any]
    seeds: str
    revisions: Mapping[str, int]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Made:
    """Our result of an experiment."""

    id: str
    series: tuple[Series, ...]
    stamp: Stamp

    def get(self, label: str) -> Series | None:
        """The curve of that label."""
        return next((one for one in self.series if one.label == label), None)

    def at(self, label: str | float, x: float) -> Point | None:
        """A curve's interval at an x, None where there is none; a number's is itself."""
        if not isinstance(label, str):
            return Point(label)
        found = self.get(label)
        return None if found is None else found.at(x)

    @property
    def mark(self) -> str:
        """Eight digits for what made it: version, settings, seeds and revisions."""
        return digest_values(self.stamp._replace(seconds=0.0)._asdict())[:8]

    @property
    def current(self) -> bool:
        """Whether this program would make the same: no mechanism has been revised since."""
        known = registry.MECHANISMS
        return all(
            id in known and known[id].revision == one for id, one in self.stamp.revisions.items()
        )


class Printed(NamedTuple):
    """A printed number. series: the label of our curve that it stands beside.

    error: how far off it may be read from a plot, or half a unit of its last printed digit. place:
    where it stands in the paper.
    """

    series: str
    x: float
    value: float
    error: float
    place: str


class Statement(NamedTuple):
    """What the paper says, in our words. holds: of our result; None where it cannot tell.

    A word such as "close" is read without a number of ours where that can be, and the words say
    how it is read.
    """

    words: str
    place: str
    holds: Callable[[Made], bool | None]


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What an experiment's method promises, by the paper.

    change: the unit that the paper protects; settings: where they differ from those published;
    note: what is true of it where that is not.
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
    """A grid of runs, whose rows become curves; `dpmc sweep --preset ID` runs it too.

    metric: by its name; a mean is over the seeds. curves: the label of a mechanism's runs by its
    id, or by 'ID SETTING=VALUE ...' of those runs alone that have these settings; others are left
    out. by_epsilon: each epsilon is a curve of its own. x: 'OPTION' of the generated data that the
    curves are over, 'SHARE * OPTION'; empty: epsilon.
    """

    grid: Grid
    metric: str
    curves: Mapping[str, str]
    by_epsilon: bool = False
    x: str = ""
    drawn = True

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(self.grid.seeds)

    def label(self, unit: Unit) -> str | None:
        """Of the curve that a run belongs to, None to leave it out."""
        settings = {name: format_setting(value) for name, value in unit.settings.items()}
        for rule, label in self.curves.items():
            id, *wanted = rule.split()
            if (
                id == unit.mechanism.id
                and dict(w.split("=") for w in wanted).items() <= settings.items()
            ):
                split = self.by_epsilon and unit.epsilon is not None
                return f"{label}, epsilon {unit.epsilon:g}" if split else label
        return None

    def place(self, unit: Unit) -> float | None:
        """The x of a run, None for one that holds at every x."""
        if not self.x:
            return unit.epsilon
        share, _, option = self.x.rpartition(" * ")
        options = dict(part.split("=", 1) for part in unit.name.partition(":")[2].split(","))
        return round(float(share or 1) * float(options[option]), 6)


class Trial(NamedTuple):
    """The runs behind a point of a curve: work whose results (plain JSON values) are kept.

    x: None where it holds at every x. key: tells its runs from others; trials may share them. make:
    a run by its seed, without one where nothing is drawn; it may check whether it is cancelled
    (`stopping.check_cancelled`). value: of a result, or at each x. level: whether it is the same at
    every x.
    """

    label: str
    mechanism: str | None
    x: float | None
    key: str
    make: Callable[..., Any]
    value: Callable[[Any], float | Mapping[float, float]] = float
    level: bool = False


@dataclass(frozen=True, kw_only=True)
class TrialRecipe:
    """Curves of what is no row of the store, in the order of their trials.

    less: whose value of the same seed is taken off each. settings: everything that results depend
    on beside the seeds, as plain JSON values; mechanisms: whose revisions do. drawn: whether each
    trial is run once a seed. pool: of experiments that keep their pieces in common, in the file
    that its first word names; all that their results depend on is in the rest of it and in their
    keys.
    """

    trials: Sequence[Trial]
    less: Trial | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    mechanisms: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (1,)
    drawn: bool = True
    pool: tuple[Any, ...] = ()

    def _runs(self, trial: Trial) -> dict[str, tuple[int, ...]]:
        if not self.drawn:
            return {trial.key: ()}
        return {f"{trial.key} seed {seed}": (seed,) for seed in self.seeds}

    def pieces(self) -> dict[str, Callable[[], Any]]:
        """The work by its key, seed by seed."""
        trials = self.trials if self.less is None else [self.less, *self.trials]
        found = {key: (one.make, of) for one in trials for key, of in self._runs(one).items()}
        in_order = sorted(found.items(), key=lambda piece: piece[1][1])
        return {key: partial(make, *seeds) for key, (make, seeds) in in_order}

    def series(self, found: Mapping[str, Any]) -> tuple[Series, ...]:
        """Curves of results by key; what is not there yet is left out."""
        values: Any = defaultdict(lambda: defaultdict(list))
        base: Any = repeat(0.0)
        if self.less is not None:
            base = [self.less.value(found[key]) for key in self._runs(self.less)]
        for trial in self.trials:
            runs = [found[key] for key in self._runs(trial) if key in found]
            for result, less in zip(runs, base, strict=False):
                told = trial.value(result)
                for x, y in (told if isinstance(told, Mapping) else {trial.x: told}).items():
                    values[trial.label, trial.mechanism][x].append(y - less)
        point = Point.of if self.drawn else lambda one: Point(*one)
        drawn = curves({of: {x: point(v) for x, v in one.items()} for of, one in values.items()})
        levels = {trial.label for trial in self.trials if trial.level}
        return tuple(replace(one, level=one.level or one.label in levels) for one in drawn)


Recipe = GridRecipe | TrialRecipe


def exact(
    make: Callable[[], Mapping[str, tuple[Iterable[float], Iterable[float]]]],
    of: Mapping[str, str | None],
    **more: Any,
) -> TrialRecipe:
    """Curves that rest on no draw, made at once: x and y by label. of: the mechanism, by label."""

    def curve(label: str, found: Mapping[str, Any]) -> Mapping[float, float]:
        return dict(zip(*found[label], strict=True))

    trials = [
        Trial(label, id, None, "curves", make, partial(curve, label)) for label, id in of.items()
    ]
    return TrialRecipe(trials=trials, drawn=False, **more)


def counted(sets: Mapping[str, str], columns: Sequence[str], clicks: bool = False) -> TrialRecipe:
    """A table of the sizes of data sets. sets: labels by data; clicks: read for ranking."""

    def sizes(data: str) -> list[float]:
        ratings = datasets.load(data, for_ranking=clicks).ratings
        (users, items), many, values = ratings.shape, len(ratings), ratings.values
        found = {
            "users": users,
            "items": items,
            "density": 100 * many / (users * items),
            "four fifths": 80 * many / (users * items),
            "lowest": float(values.min()),
            "highest": float(values.max()),
            "per user": many / users,
            "per item": many / items,
        }
        return [found[name] for name in columns]

    places = range(len(columns))
    return exact(
        lambda: {label: (places, sizes(data)) for data, label in sets.items()},
        dict.fromkeys(sets.values()),
    )


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A figure or a table of a paper.

    id: such as lwhm22-1b; place: such as 'figure 1b'. title: what it shows. x, y: the paper's axes.
    printed: numbers; statements: what the paper says of it. found: why ours differ, each with what
    shows it, an experiment's id or a command; why: what is supposed beside that. changed: what we
    changed; unknown: what we could not know: a sentence each. cut: whether what we changed is less
    work than the paper's, or other data, so that a difference does not speak against the paper; the
    labels of such curves, where others have the paper's size. promises: what its methods promise.
    not_run: why it cannot be made here; recipe: what makes it. methods: the id of the method behind
    a curve's label, which gives a curve that is only printed its colour. guesses: labels of what is
    no method and looks at no rating, with its value where that is exact and the same at every x;
    nan for a curve of the result. tried: settings that are not printed, others than ours: why each
    is reasonable, by its name; sweep: what makes the curves at all of them. draws: how many the
    paper averages over, 0 where it prints no number. needs: public sets that it reads; at_size:
    the same on the paper's own set, where another stands in for it.
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
    at_size: Experiment | None = None

    def __post_init__(self) -> None:
        if (self.recipe is None) != bool(self.not_run):
            raise ValueError(f"{self.id} needs a recipe, or the reason why it has none")
        if self.cut and not self.changed:
            raise ValueError(f"{self.id} is cut down: say what was changed")

    def makes(self, made: Made) -> bool:
        """Whether its recipe has the settings of a result still; of a grid its rows tell."""
        one = self.recipe
        return not isinstance(one, TrialRecipe) or digest_values(one.settings) == digest_values(
            made.stamp.settings
        )

    @property
    def absent(self) -> str:
        """What brings the data that is not here, empty where all is."""
        there = public_sets.is_downloaded
        return ", ".join(f"dpmc data get {name}" for name in self.needs if not there(name))

    @property
    def fullest(self) -> Experiment:
        """At its size where the data for that is there."""
        return self.at_size if self.at_size and not self.at_size.absent else self

    def of(self, made: Made | None) -> Experiment:
        """At the size that a result has."""
        return self.at_size if self.at_size and made and self.at_size.makes(made) else self

    def with_guesses(self, made: Made) -> Made:
        """A result, and before its curves what needs no run."""
        across = {x for one in made.series for x in one.x}
        levels = (
            Series.of(label, dict.fromkeys(across, Point(value)), level=True)
            for label, value in self.guesses.items()
            if not math.isnan(value)
        )
        return replace(made, series=(*levels, *made.series))

    @property
    def at_settings(self) -> Experiment:
        """What makes its curves at the settings tried."""
        id, title = f"{self.id}-settings", f"{self.title}, at settings that are not printed"
        return replace(self, id=id, title=title, recipe=self.sweep, tried={}, printed=())

    @property
    def runs(self) -> frozenset[str]:
        """Ids of the methods that it runs."""
        made = self.recipe.grid if isinstance(self.recipe, GridRecipe) else self.recipe
        return frozenset(made.mechanisms if made else ())

    @property
    def command(self) -> str:
        """What makes it."""
        return f"dpmc papers {self.id} --run"


@dataclass(frozen=True, kw_only=True)
class TheoryRow:
    """One statement beside one measurement.

    quantity: what is bounded, with its unit; setting: the instance. bound: the statement as we
    prove it, or as printed where we have none; printed: the paper's own, where that differs.
    open_constant: what is printed leaves a constant open, which is taken as 1. spread: standard
    error of `measured`, 0 where that is exact. trivial: what holds without any theorem. note: what
    is wrong with what is printed, as we read it, and why.
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
        """How many times what was measured the bound is; infinite where that is not above 0."""
        return self.bound / self.measured if self.measured > 0 else math.inf

    @property
    def counterexample(self) -> bool:
        """Whether what was measured contradicts what is printed, whatever its constants."""
        printed = self.bound if self.printed is None else self.printed
        return not self.open_constant and self.measured > printed * _ROUNDING + 4 * self.spread

    @property
    def silence(self) -> str:
        """A sentence where the bound says nothing, else empty."""
        if self.bound < self.trivial:
            return ""
        return f"The bound says nothing here: {self.trivial:.3g} holds without it."


@dataclass(frozen=True, kw_only=True)
class Paper(CitedPaper):
    """theorems: its statements beside measurements on small generated instances; tests/theory
    computes the numbers again. unjudged: why there is no verdict on its accuracy, where there is
    none.
    """

    experiments: tuple[Experiment, ...]
    theorems: tuple[TheoryRow, ...] = ()
    unjudged: str = ""


def parsed(mechanism: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Settings of a mechanism from their texts, those that it has not left out."""
    cls = registry.get_mechanism(mechanism)
    return {
        name: parse_setting(cls, name, text)
        for name, text in texts.items()
        if registry.has_setting(cls, name)
    }


# --- making it ---------------------------------------------------------------------------------


class Way(NamedTuple):
    """How far the making of an experiment is, in runs or pieces."""

    done: int
    total: int


def recipe_of(experiment: Experiment, seeds: Sequence[int] = ()) -> Recipe:
    """Its recipe, with other seeds where they are given. Raises DpmcError where it has none."""
    recipe = experiment.recipe
    if recipe is None:
        raise DpmcError(f"{experiment.id} cannot be made here: {experiment.not_run}")
    if not seeds:
        return recipe
    if isinstance(recipe, GridRecipe):
        return replace(recipe, grid=replace(recipe.grid, seeds=tuple(seeds)))
    return replace(recipe, seeds=tuple(seeds))


def _made(
    experiment: Experiment,
    recipe: Recipe,
    series: Iterable[Series],
    settings: Mapping[str, Any],
    revisions: Mapping[str, int],
    seconds: float,
) -> Made:
    usual = experiment.recipe and experiment.recipe.seeds == recipe.seeds
    typed = format_seeds(recipe.seeds)
    command = experiment.command + ("" if usual else f" --seeds {typed}")
    stamp = Stamp(paths.get_version(), command, settings, typed, revisions, round(seconds, 1))
    return Made(id=experiment.id, series=tuple(series), stamp=stamp)


def planned(recipe: GridRecipe) -> Plan:
    """The runs behind curves. Raises DpmcError where the data cannot be read, OSError."""
    plan = sweep.build_plan(recipe.grid)
    units = (unit for unit in plan.units if recipe.label(unit) is not None)
    return plan._replace(units=tuple(units))


def fitted(mechanism: Mechanism, problem: Problem, seed: int) -> Model:
    """What a run ends with."""
    return core.run(mechanism, problem, seed, with_baselines=False, solve=share_solve).model


def at_setting(
    recipe: GridRecipe,
    fits: object,
    *,
    only: Collection[str],
    epsilons: Sequence[float],
    seeds: str,
    settings: Mapping[str, Sequence[str]] = MappingProxyType({}),
    fit: str = "",
) -> TrialRecipe:
    """A grid's curves of some methods with other settings, a piece a seed. fit: what of `fits` fits
    them in place of the method alone."""
    grid = replace(recipe.grid, epsilons=epsilons, settings={**recipe.grid.settings, **settings})
    how: Callable[[Mechanism, Problem, int], Model] = getattr(fits, fit, fitted)

    def make(seed: int) -> list[tuple[Any, ...]]:
        plan, found = planned(replace(recipe, grid=replace(grid, seeds=(seed,)))), []
        for unit in plan.units:
            if unit.mechanism.id in only:
                problem = sweep.build_unit_problem(unit, plan.sources[unit.source])
                model = how(unit.mechanism, problem, seed)
                metrics = core.measure_model(unit.mechanism, model, problem, seed)
                found.append((recipe.label(unit), recipe.place(unit), metrics[recipe.metric]))
        return found

    def told(label: str, found: Iterable[tuple[str, Any, float]]) -> Mapping[Any, float]:
        return {x: value for name, x, value in found if name == label}

    key = {"fit": fit, "only": [*only], "epsilons": [*epsilons], "settings": dict(grid.settings)}
    mark, known = (
        digest_values(key),
        [(rule.split()[0], label) for rule, label in recipe.curves.items()],
    )
    return TrialRecipe(
        trials=[
            Trial(label, id, None, mark, make, partial(told, label))
            for id, label in known
            if id in only
        ],
        settings=key,
        mechanisms=tuple(only),
        seeds=sweep.parse_seeds([seeds]),
    )


def joined(recipes: Mapping[str, TrialRecipe]) -> TrialRecipe:
    """The curves at several settings, each with its setting's name."""
    trials = [
        one._replace(label=f"{name}{AT}{one.label}")
        for name, recipe in recipes.items()
        for one in recipe.trials
    ]
    ids = dict.fromkeys(id for recipe in recipes.values() for id in recipe.mechanisms)
    settings = {name: recipe.settings for name, recipe in recipes.items()}
    first, *_ = recipes.values()
    return replace(first, trials=trials, settings=settings, mechanisms=tuple(ids))


def of_rows(experiment: Experiment, recipe: GridRecipe, plan: Plan, opened: Store) -> Made:
    """The curves of a plan's rows, as far as they are there. Raises DpmcError where none is."""
    ids = [info.id for info in store.list_curves(opened, keys=plan.keys.curves, count=False)]
    rows = {row["key"]: row for row in store.iterate_records(opened, ids)}
    values: Any = defaultdict(lambda: defaultdict(dict))
    lines: dict[tuple[str, float | None], str] = {}
    settings: dict[str, Any] = {}
    revisions: dict[str, int] = {}
    seconds = 0.0
    for unit in plan.units:
        label, row = recipe.label(unit), rows.get(unit.key)
        if label is None or row is None or row["metrics"].get(recipe.metric) is None:
            continue
        id, x = unit.mechanism.id, recipe.place(unit)
        if lines.setdefault((label, x), unit.curve_key) != unit.curve_key:
            if registry.adds_noise(type(unit.mechanism)):
                raise DpmcError(f"{label} of {experiment.id} stands for more than one setting")
            continue  # what two methods share without privacy: as the first of them has it
        values[label, id][x][unit.seed] = float(row["metrics"][recipe.metric])
        settings[label] = {
            name: format_setting(one) for name, one in unit.settings.items() if name != "epsilon"
        }
        revisions[id] = unit.mechanism.revision
        seconds += float(row["seconds"])
    if not values:
        raise DpmcError(f"there is no row of {experiment.id} yet: {experiment.command} makes them")

    def point(found: Mapping[int, float]) -> Point:
        """Paired with those of other curves only where no seed is missing."""
        one = Point.of([found[seed] for seed in recipe.seeds if seed in found])
        return one if one.seeds == len(recipe.seeds) else one._replace(draws=())

    drawn = curves({of: {x: point(v) for x, v in one.items()} for of, one in values.items()})
    order = {id: place for place, id in enumerate(recipe.grid.mechanisms)}
    drawn.sort(key=lambda one: order.get(one.mechanism or "", -1))
    return _made(experiment, recipe, drawn, settings, revisions, seconds)


def of_pieces(
    experiment: Experiment,
    recipe: TrialRecipe,
    *,
    folder: Path | None = None,
    tell: Callable[[Way], None] = lambda _: None,
    stop: StopCheck | None = None,
) -> Made:
    """Do the pieces that are not done yet, then make the curves of all.

    folder: where pieces are kept (default: one's own). Raises Stopped, DpmcError where another
    process makes the same, OSError.
    """
    revisions = {id: registry.get_mechanism(id).revision for id in recipe.mechanisms}
    # Pieces of other seeds have other keys: they stay beside these.
    usual = recipe if experiment.recipe is None else experiment.recipe
    name, *rest = recipe.pool or (experiment.id, recipe.settings, list(usual.seeds), revisions)
    path = (folder or own_folder()) / f"{name}.pieces.jsonl"
    pieces = recipe.pieces()
    with _kept(path, digest_values(name, *rest)[:16]) as kept, stop_when(stop):
        tell(Way(len(pieces.keys() & kept), len(pieces)))
        for key, make in pieces.items():
            if key in kept:
                continue
            if stop is not None and stop():
                raise Stopped("stopped: finished pieces are kept")
            start = time.process_time()
            result = json.dumps(make(), default=lambda of: np.asarray(of).tolist())
            kept[key] = json.loads(result), time.process_time() - start
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, *kept[key]]) + "\n")
            tell(Way(len(pieces.keys() & kept), len(pieces)))
    series = recipe.series({key: kept[key][0] for key in pieces})
    seconds = sum(kept[key][1] for key in pieces)
    return _made(experiment, recipe, series, dict(recipe.settings), revisions, seconds)


@contextmanager
def _kept(path: Path, mark: str) -> Iterator[dict[str, tuple[Any, float]]]:
    """Results and seconds of the pieces in a file that begins with a mark, by key; of a file with
    another mark none: it was made with other settings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = locks.acquire_lock(path.with_suffix(".lock"))
    if lock is None:
        raise DpmcError(f"{path.stem.partition('.')[0]} is being made by another process already")
    with lock:
        first, *lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else [""]
        found, whole = {}, [mark]
        for line in lines if first == mark else ():
            with suppress(ValueError):  # cut off while it was written
                key, result, spent = json.loads(line)
                found[key] = result, spent
                whole.append(line)
        path.write_text("".join(f"{line}\n" for line in whole), encoding="utf-8")
        yield found


# --- files -------------------------------------------------------------------------------------


def own_folder() -> Path:
    """Where one's own results lie."""
    return paths.find_home_folder() / "papers"


def as_dict(made: Made) -> dict[str, Any]:
    """As plain JSON values."""
    return {
        "id": made.id,
        "stamp": made.stamp._asdict(),
        "series": [asdict(one) for one in made.series],
    }


def ready(folder: Path) -> None:
    """Make a folder for results where there is none: told before the work.

    Raises DpmcError, OSError.
    """
    if folder.exists() and not folder.is_dir():
        raise DpmcError(f"{folder} is a file: name a folder for the result")
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise DpmcError(f"{folder} cannot be written to: name another folder for the result")


def write(made: Made, folder: Path) -> Path:
    """A file for a result, whole or not at all. Raises DpmcError, OSError."""
    ready(folder)
    path = folder / f"{made.id}.json"
    id, stamp, series = as_dict(made).values()
    lines = ",\n".join(f"  {json.dumps(_short(one))}" for one in series)
    text = (
        f'{{\n "id": {json.dumps(id)},\n "stamp": {json.dumps(stamp)},\n'
        f' "series": [\n{lines}\n ]\n}}\n'
    )
    with paths.write_atomically(path) as part:
        part.write_text(text, encoding="utf-8")
    return path


def _short(value: Any) -> Any:
    """Numbers with the digits that matter."""
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_short(one) for one in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def read(path: Path) -> Made:
    """The result in a file. Raises BadRatings where it is not one of ours, OSError."""
    try:
        found = parse_json(path.read_text(encoding="utf-8"))
        series = tuple(map(_series, found["series"]))
        return Made(id=found["id"], series=series, stamp=Stamp(**found["stamp"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadRatings(
            f"{path} is no result of a paper's experiment, or damaged: remove it, or make it again"
        ) from None


def _series(found: Mapping[str, Any]) -> Series:
    one = facts.build_from_table(Series, found, "a curve")
    seeds = [len(draws) for draws in one.draws] or list(one.seeds)
    columns = (one.x, one.mean, one.low, one.high, seeds)
    if not one.x or {len(column) for column in columns} != {len(seeds)} or seeds != [*one.seeds]:
        raise ValueError(f"{one.label} has no place, or not one number and draw for each")
    return one


def shipped(id: str) -> Made | None:
    """The result that came with the program."""
    return _there(FOLDER / f"{id}.json")


def own(id: str) -> Made | None:
    """The result of one's own run."""
    return _there(own_folder() / f"{id}.json")


def there(experiment: Experiment, recipe: Recipe, folder: Path | None) -> bool:
    """Whether a recipe would make a result once more: one in a folder, one's own or the shipped."""
    id, seeds = experiment.id, format_seeds(recipe.seeds)
    made = _there(folder / f"{id}.json") if folder else own(id) or shipped(id)
    return bool(made and made.stamp.seeds == seeds and made.current and experiment.makes(made))


def forget(id: str) -> None:
    """Remove one's own result; its rows, or pieces, are kept. Raises OSError."""
    (own_folder() / f"{id}.json").unlink(missing_ok=True)


def _there(path: Path) -> Made | None:
    return read(path) if path.is_file() else None
