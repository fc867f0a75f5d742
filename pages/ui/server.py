"""Prepare the server so that the first visitor need not wait; pages work without it too.

`python benchmarks/app_speed.py` on an idle machine, three runs each: the first chart of a cold
visit appears after 3.0 to 3.2 s with the two things loaded ahead here, and after 3.3 to 3.7 s
without them.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import streamlit as st
from starlette.formparsers import MultiPartParser
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpmc_lab import plugins
from pages.ui import classroom, jobs, private, rows, shell, stage, sweeps

# What the first page imports, loaded before anybody visits.
FIRST_PAGE = ("dpmc_lab.lessons", "pages.ui.instrument", "pages.ui.widgets")
COLLECT_SECONDS = 20.0  # seconds between two collections of what ended sessions leave behind
HEADER_SECONDS = 10.0  # seconds in which the header of a request must be complete
READ_SECONDS = 0.1  # seconds after which a connection without a header counts as one of these
MAX_UNFINISHED = 64  # connections of one address with an incomplete header
MAX_FILES = 8192  # more than any class needs, and allowed on macOS too
_file_report_limit = classroom.RateLimit(1, 1 / 60)
SCRIPTS = Path(st.__file__).parent / "static" / "static" / "js"


@asynccontextmanager
async def manage_lifespan(_: st.App) -> AsyncIterator[None]:
    """Clean up before the server starts, and stop everything it started when it ends.

    SIGTERM ends the server without Python's own last steps, so nothing is left to them.
    """
    private.remove_orphans()
    treat_hangup_as_terminate()
    # A file on its way here waits in memory, where it is going anyway, and never on the disk.
    MultiPartParser.spool_max_size = st.get_option("server.maxUploadSize") * 2**20
    raise_file_limit()
    guard_connections(asyncio.get_running_loop())
    for name in FIRST_PAGE:
        import_module(name)
    for file in plugins.list_environment_files():
        plugins.load_plugin(file)
    rows.load_first_curve()
    if classroom.is_class_mode():
        classroom.start_class()
    collecting = asyncio.create_task(collect_garbage())
    yield
    collecting.cancel()
    jobs.cancel_all_jobs()  # they stop at their next report
    private.close_all_uploads()
    sweeps.terminate_children()


def treat_hangup_as_terminate() -> None:
    """Let a closed terminal end the server as SIGTERM does.

    A server started with nohup keeps running.
    """
    hang_up = getattr(signal, "SIGHUP", None)
    main = threading.current_thread() is threading.main_thread()
    if hang_up is not None and main and signal.getsignal(hang_up) == signal.SIG_DFL:
        signal.signal(hang_up, lambda *_: signal.raise_signal(signal.SIGTERM))


async def collect_garbage() -> None:
    """Free sessions that Streamlit has forgotten, including their uploads.

    They end when they are collected, which could take until the next visit. Streamlit would collect
    after every rerun (runner.postScriptGC), and everybody would wait for it.
    """
    while True:
        await asyncio.sleep(COLLECT_SECONDS)
        gc.collect()


def raise_file_limit() -> None:
    """Let this server open as many files as the system allows, since a connection is one."""
    with suppress(ImportError):  # Windows has no such limit
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < min(hard, MAX_FILES):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, MAX_FILES), hard))


def guard_connections(loop: Any) -> None:
    """Prepare the event loop for connections, before uvicorn asks it for a server.

    Streamlit does not let an app choose the protocol of a connection, and middleware sees only
    complete requests. The seam is `loop.create_server`, which `uvicorn.Server.startup` calls after
    the lifespan of the app has started.
    """
    create_server = loop.create_server

    async def create_guarded_server(
        create_protocol: Callable[[], Any], *, backlog: int = 2048, **options: Any
    ) -> Any:
        """Create a server whose connections must finish the headers of their requests."""
        unfinished: dict[HeaderTimer, str] = {}  # with their addresses, the oldest first
        if options.get("ssl"):
            options["ssl_handshake_timeout"] = HEADER_SECONDS
        # asyncio accepts `backlog` connections before it looks at any of them.
        server = await create_server(
            lambda: HeaderTimer(create_protocol(), unfinished), backlog=MAX_UNFINISHED, **options
        )
        if listener := options.get("sock"):  # Streamlit has opened it
            listener.listen(backlog)
            # Accepted connections inherit this. Without it, each of the hundred small files of a
            # first visit waits 40 ms for its second packet (`python benchmarks/app_speed.py`).
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return server

    loop.create_server = create_guarded_server
    loop.set_exception_handler(report_loop_error)


class HeaderTimer:
    """Hand a connection to uvicorn, and close it if the header of a request stays incomplete.

    Of uvicorn's HTTP protocol this uses `cycle`: it is None or complete until a header has arrived.
    A websocket has another protocol from its complete header on.
    """

    def __init__(self, protocol: Any, unfinished: dict[HeaderTimer, str]) -> None:
        self._protocol = protocol
        self._unfinished = unfinished

    def __getattr__(self, name: str) -> Any:
        return getattr(self._protocol, name)

    def connection_made(self, transport: Any) -> None:
        """Wait for the first header, once what came together with the connection has been read."""
        self.transport = transport
        self.address = (transport.get_extra_info("peername") or [""])[0]
        self._timer = asyncio.get_running_loop().call_later(READ_SECONDS, self._wait_for_header)
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Hand over what arrived, and wait for the rest of a header."""
        self._protocol.data_received(data)
        cycle = getattr(self._protocol, "cycle", self)  # a protocol without it is never closed
        upgraded = self.transport.get_protocol() is not self
        if upgraded or (cycle and not getattr(cycle, "response_complete", False)):
            self._stop_timer()
        elif self not in self._unfinished:
            self._wait_for_header()

    def connection_lost(self, error: Exception | None) -> None:
        """Stop the time of a connection that has ended."""
        self._stop_timer()
        self._protocol.connection_lost(error)

    def abort(self) -> None:
        """Close the connection."""
        self._stop_timer()
        self.transport.abort()

    def _wait_for_header(self) -> None:
        """Start the time of a header, and close the oldest of too many connections.

        Browsers send a header at once, so the oldest belongs to nobody who waits for an answer.
        """
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(HEADER_SECONDS, self.abort)
        self._unfinished[self] = self.address
        same_address = [timer for timer, name in self._unfinished.items() if name == self.address]
        if len(same_address) > MAX_UNFINISHED:
            same_address[0].abort()

    def _stop_timer(self) -> None:
        self._timer.cancel()
        self._unfinished.pop(self, None)


