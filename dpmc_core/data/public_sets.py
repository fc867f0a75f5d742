"""Public rating sets: how a file of one is recognised, its range, titles and terms; and downloads.

An archive arrives in a temporary folder beside its final place. Only one with the published
checksum is unpacked there, and what it holds then appears under its final name, complete, with a
note of where it came from. Of one that nobody publishes a checksum for, the ratings it holds must
be those this program knows, byte for byte.
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

from dpmc_core import archives, facts, paths
from dpmc_core.data.source import Source
from dpmc_core.errors import BadRatings, DpmcError, unknown_name

NOTE = "dpmc-source.json"  # what a download writes into its folder
_NOTE_BYTES = 65_536
ATTEMPTS = 3  # connections to an address, each from the start
CHUNK = 1 << 18
TIMEOUT = 30.0  # seconds without a byte
UNPACKED_LIMIT = archives.LARGEST  # bytes: an archive that claims more is not a MovieLens set

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all where known


class DownloadError(DpmcError):
    """A download that failed; nothing of it is kept."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """A public set, as public_sets.toml has it, which says more about what recognises its files.

    Of its ZIP archive on a server: url, megabytes; md5, sha256: its published checksum; neither:
    its MD5 is read from url + '.md5', or with `by_contents` the ratings in it must be known ones.
    also: other addresses of the same archive, asked where the first does not answer. workbook: what
    it holds in the place of the set's first file.

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
    url: str = ""
    megabytes: float = 0.0
    md5: str | None = None
    sha256: str | None = None
    by_contents: bool = False
    also: tuple[str, ...] = ()
    workbook: str = ""
    by_hand: bool = False
    file: str = ""
    by: str = ""
    exact: bool = False

    @property
    def words(self) -> str:
        """Which set it is, and how that is known."""
        return f"{self.title}, {self.by}"


_FACTS = facts.load("dpmc_core.data", "public_sets.toml")
SETS: Mapping[str, Known] = {
    id: facts.into(Known, {**table, "id": id, "licence": _FACTS["licences"][table["licence"]]}, id)
    for id, table in _FACTS["sets"].items()
}
FOLDER_FILES: Sequence[str] = _FACTS["folder_files"]
ARCHIVES = {id: known for id, known in SETS.items() if known.url}
# Sets whose terms leave fetching them to a person, who puts the file into `folder_of(name)`.
BY_HAND = {id: known for id, known in SETS.items() if known.by_hand}


def recognise(source: Source) -> Known | None:
    """The public set that a file belongs to: by its checksum, wherever it lies and whatever it is
    called; by the note of a download beside it; by what lies beside it in the set's archive.

    Never by its name or first line alone: these only decide whether neighbours speak for it.
    """
    return _by_checksum(source) or _by_note(source) or _by_neighbours(source)


def _by_checksum(source: Source) -> Known | None:
    for public_set in SETS.values():
        for size, checksum, file in public_set.prints:
            if source.size == size and source.checksum == checksum:
                return replace(public_set, file=file, by="by its checksum", exact=True)
    return None


def _by_note(source: Source) -> Known | None:
    path = source.beside(NOTE)
    if path is None:
        return None
    try:
        note = archives.read_json(path.read_bytes()[:_NOTE_BYTES])
        public_set = SETS[note["set"]]
        for file, (size, checksum) in note["files"].items():
            if source.size == size and source.checksum == checksum:
                recognised_by = "by its checksum in the note of its download"
                return replace(public_set, file=str(file), by=recognised_by, exact=True)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # not as a download wrote it: it says nothing
    return None


def _by_neighbours(source: Source) -> Known | None:
    first = source.head().split(b"\n", 1)[0].decode("utf-8-sig", "replace").strip()
    for public_set in SETS.values():
        if (
            public_set.beside
            and any(fnmatchcase(source.name, pattern) for pattern in public_set.files)
            and re.match(public_set.begins, first)
            and all(source.beside(name) for name in public_set.beside)
            and _says(source.beside(public_set.beside[0]), public_set.readme)
        ):
            *others, last = public_set.beside
            recognised_by = f"by its neighbours {', '.join(others)} and {last}"
            return replace(public_set, file=source.name, by=recognised_by)
    return None


