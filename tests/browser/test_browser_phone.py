"""The phone's page in Chromium: what is drawn, what is kept, and what leaves the phone."""

import json
import math
import re
from urllib.parse import urlsplit

import numpy as np
import pytest
from scipy.stats import binom

from dpmc_lab.classroom import room as rooms
from dpmc_lab.sweep.presets import EPSILONS
from pages.ui import classroom
from tests.browser_helpers import serve_app
from tests.class_helpers import QUESTIONS, SECRET, open_asked_room, reset_rate_limits, serve_class
from tests.slow_helpers import mark_rest_slow

pytestmark = [pytest.mark.browser, pytest.mark.slow_unless_planted]

# A draw of 32 bits as the test wants it; how often it was asked for. Bytes, of tokens, are left.
FORCED = """draw => { const real = crypto.getRandomValues.bind(crypto); window.draws = 0;
  crypto.getRandomValues = array => array instanceof Uint32Array
    ? (window.draws += array.length, array.fill(draw)) : real(array); }"""
FLIP_THRESHOLD = rooms.flip_threshold(2.0)
LIE, TRUTH = 0, rooms.N_PHONE_DRAWS - 1


@pytest.fixture(scope="module")
def server():
    with serve_class() as address:
        yield address


@pytest.fixture
def room():
    reset_rate_limits()
    return open_asked_room()


def force_draw(page, draw):
    page.add_init_script(f"({FORCED})({draw})")


def record_traffic(page):
    """Record everything that leaves the page from now on: method, path, body."""
    requests = []
    page.on("request", lambda r: requests.append((r.method, urlsplit(r.url).path, r.post_data)))
    return requests


