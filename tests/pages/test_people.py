"""What people would be shown, what the server gets of them, and what an attacker makes of it."""

import io
import json
import math
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dpmc_core import registry
from dpmc_core.model import Task
from dpmc_core.privacy import USER_EMPTIED, Trust
from dpmc_core.problem import build_problem
from dpmc_core.ratings import PublicFacts
from dpmc_data import datasets
from dpmc_lab import shipped, sweep
from dpmc_lab.store import Store, load_top_lists
from dpmc_lab.sweep import LISTS_SEED, Grid, toplists
from dpmc_lab.sweep.presets import EPSILONS
from dpmc_lab.views import cards, lines, numbers, people, trade
from dpmc_lab.views import train as train_views
from dpmc_lab.views.data import format_user_name
from dpmc_lab.views.lines import Role
from pages.ui import scene
from sample_data import compute
from tests.browser_helpers import CHROMIUM, open_chromium
from tests.page_helpers import make_level, make_placed_line
from tests.sweep_helpers import InProcessPool

PUBLIC = {
    Task.BINARY: PublicFacts(users=50, items=40, low=-1, high=1),
    Task.RATINGS: PublicFacts(users=50, items=40, low=1, high=5),
    Task.RANKING: PublicFacts(users=50, items=40, low=0, high=1),
}
LOCAL = [
    id
    for id in registry.list_suitable_mechanisms()
    if registry.create(id, epsilon=1.0).guarantee(PUBLIC[registry.get_mechanism(id).task]).trust
    is Trust.LOCAL
]

UNCLEAR = numbers.UNCLEAR.format("one answer for all")


class Scored:
    """A model of made scores, users x items."""

    factors = None

    def __init__(self, scores):
        self.scores = scores

    def predict(self, users, items):
        return self.scores[users, items]


@pytest.fixture(scope="module")
def train():
    return build_problem(datasets.load("restaurants"), Task.BINARY, seed=1).train


# --- lists ---------------------------------------------------------------------------------------


def test_lists_are_the_best_unrated_items_of_a_plain_sort(train):
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 9, train.shape).astype(float)  # with ties
    lists = toplists.list_recommendations(Scored(scores), train)
    rated = Counter(zip(train.users.tolist(), train.items.tolist(), strict=True))
    for user, recommended in zip(toplists.sample_users(train).tolist(), lists, strict=True):
        left = [i for i in range(train.public.items) if (user, i) not in rated]
        assert (
            recommended == sorted(left, key=lambda i: (-scores[user, i], i))[: toplists.LIST_LENGTH]
        )


def test_the_sample_of_users_is_spread_evenly_and_leaves_out_who_rated_nothing(train):
    users = toplists.sample_users(train)
    assert np.array_equal(users, np.flatnonzero(np.bincount(train.users) > 0))  # fewer than 300
    large = build_problem(datasets.load("movie-night"), Task.BINARY, seed=1).train
    users = toplists.sample_users(large)
    assert len(users) == toplists.MAX_USERS
    assert set(np.diff(users).tolist()) <= {2, 3, 4, 5}


def test_the_popular_list_is_that_of_counts(train):
    counts = np.bincount(train.items, minlength=train.public.items).astype(float)
    popular = Scored(np.broadcast_to(counts, train.shape))
    assert toplists.list_popular_items(train) == toplists.list_recommendations(popular, train)


def test_a_sweep_keeps_the_lists_of_its_first_seed_and_pruning_drops_them(tmp_path):
    grid = Grid(data=["restaurants"], mechanisms=["input-flip"], epsilons=[1.0], seeds=[1, 2])
    plan = sweep.build_plan(grid)
    with Store(tmp_path / "s.sqlite") as store:
        sweep.run(plan.units, store, lambda: InProcessPool(plan.sources))
        stored_keys = store.connection.execute("SELECT key FROM shown").fetchall()
        first = {unit.key for unit in plan.units if unit.seed == LISTS_SEED}
        assert {row["key"] for row in stored_keys} == first
        key = next(key for key, id in plan.keys.curves.items() if id == "input-flip")
        (id,) = (
            row["id"]
            for row in store.connection.execute("SELECT id FROM curve WHERE key = ?", [key])
        )
        top_lists = load_top_lists(store, id)
        assert list(top_lists) == [1.0]
        assert {len(top_list) for top_list in top_lists[1.0]} == {toplists.LIST_LENGTH}
        store.prune([id])
        assert not load_top_lists(store, id)
        assert (
            store.connection.execute("SELECT COUNT(*) FROM shown").fetchone()[0] == len(first) - 1
        )


