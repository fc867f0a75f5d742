"""What an audit found, in words and rows."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from dpmc_core.arrays import Floats
from dpmc_core.errors import InvalidSetting
from dpmc_core.mechanisms.one_bit import Output
from dpmc_core.privacy import Change
from dpmc_core.ratings import Ratings
from dpmc_lab.audit import ChangedRow, Measured, Report, one_rating_apart
from dpmc_lab.audit.probe import run
from dpmc_lab.audit.report import TIGHT
from dpmc_lab.curves import cards
from dpmc_lab.curves.measurements import METHODS
from dpmc_lab.curves.text import Table, columns
from dpmc_lab.measured import Method, Refuted

NOT_YET = "Not yet a bound."


def verdict(report: Report) -> str:
    """One sentence on all findings."""
    passed, least = "", cards.epsilon_text(report.measured, least=True)
    for limit, word in ((report.claimed, "claimed"), (report.certified.epsilon, "certified")):
        if limit is not None and report.measured > limit * TIGHT:
            passed = f" least {least} where {cards.epsilon_text(limit)} is {word}"
    if report.refuted is Refuted.NOTHING:
        if not report.valid:
            return NOT_YET
        if passed:
            return f"At{passed}; chance does that in 1 of 20 audits: try other seeds."
        return f"No contradiction found (at least {least}); privacy is not confirmed by this."
    if passed:
        return f"Refuted: at{passed}."
    (first, *more) = [
        f"'{release.name}' moves by {release.measured:.4g} where the card allows"
        f" {release.allowed:.4g}"
        for finding in report.findings
        if finding.refuted is Refuted.CERTIFICATE
        for release in finding.releases
        if not release.fits
    ]
    others = f" (and {len(more)} more)" if more else ""
    return f"Refuted: {first}{others}."


def finding(found: Measured, change: Change) -> str:
    """One sentence on what one method found."""
    if not found.valid:
        return NOT_YET
    least = f"At least {cards.epsilon_text(found.epsilon, least=True)} {change.label}"
    if found.method is Method.CANARIES:
        least += (
            f" ({100 * (found.confidence or 0):g} %): {found.right} of {found.guesses} guesses"
            f" right, {found.canaries} canaries"
        )
    elif found.pair is not None:
        least += f", exact: {pair(found.pair)}"
    return f"{least}.{f' Given {found.given}.' if found.given else ''}"


def pair(found: ChangedRow) -> str:
    """What differs between the two data sets of a probe."""
    disappears = [value is None for value in found.after]
    appears = [value is None for value in found.before]
    who, count = f"user {found.user}", len(found.items)
    if count == 1:
        change = f"from {_rating(found.before[0])} to {_rating(found.after[0])}"
        what, does = f"item {found.items[0]} of {who}", f"goes {change}"
    else:
        what = f"{count} ratings of {who}"
        does = "disappear" if all(disappears) else "appear" if all(appears) else "become others"
    stay = "1 other stays" if found.rest == 1 else f"{found.rest or 'no'} others stay"
    return f"{what} {does}, {stay}"


def _rating(value: float | None) -> str:
    return "missing" if value is None else f"{value:g}"


def table(report: Report) -> Table:
    """Every release of every method in columns of text."""
    rows = [
        (
            METHODS[finding.method],
            release.name + ("" if release.counts else " (after earlier answers)"),
            f"{release.measured:.4g}",
            cards.epsilon_text(release.allowed),
            release.norm,
        )
        for finding in report.findings
        for release in finding.releases
    ]
    return columns(("method", "release", "moves", "card allows", "norm"), rows)


_SEEN = 1e-3  # of the bound: a cell that moves by less is not counted


@dataclass(frozen=True, eq=False)
class Lights:
    """How far each cell moves when one rating turns to the other sign.

    user, item: of the rating, counted from 0. moved: users x items, |difference| of the matrices
    that get the noise. allowed: 2 bound, the most that the paper's proof lets them sum to; total:
    the sum; epsilon: total over the noise scale, so no smaller one holds; claimed: the card's.
    cells: how many move by a thousandth of the bound or more.
    """

    mechanism: Output
    user: int
    item: int
    moved: Floats
    allowed: float
    total: float
    epsilon: float
    claimed: float
    cells: int


def known_instance(epsilon: float = 1.0) -> tuple[Output, Ratings, int]:
    """A mechanism solved to tolerance, ratings, and the position of the one that lights it up.

    Its matrix moves by about 51 where the proof of LWHM22, Theorem 4 allows 2.
    """
    mechanism = Output(epsilon=epsilon, bound=1.0, radius=1.2, tolerance=1e-7, iterations=500)
    return mechanism, *one_rating_apart()


def lights(mechanism: Output, ratings: Ratings, position: int) -> Lights:
    """What the rating at a position of `ratings` moves; two solves. Raises InvalidSetting."""
    if not 0 <= position < len(ratings):
        raise InvalidSetting("position of the rating", f"in 0..{len(ratings) - 1}", position)
    values = ratings.values.copy()
    values[position] *= -1
    changed_ratings = dataclasses.replace(ratings, values=values)
    (before,), (after,) = (run(mechanism, data, 0) for data in (ratings, changed_ratings))
    guarantee = mechanism.guarantee(ratings.public)
    changes: Floats = np.abs(before.private - after.private)
    total = guarantee.releases.matrix.distance(before.private, after.private)
    return Lights(
        mechanism=mechanism,
        user=int(ratings.users[position]),
        item=int(ratings.items[position]),
        moved=changes,
        allowed=2 * mechanism.bound,
        total=total,
        epsilon=guarantee.releases.matrix.loss(total).epsilon,
        claimed=mechanism.epsilon,
        cells=int((changes >= _SEEN * mechanism.bound).sum()),
    )
