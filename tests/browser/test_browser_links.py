"""Links as people use them: opened, walked through page by page, copied and sent on."""

import re
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from app import SECTIONS
from tests.browser_helpers import navigate_to, open_and_settle, settle, upload_ratings

pytestmark = [pytest.mark.browser, pytest.mark.slow_unless_planted]

TITLES = [entry.title for section in SECTIONS.values() for entry in section]
SHARED = {"data": "Neighbourhood restaurants", "mechanism": "Gradient perturbation"}
SHARED |= {"epsilon": "3"}
LINK = "data=restaurants&mechanism=gradient&epsilon=3"
# What a page has of the shared choices, where it has not all of them.
HAS = {"Compare": ("data",), "Protocol": ("data",)}
HAS |= {"Your data": ("data",), "Learn": (), "Class": (), "Papers": ()}


def read_params(page):
    return {key: values[-1] for key, values in parse_qs(urlsplit(page.url).query).items()}


def read_shared_choices(page, title):
    """Return the shared choices of the page with this title, as its controls show them."""
    choices = {}
    if title == "What if":  # its method is in a list that opens, and its slider its own
        knob_text = page.locator(".dpmc-knob").get_attribute("aria-valuetext")
        alt = page.locator(".dpmc-picture").get_attribute("aria-label")
        method = alt.partition(". ")[0].split(", ")[1]
        choices = {"epsilon": knob_text.split()[1].rstrip(":"), "mechanism": method}
    for key in [key for key in HAS.get(title, SHARED) if key not in choices]:
        if key == "epsilon":
            slider = page.get_by_role("slider", name="epsilon").first
            choices[key] = slider.get_attribute("aria-valuetext")
        elif key == "mechanism":
            opener = page.get_by_role("button", name=re.compile("^Mechanism: "))
            choices[key] = opener.locator("strong").inner_text()
        else:
            choices[key] = page.get_by_label("Data", exact=True).input_value()
    return choices


def walk_to(page, title):
    """Turn to a page by mouse and check that its controls and its address say the same."""
    navigate_to(page, title)
    page.wait_for_timeout(300)
    settle(page)
    expected = {key: SHARED[key] for key in HAS.get(title, SHARED)}
    assert read_shared_choices(page, title) == expected, title
    params = read_params(page)
    assert {key: params.get(key) for key in expected} == expected, page.url


@pytest.mark.parametrize(
    ("path", "page_params"),
    [
        ("train", {"seed": "5", "holdout": "one random rating of each user"}),
        ("noise", {"gradient.rounds": "40"}),
        ("", {}),
    ],
)
@pytest.mark.slow
def test_a_link_is_walked_through_page_by_page(page, server, path, page_params):
    open_and_settle(
        page, f"{server}{path}?{LINK}&{'&'.join(f'{k}={v}' for k, v in page_params.items())}"
    )
    first = next(title for title in TITLES if title.lower() == path or not path)
    for title in [title for title in TITLES if title != first]:
        walk_to(page, title)
    walk_to(page, first)
    assert read_params(page) == SHARED | page_params


# Choices of a page, as an address spells them, and the page with them all.
PAGE_PARAMS = {
    "protocol?scenario=3": {
        "data": "Neighbourhood restaurants",
        "shares": "Gamma (hardened)",
        "leaves": "the second user",
        "phases": "3",
        "picked": "3 picked at random",
        "message": "9",
        "seen": "user 76",
        "epsilon": "3",
    },
    "protocol?scenario=2": {"masks": "false", "message": "4"},
    "protocol?scenario=federated": {
        "variant": "DPIMF, strawman",
        "shared": "items; user profiles are sent",
        "profile": "480",
        "parties": "3",
        "rounds": "2",
        "local": "5",
        "message": "7",
    },
    "noise?data=restaurants": {"row": "4", "pin": "0.3"},
}


def read_controls(page):
    """Return what all controls of a page show."""
    return page.evaluate(
        """() => [...document.querySelectorAll(`[data-testid="stMain"] :is(input, [role=tab],
        [data-testid^=stBaseButton-segmented])`)].map(e => [e.getAttribute("aria-label"),
        e.value ?? e.innerText, e.checked, e.ariaSelected, e.ariaPressed ?? e.ariaChecked,
        e.getAttribute("aria-valuetext")])"""
    )


