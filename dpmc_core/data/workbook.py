"""The numbers of an old Excel workbook (.xls), as a file with commas between them.

Read are the numbers of the first sheet: what Jester's ratings come as, nothing more. Formats:
[MS-CFB], the file of streams, and [MS-XLS], the records of a workbook, both by Microsoft.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import BadRatings

_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_LAST = 0xFFFFFFFA  # sector numbers above are marks
_SMALL = 4096  # bytes: shorter streams lie elsewhere, and hold no table
_ROWS, _COLUMNS = 65_536, 256  # of a sheet
_BEGIN, _END, _SHEET = 0x0809, 0x000A, 0x0010
_NUMBER, _PACKED, _MANY_PACKED = 0x0203, 0x027E, 0x00BD
_CELLS = np.dtype([("format", "<u2"), ("number", "<u4")])


def to_csv(workbook: Path, file: Path) -> None:
    """Write the numbers of the first sheet, a line per row, and remove the workbook.

    Raises BadRatings where there is none, or where a cell of its rectangle holds no number.
    """
    try:
        table = numbers(workbook.read_bytes())
    except (OSError, struct.error, ValueError, IndexError, KeyError) as error:
        raise BadRatings(f"{workbook.name} cannot be read as an Excel workbook: {error}") from None
    values, place = np.unique(table, return_inverse=True)
    words = [f"{value:.10g}" for value in values.tolist()]
    with file.open("w", encoding="ascii", newline="\n") as sink:
        for row in place.reshape(table.shape):
            sink.write(",".join([words[k] for k in row.tolist()]) + "\n")
    workbook.unlink()


def numbers(content: bytes) -> NDArray[np.float64]:
    """The rectangle of numbers in the first sheet. Raises ValueError, struct.error, ..."""
    table = np.full((_ROWS, _COLUMNS), np.nan)
    for kind, data in _first_sheet(_stream(content, ("Workbook", "Book"))):
        if kind == _NUMBER:
            row, column, _, value = struct.unpack("<HHHd", data[:14])
            table[row, column] = value
        elif kind == _PACKED:
            row, column = struct.unpack("<HH", data[:4])
            table[row, column] = _unpacked(np.frombuffer(data[4:10], _CELLS)["number"])[0]
        elif kind == _MANY_PACKED:
            row, column = struct.unpack("<HH", data[:4])
            found = _unpacked(np.frombuffer(data[4:-2], _CELLS)["number"])
            table[row, column : column + len(found)] = found
    filled = np.isfinite(table)
    rows, columns = (int(filled.any(axis).sum()) for axis in (1, 0))
    if not rows or not filled[:rows, :columns].all():
        raise ValueError("its first sheet is no full rectangle of numbers")
    return table[:rows, :columns]


def _unpacked(packed: NDArray[np.uint32]) -> NDArray[np.float64]:
    """RK numbers: bit 0, a hundredth; bit 1, an integer of 30 bits, else a float's upper half."""
    whole = packed.view(np.int32) >> 2
    upper = ((packed & ~np.uint32(3)).astype(np.uint64) << np.uint64(32)).view(np.float64)
    found = np.where(packed & 2, whole, upper)
    return np.where(packed & 1, found / 100, found)


def _first_sheet(stream: bytes) -> Iterator[tuple[int, bytes]]:
    """The records of the first sheet: the first part of the stream that is one."""
    place, inside = 0, False
    while place + 4 <= len(stream):
        kind, size = struct.unpack_from("<HH", stream, place)
        data = stream[place + 4 : place + 4 + size]
        place += 4 + size
        if kind == _BEGIN:
            inside = struct.unpack_from("<H", data, 2)[0] == _SHEET
        elif kind == _END and inside:
            return
        elif inside:
            yield kind, data
    raise ValueError("it has no sheet that ends")


def _stream(content: bytes, names: tuple[str, ...]) -> bytes:
    """A stream of the compound file by its name."""
    if content[:8] != _MAGIC:
        raise ValueError("it does not begin as one")
    size = 1 << struct.unpack_from("<H", content, 30)[0]
    directory, _, _, _, _, more, _ = struct.unpack_from("<7I", content, 48)

    def sector(number: int) -> bytes:
        found = content[(number + 1) * size : (number + 2) * size]
        if not found:
            raise ValueError("it is cut short")
        return found

    where = list(struct.unpack_from("<109I", content, 76))
    for _ in range(len(content) // size):
        if more >= _LAST:
            break
        *listed, more = struct.unpack(f"<{size // 4}I", sector(more))
        where += listed
    table = b"".join(sector(number) for number in where if number < _LAST)
    following = np.frombuffer(table, "<u4")

    def chain(number: int) -> bytes:
        parts: list[bytes] = []
        while number < _LAST:
            if len(parts) > len(following):
                raise ValueError("its sectors run in a circle")
            parts.append(sector(number))
            number = int(following[number])
        return b"".join(parts)

    entries = chain(directory)
    for place in range(0, len(entries) - 127, 128):
        length = struct.unpack_from("<H", entries, place + 64)[0]
        name = entries[place : place + max(length - 2, 0)].decode("utf-16-le", "replace")
        first, total = struct.unpack_from("<II", entries, place + 116)
        if name in names and total >= _SMALL:
            return chain(first)[:total]
    raise ValueError("it holds no table")
