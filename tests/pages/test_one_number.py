"""One thing has one number: what several pages and the command line say of it is collected, by what
it means, and compared."""

import json
import re
from collections import defaultdict

import pytest

from dpmc_core import registry
from dpmc_core.data import datasets
from dpmc_core.experiment import run
from dpmc_core.metrics import METRICS
from dpmc_core.model import Task
from dpmc_lab.cli import main
from dpmc_lab.curves import cards, lines
from pages.ui import runs, sources
from tests.page_helpers import (
    list_charts,
    open_page,
    press_button,
    read_all_text,
    read_chart_spec,
    read_current_stop,
    read_instrument,
    run_until_done,
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
    ("bookshop-clicks", "private-taste", 40, False),
    ("bookshop-clicks", "private-popularity", 35, False),
]


class Said:
    """What was said where, by what it means."""

    def __init__(self):
        self.found = defaultdict(dict)

    def add(self, where, **said):
        for meaning, text in said.items():
            if text is not None:
                self.found[meaning][where] = text

    def check(self, *twice):
        """Nothing is said in two ways; twice: what must have been said in two places."""
        apart = {name: told for name, told in self.found.items() if len(set(told.values())) > 1}
        assert not apart
        alone = [name for name in twice if len(self.found[name]) < 2]
        assert not alone


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    return tmp_path


def one(pattern, text):
    """The group of the first match; None without one."""
    found = re.search(pattern, text)
    return found and found[1]


def notes(figure):
    """The words in a figure, each in one line."""
    return [note["text"].replace("<br>", " ") for note in figure["layout"].get("annotations", [])]


def level(figure, name):
    """What a figure writes beside the line of that name."""
    values = (one(rf"^{name}(?:: [^0-9]*)? (-?[\d.]+(?: %)?)$", text) for text in notes(figure))
    return next(filter(None, values), None)


def seeds_in(text):
    return one(r"over (\d+) seeds", text)


def asked_in(text):
    """What an attacker asks, and how often the attacker is right: in one form everywhere."""
    found = re.search(
        r"An attacker who asks “([^”]*)” (is right at most [\d.]+|may be right over 99.9) % of the"
        r" time; a coin flip gets 50 %",
        text,
    )
    return found and f"{found[1]} {found[2]}"


def frame(app, *columns):
    """The first table with these columns."""
    return next(one.value for one in app.dataframe if {*columns} <= {*one.value.columns})


def of_what_if(said, app, metric, wanted):
    view, here, text = read_instrument(app), read_current_stop(app), read_all_text(app)
    half = one(r"± ([\d.]+(?: %)?)", here["half"])
    assert view["title"].partition("(in ")[2].partition(",")[0] in here["half"]  # the unit
    answer = next(a for a in view["needed"]["answers"] if metric.text(wanted) in a["goal"])
    (attack, _), *_ = view["right"]
    said.add(
        "What if",
        value=here["text"],
        half=half,
        spread_over=one(r"over (\d+) seeds", here["half"]),
        kept=here["kept"],
        begins=one(
            r"(?i)((?:below epsilon [\d.]+ )?not clearly better than guessing[^;]*)",
            view["finding"],
        )
        or "",
        without=level(view["picture"]["figure"], "no privacy"),
        needed=one(r"takes epsilon ([\d.]+(?: or less)?)", answer["words"]) or "not reached",
        unit=view["unit"],
        attacker=asked_in(attack[view["stop"]]),
        seeds=seeds_in(text),
        split=one(r"Tested on ([^.]*)\.", text),
        certified=one(r"(?:certified: |certified )(?:epsilon )?([^\n]*)", badge(app)),
    )
    app.session_state["numbers"] = True
    app.run()
    (words,) = [t.value for t in app.text if "the curve at epsilon" in t.value]
    of_curve(said, "What if, in words", words, here["epsilon"])
    app.session_state["epsilon"] = float(here["epsilon"])


