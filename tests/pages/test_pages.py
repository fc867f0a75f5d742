"""Every page opened and used as a person would, without a browser."""

import dataclasses
import gc
import html
import io
import itertools
import json
import re
import shlex
import sys
import weakref
from collections import Counter
from pathlib import Path

import plotly.graph_objects as plotly
import pytest
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.testing.v1 import AppTest

from dpmc_core import experiment, registry
from dpmc_core.metrics import METRICS
from dpmc_core.model import Task
from dpmc_core.preparation import CapPerUser
from dpmc_core.problem import LeaveLast, RandomShare, build_problem, prepare_public_facts
from dpmc_core.ratings import Ratings
from dpmc_data import datasets, memory, public_sets
from dpmc_data.source import USUAL_BYTES
from dpmc_lab import shipped
from dpmc_lab.cli import main
from dpmc_lab.protocol.federated import FLOW
from dpmc_lab.sweep.presets import EPSILONS
from dpmc_lab.views import cards, lines, measurements, run_card
from dpmc_lab.views.what_if import build_stop
from pages.ui import blocks, charts, scene, sentences, upload
from pages.ui.charts import compare as charts_compare
from pages.ui.charts.curve import Usefulness
from tests.page_helpers import (
    find_button,
    list_charts,
    make_placed_line,
    move_slider_to,
    open_page,
    press_button,
    read_all_text,
    read_chart_spec,
    read_current_stop,
    read_instrument,
    run_until_done,
    unescape_markdown,
    wait_until,
)
from tests.slow_helpers import mark_rest_slow
from tests.store_helpers import load_curve_chart

PAGES = ("what_if", "data", "train", "noise", "guarantees")
MECHANISMS = registry.list_private_mechanisms(Task.BINARY)

no_windows = pytest.mark.skipif(sys.platform == "win32", reason="pages start no sweeps there")


def go_to(app, path):
    """Follow the navigation to another page.

    The second run stands for the address, which keeps a bound choice in a browser and which
    AppTest does not have.
    """
    app.switch_page(path).run()
    app.run()
    assert not app.exception


def test_noise_says_that_it_shows_another_mechanism_than_the_one_that_came():
    came = "Input perturbation adds no noise to numbers."
    app = open_page("noise", data="movie-night", came_from="")  # the path of What if
    (note,) = (note.value for note in app.warning if came in note.value)
    shown = registry.get_mechanism(app.session_state["mechanism"]).name
    assert note.endswith(f"This page shows {shown} instead.")
    for came_from in (None, "learn"):  # no mechanism came
        assert not open_page("noise", data="movie-night", came_from=came_from).warning


def test_after_an_attack_its_mechanism_is_refuted_on_other_pages():
    measured = measurements.find_default_measured_bound("output")
    attack = dataclasses.replace(measured, mechanism="dpimf-sampled")
    app = open_page(data="bookshop-clicks", mechanism="dpimf-sampled")
    for is_attacked in (False, True):
        (title,) = {stop["titles"][0] for stop in read_instrument(app)["stops"]}
        assert title == f"Risk: {'the claim is refuted' if is_attacked else 'no limit is proved'}"
        captions = dict(zip(app.radio(key="mechanism").options, list_captions(app), strict=True))
        state = "⊗ refuted" if is_attacked else "○ claimed only"
        assert captions[registry.get_mechanism("dpimf-sampled").name].startswith(state)
        app.session_state["attacks"] = {("dpimf-sampled", 1.0): attack}
        app.run()


def list_captions(app):
    return app.radio(key="mechanism").proto.captions


def test_compare_draws_refuted_claims_as_crossed_rings():
    chart = lines.CurveChart(METRICS["accuracy"])
    for id, solid, refuted in itertools.product(
        ["dpimf-sampled", "output"], [True, False], [(), ["dpimf-sampled"]]
    ):
        plotted = [make_placed_line(id, [[0.5, 0.6], [0.6, 0.7]], solid=solid)]
        for figure in (
            charts_compare.plot_comparison(chart, plotted, (0.1, 10), refuted=refuted),
            charts_compare.plot_differences(chart, plotted, (0.1, 10), refuted=refuted),
        ):
            is_crossed = "circle-x" in json.dumps(figure, default=str)
            assert is_crossed == (not solid and (id == "output" or id in refuted))


