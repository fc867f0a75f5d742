"""What a guarantee says, as rows of a table and as sentences."""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from typing import NamedTuple

from dpmc_core.errors import sentence
from dpmc_core.privacy import (
    CELL,
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
from dpmc_core.ratings import ColumnRoles
from dpmc_lab.curves.text import Table, columns, many

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


class State(enum.Enum):
    """What is known of a claim, with its mark."""

    PROVED = "● proved"
    CLAIMED = "○ claimed only"
    REFUTED = "⊗ refuted"  # an attack found more than is claimed

    @property
    def word(self) -> str:
        return self.value[2:]


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
    state: State
    measured: float | None  # a lower bound at this epsilon


class LedgerRow(NamedTuple):
    """One release: what is asked of the data, the noise on it and what it costs."""

    query: str
    noise: str
    scale: str
    answers: str
    times: int
    sensitivity: float  # for the change asked about, in the norm of the noise
    epsilon: float


def card_row(
    name: str, guarantee: Guarantee, *, refuted: bool = False, measured: float | None = None
) -> CardRow:
    """The row of one mechanism: its claim beside what its releases prove, in three units."""
    proved, proved_per_user = guarantee.certified(), guarantee.certified(USER_EMPTIED)
    claimed = guarantee.claimed.epsilon if guarantee.claimed else None
    reasons = []
    if not proved.finite:
        reasons.append(proved.reason)
    elif claimed is not None and proved.epsilon > claimed * _SLACK:
        factor = epsilon_text(proved.epsilon / claimed)
        reasons.append(f"the releases prove only {factor} times the claim")
    elif claimed is not None and proved.epsilon * _SLACK < claimed:
        reasons.append("the releases prove a smaller epsilon than is claimed")
    if proved.finite and not proved_per_user.finite:
        reasons.append(proved_per_user.reason)
    return CardRow(
        mechanism=name,
        guarantee=guarantee,
        claimed=claimed,
        certified=proved.epsilon,
        per_rating=guarantee.certified(RATING).epsilon,
        per_user=proved_per_user.epsilon,
        per_user_other=guarantee.certified(USER_REPLACED).epsilon,
        why="; ".join((*reasons, *guarantee.caveats)),
        state=state_of(guarantee, refuted=refuted),
        measured=measured,
    )


def ledger(guarantee: Guarantee, change: Change | None = None) -> tuple[LedgerRow, ...]:
    """Every release with its noise and its cost for a change (default: the claim's own).

    Uncovered accesses cost infinity.
    """
    rows = []
    for _, release in guarantee.releases:
        sensitivity = sensitivity_at(
            release.sensitivity, change or guarantee.change, guarantee.public
        )
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
                sensitivity=sensitivity,
                epsilon=release.loss(sensitivity).epsilon_at(_delta(guarantee)),
            )
        )
    for access in guarantee.unaccounted:
        rows.append(LedgerRow(access.query, "none", access.reason, "", 1, math.inf, math.inf))
    return tuple(rows)


