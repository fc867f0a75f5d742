"""Make docs/what-if.webp, the README's moving picture: the slider of What if, then Train.

    python docs/make_picture.py

It needs Chromium and Playwright (the extra "dev"). Fonts differ between machines, and so does the
file.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser_helpers import DOWNLOAD, open_and_settle, open_chromium, serve_app, settle  # noqa: E402

FILE = Path(__file__).with_name("what-if.webp")
SIZE = {"width": 1180, "height": 760}
WIDTH = 960  # pixels of the picture


class Film:
    """Screenshots of a page, and for how many milliseconds each is shown."""

    def __init__(self, page):
        self.page = page
        self.frames = []
        self.durations = []

    def shoot(self, milliseconds):
        image = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        image = image.resize((WIDTH, image.height * WIDTH // image.width), Image.Resampling.LANCZOS)
        self.frames.append(image)
        self.durations.append(milliseconds)

    def save(self):
        first, *rest = self.frames
        options = {"quality": 60, "method": 6, "loop": 0, "minimize_size": True}
        first.save(FILE, save_all=True, append_images=rest, duration=self.durations, **options)


def film_slider(film, address):
    """Move epsilon from 0.1 to 10 and back to 1."""
    page = film.page
    open_and_settle(page, address)
    page.wait_for_selector(".dpmc-picture", state="attached")
    slider = page.get_by_role("slider", name="epsilon")
    slider.press("Home")
    page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 0)")  # the key has scrolled
    settle(page)
    film.shoot(1200)
    for key in ["ArrowRight"] * 13 + ["ArrowLeft"] * 7:
        page.keyboard.press(key)
        page.wait_for_timeout(400)
        film.shoot(350)
    film.durations[-1] = 1500


def film_training(film, address):
    """Press Train, then let every round go by."""
    page = film.page
    open_and_settle(page, address + "train?data=movie-night&mechanism=input-flip&epsilon=2")
    film.shoot(1200)
    page.get_by_role("button", name="Train", exact=True).click()
    page.get_by_role("button", name=DOWNLOAD).wait_for()
    settle(page)
    scrubber = page.get_by_role("slider", name="Round")
    scrubber.press("Home")
    rounds = int(scrubber.get_attribute("max"))
    for k in range(rounds):
        if k < 10 or k % 4 == 0:  # it changes most at the start
            page.wait_for_timeout(150)
            film.shoot(250)
        scrubber.press("ArrowRight")
    page.wait_for_timeout(150)
    film.shoot(2500)


def main():
    with (
        tempfile.TemporaryDirectory() as home,
        serve_app(Path(home)) as (address, _),
        open_chromium() as browser,
    ):
        film = Film(browser.new_page(viewport=SIZE, reduced_motion="reduce"))
        film_slider(film, address)
        film_training(film, address)
        film.save()


if __name__ == "__main__":
    main()