def press_button(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def send_answer(page, server, name):
    page.goto(server + "phone")
    press_button(page, name)
    wait_for_arrival(page)


def wait_for_arrival(page):
    page.get_by_text("It has arrived.").wait_for()


def list_reports(traffic):
    return [json.loads(body) for _, path, body in traffic if path == "/report"]


def read_text(page, id):
    return page.locator(f"#{id}").inner_text()


def read_memory(page):
    return json.loads(page.evaluate("localStorage.getItem('dpmc class')"))


def test_the_sum_of_epsilons_stays_whatever_the_server_says_of_its_room(page, server, room):
    send_answer(page, server, "Yes")
    assert "epsilon 2 in this room, and 2 on this phone" in read_text(page, "spent")
    new_room = open_asked_room()  # after a restart, or by the teacher
    page.get_by_text("This phone has spent epsilon 2 before").wait_for()
    press_button(page, "Yes")
    page.get_by_text("epsilon 2 in this room, and 4 on this phone").wait_for()
    wait_for_arrival(page)
    first_id = room.view().describe_for_phones()["room"]

    def claim_first_room(route):
        response = route.fetch()
        route.fulfill(response=response, json=response.json() | {"room": first_id})

    page.route("**/asking", claim_first_room)
    page.get_by_text("This phone has spent epsilon 4 before").wait_for()
    press_button(page, "No")
    page.get_by_text("epsilon 2 in this room, and 6 on this phone").wait_for()
    page.reload()
    page.get_by_text("epsilon 2 in this room, and 6 on this phone").wait_for()
    new_room.end()
    press_button(page, "Delete what this phone sent")
    page.get_by_text("This phone has spent epsilon 6 before").wait_for()
    assert read_memory(page) == {"room": "", "sent": {}, "spent": 6}
    page.reload()
    page.get_by_text("This phone has spent epsilon 6 before").wait_for()
    assert new_room.view().poll(0).reports == 1


@pytest.mark.usefixtures("room")
def test_what_an_older_page_has_stored_counts(page, server):
    sent = {"0": {"bit": 1, "epsilon": 2}, "1": {"bit": 0, "epsilon": 1}, "-1": {"epsilon": 0}}
    old = json.dumps({"room": "before", "token": "0" * 32, "sent": sent})
    page.goto(server + "phone")
    page.evaluate("old => localStorage.setItem('dpmc class', old)", old)
    page.reload()
    page.get_by_text("This phone has spent epsilon 3 before").wait_for()
    page.get_by_text("An answer costs epsilon 2, which makes 5 in all.").wait_for()
    press_button(page, "Yes")
    page.get_by_text("epsilon 2 in this room, and 5 on this phone").wait_for()


def test_a_phone_answers(page, server, room):
    page.set_viewport_size({"width": 320, "height": 640})
    force_draw(page, TRUTH)
    send_answer(page, server, "Yes")
    assert (read_text(page, "answered"), read_text(page, "sends")) == ("Yes", "Yes")
    assert "your answer" in read_text(page, "fell")
    spent = "1 answer at epsilon 2: epsilon 2 in this room, and 2 on this phone"
    assert spent in read_text(page, "spent")
    assert f"at most {math.ceil(1000 / (1 + math.exp(-2))) / 10} %" in read_text(page, "fold")
    poll = room.view().poll(0)
    assert (poll.yes, poll.reports) == (1, 1)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    room.ask(1)
    page.get_by_role("heading", name=QUESTIONS[1]).wait_for()
    press_button(page, "No")
    wait_for_arrival(page)
    spent = "2 answers at epsilon 2: epsilon 4 in this room, and 4 on this phone"
    assert spent in read_text(page, "spent")
    room.ask(1)
    page.get_by_text("Asked again (round 2)").wait_for()
    press_button(page, "No")
    page.get_by_text("3 answers at epsilon 2: epsilon 6 in this room, and 6 on").wait_for()
    wait_for_arrival(page)
    assert (room.view().poll(1).yes, room.view().poll(1).reports) == (0, 2)


def test_another_epsilon_is_shown_and_spent_and_the_way_back_draws_nothing(page, server, room):
    send_answer(page, server, "Yes")
    room.set_epsilon(1.0)
    assert "Here epsilon is 2" in read_text(page, "fold")
    room.press(1)
    page.get_by_role("heading", name=QUESTIONS[1]).wait_for()
    assert "Here epsilon is 1" in read_text(page, "fold")
    press_button(page, "No")
    page.get_by_text("2 answers: epsilon 3 in this room, and 3 on this phone").wait_for()
    wait_for_arrival(page)
    assert room.view().max_epsilon == pytest.approx(3, abs=1e-3)
    room._last_press = 0.0
    room.press(0)
    page.get_by_role("heading", name=QUESTIONS[0]).wait_for()
    wait_for_arrival(page)
    assert not page.get_by_role("button", name="Yes", exact=True).is_visible()
    assert "2 answers: epsilon 3 in this room, and 3 on this phone" in read_text(page, "spent")
    assert [len(asking.reports) for asking in room.view().askings] == [1, 1]
    assert room.view().connected == 1


def test_plain_http_in_a_network_is_enough(browser):
    """Where browsers withhold what they give to this machine's own pages and to TLS."""
    host, *_ = [*classroom._list_outgoing_addresses(), ""]
    if not host:
        pytest.skip("this machine has no address in a network")
    with serve_class(host=host) as server:
        room = open_asked_room()
        context = browser.new_context()
        page = context.new_page()
        send_answer(page, server, "Yes")
        assert not page.evaluate("isSecureContext")
        page.reload()
        wait_for_arrival(page)
        assert room.view().poll(0).reports == 1
        context.close()


@pytest.mark.parametrize(("name", "bit"), [("Yes", 1), ("No", 0)])
def test_the_raw_answer_never_leaves_a_phone_that_lies(page, server, room, name, bit):
    force_draw(page, LIE)
    traffic = record_traffic(page)
    send_answer(page, server, name)
    assert (read_text(page, "answered"), read_text(page, "sends")) == (name, ["Yes", "No"][bit])
    assert "the opposite" in read_text(page, "fell")
    (report,) = list_reports(traffic)
    assert report.keys() == {"room", "asking", "token", "bit"}
    assert (report["bit"], report["asking"], report["room"]) == (1 - bit, 0, room.view().id)
    assert re.fullmatch("[0-9a-f]{32}", report["token"])
    stored = page.evaluate("Object.values(localStorage)")
    (stored_report,) = (json.loads(value) for value in stored)
    assert stored_report["sent"] == {"0": {"bit": 1 - bit, "epsilon": 2}}
    assert stored_report.keys() == {"room", "token", "sent", "spent"}
    assert stored_report["spent"] == 0  # in earlier rooms
    assert page.context.cookies() == []
    assert {path for _, path, _ in traffic} == {"/phone", "/asking", "/report"}


@pytest.mark.usefixtures("room")
def test_the_same_bit_looks_the_same_whatever_was_answered(browser, server):
    """Yes that is told and No that is not: all that leaves is the same, but for the token."""
    traces = []
    for name, draw in (("Yes", TRUTH), ("No", LIE)):
        context = browser.new_context()
        page = context.new_page()
        force_draw(page, draw)
        sent = []
        page.on("request", lambda r, sent=sent: sent.append(r))
        send_answer(page, server, name)
        texts = []
        for request in sent:
            token = (
                json.loads(request.post_data)["token"] if request.method == "POST" else "no token"
            )
            headers = sorted(
                request.all_headers().items() - {("phone", request.headers.get("phone"))}
            )
            request_text = json.dumps([request.method, request.url, headers, request.post_data])
            texts.append(request_text.replace(token, "TOKEN"))
        traces.append([text for k, text in enumerate(texts) if k == 0 or text != texts[k - 1]])
        context.close()
    assert any('\\"bit\\":1' in text for text in traces[0])
    # How often it polls is up to the clock.
    distinct = [list(dict.fromkeys(trace)) for trace in traces]
    assert distinct[0] == distinct[1]


def test_a_reload_sends_the_same_report_and_draws_nothing(page, server, room):
    force_draw(page, LIE)
    traffic = record_traffic(page)
    send_answer(page, server, "Yes")
    assert page.evaluate("draws") == 1
    for _ in range(2):
        page.reload()
        wait_for_arrival(page)
        assert page.evaluate("draws") == 0
        assert read_text(page, "answered") == "only you know"
        assert not page.get_by_role("button", name="Yes", exact=True).is_visible()
    first, *repeats = list_reports(traffic)
    assert repeats == [first, first]
    assert room.view().poll(0).reports == 1


def test_a_second_tab_of_the_browser_draws_nothing(page, server, room):
    force_draw(page, LIE)
    second_page = page.context.new_page()
    force_draw(second_page, TRUTH)
    traffic = record_traffic(second_page)
    second_page.goto(server + "phone")
    second_page.get_by_role("button", name="No", exact=True).wait_for()
    send_answer(page, server, "No")
    press_button(second_page, "No")
    wait_for_arrival(second_page)
    assert second_page.evaluate("draws") == 0
    assert [report["bit"] for report in list_reports(traffic)] == [1]
    assert (room.view().poll(0).yes, room.view().poll(0).reports) == (1, 1)


def test_a_report_waits_in_the_phone_while_nobody_answers(page, server, room):
    force_draw(page, LIE)
    traffic = record_traffic(page)
    page.goto(server + "phone")
    page.get_by_role("button", name="Yes", exact=True).wait_for()
    page.context.set_offline(True)
    press_button(page, "Yes")
    page.get_by_text("It has not arrived yet").wait_for()
    assert room.view().poll(0).reports == 0
    stored = page.evaluate("Object.values(localStorage)")
    page.context.set_offline(False)
    wait_for_arrival(page)
    assert page.evaluate("draws") == 1
    assert page.evaluate("Object.values(localStorage)") == stored
    assert len({json.dumps(report) for report in list_reports(traffic)}) == 1
    assert room.view().poll(0).reports == 1


@pytest.mark.slow
def test_late_closed_and_over_are_said(page, server, room):
    room.ask(1)
    room.lock()
    page.goto(server + "phone")
    page.get_by_role("heading", name=QUESTIONS[1]).wait_for()  # late, and in time for this one
    page.get_by_text("The teacher has closed this question").wait_for()
    assert not page.get_by_role("button", name="Yes", exact=True).is_visible()
    room.lock(False)
    press_button(page, "Yes")
    wait_for_arrival(page)
    room.ask(2)
    page.get_by_role("heading", name=QUESTIONS[2]).wait_for()
    page.route("**/asking", lambda route: route.abort())  # it does not hear of what comes now
    room.lock()
    press_button(page, "No")
    page.get_by_text("closed this question; the report came too late").wait_for()
    page.unroute("**/asking")
    page.get_by_text("Wait here for the next one").wait_for()
    room.lock(False)
    wait_for_arrival(page)
    room.end()
    page.get_by_text("The class is over. Thank you.").wait_for()
    assert page.evaluate("localStorage.length") == 1
    press_button(page, "Delete what this phone sent")
    page.get_by_text("has deleted what it sent").wait_for()
    assert read_memory(page) == {"room": "", "sent": {}, "spent": 4}
    open_asked_room(questions=("Another?",))
    page.get_by_role("heading", name="Another?").wait_for()


def test_a_page_that_has_forgotten_a_room_does_not_answer_it_again(page, server, room):
    """The server was gone, its reports are not: a new token would spend a second time."""
    force_draw(page, LIE)
    send_answer(page, server, "Yes")
    page.evaluate("failed = GONE; show()")
    press_button(page, "Delete what this phone sent")
    with page.expect_response("**/asking"):
        pass
    page.get_by_text("has deleted what it sent").wait_for()
    page.wait_for_function("failed === 0")
    assert not page.get_by_role("button", name="Yes", exact=True).is_visible()
    page.evaluate("answer(1)")
    assert page.evaluate("draws") == 1
    assert read_memory(page) == {"room": "", "sent": {}, "spent": 2}
    assert room.view().poll(0).reports == 1


def test_a_browser_that_keeps_no_more_forgets_nothing_while_the_page_is_there(page, server, room):
    """It holds another room's memory, and takes no new one."""
    old = json.dumps({"room": "before", "token": "0" * 32, "sent": {"0": {"bit": 1, "epsilon": 2}}})
    page.add_init_script(
        f"localStorage.setItem('dpmc class', {json.dumps(old)});"
        "Storage.prototype.setItem = () => { throw 1; }"
    )
    traffic = record_traffic(page)
    send_answer(page, server, "Yes")
    page.get_by_text("does not let this page store anything").wait_for()
    assert page.get_by_text("it remembers what it sent").is_visible()  # and so long
    assert not page.locator("#remembers").is_visible()
    room.ask(1)
    page.get_by_role("heading", name=QUESTIONS[1]).wait_for()
    press_button(page, "No")
    page.get_by_text("2 answers at epsilon 2: epsilon 4 in this room, and 6 on").wait_for()
    wait_for_arrival(page)
    assert len({report["token"] for report in list_reports(traffic)}) == 1


@pytest.mark.usefixtures("room")
def test_a_blocked_storage_is_said_before_anything_is_answered(page, server):
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('blocked'); } })"
    )
    page.goto(server + "phone")
    page.get_by_role("button", name="Yes", exact=True).wait_for()
    assert page.locator("#unkept").is_visible()
    assert not page.locator("#remembers").is_visible()
    press_button(page, "No")
    wait_for_arrival(page)


