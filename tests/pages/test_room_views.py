"""What the projector says of a class: rows, words, tables and pictures."""

import csv
import io
import math
import re

import pytest

from dpmc_lab.classroom import room
from dpmc_lab.classroom import room_view as words
from dpmc_lab.classroom.room import Bounds, Room
from dpmc_lab.classroom.room_view import Mark, ShareRow
from dpmc_lab.lessons import LESSONS
from dpmc_lab.sweep.presets import EPSILONS
from pages.ui.charts import room as charts_room

TOKENS = [f"{k:032x}" for k in range(200)]


def build_room(yes, reports, *questions, epsilon=2.0):
    """Build a room whose first question has so many reports."""
    class_room = Room(questions or ("Tea?", "Coffee?"), epsilon)
    class_room.ask(0)
    lock_reports(class_room, yes, reports)
    return class_room


def lock_reports(class_room, yes, reports):
    now = class_room.view().now.number
    for k in range(reports):
        class_room.report(class_room.view().id, now, TOKENS[k], int(k < yes))
    class_room.lock()


def test_a_question_shows_estimate_reports_and_what_more_people_might_say():
    view = build_room(12, 30).view()
    rows = words.build_question_rows(view, 0)
    assert [row.mark for row in rows] == [
        Mark.ESTIMATE,
        Mark.PEOPLE,
        Mark.REPORTED,
        Mark.REACH,
        Mark.REACH,
        Mark.REACH,
    ]
    assert rows[0].interval == view.poll(0).of_class
    assert rows[1].interval == view.poll(0).of_people
    assert [row.name for row in rows[:2]] == ["This class", "People like this class"]
    assert rows[2].interval.share == 0.4
    assert words.format_row_interval(rows[2]) == ""  # they are what they are
    assert [row.reports for row in rows] == [30, 30, 30, 30, 300, 3000]
    assert [row.interval for row in rows[3:]] == [
        view.poll(0).interval_for(n) for n in words.PHONE_COUNTS
    ]
    assert [words.format_row_share(row) for row in rows[3:]] == ["± 25", "± 8", "± 2"]


@pytest.mark.parametrize(
    ("prior", "expected"),
    [
        (0.5, (88.1, 88.1, 98.2)),
        (0.6, (88.1, 90.2, 98.2)),
        (0.8, (88.1, 94.4, 98.2)),
        (0.95, (95.0, 97.5, 98.2)),
        (0.999, (99.9, 99.9, 99.9)),
    ],
)
def test_surer_stands_above_numbers_that_have_grown(prior, expected):
    class_room = build_room(12, 30)
    class_room.ask(0)
    lock_reports(class_room, 12, 30)
    estimates, certainty = words.compare_rounds(class_room.view(), 0, prior)
    shares = [round(100 * row.interval.share, 1) for row in certainty]
    assert shares == [100 * prior, *expected]
    title = words.describe_repetition(estimates, certainty)
    assert ("about you" in title) == (expected[0] < expected[2])
    assert "79 % of phones" in certainty[-1].note
    assert "epsilon 4 in all" in title
    widths = [row.interval.high - row.interval.low for row in estimates]
    assert ("about the class" in title) == (widths[1] < widths[0])


def test_the_wall_and_lesson_four_tell_one_story():
    """The same numbers: before, after one report, after two, and if both agree."""
    class_room = build_room(12, 30)
    class_room.ask(0)
    lock_reports(class_room, 12, 30)
    _, certainty = words.compare_rounds(class_room.view(), 0)
    slide = LESSONS["again"].get_slide("majority")
    assert (slide.start_values["before"], slide.start_values["times"]) == (words.PRIOR, 2)
    assert slide.start_values["epsilon"] == class_room.view().epsilon
    shares = [share for (share,) in slide.reveal(slide.start_values).picture.shares.values()]
    assert shares == [row.interval.share for row in certainty]
    assert [row.name for row in certainty] == list(slide.reveal(slide.start_values).picture.shares)
    sentences = " ".join(slide.reveal(slide.start_values).sentences)
    for row in certainty:
        assert words.format_row_share(row) in sentences
    assert "79 %" in sentences
    assert "79 %" in certainty[-1].note


def test_shares_are_compared_by_the_interval_of_their_difference():
    """9 and 13 of 30 at epsilon 3: the intervals overlap, and still the one is surely larger."""
    class_room = build_room(9, 30, epsilon=3.0)
    class_room.ask(1)
    lock_reports(class_room, 13, 30)
    rows, (comparison,) = (
        words.summarise_questions(class_room.view()),
        words.compare_questions(class_room.view()),
    )
    assert rows[0].interval.high > rows[1].interval.low
    assert comparison.is_certain
    assert (comparison.larger_question, comparison.smaller_question) == (1, 0)
    (sentence, _) = words.describe_differences(class_room.view(), [comparison])
    assert "“Coffee?” has more yes" in sentence


