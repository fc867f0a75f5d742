"""Why a private method may stand above its line without privacy, tested by training."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dpmc_core.metrics import METRICS, choose_headline_metric
from dpmc_core.model import Task
from dpmc_lab import shipped
from dpmc_lab.curves import lines
from dpmc_lab.curves.lines import Interval
from tests.store_helpers import load_curve_chart

pytestmark = pytest.mark.slow

DATA = "bookshop-clicks"
VARIANTS = ("dpimf-strawman", "dpimf-complementary", "dpimf-symmetric", "dpimf-optimal")


def build_flat_method(interval):
    """Build a method without epsilon that reaches an interval."""
    return SimpleNamespace(interval_at=lambda epsilon: interval)  # noqa: ARG005


def load_shipped_line(id):
    with shipped.load_curves(DATA, Task.RANKING, [id]) as store:
        (line,) = load_curve_chart(store, [id], choose_headline_metric(Task.RANKING)).lines
    return line


def build_line(metric, label, value):
    points = {"epsilon": np.ones(1), "values": np.array([[value]])}
    return replace(load_shipped_line("dpimf-optimal"), label=label, metric=metric, **points)


@pytest.mark.parametrize(("metric", "better"), [("hr@10", 0.6), ("rmse", 0.4)])
def test_above_is_said_only_beyond_both_bands(metric, better):
    nonprivate = Interval(0.5, 0.02, 3)
    line = replace(load_shipped_line("dpimf-optimal"), metric=METRICS[metric], epsilon=np.ones(1))
    for value, above in ((better, True), (0.51, False), (0.49, False)):
        at_value = replace(line, values=np.array([[value]]))
        assert lines.is_somewhere_better(at_value, build_flat_method(nonprivate)) == above
