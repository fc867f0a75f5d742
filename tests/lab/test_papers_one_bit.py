"""What makes the figures of LWHM22, Z16 and JTT18, and what they say of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpmc_core import registry
from dpmc_core.settings import format_setting
from dpmc_lab import papers, sweep
from dpmc_lab.papers import engine, verdicts
from dpmc_lab.papers.engine import GridRecipe, Made, Point, Series, Stamp

pytestmark = pytest.mark.slow

STAMP = Stamp("0", "none", {}, "1:5", {}, 0.0)
EXPERIMENTS = [
    experiment
    for key in ("LWHM22", "Z16", "JTT18")
    for experiment in papers.PAPERS[key].experiments
    if isinstance(experiment.recipe, GridRecipe)
]


def build_result(**curves: dict[float, float]) -> Made:
    """Build curves by label with intervals of 0.01 either side; _ is a space and a comma."""
    series = tuple(
        Series.of(label, {x: Point(y, 0.01, 5) for x, y in points.items()})
        for label, points in curves.items()
    )
    return Made(id="none", series=series, stamp=STAMP)


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


@pytest.mark.parametrize("link", ["probit", "logistic"])
def test_one_clear_curve_and_one_of_each_method(link):
    suffix = {"probit": "a", "logistic": "b"}[link]

    def labels_of(figure, data=("restaurants",)):
        recipe = papers.find(f"lwhm22-{figure}{suffix}")[1].recipe
        grid = replace(recipe.grid, data=data or recipe.grid.data, seeds=(1,))
        assert grid.settings["link"] == (link,)
        return [recipe.label(unit) for unit in sweep.build_plan(grid).units]

    labels = labels_of(1, ())
    assert labels.count("Clear") == 1
    assert {label for label in labels if label} == {"InP", "ObjP", "GraP", "OutP", "Clear"}
    assert labels.count("OutP") == 10
    assert labels_of(3).count("Clear") == 1
    assert labels_of(2).count("Clear") == 1


def test_a_curve_that_approaches_another_one():
    def decides(values):
        return verdicts.approaches(values, "InP", "Clear", 1.0, 10.0)

    curves = {"Clear": {1.0: 2.0, 10.0: 2.0}, "InP": {1.0: 3.0, 10.0: 2.1}}
    assert decides(build_result(**curves)) is True
    curves["InP"] = {1.0: 2.1, 10.0: 3.0}
    assert decides(build_result(**curves)) is False
    curves["InP"] = {1.0: 2.1, 10.0: 2.1}
    assert decides(build_result(**curves)) is None
    assert decides(build_result(Clear=curves["Clear"])) is None


def test_what_changes_less_and_what_levels_off():
    flat, steep = {0.2: 2.0, 0.8: 1.9}, {0.2: 2.0, 0.8: 1.0}
    values = build_result(A=flat, B=steep)
    assert verdicts.steadier(values, "A", "B") is True
    assert verdicts.steadier(values, "B", "A") is False
    assert verdicts.steadier(values, "A", "C") is None
    levels = {"A, epsilon 1": 3.0, "A, epsilon 5": 2.0, "A, epsilon 10": 1.9}
    values = build_result(**{label: {0.2: y, 0.8: y} for label, y in levels.items()})
    one, five, ten = levels
    assert verdicts.farther(values, one, five, five, ten) is True
    assert verdicts.farther(values, five, ten, one, five) is False
    assert verdicts.farther(values, one, ten, one, ten) is None
    assert verdicts.farther(values, "B, epsilon 1", five, five, ten) is None


def test_almost_always_lower():
    x = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
    low, high = dict.fromkeys(x, 1.0), dict.fromkeys(x, 1.5)

    def decides(values):
        return verdicts.mostly_below(values, "A", 0.8, x, "B", "C")

    assert decides(build_result(A=low, B=high, C=high)) is True
    assert decides(build_result(A=low, B=high, C=high | {0.1: 0.5, 0.2: 0.5})) is True  # 10 of 12
    assert decides(build_result(A=low, B=high, C=low)) is None
    assert decides(build_result(A=high, B=low, C=high)) is False
    assert decides(build_result(A=low)) is None


def test_table_1_counts_a_set():
    columns = ["users", "items", "lowest", "highest", "density", "four fifths"]
    recipe = engine.counted({"restaurants": "RC"}, columns)
    ((key, count),) = recipe.pieces().items()
    (curve,) = recipe.series({key: count()})
    assert curve.label == "RC"
    density = pytest.approx(100 * 1161 / 17_940)
    assert curve.mean == (138, 130, 0, 2, density, pytest.approx(5.18, abs=0.005))
