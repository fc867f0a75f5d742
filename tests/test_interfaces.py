"""Names that are data stay as they are: see tests/frozen_interfaces.py."""

import json

import pytest

from tests import frozen_interfaces as frozen
from tests.slow_helpers import mark_rest_slow

EXPECTED = json.loads(frozen.DOCUMENT.read_text(encoding="utf-8"))
SECTIONS = {
    "mechanisms": frozen.collect_mechanisms,
    "preparation": frozen.collect_preparation,
    "draws": frozen.collect_draws,
    "store": frozen.collect_store,
    "shipped rows": frozen.collect_shipped_rows,
    "commands": frozen.collect_commands,
    "names": frozen.collect_names,
    "imports": frozen.collect_imports,
    "catalogues": frozen.collect_catalogues,
}


@pytest.mark.parametrize("section", SECTIONS)
def test_names_that_are_data_stay(section):
    assert json.loads(json.dumps(SECTIONS[section]())) == EXPECTED[section]


def test_every_section_is_compared():
    assert {*SECTIONS, "json", "links"} == EXPECTED.keys()


@pytest.mark.parametrize("command", mark_rest_slow(frozen.JSON_COMMANDS))
def test_fields_of_json_stay(command):
    assert frozen.collect_fields(command) == EXPECTED["json"][command]


@pytest.mark.parametrize("link", mark_rest_slow(tuple(EXPECTED["links"]), 3))
def test_a_saved_link_opens_where_it_did(link):
    assert frozen.open_link(link) == EXPECTED["links"][link]