def holds(public_set: Known, folder: Path) -> bool:
    """Whether a folder has the set's ratings with not a byte changed."""
    sources = [Source.file(path) for name in public_set.files for path in folder.glob(name)]
    matches = [_by_checksum(source) for source in sources]
    return bool(matches) and all(
        match is not None and match.id == public_set.id for match in matches
    )


def _says(path: Path | None, phrase: str) -> bool:
    try:
        return path is not None and phrase in " ".join(_text(path).split())
    except OSError:
        return False


def write_note(public_set: Known, folder: Path, url: str, checksum: str) -> None:
    """Say in a folder where it was unpacked from, with the checksums of the ratings it holds."""
    sources = [
        Source.file(path)
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
    (folder / NOTE).write_text(text, encoding="utf-8")


def find_in_folder(folder: Path) -> Path | None:
    """The ratings file of a known set's folder."""
    candidates = (path for pattern in FOLDER_FILES for path in sorted(folder.glob(pattern)))
    return next(candidates, None)


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
    lines = _text(listing).splitlines() if listing.is_file() else []
    names = [line.split("|")[0] for line in lines if line]
    titles = {}
    for line in _text(path).splitlines():
        fields = line.split("|")
        if len(fields) > 5:
            flags = zip(names, fields[5:], strict=False)
            genres = tuple(name for name, flag in flags if flag == "1" and name != "unknown")
            titles[fields[0]] = (fields[1], genres)
    return titles


def _genres(text: str) -> tuple[str, ...]:
    return () if text.startswith("(no genres") else tuple(text.split("|"))


def _text(path: Path) -> str:
    """UTF-8 where it is (MovieLens 10M and later), Latin-1 otherwise (100K and 1M)."""
    content = path.read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


# Downloads ----------------------------------------------------------------------------------------


def folder_of(name: str, home: Path | None = None) -> Path:
    """Where the unpacked set lies, or would."""
    return (home or paths.home()) / "data" / name


def downloaded(name: str) -> Path:
    """The folder of a public set. Raises BadRatings where it is not there yet."""
    folder = folder_of(name)
    if name in BY_HAND and not available(name):
        raise BadRatings(by_hand(name))
    if not folder.is_dir():
        raise BadRatings(f"{name} is not downloaded yet: run 'dpmc data get {name}'")
    return folder


def available(name: str) -> bool:
    """Whether the set can be opened by its name."""
    folder = folder_of(name)
    return (folder / BY_HAND[name].files[0]).is_file() if name in BY_HAND else folder.is_dir()


def by_hand(name: str) -> str:
    """What a person does to open a set of BY_HAND by its name."""
    found = BY_HAND[name]
    return (
        f"{name} is not downloaded by this program ({found.licence}): put your copy of"
        f" {found.files[0]}"
        f" into {folder_of(name)}, or name the folder that holds it"
    )


def get(name: str, progress: Progress | None = None) -> Path:
    """The folder of a public set, downloaded first where it is not there yet.

    Raises InvalidSetting for an unknown name, BadRatings for one of BY_HAND that is not there,
    DownloadError where the download fails.
    """
    if name in BY_HAND:
        return downloaded(name)
    if name not in ARCHIVES:
        raise unknown_name("public set", name, ARCHIVES)
    return fetch(ARCHIVES[name], progress=progress)


def fetch(known: Known, home: Path | None = None, progress: Progress | None = None) -> Path:
    """Download, check and unpack a set; its folder at once where that was done before."""
    folder = folder_of(known.id, home)
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{known.id}.", dir=folder.parent) as temporary:
            packed, unpacked = Path(temporary) / "archive.zip", Path(temporary) / "unpacked"
            checksum = _download(known, packed, progress)
            _unpack(known.id, packed, unpacked)
            contents = list(unpacked.iterdir())
            set_folder = contents[0] if len(contents) == 1 and contents[0].is_dir() else unpacked
            if known.workbook:
                unpack_workbook(set_folder / known.workbook, set_folder / known.files[0])
            if known.by_contents and not holds(known, set_folder):
                raise DownloadError(
                    f"{known.id} arrived without the ratings this program knows, or with others:"
                    " it was deleted, try again"
                )
            write_note(known, set_folder, known.url, checksum)
            set_folder.rename(folder)
    except OSError as error:
        if folder.is_dir():  # another process was quicker
            return folder
        raise DownloadError(f"{known.id} cannot be saved in {folder.parent}: {error}") from None
    return folder


def _published_md5(known: Known) -> str:
    try:
        with _open(known.url + ".md5") as response:
            text = response.read(4096).decode("latin-1")
    except _network_errors() as error:
        raise _unreachable(known, error) from None
    match = re.search(r"\b[0-9a-fA-F]{32}\b", text)
    if match is None:
        raise DownloadError(f"{known.url}.md5 holds no checksum, so {known.id} is not safe")
    return match.group().lower()


def _download(known: Known, file: Path, progress: Progress | None) -> str:
    """Fill `file` in at most ATTEMPTS connections to each address; its checksum, compared where one
    is expected."""
    expected = known.sha256 or known.md5
    if expected is None and not known.by_contents:
        expected = _published_md5(known)
    # An MD5 only where that is what is published.
    algorithm = "md5" if expected is not None and len(expected) == 32 else "sha256"
    failure = DownloadError("")
    for url in (known.url, *known.also):
        for _ in range(ATTEMPTS):
            try:
                found = _receive(url, file, algorithm, progress)
            except _network_errors() as error:
                failure = _unreachable(known, error)
                if getattr(error, "code", 500) < 500:  # asking again will not help
                    break
                continue
            if expected not in (None, found):
                raise DownloadError(
                    f"{known.id} arrived with checksum {found} instead of {expected}: it was"
                    " deleted, try again"
                )
            return found
    raise failure


def _receive(url: str, file: Path, algorithm: str, progress: Progress | None) -> str:
    """The archive in one connection; its checksum. Raises ConnectionError where it is cut."""
    digest, done = hashlib.new(algorithm, usedforsecurity=False), 0
    with _open(url) as response, file.open("wb") as sink:
        length = response.headers.get("Content-Length")
        total = None if length is None else int(length)
        while chunk := response.read(CHUNK):
            sink.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, total)
    if total is not None and done < total:
        raise ConnectionError(f"cut after {done / 1e6:.1f} of {total / 1e6:.1f} MB")
    return digest.hexdigest()


