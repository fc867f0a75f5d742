"""Five papers: every figure and table, what is printed beside ours, and two verdicts each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dpmc_core.errors import unknown_name
from dpmc_core.lab.papers import hxz15, jtt18, lwhm22, ryhh24, z16
from dpmc_core.lab.papers.frame import Experiment, GridRecipe, Paper
from dpmc_core.lab.sweep.presets import Preset

PAPERS: Mapping[str, Paper] = {
    paper.key: paper for paper in (lwhm22.PAPER, z16.PAPER, ryhh24.PAPER, hxz15.PAPER, jtt18.PAPER)
}


def experiments() -> Iterator[tuple[Paper, Experiment]]:
    """All of all papers, in their order."""
    for paper in PAPERS.values():
        for one in paper.experiments:
            yield paper, one


def find(id: str) -> tuple[Paper, Experiment]:
    """An experiment and its paper. Raises InvalidSetting with the nearest names."""
    known = {one.id: (paper, one) for paper, one in experiments()}
    if id.lower() not in known:
        raise unknown_name("experiment", id, known, listed="dpmc papers")
    return known[id.lower()]


def presets() -> dict[str, Preset]:
    """The grids behind experiments, as `dpmc sweep --preset` takes them."""
    return {
        one.id: Preset(f"{paper.key}, {one.place}: {one.title}", one.recipe.grid)
        for paper, one in experiments()
        if isinstance(one.recipe, GridRecipe)
    }
