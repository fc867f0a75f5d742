"""Released files that somebody changed on purpose, with every digest made anew: none may pass."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.data import features
from dpmc_core.data.transforms import UseFacts, parse_step
from dpmc_core.model import Task
from dpmc_core.problem import prepare_all
from dpmc_core.ratings import Catalogue, ColumnRoles, Origin, PublicFacts, Ratings
from dpmc_lab.study.release import FEATURES, by_name, canonical, export
from tests.release_helpers import ITEMS, USERS, make, ratings_for

Card = dict[str, Any]
Arrays = dict[str, NDArray[Any]]
Forgery = tuple[str, Card, Arrays]  # its kind, and the file

# id, settings, steps, whether it has item features, whether its catalogue is listed
BASES = (
    ("private-effects", {}, (), True, True),
    ("private-effects", {"epsilon": "300"}, (), True, False),
    ("dpals", {"epsilon": "3000"}, (), True, False),
    ("private-popularity", {}, (), True, True),
    ("private-taste", {"epsilon": "1000", "rank": "2"}, (), True, False),
    ("dplcf", {}, (), False, False),
    ("private-item-mean", {}, (), False, True),
    ("input-flip", {}, ("binarise=0",), False, False),
    ("input-flip", {}, ("cap=7", "binarise=0"), False, True),
    ("randomised-response", {}, (), False, False),
    ("output", {}, (), False, False),
    ("gradient", {}, (), False, True),
    ("dpimf-sampled", {"rounds": "1", "rank": "3"}, (), False, False),
    ("dpmf", {"user_factors": "random:1", "noise": "coordinate"}, (), False, False),
)
LONG = "x" * 100_000
CONTROL = "a\x1b[2Jb"


def facts() -> tuple[features.Fact, ...]:
    """A number and categories of every item."""
    genres = [("drama", "comedy", "drama|crime", "crime")[k % 4] for k in range(ITEMS)]
    years = [str(1980 + (7 * k) % 23) for k in range(ITEMS)]
    return features.coded("genre", genres), features.coded("year", years)


def ratings_of(task: Task, described: bool, listed: bool) -> Ratings:
    names = {"item_ids": [f"i{k}" for k in range(ITEMS)], "catalogue": Catalogue(Origin.GIVEN)}
    if listed:
        names |= {"user_ids": [f"u{k}" for k in range(USERS)]}
        names |= {"columns": ColumnRoles((("user", "who"), ("item", "what")))}
    found = ratings_for(task, **(names if listed else {}))
    return features.knowing(found, facts(), told=True) if described else found


def released(base: tuple[Any, ...]) -> Any:
    """A release of a base as it should be."""
    id, settings, steps, described, listed = base
    mechanism = make(id, settings)
    ratings = ratings_of(mechanism.task, described, listed)
    parsed = [UseFacts()] * described + [parse_step(text) for text in steps]
    prepared, texts = prepare_all(ratings, mechanism.task, parsed)
    return export(mechanism, prepared, texts)


def array_line(array: NDArray[Any]) -> Card:
    return {
        "shape": list(array.shape),
        "type": str(array.dtype),
        "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest(),
    }


def leaves(value: Any, *path: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """All plain values of nested lists and dictionaries, each with the path to it."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(part, dict | list):
            yield from leaves(part, *path, key)
        else:
            yield (*path, key), part


def put(card: Card, path: tuple[Any, ...], value: Any) -> Card:
    """A copy of the card with another value at a path."""
    card = copy.deepcopy(card)
    place = card
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return card


def changed(card: Card, arrays: Arrays, name: str, array: NDArray[Any]) -> tuple[Card, Arrays]:
    """The file with another array, whose line on the card fits."""
    line = card["arrays"].get(name, {"what": "for the own predictions"}) | array_line(array)
    return put(card, ("arrays", name), line), arrays | {name: array}


def _untold(card: Card, arrays: Arrays) -> set[str]:
    """Which numbers of users and items nothing in the file shows: `unnoticed` says so."""
    if card["guarantee"]["unit"] == "value" and "user_ids" not in arrays:
        return {"users", "items"}  # which ratings exist is public
    return set() if {"users", "left", "matrix"} & set(arrays) else {"users"}


