"""What a session remembers is listed once, in pages/ui/session.py."""

import ast
from pathlib import Path

import pytest

from pages.ui.session import Family, Session

PAGES = Path(__file__).resolve().parents[2] / "pages"
FILES = {str(path.relative_to(PAGES)): path.read_text("utf-8") for path in PAGES.rglob("*.py")}
KEYS = {name: key for name, key in vars(Session).items() if hasattr(key, "owner")}


def list_state_keys(tree):
    """Yield the expressions that name a key of st.session_state."""

    def is_state(node):
        return isinstance(node, ast.Attribute) and ast.unparse(node) == "st.session_state"

    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and is_state(node.value):
            yield node.slice
        elif isinstance(node, ast.Compare) and any(map(is_state, node.comparators)):
            yield node.left
        elif isinstance(node, ast.Attribute) and is_state(node.value):
            assert node.attr in ("get", "pop"), ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield from node.args[:1] if is_state(node.func.value) else ()


@pytest.mark.parametrize("name", sorted({*FILES} - {"ui/session.py"}))
def test_no_page_has_a_key_of_its_own(name):
    """Helpers that serve any control take its key as an argument."""
    for key in list_state_keys(ast.parse(FILES[name])):
        assert isinstance(key, ast.Name), ast.unparse(key)
        assert not key.id.isupper(), key.id


def test_every_key_is_listed_once():
    assert len({entry.key for entry in KEYS.values()}) == len(KEYS) >= 36


@pytest.mark.parametrize("name", KEYS)
def test_the_owner_of_a_key_uses_it(name):
    entry = KEYS[name]
    uses = (f"session.{name}", f"Session.{name}", f'"{entry.key}"')
    assert any(use in FILES[entry.owner] for use in uses)


def test_a_family_has_a_place_for_its_names():
    for entry in KEYS.values():
        assert ("{}" in entry.key) is isinstance(entry, Family), entry.key
