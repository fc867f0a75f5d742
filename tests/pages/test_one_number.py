"""One thing has one number: what several pages and the command line say of it is collected, by what
it means, and compared."""

import json
import re
from collections import defaultdict

import pytest

from dpmc_core import registry
from dpmc_core.experiment import run
from dpmc_core.metrics import METRICS
from dpmc_core.model import Task
from dpmc_data import datasets
from dpmc_lab.cli import main
from dpmc_lab.views import cards, lines
from pages.ui import sources
from tests.page_helpers import (
    open_page,
    press_button,
    read_all_text,
    read_chart_spec,
    read_current_stop,
    read_film,
    read_instrument,
    run_until_done,
    unescape_markdown,
)
from tests.slow_helpers import mark_rest_slow

pytestmark = pytest.mark.usefixtures("home")
SITUATIONS = [  # data, method, wanted quality as the address spells it; whether with public facts
    ("movie-night", "private-effects", 0.985, False),
    ("restaurants", "input-flip", 70, False),
    ("restaurants", "private-effects", 0.63, False),
    ("jokes", "private-effects", 4.2, False),
    ("movie-night", "private-effects", 0.985, True),
    ("one-bit-lab", "output", 50, False),
    ("bookshop-clicks", "private-taste", 10, False),
    ("bookshop-clicks", "private-popularity", 5, False),
]


class StatedNumbers:
    """Stated numbers by what they mean and where they stand."""

    def __init__(self):
        self.by_meaning = defaultdict(dict)

    def add(self, source, **numbers):
        for meaning, text in numbers.items():
            if text is not None:
                self.by_meaning[meaning][source] = text

    def check(self, *names):
        """Check that nothing is stated in two ways; `names` must stand in two places."""
        differing = {
            name: values
            for name, values in self.by_meaning.items()
            if len(set(values.values())) > 1
        }
        assert not differing
        unmatched = [name for name in names if len(self.by_meaning[name]) < 2]
        assert not unmatched


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    return tmp_path


def find_one(pattern, text):
    """Return the group of the first match, or None without one."""
    match = re.search(pattern, text)
    return match and match[1]


def list_notes(figure):
    """Return the annotations of a figure, each in one line."""
    return [note["text"].replace("<br>", " ") for note in figure["layout"].get("annotations", [])]


def read_level(figure, name):
    """Return what a figure writes beside the line of that name."""
    values = (
        find_one(rf"^{name}(?:: [^0-9]*)? (-?[\d.]+(?: %)?)$", text) for text in list_notes(figure)
    )
    return next(filter(None, values), None)


def read_seeds(text):
    return find_one(r"over (\d+) seeds", text)


def read_attacks(text):
    """Return how often an attacker is right, by what the attacker asks, in one form everywhere."""
    attacks = re.findall(
        r"An attacker torn 50:50 who asks “([^”]*)” (is right at most|may be right >) ([\d.]+) % of"
        r" the time; a coin flip gets 50 %",
        text.replace("\N{NO-BREAK SPACE}", " "),
    )
    assert attacks
    return {question: f"{verb} {percent}" for question, verb, percent in attacks}


def find_table(app, *columns):
    """Return the first table with these columns."""
    return next(table.value for table in app.dataframe if {*columns} <= {*table.value.columns})


def add_what_if(statements, app, metric, target):
    view, current_stop, text = read_instrument(app), read_current_stop(app), read_all_text(app)
    half = find_one(r"± ([\d.]+(?: %)?)", current_stop["half"])
    answer = next(a for a in view["needed"]["answers"] if metric.format_value(target) in a["goal"])
    statements.add(
        "What if",
        value=current_stop["text"],
        half=half,
        spread_over=find_one(r"over (\d+) seeds", current_stop["half"]),
        kept=find_one(r": (\d+) %", current_stop["titles"][1]) or "",
        without=metric.format_value(view["usefulness"]["levels"][0][2][0]),
        needed=find_one(r"budget of (?:about )?([\d.]+(?: or less)?)", answer["words"])
        or "not reached",
        unit=app_unit(view["axis"]),
        **read_attacks(current_stop["attacker"]),
        seeds=read_seeds(text),
        split=find_one(r"Tested on ([^.]*)\.", text),
        certified=find_one(r"(?:proved: |proved )(?:epsilon )?([^\n]*)", read_badge(app)),
    )
    app.session_state["numbers"] = True
    app.run()
    (curve_text,) = [t.value for t in app.text if "the curve at epsilon" in t.value]
    add_curve(statements, "What if, in words", curve_text, f"{current_stop['epsilon']:g}")
    app.session_state["epsilon"] = current_stop["epsilon"]


