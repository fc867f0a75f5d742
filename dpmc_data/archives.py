"""Reading of archives from outside: ZIP files, the NumPy arrays in them, and JSON.

Every size that a file states is checked against its other sizes and against its real length before
memory is allocated, and archives inside an archive are never opened. Everything that can be wrong
raises `BadArchive`.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import math
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dpmc_core.arrays import LateModule
from dpmc_core.errors import DpmcError, format_value

pa = LateModule("pyarrow")

MAX_MEMBERS = 1_000  # files in an archive
MAX_UNPACKED_BYTES = 4_000_000_000  # unpacked bytes of all files together
MAX_JSON_DEPTH = 20  # levels of nested lists and objects
_TOO_DEEP = f"its JSON is nested more than {MAX_JSON_DEPTH} deep"
_MAX_RATIO = 1_100  # no deflated byte expands to more
_ALWAYS_ALLOWED_BYTES = 100_000_000  # bytes of arrays that any archive may hold
_CHUNK_BYTES = 1 << 16  # bytes read at once, which expand to at most 70 MB
# Lengths of fixed parts of a ZIP archive: a file's own header, and the record at the end, which a
# comment may follow. Both begin with a signature.
_LOCAL_HEADER_BYTES, _END_RECORD_BYTES = 30, 22
_MAX_COMMENT_BYTES = 1 << 16
_END_SIGNATURE, _LOCAL_SIGNATURE = b"PK\x05\x06", b"PK\x03\x04"
_FORBIDDEN_FLAGS = 0x61  # encrypted, patched, or strongly encrypted
_FIRST_DAY = 33  # 1980-01-01, with which NumPy dates all files
_PERMISSIONS = 0o600 << 16  # which NumPy gives to all files
_PACKED: dict[bytes, Callable[[Any], Any]] = {  # first bytes, as a pattern
    rb"\x1f\x8b\x08": gzip.open,
    rb"BZh[1-9]1AY&SY": bz2.open,
    rb"\xfd7zXZ\0": lzma.open,
    rb"\x28\xb5\x2f\xfd": lambda file: pa.CompressedInputStream(file, "zstd"),
}
_TAR = slice(257, 262)  # where a tar archive says "ustar"
_NPY_HEADER = re.compile(
    r"\{'descr': '([<>|][iufU]\d{1,9})', 'fortran_order': (True|False),"
    r" 'shape': \(((?:|\d{1,18},|\d{1,18}(?:, \d{1,18})+))\), \} {0,84}\n"
)
_TABLES = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".dat")
# RuntimeError includes RecursionError and NotImplementedError, which zipfile raises.
READ_ERRORS = (  # whatever a damaged file may cause
    *(OSError, ValueError, EOFError, RuntimeError, MemoryError, ArithmeticError, LookupError),
    *(
        TypeError,
        AttributeError,
        struct.error,
        zlib.error,
        lzma.LZMAError,
        zipfile.BadZipFile,
        tarfile.TarError,
    ),
)


class BadArchive(DpmcError):
    """A file from outside that is damaged or exceeds a limit.

    Attributes:
        name: the name of the file or member, as messages show it.
        reason: what is wrong with it, as a clause.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(f"{name} cannot be read: {reason}")


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Raise BadArchive instead of the errors that a damaged file may cause in the block."""
    try:
        yield
    except READ_ERRORS as error:
        message = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise BadArchive(
            path.name, message if message.isprintable() else format_value(message)
        ) from None


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON text whose lists and objects are at most `MAX_JSON_DEPTH` levels deep.

    Raises:
        ValueError: if the text is no JSON, or nested deeper.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    layer = [value]  # all values at one level of nesting, then those at the next
    for _ in range(MAX_JSON_DEPTH):
        layer = [
            element
            for container in layer
            if isinstance(container, list | dict)
            for element in (container.values() if isinstance(container, dict) else container)
        ]
        if not layer:
            return value
    raise ValueError(_TOO_DEEP)


def read_npz(path: Path, *, no_extra_bytes: bool = False) -> dict[str, NDArray[Any]]:
    """Read the arrays of an .npz file by name.

    Args:
        path: the file.
        no_extra_bytes: whether to refuse a file with any byte that belongs to no array.

    Raises:
        BadArchive: if the file is damaged, too large, or holds anything but plain NumPy arrays.
    """
    arrays_by_name = {}
    with _translate_errors(path):
        # Real numbers, unlike a ZIP bomb, never pack to less than a hundredth of their size.
        limit = min(MAX_UNPACKED_BYTES, max(_ALWAYS_ALLOWED_BYTES, 100 * path.stat().st_size))
    for member, chunks in iterate_members(path, limit, no_extra_bytes=no_extra_bytes):
        with _translate_errors(path):
            name = member.filename
            if not name.endswith(".npy"):
                raise ValueError(f"it holds {format_value(name)}, which is no array of NumPy")
            arrays_by_name[name.removesuffix(".npy")] = _parse_npy(name, member.file_size, chunks)
    return arrays_by_name


def read_npy(path: Path) -> NDArray[Any]:
    """Read the array of an .npy file.

    Raises:
        BadArchive: if the file is damaged or is no plain NumPy array.
    """
    with _translate_errors(path), path.open("rb") as file:
        return _parse_npy(
            path.name, path.stat().st_size, iter(lambda: file.read(_CHUNK_BYTES), b"")
        )


def iterate_members(
    path: Path, max_bytes: int = MAX_UNPACKED_BYTES, *, no_extra_bytes: bool = False
) -> Iterator[tuple[zipfile.ZipInfo, Iterator[bytes]]]:
    """Yield each file of a ZIP archive with its bytes in chunks; folders are skipped.

    The chunks of a file must be read before the next file is requested. A wrong length or checksum
    is detected at the end of the chunks.

    Args:
        path: the archive.
        max_bytes: limit of the unpacked size of all files together.
        no_extra_bytes: whether to refuse an archive with any byte that belongs to no file.

    Raises:
        BadArchive: if the archive is damaged or exceeds a limit.
    """
    with _translate_errors(path):
        file = path.open("rb")
    with file:
        with _translate_errors(path):
            members = _check_members(file, max_bytes, no_extra_bytes)
        for member in members:
            if not member.is_dir():
                yield member, _iterate_chunks(path, file, member)


def unpack(name: str, file: BinaryIO, max_bytes: int) -> bytes | None:
    """Unpack a file that gzip, bzip2, xz, zstd, tar or ZIP has packed; a sheet becomes CSV.

    Args:
        name: the name of the file in messages.
        file: the packed file.
        max_bytes: limit of the unpacked size.

    Returns:
        The unpacked bytes; None if the file is not packed.

    Raises:
        BadArchive: if the file is damaged or exceeds the limit, or an archive holds neither one
            file nor one table beside others.
    """
    head = file.read(512)
    file.seek(0)
    with _translate_errors(Path(name)):
        if head.startswith(_LOCAL_SIGNATURE):
            members = _check_members(file, max_bytes, False)
            names = [m.filename for m in members if not m.is_dir()]
            if {"xl/workbook.xml", "xl/workbook.bin"} & {*names} or "mimetype" in names[:1]:
                file.seek(0)
                return _convert_sheet(file.read(), max_bytes)
            chosen = _choose_member([n for n in names if not n.startswith("__MACOSX")], "ZIP")
            member = next(m for m in members if m.filename == chosen)
            return b"".join(_iterate_chunks(Path(name), file, member))
        for pattern, opener in _PACKED.items():
            if re.match(pattern, head, re.DOTALL):
                content: bytes = opener(file).read(max_bytes + 1)
                if len(content) > max_bytes:
                    raise ValueError(f"it would unpack to more than {max_bytes:,} bytes")
                return _read_tar(content) if content[_TAR] == b"ustar" else content
        if head[_TAR] == b"ustar":
            return _read_tar(file.read(max_bytes))
    return None


def _choose_member(names: list[str], kind: str) -> str:
    """Return the only file of an archive, or its only table. Raises ValueError."""
    tables = [name for name in names if name.lower().endswith(_TABLES)]
    chosen = tables if len(tables) == 1 else names
    if len(chosen) != 1:
        some = ", ".join(map(format_value, chosen[:4]))
        raise ValueError(f"it is a {kind} archive of {len(chosen)} files, not of one: {some}")
    return chosen[0]


def _read_tar(content: bytes) -> bytes:
    """Return the only file of a tar archive, or its only table. Raises ValueError."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members: dict[str, tarfile.TarInfo] = {}
        for member in archive:
            if len(members) > MAX_MEMBERS:
                raise ValueError(f"it holds more than {MAX_MEMBERS:,} files")
            if member.isreg():
                members[member.name] = member
        stream = archive.extractfile(members[_choose_member([*members], "tar")])
        return stream.read() if stream else b""


