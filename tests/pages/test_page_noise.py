"""The Noise page: one scale while epsilon moves, another epsilon pinned beside it, honest names."""

import time

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.data import datasets
from dpmc_core.model import Task
from dpmc_core.privacy import RATING, Gaussian, Laplace, ModifiedLaplace, NormLaplace
from dpmc_core.problem import build_problem, prepare_public_facts
from dpmc_core.ratings import PublicFacts
from dpmc_lab.curves import noise
from pages.ui import sources
from pages.ui.charts import noise as charts_noise
from tests.page_helpers import list_charts, open_page, read_all_text, read_chart_spec, read_markdown
from tests.slow_helpers import mark_rest_slow

PUBLIC_FACTS = PublicFacts(users=943, items=1682, low=1, high=5)
EVERY = {
    id: "movie-night"
    for task in (Task.BINARY, Task.RATINGS)
    for id in registry.list_private_mechanisms(task)
}
EVERY |= dict.fromkeys(registry.list_private_mechanisms(Task.RANKING), "bookshop-clicks")


def list_axes(app):
    """Return the axes of every chart and the range of its colours."""
    scales = []
    for number in range(len(list_charts(app))):
        layout = read_chart_spec(app, number)["layout"]
        axes = {name: layout[name] for name in layout if name[1:5] == "axis"}
        scales.append((axes, {k: layout.get("coloraxis", {}).get(k) for k in ("cmin", "cmax")}))
    return scales


def is_fixed(axis):
    """Return whether nothing that is drawn can move an axis."""
    return "range" in axis or axis.get("type") == "category" or "categoryarray" in axis


@pytest.mark.parametrize("id", mark_rest_slow(EVERY, 8))
def test_every_axis_stays_while_epsilon_moves(id):
    app = open_page("noise", data=EVERY[id], mechanism=id, epsilon="1")
    before = list_axes(app)
    shapes = [read_chart_spec(app, n) for n in range(len(list_charts(app)))]
    density = [
        chart for chart in shapes if {t["type"] for t in chart["data"]} == {"bar", "scatter"}
    ]
    for chart in density:
        assert is_fixed(chart["layout"]["xaxis"])
        assert is_fixed(chart["layout"]["yaxis"])
    for epsilon in (0.1, 5.0, 10.0):
        app.select_slider(key="epsilon").set_value(epsilon).run()
        assert not app.exception
        assert list_axes(app) == before


@pytest.mark.parametrize(
    "id", mark_rest_slow(["objective", "private-effects", "modified-laplace", "dplcf"])
)
def test_a_pinned_epsilon_is_drawn_behind_and_what_differs_is_said(id):
    app = open_page("noise", data=EVERY[id], mechanism=id, epsilon="1")
    plain, n_charts = read_chart_spec(app), len(list_charts(app))
    before = list_axes(app)
    next(b for b in app.button if "Pin" in b.label).click().run()
    assert app.selectbox(key="pin").value == 1.0
    assert read_chart_spec(app)["data"] == plain["data"]  # nothing stands beside itself
    app.select_slider(key="epsilon").set_value(5.0).run()
    assert not app.exception
    assert len(list_charts(app)) == n_charts
    assert list_axes(app) == before
    names = [trace.get("name", "") for trace in read_chart_spec(app)["data"]]
    assert "epsilon 1, pinned" in names
    assert "At epsilon 5, " in read_markdown(app)
    assert "; at epsilon 1, " in read_markdown(app)


@pytest.mark.slow
def test_of_several_releases_one_is_looked_at_at_a_time():
    app = open_page("noise", data="movie-night", mechanism="private-effects")
    guarantee = registry.create("private-effects", epsilon=1.0).guarantee(PUBLIC_FACTS)
    n_charts = len(list_charts(app))
    box, descriptions = app.selectbox(key="release"), set()
    releases = dict(guarantee.releases)
    assert box.value == next(
        n for n, r in guarantee.releases if r is noise.find_main_release(guarantee)
    )
    assert len(box.options) == len(releases) == 7
    for name, release in releases.items():
        app.selectbox(key="release").set_value(name).run()
        assert not app.exception
        assert len(list_charts(app)) == n_charts
        half = noise.compute_density(release).median_size
        assert f"half of the noise is within ±{half:.3g}" in read_markdown(app)
        descriptions.add(list_charts(app)[0].proto.spec)
    assert len(descriptions) == 7
    other_app = open_page("noise", data="movie-night", mechanism="input-flip", release="residuals")
    assert not other_app.exception
    assert not [b for b in other_app.selectbox if b.key == "release"]


