"""Compute pictures of noise: densities, channels, scales, and releases before and after."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core import registry
from dpmc_core.arrays import Floats
from dpmc_core.errors import DpmcError, capitalise
from dpmc_core.experiment import collect_publications
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
from dpmc_lab.curves.cards import format_limit_percent
from dpmc_lab.curves.data import (
    count_ratings,
    extract_block,
    format_item_title,
    format_user_name,
    locate_ratings,
    rank_by_count,
)
from dpmc_lab.curves.lines import format_short_number
from dpmc_lab.curves.text import Table, build_table, format_count


def find_main_release(guarantee: Guarantee) -> Release | None:
    """Return the release with the most values, which is worth a picture; None without releases."""
    releases = [release for _, release in guarantee.releases]
    return max(releases, key=lambda r: (len(r.shape), r.times), default=None)


def describe_noise(release: Release) -> str:
    """Describe the noise of a release in one sentence."""
    times = f", {release.times} times" if release.times > 1 else ""
    if isinstance(release, RandomizedResponse):
        chances = ", ".join(
            dict.fromkeys(f"{format_limit_percent(p)} %" for p in release.matrix.diagonal())
        )
        return f"{capitalise(release.query)}: kept with chance {chances}, else changed{times}."
    if isinstance(release, LocalChannel):
        rated = 100 * release.reported_if_rated
        missing = 100 * release.reported_if_missing
        reported_as = "as itself or another symbol"
        missing_as = ", as any symbol alike"
        if isinstance(release, ModifiedLaplace):
            reported_as = f"with Laplace noise of scale {release.scale:.4g}"
            missing_as = ", as noise alone"
        return (
            f"{capitalise(release.query)}: a rated one is reported with chance {rated:.3g} %,"
            f" {reported_as}; a"
            f" missing one with chance {missing:.3g} %{missing_as}."
        )
    if isinstance(release, Additive):
        kind = "Laplace" if isinstance(release, Laplace) else type(release).__name__
        return f"{kind} noise of scale {release.scale:.4g} on the {release.query}{times}."
    return f"Noise on the {release.query}{times}."


def name_binary_values(task: Task) -> tuple[str, str] | None:
    """Return the names of 0 and 1 (or -1 and +1); None where the task's values are numbers."""
    return _BINARY_NAMES.get(task)


_BINARY_NAMES = {Task.BINARY: ("dislike", "like"), Task.RANKING: ("not clicked", "clicked")}


class DensityAxes(NamedTuple):
    """The axes of a density, which are the same for every epsilon.

    Attributes:
        reach: the noise axis goes from -reach to reach, in the unit of the release.
        top: the density axis goes from 0 to top.
    """

    reach: float
    top: float


class Density(NamedTuple):
    """Additive noise of one coordinate: its exact density and a histogram of draws.

    Attributes:
        query: of the release.
        scale: noise scale, in the unit of the release.
        x: array of shape (n_points,), grid of noise values.
        density: array of shape (n_points,), exact density on the grid; None where it has no closed
            form.
        bar_centers: array of shape (n_bars,), centres of the histogram's bars.
        bar_heights: array of shape (n_bars,), histogram as a density.
        axes: the axes on which it is drawn.
        median_size: half of the noise is at most this large in absolute value.
        share_outside: share of the draws beyond the axes.
    """

    query: str
    scale: float
    x: Floats
    density: Floats | None
    bar_centers: Floats
    bar_heights: Floats
    axes: DensityAxes
    median_size: float
    share_outside: float


_AXIS_HEADROOM = 5.25  # how much higher than the density at epsilon 1 a frame reaches
_N_BARS = 48