def test_only_the_same_people_are_compared():
    class_room = build_room(12, 30)
    class_room.ask(1)
    for token in TOKENS[25:60]:
        class_room.report(class_room.view().id, 1, token, 1)
    class_room.lock()
    (comparison,) = words.compare_questions(class_room.view())
    polls = [class_room.view().poll(k, among=TOKENS[25:30]) for k in range(2)]
    assert [poll.people for poll in polls] == [5, 5]
    assert comparison.interval == room.compute_share_difference(*polls[::-1])
    for low, expected in ((0.1, "by 10 to 90 points"), (-0.1, "less “Tea?”: -10 to 90 points")):
        result = comparison._replace(interval=comparison.interval._replace(low=low, high=0.9))
        sentence, *_ = words.describe_differences(class_room.view(), [result])
        assert f"{expected} among the 5 who answered both." in sentence
    other_room = build_room(12, 30)
    other_room.ask(1)
    other_room.count(3, 20)
    other_room.lock()
    assert words.compare_questions(other_room.view()) == []  # phones and hands


# --- rounds, and what is hidden -------------------------------------------------------------------


def test_a_question_shows_nothing_until_it_is_locked_unless_the_teacher_says_so():
    class_room = build_room(12, 30)
    class_room.lock(False)
    for rows in (
        words.build_question_rows(class_room.view(), 0),
        words.summarise_questions(class_room.view()),
    ):
        assert all(row.interval is None for row in rows)
        assert rows[0].note == words.HIDDEN_NOTE
    assert "(L)" in words.explain_waiting(class_room.view())
    assert words.export_results(class_room.view()).count("\n") == 2
    class_room.hide(False)
    assert words.build_question_rows(class_room.view(), 0)[0].interval is not None
    assert words.explain_waiting(class_room.view()) == ""


@pytest.mark.parametrize("hides", [True, False])
def test_a_round_changes_the_wall_only_when_it_is_locked(hides):
    class_room = build_room(12, 30)
    class_room.hide(hides)
    before = words.build_question_rows(class_room.view(), 0)
    class_room.ask(0)
    for k in range(5, 17):
        class_room.report(class_room.view().id, 1, TOKENS[k], 1)
        assert words.build_question_rows(class_room.view(), 0) == before
        assert words.summarise_questions(class_room.view())[0].interval == before[0].interval
    assert words.count_answers(class_room.view())[0][0] == ("12", "of 30 have answered again")
    class_room.report(class_room.view().id, 1, TOKENS[99], 1)
    assert words.count_answers(class_room.view())[0][0] == (
        "12",
        "of 30 have answered again, 1 for the first time",
    )
    class_room.lock()
    last, every, *_ = words.build_question_rows(class_room.view(), 0)
    assert "25 reports of 13 phones" in last.note
    assert "43 reports of 31 phones" in every.note  # who slept loses nothing
    assert last.interval != every.interval != before[0].interval


@pytest.mark.parametrize("sent", [1, 2])
def test_no_phones_reports_stand_alone(sent):
    """Neither of one round nor linked, nor as the rest of all."""
    class_room = build_room(1, sent)
    assert all(row.interval is None for row in words.build_question_rows(class_room.view(), 0))
    assert all(row.interval is None for row in words.summarise_questions(class_room.view()))
    assert "estimate" not in words.export_results(class_room.view())
    for n_sent in (sent, 30 - sent):
        other_room = build_room(12, 30)
        other_room.ask(0)
        lock_reports(other_room, n_sent, n_sent)
        visible = [
            row
            for row in words.build_question_rows(other_room.view(), 0)
            if row.mark is Mark.ESTIMATE
        ]
        assert [row.note for row in visible] == [f"{30 + n_sent} reports of 30 phones"]


def test_a_share_past_the_end_is_shown_as_the_end_everywhere():
    """30 yes of 30 printed 116 %, on the wall, in its table and in the CSV."""
    for yes, share in ((30, "100"), (0, "0")):
        view = build_room(yes, 30).view()
        rows = words.build_question_rows(view, 0)
        assert [words.format_row_share(row) for row in rows[:2]] == [f"{share} %"] * 2
        assert words.format_row_interval(rows[1]) == ("93 to 100" if yes else "0 to 7")
        for row in csv.DictReader(io.StringIO(words.export_results(view))):
            ends = [row[end] for end in ("share", "low", "high") if row[end]]
            assert all(0 <= float(end) <= 1 for end in ends)


