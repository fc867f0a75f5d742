"""Sources of ratings, a file on disk or the bytes of an upload, and options for reading them."""

from __future__ import annotations

import codecs
import enum
import hashlib
import io
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from dpmc_core.errors import BadRatings, InvalidSetting, check_number, check_range, make_printable
from dpmc_core.stopping import check_cancelled
from dpmc_data import archives
from dpmc_data.memory import MEGABYTE as MEGABYTE
from dpmc_data.memory import MemoryLimit, explain_limit

# Limits where 4 GB of memory are free; they follow the free memory.
USUAL_BYTES = 200 * MEGABYTE  # of a file, and of what a packed file or a pipe holds
USUAL_ROWS = 40_000_000
HEAD_BYTES = 65_536  # bytes read to recognise a format
BLOCK_BYTES = 2_000_000  # bytes read at a time
PLACEHOLDERS = ("COLUMN", "CHARACTER", "LOW:HIGH", "WORD:NUMBER,...")  # a person says what
COLUMNS = ("user", "item", "rating", "time")  # options that name a column
NO_COLUMN = "none"  # as a column: the file has none
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "::": "::", "blanks": " "}

# Called now and then while a file is read, with (bytes read, bytes in all). An error that it raises
# ends the reading.
ReadProgress = Callable[[int, int], None]


class Duplicates(enum.Enum):
    """What to do with a user-item pair that appears more than once."""

    ERROR = "error"
    LAST = "last"  # the latest by time; the last in the file where there are no times
    MEAN = "mean"


class BadRows(enum.Enum):
    """What to do with a row whose user, item or rating is missing, no number or out of range."""

    ERROR = "error"
    LEAVE_OUT = "leave-out"


class Header(enum.Enum):
    """Whether the first line names the columns."""

    GUESS = "guess"
    YES = "yes"
    NO = "no"


class FileShape(enum.Enum):
    """What a line of a file holds.

    One rating; all ratings of a user with a column per item (wide), or of an item with a column per
    user (transposed); or a user's id and then those of the items (adjacency).
    """

    GUESS = "guess"
    ROWS = "rows"
    WIDE = "wide"
    TRANSPOSED = "transposed"
    ADJACENCY = "adjacency"


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read a file of ratings; what is None is guessed, except the rating range.

    Attributes:
        user: the column of users: its name in the header, or its number counted from 1. In a
            matrix, FIRST:LAST are the columns that hold ratings and "none" numbers the lines.
        item: the column of items; in a matrix as for users.
        rating: the column of ratings; "none" if every row is a click.
        time: the column of times; "none" to ignore times.
        low: lower end of the public rating range, in rating points; never taken from the data.
        high: upper end of the public rating range.
        duplicates: what to do with repeated user-item pairs.
        bad_rows: what to do with rows that cannot be used.
        separator: one character, or a name in SEPARATORS.
        encoding: the text encoding.
        header: whether the first line names the columns.
        layout: what a line holds.
        values: the numbers of words, WORD:NUMBER,..., or a scale of reading.toml.
        missing: texts that stand for "not rated", separated by commas.
        event: COLUMN:VALUE, to read only the rows with this value.
        items: path of a table of public item features, CSV or Parquet.
        for_ranking: whether only the presence of ratings matters, so that a file without a known
            range is read as clicks.
        max_bytes: larger files are refused before they are read; by default more than fits into
            the free memory.
        max_rows: longer files are refused before more is read; by default as for `max_bytes`.
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
    header: Header = Header.GUESS
    layout: FileShape = FileShape.GUESS
    values: str | None = None
    missing: str | None = None
    event: str | None = None
    items: str | None = None
    for_ranking: bool = False
    max_bytes: int = field(default_factory=lambda: MemoryLimit.from_usual(USUAL_BYTES))
    max_rows: int = field(default_factory=lambda: MemoryLimit.from_usual(USUAL_ROWS))

    @property
    def columns(self) -> dict[str, str | int]:
        """The given columns by role."""
        return {role: column for role in COLUMNS if (column := getattr(self, role)) is not None}

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise InvalidSetting("rating range", "given with both ends", f"{self.low}:{self.high}")
        if self.low is not None:
            check_range(self.low, self.high)
        values = vars(self)  # may be set although the class is frozen
        for setting in fields(self):
            if not isinstance(setting.default, enum.Enum):
                continue
            value, enum_type = values[setting.name], type(setting.default)
            try:
                values[setting.name] = enum_type(value)
            except ValueError:
                choices = ", ".join(str(member.value) for member in enum_type)
                raise InvalidSetting(setting.name, f"one of {choices}", value) from None
        for name in ("values", "missing", "event"):
            if values[name] is not None:
                values[name] = str(values[name])
        if self.separator is not None:
            mark = SEPARATORS.get(str(self.separator), str(self.separator))
            if mark != "::" and (len(mark) != 1 or mark.isalnum() or mark in '"+-.\r\n\0'):
                names = ", ".join(SEPARATORS)
                limit = f"one of {names}, or a character that is no letter, digit, sign or quote"
                raise InvalidSetting("separator", limit, self.separator)
            values["separator"] = mark
        if self.encoding is not None:
            values["encoding"] = _normalise_encoding(str(self.encoding))
        for name in ("max_bytes", "max_rows"):
            check_number(name, values[name], at_least=1, integer=True)


