"""A grid of data, mechanisms, settings, epsilons and seeds, and the units of work it stands for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dpmc_core import registry
from dpmc_core.data import parse_step
from dpmc_core.errors import DpmcError, InvalidSetting, check_number, unknown_name
from dpmc_core.experiment import baselines_of
from dpmc_core.model import Mechanism, Task
from dpmc_core.problem import Split, build_problem, default_split
from dpmc_core.settings import parse_setting, settings_of
from dpmc_core.sweep.source import Source
from dpmc_core.sweep.unit import Unit

MOST_UNITS = 200_000
_TRIES = 5
LARGEST_SEED = 2**63 - 1  # what a database column holds


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Every combination is a unit of work; the floor and the twin of each mechanism come along.

    epsilons: unused by methods without one. settings: texts to try, by setting, which reach every
    mechanism that has it, or by 'MECHANISM.setting'. steps: preparation as command-line text.
    split: None for the test ratings that a source brings, else for the default of each task.
    """

    sources: Sequence[Source]
    mechanisms: Sequence[str]
    epsilons: Sequence[float] = ()
    seeds: Sequence[int] = (1,)
    settings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    steps: Sequence[str] = ()
    split: Split | None = None

    def __post_init__(self) -> None:
        for name in ("sources", "mechanisms", "seeds"):
            if not getattr(self, name):
                raise InvalidSetting(name, "at least one: the grid is empty", "none")
        for id in self.mechanisms:
            registry.get(id)
        if not self.epsilons and any(_noisy(id) for id in self.mechanisms):
            raise InvalidSetting("epsilons", "at least one: the grid is empty", "none")
        for epsilon in self.epsilons:
            check_number("epsilon", epsilon, above=0)
        for seed in self.seeds:
            check_number("seed", seed, at_least=0, at_most=LARGEST_SEED, integer=True)
        for step in self.steps:
            parse_step(step)
        for name, texts in self.settings.items():
            self._check_setting(name, texts)

    def _check_setting(self, name: str, texts: Sequence[str]) -> None:
        only, _, plain = name.rpartition(".")
        if only and only not in self.mechanisms:
            raise unknown_name("mechanism of a setting", only, self.mechanisms)
        having = [id for id in self.mechanisms if _applies(name, id)]
        if not having:
            ids = [only] if only else self.mechanisms
            known = {s.name for id in ids for s in settings_of(registry.get(id))} - {"epsilon"}
            raise unknown_name(f"setting of {' or '.join(ids)}", plain, sorted(known))
        if not texts:
            raise InvalidSetting(name, "given at least one value", "none")
        for id, text in itertools.product(having, texts):
            if only or f"{id}.{plain}" not in self.settings:  # else it has values of its own
                parse_setting(registry.get(id), plain, text)


class Plan(NamedTuple):
    """The units of a grid, each once, with the sources they run on by fingerprint."""

    units: tuple[Unit, ...]
    sources: Mapping[str, Source]

    @property
    def curves(self) -> tuple[str, ...]:
        """Keys of the curves the units belong to, in order."""
        return tuple(dict.fromkeys(unit.curve for unit in self.units))


def plan(grid: Grid) -> Plan:
    """The units of work, in an order that shows the whole curve early and then fills it.

    Seed by seed: first what needs no epsilon, then the ends of the epsilons, their middle, the
    quarters. Raises DpmcError where the preparation does not fit the data.
    """
    sources = {source.fingerprint: source for source in grid.sources}
    methods = [list(_variants(grid, id)) for id in grid.mechanisms]
    count = sum(map(len, methods)) * len(grid.seeds) * len(sources)
    if count > MOST_UNITS:
        raise InvalidSetting("size of the grid", f"<= {MOST_UNITS:,} units", f"{count:,}")
    settled = {
        (mark, task): _settle(grid, source, task)
        for mark, source in sources.items()
        for task in dict.fromkeys(m.task for variants in methods for m in variants)
    }
    order = list(_spread([m for variants in methods for m in variants], grid.epsilons))
    units: dict[str, Unit] = {}
    for seed, (mark, source), mechanism in itertools.product(grid.seeds, sources.items(), order):
        steps, split = settled[mark, mechanism.task]
        unit = Unit(mark, source.name, steps, split, mechanism, seed)
        units.setdefault(unit.key, unit)
    return Plan(tuple(units.values()), sources)


def _settle(grid: Grid, source: Source, task: Task) -> tuple[tuple[str, ...], Split | None]:
    """The whole preparation of a task, and the split, tried out before anything runs.

    Tiny data may have splits that cannot be prepared: a few seeds get their chance.
    """
    first: DpmcError | None = None
    for seed in grid.seeds[:_TRIES]:
        ratings = source.at(seed)
        split = None if isinstance(ratings, tuple) else grid.split or default_split(task)
        if isinstance(ratings, tuple) and grid.split is not None:
            limit = f"left out: {source.name} has test ratings"
            raise InvalidSetting("split", limit, str(grid.split))
        steps = [parse_step(step) for step in grid.steps]
        try:
            problem = build_problem(ratings, task, steps=steps, split=split, seed=seed)
        except DpmcError as error:
            first = first or error
            continue
        return problem.steps, split
    assert first is not None  # a grid has seeds
    raise first


def _variants(grid: Grid, id: str) -> Iterator[Mechanism]:
    cls = registry.get(id)
    values: dict[str, list[Any]] = {}
    for name, texts in grid.settings.items():
        only, _, plain = name.rpartition(".")
        if _applies(name, id) and (only or f"{id}.{plain}" not in grid.settings):
            values[plain] = [parse_setting(cls, plain, text) for text in texts]
    epsilons: Sequence[float | None] = list(grid.epsilons) if _noisy(id) else [None]
    for epsilon, *chosen in itertools.product(epsilons, *values.values()):
        settings = dict(zip(values, chosen, strict=True))
        yield registry.create(id, epsilon=None if epsilon is None else float(epsilon), **settings)


def _applies(name: str, id: str) -> bool:
    only, _, plain = name.rpartition(".")
    if plain == "epsilon" or only not in ("", id):
        return False
    return registry.has_setting(registry.get(id), plain)


def _noisy(id: str) -> bool:
    return registry.has_setting(registry.get(id), "epsilon")


def _spread(methods: Sequence[Mechanism], epsilons: Sequence[float]) -> Iterator[Mechanism]:
    """Floors, twins and whatever has no epsilon, then the others from coarse to fine."""
    yield from itertools.chain.from_iterable(baselines_of(m) for m in methods)
    yield from (m for m in methods if not _noisy(m.id))
    by_epsilon: dict[float, list[Mechanism]] = {}
    for m in methods:
        if _noisy(m.id):
            by_epsilon.setdefault(m.epsilon, []).append(m)  # type: ignore[attr-defined]
    for epsilon in coarse_to_fine(epsilons):
        yield from by_epsilon.pop(float(epsilon), [])


def coarse_to_fine(values: Sequence[float]) -> Iterator[float]:
    """Both ends, then the middle of every gap, again and again: each value once."""
    ordered = sorted(dict.fromkeys(values))
    gaps = [(0, len(ordered) - 1)]
    yield from dict.fromkeys(ordered[:1] + ordered[-1:])
    while gaps:
        low, high = gaps.pop(0)
        if high - low > 1:
            middle = (low + high) // 2
            yield ordered[middle]
            gaps += [(low, middle), (middle, high)]
