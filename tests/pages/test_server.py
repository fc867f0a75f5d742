"""The server around the app: sent without delay, drawing code ahead, the first page by name."""

import asyncio
import itertools
import json
import os
import re
import subprocess
import sys
import tomllib
import weakref
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.routing import Router
from streamlit import config
from streamlit.web.server.app_discovery import discover_asgi_app

from app import SECTIONS
from pages.ui import server, shell
from tests.waiting import PATIENCE_SECONDS

APP = Path(__file__).resolve().parents[2] / "app.py"


def test_the_server_computes_on_one_thread_a_job():
    """On a busy machine threads that wait for each other make a fit many times slower."""
    probe = "import app, threadpoolctl as t\nprint([p['num_threads'] for p in t.threadpool_info()])"
    threads = {name for name in os.environ if name.endswith("_NUM_THREADS")}
    environment = {name: value for name, value in os.environ.items() if name not in threads}
    completed = subprocess.run(
        [sys.executable, "-c", probe],
        cwd=APP.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    thread_counts = json.loads(completed.stdout.splitlines()[-1])
    assert thread_counts
    assert {*thread_counts} == {1}


def test_streamlit_serves_the_app_with_its_hooks():
    served_app = discover_asgi_app(APP)
    assert (served_app.is_asgi_app, served_app.import_string) == (True, "app:app")


def test_what_ended_sessions_leave_behind_is_collected_though_nobody_comes(monkeypatch):
    class Session:
        pass

    async def wait():
        tidying = asyncio.create_task(server.collect_garbage())
        while left() is not None:
            await asyncio.sleep(0.01)
        tidying.cancel()

    monkeypatch.setattr(server, "COLLECT_SECONDS", 0.01)
    session = Session()
    session.itself, left = session, weakref.ref(session)
    del session
    asyncio.run(asyncio.wait_for(wait(), 120))


def test_streamlit_knows_what_it_is_told_to_leave_out():
    options = config.get_config_options()
    settings = tomllib.loads((APP.parent / ".streamlit" / "config.toml").read_text())
    assert settings["runner"].items() >= {"magicEnabled": False, "postScriptGC": False}.items()
    assert {f"runner.{name}" for name in settings["runner"]} <= set(options)
    assert settings["server"]["fileWatcherType"] == "none"


def request_headers(kind, path="/"):
    """Return the headers of a response of this content type."""

    async def page(scope, receive, send):  # noqa: ARG001
        headers = [(b"content-type", kind)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"x"})

    async def send(message):
        sent.append(message)

    sent = []
    asyncio.run(server.ChartPreloader(page)({"type": "http", "path": path}, None, send))
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    return dict(sent[0]["headers"])


def test_the_drawing_code_is_named_with_the_page_and_exists():
    link = request_headers(b"text/html; charset=utf-8", "/train")[b"link"].decode()
    path = link.split(">")[0].removeprefix("<./static/js/")
    assert "rel=modulepreload" in link
    assert (server.SCRIPTS / path).stat().st_size > 1_000_000
    assert b"link" not in request_headers(b"text/html; charset=utf-8")  # the start page
    assert b"link" not in request_headers(b"application/javascript", "/train")


def request_path(path, query=b""):
    """Return status and address of the answer to a path, or None where it goes through."""

    async def receive():
        return {"type": "http.request"}

    async def send(message):
        sent.append(message)

    sent = []
    scope = {"type": "http", "method": "GET", "path": path, "query_string": query, "headers": []}
    asyncio.run(Router(routes=server.ROUTES, redirect_slashes=False)(scope, receive, send))
    if sent[0]["status"] == 404:
        return None
    return sent[0]["status"], dict(sent[0]["headers"]).get(b"location")


