"""The house stays one that a person can read: its size is held to a budget.

The unit is a token of code: a name, a number, an operator or a bracket counts one, and so does a
text of any length; comments, docstrings and line breaks count nothing. So neither long lines nor
short names nor texts elsewhere change it. Who adds something takes something out, or raises a
budget here and argues for it in the commit: for an algorithm that is as long as its paper needs,
never for a second spelling of what is there.
"""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUDGETS = {  # files, tokens
    "core": (56, 103_200),
    "data": (15, 44_180),
    "lab": (82, 160_530),
    "pages": (50, 76_160),
    "pages (js, css, html)": (9, 23_810),
}
NOT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENDMARKER, tokenize.ENCODING),
}
# From Python 3.12 on an f-string is many tokens; it counts one everywhere.
STARTS = {getattr(tokenize, f"{kind}STRING_START", -1) for kind in "FT"}
ENDS = {getattr(tokenize, f"{kind}STRING_END", -1) for kind in "FT"}


def count_tokens(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return len(re.findall(r"\"[^\"\n]*\"|'[^'\n]*'|\w+|[^\w\s]", text))
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings.update(range(first.lineno, first.end_lineno + 1))
    count = depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in NOT_CODE or token.start[0] in docstrings:
            continue
        depth -= token.type in ENDS
        count += depth == 0 and token.type not in ENDS
        depth += token.type in STARTS
    return count


def list_files(area):
    if area == "pages (js, css, html)":
        return [
            path for kind in ("js", "css", "html") for path in (ROOT / "pages").rglob(f"*.{kind}")
        ]
    folder = "pages" if area == "pages" else f"dpmc_{area}"
    return list((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("area", BUDGETS)
def test_an_area_keeps_to_its_budget(area):
    files, tokens = BUDGETS[area]
    area_files = list_files(area)
    assert len(area_files) <= files
    assert sum(map(count_tokens, area_files)) <= tokens


def test_what_counts_is_code_alone(tmp_path):
    path = tmp_path / "one.py"
    path.write_text(
        '"""Text.\n\nMore."""\n\nx = f"{a} and {b}"  # why\n\n\ndef f():\n    """Doc."""\n'
    )
    assert count_tokens(path) == 3 + 5  # x = text; def f ( ) :
