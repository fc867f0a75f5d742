"""Present a guarantee as rows of a table and as sentences."""

import dataclasses
import enum
import math
import re
from typing import NamedTuple

from scipy.special import expit

from dpmc_core.errors import capitalise, format_sentence
from dpmc_core.privacy import (
    CELL,
    DEFAULT_DELTA,
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
from dpmc_core.ratings import LINE_NUMBER, OTHERS, ColumnRoles
from dpmc_lab.views.text import Table, build_table, format_count

_TRUST_PHRASES = {
    Trust.CURATOR: "against everyone who sees only what is published; the server sees raw ratings",
    Trust.LOCAL: "against everyone, including the server",
    Trust.AGGREGATOR: "against the recommender, unless the third party works with it",
    Trust.FEDERATED: "against the server; each party sees the raw ratings of its own users",
}
_NOISE_NAMES = {
    Laplace: "Laplace",
    SampledLaplace: "Laplace",
    NormLaplace: "norm-Laplace",
    Gaussian: "Gaussian",
    RandomizedResponse: "randomised response",
}


EXACT_COUNT = (
    "counted exactly, many small answers tell less than one answer with their summed epsilon"
)
TYPICAL_RATINGS = 20  # ratings of a typical person, for whom epsilons of all ratings are stated
PER_RATING = "proved per rating: another value"
PER_PERSON = f"proved for {TYPICAL_RATINGS} ratings of one person"
PER_USER = "proved per user: empty row"
PER_USER_OTHER = "proved per user: any other row"
_SLACK = 1 + 1e-9  # rounding in sums of epsilons


class ClaimState(enum.Enum):
    """State of a claim, with its mark."""

    PROVED = "● proved"
    CLAIMED = "○ claimed only"
    REFUTED = "⊗ refuted"  # an attack found more than is claimed

    @property
    def word(self) -> str:
        """Return the state in words, without its mark."""
        return self.value[2:]


class GuaranteeRow(NamedTuple):
    """Row of one mechanism in the table of guarantees.

    An epsilon is math.inf where nothing is proved.

    Attributes:
        mechanism: name of the mechanism.
        guarantee: its guarantee.
        claimed: the claimed epsilon; None where nothing is claimed.
        certified: the certified epsilon in the unit of the claim.
        per_rating: the certified epsilon if one rating gets another value.
        per_user: the certified epsilon if a user's row becomes empty.
        per_user_other: the certified epsilon if a user's row becomes any other.
        reason: why a number is infinite or above the claim, and the caveats of the guarantee.
        state: state of the claim.
        measured: a lower bound that an audit measured at this epsilon, if any.
    """

    mechanism: str
    guarantee: Guarantee
    claimed: float | None
    certified: float
    per_rating: float
    per_user: float
    per_user_other: float
    reason: str
    state: ClaimState
    measured: float | None


class LedgerRow(NamedTuple):
    """One release of a mechanism: its query, the noise on it and what it costs.

    Attributes:
        query: what is released, in words.
        noise: name of the noise.
        scale: noise scale, or chances of a flip, as text.
        answers: size of the answer, as text.
        times: how often it is released.
        sensitivity: for the ledger's change, in the norm of the noise.
        epsilon: for the ledger's change, at the delta of the claim.
    """

    query: str
    noise: str
    scale: str
    answers: str
    times: int
    sensitivity: float
    epsilon: float


def build_guarantee_row(
    name: str, guarantee: Guarantee, *, refuted: bool = False, measured: float | None = None
) -> GuaranteeRow:
    """Return a mechanism's row: its claim, and what its releases prove per rating and per user.

    Args:
        name: of the mechanism.
        guarantee: its guarantee.
        refuted: whether an audit found more than is claimed.
        measured: the lower bound on epsilon that an audit measured, if any.
    """
    proved = guarantee.certified()
    proved_per_user = guarantee.certified(USER_EMPTIED)
    claimed = guarantee.claimed.epsilon if guarantee.claimed else None
    reasons = []
    if not proved.finite:
        reasons.append(proved.reason)
    elif claimed is not None and proved.epsilon > claimed * _SLACK:
        factor = format_epsilon(proved.epsilon / claimed)
        reasons.append(f"the noise proves only {factor} times the claimed epsilon")
    elif claimed is not None and proved.epsilon * _SLACK < claimed:
        reasons.append("the noise proves a smaller epsilon than the claim")
    if proved.finite and not proved_per_user.finite:
        reasons.append(proved_per_user.reason)
    return GuaranteeRow(
        name,
        guarantee,
        claimed,
        proved.epsilon,
        per_rating=guarantee.certified(RATING).epsilon,
        per_user=proved_per_user.epsilon,
        per_user_other=guarantee.certified(USER_REPLACED).epsilon,
        reason="; ".join((*reasons, *guarantee.caveats)),
        state=determine_claim_state(guarantee, refuted=refuted),
        measured=measured,
    )


def build_ledger(guarantee: Guarantee, change: Change | None = None) -> tuple[LedgerRow, ...]:
    """Return every release with its noise and its cost for a change.

    An access to the data that no noise covers costs infinity.

    Args:
        guarantee: the guarantee of the mechanism.
        change: how the data sets differ (default: as in the claim).
    """
    rows = []
    for _, release in guarantee.releases:
        sensitivity = sensitivity_at(
            release.sensitivity, change or guarantee.change, guarantee.public
        )
        size = " x ".join("observed" if n is None else f"{n:,}" for n in release.shape)
        scale = ""
        noise_scale = getattr(release, "scale", None)  # which channels do not have
        if isinstance(release, RandomizedResponse):
            flips = 1 - release.matrix.diagonal()
            scale = "flips " + " / ".join(dict.fromkeys(f"{100 * p:.1f} %" for p in flips))
        rows.append(
            LedgerRow(
                release.query,
                _NOISE_NAMES.get(type(release), type(release).__name__),
                scale if noise_scale is None else f"{noise_scale:.4g}",
                size or "one number",
                release.times,
                sensitivity,
                release.loss(sensitivity).epsilon_at(_get_claimed_delta(guarantee)),
            )
        )
    for access in guarantee.unaccounted:
        rows.append(LedgerRow(access.query, "none", access.reason, "", 1, math.inf, math.inf))
    return tuple(rows)


def tabulate_guarantees(rows: list[GuaranteeRow]) -> Table:
    """Return claims and proofs as columns of text; those that fit on a phone come first.

    In the column of the status, a filled mark stands for proved and an open one for claimed.
    """
    names = ("mechanism", "claimed", "proved", "measured", PER_USER, "delta", "status")
    counts = ("claimed and proved count", PER_RATING, PER_PERSON, PER_USER_OTHER)
    return build_table(
        (*names, *counts, "notion", "trust", "publishes"),
        (
            (
                row.mechanism,
                *map(format_epsilon, (row.claimed, row.certified)),
                ""
                if row.measured is None
                else f"≥ {format_epsilon(row.measured, round_down=True)}",
                format_epsilon(row.per_user),
                format_delta(_get_claimed_delta(guarantee)),
                row.state.value,
                f"{guarantee.change.label}: {guarantee.change.relation}",
                format_epsilon(row.per_rating),
                format_epsilon(certify_ratings(guarantee, TYPICAL_RATINGS).epsilon),
                format_epsilon(row.per_user_other),
                *(
                    attribute.value
                    for attribute in (guarantee.notion, guarantee.trust, guarantee.publishes)
                ),
            )
            for row in rows
            for guarantee in [row.guarantee]
        ),
    )


def exceeds_total(rows: tuple[LedgerRow, ...], total: float) -> bool:
    """Return whether the epsilons of the rows add up to visibly more than the total: over 1 %."""
    return math.fsum(row.epsilon for row in rows) > 1.01 * total


def tabulate_ledger(rows: tuple[LedgerRow, ...]) -> Table:
    """Return the ledger as columns of text."""
    names = ("question to the data", "noise", "noise scale", "numbers released", "times")
    return build_table(
        (*names, "largest change by one unit", "epsilon"),
        (
            (
                *row[:4],
                str(row.times),
                "any amount" if math.isinf(row.sensitivity) else format_epsilon(row.sensitivity),
                format_epsilon(row.epsilon),
            )
            for row in rows
        ),
    )


class PrivacyCard(NamedTuple):
    """A guarantee for people.

    Attributes:
        protects: what is protected and from whom, in a sentence.
        upheld: whether the claim is certified.
        details: further texts, each with its name.
    """

    protects: str
    upheld: bool
    details: tuple[tuple[str, str], ...]


def build_privacy_card(
    guarantee: Guarantee, *, sampled: bool = False, columns: ColumnRoles | None = None
) -> PrivacyCard:
    """Return what is protected, claimed and certified, and what it means for an attacker.

    Args:
        guarantee: the guarantee of the mechanism.
        sampled: whether the noise is sampled exactly and the guarantee counts that.
        columns: roles of the columns in the file that the ratings come from.
    """
    proved = guarantee.certified()
    claim = guarantee.claimed
    claim_text = (
        "nothing" if claim is None else f"epsilon {format_budget(claim.epsilon, claim.delta)}"
    )
    claimed = f"{claim_text} ({guarantee.source})" if claim else claim_text
    details = [
        ("claimed", claimed),
        ("proved", format_certified(proved) + ", for the noise as it is sampled" * sampled),
    ]
    if proved.finite:
        details.append(("one person", describe_person_guarantee(guarantee)))
        if not guarantee.certified(USER_EMPTIED).finite:
            details.append(("not protected", "which items somebody rated; no epsilon covers that"))
    details.append(("attacker", describe_attacker(guarantee)))
    if columns is not None and columns.names:
        users = label_columns(columns)["user"]
        if users.startswith(LINE_NUMBER):
            users = users.replace(LINE_NUMBER, "each line")
        elif not users.startswith(OTHERS):
            users = f"each {'' if users.startswith('columns ') else 'value '}of {users}"
        details.append(("users", f"{users} counts as one person"))
    details += [("note", caveat) for caveat in guarantee.caveats]
    return PrivacyCard(describe_protection(guarantee), is_upheld(guarantee), tuple(details))


def label_columns(columns: ColumnRoles) -> dict[str, str]:
    """Return the name of each role's column in a file, marked where the program guessed it."""
    return {role: name + " (guessed)" * (role in columns.guessed) for role, name in columns.names}


def describe_promise(guarantee: Guarantee) -> str:
    """Return in one sentence what a release promises and under which condition."""
    proved = guarantee.certified()
    conditions = [text for text in guarantee.caveats if text.startswith("certified given")]
    protection = describe_protection(guarantee).rstrip(".")
    summary = (
        f"{format_certified(proved)} ({guarantee.change.relation}):"
        f" {protection[:1].lower()}{protection[1:]}"
    )
    return format_sentence("; ".join([summary, *conditions]))


def format_certified(proved: Certified) -> str:
    """Return 'epsilon 1 per rating', or 'no bound per user: ...' with the reason."""
    if proved.finite:
        return f"epsilon {format_budget(proved.epsilon, proved.delta)} {proved.change.label}"
    return f"no bound {proved.change.label}: {proved.reason}"


def _get_claimed_delta(guarantee: Guarantee) -> float:
    """Return the delta of the claim, which applies to everything certified."""
    return guarantee.claimed.delta if guarantee.claimed else 0.0


def describe_protection(guarantee: Guarantee) -> str:
    """Return a sentence on what is protected and from whom.

    It reads 'Claims to protect ...' unless the claim is upheld (`is_upheld`).
    """
    if guarantee.notion is Notion.NONE:
        return "Protects nothing: it reads the raw ratings and adds no noise."
    verb = "Protects" if is_upheld(guarantee) else "Claims to protect"
    joint = (
        "; each person alone sees their own recommendations"
        if guarantee.notion is Notion.JOINT
        else ""
    )
    return f"{verb} {guarantee.change.protects} {_TRUST_PHRASES[guarantee.trust]}{joint}."


# These are questions of an attacker who knows everything else and thinks both answers equally
# likely.
_SETS_QUESTION = "Which of two sets of {} is this person's?"
_QUESTIONS = {
    RATING: "Is this rating high or low?",
    ROW_VALUES: _SETS_QUESTION.format("ratings"),
    CELL: "Did this person rate this item?",
    USER_EMPTIED: "Were this person's data used?",
    USER_REPLACED: _SETS_QUESTION.format("ratings"),
}
_CLICK_QUESTIONS = {
    CELL: "Did this person click this item?",
    USER_REPLACED: _SETS_QUESTION.format("clicks"),
}
MAX_INFORMATIVE_RATE = 0.999  # a limit above this success rate is not informative
ATTACKER = "an attacker torn 50:50"  # with another prior, one may be right more often


def format_attacker_question(change: Change, *, clicks: bool = False) -> str:
    """Return the question of an attacker who wants to tell two data sets apart."""
    return (_CLICK_QUESTIONS if clicks else {}).get(change, _QUESTIONS[change])


def describe_attacker_limit(question: str, success_rate: float, *, proved: bool = True) -> str:
    """Return how often an attacker with this question is right, compared with a coin flip.

    Args:
        question: what the attacker asks.
        success_rate: how often the attacker is right at most, in 0..1.
        proved: whether any limit is proved.
    """
    if not proved:
        return f"No limit is proved for {ATTACKER} who asks “{question}”"
    return (
        f"{capitalise(ATTACKER)} who asks “{question}” {format_success_rate(success_rate)} of the"
        " time; a coin flip gets 50 %."
    )


def format_success_rate(success_rate: float) -> str:
    """Return 'is right at most 54.8 %'."""
    verb = "is right at most" if success_rate <= MAX_INFORMATIVE_RATE else "may be right"
    return f"{verb} {format_limit_percent(success_rate)}"


def describe_attacker(guarantee: Guarantee) -> str:
    """Return how often the best attacker is right about one protected unit.

    About a person there are two questions: whether the data were used, and what they were. Where
    the noise gives away less than its epsilon allows any mechanism, both limits are given.
    """
    unit, certified = guarantee.change, guarantee.certified()
    changes = (USER_EMPTIED, USER_REPLACED) if unit.per_user else (unit,)
    limits = [guarantee.attacker_accuracy(change) for change in changes]
    sentences = [
        describe_attacker_limit(format_attacker_question(change), limit, proved=certified.finite)
        for change, limit in zip(changes, limits, strict=True)
    ]
    # All mechanisms with this epsilon keep to e^epsilon / (1 + e^epsilon), delta left out.
    general = float(expit(certified.epsilon))
    if certified.finite and general - limits[0] > 0.005:  # half a percent, so that it can be seen
        sentences.append(
            f"Epsilon {format_epsilon(certified.epsilon)} alone would allow"
            f" {format_limit_percent(general)}; this noise gives away less"
        )
    return " ".join(map(format_sentence, sentences))


def format_limit_percent(share: float) -> str:
    """Return an upper limit in percent, rounded up to one decimal so that it stays a limit.

    Above 99.9 % it is '> 99.9 %'. Phones compute it themselves: see `limitPercent` in phone.html.
    """
    if share > MAX_INFORMATIVE_RATE:
        return "> 99.9 %"
    return f"{math.ceil(1000 * share - 1e-9) / 10:.1f} %"  # 1e-9: rounding of the product


def format_at_most(share: float) -> str:
    """Return 'at most 73.2 %' for an upper limit; no more than '> 99.9 %' above that."""
    return "at most " * (share <= MAX_INFORMATIVE_RATE) + format_limit_percent(share)


def format_share_percent(share: float) -> str:
    """Return a share in percent, never rounded to 0 or 100 unless it is exactly that."""
    minority = 100 * min(share, 1 - share)
    if minority <= 0:
        return f"{100 * share:.0f}"
    # As many decimals as the smaller of the share and its complement needs to differ from 0.
    digits = min(max(0, math.ceil(-math.log10(minority))), _MAX_DIGITS)
    step = 10.0**-digits
    return f"{min(max(100 * share, step), 100 - step):.{digits}f}"


_MAX_DIGITS = 6


def describe_person_guarantee(guarantee: Guarantee) -> str:
    """Return in words what is certified for all ratings of one person together.

    Where a rating is the privacy unit, the epsilon grows with every rating of the person. It is
    finite for a given number of ratings, and bounded only by a cap or by the number of items.
    """
    if guarantee.change.per_user:
        proved = guarantee.certified()
        replaced = guarantee.certified(USER_REPLACED)
        if not proved.finite:
            return format_certified(proved)
        return (
            f"epsilon {format_epsilon(guarantee.certified(USER_EMPTIED).epsilon)} if all the"
            f" person's data disappear, {format_budget(replaced.epsilon, replaced.delta)} if other"
            " data replace them"
        )
    cap = guarantee.public.cap
    items = guarantee.public.items
    max_ratings = min(cap or items, items)
    ratings = min(TYPICAL_RATINGS, max_ratings)
    row_bound = certify_ratings(guarantee, ratings)
    if not row_bound.finite:
        return format_certified(row_bound)
    if row_bound.epsilon <= guarantee.certified().epsilon * _SLACK and ratings > 1:
        return "all ratings together: the same, because one rating can already change everything"
    capped = cap_guarantee(guarantee, ratings)
    text = format_spent_budget(capped, get_whole_row_change(guarantee))
    if guarantee.change.covers_existence:
        emptied = capped.certified(USER_EMPTIED)
        text = (
            f"epsilon {format_budget(emptied.epsilon, emptied.delta)} if they disappear,"
            f" {text.removeprefix('epsilon ')} if other data replace them"
        )
    text = f"{format_count(ratings, 'rating')} together: {text}"
    max_epsilon = certify_ratings(guarantee, max_ratings).epsilon
    if max_epsilon > row_bound.epsilon * _SLACK:
        limit = "the cap" if cap else "one for every item"
        text += (
            f"; more ratings cost more, up to epsilon {format_epsilon(max_epsilon)} for"
            f" {max_ratings:,} ratings ({limit})"
        )
    return text


def format_spent_budget(guarantee: Guarantee, change: Change) -> str:
    """Return 'epsilon 20 (or 15.1, delta 1e-6: why)', which a guarantee certifies for a change.

    The second number, at the default delta, appears with its reason where it is clearly smaller.
    """
    proved = guarantee.certified(change)
    composed = guarantee.certified(change, DEFAULT_DELTA).epsilon
    text = f"epsilon {format_budget(proved.epsilon, proved.delta)}"
    # The exact count is worth its delta only if it saves over 5 %.
    return text + f" (or {format_budget(composed, DEFAULT_DELTA)}: {EXACT_COUNT})" * (
        composed < 0.95 * proved.epsilon
    )


def certify_ratings(guarantee: Guarantee, ratings: int) -> Certified:
    """Return what the releases prove for everything of one person with this many ratings."""
    return cap_guarantee(guarantee, ratings).certified(get_whole_row_change(guarantee))


def get_whole_row_change(guarantee: Guarantee) -> Change:
    """Return the change of everything of one person: its values alone where items are public."""
    return USER_REPLACED if guarantee.change.covers_existence else ROW_VALUES


def cap_guarantee(guarantee: Guarantee, ratings: int) -> Guarantee:
    """Return the same guarantee for people with at most this many ratings."""
    return dataclasses.replace(guarantee, public=dataclasses.replace(guarantee.public, cap=ratings))


def format_budget(epsilon: float | None, delta: float = 0.0) -> str:
    """Return an epsilon for people, with its delta where there is one: '1, delta 1e-6'."""
    finite = epsilon is not None and math.isfinite(epsilon)
    return format_epsilon(epsilon) + (f", delta {format_delta(delta)}" if delta and finite else "")


def format_delta(delta: float) -> str:
    """Return a delta as it is written everywhere: '1e-6'."""
    return re.sub(r"e-0*", "e-", f"{delta:g}")


def format_epsilon(epsilon: float | None, *, round_down: bool = False) -> str:
    """Return an epsilon for people, in three digits, or to a whole number where it has more.

    It is 'none' where there is none and 'no bound' where it is infinite. An epsilon is rounded up,
    so that the text never promises too much. A last digit that differs by less than a millionth is
    not rounded.

    Args:
        epsilon: the value, or None.
        round_down: whether to round down instead, for a lower bound.
    """
    if epsilon is None:
        return "none"
    if math.isinf(epsilon):
        return "no bound"
    if epsilon <= 0:
        return f"{epsilon:g}"
    # The unit of the third digit, at most 1. The small numbers keep rounding of floating point from
    # adding a unit to a value that has three digits.
    unit = 10.0 ** min(0, math.floor(math.log10(epsilon * (1 + 1e-9))) - 2)
    steps = epsilon / unit
    rounded = unit * (math.floor(steps + 1e-6) if round_down else math.ceil(steps - 1e-6))
    return f"{rounded:,.0f}" if rounded >= 1000 else f"{rounded:.3g}"


def is_upheld(guarantee: Guarantee) -> bool:
    """Return whether what is certified, in the unit of the claim, is at most what is claimed."""
    claimed = guarantee.claimed
    return claimed is not None and guarantee.certified().epsilon <= claimed.epsilon * _SLACK


def determine_claim_state(guarantee: Guarantee, *, refuted: bool = False) -> ClaimState:
    """Return the state of a claim.

    Args:
        guarantee: the guarantee with its claim.
        refuted: whether an attack found more than is claimed.
    """
    if refuted:
        return ClaimState.REFUTED
    return ClaimState.PROVED if is_upheld(guarantee) else ClaimState.CLAIMED
