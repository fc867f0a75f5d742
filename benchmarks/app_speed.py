"""How soon the app shows its first chart in Chromium, and how fast the slider answers.

    python benchmarks/app_speed.py

Starts its own server. Cold: the first visit after the start, imports included; warm: later visits.
Times run from the server's first byte; the slider from the key press to the first frame in which
the tile, and the rule in the chart, have moved. Chromium draws without a graphics card here. Small
files are asked for one by one over one connection, as a browser asks for a hundred at first.
"""

import http.client
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
DRAWN = '[data-testid="stPlotlyChart"] .main-svg .scatterlayer .trace'
WATCH = """() => {
  const tile = () => document.querySelector('[data-testid=stMetricLabel]')?.innerText;
  const rule = () => document.querySelector('[data-testid=stPlotlyChart] .shapelayer path')
    ?.getAttribute('d');
  window.answers = [];
  let start = null, before = null, seen = null;
  document.addEventListener('keydown', () => {
    start = performance.now(); before = [tile(), rule()]; seen = [null, null];
  }, true);
  const look = () => {
    if (start !== null) {
      [tile(), rule()].forEach((now, k) => {
        if (seen[k] === null && now && now !== before[k]) seen[k] = performance.now() - start;
      });
      if (seen.every(t => t !== null)) { window.answers.push(seen); start = null; }
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as home,
        serve(os.environ | {"DPMC_HOME": home}) as (address, _),
    ):
        measure(address)


@contextmanager
def serve(environment: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """A server of its own; its address, once it answers, and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless", "true"]
    server = subprocess.Popen(
        [*command, "--server.port", str(port)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        address = f"http://127.0.0.1:{port}/"
        wait_for(address + "_stcore/health")
        yield address, server.pid
    finally:
        server.terminate()
        server.wait()


def wait_for(address: str) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(address, timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("the server did not start")


def measure(address: str) -> None:
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"a small file: {1e3 * small_file(address):.1f} ms (median)")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        visits = [first_chart(chromium, address) for _ in range(6)]
        print(f"first chart after the server answers, cold: {visits[0]:.2f} s")
        print(f"first chart after the server answers, warm: {statistics.median(visits[1:]):.2f} s")
        tile, rule = slider(chromium, address)
        print(f"slider to tile: {tile:.0f} ms, slider to rule: {rule:.0f} ms (medians)")
        chromium.close()


def small_file(address: str) -> float:
    scripts = Path(st.__file__).parent / "static" / "static" / "js"
    connection = http.client.HTTPConnection(urlsplit(address).netloc)
    times = []
    for file in sorted(scripts.glob("*.js"), key=lambda file: file.stat().st_size)[:60]:
        start = time.perf_counter()
        connection.request("GET", f"/static/js/{file.name}")
        connection.getresponse().read()
        times.append(time.perf_counter() - start)
    connection.close()
    return statistics.median(times)


def first_chart(chromium, address: str) -> float:
    context = chromium.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.goto(address, wait_until="commit")
    start = time.monotonic()
    page.wait_for_selector(DRAWN, state="attached", timeout=60_000)
    seconds = time.monotonic() - start
    context.close()
    return seconds


def slider(chromium, address: str) -> tuple[float, float]:
    page = chromium.new_page(viewport={"width": 1400, "height": 900})
    page.goto(address + "?epsilon=0.1")
    page.wait_for_selector(DRAWN, state="attached", timeout=60_000)
    page.wait_for_timeout(1_000)
    page.evaluate(WATCH)
    handle = page.locator('[data-testid="stSlider"] input').first
    handle.focus()
    for _ in range(13):
        handle.press("ArrowRight")
        page.wait_for_timeout(800)
    answers = page.evaluate("window.answers")
    tiles, rules = zip(*answers, strict=True)
    return statistics.median(tiles), statistics.median(rules)


if __name__ == "__main__":
    main()
