"""What is protected: the units of change between neighbouring data sets, and conversions."""

from __future__ import annotations

import copyreg
import enum
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dpmc_core.errors import InvalidSetting
from dpmc_core.ratings import PublicFacts


class Unit(enum.Enum):
    """What one change between neighbouring data sets is: the thing protected."""

    VALUE = "value"  # one observed rating changes value; which ratings exist is public
    ROW_VALUES = "row-values"  # all values of one row change; which ratings exist is public
    ENTRY = "entry"  # one user-item cell changes arbitrarily, also missing <-> present
    USER = "user"  # one user's whole row changes

    @property
    def label(self) -> str:
        return _UNIT_WORDS[self][0]

    @property
    def protects(self) -> str:
        return _UNIT_WORDS[self][1]


_UNIT_WORDS = {
    Unit.VALUE: ("per rating", "the value of one rating (that the rating exists is public)"),
    Unit.ROW_VALUES: (
        "per row of values",
        "all values one person gave (which items they rated is public)",
    ),
    Unit.ENTRY: ("per user-item cell", "one user-item cell, including whether it was rated at all"),
    Unit.USER: ("per user", "everything one person rated"),
}


class Neighbours(enum.Enum):
    """How the unit may change."""

    EMPTY = "empty"  # the row becomes empty; the number of users stays public
    REPLACE = "replace"  # any admissible new value of the unit


def relation(unit: Unit, neighbours: Neighbours) -> str:
    """What may change between two neighbouring data sets, in a few words."""
    return _RELATIONS[unit, neighbours]


_RELATIONS = {
    (Unit.VALUE, Neighbours.REPLACE): "its value changes",
    (Unit.ROW_VALUES, Neighbours.REPLACE): "its values change",
    (Unit.ENTRY, Neighbours.REPLACE): "it changes, comes or goes",
    (Unit.USER, Neighbours.EMPTY): "row becomes empty",
    (Unit.USER, Neighbours.REPLACE): "row becomes any other",
}


def default_neighbours(unit: Unit) -> Neighbours:
    """EMPTY for whole users (it fits joint privacy), REPLACE for everything smaller."""
    return Neighbours.EMPTY if unit is Unit.USER else Neighbours.REPLACE


def read_only(mapping: Mapping[Any, Any]) -> MappingProxyType[Any, Any]:
    """A copy nobody can change."""
    return MappingProxyType(dict(mapping))


# Cards travel to worker processes and caches, and Python does not pickle its read-only mappings.
copyreg.pickle(MappingProxyType, lambda mapping: (read_only, (dict(mapping),)))

Sensitivity = Mapping[tuple[Unit, Neighbours], float]

_VALUE = (Unit.VALUE, Neighbours.REPLACE)
_ROW_VALUES = (Unit.ROW_VALUES, Neighbours.REPLACE)
_ENTRY = (Unit.ENTRY, Neighbours.REPLACE)
_USER_EMPTY = (Unit.USER, Neighbours.EMPTY)
_USER_REPLACE = (Unit.USER, Neighbours.REPLACE)
UNITS: tuple[tuple[Unit, Neighbours], ...] = (
    _VALUE,
    _ROW_VALUES,
    _ENTRY,
    _USER_EMPTY,
    _USER_REPLACE,
)


def by_unit(
    *,
    value: float | None = None,
    row_values: float | None = None,
    entry: float | None = None,
    user_empty: float | None = None,
    user_replace: float | None = None,
) -> Sensitivity:
    """An immutable sensitivity table; a unit left out is unbounded unless another implies it."""
    given = zip(UNITS, (value, row_values, entry, user_empty, user_replace), strict=True)
    return read_only({key: float(s) for key, s in given if s is not None})


def sensitivity_at(
    table: Sensitivity, unit: Unit, neighbours: Neighbours, public: PublicFacts
) -> float:
    """The smallest sensitivity the table implies for a unit, by the triangle inequality.

    With k = the enforced cap on ratings per user (else the number of items n): a row of values is
    k values; a row is k cells against the empty row and min(2k, n) cells against another row;
    two rows are each one step from the empty one. Values never bound cells: the pattern is public.
    Raises InvalidSetting for a unit and relation that do not go together.
    """
    if (unit, neighbours) not in UNITS:
        raise InvalidSetting(
            f"neighbours {unit.label}", default_neighbours(unit).value, neighbours.value
        )
    n = public.items
    k = min(public.cap or n, n)
    steps = (
        (_VALUE, _ROW_VALUES, k),
        (_ROW_VALUES, _VALUE, 1),
        (_ENTRY, _VALUE, 1),
        (_ENTRY, _USER_EMPTY, k),
        (_ENTRY, _USER_REPLACE, min(2 * k, n)),
        (_USER_EMPTY, _USER_REPLACE, 2),
        (_USER_REPLACE, _USER_EMPTY, 1),
        (_USER_REPLACE, _ENTRY, 1),
        (_USER_REPLACE, _ROW_VALUES, 1),
    )
    known = dict(table)
    for _ in UNITS:
        for start, end, factor in steps:
            if start in known:
                known[end] = min(known.get(end, math.inf), factor * known[start])
    return known.get((unit, neighbours), math.inf)
