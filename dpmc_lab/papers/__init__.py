"""Five papers: every figure and table, what is printed beside ours, and two verdicts each.

What a paper prints and says, and the grids of runs that stand beside it, are in its TOML file; what
is computed specially for it is in its module.

In a file `[shared]` holds what is written once: {NAME} in a text stands for it; a text that is
{NAME} alone is replaced by whatever that is, and {*NAME} in a list by the items of another list.
`like` names a table of `[likes]` that an experiment completes, `each` the tables that one stands
for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import ModuleType
from typing import Any

from dpmc_core import facts
from dpmc_core.data import public_sets
from dpmc_core.errors import unknown_name_error
from dpmc_core.privacy import Change
from dpmc_core.problem import RandomShare
from dpmc_core.ratings import PublicFacts
from dpmc_lab.papers import engine, hxz15, jtt18, lwhm22, ryhh24, verdicts, z16
from dpmc_lab.papers.engine import (
    Experiment,
    GridRecipe,
    Paper,
    Printed,
    Promise,
    Statement,
    TheoryRow,
    TrialRecipe,
)
from dpmc_lab.sweep import Grid, parse_seeds
from dpmc_lab.sweep.presets import Preset

_FIELDS = {field.name for field in dataclasses.fields(Experiment)}


def _read(module: ModuleType) -> Paper:
    """A paper from its file. Raises ValueError where that is not as it has to be."""
    name = module.__name__.rpartition(".")[2]
    table = facts.load_toml(__name__, f"{name}.toml")
    shared, likes = table.pop("shared"), table.pop("likes", {})
    rows = [
        facts.build_from_table(TheoryRow, row, f"{name}.toml") for row in table.pop("theorems", ())
    ]
    found = []

    def made(given: Mapping[str, Any]) -> Experiment:
        names = {**given, **shared}
        return _experiment({n: _filled(given[n], names) for n in given.keys() & _FIELDS}, module)

    for own in table["experiments"]:
        for each in own.pop("each", [{}]):
            whole = {**likes.get(own.get("like"), {}), **own, **each}
            whole.pop("like", None)
            texts = str({**whole, **shared})
            if unused := [n for n in whole.keys() - _FIELDS if f"{n}}}" not in texts]:
                raise ValueError(f"{name}.toml has no use for {unused} in {whole['id']}")
            at_size = whole.pop("at_size", None)
            size = at_size and made({**whole, **at_size})
            found.append(dataclasses.replace(made(whole), at_size=size))
    return facts.build_from_table(Paper, {**table, "experiments": found, "theorems": rows}, name)


def _filled(value: Any, names: Mapping[str, Any]) -> Any:
    """What is read, with all that is shared in its place."""
    if isinstance(value, dict):
        return {name: _filled(one, names) for name, one in value.items()}
    if isinstance(value, list):
        items: list[Any] = []
        for one in value:
            star = isinstance(one, str) and one.startswith("{*")
            items += _filled(names[one[2:-1]], names) if star else [_filled(one, names)]
        return items
    if not isinstance(value, str) or "{" not in value:
        return value
    alone = names.get(value[1:-1])
    return _filled(value.format_map(names) if alone is None else alone, names)


def _experiment(table: dict[str, Any], module: ModuleType) -> Experiment:
    recipe, swept = table.get("recipe"), table.pop("sweep", None)
    at: Callable[..., TrialRecipe]
    table.setdefault("needs", [name for name in public_sets.SETS if f"'{name}" in str(recipe)])
    if recipe and "grid" in recipe:
        made = facts.build_from_table(GridRecipe, {**recipe, "grid": _grid(recipe["grid"])}, "grid")
        table["recipe"], at = made, partial(engine.at_setting, made, module)
    elif recipe:
        make = recipe.pop("make")
        at = partial(getattr(module, make, None) or getattr(engine, make), **recipe)
        table["recipe"] = at()
    if swept:
        tried = swept.pop("tried")
        table["tried"] = {one.pop("name"): one.pop("why") for one in tried}
        recipes = dict(zip(table["tried"], (at(**{**swept, **one}) for one in tried), strict=True))
        table["sweep"] = engine.joined(recipes)
    table["printed"] = [
        Printed(one["series"], float(x), float(value), float(one["error"]), one["place"])
        for one in table.get("printed", ())
        for x, value in zip(one["x"], one["values"], strict=True)
    ]
    table["statements"] = [
        Statement(words, place, partial(verdicts.holds, checks))
        for words, place, *checks in table.get("statements", ())
    ]
    table["promises"] = [
        facts.build_from_table(
            Promise,
            {
                **one,
                "mechanism": id,
                "change": Change[one["change"]],
                "public": PublicFacts(**one["public"]),
                "settings": engine.parsed(id, one.get("settings", {})),
            },
            table["id"],
        )
        for one in table.get("promises", ())
        for id in one.pop("methods")
    ]
    return facts.build_from_table(Experiment, table, table["id"])


def _grid(table: dict[str, Any]) -> Grid:
    """seeds: FIRST:LAST. published: whether other settings are those of the papers. split: the
    share that is held out."""
    published = table.pop("published", True)
    if "split" in table:
        table["split"] = RandomShare(table["split"])
    grid = Grid(**{**table, "seeds": parse_seeds([table["seeds"]])})
    return grid.as_published() if published else grid


PAPERS: Mapping[str, Paper] = {
    paper.key: paper for paper in map(_read, (lwhm22, z16, ryhh24, hxz15, jtt18))
}


def experiments(settings: bool = False) -> Iterator[tuple[Paper, Experiment]]:
    """All of all papers, in their order. settings: also those at settings tried."""
    for paper in PAPERS.values():
        for one in paper.experiments:
            yield paper, one
            if settings and one.tried:
                yield paper, one.at_settings


def find(id: str) -> tuple[Paper, Experiment]:
    """An experiment and its paper. Raises InvalidSetting with the nearest names."""
    known = {one.id: (paper, one) for paper, one in experiments(settings=True)}
    if id.lower() not in known:
        names = [*map(str.lower, PAPERS), *known]
        raise unknown_name_error("paper or experiment", id, names, listing_command="dpmc papers")
    return known[id.lower()]


def presets() -> dict[str, Preset]:
    """The grids behind experiments, as `dpmc sweep --preset` takes them."""
    return {
        one.id: Preset(f"{paper.key}, {one.place}: {one.title}", one.recipe.grid)
        for paper, one in experiments()
        if isinstance(one.recipe, GridRecipe)
    }
