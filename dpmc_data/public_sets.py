"""Public rating sets: recognition of their files, their ranges, titles and terms; and downloads.

An archive is downloaded into a temporary folder beside its final place. Only an archive with the
published checksum is unpacked there, and its contents then appear under their final name, complete,
with a note of their origin. If nobody publishes a checksum of an archive, the ratings in it must be
those that this program knows, byte for byte.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from dpmc_core.errors import BadRatings, DpmcError, unknown_name_error
from dpmc_data import archives, facts, paths
from dpmc_data.source import Source

NOTE_FILE = "dpmc-source.json"  # what a download writes into its folder
_NOTE_BYTES = 65_536
ATTEMPTS = 3  # connections to an address, each from the start
CHUNK_BYTES = 1 << 18
TIMEOUT = 30.0  # seconds without a byte
UNPACKED_LIMIT = archives.MAX_UNPACKED_BYTES  # no known set has more

DownloadProgress = Callable[[int, int | None], None]  # bytes so far, bytes in all where known


class DownloadError(DpmcError):
    """A download that failed; nothing of it is kept."""


@dataclass(frozen=True, kw_only=True)
class PublicSet:
    """A public set as in public_sets.toml, which explains how its files are recognised.

    Attributes:
        id: its command-line name.
        title: the name for display.
        low: lower end of the rating range, in rating points.
        high: upper end of the rating range, in rating points.
        source: who published it.
        licence: terms of use.
        files: patterns of the names of its files of ratings; the first one is the main file.
        begins: regular expression that the first line of a file of ratings matches.
        beside: names of files that lie beside it in the archive.
        readme: a phrase that the first file of `beside` contains.
        catalogue: numbers of users and items, if they are known.
        prints: (size in bytes, SHA-256, file name) of known files of ratings.
        url: address of the ZIP archive; empty if it cannot be downloaded.
        megabytes: size of the archive.
        md5: published MD5 of the archive.
        sha256: published SHA-256 of the archive. With neither checksum the MD5 is read from url +
            '.md5', unless `by_contents` is set.
        by_contents: whether the ratings in the archive must be known ones instead.
        also: other addresses of the same archive, tried if the first does not answer.
        workbook: an Excel workbook in the archive that holds the main file's ratings.
        by_hand: whether a person must download the set.
        holds: what a person puts into the main file, if that is not known by its checksum.
        file: of a file that was recognised: its name in the set.
        recognised_by: how it was recognised, as a phrase.
        exact: whether not a byte of it was changed.
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
    url: str = ""
    megabytes: float = 0.0
    md5: str | None = None
    sha256: str | None = None
    by_contents: bool = False
    also: tuple[str, ...] = ()
    workbook: str = ""
    by_hand: bool = False
    holds: str = ""
    file: str = ""
    recognised_by: str = ""
    exact: bool = False

    @property
    def name(self) -> str:
        """Its id, with the file if that is one fold."""
        return self.id if self.file == self.files[0] else f"{self.id}/{self.file}"

    @property
    def description(self) -> str:
        """Which set it is, and how it was recognised."""
        return f"{self.title}, {self.recognised_by}"


_TABLES = facts.load_toml("dpmc_data", "public_sets.toml")
SETS: Mapping[str, PublicSet] = {
    id: facts.build_from_table(
        PublicSet, {**table, "id": id, "licence": _TABLES["licences"][table["licence"]]}, id
    )
    for id, table in _TABLES["sets"].items()
}
FOLDER_FILES: Sequence[str] = _TABLES["folder_files"]
ARCHIVES = {id: public_set for id, public_set in SETS.items() if public_set.url}
# Sets that a person must download, by their terms, into `get_set_folder(name)`.
BY_HAND = {id: public_set for id, public_set in SETS.items() if public_set.by_hand}


def recognise_public_set(source: Source) -> PublicSet | None:
    """Return the public set to which a file belongs.

    A file is recognised by its checksum, wherever it lies and whatever it is called; by the note of
    a download beside it; by the files beside it in the set's archive; or by its place, if a person
    put it where the program reads that set. Its name or first line alone never suffice: they only
    decide whether its neighbours count as evidence.
    """
    return (
        _recognise_by_checksum(source)
        or _recognise_by_note(source)
        or _recognise_by_neighbours(source)
        or _recognise_by_place(source)
    )


def _recognise_by_checksum(source: Source) -> PublicSet | None:
    """Return the set one of whose files has the size and checksum of the source."""
    for public_set in SETS.values():
        for size, checksum, file in public_set.prints:
            if source.size == size and source.checksum == checksum:
                return replace(public_set, file=file, recognised_by="by its checksum", exact=True)
    return None


