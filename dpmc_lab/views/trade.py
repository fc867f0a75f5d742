"""Compare privacy and utility: how often an attacker may be right, against the metric that is left.

All curves answer one question. The horizontal axis shows how often the best attacker, who starts at
50:50, is right *at most*: by the noise model where it is known, else by a bound. A certificate that
is infinite, or useless, lies beyond the axis, since a missing proof is not a success of an
attacker.
"""

import enum
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from dpmc_core.errors import InvalidSetting, capitalise, format_sentence
from dpmc_core.model import Task
from dpmc_core.privacy import (
    CELL,
    RATING,
    ROW_VALUES,
    USER_EMPTIED,
    USER_REPLACED,
    Additive,
    Budget,
    Change,
    Guarantee,
    LocalChannel,
    ModifiedLaplace,
    RandomizedResponse,
    SymbolChannel,
    Trust,
    calibrate,
    sensitivity_at,
)
from dpmc_core.privacy.accounting import attacker_certainty
from dpmc_lab.measured import MeasuredBound
from dpmc_lab.store import restore_mechanism
from dpmc_lab.views import cards
from dpmc_lab.views.cards import (
    MAX_INFORMATIVE_RATE,
    TYPICAL_RATINGS,
    cap_guarantee,
    format_limit_percent,
)
from dpmc_lab.views.lines import Curve, CurveChart, Interval
from dpmc_lab.views.measurements import describe_measured_bound, find_line_bound
from dpmc_lab.views.noise import list_symbols
from dpmc_lab.views.text import Table, build_table


class QuestionScope(enum.Enum):
    """What the attacker asks about: one rating, or everything of a person."""

    RATING = "this rating"
    PERSON = "her whole row"


class Relation(enum.Enum):
    """What the attacker compares the true data with: other data, or their absence."""

    REPLACED = "replaced"
    REMOVED = "removed"


class AttackerPosition(enum.Enum):
    """Where the attacker sits."""

    READER = "reads what is published"
    SERVER = "runs the server"


class BoundState(enum.Enum):
    """Kind of limit on an attacker, in words."""

    BOUND = "at most"
    USELESS = "no limit below 99.9 %"  # a finite one beyond the axis
    NONE = "no limit is proved"
    RAW = "sees the raw rating"


class AttackerQuestion(NamedTuple):
    """A question that an attacker asks.

    Attributes:
        short: its label on a switch.
        text: the question.
        answers: labels of the two possible answers.
        change: how the two data sets differ.
        rated: number of ratings of a person, all of which are in question at once; None for a
            smaller question.
    """

    short: str
    text: str
    answers: tuple[str, str]
    change: Change
    rated: int | None = None

    def assess(self, guarantee: Guarantee) -> "Risk":
        """Compute how often the best attacker is right; a coin is right half of the time."""
        guarantee = self.guarantee_for(guarantee)
        loss = guarantee.loss(self.change)
        # A rate of 1 is no limit: a large finite epsilon has the same in floating point.
        return Risk(self, guarantee, loss.attacker_accuracy(), math.isfinite(loss.epsilon))

    def guarantee_for(self, guarantee: Guarantee) -> Guarantee:
        """Return the guarantee that the question is about.

        If the question is about all ratings of a person, it holds for people with at most `rated`
        ratings.
        """
        return guarantee if self.rated is None else cap_guarantee(guarantee, self.rated)


class Risk(NamedTuple):
    """How often the best attacker is right about a question.

    Attributes:
        question: what the attacker asks.
        guarantee: what the question is about.
        success_rate: how often the attacker is right at most, in 0.5..1.
        is_bounded: whether any limit is proved.
    """

    question: AttackerQuestion
    guarantee: Guarantee
    success_rate: float
    is_bounded: bool

    @property
    def is_informative(self) -> bool:
        """Return whether the limit says more than that the attacker may be right."""
        return self.success_rate <= MAX_INFORMATIVE_RATE

    @property
    def label(self) -> str:
        """Return the limit in percent, or that nothing is proved."""
        return format_limit_percent(self.success_rate) if self.is_bounded else "not proved"

    def describe(self) -> str:
        """Return in a sentence how often the attacker is right.

        The epsilon of the question follows if it is not that of the guarantee's own change.
        """
        question = self.question
        text = cards.describe_attacker_limit(
            question.text, self.success_rate, proved=self.is_bounded
        )
        if not self.is_bounded:
            return format_sentence(text)
        if question.change is not USER_REPLACED and question.rated is None:
            return text
        name = capitalise(question.short) if question.rated else "Between two such sets"
        return f"{text} {name}: {cards.format_spent_budget(self.guarantee, question.change)}."


