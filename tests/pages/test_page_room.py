"""The teacher's page without a browser: set-up, what arrives, and what others may not do."""

import time
from contextlib import suppress
from html import unescape as unescape_html
from types import SimpleNamespace

import pytest

from dpmc_core.errors import DpmcError
from dpmc_data import public_sets
from dpmc_lab.classroom import room as core
from dpmc_lab.classroom import room_view as words
from dpmc_lab.classroom.room import CLASS_SIZE, EXAMPLE_QUESTIONS, Sender
from dpmc_lab.lessons import get_slide, schedule_class
from pages.ui import blocks, classroom, rows
from pages.ui.charts import room as charts_room
from tests.page_helpers import (
    find_button,
    open_page,
    press_button,
    read_all_text,
    read_html,
    read_markdown,
    unescape_markdown,
    wait_until,
)

pytestmark = pytest.mark.usefixtures("quick_keys")


@pytest.fixture
def quick_keys(monkeypatch):
    """Tests press keys faster than a teacher means to."""
    monkeypatch.setattr(core, "KEY_BOUNCE_SECONDS", 0)


@pytest.fixture
def class_mode(monkeypatch):
    """A server that serves a network; to begin with, whoever comes is the teacher."""
    monkeypatch.setenv("DPMC_CLASS", "1")
    visitor = SimpleNamespace(teacher=True)
    monkeypatch.setattr(classroom, "is_teacher", lambda: visitor.teacher)
    yield visitor
    classroom._server.replace_room(None)


def open_room_page(**link):
    app = open_page("room", **link)
    return press_button(app, "Open the room")


def simulate_answers(app):
    """Let thirty simulated phones answer, and lock the question."""
    press_button(app, f"Ask {CLASS_SIZE} simulated phones")
    return press_button(app, "Lock") if find_button(app, "Lock") else app


def get_own_room(app):
    return app.session_state["own room"]


def find_field(app, label):
    widget_lists = (app.text_input, app.number_input, app.slider, app.select_slider, app.toggle)
    return next(widget for kind in widget_lists for widget in kind if widget.label == label)


# --- set-up ---------------------------------------------------------------------------------------


def test_a_ready_list_can_be_changed_and_opens_a_room():
    app = open_page("room")
    assert app.text_area[0].value.splitlines() == list(EXAMPLE_QUESTIONS["Warm-up"])
    app.get("button_group")[1].set_value("Films").run()
    films = app.text_area[0].value.splitlines()
    assert films == list(EXAMPLE_QUESTIONS["Films"])
    app.text_area[0].set_value("\n".join([films[0], "", "Is  this   mine?"])).run()
    press_button(app, "Open the room")
    assert get_own_room(app).view().questions[1] == "Is this mine?"
    assert app.title[0].value.startswith("Have you ever liked")


def test_what_is_asked_is_shown_and_never_obeyed():
    app = open_page("room")
    app.text_area[0].set_value("**<b>Tea</b>** [x](javascript:1)?\nCoffee?").run()
    press_button(app, "Open the room")
    assert unescape_markdown(app.title[0].value) == "**<b>Tea</b>** [x](javascript:1)?"
    assert app.title[0].value != unescape_markdown(app.title[0].value)
    press_button(app, "Next question")
    assert "<b>Tea" not in read_html(app)
    assert "&lt;b&gt;Tea" in read_html(app)


# --- without phones -------------------------------------------------------------------------------


def test_hands_are_counted_by_the_rule_of_the_coins():
    app = open_room_page()
    assert "Throw one coin three times" in read_markdown(app)
    find_field(app, "Hands in all").set_value(28)
    find_field(app, "of them yes").set_value(9)
    press_button(app, "Count them")
    poll = get_own_room(app).view().poll(0, sender=Sender.HANDS)
    assert (poll.yes, poll.reports, poll.channel) == (9, 28, core.choose_coin_rule(2.0).channel)
    assert "28 hands" not in read_html(app)
    press_button(app, "Lock")
    assert "28 hands" in read_html(app)