def _recognise_by_note(source: Source) -> PublicSet | None:
    """Return the set that a download's note beside the file names with the file's checksum."""
    path = source.find_neighbour(NOTE_FILE)
    if path is None:
        return None
    try:
        note = archives.parse_json(path.read_bytes()[:_NOTE_BYTES])
        public_set = SETS[note["set"]]
        for file, (size, checksum) in note["files"].items():
            if source.size == size and source.checksum == checksum:
                recognised_by = "by its checksum in the note of its download"
                return replace(public_set, file=str(file), recognised_by=recognised_by, exact=True)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # a note that no download wrote is no evidence
    return None


def _recognise_by_neighbours(source: Source) -> PublicSet | None:
    """Return the set whose other files, with its readme, lie beside the file.

    Name and first line are compared first because that is cheap; the neighbours are the evidence.
    """
    first = source.read_head().split(b"\n", 1)[0].decode("utf-8-sig", "replace").strip()
    for public_set in SETS.values():
        if (
            public_set.beside
            and any(fnmatchcase(source.name, pattern) for pattern in public_set.files)
            and re.match(public_set.begins, first)
            and all(source.find_neighbour(name) for name in public_set.beside)
            and _contains_phrase(source.find_neighbour(public_set.beside[0]), public_set.readme)
        ):
            *neighbours, last = public_set.beside
            recognised_by = f"by its neighbours {', '.join(neighbours)} and {last}"
            return replace(public_set, file=source.name, recognised_by=recognised_by)
    return None


def _recognise_by_place(source: Source) -> PublicSet | None:
    """Return the set whose folder the file lies in, if a person had to put it there."""
    for public_set in BY_HAND.values():
        if public_set.holds and source.path == get_set_folder(public_set.id) / public_set.files[0]:
            recognised_by = "by the place where you put your copy"
            return replace(public_set, file=source.name, recognised_by=recognised_by)
    return None


def has_unchanged_ratings(public_set: PublicSet, folder: Path) -> bool:
    """Return whether a folder has the set's ratings with not a byte changed."""
    sources = [Source.from_file(path) for name in public_set.files for path in folder.glob(name)]
    matches = [_recognise_by_checksum(source) for source in sources]
    return {match and match.id for match in matches} == {public_set.id}


def _contains_phrase(path: Path | None, phrase: str) -> bool:
    """Return whether a file can be read and holds a phrase, in whatever lines it is broken."""
    try:
        return path is not None and phrase in " ".join(_read_text(path).split())
    except OSError:
        return False


def write_note(public_set: PublicSet, folder: Path, url: str, checksum: str) -> None:
    """Write a note into a folder about where it was downloaded from.

    Args:
        public_set: the set.
        folder: the folder with the files of ratings, whose checksums enter the note.
        url: the address of the archive.
        checksum: the checksum of the archive.
    """
    sources = [
        Source.from_file(path)
        for path in sorted(folder.iterdir())
        if path.is_file() and any(fnmatchcase(path.name, pattern) for pattern in public_set.files)
    ]
    note = {
        "set": public_set.id,
        "title": public_set.title,
        "licence": public_set.licence,
        "url": url,
        "checksum": checksum,
        "files": {source.name: (source.size, source.checksum) for source in sources},
    }
    text = json.dumps(note, indent=2, ensure_ascii=False) + "\n"
    (folder / NOTE_FILE).write_text(text, encoding="utf-8")


def find_ratings_file(folder: Path) -> Path | None:
    """Return the ratings file of a known set's folder; None if there is none."""
    candidates = (path for pattern in FOLDER_FILES for path in sorted(folder.glob(pattern)))
    return next(candidates, None)


def read_titles(source: Source) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Read titles and genres by item id from the file beside MovieLens ratings; {} without one."""
    if path := source.find_neighbour("u.item"):
        return _read_ml_100k_titles(path)
    if path := source.find_neighbour("movies.dat"):
        rows = [line.split("::") for line in _read_text(path).splitlines()]
    elif path := source.find_neighbour("movies.csv"):
        rows = list(csv.reader(_read_text(path).splitlines()))[1:]
    else:
        return {}
    whole_rows = (row for row in rows if len(row) == 3)
    return {id: (title, _split_genres(genres)) for id, title, genres in whole_rows}


def _read_ml_100k_titles(path: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return titles and genres by item id; a film has a 0 or 1 for each genre of `u.genre`."""
    listing = path.with_name("u.genre")
    lines = _read_text(listing).splitlines() if listing.is_file() else []
    names = [line.split("|")[0] for line in lines if line]
    titles = {}
    for line in _read_text(path).splitlines():
        fields = line.split("|")
        if len(fields) > 5:  # id, title, two dates and an address stand before the flags
            flags = zip(names, fields[5:], strict=False)
            genres = tuple(name for name, flag in flags if flag == "1" and name != "unknown")
            id, title, *_ = fields
            titles[id] = (title, genres)
    return titles


