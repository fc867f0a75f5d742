"""What makes the figures of LWHM22, Z16 and JTT18, and what they say of them."""

from __future__ import annotations

import pytest

from dpmc_core import registry
from dpmc_core.settings import format_setting
from dpmc_lab import papers
from dpmc_lab.papers import engine
from dpmc_lab.papers.engine import GridRecipe

pytestmark = pytest.mark.slow

EXPERIMENTS = [
    experiment
    for key in ("LWHM22", "Z16", "JTT18")
    for experiment in papers.PAPERS[key].experiments
    if isinstance(experiment.recipe, GridRecipe)
]


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.id)
def test_a_grid_is_as_published_but_for_what_it_says(experiment):
    grid = experiment.recipe.grid
    changeable = {"radius", "bound", "within", "rounds", "step", "recovery", "rule"}
    for id in grid.mechanisms:
        values = grid.parse_values(id)
        for name, value in registry.get_published_settings(id).settings.items():
            if name not in changeable:
                assert [format_setting(v) for v in values[name]] == [format_setting(value)], (
                    id,
                    name,
                )
    assert registry.get_published_settings("gradient").settings["rounds"] == 10


def test_table_1_counts_a_set():
    columns = ["users", "items", "lowest", "highest", "density", "four fifths"]
    recipe = engine.count_data({"restaurants": "RC"}, columns)
    ((key, count),) = recipe.list_runs().items()
    (curve,) = recipe.build_series({key: count()})
    assert curve.label == "RC"
    density = pytest.approx(100 * 1161 / 17_940)
    assert curve.mean == (138, 130, 0, 2, density, pytest.approx(5.18, abs=0.005))