def test_simulated_phones_have_a_truth_that_can_be_kept_secret():
    app = open_room_page()
    find_field(app, f"How many of {CLASS_SIZE} say yes?").set_value(24).run()
    simulate_answers(app)
    assert get_own_room(app).view().simulated_yes == {0: 24}
    assert 'class="truth" style="left: 80.00%"' in read_html(app)
    find_field(app, "Keep the true share secret").set_value(True).run()
    simulate_answers(app)
    assert 'class="truth" style' not in read_html(app)
    find_field(app, "Show the true share").set_value(True).run()
    truth = 100 * get_own_room(app).view().simulated_yes[0] / CLASS_SIZE
    assert f'class="truth" style="left: {truth:.2f}%"' in read_html(app)


# --- the projector --------------------------------------------------------------------------------


def test_the_end_is_asked_for_twice_and_what_there_is_stays():
    app = open_room_page()
    simulate_answers(app)
    press_button(app, "End the class")
    assert get_own_room(app).view().ended
    assert "the class is over" in read_html(app)
    assert f"{CLASS_SIZE} simulated phones" in read_html(app)
    assert find_button(app, "Ask again") is None
    assert [button.proto.label for button in app.get("download_button")] == ["Results as CSV"]
    press_button(app, "Forget this room")
    assert get_own_room(app) is None
    assert app.title[0].value == "Ask the class"


def test_the_picture_has_words_and_a_table():
    app = open_room_page()
    simulate_answers(app)
    (folded,) = [e for e in app.expander if e.label == "The chart in words and numbers"]
    app.session_state[folded.key] = True
    app.run()
    assert any("95 % interval" in text.value for text in app.text)
    assert len(app.dataframe) == 1


def test_after_the_end_every_question_can_be_reached():
    app = open_room_page()
    for k in range(2):
        simulate_answers(app)
        press_button(app, "Next question") if k == 0 else None
    press_button(app, "End the class")
    assert find_button(app, "Next question").disabled  # the third was never asked
    press_button(app, "Back")
    assert app.title[0].value == EXAMPLE_QUESTIONS["Warm-up"][0]
    assert "30 simulated phones" in read_html(app)
    assert find_button(app, "Back").disabled
    press_button(app, "Next question")
    assert app.title[0].value == EXAMPLE_QUESTIONS["Warm-up"][1]


# --- whatever fails -------------------------------------------------------------------------------

WALL_PARTS = {  # of the wall, and where a fault is planted
    "chart": (charts_room, "render_shares"),
    "number of reports": (charts_room, "render_counter"),
    "QR code": (charts_room, "render_phone_link"),
    "picture of coins": (charts_room, "render_coins"),
    "interval of the class": (core, "_compute_class_interval"),
    "interval of people": (core, "_compute_population_interval"),
    "difference": (core, "compute_share_difference"),
    "rows": (words, "build_question_rows"),
    "overview": (words, "summarise_questions"),
    "comparison": (words, "describe_differences"),
    "rounds": (words, "compare_rounds"),
    "equal reports": (core, "equal_report_chances"),
    "reason to wait": (words, "explain_waiting"),
    "words": (words, "describe_rows"),
    "table": (words, "tabulate_rows"),
    "promise": (words, "explain_promise"),
}


@pytest.mark.usefixtures("class_mode")
@pytest.mark.parametrize("wall_part", WALL_PARTS)
def test_whatever_fails_on_the_wall_the_buttons_the_end_and_the_table_stay(
    wall_part, monkeypatch, caplog
):
    """Also for who opens the page anew; the fault is logged once."""

    def fails(*_, **__):
        raise IndexError("planted")

    monkeypatch.setattr(blocks, "_logged_faults", set())
    app = open_room_page()
    press_button(app, "Ask the first question")
    room = classroom.get_room()
    send_reports(room, range(30), yes=12)
    room.lock()
    room.ask(0)
    send_reports(room, range(30), yes=12)
    room.lock()
    room.ask(1)
    send_reports(room, range(30), yes=20)
    room.lock()
    monkeypatch.setattr(*WALL_PARTS[wall_part], fails)
    for tab in (app, open_page("room"), app):
        tab.run()
        assert not tab.exception
        assert any("cannot be shown" in warning.value for warning in tab.warning)
        for label in ("Unlock", "Back", "Next question", "Ask again", "End the class"):
            assert find_button(tab, label) is not None
        assert "Results as CSV" in [button.proto.label for button in tab.get("download_button")]
        assert words.export_results(room.view()).count("\nasked,") == 3
    faults = [record for record in caplog.records if record.name == blocks.__name__]
    assert len(faults) == len({record.getMessage() for record in faults}) > 0
    press_button(app, "Back")
    press_button(app, "End the class")
    assert room.view().ended
    assert not app.exception
    assert "Results as CSV" in [button.proto.label for button in app.get("download_button")]
    assert find_button(app, "Next question") is not None


