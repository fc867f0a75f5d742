"""A model that may leave the house: fitted with exact noise, cut to what its card publishes.

`export` fits a mechanism with a `SecureSource` and returns the published arrays with their card,
which certifies them with the rounding of the exact samplers in it. Refused is what no proof covers:
an infinite certified value, noise without an exact sampler, preparation read off the data. What the
card does not count is not in the result either: no user factors where the card keeps them with the
users, no measures, times or counts of the raw ratings.

Which users and items there are decides the shape of what is published, so somebody has to say how
that is known (`Ratings.catalogue`); the card says so, too. The card follows from the mechanism, the
public facts, the catalogue and the arrays alone: `verify` makes it again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.data.transforms import is_free, parse_step
from dpmc_core.errors import CannotRelease, InvalidSetting
from dpmc_core.experiment import settings_dict
from dpmc_core.faults import planted
from dpmc_core.model import Constant, Dense, Mechanism, Model, Step, Task
from dpmc_core.paths import check_new, whole_file
from dpmc_core.privacy import (
    Additive,
    Gaussian,
    Guarantee,
    Laplace,
    Notion,
    Publication,
    Publishes,
    RandomizedResponse,
    Release,
    SampledLaplace,
    SymbolChannel,
    Trust,
    exact_noise,
    sensitivity_at,
    witness,
)
from dpmc_core.ratings import Catalogue, Origin, PublicFacts, Ratings
from dpmc_core.version import version

# What has an exact sampler. By exact type: another kind of noise may well be a subclass.
ADDITIVE = (Laplace, Gaussian, SampledLaplace)
CHANNELS = (RandomizedResponse, SymbolChannel)

LARGEST = 100_000_000  # draws of exact noise
SECONDS = 15e-6  # that one draw takes, roughly
_LARGEST_CHANNEL = 10_000_000_000  # cells, at 8 random bytes each

LIMITS = (
    "not covered: the rounding of floating point inside a query, before its noise, and how long"
    " the computation takes",
    "every release of the same ratings spends its budget again: this card counts one",
)

USER_ROWS = frozenset({"users", "left", "matrix"})  # arrays that have a place for every user

Arrays = Mapping[str, tuple[NDArray[Any], str]]


def coordinates(release: Release, observed: int) -> int:
    """How many numbers one publication has; observed: the number of ratings."""
    return math.prod(observed if n is None else n for n in release.shape)


def secured(guarantee: Guarantee, observed: int) -> Guarantee:
    """The card of the same releases, sampled by a `SecureSource`.

    Each sensitivity is raised to the one at which the release's own formula gives the epsilon, or
    mu, of the exact sampler. Between units they still convert, for k changes of a value are
    rounded no more often than one. Every release must be of a type in ADDITIVE or CHANNELS.
    """
    exact = guarantee.releases.each(lambda release: _secured(release, observed))
    return dataclasses.replace(guarantee, releases=exact)


def _secured(release: Release, observed: int) -> Release:
    count = coordinates(release, observed)
    table = {
        change: max(s, _raised(release, count, s)) for change, s in release.sensitivity.items()
    }
    return dataclasses.replace(release, sensitivity=table)


def _raised(release: Release, count: int, sensitivity: float) -> float:
    if type(release) is Laplace:
        return release.scale * exact_noise.laplace_epsilon(release.scale, count, sensitivity)
    if type(release) is SampledLaplace:
        # A drawn term is rounded with the sum: its e^{aw} grows by e^r at most, and so does
        # 1 + q (e^{aw} - 1). One grid step more than the rounding itself pays for the floats here.
        step = 2.0 ** exact_noise.grid(release.scale, count)
        rounding = exact_noise.laplace_epsilon(release.scale, count, step)
        return sensitivity * (1 + rounding / release.term_epsilon)
    if type(release) is Gaussian:
        return release.scale * exact_noise.gaussian_mu(release.scale, count, sensitivity)
    assert isinstance(release, CHANNELS)
    once = dataclasses.replace(release, times=1).loss(1.0).epsilon
    return (
        sensitivity * exact_noise.channel_epsilon(release.matrix) / once
        if once > 0
        else sensitivity
    )


def counted(guarantee: Guarantee, observed: int) -> Counter[tuple[str, float, int]]:
    """What a `SecureSource` may draw under the card, as its `drawn` counts it."""
    found: Counter[tuple[str, float, int]] = Counter()
    for _, release in guarantee.releases:
        count = coordinates(release, observed)
        if isinstance(release, ADDITIVE):
            kind = "laplace" if isinstance(release, Laplace) else "gaussian"
            found[kind, release.scale, count] += release.times
            if isinstance(release, SampledLaplace):
                found["coin", 0.0, 1] += release.times * observed
        else:
            found["channel", 0.0, 1] += release.times * count
    return found


def _draws(guarantee: Guarantee, observed: int) -> tuple[int, int]:
    """(values of Laplace and Gaussian noise, cells of channels and coins) that are drawn."""
    drawn = counted(guarantee, observed)
    cells = drawn.pop(("channel", 0.0, 1), 0) + drawn.pop(("coin", 0.0, 1), 0)
    return sum(count * times for (_, _, count), times in drawn.items()), cells


@dataclass(frozen=True, eq=False)
class Export:
    """arrays: what is published, each with what it is; card: plain JSON values; guarantee: as
    sampled, its sensitivities raised by what rounding costs."""

    arrays: Arrays
    card: Mapping[str, Any]
    guarantee: Guarantee


def check(mechanism: Mechanism, ratings: Ratings, steps: Sequence[str] = ()) -> None:
    """Raise CannotRelease, with the reason, where these ratings may not be released so.

    steps: the preparation, as command-line text.
    """
    fault = planted(mechanism)
    if fault is not None:
        raise CannotRelease(f"{mechanism.id} has a planted fault ({fault.words}): for audits only")
    guarantee = mechanism.guarantee(ratings.public)
    check_steps((*ratings.prepared, *reads_of(steps)), guarantee)
    check_covered(mechanism, guarantee)
    draws, cells = _draws(guarantee, len(ratings))
    if draws > LARGEST or cells > _LARGEST_CHANNEL:
        many, most = (draws, LARGEST) if draws > LARGEST else (cells, _LARGEST_CHANNEL)
        raise CannotRelease(
            f"{mechanism.id} would draw {many:,} exact noise values here, and at most {most:,} are"
            " drawn (about half an hour): take fewer items, users or rounds"
        )
    if ratings.catalogue.origin is Origin.READ:
        raise CannotRelease(
            "which users and items there are was read off the ratings, and the shape of a release"
            " would tell it: give what was known before (--catalogue items.txt with --users N or"
            " users.txt), or say that it is public (--catalogue from-data)"
        )


def reads_of(steps: Iterable[str]) -> tuple[str, ...]:
    """What the steps read off the ratings, in words."""
    return tuple(reads for text in steps if (reads := parse_step(text).reads))


def check_steps(reads: Iterable[str], guarantee: Guarantee) -> None:
    """Raise CannotRelease unless all that preparation reads, in words, is free for the card."""
    for step in reads:
        if not is_free(step, guarantee.change):
            raise CannotRelease(
                f"no noise covers {step}: prepare with values that are public, for example"
                " binarise=3.5, or leave the step out"
            )


def check_covered(mechanism: Mechanism, guarantee: Guarantee) -> None:
    """Raise CannotRelease unless the card is finite and all of its noise can be sampled exactly."""
    found = guarantee.certified()
    if not found.finite:
        raise CannotRelease(
            f"{mechanism.id} has no finite certified epsilon {found.change.label}, so it is not"
            f" released as private: {found.reason}"
        )
    for _, release in guarantee.releases:
        if type(release) not in (*ADDITIVE, *CHANNELS):
            raise CannotRelease(
                f"{mechanism.id} cannot be released: the noise of '{release.query}'"
                f" ({type(release).__name__}) is neither coordinate-wise Laplace or Gaussian nor a"
                " discrete channel, and has no exact sampler here"
            )


def waiting(mechanism: Mechanism, ratings: Ratings) -> float:
    """Roughly how many seconds the exact Laplace and Gaussian noise takes."""
    return SECONDS * _draws(mechanism.guarantee(ratings.public), len(ratings))[0]


def export(
    mechanism: Mechanism,
    ratings: Ratings,
    steps: Sequence[str] = (),
    on_step: Callable[[Mechanism, Step], None] | None = None,
) -> Export:
    """Fit all prepared ratings with exact noise; steps: the preparation, for the card.

    Raises CannotRelease (see `check`), also where opendp is not installed.
    """
    check(mechanism, ratings, steps)
    source = exact_noise.SecureSource()
    plain = mechanism.guarantee(ratings.public)
    expected, model = counted(plain, len(ratings)), None
    local = plain.trust is Trust.LOCAL
    with ExitStack() as stack:
        outputs = stack.enter_context(witness()) if local else []
        for step in mechanism.fit(ratings, source):
            model = step.model or model
            if on_step is not None:
                on_step(mechanism, step)
            if local and source.drawn == expected:
                break  # all that is published is there
    if not source.drawn <= expected:
        raise CannotRelease(f"{mechanism.id} drew other noise than its card counts: a fault here")
    found = _reports(mechanism, ratings, outputs) if local else _of_model(mechanism, plain, model)
    arrays = {**found, **_names(ratings, found)}
    own = None if model is None or model.factors is None else model.factors.own
    guarantee, card = card_of(
        mechanism,
        ratings.public,
        len(ratings),
        steps,
        ratings.catalogue,
        arrays,
        "" if own is None else own.formula,
    )
    packages = ("opendp", "numpy", "scipy")
    card["versions"] = {"dpmc-lab": version()} | {p: metadata.version(p) for p in packages}
    return Export(arrays, card | {"sha256": digest(card)}, guarantee)


def _names(ratings: Ratings, arrays: Arrays) -> Arrays:
    """The ids of the rows that are published, where the catalogue that holds them is public."""
    found: dict[str, tuple[NDArray[Any], str]] = {}
    catalogue = ratings.catalogue
    if not catalogue.named:
        return found
    if ratings.item_ids is not None and "number" not in arrays:
        found["item_ids"] = (np.array(ratings.item_ids, dtype=str), "id of each item")
    if ratings.user_ids is not None and catalogue.users_listed and USER_ROWS & set(arrays):
        found["user_ids"] = (np.array(ratings.user_ids, dtype=str), "id of each user")
    return found


def _reports(mechanism: Mechanism, ratings: Ratings, outputs: Sequence[Publication]) -> Arrays:
    """What users reported: the local mechanisms publish exactly that."""
    (publication,) = outputs
    release, published = publication.release, publication.published
    users: NDArray[Any]
    items: NDArray[Any]
    if isinstance(release, SymbolChannel):
        from scipy.sparse import coo_array

        reported = coo_array(published)
        users, items = reported.coords
        symbols, cells = reported.data, "of each reported cell"
    elif published.ndim == 1:
        users, items, symbols, cells = ratings.users, ratings.items, published, "of each rating"
    else:
        users, items = np.nonzero(published)
        symbols, cells = published[users, items], "of each cell that reports another than 0"
    if mechanism.task is Task.BINARY:
        meaning = "1: the sign is reported as +1, 0: as -1"
    elif isinstance(release, SymbolChannel):
        meaning = f"1..{len(release.levels)}: ratings spread evenly over the public range"
    else:
        meaning = "1: reported as present"
    return {
        "users": (users.astype(np.int32), f"user {cells}, counted from 0"),
        "items": (items.astype(np.int32), f"item {cells}, counted from 0"),
        "symbols": (symbols.astype(np.uint8), f"randomised symbol {cells}; {meaning}"),
    }


def _of_model(mechanism: Mechanism, guarantee: Guarantee, model: Model | None) -> Arrays:
    """The parts of a model that its card publishes: user factors only with a completed matrix."""
    whole = guarantee.publishes is Publishes.MATRIX
    if isinstance(model, Dense) and whole:
        return {"matrix": (model.matrix, "completed matrix, users x items")}
    if isinstance(model, Constant):
        return {"number": (np.array([model.value]), "the prediction for every cell")}
    factors = None if model is None else model.factors
    if factors is None:
        raise CannotRelease(
            f"with these settings {mechanism.id} has no factors that could be written"
        )
    if whole:
        return {
            "left": (factors.left, "users x r: the completed matrix is left right'"),
            "right": (factors.right, "items x r"),
        }
    words = "a user's scores are the own factors times these; the own ones stay with the user"
    joint = guarantee.notion is Notion.JOINT
    own = {} if factors.own is None else factors.own.arrays
    return {
        "items": (factors.right, f"items x r: {words if joint else guarantee.publishes.value}"),
        **{name: (array, "for the own predictions") for name, array in own.items()},
    }


def direct(guarantee: Guarantee, name: str) -> Additive | None:
    """The release whose noisy answer an array is, unchanged; None where it is computed from it."""
    if guarantee.trust is Trust.LOCAL:
        return None
    if name == "items" and guarantee.publishes is Publishes.ITEM_COUNTS:
        return guarantee.per_item
    shape = guarantee.public.shape if name == "matrix" else None
    found = (release for _, release in guarantee.releases if release.shape == shape)
    return next((release for release in found if isinstance(release, Additive)), None)


def on_grid(release: Additive, array: NDArray[Any]) -> bool:
    """Whether all numbers are multiples of the step on which exact noise is drawn."""
    steps = array / 2.0 ** exact_noise.grid(release.scale, array.size)
    return bool(np.array_equal(steps, np.rint(steps)))


def certificate(
    mechanism: Mechanism, public: PublicFacts, observed: int, catalogue: Catalogue
) -> Guarantee:
    """The card's guarantee: as sampled, with the conditions under which it holds."""
    found = secured(mechanism.guarantee(public), observed)
    known = (catalogue.condition,) if found.change.covers_existence else ()
    return dataclasses.replace(found, caveats=(*found.caveats, *known, *LIMITS))


