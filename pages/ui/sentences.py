"""Write the sentences of What if: the answer on top, titles of charts, and the panel's notes.

A sentence on top is a list of pairs: a text, and what it is ("risk", "use" or "").
"""

import math
from collections.abc import Sequence
from typing import Any

from dpmc_core.metrics import Metric
from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import (
    RATING,
    Guarantee,
    ModifiedLaplace,
    RandomizedResponse,
    Release,
    Trust,
)
from dpmc_core.privacy.accounting import attacker_certainty
from dpmc_core.ratings import PublicFacts
from dpmc_lab.measured import MeasuredBound
from dpmc_lab.study.advice import PrivacyUnit
from dpmc_lab.views import cards, lines, numbers
from dpmc_lab.views.cards import MAX_INFORMATIVE_RATE
from dpmc_lab.views.lines import Curve, CurveChart
from dpmc_lab.views.measurements import find_default_measured_bound
from dpmc_lab.views.people import QUANTILES, compute_tolerance
from dpmc_lab.views.text import Table
from dpmc_lab.views.trade import AttackerQuestion
from dpmc_lab.views.what_if import Stop
from pages.ui.text import keep_units

Sentence = list[tuple[str, str]]

UNIT_LABELS = {
    PrivacyUnit.RATING: "each rating",
    PrivacyUnit.PERSON: "the whole person",
}
# Baselines by what they are: at the end of a line, and in a sentence.
_BASELINES = {
    "private-own-mean": ("own average", "her own average"),
    "private-alone": ("own ratings and public facts", "a model of her own ratings alone"),
    "private-popularity": ("popular list", "one popular list"),
    "local-popularity": ("popular list", "one popular list"),
}
_OTHER_BASELINE = ("one answer for all", "one answer for all")
FULL = "as good as without privacy"
_NEAR_COIN = 0.605  # the largest limit whose title calls it close to a coin flip


def name_baseline(id: str, *, short: bool = False) -> str:
    """Return what a baseline is."""
    return _BASELINES.get(id, _OTHER_BASELINE)[not short]


def name_rating(task: Task) -> str:
    """Return what one entry is called."""
    return "click" if task is Task.RANKING else "rating"


# --- the answer -------------------------------------------------------------------------------


def write_answer(
    chart: CurveChart, stop: Stop, rated: int = cards.TYPICAL_RATINGS, *, refuted: bool = False
) -> Sentence:
    """Write what an epsilon means: how often an attacker is right, and how useful the result is.

    Args:
        chart: the curve.
        stop: the method at the epsilon.
        rated: number of ratings of the person.
        refuted: whether an attack found more than the method claims.
    """
    answer = [
        (f"At epsilon {stop.epsilon:g}, ", ""),
        *_write_risk(stop, rated, refuted),
        (". ", ""),
        *_write_usefulness(chart, stop),
    ]
    return [(keep_units(text), role) for text, role in answer]


def _write_risk(stop: Stop, rated: int, refuted: bool) -> Sentence:
    single, rating = stop.risk, name_rating(stop.mechanism.task)
    if refuted or not single.is_bounded:
        state = "the claim is refuted" if refuted else "no limit is proved"
        return [(state, "risk"), (describe_attack(stop.mechanism, stop.epsilon), "")]
    if stop.guarantee.change.per_user:
        attacker = f"{cards.ATTACKER} between two sets of {rating}s"
        if not single.is_informative:
            return [
                ("there is no useful limit", "risk"),
                (f" on {attacker}, nor about ", ""),
                (f"one {rating}", "risk"),
            ]
        return [
            (f"{attacker} picks ", ""),
            (f"hers at most {single.label}", "risk"),
            (" of the time; ", ""),
            (f"one {rating}", "risk"),
            (" is no easier", ""),
        ]
    if not single.is_informative:
        return [
            ("there is no useful limit", "risk"),
            (f" on {cards.ATTACKER}, about ", ""),
            (f"one {rating}", "risk"),
            (" or ", ""),
            (f"all her {rating}s", "risk"),
        ]
    everything = stop.person_risks[rated]
    limit = "there is no useful limit"
    if everything.is_informative:
        limit = f"at most {everything.label}"
    return [
        (f"{cards.ATTACKER} is right about ", ""),
        (f"one {rating}", "risk"),
        (" at most ", ""),
        (single.label, "risk"),
        (" of the time; about ", ""),
        (f"all her {rating}s", "risk"),
        (" together " if rating == "rating" else " ", ""),
        (limit if everything.is_bounded else "no limit is proved", "risk"),
    ]


