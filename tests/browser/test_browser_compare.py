"""The Compare page in Chromium: a sweep that starts, fills the chart, survives and is resumed."""

import csv
import io
import re
import time
from pathlib import Path

import pytest

from tests.browser_helpers import DOWNLOAD, navigate_to, open_and_settle, settle
from tests.waiting import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.slow_unless_planted]

# Of the curves: names at the right have markers of their own.
POINTS = """() => {
  const curves = (document.querySelector('.js-plotly-plot')?.data ?? [])
      .filter(trace => trace.name && trace.marker);
  return curves.reduce((sum, trace) => sum + trace.x.length, 0);
}"""
# With a cap there are no shipped curves, so that the chart starts empty.
GRID = (
    "compare?data=movie-night&grid=medium&seeds=3&mechanisms=input-flip&mechanisms=output&cap=400"
)


def find_button(page, name):
    main = page.get_by_test_id("stMainBlockContainer")  # the header has a Stop too
    return main.get_by_role("button", name=name, exact=True)


def read_run_counts(page):
    """Return (finished, all) as the page states them, or None while it states neither."""
    run_texts = page.get_by_text(re.compile(r"\d+ of \d+ runs")).all_inner_texts()
    match = re.search(r"(\d+) of (\d+) runs", run_texts[0]) if run_texts else None
    return (int(match[1]), int(match[2])) if match else None


@pytest.mark.slow
def test_a_sweep_fills_the_chart_survives_a_reload_is_cancelled_resumed_and_downloaded(
    page, server
):
    open_and_settle(page, server + GRID)
    assert page.evaluate(POINTS) == 0
    find_button(page, "Start").click()
    wait_for(lambda: page.evaluate(POINTS) >= 2)
    few = page.evaluate(POINTS)
    wait_for(lambda: page.evaluate(POINTS) > few)  # by themselves
    navigate_to(page, "Noise")
    page.get_by_role("heading", name="Noise").first.wait_for()
    navigate_to(page, "Compare")
    page.get_by_role(
        "heading", name="Compare mechanisms"
    ).wait_for()  # the other page has charts too
    wait_for(lambda: page.evaluate(POINTS) > few)
    page.reload()
    page.get_by_role("heading", name="Compare mechanisms").wait_for()
    wait_for(lambda: page.evaluate(POINTS) > few)
    settle(page)
    assert find_button(page, "Stop").is_enabled()  # this very sweep still runs
    before = read_run_counts(page)
    wait_for(lambda: (now := read_run_counts(page)) is not None and now[0] > before[0])
    find_button(page, "Stop").click()
    find_button(page, "Go on").wait_for()
    settle(page)
    saved_runs = read_run_counts(page)
    time.sleep(1.5)
    page.reload()
    settle(page)
    assert read_run_counts(page) == saved_runs  # nothing runs on
    assert saved_runs[0] < saved_runs[1]
    find_button(page, DOWNLOAD).click()
    settle(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Rows (CSV)").click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
    assert len(rows) == saved_runs[0]
    assert {"input-flip", "output"} <= {row["mechanism"] for row in rows}
    with page.expect_download() as download:
        page.get_by_role("button", name="Charts and numbers (HTML)").click()
    downloaded = Path(download.value.path()).read_text()
    assert "plotly.js" in downloaded
    assert "dpmc sweep" in downloaded
    page.keyboard.press("Escape")
    find_button(page, "Go on").click()
    wait_for(lambda: (now := read_run_counts(page)) is not None and now[0] > saved_runs[0])
    find_button(page, "Stop").click()
    find_button(page, "Go on").wait_for()


def read_command(page):
    """Return the command line that does what the page shows."""
    find_button(page, DOWNLOAD).click()
    command_text = page.get_by_test_id("stCode").filter(has_text="dpmc sweep").first.text_content()
    page.keyboard.press("Escape")
    return command_text


# The boxes of a chart's names, its right end and that of its frame, in pixels.
NAMES = """() => [...document.querySelectorAll('.js-plotly-plot')].map(chart => {
  const box = e => {
    const found = e.getBoundingClientRect();
    return [found.left, found.top, found.right, found.bottom];
  };
  const [left, , edge] = box(chart), size = chart._fullLayout._size;
  const beside = note => note.xref === 'paper' && note.x === 1;
  const names = [...chart.querySelectorAll('.annotation-text')]
      .filter((_, k) => beside(chart.layout.annotations[k]));
  return { edge, frame: left + size.l + size.w, names: names.map(box) };
})"""


LINKS = ["data=bookshop-clicks", "data=movie-night&task=ratings"]


@pytest.mark.slow
def test_the_smallest_epsilon_for_a_wanted_accuracy_by_keyboard(page, server):
    """Only the slider is moved; the answer stands in the panel and over the dots."""
    open_and_settle(page, server + "compare?data=restaurants")
    slider = page.get_by_role("slider", name="Target accuracy")
    slider.focus()
    while float(slider.input_value()) < 70:
        page.keyboard.press("ArrowRight")
    heading = page.get_by_role("heading", name=re.compile(r"Accuracy 70\.0.% takes epsilon"))
    heading.wait_for()
    settle(page)
    sentence = heading.inner_text()
    smallest_epsilon = re.search(r"epsilon\s([\d.]+)", sentence)[1]
    annotations = page.locator(".js-plotly-plot").nth(1).locator(".annotation-text")
    assert smallest_epsilon in annotations.all_text_contents()
    page.wait_for_url(re.compile("wanted"))
    address = page.url
    open_and_settle(page, address)
    assert heading.inner_text() == sentence
