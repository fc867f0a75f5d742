"""Public rating sets: how a file of one is recognised, its rating range, titles and terms."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from dpmc_core import facts
from dpmc_core.archives import read_json
from dpmc_core.data.source import Source

NOTE = "dpmc-source.json"  # what a download writes into its folder
_NOTE_BYTES = 65_536


@dataclass(frozen=True, kw_only=True)
class Known:
    """A public set, as public_sets.toml has it, which says more about what recognises its files.

    Of a file that was recognised: file, what the set calls it; by, how it was recognised; exact:
    that not a byte of it was changed.
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
    prints: tuple[tuple[int, str, str], ...] = ()
    archive: Mapping[str, Any] | None = None
    by_hand: bool = False
    file: str = ""
    by: str = ""
    exact: bool = False


_FACTS = facts.load("dpmc_core.data", "public_sets.toml")
SETS: Mapping[str, Known] = {
    id: facts.into(Known, {**table, "id": id, "licence": _FACTS["licences"][table["licence"]]}, id)
    for id, table in _FACTS["sets"].items()
}
FOLDER_FILES: Sequence[str] = _FACTS["folder_files"]


def recognise(source: Source) -> Known | None:
    """The public set that a file belongs to: by its checksum, wherever it lies and whatever it is
    called; by the note of a download beside it; by what lies beside it in the set's archive.

    Never by its name or first line alone: these only decide whether neighbours speak for it.
    """
    return _by_checksum(source) or _by_note(source) or _by_neighbours(source)


def _by_checksum(source: Source) -> Known | None:
    for known in SETS.values():
        for size, checksum, file in known.prints:
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
