"""Thirty terms, each explained in one sentence and nowhere a second time."""

import ast
import math
import re
from functools import cache
from pathlib import Path

import pytest

from dpmc_core.metrics import METRICS
from dpmc_lab import glossary
from dpmc_lab.glossary import LONGEST, TERMS
from tests.page_helpers import open_page
from tests.source_helpers import docstrings_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "pages").rglob("*.py"))
TEXTS = [
    *PAGES,
    *sorted((ROOT / "pages").rglob("*.js")),
    *(path for path in sorted((ROOT / "dpmc_core").rglob("*.py")) if path.stem != "glossary"),
]


@cache
def words_of(path):
    """Every text in a file, one a line; what is for programmers alone is left out."""
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        return text
    tree = ast.parse(text)
    notes = docstrings_of(tree)
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return "\n".join(n.value for n in texts if isinstance(n.value, str) and id(n) not in notes)


@cache
def everything_said():
    return "\n".join(map(words_of, TEXTS)).casefold()


def test_there_are_thirty():
    assert len(TERMS) == 30


@pytest.mark.parametrize("id", TERMS)
def test_a_term_is_said_in_one_line(id):
    term = TERMS[id]
    assert 0 < len(term.words) <= LONGEST
    assert term.words.endswith(".")
    assert (ROOT / "pages" / f"{term.page}.py").is_file()


def test_no_two_terms_are_called_or_explained_alike():
    called = [name.casefold() for term in TERMS.values() for name in (term.name, *term.also)]
    assert len(called) == len(set(called))
    assert len({term.words for term in TERMS.values()}) == len(TERMS)


@pytest.mark.parametrize("id", TERMS)
def test_the_app_uses_the_term(id):
    """Itself, or one of the words that stand with it: not to be learnt for nothing."""
    term = TERMS[id]
    names = re.split(r", | and ", term.name) + list(term.also)
    assert any(re.search(rf"\b{re.escape(name.casefold())}\b", everything_said()) for name in names)


def helps():
    """(place, expression) of everything that stands behind a question mark on a page."""
    for path in PAGES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                for keyword in node.keywords:
                    if keyword.arg == "help":
                        yield f"{path.relative_to(ROOT)}:{keyword.lineno}", keyword.value


def test_terms_behind_question_marks_are_there():
    asked = set()
    for place, value in helps():
        for node in ast.walk(value):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "glossary.help":
                for term in node.args:
                    assert term.value in TERMS, place
                    asked.add(term.value)
    assert len(asked) >= 15


# How one would begin to explain a term; behind a question mark only the glossary does.
EXPLAINS = re.compile(
    r"\bthe privacy budget\b|\bsmaller (is|means) more\b|\bthe chance that the promise\b"
    r"|\bnever trained on\b|\bhow many users and items there are\b|\bfirst ten\b"
    r"|\broot mean squared\b|\bbands? shows?\b|\bspends epsilon again\b|\bwhat one person can\b",
    re.IGNORECASE,
)


def test_a_term_has_one_explanation():
    for place, value in helps():
        texts = (n.value for n in ast.walk(value) if isinstance(n, ast.Constant))
        assert not EXPLAINS.search(" ".join(t for t in texts if isinstance(t, str))), place
    sentences = [term.words for term in TERMS.values()]
    for path in TEXTS:
        if path.stem != "metrics":
            assert not [one for one in sentences if one in words_of(path)], path


def test_metrics_are_explained_where_they_are_defined():
    assert glossary.help("rmse") == METRICS["rmse"].means
    for metric in METRICS.values():
        assert 0 < len(metric.means) <= LONGEST
        assert metric.means.endswith(".")


def test_a_term_is_found_by_any_of_its_words():
    everything = glossary.find()
    assert len(everything) == 30
    assert [term.name for term in everything] == sorted(
        (term.name for term in everything), key=str.casefold
    )
    for term in TERMS.values():
        for name in (term.name, *term.also):
            assert term in glossary.find(name.upper())
            assert glossary.named(name) is term
    assert TERMS["flips"] in glossary.find("warner")
    assert glossary.find("no such word") == ()
    assert glossary.named("no such word") is None


def test_what_the_numbers_in_it_say():
    more = TERMS["epsilon"].more
    assert f"at 1 odds move up to {math.exp(1):.2g}-fold, at 5 up to" in more
    assert f" {round(math.exp(5), -1):.0f}-fold" in more


def test_a_question_mark_shows_it():
    app = open_page("guarantees")
    assert glossary.help("epsilon") in [one.help for one in app.caption]
