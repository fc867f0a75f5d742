"""People of a data set: what they rated, what the server gets of it, and what they are shown.

The lists at every epsilon come from the sweep that made the curve (see toplists), with its first
seed; those of the samples ship beside their curves.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, NamedTuple

import numpy as np

from dpmc_core.arrays import Floats, Ints
from dpmc_core.errors import DpmcError
from dpmc_core.experiment import publications
from dpmc_core.lab import shipped
from dpmc_core.lab.store import Store, curves, top_lists
from dpmc_core.lab.sweep import toplists
from dpmc_core.lab.views.data import title, user_name
from dpmc_core.lab.views.noise import main_release
from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import (
    ModifiedLaplace,
    RandomizedResponse,
    Release,
    SymbolChannel,
    Trust,
)
from dpmc_core.ratings import PublicFacts, Ratings

QUANTILES = (0.5, 0.25, 0.75, 0.1, 0.9)  # of the number of ratings: the first person has the median
WHO = ("median", "lower quarter", "upper quarter", "lowest tenth", "highest tenth")
_RANKS = (0.0, 0.03, 0.1, 0.3)  # of the items by number of ratings, whose numbers are shown
_RATED, _MISSING = 6, 2  # cells of a person that are shown


@dataclass(frozen=True)
class Person:
    """Somebody of the data set.

    rated: how many ratings are trained on. cells: title and rating of some of them, and some titles
    without a rating (None). plain: items of the list without privacy. place: among the users whose
    lists are kept.
    """

    name: str
    rated: int
    cells: tuple[tuple[str, float | None], ...]
    plain: tuple[int, ...]
    place: int


@dataclass(frozen=True)
class People:
    """Some people of a data set, the titles of all items in lists, and the list of the popular.

    popular: how many items of one list for everybody, the most rated ones, are in somebody's list
    without privacy; the mean over all users whose lists are kept.
    """

    people: tuple[Person, ...]
    titles: Mapping[int, str]
    popular: float


@dataclass(frozen=True)
class Lists:
    """What people are shown at one epsilon, with one seed.

    items: of the list of each person. shared: how many of them are in that person's list without
    privacy. everyone: the mean of that over all users whose lists are kept.
    """

    items: tuple[tuple[int, ...], ...]
    shared: tuple[int, ...]
    everyone: float


Shown = tuple[People, Mapping[float, Lists]]  # lists by epsilon


def people(train: Ratings, plain: Sequence[Sequence[int]], items: Collection[int]) -> People:
    """People by the number of their ratings: the median first, then the quarters and the tenths.

    plain: what the users of the sample are shown without privacy. items: others to be named.
    """
    users, counts = toplists.sample(train), np.diff(train.indptr)
    order = np.argsort(counts[users], kind="stable")
    places = dict.fromkeys(int(order[round(q * (len(order) - 1))]) for q in QUANTILES)
    known = np.bincount(train.items, minlength=train.public.items)
    popular = toplists.popular(train)
    found = [
        Person(
            user_name(train, int(users[k])),
            int(counts[users[k]]),
            _cells(train, int(users[k]), known, popular[k]),
            tuple(plain[k]),
            k,
        )
        for k in places
    ]
    named = {*items, *(item for person in found for item in person.plain)}
    titles = {item: title(train, item) for item in sorted(named)}
    return People(tuple(found), titles, _mean(toplists.shared(popular, plain)))


def _cells(
    train: Ratings, user: int, known: Ints, unrated: Sequence[int]
) -> tuple[tuple[str, float | None], ...]:
    """The best known items that somebody rated, and some without a rating."""
    own = slice(train.indptr[user], train.indptr[user + 1])
    items, values = train.items[own], train.values[own]
    best = np.argsort(-known[items], kind="stable")[:_RATED]
    rated = [(title(train, int(items[k])), float(values[k])) for k in best]
    return (*rated, *((title(train, item), None) for item in unrated[:_MISSING]))


def _mean(values: Sequence[int]) -> float:
    return round(float(np.mean(values)), 3) if values else 0.0


# --- out of a store, and as a file that ships with the samples --------------------------------


def of_store(
    store: Store, keys: Collection[str], reference: str, train: Ratings
) -> tuple[People, dict[str, dict[float, Lists]]] | None:
    """The people of some curves, and their lists by the curve's key and epsilon.

    reference: key of the curve without privacy. train: what the first seed was trained on. None
    where no lists were kept.
    """
    ids = {info.key: info.id for info in curves(store, keys={*keys, reference}, count=False)}
    plain = top_lists(store, ids[reference]).get(None) if reference in ids else None
    if plain is None or len(plain) != len(toplists.sample(train)):
        return None
    stored = {key: top_lists(store, ids[key]) for key in keys if key in ids and key != reference}
    first = people(train, plain, ())
    places = [person.place for person in first.people]
    found: dict[str, dict[float, Lists]] = {}
    for key, by_epsilon in stored.items():
        for epsilon, shown in by_epsilon.items():
            if epsilon is not None:
                common = toplists.shared(shown, plain)
                found.setdefault(key, {})[epsilon] = Lists(
                    tuple(tuple(shown[k]) for k in places),
                    tuple(common[k] for k in places),
                    _mean(common),
                )
    named = {i for one in found.values() for at in one.values() for own in at.items for i in own}
    return people(train, plain, named), found


def write(found: People, shown: Mapping[str, Mapping[float, Lists]], stream: IO[str]) -> None:
    """The file that lies beside the curves of a data set and task."""
    text = {
        "people": [dataclasses.asdict(person) for person in found.people],
        "titles": found.titles,
        "popular": found.popular,
        "curves": {
            key: {f"{e:g}": dataclasses.astuple(at) for e, at in by_epsilon.items()}
            for key, by_epsilon in shown.items()
        },
    }
    json.dump(text, stream, separators=(",", ":"))
    stream.write("\n")


def load(data: str, task: Task, key: str) -> Shown | None:
    """What ships with the samples for a curve; None where there is nothing of this very curve."""
    names = (shipped.file_name(data, task, facts=facts) for facts in (False, True))
    paths = ((shipped.FOLDER / name).with_suffix(".json") for name in names)
    texts = (json.loads(p.read_text(encoding="utf-8")) for p in paths if p.is_file())
    text = next((text for text in texts if key in text["curves"]), None)
    if text is None:
        return None
    found = [
        Person(
            one["name"],
            one["rated"],
            tuple((name, value) for name, value in one["cells"]),
            tuple(one["plain"]),
            one["place"],
        )
        for one in text["people"]
    ]
    titles = {int(item): name for item, name in text["titles"].items()}
    lists = {
        float(epsilon): Lists(tuple(map(tuple, items)), tuple(common), everyone)
        for epsilon, (items, common, everyone) in text["curves"][key].items()
    }
    return People(tuple(found), titles, text["popular"]), lists


# --- what the server gets of a person ----------------------------------------------------------


class Served(NamedTuple):
    """What the server gets of the cells of a person at one epsilon; NaN where nothing is told.

    changed: whether a cell is told otherwise than it is.
    """

    values: tuple[float, ...]
    changed: tuple[bool, ...]


def served(mechanism: Mechanism, person: Person, public: PublicFacts) -> Served | None:
    """One draw of the release behind a local mechanism; None for one that trusts the server.

    The same random numbers are behind every epsilon, so a report that was kept stays kept as
    epsilon grows.
    """
    card = mechanism.guarantee(public)
    release = main_release(card)
    if card.trust is not Trust.LOCAL or release is None:
        return None
    rng = np.random.default_rng(person.place)
    chances = rng.random((len(person.cells), 2))
    given = np.array([math.nan if v is None else v for _, v in person.cells])
    told = np.array([_told(release, v, u, public) for v, u in zip(given, chances, strict=True)])
    same = (told == given) | (np.isnan(told) & np.isnan(given))
    if isinstance(release, RandomizedResponse) and mechanism.task is Task.BINARY:
        seen = ~np.isnan(given)  # which ratings exist is public: nothing is told of the others
        told, same = told[seen], same[seen]
    return Served(tuple(map(float, told)), tuple(map(bool, ~same)))


def _told(release: Release, value: float, u: Floats, public: PublicFacts) -> float:
    """What a release makes of one cell, by two random numbers; NaN is no rating, or no report."""
    missing = math.isnan(value)
    unit = 0.0 if missing else (value - public.middle) / public.half_width
    if isinstance(release, ModifiedLaplace):
        chance = release.reported_if_missing if missing else release.reported_if_rated
        if u[0] >= chance:
            return math.nan
        sign = 1.0 if u[1] > 0.5 else -1.0
        noise = -release.scale * sign * math.log1p(-2 * abs(u[1] - 0.5))
        return public.middle + public.half_width * (unit + noise)
    if isinstance(release, SymbolChannel):
        levels = np.array(release.levels)
        own = 0 if missing else 1 + int(np.argmin(np.abs(levels - unit)))
        symbol = _passed(release.matrix[own], own, u)
        return math.nan if symbol == 0 else public.middle + public.half_width * levels[symbol - 1]
    if isinstance(release, RandomizedResponse):
        own = int(not missing and value > 0)
        symbol = _passed(release.matrix[own], own, u)
        clicks = public.low == 0
        return (1.0 if symbol else math.nan) if clicks else (1.0 if symbol else -1.0)
    raise DpmcError(f"'{release.query}' tells nothing cell by cell")


def _passed(row: Floats, own: int, u: Floats) -> int:
    """The symbol that comes out for one that goes in: itself first, then the others in order."""
    if u[0] < row[own]:
        return own
    others = np.delete(np.arange(len(row)), own)
    edges = np.cumsum(row[others])
    return int(
        others[np.searchsorted(edges, u[1] * edges[-1], side="right").clip(max=len(others) - 1)]
    )


class Scores(NamedTuple):
    """A number per item that leaves a trusted server: before the noise, and after at each stop."""

    title: str
    query: str
    before: float
    after: tuple[float, ...]


def scores(mechanisms: Sequence[Mechanism], train: Ratings) -> tuple[Scores, ...]:
    """The first number per item that a method releases, for items from often to seldom rated.

    mechanisms: the method at every stop. The same draw is behind all of them, at their scales.
    Empty where a method releases nothing item by item.
    """
    made = [mechanism.guarantee(train.public).per_item for mechanism in mechanisms]
    releases = [release for release in made if release is not None]
    if len(releases) < len(mechanisms):
        return ()
    items, query = train.public.items, releases[0].query
    seen = publications(mechanisms[0], train, {query})[-1]
    draw = (seen.published - seen.private) / releases[0].scale
    order = np.argsort(-np.bincount(train.items, minlength=items), kind="stable")
    chosen = dict.fromkeys(int(order[int(rank * (items - 1))]) for rank in _RANKS)
    return tuple(
        Scores(
            title(train, item),
            query,
            float(seen.private[item]),
            tuple(float(seen.private[item] + release.scale * draw[item]) for release in releases),
        )
        for item in chosen
    )
