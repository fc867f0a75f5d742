"""Write the sentences of What if: the answer on top, titles of charts, and the panel's notes.

A sentence on top is a list of pairs: a text, and what it is ("risk", "use", "coin" or "").
"""

from collections.abc import Sequence
from typing import Any

from dpmc_core.metrics import Metric
from dpmc_core.model import Task
from dpmc_core.privacy import (
    CELL,
    RATING,
    USER_REPLACED,
    Guarantee,
    ModifiedLaplace,
    RandomizedResponse,
    Release,
    Trust,
)
from dpmc_core.ratings import PublicFacts
from dpmc_lab.study.advice import PrivacyUnit
from dpmc_lab.views import cards, lines, numbers
from dpmc_lab.views.lines import CurveChart
from dpmc_lab.views.measurements import find_default_measured_bound
from dpmc_lab.views.numbers import GainShare
from dpmc_lab.views.people import QUANTILES, compute_tolerance
from dpmc_lab.views.text import Table
from dpmc_lab.views.trade import AttackerQuestion, Risk
from dpmc_lab.views.what_if import Stop
from pages.ui.text import keep_units

Sentence = list[tuple[str, str]]

UNIT_LABELS = {
    PrivacyUnit.RATING: "Protect each rating",
    PrivacyUnit.PERSON: "Protect the whole person",
}
# Who sees raw ratings, then what is computed from them, and who sees the result.
RAW_DATA_FLOW = {
    Trust.CURATOR: ("the server sees them", "computed together", "everyone may see it"),
    Trust.FEDERATED: ("her own party sees them", "in all parties", "the server sees it"),
}
# Baselines by what they are: at the end of a line, and in a sentence.
_BASELINES = {
    "private-majority": ("same for all", "the same answer for all"),
    "private-own-mean": ("own average", "each person's own average"),
    "private-alone": ("own ratings and public facts", "a model of each person's own ratings"),
    "private-popularity": ("popular list", "one popular list for all"),
    "local-popularity": ("popular list", "one popular list for all"),
}
_OTHER_BASELINE = ("same for all", "one number for all")


def name_baseline(id: str, *, short: bool = False) -> str:
    """Return what a baseline is."""
    return _BASELINES.get(id, _OTHER_BASELINE)[not short]


def name_rating(task: Task) -> str:
    """Return what one entry is called."""
    return "click" if task is Task.RANKING else "rating"


# --- the answer -------------------------------------------------------------------------------


def write_answer(chart: CurveChart, stop: Stop) -> Sentence:
    """Write what an epsilon means: how often an attacker is right, and how useful the result is."""
    answer = [*_write_risk(stop), (" ", ""), *_write_usefulness(chart, stop)]
    return [(keep_units(text), role) for text, role in answer]


def _write_risk(stop: Stop) -> Sentence:
    """Return how often an attacker is right at most, or that no limit is proved."""
    risk, mechanism = stop.risk, stop.mechanism
    start = f"At epsilon {stop.epsilon:g}, "
    if not risk.is_bounded:
        bound = find_default_measured_bound(mechanism.id)
        leak = bound and cards.format_epsilon(bound.measured, round_down=True)
        attack_note = (
            f" An attack found a leak of at least epsilon {leak} at epsilon 1." if leak else ""
        )
        return [
            (start, ""),
            ("no limit on the attacker is proved", "risk"),
            (f".{attack_note}", ""),
        ]
    verb, at_most = ("is", "at most ") if risk.is_informative else ("may be", "")
    subject = _name_subject(risk.question, mechanism.task)
    return [
        (f"{start}{cards.ATTACKER} {verb} right about {subject} {at_most}", ""),
        (f"{risk.label} of the time", "risk"),
        (" ", ""),
        ("(a coin flip: 50 %).", "coin"),
    ]


def _name_subject(question: AttackerQuestion, task: Task) -> str:
    """Return what the attacker is right about; of a rating on a scale, one of two values."""
    rating = name_rating(task)
    one = f"whether one {rating} is high or low" if task is Task.RATINGS else f"one {rating}"
    return {RATING: one, CELL: f"whether one {rating} exists"}.get(
        question.change, f"whether a person's {rating}s were used"
    )


def _write_usefulness(chart: CurveChart, stop: Stop) -> Sentence:
    """Return the metric beside no privacy, or beside the baseline where that is not beaten."""
    line, epsilon, metric = chart.first_line, stop.epsilon, chart.metric
    if line is None or stop.interval is None:
        return [
            (f"Usefulness: not computed {'at this epsilon' if line else 'yet'}", "use"),
            (".", ""),
        ]
    baseline_id, reference = chart.baseline_id(line), chart.nonprivate_reference
    values = [stop.interval.mean, *([reference.interval.mean] if reference else [])]
    value, *without = _round_apart(metric, values)
    end = f"; without privacy {without[0]}" if without else ""
    baselines = (*chart.baselines, *chart.lines)
    ids = [curve.mechanism for curve in baselines]
    if baseline_id in ids and baseline_id != line.mechanism:
        baseline_name = name_baseline(baseline_id)
        # 1: clearly better than the baseline; -1: clearly worse; 0: neither; None: not comparable.
        sign = numbers.compare_by_seed(metric, line, baselines[ids.index(baseline_id)], epsilon)
        if sign == -1:
            end = f", worse than {baseline_name}"
        elif sign == 0:
            end = f". The runs cannot distinguish this from {baseline_name}"
        elif sign and reference and numbers.compare_by_seed(metric, reference, line, epsilon) == 0:
            end = ", as good as without privacy"
    start, middle = {
        "accuracy": ("Predictions are ", f"{value} right"),
        "rmse": ("Predicted ratings are typically off by ", f"{value} {metric.unit}"),
    }.get(metric.name, ("", f"{value} of people"))
    if metric.candidates:
        end = " find the next item among ten suggestions" + end
    return [(start, ""), (middle, "use"), (f"{end}.", "")]