def _split_genres(text: str) -> tuple[str, ...]:
    """Return the genres of a film; none for MovieLens' note that none are listed."""
    return () if text.startswith("(no genres") else tuple(text.split("|"))


def _read_text(path: Path) -> str:
    """Read UTF-8 if possible (MovieLens 10M and later), else Latin-1 (100K and 1M)."""
    content = path.read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


# Downloads ----------------------------------------------------------------------------------------


def get_set_folder(name: str, home: Path | None = None) -> Path:
    """Return the folder of an unpacked set, whether it exists or not."""
    return (home or paths.find_home_folder()) / "data" / name


def find_downloaded_folder(name: str) -> Path:
    """Return the folder of a public set.

    Raises:
        BadRatings: if it was not downloaded yet.
    """
    folder = get_set_folder(name)
    if name in BY_HAND and not is_downloaded(name):
        raise BadRatings(format_manual_steps(name))
    if not folder.is_dir():
        raise BadRatings(f"{name} is not downloaded yet: run 'dpmc data get {name}'")
    return folder


def is_downloaded(name: str) -> bool:
    """Return whether the set can be loaded by its name."""
    folder = get_set_folder(name)
    return (folder / BY_HAND[name].files[0]).is_file() if name in BY_HAND else folder.is_dir()


def format_manual_steps(name: str) -> str:
    """Return the instructions for opening a set of BY_HAND by its name."""
    public_set = BY_HAND[name]
    holds = public_set.holds and f" ({public_set.holds})"
    return (
        f"{name} is not downloaded by this program ({public_set.licence}): put your copy of"
        f" {public_set.files[0]}{holds} into {get_set_folder(name)}"
        + (not holds)
        * ", or name the folder that holds it"
    )


def get_public_set(name: str, progress: DownloadProgress | None = None) -> Path:
    """Return the folder of a public set, which is downloaded first if necessary.

    Args:
        name: the name of the set.
        progress: called with (bytes so far, bytes in all or None).

    Raises:
        InvalidSetting: if the name is unknown.
        BadRatings: if a person must download the set and has not done so.
        DownloadError: if the download fails.
    """
    if name in BY_HAND:
        return find_downloaded_folder(name)
    if name not in ARCHIVES:
        raise unknown_name_error("public set", name, ARCHIVES)
    return download_public_set(ARCHIVES[name], progress=progress)


def download_public_set(
    public_set: PublicSet, home: Path | None = None, progress: DownloadProgress | None = None
) -> Path:
    """Download, check and unpack a set, unless that was done before; return its folder.

    Raises:
        DownloadError: if the download fails.
    """
    folder = get_set_folder(public_set.id, home)
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=f"{public_set.id}.", dir=folder.parent
        ) as temporary:
            packed, unpacked = Path(temporary) / "archive.zip", Path(temporary) / "unpacked"
            checksum = _download(public_set, packed, progress)
            _unpack_archive(public_set.id, packed, unpacked)
            contents = list(unpacked.iterdir())
            set_folder = contents[0] if len(contents) == 1 and contents[0].is_dir() else unpacked
            if public_set.workbook:
                unpack_workbook(set_folder / public_set.workbook, set_folder / public_set.files[0])
            if public_set.by_contents and not has_unchanged_ratings(public_set, set_folder):
                raise DownloadError(
                    f"{public_set.id} arrived without the ratings this program knows, or with"
                    " others: it was deleted, try again"
                )
            write_note(public_set, set_folder, public_set.url, checksum)
            set_folder.rename(folder)
    except OSError as error:
        if folder.is_dir():  # another process was quicker
            return folder
        raise DownloadError(
            f"{public_set.id} cannot be saved in {folder.parent}: {error}"
        ) from None
    return folder


def _read_published_md5(public_set: PublicSet) -> str:
    """Return the MD5 checksum that the set's makers publish beside the archive.

    Raises:
        DownloadError: if it cannot be had, because the archive then cannot be checked.
    """
    try:
        with _open_url(public_set.url + ".md5") as response:
            text = response.read(4096).decode("latin-1")
    except _network_errors() as error:
        raise _unreachable_error(public_set, error) from None
    match = re.search(r"\b[0-9a-fA-F]{32}\b", text)
    if match is None:
        raise DownloadError(
            f"{public_set.url}.md5 holds no checksum, so {public_set.id} is not safe"
        )
    return match.group().lower()


