"""Connections that never become a request: uvicorn closes them, and everybody else is served."""

import asyncio
import base64
import errno
import logging
import socket
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection

import pytest
import uvicorn
from streamlit.web.server.starlette import starlette_server

from pages.ui import server

# Older versions of uvicorn use what websockets calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
WEBSOCKETS = starlette_server._get_websocket_protocol()  # of this version of uvicorn
HALF = b"GET / HTTP/1.1\r\nHost: x\r\nX-"
COMPLETE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
SLOW = COMPLETE.replace(b"/", b"/slow", 1)
UPGRADE = [b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13"]
UPGRADE += [b"Sec-WebSocket-Key: " + base64.b64encode(b"0123456789abcdef"), b"\r\n"]
WEBSOCKET = COMPLETE[:-2] + b"\r\n".join(UPGRADE)
BODY = COMPLETE.replace(b"GET /", b"POST /slow")[:-2] + b"Content-Length: 9\r\n\r\n1"


@contextmanager
def serve():
    """Serve with uvicorn, as Streamlit does, what waits at /slow: its port and what ends that."""
    finish = threading.Event()

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            server.guard_connections(asyncio.get_running_loop())
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
        elif scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            while (await receive())["type"] != "websocket.disconnect":
                pass
        else:
            while scope["path"] == "/slow" and not finish.is_set():
                await asyncio.sleep(0.02)
            headers = [(b"content-length", b"1")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"x"})

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        config = uvicorn.Config(app, log_config=None, access_log=False, ws=WEBSOCKETS)
        started = uvicorn.Server(config)
        thread = threading.Thread(target=started.run, args=([listener],))
        thread.start()
        try:
            while not started.started:
                assert thread.is_alive()
                time.sleep(0.01)
            yield listener.getsockname()[1], finish
        finally:
            finish.set()
            started.should_exit = True
            thread.join(60)


def connect(port, data=b""):
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(data)
    return connection


def is_closed(connection, seconds):
    """Return whether the other side closes within so many seconds; whatever it sends is read."""
    connection.settimeout(seconds)
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize("data", [b"", HALF, COMPLETE + HALF], ids=["nothing", "first", "second"])
def test_a_header_that_stays_incomplete_ends_its_connection(monkeypatch, data):
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.3)
    with serve() as (port, _), closing(connect(port, data)) as connection:
        begin = time.monotonic()
        if data:
            time.sleep(0.1)
            connection.sendall(b"a")  # which gives it no more time
        assert is_closed(connection, 3)  # uvicorn closes idle connections after 5
        assert time.monotonic() - begin >= 0.25


def test_a_complete_request_may_take_its_time(monkeypatch):
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.3)
    monkeypatch.setattr(server, "MAX_UNFINISHED", 2)
    with serve() as (port, finish):
        connections = [connect(port, data) for data in (SLOW, BODY, WEBSOCKET) for _ in range(3)]
        assert not any(is_closed(connection, 0.1) for connection in connections)
        finish.set()
        with closing(connect(port, SLOW)) as late:
            assert b" 200 " in late.recv(100)
        for connection in connections:
            connection.close()


def test_many_complete_requests_of_one_address_are_all_answered(monkeypatch):
    """Behind a proxy everybody has one address."""
    monkeypatch.setattr(server, "MAX_UNFINISHED", 8)
    with serve() as (port, _):
        connections = [connect(port, COMPLETE) for _ in range(200)]
        answers = [connection.recv(100)[:15] for connection in connections]
        for connection in connections:
            connection.close()
    assert answers == [b"HTTP/1.1 200 OK"] * 200


def test_half_open_connections_leave_room_for_everybody_else(monkeypatch, caplog):
    """300 of them, where the server can open 100 files."""
    resource = pytest.importorskip("resource", reason="Windows has no limit of files")
    monkeypatch.setattr(server, "MAX_UNFINISHED", 8)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with (
        serve() as (port, _),
        caplog.at_level(logging.ERROR, "asyncio"),
        ExitStack() as stack,
    ):
        connections = [stack.enter_context(socket.socket()) for _ in range(300)]
        room = max(connection.fileno() for connection in connections) + 101
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (room, limits[1]))
            for connection in connections:
                connection.settimeout(20)
                connection.connect(("127.0.0.1", port))
                connection.sendall(HALF)
            request = HTTPConnection("127.0.0.1", port, timeout=10)
            request.request("GET", "/")
            assert request.getresponse().read() == b"x"
            request.close()
            assert all(is_closed(connection, 10) for connection in connections[:-8])
            assert not any(is_closed(connection, 0.01) for connection in connections[-7:])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert "asyncio" not in {record.name for record in caplog.records}


def test_that_no_file_is_left_is_printed_once_a_minute(monkeypatch, capsys):
    monkeypatch.setattr(server, "_file_report_limit", server.classroom.RateLimit(1, 1 / 60))
    passed_on = []
    loop = type("Loop", (), {"default_exception_handler": lambda _, text: passed_on.append(text)})()
    for number in (errno.EMFILE, errno.ENFILE, errno.EMFILE):
        context = {"message": "socket.accept()", "exception": OSError(number, "")}
        server.report_loop_error(loop, context)
    assert capsys.readouterr().out.count("\n") == 1
    others = [{"message": "a"}, {"message": "b", "exception": OSError(errno.EPIPE, "")}]
    for context in others:
        server.report_loop_error(loop, context)
    assert passed_on == others


def test_the_server_may_open_more_files_than_a_shell_allows():
    resource = pytest.importorskip("resource", reason="Windows has no limit of files")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    expected = min(hard if hard >= 0 else server.MAX_FILES, server.MAX_FILES)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1000, expected - 1), hard))
        server.raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (expected, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        server.raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard  # and never lowers it
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_tls_handshake_has_the_time_of_a_header():
    """No protocol sees a connection before it."""
    seen = []

    class Loop:
        async def create_server(self, _, **options):
            seen.append(options)

        def set_exception_handler(self, _):
            pass

    for certificate in (None, object()):
        loop = Loop()
        server.guard_connections(loop)
        asyncio.run(loop.create_server(None, ssl=certificate))
    assert ["ssl_handshake_timeout" in options for options in seen] == [False, True]
    assert seen[1]["ssl_handshake_timeout"] == server.HEADER_SECONDS