@pytest.mark.usefixtures("class_mode")
def test_the_way_to_the_first_question_stays_without_a_code(monkeypatch):
    def fails(*_, **__):
        raise OSError("planted")

    monkeypatch.setattr(charts_room, "render_phone_link", fails)
    app = open_room_page()
    assert any("QR code cannot be shown" in warning.value for warning in app.warning)
    press_button(app, "Ask the first question")
    assert classroom.get_room().view().now.question == 0


# --- a class by a plan ----------------------------------------------------------------------------


@pytest.mark.usefixtures("class_mode")
@pytest.mark.parametrize("minutes", ["10", "90"])  # which begins with that of 45
def test_a_plan_is_followed_by_one_button_in_both_windows(minutes):
    """The teacher's window and the wall show each step, and no slide that is not in the plan."""
    app = open_page("room", **{"class": minutes})
    assert "epsilons add up" in read_markdown(app)
    press_button(app, "Open the room")
    room, steps = classroom.get_room(), schedule_class(minutes)
    wall = open_page("room", wall="on")
    for index, step in enumerate(steps):
        wall.run()
        shown = unescape_html(read_html(app))
        assert f"Minute {step.start}<" in shown
        assert all(text in shown for text in (step.screen, step.ask, step.say, step.expect))
        assert "Minute" not in read_html(wall)
        titles = {"lobby": "Take part: scan the code", "": step.ask, "end": step.ask}
        title = titles.get(step.wall, room.view().questions[step.question - 1])
        if step.stage:
            slide = get_slide(step.wall)[1]
            title = slide.title
            seen = read_all_text(wall)
            answer = slide.reveal(slide.start_values).sentences[-1]
            assert (slide.said in seen) == (step.stage == "question"), step.id
            assert (answer in seen) == (step.stage == "answer"), step.id
        for window in (app, wall):
            assert unescape_markdown(window.title[0].value) == title
            labels = {button.proto.shortcut: button.label for button in window.button}
            assert labels.get("n") == (steps[index + 1].button if index + 1 < len(steps) else None)
        assert ('drawing veiled"' in read_html(wall)) == (
            step.stage == "question" and step.reveal().picture is not None
        )
        if step.wall in ("open", "again"):
            send_reports(room, range(30), yes=12)
        if index + 1 < len(steps):
            press_button(app, steps[index + 1].button)
    assert room.view().ended
    assert "Results as CSV" in [button.proto.label for button in app.get("download_button")]


@pytest.mark.usefixtures("class_mode")
def test_a_plan_goes_on_after_a_way_back_a_reload_and_a_way_out():
    app = open_page("room", **{"class": "10"})
    for label in ("Open the room", "Ask the first question"):
        press_button(app, label)
    room, wall = classroom.get_room(), open_page("room", wall="on")
    send_reports(room, range(30), yes=12)
    assert read_html(wall.run()).count('class="here"') == 30
    assert "37 %" not in read_html(wall)  # hidden until it is locked
    press_button(app, "Lock and show the result")
    assert "20 to 53" in read_html(wall.run())
    press_button(wall, "Back")
    assert room.view().locked  # what was done stays done
    assert open_page("room", wall="on").title[0].value == wall.title[0].value
    press_button(wall, "Lock and show the result")
    app = open_page("room")
    assert "Minute 3<" in read_html(app)
    press_button(app, "Go on without the plan")
    assert find_button(app, "Unlock")
    press_button(app, "Follow the plan")
    assert "Minute 3<" in read_html(app)
    assert len(room.view().askings) == 1


def test_outside_class_mode_both_windows_find_the_room_by_the_address():
    app = open_page("room", **{"class": "10"})
    press_button(app, "Open the room")
    id = get_own_room(app).view().id
    wall = open_page("room", wall="on", room=id)
    press_button(wall, "Ask the first question")
    assert get_own_room(app).view().now.question == 0
    assert get_own_room(open_page("room", room=id)) is get_own_room(app)
    assert open_page("room", wall="on").title[0].value == "The class begins soon"


