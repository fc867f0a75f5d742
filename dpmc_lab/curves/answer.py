"""The answer in its fixed words: each number from a run, each sentence left out without one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dpmc_core.errors import capital
from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.model import Task
from dpmc_core.problem import split_words
from dpmc_lab.curves import cards, numbers
from dpmc_lab.curves.cards import delta_text, epsilon_text
from dpmc_lab.curves.lines import Interval, Picture, guess_name
from dpmc_lab.curves.text import Table, columns, many
from dpmc_lab.study.advice import Protect
from dpmc_lab.study.answer import CLEAR, Finding, Inquiry, Payer, Told, Verdict, head
from dpmc_lab.study.paired import Bracket

OFTEN: Mapping[int, str] = {1: "once", 12: "monthly", 52: "weekly", 365: "daily"}
_FLOORS = {
    "private-popularity": "with a private popular list",
    "local-popularity": "with a private popular list",
    "user-mean": "with each user's own mean",
    "private-constant": "with one number for all",
    "private-own-mean": "with each person's own average",
    "private-alone": "with public facts and one's own ratings alone",
    "local-mean": "with the private mean rating alone",
    "private-majority": "with one private guess for all",
    "alone": "with public facts and one's own ratings alone",
    "alone-ranking": "with public facts and one's own items alone",
}
_UNITS = {(Protect.PERSON, task): "everything one user rated" for task in Task} | {
    (Protect.RATING, Task.BINARY): "whether one rating is a like (who rated what is public)",
    (Protect.RATING, Task.RATINGS): "one user's rating of one item, and whether there is one",
    (Protect.RATING, Task.RANKING): "whether one user has one item",
}
_AGAINST = {
    Protect.PERSON: "Protects against readers of the published model and of others'"
    " recommendations. **Not against your servers, staff, logs or a breach.**",
    Protect.RATING: "Protects against whoever holds the reports: readers, your servers, staff, logs"
    " or a breach. **Not against a look at the user's own device, nor all of a user's ratings"
    " together.**",
}


class Said(NamedTuple):
    """A finding in sentences, in Markdown's bold; empty where there is no number for one."""

    verdict: str
    found: str
    unit: str
    attacker: str
    against: str
    pays: str
    caution: str
    tested: str


def said(finding: Finding) -> Said:
    """Everything there is to say of a finding."""
    question, attack = finding.question, finding.attack
    groups = "; ".join(map(_payer, finding.pays))
    question_text = cards.question(question.change, clicks=question.task is Task.RANKING)
    return Said(
        verdict_words(finding),
        f"{_measured(finding)} {_kept(finding)}".strip(),
        _unit(finding),
        cards.limit(question_text, attack.right),
        _AGAINST[question.protect],
        f"Pays most: {groups}." if groups else "",
        f"Offline test on raw data, {many(finding.fits, 'private fit')}: do not publish.",
        f"{finding.mechanism.name}, certified. Tested on {split_words(finding.split)}:"
        f" {many(finding.users, 'user')}, {many(finding.seeds, 'seed')}."
        " Intervals (95 %) are paired over users and seeds.",
    )


def told_words(told: Told, question: Inquiry, is_own_data: bool = True) -> str:
    """How many items noise does not hide, before any fit."""
    whose = "your" if is_own_data else "the"
    count = f"{told.items:,}" if told.items else "none"
    return (
        f"Epsilon {question.epsilon:g} can tell **{count}** of {whose} {told.of:,} items from noise"
    )


def told_rule(task: Task, protect: Protect) -> str:
    """What that counts."""
    signs = task is Task.BINARY and protect is Protect.RATING
    what = "surplus of likes or dislikes" if signs else "count"
    return (
        f"Told: a {what} above {CLEAR:g} standard deviations of the noise on it. Counted on raw"
        " data, before any fit: for your eyes."
    )


