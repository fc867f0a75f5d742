"""Names and sites: raw handshakes against the app's own server, over HTTP and as a websocket."""

import asyncio
import base64
import html
import json
import re
import socket
from contextlib import ExitStack, suppress

import pytest

from pages.ui import classroom, door, server
from tests.browser_helpers import serve_app
from tests.class_helpers import SECRET

EVIL = "evil.example"


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """The app as it is started by hand, told one more name and one more address."""
    home = tmp_path_factory.mktemp("home")
    with serve_app(home, DPMC_HOSTS="lab.example, 203.0.113.7 [2001:db8::7] https://x/") as served:
        yield int(served[0].split(":")[2].strip("/"))
    assert "DPMC_HOSTS: 'https://x/' is not used" in (home / "server.log").read_text()


def send_request(port, *headers, path="/", version="1.1", address="127.0.0.1", websocket=False):
    """Return the status and the body of a request that holds exactly these headers."""
    lines = [f"GET {path} HTTP/{version}", *headers]
    if websocket:
        key = base64.b64encode(b"0123456789abcdef").decode()
        lines += ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
        lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Protocol: streamlit"]
    else:
        lines += ["Connection: close"]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as connection:
        connection.settimeout(120)
        connection.connect((address, port))
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        received = b""
        with suppress(TimeoutError, ConnectionResetError):
            while b" 101 " not in received.split(b"\r\n")[0] and (chunk := connection.recv(65536)):
                received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body.decode()


REQUESTS = [  # path, whether as a websocket
    *(("/", False), ("/train", False), ("/_stcore/health", False), ("/_stcore/host-config", False)),
    *(("/phone", False), ("/asking", False), ("/static/index.html", False), ("/no/such", False)),
    ("/_stcore/stream", True),
]


@pytest.mark.parametrize(("path", "websocket"), REQUESTS, ids=str)
def test_nothing_is_served_under_a_strangers_name(port, path, websocket):
    for name in (EVIL, f"{EVIL}:{port}"):
        for origin in ([], [f"Origin: http://{name}"]):
            request = {"path": path, "websocket": websocket}
            status, body = send_request(port, f"Host: {name}", *origin, **request)
            assert status == 421
            assert re.fullmatch(r"[A-Z].+\.\n", body)
            assert EVIL in body
            assert "DPMC_HOSTS" in body
    assert send_request(port, f"Host: 127.0.0.1:{port}", path=path, websocket=websocket)[0] != 421


LOCAL_HOSTS = (
    "127.0.0.1",
    "localhost",
    "LocalHost",
    "localhost.",
    "127.0.0.1.",
    "127.8.9.1",
    "[::1]",
)
LOCAL_HOSTS += (
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "lab.example",
    "LAB.example.",
    "203.0.113.7",
)
LOCAL_HOSTS += ("[2001:db8::7]", "[2001:DB8:0:0::7]")


@pytest.mark.slow
@pytest.mark.parametrize("host", LOCAL_HOSTS)
@pytest.mark.parametrize("websocket", [False, True])
def test_it_answers_to_its_own_names_with_and_without_a_port(port, host, websocket):
    expected_status = 101 if websocket else 200
    path = "/_stcore/stream" if websocket else "/_stcore/health"
    for name in (host, f"{host}:{port}", f"{host}:9999"):
        for origin in ([], [f"Origin: http://{name}"]):
            status = send_request(port, f"Host: {name}", *origin, path=path, websocket=websocket)
            assert status[0] == expected_status, (name, origin)


