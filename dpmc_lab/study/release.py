"""Release a model: fit it with exact noise and write only what its guarantee publishes.

`export_release` fits a mechanism with a `SecureSource`. It returns the published arrays with their
card, which certifies them including the rounding of the exact samplers, or it refuses what no proof
covers. Whatever the card does not count is left out of the result: user factors where the card
keeps them with the users, and measures, times or counts of the raw ratings. The card follows from
the mechanism, public facts, preparation, catalogue and arrays alone, so `verify` can compute it
again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from dpmc_core import registry
from dpmc_core.arrays import Floats, JsonObject
from dpmc_core.errors import (
    CannotRelease,
    DpmcError,
    InvalidSetting,
    check_number,
    format_value,
)
from dpmc_core.experiment import serialise_settings
from dpmc_core.mechanisms.per_user import predict_own_ratings
from dpmc_core.mechanisms.user_ranking import score_own_items
from dpmc_core.model import ArraySpec, Constant, Dense, Mechanism, Model, OwnSide, Step, Task
from dpmc_core.preparation import (
    CapPerUser,
    UseItemFeatures,
    describe_features,
    parse_step,
    preserves_neighbours,
)
from dpmc_core.privacy import (
    Additive,
    Certified,
    Gaussian,
    Guarantee,
    Laplace,
    Loss,
    Notion,
    Publication,
    Publishes,
    RandomizedResponse,
    Release,
    SampledLaplace,
    SymbolChannel,
    Trust,
    exact_noise,
    record_publications,
    sensitivity_at,
)
from dpmc_core.problem import prepare_public_facts
from dpmc_core.ratings import Catalogue, Origin, PublicFacts, Ratings
from dpmc_data import archives
from dpmc_data.features import CATEGORIES, hash_features, is_encoded
from dpmc_data.paths import check_new_file, get_version, write_atomically

# Releases that have an exact sampler. Compare by exact type, since another kind of noise may be a
# subclass.
ADDITIVE = (Laplace, Gaussian, SampledLaplace)
CHANNELS = (RandomizedResponse, SymbolChannel)

MAX_DRAWS = 100_000_000  # draws of exact noise
SECONDS_PER_DRAW = 15e-6  # roughly
_MAX_CHANNEL_CELLS = 10_000_000_000  # cells, at 8 random bytes each

LIMITS = (
    "not covered: the rounding of floating point inside a query, before its noise, and how long"
    " the computation takes",
    "every release of the same ratings spends its budget again: this card counts one",
)

_FLAVOR_NAMES = {
    Notion.PURE: "pure differential privacy",
    Notion.APPROX: "approximate differential privacy",
    Notion.JOINT: "joint differential privacy, approximate",
}
_MODEL_NAMES = {
    Trust.CURATOR: "central: a trusted server holds the ratings",
    Trust.LOCAL: "local: each user randomises first",
    Trust.AGGREGATOR: "distributed: an untrusted recommender, a third party that does not collude",
    Trust.FEDERATED: "distributed: each party is trusted with its own users alone",
}

_CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
PACKAGES = ("opendp", "numpy", "scipy")  # their versions are on the card, besides the program's
_MAX_NOISE_BITS = 39  # low bits of an answer that exact noise makes as good as fair coins
NEGLIGIBLE_CHANCE_BITS = 45  # numbers less likely than 2 to minus this are refused
_NO_FACTORS = "with these settings {} has no factors that could be written"
_MAX_FACTORS = 20  # a completed matrix may always have so many, even if it is smaller
_MAX_NAME_LENGTH = 100  # characters of a feature or column
ID_ARRAYS = ("item_ids", "user_ids")
FEATURES_ARRAY = "item_features"
PER_USER_ARRAYS = frozenset({"users", "left", "matrix"})  # arrays that have a place for every user

Arrays = Mapping[str, NDArray[Any]]
ArraySpecs = Mapping[str, ArraySpec]


def count_coordinates(release: Release, observed: int) -> int:
    """Return how many numbers one publication has.

    Args:
        release: the release.
        observed: number of ratings.
    """
    return math.prod(observed if n is None else n for n in release.shape)


def secure_guarantee(guarantee: Guarantee, observed: int) -> Guarantee:
    """Return the guarantee of the same releases when a `SecureSource` samples their noise.

    Each sensitivity is raised to the one at which the release's own formula gives the epsilon, or
    mu, of the exact sampler. Conversion between units stays valid, since k changes of a value are
    rounded no more often than one. Every release must be of a type in ADDITIVE or CHANNELS.

    Args:
        guarantee: the guarantee with ideal noise.
        observed: number of ratings.
    """

    def secure_release(release: Release) -> Release:
        """Return a release with every sensitivity raised by the cost of exact sampling."""
        count = count_coordinates(release, observed)
        table = release.sensitivity
        raised = {
            change: max(s, _raise_sensitivity(release, count, s)) for change, s in table.items()
        }
        return dataclasses.replace(release, sensitivity=raised)

    return dataclasses.replace(guarantee, releases=guarantee.releases.map_releases(secure_release))


def _raise_sensitivity(release: Release, count: int, sensitivity: float) -> float:
    """Return the sensitivity at which the release's own formula gives the exact sampler's loss.

    Args:
        release: a release of a type in ADDITIVE or CHANNELS.
        count: numbers in one publication.
        sensitivity: of the query, in the norm of the noise.
    """
    if type(release) is Laplace:
        return release.scale * exact_noise.discrete_laplace_epsilon(
            release.scale, count, sensitivity
        )
    if type(release) is SampledLaplace:
        # In the notation of `SampledLaplace`, a drawn term is rounded together with the sum. If
        # rounding costs r, its e^{aw} grows at most by the factor e^r, and so does
        # 1 + q (e^{aw} - 1). A whole grid step is more than rounding moves a term; the surplus
        # covers the errors of the floats here.
        step = 2.0 ** exact_noise.grid_exponent(release.scale, count)
        rounding = exact_noise.discrete_laplace_epsilon(release.scale, count, step)
        return sensitivity * (1 + rounding / release.term_epsilon)
    if type(release) is Gaussian:
        return release.scale * exact_noise.discrete_gaussian_mu(release.scale, count, sensitivity)
    assert isinstance(release, CHANNELS)
    single_loss = dataclasses.replace(release, times=1).loss(1.0).epsilon
    return sensitivity * (
        exact_noise.discrete_channel_epsilon(release.matrix) / single_loss if single_loss > 0 else 1
    )


def count_draws(guarantee: Guarantee, observed: int) -> Counter[tuple[str, float, int]]:
    """Return how often a `SecureSource` may draw each kind of noise, as its `draw_counts`.

    Args:
        guarantee: whose releases are drawn.
        observed: number of ratings.

    Returns:
        Counts by (kind, scale, number of coordinates); channels and coins, with scale 0, count
        symbol by symbol.
    """
    draws: Counter[tuple[str, float, int]] = Counter()
    for _, release in guarantee.releases:
        count = count_coordinates(release, observed)
        if isinstance(release, ADDITIVE):
            kind = "laplace" if isinstance(release, Laplace) else "gaussian"
            draws[kind, release.scale, count] += release.times
            if isinstance(release, SampledLaplace):
                draws["coin", 0.0, 1] += release.times * observed
        else:
            draws["channel", 0.0, 1] += release.times * count
    return draws


def _sum_draws(guarantee: Guarantee, observed: int) -> tuple[int, int]:
    """Return the number of drawn Laplace and Gaussian values, and of drawn cells and coins."""
    draws = count_draws(guarantee, observed)
    cells = draws.pop(("channel", 0.0, 1), 0) + draws.pop(("coin", 0.0, 1), 0)
    return sum(count * times for (_, _, count), times in draws.items()), cells


@dataclass(frozen=True, eq=False)
class Export:
    """A release that is ready to be written.

    Attributes:
        arrays: what is published, by name.
        release_card: the card, as plain JSON values.
        guarantee: the guarantee as sampled, its sensitivities raised by the cost of rounding.
    """

    arrays: Arrays
    release_card: Mapping[str, Any]
    guarantee: Guarantee


HALF_LIFE = 26.0  # weeks after which an earlier release weighs half: chosen on generated streams


def compute_decay(weeks: Any, half_life: float = HALF_LIFE) -> Any:
    """Return the factor of an earlier release's weight, because tastes drift.

    Args:
        weeks: age of the release, a number or an array.
        half_life: the age at which it weighs half.
    """
    return 0.5 ** (weeks / half_life)


class EarlierFile(NamedTuple):
    """A released file that a later release follows.

    Attributes:
        name: of the file.
        release_card: its card.
        arrays: its arrays.
        mechanism: its mechanism; None where this version computes another revision of it.
        public: its public facts, if there is a mechanism.
    """

    name: str
    release_card: Mapping[str, Any]
    arrays: Arrays
    mechanism: Mechanism | None
    public: PublicFacts | None


@dataclass(frozen=True, eq=False)
class Sequel:
    """Which releases a release follows, and what all of them together may spend.

    It holds what was published and nothing else, so it costs no privacy to learn from.

    Attributes:
        earlier: earlier releases of ratings of the same people.
        half_life: weeks after which an earlier release weighs half, because tastes drift.
        budget: the largest epsilon of all releases together; None: no limit.
    """

    earlier: Sequence[EarlierFile] = ()
    half_life: float = HALF_LIFE
    budget: float | None = None

    def list_spent(self, guarantee: Guarantee, averaged: Collection[str]) -> list[JsonObject]:
        """Return what each earlier release spent, also those that they follow themselves.

        Args:
            guarantee: of the later release.
            averaged: the digests of those with which it averages its statistics.

        Raises:
            CannotRelease: a file protects something else, so that nothing adds up; or the budget is
                exceeded.
        """
        spent: dict[str, JsonObject] = {}
        unit = guarantee.change.unit, guarantee.change.neighbours
        for file in self.earlier:
            card = file.release_card
            claim = card["guarantee"]
            if (claim["unit"], claim["neighbours"]) != unit:
                raise CannotRelease(
                    f"{file.name} protects another privacy unit ({claim['unit']}:"
                    f" {claim['neighbours']}), so no sum {guarantee.change.label} exists"
                )
            for entry in _list_followed(card):
                digest = entry["sha256"]
                spent.setdefault(digest, entry | {"averaged": digest in averaged})
            lines, digest = card["releases"], card["sha256"]
            spent[digest] = {
                "sha256": digest,
                "date": card.get("date"),
                "mu": math.hypot(*(line.get("mu", 0.0) for line in lines)),
                "epsilon": math.fsum(line.get("epsilon", 0.0) for line in lines),
                "delta": claim["certified"]["delta"],
                "averaged": digest in averaged,
            }
        total = add_up_releases(guarantee, spent.values())
        if self.budget is not None and total.epsilon > self.budget:
            raise CannotRelease(
                f"with {len(spent)} earlier ones this release adds up to {total}, above the limit"
                f" of {self.budget:g} (--budget): no noise was drawn and no file written; lower"
                " --epsilon, or raise --budget"
            )
        return [*spent.values()]

    def align(self, mechanism: Mechanism, ratings: Ratings) -> dict[str, Any]:
        """Return the statistics of earlier releases that a mechanism can average, by their digest.

        They are of the same mechanism with the same settings but epsilon and delta, for the same
        range of ratings, and both files name their items.

        Args:
            mechanism: of the later release.
            ratings: its ratings, of which only the public ids and range matter.
        """
        later: Any = mechanism
        aligned: dict[str, Any] = {}
        if ratings.item_ids is None or not ratings.catalogue.has_public_names:
            return aligned
        for _, card, arrays, earlier, public in cast(Any, self.earlier):
            if not hasattr(earlier, "align_earlier") or type(earlier) is not type(later):
                continue
            same_budget = dataclasses.replace(earlier, epsilon=later.epsilon, delta=later.delta)
            newer = ratings.public
            has_same_range = (public.low, public.high) == (newer.low, newer.high)
            if same_budget == later and has_same_range and "item_ids" in arrays:
                row_by_id = {id: row for row, id in enumerate(arrays["item_ids"].tolist())}
                rows = np.array([row_by_id.get(id, -1) for id in ratings.item_ids])
                day = date.fromisoformat(card.get("date", "1970-01-01"))
                decay = compute_decay(max((date.today() - day).days, 0) / 7, self.half_life)
                aligned[card["sha256"]] = earlier.align_earlier(public, arrays, rows, decay)
        return aligned

    def find_unnamed(self, folder: Path, public: PublicFacts) -> list[Path]:
        """Return the releases in a folder for the same range of ratings that are not named.

        Nothing in a file says of which ratings it is: a digest of them would confirm any guess.

        Args:
            folder: where to look.
            public: the public facts of the ratings.
        """
        cards = [file.release_card for file in self.earlier]
        entries = [entry for card in cards for entry in _list_followed(card)]
        named = {card["sha256"] for card in (*cards, *entries)}
        unnamed = []
        for path in sorted(folder.glob("*.npz")):
            with suppress(DpmcError, LookupError, TypeError):
                release_card, _ = read_release(path)
                data = release_card["data"]
                is_alike = (data["low"], data["high"]) == (public.low, public.high)
                if is_alike and release_card["sha256"] not in named:
                    unnamed.append(path)
        return unnamed


def _list_followed(release_card: Mapping[str, Any]) -> Sequence[JsonObject]:
    """Return what a card says of the releases that it follows."""
    followed: Sequence[JsonObject] = release_card.get("after", {}).get("releases", ())
    return followed


def add_up_releases(guarantee: Guarantee, spent: Iterable[Mapping[str, Any]]) -> Certified:
    """Return what a release and earlier ones spend together on a person who is in all of them.

    Gaussian releases are composed by their mu and pure ones by their epsilon, before the sum is
    converted to one epsilon, at the largest delta of all.

    Args:
        guarantee: of the release, as sampled.
        spent: what the earlier ones spent, as `Sequel.list_spent` returns it.
    """
    loss, delta = guarantee.loss(), guarantee.certified().delta
    for entry in spent:
        loss += Loss(entry["epsilon"], entry["mu"])
        delta = max(delta, entry["delta"])
    return Certified(guarantee.change, loss.epsilon_at(delta), delta)


def describe_sum(
    guarantee: Guarantee, spent: Sequence[Mapping[str, Any]], half_life: float
) -> JsonObject:
    """Return the card's entry of the releases that a release follows, each value checked.

    Args:
        guarantee: of the release, as sampled.
        spent: what the earlier ones spent.
        half_life: weeks after which an earlier release weighs half.
    """
    check_number("half_life_weeks", half_life, above=0)
    entries: list[JsonObject] = []
    for entry in spent:
        for name in ("mu", "epsilon", "delta"):
            check_number(name, entry[name], at_least=0)
        digest, day = bytes.fromhex(entry["sha256"]).hex(), entry["date"]
        entries.append(
            {
                "sha256": digest if len(digest) == 64 else "a digest",
                "date": day if day is None else date.fromisoformat(day).isoformat(),
                **{name: float(entry[name]) for name in ("mu", "epsilon", "delta")},
                "averaged": bool(entry["averaged"]),
            }
        )
    total = add_up_releases(guarantee, entries)
    return {
        "releases": entries,
        "half_life_weeks": float(half_life),
        "total": {"epsilon": total.epsilon, "delta": total.delta},
    }


def check_releasable(mechanism: Mechanism, ratings: Ratings, steps: Sequence[str] = ()) -> None:
    """Check that these ratings may be released with this mechanism.

    Args:
        mechanism: the mechanism.
        ratings: the prepared ratings.
        steps: the preparation, as command-line text.

    Raises:
        CannotRelease: they may not; the message states the reason.
    """
    if registry.MECHANISMS.get(mechanism.id) is not type(mechanism):
        raise CannotRelease(f"this {mechanism.id} is no method that readers have: a planted fault?")
    guarantee = mechanism.guarantee(ratings.public)
    check_public_facts(mechanism, ratings.public, steps)
    if fault := find_coding_fault(ratings.public, ratings.features):
        raise CannotRelease(fault)
    if "user" in ratings.columns.guessed:
        raise CannotRelease(
            "the column of users was guessed, and all protection of a person rests on it: name it"
            " with --read user=NAME"
        )
    for _, name in ratings.columns.names:
        if not is_publishable_name(name):
            raise CannotRelease(f"the name of the column {format_value(name)} cannot be published")
    check_steps((*ratings.prepared, *list_reads(steps)), guarantee)
    check_all_covered(mechanism, guarantee)
    for n_draws, max_draws in zip(
        _sum_draws(guarantee, len(ratings)), (MAX_DRAWS, _MAX_CHANNEL_CELLS), strict=True
    ):
        if n_draws > max_draws:
            raise CannotRelease(
                f"{mechanism.id} would draw {n_draws:,} exact noise values here, and at most"
                f" {max_draws:,} are drawn (about half an hour): take fewer items, users or rounds"
            )
    if ratings.catalogue.origin is Origin.READ:
        raise CannotRelease(
            "which users and items there are was read off the ratings, and the shape of a release"
            " would tell it: give what was known before (--catalogue items.txt with --users N or"
            " users.txt), or say that it is public (--catalogue from-data)"
        )


def list_reads(steps: Iterable[str]) -> tuple[str, ...]:
    """Return in words what the preparation steps read off the ratings."""
    return tuple(reads for text in steps if (reads := parse_step(text).dependency))


def is_publishable_name(name: object) -> bool:
    """Return whether a feature or a column of a file may have this name in a card."""
    return isinstance(name, str) and name.isprintable() and 0 < len(name) <= _MAX_NAME_LENGTH


def uses_features(mechanism: Mechanism, public: PublicFacts) -> bool:
    """Return whether the published values depend on item features.

    What users report themselves under local privacy does not.
    """
    is_local = mechanism.guarantee(public).trust is Trust.LOCAL
    return type(mechanism).uses_item_features and not is_local


def check_public_facts(mechanism: Mechanism, public: PublicFacts, steps: Sequence[str]) -> None:
    """Check that the public facts follow from the preparation and that item features are used.

    Args:
        mechanism: the mechanism.
        public: public facts of the prepared ratings.
        steps: the preparation, as command-line text.

    Raises:
        CannotRelease: a public fact differs, or the item features are not usable.
    """
    parsed = [parse_step(text) for text in steps]
    other_steps = [step for step in parsed if not isinstance(step, UseItemFeatures)]
    caps = [step.count for step in parsed if isinstance(step, CapPerUser)]
    transformed = dataclasses.replace(public, cap=min(caps, default=None))
    for step in other_steps:
        transformed = step.transform_facts(transformed)
    # The facts are those of prepared ratings, so preparing them once more must change nothing.
    for expected in (transformed, prepare_public_facts(transformed, mechanism.task)):
        for name, value in expected.as_dict().items():
            if getattr(public, name) != value:
                raise CannotRelease(
                    f"{name} is {getattr(public, name)}, and the preparation makes it {value}"
                )
    names = [name for name, _ in public.features]
    if names and not uses_features(mechanism, public):
        raise CannotRelease(f"{mechanism.id} publishes nothing that uses item features")
    for name, columns in public.features:
        fault = (
            "" if 1 <= columns <= CATEGORIES else f"has {columns} columns, not 1 to {CATEGORIES}"
        )
        if not is_publishable_name(name) or set(name) & set(",#") or name != name.strip():
            fault = (
                f"needs a name of 1 to {_MAX_NAME_LENGTH} printable characters without comma and #"
            )
        if fault:
            raise CannotRelease(f"the item feature {format_value(name)} {fault}")
    if len(set(names)) < len(names):
        raise CannotRelease(f"two item features have one name, among {', '.join(names)}")
    if bool(names) != any(isinstance(step, UseItemFeatures) for step in parsed):
        raise CannotRelease("item features and the preparation step features belong together")


def split_features(public: PublicFacts, columns: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the columns of each item feature by name, from an array with those of all features."""
    ends = np.cumsum([count for _, count in public.features])[:-1]
    blocks = np.split(columns, ends, axis=1) if public.features else []
    return {n: block for (n, _), block in zip(public.features, blocks, strict=True)}


