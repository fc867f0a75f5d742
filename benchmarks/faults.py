"""Test faults of the machine, one at a time: messages, lost rows and remaining files.

    python benchmarks/faults.py [--only TEXT] [--quick]

The faults are damaged stores, killed sweeps and servers, full and read-only disks, two sweeps or
servers at once, and wrong clocks. A command either works, and its rows are those of an undisturbed
run, or it gives the reason in a sentence and ends with status 1. Nothing of an upload stays on
disk. The script ends with status 1 if any of this fails. --quick tests only damaged stores. Small
disks are mounted where that is allowed.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from dpmc_lab import store  # noqa: E402
from dpmc_lab.cli import main as dpmc  # noqa: E402
from dpmc_lab.cli.interface import format_table  # noqa: E402
from dpmc_lab.store import Store, StoreError  # noqa: E402
from tests import browser_helpers  # noqa: E402
from tests.browser import test_browser_server_ends as server_ends  # noqa: E402
from tests.browser_helpers import navigate_to, open_and_settle, serve_app, settle, upload_ratings  # noqa: E402
from tests.class_helpers import Phone  # noqa: E402
from tests.processes import count_members, is_alive, list_descendants, start_sweep, wait_until  # noqa: E402
from tests.sweep_helpers import read_rows  # noqa: E402

GRID = [
    *("--data", "restaurants", "--mechanisms", "input-flip,majority", "--epsilons", "1,2"),
    *("--seeds", "1:3", "--jobs", "1"),
]
LONG = [*GRID[:-4], "--seeds", "1:12", "--jobs", "2"]  # time enough to be killed in
RELEASE = ["release", "movie-night", "input-flip", "--epsilon", "1", "--prepare", "binarise=3.5"]
TIMEOUT_SECONDS = 60


class CommandResult(NamedTuple):
    """The result of a command; `status` is None if it raised an exception."""

    status: int | None
    out: str = ""
    err: str = ""

    @property
    def last_line(self) -> str:
        """Return the last line it wrote."""
        return next((line for line in reversed(self.err.strip().splitlines()) if line), "")

    def check_status(self, *statuses: int) -> str:
        """Return what is wrong with the result; empty if it ended with one of `statuses`."""
        if self.status is None or "Traceback" in self.err:
            return f"traceback: {self.last_line}"
        if self.status not in statuses:
            return f"status {self.status}: {self.last_line}"
        return "" if self.status != 1 or self.last_line.startswith("dpmc: ") else "no sentence"


class Row(NamedTuple):
    """A line of the table.

    Attributes:
        fault: the kind of fault.
        condition: the fault in particular.
        observed: what the program did.
        wrong: what is wrong with that; empty if nothing is.
    """

    fault: str
    condition: str
    observed: str
    wrong: str = ""


def run_in_process(*arguments: object, home_folder: Path | None = None) -> CommandResult:
    """Run a command in this process, which is fast, with this home folder."""

    def raise_timeout(*_: object) -> None:
        """End a command that takes too long."""
        raise RuntimeError("it hangs")

    prior_handler = signal.signal(signal.SIGALRM, raise_timeout)
    signal.alarm(5 * TIMEOUT_SECONDS)
    if home_folder is not None:
        os.environ["DPMC_HOME"] = str(home_folder)
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        try:
            status: int | None = dpmc([str(word) for word in arguments])
        except Exception as error:
            status = None
            err.write(f"{type(error).__name__}: {error}")
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, prior_handler)
    return CommandResult(status, out.getvalue(), err.getvalue())


def run_command(
    *arguments: object, limit: int | None = None, code: Sequence[str] = (), **environment: object
) -> CommandResult:
    """Run a command in its own process.

    Args:
        *arguments: of the command.
        limit: maximum size of its files in bytes, if any.
        code: arguments of Python instead of those that run `dpmc`.
        **environment: further environment variables.
    """

    def limit_file_size() -> None:
        """Limit the size of files in the child process."""
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = [sys.executable, *(code or ("-m", "dpmc_lab")), *map(str, arguments)]
    surroundings = os.environ | {name: str(value) for name, value in environment.items()}
    process = subprocess.run(
        command,
        cwd=ROOT,
        env=surroundings,
        capture_output=True,
        text=True,
        preexec_fn=limit_file_size,
        timeout=5 * TIMEOUT_SECONDS,
    )
    return CommandResult(process.returncode, process.stdout, process.stderr)


def describe_result(result: CommandResult, folder: Path) -> str:
    """Return how a command ended, for the table."""
    message = result.last_line.removeprefix("dpmc: ").replace(f"{folder}/", "")
    return f"{result.status}: {message}" if result.status == 1 else str(result.status)


def join_messages(*wrong: str) -> str:
    """Join messages, each once and without empty ones."""
    return "; ".join(dict.fromkeys(filter(None, wrong)))


def read_store_rows(path: Path) -> dict[str, object]:
    """Read all rows of a store."""
    with Store(path, read_only=True) as opened:
        return read_rows(opened)


def compare_rows(path: Path, expected: dict[str, object], *, is_partial: bool = False) -> str:
    """Return what is wrong with a store's rows; if `is_partial`, some may be missing."""
    try:
        stored = read_store_rows(path)
    except StoreError as error:
        return str(error)
    if is_partial:
        return "" if stored.items() <= expected.items() else "other rows"
    return "" if stored == expected else f"{len(stored)} rows, {len(expected)} undisturbed"


