"""Pictures of the noise itself, in numbers, words and tables: densities and channels, scales
against epsilon, and releases before and after it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core import registry
from dpmc_core.arrays import Floats
from dpmc_core.errors import DpmcError, capital
from dpmc_core.experiment import publications
from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import (
    CELL,
    RATING,
    USER_EMPTIED,
    USER_REPLACED,
    Additive,
    Guarantee,
    Laplace,
    LocalChannel,
    ModifiedLaplace,
    RandomizedResponse,
    Release,
    SymbolChannel,
    sensitivity_at,
)
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_lab.curves.cards import of_hundred
from dpmc_lab.curves.data import busiest, counts, grid, inside, title, user_name
from dpmc_lab.curves.lines import short
from dpmc_lab.curves.text import Table, columns, many


def main_release(guarantee: Guarantee) -> Release | None:
    """The release that carries most values: the one worth a picture; None without releases."""
    releases = [release for _, release in guarantee.releases]
    return max(releases, key=lambda r: (len(r.shape), r.times), default=None)


def describe(release: Release) -> str:
    """The noise of a release in one sentence."""
    times = f", {release.times} times" if release.times > 1 else ""
    if isinstance(release, RandomizedResponse):
        kept = ", ".join(dict.fromkeys(f"{of_hundred(p)} %" for p in release.matrix.diagonal()))
        return f"{capital(release.query)}: kept with chance {kept}, else changed{times}."
    if isinstance(release, LocalChannel):
        rated, missing = 100 * release.reported_if_rated, 100 * release.reported_if_missing
        how, ends = "as itself or another symbol", ", as any symbol alike"
        if isinstance(release, ModifiedLaplace):
            how, ends = f"with Laplace noise of scale {release.scale:.4g}", ", as noise alone"
        return (
            f"{capital(release.query)}: a rated one is reported with chance {rated:.3g} %, {how}; a"
            f" missing one with chance {missing:.3g} %{ends}."
        )
    if isinstance(release, Additive):
        kind = "Laplace" if isinstance(release, Laplace) else type(release).__name__
        return f"{kind} noise of scale {release.scale:.4g} on the {release.query}{times}."
    return f"Noise on the {release.query}{times}."


def two_values(task: Task) -> tuple[str, str] | None:
    """What 0 and 1 (or -1 and +1) stand for; None where a task's values are numbers."""
    return _TWO.get(task)


_TWO = {Task.BINARY: ("dislike", "like"), Task.RANKING: ("not clicked", "clicked")}


class Axes(NamedTuple):
    """The axes of a density, the same for every epsilon: the noise from -reach to reach, and the
    density up to top."""

    reach: float
    top: float


class Density(NamedTuple):
    """Additive noise of one coordinate inside a frame: exact density on a grid (None where it has
    no closed form) and a histogram of draws, as a density too.

    half: half of the noise is no larger. beyond: the share of draws outside the frame.
    """

    query: str
    scale: float
    x: Floats
    density: Floats | None
    bar_centers: Floats
    bar_heights: Floats
    frame: Axes
    half: float
    beyond: float


_TALL = 5.25  # how much higher than the density at epsilon 1 a frame reaches
_BARS = 48


def density(
    release: Additive | ModifiedLaplace,
    seed: int = 0,
    draws: int = 5_000,
    within: Axes | None = None,
) -> Density:
    """Exact density within a frame (default: its own), with `draws` fresh samples."""
    noise = release
    if isinstance(noise, ModifiedLaplace):  # the noise on a reported value, on its own
        noise = Laplace(query=noise.query, shape=(None,), sensitivity={}, scale=noise.scale)
    reach = within.reach if within else 6 * noise.scale
    fine_grid = np.linspace(
        -6 * noise.scale, 6 * noise.scale, 201
    )  # where a narrow density is bent
    x = np.linspace(-reach, reach, 401)
    x = np.union1d(x, fine_grid[np.abs(fine_grid) <= reach])
    sample = noise.sample(draws, np.random.default_rng(seed))
    bar_counts, edges = np.histogram(sample, bins=_BARS, range=(-reach, reach))
    heights = bar_counts / (len(sample) * (edges[1] - edges[0]))
    exact = _density(noise, x)
    size = np.abs(sample)
    return Density(
        query=release.query,
        scale=release.scale,
        x=x,
        density=exact,
        bar_centers=(edges[:-1] + edges[1:]) / 2,
        bar_heights=heights,
        frame=within or Axes(reach, 1.1 * float((heights if exact is None else exact).max())),
        half=_half(noise, size),
        beyond=float((size > reach).mean()),
    )


