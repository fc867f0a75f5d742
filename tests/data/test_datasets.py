"""Reading rating data: real sets by published counts, formats, every kind of bad input."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_core.links import Probit
from dpmc_core.ratings import Ratings
from dpmc_data import datasets, load, memory, public_sets, read
from dpmc_data.source import Duplicates, FileShape
from tests.reading_helpers import ratings_by_pair, read_upload

# Real sets ------------------------------------------------------------------------------------


def test_movielens_100k(shared_data: Path) -> None:
    data = datasets.load(shared_data / "ml-100k")
    ratings = data.ratings
    assert ratings.shape == (943, 1682)
    assert np.unique(ratings.values, return_counts=True)[1].tolist() == [
        6110, 11370, 27145, 34174, 21201,
    ]  # fmt: skip
    assert ratings.values.mean() == pytest.approx(3.52986, abs=1e-9)
    assert (ratings.public.low, ratings.public.high) == (1, 5)
    assert ratings.titles is not None
    assert ratings.titles[0] == "Toy Story (1995)"
    assert any("é" in title for title in ratings.titles)  # u.item is Latin-1
    assert [(fact.name, fact.summary) for fact in data.item_features] == [
        ("genre", "18 categories"),
        ("year", "a number"),
    ]
    # The first line of u.data, independently.
    assert ratings_by_pair(ratings)[("196", "242")] == 3
    raw = np.loadtxt(shared_data / "ml-100k" / "u.data", dtype=np.int64)
    order = np.lexsort((raw[:, 1], raw[:, 0]))
    assert np.array_equal(ratings.users, raw[order, 0] - 1)
    assert np.array_equal(ratings.items, raw[order, 1] - 1)
    assert np.array_equal(ratings.values, raw[order, 2])
    assert ratings.times is not None
    assert np.array_equal(ratings.times, raw[order, 3])


@pytest.mark.slow
def test_official_split_shares_one_index_space(shared_data: Path) -> None:
    folder = shared_data / "ml-100k"
    train, test = datasets.read_pair(folder / "u1.base", folder / "u1.test")
    assert (len(train), len(test)) == (80_000, 20_000)
    assert train.public == test.public
    assert train.shape == (943, 1682)
    full = datasets.load(folder).ratings
    combined = {**ratings_by_pair(train), **ratings_by_pair(test)}
    assert combined == ratings_by_pair(full)
    base = datasets.load(folder / "u1.base")
    assert base.ratings.fingerprint == train.fingerprint
    assert base.name == "ml-100k/u1.base"


# Formats --------------------------------------------------------------------------------------


def test_index_follows_the_ids_whatever_the_order_of_rows() -> None:
    text = [f"{u},{i},{1 + (u + i) % 5}\n" for u in (1, 2, 10, 30) for i in (5, 100, 20)]
    rng = np.random.default_rng(0)
    first = read_upload("".join(text)).ratings
    shuffled = read_upload("".join(rng.permutation(text))).ratings
    assert first.fingerprint == shuffled.fingerprint
    assert first.user_ids == ("1", "2", "10", "30")
    assert first.item_ids == ("5", "20", "100")


def write_movielens(folder: Path, name: str, separator: str, header: str = "") -> Path:
    lines = [separator.join((str(u), str(i), r, "978300760"))
             for u, i, r in ((1, 10, "5"), (1, 30, "3"), (2, 10, "4"))]  # fmt: skip
    path = folder / name
    path.write_text(header + "\n".join(lines) + "\n")
    return path


# Where a file comes from -------------------------------------------------------------------------

LATER = "userId,movieId,rating,timestamp\n"


def unpack_archive(folder: Path, id: str, **texts: str) -> Path:
    """What lies in a public set's archive, but its ratings: its README and empty files."""
    public_set = public_sets.SETS[id]
    for name in public_set.beside:
        text = f"About MovieLens:\n{public_set.readme.replace(' ', chr(10))}." * (
            name[:6] == "README"
        )
        (folder / name).write_text(texts.get(name.replace(".", "_"), text), encoding="latin-1")
    return folder


