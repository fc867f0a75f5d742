"""Put the answer to an inquiry into sentences; those without a computed number are left out."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dpmc_core.errors import capitalise
from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.model import Task
from dpmc_lab.study.advice import PrivacyUnit
from dpmc_lab.study.answer import (
    MIN_NOISE_DEVIATIONS,
    DistinguishableItems,
    Finding,
    Inquiry,
    Payer,
    Verdict,
    count_head_items,
)
from dpmc_lab.study.paired import IntervalEstimate
from dpmc_lab.views import cards, numbers
from dpmc_lab.views.cards import format_delta, format_epsilon
from dpmc_lab.views.lines import CurveChart, Interval, format_baseline_name
from dpmc_lab.views.text import Table, build_table, format_count, format_split

# What stands beside a curve once there is a verdict.
SEEDS_NOTE = (
    "The curve shows averages over its seeds. The verdict compares user by user, so its numbers may"
    " differ a little; it decides."
)
FREQUENCY_LABELS: Mapping[int, str] = {1: "once", 12: "monthly", 52: "weekly", 365: "daily"}
_BASELINE_PHRASES = {
    "private-popularity": "with a private popular list",
    "local-popularity": "with a private popular list",
    "user-mean": "with each user's own mean",
    "private-constant": "with one answer for all",
    "private-own-mean": "with each person's own average",
    "private-alone": "with public facts and one's own ratings alone",
    "local-mean": "with the private mean rating alone",
    "private-majority": "with one private guess for all",
    "alone": "with public facts and one's own ratings alone",
    "alone-ranking": "with public facts and one's own items alone",
}
_UNIT_PHRASES = {(PrivacyUnit.PERSON, task): "everything one user rated" for task in Task} | {
    (PrivacyUnit.RATING, Task.BINARY): "whether one rating is a like (who rated what is public)",
    (PrivacyUnit.RATING, Task.RATINGS): "one user's rating of one item, and whether there is one",
    (PrivacyUnit.RATING, Task.RANKING): "whether one user has one item",
}
_PROTECTION_SENTENCES = {
    PrivacyUnit.PERSON: "This protects against readers of the published model and of other people's"
    " recommendations. **It does not protect against your servers, staff, logs or a breach.**",
    PrivacyUnit.RATING: "This protects against everybody who holds the reports: readers, your"
    " servers, staff, logs or a breach. **It does not protect against a look at the user's own"
    " device, and not all of a user's ratings together.**",
}

_ADVICE = {  # where a verdict is open, and no seeds follow anyway
    Verdict.CANNOT_TELL: " A limit outside this interval, a larger epsilon or more seeds (--seeds"
    " of the command) may settle it.",
    Verdict.NO_GAIN: " More ratings or more seeds (--seeds of the command) may show a benefit.",
    Verdict.BEATEN: " If your own model is better than our reference, give its score.",
}


class AnswerSentences(NamedTuple):
    """A finding in sentences, with bold marked in Markdown.

    A sentence is empty where the finding has no number for it. The names of the sentences are those
    in the JSON of `serialise_finding`.

    Attributes:
        verdict: whether privacy is affordable at the limit.
        found: the metric of the mechanism, the reference and the baseline, the share kept, and
            what may settle an open verdict.
        unit: what is protected, and what one release and a year of them cost.
        attacker: how often the best attacker is right, after one publication and after a year.
        against: who is kept from learning the data, and who is not.
        pays: which groups lose most.
        caution: a warning that the test used raw data.
        tested: the mechanism, the held-out ratings, and how many users and seeds.
    """

    verdict: str
    found: str
    unit: str
    attacker: str
    against: str
    pays: str
    caution: str
    tested: str


def format_answer(finding: Finding) -> AnswerSentences:
    """Express a finding in sentences."""
    payer_text = " and ".join(map(_format_payer, finding.payers))
    return AnswerSentences(
        format_verdict(finding),
        f"{_format_metrics(finding)}{_format_kept_share(finding)}"
        f"{_ADVICE.get(finding.verdict, '') * (not finding.provisional)}",
        _format_unit(finding),
        _format_attacker(finding),
        _PROTECTION_SENTENCES[finding.question.privacy_unit],
        f"{capitalise(payer_text)} lose most." if payer_text else "",
        "These numbers come from a test on raw data with"
        f" {format_count(finding.n_private_fits, 'private fit')} "
        " behind this verdict. Keep them inside your organisation.",
        f"{finding.mechanism.name}, certified. Tested on {format_split(finding.split)}:"
        f" {format_count(finding.users, 'user')}, {format_count(finding.seeds, 'seed')}."
        " Intervals (95 %) are paired over users and seeds.",
    )


def format_distinguishable_items(
    distinguishable: DistinguishableItems, question: Inquiry, is_own_data: bool = True
) -> str:
    """Return a sentence on how many items have a count that clearly exceeds the noise.

    Args:
        distinguishable: the numbers of items.
        question: the inquiry.
        is_own_data: whether the reader owns the data.
    """
    n_clear = distinguishable.n_distinguishable
    count = f"{n_clear:,}" if n_clear else "none"
    return (
        f"At epsilon {question.epsilon:g}, **{count}** of {'your' if is_own_data else 'the'}"
        f" {format_count(distinguishable.n_items, 'item')}"
        f" {'has' if n_clear == 1 else 'have'} enough ratings to stand out from the noise"
    )


def explain_distinguishable_items(task: Task) -> str:
    """Explain what it means that an item's count clearly exceeds the noise."""
    quantity = "surplus of likes or dislikes" if task is Task.BINARY else "count"
    return (
        f"An item stands out if its {quantity} is more than {MIN_NOISE_DEVIATIONS:g} standard"
        " deviations of the noise on it. This reads raw data, before any run: it is for your eyes"
        " only."
    )


