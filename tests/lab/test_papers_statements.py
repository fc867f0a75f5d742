"""What is said of the papers: every statement is judged, and every number in a text is computed."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.errors import BadRatings
from dpmc_core.mechanisms.dpimf import Profiles
from dpmc_core.model import Task
from dpmc_core.problem import LeaveLast, build_problem
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_data import datasets, facts, public_sets
from dpmc_lab import papers
from dpmc_lab.cli import main
from dpmc_lab.papers import engine, ryhh24, verdicts, views, z16
from dpmc_lab.protocol import federated

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = {entry.id: (paper, entry) for paper, entry in papers.list_experiments()}


def load_view(id):
    return views.load_view(*EXPERIMENTS[id])


def get_point(id, label, x):
    return engine.load_shipped_result(id).get_point(label, x)


def list_texts(value):
    """Yield every text of a parsed file."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from list_texts(item)


def make_curves(id):
    """Run an experiment without randomness again; return its curves by label."""
    recipe = EXPERIMENTS[id][1].recipe
    outputs = {key: run() for key, run in recipe.list_runs().items()}
    return {series.label: series.mean for series in recipe.build_series(outputs)}


# --- sentences -----------------------------------------------------------------------------------


def test_no_word_is_broken_at_its_hyphen():
    """A line that ends with a hyphen is joined to the next one with a space: "Frank- Wolfe"."""
    texts = [text for name in papers.PAPERS for text in list_texts(load_paper_table(name))]
    texts += [path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")]
    texts.append((ROOT / "docs" / "papers.html").read_text(encoding="utf-8"))
    broken = re.compile(r"[A-Za-z]- +(?!and\b|or\b)[A-Za-z]")
    assert broken.search("by Frank- Wolfe")
    assert not broken.search("user- and item-centred")
    assert [match for text in texts for match in broken.findall(text)] == []


def load_paper_table(key):
    return facts.load_toml("dpmc_lab.papers", f"{key.lower()}.toml")


def test_every_figure_of_which_the_paper_speaks_has_its_statements():
    for number, part in ((n, p) for n in "78" for p in "abcdef"):
        paper, entry = EXPERIMENTS[f"ryhh24-{number}{part}"]
        assert entry.statements, entry.id
        view = views.load_view(paper, entry)
        assert view.assessment.label == (
            "not run" if part in "cd" else "differs in our reduced run"
        )
    for id in ("lwhm22-theorem-4", "z16-algorithms", "jtt18-nonprivate", "jtt18-oja"):
        assert load_view(id).assessment.statements
        assert load_view(id).assessment.label not in ("no verdict", "not run"), id


def test_a_curve_is_named_only_where_it_is():
    for _, entry in EXPERIMENTS.values():
        result, texts = engine.load_shipped_result(entry.id), " ".join(entry.changed)
        labels = {series.label for series in result.series} if result else set()
        assert "by rating" not in texts or any("by rating" in label for label in labels), entry.id


def test_svd_after_cleansing_centres_rows_in_its_own_way():
    """It takes item means first; Frank-Wolfe takes the users' own means."""
    ratings = Ratings.build(
        [0, 0, 1, 1],
        [0, 1, 0, 1],
        [1.0, 2.0, 4.0, 5.0],
        PublicFacts(users=2, items=2, low=1, high=5),
    )
    queries = {}
    registry.create("svd-after-cleansing", epsilon=1.0, delta=1e-6).cleanse(
        ratings, lambda name, exact: queries.setdefault(name, exact)
    )
    assert queries["item_sums"].tolist() == [-1.0, 1.0]  # of ratings less 3, not less own means
    for part in "abcde":
        changed = " ".join(EXPERIMENTS[f"jtt18-2{part}"][1].changed)
        assert "SVD after cleansing has its own centering" in changed


# --- numbers in sentences ------------------------------------------------------------------------


def compute_agreement(id):
    """Compute half widths in % where printed numbers agree, and how far the curves rise."""
    entry, result = EXPERIMENTS[id][1], engine.load_shipped_result(id)
    widths, ends = [], {}
    for printed in entry.printed:
        series = result.get_series(printed.series)
        k = series.x.index(printed.x)
        half = (series.high[k] - series.low[k]) / 2
        ends.setdefault(printed.series, []).append((printed.value, series.mean[k]))
        if abs(printed.value - series.mean[k]) <= half + printed.error:
            widths.append(100 * half / series.mean[k])
    return widths, [np.subtract(points[-1], points[0]) for points in ends.values()]


@pytest.mark.parametrize(
    ("id", "count", "reach"),
    [
        ("ryhh24-table-3", 13, "13 to 29 %"),
        ("ryhh24-table-4", 18, "10 to 29 %"),
        ("ryhh24-table-7", 4, "3 to 8 %"),
        ("ryhh24-table-8", 1, "7 %"),
    ],
)
def test_how_many_printed_numbers_agree_is_told_with_how_wide_our_intervals_are(id, count, reach):
    sentence = load_view(id).assessment.sentence
    widths, rises = compute_agreement(id)
    of_paper, ours = np.transpose(rises)
    assert len(widths) == count
    assert " to ".join(dict.fromkeys((f"{min(widths):.0f}", f"{max(widths):.0f}"))) + " %" == reach
    assert f"cover {count} of 40 printed numbers, and reach {reach} of our value" in sentence
    assert f"printed curves rise by {min(of_paper):.3f} to {max(of_paper):.3f}" in sentence
    assert f"ours by {min(ours):.3f} to {max(ours):.3f}." in sentence
    assert (ours < of_paper / 3).all()  # ours hardly move


@pytest.mark.parametrize("part", ["e", "f"])
def test_the_spread_of_figure_8_is_told_beside_that_of_figure_7(part):
    """DPIMF with sampling and without: standard deviations over the same seeds."""
    ratios = []
    for label in ("opt", "IS"):
        for x in (1.0, 3.0, 10.0):
            of_users, of_items = (get_point(f"ryhh24-{n}{part}", label, x) for n in "87")
            ratios.append(np.std(of_users.draws, ddof=1) / np.std(of_items.draws, ddof=1))
    told = f"{min(ratios):.2f} to {max(ratios):.2f}".replace("0.", ".", 1)
    assert f"is {told} times" in load_view(f"ryhh24-8{part}").assessment.sentence
    draws = [np.mean(get_point(f"ryhh24-8{part}", "opt", x).draws) for x in (1.0, 3.0, 10.0)]
    assert draws == sorted(draws)


# --- ties of the latest rating -------------------------------------------------------------------


def test_the_rule_for_ties_decides_only_among_the_latest(monkeypatch):
    """Films 0 to 3 are rated by 4, 3, 2 and 1 users; user 0's latest are the films 1, 2 and 3."""
    users, items = [0, 0, 0, 0, 1, 1, 1, 2, 2, 3], [0, 1, 2, 3, 0, 1, 2, 0, 1, 0]
    times = [5, 9, 9, 9, 1, 2, 3, 1, 2, 1]
    public = PublicFacts(users=4, items=4, low=0, high=1)
    ratings = Ratings.build(users, items, np.ones(10), public, times=times)
    dataset = datasets.load("bookshop-clicks")
    monkeypatch.setattr(ryhh24.datasets, "load", lambda *_, **__: replace(dataset, ratings=ratings))
    ryhh24.load_problem.cache_clear()
    expected = {
        "lowest film number": 1,
        "highest film number": 3,
        "most rated film": 1,
        "least rated film": 3,
    }
    assert {*expected} == {*ryhh24.TIE_RULES}
    for ties, item in expected.items():
        test = ryhh24.load_problem("any", 1, ties).test
        assert dict(zip(test.users, test.items, strict=True)) == {0: item, 1: 2, 2: 1}
    drawn = {int(ryhh24.load_problem("any", seed).test.items[0]) for seed in range(20)}
    assert drawn == {1, 2, 3}
    assert ryhh24.share_tied_users("any", 0) == 0.25
    ryhh24.load_problem.cache_clear()


def test_what_is_told_of_ties_is_what_was_measured():
    (text,) = [t for t in EXPERIMENTS["ryhh24-table-3"][1].unknown if "ryhh24-ties" in t]
    share = get_point("ryhh24-ties", "share of users with a tie", 0.0).mean
    assert f"{100 * share:.0f} % have several" in text
    told = re.findall(r"\.(\d\d)", text.split("HR@10")[1])
    computed = []
    for ridge in ("0.07", "0.02"):
        curve = engine.load_shipped_result("ryhh24-ties").get_series(
            f"opt without noise, lambda {ridge}"
        )
        computed += [f"{min(curve.mean):.2f}", f"{max(curve.mean):.2f}"]
    low, high, *_ = computed
    assert [f"0.{digits}" for digits in told] == [low, high, "0.07", *computed[2:], "0.02"]


def test_two_of_five_users_of_movielens_have_ties(shared_data, monkeypatch, tmp_path):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    ratings = datasets.load(shared_data / "ml-100k", for_ranking=True).ratings
    latest = {}
    for user, time in zip(ratings.users, ratings.times, strict=True):
        latest.setdefault(user, []).append(time)
    tied = sum(times.count(max(times)) > 1 for times in latest.values())
    assert tied == 415
    assert get_point("ryhh24-ties", "share of users with a tie", 0.0).mean == pytest.approx(
        415 / 943
    )
    problem = build_problem(datasets.load(shared_data / "ml-100k"), Task.RANKING, split=LeaveLast())
    assert len(problem.test) == 943


# --- Algorithm 1 ---------------------------------------------------------------------------------


def test_the_server_averages_over_all_parties_and_every_experiment_says_so():
    """Item 2 has no click: what all parties send for it is noise, and it enters the average."""
    users, items = np.nonzero(np.random.default_rng(0).random((8, 3)) < 0.6)
    keep = items < 2
    public = PublicFacts(users=8, items=3, low=0, high=1)
    ratings = Ratings.build(users[keep], items[keep], np.ones(keep.sum()), public)
    flow = federated.build_federation(
        "dpimf-optimal", 1.0, parties=4, rounds=1, local=1, rank=2, profiles=Profiles.ITEMS
    )
    run = federated.FederatedRun(flow, ratings, np.random.default_rng(1), watch=0)
    assert [*run.play()] == [1]
    sent = [
        message.payload["profiles"]
        for message in run.transcript
        if message.kind == federated.NOISY_PROFILES
    ]
    assert len(sent) == 4
    assert run.shared == pytest.approx(np.mean(sent, axis=0))
    assert any(profiles[2].any() for profiles in sent)
    told = "We average over all parties"
    for paper, entry in EXPERIMENTS.values():
        runs = (
            getattr(entry.recipe, "settings", {}).get("runs", ()) if paper.key == "RYHH24" else ()
        )
        is_federated = any("rounds" in text for text in runs)
        assert (told in " ".join(entry.changed)) == is_federated, entry.id


# --- own copies ----------------------------------------------------------------------------------


def write_copy(id, values="12345"):
    """Put a small file in the place of one's own copy: 40 users, 12 items, each half rated."""
    path = public_sets.get_set_folder(id) / public_sets.SETS[id].files[0]
    path.parent.mkdir(parents=True)
    rng = np.random.default_rng(0)
    rows = [
        f"{user + 1}\t{item + 1}\t{values[rng.integers(len(values))]}"
        for user, item in zip(*np.nonzero(rng.random((40, 12)) < 0.5), strict=True)
    ]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("id", "values", "ends"),
    [
        ("netflix", "12345", (1, 5)),
        ("yahoo-r3", "12345", (1, 5)),
        ("yahoo-c15", ["0", "30", "90", "100"], (0, 100)),
    ],
)
def test_an_own_copy_is_known_by_its_place(id, values, ends, monkeypatch, tmp_path):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    file = public_sets.SETS[id].files[0]
    for act in (datasets.load, public_sets.get_public_set):
        with pytest.raises(BadRatings, match=rf"put your copy of {file} \(.*\) into"):
            act(id)
    assert not public_sets.is_downloaded(id)
    path = write_copy(id, values)
    assert public_sets.is_downloaded(id)
    for data in (id, path, path.parent):
        dataset = datasets.load(data)
        assert dataset.title == public_sets.SETS[id].title
        assert (dataset.ratings.public.low, dataset.ratings.public.high) == ends
    elsewhere = tmp_path / file
    elsewhere.write_bytes(path.read_bytes())
    assert public_sets.recognise_public_set(datasets.Source.from_file(elsewhere)) is None
    path.write_text("1\t1\t101\n1\t2\t3\n2\t1\t3\n", encoding="utf-8")
    with pytest.raises(BadRatings):
        datasets.load(id)