def find_coding_fault(public: PublicFacts, columns: NDArray[Any]) -> str:
    """Return why some columns are not encoded item features; empty where all are.

    Other numbers in their place could reveal anything about the ratings.
    """
    bad = [name for name, block in split_features(public, columns).items() if not is_encoded(block)]
    return f"the item feature {bad[0]} is neither a number nor categories" if bad else ""


def canonicalise_steps(
    steps: Sequence[str], public: PublicFacts, columns: NDArray[Any]
) -> tuple[list[str], str]:
    """Return the preparation in its canonical text, and the condition of the certificate.

    The canonical step names the item features and their digest; the condition states in a sentence
    that these features are public.

    Args:
        steps: the preparation, as command-line text, with item features.
        public: public facts of the prepared ratings.
        columns: array of shape (n_items, n_columns), the columns of all item features.
    """
    features = split_features(public, columns)
    digest = hash_features(features)
    step = str(UseItemFeatures(tuple(features), digest))
    positions = [k for k, text in enumerate(steps) if isinstance(parse_step(text), UseItemFeatures)]
    # Of several such steps the last one is replaced, and the others are dropped.
    canonical_steps = [
        step if k in positions else t for k, t in enumerate(steps) if k not in positions[:-1]
    ]
    feature_list = describe_features([f"{name} ({count})" for name, count in public.features])
    condition = "certified given that these features of the items (and their columns) are public:"
    return canonical_steps, f"{condition} {feature_list}; digest {digest}"


