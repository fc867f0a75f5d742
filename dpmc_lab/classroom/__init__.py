"""Model a class as data: its questions and reports, and the numbers and pictures of its lessons."""

from typing import Any

from dpmc_data.facts import load_toml

LANGUAGE = "en"  # a folder of dpmc_lab/texts
EPSILON = 2.0  # of an answer, by default
MAX_PHONES = 1000  # that a room has places for
CLASS_SIZE = 30  # simulated phones


def load_texts(name: str) -> dict[str, Any]:
    """Load a file of the language's folder, such as 'phone.toml'."""
    return load_toml("dpmc_lab", f"texts/{LANGUAGE}/{name}")


PHONE_TEXTS = load_texts("phone.toml")
