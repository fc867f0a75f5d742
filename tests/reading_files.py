"""Generated files of ratings in every shape people and programs write them, and what is compared.

`generate` draws from anything with the methods of `random.Random`: of a seed in the benchmark, of
Hypothesis in the tests, which shrinks a file that fails: what is simplest stands first in a list.
"""

from __future__ import annotations

import io
import json
import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from dpmc_core.errors import DpmcError
from dpmc_data import datasets
from tests.reading_oracle import Column, Refused, Table, read


@dataclass(frozen=True)
class File:
    """An upload and how it is read. columns: of a Parquet file; damaged: the oracle is silent."""

    content: bytes
    options: dict[str, Any]
    name: str = "x.csv"
    columns: tuple[Column, ...] | None = None
    damaged: bool = False
    kind: str = field(default="text", compare=False)


# What fields hold -------------------------------------------------------------------------------

SIMPLE_IDS = ("ann", "bob", "eve", "tea", "milk", "u1", "u2", "x")
NUMBERS = tuple(str(k) for k in (1, 2, 3, 10, 20, 100, 7, 30))
LOOKALIKE_IDS = (
    "7", "07", "007", "1", "01", "1.0", "1.00", "+1", "1e0", "1_0", "10", "-1", "0", "-0", "0x1",
    "True", "true", "TRUE", "False", "NA", "N/A", "nan", "NaN", "null", "None", "none", "?", "-",
    "\uff11", "\u0661", "\u00b2", "1,0", "1 000", "inf", "2024-01-02",
)  # fmt: skip
LONG_IDS = (
    "12345678901234567", "12345678901234568", "9007199254740992", "9007199254740993",
    "080442957X", "0804429573", "0007113803", "7113803", "999999999999999999",
    "1000000000000000000", "18446744073709551616", "170141183460469231731687303715884105728",
)  # fmt: skip
FOREIGN_IDS = (
    "Zo\u00eb", "Zoe\u0308", "th\u00e9", "\u00a0ann\u00a0", "ann\u2003", "\U0001f600", "\u00df",
    "SS", "\ufb01", "fi", "\uff41nn", "ann\u200b", "\ufeffann", "\u0130", "i\u0307", "\u738b",
    "\u0645\u0631\u062d\u0628\u0627", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
)  # fmt: skip
AWKWARD_IDS = (
    "a b", "a,b", "a;b", "a|b", "a::b", "a:b", "a\tb", " ann", "ann ", "  ", "", "o'neil", "'ann'",
    'say "hi"', '"', '"ann', 'ann"', '""', "https://x.org/a?b=c&d=e#f", "=1+1", "@sum", "+x", "-x",
    "[ann](//host)", "[deleted]", "{ann}", "<b>ann</b>", "a\\b", "a\\", "#1", "%1", "PK1", "PAR1",
    "a\x0cb", "a\x1cb", "a\x1db", "a\x1eb", "a\x85b", "a\u2028b", "a\x0bb", "\x1cann", "ann\x0c",
    "y" * 300, "user", "rating", "u", "i",
)  # fmt: skip
IDS = (SIMPLE_IDS, NUMBERS, LOOKALIKE_IDS, LONG_IDS, FOREIGN_IDS, AWKWARD_IDS)
GOOD_RATINGS = ("3", "4", "5", "1", "2", "4.5", "3.0", "1e0", "+2", " 4 ", ".5e1", "5.", "04")
COMMA_RATINGS = ("3", "4,5", "1,0", "2,25", "5", "+1,5")
BAD_RATINGS = (
    "", "good", "9", "-1", "nan", "NaN", "inf", "-Infinity", "1e400", "-0", "0", "1_0", "\u0663",
    "\uff13", "\u00b3", "True", "4,5", "4.5", "1,000", "1.000,5", "3 stars", "0x3", "3..5", "1e",
    "null", "None", "?", "--3", "3e0,5", "\u22123", "1" * 400, "5.0000000000000001", "5/5", "4;5",
)  # fmt: skip
FILLINGS: tuple[Callable[[Random], str], ...] = (
    lambda _: "",
    lambda r: r.choice(("red", "blue")),
    lambda r: str(r.randint(0, 9)),
    lambda r: r.choice(AWKWARD_IDS),
    lambda r: r.choice(("two\nlines", "two\r\nlines", "a\rb", 'a "q"\nb', "\n", "x,\ny", "\n\n\n")),
)
NOT_TIMES = ("", "soon", "nan", "inf", "1e300", "-1e300", "31/03/2024", "2024-13-45", "10000-01-01",
             "1e11", "1e18", "2024", "None", "\u0661\u0662", "1_000", "12:30")  # fmt: skip
