"""Killed workers and killed sweeps: nothing stored is lost, and running again completes it."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import pytest

from dpmc_lab.store import Store, StoreError
from tests.processes import (
    ROOT,
    count_members,
    is_alive,
    kill_process,
    list_children,
    list_descendants,
    list_workers,
    needs_proc,
    start_sweep,
    wait_until,
)
from tests.slow_helpers import mark_rest_slow
from tests.sweep_helpers import read_rows
from tests.waiting import PATIENCE_SECONDS

pytestmark = needs_proc

GRID = [
    *("--data", "one-bit-lab", "restaurants", "--mechanisms", "input-flip,gradient,output"),
    *("--epsilons", "0.5,1,2,4", "--seeds", "1:4", "--jobs", "2"),
]
UNITS = 2 * 4 * (4 * 4 + 2)  # with the private guess; the reference and one twin


def read_store(path):
    with Store(path, read_only=True) as opened:
        return read_rows(opened)


def read_partial_store(path):
    try:
        return read_store(path)
    except StoreError:  # killed before it was made
        return {}


def count_rows(path):
    return len(read_partial_store(path))


def complete_sweep(path):
    """Run the sweep until it is through, as a person would."""
    child = start_sweep(*GRID, "--store", path)
    _, err = child.communicate(timeout=PATIENCE_SECONDS)
    assert child.returncode == 0, err
    return read_store(path)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    path = tmp_path_factory.mktemp("undisturbed") / "results.sqlite"
    begin = time.monotonic()
    result = complete_sweep(path)
    assert len(result) == UNITS
    return result, time.monotonic() - begin


@pytest.mark.slow
def test_workers_end_with_a_killed_sweep(tmp_path):
    path = tmp_path / "results.sqlite"
    child = start_sweep(*GRID, "--store", path)
    assert wait_until(lambda: len(list_workers(child.pid)) == 2 and count_rows(path) > 0)
    kin = list_descendants(child.pid)
    kill_process(child.pid)
    child.wait(60)
    for pipe in (child.stdout, child.stderr):
        pipe.close()
    assert len(kin) >= 4  # two workers, their fork server, the resource tracker
    assert wait_until(lambda: not any(map(is_alive, kin)), 10)
    assert count_rows(path) > 0


OWNER_OF_A_SEMAPHORE = """
import os, signal
from dpmc_lab.sweep import engine
context = engine._get_process_context()
semaphore = context.Semaphore()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_is_printed_about_what_a_killed_sweep_leaves_to_its_tracker():
    code = [sys.executable, "-c", OWNER_OF_A_SEMAPHORE]
    completed = subprocess.run(code, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (completed.returncode, completed.stderr) == (-signal.SIGKILL, "")


OWNER = """
import json, sys, time
from pages.ui import sweeps
from tests.sweep_helpers import make_dataset
from dpmc_lab import sweep
folder = sweep.PrivateFolder(make_dataset())
folder.write()
grid = sweep.Grid(data=[str(folder.data)], mechanisms=["gradient"], epsilons=[1.0],
                  seeds=range(1, 3000), settings={"rounds": ["200"]})
command = [*sweep.build_sweep_command(grid, store=folder.store), "--jobs", "2"]
sweeps.start_sweep(folder.path / "sweeps", "mine", command, description={},
                   environment=folder.environment)
status = json.loads((folder.path / "sweeps" / "mine.json").read_text())
print(status["process"], folder.path, flush=True)
time.sleep(600)
"""


@pytest.fixture
def short():
    """A folder with a short name: what workers connect to has to fit into a hundred letters."""
    path = Path(tempfile.mkdtemp())
    yield path
    shutil.rmtree(path)


def start_owner(short, code):
    """Start a process whose temporary files are in a folder."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(short), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # nohup's tests too
    )


@pytest.mark.parametrize(
    ("end", "at_work"), mark_rest_slow(product(["SIGKILL", "SIGTERM", "SIGHUP"], [True, False]))
)
def test_a_private_sweep_ends_with_its_owner_and_its_folder_goes(short, end, at_work):
    """Within three seconds, though nobody is left to ask it: at work, or only just begun."""
    owner = start_owner(short, OWNER)
    group, folder = owner.stdout.readline().split()
    group, folder = int(group), Path(folder)
    assert folder.parent == short
    try:
        if at_work:
            assert wait_until(lambda: count_rows(folder / "results.sqlite") > 0, 30)
        assert count_members(group)
        owner.send_signal(getattr(signal, end))
        owner.communicate()
        assert wait_until(lambda: not count_members(group) and not folder.exists(), 3)
        assert not list(short.iterdir())
    finally:
        kill_process(owner.pid)
        if count_members(group):
            os.killpg(group, signal.SIGKILL)


@pytest.mark.slow
def test_a_private_folder_goes_with_its_owner_when_its_sweep_is_long_over(short):
    code = "\n".join([*OWNER.splitlines()[:7], "print(folder.path, flush=True)", "time.sleep(600)"])
    owner = start_owner(short, code)
    folder = Path(owner.stdout.readline().strip())
    assert (folder / "results.sqlite").exists()
    kill_process(owner.pid)
    owner.communicate()
    assert wait_until(lambda: not list(short.iterdir()), 3)


@pytest.mark.slow
def test_a_killed_worker_is_replaced(tmp_path, undisturbed):
    path = tmp_path / "results.sqlite"
    child = start_sweep(*GRID, "--store", path)
    assert wait_until(lambda: len(list_workers(child.pid)) == 2 and count_rows(path) > 0)
    kill_process(list_workers(child.pid)[0])
    _, err = child.communicate(timeout=PATIENCE_SECONDS)
    assert (child.returncode, "Traceback" in err) == (0, False), err
    assert read_store(path) == undisturbed[0]


@pytest.mark.slow
def test_two_sweeps_on_one_store_do_each_unit_once(tmp_path, undisturbed):
    path = tmp_path / "results.sqlite"
    pair = [start_sweep(*GRID, "--store", path, "--json") for _ in range(2)]
    outputs = [child.communicate(timeout=PATIENCE_SECONDS) for child in pair]
    assert [child.returncode for child in pair] == [0, 0], outputs
    ends = [json.loads(out.splitlines()[-1]) for out, _ in outputs]
    assert all(end["done"] > 0 for end in ends)
    assert sum(end["done"] for end in ends) == UNITS  # each computed by one of the two
    assert all(end["skipped"] + end["done"] == UNITS for end in ends)
    assert read_store(path) == undisturbed[0]


@pytest.mark.slow
def test_a_killed_sweep_leaves_its_units_to_the_other(tmp_path, undisturbed):
    path = tmp_path / "results.sqlite"
    killed, survivor = (start_sweep(*GRID, "--store", path, "--json") for _ in range(2))
    while json.loads(killed.stdout.readline())["done"] == 0:
        pass
    kill_process(killed.pid)
    killed.communicate()
    out, err = survivor.communicate(timeout=PATIENCE_SECONDS)
    assert survivor.returncode == 0, err
    end = json.loads(out.splitlines()[-1])
    assert end["skipped"] + end["done"] == UNITS
    assert read_store(path) == undisturbed[0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_workers_killed_at_random_moments(tmp_path, undisturbed, seed):
    """Three kills in one run; the run itself completes."""
    expected, seconds = undisturbed
    path, moments = tmp_path / "results.sqlite", random.Random(seed)
    child = start_sweep(*GRID, "--store", path)
    for _ in range(3):
        time.sleep(moments.uniform(0.2, 0.3 * seconds))
        if victims := list_workers(child.pid):
            kill_process(moments.choice(victims))
    _, err = child.communicate(timeout=PATIENCE_SECONDS)
    assert child.returncode == 0, err
    assert read_store(path) == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_sweep_killed_at_random_moments(tmp_path, undisturbed, seed):
    """Kill the sweep (its fork server too, at times), twice over, then let it complete."""
    expected, seconds = undisturbed
    path, moments = tmp_path / "results.sqlite", random.Random(seed)
    before = 0
    for _ in range(2):
        child = start_sweep(*GRID, "--store", path)
        time.sleep(moments.uniform(0.1, 0.6 * seconds))
        kin = list_descendants(child.pid)
        if moments.random() < 0.3:
            for child_pid in list_children(child.pid):
                kill_process(child_pid)
        kill_process(child.pid)
        child.communicate()
        assert wait_until(lambda kin=kin: not any(map(is_alive, kin)), 10)
        after = read_partial_store(path)
        assert after.items() <= expected.items()
        assert len(after) >= before
        before = len(after)
    assert complete_sweep(path) == expected