def of_curve(said, where, words, epsilon):
    """What a sentence says of a curve at an epsilon."""
    told = one(rf"(the curve at epsilon {epsilon}: [^\n]*)", words)
    assert told
    number = r"((?:\d[\d.]*)?\d(?: %)?)"
    said.add(
        where,
        value=one(rf"epsilon [\d.]+: {number}", told),
        half=one(rf"± {number}", told),
        spread_over=one(r"over (\d+) seeds", told),
        kept=one(r"seeds; ((?:keeps|not clearly|nothing)[^;.]*)", told) or "",
        without=one(rf"no privacy: {number}", told),
        guess=one(rf"guessing: {number}", told),
    )


def badge(app):
    return next((m.value for m in app.markdown if "-badge[" in m.value), "").rstrip("]")


def of_compare(said, app, epsilon):
    text = read_all_text(app)
    app.session_state["comparison table"] = app.session_state["price table"] = True
    app.run()
    assert not app.exception
    points = frame(app, "mechanism", "epsilon", "mean", "from", "to")
    at = points[points["epsilon"] == epsilon].iloc[0]
    means = frame(app, "mechanism", f"{epsilon:g}")
    price = frame(app, "mechanism", "wanted", "best")
    ends = [float(at[side].rstrip(" %")) for side in ("mean", "to")]
    said.add(
        "Compare",
        value=at["mean"],
        without=level(read_chart_spec(app), "no privacy"),
        needed=price["epsilon"].iloc[0],
        unit=at["counts"],
        seeds=seeds_in(text),
    )
    said.add("Compare, all means", value=means[f"{epsilon:g}"].iloc[0])
    said.add("Compare, its points", seeds=str(at["seeds"]))
    said.add("Compare, its control", seeds=str(app.number_input(key="seeds").value))
    said.add("Compare, its command", seeds=one(r"--seeds 1:(\d+)", app.code[-1].value))
    return ends[1] - ends[0]


def of_guarantees(said, app, id, epsilon):
    app.session_state["attacker table"] = app.session_state["every claim"] = True
    app.run()
    assert not app.exception
    table = frame(app, "epsilon", "right at most (%)")
    right = table[table["epsilon"] == epsilon]["right at most (%)"].iloc[0]
    claims = frame(app, "mechanism", "certified", "delta")
    name = registry.get_short_name(id)
    row = claims[claims["mechanism"] == name].iloc[0]
    delta = "" if row["delta"] == "0" else f", delta {row['delta']}"
    unit = row["claimed and certified count"].partition(":")[0]
    said.add(
        "Guarantees, its chart",
        attacker_rounded=None if right.startswith(">") else f"{float(right):.0f}",
    )
    panel, _ = (asked_in(m.value.replace("\\", "")) for m in app.markdown if "who asks" in m.value)
    said.add("Guarantees, its panel", attacker=panel)
    least = panel and one(r"at most (\d+)$", panel)
    said.add("Guarantees, its panel", attacker_rounded=least)
    said.add("Guarantees, its table", certified=f"{row['certified']}{delta} {unit}")
    said.add(
        "Guarantees, its card",
        certified=one(r"(?:certified: |certified )(?:epsilon )?([^\n]*)", badge(app)),
    )
    alt = next(c.proto.alt for c in list_charts(app) if "attacker" in c.proto.alt)
    said.add("Guarantees, in words", attacker=asked_in(alt))


def of_train(said, app, metric):
    """What a run says of itself, on its own split, and of the curve beside it."""
    press_button(app, "Train")
    run_until_done(app)
    tiles = {tile.label: one(r"([\d.]+(?: %)?)", tile.value) for tile in app.metric}
    found, *_ = [head.value for head in app.header if head.value.startswith(metric.title)]
    number = r"([\d.]+(?: %)?)"
    own, *_ = tiles.values()
    said.add("Train, its tiles", run=own, run_without=tiles["No privacy"])
    said.add("Train, its tiles", run_guess=tiles.get("Guessing"))
    said.add(
        "Train, its title",
        run=one(rf"^{re.escape(metric.title)} {number}", found),
        run_without=one(rf"no privacy {number}", found),
        run_guess=one(rf"guessing {number}", found),
    )
    assert " of the gain" not in found  # one split tells no share
    card = next(m.value for m in app.markdown if m.value.startswith(f"{metric.title} **"))
    said.add("Train, its card", run=one(rf"\*\*{number}", card))
    said.add("Train, its badge", certified=one(r"certified:? (?:epsilon )?([^\n]*)", badge(app)))
    of_curve(said, "Train, of the curve", read_all_text(app), "1")


