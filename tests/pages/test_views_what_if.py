"""What What if says of a method at one epsilon: it is computed once, and everything reads it."""

import re

import pytest

from dpmc_core import registry
from dpmc_core.model import Task
from dpmc_core.privacy import CELL, RATING, ROW_VALUES, USER_REPLACED, Guarantee
from dpmc_core.privacy.accounting import Loss
from dpmc_core.ratings import PublicFacts
from dpmc_lab.sweep.presets import EPSILONS
from dpmc_lab.views import cards, lines, numbers
from dpmc_lab.views.what_if import build_questions, build_stop
from pages.ui import scene, sentences


@pytest.fixture
def calls(monkeypatch):
    """Count by name how often limits are computed, and guarantees of these mechanisms are built."""
    counts = dict.fromkeys(("attacker_accuracy", "guarantee"), 0)

    def count(owner, name):
        function = getattr(owner, name)

        def counted(*args, **options):
            counts[name] += 1
            return function(*args, **options)

        monkeypatch.setattr(owner, name, counted)

    count(Loss, "attacker_accuracy")
    for id in ("input-flip", "private-effects"):
        count(registry.get_mechanism(id), "guarantee")
    return counts


@pytest.mark.parametrize("id", ["input-flip", "private-effects"])
def test_a_scene_builds_each_guarantee_and_each_limit_once(id, calls):
    """A limit about one rating and one about the person, at every epsilon."""
    chart = lines.load_shipped_charts("restaurants", id)[0]
    public = chart.lines[0].info.public
    calls.update(dict.fromkeys(calls, 0))  # reading the rows needs guarantees as well
    shown = scene.build_scene(id, chart, public)
    scene.build_view(shown)
    limits = 1 if id == "private-effects" else 2  # one rating is no easier than the person
    assert calls == {"guarantee": len(EPSILONS), "attacker_accuracy": limits * len(EPSILONS)}


def test_a_stop_has_the_numbers_of_its_epsilon():
    chart = lines.load_shipped_charts("restaurants", "input-flip")[0]
    line, public = chart.lines[0], chart.lines[0].info.public
    mechanism = registry.create("input-flip", epsilon=0.5)
    stop = build_stop(mechanism, 0.5, chart, public, rated=(3, 8))
    assert isinstance(stop.guarantee, Guarantee)
    assert stop.guarantee.claimed.epsilon == 0.5
    assert stop.value == line.interval_at(0.5).mean
    assert stop.benefit == numbers.compute_gain_share(chart, line, 0.5)
    for rated, risk in stop.person_risks.items():
        question = build_questions(stop.guarantee, Task.BINARY, rated)[1]
        assert risk == question.assess(stop.guarantee)
    rates = [stop.risk.success_rate, *(risk.success_rate for risk in stop.person_risks.values())]
    assert rates == sorted(rates)
    assert rates[0] < rates[1] < rates[2]


def test_before_the_first_run_a_stop_has_a_limit_alone():
    public = PublicFacts(users=50, items=40, low=-1, high=1)
    chart = lines.CurveChart(lines.list_plotted_metrics(Task.BINARY)[0])
    stop = build_stop(registry.create("input-flip", epsilon=1.0), 1.0, chart, public)
    assert (stop.interval, stop.benefit, stop.value) == (None, None, None)
    assert stop.risk.label == "73.2 %"


# --- two lines of risk, both of the certificate --------------------------------------------------

PUBLIC = {
    Task.BINARY: PublicFacts(users=50, items=400, low=-1, high=1),
    Task.RATINGS: PublicFacts(users=50, items=400, low=1, high=5),
    Task.RANKING: PublicFacts(users=50, items=400, low=0, high=1),
}


@pytest.mark.parametrize(
    ("id", "single", "whole"),
    [
        ("input-flip", RATING, ROW_VALUES),
        ("objective", RATING, ROW_VALUES),
        ("modified-laplace", CELL, USER_REPLACED),
        ("dplcf", CELL, USER_REPLACED),
        ("private-effects", USER_REPLACED, USER_REPLACED),
        ("private-taste", USER_REPLACED, USER_REPLACED),
    ],
)
def test_both_lines_of_risk_are_the_certificate_s_for_which_of_two_is_hers(id, single, whole):
    cls = registry.get_mechanism(id)
    public = PUBLIC[cls.task]
    no_curve = lines.CurveChart(lines.list_plotted_metrics(cls.task)[0])
    shown = scene.build_scene(id, no_curve, public)
    rated = shown.persons[0].rated
    for epsilon, stop in zip(EPSILONS, scene.build_view(shown)["stops"], strict=True):
        guarantee = registry.create(id, epsilon=epsilon).guarantee(public)
        assert stop["risk"] == guarantee.attacker_accuracy(single)
        record = shown.find_stop(epsilon)
        assert record.risk.question.change is single
        assert record.person_risks[rated].question.change is whole
        if single is whole:
            assert stop["all"] is None
            continue
        ((rate, text),) = stop["all"]
        assert rate == cards.cap_guarantee(guarantee, rated).attacker_accuracy(whole)
        assert text == cards.format_limit_percent(rate)
        assert rate >= stop["risk"]


def test_the_person_s_line_of_a_coin_per_rating_is_the_majority_s():
    """By the review's own numbers: 59 answers, each with epsilon, all of them the other way."""
    public = PUBLIC[Task.BINARY]
    chart = lines.CurveChart(lines.list_plotted_metrics(Task.BINARY)[0])
    expected = {0.1: "65.1 %", 0.15: "71.9 %", 0.2: "78.0 %", 0.3: "87.6 %", 0.5: "97.3 %"}
    for epsilon, limit in (expected | {0.7: "99.7 %", 1.0: "> 99.9 %"}).items():
        mechanism = registry.create("input-flip", epsilon=epsilon)
        stop = build_stop(mechanism, epsilon, chart, public, (59,))
        assert stop.person_risks[59].label == limit


