"""Downloads from a local server: checked, unpacked safely, every failure a sentence."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import shutil
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpmc_core.errors import BadRatings
from dpmc_data import datasets, public_sets
from dpmc_data.public_sets import DownloadError, PublicSet


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


def pack_archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


NOISE = np.random.default_rng(0).bytes(3_000_000)  # several chunks
GOOD = pack_archive(
    {
        "ml-small/ratings.csv": b"userId,movieId,rating,timestamp\n1,10,4.5,1\n2,10,0.5,2\n",
        "ml-small/extra/noise.bin": NOISE,
    }
)


def serve_small_set(server: Server, content: bytes = GOOD, md5: str | None = "") -> PublicSet:
    server.files["ml-latest-small.zip"] = content
    if md5 == "":
        md5 = hashlib.md5(content).hexdigest()
    public_set = public_sets.SETS["ml-latest-small"]
    return dataclasses.replace(public_set, url=server.base + "ml-latest-small.zip", md5=md5)


def list_left_files(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "data").iterdir())


def test_download_check_unpack_and_keep(server: Server, tmp_path: Path) -> None:
    progress: list[tuple[int, int | None]] = []
    small = serve_small_set(server)
    folder = public_sets.download_public_set(
        small, tmp_path, lambda received, total: progress.append((received, total))
    )
    assert (folder / "extra" / "noise.bin").read_bytes() == NOISE
    assert list_left_files(tmp_path) == ["ml-latest-small"]
    assert [received for received, _ in progress] == sorted({received for received, _ in progress})
    assert progress[-1] == (len(GOOD), len(GOOD))
    data = datasets.load(folder)
    assert len(data.ratings) == 2
    assert (data.name, data.ratings.public.low) == ("ml-latest-small", 0.5)
    assert (
        "from MovieLens latest, small, by its checksum in the note of its download" in data.report
    )
    requests = len(server.asked)
    assert public_sets.download_public_set(small, tmp_path) == folder
    assert len(server.asked) == requests  # cached: no request at all


def test_a_cut_connection_is_tried_again(server: Server, tmp_path: Path) -> None:
    server.cuts = [1_000_000, 1_200_000]
    folder = public_sets.download_public_set(serve_small_set(server), tmp_path)
    assert (folder / "extra" / "noise.bin").read_bytes() == NOISE
    assert list_left_files(tmp_path) == ["ml-latest-small"]
    assert len(server.asked) == 3


def test_many_cuts_are_a_sentence_and_leave_nothing(server: Server, tmp_path: Path) -> None:
    small = serve_small_set(server)
    server.cuts = [500_000] * public_sets.ATTEMPTS
    with pytest.raises(DownloadError, match=r"cannot be downloaded .* cut after 0\.5 of 3\.0 MB"):
        public_sets.download_public_set(small, tmp_path)
    assert list_left_files(tmp_path) == []
    assert public_sets.download_public_set(small, tmp_path).is_dir()


def test_stopped_half_way_it_leaves_nothing(server: Server, tmp_path: Path) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        public_sets.download_public_set(serve_small_set(server), tmp_path, stop)
    assert list_left_files(tmp_path) == []


def test_of_two_at_a_time_the_first_one_counts(server: Server, tmp_path: Path) -> None:
    small = serve_small_set(server)

    def meanwhile(*_: object) -> None:
        if not public_sets.get_set_folder("ml-latest-small", tmp_path).is_dir():
            public_sets.download_public_set(small, tmp_path)

    folder = public_sets.download_public_set(small, tmp_path, meanwhile)
    assert (folder / "extra" / "noise.bin").read_bytes() == NOISE
    assert list_left_files(tmp_path) == ["ml-latest-small"]


@pytest.mark.parametrize("text", ["MD5 (ml-latest-small.zip) = {}\n", "{}  ml-latest-small.zip\n"])
def test_the_checksum_is_read_beside_the_archive(server: Server, tmp_path: Path, text: str) -> None:
    small = serve_small_set(server, md5=None)
    server.files["ml-latest-small.zip.md5"] = text.format(hashlib.md5(GOOD).hexdigest()).encode()
    assert public_sets.download_public_set(small, tmp_path).is_dir()


def test_no_published_checksum_no_download(server: Server, tmp_path: Path) -> None:
    small = serve_small_set(server, md5=None)
    with pytest.raises(DownloadError, match="cannot be downloaded"):
        public_sets.download_public_set(small, tmp_path)
    server.files["ml-latest-small.zip.md5"] = b"moved"
    with pytest.raises(DownloadError, match="holds no checksum"):
        public_sets.download_public_set(small, tmp_path)


def test_a_busy_server_is_asked_again_a_missing_file_is_not(server: Server, tmp_path: Path) -> None:
    small = serve_small_set(server)
    server.fail = [404]
    with pytest.raises(DownloadError, match=r"cannot be downloaded from http.*Not Found"):
        public_sets.download_public_set(small, tmp_path)
    assert len(server.asked) == 1
    server.fail = [503, 503]
    assert public_sets.download_public_set(small, tmp_path).is_dir()


def test_another_address_is_asked_where_the_first_does_not_answer(
    server: Server, tmp_path: Path
) -> None:
    small = serve_small_set(server)
    relocated = dataclasses.replace(small, url=f"{server.base}gone.zip", also=(small.url,))
    assert public_sets.download_public_set(relocated, tmp_path).is_dir()
    assert server.asked == ["/gone.zip", "/ml-latest-small.zip"]
    nowhere = dataclasses.replace(relocated, also=(f"{server.base}lost.zip",))
    with pytest.raises(DownloadError, match=r"cannot be downloaded from .*gone\.zip: Not Found"):
        public_sets.download_public_set(nowhere, tmp_path / "other")
    other = dataclasses.replace(relocated, md5="0" * 32)  # what arrives there is checked alike
    with pytest.raises(DownloadError, match="checksum"):
        public_sets.download_public_set(other, tmp_path / "third")


def pack_link() -> bytes:
    buffer, link = io.BytesIO(), zipfile.ZipInfo("ml-small/link")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(link, "/etc/passwd")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "md5", "message"),
    [
        (GOOD, "0" * 32, "checksum"),
        (b"<html>login</html>", "", "not a readable ZIP"),
        (pack_link(), "", "would land elsewhere"),
        *(
            (
                pack_archive({"ml-small/ratings.csv": b"1", name: b"evil"}),
                "",
                "would land elsewhere",
            )
            for name in ("../evil.txt", "/etc/evil.txt", "a/../../evil.txt", "C:\\evil.txt")
        ),
    ],
)
def test_a_bad_archive_is_a_sentence_and_writes_nothing(
    server: Server, tmp_path: Path, content: bytes, md5: str, message: str
) -> None:
    with pytest.raises(DownloadError, match=message):
        public_sets.download_public_set(serve_small_set(server, content, md5), tmp_path / "home")
    assert not list(tmp_path.rglob("evil*"))
    assert list_left_files(tmp_path / "home") == []


def test_an_archive_that_unpacks_to_too_much_is_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public_sets, "UNPACKED_LIMIT", 1000)
    with pytest.raises(DownloadError, match="would unpack to more"):
        public_sets.download_public_set(serve_small_set(server), tmp_path)
    assert list_left_files(tmp_path) == []


def test_a_folder_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    with pytest.raises(DownloadError, match="ml-latest-small cannot be saved in"):
        public_sets.download_public_set(serve_small_set(server), tmp_path)


# Sets that are not MovieLens ---------------------------------------------------------------------


def serve_public_set(server: Server, name: str, content: bytes, **checked: Any) -> PublicSet:
    """The archive of that name, as this program knows it, at the local server."""
    public_set = public_sets.ARCHIVES[name]
    server.files["set.zip"] = content
    return dataclasses.replace(public_set, url=server.base + "set.zip", also=(), **checked)


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["", "RCdata/"])
def test_restaurants_are_told_by_their_contents(
    server: Server, tmp_path: Path, shared_data: Path, folder: str
) -> None:
    ratings = (shared_data / "restaurant" / "rating_final.csv").read_bytes()
    header, *rows = ratings.splitlines()
    position = rows.index(b"U1077,135085,2,2,2")
    official = b"\n".join([header, rows.pop(position), *rows]) + b"\n"  # the order in UCI's archive
    for k, content in enumerate((ratings, official)):
        home = tmp_path / f"{k}"
        archive = serve_public_set(
            server, "restaurant",
            pack_archive({f"{folder}rating_final.csv": content, f"{folder}README": b"1. Title"}),
        )  # fmt: skip
        data = datasets.load(public_sets.download_public_set(archive, home))
        assert data.title == "Restaurant and consumer data"
        assert data.ratings.shape == (138, 130)
        assert len(data.ratings) == 1161
        assert list_left_files(home) == ["restaurant"]


def test_other_contents_than_the_known_ones_are_not_kept(
    server: Server, tmp_path: Path, shared_data: Path
) -> None:
    ratings = (shared_data / "restaurant" / "rating_final.csv").read_bytes()
    for name, content in (
        ("rating_final.csv", ratings[:-1]),
        ("rating_final.csv", ratings.replace(b",2,2,1", b",1,2,1", 1)),
        ("userprofile.csv", b"x"),
    ):
        archive = serve_public_set(server, "restaurant", pack_archive({name: content}))
        with pytest.raises(DownloadError, match="without the ratings this program knows"):
            public_sets.download_public_set(archive, tmp_path)
    assert list_left_files(tmp_path) == []


def build_workbook(rows: list[list[float]]) -> bytes:
    """A workbook written by another program."""
    xlwt = pytest.importorskip("xlwt")
    book, buffer = xlwt.Workbook(), io.BytesIO()
    page = book.add_sheet("jester-data-1-new")
    for r, row in enumerate(rows):
        for c, value in enumerate(row):
            page.write(r, c, value)
    book.add_sheet("another").write(0, 0, 5.0)
    book.save(buffer)
    return buffer.getvalue()


@pytest.mark.slow
def test_jester_comes_as_a_workbook(server: Server, tmp_path: Path, shared_data: Path) -> None:
    with (shared_data / "jester" / "jester-data-1.csv").open() as file:
        lines = [next(file) for _ in range(600)]
    content = pack_archive(
        {"jester-data-1.xls": build_workbook([[*map(float, x.split(","))] for x in lines])}
    )
    archive = serve_public_set(
        server, "jester", content, sha256=hashlib.sha256(content).hexdigest()
    )
    folder = public_sets.download_public_set(archive, tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == [
        "dpmc-source.json", "jester-data-1.csv",
    ]  # fmt: skip
    assert (folder / "jester-data-1.csv").read_text() == "".join(lines)
    data = datasets.load(folder)
    assert (data.title, data.ratings.shape) == ("Jester jokes", (600, 100))
    assert (data.ratings.public.low, data.ratings.public.high) == (-10, 10)
    with pytest.raises(DownloadError, match="checksum"):
        public_sets.download_public_set(
            serve_public_set(server, "jester", content), tmp_path / "other"
        )


def test_numbers_of_a_workbook_are_exact(tmp_path: Path) -> None:
    rows = [[0.0, -7.82, 99.0, 0.3333333333], [1e-9, -(2.0**29), 2.0**32, 123456.75]]
    workbook, file = tmp_path / "x.xls", tmp_path / "x.csv"
    workbook.write_bytes(build_workbook(rows))
    public_sets.unpack_workbook(workbook, file)
    assert np.loadtxt(file, delimiter=",").tolist() == rows
    assert not workbook.exists()


def test_a_broken_workbook_is_a_sentence(tmp_path: Path) -> None:
    workbook = build_workbook([[1.0, 2.0]] * 300)
    for content in (b"<html>", workbook[:600], build_workbook([[1.0, 2.0], [3.0]])):
        (tmp_path / "x.xls").write_bytes(content)
        with pytest.raises(BadRatings, match=r"x\.xls cannot be read as an Excel workbook"):
            public_sets.unpack_workbook(tmp_path / "x.xls", tmp_path / "x.csv")


def test_a_set_fetched_by_hand(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shared_data: Path
) -> None:
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for act in (datasets.load, public_sets.get_public_set):
        with pytest.raises(BadRatings, match=r"put your copy of Amazon_Instant_Video_5\.txt into"):
            act("amazon")
    assert not public_sets.is_downloaded("amazon")
    folder = public_sets.get_set_folder("amazon")
    folder.mkdir(parents=True)
    shutil.copy(shared_data / "amazon-instant-video" / "Amazon_Instant_Video_5.txt", folder)
    assert public_sets.is_downloaded("amazon")
    assert public_sets.get_public_set("amazon") == folder
    assert datasets.load("amazon").ratings.shape == (5130, 1685)
