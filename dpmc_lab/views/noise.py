"""Compute pictures of noise: densities, channels, scales, and releases before and after."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import registry
from dpmc_core.arrays import Floats, ItemAxis
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
from dpmc_lab.views.cards import format_share_percent
from dpmc_lab.views.data import (
    arrange_by_rating,
    count_ratings,
    extract_block,
    format_item_title,
    format_user_name,
    has_rating_values,
    rank_by_count,
)
from dpmc_lab.views.lines import format_short_number
from dpmc_lab.views.text import Table, build_table, format_count


def find_main_release(guarantee: Guarantee) -> Release | None:
    """Return the release with the most values, which pictures show; None without releases."""
    releases = [release for _, release in guarantee.releases]
    # A matrix before a vector before a number, and then what is published most often.
    return max(releases, key=lambda r: (len(r.shape), r.times), default=None)


def describe_noise(release: Release) -> str:
    """Describe the noise of a release in one sentence."""
    times = f", {release.times} times" if release.times > 1 else ""
    if isinstance(release, RandomizedResponse):
        chances = ", ".join(
            dict.fromkeys(f"{format_share_percent(p)} %" for p in release.matrix.diagonal())
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
            f" {reported_as}; a missing one with chance {missing:.3g} %{missing_as}."
        )
    if isinstance(release, Additive):
        kind = "Laplace" if isinstance(release, Laplace) else type(release).__name__
        return f"{kind} noise of scale {release.scale:.4g} on the {release.query}{times}."
    return f"Noise on the {release.query}{times}."


# Names for the two values, 0 and 1 or -1 and +1, of the tasks that have two.
BINARY_NAMES = {Task.BINARY: ("dislike", "like"), Task.RANKING: ("not clicked", "clicked")}


class Density(NamedTuple):
    """Additive noise of one coordinate: its exact density and a histogram of draws.

    Attributes:
        query: of the release.
        scale: noise scale, in the unit of the release.
        x: array of shape (n_points,), grid of noise values.
        density: array of shape (n_points,), exact density on the grid.
        bar_centers: array of shape (n_bars,), centres of the histogram's bars.
        bar_heights: array of shape (n_bars,), histogram as a density.
        median_size: half of the noise is at most this large in absolute value.
    """

    query: str
    scale: float
    x: Floats
    density: Floats
    bar_centers: Floats
    bar_heights: Floats
    median_size: float


_REACH = 6  # noise scales from the middle of the axis to its ends
_N_BARS = 48
_N_DRAWS = 5_000


def compute_density(release: Additive | ModifiedLaplace, reach: float) -> Density:
    """Return the exact density of noise, and a histogram of fresh draws.

    Args:
        release: the release with the noise.
        reach: the axis goes from -reach to reach.
    """
    noise = release
    if isinstance(noise, ModifiedLaplace):  # only the Laplace noise on a reported value
        noise = Laplace(query=noise.query, shape=(None,), sensitivity={}, scale=noise.scale)
    # A narrow density needs a finer grid near zero.
    fine_grid = np.linspace(-_REACH * noise.scale, _REACH * noise.scale, 201)
    x = np.linspace(-reach, reach, 401)
    x = np.union1d(x, fine_grid[np.abs(fine_grid) <= reach])
    sample = noise.sample(_N_DRAWS, np.random.default_rng(0))
    bar_counts, edges = np.histogram(sample, bins=_N_BARS, range=(-reach, reach))
    return Density(
        release.query,
        release.scale,
        x,
        noise.density(x),
        (edges[:-1] + edges[1:]) / 2,
        bar_counts / (len(sample) * (edges[1] - edges[0])),
        _compute_median_noise(noise),
    )


def _compute_median_noise(noise: Additive) -> float:
    """Return the median absolute value of noise, by its density."""
    # The median of noise is far below eight scales, whatever its kind.
    x = np.linspace(0, 8 * noise.scale, 2001)
    exact = noise.density(x)
    # The trapezoidal rule gives the chance of an absolute value up to each x: twice one half.
    cumulative = np.concatenate([[0.0], np.cumsum((exact[1:] + exact[:-1]) * np.diff(x))])
    return float(np.interp(0.5, cumulative, x))


def compute_noise_views(
    releases: Mapping[float, Release], public: PublicFacts
) -> dict[float, Density | ChannelChances]:
    """Return the noise of one release by epsilon; densities share the axis of the widest.

    Args:
        releases: the release at each epsilon.
        public: public facts of the ratings.

    Raises:
        DpmcError: the noise has no picture.
    """
    reach = _REACH * max(getattr(release, "scale", 0.0) for release in releases.values())
    views: dict[float, Density | ChannelChances] = {}
    for epsilon, release in releases.items():
        if isinstance(release, RandomizedResponse | SymbolChannel):
            symbols = list_symbols(release, public)
            views[epsilon] = ChannelChances(release.query, symbols, release.matrix)
        elif isinstance(release, Additive | ModifiedLaplace):
            views[epsilon] = compute_density(release, reach)
        else:
            raise DpmcError(f"'{release.query}' has no noise to draw")
    return views


def tabulate_noise_shape(views: Mapping[float, Density | ChannelChances]) -> Table:
    """Return the noise of a release as columns.

    Args:
        views: the noise at one or two epsilons, by epsilon.
    """
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
    """Return how far a rating or a person can move a release; None where no bound is known.

    For a collected rating it is one point of the range. Otherwise it is the release's sensitivity
    to the smallest change that it names; a matrix counts all its cells together.
    """
    if isinstance(release, ModifiedLaplace):
        point = 2 / (public.high - public.low)
        return SensitivityRuler(point, f"one point on the scale {public.low:g} to {public.high:g}")
    for change, subject in _CHANGE_SUBJECTS.items():
        if change in release.sensitivity:
            length = sensitivity_at(release.sensitivity, change, public)
            suffix = " in all" if release.is_matrix else ""
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
    """Describe the noise of a release at the first epsilon, or a channel at both."""
    epsilon, *second = views
    chosen = views[epsilon]
    if isinstance(chosen, ChannelChances):
        text = f"At epsilon {epsilon:g}, {_format_flip_chance(chosen)} of the answers are changed"
    else:
        text = (
            f"At epsilon {epsilon:g}, half of the noise is within"
            f" ±{format_short_number(chosen.median_size, 3)}"
        )
    for second_epsilon in second:
        if isinstance(view := views[second_epsilon], ChannelChances):
            text += f"; at epsilon {second_epsilon:g}, {_format_flip_chance(view)}"
    return f"{text}."


def conclude_noise(views: Mapping[float, Density | ChannelChances]) -> str:
    """Return how the noise differs at two epsilons, or how large it is at one, as a title."""
    sizes = {e: view.median_size for e, view in views.items() if isinstance(view, Density)}
    if len(sizes) < 2:
        return describe_noise_shape(views).removesuffix(".")
    small, large = sorted(sizes, key=sizes.__getitem__)
    ratio = format_short_number(sizes[large] / sizes[small], 3)
    return f"The noise is {ratio} times larger at epsilon {large:g} than at epsilon {small:g}"


def _format_flip_chance(view: ChannelChances) -> str:
    """Return the largest chance that an answer is changed."""
    return f"{format_share_percent(float(1 - view.matrix.diagonal().min()))} %"


def list_symbols(release: RandomizedResponse | SymbolChannel, public: PublicFacts) -> Sequence[str]:
    """Return the inputs and outputs of a channel in the scale of the data.

    Args:
        release: the channel.
        public: public facts of the ratings as prepared for it.
    """
    if isinstance(release, SymbolChannel):
        values = (public.middle + public.half_width * level for level in release.levels)
        return "no rating", *(f"{value:.3g}" for value in values)
    return BINARY_NAMES[Task.BINARY if public.low < 0 else Task.RANKING]


class ChannelChances(NamedTuple):
    """The exact chance of each output of a channel for each input.

    Attributes:
        query: of the release.
        symbols: names of the inputs and outputs.
        matrix: array of shape (n_symbols, n_symbols); rows are inputs.
    """

    query: str
    symbols: Sequence[str]
    matrix: Floats


def tabulate_channel(view: ChannelChances) -> Table:
    """Return every chance of the channel as a row: input, output, exact chance."""
    rows = [
        (view.symbols[true], view.symbols[answer], round(float(view.matrix[true, answer]), 5))
        for true, answer in np.ndindex(view.matrix.shape)
    ]
    return build_table(("true value", "answer", "chance"), rows)


class NoiseScale(NamedTuple):
    """Noise of one release by epsilon.

    Attributes:
        name: of the release.
        query: what it releases, in words.
        unit: what is measured, in words.
        epsilon: array of shape (n_epsilons,).
        scale: array of shape (n_epsilons,), size of the noise.
    """

    name: str
    query: str
    unit: str
    epsilon: Floats
    scale: Floats


def compute_noise_scales(
    id: str, epsilons: Sequence[float], public: PublicFacts, settings: dict[str, Any]
) -> tuple[NoiseScale, ...]:
    """Compute the noise of each release of a mechanism on a grid of epsilons, all else fixed.

    Args:
        id: of the mechanism.
        epsilons: the grid.
        public: public facts of the ratings.
        settings: settings of the mechanism, without epsilon.
    """
    scales_by_release: dict[str, tuple[str, str, list[tuple[float, float]]]] = {}
    for epsilon in epsilons:
        guarantee = registry.create(id, epsilon=epsilon, **settings).guarantee(public)
        for name, release in guarantee.releases:
            unit, size = _measure_noise(release)
            _, _, points = scales_by_release.setdefault(name, (release.query, unit, []))
            points.append((epsilon, size))
    return tuple(
        NoiseScale(name.replace("_", " "), query, unit, *np.array(points).T)
        for name, (query, unit, points) in scales_by_release.items()
    )


def _measure_noise(release: Release) -> tuple[str, float]:
    """Return what measures the noise of a release, in words, and its value."""
    if isinstance(release, Additive | ModifiedLaplace):
        return "noise scale", release.scale
    if isinstance(release, RandomizedResponse):
        return "chance of a changed answer", float(1 - release.matrix.diagonal().min())
    if isinstance(release, LocalChannel):
        changed = 1 - release.reported_if_rated + release.reported_if_missing
        return "chance of a changed answer", changed
    raise DpmcError(f"'{release.query}' has no single noise scale to draw")


def conclude_noise_scales(scales: Sequence[NoiseScale]) -> str:
    """Return how the noise of the first release changes over all epsilons, as a title."""
    name, _, unit, epsilons, sizes = scales[0]
    format_size = "{:.3g}".format if unit == "noise scale" else "{:.1%}".format
    first, last = (format_size(float(size)).replace("%", " %") for size in sizes[[0, -1]])
    change = f"falls from {first} at epsilon {epsilons[0]:g} to {last} at epsilon {epsilons[-1]:g}"
    if first == last:
        change = f"is {first} at every epsilon"
    return f"The {unit} {change}" + f" ({name})" * (len(scales) > 1)


def tabulate_noise_scales(scales: Sequence[NoiseScale]) -> Table:
    """Return the noise by epsilon as columns, one per release."""
    return {"epsilon": scales[0].epsilon.tolist()} | {
        f"{noise_scale.name}: {noise_scale.query}": [
            float(f"{size:.4g}") for size in noise_scale.scale
        ]
        for noise_scale in scales
    }


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


def select_block(
    ratings: Ratings, users: int = 24, items: int = 36, last_user: int | None = None
) -> Ratings:
    """Return the busiest users and the most rated items as ratings with indices of their own.

    Args:
        ratings: the ratings.
        users: number of users at most.
        items: number of items at most.
        last_user: a user who takes the last row.
    """
    by_user, by_item = count_ratings(ratings)
    chosen_users = rank_by_count(by_user, users)
    if last_user is not None:
        chosen_users = np.append(chosen_users[chosen_users != last_user][: users - 1], last_user)
    chosen_items = rank_by_count(by_item, items)
    index = arrange_by_rating(np.arange(len(ratings)), ratings)
    # The values of this matrix are positions in `ratings`.
    block = index[chosen_users][:, chosen_items].tocoo()
    order = np.lexsort((block.col, block.row))
    return dataclasses.replace(
        ratings,
        users=block.row[order].astype(np.int32),
        items=block.col[order].astype(np.int32),
        values=ratings.values[block.data[order]],
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
    items = tuple(corner.item_ids or ())
    names = {"users": tuple(corner.user_ids or ()), "items": items, "all users": ("all users",)}
    for publication in collect_publications(mechanism, corner, queries):
        release = publication.release
        row_kind = _find_row_kind(release)
        if row_kind and release.query not in pictures:
            before, after = (
                extract_block(values, corner, *map(np.arange, corner.shape))
                if row_kind == "users"
                else np.atleast_2d(values).astype(float)
                for values in (publication.private, publication.published)
            )
            pictures[release.query] = BeforeAfter(
                release.query, before, after, names[row_kind], items, row_kind
            )
    return tuple(pictures.values())


def _find_row_kind(release: Release) -> str:
    """Return what the rows of an answer are in `BeforeAfter`; empty where it has no picture."""
    if has_rating_values(release):
        return "users"
    if release.is_per_item:
        return "all users"
    return "items" if release.axes == (ItemAxis, ItemAxis) else ""


def find_value_names(view: BeforeAfter, task: Task) -> tuple[str, str] | None:
    """Return the names of a block's two values; None where it has other values before or after."""
    observed = np.concatenate([v[~np.isnan(v)] for v in (view.before, view.after)])
    return BINARY_NAMES.get(task) if np.isin(observed, (0, 1)).all() else None


