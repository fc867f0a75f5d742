"""What a result store holds of a comparison, read again only when something has arrived."""

from __future__ import annotations

import io
from pathlib import Path
from typing import NamedTuple

import streamlit as st

from dpmc_core import registry
from dpmc_core import store as core
from dpmc_core.metrics import headline
from dpmc_core.model import Task
from dpmc_core.store import CurveInfo, Store
from dpmc_core.sweep.presets import noisy
from dpmc_core.views import compare, shipped
from dpmc_core.views.compare import Line, Reference
from pages.ui import sources
from pages.ui.grid import Choice, Place, Target


class Rows(NamedTuple):
    """present: finished units of the grid. floors, twins: trivial predictors and no privacy.

    last: a number that changes with every row of the store. shipped: which lines came with the
    app, in words.
    """

    last: int = 0
    present: int = 0
    curves: tuple[CurveInfo, ...] = ()
    lines: tuple[Line, ...] = ()
    floors: tuple[Reference, ...] = ()
    twins: tuple[Reference, ...] = ()
    shipped: str = ""


def read(choice: Choice, where: Place, target: Target) -> Rows:
    """The rows of a grid. Raises StoreError."""
    if not _has_rows(where.store):
        return Rows()
    with Store(where.store, read_only=True) as store:
        last = core.last_row(store)
        marks = (str(where.store), target.key, last)
        kept: tuple[object, Rows] | None = st.session_state.get("rows")
        if kept is None or kept[0] != marks:
            kept = (marks, _read(store, choice, target, last))
            st.session_state["rows"] = kept
    return kept[1]


def with_shipped(choice: Choice, rows: Rows) -> Rows:
    """The same with the curves that came with the app, where a mechanism has no row of its own."""
    found = sources.shipped_curves(choice.data, choice.task)
    if found is None or not shipped.fits(found, steps=choice.steps, leave_last=choice.leave_last):
        return rows
    there = {line.mechanism for line in rows.lines}
    mine = _shipped_lines(choice.data, choice.task)
    added = [mine[id] for id in choice.mechanisms if id in mine and id not in there]
    classes = [registry.get(id) for id in choice.mechanisms]
    levels = []
    for role, own in (("floor", rows.floors), ("twin", rows.twins)):
        wanted = dict.fromkeys(getattr(c, role) for c in classes)
        known = {level.mechanism for level in own}
        levels.append((*own, *shipped.references(found, [id for id in wanted if id not in known])))
    order = choice.mechanisms.index
    return rows._replace(
        lines=tuple(sorted((*rows.lines, *added), key=lambda line: order(line.mechanism))),
        floors=levels[0],
        twins=levels[1],
        shipped=shipped.words(found, added),
    )


@st.cache_resource(max_entries=8, show_spinner=False)
def _shipped_lines(data: str, task: Task) -> dict[str, Line]:
    found = sources.shipped_curves(data, task)
    assert found is not None  # looked at before
    return {line.mechanism: line for line in shipped.lines(found, noisy(task))}


def _read(store: Store, choice: Choice, target: Target, last: int) -> Rows:
    curves = tuple(core.curves(store, keys=target.curves, count=False))
    metric, place = headline(choice.task), list(target.curves).index
    # A million rows must not be read twice: methods with and without an epsilon apart.
    noisy = [info for info in curves if info.mechanism in choice.mechanisms]
    plain = [info for info in curves if info.mechanism not in choice.mechanisms]
    lines = compare.lines(store, noisy, metric, epsilons=choice.epsilons, seeds=choice.seeds)
    levels = compare.references(store, plain, metric, seeds=choice.seeds)
    classes = [registry.get(id) for id in choice.mechanisms]
    floors, twins = ({getattr(c, role) for c in classes} for role in ("floor", "twin"))
    return Rows(
        last,
        len(store.present(target.units)),
        curves,
        tuple(sorted(lines, key=lambda line: place(line.key))),
        tuple(level for level in levels if level.mechanism in floors),
        tuple(level for level in levels if level.mechanism in twins),
    )


def csv(where: Place, rows: Rows) -> str:
    """Every stored row of the curves, also of other epsilons and seeds. Raises StoreError."""
    stream = io.StringIO()
    with Store(where.store, read_only=True) as store:
        core.write_csv(store, rows.curves, stream)
    return stream.getvalue()


def spent(file: Path | None) -> tuple[int, float]:
    """(private runs, sum of their epsilons) of everything in a store. Raises StoreError."""
    if file is None or not _has_rows(file):
        return 0, 0.0
    with Store(file, read_only=True) as store:
        found = [
            summary
            for info in core.curves(store, count=False)
            for summary in core.summaries(
                store, [info.id], headline(registry.get(info.mechanism).task).name
            )
            if summary.epsilon is not None
        ]
    return sum(s.seeds for s in found), sum(s.seeds * s.epsilon for s in found)


def _has_rows(file: Path) -> bool:
    return file.is_file() and file.stat().st_size > 0
