"""Small files with what each gives, worked out by hand; damaged ones end in a sentence."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from dpmc_core.errors import DpmcError
from tests.reading_helpers import ratings_by_pair, read_upload

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
    (HEAD + '"a,x,1\nb,x,2\n', {}, "refused"),
    (HEAD + '"a,x,1\nb,x,2\n', {"bad_rows": "leave-out"}, "refused"),
    ("user,item,rating,note\na,x,1,\"two\nlines\"\nb,x,2,\n", {}, "a x 1|b x 2"),
    (HEAD + '"a\nb",x,1\nc,x,2\n', {"bad_rows": "leave-out"}, "refused"),
    # Headers.
    ("a,x,good\nb,x,3\n", {}, "refused"),
    ("a,x,good\nb,x,3\n", {"header": "no", "bad_rows": "leave-out"}, "b x 3"),
    ("Stars;Movie ID;user\n3;x;a\n", {}, "a x 3"),
    ("user,time,rating\na,5,3\n", {}, "refused"),
    ("user,rating,timestamp\na,3,5\n", {}, "refused"),
    ("user,item,rating,rating\na,x,3,4\n", {}, "refused"),
    # A row number is no user, and nobody is one by position under a header.
    ("id,rater_id,film,stars\n1,a,x,3\n2,b,y,4\n", {}, "a x 3|b y 4"),
    ("no,name,film,stars\n1,a,x,3\n2,b,y,4\n", {}, "refused"),
    ("no,name,film,stars\n1,a,x,3\n2,b,y,4\n", {"user": "name"}, "a x 3|b y 4"),
    ("id,user,rating\n1,a,3\n2,b,4\n", {}, "refused"),
    ("a,x,3,1,2\nb,y,4,1,2\n", {}, "refused"),
    ("a,b,c\n1,2,3\n", {"user": "\u00b2"}, "refused"),
    (",,\nuser,item,rating\na,x,3\n", {}, "a x 3"),
    (",user,item,rating\n0,a,x,3\n1,b,y,4\n", {}, "a x 3|b y 4"),
    ("10,x,3\n20,y,4\n", {"user": "1", "item": "2", "rating": "3"}, "10 x 3|20 y 4"),
    ("user,time,rating\na,5,3\n", {"time": "none"}, "refused"),
    ("PK,x,3\nNL,y,4\n", {"header": "no"}, "NL y 4|PK x 3"),
    # Numbers.
    ("a,x,3,5\nb,x,4,0\n", {}, "refused"),
    ("a;x;3,5\nb;x;4\nc;x;bad\n", {"bad_rows": "leave-out"}, "a x 3.5|b x 4"),
    ("a;x;3,5\nb;x;4.5\n", {"bad_rows": "leave-out"}, "b x 4.5"),
    ("c,x,3\na,x,1_0\nb,x,\u0663\n", {"bad_rows": "leave-out", "high": 20}, "c x 3"),
    ("a,x,3\nb,x,inf\nc,x,1e400\nd,x,True\n", {}, "refused"),
    ("a,x,3\nb,x,9\n,x,3\nd,,\n", {}, "refused"),
    ("a,x,3\nb,x,0\n", {}, "refused"),
    # Separators and encodings.
    ("ann lee\tx\t3\nbob ray\ty\t4\n", {}, "ann lee x 3|bob ray y 4"),
    ("a::x::3\nb::y::4\n", {}, "a x 3|b y 4"),
    ('user\titem\trating\tnote\na\tx\t4\t"two\nlines"\nb\ty\t5\t\n', {}, "a x 4|b y 5"),
    ("Zo\u00eb,x,3\n".encode("utf-16"), {}, "Zo\u00eb x 3"),
    ("Zo\u00eb,x,3\n".encode("latin-1"), {}, "refused"),
    ("Zo\u00eb,x,3\n".encode("latin-1"), {"encoding": "latin-1"}, "Zo\u00eb x 3"),
    # Duplicates.
    ("a,x,3\na,x,5\n", {}, "refused"),
    ("a,x,3,20\na,x,5,10\n", {"duplicates": "last", "rating": "3"}, "a x 3"),
    ("a,x,3\na,x,5\n", {"duplicates": "mean"}, "a x 4"),
    # Other shapes.
    ("user,item\na,x\na,y\na,x\n", {"rating": "none"}, "a x 1|a y 1"),
    ("user,item\na,x\na,y\na,x\n", {}, "refused"),
    ('{"user": 7, "item": "x", "rating": 3}\n{"rating": 4, "user": "007", "item": "x"}\n', {},
     "007 x 4|7 x 3"),
    ('{"user": 7, "item": "x", "points": 4}\n', {}, "7 x 4"),
    ('{"user": 7, "item": "x", "points": 4}\n', {"rating": "none"}, "7 x 1"),
    ('[{"user": 7, "item": "x", "rating": 3}]', {}, "7 x 3"),
    (",x,y,z\na,3,,4\nb,,5,\n", {"layout": "wide"}, "a x 3|a z 4|b y 5"),
    (";\nuser;x\na;3\n", {"layout": "wide"}, "a x 3"),
    ("user,x,y,z\na,3,,4\nb,,5,\n", {}, "a x 3|a z 4|b y 5"),
    ("user,10,20,30\na,3,,4\nb,,5,\n", {"layout": "wide"}, "a 10 3|a 30 4|b 20 5"),
    ("a,x,3\n", {"low": None, "high": None}, "refused"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "options", "expected"), BY_HAND)
def test_by_hand(content: str | bytes, options: dict[str, Any], expected: str) -> None:
    if expected == "refused":
        with pytest.raises(DpmcError) as refused:
            read_upload(content, **options)
        assert "\n" not in str(refused.value)
        return
    cells = sorted(ratings_by_pair(read_upload(content, **options).ratings).items())
    assert "|".join(f"{user} {item} {value:g}" for (user, item), value in cells) == expected


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
