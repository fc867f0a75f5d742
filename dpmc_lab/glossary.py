"""Define the field's terms that people meet here, each once, in glossary.toml."""

from collections.abc import Mapping
from dataclasses import dataclass

from dpmc_core.metrics import METRICS
from dpmc_core.privacy import CELL, RATING, USER_EMPTIED
from dpmc_data.facts import build_from_table, load_toml


@dataclass(frozen=True)
class Term:
    """A term and its meaning.

    Texts can name units and metrics, whose definitions are inserted. The names of the fields are
    those in glossary.toml.

    Attributes:
        name: the term.
        words: its definition.
        more: a second explanation, for those who look it up.
        page: the file in pages/ where one meets it.
        also: other words for it, or for what it explains.
    """

    name: str
    words: str
    more: str = ""
    page: str = "what_if"
    also: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        definitions = {"rating": RATING, "cell": CELL, "user": USER_EMPTIED, "metrics": METRICS}
        for field_name in ("name", "words"):
            object.__setattr__(self, field_name, getattr(self, field_name).format_map(definitions))


TERMS: Mapping[str, Term] = {
    id: build_from_table(Term, table, f"term {id}")
    for id, table in load_toml(__package__, "glossary.toml").items()
}


def explain_terms(*terms: str) -> str:
    """Return the definitions of terms, for the text behind a question mark.

    Raises:
        KeyError: there is no such term.
    """
    return " ".join(TERMS[term].words for term in terms)


def find_term(word: str) -> Term | None:
    """Return the term with this name or synonym."""
    return next((term for term in TERMS.values() if word in (term.name, *term.also)), None)


def search_terms(query: str = "") -> tuple[Term, ...]:
    """Return the terms that contain all words of a query: those whose name begins with it first."""
    query = query.casefold()
    matches = (
        term
        for term in TERMS.values()
        if all(
            word in " ".join((term.name, term.words, term.more, *term.also)).casefold()
            for word in query.split()
        )
    )
    names = {term.name.casefold(): term for term in matches}
    return tuple(
        names[name] for name in sorted(names, key=lambda name: (not name.startswith(query), name))
    )
