"""No page jumps while it loads, on a laptop and a phone: its layout shift on two visits."""

import pytest

from app import SECTIONS
from tests.browser_helpers import open_and_settle
from tests.slow_helpers import mark_rest_slow

pytestmark = [pytest.mark.browser, pytest.mark.slow_unless_planted]

MAX_SHIFT = 0.1
# A page without app.py in front of it makes a fresh server take `pages/` for an older kind of app.
PAGES = sorted(
    (entry.file for section in SECTIONS.values() for entry in section),
    key=lambda page: page != "train",
)
# Every shift with what moved most: its class, its text and its place before and after.
RECORD_SCRIPT = """{
  window.shifts = [];
  const place = box => [box.x, box.y, box.width, box.height].map(Math.round).join(" ");
  const describe = ({ node, previousRect, currentRect }) => {
    const element = node?.nodeType === 1 ? node : node?.parentElement;
    const text = element?.innerText?.slice(0, 40);
    return [element?.className, text, place(previousRect), place(currentRect)].join(" | ");
  };
  new PerformanceObserver(list => {
    for (const entry of list.getEntries())
      if (!entry.hadRecentInput)
        window.shifts.push([entry.value, entry.sources.slice(0, 1).map(describe).join()]);
  }).observe({ type: "layout-shift", buffered: true });
}"""


SIZES = {"laptop": (1366, 768), "phone": (390, 844)}


@pytest.mark.parametrize("page", mark_rest_slow(PAGES))
def test_a_page_stays_where_it_is_while_it_loads(browser, server, page):
    for visit in ("first", "second"):
        for device, (width, height) in SIZES.items():
            context = browser.new_context(viewport={"width": width, "height": height})
            tab = context.new_page()
            tab.add_init_script(RECORD_SCRIPT)
            open_and_settle(tab, server + (page if page != "what_if" else ""))
            tab.wait_for_timeout(1000)
            shifts = sorted(tab.evaluate("window.shifts"), reverse=True)
            context.close()
            assert sum(value for value, _ in shifts) <= MAX_SHIFT, (visit, device, shifts[:4])