def frame(release: Additive | ModifiedLaplace) -> Axes:
    """The axes on which a release is drawn at every epsilon; release: at epsilon 1."""
    unframed = density(release)
    return Axes(unframed.frame.reach, _TALL * unframed.frame.top / 1.1)


def _density(noise: Additive, x: Floats) -> Floats | None:
    try:
        return noise.density(x)
    except NotImplementedError:
        return None


def _half(noise: Additive, size: Floats) -> float:
    """The median size of the noise: by its density, or else that of draws."""
    x = np.linspace(0, 8 * noise.scale, 2001)
    exact = _density(noise, x)
    if exact is None:
        return float(np.median(size))
    inside = np.concatenate([[0.0], np.cumsum((exact[1:] + exact[:-1]) * np.diff(x))])
    return float(np.interp(0.5, inside, x))


def view(
    release: Release, default_release: Release, public: PublicFacts
) -> Density | ChannelChances:
    """A release's noise on the axes of every epsilon; default_release: the same release at epsilon
    1.

    Raises DpmcError for noise that has no picture.
    """
    if isinstance(release, RandomizedResponse | SymbolChannel):
        return channel(release, symbols(release, public))
    if isinstance(release, Additive | ModifiedLaplace) and isinstance(
        default_release, type(release)
    ):
        return density(release, within=frame(default_release))
    raise DpmcError(f"'{release.query}' has no noise to draw")


def shape_table(views: Mapping[float, Density | ChannelChances]) -> Table:
    """The noise of a release at one or two epsilons as columns."""
    table: Table = {}
    for epsilon, one in views.items():
        if isinstance(one, ChannelChances):
            channel_columns = channel_table(one)
            table |= (
                {f"chance at epsilon {epsilon:g}": channel_columns["chance"]}
                if table
                else channel_columns
            )
        else:
            table |= {
                "release": [one.query],
                f"scale at epsilon {epsilon:g}": [float(f"{one.scale:.4g}")],
                f"half within, at epsilon {epsilon:g}": [float(f"{one.half:.4g}")],
            }
    return table


class Ruler(NamedTuple):
    """How far one rating, or one person, can move one released number; in the release's unit."""

    length: float
    words: str


def ruler(release: Release, public: PublicFacts) -> Ruler | None:
    """One rating step in a release's own unit; None where no bound is known.

    On a collected rating it is one point of the range. Else it is what the release's sensitivity
    says of the smallest change that it names: a matrix counts all its cells together.
    """
    if isinstance(release, ModifiedLaplace):
        point = 2 / (public.high - public.low)
        return Ruler(point, f"one point on the scale {public.low:g} to {public.high:g}")
    for change, what in _MOVES.items():
        if change in release.sensitivity:
            length = sensitivity_at(release.sensitivity, change, public)
            whole = " in all" if release.shape == (public.users, public.items) else ""
            return Ruler(length, f"{what} moves it by at most {short(length, 3)}{whole}")
    return None


_MOVES = {
    RATING: "one rating",
    CELL: "one rating",
    USER_EMPTIED: "one person",
    USER_REPLACED: "one person",
}


def shape_words(views: Mapping[float, Density | ChannelChances]) -> str:
    """What the noise of a release is at one epsilon, or how it differs at another.

    The first epsilon is the chosen one, the second the pinned one.
    """
    epsilon, *pinned = views
    own = views[epsilon]
    if isinstance(own, ChannelChances):
        words = f"At epsilon {epsilon:g}, {_flips(own)} of the answers are changed"
    else:
        words = f"At epsilon {epsilon:g}, half of the noise is within ±{short(own.half, 3)}"
    for other in pinned:
        there = views[other]
        if isinstance(there, ChannelChances):
            words += f"; at epsilon {other:g}, {_flips(there)}"
        elif isinstance(own, Density):
            ratio = there.half / own.half
            words += (
                f"; at epsilon {other:g}, within ±{short(there.half, 3)}:"
                f" {short(max(ratio, 1 / ratio), 3)} times {'larger' if ratio > 1 else 'smaller'}"
            )
    return f"{words}."


def _flips(view: ChannelChances) -> str:
    return f"{of_hundred(float(1 - view.matrix.diagonal().min()))} %"


def symbols(release: RandomizedResponse | SymbolChannel, public: PublicFacts) -> Sequence[str]:
    """What comes in and out of a channel, in the data's own scale. public: as prepared for it."""
    if isinstance(release, SymbolChannel):
        values = (public.middle + public.half_width * level for level in release.levels)
        return "no rating", *(f"{value:.3g}" for value in values)
    return _TWO[Task.BINARY if public.low < 0 else Task.RANKING]


class ChannelChances(NamedTuple):
    """The chance of each output for each input, and shares among draws."""

    query: str
    symbols: Sequence[str]
    matrix: Floats
    drawn: Floats


