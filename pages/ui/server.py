"""What the server does beyond Streamlit's own; the pages work without it too."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import streamlit as st
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Route

from pages.ui import jobs


@asynccontextmanager
async def ready(_: st.App) -> AsyncIterator[None]:
    """Around the life of the server; at its end jobs stop, at their next report."""
    send_at_once()
    yield
    jobs.cancel_all()


def send_at_once() -> int:
    """Let the server's connections send small packets without delay; how many sockets listen.

    Streamlit opens its socket in a way that keeps asyncio from asking for this (TCP_NODELAY), and
    each of the hundred small files of a first visit then waits 40 ms for its second packet: see
    `python benchmarks/app_speed.py`, where a small file takes 1.5 ms with this and 46 ms without.
    Accepted connections inherit what is set on the listening socket.
    """
    listening = 0
    for number in _descriptors():
        with suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            with socket.socket(fileno=os.dup(number)) as one:
                if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    listening += 1
    return listening


def _descriptors() -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir("/dev/fd")]
    return []  # not a system of this kind


async def _start(request: Request) -> RedirectResponse:
    here = "../" if request.url.path.endswith("/") else "./"
    return RedirectResponse(here + (f"?{request.url.query}" if request.url.query else ""))


# The name of the first page's file leads to the bare address, links and all: every other page opens
# under its file's name, and Streamlit calls this one not found.
ROUTES = [Route(f"/{{base:path}}what_if{end}", _start) for end in ("", "/")]
