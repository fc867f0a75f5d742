"""Downloads from a local server: resumed, checked, unpacked safely, every failure a sentence."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from dpmc_core.data import datasets, download
from dpmc_core.data.download import Archive, DownloadError
from dpmc_core.errors import InvalidSetting


class Server:
    """Serves `files`; `cuts` lists after how many bytes to cut each of the next answers."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cuts: list[int] = []
        self.ranges = True
        self.asked: list[tuple[str, str | None]] = []
        self.fail: list[int] = []  # status codes of the next answers
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        self.base = f"http://127.0.0.1:{self.http.server_port}/"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range")
        self.asked.append((request.path, wanted))
        content = self.files.get(request.path.lstrip("/"))
        if self.fail or content is None:
            request.send_error(self.fail.pop(0) if self.fail else 404)
            return
        start = 0
        if wanted and self.ranges:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                request.send_error(416)
                return
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {start}-/{len(content)}")
        else:
            request.send_response(200)
        body = content[start:]
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[: self.cuts.pop(0)] if self.cuts else body)


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.http.shutdown()
    running.http.server_close()


def packed(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


NOISE = np.random.default_rng(0).bytes(3_000_000)  # several chunks
GOOD = packed(
    {
        "ml-small/ratings.csv": b"userId,movieId,rating,timestamp\n1,10,4.5,1\n2,10,0.5,2\n",
        "ml-small/extra/noise.bin": NOISE,
    }
)


def archive(server: Server, content: bytes = GOOD, md5: str | None = "") -> Archive:
    server.files["ml-small.zip"] = content
    if md5 == "":
        md5 = hashlib.md5(content).hexdigest()
    return Archive("ml-small", "Small", server.base + "ml-small.zip", 3, "terms", md5)


def left_behind(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "data").iterdir())


def test_download_check_unpack_and_keep(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    small = archive(server)
    folder = download.fetch(small, tmp_path, lambda done, total: seen.append((done, total)))
    assert (folder / "extra" / "noise.bin").read_bytes() == NOISE
    assert left_behind(tmp_path) == ["ml-small"]
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1] == (len(GOOD), len(GOOD))
    assert len(datasets.load(folder).ratings) == 2
    requests = len(server.asked)
    assert download.fetch(small, tmp_path) == folder
    assert len(server.asked) == requests  # cached: no request at all


def test_a_cut_connection_goes_on_where_it_stopped(server: Server, tmp_path: Path) -> None:
    server.cuts = [1_000_000, 1_200_000]
    folder = download.fetch(archive(server), tmp_path)
    assert (folder / "extra" / "noise.bin").read_bytes() == NOISE
    assert [wanted for _, wanted in server.asked] == [None, "bytes=1000000-", "bytes=2200000-"]


def test_many_cuts_keep_what_arrived_for_the_next_call(server: Server, tmp_path: Path) -> None:
    small = archive(server)
    server.cuts = [500_000] * download.ATTEMPTS
    with pytest.raises(DownloadError, match=r"cut after 1\.5 of 3\.0 MB: run it again to go on"):
        download.fetch(small, tmp_path)
    assert left_behind(tmp_path) == ["ml-small.zip.part"]
    assert download.fetch(small, tmp_path).is_dir()
    assert server.asked[-1][1] == "bytes=1500000-"