def check_steps(reads: Iterable[str], guarantee: Guarantee) -> None:
    """Check that the guarantee covers everything that the preparation reads off the ratings.

    Args:
        reads: what the steps read, in words, as `list_reads` returns it.
        guarantee: the guarantee.

    Raises:
        CannotRelease: no noise covers a step.
    """
    for step in reads:
        if not preserves_neighbours(step, guarantee.change):
            raise CannotRelease(
                f"no noise covers {step}: prepare with values that are public, for example"
                " binarise=3.5, or leave the step out"
            )


def check_all_covered(mechanism: Mechanism, guarantee: Guarantee) -> None:
    """Check that the guarantee is finite and that all of its noise can be sampled exactly.

    Raises:
        CannotRelease: it is infinite, or there is no exact sampler.
    """
    certified = guarantee.certified()
    if not certified.finite:
        raise CannotRelease(
            f"{mechanism.id} has no finite certified epsilon {certified.change.label}, so it is not"
            f" released as private: {certified.reason}"
        )
    for _, release in guarantee.releases:
        if type(release) not in (*ADDITIVE, *CHANNELS):
            raise CannotRelease(
                f"{mechanism.id} cannot be released: the noise of '{release.query}'"
                f" ({type(release).__name__}) is neither coordinate-wise Laplace or Gaussian nor a"
                " discrete channel, and has no exact sampler here"
            )