# --- a class --------------------------------------------------------------------------------------


def send_reports(room, tokens, yes=0):
    view = room.view()
    for k in tokens:
        room.report(view.id, view.now.number, f"{k:032x}", int(k < yes))


@pytest.mark.usefixtures("class_mode")
def test_set_up_waits_for_the_first_phone_and_then_says_what_to_do(monkeypatch):
    app = open_room_page()
    room = classroom.get_room()
    assert unescape_markdown(app.title[0].value) == "Take part: scan the code"
    assert "Each answer costs epsilon 2." in read_html(app)
    assert f"QR code of {classroom.get_phone_link()}" in read_html(app)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 61)
    app.run()
    assert "hotspot" in app.warning[0].value
    for page in range(3):
        room.record_visit(f"{page:032x}")
    app.run()
    assert read_html(app).count('class="here"') == 3  # a dot for each phone
    assert not app.warning
    press_button(app, "Ask the first question")
    assert room.view().now.question == 0
    assert app.title[0].value == EXAMPLE_QUESTIONS["Warm-up"][0]


@pytest.mark.usefixtures("class_mode")
def test_reports_reach_the_projector_and_another_tab_agrees():
    app = open_room_page()
    press_button(app, "Ask the first question")
    assert find_button(app, "Count them")  # for who has no phone
    other_app = open_page("room")
    send_reports(classroom.get_room(), range(30), yes=12)
    for page in range(3):
        classroom.get_room().record_visit(f"{page:032x}")
    for tab in (app, other_app):
        tab.run()
        assert "<b>30</b>" in read_html(tab)
        assert '<b>30</b> <span class="of">answered' in read_html(tab)
        assert '<b>3</b> <span class="of">connected' in read_html(tab)
    press_button(other_app, "Next question")
    app.run()
    assert app.title[0].value == EXAMPLE_QUESTIONS["Warm-up"][1]
    assert "<b>0</b>" in read_html(app)
    assert open_page("room").title[0].value == EXAMPLE_QUESTIONS["Warm-up"][1]  # after a reload


@pytest.mark.usefixtures("class_mode")
def test_the_teacher_is_warned_when_phones_answered_and_none_is_connected(monkeypatch):
    app = open_room_page()
    press_button(app, "Ask the first question")
    room = classroom.get_room()
    send_reports(room, range(60), yes=20)
    app.run()
    assert "60 phones answered, but no phone is connected" in app.warning[0].value
    room.record_visit("0" * 32)
    app.run()
    assert [warning.value for warning in app.warning] == [
        "60 answers in 1 second: is this your class?"
    ]
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + core.PRESENCE_SECONDS + 1)
    app.run()
    assert "no phone is connected" in app.warning[0].value  # it fell asleep, or left the network
    press_button(app, "Close to new phones")
    assert room.view().closed
    press_button(app, "Ask anew: each phone spends epsilon 2 again")
    assert (room.view().poll(0).reports, room.view().max_epsilon) == (0, pytest.approx(4))
    send_reports(room, [0])
    with pytest.raises(core.PhoneWaiting):
        send_reports(room, [60])
    room.end()
    app.run()
    assert not app.warning


def test_a_stranger_sees_the_link_for_phones_and_nothing_else(class_mode):
    app = open_room_page()
    press_button(app, "Ask the first question")
    send_reports(classroom.get_room(), range(30), yes=12)
    class_mode.teacher = False
    app = open_page("room")
    assert app.get("link_button")[0].proto.url == classroom.get_phone_link()
    assert not app.button
    assert "QR code" not in read_html(app)
    assert "<b>30</b>" not in read_html(app)
    assert EXAMPLE_QUESTIONS["Warm-up"][0] not in read_all_text(app)


