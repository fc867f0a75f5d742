"""Run a room: yes-or-no questions to a class that is itself the data.

Every answer is randomised where it is given, by a phone or with coins (randomised response: Warner
1965), and only reports arrive. A room exists in memory only; nothing of it is ever written to disk.
"""

from __future__ import annotations

import enum
import math
import re
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from dpmc_core.arrays import Bools, Floats
from dpmc_core.errors import DpmcError, InvalidSetting, check_number
from dpmc_core.privacy import CELL, RandomizedResponse
from dpmc_core.privacy.channels import flip_probability
from dpmc_lab.audit_bounds import clopper_pearson
from dpmc_lab.classroom import CLASS_SIZE, EPSILON, MAX_PHONES, PHONE_TEXTS

QUESTIONS = range(1, 6)
MAX_QUESTION_LENGTH = 140  # characters of a question
N_PHONE_DRAWS = 2**32  # a phone draws 32 random bits
MAX_THROWS = 4  # of a coin by one person
_TOKEN = re.compile(r"[0-9a-f]{32}", re.ASCII)
MISS_RATE = 0.05  # of 95 % intervals
SUPPORT = 2.0  # units of log-likelihood below the best value, for likelihood-ratio intervals
KEY_BOUNCE_SECONDS = 1.0  # seconds in which a key pressed again counts once
# A phone counts as connected until this many seconds after its last request for the state of the
# room. It sends a request every 2 seconds, or every 15 while its page is hidden.
PRESENCE_SECONDS = 20.0
# More answers than this share of the expected phones, within these seconds, are faster than a class
# taps: a phone learns of a question within 2.4 seconds, and then somebody has to read it.
BURSTS = ((1.0, 0.8), (3.0, 1.2))
MIN_BURST = 10  # answers; a few people may well tap together

# Questions to begin with; a teacher could ask each of them with raised hands.
EXAMPLE_QUESTIONS: dict[str, tuple[str, ...]] = {
    "Warm-up": (
        "Have you already had breakfast today?",
        "Did you sleep fewer than seven hours?",
        "Would you rather be somewhere else right now?",
    ),
    "At school": (
        "Did you finish the last homework?",
        "Have you ever copied homework?",
        "Did you look at your phone in this lesson?",
        "Do you like this subject?",
    ),
    "Films": (
        "Have you ever liked a film that you called bad in front of others?",
        "Have you ever pretended to know a film?",
        "Do you finish films that bore you?",
    ),
}


# --- the coin -----------------------------------------------------------------------------------


def flip_threshold(epsilon: float) -> int:
    """Return the threshold below which a phone's draw makes it report the opposite.

    The draw is in 0..N_PHONE_DRAWS-1. The threshold is rounded up, which favours privacy.

    Raises:
        InvalidSetting: epsilon is not between 0.1 and 10.
    """
    check_number("epsilon per answer", epsilon, at_least=0.1, at_most=10)
    return math.ceil(flip_probability(epsilon) * N_PHONE_DRAWS)


def build_phone_channel(epsilon: float, times: int = 1) -> RandomizedResponse:
    """Return the channel that a phone passes an answer through.

    Args:
        epsilon: of one answer.
        times: how often the question is asked.
    """
    return _build_channel(flip_threshold(epsilon) / N_PHONE_DRAWS, times)


def build_truthful_channel() -> RandomizedResponse:
    """Return the channel without privacy, which passes an answer unchanged."""
    return _build_channel(0.0)


def _build_channel(chance: float, times: int = 1) -> RandomizedResponse:
    """Return the channel that reverses an answer with this chance, each of `times` times."""
    return RandomizedResponse.binary(
        chance, chance, query="one yes or no", shape=(), sensitivity={CELL: 1.0}, times=times
    )


def guess_probability(channel: RandomizedResponse, prior: float = 0.5) -> float:
    """Return how often a guess of an answer from its reports is right.

    Args:
        channel: of the reports.
        prior: prior probability of a yes.
    """
    return channel.loss(1).attacker_accuracy(prior)


def equal_report_chances(
    channel: RandomizedResponse, times: int, prior: float = 0.5
) -> tuple[float, float]:
    """Return the chance that all reports of a phone agree, and how often an attacker is then right.

    Args:
        channel: of one report.
        times: how often the question was answered.
        prior: prior probability of a yes.
    """
    flips = get_flip_chance(channel)
    opposite = flips**times
    honest = (1 - flips) ** times
    # Joint chances of an answer (yes, then no) with reports that all say yes, or all say no. The
    # attacker names the likelier answer.
    cases = (prior * honest, (1 - prior) * opposite), (prior * opposite, (1 - prior) * honest)
    return honest + opposite, sum(map(max, cases)) / (honest + opposite)