def describe_attack(mechanism: Mechanism, epsilon: float | None = None) -> str:
    """Return what an attack measured of a method, as the end of a sentence; empty without one.

    Args:
        mechanism: the method.
        epsilon: the epsilon in question, if the sentence names it.
    """
    bound = find_default_measured_bound(mechanism.id)
    if bound is None:
        return ""
    start = "an attack" if epsilon == bound.epsilon else f"at epsilon {bound.epsilon:g} an attack"
    leak = cards.format_epsilon(bound.measured, round_down=True)
    rate = math.floor(1000 * min(compute_measured_rate(bound), MAX_INFORMATIVE_RATE)) / 10
    return (
        f": {start} measured epsilon {leak} or more, which allows being right {rate:.1f} % of the"
        " time"
    )


def compute_measured_rate(bound: MeasuredBound) -> float:
    """Return how often a measured epsilon allows an attacker to be right."""
    return attacker_certainty(bound.measured, bound.delta)


def _write_usefulness(chart: CurveChart, stop: Stop) -> Sentence:
    line, metric = chart.first_line, chart.metric
    if line is None or stop.interval is None:
        return [
            (f"Usefulness: not computed {'at this epsilon' if line else 'yet'}", "use"),
            (".", ""),
        ]
    baseline_name = name_baseline(chart.baseline_id(line))
    levels = {
        name: interval.mean
        for name, curve in (
            ("without privacy", chart.nonprivate_reference),
            (f"with {baseline_name}", _find_baseline(chart, line)),
        )
        if curve is not None and (interval := curve.interval_at(stop.epsilon)) is not None
    }
    value, *figures = map(metric.format_value, (stop.interval.mean, *levels.values()))
    phrases = [f"{figure} {name}" for figure, name in zip(figures, levels, strict=True)]
    end = f": {', '.join(phrases)}" * bool(phrases)
    state = compare_with_ends(chart, stop)
    if state:  # which needs both levels
        is_full = state == FULL
        named = state if is_full else f"{state} {baseline_name}"
        end = f", {named} ({figures[not is_full]}); {phrases[is_full]}"
    start, middle = {
        "accuracy": ("Predictions are ", f"{value} right"),
        "rmse": (f"Predicted {metric.unit.split(' ')[-1]} are ", f"off by {value}"),
    }.get(metric.name, ("", f"{value} of next items"))
    found = " are in ten suggestions" * bool(metric.candidates)
    return [(start, ""), (middle, "use"), (f"{found}{end}.", "")]


def _find_baseline(chart: CurveChart, line: Curve) -> Curve | None:
    """Return the curve of a line's baseline; None where it is missing or the line itself."""
    id = chart.baseline_id(line)
    curves = (*chart.baselines, *chart.lines)
    return next((curve for curve in curves if curve.mechanism == id != line.mechanism), None)


def compare_with_ends(chart: CurveChart, stop: Stop) -> str:
    """Return in words where a method is not clearly between its baseline and no privacy.

    Runs are compared seed by seed. The result is empty where the method is clearly between both, or
    where a number is missing.
    """
    line, reference = chart.first_line, chart.nonprivate_reference
    baseline = line and _find_baseline(chart, line)
    if line is None or baseline is None or reference is None or stop.interval is None:
        return ""
    metric, epsilon = chart.metric, stop.epsilon
    sign = numbers.compare_by_seed(metric, line, baseline, epsilon)
    if sign == 1 and numbers.compare_by_seed(metric, reference, line, epsilon) == 0:
        return FULL
    return {-1: "worse than", 0: "no clear gain over"}.get(1 if sign is None else sign, "")


def render_answer(sentence: Sentence) -> str:
    """Return the sentence as HTML, which the instrument writes anew as its knob moves."""
    spans = "".join(f'<span class="{role}">{text}</span>' for text, role in sentence)
    return f'<p class="dpmc-say" aria-live="polite">{spans}</p>'


def write_guess(question: AttackerQuestion, task: Task) -> dict[str, Any]:
    """Write what a player guesses, and the two answers."""
    if question.change is RATING and task is Task.BINARY:
        return {"text": "Was that rating a like or a dislike?", "answers": ("like", "dislike")}
    return {"text": question.text, "answers": question.answers}


# --- titles of the two charts, which conclude --------------------------------------------------


