"""A class over HTTP: what phones are told, which reports are taken, and what strangers may not."""

import asyncio
import json
import re
from functools import partial
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from dpmc_core.errors import InvalidSetting
from dpmc_lab.classroom.room import MAX_PHONES, flip_threshold
from pages.ui import classroom, jobs
from tests.browser_helpers import serve_app
from tests.class_helpers import (
    QUESTIONS,
    SECRET,
    Phone,
    open_asked_room,
    reset_rate_limits,
    run_concurrently,
    send_request,
    serve_class,
)
from tests.waiting import PATIENCE_SECONDS

TOKEN = "0123456789abcdef" * 2


@pytest.fixture(scope="module")
def server():
    with serve_class() as address:
        yield address


@pytest.fixture(autouse=True)
def _fresh():
    reset_rate_limits()


def parse_answer(answer):
    """Return the status and the one sentence of a refusal."""
    status, body = answer
    assert body.keys() == {"error"}
    assert re.fullmatch(r"[A-Z].+\.", body["error"])
    return status, body["error"]


# --- phones ---------------------------------------------------------------------------------------


def test_thirty_phones_answer_and_nothing_counts_twice(server):
    room = open_asked_room()
    phones = [Phone(server, k) for k in range(30)]
    answers = run_concurrently(
        *(partial(phone.send_report, k % 3 == 0) for k, phone in enumerate(phones))
    )
    assert [parse_answer(answer)[0] for answer in answers] == [400] * 30  # True is no bit
    answers = run_concurrently(
        *(partial(phone.send_report, int(k % 3 == 0)) for k, phone in enumerate(phones))
    )
    assert answers == [(200, {"receipt": "new"})] * 30
    answers = run_concurrently(
        *(partial(phone.send_report, int(k % 3 == 0)) for k, phone in enumerate(phones))
    )
    assert answers == [(200, {"receipt": "again"})] * 30
    poll = room.view().poll(0)
    assert (poll.yes, poll.reports) == (10, 30)
    status, message = parse_answer(phones[0].send_report(0))
    assert (status, "first report counts" in message) == (409, True)

    room.lock()
    assert not phones[0].fetch_question()["open"]
    late_phone = Phone(server, 99)
    assert parse_answer(late_phone.send_report(1))[0] == 409
    # It had arrived: a reload may ask.
    assert phones[0].send_report(1) == (200, {"receipt": "again"})

    room.ask(1)
    # Whoever comes late sees what is asked now.
    assert late_phone.fetch_question()["question"] == QUESTIONS[1]
    status, message = parse_answer(late_phone.send_report(1, asking=0))
    assert (status, "over" in message) == (409, True)
    assert late_phone.send_report(1) == (200, {"receipt": "new"})
    assert [room.view().poll(k).reports for k in range(3)] == [30, 1, 0]


def test_two_hundred_phones_at_once_and_none_is_lost(server):
    room = open_asked_room()

    def phone(k):
        client = Phone(server, k)
        return (
            client.fetch_question()["question"],
            client.send_report(k % 2),
            client.fetch_question()["open"],
        )

    results = run_concurrently(*(partial(phone, k) for k in range(200)))
    assert results == [(QUESTIONS[0], (200, {"receipt": "new"}), True)] * 200
    poll = room.view().poll(0)
    assert (poll.yes, poll.reports) == (100, 200)


def test_a_phone_is_told_what_it_may_know_and_is_noticed(server):
    room = open_asked_room(epsilon=1.0)
    assert not room.view().tested
    assert send_request(server, "asking") == (
        200,
        json.loads(json.dumps(room.view().describe_for_phones())),
    )
    assert send_request(server, "asking")[1]["below"] == flip_threshold(1.0)
    assert room.view().tested


def test_without_a_room_phones_are_told(server):
    open_asked_room()
    classroom._server.replace_room(None)
    assert parse_answer(send_request(server, "asking"))[0] == 404
    report = {"room": "x", "asking": 0, "token": TOKEN, "bit": 1}
    assert parse_answer(send_request(server, "report", report))[0] == 404


