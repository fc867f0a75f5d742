"""Curves for What-if out of the shared result store; only looked at, never written."""

from __future__ import annotations

import streamlit as st

from dpmc_core import curves as core
from dpmc_core import registry, store, sweep
from dpmc_core.curves import EPSILONS, Curves
from dpmc_core.errors import DpmcError
from dpmc_core.metrics import headline
from dpmc_core.problem import LeaveLast, default_split
from dpmc_core.store import Store, default_path
from pages.ui import grid, sources


def curves(data: str, mechanism: str) -> Curves | None:
    """The curve of a mechanism at its defaults, over the seeds that have every epsilon of the
    slider. None where there is no such seed, or the store cannot be read.
    """
    if data == sources.UPLOAD or not default_path().is_file():
        return None
    metric = headline(registry.get(mechanism).task).name
    try:
        keys = _keys(data, mechanism)
        with Store(read_only=True) as file:
            found = store.curves(file, keys=keys, mechanism=mechanism, count=False)
            points = store.points(file, [info.id for info in found], metric)
        at: dict[int, set[float | None]] = {}
        for point in points:
            at.setdefault(point.seed, set()).add(point.epsilon)
        seeds = tuple(seed for seed, there in sorted(at.items()) if there >= set(EPSILONS))
        return _collected(data, mechanism, seeds) if seeds else None
    except (DpmcError, OSError):
        return None


def _keys(data: str, mechanism: str) -> tuple[str, ...]:
    task = registry.get(mechanism).task
    last = default_split(task) == LeaveLast()
    choice = grid.Choice(data, task, (mechanism,), EPSILONS[:1], (1,), (), last)
    return tuple(grid.target(choice, grid.place(choice)).curves)


@st.cache_resource(max_entries=8, show_spinner=False)
def _collected(data: str, mechanism: str, seeds: tuple[int, ...]) -> Curves:
    source = sweep.open_source(data)
    asked = sweep.Grid(sources=[source], mechanisms=[mechanism], epsilons=EPSILONS, seeds=seeds)
    with Store(read_only=True) as file:
        return core.collect(file, sweep.plan(asked))[0]
