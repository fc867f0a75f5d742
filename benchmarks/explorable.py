"""How soon What if as one HTML file stands there, and how fast it answers the pointer.

    python benchmarks/explorable.py

Writes the file of a sample, opens it from the disk in Chromium with the network off, and drags the
knob over all stops as benchmarks/app_speed.py does with the page. Chromium draws without a graphics
card here. Then what a visitor's lists are worth, judged by people whom the runs had not seen.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from app_speed import FLAGS, FRAME, PLOTTED, ROOT, WATCH, drag_over
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(ROOT))  # the pages are no part of the package

from dpmc_core.data import datasets
from dpmc_core.lab.views import people
from pages.ui import explorable, scene

OPENED = 5  # times
LIMIT = 50.0  # milliseconds from pointer to picture


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    start = time.perf_counter()
    text = explorable.sample("movie-night").encode()
    print(f"made in {time.perf_counter() - start:.1f} s: {len(text) / 1e6:.2f} MB")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "what-if.html"
        file.write_bytes(text)
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        context = chromium.new_context(viewport={"width": 1366, "height": 650}, offline=True)
        asked: list[str] = []
        context.on("request", lambda request: asked.append(request.url))
        seconds = [first_chart(context, file.as_uri()) for _ in range(OPENED)]
        print(f"opened to Plotly's chart: {statistics.median(seconds):.2f} s (median of {OPENED})")
        page = context.new_page()
        page.goto(file.as_uri() + "#epsilon=0.1")
        page.wait_for_selector(PLOTTED, state="attached")
        page.wait_for_timeout(1_000)
        page.evaluate(WATCH)
        drag_over(page)
        moves = page.evaluate("window.answers")
        p95 = statistics.quantiles(moves, n=20)[-1]
        median = statistics.median(moves)
        print(f"pointer to picture: median {median:.0f} ms, p95 {p95:.0f} ms ({len(moves)} moves)")
        print(f"requests: {len(asked)}, all of them the file: {set(asked) <= {file.as_uri()}}")
        chromium.close()
    joined("movie-night")
    sys.exit(f"above {LIMIT:g} ms" if median >= LIMIT else 0)


def joined(data: str) -> None:
    start = time.perf_counter()
    methods = scene.at_stops("input-flip")
    found = people.yours(methods, datasets.load(data), lambda *_: None)
    seconds, size = time.perf_counter() - start, len(found.numbers) / 1e3
    print(f"\na visitor of {data}: made in {seconds:.0f} s, {size:.0f} kB of item factors")
    print("epsilon  folded  for all  most rated  ahead by at least")
    for name, one in zip([*(f"{m.epsilon:g}" for m in methods), "none"], found.judged, strict=True):
        shares = f"{one.mine:7.1%} {one.same:8.1%} {one.rated:11.1%} {100 * one.ahead:+9.2f} points"
        print(f"{name:>7} {shares}  {one.name}")


def first_chart(context, address: str) -> float:
    page = context.new_page()
    start = time.monotonic()
    page.goto(address, wait_until="commit")
    page.wait_for_selector(FRAME, state="attached")
    page.wait_for_selector(PLOTTED, state="attached")
    seconds = time.monotonic() - start
    page.close()
    return seconds


if __name__ == "__main__":
    main()
