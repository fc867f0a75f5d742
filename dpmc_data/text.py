"""Text files of ratings: numbers, dates and records in a text, and all lines cut into columns.

One pass of pyarrow cuts the lines. A line ends at LF, CRLF or a lone CR and nowhere else. Quotes
join lines only in a record that is well formed from its first to its last field; a file with any
other quote left open is refused with the line.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any
from unicodedata import category, decimal, normalize

import numpy as np
from numpy.typing import NDArray

from dpmc_core.arrays import LateModule
from dpmc_core.errors import BadRatings
from dpmc_core.stopping import check_cancelled
from dpmc_data.source import (
    BLOCK_BYTES,
    Fault,
    ReadProgress,
    Refused,
    Source,
)

pa, compute = LateModule("pyarrow"), LateModule("pyarrow.compute")
arrow_csv, arrow_json = LateModule("pyarrow.csv"), LateModule("pyarrow.json")

Row = Sequence[str]  # fields as text
Record = tuple[int, tuple[str, ...] | None]  # its first line from 0, and its fields if it has any
Codes = NDArray[np.int32]
Batch = tuple[list[Any], Codes]  # the used columns, as arrays of pyarrow, and the line of each row

KNOWLEDGE: Any = tomllib.loads(Path(__file__).with_name("reading.toml").read_text("utf-8"))
MISSING = {"", *KNOWLEDGE["words"]["missing"]}  # in a cell, small letters
LEADING, _NUMBER, _COMMA = (
    re.compile(KNOWLEDGE["patterns"][name]) for name in ("leading", "number", "comma")
)


def parse_decimal(text: str) -> float | None:
    """Return a number as people write it, ASCII only, with a decimal point or comma, infinite
    where it is too large for a float; None where it is none."""
    if _NUMBER.fullmatch(text):
        return float(text)
    return float(text.replace(",", ".")) if _COMMA.fullmatch(text) else None


@lru_cache(maxsize=1 << 16)
def parse_leading_number(text: str) -> float | None:
    """Return a number, also in thousands or other digits, or that with which 3/5 begins."""
    if not text.isascii():
        text = "".join(str(decimal(letter, letter)) for letter in text)
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    leading = LEADING.match(text)
    return parse_decimal(leading[1] if leading else text)


def parse_rating(text: str) -> float | None:
    """Return a number, that with which a text begins, or what a word of a scale stands for."""
    number = parse_leading_number(text)
    scales = KNOWLEDGE["scales"].values() if number is None else ()
    return next((scale[text.lower()] for scale in scales if text.lower() in scale), number)


def parse_dates(texts: Any) -> list[float | None]:
    """Return Unix seconds of dates, in UTC where they name no zone, None where one is none.

    They are of ISO 8601, or all of one other known form alone.
    """
    dates = list(map(parse_date, texts.to_pylist()))
    if None not in dates:
        return dates
    zone = r"\s*(?:UTC|GMT)(?P<hours>[+-]\d{1,2})?$"
    plain = compute.replace_substring_regex(texts, zone, "")
    hours = compute.struct_field(compute.extract_regex(texts, zone), "hours").to_pylist()
    readings = []
    for form in KNOWLEDGE["dates"]["forms"]:
        stamps = compute.strptime(plain, format=form, unit="s", error_is_null=True)
        if not stamps.null_count:
            readings.append(stamps.cast("int64").to_pylist())
    if not readings or any(reading != readings[0] for reading in readings):
        return dates  # no other form reads them all, or two forms read them differently
    return [second - 3600 * int(hour or 0) for second, hour in zip(readings[0], hours, strict=True)]


def parse_date(text: str) -> float | None:
    """Return Unix seconds of an ISO 8601 date, in UTC where it names no zone, or None."""
    try:
        date = datetime.fromisoformat(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def normalise_name(name: str) -> str:
    """Return a name as names are compared: case, blanks and punctuation aside."""
    # Types, as RecBole writes them, and what a name is of, as in SNAP's records.
    name = re.sub(r":(token|float)(_seq)?$|^[a-z]+/", "", normalize("NFC", name.lower()))
    return "".join(c for c in name if category(c)[0] not in "PSZ")


def rewrite(form: str, text: str) -> str:
    """Return a text with a rating on each line; every line keeps its place, except those of JSON.

    Args:
        form: "drawn", as a table with lines and marks around its rows; "blocks", below the number
            of a user or an item; "records", a rating over several lines of "name: value"; "market"
            and "arff", below lines that describe the table; or "array" and "nested", of JSON.
        text: all lines.
    """

    def join_record(record: re.Match[str]) -> str:
        pairs = [line.partition(":")[::2] for line in record[0].split("\n")[:-1]]
        joined = json.dumps({name: value.strip() for name, value in pairs})
        return "\n" * (len(pairs) - 1) + f"{joined}\n"

    def join_block(block: re.Match[str]) -> str:
        return "\n" + re.sub("^(?=.)", f"{block[1]},", block[2], flags=re.MULTILINE)

    if form == "records":
        return re.sub(r"(?:.+\n)+", join_record, text)
    if form == "blocks":
        return re.sub(r"^(\d+):[ \t]*\n((?:.*[^:\n]\n|\n)*)", join_block, text, flags=re.MULTILINE)
    if form == "market":  # the first line that is no comment has the sizes
        text = re.sub(r"^%.*$", "", text, flags=re.MULTILINE)
        return re.sub(r"\S.*", "", text, count=1)
    if form == "arff":
        attributes = re.findall(r"(?im)^@attribute\s+('[^']*'|\"[^\"]*\"|\S+)", text)
        names = ",".join(name.strip("'\"") for name in attributes)
        text = re.sub(r"(?im)^@data\b.*$", names.replace("\\", ""), text, count=1)
        return re.sub(r"(?m)^[@%].*$", "", text)
    if form in ("array", "nested"):
        return _rewrite_json(text)
    for pattern, replacement in KNOWLEDGE["clean"].items():
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def _rewrite_json(text: str) -> str:
    """Return JSON as one object of plain values a line; nothing where it is none."""
    try:
        parsed = [_DECODER.decode(text)]
    except (ValueError, RecursionError):
        lines = [parse_json_object(line) for line in text.split("\n") if line.strip()]
        parsed = [line for line in lines if line is not None]
    objects = chain.from_iterable(map(flatten_json, parsed))
    return "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in objects)


# Lines cut into columns ---------------------------------------------------------------------------

LONGEST = 16_000_000  # characters of a line
SHORT = 32  # bytes of texts that may be kept more than once
_UNIT = "\x1f"  # separates units: stands in for a separator of several characters
_END = "\x1e"  # a line that an open quote would take


def read_text(
    source: Source, encoding: str, form: str = "", on_progress: ReadProgress | None = None
) -> Iterable[str]:
    """Return the text in pieces of whole lines, each ended by one newline; of a form in one piece.

    Raises:
        BadRatings: if it is no text of the encoding, or a line is too long.
    """
    blocks = _read_blocks(source, encoding, on_progress)
    return [rewrite(form, "".join(blocks))] if form else blocks


def _read_blocks(source: Source, encoding: str, on_progress: ReadProgress | None) -> Iterator[str]:
    """Yield decoded text in pieces of whole lines; see `read_text`.

    The end of a block waits for the next one, since a line or a character may cross the border.
    """
    decode = io.IncrementalNewlineDecoder(
        codecs.getincrementaldecoder(encoding)(), translate=True
    ).decode
    tail, n_lines, n_bytes, block = "", 0, 0, b"begin"
    with source.open() as file:
        while block:
            block = file.read(BLOCK_BYTES)
            try:
                text = decode(block, final=not block)
                text.encode()  # some encodings can write half a character
            except UnicodeError:
                raise Refused(source.name, [_ask_encoding(source, encoding)]) from None
            if "\0" in text:
                raise BadRatings(f"{source.name} is not a text file: save the ratings as CSV")
            lines, newline, end = text.rpartition("\n")
            if newline:
                n_lines += text.count("\n")
                yield f"{tail}{lines}\n"
                tail = ""
            tail += end
            if len(tail) > LONGEST:
                raise BadRatings(
                    f"line {n_lines + 1} of {source.name} has more than {LONGEST:,} characters, the"
                    " limit"
                )
            n_bytes += len(block)
            check_cancelled()
            if on_progress:
                on_progress(n_bytes, source.size)
    if tail:
        yield f"{tail}\n"


def _ask_encoding(source: Source, encoding: str) -> Fault:
    """Return the fault of a text of another encoding, with those that its head may have."""
    if not encoding.startswith("utf-8"):
        advice = "save it as UTF-8, or say its encoding"
        return Fault(f"not {encoding} text", advice, ("encoding=utf-8",))
    likely = dict.fromkeys([*_detect_encodings(source.read_head()), "cp1252"])
    answers = tuple(f"encoding={name}" for name in likely)[:2]
    return Fault("not UTF-8 text", "save it as UTF-8, or say its encoding", answers)


def _detect_encodings(head: bytes) -> list[str]:
    """Return the encodings that charset-normalizer finds likely; none where it is not installed."""
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return []
    best = from_bytes(head, cp_isolation=KNOWLEDGE["charsets"]["offered"]).best()
    western = ("cp125", "iso8859", "utf", "ascii")  # of which the usual one is offered
    return [] if best is None or best.encoding.startswith(western) else [best.encoding]


def _build_reader(lines: Iterable[str], separator: str, quote: str) -> Any:
    """Return the reader of csv over lines that a separator of one character cuts."""
    if not quote:
        return csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE)
    return csv.reader(lines, delimiter=separator, quotechar=quote)


def normalise_fields(text: str, separator: str, quote: str = '"') -> tuple[str, str]:
    """Return a text in which one character lies between fields and no blank before a quote.

    Returns:
        The text, and the character.
    """
    mark = separator if len(separator) == 1 else _UNIT
    text = text.replace(separator, mark)
    if mark == " ":  # a run of blanks is one, outside quotes
        pattern = rf"({quote}[^{quote}\n]*{quote})|[ \t]+" if quote else r"(\Z)|[ \t]+"
        text = re.sub(pattern, lambda match: match[1] or " ", text)
        return re.sub(r"^ | $", "", text, flags=re.MULTILINE), mark
    if quote and f" {quote}" in text:
        text = re.sub(rf"(^|{re.escape(mark)}) +(?={quote})", r"\1", text, flags=re.MULTILINE)
    return text, mark


def split_records(
    lines: Sequence[str], mark: str, quote: str, width: int
) -> tuple[list[tuple[int, Row]], int]:
    """Split lines into records; a quote joins lines in a record that is well formed to its end.

    Args:
        lines: without their ends.
        mark: the character between fields.
        quote: what stands around fields; "" for nothing.
        width: of a record; 0 if it is not known.

    Returns:
        The first line and the fields of each record, and the first line whose quote stays open.
    """
    records: list[tuple[int, Row]] = []
    end = 0
    reader = _build_reader(map("{}\n".format, [*lines, _END]), mark, quote)
    with suppress(csv.Error):
        for record in reader:
            begin, end = end, reader.line_num
            inner = lines[begin + 1 : end] if width else []
            alone = (len(next(_build_reader([line], mark, quote))) for line in inner)
            if end > len(lines) or (inner and (len(record) != width or width in alone)):
                return records, begin
            records.append((begin, record))
    return records, end


def read_first_records(
    lines: Sequence[tuple[int, str]], separator: str, quote: str = '"'
) -> list[Record]:
    """Return the records of the first lines, which come with their numbers."""
    text, mark = normalise_fields("\n".join(line for _, line in lines), separator, quote)
    split = text.split("\n")
    records, end = split_records(split, mark, quote, 0)
    if len(records) < len(split):  # some go over several lines
        width = Counter([len(row) for _, row in records] or [0]).most_common(1)[0][0]
        records, end = split_records(split, mark, quote, width)
    merged = [(lines[k][0], tuple(map(str.strip, row))) for k, row in records]
    return [*merged, *((number, None) for number, _ in lines[end:])]


def _may_exceed(text: str, length: int) -> bool:
    """Return whether a line may be longer; it is not where each half as many characters end one."""
    half = length // 2
    return not all("\n" in text[k : k + half] for k in range(0, len(text) - half, half))


def is_distinct(column: Any) -> bool:
    """Return whether a dictionary of pyarrow is of short texts that hardly ever come twice."""
    if not pa.types.is_dictionary(column.type):
        return False
    n_distinct, n_bytes = len(column.dictionary), column.dictionary.nbytes
    return bool(n_distinct > 0.9 * len(column) and n_bytes < SHORT * len(column))


@dataclass
class Cutter:
    """Cuts a text into columns and counts what becomes of its lines.

    Attributes:
        skip: lines before any row.
        lines, continued: how many lines there are, and continue the record of another.
        broken: for each reason how many lines cannot be cut, and the first of them.
    """

    skip: int
    lines: int = field(default=0, init=False)
    continued: int = field(default=0, init=False)
    broken: dict[str, tuple[int, str]] = field(default_factory=dict, init=False)

    @property
    def unusable(self) -> int:
        """How many lines cannot be cut."""
        return sum(count for count, _ in self.broken.values())

    def iterate_batches(self, chunks: Iterable[str]) -> Iterator[Batch]:
        """Yield columns of text, piece by piece; blank and unusable lines are only counted."""
        tail = ""
        for chunk in chain(chunks, [""]):
            text = tail + chunk
            while self.skip and text:
                text = text[text.index("\n") + 1 :]
                self.lines, self.skip = self.lines + 1, self.skip - 1
            tail, count = "", text.count("\n")
            if text:
                batches, tail = self._cut(text, count, not chunk)
                yield from (batch for batch in batches if len(batch[1]))
            self.lines += count - tail.count("\n")

    def _cut(self, text: str, count: int, final: bool) -> tuple[list[Batch], str]:
        """Return the columns of a text of so many lines, and its end where that must wait."""
        raise NotImplementedError

    def _count_broken(self, fault: str, text: str, line: int) -> None:
        """Count a line of the text at hand, from 0, as one that cannot be cut."""
        example = f"'{text.strip()[:40]}' in line {self.lines + line + 1}"
        count, example = self.broken.get(fault, (0, example))
        self.broken[fault] = count + 1, example


@dataclass
class Fields(Cutter):
    """Rows of `width` fields, of which those at the positions `used` are read, with each distinct
    text kept once; not of those at `plain`, whose texts are hardly ever the same."""

    separator: str
    quote: str
    width: int
    used: Sequence[int]
    plain: set[int] = field(default_factory=set)

    def _cut(self, text: str, count: int, final: bool) -> tuple[list[Batch], str]:
        """Cut a text by pyarrow, and by records where quotes join lines.

        pyarrow does not say on which lines a row lies. If it finds as many rows as there are lines,
        each row is one line; else the records are found first, and an open one waits for more text.
        """
        text, mark = normalise_fields(text, self.separator, self.quote)
        result = self._parse(text, mark)
        starts = np.arange(count, dtype=np.int64)
        tail = ""
        # A result is the columns, the number of rows and those that are odd.
        if result is None or result[1] != count:  # some quotes join lines, or stay open
            lines = text.split("\n")[:-1]
            records, end = split_records(lines, mark, self.quote, self.width)
            tail = "".join(f"{line}\n" for line in lines[end:])
            starts = np.array([start for start, _ in records], dtype=np.int64)
            self.continued += end - len(records)
            result = self._parse("".join(f"{line}\n" for line in lines[:end]), mark)
            is_open = bool(tail) and (final or len(tail) > BLOCK_BYTES)
            if is_open or result is None or result[1] != len(records):
                raise BadRatings(
                    f"the file has a row with a quote that is not closed in line"
                    f" {self.lines + end + 1}: close it, or remove the quotes"
                )
        columns, n_rows, odd = result
        return self._sort_rows(columns, starts[:n_rows], odd, mark), tail

    def _parse(self, text: str, mark: str) -> tuple[list[Any], int, list[tuple[int, str]]] | None:
        """Return the used columns, how many rows there are, and those of another width.

        None where a quote takes the empty row at the end.
        """
        odd: list[tuple[int, str]] = []

        def skip_row(row: Any) -> str:
            odd.append((row.number - 1, row.text))
            return "skip"

        # pyarrow would take the first for a mark of the encoding.
        begin = "\ufeff" if text.startswith("\ufeff") else ""
        # The empty row at the end is seen as one unless an open quote takes it.
        content = f"{begin}{text}{mark * (self.width - 1)}\n".encode()
        names = [str(k) for k in range(self.width)]
        kinds = dict.fromkeys(names, pa.dictionary(pa.int32(), pa.string()))
        kinds |= dict.fromkeys(map(str, self.plain), pa.string())
        used = [names[k] for k in dict.fromkeys(self.used)]
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(content),
                arrow_csv.ReadOptions(
                    use_threads=False, block_size=len(content), column_names=names
                ),
                arrow_csv.ParseOptions(
                    delimiter=mark,
                    quote_char=self.quote or False,
                    ignore_empty_lines=False,
                    newlines_in_values=bool(self.quote),
                    invalid_row_handler=skip_row,
                ),
                arrow_csv.ConvertOptions(include_columns=used, column_types=kinds),
            )
        except pa.ArrowInvalid:
            return None
        columns = [table[names[k]].combine_chunks() for k in self.used]
        n_rows = len(table) - 1 + len(odd)
        last = [column[len(table) - 1].as_py() for column in columns] if len(table) else ["?"]
        if any(last) or (odd and odd[-1][0] == n_rows):
            return None
        return [column.slice(0, len(table) - 1) for column in columns], n_rows, odd

    def _sort_rows(
        self, columns: list[Any], starts: NDArray[Any], odd: list[tuple[int, str]], mark: str
    ) -> list[Batch]:
        """Return rows with their lines, without blank ones; rows of another width are counted."""
        numbers = (self.lines + starts + 1).astype(np.int32)  # of the lines, from 1
        extra: list[tuple[int, Row]] = []
        for k, line in odd:
            record: Row = next(_build_reader([line], mark, self.quote), [])
            # Longer, but empty beyond the width: separators at the end of a line.
            if len(record) > self.width and not "".join(record[self.width :]).strip():
                extra.append((k, record))
            elif "".join(record).strip():
                fault = f"with another number of columns than {self.width}"
                self._count_broken(fault, line, int(starts[k]))
        batches = []
        if extra:
            cells = ([record[k].strip() for _, record in extra] for k in self.used)
            arrays = [pa.array(column, pa.string()) for column in cells]
            batches = [(arrays, numbers[[k for k, _ in extra]])]
        numbers = np.delete(numbers, [k for k, _ in odd])
        empty = np.ones(len(numbers), dtype=bool)
        for column in columns:
            if not empty.any():
                break
            empty &= _find_empty(column)
        if empty.any():
            rows = np.flatnonzero(~empty)
            columns, numbers = [column.take(rows) for column in columns], numbers[rows]
        self.plain |= {
            k for k, column in zip(self.used, columns, strict=True) if is_distinct(column)
        }
        return [(columns, numbers), *batches]


def _find_empty(column: Any) -> NDArray[np.bool_]:
    """Return which cells of a column hold blanks alone."""
    if pa.types.is_dictionary(column.type):
        blank = compute.equal(compute.utf8_trim_whitespace(column.dictionary), "")
        if not compute.any(blank).as_py():
            return np.zeros(len(column), dtype=bool)
        mask: NDArray[np.bool_] = blank.to_numpy(zero_copy_only=False)
        return mask[column.indices.to_numpy()]
    blank = compute.equal(compute.utf8_trim_whitespace(column), "")
    return np.asarray(blank.to_numpy(zero_copy_only=False), dtype=bool)


@dataclass
class Lines(Cutter):
    """Rows that one line each holds."""

    def _cut(self, text: str, count: int, final: bool) -> tuple[list[Batch], str]:  # noqa: ARG002
        """Cut a text line by line, unless pyarrow can cut it as well and faster.

        The text ends with a newline, so nothing follows the last one.
        """
        numbers = self.lines + np.arange(1, count + 1, dtype=np.int32)
        if columns := self._cut_quickly(text, count):
            return [(columns, numbers)], ""
        rows: list[Sequence[str | None]] = []
        sources: list[int] = []
        for k, line in enumerate(text.split("\n")[:-1]):
            records, fault = self._read_rows(line)
            rows += records
            sources += [k] * len(records)
            if fault:
                self._count_broken(fault, line, k)
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        return [(columns, numbers[sources])], ""

    def _cut_quickly(self, text: str, count: int) -> list[Any] | None:  # noqa: ARG002
        """Cut by pyarrow; return None where that might see other rows than line by line."""
        return None

    def _read_rows(self, line: str) -> tuple[Sequence[Sequence[str | None]], str]:
        """Return the rows of a line, and what is wrong."""
        raise NotImplementedError


@dataclass
class Adjacency(Lines):
    """Lines of a user and then the items."""

    separator: str

    def _read_rows(self, line: str) -> tuple[Sequence[Sequence[str | None]], str]:
        """Return a row for each item of the line; a blank line has none and no fault."""
        text, mark = normalise_fields(line, self.separator)
        user, *items = [cell.strip() for cell in text.split(mark) if cell.strip()] or ("",)
        return [(user, item) for item in items], "without an item" if user and not items else ""


# JSON lines ---------------------------------------------------------------------------------------

_DEEPEST = 10_000  # characters of a line: what nests some ten thousand deep can end the process


def _reject_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dictionary; of two equal keys one would be lost."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key comes twice")
    return dict(pairs)


_DECODER = json.JSONDecoder(
    parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_reject_repeated_keys
)


def parse_json_object(line: str) -> dict[str, Any] | None:
    """Return the object in a line, numbers as the text they are; None where it is no such object,
    or has a key twice, or half a character."""
    try:
        parsed = _DECODER.decode(line)
        if "\\u" in line:
            json.dumps(parsed, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def format_plain_value(value: object) -> str | None:
    """Return a JSON value as the text of a field; None for a list or an object."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else None


