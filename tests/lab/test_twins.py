"""Why a private method may stand above its line without privacy, tested by training."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dpmc_core import experiment, registry
from dpmc_core.data import datasets
from dpmc_core.metrics import METRICS, choose_headline_metric
from dpmc_core.model import Task
from dpmc_core.problem import build_problem, create_generator
from dpmc_lab import shipped
from dpmc_lab.curves import lines
from dpmc_lab.curves.lines import CurveChart, FlatLine, Interval, compute_interval
from tests.store_helpers import load_curve_chart

pytestmark = pytest.mark.slow

DATA = "bookshop-clicks"
VARIANTS = ("dpimf-strawman", "dpimf-complementary", "dpimf-symmetric", "dpimf-optimal")


def measure_hit_ratios(id, **settings):
    ratios = []
    for seed in (1, 2, 3):
        problem = build_problem(datasets.load(DATA), Task.RANKING, seed=seed)
        method = registry.create(id, **settings)
        *_, last = method.fit(problem.train, create_generator(seed, id))
        ratios.append(experiment.measure_model(method, last.model, problem, seed)["hr@10"])
    return ratios


def build_flat_method(interval):
    """Build a method without epsilon that reaches an interval."""
    return SimpleNamespace(interval_at=lambda epsilon: interval)  # noqa: ARG005


def load_shipped_line(id):
    with shipped.load_curves(DATA, Task.RANKING, [id]) as store:
        (line,) = load_curve_chart(store, [id], choose_headline_metric(Task.RANKING)).lines
    return line


def test_the_reference_is_above_every_variant_on_the_bookshop():
    """What stands above a paper's own method without privacy does not stand above the best one."""
    best = compute_interval(measure_hit_ratios("reference-ranking"))
    for id in VARIANTS:
        line = load_shipped_line(id)
        assert max(line.band.mean) < best.mean
        assert not lines.is_somewhere_better(line, build_flat_method(best))


def build_line(metric, label, value):
    points = {"epsilon": np.ones(1), "values": np.array([[value]])}
    return replace(load_shipped_line("dpimf-optimal"), label=label, metric=metric, **points)


@pytest.mark.parametrize(
    ("metric", "better", "direction"), [("hr@10", 0.6, "above"), ("rmse", 0.4, "below")]
)
def test_only_what_is_clearly_better_than_the_reference_is_told(metric, better, direction):
    metric, task = METRICS[metric], Task.RANKING if metric == "hr@10" else Task.RATINGS
    values = np.array([0.49, 0.5, 0.51])
    reference = FlatLine("r", registry.NONPRIVATE_REFERENCES[task], "Best", values)
    papers = FlatLine("p", "ials", "iALS, no privacy", np.array([0.5, 0.5]))
    method_lines = (build_line(metric, "Good", better), build_line(metric, "Level", 0.5))
    chart = CurveChart(metric, method_lines, (), (reference, papers))
    (sentence,) = lines.describe_crossings(chart)
    assert sentence.startswith(f"{direction.capitalize()} the line without privacy")
    assert sentence.endswith("(Good).")
    worse = tuple(replace(line, values=1.0 - line.values) for line in method_lines)
    baseline = registry.get_mechanism("dpimf-optimal").baseline
    info = method_lines[1].info._replace(mechanism=baseline)
    chart = CurveChart(metric, worse[:1], (), private_baselines=method_lines[1:])
    assert not lines.describe_crossings(chart)  # not its own
    chart = chart._replace(private_baselines=(replace(method_lines[1], info=info),))
    (baseline_sentence,) = lines.describe_crossings(chart)
    assert lines.POPULAR_LIST in baseline_sentence
    # better than the paper's own method without privacy alone: nothing to explain
    assert not lines.describe_crossings(CurveChart(metric, method_lines, (), (papers,)))


@pytest.mark.parametrize(("metric", "better"), [("hr@10", 0.6), ("rmse", 0.4)])
def test_above_is_said_only_beyond_both_bands(metric, better):
    nonprivate = Interval(0.5, 0.02, 3)
    line = replace(load_shipped_line("dpimf-optimal"), metric=METRICS[metric], epsilon=np.ones(1))
    for value, above in ((better, True), (0.51, False), (0.49, False)):
        at_value = replace(line, values=np.array([[value]]))
        assert lines.is_somewhere_better(at_value, build_flat_method(nonprivate)) == above
