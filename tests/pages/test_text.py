"""Text from links and files stays text: in Markdown, in charts, in tables for spreadsheets."""

import csv
import html
import io
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from dpmc_core.errors import make_printable
from dpmc_lab import store
from dpmc_lab.store import Store, guard_formula
from dpmc_lab.views.text import escape_markdown
from pages.ui.text import escape, escape_for_chart
from tests.hostile import FRAGMENTS, HOSTILE, render_text
from tests.store_helpers import make_record

SOUP = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)
TEXTS = st.one_of(SOUP, st.text(max_size=40))
# What Streamlit's pages look for in the texts of Markdown that has been read.
LATER = (
    re.compile(r"(https?://|www(?=\.))([-.\w]+)", re.I),
    re.compile(r"[-.\w+]+@[-\w]+(?:\.[-\w]+)+"),
    re.compile(r":\+1:|:-1:|:[\w-]+:"),
    re.compile(r"(^|\s)(<->|->|<-|--|>=|<=|~=)(\s|$)"),
)
SEPARATOR = ":color[]"


@given(TEXTS)
@example("1.1.")
def test_escaped_text_is_read_as_it_was(text):
    check_escaped(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_read_as_it_was(text):
    check_escaped(text)


def check_escaped(text):
    markdown = escape(text)
    assert "\n" not in markdown
    stripped = re.sub(r"\\(.)", "x", markdown.replace(SEPARATOR, ""))  # nothing moves together
    assert not re.search(r"[\\`*_{}\[\]<>#|~$&]", stripped)
    assert not re.match(r"[-+=]|\d+[.)]", stripped) or markdown.startswith("\\")
    chunks = [re.sub(r"\\(.)", r"\1", chunk) for chunk in markdown.split(SEPARATOR)]
    assert "".join(chunks) == render_text(text)
    for chunk in chunks:
        for pattern in LATER:
            assert not pattern.search(chunk), (chunk, markdown)
    assert ":material/" not in markdown


def test_what_cannot_be_shown_is_named():
    assert escape("a\0b\u202ec\ud800") == r"a\\u0000b\\u202ec\\ud800"
    assert escape_markdown("http://a") == "http\\:<!-- -->//a"
    assert escape("") == ""


@given(TEXTS)
def test_text_in_a_chart_has_no_tags(text):
    assert html.unescape(escape_for_chart(text)) == html.unescape(
        html.escape(make_printable(text), quote=False)
    )
    assert not set(escape_for_chart(text)) & set("<>")


def test_quotes_in_a_chart_are_bare():
    assert escape_for_chart("\"M*A*S*H\" & 'x'") == "\"M*A*S*H\" &amp; 'x'"


@pytest.mark.parametrize("text", ["=1+1", "+x", "-x|cmd", "@SUM(A1)", "\t=1", "\rx", "'=1", "''@x"])
def test_text_that_begins_a_formula_is_led_by_an_apostrophe(text):
    assert guard_formula(text) == f"'{text}"


@pytest.mark.parametrize(
    "value", [-1.5, -2, None, True, "-1.5", "+3", "-inf", "a=1", "", "'a", "-"]
)
def test_numbers_and_other_text_are_left_alone(value):
    assert guard_formula(value) is value


@given(st.one_of(TEXTS, st.text("'=+-@\t\r1a", max_size=6)))
def test_guarded_text_can_be_had_back(text):
    assert re.sub(r"^'(?='*[=+\-@\t\r])", "", guard_formula(text)) == text


def test_exported_rows_are_guarded(tmp_path):
    name = '=HYPERLINK("http://a.example")'
    with Store(tmp_path / "s.sqlite") as file:
        file.add([make_record() | {"data": make_record()["data"] | {"name": name}}])
        stream = io.StringIO()
        store.write_csv(file, store.list_curves(file), stream)
    (row,) = csv.DictReader(io.StringIO(stream.getvalue()))
    assert row["data.name"] == f"'{name}"


def test_tables_of_a_page_are_guarded_but_for_numbers():
    def page():
        from pages.ui import blocks

        blocks.show_table({"item": ["=1+1", "-3", "b"], "score": [-1.5, 2.0, 0.0]})

    (table,) = AppTest.from_function(page).run().dataframe
    assert table.value.to_dict("list") == {"item": ["'=1+1", "-3", "b"], "score": [-1.5, 2.0, 0.0]}
