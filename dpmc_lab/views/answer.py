"""Put the answer to an inquiry into sentences; those without a computed number are left out."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dpmc_core.errors import capitalise, format_number
from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.mechanisms.private_effects import PrivateEffects
from dpmc_core.model import Mechanism, Task
from dpmc_lab.study.advice import PrivacyUnit
from dpmc_lab.study.answer import (
    MIN_NOISE_DEVIATIONS,
    BudgetPeriod,
    DistinguishableItems,
    Finding,
    Inquiry,
    Payer,
    Verdict,
    count_head_items,
    read_epsilon,
)
from dpmc_lab.study.paired import IntervalEstimate
from dpmc_lab.study.release_command import FROM_DATA, ReleaseCommand
from dpmc_lab.views import cards, numbers
from dpmc_lab.views.cards import format_delta, format_epsilon
from dpmc_lab.views.lines import Curve, CurveChart, Interval, format_baseline_name
from dpmc_lab.views.text import Table, build_table, format_count, format_split

# What stands beside a curve once there is a verdict.
SEEDS_NOTE = (
    "The curve shows averages over its seeds, of a publication that stands alone. The verdict"
    " compares user by user, so its numbers may differ a little; it decides."
)
FREQUENCY_LABELS: Mapping[int, str] = {1: "once", 12: "monthly", 52: "weekly", 365: "daily"}
BUDGET_LABELS: Mapping[BudgetPeriod, str] = {
    BudgetPeriod.YEAR: "a year",
    BudgetPeriod.PUBLICATION: "each publication",
}
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
        year: the same of a year of publications that learn from each other, or that none does.
        unit: what is protected, the budget, and what it leaves to each publication.
        attacker: how often the best attacker is right who has all publications of a year.
        against: who is kept from learning the data, and who is not.
        pays: which groups lose most.
        caution: a warning that the test used raw data.
        tested: the mechanism, the held-out ratings, and how many users and seeds.
    """

    verdict: str
    found: str
    year: str
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
        f"{_format_metrics(finding)}{_format_kept_share(finding, finding.gain_share)}"
        f"{_ADVICE.get(finding.decision[0], '') * (not finding.provisional)}",
        _format_year(finding),
        _format_unit(finding),
        _format_attacker(finding),
        _PROTECTION_SENTENCES[finding.question.privacy_unit],
        f"{capitalise(payer_text)} lose most." if payer_text else "",
        "These numbers come from a test on raw data with"
        f" {format_count(finding.n_private_fits, 'private fit')}"
        " behind this verdict. Keep them inside your organisation.",
        f"{finding.mechanism.name}, certified. Tested on {format_split(finding.split)}:"
        f" {format_count(finding.users, 'user')}, {format_count(finding.seeds, 'seed')}."
        " Intervals (95 %) are paired over users and seeds.",
    )


def introduce_release(finding: Finding, release: ReleaseCommand) -> str:
    """Return what the command of a release does, or why there is none.

    Args:
        finding: the answer about the mechanism.
        release: its command.
    """
    question, method = finding.question, finding.mechanism
    if not release.command:
        return f"{method.name} ({method.id}) cannot be released from these data. {release.note}"
    product, later = "a model", ""
    if question.times > 1:
        product = f"the first of {question.times:,} models of a year"
        later = (
            " The second command publishes the next model: name all earlier files after --after."
        )
    if finding.year and FROM_DATA not in shlex.split(release.command):
        first, average, last = (
            f"{interval.value:.3f}" for interval in (finding.method, *finding.year[:2])
        )
        later += (
            f" Keep these files, as each model learns from those before. That takes the error from"
            f" {first} to {average} on average over the year, and to {last} in the last model."
        )
    return (
        f"This command publishes {product} with the same promise. It trains {method.name}"
        f" ({method.id}) on all ratings with exact noise, and prints how a person gets"
        f" recommendations from the file.{later} {release.note}"
    ).strip()