def table(rows: list[CardRow]) -> Table:
    """Claims and proofs as columns of text; a filled mark is certified, a hollow one claimed.

    What a phone has room for comes first.
    """
    names = ("mechanism", "claimed", "certified", "measured", PER_USER, "delta", "status")
    counts = ("claimed and certified count", PER_RATING, PERSON, PER_USER_OTHER)
    return columns(
        (*names, *counts, "notion", "trust", "publishes"),
        (
            (
                row.mechanism,
                *map(epsilon_text, (row.claimed, row.certified)),
                "" if row.measured is None else f"≥ {epsilon_text(row.measured, least=True)}",
                epsilon_text(row.per_user),
                delta_text(_delta(card)),
                row.state.value,
                _counts(card),
                epsilon_text(row.per_rating),
                epsilon_text(row_of_ratings(card, TYPICAL).epsilon),
                epsilon_text(row.per_user_other),
                *(attribute.value for attribute in (card.notion, card.trust, card.publishes)),
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
    proved, claim = guarantee.certified(), guarantee.claimed
    told = "nothing" if claim is None else f"epsilon {budget_text(claim.epsilon, claim.delta)}"
    claimed = f"{told} ({guarantee.source})" if claim else told
    details = [("claimed", claimed), ("certified", certified(proved) + ", as sampled" * sampled)]
    if proved.finite:
        details.append(("one person", person(guarantee)))
        if not guarantee.certified(USER_EMPTIED).finite:
            details.append(("not protected", "which items somebody rated: no epsilon covers it"))
    details.append(("attacker", attacker(guarantee)))
    if columns is not None and columns.names:
        details.append(("users", f"each value of {named(columns)['user']} counts as one person"))
    details += [("note", caveat) for caveat in guarantee.caveats]
    return Card(protects(guarantee), upheld(guarantee), tuple(details))


def named(columns: ColumnRoles) -> dict[str, str]:
    """The columns of a file by their role, marked where they are guesses."""
    return {role: name + " (guessed)" * (role in columns.guessed) for role, name in columns.names}


def promise(guarantee: Guarantee) -> str:
    """What a release promises and under which condition, in one sentence."""
    own = guarantee.certified()
    conditions = [text for text in guarantee.caveats if text.startswith("certified given")]
    what = protects(guarantee).rstrip(".")
    summary = f"{certified(own)} ({guarantee.change.relation}): {what[:1].lower()}{what[1:]}"
    return sentence("; ".join([summary, *conditions]))


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


# What an attacker asks, who knows everything else and holds both answers for equally likely.
_SETS = "Which of two sets of {} is this person's?"
_QUESTIONS = {
    RATING: "Is this rating high or low?",
    ROW_VALUES: _SETS.format("ratings"),
    CELL: "Did this person rate this item?",
    USER_EMPTIED: "Were this person's data used?",
    USER_REPLACED: _SETS.format("ratings"),
}
_OF_CLICKS = {CELL: "Did this person click this item?", USER_REPLACED: _SETS.format("clicks")}
MOST = 0.999  # right more often: a limit that limits nothing
LIMIT = "An attacker who asks “{}” {} of the time; a coin flip gets 50 %."


def question(change: Change, *, clicks: bool = False) -> str:
    """What an attacker asks who wants to know of a change."""
    return (_OF_CLICKS if clicks else {}).get(change, _QUESTIONS[change])


def limit(question: str, success_rate: float, *, proved: bool = True) -> str:
    """How often an attacker who asks something is right, beside a coin: one form everywhere."""
    if not proved:
        return f"No limit is proved for an attacker who asks “{question}”"
    return LIMIT.format(question, right_text(success_rate))


def right_text(right: float) -> str:
    """'is right at most 55 %'."""
    return f"is right at most {percent(right)}" if right <= MOST else "may be right over 99.9 %"


def percent(share: float) -> str:
    """A chance, with a decimal where it would look like a coin, or like certainty."""
    return f"{of_hundred(share, int(f'{100 * share:.0f}' in ('50', '100')))} %"


def attacker(guarantee: Guarantee) -> str:
    """How often the best attacker is right about one protected unit. Of a person two things may be
    asked, whether the data were there and what they were."""
    unit = guarantee.change
    changes = (USER_EMPTIED, USER_REPLACED) if unit.per_user else (unit,)
    proved = guarantee.certified().finite
    sentences = (
        limit(question(change), guarantee.attacker(change), proved=proved) for change in changes
    )
    return " ".join(map(sentence, sentences))


def of_hundred(share: float, digits: int = 1) -> str:
    """How many times in 100, of a limit: never rounded up to always, which none proves."""
    least = 10.0**-digits
    if 100 * share >= 100 - least / 2:
        return f">{100 - least:.{digits}f}"
    return f"{100 * share:.{digits}f}"


def hundred(share: float) -> str:
    """A chance as so many of 100; never rounded to all or none of them."""
    minority = 100 * min(share, 1 - share)
    if minority <= 0:
        return f"{100 * share:.0f}"
    digits = min(max(0, math.ceil(-math.log10(minority))), _DIGITS)
    least = 10.0**-digits
    return f"{min(max(100 * share, least), 100 - least):.{digits}f}"


_DIGITS = 6


def person(guarantee: Guarantee) -> str:
    """What is certified for all of one person's ratings together, in the same words everywhere.

    Where a rating is the unit, it grows with each of them: finite for so many ratings, and bounded
    by a cap alone, or by the number of items.
    """
    if guarantee.change.per_user:
        proved, other = guarantee.certified(), guarantee.certified(USER_REPLACED)
        if not proved.finite:
            return certified(proved)
        return (
            f"epsilon {epsilon_text(guarantee.certified(USER_EMPTIED).epsilon)} where a row becomes"
            f" empty, {budget_text(other.epsilon, other.delta)} where it becomes any other row"
        )
    cap, items = guarantee.public.cap, guarantee.public.items
    most = min(cap or items, items)
    ratings = min(TYPICAL, most)
    row_bound = row_of_ratings(guarantee, ratings)
    if not row_bound.finite:
        return certified(row_bound)
    if row_bound.epsilon <= guarantee.certified().epsilon * _SLACK and ratings > 1:
        return "all ratings together: the same, for one may already move all that is published"
    text = f"{many(ratings, 'rating')} together: {spent(capped(guarantee, ratings), ROW_VALUES)}"
    end = row_of_ratings(guarantee, most).epsilon
    if end > row_bound.epsilon * _SLACK:
        limit = "up to the cap of" if cap else "without a cap up to"
        text += f"; it grows with each, {limit} {most:,} ratings: epsilon {epsilon_text(end)}"
    return text


def spent(guarantee: Guarantee, change: Change) -> str:
    """'epsilon 20 (or 15.1, delta 1e-6)': what is certified for a change, and composed exactly."""
    here, weaker = guarantee.certified(change), guarantee.certified(change, DELTA).epsilon
    text = f"epsilon {budget_text(here.epsilon, here.delta)}"
    return text + f" (or {budget_text(weaker, DELTA)})" * (weaker < 0.95 * here.epsilon)


def row_of_ratings(guarantee: Guarantee, ratings: int) -> Certified:
    """What the releases prove for all values of one person with so many ratings."""
    return capped(guarantee, ratings).certified(ROW_VALUES)


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


def state_of(guarantee: Guarantee, *, refuted: bool = False) -> State:
    """Where a claim stands. refuted: an attack found more than is claimed."""
    if refuted:
        return State.REFUTED
    return State.PROVED if upheld(guarantee) else State.CLAIMED