def write_risk_title(stop: Stop, rated: int, *, refuted: bool) -> str:
    """Write what the upper chart says at an epsilon."""
    risk, rating = stop.risk, name_rating(stop.mechanism.task)
    if refuted:
        return "Risk: the claim is refuted"
    if not risk.is_bounded:
        return "Risk: no limit is proved"
    if not risk.is_informative:
        return "Risk: no useful limit"
    if not stop.guarantee.change.per_user:
        return f"Risk: {rated} {rating}s add up"
    distance = "close to" if risk.success_rate <= _NEAR_COIN else "well above"
    return f"Risk: {distance} a coin flip"


def write_usefulness_title(chart: CurveChart, stop: Stop) -> str:
    """Write what the lower chart says at an epsilon, best the share of the benefit."""
    share, line = stop.benefit, chart.first_line
    if stop.interval is None or line is None:
        return "Usefulness: not computed yet"
    if share is not None and share.is_clear:
        kept, low, high = (100 * value for value in (share.share, share.low, share.high))
        interval = f" ({low:.0f} to {high:.0f} %)" if high - low >= 1 else ""
        return f"Usefulness: {kept:.0f} %{interval} of the benefit stays"
    state = compare_with_ends(chart, stop)
    if state and state != FULL:
        state += f" {name_baseline(chart.baseline_id(line))}"
    return "Usefulness" + f": {state}" * bool(state)


def describe_metric(metric: Metric) -> str:
    """Return what the lower axis measures, in which better is always further up."""
    return {
        "accuracy": "predicted right",
        "rmse": f"error in {metric.unit}, up is better",
    }.get(metric.name, "next item among ten suggestions")


def tabulate_risk(stops: Sequence[Stop], rated: int) -> Table:
    """Return how often an attacker is right at most about one rating and about all, by epsilon."""
    rating = name_rating(stops[0].mechanism.task)
    return {
        "epsilon": [f"{stop.epsilon:g}" for stop in stops],
        f"one {rating}: right at most": [stop.risk.label for stop in stops],
        f"all {rated} {rating}s": [stop.person_risks[rated].label for stop in stops],
    }


# --- the panel --------------------------------------------------------------------------------


def write_person(name: str, position: int) -> str:
    """Write who is shown, and by which rule, in which results play no part."""
    if position == 0:
        return f"A typical user (median activity): {name}"
    return f"Another user ({100 * QUANTILES[position]:.0f} % of people rate less): {name}"


def describe_reports(release: Release, public: PublicFacts, metric: Metric) -> dict[str, Any]:
    """Describe the marks of reports, as JSON: their key, and the words after their counts.

    The words follow how many are changed. A question mark stands for how many are missing, a hash
    for how many are true.
    """
    if isinstance(release, RandomizedResponse):
        if public.low < 0:
            marks = [("full", "like"), ("", "dislike"), ("turned full", ""), ("turned", "flipped")]
            words = [" flipped", ", # true: a majority guess is "]
            return {"key": marks, "words": words, "hollow": True, "majority": True}
        words = [" hidden", ", # sent. Clicks she never made are sent, too."]
        return {"key": [("full", "click"), ("turned", "hidden")], "words": words, "hollow": True}
    changed, true = "changed", "true"
    if isinstance(release, ModifiedLaplace):
        tolerance = lines.format_short_number(compute_tolerance(public))
        changed, true = f"moved by more than {tolerance} {metric.unit}", "close to the truth"
    key = [("full", "true"), ("turned full", changed.split()[0]), ("missing", "not sent")]
    return {"key": key, "words": [f" {changed}", f", ? not sent, # {true}."]}


def write_protection(guarantee: Guarantee, task: Task, *, refuted: bool) -> list[str]:
    """Write what the noise hides of a trusted server's work, after the word itself."""
    rating = name_rating(task)
    hidden = f"all her {rating}s" if guarantee.change.per_user else f"any one {rating}"
    verb = "hides" if cards.is_upheld(guarantee) else "is claimed to hide"
    end = ", which an attack refuted" * refuted
    insider = "Her own party" if guarantee.trust is Trust.FEDERATED else "The server"
    return ["The ", "noise", f" {verb} {hidden}{end}. {insider} sees them."]


def write_notes(guarantee: Guarantee, task: Task, items: str) -> str:
    """Write what no epsilon covers, and what the limits are about."""
    pattern = f"Which {items} she rated is not hidden. " * (not guarantee.change.covers_existence)
    added = f"this bounds what her {name_rating(task)}s add."
    return f"{pattern}A crowd's taste can be guessed without her; {added}"