@pytest.mark.usefixtures("room")
def test_without_javascript_a_phone_says_what_to_do_and_promises_nothing(browser, server):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(server + "phone")
    text = page.locator("main").inner_text()
    assert " ".join(classroom.PHONE_TEXTS["no_script"].split()) in " ".join(text.split())
    for hidden in ("Looking for", "at random", "remembers"):
        assert hidden not in text
    context.close()


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("root_size", [16, 32])
def test_a_small_phone_with_large_type_shows_all(page, server, root_size):
    """At 320 px and type of 100 and 200 %, nothing is cut off or wider than the screen."""
    page.set_viewport_size({"width": 320, "height": 640})
    page.add_init_script(
        "addEventListener('DOMContentLoaded', () =>"
        f" document.documentElement.style.fontSize = '{root_size}px')"
    )
    page.goto(server + "phone")
    wide = """() => [...document.querySelectorAll('main *')].filter(one => {
      if (!one.checkVisibility() || one.closest('.stage')) return false;
      const cut = one.scrollWidth > one.clientWidth + 1;
      return cut && getComputedStyle(one).display !== 'inline'
        || one.getBoundingClientRect().right > innerWidth;
    }).map(one => one.outerHTML)"""
    page.get_by_role("button", name="Yes", exact=True).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert page.evaluate(wide) == []
    send_answer(page, server, "Yes")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert page.evaluate(wide) == []


