"""The Noise page: two epsilons on one axis, one value before and after, a name per release."""

import dataclasses
import math
import re

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.model import Task
from dpmc_core.privacy import RATING, Gaussian, Laplace, NormLaplace
from dpmc_core.problem import build_problem, prepare_public_facts
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_data import datasets
from dpmc_lab.views import noise
from pages.ui import sources
from pages.ui.charts import noise as charts_noise
from tests.page_helpers import open_page, read_markdown, unescape_markdown

PUBLIC_FACTS = PublicFacts(users=943, items=1682, low=1, high=5)


def test_it_opens_on_a_mechanism_that_adds_noise_and_leaves_no_trace_of_it():
    app = open_page("noise")
    assert app.session_state["mechanism"] == "objective"
    assert (
        unescape_markdown(app.header[0].value)
        == "The noise is 4 times larger at epsilon 1 than at epsilon 4"
    )
    app.radio(key="mechanism").set_value("input-flip").run()
    assert app.session_state["mechanism"] == "input-flip"  # by choice, and so it stays
    app = open_page("noise", mechanism="input-flip")
    assert app.session_state["mechanism"] == "input-flip"


def test_a_second_epsilon_is_drawn_and_what_differs_is_said():
    app = open_page("noise", mechanism="objective", epsilon="5", pin="1")
    assert "At epsilon 5, half of the noise is within ±0.139" in read_markdown(app)
    assert (
        unescape_markdown(app.header[0].value)
        == "The noise is 5 times larger at epsilon 1 than at epsilon 5"
    )
    app.selectbox(key="pin").set_value(0.0).run()
    assert not app.exception
    assert (
        unescape_markdown(app.header[0].value) == "At epsilon 5, half of the noise is within ±0.139"
    )


def test_headings_go_down_one_by_one():
    for id in ("input-flip", "modified-laplace"):
        app = open_page("noise", data="movie-night", mechanism=id)
        assert len(app.title) == 1
        assert app.header
        assert not app.subheader


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
    view = noise.compute_density(release, 6 * release.scale)
    assert abs((draws < view.median_size).mean() - 0.5) < 5 * 0.5 / np.sqrt(len(draws))


@pytest.mark.parametrize(
    "id",
    ["objective", "dpals", "private-frank-wolfe", "modified-laplace", "input-flip", "local-mean"],
)
def test_titles_of_noise_are_what_the_releases_say(id):
    """By the scales of the releases and the matrices of channels, not by what is drawn."""
    public = prepare_public_facts(PUBLIC_FACTS, registry.get_mechanism(id).task)
    for pair in ((0.1, 3.0), (7.0, 0.5), (2.0, 2.0)):
        releases = {
            e: noise.find_main_release(registry.create(id, epsilon=e).guarantee(public))
            for e in pair
        }
        title = noise.conclude_noise(noise.compute_noise_views(releases, public))
        small, large = max(pair), min(pair)
        scales = [getattr(releases[e], "scale", None) for e in (large, small)]
        if scales[0] is None:
            shares = [1 - releases[e].matrix.diagonal().min() for e in dict.fromkeys(pair)]
            found = [float(share) for share in re.findall(r"([\d.]+) %", title)]
            assert found == pytest.approx([100 * share for share in shares], abs=0.51)
        elif small > large:
            found = re.fullmatch(r"The noise is ([\d.,]+) times larger at (.*) than at (.*)", title)
            assert float(found[1].replace(",", "")) == pytest.approx(
                scales[0] / scales[1], rel=0.01
            )
            assert found.groups()[1:] == (f"epsilon {large:g}", f"epsilon {small:g}")
        else:
            assert title.startswith("At epsilon 2, half of the noise is within ±")
    sizes = noise.compute_noise_scales(id, (0.1, 1.0, 10.0), public, {})
    title = noise.conclude_noise_scales([size for size in sizes if size.unit == sizes[0].unit])
    first, last = map(float, re.findall(r"(?:from|to) ([\d.e+]+)", title))
    ends = sizes[0].scale[[0, -1]] * (100 if " % at" in title else 1)
    assert (first, last) == pytest.approx(
        tuple(ends), rel=0.01, abs=0.06 if " % at" in title else 0
    )


def test_densities_share_the_axis_of_the_widest():
    releases = {e: build_additive(Laplace, 1 / e) for e in (0.1, 1.0, 10.0)}
    views = noise.compute_noise_views(releases, PUBLIC_FACTS)
    for epsilon, view in views.items():
        assert np.abs(view.x).max() == 60
        assert np.trapezoid(view.density, view.x) == pytest.approx(1, abs=0.02)
        assert view.density.max() == pytest.approx(epsilon / 2)
    fig = charts_noise.plot_noise(views, sampled={1.0: 0.5, 10.0: math.nan})
    assert fig.layout["xaxis"]["range"] == [-60, 60]
    assert fig.layout["yaxis"]["range"][1] == pytest.approx(1.1 * 5)
    dots = [trace for trace in fig.data if trace.get("mode") == "markers"]
    assert [dot["x"] for dot in dots] == [[0.5]]


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


NOISY = [id for id, cls in registry.MECHANISMS.items() if registry.adds_noise(cls)]


@pytest.mark.parametrize("id", NOISY)
def test_pictures_do_not_depend_on_lengths_that_happen_to_be_equal(id):
    """Two items, as many users as items, and as many ratings as items or users."""
    cls = registry.get_mechanism(id)
    mechanism = registry.create(id, epsilon=1.0, **({"rank": 1} if hasattr(cls, "rank") else {}))
    low = {Task.BINARY: -1, Task.RANKING: 1}.get(mechanism.task, 0)
    kinds = []
    for n_users, n_items, n_ratings in ((7, 5, 11), (3, 2, 2), (2, 2, 4), (3, 3, 3)):
        users, items = np.divmod(np.arange(n_ratings), n_items)
        public = PublicFacts(users=n_users, items=n_items, low=min(low, 0), high=1)
        values = np.where(np.arange(n_ratings) % 2, 1.0, low)
        corner = Ratings.build(
            users,
            items,
            values,
            public,
            user_ids=tuple(map(str, range(n_users))),
            item_ids=tuple(map(str, range(n_items))),
        )
        views = noise.run_on_block(mechanism, corner)
        kinds.append({view.query: view.rows for view in views})
        for view in views:
            n_rows = {"users": n_users, "items": n_items, "all users": 1}[view.rows]
            assert view.before.shape == view.after.shape == (n_rows, n_items)
            assert (len(view.users), len(view.items)) == (n_rows, n_items)
    assert kinds[1:] == kinds[:1] * 3


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
    unknown = dataclasses.replace(build_additive(Laplace, 1.0), sensitivity={})
    assert noise.measure_sensitivity(unknown, PUBLIC_FACTS) is None
