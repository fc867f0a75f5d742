"""Check verdicts on experiments, and judge what their methods promise.

A verdict is data of its paper's file: a sentence, whether each statement of the paper holds, and
what this rests on. It was written from stored rows. It is to be checked again where these rows
have changed since, or where a comparison of rows no longer supports it.

A comparison holds where it does beyond its 95 % t interval, paired by seed where draws are known. A
statement holds where all of its comparisons do. That it does not hold takes one of them only, with
an interval that is wide enough for all of them at once (Bonferroni).
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from dpmc_core import registry
from dpmc_core.errors import DpmcError, format_sentence
from dpmc_core.settings import format_setting
from dpmc_data.archives import parse_json
from dpmc_lab.papers.engine import (
    ROUNDING,
    SETTING_SEPARATOR,
    CurveSet,
    Experiment,
    Paper,
    Point,
    Printed,
    Promise,
    Statement,
    digest_rows,
)
from dpmc_lab.views import as_published, cards
from dpmc_lab.views.lines import LEVEL

_TOLERANCE = 1 + 1e-9  # rounding in sums of epsilons
_MANY = 20  # printed numbers, of which a sentence says how many agree

# --- comparisons of rows -------------------------------------------------------------------------


class Margin(NamedTuple):
    """How far a comparison is from being false, and the half widths of what it rests on."""

    value: float
    rounding: float
    intervals: tuple[tuple[float, int], ...]  # half width, seeds

    def get_sign(self, n_comparisons: int = 1) -> int:
        """Return 1 or -1 beyond the interval of so many comparisons at once, 0 within it."""
        reach = max(self.rounding, sum(widen(*i, n_comparisons) for i in self.intervals))
        return 0 if abs(self.value) <= reach else int(math.copysign(1, self.value))


def widen(half_width: float, seeds: int, n_comparisons: int) -> float:
    """Return the half width of a 95 % t interval that holds for so many comparisons at once.

    A value without seeds is exact; with one seed, nothing is known of its error.
    """
    if seeds < 2:
        return math.inf if seeds else half_width
    # Bonferroni: the quantiles of one comparison, and of each of so many.
    single, joint = stdtrit(seeds - 1, 1 - (1 - LEVEL) / np.array([2, 2 * n_comparisons]))
    return float(half_width * joint / single)


def combine(*terms: tuple[float, Point | None], limit: float = 0.0) -> Margin | None:
    """Return the margin of a weighted sum of points over a limit, None where a point is missing.

    Over the same seeds the interval is that of the sum in each draw, because the same seed draws
    the same data. Otherwise half widths add up, which holds however the means depend on each other.
    """
    points = [point for _, point in terms if point is not None]
    if len(points) < len(terms):
        return None
    weights = [weight for weight, _ in terms]
    value = float(np.dot(weights, [point.mean for point in points])) - limit
    rounding = ROUNDING * max(abs(point.mean) for point in points)
    random = [(weight, p) for weight, p in zip(weights, points, strict=True) if p.seeds]
    if random and all(p.draws for _, p in random) and len({len(p.draws) for _, p in random}) == 1:
        draws = np.array([p.draws for _, p in random])
        random = [(1.0, Point.from_draws(list([weight for weight, _ in random] @ draws)))]
    return Margin(value, rounding, tuple((abs(w) * p.half_width, p.seeds) for w, p in random))


Margins = Iterator[Margin | None]


def list_x(result: CurveSet, label: str, x: Sequence[float]) -> Sequence[float]:
    """Return the x that a check names, or all of a curve where it names none."""
    series = result.get_series(label)
    return x or (series.x if series else ())


def above(result: CurveSet, label: str | float, other: str | float, x: Sequence[float]) -> Margins:
    """Compare a curve, or a number, with one below it at each x (inf: at its end)."""
    for value in x:
        yield combine((1, result.get_point(label, value)), (-1, result.get_point(other, value)))


def rises(result: CurveSet, label: str, sign: float = 1) -> Margins:
    """Compare a curve's last point with its first."""
    ends = (result.get_point(label, x) for x in (math.inf, -math.inf))
    yield combine(*zip((sign, -sign), ends, strict=True))


def falls(result: CurveSet, label: str) -> Margins:
    """Compare a curve's first point with its last."""
    return rises(result, label, -1)


def climbs(result: CurveSet, label: str, sign: float = 1) -> Margins:
    """Compare each point of a curve with the one before it."""
    points = [result.get_point(label, x) for x in list_x(result, label, ())]
    for pair in itertools.pairwise(points):
        yield combine(*zip((-sign, sign), pair, strict=True))


