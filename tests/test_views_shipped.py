"""Shipped curves as lines of a comparison: the same numbers as a store would give."""

import dataclasses
import math

import numpy as np
import pytest

from dpmc_core import curves, registry, sweep
from dpmc_core.model import Task
from dpmc_core.store import Store, queries
from dpmc_core.views import compare, shipped
from tests.sweep_helpers import InThisProcess


@pytest.fixture(scope="module")
def found():
    return curves.shipped("restaurants")


def test_a_line_equals_the_one_the_store_gives(found, tmp_path):
    grid = sweep.Grid(
        sources=[sweep.open_source("restaurants")],
        mechanisms=("input-flip", "output"),
        epsilons=(0.5, 2.0),
        seeds=(1, 2),
    )
    plan = sweep.plan(grid)
    with Store(tmp_path / "rows.sqlite") as store:
        sweep.run(plan.units, store, lambda: InThisProcess(plan.sources))
        infos = [i for i in queries.curves(store) if i.mechanism in grid.mechanisms]
        stored = {line.mechanism: line for line in compare.lines(store, infos, "accuracy")}
    for line in shipped.lines(found, grid.mechanisms):
        other = stored[line.mechanism]
        at = np.isin(line.epsilon, other.epsilon)
        assert line.change is other.change
        assert line.claimed[at] == pytest.approx(other.claimed)
        assert set(line.certified) == set(other.certified)
        for change, certified in line.certified.items():
            assert certified[at] == pytest.approx(other.certified[change])
        assert set(line.reasons) == set(other.reasons)
        assert line.values[at][:, :2] == pytest.approx(other.values, abs=1e-5)


@pytest.mark.parametrize(
    ("data", "task"), [("bookshop-clicks", Task.RANKING), ("jokes", Task.RATINGS)]
)
def test_every_shipped_curve_is_there_with_its_lines(data, task):
    found = curves.shipped(data, task)
    ids = curves.mechanisms(task.value)
    lines = shipped.lines(found, ids)
    assert [line.mechanism for line in lines] == list(ids)
    assert not any(np.isnan(line.values).any() for line in lines)
    twins = {registry.get(id).twin for id in ids}
    assert {level.mechanism for level in shipped.references(found, twins)} == twins
    assert found.stamp.version in shipped.words(found, lines)
    assert shipped.words(found, ()) == ""


def test_curves_of_another_revision_setting_preparation_or_split_are_left_out(found):
    stamp = found.stamp
    older = dataclasses.replace(stamp, revisions={**stamp.revisions, "output": 0})
    other = dataclasses.replace(stamp, settings={**stamp.settings, "input-flip": {"radius": 0.123}})
    ids = ("input-flip", "output")
    for changed, left in ((older, "input-flip"), (other, "output")):
        lines = shipped.lines(dataclasses.replace(found, stamp=changed), ids)
        assert [line.mechanism for line in lines] == [left]
    assert shipped.fits(found, steps=(), leave_last=False)
    assert not shipped.fits(found, steps=("cap=5",), leave_last=False)
    assert not shipped.fits(found, steps=(), leave_last=True)
    ranking = curves.shipped("bookshop-clicks", Task.RANKING)
    assert [shipped.fits(ranking, steps=(), leave_last=last) for last in (False, True)] == [0, 1]
    assert all(math.isfinite(e) for e in shipped.lines(found, ids)[0].epsilon)
