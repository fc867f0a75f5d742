"""Measure how soon the app shows its first chart in Chromium, and how fast it reacts.

    python benchmarks/app_speed.py

The script starts its own server. The first visit after the start, which includes imports, is
"cold"; later visits are "warm". Times of a visit run from the server's first byte to the sentence
at the top and to the picture. While the knob is dragged over all stops, times run from each move of
the pointer to the frame after the one in which the sentence and the rule have changed. When it is
released, they run to the new address. Chromium has no graphics card here. Small files are requested
one by one over one connection, as a browser requests about a hundred at first. The same run
measures a page of Streamlit with only the same curve, and a page without Streamlit on which a range
input moves a dot and a rule. The example of each mechanism, which Train shows before a first run,
is computed once.
"""

import argparse
import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import plotly
import streamlit as st
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the pages are no part of the package

from dpmc_core import registry  # noqa: E402
from dpmc_core.model import Task  # noqa: E402
from dpmc_data import datasets  # noqa: E402
from pages.ui import runs, scene  # noqa: E402
from tests.browser_helpers import FIRST_SCREEN_SCRIPT, open_and_settle  # noqa: E402

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
SENTENCE, PICTURE = ".dpmc-say", ".dpmc-picture"
PLOTTED = ".js-plotly-plot .scatterlayer .trace"
WATCH = """() => {
  const look = () => document.querySelector('.dpmc-say').textContent
    + document.querySelector('.dpmc-picture .rule.now, .shapelayer path').getAttribute('d');
  window.answers = [];
  let start = null, before = null;
  document.querySelector('.dpmc-knob').addEventListener('pointermove', () => {
    if (start === null) { start = performance.now(); before = look(); }
  }, true);
  const frame = () => {
    if (start !== null && look() !== before) {
      const since = start;
      start = null;
      requestAnimationFrame(() => window.answers.push(performance.now() - since));
    } else if (start !== null && performance.now() - start > 400) start = null;  // the same stop
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""
ROUNDS = 6  # times that the knob is dragged there and back
STREAMLIT = "import json\nimport streamlit as st\nst.plotly_chart(json.loads({!r}), theme=None)\n"
PLAIN_PAGE = """<script>{plotly}</script><div class="dpmc-plot" style="height:400px"></div>
<span class="dpmc-say"></span><input class="dpmc-knob" type="range" max="13" style="width:700px">
<script>
  const plot = document.querySelector(".dpmc-plot"), { data, layout } = {figure}
  Plotly.newPlot(plot, data, layout)
  document.querySelector(".dpmc-knob").oninput = (event) => {
    const k = Number(event.target.value)
    document.querySelector(".dpmc-say").textContent = k
    Plotly.update(plot, { x: [[k]] }, { "shapes[0].x0": k, "shapes[0].x1": k }, [data.length - 1])
  }
</script>"""


def main() -> None:
    """Start the servers, measure them and print the results."""
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    with tempfile.TemporaryDirectory() as home:
        figure = load_first_chart()
        script_path = Path(home) / "alone.py"
        script_path.write_text(STREAMLIT.format(json.dumps(figure)), "utf-8")
        with (
            serve(os.environ | {"DPMC_HOME": home}) as (address, _),
            serve({**os.environ}, str(script_path)) as (plain_address, _),
        ):
            print_measurements(address, plain_address, figure)
    seconds = time_examples()
    slowest = max(seconds, key=seconds.__getitem__)
    longest = f"{seconds[slowest]:.2f} s ({slowest})"
    print(f"an example on Train, {len(seconds)} mechanisms: at most {longest}")


def load_first_chart() -> dict[str, Any]:
    """Return the curve that the app shows first, with its dot and its rule, for Plotly."""
    curve_scene = scene.load_shipped_scene("movie-night", "input-flip")
    assert curve_scene is not None
    stops = scene.build_view(curve_scene)["stops"]
    values, rule = [stop["value"] for stop in stops], {"type": "line", "x0": 0, "x1": 0}
    data = [{"y": values, "mode": "lines+markers"}, {"x": [0], "y": values[:1], "mode": "markers"}]
    return {"data": data, "layout": {"shapes": [rule | {"y0": 0, "y1": 1, "yref": "paper"}]}}


def time_examples() -> dict[str, float]:
    """Return the seconds that each mechanism's example takes, by id."""
    dataset, durations = datasets.load("movie-night"), {}
    for id in registry.list_private_mechanisms(Task.BINARY) + registry.list_private_mechanisms(
        Task.RATINGS
    ):
        start = time.perf_counter()
        runs.make_example_film(registry.create(id, epsilon=1.0), dataset)
        durations[id] = time.perf_counter() - start
    return durations