HEADERS = {
    "user": ("user", "userId", "User ID", "user_id", "USERID", " uid ", "customer-id", "u",
             "Reviewer", "member id", "username"),
    "item": ("item", "itemId", "Movie ID", "movie_id", "ISBN", "product", "asin", "i", "place.id",
             "book"),
    "rating": ("rating", "Rating", "stars", "SCORE", "overall", "r", "value", "ratings"),
    "time": ("timestamp", "time", "Date", "unixReviewTime", "created_at", "t"),
    "other": ("colour", "note", "city", "", "title", "2", "2024", "\u540d", "none", "user2", "nan"),
}  # fmt: skip
UNINFORMATIVE_NAMES = ("who", "what", "much", "when", "a", "b", "c", "d", "e")
ABSURD: tuple[tuple[str, Any], ...] = (
    ("separator", 1), ("separator", ""), ("separator", '"'), ("separator", "\n"),
    ("separator", "\r"), ("separator", "abc"), ("separator", "\0"), ("separator", "a"),
    ("separator", "\U0001f600"), ("separator", "1"), ("separator", "\u2028"), ("separator", " "),
    ("separator", [","]), ("user", "\u00b2"), ("user", "2"), ("user", 0), ("user", -1),
    ("user", 99), ("user", 10**30), ("user", "9" * 5000), ("user", True), ("user", 1.5),
    ("user", ""), ("user", "none"), ("item", "none"), ("item", 1), ("rating", "none"),
    ("rating", "\u0661"), ("rating", 1), ("time", "none"), ("time", 1), ("time", "\u00bd"),
    ("encoding", "undefined"), ("encoding", "klingon"), ("encoding", ""), ("encoding", "base64"),
    ("encoding", "rot13"), ("encoding", 5), ("encoding", "utf\0-8"), ("encoding", "a" * 5000),
    ("encoding", "../utf-8"), ("encoding", "\u00b2"), ("encoding", "ascii"), ("encoding", "utf-16"),
    ("encoding", "cp037"), ("encoding", "utf-8-sig"), ("encoding", "mbcs"), ("low", 9),
    ("low", math.nan), ("low", -math.inf), ("low", None), ("low", "1"), ("low", -1e308),
    ("low", 10**400), ("high", 1), ("high", 1e308), ("high", True), ("duplicates", "first"),
    ("duplicates", None), ("duplicates", []), ("bad_rows", 3), ("header", "maybe"),
    ("header", True), ("header", "no"), ("header", "yes"), ("layout", "tall"), ("layout", "wide"),
    ("layout", "rows"), ("max_bytes", 0), ("max_bytes", 10), ("max_bytes", "1"), ("max_rows", 1),
    ("max_rows", 0), ("max_rows", 1.5), ("max_rows", math.nan),
)  # fmt: skip


# The generator ----------------------------------------------------------------------------------


def generate(r: Random) -> File:
    """One file: most are readable, some hold a few faults, a few are wild."""
    make = _choose_weighted(
        r,
        (
            (40, _generate_delimited),
            (8, _generate_clicks),
            (8, _generate_wide),
            (12, _generate_json_lines),
            (14, _generate_parquet),
            (6, _generate_no_ratings),
            (6, _generate_crooked),
            (2, _generate_long),
        ),
    )
    file = make(r)
    options = dict(file.options)
    if not _happens(r, 0.1):
        options |= {"low": 1, "high": 5}
    _set_sometimes(r, 0.1, options, low=r.choice((0, -10, 1.5)), high=r.choice((10, 4.5, 1e6)))
    _set_sometimes(r, 0.3, options, duplicates=r.choice(("last", "mean", "error")))
    if _happens(r, 0.08):
        name, value = r.choice(ABSURD)
        options[name] = value
    return File(**{**vars(file), "options": options})


def _choose_weighted(r: Random, weighted: Sequence[tuple[int, Any]]) -> Any:
    position = r.randrange(sum(weight for weight, _ in weighted))
    for weight, choice in weighted:
        if position < weight:
            return choice
        position -= weight
    raise AssertionError


def _set_sometimes(r: Random, chance: float, options: dict[str, Any], **values: Any) -> None:
    if _happens(r, chance):
        options |= values


def _happens(r: Random, chance: float) -> bool:
    return r.random() > 1 - chance  # small draws, which Hypothesis prefers, mean no


def _generate_ids(r: Random, amount: int) -> list[str]:
    pool = _choose_weighted(r, tuple(zip((6, 6, 5, 3, 4, 4), IDS, strict=True)))
    mixed = _happens(r, 0.15)
    return [r.choice(r.choice(IDS) if mixed else pool) for _ in range(amount)]


