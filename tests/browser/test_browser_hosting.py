"""Served to others: behind nginx as docs/hosting.md says, and never inside another site."""

import http.server
import io
import re
import shutil
import socket
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.browser_helpers import open_and_settle, serve_app
from tests.class_helpers import SECRET, send_request
from tests.waiting import wait_for

pytestmark = pytest.mark.browser

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "hosting.md"
BLOCK = re.search(r"```nginx\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)[1]
NAME = "lab.localhost"  # browsers look for such a name on this machine


def find_free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def run_nginx(folder, block, port=0):
    """Run nginx with the server of this block and yield the port it listens on."""
    port = port or find_free_port()
    block = block.replace("listen 80;", f"listen 127.0.0.1:{port};").replace("lab.example", NAME)
    path_kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in path_kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors warn;\n"
        f"events {{}}\nhttp {{ access_log {folder}/access; {temporary}\n{block}}}\n"
    )
    command = [NGINX, "-e", folder / "errors", "-p", folder, "-c", folder / "nginx.conf"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: is_listening(port) or process.poll() is not None)
        assert process.poll() is None, (folder / "errors").read_text()
        yield port
    finally:
        process.kill()
        process.wait(60)


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def behind(tmp_path_factory):
    """The app at /lab, with a class: its port, what it has printed, and the port of its proxy."""
    if NGINX is None:
        pytest.skip("nginx is not installed (Debian: apt install nginx-light)")
    home = tmp_path_factory.mktemp("home")
    questions = home / "questions"
    questions.write_text("Tea?\n")
    secrets = home / "secrets.toml"  # as a hosting service gives them
    secrets.write_text(f'DPMC_HOSTS = "{NAME}"\n')
    environment = {"STREAMLIT_SECRETS_FILES": str(secrets), "STREAMLIT_SERVER_BASE_URL_PATH": "lab"}
    proxy_port = find_free_port()
    environment |= {
        "DPMC_CLASS_URL": f"http://{NAME}:{proxy_port}/lab",
        "DPMC_CLASS": "1",
        "DPMC_CLASS_SECRET": SECRET,
        "DPMC_CLASS_QUESTIONS": str(questions),
    }
    with serve_app(home, **environment) as (address, _):
        log = home / "server.log"
        yield address.split(":")[2].split("/")[0], log.read_text, proxy_port


def read_codes(picture):
    """Return what a phone's camera reads off a picture."""
    zxing = pytest.importorskip("zxingcpp", reason="pip install zxing-cpp")
    return [barcode.text for barcode in zxing.read_barcodes(picture)]


def draw_terminal(text):
    """Return a picture of the lines of blocks in a text; a block is two squares."""
    lines = [line for line in text.splitlines() if line and not line.strip("█▀▄ ")]
    halves = [(line, half) for line in lines for half in ("█▀", "█▄")]
    squares = [[character in half for character in line] for line, half in halves]
    return np.kron(np.array(squares, np.uint8), np.full((8, 8), 255, np.uint8))


def test_the_block_of_the_document_serves_app_and_phones(behind, browser, tmp_path):
    upstream, printed, port = behind
    image = pytest.importorskip("PIL.Image")
    with run_nginx(tmp_path, BLOCK.replace("8501", upstream), port):
        site, page = f"http://{NAME}:{port}/lab/", browser.new_page()
        page.set_viewport_size({"width": 1366, "height": 650})
        open_and_settle(page, f"{site}teacher/{SECRET}")  # leads to the page of the class
        assert page.url.startswith(site + "room")
        codes = read_codes(image.open(io.BytesIO(page.screenshot())))
        assert codes == read_codes(draw_terminal(printed())) == [site + "phone"]
        with browser.new_context() as context:
            phone = context.new_page()
            phone.goto(codes[0])
            phone.get_by_text("Tea?").wait_for()
            phone.get_by_role("button", name="Yes", exact=True).click()
            page.locator(".counted > div:first-of-type b", has_text="1").first.wait_for()
        open_and_settle(page, site)
        assert page.locator(".dpmc-knob").count() == 1
        page.close()
        status, _ = send_request(
            f"http://127.0.0.1:{port}/lab/", "report", {"x": "x" * 500_000}, Host=f"{NAME}:{port}"
        )
        assert status == 413  # it arrived: it is no report
        assert "/lab/asking" in (tmp_path / "access").read_text()
    assert "Refused" not in printed()
    logs = (tmp_path / "access").read_text() + (tmp_path / "errors").read_text()
    assert SECRET not in logs
    assert "temporary file" not in logs  # no upload lies on the disk


