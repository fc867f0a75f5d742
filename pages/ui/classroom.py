"""The class: the one room of this server, who may do what in it, and how phones reach it.

Class mode (`make class`) serves a network: whoever has not opened the teacher's link may look at
everything and change nothing. Outside class mode the app listens on this machine only; whoever is
there is the teacher, and each session has a room of its own, for hands and simulated phones.
"""

from __future__ import annotations

import hmac
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

import streamlit as st
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dpmc_core.errors import DpmcError, parsed
from dpmc_lab.classroom import CLASS, EPSILON, PHONES
from pages.ui import jobs

if TYPE_CHECKING:
    from dpmc_lab.classroom.room import Room

PAGE = "room"  # the address of the teacher's page
COOKIE = "dpmc_teacher"
LARGEST = 1024  # bytes of a report
# Memory of the server while they are there: `python benchmarks/classroom.py`, 200 and 800 phones.
PHONE_VISIT, PAGE_VISIT = "about 10 kB", "0.2 MB and more"
# Said on the phone and on the projector.
HONEST = (
    "Your answer is randomised before it is sent, provided this page runs the code shown; whoever "
    "serves it, or alters plain HTTP on the way, could change that. The server sees your address "
    "and that you took part. Each report moves anyone's odds at most e^epsilon-fold. Do not ask "
    "what you would not ask by show of hands."
)
_SECRET = re.compile(r"[A-Za-z0-9_-]{16,}", re.ASCII)
_EVERYWHERE = (None, "", "0.0.0.0", "::")


class NotTheTeacher(DpmcError):
    """Only the teacher may do this."""


# --- the room -----------------------------------------------------------------------------------


class _Server:
    """What this server holds while it runs."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.room: Room | None = None
        self.visitors = True  # may train

    def put(self, room: Room | None) -> None:
        with self.lock:
            previous, self.room = self.room, room
        if previous is not None:
            previous.end()


_server = _Server()


def on() -> bool:
    """Class mode: this server serves a network (DPMC_CLASS, set by `make class`)."""
    return os.environ.get("DPMC_CLASS", "") not in ("", "0")


def room() -> Room | None:
    """The one room of this server; outside class mode that of this session."""
    if on():
        return _server.room
    session_room: Room | None = st.session_state.get("own room")
    return session_room


def begin(questions: Sequence[str], epsilon: float = EPSILON, expected: int = CLASS) -> Room:
    """Open a room; the one before it goes. Raises InvalidSetting, NotTheTeacher."""
    from dpmc_lab.classroom.room import Room  # when a class begins

    _only_the_teacher()
    new_room = Room(questions, epsilon, expected=expected)
    _put(new_room)
    return new_room


def close() -> None:
    """End the room and forget it, reports and all. Raises NotTheTeacher."""
    _only_the_teacher()
    _put(None)


def _put(room: Room | None) -> None:
    if on():
        _server.put(room)
    else:
        st.session_state["own room"] = room


# --- who may do what ----------------------------------------------------------------------------


def teacher() -> bool:
    """Whether this session has come by the teacher's link; outside class mode, whoever is here."""
    return not on() or _is_secret(st.context.cookies.get(COOKIE))


def allowed() -> bool:
    """Whether this session may upload, start sweeps and download."""
    return teacher()


def check_allowed() -> None:
    """Raises NotTheTeacher where it may not."""
    _only_the_teacher()


def visitors_train() -> bool:
    """Whether those without the teacher's link may train, on samples."""
    return _server.visitors


def let_visitors_train(may: bool) -> None:
    """Allow it, or end what they have begun. Raises NotTheTeacher."""
    _only_the_teacher()
    _server.visitors = may
    if not may:
        jobs.VISITORS.empty()


def places() -> jobs.Places:
    """Where this session's work runs: visitors share two places, and the teacher waits for none."""
    return jobs.PLACES if teacher() else jobs.VISITORS


def _only_the_teacher() -> None:
    if not teacher():
        raise NotTheTeacher("Only the teacher may do this: open the link printed at the start.")


def _is_secret(text: object) -> bool:
    return isinstance(text, str) and hmac.compare_digest(text.encode(), secret().encode())


@cache
def secret() -> str:
    """Of the teacher's link: new at every start, or DPMC_CLASS_SECRET (at least 16 letters, digits,
    - and _), for tests and for teachers who want a link that stays."""
    configured = os.environ.get("DPMC_CLASS_SECRET", "")
    if configured and not _SECRET.fullmatch(configured):
        say("DPMC_CLASS_SECRET is not used: it needs at least 16 letters, digits, - or _.")
        configured = ""
    return configured or secrets.token_urlsafe(16)


