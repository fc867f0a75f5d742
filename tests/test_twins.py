"""Why a private method may stand above its line without privacy, tested by training."""

import numpy as np
import pytest

from dpmc_core import curves, experiment, registry
from dpmc_core.data import datasets
from dpmc_core.metrics import METRICS
from dpmc_core.model import Task
from dpmc_core.problem import build_problem, generator
from dpmc_core.views import twins
from dpmc_core.views.curves import Interval, interval, situation

DATA = "bookshop-clicks"
VARIANTS = ("dpimf-strawman", "dpimf-complementary", "dpimf-symmetric", "dpimf-optimal")


def hit_ratios(id, **settings):
    found = []
    for seed in (1, 2, 3):
        problem = build_problem(datasets.load(DATA), Task.RANKING, seed=seed)
        method = registry.create(id, **settings)
        *_, last = method.fit(problem.train, generator(seed, id))
        found.append(experiment.measure(method, last.model, problem, seed)["hr@10"])
    return found


def test_at_the_same_rank_no_privacy_is_above_every_variant_on_the_bookshop():
    shipped = curves.shipped(DATA, Task.RANKING)
    rank = registry.create("dpimf-optimal", epsilon=1.0).rank
    same, own = interval(hit_ratios("ials", rank=rank)), interval(hit_ratios("ials"))
    for id in VARIANTS:
        curve = situation(shipped, id, 1.0).curve
        assert twins.is_above(curve.metric, curve.low, curve.high, own)
        assert max(curve.mean) < same.mean - same.half_width
        assert f"rank 20 instead of {rank}" in twins.why_above([id], DATA)


def test_several_are_told_in_one_sentence_with_what_they_share():
    said = twins.why_above(VARIANTS, DATA)
    assert "DPIMF, symmetric noise and DPIMF, optimal stand above" in said
    assert "rank 20 instead of 8" in said
    assert "alpha" not in said  # the optimal variant has none
    assert "at its own settings, which may fit" in twins.why_above(["gradient"], "jokes")


def test_neither_noise_nor_clip_is_what_helps_on_the_bookshop():
    """Without either the optimal variant is at least as good, within the spread of seeds."""
    shipped = curves.shipped(DATA, Task.RANKING)
    best = max(situation(shipped, "dpimf-optimal", 1.0).curve.mean)
    free = np.mean(hit_ratios("dpimf-optimal", epsilon=1e6, clip=1e3, clip_l2=1e3))
    assert free > best - 0.005


@pytest.mark.parametrize(("metric", "better"), [("hr@10", 0.6), ("rmse", 0.4)])
def test_above_is_said_only_beyond_both_bands(metric, better):
    twin = Interval(0.5, 0.02, 3)
    assert twins.is_above(METRICS[metric], [better], [better], twin)
    assert not twins.is_above(METRICS[metric], [0.51], [0.51], twin)
    assert not twins.is_above(METRICS[metric], [0.49], [0.49], twin)