@dataclass
class Objects(Lines):
    """JSON objects, one a line, whose values under `keys` are read: user, item and further ones."""

    keys: Row

    def _cut_quickly(self, text: str, count: int) -> list[Any] | None:
        """Cut by pyarrow, which guesses the types of values that are not declared.

        So the first object declares them, and whatever pyarrow may read differently from
        `_read_rows` is left to that.
        """
        is_plain = text.startswith("{") and text.endswith("}\n") and text.count("}\n{") + 1 >= count
        if not is_plain or _may_exceed(text, _DEEPEST):
            return None
        # Ids are text: of their numbers only whole ones can be read without loss. They come first.
        kinds = [{str: pa.string(), int: pa.int64()}] * 2
        kinds += [{str: pa.string(), int: pa.float64(), float: pa.float64()}] * len(self.keys)
        try:
            first = json.loads(text[: text.index("\n")])
            schema = [
                (key, kind[type(first[key])]) for key, kind in zip(self.keys, kinds, strict=False)
            ]
            table = arrow_json.read_json(
                pa.BufferReader(text.encode()),
                arrow_json.ReadOptions(use_threads=False, block_size=5 * len(text)),
                arrow_json.ParseOptions(pa.schema(schema), unexpected_field_behavior="ignore"),
            )
        except (ValueError, KeyError, RecursionError):
            return None
        columns = [table[key].combine_chunks() for key, _ in schema]
        for column in columns:  # NaN is a text here, and a number would lose the sign of -0
            if pa.types.is_floating(column.type) and compute.any(compute.is_nan(column)).as_py():
                return None
            if pa.types.is_integer(column.type) and re.search(r":\s*-0", text):
                return None
        return columns if len(table) == count else None

    def _read_rows(self, line: str) -> tuple[Sequence[Sequence[str | None]], str]:
        """Return the row of the line's object; a blank line has none and no fault."""
        if not line.strip():
            return [], ""
        values = parse_json_object(line)
        row = [format_plain_value((values or {}).get(key)) for key in self.keys]
        fault = values is None or None in row
        return [row] * (not fault), "without a JSON object of plain values" * fault