def format_verdict(finding: Finding) -> str:
    """Return the verdict with the limit that it is measured against."""
    limit = f"keep {100 * finding.question.keep:g} % of the benefit"
    text = {
        Verdict.AFFORDABLE: f"**Affordable** at your limit: {limit}.",
        Verdict.NOT_AFFORDABLE: f"**Not affordable** at your limit: {limit}.",
        Verdict.CANNOT_TELL: f"**We cannot tell**: the interval crosses your limit ({limit}).",
        Verdict.NO_GAIN: "**We cannot tell**: personal predictions add nothing measurable here.",
        Verdict.BEATEN: "**We cannot tell**: our reference without privacy is worse than this.",
        Verdict.TOO_EARLY: "**We cannot tell** yet: an interval needs two seeds and two users.",
    }[finding.verdict]
    if _is_clearly_worse(finding):
        baseline_name = _name_baseline(finding)
        text += f" It is worse than {baseline_name}: use {baseline_name} instead."
    return f"Provisional, more seeds follow: {text}" if finding.provisional else text


def _format_metrics(finding: Finding) -> str:
    """Return the metric with privacy, without privacy and of the baseline.

    Shares are counted out of 100, or out of 1000 where one of them is below a tenth.
    """
    task = finding.question.task
    values = finding.method, finding.reference, finding.baseline
    base = 100 if min(interval.value for interval in values) >= 0.1 else 1000
    number_format, factor = (".3f", 1) if task is Task.RATINGS else (".0f", base)
    private_text, reference_text, baseline_text = (
        _format_interval(interval, number_format, factor, value_only=k > 0)
        for k, interval in enumerate(values)  # only the mechanism's interval is written
    )
    text = {
        Task.RATINGS: f"Predictions are off by {private_text}"
        f" {finding.question.metric.in_units_of(finding.public).unit} (RMSE)",
        Task.BINARY: f"Of {base:,} held-out ratings, {private_text} are predicted right as like"
        " or dislike",
        Task.RANKING: f"Of {base:,} users shown ten items, {private_text} find the held-out one",
    }[task]
    without = "without privacy" if finding.question.reference is None else "by your own model"
    return (
        f"{text}; {reference_text} {without}; {baseline_text}"
        f" {_BASELINE_PHRASES.get(finding.baseline_id, 'with the floor')}."
    )


def _format_kept_share(finding: Finding) -> str:
    """Return a sentence on the share of the gain that is kept; empty without a gain."""
    if finding.gain_share is None:
        return ""
    caveat = ""
    if finding.gain_share.low <= 0:
        limit = "worse than {}" if _is_clearly_worse(finding) else numbers.UNCLEAR
        caveat = f": {limit.format(_name_baseline(finding))}"
    return (
        f" You keep **{_format_percent_interval(finding.gain_share)}** of what personal predictions"
        f" add{caveat}."
    )


def _is_clearly_worse(finding: Finding) -> bool:
    """Return whether the mechanism loses to its baseline, by the interval of the gain share."""
    return finding.gain_share is not None and finding.gain_share.high < 0


def _name_baseline(finding: Finding) -> str:
    """Return the name of the baseline as it stands in a sentence."""
    return format_baseline_name(finding.baseline_id)


def _format_percent_interval(share: IntervalEstimate) -> str:
    """Return '79 % (71 to 86 %)', or that an end is unknown."""
    value, low, high = (100 * bound for bound in share)
    ends = f"{low:.0f} to {high:.0f} %" if math.isfinite(low + high) else "no bound on one side"
    return f"{value:.0f} % ({ends})".replace("-0 ", "0 ")  # a small negative share rounds to -0