def test_a_phone_beyond_the_class_waits_and_joins_by_itself(page, server):
    reset_rate_limits()
    room = open_asked_room(expected=1)
    for token in ("0" * 32, "1" * 32):
        room.report(room.view().id, 0, token, 1)
    force_draw(page, LIE)
    traffic = record_traffic(page)
    page.goto(server + "phone")
    press_button(page, "Yes")
    page.get_by_text("waits to be let in").wait_for()
    assert (room.view().waiting, room.view().poll(0).reports) == (1, 2)
    page.reload()
    page.get_by_text("waits to be let in").wait_for()
    room.let_in(1)
    wait_for_arrival(page)
    assert (room.view().waiting, room.view().poll(0).reports) == (0, 3)
    assert len({json.dumps(report) for report in list_reports(traffic)}) == 1


@pytest.mark.usefixtures("room")
def test_before_and_after_a_class(page, server):
    classroom._server.replace_room(None)
    page.goto(server + "phone")
    page.get_by_text("No class is open").wait_for()
    new_room = rooms.Room(QUESTIONS)
    classroom._server.replace_room(new_room)
    page.get_by_text("The first question will appear here").wait_for()
    assert new_room.view().tested
    new_room.ask(0)
    press_button(page, "Yes")
    wait_for_arrival(page)
    token_before = page.evaluate("localStorage.getItem(KEY)")
    open_asked_room(questions=("Another?",))  # a new room, a new token
    page.get_by_role("heading", name="Another?").wait_for()
    press_button(page, "Yes")
    wait_for_arrival(page)
    token_after = page.evaluate("localStorage.getItem(KEY)")
    assert len({json.loads(stored)["token"] for stored in (token_before, token_after)}) == 2
    assert "1 answer at epsilon 2" in read_text(page, "spent")