def card_of(
    mechanism: Mechanism,
    public: PublicFacts,
    observed: int,
    steps: Sequence[str],
    catalogue: Catalogue,
    arrays: Arrays,
    formula: str,
) -> tuple[Guarantee, dict[str, Any]]:
    """The guarantee and the card but for what only its writer knows: versions and a digest.

    No seed, no measure, no fingerprint, which would all tell of raw ratings. observed: the number
    of ratings, which matters where it is public; formula: of a user's own predictions.
    """
    plain = mechanism.guarantee(public)
    guarantee = certificate(mechanism, public, observed, catalogue)
    existence = guarantee.change.covers_existence
    card = {
        "mechanism": mechanism.id,
        "revision": mechanism.revision,
        "task": mechanism.task.value,
        "data": dataclasses.asdict(public) | {"prepare": list(steps)},
        "settings": settings_dict(mechanism),
        "catalogue": {
            "origin": catalogue.origin.value,
            "source": catalogue.source,
            "users_listed": catalogue.users_listed,
            "condition": catalogue.condition
            if existence
            else "none: which ratings exist is public here, and with it which users and items",
        },
        "guarantee": guarantee.as_dict(),
        "releases": [
            _line(name, release, exact, guarantee, observed)
            for (name, release), (_, exact) in zip(plain.releases, guarantee.releases, strict=True)
        ],
        "randomness": "operating system; no seed",
        "arrays": {
            name: {
                "shape": list(array.shape),
                "type": str(array.dtype),
                "what": what,
                "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest(),
            }
            for name, (array, what) in arrays.items()
        },
        "rows": _rows(catalogue, set(arrays), existence),
        "predictions": _predictions(set(arrays), formula),
    }
    return guarantee, card