def test_figures_on_an_own_copy_can_be_made(monkeypatch, tmp_path, capsys):
    """A figure of each paper on sets that this program does not download, on a small copy."""
    for prefix, sets in (
        ("jtt18-2d jtt18-3c hxz15-netflix", ("netflix",)),
        ("jtt18-2e jtt18-3d", ("yahoo-c15",)),
        ("ryhh24-table-5 ryhh24-table-6 ryhh24-5d ryhh24-7c ryhh24-8d", ("yahoo-r3",)),
    ):
        for id in prefix.split():
            assert EXPERIMENTS[id][1].needs == sets
            assert f"dpmc data get {sets[0]}" in load_view(id).assessment.sentence
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    assert main(["papers", "ryhh24-5d", "--run", "--seeds", "1"]) == 1
    assert "put your copy of ydata-ymusic" in capsys.readouterr().err
    write_copy("yahoo-r3")
    assert main(["papers", "ryhh24-5d", "--run", "--seeds", "1"]) == 0
    assert engine.load_own_result("ryhh24-5d").get_point("opt", 10.0)


# --- entries by formulas -------------------------------------------------------------------------


@pytest.mark.parametrize("formula", ["m + 1", "n if n else 1", "open('n')", "__import__('os')"])
def test_a_formula_is_arithmetic_of_its_columns_and_no_python(formula):
    recipe = engine.evaluate_formulas({"n": [2.0, 3.0]}, {"ours": formula})
    with pytest.raises(ValueError, match="no formula of n"):
        recipe.trials[0].make()
    exact = engine.evaluate_formulas({"n": [2.0, 3.0]}, {"ours": "2*n**2/n - log(n) + 1"})
    values = [2 * n - math.log(n) + 1 for n in (2, 3)]
    assert exact.trials[0].make()["ours"][1] == pytest.approx(values, rel=1e-15)


