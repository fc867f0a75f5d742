"""Downloads from a local server: checked, unpacked safely, every failure a sentence."""

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
        self.asked: list[str] = []
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
        self.asked.append(request.path)
        content = self.files.get(request.path.lstrip("/"))
        if self.fail or content is None:
            request.send_error(self.fail.pop(0) if self.fail else 404)
            return
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content[: self.cuts.pop(0)] if self.cuts else content)


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
    server.files["ml-latest-small.zip"] = content
    if md5 == "":
        md5 = hashlib.md5(content).hexdigest()
    return Archive("ml-latest-small", "Small", server.base + "ml-latest-small.zip", 3, "terms", md5)


def left_behind(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "data").iterdir())


def test_download_check_unpack_and_keep(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    small = archive(server)
    folder = download.fetch(small, tmp_path, lambda done, total: seen.append((done, total)))
    assert (folder / "extra" / "noise.bin").read_bytes() == NOISE
    assert left_behind(tmp_path) == ["ml-latest-small"]
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1] == (len(GOOD), len(GOOD))
    data = datasets.load(folder)
    assert len(data.ratings) == 2
    assert (data.name, data.ratings.public.low) == ("ml-latest-small", 0.5)
    assert (
        "from MovieLens latest, small, by its checksum in the note of its download" in data.report
    )
    requests = len(server.asked)
    assert download.fetch(small, tmp_path) == folder
    assert len(server.asked) == requests  # cached: no request at all


def test_a_cut_connection_is_tried_again(server: Server, tmp_path: Path) -> None:
    server.cuts = [1_000_000, 1_200_000]
    folder = download.fetch(archive(server), tmp_path)
    assert (folder / "extra" / "noise.bin").read_bytes() == NOISE
    assert left_behind(tmp_path) == ["ml-latest-small"]
    assert len(server.asked) == 3


def test_many_cuts_are_a_sentence_and_leave_nothing(server: Server, tmp_path: Path) -> None:
    small = archive(server)
    server.cuts = [500_000] * download.ATTEMPTS
    with pytest.raises(DownloadError, match=r"cannot be downloaded .* cut after 0\.5 of 3\.0 MB"):
        download.fetch(small, tmp_path)
    assert left_behind(tmp_path) == []
    assert download.fetch(small, tmp_path).is_dir()


def test_stopped_half_way_it_leaves_nothing(server: Server, tmp_path: Path) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download.fetch(archive(server), tmp_path, stop)
    assert left_behind(tmp_path) == []


def test_of_two_at_a_time_the_first_one_counts(server: Server, tmp_path: Path) -> None:
    small = archive(server)

    def meanwhile(*_: object) -> None:
        if not download.folder_of("ml-latest-small", tmp_path).is_dir():
            download.fetch(small, tmp_path)

    folder = download.fetch(small, tmp_path, meanwhile)
    assert (folder / "extra" / "noise.bin").read_bytes() == NOISE
    assert left_behind(tmp_path) == ["ml-latest-small"]


def test_a_wrong_checksum_unpacks_nothing(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="checksum"):
        download.fetch(archive(server, md5="0" * 32), tmp_path)
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("text", ["MD5 (ml-latest-small.zip) = {}\n", "{}  ml-latest-small.zip\n"])
def test_the_checksum_is_read_beside_the_archive(server: Server, tmp_path: Path, text: str) -> None:
    small = archive(server, md5=None)
    server.files["ml-latest-small.zip.md5"] = text.format(hashlib.md5(GOOD).hexdigest()).encode()
    assert download.fetch(small, tmp_path).is_dir()


def test_no_published_checksum_no_download(server: Server, tmp_path: Path) -> None:
    small = archive(server, md5=None)
    with pytest.raises(DownloadError, match="cannot be downloaded"):
        download.fetch(small, tmp_path)
    server.files["ml-latest-small.zip.md5"] = b"moved"
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
    assert left_behind(tmp_path / "home") == []


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
    assert left_behind(tmp_path) == left_behind(tmp_path / "other") == []


def test_not_a_zip(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="not a readable ZIP"):
        download.fetch(archive(server, b"<html>login</html>"), tmp_path)


def test_a_folder_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    with pytest.raises(DownloadError, match="ml-latest-small cannot be saved in"):
        download.fetch(archive(server), tmp_path)


def test_known_sets_and_their_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    assert download.folder_of("ml-1m") == tmp_path / "data" / "ml-1m"
    with pytest.raises(InvalidSetting, match="public set must be one of ml-100k"):
        download.get("netflix")
    for found in download.ARCHIVES.values():
        assert found.url.startswith("https://")
        assert "GroupLens terms" in found.terms
