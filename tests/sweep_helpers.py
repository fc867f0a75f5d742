"""Small grids, and what must be equal in their rows."""

import copy
from concurrent.futures import Future
from typing import ClassVar

import numpy as np

from dpmc_core import registry
from dpmc_core.dataset import Dataset
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_lab import store, sweep
from dpmc_lab.cli.interface import collect_arguments
from dpmc_lab.sweep import engine, sources

USERS, ITEMS = 30, 20
TIMES = ("seconds", "finished", "version")


def make_dataset(signs=False, seed=3, times=True):
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((USERS, ITEMS)) < 0.5)
    if signs:
        values, low, high = rng.choice([-1.0, 1.0], len(users)), -1, 1
    else:
        values, low, high = rng.integers(1, 6, len(users)).astype(float), 1, 5
    ratings = Ratings.build(
        users,
        items,
        values,
        PublicFacts(users=USERS, items=ITEMS, low=low, high=high),
        times=rng.integers(0, 1000, len(users)) if times else None,
        user_ids=[f"u{k}" for k in range(USERS)],
        titles=[f"=film {k}" for k in range(ITEMS)],
    )
    return Dataset(ratings, "tiny", "Tiny")


def make_source(**options):
    return sweep.drop_names(sweep.SplitSource(make_dataset(**options)))


def make_pair():
    ratings = make_dataset().ratings
    test = np.arange(len(ratings)) % 5 == 0
    train, tested_on = ratings.select(~test), ratings.select(test)
    return sweep.drop_names(sources.PairSource(train, tested_on, "tiny/u1", "Tiny, split 1"))


def make_plan(sources=None, **changes):
    """The plan of a grid on data that are made here; by default of papers' quick estimators."""
    grid = {
        "data": ["tiny"],
        "mechanisms": ["input-flip", "gradient", "output"],
        "epsilons": [0.5, 1.0, 4.0],
        "seeds": [1, 2],
        "settings": {"iterations": ["6"]},
    } | changes
    classes = [registry.MECHANISMS[id] for id in grid["mechanisms"] if id in registry.MECHANISMS]
    if "settings" not in changes and any(registry.has_setting(m, "estimator") for m in classes):
        grid["settings"] = grid["settings"] | {"estimator": ["published"]}
    plan_sources = [make_source()] if sources is None else sources
    return sweep.build_plan(sweep.Grid(**grid), plan_sources)


def parse_grid(args):
    """The grid of a parsed command line."""
    return collect_arguments(args)["grid_options"].grid()


class ExecutorPool:
    """Units on an executor of the caller's, who also shuts it down."""

    def __init__(self, executor, sources, size):
        self.executor, self.sources, self.size = executor, sources, size

    def submit(self, unit):
        return self.executor.submit(engine.run_unit, unit, self.sources[unit.source])

    def close(self, *, at_once):
        """Nothing is ours to close."""


class InProcessPool:
    """A pool of one that needs no process; a unit is run once, as its key decides its record."""

    size = 1
    records: ClassVar[dict] = {}

    def __init__(self, sources):
        self.sources = sources

    def submit(self, unit):
        computed = self.records.get(unit.key) or engine.run_unit(unit, self.sources[unit.source])
        if not isinstance(computed, str):  # why there is no record is of this run alone
            self.records[unit.key] = computed
        future = Future()
        future.set_result(copy.deepcopy(computed))
        return future

    def close(self, *, at_once):
        pass


def read_rows(opened):
    """Every row by its key, without times."""
    return {
        record["key"]: {name: value for name, value in record.items() if name not in TIMES}
        for record in store.iterate_records(opened)
    }