def _generate_times(r: Random, amount: int) -> list[str]:
    unit = r.choice((1, 1000, 10**6, 10**9, 0, 0, -1))
    seconds = [r.choice((978300760, 0, 1711908000, 86399, 4102444800)) for _ in range(amount)]
    if unit > 0:
        return [str(max(s, 978300760 * (unit > 1)) * unit + r.choice((0, 0, 7))) for s in seconds]
    moments = [datetime.fromtimestamp(s, UTC).replace(tzinfo=None) for s in seconds]
    write = r.choice((
        lambda m: m.isoformat(), lambda m: str(m.date()), lambda m: f"{m}+02:00",
        lambda m: m.isoformat() + "Z", lambda m: m.isoformat() + ".250", str,
    ))  # fmt: skip
    return [write(m) if unit == 0 else r.choice((str(s), write(m)))
            for m, s in zip(moments, seconds, strict=True)]  # fmt: skip


def _generate_rows(r: Random, faults: float) -> list[dict[str, str]]:
    """Rows by role; each value a bad one with the chance `faults`."""
    amount = r.choice((3, 1, 2, 5, 8, 12))
    ratings = r.choice((GOOD_RATINGS[:5], GOOD_RATINGS, COMMA_RATINGS))
    columns = {
        "user": _generate_ids(r, amount),
        "item": _generate_ids(r, amount),
        "rating": [r.choice(ratings) for _ in range(amount)],
        "time": _generate_times(r, amount),
    }
    bad = {"user": ("", " ", "\u00a0"), "item": ("", "\t"), "rating": BAD_RATINGS,
           "time": NOT_TIMES}  # fmt: skip
    for role, values in columns.items():
        for k in range(amount):
            if _happens(r, faults):
                values[k] = r.choice(bad[role])
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if not _happens(r, 0.2):  # most files have each pair once
        rows = list({(row["user"].strip(), row["item"].strip()): row for row in rows}.values())
    return rows


def _choose_fault_rate(r: Random) -> float:
    return float(r.choice((0, 0, 0.05, 0.2)))


def _generate_header(r: Random, roles: Sequence[str], options: dict[str, Any]) -> list[str] | None:
    """Names of the columns, or None for none; says in the options what cannot be guessed."""
    style = r.choice(("known", "known", "none", "none", "asked", "numbered", "odd", "nothing"))
    known_names = [r.choice(HEADERS[role]) for role in roles]
    if style == "known":
        return known_names
    nothing = [UNINFORMATIVE_NAMES[k] for k in range(len(roles))]
    positions = {role: k for k, role in enumerate(roles) if role != "other"}
    if style == "asked":
        names = [r.choice(pair) for pair in zip(nothing, known_names, strict=True)]
        options |= {role: names[k].strip() for role, k in positions.items() if _happens(r, 0.9)}
        return names
    if style in ("none", "numbered"):
        if style == "numbered":
            options |= {role: r.choice((k + 1, str(k + 1))) for role, k in positions.items()}
        _set_sometimes(r, 0.4, options, header="no")
        return None
    if style == "odd":
        names = [r.choice((name, *HEADERS["other"], "user", "rating")) for name in known_names]
        return names + [""] * r.choice((0, 0, 2))
    _set_sometimes(r, 0.7, options, header="yes")
    return nothing


def _order_roles(r: Random, faults: float) -> list[str]:
    """The roles of the columns from left to right."""
    roles = ["user", "item", "rating"]
    if _happens(r, 0.6):
        roles.append("time")
    if _happens(r, 0.4):
        roles += ["other"] * r.choice((1, 2, 3))
    if _happens(r, 0.4):
        r.shuffle(roles)
    if _happens(r, faults / 2):
        roles.remove(r.choice(roles))  # user,time,rating and the like
    return roles


def _generate_table(r: Random, faults: float, options: dict[str, Any]) -> list[list[str]]:
    roles = _order_roles(r, faults)
    rows = _generate_rows(r, faults)
    fill = r.choice(FILLINGS)
    names = _generate_header(r, roles, options)
    table = [[fill(r) if role == "other" else row[role] for role in roles] for row in rows]
    if "time" in roles:
        _set_sometimes(r, 0.1, options, time="none")
    return table if names is None else [names, *table]


def _generate_delimited(r: Random) -> File:
    options: dict[str, Any] = {}
    faults = _choose_fault_rate(r)
    return _write_text(r, _generate_table(r, faults, options), faults, options)


def _generate_clicks(r: Random) -> File:
    options: dict[str, Any] = {}
    rows = [[row["user"], row["item"]] for row in _generate_rows(r, _choose_fault_rate(r))]
    if _happens(r, 0.5):
        rows.insert(0, [r.choice(HEADERS["user"]), r.choice(HEADERS["item"])])
    else:
        _set_sometimes(r, 0.6, options, header="no")
    if _happens(r, 0.3):
        rows = [[*row, r.choice(("5", "3", "x"))] for row in rows]
        options["rating"] = "none"
    _set_sometimes(r, 0.6, options, rating="none")
    if _happens(r, 0.5):
        options |= {"low": 0, "high": 1}
    file = _write_text(r, rows, _choose_fault_rate(r), options)
    return File(**{**vars(file), "kind": "clicks"})


