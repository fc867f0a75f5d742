"""What makes the figures of LWHM22, Z16 and JTT18, and what they say of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.lab import papers, sweep
from dpmc_core.lab.papers import frame, jtt18, lwhm22, picture, recovery, words, z16
from dpmc_core.lab.papers.frame import GridRecipe, Made, Series, Stamp
from dpmc_core.lab.views.lines import Interval
from dpmc_core.settings import setting_text

STAMP = Stamp("0", "none", {}, "1:5", {}, 0.0)
MINE = [
    one
    for key in ("LWHM22", "Z16", "JTT18")
    for one in papers.PAPERS[key].experiments
    if isinstance(one.recipe, GridRecipe)
]


def made(**curves: dict[float, float]) -> Made:
    """Curves by label with an interval of 0.01 either side; _ stands for a space and a comma."""
    series = tuple(
        Series.of(label, {x: Interval(y, 0.01, 5) for x, y in points.items()})
        for label, points in curves.items()
    )
    return Made(id="none", series=series, stamp=STAMP)


@pytest.mark.parametrize("one", MINE, ids=lambda one: one.id)
def test_a_grid_is_as_published_but_for_what_it_says(one):
    grid = one.recipe.grid
    own = {"radius", "bound", "within", "rounds", "step", "recovery", "rule"}
    for id in grid.mechanisms:
        values = grid.values_of(id)
        for name, value in registry.published(id).settings.items():
            if name not in own:
                assert [setting_text(v) for v in values[name]] == [setting_text(value)], (id, name)
    assert registry.published("gradient").settings["rounds"] == 10


@pytest.mark.parametrize("link", ["probit", "logistic"])
def test_one_clear_curve_and_one_of_each_method(link):
    grid = lwhm22._synthetic(link, (0.15,), 1)
    labels = [lwhm22._name(unit) for unit in sweep.plan(grid).units]
    assert labels.count("Clear") == 1
    assert {label for label in labels if label} == set(lwhm22.NAMES.values())
    assert labels.count("OutP") == 10
    real = replace(lwhm22._tables(link), data=("restaurants",), seeds=(1,))
    assert [lwhm22._name_real(unit) for unit in sweep.plan(real).units].count("Clear") == 1
    films = replace(lwhm22._films(link), data=("restaurants",), seeds=(1,))
    assert [lwhm22._name_real(unit, None) for unit in sweep.plan(films).units].count("Clear") == 1


def test_a_curve_that_approaches_another_one():
    tells = frame.approaches("InP", "Clear", 1.0, 10.0)
    curves = {"Clear": {1.0: 2.0, 10.0: 2.0}, "InP": {1.0: 3.0, 10.0: 2.1}}
    assert tells(made(**curves)) is True
    curves["InP"] = {1.0: 2.1, 10.0: 3.0}
    assert tells(made(**curves)) is False
    curves["InP"] = {1.0: 2.1, 10.0: 2.1}
    assert tells(made(**curves)) is None
    assert tells(made(Clear=curves["Clear"])) is None


def test_what_changes_less_and_what_levels_off():
    flat, steep = {0.2: 2.0, 0.8: 1.9}, {0.2: 2.0, 0.8: 1.0}
    found = made(A=flat, B=steep)
    assert lwhm22._steadier("A", "B")(found) is True
    assert lwhm22._steadier("B", "A")(found) is False
    assert lwhm22._steadier("A", "C")(found) is None
    at = {"A, epsilon 1": 3.0, "A, epsilon 5": 2.0, "A, epsilon 10": 1.9}
    found = made(**{label: {0.2: y, 0.8: y} for label, y in at.items()})
    assert lwhm22._levels_off("A")(found) is True
    assert lwhm22._drastic("A", "A")(found) is None
    assert lwhm22._levels_off("B")(found) is None


def test_almost_always_lower():
    x = jtt18._EPSILONS
    low, high = dict.fromkeys(x, 1.0), dict.fromkeys(x, 1.5)
    tells = jtt18._mostly_below("A", ["B", "C"])
    assert tells(made(A=low, B=high, C=high)) is True
    assert tells(made(A=low, B=high, C=high | {0.1: 0.5, 0.2: 0.5})) is True  # 10 of 12
    assert tells(made(A=low, B=high, C=low)) is None
    assert tells(made(A=high, B=low, C=high)) is False
    assert tells(made(A=low)) is None


def test_table_1_counts_a_set():
    assert lwhm22._counts("restaurants") == [138, 130, 0, 2, pytest.approx(100 * 1161 / 17_940)]
    series = lwhm22._counted({"restaurant": lwhm22._counts("restaurants")})
    assert [one.label for one in series] == ["RC"]


def test_the_papers_rule_ends_at_the_zero_matrix():
    # Theorem 3's bound is above the norm of the reports for every draw: no chance is involved.
    first, second = (recovery.bounds("randomised-response", [1.0], seed) for seed in (0, 1))
    assert first.rho[0] != second.rho[0]
    np.testing.assert_allclose(first.published, first.size, rtol=1e-6)
    row = z16._piece("randomised-response", 1.0, 0)
    series = z16._series((z16._OWN, z16._ZERO), {"1 randomised-response 1": row})
    found = Made(id="none", series=series, stamp=STAMP)
    names = [z16._of("randomised-response", z16._OWN), z16._ZERO]
    assert found.at(names[0], 1.0).mean == pytest.approx(found.at(names[1], 1.0).mean)


def test_the_rule_and_the_debiased_recovery_are_told_apart():
    grid = z16._TABLES.recipe.grid
    plan = sweep.plan(sweep.Grid(data=["restaurants"], mechanisms=grid.mechanisms,
                                 epsilons=(1.0,), seeds=(1,), settings=grid.settings))  # fmt: skip
    labels = [label for unit in plan.units if (label := z16._label(unit))]
    assert len(labels) == len(set(labels)) == 6


def test_a_piece_of_the_generated_matrix():
    keys = [piece.key for piece in jtt18._pieces(400, 100, jtt18._TWO, (1,))]
    assert len(keys) == len(set(keys)) == 2 + 2 * len(jtt18._LARGE_EPSILONS)
    guess = jtt18._piece(400, 100, "user-mean", None, 1)
    found = jtt18._piece(400, 100, jtt18.FW, 5.0, 1)
    assert 0 < found < 1
    assert 0 < guess < 1
    series = jtt18._series({"1 user-mean": guess, f"1 {jtt18.FW} 5": found})
    assert [one.level for one in series] == [True, False]


def test_powers_are_those_of_the_theory_table():
    (row,) = jtt18._powers(("Remark 3 and Table 1",))
    assert row == pytest.approx(1.25)
    assert jtt18._powers(("Table 2, Private Frank-Wolfe",)) == pytest.approx([0.3, 0.1])


def test_the_zero_matrix_stands_in_every_chart_of_relative_errors():
    for id in ("1a", "1b", "4", "5"):
        found = words.look(*papers.find(f"lwhm22-{id}"))
        if found.made is not None:
            assert found.made.at("zero matrix", found.made.series[-1].x[0]).mean == 1.0
            assert picture.looks(found)["zero matrix"] == picture.GUESS
