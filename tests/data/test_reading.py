"""Files as people have them: ids stay text, every line is accounted for, all faults are told."""

from __future__ import annotations

import io
import json
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpmc_core.errors import BadRatings, DpmcError
from dpmc_data import datasets
from dpmc_data.source import BLOCK_BYTES, LineCount, Refused
from dpmc_lab.cli import main
from tests.reading_helpers import ratings_by_pair, read_upload

HEAD = "user,item,rating\n"


def check_count(count: LineCount | None) -> LineCount:
    """Return the count after checking that it adds up."""
    assert count is not None
    assert count.lines == count.header + count.blank + count.continued + count.rows
    assert count.entries == count.used + sum(count.left_out.values()) + count.repeated
    return count


# Ids ----------------------------------------------------------------------------------------------

IDS = [
    "007", "7", "07", "1", "01", "1.0", "1.00", "+1", "1e0", "True", "true", "TRUE", "NA", "nan",
    "None", "null", "12345678901234567", "12345678901234568", "0306406152", "306406152",
    "080442957X", "é", "e\u0301", "\u0661", "1_0", "10", "inf", "a b", "a  b", "=1+1", "-1", "1,5",
]  # fmt: skip


@pytest.mark.parametrize("separator", [",", "\t", ";", "::", "|"])
def test_two_ids_are_one_only_if_their_text_is_equal(separator: str) -> None:
    lines = [f'"{u}"{separator}"{i}"{separator}{1 + k % 5}' for k, u in enumerate(IDS) for i in IDS]
    ratings = read_upload("\n".join(lines), user=1).ratings
    assert set(ratings.user_ids or ()) == set(ratings.item_ids or ()) == set(IDS)
    assert len(ratings) == len(IDS) ** 2


# Lines --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("inside", ["\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\x0b"])
def test_a_line_ends_at_line_ends_alone(end: str, inside: str) -> None:
    rows = [("u1", f"a{inside}b", 3.0), ("u2", "c", 4.0)]
    text = end.join(["user,item,rating", *(f"{u},{i},{r:g}" for u, i, r in rows)])
    data = read_upload(text)
    assert ratings_by_pair(data.ratings) == {(u, i): r for u, i, r in rows}
    assert check_count(data.count).lines == 3


def test_quotes_over_the_border_of_blocks() -> None:
    rows = "".join(f"u{k},i{k},3,plain\n" for k in range(BLOCK_BYTES // 12))
    text = "user,item,rating,review\n" + rows + 'ann,tea,4,"' + "word\n" * 9 + '"\n' + rows
    data = read_upload(text, duplicates="last", user="user")
    assert ratings_by_pair(data.ratings)["ann", "tea"] == 4
    assert check_count(data.count).continued == 9


@pytest.mark.parametrize("first", ["ann,tea,nan", "ann,,3", "a,b,NA"])
def test_a_first_row_without_a_usable_rating_is_no_header(first: str) -> None:
    text = f"{first}\nbob,milk,4\n"
    with pytest.raises(Refused, match="line 1"):
        read_upload(text)
    data = read_upload(text, bad_rows="leave-out")
    assert ratings_by_pair(data.ratings) == {("bob", "milk"): 4}
    assert check_count(data.count).header == 0


# Nothing of what is left out ----------------------------------------------------------------------


def test_users_and_items_of_left_out_rows_are_gone(tmp_path: Path) -> None:
    text = HEAD + "ann,tea,4\nsecret,tea,9\nann,hidden,\n"
    data = read_upload(text, bad_rows="leave-out")
    assert data.ratings.shape == (1, 1)
    assert (data.ratings.user_ids, data.ratings.item_ids) == (("ann",), ("tea",))
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "b.csv").write_text(HEAD + "ann,milk,3\nother,milk,0\n")
    train, test = datasets.read_pair(
        tmp_path / "a.csv", tmp_path / "b.csv", low=1, high=5, bad_rows="leave-out"
    )
    assert train.shape == test.shape == (1, 2)


# Columns and options ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["1711908000", "1711908001"], [1711908000, 1711908001]),
        (["1711908000000", "1711908001999"], [1711908000, 1711908001]),
        (["1711908000000000", "1711908001000000"], [1711908000, 1711908001]),
        (["1711908000000000000", "1711908001000000000"], [1711908000, 1711908001]),
        (["2024-03-31T18:00:00Z", "2024-03-31 20:00:01+02:00"], [1711908000, 1711908001]),
        (["2024-03-31", "1969-12-31"], [1711843200, -86400]),
        (["1711908000", "1e300"], None),
        (["1711908000", ""], None),
        (["1711908000", "2024-03-31"], None),
        (["soon", "later"], None),
        (["nan", "1"], None),
    ],
)
def test_times_are_seconds_or_left_alone_with_a_word(
    times: list[str], expected: list[int] | None
) -> None:
    text = "user,item,rating,time\n" + "".join(f"u{k},x,3,{t}\n" for k, t in enumerate(times))
    data = read_upload(text)
    assert len(data.ratings) == 2
    if expected is not None:
        assert data.ratings.times is not None
        assert data.ratings.times.tolist() == expected
        return
    assert data.ratings.times is None
    assert any(line.startswith("times are left alone") for line in data.report)
    with pytest.raises(Refused):
        read_upload(text, time="time")
    assert read_upload(text, time="none").ratings.times is None


