"""Format text that others wrote, which is displayed and never interpreted."""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from dpmc_core.errors import make_printable
from dpmc_data import facts

Table = dict[str, list[Any]]  # columns by their heads

# Markdown renderers look for addresses, emoji and arrows a second time, in rendered text, where a
# backslash no longer helps. Something invisible in their middle hides them from this.
_SEPARATOR = "\0"
_PARSED_LATER = re.compile(r"@|:(?=//|material|[\w+-]+:)|www(?=\.)", re.IGNORECASE)
_ARROW = re.compile(r"(?<![^\s\0])(?:<->|->|<-|--|>=|<=|~=)(?![^\s\0])")
_SIGN = re.compile(r"[\\`*_{}\[\]<>#|~$:&@]|^[-+=]")
_NUMBER = re.compile(r"^(\d+)([.)])")


def escape_markdown(text: str, invisible: str = "<!-- -->") -> str:
    """Return Markdown that renders as `text`, in one line.

    Characters that cannot be displayed are replaced as `make_printable` does.

    Args:
        text: the text.
        invisible: Markdown that renders as nothing.
    """
    text = make_printable(" ".join(text.split()))
    text = _PARSED_LATER.sub(rf"\g<0>{_SEPARATOR}", text)
    text = _ARROW.sub(lambda arrow: _SEPARATOR.join(arrow[0]), text)
    text = _NUMBER.sub(r"\1\\\2", _SIGN.sub(r"\\\g<0>", text))
    return text.replace(_SEPARATOR, invisible)


def build_table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Return the columns of a table by name, from its rows."""
    row_list = list(rows)
    return {name: [row[index] for row in row_list] for index, name in enumerate(names)}


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun: '1 seed', '2,000 seeds', '3 parties'."""
    if count != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun}"


def format_split(split: str) -> str:
    """Format the split of a problem for display, with its share in percent."""
    match = re.fullmatch(r"a random ([\d.e-]+) of (.*)", split)
    if match is None:
        return split
    share = f"{100 * float(match[1]):g} % of {match[2]}"
    # The number for one user is rounded up or down at random, and never all are held out.
    return f"a random {share}" if match[2] == "the ratings" else f"about {share}, drawn at random"


def join_phrases(phrases: Sequence[str]) -> str:
    """Return phrases in a sentence, with 'and' before the last."""
    # The last two are one element, also if there is only one phrase.
    return ", ".join([*phrases[:-2], " and ".join(phrases[-2:])])


# --- the look of pages and files -----------------------------------------------------------------

LOOK = facts.load_toml(__package__, "look.toml")
COLORS: Mapping[str, tuple[str, str]] = LOOK["colors"]  # on the light and on the dark surface


def _render_declarations(form: str) -> str:
    """Return the colours as CSS custom properties, each in a form like "{0}"."""
    return " ".join(f"--{name}: {form.format(*pair)};" for name, pair in COLORS.items())


# A surface says by `color-scheme` whether it is light or dark. Browsers from before 2024 do not
# know light-dark() and show everything light.
CSS_PROPERTIES = f"""
:root {{ {_render_declarations("{0}")} --font: {LOOK["font"]}; }}
@supports (color: light-dark(red, red)) {{
:root {{ {_render_declarations("light-dark({0}, {1})")} }}
}}
"""

# --- HTML documents that open anywhere ---------------------------------------------------------

STYLE = f"""{CSS_PROPERTIES}
body {{ font: 16px/1.5 var(--font); color: var(--text); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; }} td, th {{ padding: .3rem .8rem; text-align: left;
  border-bottom: 1px solid var(--line); }} pre {{ background: var(--soft); padding: 1rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }}
"""


def render_page(title: str, sections: Sequence[str], style: str = "") -> str:
    """Render an HTML page with its title as the heading.

    Args:
        title: plain text.
        sections: HTML.
        style: CSS after the common style.
    """
    head = (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{STYLE}{style}</style><h1>{escape(title)}</h1>"
    )
    return "\n".join([head, *sections, "</html>"])


def render_heading(text: str) -> str:
    """Render a heading as HTML; empty for an empty text."""
    return f"<h2>{escape(text)}</h2>" if text else ""


def render_paragraphs(*texts: str) -> str:
    """Render plain texts as HTML paragraphs."""
    return "\n".join(f"<p>{escape(text)}</p>" for text in texts)


def render_table(columns: Mapping[str, Sequence[object]]) -> str:
    """Render a table as HTML; a truth value reads yes or no."""
    truth_labels = {True: "yes", False: "no"}
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = (
        "".join(
            f"<td>{escape(truth_labels[v] if isinstance(v, bool) else str(v))}</td>" for v in row
        )
        for row in zip(*columns.values(), strict=True)
    )
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{row}</tr>" for row in body) + "</table>"
