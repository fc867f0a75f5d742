"""Containers of ratings are read, whoever wrote them; others are refused with a way out."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import re
import sqlite3
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpmc_core.errors import BadRatings
from dpmc_data import load
from dpmc_lab.cli import main
from tests.reading_helpers import ratings_by_pair
from tests.waiting import PATIENCE_SECONDS

HEAD = ["user", "item", "rating"]
ROWS = [[f"p{k}", f"film {j}", 1 + (k * j + k + j * j) % 5] for k in range(12) for j in range(6)]
TRUTH = {(user, item): rating for user, item, rating in ROWS}
OPTIONS: dict[str, Any] = {"low": 1, "high": 5}
Cells = list[list[Any]]


def encode_csv(rows: Cells) -> bytes:
    return "".join(",".join(map(str, row)) + "\n" for row in [HEAD, *rows]).encode()


def encode_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def encode_zip(members: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return stream.getvalue()


class Formula(float):
    """The value of a cell that a formula computes."""


class Day(int):
    """A day, as the number that a spreadsheet stores."""


def encode_xlsx(**sheets: Cells) -> bytes:
    """Write a workbook of Excel with the fewest parts."""

    def encode_cell(value: Any) -> str:
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
        if isinstance(value, Formula):
            return f"<c><f>1+{value - 1:g}</f><v>{value:g}</v></c>"
        return f'<c s="{int(isinstance(value, Day))}"><v>{value}</v></c>'

    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    package = "http://schemas.openxmlformats.org/package/2006"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    names, relations, parts = "", "", {}
    for k, (name, rows) in enumerate(sheets.items(), 1):
        names += f'<sheet name="{name}" sheetId="{k}" r:id="r{k}"/>'
        target = f"worksheets/sheet{k}.xml"
        relations += f'<Relationship Id="r{k}" Type="{office}/worksheet" Target="{target}"/>'
        lines = "".join(f"<row>{''.join(map(encode_cell, row))}</row>" for row in rows)
        parts[f"xl/{target}"] = (
            f'<worksheet xmlns="{main}"><sheetData>{lines}</sheetData></worksheet>'
        )
    relations += f'<Relationship Id="r0" Type="{office}/styles" Target="styles.xml"/>'
    formats = '<xf numFmtId="0"/><xf numFmtId="14" applyNumberFormat="1"/>'  # 14 is a date
    styles = f'<styleSheet xmlns="{main}"><cellXfs>{formats}</cellXfs></styleSheet>'
    return encode_zip(
        {
            "[Content_Types].xml": f'<Types xmlns="{package}/content-types"/>',
            "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r"'
            f' Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
            "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{names}'
            "</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
            f"{relations}</Relationships>",
            "xl/styles.xml": styles,
            **parts,
        }
    )


def encode_ods(**sheets: Cells) -> bytes:
    """Write a spreadsheet of LibreOffice with the fewest parts."""

    def encode_cell(value: Any) -> str:
        kind = "string" if isinstance(value, str) else "float"
        number = "" if isinstance(value, str) else f' office:value="{value}"'
        return (
            f'<table:table-cell office:value-type="{kind}"{number}><text:p>{value}</text:p>'
            "</table:table-cell>"
        )

    prefix = "urn:oasis:names:tc:opendocument:xmlns:"
    spaces = "".join(f' xmlns:{name}="{prefix}{name}:1.0"' for name in ("office", "table", "text"))
    tables = ""
    for name, rows in sheets.items():
        lines = "".join(
            f"<table:table-row>{''.join(map(encode_cell, row))}</table:table-row>" for row in rows
        )
        tables += f'<table:table table:name="{name}">{lines}</table:table>'
    body = f"<office:body><office:spreadsheet>{tables}</office:spreadsheet></office:body>"
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    content = f"<office:document-content{spaces}>{body}</office:document-content>"
    manifest = f'<manifest:manifest xmlns:manifest="{prefix}manifest:1.0"/>'
    return encode_zip({"mimetype": kind, "content.xml": content, "META-INF/manifest.xml": manifest})


def encode_parquet(rows: Cells) -> bytes:
    stream = io.BytesIO()
    columns = zip(*rows, strict=True)
    pq.write_table(pa.table(dict(zip(HEAD, map(list, columns), strict=True))), stream)
    return stream.getvalue()


def encode_tar(rows: Cells) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in {
            "set/README": b"About\n",
            "set/ratings.csv": encode_csv(rows),
        }.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def compress_zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


def list_objects(rows: Cells) -> list[dict[str, Any]]:
    return [dict(zip(HEAD, row, strict=True)) for row in rows]


def nest_objects(rows: Cells) -> list[dict[str, Any]]:
    return [{"user": {"id": user}, "item": {"id": item}, "rating": r} for user, item, r in rows]


FILES: dict[str, Callable[[Cells], bytes]] = {
    "a.xlsx": lambda rows: encode_xlsx(Ratings=[HEAD, *rows]),
    "a.ods": lambda rows: encode_ods(Ratings=[HEAD, *rows]),
    "array.json": lambda rows: encode_json(list_objects(rows)),
    "envelope.json": lambda rows: encode_json({"count": 9, "ratings": list_objects(rows)}),
    "nested.json": lambda rows: encode_json(nest_objects(rows)),
    "lines.jsonl": lambda rows: b"\n".join(map(encode_json, list_objects(rows))),
    "a.parquet": encode_parquet,
    "a.tar.gz": encode_tar,
    "a.csv.gz": lambda rows: gzip.compress(encode_csv(rows)),
    "a.csv.zst": lambda rows: compress_zstd(encode_csv(rows)),
}


@pytest.mark.parametrize("name", FILES)
def test_a_container_holds_the_ratings_that_were_written(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name](ROWS))
    columns = ["user.id", "item.id", "rating"] if name == "nested.json" else HEAD
    data = load(path, **dict(zip(HEAD, columns, strict=True)), **OPTIONS)
    assert ratings_by_pair(data.ratings) == TRUTH


@pytest.mark.parametrize("key", ["", "user"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_folder_is_one_table(ending: str, key: str, tmp_path: Path) -> None:
    encode = {"csv": encode_csv, "parquet": encode_parquet}[ending]
    for k in range(12):
        rows = [row for row in ROWS if row[0] == f"p{k}"]
        folder = tmp_path / f"part=p{k}" if key else tmp_path
        folder.mkdir(exist_ok=True)
        (folder / f"{k}.{ending}").write_bytes(encode(rows))
    data = load(tmp_path, user="part" if key else "user", item="item", rating="rating", **OPTIONS)
    assert ratings_by_pair(data.ratings) == TRUTH


def test_a_sheet_has_formulas_dates_and_empty_neighbours(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    rows = [[*row[:2], Formula(row[2]), Day(45_000 + k)] for k, row in enumerate(ROWS)]
    sheet = [[*HEAD, "date"], *rows]
    path.write_bytes(encode_xlsx(Empty=[], Ratings=sheet, Notes=[["by Ann"]]))
    ratings = load(path, **OPTIONS).ratings
    assert ratings_by_pair(ratings) == TRUTH
    assert ratings.times is not None
    assert ratings.times.min() == 1_678_838_400  # 15 March 2023, which is day 45,000
    path.write_bytes(encode_xlsx(Ratings=sheet, Films=[["item", "year"], ["film 1", 1999]]))
    with pytest.raises(BadRatings, match=r"2 filled sheets \('Ratings', 'Films'\).* as CSV"):
        load(path, **OPTIONS)
    path.write_bytes(encode_xlsx(Empty=[]))
    with pytest.raises(BadRatings, match="no filled sheet"):
        load(path, **OPTIONS)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_read_into_memory(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(encode_csv(ROWS),))
    writer.start()
    command = [sys.executable, "-m", "dpmc_lab", "data", "describe", str(pipe), "--range", "1:5"]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    writer.join()
    assert result.returncode == 0, result.stderr
    assert "12 users" in result.stdout


def write_database(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("create table ratings (user, item, rating)")
    database.commit()
    database.close()


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        (None, "sqlite3 -header -csv FILE"),
        (b"\x89HDF\r\n\x1a\n", "pandas with read_hdf"),
        (b"$FL2@(#) IBM SPSS", "SPSS.*as CSV"),
        *((pickle.dumps(ROWS, protocol=k), "to_csv") for k in range(2, 6)),
    ],
)
def test_what_is_never_read_says_which_program_saves_it(
    content: bytes | None, advice: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.dat"
    write_database(path) if content is None else path.write_bytes(content)
    with pytest.raises(BadRatings, match=advice) as error:
        load(path, **OPTIONS)
    assert re.search(r"CSV|csv", str(error.value))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"\0" * 99,
        b"user,item,rating\n",
        b"ratings\n1\n2\n",
        "利用者,品目,評価\n太郎,本,3\n花子,本,4\n太郎,茶,5\n".encode("shift_jis"),
        b'user,item,rating\na,"b,3\nc,d,4\n',
        encode_csv(ROWS),
        encode_csv([[*row[:2], 9] for row in ROWS]),
        encode_xlsx(Empty=[]),
        gzip.compress(encode_csv(ROWS))[:-9],
        pickle.dumps(ROWS),
    ],
    ids=range(12),
)
@pytest.mark.parametrize("known", [[], ["--range", "1:5"]], ids=["", "range"])
def test_check_says_yes_where_describe_reads(
    known: list[str], content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    status = main(["data", "check", str(path), *known])
    checked = capsys.readouterr()
    assert main(["data", "describe", str(path), *known]) == status
    described = capsys.readouterr()
    assert (status == 0) == (bool(known) and content == encode_csv(ROWS))
    assert checked.out + checked.err, "it says nothing"
    if "If this is right" in checked.out:
        assert described.out == checked.out