def build_even_poll(channel: RandomizedResponse, phones: int) -> Poll:
    """Return a poll in which half of the phones report yes, where intervals are widest.

    Args:
        channel: of each report.
        phones: number of phones, each with one report.
    """
    return Poll(phones // 2, phones, channel)


def get_half_width(bounds: Bounds | None) -> float:
    """Return half the width of an interval of a share; 0.5 without one: reports say nothing."""
    return 0.5 if bounds is None else (bounds.high - bounds.low) / 2


def get_flip_chance(channel: RandomizedResponse) -> float:
    """Return the chance that a channel reports the opposite of an answer, yes or no alike."""
    return float(channel.matrix[0, 1])


class CoinRule(NamedTuple):
    """A rule for throwing a fair coin several times in place of a phone's biased one.

    Attributes:
        coins: number of throws.
        heads: with at most this many heads, the person shows the other hand.
    """

    coins: int
    heads: int

    @property
    def chance(self) -> float:
        """Return the chance that a person shows the opposite of the answer."""
        n_ways: int = sum(math.comb(self.coins, heads) for heads in range(self.heads + 1))
        return float(n_ways / 2**self.coins)

    @property
    def channel(self) -> RandomizedResponse:
        """Return the channel of an answer by this rule."""
        return _build_channel(self.chance)


def choose_coin_rule(epsilon: float) -> CoinRule:
    """Return the most informative rule with at most this epsilon.

    Raises:
        InvalidSetting: epsilon is too small for the number of throws.
    """
    min_chance = flip_threshold(epsilon) / N_PHONE_DRAWS
    rules = (CoinRule(n, heads) for n in range(1, MAX_THROWS + 1) for heads in range(n))
    allowed = [rule for rule in rules if min_chance <= rule.chance < 0.5]
    if not allowed:
        min_epsilon = CoinRule(MAX_THROWS, 1).channel.cell_epsilon
        raise InvalidSetting(
            "epsilon per answer",
            f"at least {min_epsilon:.2g} for {MAX_THROWS} throws",
            epsilon,
            "take phones",
        )
    return min(allowed, key=lambda rule: (rule.chance, rule.coins))


# --- estimates from reports ---------------------------------------------------------------------


class Bounds(NamedTuple):
    """A share with the ends of its 95 % interval."""

    share: float
    low: float
    high: float


class LinkedReports(NamedTuple):
    """Reports of people who have answered one question equally often.

    Attributes:
        people: number of people.
        times: reports of each person.
        yes: number of reports that say yes.
        chance: chance that a report is the opposite.
    """

    people: int
    times: int
    yes: int
    chance: float = 0.0

    @property
    def mirrored(self) -> LinkedReports:
        """Return the same reports with yes and no exchanged."""
        return self._replace(yes=self.people * self.times - self.yes)

    @property
    def share(self) -> float:
        """Return the unbiased share of yes among the answers."""
        yes_share = self.yes / (self.people * self.times)
        return (yes_share - self.chance) / (1 - 2 * self.chance)


@dataclass(frozen=True)
class Poll:
    """Reports to one question, and the channel that each of them passed.

    Attributes:
        yes: number of reports that say yes.
        reports: number of reports.
        channel: of each report.
        linked: reports by how often people answered, where some answered more than once; the
            reports of one person are one unit.
    """

    yes: int
    reports: int
    channel: RandomizedResponse
    linked: tuple[LinkedReports, ...] = ()

    def __post_init__(self) -> None:
        check_number("reports", self.reports, at_least=0, integer=True)
        check_number("reports of yes", self.yes, at_least=0, at_most=self.reports, integer=True)

    @classmethod
    def from_linked(cls, linked: Iterable[LinkedReports], channel: RandomizedResponse) -> Poll:
        """Return the poll of reports that are linked by person."""
        groups = tuple(group for group in sorted(linked) if group.people)
        reports = sum(group.people * group.times for group in groups)
        return cls(sum(group.yes for group in groups), reports, channel, groups)

    @property
    def groups(self) -> tuple[LinkedReports, ...]:
        """Return the reports, grouped by how often people answered."""
        linked = self.linked or (LinkedReports(self.reports, 1, self.yes),)
        return tuple(group._replace(chance=get_flip_chance(self.channel)) for group in linked)

    @property
    def people(self) -> int:
        """Return the number of people who reported."""
        return sum(group.people for group in self.groups)

    @property
    def naive(self) -> Bounds | None:
        """Return the share of yes among the reports, as if no report were flipped.

        The result is None without reports.
        """
        if not self.reports:
            return None
        return Bounds(
            self.yes / self.reports,
            *_compute_binomial_interval(self.yes, self.reports, MISS_RATE / 2),
        )

    @property
    def share(self) -> float:
        """Return the share of yes among the answers, with each person counting once.

        It is (reported - f) / (1 - 2f) for a flip chance f. It is unbiased and may lie outside
        0..1; every display, and every interval, uses `clamped_share`.
        """
        return _pool_shares(self.groups)

    @property
    def clamped_share(self) -> float:
        """Return the most likely share within 0..1."""
        return min(max(self.share, 0.0), 1.0)

    @property
    def of_class(self) -> Bounds | None:
        """Return the share of yes among those who reported; None without reports.

        Their answers are fixed, and only their phones' coins are random. The interval covers the
        share in at least 95 of 100 classes, whatever they answer.
        """
        if not self.reports:
            return None
        ends = _compute_class_interval(self.groups, MISS_RATE / 2)
        return Bounds(self.clamped_share, *(end / self.people for end in ends))

    @property
    def of_people(self) -> Bounds | None:
        """Return the share in a large population that the people are a random sample of.

        The result is None without reports.
        """
        if not self.reports:
            return None
        return Bounds(self.clamped_share, *_compute_population_interval(self.groups, MISS_RATE / 2))

    def interval_for(self, phones: int) -> Bounds:
        """Return the interval that another number of phones would give at exactly this share.

        Each phone is asked once. There must be reports.
        """
        chance = get_flip_chance(self.channel)
        yes = round(phones * (chance + self.clamped_share * (1 - 2 * chance)))
        people = (LinkedReports(phones, 1, yes, chance),)
        return Bounds(self.clamped_share, *_compute_population_interval(people, MISS_RATE / 2))


def compute_share_difference(first: Poll, second: Poll, alarm: float = MISS_RATE) -> Bounds | None:
    """Return by how much the share of `first` exceeds that of `second` among the same people.

    A no to the second question counts as a yes to its opposite, so the difference follows from a
    share of twice as many answers. The interval holds however the two answers of a person are
    related, since they are fixed and their reports are drawn independently.

    Args:
        first, second: polls of the same people.
        alarm: error probability of the interval.

    Returns:
        None where the numbers of people differ.
    """
    people = first.people
    if not people or people != second.people:
        return None
    low, high = _compute_class_interval(
        first.groups + tuple(group.mirrored for group in second.groups), alarm / 2
    )
    return Bounds(first.share - second.share, low / people - 1, high / people - 1)


# --- exact distributions of reports ---------------------------------------------------------------
#
# Each person weighs the same: the statistic is the sum over people of their share of yes, in steps
# of a grid, so that it is a whole number. Where flip chances differ, the weights are rounded to the
# grid. That may widen intervals, but their coverage stays, since the distribution that is computed
# is the one of the rounded statistic.

_MAX_GRID_STEPS = 64  # steps of the grid that the smallest weight may have
_TAIL_TOLERANCE = 1e-9  # error of a tail probability that is tolerated
_ROUNDING = 1e-12  # a smaller chance may be rounding error of a transform


def _compute_binomial_interval(count: int, total: int, tail: float) -> tuple[float, float]:
    """Return the ends of the interval of Clopper and Pearson for a share.

    Args:
        count: number of successes.
        total: number of trials.
        tail: error probability at each end.
    """
    low, high = (
        clopper_pearson(count, total, lower=end, error_probability=tail) for end in (True, False)
    )
    return low, high


def _compute_report_spectra(
    times: int, chance: float, step: int, size: int
) -> NDArray[np.complex128]:
    """Return the Fourier transforms of the distribution of a person's statistic.

    Args:
        times: number of the person's reports.
        chance: chance that a report is the opposite.
        step: what a reported yes adds to the statistic.
        size: length of the distribution.

    Returns:
        Array of shape (2, size // 2 + 1), for the answer yes and for the answer no.
    """
    wave = np.exp(-2j * np.pi * step * np.arange(size // 2 + 1) / size)
    flips = np.array([[chance], [1 - chance]])
    spectra: NDArray[np.complex128] = (flips + (1 - flips) * wave) ** times
    return spectra


@lru_cache(maxsize=2)
def _compute_distributions(people: int, times: int, chance: float, step: int) -> Floats:
    """Return the distributions of a group's statistic for every number of people who answer yes.

    Args:
        people: number of people in the group.
        times: number of reports of each person.
        chance: chance that a report is the opposite.
        step: what a reported yes adds to the statistic.

    Returns:
        Array of shape (people + 1, step * people * times + 1).
    """
    last = step * people * times
    size = _next_power_of_two(last + 1)
    yes, no = np.log(_compute_report_spectra(times, chance, step, size))
    n_yes = np.arange(people + 1)[:, None]
    distributions: Floats = np.fft.irfft(np.exp(n_yes * yes + (people - n_yes) * no), size)
    return np.maximum(distributions[:, : last + 1], 0.0)


def _next_power_of_two(minimum: int) -> int:
    """Return the smallest power of two that is at least 2 and at least the minimum."""
    return max(2, 1 << (minimum - 1).bit_length())


def _choose_grid_weights(groups: Sequence[LinkedReports]) -> list[int]:
    """Return what a reported yes adds to the statistic in each group, in whole steps of a grid.

    The weight that is rounded to the grid is 1 / (times (1 - 2f)) for a flip chance f.
    """
    weights = np.array([1 / (group.times * (1 - 2 * group.chance)) for group in groups])
    # Grid k has k steps in the smallest weight. The coarsest that is accurate enough is taken.
    grids = np.arange(1, _MAX_GRID_STEPS + 1)[:, None] * (weights / weights.min())
    errors = np.abs(np.round(grids) / grids - 1).max(axis=1)
    coarsest = np.flatnonzero(errors <= max(errors.min(), _TAIL_TOLERANCE))[0]
    return [round(step) for step in grids[coarsest]]


@lru_cache(maxsize=1024)
def _compute_class_interval(groups: tuple[LinkedReports, ...], tail: float) -> tuple[int, int]:
    """Return the minimum and the maximum number of people whose answer may be yes.

    Outside these numbers, the chance of so many reported yes, or of so few, is at most `tail`,
    however the people with the answer yes are spread over the groups. If no number remains, both
    are the first one.

    Args:
        groups: people grouped by how often each reported.
        tail: error probability at each end.
    """
    people = sum(group.people for group in groups)
    mirrored = [group.mirrored for group in groups]
    low, n_no = (
        min(_find_min_count(side_groups, tail), _find_min_supported_count(side_groups))
        for side_groups in (groups, mirrored)
    )
    high = people - n_no
    return (low, high) if low <= high else (min(low, people), min(low, people))


def _pool_shares(groups: Sequence[LinkedReports]) -> float:
    """Return the unbiased share of all groups, with each person counting once."""
    return sum(group.people * group.share for group in groups) / sum(
        group.people for group in groups
    )


# Past 0 or 1 no share explains the reports well, and the intervals above shrink to a point, as if
# the share were certain. There they are widened to the likelihood-ratio interval: every share whose
# log-likelihood is within SUPPORT of the best (Edwards, "Likelihood", 1972). Coverage only grows.
# Where reports are so unlikely that a Fourier transform cannot represent their chance, the nearest
# reports that it can represent stand for them, which gives a wider interval.


def _find_min_supported_count(groups: Sequence[LinkedReports]) -> int:
    """Return the lower end of the likelihood-ratio interval of a class, as a number of people.

    It is the number of all people unless the estimated share is above 1.
    """
    if _pool_shares(groups) <= 1:
        return sum(group.people for group in groups)
    # At index N: the largest log-likelihood if N people of the groups so far say yes.
    best = np.zeros(1)
    for group in groups:
        distributions = _compute_distributions(group.people, group.times, group.chance, 1)
        yes = min(group.yes, np.flatnonzero(distributions[-1] > _ROUNDING)[-1])
        logs = np.log(np.maximum(distributions[:, yes], _ROUNDING**2))
        combined = np.full(len(best) + len(logs) - 1, -math.inf)
        for k, score in enumerate(best):
            np.maximum(combined[k : k + len(logs)], score + logs, out=combined[k : k + len(logs)])
        best = combined
    return int(np.flatnonzero(best >= best.max() - SUPPORT - _TAIL_TOLERANCE)[0])


def _find_min_count(groups: Sequence[LinkedReports], tail: float) -> int:
    """Return the minimum number of people whose answer may be yes.

    With fewer, the chance of so many reported yes is at most `tail`, however these people are
    spread over the groups. If that holds even for everybody, the result is the number of all
    people.

    Args:
        groups: people grouped by how often each reported.
        tail: the chance.
    """
    # The largest group comes last: its distributions are used as they are.
    *earlier, (last, step) = sorted(
        zip(groups, _choose_grid_weights(groups), strict=True),
        key=lambda weighted: weighted[0].people,
    )
    unit = earlier[0][1] if len(earlier) == 1 else 1  # a single earlier group needs no grid
    # At [N, t]: the largest chance that the earlier groups reach t if N of their people say yes.
    tails = np.ones((1, 1))
    statistic = step * last.yes
    for group, weight in earlier:
        tails = _compute_max_tails(
            tails, _compute_distributions(group.people, group.times, group.chance, weight // unit)
        )
        statistic += weight * group.yes
    # What the earlier groups must reach, by the number of yes that the last group reports.
    thresholds = -((step * np.arange(last.people * last.times + 1) - statistic) // unit)
    inside = np.clip(thresholds, 0, tails.shape[1] - 1)
    reached = np.where(thresholds < tails.shape[1], tails[:, inside], 0.0)
    is_likely = (
        reached @ _compute_distributions(last.people, last.times, last.chance, 1).T
        > tail - _TAIL_TOLERANCE
    )
    counts = np.add(*np.nonzero(is_likely))  # people with yes in the earlier groups and the last
    return int(counts.min(initial=sum(group.people for group in groups)))


def _compute_max_tails(tails: Floats, distributions: Floats) -> Floats:
    """Return the largest tails of a sum, over all ways to spread N people over its two groups.

    The largest tails of a group are themselves the tails of a distribution. It dominates every
    distribution of the group, and the same holds for sums of groups.

    Args:
        tails: array of shape (n_first + 1, t_first), tails of the first group's statistic by the
            number of its people who answer yes.
        distributions: array of shape (n_second + 1, t_second), distributions of the second group's
            statistic, likewise.

    Returns:
        Array of shape (n_first + n_second + 1, t_first + t_second - 1).
    """
    last = tails.shape[1] + distributions.shape[1] - 1
    size = _next_power_of_two(last)
    tail_spectra = np.fft.rfft(-np.diff(tails, append=0.0), size)
    spectra = np.fft.rfft(distributions, size)
    max_tails = np.zeros((len(tails) + len(distributions) - 1, last))
    for k, spectrum in enumerate(tail_spectra):
        tail = np.fft.irfft(spectrum * spectra, size)[:, :last]
        rows = max_tails[k : k + len(distributions)]
        np.maximum(rows, tail[:, ::-1].cumsum(axis=1)[:, ::-1], out=rows)
    return max_tails


@lru_cache(maxsize=1024)
def _compute_population_interval(
    groups: tuple[LinkedReports, ...], tail: float
) -> tuple[float, float]:
    """Return a confidence interval for the share of yes in the population that people come from.

    Args:
        groups: people grouped by how often each reported. Where everybody reported once there is
            a single group.
        tail: the error allowed at each end of the interval.
    """
    mirrored = tuple(group.mirrored for group in groups)
    if all(group.times == 1 for group in groups):  # Clopper and Pearson, through the channel
        (group,) = groups
        ends = _compute_binomial_interval(group.yes, group.people, tail)
        low, high = ((end - group.chance) / (1 - 2 * group.chance) for end in ends)
    else:
        low = _find_min_share(groups, tail)
        high = 1 - _find_min_share(mirrored, tail)
    low = min(low, _find_min_supported_share(groups))
    high = max(high, 1 - _find_min_supported_share(mirrored))
    return max(low, 0.0), min(high, 1.0)


def _find_min_supported_share(groups: Sequence[LinkedReports]) -> float:
    """Return the lower end of the likelihood-ratio interval of a population, as a share.

    It is 1 unless the estimated share is above 1.
    """
    if _pool_shares(groups) <= 1:
        return 1.0
    distribution, statistic = _build_statistic_distribution(groups)
    best = distribution(1.0)
    # A share of 1 may never give what was observed: then the largest value that it can give.
    statistic = min(statistic, np.flatnonzero(best > _ROUNDING)[-1])

    def support_excess(share: float) -> float:
        """Return by how much the likelihood of a share exceeds the limit of support."""
        return float(distribution(share)[statistic] / best[statistic]) - math.exp(-SUPPORT)

    return 0.0 if support_excess(0.0) > 0 else float(brentq(support_excess, 0, 1, xtol=1e-9))


def _find_min_share(groups: Sequence[LinkedReports], tail: float) -> float:
    """Return the share of a population below which so many reported yes have at most this chance.

    Args:
        groups: people grouped by how often each reported.
        tail: the chance.
    """
    distribution, statistic = _build_statistic_distribution(groups)

    def tail_excess(share: float) -> float:
        """Return by how much the chance of so many reported yes exceeds `tail`."""
        return float(distribution(share)[statistic:].sum()) - tail

    if tail_excess(0.0) > 0:
        return 0.0
    return 1.0 if tail_excess(1.0) < 0 else float(brentq(tail_excess, 0, 1, xtol=1e-9))


def _build_statistic_distribution(
    groups: Sequence[LinkedReports],
) -> tuple[Callable[[float], Floats], int]:
    """Return the distribution of the statistic of groups, and its observed value.

    The first part is a function from a population's share of yes to the distribution.
    """
    weighted = list(zip(_choose_grid_weights(groups), groups, strict=True))
    statistic = sum(step * group.yes for step, group in weighted)
    last = sum(step * group.people * group.times for step, group in weighted)
    size = _next_power_of_two(last + 1)
    spectra = [
        _compute_report_spectra(group.times, group.chance, step, size) for step, group in weighted
    ]

    def distribution(share: float) -> Floats:
        """Return the statistic's distribution if this share of the population says yes."""
        factors = (
            (share * yes + (1 - share) * no) ** group.people
            for group, (yes, no) in zip(groups, spectra, strict=True)
        )
        probabilities: Floats = np.fft.irfft(math.prod(factors), size)[: last + 1]
        return probabilities

    return distribution, statistic


def simulate_reports(
    answers: Bools, channel: RandomizedResponse, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Return what simulated phones send, one report each.

    Args:
        answers: array of shape (n_phones,), whether each phone's answer is yes.
        channel: that each answer passes.
        rng: random numbers of the channel.

    Returns:
        Array of shape (n_phones,), 1 for a reported yes and 0 for a no.
    """
    reports = replace(channel, shape=answers.shape).publish(answers.astype(np.uint8), rng)
    return np.asarray(reports, dtype=np.uint8)


# --- the room -----------------------------------------------------------------------------------


class ReportRejected(DpmcError):
    """A report is not accepted; the message is a text of `refused` in phone.toml.

    Args:
        reason: key of the text.
        phones: a number that the text may name.
    """

    def __init__(self, reason: str, phones: int = 0) -> None:
        super().__init__(PHONE_TEXTS["refused"][reason].format(phones=phones))


class MalformedReport(ReportRejected):
    """What was sent is not a report."""


class PhoneWaiting(ReportRejected):
    """The report may be sent again once the teacher lets the phone in."""


class Receipt(enum.Enum):
    """What happened to an accepted report."""

    NEW = "new"
    AGAIN = "again"  # the same report had arrived before


class Sender(enum.Enum):
    """Who sends reports; reports of different senders are never combined in one estimate."""

    PHONES = "phones"
    HANDS = "hands"
    SIMULATED = "simulated phones"


@dataclass(frozen=True)
class Asking:
    """One asking of a question; a question can be asked several times.

    Attributes:
        number: counts all askings of the room from 0.
        question: index of the question.
        epsilon: of an answer.
        locked: whether reports are no longer accepted.
        reports: the bit that each browser sent, by its token.
        counts: reports of hands and of simulated phones, by sender.
        void: whether the question was asked anew, so that these reports no longer count.
        burst: the largest number of answers that came faster than a class taps, and in how many
            seconds.
    """

    number: int
    question: int
    epsilon: float
    locked: bool = False
    reports: dict[str, int] = field(default_factory=dict, compare=False)
    counts: Mapping[Sender, Poll] = field(default_factory=dict)
    void: bool = False
    burst: tuple[int, float] = field(default=(0, 0.0), compare=False)


@dataclass(frozen=True)
class View:
    """A room at one moment. Two views are equal if only reports, and who is there, differ.

    Attributes:
        id: of the room.
        questions: texts.
        epsilon: of questions that have not been asked yet.
        opened: opening time, in seconds of the monotonic clock.
        askings: all askings, in order.
        current_number: number of the current asking.
        hides: whether a question's results are hidden while it accepts reports.
        ended: whether the room is closed.
        tested: whether a phone has connected.
        simulated_yes: number of simulated phones that answer yes, by question.
        connected: number of phone pages that are connected.
        waiting: number of phones that ask to be let in.
        plan: minutes of the class whose plan is followed; empty without a plan.
        step: index of the plan's current step.
        reached: index of the last step that was reached.
        closed: whether phones that have not answered yet wait to be let in.
    """

    id: str
    questions: tuple[str, ...]
    epsilon: float
    opened: float
    askings: tuple[Asking, ...] = ()
    current_number: int = 0
    hides: bool = True
    ended: bool = False
    tested: bool = field(default=False, compare=False)
    simulated_yes: Mapping[int, int] = field(default_factory=dict)
    connected: int = field(default=0, compare=False)
    waiting: int = 0
    plan: str = ""
    step: int = 0
    reached: int = 0
    closed: bool = False

    @property
    def now(self) -> Asking | None:
        """Return the current asking; None before the first."""
        return self.askings[self.current_number] if self.askings else None

    @property
    def locked(self) -> bool:
        """Return whether the current question accepts no more reports."""
        return self.now is not None and self.now.locked

    @property
    def visible(self) -> View:
        """Return what a projector may show.

        The reports of the current round are left out while it is open, unless it is the first round
        and nothing is hidden.
        """
        now = self.now
        if now is None or now.locked or self.ended:
            return self
        if not self.hides and len(self.rounds(now.question)) == 1:
            return self
        return self.with_asking(replace(now, reports={}, counts={}))

    def with_asking(self, entry: Asking) -> View:
        """Return the view with one asking replaced."""
        earlier = self.askings[: entry.number]
        return replace(self, askings=(*earlier, entry, *self.askings[entry.number + 1 :]))

    def rounds(self, question: int) -> tuple[Asking, ...]:
        """Return all askings of a question whose reports count, in order."""
        return tuple(
            asking for asking in self.askings if asking.question == question and not asking.void
        )

    def question_epsilon(self, question: int) -> float:
        """Return the epsilon of each answer to a question, which its first asking fixed."""
        return next((asking.epsilon for asking in self.rounds(question)), self.epsilon)

    def phones(self, question: int) -> set[str]:
        """Return the tokens of all phones that reported to a question."""
        return set().union(*(asking.reports for asking in self.rounds(question)))

    def poll(
        self,
        question: int,
        rounds: int | None = None,
        sender: Sender = Sender.PHONES,
        among: Collection[str] | None = None,
    ) -> Poll:
        """Return all reports to a question, with those of one phone linked.

        Args:
            question: index of the question.
            rounds: how many rounds to include (default: all).
            sender: who sent the reports.
            among: tokens of the only phones to include.
        """
        answered_askings = self.answered_rounds(question, sender)[:rounds]
        if sender is not Sender.PHONES and answered_askings:
            tallies = [asking.counts[sender] for asking in answered_askings]
            linked = LinkedReports(
                tallies[0].reports, len(tallies), sum(poll.yes for poll in tallies)
            )
            return Poll.from_linked([linked], tallies[0].channel)
        # The number of yes of each phone, grouped by how many reports the phone sent.
        yes_by_times: dict[int, list[int]] = {}
        for token in set().union(*(asking.reports for asking in answered_askings)):
            if among is None or token in among:
                bits = [
                    asking.reports[token] for asking in answered_askings if token in asking.reports
                ]
                yes_by_times.setdefault(len(bits), []).append(sum(bits))
        groups = (LinkedReports(len(yes), times, sum(yes)) for times, yes in yes_by_times.items())
        return Poll.from_linked(groups, build_phone_channel(self.question_epsilon(question)))

    def answered_rounds(self, question: int, sender: Sender = Sender.PHONES) -> list[Asking]:
        """Return the rounds in which a sender reported.

        A round without reports, for example one begun by mistake, does not affect the others.
        """
        phones = sender is Sender.PHONES
        rounds = self.rounds(question)
        return [
            asking for asking in rounds if (asking.reports if phones else sender in asking.counts)
        ]

    def latest_phones(self, question: int) -> Collection[str]:
        """Return the phones that answered a question the last time."""
        answered_askings = self.answered_rounds(question)
        return answered_askings[-1].reports.keys() if answered_askings else ()

    @property
    def max_epsilon(self) -> float:
        """Return the total epsilon of a person who answered every time."""
        return sum(build_phone_channel(asking.epsilon).loss(1).epsilon for asking in self.askings)

    def describe_for_phones(self) -> dict[str, Any]:
        """Return the state of the room as every phone receives it, in plain JSON values."""
        asking = self.now
        epsilon = self.epsilon if asking is None else asking.epsilon
        # Whoever answers anew spends again, so void askings count here.
        asked = [entry.question for entry in self.askings]
        return {
            "room": self.id,
            "asking": None if asking is None else asking.number,
            "question": "" if asking is None else self.questions[asking.question],
            "again": 0 if asking is None else asked.count(asking.question) - 1,
            "epsilon": epsilon,
            "below": flip_threshold(epsilon),
            "open": asking is not None and not self.locked and not self.ended,
            "ended": self.ended,
        }


class Room:
    """Questions and the reports to them; safe to use from several threads."""

    def __init__(
        self,
        questions: Sequence[str],
        epsilon: float = EPSILON,
        rng: np.random.Generator | None = None,
        expected: int = MAX_PHONES // 2,
        plan: str = "",
    ) -> None:
        """Open a room.

        Args:
            questions: texts; empty ones are dropped.
            epsilon: of an answer.
            rng: random numbers of simulated phones.
            expected: number of phones expected; twice as many have a place without being let in.
            plan: minutes of the class whose plan is followed, if any.

        Raises:
            InvalidSetting: the questions, epsilon or the number of phones are not valid.
        """
        flip_threshold(epsilon)  # raises an error if epsilon is not valid
        check_number("phones expected", expected, at_least=1, at_most=MAX_PHONES // 2, integer=True)
        question_texts = _clean_questions([text for text in questions if text.strip()])
        self._rng = rng or np.random.default_rng()
        self._lock = threading.RLock()
        self._last_press = -math.inf
        # The time of the last request of each phone's page, in increasing order.
        self._last_visits: dict[str, float] = {}
        self._expected = expected
        self._open_view(question_texts, epsilon, plan=plan)

    def _open_view(self, questions: tuple[str, ...], epsilon: float, **fields: Any) -> None:
        """Begin with a view without reports, under a new id."""
        self._view = View(
            secrets.token_hex(4), questions, float(epsilon), time.monotonic(), **fields
        )
        self._n_places = 2 * self._expected
        self._admitted: dict[str, str] = {}  # tokens, and the address each came from
        self._waiting: dict[str, str] = {}  # tokens in order, and the address each came from
        self._arrivals: list[float] = []  # times of the reports to the current question

    def view(self) -> View:
        """Return the room as it is now; later reports are not in the view."""
        with self._lock:
            askings = tuple(
                replace(entry, reports=dict(entry.reports)) for entry in self._view.askings
            )
            threshold = time.monotonic() - PRESENCE_SECONDS
            n_connected = sum(last_visit > threshold for last_visit in self._last_visits.values())
            return replace(self._view, askings=askings, connected=n_connected)

    def _update_view(self, **changed: Any) -> None:
        """Replace fields of the room's view."""
        with self._lock:
            self._view = replace(self._view, **changed)

    def record_visit(self, page: str = "") -> None:
        """Record that a phone asked for the state of the room.

        Args:
            page: the random number of its open page, 32 hexadecimal digits.
        """
        with self._lock:
            self._update_view(tested=True)
            if _TOKEN.fullmatch(page):
                self._last_visits.pop(page, None)
                self._last_visits[page] = time.monotonic()
                if len(self._last_visits) > 2 * MAX_PHONES:
                    del self._last_visits[next(iter(self._last_visits))]

    def ask(self, question: int, anew: bool = False) -> None:
        """Ask a question, the first time or again; this ends the one before it.

        The current question stays while nobody has answered it, so a button pressed twice, or in
        two tabs, asks once.

        Args:
            question: index of the question.
            anew: whether the reports to its earlier askings no longer count.
        """
        with self._lock:
            view = self._get_open_view()
            last = len(view.questions) - 1
            check_number("question", question, at_least=0, at_most=last, integer=True)
            now = view.now  # asked again, if nobody has answered it
            if now is not None and now.question == question and not (now.reports or now.counts):
                self.lock(False)
                return
            asking = Asking(len(view.askings), question, view.question_epsilon(question))
            earlier = [
                replace(entry, void=entry.void or (anew and entry.question == question))
                for entry in view.askings
            ]
            self._update_view(askings=(*earlier, asking), current_number=asking.number)
            self._arrivals = []
            if question in view.simulated_yes:  # they answer again, like everybody
                self._simulate(asking, view.simulated_yes[question])

    def press(self, question: int, *, again: bool = False) -> None:
        """Handle a teacher's key: go to a question, or ask it again.

        A question that was asked is shown as it was left, also after the end. A key that is pressed
        twice within KEY_BOUNCE_SECONDS counts once.

        Args:
            question: index of the question.
            again: whether to ask it again.
        """
        with self._lock:
            now = time.monotonic()
            if now - self._last_press < KEY_BOUNCE_SECONDS:
                return
            rounds = self._view.rounds(question)
            if again or not rounds:
                self.ask(question)
            else:
                self._update_view(current_number=rounds[-1].number)
            self._last_press = now

    def follow(self, step: int, state: str = "", question: int = 0, epsilon: float = 0.0) -> None:
        """Go to the next step of the plan, or to the one before it.

        What a step does to the room is done once, when it is first reached. A key that is pressed
        in two windows, or twice within KEY_BOUNCE_SECONDS, counts once.

        Args:
            step: index of the step.
            state: what the wall shows of the room: lobby, open, locked, counted, result, again or
                end; empty for a slide.
            question: index of the question.
            epsilon: of an answer, where the step opens a new room.
        """
        with self._lock:
            view, now = self._view, time.monotonic()
            if abs(step - view.step) != 1 or now - self._last_press < KEY_BOUNCE_SECONDS:
                return
            is_new = step > view.reached
            question = min(question, len(view.questions) - 1)
            if is_new and state in ("open", "again"):
                self.ask(question)
            elif is_new and state == "lobby" and view.ended:
                self._open_view(view.questions, epsilon, plan=view.plan)
            elif state and (rounds := view.rounds(question)):
                self._update_view(current_number=rounds[-1].number)
            if is_new and state in ("locked", "counted", "result"):
                self.lock()
            self._update_view(
                step=step,
                reached=max(step, view.reached),
                ended=self._view.ended or state == "end",
            )
            self._last_press = now

    def lock(self, locked: bool = True) -> None:
        """Stop accepting reports to the current question, or accept them again.

        Args:
            locked: whether to stop.
        """
        with self._lock:
            if asking := self._view.now:
                self._view = self._view.with_asking(replace(asking, locked=locked))

    def hide(self, hides: bool = True) -> None:
        """Choose whether a question's results are hidden until it is locked."""
        self._update_view(hides=hides)

    def add(self, question: str) -> None:
        """Add a question at the end.

        Raises:
            InvalidSetting: the question is not valid, or there are too many.
            ReportRejected: the room is closed.
        """
        with self._lock:
            self._update_view(
                questions=_clean_questions((*self._get_open_view().questions, question))
            )

    def set_epsilon(self, epsilon: float) -> None:
        """Set the epsilon of answers to questions that have not been asked yet.

        Raises:
            InvalidSetting: epsilon is not valid.
            ReportRejected: the room is closed.
        """
        flip_threshold(epsilon)  # raises an error if epsilon is not valid
        with self._lock:
            self._get_open_view()
            self._update_view(epsilon=float(epsilon))

    def end(self) -> None:
        """Close the room for all reports."""
        self._update_view(ended=True)

    def count(self, yes: int, hands: int) -> None:
        """Store the hands counted for the current question.

        Each is shown after a throw of `choose_coin_rule`. The last count replaces earlier ones.

        Raises:
            InvalidSetting: the counts are not valid.
            ReportRejected: no question is open, or the room is closed.
        """
        check_number("hands", hands, at_least=1, at_most=MAX_PHONES, integer=True)
        check_number("hands that say yes", yes, at_least=0, at_most=hands, integer=True)
        with self._lock:
            asking = self._get_current_asking()
            for asking_before in self._view.answered_rounds(asking.question, Sender.HANDS):
                n_hands = asking_before.counts[Sender.HANDS].reports
                if asking_before.number != asking.number and n_hands != hands:
                    limit = f"{n_hands}, as the first time"
                    raise InvalidSetting("hands", limit, hands, "the same people answer again")
            self._store_counts(
                asking, Sender.HANDS, Poll(yes, hands, choose_coin_rule(asking.epsilon).channel)
            )

    def simulate(self, yes: int) -> None:
        """Simulate CLASS_SIZE phones, of which `yes` say yes, in all rounds of the question.

        Raises:
            InvalidSetting: `yes` is not valid.
            ReportRejected: no question is open, or the room is closed.
        """
        check_number(
            "simulated phones that say yes", yes, at_least=0, at_most=CLASS_SIZE, integer=True
        )
        with self._lock:
            for asking in self._view.rounds(self._get_current_asking().question):
                self._simulate(asking, yes)

    def _simulate(self, asking: Asking, yes: int) -> None:
        """Let CLASS_SIZE simulated phones answer an asking, `yes` of them with yes."""
        channel = build_phone_channel(asking.epsilon)
        reports = simulate_reports(np.arange(CLASS_SIZE) < yes, channel, self._rng)
        self._store_counts(asking, Sender.SIMULATED, Poll(int(reports.sum()), CLASS_SIZE, channel))
        self._update_view(simulated_yes={**self._view.simulated_yes, asking.question: yes})

    def _store_counts(self, asking: Asking, sender: Sender, poll: Poll) -> None:
        """Replace the reports of a sender other than phones in an asking."""
        self._view = self._view.with_asking(replace(asking, counts={**asking.counts, sender: poll}))

    def _get_current_asking(self) -> Asking:
        """Return the current asking.

        Raises:
            ReportRejected: there is none, or the room is closed.
        """
        now = self._get_open_view().now
        if now is None:
            raise ReportRejected("none_asked")
        return now

    def _get_open_view(self) -> View:
        """Return the view of a room that is still open.

        Raises:
            ReportRejected: the room is closed.
        """
        if self._view.ended:
            raise ReportRejected("ended")
        return self._view

    def report(
        self,
        room: Any,
        asking: Any,
        token: Any,
        bit: Any = None,
        address: str = "",
    ) -> Receipt:
        """Accept what a phone sends. The same report twice counts once.

        Args:
            room: id of the room that the phone answers in.
            asking: number of the asking.
            token: the browser's token.
            bit: the report, 0 or 1.
            address: network address that the report comes from.

        Raises:
            ReportRejected: the report is not accepted; the message is a sentence for the phone.
        """
        if room != self._view.id:
            raise ReportRejected("other_room")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise MalformedReport("no_token")
        if type(asking) is not int:
            raise MalformedReport("no_question")
        if type(bit) is not int or bit not in (0, 1):
            raise MalformedReport("no_bit")
        with self._lock:
            view = self._view
            if not 0 <= asking < len(view.askings):
                raise ReportRejected("unknown")
            entry = view.askings[asking]
            previous = entry.reports.get(token)
            if previous == bit:
                return Receipt.AGAIN
            if previous is not None:
                raise ReportRejected("twice")
            self._get_open_view()
            if entry is not view.now:
                raise ReportRejected("late")
            if entry.locked:
                raise ReportRejected("locked")
            if len(entry.reports) >= MAX_PHONES:
                raise ReportRejected("full", MAX_PHONES)
            self._admit_browser(token, address)
            entry.reports[token] = bit
            self._update_view(tested=True)
            self._record_arrival(entry)
        return Receipt.NEW

    def _record_arrival(self, asking: Asking) -> None:
        """Record the time of a report, and whether too many have come at once."""
        now = time.monotonic()
        self._arrivals.append(now)
        for seconds, share in BURSTS:
            count = sum(now - arrival < seconds for arrival in self._arrivals)
            if count > max(MIN_BURST, share * self._expected, asking.burst[0]):
                asking = replace(asking, burst=(count, seconds))
        self._view = self._view.with_asking(asking)

    def _admit_browser(self, token: str, address: str) -> None:
        """Give a browser a place in the room, or let it wait.

        Where phones have several addresses, one address gets at most half of the places, and no
        more of its browsers can wait than there are places. So it keeps no other phones out. Behind
        a proxy all phones have one address.

        Args:
            token: the browser's token.
            address: network address that it reports from.

        Raises:
            PhoneWaiting: the teacher has to let it in.
        """
        if token in self._admitted:
            return
        n_admitted, n_own = len(self._admitted), [*self._admitted.values()].count(address)
        is_fair = n_own == n_admitted or n_own < self._n_places // 2
        if is_fair and n_admitted < self._n_places:
            self._admitted[token] = address
            return
        n_waiting = sum(waiting_address == address for waiting_address in self._waiting.values())
        if (
            token not in self._waiting
            and n_waiting < self._n_places
            and len(self._waiting) < MAX_PHONES
        ):
            self._waiting[token] = address
            self._update_view(waiting=len(self._waiting))
        raise PhoneWaiting("waits")

    def close_to_new_phones(self, closed: bool = True) -> None:
        """Let phones that have not answered yet wait until they are let in, or no longer."""
        with self._lock:
            self._n_places = len(self._admitted) if closed else 2 * self._expected
            self._update_view(closed=closed)

    def let_in(self, phones: int) -> None:
        """Give a place to the first `phones` of the waiting phones."""
        with self._lock:
            for token in list(self._waiting)[:phones]:
                self._admitted[token] = self._waiting.pop(token)
            self._update_view(waiting=len(self._waiting))


def _clean_questions(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the questions on one line each.

    Raises:
        InvalidSetting: one is too long or empty, or there are too many.
    """
    questions = tuple(" ".join(text.split()) for text in texts)
    for question in questions:
        if not 0 < len(question) <= MAX_QUESTION_LENGTH:
            raise InvalidSetting(
                "question", f"1 to {MAX_QUESTION_LENGTH} characters", len(question)
            )
    if len(questions) not in QUESTIONS:
        raise InvalidSetting(
            "number of questions", f"{QUESTIONS[0]} to {QUESTIONS[-1]}", len(questions)
        )
    return questions