def test_movielens_1m_and_10m_are_told_apart_by_their_neighbours(tmp_path: Path) -> None:
    path = write_movielens(tmp_path, "ratings.dat", "::")
    with pytest.raises(BadRatings, match=r"^ratings\.dat: the public rating range is not known"):
        datasets.load(path)
    films = "10::Amélie (2001)::Comedy|Romance\n30::Heat (1995)::Crime\n"
    unpack_archive(tmp_path, "ml-1m", movies_dat=films)
    data = datasets.load(tmp_path)
    assert (data.name, data.ratings.public.low) == ("ml-1m", 1)
    assert data.ratings.titles == ("Amélie (2001)", "Heat (1995)")
    assert [fact.name for fact in data.item_features] == ["genre", "year"]
    (tmp_path / "users.dat").unlink()
    unpack_archive(tmp_path, "ml-10m")
    assert datasets.load(tmp_path).ratings.public.low == 0.5


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ratings.csv", LATER + "1,10,4.5,978300760\n2,10,3,978300761\n"),
        ("rating_final.csv", "userID,placeID,rating,food_rating,service_rating\n1,2,1,2,0\n"),
        ("u.data", "1\t10\t4\t978300760\n2\t10\t3\t978300761\n"),
        ("ratings.dat", "1::10::4::978300760\n2::10::3::978300761\n"),
        ("amazon.txt", "0\t0\t2\n1\t0\t5\n"),
        ("jester-data-1.csv", ",".join(["1", "2.5", *["99"] * 99]) + "\n"),
    ],
)
def test_a_name_and_a_first_line_name_no_source_and_give_no_range(
    tmp_path: Path, name: str, content: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(BadRatings, match="the public rating range is not known"):
        datasets.load(path)
    with pytest.raises(BadRatings, match="the public rating range is not known"):
        datasets.load_upload(content.encode(), name)
    preview = datasets.preview_upload(content.encode(), name)
    assert preview.known is None
    data = datasets.load(path, low=0, high=6)
    assert (data.name, data.source) == (name, "your file")
    assert data.licence == "not stated in the file"
    assert (data.ratings.public.low, data.ratings.public.high) == (0, 6)
    assert data.ratings.titles is None


def test_a_checksum_names_a_file_wherever_it_lies(shared_data: Path, tmp_path: Path) -> None:
    content = (shared_data / "ml-100k" / "u1.test").read_bytes()
    (tmp_path / "mine.csv").write_bytes(content)
    loaded = [datasets.load(tmp_path / "mine.csv"), datasets.load_upload(content, "x")]
    for data in loaded:
        assert (data.name, data.title) == ("ml-100k/u1.test", "MovieLens 100K")
        assert "from MovieLens 100K, by its checksum" in data.report
        assert data.ratings.shape == (943, 1682)
    for other in (content[:-1], content + b"1\t1\t5\t0\n", content.replace(b"\n", b"\r\n")):
        with pytest.raises(BadRatings, match="range is not known"):
            datasets.load_upload(other, "u1.test")


def test_an_edited_file_is_named_by_its_neighbours_and_says_so(tmp_path: Path) -> None:
    path = write_movielens(unpack_archive(tmp_path, "ml-latest-small"), "ratings.csv", ",", LATER)
    public_sets.write_note(public_sets.SETS["ml-latest-small"], tmp_path, "https://x", "0" * 32)
    noted = "from MovieLens latest, small, by its checksum in the note of its download"
    assert noted in datasets.load(path).report
    shutil.copy(path, tmp_path / "copy.csv")  # the note knows its content
    assert datasets.load(tmp_path / "copy.csv").name == "ml-latest-small"
    for text in (path.read_text() + "3,10,5,978300762\n", path.read_text()[: -len("x\n")]):
        path.write_text(text)
        data = datasets.load(path)
        assert data.title == "MovieLens latest, small"
        (line,) = [line for line in data.report if line.startswith("from ")]
        assert "by its neighbours README.txt, movies.csv, links.csv and tags.csv" in line
        assert "may have been changed" in line
    shutil.copy(path, tmp_path / "own.csv")  # neighbours speak for the set's own names alone
    for file_name in ("own.csv", "README.txt"):
        (tmp_path / "README.txt").write_text("Ratings of our shop, in the columns of MovieLens.")
        with pytest.raises(BadRatings, match="range is not known"):
            datasets.load(tmp_path / file_name if file_name == "own.csv" else path)


def format_jester(rows: list[dict[int, float]], counts: list[int] | None = None) -> str:
    lines = []
    for k, row in enumerate(rows):
        values = [f"{row.get(j, 99):g}" for j in range(100)]
        lines.append(",".join([str(counts[k] if counts else len(row)), *values]))
    return "\n".join(lines) + "\n"


# Bad input: each a clear sentence -------------------------------------------------------------

GOOD = "user,item,rating\nann,tea,4\nann,milk,2\nbob,tea,5\n"


def test_the_range_is_never_taken_from_the_data() -> None:
    with pytest.raises(BadRatings, match=r"public rating range is not known: give"):
        datasets.load_upload(GOOD.encode(), "x.csv")
    assert read_upload(GOOD, low=0, high=10).ratings.public.high == 10


@pytest.mark.slow
def test_a_file_over_the_limit_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "measure_free_memory", lambda: memory.REFERENCE)
    path = tmp_path / "large.csv"
    with path.open("wb") as file:
        file.write(GOOD.encode())
        os.truncate(file.fileno(), 300_000_000)  # sparse: takes no space
    with pytest.raises(BadRatings, match=r"large\.csv has 300\.0 MB, the limit is 200 MB"):
        datasets.load(path, low=1, high=5)
    with pytest.raises(BadRatings, match="more than 2 rows, the limit"):
        read_upload(GOOD, max_rows=2)


