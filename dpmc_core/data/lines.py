"""Text files cut into lines and columns by pyarrow; by Python's csv and json where that asks care.

A line ends at \\n, \\r\\n or a lone \\r and nowhere else. Quotes join lines only in a record that
is well formed from its first to its last field; any other quote left open spoils its own line.
"""

from __future__ import annotations

import abc
import codecs
import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.data.source import BLOCK, Fault, Refused, Source, Tell
from dpmc_core.errors import BadRatings
from dpmc_core.stopping import look

LONGEST = 16_000_000  # characters of a line
QUOTE = "with a quote that is not closed"
FIELD = f"with a field of more than {csv.field_size_limit():,} characters"

Ints = NDArray[np.int64]
Cut = tuple[list[Any], Ints]  # the used columns, as arrays of pyarrow, and the line of each row


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
                fresh.encode()  # some encodings can write half a character
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
    other = "cp1252" if name == "UTF-8" else "utf-8"
    advice = "save it as UTF-8, or say its encoding"
    return Refused(
        source.name, [Fault(f"not {name} text in line {lines + 1}", advice, (f"encoding={other}",))]
    )


def cut_line(line: str, separator: str) -> tuple[str, ...] | None:
    """The fields of one line, trimmed; None where a quote stays open or a field is too long."""
    text, mark = _one_mark(line, separator)
    try:
        row: list[str] = next(_records([text], mark), [])
    except csv.Error:
        return None
    return None if _is_open(row) else tuple(field.strip() for field in _told(row, mark, separator))


def _one_mark(text: str, separator: str) -> tuple[str, str]:
    """The text with one character between fields, and that character."""
    if separator != "::":
        return text, separator
    marks = map(chr, chain([0x1F], range(0xE000, 0xF000)))  # between units, or private
    mark = next(mark for mark in marks if mark not in text)
    return text.replace("::", mark), mark


def _told(row: list[str], mark: str, separator: str) -> list[str]:
    """Fields as they were before one mark took the place of the separator."""
    return row if mark == separator else [text.replace(mark, separator) for text in row]


def _records(lines: Iterable[str], mark: str, *, strict: bool = False) -> Any:
    """Reads the fields of one record after the other; a run of blanks between fields is one."""
    ended = (f"{line.rstrip(' ') if mark == ' ' else line}\n" for line in lines)
    return csv.reader(ended, delimiter=mark, skipinitialspace=True, strict=strict)


def _is_open(row: Sequence[str]) -> bool:
    """Whether a quote was open at the end of the line."""
    return bool(row) and row[-1].endswith("\n")


def _may_exceed(text: str, length: int) -> bool:
    """Whether a line may have more characters; surely not where each half of as many has an end."""
    half = length // 2
    return not all("\n" in text[k : k + half] for k in range(0, len(text) - half, half))


def _columns(rows: Sequence[Sequence[str | None]], lines: list[int], used: Sequence[int]) -> Cut:
    import pyarrow as pa

    columns = [pa.array([row[place] for row in rows], pa.string()) for place in used]
    return columns, np.array(lines, dtype=np.int64)


@dataclass
class Broken:
    """Lines that cannot be cut, of one kind."""

    count: int = 0
    line: int = 0  # of the first
    example: str = ""


@dataclass
class Lines(abc.ABC):
    """Cuts a text into columns and counts what becomes of its lines. skip: those before any row."""

    skip: int
    lines: int = field(default=0, init=False)
    blank: int = field(default=0, init=False)
    continued: int = field(default=0, init=False)
    broken: dict[str, Broken] = field(default_factory=dict, init=False)

    def cut(self, pieces: Iterable[str]) -> Iterator[Cut]:
        """Columns of text, piece by piece; blank and unusable lines are only counted."""
        rest = ""
        for piece in chain(pieces, [""]):
            text = rest + piece
            while self.skip and text:
                text = text[text.index("\n") + 1 :]
                self.lines, self.skip = self.lines + 1, self.skip - 1
            if text:
                found = self._plainly(text)
                cut, rest = (found, "") if found else self._carefully(text, not piece)
                self.lines += text.count("\n") - rest.count("\n")
                yield cut

    @abc.abstractmethod
    def _plainly(self, text: str) -> Cut | None:
        """By pyarrow; None where that might see other rows than the careful way does."""

    @abc.abstractmethod
    def _carefully(self, text: str, final: bool) -> tuple[Cut, str]:
        """Line by line; and the end of the text where that must wait for more."""

    def spoil(self, what: str, line: int, example: str) -> None:
        kind = self.broken.setdefault(what, Broken(line=line, example=example.strip()[:40]))
        kind.count += 1