class QuestionSwitches(NamedTuple):
    """The three switches that select a question."""

    scope: QuestionScope = QuestionScope.RATING
    relation: Relation = Relation.REPLACED
    position: AttackerPosition = AttackerPosition.READER

    def build_question(self, task: Task, rated: int | None = TYPICAL_RATINGS) -> AttackerQuestion:
        """Build the question, which is the same for every guarantee.

        A click has no value: it is there or not, and only all clicks of a person together may be
        replaced.

        Args:
            task: of the mechanisms.
            rated: number of ratings of the person, which counts where single ratings are protected.
        """
        clicks = task is Task.RANKING
        removed = self.relation is Relation.REMOVED
        name = "click" if clicks else "rating"
        yes = ("yes", "no")
        if self.scope is QuestionScope.RATING:
            change = CELL if removed or clicks else RATING
            answers = ("high", "low") if change is RATING else yes
            return AttackerQuestion(
                f"this {name}",
                cards.format_attacker_question(change, clicks=clicks),
                answers,
                change,
            )
        if removed:
            text = cards.format_attacker_question(USER_EMPTIED)
            return AttackerQuestion("in the data?", text, yes, USER_EMPTIED, rated)
        short = f"all {rated} {name}s" if rated else f"which {name}s?"
        other = ROW_VALUES if rated and not clicks else USER_REPLACED
        return AttackerQuestion(
            short, cards.format_attacker_question(other, clicks=clicks), yes, other, rated
        )


def list_questions(
    guarantee: Guarantee, task: Task, rated: int
) -> tuple[AttackerQuestion, AttackerQuestion]:
    """Return two questions: about the guarantee's own unit, and about everything of a person.

    Where a guarantee protects persons, the first asks whether the person is in the data.

    Args:
        guarantee: the guarantee.
        task: of the mechanism.
        rated: number of ratings of the person.
    """
    small, large = QuestionSwitches(QuestionScope.RATING), QuestionSwitches(QuestionScope.PERSON)
    if guarantee.change.per_user:
        small = large._replace(relation=Relation.REMOVED)
    count = None if guarantee.change.per_user else rated
    question = large.build_question(task, count)
    change = cards.get_whole_row_change(guarantee)
    return small.build_question(task, count), question._replace(change=change)


class TradePoint(NamedTuple):
    """A method at one epsilon.

    Attributes:
        epsilon: the setting.
        value: the metric with its interval over seeds.
        state: kind of limit on the attacker.
        success_rate: how often the attacker is right at most, by the noise of the releases.
        certificate_rate: the same limit by the certified epsilon and delta alone.
        claimed_rate: the same limit by the claimed epsilon and delta; None where the claim does not
            cover the question.
    """

    epsilon: float
    value: Interval
    state: BoundState
    success_rate: float
    certificate_rate: float
    claimed_rate: float | None


class TradeLine(NamedTuple):
    """A method in the chart of privacy and utility.

    Attributes:
        line: its curve.
        points: one for each epsilon.
        measured_point: what an audit measured, if anything.
        min_success_rate: the success rate that the audit proves possible; no limit can be lower.
    """

    line: Curve
    points: tuple[TradePoint, ...]
    measured_point: MeasuredBound | None = None
    min_success_rate: float = 0.5

    def point_at(self, epsilon: float) -> TradePoint:
        """Return the point at an epsilon, or at the nearest computed one."""
        return min(self.points, key=lambda point: abs(math.log(point.epsilon / epsilon)))


class TradeChart(NamedTuple):
    """All lines under one question, with the baselines and references they run between."""

    position: AttackerPosition
    question: AttackerQuestion
    chart: CurveChart
    lines: tuple[TradeLine, ...]
    private_baselines: tuple[TradeLine, ...]


def log_odds(success_rate: float) -> float:
    """Return the log odds of a success rate, which are its position on the axis; 0.5 is at 0."""
    return math.log(success_rate / (1 - success_rate))


def build_trade_chart(chart: CurveChart, task: Task, switches: QuestionSwitches) -> TradeChart:
    """Return the lines of a chart under the question of three switches.

    Args:
        chart: the curves.
        task: of the mechanisms.
        switches: select the attacker's question and position.

    Raises:
        DpmcError: a mechanism cannot be restored from its stored settings.
    """
    question = switches.build_question(task)
    position = switches.position
    trade_lines, baseline_lines = (
        tuple(_build_trade_line(line, question, position) for line in curve_lines)
        for curve_lines in (chart.lines, chart.private_baselines)
    )
    return TradeChart(position, question, chart, trade_lines, baseline_lines)