def _generate_wide(r: Random) -> File:
    options: dict[str, Any] = {}
    items = list(dict.fromkeys(_generate_ids(r, r.choice((4, 3, 6)))))
    users = _generate_ids(r, r.choice((3, 1, 5)))
    if not _happens(r, 0.2):
        users = list(dict.fromkeys(users))
    ratings = r.choice((GOOD_RATINGS[:5], GOOD_RATINGS, COMMA_RATINGS))
    faults = _choose_fault_rate(r)
    table = [[r.choice(("", "user", "userId", "who", "name")), *items]]
    for user in users:
        cells = [r.choice(("", r.choice(ratings))) for _ in items]
        table.append([user, *(r.choice(BAD_RATINGS) if _happens(r, faults) else x for x in cells)])
    _set_sometimes(r, 0.4, options, layout="wide")
    file = _write_text(r, table, faults / 2, options)
    return File(**{**vars(file), "kind": "wide"})


# Writing text -----------------------------------------------------------------------------------


def _write_text(r: Random, table: list[list[str]], faults: float, options: dict[str, Any]) -> File:
    separator = r.choice((",", "\t", ";", "::", "|", " "))
    separator_names = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar", " ": "blanks"}
    _set_sometimes(
        r, 0.2, options, separator=r.choice((separator, separator_names.get(separator, separator)))
    )
    quoting = r.choice(("needed", "needed", "all", "none", "some"))
    end = r.choice(("\n", "\r\n", "\n", "\r", "mixed"))
    lines = []
    for record in table:
        record = _make_ragged(r, record) if _happens(r, faults) else record
        line_separator = r.choice((",", ";", "\t")) if _happens(r, faults / 8) else separator
        line = line_separator.join(_quote(r, text, line_separator, quoting) for text in record)
        lines.append(_insert_stray(r, line) if _happens(r, faults / 4) else line)
        if _happens(r, 0.08):
            lines.append(r.choice(("", "", " ", separator * 2, separator * 9, "\u00a0", '""')))
    if _happens(r, 0.1):
        lines.insert(0, r.choice(("", "  ", separator)))
    ends = [r.choice(("\n", "\r\n", "\r")) if end == "mixed" else end for _ in lines]
    if _happens(r, 0.3):
        ends[-1] = ""
    return _encode_text(r, "".join(map("".join, zip(lines, ends, strict=True))), options)


def _quote(r: Random, text: str, separator: str, quoting: str) -> str:
    needed = any(mark in text for mark in (separator, '"', "\n", "\r")) or text != text.strip(" ")
    if (
        quoting == "all"
        or (quoting == "needed" and needed)
        or (quoting == "some" and _happens(r, 0.5))
    ):
        return '"' + text.replace('"', '""') + '"'
    return text


def _make_ragged(r: Random, record: list[str]) -> list[str]:
    change = r.choice(("empty end", "longer", "shorter", "shifted", "one"))
    if change == "empty end":
        return [*record, "", " "]
    if change == "longer":
        return [*record, "x"]
    if change == "shorter":
        return record[:-1] or record
    return ["", *record] if change == "shifted" else record[:1]


def _insert_stray(r: Random, line: str) -> str:
    position = r.randrange(len(line) + 1)
    marks = ('"', '""', ' "', '",', ',"', "\\", "\x0c", "\u2028", "\x1e", " ", "\ufeff")
    return line[:position] + r.choice(marks) + line[position:]


def _encode_text(r: Random, text: str, options: dict[str, Any]) -> File:
    style = r.choice(("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252", "be"))
    if style == "utf-8":
        _set_sometimes(r, 0.05, options, encoding=r.choice(("utf-8", "UTF8", "utf_8_sig", "ascii")))
    elif style in ("latin-1", "cp1252"):
        try:
            content = text.encode(style)
        except UnicodeEncodeError:
            style = "utf-8"
        else:
            _set_sometimes(r, 0.7, options, encoding=style)
            return File(content, options)
    elif style == "be":
        return File("\ufeff".encode("utf-16-be") + text.encode("utf-16-be"), options)
    if style != "utf-8":
        _set_sometimes(r, 0.2, options, encoding=style)
    return File(text.encode(style), options)


