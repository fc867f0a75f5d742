"""The class: the one room of this server, who may do what in it, and how phones reach it.

Class mode (`make class`) serves a network: whoever has not opened the teacher's link may look at
everything and change nothing. Outside class mode the app listens on this machine only; whoever is
there is the teacher, and each session has a room of its own, for hands and simulated phones.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import socket
import sys
import threading
from collections.abc import Sequence
from functools import cache

import streamlit as st

from dpmc_core.errors import DpmcError
from dpmc_core.room import EPSILON, Room

PAGE = "room"  # the address of the teacher's page
COOKIE = "dpmc_teacher"
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

    def put(self, room: Room | None) -> None:
        with self.lock:
            before, self.room = self.room, room
        if before is not None:
            before.end()


_server = _Server()


def on() -> bool:
    """Class mode: this server serves a network (DPMC_CLASS, set by `make class`)."""
    return os.environ.get("DPMC_CLASS", "") not in ("", "0")


def room() -> Room | None:
    """The one room of this server; outside class mode that of this session."""
    if on():
        return _server.room
    own: Room | None = st.session_state.get("own room")
    return own


def begin(questions: Sequence[str], epsilon: float = EPSILON) -> Room:
    """Open a room; the one before it goes. Raises InvalidSetting, NotTheTeacher."""
    _only_the_teacher()
    made = Room(questions, epsilon)
    _put(made)
    return made


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
    return not on() or _is_secret(st.context.cookies.get(COOKIE, ""))


def allowed() -> bool:
    """Whether this session may upload, start sweeps and download data sets."""
    return teacher()


def _only_the_teacher() -> None:
    if not teacher():
        raise NotTheTeacher("Only the teacher may do this: open the link printed at the start.")


def _is_secret(given: str) -> bool:
    return hmac.compare_digest(given.encode(), secret().encode())


@cache
def secret() -> str:
    """Of the teacher's link: new at every start, or DPMC_CLASS_SECRET (at least 16 letters, digits,
    - and _), for tests and for teachers who want a link that stays."""
    given = os.environ.get("DPMC_CLASS_SECRET", "")
    if given and not _SECRET.fullmatch(given):
        say("DPMC_CLASS_SECRET is not used: it needs at least 16 letters, digits, - or _.")
        given = ""
    return given or secrets.token_urlsafe(16)


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
    given = os.environ.get("DPMC_CLASS_URL", "").rstrip("/")
    if given:
        return given
    scheme = "https" if st.get_option("server.sslCertFile") else "http"
    base = (st.get_option("server.baseUrlPath") or "").strip("/")
    return f"{scheme}://{host}:{st.get_option('server.port')}" + (f"/{base}" if base else "")


def _address() -> str:
    """This machine in its network; nothing is sent to find out."""
    given = st.get_option("server.address")
    if given not in _EVERYWHERE:
        return str(given)
    found = [*_outwards(), *_own_name()]
    return next((one for one in found if not one.startswith("127.")), "127.0.0.1")


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