def report_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report an error of the event loop; print once a minute that no file is left.

    asyncio would print that with a traceback, thousands of times a second.
    """
    if getattr(context.get("exception"), "errno", None) not in (errno.EMFILE, errno.ENFILE):
        loop.default_exception_handler(context)
    elif _file_report_limit.allows(""):
        classroom.print_line(
            "All files that this server may open are in use, so new visitors wait."
            " `ulimit -n` shows the limit."
        )


class ChartPreloader:
    """Middleware that makes the browser fetch Plotly together with a page that draws with it.

    The start page does not. If Streamlit keeps its code elsewhere, nothing is sent and nothing is
    lost.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        links = (f"<./static/js/{file.name}>" for file in SCRIPTS.glob("PlotlyChart.*.js"))
        self._link = ", ".join(f"{link}; rel=modulepreload" for link in links).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        link = b"" if scope.get("path", "/").endswith("/") else self._link

        async def send_with_link(message: Message) -> None:
            """Send a message, with the link to the drawing code if it starts a page."""
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                names = dict(headers)
                html = names.get(b"content-type", b"").startswith(b"text/html")
                if html and b"content-security-policy" not in names:  # which the phone's page has
                    message = {**message, "headers": [*headers, (b"link", link)]}
            await send(message)

        await self._app(scope, receive, send_with_link if link else send)


async def _redirect_moved_page(request: Request) -> RedirectResponse:
    """Redirect to the address that a page has now, keeping the query."""
    prefix = "../" if request.url.path.endswith("/") else "./"
    address = prefix + MOVED_PAGES[request.url.path.rstrip("/").rpartition("/")[2]]
    return RedirectResponse(address + (f"?{request.url.query}" if request.url.query else ""))


_LEARN_STYLE = Path(__file__).with_name("learn.css").read_text("utf-8")
# Behind the styles that Streamlit adds to the head, which they override.
STYLES = f"{shell.STYLESHEET}{stage.STYLESHEET}<style>{_LEARN_STYLE}</style>"


async def _serve_page(request: Request) -> HTMLResponse:
    """Serve Streamlit's page with the address of its server.

    Without it, the page at `/train` would ask `/train/_stcore/` first, get a 404, and wait before
    it asks one level up. If a proxy has changed the name of this server, its scripts are refused
    and the page would stay white; it then shows the sentence of the refusal.
    """
    html = (SCRIPTS.parents[1] / "index.html").read_text("utf-8")
    script = "window.__streamlit = { BACKEND_BASE_URL: new URL('.', location).href };"
    script += f"if (location.host !== {json.dumps(request.headers.get('host', '').lower())})"
    script += """
      fetch('.', { method: 'POST', headers: { accept: 'text/html' } }).then(async (answer) => {
        if (answer.status === 403) document.documentElement.innerHTML = await answer.text();
      });"""
    html = html.replace("<head>", f"<head><script>{script}</script>", 1)
    html = html.replace('<div id="root">', f'{shell.ACCESS}<div id="root">', 1)
    html = html.replace("</body>", f"{STYLES}</body>", 1)
    return HTMLResponse(html, headers={"cache-control": "no-cache"})


# Addresses that lead elsewhere, links and all: the first page, which stands at the bare address and
# which Streamlit does not find under its file's name, and pages that became a part of others.
MOVED_PAGES = {"what_if": "", "answer": "data"}
ROUTES = [
    Route(f"/{st.get_option('server.baseUrlPath').strip('/')}/".replace("//", "/"), _serve_page),
    *(
        Route(f"/{{base:path}}{name}{end}", _redirect_moved_page)
        for name in MOVED_PAGES
        for end in ("", "/")
    ),
    *(
        Route(f"{base}/{file.stem}", _serve_page)
        for base in ("", "/{base:path}")
        for file in Path(__file__).parents[1].glob("*.py")
    ),
]