def _generate_crooked(r: Random) -> File:
    """A readable file with a few characters changed, or characters at random."""
    marks = (",", '"', "\n", ";", "\r", "a", "1", " ", "\t", "|", ":", "\x0c", "\x1c", "\x85",
             "\u2028", ".", "-", "{", "[", "\ufeff", "<", "%", "@", "\u0663", "\0")  # fmt: skip
    if _happens(r, 0.3):
        text = "".join(r.choice(marks) for _ in range(r.choice((5, 20, 60))))
        return File(text.encode(), {}, kind="random")
    file = r.choice((_generate_delimited, _generate_json_lines, _generate_wide))(r)
    content = bytearray(file.content)
    for _ in range(r.choice((1, 2, 5))):
        position = r.randrange(len(content) + 1)
        replacement = r.choice(marks).encode() if _happens(r, 0.8) else bytes([r.randrange(256)])
        content[position : position + r.choice((0, 1, 1, 4))] = replacement
    return File(bytes(content), file.options, kind="crooked")


def _generate_long(r: Random) -> File:
    """More rows than a look at the beginning shows; a fault far down; fields at their limit."""
    kind = r.choice(("plain", "late fault", "late quote", "long field", "one id", "latin", "wide"))
    amount = r.choice((300, 3000))
    lines = [f"u{k},i{k % 7},{1 + k % 5}" for k in range(amount)]
    header = "user,item,rating"
    if kind == "late fault":
        lines[-2] = r.choice(("ann,tea,4,5", "ann,tea", "ann,tea,\u0663", "ann,,3", ",tea,3",
                              "007,7,nan", "7,007,4.5"))  # fmt: skip
    elif kind == "late quote":
        lines[amount // 2] = r.choice(('"ann,tea,4', 'ann,"tea,4', 'ann,tea,"4'))
    elif kind == "long field":
        size = r.choice((131_071, 131_072, 131_073, 400_000))
        lines[5] = r.choice(
            (f"{'y' * size},tea,3", f'ann,"{"y" * size}",3', f"ann,tea,{'1' * size}")
        )
    elif kind == "one id":
        lines = [f"{'0' * k}7,x,3" for k in range(300)]
    elif kind == "wide":
        header = "," + ",".join(f"i{k}" for k in range(300))
        lines = [f"u{k}," + ",".join("3" if (j + k) % 9 == 0 else "" for j in range(300))
                 for k in range(40)]  # fmt: skip
    text = "\n".join([header, *lines])
    content = (text + "\nZo\u00eb,tea,3").encode("latin-1") if kind == "latin" else text.encode()
    options = {} if kind == "wide" or _happens(r, 0.1) else {"user": "user"}
    return File(content, options, kind="long")


# Other formats ----------------------------------------------------------------------------------


def _generate_json_lines(r: Random) -> File:
    options: dict[str, Any] = {}
    faults = _choose_fault_rate(r)
    roles = _order_roles(r, faults)
    names = _generate_header(r, roles, options) or list(UNINFORMATIVE_NAMES[: len(roles)])
    options.pop("header", None)
    names = [name.strip() or "x" for name in names]
    fill = r.choice(FILLINGS)
    lines = []
    for row in _generate_rows(r, faults):
        values = [
            _format_json_value(r, fill(r) if role == "other" else row[role]) for role in roles
        ]
        if _happens(r, faults):
            values[r.randrange(len(values))] = r.choice(
                (
                    "null",
                    "[1]",
                    '{"a": 1}',
                    "true",
                    '""',
                    "NaN",
                    "1e400",
                    "-0.0",
                    '"\\ud800"',
                    "1.0",
                )
            )
        pairs = list(zip(names, values, strict=False))
        if _happens(r, faults):
            pairs.pop(r.randrange(len(pairs)))
        if _happens(r, faults / 2):
            pairs.append((names[0], '"again"'))
        line = "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in pairs) + "}"
        if _happens(r, faults / 2):
            line = r.choice((line[:-1], "garbage", "[1, 2, 3]", "3", "null", line + line, '"x"',
                             "[" * 50_000, line + ",", "{'user': 1}"))  # fmt: skip
        lines.append(line)
        if _happens(r, 0.05):
            lines.append(r.choice(("", "  ")))
    if _happens(r, 0.05):
        return File(("[" + ",\n".join(lines) + "]").encode(), options, kind="JSON array")
    end = r.choice(("\n", "\r\n", "\r"))
    text = end.join(lines) + r.choice((end, ""))
    file = _encode_text(r, text, options)
    return File(**{**vars(file), "name": "x.jsonl", "kind": "JSON lines"})


def _format_json_value(r: Random, text: str) -> str:
    try:
        number = json.loads(text)
    except ValueError:
        number = None
    plain = isinstance(number, int | float) and not isinstance(number, bool)
    return (
        text.strip()
        if plain and _happens(r, 0.7)
        else json.dumps(text, ensure_ascii=_happens(r, 0.5))
    )


