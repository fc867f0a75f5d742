"""What people bring: matrices, surveys, words, marks and containers are read, or asked about."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import io
import json
import lzma
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpmc_core import registry
from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_data import datasets
from dpmc_data.source import Refused
from dpmc_lab.cli import main
from dpmc_lab.views import cards
from tests.reading_helpers import ratings_by_pair, read_upload

ROOT = Path(__file__).resolve().parents[2]
WILD = ROOT.parent / "shared" / "data" / "wild"
USERS = [f"p{k}" for k in range(30)]
FILMS = [f"Film {k}" for k in range(8)]
CELLS = {
    (u, i): 1 + (3 * k + k * j + j * j) % 5
    for k, u in enumerate(USERS)
    for j, i in enumerate(FILMS)
}
GAPS = {pair: value for k, (pair, value) in enumerate(CELLS.items()) if k % 3}


def table(rows: list[list[Any]], separator: str = ",") -> str:
    return "".join(separator.join(map(str, row)) + "\n" for row in rows)


def matrix(cells: dict[tuple[str, str], Any], corner: str, empty: Any = "") -> str:
    rows = [[user, *(cells.get((user, film), empty) for film in FILMS)] for user in USERS]
    return table([[corner, *FILMS], *rows])


def transposed(cells: dict[tuple[str, str], Any], corner: str) -> str:
    rows = [[film, *(cells.get((user, film), "") for user in USERS)] for film in FILMS]
    return table([[corner, *USERS], *rows])


def rows_of(cells: dict[tuple[str, str], Any], head: str = "user,item,rating\n") -> str:
    return head + table([[user, film, value] for (user, film), value in cells.items()])


def offers(content: str, tmp_path: Path, **options: Any) -> list[dict[str, Any]]:
    """The options of each reading beyond the range, of a file that is asked about."""
    file = tmp_path / "x.csv"
    file.write_text(content, encoding="utf-8")
    ends = {"low": 1, "high": 5, **options}
    with pytest.raises(BadRatings):
        datasets.load(file, **ends)
    readings = datasets.examine_file(file, **ends).readings
    return [{k: v for k, v in one.options.items() if k not in ends} for one in readings]


@pytest.mark.parametrize("corner", ["user", "Student", "Reader"])
@pytest.mark.parametrize("cells", [CELLS, GAPS])
def test_a_matrix_of_a_named_user_is_read(corner: str, cells: dict[tuple[str, str], int]) -> None:
    assert ratings_by_pair(read_upload(matrix(cells, corner)).ratings) == cells


def test_role_words_over_a_matrix_are_items() -> None:
    names = ["Overall", "Value", "u", "r", "Service", "Food"]
    rows = [[f"p{k}", *(1 + (3 * k + j * j) % 5 for j in range(6))] for k in range(9)]
    ratings = read_upload(table([["Student", *names], *rows])).ratings
    assert ratings.shape == (9, 6)
    assert set(ratings.item_ids or ()) == {*names}


@pytest.mark.parametrize(
    "names",
    [
        ["stars", "asin", "year", "user_id", "hour"],
        ["user_id", "movie_id", "stars", "year", "hour"],
        ["stars", "year", "Movie ID", "hour", "customer-id"],
    ],
)
def test_named_users_and_items_among_numbers_make_rows(names: list[str]) -> None:
    rows = [[1 + (k + j) % 5 for j in range(5)] for k in range(4)]
    item = next(name for name in names if name in ("asin", "movie_id", "Movie ID"))
    ratings = read_upload(table([names, *rows])).ratings
    assert len(ratings.values) == 4
    assert set(ratings.item_ids or ()) == {str(row[names.index(item)]) for row in rows}


def test_users_on_many_lines_are_no_matrix() -> None:
    rows = [[f"p{k % 9}", k % 5, 1 + k % 4, k % 3, k % 4, k % 5] for k in range(45)]
    ratings = read_upload(table([["user_id", "item_id", "rating", "a", "b", "c"], *rows])).ratings
    assert ratings.shape == (9, 5)


@pytest.mark.parametrize("corner", ["movie", "title", "Film"])
@pytest.mark.parametrize("cells", [CELLS, GAPS])
def test_a_transposed_matrix_is_asked_about(
    corner: str, cells: dict[tuple[str, str], int], tmp_path: Path
) -> None:
    text = transposed(cells, corner)
    first = offers(text, tmp_path)[0]
    assert first == {"layout": "transposed"}
    ratings = read_upload(text, **first).ratings
    assert ratings_by_pair(ratings) == cells
    assert ratings.columns.names == (("user", "every other column"), ("item", corner))


def test_a_matrix_with_an_unnamed_corner_is_asked_about(tmp_path: Path) -> None:
    found = offers(transposed(GAPS, ""), tmp_path)
    assert found == [{"layout": "transposed"}, {"layout": "wide"}]  # more people than films


def test_numbers_beyond_the_ratings_name_the_columns(tmp_path: Path) -> None:
    rows = [[user, *(CELLS[user, film] for film in FILMS)] for user in USERS]
    text = table([["who", *(200 + 3 * j for j in range(8))], *rows])
    found = offers(text, tmp_path)
    assert {"layout": "wide"} in found
    assert read_upload(text, layout="wide").ratings.shape == (30, 8)


def test_an_empty_last_name_and_numbers_that_count_up_are_names(tmp_path: Path) -> None:
    rows = [[user, *(CELLS[user, film] for film in FILMS), ""] for user in USERS]
    for names in (FILMS, range(1, 9)):
        text = table([["key", *names, ""], *rows])
        assert {"layout": "wide"} in offers(text, tmp_path)
        assert read_upload(text, layout="wide").ratings.shape == (30, 8)


def test_answers_over_several_lines_hide_no_survey(tmp_path: Path) -> None:
    comment = '"good, but\nlong, 5\nand, 3\n and late"'
    rows = [[*(CELLS[user, film] for film in FILMS), comment] for user in USERS]
    first, *_ = offers(table([[*FILMS, "Comment"], *rows]), tmp_path)
    assert read_upload(table([[*FILMS, "Comment"], *rows]), **first).ratings.shape == (30, 8)


def test_an_age_or_a_year_is_no_item(tmp_path: Path) -> None:
    rows = [[u, i, i[-1] in "123", 20 + 3 * int(u[1:]), v] for (u, i), v in CELLS.items()]
    assert offers(table(rows), tmp_path)[0] == {"user": 1, "item": 2, "rating": 5}
    diary = [[f"Film {k}", 1990 + k % 30, 1 + k % 5] for k in range(150)]
    assert offers(table([["Name", "Year", "Rating"], *diary, diary[0]]), tmp_path) == []


NUMBERED = {film: film.replace("Film 3", "1917") for film in FILMS}
MEANS = {film: sum(CELLS[user, film] for user in USERS) / len(USERS) for film in FILMS}
LINES = [[user, *(CELLS[user, film] for film in FILMS)] for user in USERS]
STARS = ["½", "★", "★½", "★★", "★★½", "★★★", "★★★½", "★★★★", "★★★★½"]
HALVES = {pair: (3 * k) % 9 for k, pair in enumerate(CELLS)}


@pytest.mark.parametrize(
    ("text", "offer", "expected"),
    [
        (  # either may be the one who rates
            rows_of({(f"j{i[-1]}", u): v for (u, i), v in GAPS.items()}, "judge,player,score\n"),
            {"user": 1, "item": 2, "rating": 3},
            {(f"j{i[-1]}", u): v for (u, i), v in GAPS.items()},
        ),
        (  # a gender or an age group as a code is no item
            table([["Username", "Gender", "Age group", *FILMS]])
            + table(
                [[u, 1 + k % 2, 1 + k % 5, *(CELLS[u, i] for i in FILMS)]
                 for k, u in enumerate(USERS)]
            ),
            None,
            CELLS,
        ),
        (  # two columns of ratings may be an item and a rating
            table([["Student", *FILMS[:2]]])
            + table([[u, CELLS[u, FILMS[0]], CELLS[u, FILMS[1]]] for u in USERS]),
            None,
            {(u, i): v for (u, i), v in CELLS.items() if i in FILMS[:2]},
        ),
        (
            rows_of({pair: STARS[k] for pair, k in HALVES.items()}),
            {"values": "stars"},
            {pair: (k + 1) / 2 for pair, k in HALVES.items()},
        ),
        (  # of a matrix one film is called like a year
            matrix(GAPS, "Name", "not seen").replace("Film 3", "1917"),
            {"layout": "wide", "missing": "not seen"},
            {(u, NUMBERED[i]): v for (u, i), v in GAPS.items()},
        ),
        (  # names over several lines, and the corner below them
            table([["", *["drama"] * 8], ["title", *FILMS], ["who", *[""] * 8], *LINES]),
            {"layout": "wide"},
            CELLS,
        ),
        (  # a mean under any name
            table([["Student", *FILMS, "Schnitt 9b"]])
            + table([[*line, round(sum(line[1:]) / 8, 1)] for line in LINES]),
            {"bad_rows": "leave-out"},
            CELLS,
        ),
        (  # counts and deviations beside means
            table([["Student", *FILMS], *LINES])
            + table([["N", *[30] * 8], ["Mean", *MEANS.values()], ["SD", *[1.1] * 8]]),
            {"bad_rows": "leave-out"},
            CELLS,
        ),
        (
            rows_of(GAPS) + f"Grand Total,{len(GAPS)},3.1\nuser,item,3\n",
            {"bad_rows": "leave-out"},
            GAPS,
        ),
        (  # what is called a rating and follows the item describes it
            "user_id,movie_id,my_score,title,rating\n"
            + table([[u, i, v, f"The {i}", MEANS[i]] for (u, i), v in GAPS.items()]),
            None,
            GAPS,
        ),
        (  # of several columns left none holds the ratings by its order
            "user_id,movie_id,helpful,my_score\n"
            + table([[u, i, v % 3, v] for (u, i), v in GAPS.items()]),
            None,
            GAPS,
        ),
        (  # titles of reviews come once
            "user,product,title,rating\n".replace("product", "ware")
            + table([[u, i, f"Great {u} {i}", v] for (u, i), v in GAPS.items()]),
            None,
            GAPS,
        ),
    ],
    ids=[
        *("judges and players", "codes of people", "two subjects", "half stars", "a year"),
        *("names over lines", "a mean", "statistics", "a grand total", "a mean of the item"),
        *("several columns left", "titles of reviews"),
    ],
)  # fmt: skip
def test_what_could_be_read_in_two_ways_is_asked(
    text: str, offer: dict[str, Any] | None, expected: dict[Any, float], tmp_path: Path
) -> None:
    ends: dict[str, Any] = {"low": 0.5, "high": 5}
    if offer is None:
        assert ratings_by_pair(read_upload(text, **ends).ratings) == expected
        return
    assert offer in offers(text, tmp_path, **ends)
    assert ratings_by_pair(read_upload(text, **offer, **ends).ratings) == expected


def test_people_without_a_name_are_asked_about(tmp_path: Path) -> None:
    cells = {("Anonymous" if user == "p7" else user, i): v for (user, i), v in GAPS.items()}
    named = {pair: v for pair, v in cells.items() if pair[0] != "Anonymous"}
    assert offers(rows_of(cells), tmp_path) == [{"bad_rows": "leave-out"}]
    assert ratings_by_pair(read_upload(rows_of(cells), bad_rows="leave-out").ratings) == named


def test_without_a_header_decimal_commas_and_dates_are_asked_about(tmp_path: Path) -> None:
    decimals = table([[u, i, v, 5 * (v < 3)] for (u, i), v in GAPS.items()])
    (tmp_path / "y.csv").write_text(decimals)
    assert offers(decimals, tmp_path)[0] == {"user": 1, "item": 2, "rating": 3}
    assert datasets.examine_file(tmp_path / "y.csv", low=1, high=5).only is None
    diary = table([[f"2024-03-{1 + k % 28:02}", f"Film {k % 30}", 1 + k % 5] for k in range(40)])
    assert offers(diary, tmp_path) == []
    with pytest.raises(BadRatings, match="a file of one person's ratings has none"):
        read_upload(diary)


def test_a_reading_without_any_rating_is_none(tmp_path: Path) -> None:
    text = table([["user", *FILMS], *([user, *["-"] * 8] for user in USERS)])
    assert offers(text, tmp_path) == []


def test_an_event_with_and_in_its_name_is_offered(tmp_path: Path) -> None:
    kinds = ("up and down", "sideways")
    rows = [[f"{u}@x", i, kind] for (u, i), v in GAPS.items() for kind in kinds[: 1 + v % 2]]
    found = offers(table([["who", "what", "kind"], *rows]), tmp_path, low=None, high=None)
    assert "3:up and down" in {one.get("event") for one in found}


def test_blocks_ask_what_their_numbers_name(tmp_path: Path) -> None:
    blocks = [
        f"{j + 1}:\n"
        + table([[k + 100, GAPS[u, i]] for k, u in enumerate(USERS) if (u, i) in GAPS])
        for j, i in enumerate(FILMS)
    ]
    text = "".join(blocks)
    first, second = offers(text, tmp_path)[:2]
    assert {first["user"], second["user"]} == {1, 2}
    first = {"user": 2, "item": 1, "rating": 3}
    data = read_upload(text, **first)
    assert data.ratings.shape == (30, 8)
    assert ratings_by_pair(data.ratings)["101", "1"] == GAPS[USERS[1], FILMS[0]]
    assert data.count is not None
    assert (data.count.lines, data.count.rows) == (len(GAPS) + 8, len(GAPS))
    with pytest.raises(BadRatings, match=r"first 9 in line 3"):
        read_upload(text.replace(blocks[0].splitlines()[2], "101,9", 1), **first)
    by_people = "".join(  # more blocks than ids, so counts alone say that a block is a person
        f"{3 * j % 97 + 1}:\n"
        + "".join(f"{k + 100},{1 + k * (j + 1) % 5}\n" for k in range(8) if (k + j) % 3)
        for j in range(60)
    )
    with pytest.raises(BadRatings, match="which column names the person"):
        read_upload(by_people)


def test_records_over_several_lines_are_read() -> None:
    records = [
        f"product/productId: {i}\nreview/userId: {u}\nreview/score: {v}.0\nreview/text: a: b, c\n"
        for (u, i), v in GAPS.items()
    ]
    data = read_upload("\n".join(records), "x.txt")
    assert ratings_by_pair(data.ratings) == GAPS
    assert data.count is not None
    assert (data.count.lines, data.count.rows) == (5 * len(GAPS) - 1, len(GAPS))


def test_columns_that_a_person_must_choose_are_no_advice(tmp_path: Path) -> None:
    text = "what,who,stars\n" + table([[i, f"{u}@x.org", v] for (u, i), v in GAPS.items()])
    (tmp_path / "x.csv").write_text(text)
    examination = datasets.examine_file(tmp_path / "x.csv", user=2, low=1, high=5)
    assert len(examination.readings) == 1
    assert examination.only is None or not examination.faults
    blocks = "".join(f"{i}:\n" + table([[u, v] for u, v in (("a", 1), ("b", 2))]) for i in (1, 2))
    (tmp_path / "y.txt").write_text(blocks)
    examination = datasets.examine_file(tmp_path / "y.txt", user=2, low=1, high=5)
    assert examination.only is None


@pytest.mark.parametrize("head", ["points,Ding,Customer ID", "#,who,Ding,points"])
def test_no_column_is_an_item_only_by_its_order(head: str, tmp_path: Path) -> None:
    columns = head.split(",")
    values = [
        {"points": v, "Ding": i, "Customer ID": u, "who": u, "#": k}
        for k, ((u, i), v) in enumerate(GAPS.items(), 1)
    ]
    text = table([columns, *[[row[name] for name in columns] for row in values]])
    (tmp_path / "x.csv").write_text(text)
    examination = datasets.examine_file(tmp_path / "x.csv", low=1, high=5)
    options = examination.readings[0].options if examination.readings else {}
    assert ratings_by_pair(read_upload(text, **{**options, "low": 1, "high": 5}).ratings) == GAPS
    assert examination.only is None or not examination.faults


def test_a_survey_is_read_where_it_names_the_person_and_asked_about_elsewhere(
    tmp_path: Path,
) -> None:
    def survey(name: str, *more: str) -> str:
        rows = [
            [f"2024/03/0{1 + k % 9} 10:00:00 AM GMT+1", user, *[20 + k for _ in more]]
            + [GAPS.get((user, film), "") for film in FILMS]
            for k, user in enumerate(USERS)
        ]
        return table([["Timestamp", name, *more, *[f"Rate [{film}]" for film in FILMS]], *rows])

    read = read_upload(survey("Username")).ratings
    assert read.shape == (30, 8)
    assert read.columns.names == (("user", "Username"), ("item", "columns 3 to 10"))
    found = offers(survey("Who are you?", "Age"), tmp_path)
    asked = read_upload(survey("Who are you?", "Age"), **found[0]).ratings
    assert ratings_by_pair(asked)[USERS[1], f"Rate [{FILMS[0]}]"] == GAPS[USERS[1], FILMS[0]]
    assert asked.shape == read_upload(survey("Username", "Age")).ratings.shape  # an age is none
    told = read_upload(survey("Who are you?", "Age"), layout="wide", user=2, item="4:11").ratings
    assert told.shape == (30, 8)
    assert "user" not in told.columns.guessed


def test_a_matrix_of_numbers_alone_has_numbered_lines_where_that_is_said(tmp_path: Path) -> None:
    text = table([[CELLS[user, film] for film in FILMS] for user in USERS], " ")
    first = offers(text, tmp_path)[0]
    ratings = read_upload(text, **first).ratings
    assert ratings.shape == (30, 8)
    assert ratings.columns.names[0] == ("user", "the number of the line")
    assert describe_users(ratings) == "each line counts as one person"


def describe_users(ratings: Any) -> str:
    """What a privacy card says about who is a person."""
    guarantee = registry.create("private-effects", epsilon=1.0).guarantee(ratings.public)
    return dict(cards.build_privacy_card(guarantee, columns=ratings.columns).details)["users"]


def test_lines_of_a_user_and_items_are_clicks_where_that_is_said(tmp_path: Path) -> None:
    text = "1 10 20 30\n2 20\n3 10 30\n4 10 20 30 40\n"
    (only,) = offers(text, tmp_path, low=None, high=None)
    assert only == {"layout": "adjacency"}
    data = read_upload(text, low=None, high=None, **only)
    assert data.ratings.shape == (4, 4)
    assert len(data.ratings) == 10
    assert data.count is not None
    assert (data.count.lines, data.count.rows, data.count.entries) == (4, 4, 10)


@pytest.mark.parametrize("mark", ["NA", "nan", "-", "99", "0", "n/a"])
def test_a_mark_for_not_rated_is_asked_about(mark: str, tmp_path: Path) -> None:
    full = matrix(GAPS, "user", mark)
    for text in (full, rows_of({pair: GAPS.get(pair, mark) for pair in CELLS})):
        assert offers(text, tmp_path)[0] == {"missing": mark}
        assert ratings_by_pair(read_upload(text, missing=mark).ratings) == GAPS
    assert ratings_by_pair(read_upload(full, missing=f"{mark},x").ratings) == GAPS


def test_zeros_in_the_range_of_a_full_matrix_are_asked_about(tmp_path: Path) -> None:
    text = matrix(GAPS, "user", 0)
    assert offers(text, tmp_path, low=0) == [{"missing": "0"}, {"missing": "none"}]
    assert len(read_upload(text, low=0, missing="none").ratings) == len(CELLS)


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        ("agree", ["Strongly disagree", "Disagree", "Neutral", "Agree", "Strongly agree"]),
        ("agree", ["stimme nicht zu", "teils/teils", "stimme zu", "stimme voll zu"]),
        ("words", ["one", "two", "three", "four", "five"]),
        ("words", ["eins", "zwei", "drei", "vier", "fünf"]),
        ("stars", ["★", "★★", "★★★", "★★★★", "★★★★★"]),
        ("number", ["1/5", "2/5", "3/5", "4/5", "5/5"]),
        ("number", ["1 star", "2 stars", "3 stars", "4 stars", "5 stars"]),
    ],
)
def test_words_of_a_known_scale_are_offered(scale: str, words: list[str], tmp_path: Path) -> None:
    first = 6 - len(words) if len(words) < 5 else 1
    cells = {pair: words[min(value, len(words)) - 1] for pair, value in CELLS.items()}
    expected = {pair: first + words.index(word) for pair, word in cells.items()}
    for text in (rows_of(cells), matrix(cells, "user")):
        assert {"values": scale} in offers(text, tmp_path)
        assert ratings_by_pair(read_upload(text, values=scale).ratings) == expected


def test_other_words_are_what_a_person_says() -> None:
    cells = {pair: "hot" if value > 2 else "Not" for pair, value in CELLS.items()}
    with pytest.raises(Refused, match="values=WORD:NUMBER"):
        read_upload(rows_of(cells))
    ratings = read_upload(rows_of(cells), values="hot:5,not:1").ratings
    assert {*ratings.values.tolist()} == {1, 5}
    with pytest.raises(InvalidSetting, match="one of number, agree"):
        read_upload(rows_of(cells), values="hot")


def test_one_kind_of_event_is_read_where_that_is_said(tmp_path: Path) -> None:
    rows = [
        [user, film, kind, value]
        for (user, film), value in CELLS.items()
        for kind, value in (("buy", 1), ("play", value))
    ]
    found = offers(table([["user", "item", "what", "rating"], *rows]), tmp_path)
    assert found  # two rows of each pair
    text = table(rows)
    play: dict[str, Any] = {"user": 1, "item": 2, "rating": 4, "event": "3:play"}
    ratings = read_upload(text, **play).ratings
    assert ratings_by_pair(ratings) == CELLS
    some = [row for row in rows if row[1:3] != ["Film 1", "buy"]]
    named = table([["user", "item", "event", "at"], *[[*row[:3], 1_700_000_000] for row in some]])
    found = offers(named, tmp_path)
    assert {"rating": "none", "event": "3:buy"} in found


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_packed_files_are_unpacked(pack: Any) -> None:
    text = rows_of(CELLS).encode()
    assert ratings_by_pair(read_upload(pack(text)).ratings) == CELLS
    with pytest.raises(BadRatings, match="cannot be read"):
        read_upload(pack(text)[:-20])


def test_an_archive_of_one_file_is_unpacked_and_of_more_refused() -> None:
    def archive(**files: str) -> bytes:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as target:
            for name, text in files.items():
                target.writestr(f"{name}.csv", text)
        return stream.getvalue()

    assert ratings_by_pair(read_upload(archive(a=rows_of(CELLS))).ratings) == CELLS
    with pytest.raises(BadRatings, match="ZIP archive of 2 files"):
        read_upload(archive(a="", b=""))


@pytest.mark.parametrize(
    "head",
    [
        "sep=,\nuser,item,rating\n",
        "# made by a program\n# user item\nuser,item,rating\n",
        "% bip\nuser,item,rating\n",
        "My ratings\n\nuser,item,rating\n",
        "My ratings,,\nof all shops,,\n,,\nuser,item,rating\n",
        "user_id:token,item_id:token,rating:float\n",
    ],
)
def test_what_stands_above_the_table_is_left_aside(head: str) -> None:
    data = read_upload(rows_of(CELLS, head))
    assert ratings_by_pair(data.ratings) == CELLS
    assert data.count is not None
    assert data.count.lines == data.count.header + data.count.blank + data.count.rows


def test_a_row_above_a_header_without_names_is_no_title() -> None:
    with pytest.raises(Refused, match="without an item"):
        read_upload("ann,,\nbob,tea,3\neve,tea,4\n")


def test_tables_drawn_as_text_are_read() -> None:
    rows: list[list[Any]] = [
        [user, film.replace(" ", "-"), value] for (user, film), value in CELLS.items()
    ]
    bars = [f"| {' | '.join(map(str, row))} |" for row in [["user", "item", "rating"], *rows]]
    rule = "+---+---+---+"
    for lines in (
        [rule, bars[0], rule, *bars[1:], rule],
        [bars[0], "|---|---|---|", *bars[1:]],
        [bars[0].strip("| "), "---+----+---", *(bar.strip("|") for bar in bars[1:]), "(9 rows)"],
    ):
        assert len(read_upload("\n".join(lines) + "\n").ratings) == len(CELLS)
    named = [f'"{k}" "{u}" "{i}" {v}' for k, (u, i, v) in enumerate(rows, 1)]
    assert len(read_upload("\n".join(['"user" "item" "rating"', *named])).ratings) == len(CELLS)


@pytest.mark.parametrize(
    ("dates", "seconds"),
    [
        (["01/20/2024", "02/03/2024"], [1705708800, 1706918400]),
        (["20.01.2024", "03.02.2024"], [1705708800, 1706918400]),
        (["2024-01-20 00:00:00 UTC", "2024-02-03 00:00:00 UTC"], [1705708800, 1706918400]),
        (["2024/01/20 01:00:00 AM GMT+1", "2024/02/03 01:00:00 AM GMT+1"],
         [1705708800, 1706918400]),
        (["01/02/2024", "03/02/2024"], None),
        (["20.01.2024", "02/03/2024"], None),
    ],
)  # fmt: skip
def test_dates_are_of_one_form_alone(dates: list[str], seconds: list[int] | None) -> None:
    text = "user,item,rating,date\n" + table([["a", "x", 3, dates[0]], ["b", "x", 4, dates[1]]])
    times = read_upload(text).ratings.times
    assert (None if times is None else times.tolist()) == seconds


def test_json_lines_and_parquet_are_asked_about_as_a_table_of_text_is() -> None:
    rows = [{"who": f"{u}@x", "what": i, "points": v} for (u, i), v in GAPS.items()]
    table_of_rows = pa.Table.from_pylist(rows)
    stream, matrix_stream = io.BytesIO(), io.BytesIO()
    pq.write_table(table_of_rows, stream)
    columns = {"who": USERS, **{i: [GAPS.get((u, i)) for u in USERS] for i in FILMS}}
    pq.write_table(pa.table(columns), matrix_stream)
    lines = "\n".join(map(json.dumps, rows)).encode()
    for content in (stream.getvalue(), lines):
        reading, *_ = datasets.examine_upload(content, "x", low=1, high=5).readings
        assert {"user": 1, "item": 2, "rating": 3}.items() <= reading.options.items()
        assert reading.preview[1] == ["who", "what", "points"]
    wide = read_upload(matrix_stream.getvalue(), layout="wide").ratings
    assert ratings_by_pair(wide) == GAPS


def test_a_total_is_no_person_and_no_item(tmp_path: Path) -> None:
    last = matrix(GAPS, "user") + table([["Average", *[3] * 8]])
    head, *lines = matrix(GAPS, "user").splitlines()
    column = "\n".join([f"{head},Mean", *(f"{line},3" for line in lines)]) + "\n"
    for text in (last, column, rows_of(GAPS) + "Total,x,4\n"):
        assert offers(text, tmp_path)[0] == {"bad_rows": "leave-out"}
        assert ratings_by_pair(read_upload(text, bad_rows="leave-out").ratings) == GAPS
    assert len(read_upload("user,item,rating\nTotal,x,4\n" + rows_of(GAPS, "")).ratings) == 161
    more = rows_of({("Total", "x"): 4} | GAPS | {("Total", "y"): 2})  # somebody is called so
    assert len(read_upload(more).ratings) == 162


def test_the_export_of_one_person_names_nobody(tmp_path: Path) -> None:
    text = "Title,Year,Your Rating\n" + table(
        [[f"F{k}", 1990 + k % 7, 1 + k % 5] for k in range(40)]
    )
    assert offers(text, tmp_path) == []
    with pytest.raises(BadRatings, match="a file of one person's ratings has none"):
        read_upload(text)


def test_check_shows_each_reading_with_its_first_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.csv"
    file.write_text(transposed(GAPS, "movie"))
    assert main(["data", "check", str(file), "--range", "1:5"]) == 1
    shown = capsys.readouterr().out
    assert "This reads it" not in shown
    assert "30 people, 8 items, 160 ratings from 1 to 5:\n  item    user" in shown
    assert "--read layout=transposed" in shown
    main(["data", "check", str(file), "--range", "1:5", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["command"] is None
    assert found["readings"][0]["preview"][0][:2] == ["item", "user"]
    words = found["readings"][0]["command"].split()
    assert main([*words[1:], "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert (described["users"], described["items"], described["layout"]) == (30, 8, "transposed")
    assert described["columns"] == {"user": "every other column", "item": "movie"}
    assert described["mean"] == pytest.approx(sum(GAPS.values()) / len(GAPS))


def test_what_leaves_much_out_is_no_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.csv"
    file.write_text(rows_of({pair: value + 2 for pair, value in CELLS.items()}))
    assert main(["data", "check", str(file), "--range", "1:5"]) == 1
    shown = capsys.readouterr().out
    assert "This reads it" not in shown
    assert "132 rows with a rating outside 1..5 left out" in shown


def test_words_keep_apart(tmp_path: Path) -> None:
    words = ["Poor", "Fair", "Good", "Very good", "Excellent"]
    text = rows_of({pair: words[value - 1] for pair, value in GAPS.items()})
    (only,) = offers(text, tmp_path)
    assert only == {"values": "excellent"}
    assert ratings_by_pair(read_upload(text, **only).ratings) == GAPS


def load_benchmark() -> Any:
    spec = importlib.util.spec_from_file_location("wild", ROOT / "benchmarks" / "wild.py")
    assert spec is not None
    assert spec.loader is not None
    wild = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wild)
    return wild


@pytest.mark.skipif(not WILD.is_dir(), reason="the files of ../shared/data are not here")
@pytest.mark.parametrize(("folder", "least"), [("wild", 85), ("wild-2", 33)])
def test_files_of_the_wild_are_read_right_or_right_first(folder: str, least: int) -> None:
    outcomes = load_benchmark().judge_folder(WILD.parent / folder)
    counts = Counter(outcome for outcome, _ in outcomes.values())
    assert not counts["wrong"]
    assert counts["taken"] + counts["first"] >= least


@pytest.mark.parametrize("seed", [0, pytest.param(1000, marks=pytest.mark.slow)])
def test_mutations_are_never_taken_wrong_and_right_among_four(seed: int) -> None:
    count = 300 if seed else 25
    outcomes = load_benchmark().judge_mutations(range(seed, seed + count))
    counts = Counter(outcome for outcome, _ in outcomes.values())
    assert not counts["wrong"]
    assert counts["taken"] + counts["first"] + counts["among"] >= 0.97 * count


def test_a_line_that_lacks_what_the_others_have_is_nobody(tmp_path: Path) -> None:
    rows = [[u, f"id{k}", *(CELLS[u, i] for i in FILMS)] for k, u in enumerate(USERS)]
    for name in ("Points Possible", "Key"):
        text = table([["Student", "Number", *FILMS], [name, "", *[5] * 8], *rows])
        with pytest.raises(BadRatings):
            read_upload(text)
    offered = offers(
        table([["Student", "Number", *FILMS], ["Total", "", *[5] * 8], *rows]), tmp_path
    )
    assert any(offer.get("bad_rows") == "leave-out" for offer in offered)
