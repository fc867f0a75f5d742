"""Released files, each damaged by accident or by somebody, from a seed."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from dpmc_core.errors import DpmcError
from dpmc_lab.study.verify import verify_release
from tests.release_helpers import load_release

_END, _ENTRY, _LOCAL = b"PK\x05\x06", b"PK\x01\x02", b"PK\x03\x04"
_ABSURD = (0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1)


def flip_bits(content: bytes, rng: Random) -> bytes:
    """One to three bits."""
    out = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def cut_bytes(content: bytes, rng: Random) -> bytes:
    """A part is missing, at the end or within."""
    start = rng.randrange(len(content))
    end = len(content) if rng.random() < 0.5 else rng.randrange(start, len(content))
    return content[:start] + content[end:]


def add_bytes(content: bytes, rng: Random) -> bytes:
    """Bytes that belong to nothing."""
    extra, position = rng.randbytes(rng.randint(1, 200)), rng.choice((0, None, -1))
    if position is None:  # as the comment of the archive, which is allowed there
        return content[:-2] + struct.pack("<H", len(extra)) + extra
    return extra + content if position == 0 else content + extra


def swap_headers(content: bytes, rng: Random) -> bytes:
    """Two headers change places."""
    mark = rng.choice((_LOCAL, _ENTRY))
    positions = [k for k in range(len(content)) if content.startswith(mark, k)]
    first, second = sorted(rng.sample(positions, 2))
    size, out = 30 if mark == _LOCAL else 46, bytearray(content)
    out[first : first + size] = content[second : second + size]
    out[second : second + size] = content[first : first + size]
    return bytes(out)


def set_absurd_field(content: bytes, rng: Random) -> bytes:
    """A size, a place, a method or a flag in the directory that nothing bears out."""
    positions = [k for k in range(len(content)) if content.startswith(_ENTRY, k)]
    offset, out = rng.choice(positions), bytearray(content)
    field, kind = rng.choice(((8, "H"), (10, "H"), (16, "L"), (20, "L"), (24, "L"), (42, "L")))
    largest = 2 ** (8 * struct.calcsize(kind)) - 1
    struct.pack_into(f"<{kind}", out, offset + field, rng.choice(_ABSURD) & largest)
    if rng.random() < 0.3:  # and of the directory itself
        struct.pack_into("<L", out, len(content) - rng.choice((6, 10)), rng.choice(_ABSURD))
    return bytes(out)


def _rebuild_archive(content: bytes, rng: Random, change: Any) -> bytes:
    """The archive written anew, the bytes of one file changed, all its sizes and sums right."""
    sink = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(sink, "w") as new:
        names = old.namelist()
        chosen = rng.choice(names)
        for name in names:
            inner = old.read(name)
            new.writestr(zipfile.ZipInfo(name), change(inner) if name == chosen else inner)
    return sink.getvalue()


def replace_array_header(content: bytes, rng: Random) -> bytes:
    """An array whose own header says something else, nested or huge."""
    texts = (
        "{'descr': '<f8', 'fortran_order': False, 'shape': (10%s,), }" % ("0" * 29),
        "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 99999999999999999), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<U0', 'fortran_order': False, 'shape': (999999999999,), }",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }",
        "(" * rng.randint(1, 20_000),
        "{'descr': '<U999999999', 'fortran_order': False, 'shape': (), }",
    )
    text = rng.choice(texts).encode() + b"\n"

    head = b"\x93NUMPY" + rng.choice((b"\1\0", b"\2\0")) + struct.pack("<H", len(text)) + text
    return _rebuild_archive(content, rng, lambda inner: head + inner[128:])


def flip_array_bits(content: bytes, rng: Random) -> bytes:
    """Bits of an array's own bytes, sums made anew: what only its digest, or nothing, shows."""
    return _rebuild_archive(content, rng, lambda inner: flip_bits(inner, rng))


def nest_card(content: bytes, rng: Random) -> bytes:
    """A card that is nested too deep, at the top or within."""
    depth = rng.choice((21, 1000, 100_000))
    nest = "[" * depth + "]" * depth

    def change(card_text: str) -> str:
        field_text = rng.choice(("", '"times": 1', '"cap": null'))
        if not field_text:
            return nest
        return card_text.replace(field_text, f"{field_text.partition(':')[0]}: {nest}", 1)

    with np.load(io.BytesIO(content)) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["card"] = np.array(change(str(arrays["card"])))
    sink = io.BytesIO()
    np.savez_compressed(sink, allow_pickle=False, **arrays)
    return sink.getvalue()


def make_bomb(_: bytes, rng: Random) -> bytes:
    """A file that unpacks to more than it states, or to a thousand times its size."""
    size = rng.choice((2**20, 2**24))
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(bytes(size)) + packer.flush()
    stated = rng.choice((64, size, 2**31 - 1))
    sizes = zlib.crc32(bytes(size)), len(packed), stated
    head = struct.pack("<5H3L2H", 20, 0, 8, 0, 33, *sizes, 8, 0)
    body = _LOCAL + head + b"card.npy" + packed
    entry = _ENTRY + struct.pack("<H", 20) + head + bytes(14) + b"card.npy"
    end = _END + struct.pack("<4H2LH", 0, 0, 1, 1, len(entry), len(body), 0)
    return body + entry + end


DAMAGES = (
    *(flip_bits, cut_bytes, add_bytes, swap_headers, set_absurd_field),
    *(replace_array_header, flip_array_bits, nest_card, make_bomb),
)


def verify_damaged(sound_path: Path, damaged: bytes, path: Path) -> str:
    """What verification says of it: "refused", or "accepted" where it holds the same.

    Raises what is neither: any error but a sentence, or other arrays.
    """
    path.write_bytes(damaged)
    try:
        verified = verify_release(path)
    except DpmcError as error:
        if len(str(error)) > 2_000 or not str(error).isprintable():
            raise AssertionError(f"no sentence: {str(error)[:200]!r}") from None
        return "refused"
    guarantee, arrays = load_release(sound_path)
    assert json.dumps(verified.release_card) == json.dumps(guarantee)
    _, damaged_arrays = load_release(path)
    assert arrays.keys() == damaged_arrays.keys()
    assert all(arrays[n].tobytes() == damaged_arrays[n].tobytes() for n in arrays)
    return "accepted"