def compute_density(
    release: Additive | ModifiedLaplace,
    seed: int = 0,
    draws: int = 5_000,
    axes: DensityAxes | None = None,
) -> Density:
    """Return the exact density within the axes (default: its own), and `draws` fresh samples."""
    noise = release
    if isinstance(noise, ModifiedLaplace):  # the noise on a reported value, on its own
        noise = Laplace(query=noise.query, shape=(None,), sensitivity={}, scale=noise.scale)
    reach = axes.reach if axes else 6 * noise.scale
    # A narrow density needs a finer grid near zero.
    fine_grid = np.linspace(-6 * noise.scale, 6 * noise.scale, 201)
    x = np.linspace(-reach, reach, 401)
    x = np.union1d(x, fine_grid[np.abs(fine_grid) <= reach])
    sample = noise.sample(draws, np.random.default_rng(seed))
    bar_counts, edges = np.histogram(sample, bins=_N_BARS, range=(-reach, reach))
    heights = bar_counts / (len(sample) * (edges[1] - edges[0]))
    exact = _exact_density(noise, x)
    size = np.abs(sample)
    return Density(
        query=release.query,
        scale=release.scale,
        x=x,
        density=exact,
        bar_centers=(edges[:-1] + edges[1:]) / 2,
        bar_heights=heights,
        axes=axes or DensityAxes(reach, 1.1 * float((heights if exact is None else exact).max())),
        median_size=_median_noise(noise, size),
        share_outside=float((size > reach).mean()),
    )


def choose_axes(release: Additive | ModifiedLaplace) -> DensityAxes:
    """Return the axes for a release at every epsilon, given the release at epsilon 1."""
    unframed = compute_density(release)
    return DensityAxes(unframed.axes.reach, _AXIS_HEADROOM * unframed.axes.top / 1.1)


def _exact_density(noise: Additive, x: Floats) -> Floats | None:
    try:
        return noise.density(x)
    except NotImplementedError:
        return None


def _median_noise(noise: Additive, size: Floats) -> float:
    """Return the median size of the noise, by its density or else by the draws."""
    x = np.linspace(0, 8 * noise.scale, 2001)
    exact = _exact_density(noise, x)
    if exact is None:
        return float(np.median(size))
    cumulative = np.concatenate([[0.0], np.cumsum((exact[1:] + exact[:-1]) * np.diff(x))])
    return float(np.interp(0.5, cumulative, x))


def compute_noise_view(
    release: Release, default_release: Release, public: PublicFacts
) -> Density | ChannelChances:
    """Return the noise of a release, on axes that are the same for every epsilon.

    Args:
        release: the release.
        default_release: the same release at epsilon 1.
        public: public facts of the ratings.

    Raises:
        DpmcError: the noise has no picture.
    """
    if isinstance(release, RandomizedResponse | SymbolChannel):
        return sample_channel(release, list_symbols(release, public))
    if isinstance(release, Additive | ModifiedLaplace) and isinstance(
        default_release, type(release)
    ):
        return compute_density(release, axes=choose_axes(default_release))
    raise DpmcError(f"'{release.query}' has no noise to draw")


def tabulate_noise_shape(views: Mapping[float, Density | ChannelChances]) -> Table:
    """Return the noise of a release at one or two epsilons as columns."""
    table: Table = {}
    for epsilon, noise_view in views.items():
        if isinstance(noise_view, ChannelChances):
            channel_columns = tabulate_channel(noise_view)
            table |= (
                {f"chance at epsilon {epsilon:g}": channel_columns["chance"]}
                if table
                else channel_columns
            )
        else:
            table |= {
                "release": [noise_view.query],
                f"scale at epsilon {epsilon:g}": [float(f"{noise_view.scale:.4g}")],
                f"half within, at epsilon {epsilon:g}": [float(f"{noise_view.median_size:.4g}")],
            }
    return table


class SensitivityRuler(NamedTuple):
    """How far one rating or one person can move a released number, in the release's unit."""

    length: float
    label: str


