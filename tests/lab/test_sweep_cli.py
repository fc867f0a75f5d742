"""`dpmc sweep` and `dpmc store` as people and programs use them."""

import csv
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpmc_core.errors import DpmcError, InvalidSetting
from dpmc_lab.cli import interface, main
from dpmc_lab.store import Store
from dpmc_lab.sweep import cluster, parse_epsilons, parse_seeds
from tests.processes import is_alive, list_descendants, needs_proc, start_sweep, wait_until
from tests.store_helpers import make_record, mount_small_disk
from tests.sweep_helpers import read_rows
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
SMALL = [
    *("sweep", "--data", "one-bit-lab", "--mechanisms", "input-flip,gradient"),
    *("--epsilons", "1,4", "--seeds", "1:3", "--set", "iterations=10"),
    *("--set", "estimator=published", "--jobs", "2"),
]
# Noisy ones with the private guess, references, and twins with 10 and with 100 iterations.
UNITS = 3 * 2 * 3 + 3 + 2 * 3
posix = pytest.mark.skipif(os.name == "nt", reason="signals are sent another way on Windows")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "results.sqlite"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The store of a small sweep that nothing disturbed, and what was said."""
    path = tmp_path_factory.mktemp("finished") / "results.sqlite"
    completed = run_dpmc(*SMALL, "--store", path)
    assert completed.returncode == 0, completed.stderr
    return path, completed


def run_dpmc(*argv, **options):
    return subprocess.run(
        [sys.executable, "-m", "dpmc_lab", *map(str, argv)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        **options,
    )


def read_store(path):
    with Store(path, read_only=True) as opened:
        return read_rows(opened)


def read_refusal(capsys, *argv):
    """Return the one line that a failing command prints."""
    assert main([str(word) for word in argv]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("dpmc: ")
    assert "Traceback" not in err
    return err.strip()


# --- lists -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (["0.5,1,2"], (0.5, 1.0, 2.0)),
        (["2", "0.5", "1,"], (0.5, 1.0, 2.0)),
        (["1", "1.0"], (1.0,)),
        (["0.1:10:5"], (0.1, 0.316, 1.0, 3.16, 10.0)),
        (["1:2:2", "4"], (1.0, 2.0, 4.0)),
    ],
)
def test_epsilons_are_lists_or_ranges(text, expected):
    assert parse_epsilons(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (["0.5,one"], "numbers > 0 separated by commas, or LO:HI:COUNT, got 'one'"),
        (["0"], "epsilon must be > 0"),
        ([","], "--epsilons must be at least one number"),
        (["1:2"], "LO:HI:COUNT"),
        (["2:1:3"], "LO < HI"),
        (["1:1:3"], "LO < HI"),
        (["1:2:1"], "COUNT of --epsilons must be >= 2"),
        (["1:2:x"], "integers"),
    ],
)
def test_junk_in_epsilons_is_a_sentence(text, message):
    with pytest.raises(InvalidSetting, match=message):
        parse_epsilons(text)


def test_seeds_are_lists_or_ranges():
    assert parse_seeds(["1:3", "7,2"]) == (1, 2, 3, 7)
    for junk in ("3:1", "x", "1:", "1.5", "0:99999999999", ","):
        with pytest.raises(InvalidSetting, match="--seeds"):
            parse_seeds([junk])


# --- running ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_sweep_stores_every_row_and_says_so(finished):
    path, completed = finished
    assert completed.stdout.strip() == f"{UNITS} rows ({UNITS} new) in {path}"
    assert len(read_store(path)) == UNITS


def start_until_three_rows(file):
    child = start_sweep(*SMALL[1:], "--store", file, "--json")
    while json.loads(child.stdout.readline())["done"] < 3:
        pass
    return child


@pytest.mark.slow
@posix
def test_ctrl_c_keeps_what_is_finished(finished, file):
    child = start_until_three_rows(file)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: the workers get it too
    pressed = time.monotonic()
    _, err = child.communicate(timeout=PATIENCE_SECONDS)
    assert child.returncode == 130, err
    assert time.monotonic() - pressed < 5
    assert "Traceback" not in err
    match = re.search(
        r"dpmc: stopping: .*\ndpmc: (\d+) of \d+ rows are kept.*goes on from there", err
    )
    stored_rows = read_store(file)
    assert len(stored_rows) == int(match[1])
    assert stored_rows
    assert stored_rows.items() <= read_store(finished[0]).items()
    assert run_dpmc(*SMALL, "--store", file).returncode == 0
    assert read_store(file) == read_store(finished[0])


@pytest.mark.slow
@posix
def test_being_told_to_end_keeps_what_is_finished(file):
    child = start_until_three_rows(file)
    child.terminate()
    _, err = child.communicate(timeout=PATIENCE_SECONDS)
    assert child.returncode == 130, err
    assert len(read_store(file)) >= 3


WAIT = 200  # seconds that the database waits here: far longer than a busy machine takes to end
PATIENT = f"""
from dpmc_lab import store as connection
connection.WAIT = {WAIT}
from dpmc_lab.__main__ import entry
if __name__ == "__main__":
    entry()