def test_people_stand_at_the_quantiles_of_their_ratings(train):
    plain = toplists.list_popular_items(train)
    selected = people.select_people(train, plain, ())
    counts = np.sort(np.bincount(train.users)[toplists.sample_users(train)])
    expected_counts = [counts[round(q * (len(counts) - 1))] for q in people.QUANTILES]
    assert [person.rated for person in selected.people] == expected_counts
    assert selected.popular == toplists.LIST_LENGTH  # against itself
    for person in selected.people:
        rated = [value for _, value in person.cells if value is not None]
        assert rated
        assert set(rated) <= {-1.0, 1.0}


@pytest.mark.parametrize("name", ["movie-night", "long-tail", "restaurants"])
def test_one_data_set_has_one_example_person_on_every_page(name):
    data = datasets.load(name)
    user = people.find_example_user(data)
    documents = [json.loads(p.read_text()) for p in shipped.CURVE_FOLDER.glob(f"{name}*.json")]
    shipped_names = {document["people"][0]["name"] for document in documents}
    assert shipped_names == {format_user_name(data.ratings, user)}
    for task in (Task.BINARY, Task.RATINGS):
        for seed in (1, 2):  # no split changes whom the picture of a run shows
            problem = build_problem(data, task, seed=seed)
            corner = train_views.select_corner(task, problem, user)
            assert corner.person == user
            assert len({*corner.users}) == len(corner.users)


def test_what_is_shared_is_counted_against_the_list_without_privacy():
    assert toplists.count_shared_items([[1, 2, 3], [4, 5, 6]], [[3, 2, 9], [7, 8, 9]]) == [2, 0]


def test_the_file_of_lists_is_read_as_it_was_written(monkeypatch, tmp_path, train):
    plain = toplists.list_popular_items(train)
    selected = people.select_people(train, plain, ())
    lists = {0.1: people.TopLists(((1, 2),), (1,), 0.5), 1.0: people.TopLists(((3,),), (0,), 1.25)}
    stream = io.StringIO()
    compute.write_people(selected, {"a key": lists}, stream)
    (tmp_path / "restaurants.json").write_text(stream.getvalue())
    monkeypatch.setattr(shipped, "CURVE_FOLDER", tmp_path)
    assert people.load_people("restaurants", Task.BINARY, "a key") == (selected, lists)
    assert people.load_people("restaurants", Task.BINARY, "another") is None
    assert people.load_people("restaurants", Task.RATINGS, "a key") is None


# --- what the server gets ------------------------------------------------------------------------


N_DRAWS = 4_000
THROWS = """views.map(view => {
  const it = Object.assign(Object.create(Instrument.prototype), { view, thrown: [] })
  const draws = range(COUNT, () => [Math.random(), Math.random()])
  const one = { ...view, panel: { ...view.panel, ratings: [view.panel.ratings[0].slice(0, 1)] } }
  const sent = draws.map(draw => Object.assign(it, { view: one, thrown: [draw] })
    .reports(view.stops[6])[0][1])
  it.view = view
  it.thrown = range(view.panel.ratings[0].length, () => [Math.random(), Math.random()])
  const turned = view.stops.map(stop => it.reports(stop).map(([truth, sent]) => truth !== sent))
  return [sent, turned]
})"""


def test_marks_are_draws_of_the_very_release_and_one_throw_serves_all_epsilons():
    """At epsilon 1 against the channel of the card; false alarms below 1e-6 a method."""
    views = []
    for id in LOCAL:
        task = registry.get_mechanism(id).task
        no_curve = lines.CurveChart(lines.list_plotted_metrics(task)[0])
        views.append(scene.build_view(scene.build_scene(id, no_curve, PUBLIC[task])))
    code = f"{load_script()}; const views = {json.dumps(views)}"
    results = run_javascript(code, THROWS.replace("COUNT", str(N_DRAWS)))
    for id, (sent, turned) in zip(LOCAL, results, strict=True):
        task = registry.get_mechanism(id).task
        guarantee = registry.create(id, epsilon=1.0).guarantee(PUBLIC[task])
        (release,) = (release for _, release in guarantee.releases)
        if hasattr(release, "matrix"):
            counts = np.bincount([value or 0 for value in sent], minlength=len(release.matrix))
            assert stats.chisquare(counts, N_DRAWS * release.matrix[-1]).pvalue > 1e-7
            # A mark turns while its number is below the chance of a change, which shrinks.
            assert (np.diff(np.array(turned, dtype=int), axis=0) <= 0).all(), id
            assert sum(turned[0]) > sum(turned[-1]) == 0
            continue
        noise = (np.array([value for value in sent if value is not None]) - 5) / 2
        chance = release.reported_if_rated
        assert stats.binomtest(len(noise), N_DRAWS, chance).pvalue > 1e-7
        assert stats.kstest(noise, stats.laplace(scale=release.scale).cdf).pvalue > 1e-7


