"""What a result store holds of a comparison, read again only when something has arrived."""

from __future__ import annotations

import io
from pathlib import Path
from typing import NamedTuple

import streamlit as st

from dpmc_core import registry
from dpmc_core import store as core
from dpmc_core.store import CurveInfo, Store
from dpmc_core.views import compare
from dpmc_core.views.compare import Line, Reference
from dpmc_core.views.curves import HEADLINE
from pages.ui.grid import Choice, Place, Target


class Rows(NamedTuple):
    """present: finished units of the grid. floors, twins: trivial predictors and no privacy.

    last: a number that changes with every row of the store.
    """

    last: int = 0
    present: int = 0
    curves: tuple[CurveInfo, ...] = ()
    lines: tuple[Line, ...] = ()
    floors: tuple[Reference, ...] = ()
    twins: tuple[Reference, ...] = ()


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


def _read(store: Store, choice: Choice, target: Target, last: int) -> Rows:
    curves = tuple(core.curves(store, keys=target.curves, count=False))
    metric, place = HEADLINE[choice.task], list(target.curves).index
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
                store, [info.id], HEADLINE[registry.get(info.mechanism).task]
            )
            if summary.epsilon is not None
        ]
    return sum(s.seeds for s in found), sum(s.seeds * s.epsilon for s in found)


def _has_rows(file: Path) -> bool:
    return file.is_file() and file.stat().st_size > 0