def test_a_pin_beyond_the_range_comes_to_its_end():
    app = open_page("noise", data="one-bit-lab", wide="true", pin="100")
    assert app.selectbox(key="pin").value == 100
    app.toggle(key="wide").set_value(False).run()
    assert not app.exception
    assert app.selectbox(key="pin").value == 10


def test_a_row_is_named_for_whose_it_is():
    assert "one person's values" in read_markdown(open_page("noise", data="movie-night"))
    app = open_page("noise", data="bookshop-clicks", mechanism="private-popularity")
    assert "of all users together" in read_markdown(app)
    assert "person's" not in read_all_text(app)


def test_headings_go_down_one_by_one():
    for id in ("input-flip", "modified-laplace"):
        app = open_page("noise", data="movie-night", mechanism=id)
        assert len(app.title) == 1
        assert app.header
        assert not app.subheader


@pytest.mark.slow
def test_moving_epsilon_takes_little_time():
    app = open_page("noise", data="movie-night", mechanism="private-effects", pin="1")
    durations = []
    for epsilon in (0.2, 0.5, 2.0, 3.0, 5.0):
        app.select_slider(key="epsilon").set_value(epsilon)
        start = time.process_time()
        app.run()
        durations.append(time.process_time() - start)
    assert np.median(durations) < 0.4  # of the whole page; the fragment alone is less


# --- views ------------------------------------------------------------------------------------


def build_additive(kind, scale, **options):
    return kind(query="q", scale=scale, sensitivity={RATING: 1.0}, **{"shape": (None,), **options})


@pytest.mark.parametrize(
    "release",
    [
        build_additive(Laplace, 0.7),
        build_additive(Gaussian, 3.0),
        build_additive(NormLaplace, 0.7, shape=(40, 3)),
    ],
    ids=lambda r: type(r).__name__,
)
def test_half_of_the_noise_is_within_what_is_said(release):
    draws = np.abs(release.sample(200_000, np.random.default_rng(5)))
    view = noise.compute_density(release)
    assert abs((draws < view.median_size).mean() - 0.5) < 5 * 0.5 / np.sqrt(len(draws))


def test_the_frame_is_that_of_epsilon_one_and_what_it_cuts_off_is_said():
    typical, narrow, wide = (build_additive(Laplace, s) for s in (1.0, 0.1, 10.0))
    frame = noise.choose_axes(typical)
    assert frame == (6.0, pytest.approx(5.25 * 0.5))
    for release in (typical, narrow, wide):
        view = noise.compute_density(release, axes=frame)
        assert view.axes == frame
        assert np.abs(view.x).max() <= frame.reach
        inside = np.trapezoid(view.density, view.x)
        assert inside == pytest.approx(1 - np.exp(-6 / release.scale), abs=0.02)
        assert view.share_outside == pytest.approx(np.exp(-6 / release.scale), abs=0.03)
        fig = charts_noise.plot_noise("output", view)
        annotation_text = " ".join(note["text"] for note in fig.layout.get("annotations", []))
        assert ("peak" in annotation_text) == (release is narrow)
        assert ("beyond" in annotation_text) == (release is wide)


@pytest.mark.parametrize(
    ("data", "values"), [("jokes", (-10, -5, 0, 5, 10)), ("movie-night", range(1, 6))]
)
def test_symbols_are_told_in_the_datas_own_scale(data, values):
    app = open_page("noise", data=data, mechanism="randomised-response")
    names = [trace["name"] for trace in read_chart_spec(app)["data"]]
    assert names == [f"answers: {name}" for name in ("no rating", *values)]
    public = datasets.load(data).ratings.public
    assert f"from 1 ({public.low:g}) to 5 ({public.high:g})" in read_all_text(app)
    app.radio(key="mechanism").set_value("modified-laplace").run()
    assert f"{public.low:g}..{public.high:g} scaled to -1..1" in read_all_text(app)