def tabulate_first_value(views: Mapping[float, BeforeAfter], task: Task) -> Table:
    """Return a value of a block, before and after the noise at each epsilon, as columns.

    It is the first value of the first row that changes at the first epsilon.
    """
    column, rows = _find_first_column(next(iter(views.values()))), []
    for epsilon, view in views.items():
        names = dict(enumerate(BINARY_NAMES.get(task) or ())) if view.rows == "users" else {}
        texts = []
        for value in (float(block[0, column]) for block in (view.before, view.after)):
            number = "not reported" if np.isnan(value) else format_short_number(value, 3)
            texts.append(f"{number} ({names[int(value)]})" if value in names else number)
        rows.append((f"{epsilon:g}", *texts))
    return build_table(("epsilon", "before", "after"), rows)


def describe_first_value(view: BeforeAfter) -> str:
    """Say whose value of a block serves as example, and for which item."""
    owner = "One person's" if view.rows == "users" else "All users'"
    return f"{owner} value for “{view.items[_find_first_column(view)]}”"


def get_first_noise(view: BeforeAfter) -> float:
    """Return the noise on the first value of a block; NaN where it is not reported."""
    column = _find_first_column(view)
    return float(view.after[0, column] - view.before[0, column])


def _find_first_column(view: BeforeAfter) -> int:
    """Return the first column of the first row that the noise changes, else the first one."""
    observed = ~np.isnan(view.before[0])
    return int(np.argmax(observed * (1 + (view.before[0] != view.after[0]))))


