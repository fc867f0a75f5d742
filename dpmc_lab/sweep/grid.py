"""Expand a grid of data, mechanisms, settings, epsilons and seeds into units of work.

Here is also how these are spelled on the command line.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import registry
from dpmc_core.errors import (
    DpmcError,
    InvalidSetting,
    check_number,
    format_number,
    parse_number,
    unknown_name_error,
)
from dpmc_core.experiment import build_baselines, serialise_settings
from dpmc_core.model import Mechanism, Task
from dpmc_core.preparation import parse_step
from dpmc_core.problem import (
    LeaveLast,
    SharePerUser,
    Split,
    build_problem,
    choose_default_split,
)
from dpmc_core.registry import has_features_step
from dpmc_core.settings import format_setting, list_settings, serialise_setting
from dpmc_data.public_inputs import read_setting
from dpmc_lab.store import digest_values, drop_epsilon, unit_key
from dpmc_lab.sweep.sources import SweepData, open_source

MAX_UNITS = 200_000
MAX_VALUES = 10_000  # that a typed range can stand for
_MAX_TRIES = 5  # seeds whose split is tried
NUMBERS_LIMIT = "numbers > 0 separated by commas, or LO:HI:COUNT"
INTEGERS_LIMIT = "integers separated by commas, or {}"
DEFAULT_SEED = 1  # of a run, by command or in the app
MAX_SEED = 2**63 - 1  # the largest integer of a database column


@dataclass(frozen=True)
class Grid:
    """The arguments of `dpmc sweep` as plain values; every combination is a unit of work.

    The baseline and the nonprivate counterpart of each mechanism are added.

    Attributes:
        data: as `open_source` takes it.
        mechanisms: ids.
        epsilons: ignored for methods without one.
        seeds: of the splits and the noise.
        settings: texts to try by setting, for every mechanism that has it, or by
            'MECHANISM.setting'.
        steps: preparation as command-line text.
        split: None for the test ratings that come with the data, or else the default of each task.
        tests: official test ratings, one file for each of `data`, or none.
        reading: how files are read.
    """

    data: Sequence[str]
    mechanisms: Sequence[str]
    epsilons: Sequence[float] = ()
    seeds: Sequence[int] = (1, 2, 3, 4, 5)
    settings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    steps: Sequence[str] = ()
    split: Split | None = None
    tests: Sequence[str] = ()
    reading: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("data", "mechanisms", "epsilons", "seeds", "steps", "tests"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        settings = {name: tuple(texts) for name, texts in self.settings.items()}
        object.__setattr__(self, "settings", settings)
        for name in ("data", "mechanisms", "seeds"):
            if not getattr(self, name):
                raise InvalidSetting(name, "at least one: the grid is empty", "none")
        for id in self.mechanisms:
            registry.get_mechanism(id)
        if not self.epsilons and any(_adds_noise(id) for id in self.mechanisms):
            raise InvalidSetting("epsilons", "at least one: the grid is empty", "none")
        for epsilon in self.epsilons:
            check_number("epsilon", epsilon, above=0)
        for seed in self.seeds:
            check_number("seed", seed, at_least=0, at_most=MAX_SEED, integer=True)
        for step in self.steps:
            parse_step(step)
        for name, texts in self.settings.items():
            self._check_setting(name, texts)
        for id in self.mechanisms:
            self.parse_values(id)
        if self.tests and len(self.tests) != len(self.data):
            raise InvalidSetting("--test", "one file for each DATA", f"{len(self.tests)}")

    def argv(self) -> list[str]:
        """Return the arguments of `dpmc sweep`, as a researcher would type them."""
        arguments = ["--data", *self.data, "--mechanisms", ",".join(self.mechanisms)]
        if self.epsilons:
            arguments += ["--epsilons", ",".join(map(format_number, self.epsilons))]
        arguments += ["--seeds", format_seeds(self.seeds)]
        for name, texts in self.settings.items():
            arguments += ["--set", f"{name}={','.join(texts)}"]
        arguments += format_command_options(self.reading, self.steps, self.split)
        return [*arguments, "--test", *self.tests] if self.tests else arguments

    def as_published(self) -> Grid:
        """Return the grid with the settings of the papers, except for those that are given."""
        settings = dict(self.settings)
        for id in self.mechanisms:
            for name, value in registry.get_published_settings(id).settings.items():
                if not {name, f"{id}.{name}"} & set(self.settings):
                    settings[f"{id}.{name}"] = (format_setting(value),)
        return replace(self, settings=settings)

    def open_sources(self) -> list[SweepData]:
        """Read the data.

        Raises:
            DpmcError: the data cannot be used.
            OSError: a file cannot be read.
        """
        tests: Sequence[str | None] = self.tests or [None] * len(self.data)
        ranking = is_ranking_only(
            (registry.get_mechanism(id).task for id in self.mechanisms), self.steps
        )
        return [
            open_source(text, test, **self.reading, for_ranking=ranking)
            for text, test in zip(self.data, tests, strict=True)
        ]

    def _check_setting(self, name: str, texts: Sequence[str]) -> None:
        """Check that one of the mechanisms has a setting, and that there are values to try.

        Args:
            name: 'setting' or 'MECHANISM.setting'.
            texts: its values.

        Raises:
            InvalidSetting: no mechanism has it, or there is no value.
        """
        mechanism_id, _, setting_name = name.rpartition(".")
        if mechanism_id and mechanism_id not in self.mechanisms:
            raise unknown_name_error("mechanism of a setting", mechanism_id, self.mechanisms)
        if not any(_has_setting(name, id) for id in self.mechanisms):
            ids = [mechanism_id] if mechanism_id else self.mechanisms
            setting_names = {
                s.name for id in ids for s in list_settings(registry.get_mechanism(id))
            } - {"epsilon"}
            raise unknown_name_error(
                f"setting of {' or '.join(ids)}", setting_name, sorted(setting_names)
            )
        if not texts:
            raise InvalidSetting(name, "given at least one value", "none")

    def parse_values(self, id: str) -> dict[str, list[Any]]:
        """Return the values to try for each setting of a mechanism.

        Values for 'MECHANISM.setting' replace those for 'setting', which are for all mechanisms.
        """
        values = {}
        for name, texts in self.settings.items():
            mechanism_id, _, setting_name = name.rpartition(".")
            if _has_setting(name, id) and (
                mechanism_id or f"{id}.{setting_name}" not in self.settings
            ):
                values[setting_name] = [
                    read_setting(registry.get_mechanism(id), setting_name, text) for text in texts
                ]
        return values

    def create_variants(self, id: str) -> Iterator[Mechanism]:
        """Yield a mechanism with all combinations of settings, and of epsilons if it adds noise."""
        values = self.parse_values(id)
        epsilons: Sequence[float | None] = list(self.epsilons) if _adds_noise(id) else [None]
        for epsilon, *combination in itertools.product(epsilons, *values.values()):
            settings = dict(zip(values, combination, strict=True))
            budget = None if epsilon is None else float(epsilon)
            yield registry.create(id, epsilon=budget, **settings)


@dataclass(frozen=True, eq=False)
class Unit:
    """One run of a sweep: everything that a worker needs besides the data.

    Attributes:
        source: fingerprint of the data.
        name: of the data.
        steps: the whole preparation as command-line text.
        split: None where the test ratings are given.
        split_text: the split in words.
        mechanism: with its settings.
        seed: of the split and the noise.
    """

    source: str
    name: str
    steps: tuple[str, ...]
    split: Split | None
    split_text: str
    mechanism: Mechanism
    seed: int

    @cached_property
    def key(self) -> str:
        """Return a hash of the data, preparation, split, mechanism, revision, settings and seed.

        It determines the result of the unit, except for times.
        """
        return unit_key(*self._key_columns, self.settings, self.seed)

    @cached_property
    def curve_key(self) -> str:
        """Return the key of the unit's curve: the same hash without epsilon and seed."""
        return unit_key(*self._key_columns, drop_epsilon(self.settings))

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of the mechanism as plain JSON values."""
        return serialise_settings(self.mechanism)

    @property
    def epsilon(self) -> float | None:
        """Return the epsilon of the mechanism; None where it has none."""
        return getattr(self.mechanism, "epsilon", None)

    @property
    def _key_columns(self) -> tuple[str, list[str], str, str, int]:
        """Return the values that both the key of the unit and that of its curve hash."""
        mechanism = self.mechanism
        return self.source, list(self.steps), self.split_text, mechanism.id, mechanism.revision

    def __str__(self) -> str:
        epsilon_text = "" if self.epsilon is None else f" at epsilon {self.epsilon:g}"
        return f"{self.mechanism.id} on {self.name}{epsilon_text}, seed {self.seed}"


class PlanKeys(NamedTuple):
    """The keys under which a result store has the rows of a plan.

    Attributes:
        name: key of the whole plan.
        units: keys of its units.
        curves: mechanism ids by the key of the curve.
    """

    name: str
    units: tuple[str, ...]
    curves: Mapping[str, str]


class Plan(NamedTuple):
    """The units of a grid, each once, with the sources they run on by fingerprint."""

    units: tuple[Unit, ...]
    sources: Mapping[str, SweepData]

    @property
    def keys(self) -> PlanKeys:
        """Return the keys of the plan, which are small enough to be kept."""
        units = tuple(unit.key for unit in self.units)
        curves = {unit.curve_key: unit.mechanism.id for unit in self.units}
        return PlanKeys(digest_values(sorted(units))[:16], units, curves)


def build_plan(grid: Grid, data: Sequence[SweepData] | None = None) -> Plan:
    """Return the units of work, in an order that shows the whole curve early and then fills it.

    For each seed, methods without epsilon come first, then the ends of the epsilons, their middle,
    the quarters, and so on.

    Args:
        grid: the grid.
        data: the data that the grid names, if they have been read already.

    Raises:
        DpmcError: the data cannot be read, or the preparation does not fit them.
        OSError: a file cannot be read.
    """
    source_by_fingerprint = {
        s.fingerprint: s for s in (grid.open_sources() if data is None else data)
    }
    methods = [list(grid.create_variants(id)) for id in grid.mechanisms]
    count = sum(map(len, methods)) * len(grid.seeds) * len(source_by_fingerprint)
    if count > MAX_UNITS:
        raise InvalidSetting("size of the grid", f"<= {MAX_UNITS:,} units", f"{count:,}")
    ordered_methods = list(_order_methods([m for variants in methods for m in variants], grid))

    # Each combination is tried only once.
    try_preparation = cache(partial(_try_preparation, grid))
    units: dict[str, Unit] = {}
    for seed, (fingerprint, source), mechanism in itertools.product(
        grid.seeds, source_by_fingerprint.items(), ordered_methods
    ):
        preparation = try_preparation(source, mechanism.task, type(mechanism).uses_item_features)
        unit = Unit(fingerprint, source.name, *preparation, mechanism, seed)
        units.setdefault(unit.key, unit)
    return Plan(tuple(units.values()), source_by_fingerprint)


def _try_preparation(
    grid: Grid, source: SweepData, task: Task, takes_item_features: bool
) -> tuple[tuple[str, ...], Split | None, str]:
    """Try the preparation of a task on the data of a source.

    Tiny data may have splits that cannot be prepared, so a few seeds are tried.

    Args:
        grid: the grid.
        source: the data.
        task: the task.
        takes_item_features: whether the method uses item features.

    Returns:
        All steps of the preparation as text, the split (None where the test ratings are given), and
        the split in words.

    Raises:
        DpmcError: the preparation fails for every seed that is tried.
    """
    first_error: DpmcError | None = None
    for seed in grid.seeds[:_MAX_TRIES]:
        ratings = source.for_seed(seed)
        split = None if isinstance(ratings, tuple) else grid.split or choose_default_split(task)
        if isinstance(ratings, tuple) and grid.split is not None:
            raise InvalidSetting(
                "split", f"left out: {source.name} has test ratings", str(grid.split)
            )
        steps = [
            parse_step(step)
            for step in grid.steps
            if takes_item_features or not has_features_step([step])
        ]
        try:
            problem = build_problem(ratings, task, steps=steps, split=split, seed=seed)
        except DpmcError as error:
            first_error = first_error or error
            continue
        return problem.steps, split, problem.split
    assert first_error is not None  # a grid has seeds
    raise first_error


def _has_setting(name: str, id: str) -> bool:
    """Return whether a mechanism has the setting that 'setting' or 'MECHANISM.setting' names."""
    mechanism_id, _, setting_name = name.rpartition(".")
    if setting_name == "epsilon" or mechanism_id not in ("", id):
        return False
    return registry.has_setting(registry.get_mechanism(id), setting_name)


def _adds_noise(id: str) -> bool:
    """Return whether the mechanism with this id adds noise, and so has an epsilon."""
    return registry.adds_noise(registry.get_mechanism(id))


def _order_methods(methods: Sequence[Mechanism], grid: Grid) -> Iterator[Mechanism]:
    """Yield the methods in the order in which they run, each after its baselines.

    Methods without noise come first, then the others by epsilon, from coarse to fine.
    """
    by_epsilon: dict[float, list[Mechanism]] = {}
    for method in itertools.chain.from_iterable(
        (*build_baselines(method, grid.steps), method) for method in methods
    ):
        if not _adds_noise(method.id):
            yield method
        else:
            by_epsilon.setdefault(method.epsilon, []).append(method)  # type: ignore[attr-defined]
    for epsilon in order_coarse_to_fine(grid.epsilons):
        yield from by_epsilon.pop(float(epsilon), [])


def order_coarse_to_fine(values: Sequence[float]) -> Iterator[float]:
    """Yield each value once: the smallest, the largest, and then always the middle of a gap.

    Gaps are halved breadth first.
    """
    ordered = sorted(dict.fromkeys(values))
    gaps = [(0, len(ordered) - 1)]
    yield from dict.fromkeys(ordered[:1] + ordered[-1:])
    while gaps:
        low, high = gaps.pop(0)
        if high - low > 1:
            middle = (low + high) // 2
            yield ordered[middle]
            gaps += [(low, middle), (middle, high)]


def parse_epsilons(texts: Sequence[str], name: str = "--epsilons") -> tuple[float, ...]:
    """Parse 0.5,1,2 or LO:HI:COUNT, and return the epsilons in increasing order.

    The second form stands for COUNT numbers that are evenly spaced in the logarithm and rounded to
    3 digits.

    Args:
        texts: what was typed.
        name: what the user calls the list.

    Raises:
        InvalidSetting: a text is no such list.
    """
    epsilons: list[float] = []
    for word in split_values(texts):
        if ":" in word:
            epsilons += _parse_log_range(word, name)
        else:
            epsilons.append(parse_number(float, word, name, NUMBERS_LIMIT))
            check_number("epsilon", epsilons[-1], above=0)
    if not epsilons:
        raise InvalidSetting(name, "at least one number", " ".join(texts))
    return tuple(sorted(dict.fromkeys(epsilons)))


def parse_seeds(texts: Sequence[str]) -> tuple[int, ...]:
    """Parse --seeds 1,2,3 or FIRST:LAST, where both ends are included.

    Raises:
        InvalidSetting: a text is no such list.
    """
    name = "--seeds"
    seeds: list[int] = []
    for word in split_values(texts):
        first, colon, last = word.partition(":")
        limit = INTEGERS_LIMIT.format("FIRST:LAST")
        low = parse_number(int, first, name, limit)
        high = parse_number(int, last, name, limit) if colon else low
        if not low <= high < low + MAX_VALUES:
            limit = f"FIRST:LAST with FIRST <= LAST, {MAX_VALUES:,} at most"
            raise InvalidSetting(name, limit, word)
        seeds += range(low, high + 1)
    if not seeds:
        raise InvalidSetting(name, "at least one integer", " ".join(texts))
    return tuple(dict.fromkeys(seeds))


def split_values(texts: Sequence[str]) -> list[str]:
    """Split texts at commas and spaces."""
    return [value for text in texts for value in text.replace(",", " ").split()]


def _parse_log_range(word: str, name: str) -> list[float]:
    """Parse LO:HI:COUNT, see `parse_epsilons`."""
    texts = word.split(":")
    if len(texts) != 3:
        raise InvalidSetting(name, "numbers or LO:HI:COUNT, for example 0.1:10:11", word)
    low, high = (parse_number(float, text, name, NUMBERS_LIMIT) for text in texts[:2])
    count = parse_number(int, texts[2], name, INTEGERS_LIMIT.format("LO:HI:COUNT"))
    check_number("epsilon", low, above=0)
    check_number("epsilon", high, above=0)
    check_number(f"COUNT of {name}", count, at_least=2, at_most=MAX_VALUES, integer=True)
    if low >= high:
        raise InvalidSetting(name, "LO:HI:COUNT with LO < HI", word)
    # Three digits are enough between the ends, which stay as they were typed.
    return [low, *(float(f"{x:.3g}") for x in np.geomspace(low, high, count)[1:-1]), high]


def format_seeds(seeds: Sequence[int]) -> str:
    """Return seeds as they are typed; the inverse of `parse_seeds`."""
    is_range = len(seeds) > 1 and tuple(seeds) == tuple(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]}:{seeds[-1]}" if is_range else ",".join(map(str, seeds))


def is_ranking_only(tasks: Iterable[Task], steps: Iterable[str]) -> bool:
    """Return whether only the presence of ratings matters, so that their file needs no range.

    That is so if all tasks are rankings and the only step that changes values is `implicit=all`.
    """
    shaping_steps = {
        text for text in steps if not text.startswith(("top-items", "cap", "features"))
    }
    return set(tasks) == {Task.RANKING} and shaping_steps <= {"implicit=all"}


def format_command_options(
    reading: Mapping[str, Any], steps: Iterable[str], split: Split | None
) -> list[str]:
    """Return the options of the command line for reading, preparing and splitting data.

    Args:
        reading: reading options, as `datasets.load` takes them.
        steps: the preparation steps as texts.
        split: the split; None if none was given.
    """
    chosen = {
        name: serialise_setting(value)
        for name, value in reading.items()
        # Limits of memory are left out, and what the task decides.
        if value is not None and not name.startswith("max_") and name != "for_ranking"
    }
    options = []
    if "low" in chosen:  # with = because the value may begin with a minus
        ends = (format_number(chosen.pop(end)) for end in ("low", "high"))
        options.append(f"--range={':'.join(ends)}")
    if isinstance(chosen.get("items"), str):  # a table; of a generated set it is a number
        options += ["--items", chosen.pop("items")]
    for name, value in chosen.items():
        options += ["--read", f"{name}={value}"]
    for step in steps:
        options += ["--prepare", step]
    return options if split is None else options + _list_split_options(split)


def _list_split_options(split: Split) -> list[str]:
    """Return the options of the command line that choose a split."""
    if isinstance(split, LeaveLast):
        return ["--leave-last"]
    option = "--holdout-per-user" if isinstance(split, SharePerUser) else "--holdout"
    return [option, format_number(split.share)]


def build_sweep_command(grid: Grid, *, store: Path | None = None) -> list[str]:
    """Return the command of a child process that sweeps a grid and prints its progress as JSON.

    Args:
        grid: the grid.
        store: path of the result store (default: the user's).
    """
    location = [] if store is None else ["--store", str(store)]
    return [sys.executable, "-m", "dpmc_lab", "sweep", *grid.argv(), *location, "--json"]