def estimate_noise_seconds(mechanism: Mechanism, ratings: Ratings) -> float:
    """Estimate how many seconds the exact Laplace and Gaussian noise takes."""
    return SECONDS_PER_DRAW * _sum_draws(mechanism.guarantee(ratings.public), len(ratings))[0]


def export_release(
    mechanism: Mechanism,
    ratings: Ratings,
    steps: Sequence[str] = (),
    on_step: Callable[[Mechanism, Step], None] | None = None,
    sequel: Sequel = Sequel(),
) -> Export:
    """Fit all prepared ratings with exact noise.

    Args:
        mechanism: the mechanism.
        ratings: the prepared ratings.
        steps: the preparation, as command-line text.
        on_step: called after every step of the fit.
        sequel: the releases that this one follows.

    Raises:
        CannotRelease: see `check_releasable` and `Sequel.list_spent`; also where opendp is not
            installed.
    """
    check_releasable(mechanism, ratings, steps)
    ideal = mechanism.guarantee(ratings.public)
    earlier = sequel.align(mechanism, ratings)
    spent = sequel.list_spent(secure_guarantee(ideal, len(ratings)), earlier)
    source = exact_noise.SecureSource()
    fit: Any = mechanism.fit
    if earlier:
        fit = partial(fit, earlier=[*earlier.values()])
    expected = count_draws(ideal, len(ratings))
    last: Step | None = None
    is_local = ideal.trust is Trust.LOCAL
    with ExitStack() as stack:
        publications = stack.enter_context(record_publications()) if is_local else []
        for step in fit(ratings, source):
            last = step if step.build is not None else last
            if on_step is not None:
                on_step(mechanism, step)
            if is_local and source.draw_counts == expected:
                break  # every report is published, and the model is not needed
    if not source.draw_counts <= expected:
        raise CannotRelease(f"{mechanism.id} drew other noise than its card counts: a fault here")
    arrays = (
        _extract_reports(ratings, publications)
        if is_local
        else _extract_model_arrays(mechanism, ideal, None if last is None else last.model)
    )
    specs, formula = specify_arrays(mechanism, ideal, ratings.catalogue, len(ratings), arrays)
    arrays |= {
        name: np.array(ids, dtype=str)
        for name, ids in zip(ID_ARRAYS, (ratings.item_ids, ratings.user_ids), strict=True)
        if name in specs and ids is not None
    }
    if ratings.public.features:
        arrays[FEATURES_ARRAY] = ratings.features
    arrays = {name: arrays[name] for name in (*specs, *arrays) if name in arrays}
    faults = find_array_faults(specs, arrays)
    if faults:
        raise CannotRelease("; ".join(faults))
    guarantee, release_card = build_release_card(
        mechanism, ratings.public, len(ratings), steps, ratings.catalogue, arrays, specs, formula
    )
    if ratings.columns.names:
        release_card["columns"] = dict(ratings.columns.names)
    release_card["date"] = date.today().isoformat()
    if spent:
        release_card["after"] = describe_sum(guarantee, spent, sequel.half_life)
    release_card["versions"] = {"dpmc-lab": shorten_version(get_version())} | {
        p: shorten_version(metadata.version(p)) for p in PACKAGES
    }
    return Export(arrays, release_card | {"sha256": digest_release_card(release_card)}, guarantee)


def shorten_version(version: str) -> str:
    """Return MAJOR.MINOR.PATCH of a version: the rest could be any text."""
    numbers = re.findall(r"\d+", re.match(r"[\d.]*", version)[0])  # type: ignore[index]
    return ".".join([*numbers, "0", "0", "0"][:3])