def app_unit(axis):
    """Return what an epsilon counts, as other pages call it."""
    return axis.partition(" ")[2].replace("person", "user")


def add_curve(statements, source, text, epsilon):
    """Add what a sentence states of a curve at an epsilon."""
    curve_text = find_one(rf"(the curve at epsilon {epsilon}: [^\n]*)", text)
    assert curve_text
    number = r"((?:\d[\d.]*)?\d(?: %)?)"
    statements.add(
        source,
        value=find_one(rf"epsilon [\d.]+: {number}", curve_text),
        half=find_one(rf"± {number}", curve_text),
        spread_over=find_one(r"over (\d+) seeds", curve_text),
        kept=find_one(r"seeds; keeps (\d+) %", curve_text) or "",
        without=find_one(rf"no privacy: {number}", curve_text),
        guess=find_one(rf"one answer for all: {number}", curve_text),
    )


def read_badge(app):
    return next((m.value for m in app.markdown if "-badge[" in m.value), "").rstrip("]")


def add_compare(statements, app, epsilon):
    text = read_all_text(app)
    app.session_state["comparison table"] = app.session_state["price table"] = True
    app.run()
    assert not app.exception
    points = find_table(app, "mechanism", "epsilon", "mean", "from", "to")
    point = points[points["epsilon"] == epsilon].iloc[0]
    price = find_table(app, "mechanism", "wanted", "best")
    ends = [float(point[column].rstrip(" %")) for column in ("mean", "to")]
    statements.add(
        "Compare",
        value=point["mean"],
        without=read_level(read_chart_spec(app), "no privacy"),
        needed=price["epsilon"].iloc[0],
        unit=point["counts"],
        seeds=read_seeds(text),
    )
    statements.add("Compare, its points", seeds=str(point["seeds"]))
    statements.add("Compare, its control", seeds=str(app.number_input(key="seeds").value))
    statements.add("Compare, its command", seeds=find_one(r"--seeds 1:(\d+)", app.code[-1].value))
    return ends[1] - ends[0]


def add_guarantees(statements, app, id):
    app.session_state["every claim"] = True
    app.run()
    assert not app.exception
    claims = find_table(app, "mechanism", "proved", "delta")
    name = registry.get_short_name(id)
    row = claims[claims["mechanism"] == name].iloc[0]
    delta = "" if row["delta"] == "0" else f", delta {row['delta']}"
    unit = row["claimed and proved count"].partition(":")[0]
    for text in (m.value.replace("\\", "") for m in app.markdown if "who asks" in m.value):
        statements.add("Guarantees, its panel", **read_attacks(text))
    statements.add("Guarantees, its table", certified=f"{row['proved']}{delta} {unit}")
    statements.add(
        "Guarantees, its card",
        certified=find_one(r"(?:proved: |proved )(?:epsilon )?([^\n]*)", read_badge(app)),
    )


