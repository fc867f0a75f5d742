"""What people are told of the ratings they bring, and of those held out, in Chromium."""

import pytest

from tests.browser_helpers import settle, visit

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LIKE_A_PUBLIC_SET = "userId,movieId,rating,timestamp\n" + "".join(
    f"{user},{item},{1 + user * item % 5},{978300760 + user + item}\n"
    for user in range(20)
    for item in range(1, 15)
)


def test_a_file_headed_like_a_public_set_is_asked_for_its_range(page, server, tmp_path):
    file = tmp_path / "ratings.csv"
    file.write_text(LIKE_A_PUBLIC_SET)
    visit(page, server + "data?data=restaurants")
    page.get_by_text("Upload your own").click()
    settle(page)
    page.locator('input[type="file"]').set_input_files(file)
    page.get_by_role("button", name="Read the ratings").wait_for()
    settle(page)
    assert page.get_by_label("Ratings", exact=True).input_value() == "rating"  # roles are guessed
    for end in ("Lowest", "Highest"):
        assert page.get_by_role("spinbutton", name=f"{end} possible rating").input_value() == ""
    page.get_by_role("button", name="Read the ratings").click()
    page.get_by_text("the public rating range is not known").wait_for()
    settle(page)
    for end, value in (("Lowest", "0"), ("Highest", "10")):
        page.get_by_role("spinbutton", name=f"{end} possible rating").fill(value)
        page.keyboard.press("Tab")
    page.get_by_role("button", name="Read the ratings").click()
    page.get_by_text("Licence: not stated in the file").wait_for()
    settle(page)
    text = page.locator('[data-testid="stMain"]').inner_text()
    assert "GroupLens" not in text
    assert "Source: your file" in text
    assert "lie in 0..10" in text


def test_without_times_the_hold_out_is_called_a_draw(page, server):
    visit(page, server + "train?data=restaurants&mechanism=input-flip&holdout=last")
    page.get_by_role("button", name="Settings").click()
    settle(page)
    held = page.get_by_role("combobox", name="Held out for testing")
    assert held.input_value() == "one random rating of each user"
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Train", exact=True).click()
    page.get_by_text("one random rating of every user").first.wait_for()
    assert not page.get_by_text("latest rating").count()
