"""Text files cut into lines and fields, in one way and one pass, by Python's csv.

A line ends at \\n, \\r\\n or a lone \\r and nowhere else. Quotes join lines only in a record that
is well formed from its first to its last field; any other quote left open spoils its own line.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpmc_core.data.source import BLOCK, Fault, Refused, Source, Tell
from dpmc_core.errors import BadRatings
from dpmc_core.stopping import look

LONGEST = 16_000_000  # characters of a line
_SURPLUS = 100  # empty fields beyond the last column that are overlooked
QUOTE = "with a quote that is not closed"
FIELD = f"with a field of more than {csv.field_size_limit():,} characters"
_STAND_INS = "\x1f\x1e\x1d\x1c\ue000\ue001\ue002"  # one of them takes the place of ::

_BLANKS, _TRAILING = re.compile(" *"), re.compile(" +\n")

Ints = NDArray[np.int64]


def blocks(source: Source, encoding: str, tell: Tell | None = None) -> Iterator[str]:
    """The text in pieces of whole lines, each ended by one newline. Raises BadRatings."""
    decode = io.IncrementalNewlineDecoder(
        codecs.getincrementaldecoder(encoding)(), translate=True
    ).decode
    rest, lines, done, piece = "", 0, 0, b"begin"
    with source.open() as file:
        while piece:
            piece = file.read(BLOCK)
            try:
                fresh = decode(piece, final=not piece)
            except UnicodeError as error:
                raise _not_text(source, encoding, lines, error) from None
            if "\0" in fresh:
                raise BadRatings(f"{source.name} is not a text file: save the ratings as CSV")
            cut = fresh.rfind("\n") + 1
            if cut:
                lines += fresh.count("\n")
                yield rest + fresh[:cut]
                rest = ""
            rest += fresh[cut:]
            if len(rest) > LONGEST:
                raise BadRatings(
                    f"line {lines + 1} of {source.name} has more than {LONGEST:,} characters, the"
                    " limit"
                )
            done += len(piece)
            look()
            if tell is not None:
                tell(done, source.size)
    if rest:
        yield rest + "\n"


def _not_text(source: Source, encoding: str, lines: int, error: UnicodeError) -> Refused:
    name = "UTF-8" if encoding.startswith("utf-8") else encoding
    if isinstance(error, UnicodeDecodeError):
        before = bytes(error.object[: error.start]).decode(encoding, errors="ignore")
        lines += len(re.findall("\r\n|\r|\n", before))
    fault = Fault(
        f"not {name} text in line {lines + 1}",
        "save it as UTF-8, or say its encoding",
        ("encoding=cp1252",) if name == "UTF-8" else ("encoding=utf-8",),
    )
    return Refused(source.name, [fault])


def cut_line(line: str, separator: str) -> tuple[str, ...] | None:
    """The fields of one line, trimmed; None where a quote stays open or a field is too long."""
    rows = _parse(f"{line}\n", separator)
    if rows is None or _open(rows[0]):
        return None
    return tuple(text.strip() for text in rows[0])


def _parse(text: str, separator: str) -> list[list[str]] | None:
    """Rows of fields; None where csv refuses."""
    mark = separator
    if separator == "::":
        mark = next(c for c in _STAND_INS if c not in text or c == _STAND_INS[-1])
        text = text.replace("::", mark)
    if mark == " ":
        text = _TRAILING.sub("\n", text)
    lines = io.StringIO(text, newline="\n")
    try:
        # With blanks as separator, this makes a run of them one.
        rows = list(csv.reader(lines, delimiter=mark, skipinitialspace=True))
    except csv.Error:
        return None
    if separator == "::" and '"' in text:
        return [[f.replace(mark, "::") for f in row] for row in rows]
    return rows


def _open(row: list[str]) -> bool:
    """Whether a quote was open at the end of the last line."""
    return bool(row) and row[-1].endswith("\n")


@dataclass
class Broken:
    """Lines that cannot be cut, of one kind."""

    count: int = 0
    line: int = 0  # of the first
    example: str = ""


@dataclass
class Cutter:
    """Cuts text into rows of `width` fields and counts what became of every line.

    used: positions of the fields that will be read. skip: lines before the first row, of which the
    last is the header where there is one.
    """

    separator: str
    width: int
    used: tuple[int, ...]
    skip: int = 0
    lines: int = 0
    blank: int = 0
    continued: int = 0
    broken: dict[str, Broken] = field(default_factory=dict)

    def rows(self, pieces: Iterator[str]) -> Iterator[tuple[list[list[str]], Ints]]:
        """(rows, their line numbers), piece by piece; blank and unusable lines are only counted."""
        rest = ""
        for piece in pieces:
            text = rest + piece
            while self.skip and text:
                text = text[text.index("\n") + 1 :]
                self.lines, self.skip = self.lines + 1, self.skip - 1
            rows, numbers, rest = self._cut(text, final=False)
            yield self._fitting(rows, numbers)
        if rest:
            rows, numbers, _ = self._cut(rest, final=True)
            yield self._fitting(rows, numbers)

    def _cut(self, text: str, final: bool) -> tuple[list[list[str]], Ints, str]:
        """Rows of whole lines, their numbers, and what must wait for more text."""
        count = text.count("\n")
        rows = _parse(text, self.separator)
        if rows is not None and len(rows) == count and not (rows and _open(rows[-1])):
            numbers = np.arange(self.lines + 1, self.lines + count + 1)
            self.lines += count
            return rows, numbers, ""
        return self._one_by_one(text, final)

    def _one_by_one(self, text: str, final: bool) -> tuple[list[list[str]], Ints, str]:
        rows: list[list[str]] = []
        numbers: list[int] = []
        at = 0
        while at < len(text):
            end = text.index("\n", at) + 1
            line = text[at:end]
            parsed = _parse(line, self.separator)
            row = parsed[0] if parsed else None
            if row is not None and _open(row):
                joined = self._joined(text, at)
                if joined is None and not final and len(text) - at < BLOCK:
                    return rows, np.array(numbers, dtype=np.int64), text[at:]
                row, end = joined or (None, end)
                if row is None or any("\n" in row[k] for k in self.used):
                    self.spoil(QUOTE, self.lines + 1, line)
                    row = None
            elif row is None:
                self.spoil(FIELD, self.lines + 1, line)
            if row is not None:
                rows.append(row)
                numbers.append(self.lines + 1)
            taken = text.count("\n", at, end)
            self.lines += taken
            self.continued += taken - 1
            at = end
        return rows, np.array(numbers, dtype=np.int64), ""

    def _joined(self, text: str, at: int) -> tuple[list[str], int] | None:
        """A record over several lines and where it ends; None where it is not well formed, a line
        in it could be a row of its own, or the end of the text comes first."""
        start, mark = at, re.escape(self.separator)
        quoted = re.compile(r' *"([^"]*(?:""[^"]*)*)" *(?=\n|' + mark + ")")
        plain = re.compile(rf"(?:(?!{mark})[^\n])*")
        row: list[str] = []
        while len(row) < self.width + _SURPLUS:
            if self.separator == " ":
                at = _BLANKS.match(text, at).end()  # type: ignore[union-attr]
            found = quoted.match(text, at)
            if found is None:
                found = plain.match(text, at)
                assert found is not None  # it matches nothing at all, too
                if found[0].lstrip(" ").startswith('"'):
                    return None
                row.append(found[0])
            else:
                row.append(found[1].replace('""', '"'))
            at = found.end()
            if at >= len(text) or len(row[-1]) > csv.field_size_limit():
                return None
            if text[at] == "\n":
                further = text[start:at].split("\n")[1:]
                alone = [_parse(f"{line}\n", self.separator) or [[]] for line in further]
                good = len(row) >= self.width and not "".join(row[self.width :]).strip()
                good &= all(len(rows[0]) != self.width for rows in alone)
                return (row, at + 1) if good else None
            at += len(self.separator)
        return None

    def _fitting(self, rows: list[list[str]], numbers: Ints) -> tuple[list[list[str]], Ints]:
        """Rows of the right width alone."""
        width = self.width
        if set(map(len, rows)) <= {width}:
            return rows, numbers
        good, places = [], []
        for k, row in enumerate(rows):
            if len(row) != width:
                if not any(text.strip() for text in row):
                    self.blank += 1
                    continue
                if len(row) < width or any(text.strip() for text in row[width:]):
                    words = f"with another number of columns than {width}"
                    self.spoil(words, int(numbers[k]), self.separator.join(row))
                    continue
                row = row[:width]
            good.append(row)
            places.append(k)
        return good, numbers[places]

    def spoil(self, what: str, line: int, example: str) -> None:
        kind = self.broken.setdefault(what, Broken(line=line, example=example.strip()[:40]))
        kind.count += 1