@pytest.mark.parametrize(
    "change",
    [{"below": FLIP_THRESHOLD - 2}, {"epsilon": 1.0}, {"below": 0}, {"below": 1.5}, {"epsilon": 0}],
)
def test_a_phone_does_not_answer_a_server_that_asks_for_more(page, server, room, change):
    poll_text = json.dumps(room.view().describe_for_phones() | change)
    page.route("**/asking", lambda r: r.fulfill(body=poll_text, content_type="application/json"))
    page.goto(server + "phone")
    page.get_by_text("more of the truth than epsilon").wait_for()
    assert not page.get_by_role("button", name="Yes", exact=True).is_visible()
    page.evaluate("answer(1)")
    assert page.evaluate("localStorage.length") == 0


@pytest.mark.usefixtures("room")
def test_a_phone_wants_the_exact_threshold_at_every_epsilon(page, server):
    """From one draw less than a room's, which tells more, to the fair coin, which tells nothing."""
    page.goto(server + "phone")
    exact = [
        (e, rooms.flip_threshold(e)) for e in (*EPSILONS, *np.geomspace(0.1, 10, 500).tolist())
    ]
    for epsilon, threshold in exact:
        assert threshold == math.ceil(rooms.N_PHONE_DRAWS / (1 + math.exp(epsilon)))
    huge = [(e, 1) for e in (22.2, 25.0, 29.0, 100.0, 709.0, 1e3, 1e300)]
    table = [*exact, *huge]
    ends = [(-1, False), (0, True), (1, True), (rooms.N_PHONE_DRAWS, False), (0.5, False)]
    for offset, accepted in ends:
        rows = [[epsilon, threshold + offset] for epsilon, threshold in table]
        results = page.evaluate("rows => rows.map(([e, b]) => keepsItsWord(e, b))", rows)
        assert set(results) == {accepted}, offset
    half = rooms.N_PHONE_DRAWS // 2
    results = page.evaluate("half => [half - 1, half].map(b => keepsItsWord(0.1, b))", half)
    assert results == [True, False]