def specify_arrays(
    mechanism: Mechanism, ideal: Guarantee, catalogue: Catalogue, observed: int, arrays: Arrays
) -> tuple[ArraySpecs, str]:
    """Specify the arrays of a release by name, and the formula of a user's own predictions.

    Args:
        mechanism: the mechanism.
        ideal: its guarantee with ideal noise.
        catalogue: which users and items there are, and how that is known.
        observed: number of ratings.
        arrays: the arrays of the release; only the columns of item factors matter, and the form of
            a model that does not state its own.

    Raises:
        CannotRelease: there is nothing to write.
    """
    users, items = ideal.public.shape
    named_specs = {
        "item_ids": ArraySpec((items,), "id of each item", "text", optional=True),
        "user_ids": ArraySpec((users,), "id of each user", "text", optional=True),
    }
    if catalogue.origin is Origin.LISTED:  # which has them all
        named_specs = {
            name: dataclasses.replace(spec, optional=False) for name, spec in named_specs.items()
        }
    specs = {}
    formula = ""
    if ideal.trust is Trust.LOCAL:
        specs = _specify_reports(mechanism, ideal, observed)
    elif ideal.publishes is Publishes.ONE_NUMBER:
        specs = {"number": ArraySpec((1,), "the prediction for every cell")}
        formula = "everybody's prediction is the number"
        del named_specs["item_ids"]
    elif ideal.publishes is Publishes.MATRIX:
        if getattr(mechanism, "dense", "matrix" in arrays):
            specs = {"matrix": ArraySpec((users, items), "completed matrix, users x items")}
            formula = "the prediction for user i and item j is matrix_ij"
        else:
            max_rank = max(_MAX_FACTORS, min(users, items))
            note = "users x r: the completed matrix is left right'"
            specs = {
                "left": ArraySpec((users, "r"), note, max_size=max_rank),
                "right": ArraySpec((items, "r"), "items x r", max_size=max_rank),
            }
            formula = "the prediction for user i and item j is left_i . right_j"
    else:
        shape = arrays["items"].shape if "items" in arrays else ()
        columns = shape[-1] if shape else 0
        own_side = _find_own_side(mechanism, ideal.public, columns)
        if columns not in own_side.columns:
            if not own_side.columns:
                raise CannotRelease(_NO_FACTORS.format(mechanism.id))
            # The array has an impossible shape, which `find_array_faults` reports.
            columns = max(own_side.columns)
            own_side = _find_own_side(mechanism, ideal.public, columns)
        note = "a user's scores are the own factors times these; the own ones stay with the user"
        note = note if ideal.notion is Notion.JOINT else ideal.publishes.value
        specs = {"items": ArraySpec((items, columns), f"items x r: {note}"), **own_side.arrays}
        formula = own_side.formula
    if not catalogue.has_public_names:
        named_specs = {}
    elif not (catalogue.users_listed and PER_USER_ARRAYS & set(specs)):
        named_specs.pop("user_ids")
    if ideal.public.features:
        description = "features of each item that the method used, public"
        named_specs[FEATURES_ARRAY] = ArraySpec((items, ideal.public.columns), description)
    return {**specs, **named_specs}, formula


def _find_own_side(mechanism: Mechanism, public: PublicFacts, columns: int) -> OwnSide:
    """Return how users compute their predictions from item factors with this many columns.

    A mechanism without a formula may have any number of columns up to the number of items.
    """
    no_formula = "the method gives no formula for the own predictions"
    build_own_side = getattr(
        mechanism, "own_side", lambda *_: OwnSide(no_formula, range(1, public.items + 1))
    )
    own_side: OwnSide = build_own_side(public, columns)
    return own_side


def _specify_reports(mechanism: Mechanism, ideal: Guarantee, observed: int) -> dict[str, ArraySpec]:
    """Specify the arrays of users' reports, which are all that a local mechanism publishes.

    Args:
        mechanism: the mechanism.
        ideal: its guarantee with ideal noise.
        observed: number of ratings.
    """
    ((_, release),) = ideal.releases
    public = ideal.public
    count: int | str = observed if None in release.shape else "n"
    first, last = 1, 1  # of bits, only those that are 1 are written
    if isinstance(release, SymbolChannel):
        cells = "of each reported cell"
        last = len(release.levels)
        meaning = f"1..{last}: ratings spread evenly over the public range"
    elif None in release.shape:
        cells, first = "of each rating", 0
    else:
        cells = "of each cell that reports another than 0"
    if mechanism.task is Task.BINARY:
        meaning = "1: the sign is reported as +1, 0: as -1"
    elif not isinstance(release, SymbolChannel):
        meaning = "1: reported as present"
    rows = {
        "users": (f"user {cells}, counted from 0", "int32", 0, public.users - 1),
        "items": (f"item {cells}, counted from 0", "int32", 0, public.items - 1),
        "symbols": (f"randomised symbol {cells}; {meaning}", "uint8", first, last),
    }
    return {name: ArraySpec((count,), *row) for name, row in rows.items()}


def find_array_faults(specs: ArraySpecs, arrays: Arrays) -> list[str]:
    """Return how arrays differ from their specification: in their names, or else each by itself."""
    faults = [
        f"arrays.{name} is in the file and does not belong there" for name in arrays.keys() - specs
    ]
    faults += [
        f"arrays.{name} is not in the file"
        for name, spec in specs.items()
        if name not in arrays and not spec.optional
    ]
    if not faults and [*arrays] != [name for name in specs if name in arrays]:
        faults = ["arrays are in another order"]
    sizes: dict[str, int] = {}
    return faults or [
        f"arrays.{name} {fault}"
        for name, spec in specs.items()
        if name in arrays and (fault := _find_array_fault(spec, arrays[name], sizes))
    ]


def _find_array_fault(spec: ArraySpec, array: NDArray[Any], sizes: dict[str, int]) -> str:
    """Return how an array differs from its specification; empty where it does not.

    Args:
        spec: the specification.
        array: the array.
        sizes: sizes of the named dimensions found so far; this call adds to them.
    """
    # The expected shape, with the array's own sizes in named dimensions. Where the array has too
    # few dimensions, the names themselves fill up, and the shapes differ.
    shape = tuple(
        sizes.setdefault(n, min(size, spec.max_size)) if isinstance(n, str) else n
        for n, size in zip(spec.shape, (*array.shape, *spec.shape), strict=False)
    )
    text = spec.type == "text"
    has_type = array.dtype.kind == "U" if text else array.dtype == np.dtype(spec.type)
    if array.shape != shape or not has_type:
        actual, expected = (" x ".join(map(str, s)) or "()" for s in (array.shape, shape))
        return f"must be {spec.type} of shape {expected}, got {array.dtype} of shape {actual}"
    if text:
        ids = array.tolist()
        if np.array(ids).dtype != array.dtype:
            return f"must be {np.array(ids).dtype}, got {array.dtype}"
        if len(set(ids)) < len(ids):
            return "has an id twice"
        bad = next(filter(_CONTROL_CHARACTERS.search, ids), None)
        return "" if bad is None else f"has an id with control characters, {format_value(bad)}"
    if array.dtype.kind == "f":
        return "" if np.isfinite(array).all() else "has values that are not finite"
    high = spec.high if isinstance(spec.high, int) else sizes[spec.high]
    if array.size and (array.min() < spec.low or array.max() > high):
        return f"has values outside {spec.low}..{high}"
    # Where the limit is the size of another array, the last entry must reach it.
    rises = bool((np.diff(array) > 0).all()) and (spec.high == high or int(array[-1]) == high)
    return "" if rises or not spec.increasing else "must rise to its end"