def of_numbers(card: Card, arrays: Arrays) -> Iterator[Forgery]:
    untold, rated_public = _untold(card, arrays), card["guarantee"]["unit"] == "value"
    unchecked = {*card["settings"]} - {"epsilon", "delta"}  # these say how noise became a model
    for path, value in leaves(card):
        if path[0] in ("sha256", "versions", "columns") or path[-1] == "sha256":
            continue
        # Of a completed matrix alone the number of ratings shows nowhere.
        hidden = path[-1] == "coordinates" and "symbols" not in arrays
        free = (path[0] == "data" and path[-1] in untold) or (hidden and rated_public)
        if type(value) is int:
            yield "a whole number with a point", put(card, path, float(value)), arrays
            yield "a fractional whole number", put(card, path, value * (1 + 1e-12) + 1e-12), arrays
            yield "a boolean for a number", put(card, path, bool(value)), arrays
            if not free and path[-1] not in ("revision", *unchecked):
                yield "another whole number", put(card, path, value + 1), arrays
        elif type(value) is float:
            yield "a number as text", put(card, path, str(value)), arrays
            yield "a boolean for a number", put(card, path, bool(value)), arrays
            if path[:2] not in (("data", "low"), ("data", "high")) and path[-1] not in unchecked:
                yield "another number", put(card, path, value * 1.01 + 1e-9), arrays
        elif isinstance(value, str):
            yield "a text with more", put(card, path, f"{value} raw"), arrays
        elif isinstance(value, bool):
            yield "a number for a boolean", put(card, path, int(value)), arrays


def of_fields(card: Card, arrays: Arrays) -> Iterator[Forgery]:
    untold = _untold(card, arrays)
    for path in ((), ("data",), ("settings",), ("guarantee",), ("catalogue",), ("rows",)):
        place = card
        for key in path:
            place = place[key]
        for name in ("raw", CONTROL, LONG):
            yield "a surplus field", put(card, (*path, name), [1, 2, 3]), arrays
        for name in place:
            if name not in ("columns", "sha256"):
                less = {key: value for key, value in place.items() if key != name}
                yield "a missing field", put(card, path, less) if path else less, arrays
    for text in ("newest", LONG, "1.0 <b>", 3, None, True, "1.2\n"):
        yield "a version that is none", put(card, ("versions", "numpy"), text), arrays
    nest: Any = []
    for _ in range(30):
        nest = [nest]
    yield "deep JSON", put(card, ("data", "prepare"), nest), arrays
    for id in ("global-mean", "output", "private-mean", "randomised-response", "nothing"):
        if id != card["mechanism"]:
            yield "another mechanism", put(card, ("mechanism",), id), arrays
    data: tuple[tuple[str, Any], ...] = (("cap", 0), ("cap", 3), ("cap", 10**6), ("cap", -1))
    data += (
        ("users", 0),
        ("users", 2**31),
        ("low", 5.5),
        ("high", -9.0),
        ("low", 0.0),
        ("high", 9.0),
    )
    if card["task"] != "ratings":
        data += (("low", -2.0), ("high", 2.0))
    for name, value in data:
        if value == card["data"][name]:
            continue
        yield f"another {name}", put(card, ("data", name), value), arrays
    if "users" not in untold:
        yield "ten times the users", put(card, ("data", "users"), USERS * 10), arrays
    for step in ("top-items=3", "binarise=mean", "sort", "features=raw", "cap=2", "rescale=0:9"):
        steps = [*card["data"]["prepare"], step]
        yield "another preparation", put(card, ("data", "prepare"), steps), arrays
    for columns in (
        {},
        {"user": LONG},
        {"user": CONTROL},
        {"user": 3},
        {"user": ""},
        {"raw": "who"},
        [["user", "who"]],
        "who",
    ):
        yield "columns that are none", put(card, ("columns",), columns), arrays
    for origin in ("read", "public", "nobody", None):
        yield "another catalogue", put(card, ("catalogue", "origin"), origin), arrays


def of_arrays(card: Card, arrays: Arrays) -> Iterator[Forgery]:
    raw = ratings_for(Task.RATINGS)
    text = np.array(["everybody's ratings"])
    surplus = {"raw": raw.values, "../raw": raw.values, CONTROL: raw.values, "notes": text}
    surplus |= {"columns2": raw.items, "ratings": raw.matrix.toarray()}
    for name, array in surplus.items():
        yield "a surplus array", *changed(card, arrays, name, array)
    for name, array in arrays.items():
        less = {n: line for n, line in card["arrays"].items() if n != name}
        rest = {n: a for n, a in arrays.items() if n != name}
        yield "a missing array", card | {"arrays": less}, rest
        if array.dtype.kind in "fiu":
            content = bytearray(array.tobytes())
            content[-3 % array.itemsize] ^= 1
            bits = np.frombuffer(bytes(content), array.dtype).reshape(array.shape)
            yield "damaged bits", card, arrays | {name: bits}
            yield "another type", *changed(card, arrays, name, array.astype(np.float32))
        if array.dtype.kind == "f":
            yield "no number", *changed(card, arrays, name, np.full_like(array, np.nan))
        if array.ndim:
            yield "another shape", *changed(card, arrays, name, array[None])
            yield "another shape", *changed(card, arrays, name, np.concatenate([array, array]))
        if name in ("items", "left", "right") and array.ndim == 2:
            wide = np.hstack([array, np.ones((len(array), 60))])
            yield "60 columns more", *changed(card, arrays, name, wide)
        if array.dtype.kind == "U":
            long = array.astype("U200")
            yield "a name of another kind", *changed(card, arrays, name, long)
            for id in (CONTROL, str(array[0])):
                other = array.tolist()
                other[1] = id
                yield "a name of another kind", *changed(card, arrays, name, np.array(other))