@pytest.mark.usefixtures("room")
def test_the_epsilon_that_is_shown_is_never_less_than_what_is_spent(page, server):
    page.goto(server + "phone")
    epsilons = [0.1, 0.15, 0.3, 1.1, 2.0, 2.3, 2.001, 2.3456, 1e-3, 29.001, 0.1 + 0.2, 2 * 3.3]
    displayed = [float(number) for number in page.evaluate("all => all.map(round)", epsilons)]
    assert all(e - 1e-8 <= s < e + 0.01 for e, s in zip(epsilons, displayed, strict=True))
    # where it rounds a trace away, the trace is not granted either
    trace = 2 + 9e-9
    threshold = math.ceil(rooms.N_PHONE_DRAWS / (1 + math.exp(trace)))
    assert page.evaluate("e => round(e)", trace) == "2"
    assert threshold < FLIP_THRESHOLD
    assert not page.evaluate("([e, b]) => keepsItsWord(e, b)", [trace, threshold])


HOSTILE = {
    "both": [{"epsilon": e, "below": b} for e in (22.0, 29.0, 1e3) for b in (0, -1, 0.5, None)],
    "epsilon": [None, "2", [2], {}, True, -2, 0, 0.1, 1.99, float("inf"), float("-inf")],
    "below": [
        None,
        str(FLIP_THRESHOLD),
        [FLIP_THRESHOLD],
        True,
        FLIP_THRESHOLD - 1,
        2**31,
        2**32,
        1e300,
        float("inf"),
    ],
    "asking": ["__proto__", "constructor", "0", 0.5, -1, [], {}, True, 2**53],
    "room": ["", None, 5, ["x"], {}],
    "question": [None, "", " \n", 7, ["Tea?"], {}],
    "again": [None, "1", -1, 0.5, {}],
    "all": ["null", "[]", "5", '"x"', "true", "{}"],
}


@pytest.mark.parametrize("field", mark_rest_slow(HOSTILE, 2))
def test_a_phone_draws_nothing_for_a_hostile_server(page, server, room, field):
    """It says why it does not answer, and neither draws nor keeps nor sends anything."""

    def fulfil_poll(route):
        body = value
        if field != "all":
            change = value if field == "both" else {field: value}
            body = json.dumps(room.view().describe_for_phones() | change).replace(
                "Infinity", "1e999"
            )
        route.fulfill(body=body, content_type="application/json")

    force_draw(page, TRUTH)
    broken = []
    page.on("pageerror", lambda error: broken.append(error))
    traffic = record_traffic(page)
    page.route("**/asking", fulfil_poll)
    for value in HOSTILE[field]:
        page.goto(server + "phone")
        page.get_by_text(re.compile("more of the truth than|does not understand")).wait_for()
        assert not page.get_by_role("button", name="Yes", exact=True).is_visible(), value
        for yes in (0, 1):
            page.evaluate("yes => answer(yes)", yes)
        assert page.evaluate("[draws, localStorage.length]") == [0, 0], value
    assert not list_reports(traffic)
    assert not broken
    assert room.view().poll(0).reports == 0


