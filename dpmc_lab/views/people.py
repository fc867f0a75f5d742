"""Show people of a data set: what they rated, what the server gets and what is recommended.

The lists at every epsilon come from the first seed of the sweep that made the curve (see toplists);
those of the samples ship with their curves.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmc_core.arrays import Floats, Ints
from dpmc_core.model import Task
from dpmc_core.privacy import (
    Guarantee,
    ModifiedLaplace,
    RandomizedResponse,
    SymbolChannel,
    Trust,
)
from dpmc_core.problem import build_problem
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_data.datasets import LoadedDataset
from dpmc_data.synthetic import SAMPLES
from dpmc_lab import shipped
from dpmc_lab.store import Store, list_curves, load_top_lists
from dpmc_lab.sweep import toplists
from dpmc_lab.views.data import (
    count_ratings,
    format_item_title,
    format_user_name,
)
from dpmc_lab.views.noise import find_main_release
from dpmc_lab.views.text import format_count

QUANTILES = (0.5, 0.25, 0.75, 0.1, 0.9)  # of the number of ratings: the first person has the median
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


# --- what a person sends ---------------------------------------------------------------------


def describe_channel(guarantee: Guarantee) -> list[Any] | None:
    """Return what a local mechanism does to each rating; None for one that trusts a server.

    It is the matrix of chances of a channel, or the chance that a rating is reported and the scale
    of its noise, in rating points.
    """
    release = find_main_release(guarantee)
    if guarantee.trust is not Trust.LOCAL or release is None:
        return None
    if isinstance(release, ModifiedLaplace):
        return [release.reported_if_rated, release.scale * guarantee.public.half_width]
    assert isinstance(release, RandomizedResponse | SymbolChannel)  # all other local mechanisms
    matrix: list[Any] = release.matrix.tolist()
    return matrix


def compute_tolerance(public: PublicFacts) -> float:
    """Return how far noise may move a report that counts as true, in rating points."""
    return (public.high - public.low) / 8


def list_ratings(people: People, train: Ratings) -> list[list[float]]:
    """Return all ratings of each person.

    Args:
        people: the people.
        train: the ratings that their lists were learnt from.
    """
    users = toplists.sample_users(train)
    rows = (int(users[person.place]) for person in people.people)
    return [train.values[train.indptr[k] : train.indptr[k + 1]].tolist() for k in rows]


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
        entry = "click" if ratings.has_only_clicks else "rating"
        descriptions.append(format_count(person.rated, entry))
        if rated_categories.any():
            category_shares = rated_categories.mean(axis=0)
            top_category = int(np.argmax(category_shares))
            adverb = "mostly" if category_shares[top_category] > 0.5 else "most often"
            items = SAMPLES[data.name].items if data.name in SAMPLES else "titles"
            descriptions[-1] += f", {adverb} {names[top_category].lower()} {items}"
    return tuple(descriptions)


def load_item_categories(data: LoadedDataset) -> tuple[Sequence[str], Floats]:
    """Return the names of item categories, and which item is in which; empty if none are known.

    The second part is an array of shape (n_items, n_categories).
    """
    for feature in data.item_features:
        if feature.columns is not None and feature.names:
            return feature.names, feature.columns
    return (), np.zeros((data.ratings.public.items, 0))
