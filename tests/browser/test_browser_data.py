"""The path of an upload to its end in Chromium: a file, one button, the verdict, the files."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from dpmc_lab.study.answer import SEEDS
from tests.browser_helpers import DOWNLOAD, open_and_settle, settle, upload_ratings

pytestmark = pytest.mark.browser


@pytest.mark.slow
def test_an_upload_leads_to_the_verdict(page, server, temporary, tmp_path):
    upload_ratings(page, server, tmp_path)
    settle(page)
    page.get_by_text("of your 20 items have enough ratings to stand out from the noise").wait_for()
    picture = page.get_by_role("img", name="Risk and usefulness against epsilon")
    assert picture.first.is_visible()  # the risk needs no run
    assert not list(temporary.glob("dpmc-private-*"))
    page.get_by_role("button", name="Get the answer").click()
    page.get_by_text("a coarse curve, which the next runs refine").wait_for()
    page.get_by_text("what personal predictions add").or_(
        page.get_by_text("add nothing measurable")
    ).first.wait_for()
    page.locator('[data-testid="stPlotlyChart"] .main-svg').first.wait_for()
    stop = page.get_by_test_id("stMain").get_by_role("button", name="Stop")
    stop.wait_for(state="detached")
    settle(page)
    expect(page.get_by_role("heading", level=2).first).to_be_in_viewport()
    verdict, curve = page.get_by_role("heading", level=2).first, picture.first
    assert verdict.bounding_box()["y"] < curve.bounding_box()["y"]  # it stands on top
    # The method, three later publications and the two baselines that add noise, with every seed.
    fits = f"a test on raw data with {6 * len(SEEDS)} private fits"
    assert page.get_by_text(fits).is_visible()
    page.get_by_role("button", name=DOWNLOAD).click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="One page to print (HTML)").click()
    printed = Path(saved.value.path()).read_text()
    assert "Plotly.newPlot" in printed
    heading = page.get_by_role("heading", level=2).first.inner_text()
    assert f"<h2>{heading.replace(chr(0xA0), ' ')}</h2>" in printed
    assert "dpmc answer ./mine.csv" in printed
    settle(page)
    assert page.get_by_test_id("stAlert").count() == 0
    (folder,) = temporary.glob("dpmc-private-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "results-users").is_dir()
    # A new session: the upload and its folder go with the old one.
    open_and_settle(page, server + "data")
    assert page.get_by_role("button", name="Get the answer").is_visible()