@pytest.mark.parametrize("name", ["data", "noise", "guarantees"])
def test_every_chart_has_words_and_a_table_that_unfolds(name):
    app = open_page(name, data="one-bit-lab")
    app.session_state["report"] = True  # of your data
    app.run()
    count, tables = len(list_charts(app)), len(app.dataframe)
    alts = {chart.proto.alt for chart in list_charts(app)}
    assert count
    assert all(alt.strip() for alt in alts)
    folded = [e for e in app.expander if e.label == "The chart in words and numbers"]
    assert len(folded) == count
    for each in folded:
        app.session_state[each.key] = True
    app.run()
    assert not app.exception
    assert alts <= {text.value for text in app.text}
    assert len(app.dataframe) == tables + count


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(
    ("theme", "data"),
    [
        ("dark", "one-bit-lab"),
        pytest.param("light", "one-bit-lab", marks=pytest.mark.slow),
        pytest.param("light", "bookshop-clicks", marks=pytest.mark.slow),
        pytest.param("dark", "bookshop-clicks", marks=pytest.mark.slow),
    ],
)
def test_charts_follow_the_theme_and_are_what_plotly_draws(name, theme, data):
    app = open_page(name, theme, data=data)
    ink = (charts.DARK if theme == "dark" else charts.LIGHT).ink
    for number in range(len(list_charts(app))):
        spec = read_chart_spec(app, number)
        assert spec["layout"]["template"]["layout"]["font"]["color"] == ink
        assert len(plotly.Figure(spec).data) == len(
            spec["data"]
        )  # a wrong name or value is refused


@pytest.mark.parametrize("id", mark_rest_slow(MECHANISMS))
def test_what_if_shows_the_stored_means_and_moves_only_its_marker(id):
    app = open_page(data="one-bit-lab", mechanism=id)
    with shipped.load_curves("one-bit-lab", Task.BINARY, [id]) as store:
        line, *papers = load_curve_chart(store, [id], METRICS["accuracy"]).lines
    # The noise-aware estimate, where there are two.
    assert line.label == registry.get_mechanism(id).name
    assert len(papers) == registry.has_setting(registry.get_mechanism(id), "estimator")
    before = None
    for epsilon in (0.1, 1.0, 10.0):
        move_slider_to(app, epsilon)
        assert read_current_stop(app)["text"] == METRICS["accuracy"].format_value(
            line.interval_at(epsilon).mean
        )
        assert read_current_stop(app)["value"] == line.interval_at(epsilon).mean
        view = {name: value for name, value in read_instrument(app).items() if name != "epsilon"}
        assert before is None or view == before
        before = view
    assert [stop["epsilon"] for stop in before["stops"]] == [*EPSILONS]


def test_a_private_guess_is_compared_at_its_own_epsilon():
    app = open_page(data="bookshop-clicks", mechanism="dplcf", epsilon="1")
    chart = lines.load_shipped_charts("bookshop-clicks", "dplcf")[0]
    assert chart.metric.candidates == "all unseen items"
    (baseline,) = chart.baselines
    assert not baseline.is_level
    assert baseline.mechanism == "local-popularity"
    usefulness = Usefulness.from_line(chart, chart.lines[0])
    ((role, _, values),) = (level for level in usefulness.levels if level[1] == "popular list")
    assert role is lines.Role.BASELINE
    assert values == pytest.approx(baseline.band.mean)
    assert max(values) > min(values)  # it is noisy as well
    reference = chart.nonprivate_reference
    for epsilon in (1.0, 10.0):
        move_slider_to(app, epsilon)
        low, high = baseline.interval_at(epsilon).mean, reference.interval.mean
        share = (chart.lines[0].interval_at(epsilon).mean - low) / (high - low)
        is_better = lines.is_clearly_better(
            chart.metric, chart.lines[0].interval_at(epsilon), baseline.interval_at(epsilon)
        )
        title = read_current_stop(app)["titles"][1]
        assert (f": {100 * share:.0f} %" in title) == is_better
        values, baseline_values = (
            line.values[line.epsilon == epsilon][0] for line in (chart.lines[0], baseline)
        )
        difference = lines.compute_interval(values - baseline_values[: len(values)])
        answer = read_answer(app)
        assert "of next items are in ten suggestions" in answer
        assert ("no clear gain over one popular list" in answer) == (
            abs(difference.mean) <= difference.half_width
        )


def read_answer(app):
    texts = (text for text, _ in read_current_stop(app)["sentence"])
    return "".join(text if isinstance(text, str) else text[0] for text in texts)


def test_the_sentence_on_top_is_the_one_of_the_slider_and_its_reasons_open():
    app = open_page(data="movie-night")
    app.session_state["why"] = True  # opened: one limit of a rating, and one of all of them
    for epsilon in (0.1, 1.0, 10.0):
        move_slider_to(app, epsilon)
        (body,) = (e.proto.body for e in app.get("html") if "dpmc-say" in e.proto.body)
        assert html.unescape(re.sub(r"<[^>]*>", "", body)) == read_answer(app)
        assert read_answer(app).startswith(f"At epsilon\N{NO-BREAK SPACE}{epsilon:g}, ")
    reasons = [caption.value for caption in app.caption if caption.value.startswith("An attack")]
    assert len({*reasons}) == len(reasons) == 2