def _format_interval(
    interval: IntervalEstimate, number_format: str, factor: float, *, value_only: bool
) -> str:
    """Return '0.912 (0.905 to 0.919)', without the interval if it is unknown or not requested.

    Args:
        interval: the value with its interval; negative numbers are displayed as 0.
        number_format: format of the numbers.
        factor: what they are multiplied by.
        value_only: whether to leave the interval out.
    """
    value, low, high = (f"{factor * max(bound, 0):{number_format}}" for bound in interval)
    if value_only or not math.isfinite(interval.high - interval.low):
        return value
    return f"{value} ({low} to {high})"


def _format_unit(finding: Finding) -> str:
    """Return what is protected, at which epsilon, and what a year of releases costs."""
    question = finding.question
    cost = finding.cost
    delta = f", delta {format_delta(question.delta)}"
    epsilon = (
        f"epsilon {format_epsilon(cost.certified.epsilon)}{delta * bool(cost.certified.delta)}"
    )
    if _finite_or_none(cost.replaced):
        epsilon += (
            f". It counts as epsilon {format_epsilon(cost.replaced)} against an attacker who knows"
            " that a person takes part and asks what this person rated"
        )
    text = (
        f"Privacy unit: {_UNIT_PHRASES[question.privacy_unit, question.task]}. One publication"
        f" costs {epsilon}."
    )
    if question.times > 1:
        each = format_epsilon(cost.per_release, round_down=True)
        often = FREQUENCY_LABELS.get(question.times, f"{question.times:,} times")
        text += (
            f" **Publishing {often} for a year costs epsilon {format_epsilon(cost.year)}{delta}; to"
            f" stay at {question.epsilon:g}, use {each} each time.** The accuracy above is for"
            f" epsilon {question.epsilon:g} each time. The curve shows what is left at {each}."
        )
    return text


def _format_attacker(finding: Finding) -> str:
    """Return how often the best attacker is right after one publication, and after a year."""
    question = finding.question
    attacker_question = cards.format_attacker_question(
        question.change, clicks=question.task is Task.RANKING
    )
    text = cards.describe_attacker_limit(attacker_question, finding.attack.right)
    if question.times == 1:
        return text
    return (
        f"{text} This is for one publication: **with all {question.times:,} of a year, the attacker"
        f" {cards.format_success_rate(finding.attack_of_year)} of the time.**"
    )


def _format_payer(payer: Payer) -> str:
    """Return the name of a group that loses most accuracy."""
    if payer.by == "users":
        return f"users with fewer than {payer.limit:,} ratings"
    return f"items outside the top {payer.limit:,}"


class GainAtEpsilon(NamedTuple):
    """The share of the gain that a method keeps at one epsilon of its curve.

    The names of the fields are those that `dpmc answer --json` prints.

    Attributes:
        epsilon: the setting of the run.
        value: mean of the metric over seeds.
        share: share of the gain by the means over seeds, or None where there is no gain.
        said: the share in words.
        clear: whether the seeds distinguish the gain from none.
    """

    epsilon: float
    value: float
    share: float | None
    said: str
    clear: bool = True


def list_gains_by_epsilon(
    chart: CurveChart, mechanism: str, reference: float | None = None
) -> list[GainAtEpsilon]:
    """Return the share of the gain at each computed epsilon of a mechanism's curve.

    Args:
        chart: the chart with the curve, its baseline and the nonprivate reference.
        mechanism: id of the mechanism.
        reference: metric of the user's own reference, which replaces that of the chart.

    Returns:
        Empty without the curve, a baseline or a reference.
    """
    line = next((candidate for candidate in chart.lines if candidate.mechanism == mechanism), None)
    if line is None:
        return []
    best = None if reference is None else Interval(reference, 0.0, 0)
    gains = []
    for epsilon, value in zip(line.epsilon.tolist(), line.band.mean.tolist(), strict=True):
        gain_share = numbers.compute_gain_share(chart, line, epsilon, best)
        if gain_share is not None:
            gains.append(
                GainAtEpsilon(
                    epsilon,
                    value,
                    _finite_or_none(gain_share.share),
                    gain_share.label,
                    gain_share.is_clear,
                )
            )
    return gains


