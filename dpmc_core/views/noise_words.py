"""Pictures of noise in words and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpmc_core.model import Task
from dpmc_core.privacy import Additive, LocalChannel, RandomizedResponse, Release
from dpmc_core.views import local_noise
from dpmc_core.views.cards import percent
from dpmc_core.views.noise import BeforeAfter, Channel, Density, Scale


def describe(release: Release) -> str:
    """The noise of a release in one sentence."""
    times = f", {release.times} times" if release.times > 1 else ""
    if isinstance(release, RandomizedResponse):
        kept = ", ".join(dict.fromkeys(percent(p) for p in release.matrix.diagonal()))
        query = f"{release.query[:1].upper()}{release.query[1:]}"
        return f"{query}: kept with chance {kept}, else changed{times}."
    if isinstance(release, LocalChannel):
        return local_noise.describe(release)
    if isinstance(release, Additive):
        kind = type(release).__name__
        return f"{kind} noise of scale {release.scale:.4g} on the {release.query}{times}."
    return f"Noise on the {release.query}{times}."


def two_values(task: Task) -> tuple[str, str] | None:
    """What 0 and 1 (or -1 and +1) stand for; None where a task's values are numbers."""
    return {Task.BINARY: ("dislike", "like"), Task.RANKING: ("not clicked", "clicked")}.get(task)


def coded(view: BeforeAfter, task: Task) -> tuple[str, str] | None:
    """The names of a block's two values, where it has no others before and after."""
    there = np.concatenate([v[~np.isnan(v)] for v in (view.before, view.after)])
    return two_values(task) if np.isin(there, (0, 1)).all() else None


def density_table(view: Density) -> dict[str, list[float]]:
    """The histogram of draws as columns."""
    return {
        "noise around": view.bar_centers.round(4).tolist(),
        "density of draws": view.bar_heights.round(5).tolist(),
    }


def channel_table(view: Channel, task: Task) -> dict[str, list[Any]]:
    """Every chance of the channel as a row: input, output, exact chance, share of draws."""
    names: Sequence[Any] = range(len(view.matrix))
    if len(view.matrix) == 2:
        names = two_values(task) or names
    cells = [(a, o) for a in range(len(view.matrix)) for o in range(view.matrix.shape[1])]
    return {
        "true value": [names[a] for a, _ in cells],
        "answer": [names[o] for _, o in cells],
        "chance": [round(float(view.matrix[c]), 5) for c in cells],
        "share of draws": [round(float(view.drawn[c]), 5) for c in cells],
    }


def scales_words(views: Sequence[tuple[str, str, Scale]], epsilon: float) -> str:
    """Noise against epsilon as text; views: (id, name, scale)."""
    parts = []
    for _, name, view in views:
        k = int(np.argmin(np.abs(view.epsilon - epsilon)))
        parts.append(f"{name}: {view.unit} {view.scale[k]:.3g} at epsilon {view.epsilon[k]:g}")
    return "; ".join(parts) + "."


def scales_table(views: Sequence[tuple[str, str, Scale]]) -> dict[str, list[Any]]:
    """Noise against epsilon as columns, one per release."""
    if not views:
        return {}
    columns: dict[str, list[Any]] = {"epsilon": views[0][2].epsilon.tolist()}
    for _, name, view in views:
        columns[f"{name}: {view.query}"] = [float(f"{s:.4g}") for s in view.scale]
    return columns


def scales_caption(ids: set[str], others: Sequence[str], unit: str) -> str:
    """What the picture of scales shows. ids: drawn; others: names of methods measured otherwise;
    unit: what the chosen epsilon counts."""
    parts = [f"The rule is the chosen epsilon, counted {unit}."]
    if len(ids) > 1:
        parts.insert(
            0,
            "Bold: each release of the chosen mechanism; of the others the main one. A scale counts"
            " in the units of what it is added to, so compare slopes, not heights.",
        )
    if others:
        parts.append(f"Measured otherwise, so not drawn here: {', '.join(others)}.")
    return " ".join(parts)


def block_caption(view: BeforeAfter) -> str:
    """What the colours of the block say."""
    empty = bool(np.isnan(view.before).any() or np.isnan(view.after).any())
    return "Both halves share their colours" + ("; grey cells hold no value." if empty else ".")


def block_words(view: BeforeAfter) -> str:
    """The block as text."""
    seen = ~np.isnan(view.before)
    change = np.abs(view.after[seen] - view.before[seen])
    change = change[~np.isnan(change)]  # rated cells may vanish
    return (
        f"{len(view.users)} {view.rows} by {len(view.items)} items, before and after: values of"
        f" size {np.abs(view.before[seen]).mean():.2g} change by {change.mean():.2g} on average."
    )


def block_table(view: BeforeAfter) -> dict[str, list[Any]]:
    """The block's mean change per user as columns."""
    change = np.abs(view.after - view.before)
    return {
        view.rows: list(view.users),
        "released values": (~np.isnan(view.before)).sum(axis=1).tolist(),
        "mean change": [
            round(float(np.nanmean(row)), 4) if not np.isnan(row).all() else None for row in change
        ],
    }


def words(view: BeforeAfter, user: int = 0) -> str:
    """One row of the picture as text."""
    row, noisy = view.before[user], view.after[user]
    seen = ~np.isnan(row)
    moved = np.abs(noisy[seen] - row[seen])
    lost, moved = int(np.isnan(moved).sum()), moved[~np.isnan(moved)]
    if lost or np.isnan(row[~np.isnan(noisy)]).any():
        made = int((~np.isnan(noisy) & ~seen).sum())
        return (
            f"{int(seen.sum())} ratings of one row: {lost} are left out, {len(moved)} reported"
            f" with noise, and {made} cells without a rating report one."
        )
    return (
        f"{int(seen.sum())} released values of one row, before and after the noise:"
        f" {int((moved > 1e-12).sum())} changed, by {moved.mean():.2g} on average."
    )


def row_table(view: BeforeAfter, user: int = 0) -> dict[str, list[Any]]:
    """One row of the picture as columns."""
    here = np.flatnonzero(~np.isnan(view.before[user]) | ~np.isnan(view.after[user]))
    shown = [
        [None if np.isnan(v) else round(float(v), 4) for v in row[user, here]]
        for row in (view.before, view.after)
    ]
    return {
        "item": [view.items[i] for i in here],
        "before": shown[0],
        "after": shown[1],
    }