def test_the_first_page_opens_under_its_own_name_with_its_link():
    assert request_path("/what_if") == (307, b"./")
    assert request_path("/what_if", b"data=jokes&epsilon=3") == (307, b"./?data=jokes&epsilon=3")
    assert request_path("/base/what_if/", b"a=%C3%A4") == (307, b"../?a=%C3%A4")
    for other_path in ("/what_if/_stcore/health", "/static/what_if.js"):
        assert request_path(other_path) is None


def test_a_page_that_became_a_part_of_another_leads_there_with_its_link():
    assert request_path("/answer") == (307, b"./data")
    query = b"data=long-tail&answer_often=daily"
    assert request_path("/lab/answer/", query) == (307, b"../data?" + query)


def test_the_first_page_is_the_one_whose_name_leads_to_the_bare_address():
    assert next(iter(SECTIONS.values()))[0].file == "what_if"


@pytest.mark.parametrize("base", ["", "/lab", "/lab/here"])
def test_every_page_is_told_where_its_server_is(base):
    """So it asks there alone, and not first under its own name, where nobody answers."""
    for entry in itertools.chain(*SECTIONS.values()):
        if entry.file != "what_if":
            assert request_path(f"{base}/{entry.file}", b"data=jokes") == (200, None)
    for other_path in ("/compared", "/xcompare", "/compare/_stcore/health", "/compare/x", "/x/"):
        assert request_path(base + other_path) is None
    assert request_path("/") == (200, None)
    request = Request({"type": "http", "headers": [(b"host", b"Lab.example:8501")]})
    html = asyncio.run(server._serve_page(request)).body.decode()
    assert 'location.host !== "lab.example:8501"' in html
    start = (server.SCRIPTS.parents[1] / "index.html").read_text("utf-8")
    assert html.index("BACKEND_BASE_URL") < html.index('type="module"')
    rest = re.sub(r"(?s)<script>window.__streamlit = .*?</script>", "", html)
    assert rest == start.replace("</body>", f"{server.STYLES}</body>").replace(
        '<div id="root">', f'{shell.ACCESS}<div id="root">'
    )


# Starts the server without listening, and names what its first page imports and reads only then.
START_SCRIPT = """
import ast, asyncio, sys
from pathlib import Path
import app
from pages.ui import rows, server
print(type(app.app).__name__)
async def start():
    async with server.manage_lifespan(None):
        pass
asyncio.run(start())
for node in ast.parse(Path("pages/what_if.py").read_text("utf-8")).body:
    if isinstance(node, ast.ImportFrom):
        names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        late = [name for name in names if name not in sys.modules]
        paths = {name: Path(*name.split(".")) for name in late}
        print(*(n for n, p in paths.items() if p.is_dir() or p.with_suffix(".py").is_file()))
rows.lines.load_shipped_rows = rows.files.load_curves = None
print(rows.count_default_seeds("movie-night", rows.Task.BINARY))
"""


def test_importing_the_app_draws_nothing_and_its_start_loads_the_first_page():
    completed = subprocess.run(
        [sys.executable, "-W", "error", "-c", START_SCRIPT],
        cwd=APP.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert (completed.stdout.split(), completed.stderr) == (["App", "5"], "")


async def parse_upload(content):
    """Return a file that is uploaded to the server, as it arrives."""
    body = b'--x\r\nContent-Disposition: form-data; name="f"; filename="mine.csv"\r\n\r\n'

    async def receive():
        return {"type": "http.request", "body": body + content + b"\r\n--x--\r\n"}

    headers = [(b"content-type", b"multipart/form-data; boundary=x")]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
    async with server.manage_lifespan(None):
        return (await Request(scope, receive).form())["f"].file


def test_an_upload_on_its_way_is_never_on_the_disk(monkeypatch):
    monkeypatch.setattr(server.MultiPartParser, "spool_max_size", 1)
    monkeypatch.setattr(server, "treat_hangup_as_terminate", lambda: None)
    with asyncio.run(parse_upload(b"u1,i1,5\n" * 500_000)) as file:
        assert not file._rolled
        assert len(file.read()) == 4_000_000