"""


@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_it_at_once_and_frees_what_it_held(finished, file, number):
    """Also where it waits for a locked store, deep inside the database."""
    Store(file).close()
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    child = subprocess.Popen(
        [sys.executable, "-c", PATIENT, *map(str, SMALL), "--store", file, "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    child.stdout.readline()  # it has begun
    time.sleep(2)  # and has rows that cannot be written
    kin = list_descendants(child.pid)
    child.send_signal(number)
    pressed = time.monotonic()
    assert child.stderr.readline().startswith("dpmc: stopping: ")
    assert time.monotonic() - pressed < WAIT / 2  # not the database's patience
    child.send_signal(number)
    out, err = child.communicate(timeout=WAIT / 2)
    assert time.monotonic() - pressed < WAIT / 2
    assert child.returncode == 130
    assert err.startswith("dpmc: ended at once; every row stored before is kept")
    assert json.loads(out.splitlines()[-1]) == {"ended": "stopped"}
    connection.execute("ROLLBACK")
    connection.close()
    assert wait_until(lambda: not any(map(is_alive, kin)))
    completed = run_dpmc(*SMALL, "--store", file)
    assert completed.returncode == 0, completed.stderr
    assert read_store(file) == read_store(finished[0])


# --- mistakes --------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["sweep --json", "answer --progress", "papers --run --json"])
@pytest.mark.parametrize(
    ("error", "end"),
    [
        (None, {"ended": "done"}),
        (KeyboardInterrupt(), {"ended": "stopped"}),
        (DpmcError("no room"), {"ended": "failed", "message": "no room"}),
        (RuntimeError("a fault"), {"ended": "failed"}),
    ],
)
def test_the_last_line_says_how_it_ended(capsys, monkeypatch, command, error, end):
    def run(_):
        if error:
            raise error
        return {}

    monkeypatch.setattr(interface, "run_command", run)
    name, *options = command.split()
    arguments = {"answer": ["jokes"]}.get(name, [])
    with pytest.raises(RuntimeError) if type(error) is RuntimeError else nullcontext():
        main([name, *arguments, *options])
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == end
    with suppress(RuntimeError):
        main([name, *arguments])  # people read no such line
    assert not capsys.readouterr().out


def test_the_last_line_of_a_sweep_counts_its_rows(capsys, file):
    argv = ["sweep", "--data", "one-bit-lab", "--mechanisms", "majority", "--seeds", "1"]
    assert main([*argv, "--store", str(file), "--jobs", "1", "--json"]) == 0
    *_, line, end = map(json.loads, capsys.readouterr().out.splitlines())
    del line["seconds_left"]
    assert end == {"ended": "done"} | line


def test_a_cluster_that_is_not_there_is_a_sentence(capsys, monkeypatch, file):
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "CONNECT_TIMEOUT", 0.5)
    argv = [*SMALL[:-2], "--store", file, "--cluster", "tcp://127.0.0.1:9"]
    message = read_refusal(capsys, *argv)
    assert message.startswith("dpmc: connecting to tcp://127.0.0.1:9 ...\n")
    assert "dpmc: the cluster at tcp://127.0.0.1:9 cannot be reached" in message
    assert "leave --cluster out" in message


@pytest.mark.parametrize("address", ["junk", "carrier-pigeon://x:1", "tcp://:1", "tcp://h:99999"])
def test_a_word_that_is_no_address_is_refused_before_dask_is_asked(
    capsys, monkeypatch, file, address
):
    monkeypatch.setitem(sys.modules, "distributed", None)
    message = read_refusal(capsys, *SMALL[:-2], "--store", file, "--cluster", address)
    assert "--cluster must be tcp://HOST:PORT or tls://HOST:PORT, got" in message


def test_a_cluster_of_another_version_is_refused():
    client = SimpleNamespace(
        wait_for_workers=lambda *_, **__: None,
        run=lambda _: {"worker": "0.1"},
        run_on_scheduler=lambda call: call(),
    )
    with pytest.raises(DpmcError, match=r"runs version 0\.1 and .*: install the same everywhere"):
        cluster._check_workers(client, "tcp://somewhere:1")


def test_a_cluster_without_dask_says_what_to_install(capsys, monkeypatch, file):
    monkeypatch.setitem(sys.modules, "distributed", None)
    argv = [*SMALL[:-2], "--store", file, "--cluster", "tcp://127.0.0.1:9"]
    assert 'pip install "dpmc-lab[cluster]"' in read_refusal(capsys, *argv)


@pytest.mark.slow
def test_a_full_disk_is_a_sentence_and_the_rows_before_it_stay(finished, tmp_path):
    with mount_small_disk(tmp_path, "450k") as small:
        completed = run_dpmc(*SMALL, "--store", small / "results.sqlite")
        assert completed.returncode == 1
        assert "full disk" in completed.stderr
        stored_rows = read_store(small / "results.sqlite")
        assert 0 < len(stored_rows) < UNITS
        for path in small.glob("results.sqlite*"):
            shutil.copy(path, tmp_path)
    assert run_dpmc(*SMALL, "--store", tmp_path / "results.sqlite").returncode == 0
    assert read_store(tmp_path / "results.sqlite") == read_store(finished[0])


# --- dpmc store ------------------------------------------------------------------------------


@pytest.fixture
def filled(file):
    with Store(file) as opened:
        opened.add([make_record(epsilon=e, seed=s) for e in (1.0, 2.0) for s in (1, 2)])
        changed = make_record(seed=9, revision=99)
        changed["settings"] = changed["settings"] | {"radius": 0.5}
        opened.add([changed | {"key": "changed"}, make_record("majority", None, settings={})])
    return file


def test_the_store_is_exported(capsys, filled, tmp_path):
    assert main(["store", "--store", str(filled), "export", "-"]) == 0
    text = capsys.readouterr().out
    assert len(list(csv.DictReader(io.StringIO(text)))) == 6
    path = tmp_path / "rows.csv"
    assert main(["store", "export", str(path), "--data", "stars", "--store", str(filled)]) == 0
    assert path.read_text() == text
    assert capsys.readouterr().out == f"6 rows in {path}\n"
    assert "named .csv" in read_refusal(
        capsys, "store", "export", tmp_path / "rows.xls", "--store", filled
    )


def test_the_store_is_pruned(capsys, filled):
    assert "prune must be told what" in read_refusal(capsys, "store", "prune", "--store", filled)
    prune = ["store", "prune", "--store", str(filled)]
    assert main([*prune, "--outdated", "--dry-run"]) == 0
    assert capsys.readouterr().out == f"1 row would be deleted from {filled}\n"
    assert len(read_store(filled)) == 6
    assert main([*prune, "--outdated"]) == 0
    assert len(read_store(filled)) == 5
    assert main([*prune, "--mechanism", "majority"]) == 0
    assert main([*prune, "--all"]) == 0
    assert read_store(filled) == {}
    with sqlite3.connect(filled) as database:
        assert database.execute("SELECT COUNT(*) FROM curve").fetchone() == (0,)
    database.close()


def test_a_store_that_is_not_there_is_a_sentence(capsys, file):
    for argv in (["store"], ["store", "export", "-"], ["store", "prune", "--all"]):
        assert "'dpmc sweep' makes one" in read_refusal(capsys, *argv, "--store", file)
    assert not file.exists()
