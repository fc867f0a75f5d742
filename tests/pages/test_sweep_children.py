"""Sweeps started by the app: one at a time per grid, found again, and ended with all their kin."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from dpmc_core.errors import DpmcError
from dpmc_lab import locks
from dpmc_lab import sweep as core
from dpmc_lab.store import Store, iterate_records
from pages.ui import private, sweeps
from tests.processes import count_members
from tests.waiting import PATIENCE_SECONDS, wait_for

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs process groups")


@pytest.fixture
def folder(tmp_path):
    """Where sweeps leave their traces; what still runs in it is ended."""
    yield tmp_path / "sweeps"
    for sweep in sweeps.list_sweeps(tmp_path / "sweeps"):
        sweeps.cancel_sweep(tmp_path / "sweeps", sweep.key)


def build_command(tmp_path, epsilons=(0.5, 1.0, 2.0, 4.0), seeds=range(1, 40), ids=("output",)):
    grid = core.Grid(data=["movie-night"], mechanisms=ids, epsilons=epsilons, seeds=seeds)
    command = core.build_sweep_command(grid, store=tmp_path / "results.sqlite")
    return [*command, "--jobs", "1"]


def read_keys(tmp_path):
    with Store(tmp_path / "results.sqlite", read_only=True) as store:
        return {record["key"] for record in iterate_records(store)}


def count_done(folder, key="k"):
    return (sweeps.load_sweep(folder, key).counts or {}).get("done", 0)


def test_a_sweep_is_found_again_started_once_and_cancelled_with_all_its_processes(tmp_path, folder):
    details = {"title": "Movie night"}
    assert sweeps.start_sweep(folder, "k", build_command(tmp_path), description=details)
    assert not sweeps.start_sweep(folder, "k", build_command(tmp_path), description=details)
    wait_for(lambda: count_done(folder) >= 2)
    # Another program on this machine sees the same: nothing of it is in this one's memory.
    code = (
        "import sys; from pathlib import Path; from pages.ui import sweeps;"
        "s = sweeps.load_sweep(Path(sys.argv[1]), 'k'); print(s.running, s.description['title'])"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    assert completed.stdout.strip() == "True Movie night"
    group = json.loads((folder / "k.json").read_text())["process"]
    assert count_members(group) >= 2
    start = time.monotonic()
    sweeps.cancel_sweep(folder, "k")
    assert time.monotonic() - start < sweeps.GRACE + 1
    wait_for(lambda: count_members(group) == 0)
    sweep_state = sweeps.load_sweep(folder, "k")
    assert (sweep_state.running, sweep_state.message) == (False, "")
    stored_rows = read_keys(tmp_path)
    assert len(stored_rows) >= 2
    # The same again goes on from there.
    assert sweeps.start_sweep(folder, "k", build_command(tmp_path), description=details)
    wait_for(lambda: count_done(folder) >= 1)
    assert sweeps.load_sweep(folder, "k").counts["skipped"] == len(stored_rows)
    assert read_keys(tmp_path) > stored_rows


def test_a_killed_sweep_is_over_and_may_be_started_again(tmp_path, folder):
    sweeps.start_sweep(folder, "k", build_command(tmp_path), description={})
    wait_for(lambda: count_done(folder) >= 1)
    group = json.loads((folder / "k.json").read_text())["process"]
    os.kill(group, signal.SIGKILL)
    wait_for(lambda: not sweeps.load_sweep(folder, "k").running)
    wait_for(lambda: count_members(group) == 0)  # its workers follow it
    assert sweeps.start_sweep(folder, "k", build_command(tmp_path), description={})


@pytest.mark.slow
def test_a_finished_sweep_says_nothing_and_a_failed_one_says_why(tmp_path, folder):
    sweeps.start_sweep(folder, "k", build_command(tmp_path, [1.0], [1]), description={})
    wait_for(lambda: not sweeps.load_sweep(folder, "k").running)
    sweep_state = sweeps.load_sweep(folder, "k")
    assert sweep_state.message == ""
    assert sweep_state.counts["done"] == sweep_state.counts["total"] == 4
    wrong = ["magic" if word == "output" else word for word in build_command(tmp_path)]
    sweeps.start_sweep(folder, "j", wrong, description={})
    wait_for(lambda: not sweeps.load_sweep(folder, "j").running)
    assert "magic" in sweeps.load_sweep(folder, "j").message
    assert not sweeps.load_sweep(folder, "j").message.startswith("dpmc")  # as its own lines begin


def test_no_more_than_a_few_run_at_once(tmp_path, folder):
    for key in "ab"[: sweeps.MAX_RUNNING_SWEEPS]:
        assert sweeps.start_sweep(folder, key, build_command(tmp_path), description={})
    with pytest.raises(DpmcError, match="wait for one or cancel it"):
        sweeps.start_sweep(folder, "c", build_command(tmp_path), description={})
    sweeps.cancel_folder_sweeps(folder)
    assert not any(sweep.running for sweep in sweeps.list_sweeps(folder))


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(DpmcError, match=r"could not be started.*DPMC_HOME"):
        sweeps.start_sweep(blocked / "sweeps", "k", build_command(tmp_path), description={})


def test_the_end_of_the_server_ends_its_sweeps(tmp_path, folder):
    code = (
        "import sys, time; from pathlib import Path; from pages.ui import sweeps;"
        "folder = Path(sys.argv[1]); sweeps.start_sweep(folder, 'k', sys.argv[2:],"
        " description={});\n"
        "while not sweeps.load_sweep(folder, 'k').counts.get('done'): time.sleep(0.05)"
    )
    argv = [sys.executable, "-c", code, str(folder), *build_command(tmp_path)]
    subprocess.run(argv, check=True, timeout=PATIENCE_SECONDS)
    group = json.loads((folder / "k.json").read_text())["process"]
    wait_for(lambda: count_members(group) == 0)
    assert not sweeps.load_sweep(folder, "k").running
    assert read_keys(tmp_path)


def test_a_killed_owner_of_an_upload_leaves_nothing_behind_its_successor(monkeypatch):
    code = (
        "import time; from dpmc_lab import sweep; from dpmc_data import datasets;"
        "from pages.ui import private, sweeps\n"
        "dataset = datasets.load('movie-night')\n"
        "folder = private.UploadFolder().open_folder(dataset); folder.write()\n"
        "grid = sweep.Grid(data=[str(folder.data)], mechanisms=['output'], epsilons=[1.0],"
        " seeds=range(1, 500))\n"
        "words = [*sweep.build_sweep_command(grid, store=folder.store), '--jobs', '1']\n"
        "place = folder.path / 'sweeps'\n"
        "sweeps.start_sweep(place, 'k', words, description={}, environment=folder.environment)\n"
        "while not sweeps.load_sweep(place, 'k').counts.get('done'): time.sleep(0.05)\n"
        "print(folder.path, flush=True); time.sleep(60)"
    )
    with tempfile.TemporaryDirectory() as short:  # the name of a socket has to fit
        monkeypatch.setattr(tempfile, "tempdir", short)
        owner = subprocess.Popen(
            [sys.executable, "-c", code],
            env=os.environ | {"TMPDIR": short},
            stdout=subprocess.PIPE,
            text=True,
        )
        path = Path(owner.stdout.readline().strip())
        group = json.loads((path / "sweeps" / "k.json").read_text())["process"]
        private.remove_orphans()
        assert path.exists()  # its owner lives
        assert count_members(group) >= 2
        owner.kill()
        owner.communicate()
        private.remove_orphans()
        wait_for(lambda: count_members(group) == 0)
        assert not list(Path(short).iterdir())


COUNTS = '{"total": 4, "skipped": 1, "done": 2}\n'


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (COUNTS + '{"ended": "done"}\n', ""),
        (COUNTS + '{"ended": "stopped"}\n', ""),
        (COUNTS + '{"ended": "failed", "message": "no room"}\n', "no room"),
        (COUNTS + '{"ended": "failed"}\n', "Something went wrong inside the program"),
        (COUNTS + '{"ended": "do', "The program ended before its work was done"),
        (COUNTS.replace("1", "2"), ""),  # all of it was done before lines said so
        ("", "The program ended before its work was done"),
    ],
)
def test_how_a_sweep_ended_is_read_from_its_last_line(folder, out, message):
    folder.mkdir()
    (folder / "k.json").write_text('{"started": 0, "about": {}}')
    (folder / "k.out").write_text(out)
    # No word for people decides.
    (folder / "k.err").write_text("Traceback\ndpmc: the same command goes on from there\n")
    sweep = sweeps.load_sweep(folder, "k")
    assert sweep.message.startswith(message)
    assert bool(sweep.message) is bool(message)
    assert sweep.counts.get("total") == (4 if out else None)


def test_a_sweep_that_is_killed_by_stop_was_stopped(folder):
    argv = [sys.executable, "-c", "import time; print('{', end='', flush=True); time.sleep(60)"]
    sweeps.start_sweep(folder, "k", argv, description={})
    wait_for(lambda: (folder / "k.out").read_text())
    sweeps.cancel_sweep(folder, "k", grace=0)
    assert sweeps.load_sweep(folder, "k").counts == {"ended": "stopped"}
    assert sweeps.load_sweep(folder, "k").message == ""


@pytest.mark.skipif(not locks.AVAILABLE, reason="needs file locks")
def test_uploads_of_a_server_whose_machine_stopped_are_removed(tmp_path, monkeypatch):
    code = (
        "import time; from dpmc_data import datasets; from pages.ui import private\n"
        "folder = private.UploadFolder().open_folder(datasets.load('one-bit-lab'));"
        " folder.write()\n"
        "print(folder._watcher.pid, flush=True); time.sleep(600)"
    )
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as owner:
        os.kill(int(owner.stdout.readline()), signal.SIGKILL)  # what would have removed them
        owner.kill()
    assert list(tmp_path.iterdir())
    private.remove_orphans()
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_process_that_is_not_the_sweep_is_never_ended(tmp_path, folder):
    sweeps.start_sweep(folder, "k", build_command(tmp_path), description={})
    status = json.loads((folder / "k.json").read_text())
    time.sleep(0.05)  # a few ticks of the clock that tells processes of one number apart
    bystander = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1)
    (folder / "k.json").write_text(json.dumps(status | {"process": bystander.pid}))
    with pytest.raises(DpmcError, match="another container"):
        sweeps.cancel_sweep(folder, "k")
    assert bystander.poll() is None
    bystander.communicate()
    assert sweeps.load_sweep(folder, "k").running
    (folder / "k.json").write_text(json.dumps(status))
    sweeps.cancel_sweep(folder, "k")
    assert not sweeps.load_sweep(folder, "k").running