def digest(card: Mapping[str, Any]) -> str:
    """SHA-256 of a card without its own entry, so that no edit goes unnoticed."""
    rest = {name: value for name, value in card.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _rows(catalogue: Catalogue, arrays: Collection[str], existence: bool) -> dict[str, str]:
    """Whose the rows of users and of items are, for those that are published."""
    sorted_ids = "by id: as numbers where all are whole numbers, else as text"
    order = {
        Origin.DECLARED: "by the index that came with the ratings",
        Origin.PUBLIC: "1, 2, ... of the set",
    }.get(catalogue.origin, f"{sorted_ids}; the ids are not in the file")
    found = {}
    if "number" not in arrays:
        found["items"] = "in the order of item_ids" if "item_ids" in arrays else order
    if USER_ROWS & set(arrays):
        if "user_ids" in arrays:
            order = "in the order of user_ids"
        elif catalogue.origin is Origin.GIVEN:
            order = f"{sorted_ids}, then the others"
            if existence:  # see `on_catalogue`
                order = "at places drawn at random, which nobody kept"
        found["users"] = order
    return found


def _predictions(arrays: Collection[str], formula: str) -> str:
    """How predictions follow from the arrays, in words."""
    if "items" in arrays and not USER_ROWS & set(arrays):
        return formula or "the method gives no formula for the own predictions"
    if "left" in arrays:
        return "the prediction for user i and item j is left_i . right_j"
    if "matrix" in arrays:
        return "the prediction for user i and item j is matrix_ij"
    return "everybody's prediction is the number" if "number" in arrays else ""


def _line(
    name: str, plain: Release, exact: Release, guarantee: Guarantee, observed: int
) -> dict[str, Any]:
    """One release: its noise as sampled, and what it spends in the card's own unit."""
    change, public = guarantee.change, guarantee.public
    count = coordinates(plain, observed)
    line: dict[str, Any] = {
        "name": name,
        "query": plain.query,
        "coordinates": count,
        "times": plain.times,
        "sensitivity": sensitivity_at(plain.sensitivity, change, public),
    }
    spent = sensitivity_at(exact.sensitivity, change, public)
    if isinstance(plain, Laplace | Gaussian):
        k = exact_noise.grid(plain.scale, count)
        law = "Laplace" if isinstance(plain, Laplace) else "Gaussian"
        noise: dict[str, Any] = {"noise": f"discrete {law} on multiples of 2^{k}"}
        noise |= {"scale": plain.scale, "grid": k}
        if isinstance(plain, SampledLaplace):
            noise["coins"] = "chances 1/weight, rounded down to multiples of 2^-62"
            noise["budget"] = plain.budget  # of a term: what its weight is solved for
    else:
        assert isinstance(plain, RandomizedResponse | SymbolChannel)
        noise = {"noise": "channel, chances rounded to multiples of 2^-62"}
        noise["channel"] = [list(row) for row in plain.channel]
    loss = exact.loss(spent)
    worth = {"mu": loss.mu} if isinstance(plain, Gaussian) else {"epsilon": loss.epsilon}
    return line | noise | worth


def check_path(path: Path) -> None:
    """Raise where an export cannot be written there: told before the work."""
    if path.suffix.lower() != ".npz":
        raise InvalidSetting("--out", "a file named .npz", path.name)
    check_new(path)


def write(found: Export, path: Path) -> None:
    """Write an .npz file without pickles: the arrays, and `card` as JSON text; whole or not at all.

    Row k of an array belongs to the k-th of `item_ids` or `user_ids`, where these are written; else
    the card says in which order rows are. Read it with numpy.load(path);
    json.loads(str(file["card"])) is the card.
    """
    check_path(path)
    card = np.array(json.dumps(found.card, allow_nan=False))
    arrays = {name: array for name, (array, _) in found.arrays.items()}
    with whole_file(path) as part, part.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, card=card, **arrays)