def test_a_server_without_ranges_sends_everything_again(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    server.cuts = [1_000_000]
    folder = download.fetch(archive(server), tmp_path)
    assert (folder / "extra" / "noise.bin").read_bytes() == NOISE


def test_a_complete_part_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    small = archive(server)
    part = tmp_path / "data" / "ml-small.zip.part"
    part.parent.mkdir()
    part.write_bytes(GOOD)
    assert download.fetch(small, tmp_path).is_dir()
    assert len(server.asked) == 1


@pytest.mark.parametrize("stale", [b"another file", GOOD + b"more"])
def test_a_stale_part_fails_the_check_and_is_deleted(
    server: Server, tmp_path: Path, stale: bytes
) -> None:
    small = archive(server)
    part = tmp_path / "data" / "ml-small.zip.part"
    part.parent.mkdir()
    part.write_bytes(stale)
    with pytest.raises(DownloadError, match=r"checksum .* instead of .*deleted, try again"):
        download.fetch(small, tmp_path)
    assert left_behind(tmp_path) == []
    assert download.fetch(small, tmp_path).is_dir()


def test_a_wrong_checksum_unpacks_nothing(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="checksum"):
        download.fetch(archive(server, md5="0" * 32), tmp_path)
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("text", ["MD5 (ml-small.zip) = {}\n", "{}  ml-small.zip\n"])
def test_the_checksum_is_read_beside_the_archive(server: Server, tmp_path: Path, text: str) -> None:
    small = archive(server, md5=None)
    server.files["ml-small.zip.md5"] = text.format(hashlib.md5(GOOD).hexdigest()).encode()
    assert download.fetch(small, tmp_path).is_dir()


def test_no_published_checksum_no_download(server: Server, tmp_path: Path) -> None:
    small = archive(server, md5=None)
    with pytest.raises(DownloadError, match="cannot be downloaded"):
        download.fetch(small, tmp_path)
    server.files["ml-small.zip.md5"] = b"moved"
    with pytest.raises(DownloadError, match="holds no checksum"):
        download.fetch(small, tmp_path)


def test_a_busy_server_is_asked_again_a_missing_file_is_not(server: Server, tmp_path: Path) -> None:
    small = archive(server)
    server.fail = [404]
    with pytest.raises(DownloadError, match=r"cannot be downloaded from http.*Not Found"):
        download.fetch(small, tmp_path)
    assert len(server.asked) == 1
    server.fail = [503, 503]
    assert download.fetch(small, tmp_path).is_dir()


def test_no_server(tmp_path: Path) -> None:
    nobody = Archive("x", "X", "http://127.0.0.1:9/x.zip", 1, "terms", "0" * 32)
    with pytest.raises(DownloadError, match="x cannot be downloaded"):
        download.fetch(nobody, tmp_path)


@pytest.mark.parametrize(
    "name", ["../evil.txt", "/etc/evil.txt", "a/../../evil.txt", "C:\\evil.txt"]
)
def test_an_archive_cannot_write_elsewhere(server: Server, tmp_path: Path, name: str) -> None:
    bad = archive(server, packed({"ml-small/ratings.csv": b"1", name: b"evil"}))
    with pytest.raises(DownloadError, match="would land elsewhere"):
        download.fetch(bad, tmp_path / "home")
    assert not list(tmp_path.rglob("evil*"))
    assert not (tmp_path / "home" / "data" / "ml-small").exists()


def test_links_and_bombs_are_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        link = zipfile.ZipInfo("ml-small/link")
        link.external_attr = 0o120777 << 16
        file.writestr(link, "/etc/passwd")
    with pytest.raises(DownloadError, match="would land elsewhere"):
        download.fetch(archive(server, buffer.getvalue()), tmp_path)
    monkeypatch.setattr(download, "UNPACKED_LIMIT", 1000)
    with pytest.raises(DownloadError, match="would unpack to more"):
        download.fetch(archive(server), tmp_path / "other")


def test_not_a_zip(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="not a readable ZIP"):
        download.fetch(archive(server, b"<html>login</html>"), tmp_path)


def test_a_folder_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    with pytest.raises(DownloadError, match="ml-small cannot be saved in"):
        download.fetch(archive(server), tmp_path)


def test_known_sets_and_their_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    assert download.folder_of("ml-1m") == tmp_path / "data" / "ml-1m"
    with pytest.raises(InvalidSetting, match="public set must be one of ml-100k"):
        download.get("netflix")
    for found in download.ARCHIVES.values():
        assert found.url.startswith("https://")
        assert "GroupLens terms" in found.terms
