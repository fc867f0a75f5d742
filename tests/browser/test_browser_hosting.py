"""Served to others: behind nginx as docs/hosting.md says, and never inside another site."""

import http.server
import re
import shutil
import socket
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.browser_helpers import open_and_settle, serve_app
from tests.class_helpers import SECRET, send_request

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "hosting.md"
BLOCK = re.search(r"```nginx\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)[1]
NAME = "lab.localhost"  # browsers look for such a name on this machine


def find_free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def run_nginx(folder, block):
    """Run nginx with the server of this block and yield the port it listens on."""
    port = find_free_port()
    block = block.replace("listen 80;", f"listen 127.0.0.1:{port};").replace("lab.example", NAME)
    path_kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in path_kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors;\n"
        f"events {{}}\nhttp {{ access_log off; {temporary}\n{block}}}\n"
    )
    command = [NGINX, "-e", folder / "errors", "-p", folder, "-c", folder / "nginx.conf"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while not is_listening(port):
            assert process.poll() is None, (folder / "errors").read_text()
            assert time.monotonic() < end
            time.sleep(0.05)
        yield port
    finally:
        process.kill()
        process.wait(60)


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def behind(tmp_path_factory):
    """The app at /lab, with a class: its port and what it has printed."""
    if NGINX is None:
        pytest.skip("nginx is not installed (Debian: apt install nginx-light)")
    home = tmp_path_factory.mktemp("home")
    questions = home / "questions"
    questions.write_text("Tea?\n")
    secrets = home / "secrets.toml"  # as a hosting service gives them
    secrets.write_text(f'DPMC_HOSTS = "{NAME}"\n')
    environment = {"STREAMLIT_SECRETS_FILES": str(secrets), "STREAMLIT_SERVER_BASE_URL_PATH": "lab"}
    environment |= {
        "DPMC_CLASS": "1",
        "DPMC_CLASS_SECRET": SECRET,
        "DPMC_CLASS_QUESTIONS": str(questions),
    }
    with serve_app(home, **environment) as (address, _):
        yield address.split(":")[2].split("/")[0], (home / "server.log").read_text


def test_the_block_of_the_document_serves_app_and_phones(behind, browser, tmp_path):
    upstream, printed = behind
    with run_nginx(tmp_path, BLOCK.replace("8501", upstream)) as port:
        site, page = f"http://{NAME}:{port}/lab/", browser.new_page()
        open_and_settle(page, f"{site}teacher/{SECRET}")  # leads to the page of the class
        assert page.url.startswith(site + "room")
        open_and_settle(page, site)
        assert page.locator(".dpmc-knob").count() == 1
        page.close()
        with browser.new_context() as context:  # a phone
            phone = context.new_page()
            phone.goto(site + "phone")
            phone.get_by_text("Tea?").wait_for()
        status, answer = send_request(
            f"http://127.0.0.1:{port}/lab/", "report", {}, Host=f"{NAME}:{port}"
        )
        assert (status, "error" in answer) == (400, True)  # it arrived: it is no report
    assert "Refused" not in printed()


@pytest.mark.parametrize("change", [("$http_host", "$host"), ("proxy_set_header Host", "# ")])
def test_a_proxy_that_changes_the_host_gives_a_page_that_says_so(behind, browser, tmp_path, change):
    """Every script of the page is refused; it says why, and the server says it once."""
    upstream, printed = behind
    before = printed().count("Refused")
    with run_nginx(tmp_path, BLOCK.replace("8501", upstream).replace(*change)) as port:
        page = browser.new_page()
        for path in ("", "train"):
            page.goto(f"http://{NAME}:{port}/lab/{path}")
            page.get_by_text("DPMC_HOSTS").wait_for()
            assert f"{NAME}:{port}" in page.locator("body").inner_text()
        page.close()
    assert printed().count("Refused") == before + 1


def test_an_unknown_name_gives_a_page_that_says_what_to_do(behind, browser):
    upstream, printed = behind
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


def test_no_page_of_another_site_shows_the_app(server, browser):
    frames = "".join(f'<iframe src="{server}{path}"></iframe>' for path in PATHS)
    with serve_foreign_site(frames) as site:
        page = browser.new_page()
        page.goto(site)
        frame_urls = {frame.url for frame in page.frames} - {site}
        assert len(page.frames) == 1 + len(PATHS)
        assert frame_urls == {"chrome-error://chromewebdata/"}
        page.close()


def test_a_page_of_this_server_may_show_the_app(server, browser):
    page = browser.new_page()
    page.goto(server + "_stcore/health")
    page.evaluate("document.body.innerHTML = '<iframe src=\"/train\"></iframe>'")
    page.frame_locator("iframe").get_by_test_id("stApp").wait_for()
    page.close()


# Streamlit obeys pages of these sites where nothing else is said (client.allowedOrigins).
HOST = "https://share.streamlit.io/"
ORDER = "{ stCommVersion: 1, type: 'UPDATE_HASH', hash: '#obeyed' }"


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
