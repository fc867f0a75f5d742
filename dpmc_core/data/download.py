"""Download of public rating sets: checked, unpacked once.

An archive arrives in a temporary folder beside its final place. Only one with the published
checksum is unpacked there, and what it holds then appears under its final name, complete, with a
note of where it came from. Of one that nobody publishes a checksum for, the ratings it holds must
be those this program knows, byte for byte.
"""

from __future__ import annotations

import hashlib
import io
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from dpmc_core import archives, facts, paths
from dpmc_core.data import public_sets
from dpmc_core.errors import BadRatings, DpmcError, unknown_name

ATTEMPTS = 3  # connections per call, each from the start
CHUNK = 1 << 18
TIMEOUT = 30.0  # seconds without a byte
UNPACKED_LIMIT = archives.LARGEST  # bytes: an archive that claims more is not a MovieLens set

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all where known


class DownloadError(DpmcError):
    """A download that failed; nothing of it is kept."""


@dataclass(frozen=True)
class Archive:
    """A ZIP archive on a server. md5, sha256: its published checksum; neither: its MD5 is read from
    url + '.md5', or with `by_contents` the ratings in it must be known ones. also: other addresses
    of the same archive, asked where the first does not answer. workbook: what it holds in the place
    of the set's first file.
    """

    name: str
    title: str
    url: str
    megabytes: float
    terms: str
    md5: str | None = None
    sha256: str | None = None
    by_contents: bool = False
    also: tuple[str, ...] = ()
    workbook: str = ""


ARCHIVES: Mapping[str, Archive] = {
    known.id: facts.into(
        Archive,
        {"name": known.id, "title": known.title, "terms": known.licence, **known.archive},
        known.id,
    )
    for known in public_sets.SETS.values()
    if known.archive is not None
}
# Sets whose terms leave fetching them to a person, who puts the file into `folder_of(name)`.
BY_HAND = {id: known for id, known in public_sets.SETS.items() if known.by_hand}


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


def get(name: str, home: Path | None = None, progress: Progress | None = None) -> Path:
    """The folder of a public set, downloaded first where it is not there yet.

    Raises InvalidSetting for an unknown name, BadRatings for one of BY_HAND that is not there,
    DownloadError where the download fails.
    """
    if name in BY_HAND:
        return downloaded(name)
    if name not in ARCHIVES:
        raise unknown_name("public set", name, ARCHIVES)
    return fetch(ARCHIVES[name], home, progress)


def fetch(archive: Archive, home: Path | None = None, progress: Progress | None = None) -> Path:
    """Download, check and unpack an archive; its folder at once where that was done before."""
    folder = folder_of(archive.name, home)
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        expected = archive.sha256 or archive.md5
        if expected is None and not archive.by_contents:
            expected = _published_md5(archive)
        with tempfile.TemporaryDirectory(prefix=f"{archive.name}.", dir=folder.parent) as there:
            packed, unpacked = Path(there) / "archive.zip", Path(there) / "unpacked"
            found = _download(archive, packed, expected, progress)
            _unpack(archive, packed, unpacked)
            inside = list(unpacked.iterdir())
            ready = inside[0] if len(inside) == 1 and inside[0].is_dir() else unpacked
            if (known := public_sets.SETS.get(archive.name)) is not None:
                if archive.workbook:
                    unpack_workbook(ready / archive.workbook, ready / known.files[0])
                if archive.by_contents and not public_sets.holds(known, ready):
                    raise DownloadError(
                        f"{archive.name} arrived without the ratings this program knows, or with"
                        " others: it was deleted, try again"
                    )
                public_sets.write_note(known, ready, archive.url, found)
            ready.rename(folder)
    except OSError as error:
        if folder.is_dir():  # another process was quicker
            return folder
        raise DownloadError(f"{archive.name} cannot be saved in {folder.parent}: {error}") from None
    return folder


def _published_md5(archive: Archive) -> str:
    try:
        with _open(archive.url + ".md5") as response:
            text = response.read(4096).decode("latin-1")
    except _network_errors() as error:
        raise _unreachable(archive, error) from None
    found = re.search(r"\b[0-9a-fA-F]{32}\b", text)
    if found is None:
        raise DownloadError(f"{archive.url}.md5 holds no checksum, so {archive.name} is not safe")
    return found.group().lower()


def _download(archive: Archive, file: Path, expected: str | None, progress: Progress | None) -> str:
    """Fill `file` in at most ATTEMPTS connections to each address; its checksum, compared where one
    is expected."""
    # An MD5 only where that is what is published.
    kind = "md5" if expected is not None and len(expected) == 32 else "sha256"
    for place, url in enumerate((archive.url, *archive.also), 1):
        for attempt in range(1, ATTEMPTS + 1):
            digest = hashlib.new(kind, usedforsecurity=False)
            try:
                found = _receive(url, file, digest, progress)
            except _network_errors() as error:
                refused = getattr(error, "code", 500) < 500  # asking again will not help
                if refused or attempt == ATTEMPTS:
                    if place > len(archive.also):
                        raise _unreachable(archive, error) from None
                    break
            else:
                if expected is not None and found != expected:
                    raise DownloadError(
                        f"{archive.name} arrived with checksum {found} instead of {expected}: it"
                        " was deleted, try again"
                    )
                return found
    raise AssertionError("the last address either answers or raises")


def _receive(url: str, file: Path, digest: Any, progress: Progress | None) -> str:
    """The archive in one connection; its checksum. Raises ConnectionError where it is cut."""
    done = 0
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
    return str(digest.hexdigest())


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


def _unpack(archive: Archive, packed: Path, target: Path) -> None:
    target.mkdir()
    try:
        for member, pieces in archives.contents(packed, UNPACKED_LIMIT):
            name = PurePosixPath(member.filename.replace("\\", "/"))
            is_link = (member.external_attr >> 16) & 0o170000 == 0o120000
            if name.is_absolute() or ".." in name.parts or ":" in member.filename or is_link:
                raise DownloadError(
                    f"{archive.name} holds a file that would land elsewhere,"
                    f" {member.filename!r}: not unpacked"
                )
            place = target.joinpath(*name.parts)
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("wb") as file:
                file.writelines(pieces)
    except archives.BadArchive as error:
        raise DownloadError(
            f"{archive.name} is not a readable ZIP archive: {error.reason}"
        ) from None


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


def _unreachable(archive: Archive, error: Exception) -> DownloadError:
    reason = getattr(error, "reason", None) or error
    return DownloadError(f"{archive.name} cannot be downloaded from {archive.url}: {reason}")