@pytest.mark.parametrize(
    ("data", "id", "epsilon", "phrases"),
    [
        ("movie-night", "dpmf", 0.1, ["no limit is proved", "worse than"]),
        ("movie-night", "gradient", 0.1, ["about one rating at most", "one answer for all"]),
        ("movie-night", "private-taste", 1.0, ["hers at most 58.0 %", "not computed yet"]),
    ],
)
def test_the_sentence_says_what_is_not_proved_not_clear_or_not_computed(data, id, epsilon, phrases):
    shipped_scene = scene.load_shipped_scene(data, id)
    chart = (
        shipped_scene.chart
        if shipped_scene
        else lines.CurveChart(lines.list_plotted_metrics(registry.get_mechanism(id).task)[0])
    )
    mechanism = registry.create(id, epsilon=epsilon)
    public = prepare_public_facts(datasets.load(data).ratings.public, mechanism.task)
    answer = sentences.write_answer(chart, build_stop(mechanism, epsilon, chart, public))
    text = "".join(part for part, _ in answer)
    assert not re.search(r"epsilon \d|\d %|\d stars", text)  # no line ends between the two
    text = unescape_markdown(text)
    assert all(phrase in text for phrase in phrases), text
    roles = [role for _, role in answer if role]
    assert roles == sorted(roles)
    assert {*roles} == {"risk", "use"}


@pytest.mark.parametrize(
    "id", ["input-flip", "objective", "modified-laplace", "private-effects", "dplcf", "private-svd"]
)
def test_the_sentence_names_the_prior_and_its_number_is_a_limit(id):
    """At every epsilon, also where the limit is nearly 100 %."""
    task = registry.get_mechanism(id).task
    data = "bookshop-clicks" if task is Task.RANKING else "movie-night"
    public = prepare_public_facts(datasets.load(data).ratings.public, task)
    no_curve = lines.CurveChart(lines.list_plotted_metrics(task)[0])
    for stop in scene.build_scene(id, no_curve, public).stops:
        rate = 100 * stop.guarantee.attacker_accuracy(stop.risk.question.change)
        answer = unescape_markdown(
            "".join(text for text, _ in sentences.write_answer(no_curve, stop))
        )
        assert "an attacker torn 50:50" in answer
        for sentence in (answer, stop.risk.describe()):
            if rate > 99.9:
                assert "no useful limit" in sentence or "> 99.9 %" in sentence
            else:
                limit = float(re.search(r"at most ([\d.]+)\s%", sentence)[1])
                assert rate - 1e-9 <= limit < rate + 0.1


def test_junk_in_a_link_falls_back_with_a_note():
    app = open_page(data="<script>", mechanism="magic", epsilon="banana")
    notes = "\n".join(note.value for note in app.warning)
    assert "banana" in notes
    assert "magic" in notes
    assert "script" in notes
    assert (app.selectbox(key="data").value, read_current_stop(app)["epsilon"]) == (
        "movie-night",
        1.0,
    )
    app.run()
    assert not app.warning  # said once


CSV = "person,film,stars\n" + "".join(
    f"u{u},f{i},{1 + (u * i + u + i) % 5}\n" for u in range(30) for i in range(20) if (u + i) % 3
)


LATER = b"userId,movieId,rating,timestamp\n" + b"".join(
    b"%d,%d,%d,97830076%d\n" % (u, i, 1 + (u + i) % 5, u) for u in range(9) for i in range(8)
)


def upload_file(app, content, name="ratings.csv", low=1.0, high=5.0):
    app.file_uploader[0].upload(name, content.encode() if isinstance(content, str) else content)
    app.run()
    if app.error or find_button(app, "Read the ratings") is None:
        return app
    return confirm_reading(app, low, high)


def confirm_reading(app, low, high):
    if low is not None:
        (scale,) = (group for group in app.get("button_group") if group.label == "Possible ratings")
        name = f"{low:g} to {high:g}"
        scale.set_value(name if name in upload.SCALES else "Others").run()
        for number in app.number_input:
            if number.label.endswith("possible rating"):
                number.set_value(low if number.label.startswith("Lowest") else high)
    press_button(app, "Read the ratings")
    run_until_done(app)
    return app


def test_an_upload_is_read_with_the_range_given_by_hand():
    for low, high in ((0, 10), (0, 7)):
        app = upload_file(open_page("data"), CSV, low=float(low), high=float(high))
        assert not app.error
        assert app.selectbox(key="data").value == "upload"
        public = app.session_state["upload"].ratings.public
        assert (public.users, public.items, public.low, public.high) == (30, 20, low, high)
        assert "30 users, 20 items" in read_all_text(app)


@pytest.mark.parametrize("content", [CSV, LATER], ids=["own", "headed like a public set"])
def test_an_upload_without_a_range_asks_for_it(content):
    app = open_page("data")
    app.file_uploader[0].upload("ratings.csv", content.encode() if content is CSV else content)
    app.run()
    assert "ratings.csv is not read yet" in read_all_text(app).replace("**", "")
    assert find_button(app, "Read the ratings").disabled
    assert "Choose the possible ratings first" in read_all_text(app)
    confirm_reading(app, 1.0, 5.0)
    assert app.session_state["upload"].ratings.public.high == 5


def test_with_a_range_an_upload_is_read_as_clicks_only_if_asked():
    text = "user,item\n" + "".join(f"u{k % 7},i{k}\n" for k in range(20))
    app = upload_file(open_page("data"), text)
    assert "no column holds the rating" in app.info[0].value
    assert "upload" not in app.session_state
    press_button(app, "Choose this reading")
    press_button(app, "Read the ratings")
    assert app.session_state["upload"].ratings.has_only_clicks