def _normalise_encoding(name: str) -> str:
    """Return Python's name of a text encoding in which digits and commas can be written."""
    try:
        codec = codecs.lookup(name)
        usable = codec._is_text_encoding and "1,5\n".encode(name).decode(name) == "1,5\n"
    except (LookupError, UnicodeError, ValueError):
        usable = False
    if not usable:
        raise InvalidSetting("encoding", "a text encoding such as utf-8 or cp1252", name)
    # Such files may start with a byte order mark, which is no part of the first name.
    return {"utf-8": "utf-8-sig"}.get(codec.name, codec.name)


@dataclass(frozen=True)
class Fault:
    """Something that keeps a file from being read.

    Attributes:
        problem: what is wrong, as a clause.
        advice: what a person can do about it.
        options: the reading options NAME=VALUE that answer it; several that only together answer
            it are joined by " and ".
    """

    problem: str
    advice: str = ""
    options: tuple[str, ...] = ()

    @property
    def option(self) -> str:
        """The name of the first option that answers it; empty if none does."""
        return self.options[0].partition("=")[0] if self.options else ""

    @property
    def answers(self) -> list[dict[str, Any]]:
        """The options of each answer that says everything; a column's number is one."""
        answers = [
            {
                name: int(value) if name in COLUMNS and value.isdecimal() else value
                for name, value in split_answer(answer)
            }
            for answer in self.options
        ]
        return [answer for answer in answers if not {*answer.values()} & {*PLACEHOLDERS}]

    def __str__(self) -> str:
        answers = f"({' or '.join(map(format_answer, self.options))})" if self.options else ""
        remedy = " ".join(filter(None, [self.advice, answers]))
        return make_printable(": ".join(filter(None, [self.problem, remedy])))


def format_answer(answer: str) -> str:
    """An answer to a fault as the command line takes it."""
    flags = ("range", "user")  # options of the command itself
    return " ".join(
        f"--{name} {value}" if name in flags else f"--read {shlex.quote(f'{name}={value}')}"
        for name, value in split_answer(answer)
    )


def split_answer(answer: str) -> list[tuple[str, str]]:
    """The options of an answer, as (name, value)."""
    options = re.split(r" and (?=[a-z_]+=)", answer)  # an event's name may hold an "and"
    return [option.partition("=")[::2] for option in options]


class Refused(BadRatings):
    """A file that cannot be read as it is.

    Attributes:
        name: the name of the file.
        faults: everything that is wrong with it.
    """

    def __init__(self, name: str, faults: Sequence[Fault]) -> None:
        self.name, self.faults = name, tuple(faults)
        numbered = "; ".join(f"({k}) {fault}" for k, fault in enumerate(faults, 1))
        several = f"{name} cannot be read yet: {numbered}"
        super().__init__(several if len(faults) > 1 else f"{name}: {faults[0]}")


@dataclass(frozen=True, kw_only=True)
class LineCount:
    """What became of every line of a file.

    lines = header + blank + continued + rows; entries = used + all of left_out + repeated.

    Attributes:
        lines: number of lines.
        header: lines of the header.
        blank: blank lines.
        continued: further lines of a quoted text.
        rows: rows of the table.
        entries: the rows; in a users x items matrix each filled cell and each line that cannot be
            used.
        used: entries that became ratings.
        left_out: entries that were left out, by reason.
        repeated: entries that gave way to another rating of the same user and item.
    """

    lines: int
    header: int = 0
    blank: int = 0
    continued: int = 0
    rows: int
    entries: int
    used: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    repeated: int = 0


def _unpack(name: str, file: BinaryIO) -> bytes | None:
    """Return what is in a packed file; None if it is not packed."""
    limit = MemoryLimit.from_usual(USUAL_BYTES)
    try:
        return archives.unpack(name, file, limit)
    except archives.BadArchive as error:
        reason = explain_limit(limit) * (f"more than {limit:,} " in error.reason)
        advice = "" if "sheet" in error.reason else "; unpack it first"
        raise BadRatings(f"{error}{reason}{advice}") from None


