"""Lessons: right options are right, and text and picture come from the same numbers."""

import math
import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from dpmc_lab import lessons
from dpmc_lab.classroom import CLASS_SIZE, numbers
from dpmc_lab.classroom import room as room_module
from dpmc_lab.classroom.pictures import (
    STYLE_SHEET,
    CellGrid,
    CurvePlot,
    IntervalPlot,
    OutcomeBars,
    PeopleDots,
    render_picture,
)
from dpmc_lab.classroom.room import Room
from dpmc_lab.lessons import LESSONS
from dpmc_lab.views.cards import format_share_percent
from tests.lesson_helpers import list_settings, list_slides

TEXTS = Path(lessons.__file__).parents[1] / "texts" / "en"
FILES = sorted((TEXTS / "lessons").glob("*.toml"))


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_slide_reveals_wherever_its_controls_stand(lesson):
    for slide in LESSONS[lesson].slides:
        check_slide(slide)


def check_slide(slide):
    for control in slide.move:
        if control.values:
            assert control.start in control.values
            names = [control.format_value(value) for value in control.values]
            assert len(set(names)) == len(names)  # the address says them
        elif control.options:
            assert control.start in control.options
    for setting in list_settings(slide):
        finding = slide.reveal(setting)
        assert finding.sentences
        for sentence in finding.sentences:
            assert sentence == sentence.strip()
            assert sentence[-1] in ".?!"
            assert not re.search(r"\bnan\b|\binf\b|-0 ", sentence)
        if finding.picture is not None:
            check_drawing(finding.picture)


def check_drawing(picture):
    """Check that a drawing is well-formed, labelled, within its width, and like its table."""
    root = ElementTree.fromstring(render_picture(picture))
    assert root.get("aria-label") == picture.description
    for element in root.iter():
        for name, value in re.findall(
            r"(left|bottom|width|--lit): ([^;%]+)%", element.get("style", "")
        ):
            assert 0 <= float(value) <= 100, name
    assert read_marks(root, picture) == pytest.approx(list_expected_marks(picture), abs=0.06)
    columns = list(picture.table().values())
    assert columns
    assert len({len(column) for column in columns}) == 1
    named = picture.shares if isinstance(picture, OutcomeBars) else ()
    named = picture.rows if isinstance(picture, IntervalPlot) else named
    if named:
        assert columns[0] == list(named)


MARKS = {  # the boxes that show numbers, and where each of them says so, in percent
    OutcomeBars: [("fill", "width")],
    IntervalPlot: [("range", "left"), ("range", "width"), ("point", "left"), ("rule", "left")],
    CurvePlot: [("point", "left"), ("point", "bottom"), ("dashed", "bottom"), ("rule", "left")],
    CellGrid: [("cell", "--lit"), ("marked", "--lit")],
}


def read_marks(root, picture):
    """Read the positions of a drawing's marks, or count them where all are alike."""
    elements = [
        (element.get("class", "").split(), element.get("style", "")) for element in root.iter()
    ]
    if isinstance(picture, PeopleDots):
        return [sum(kind in kinds for kinds, _ in elements) for kind in ("yes", "no", "turned")]
    return [
        float(match[1])
        for kind, name in MARKS[type(picture)]
        for kinds, style in elements
        if kind in kinds and (match := re.search(rf"{name}: ([^;%]+)%", style))
    ]


def list_expected_marks(picture):
    """List the same from the numbers of the picture."""
    if isinstance(picture, PeopleDots):
        return [picture.yes, len(picture.reports) - picture.yes, picture.turned]
    if isinstance(picture, OutcomeBars):
        return [100 * share for row in picture.shares.values() for share in row]
    if isinstance(picture, IntervalPlot):
        shares, lows, highs = 100 * np.clip([*picture.rows.values()], 0, 1).T
        truth = [100 * picture.truth] * len(shares)
        return [*lows, *(highs - lows), *shares, *truth]
    if isinstance(picture, CellGrid):
        shares = [(picture.marked == (r, c), value) for r, row in enumerate(picture.rows)
                  for c, value in enumerate(row)]  # fmt: skip
        return [round(100 * value) for _, value in sorted(shares, key=lambda cell: cell[0])]
    last = len(picture.stops) - 1
    lines, levels = np.array([*picture.lines.values()]), np.array([*picture.levels.values()])
    high = max([*lines.ravel(), *levels]) if picture.high is None else picture.high
    heights = [100 * (x - picture.low) / (high - picture.low) for x in (lines.ravel(), levels)]
    stops = np.linspace(0, 100, last + 1)
    chosen = stops[picture.stop_index]
    return [*np.tile(stops, len(lines)), *np.clip(np.concatenate(heights), 0, 100), chosen]


