"""Five papers: every figure and table, what is printed beside ours, and verdicts.

What a paper prints and says, the grids of runs that make ours, and the verdicts are in its TOML
file; what is computed specially for it is in its module.

In a file `[shared]` holds what is written once: {NAME} in a text stands for it; a text that is
{NAME} alone is replaced by the value, and {*NAME} in a list by the items of another list. `like`
names a table of `[likes]` that an experiment completes, `each` the tables that one stands for.
`[verdicts]` has the verdicts by the ids of experiments.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import ModuleType
from typing import Any

from dpmc_core.errors import unknown_name_error
from dpmc_core.privacy import Change
from dpmc_core.problem import RandomShare
from dpmc_core.ratings import PublicFacts
from dpmc_data import facts, public_sets
from dpmc_lab.papers import engine, hxz15, jtt18, lwhm22, ryhh24, z16
from dpmc_lab.papers.engine import (
    Conclusion,
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


def _load_paper(module: ModuleType) -> Paper:
    """Load a paper from its file; raises ValueError where that is not as it has to be."""
    name = module.__name__.rpartition(".")[2]
    table = facts.load_toml(__name__, f"{name}.toml")
    shared, likes = table.pop("shared"), table.pop("likes", {})
    theorems = [
        facts.build_from_table(TheoryRow, row, f"{name}.toml") for row in table.pop("theorems", ())
    ]
    verdicts = {
        id: facts.build_from_table(Conclusion, verdict, id)
        for id, verdict in table.pop("verdicts", {}).items()
    }
    experiments = []

    def build(values: Mapping[str, Any]) -> Experiment:
        names = {**values, **shared}
        filled = {name: _fill(values[name], names) for name in values.keys() & _FIELDS}
        return _build_experiment(filled | {"verdict": verdicts.get(filled["id"])}, module)

    for entry in table["experiments"]:
        for variant in entry.pop("each", [{}]):
            merged = {**likes.get(entry.get("like"), {}), **entry, **variant}
            merged.pop("like", None)
            texts = str({**merged, **shared})
            # A name that is no field must be filled in somewhere, else it is a slip of the pen.
            if unused := [n for n in merged.keys() - _FIELDS if f"{n}}}" not in texts]:
                raise ValueError(f"{name}.toml has no use for {unused} in {merged['id']}")
            at_size = merged.pop("at_size", None)
            at_size = at_size and build({**merged, **at_size})
            experiments.append(dataclasses.replace(build(merged), at_size=at_size))
    if unknown := verdicts.keys() - {experiment.id for experiment in experiments}:
        raise ValueError(f"{name}.toml has verdicts on {unknown}, which are not there")
    table |= {"experiments": experiments, "theorems": theorems}
    return facts.build_from_table(Paper, table, name)


def _fill(value: Any, names: Mapping[str, Any]) -> Any:
    """Return what is read, with all that is shared in its place.

    "{name}" stands for a shared value of any type, "{*name}" in a list for the elements of a shared
    list, and a name within a longer text for its text.
    """
    if isinstance(value, dict):
        return {name: _fill(item, names) for name, item in value.items()}
    if isinstance(value, list):
        items: list[Any] = []
        for item in value:
            is_list = isinstance(item, str) and item.startswith("{*")
            items += _fill(names[item[2:-1]], names) if is_list else [_fill(item, names)]
        return items
    if not isinstance(value, str) or "{" not in value:
        return value
    replacement = names.get(value[1:-1])
    return _fill(value.format_map(names) if replacement is None else replacement, names)


def _build_experiment(table: dict[str, Any], module: ModuleType) -> Experiment:
    """Build an experiment from its table, which is changed on the way.

    The recipe is a grid of runs, or names a function of the paper's module, or else of the engine.
    `sweep` names further settings with which that function was tried.
    """
    recipe, settings = table.get("recipe"), table.pop("sweep", None)
    make: Callable[..., TrialRecipe]
    table.setdefault("needs", [name for name in public_sets.SETS if f"'{name}" in str(recipe)])
    if recipe and "grid" in recipe:
        grid = {**recipe, "grid": _build_grid(recipe["grid"])}
        table["recipe"] = facts.build_from_table(GridRecipe, grid, "grid")
        make = partial(engine.make_setting_recipe, table["recipe"], module)
    elif recipe:
        name = recipe.pop("make")
        make = partial(getattr(module, name, None) or getattr(engine, name), **recipe)
        table |= {"recipe": make(), "make": make}
    if settings:
        tried = settings.pop("tried")
        table["tried"] = {setting.pop("name"): setting.pop("why") for setting in tried}
        recipes = (make(**{**settings, **setting}) for setting in tried)
        table["sweep"] = engine.join_setting_recipes(
            dict(zip(table["tried"], recipes, strict=True))
        )
    table["printed"] = [
        Printed(entry["series"], float(x), float(value), float(entry["error"]), entry["place"])
        for entry in table.get("printed", ())
        for x, value in zip(entry["x"], entry["values"], strict=True)
    ]
    table["statements"] = [
        Statement(text, place, tuple(checks))
        for text, place, *checks in table.get("statements", ())
    ]
    table["promises"] = [
        facts.build_from_table(
            Promise,
            {
                **entry,
                "mechanism": id,
                "change": Change[entry["change"]],
                "public": PublicFacts(**entry["public"]),
                "settings": engine.parse_texts(id, entry.get("settings", {})),
            },
            table["id"],
        )
        for entry in table.get("promises", ())
        for id in entry.pop("methods")
    ]
    return facts.build_from_table(Experiment, table, table["id"])


def _build_grid(table: dict[str, Any]) -> Grid:
    """Build a grid from a table.

    `seeds` is FIRST:LAST, `split` the share that is held out, and `published` whether other
    settings are those of the papers.
    """
    is_published = table.pop("published", True)
    if "split" in table:
        table["split"] = RandomShare(table["split"])
    grid = Grid(**{**table, "seeds": parse_seeds([table["seeds"]])})
    return grid.as_published() if is_published else grid


PAPERS: Mapping[str, Paper] = {
    paper.key: paper for paper in map(_load_paper, (lwhm22, z16, ryhh24, hxz15, jtt18))
}


def list_experiments(with_settings: bool = False) -> Iterator[tuple[Paper, Experiment]]:
    """Yield all experiments of all papers, in their order, if asked also at settings tried."""
    for paper in PAPERS.values():
        for experiment in paper.experiments:
            yield paper, experiment
            if with_settings and experiment.tried:
                yield paper, experiment.at_settings


def find_experiment(id: str) -> tuple[Paper, Experiment]:
    """Return an experiment and its paper; raises InvalidSetting with the nearest names."""
    by_id = {entry.id: (paper, entry) for paper, entry in list_experiments(with_settings=True)}
    if id.lower() not in by_id:
        names = [*map(str.lower, PAPERS), *by_id]
        raise unknown_name_error("paper or experiment", id, names, listing_command="dpmc papers")
    return by_id[id.lower()]


def list_presets() -> dict[str, Preset]:
    """Return the grids behind experiments, as `dpmc sweep --preset` takes them."""
    return {
        entry.id: Preset(f"{paper.key}, {entry.place}: {entry.title}", entry.recipe.grid)
        for paper, entry in list_experiments()
        if isinstance(entry.recipe, GridRecipe)
    }