@contextmanager
def serve(environment: Mapping[str, str], script: str = "app.py") -> Iterator[tuple[str, int]]:
    """Start a server, and yield its address, once it answers, and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", script, "--server.headless", "true"]
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
    """Wait until the server answers."""
    for _ in range(300):
        try:
            urllib.request.urlopen(address, timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("the server did not start")


def print_measurements(address: str, plain_address: str, figure: dict[str, Any]) -> None:
    """Measure the app and the plain page in Chromium, and print the times."""
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"a small file: {1e3 * time_small_file(address):.1f} ms (median)")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        visits, plain_times = [], []
        for _ in range(6):
            visits.append(time_first_chart(chromium, address, (SENTENCE, PICTURE)))
            plain_times.append(time_first_chart(chromium, plain_address, (PLOTTED,)))
        for name, app_times, reference_times in (
            ("cold", visits[0], plain_times[0]),
            ("warm", median_by_column(visits[1:]), median_by_column(plain_times[1:])),
        ):
            print(
                f"sentence and first chart after the server answers, {name}: {app_times[0]:.2f} s,"
                f" {app_times[1]:.2f} s;"
                f" a bare page: {reference_times[0]:.2f} s"
                f" ({app_times[1] / reference_times[0]:.2f}x)"
            )
        delays, release = time_drag(chromium, address)
        p95, plain = (
            statistics.quantiles(samples, n=20)[-1]
            for samples in (delays, time_plain_page(chromium, figure))
        )
        print(
            f"pointer to picture: median {statistics.median(delays):.0f} ms, p95 {p95:.0f} ms"
            f" ({len(delays)} moves); let go to address: {1e3 * release:.0f} ms (median);"
            f" a bare Plotly page: p95 {plain:.0f} ms ({p95 / plain:.2f}x)"
        )
        for size in ((1366, 768), (1280, 720), (1920, 1080)):
            for name in ("", "train", "compare", "noise", "guarantees", "protocol", "papers"):
                n_words, controls, share = count_first_screen(chromium, address + name, size)
                title = name or "what if"
                print(f"{title} at {size}: {n_words} words, {controls} controls, figure {share} %")
        chromium.close()


def count_first_screen(chromium, address: str, size: tuple[int, int]) -> tuple[int, int, int]:
    """Return the number of words and controls in view, and the figure's share of its height."""
    page = chromium.new_page(viewport={"width": size[0], "height": size[1]})
    open_and_settle(page, address)
    counts = page.evaluate(FIRST_SCREEN_SCRIPT)
    page.close()
    return counts


def time_small_file(address: str) -> float:
    """Return the median seconds of a request for a small file."""
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


def median_by_column(pairs):
    """Return the median of each column."""
    return [statistics.median(column) for column in zip(*pairs, strict=True)]


def time_first_chart(chromium, address: str, selectors: Sequence[str]) -> list[float]:
    """Return the seconds until each selector is on the page."""
    context = chromium.new_context(viewport={"width": 1366, "height": 650})
    page = context.new_page()
    page.goto(address, wait_until="commit")
    start, durations = time.monotonic(), []
    for selector in selectors:
        page.wait_for_selector(selector, state="attached", timeout=60_000)
        durations.append(time.monotonic() - start)
    context.close()
    return durations


def time_plain_page(chromium, figure: dict[str, Any]) -> list[float]:
    """Measure like `time_drag` a page with only the chart and a range input."""
    page = chromium.new_page(viewport={"width": 1366, "height": 650})
    code = (Path(plotly.__file__).parent / "package_data/plotly.min.js").read_text("utf-8")
    page.set_content(PLAIN_PAGE.replace("{plotly}", code).replace("{figure}", json.dumps(figure)))
    page.wait_for_selector(PLOTTED, state="attached", timeout=60_000)
    page.evaluate(WATCH)
    track = page.locator(".dpmc-knob").bounding_box()
    stops = [track["x"] + 10 + (track["width"] - 20) * k / 13 for k in range(14)]
    for _ in drag_across_stops(page, stops, track["y"] + track["height"] / 2):
        page.mouse.up()
    delays: list[float] = page.evaluate("window.answers")
    return delays


def time_drag(chromium, address: str) -> tuple[list[float], float]:
    """Return milliseconds from pointer moves to the changed picture, and seconds to the address."""
    page = chromium.new_page(viewport={"width": 1366, "height": 650})
    page.goto(address + "?epsilon=0.1")
    page.wait_for_selector(PICTURE, state="attached", timeout=60_000)
    page.wait_for_timeout(2_000)
    page.evaluate(WATCH)
    releases = drag_knob(page)
    return page.evaluate("window.answers"), statistics.median(releases)


def drag_across_stops(page, stops: Sequence[float], height: float) -> Iterator[None]:
    """Drag over all stops and back, yielding each time with the button still pressed."""
    for stop_order in [stops, stops[::-1]] * ROUNDS:
        page.mouse.move(stop_order[0], height)
        page.mouse.down()
        for x in stop_order[1:]:
            page.mouse.move(x, height)
            page.wait_for_timeout(120)
        yield


def drag_knob(page) -> list[float]:
    """Drag the knob over all stops and back; return the seconds from the release to the address."""
    numbers = page.locator(".dpmc-ticks .middle:not(.axis)")
    stops = [box["x"] + box["width"] / 2 for box in list_boxes(numbers)]
    knob = page.locator(".dpmc-knob").bounding_box()
    releases = []
    for _ in drag_across_stops(page, stops, knob["y"] + knob["height"] / 2):
        before = page.url
        start = time.monotonic()
        page.mouse.up()
        while page.evaluate("location.href") == before:
            page.wait_for_timeout(5)
        releases.append(time.monotonic() - start)
    return releases


def list_boxes(locator):
    """Return the bounding boxes of all elements."""
    return [element.bounding_box() for element in locator.all()]


if __name__ == "__main__":
    main()