def _build_trade_line(
    line: Curve, question: AttackerQuestion, position: AttackerPosition
) -> TradeLine:
    """Return a line of the chart for a curve, with what an audit measured.

    Args:
        line: the curve.
        question: what the attacker asks.
        position: where the attacker sits.
    """

    def build_guarantee(epsilon: float) -> Guarantee:
        """Return the guarantee of the curve's method at an epsilon."""
        settings = {**line.info.settings, "epsilon": epsilon}
        return restore_mechanism(line.mechanism, settings).guarantee(line.info.public)

    points = tuple(
        TradePoint(
            epsilon,
            value,
            *_limit_attacker(question.guarantee_for(build_guarantee(epsilon)), question, position),
        )
        for epsilon, value in zip(line.epsilon.tolist(), line.intervals, strict=True)
    )
    if any(point.state is BoundState.RAW for point in points):
        return TradeLine(line, points)
    return TradeLine(line, points, *_find_measured_rate(line, question, build_guarantee))


def _limit_attacker(
    guarantee: Guarantee, question: AttackerQuestion, position: AttackerPosition
) -> tuple[BoundState, float, float, float | None]:
    """Return the limit on an attacker as `TradePoint` has it, from its state to the claimed rate.

    Args:
        guarantee: the guarantee that the question is about.
        question: what the attacker asks.
        position: where the attacker sits.
    """
    proved = guarantee.certified(question.change)
    is_reader = position is AttackerPosition.READER
    if not is_reader and guarantee.trust is Trust.CURATOR:
        return BoundState.RAW, 1.0, 1.0, None
    claimed_rate = _compute_claimed_rate(guarantee, question)
    # No limit is proved for the recommender of a protocol with a third party: it must not collude
    # with that party, and with Gaussian shares it knows the size of the noise. The server of a
    # federation sees only what the releases cover, so what limits a reader limits it too. A party
    # sees the raw ratings of its own users, but the server is no party.
    if not proved.finite or (not is_reader and guarantee.trust is Trust.AGGREGATOR):
        return BoundState.NONE, 1.0, 1.0, claimed_rate
    success_rate = guarantee.attacker_accuracy(question.change)
    state = BoundState.BOUND if success_rate <= MAX_INFORMATIVE_RATE else BoundState.USELESS
    return state, success_rate, attacker_certainty(proved.epsilon, proved.delta), claimed_rate


def _compute_claimed_rate(guarantee: Guarantee, question: AttackerQuestion) -> float | None:
    """Return the attacker's limit by the claimed epsilon and delta alone.

    The result is None where nothing is claimed, or the question is about more than the claim.
    """
    # How many changes of the claim's kind the change in question takes.
    n_changes = sensitivity_at({guarantee.change: 1.0}, question.change, guarantee.public)
    if guarantee.claimed is None or n_changes > 1:
        return None
    return attacker_certainty(guarantee.claimed.epsilon, guarantee.claimed.delta)


def _find_measured_rate(
    line: Curve, question: AttackerQuestion, build_guarantee: Callable[[float], Guarantee]
) -> tuple[MeasuredBound, float] | tuple[()]:
    """Return an audit's measured bound and the success rate that it proves possible.

    The result is empty without an audit, or if the audit's change goes beyond the question. The
    rate is that of the method with as much noise as the measured epsilon allows.

    Args:
        line: the curve.
        question: what the attacker asks.
        build_guarantee: returns the guarantee of the method at an epsilon.
    """
    bound = find_line_bound(line)
    if bound is None:
        return ()
    public_facts = question.guarantee_for(build_guarantee(bound.epsilon)).public
    # What the audit changed may take several changes of the question's kind.
    if sensitivity_at({question.change: 1.0}, bound.change, public_facts) > 1:
        return ()
    success_rate = attacker_certainty(bound.measured, bound.delta)
    with suppress(
        InvalidSetting
    ):  # raised if nothing is certified: then the bound follows from epsilon and delta
        setting = calibrate(build_guarantee, Budget(bound.measured, bound.delta), bound.change)
        success_rate = build_guarantee(setting).attacker_accuracy(bound.change)
    return bound, success_rate


LEGEND = (
    "Filled marker: proved. White middle: what its paper claims. Short bar: measured at epsilon 1;"
    " a wide band leads from there to where a proof is missing."
)


# --- in words and numbers ----------------------------------------------------------------------


def format_success(point: TradePoint) -> str:
    """Return 'is right at most 54.8 % of the time', or why there is no number."""
    if point.state is not BoundState.BOUND:
        return str(point.state.value)
    return f"{cards.format_success_rate(point.success_rate)} of the time"