def format_row_title(view: BeforeAfter, row: int) -> str:
    """Return the title of a row of the picture, which states whose values it holds."""
    if view.rows == "users":
        return f"Row {row + 1} of {len(view.users)}: one person's values, before and after"
    if view.rows == "items":
        return f"Row {row + 1} of {len(view.users)}: {view.users[row]} with each item"
    return "One value for each item, of all users together"


def describe_row(view: BeforeAfter, user: int) -> str:
    """Describe one row of the picture in words."""
    row = view.before[user]
    noisy = view.after[user]
    is_present = ~np.isnan(row)
    differences = np.abs(noisy[is_present] - row[is_present])  # less than 1e-12 is rounding
    n_missing = int(np.isnan(differences).sum())
    differences = differences[~np.isnan(differences)]
    n_invented = int((~np.isnan(noisy) & ~is_present).sum())
    n_present = int(is_present.sum())
    if n_missing or n_invented:
        return (
            f"Of {format_count(n_present, 'rating')} of one row, {n_missing} are left out and"
            f" {len(differences)} are reported with noise; {n_invented} cells without a rating"
            " report one."
        )
    if not len(differences):
        return "This row has no value."
    return (
        f"The noise changes {int((differences > 1e-12).sum())} of"
        f" {format_count(n_present, 'released value')}, by {differences.mean():.2g} on average."
    )


def tabulate_row(view: BeforeAfter, user: int) -> Table:
    """Return one row of the picture as columns."""
    released_columns = np.flatnonzero(~np.isnan(view.before[user]) | ~np.isnan(view.after[user]))
    return {"item": [view.items[i] for i in released_columns]} | {
        name: [
            None if np.isnan(v) else round(float(v), 4)
            for v in block_values[user, released_columns]
        ]
        for name, block_values in (("before", view.before), ("after", view.after))
    }
