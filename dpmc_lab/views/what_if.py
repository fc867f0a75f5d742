"""Compute what What if says of a method at each epsilon of its knob."""

from collections.abc import Collection
from typing import NamedTuple

from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import Guarantee
from dpmc_core.ratings import PublicFacts
from dpmc_lab.views import cards
from dpmc_lab.views.lines import CurveChart, Interval
from dpmc_lab.views.numbers import GainShare, compute_gain_share
from dpmc_lab.views.trade import AttackerQuestion, QuestionScope, QuestionSwitches, Relation, Risk


class Stop(NamedTuple):
    """A method at one epsilon of the knob.

    Sentence, picture, table, component and take-away read this record, so that they agree.

    Attributes:
        epsilon: the setting.
        mechanism: the method with this setting.
        guarantee: on ratings prepared as the curve's.
        risk: about one rating. A method that protects persons limits it as it limits the risk
            about everything that a person rated, which stands here.
        person_risks: about everything that one person rated, by the number of her ratings.
        interval: the metric over seeds; None where it is not computed.
        benefit: the share of the benefit that is left; None where a number is missing.
    """

    epsilon: float
    mechanism: Mechanism
    guarantee: Guarantee
    risk: Risk
    person_risks: dict[int, Risk]
    interval: Interval | None = None
    benefit: GainShare | None = None

    @property
    def value(self) -> float | None:
        """Return the mean of the metric over seeds."""
        return self.interval and self.interval.mean


def build_stop(
    mechanism: Mechanism,
    epsilon: float,
    chart: CurveChart,
    public: PublicFacts,
    rated: Collection[int] = (cards.TYPICAL_RATINGS,),
    times: int = 1,
) -> Stop:
    """Build the record of a method at one epsilon.

    Args:
        mechanism: the method.
        epsilon: its setting, or the budget of several publications.
        chart: the method's curve is the first line; without a line nothing is computed yet.
        public: public facts of the prepared ratings.
        rated: numbers of ratings of the persons whose risk is asked for.
        times: number of publications that the risk is of.
    """
    line = chart.first_line
    guarantee = mechanism.guarantee(public).with_preparation(line.prepared if line else ())
    single, _ = build_questions(guarantee, mechanism.task, 1)
    whole = {count: build_questions(guarantee, mechanism.task, count)[1] for count in rated}
    # What is repeated has no claim, which the sentences about a single publication need.
    published = guarantee.repeat(times) if times > 1 else guarantee
    # A guarantee per person has one question, however much a person rated.
    risks = {question: question.assess(published) for question in {single, *whole.values()}}
    return Stop(
        epsilon,
        mechanism,
        guarantee,
        risks[single],
        {count: risks[question] for count, question in whole.items()},
        line.interval_at(epsilon) if line else None,
        compute_gain_share(chart, line, epsilon) if line else None,
    )


def build_questions(
    guarantee: Guarantee, task: Task, rated: int
) -> tuple[AttackerQuestion, AttackerQuestion]:
    """Return the questions “which of two is hers?” about one rating, and about all of them.

    Where the existence of a rating is protected, one rating means its user-item cell.

    Args:
        guarantee: the guarantee.
        task: of the mechanism.
        rated: number of ratings of the person.
    """
    per_user = guarantee.change.per_user
    person = QuestionSwitches(QuestionScope.PERSON).build_question(
        task, None if per_user else rated
    )
    everything = person._replace(change=cards.get_whole_row_change(guarantee))
    if per_user:
        return everything, everything
    relation = Relation.REMOVED if guarantee.change.covers_existence else Relation.REPLACED
    return QuestionSwitches(relation=relation).build_question(task), everything
