"""Thirty terms, each explained in one sentence and nowhere a second time."""

import ast
from pathlib import Path

from dpmc_lab import glossary
from dpmc_lab.glossary import TERMS
from tests.page_helpers import open_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "pages").rglob("*.py"))


def test_no_two_terms_are_called_or_explained_alike():
    called = [name.casefold() for term in TERMS.values() for name in (term.name, *term.also)]
    assert len(called) == len(set(called))
    assert len({term.words for term in TERMS.values()}) == len(TERMS)


def list_help_texts():
    """Yield (place, expression) of everything that stands behind a question mark on a page."""
    for path in PAGES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                for keyword in node.keywords:
                    if keyword.arg == "help":
                        yield f"{path.relative_to(ROOT)}:{keyword.lineno}", keyword.value


def test_terms_behind_question_marks_are_there():
    terms = set()
    for location, value in list_help_texts():
        for node in ast.walk(value):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "glossary.explain_terms":
                for term in node.args:
                    assert term.value in TERMS, location
                    terms.add(term.value)
    assert len(terms) >= 15


def test_a_question_mark_shows_it():
    app = open_page("guarantees")
    assert glossary.explain_terms("epsilon") in [caption.help for caption in app.caption]
