"""Decide which host names this server answers to, and which pages may talk to it.

A foreign website can let its own name point to this machine. The browser of a visitor then sends
requests to this server under that name, and the website reads the responses. It can also show a
page of this server in a frame and guide its visitor's clicks, so every response forbids that.
"""

import html
import os
import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpmc_core.errors import format_value
from pages.ui import classroom
from pages.ui.classroom import NotServed

HOSTS = "DPMC_HOSTS"
POLICY = (b"content-security-policy", b"frame-ancestors 'self'")
MAX_LOGGED = 100  # refusals that are written down; a stranger cannot fill the log
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>DPMC Lab: not served</title>
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
</head><body style="font: 1.1rem/1.5 sans-serif; max-width: 36em; margin: 3em auto; padding: 1em">
<h1>This page cannot be shown</h1><p>{}</p></body></html>
"""
_HOST = re.compile(r"(?:\[([0-9a-f.]*:[0-9a-f:.]*)\]|([a-z0-9_.-]+))(?::[0-9]{0,5})?", re.ASCII)


def parse_host(text: str) -> str | None:
    """Return the host in `name`, `name:port` or `[address]:port`; None for other text."""
    match = _HOST.fullmatch(text.lower())
    if match is None:
        return None
    name = match[1] or match[2].removesuffix(".")
    address = _parse_address(name)
    return str(address) if address else (not match[1] and name) or None


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return an address in canonical form, without the network interface that some end with."""
    try:
        parsed = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed


def list_server_names() -> Iterator[str]:
    """Yield the names of this server: where it listens, in a class its address, and DPMC_HOSTS."""
    yield str(st.get_option("server.address") or "")
    if classroom.is_class_mode():
        yield urlsplit(os.environ.get("DPMC_CLASS_URL", "")).netloc
    for text in re.split(r"[\s,]+", os.environ.get(HOSTS, "")):
        if text and parse_host(_bracket_ipv6(text)) is None:
            classroom.print_line(
                f"{HOSTS}: {format_value(text)} is not used: it must be a name or an address."
            )
        yield text


def _bracket_ipv6(text: str) -> str:
    """Return an IPv6 address in brackets, as a Host header has it, and other text as it is."""
    return f"[{text}]" if isinstance(_parse_address(text), IPv6Address) else text


class HostGuard:
    """Middleware around everything that refuses foreign requests with a sentence.

    It refuses requests under a name that is not this server's, and requests by a page of another
    site.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._own = {
            "localhost",
            *(parse_host(_bracket_ipv6(text)) for text in list_server_names()),
        } - {None}
        self._logged: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_policy(message: Message) -> None:
            """Send a message, with the content security policy if it starts a response."""
            if message["type"].endswith("http.response.start"):  # of a websocket too
                message = {**message, "headers": [*message.get("headers", ()), POLICY]}
            await send(message)

        try:
            if scope["type"] in ("http", "websocket"):
                self._check_request(scope)
        except NotServed as error:
            self._log(str(error))
            if scope["type"] == "http" or "websocket.http.response" in scope.get("extensions", {}):
                await _build_refusal(error, scope)(scope, receive, send_with_policy)
            else:
                await send({"type": "websocket.close", "code": 1008})  # against the server's policy
            return
        await self._app(scope, receive, send_with_policy)

    def _log(self, message: str) -> None:
        """Print a refusal once, even if every script of a page is refused."""
        if message not in self._logged and len(self._logged) < MAX_LOGGED:
            self._logged.add(message)
            classroom.print_line(f"Refused: {message}")

    def _check_request(self, scope: Scope) -> None:
        """Check the host and the origin of a request.

        Raises:
            NotServed: one of them is not allowed.
        """
        headers = Headers(scope=scope)
        host_header = ", ".join(headers.getlist("host"))  # several are none
        host = parse_host(host_header)
        if host is None or not self._is_server_host(host, scope):
            raise NotServed(
                421,
                f"This server does not answer to the name {format_value(host_header)}. Open the"
                " address that it"
                f" printed, or add the name to {HOSTS} and start the server again.",
            )
        if not scope["path"].startswith("/"):
            raise NotServed(400, "This server is asked for a path, not for a whole address.")
        for origin in headers.getlist("origin"):
            scheme, _, site = origin.lower().partition("://")
            if scheme not in ("http", "https") or site != host_header.lower():
                raise NotServed(
                    403,
                    f"A page from {format_value(origin)} asked for {format_value(host_header)}"
                    " and was refused. A proxy"
                    f" in between must pass on the Host header with its port. {HOSTS} must name"
                    " that host; docs/hosting.md shows how.",
                )

    def _is_server_host(self, host: str, scope: Scope) -> bool:
        """Return whether a host names this server, or is the address that received the request."""
        address = _parse_address(host)
        if host in self._own or address is None:
            return host in self._own
        # The server's own address, as the connection has it; a scope may lack it.
        return address.is_loopback or address == _parse_address(
            (scope.get("server") or ("",))[0] or ""
        )


def _build_refusal(error: NotServed, scope: Scope) -> Response:
    """Return a page if a browser asks for one, else a line of text."""
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    if "text/html" not in Headers(scope=scope).get("accept", ""):
        return PlainTextResponse(f"{error}\n", error.status, headers)
    return HTMLResponse(PAGE.format(html.escape(str(error))), error.status, headers)