def _round_apart(metric: Metric, values: list[float]) -> list[str]:
    """Return values with as few digits as keep them apart."""
    rounded, finer = (
        [f"{100 * v:.{digits}f} %" if metric.is_share else f"{v:.{digits + 2}f}" for v in values]
        for digits in (0, 1)
    )
    return rounded if len({*rounded}) == len(rounded) else finer


def write_benefit(share: GainShare | None) -> str:
    """Write how much of the benefit is kept, only where that is clear."""
    if share is None or not share.is_clear:
        return ""
    kept, low, high = (100 * value for value in (share.share, share.low, share.high))
    # Ends that are rounded to one number would say nothing.
    interval = f" ({low:.0f} to {high:.0f} %)" if high - low >= 1 else ""
    return f"keeps {kept:.0f} %{interval} of the benefit"


def render_answer(sentence: Sentence) -> str:
    """Return the sentence as HTML, which the instrument writes anew as its knob moves."""
    spans = "".join(f'<span class="{role}">{text}</span>' for text, role in sentence)
    return f'<p class="dpmc-say" aria-live="polite">{spans}</p>'


def write_guess(question: AttackerQuestion, task: Task) -> dict[str, Any]:
    """Write what a player guesses, and the two answers."""
    if question.change is RATING and task is Task.BINARY:
        return {"text": "Was that rating a like or a dislike?", "answers": ("like", "dislike")}
    return {"text": question.text, "answers": question.answers}


# --- titles of the two charts -----------------------------------------------------------------


def write_risk_title(question: AttackerQuestion, task: Task) -> str:
    """Write what the upper chart shows."""
    return f"Risk: {cards.ATTACKER} is right about {_name_subject(question, task)}, at most"


def write_usefulness_title(metric: Metric) -> str:
    """Write what the lower chart shows, in which better is always further up."""
    return "Usefulness: " + {
        "accuracy": "likes and dislikes predicted right",
        "rmse": f"typical error in {metric.unit} (smaller is better, up)",
    }.get(metric.name, "people who find the next item among ten suggestions")


def tabulate_risk(stops: Sequence[Stop]) -> Table:
    """Return how often an attacker is right at most, by epsilon."""
    return {
        "epsilon": [f"{stop.epsilon:g}" for stop in stops],
        "attacker right at most": [stop.risk.label for stop in stops],
    }


# --- the panel --------------------------------------------------------------------------------


def write_person(name: str, position: int) -> str:
    """Write who is shown, and by which rule, in which results play no part."""
    rule = f"{100 * QUANTILES[position]:.0f} % of people rate less"
    if position == 0:
        rule = "median activity"
    return f"{name[:1].upper()}{name[1:]} ({rule})"


def format_rating(value: float, task: Task) -> str:
    """Return a rating in a word, or what stands for none."""
    if value != value:
        return "nothing"
    if task is Task.RANKING:
        return "clicked"
    if task is Task.BINARY:
        return "like" if value > 0 else "dislike"
    return lines.format_short_number(value, digits=2)


def write_outcomes(
    release: Release | None, outcomes: list[int], task: Task, public: PublicFacts
) -> str:
    """Write what happens to a hundred reports like this one."""
    _, changed, missing = (count or "fewer than 1" for count in outcomes)
    if isinstance(release, RandomizedResponse):
        if task is Task.RANKING:
            return f"Chance hides {missing} of 100 such clicks; nobody knows which."
        return f"The coin turns {changed} of 100 such reports; nobody knows which."
    if isinstance(release, ModifiedLaplace):
        distance = lines.format_short_number(compute_tolerance(public))
        effect = f"the noise moves {changed} by more than {distance}"
    else:
        effect = f"chance changes {changed}"
    return f"Of 100 such reports, {effect} and drops {missing}; nobody knows which."


def write_whole_row(risk: Risk, rated: int, task: Task) -> str:
    """Write what is proved for everything one person rated."""
    rating = name_rating(task)
    question, guarantee, rate, is_bounded = risk
    if not is_bounded:
        return f"No limit is proved for all her {rated} {rating}s together."
    limit = f"{cards.ATTACKER} {cards.format_success_rate(rate)} of the time"
    if guarantee.change.per_user:
        return f"If the attacker compares two possible sets of {rating}s: {limit}."
    spent, _, at_delta = cards.format_spent_budget(guarantee, question.change).partition(" (or")
    limit = f"and {limit}"
    if not risk.is_informative:
        limit = "which is no protection"
    elif at_delta:
        limit += f": {cards.EXACT_COUNT}"
    if question.change is USER_REPLACED:  # where the existence of ratings or clicks is protected
        items = min(2 * rated, guarantee.public.items)
        limit += f". Two sets of {rated} {rating}s differ in up to {items} items"
    return f"Her {rated} {rating}s together cost {spent}, {limit}."


def write_protection(guarantee: Guarantee, task: Task, *, refuted: bool) -> str:
    """Write what the noise hides of a trusted server's work, and from whom it does not."""
    hidden = (
        f"what any one person adds, whatever her {name_rating(task)}s are"
        if guarantee.change.per_user
        else f"any one {name_rating(task)}"
    )
    verb = "hides" if cards.is_upheld(guarantee) else "is claimed to hide"
    insider = "her own party" if guarantee.trust is Trust.FEDERATED else "the server itself"
    end = ", which an attack refuted" * refuted
    return f"The noise {verb} {hidden}{end}. It does not protect her from {insider}."