@dataclass
class Fields(Lines):
    """Rows of `width` fields, of which those at the places `used` are read; all but that at
    `plain`, whose texts are hardly ever the same, with each distinct text kept once."""

    separator: str
    width: int
    used: Sequence[int]
    plain: int | None = None

    def _plainly(self, text: str) -> Cut | None:
        import pyarrow as pa
        from pyarrow import compute
        from pyarrow import csv as arrow

        count = text.count("\n")
        marked, mark = _one_mark(text, self.separator)
        odd = rf'(?:^|{re.escape(mark)}) +"' if mark != " " else r"^ |  | $"
        if (
            not mark.isascii()
            or text.startswith("\ufeff")  # pyarrow would take it for a mark of the encoding
            or (mark != self.separator and '"' in text)
            or ((mark == " " or ' "' in text) and re.search(odd, text, re.MULTILINE))
            or _may_exceed(text, csv.field_size_limit())
        ):
            return None
        ragged: list[Any] = []

        def skip(row: Any) -> str:
            ragged.append(row)
            return "skip"

        names = [str(k) for k in range(self.width)]
        kinds = dict.fromkeys(names, pa.dictionary(pa.int32(), pa.string()))
        kinds[str(self.plain)] = pa.string()
        content = f"{marked}\n".encode()  # a quote left open would take the line at the end
        try:
            table = arrow.read_csv(
                io.BytesIO(content),
                arrow.ReadOptions(use_threads=False, block_size=len(content), column_names=names),
                arrow.ParseOptions(
                    delimiter=mark,
                    ignore_empty_lines=False,
                    newlines_in_values=True,
                    invalid_row_handler=skip,
                ),
                arrow.ConvertOptions(
                    include_columns=[names[k] for k in dict.fromkeys(self.used)],
                    column_types=kinds,
                    null_values=[],
                ),
            )
        except pa.ArrowInvalid:
            return None
        cut = [next(_records([row.text], mark)) for row in ragged]
        if len(table) + len(cut) != count + 1 or any(self._fits(row) and any(row) for row in cut):
            return None  # a quote joins lines, or a row goes on with empty fields
        for row, fields in zip(ragged, cut, strict=True):
            self._is_row(fields, row.number, row.text.replace(mark, self.separator))
        numbers = np.delete(np.arange(1, count + 1), [row.number - 1 for row in ragged])
        table = table.slice(0, len(numbers)).combine_chunks()
        first = table[names[self.used[0]]].combine_chunks()
        empty = compute.equal(compute.utf8_trim_whitespace(first.dictionary), "").to_numpy(False)
        keep = ~empty[first.indices.to_numpy()]
        if not keep.all():  # spreadsheets end in lines of separators alone
            lines = marked.split("\n")
            for k in np.flatnonzero(~keep).tolist():
                line = lines[numbers[k] - 1]
                keep[k] = self._is_row(next(_records([line], mark), []), numbers[k], line)
            table, numbers = table.filter(pa.array(keep)), numbers[keep]
        return [table[names[k]].combine_chunks() for k in self.used], self.lines + numbers

    def _fits(self, row: Sequence[str]) -> bool:
        """Whether it has a field for each column, and nothing but empty ones beyond."""
        return len(row) >= self.width and not "".join(row[self.width :]).strip()

    def _is_row(self, row: Sequence[str], k: int, line: str) -> bool:
        """Whether the k-th line now at hand is a row; it is counted where it is none."""
        if not "".join(row).strip():
            self.blank += 1
            return False
        if not self._fits(row):
            words = f"with another number of columns than {self.width}"
            self.spoil(words, self.lines + k, line)
            return False
        return True

    def _carefully(self, text: str, final: bool) -> tuple[Cut, str]:
        marked, mark = _one_mark(text, self.separator)
        whole, lines = text.split("\n")[:-1], marked.split("\n")[:-1]
        rows: list[list[str]] = []
        numbers: list[int] = []
        row: list[str] | None
        k = end = 0
        while end < len(lines):
            k, end, row = end, end + 1, None
            with suppress(csv.Error):
                row = next(_records([lines[k]], mark), [])
            if row is None:
                self.spoil(FIELD, self.lines + k + 1, whole[k])
                continue
            if _is_open(row):
                try:
                    row, end = self._joined(lines, k, mark)
                except EOFError:
                    if not final and sum(map(len, lines[k:])) < BLOCK:
                        end = k
                        break
                    row = None
                if row is None or any("\n" in row[place] for place in self.used):
                    self.spoil(QUOTE, self.lines + k + 1, whole[k])
                    row = None
                self.continued += end - k - 1
            if row is not None and self._is_row(row, k + 1, whole[k]):
                rows.append(_told(row, mark, self.separator))
                numbers.append(self.lines + k + 1)
        return _columns(rows, numbers, self.used), "".join(f"{line}\n" for line in whole[end:])

    def _joined(self, lines: list[str], k: int, mark: str) -> tuple[list[str] | None, int]:
        """A record over several lines and where it ends; None where it is not well formed, or a
        line in it could be a row of its own. Raises EOFError where the text ends in it."""
        reader = _records((lines[at] for at in range(k, len(lines))), mark, strict=True)
        try:
            row = next(reader)
        except csv.Error as error:
            if "unexpected end" in str(error):
                raise EOFError from None
            return None, k + 1
        end = k + reader.line_num
        alone = [cut_line(line, mark) or () for line in lines[k + 1 : end]]
        if not self._fits(row) or any(len(fields) == self.width for fields in alone):
            return None, k + 1
        return row, end