def add_train(statements, app, metric):
    """Add what a run states of itself, on its own split, and of the curve beside it."""
    press_button(app, "Train")
    run_until_done(app)
    for folded in ("Guarantee", "All numbers of this run"):
        app.session_state[folded] = True
    app.run()
    heading = unescape_markdown(app.header[0].value)
    assert " of the gain" not in heading  # one split tells no share
    statements.add(
        "Train, its sentence", run=find_one(r"(?:predicts|by|finds) ([\d.]+(?: %)?)", heading)
    )
    table = next(f.value for f in app.dataframe if "method" in f.value.columns)
    values = dict(zip(table["method"], table[metric.name], strict=True))
    statements.add(
        "Train, its table",
        run=next(iter(values.values())),
        run_without=values["No privacy"],
        run_guess=values.get("One answer for all"),
    )
    words = read_film(app)["words"]
    statements.add(
        "Train, its player",
        run=find_one(r"(\d[\d.]*(?: %)?) in round \d+[;.]", words),
        run_without=find_one(r"no privacy ([\d.]*\d(?: %)?)", words),
        run_guess=find_one(r"one answer for all ([\d.]*\d(?: %)?)", words),
    )
    statements.add(
        "Train, its badge", certified=find_one(r"proved:? (?:epsilon )?([^\n]*)", read_badge(app))
    )
    add_curve(statements, "Train, of the curve", read_all_text(app), "1")


def add_answer(statements, document, metric, source="dpmc answer"):
    proved = document["certified"]
    unit = {"user": "per user", "value": "per rating"}[document["unit"]]
    statements.add(
        source,
        unit=unit,
        **read_attacks(document["said"]["attacker"]),
        certified=f"{cards.format_budget(proved['epsilon'], proved['delta'])} {unit}",
        split=re.sub(
            r"0\.(\d+) of", lambda m: f"{100 * float('0.' + m[1]):g} % of", document["split"]
        ),
    )
    point = next((point for point in document.get("curve", ()) if point["epsilon"] == 1.0), None)
    seeds = {*statements.by_meaning["seeds"].values(), str(document.get("curve_seeds"))}
    if point is not None and len(seeds) == 1:  # else it says that it rests on other seeds
        statements.add(
            source,
            kept=find_one(r"keeps (\d+) %", point["said"]) or "",
            value=metric.format_value(point["value"]),
        )
    delta = find_one(
        r"epsilon [\d.]+ for one publication, (delta [\de-]+)", document["said"]["unit"]
    )
    if proved["delta"]:
        assert delta == f"delta {cards.format_delta(proved['delta'])}"


def check_deltas(app):
    """Check that a delta has one spelling, wherever it stands."""
    page_text = read_all_text(app) + "".join(m.value for m in app.markdown) + read_badge(app)
    assert not re.search(r"\b\d(?:\.\d+)?e-0\d|0\.00000\d", page_text)


def read_pages(statements, data, id, target, *, with_features=False):
    """Add what the pages state of a method at epsilon 1."""
    params = {"known": "true"} if with_features else {}
    task = registry.get_mechanism(id).task
    metric = lines.list_plotted_metrics(task)[0]
    app = open_page(data=data, mechanism=id, **params)
    assert app.segmented_control(key="protect").value is not None  # one promise is always chosen
    add_what_if(statements, app, metric, target / 100 if metric.is_share else target)
    check_deltas(app)
    link = {"data": data, "mechanisms": [id], f"wanted {metric.name}": str(target), **params}
    if len(sources.list_available_tasks(data)) > 1:
        link["task"] = task.value
    app = open_page("compare", **link)
    half = add_compare(statements, app, 1.0)
    half_percent = float(statements.by_meaning["half"]["What if"].rstrip(" %"))
    # Both are rounded.
    assert half == pytest.approx(half_percent, abs=0.11 if metric.is_share else 0.0011)
    check_deltas(app)
    for name in ("guarantees", "train", "data"):
        app = open_page(name, data=data, mechanism=id, **params)
        if name == "guarantees":
            add_guarantees(statements, app, id)
        if name == "train":
            add_train(statements, app, metric)
        check_deltas(app)


