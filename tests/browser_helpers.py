"""The app's server, and a page in Chromium, waited for until it is at rest."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from app import SECTIONS
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DOWNLOAD = re.compile("Download$")  # the button; those of charts are "Download plot as a PNG"
TIMEOUT_MS = 300_000  # that a browser waits for what will come; a test has several such waits
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# Told to every page before anything else: whether the server has answered what it was last sent.
# Until it has, the script that will run still rests.
TRACK_ANSWERS_SCRIPT = """{
  const send = WebSocket.prototype.send, heard = () => { window.unanswered = false; };
  WebSocket.prototype.send = function (...sent) {
    window.unanswered = true;
    this.addEventListener('message', heard);  // the same listener is added once
    return send.apply(this, sent);
  };
}"""
# Connected, all answered, the script at rest, nothing stale or loading, every chart drawn.
BUSY_SCRIPT = """() => {
  const app = document.querySelector('[data-testid="stApp"]');
  if (!app) return 'no app';
  if (app.dataset.testConnectionState !== 'CONNECTED') return 'not connected';
  if (window.unanswered) return 'not answered';
  if (app.dataset.testScriptState !== 'notRunning') return 'script is running';
  if (document.querySelector('[data-testid="stSkeleton"],[data-testid="stAppSkeleton"],'
      + '[data-testid="stSpinner"],[data-stale="true"]')) return 'loading';
  if (!document.querySelector('[data-testid="stMain"] [data-testid="stElementContainer"]'))
    return 'empty';
  for (const chart of document.querySelectorAll('[data-testid="stPlotlyChart"]'))
    if (!chart.querySelector('.main-svg')) return 'a chart is not drawn';
  return '';
}"""


@contextmanager
def open_chromium():
    """A browser whose pages wait as long as a busy machine may take."""
    from playwright.sync_api import expect, sync_playwright

    def with_timeout(make):
        def make_patient(**options):
            context = make(**options)
            context.set_default_timeout(TIMEOUT_MS)
            context.add_init_script(TRACK_ANSWERS_SCRIPT)
            return context

        return make_patient

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        expect.set_options(timeout=TIMEOUT_MS)
        browser.new_context = with_timeout(browser.new_context)
        browser.new_page = with_timeout(browser.new_page)
        yield browser
        browser.close()


@contextmanager
def serve_app(home, script="app.py", **environment):
    """A server of a script on a free port, with a home of its own: its address and its process."""
    base = environment.get("STREAMLIT_SERVER_BASE_URL_PATH", "")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.headless", "true"]
    command += ["--server.port", str(port)]
    with (home / "server.log").open("a") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {"DPMC_HOME": str(home), "PYTHONPATH": str(ROOT)} | environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            address = f"http://127.0.0.1:{port}/" + (base and base + "/")
            health = address + "_stcore/health"
            wait_for(lambda: _is_reachable(health) or process.poll() is not None)
            assert process.poll() is None, (home / "server.log").read_text()
            yield address, process
        finally:
            process.kill()
            process.wait(60)


def _is_reachable(address):
    try:
        with urllib.request.urlopen(address, timeout=2):
            return True
    except OSError:
        return False


@contextmanager
def open_offline_tabs(browser, ready_selector):
    """Opens a file in a tab of its own that has no network; it must ask for itself alone.

    ready_selector: a selector of what is there once it is.
    """
    contexts, wrong = [], []

    def open_(address, fragment="", **options):
        context = browser.new_context(**({"viewport": {"width": 1366, "height": 650}} | options))
        requested_urls = []
        contexts.append((context, address, requested_urls))
        context.set_offline(True)
        tab = context.new_page()
        tab.route("**/*", lambda r: r.continue_() if r.request.url == address else r.abort())
        tab.on("request", lambda request: requested_urls.append(request.url))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on(
            "console",
            lambda console_message: (
                console_message.type == "error" and wrong.append(console_message.text)
            ),
        )
        tab.goto(address + fragment)
        tab.wait_for_selector(ready_selector, state="attached")
        return tab

    yield open_
    for context, address, requested_urls in contexts:
        context.close()
        assert {url.partition("#")[0] for url in requested_urls} == {address}
    assert not wrong


def settle(page, quiet=0.3):
    """Wait until the page has been at rest for a moment."""
    busy_reason, quiet_start = None, None

    def is_at_rest():
        nonlocal busy_reason, quiet_start
        busy_reason, now = page.evaluate(BUSY_SCRIPT), time.monotonic()
        quiet_start = None if busy_reason else quiet_start or now
        return quiet_start is not None and now - quiet_start >= quiet

    def explain():
        return f"the page did not settle: {busy_reason}"

    wait_for(is_at_rest, lambda: page.wait_for_timeout(30), explain)


def open_and_settle(page, address):
    page.goto(address)
    settle(page)


def navigate_to(page, title):
    """To another page by mouse: its entry in the navigation, in a section's menu or beside them."""
    section = next(
        name for name, entries in SECTIONS.items() if title in {e.title for e in entries}
    )
    departed_path = page.evaluate("location.pathname")
    if section:
        page.get_by_test_id("stTopNavSection").filter(has_text=section).click()
        page.get_by_role("menuitem", name=title, exact=True).click()
    else:
        page.get_by_test_id("stTopNavLink").filter(has_text=title).click()
    # Until then everything there is to find is still the page that was left.
    page.wait_for_function("left => location.pathname !== left", arg=departed_path)


