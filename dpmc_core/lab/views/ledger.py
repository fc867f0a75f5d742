"""The ledger of a study in words, and as columns."""

from __future__ import annotations

from typing import Any

from dpmc_core.errors import capital
from dpmc_core.lab.study.ledger import Kind, Repeats, Study
from dpmc_core.lab.views.cards import budget_text, certified, epsilon_text
from dpmc_core.lab.views.text import Table, columns, many
from dpmc_core.privacy import (
    CELL,
    RATING,
    ROW_VALUES,
    USER_EMPTIED,
    USER_REPLACED,
    Certified,
    Change,
)

KINDS = {
    Kind.FIT: "private fit",
    Kind.AUDIT: "audit",
    Kind.CHOICE: "private choice",
    Kind.RELEASE: "release",
}
UNITS = {  # heads of narrow columns
    RATING: "per rating",
    ROW_VALUES: "row of values",
    CELL: "per cell",
    USER_EMPTIED: "user: empty",
    USER_REPLACED: "user: other",
}
NOTES = (
    "Fits for your eyes are not spent: the sum says what it would cost to publish everything that"
    " they found. Runs of a sweep are composed one by one; the same data, settings and seed give"
    " the same output again, which counts once.",
    "Offline tests read raw ratings: no epsilon covers them, and they are not for publication.",
    "The data are known by their content: an edited file, or another reading of it, is another"
    " data set with a ledger of its own.",
)


def summary(study: Study) -> str:
    """'42 private fits for your eyes; nothing released.'"""
    looked = [kind for kind in KINDS if kind is not Kind.RELEASE]
    words = [many(study.count(kind), KINDS[kind]) for kind in looked if study.count(kind)]
    eyes = " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
    released = study.count(Kind.RELEASE)
    found = f"{eyes or 'no private fit'} for your eyes; "
    found += many(released, "release") if released else "nothing released"
    if study.without_privacy:
        clear = many(study.without_privacy, "run")
        found += f"; {clear} without privacy, in no epsilon"
    return f"{capital(found)}."


def price(study: Study) -> str:
    """What it would cost to publish everything, for the widest unit that has a bound."""
    if not study.count():
        return ""
    asked = [study.published(change) for change in (USER_EMPTIED, CELL, RATING)]
    best = next((one for one in asked if one.finite), asked[0])
    return f"All published: {budget(best)}."


def released(study: Study, change: Change) -> str:
    """What all releases so far come to, for a release that is one more of them."""
    count, all_of = study.count(Kind.RELEASE), budget(study.released(change))
    if count == 1:
        return f"The first release of these ratings from this machine: {all_of}."
    return f"{count:,} releases of these ratings from this machine, together: {all_of}."


def budget(found: Certified) -> str:
    """'epsilon 2.15, delta 1e-6 per user', or that there is no bound."""
    if not found.finite:
        return f"no bound {found.change.label}"
    return certified(found)


def table(study: Study) -> Table:
    """Both sums for every unit; what a phone has room for comes first."""
    some = study.count(Kind.RELEASE)
    return columns(
        ("for", "all published", "released", "what an epsilon counts"),
        (
            (
                name,
                epsilon_text(study.published(change).epsilon),
                epsilon_text(study.released(change).epsilon) if some else "nothing",
                f"{change.label}: {change.relation}",
            )
            for change, name in UNITS.items()
        ),
    )


def parts(study: Study) -> Table:
    """What the sum of everything is made of, by kind and method."""
    return columns(
        ("what", "method", "runs", "epsilon each", *UNITS.values()),
        (
            (
                KINDS[part.kind],
                part.mechanism,
                f"{part.runs:,}",
                " to ".join(f"{end:g}" for end in dict.fromkeys(part.epsilons)),
                *(epsilon_text(part.composed[change].epsilon) for change in UNITS),
            )
            for part in study.parts()
        ),
    )


def reasons(study: Study) -> list[str]:
    """Why a unit has no bound, one sentence for all units with the same reason."""
    found: dict[str, list[str]] = {}
    for change in Change:
        one = study.published(change)
        if not one.finite:
            why = one.reason.removesuffix(f", so it has no bound {change.label}")
            labels = found.setdefault(why, [])
            labels += [change.label] * (change.label not in labels)
    return [f"No bound {' and '.join(labels)}: {why}." for why, labels in found.items()]


def repeated(found: Repeats, times: str, target: Certified) -> str:
    """What repeated releases add up to, and what each may spend."""
    return (
        f"{capital(times)} for a year: epsilon {budget_text(found.total, target.delta)}"
        f" {target.change.label}; to stay at {epsilon_text(target.epsilon)}, use"
        f" {epsilon_text(found.each, least=True)} each."
    )


def as_dict(study: Study) -> dict[str, Any]:
    """The ledger as plain JSON values; null where there is no bound."""
    return {
        "delta": study.delta,
        "private": {kind.value: study.count(kind) for kind in Kind},
        "without_privacy": study.without_privacy,
        "units": [
            {
                "unit": change.unit,
                "neighbours": change.neighbours,
                "published": plain(study.published(change)),
                "released": plain(study.released(change)),
                "reason": study.published(change).reason,
            }
            for change in Change
        ],
        "parts": [
            {
                "kind": part.kind.value,
                "mechanism": part.mechanism,
                "runs": part.runs,
                "epsilon_each": list(part.epsilons),
                "composed": {change.value: plain(found) for change, found in part.composed.items()},
            }
            for part in study.parts()
        ],
        "said": [summary(study), *reasons(study), *NOTES],
    }


def plain(found: Certified) -> float | None:
    return found.epsilon if found.finite else None