def has_nested_values(line: str) -> bool:
    """Return whether a line begins a JSON object that holds its ratings one level deeper."""
    parsed = parse_json_object(line)
    if parsed is None:  # over several lines
        return not line.rstrip().endswith("}")
    nested = [value for value in parsed.values() if _is_nested(value)]
    return bool(nested) and len(parsed) - len(nested) < 3


def _is_nested(value: object) -> bool:
    """Return whether a JSON value is an object, or a list of objects."""
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)
    )


def flatten_json(parsed: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of plain values in JSON that holds them one level deeper.

    A list of objects is one record each; an object of objects is one for each key, whose name is
    the value of the column without a name; what else an object holds is repeated in each record.
    """
    if isinstance(parsed, list):
        for each in parsed:
            yield from flatten_json(each) if isinstance(each, dict) else ()
        return
    nested = {key: value for key, value in parsed.items() if _is_nested(value)}
    plain = {key: value for key, value in parsed.items() if key not in nested}
    if not nested:
        yield plain
    elif len(nested) == 1:
        (value,) = nested.values()
        for inner in value if isinstance(value, list) else [value]:
            yield plain | {key: cell for key, cell in inner.items() if not _is_nested(cell)}
    elif not plain and all(isinstance(value, dict) for value in nested.values()):
        for key, value in nested.items():
            yield {"": key} | {name: cell for name, cell in value.items() if not _is_nested(cell)}
    else:  # such as a user and an item, each with an id and a name
        inner = {key: value for key, value in nested.items() if isinstance(value, dict)}
        yield plain | {
            f"{key}.{name}": cell
            for key, value in inner.items()
            for name, cell in value.items()
            if not _is_nested(cell)
        }