def load_script():
    """The instrument's script, for a browser without the page."""
    return (
        scene.read_javascript()
        .replace("export default function", "function enter")
        .replace("matchMedia(", "(() => ({}))(")
    )


def test_of_a_trusted_server_no_rating_is_sent():
    no_curve = lines.CurveChart(lines.list_plotted_metrics(Task.RATINGS)[0])
    shown = scene.build_scene("private-effects", no_curve, PUBLIC[Task.RATINGS])
    view = scene.build_view(shown)
    assert view["panel"]["ratings"] is None
    assert {stop["channel"] for stop in view["stops"]} == {None}


@pytest.mark.parametrize("data", ["movie-night", "restaurants"])
def test_a_person_has_a_mark_for_each_rating_of_the_split_of_the_lists(data):
    shown = scene.load_shipped_scene(data, "input-flip")
    selected, _ = shown.displayed_people
    for displayed, person in zip(shown.persons, selected.people, strict=True):
        assert displayed.rated == person.rated
        known = [value for _, value in person.cells if value is not None]
        assert all(displayed.ratings.count(value) >= known.count(value) for value in known)


# --- the attacker --------------------------------------------------------------------------------


def test_the_best_attacker_on_a_coin_and_on_gaussian_noise():
    flip = registry.create("input-flip", epsilon=1.0).guarantee(PUBLIC[Task.BINARY])
    assert flip.attacker_accuracy() == pytest.approx(math.e / (1 + math.e))
    popular = registry.create("private-popularity", epsilon=1.0).guarantee(PUBLIC[Task.RANKING])
    (release,) = (r for _, r in popular.releases)
    mu = 1 / release.scale
    assert popular.attacker_accuracy(USER_EMPTIED) == pytest.approx(stats.norm.cdf(mu / 2))
    assert "73.2 %" in cards.describe_attacker(popular)  # epsilon 1 with any other noise
    assert cards.describe_attacker(flip).count("73.2 %") == 1
    assert (
        registry.create("dpmf", epsilon=1.0).guarantee(PUBLIC[Task.RATINGS]).attacker_accuracy()
        == 1
    )


@pytest.mark.parametrize("id", registry.list_suitable_mechanisms())
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_game_is_as_hard_as_it_says_and_no_harder(id, epsilon):
    """The best strategy against what is dealt is right as often as is said, never more often."""
    mechanism = registry.create(id, epsilon=epsilon)
    guarantee = mechanism.guarantee(PUBLIC[mechanism.task])
    for question in trade.list_questions(guarantee, mechanism.task, 20):
        game = trade.build_guessing_game(question.assess(guarantee))
        if game is None:
            continue
        if "symbols" in game:
            assert sum(game["no"]) == pytest.approx(1)
            best = sum(map(max, zip(game["no"], game["yes"], strict=True))) / 2
        elif game["law"] == "gaussian":
            best = stats.norm.cdf(game["shift"] / 2)
        else:
            best = 1 - math.exp(-game["shift"] / 2) / 2
        assert 0.5 < best <= question.assess(guarantee).success_rate + 1e-9
        if guarantee.trust is Trust.LOCAL and "symbols" in game and len(game["symbols"]) == 2:
            assert best == pytest.approx(question.assess(guarantee).success_rate)