def test_the_densities_of_table_ii_by_fractions():
    table = {"users": (71_567, 8089, 5130), "items": (10_681, 1000, 1685)}
    curves = make_curves("ryhh24-table-2-density")
    for name, averages, sizes in (
        ("user", (97, 33, 12), table["items"]),
        ("item", (Fraction("40.5"), 270, 36), table["users"]),
    ):
        exact = [float(100 * Fraction(a) / n) for a, n in zip(averages, sizes, strict=True)]
        assert curves[f"from ratings per {name}"] == pytest.approx(exact, rel=1e-12)
    within = [c.within for c in load_view("ryhh24-table-2-density").assessment.compared]
    assert within == [False, False, True] * 2
    ratios = [4.3 / curves[f"from ratings per {name}"][0] for name in ("user", "item")]
    assert "4.7 and 76 times" in load_view("ryhh24-table-2-density").assessment.sentence
    assert [f"{ratio:.2g}" for ratio in ratios] == ["4.7", "76"]


def test_what_theorem_4_asks_of_epsilon_against_the_noise_that_is_drawn():
    curves = make_curves("lwhm22-theorem-4")
    sizes = EXPERIMENTS["lwhm22-theorem-4"][1].recipe.settings["columns"]["size"]
    published = registry.get_published_settings("output").settings
    for k, size in enumerate(sizes):
        log = math.log(2 * size)
        for name, epsilon in (("4", 4.0), ("log(d1 + d2)", log), ("log(d1 + d2)^2", log**2)):
            public = PublicFacts(users=int(size), items=int(size), low=-1, high=1)
            mechanism = registry.create("output", epsilon=epsilon, **published)
            scale = mechanism.guarantee(public).releases.matrix.scale
            assert curves[f"noise, epsilon {name}"][k] == pytest.approx(2 * scale**2)
            assert curves[f"bound, epsilon {name}"][k] == pytest.approx((log / epsilon) ** 2)


