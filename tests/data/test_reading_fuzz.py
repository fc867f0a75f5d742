"""Every file is read as the oracle reads it, or refused in sentences: 2,000 generated files.

The oracle itself, and the reader with it, is held to cases worked out by hand.
"""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import pytest

from tests.reading_files import (
    File,
    find_disagreement,
    find_killing_signal,
    generate,
    read_with_oracle,
    read_with_program,
)
from tests.reading_oracle import Refused, Table

PARTITIONS, EACH = 8, 250
HEAD = "user,item,rating\n"
BY_HAND: list[tuple[str | bytes, dict[str, Any], str]] = [
    # Ids are text: nobody is merged.
    (HEAD + "007,x,1\n7,x,2\n07,x,3\n7.0,x,4\n", {}, "007 x 1|07 x 3|7 x 2|7.0 x 4"),
    (HEAD + "True,x,1\ntrue,x,2\n1,x,3\n01,x,4\n", {}, "01 x 4|1 x 3|True x 1|true x 2"),
    (HEAD + "12345678901234567,x,1\n12345678901234568,x,2\n", {},
     "12345678901234567 x 1|12345678901234568 x 2"),
    (HEAD + "NA,x,1\nnan,x,2\nnull,x,3\n", {}, "NA x 1|nan x 2|null x 3"),
    (HEAD + "\u00a0ann ,x,1\nann,y,2\n", {}, "ann x 1|ann y 2"),
    # One notion of a line.
    ("a,x,1\rb,x,2\rc,x,3", {}, "a x 1|b x 2|c x 3"),
    ("a\x0cb,x,1\na\x1cb,x,2\na\x85b,x,3\na\u2028b,x,4\n", {},
     "a\x0cb x 1|a\x1cb x 2|a\x85b x 3|a\u2028b x 4"),
    ("\n\nuser,item,rating\r\na,x,1\r\n\r\n,,\nb,x,2", {}, "a x 1|b x 2"),
    # Quotes.
    (HEAD + '"a,b",x,1\n"say ""hi""",x,2\n', {}, 'a,b x 1|say "hi" x 2'),
    (HEAD + '"a,x,1\nb,x,2\n', {}, "refused: quote"),
    (HEAD + '"a,x,1\nb,x,2\n', {"bad_rows": "leave-out"}, "b x 2"),
    ("user,item,rating,note\na,x,1,\"two\nlines\"\nb,x,2,\n", {}, "a x 1|b x 2"),
    (HEAD + '"a\nb",x,1\nc,x,2\n', {"bad_rows": "leave-out"}, "b\" x 1|c x 2"),
    # Headers.
    ("a,x,good\nb,x,3\n", {}, "refused: header?"),
    ("a,x,\nb,x,3\n", {"bad_rows": "leave-out"}, "b x 3"),
    ("a,x,good\nb,x,3\n", {"header": "no", "bad_rows": "leave-out"}, "b x 3"),
    ("Stars;Movie ID;user\n3;x;a\n", {}, "a x 3"),
    ("user,time,rating\na,5,3\n", {}, "refused: no column left"),
    ("user,rating,timestamp\na,3,5\n", {}, "refused: no column left"),
    ("user,item,rating,rating\na,x,3,4\n", {}, "refused: same name"),
    # A row number is no user, and nobody is one by position under a header.
    ("id,rater_id,film,stars\n1,a,x,3\n2,b,y,4\n", {}, "a x 3|b y 4"),
    ("no,name,film,stars\n1,a,x,3\n2,b,y,4\n", {}, "refused: no column left"),
    ("no,name,film,stars\n1,a,x,3\n2,b,y,4\n", {"user": "name"}, "a x 3|b y 4"),
    ("id,user,rating\n1,a,3\n2,b,4\n", {}, "refused: no column left"),
    ("a,x,3,1,2\nb,y,4,1,2\n", {}, "refused: no column left"),
    ("a,b,c\n1,2,3\n", {"user": "\u00b2"}, "refused: header?"),
    (",,\nuser,item,rating\na,x,3\n", {}, "a x 3"),
    (",user,item,rating\n0,a,x,3\n1,b,y,4\n", {}, "a x 3|b y 4"),
    ("10,x,3\n20,y,4\n", {"user": "1", "item": "2", "rating": "3"}, "10 x 3|20 y 4"),
    ("user,time,rating\na,5,3\n", {"time": "none"}, "refused: no column left"),
    ("PK,x,3\nNL,y,4\n", {"header": "no"}, "NL y 4|PK x 3"),
    # Numbers.
    ("a,x,3,5\nb,x,4,0\n", {}, "refused: decimals?"),
    ("a;x;3,5\nb;x;4\nc;x;bad\n", {"bad_rows": "leave-out"}, "a x 3.5|b x 4"),
    ("a;x;3,5\nb;x;4.5\n", {"bad_rows": "leave-out"}, "b x 4.5"),
    ("c,x,3\na,x,1_0\nb,x,\u0663\n", {"bad_rows": "leave-out", "high": 20}, "c x 3"),
    ("a,x,3\nb,x,inf\nc,x,1e400\nd,x,True\n", {}, "refused: finite number"),
    ("a,x,3\nb,x,9\n,x,3\nd,,\n", {}, "refused: item range user"),
    ("a,x,3\nb,x,0\n", {}, "refused: range"),
    # Separators and encodings.
    ("ann lee\tx\t3\nbob ray\ty\t4\n", {}, "ann lee x 3|bob ray y 4"),
    ("a::x::3\nb::y::4\n", {}, "a x 3|b y 4"),
    ('a "" 3 2\n"" x 4 5\nb y 5 1\n', {"bad_rows": "leave-out"}, "b y 5"),
    ('user\titem\trating\tnote\na\tx\t4\t"two\nlines"\nb\ty\t5\t\n', {}, "a x 4|b y 5"),
    ("Zo\u00eb,x,3\n".encode("utf-16"), {}, "Zo\u00eb x 3"),
    ("Zo\u00eb,x,3\n".encode("latin-1"), {}, "refused: encoding"),
    ("Zo\u00eb,x,3\n".encode("latin-1"), {"encoding": "latin-1"}, "Zo\u00eb x 3"),
    # Duplicates.
    ("a,x,3\na,x,5\n", {}, "refused: duplicates"),
    ("a,x,3,20\na,x,5,10\n", {"duplicates": "last", "rating": "3"}, "a x 3"),
    ("a,x,3\na,x,5\n", {"duplicates": "mean"}, "a x 4"),
    # Other shapes.
    ("user,item\na,x\na,y\na,x\n", {"rating": "none"}, "a x 1|a y 1"),
    ("user,item\na,x\na,y\na,x\n", {}, "refused: a range of no ratings"),
    ('{"user": 7, "item": "x", "rating": 3}\n{"rating": 4, "user": "007", "item": "x"}\n', {},
     "007 x 4|7 x 3"),
    ('{"user": 7, "item": "x", "points": 4}\n', {}, "refused: no column left"),
    ('{"user": 7, "item": "x", "points": 4}\n', {"rating": "none"}, "7 x 1"),
    ('[{"user": 7, "item": "x", "rating": 3}]', {}, "refused: JSON"),
    (",x,y,z\na,3,,4\nb,,5,\n", {"layout": "wide"}, "a x 3|a z 4|b y 5"),
    (";\nuser;x\na;3\n", {"layout": "wide"}, "a x 3"),
    ("user,x,y,z\na,3,,4\nb,,5,\n", {}, "a x 3|a z 4|b y 5"),
    ("user,10,20,30\na,3,,4\nb,,5,\n", {"layout": "wide"}, "a 10 3|a 30 4|b 20 5"),
    ("@relation r\n@data\n1,2,3\n", {}, "refused: ARFF"),
    ("a,x,3\n", {"low": None, "high": None}, "refused: range?"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "options", "expected"), BY_HAND)