def test_all_of_a_persons_ratings_cost_more_than_one():
    guarantee = registry.create("input-flip", epsilon=0.5).guarantee(PUBLIC[Task.BINARY])
    single, all_of_them = trade.list_questions(guarantee, Task.BINARY, 6)
    assert single.assess(guarantee).success_rate == pytest.approx(1 / (1 + math.exp(-0.5)))
    flip = 1 / (1 + math.exp(0.5))  # six answers, guessed by their majority, ties by a coin
    pmf = [math.comb(6, k) * flip**k * (1 - flip) ** (6 - k) for k in range(7)]
    assert all_of_them.assess(guarantee).success_rate == pytest.approx(sum(pmf[:3]) + pmf[3] / 2)


def test_where_nothing_is_proved_no_limit_stands_for_certainty():
    proved = registry.create("input-flip", epsilon=10.0).guarantee(PUBLIC[Task.BINARY])
    _, all_ratings = trade.list_questions(proved, Task.BINARY, 500)
    assert all_ratings.assess(proved).success_rate == 1  # as far as numbers go
    assert all_ratings.assess(proved).is_bounded
    claimed = registry.create("dpmf", epsilon=1.0).guarantee(PUBLIC[Task.RATINGS])
    assert not any(
        question.assess(claimed).is_bounded
        for question in trade.list_questions(claimed, Task.RATINGS, 20)
    )


LIMITS = {
    0.5: "50.0 %", 1 / (1 + math.exp(-1)): "73.2 %", 0.7311: "73.2 %", 0.731: "73.1 %",
    0.99891: "99.9 %", 0.999: "99.9 %", 0.9990001: "> 99.9 %", 1.0: "> 99.9 %",
}  # fmt: skip


@pytest.mark.parametrize("share", LIMITS)
def test_a_limit_is_rounded_up(share):
    limit = cards.format_limit_percent(share)
    assert limit == LIMITS[share]
    assert cards.format_at_most(share) == (limit if limit == "> 99.9 %" else f"at most {limit}")


def run_javascript(code, expression):
    """Return the value of an expression after some code, in Node or in Chromium."""
    if node := shutil.which("node"):
        script = f"{code}; console.log(JSON.stringify({expression}))".encode()
        result = subprocess.run([node, "-"], input=script, capture_output=True, check=True)
        return json.loads(result.stdout)
    if not CHROMIUM:
        pytest.skip("neither Node nor Chromium is here")
    with open_chromium() as browser:
        return browser.new_page().evaluate(f"() => {{ {code}; return {expression} }}")


def test_the_phone_rounds_limits_as_the_server_does():
    page = (Path(scene.__file__).parent / "phone.html").read_text("utf-8")
    function = re.search(r"^function limitPercent\(.*?^}", page, re.DOTALL | re.MULTILINE)[0]
    shares = [*LIMITS, *(1 / (1 + math.exp(-epsilon)) for epsilon in EPSILONS)]
    texts = run_javascript(function, f"{json.dumps(shares)}.map(limitPercent)")
    assert texts == [*map(cards.format_limit_percent, shares)]


@pytest.mark.parametrize(
    ("name", "asked", "value", "note"),
    [
        ("target", 0.697, 0.695, "The target 69.7 was rounded to 69.5. "),
        ("target", 0.695, 0.695, ""),
        ("target", 0.9, 0.8, "The target 90 was rounded to 80. "),
        ("limit", 0.735, 0.74, "The target 73.5 was rounded to 74. "),
        ("limit", 0.6, 0.6, ""),
    ],
)
def test_no_target_is_rounded_in_silence(name, asked, value, note):
    view = {
        "usefulness": {"axis": [0.5, 0.8]},
        "needed": {"step": 0.005, "first": 100, "per": 100},
    }
    code = f"""{load_script()}
    const it = Object.assign(Object.create(Instrument.prototype), {{ view: {json.dumps(view)} }})
    it.view.needed.answers = Array(61)
    it.adopt("{name}", {asked})"""
    assert run_javascript(code, f'[it["{name}"], it.changed]') == [pytest.approx(value), note]


def test_a_refuted_claim_is_said_on_what_if():
    def list_titles(id, data="restaurants", **changes):
        shown = scene.load_shipped_scene(data, id)._replace(**changes)
        return {stop["titles"][0] for stop in scene.build_view(shown)["stops"]}

    assert list_titles("output") == {"Risk: the claim is refuted"}
    assert list_titles("dpimf-sampled", "bookshop-clicks") == {"Risk: no limit is proved"}
    assert not any("refuted" in title for title in map(str, list_titles("private-effects")))


# --- the curve, stop by stop ---------------------------------------------------------------------