def test_questions_are_text(page, server):
    reset_rate_limits()
    open_asked_room(questions=("<img src=x onerror=alert(1)> & <b>you</b>?",))
    page.goto(server + "phone")
    page.get_by_role("heading", name="<img src=x onerror=alert(1)> & <b>you</b>?").wait_for()


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("answer", [0, 1])
def test_the_coin_is_the_law(page, server, answer):
    """At every edge of the draw; the opposite goes out for exactly `below` of 2^32 draws."""
    page.goto(server + "phone")
    counts = page.evaluate(
        """([edges, said, below]) => edges.map(u => {
          crypto.getRandomValues = array => array.fill(u);
          return drawn(said, below); })""",
        [
            [
                0,
                FLIP_THRESHOLD - 1,
                FLIP_THRESHOLD,
                2 * FLIP_THRESHOLD - 1,
                2 * FLIP_THRESHOLD,
                rooms.N_PHONE_DRAWS - 1,
            ],
            answer,
            FLIP_THRESHOLD,
        ],
    )
    assert counts == [1 - answer] * 2 + [answer] * 4


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_phone_lies_as_often_as_it_says(page, server, epsilon):
    """200,000 draws of the page's own function; false alarm: 1 in a million."""
    threshold, draws = rooms.flip_threshold(epsilon), 200_000
    page.goto(server + "phone")
    n_flips = page.evaluate(
        """([draws, below]) => { let lies = 0;
          for (let k = 0; k < draws; k++) {
            lies += drawn(k % 2, below) !== k % 2;
          }
          return lies; }""",
        [draws, threshold],
    )
    low, high = binom.interval(1 - 1e-6, draws, threshold / rooms.N_PHONE_DRAWS)
    assert low <= n_flips <= high


@pytest.mark.usefixtures("room")
def test_a_coin_that_does_not_lean_is_fair_whatever_was_answered(page, server):
    """50,000 draws each; false alarm: 1 in a million for each."""
    page.goto(server + "phone")
    for answer in (0, 1):
        yes = page.evaluate(
            """said => { let yes = 0, below = 2 ** 31;
              for (let k = 0; k < 50000; k++) yes += drawn(said, below);
              return yes; }""",
            answer,
        )
        low, high = binom.interval(1 - 1e-6, 50_000, 0.5)
        assert low <= yes <= high


def test_the_teachers_link_makes_a_session_the_teachers(browser, tmp_path):
    """On a server of Streamlit's; the secret is neither in the address nor open to scripts."""
    script = tmp_path / "own.py"
    script.write_text(
        "import streamlit as st\n"
        "from pages.ui import classroom\n"
        "if __name__ == '__main__':\n"
        "    st.write('teacher' if classroom.is_teacher() else 'stranger')\n"
        "else:\n"
        "    app = st.App(__file__, routes=classroom.build_routes(''))\n"
    )
    environment = {"DPMC_CLASS": "1", "DPMC_CLASS_SECRET": SECRET}
    with serve_app(tmp_path, script, **environment) as (server, _):
        context = browser.new_context()
        page = context.new_page()
        page.goto(server)
        page.get_by_text("stranger", exact=True).wait_for()
        page.goto(f"{server}teacher/{SECRET}")
        assert page.url == server + classroom.PAGE
        page.goto(server)
        page.get_by_text("teacher", exact=True).wait_for()
        assert SECRET not in page.evaluate("document.cookie")
        context.close()
