"""Public rating sets known by their files: rating range, layout, titles, terms."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from dpmc_core.data.source import Source

MOVIELENS_TERMS = (
    "GroupLens terms: research use; acknowledge the data in publications; no redistribution"
    " without separate permission; no commercial use without permission; no endorsement implied"
)
MOVIELENS_LATER_TERMS = (
    "GroupLens terms: research use; acknowledge the data in publications; redistribution only"
    " under the same terms; no commercial use without permission; no endorsement implied"
)
GROUPLENS = "GroupLens, University of Minnesota (Harper and Konstan, The MovieLens datasets, 2015)"
UNSTATED = "no licence stated: do not redistribute"


@dataclass(frozen=True)
class Known:
    """A public set. catalogue: users and items where ids are exactly 1..users and 1..items."""

    id: str
    title: str
    low: float
    high: float
    source: str
    licence: str
    separator: str = ","
    header: bool = False
    catalogue: tuple[int, int] | None = None


ML_100K = Known(
    "ml-100k", "MovieLens 100K", 1, 5, GROUPLENS, MOVIELENS_TERMS, "\t", catalogue=(943, 1682)
)
ML_1M = Known("ml-1m", "MovieLens 1M", 1, 5, GROUPLENS, MOVIELENS_TERMS, "::")
ML_10M = Known("ml-10m", "MovieLens 10M", 0.5, 5, GROUPLENS, MOVIELENS_TERMS, "::")
ML_CSV = Known("movielens", "MovieLens", 0.5, 5, GROUPLENS, MOVIELENS_LATER_TERMS, ",", header=True)
RESTAURANTS = Known(
    "restaurant",
    "Restaurant and consumer data",
    0,
    2,
    "UCI (Vargas-Govea, González-Serna, Ponce-Medellín 2011)",
    UNSTATED,
    header=True,
)
JESTER = Known("jester", "Jester jokes", -10, 10, "Goldberg et al., Eigentaste (2001)", UNSTATED)
AMAZON = Known("amazon", "Amazon ratings", 1, 5, "McAuley et al. (2015)", UNSTATED, "\t")

# What a folder of a known set holds, most telling first.
FOLDER_FILES = (
    "u.data",
    "ratings.dat",
    "ratings.csv",
    "rating_final.csv",
    "jester-data-1.csv",
    "Amazon_*.txt",
)


def recognise(source: Source, head: bytes) -> Known | None:
    """The public set a file belongs to, from its name, its first line and its neighbours."""
    name = source.name.lower()
    first = head.split(b"\n", 1)[0].strip().decode("latin-1").lstrip("\xef\xbb\xbf")
    if re.fullmatch(r"u\.data|u[1-5ab]\.(base|test)", name) and first.count("\t") == 3:
        return ML_100K
    if re.fullmatch(r"ratings\.dat|r[1-5ab]\.(train|test)", name) and "::" in first:
        if source.beside("tags.dat") or name != "ratings.dat":
            return ML_10M
        return ML_1M if source.beside("users.dat") else None
    if first.lower() == "userid,movieid,rating,timestamp":
        return ML_CSV
    if first.lower().startswith("userid,placeid,rating"):
        return RESTAURANTS
    if is_jester(first):
        return JESTER
    if name.startswith("amazon") and first.count("\t") in (2, 3):
        return AMAZON
    return None


def is_jester(line: str) -> bool:
    """Jester's layout: how many jokes were rated, then 100 columns, 99 where one was not."""
    fields = line.split(",")
    if len(fields) != 101:
        return False
    try:
        numbers = [float(field) for field in fields]
    except ValueError:
        return False
    return numbers[0] == sum(number != 99 for number in numbers[1:])


def find_in_folder(folder: Path) -> Path | None:
    """The ratings file of a known set's folder."""
    for pattern in FOLDER_FILES:
        for path in sorted(folder.glob(pattern)):
            return path
    return None


def titles(source: Source) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Title and genres by item id, from the file beside MovieLens ratings; {} where none is."""
    if path := source.beside("u.item"):
        return _ml_100k_titles(path)
    if path := source.beside("movies.dat"):
        rows = [line.split("::") for line in _text(path).splitlines()]
    elif path := source.beside("movies.csv"):
        rows = list(csv.reader(_text(path).splitlines()))[1:]
    else:
        return {}
    return {row[0]: (row[1], _genres(row[2])) for row in rows if len(row) == 3}


def _ml_100k_titles(path: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    listing = path.with_name("u.genre")
    names = (
        [line.split("|")[0] for line in _text(listing).splitlines() if line]
        if listing.is_file()
        else []
    )
    found = {}
    for line in _text(path).splitlines():
        fields = line.split("|")
        if len(fields) > 5:
            flags = zip(names, fields[5:], strict=False)
            own = tuple(name for name, flag in flags if flag == "1" and name != "unknown")
            found[fields[0]] = (fields[1], own)
    return found


def _genres(text: str) -> tuple[str, ...]:
    return () if text.startswith("(no genres") else tuple(text.split("|"))


def _text(path: Path) -> str:
    """UTF-8 where it is (MovieLens 10M and later), Latin-1 otherwise (100K and 1M)."""
    content = path.read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")