# JSON lines ---------------------------------------------------------------------------------------

_DEEPEST = 10_000  # characters of a line: what nests some ten thousand deep can end the process


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key comes twice")
    return dict(pairs)


_DECODER = json.JSONDecoder(
    parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_once
)


def json_object(line: str) -> dict[str, Any] | None:
    """The object in a line, numbers as the text they are; None where it is no such object, or has
    a key twice, or half a character."""
    try:
        one = _DECODER.decode(line)
        if "\\u" in line:
            json.dumps(one, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return one if isinstance(one, dict) else None


def plain_text(value: object) -> str | None:
    """A JSON value as the text of a field; None for a list or an object."""
    if value is None or isinstance(value, bool):
        return str(value).lower() if value is not None else ""
    return value if isinstance(value, str) else None


@dataclass
class Objects(Lines):
    """JSON objects, one a line, whose values under `keys` are read: user, item and further ones."""

    keys: Sequence[str]

    def _plainly(self, text: str) -> Cut | None:
        import pyarrow as pa
        from pyarrow import compute
        from pyarrow import json as arrow

        count = text.count("\n")
        begun, ended = text.startswith("{"), text.endswith("}\n")
        if not (begun and ended) or text.count("}\n{") + 1 < count or _may_exceed(text, _DEEPEST):
            return None
        try:
            first = json.loads(text[: text.index("\n")])
            schema = [(key, self._kind(k, first[key])) for k, key in enumerate(self.keys)]
            table = arrow.read_json(
                io.BytesIO(text.encode()),
                arrow.ReadOptions(use_threads=False, block_size=5 * len(text)),
                arrow.ParseOptions(explicit_schema=pa.schema(schema)),
            )
        except (ValueError, KeyError, RecursionError):
            return None
        if len(table) != count:
            return None
        columns = [table[key].combine_chunks() for key, _ in schema]
        for column in columns:  # NaN is a text here, and a number would lose the sign of -0
            if pa.types.is_floating(column.type) and compute.any(compute.is_nan(column)).as_py():
                return None
            if pa.types.is_integer(column.type) and re.search(r":\s*-0", text):
                return None
        return columns, self.lines + np.arange(1, count + 1)

    def _kind(self, k: int, value: object) -> Any:
        """What pyarrow makes of values like the k-th of the first object. Raises KeyError where
        that would lose anything: ids are text, so of their numbers only whole ones can be read."""
        import pyarrow as pa

        if k < 2:
            return {str: pa.string(), int: pa.int64()}[type(value)]
        return {str: pa.string(), int: pa.float64(), float: pa.float64()}[type(value)]

    def _carefully(self, text: str, final: bool) -> tuple[Cut, str]:  # noqa: ARG002 - no line waits
        rows: list[list[str | None]] = []
        numbers: list[int] = []
        for k, line in enumerate(text.split("\n")[:-1], self.lines + 1):
            one = json_object(line)
            row = [plain_text((one or {}).get(key)) for key in self.keys]
            if not line.strip():
                self.blank += 1
            elif one is None or None in row:
                self.spoil("without a JSON object of plain values", k, line)
            else:
                rows.append(row)
                numbers.append(k)
        return _columns(rows, numbers, range(len(self.keys))), ""
