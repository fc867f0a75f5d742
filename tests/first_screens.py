"""List every sentence of the pages' first screens, to read them in one go.

    python -m tests.first_screens                 # all pages at 1366 x 768
    python -m tests.first_screens guarantees "protocol?message=9" --width 390 --height 844

Each line begins with its number of words; an exclamation mark marks more than 20.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

from app import SECTIONS
from tests.browser_helpers import open_and_settle, open_chromium, serve_app

MAX_WORDS = 20
# The text of each innermost block in the window, without the navigation and the titles of items,
# and what only a screen reader says.
TEXTS_SCRIPT = """() => {
  const visible = element => {
    const box = element.getBoundingClientRect();
    return element.checkVisibility({ opacityProperty: true, visibilityProperty: true })
      && box.width > 1 && box.height > 1 && box.top < innerHeight && box.bottom > 0;
  };
  const blocks = [...document.querySelectorAll(
    'h1, h2, h3, p, li, label, button, a, figcaption, summary, text, pre')];
  const texts = blocks.filter(block => visible(block)
    && !block.closest('[data-testid=stHeader], .dpmc-lists li')
    && !blocks.some(other =>
      other !== block && !other.matches('button, label') && block.contains(other)))
    .map(block => {
      const copy = block.cloneNode(true);
      copy.querySelectorAll('[data-testid=stIconMaterial], style, button')
        .forEach(part => part.remove());
      copy.querySelectorAll('tspan').forEach(line => line.append(' '));
      return copy.textContent;
    });
  const names = [...document.querySelectorAll('[role=img][aria-label], img[alt]')]
    .filter(visible).map(image => image.ariaLabel || image.alt);
  return [texts, names];
}"""


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return re.split(r"(?<=[.?!])\s+(?=[A-Z“●○⊗])", " ".join(text.split()))


def main() -> None:
    """Print the sentences of first screens with their numbers of words."""
    pages = [entry.file for section in SECTIONS.values() for entry in section]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", default=pages, help="names or addresses (default: all)")
    parser.add_argument("--width", type=int, default=1366, help="of the window, in pixels")
    parser.add_argument("--height", type=int, default=768, help="of the window, in pixels")
    options = parser.parse_args()
    viewport = {"width": options.width, "height": options.height}
    with (
        tempfile.TemporaryDirectory() as home,
        serve_app(Path(home)) as (address, _),
        open_chromium() as browser,
    ):
        for page in options.pages:
            tab = browser.new_page(viewport=viewport)
            open_and_settle(tab, address + page.removeprefix("what_if"))
            for kind, texts in zip(
                ("in sight", "for a screen reader"), tab.evaluate(TEXTS_SCRIPT), strict=True
            ):
                sentences = [
                    sentence
                    for text in texts
                    if re.search(r"[a-z]", text)
                    for sentence in split_sentences(text)
                ]
                counts = [len(sentence.split()) for sentence in sentences]
                longest = max(counts, default=0)
                print(f"\n== {page}: {sum(counts)} words {kind}, longest sentence {longest}")
                for count, sentence in zip(counts, sentences, strict=True):
                    print(f"{'!' if count > MAX_WORDS else ' '}{count:3} {sentence}")
            tab.close()


if __name__ == "__main__":
    main()