def test_a_room_that_is_replaced_takes_no_more(server):
    old = open_asked_room()
    phone = Phone(server, 1)
    old_room = phone.fetch_question()["room"]
    open_asked_room()
    status, message = parse_answer(phone.send_report(1, room=old_room))
    assert (status, "another room" in message) == (409, True)
    assert old.view().ended


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"", "application/json", 400),
        (b"no", "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"[" * 1000, "application/json", 400),
        (b"[1, 2]", "application/json", 400),
        (b"null", "application/json", 400),
        (b'{"room": "x", "asking": 0, "bit": 1}', "application/json", 400),
        (
            b'{"room": "x", "asking": 0, "token": "x", "bit": 1, "answer": 1}',
            "application/json",
            400,
        ),
        (b'{"room": {}, "asking": 0, "token": "x", "bit": 1}', "application/json", 409),
        (b'{"room": "x", "asking": 0, "token": "x", "bit": 1}', "application/json", 409),
        (b'{"room": "x"' + b" " * 1024 + b"}", "application/json", 413),
        (b"x" * 2_000_000, "application/json", 413),
        (b"room=x&asking=0&token=x&bit=1", "application/x-www-form-urlencoded", 415),
        (b'{"room": "x", "asking": 0, "token": "x", "bit": 1}', "text/plain", 415),
        (b"{}", "", 415),
    ],
    ids=lambda value: str(value)[:40],
)
def test_junk_is_refused_in_a_sentence(server, body, kind, status):
    room = open_asked_room()
    try:
        assert (
            parse_answer(send_request(server, "report", body, **{"Content-Type": kind}))[0]
            == status
        )
    except (BrokenPipeError, ConnectionResetError):  # it was told before it had said all
        assert len(body) > classroom.MAX_REPORT_BYTES
    assert room.view().poll(0).reports == 0


@pytest.mark.parametrize(
    "change",
    [{"token": TOKEN[:-1]}, {"token": TOKEN.upper()}, {"bit": 2}, {"bit": "1"}, {"asking": "0"}],
    ids=str,
)
def test_what_is_no_report_is_refused(server, change):
    room = open_asked_room()
    assert parse_answer(Phone(server, 1).send_report(**({"bit": 1} | change)))[0] == 400
    assert room.view().poll(0).reports == 0


def test_a_report_in_pieces_has_the_same_limit(server):
    open_asked_room()
    host = server.removeprefix("http://").rstrip("/")
    for chunks, status in ([b" " * 600] * 3, 413), ([b"n", b"o"], 400):
        connection = HTTPConnection(host, timeout=PATIENCE_SECONDS)
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/report", iter(chunks), headers, encode_chunked=True)
        answer = connection.getresponse()
        assert (answer.status, "error" in json.loads(answer.read())) == (status, True)
        connection.close()


def test_a_report_that_never_ends_is_not_waited_for(server, monkeypatch):
    open_asked_room()
    monkeypatch.setattr(classroom, "REPORT_SECONDS", 0.2)
    connection = HTTPConnection(server.split("/")[2], timeout=20)
    connection.putrequest("POST", "/report")
    for name, value in (("Content-Type", "application/json"), ("Content-Length", "9")):
        connection.putheader(name, value)
    connection.endheaders(b"{")
    assert connection.getresponse().status == 400
    connection.close()


def test_beyond_twice_the_class_phones_wait_for_the_teachers_nod(server):
    room = open_asked_room(expected=2)
    phones = [Phone(server, k) for k in range(7)]
    answers = [phone.send_report(1) for phone in phones]
    assert answers[:4] == [(200, {"receipt": "new"})] * 4
    for status, message in answers[4:]:
        assert (status, message["waits"]) == (409, True)
        assert re.fullmatch(r"[A-Z].+\.", message["error"])
    assert (room.view().waiting, room.view().poll(0).reports) == (3, 4)
    room.let_in(2)
    assert [phone.send_report(1)[0] for phone in phones] == [200] * 6 + [409]
    assert (room.view().waiting, room.view().poll(0).reports) == (1, 6)


# --- limits ---------------------------------------------------------------------------------------


def test_an_address_has_a_burst_and_then_a_pace():
    limit = classroom.RateLimit(burst=3, rate=2)
    assert [limit.allows("a", 0.0) for _ in range(5)] == [True] * 3 + [False] * 2
    assert limit.allows("b", 0.0)
    assert [limit.allows("a", 0.5) for _ in range(2)] == [True, False]
    assert [limit.allows("a", 100.0) for _ in range(4)] == [True] * 3 + [False]


def test_addresses_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(classroom.RateLimit, "MAX_ADDRESSES", 3)
    limit = classroom.RateLimit(burst=1, rate=0)
    assert all(limit.allows(str(k), 0.0) for k in range(5))
    assert len(limit._left) == 3
    assert not limit.allows("4", 0.0)
    assert limit.allows("0", 0.0)  # forgotten


