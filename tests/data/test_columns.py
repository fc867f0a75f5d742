"""The column that names the person: taken, confirmed or asked for, and a guess is no promise."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from dpmc_core.errors import BadRatings
from dpmc_data import datasets
from dpmc_lab.cli import main
from tests.reading_helpers import read_upload

# 40 people, 20 items, 400 ratings.
CELLS = [(u, i) for u in range(40) for i in range(20) if (u + i) % 2]
ROWS = [(f"p{u}", f"film {i}", 1 + (u * i) % 5) for u, i in CELLS]


def build_csv(head: str, *columns: list[object], separator: str = ",") -> str:
    lines = [separator.join(map(str, row)) for row in zip(*columns, strict=True)]
    return "\n".join([*[head] * bool(head), *lines]) + "\n"


USERS, ITEMS, VALUES = (list(column) for column in zip(*ROWS, strict=True))
NUMBERS = list(range(1, len(ROWS) + 1))


@pytest.mark.parametrize("name", ["id", "no", "#", "index", "rank", "No.", ""])
@pytest.mark.parametrize("user", ["rater_id", "reader", "User ID", "customer", "voter", "Benutzer"])
def test_a_row_number_is_never_a_user(name: str, user: str) -> None:
    data = read_upload(build_csv(f"{name},{user},title,score", NUMBERS, USERS, ITEMS, VALUES))
    assert data.ratings.shape == (40, 20)
    assert dict(data.ratings.columns.names)["user"] == user
    assert "user" not in data.ratings.columns.guessed


@pytest.mark.parametrize(
    "head", ["id,name,film,stars", "when,who,film,stars", "Date,Name,Year,Rating", "movie,a,b,c"]
)
def test_a_header_that_does_not_name_the_user_is_asked(head: str) -> None:
    content = build_csv(head, NUMBERS, USERS, ITEMS, VALUES)
    with pytest.raises(BadRatings, match=r"x\.csv.*candidates are.*--user COLUMN"):
        read_upload(content)
    ratings = read_upload(content, user=2, item=3, rating=4).ratings
    assert ratings.shape == (40, 20)
    assert "user" not in ratings.columns.guessed


def test_without_a_header_the_usual_order_is_a_guess() -> None:
    ratings = read_upload(build_csv("", USERS, ITEMS, VALUES)).ratings
    assert ratings.columns.names[0] == ("user", "column 1")
    assert ratings.columns.guessed == ("user", "item", "rating")
    confirmed = read_upload(build_csv("", USERS, ITEMS, VALUES), user=1).ratings
    assert confirmed.columns.guessed == ("item", "rating")


@pytest.mark.parametrize(
    "columns", [(NUMBERS, USERS, VALUES), (USERS, ITEMS, VALUES, NUMBERS, NUMBERS)]
)
def test_without_a_header_other_columns_are_asked(columns: tuple[list[object], ...]) -> None:
    with pytest.raises(BadRatings, match=r"no column holds the user.*--user COLUMN"):
        read_upload(build_csv("", *columns))


def test_counts_that_speak_against_the_column_are_asked_about() -> None:
    csv_text = build_csv("user,item,rating", NUMBERS, ITEMS, VALUES)
    with pytest.raises(BadRatings, match=r"'user' have one rating.*--user COLUMN"):
        read_upload(csv_text)
    assert read_upload(csv_text, user="user").ratings.public.users == len(ROWS)
    swapped = build_csv("", ITEMS, USERS, VALUES)
    with pytest.raises(BadRatings, match=r"no column holds the user.*--user 2 .*or --user 1 "):
        read_upload(swapped)
    assert read_upload(swapped, user=2).ratings.shape == (40, 20)
    few = build_csv("", *zip(*[row for row in ROWS if row[0] < "p27"], strict=True))
    with pytest.raises(BadRatings, match=r"--user 1 .*or --user 2 "):
        read_upload(few)  # either may be the person
    assert read_upload(few, user=1).ratings.shape == (20, 20)
    assert read_upload(build_csv("item,user,rating", ITEMS, USERS, VALUES)).ratings.shape == (
        40,
        20,
    )


def test_of_test_ratings_everybody_may_have_one(tmp_path: Path) -> None:
    n = 120
    people = [f"p{k}" for k in range(n)]
    train = build_csv("user,item,rating", people * 2, ["a"] * n + ["b"] * n, [3, 4] * n)
    (tmp_path / "train.csv").write_text(train)
    (tmp_path / "test.csv").write_text(build_csv("user,item,rating", people, ["c"] * n, [5] * n))
    pair = datasets.read_pair(tmp_path / "train.csv", tmp_path / "test.csv", low=1, high=5)
    assert [len(ratings) for ratings in pair] == [2 * n, n]


def test_other_formats_say_their_columns_too(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def parquet(*names: str) -> bytes:
        stream = io.BytesIO()
        pq.write_table(pa.table(dict(zip(names, (USERS, ITEMS, VALUES), strict=True))), stream)
        return stream.getvalue()

    read = read_upload(parquet("rater", "film", "stars"), "x.parquet").ratings
    assert read.columns.names == (("user", "rater"), ("item", "film"), ("rating", "stars"))
    for wrong in (parquet("who", "film", "stars"), b'{"who": 1, "film": "x", "stars": 3}\n'):
        with pytest.raises(BadRatings, match="no column holds the user"):
            read_upload(wrong, "x.parquet")
    for name in ("a", "b"):
        (tmp_path / f"{name}.parquet").write_bytes(parquet(f"member_{name * 0}id", "film", "stars"))
    folder = datasets.load(tmp_path, low=1, high=5, duplicates="last").ratings
    assert dict(folder.columns.names)["user"] == "member_id"
    wide = read_upload("student,x,y,z\na,3,,4\nb,,5,\n").ratings
    assert wide.columns.names == (("user", "student"), ("item", "every other column"))
    assert not wide.columns.guessed
    unnamed = ",x,y,z\na,3,,4\nb,,5,\n"
    with pytest.raises(BadRatings, match="layout=wide"):
        read_upload(unnamed, header="yes")
    assert not read_upload(unnamed, layout="wide").ratings.columns.guessed


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DPMC_HOME", str(tmp_path / "home"))
    (tmp_path / "plain.csv").write_text(build_csv("", USERS, ITEMS, VALUES))
    (tmp_path / "rails.csv").write_text(
        build_csv("id,rater_id,film_id,stars", NUMBERS, USERS, ITEMS, VALUES)
    )
    item_kinds = [f"kind {k % 3}" for k in range(20)]
    years = [1990 + k for k in range(20)]
    table = build_csv("film,kind,year", [f"film {k}" for k in range(20)], item_kinds, years)
    (tmp_path / "items.csv").write_text(table)
    return tmp_path


def test_a_guessed_person_is_promised_nothing(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, out = str(files / "plain.csv"), files / "x.npz"
    release = ["release", plain, "private-effects", "--epsilon", "1", "--range", "1:5"]
    release += ["--catalogue", "from-data", "--out", str(out)]
    for argv in (release, ["answer", plain, "--range", "1:5", "--json"]):
        assert main(argv) == 1
        message = capsys.readouterr().err
        assert "plain.csv: the program guessed the column of users (column 1)" in message
        assert "--user COLUMN" in message
    assert not out.exists()
    fit = ["fit", plain, "private-effects", "--epsilon", "1", "--range", "1:5"]
    guessed = "columns: user = column 1 (guessed), item = column 2 (guessed)"
    assert main(fit) == 0
    output = capsys.readouterr().out
    assert guessed in output
    assert "each value of column 1 (guessed) counts as one person" in " ".join(output.split())
    assert main([*fit, "--json", "--user", "1"]) == 0
    captured = capsys.readouterr()
    json.loads(captured.out)
    assert "columns: user = column 1, item" in captured.err


@pytest.mark.slow
def test_items_alone_are_used(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rails, items = str(files / "rails.csv"), ["--items", str(files / "items.csv")]

    def fitted(id: str, *options: str) -> tuple[list[str], str]:
        argv = ["fit", rails, id, "--epsilon", "1", "--range", "1:5", "--json", *options]
        assert main(argv) == 0
        captured = capsys.readouterr()
        return json.loads(captured.out)["data"]["prepare"], captured.err

    (items_only,), _ = fitted("private-effects", *items)
    (prepared,), _ = fitted("private-effects", *items, "--prepare", "features")
    assert items_only == prepared
    assert items_only.startswith(("features#", "features=#"))
    (one_kind,), _ = fitted("private-effects", *items, "--prepare", "features=kind")
    assert one_kind.startswith("features=kind#")
    steps, message = fitted("input-flip", *items)
    assert steps == ["binarise=middle"]
    assert "--items is not used by input-flip" in message
    assert fitted("private-effects")[0] == []