def _download(public_set: PublicSet, file: Path, progress: DownloadProgress | None) -> str:
    """Fill `file` from the set's addresses and return its checksum, if it is the expected one."""
    expected = public_set.sha256 or public_set.md5
    if expected is None and not public_set.by_contents:
        expected = _read_published_md5(public_set)
    # MD5 is used only if that is what is published.
    algorithm = "md5" if expected and len(expected) == 32 else "sha256"
    failure = DownloadError("")
    for url in (public_set.url, *public_set.also):
        for _ in range(ATTEMPTS):
            try:
                checksum = _receive(url, file, algorithm, progress)
            except _network_errors() as error:
                failure = _unreachable_error(public_set, error)
                if getattr(error, "code", 500) < 500:  # another attempt will not help
                    break
                continue
            if expected not in (None, checksum):
                raise DownloadError(
                    f"{public_set.id} arrived with checksum {checksum} instead of {expected}: it"
                    " was deleted, try again"
                )
            return checksum
    raise failure


def _receive(url: str, file: Path, algorithm: str, progress: DownloadProgress | None) -> str:
    """Receive the archive in one connection and return its checksum."""
    digest, received = hashlib.new(algorithm, usedforsecurity=False), 0
    with _open_url(url) as response, file.open("wb") as sink:
        length = response.headers.get("Content-Length")
        total = None if length is None else int(length)
        while chunk := response.read(CHUNK_BYTES):
            sink.write(chunk)
            digest.update(chunk)
            received += len(chunk)
            if progress:
                progress(received, total)
    if total and received < total:
        raise ConnectionError(f"cut after {received / 1e6:.1f} of {total / 1e6:.1f} MB")
    return digest.hexdigest()


def _network_errors() -> tuple[type[Exception], ...]:
    """Return the types of errors of the connection, unlike those of the disk."""
    import http.client
    import ssl
    import urllib.error

    return (
        urllib.error.URLError,
        http.client.HTTPException,
        ConnectionError,
        TimeoutError,
        ssl.SSLError,
    )


def _open_url(url: str) -> Any:
    """Open an address, with the name of the program for the server's log."""
    import urllib.request

    request = urllib.request.Request(url, headers={"User-Agent": "dpmc-lab"})
    return urllib.request.urlopen(request, timeout=TIMEOUT)


def _unpack_archive(id: str, packed: Path, target: Path) -> None:
    """Unpack a ZIP archive into a new folder.

    Raises:
        DownloadError: if it is damaged, or a member is a link or lies outside the folder.
    """
    target.mkdir()
    try:
        for member, chunks in archives.iterate_members(packed, UNPACKED_LIMIT):
            name = PurePosixPath(member.filename.replace("\\", "/"))
            # The upper half holds the mode of Unix, in which 0o12 is the type of a link.
            is_link = (member.external_attr >> 16) & 0o170000 == 0o120000
            if name.is_absolute() or ".." in name.parts or ":" in member.filename or is_link:
                reason = f"would land elsewhere, {member.filename!r}: not unpacked"
                raise DownloadError(f"{id} holds a file that {reason}")
            destination = target.joinpath(*name.parts)
            destination.parent.mkdir(parents=True, exist_ok=True)
            with destination.open("wb") as file:
                file.writelines(chunks)
    except archives.BadArchive as error:
        raise DownloadError(f"{id} is not a readable ZIP archive: {error.reason}") from None


def unpack_workbook(workbook: Path, file: Path) -> None:
    """Write the numbers of an Excel workbook's first sheet, a line per row; delete the workbook.

    Raises:
        BadRatings: if there is no workbook, a cell holds no number, or the package xlrd is missing.
    """
    try:
        import xlrd
    except ImportError:
        raise BadRatings(
            f"{workbook.name} is an Excel workbook; reading it needs the package xlrd (pip install"
            " xlrd)"
        ) from None
    try:
        sheet = xlrd.open_workbook(
            file_contents=workbook.read_bytes(), logfile=io.StringIO()
        ).sheet_by_index(0)
        rows = np.array([sheet.row_values(k) for k in range(sheet.nrows)], dtype=np.float64)
    except Exception as error:  # a damaged workbook can raise anything
        raise BadRatings(f"{workbook.name} cannot be read as an Excel workbook: {error}") from None
    np.savetxt(file, rows, fmt="%.10g", delimiter=",")
    workbook.unlink()


def _unreachable_error(public_set: PublicSet, error: Exception) -> DownloadError:
    """Return the error for an address that cannot be reached, with the reason."""
    reason = getattr(error, "reason", None) or error
    return DownloadError(f"{public_set.id} cannot be downloaded from {public_set.url}: {reason}")