def with_features(
    card: Card, arrays: Arrays, known: list[list[Any]], columns: NDArray[Any]
) -> tuple[Card, Arrays]:
    """A file that names these item features, as well as it can be made to fit."""
    card, arrays = changed(card, arrays, FEATURES, columns)
    what = "features of each item that the method used, public"
    card = put(card, ("arrays", FEATURES, "what"), what)
    card = put(card, ("data", "features"), known)
    steps = [s for s in card["data"]["prepare"] if not s.startswith("features")]
    try:
        public = PublicFacts(users=USERS, items=ITEMS, low=0, high=1, features=known)  # type: ignore[arg-type]
        steps, _ = canonical(["features", *steps], public, columns)
        digest = features.digest(by_name(public, columns))
    except Exception:  # a forger whose features have no digest invents one
        steps, digest = ["features=raw#0123abcd", *steps], "0123abcd"
    card = put(card, ("data", "prepare"), steps)
    names = ", ".join(f"{name} ({count})" for name, count in known)
    caveats = [
        text
        for text in card["guarantee"]["caveats"]
        if not text.startswith("certified given that these features")
    ]
    caveat = (
        "certified given that these features of the items (and their columns) are public:"
        f" {names}; digest {digest}"
    )
    caveats.insert(max(0, len(caveats) - 2), caveat)
    return put(card, ("guarantee", "caveats"), caveats), arrays


def of_features(card: Card, arrays: Arrays) -> Iterator[Forgery]:
    raw = ratings_for(Task.RATINGS).matrix.toarray()
    sixty = np.hstack([raw.T, raw.T, raw.T])[:, :60]
    forms = [
        ("raw ratings as features", [["raw", 60]], sixty),
        ("raw ratings as features", [[f"f{k}", 1] for k in range(60)], sixty),
        ("raw ratings as features", [["raw", 24]], raw.T),
        ("raw ratings as features", [["raw", 2]], raw.T[:, :2]),
    ]
    if FEATURES not in arrays:
        known, columns = [["genre", 3]], facts()[0].columns
        assert columns is not None
        forms.append(("features that are not used", known, columns))
    else:
        known, columns = card["data"]["features"], arrays[FEATURES]
        (one, width), (other, more) = known
        rolled = np.roll(columns, 1, axis=0)
        forms += [
            ("a feature name of 100,000", [[LONG, width], [other, more]], columns),
            ("a feature name with control characters", [[CONTROL, width], [other, more]], columns),
            ("an empty feature name", [["", width], [other, more]], columns),
            ("a feature name with a comma", [["a,b", width], [other, more]], columns),
            ("one feature name twice", [[one, width], [one, more]], columns),
            ("columns 0 or less", [[one, 0], [other, width + more]], columns),
            ("columns 0 or less", [[one, -1], [other, width + more + 1]], columns),
            ("other counts of columns", [[one, width + 1], [other, more - 1]], columns),
            ("a boolean or text for a count", [[one, True], [other, more]], columns),
            ("a boolean or text for a count", [[one, str(width)], [other, more]], columns),
            ("a fractional whole number", [[one, width + 1e-12], [other, more]], columns),
            ("features of other items", known, rolled),
            ("columns 0 or less", [*known, ["new", 0]], columns),
            ("one feature less", [[one, width]], columns[:, :width]),
            ("one feature more", [*known, ["new", 2]], np.hstack([columns, columns[:, -2:]])),
        ]
        steps = card["data"]["prepare"]
        for text in (
            "features",
            "features=genre,year#01234567",
            "features#01234567",
            f"features={LONG}",
        ):
            step = [text if s.startswith("features") else s for s in steps]
            yield "an invented digest", put(card, ("data", "prepare"), step), arrays
        rest = [s for s in steps if not s.startswith("features")]
        yield "no step for features", put(card, ("data", "prepare"), rest), arrays
        caveats = [c for c in card["guarantee"]["caveats"] if "features of the items" not in c]
        yield "no condition on features", put(card, ("guarantee", "caveats"), caveats), arrays
        bare = {n: a for n, a in arrays.items() if n != FEATURES}
        lines = {n: line for n, line in card["arrays"].items() if n != FEATURES}
        yield "features that are not in the file", card | {"arrays": lines}, bare
    for kind, names, block in forms:
        yield kind, *with_features(card, arrays, names, block)


def forgeries(card: Card, arrays: Arrays) -> Iterator[Forgery]:
    """All of one release."""
    for make_some in (of_numbers, of_fields, of_arrays, of_features):
        yield from make_some(card, arrays)


__all__ = ["BASES", "Forgery", "forgeries", "released"]
