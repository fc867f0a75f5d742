"""Measure how soon the app shows its first chart in Chromium, and how fast and steady it is.

    python benchmarks/app_speed.py [--seconds 240]

All times are compared within one run: the app takes turns with a page of Streamlit that has only
the same curve as a Plotly chart, and its knob with a range input that moves one line on a page
without Streamlit. The script starts its own servers, several times. The first visit after a start,
which includes imports, is "cold"; later visits are "warm", with an empty browser cache. Times of a
visit run from the server's first byte to the sentence at the top and to the picture.

While the knob is dragged over all stops, times run from each move of the pointer to the frame after
the one in which the sentence and the rule have changed. When it is released, they run to the new
address. The processor time of a move, on the thread that draws, depends less on what else the
machine does. It includes the marks that turn until the next move. Chromium has no graphics card
here.

Then each page is opened for its layout shift and for what stands on its first screen, and the
example of each mechanism, which Train shows before a first run, is computed once. What there is no
time left for is left out, and the script says so.
"""

import argparse
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
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the pages are no part of the package

from app import SECTIONS  # noqa: E402
from dpmc_core import registry  # noqa: E402
from dpmc_core.model import Task  # noqa: E402
from dpmc_data import datasets  # noqa: E402
from pages.ui import runs, scene  # noqa: E402
from tests.browser_helpers import FIRST_SCREEN_SCRIPT, open_and_settle  # noqa: E402

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
SENTENCE, PICTURE = ".dpmc-say", ".dpmc-picture"
PLOTTED = ".js-plotly-plot .scatterlayer .trace"
SIZES = {"laptop": (1366, 768), "phone": (390, 844)}
STARTS, WARM_VISITS = 3, 2  # of both servers, and visits of each after the first one
ROUNDS = 6  # times that each knob is dragged there and back
TIMEOUT_MS = 30_000
# The page is looked at in each frame from a move on, until it has answered or time has shown that
# the move did not leave its stop.
WATCH = """() => {
  const look = () => document.querySelector('.dpmc-say').textContent
    + document.querySelector('.dpmc-picture .rule.now').getAttribute('d');
  window.answers = [];
  let start = null, before = null;
  const frame = () => {
    if (look() !== before) {
      const since = start;
      start = null;
      requestAnimationFrame(() => window.answers.push(performance.now() - since));
    } else if (performance.now() - start > 400) start = null;
    else requestAnimationFrame(frame);
  };
  document.querySelector('.dpmc-knob').addEventListener('pointermove', (event) => {
    if (start !== null) return;
    start = event.timeStamp;
    before = look();
    requestAnimationFrame(frame);
  }, true);
}"""
SHIFTS = """{
  window.shift = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
  }).observe({ type: 'layout-shift', buffered: true });
}"""
STREAMLIT = "import json\nimport streamlit as st\nst.plotly_chart(json.loads({!r}), theme=None)\n"
BARE_SLIDER = """<p class="dpmc-say">0</p>
<svg class="dpmc-picture" width="700" height="400">
  <path class="rule now" d="M0 0V400" stroke="black"/>
</svg>
<input class="dpmc-knob" type="range" max="13" value="0" style="display:block; width:700px">
<script>
  document.querySelector(".dpmc-knob").oninput = ({ target }) => {
    document.querySelector(".dpmc-say").textContent = target.value
    document.querySelector(".rule").setAttribute("d", "M" + 50 * target.value + " 0V400")
  }
</script>"""