@pytest.mark.slow
@pytest.mark.parametrize("change", [("$http_host", "$host"), ("proxy_set_header Host", "# ")])
def test_a_proxy_that_changes_the_host_gives_a_page_that_says_so(behind, browser, tmp_path, change):
    """Every script of the page is refused; it says why, and the server says it once."""
    upstream, printed, _ = behind
    before = printed().count("Refused")
    with run_nginx(tmp_path, BLOCK.replace("8501", upstream).replace(*change)) as port:
        page = browser.new_page()
        for path in ("", "train"):
            page.goto(f"http://{NAME}:{port}/lab/{path}")
            page.get_by_text("DPMC_HOSTS").wait_for()
            assert f"{NAME}:{port}" in page.locator("body").inner_text()
        page.close()
    assert printed().count("Refused") == before + 1


@pytest.mark.slow
def test_an_unknown_name_gives_a_page_that_says_what_to_do(behind, browser):
    upstream, printed, _ = behind
    page = browser.new_page()
    for path in ("", "train"):
        answer = page.goto(f"http://other.localhost:{upstream}/lab/{path}")
        assert (answer.status, answer.headers["content-type"].split(";")[0]) == (421, "text/html")
        assert "DPMC_HOSTS" in page.locator("body").inner_text()
    page.close()
    assert printed().count("other.localhost") == 1


@contextmanager
def serve_foreign_site(content):
    """Serve the content at every path of another site on this machine and yield its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as site:
        threading.Thread(target=site.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{site.server_port}/"
        finally:
            site.shutdown()


PATHS = ("", "train", "room", "no/such", "_stcore/health", "_stcore/host-config")
PATHS += ("static/index.html", "favicon.png", "phone")


@pytest.mark.slow
def test_no_page_of_another_site_shows_the_app(server, browser):
    frames = "".join(f'<iframe src="{server}{path}"></iframe>' for path in PATHS)
    with serve_foreign_site(frames) as site:
        page = browser.new_page()
        page.goto(site)
        frame_urls = {frame.url for frame in page.frames} - {site}
        assert len(page.frames) == 1 + len(PATHS)
        assert frame_urls == {"chrome-error://chromewebdata/"}
        page.close()


@pytest.mark.slow
def test_a_page_of_this_server_may_show_the_app(server, browser):
    page = browser.new_page()
    page.goto(server + "_stcore/health")
    page.evaluate("document.body.innerHTML = '<iframe src=\"/train\"></iframe>'")
    page.frame_locator("iframe").get_by_test_id("stApp").wait_for()
    page.close()


# Streamlit obeys pages of these sites where nothing else is said (client.allowedOrigins).
HOST = "https://share.streamlit.io/"
ORDER = "{ stCommVersion: 1, type: 'UPDATE_HASH', hash: '#obeyed' }"


@pytest.mark.slow
@pytest.mark.parametrize("allowed", [False, True])
def test_no_page_around_the_app_gives_it_orders(server, browser, allowed):
    """Even where the browser would show it in a frame; a server that allowed it would be told."""
    page = browser.new_page()

    def framed(route):
        answer = route.fetch()
        policy = "content-security-policy"
        assert policy in answer.headers
        headers = {name: value for name, value in answer.headers.items() if name != policy}
        route.fulfill(response=answer, headers=headers)

    def allowing(route):
        answer = route.fetch()
        config = answer.json() | {"allowedOrigins": [HOST.rstrip("/")]}
        route.fulfill(response=answer, json=config)

    if allowed:
        page.route("**/_stcore/host-config", allowing)
    embedding_page = f'<iframe src="{server}train"></iframe>'
    page.route(HOST, lambda route: route.fulfill(body=embedding_page, content_type="text/html"))
    page.route(server + "train", framed)
    with page.expect_response("**/_stcore/host-config"):  # then it knows whom to obey
        page.goto(HOST)
    page.frame_locator("iframe").get_by_test_id("stApp").wait_for()
    frame = page.frames[1]
    for _ in range(20):
        page.evaluate(f"frames[0].postMessage({ORDER}, '*')")
        page.wait_for_timeout(50)
    assert frame.evaluate("location.hash") == ("#obeyed" if allowed else "")
    page.close()