def of_answer(said, document, metric, where="dpmc answer"):
    proved = document["certified"]
    unit = {"user": "per user", "value": "per rating"}[document["unit"]]
    said.add(
        where,
        unit=unit,
        attacker=asked_in(document["said"]["attacker"]),
        certified=f"{cards.format_budget(proved['epsilon'], proved['delta'])} {unit}",
        split=re.sub(
            r"0\.(\d+) of", lambda m: f"{100 * float('0.' + m[1]):g} % of", document["split"]
        ),
    )
    at = next((point for point in document.get("curve", ()) if point["epsilon"] == 1.0), None)
    seeds = {*said.found["seeds"].values(), str(document.get("curve_seeds"))}
    if at is not None and len(seeds) == 1:  # else it says that it rests on other seeds
        said.add(where, kept=at["said"], value=metric.text(at["value"]))
    delta = one(r"epsilon [\d.]+, (delta [\de-]+)", document["said"]["unit"])
    if proved["delta"]:
        assert delta == f"delta {cards.format_delta(proved['delta'])}"


def check_deltas(app):
    """A delta has one spelling, wherever it stands."""
    told = read_all_text(app) + "".join(m.value for m in app.markdown) + badge(app)
    assert not re.search(r"\b\d(?:\.\d+)?e-0\d|0\.00000\d", told)


def look_around(said, data, id, wanted, *, known=False):
    """What the pages say of a method at epsilon 1."""
    facts = {"known": "true"} if known else {}
    task = registry.get_mechanism(id).task
    metric = lines.list_plotted_metrics(task)[0]
    app = open_page(data=data, mechanism=id, **facts)
    assert app.radio(key="protect").index is not None  # one promise is always chosen
    of_what_if(said, app, metric, wanted / 100 if metric.is_share else wanted)
    check_deltas(app)
    link = {"data": data, "mechanisms": [id], f"wanted {metric.name}": str(wanted), **facts}
    if len(sources.list_available_tasks(data)) > 1:
        link["task"] = task.value
    app = open_page("compare", **link)
    half = of_compare(said, app, 1.0)
    shown = float(said.found["half"]["What if"].rstrip(" %"))
    assert half == pytest.approx(shown, abs=0.11 if metric.is_share else 0.0011)  # both are rounded
    check_deltas(app)
    for name in ("guarantees", "train", "answer"):
        app = open_page(name, data=data, mechanism=id, **facts)
        if name == "guarantees":
            of_guarantees(said, app, id, 1.0)
        if name == "train":
            of_train(said, app, metric)
        check_deltas(app)


@pytest.mark.parametrize(("data", "id", "wanted", "known"), mark_rest_slow(SITUATIONS, 0))
def test_what_is_said_twice_is_said_the_same(data, id, wanted, known):
    said = Said()
    look_around(said, data, id, wanted, known=known)
    said.check(
        *("value", "half", "kept", "without", "needed", "unit", "attacker", "seeds", "certified"),
        *("spread_over", "run", "run_without"),
    )
    assert {*said.found["spread_over"].values()} == {*said.found["seeds"].values()}
    for line in lines.load_shipped_charts(data, id, with_item_features=known)[0].flat_lines:
        assert str(len(line[1].values)) in said.found["seeds"].values()  # baselines: of the same


