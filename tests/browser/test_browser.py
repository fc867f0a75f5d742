"""The app in Chromium, as people meet it: links, the slider, training, uploads, narrow screens."""

import itertools

import numpy as np
import pytest

from tests.browser_helpers import DOWNLOAD, navigate_to, open_and_settle, settle, upload_ratings

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGES = ("", "data", "train", "compare", "noise", "guarantees", "protocol")


def test_the_first_visit_may_be_a_link_into_the_middle(page, server):
    """Must stay first: a fresh server has not yet seen the list of pages."""
    open_and_settle(page, server + "train?data=restaurants&epsilon=4")
    assert page.get_by_role("heading", name="Train one mechanism").is_visible()
    assert page.get_by_test_id("stTopNavSection").filter(has_text="Evidence").is_visible()
    assert page.get_by_label("Data", exact=True).input_value() == "Neighbourhood restaurants"


def test_the_first_page_opens_under_its_own_name_with_all_that_the_link_asks_for(page, server):
    open_and_settle(page, server + "what_if?data=restaurants&mechanism=gradient&epsilon=3")
    assert page.get_by_role("heading", name="What does privacy cost?").is_visible()
    assert page.get_by_label("Data", exact=True).input_value() == "Neighbourhood restaurants"
    assert page.get_by_role("button", name="Mechanism: Gradient perturbation").is_visible()
    assert not page.get_by_text("Page not found").is_visible()


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_fits_a_phone_in_both_themes(browser, server, path, theme):
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=theme)
    tab = context.new_page()
    open_and_settle(tab, f"{server}{path}?data=one-bit-lab")
    assert tab.locator("h1").is_visible()
    main = tab.locator('[data-testid="stMain"]')
    assert main.evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    for chart in tab.locator('[data-testid="stPlotlyChart"]').all():
        assert chart.get_attribute("aria-label").strip()
        assert chart.bounding_box()["width"] <= 390
    context.close()


def test_an_uploaded_file_is_used_and_stays_in_its_tab(page, browser, server, tmp_path):
    upload_ratings(page, server, tmp_path)
    settle(page)
    assert page.get_by_text("30 users, 20 items").is_visible()
    navigate_to(page, "Train")
    settle(page)
    page.get_by_role("button", name="Train", exact=True).click()
    page.get_by_role("button", name=DOWNLOAD).wait_for()
    page.get_by_role("button", name="Share", exact=True).click()
    panel = page.get_by_role("dialog", name="Share this view")
    panel.get_by_text("not the ratings that you uploaded").wait_for()
    other_page = browser.new_context().new_page()
    open_and_settle(other_page, panel.get_by_role("textbox").input_value())
    assert other_page.get_by_text("You see Movie night instead").is_visible()
    other_page.get_by_role("button", name="Share", exact=True).click()
    other_page.get_by_text("with every choice on it").wait_for()
    page.keyboard.press("Escape")
    navigate_to(page, "Your data")
    settle(page)
    page.get_by_text("Use other ratings").click()
    page.get_by_role("button", name="Forget this upload").click()
    settle(page)
    assert page.get_by_role("combobox", name="Data").first.input_value() == "Movie night"
    assert page.get_by_test_id("stAlert").count() == 0
    other_page.context.close()


def test_a_table_of_the_items_stands_beside_an_upload(page, server, tmp_path):
    upload_ratings(page, server, tmp_path)
    settle(page)
    table = tmp_path / "items.csv"
    rated = [(u, i) for u in range(30) for i in range(20) if (u + i) % 3]
    item_means = [np.mean([1 + (u * i) % 5 for u, i in rated if i == item]) for item in range(20)]
    rows = [f"i{i},{'odd' if i % 2 else 'even'},{item_means[i]:.3f},same" for i in range(19)]
    table.write_text("\n".join(["what,genre,score,shop", *rows]) + "\n")
    page.get_by_text("Delta and more").click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Upload", exact=True).last.click()
    chooser.value.set_files(table)
    settle(page)
    public_toolbar = page.get_by_role(
        "toolbar", name="Public, and not computed from what users did"
    )
    chosen = public_toolbar.get_by_role("button", pressed=True)
    assert public_toolbar.get_by_role("button").all_inner_texts() == ["genre", "score"]
    assert chosen.all_inner_texts() == ["genre"]  # the mean rating is marked
    page.get_by_role("button", name="Use these public facts").click()
    page.get_by_text("What is publicly known of the items: genre").wait_for()
    settle(page)
    assert page.get_by_text("Public facts", exact=True).is_visible()


def test_on_a_phone_numbers_of_the_claims_and_the_ends_of_the_slider_are_whole(browser, server):
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    open_and_settle(page, server + "guarantees?every=true")
    page.locator(".js-plotly-plot .textpoint").first.wait_for(state="attached")
    edge = page.locator(".js-plotly-plot").first.bounding_box()
    for number in page.locator(".js-plotly-plot .textpoint").all():
        if (number.text_content() or "").strip():
            box = number.bounding_box()
            assert box["x"] + box["width"] <= edge["x"] + edge["width"]
    tick_labels = page.locator(".js-plotly-plot").first.locator(".xtick text").all()
    ticks = [box for box in (t.bounding_box() for t in tick_labels) if box]
    ticks.sort(key=lambda box: box["x"])
    assert len(ticks) > 1
    for left, right in itertools.pairwise(ticks):
        assert right["x"] - left["x"] - left["width"] >= 10
    for path in ("guarantees", "noise", "data"):
        open_and_settle(page, server + path)
        line = page.locator(".st-key-epsilon-line")
        ends = [line.get_by_text(end).bounding_box() for end in ("more private", "more accurate")]
        assert all(box["height"] < 30 for box in ends)
        assert ends[0]["y"] == pytest.approx(ends[1]["y"], abs=4)
    context.close()


def test_a_table_that_goes_on_at_the_right_says_so_until_it_is_scrolled_there(page, server):
    opacity_script = (
        "() => getComputedStyle(document.querySelector('.stDataFrame'), '::after').opacity"
    )
    page.set_viewport_size({"width": 390, "height": 844})
    open_and_settle(page, server + "papers")
    page.locator(".stDataFrame .dvn-scroller").first.wait_for(state="attached")
    page.wait_for_function(f"{opacity_script[6:]} === '1'")
    page.evaluate("() => { document.querySelector('.dvn-scroller').scrollLeft = 9999 }")
    page.wait_for_function(f"{opacity_script[6:]} === '0'")