def _convert_sheet(content: bytes, max_bytes: int) -> bytes:
    """Return the only filled sheet of a spreadsheet (.xlsx, .ods) as CSV. Raises ValueError."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise ValueError(
            "it is a spreadsheet: save the sheet as CSV, or install python-calamine"
        ) from None
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(content))
        sheets = {name: book.get_sheet_by_name(name).to_python() for name in book.sheet_names}
    except CalamineError as error:
        raise ValueError(str(error)) from None
    # A sheet of one row has no rating under its header.
    filled = {name: rows for name, rows in sheets.items() if len(rows) > 1}
    if not filled:
        raise ValueError("it has no filled sheet")
    if len(filled) > 1:
        some = ", ".join(map(format_value, [*filled][:4]))
        raise ValueError(f"it has {len(filled)} filled sheets ({some}): save one of them as CSV")
    (rows,) = filled.values()
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([*map(_format_cell, row)] for row in rows)
    if stream.tell() > max_bytes:
        raise ValueError(f"its sheet has more than {max_bytes:,} characters")
    return stream.getvalue().encode()


def _format_cell(value: object) -> str:
    """Return a cell of a spreadsheet as text; a whole number has no decimals."""
    # Above 2^53 a float is whole whatever was meant.
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def _check_members(file: IO[bytes], max_bytes: int, no_extra_bytes: bool) -> list[zipfile.ZipInfo]:
    """Check an archive's directory with all sizes in it, and return its files in their order.

    Args:
        file: the archive.
        max_bytes: limit of the unpacked size of all files together.
        no_extra_bytes: whether to refuse an archive with any byte that belongs to no file.

    Raises:
        ValueError: if the archive exceeds a limit or is unusual.
        BadZipFile: if it is damaged.
    """
    size = file.seek(0, 2)
    file.seek(max(0, size - _MAX_COMMENT_BYTES - _END_RECORD_BYTES))
    tail = file.read()
    end_record = tail.rfind(_END_SIGNATURE)
    if end_record < 0 or len(tail) < end_record + _END_RECORD_BYTES:
        raise zipfile.BadZipFile("it is no ZIP archive, or cut short")
    # The number of files and the size of the directory, which is not read before they are checked.
    n_members, directory_size = struct.unpack_from("<HL", tail, end_record + 10)
    if n_members > MAX_MEMBERS or directory_size > min(512 * MAX_MEMBERS, size):
        raise ValueError(f"it states more than {MAX_MEMBERS:,} files")
    archive = zipfile.ZipFile(file)
    members = sorted(archive.infolist(), key=lambda member: member.header_offset)
    if len({member.filename for member in members}) < len(members):
        raise ValueError("it holds two files of one name")
    total = sum(member.file_size for member in members)
    if total > max_bytes:
        raise ValueError(f"it would unpack to more than {max_bytes:,} bytes")
    for member in members:
        name, compressed_size = format_value(member.filename), member.compress_size
        if member.flag_bits & _FORBIDDEN_FLAGS:
            raise ValueError(f"{name} is encrypted or patched")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name} is packed by method {member.compress_type}, not by deflate")
        max_ratio = _MAX_RATIO if member.compress_type else 1
        if compressed_size > size or member.file_size > max_ratio * compressed_size:
            raise ValueError(f"{name} states more bytes than it can hold")
    if no_extra_bytes:
        # The files must follow each other without a gap, then the directory, and then the end.
        position, directory = 0, b""
        for member in members:
            header, entry = _encode_as_numpy(member, position)
            file.seek(position)
            if file.read(len(header)) != header or member.is_dir():
                raise ValueError("it holds bytes that belong to no array")
            directory += entry
            position += len(header) + member.compress_size
        counts = 0, 0, len(members), len(members), len(directory), position, 0
        end = directory + struct.pack("<4s4H2LH", _END_SIGNATURE, *counts)
        file.seek(position)
        if file.read(len(end) + 1) != end:
            raise ValueError("it holds bytes that belong to no array")
    return members


def _encode_as_numpy(member: zipfile.ZipInfo, position: int) -> tuple[bytes, bytes]:
    """Return a file's own header and its entry in the directory, as NumPy writes them.

    A date, for example, could say anything about the ratings.

    Args:
        member: the file.
        position: where its header begins.
    """
    name, sizes = member.filename.encode(), (member.compress_size, member.file_size)
    # Python writes version 45 and no short sizes from 3.11.4 on; a system other than Windows is 3.
    is_recent, system = member.extract_version > 20, 3 if member.create_system else 0
    version, short_sizes = (45, (2**32 - 1,) * 2) if is_recent else (20, sizes)
    fields = 0, member.compress_type, 0, _FIRST_DAY, member.CRC
    end_of_header = *short_sizes, len(name), 20
    end_of_entry = *sizes, len(name), 0, 0, 0, 0, _PERMISSIONS, position
    return (
        struct.pack("<4s5H3L2H", _LOCAL_SIGNATURE, version, *fields, *end_of_header)
        + name
        + struct.pack("<2H2Q", 1, 16, *sizes[::-1]),  # the sizes in 64 bits
        b"PK\x01\x02"
        + struct.pack("<4B4H3L5H2L", version, system, version, 0, *fields, *end_of_entry)
        + name,
    )


def _read_local_header(file: IO[bytes], member: zipfile.ZipInfo) -> int:
    """Return the method in a file's own header, behind which the position is afterwards.

    Raises:
        BadZipFile: if the header is not where the directory says, or has another name.
    """
    file.seek(member.header_offset)
    signature, _, flags, method, *_, name_length, extra_length = struct.unpack(
        "<4s5H3L2H", file.read(_LOCAL_HEADER_BYTES)
    )
    encoding = "utf-8" if flags & 0x800 else "cp437"  # the flag marks names in UTF-8
    name = file.read(name_length).decode(encoding)
    if signature != _LOCAL_SIGNATURE or name != member.orig_filename:
        raise zipfile.BadZipFile(f"{format_value(member.filename)} is not where the directory says")
    file.seek(extra_length, 1)
    return int(method)


def _iterate_chunks(path: Path, file: IO[bytes], member: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the unpacked bytes of a member, and check their length and checksum at the end."""
    with _translate_errors(path):
        method = _read_local_header(file, member)
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS) if member.compress_type else None
        damage_error = zipfile.BadZipFile(f"{format_value(member.filename)} is damaged")
        total = checksum = 0
        for start in range(0, member.compress_size, _CHUNK_BYTES):
            chunk = file.read(min(_CHUNK_BYTES, member.compress_size - start))
            if unpacker is not None:
                chunk = unpacker.decompress(chunk)
            total, checksum = total + len(chunk), zlib.crc32(chunk, checksum)
            if total > member.file_size:
                raise damage_error
            yield chunk
        is_complete = unpacker is None or (unpacker.eof and not unpacker.unused_data)
        expected = member.compress_type, member.file_size, member.CRC
        if not is_complete or (method, total, checksum) != expected:
            raise damage_error


