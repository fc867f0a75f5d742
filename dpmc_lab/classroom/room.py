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
    """

    number: int
    question: int
    epsilon: float
    locked: bool = False
    reports: dict[str, int] = field(default_factory=dict)
    counts: Mapping[Sender, Poll] = field(default_factory=dict)

    @property
    def has_answers(self) -> bool:
        """Return whether somebody has answered."""
        return bool(self.reports or self.counts)


@dataclass(frozen=True, kw_only=True)
class GuessPoll:
    """A poll for a lesson's guess, which is no question of the room and is answered without noise.

    Attributes:
        number: counts down from -1.
        title: of the guess.
        options: what can be chosen.
        right: index of the right option, if there is one.
        locked: whether reports are no longer accepted.
        reports: chosen index by the token of a browser.
    """

    number: int
    title: str
    options: tuple[str, ...]
    right: int | None = None
    locked: bool = False
    reports: dict[str, int] = field(default_factory=dict)

    def count_options(self) -> list[int]:
        """Return how many have chosen each option."""
        chosen = [*self.reports.values()]
        return [chosen.count(index) for index in range(len(self.options))]

    def parse_picks(self, picks: Any) -> int | None:
        """Return the option index that a phone sent as [[index, 1]]; None for anything else."""
        try:
            ((index, bit),) = picks
        except (TypeError, ValueError):
            return None
        is_valid = type(index) is int and type(bit) is int and bit == 1
        return index if is_valid and 0 <= index < len(self.options) else None


@dataclass(frozen=True)
class View:
    """A room at one moment.

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
        guess_polls: all polls for a guess.
        guess_poll_number: number of the current poll in place of a question, else 0.
    """

    id: str
    questions: tuple[str, ...]
    epsilon: float
    opened: float
    askings: tuple[Asking, ...] = ()
    current_number: int = 0
    hides: bool = True
    ended: bool = False
    tested: bool = False
    simulated_yes: Mapping[int, int] = field(default_factory=dict)
    connected: int = 0
    waiting: int = 0
    guess_polls: tuple[GuessPoll, ...] = ()
    guess_poll_number: int = 0

    @property
    def now(self) -> Asking | None:
        """Return the current asking; None before the first."""
        return self.askings[self.current_number] if self.askings else None

    @property
    def guess_poll(self) -> GuessPoll | None:
        """Return the current poll for a guess, if there is one."""
        return self.guess_polls[-1 - self.guess_poll_number] if self.guess_poll_number else None

    @property
    def open(self) -> Asking | GuessPoll | None:
        """Return what phones are asked at the moment."""
        return self.guess_poll or self.now

    @property
    def locked(self) -> bool:
        """Return whether the current question accepts no more reports."""
        return self.open is not None and self.open.locked

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

    def with_asking(self, entry: Asking | GuessPoll) -> View:
        """Return the view with one asking, or one poll, replaced."""
        if isinstance(entry, GuessPoll):
            polls = {poll.number: poll for poll in self.guess_polls} | {entry.number: entry}
            return replace(self, guess_polls=tuple(polls.values()))
        earlier = self.askings[: entry.number]
        return replace(self, askings=(*earlier, entry, *self.askings[entry.number + 1 :]))

    def rounds(self, question: int) -> tuple[Asking, ...]:
        """Return all askings of a question, in order."""
        return tuple(asking for asking in self.askings if asking.question == question)

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
        asking, guess_poll, current = self.now, self.guess_poll, self.open
        question = "" if asking is None else self.questions[asking.question]
        n_repeats = 0 if asking is None or guess_poll else len(self.rounds(asking.question)) - 1
        epsilon = self.epsilon if asking is None else asking.epsilon
        if guess_poll:  # a guess is sent without noise
            epsilon = 0.0
        return {
            "room": self.id,
            "asking": None if current is None else current.number,
            "question": guess_poll.title if guess_poll else question,
            "options": guess_poll.options if guess_poll else (),
            "again": n_repeats,
            "epsilon": epsilon,
            "below": flip_threshold(epsilon) if epsilon else 0,
            "open": current is not None and not self.locked and not self.ended,
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
    ) -> None:
        """Open a room.

        Args:
            questions: texts; empty ones are dropped.
            epsilon: of an answer.
            rng: random numbers of simulated phones.
            expected: number of phones expected; twice as many have a place without being let in.

        Raises:
            InvalidSetting: the questions, epsilon or the number of phones are not valid.
        """
        flip_threshold(epsilon)  # raises an error if epsilon is not valid
        check_number("phones expected", expected, at_least=1, at_most=MAX_PHONES // 2, integer=True)
        question_texts = _clean_questions([text for text in questions if text.strip()])
        self._view = View(secrets.token_hex(4), question_texts, float(epsilon), time.monotonic())
        self._rng = rng or np.random.default_rng()
        self._lock = threading.RLock()
        self._last_press = -math.inf
        # The time of the last request of each phone's page, in increasing order.
        self._last_visits: dict[str, float] = {}
        self._n_places = 2 * expected
        self._admitted: dict[str, str] = {}  # tokens, and the address each came from
        self._waiting: dict[str, str] = {}  # tokens in order, and the address each came from

    def view(self) -> View:
        """Return the room as it is now; later reports are not in the view."""
        with self._lock:
            askings = tuple(
                replace(entry, reports=dict(entry.reports)) for entry in self._view.askings
            )
            polls = tuple(
                replace(entry, reports=dict(entry.reports)) for entry in self._view.guess_polls
            )
            threshold = time.monotonic() - PRESENCE_SECONDS
            n_connected = sum(last_visit > threshold for last_visit in self._last_visits.values())
            return replace(self._view, askings=askings, guess_polls=polls, connected=n_connected)

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

    def ask(self, question: int) -> None:
        """Ask a question, the first time or again; this ends the one before it.

        The current question stays while nobody has answered it, so a button pressed twice, or in
        two tabs, asks once.
        """
        with self._lock:
            view = self._get_open_view()
            last = len(view.questions) - 1
            check_number("question", question, at_least=0, at_most=last, integer=True)
            self._update_view(guess_poll_number=0)
            if view.now is not None and view.now.question == question and not view.now.has_answers:
                self.lock(False)
                return
            asking = Asking(len(view.askings), question, view.question_epsilon(question))
            self._update_view(askings=(*view.askings, asking), current_number=asking.number)
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
                self._update_view(current_number=rounds[-1].number, guess_poll_number=0)
            self._last_press = now

    def lock(self, locked: bool = True, guess_poll: int = 0) -> None:
        """Stop accepting reports to the current question, or accept them again.

        Args:
            locked: whether to stop.
            guess_poll: number of a poll to lock instead, if not 0.
        """
        with self._lock:
            target = self._view.guess_polls[-1 - guess_poll] if guess_poll else self._view.open
            if target is not None:
                self._view = self._view.with_asking(replace(target, locked=locked))

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

    def ask_guess(self, title: str, options: Sequence[str], right: int | None = None) -> None:
        """Ask all phones for a guess, which they send without noise.

        Args:
            title: what is guessed.
            options: what can be chosen.
            right: index of the right option, if there is one.

        Raises:
            ReportRejected: a question is open, or the room is closed.
        """
        with self._lock:
            view = self._get_open_view()
            if isinstance(view.open, Asking) and not view.locked:
                raise ReportRejected("question_open")
            number = -1 - len(view.guess_polls)
            guess_poll = GuessPoll(number=number, title=title, options=tuple(options), right=right)
            self._view = view.with_asking(guess_poll)
            self._update_view(guess_poll_number=number)

    def show(self, number: int) -> None:
        """Show a poll for a guess again, as it was left, by its number."""
        self._update_view(guess_poll_number=number)

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
        picks: Any = None,
    ) -> Receipt:
        """Accept what a phone sends: a bit or, for a guess, the chosen option.

        The same report twice counts once.

        Args:
            room: id of the room that the phone answers in.
            asking: number of the asking, or of the poll for a guess.
            token: the browser's token.
            bit: the report to a question, 0 or 1.
            address: network address that the report comes from.
            picks: the answer to a guess, [[index of the option, 1]].

        Raises:
            ReportRejected: the report is not accepted; the message is a sentence for the phone.
        """
        if room != self._view.id:
            raise ReportRejected("other_room")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise MalformedReport("no_token")
        if type(asking) is not int:
            raise MalformedReport("no_question")
        if asking >= 0 and (type(bit) is not int or bit not in (0, 1)):
            raise MalformedReport("no_bit")
        with self._lock:
            view = self._view
            entries: Sequence[Asking | GuessPoll] = (*view.askings, *view.guess_polls)
            entry = next((candidate for candidate in entries if candidate.number == asking), None)
            if entry is None:
                raise ReportRejected("unknown")
            is_guess = asking < 0
            answer: Any = entry.parse_picks(picks) if isinstance(entry, GuessPoll) else bit
            if answer is None:
                raise MalformedReport("no_option")
            previous = entry.reports.get(token)
            if previous == answer:
                return Receipt.AGAIN
            if previous is not None:
                raise ReportRejected("twice")
            self._get_open_view()
            if entry is not view.open:
                raise ReportRejected("late")
            if entry.locked:
                raise ReportRejected("locked")
            max_reports = self._n_places if is_guess else MAX_PHONES
            if len(entry.reports) >= max_reports:
                raise ReportRejected("full", max_reports)
            if not is_guess:  # a guess comes under another token than reports
                self._admit_browser(token, address)
            entry.reports[token] = answer
            self._update_view(tested=True)
        return Receipt.NEW

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