@pytest.mark.parametrize("path", PAGE_PARAMS)
@pytest.mark.slow
def test_every_choice_of_a_page_is_in_its_address_and_comes_back(page, server, path):
    page_params = PAGE_PARAMS[path]
    open_and_settle(page, f"{server}{path}&{urlencode(page_params)}")
    assert not page.get_by_role("alert").filter(has_text="The link asks for").count()
    params = read_params(page)
    assert params | page_params == params
    before = read_controls(page)
    navigate_to(page, "Guarantees")
    page.get_by_role("heading", name="Which promises hold?").wait_for()
    settle(page)
    navigate_to(page, path.partition("?")[0].title())
    page.wait_for_url(
        "**message=**" if "message" in page_params else f"**{next(iter(page_params))}=**"
    )
    settle(page)
    # The mechanism with which Noise opens is not in the address at first.
    assert read_params(page) | params == read_params(page)
    assert read_controls(page) == before


@pytest.mark.slow
def test_names_out_of_an_upload_are_in_no_address(page, server, tmp_path):
    upload_ratings(page, server, tmp_path)
    navigate_to(page, "Protocol")
    page.get_by_role("heading", name="Can a recommender learn without seeing ratings?").wait_for()
    settle(page)
    page.get_by_role("button", name="Rules").click()
    settle(page)
    field = page.get_by_label("Item (ratings)", exact=True)
    field.click()
    page.get_by_role("option").nth(1).click()
    settle(page)
    chosen = field.input_value()
    assert "item=" not in page.url
    navigate_to(page, "Noise")
    page.get_by_role("heading", name="Compare the noise at two epsilons").wait_for()
    settle(page)
    navigate_to(page, "Protocol")
    page.get_by_role("heading", name="Can a recommender learn without seeing ratings?").wait_for()
    settle(page)
    page.get_by_role("button", name="Rules").click()
    assert field.input_value() == chosen


@pytest.mark.slow
@pytest.mark.parametrize(("width", "plain_http"), [(1024, True), (390, False)])
def test_copy_link_copies_the_whole_address(browser, server, width, plain_http):
    context = browser.new_context(viewport={"width": width, "height": 800})
    if plain_http:  # where browsers have no clipboard to offer
        context.add_init_script("delete Navigator.prototype.clipboard")
    else:
        context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab = context.new_page()
    open_and_settle(tab, server + "compare?data=restaurants&grid=own&seeds=7")
    assert tab.evaluate("'clipboard' in navigator") != plain_http
    tab.get_by_role("button", name="Settings").click()
    tab.get_by_role("spinbutton", name="Seeds").fill("8")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**seeds=8**")
    tab.keyboard.press("Escape")
    settle(tab)
    share = tab.get_by_role("button", name="Share", exact=True)
    box = share.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    share.click()
    panel = tab.get_by_role("dialog", name="Share this view")
    assert panel.get_by_role("textbox").input_value() == tab.url
    edges = panel.bounding_box()
    assert edges["x"] >= 0
    assert edges["x"] + edges["width"] <= width
    panel.get_by_role("button", name="Copy link").click()
    panel.get_by_text("Copied.").wait_for()
    tab.keyboard.press("Escape")
    assert not panel.is_visible()
    tab.get_by_role("button", name="Settings").click()
    field = tab.get_by_role("textbox", name="epsilons")
    field.fill("")
    field.press("Control+v")
    assert field.input_value() == tab.url
    context.close()


@pytest.mark.slow
def test_every_page_ends_with_the_next_step_which_keeps_the_choices(page, server):
    """From page to page by the links at their ends."""
    entries = {entry.file: entry for section in SECTIONS.values() for entry in section}
    for file, entry in entries.items():
        if entry.next_page is None:
            continue
        onwards, link_text = entry.next_page
        open_and_settle(page, f"{server}{file}?{LINK}")
        link = page.get_by_test_id("stMain").get_by_role("link", name=link_text)
        link.click()
        page.wait_for_timeout(300)
        settle(page)
        title = entries[onwards].title
        shared_keys = set(HAS.get(title, SHARED)) & set(HAS.get(entry.title, SHARED))
        assert {key: read_shared_choices(page, title)[key] for key in shared_keys} == {
            key: SHARED[key] for key in shared_keys
        }


@pytest.mark.slow
def test_a_link_asks_for_nothing_that_is_not_there(browser, server):
    """Streamlit would first look for its server under the page's own name."""
    page, missed = browser.new_page(), []
    page.on("response", lambda answer: answer.status < 400 or missed.append(answer.url))
    page.on("console", lambda message: message.type != "error" or missed.append(message.text))
    open_and_settle(page, f"{server}compare?data=restaurants&task=likes")
    assert page.get_by_label("Data", exact=True).input_value() == SHARED["data"]
    navigate_to(page, "Train")
    settle(page)
    assert urlsplit(page.url).path == "/train"
    page.reload()
    settle(page)
    assert missed == []
    page.close()