@pytest.mark.slow
def test_a_paper_s_proof_is_the_card_s():
    said, id = Said(), "input-flip"
    text = read_all_text(open_page("papers", data="restaurants", mechanism=id))
    said.add("Papers", certified=one(r"\*\*Input[^*]*\*\*: Epsilon ([\d.]+ per \w+)", text))
    of_guarantees(said, open_page("guarantees", data="restaurants", mechanism=id), id, 1.0)
    said.check("certified")


@pytest.mark.parametrize(
    ("data", "id", "protect"),
    mark_rest_slow(
        [
            ("restaurants", "private-effects", "person"),
            ("movie-night", "private-effects", "person"),
            ("restaurants", "input-flip", "rating"),
            ("bookshop-clicks", "private-taste", "person"),
        ],
        0,
    ),
)
def test_the_command_says_what_the_pages_say(capsys, data, id, protect):
    task, said = registry.get_mechanism(id).task, Said()
    metric = lines.list_plotted_metrics(task)[0]
    app = open_page(data=data, mechanism=id)
    of_what_if(said, app, metric, view_goal(app))
    of_guarantees(said, open_page("guarantees", data=data, mechanism=id), id, 1.0)
    document = answer_of(capsys, data, protect, task, curve=data == "restaurants")
    assert document["mechanism"] == id
    of_answer(said, document, metric)
    said.check("unit", "attacker", "certified", "split")
    if data == "restaurants" and task is Task.RATINGS:
        said.check("value", "kept")


def view_goal(app):
    """Some quality that its chart can show."""
    needed = read_instrument(app)["needed"]
    return (needed["first"] + len(needed["answers"]) // 2) * needed["step"]


def answer_of(capsys, data, protect, task, curve):
    words = ["--protect", protect, "--task", task.value, "--seeds", "1:3", "--json"]
    assert main(["answer", data, *words, *([] if curve else ["--no-curve"])]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_a_fit_says_what_the_page_of_a_run_says(capsys):
    id, said = "input-flip", Said()
    of_train(said, open_page("train", data="restaurants", mechanism=id), METRICS["accuracy"])
    assert main(["fit", "restaurants", id, "--epsilon", "1"]) == 0
    told = capsys.readouterr().out
    number = r"\s+([\d.]+ %)"
    said.add(
        "dpmc fit",
        run=one(rf"Input perturbation{number}", told),
        run_without=one(rf"No privacy{number}", told),
        run_guess=one(rf"Guessing{number}", told),
        certified=one(r"certified\W+epsilon ([\d.]+ per \w+)", told),
    )
    said.check("run", "run_without", "run_guess", "certified")


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "own"), [("1", True), ("77", False)])
def test_a_run_before_its_own_baseline_names_the_curve_s(monkeypatch, seed, own):
    """Of a seed that no curve has, the mean over the curve's seeds, and called so."""
    told, work = [], runs.make_training_work

    def noted(*given, reference=(), **more):
        told.extend([reference] if reference else [])  # an example on the page has none
        return work(*given, reference=reference, **more)

    monkeypatch.setattr(runs, "make_training_work", noted)
    press_button(open_page("train", data="restaurants", mechanism="input-flip", seed=seed), "Train")
    (picture,) = lines.load_shipped_charts("restaurants", "input-flip")
    without = picture.nonprivate_reference
    mean = without.values[0] if own else without.interval.mean
    assert told == [(pytest.approx(mean), "no privacy" if own else "no privacy, curve's mean")]


@pytest.mark.slow
def test_a_run_has_the_split_of_a_curve_s_seed():
    """One run is one split: its baselines are those of the curve's first seed, not its means."""
    task = Task.BINARY
    found = run(registry.create("input-flip", epsilon=1.0), datasets.load("restaurants"), seed=1)
    (picture,) = lines.load_shipped_charts("restaurants", "input-flip", seeds=[1])
    without = next(level for name, level in picture.flat_lines if name == lines.NO_PRIVACY)
    mine = found.baselines[registry.NONPRIVATE_REFERENCES[task]]["accuracy"]
    assert without.values.tolist() == pytest.approx([mine], abs=1e-6)