def test_by_hand(content: str | bytes, options: dict[str, Any], expected: str) -> None:
    text = content.encode() if isinstance(content, str) else content
    file = File(text, {"low": 1, "high": 5, **options})
    right = read_with_oracle(file, options.get("bad_rows", "error"))
    if isinstance(right, Refused):
        assert f"refused: {' '.join(sorted(right.reasons))}" == expected
    else:
        cells = sorted(right.values.items())
        assert "|".join(f"{user} {item} {value:g}" for (user, item), value in cells) == expected
    check(file)


@pytest.mark.slow
@pytest.mark.parametrize(
    "partition", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, PARTITIONS))]
)
def test_generated_files(partition: int) -> None:
    import hypothesis
    from hypothesis import strategies as st

    @hypothesis.seed(partition)
    @hypothesis.settings(
        max_examples=EACH,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )
    @hypothesis.given(st.randoms(use_true_random=False))
    def one_file(r: random.Random) -> None:
        check(generate(r))

    one_file()


FLIPPED = """
import io, pyarrow, pyarrow.parquet
from dpmc_data import datasets
from dpmc_core.errors import DpmcError

table = pyarrow.table({"user": ["a", "b"], "item": [1, 2], "rating": [1.0, 2.0]})
buffer = io.BytesIO()
pyarrow.parquet.write_table(table, buffer)
content = buffer.getvalue()
for place in range(len(content) - 4):
    for bit in (0, 2, 5):
        damaged = bytearray(content)
        damaged[place] ^= 1 << bit
        try:
            datasets.load_upload(bytes(damaged), "x.parquet", low=1, high=5)
        except DpmcError as error:
            assert chr(10) not in str(error), (place, bit)
"""


@pytest.mark.slow
def test_a_damaged_parquet_file_never_ends_the_process() -> None:
    """C++ ends a process whose exceptions nobody takes: an upload would end all sessions."""
    ended = subprocess.run([sys.executable, "-c", FLIPPED], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]


@pytest.mark.slow
def test_most_kinds_are_read_and_refused() -> None:
    """The generator is of use only if it makes both, of each kind."""
    for kind in ("text", "clicks", "wide", "JSON lines", "Parquet", "crooked"):
        files = [
            file for file in map(generate, map(random.Random, range(600))) if file.kind == kind
        ]
        outcomes = [type(read_with_oracle(file, "leave-out")) for file in files]
        assert min(outcomes.count(Table), outcomes.count(Refused)) >= len(outcomes) // 6, kind


def check(file: File) -> None:
    for bad_rows in ("error", "leave-out"):
        problem = find_killing_signal(file, bad_rows)
        problem = problem or find_disagreement(file, bad_rows, read_with_program(file, bad_rows))
        assert not problem, f"{problem}\nbad_rows={bad_rows} {file.options}\n{file.content!r}"