def count_noise(id, public, **settings):
    """Count the numbers that a mechanism releases with noise in one round, beside item effects."""
    texts = {**registry.get_published_settings(id).settings, "rounds": 1, **settings}
    guarantee = registry.create(id, epsilon=1.0, delta=1e-6, **texts).guarantee(public)
    released = [value for name, value in vars(guarantee.releases).items() if name != "effects"]
    flat = [r for value in released for r in (value if isinstance(value, tuple) else [value])]
    return sum(math.prod(release.shape) * release.times for release in flat)


def test_what_ojas_method_draws_and_what_an_update_saves():
    """Numbers drawn as the mechanisms release them; the start of Oja's method is drawn as well."""
    columns = EXPERIMENTS["jtt18-oja"][1].recipe.settings["columns"]
    curves = make_curves("jtt18-oja")
    sizes = zip(columns["m"], columns["n"], columns["k"], strict=True)
    for index, (m, n, k) in enumerate(sizes):
        public = PublicFacts(users=m, items=n, low=0, high=5, cap=k)
        oja = count_noise("private-frank-wolfe-oja", public, updates=10) + n
        assert curves["noise of Algorithm 2"][index] == oja
        if n < 1000:  # Algorithm 1 has a limit on items here
            dense = count_noise("private-frank-wolfe", public)
            assert curves["noise of Algorithm 1"][index] == dense
        saved = curves["an update, noisy matrix over noisy vector"][index]
        assert saved == pytest.approx((m * k + n * n) / (m * k + n))
        assert curves["operations, 2 over 1"][index] < 1
        typical = m * math.sqrt(n)  # with the paper's k no answer changes
        for ratio in (saved, (typical + n * n) / (typical + n)):
            assert (ratio > 2) == (n > 1000)


