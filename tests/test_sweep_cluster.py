"""A Dask cluster: a real scheduler and two workers of this machine give the rows of a laptop."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import start
from sweep_helpers import rows_of

from dpmc_core.lab.store import Store

pytest.importorskip("distributed", reason="needs the extra 'cluster'")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
GRID = [
    *("--data", "one-bit-lab", "restaurants", "--mechanisms", "input-flip,gradient,output"),
    *("--epsilons", "0.5,1,4", "--seeds", "1:3"),
]
UNITS = 2 * 3 * (4 * 3 + 2)  # with the private guess; the reference and one twin


def dask(kind, *words, threads="1"):
    return subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.dask_{kind}", *map(str, words)],
        cwd=ROOT,  # from where the library can be imported
        env=os.environ | dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), threads),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def end(processes):
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Cluster:
    def __init__(self, folder, workers):
        file = folder / "scheduler.json"
        self.processes = [
            dask(
                "scheduler",
                "--host",
                "127.0.0.1",
                "--port",
                0,
                "--no-dashboard",
                "--scheduler-file",
                file,
            )
        ]
        deadline = time.monotonic() + 200
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(0.2)
        self.address = json.loads(file.read_text())["address"]
        for _ in range(workers):
            # Two threads of linear algebra: the units themselves must hold to one.
            self.processes.append(
                dask(
                    "worker",
                    "--scheduler-file",
                    file,
                    "--nthreads",
                    1,
                    "--nworkers",
                    1,
                    "--no-dashboard",
                    "--local-directory",
                    folder,
                    threads="2",
                )
            )


@pytest.fixture
def cluster(tmp_path):
    made = []

    def make(workers=2):
        made.append(Cluster(tmp_path, workers))
        return made[-1]

    yield make
    for one in made:
        end(one.processes[::-1])


def rows(path):
    with Store(path, read_only=True) as opened:
        return rows_of(opened)


def test_local_processes_and_a_cluster_give_identical_rows(cluster, tmp_path):
    two = cluster()
    for name, where in (("local", ["--jobs", 2]), ("cluster", ["--cluster", two.address])):
        child = start(*GRID, *where, "--store", tmp_path / f"{name}.sqlite")
        _, err = child.communicate(timeout=200)
        assert child.returncode == 0, err
        assert "Traceback" not in err
    assert len(rows(tmp_path / "cluster.sqlite")) == UNITS
    assert rows(tmp_path / "cluster.sqlite") == rows(tmp_path / "local.sqlite")


def test_a_lost_worker_costs_nothing(cluster, tmp_path):
    two = cluster()
    path = tmp_path / "results.sqlite"
    child = start(*GRID, "--cluster", two.address, "--store", path, "--json")
    while json.loads(child.stdout.readline())["done"] < 5:
        pass
    two.processes[-1].kill()
    _, err = child.communicate(timeout=200)
    assert child.returncode == 0, err
    assert len(rows(path)) == UNITS


def test_a_lost_scheduler_is_a_sentence_and_the_rows_stay(cluster, tmp_path):
    two = cluster()
    path = tmp_path / "results.sqlite"
    child = start(*GRID, "--cluster", two.address, "--store", path, "--json")
    while json.loads(child.stdout.readline())["done"] < 5:
        pass
    two.processes[0].kill()
    _, err = child.communicate(timeout=200)
    assert child.returncode == 1
    assert f"the cluster at {two.address} cannot be reached" in err
    assert "Traceback" not in err
    assert 5 <= len(rows(path)) < UNITS


def test_a_scheduler_without_workers_is_a_sentence(cluster, tmp_path):
    alone = cluster(workers=0)
    child = start(*GRID, "--cluster", alone.address, "--store", tmp_path / "results.sqlite")
    _, err = child.communicate(timeout=200)
    assert child.returncode == 1
    assert f"has no workers: start some with 'dask worker {alone.address}'" in err