def near(
    result: CurveSet, label: str, goal: str | float, x: Sequence[float], limit: float | str
) -> Margins:
    """Compare the distance of a curve to another one, or to a number, with a limit at each x.

    A limit with a sign, such as "10 %", is a share of the other one.
    """
    share, distance = (float(limit[:-1]) / 100, 0.0) if isinstance(limit, str) else (0.0, limit)
    for value in list_x(result, label, x):
        point, target = result.get_point(label, value), result.get_point(goal, value)
        yield combine((share, target), *measure_gap(point, target, -1), limit=-distance)


def compare_gaps(result: CurveSet, *places: tuple[str, float]) -> Margin | None:
    """Compare the distance of two points with that of two others, each a curve's at an x."""
    a, b, c, d = (result.get_point(label, x) for label, x in places)
    return combine(*measure_gap(a, b), *measure_gap(c, d, -1))


def farther(
    result: CurveSet, label: str, other: str, first: str, second: str, x: Sequence[float] = ()
) -> Margins:
    """Compare the distance of two curves with that of two others, at each x or all."""
    for value in list_x(result, label, x):
        yield compare_gaps(result, *((name, value) for name in (label, other, first, second)))


def steadier(result: CurveSet, label: str, other: str) -> Margins:
    """Compare how far the ends of a curve are apart with the ends of another one."""
    yield compare_gaps(result, *itertools.product((other, label), (-math.inf, math.inf)))


def approaches(result: CurveSet, label: str, goal: str, first: float, last: float) -> Margins:
    """Compare the distance of a curve to another one at `first` with that at `last`."""
    yield compare_gaps(result, *((name, x) for x in (first, last) for name in (label, goal)))


def leads(
    result: CurveSet, label: str, other: str, printed: float, error: float, x: Sequence[float]
) -> Margins:
    """Compare the distance of the mean lead of a curve from a printed one with its rounding."""
    signed = [(sign, result.get_point(s, v)) for v in x for sign, s in ((1, label), (-1, other))]
    for sign in (1, -1):
        terms = ((sign * weight / len(x), point) for weight, point in signed)
        yield combine(*terms, limit=sign * printed - error)


def measure_gap(
    a: Point | None, b: Point | None, weight: float = 1
) -> list[tuple[float, Point | None]]:
    """Return the terms of the distance of two points, times a weight."""
    if a is None or b is None:
        return [(weight, None)]
    sign = math.copysign(weight, weight * (a.mean - b.mean))
    return [(sign, a), (-sign, b)]


_CHECKS: Mapping[str, Callable[..., Margins]] = {
    check.__name__: check
    for check in (above, rises, falls, climbs, near, farther, steadier, approaches, leads)
}


def check_rows(checks: Sequence[Sequence[Any]], result: CurveSet) -> bool | None:
    """Return whether comparisons of a result's rows hold, None where their intervals do not decide.

    Args:
        checks: each a name and its arguments, of which a list of labels stands for each of them;
            ["share", 0.8] is how many of them suffice; ["ours"] is for `check_statement`.
        result: whose rows they are.
    """
    share = next((check[1] for check in checks if check[0] == "share"), 1.0)
    margins = [
        margin
        for name, *arguments in checks
        if name not in ("share", "ours")
        for choice in itertools.product(
            *(a if isinstance(a, list) and a and isinstance(a[0], str) else [a] for a in arguments)
        )
        for margin in _CHECKS[name](result, *choice)
    ]
    available = [margin for margin in margins if margin is not None]
    if sum(m.get_sign(len(available)) < 0 for m in available) > (1 - share) * len(available):
        return False
    n_true = sum(margin.get_sign() > 0 for margin in available)
    return True if margins and n_true >= share * len(margins) else None


# --- verdicts ------------------------------------------------------------------------------------

LABELS = {
    "agrees": "Every printed number lies within our 95 % interval and its reading error, and every"
    " statement holds.",
    "same trend": "Every statement holds. Printed numbers differ, or there are none.",
    "depends on unstated settings": "Statements hold at some of the settings that the paper leaves"
    " open, and not at others.",
    "differs": "A printed number or a statement does not hold here, at any setting tried.",
    "differs in our reduced run": "A printed number or a statement does not hold here, with less"
    " work or other data than the paper's. This does not speak against the paper.",
    "undecided": "Our intervals are too wide for some of it, or no method is better than the"
    " baseline.",
    "not run": "There is no result of ours.",
    "no verdict": "The paper's numbers are not known here, it says nothing about this figure, or"
    " nobody has judged our result yet.",
}
HOLDS, HOLDS_SOMEWHERE, FAILS, UNKNOWN, NOT_RUN = (
    *("holds", "holds at some settings", "does not hold", "undecided", "not run"),
)
OUR_SETTING = "ours"


class Compared(NamedTuple):
    """A printed number beside ours, and whether it lies within our interval and its error."""

    printed: Printed
    ours: Point | None
    within: bool | None