def test_in_a_class_only_the_teacher_uploads_computes_and_downloads(class_mode, monkeypatch):
    monkeypatch.setattr(public_sets, "get_set_folder", lambda _: public_sets.Path("/nowhere"))
    cases = (
        ("data", {"way": "upload"}, "upload files"),
        ("data", {"way": "public"}, "download data sets"),
        ("compare", {"data": "one-bit-lab", "grid": "custom", "seeds": "50"}, "compute it"),
        ("guarantees", {}, "start an attack"),
        ("data", {}, "compute an answer"),
        ("papers", {"experiment": "z16-generated"}, "run an experiment"),
    )
    labels = (
        "Run it again",
        "Start",
        "Attack this claim",
        "Get the answer",
        "Accept these terms and download",
    )
    for page, link, action in cases:
        class_mode.teacher = False
        app = open_page(page, **link)
        assert any(f"only the teacher may {action}" in info.value for info in app.info), page
        assert not [b for b in app.button if b.label in labels and not b.disabled]
        assert not app.get("file_uploader")
        class_mode.teacher = True
        app = open_page(page, **link)
        assert not any("only the teacher" in info.value for info in app.info), page


def train_example():
    app = open_page("train", data="one-bit-lab", mechanism="output")
    press_button(app, "Train")
    wait_until(app, lambda: not (app.progress or find_button(app, "Train").disabled))
    return app


@pytest.mark.parametrize(
    ("visit", "files"),
    [
        (lambda: open_page(data="one-bit-lab", mechanism="output"), 3),
        (lambda: open_page("compare", data="one-bit-lab"), 3),
        pytest.param(train_example, 2, marks=pytest.mark.slow),
        (lambda: open_page("papers", experiment="z16-generated"), 1),
    ],
    ids=["what if", "compare", "train", "papers"],
)
def test_in_a_class_files_are_made_for_the_teacher_alone(class_mode, visit, files):
    """A file costs the server seconds and megabytes."""
    assert len(visit().get("download_button")) == files
    class_mode.teacher = False
    assert not visit().get("download_button")


def test_what_a_page_does_not_offer_is_refused_by_the_server_too(class_mode):
    class_mode.teacher = False
    where = SimpleNamespace(private=False, folder=None)
    for call in (
        lambda: rows.start_command(where, "x", ["true"], {}),
        lambda: rows.cancel_runs(where, "x"),
        lambda: classroom.open_room(("Tea?",)),
        classroom.close_room,
    ):
        with pytest.raises(DpmcError, match="Only the teacher"):
            call()


def test_nothing_is_held_back_outside_class_mode(monkeypatch):
    monkeypatch.delenv("DPMC_CLASS", raising=False)
    assert open_page("data", way="upload").get("file_uploader")


# --- more phones than expected, and visitors ------------------------------------------------------


def test_more_phones_than_twice_the_class_are_let_in_one_by_one_or_all(class_mode):
    app = open_page("room")
    find_field(app, "Phones expected").set_value(2).run()
    press_button(app, "Open the room")
    press_button(app, "Ask the first question")
    room = classroom.get_room()

    def knock(phones):
        for k in phones:
            with suppress(core.PhoneWaiting):
                room.report(room.view().id, 0, f"{k:032x}", 1, f"address {k}")

    knock(range(4))
    app.run()
    assert not [b for b in app.button if "waiting" in b.label]
    knock(range(4, 7))
    app.run()
    labels = [b.label for b in app.button]
    assert labels.index("Lock") < labels.index("Let in 1 of 3 waiting")
    press_button(app, "Let in 1 of 3 waiting")
    assert room.view().waiting == 2
    knock(range(7))
    assert room.view().poll(0).reports == 5
    app.run()
    knock(range(7, 9))  # after the teacher has read it
    press_button(app, "Let in 2 of 2 waiting")
    assert room.view().waiting == 2
    knock(range(9))
    assert room.view().poll(0).reports == 7
    class_mode.teacher = False
    assert "waiting" not in " ".join(b.label for b in open_page("room").button)


def test_the_teacher_says_whether_visitors_may_train(class_mode):
    app = open_page("room")
    try:
        find_field(app, "Visitors may train on samples").set_value(False).run()
        assert not classroom.can_visitors_train()
        assert not find_field(app.run(), "Visitors may train on samples").value
        find_field(app, "Visitors may train on samples").set_value(True).run()
        assert classroom.can_visitors_train()
    finally:
        classroom._server.visitors = True
    class_mode.teacher = False
    assert not open_page("room").toggle