def _network_errors() -> tuple[type[Exception], ...]:
    """Failures of the connection, as against those of the disk."""
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


def _open(url: str) -> Any:
    import urllib.request

    request = urllib.request.Request(url, headers={"User-Agent": "dpmc-lab"})
    return urllib.request.urlopen(request, timeout=TIMEOUT)


def _unpack(id: str, packed: Path, target: Path) -> None:
    target.mkdir()
    try:
        for member, chunks in archives.contents(packed, UNPACKED_LIMIT):
            name = PurePosixPath(member.filename.replace("\\", "/"))
            is_link = (member.external_attr >> 16) & 0o170000 == 0o120000
            if name.is_absolute() or ".." in name.parts or ":" in member.filename or is_link:
                raise DownloadError(
                    f"{id} holds a file that would land elsewhere,"
                    f" {member.filename!r}: not unpacked"
                )
            destination = target.joinpath(*name.parts)
            destination.parent.mkdir(parents=True, exist_ok=True)
            with destination.open("wb") as file:
                file.writelines(chunks)
    except archives.BadArchive as error:
        raise DownloadError(f"{id} is not a readable ZIP archive: {error.reason}") from None


def unpack_workbook(workbook: Path, file: Path) -> None:
    """Write the numbers of an Excel workbook's first sheet, a line a row, and remove the workbook.

    Raises BadRatings where there is none, or where a cell of its rectangle holds no number.
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
    except Exception as error:  # of a damaged one, anything
        raise BadRatings(f"{workbook.name} cannot be read as an Excel workbook: {error}") from None
    np.savetxt(file, rows, fmt="%.10g", delimiter=",")
    workbook.unlink()


def _unreachable(known: Known, error: Exception) -> DownloadError:
    reason = getattr(error, "reason", None) or error
    return DownloadError(f"{known.id} cannot be downloaded from {known.url}: {reason}")
