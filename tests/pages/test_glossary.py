"""Thirty terms, each explained in one sentence and nowhere a second time."""

import ast
from pathlib import Path

import pytest

from dpmc_core.metrics import METRICS
from dpmc_lab import glossary
from dpmc_lab.glossary import TERMS
from tests.page_helpers import open_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "pages").rglob("*.py"))
MAX_EXPLANATION_LENGTH = 140  # characters


@pytest.mark.parametrize("id", TERMS)
def test_a_term_is_said_in_one_line(id):
    term = TERMS[id]
    assert 0 < len(term.words) <= MAX_EXPLANATION_LENGTH
    assert term.words.endswith(".")
    assert (ROOT / "pages" / f"{term.page}.py").is_file()


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


def test_metrics_are_explained_where_they_are_defined():
    assert glossary.explain_terms("rmse") == METRICS["rmse"].explanation
    for metric in METRICS.values():
        assert 0 < len(metric.explanation) <= MAX_EXPLANATION_LENGTH
        assert metric.explanation.endswith(".")


def test_a_term_is_found_by_any_of_its_words():
    everything = glossary.search_terms()
    assert len(everything) == 30
    assert [term.name for term in everything] == sorted(
        (term.name for term in everything), key=str.casefold
    )
    for term in TERMS.values():
        for name in (term.name, *term.also):
            assert term in glossary.search_terms(name.upper())
            assert glossary.find_term(name) is term
    assert TERMS["flips"] in glossary.search_terms("warner")
    assert glossary.search_terms("Epsilon")[0] is TERMS["epsilon"]  # whose name it is comes first
    assert glossary.search_terms("no such word") == ()
    assert glossary.find_term("no such word") is None


def test_a_question_mark_shows_it():
    app = open_page("guarantees")
    assert glossary.explain_terms("epsilon") in [caption.help for caption in app.caption]
