"""Records and errors that tests of the store and of sweeps share."""

import os
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpmc_core import registry
from dpmc_lab.store import digest_values
from dpmc_lab.sweep import warm_up
from dpmc_lab.views import lines

NOBODY_ID = 65534


def load_curve_chart(store, mechanisms, metric, **filters):
    """Load the chart of some mechanisms, as far as a store has their curves."""
    rows = lines.load_curve_rows(store, mechanisms, [metric], **filters)
    return lines.build_curve_chart(rows, mechanisms, metric)


def make_record(mechanism="input-flip", epsilon=1.0, seed=1, accuracy=0.6, **changes):
    """A finished unit as a worker returns it."""
    settings = {"link": "logistic", "radius": 0.7, "bound": None, "iterations": 100}
    if epsilon is not None:
        settings["epsilon"] = epsilon
    budget = None if epsilon is None else {"epsilon": epsilon, "delta": 0.0}
    data = {
        "name": "stars",
        "title": "Stars",
        "source": "5" * 16,
        "fingerprint": f"{seed:016x}",
        "users": 40,
        "items": 30,
        "ratings": 480,
        "test_ratings": 120,
        "low": -1.0,
        "high": 1.0,
        "cap": None,
        "split": "a random 0.2 of the ratings",
        "prepare": ["binarise=mean"],
        "prepared": [f"the threshold {3 + seed / 100:g} (mean of the training ratings)"],
    }
    finished = {
        "key": digest_values(mechanism, settings, seed),
        "version": "0.1.0",
        "mechanism": mechanism,
        "revision": registry.get_mechanism(mechanism).revision,
        "task": "binary",
        "seed": seed,
        "data": data,
        "settings": settings,
        "guarantee": {
            "unit": "value",
            "neighbours": "replace",
            "notion": "pure",
            "trust": "local",
            "publishes": "flipped signs",
            "source": "LWHM22, Theorem 1",
            "reason": "",
            "caveats": ["one", "two"],
            "claimed": budget,
            "certified": budget,
            "units": {
                "value": epsilon,
                "row_values": None if epsilon is None else 30 * epsilon,
                "entry": None,
                "user_empty": None,
                "user_replace": None,
            },
            "reasons": {"entry": "the pattern is public"},
        },
        "metrics": {"accuracy": accuracy},
        "rounds": 17,
        "stopped": False,
        "seconds": 0.25,
    }
    return finished | changes


@contextmanager
def mount_small_disk(folder, size):
    """A file system of that size in a new folder; the test is skipped where none can be mounted."""
    small = folder / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(small)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the right to mount a small file system")
    try:
        yield small
    finally:
        subprocess.run(["umount", str(small)], check=True)


@contextmanager
def drop_privileges():
    """Without the rights of the superuser, whom no read-only folder stops."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        yield
        return
    warm_up()  # a fork server that started below would leave its rights to every later worker
    os.seteuid(NOBODY_ID)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def open_folder():
    """A temporary folder that anybody may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


needs_modes = pytest.mark.skipif(os.name == "nt", reason="needs POSIX file modes")