def verdict_words(finding: Finding) -> str:
    """The verdict with the limit it is measured against."""
    limit = f"(keep {100 * finding.question.keep:g} % of the gain)"
    told = {
        Verdict.AFFORDABLE: f"**Affordable** at your limit {limit}.",
        Verdict.NOT_AFFORDABLE: f"**Not affordable** at your limit {limit}.",
        Verdict.CANNOT_TELL: f"**Cannot tell**: the interval crosses the limit {limit}.",
        Verdict.NO_GAIN: "**Cannot tell**: personalisation adds nothing measurable here.",
        Verdict.BEATEN: "**Cannot tell**: the reference without privacy is beaten.",
        Verdict.TOO_EARLY: "**Cannot tell** yet: an interval takes two seeds and two users.",
    }[finding.verdict]
    return f"Provisional, more seeds are to come: {told}" if finding.provisional else told


def _measured(finding: Finding) -> str:
    """The metric with privacy, without, and of the floor."""
    task, has_own_reference = finding.question.task, finding.question.reference is not None
    values = finding.method, finding.reference, finding.floor
    base = 100 if min(v.value for v in values) >= 0.1 else 1000
    number_format, factor = (".3f", 1) if task is Task.RATINGS else (".0f", base)
    shown, best, least = (
        _bracket(v, number_format, factor, bare=k > 0) for k, v in enumerate(values)
    )
    told = {
        Task.RATINGS: f"Predictions are off by {shown}"
        f" {finding.question.metric.on(finding.public).unit} (RMSE)",
        Task.BINARY: f"Of {base:,} held-out ratings, {shown} are told right as like or dislike",
        Task.RANKING: f"Of {base:,} users shown ten items, {shown} find the held-out one",
    }[task]
    without = "by your own model" if has_own_reference else "without privacy"
    return f"{told}; {best} {without}; {least} {_FLOORS.get(finding.guess, 'with the floor')}."


def _kept(finding: Finding) -> str:
    if finding.keeps is None:
        return ""
    unclear = f": {numbers.UNCLEAR.format(guess_name(finding.guess))}"
    told = "" if finding.keeps.low > 0 else unclear
    return f"You keep **{_percent(finding.keeps)}** of what personalisation adds{told}."


def _percent(share: Bracket) -> str:
    value, low, high = (100 * bound for bound in share)
    if not math.isfinite(low + high):
        ends = "no bound on one side"
    elif round(low) < 0:
        ends = f"{low:.0f} to {high:.0f}"
    else:
        ends = f"{low:.0f}-{high:.0f}"
    return f"{value:.0f} % ({ends})".replace("-0 %", "0 %")


def _bracket(interval: Bracket, form: str, factor: float, *, bare: bool) -> str:
    value, low, high = (f"{factor * max(part, 0):{form}}" for part in interval)
    if bare or not math.isfinite(interval.high - interval.low):
        return value
    return f"{value} ({low}-{high})"


def _unit(finding: Finding) -> str:
    question, cost = finding.question, finding.cost
    epsilon = f"epsilon {epsilon_text(cost.certified.epsilon)}"
    delta = f", delta {delta_text(question.delta)}"
    if cost.certified.delta:
        epsilon += delta
    if _finite(cost.replaced):
        epsilon += f" (replacing a row: {epsilon_text(cost.replaced)})"
    text = f"Unit: {_UNITS[question.protect, question.task]}; one release; {epsilon}."
    if question.times > 1:
        year, each = epsilon_text(cost.year), epsilon_text(cost.each, least=True)
        often = capital(OFTEN.get(question.times, f"{question.times:,} times a year"))
        text += (
            f" **{often} for a year: epsilon {year}{delta}; to stay at {question.epsilon:g}, use"
            f" {each} each.**"
        )
    return text


def _payer(payer: Payer) -> str:
    if payer.by == "users":
        return f"users under {payer.limit:,} ratings"
    return f"items outside the top {payer.limit:,}"


class AtEpsilon(NamedTuple):
    """At an epsilon of a curve: the metric of the method, and the share of the gain it keeps by
    the means over seeds; None without a gain. clear: whether the seeds tell it from none, as `said`
    says."""

    epsilon: float
    value: float
    share: float | None
    said: str
    clear: bool = True


