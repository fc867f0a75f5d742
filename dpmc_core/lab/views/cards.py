"""What a guarantee says, as rows of a table and as sentences."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import NamedTuple

from dpmc_core.errors import sentence
from dpmc_core.lab.views.text import Table, columns, many
from dpmc_core.privacy import (
    DELTA,
    RATING,
    ROW_VALUES,
    USER_EMPTIED,
    USER_REPLACED,
    Certified,
    Change,
    Gaussian,
    Guarantee,
    Laplace,
    NormLaplace,
    Notion,
    RandomizedResponse,
    SampledLaplace,
    Trust,
    sensitivity_at,
)
from dpmc_core.privacy.accounting import attacker_certainty
from dpmc_core.ratings import ColumnRoles

_TRUST = {
    Trust.CURATOR: "from whoever sees what is published; the server itself sees raw ratings",
    Trust.LOCAL: "from everyone, the server included",
    Trust.AGGREGATOR: "from the recommender, as long as the third party does not side with it",
    Trust.FEDERATED: "from the server; each party sees the raw ratings of its own users",
}
_NOISE = {
    Laplace: "Laplace",
    SampledLaplace: "Laplace",
    NormLaplace: "norm-Laplace",
    Gaussian: "Gaussian",
    RandomizedResponse: "randomised response",
}


TYPICAL = 20  # ratings of the person whose values together are counted
PER_RATING = "per rating: other value, certified"
PERSON = f"one person's {TYPICAL} ratings, certified"
PER_USER = "per user: empty row, certified"
PER_USER_OTHER = "per user: any other row, certified"
_SLACK = 1 + 1e-9  # rounding in sums of epsilons


class CardRow(NamedTuple):
    """One mechanism in the table of guarantees. Epsilons are math.inf where nothing is proved."""

    mechanism: str
    guarantee: Guarantee
    claimed: float | None
    certified: float  # in the claim's own unit
    per_rating: float
    per_user: float  # the row becomes empty
    per_user_other: float  # the row becomes any other
    why: str  # where a number is infinite, or above the claim
    upheld: bool  # certified in the claim's own unit is at most the claim


class LedgerRow(NamedTuple):
    """One release: what is asked of the data, the noise on it and what it costs."""

    query: str
    noise: str
    scale: str
    answers: str
    times: int
    sensitivity: float  # for the change asked about, in the norm of the noise
    epsilon: float


def card_row(name: str, guarantee: Guarantee) -> CardRow:
    """The row of one mechanism: its claim beside what its releases prove, in three units."""
    own, user = guarantee.certified(), guarantee.certified(USER_EMPTIED)
    claimed = guarantee.claimed.epsilon if guarantee.claimed else None
    why = []
    if not own.finite:
        why.append(own.reason)
    elif claimed is not None and own.epsilon > claimed * _SLACK:
        factor = epsilon_text(own.epsilon / claimed)
        why.append(f"the releases prove only {factor} times the claim")
    elif claimed is not None and own.epsilon * _SLACK < claimed:
        why.append("the releases prove a smaller epsilon than is claimed")
    if own.finite and not user.finite:
        why.append(user.reason)
    return CardRow(
        mechanism=name,
        guarantee=guarantee,
        claimed=claimed,
        certified=own.epsilon,
        per_rating=guarantee.certified(RATING).epsilon,
        per_user=user.epsilon,
        per_user_other=guarantee.certified(USER_REPLACED).epsilon,
        why="; ".join((*why, *guarantee.caveats)),
        upheld=upheld(guarantee),
    )


def ledger(guarantee: Guarantee, change: Change | None = None) -> tuple[LedgerRow, ...]:
    """Every release with its noise and its cost for a change (default: the claim's own).

    Uncovered accesses cost infinity.
    """
    rows = []
    for _, release in guarantee.releases:
        counted = sensitivity_at(release.sensitivity, change or guarantee.change, guarantee.public)
        size = " x ".join("observed" if n is None else f"{n:,}" for n in release.shape)
        scale, size_of = "", getattr(release, "scale", None)
        if isinstance(release, RandomizedResponse):
            flips = 1 - release.matrix.diagonal()
            scale = "flips " + " / ".join(dict.fromkeys(f"{100 * p:.1f} %" for p in flips))
        rows.append(
            LedgerRow(
                query=release.query,
                noise=_NOISE.get(type(release), type(release).__name__),
                scale=scale if size_of is None else f"{size_of:.4g}",
                answers=size or "one number",
                times=release.times,
                sensitivity=counted,
                epsilon=release.loss(counted).epsilon_at(_delta(guarantee)),
            )
        )
    for access in guarantee.unaccounted:
        rows.append(LedgerRow(access.query, "none", access.reason, "", 1, math.inf, math.inf))
    return tuple(rows)


def table(rows: list[CardRow]) -> Table:
    """Claims and proofs as columns of text; a filled mark is certified, a hollow one claimed.

    What a phone has room for comes first.
    """
    names = ("mechanism", "claimed", "certified", PER_USER, "delta", "status")
    counts = ("claimed and certified count", PER_RATING, PERSON, PER_USER_OTHER)
    return columns(
        (*names, *counts, "notion", "trust", "publishes"),
        (
            (
                row.mechanism,
                *map(epsilon_text, (row.claimed, row.certified, row.per_user)),
                delta_text(_delta(card)),
                "● certified" if row.upheld else "○ claimed only",
                _counts(card),
                epsilon_text(row.per_rating),
                epsilon_text(row_of_ratings(card, TYPICAL).epsilon),
                epsilon_text(row.per_user_other),
                *(one.value for one in (card.notion, card.trust, card.publishes)),
            )
            for row in rows
            for card in [row.guarantee]
        ),
    )


def ledger_table(rows: tuple[LedgerRow, ...]) -> Table:
    """The ledger as columns of text."""
    names = ("asked of the data", "noise", "its size", "numbers released", "times")
    return columns(
        (*names, "one change moves it by", "epsilon"),
        (
            (
                *row[:4],
                str(row.times),
                "any amount" if math.isinf(row.sensitivity) else epsilon_text(row.sensitivity),
                epsilon_text(row.epsilon),
            )
            for row in rows
        ),
    )


class Card(NamedTuple):
    """A guarantee for people, wherever it is shown: a sentence, a verdict, and named facts."""

    protects: str
    upheld: bool
    facts: tuple[tuple[str, str], ...]


def card(
    guarantee: Guarantee, *, sampled: bool = False, columns: ColumnRoles | None = None
) -> Card:
    """What is protected, claimed and certified, and what that means for people and attackers.

    sampled: the noise is sampled exactly, and the guarantee counts that. columns: of the file that
    the ratings come from.
    """
    own, claim = guarantee.certified(), guarantee.claimed
    told = "nothing" if claim is None else f"epsilon {budget_text(claim.epsilon, claim.delta)}"
    claimed = f"{told} ({guarantee.source})" if claim else told
    facts = [("claimed", claimed), ("certified", certified(own) + ", as sampled" * sampled)]
    if own.finite:
        facts.append(("one person", person(guarantee)))
        if not guarantee.certified(USER_EMPTIED).finite:
            facts.append(("not protected", "which items somebody rated: no epsilon covers it"))
    facts.append(("attacker", attacker(guarantee)))
    if columns is not None and columns.names:
        facts.append(("users", f"each value of {named(columns)['user']} counts as one person"))
    facts += [("note", caveat) for caveat in guarantee.caveats]
    return Card(protects(guarantee), upheld(guarantee), tuple(facts))


def named(columns: ColumnRoles) -> dict[str, str]:
    """The columns of a file by their role, marked where they are guesses."""
    return {role: name + " (guessed)" * (role in columns.guessed) for role, name in columns.names}


def promise(guarantee: Guarantee) -> str:
    """What a release promises and under which condition, in one sentence."""
    own = guarantee.certified()
    given = [text for text in guarantee.caveats if text.startswith("certified given")]
    what = protects(guarantee).rstrip(".")
    told = f"{certified(own)} ({guarantee.change.relation}): {what[:1].lower()}{what[1:]}"
    return sentence("; ".join([told, *given]))


def certified(proved: Certified) -> str:
    """'epsilon 1 per rating', or 'no bound per user: ...' with the reason."""
    if proved.finite:
        return f"epsilon {budget_text(proved.epsilon, proved.delta)} {proved.change.label}"
    return f"no bound {proved.change.label}: {proved.reason}"


def _delta(guarantee: Guarantee) -> float:
    """Of all that is certified: the claim's."""
    return guarantee.claimed.delta if guarantee.claimed else 0.0


def _counts(guarantee: Guarantee) -> str:
    return f"{guarantee.change.label}: {guarantee.change.relation}"


def table_words(rows: list[CardRow]) -> str:
    """Claims and proofs as text."""
    return "; ".join(
        f"{row.mechanism}: claimed epsilon {epsilon_text(row.claimed)}, certified"
        f" {epsilon_text(row.certified)} {_counts(row.guarantee)}"
        for row in rows
    )


def protects(guarantee: Guarantee) -> str:
    """What is protected and from whom, in one sentence; a claim not upheld is told as a claim."""
    if guarantee.notion is Notion.NONE:
        return "Protects nothing: it reads the raw ratings and adds no noise."
    verb = "Protects" if upheld(guarantee) else "Claims to protect"
    joint = (
        "; each person's own recommendations go only to them"
        if guarantee.notion is Notion.JOINT
        else ""
    )
    return f"{verb} {guarantee.change.protects}, {_TRUST[guarantee.trust]}{joint}."


_ATTACKER = "An attacker who knows everything else and starts from a 50/50 guess"


def attacker(guarantee: Guarantee) -> str:
    """How often the best attacker is right about one protected unit. Of a person two things may be
    asked, whether the data were there and what they were."""
    if not guarantee.certified().finite:
        return "No limit is proved on what an attacker can conclude."
    if not guarantee.change.per_user:
        return f"{_ATTACKER} {_right(guarantee, guarantee.change)}."
    return (
        f"{_ATTACKER} {_right(guarantee, USER_EMPTIED)}, asked whether a person's data were used,"
        f" and {_right(guarantee, USER_REPLACED)}, asked which of two sets of ratings they were."
    )


def _right(guarantee: Guarantee, change: Change) -> str:
    """How often the best attacker is right: against the noise, and by epsilon and delta alone."""
    found = guarantee.certified(change)
    bound = of_hundred(attacker_certainty(found.epsilon, found.delta))
    best = of_hundred(guarantee.attacker(change))
    words = f"is right at most {best} times in 100"
    if best == _SURE:
        return "may be right practically always"
    return words if best == bound else f"{words} (by epsilon and delta alone {bound})"


def of_hundred(share: float, digits: int = 1) -> str:
    """How many times in 100, of a limit: never rounded up to always, which none proves."""
    least = 10.0**-digits
    if 100 * share >= 100 - least / 2:
        return f">{100 - least:.{digits}f}"
    return f"{100 * share:.{digits}f}"


_SURE = of_hundred(1.0)


def hundred(share: float) -> str:
    """A chance as so many of 100; never rounded to all or none of them."""
    rest = 100 * min(share, 1 - share)
    if rest <= 0:
        return f"{100 * share:.0f}"
    digits = min(max(0, math.ceil(-math.log10(rest))), _DIGITS)
    least = 10.0**-digits
    return f"{min(max(100 * share, least), 100 - least):.{digits}f}"


_DIGITS = 6


def person(guarantee: Guarantee) -> str:
    """What is certified for all of one person's ratings together, in the same words everywhere.

    Where a rating is the unit, it grows with each of them: finite for so many ratings, and bounded
    by a cap alone, or by the number of items.
    """
    if guarantee.change.per_user:
        own, other = guarantee.certified(), guarantee.certified(USER_REPLACED)
        if not own.finite:
            return certified(own)
        return (
            f"epsilon {epsilon_text(guarantee.certified(USER_EMPTIED).epsilon)} where a row becomes"
            f" empty, {budget_text(other.epsilon, other.delta)} where it becomes any other row"
        )
    cap, items = guarantee.public.cap, guarantee.public.items
    most = min(cap or items, items)
    ratings = min(TYPICAL, most)
    here = row_of_ratings(guarantee, ratings)
    if not here.finite:
        return certified(here)
    if here.epsilon <= guarantee.certified().epsilon * _SLACK and ratings > 1:
        return "all ratings together: the same, for one may already move all that is published"
    words = f"{many(ratings, 'rating')} together: epsilon {budget_text(here.epsilon, here.delta)}"
    weaker = row_of_ratings(guarantee, ratings, DELTA).epsilon
    if weaker < 0.95 * here.epsilon:
        words += f" (or {budget_text(weaker, DELTA)})"
    end = row_of_ratings(guarantee, most).epsilon
    if end > here.epsilon * _SLACK:
        limit = "up to the cap of" if cap else "without a cap up to"
        words += f"; it grows with each, {limit} {most:,} ratings: epsilon {epsilon_text(end)}"
    return words


def row_of_ratings(guarantee: Guarantee, ratings: int, delta: float | None = None) -> Certified:
    """What the releases prove for all values of one person with so many ratings."""
    return capped(guarantee, ratings).certified(ROW_VALUES, delta)


def capped(guarantee: Guarantee, ratings: int) -> Guarantee:
    """The same for persons with at most so many ratings."""
    public = dataclasses.replace(guarantee.public, cap=ratings)
    return dataclasses.replace(guarantee, public=public)


def budget_text(epsilon: float | None, delta: float = 0.0) -> str:
    """An epsilon for people, with its delta where there is one: '1, delta 1e-6'."""
    finite = epsilon is not None and math.isfinite(epsilon)
    return epsilon_text(epsilon) + (f", delta {delta_text(delta)}" if delta and finite else "")


def delta_text(delta: float) -> str:
    """'1e-6', everywhere."""
    return re.sub(r"e-0*", "e-", f"{delta:g}")


def epsilon_text(epsilon: float | None, *, least: bool = False) -> str:
    """An epsilon for people: three digits, or a sign for none and for no bound.

    Rounded up, against whoever promises it. least: of what must not be overstated, rounded down.
    """
    if epsilon is None:
        return "none"
    if math.isinf(epsilon):
        return "no bound"
    if epsilon <= 0:
        return f"{epsilon:g}"
    unit = 10.0 ** min(0, math.floor(math.log10(epsilon * (1 + 1e-9))) - 2)
    steps = epsilon / unit
    shown = unit * (math.floor(steps + 1e-6) if least else math.ceil(steps - 1e-6))
    return f"{shown:,.0f}" if shown >= 1000 else f"{shown:.3g}"


def upheld(guarantee: Guarantee) -> bool:
    """Whether what is certified, in the claim's own unit, is at most what is claimed."""
    claimed = guarantee.claimed
    return claimed is not None and guarantee.certified().epsilon <= claimed.epsilon * _SLACK
