"""Show people of a data set: what they rated, what the server gets and what is recommended.

The lists at every epsilon come from the first seed of the sweep that made the curve (see toplists);
those of the samples ship with their curves.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpmc_core.arrays import Floats, Ints
from dpmc_core.errors import DpmcError
from dpmc_core.model import Task
from dpmc_core.privacy import (
    Guarantee,
    ModifiedLaplace,
    RandomizedResponse,
    Release,
    SymbolChannel,
    Trust,
)
from dpmc_core.problem import build_problem
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_data.datasets import LoadedDataset
from dpmc_lab import shipped
from dpmc_lab.store import Store, list_curves, load_top_lists
from dpmc_lab.sweep import toplists
from dpmc_lab.views.data import (
    count_ratings,
    describe_anonymous_user,
    format_item_title,
    format_user_name,
)
from dpmc_lab.views.noise import find_main_release

QUANTILES = (0.5, 0.25, 0.75, 0.1, 0.9)  # of the number of ratings: the first person has the median
_GOLDEN_RATIO = 0.618034  # its multiples spread evenly
_N_RATED, _N_MISSING = 6, 2  # displayed cells of a person, with and without a rating


@dataclass(frozen=True)
class Person:
    """One user of a data set.

    The names of the fields are those in the files that sample_data/compute.py writes.

    Attributes:
        name: name in the source, or row number.
        rated: number of ratings in training.
        cells: title and rating of some items, then titles without a rating (None).
        plain: items of the recommendation list without privacy.
        place: index among `toplists.sample_users`, whose lists are stored.
    """

    name: str
    rated: int
    cells: tuple[tuple[str, float | None], ...]
    plain: tuple[int, ...]
    place: int


@dataclass(frozen=True)
class People:
    """Some users of a data set, with the titles of all items in their lists.

    Attributes:
        people: the users.
        titles: titles by item index.
        popular: how many items of the popularity list are also in a user's list without privacy, as
            a mean over all users whose lists are stored.
    """

    people: tuple[Person, ...]
    titles: Mapping[int, str]
    popular: float


@dataclass(frozen=True)
class TopLists:
    """Recommendation lists at one epsilon, with one seed.

    Attributes:
        items: the list of each person.
        shared: how many items of each list are also in that person's list without privacy.
        everyone: mean of the same number over all users whose lists are stored.
    """

    items: tuple[tuple[int, ...], ...]
    shared: tuple[int, ...]
    everyone: float


PeopleWithLists = tuple[People, Mapping[float, TopLists]]  # the second part is by epsilon


def find_example_user(data: LoadedDataset) -> int:
    """Return the user of median activity, whom every page shows first.

    Activity is the number of ratings in the training part of the split that the lists are from,
    and the user is one of those with lists: no run, no mechanism and no result changes who it is.
    """
    task = Task.RANKING if data.ratings.has_only_clicks else Task.RATINGS
    train = build_problem(data, task, seed=toplists.LISTS_SEED).train
    users = toplists.sample_users(train)
    return int(users[_find_quantile(count_ratings(train)[0][users], QUANTILES[0])])


def _find_quantile(counts: Ints, quantile: float) -> int:
    """Return the index of the count at a quantile; of equal ones the first comes first."""
    return int(np.argsort(counts, kind="stable")[round(quantile * (len(counts) - 1))])


def select_people(train: Ratings, plain: Sequence[Sequence[int]], items: Collection[int]) -> People:
    """Select people at the median, quartiles and outer deciles of the number of ratings.

    Args:
        train: training ratings.
        plain: lists of the sampled users without privacy.
        items: further items whose titles are needed.
    """
    users = toplists.sample_users(train)
    counts, item_counts = count_ratings(train)
    # Quantiles of few users may coincide; a dict keeps each user once, in order.
    positions = dict.fromkeys(_find_quantile(counts[users], q) for q in QUANTILES)
    popular = toplists.list_popular_items(train)
    selected = []
    for position in positions:
        user = int(users[position])
        row = slice(train.indptr[user], train.indptr[user + 1])
        user_items = train.items[row]
        values = train.values[row]
        # The most rated items that the user rated, and popular ones without the user's rating.
        best = np.argsort(-item_counts[user_items], kind="stable")[:_N_RATED]
        rated = [(format_item_title(train, int(user_items[k])), float(values[k])) for k in best]
        cells = (
            *rated,
            *((format_item_title(train, item), None) for item in popular[position][:_N_MISSING]),
        )
        selected.append(
            Person(
                format_user_name(train, user),
                int(counts[user]),
                cells,
                tuple(plain[position]),
                position,
            )
        )
    listed_items = {*items, *(item for person in selected for item in person.plain)}
    titles = {item: format_item_title(train, item) for item in sorted(listed_items)}
    return People(tuple(selected), titles, _round_mean(toplists.count_shared_items(popular, plain)))


def _round_mean(values: Sequence[int]) -> float:
    """Return the mean with three decimals, as in files that ship; 0 without values."""
    return round(float(np.mean(values)), 3) if values else 0.0


# --- out of a store, and as a file that ships with the samples --------------------------------


def load_people_from_store(
    store: Store, keys: Collection[str], reference: str, train: Ratings
) -> tuple[People, dict[str, dict[float, TopLists]]] | None:
    """Load the people of some curves, and their lists by the key of the curve and epsilon.

    Args:
        store: the result store.
        keys: keys of the curves.
        reference: key of the nonprivate reference's curve.
        train: training ratings of the first seed.

    Returns:
        None where no lists are stored.
    """
    ids = {info.key: info.id for info in list_curves(store, keys={*keys, reference}, count=False)}
    plain = load_top_lists(store, ids[reference]).get(None) if reference in ids else None
    if plain is None or len(plain) != len(toplists.sample_users(train)):
        return None
    stored = {
        key: load_top_lists(store, ids[key]) for key in keys if key in ids and key != reference
    }
    # Titles are added below, when the items of all lists are known.
    selected = select_people(train, plain, ())
    positions = [person.place for person in selected.people]
    lists_by_curve: dict[str, dict[float, TopLists]] = {}
    for key, by_epsilon in stored.items():
        for epsilon, lists in by_epsilon.items():
            if epsilon is not None:
                shared = toplists.count_shared_items(lists, plain)
                lists_by_curve.setdefault(key, {})[epsilon] = TopLists(
                    tuple(tuple(lists[k]) for k in positions),
                    tuple(shared[k] for k in positions),
                    _round_mean(shared),
                )
    listed_items = {
        item
        for curve_lists in lists_by_curve.values()
        for epsilon_lists in curve_lists.values()
        for person_items in epsilon_lists.items
        for item in person_items
    }
    return select_people(train, plain, listed_items), lists_by_curve


def load_people(data: str, task: Task, key: str) -> PeopleWithLists | None:
    """Load the people that ship with a sample, and their lists on a curve by epsilon.

    Args:
        data: id of the sample.
        task: the task.
        key: key of the curve.

    Returns:
        None where there are none.
    """
    # Curves with and without item features have a file each.
    names = (
        shipped.build_curve_file_name(data, task, with_item_features=with_item_features)
        for with_item_features in (False, True)
    )
    paths = ((shipped.CURVE_FOLDER / name).with_suffix(".json") for name in names)
    documents = (json.loads(p.read_text(encoding="utf-8")) for p in paths if p.is_file())
    document = next((document for document in documents if key in document["curves"]), None)
    if document is None:
        return None
    persons = [
        Person(
            **record
            | {"cells": tuple(map(tuple, record["cells"])), "plain": tuple(record["plain"])}
        )
        for record in document["people"]
    ]
    titles = {int(item): name for item, name in document["titles"].items()}
    lists = {
        float(epsilon): TopLists(tuple(map(tuple, items)), tuple(shared), everyone)
        for epsilon, (items, shared, everyone) in document["curves"][key].items()
    }
    return People(tuple(persons), titles, document["popular"]), lists


# --- what the server gets of a person ----------------------------------------------------------


class ServerView(NamedTuple):
    """What the server gets of a person's cells at one epsilon.

    Attributes:
        values: the reported value of each cell, NaN where nothing is reported.
        changed: whether the report of each cell differs from the truth.
    """

    values: tuple[float, ...]
    changed: tuple[bool, ...]


def sample_server_view(guarantee: Guarantee, person: Person, task: Task) -> ServerView | None:
    """Sample what the server gets of a person's cells; None for a mechanism that trusts the server.

    Every epsilon uses the same random numbers, so a report that was unchanged stays unchanged as
    epsilon grows.

    Args:
        guarantee: guarantee of the mechanism.
        person: whose cells are reported.
        task: of the mechanism.
    """
    release = find_main_release(guarantee)
    if guarantee.trust is not Trust.LOCAL or release is None:
        return None
    rng = np.random.default_rng(person.place)
    uniforms = rng.random((len(person.cells), 2))
    true_values = np.array([math.nan if value is None else value for _, value in person.cells])
    reported = np.array(
        [
            _randomise_cell(release, value, pair, guarantee.public)
            for value, pair in zip(true_values, uniforms, strict=True)
        ]
    )
    unchanged = (reported == true_values) | (np.isnan(reported) & np.isnan(true_values))
    if isinstance(release, RandomizedResponse) and task is Task.BINARY:
        # Which ratings exist is public, and cells without a rating send nothing.
        is_rated = ~np.isnan(true_values)
        reported = reported[is_rated]
        unchanged = unchanged[is_rated]
    return ServerView(tuple(map(float, reported)), tuple(map(bool, ~unchanged)))


def _randomise_cell(release: Release, value: float, uniforms: Floats, public: PublicFacts) -> float:
    """Return what is reported of one cell, in rating points; NaN for no report.

    Modified Laplace noise and the symbols of randomised response stand for the range of ratings
    scaled to -1..1.

    Args:
        release: the release of a local mechanism.
        value: the true rating; NaN for none.
        uniforms: two uniform random numbers in 0..1. With Laplace noise the first decides whether
            the cell is reported, and the second is inverted through the distribution function of
            the noise. With a channel the first decides whether the true symbol stays, and the
            second which other one replaces it.
        public: public facts of the ratings.
    """
    missing = math.isnan(value)
    scaled = 0.0 if missing else (value - public.middle) / public.half_width
    if isinstance(release, ModifiedLaplace):
        chance = release.reported_if_missing if missing else release.reported_if_rated
        if uniforms[0] >= chance:
            return math.nan
        sign = 1.0 if uniforms[1] > 0.5 else -1.0
        noise = -release.scale * sign * math.log1p(-2 * abs(uniforms[1] - 0.5))
        return public.middle + public.half_width * (scaled + noise)
    if isinstance(release, SymbolChannel):  # symbol 0 is no rating, symbol k the k-th level
        levels = np.array(release.levels)
        true_symbol = 0 if missing else 1 + int(np.argmin(np.abs(levels - scaled)))
        symbol = _pass_channel(release.matrix[true_symbol], true_symbol, uniforms)
        return math.nan if symbol == 0 else public.middle + public.half_width * levels[symbol - 1]
    if isinstance(release, RandomizedResponse):
        # Symbol 1 is the sign +1 or a click. Symbol 0 is the sign -1, or no click where the data
        # hold clicks alone.
        true_symbol = int(not missing and value > 0)
        symbol = _pass_channel(release.matrix[true_symbol], true_symbol, uniforms)
        if symbol:
            return 1.0
        return math.nan if public.low == 0 else -1.0
    raise DpmcError(f"'{release.query}' tells nothing cell by cell")


def _pass_channel(row: Floats, true_symbol: int, uniforms: Floats) -> int:
    """Return the output of a channel from two uniform random numbers.

    The first number decides whether the true symbol stays, the second which other one replaces it.
    So a report that is true stays true at a larger epsilon.

    Args:
        row: chances of the outputs for the true symbol.
        true_symbol: the input.
        uniforms: the two numbers.
    """
    if uniforms[0] < row[true_symbol]:
        return true_symbol
    other_symbols = np.delete(np.arange(len(row)), true_symbol)
    edges = np.cumsum(row[other_symbols])
    position = np.searchsorted(edges, uniforms[1] * edges[-1], side="right")
    return int(other_symbols[position.clip(max=len(other_symbols) - 1)])  # rounding may exceed it


def count_outcomes(guarantee: Guarantee, value: float) -> list[int]:
    """Return how many of 100 reports of a rating are true, changed or empty.

    The random numbers are replaced by evenly spaced ones, so the counts are those of the channel,
    rounded. A number with noise counts as true within an eighth of the range of ratings.

    Args:
        guarantee: guarantee of a local mechanism.
        value: the rating.
    """
    public = guarantee.public
    release = find_main_release(guarantee)
    assert release is not None
    tolerance = compute_tolerance(public) * isinstance(release, ModifiedLaplace)
    # Multiples of the golden ratio spread the second number evenly, whatever the first one is.
    grid = (np.arange(100) + 0.5) / 100
    uniforms = np.column_stack([grid, np.modf(100 * grid * _GOLDEN_RATIO)[0]])
    reports = np.array([_randomise_cell(release, value, pair, public) for pair in uniforms])
    missing = int(np.isnan(reports).sum())
    changed = int((np.abs(reports - value) > tolerance).sum())
    return [100 - missing - changed, changed, missing]


def compute_tolerance(public: PublicFacts) -> float:
    """Return how far noise may move a report that counts as true, in rating points."""
    return (public.high - public.low) / 8


# --- descriptions of people -------------------------------------------------------------------


def describe_people(people: People, data: LoadedDataset) -> tuple[str, ...]:
    """Describe each of the people of a data set anonymously."""
    ratings = data.ratings
    names, categories = load_item_categories(data)
    descriptions = []
    for person in people.people:
        user_ids = ratings.user_ids
        # A person without a name in the source has a row number, counted from 1.
        user = int(person.name) - 1 if user_ids is None else user_ids.index(person.name)
        user_items = ratings.items[ratings.indptr[user] : ratings.indptr[user + 1]]
        rated_categories = categories[user_items] > 0
        descriptions.append(
            describe_anonymous_user(person.rated, data.name, clicks=ratings.has_only_clicks)
        )
        if rated_categories.any():
            category_shares = rated_categories.mean(axis=0)
            top_category = int(np.argmax(category_shares))
            adverb = "mostly" if category_shares[top_category] > 0.5 else "most often"
            descriptions[-1] += f", {adverb} {names[top_category].lower()}"
    return tuple(descriptions)


def load_item_categories(data: LoadedDataset) -> tuple[Sequence[str], Floats]:
    """Return the names of item categories, and which item is in which; empty if none are known.

    The second part is an array of shape (n_items, n_categories).
    """
    for feature in data.item_features:
        if feature.columns is not None and feature.names:
            return feature.names, feature.columns
    return (), np.zeros((data.ratings.public.items, 0))
