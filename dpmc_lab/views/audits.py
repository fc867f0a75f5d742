"""Describe and tabulate what an audit found."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from dpmc_core.arrays import Floats
from dpmc_core.errors import InvalidSetting
from dpmc_core.mechanisms.one_bit import Output
from dpmc_core.privacy import Change
from dpmc_core.ratings import Ratings
from dpmc_lab.audit import AuditFinding, AuditReport, ChangedRow, generate_one_rating_example
from dpmc_lab.audit.probe import record_history
from dpmc_lab.audit.report import ROUNDING_FACTOR
from dpmc_lab.measured import AuditMethod, Refuted
from dpmc_lab.views import cards
from dpmc_lab.views.measurements import METHOD_LABELS
from dpmc_lab.views.text import Table, build_table

NO_BOUND_YET = "This attack has measured nothing yet."


def describe_audit(report: AuditReport) -> str:
    """Summarise all findings of an audit in one sentence.

    An audit refutes a promise by a measured epsilon above it, or else by a release that one change
    moves further than the proof allows.
    """
    excess = ""
    bound_text = cards.format_epsilon(report.measured, round_down=True)
    for limit, word in ((report.claimed, "claimed"), (report.certified.epsilon, "proved")):
        if limit is not None and report.measured > limit * ROUNDING_FACTOR:
            excess = f"at least {bound_text} where epsilon {cards.format_epsilon(limit)} is {word}"
    if report.refuted is Refuted.NOTHING:
        if not report.valid:
            return NO_BOUND_YET
        if excess:
            return (
                f"The attack measured {excess}. Chance does that in 1 of 20 attacks; try another"
                " seed."
            )
        measured = f"The attack measured at least {bound_text}."
        return f"{measured} It stayed below the claim; that is no proof."
    if excess:
        return f"Refuted: the attack measured {excess}."
    (first, *remaining) = [
        f"one change moves '{release.name}' by {release.measured:.4g}, and the proof allows"
        f" {release.allowed:.4g}"
        for finding in report.findings
        if finding.refuted is Refuted.CERTIFICATE
        for release in finding.releases
        if not release.fits
    ]
    remaining_text = f" (and {len(remaining)} more)" if remaining else ""
    return f"Refuted: {first}{remaining_text}."


def describe_finding(result: AuditFinding, change: Change) -> str:
    """Summarise in one sentence what one method of an audit found."""
    if not result.valid:
        return NO_BOUND_YET
    text = f"At least {cards.format_epsilon(result.epsilon, round_down=True)} {change.label}"
    if result.method is AuditMethod.CANARIES:
        text += (
            f" (confidence {100 * (result.confidence or 0):g} %): {result.right} of"
            f" {result.guesses} guesses were right, about {result.canaries} planted ratings"
        )
    elif result.pair is not None:
        text += f", exact: {describe_changed_row(result.pair)}"
    return f"{text}.{f' Given {result.given}.' if result.given else ''}"


def describe_changed_row(changed_row: ChangedRow) -> str:
    """Describe how the two data sets of a probe differ."""
    count = len(changed_row.items)
    if count == 1:
        subject = f"item {changed_row.items[0]} of user {changed_row.user}"
        verb = (
            f"goes from {_format_rating(changed_row.before[0])} to"
            f" {_format_rating(changed_row.after[0])}"
        )
    else:
        subject = f"{count} ratings of user {changed_row.user}"
        verb = (
            "disappear"
            if {*changed_row.after} == {None}
            else "appear"
            if {*changed_row.before} == {None}
            else "become others"
        )
    unchanged = (
        "1 other stays" if changed_row.rest == 1 else f"{changed_row.rest or 'no'} others stay"
    )
    return f"{subject} {verb}, {unchanged}"


def _format_rating(value: float | None) -> str:
    """Return a rating as text, or that it is missing."""
    return "missing" if value is None else f"{value:g}"


def tabulate_audit(report: AuditReport) -> Table:
    """Return every release of every audit method as columns of text."""
    rows = [
        (
            METHOD_LABELS[finding.method],
            release.name + ("" if release.counts else " (after earlier answers)"),
            f"{release.measured:.4g}",
            cards.format_epsilon(release.allowed),
            release.norm,
        )
        for finding in report.findings
        for release in finding.releases
    ]
    return build_table(("method", "release", "largest change", "the proof allows", "norm"), rows)


_MIN_COUNTED_CHANGE = 1e-3  # as a share of the bound; cells that move by less are not counted


@dataclass(frozen=True, eq=False)
class RatingInfluence:
    """How far each cell of a matrix moves when one rating changes its sign.

    Attributes:
        user, item: index of the rating's row and column, counted from 0.
        changes: array of shape (n_users, n_items), absolute difference of the matrices that get the
            noise.
        allowed: twice the bound, which is the largest sum of `changes` that the paper's proof
            allows.
        total: the sum of `changes`.
        epsilon: `total` divided by the noise scale; no smaller epsilon holds.
        claimed: the epsilon that the mechanism claims.
        cells: how many cells move by at least a thousandth of the bound.
    """

    user: int
    item: int
    changes: Floats
    allowed: float
    total: float
    epsilon: float
    claimed: float
    cells: int


def build_known_instance() -> tuple[Output, Ratings, int]:
    """Build a known counterexample to a published proof.

    When this rating changes its sign, the matrix moves by about 51, where the proof of LWHM22,
    Theorem 4, allows 2.

    Returns:
        The mechanism, which is solved to tolerance, the ratings, and the position of the rating.
    """
    mechanism = Output(epsilon=1.0, bound=1.0, radius=1.2, tolerance=1e-7, iterations=500)
    return mechanism, *generate_one_rating_example()


def measure_rating_influence(mechanism: Output, ratings: Ratings, position: int) -> RatingInfluence:
    """Measure how far each cell moves when one rating changes its sign, by two solves.

    Args:
        mechanism: the output perturbation.
        ratings: signs, -1 or 1.
        position: index of the rating among all ratings.

    Raises:
        InvalidSetting: no rating has this position.
    """
    if not 0 <= position < len(ratings):
        raise InvalidSetting("position of the rating", f"in 0..{len(ratings) - 1}", position)
    values = ratings.values.copy()
    values[position] *= -1
    changed_ratings = dataclasses.replace(ratings, values=values)
    (before,), (after,) = (  # output perturbation publishes once
        record_history(mechanism, data, 0) for data in (ratings, changed_ratings)
    )
    guarantee = mechanism.guarantee(ratings.public)
    changes: Floats = np.abs(before.private - after.private)
    total = guarantee.releases.matrix.distance(before.private, after.private)
    return RatingInfluence(
        int(ratings.users[position]),
        int(ratings.items[position]),
        changes,
        allowed=2 * mechanism.bound,
        total=total,
        epsilon=guarantee.releases.matrix.loss(total).epsilon,
        claimed=mechanism.epsilon,
        cells=int((changes >= _MIN_COUNTED_CHANGE * mechanism.bound).sum()),
    )