def test_duplicates_can_be_resolved() -> None:
    text = "user,item,rating,time\nann,tea,5,30\nbob,tea,3,1\nann,tea,1,20\nann,tea,3,10\n"
    last = read_upload(text, duplicates=Duplicates.LAST)
    assert ratings_by_pair(last.ratings) == {("ann", "tea"): 5, ("bob", "tea"): 3}
    assert last.ratings.times is not None
    assert last.ratings.times.tolist() == [30, 1]
    assert any("2 rows repeat a user-item pair" in line for line in last.report)
    assert ratings_by_pair(read_upload(text, duplicates="mean").ratings)[("ann", "tea")] == 3
    untimed = "\n".join(line.rsplit(",", 1)[0] for line in text.splitlines())
    assert ratings_by_pair(read_upload(untimed, duplicates="last").ratings)[("ann", "tea")] == 3


@pytest.mark.parametrize("seed", range(3))
def test_duplicates_against_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [(int(u), int(i), float(r), int(t)) for u, i, r, t in zip(
        rng.integers(0, 5, 60), rng.integers(0, 4, 60), rng.integers(1, 6, 60),
        rng.permutation(60), strict=True)]  # fmt: skip
    text = "".join(f"{u},{i},{r},{t}\n" for u, i, r, t in rows)
    groups: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for u, i, r, t in rows:
        groups.setdefault((str(u), str(i)), []).append((t, r))
    last = {cell: max(group)[1] for cell, group in groups.items()}
    mean = {cell: sum(r for _, r in group) / len(group) for cell, group in groups.items()}
    for rule, expected in (("last", last), ("mean", mean)):
        ratings = read_upload(text, duplicates=rule, user=1, item=2, rating=3).ratings
        assert ratings_by_pair(ratings) == pytest.approx(expected)


# Opening by name --------------------------------------------------------------------------------


def test_samples_come_with_what_is_known_about_them() -> None:
    for name in ("movie-night", "restaurants", "jokes", "one-bit-lab", "one-bit-lab-strong"):
        data = datasets.load(name)
        assert data.name == name
        assert "generated" in data.source
        assert "CC0" in data.licence
    assert datasets.load("one-bit-lab").truth is not None
    assert datasets.load("movie-night").item_features
    with pytest.raises(InvalidSetting, match="samples are as they are"):
        datasets.load("jokes", user="a")
    assert datasets.load("jokes", low=-10, high=10).ratings.public.high == 10
    with pytest.raises(InvalidSetting, match="high of jokes must be 10, got 5"):
        datasets.load("jokes", low=-10, high=5)


def test_generated_sets_are_drawn_anew_by_name() -> None:
    data = datasets.load("rank-one:users=50,items=20,per_user=5,seed=4")
    assert (data.ratings.shape, len(data.ratings)) == ((50, 20), 250)
    assert data.name == data.loaded_name == "rank-one:users=50,items=20,per_user=5,seed=4"
    rank_one = datasets.load("rank-one", users=50, items=20, per_user=5, seed=4)
    assert rank_one.ratings.fingerprint == data.ratings.fingerprint
    reopened = datasets.load(data.loaded_name, **data.reading)
    assert reopened.ratings.fingerprint == data.ratings.fingerprint
    paper = datasets.load("jtt18-synthetic:users=600,per_user=20")  # 400 items, as in the paper
    assert paper.ratings.shape == (600, 400)
    assert paper.truth is not None
    lab = datasets.load("one-bit-lab:observed=0.5,link=probit,seed=3")
    from_options = datasets.load("one-bit-lab", observed=0.5, link=Probit(), seed=3)
    assert lab.ratings.fingerprint == from_options.ratings.fingerprint


# Pairs ------------------------------------------------------------------------------------------


