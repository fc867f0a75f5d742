"""The door for archives from outside: what is whole comes through, all else ends in a sentence."""

import io
import json
import struct
import tracemalloc
import zipfile
from contextlib import suppress
from random import Random

import numpy as np
import pytest

from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_core.solvers.factorization import PublicUserFactors
from dpmc_data import archives
from dpmc_data.archives import BadArchive
from dpmc_data.public_inputs import read_array
from dpmc_lab.sweep.sources import read_snapshot

ARRAYS = {
    "a": np.arange(12.0).reshape(3, 4),
    "b": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "c": np.array("häß"),
    "d": np.array(3, dtype=np.uint8),
    "e": np.zeros((0, 3), dtype=np.float32),
    "f": np.array(["", "xy"]),
    "g": np.array([], dtype=str),
}


@pytest.mark.parametrize("save_arrays", [np.savez, np.savez_compressed])
def test_arrays_come_as_numpy_reads_them(save_arrays, tmp_path):
    save_arrays(tmp_path / "a.npz", allow_pickle=False, **ARRAYS)
    loaded = archives.read_npz(tmp_path / "a.npz", no_extra_bytes=True)
    with np.load(tmp_path / "a.npz") as file:
        assert list(loaded) == file.files
        for name in file.files:
            assert loaded[name].dtype == file[name].dtype
            np.testing.assert_array_equal(loaded[name], file[name])
    np.save(tmp_path / "a.npy", ARRAYS["b"])
    np.testing.assert_array_equal(archives.read_npy(tmp_path / "a.npy"), ARRAYS["b"])


def write_zip(path, *members, comment=b"", **change):
    """Write a ZIP of (name, bytes) and set fields of its first directory entry as given."""
    with zipfile.ZipFile(path, "w") as file:
        file.comment = comment
        for name, content in members:
            file.writestr(zipfile.ZipInfo(name), content)
    content = bytearray(path.read_bytes())
    position = content.index(b"PK\x01\x02")
    for field, value in change.items():
        offset, kind = {"flags": (8, "H"), "method": (10, "H"), "size": (24, "L")}[field]
        struct.pack_into(f"<{kind}", content, position + offset, value)
    path.write_bytes(content)


def encode_npy(array=ARRAYS["a"], header=None, **options):
    sink = io.BytesIO()
    np.save(sink, array, **options)
    content = sink.getvalue()
    if header is None:
        return content
    text = header.encode() + b"\n"
    return content[:8] + struct.pack("<H", len(text)) + text + content[128:]


SHAPED = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s), }"