class Undisturbed:
    """The rows of both grids without any fault, computed once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, grid: Sequence[str] = GRID) -> Path:
        """Return a store with the rows of a grid."""
        path = self._folder / f"undisturbed-{len(grid)}-{grid[-3].replace(':', '-')}.sqlite"
        if not path.exists():
            result = run_command("sweep", *grid, "--store", path)
            if result.status:
                raise SystemExit(result.err)
        return path

    def rows(self, grid: Sequence[str] = GRID) -> dict[str, object]:
        """Return the rows of a grid."""
        return read_store_rows(self.path(grid))


# --- damaged stores ---------------------------------------------------------------------------


def _run_sql(*statements: str) -> Callable[[Path], None]:
    """Return a function that runs SQL on a store."""

    def apply(path: Path) -> None:
        """Run the statements."""
        with closing(sqlite3.connect(path, isolation_level=None)) as opened:
            for statement in ("PRAGMA foreign_keys = OFF", *statements):
                opened.execute(statement)

    return apply


def _change_bytes(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Return a function that changes the bytes of a file."""
    return lambda path: path.write_bytes(change(path.read_bytes())) and None


def _write_companion(end: str, content: bytes | None) -> Callable[[Path], None]:
    """Return a function that writes another file beside a store that lacks a row.

    Args:
        end: suffix of the other file's name.
        content: of the other file; None for a folder.
    """

    def apply(path: Path) -> None:
        """Delete a row, and write the other file."""
        _run_sql("DELETE FROM result WHERE id = 1")(path)
        other = path.with_name(path.name + end)
        other.unlink(missing_ok=True)
        other.mkdir() if content is None else other.write_bytes(content)

    return apply