def _parse_npy(name: str, size: int, chunks: Iterable[bytes]) -> NDArray[Any]:
    """Parse one array in NumPy's format.

    Args:
        name: the name of the array in messages.
        size: the number of bytes of the file, header included.
        chunks: these bytes.

    Raises:
        ValueError: if the bytes are not exactly those of a plain array.
    """
    content = np.empty(size, dtype=np.uint8)
    position = 0
    for chunk in chunks:
        content[position : position + len(chunk)] = np.frombuffer(chunk, dtype=np.uint8)
        position += len(chunk)
    message = f"{format_value(name)} is no plain array of NumPy"
    # Magic, version 1.0, and two bytes with the length of the header that follows.
    preamble = content[:10].tobytes()
    if not preamble.startswith(b"\x93NUMPY\x01\x00") or position != size:
        raise ValueError(message)
    start = 10 + int.from_bytes(preamble[8:], "little")
    # Its groups are the type, whether the order is Fortran's, and the shape.
    header = _NPY_HEADER.fullmatch(content[10:start].tobytes().decode("latin-1"))
    if header is None:
        raise ValueError(message)
    dtype = np.dtype(header[1])
    is_fortran = header[2] == "True"
    shape = tuple(int(n) for n in header[3].split(",") if n)
    if dtype.itemsize == 0 or math.prod(shape) * dtype.itemsize != size - start:
        raise ValueError(f"{format_value(name)} has other bytes than its shape and type need")
    if dtype.kind == "U":  # NumPy does not check that these are code points of Unicode
        codes = content[start:].view(np.dtype("u4").newbyteorder(dtype.byteorder))
        # Unicode ends at 10FFFF; D800 to DFFF are halves of pairs in UTF-16.
        if ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes <= 0xDFFF))).any():
            raise ValueError(f"{format_value(name)} has text that is none")
    flat = content[start:].view(dtype)
    return flat.reshape(shape[::-1]).T if is_fortran else flat.reshape(shape)