def _extract_reports(
    ratings: Ratings, publications: Sequence[Publication]
) -> dict[str, NDArray[Any]]:
    """Return the arrays of users' reports (see `_specify_reports`) from the only publication.

    Args:
        ratings: the prepared ratings.
        publications: the single publication of a local mechanism.
    """
    (publication,) = publications
    release = publication.release
    published = publication.published
    users: NDArray[Any]
    items: NDArray[Any]
    if isinstance(release, SymbolChannel):
        from scipy.sparse import coo_array

        reported = coo_array(published)
        (users, items), symbols = reported.coords, reported.data
    elif published.ndim == 1:
        users = ratings.users
        items = ratings.items
        symbols = published
    else:
        users, items = np.nonzero(published)
        symbols = published[users, items]
    return {
        "users": users.astype(np.int32),
        "items": items.astype(np.int32),
        "symbols": symbols.astype(np.uint8),
    }


def _extract_model_arrays(
    mechanism: Mechanism, guarantee: Guarantee, model: Model | None
) -> dict[str, NDArray[Any]]:
    """Return the published arrays of a model: user factors only with a completed matrix.

    Args:
        mechanism: the mechanism.
        guarantee: its guarantee, which says what is published.
        model: the fitted model.
    """
    is_matrix = guarantee.publishes is Publishes.MATRIX
    if isinstance(model, Dense) and is_matrix:
        return {"matrix": model.matrix}
    if isinstance(model, Constant):
        return {"number": np.array([model.value])}
    factors = None if model is None else model.factors
    if factors is None:
        raise CannotRelease(_NO_FACTORS.format(mechanism.id))
    if is_matrix:
        return {"left": factors.left, "right": factors.right}
    return {"items": factors.right, **factors.user_arrays}


def find_direct_release(guarantee: Guarantee, name: str) -> Additive | None:
    """Return the release of which the array with this name is the unchanged noisy answer.

    The result is None where the array is computed from noisy answers.
    """
    if guarantee.trust is Trust.LOCAL:
        return None
    if name.startswith("noisy_"):
        answered = dict(guarantee.releases)[name.removeprefix("noisy_")]
        return answered if isinstance(answered, Additive) else None
    if name == "items" and guarantee.publishes is Publishes.ITEM_COUNTS:
        # With item features the scores are logarithms, which lie on no grid.
        return None if guarantee.public.features else guarantee.per_item_release
    matrices = (r for _, r in guarantee.releases if name == "matrix" and r.is_matrix)
    return next((release for release in matrices if isinstance(release, Additive)), None)


def find_noise_fault(release: Additive, array: NDArray[Any]) -> str:
    """Return why numbers are no answers with exact noise; empty where they can be.

    Such noise lies on a grid, and its low bits are fair coins. Counts without noise have none of
    these bits.
    """
    exponent = exact_noise.grid_exponent(release.scale, count_coordinates(release, array.size))
    if not _are_multiples(array, exponent):
        return f"has values off the grid of '{release.query}'"
    n_bits = NEGLIGIBLE_CHANCE_BITS // array.size + 1  # of each number
    if n_bits <= _MAX_NOISE_BITS and _are_multiples(array, exponent + n_bits):
        return f"has only multiples of 2^{exponent + n_bits}, as without noise on '{release.query}'"
    return ""


def _are_multiples(array: NDArray[Any], exponent: int) -> bool:
    """Return whether all numbers are multiples of 2^exponent."""
    with np.errstate(over="ignore"):  # infinite quotients count as multiples
        steps = array / 2.0**exponent
    return bool(np.array_equal(steps, np.rint(steps)))


def build_release_card(
    mechanism: Mechanism,
    public: PublicFacts,
    observed: int,
    steps: Sequence[str],
    catalogue: Catalogue,
    arrays: Arrays,
    specs: ArraySpecs,
    formula: str,
) -> tuple[Guarantee, JsonObject]:
    """Build the guarantee and the card, except for versions and a digest, which the writer adds.

    The card has no seed, no measure and no fingerprint, since each of them would reveal something
    about raw ratings.

    Args:
        mechanism: the mechanism.
        public: public facts of the prepared ratings.
        observed: number of ratings, which matters where it is public.
        steps: the preparation, as command-line text.
        catalogue: which users and items there are, and how that is known.
        arrays: the published arrays, which fit `specs`.
        specs, formula: result of `specify_arrays`.
    """
    ideal = mechanism.guarantee(public)
    covers_existence = ideal.change.covers_existence
    conditions = [catalogue.condition] if covers_existence else []
    if public.features:
        steps, condition = canonicalise_steps(steps, public, arrays[FEATURES_ARRAY])
        conditions.append(condition)
    guarantee = dataclasses.replace(
        secure_guarantee(ideal, observed), caveats=(*ideal.caveats, *conditions, *LIMITS)
    )
    release_card = {
        "mechanism": mechanism.id,
        "revision": mechanism.revision,
        "task": mechanism.task.value,
        "data": public.as_dict() | {"prepare": list(steps)},
        "settings": serialise_settings(mechanism),
        "catalogue": {
            "origin": catalogue.origin.value,
            "source": catalogue.source,
            "users_listed": catalogue.users_listed,
            "condition": catalogue.condition
            if covers_existence
            else "none: which ratings exist is public here, and with it which users and items",
        },
        "guarantee": guarantee.as_dict(),
        "releases": [
            _describe_release(name, release, exact, guarantee, observed)
            for (name, release), (_, exact) in zip(ideal.releases, guarantee.releases, strict=True)
        ],
        "randomness": "operating system; no seed",
        "arrays": {
            name: {
                "shape": list(array.shape),
                "type": str(array.dtype),
                "what": specs[name].description,
                "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest(),
            }
            for name, array in arrays.items()
        },
        "rows": _describe_row_order(catalogue, set(arrays), covers_existence),
        "predictions": formula,
    }
    return guarantee, release_card