# --- right options, computed here without the program -------------------------------------------


def compute_posterior(before, epsilon, yes=True):
    odds = before / (1 - before) * math.exp(epsilon if yes else -epsilon)
    return odds / (1 + odds)


def lie(epsilon):
    return 1 / (1 + math.exp(epsilon))


def test_no_rule_of_a_picture_hides_a_pseudo_element_in_a_list():
    """Browsers drop it from the list in silence: so a veil showed which phones had turned."""
    pages = Path(__file__).resolve().parents[2] / "pages"
    styles = [STYLE_SHEET, *(path.read_text("utf-8") for path in pages.rglob("*.css"))]
    listed = [match for style in styles for match in re.findall(r":(?:is|where)\([^)]*::", style)]
    assert not listed


RIGHT = {
    "coin/throw": f"{30 * lie(2):.0f}",
    "coin/deny": "A yes is more likely, but not certain",
    "coin/evidence": f"{(1 - lie(2)) / lie(2):.1f}",
    "coin/dial": "Down",
    "crowd/count": "Too high",
    "crowd/undo": "It becomes longer",
    "crowd/more": "3,000",
    "crowd/me": "No, it reveals as much as before",
    "attacker/even": f"{100 * compute_posterior(0.5, 1):.0f} %",
    "attacker/suspicion": f"{100 * compute_posterior(0.9, 1):.0f} %",
    "attacker/against": f"{100 * compute_posterior(0.9, 1, yes=False):.0f} %",
    "attacker/without": "80 %",
    "claim/three": f"{3 * 2}",
}


@pytest.mark.parametrize("name", RIGHT)
def test_the_right_option_is_right(name):
    question = list_slides()[name].predict
    assert question.options[question.right] == RIGHT[name]


def test_throws_lie_as_often_as_the_coin_says():
    """False alarms: fewer than one in a million (six standard deviations of so many coins)."""
    n_coins = 1_500 * CLASS_SIZE
    n_flips = sum(numbers.simulate_class(1.0, 1.0, throw).turned for throw in range(1_500))
    assert abs(n_flips / n_coins - lie(1)) < 6 * math.sqrt(lie(1) * (1 - lie(1)) / n_coins)


# --- in a room -----------------------------------------------------------------------------------


def build_room_view(yes, n_people, *, last=False):
    """Build a view of a room; with `last`, those who send yes come last."""
    room = Room(["Have you had breakfast?"], 2.0)
    room.ask(0)
    for k in range(n_people):
        room.report(room.view().id, 0, f"{k:032x}", int((n_people - 1 - k if last else k) < yes))
    return room.view()


def test_what_arrived_in_a_room_tells_nothing_of_its_order():
    pictures = [
        numbers.summarise_reports(build_room_view(9, 30, last=last))["phones"]
        for last in (False, True)
    ]
    assert pictures[0] == pictures[1] == PeopleDots((1,) * 9 + (0,) * 21)
    check_drawing(pictures[0])


# --- the frame -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.0, "0"),
        (1.0, "100"),
        (0.7311, "73"),
        (0.00669, "0.7"),
        (0.9933, "99.3"),
        (4.54e-5, "0.005"),
        (1 - 4.54e-5, "99.995"),
        (0.01, "1"),
        (1 - 1e-12, "99.999999"),
        (1e-300, "0.000001"),
    ],
)
def test_a_chance_is_never_rounded_to_all_or_nothing(share, expected):
    assert format_share_percent(share) == expected


def list_texts(table):
    """Yield every text of a lesson's file that people read, without forms, keys and the like."""
    for name, value in table.items() if isinstance(table, dict) else enumerate(table):
        if isinstance(value, dict | list):
            yield from list_texts(value)
            yield from (str(key) for key in value if name in ("lines", "levels", "shares", "rows"))
        elif isinstance(value, str) and name not in ("form", "page", "query", "asked", "slide"):
            yield value