class JudgedStatement(NamedTuple):
    """A statement, whether it holds by the verdict, and what its checks say at each setting."""

    statement: Statement
    outcome: str
    checked: Mapping[str, bool | None]

    @property
    def settings(self) -> list[str]:
        """Return the settings at which it holds, where it does not at others."""
        names = [name for name, outcome in self.checked.items() if outcome]
        return names if len(names) < len(self.checked) else []


class Assessment(NamedTuple):
    """A verdict with its rows; `doubts` are the reasons to check it again."""

    label: str
    sentence: str
    compared: tuple[Compared, ...]
    statements: tuple[JudgedStatement, ...]
    doubts: tuple[str, ...] = ()


def split_settings(result: CurveSet, tried: CurveSet | None) -> dict[str, CurveSet]:
    """Return a result at our setting and at every other; what one does not change is ours."""
    results = {OUR_SETTING: result}
    # The same seeds draw the same data; others are not paired.
    is_paired = tried is not None and tried.stamp.seeds == result.stamp.seeds
    for series in tried.series if tried is not None else ():
        name, _, label = series.label.partition(SETTING_SEPARATOR)
        changed = replace(series, label=label, draws=series.draws if is_paired else ())
        base = results.get(name, result)
        unchanged = (series for series in base.series if series.label != label)
        results[name] = replace(base, series=(*unchanged, changed))
    return results


def summarise_checks(checked: Mapping[str, bool | None]) -> str:
    """Return whether a statement holds at all settings, at some, or at none."""
    outcomes = set(checked.values())
    if True in outcomes:
        return HOLDS if len(outcomes) == 1 else HOLDS_SOMEWHERE
    return FAILS if outcomes == {False} else UNKNOWN


def assess(
    paper: Paper, experiment: Experiment, result: CurveSet | None, tried: CurveSet | None = None
) -> Assessment:
    """Return the verdict on an experiment with what its rows say of it.

    Args:
        paper: the paper.
        experiment: one of its figures or tables.
        result: ours.
        tried: the same at settings that are not printed.
    """
    verdict, statements = experiment.verdict, experiment.statements
    compared = tuple(compare_printed(printed, result) for printed in experiment.printed)
    if result is None:
        downloads = "".join(f" after dpmc data get {name}" for name in experiment.needs)
        reason = (
            experiment.not_run or f"nobody has run it here yet: {experiment.command}{downloads}"
        )
        judged = tuple(JudgedStatement(statement, NOT_RUN, {}) for statement in statements)
        return Assessment("not run", format_sentence(reason), compared, judged)
    checked = [check_statement(statement, result, tried) for statement in statements]
    if verdict is None:
        outcomes = [summarise_checks(outcome) for outcome in checked]
        judged = tuple(map(JudgedStatement, statements, outcomes, checked))
        is_silent = not (compared or judged)
        default = (
            "the paper says nothing about this one" if is_silent else "nobody has judged it yet"
        )
        if experiment.changes:
            default = "its settings are not those of the paper"
        return Assessment(
            "no verdict", format_sentence(paper.unjudged or default), compared, judged
        )
    judged = tuple(map(JudgedStatement, statements, verdict.statements, checked))
    doubts = [
        f"statement {index}: the verdict is '{outcome}', the rows say '{summarise_checks(checks)}'"
        for index, (_, outcome, checks) in enumerate(judged, 1)
        if checks and summarise_checks(checks) != outcome
    ]
    if digest_rows(result, tried) != verdict.rows:
        doubts.insert(0, f"its rows have changed since {verdict.commit}")
    if not result.is_current:
        doubts.append("a mechanism has been revised since")
    if not experiment.makes(result):
        doubts.append("its rows were made with other settings than the recipe has now")
    sentence = f"{describe_agreement(compared)}{format_sentence(verdict.sentence)}"
    return Assessment(verdict.label, sentence, compared, judged, tuple(doubts))


def describe_agreement(compared: Sequence[Compared]) -> str:
    """Return how many of many printed numbers agree, how wide our intervals are, and the trends.

    A printed number within an interval says little where the interval is wide and the curves go
    different ways.
    """
    close = [c.ours for c in compared if c.ours and c.within]
    if len(compared) < _MANY or not close:
        return ""
    widths = [100 * point.half_width / abs(point.mean) for point in close]
    by_curve = itertools.groupby(compared, attrgetter("printed.series"))
    # Only the first and the last epsilon of each curve.
    ends = [(first, last) for first, *_, last in (curve for _, curve in by_curve)]

    def format_rises(name: str) -> str:
        value = attrgetter(name)
        rises = [value(last) - value(first) for first, last in ends]
        return f"{min(rises):.3f} to {max(rises):.3f}"

    reach = dict.fromkeys(f"{end(widths):.0f}" for end in (min, max))
    return (
        f"Our intervals cover {len(widths)} of {len(compared)} printed numbers, and reach"
        f" {' to '.join(reach)} % of our value to each side there. From the first epsilon to the"
        f" last the printed curves rise by {format_rises('printed.value')}, ours by"
        f" {format_rises('ours.mean')}. "
    )


