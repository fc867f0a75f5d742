"""Compute the numbers of the lessons, each by its name.

The parameters of a function name other numbers, or a control, so that text and picture ask for the
same number and nothing else is computed.

What an open room contributes comes from functions of its view. The texts, and the number that a
picture shows, are in the lessons' files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpmc_core import registry
from dpmc_core.arrays import Floats
from dpmc_core.errors import DpmcError
from dpmc_core.mechanisms.one_bit import InputFlip, Output
from dpmc_core.mechanisms.private_effects import PrivateEffects
from dpmc_core.privacy import USER_EMPTIED, Guarantee
from dpmc_core.privacy.accounting import attacker_certainty
from dpmc_data import datasets
from dpmc_lab.classroom import CLASS_SIZE
from dpmc_lab.classroom.pictures import PeopleDots
from dpmc_lab.classroom.room import (
    MISS_RATE,
    Poll,
    Sender,
    View,
    build_even_poll,
    build_phone_channel,
    build_truthful_channel,
    choose_coin_rule,
    equal_report_chances,
    get_flip_chance,
    get_half_width,
    guess_probability,
    simulate_reports,
)
from dpmc_lab.classroom.room_view import (
    MIN_PHONES,
    describe_coin_rule,
    explain_two_coins,
    list_senders,
)
from dpmc_lab.measured import find_measured_bound
from dpmc_lab.sweep.grid import DEFAULT_SEED
from dpmc_lab.sweep.presets import EPSILONS
from dpmc_lab.views import cards, lines, numbers, trade
from dpmc_lab.views.lines import CurveChart, EpsilonUnit, is_clearly_better
from dpmc_lab.views.numbers import GainShare

if TYPE_CHECKING:
    from dpmc_lab.views.audits import RatingInfluence

N_SQUARES = 40  # blocks in a row of the picture of a matrix
_MIN_BRIGHTNESS = 0.01  # of the brightest block: darker ones are drawn as not lit
DATA = "movie-night"
PER_RATING = InputFlip.id
PER_PERSON = PrivateEffects.id


# --- one coin, and many -------------------------------------------------------------------------


@cache
def simulate_class(share: float, epsilon: float, throw: int) -> PeopleDots:
    """Simulate what CLASS_SIZE people report, and whose answers their coins turned around.

    This is for display and must never protect anybody: the draws are known.

    Args:
        share: share of the people who answer yes, rounded to whole people.
        epsilon: of an answer.
        throw: number of the throw, which seeds its random numbers.
    """
    rng = np.random.default_rng((DEFAULT_SEED, throw))
    answers = rng.permutation(np.arange(CLASS_SIZE) < round(share * CLASS_SIZE))
    reports = simulate_reports(answers, build_phone_channel(epsilon), rng)
    return PeopleDots(tuple(map(int, reports)), tuple(map(bool, reports != answers)))


@cache
def compute_flip_chance(epsilon: float) -> float:
    """Return the chance that a phone sends the opposite of an answer."""
    return get_flip_chance(build_phone_channel(epsilon))


@cache
def posterior_of_yes(before: float, epsilon: float, sent: str = "yes") -> float:
    """Return the posterior probability of a yes after one report, by Bayes' rule.

    Args:
        before: prior probability of a yes.
        epsilon: of an answer.
        sent: the report, 'yes' or 'no'.
    """
    # The chances of this report with the answers yes and no, times the prior of each answer. Row
    # and column 0 of the matrix stand for no, 1 for yes.
    yes, no = build_phone_channel(epsilon).matrix[::-1, int(sent == "yes")] * (before, 1 - before)
    return float(yes / (yes + no))


@cache
def estimate_half_width(people: float, epsilon: float) -> float:
    """Return half the width of the 95 % interval of the debiased share of a population.

    It assumes that half of the reports say yes, where the interval is widest.

    Args:
        people: number of people who report.
        epsilon: of an answer; inf for reports without noise.
    """
    channel = build_truthful_channel() if math.isinf(epsilon) else build_phone_channel(epsilon)
    return get_half_width(build_even_poll(channel, int(people)).of_people)


@cache
def best_guess_probability(epsilon: float, times: float = 1, before: float = 0.5) -> float:
    """Return how often the best guess from several reports is right.

    Args:
        epsilon: of one answer.
        times: number of reports.
        before: prior probability of a yes.
    """
    return min(  # rounding never makes an attacker certain
        guess_probability(build_phone_channel(epsilon, int(times)), before),
        math.nextafter(1.0, 0.0),
    )


# --- a false claim ------------------------------------------------------------------------------


@cache
def load_audit_example() -> tuple[RatingInfluence, Guarantee]:
    """Return the influence of a person's only rating, and what the method guarantees."""
    from dpmc_lab.views.audits import (  # here, since it loads the audits
        build_known_instance,
        measure_rating_influence,
    )

    mechanism, ratings, position = build_known_instance()
    influence = measure_rating_influence(mechanism, ratings, position)
    return influence, mechanism.guarantee(ratings.public)