def test_algorithms_on_reports_do_what_is_told():
    """Where nothing is changed, an algorithm that takes reports is one that takes ratings."""
    names = {"pmf": {}, "user-mean": {}}
    exact = z16.measure_algorithms(names, "randomised-response", 60.0, 3)
    ratings, truth, _ = z16._draw_ratings(np.random.default_rng(3))
    assert exact[z16._ZERO] == pytest.approx(np.linalg.norm(truth))
    *_, last = registry.create("user-mean").fit(ratings, np.random.default_rng(0))
    predicted = last.model.predict(*np.indices(truth.shape))
    expected = np.linalg.norm((predicted - 3) / 2 - truth)
    assert exact["user-mean"] == pytest.approx(expected)
    result = engine.load_shipped_result("z16-algorithms")
    fitted = [series.label for series in result.series if series.label != z16._ZERO]
    assert verdicts.check_rows([["above", z16._ZERO, fitted, [4.0]]], result) is True
    slow = [label for label in fitted if "user means" not in label]
    means = [result.get_point(label, 1.0).mean for label in slow]
    assert min(means) > result.get_point(z16._ZERO, 1.0).mean


def test_both_methods_without_privacy_reach_the_same_accuracy():
    fw, pgd = (get_point("jtt18-nonprivate", f"Non-private {name}", 0.0) for name in ("FW", "PGD"))
    assert abs(fw.mean - pgd.mean) < 0.02
    sentence = load_view("jtt18-nonprivate").assessment.sentence
    assert f"{fw.mean:.3f}" in sentence
    assert f"{pgd.mean:.3f}" in sentence