def build_chart(values, baseline_value, without):
    line = make_placed_line("input-flip", values, epsilons=(0.1, 1.0, 10.0)).line
    baseline, reference = (
        make_level(id, [value] * 3, role)
        for id, value, role in (
            (registry.get_mechanism("input-flip").baseline, baseline_value, Role.BASELINE),
            (registry.NONPRIVATE_REFERENCES[Task.BINARY], without, Role.NO_PRIVACY),
        )
    )
    return lines.CurveChart(line.metric, (line,), (baseline,), (reference,))


def test_what_is_kept_is_the_share_of_the_gain():
    chart = build_chart([[0.5] * 3, [0.65] * 3, [0.69] * 3], 0.5, 0.7)
    line = chart.lines[0]
    shares = [numbers.compute_gain_share(chart, line, e) for e in (0.1, 1.0, 10.0)]
    assert [gain_share.share for gain_share in shares] == pytest.approx([0.0, 0.75, 0.95])
    assert [gain_share.is_clear for gain_share in shares] == [False, True, True]
    assert numbers.compute_gain_share(chart, line, 2.0) is None
    assert numbers.format_gain_share(0.75) == "keeps 75 % of the gain over the baseline"
    assert numbers.compute_gain_share(
        chart, line, 10.0, lines.Interval(0.88, 0.0, 0)
    ).share == pytest.approx(0.5)


def test_a_share_is_told_only_of_a_gain_that_the_seeds_show():
    def format_share(values, baseline_value, without):
        chart = build_chart(values, baseline_value, without)
        gain_share = numbers.compute_gain_share(chart, chart.lines[0], 1.0)
        assert not gain_share.is_clear
        return gain_share.label

    assert format_share([[0.5] * 3] * 3, 0.5, 0.5).startswith("nothing to keep")
    # 30 % of a gain of .05 by the means, but the band is as wide as the whole gain
    wide = [[0.5] * 3, [0.500, 0.515, 0.530], [0.6] * 3]
    assert "within the noise" in format_share(wide, 0.5, 0.55)
    assert format_share(wide, 0.5, 0.9) == UNCLEAR  # far from no privacy, and near to guessing
    assert format_share([[0.5, 0.5]] * 3, 0.3, 0.9) == ""  # two seeds say nothing


def test_the_interval_of_a_share_grows_with_every_error():
    chart = build_chart([[0.5] * 3, [0.59, 0.6, 0.61], [0.65] * 3], 0.5, 0.7)
    share = numbers.compute_gain_share(chart, chart.lines[0], 1.0)
    assert share.is_clear
    current = chart.lines[0].interval_at(1.0)
    expected = (share.share + sign * current.half_width / 0.2 for sign in (-1, 1))
    assert (share.low, share.high) == pytest.approx(tuple(expected))


def test_what_is_needed_is_read_off_an_increasing_fit():
    chart = build_chart([[0.5] * 3, [0.7] * 3, [0.6] * 3], 0.5, 0.7)
    line, grid = chart.lines[0], (0.1, 1.0, 10.0)
    few, half, largest, beyond = numbers.locate_targets(line, grid, [0.4, 0.575, 0.65, 0.66])
    assert (few.at, largest.at) == pytest.approx((0, 1))
    assert beyond.at is None
    assert (half.low, half.at, half.high) == pytest.approx((0.5, 0.5, 0.5))  # no spread
    (required,) = numbers.find_required_epsilons(
        lines.place_on_axis(line, lines.EpsilonUnit.PAPER), [0.575]
    )
    assert f"of about {numbers.format_required_epsilon(required)} " in half.words
    assert "position of the slider is 1." in half.words
    assert "slider" not in few.words + beyond.words


def test_the_shares_of_errors_are_counted_up_to_each_size(train):
    """Predictions beyond the range count as its end."""
    scores = np.tile([3.0, 4.0, 9.0], (train.public.users, train.public.items))
    scores = scores[:, : train.public.items]
    cdf = train_views.compute_error_cdf(Scored(scores), Task.RATINGS, train)
    low, high = train.public.low, train.public.high
    errors = [
        abs(min(max(scores[user, item], low), high) - value)
        for user, item, value in zip(train.users, train.items, train.values, strict=True)
    ]
    for size, share in zip(*cdf, strict=True):
        assert share == sum(error <= size for error in errors) / len(errors)
