"""Where ratings are read from, and how: a file on disk or the bytes of an upload, with options."""

from __future__ import annotations

import enum
import io
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dpmc_core.errors import BadRatings, InvalidSetting, check_number, check_range

MEGABYTE = 1_000_000
HEAD = 65_536  # bytes looked at to recognise a format


class Duplicates(enum.Enum):
    """What to do with a user-item pair that appears more than once."""

    ERROR = "error"
    LAST = "last"  # the latest by time; the last in the file where there are no times
    MEAN = "mean"


class BadRows(enum.Enum):
    """What to do with a row whose user, item or rating is missing, no number or out of range."""

    ERROR = "error"
    LEAVE_OUT = "leave-out"


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read a file of ratings; what is None is guessed, except the rating range.

    user, item, rating, time: a column's name in the header, or its number counted from 1.
    low, high: the public rating range, in rating points. It is never taken from the data.
    max_bytes, max_rows: refused beyond, before the file is read into memory.
    """

    user: str | int | None = None
    item: str | int | None = None
    rating: str | int | None = None
    time: str | int | None = None
    low: float | None = None
    high: float | None = None
    duplicates: Duplicates = Duplicates.ERROR
    bad_rows: BadRows = BadRows.ERROR
    separator: str | None = None
    encoding: str | None = None
    max_bytes: int = 200 * MEGABYTE
    max_rows: int = 40_000_000

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise InvalidSetting("rating range", "given with both ends", f"{self.low}:{self.high}")
        if self.low is not None:
            check_range(self.low, self.high)
        for name, kind in (("duplicates", Duplicates), ("bad_rows", BadRows)):
            value = getattr(self, name)
            if not isinstance(value, kind):
                try:
                    object.__setattr__(self, name, kind(value))
                except ValueError:
                    choices = ", ".join(str(member.value) for member in kind)
                    raise InvalidSetting(name, f"one of {choices}", value) from None
        if self.separator is not None and len(self.separator) != 1 and self.separator != "::":
            raise InvalidSetting("separator", "one character or ::", self.separator)
        check_number("max_bytes", self.max_bytes, at_least=1, integer=True)
        check_number("max_rows", self.max_rows, at_least=1, integer=True)


@dataclass(frozen=True, eq=False)
class Source:
    """A file to read. name: what messages call it; path: None for uploaded content."""

    name: str
    content: bytes | None = None
    path: Path | None = None

    @classmethod
    def file(cls, path: str | Path) -> Source:
        """Raises BadRatings where there is no such file."""
        place = Path(path)
        if not place.is_file():
            raise BadRatings(f"there is no file {place}")
        return cls(name=place.name, path=place)

    @classmethod
    def upload(cls, content: bytes, name: str) -> Source:
        return cls(name=name, content=content)

    @property
    def size(self) -> int:
        """In bytes, known without reading."""
        if self.path is not None:
            return self.path.stat().st_size
        return len(self.content or b"")

    def open(self) -> BinaryIO:
        if self.path is not None:
            return self.path.open("rb")
        return io.BytesIO(self.content or b"")

    def head(self) -> bytes:
        with self.open() as file:
            return file.read(HEAD)

    def beside(self, name: str) -> Path | None:
        """A file of that name in the same folder, where there is one."""
        if self.path is None:
            return None
        place = self.path.parent / name
        return place if place.is_file() else None

    def check_size(self, limit: int) -> None:
        """Raise BadRatings where the file is empty or larger than `limit` bytes."""
        if self.size == 0:
            raise BadRatings(f"{self.name} is empty")
        if self.size > limit:
            raise BadRatings(
                f"{self.name} has {self.size / MEGABYTE:,.1f} MB, the limit is"
                f" {limit / MEGABYTE:,.6g} MB: use a part of it"
            )