def test_an_upload_waits_until_its_column_of_users_is_confirmed():
    """A guess is confirmed, what no name says is chosen, and what counts contradict is asked."""
    rows = CSV.partition("\n")[2]
    csv_text = "user,item,rating\n" + "".join(f"u{k},f{k % 9},3\n" for k in range(120))
    for content, column in ((rows, 0), ("name,film,stars\n" + rows, None), (csv_text, None)):
        app = upload_file(open_page("data"), content)
        assert "upload" not in app.session_state
        assert find_button(app, "Read the ratings") is None
        if column is None:
            (users,) = (box for box in app.selectbox if box.label == "Users")
            users.set_value(1).run()
        else:
            next(b for b in app.button if b.label == "Choose this reading").click().run()
        ratings = confirm_reading(app, 1.0, 5.0).session_state["upload"].ratings
        assert "user" not in ratings.columns.guessed
        assert ratings.public.users == (120 if content == csv_text else 30)


def test_one_click_chooses_how_an_upload_is_read():
    people = [f"anna{k}" for k in range(9)]
    rows = [
        ",".join([f"Film {i}", *(str(1 + (i * u) % 5) if (i + u) % 3 else "" for u in range(9))])
        for i in range(6)
    ]
    app = upload_file(open_page("data"), "\n".join([",".join(["title", *people]), *rows]))
    assert "upload" not in app.session_state
    offers = [text.value for text in app.markdown if " people, " in text.value]
    assert [offer.partition(",")[0] for offer in offers] == ["**9 people", "**6 people"]
    next(b for b in app.button if b.label == "Choose this reading").click().run()
    assert "--read layout=transposed" in app.code[0].value
    ratings = confirm_reading(app, 1.0, 5.0).session_state["upload"].ratings
    assert (ratings.public.users, ratings.public.items) == (9, 6)


WILD = Path(__file__).resolve().parents[3] / "shared" / "data" / "wild"
# How people bring ratings: rows, matrices, surveys, blocks, words, clicks; then what is no table.
WILD_FILES = (
    *("ml-25m.csv", "amazon2014.csv", "bx-latin1.csv", "german.csv", "netflix.txt", "gforms.csv"),
    *("moodle.csv", "wide-gaps.csv", "wide-transposed-dense.csv", "wide-euro.csv", "wide.parquet"),
    *("words.csv", "likert.csv", "stars-glyph.csv", "steam-200k.csv", "anime.csv", "ml.zip"),
    *("clicks-time.csv", "gowalla-snap.txt", "index-and-numbers.csv", "utf16.csv", "total-row.csv"),
    "nested.json",
)
WILD_REFUSED = ("letterboxd-like.csv", "sav.sav", "libsvm.txt")


def click_to_ratings(app, truth):
    """Choose the right reading where one must be chosen, and read the ratings."""
    ends = truth.get("range", "0:1" if truth.get("mean", 1) < 1 else "1:5")
    if truth.get("mean", 1) > 5:
        ends = "0:1000"
    low, high = map(float, ends.split(":")) if ends else (None, None)
    for _ in range(4):
        offers = [text.value for text in app.markdown if " people, " in text.value]
        buttons = [button for button in app.button if button.label == "Choose this reading"]
        if find_button(app, "Read the ratings"):
            confirm_reading(app, low, high)
        elif buttons:
            right = f"{truth['users']} people, {truth['items']} items, {truth['n']:,} "
            kind = "ratings from" if ends else "clicks"
            next(b for b, o in zip(buttons, offers, strict=True) if right + kind in o).click().run()
        if "upload" in app.session_state:
            return


@pytest.mark.slow
@pytest.mark.skipif(not WILD.is_dir(), reason="the files of ../shared/data are not here")
@pytest.mark.parametrize("name", [*WILD_FILES, *WILD_REFUSED])
def test_files_as_people_bring_them_are_read_right_by_clicks_or_refused(name):
    truth = json.loads((WILD / "right.json").read_text("utf-8"))[name]
    app = open_page("data")
    app.file_uploader[0].upload(name, (WILD / name).read_bytes())
    app.run()
    if name in WILD_REFUSED:
        assert len(app.error[0].value) > 40
        assert not find_button(app, "Read the ratings")
        return
    click_to_ratings(app, truth)
    ratings = app.session_state["upload"].ratings
    found = (ratings.public.users, ratings.public.items, len(ratings))
    assert found == (truth["users"], truth["items"], truth["n"])


def choose_rule(app, option, value):
    """Choose how the waiting file is written."""
    (box,) = (box for box in app.selectbox if box.label == upload.RULES[option][0])
    box.set_value(value).run()