def test_a_file_and_its_data_frame_are_the_same_ratings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a file has the name of a sample, which `load` takes for the sample."""
    path = tmp_path / "movie-night"
    path.write_text("userId,movieId,rating\n10,2,3.5\n9,10,1\n10,10,4\n9,x,2\n")
    columns = {"user": "userId", "item": "movieId", "rating": "rating"}
    framed = Ratings.from_frame(pd.read_csv(path), low=1, high=5, **columns)
    data = read(path, low=1, high=5)
    assert data.ratings.fingerprint == framed.fingerprint
    assert (data.ratings.user_ids, data.ratings.item_ids) == (framed.user_ids, framed.item_ids)
    assert data.ratings.catalogue == framed.catalogue
    monkeypatch.chdir(tmp_path)
    assert len(read("movie-night", low=1, high=5).ratings) == 4
    assert len(load("movie-night").ratings) > 4
    with pytest.raises(BadRatings, match="there is no file or folder 'jokes'"):
        read("jokes")


def test_a_pair_keeps_users_and_items_of_the_test_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,x,3\n2,x,4\n")
    (tmp_path / "b.csv").write_text("10,x,5\n1,y,1\n")
    train, test = datasets.read_pair(tmp_path / "a.csv", tmp_path / "b.csv", low=1, high=5)
    assert train.public == test.public
    assert train.shape == (3, 2)
    assert ratings_by_pair(train) == {("1", "x"): 3, ("2", "x"): 4}
    assert ratings_by_pair(test) == {("10", "x"): 5, ("1", "y"): 1}


def test_a_pair_must_not_overlap(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,x,3\n2,x,4\n")
    (tmp_path / "b.csv").write_text("2,x,5\n1,y,1\n")
    with pytest.raises(BadRatings, match="1 user-item pairs are in both files, first user '2'"):
        datasets.read_pair(tmp_path / "a.csv", tmp_path / "b.csv", low=1, high=5)


# Previews ---------------------------------------------------------------------------------------


def test_preview_shows_columns_and_the_guess(shared_data: Path) -> None:
    preview = datasets.preview_upload(b"when,stars,item,user\n1,4,tea,ann\n2,5,milk,bob\n", "x.csv")
    assert preview.columns == ("when", "stars", "item", "user")
    assert preview.roles == {"user": 3, "item": 2, "rating": 1}
    assert preview.rows == (("1", "4", "tea", "ann"), ("2", "5", "milk", "bob"))
    assert preview.known is None
    file = shared_data / "restaurant" / "rating_final.csv"
    public_preview = datasets.preview_upload(file.read_bytes(), file.name)
    assert public_preview.known is not None
    assert public_preview.known.description == "Restaurant and consumer data, by its checksum"
    assert (public_preview.known.low, public_preview.known.high) == (0, 2)
    file = shared_data / "jester" / "jester-data-1.csv"
    dense = datasets.preview_upload(file.read_bytes(), file.name)
    assert dense.shape is FileShape.WIDE


def test_importing_this_layer_leaves_pandas_alone() -> None:
    code = (
        "import sys, dpmc_data.datasets as d; d.load('movie-night');"
        "late = {'pandas', 'pyarrow', 'urllib.request'} & set(sys.modules);"
        "sys.exit(' '.join(late) or 0)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.stderr == ""
    assert result.returncode == 0


def test_titles_are_kept_raw(tmp_path: Path) -> None:
    write_movielens(tmp_path, "ratings.csv", ",", LATER)
    unpack_archive(
        tmp_path, "ml-latest", movies_csv="movieId,title,genres\n10,<b>&amp;</b>,Comedy\n"
    )
    assert datasets.load(tmp_path).ratings.titles == ("<b>&amp;</b>", "30")


@pytest.mark.parametrize(
    "note",
    ["", "{", "[]", '{"set": "x", "files": {}}', '{"set": [], "files": {}}', '{"set": "ml-1m"}',
     '{"set": "ml-1m", "files": {"a": 3}}', '{"set": "ml-1m", "files": [1]}', "\xff" * 9,
     "[" * 100_000],
)  # fmt: skip
def test_a_broken_note_says_nothing(tmp_path: Path, note: str) -> None:
    path = write_movielens(tmp_path, "ratings.csv", ",", LATER)
    (tmp_path / public_sets.NOTE_FILE).write_text(note, encoding="latin-1")
    with pytest.raises(BadRatings, match="range is not known"):
        datasets.load(path)


def test_jester_with_a_user_who_rated_nothing() -> None:
    data = read_upload(format_jester([{0: -7.82, 99: 10}, {}, {5: 0}]), low=-10, high=10)
    assert data.ratings.shape == (3, 100)
    assert ratings_by_pair(data.ratings) == {("1", "1"): -7.82, ("1", "100"): 10, ("3", "6"): 0}
    assert any(line.startswith("1 user has no ratings") for line in data.report)


def test_equal_ratings_are_a_warning() -> None:
    data = read_upload("a,x,3\nb,x,3\nb,y,3\n")
    assert any("all ratings are equal (3)" in line for line in data.report)


def test_a_set_that_is_not_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadRatings, match="not downloaded yet: run 'dpmc data get ml-1m'"):
        datasets.load("ml-1m")
    folder = tmp_path / "data" / "ml-latest-small"
    folder.mkdir(parents=True)
    write_movielens(unpack_archive(folder, "ml-latest-small"), "ratings.csv", ",", LATER)
    assert datasets.load("ml-latest-small").name == "ml-latest-small"