def curve(chart: Picture, mechanism: str, reference: float | None = None) -> list[AtEpsilon]:
    """What each computed epsilon keeps; nothing where floor or reference is missing."""
    line = next((candidate for candidate in chart.lines if candidate.mechanism == mechanism), None)
    if line is None:
        return []
    best = None if reference is None else Interval(reference, 0.0, 0)
    gains = []
    for epsilon, value in zip(line.epsilon.tolist(), line.band.mean.tolist(), strict=True):
        gain_share = numbers.kept(chart, line, epsilon, best)
        if gain_share is not None:
            gains.append(
                AtEpsilon(
                    epsilon, value, _finite(gain_share.share), gain_share.words, gain_share.clear
                )
            )
    return gains


def curve_words(found: list[AtEpsilon], keep: float) -> str:
    """The smallest epsilon from which on the limit is kept by the means; "" without a curve."""
    if len(found) < 2:
        return ""
    enough = [point.clear and point.share is not None and point.share >= keep for point in found]
    limit = f"{100 * keep:g} % of the gain"
    if not found[-1].clear:
        return f"Whether {limit} is kept cannot be told: the seeds show none."
    first = numbers.since([point.epsilon for point in found], enough)
    where = f"No epsilon up to {found[-1].epsilon:g} keeps {limit}"
    if first is not None:
        where = f"From epsilon {first:g} on, {limit} is kept"
    return f"{where}, by the means over seeds."


def curve_table(gains: list[AtEpsilon], chart: Picture) -> Table:
    """The same as columns."""
    return columns(
        ("epsilon", chart.metric.title, "share of the gain"),
        (
            (
                f"{one.epsilon:g}",
                chart.metric.text(one.value),
                f"{100 * one.share:.0f} %" if one.clear and one.share is not None else one.said,
            )
            for one in gains
        ),
    )


def table(finding: Finding, chart: Picture, baseline: str, reference: str) -> Table:
    """The verdict with its numbers, then the curve of the method, for programs.

    baseline, reference: what the gain is counted from, and up to.
    """
    question, epsilon = finding.question, finding.question.epsilon
    rows: list[Sequence[Any]] = [
        ("verdict", finding.verdict.value, epsilon, "", "", ""),
        ("metric", question.metric.title, "", "", "", ""),
        ("share to keep", "", "", question.keep, "", ""),
        ("share of the gain", "", epsilon, *(finding.keeps or ("", "", ""))),
        ("with privacy", finding.mechanism.name, epsilon, *finding.method),
        ("baseline", baseline, epsilon, *finding.floor),
        ("reference", reference, "", *finding.reference),
    ]
    for line in chart.lines:
        rows += (("curve", line.label, *point) for *point, _ in zip(*line.band, strict=True))
    return columns(("what", "name", "epsilon", "value", "from", "to"), rows)


def as_dict(finding: Finding) -> dict[str, Any]:
    """A finding as plain JSON values; null for what is infinite or not there."""
    question, cost = finding.question, finding.cost
    return {
        "verdict": finding.verdict.value,
        "keep": question.keep,
        "mechanism": finding.mechanism.id,
        "metric": question.metric.name,
        "method": _ends(finding.method),
        "reference": _ends(finding.reference),
        "floor": _ends(finding.floor),
        "baseline": finding.guess,
        "kept": finding.keeps and _ends(finding.keeps),
        "unit": question.change.unit,
        "neighbours": question.change.neighbours,
        "certified": {"epsilon": cost.certified.epsilon, "delta": cost.certified.delta},
        "replaced": _finite(cost.replaced),
        "releases_a_year": question.times,
        "epsilon_of_a_year": _finite(cost.year),
        "delta_of_a_year": question.delta,
        "epsilon_each": _finite(cost.each),
        "attacker": finding.attack._asdict(),
        "pays_most": [
            payer._asdict() | {"loss": _ends(payer.loss), "others": _ends(payer.others)}
            for payer in finding.pays
        ],
        "split": finding.split,
        "users": finding.users,
        "seeds": finding.seeds,
        "provisional": finding.provisional,
        "private_fits": finding.fits,
        "most_rated_items": head(finding.public.items),
        "said": {name: plain(text) for name, text in said(finding)._asdict().items() if text},
        "evaluation": EVALUATION_ONLY,
    }


def plain(text: str) -> str:
    """Without the marks of bold."""
    return text.replace("**", "")


def _ends(interval: Bracket) -> dict[str, float | None]:
    return {name: _finite(value) for name, value in interval._asdict().items()}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