def test_a_file_is_recognised_once_for_each_choice_of_options(monkeypatch):
    """However often the page runs again, and on whichever page the person is meanwhile."""
    counts = Counter()
    for name in ("examine_upload", "preview_upload", "load_upload"):
        function = getattr(datasets, name)

        def count(*args, name=name, function=function, **options):
            counts[name] += 1
            return function(*args, **options)

        monkeypatch.setattr(datasets, name, count)
    app = open_page("data")
    app.file_uploader[0].upload("ratings.csv", CSV.encode())
    for _ in range(4):
        app.run()
    assert counts == {"examine_upload": 1, "preview_upload": 1}
    for value in ("comma", upload.GUESS, "comma", upload.GUESS):
        choose_rule(app, "separator", value)
    assert counts == {"examine_upload": 2, "preview_upload": 2}
    confirm_reading(app, 1.0, 5.0)  # with the range the file is recognised again
    before = dict(counts)
    assert before["load_upload"] == 1
    for page in ("what_if", "noise", "compare", "train", "protocol", "guarantees", "data"):
        go_to(app, f"pages/{page}.py")
        app.run()
    assert counts == before


def test_no_more_than_a_few_recognitions_of_a_file_are_kept_and_forgetting_drops_them():
    app = open_page("data")
    app.file_uploader[0].upload("ratings.csv", CSV.encode())
    app.run()
    for option in ("separator", "layout"):
        for value in upload.RULES[option][1]:
            choose_rule(app, option, value)
    assert len(app.session_state["kept"]["recognition"]) == upload.MAX_RECOGNITIONS
    go_to(app, "pages/noise.py")
    go_to(app, "pages/data.py")
    press_button(app, "Forget ratings.csv")
    assert "recognition" not in app.session_state["kept"]


def test_an_upload_stays_in_its_session():
    upload_file(open_page("data"), CSV)
    other_app = open_page("data")
    assert "Your upload" not in other_app.selectbox(key="data").options
    link = open_page("data", data="upload")
    assert link.selectbox(key="data").value == "movie-night"
    (note,) = link.warning
    assert "You see Movie night instead" in note.value


def test_nothing_of_an_upload_is_held_once_its_session_has_ended():
    app = upload_file(open_page("data"), CSV)
    for page in ("what_if", "noise", "compare", "train"):
        go_to(app, f"pages/{page}.py")
    session_objects = [
        app.session_state["upload"].ratings,
        *(value for _, value in app.session_state["kept"]["upload results"]),
    ]
    references = [weakref.ref(value) for value in session_objects if isinstance(value, Ratings)]
    assert len(references) > 1
    go_to(app, "pages/data.py")
    press_button(app, "Forget this upload")
    del app, session_objects
    gc.collect()
    assert not [reference for reference in references if reference() is not None]


def test_forgetting_an_upload_drops_the_file_and_all_that_came_of_it():
    app = upload_file(open_page("data"), CSV)
    go_to(app, "pages/train.py")
    app.radio(key="mechanism").set_value("output").run()
    press_button(app, "Train")
    run_until_done(app)
    assert "Your runs" in [expander.label for expander in app.expander]
    app.session_state["scenario"] = FLOW
    go_to(app, "pages/protocol.py")
    go_to(app, "pages/compare.py")
    go_to(app, "pages/data.py")
    assert {"federated play", "line comparisons"} <= set(app.session_state["kept"])
    press_button(app, "Forget this upload")
    assert "upload" not in app.session_state
    assert not {"federated play", "line comparisons"} & set(app.session_state["kept"])
    assert app.selectbox(key="data").value == "movie-night"
    assert app.file_uploader[0].value is None
    go_to(app, "pages/train.py")
    assert "Your runs" not in [expander.label for expander in app.expander]


def _session():
    import streamlit as st

    from pages.ui import sources, state

    st.session_state["mine"] = state.get_upload_folder(), state.get_jobs()
    if "forget" in st.session_state:
        sources.forget_upload()
        st.session_state["left"] = str(st.session_state.to_dict())


def test_forgetting_an_upload_leaves_nothing_of_it_in_the_session():
    app, secret = AppTest.from_function(_session), ["a rating"]
    for name in ("upload", "chosen reading"):
        app.session_state[name] = secret
    app.session_state["kept"] = {"a chart": [("choices", secret)]}
    app.session_state["forget"] = True
    app.run()
    assert not app.exception
    assert "a rating" not in app.session_state["left"]


def test_every_session_has_a_private_folder_and_jobs_of_its_own(monkeypatch):
    sessions, honest = [], ScriptRunner.__init__
    for name in ("one", "two"):
        monkeypatch.setattr(
            ScriptRunner,
            "__init__",
            lambda self, name=name, **kwargs: honest(self, **kwargs | {"session_id": name}),
        )
        app = AppTest.from_function(_session).run()
        assert not app.exception
        session_folder = app.session_state["mine"]
        assert all(
            a is b for a, b in zip(session_folder, app.run().session_state["mine"], strict=True)
        )
        sessions.append(session_folder)
    assert not any(a is b for a, b in zip(*sessions, strict=True))