def describe_gains(gains: list[GainAtEpsilon], keep: float, chart: CurveChart) -> str:
    """Describe from which epsilon on enough of the gain is kept, by the means over seeds.

    This is no verdict: where there is one, it compares the same users and seeds instead. The text
    is empty where the curve has fewer than two points.

    Args:
        gains: the share of the gain at each epsilon, in increasing order.
        keep: the share that must be left.
        chart: the curve.
    """
    if len(gains) < 2:
        return ""
    keeps_enough = [
        point.clear and point.share is not None and point.share >= keep for point in gains
    ]
    limit = f"{100 * keep:g} % of the benefit"
    average = f"On average over {format_count(len(chart.lines[0].seeds), 'seed')}"
    if not gains[-1].clear:
        return f"{average}, no benefit shows clearly, so we cannot tell yet whether {limit} is kept"
    first = numbers.find_lasting_epsilon([point.epsilon for point in gains], keeps_enough)
    if first is None:
        return f"{average}, no epsilon up to {gains[-1].epsilon:g} keeps {limit}"
    return f"{average}, {limit} is kept from epsilon {first:g} on"


def tabulate_gains(gains: list[GainAtEpsilon], chart: CurveChart) -> Table:
    """Return the gains by epsilon as columns of text; the shares are those of its seeds alone."""
    return build_table(
        (
            "epsilon",
            chart.metric.title,
            f"share of the gain, by {format_count(len(chart.lines[0].seeds), 'seed')} alone",
        ),
        (
            (
                f"{point.epsilon:g}",
                chart.metric.format_value(point.value),
                f"{100 * (point.share or 0):.0f} %" if point.clear else point.said,
            )
            for point in gains
        ),
    )


def tabulate_answer(finding: Finding, chart: CurveChart, baseline: str, reference: str) -> Table:
    """Return the verdict with its numbers, then the curve of the method, for programs to read.

    Args:
        finding: the answer.
        chart: the curve of the method.
        baseline: name of the baseline, from which the gain is counted.
        reference: name of the nonprivate reference, up to which the gain is counted.
    """
    question = finding.question
    epsilon = question.epsilon
    rows: list[Sequence[Any]] = [
        ("verdict", finding.verdict.value, epsilon, "", "", ""),
        ("metric", question.metric.title, "", "", "", ""),
        ("share to keep", "", "", question.keep, "", ""),
        ("share of the gain", "", epsilon, *(finding.gain_share or ("", "", ""))),
        ("with privacy", finding.mechanism.name, epsilon, *finding.method),
        ("baseline", baseline, epsilon, *finding.baseline),
        ("reference", reference, "", *finding.reference),
    ]
    for line in chart.lines:  # every point of a band but its number of seeds, which comes last
        rows += (("curve", line.label, *point) for *point, _ in zip(*line.band, strict=True))
    return build_table(("what", "name", "epsilon", "value", "from", "to"), rows)


def serialise_finding(finding: Finding) -> dict[str, Any]:
    """Return a finding as plain JSON values, with null for what is infinite or missing."""
    question = finding.question
    cost = finding.cost
    return {
        "verdict": finding.verdict.value,
        "keep": question.keep,
        "mechanism": finding.mechanism.id,
        "metric": question.metric.name,
        "method": _serialise_interval(finding.method),
        "reference": _serialise_interval(finding.reference),
        "floor": _serialise_interval(finding.baseline),
        "baseline": finding.baseline_id,
        "kept": finding.gain_share and _serialise_interval(finding.gain_share),
        "unit": question.change.unit,
        "neighbours": question.change.neighbours,
        "certified": {"epsilon": cost.certified.epsilon, "delta": cost.certified.delta},
        "replaced": _finite_or_none(cost.replaced),
        "releases_a_year": question.times,
        "epsilon_of_a_year": _finite_or_none(cost.year),
        "delta_of_a_year": question.delta,
        "epsilon_each": _finite_or_none(cost.per_release),
        "attacker": finding.attack._asdict(),
        "pays_most": [
            payer._asdict()
            | {"loss": _serialise_interval(payer.loss), "others": _serialise_interval(payer.others)}
            for payer in finding.payers
        ],
        "split": finding.split,
        "users": finding.users,
        "seeds": finding.seeds,
        "provisional": finding.provisional,
        "private_fits": finding.n_private_fits,
        "most_rated_items": count_head_items(finding.public.items),
        "said": {
            name: strip_bold(text)
            for name, text in format_answer(finding)._asdict().items()
            if text
        },
        "evaluation": EVALUATION_ONLY,
    }


def strip_bold(text: str) -> str:
    """Remove the Markdown marks of bold from a text."""
    return text.replace("**", "")


def _serialise_interval(interval: IntervalEstimate) -> dict[str, float | None]:
    """Return an interval as plain JSON values, with null for infinite ends."""
    return {name: _finite_or_none(value) for name, value in interval._asdict().items()}


def _finite_or_none(value: float | None) -> float | None:
    """Return a number, or None if it is infinite or missing."""
    return value if value is not None and math.isfinite(value) else None
