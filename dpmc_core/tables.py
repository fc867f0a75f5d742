"""A table of ratings as read, and the conversion of its columns from what pandas gives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import BadRatings
from dpmc_core.known import Known
from dpmc_core.sources import Source

if TYPE_CHECKING:
    import pandas as pd

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Column:
    """Ids of one column: names[code] for each row, code -1 where the id is missing."""

    codes: Ints
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Table:
    """Rows as read, not yet validated.

    ratings: NaN where missing or no number; text: where there was a text that is no number;
    examples: some of these texts, by row.
    times: Unix seconds or None. line: of row k is first_line + k, or None where there are none.
    """

    source: Source
    known: Known | None
    user: Column
    item: Column
    ratings: Floats
    text: NDArray[np.bool_]
    examples: dict[int, str]
    times: Ints | None
    first_line: int | None
    how: str  # layout and columns, in words
    rating_name: str

    def place(self, row: int) -> str:
        """Where a person finds the row."""
        if self.first_line is None:
            return f"row {row + 1} of {self.source.name}"
        return f"line {self.first_line + row} of {self.source.name}"


def numbers(column: pd.Series[Any]) -> tuple[Floats, NDArray[np.bool_], dict[int, str]]:
    """Values as floats, NaN where missing or text; where text is; and the first such texts."""
    import pandas as pd

    if column.dtype.kind in "iuf":
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return values, np.zeros(len(values), dtype=bool), {}
    texts = column.astype("object").where(column.notna(), None)
    values = pd.to_numeric(texts.map(_plain), errors="coerce").to_numpy(dtype=np.float64)
    wrong = np.isnan(values) & column.notna().to_numpy()
    first = np.flatnonzero(wrong)[:20]
    return values, wrong, {int(row): str(texts.iloc[row]) for row in first}


def _plain(value: Any) -> Any:
    """True and False are no ratings, though pandas would read them as 1 and 0."""
    return str(value) if isinstance(value, bool | np.bool_) else value


def categories(column: pd.Series[Any]) -> Column:
    """Ids read as a categorical column of text, re-coded in their natural order."""
    names = [str(name) for name in column.cat.categories]
    return _in_order(column.cat.codes.to_numpy().astype(np.int64), names)


def factorise(column: pd.Series[Any]) -> Column:
    import pandas as pd

    codes, names = pd.factorize(column)
    whole = [str(int(x)) if isinstance(x, float) and x.is_integer() else str(x) for x in names]
    return _in_order(codes.astype(np.int64), whole)


def _in_order(codes: Ints, names: Sequence[str]) -> Column:
    order = natural_order(names)
    rank = np.empty(len(names) + 1, dtype=np.int64)
    rank[order] = np.arange(len(names))
    rank[-1] = -1  # where code -1 points
    return Column(rank[codes], tuple(names[k] for k in order))


def natural_order(names: Sequence[str]) -> list[int]:
    """Positions that sort ids: as numbers where all are whole numbers, else as text."""
    if all(re.fullmatch(r"0|[1-9]\d{0,17}", name) for name in names):
        return sorted(range(len(names)), key=lambda k: int(names[k]))
    return sorted(range(len(names)), key=lambda k: names[k])


def times(column: pd.Series[Any], source: Source, asked: bool) -> tuple[Ints | None, str]:
    """Unix seconds, from seconds, milliseconds or dates, and a note where a guess went wrong."""
    import pandas as pd

    if column.dtype.kind in "iuf":
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
        if np.isfinite(numbers).all():
            if len(numbers) and np.median(numbers) > 1e11:  # the year 5138 in seconds
                numbers = numbers / 1000.0
            return numbers.astype(np.int64), ""
    dates = pd.to_datetime(column, errors="coerce", utc=True, format="ISO8601")
    missing = dates.isna().to_numpy()
    if not missing.any():
        return dates.dt.as_unit("s").astype(np.int64).to_numpy().astype(np.int64), ""
    problem = (
        f"{int(missing.sum())} times are neither Unix seconds nor dates like 2024-03-31 18:00,"
        f" first {str(column.iloc[int(np.argmax(missing))])!r}"
    )
    if asked:
        raise BadRatings(f"{problem} in {source.name}: choose another column or none")
    return None, f"; times are left out: {problem}"
