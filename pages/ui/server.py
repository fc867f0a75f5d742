"""Prepare the server so that the first visitor need not wait; pages work without it too.

`python benchmarks/app_speed.py` on an idle machine, three runs each: the first chart of a cold
visit appears after 3.0 to 3.2 s with the two things loaded ahead here, and after 3.3 to 3.7 s
without them.
"""

import asyncio
import gc
import json
import os
import signal
import socket
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path

import streamlit as st
from starlette.formparsers import MultiPartParser
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pages.ui import classroom, jobs, private, shell, stage, sweeps

# What the first page imports, loaded before anybody visits.
FIRST_PAGE = ("charts.curve", "instrument", "rows", "scene", "sources", "widgets")
COLLECT_SECONDS = 20.0  # seconds between two collections of what ended sessions leave behind
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
    disable_send_delay()
    for name in FIRST_PAGE:
        import_module(f"pages.ui.{name}")
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


def disable_send_delay() -> int:
    """Let connections send small packets without delay, and return how many sockets listen.

    Streamlit opens its socket in a way that keeps asyncio from asking for this (TCP_NODELAY). Each
    of the hundred small files of a first visit then waits 40 ms for its second packet: in `python
    benchmarks/app_speed.py` a small file takes 1.5 ms with this and 46 ms without. Accepted
    connections inherit the setting of the listening socket.
    """
    listening = 0
    with suppress(OSError):  # where a system has no such list
        for number in map(int, os.listdir("/dev/fd")):
            with suppress(OSError):
                if not stat.S_ISSOCK(os.fstat(number).st_mode):
                    continue
                with socket.socket(fileno=os.dup(number)) as listener:
                    if listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        listening += 1
    return listening


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
    # Behind the styles that Streamlit adds to the head, which it overrides.
    html = html.replace("</body>", f"{shell.STYLESHEET}{stage.STYLESHEET}</body>", 1)
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
