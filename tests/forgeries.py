"""Released files that somebody changed on purpose, with every digest made anew: none may pass."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.model import Task
from dpmc_core.preparation import UseItemFeatures, parse_step
from dpmc_core.problem import prepare_all_ratings
from dpmc_core.ratings import Catalogue, ColumnRoles, Origin, PublicFacts, Ratings
from dpmc_data import features
from dpmc_lab.study.release import (
    FEATURES_ARRAY,
    canonicalise_steps,
    export_release,
    split_features,
)
from tests.release_helpers import ITEMS, USERS, create_mechanism, make_ratings

GuaranteeRecord = dict[str, Any]
Arrays = dict[str, NDArray[Any]]
Forgery = tuple[str, GuaranteeRecord, Arrays]  # its kind, and the file

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


def make_features() -> tuple[features.ItemFeature, ...]:
    """A number and categories of every item."""
    genres = [("drama", "comedy", "drama|crime", "crime")[k % 4] for k in range(ITEMS)]
    years = [str(1980 + (7 * k) % 23) for k in range(ITEMS)]
    return features.encode_column("genre", genres), features.encode_column("year", years)


def make_base_ratings(task: Task, described: bool, listed: bool) -> Ratings:
    names = {"item_ids": [f"i{k}" for k in range(ITEMS)], "catalogue": Catalogue(Origin.LISTED)}
    if listed:
        names |= {"user_ids": [f"u{k}" for k in range(USERS)]}
        names |= {"columns": ColumnRoles((("user", "who"), ("item", "what")))}
    ratings = make_ratings(task, **(names if listed else {}))
    return (
        features.attach_features(ratings, make_features(), with_digest=True)
        if described
        else ratings
    )


def make_release(base: tuple[Any, ...]) -> Any:
    """A release of a base as it should be."""
    id, settings, steps, described, listed = base
    mechanism = create_mechanism(id, settings)
    ratings = make_base_ratings(mechanism.task, described, listed)
    parsed = [UseItemFeatures()] * described + [parse_step(text) for text in steps]
    prepared, texts = prepare_all_ratings(ratings, mechanism.task, parsed)
    return export_release(mechanism, prepared, texts)


def describe_array(array: NDArray[Any]) -> GuaranteeRecord:
    return {
        "shape": list(array.shape),
        "type": str(array.dtype),
        "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest(),
    }


def list_leaves(value: Any, *path: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """All plain values of nested lists and dictionaries, each with the path to it."""
    for key, element in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(element, dict | list):
            yield from list_leaves(element, *path, key)
        else:
            yield (*path, key), element


def replace_at_path(
    guarantee: GuaranteeRecord, path: tuple[Any, ...], value: Any
) -> GuaranteeRecord:
    """A copy of the card with another value at a path."""
    guarantee = copy.deepcopy(guarantee)
    node = guarantee
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return guarantee


def replace_array(
    guarantee: GuaranteeRecord, arrays: Arrays, name: str, array: NDArray[Any]
) -> tuple[GuaranteeRecord, Arrays]:
    """The file with another array, whose line on the card fits."""
    line = guarantee["arrays"].get(name, {"what": "for the own predictions"}) | describe_array(
        array
    )
    return replace_at_path(guarantee, ("arrays", name), line), arrays | {name: array}


def _list_unshown(guarantee: GuaranteeRecord, arrays: Arrays) -> set[str]:
    """Which numbers of users and items nothing in the file shows: `unnoticed` says so."""
    if guarantee["guarantee"]["unit"] == "value" and "user_ids" not in arrays:
        return {"users", "items"}  # which ratings exist is public
    return set() if {"users", "left", "matrix"} & set(arrays) else {"users"}


def forge_numbers(guarantee: GuaranteeRecord, arrays: Arrays) -> Iterator[Forgery]:
    def change(kind: str, path: tuple[Any, ...], value: Any) -> Forgery:
        return kind, replace_at_path(guarantee, path, value), arrays

    unshown = _list_unshown(guarantee, arrays)
    rated_public = guarantee["guarantee"]["unit"] == "value"
    # These say how noise became a model.
    unchecked = {*guarantee["settings"]} - {"epsilon", "delta"}
    for path, value in list_leaves(guarantee):
        if path[0] in ("sha256", "versions", "columns") or path[-1] == "sha256":
            continue
        # Of a completed matrix alone the number of ratings shows nowhere.
        hidden = path[-1] == "coordinates" and "symbols" not in arrays
        free = (path[0] == "data" and path[-1] in unshown) or (hidden and rated_public)
        if type(value) is int:
            yield change("a whole number with a point", path, float(value))
            yield change("a fractional whole number", path, value * (1 + 1e-12) + 1e-12)
            yield change("a boolean for a number", path, bool(value))
            if not free and path[-1] not in ("revision", *unchecked):
                yield change("another whole number", path, value + 1)
        elif type(value) is float:
            yield change("a number as text", path, str(value))
            yield change("a boolean for a number", path, bool(value))
            if path[:2] not in (("data", "low"), ("data", "high")) and path[-1] not in unchecked:
                yield change("another number", path, value * 1.01 + 1e-9)
        elif isinstance(value, str):
            yield change("a text with more", path, f"{value} raw")
        elif isinstance(value, bool):
            yield change("a number for a boolean", path, int(value))


def forge_fields(guarantee: GuaranteeRecord, arrays: Arrays) -> Iterator[Forgery]:
    def change(kind: str, value: Any, *path: str) -> Forgery:
        return kind, replace_at_path(guarantee, path, value), arrays

    unshown = _list_unshown(guarantee, arrays)
    for path in ((), ("data",), ("settings",), ("guarantee",), ("catalogue",), ("rows",)):
        node = guarantee
        for key in path:
            node = node[key]
        for name in ("raw", CONTROL, LONG):
            yield change("a surplus field", [1, 2, 3], *path, name)
        for name in node:
            if name not in ("columns", "date", "sha256"):  # a card of before has no date
                reduced = {key: value for key, value in node.items() if key != name}
                record = replace_at_path(guarantee, path, reduced) if path else reduced
                yield "a missing field", record, arrays
    for text in ("newest", LONG, "1.0 <b>", 3, None, True, "1.2\n"):
        yield change("a version that is none", text, "versions", "numpy")
    nest: Any = []
    for _ in range(30):
        nest = [nest]
    yield change("deep JSON", nest, "data", "prepare")
    for id in ("global-mean", "output", "private-mean", "randomised-response", "nothing"):
        if id != guarantee["mechanism"]:
            yield change("another mechanism", id, "mechanism")
    data: list[tuple[str, Any]] = [("cap", cap) for cap in (0, 3, 10**6, -1)]
    data += [("users", 0), ("users", 2**31), ("low", 5.5), ("high", -9.0), ("low", 0.0)]
    data += [("high", 9.0)]
    if guarantee["task"] != "ratings":
        data += [("low", -2.0), ("high", 2.0)]
    for name, value in data:
        if value != guarantee["data"][name]:
            yield change(f"another {name}", value, "data", name)
    if "users" not in unshown:
        yield change("ten times the users", USERS * 10, "data", "users")
    for step in ("top-items=3", "binarise=mean", "sort", "features=raw", "cap=2", "rescale=0:9"):
        steps = [*guarantee["data"]["prepare"], step]
        yield change("another preparation", steps, "data", "prepare")
    columns = [{}, *({"user": text} for text in (LONG, CONTROL, 3, "")), {"raw": "who"}]
    for value in (*columns, [["user", "who"]], "who"):
        yield change("columns that are none", value, "columns")
    for origin in ("read", "public", "nobody", None):
        yield change("another catalogue", origin, "catalogue", "origin")


def forge_arrays(guarantee: GuaranteeRecord, arrays: Arrays) -> Iterator[Forgery]:
    raw = make_ratings(Task.RATINGS)
    text = np.array(["everybody's ratings"])
    surplus = {"raw": raw.values, "../raw": raw.values, CONTROL: raw.values, "notes": text}
    surplus |= {"columns2": raw.items, "ratings": raw.matrix.toarray()}
    for name, array in surplus.items():
        yield "a surplus array", *replace_array(guarantee, arrays, name, array)
    for name, array in arrays.items():
        reduced = {n: line for n, line in guarantee["arrays"].items() if n != name}
        remainder = {n: a for n, a in arrays.items() if n != name}
        yield "a missing array", guarantee | {"arrays": reduced}, remainder
        if array.dtype.kind in "fiu":
            content = bytearray(array.tobytes())
            content[-3 % array.itemsize] ^= 1
            bits = np.frombuffer(bytes(content), array.dtype).reshape(array.shape)
            yield "damaged bits", guarantee, arrays | {name: bits}
            yield "another type", *replace_array(guarantee, arrays, name, array.astype(np.float32))
        if array.dtype.kind == "f":
            yield "no number", *replace_array(guarantee, arrays, name, np.full_like(array, np.nan))
        if array.ndim:
            for other in (array[None], np.concatenate([array, array])):
                yield "another shape", *replace_array(guarantee, arrays, name, other)
        if name in ("items", "left", "right") and array.ndim == 2:
            wide = np.hstack([array, np.ones((len(array), 60))])
            yield "60 columns more", *replace_array(guarantee, arrays, name, wide)
        if array.dtype.kind == "U":
            long = array.astype("U200")
            yield "a name of another kind", *replace_array(guarantee, arrays, name, long)
            for id in (CONTROL, str(array[0])):
                other = np.array([str(array[0]), id, *array[2:].tolist()])
                yield "a name of another kind", *replace_array(guarantee, arrays, name, other)


def add_features(
    guarantee: GuaranteeRecord,
    arrays: Arrays,
    item_features: list[list[Any]],
    columns: NDArray[Any],
) -> tuple[GuaranteeRecord, Arrays]:
    """A file that names these item features, as well as it can be made to fit."""
    guarantee, arrays = replace_array(guarantee, arrays, FEATURES_ARRAY, columns)
    description = "features of each item that the method used, public"
    guarantee = replace_at_path(guarantee, ("arrays", FEATURES_ARRAY, "what"), description)
    guarantee = replace_at_path(guarantee, ("data", "features"), item_features)
    steps = [s for s in guarantee["data"]["prepare"] if not s.startswith("features")]
    try:
        public = PublicFacts(users=USERS, items=ITEMS, low=0, high=1, features=item_features)  # type: ignore[arg-type]
        steps, _ = canonicalise_steps(["features", *steps], public, columns)
        digest = features.hash_features(split_features(public, columns))
    except Exception:  # a forger whose features have no digest invents one
        steps, digest = ["features=raw#0123abcd", *steps], "0123abcd"
    guarantee = replace_at_path(guarantee, ("data", "prepare"), steps)
    names = ", ".join(f"{name} ({count})" for name, count in item_features)
    condition = "certified given that these features of the items (and their columns) are public:"
    caveats = [c for c in guarantee["guarantee"]["caveats"] if not c.startswith(condition)]
    caveats.insert(max(0, len(caveats) - 2), f"{condition} {names}; digest {digest}")
    return replace_at_path(guarantee, ("guarantee", "caveats"), caveats), arrays


def forge_features(guarantee: GuaranteeRecord, arrays: Arrays) -> Iterator[Forgery]:
    raw = make_ratings(Task.RATINGS).matrix.toarray()
    sixty = np.hstack([raw.T, raw.T, raw.T])[:, :60]
    forms = [
        ("raw ratings as features", [["raw", 60]], sixty),
        ("raw ratings as features", [[f"f{k}", 1] for k in range(60)], sixty),
        ("raw ratings as features", [["raw", 24]], raw.T),
        ("raw ratings as features", [["raw", 2]], raw.T[:, :2]),
    ]
    if FEATURES_ARRAY not in arrays:
        item_features, columns = [["genre", 3]], make_features()[0].columns
        assert columns is not None
        forms.append(("features that are not used", item_features, columns))
    else:
        item_features, columns = guarantee["data"]["features"], arrays[FEATURES_ARRAY]
        (first_name, width), (second_name, second_width) = item_features
        rolled = np.roll(columns, 1, axis=0)
        forms += [
            (kind, [[name, count], [other_name, other_count]], columns)
            for kind, name, count, other_name, other_count in (
                ("a feature name of 100,000", LONG, width, second_name, second_width),
                ("control characters in a feature name", CONTROL, width, second_name, second_width),
                ("an empty feature name", "", width, second_name, second_width),
                ("a feature name with a comma", "a,b", width, second_name, second_width),
                ("one feature name twice", first_name, width, first_name, second_width),
                ("columns 0 or less", first_name, 0, second_name, width + second_width),
                ("columns 0 or less", first_name, -1, second_name, width + second_width + 1),
                ("other counts of columns", first_name, width + 1, second_name, second_width - 1),
                ("a boolean or text for a count", first_name, True, second_name, second_width),
                (
                    "a boolean or text for a count",
                    first_name,
                    f"{width}",
                    second_name,
                    second_width,
                ),
                ("a fractional count", first_name, width + 1e-12, second_name, second_width),
            )
        ]
        more = np.hstack([columns, columns[:, -2:]])
        forms += [
            ("features of other items", item_features, rolled),
            ("columns 0 or less", [*item_features, ["new", 0]], columns),
            ("one feature less", [[first_name, width]], columns[:, :width]),
            ("one feature more", [*item_features, ["new", 2]], more),
        ]
        steps, at = guarantee["data"]["prepare"], ("data", "prepare")
        invented = ("features=genre,year#01234567", "features#01234567", f"features={LONG}")
        for text in ("features", *invented):
            step = [text if s.startswith("features") else s for s in steps]
            yield "an invented digest", replace_at_path(guarantee, at, step), arrays
        remainder = [s for s in steps if not s.startswith("features")]
        yield "no step for features", replace_at_path(guarantee, at, remainder), arrays
        caveats = [c for c in guarantee["guarantee"]["caveats"] if "features of the items" not in c]
        at = ("guarantee", "caveats")
        yield "no condition on features", replace_at_path(guarantee, at, caveats), arrays
        without_features = {n: a for n, a in arrays.items() if n != FEATURES_ARRAY}
        lines = {n: line for n, line in guarantee["arrays"].items() if n != FEATURES_ARRAY}
        yield "features that are not in the file", guarantee | {"arrays": lines}, without_features
    for kind, names, block in forms:
        yield kind, *add_features(guarantee, arrays, names, block)


def forge_all(guarantee: GuaranteeRecord, arrays: Arrays) -> Iterator[Forgery]:
    """All of one release."""
    for make_some in (forge_numbers, forge_fields, forge_arrays, forge_features):
        yield from make_some(guarantee, arrays)


__all__ = ["BASES", "Forgery", "forge_all", "make_release"]