def measure_sensitivity(release: Release, public: PublicFacts) -> SensitivityRuler | None:
    """Return how far one rating moves a release, in its own unit; None where no bound is known.

    For a collected rating it is one point of the range. Otherwise it is the release's sensitivity
    to the smallest change that it names; a matrix counts all its cells together.
    """
    if isinstance(release, ModifiedLaplace):
        point = 2 / (public.high - public.low)
        return SensitivityRuler(point, f"one point on the scale {public.low:g} to {public.high:g}")
    for change, subject in _CHANGE_SUBJECTS.items():
        if change in release.sensitivity:
            length = sensitivity_at(release.sensitivity, change, public)
            suffix = " in all" if release.shape == (public.users, public.items) else ""
            return SensitivityRuler(
                length, f"{subject} moves it by at most {format_short_number(length, 3)}{suffix}"
            )
    return None


_CHANGE_SUBJECTS = {
    RATING: "one rating",
    CELL: "one rating",
    USER_EMPTIED: "one person",
    USER_REPLACED: "one person",
}


def describe_noise_shape(views: Mapping[float, Density | ChannelChances]) -> str:
    """Describe the noise of a release at one epsilon, or how it differs at another.

    The first epsilon is the chosen one, the second the pinned one.
    """
    epsilon, *pinned = views
    chosen = views[epsilon]
    if isinstance(chosen, ChannelChances):
        text = f"At epsilon {epsilon:g}, {_format_flip_chance(chosen)} of the answers are changed"
    else:
        text = (
            f"At epsilon {epsilon:g}, half of the noise is within"
            f" ±{format_short_number(chosen.median_size, 3)}"
        )
    for pinned_epsilon in pinned:
        pinned_view = views[pinned_epsilon]
        if isinstance(pinned_view, ChannelChances):
            text += f"; at epsilon {pinned_epsilon:g}, {_format_flip_chance(pinned_view)}"
        elif isinstance(chosen, Density):
            ratio = pinned_view.median_size / chosen.median_size
            text += (
                f"; at epsilon {pinned_epsilon:g}, within"
                f" ±{format_short_number(pinned_view.median_size, 3)}:"
                f" {format_short_number(max(ratio, 1 / ratio), 3)} times"
                f" {'larger' if ratio > 1 else 'smaller'}"
            )
    return f"{text}."


def _format_flip_chance(view: ChannelChances) -> str:
    return f"{format_limit_percent(float(1 - view.matrix.diagonal().min()))} %"


def list_symbols(release: RandomizedResponse | SymbolChannel, public: PublicFacts) -> Sequence[str]:
    """Return the inputs and outputs of a channel in the scale of the data.

    Args:
        release: the channel.
        public: public facts of the ratings as prepared for it.
    """
    if isinstance(release, SymbolChannel):
        values = (public.middle + public.half_width * level for level in release.levels)
        return "no rating", *(f"{value:.3g}" for value in values)
    return _BINARY_NAMES[Task.BINARY if public.low < 0 else Task.RANKING]


class ChannelChances(NamedTuple):
    """The chance of each output of a channel for each input, and the shares among draws.

    Attributes:
        query: of the release.
        symbols: names of the inputs and outputs.
        matrix: array of shape (n_symbols, n_symbols), exact chances; rows are inputs.
        sampled: array of the same shape, shares among draws.
    """

    query: str
    symbols: Sequence[str]
    matrix: Floats
    sampled: Floats


def sample_channel(
    release: RandomizedResponse | SymbolChannel,
    symbols: Sequence[str] = (),
    seed: int = 0,
    draws: int = 1_000,
) -> ChannelChances:
    """Return the channel matrix and the shares of `draws` fresh outputs for each input."""
    rng = np.random.default_rng(seed)
    sampled = np.empty_like(release.matrix)
    for symbol in range(len(sampled)):
        outputs = _draw_outputs(release, symbol, draws, rng)
        sampled[symbol] = np.bincount(outputs, minlength=sampled.shape[1]) / draws
    return ChannelChances(release.query, symbols, release.matrix, sampled)


