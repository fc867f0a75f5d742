"""Serve a class: the one room of this server, permissions, and the address for phones.

Class mode (`make class`) serves a network: whoever has not opened the teacher's link can look at
everything and change nothing. Outside class mode the app listens on this machine only. Everybody
there is the teacher, and each session has a room of its own, for hands and simulated phones.
"""

from __future__ import annotations

import asyncio
import hmac
import html
import io
import json
import os
import re
import secrets
import socket
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import streamlit as st
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dpmc_core.errors import DpmcError, parse_number
from dpmc_lab.classroom import CLASS_SIZE, EPSILON, MAX_PHONES, PHONE_TEXTS
from dpmc_lab.views.text import CSS_PROPERTIES
from pages.ui import jobs
from pages.ui.session import session

if TYPE_CHECKING:
    from dpmc_lab.classroom.room import Room

PAGE = "room"  # the address of the teacher's page
MAX_REPORT_BYTES = 1024  # bytes of a report
REPORT_SECONDS = 10.0  # seconds that a phone may take to send it
_SECRET = re.compile(r"[A-Za-z0-9_-]{16,}", re.ASCII)
_ALL_INTERFACES = (None, "", "0.0.0.0", "::")


class NotTheTeacher(DpmcError):
    """Only the teacher may do this."""


# --- the room -----------------------------------------------------------------------------------


class _ServerState:
    """The state of this server: its room, and whether visitors may train."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.room: Room | None = None
        # By their first id, for the windows of one class outside class mode.
        self.rooms: WeakValueDictionary[str, Room] = WeakValueDictionary()
        self.visitors = True  # may train

    def replace_room(self, room: Room | None) -> None:
        """Replace the room, and close the one before it."""
        with self.lock:
            previous = self.room
            self.room = room
        if previous is not None:
            previous.end()


_server = _ServerState()


def is_class_mode() -> bool:
    """Return whether this server serves a network (DPMC_CLASS, set by `make class`)."""
    return os.environ.get("DPMC_CLASS", "") not in ("", "0")


def get_room() -> Room | None:
    """Return the room of this server; outside class mode this session's, or that of the address."""
    if is_class_mode():
        return _server.room
    session.room = session.room or _server.rooms.get(st.query_params.get("room", ""))
    return session.room


def open_room(
    questions: Sequence[str],
    epsilon: float = EPSILON,
    expected: int = CLASS_SIZE,
    plan: str = "",
) -> Room:
    """Open a room, replacing the one before it.

    Args:
        questions: texts; empty ones are dropped.
        epsilon: of one answer.
        expected: number of phones expected.
        plan: minutes of the class whose plan is followed, if any.

    Raises:
        InvalidSetting: the questions, epsilon or the number of phones are not valid.
        NotTheTeacher: this session may not open one.
    """
    from dpmc_lab.classroom.room import Room  # when a class begins

    require_teacher()
    new_room = Room(questions, epsilon, expected=expected, plan=plan)
    _set_room(new_room)
    if plan:  # so that a reload, and the wall's window, find it
        id = new_room.view().id
        _server.rooms[id] = new_room
        st.query_params["room"] = id
    return new_room


def close_room() -> None:
    """Close the room and forget it with all its reports.

    Raises:
        NotTheTeacher: this session may not close it.
    """
    require_teacher()
    _set_room(None)
    st.query_params.pop("room", None)


def _set_room(room: Room | None) -> None:
    """Replace the room of the server, or outside class mode that of the session."""
    if is_class_mode():
        _server.replace_room(room)
    else:
        session.room = room


# --- who may do what ----------------------------------------------------------------------------


def is_teacher() -> bool:
    """Return whether this session used the teacher's link; outside class mode it is always true.

    Only the teacher may upload, start sweeps and download.
    """
    return not is_class_mode() or _matches_secret(st.context.cookies.get(get_cookie_name()))


def can_visitors_train() -> bool:
    """Return whether sessions without the teacher's link may train, on samples."""
    return _server.visitors


def allow_visitor_training(is_allowed: bool) -> None:
    """Allow visitors to train, or stop what they have started.

    Raises:
        NotTheTeacher: this session may not decide it.
    """
    require_teacher()
    _server.visitors = is_allowed
    if not is_allowed:
        jobs.VISITOR_SLOTS.cancel_jobs()