@pytest.mark.parametrize(
    ("members", "change", "message"),
    [
        ([("a.npy", encode_npy())], {"flags": 1}, "encrypted"),
        ([("a.npy", encode_npy())], {"method": 12}, "method 12"),
        ([("a.npy", encode_npy())], {"method": 99}, "method 99"),
        ([("a.npy", encode_npy())], {"size": 50_000_000}, "more bytes than it can hold"),
        ([("a.npy", encode_npy())] * 2, {}, "two files of one name"),
        ([(f"{k}.npy", b"") for k in range(archives.MAX_MEMBERS + 1)], {}, "more than 1,000 files"),
        ([("a.txt", b"hello")], {}, "'a.txt', which is no array"),
        ([("a\x1b.txt", b"hello")], {}, r"a\\x1b\.txt"),
        ([("a.npy", b"PK\x03\x04")], {}, "no plain array"),
        (
            [("a.npy", encode_npy(np.array([{}], dtype=object), allow_pickle=True))],
            {},
            "no plain array",
        ),
        ([("a.npy", encode_npy(np.zeros(2, dtype="f8,f4")))], {}, "no plain array"),
        ([("a.npy", encode_npy(header=SHAPED % "10" + "0" * 30))], {}, "no plain array"),
        ([("a.npy", encode_npy(header=SHAPED % "999999999, 999999999"))], {}, "other bytes"),
        ([("a.npy", encode_npy(header=SHAPED % "3, 5"))], {}, "other bytes"),
        ([("a.npy", encode_npy(header="(" * 60_000))], {}, "no plain array"),
        ([("a.npy", encode_npy(header=(SHAPED % "3, 4").replace("f8", "U0")))], {}, "other bytes"),
        (
            [("a.npy", encode_npy(header=(SHAPED % "3, 8").replace("f8", "U1")))],
            {},
            "text that is none",
        ),
        ([("a.npy", encode_npy() + b"more")], {}, "other bytes"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_what_is_damaged_or_too_much_ends_in_a_sentence_and_takes_no_memory(
    members, change, message, tmp_path
):
    path = tmp_path / "a.npz"
    write_zip(path, *members, **change)
    tracemalloc.start()
    with pytest.raises(BadArchive, match=message) as error:
        archives.read_npz(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5e6
    assert str(error.value).isprintable()


@pytest.mark.slow
def test_a_bomb_of_zeros_is_refused_before_it_is_unpacked(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, allow_pickle=False, a=np.zeros(20_000_000, dtype=np.uint8))
    np.testing.assert_array_equal(archives.read_npz(path)["a"], 0)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for k in range(6):
            file.writestr(f"{k}.npy", encode_npy(np.zeros(20_000_000, dtype=np.uint8)))
    tracemalloc.start()
    with pytest.raises(BadArchive, match="would unpack to more than"):
        archives.read_npz(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5e6


def test_no_byte_beside_the_arrays_where_they_are_to_be_alone(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, allow_pickle=False, **ARRAYS)
    original = path.read_bytes()
    entry = original.index(b"PK\x01\x02")
    comment = original[:-2] + b"\x03\x00abc"
    extra = bytearray(original)
    extra[30 + len("a.npy") : 32 + len("a.npy")] = b"\x99\x99"  # a field of an unknown kind
    for content in (
        b"abc" + original,
        comment,
        bytes(extra),
        original[:entry] + b"abc" + original[entry:],
    ):
        path.write_bytes(content)
        with pytest.raises(BadArchive):
            archives.read_npz(path, no_extra_bytes=True)
    write_zip(path, ("a.npy", encode_npy()), ("b/", b""))
    with pytest.raises(BadArchive):
        archives.read_npz(path, no_extra_bytes=True)


def test_a_stream_that_goes_on_behind_its_end_is_damaged(tmp_path):
    """A ZIP may hold bytes behind the end of what is deflated, which no reader shows."""
    import zlib

    inner = encode_npy()
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(inner) + packer.flush()
    for suffix in (b"", b"raw ratings"):
        data = packed + suffix
        head = struct.pack(
            "<5H3L2H", 20, 0, 8, 0, 33, zlib.crc32(inner), len(data), len(inner), 5, 0
        )
        body = b"PK\x03\x04" + head + b"a.npy" + data
        entry = b"PK\x01\x02\x14\x00" + head + bytes(14) + b"a.npy"
        end = b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, 1, 1, len(entry), len(body), 0)
        (tmp_path / "a.npz").write_bytes(body + entry + end)
        if suffix:
            with pytest.raises(BadArchive, match="damaged"):
                archives.read_npz(tmp_path / "a.npz")
        else:
            np.testing.assert_array_equal(archives.read_npz(tmp_path / "a.npz")["a"], ARRAYS["a"])


@pytest.mark.parametrize(
    "depth", [1, archives.MAX_JSON_DEPTH, archives.MAX_JSON_DEPTH + 1, 1000, 100_000]
)
def test_json_is_read_to_a_depth(depth):
    text = "[" * depth + "]" * depth
    if depth <= archives.MAX_JSON_DEPTH:
        assert archives.parse_json(text) == json.loads(text)
    else:
        with pytest.raises(ValueError, match="nested"):
            archives.parse_json(text)


@pytest.mark.slow
def test_every_reader_ends_in_its_own_sentence(tmp_path):
    """A few hundred damaged files for the readers of snapshots, of factors and of archives."""
    path = tmp_path / "a.npz"
    np.savez_compressed(path, allow_pickle=False, **ARRAYS)
    np.save(tmp_path / "whole.npy", ARRAYS["a"])
    content, plain = path.read_bytes(), (tmp_path / "whole.npy").read_bytes()
    for seed in range(300):
        draw = Random(seed)
        damaged = bytearray(content)
        for _ in range(3):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        path.write_bytes(damaged[: draw.choice((None, draw.randrange(len(damaged))))])
        with pytest.raises(BadRatings, match="not a snapshot"):
            read_snapshot(path)
        with suppress(BadArchive):
            for _, chunks in archives.iterate_members(path):
                list(chunks)
        flipped = bytearray(plain)
        flipped[draw.randrange(128)] ^= 1 << draw.randrange(8)
        (tmp_path / "a.npy").write_bytes(flipped)
        with suppress(InvalidSetting):
            read_array("user_factors", PublicUserFactors(str(tmp_path / "a.npy"))).build(3, 4)


# Damaged releases
