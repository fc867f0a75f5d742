"""Settings: declared once, checked where they enter, the same in text and JSON."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from dpmc_core.errors import InvalidSetting
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import (
    check_settings,
    parse_setting,
    setting,
)
from dpmc_core.solvers import sizes


class Kind(enum.Enum):
    PLAIN = "plain"
    ROUNDED = "rounded-off"


@dataclass(frozen=True)
class Shape:
    corners: int

    def __str__(self) -> str:
        return f"corners={self.corners}"


def parse_shape(text: str) -> Shape:
    name, _, corners = text.partition("=")
    if name != "corners":
        raise InvalidSetting("shape", "corners=N", text)
    return Shape(int(corners))


@dataclass(frozen=True, kw_only=True)
class Method:
    id: ClassVar[str] = "method"
    epsilon: float = setting(help="budget", above=0, at_most=1e6)
    rank: int = setting(10, "rank", at_least=1, at_most=100)
    clip: float | None = setting(None, "clip", above=0)
    kind: Kind = setting(Kind.PLAIN, "kind")
    debias: bool = setting(False, "debias")
    shape: Shape = setting(Shape(4), "shape", parse=parse_shape)
    note: str = setting("", "note")

    def __post_init__(self) -> None:
        check_settings(self)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"epsilon": 0}, "epsilon must be > 0 and <= 1e+06, got 0"),
        ({"rank": 2.5}, "rank must be an integer >= 1 and <= 100, got 2.5"),
        ({"clip": 0.0}, "clip must be > 0, got 0"),
        ({"kind": 3}, "kind must be one of plain, rounded-off, got 3"),
        ({"debias": 1}, "debias must be one of true, false, got 1"),
        ({"shape": 3}, "shape must be a Shape, got 3"),
        ({"note": 3}, "note must be text, got 3"),
    ],
)
def test_bad_values_are_sentences(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        Method(**{"epsilon": 1.0} | values)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("epsilon", "1e-3", 1e-3),
        ("rank", " 7 ", 7),
        ("clip", "none", None),
        ("clip", "2", 2.0),
        ("kind", "rounded-off", Kind.ROUNDED),
        ("debias", "false", False),
        ("shape", "corners=5", Shape(5)),
        ("note", "some text", "some text"),
        ("note", "none", "none"),
    ],
)
def test_text_is_parsed(name: str, text: str, value: Any) -> None:
    parsed = parse_setting(Method, name, text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("epsilon", "one", "epsilon must be a number, got 'one'"),
        ("rank", "1.5", "rank must be an integer, got '1.5'"),
        ("kind", "fancy", "kind must be one of plain, rounded-off, got 'fancy'"),
        ("debias", "yes", "debias must be one of true, false, got 'yes'"),
        ("shape", "round", "shape must be corners=N, got 'round'"),
        ("shape", "corners=x", "shape must be a Shape, got 'corners=x'"),
    ],
)
def test_bad_text_is_a_sentence(name: str, text: str, sentence: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        parse_setting(Method, name, text)
    assert str(caught.value) == sentence


def test_a_rank_is_at_most_the_number_of_items():
    public = PublicFacts(users=9, items=5, low=1, high=5)
    sizes.check_rank(5, public)
    with pytest.raises(InvalidSetting, match="rank must be <= items = 5, got 6"):
        sizes.check_rank(6, public)