def describe_trade(trade: TradeChart, epsilon: float) -> list[str]:
    """Return sentences on the question, then on each method's metric and attacker at an epsilon."""
    question = trade.question
    metric = trade.chart.metric
    counts = f"{question.change.protects}: {question.change.relation}"
    ratings_note = f"; of a person {question.rated} ratings are counted" if question.rated else ""
    text_lines = [
        f"{capitalise(cards.ATTACKER)} asks “{question.text}”, {trade.position.value} and knows"
        f" everything else. The question is about {counts}{ratings_note}. A coin flip gets 50 %."
    ]
    for trade_line in trade.lines:
        point = trade_line.point_at(epsilon)
        text_lines.append(
            f"{trade_line.line.label} at epsilon {point.epsilon:g}:"
            f" {metric.format_value(point.value.mean)}, attacker {format_success(point)}."
        )
    states = {point.state for trade_line in trade.lines for point in trade_line.points}
    if states & {BoundState.NONE, BoundState.USELESS}:
        text_lines.append(
            "“No limit” means that a proof is missing, not that an attacker is right."
        )
    if BoundState.RAW in states:
        text_lines.append("A trusted server has the raw ratings, so it need not guess.")
    return text_lines


def conclude_trade(trade: TradeChart, epsilon: float) -> str:
    """Return how many methods limit the attacker at an epsilon, and to what, as a title."""
    points = [line.point_at(epsilon) for line in trade.lines]
    rates = [point.success_rate for point in points if point.state is BoundState.BOUND]
    if not rates:
        return f"No mechanism limits this attacker at epsilon {epsilon:g}"
    total = f" of {len(points)}" * (len(rates) < len(points))
    return (
        f"{len(rates)}{total} limit this attacker to {format_limit_percent(max(rates))} at epsilon"
        f" {epsilon:g}"
    )


def describe_trade_chart(trade: TradeChart, epsilon: float) -> str:
    """Describe the chart in words."""
    metric = trade.chart.metric
    levels = [
        f"{name}: {metric.format_value(interval.mean)}"
        for name, interval in trade.chart.list_endpoints(epsilon)
    ]
    # A measured leak is a lower bound, so its rate is rounded down.
    ticks = [
        f"{trade_line.line.label}: {describe_measured_bound(trade_line.measured_point)}, so no"
        f" proof below {math.floor(1000 * trade_line.min_success_rate) / 10:.1f} %"
        for trade_line in trade.lines
        if trade_line.measured_point is not None
    ]
    head = f"{metric.title} against how often an attacker is right at most"
    return " ".join(map(format_sentence, [head, *describe_trade(trade, epsilon), *levels, *ticks]))


def tabulate_trade(trade: TradeChart) -> Table:
    """Return every point of every line as columns."""
    rows = (
        (
            trade_line.line.label,
            point.epsilon,
            format_limit_percent(point.success_rate)
            if point.state is BoundState.BOUND
            else point.state.value,
            format_limit_percent(point.certificate_rate) if point.state is BoundState.BOUND else "",
            "" if point.claimed_rate is None else format_limit_percent(point.claimed_rate),
            *map(
                trade_line.line.metric.format_value,
                (point.value.mean, point.value.low, point.value.high),
            ),
        )
        for trade_line in trade.lines
        for point in trade_line.points
    )
    names = ("mechanism", "epsilon", "right at most", "by epsilon and delta alone")
    return build_table((*names, "as claimed", "mean", "from", "to"), rows)


# --- to be played in a browser -----------------------------------------------------------------


def build_guessing_game(risk: Risk) -> dict[str, Any] | None:
    """Return what an attacker sees under each answer to a question, for a game in a browser.

    A single channel is played as it is. Additive noise is played as one number that is as
    informative as all releases together.

    Returns:
        {"symbols": names, "no": chances, "yes": chances}, or {"shift": shift of a number with noise
        of scale 1, "law": "gaussian" or "laplace"}. None where nothing is proved, since there is no
        fair game then.
    """
    question, guarantee, success_rate, _ = risk
    if question.rated is not None or not 0.5 <= success_rate < 1:
        return None
    releases = [release for _, release in guarantee.releases]
    single_release = releases[0] if len(releases) == 1 else None
    if isinstance(single_release, RandomizedResponse | SymbolChannel):
        # The rows of the two extreme answers; row 0 of a symbol channel is for no rating.
        lowest = int(isinstance(single_release, SymbolChannel))
        no, yes = single_release.matrix[[lowest, -1]].tolist()
        return {"symbols": list_symbols(single_release, guarantee.public), "no": no, "yes": yes}
    if isinstance(single_release, ModifiedLaplace):
        return {"law": "laplace", "shift": 2 / single_release.scale}
    loss = guarantee.loss(question.change)
    if any(isinstance(release, LocalChannel) for release in releases):
        return None
    if loss.epsilon == 0:
        return {"law": "gaussian", "shift": loss.mu}
    if loss.mu == 0 and all(isinstance(release, Additive) for release in releases):
        return {"law": "laplace", "shift": loss.epsilon}
    return None