@pytest.mark.parametrize(("data", "id", "target", "with_features"), mark_rest_slow(SITUATIONS))
def test_what_is_said_twice_is_said_the_same(data, id, target, with_features):
    statements = StatedNumbers()
    read_pages(statements, data, id, target, with_features=with_features)
    places = statements.by_meaning.items()
    statements.check(
        *("value", "half", "kept", "without", "needed", "unit", "seeds", "certified"),
        *("spread_over", "run", "run_without"),
        *(question for question, found in places if "?" in question and "What if" in found),
    )
    assert {*statements.by_meaning["spread_over"].values()} == {
        *statements.by_meaning["seeds"].values()
    }
    for line in lines.load_shipped_charts(data, id, with_item_features=with_features)[0].levels:
        # Baselines: of the same.
        assert str(len(line.seeds)) in statements.by_meaning["seeds"].values()


@pytest.mark.slow
def test_a_paper_s_proof_is_the_card_s():
    statements, id = StatedNumbers(), "input-flip"
    text = read_all_text(open_page("papers", data="restaurants", mechanism=id))
    statements.add(
        "Papers", certified=find_one(r"\*\*Input[^*]*\*\*: Epsilon ([\d.]+ per \w+)", text)
    )
    add_guarantees(statements, open_page("guarantees", data="restaurants", mechanism=id), id)
    statements.check("certified")


@pytest.mark.parametrize(
    ("data", "id", "protect"),
    mark_rest_slow(
        [
            ("restaurants", "private-effects", "person"),
            ("movie-night", "private-effects", "person"),
            ("restaurants", "input-flip", "rating"),
            ("bookshop-clicks", "private-taste", "person"),
        ],
    ),
)
def test_the_command_says_what_the_pages_say(capsys, data, id, protect):
    task, statements = registry.get_mechanism(id).task, StatedNumbers()
    metric = lines.list_plotted_metrics(task)[0]
    app = open_page(data=data, mechanism=id)
    add_what_if(statements, app, metric, view_goal(app))
    add_guarantees(statements, open_page("guarantees", data=data, mechanism=id), id)
    document = run_answer(capsys, data, protect, task, curve=data == "restaurants")
    assert document["mechanism"] == id
    add_answer(statements, document, metric)
    statements.check("unit", "certified", "split", *read_attacks(document["said"]["attacker"]))
    if data == "restaurants" and task is Task.RATINGS:
        statements.check("value", "kept")


def view_goal(app):
    """Return some quality that the view's chart can show."""
    needed = read_instrument(app)["needed"]
    return (needed["first"] + len(needed["answers"]) // 2) * needed["step"]


def run_answer(capsys, data, protect, task, curve):
    argv = ["--protect", protect, "--task", task.value, "--seeds", "1:3", "--json"]
    argv += ["--often", "once"]
    assert main(["answer", data, *argv, *([] if curve else ["--no-curve"])]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_a_fit_says_what_the_page_of_a_run_says(capsys):
    id, statements = "input-flip", StatedNumbers()
    add_train(statements, open_page("train", data="restaurants", mechanism=id), METRICS["accuracy"])
    assert main(["fit", "restaurants", id, "--epsilon", "1"]) == 0
    output = capsys.readouterr().out
    number = r"\s+([\d.]+ %)"
    statements.add(
        "dpmc fit",
        run=find_one(rf"Input perturbation{number}", output),
        run_without=find_one(rf"No privacy{number}", output),
        run_guess=find_one(rf"One answer for all{number}", output),
        certified=find_one(r"proved\W+epsilon ([\d.]+ per \w+)", output),
    )
    statements.check("run", "run_without", "run_guess", "certified")


@pytest.mark.slow
def test_a_run_has_the_split_of_a_curve_s_seed():
    """One run is one split: its baselines are those of the curve's first seed, not its means."""
    task = Task.BINARY
    result = run(registry.create("input-flip", epsilon=1.0), datasets.load("restaurants"), seed=1)
    first_seed = {
        key: rows.select_seeds([1])
        for key, rows in lines.load_shipped_rows("restaurants", "input-flip").items()
    }
    chart = lines.build_curve_chart(first_seed, ["input-flip"], METRICS["accuracy"])
    without = chart.nonprivate_reference
    accuracy = result.baselines[registry.NONPRIVATE_REFERENCES[task]]["accuracy"]
    assert without.values[0].tolist() == pytest.approx([accuracy], abs=1e-6)