def _leave_log(is_torn: bool) -> Callable[[Path], None]:
    """Return a function that leaves the log of a program killed before it merged its rows.

    Args:
        is_torn: whether the second half of the log is damaged.
    """

    def apply(path: Path) -> None:
        """Change rows, and restore the file and its log as they were before the merge."""
        names = [path, path.with_name(path.name + "-wal")]
        with closing(sqlite3.connect(path, isolation_level=None)) as opened:
            opened.execute("UPDATE result SET seconds = seconds")
            contents = [name.read_bytes() for name in names]
        for name, content in zip(names, contents, strict=True):
            name.write_bytes(content)
        if is_torn:
            names[1].write_bytes(contents[1][: len(contents[1]) // 2] + b"?" * 50)

    return apply


def _replace_file(make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return a function that replaces a store by something else."""

    def apply(path: Path) -> None:
        """Remove the file, and create the other thing."""
        path.unlink()
        make(path)

    return apply


def _update_first(table: str, value: str) -> Callable[[Path], None]:
    """Return a function that sets a value in the first row of a table."""
    return _run_sql(f"UPDATE {table} SET {value} WHERE id = (SELECT MIN(id) FROM {table})")


_NOISE = bytes((k * 89 + 7) % 251 for k in range(9999))
DAMAGES: dict[str, Callable[[Path], None]] = {
    "cut in half": _change_bytes(lambda b: b[: len(b) // 2]),
    "cut within a page": _change_bytes(lambda b: b[:-2000]),
    "cut to 50 bytes": _change_bytes(lambda b: b[:50]),
    "zero bytes": _change_bytes(lambda _: b""),
    "all zeros": _change_bytes(lambda b: bytes(len(b))),
    "header overwritten": _change_bytes(lambda b: _NOISE[:100] + b[100:]),
    "page size overwritten": _change_bytes(lambda b: b[:16] + b"\x03\x01" + b[18:]),
    "pages overwritten": _change_bytes(lambda b: b[:8192] + (_NOISE * 99)[: len(b) - 8192]),
    "a page of zeros": _change_bytes(lambda b: b[: -3 * 4096] + bytes(4096) + b[-2 * 4096 :]),
    "a newer version": _run_sql("PRAGMA user_version = 9"),
    "another program's": _run_sql("PRAGMA application_id = 7"),
    "no table result": _run_sql("DROP TABLE result"),
    "no table card": _run_sql("DROP TABLE card"),
    "no column seconds": _run_sql("ALTER TABLE result RENAME COLUMN seconds TO hours"),
    "no column title": _run_sql("ALTER TABLE curve RENAME COLUMN title TO name2"),
    "no index": _run_sql("DROP INDEX result_accuracy", "DROP INDEX result_of_curve"),
    "rows twice, no unique key": _run_sql(
        "CREATE TABLE twice AS SELECT * FROM result UNION ALL SELECT * FROM result",
        "DROP TABLE result",
        "ALTER TABLE twice RENAME TO result",
    ),
    "a metric is text": _update_first("result", "accuracy = 'much'"),
    "an epsilon is text": _run_sql("UPDATE result SET epsilon = 'much' WHERE epsilon = 1"),
    "a seed is text": _update_first("result", "seed = 'much'"),
    "users are text": _update_first("curve", "users = 'many'"),
    "users are negative": _update_first("curve", "users = -3"),
    "a name is bytes": _update_first("curve", "mechanism = x'ff00'"),
    "a name is no text": _update_first("curve", "mechanism = CAST(x'ff00' AS TEXT)"),
    "settings are cut": _update_first("curve", "settings = '{'"),
    "settings are a list": _update_first("curve", "settings = '[1]'"),
    "preparation is a number": _update_first("curve", "prepare = '3'"),
    "a card is a word": _update_first("card", "text = '\"x\"'"),
    "a card is empty": _update_first("card", "text = '{}'"),
    "a card is deep": _update_first("card", f"text = '{'[' * 100_000}'"),
    "a curve is gone": _update_first("curve", "id = 99"),
    "the cards are gone": _run_sql("DELETE FROM card"),
    "a log left behind": _leave_log(is_torn=False),
    "a log left behind, torn": _leave_log(is_torn=True),
    "a log of noise": _write_companion("-wal", _NOISE),
    "a journal of noise": _write_companion("-journal", _NOISE),
    "claims of noise": _write_companion("-claims", _NOISE),
    "claims are a folder": _write_companion("-claims", None),
    "a table of ratings": _replace_file(lambda path: path.write_text("user,item\n" * 500)),
    "a folder": _replace_file(Path.mkdir),
    "a pipe": _replace_file(os.mkfifo),
    "a link to itself": _replace_file(lambda path: path.symlink_to(path)),
    "a link to a device": _replace_file(lambda path: path.symlink_to("/dev/full")),
}


def query_store(path: Path) -> dict[object, object]:
    """Return everything that pages ask a store, except its ids of curves.

    The ids depend on the order in which two workers finished.

    Raises:
        StoreError: the store cannot be read.
    """
    responses: dict[object, object] = {}
    with Store(path, read_only=True) as opened:
        for info in store.list_curves(opened):
            responses[info.key] = info._replace(id=0)
            responses[info.key, "top"] = store.load_top_lists(opened, info.id)
            responses[info.key, "card"] = store.load_claims(opened, info.id)
            responses[info.key, "points"] = store.load_points(opened, info.id, "accuracy")
    return responses


def compare_answers(path: Path, expected: dict[object, object]) -> str:
    """Return what is wrong with the answers that pages get."""
    try:
        return "" if query_store(path) == expected else "other answers on pages"
    except StoreError:
        return ""
    except Exception as error:
        return f"on pages {type(error).__name__}: {error}"


def export_store(path: Path) -> tuple[CommandResult, list[list[tuple[str, str]]]]:
    """Export a store, and return the result with its rows, without times."""
    result = run_in_process("store", "export", "-", "--store", path)
    table = csv.DictReader(io.StringIO(result.out))
    times = ("seconds", "finished", "version")
    return result, sorted([(k, v) for k, v in row.items() if k not in times] for row in table)


def check_damages(folder: Path, sound: Path, names: Iterable[str] = DAMAGES) -> Iterator[Row]:
    """Check every damage with all readers of a store, with pruning, and with its sweep."""
    expected, pages = export_store(sound)[1], query_store(sound)
    for name in names:
        path = folder / name.replace(" ", "-") / "results.sqlite"
        path.parent.mkdir()
        shutil.copy(sound, path)
        DAMAGES[name](path)
        wrong = []
        for arguments in (["store"], ["store", "prune", "--mechanism", "none"], ["sweep", *GRID]):
            swept = run_in_process(*arguments, "--store", path)
            wrong.append(swept.check_status(0, 1))
        result, exported_rows = export_store(path)
        wrong.append(result.check_status(0, 1))
        if swept.status == 0:
            wrong.append(compare_answers(path, pages))
            wrong.append(
                "other rows in silence" if result.status == 0 and exported_rows != expected else ""
            )
        yield Row(
            "damaged store", name, describe_result(result, path.parent), join_messages(*wrong)
        )
        shutil.rmtree(path.parent)


# --- sweeps that are killed, two of them, and the clock -----------------------------------------


def count_rows(path: Path) -> int:
    """Count the rows of a store; 0 if it is not made yet."""
    try:
        return len(read_store_rows(path))
    except StoreError:  # not made yet
        return 0


def check_kills(folder: Path, undisturbed: Undisturbed) -> Iterator[Row]:
    """Check a sweep that is ended from outside, and then the same command again."""
    expected = undisturbed.rows(LONG)
    for name, status in (("SIGKILL", -9), ("SIGTERM", 130), ("SIGHUP", -1)):
        path = folder / name / "results.sqlite"
        child = start_sweep(*LONG, "--store", path)
        wrong = (
            ""
            if wait_until(lambda path=path: count_rows(path) > 3, TIMEOUT_SECONDS)
            else "no rows came"
        )
        kin = list_descendants(child.pid)
        child.send_signal(getattr(signal, name))
        out, err = child.communicate(timeout=TIMEOUT_SECONDS)
        result = CommandResult(child.returncode, out, err)
        if not wait_until(lambda kin=kin: not any(map(is_alive, kin)), 10):
            wrong = join_messages(wrong, "workers live on")
        wrong = join_messages(
            wrong, result.check_status(status), compare_rows(path, expected, is_partial=True)
        )
        n_kept = count_rows(path)
        repeated = run_command("sweep", *LONG, "--store", path)
        observed = (
            f"{describe_result(result, path.parent)}; {n_kept} rows kept, equal after the"
            " same again"
        )
        yield Row(
            "sweep killed",
            name,
            observed,
            join_messages(wrong, repeated.check_status(0), compare_rows(path, expected)),
        )


def check_two_sweeps(folder: Path, undisturbed: Undisturbed) -> Iterator[Row]:
    """Check two sweeps that share one store."""
    path, expected = folder / "results.sqlite", undisturbed.rows(LONG)
    pair = [start_sweep(*LONG, "--json", "--store", path) for _ in range(2)]
    results = []
    for child in pair:
        out, err = child.communicate(timeout=5 * TIMEOUT_SECONDS)
        results.append(CommandResult(child.returncode, out, err))
    wrong = join_messages(
        *(result.check_status(0) for result in results), compare_rows(path, expected)
    )
    news = (
        [json.loads(result.out.splitlines()[-1])["done"] for result in results] if not wrong else []
    )
    if news and sum(news) != len(expected):
        wrong = f"{sum(news)} units computed, {len(expected)} to compute"
    yield Row("two sweeps on one store", "at once", " + ".join(map(str, news)) + " units", wrong)


# Runs commands, one after the other, in a process with another clock.
_CLOCK = """
import datetime, json, sys, time
from dpmc_lab.cli import data, main
from dpmc_lab import store as connection
real, begun = time.time, time.time()
def shifted():
    now = real()
    return {there}
class Shifted(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(shifted(), tz)
time.time = shifted
connection.datetime = data.datetime = Shifted
sys.exit(max(main(words) for words in json.loads(sys.argv[1])))
"""
CLOCKS = {
    "400 days back after a second": "now if now < begun + 1 else now - 400 * 86400",
    "back and forth each second": "now - 86400 * (int(now) % 2)",
    "begins in 1970": "now - begun",
}


def check_clocks(folder: Path, undisturbed: Undisturbed) -> Iterator[Row]:
    """Check commands whose clock is wrong."""
    expected = undisturbed.rows()
    for name, clock_code in CLOCKS.items():
        home_folder = folder / name.replace(" ", "-")
        home_folder.mkdir()
        path, release = home_folder / "results.sqlite", home_folder / "signs.npz"
        commands = (
            ["sweep", *GRID, "--store", path],
            ["store", "export", home_folder / "rows.csv", "--store", path],
            ["store", "prune", "--outdated", "--dry-run", "--store", path],
            [*RELEASE, "--out", release],
            ["verify", release],
        )
        commands_json = json.dumps([[str(word) for word in arguments] for arguments in commands])
        result = run_command(
            commands_json, code=("-c", _CLOCK.format(there=clock_code)), DPMC_HOME=home_folder
        )
        wrong = join_messages(result.check_status(0), compare_rows(path, expected))
        yield Row("clock", name, "sweep, export, prune, release, verify: 0", wrong)


# --- disks --------------------------------------------------------------------------------------


class NotTried(Exception):
    """A check is not possible here."""


def mount(folder: Path, options: str) -> None:
    """Mount a file system in memory."""
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        raise NotTried("needs the right to mount a small file system") from None


@contextmanager
def mount_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a file system of this size."""
    folder.mkdir()
    mount(folder, f"size={size}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_disk(folder: Path, room: int = 0) -> Path:
    """Write a file that takes all space except for `room` bytes."""
    path = folder / "filler"
    with open(path, "wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            file.truncate(max(0, file.tell() - room))
    return path


def list_files(folder: Path) -> set[str]:
    """List all paths in a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def check_full_disks(folder: Path, undisturbed: Undisturbed) -> Iterator[Row]:
    """Check a sweep, an export and a release on a full disk, and again with space."""
    expected, sound = undisturbed.rows(LONG), undisturbed.path(LONG)
    for limit in (20_000, 200_000, 400_000):  # of a file: the store's, its log's, the exported one
        path = folder / f"limit-{limit}" / "results.sqlite"
        result = run_command("sweep", *LONG, "--store", path, limit=limit)
        wrong = join_messages(
            result.check_status(1),
            compare_rows(path, expected, is_partial=True) if count_rows(path) else "",
        )
        n_kept, repeated = count_rows(path), run_command("sweep", *LONG, "--store", path)
        observed = f"{describe_result(result, path.parent)}; {n_kept} rows kept"
        wrong = join_messages(wrong, repeated.check_status(0), compare_rows(path, expected))
        yield Row("full disk: sweep", f"files of {limit:,} bytes", observed, wrong)
    for name, size in (("for a part of the rows", "250k"), ("for the tables only", "130k")):
        with mount_disk(folder / f"disk-{size}", size) as disk:
            path = disk / "results.sqlite"
            result = run_command("sweep", *LONG, "--store", path)
            wrong = join_messages(
                result.check_status(1),
                compare_rows(path, expected, is_partial=True) if count_rows(path) else "",
            )
            n_kept = count_rows(path)
            subprocess.run(["mount", "-o", "remount,size=50m", str(disk)], check=True)
            repeated = run_command("sweep", *LONG, "--store", path)
            wrong = join_messages(wrong, repeated.check_status(0), compare_rows(path, expected))
            observed = f"{describe_result(result, disk)}; {n_kept} rows kept"
            yield Row("full disk: sweep", f"room {name}", observed, wrong)
    with mount_disk(folder / "disk", "20m") as disk:
        home = folder / "home"
        for task, arguments in {
            "export as CSV": ["store", "export", disk / "rows.csv", "--store", sound],
            "a release": [*RELEASE, "--out", disk / "signs.npz"],
        }.items():
            filler = fill_disk(disk, room=4096)
            result = run_in_process(*arguments, home_folder=home)
            remains = list_files(disk) - {"filler"}
            wrong = join_messages(result.check_status(1), f"left: {remains}" if remains else "")
            filler.unlink()
            repeated = run_in_process(*arguments, home_folder=home)
            yield Row(
                "full disk",
                task,
                describe_result(result, disk),
                join_messages(wrong, repeated.check_status(0)),
            )
            for path in disk.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def check_read_only(folder: Path, undisturbed: Undisturbed) -> Iterator[Row]:
    """Check that reading works on a read-only disk, and that writing says why it cannot."""
    sound, expected = undisturbed.path(), undisturbed.rows()
    for name in ("a store", "a store with a log left behind"):
        disk = folder / name.replace(" ", "-")
        with mount_disk(disk, "20m"):
            path = disk / "results.sqlite"
            shutil.copy(sound, path)
            if "log" in name:
                _leave_log(is_torn=False)(path)
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            result = run_in_process("store", "export", "-", "--store", path)
            wrong = join_messages(
                result.check_status(0, 1), "" if result.status else compare_rows(path, expected)
            )
            yield Row("read-only", f"{name}: read", describe_result(result, disk), wrong)
            for arguments in (
                ["sweep", *LONG, "--store", path],
                ["store", "prune", "--all", "--store", path],
                [*RELEASE, "--out", disk / "signs.npz"],
                ["store", "export", disk / "rows.csv", "--store", path],
            ):
                result = run_in_process(*arguments)
                yield Row(
                    "read-only",
                    f"{name}: {arguments[0]}",
                    describe_result(result, disk),
                    result.check_status(1),
                )


# --- servers ------------------------------------------------------------------------------------


@contextmanager
def open_chromium() -> Iterator[Any]:
    """Open a browser."""
    if browser_helpers.CHROMIUM is None:
        raise NotTried("needs Chromium")
    with browser_helpers.open_chromium() as browser:
        yield browser


@contextmanager
def make_home() -> Iterator[Path]:
    """Make a home and a folder of temporary files, with a short name that fits sockets."""
    with TemporaryDirectory(prefix="f") as name:
        (Path(name) / "temporary").mkdir()
        yield Path(name)


def find_remains(folder: Path, secret: bytes, ignored: Sequence[str] = ()) -> str:
    """Return what is on disk of an upload: its folder, and files that contain some of it.

    Args:
        folder: where to look.
        secret: bytes of the upload.
        ignored: names to leave out, with everything in folders of these names.
    """
    remains = {
        name for name in list_files(folder / "temporary") if name.partition("/")[0] not in ignored
    }
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in ignored and secret in path.read_bytes():
            remains.add(str(path.relative_to(folder)))
    return f"left on disk: {', '.join(sorted(remains))}" if remains else ""


def find_traceback(folder: Path) -> str:
    """Return a message if the log of a server has a traceback."""
    return "traceback in its log" if "Traceback" in (folder / "server.log").read_text() else ""


SIGNALS = {"SIGKILL": -9, "SIGTERM": -15, "SIGHUP": -15}  # with a server's exit status after each


def check_swept_upload(_: Path, __: Undisturbed) -> Iterator[Row]:
    """Check a server that is ended while it sweeps an upload and a sample."""
    for name, status in SIGNALS.items():
        with make_home() as home_folder, open_chromium() as browser:
            with server_ends.serve(home_folder) as (server, process):
                private, shared = server_ends.start_both(browser, server, home_folder)
                process.send_signal(getattr(signal, name))
                exit_status, begin = process.wait(TIMEOUT_SECONDS), time.monotonic()
                has_ended = wait_until(lambda group=private: not count_members(group), 3)
                wait_until(
                    lambda home_folder=home_folder: not list_files(home_folder / "temporary"), 3
                )
                seconds = time.monotonic() - begin
                is_running = bool(count_members(shared))
                wrong = "" if exit_status == status else f"status {exit_status}"
                wrong = join_messages(
                    wrong,
                    "" if has_ended else "its sweep lives on",
                    find_remains(home_folder, b"u7,i", EXPECTED_FILES),
                )
            wrong = join_messages(wrong, find_traceback(home_folder))
            if is_running:
                os.killpg(shared, signal.SIGKILL)
            if is_running is not (name == "SIGKILL"):
                wrong = join_messages(wrong, f"the sample's sweep lives on: {is_running}")
            observed = f"ended with {exit_status}; nothing left after {seconds:.1f} s"
            yield Row("server ended, upload swept", name, observed, wrong)


# Files that are expected on disk: the visitor's own file, and the server's log.
EXPECTED_FILES = (
    "mine.csv",
    "server.log",
)


def check_read_upload(folder: Path, _: Undisturbed) -> Iterator[Row]:
    """Check a server that is ended while it reads an upload, which is never on disk."""
    large = folder / "mine.csv"
    with large.open("w") as file:
        file.write("user,item,stars\n")
        file.writelines(f"u7,i{k},{1 + k % 5}\n" for k in range(3_000_000))
    for name, status in SIGNALS.items():
        with make_home() as home_folder, open_chromium() as browser:
            with server_ends.serve(home_folder) as (server, process):
                page = browser.new_page()
                open_and_settle(page, server + "data?way=upload")
                with page.expect_file_chooser() as chooser:
                    page.get_by_role("button", name="Upload", exact=True).click()
                chooser.value.set_files(large)
                page.get_by_role("radio", name="1 to 5", exact=True).click()
                page.get_by_role("button", name="Read the ratings").click()
                page.get_by_role("button", name="Stop", exact=True).first.wait_for()
                process.send_signal(getattr(signal, name))
                begin = time.monotonic()
                exit_status = process.wait(TIMEOUT_SECONDS)
                seconds = time.monotonic() - begin
            wrong = join_messages(
                "" if exit_status == status else f"status {exit_status}",
                find_traceback(home_folder),
            )
            wrong = join_messages(wrong, find_remains(home_folder, b"u7,i"))
            observed = f"ended with {exit_status} after {seconds:.1f} s; nothing left"
            yield Row("server ended, upload read", name, observed, wrong)


def check_class_end(folder: Path, _: Undisturbed) -> Iterator[Row]:
    """Check a server that is ended during a class: its reports were never on disk."""
    questions = folder / "questions.txt"
    questions.write_text("Tea?\n")
    surroundings = {"DPMC_CLASS": "1", "DPMC_CLASS_QUESTIONS": str(questions)}
    for name, status in SIGNALS.items():
        with make_home() as home_folder:
            phones = [0xABCDEF + k for k in range(3)]
            with serve_app(home_folder, **surroundings) as (server, process):
                old = Phone(server, 1).fetch_question()
                statuses = [Phone(server, number).send_report(1)[0] for number in phones]
                process.send_signal(getattr(signal, name))
                exit_status = process.wait(TIMEOUT_SECONDS)
            wrong = join_messages(
                "" if exit_status == status else f"status {exit_status}",
                find_traceback(home_folder),
            )
            wrong = join_messages(wrong, "" if statuses == [200] * 3 else f"reports: {statuses}")
            wrong = join_messages(wrong, find_remains(home_folder, f"{phones[0]:032x}".encode()))
            with serve_app(home_folder, **surroundings) as (server, _):
                late_status, answer = Phone(server, phones[0]).send_report(1, room=old["room"])
            wrong = join_messages(
                wrong, "" if late_status == 409 else f"a late report: {late_status}"
            )
            observed = f"ended with {exit_status}; a late phone reads: {answer.get('error')}"
            yield Row("server ended, a class", name, observed, wrong)


def check_two_servers(_: Path, __: Undisturbed) -> Iterator[Row]:
    """Check that two servers of one home do not touch each other's visitors."""
    with (
        make_home() as home_folder,
        open_chromium() as browser,
        server_ends.serve(home_folder) as (first, killed),
    ):
        groups = server_ends.start_both(browser, first, home_folder)
        with server_ends.serve(home_folder) as (second, _):
            wrong = (
                "" if all(map(count_members, groups)) else "the second ended a sweep of the first"
            )
            page = browser.new_page()
            page.goto(second + server_ends.SHARED)
            page.get_by_text("runs ·").wait_for()
            if server_ends.find_button(page, "Start").count():  # Stop is in its place
                wrong = join_messages(wrong, "started twice")
            yield Row("two servers", "one home, both sweep", "the second sees the first's", wrong)
            temporary = (path.name for path in (home_folder / "temporary").iterdir())
            used = [name for name in temporary if not name.startswith("dpmc-private-")]
            killed.kill()
            killed.wait(TIMEOUT_SECONDS)
            has_ended = wait_until(lambda: not count_members(groups[0]), 3)
            # what the shared sweep's own processes use stays while it runs
            remains = find_remains(home_folder, b"u7,i", (*EXPECTED_FILES, *used))
            wrong = join_messages("" if has_ended else "its sweep lives on", remains)
            wrong = join_messages(
                wrong,
                "" if count_members(groups[1]) else "the shared sweep ended",
                find_traceback(home_folder),
            )
            server_ends.find_button(page, "Stop").click()
            if not wait_until(lambda: not count_members(groups[1]), 10):
                wrong = join_messages(wrong, "the second cannot stop it")
            yield Row("two servers", "the first is killed", "the second stops its sweep", wrong)
            command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless"]
            command += ["true", "--server.port", str(urlsplit(second).port)]
            result = subprocess.run(
                command,
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
            observed = (result.stderr or result.stdout).strip().splitlines()[-1]
            wrong = "traceback" if "Traceback" in result.stderr + result.stdout else ""
            wrong = join_messages(wrong, "" if result.returncode else "status 0")
            yield Row("two servers", "one port", f"{result.returncode}: {observed}", wrong)


def check_app_disks(_: Path, __: Undisturbed) -> Iterator[Row]:
    """Check the app where nothing can be written: uploads are read, and sweeps say why not."""
    for name in ("full disk", "read-only"):
        with (
            make_home() as home_folder,
            mount_disk(home_folder / "disk", "20m") as disk,
            open_chromium() as browser,
        ):
            (disk / "temporary").mkdir()
            fill_disk(disk) if name == "full disk" else subprocess.run(
                ["mount", "-o", "remount,ro", str(disk)], check=True
            )
            environment = {"DPMC_HOME": str(disk), "TMPDIR": str(disk / "temporary")}
            with serve_app(home_folder, **environment) as (server, _):
                page = browser.new_page()
                upload_ratings(page, server, home_folder)
                navigate_to(page, "Compare")
                settle(page)
                for condition in ("an upload is read, its sweep", "the sweep of a sample"):
                    if "sample" in condition:
                        open_and_settle(page, server + server_ends.SHARED)
                    server_ends.find_button(page, "Start").click()
                    alert = (
                        page.get_by_test_id("stAlert")
                        .filter(has_text="written")
                        .or_(page.get_by_test_id("stAlert").filter(has_text="disk"))
                    )
                    # Python takes another folder for temporary files where this one is no use
                    runs = page.get_by_text("runs ·")
                    try:
                        alert.or_(runs).first.wait_for()
                        observed, wrong = "it runs, in another temporary folder", ""
                        if alert.count():
                            observed = alert.first.inner_text().replace(str(disk), "DISK")
                        else:
                            server_ends.find_button(page, "Stop").click()
                    except Exception:
                        observed = "; ".join(page.get_by_test_id("stAlert").all_inner_texts())
                        wrong = "no sentence"
                    if page.get_by_test_id("stException").count():
                        wrong = join_messages(wrong, "an exception on the page")
                    wrong = join_messages(
                        wrong,
                        find_remains(home_folder, b"u7,i", EXPECTED_FILES),
                        find_remains(disk, b"u7,i"),
                    )
                    yield Row(
                        f"{name}: app",
                        condition,
                        observed,
                        join_messages(wrong, find_traceback(home_folder)),
                    )


FAULTS = {
    "sweep killed": check_kills,
    "two sweeps on one store": check_two_sweeps,
    "clock": check_clocks,
    "full disk": check_full_disks,
    "read-only": check_read_only,
    "app on a full and a read-only disk": check_app_disks,
    "server ended, upload swept": check_swept_upload,
    "server ended, upload read": check_read_upload,
    "server ended, a class": check_class_end,
    "two servers": check_two_servers,
}


def main() -> None:
    """Run all checks, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="faults whose name has it")
    parser.add_argument("--quick", action="store_true", help="damaged stores only")
    args = parser.parse_args()
    table_rows = []
    with TemporaryDirectory(prefix="dpmc-faults-") as name:
        folder = Path(name)
        os.environ["DPMC_HOME"] = name
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup children ignore it
        undisturbed = Undisturbed(folder)
        for row in run_all(folder, undisturbed, args.only, args.quick):
            table_rows.append(row)
            print(f"{'WRONG' if row.wrong else 'ok':6} {row.fault}: {row.condition}", flush=True)
    lines = [(row.fault, row.condition, row.observed, row.wrong or "-") for row in table_rows]
    print("\n" + format_table([("fault", "of what", "what is said", "wrong"), *lines]))
    wrong = sum(bool(row.wrong) for row in table_rows)
    print(f"\n{len(table_rows)} faults, {wrong} not as they must be")
    sys.exit(bool(wrong))


def run_all(
    folder: Path, undisturbed: Undisturbed, only: str = "", quick: bool = False
) -> Iterator[Row]:
    """Run all checks, or those whose name has `only`."""
    (folder / "damaged").mkdir()
    names = [name for name in DAMAGES if only in f"damaged store: {name}"]
    yield from check_damages(folder / "damaged", undisturbed.path(), names)
    for name, fault in () if quick else FAULTS.items():
        if only in name:
            fault_folder = folder / name.replace(" ", "-")
            fault_folder.mkdir()
            try:
                yield from fault(fault_folder, undisturbed)
            except NotTried as reason:
                yield Row(name, "not tried", str(reason))


if __name__ == "__main__":
    main()
