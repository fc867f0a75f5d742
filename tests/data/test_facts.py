"""Packaged facts become dataclasses, or an error that names what is wrong and where."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from dpmc_data import facts


class Colour(enum.Enum):
    RED = "red"


@dataclass(frozen=True)
class Row:
    name: str
    value: float = 0.0
    more: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Sheet:
    rows: tuple[Row, ...]
    by_name: Mapping[str, tuple[int, str]]
    colour: Colour = Colour.RED
    best: Row | str | None = None
    any: Any = None


def test_a_table_becomes_a_dataclass() -> None:
    table = {
        "rows": [{"name": "a", "more": [1, 2]}, {"name": "b", "value": 3}],
        "by_name": {"x": [1, "y"]},
        "colour": "red",
        "best": {"name": "c"},
        "any": [1, "a"],
    }
    sheet = facts.build_from_table(Sheet, table, "sheet")
    assert sheet == Sheet((Row("a", more=(1, 2)), Row("b", 3)), {"x": (1, "y")}, Colour.RED,
                         Row("c"), [1, "a"])  # fmt: skip
    assert facts.build_from_table(Sheet, {"rows": [], "by_name": {}, "best": "d"}, "s").best == "d"


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({}, r"sheet\.rows: .* missing .* 'name'"),
        ({"name": "a", "size": 1}, r"sheet\.rows: .* unexpected .* 'size'"),
        ({"name": 1}, r"sheet\.rows\.name must be .*str.*, got 1"),
        ({"name": "a", "value": "1"}, r"sheet\.rows\.value must be .*float"),
        ({"name": "a", "value": True}, r"sheet\.rows\.value must be .*float"),
        ({"name": "a", "more": ["1"]}, r"sheet\.rows\.more must be"),
        ({"name": "a", "more": 1}, r"sheet\.rows\.more must be"),
    ],
)
def test_what_does_not_fit_is_named(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        facts.build_from_table(Sheet, {"rows": [table], "by_name": {}}, "sheet")