def _draw_outputs(
    release: RandomizedResponse | SymbolChannel, symbol: int, draws: int, rng: np.random.Generator
) -> NDArray[np.integer]:
    """Draw fresh outputs for one input; symbol 0 of a symbol channel is a missing cell."""
    if isinstance(release, RandomizedResponse):
        flat_release = dataclasses.replace(release, shape=(None,), sensitivity={})
        return flat_release.publish(np.full(draws, symbol), rng)
    from scipy.sparse import csr_array

    row_release = dataclasses.replace(release, shape=(1, draws), sensitivity={})
    entries = (np.full(draws, float(symbol)), np.arange(draws), [0, draws])
    true_values = csr_array(entries, shape=(1, draws)) if symbol else csr_array((1, draws))
    reported = row_release.publish(true_values, rng).data.astype(np.int64)
    return np.concatenate([reported, np.zeros(draws - len(reported), dtype=np.int64)])


def tabulate_channel(view: ChannelChances) -> Table:
    """Return every chance of the channel as a row: input, output, exact chance, share of draws."""
    _, names, *matrices = view
    rows = [
        (names[true], names[answer], *(round(float(v[true, answer]), 5) for v in matrices))
        for true, answer in np.ndindex(view.matrix.shape)
    ]
    return build_table(("true value", "answer", "chance", "share of draws"), rows)


class NoiseScale(NamedTuple):
    """Noise of one release by epsilon.

    Attributes:
        query: of the release.
        unit: what is measured, in words.
        epsilon: array of shape (n_epsilons,).
        scale: array of shape (n_epsilons,), size of the noise.
    """

    query: str
    unit: str
    epsilon: Floats
    scale: Floats


def compute_noise_scales(
    id: str,
    epsilons: Sequence[float],
    public: PublicFacts,
    settings: dict[str, Any],
    *,
    main: bool = False,
) -> tuple[NoiseScale, ...]:
    """Compute the noise of each release of a mechanism on a grid of epsilons, all else fixed.

    Args:
        id: of the mechanism.
        epsilons: the grid.
        public: public facts of the ratings.
        settings: settings of the mechanism, without epsilon.
        main: whether to keep only the release with the most values.
    """
    scales_by_release: dict[str, tuple[str, str, list[tuple[float, float]]]] = {}
    for epsilon in epsilons:
        guarantee = registry.create(id, epsilon=epsilon, **settings).guarantee(public)
        main_only = find_main_release(guarantee) if main else None
        for name, release in guarantee.releases:
            if main_only is None or release is main_only:
                unit, size = _measure_noise(release)
                scales_by_release.setdefault(name, (release.query, unit, []))[2].append(
                    (epsilon, size)
                )
    return tuple(
        NoiseScale(query, unit, *np.array(points).T)
        for query, unit, points in scales_by_release.values()
    )


def _measure_noise(release: Release) -> tuple[str, float]:
    """Return what is measured by epsilon, and how large it is."""
    if isinstance(release, Additive | ModifiedLaplace):
        return "noise scale", release.scale
    if isinstance(release, RandomizedResponse):
        return "chance of a changed answer", float(1 - release.matrix.diagonal().min())
    if isinstance(release, LocalChannel):
        changed = 1 - release.reported_if_rated + release.reported_if_missing
        return "chance of a changed answer", changed
    raise DpmcError(f"'{release.query}' has no single noise scale to draw")


def describe_noise_scales(views: Sequence[tuple[str, str, NoiseScale]], epsilon: float) -> str:
    """Describe the noise by epsilon in words; each view is (id, name, scale)."""
    phrases = []
    for _, name, view in views:
        nearest = int(np.argmin(np.abs(view.epsilon - epsilon)))
        phrases.append(
            f"{name}: {view.unit} {view.scale[nearest]:.3g} at epsilon {view.epsilon[nearest]:g}"
        )
    return "; ".join(phrases) + "."