def check_statement(
    statement: Statement, result: CurveSet, tried: CurveSet | None
) -> dict[str, bool | None]:
    """Return what the checks of a statement say at each setting, nothing where it has none."""
    results = split_settings(result, tried) if statement.checks else {}
    if ["ours"] in statement.checks:
        results = {OUR_SETTING: result}
    return {name: check_rows(statement.checks, rows) for name, rows in results.items()}


def compare_printed(printed: Printed, result: CurveSet | None) -> Compared:
    """Return a printed number beside ours."""
    ours = result.get_point(printed.series, printed.x) if result else None
    if ours is None or ours.seeds == 1:
        return Compared(printed, ours, None)
    room = ours.half_width + printed.error + ROUNDING * abs(printed.value)
    return Compared(printed, ours, abs(printed.value - ours.mean) <= room)


# --- promises ----------------------------------------------------------------------------------

PROVED, UNPROVED, COUNTEREXAMPLE = "proved", "not proved here", "counterexample"

COLORS = {  # of what is good, of what depends, of what is not; the rest is gray
    **dict.fromkeys(("agrees", HOLDS, PROVED), "green"),
    "same trend": "blue",
    **dict.fromkeys(("depends on unstated settings", HOLDS_SOMEWHERE), "violet"),
    **dict.fromkeys(("differs", FAILS, UNPROVED, "check again"), "orange"),
    COUNTEREXAMPLE: "red",
}


class PromiseVerdict(NamedTuple):
    """What becomes of a promise, why, and the command that shows it."""

    mechanism: str
    label: str
    reason: str
    command: str


def judge_promises(experiment: Experiment) -> tuple[PromiseVerdict, ...]:
    """Return what becomes of each promise of an experiment."""
    command = f"dpmc papers {experiment.id}"
    return tuple(_judge_promise(promise, command) for promise in experiment.promises)


def _judge_promise(promise: Promise, command: str) -> PromiseVerdict:
    """Return the verdict on a promise, with the command of an audit where one shows it."""
    id, change, epsilon = promise.mechanism, promise.change, promise.epsilon

    def conclude(label: str, reason: str, shown_by: str = command) -> PromiseVerdict:
        return PromiseVerdict(id, label, format_sentence(reason), shown_by)

    settings = as_published.merge_published_settings(id, promise.settings)
    try:
        mechanism = registry.create(id, epsilon=epsilon, delta=promise.delta, **settings)
        guarantee = mechanism.guarantee(promise.public)
    except DpmcError as error:
        return conclude(UNPROVED, str(error))
    claimed_delta = guarantee.claimed.delta if guarantee.claimed else 0.0
    delta = claimed_delta if promise.delta is None else promise.delta
    proved = guarantee.certified(change, delta)
    if proved.finite and proved.epsilon <= epsilon * _TOLERANCE:
        return conclude(PROVED, f"epsilon {cards.format_epsilon(proved.epsilon)} {change.label}")
    audit = build_audit_command(promise)
    record = _load_audits().get(audit)
    if record and record["revision"] == mechanism.revision and record["epsilon"] > epsilon:
        lost = cards.format_epsilon(record["epsilon"], round_down=True)
        reason = (
            f"by our reading epsilon {epsilon:g} is promised {change.label} ({change.relation});"
            f" with the published settings at least {lost} is lost: {record['pair']}"
        )
        note = f" {promise.note[0].upper()}{promise.note[1:]}" if promise.note else ""
        return conclude(COUNTEREXAMPLE, format_sentence(reason) + note, audit)
    certified = cards.format_certified(proved)
    return conclude(UNPROVED, f"{epsilon:g} is promised {change.label}: {certified}")


def build_audit_command(promise: Promise) -> str:
    """Return the command that searches neighbours that a method, as published, tells apart."""
    settings = as_published.merge_published_settings(promise.mechanism, promise.settings)
    options = [f"--set {name}={format_setting(value)}" for name, value in settings.items()]
    start = f"dpmc audit {promise.mechanism} --epsilon {promise.epsilon:g}"
    return " ".join([start, *options, "--method probe --runs 12"])


@cache
def _load_audits() -> Mapping[str, Any]:
    """Return what audits found, by command; benchmarks/audits.py makes them."""
    text = files(__package__).joinpath("audits.json").read_text(encoding="utf-8")
    records: Mapping[str, Any] = parse_json(text)
    return records
