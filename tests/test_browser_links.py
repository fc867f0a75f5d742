"""Links as people use them: opened, walked through page by page, copied and sent on."""

from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser_helpers import sections, settle, turn_to, visit

pytestmark = pytest.mark.browser

TITLES = [title for titles in sections().values() for title in titles]
SHARED = {"data": "Neighbourhood restaurants", "mechanism": "Gradient perturbation · likes"}
SHARED |= {"epsilon": "3"}
LINK = "data=restaurants&mechanism=gradient&epsilon=3"
# What a page has of the shared choices, where it has not all of them.
HAS = {"Ratings": ("data",), "Compare": ("data",), "Protocol": ("data", "epsilon")}


def query(page):
    return {key: values[-1] for key, values in parse_qs(urlsplit(page.url).query).items()}


def shared(page, title):
    """The shared choices of the page with this title, as its controls show them."""
    found = {}
    for key in HAS.get(title, SHARED):
        if key == "epsilon":
            slider = page.get_by_test_id("stSlider").filter(has_text="epsilon").first
            found[key] = slider.locator("input").get_attribute("aria-valuetext")
        else:
            label = {"data": "Data", "mechanism": "Mechanism"}[key]
            label = "Open now" if title == "Ratings" else label
            found[key] = page.get_by_label(label, exact=True).input_value()
    return found


def walked(page, title):
    """Turn to a page by mouse, and look: controls and address say the same, and nothing less."""
    turn_to(page, title)
    page.wait_for_timeout(300)
    settle(page)
    wanted = {key: SHARED[key] for key in HAS.get(title, SHARED)}
    assert shared(page, title) == wanted, title
    asked = query(page)
    assert {key: asked.get(key) for key in wanted} == wanted, page.url


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("train", {"seed": "5", "holdout": "each user's latest rating"}),
        ("noise", {"gradient.rounds": "40"}),
        ("", {}),
    ],
)
def test_a_link_is_walked_through_page_by_page(page, server, path, own):
    visit(page, f"{server}{path}?{LINK}&{'&'.join(f'{k}={v}' for k, v in own.items())}")
    first = next(title for title in TITLES if title.lower() == path or not path)
    for title in [one for one in TITLES if one != first]:
        walked(page, title)
    walked(page, first)
    assert query(page) == SHARED | own
