"""Making an experiment, from rows of the store or piece by piece, and its result as a small file.

What is done is kept, and the same call goes on from there. Results hold metrics alone. Shipped ones
are made by `dpmc papers ID --run --write sample_data/papers`; one's own lie below DPMC_HOME.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import paths, registry
from dpmc_core.archives import read_json
from dpmc_core.errors import BadRatings, DpmcError
from dpmc_core.lab import locks, store, sweep
from dpmc_core.lab.papers.frame import (
    Experiment,
    GridRecipe,
    Made,
    PieceRecipe,
    Point,
    Recipe,
    Series,
    Stamp,
    curves,
)
from dpmc_core.lab.store import Store, digest
from dpmc_core.lab.sweep import Plan, seeds_text
from dpmc_core.lab.views.lines import Interval, interval
from dpmc_core.paths import version
from dpmc_core.settings import setting_text
from dpmc_core.stopping import Stop, Stopped, stopping

FOLDER = Path(__file__).resolve().parents[3] / "sample_data" / "papers"  # also in a wheel
_DIGITS = 7


class Way(NamedTuple):
    """How far the making of an experiment is, in runs or pieces."""

    done: int
    total: int


def recipe_of(experiment: Experiment, seeds: Sequence[int] | None = None) -> Recipe:
    """Its recipe, with other seeds where they are given. Raises DpmcError where it has none."""
    recipe = experiment.recipe
    if recipe is None:
        raise DpmcError(f"{experiment.id} cannot be made here: {experiment.not_run}")
    if seeds is None:
        return recipe
    if isinstance(recipe, GridRecipe):
        return replace(recipe, grid=replace(recipe.grid, seeds=tuple(seeds)))
    return replace(recipe, seeds=tuple(seeds))


def _stamp(
    experiment: Experiment,
    seeds: Sequence[int],
    settings: Mapping[str, Any],
    revisions: Mapping[str, int],
    seconds: float,
) -> Stamp:
    usual = experiment.recipe is not None and experiment.recipe.seeds == tuple(seeds)
    typed = seeds_text(tuple(seeds))
    command = experiment.command + ("" if usual else f" --seeds {typed}")
    return Stamp(version(), command, settings, typed, revisions, round(seconds, 1))


# --- from rows of the store --------------------------------------------------------------------


def planned(recipe: GridRecipe) -> Plan:
    """The runs behind curves. Raises DpmcError where the data cannot be read, OSError."""
    plan = sweep.plan(recipe.grid)
    units = (unit for unit in plan.units if recipe.label(unit) is not None)
    return plan._replace(units=tuple(units))


def of_rows(experiment: Experiment, recipe: GridRecipe, plan: Plan, opened: Store) -> Made:
    """The curves of a plan's rows, as far as they are there. Raises DpmcError where none is."""
    ids = [info.id for info in store.curves(opened, keys=plan.keys.curves, count=False)]
    rows = {row["key"]: row for row in store.records(opened, ids)}
    values: dict[tuple[str, str], dict[float | None, dict[int, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    lines: dict[tuple[str, float | None], str] = {}
    settings: dict[str, Any] = {}
    revisions: dict[str, int] = {}
    seconds = 0.0
    for unit in plan.units:
        label, row = recipe.label(unit), rows.get(unit.key)
        if label is None or row is None or row["metrics"].get(recipe.metric) is None:
            continue
        id, x = unit.mechanism.id, recipe.place(unit)
        if lines.setdefault((label, x), unit.curve) != unit.curve:
            if registry.adds_noise(type(unit.mechanism)):
                raise DpmcError(f"{label} of {experiment.id} stands for more than one setting")
            continue  # what two methods share without privacy: as the first of them has it
        values[label, id][x][unit.seed] = float(row["metrics"][recipe.metric])
        settings[label] = {
            name: setting_text(one) for name, one in unit.settings.items() if name != "epsilon"
        }
        revisions[id] = unit.mechanism.revision
        seconds += float(row["seconds"])
    if not values:
        raise DpmcError(f"there is no row of {experiment.id} yet: {experiment.command} makes them")

    def point(found: Mapping[int, float]) -> Interval:
        """Paired with those of other curves only where no seed is missing."""
        in_order = [found[seed] for seed in recipe.seeds if seed in found]
        return (Point.of if len(in_order) == len(recipe.seeds) else interval)(in_order)

    drawn = curves({of: {x: point(v) for x, v in one.items()} for of, one in values.items()})
    order = {id: place for place, id in enumerate(recipe.grid.mechanisms)}
    series = sorted(drawn, key=lambda one: order.get(one.mechanism or "", -1))
    stamp = _stamp(experiment, recipe.seeds, settings, revisions, seconds)
    return Made(id=experiment.id, series=tuple(series), stamp=stamp)


# --- from pieces -------------------------------------------------------------------------------


def of_pieces(
    experiment: Experiment,
    recipe: PieceRecipe,
    *,
    folder: Path | None = None,
    tell: Callable[[Way], None] = lambda _: None,
    stop: Stop | None = None,
) -> Made:
    """Do the pieces that are not done yet, then make the curves of all.

    folder: where pieces are kept (default: one's own). Raises Stopped, DpmcError where another
    process makes the same, OSError.
    """
    revisions = {id: registry.get(id).revision for id in recipe.mechanisms}
    # Pieces of other seeds have other keys: they stay beside these.
    usual = recipe if experiment.recipe is None else experiment.recipe
    name, *rest = recipe.pool or (experiment.id, recipe.settings, list(usual.seeds), revisions)
    path = (folder or own_folder()) / f"{name}.pieces.jsonl"
    pieces = list(recipe.pieces(recipe.seeds))
    with _kept(path, digest(name, *rest)[:16]) as kept, stopping(stop):
        tell(Way(sum(piece.key in kept for piece in pieces), len(pieces)))
        for piece in pieces:
            if piece.key in kept:
                continue
            if stop is not None and stop():
                raise Stopped("stopped: finished pieces are kept")
            start = time.process_time()
            result = json.dumps(piece.make(), default=lambda of: np.asarray(of).tolist())
            kept[piece.key] = json.loads(result), time.process_time() - start
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([piece.key, *kept[piece.key]]) + "\n")
            tell(Way(sum(one.key in kept for one in pieces), len(pieces)))
    results = {piece.key: kept[piece.key][0] for piece in pieces}
    seconds = sum(kept[piece.key][1] for piece in pieces)
    stamp = _stamp(experiment, recipe.seeds, dict(recipe.settings), revisions, seconds)
    return Made(id=experiment.id, series=recipe.series(results), stamp=stamp)


@contextmanager
def _kept(path: Path, mark: str) -> Iterator[dict[str, tuple[Any, float]]]:
    """Results and seconds of the pieces in a file that begins with a mark, by key; of a file with
    another mark none: it was made with other settings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = locks.hold(path.with_suffix(".lock"))
    if lock is None:
        raise DpmcError(f"{path.stem.partition('.')[0]} is being made by another process already")
    with lock:
        first, *lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else [""]
        found, whole = {}, [mark]
        for line in lines if first == mark else ():
            try:
                key, result, spent = json.loads(line)
            except ValueError:  # cut off while it was written
                continue
            found[key] = result, spent
            whole.append(line)
        path.write_text("".join(f"{line}\n" for line in whole), encoding="utf-8")
        yield found


# --- files -------------------------------------------------------------------------------------


def own_folder() -> Path:
    """Where one's own results lie."""
    return paths.home() / "papers"


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
    found = as_dict(made)
    lines = ",\n".join(f"  {json.dumps(_short(one))}" for one in found["series"])
    text = (
        f'{{\n "id": {json.dumps(made.id)},\n "stamp": {json.dumps(found["stamp"])},\n'
        f' "series": [\n{lines}\n ]\n}}\n'
    )
    with paths.whole_file(path) as part:
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
        found = read_json(path.read_text(encoding="utf-8"))
        series = tuple(map(_series, found["series"]))
        return Made(id=found["id"], series=series, stamp=Stamp(**found["stamp"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadRatings(
            f"{path} is no result of a paper's experiment, or damaged: remove it, or make it again"
        ) from None


def _series(found: dict[str, Any]) -> Series:
    one = Series(**{name: _whole(value) for name, value in found.items()})
    columns = np.array((one.x, one.mean, one.low, one.high, one.seeds), dtype=float)
    if not columns.size:
        raise ValueError(f"{one.label} has no place")
    if one.draws and [len(draws) for draws in one.draws] != list(one.seeds):
        raise ValueError(f"{one.label} has not one draw for each seed")
    return one


def _whole(value: Any) -> Any:
    """Lists as tuples, as they were written."""
    return tuple(map(_whole, value)) if isinstance(value, list) else value


def shipped(id: str) -> Made | None:
    """The result that came with the program."""
    return _there(FOLDER / f"{id}.json")


def own(id: str) -> Made | None:
    """The result of one's own run."""
    return _there(own_folder() / f"{id}.json")


def forget(id: str) -> None:
    """Remove one's own result; its rows, or pieces, are kept. Raises OSError."""
    (own_folder() / f"{id}.json").unlink(missing_ok=True)


def _there(path: Path) -> Made | None:
    return read(path) if path.is_file() else None