def tabulate_noise_scales(views: Sequence[tuple[str, str, NoiseScale]]) -> Table:
    """Return the noise by epsilon as columns, one per release."""
    table: Table = {"epsilon": views[0][2].epsilon.tolist()} if views else {}
    return table | {
        f"{name}: {view.query}": [float(f"{s:.4g}") for s in view.scale] for _, name, view in views
    }


def describe_scale_chart(ids: set[str], unscaled: Sequence[str], unit: str) -> str:
    """Return what the chart of noise scales shows.

    Args:
        ids: ids of the plotted mechanisms.
        unscaled: names of mechanisms whose noise is measured otherwise.
        unit: what the chosen epsilon counts.
    """
    sentences = [f"The rule is the chosen epsilon, counted {unit}."]
    if len(ids) > 1:
        sentences.insert(
            0,
            "Bold: each release of the chosen mechanism; of the others the main one. A scale counts"
            " in the units of what it is added to, so compare slopes, not heights.",
        )
    if unscaled:
        sentences.append(f"Measured otherwise, so not drawn here: {', '.join(unscaled)}.")
    return " ".join(sentences)


class BeforeAfter(NamedTuple):
    """A block before and after one release; NaN where nothing is released.

    Attributes:
        query: of the release.
        before, after: arrays of shape (n_rows, n_items).
        users: names of the rows.
        items: titles of the columns.
        rows: what the rows are: users, items (a matrix of the items), or all users together (a
            sum).
    """

    query: str
    before: Floats
    after: Floats
    users: tuple[str, ...]
    items: tuple[str, ...]
    rows: str = "users"


def select_block(ratings: Ratings, users: int = 24, items: int = 36) -> Ratings:
    """Return the busiest users and the most rated items as ratings with indices of their own."""
    by_user, by_item = count_ratings(ratings)
    chosen_users = rank_by_count(by_user, users)
    chosen_items = rank_by_count(by_item, items)
    row, column, rating_index = locate_ratings(ratings, chosen_users, chosen_items)
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
        user_ids=tuple(format_user_name(ratings, int(u)) for u in chosen_users),
        item_ids=tuple(format_item_title(ratings, int(i)) for i in chosen_items),
        titles=None,
    )


def run_on_block(mechanism: Mechanism, corner: Ratings) -> tuple[BeforeAfter, ...]:
    """Run the mechanism on a small block and return the first publication of each release.

    The values before noise are raw ratings, or computed from them, so they are only for the owner
    to look at. Releases whose values belong to no cell, item or pair of items of the block are left
    out.
    """
    queries = {r.query for _, r in mechanism.guarantee(corner.public).releases}
    pictures: dict[str, BeforeAfter] = {}
    foreign = _find_foreign_queries(mechanism, corner.public)
    for publication in collect_publications(mechanism, corner, queries):
        if publication.release.query in pictures or publication.release.query in foreign:
            continue
        before = _as_block(publication.private, corner)
        after = _as_block(publication.published, corner)
        if before is not None and after is not None:
            items = tuple(corner.item_ids or ())
            row_kind = "users"
            shape = publication.private.shape
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


def _find_foreign_queries(mechanism: Mechanism, public: PublicFacts) -> set[str]:
    """Find queries of releases whose size is items x items by chance, by adding one item."""
    n = public.items
    larger_releases = mechanism.guarantee(dataclasses.replace(public, items=n + 1)).releases
    grown = {r.query for _, r in larger_releases if r.shape == (n + 1, n + 1)}
    return {
        r.query
        for _, r in mechanism.guarantee(public).releases
        if r.shape == (n, n) and r.query not in grown
    }


def _as_block(values: NDArray[Any], ratings: Ratings) -> Floats | None:
    selection = extract_block(values, ratings, *map(np.arange, ratings.shape))
    items = ratings.public.items
    if selection is None and values.shape in ((items,), (items, items)):
        return np.atleast_2d(values).astype(float)
    return selection