@pytest.mark.parametrize("id", ["objective", "modified-laplace"])
def test_noise_is_drawn_on_ratings_as_the_method_s_task_takes_them(id):
    mechanism = registry.create(id, epsilon=3.0)
    ratings = datasets.load("restaurants").ratings
    corner = noise.select_block(build_problem((ratings, ratings), mechanism.task).train)
    (expected_view, *_), (view, *_) = (
        noise.run_on_block(mechanism, corner),
        sources.compute_before_after("restaurants", mechanism),
    )
    assert np.array_equal(view.before, expected_view.before, equal_nan=True)


def test_the_ruler_is_one_rating_in_the_releases_own_unit():
    for id, length, label in (
        ("objective", 1.0, "one rating"),
        ("private-mean", 4.0, "one rating"),
        ("modified-laplace", 0.5, "one point on the scale 1 to 5"),
        ("private-popularity", 1.0, "one person"),
    ):
        public = prepare_public_facts(PUBLIC_FACTS, registry.get_mechanism(id).task)
        release = noise.find_main_release(registry.create(id, epsilon=1.0).guarantee(public))
        ruler = noise.measure_sensitivity(release, public)
        assert ruler.length == pytest.approx(length)
        assert ruler.label.startswith(label)
        later_release = noise.find_main_release(registry.create(id, epsilon=5.0).guarantee(public))
        assert noise.measure_sensitivity(later_release, public) == ruler
    unknown = build_additive(Laplace, 1.0).at_scale(2.0)
    assert noise.measure_sensitivity(unknown, PUBLIC_FACTS) is None


def test_two_epsilons_differ_by_as_much_as_is_said():
    densities = {e: noise.compute_density(build_additive(Laplace, 1 / e)) for e in (1.0, 5.0)}
    assert (
        noise.describe_noise_shape({1.0: densities[1.0]})
        == "At epsilon 1, half of the noise is within ±0.693."
    )
    assert noise.describe_noise_shape(densities).endswith(
        "at epsilon 5, within ±0.139: 5 times smaller."
    )
    reversed_densities = {5.0: densities[5.0], 1.0: densities[1.0]}
    assert noise.describe_noise_shape(reversed_densities).endswith(
        "at epsilon 1, within ±0.693: 5 times larger."
    )
    guarantees = {
        e: registry.create("input-flip", epsilon=e).guarantee(PUBLIC_FACTS) for e in (1.0, 5.0)
    }
    flips = {e: noise.sample_channel(noise.find_main_release(c)) for e, c in guarantees.items()}
    sentence = "At epsilon 1, 26.9 % of the answers are changed; at epsilon 5, 0.7 %."
    assert noise.describe_noise_shape(flips) == sentence


@pytest.mark.parametrize("id", ["objective", "modified-laplace", "randomised-response"])
def test_a_row_is_drawn_between_limits_and_what_lies_beyond_is_an_arrow(id):
    cls = registry.get_mechanism(id)
    ratings = datasets.load("restaurants").ratings
    corner = noise.select_block(build_problem((ratings, ratings), cls.task).train)
    typical = noise.find_main_release(registry.create(id, epsilon=1.0).guarantee(corner.public))
    for epsilon in (0.1, 10.0):
        (view,) = noise.run_on_block(registry.create(id, epsilon=epsilon), corner)
        low, high = noise.find_value_range(view, typical)
        fig = charts_noise.plot_user_values(id, view, 0, (low, high))
        ends = fig.layout["yaxis"]["range"]
        assert ends[0] < low < high < ends[1]
        symbols = fig.data[1]["marker"]["symbol"]
        beyond = np.nansum((view.after[0] < low) | (view.after[0] > high))
        assert sum(symbol.startswith("triangle") for symbol in symbols) == beyond
        if isinstance(typical, Laplace | ModifiedLaplace):
            assert (beyond > 0) == (epsilon == 0.1)