def test_a_full_room_behind_one_address_can_poll_and_answer():
    """Every phone asks every two seconds, and reports in the same moment."""
    limit = classroom._phone_limit
    assert all(limit.allows("school", float(2 * k)) for k in range(5) for _ in range(MAX_PHONES))
    assert all(limit.allows("school", 8.0) for _ in range(MAX_PHONES))


def test_who_asks_too_often_is_told(server, monkeypatch):
    open_asked_room()
    for name, value in (("_burst", 2), ("_rate", 0)):
        monkeypatch.setattr(classroom._phone_limit, name, value)
    answers = [send_request(server, "asking") for _ in range(4)]
    assert [status for status, _ in answers[:2]] == [200, 200]
    assert parse_answer(answers[3])[0] == 429


# --- the teacher ----------------------------------------------------------------------------------


def request_page(server, path):
    """Return status and headers without following; values of one name are joined by commas."""
    host, _, base = server.removeprefix("http://").partition("/")
    connection = HTTPConnection(host, timeout=PATIENCE_SECONDS)
    connection.request("GET", f"/{base}{path}")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, {name.lower(): answer.getheader(name) for name in answer.headers}


def test_the_teachers_link_leads_to_a_page_that_may_be_projected(server):
    status, headers = request_page(server, f"teacher/{SECRET}")
    assert (status, headers["location"]) == (303, f"../{classroom.PAGE}")
    cookie = {attribute.strip().lower() for attribute in headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} == cookie
    assert headers["set-cookie"].startswith(f"{classroom.get_cookie_name()}={SECRET};")


def test_two_classes_of_one_machine_have_a_teacher_each(monkeypatch):
    """A browser sends the cookies of one port to every other port of the same host."""
    monkeypatch.setenv("DPMC_CLASS", "1")
    cookies = {}
    monkeypatch.setattr(classroom.st, "context", type("Browser", (), {"cookies": cookies}))
    for port, other_port in ((8501, 8502), (8502, 8501)):
        monkeypatch.setattr(classroom.st, "get_option", {"server.port": port}.get)
        cookies[classroom.get_cookie_name()] = classroom.get_teacher_secret()
        assert classroom.is_teacher()
        monkeypatch.setattr(classroom.st, "get_option", {"server.port": other_port}.get)
        cookies[classroom.get_cookie_name()] = "another secret"  # of the class at the other port
        monkeypatch.setattr(classroom.st, "get_option", {"server.port": port}.get)
        assert classroom.is_teacher()


@pytest.mark.parametrize("wrong_secret", ["x", SECRET[:-1], SECRET + "x", SECRET.upper(), "%C3%A4"])
def test_a_wrong_secret_is_refused(server, wrong_secret):
    status, headers = request_page(server, f"teacher/{wrong_secret}")
    assert (status, "set-cookie" in headers) == (403, False)
    assert parse_answer(send_request(server, f"teacher/{wrong_secret}"))[0] == 403


def test_secrets_cannot_be_tried_one_after_the_other(server):
    tried = [request_page(server, f"teacher/{k}")[0] for k in range(15)]
    assert tried[:10] == [403] * 10
    assert tried[-1] == 429
    assert request_page(server, f"teacher/{SECRET}")[0] == 303  # nobody locks the teacher out
    assert request_page(server, "teacher/wrong")[0] == 429


def test_under_a_base_path_everything_moves_with_it():
    with serve_class(base="/lab") as server:
        open_asked_room()
        assert send_request(server, "asking")[0] == 200
        status, headers = request_page(server, f"teacher/{SECRET}")
        assert (status, headers["location"]) == (303, f"../{classroom.PAGE}")
        assert "path=/lab" in headers["set-cookie"].lower().split("; ")


@pytest.mark.parametrize(("provided", "used"), [("", False), ("short", False), (SECRET, True)])
def test_a_secret_is_new_at_every_start_unless_it_is_given(monkeypatch, capsys, provided, used):
    monkeypatch.setenv("DPMC_CLASS_SECRET", provided)
    first, second = (classroom.get_teacher_secret.__wrapped__() for _ in range(2))
    assert min(len(first), len(second)) >= 16
    assert (first == second == provided) == used
    assert ("DPMC_CLASS_SECRET" in capsys.readouterr().out) == (provided == "short")