# Refusals -----------------------------------------------------------------------------------------


def test_a_refusal_lists_everything_at_once_with_its_options() -> None:
    text = HEAD + "ann,tea,9\nbob,tea,x\n,tea,3\nbob,,3\nbob,milk,\na,b\nx,y,3\nx,y,4\n"
    with pytest.raises(Refused) as refused:
        read_upload(text)
    faults = refused.value.faults
    assert len(faults) == 7
    options = {name: value for fault in faults for name, value in fault.answers[-1].items()}
    assert options == {"bad_rows": "leave-out", "duplicates": "mean"}
    assert "--read bad_rows=leave-out" in str(refused.value)
    assert pickle.loads(pickle.dumps(refused.value)).faults == faults
    assert ratings_by_pair(read_upload(text, **options).ratings) == {("x", "y"): 3.5}


def test_the_range_is_asked_before_a_long_read() -> None:
    progress: list[int] = []
    rows = [f"a{k // 20},b{k % 20},{1 + (k + k // 20) % 5}\n" for k in range(BLOCK_BYTES // 2)]
    text = "name,thing,points\n" + "".join(rows)
    with pytest.raises(Refused) as refused:
        datasets.load_upload(text.encode(), "x.csv", lambda n_read, _: progress.append(n_read))
    assert [fault.option for fault in refused.value.faults] == ["user", "range"]
    assert not progress


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_the_files_of_a_folder_are_followed_as_one(tmp_path: Path, kind: str) -> None:
    for k in range(3):
        users = [f"u{k}-{row}" for row in range(10 * (k + 1))]
        columns: dict[str, list[object]] = {"user": [*users], "item": ["x"] * len(users)}
        columns["rating"] = [3] * len(users)
        path = tmp_path / f"{k}.{kind}"
        if kind == "csv":
            path.write_text(HEAD + "".join(f"{user},x,3\n" for user in users), encoding="utf-8")
        else:
            path.write_bytes(build_parquet(**columns))
    progress: list[tuple[int, int]] = []
    options = {"low": 1, "high": 5, "user": "user"}
    datasets.read(tmp_path, lambda *args: progress.append(args), **options)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert [n_read for n_read, _ in progress] == sorted(n_read for n_read, _ in progress)
    assert {n_all for _, n_all in progress} == {size}
    assert progress[-1][0] == size
    assert progress[0][0] < size / 2


def test_reading_can_be_followed_and_stopped() -> None:
    text = (HEAD + "".join(f"u{k},i{k},3\n" for k in range(60_000))).encode()
    progress: list[tuple[int, int]] = []
    datasets.load_upload(text, "x.csv", lambda *args: progress.append(args), low=1, high=5, user=1)
    assert [n_read for n_read, _ in progress] == sorted(n_read for n_read, _ in progress)
    assert progress[-1] == (len(text), len(text))

    def stop(*_: int) -> None:
        raise DpmcError("stopped")

    with pytest.raises(DpmcError, match=r"^stopped$"):
        datasets.load_upload(text, "x.csv", stop, low=1, high=5)


@pytest.mark.parametrize("stored_once", [True, False])
@pytest.mark.parametrize("begin", ["", "user", "\u00e9t\u00e9"])
@pytest.mark.parametrize("max_length", [3, 7, 8, 9, 30])
def test_ids_of_any_length_keep_their_order_and_are_never_one(
    max_length: int, begin: str, stored_once: bool
) -> None:
    """Short ones are told apart by numbers, longer ones by their texts: as Python sorts them."""
    rng = np.random.default_rng(max_length)
    letters = np.array(list("ab0\u00e9-"))
    ids = {"".join(rng.choice(letters, rng.integers(0, max_length + 1))) for _ in range(400)}
    ids = [
        begin + end
        for end in {*ids, "a" * max_length, "a" * (max_length - 1), "a" * (max_length - 2) + "b"}
    ]
    ids = [id for id in ids if id] * (1 if stored_once else 5)
    text = "user,item,rating\n" + "".join(f"{id},i{k},3\n" for k, id in enumerate(ids))
    ratings = read_upload(text, user="user").ratings
    assert ratings.user_ids == tuple(sorted({*ids}, key=str.encode))
    item_ids = ratings.item_ids or ()
    results = [
        (ratings.user_ids[u], item_ids[i])
        for u, i in zip(ratings.users, ratings.items, strict=True)
    ]
    assert sorted(results) == sorted((id, f"i{k}") for k, id in enumerate(ids))


def test_ids_that_differ_by_a_null_character_are_different() -> None:
    ids = ["a", "a\0", "a\0\0", "a\0b", "b"]
    content = build_parquet(user=ids[::-1], item=["x"] * 5, rating=[3] * 5)
    assert read_upload(content, "x.parquet").ratings.user_ids == tuple(ids)


def test_long_ids_after_short_ones_are_kept_once() -> None:
    """The first piece of the file promises ids of one row each; the rest breaks it."""
    first = "".join(f"u{k},i{k},3\n" for k in range(BLOCK_BYTES // 10))
    rows = 40_000
    long = "".join(f"{'y' * 900}{k % 3},j{k},3\n" for k in range(rows))
    before, retained = pa.total_allocated_bytes(), []

    def tell(*_: int) -> None:
        retained.append(pa.total_allocated_bytes() - before)

    content = (HEAD + first + long).encode()
    ratings = datasets.load_upload(content, "x.csv", tell, low=1, high=5, user=1).ratings
    assert ratings.public.users == BLOCK_BYTES // 10 + 3
    assert np.bincount(ratings.users).max() == -(-rows // 3)
    assert max(retained) < 15 * BLOCK_BYTES


# Clicks and other shapes --------------------------------------------------------------------------


def test_counts_need_no_range_where_only_ranking_follows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plays.csv"
    rows = [
        f"u{u},i{i},{1 + 37 * u * i % 900}" for u in range(12) for i in range(14) if (u + i) % 3
    ]
    rows += [f"u{u},i{i},5" for u in range(2) for i in range(14, 40)]
    file.write_text("user,item,plays\n" + "\n".join(rows) + "\n")
    assert main(["fit", str(file), "popularity", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["ratings"] > 0
    assert main(["fit", str(file), "clear"]) == 1
    assert "range" in capsys.readouterr().err
    assert main(["fit", str(file), "popularity", "--prepare", "implicit=4"]) == 1
    assert "range" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ('[{"user": 1, "item": 2, "rating": 3}', "no table"),
        ("<html><body></body></html>", "HTML"),
        (b"%PDF-1.7\n", "PDF"),
        (b"PK\x03\x04", "no ZIP archive, or cut short"),
        ("a\0b,c,3\n", "not a text file"),
    ],
)  # fmt: skip
def test_other_formats_are_named_in_the_refusal(content: str | bytes, word: str) -> None:
    with pytest.raises(BadRatings, match=word):
        read_upload(content)


@pytest.mark.slow
def test_a_line_without_end_is_refused_in_bounded_memory() -> None:
    content = b"user,item,rating\n" + b"x" * 40_000_000
    tracemalloc.start()
    with pytest.raises(BadRatings, match=r"more than 16,000,000 characters"):
        read_upload(content)
    assert tracemalloc.get_traced_memory()[1] < 120_000_000
    tracemalloc.stop()


# Parquet ------------------------------------------------------------------------------------------


def build_parquet(names: list[str] | None = None, **columns: object) -> bytes:
    stream = io.BytesIO()
    arrays = [
        c if isinstance(c, pa.Array | pa.ChunkedArray) else pa.array(c) for c in columns.values()
    ]
    pq.write_table(pa.table(arrays, names=names or list(columns)), stream)
    return stream.getvalue()


def test_parquet_columns_that_cannot_be_used_are_named() -> None:
    lists = build_parquet(user=[[1], [2]], item=["x", "y"], rating=[3, 4])
    with pytest.raises(Refused, match="'user' holds list"):
        read_upload(lists, "x.parquet")
    duplicate = build_parquet(["user", "user", "item", "rating"], a=[1], b=[2], c=[3], d=[4])
    with pytest.raises(BadRatings, match="user"):
        read_upload(duplicate, "x.parquet")


@pytest.mark.parametrize(("bits", "digits"), [(16, 11), (32, 24), (64, 53)])
def test_ids_that_a_float_no_longer_tells_apart_are_refused_with_its_type(
    bits: int, digits: int
) -> None:
    """2^24 and 2^24 + 1 are one number as float32; 2^24 - 1 is its own."""
    kind = np.dtype(f"float{bits}").type
    edge = 2**digits
    assert kind(edge) == kind(edge + 1)
    assert len({kind(edge - 1), kind(edge - 2), kind(edge)}) == 3

    def read(*ids: float) -> datasets.LoadedDataset:
        column = pa.array(np.array([*ids, 1], dtype=kind))
        return read_upload(
            build_parquet(user=column, item=list("xyz"), rating=[3, 4, 5]), "x.parquet"
        )

    assert read(edge - 1, 1 - edge).ratings.user_ids == (str(1 - edge), "1", str(edge - 1))
    for wrong in (edge, -edge, edge + 2, np.inf):
        with pytest.raises(Refused, match=f"'user' holds ids as float{bits}.* 2\\^{digits} "):
            read(2, wrong)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"user,item\nann,tea\n", "x.csv"),
        (b"user,item,time\nann,tea,978300760\n", "x.csv"),
        (b'{"user": "ann", "item": "tea"}\n', "x.jsonl"),
        (None, "x.parquet"),
    ],
)
def test_with_a_range_a_file_is_read_as_clicks_only_if_asked(
    content: bytes | None, name: str
) -> None:
    content = content or build_parquet(user=["ann"], item=["tea"])
    for ranking in (False, True):
        with pytest.raises(Refused, match="no column holds the rating") as refused:
            datasets.load_upload(content, name, low=0, high=5, for_ranking=ranking)
        assert "rating=none" in refused.value.faults[0].options
    for options in ({"low": 0, "high": 5, "rating": "none"}, {}):
        assert datasets.load_upload(content, name, **options).ratings.has_only_clicks


@pytest.mark.slow
def test_damaged_parquet_is_a_sentence() -> None:
    good = build_parquet(
        user=[f"u{k}" for k in range(500)], item=list(range(500)), rating=[3] * 500
    )  # fmt: skip
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(150):
        bad = bytearray(good)
        for position in rng.integers(4, len(good) - 4, size=rng.integers(1, 5)):
            bad[position] ^= 1 << int(rng.integers(0, 8))
        try:
            read_upload(bytes(bad), "x.parquet")
        except DpmcError:  # and nothing else
            refused += 1
    assert refused > 30


@pytest.mark.slow
def test_parquet_is_read_in_bounded_memory() -> None:
    """11 MB that unpack to gigabytes as plain columns: a long text a million times."""
    rows = 1_000_000
    long = pa.DictionaryArray.from_arrays(
        pa.array(np.arange(rows, dtype=np.int32) % 4), pa.array([f"{k}" * 2_000 for k in range(4)])
    )
    content = build_parquet(user=np.arange(rows), item=long, rating=np.full(rows, 3.0))
    before = pa.total_allocated_bytes()
    pool = pa.default_memory_pool()
    data = read_upload(content, "x.parquet", user="user")
    assert data.ratings.shape == (rows, 4)
    assert pool.max_memory() - before < 400_000_000


# dpmc data check ----------------------------------------------------------------------------------


def test_check_tells_all_and_gives_the_command_that_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.csv"
    file.write_bytes(
        "ann;tea;great\nZoë;tea;4,5\nbob;tea;9\nbob;tea;3\nbob;tea;4\n".encode("cp1252")
    )
    check = ["data", "check", str(file), "--user", "1", "--read", "item=2", "--json"]
    assert main(check) == 1
    report = json.loads(capsys.readouterr().out)
    options = [option for fault in report["faults"] for option in fault["options"]]
    for needed in ("encoding=cp1252", "range=LOW:HIGH", "duplicates=last"):
        assert needed in options
    assert report["readings"][0]["command"].endswith("--range LOW:HIGH")
    assert main([*check, "--range", "1:5"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["command"] is None  # one of four rows left out is doubt
    command = found["readings"][0]["command"].split()
    assert main(command[1:]) == 0
    assert "2 users x 1 item" in capsys.readouterr().out
    good = tmp_path / "good.csv"
    good.write_text(HEAD + "a,x,3\nb,x,4\n")
    assert main(["data", "check", str(good), "--range", "1:5"]) == 0


def test_ids_that_look_like_floats_of_whole_numbers_are_kept() -> None:
    data = read_upload(HEAD + "1.0,a,3\n2.0,b,4\n")
    assert data.ratings.user_ids == ("1.0", "2.0")


def test_a_column_may_be_called_like_a_number(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("007,user,rating\na,b,3\n")
    argv = ["data", "describe", str(file), "--range", "1:5", "--read", "header=yes"]
    assert main([*argv, "--read", "item=007"]) == 0


def test_half_a_character_in_a_name_spoils_its_line() -> None:
    good = '{"user": "a", "item": "x", "rating": 3, "more": 1}\n'
    data = read_upload(
        good + good.replace("more", "\\ud800").replace('"a"', '"b"'), bad_rows="leave-out"
    )
    assert ratings_by_pair(data.ratings) == {("a", "x"): 3}


def test_parquet_with_an_index_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    stream = io.BytesIO()
    frame = pandas.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "rating": [3.5, 4]})
    frame[frame.rating > 0].set_index("user").to_parquet(stream)
    assert ratings_by_pair(read_upload(stream.getvalue(), "x.parquet").ratings) == {
        ("a", "x"): 3.5,
        ("b", "y"): 4,
    }


@pytest.mark.parametrize("row", ["b,y,", "b,y,9", "b,y,0"])
def test_a_person_without_a_usable_rating_is_not_counted(row: str) -> None:
    """The number of users is public, so a row that is left out must not add one."""
    data = read_upload(HEAD + f"a,x,3\n{row}\nc,x,4\n", bad_rows="leave-out")
    assert (data.ratings.public.users, data.ratings.public.items, len(data.ratings)) == (2, 1, 2)


def test_two_columns_that_may_hold_the_rating_are_asked_about() -> None:
    """Both say the same of themselves, so neither is ahead by the margin."""
    rng = np.random.default_rng(0)
    rows = "".join(
        f"ann{u},film{i},{rng.integers(1, 6)},{rng.integers(1, 6)}\n"
        for u in range(12)
        for i in range(6)
    )
    for names in ("story,music", "rating,score"):
        with pytest.raises(BadRatings, match="which column holds what"):
            read_upload(f"user,item,{names}\n{rows}")