def _generate_no_ratings(r: Random) -> File:
    """Files of other kinds, and text that holds no ratings."""
    contents: tuple[bytes, ...] = (
        b"", b"\n", b" \n\n\t\n", b",,,\n,,,\n", b"\xef\xbb\xbf", b"\xff\xfe", b"\x00\x01\x02\x03",
        b"user,item,rating\n", b"one\ntwo\nthree\n", b'{"ratings": [1, 2]}', b"{}\n{}\n", b"{\n",
        b'[{"user": 1, "item": 2, "rating": 3}]', b'{\n"user": ["a"],\n"item": ["b"]\n}\n', b"[\n",
        b"[[1, 2, 3], [4, 5, 6]]", b"[1, 2, 3]\n[4, 5, 6]\n", b'{"user": 1}\n',
        b"@relation ratings\n@attribute user string\n@data\nann,tea,3\n",
        b"% a comment\n@RELATION x\n@data\n1,2,3\n", b"<!doctype html><table><tr><td>1,2,3",
        b"<?xml version='1.0'?>\n<ratings/>\n", b"PK\x03\x04,,\n1,2,3\n", b"\x1f\x8b\x08\x00abc",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"SQLite format 3\x00", b"\x80\x04\x95abc.",
        b"\x93NUMPY\x01\x00v\x00{'descr'", b"1,2,3\n4,5\x00,6\n", b"\x89PNG\r\n\x1a\n", b"PAR1",
        b"PAR1,tea,3\nbob,tea,4\n", b"PK,tea,3\nbob,tea,4\n", b"%PDF-1.4\n1,2,3", b"BZh91AY&SY",
        b"\xfd7zXZ\x00", b"\xff\xfe1\x00,\x00", b"\xff\xfe\x00\x00u\x00\x00\x00", b'"', b'"""',
        b'"user","item","rating', b"\xc3\x28,a,3\n", b"1;2\n3,4\n", b"\r\r\r1,2,3\r",
        b"[deleted],tea,3\nbob,tea,4\n", b"{ann},tea,3\n", b"<b>,tea,3\n", b"%,tea,3\n@b,tea,4\n",
        b"nan,nan,nan\nnan,nan,nan\n", b"ann,tea,\nbob,tea,4\n", b"user,item,rating\n1\n2\n3\n",
        b"user,time,rating\nann,5,3\n", b"user,rating,timestamp\nann,3,5\n", b"item,rating\na,3\n",
        b"user,user,item,rating\na,b,c,3\n", b"user,item,rating,rating\na,b,3,4\n", b"user,item\n",
        b"1,2\n", b"userId,movieId,rating,timestamp\n1,10,4.5,978300760\n",
        b"userID,placeID,rating\n1,2,2\n",
        b'user,item,rating,note\nann,tea,3,"\n' + b"bob,tea,3,x\n" * 40,
    )  # fmt: skip
    options: dict[str, Any] = {}
    _set_sometimes(r, 0.3, options, header=r.choice(("yes", "no")))
    return File(r.choice(contents), options, kind="no ratings")


def _generate_parquet(r: Random) -> File:
    import pyarrow as pa
    import pyarrow.parquet as pq

    options: dict[str, Any] = {}
    faults = _choose_fault_rate(r)
    roles = _order_roles(r, faults)
    names = _generate_header(r, roles, options) or [r.choice(HEADERS[role]) for role in roles]
    options.pop("header", None)
    rows = _generate_rows(r, faults)
    columns, arrays = [], []
    for role, name in zip(roles, names, strict=False):
        column, array = _generate_parquet_column(
            r, role, name, [row.get(role, "x") for row in rows], faults
        )
        columns.append(column)
        arrays.append(array)
    if _happens(r, 0.15):  # what pandas writes for an index that is not 0, 1, ...
        index = list(range(5, 5 + len(rows)))
        columns.append(Column("__index_level_0__", "int", index))
        arrays.append(pa.array(index))
    table = pa.Table.from_arrays(arrays, names=[column.name for column in columns])
    buffer = io.BytesIO()
    write_options = {
        "compression": r.choice(("snappy", "none", "zstd", "gzip")),
        "row_group_size": r.choice((1000, 2)),
        "use_dictionary": r.choice((True, False)),
    }
    pq.write_table(table, buffer, **write_options)
    content = bytearray(buffer.getvalue())
    damage = r.choice(("none",) * 8 + ("cut", "flip"))
    if damage == "cut":
        del content[r.randrange(len(content)) :]
    elif damage == "flip":
        for _ in range(r.choice((1, 3, 20))):
            content[r.randrange(len(content))] ^= 1 << r.randrange(8)
    return File(bytes(content), options, "x.parquet", tuple(columns), damage != "none", "Parquet")