# --- the forms of the sentence on top ------------------------------------------------------------


def write_sentence(data, id, epsilon, *, person=0):
    shown = scene.load_shipped_scene(data, id)
    stop, rated = shown.find_stop(epsilon), shown.persons[person].rated
    pairs = sentences.write_answer(shown.chart, stop, rated, refuted=shown.refuted)
    return "".join(text for text, _ in pairs).replace("\N{NO-BREAK SPACE}", " ")


FORMS = {
    ("movie-night", "input-flip", 1.0): (
        "At epsilon 1, an attacker torn 50:50 is right about one rating at most 73.2 % of the time;"
        " about all her ratings together there is no useful limit. Predictions are 70.8 % right:"
        " 73.4 % without privacy, 55.2 % with one answer for all."
    ),
    ("movie-night", "input-flip", 0.1): (
        "At epsilon 0.1, an attacker torn 50:50 is right about one rating at most 52.5 % of the"
        " time; about all her ratings together at most 65.1 %. Predictions are 57.4 % right: 73.4 %"
        " without privacy, 55.2 % with one answer for all."
    ),
    ("movie-night", "input-flip", 10.0): (
        "At epsilon 10, there is no useful limit on an attacker torn 50:50, about one rating or all"
        " her ratings. Predictions are 73.4 % right, as good as without privacy (73.4 %); 55.2 %"
        " with one answer for all."
    ),
    ("movie-night", "private-effects", 1.0): (
        "At epsilon 1, an attacker torn 50:50 between two sets of ratings picks hers at most 58.9 %"
        " of the time; one rating is no easier. Predicted stars are off by 0.997: 0.872 without"
        " privacy, 1.046 with her own average."
    ),
    ("movie-night", "private-effects", 0.1): (
        "At epsilon 0.1, an attacker torn 50:50 between two sets of ratings picks hers at most"
        " 51.0 % of the time; one rating is no easier. Predicted stars are off by 1.044, no clear"
        " gain over her own average (1.046); 0.872 without privacy."
    ),
    ("bookshop-clicks", "dplcf", 2.0): (
        "At epsilon 2, an attacker torn 50:50 is right about one click at most 88.1 % of the time;"
        " about all her clicks there is no useful limit. 11.9 % of next items are in ten"
        " suggestions: 16.0 % without privacy, 6.4 % with one popular list."
    ),
    ("bookshop-clicks", "dpimf-sampled", 1.0): (
        "At epsilon 1, no limit is proved: an attack measured epsilon 0.561 or more, which allows"
        " being right 63.6 % of the time. 14.5 % of next items are in ten suggestions: 16.0 %"
        " without privacy, 6.6 % with one popular list."
    ),
    ("movie-night", "output", 0.5): (
        "At epsilon 0.5, the claim is refuted: at epsilon 1 an attack measured epsilon 137 or more,"
        " which allows being right 99.9 % of the time. Predictions are 54.8 % right, worse than one"
        " answer for all (55.2 %); 73.4 % without privacy."
    ),
}


@pytest.mark.parametrize(("case", "sentence"), FORMS.items(), ids=str)
def test_the_sentence_has_a_form_for_every_case(case, sentence):
    assert write_sentence(*case) == sentence


def test_the_limit_about_all_ratings_is_that_of_the_person_who_is_shown():
    assert "all her ratings together at most 97.3 %" in write_sentence(
        "movie-night", "input-flip", 0.5
    )
    assert "at most 93.1 %" in write_sentence("movie-night", "input-flip", 0.5, person=1)


def test_before_the_first_run_the_sentence_has_its_limits():
    public = PUBLIC[Task.RATINGS]
    chart = lines.CurveChart(lines.list_plotted_metrics(Task.RATINGS)[0])
    shown = scene.build_scene("modified-laplace", chart, public)
    stop = shown.find_stop(0.1)
    text = "".join(words for words, _ in sentences.write_answer(chart, stop))
    text = text.replace("\N{NO-BREAK SPACE}", " ")
    assert re.search(
        r"all her ratings together at most \d\d\.\d %\. Usefulness: not computed yet", text
    )
    view = scene.build_view(shown)
    assert view["panel"]["who"] == ["An invented user: 20 ratings"]
    assert len(view["panel"]["ratings"][0]) == 20
    assert (view["people"], view["lists"]) == (None, None)


@pytest.mark.parametrize("data", ["movie-night", "restaurants", "bookshop-clicks", "jokes"])
def test_no_sentence_promises_success_or_says_less_than_it_means(data):
    """No limit without "at most", no number below it, nobody recognised; two lines on a laptop."""
    for id in registry.list_suitable_mechanisms(clicks=data == "bookshop-clicks"):
        if (shown := scene.load_shipped_scene(data, id)) is None:
            continue
        view = scene.build_view(shown)
        for stop in view["stops"]:
            pairs = [(t if isinstance(t, str) else t[0], role) for t, role in stop["sentence"]]
            text = "".join(words for words, _ in pairs)
            assert not re.search("recogni|almost always|baseline|100.0", text)
            assert len(text) < 260, text  # of which two lines hold as many
            if stop["risk"] is None or shown.refuted:
                continue
            for rate in (stop["risk"], *(pair[0] for pair in stop["all"] or ())):
                limit = float(cards.format_limit_percent(rate).strip("> %"))
                assert limit >= 100 * rate - 1e-9 or limit == 99.9
        assert "without her; this bounds what her" in view["notes"]
        hides_pattern = shown.stops[0].guarantee.change.covers_existence
        assert ("is not hidden" in view["notes"]) == (not hides_pattern)
