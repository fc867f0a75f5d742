"""Public rating sets: how a file of one is recognised, its rating range, titles and terms."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from dpmc_core.archives import read_json
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
JESTER_TERMS = (
    "free for research use when acknowledged with: Goldberg, Roeder, Gupta, Perkins, Eigentaste: A"
    " Constant Time Collaborative Filtering Algorithm, Information Retrieval 4(2), 2001; no licence"
    " beyond that: do not redistribute"
)


@dataclass(frozen=True)
class Known:
    """A public set, and how its unpacked archive looks.

    files: patterns of the names of its files of ratings; begins: the first line of one, as a
    regular expression; beside: what lies beside them; readme: what the first of these says, ""
    where that does not matter. catalogue: users and items where ids are exactly 1..users and
    1..items. workbook: what the archive holds in the place of the first of files. Of a file that
    was recognised: file, what the set calls it; by, how it was recognised; exact: that not a byte
    of it was changed.
    """

    id: str
    title: str
    low: float
    high: float
    source: str
    licence: str
    files: tuple[str, ...]
    begins: str = ""
    beside: tuple[str, ...] = ()
    readme: str = ""
    catalogue: tuple[int, int] | None = None
    workbook: str = ""
    file: str = ""
    by: str = ""
    exact: bool = False


_IN_TABS, _IN_COLONS = r"\S+(\t\S+){3}$", r"[^:]+(::[^:]+){3}$"
ML_100K = Known(
    "ml-100k",
    "MovieLens 100K",
    1,
    5,
    GROUPLENS,
    MOVIELENS_TERMS,
    ("u.data", "u[1-5ab].base", "u[1-5ab].test"),
    _IN_TABS,
    ("README", "u.item", "u.user"),
    "100,000 ratings",
    (943, 1682),
)
ML_1M = Known(
    "ml-1m",
    "MovieLens 1M",
    1,
    5,
    GROUPLENS,
    MOVIELENS_TERMS,
    ("ratings.dat",),
    _IN_COLONS,
    ("README", "movies.dat", "users.dat"),
    "1,000,209 anonymous ratings",
)
ML_10M = Known(
    "ml-10m",
    "MovieLens 10M",
    0.5,
    5,
    GROUPLENS,
    MOVIELENS_TERMS,
    ("ratings.dat", "r[1-5ab].train", "r[1-5ab].test"),
    _IN_COLONS,
    ("README.html", "movies.dat", "tags.dat"),
    "10000054 ratings",
)


def _later(id: str, title: str) -> Known:
    """A MovieLens set of one of the later archives, which are all built alike."""
    return Known(
        id,
        title,
        0.5,
        5,
        GROUPLENS,
        MOVIELENS_LATER_TERMS,
        ("ratings.csv",),
        r"userId,movieId,rating,timestamp$",
        ("README.txt", "movies.csv", "links.csv", "tags.csv"),
        f"({id})",
    )


RESTAURANTS = Known(
    "restaurant",
    "Restaurant and consumer data",
    0,
    2,
    "UCI (Vargas-Govea, González-Serna, Ponce-Medellín 2011)",
    UNSTATED,
    ("rating_final.csv",),
    r"userID,placeID,rating,food_rating,service_rating$",
    ("geoplaces2.csv", "userprofile.csv"),
)
JESTER = Known(
    "jester",
    "Jester jokes",
    -10,
    10,
    "Goldberg et al., Eigentaste (2001)",
    JESTER_TERMS,
    ("jester-data-1.csv",),
    workbook="jester-data-1.xls",
)
AMAZON = Known(
    "amazon",
    "Amazon ratings",
    1,
    5,
    "McAuley et al. (2015)",
    UNSTATED,
    ("Amazon_Instant_Video_5.txt",),
)
SETS: Mapping[str, Known] = {
    known.id: known
    for known in (
        ML_100K,
        ML_1M,
        ML_10M,
        *(_later(f"ml-{size}m", f"MovieLens {size}M") for size in (20, 25, 32)),
        _later("ml-latest", "MovieLens latest"),
        _later("ml-latest-small", "MovieLens latest, small"),
        RESTAURANTS,
        JESTER,
        AMAZON,
    )
}

# What a folder of a known set holds, most telling first.
FOLDER_FILES = (
    "u.data",
    "ratings.dat",
    "ratings.csv",
    "rating_final.csv",
    "jester-data-1.csv",
    "Amazon_*.txt",
)
NOTE = "dpmc-source.json"  # what a download writes into its folder
_NOTE_BYTES = 65_536

# Files that are known wherever they lie: size in bytes, SHA-256, the set and what it calls them.
_PRINTS = (
    (
        1979173,
        "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
        ML_100K,
        "u.data",
    ),
    (
        1586544,
        "ce253ec86c448b44fb3ba9a30d12dcfc2e9210cbde71efada3730c22e9ac212a",
        ML_100K,
        "u1.base",
    ),
    (
        392629,
        "18c6014a4b2c7324f250a63f8904a7b16b2b19f911129e346141507b0cbac950",
        ML_100K,
        "u1.test",
    ),
    (
        1583948,
        "6c06f0b5df4b256da1a994f3ac66edc8da4d3f09bc9282df6b14d893366d703e",
        ML_100K,
        "u2.base",
    ),
    (
        395225,
        "4de658d1e04ed9104629509a2e2528fce833ac8e048280183f1df167632038c3",
        ML_100K,
        "u2.test",
    ),
    (
        1582546,
        "afdc155c291c6edc41c0407e39d7462eb98d341e064f0b0a12175b80b3c4af5d",
        ML_100K,
        "u3.base",
    ),
    (
        396627,
        "0f548b51c78327de4c156461d3e430b7e5579fe2b5681586a59416e48fd35f6d",
        ML_100K,
        "u3.test",
    ),
    (
        1581878,
        "219f0f4d40dfe9c5141d425f53fa91ee23ed275f14e280bbf1b50117afb064ca",
        ML_100K,
        "u4.base",
    ),
    (
        397295,
        "7c02ad0a1e7ab1083c8b9d4b627203a051dd7b5eab46d99fa44de33470de8db9",
        ML_100K,
        "u4.test",
    ),
    (
        1581776,
        "a9574e59ce961eec2121627760b6e9b0974ce1637b3fe69ac32cb14a4bfab485",
        ML_100K,
        "u5.base",
    ),
    (
        397397,
        "351cc52e0d15b6c721466276fc24671d40936899e3d01fadeaf312915b8c5634",
        ML_100K,
        "u5.test",
    ),
    (
        22107,
        "87783b34f497a45eb37d58a2912e28badfafd208d048c343d57da466af0fe50b",
        RESTAURANTS,
        RESTAURANTS.files[0],
    ),
    (  # as in UCI's archive: the same ratings in another order
        22108,
        "fc994ea4e872365fc63e7f0bc970b36f86edeb4e80218d6a674a3d0e51181901",
        RESTAURANTS,
        RESTAURANTS.files[0],
    ),
    (
        11712553,
        "4692895acc91263ec11592cb94687725e28afdd451845ab46c2ac6ba3ebc414e",
        JESTER,
        JESTER.files[0],
    ),
    (
        413202,
        "6c856ce2e162894d3fd240e8b943be745a2d1f9d0de4b2ca435f04c091f37801",
        AMAZON,
        AMAZON.files[0],
    ),
)


def recognise(source: Source) -> Known | None:
    """The public set that a file belongs to: by its checksum, wherever it lies and whatever it is
    called; by the note of a download beside it; by what lies beside it in the set's archive.

    Never by its name or first line alone: these only decide whether neighbours speak for it.
    """
    return _by_checksum(source) or _by_note(source) or _by_neighbours(source)


def _by_checksum(source: Source) -> Known | None:
    for size, checksum, known, file in _PRINTS:
        if source.size == size and source.checksum == checksum:
            return replace(known, file=file, by="by its checksum", exact=True)
    return None


def _by_note(source: Source) -> Known | None:
    path = source.beside(NOTE)
    if path is None:
        return None
    try:
        note = read_json(path.read_bytes()[:_NOTE_BYTES])
        known = SETS[note["set"]]
        for file, (size, checksum) in note["files"].items():
            if source.size == size and source.checksum == checksum:
                by = "by its checksum in the note of its download"
                return replace(known, file=str(file), by=by, exact=True)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # not as a download wrote it: it says nothing
    return None


def _by_neighbours(source: Source) -> Known | None:
    first = source.head().split(b"\n", 1)[0].decode("utf-8-sig", "replace").strip()
    for known in SETS.values():
        if (
            known.beside
            and any(fnmatchcase(source.name, pattern) for pattern in known.files)
            and re.match(known.begins, first)
            and all(source.beside(name) for name in known.beside)
            and _says(source.beside(known.beside[0]), known.readme)
        ):
            *others, last = known.beside
            by = f"by its neighbours {', '.join(others)} and {last}"
            return replace(known, file=source.name, by=by)
    return None


def holds(known: Known, folder: Path) -> bool:
    """Whether a folder has the set's ratings with not a byte changed."""
    found = [Source.file(path) for name in known.files for path in folder.glob(name)]
    marks = [_by_checksum(source) for source in found]
    return bool(marks) and all(mark is not None and mark.id == known.id for mark in marks)


def _says(path: Path | None, words: str) -> bool:
    try:
        return path is not None and words in " ".join(_text(path).split())
    except OSError:
        return False


def write_note(known: Known, folder: Path, url: str, checksum: str) -> None:
    """Say in a folder where it was unpacked from, with the checksums of the ratings it holds."""
    sources = [
        Source.file(path)
        for path in sorted(folder.iterdir())
        if path.is_file() and any(fnmatchcase(path.name, pattern) for pattern in known.files)
    ]
    note = {
        "set": known.id,
        "title": known.title,
        "licence": known.licence,
        "url": url,
        "checksum": checksum,
        "files": {source.name: (source.size, source.checksum) for source in sources},
    }
    text = json.dumps(note, indent=2, ensure_ascii=False) + "\n"
    (folder / NOTE).write_text(text, encoding="utf-8")


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
