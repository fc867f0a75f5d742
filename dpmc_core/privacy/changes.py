"""Changes between neighbouring data sets, which are what is protected, and their conversion."""

from __future__ import annotations

import copyreg
import enum
import math
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from dpmc_core.errors import InvalidSetting
from dpmc_core.ratings import PublicFacts


class Change(enum.Enum):
    """What may change between two neighbouring data sets: the thing protected.

    The value of a member is its column in the result store.

    Attributes:
        unit: with `neighbours`, the pair that stands for the change in JSON.
        neighbours: see `unit`.
        label: what an epsilon counts, as in "per rating".
        protects: what is protected, as a noun phrase.
        relation: what may happen to it, as a clause.
    """

    unit: str
    neighbours: str
    label: str
    protects: str
    relation: str

    # The first three texts of each member are its column, its unit and its neighbours.
    RATING = (
        *("value", "value", "replace"),
        "per rating",
        "the value of one rating (that the rating exists is public)",
        "its value changes",
    )
    ROW_VALUES = (
        *("row_values", "row-values", "replace"),
        "per row of values",
        "all values one person gave (which items they rated is public)",
        "its values change",
    )
    CELL = (
        *("entry", "entry", "replace"),
        "per user-item cell",
        "one user-item cell, including whether it was rated at all",
        "it changes, comes or goes",
    )
    USER_EMPTIED = (  # the number of users stays public
        *("user_empty", "user", "empty"),
        "per user",
        "everything one person rated",
        "row becomes empty",
    )
    USER_REPLACED = (
        *("user_replace", "user", "replace"),
        "per user",
        "everything one person rated",
        "row becomes any other",
    )

    def __new__(
        cls, column: str, unit: str, neighbours: str, label: str, protects: str, relation: str
    ) -> Change:
        """Create a member, whose value is the name of its column."""
        change = object.__new__(cls)
        change._value_ = column
        change.unit, change.neighbours = unit, neighbours
        change.label, change.protects, change.relation = label, protects, relation
        return change

    @property
    def per_user(self) -> bool:
        """Whether everything of one person is protected, including whether it exists."""
        return self.unit == "user"

    @property
    def covers_existence(self) -> bool:
        """Whether the existence of a rating is hidden, and with it that of an item or a user."""
        return self not in (Change.RATING, Change.ROW_VALUES)

    @classmethod
    def from_json(cls, unit: str, neighbours: str) -> Change:
        """Return the change that a JSON pair stands for.

        Raises:
            InvalidSetting: if the pair stands for none.
        """
        matches = {change.neighbours: change for change in cls if change.unit == unit}
        if not matches:
            units = dict.fromkeys(change.unit for change in cls)
            raise InvalidSetting("unit", f"one of {', '.join(units)}", unit)
        if neighbours not in matches:
            change_label = next(iter(matches.values())).label
            raise InvalidSetting(f"neighbours {change_label}", " or ".join(matches), neighbours)
        return matches[neighbours]


RATING, ROW_VALUES, CELL, USER_EMPTIED, USER_REPLACED = Change


def make_read_only(mapping: Mapping[Any, Any]) -> MappingProxyType[Any, Any]:
    """Return a read-only copy of a mapping."""
    return MappingProxyType(dict(mapping))


# Guarantees are sent to worker processes and caches, and Python cannot pickle read-only mappings.
copyreg.pickle(MappingProxyType, lambda mapping: (make_read_only, (dict(mapping),)))

# How far each change moves an answer; a missing one is unbounded unless another implies it.
Sensitivity = Mapping[Change, float]


def sensitivity_at(table: Sensitivity, change: Change, public: PublicFacts) -> float:
    """Return the smallest sensitivity a table implies for a change, by the triangle inequality.

    Args:
        table: sensitivities by change.
        change: the change to bound.
        public: the public facts, which state cap and number of items.
    """
    factors = _list_factors(public.items, public.cap)[change]
    return min(
        (factors[other] * bound for other, bound in table.items() if other in factors),
        default=math.inf,
    )


@lru_cache  # a calibration asks for the same ones thousands of times
def _list_factors(n: int, cap: int | None) -> dict[Change, Sensitivity]:
    """Return, for each change, how many of the others it takes at most.

    With k = the enforced cap on ratings per user (else the number of items n): a row of values is k
    values; a row is k cells against the empty row and min(2k, n) cells against another row; two
    rows are each one step from the empty one. Values never bound cells, because the pattern is
    public.
    """
    k = min(cap or n, n)
    cells = {CELL: 1, USER_EMPTIED: 2, USER_REPLACED: 1}
    values = cells | {RATING: 1, ROW_VALUES: 1}
    return {
        RATING: values,
        ROW_VALUES: values | {RATING: k, CELL: k},
        CELL: cells,
        USER_EMPTIED: cells | {CELL: k, USER_EMPTIED: 1},
        USER_REPLACED: cells | {CELL: min(2 * k, n)},
    }
