"""Pictures of the noise itself, in numbers, words and tables: densities and channels, scales
against epsilon, and releases before and after it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core import registry
from dpmc_core.errors import DpmcError, capital
from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import (
    Additive,
    Guarantee,
    Laplace,
    LocalChannel,
    ModifiedLaplace,
    RandomizedResponse,
    Release,
    SymbolChannel,
    witness,
)
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.views.cards import percent
from dpmc_core.views.data import title, user_name

Floats = NDArray[np.float64]


def main_release(guarantee: Guarantee) -> Release | None:
    """The release that carries most values: the one worth a picture; None without releases."""
    releases = [release for _, release in guarantee.releases]
    return max(releases, key=lambda r: (len(r.shape), r.times), default=None)


def describe(release: Release) -> str:
    """The noise of a release in one sentence."""
    times = f", {release.times} times" if release.times > 1 else ""
    if isinstance(release, RandomizedResponse):
        kept = ", ".join(dict.fromkeys(percent(p) for p in release.matrix.diagonal()))
        return f"{capital(release.query)}: kept with chance {kept}, else changed{times}."
    if isinstance(release, LocalChannel):
        rated, missing = 100 * release.reported_if_rated, 100 * release.reported_if_missing
        how, ends = "as itself or another symbol", ", as any symbol alike"
        if isinstance(release, ModifiedLaplace):
            how, ends = f"with Laplace noise of scale {release.scale:.4g}", ", as noise alone"
        return (
            f"Every cell of a row: a rated one is reported with chance {rated:.3g} %, {how}; a"
            f" missing one with chance {missing:.3g} %{ends}."
        )
    if isinstance(release, Additive):
        kind = type(release).__name__
        return f"{kind} noise of scale {release.scale:.4g} on the {release.query}{times}."
    return f"Noise on the {release.query}{times}."


def two_values(task: Task) -> tuple[str, str] | None:
    """What 0 and 1 (or -1 and +1) stand for; None where a task's values are numbers."""
    return {Task.BINARY: ("dislike", "like"), Task.RANKING: ("not clicked", "clicked")}.get(task)


class Density(NamedTuple):
    """Additive noise of one coordinate: exact density on a grid (None where it has no closed
    form) and a histogram of draws, as a density too."""

    query: str
    scale: float
    x: Floats
    density: Floats | None
    bar_centers: Floats
    bar_heights: Floats


def density(release: Additive | ModifiedLaplace, seed: int = 0, draws: int = 5_000) -> Density:
    """Exact density within 6 scales of 0, with `draws` fresh samples."""
    if isinstance(release, ModifiedLaplace):  # the noise on a reported value, on its own
        release = Laplace(query=release.query, shape=(None,), sensitivity={}, scale=release.scale)
    reach = 6 * release.scale
    x = np.linspace(-reach, reach, 401)
    sample = release.sample(draws, np.random.default_rng(seed))
    counts, edges = np.histogram(sample, bins=48, range=(-reach, reach))
    heights = counts / (len(sample) * (edges[1] - edges[0]))
    try:
        exact: Floats | None = release.density(x)
    except NotImplementedError:
        exact = None
    return Density(release.query, release.scale, x, exact, (edges[:-1] + edges[1:]) / 2, heights)


def density_table(view: Density) -> dict[str, list[float]]:
    """The histogram of draws as columns."""
    return {
        "noise around": view.bar_centers.round(4).tolist(),
        "density of draws": view.bar_heights.round(5).tolist(),
    }


class ChannelChances(NamedTuple):
    """The chance of each output for each input, and shares among draws."""

    query: str
    matrix: Floats
    drawn: Floats


def channel(
    release: RandomizedResponse | SymbolChannel, seed: int = 0, draws: int = 1_000
) -> ChannelChances:
    """The channel matrix and the shares of `draws` fresh outputs for each input."""
    rng = np.random.default_rng(seed)
    drawn = np.empty_like(release.matrix)
    for symbol in range(len(drawn)):
        outputs = _outputs(release, symbol, draws, rng)
        drawn[symbol] = np.bincount(outputs, minlength=drawn.shape[1]) / draws
    return ChannelChances(release.query, release.matrix, drawn)


def _outputs(
    release: RandomizedResponse | SymbolChannel, symbol: int, draws: int, rng: np.random.Generator
) -> NDArray[np.integer]:
    """Fresh outputs for one input; of a symbol channel 0 is a missing cell."""
    if isinstance(release, RandomizedResponse):
        loose = dataclasses.replace(release, shape=(None,), sensitivity={})
        return loose.publish(np.full(draws, symbol), rng)
    from scipy.sparse import csr_array

    row = dataclasses.replace(release, shape=(1, draws), sensitivity={})
    cells = (np.full(draws, float(symbol)), np.arange(draws), [0, draws])
    given = csr_array(cells, shape=(1, draws)) if symbol else csr_array((1, draws))
    reported = row.publish(given, rng).data.astype(np.int64)
    return np.concatenate([reported, np.zeros(draws - len(reported), dtype=np.int64)])


def channel_table(view: ChannelChances, task: Task) -> dict[str, list[Any]]:
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


class Scale(NamedTuple):
    """Noise of one release against epsilon; unit says what is measured."""

    query: str
    unit: str
    epsilon: Floats
    scale: Floats