def channel(
    release: RandomizedResponse | SymbolChannel,
    symbols: Sequence[str] = (),
    seed: int = 0,
    draws: int = 1_000,
) -> ChannelChances:
    """The channel matrix and the shares of `draws` fresh outputs for each input."""
    rng = np.random.default_rng(seed)
    sampled = np.empty_like(release.matrix)
    for symbol in range(len(sampled)):
        outputs = _outputs(release, symbol, draws, rng)
        sampled[symbol] = np.bincount(outputs, minlength=sampled.shape[1]) / draws
    return ChannelChances(release.query, symbols, release.matrix, sampled)


def _outputs(
    release: RandomizedResponse | SymbolChannel, symbol: int, draws: int, rng: np.random.Generator
) -> NDArray[np.integer]:
    """Fresh outputs for one input by the release; of a symbol channel 0 is a missing cell."""
    if isinstance(release, RandomizedResponse):
        flat_release = dataclasses.replace(release, shape=(None,), sensitivity={})
        return flat_release.publish(np.full(draws, symbol), rng)
    from scipy.sparse import csr_array

    row_release = dataclasses.replace(release, shape=(1, draws), sensitivity={})
    entries = (np.full(draws, float(symbol)), np.arange(draws), [0, draws])
    true_values = csr_array(entries, shape=(1, draws)) if symbol else csr_array((1, draws))
    reported = row_release.publish(true_values, rng).data.astype(np.int64)
    return np.concatenate([reported, np.zeros(draws - len(reported), dtype=np.int64)])


def channel_table(view: ChannelChances) -> Table:
    """Every chance of the channel as a row: input, output, exact chance, share of draws."""
    _, names, *matrices = view
    rows = [
        (names[true], names[answer], *(round(float(v[true, answer]), 5) for v in matrices))
        for true, answer in np.ndindex(view.matrix.shape)
    ]
    return columns(("true value", "answer", "chance", "share of draws"), rows)


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
    scales_by_release: dict[str, tuple[str, str, list[tuple[float, float]]]] = {}
    for epsilon in epsilons:
        guarantee = registry.create(id, epsilon=epsilon, **settings).guarantee(public)
        main_only = main_release(guarantee) if main else None
        for name, release in guarantee.releases:
            if main_only is None or release is main_only:
                unit, size = _size(release)
                scales_by_release.setdefault(name, (release.query, unit, []))[2].append(
                    (epsilon, size)
                )
    return tuple(
        Scale(query, unit, *np.array(points).T)
        for query, unit, points in scales_by_release.values()
    )


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
    phrases = []
    for _, name, view in views:
        k = int(np.argmin(np.abs(view.epsilon - epsilon)))
        phrases.append(f"{name}: {view.unit} {view.scale[k]:.3g} at epsilon {view.epsilon[k]:g}")
    return "; ".join(phrases) + "."


def scales_table(views: Sequence[tuple[str, str, Scale]]) -> Table:
    """Noise against epsilon as columns, one per release."""
    table: Table = {"epsilon": views[0][2].epsilon.tolist()} if views else {}
    return table | {
        f"{name}: {view.query}": [float(f"{s:.4g}") for s in view.scale] for _, name, view in views
    }


def scales_caption(ids: set[str], others: Sequence[str], unit: str) -> str:
    """What the picture of scales shows. ids: drawn; others: names of methods measured otherwise;
    unit: what the chosen epsilon counts."""
    sentences = [f"The rule is the chosen epsilon, counted {unit}."]
    if len(ids) > 1:
        sentences.insert(
            0,
            "Bold: each release of the chosen mechanism; of the others the main one. A scale counts"
            " in the units of what it is added to, so compare slopes, not heights.",
        )
    if others:
        sentences.append(f"Measured otherwise, so not drawn here: {', '.join(others)}.")
    return " ".join(sentences)


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
    by_user, by_item = counts(ratings)
    chosen_users, chosen_items = busiest(by_user, users), busiest(by_item, items)
    row, column, rating_index = inside(ratings, chosen_users, chosen_items)
    order = np.lexsort((column, row))
    return dataclasses.replace(
        ratings,
        users=row[order].astype(np.int32),
        items=column[order].astype(np.int32),
        values=ratings.values[rating_index[order]],
        times=None,
        public=dataclasses.replace(
            ratings.public, users=len(chosen_users), items=len(chosen_items)
        ),
        user_ids=tuple(user_name(ratings, int(u)) for u in chosen_users),
        item_ids=tuple(title(ratings, int(i)) for i in chosen_items),
        titles=None,
    )