def _generate_parquet_column(
    r: Random, role: str, name: str, texts: Sequence[str], faults: float
) -> tuple[Column, Any]:
    import pyarrow as pa

    usual_kinds = {
        "user": ("text", "int", "dictionary", "large", "float32"),
        "item": ("int", "text", "float64", "dictionary", "float16"),
        "rating": ("float64", "int", "text", "decimal", "float32", "float16"),
        "time": ("int", "stamp", "text", "float64", "date"),
        "other": ("text", "list", "bool", "binary"),
    }[role]
    odd_kinds = ("bool", "list", "binary", "decimal", "stamp", "date", "float32", "float16", "int")
    kind = r.choice(odd_kinds) if _happens(r, faults / 2) else r.choice(usual_kinds)
    low = 0 if role in ("user", "item") else 1
    start = datetime(2001, 1, 1)
    make: dict[str, Callable[[int], Any]] = {
        "text": lambda k: texts[k],
        "large": lambda k: texts[k],
        "dictionary": lambda k: texts[k],
        "int": lambda _: r.choice((low, 1, 2, 3, 5)) if role != "time" else 978300760,
        "float64": lambda _: r.choice((1.0, 2.0, 3.0, 4.5 if low else 4.0)),
        "float32": lambda _: r.choice((1.0, 2.5 if low else 2.0)),
        "float16": lambda _: r.choice((1.0, 2.5 if low else 2.0)),
        "decimal": lambda _: Decimal(r.choice(("1.00", "2.50", "4.00"))),
        "bool": lambda _: r.choice((True, False)),
        "stamp": lambda _: start + timedelta(seconds=r.choice((0, 1, 86400))),
        "date": lambda _: date(2001, 1, r.choice((1, 2, 3))),
        "list": lambda _: [1, 2],
        "binary": lambda _: b"1",
    }
    values = [make[kind](k) for k in range(len(texts))]
    rare: dict[str, tuple[Any, ...]] = {
        "int": (None, 2**53 + 1, -(2**63), 9), "text": (None,),
        "float64": (math.nan, None, math.inf, 1.5, 2.0**60, -0.0, 1e300, 2.0**24, 2.0**53 - 1,
                    2.0**53, -(2.0**53)),
        "float32": (math.nan, 1e30, 2048.0, 2.0**24 - 1, 2.0**24, 2.0**24 + 2, -(2.0**24)),
        "float16": (math.nan, None, 2047.0, 2048.0, 2050.0, -2048.0, 6e4),
    }  # fmt: skip
    for k in range(len(values)):
        if _happens(r, faults):
            values[k] = r.choice(rare.get(kind, (None,)))
    types = {
        "text": pa.string(), "large": pa.large_string(),
        "dictionary": pa.dictionary(pa.int32(), pa.string()), "int": pa.int64(),
        "float64": pa.float64(), "float32": pa.float32(), "float16": pa.float16(),
        "decimal": pa.decimal128(9, 2),
        "bool": pa.bool_(), "stamp": pa.timestamp(r.choice(("us", "ms", "ns"))),
        "date": pa.date32(), "list": pa.list_(pa.int64()), "binary": pa.binary(),
    }  # fmt: skip
    plain = {"large": "text", "dictionary": "text"}.get(kind, kind)
    array = pa.array(values, type=types[kind], from_pandas=False)
    if kind in ("float32", "float16"):
        values = array.to_pylist()
    return Column(name, plain, tuple(values)), array


# The comparison ---------------------------------------------------------------------------------

# Places where the rules leave room: the reader may then refuse what the oracle reads.
MAY_REFUSE = frozenset({
    "a column called none",
    "looks like JSON",
    "looks like ARFF",
    "looks like HTML",
    "rows or a matrix",
    "a column that counts up",
    "users or items",
    "names beside numbers",
    "Parquet ids of another type",
    "Parquet times of another type",
    "a matrix whose first line may be ratings",
    "a matrix of few ratings",
})  # fmt: skip
# And here it may read otherwise: only that nothing but a refusal in sentences comes is looked at.
MAY_DIFFER = frozenset({
    "first line with an open quote",
    "separators at odds",
    "names beside gaps",
    "Parquet without a name",
    "a number that is a name",
    "rows with names of their own",
    "a matrix by its columns",
    "columns of a wide matrix",
    "a user twice in a wide matrix",
    "more lines than rows allowed",
    "a left-out row without a time",
    "UTF-16 without a mark",
    "a third column of times",
})  # fmt: skip


def read_with_oracle(file: File, bad_rows: str) -> Table | Refused:
    """What the oracle makes of the file."""
    return read(file.content, {"bad_rows": bad_rows, **file.options}, file.columns)


def find_killing_signal(file: File, bad_rows: str) -> str:
    """By which signal a process dies that reads the file; nothing if it lives."""
    if not (file.damaged and hasattr(os, "fork")):
        return ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fork beside threads: the child only reads and ends
        child = os.fork()
    if not child:
        try:
            os.close(2)  # what C++ says at its end
            read_with_program(file, bad_rows)
        finally:
            os._exit(0)
    signal = os.WTERMSIG(os.waitpid(child, 0)[1])
    return f"reading the damaged file ends the process (signal {signal})" if signal else ""


