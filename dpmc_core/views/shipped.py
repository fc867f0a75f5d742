"""Precomputed curves as the lines of a comparison, so that there is a picture before a sweep."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from dpmc_core import registry
from dpmc_core.curves import Curves
from dpmc_core.privacy import Change, Guarantee
from dpmc_core.problem import LeaveLast, RandomShare
from dpmc_core.views.compare import Line, Reference
from dpmc_core.views.curves import HEADLINE


def fits(found: Curves, *, steps: tuple[str, ...], leave_last: bool) -> bool:
    """Whether the curves were computed as a comparison asks: default preparation, same hold-out."""
    split = LeaveLast() if leave_last else RandomShare()
    return not steps and found.stamp.split == str(split)


def lines(found: Curves, mechanisms: Iterable[str]) -> tuple[Line, ...]:
    """The curves of some mechanisms; those computed at another revision or setting are left out."""
    made = (_line(found, id) for id in mechanisms if _is_current(found, id))
    return tuple(line for line in made if line is not None)


def references(found: Curves, ids: Iterable[str]) -> tuple[Reference, ...]:
    """The methods without an epsilon among the curves."""
    made = []
    for id in ids:
        metric = HEADLINE[registry.get(id).task]
        values = [
            row.value
            for row in found.rows
            if row.mechanism == id and row.metric == metric and math.isnan(row.epsilon)
        ]
        if values and _is_current(found, id):
            made.append(Reference(_key(id), id, registry.get(id).name, metric, np.array(values)))
    return tuple(made)


def words(found: Curves, lines: Iterable[Line]) -> str:
    """What is drawn of the shipped curves, with their stamp; nothing where it is none."""
    drawn = list(lines)
    if not drawn:
        return ""
    seeds = max(len(line.seeds) for line in drawn)
    return (
        f"Computed beforehand with version {found.stamp.version}, {seeds} seeds, default settings,"
        f" and shipped with the app: {'; '.join(line.label for line in drawn)}. Runs of your own"
        " take their place."
    )


def _line(found: Curves, id: str) -> Line | None:
    cls = registry.get(id)
    metric = HEADLINE[cls.task]
    measured = {
        (row.epsilon, row.seed): row.value
        for row in found.rows
        if row.mechanism == id and row.metric == metric and not math.isnan(row.epsilon)
    }
    if not measured:
        return None
    grid, seeds = (sorted(set(side)) for side in zip(*measured, strict=True))
    cards = [registry.create(id, epsilon=e).guarantee(found.stamp.public) for e in grid]
    proved = {change.value: [card.certified(change) for card in cards] for change in Change}
    return Line(
        key=_key(id),
        mechanism=id,
        label=cls.name,
        metric=metric,
        epsilon=np.array(grid, dtype=float),
        seeds=np.array(seeds),
        values=np.array([[measured.get((e, s), math.nan) for s in seeds] for e in grid]),
        claimed=np.array([_claimed(card) for card in cards]),
        change=cards[0].change,
        certified={c: np.array([p.epsilon for p in found]) for c, found in proved.items()},
        reasons={c: found[0].reason for c, found in proved.items() if not found[0].finite},
    )


def _claimed(card: Guarantee) -> float:
    return math.nan if card.claimed is None else card.claimed.epsilon


def _is_current(found: Curves, id: str) -> bool:
    stamp = found.stamp
    if stamp.revisions.get(id) != registry.get(id).revision:
        return False
    return not registry.changed_settings(id, stamp.settings.get(id, {}))


def _key(id: str) -> str:
    return f"shipped {id}"