def digest_release_card(release_card: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a card without its own entry, which reveals any edit."""
    content = {name: value for name, value in release_card.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _describe_row_order(
    catalogue: Catalogue, arrays: Collection[str], covers_existence: bool
) -> dict[str, str]:
    """Describe the order of the published rows of users and of items.

    Args:
        catalogue: which users and items there are, and how that is known.
        arrays: names of the published arrays.
        covers_existence: whether the guarantee protects which ratings exist.
    """
    sorted_ids = "by id: as numbers where all are whole numbers, else as text"
    order = {
        Origin.DECLARED: "by the index that came with the ratings",
        Origin.PUBLIC: "1, 2, ... of the set",
    }.get(catalogue.origin, f"{sorted_ids}; the ids are not in the file")
    row_orders = {}
    if "number" not in arrays:
        row_orders["items"] = "in the order of item_ids" if "item_ids" in arrays else order
    if PER_USER_ARRAYS & set(arrays):
        if "user_ids" in arrays:
            order = "in the order of user_ids"
        elif catalogue.origin is Origin.LISTED:
            order = f"{sorted_ids}, then the others"
            if covers_existence:
                order = "at places drawn at random, which nobody kept"
        row_orders["users"] = order
    return row_orders


def _describe_release(
    name: str, ideal: Release, exact: Release, guarantee: Guarantee, observed: int
) -> JsonObject:
    """Return the card's entry of a release: its noise as sampled, and what it costs.

    Args:
        name: of the release.
        ideal: the release with ideal noise.
        exact: the same release, its sensitivity raised by the cost of rounding.
        guarantee: the guarantee, whose change the cost refers to.
        observed: number of ratings.
    """
    change = guarantee.change
    public = guarantee.public
    count = count_coordinates(ideal, observed)
    line: JsonObject = {
        "name": name,
        "query": ideal.query,
        "coordinates": count,
        "times": ideal.times,
        "sensitivity": sensitivity_at(ideal.sensitivity, change, public),
    }
    spent = sensitivity_at(exact.sensitivity, change, public)
    if isinstance(ideal, Laplace | Gaussian):
        k = exact_noise.grid_exponent(ideal.scale, count)
        noise_name = "Laplace" if isinstance(ideal, Laplace) else "Gaussian"
        noise: JsonObject = {"noise": f"discrete {noise_name} on multiples of 2^{k}"}
        noise |= {"scale": ideal.scale, "grid": k}
        if isinstance(ideal, SampledLaplace):
            noise["coins"] = "chances 1/weight, rounded down to multiples of 2^-62"
            noise["budget"] = ideal.budget  # of a term: what its weight is solved for
    else:
        assert isinstance(ideal, RandomizedResponse | SymbolChannel)
        noise = {"noise": "channel, chances rounded to multiples of 2^-62"}
        noise["channel"] = [list(row) for row in ideal.channel]
    loss = exact.loss(spent)
    loss_entry = {"mu": loss.mu} if isinstance(ideal, Gaussian) else {"epsilon": loss.epsilon}
    return line | noise | loss_entry


def check_output_path(path: Path) -> None:
    """Check, before a release is computed, that it can be written to a path.

    Raises:
        InvalidSetting: the name of the file does not end in .npz.
        DpmcError: the file cannot be created.
    """
    if path.suffix.lower() != ".npz":
        raise InvalidSetting("--out", "a file named .npz", path.name)
    check_new_file(path)


def write_release(exported: Export, path: Path) -> None:
    """Write the arrays and the card, as JSON text, into an .npz file without pickles.

    The file appears only once it is complete.

    Row k of an array belongs to the k-th entry of `item_ids` or `user_ids`, where these are
    written; otherwise the card states the order of rows. `numpy.load(path)` reads the file, and
    `json.loads(str(file["card"]))` is the card.
    """
    check_output_path(path)
    card_text = np.array(json.dumps(exported.release_card, allow_nan=False))
    with write_atomically(path) as partial_path, partial_path.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, card=card_text, **exported.arrays)


def list_reading_lines(exported: Export, path: Path) -> list[str]:
    """Return Python lines that read a release and recommend items for one user, by item ids.

    There are none where the formula on the card needs more than a few.

    Args:
        exported: the release.
        path: the file that it was written to.
    """
    arrays, data = exported.arrays, exported.release_card["data"]
    scores = _find_lines(exported.release_card)
    if not scores:
        return []
    (first, second), clip = (_list_ids(arrays, data["items"]) * 2)[:2], "scores[k]"
    if exported.release_card["task"] == Task.RATINGS.value:
        clip = f"np.clip(scores[k], {data['low']}, {data['high']})"
    ids = (
        'file["item_ids"].tolist()' if "item_ids" in arrays else f"map(str, range({data['items']}))"
    )
    return [
        "import numpy as np",
        f'file = np.load("{path.name}")',
        f"row = {{id: k for k, id in enumerate({ids})}}",
        f"own = {{{first!r}: {data['high']}, {second!r}: {data['low']}}}"
        "  # your ratings by item id; a new person has none: {}",
        "rated = [row[id] for id in own if id in row]  # the release lacks newer items",
        "x = np.array([own[id] for id in own if id in row])",
        *scores,
        "best = [k for k in np.argsort(-scores) if k not in rated][:10]",
        f"print({{list(row)[k]: float({clip}) for k in best}})",
    ]


@dataclass(frozen=True, eq=False)
class ReleasedModel:
    """A released model: it predicts for everyone from that person's own ratings alone.

    Ratings are given by item id. Items that the release does not have are left out with a warning.
    A new person without ratings gets the predictions that the model has for such a person.

    Attributes:
        release_card: the card.
        item_ids: the ids of the items, or the number of each row from 0 where the file has no ids.
    """

    release_card: Mapping[str, Any]
    item_ids: tuple[str, ...]
    _compute_scores: Callable[[list[int], Floats], Floats]

    def predict(self, ratings: Mapping[str, float]) -> dict[str, float]:
        """Return the prediction for every item: a rating in its range, or the score of a ranking.

        Args:
            ratings: the person's own ratings by item id; a ranking only uses which items are rated.

        Raises:
            InvalidSetting: a rating is outside the public range.
        """
        data = self.release_card["data"]
        for id, value in ratings.items():
            check_number(f"the rating of {id}", value, at_least=data["low"], at_most=data["high"])
        row_by_id = {id: row for row, id in enumerate(self.item_ids)}
        values = {row_by_id[id]: value for id, value in ratings.items() if id in row_by_id}
        if unknown := [format_value(id) for id in ratings if id not in row_by_id]:
            message = f"left out, as this release does not have them: items {', '.join(unknown)}"
            warnings.warn(message, stacklevel=2)
        scores = self._compute_scores([*values], np.array([*values.values()], dtype=float))
        if self.release_card["task"] == Task.RATINGS.value:
            scores = np.clip(scores, data["low"], data["high"])
        return dict(zip(self.item_ids, scores.tolist(), strict=True))

    def recommend(self, ratings: Mapping[str, float], k: int = 10) -> list[str]:
        """Return the ids of the k best items that the person has not rated, the best one first.

        Args:
            ratings: as of `predict`.
            k: how many items.
        """
        scores = self.predict(ratings)
        return [
            id for id in sorted(scores, key=scores.__getitem__, reverse=True) if id not in ratings
        ][:k]


def load(path: str | Path) -> ReleasedModel:
    """Load a released model. This checks no certificate: see `verify_release`.

    Args:
        path: the file that `dpmc release` wrote.

    Raises:
        DpmcError: the file is no release, or its model needs more than a person's own ratings.
    """
    release_card, arrays = read_release(Path(path))
    if not _find_lines(release_card):
        raise DpmcError(
            f"{path} is no model of a few lines:"
            f" {release_card.get('predictions') or 'it holds reports of users, no predictions'}"
        )
    ids = _list_ids(arrays, release_card["data"]["items"])
    is_ranking = release_card["task"] == Task.RANKING.value
    compute = score_own_items if is_ranking else predict_own_ratings
    return ReleasedModel(release_card, ids, partial(compute, arrays))


def read_release(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Return the card and the arrays of a released file.

    Raises:
        DpmcError: the file is not a release.
    """
    if not path.is_file():
        raise DpmcError(f"there is no file {path}")
    message = f"{path} is no file that 'dpmc release' wrote: it has no card to verify"
    try:
        arrays = archives.read_npz(path, no_extra_bytes=True)
        text = arrays.pop("card", np.array(""))
        release_card = archives.parse_json(str(text))
        # Another spelling of the same JSON could hide something from its readers.
        if np.array(json.dumps(release_card)).tobytes() != text.tobytes():
            raise ValueError("it is not written as there")
    except (archives.BadArchive, ValueError) as error:
        raise DpmcError(f"{message} ({getattr(error, 'reason', error)})") from None
    if not isinstance(release_card, dict):
        raise DpmcError(message)
    return release_card, arrays


def _list_ids(arrays: Arrays, n_items: int) -> tuple[str, ...]:
    """Return the ids of the items of a release, or the numbers of its rows from 0."""
    return tuple(arrays["item_ids"].tolist() if "item_ids" in arrays else map(str, range(n_items)))


_POPULARITY = (
    'popularity, F = file["items"][:, 0], file["items"][:, 1:]',
    "scores = popularity + F @ F[rated].sum(axis=0) / (len(rated) + 20)",
)
_REGRESSION = (
    'Z, base = file["items"][:, :-1], file["mean"] + file["items"][:, -1]',
    'gram = Z[rated].T @ Z[rated] + file["ridge"]',
    "scores = base + Z @ np.linalg.solve(gram, Z[rated].T @ (x - base[rated]))",
)
_AVERAGED_REGRESSIONS = (
    'Z, e, mean = file["items"][:, :-1], file["items"][:, -1], file["mean"]',
    "def fit(scales, weight, log_prior):",
    "    kept, y = scales > 0, x - mean - weight * e[rated]",
    '    Z_R, ridge = (Z * scales)[np.ix_(rated, kept)], file["ridge"][np.ix_(kept, kept)]',
    "    gram, moments = Z_R.T @ Z_R + ridge, Z_R.T @ y",
    "    theta = np.linalg.solve(gram, moments)",
    "    volume = np.linalg.slogdet(ridge)[1] - np.linalg.slogdet(gram)[1]",
    '    left = 2 * file["noise"] + y @ y - theta @ moments',
    "    log_weight = log_prior + (volume - (2 + len(y)) * np.log(left)) / 2",
    "    return log_weight, mean + weight * e + (Z * scales)[:, kept] @ theta",
    'logs, scores = zip(*map(fit, file["scales"], file["effect_weights"], file["log_priors"]))',
    "scores = np.average(scores, axis=0, weights=np.exp(np.array(logs) - max(logs)))",
)
_FEATURE_RANKING = (
    'features, V = file["features"], file["items"]',
    "f, d = features[rated].sum(axis=0), 1 + features.shape[1]",
    'own_side = np.concatenate([[1.0], f / (np.linalg.norm(f) or 1.0) - file["centre"]])',
    "facts = V[:, d:] @ V[rated, d:].sum(axis=0) / (len(rated) + 20)",
    "scores = V[:, :d] @ own_side + facts",
)
_LINES_BY_FORMULA: Mapping[str, tuple[str, ...]] = {  # by how the formula begins
    "items is [Z, e], e": _REGRESSION,
    "items is [Z, e] with item features": _AVERAGED_REGRESSIONS,
    "f is the sum": _FEATURE_RANKING,
    "everybody's score of item j": _POPULARITY,
    "the score of item j is items_j": _POPULARITY,
}


def _find_lines(release_card: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the lines that compute `scores` from `file`, `rated` and `x`, if a few are enough."""
    formula = str(release_card.get("predictions"))
    return next((x for start, x in _LINES_BY_FORMULA.items() if formula.startswith(start)), ())


def build_deployment_card(release_card: Mapping[str, Any], guarantee: Guarantee) -> JsonObject:
    """Return a card in the sections of the OpenDP deployments registry (arXiv 2509.13509).

    What a card cannot know, such as who publishes and why, stays null.

    Args:
        release_card: the card.
        guarantee: the guarantee as sampled.
    """
    certified = guarantee.certified()
    change = guarantee.change
    public = guarantee.public
    catalogue = release_card["catalogue"]
    unprotected = ["the numbers of users and items", "the range of the ratings"]
    if not change.covers_existence:
        unprotected.append("which ratings exist, and how many")
    elif catalogue["origin"] == "from-data":
        unprotected.append("which items somebody rated, and how many users rated any")
    if public.features:
        unprotected.append(f"the features of the items: {', '.join(n for n, _ in public.features)}")
    if guarantee.notion is Notion.JOINT:
        unprotected.append("from each user: the own predictions")
    versions = dict(release_card["versions"])
    return {
        "product": dict.fromkeys(("name", "publisher", "date", "intended_use", "region"))
        | {
            "description": f"{guarantee.publishes.value}, by {release_card['mechanism']}"
            f" (revision {release_card['revision']})"
        },
        "dp_flavor": {
            "name": _FLAVOR_NAMES.get(guarantee.notion),
            "input_metric": f"users x items ratings that differ in {change.protects}:"
            f" {change.relation}",
            "bound_on_input_distance": 1,
            "output_measure": "max divergence"
            if certified.delta == 0
            else "smoothed max divergence",
            "bound_on_output_distance": {"epsilon": certified.epsilon, "delta": certified.delta},
            "data_domain": f"ratings {public.low:g}..{public.high:g} of {public.items} items by"
            f" {public.users} users, at most one for each cell"
            + (f" and {public.cap} by a user" if public.cap else ""),
            "unprotected_quantities": unprotected,
        },
        "privacy_loss": {
            "parameters": {"epsilon": certified.epsilon, "delta": certified.delta},
            "unit": f"{change.label}: {change.relation}",
            "descriptions": list(guarantee.caveats),
        },
        "model": {"name": _MODEL_NAMES[guarantee.trust], "actors": None},
        "accounting": {
            "composition": "of the Gaussian releases exactly, of pure ones by their epsilons;"
            f" {sum(line['times'] for line in release_card['releases'])} publications in all. What"
            " other releases of the same ratings spend is not in it",
            "post_processing": "everything in the file but directly published noisy answers:"
            f" {release_card['predictions'] or 'none'}",
            "releases": list(release_card["releases"]),
        },
        "implementation": {
            "library": "dpmc-lab",
            "version": versions.pop("dpmc-lab"),
            "sampler": sorted({line["noise"] for line in release_card["releases"]}),
            "randomness": release_card["randomness"],
            "dependencies": versions,
            "settings": dict(release_card["settings"]),
            "preparation": list(release_card["data"]["prepare"]),
        },
        "resources": {"documentation": None, "code": None, "data": catalogue["source"] or None},
    }
