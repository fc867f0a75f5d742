"""Accuracy-epsilon curves: what is computed, how it is stored, what a page reads from it."""

import io
import math

import pytest

from dpmc_core import curves, experiment, registry
from dpmc_core.data import datasets
from dpmc_core.data.samples import SAMPLES
from dpmc_core.errors import BadRatings, DpmcError
from dpmc_core.metrics import METRICS
from dpmc_core.model import Task
from dpmc_core.problem import build_problem, default_split
from dpmc_core.sweep import PRESETS
from dpmc_core.views import curves as views

GRID, SEEDS = (1.0, 4.0), (1, 2)


@pytest.fixture(scope="module")
def found() -> curves.Curves:
    dataset = datasets.load("one-bit-lab")
    steps = list(curves.compute(dataset, ["input-flip", "output"], GRID, SEEDS))
    assert [(done, total) for done, total, _ in steps] == [(k, 8) for k in range(1, 9)]
    return steps[-1][2]


def test_every_cell_of_the_grid_is_one_row_per_metric(found):
    cells = {(r.mechanism, r.epsilon, r.seed) for r in found.rows if r.metric == "accuracy"}
    wanted = {(m, e, s) for m in ("input-flip", "output") for e in GRID for s in SEEDS}
    assert {c for c in cells if not math.isnan(c[1])} == wanted
    for other in ("majority", "clear"):
        seeds = [r.seed for r in found.rows if (r.mechanism, r.metric) == (other, "accuracy")]
        assert seeds == list(SEEDS)


def test_a_row_is_what_a_single_run_measures(found):
    problem = build_problem(datasets.load("one-bit-lab"), Task.BINARY, seed=2)
    alone = experiment.run(registry.create("output", epsilon=4.0), problem, 2)
    (value,) = [
        r.value
        for r in found.rows
        if (r.mechanism, r.epsilon, r.seed, r.metric) == ("output", 4.0, 2, "accuracy")
    ]
    assert value == alone.metrics["accuracy"]


def test_files_come_back_as_they_went(found):
    stream = io.StringIO()
    curves.write(found, stream)
    stream.seek(0)
    back = curves.read(stream)
    assert back.stamp == found.stamp
    for mine, theirs in zip(found.rows, back.rows, strict=True):
        assert mine[:2] + mine[3:5] == theirs[:2] + theirs[3:5]
        assert theirs.value == pytest.approx(mine.value, rel=1e-5)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "# {}\nx\n", '# {"public": 3}\n'])
def test_a_file_that_is_not_a_curve_is_a_sentence(text):
    with pytest.raises(BadRatings, match="cannot be read"):
        curves.read(io.StringIO(text))


def test_stopping_ends_the_work_and_drops_the_run_under_way():
    seen = []
    dataset = datasets.load("one-bit-lab")
    for done, _, _ in curves.compute(
        dataset, ["input-flip"], GRID, SEEDS, stop=lambda: len(seen) >= 1
    ):
        seen.append(done)
    assert seen == [1]


def test_what_was_stopped_goes_on_and_ends_as_if_it_never_had(found):
    dataset = datasets.load("one-bit-lab")
    ids = ["input-flip", "output"]
    whole = list(curves.compute(dataset, ids, GRID, SEEDS))
    for cut in (0, 2, 4, 6):
        before = whole[cut][2]
        rest = list(curves.compute(dataset, ids, GRID, SEEDS, before=before))
        assert [done for done, _, _ in rest] == list(range(cut + 2, 9))
        assert rest[-1][2].stamp == found.stamp
        for mine, theirs in zip(rest[-1][2].rows, found.rows, strict=True):
            assert mine[:2] + mine[3:] == theirs[:2] + theirs[3:]


def test_the_picture_reads_means_and_reference_lines(found):
    view = views.situation(found, "output", 4.0)
    mine = [r.value for r in found.rows if r[1:3] == ("output", 4.0) and r.metric == "accuracy"]
    assert view.here.mean == pytest.approx(sum(mine) / 2)
    assert view.curve.seeds.tolist() == [2, 2]
    assert view.floor is not None
    assert view.twin is not None
    assert len(views.comparison(view)) == 2
    assert views.at(view.curve, 2.0) is None  # not computed, never interpolated
    with pytest.raises(DpmcError, match="has not been computed"):
        views.situation(found, "gradient", 1.0)


@pytest.mark.parametrize("name", SAMPLES)
def test_shipped_curves_belong_to_the_data_and_the_mechanisms_of_this_version(name):
    task = Task.RANKING if SAMPLES[name].clicks else Task.BINARY
    shipped = curves.shipped(name, task)
    assert shipped is not None, "write them with 'dpmc sweep --preset samples|clicks --curves ...'"
    stamp = shipped.stamp
    ratings = datasets.load(name).ratings
    assert stamp.fingerprint == ratings.fingerprint
    assert stamp.version[0].isdigit()
    assert stamp.public.shape == ratings.shape
    # What a single run of the task is tested on, is what the curves were tested on.
    assert stamp.split == str(default_split(task))
    for id in curves.mechanisms(task.value):
        assert stamp.revisions[id] == registry.get(id).revision
        default = experiment.settings_dict(registry.create(id, epsilon=1.0))
        assert stamp.settings[id] == {k: v for k, v in default.items() if k != "epsilon"}
        view = views.situation(shipped, id, 1.0)
        assert view.curve.epsilon.tolist() == list(curves.EPSILONS)
        assert set(view.curve.seeds) == {len(curves.SEEDS)}


def test_movie_night_ships_curves_for_ratings_too():
    preset = PRESETS["movie-night-ratings"]
    shipped = curves.shipped("movie-night", Task.RATINGS)
    assert shipped is not None, "write them with 'dpmc sweep --preset movie-night-ratings ...'"
    assert shipped.stamp.fingerprint == datasets.load("movie-night").ratings.fingerprint
    for id in preset.mechanisms:
        default = experiment.settings_dict(registry.create(id, epsilon=1.0))
        assert shipped.stamp.revisions[id] == registry.get(id).revision
        assert shipped.stamp.settings[id] == {k: v for k, v in default.items() if k != "epsilon"}
        view = views.situation(shipped, id, 1.0)
        assert view.curve.epsilon.tolist() == list(curves.EPSILONS)
        assert set(view.curve.seeds) == {len(preset.seeds)}


def test_no_curves_for_unknown_data():
    assert curves.shipped("nothing-like-it") is None


def test_the_lab_teaches_what_privacy_costs_and_the_published_setting_that_it_teaches_nothing():
    """Recovery is worth at least ten points where it works, none as published (ARE 1 is zero)."""
    for name, works in (("one-bit-lab-strong", True), ("one-bit-lab", False)):
        shipped = curves.shipped(name)
        view = views.situation(shipped, "input-flip", 10.0)
        error = views.reference(shipped, "clear", METRICS["are"]).mean
        assert (error < 0.5) if works else (error > 1)
        gain = view.twin.mean - view.floor.mean
        assert (gain > 0.1) if works else (gain < view.twin.half_width + view.floor.half_width)
        little, much = view.curve.mean[0], view.curve.mean[-1]
        if works:  # a curve to look at: from guessing up to no privacy
            assert little - view.floor.mean < 0.05
            assert view.twin.mean - much < 0.03