def test_the_command_of_a_run_on_an_upload_repeats_it(tmp_path, monkeypatch, capsys):
    content = CSV.replace("\n", "\nu0,f0,5\nu0,f0,3\nu1,f1,bad\n", 1)
    dataset = datasets.load_upload(
        content.encode(),
        "my ratings.csv",
        low=0.5,
        high=5.0,
        duplicates="last",
        bad_rows="leave-out",
    )
    mechanism = registry.create("gradient", epsilon=1 / 3)
    problem = build_problem(dataset, mechanism.task, split=RandomShare(0.3), seed=4)
    result = experiment.run(mechanism, problem, 4)
    repeat = run_card.FinishedRun(
        result=result,
        data=dataset.loaded_name,
        title=dataset.title,
        split=RandomShare(0.3),
        fresh=False,
        reading=dataset.reading,
    )
    (tmp_path / "my ratings.csv").write_text(content)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main(shlex.split(run_card.format_fit_command(repeat))[1:]) == 0
    repeated = json.loads(capsys.readouterr().out)
    assert repeated["data"]["fingerprint"] == result.as_dict()["data"]["fingerprint"]
    assert repeated["metrics"] == result.as_dict()["metrics"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ("stars\n1\n2\n", "column"),
        ("user,item,rating\nx,y,good\nz,w,bad\n", "number"),
        ("user,item,rating\nx,y,nan\nz,w,3\n", "rating"),
        ("user,item,rating\nx,y,3\nx,y,4\n", "pair"),
        ("user,item,rating\nx,y,3\nz,w,9\n", "9"),
        (b"\x00\x01\x02\x03" * 50, ""),
        ("user,item,rating\n" + "x,y\n", ""),
        ("user,item,rating\nx,y,3\n", "two ratings"),
        (b"\x89PNG\r\n\x1a\n" + bytes(99), "picture"),
    ],
    ids=[
        *("empty", "one column", "text", "nan", "duplicate", "out of range", "binary", "ragged"),
        *("one rating", "a picture"),
    ],
)
def test_a_bad_file_is_a_sentence_and_loses_nothing(content, message):
    app = upload_file(open_page("data", data="restaurants"), content)
    refusal = unescape_markdown([*app.error, *app.info][0].value)
    assert message in refusal.lower()
    assert "Traceback" not in refusal
    assert "Ratings.csv" not in refusal  # a name keeps its letters
    assert app.selectbox(key="data").value == "restaurants"


@pytest.mark.parametrize("limit", [{"max_bytes": 1_000}, {"max_rows": 10}], ids=lambda x: str(x))
def test_too_much_is_refused_on_the_server(monkeypatch, limit):
    """The page names its limits with every reading; here one of them is lower."""
    [(name, size_limit)] = limit.items()

    def lowered(read):
        def reading(*file, **chosen):
            assert chosen[name] > size_limit
            return read(*file, **chosen | limit)

        return reading

    for function in ("preview_upload", "examine_upload", "load_upload"):
        monkeypatch.setattr(datasets, function, lowered(getattr(datasets, function)))
    app = upload_file(open_page("data"), CSV)
    if name == "max_bytes":
        assert "limit" in app.error[0].value or "larger" in app.error[0].value
    assert app.error
    assert "upload" not in app.session_state