def describe_split_files(question: Inquiry, folder: str, seeds: Sequence[int]) -> str:
    """Return what was written of each seed, and what to measure on it."""
    rule = " Rank the items that the training file does not have for the user."
    rule *= question.task is Task.RANKING
    return (
        f"Wrote train-{seeds[0]}.csv, test-{seeds[0]}.csv and so on to {folder}, a pair for each of"
        f" {format_count(len(seeds), 'seed')}. They hold raw ratings: keep them private. Train your"
        " own system on each training file, and measure it on the test file of the same seed."
        f" {question.metric.explanation}{rule} Then give the values in the order of the seeds:"
    )


def format_distinguishable_items(
    distinguishable: DistinguishableItems, method: Mechanism, is_own_data: bool = True
) -> str:
    """Return a sentence on how many items have a count that clearly exceeds the noise.

    Args:
        distinguishable: the numbers of items.
        method: the mechanism that adds the noise.
        is_own_data: whether the reader owns the data.
    """
    n_clear = distinguishable.n_distinguishable
    count = f"{n_clear:,}" if n_clear else "none"
    owner = "your" if is_own_data else "the"
    return (
        f"At epsilon {format_number(read_epsilon(method))}, **{count}** of {owner}"
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
    decision, share = finding.decision
    text = {
        Verdict.AFFORDABLE: f"**Affordable** at your limit: {limit}.",
        Verdict.NOT_AFFORDABLE: f"**Not affordable** at your limit: {limit}.",
        Verdict.CANNOT_TELL: f"**We cannot tell**: the interval crosses your limit ({limit}).",
        Verdict.NO_GAIN: "**We cannot tell**: personal predictions add nothing measurable here.",
        Verdict.BEATEN: "**We cannot tell**: our reference without privacy is worse than this.",
        Verdict.TOO_EARLY: "**We cannot tell** yet: an interval needs two seeds and two users.",
    }[decision]
    if _is_clearly_worse(share):
        baseline_name = _name_baseline(finding)
        text += f" It is worse than {baseline_name}: use {baseline_name} instead."
    if finding.year and decision is not Verdict.TOO_EARLY:
        text += (
            " This is about the average of a year; the first publication alone:"
            f" {finding.verdict.value}."
        )
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
    without = "by your own model" if finding.question.reference else "without privacy"
    return (
        f"{text}; {reference_text} {without}; {baseline_text}"
        f" {_BASELINE_PHRASES.get(finding.baseline_id, 'with the floor')}."
    )


def _format_kept_share(finding: Finding, share: IntervalEstimate | None) -> str:
    """Return a sentence on the share of the gain that is kept; empty without a gain."""
    if share is None:
        return ""
    caveat = ""
    if share.low <= 0:
        limit = "worse than {}" if _is_clearly_worse(share) else numbers.UNCLEAR
        caveat = f": {limit.format(_name_baseline(finding))}"
    return (
        f" You keep **{_format_percent_interval(share)}** of what personal predictions add{caveat}."
    )


def _is_clearly_worse(share: IntervalEstimate | None) -> bool:
    """Return whether a mechanism loses to its baseline, by the interval of the gain share."""
    return share is not None and share.high < 0


def _format_year(finding: Finding) -> str:
    """Return what a year of publications reaches that learn from each other, or that none does."""
    name = finding.mechanism.name
    if finding.year is None:
        is_alone = finding.question.times > 1 and not isinstance(finding.mechanism, PrivateEffects)
        return f"Each publication stands alone: {name} learns nothing from earlier ones." * is_alone
    average, last = (
        _format_interval(interval, ".3f", 1, value_only=False) for interval in finding.year[:2]
    )
    return (
        "That is the first publication. Each later one averages its noisy statistics with those of"
        f" the earlier ones. Over the year, predictions are then off by {average} on average,"
        f" and by {last} in the last publication, if the ratings stay the same."
        f"{_format_kept_share(finding, finding.year.kept)}"
    )


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
    """Return what is protected, the budget, and what it leaves to each publication."""
    question, cost = finding.question, finding.cost
    delta, total_delta = (
        f", delta {format_delta(certified.delta)}" * bool(certified.delta)
        for certified in (cost.certified, cost.year)
    )
    each = f"epsilon {format_number(read_epsilon(finding.mechanism))}"
    often = f"Publishing {FREQUENCY_LABELS.get(question.times, f'{question.times:,} times')}"
    here = f"every number here is at {each}"
    if question.times == 1:
        budget = f" for one publication{delta}; every number here is for it"
    elif question.per is BudgetPeriod.YEAR:
        budget = f" for a year{total_delta}. {often} leaves {each} each time; {here}"
    else:
        total = f"epsilon {format_epsilon(cost.year.epsilon)}{total_delta}"
        budget = f" for each publication{delta}; {here}. {often} for a year adds up to {total}"
    text = (
        f"Privacy unit: {_UNIT_PHRASES[question.privacy_unit, question.task]}. **Budget: epsilon"
        f" {format_number(question.epsilon)}{budget}.**"
    )
    if _finite_or_none(cost.replaced):
        subject = "It counts" if question.times == 1 else "The year counts"
        text += (
            f" {subject} as epsilon {format_epsilon(cost.replaced)} against an attacker who knows"
            " that a person takes part and asks what this person rated."
        )
    return text


def _format_attacker(finding: Finding) -> str:
    """Return how often the best attacker is right who has all publications of a year."""
    question = finding.question
    attacker_question = cards.format_attacker_question(
        question.change, clicks=question.task is Task.RANKING
    )
    limit = cards.describe_attacker_limit(attacker_question, finding.attack.right)
    if question.times == 1:
        return f"{limit} Another publication adds to it on the same ratings."
    return (
        f"{limit} **This holds for all {question.times:,} publications of a year together; next"
        " year's add to it on the same ratings.**"
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
        epsilon: the budget of the period.
        each: the epsilon that it leaves to each publication, which is the setting of the run.
        value: mean of the metric over seeds.
        share: share of the gain by the means over seeds, or None where there is no gain.
        said: the share in words.
        clear: whether the seeds distinguish the gain from none.
    """

    epsilon: float
    each: float
    value: float
    share: float | None
    said: str
    clear: bool = True


def place_on_budgets(chart: CurveChart, curve: Mapping[float, Mechanism]) -> CurveChart:
    """Return a chart over the budgets of a period instead of the epsilons of one publication.

    Rows at other epsilons, which came with the app, are left out.

    Args:
        chart: the chart by the setting of the runs.
        curve: the mechanism at each budget.
    """
    budgets = {read_epsilon(method): budget for budget, method in curve.items()}

    def place(curves: Sequence[Curve]) -> tuple[Curve, ...]:
        """Return the curves that have a value at one of the budgets."""
        placed = []
        for line in curves:
            rows = [k for k, e in enumerate(line.epsilon.tolist()) if line.is_level or e in budgets]
            if rows:
                epsilon = np.array([budgets.get(e, e) for e in line.epsilon[rows].tolist()])
                columns = {unit: epsilons[rows] for unit, epsilons in line.certified.items()}
                placed.append(
                    replace(
                        line,
                        epsilon=epsilon,
                        values=line.values[rows],
                        claimed=line.claimed[rows],
                        certified=columns,
                    )
                )
        return tuple(placed)

    return chart._replace(lines=place(chart.lines), baselines=place(chart.baselines))


def list_gains_by_epsilon(
    chart: CurveChart, question: Inquiry, curve: Mapping[float, Mechanism]
) -> list[GainAtEpsilon]:
    """Return the share of the gain at each computed budget of the recommended mechanism's curve.

    Args:
        chart: the chart over budgets, with the curve, its baseline and the nonprivate reference.
        question: the inquiry, whose own reference replaces that of the chart.
        curve: the mechanism at each budget.

    Returns:
        Empty without the curve, a baseline or a reference.
    """
    line = chart.first_line
    if line is None:
        return []
    reference = question.reference
    best = Interval(float(np.mean(reference)), 0.0, 0) if reference else None
    gains = []
    for epsilon, value in zip(line.epsilon.tolist(), line.band.mean.tolist(), strict=True):
        gain_share = numbers.compute_gain_share(chart, line, epsilon, best)
        if gain_share is not None:
            gains.append(
                GainAtEpsilon(
                    epsilon,
                    read_epsilon(curve[epsilon]),
                    value,
                    _finite_or_none(gain_share.share),
                    gain_share.label,
                    gain_share.is_clear,
                )
            )
    return gains


def caption_curve(question: Inquiry, method: Mechanism) -> str:
    """Return what the axis of the curve shows, and what the chosen budget leaves each time."""
    share = (
        f" It is for a year: epsilon {question.epsilon:g} leaves"
        f" {format_number(read_epsilon(method))} to each of {question.times:,} publications."
    )
    return (
        "Privacy budget epsilon: more private to the left, more accurate to the right."
        f"{share * (question.n_composed > 1)}"
    )


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
    period = " for a year" * (gains[-1].each < gains[-1].epsilon)
    if not gains[-1].clear:
        return f"{average}, no benefit shows clearly, so we cannot tell yet whether {limit} is kept"
    first = numbers.find_lasting_epsilon([point.epsilon for point in gains], keeps_enough)
    if first is None:
        return f"{average}, no epsilon up to {gains[-1].epsilon:g}{period} keeps {limit}"
    return f"{average}, {limit} is kept from epsilon {first:g}{period} on"


def tabulate_gains(gains: list[GainAtEpsilon], chart: CurveChart) -> Table:
    """Return the gains by epsilon as columns of text; the shares are those of its seeds alone.

    A budget for a year has what it leaves to each publication beside it.
    """
    n_columns = 1 + (gains[-1].each < gains[-1].epsilon)
    return build_table(
        (
            *(("epsilon",), ("epsilon for a year", "epsilon each time"))[n_columns - 1],
            chart.metric.title,
            f"share of the gain, by {format_count(len(chart.lines[0].seeds), 'seed')} alone",
        ),
        (
            (
                *map(format_number, (point.epsilon, point.each)[:n_columns]),
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
    epsilon = question.epsilon  # of the period, as in the curve
    rows: list[Sequence[Any]] = [
        ("verdict", finding.verdict.value, epsilon, "", "", ""),
        ("metric", question.metric.title, "", "", "", ""),
        ("share to keep", "", "", question.keep, "", ""),
        ("epsilon of one publication", "", epsilon, read_epsilon(finding.mechanism), "", ""),
        ("share of the gain", "", epsilon, *(finding.gain_share or ("", "", ""))),
        ("with privacy", name := finding.mechanism.name, epsilon, *finding.method),
        ("baseline", baseline, epsilon, *finding.baseline),
        ("reference", reference, "", *finding.reference),
    ]
    if year := finding.year:
        rows += [
            ("verdict over the year", year.verdict.value, epsilon, "", "", ""),
            ("share over the year", "", epsilon, *(year.kept or ("", "", ""))),
            ("with privacy over the year", name, epsilon, *year.method),
            ("with privacy at the end", name, epsilon, *year.last),
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
        "year": finding.year
        and {
            "verdict": finding.year.verdict.value,
            "method": _serialise_interval(finding.year.method),
            "last": _serialise_interval(finding.year.last),
            "kept": finding.year.kept and _serialise_interval(finding.year.kept),
        },
        "replaced": _finite_or_none(cost.replaced),
        "releases_a_year": question.times,
        "budget_per": question.per.value,
        "epsilon_of_a_year": _finite_or_none(cost.year.epsilon),
        "delta_of_a_year": cost.year.delta,
        "epsilon_each": read_epsilon(finding.mechanism),
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