def test_an_export_holds_what_was_sent_and_no_tokens():
    class_room = build_room(12, 30, "=Tea?", "Coffee, or, tea?")
    class_room.set_epsilon(1.0)
    class_room.ask(1)
    lock_reports(class_room, 20, 30)
    class_room.ask(0)
    lock_reports(class_room, 12, 20)
    class_room.count(3, 20)
    text = words.export_results(class_room.view())
    rows = list(csv.DictReader(io.StringIO(text)))
    asked_rows = [row for row in rows if row["kind"] == "asked"]
    phones = [row for row in asked_rows if row["sender"] == "phones"]
    assert [(row["question"], row["round"], row["epsilon"]) for row in phones] == [
        ("'=Tea?", "1", "2"),
        ("Coffee, or, tea?", "1", "1"),
        ("'=Tea?", "2", "2"),
    ]
    assert [(row["reports"], row["yes"]) for row in phones] == [
        ("30", "12"),
        ("30", "20"),
        ("20", "12"),
    ]
    assert [row["reports"] for row in asked_rows if row["sender"] == "hands"] == ["20"]
    estimates = [row for row in rows if row["kind"] == "estimate"]
    poll = class_room.view().poll(0)
    estimate = next(row for row in estimates if row["of"] == "this class")
    assert [float(estimate[end]) for end in ("share", "low", "high")] == list(poll.of_class)
    assert len(estimates) == 6  # two questions of phones, one of hands, by two names
    assert not any(token in text for token in TOKENS)


def test_words_and_table_say_every_number():
    rows = words.build_question_rows(build_room(12, 30).view(), 0)
    description, table = words.describe_rows(rows, "Shares"), words.tabulate_rows(rows)
    for row in rows:
        assert words.format_row_share(row) in description
        assert words.format_row_interval(row) in description
    assert len({len(column) for column in table.values()}) == 1
    assert table["reports"] == [30, 30, 30, 30, 300, 3000]


def test_questions_are_shown_and_never_obeyed():
    nasty = '<img src=x onerror=alert(1)>" & co'
    row = ShareRow(nasty, Mark.ESTIMATE, Bounds(0.2, 0.1, 0.3), 3, note=nasty)
    html = charts_room.render_shares([row], words.describe_rows([row], nasty))
    assert "<img" not in html
    assert '" &' not in html


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_two_coins_explain_the_tilted_one_and_their_sum_is_right(epsilon):
    lie = 100 / (1 + math.exp(epsilon))
    flip_text = re.search(r"opposite of the answer ([\d.]+) %", words.explain_epsilon(epsilon)[0])[
        1
    ]
    assert 0 < float(flip_text) < 100
    two, flip_percentage = re.findall(r"\d+(?:\.\d+)?", words.explain_two_coins(epsilon))
    assert float(two) == pytest.approx(100 - 2 * float(flip_percentage))
    for displayed, expected in ((flip_text, lie), (flip_percentage, lie), (two, 100 - 2 * lie)):
        assert abs(float(displayed) - expected) < 10.0 ** -len(displayed.partition(".")[2])
    if epsilon == 2:
        assert (flip_text, two, flip_percentage) == ("12", "76", "12")


@pytest.mark.parametrize("epsilon", [0.1, 0.2, 1.0, 5.0, 10.0])
def test_how_far_odds_move_is_rounded_up(epsilon):
    promise = words.explain_promise(build_room(1, 2, epsilon=epsilon).view(), 0)[0]
    odds_factor = float(re.search(r"a factor of ([\d,.]+)\.$", promise)[1].replace(",", ""))
    assert math.exp(epsilon) <= odds_factor <= math.exp(epsilon) + 0.1


@pytest.mark.parametrize(("epsilon", "limited"), [(2.0, True), (10.0, False)])
def test_where_no_limit_helps_the_wall_says_no_at_most(epsilon, limited):
    view = build_room(1, 2, epsilon=epsilon).view()
    sentences = [*words.explain_epsilon(epsilon), *words.explain_promise(view, 0)]
    limits = re.findall(r"guesses right (.*?) % of the time", " ".join(sentences))
    assert len(limits) == 3
    if limited:
        assert all(re.fullmatch(r"at most [\d.]+", limit) for limit in limits)
    else:
        assert limits == ["> 99.9"] * 3


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_every_throw_stands_under_the_answer_that_is_then_shown(epsilon):
    rule = room.choose_coin_rule(epsilon)
    html = charts_room.render_coins(rule, "")
    counts = {
        name: (int(k), int(n)) for name, k, n in re.findall(r">(Show .*?): (.*?) of (.*?)<", html)
    }
    throws = 2**rule.coins
    opposite = sum(math.comb(rule.coins, heads) for heads in range(rule.heads + 1))
    assert counts == {
        "Show the opposite": (opposite, throws),
        "Show your answer": (throws - opposite, throws),
    }
    assert opposite / throws == pytest.approx(float(rule.channel.matrix[0, 1]))