def read_with_program(file: File, bad_rows: str) -> datasets.LoadedDataset | DpmcError:
    """What the reader makes of the file. Raises what it must not raise."""
    options = {"bad_rows": bad_rows, **file.options}
    try:
        return datasets.load_upload(file.content, file.name, **options)
    except DpmcError as error:
        return error


def find_disagreement(file: File, bad_rows: str, data: datasets.LoadedDataset | DpmcError) -> str:
    """What is wrong with `data`, as taken from the file; nothing where it is as the oracle's."""
    oracle_result = read_with_oracle(file, bad_rows)
    if isinstance(data, DpmcError):
        allowed = file.damaged or isinstance(oracle_result, Refused)
        if allowed or oracle_result.doubts & (MAY_REFUSE | MAY_DIFFER):
            return _find_refusal_fault(str(data)) or _find_unreported(str(data), oracle_result)
        return f"refused: {data}\nthe oracle reads {oracle_result}"
    if any("\n" in line or not line for line in data.report):
        return f"a report that is no sentences: {data.report}"
    if file.damaged or oracle_result.doubts & MAY_DIFFER:
        return _find_count_fault(data, None if file.damaged else oracle_result)
    if isinstance(oracle_result, Refused):
        return (
            "read, though the oracle refuses:"
            f" {sorted(oracle_result.reasons)}\n{_ratings_by_pair(data.ratings)}"
        )
    return _find_count_fault(data, oracle_result) or _find_difference(data, oracle_result)


def _find_unreported(text: str, oracle_result: Table | Refused) -> str:
    """Bad rows that a refusal keeps silent about: all kinds are told at once, with their counts."""
    if (
        not isinstance(oracle_result, Refused)
        or oracle_result.doubts
        or "row" not in text
        or "say which" in text
    ):
        return ""  # refused for something said before any row was looked at
    missing = [
        reason for reason, count in oracle_result.bad.items() if f"{count:,} row" not in text
    ]
    return f"nothing is said of {missing} in: {text}\n{dict(oracle_result.bad)}" if missing else ""


def _find_refusal_fault(text: str) -> str:
    fine = text.strip() and "\n" not in text and "\r" not in text and "Traceback" not in text
    return "" if fine and len(text) < 5000 else f"a refusal that is no sentence: {text!r}"


def _ratings_by_pair(ratings: Any) -> dict[tuple[str, str], float]:
    rows = zip(ratings.users.tolist(), ratings.items.tolist(), ratings.values.tolist(), strict=True)
    return {(ratings.user_ids[u], ratings.item_ids[i]): value for u, i, value in rows}


def _find_difference(data: datasets.LoadedDataset, oracle_result: Table) -> str:
    ratings = data.ratings
    values = _ratings_by_pair(ratings)
    times = None
    if ratings.times is not None:
        times = dict(zip(values, ratings.times.tolist(), strict=True))
    pairs = [
        ("users", tuple(ratings.user_ids or ()), oracle_result.users),
        ("items", tuple(ratings.item_ids or ()), oracle_result.items),
        ("cells", sorted(values), sorted(oracle_result.values)),
        (
            "range",
            (ratings.public.low, ratings.public.high),
            (oracle_result.low, oracle_result.high),
        ),
        ("times", times, oracle_result.times),
    ]
    for label, actual, expected in pairs:
        if actual != expected:
            return f"other {label}: {actual!r}\nthe oracle has {expected!r}"
    wrong = {
        cell: (values[cell], value)
        for cell, value in oracle_result.values.items()
        if not math.isclose(values[cell], value, rel_tol=1e-12, abs_tol=1e-300)
    }
    return f"other values (got, right): {wrong}" if wrong else ""


def _find_count_fault(data: datasets.LoadedDataset, oracle_result: Table | Refused | None) -> str:
    actual = data.count
    if actual is None:
        return "no count of lines"
    if actual.lines != actual.header + actual.blank + actual.continued + actual.rows:
        return f"lines that do not add up: {actual}"
    if actual.entries != actual.used + sum(actual.left_out.values()) + actual.repeated:
        return f"entries that do not add up: {actual}"
    if actual.used != len(data.ratings):
        return f"{len(data.ratings)} ratings, but {actual}"
    if not isinstance(oracle_result, Table) or oracle_result.doubts & MAY_DIFFER:
        return ""
    names = ("lines", "header", "blank", "continued", "rows", "entries", "used", "repeated")
    is_same = all(getattr(actual, name) == getattr(oracle_result.count, name) for name in names)
    if not is_same or sorted(actual.left_out.values()) != sorted(
        oracle_result.count.left_out.values()
    ):
        return f"other counts: {actual}\nthe oracle has {oracle_result.count}"
    return ""