def get_worker_slots() -> jobs.WorkerSlots:
    """Return where this session's work runs: visitors share two slots, the teacher has others."""
    return jobs.TRAINING_SLOTS if is_teacher() else jobs.VISITOR_SLOTS


def get_cookie_name() -> str:
    """Return the name of the teacher's cookie, which browsers send to every port of a machine."""
    return f"dpmc_teacher_{st.get_option('server.port')}"


def require_teacher() -> None:
    """Check that this session is the teacher's.

    Raises:
        NotTheTeacher: it is not.
    """
    if not is_teacher():
        raise NotTheTeacher("Only the teacher may do this: open the link printed at the start.")


def _matches_secret(text: object) -> bool:
    """Return whether a text is the teacher's secret, in a time that does not reveal it."""
    return isinstance(text, str) and hmac.compare_digest(
        text.encode(), get_teacher_secret().encode()
    )


@cache
def get_teacher_secret() -> str:
    """Return the secret in the teacher's link, which is new at every start.

    DPMC_CLASS_SECRET (at least 16 letters, digits, - and _) sets it for tests and for teachers who
    want a permanent link.
    """
    configured = os.environ.get("DPMC_CLASS_SECRET", "")
    if configured and not _SECRET.fullmatch(configured):
        print_line("DPMC_CLASS_SECRET is not used: it needs at least 16 letters, digits, - or _.")
        configured = ""
    return configured or secrets.token_urlsafe(16)


def print_line(text: str) -> None:
    """Print a line for whoever started the server."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


# --- where it is --------------------------------------------------------------------------------


def get_phone_link() -> str:
    """Return the address of the phone page, as phones in the network reach it."""
    return f"{_build_base_url(_find_local_address())}/phone"


def _build_base_url(host: str) -> str:
    """Return the app's address at a host, or DPMC_CLASS_URL where a proxy serves it."""
    configured = os.environ.get("DPMC_CLASS_URL", "").rstrip("/")
    if configured:
        return configured
    scheme = "https" if st.get_option("server.sslCertFile") else "http"
    base = (st.get_option("server.baseUrlPath") or "").strip("/")
    return f"{scheme}://{host}:{st.get_option('server.port')}" + (f"/{base}" if base else "")


def _find_local_address() -> str:
    """Return the address of this machine in its network, without sending anything."""
    configured = st.get_option("server.address")
    if configured not in _ALL_INTERFACES:
        return str(configured)
    finders = (_list_outgoing_addresses, _list_hostname_addresses)  # the second may wait
    addresses = (address for finder in finders for address in finder())
    return next((address for address in addresses if not address.startswith("127.")), "127.0.0.1")


def _list_outgoing_addresses() -> list[str]:
    """Return a list with the address from which a packet would leave; empty without a network.

    Connecting a UDP socket sends nothing.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("203.0.113.1", 9))  # an address that belongs to nobody (RFC 5737)
            return [probe.getsockname()[0]]
    except OSError:  # no way out of this network
        return []


def _list_hostname_addresses() -> list[str]:
    """Return the addresses that this machine's host name stands for."""
    try:
        return socket.gethostbyname_ex(socket.gethostname())[2]
    except OSError:
        return []


# --- what phones reach --------------------------------------------------------------------------


class RateLimit:
    """A limit on the requests of each address.

    Args:
        burst: number of requests that an address can make at once.
        rate: number of requests per second after that.
    """

    MAX_ADDRESSES = 4096  # addresses; the one that has been quiet for longest goes

    def __init__(self, burst: float, rate: float) -> None:
        self._burst = burst
        self._rate = rate
        self._left: dict[str, tuple[float, float]] = {}  # by address, at a time; the latest last

    def allows(self, address: str, now: float | None = None) -> bool:
        """Return whether another request of an address is within the limit, and count it."""
        now = time.monotonic() if now is None else now
        tokens, last_time = self._left.pop(address, (self._burst, now))
        tokens = min(self._burst, tokens + (now - last_time) * self._rate)
        if len(self._left) >= self.MAX_ADDRESSES:
            del self._left[next(iter(self._left))]
        self._left[address] = max(tokens - 1, 0) if tokens >= 1 else tokens, now
        return tokens >= 1