def scales(
    id: str,
    epsilons: Sequence[float],
    public: PublicFacts,
    settings: dict[str, Any],
    *,
    main: bool = False,
) -> tuple[Scale, ...]:
    """The noise of each release of a mechanism on a grid of epsilons, all else fixed.

    main: only of the release that carries most values.
    """
    found: dict[str, tuple[str, str, list[float], list[float]]] = {}
    for epsilon in epsilons:
        guarantee = registry.create(id, epsilon=epsilon, **settings).guarantee(public)
        only = main_release(guarantee) if main else None
        for name, release in guarantee.releases:
            if only is not None and release is not only:
                continue
            unit, size = _size(release)
            _, _, xs, ys = found.setdefault(name, (release.query, unit, [], []))
            xs.append(epsilon)
            ys.append(size)
    return tuple(Scale(q, unit, np.array(x), np.array(y)) for q, unit, x, y in found.values())


def _size(release: Release) -> tuple[str, float]:
    """What is measured against epsilon, and how large it is."""
    if isinstance(release, Additive | ModifiedLaplace):
        return "noise scale", release.scale
    if isinstance(release, RandomizedResponse):
        return "chance of a changed answer", float(1 - release.matrix.diagonal().min())
    if isinstance(release, LocalChannel):
        changed = 1 - release.reported_if_rated + release.reported_if_missing
        return "chance of a changed answer", changed
    raise DpmcError(f"'{release.query}' has no single noise scale to draw")


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


class BeforeAfter(NamedTuple):
    """A block before and after one release; NaN where nothing is released. Its columns are items,
    its rows users, items (a matrix of the items) or one row for all users together (a sum)."""

    query: str
    before: Floats
    after: Floats
    users: tuple[str, ...]
    items: tuple[str, ...]
    rows: str = "users"


def block(ratings: Ratings, users: int = 24, items: int = 36) -> Ratings:
    """The corner of the busiest users and most rated items, as ratings of their own."""
    rows = _busiest(ratings.users, ratings.public.users, users)
    columns = _busiest(ratings.items, ratings.public.items, items)
    row_of = np.full(ratings.public.users, -1)
    row_of[rows] = np.arange(len(rows))
    column_of = np.full(ratings.public.items, -1)
    column_of[columns] = np.arange(len(columns))
    inside = (row_of[ratings.users] >= 0) & (column_of[ratings.items] >= 0)
    part = ratings.select(inside)
    order = np.lexsort((column_of[part.items], row_of[part.users]))
    return dataclasses.replace(
        part,
        users=row_of[part.users][order].astype(np.int32),
        items=column_of[part.items][order].astype(np.int32),
        values=part.values[order],
        times=None,
        public=dataclasses.replace(ratings.public, users=len(rows), items=len(columns)),
        user_ids=tuple(user_name(ratings, int(u)) for u in rows),
        item_ids=tuple(title(ratings, int(i)) for i in columns),
        titles=None,
    )


def before_after(mechanism: Mechanism, corner: Ratings) -> tuple[BeforeAfter, ...]:
    """The mechanism run on a small block, each release's first publication before and after.

    The values before noise are raw ratings, or computed from them: for looking at only.
    Releases whose values belong to no cell of the block, item or pair of items are left out.
    """
    wanted = {r.query for _, r in mechanism.guarantee(corner.public).releases}
    with witness(until=wanted) as publications:
        for step in mechanism.fit(corner, np.random.default_rng(0)):
            if step.final:
                break
    pictures: dict[str, BeforeAfter] = {}
    foreign = _foreign(mechanism, corner.public)
    for p in publications:
        if p.release.query in pictures or p.release.query in foreign:
            continue
        before, after = _cells(p.private, corner), _cells(p.published, corner)
        if before is not None and after is not None:
            items = tuple(corner.item_ids or ())
            kind = _row_kind(p.private, corner)
            names = {"users": tuple(corner.user_ids or ()), "items": items}.get(kind, (kind,))
            pictures[p.release.query] = BeforeAfter(
                p.release.query, before, after, names, items, kind
            )
    return tuple(pictures.values())


def _foreign(mechanism: Mechanism, public: PublicFacts) -> set[str]:
    """Queries of releases as large as items x items by chance: one more item shows it."""
    n = public.items
    more = mechanism.guarantee(dataclasses.replace(public, items=n + 1)).releases
    grown = {r.query for _, r in more if r.shape == (n + 1, n + 1)}
    return {
        r.query
        for _, r in mechanism.guarantee(public).releases
        if r.shape == (n, n) and r.query not in grown
    }


def _busiest(index: NDArray[np.int32], size: int, count: int) -> NDArray[np.int64]:
    return np.argsort(-np.bincount(index, minlength=size), kind="stable")[:count]


def _row_kind(values: NDArray[Any], ratings: Ratings) -> str:
    items = ratings.public.items
    if values.shape == (items, items) != ratings.shape:
        return "items"
    return "all users" if values.shape == (items,) != ratings.values.shape else "users"


def _cells(values: NDArray[Any], ratings: Ratings) -> Floats | None:
    if hasattr(values, "tocoo"):  # sparse rows: what is not stored is not reported
        cells = values.tocoo()
        sparse = np.full(cells.shape, np.nan)
        sparse[cells.row, cells.col] = cells.data
        return sparse
    if values.shape == ratings.shape:
        return values.astype(float)
    if values.shape == ratings.values.shape:
        grid = np.full(ratings.shape, np.nan)
        grid[ratings.users, ratings.items] = values
        return grid
    items = ratings.public.items
    if values.shape in ((items,), (items, items)):
        return np.atleast_2d(values).astype(float)
    return None


def coded(view: BeforeAfter, task: Task) -> tuple[str, str] | None:
    """The names of a block's two values, where it has no others before and after."""
    there = np.concatenate([v[~np.isnan(v)] for v in (view.before, view.after)])
    return two_values(task) if np.isin(there, (0, 1)).all() else None


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


def row_words(view: BeforeAfter, user: int = 0) -> str:
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