def say(text: str) -> None:
    """A line to whoever started the server."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


# --- where it is --------------------------------------------------------------------------------


def phone_link() -> str:
    """The address of the phone page, as phones in the network reach it."""
    return f"{_site(_address())}/phone"


def _site(host: str) -> str:
    """The app's address at a host; DPMC_CLASS_URL where something else serves it, with TLS say."""
    configured = os.environ.get("DPMC_CLASS_URL", "").rstrip("/")
    if configured:
        return configured
    scheme = "https" if st.get_option("server.sslCertFile") else "http"
    base = (st.get_option("server.baseUrlPath") or "").strip("/")
    return f"{scheme}://{host}:{st.get_option('server.port')}" + (f"/{base}" if base else "")


def _address() -> str:
    """This machine in its network; nothing is sent to find out."""
    configured = st.get_option("server.address")
    if configured not in _EVERYWHERE:
        return str(configured)
    finders = (_outwards, _own_name)  # the second may wait for a name server
    addresses = (address for finder in finders for address in finder())
    return next((address for address in addresses if not address.startswith("127.")), "127.0.0.1")


def _outwards() -> list[str]:
    """The address from which a packet would leave: a UDP socket that is connected sends nothing."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("203.0.113.1", 9))  # an address that belongs to nobody (RFC 5737)
            return [probe.getsockname()[0]]
    except OSError:  # no way out of this network
        return []


def _own_name() -> list[str]:
    try:
        return socket.gethostbyname_ex(socket.gethostname())[2]
    except OSError:
        return []


# --- what phones reach --------------------------------------------------------------------------


class Limit:
    """So many requests of one address: a burst, and then so many a second."""

    MOST = 4096  # addresses; the one that has been quiet for longest goes

    def __init__(self, burst: float, rate: float) -> None:
        self._burst, self._rate = burst, rate
        self._left: dict[str, tuple[float, float]] = {}  # by address, at a time; the latest last

    def passes(self, address: str, now: float | None = None) -> bool:
        now = time.monotonic() if now is None else now
        tokens, last_time = self._left.pop(address, (self._burst, now))
        tokens = min(self._burst, tokens + (now - last_time) * self._rate)
        if len(self._left) >= self.MOST:
            del self._left[next(iter(self._left))]
        self._left[address] = max(tokens - 1, 0) if tokens >= 1 else tokens, now
        return tokens >= 1


_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
# A full room behind one address, each phone asking every two seconds; somebody who tries secrets.
_phones = Limit(2 * PHONES, PHONES / 2)
_guesses = Limit(10, 0.2)


class NotServed(DpmcError):
    """A request that is not answered; says why, with the status of HTTP that fits."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def routes(base: str) -> list[Route]:
    """What is served beside the app, under the same base path."""
    base = f"/{base.strip('/')}".rstrip("/")
    return [
        Route(f"{base}/phone", _phone),
        Route(f"{base}/asking", _asking),
        Route(f"{base}/report", _report, methods=["POST"]),
        Route(f"{base}/teacher/{{secret}}", _teacher),
    ]


Answer = Callable[[Request], Awaitable[Response]]


def _in_a_class(handler: Answer) -> Answer:
    """Around what answers a request; whoever is refused is told why, in a sentence."""

    async def answered(request: Request) -> Response:
        from dpmc_lab.classroom.room import Malformed, NotTaken, Waits

        try:
            if not on():
                raise NotServed(404, "This server holds no class; `make class` starts one.")
            return await handler(request)
        except NotServed as error:
            return _json(error.status, error=str(error))
        except Waits as error:
            return _json(409, error=str(error), waits=True)
        except NotTaken as error:
            return _json(400 if isinstance(error, Malformed) else 409, error=str(error))

    return answered


def _pace(limit: Limit, request: Request) -> None:
    """Raises NotServed where too many requests come from an address."""
    if not limit.passes(_caller(request)):
        raise NotServed(429, "Too many requests come from your address; wait a bit.")


def _caller(request: Request) -> str:
    return request.client.host if request.client else ""


def _here() -> Room:
    open_room = _server.room
    if open_room is None:
        raise NotServed(404, "No class is open here at the moment.")
    return open_room


def _json(status: int, **fields: Any) -> Response:
    return JSONResponse(fields, status, _HEADERS)


@_in_a_class
async def _phone(request: Request) -> Response:
    _pace(_phones, request)
    page, policy = phone_page()
    return HTMLResponse(page, headers=_HEADERS | {"Content-Security-Policy": policy})


