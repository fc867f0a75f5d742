"""Errors read as one plain sentence and name field, limit and value."""

from __future__ import annotations

import decimal
import math
import pickle
from typing import Any

import numpy as np
import pytest

from dpmc_core.errors import BadRatings, InvalidSetting, check_number


def read_error_message(value: Any, field: str = "epsilon", **limits: Any) -> str:
    with pytest.raises(InvalidSetting) as caught:
        check_number(field, value, **limits)
    assert caught.value.field == field
    assert caught.value.value is value
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "epsilon must be > 0, got 0"),
        (-1e-9, "epsilon must be > 0, got -1e-09"),
        (math.nan, "epsilon must be > 0, got nan"),
        (np.float64(math.inf), "epsilon must be a finite number > 0, got inf"),
        ("1", "epsilon must be a number > 0, got '1'"),
        (True, "epsilon must be a number > 0, got True"),
        (decimal.Decimal(1), "epsilon must be a number > 0, got Decimal('1')"),
        (np.array([1.0]), "epsilon must be a number > 0, got array([1.])"),
    ],
)
def test_a_positive_number(value: Any, expected: str) -> None:
    assert read_error_message(value, above=0) == expected


def test_both_ends_are_named_and_checked() -> None:
    limits = {"at_least": 0, "below": 1}
    assert read_error_message(1, "delta", **limits) == "delta must be >= 0 and < 1, got 1"
    assert read_error_message(-0.1, "delta", **limits) == "delta must be >= 0 and < 1, got -0.1"
    check_number("delta", 0, **limits)
    check_number("share", 1, above=0, at_most=1)
    assert (
        read_error_message(1.5, "share", above=0, at_most=1)
        == "share must be > 0 and <= 1, got 1.5"
    )


def test_integers() -> None:
    assert read_error_message(2.5, "rank", at_least=1, integer=True) == (
        "rank must be an integer >= 1, got 2.5"
    )
    assert read_error_message(2.0, "rank", integer=True) == "rank must be an integer, got 2"
    assert read_error_message(0, "rank", at_least=1, integer=True) == "rank must be >= 1, got 0"
    check_number("rank", np.int32(4), at_least=1, integer=True)


def test_enormous_integers_are_refused_in_a_short_sentence() -> None:
    for digits in (400, 5000):
        text = read_error_message(10**digits, above=0)
        assert text.startswith("epsilon must be a finite number > 0, got ")
        assert len(text) < 120


def test_errors_survive_a_worker_process() -> None:
    for error in (InvalidSetting("rank", ">= 1", 0, "try 5"), BadRatings("no ratings")):
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is type(error)
        assert str(copy) == str(error)