ELSE = (EVIL, "8.8.8.8", "192.168.77.77", "0.0.0.0", "[::]", "[2001:db8::8]", "[fe80::1]", "x")
ELSE += (f"localhost.{EVIL}", f"127.0.0.1.{EVIL}", "localhost..", "xlocalhost", "lab.example.org")
ELSE += ("x.lab.example", "127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "::1", "[::1", "::1]")
ELSE += ("[127.0.0.1]", "[localhost]", f"localhost@{EVIL}", f"{EVIL}#localhost", "localhost/x")
ELSE += ("localhost:80:80", "localhost:x", "localhost:123456", ":8501", "", ".", "localhost evil")
ELSE += ("localhost,evil.example", "http://localhost", "\xe4", "1" * 5000, "%6cocalhost", "*")


@pytest.mark.slow
@pytest.mark.parametrize("host", ELSE, ids=lambda host: host[:30])
def test_it_answers_to_no_other_name(port, host):
    for websocket in (False, True):
        path = "/_stcore/stream" if websocket else "/_stcore/health"
        status, body = send_request(port, f"Host: {host}", path=path, websocket=websocket)
        assert status == 421 or (status == 400 and "Invalid" in body), (status, body)
        assert len(body) < 400


def test_a_visit_has_one_host_and_a_path(port):
    host_header = f"Host: 127.0.0.1:{port}"
    assert send_request(port, host_header)[0] == 200
    for headers in (
        (),
        (host_header, f"Host: {EVIL}"),
        (f"Host: {EVIL}", host_header),
        (host_header, host_header),
    ):
        for version in ("1.0", "1.1"):
            for websocket in (False, True):
                request = {"version": version, "websocket": websocket}
                assert send_request(port, *headers, **request)[0] in (400, 421)
    for target in (f"http://{EVIL}/", f"http://{EVIL}/_stcore/health", f"http://127.0.0.1:{port}/"):
        for headers in ((host_header,), (f"Host: {EVIL}",)):
            assert send_request(port, *headers, path=target)[0] in (400, 421)


def test_the_apps_own_server_closes_the_oldest_of_too_many_unfinished_headers(port):
    """So uvicorn and Streamlit still call what `pages.ui.server.guard_connections` relies on."""
    with ExitStack() as stack:
        for k in range(server.MAX_UNFINISHED + 1):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
            if k == 0:
                oldest = connection
        oldest.settimeout(5)
        with suppress(ConnectionResetError):
            assert oldest.recv(1) == b""
        assert send_request(port, f"Host: 127.0.0.1:{port}", path="/_stcore/health")[0] == 200


@pytest.mark.parametrize("websocket", [False, True])
def test_the_page_of_another_site_is_not_answered(port, websocket):
    host, path = f"127.0.0.1:{port}", "/_stcore/stream" if websocket else "/_stcore/health"
    foreign_origins = (
        f"http://{EVIL}",
        "null",
        "",
        "http://[",
        host,
        f"ftp://{host}",
        "http://127.0.0.1",
    )
    foreign_origins += (f"http://localhost:{port}", "http://127.0.0.1:1", f"http://{host}.{EVIL}")
    foreign_origins += (f"http://{host}@{EVIL}", "file://", f"http://{host}/", "http://lab.example")
    for origin in foreign_origins:
        headers = (f"Host: {host}", f"Origin: {origin}")
        status, body = send_request(port, *headers, path=path, websocket=websocket)
        assert (status, "DPMC_HOSTS" in body) == (403, True), origin
    two = f"Origin: http://{host}", f"Origin: http://{EVIL}"
    for origins in (two, two[::-1]):
        actual_status = send_request(
            port, f"Host: {host}", *origins, path=path, websocket=websocket
        )
        assert actual_status[0] in (400, 403)
    for scheme in ("http", "https"):  # a proxy may have taken TLS off
        headers = (f"Host: {host}", f"Origin: {scheme}://{host}")
        actual_status = send_request(port, *headers, path=path, websocket=websocket)
        assert actual_status[0] == (101 if websocket else 200)


@pytest.mark.slow
@pytest.mark.skipif(
    not classroom._list_outgoing_addresses(), reason="this machine has no address in a network"
)
def test_shown_to_a_network_it_answers_to_the_machines_addresses_there(tmp_path):
    (address,) = classroom._list_outgoing_addresses()
    environment = {"DPMC_CLASS": "1", "DPMC_CLASS_SECRET": SECRET}
    environment |= {
        "DPMC_CLASS_URL": "https://class.example/x",
        "STREAMLIT_SERVER_ADDRESS": "0.0.0.0",
    }
    with serve_app(tmp_path, **environment) as (server, _):
        port = int(server.split(":")[2].strip("/"))
        for name, request_address, status in (
            (address, address, 200),
            ("0.0.0.0", "127.0.0.1", 200),  # what it prints where it is bound to all by hand
            ("class.example", address, 200),
            (address, "127.0.0.1", 421),  # it did not arrive there
            (EVIL, address, 421),
        ):
            assert (
                send_request(port, f"Host: {name}:{port}", address=request_address)[0] == status
            ), name


@pytest.mark.parametrize(
    ("bound", "host"), [("my.lan", "MY.lan"), ("::", "[::]"), ("::1", "[::1]")]
)
def test_it_answers_to_the_address_it_was_bound_to(monkeypatch, bound, host):
    monkeypatch.setattr(door.st, "get_option", {"server.address": bound}.get)
    assert pass_guard(host) == []
    assert pass_guard("my.wan")[0]["status"] == 421
    assert pass_guard("[2001:db8::5]", address="2001:db8::5%eth0") == []
    assert pass_guard("192.168.3.4", address="::ffff:192.168.3.4") == []
    assert pass_guard("192.168.3.4", address=None)[0]["status"] == 421
    monkeypatch.setenv("DPMC_CLASS_URL", "https://class.example")
    assert pass_guard("class.example")[0]["status"] == 421  # no class is on


def test_a_server_that_cannot_answer_a_websocket_closes_it():
    assert pass_guard(EVIL, "websocket")[0]["type"] == "websocket.close"


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_the_door_by_itself(monkeypatch, kind):
    """The same without a server around it, and what no server would pass on."""
    monkeypatch.setenv("DPMC_HOSTS", "lab.example, 203.0.113.7 [2001:db8::7]")
    for host in LOCAL_HOSTS:
        assert pass_guard(host, kind, origins=(f"https://{host}",)) == [], host
    for host in (*ELSE, *(f"{host}, {EVIL}" for host in LOCAL_HOSTS)):
        assert pass_guard(host, kind), host
    for origin in (f"http://{EVIL}", "null", "", "localhost", "http://localhost:1"):
        assert pass_guard("localhost", kind, origins=(origin,)), origin
        assert pass_guard("localhost", kind, origins=("http://localhost", origin)), origin


@pytest.mark.parametrize("app_headers", [[], [(b"content-security-policy", b"default-src 'none'")]])
def test_no_response_may_be_shown_in_a_frame_of_another_site(app_headers):
    """Whatever else it is allowed; browsers obey every such header."""

    async def respond(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": app_headers})
        await send({"type": "http.response.body", "body": b"x"})

    expected = (b"content-security-policy", b"frame-ancestors 'self'")
    start, body = pass_guard("localhost", app=respond)
    assert start["headers"] == [*app_headers, expected]
    assert body["body"] == b"x"
    assert expected in pass_guard(EVIL)[0]["headers"]


def test_no_site_around_the_app_may_give_it_orders(port):
    """Streamlit obeys pages of its own hosting service where the list is left to it."""
    own_host = f"Host: 127.0.0.1:{port}"
    status, body = send_request(port, own_host, path="/_stcore/host-config")
    assert (status, json.loads(body)["allowedOrigins"]) == (200, [])


def test_a_browser_is_refused_with_a_page_and_everything_else_with_a_line():
    for host in (EVIL, "<b>&amp;</b>"):
        start, body = pass_guard(host, accept=b"text/html,application/xhtml+xml,*/*;q=0.8")
        assert (start["status"], dict(start["headers"])[b"content-type"][:9]) == (421, b"text/html")
        assert dict(start["headers"])[b"cache-control"] == b"no-store"
        page = html.unescape(body["body"].decode())
        assert f"{host!r}" in page
        assert "DPMC_HOSTS" in page
        assert b"<b>" not in body["body"]
        line = pass_guard(host)[1]["body"].decode()
        assert line.strip() in page
        assert line.count("\n") == 1


def test_a_refusal_is_written_down_once_and_nobody_fills_the_log(capsys):
    visited = door.HostGuard(None)
    for host in (EVIL, EVIL, "a\nb"):
        assert pass_guard(host, visited=visited)
    assert [line[:8] for line in capsys.readouterr().out.splitlines()] == ["Refused:"] * 2
    for k in range(300):
        assert pass_guard(f"{k}.example", visited=visited)
    assert len(capsys.readouterr().out.splitlines()) == door.MAX_LOGGED - 2


async def ignore_request(scope, receive, send):
    pass


def pass_guard(
    host, kind="http", address="127.0.0.1", origins=(), app=ignore_request, accept=b"", visited=None
):
    """Return what a visitor is sent: nothing if an app that sends nothing is reached."""

    async def send(message):
        sent.append(message)

    sent = []
    server = None if address is None else (address, 8501)
    headers = [(b"host", host.encode("latin-1")), *((b"origin", o.encode()) for o in origins)]
    headers.append((b"accept", accept))
    scope = {"type": kind, "path": "/", "headers": headers, "server": server}
    asyncio.run((visited or door.HostGuard(app))(scope, None, send))
    return sent