def test_little_free_memory_shortens_the_examination(monkeypatch):
    """A file is examined up to an eighth of the largest size that is read."""
    free = 2 * len(CSV) * memory.REFERENCE // USUAL_BYTES + 1
    monkeypatch.setattr(memory, "measure_free_memory", lambda: free)
    app = open_page("data")
    app.file_uploader[0].upload("ratings.csv", CSV.encode()).run()
    assert any("MB of free memory. This file has" in caption.value for caption in app.caption)
    monkeypatch.setattr(memory, "measure_free_memory", lambda: free // 4)
    app = upload_file(open_page("data"), CSV)
    refusal = unescape_markdown(app.error[0].value)
    assert "MB of free memory: use a part of it" in refusal


def test_titles_are_shown_as_text():
    nasty = "<img src=x onerror=alert(1)> **bold** $x$ [a](javascript:b)"
    titles = [nasty, *(f"item{i}" for i in range(1, 8))]
    rows = ["u,i,r"]
    rows += [f"{u},{title},{1 + (u * i) % 5}" for u in range(12) for i, title in enumerate(titles)]
    app = upload_file(open_page("data"), "\n".join(rows) + "\n", name="<b>x</b>.csv")
    for name in PAGES:
        go_to(app, f"pages/{name}.py")
        assert not app.exception
        for element in [*app.markdown, *app.caption]:
            assert "<img" not in element.value.replace(r"\<", "")
            assert "<b>x" not in element.value.replace(r"\<", "")
        for chart in list_charts(app):
            assert "<img src=x" not in chart.proto.spec


def test_training_uses_the_settings_preparation_and_hold_out_on_the_page():
    app = open_page("train", data="restaurants", mechanism="objective", epsilon="2")
    app.number_input(key="objective.radius").set_value(0.4)
    app.number_input(key="cap").set_value(6)
    app.selectbox(key="holdout").set_value("last")
    app.number_input(key="seed").set_value(11)
    app.run()
    press_button(app, "Train")
    run_until_done(app)
    problem = build_problem(
        datasets.load("restaurants"), Task.BINARY, steps=[CapPerUser(6)], split=LeaveLast(), seed=11
    )
    single_run = experiment.run(registry.create("objective", epsilon=2.0, radius=0.4), problem, 11)
    value = METRICS["accuracy"].format_value(single_run.metrics["accuracy"])
    assert f"predicts {value} of held-out ratings right" in unescape_markdown(app.header[0].value)
    command = next(c.value for c in app.code if c.value.startswith("dpmc fit"))
    for option in ("radius=0.4", "cap=6", "--leave-last", "--seed 11"):
        assert option in command


def test_an_upload_headed_like_a_public_set_is_the_person_s_own():
    app = upload_file(open_page("data", data="restaurants"), LATER)
    app.session_state["report"] = True
    app.run()
    assert "Licence: not stated in the file" in unescape_markdown(read_all_text(app))
    assert "GroupLens" not in read_all_text(app)


@pytest.mark.parametrize(("id", "raw"), mark_rest_slow([("output", True), ("input-flip", False)]))
def test_only_an_objective_of_raw_ratings_is_called_raw(id, raw):
    link = {"input-flip.estimator": "published"} if id == "input-flip" else {}
    app = open_page("train", data="one-bit-lab", mechanism=id, **link)
    press_button(app, "Train")
    run_until_done(app)
    assert any("objective" in chart.proto.alt for chart in list_charts(app))
    warned = [c for c in app.caption if "An objective that comes from raw ratings" in c.value]
    assert bool(warned) == raw


@pytest.mark.parametrize("page", ["train", "noise"])
def test_a_link_to_the_first_mechanism_keeps_it(page):
    # Streamlit takes it out of the address, as it is the default; these pages suggest another one.
    app = open_page(page, data="one-bit-lab", mechanism="input-flip")
    app.run()
    assert "mechanism" not in app.query_params
    assert app.run().session_state["mechanism"] == "input-flip"


def test_a_setting_that_makes_no_sense_in_a_link_is_told_and_cannot_be_trained():
    link = {"data": "one-bit-lab", "mechanism": "input-flip", "input-flip.link": "cauchy"}
    app = open_page("train", **link)
    assert app.selectbox(key="input-flip.link").options == ["logistic", "probit"]  # what parses
    assert "link must be one of" in unescape_markdown(app.warning[0].value).lower()
    [button] = [b for b in app.button if b.label == "Train"]
    assert button.disabled
    app = open_page("noise", **link)
    assert not app.exception
    assert "link must be one of" in unescape_markdown(app.warning[0].value).lower()


def test_a_target_of_an_older_link_is_met_and_has_its_new_name_in_the_address():
    app = open_page(need="0.7", epsilon="1")
    view = read_instrument(app)
    assert (view["epsilon"], view["target"], view["limit"]) == (1.0, 0.7, None)
    assert app.session_state["target"] == 0.7
    assert app.query_params["target"] == "0.7"
    assert "need" not in app.query_params


def run_until_whole(app):
    """Wait until the runs behind the curve are over."""
    wait_until(app, lambda: find_button(app, "Stop") is None)


@no_windows
@pytest.mark.slow
def test_a_curve_not_yet_there_is_computed_on_request():
    app = upload_file(open_page("data"), CSV)
    go_to(app, "pages/what_if.py")
    assert read_current_stop(app)["value"] is None
    assert "been computed here yet: it takes 132 short training runs" in app.info[0].value
    press_button(app, "Compute the curve")
    assert "of 132 runs" in app.progress[0].text
    run_until_whole(app)
    assert not app.info
    finished = []
    for seed in (1, 2, 3):
        problem = build_problem(app.session_state["upload"], Task.BINARY, seed=seed)
        mechanism = registry.create(MECHANISMS[0], epsilon=1.0)
        finished.append(experiment.measure(experiment.fit(mechanism, problem, seed)).metrics)
    expected = sum(metrics["accuracy"] for metrics in finished) / 3
    assert read_current_stop(app)["text"] == METRICS["accuracy"].format_value(expected)
    assert read_instrument(app)["people"] is None  # of an upload no person is shown


def test_without_a_curve_the_slider_and_what_is_promised_are_there_already():
    app = upload_file(open_page("data"), CSV)
    go_to(app, "pages/what_if.py")
    assert "been computed here yet" in app.info[0].value
    assert "claimed" in read_all_text(app) or "certified" in read_all_text(app)
    view = read_instrument(app)
    assert "Usefulness: not computed yet" in read_answer(app)
    assert read_current_stop(app)["attacker"] == (
        "An attacker torn 50:50 who asks “Is this rating high or low?” is right at most 73.2 %"
        " of the time; a coin flip gets 50 %."
    )
    assert "all her ratings together" in read_answer(app)
    assert view["panel"]["who"] == ["An invented user: 20 ratings"]
    assert read_instrument(app)["people"] is None  # of an upload no person is shown


def test_a_generated_set_is_drawn_anew_and_its_address_opens_it():
    app = open_page("data", way="sample")
    app.text_input[0].input("rank-one:users=60,items=20,per_user=5,seed=2")
    press_button(app, "Generate it")
    assert "300 ratings" in read_all_text(app)
    link = open_page("data", data="rank-one:users=60,items=20,per_user=5,seed=2")
    assert "300 ratings" in read_all_text(link)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rank-one:users=1000000", "must be at most 4,000,000"),
        ("rank-one:depth=2", "option of rank-one must be one of"),
        ("movie-night:seed=2", "sample drawn anew must be one of one-bit-lab:"),
        ("rank-one:<b>=2", "option of rank-one must be one of"),
    ],
)
def test_what_cannot_be_drawn_is_a_sentence_and_its_link_a_note(text, sentence):
    app = open_page("data", way="sample")
    app.text_input[0].input(text)
    press_button(app, "Generate it")
    page_text = read_all_text(app)
    assert sentence.lower() in page_text.lower()
    assert not open_page("data", data=text).exception