def check_path(path: object) -> str:
    """Return the name of a data set or the path of a file as text.

    Raises:
        BadRatings: if it is anything else, such as a data frame.
    """
    if not isinstance(path, str | Path):
        raise BadRatings(
            "data must be the name of a data set or the path of a file, got an object of the type"
            f" {type(path).__name__}; Ratings.from_frame takes a data frame"
        )
    return str(path)


@dataclass(frozen=True, eq=False)
class Source:
    """A file to read, or a folder of Parquet files or of text.

    Attributes:
        name: the name in messages.
        content: the bytes of an upload, or what is in a packed file; None for any other file.
        path: the path of a file or folder; None for an upload.
        keys: of a file in folders called KEY=VALUE, these columns.
    """

    name: str
    content: bytes | None = None
    path: Path | None = None
    keys: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_file(cls, path: str | Path) -> Source:
        """Return the source of a file, of a folder of tables, or of what a pipe gives.

        Raises:
            BadRatings: if there is no such file, or it is packed and damaged.
        """
        target = Path(check_path(path))
        source = cls(make_printable(target.name), path=target)
        if source.parts:
            return source
        if target.is_fifo() or target.is_char_device():  # <(...): read into memory
            limit = MemoryLimit.from_usual(USUAL_BYTES)
            with target.open("rb") as file:
                content = file.read(limit + 1)
            if len(content) > limit:
                problem = f"gives more than {limit / MEGABYTE:,.0f} MB, the limit of a pipe"
                advice = "write it to a file first"
                raise BadRatings(f"{source.name} {problem}{explain_limit(limit)}: {advice}")
            return cls.from_upload(content, source.name)
        if not target.is_file():
            raise BadRatings(f"there is no file {target}")
        with target.open("rb") as file:
            return replace(source, content=_unpack(source.name, file))

    @classmethod
    def from_upload(cls, content: bytes, name: str) -> Source:
        """Return the source of uploaded bytes.

        Raises:
            BadRatings: if they are packed and damaged.
        """
        name = make_printable(name)
        unpacked = _unpack(name, io.BytesIO(content))
        return cls(name, content if unpacked is None else unpacked)

    @cached_property
    def parts(self) -> list[Source]:
        """The tables of a folder, Parquet or text, in the order of their paths; none for a file.

        Folders in it may be called KEY=VALUE, as programs write partitions of a table.
        """
        if self.path is None or not self.path.is_dir():
            return []
        for pattern in ("*.parquet", "part-*", "*.csv"):
            paths = [
                path
                for path in sorted(self.path.rglob(pattern))
                if path.is_file()
                and not any(part[:1] in "._" for part in path.relative_to(self.path).parts)
                and all("=" in part for part in path.relative_to(self.path).parts[:-1])
            ]
            if paths:
                return [
                    replace(Source.from_file(path), keys=self._read_keys(path)) for path in paths
                ]
        return []

    def _read_keys(self, path: Path) -> tuple[tuple[str, str], ...]:
        """Return the names and values of the folders NAME=VALUE above a file of a folder."""
        folders = path.relative_to(self.path or path).parts[:-1]
        return tuple((key, value) for key, _, value in (part.partition("=") for part in folders))

    @cached_property
    def size(self) -> int:
        """Size in bytes once unpacked."""
        with self.open() as file:
            return file.seek(0, io.SEEK_END)

    def open(self) -> BinaryIO:
        """Open the unpacked content for reading bytes."""
        if self.path and self.content is None:
            return self.path.open("rb")
        return io.BytesIO(self.content or b"")

    def read_head(self) -> bytes:
        """Return the first HEAD_BYTES bytes."""
        with self.open() as file:
            return file.read(HEAD_BYTES)

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the whole content, in hexadecimal."""
        digest = hashlib.sha256()
        for source_file in self.parts or [self]:
            with source_file.open() as file:
                while chunk := file.read(MEGABYTE):
                    digest.update(chunk)
                    check_cancelled()
        return digest.hexdigest()

    def find_neighbour(self, name: str) -> Path | None:
        """Return the file of that name in the same folder; None if there is none."""
        neighbour = self.path and self.path.parent / name
        return neighbour if neighbour and neighbour.is_file() else None

    def check_size(self, limit: int) -> None:
        """Check the size of the file.

        Raises:
            BadRatings: if it is empty or larger than `limit` bytes.
        """
        if self.size == 0:
            raise BadRatings(f"{self.name} is empty")
        if self.size > limit:
            raise BadRatings(
                f"{self.name} has {self.size / MEGABYTE:,.1f} MB, the limit is"
                f" {limit / MEGABYTE:,.6g} MB{explain_limit(limit)}: use a part of it, or raise the"
                " limit with --read max_bytes=N"
            )