@pytest.mark.parametrize("path", [*FILES, TEXTS / "plans.toml"], ids=lambda path: path.stem)
def test_no_number_is_typed_in_a_text(path):
    """Texts hold no digits, but of 100, of 50:50 and of a formula: numbers are computed."""
    for text in list_texts(tomllib.loads(path.read_text("utf-8"))):
        remaining_text = re.sub(r"\b(100|50:50|1 - 2f)\b", "", text)
        for named in (r"\{\w+[^{}|]*\}", r"\{\w+:"):  # what a choice of texts says is a text
            remaining_text = re.sub(named, "", remaining_text)
        assert not re.search(r"\d", remaining_text), text


# Words of lesson 5, and the slide that first shows what they mean.
TERMS = {"score": "claim/cells", "proof": "claim/sum", "add up": "again/add"}
LOOKS_BACK = re.compile(
    r"\b(previous|the last time|slide before|so far|first round|guessed a share)\b"
)


@pytest.mark.parametrize("minutes", lessons.CLASSES)
def test_a_plan_speaks_of_nothing_that_it_has_not_shown(minutes):
    """What is "previous" is an earlier step of the class, and so is the question of an answer."""
    shown, walls = [], []
    for step in lessons.schedule_class(minutes):
        texts = [step.ask, step.say, step.expect, step.button]
        if step.stage:
            slide = lessons.get_slide(step.wall)[1]
            asks = step.stage == "question" or not slide.predict
            assert asks or (step.wall, "question") in walls, step.id
            texts += [slide.title, slide.said]
        else:
            assert step.wall in {"", *lessons.WALLS}, step.id
        walls.append((step.wall, step.stage))
        assert set(step.refers) <= set(shown), step.id
        assert step.refers or not LOOKS_BACK.search(" ".join(texts)), step.id
        for term, wall in TERMS.items():
            if term in " ".join(texts).casefold():
                assert wall in dict(walls), (step.id, term)
        for sheet in (step.sheet,) if step.sheet and step.stage else ():
            assert sheet == step.wall
            assert step.stage == "question"
        assert step.id not in shown
        assert all((step.button, step.ask, step.say))
        shown.append(step.id)
    rooms = [wall for wall, stage in walls if not stage and wall]
    assert rooms[0] == "lobby"
    assert rooms[-1] == "end"


@pytest.mark.parametrize("minutes", lessons.CLASSES)
def test_a_plan_leads_a_room_from_its_opening_to_its_end(minutes, monkeypatch):
    """By one step at a time; what a step does is done once, whoever goes back."""
    monkeypatch.setattr(room_module, "KEY_BOUNCE_SECONDS", 0)
    steps = lessons.schedule_class(minutes)
    class_room = Room(["Tea?", "Coffee?"], steps[0].epsilon, plan=minutes)
    first_id = class_room.view().id

    def follow(index):
        step = steps[index]
        state = "" if step.stage else step.wall
        class_room.follow(index, state, step.question - 1, step.epsilon)
        return class_room.view()

    for index, step in enumerate(steps[1:], 1):
        view = follow(index)
        assert view.step == index
        if step.stage:
            assert step.reveal().sentences
        elif step.wall in ("open", "again"):
            assert (view.now.question, view.locked) == (step.question - 1, False)
            assert view.now.epsilon == step.epsilon
            for phone in range(12):
                class_room.report(view.id, view.now.number, f"{phone:032x}", phone % 2)
        elif step.wall in ("locked", "counted", "result"):
            assert view.locked
            assert view.poll(step.question - 1).people == 12
        assert view.ended == (step.wall == "end" or (step.id, view.id) == ("exit", ""))
        askings = len(view.askings)
        assert follow(index + 2 if index + 2 < len(steps) else 0).step == index  # not two at once
        if step.wall != "lobby":
            follow(index - 1)
            assert len(follow(index).askings) == askings
    assert (class_room.view().id != first_id) == (minutes == "90")
    assert class_room.view().max_epsilon == pytest.approx({"10": 2, "45": 4, "90": 1}[minutes])


@pytest.mark.parametrize(
    ("wrong", "message"), [({"titel": "?"}, "titel"), ({"number": "six"}, "number")]
)
def test_a_lesson_that_is_written_wrongly_is_refused(monkeypatch, wrong, message):
    lesson_table = tomllib.loads(FILES[0].read_text("utf-8"))
    monkeypatch.setattr(lessons, "load_texts", lambda _: lesson_table | wrong)
    with pytest.raises(ValueError, match=message):
        lessons._load_lesson(FILES[0].stem)
