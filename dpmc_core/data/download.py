"""Download of public rating sets: checked, unpacked once.

An archive arrives in a temporary folder beside its final place. Only one with the published
checksum is unpacked there, and what it holds then appears under its final name, complete, with a
note of where it came from. Of one that nobody publishes a checksum for, the ratings it holds must
be those this program knows, byte for byte.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from dpmc_core import archives, paths
from dpmc_core.data import public_sets, workbook
from dpmc_core.errors import BadRatings, DpmcError, unknown_name

BASE = "https://files.grouplens.org/datasets/movielens/"
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
    of the same archive, asked where the first does not answer.
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


@dataclass(frozen=True)
class ByHand:
    """A set whose terms leave fetching it to a person, who puts its file into `folder_of(name)`."""

    name: str
    title: str
    file: str
    terms: str


def _known(name: str, url: str, megabytes: float, **checked: Any) -> Archive:
    known = public_sets.SETS[name]
    return Archive(name, known.title, url, megabytes, known.licence, **checked)


def _movielens(name: str, megabytes: float, md5: str | None) -> Archive:
    return _known(name, f"{BASE}{name}.zip", megabytes, md5=md5)


ARCHIVES: Mapping[str, Archive] = {
    archive.name: archive
    for archive in (
        _movielens("ml-100k", 5, "0e33842e24a9c977be4e0107933c0723"),
        _movielens("ml-1m", 6, "c4d9eecfca2ab87c1945afe126590906"),
        _movielens("ml-10m", 63, "ce571fd55effeba0271552578f2648bd"),
        _movielens("ml-25m", 250, "6b51fb2759a8657d3bfcbfc42b592ada"),
        # Rebuilt by GroupLens now and then, so its checksum is read beside it.
        _movielens("ml-latest-small", 1, None),
        # Part 1 of 3, a workbook of Excel.
        _known(
            "jester",
            "https://eigentaste.berkeley.edu/dataset/archive/jester_dataset_1_1.zip",
            4,
            sha256="cb7841756ded125b15f3d95c9f8241224065e96354c132a46ae4214deeab7615",
            also=("https://goldberg.berkeley.edu/jester-data/jester-data-1.zip",),
        ),
        _known(
            "restaurant",
            "https://archive.ics.uci.edu/ml/machine-learning-databases/00232/RCdata.zip",
            0.04,
            by_contents=True,
        ),
    )
}
BY_HAND: Mapping[str, ByHand] = {
    known.id: ByHand(known.id, known.title, known.files[0], known.licence)
    for known in (public_sets.AMAZON,)
}


def folder_of(name: str, home: Path | None = None) -> Path:
    """Where the unpacked set lies, or would."""
    return (home or paths.home()) / "data" / name


def downloaded(name: str) -> Path:
    """The folder of a public set. Raises BadRatings where it is not there yet."""
    folder = folder_of(name)
    if name in BY_HAND and not (folder / BY_HAND[name].file).is_file():
        raise BadRatings(by_hand(name))
    if not folder.is_dir():
        raise BadRatings(f"{name} is not downloaded yet: run 'dpmc data get {name}'")
    return folder


def available(name: str) -> bool:
    """Whether the set can be opened by its name."""
    folder = folder_of(name)
    return (folder / BY_HAND[name].file).is_file() if name in BY_HAND else folder.is_dir()


def by_hand(name: str) -> str:
    """What a person does to open a set of BY_HAND by its name."""
    found = BY_HAND[name]
    return (
        f"{name} is not downloaded by this program ({found.terms}): put your copy of {found.file}"
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
                if known.workbook:
                    workbook.to_csv(ready / known.workbook, ready / known.files[0])
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


def _unreachable(archive: Archive, error: Exception) -> DownloadError:
    reason = getattr(error, "reason", None) or error
    return DownloadError(f"{archive.name} cannot be downloaded from {archive.url}: {reason}")
