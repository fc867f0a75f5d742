"""How soon the Compare page opens in Chromium on a large store, and shows a sweep's first point.

    python benchmarks/compare_speed.py [--rows N]

Starts its own server over a store of its own: the rows of store_million.py and a few real ones, so
that the page has points to draw. Times run to the first point that is drawn: from the press on the
page's name in the app, from the request by a browser that has never loaded anything of Streamlit,
and from the press on Start. The server has been visited before.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import app_speed
import store_million
from playwright.sync_api import Error, sync_playwright

POINTS = '[data-testid="stPlotlyChart"] .scatterlayer .trace .points path'
REAL = ("--data", "movie-night", "--mechanisms", "input-flip", "--epsilons", "1,2", "--seeds", "1")
OLD = "compare?data=movie-night&mechanisms=input-flip"
NEW = "compare?data={}&grid=medium&seeds=3&mechanisms=input-flip&mechanisms=output"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {"DPMC_HOME": home}
        dpmc = [sys.executable, "-m", "dpmc_core"]
        subprocess.run([*dpmc, "sweep", *REAL], cwd=app_speed.ROOT, env=environment, check=True)
        count = store_million.fill(Path(home) / "results.sqlite", args.rows // 5_200 + 1, 100)
        print(f"{count:,} rows, load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        with app_speed.serve(environment) as (address, _), sync_playwright() as playwright:
            chromium = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=app_speed.FLAGS
            )
            opened(chromium, address + OLD)
            tell("opened from another page", [turned_to(chromium, address) for _ in range(5)])
            tell("opened by an empty browser", [opened(chromium, address + OLD) for _ in range(5)])
            fresh = ("movie-night", "restaurants", "one-bit-lab")
            tell(
                "first point of a sweep",
                [started(chromium, address + NEW.format(x)) for x in fresh],
            )
            chromium.close()


def tell(what: str, seconds: list[float]) -> None:
    print(f"{what}: best {min(seconds):.2f} s, median {statistics.median(seconds):.2f} s")


def opened(chromium, address: str) -> float:
    """Seconds from the request to the first point, in a browser that has nothing in its cache."""
    context = chromium.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    begin = time.monotonic()
    page.goto(address, wait_until="commit")
    page.wait_for_selector(POINTS, state="attached", timeout=60_000)
    seconds = time.monotonic() - begin
    context.close()
    return seconds


def turned_to(chromium, address: str) -> float:
    """Seconds from the press on the page's name, on the start page, to the first point."""
    page = chromium.new_page(viewport={"width": 1400, "height": 900})
    page.goto(address + OLD.replace("compare", ""))
    page.wait_for_selector(app_speed.PLOTTED, state="attached", timeout=60_000)
    page.wait_for_timeout(1_000)
    begin = time.monotonic()
    page.get_by_test_id("stTopNavSection").filter(has_text="Try").click()
    page.get_by_role("menuitem", name="Compare").click()
    page.wait_for_url("**/compare*")
    page.wait_for_selector(POINTS, state="attached")
    seconds = time.monotonic() - begin
    page.close()
    return seconds


def started(chromium, address: str) -> float:
    """Seconds from Start to the first point more than the page had."""
    page = chromium.new_page(viewport={"width": 1400, "height": 900})
    page.goto(address)
    page.get_by_role("button", name="Cancel", exact=True).wait_for()
    page.wait_for_timeout(1_000)
    before = page.locator(POINTS).count()
    start = page.get_by_role("button", name="Start", exact=True)
    resume = page.get_by_role("button", name="Resume", exact=True)
    begin = time.monotonic()
    start.or_(resume).click()
    page.wait_for_function(
        "([points, n]) => document.querySelectorAll(points).length > n", arg=[POINTS, before]
    )
    seconds = time.monotonic() - begin
    with suppress(Error):  # where it has not come to its end meanwhile
        page.get_by_role("button", name="Cancel", exact=True).click(timeout=2_000)
    page.close()
    return seconds


if __name__ == "__main__":
    main()
