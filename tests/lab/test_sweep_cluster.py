"""A Dask cluster: a real scheduler and two workers of this machine give the rows of a laptop."""

import json
from importlib.util import find_spec

import pytest

from dpmc_lab.store import Store
from tests.processes import start_sweep
from tests.sweep_helpers import read_rows
from tests.waiting import PATIENCE_SECONDS

NEEDED = "needs the extra 'cluster'"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("distributed") is None, reason=NEEDED)]

GRID = [
    *("--data", "one-bit-lab", "restaurants", "--mechanisms", "input-flip,gradient,output"),
    *("--epsilons", "0.5,1,4", "--seeds", "1:3"),
]
UNITS = 2 * 3 * (4 * 3 + 2)  # with the private guess; the reference and one twin


def read_store(path):
    with Store(path, read_only=True) as opened:
        return read_rows(opened)


def test_local_processes_and_a_cluster_give_identical_rows(cluster, tmp_path):
    two = cluster()
    for name, options in (("local", ["--jobs", 2]), ("cluster", ["--cluster", two.address])):
        child = start_sweep(*GRID, *options, "--store", tmp_path / f"{name}.sqlite")
        _, err = child.communicate(timeout=PATIENCE_SECONDS)
        assert child.returncode == 0, err
        assert "Traceback" not in err
    assert len(read_store(tmp_path / "cluster.sqlite")) == UNITS
    assert read_store(tmp_path / "cluster.sqlite") == read_store(tmp_path / "local.sqlite")


def test_a_lost_worker_costs_nothing(cluster, tmp_path):
    two = cluster()
    path = tmp_path / "results.sqlite"
    child = start_sweep(*GRID, "--cluster", two.address, "--store", path, "--json")
    while json.loads(child.stdout.readline())["done"] < 5:
        pass
    two.processes[-1].kill()
    _, err = child.communicate(timeout=PATIENCE_SECONDS)
    assert child.returncode == 0, err
    assert len(read_store(path)) == UNITS


def test_a_lost_scheduler_is_a_sentence_and_the_rows_stay(cluster, tmp_path):
    two = cluster()
    path = tmp_path / "results.sqlite"
    child = start_sweep(*GRID, "--cluster", two.address, "--store", path, "--json")
    while json.loads(child.stdout.readline())["done"] < 5:
        pass
    two.processes[0].kill()
    _, err = child.communicate(timeout=PATIENCE_SECONDS)
    assert child.returncode == 1
    assert f"the cluster at {two.address} cannot be reached" in err
    assert "Traceback" not in err
    assert 5 <= len(read_store(path)) < UNITS


def test_a_scheduler_without_workers_is_a_sentence(cluster, tmp_path):
    empty_cluster = cluster(workers=0)
    child = start_sweep(
        *GRID, "--cluster", empty_cluster.address, "--store", tmp_path / "results.sqlite"
    )
    _, err = child.communicate(timeout=PATIENCE_SECONDS)
    assert child.returncode == 1
    assert f"has no workers: start some with 'dask worker {empty_cluster.address}'" in err