def upload_ratings(page, server, folder):
    """Ratings of 30 users and 20 items, written to `folder`, uploaded on Your data and read."""
    open_and_settle(page, server + "data?way=upload")
    read_ratings(page, folder)


def read_ratings(page, folder):
    """The same where a file can be chosen on the page."""
    file = folder / "mine.csv"
    rows = [f"u{u},i{i},{1 + (u * i) % 5}" for u in range(30) for i in range(20) if (u + i) % 3]
    file.write_text("\n".join(["user,item,stars", *rows]) + "\n")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Upload", exact=True).click()
    chooser.value.set_files(file)
    settle(page)
    page.get_by_role("radio", name="1 to 5", exact=True).click()
    page.get_by_role("button", name="Read the ratings").click()
    page.get_by_text("Forget this upload").wait_for(state="attached")


# Of what stands in the window: words but for titles of the data, controls, where alternatives side
# by side are one, and the share of the height that the figure takes.
FIRST_SCREEN_SCRIPT = """() => {
  const shown = (e) => {
    const box = e.getBoundingClientRect(), middle = (box.top + box.bottom) / 2;
    return e.checkVisibility({ opacityProperty: true, visibilityProperty: true })
      && box.width > 1 && box.height > 1 && middle > 0 && middle < innerHeight;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const unread = 'svg, script, style, .st-key-question h1, [data-testid="stIconMaterial"]';
  let words = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (parent.closest(unread) || !shown(parent)
      || parent.closest('.dpmc-lists li')) continue;
    words += node.textContent.split(/\\s+/).filter((word) => /\\w/.test(word)).length;
  }
  const found = new Set();
  for (const e of document.querySelectorAll(
    'button, a[href], input, select, textarea, [role=slider], [role=combobox]')) {
    if (!shown(e)) continue;
    found.add(e.closest(
      '[role=radiogroup], [role=group], [role=toolbar], [data-testid="stSelectbox"]')
      || e.closest('button, a') || e);
  }
  const figure = document.querySelector('.dpmc-chart, .st-key-run, .st-key-figure .stPlotlyChart');
  const box = figure?.getBoundingClientRect() ?? { top: 0, bottom: 0 };
  const high = Math.min(box.bottom, innerHeight) - Math.max(box.top, 0);
  return [words, found.size, Math.round(100 * high / innerHeight)];
}"""