class Squares(NamedTuple):
    """A matrix in blocks of neighbouring cells, each as bright as its brightest cell.

    Attributes:
        rows: brightness in 0..1, row by row.
        marked: row and column of the block with the changed rating.
        side: number of items in a block.
    """

    rows: tuple[tuple[float, ...], ...]
    marked: tuple[int, int]
    side: int


def build_squares(lit: RatingInfluence) -> Squares:
    """Return how far one rating moves each cell of a matrix, in blocks of neighbouring cells.

    Args:
        lit: the influence of the rating.
    """
    n_films = lit.changes.shape[1] // N_SQUARES
    blocks = lit.changes.reshape(len(lit.changes), N_SQUARES, n_films).max(axis=2)
    brightness = np.sqrt(blocks * (blocks >= _MIN_BRIGHTNESS * blocks.max()) / blocks.max())
    return Squares(tuple(map(tuple, brightness.tolist())), (lit.user, lit.item // n_films), n_films)


# --- film ratings -------------------------------------------------------------------------------


@cache
def load_lesson_curve(
    mechanism: str, data: str = DATA, *, with_item_features: bool = False
) -> CurveChart:
    """Return the shipped curve of a mechanism.

    Args:
        mechanism: id of the mechanism.
        data: id of the sample.
        with_item_features: whether the first line uses public item features; the second is then
            the same method without them.

    Raises:
        DpmcError: the curve is not shipped.
    """
    charts = lines.load_shipped_charts(data, mechanism, with_item_features=with_item_features)
    if charts is None:
        raise DpmcError(f"the curve of {mechanism} on {data} did not come with this program")
    return charts[0]


def compute_lesson_gain(
    method: str, epsilon: float, other_values: Floats | None = None
) -> GainShare:
    """Return the share of the gain over the baseline that is left at an epsilon of the slider.

    Args:
        method: id of the mechanism.
        epsilon: the setting.
        other_values: values to use in place of the curve's, which broadcast with them.

    Raises:
        DpmcError: the curve is not shipped, or has no gain at this epsilon.
    """
    chart = load_lesson_curve(method)
    line = chart.lines[0]
    if other_values is not None:
        line = replace(line, values=line.values * 0 + other_values)
    gain_share = numbers.compute_gain_share(chart, line, epsilon)
    if gain_share is None:
        raise DpmcError(
            f"the curve of {method} on {DATA} has no gain at epsilon {epsilon:g}:"
            " if this epsilon is new, run make rows"
        )
    return gain_share


def describe_gain_share(gain_share: GainShare) -> str:
    """Return 'keeps 30 % of the gain over the baseline', or 'is not clearly better'."""
    return gain_share.label if gain_share.is_clear else f"is {gain_share.label}"


def load_feature_curve(data: str = DATA) -> CurveChart:
    """Return the shipped chart of PER_PERSON with public item features, and without them."""
    return load_lesson_curve(PER_PERSON, data, with_item_features=True)


def count_feature_gains(data: str) -> int:
    """Return at how many epsilons the item features clearly help."""
    chart = load_feature_curve(data)
    return sum(
        is_clearly_better(chart.metric, with_facts, without)
        for with_facts, without in zip(*(line.intervals for line in chart.lines), strict=True)
    )


def epsilon_without_features(epsilon: float) -> float:
    """Return the epsilon that the method needs without item features for the same accuracy.

    It is inf beyond the largest epsilon computed.

    Args:
        epsilon: the epsilon with item features.
    """
    with_features, without_features = load_feature_curve().lines
    target = with_features.intervals[with_features.epsilon.tolist().index(epsilon)].mean
    (required,) = numbers.find_required_epsilons(
        lines.place_on_axis(without_features, EpsilonUnit.PAPER), [target]
    )
    return required.epsilon.value


@cache
def build_lesson_guarantee(
    method: str, epsilon: float, *, with_item_features: bool = False
) -> Guarantee:
    """Return the method's guarantee on the ratings that its curve was measured on.

    Args:
        method: id of the mechanism.
        epsilon: the setting.
        with_item_features: whether the method uses public item features.
    """
    public = load_lesson_curve(method).lines[0].info.public
    if with_item_features:
        public = replace(public, features=datasets.load(DATA).ratings.public.available_features)
    return registry.create(method, epsilon=epsilon).guarantee(public)


@cache
def all_values_certainty(method: str, epsilon: float, rated: float) -> float:
    """Return how often the best attacker is right about all values of a person's ratings.

    Args:
        method: id of the mechanism.
        epsilon: the setting.
        rated: number of the person's ratings.
    """
    guarantee = build_lesson_guarantee(method, epsilon)
    _, question = trade.list_questions(guarantee, registry.get_mechanism(method).task, int(rated))
    return question.assess(guarantee).success_rate


def format_lesson_budget(guarantee: Guarantee) -> str:
    """Return what is certified, and for which unit: 'epsilon 1 per user'."""
    return f"epsilon {cards.format_epsilon(guarantee.certified().epsilon)} {guarantee.change.label}"


# --- by name ------------------------------------------------------------------------------------

# The texts of the lessons use these names, and so do the parameters of the functions.
NUMBERS: Mapping[str, Callable[..., Any]] = {
    # one coin
    "flip_chance": compute_flip_chance,
    "honest": lambda flip_chance: 1 - flip_chance,
    "two_coins": explain_two_coins,
    "coin_flips": lambda epsilon: get_flip_chance(choose_coin_rule(epsilon).channel),
    "coin_rule": lambda epsilon: describe_coin_rule(choose_coin_rule(epsilon)),
    "odds": lambda epsilon: math.exp(epsilon),
    "square": lambda epsilon: epsilon**2,
    "other": lambda sent: {"yes": "no", "no": "yes"}[sent],
    "lowest": lambda: EPSILONS[0],
    "highest": lambda: EPSILONS[-1],
    "max_flip_chance": lambda lowest: compute_flip_chance(lowest),
    "min_flip_chance": lambda highest: compute_flip_chance(highest),
    # a class, or more people
    "phones": simulate_class,
    "arrived": lambda phones: PeopleDots(phones.reports),
    "poll": lambda phones, epsilon: Poll(phones.yes, CLASS_SIZE, build_phone_channel(epsilon)),
    "opposite": lambda poll, flip_chance: poll.reports * flip_chance,
    "truth": lambda share: round(share * CLASS_SIZE) / CLASS_SIZE,
    "pulled": lambda truth, flip_chance: truth * (1 - flip_chance) + (1 - truth) * flip_chance,
    "stretch": lambda flip_chance: 1 - 2 * flip_chance,
    "left": lambda count, people, flip_chance: count - people * flip_chance,
    "undone": lambda left, stretch: left / stretch,
    "undone_share": lambda undone, people: undone / people,
    "counted_holds": lambda poll, truth: poll.naive.low <= truth <= poll.naive.high,
    "this_holds": lambda poll, truth: poll.of_class.low <= truth <= poll.of_class.high,
    "counted_length": lambda poll: round(poll.naive.high - poll.naive.low, 2),  # as it is shown
    "people_length": lambda poll: round(poll.of_people.high - poll.of_people.low, 2),
    "grown": lambda counted_length, people_length: 1 + int(np.sign(people_length - counted_length)),
    "missed": lambda: MISS_RATE,
    "often": lambda: 1 - MISS_RATE,
    "reach": estimate_half_width,
    "free": lambda people: estimate_half_width(people, math.inf),
    "aimed": lambda aim, epsilon: estimate_half_width(aim, epsilon),
    # an attacker, who was so sure before
    "best": best_guess_probability,
    "once": lambda epsilon, before=0.5: best_guess_probability(epsilon, 1, before),
    "alone": lambda before: max(before, 1 - before),
    "now": posterior_of_yes,
    "even": lambda epsilon, sent="yes": posterior_of_yes(0.5, epsilon, sent),
    "doubt": lambda before: 1 - before,
    "down": lambda before, epsilon: posterior_of_yes(before, epsilon, "no"),
    # the same again
    "together": lambda epsilon, times=1: build_phone_channel(epsilon, int(times)).loss(1).epsilon,
    "power": lambda epsilon, times: epsilon**times,
    "agreement": lambda epsilon, times, before=0.5: equal_report_chances(
        build_phone_channel(epsilon), int(times), before
    ),
    # How likely all reports agree, and how often that answer is right then.
    "agree": lambda agreement: agreement[0],
    "agreed_right": lambda agreement: agreement[1],
    "rival_right": lambda rival: best_guess_probability(rival),
    # a false claim
    # Numbers from -bound to bound, of which one rating changes each from end to end.
    "bound": lambda: Output(epsilon=1.0).bound,
    "swing": lambda bound: 2 * bound,
    "added": lambda swing, times: swing * times,
    # The influence of one rating, and the guarantee.
    "lit": lambda: load_audit_example()[0],
    "proof": lambda: load_audit_example()[1],
    "squares": build_squares,
    "largest": lambda lit: float(lit.changes.max()),
    "moved": lambda lit, cells: float(np.sort(lit.changes, axis=None)[::-1][: int(cells)].sum()),
    "wider": lambda lit, proof: proof.certified().epsilon / lit.claimed,
    "measured_epsilon": lambda lit, epsilon: lit.epsilon / lit.claimed * epsilon,
    "measured_rate": lambda measured_epsilon: attacker_certainty(measured_epsilon),
    "certified": lambda wider, epsilon: wider * epsilon,
    "audit": lambda: find_measured_bound(Output(epsilon=1.0)),
    "certified_factor": lambda guarantee, epsilon: guarantee.certified().epsilon / epsilon,
    "scale": lambda certified_factor, guarantee: certified_factor * guarantee.releases.matrix.scale,
    # film ratings: what a method keeps and what it risks
    "method": lambda promise=PER_RATING: promise,
    "guarantee": build_lesson_guarantee,
    "gain_share": compute_lesson_gain,
    "gain_kept": lambda gain_share: gain_share.share,
    "gain_bar": lambda gain_kept: max(0.0, gain_kept),
    "keeps": describe_gain_share,
    "right": lambda guarantee: guarantee.attacker_accuracy(),
    "rated": lambda: cards.TYPICAL_RATINGS,
    "taste": all_values_certainty,
    "unit": lambda method: "person" if method == PER_PERSON else "rating",
    "budget": format_lesson_budget,
    "delta_parts": lambda guarantee: 1 / guarantee.certified().delta,
    "all_rated": lambda guarantee, rated: cards.certify_ratings(guarantee, int(rated)).epsilon,
    "each_rated": lambda epsilon, rated: epsilon / rated,
    "bounded": lambda guarantee: guarantee.certified(USER_EMPTIED).finite,
    # At a low epsilon, 0.3, and at a high one, 3.
    "low_gain": lambda: compute_lesson_gain(PER_RATING, EPSILONS[3]).share,
    "high_gain": lambda: compute_lesson_gain(PER_RATING, EPSILONS[-5]).share,
    "flips_gain": lambda epsilon: compute_lesson_gain(PER_RATING, epsilon).share,
    "flips_keep": lambda epsilon: describe_gain_share(compute_lesson_gain(PER_RATING, epsilon)),
    "flips_budget": lambda epsilon: format_lesson_budget(
        build_lesson_guarantee(PER_RATING, epsilon)
    ),
    "between": lambda gain_kept, flips_gain: (gain_kept + flips_gain) / 2,
    # what is public
    "informed": load_feature_curve,
    "informed_share": lambda informed, epsilon: compute_lesson_gain(
        PER_PERSON, epsilon, informed.lines[0].values
    ),
    "informed_gain": lambda informed_share: informed_share.share,
    "informed_keeps": lambda informed_share: describe_gain_share(informed_share),
    "informed_budget": lambda epsilon: format_lesson_budget(
        build_lesson_guarantee(PER_PERSON, epsilon, with_item_features=True)
    ),
    "bought": epsilon_without_features,
    "reached": lambda bought: math.isfinite(bought),
    "seeds": lambda informed: len(informed.lines[0].seeds),
    "own_gain": lambda informed: (
        compute_lesson_gain(PER_PERSON, EPSILONS[0], informed.baselines[0].values[0]).share
    ),
    "more": lambda informed, epsilon: is_clearly_better(
        informed.metric, informed.lines[0].interval_at(epsilon), informed.baselines[0].interval
    ),
    "adds": lambda informed_gain, gain_kept: informed_gain - gain_kept,
    "raw_adds": lambda informed: (
        compute_lesson_gain(PER_PERSON, EPSILONS[0], informed.nonprivate_reference.values[0]).share
        - 1
    ),
    "plain": lambda: load_lesson_curve(PER_PERSON),
    "raw_helps": lambda informed, plain: is_clearly_better(
        informed.metric, informed.nonprivate_reference.interval, plain.nonprivate_reference.interval
    ),
    "stops": lambda: len(EPSILONS),
    "films_help": lambda: count_feature_gains(DATA),
    "others_help": lambda: count_feature_gains("restaurants"),
}


# --- in a room ----------------------------------------------------------------------------------


def summarise_reports(view: View) -> dict[str, Any] | None:
    """Return what a room reported to the current question: the poll, and a mark for each report.

    The reports are those of phones, or else of hands, or else of simulated phones. They are sorted,
    so that none reveals who has just sent it. The result is None without reports.
    """
    if view.now is None:
        return None
    question = view.now.question
    for sender in list_senders(view, question):
        poll = view.poll(question, sender=sender)
        if sender is Sender.PHONES and poll.people < MIN_PHONES:
            continue  # so few reports would show what single phones sent
        marks = PeopleDots((1,) * poll.yes + (0,) * (poll.reports - poll.yes))
        return {"poll": poll, "phones": marks}
    return None