def test_strangers_open_no_room(monkeypatch):
    monkeypatch.setenv("DPMC_CLASS", "1")
    monkeypatch.setattr(classroom.st, "context", type("Nobody", (), {"cookies": {}}))
    assert not classroom.is_teacher()
    assert classroom.get_worker_slots() is jobs.VISITOR_SLOTS
    switch = partial(classroom.allow_visitor_training, is_allowed=False)
    for act in (partial(classroom.open_room, QUESTIONS), classroom.close_room, switch):
        with pytest.raises(classroom.NotTheTeacher):
            act()
    cookies = {classroom.get_cookie_name(): classroom.get_teacher_secret()}
    monkeypatch.setattr(classroom.st, "context", type("Teacher", (), {"cookies": cookies}))
    assert classroom.is_teacher()
    assert classroom.get_worker_slots() is jobs.TRAINING_SLOTS
    assert classroom.open_room(QUESTIONS) is classroom.get_room()
    classroom.close_room()
    assert classroom.get_room() is None


def test_outside_class_mode_each_session_has_its_own_room(monkeypatch):
    monkeypatch.delenv("DPMC_CLASS", raising=False)
    monkeypatch.setattr(classroom.st, "session_state", {})
    assert classroom.is_teacher()
    new_room = classroom.open_room(QUESTIONS)
    assert classroom.get_room() is new_room
    assert classroom._server.room is None
    with pytest.raises(InvalidSetting):
        classroom.open_room(())
    assert classroom.get_room() is new_room


# --- what surrounds the app -----------------------------------------------------------------------


def pass_guard(kind, path, *headers):
    """Return what reaches the app behind the guard, and what is sent instead."""

    async def app(scope, receive, send):  # noqa: ARG001
        reached.append(scope["path"])

    async def send(message):
        sent.append(message)

    reached, sent = [], []
    scope = {"type": kind, "path": path, "method": "PUT", "headers": headers}
    asyncio.run(classroom.UploadGuard(app)(scope, None, send))
    return reached, sent


def test_nobody_but_the_teacher_uploads(monkeypatch):
    monkeypatch.delenv("DPMC_CLASS", raising=False)
    path = "/lab/_stcore/upload_file/session/file"
    name = classroom.get_cookie_name()
    cookie = b"cookie", f"a=b; {name}={classroom.get_teacher_secret()}".encode()
    wrong = b"cookie", f"{name}=wrong".encode()
    assert pass_guard("http", path, wrong)[0] == [path]
    monkeypatch.setenv("DPMC_CLASS", "1")
    for headers in ((), (wrong,)):
        reached, sent = pass_guard("http", path, *headers)
        assert (reached, sent[0]["status"]) == ([], 403)
    assert pass_guard("http", path, cookie)[0] == [path]
    assert pass_guard("http", "/_stcore/health")[0] == ["/_stcore/health"]


def test_a_server_without_a_class_says_so(server, monkeypatch):
    open_asked_room()
    monkeypatch.delenv("DPMC_CLASS")
    report = {"room": "x", "asking": 0, "token": TOKEN, "bit": 1}
    for path, body in (("phone", None), ("asking", None), ("teacher/x", None), ("report", report)):
        assert parse_answer(send_request(server, path, body))[0] == 404


def test_the_phones_page_is_small_whole_and_fetches_nothing(server):
    page, policy = classroom.build_phone_page()
    assert len(page.encode()) < 30_000
    assert " ".join(classroom.PHONE_TEXTS["honest"].split()) in " ".join(page.split())
    for word in ("//", "src=", "@import", "url("):
        stripped = re.sub(r"(?m)(^|\s)// .*$", "", page).replace("data:,", "")
        assert word not in stripped, word
    for word in ("subtle", "randomUUID", "clipboard", "serviceWorker", "innerHTML", "eval", "%("):
        assert word not in page, word
    status, headers = request_page(server, "phone")
    assert (status, headers["cache-control"]) == (200, "no-store")
    assert headers["content-security-policy"] == f"{policy}, frame-ancestors 'self'"  # both hold
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; connect-src 'self'")


# --- the start ------------------------------------------------------------------------------------