def test_a_public_set_is_downloaded_once_its_terms_are_accepted(monkeypatch, tmp_path):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    app = open_page("data", way="public")
    assert "redistribution" in read_all_text(app)

    def get(name, progress=None):
        progress(1, 2)
        folder = public_sets.get_set_folder(name)
        folder.mkdir(parents=True)
        lines = [f"{u}\t{i}\t{1 + (u + i) % 5}\t1" for u in range(1, 9) for i in range(1, 9)]
        (folder / "u.data").write_text("\n".join(lines) + "\n")
        public_sets.write_note(public_sets.SETS["ml-100k"], folder, "https://example.org", "")

    monkeypatch.setattr(public_sets, "get_public_set", get)
    press_button(app, "Accept these terms and download")
    wait_until(app, lambda: find_button(app, "Open it"))
    press_button(app, "Open it")
    assert app.selectbox(key="data").value == "ml-100k"
    assert "64 ratings" in read_all_text(app)


def test_a_download_that_fails_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))

    def get(name, **_):
        raise public_sets.DownloadError(f"{name} cannot be downloaded: no network")

    monkeypatch.setattr(public_sets, "get_public_set", get)
    app = open_page("data", way="public")
    press_button(app, "Accept these terms and download")
    wait_until(app, lambda: app.error)
    assert "no network" in app.error[0].value


def test_the_wide_range_reaches_further_and_comes_back():
    app = open_page("noise", data="one-bit-lab", wide="true", epsilon="100")
    assert app.select_slider(key="epsilon").value == 100
    app.toggle(key="wide").set_value(False).run()
    assert not app.exception
    assert app.select_slider(key="epsilon").value == 10


def test_the_table_of_guarantees_shows_claims_and_proofs_in_both_units():
    app = open_page("guarantees", data="movie-night", epsilon="2")
    app.session_state["every claim"] = True
    app.run()
    table = next(t.value for t in app.dataframe if "proved" in t.value.columns)
    names = [registry.get_short_name(id) for id in registry.list_suitable_mechanisms()]
    assert sorted(table["mechanism"]) == sorted(names)
    assert max(map(len, names)) < 20  # none is cut off on a phone
    assert list(table)[1:5] == ["claimed", "proved", "measured", cards.PER_USER]
    assert set(table["claimed"]) == {"2"}
    by_name = table.set_index("mechanism")
    assert by_name.loc["Input", cards.PER_USER] == "no bound"
    assert by_name.loc["Output", "status"].endswith("refuted")
    app.segmented_control(key="unit").set_value("user").run()
    assert "no bound" in read_all_text(app)


def test_guarantees_need_public_facts_only_and_a_cap_bounds_a_row():
    app = open_page("guarantees", facts="typed", users="50", items="40", cap="7")
    app.segmented_control(key="unit").set_value("row-values").run()
    assert not app.error
    assert "epsilon 7" in read_all_text(app)
    assert "at most 7 per user" in read_all_text(
        open_page("guarantees", data="restaurants", cap="7")
    )
    app.number_input(key="low").set_value(9.0).run()
    assert "ating range must be a low end below its high end" in app.error[0].value


@pytest.mark.slow
def test_the_report_stands_alone():
    from dpmc_lab.views.run_card import FinishedRun
    from pages.ui import learned

    problem = build_problem(datasets.load("one-bit-lab"), Task.BINARY, seed=1)
    result = experiment.run(registry.create("objective", epsilon=2.0), problem, 1)
    details = {"data": "one-bit-lab", "title": "<b>Lab</b>", "split": LeaveLast()}
    page = learned.render_run_report(FinishedRun(result=result, fresh=False, **details))
    assert "<b>Lab</b>" not in page
    assert page.count("plotly-graph-div") == 1
    assert 'src="http' not in page
    assert f". {blocks.EVALUATION}</p>" in html.unescape(page)
    assert io.StringIO(page).readline().startswith("<!doctype html>")