def before_after(mechanism: Mechanism, corner: Ratings) -> tuple[BeforeAfter, ...]:
    """The mechanism run on a small block, each release's first publication before and after.

    The values before noise are raw ratings, or computed from them: for looking at only.
    Releases whose values belong to no cell of the block, item or pair of items are left out.
    """
    queries = {r.query for _, r in mechanism.guarantee(corner.public).releases}
    pictures: dict[str, BeforeAfter] = {}
    foreign = _foreign(mechanism, corner.public)
    for publication in publications(mechanism, corner, queries):
        if publication.release.query in pictures or publication.release.query in foreign:
            continue
        before, after = _cells(publication.private, corner), _cells(publication.published, corner)
        if before is not None and after is not None:
            items = tuple(corner.item_ids or ())
            row_kind, shape = "users", publication.private.shape
            if shape == (len(items), len(items)) != corner.shape:
                row_kind = "items"
            elif shape == (len(items),) != corner.values.shape:
                row_kind = "all users"
            names = {"users": tuple(corner.user_ids or ()), "items": items}.get(
                row_kind, (row_kind,)
            )
            pictures[publication.release.query] = BeforeAfter(
                publication.release.query, before, after, names, items, row_kind
            )
    return tuple(pictures.values())


def _foreign(mechanism: Mechanism, public: PublicFacts) -> set[str]:
    """Queries of releases as large as items x items by chance: one more item shows it."""
    n = public.items
    larger_releases = mechanism.guarantee(dataclasses.replace(public, items=n + 1)).releases
    grown = {r.query for _, r in larger_releases if r.shape == (n + 1, n + 1)}
    return {
        r.query
        for _, r in mechanism.guarantee(public).releases
        if r.shape == (n, n) and r.query not in grown
    }


def _cells(values: NDArray[Any], ratings: Ratings) -> Floats | None:
    selection, items = grid(values, ratings, *map(np.arange, ratings.shape)), ratings.public.items
    if selection is None and values.shape in ((items,), (items, items)):
        return np.atleast_2d(values).astype(float)
    return selection


def coded(view: BeforeAfter, task: Task) -> tuple[str, str] | None:
    """The names of a block's two values, where it has no others before and after."""
    observed = np.concatenate([v[~np.isnan(v)] for v in (view.before, view.after)])
    return two_values(task) if np.isin(observed, (0, 1)).all() else None


def limits(view: BeforeAfter, release: Release) -> tuple[float, float] | None:
    """The values between which a block is drawn at every epsilon; None where they are two names.

    view, release: at epsilon 1, as a later release may be asked of what earlier ones have said.
    """
    if isinstance(release, SymbolChannel):
        return 0.5, len(release.matrix) - 0.5
    if not isinstance(release, Additive | ModifiedLaplace):
        return None
    room = 4 * release.scale
    return float(np.nanmin(view.before)) - room, float(np.nanmax(view.before)) + room


def row_title(view: BeforeAfter, row: int = 0) -> str:
    """Whose values a row of the picture holds."""
    if view.rows == "users":
        return f"Row {row + 1} of {len(view.users)}: one person's values, before and after"
    if view.rows == "items":
        return f"Row {row + 1} of {len(view.users)}: {view.users[row]} with each item"
    return "One value for each item, of all users together"


def block_caption(view: BeforeAfter) -> str:
    """What the colours of the block say."""
    empty = bool(np.isnan(view.before).any() or np.isnan(view.after).any())
    return "Both halves share their colours" + ("; grey cells hold no value." if empty else ".")


def block_words(view: BeforeAfter) -> str:
    """The block as text."""
    return (
        f"{len(view.users)} x {many(len(view.items), 'item')} ({view.rows}), before and after:"
        f" values of size {np.nanmean(np.abs(view.before)):.2g} change by"
        f" {np.nanmean(np.abs(view.after - view.before)):.2g} on average."
    )


def block_table(view: BeforeAfter) -> Table:
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
            f"{many(int(seen.sum()), 'rating')} of one row: left out {lost}, reported with noise"
            f" {len(moved)}; cells without a rating that report one: {made}."
        )
    return (
        f"{many(int(seen.sum()), 'released value')} of one row, before and after the noise:"
        f" {int((moved > 1e-12).sum())} changed, by {moved.mean():.2g} on average."
    )


def row_table(view: BeforeAfter, user: int = 0) -> Table:
    """One row of the picture as columns."""
    released_columns = np.flatnonzero(~np.isnan(view.before[user]) | ~np.isnan(view.after[user]))
    return {"item": [view.items[i] for i in released_columns]} | {
        name: [
            None if np.isnan(v) else round(float(v), 4)
            for v in block_values[user, released_columns]
        ]
        for name, block_values in (("before", view.before), ("after", view.after))
    }
