"""A result store of 1,000,000 rows: how long the Compare page waits for what it draws.

    python benchmarks/store_million.py [--rows N]

The store is made in a temporary folder: curves of 10 epsilons, the rows spread evenly over them.
Twice: many curves of 100 seeds, as years of work leave them, and five curves with all the rows.
Timed is what the page asks on opening five mechanisms with their two reference lines: is anything
new, which units are there, the values over seeds, what is certified; and what `dpmc store` lists.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from pathlib import Path

from dpmc_core.lab import store
from dpmc_core.lab.store import UNIT_COLUMNS, Store, digest
from dpmc_core.lab.views import lines
from dpmc_core.metrics import METRICS

EPSILONS = (0.1, 0.2, 0.5, 0.7, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0)
MECHANISMS = ("input-flip", "objective", "objective-statistic", "gradient", "output")
BATCH = 20_000


def record(source, mechanism, epsilon, seed):
    """A row of about the size a real one has."""
    budget = None if epsilon is None else {"epsilon": epsilon, "delta": 0.0}
    settings = {"link": "logistic", "radius": 0.7, "bound": None, "iterations": 100}
    settings |= {} if epsilon is None else {"epsilon": epsilon}
    return {
        "key": digest(source, mechanism, epsilon, seed),
        "version": "0.1.0",
        "mechanism": mechanism,
        "revision": 1,
        "task": "binary",
        "seed": seed,
        "data": {
            "name": f"data {source}",
            "title": "Data",
            "source": f"{source:016x}",
            "fingerprint": f"{seed:016x}",
            "users": 943,
            "items": 1682,
            "ratings": 80_000,
            "test_ratings": 20_000,
            "low": -1.0,
            "high": 1.0,
            "cap": None,
            "split": "a random 0.2 of the ratings",
            "prepare": ["binarise=mean"],
            "prepared": [f"the threshold {3.5 + seed % 100 / 1e4:.4f} (mean of the ratings)"],
        },
        "settings": settings,
        "guarantee": {
            "unit": "value",
            "neighbours": "replace",
            "notion": "pure",
            "trust": "local",
            "publishes": "completed matrix",
            "source": "LWHM22",
            "reason": "",
            "caveats": [],
            "claimed": budget,
            "certified": budget,
            "units": dict.fromkeys(UNIT_COLUMNS) | {"value": epsilon},
            "reasons": {"user_empty": "which ratings exist is public"},
        },
        "metrics": {"accuracy": 0.5 + (epsilon or 1) / 50 + seed % 97 / 1e4},
        "rounds": 17,
        "stopped": False,
        "seconds": 1.25,
    }


def units(sources, seeds):
    for source, seed in itertools.product(range(sources), range(1, seeds + 1)):
        for mechanism in ("majority", "clear"):
            yield source, mechanism, None, seed
        for mechanism, epsilon in itertools.product(MECHANISMS, EPSILONS):
            yield source, mechanism, epsilon, seed


def fill(path, sources, seeds):
    wanted = units(sources, seeds)
    count = 0
    with Store(path) as opened:
        while batch := list(itertools.islice(wanted, BATCH)):
            count += opened.add(record(*unit) for unit in batch)
    return count


def page(path, seeds):
    """What the page asks, with the seconds of each question."""
    drawn = range(1, min(seeds, 5) + 1)
    keys = [digest(*unit) for unit in units(1, max(drawn))]
    clock, taken = time.perf_counter(), {}

    def lap(name):
        nonlocal clock
        now = time.perf_counter()
        taken[name], clock = now - clock, now

    with Store(path, read_only=True) as opened:
        store.last_row(opened)
        lap("open, anything new")
        assert len(opened.present(keys)) == len(keys)
        lap("which units are there")
        found = store.curves(opened, source=f"{0:016x}", count=False)
        lap("the curves of the data")
        drawable = {"mechanisms": MECHANISMS, "metric": METRICS["accuracy"]}
        drawable["keys"] = [info.key for info in found]
        picture = lines.read(opened, **drawable)
        lap("lines with up to 200 seeds")
        lines.read(opened, **drawable, seeds=drawn)
        lap("lines of five seeds")
        assert len(picture.lines) == len(MECHANISMS)
        for info in found:
            store.points(opened, info.id, "accuracy", 10**6)
        lap("values of all seeds")
    return taken


def listing(path):
    begin = time.perf_counter()
    with Store(path, read_only=True) as opened:
        store.curves(opened)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    args = parser.parse_args()
    per_seed = len(MECHANISMS) * len(EPSILONS) + 2
    many = max(1, args.rows // (per_seed * 100) + 1)
    for words, sources, seeds in (
        (f"{many:,} data sets, 100 seeds each", many, 100),
        ("one data set", 1, args.rows // per_seed + 1),
    ):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "results.sqlite"
            begin = time.perf_counter()
            count = fill(path, sources, seeds)
            filled = time.perf_counter() - begin
            size = path.stat().st_size / 1e6
            print(f"{count:,} rows, {words}: {size:,.0f} MB, filled in {filled:.0f} s")
            laps = [page(path, seeds) for _ in range(5)]
            for name in laps[0]:
                print(f"  {1000 * statistics.median(lap[name] for lap in laps):8.1f} ms  {name}")
            whole = [sum(lap.values()) for lap in laps]
            print(f"  {1000 * max(whole):8.1f} ms  the page, slowest of {len(laps)}")
            print(f"  {1000 * listing(path):8.1f} ms  dpmc store list")


if __name__ == "__main__":
    main()