_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
# A full room behind one address, each phone asking every two seconds; somebody who tries secrets.
_phone_limit = RateLimit(2 * MAX_PHONES, MAX_PHONES / 2)
_secret_limit = RateLimit(10, 0.2)


class NotServed(DpmcError):
    """A request is refused; the message says why, and `status` is the HTTP status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def build_routes(base: str) -> list[Route]:
    """Return the routes that are served beside the app, under the same base path."""
    base = f"/{base.strip('/')}".rstrip("/")
    return [
        Route(f"{base}/phone", _serve_phone),
        Route(f"{base}/asking", _serve_question),
        Route(f"{base}/report", _receive_report, methods=["POST"]),
        Route(f"{base}/teacher/{{secret}}", _serve_teacher_link),
    ]


RequestHandler = Callable[[Request], Awaitable[Response]]


def _require_class(handler: RequestHandler) -> RequestHandler:
    """Wrap a request handler so that it runs only in class mode, and explains every refusal."""

    async def guarded_handler(request: Request) -> Response:
        """Handle a request in class mode; answer with a sentence if it is refused."""
        from dpmc_lab.classroom.room import MalformedReport, PhoneWaiting, ReportRejected

        try:
            if not is_class_mode():
                raise NotServed(404, "This server holds no class; `make class` starts one.")
            return await handler(request)
        except NotServed as error:
            return _json_response(error.status, error=str(error))
        except PhoneWaiting as error:
            return _json_response(409, error=str(error), waits=True)
        except ReportRejected as error:
            return _json_response(
                400 if isinstance(error, MalformedReport) else 409, error=str(error)
            )

    return guarded_handler


def _check_rate(limit: RateLimit, request: Request) -> None:
    """Check the rate of requests from an address.

    Raises:
        NotServed: there are too many.
    """
    if not limit.allows(_client_address(request)):
        raise NotServed(429, "Too many requests come from your address; wait a bit.")


def _client_address(request: Request) -> str:
    """Return the network address that a request came from."""
    return request.client.host if request.client else ""


def _require_room() -> Room:
    """Return the room of the server.

    Raises:
        NotServed: none is open.
    """
    open_room = _server.room
    if open_room is None:
        raise NotServed(404, "No class is open here at the moment.")
    return open_room


def _json_response(status: int, **fields: Any) -> Response:
    """Return a JSON response that no browser stores."""
    return JSONResponse(fields, status, _HEADERS)


@_require_class
async def _serve_phone(request: Request) -> Response:
    """Serve the page for phones."""
    _check_rate(_phone_limit, request)
    page, policy = build_phone_page()
    return HTMLResponse(page, headers=_HEADERS | {"Content-Security-Policy": policy})


@cache
def build_phone_page() -> tuple[str, str]:
    """Return the page for phones, and its content security policy.

    The policy allows only the page's own code, and connections to this server.
    """
    page = (Path(__file__).parent / "phone.html").read_text(encoding="utf-8")
    page = re.sub(r"{{(\w+)}}", lambda field: html.escape(PHONE_TEXTS[field[1]]), page)
    page = page.replace("/* colours */", CSS_PROPERTIES)
    page = page.replace("{texts}", json.dumps(PHONE_TEXTS).replace("</", "<\\/"))
    policy = (
        "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'"
    )
    for kind, source in re.findall(r"<(script|style)>(.*?)</\1>", page, re.S):
        digest = b64encode(sha256(source.encode()).digest()).decode()
        policy += f"; {kind}-src 'sha256-{digest}'"
    return page, policy


@_require_class
async def _serve_question(request: Request) -> Response:
    """Serve the current question."""
    _check_rate(_phone_limit, request)
    room = _require_room()
    room.record_visit(request.headers.get("phone", ""))
    return _json_response(200, **room.view().describe_for_phones())


@_require_class
async def _receive_report(request: Request) -> Response:
    """Receive a report; neither it nor its sender is written to disk."""
    _check_rate(_phone_limit, request)
    report = await _read_report(request)
    return _json_response(
        200, receipt=_require_room().report(**report, address=_client_address(request)).value
    )


async def _read_report(request: Request) -> dict[str, Any]:
    """Return the fields of a report, which `Room.report` checks.

    Raises:
        NotServed: the request holds no report.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # what a form of another site could send is none
        raise NotServed(415, "A report is sent as application/json.")
    body = b""
    try:
        async with asyncio.timeout(REPORT_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_REPORT_BYTES:
                    raise NotServed(413, f"A report has at most {MAX_REPORT_BYTES} bytes.")
        report = json.loads(body)
    except (ValueError, RecursionError, ClientDisconnect, TimeoutError):
        report = None
    if not isinstance(report, dict) or report.keys() != {"room", "asking", "token", "bit"}:
        raise NotServed(400, "A report is an object of JSON with room, asking, token and bit.")
    return report


@_require_class
async def _serve_teacher_link(request: Request) -> Response:
    """Set the teacher's cookie and redirect to the page, so that no projector shows the secret."""
    if not _matches_secret(request.path_params["secret"]):
        _check_rate(_secret_limit, request)  # of wrong ones alone: nobody locks the right one out
        raise NotServed(403, "This is not the teacher's link; it was printed at the start.")
    response = RedirectResponse(f"../{PAGE}", 303, _HEADERS)
    response.set_cookie(
        get_cookie_name(),
        get_teacher_secret(),
        path=request.url.path.split("/teacher/")[0] or "/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


class UploadGuard:
    """Middleware that refuses uploads in class mode without the teacher's cookie."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The address to which Streamlit's widget sends a file.
        upload = scope["type"] == "http" and "/_stcore/upload_file" in scope["path"]
        if (
            upload
            and is_class_mode()
            and not _matches_secret(HTTPConnection(scope).cookies.get(get_cookie_name()))
        ):
            refusal = _json_response(403, error="In a class only the teacher may upload.")
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


# --- the start of a class -----------------------------------------------------------------------


def start_class() -> None:
    """Print where the class is, and open a room if one was prepared."""
    link = get_phone_link()
    configured_address = st.get_option("server.address")
    local_url = _build_base_url(
        "localhost" if configured_address in _ALL_INTERFACES else configured_address
    )
    print_line(
        f"\n  The class is on. Phones in this network:\n\n{_render_qr_code(link)}\n  {link}\n\n"
        "  The teacher, on this machine (do not project this):"
        f" {local_url}/teacher/{get_teacher_secret()}\n"
    )
    if not link.startswith("https:"):
        print_line(
            "  Plain HTTP: anybody who controls this network can read and change what passes, also"
            "\n  the page. Use a network you trust, or put TLS in front and set DPMC_CLASS_URL."
        )
    # `python benchmarks/classroom.py`, 200 and 800 phones.
    print_line("  Memory: a phone's visit costs about 10 kB, a visit of the app 0.2 MB and more.")
    questions_path = os.environ.get("DPMC_CLASS_QUESTIONS")
    if questions_path:
        try:
            _server.replace_room(_open_prepared_room(Path(questions_path)))
        except (OSError, ValueError) as error:  # also InvalidSetting, and what is no text
            reason = getattr(error, "strerror", error)
            print_line(f"  No room is open yet: {questions_path}: {reason}.")


def _open_prepared_room(file: Path) -> Room:
    """Open a room with one question per line of a file, and ask the first.

    DPMC_CLASS_SIZE says how many phones are expected.
    """
    from dpmc_lab.classroom.room import Room

    lines = file.read_text(encoding="utf-8").splitlines()
    size = parse_number(
        int, os.environ.get("DPMC_CLASS_SIZE") or str(CLASS_SIZE), "DPMC_CLASS_SIZE"
    )
    room = Room([line for line in lines if line.strip()], expected=size)
    room.ask(0)
    return room


def _render_qr_code(link: str) -> str:
    """Return a QR code in characters; empty where the terminal cannot show them."""
    import segno  # only a class needs it, and every start would wait for it

    output = io.StringIO()
    segno.make(link, micro=False).terminal(output, compact=True)
    try:
        output.getvalue().encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return ""
    return output.getvalue()