@cache
def phone_page() -> tuple[str, str]:
    """The phone's page, and the policy by which it runs its own code and asks this server only."""
    page = (Path(__file__).parent / "phone.html").read_text(encoding="utf-8")
    rules = ["default-src 'none'", "connect-src 'self'", "img-src data:", "base-uri 'none'"]
    rules += ["form-action 'none'", "frame-ancestors 'none'"]
    for kind in ("script", "style"):
        own = page.split(f"<{kind}>")[1].split(f"</{kind}>")[0]
        rules.append(f"{kind}-src 'sha256-{b64encode(sha256(own.encode()).digest()).decode()}'")
    return page, "; ".join(rules)


@_in_a_class
async def _asking(request: Request) -> Response:
    """What is asked at the moment."""
    _pace(_phones, request)
    room = _here()
    room.visited(request.headers.get("phone", ""))
    return _json(200, **room.view().public())


@_in_a_class
async def _report(request: Request) -> Response:
    """Take a report; nothing of it, nor of who sent it, is written down."""
    _pace(_phones, request)
    report = await _body(request)
    return _json(200, receipt=_here().report(**report, address=_caller(request)).value)


async def _body(request: Request) -> dict[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # what a form of another site could send is none
        raise NotServed(415, "A report is sent as application/json.")
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > LARGEST:
                raise NotServed(413, f"A report has at most {LARGEST} bytes.")
        report = json.loads(body)
    except (ValueError, RecursionError, ClientDisconnect):
        report = None
    if not isinstance(report, dict) or report.keys() - {"bit", "picks"} != {
        "room",
        "asking",
        "token",
    }:
        raise NotServed(
            400, "A report is an object of JSON with room, asking, token and bit or picks."
        )
    return report


@_in_a_class
async def _teacher(request: Request) -> Response:
    """The teacher's link: a cookie, and on to the page, so that no projector shows the secret."""
    if not _is_secret(request.path_params["secret"]):
        _pace(_guesses, request)  # of wrong ones alone: nobody locks the right one out
        raise NotServed(403, "This is not the teacher's link; it was printed at the start.")
    response = RedirectResponse(f"../{PAGE}", 303, _HEADERS)
    response.set_cookie(
        COOKIE,
        secret(),
        path=request.url.path.split("/teacher/")[0] or "/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


class Guard:
    """Middleware: in class mode nobody uploads without the teacher's cookie."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        upload = scope["type"] == "http" and "/_stcore/upload_file" in scope["path"]
        if upload and on() and not _is_secret(HTTPConnection(scope).cookies.get(COOKIE)):
            refusal = _json(403, error="In a class only the teacher may upload.")
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


# --- the start of a class -----------------------------------------------------------------------


def start() -> None:
    """Tell whoever started the server where the class is; open a room where one was prepared."""
    link, configured_address = phone_link(), st.get_option("server.address")
    beside = _site("localhost" if configured_address in _EVERYWHERE else configured_address)
    say("\n  The class is on. Phones in this network:\n")
    say(_in_the_terminal(link))
    say(f"  {link}\n")
    say(f"  The teacher, on this machine (do not project this): {beside}/teacher/{secret()}\n")
    if not link.startswith("https:"):
        say("  Plain HTTP: whoever controls this network can read and change what passes, the page")
        say("  included. Use a network you trust, or put TLS in front and set DPMC_CLASS_URL.")
    say(f"  Memory: a phone's visit costs {PHONE_VISIT}, a visit of the app {PAGE_VISIT}.")
    prepared = os.environ.get("DPMC_CLASS_QUESTIONS")
    if prepared:
        try:
            _server.put(_prepared(Path(prepared)))
        except OSError as error:
            say(f"  No room is open yet: {prepared}: {error.strerror}.")
        except ValueError as error:  # InvalidSetting and what is no text
            say(f"  No room is open yet: {prepared}: {error}.")


def _prepared(file: Path) -> Room:
    """A room with a question from each line of a file, the first one asked; DPMC_CLASS_SIZE says
    how many phones are expected."""
    from dpmc_lab.classroom.room import Room

    lines = file.read_text(encoding="utf-8").splitlines()
    size = parsed(int, os.environ.get("DPMC_CLASS_SIZE") or str(CLASS), "DPMC_CLASS_SIZE")
    room = Room([line for line in lines if line.strip()], expected=size)
    room.ask(0)
    return room


def _in_the_terminal(link: str) -> str:
    """A QR code in characters; nothing where they cannot be written."""
    import segno  # only a class needs it, and every start would wait for it

    output = io.StringIO()
    segno.make(link, micro=False).terminal(output, compact=True)
    try:
        output.getvalue().encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return ""
    return output.getvalue()
