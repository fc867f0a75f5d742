"""Pictures of the noise itself: densities, scales, and releases before and after it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.model import Mechanism
from dpmc_core.privacy import (
    Additive,
    Guarantee,
    LocalChannel,
    RandomizedResponse,
    Release,
    SymbolChannel,
    witness,
)
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.views import local_noise
from dpmc_core.views.training import title, user_name

Floats = NDArray[np.float64]


class Density(NamedTuple):
    """Additive noise of one coordinate: exact density on a grid (None where it has no closed
    form) and a histogram of draws, as a density too."""

    query: str
    scale: float
    x: Floats
    density: Floats | None
    bar_centers: Floats
    bar_heights: Floats


class Channel(NamedTuple):
    """Randomised response: chance of each output for each input, and shares among draws."""

    query: str
    matrix: Floats
    drawn: Floats


class Scale(NamedTuple):
    """Noise of one release against epsilon; unit says what is measured."""

    query: str
    unit: str
    epsilon: Floats
    scale: Floats


class BeforeAfter(NamedTuple):
    """A block before and after one release; NaN where nothing is released. Its columns are items,
    its rows users, items (a matrix of the items) or one row for all users together (a sum)."""

    query: str
    before: Floats
    after: Floats
    users: tuple[str, ...]
    items: tuple[str, ...]
    rows: str = "users"


def main_release(guarantee: Guarantee) -> Release | None:
    """The release that carries most values: the one worth a picture; None without releases."""
    releases = [release for _, release in guarantee.releases]
    return max(releases, key=lambda r: (len(r.shape), r.times), default=None)


def density(release: Additive, seed: int = 0, draws: int = 5_000) -> Density:
    """Exact density within 6 scales of 0, with `draws` fresh samples."""
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


def channel(
    release: RandomizedResponse | SymbolChannel, seed: int = 0, draws: int = 1_000
) -> Channel:
    """The channel matrix and the shares of `draws` fresh outputs for each input."""
    rng = np.random.default_rng(seed)
    if isinstance(release, SymbolChannel):
        shares = local_noise.drawn_shares(release, draws, rng)
        return Channel(release.query, release.matrix, shares)
    drawn = np.empty_like(release.matrix)
    for a in range(len(drawn)):
        loose = dataclasses.replace(release, shape=(None,), sensitivity={})
        outputs = loose.publish(np.full(draws, a), rng)
        drawn[a] = np.bincount(outputs, minlength=drawn.shape[1]) / draws
    return Channel(release.query, release.matrix, drawn)


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


def before_after(mechanism: Mechanism, corner: Ratings, seed: int = 0) -> tuple[BeforeAfter, ...]:
    """The mechanism run on a small block, each release's first publication before and after.

    The values before noise are raw ratings, or computed from them: for looking at only.
    Releases whose values belong to no cell of the block, item or pair of items are left out.
    """
    wanted = {r.query for _, r in mechanism.guarantee(corner.public).releases}
    with witness() as publications:
        for step in mechanism.fit(corner, np.random.default_rng(seed)):
            if step.final or wanted <= {p.release.query for p in publications}:
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


def _size(release: Release) -> tuple[str, float]:
    if isinstance(release, Additive):
        return "noise scale", release.scale
    if isinstance(release, RandomizedResponse):
        return "chance of a changed answer", float(1 - release.matrix.diagonal().min())
    if isinstance(release, LocalChannel):
        return local_noise.size(release)
    raise DpmcError(f"'{release.query}' has no single noise scale to draw")


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
