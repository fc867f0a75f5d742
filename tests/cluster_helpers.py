"""A Dask scheduler and workers of this machine."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parent.parent


def start_dask(kind, *arguments, threads="1"):
    return subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.dask_{kind}", *map(str, arguments)],
        cwd=ROOT,  # from where the library can be imported
        env=os.environ | dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), threads),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def end_processes(processes):
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
        common = ("--scheduler-file", file, "--no-dashboard")
        self.processes = [start_dask("scheduler", "--host", "127.0.0.1", "--port", 0, *common)]
        wait_for(file.exists)
        time.sleep(0.2)
        self.address = json.loads(file.read_text())["address"]
        for _ in range(workers):
            # Two threads of linear algebra: the units themselves must hold to one.
            options = ("--nthreads", 1, "--nworkers", 1, "--local-directory", folder)
            self.processes.append(start_dask("worker", *common, *options, threads="2"))


@pytest.fixture
def cluster(tmp_path):
    clusters = []

    def make(workers=2):
        clusters.append(Cluster(tmp_path, workers))
        return clusters[-1]

    yield make
    for started in clusters:
        end_processes(started.processes[::-1])