def find_value_names(view: BeforeAfter, task: Task) -> tuple[str, str] | None:
    """Return the names of a block's two values; None where it has other values before or after."""
    observed = np.concatenate([v[~np.isnan(v)] for v in (view.before, view.after)])
    return name_binary_values(task) if np.isin(observed, (0, 1)).all() else None


def find_value_range(view: BeforeAfter, release: Release) -> tuple[float, float] | None:
    """Return the range in which a block is drawn at every epsilon.

    None where its values are two names.

    Args:
        view: the block at epsilon 1.
        release: its release at epsilon 1, since a later release may depend on earlier ones.
    """
    if isinstance(release, SymbolChannel):
        return 0.5, len(release.matrix) - 0.5
    if not isinstance(release, Additive | ModifiedLaplace):
        return None
    room = 4 * release.scale
    return float(np.nanmin(view.before)) - room, float(np.nanmax(view.before)) + room


def format_row_title(view: BeforeAfter, row: int = 0) -> str:
    """Return whose values a row of the picture holds."""
    if view.rows == "users":
        return f"Row {row + 1} of {len(view.users)}: one person's values, before and after"
    if view.rows == "items":
        return f"Row {row + 1} of {len(view.users)}: {view.users[row]} with each item"
    return "One value for each item, of all users together"


def describe_block_colours(view: BeforeAfter) -> str:
    """Describe what the colours of the block mean."""
    empty = bool(np.isnan(view.before).any() or np.isnan(view.after).any())
    return "Both halves share their colours" + ("; grey cells hold no value." if empty else ".")


def describe_block(view: BeforeAfter) -> str:
    """Describe the block in words."""
    return (
        f"{len(view.users)} x {format_count(len(view.items), 'item')} ({view.rows}), before and"
        " after:"
        f" values of size {np.nanmean(np.abs(view.before)):.2g} change by"
        f" {np.nanmean(np.abs(view.after - view.before)):.2g} on average."
    )


def tabulate_block(view: BeforeAfter) -> Table:
    """Return the mean change of each row of the block as columns."""
    change = np.abs(view.after - view.before)
    return {
        view.rows: list(view.users),
        "released values": (~np.isnan(view.before)).sum(axis=1).tolist(),
        "mean change": [
            round(float(np.nanmean(row)), 4) if not np.isnan(row).all() else None for row in change
        ],
    }


def describe_row(view: BeforeAfter, user: int = 0) -> str:
    """Describe one row of the picture in words."""
    row = view.before[user]
    noisy = view.after[user]
    is_present = ~np.isnan(row)
    differences = np.abs(noisy[is_present] - row[is_present])
    n_missing = int(np.isnan(differences).sum())
    differences = differences[~np.isnan(differences)]
    if n_missing or np.isnan(row[~np.isnan(noisy)]).any():
        n_invented = int((~np.isnan(noisy) & ~is_present).sum())
        return (
            f"{format_count(int(is_present.sum()), 'rating')} of one row: left out {n_missing},"
            " reported with noise"
            f" {len(differences)}; cells without a rating that report one: {n_invented}."
        )
    return (
        f"{format_count(int(is_present.sum()), 'released value')} of one row, before and after"
        " the noise:"
        f" {int((differences > 1e-12).sum())} changed, by {differences.mean():.2g} on average."
    )


def tabulate_row(view: BeforeAfter, user: int = 0) -> Table:
    """Return one row of the picture as columns."""
    released_columns = np.flatnonzero(~np.isnan(view.before[user]) | ~np.isnan(view.after[user]))
    return {"item": [view.items[i] for i in released_columns]} | {
        name: [
            None if np.isnan(v) else round(float(v), 4)
            for v in block_values[user, released_columns]
        ]
        for name, block_values in (("before", view.before), ("after", view.after))
    }