def main() -> None:
    """Measure what there is time for, and print the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=240, help="after which nothing new begins")
    clock = Clock(parser.parse_args().seconds)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        script = Path(home) / "bare.py"
        script.write_text(STREAMLIT.format(json.dumps(load_first_chart())), "utf-8")
        serve_app = partial(serve, os.environ | {"DPMC_HOME": home})
        print_first_charts(chromium, serve_app, str(script), clock)
        with serve_app() as (address, _):
            open_tab(chromium, address).context.close()  # the first visit
            print_drags(chromium, address, clock)
            print_first_screens(chromium, address, clock)
        chromium.close()
    print_examples(clock)


class Clock:
    """The time of this run, which whatever is measured several times looks at.

    Attributes:
        end: when nothing new begins.
    """

    def __init__(self, seconds: float) -> None:
        self.start = time.monotonic()
        self.end = self.start + seconds

    def allows(self, what: str, share: float = 1.0) -> bool:
        """Return whether a share of the time is left over; if it is not, say what is left out."""
        if time.monotonic() < self.start + share * (self.end - self.start):
            return True
        print(f"no time is left for {what}", flush=True)
        return False


def load_first_chart() -> dict[str, Any]:
    """Return the curve that the app shows first, with its dot and its rule, for Plotly."""
    curve_scene = scene.load_shipped_scene("movie-night", "input-flip")
    assert curve_scene is not None
    stops = scene.build_view(curve_scene)["stops"]
    values, rule = [stop["value"] for stop in stops], {"type": "line", "x0": 0, "x1": 0}
    data = [{"y": values, "mode": "lines+markers"}, {"x": [0], "y": values[:1], "mode": "markers"}]
    return {"data": data, "layout": {"shapes": [rule | {"y0": 0, "y1": 1, "yref": "paper"}]}}


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


# --- the first chart -----------------------------------------------------------------------------


def print_first_charts(chromium, serve_app, script: str, clock: Clock) -> None:
    """Print the time until the first chart, relative to a bare page of Streamlit."""
    times: dict[str, list[list[float]]] = {"cold": [], "warm": []}
    for start in range(STARTS):
        if start and not clock.allows("another start of the servers", 0.4):
            break
        with serve_app() as (address, _), serve_app(script=script) as (bare_address, _):
            for visit in range(1 + WARM_VISITS):
                app_times = time_first_chart(chromium, address, (SENTENCE, PICTURE))
                bare_times = time_first_chart(chromium, bare_address, (PLOTTED,))
                times["warm" if visit else "cold"].append(app_times + bare_times)
    for name, visits in times.items():
        sentence, picture, bare = map(statistics.median, zip(*visits, strict=True))
        print(
            f"first chart, {name}: {picture:.2f} s, its sentence {sentence:.2f} s,"
            f" a bare page {bare:.2f} s: {picture / bare:.2f} of it (median of {len(visits)})",
            flush=True,
        )


def time_first_chart(chromium, address: str, selectors: Sequence[str]) -> list[float]:
    """Return the seconds until each selector is on the page."""
    page = open_tab(chromium)
    page.goto(address, wait_until="commit")
    start, durations = time.monotonic(), []
    for selector in selectors:
        page.wait_for_selector(selector, state="attached")
        durations.append(time.monotonic() - start)
    page.context.close()
    return durations


def open_tab(chromium, address: str = "", size: tuple[int, int] = SIZES["laptop"]):
    """Open a tab with an empty cache that sums up its layout shifts, and wait for its picture."""
    context = chromium.new_context(viewport={"width": size[0], "height": size[1]})
    context.set_default_timeout(TIMEOUT_MS)
    context.add_init_script(SHIFTS)
    page = context.new_page()
    if address:
        page.goto(address)
        page.wait_for_selector(PICTURE, state="attached")
        page.wait_for_timeout(2_000)
    return page


# --- the knob ------------------------------------------------------------------------------------


def print_drags(chromium, address: str, clock: Clock) -> None:
    """Print the time from the pointer to the picture, relative to a bare range input."""
    page, bare_page = open_tab(chromium, address + "?epsilon=0.1"), open_tab(chromium)
    bare_page.set_content(BARE_SLIDER)
    seconds, releases = {}, []
    for tab in (page, bare_page):
        tab.evaluate(WATCH)
        seconds[tab] = Processor(tab)
    for k in range(2 * ROUNDS):
        if k and not clock.allows("another drag", 0.8):
            break
        for tab in (page, bare_page):
            tab.bring_to_front()
            with seconds[tab]:
                drag_knob(tab, backwards=bool(k % 2))
            start, before = time.monotonic(), tab.evaluate("location.href")
            tab.mouse.up()
            if tab is page:
                tab.wait_for_function("before => location.href !== before", arg=before)
                releases.append(time.monotonic() - start)
                tab.wait_for_timeout(500)
    (median, p95, n, cost), (bare_median, bare_p95, _, bare_cost) = (
        summarise_drags(tab.evaluate("window.answers"), seconds[tab]) for tab in (page, bare_page)
    )
    print(
        f"pointer to picture: p50 {median:.0f} ms, p95 {p95:.0f} ms ({n} moves); a bare range"
        f" input {bare_median:.0f} ms, {bare_p95:.0f} ms:"
        f" {median / bare_median:.2f} and {p95 / bare_p95:.2f} of it\n"
        f"processor time of a move: {cost:.1f} ms; a bare range input {bare_cost:.1f} ms\n"
        f"let go to address: {1e3 * statistics.median(releases):.0f} ms (median)",
        flush=True,
    )
    page.context.close()
    bare_page.context.close()


class Processor:
    """The processor time of a tab's main thread, within a `with` statement."""

    def __init__(self, page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.seconds = 0.0

    def _read(self) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

    def __enter__(self) -> None:
        self.seconds -= self._read()

    def __exit__(self, *_: object) -> None:
        self.seconds += self._read()


def summarise_drags(delays: Sequence[float], processor: Processor) -> tuple[float, ...]:
    """Return the median delay, its 95th percentile, their number, and milliseconds of a move."""
    p95 = statistics.quantiles(delays, n=20)[-1]
    return statistics.median(delays), p95, len(delays), 1e3 * processor.seconds / len(delays)


def drag_knob(page, *, backwards: bool) -> None:
    """Drag the knob from one end to the other, stop by stop, and keep it pressed."""
    box = page.locator(".dpmc-knob").bounding_box()
    thumb = box["height"] * 0.64  # as wide as high, see pages/ui/instrument.css
    stops = [box["x"] + thumb / 2 + (box["width"] - thumb) * k / 13 for k in range(14)]
    y = box["y"] + box["height"] / 2
    for k, x in enumerate(stops[::-1] if backwards else stops):
        page.mouse.move(x, y)
        if k == 0:
            page.mouse.down()
        page.wait_for_timeout(120)


# --- all pages -----------------------------------------------------------------------------------


def print_first_screens(chromium, address: str, clock: Clock) -> None:
    """Print each page's layout shift, and what is in view on a laptop."""
    for entry in (entry for section in SECTIONS.values() for entry in section):
        if not clock.allows(f"{entry.title} and the pages after it"):
            break
        shifts = []
        for size in SIZES.values():
            page = open_tab(chromium, size=size)
            open_and_settle(page, address + entry.file.replace("what_if", ""))
            shifts.append(page.evaluate("window.shift"))
            if size == SIZES["laptop"]:
                n_words, controls, share = page.evaluate(FIRST_SCREEN_SCRIPT)
            page.context.close()
        print(
            f"{entry.title}: layout shift {' and '.join(f'{s:.3f}' for s in shifts)} on a laptop"
            f" and a phone; {n_words} words, {controls} controls, figure {share} %",
            flush=True,
        )


def print_examples(clock: Clock) -> None:
    """Print how long the slowest example of a mechanism takes."""
    dataset, durations = datasets.load("movie-night"), {}
    for id in (
        *registry.list_private_mechanisms(Task.BINARY),
        *registry.list_private_mechanisms(Task.RATINGS),
    ):
        if not clock.allows("further examples on Train"):
            break
        start = time.perf_counter()
        runs.make_example_film(registry.create(id, epsilon=1.0), dataset)
        durations[id] = time.perf_counter() - start
    if durations:
        slowest = max(durations, key=durations.__getitem__)
        print(
            f"an example on Train, {len(durations)} mechanisms: at most"
            f" {durations[slowest]:.2f} s ({slowest})"
        )


if __name__ == "__main__":
    main()