def test_phones_are_sent_where_they_can_come(monkeypatch):
    options = {"server.address": "0.0.0.0", "server.port": 8501, "server.baseUrlPath": "/lab/"}
    monkeypatch.setattr(classroom.st, "get_option", options.get)
    monkeypatch.setattr(classroom, "_list_outgoing_addresses", lambda: ["10.1.2.3"])
    monkeypatch.setattr(
        classroom, "_list_hostname_addresses", lambda: pytest.fail("it may wait for seconds")
    )
    assert classroom.get_phone_link() == "http://10.1.2.3:8501/lab/phone"
    options["server.sslCertFile"] = "cert.pem"
    assert classroom.get_phone_link() == "https://10.1.2.3:8501/lab/phone"
    monkeypatch.setenv("DPMC_CLASS_URL", "https://class.example/")
    assert classroom.get_phone_link() == "https://class.example/phone"
    monkeypatch.delenv("DPMC_CLASS_URL")
    monkeypatch.setattr(classroom, "_list_outgoing_addresses", list)
    monkeypatch.setattr(classroom, "_list_hostname_addresses", lambda: ["127.0.1.1", "10.9.9.9"])
    assert classroom._find_local_address() == "10.9.9.9"
    monkeypatch.setattr(classroom, "_list_hostname_addresses", list)
    assert classroom._find_local_address() == "127.0.0.1"
    options["server.address"] = "10.5.5.5"
    assert classroom._find_local_address() == "10.5.5.5"


@pytest.mark.parametrize(
    ("text", "message"),
    [("Tea?\n\n Coffee? \n", ""), ("", "0"), ("a\n" * 9, "9"), (None, "No such")],
)
@pytest.mark.parametrize("size", ["", "1", "501", "many"])
def test_prepared_questions_open_a_room(monkeypatch, capsys, tmp_path, text, message, size):
    monkeypatch.setenv("DPMC_CLASS_SIZE", size)
    message = message or {"501": "501", "many": "DPMC_CLASS_SIZE"}.get(size, "")
    file = tmp_path / "questions.txt"
    if text is not None:
        file.write_text(text)
    monkeypatch.setenv("DPMC_CLASS_QUESTIONS", str(file))
    monkeypatch.setenv("DPMC_CLASS", "1")
    try:
        classroom.start_class()
        output, room = capsys.readouterr().out, classroom.get_room()
        assert room is None or room.view().describe_for_phones()["open"]
    finally:
        classroom._server.replace_room(None)
    assert classroom.get_phone_link() in output
    assert f"/teacher/{classroom.get_teacher_secret()}" in output
    if message:
        assert room is None
        explanation = output.split("No room is open yet")[1]
        assert message in explanation or size in explanation
    else:
        assert room.view().questions == ("Tea?", "Coffee?")
        assert room._n_places == 2 * int(size or 30)


@pytest.mark.slow
def test_a_class_on_the_apps_own_server(tmp_path):
    """The whole app around it: what it tells its starter, phones, strangers, and what it logs."""
    questions = tmp_path / "questions.txt"
    questions.write_text("\n".join(QUESTIONS))
    environment = {"DPMC_CLASS_SECRET": SECRET, "DPMC_CLASS_QUESTIONS": str(questions)}
    with serve_app(tmp_path, DPMC_CLASS="1", **environment) as (server, process):
        log = (tmp_path / "server.log").read_text()
        assert f"{server}phone" in log
        assert f"{server}teacher/{SECRET}" in log
        answers = run_concurrently(
            *(partial(Phone(server, k).send_report, k % 2) for k in range(30))
        )
        assert answers == [(200, {"receipt": "new"})] * 30
        assert parse_answer(Phone(server, 3).send_report(0))[0] == 409
        assert parse_answer(
            send_request(server, "report", b"x" * 5000, **{"Content-Type": "application/json"})
        )
        assert request_page(server, "teacher/wrong")[0] == 403
        assert request_page(server, f"teacher/{SECRET}")[0] == 303
        assert "link" in request_page(server, "train")[1]
        assert "link" not in request_page(server, "phone")[1]  # no drawing code ahead
        name = f"dpmc_teacher_{urlsplit(server).port}"
        for cookie, status in (("", 403), (f"{name}={SECRET}", 403)):
            connection = HTTPConnection(server.split("/")[2], timeout=PATIENCE_SECONDS)
            connection.request("PUT", "/_stcore/upload_file/a/b", b"x", {"Cookie": cookie})
            answer = connection.getresponse()
            has_teacher_message = b"only the teacher" in answer.read()
            # behind the guard it is Streamlit that asks for its own token
            assert (answer.status, has_teacher_message) == (status, not cookie)
            connection.close()
        process.terminate()
        process.wait(60)
        after = (tmp_path / "server.log").read_text().removeprefix(log)
    assert "Traceback" not in after
    for secret_text in ("127.0.0.1", "report", "token", f"{3:032x}", SECRET, "wrong"):
        assert secret_text not in after, secret_text
