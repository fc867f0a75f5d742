"""Making an experiment: what is done is kept, and the same call goes on from there."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.lab import locks, store, sweep
from dpmc_core.lab.papers import results
from dpmc_core.lab.papers.frame import (
    Experiment,
    GridRecipe,
    Made,
    PieceRecipe,
    Point,
    Series,
    Stamp,
)
from dpmc_core.lab.store import Store, digest
from dpmc_core.lab.sweep import Plan, Unit, seeds_text
from dpmc_core.lab.views.lines import Interval, interval
from dpmc_core.paths import version
from dpmc_core.settings import setting_text
from dpmc_core.stopping import Stop, Stopped, stopping


class Way(NamedTuple):
    """How far the making of an experiment is, in runs or pieces."""

    done: int
    total: int


Far = Callable[[Way], None]


def recipe_of(
    experiment: Experiment, seeds: Sequence[int] | None = None
) -> GridRecipe | PieceRecipe:
    """Its recipe, with other seeds where they are given. Raises DpmcError where it has none."""
    recipe = experiment.recipe
    if recipe is None:
        raise DpmcError(f"{experiment.id} cannot be made here: {experiment.not_run}")
    if seeds is None:
        return recipe
    if isinstance(recipe, GridRecipe):
        return replace(recipe, grid=replace(recipe.grid, seeds=tuple(seeds)))
    return replace(recipe, seeds=tuple(seeds))


def command(experiment: Experiment, seeds: Sequence[int]) -> str:
    """What makes it with these seeds, as it is typed."""
    usual = experiment.recipe is not None and experiment.recipe.seeds == tuple(seeds)
    return experiment.command + ("" if usual else f" --seeds {seeds_text(tuple(seeds))}")


# --- from rows of the store --------------------------------------------------------------------


def of_rows(
    experiment: Experiment,
    recipe: GridRecipe,
    plan: Plan,
    opened: Store,
) -> Made:
    """The curves of a plan's rows, as far as they are there. Raises DpmcError where none is."""
    rows = _rows(plan, opened, recipe.metric)
    values: dict[tuple[str, str], dict[float | None, dict[int, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    curves: dict[tuple[str, float | None], str] = {}
    settings: dict[str, Any] = {}
    revisions: dict[str, int] = {}
    seconds = 0.0
    for unit in plan.units:
        label = recipe.label(unit)
        if label is None or unit.key not in rows:
            continue
        value, spent = rows[unit.key]
        id, x = unit.mechanism.id, recipe.x(unit)
        if curves.setdefault((label, x), unit.curve) != unit.curve:
            if registry.adds_noise(type(unit.mechanism)):
                raise DpmcError(f"{label} of {experiment.id} stands for more than one setting")
            continue  # what two methods share without privacy: as the first of them has it
        values[label, id][x][unit.seed] = value
        settings[label] = {
            name: setting_text(one) for name, one in unit.settings.items() if name != "epsilon"
        }
        revisions[id] = unit.mechanism.revision
        seconds += spent
    if not values:
        raise DpmcError(f"there is no row of {experiment.id} yet: {experiment.command} makes them")
    places = [x for points in values.values() for x in points if x is not None]
    series = []

    def point(found: Mapping[int, float]) -> Interval:
        """Paired with those of other curves only where no seed is missing."""
        in_order = [found[seed] for seed in recipe.seeds if seed in found]
        return (Point.of if len(in_order) == len(recipe.seeds) else interval)(in_order)

    for (label, id), points in values.items():
        if None in points:  # holds at every x
            level = point(points[None])
            ends = dict.fromkeys((min(places, default=0.0), max(places, default=1.0)), level)
            series.append(Series.of(label, ends, id, level=True))
        else:
            series.append(
                Series.of(label, {x: point(v) for x, v in points.items() if x is not None}, id)
            )
    order = list(dict.fromkeys(recipe.grid.mechanisms))
    series.sort(key=lambda one: order.index(one.mechanism) if one.mechanism in order else -1)
    stamp = Stamp(
        version(),
        command(experiment, recipe.seeds),
        settings,
        seeds_text(recipe.seeds),
        revisions,
        round(seconds, 1),
    )
    return Made(id=experiment.id, series=tuple(series), stamp=stamp)


def _rows(plan: Plan, opened: Store, metric: str) -> dict[str, tuple[float, float]]:
    """The metric and the seconds of each unit that has a row, by its key."""
    wanted = {unit.key for unit in plan.units}
    ids = [info.id for info in store.curves(opened, keys=plan.keys.curves, count=False)]
    return {
        row["key"]: (float(row["metrics"][metric]), float(row["seconds"]))
        for row in store.records(opened, ids)
        if row["key"] in wanted and row["metrics"].get(metric) is not None
    }


# --- from pieces -------------------------------------------------------------------------------


def of_pieces(
    experiment: Experiment,
    recipe: PieceRecipe,
    *,
    folder: Path | None = None,
    tell: Far = lambda _: None,
    stop: Stop | None = None,
) -> Made:
    """Do the pieces that are not done yet, then make the curves of all.

    folder: where pieces are kept (default: one's own). Raises Stopped, DpmcError where another
    process makes the same, OSError.
    """
    folder = results.own_folder() if folder is None else folder
    revisions = {id: registry.get(id).revision for id in recipe.mechanisms}
    # Pieces of other seeds have other keys: they stay beside these.
    usual = recipe if experiment.recipe is None else experiment.recipe
    own = (experiment.id, recipe.settings, list(usual.seeds), revisions)
    name, *rest = recipe.pool or own
    pieces = list(recipe.pieces(recipe.seeds))
    with _kept(folder / f"{name}.pieces.jsonl", digest(name, *rest)[:16]) as kept:
        found = kept.found
        tell(Way(sum(piece.key in found for piece in pieces), len(pieces)))
        with stopping(stop):
            for piece in pieces:
                if piece.key in found:
                    continue
                if stop is not None and stop():
                    raise Stopped("stopped: finished pieces are kept")
                start = time.process_time()
                result = _plain(piece.make())
                spent = time.process_time() - start
                kept.add(piece.key, result, spent)
                tell(Way(sum(one.key in found for one in pieces), len(pieces)))
    stamp = Stamp(
        version(),
        command(experiment, recipe.seeds),
        dict(recipe.settings),
        seeds_text(recipe.seeds),
        revisions,
        round(sum(kept.seconds[piece.key] for piece in pieces), 1),
    )
    series = recipe.series({piece.key: found[piece.key] for piece in pieces})
    return Made(id=experiment.id, series=series, stamp=stamp)


class _Pieces:
    """The pieces of a file that belong to the mark it begins with."""

    def __init__(self, path: Path, mark: str) -> None:
        self._path = path
        self.found: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        whole = [mark]
        for line in lines[1:] if lines[:1] == [mark] else ():  # else made with other settings
            try:
                key, result, spent = json.loads(line)
            except ValueError:  # cut off while it was written
                continue
            self.found[key], self.seconds[key] = result, spent
            whole.append(line)
        path.write_text("".join(f"{line}\n" for line in whole), encoding="utf-8")

    def add(self, key: str, result: Any, spent: float) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, result, spent]) + "\n")
        self.found[key], self.seconds[key] = result, spent


@contextmanager
def _kept(path: Path, mark: str) -> Iterator[_Pieces]:
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = locks.hold(path.with_suffix(".lock"))
    if lock is None:
        raise DpmcError(f"{path.stem.partition('.')[0]} is being made by another process already")
    with lock:
        yield _Pieces(path, mark)


def _plain(value: Any) -> Any:
    """What JSON holds: arrays become lists."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def planned(recipe: GridRecipe) -> Plan:
    """The runs behind curves. Raises DpmcError where the data cannot be read, OSError."""
    plan = sweep.plan(recipe.grid)
    wanted: list[Unit] = [unit for unit in plan.units if recipe.label(unit) is not None]
    return plan._replace(units=tuple(wanted))
