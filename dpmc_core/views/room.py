"""What the projector shows of a class: shares with their intervals over one axis, and words."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpmc_core import room
from dpmc_core.room import Bounds, Coins, Sender, View
from dpmc_core.views import cards

AS_IF = (300, 3000)  # people who might answer like the class
_NUMBERS = ("no", "one", "two", "three", "four")
_TIMES = ("", "once", "twice", "three times", "four times")


class Mark(enum.Enum):
    """How a row is drawn."""

    ESTIMATE = "solid"
    REPORTED = "hollow"
    SIMULATED = "faint"
    CERTAINTY = "bar"  # a number that is known, without an interval


@dataclass(frozen=True)
class ShareRow:
    """One share on an axis of 0..1. found: None before there are reports; truth: where the share is
    known, which an estimate can be compared with."""

    name: str
    mark: Mark
    found: Bounds | None
    reports: int = 0
    truth: float | None = None
    note: str = ""


def points(value: float) -> str:
    """A share in whole percents, which are points in a difference."""
    return f"{round(100 * value)}"


def share_text(row: ShareRow) -> str:
    """The share for people: '62 %'."""
    if row.found is None:
        return ""
    form = cards.of_hundred if row.mark is Mark.CERTAINTY else points
    return f"{form(row.found.share)} %"


def range_text(row: ShareRow) -> str:
    """Its interval: '39 to 85'."""
    if row.found is None or row.mark is Mark.CERTAINTY:
        return ""
    return f"{points(row.found.low)} to {points(row.found.high)}"


# --- one question ---------------------------------------------------------------------------------


def senders(view: View, question: int) -> list[Sender]:
    """Who has sent reports to a question, phones first."""
    return [one for one in Sender if view.poll(question, sender=one).reports]


def of_question(view: View, question: int, *, told: bool = False) -> list[ShareRow]:
    """The estimates and what they are made from, one pair of rows for each kind of sender; then
    what more people might say. told: whether the share of simulated phones is no secret."""
    there = senders(view, question) or [Sender.PHONES]
    rows = []
    for sender in there:
        poll = view.poll(question, sender=sender)
        of = sender_text(view, question, sender)
        hidden = sender is not Sender.SIMULATED or not told
        truth = None if hidden else view.pretended[question] / room.CLASS
        rows.append(ShareRow("Estimate", Mark.ESTIMATE, poll.of_people, poll.reports, truth, of))
        rows.append(ShareRow("Reports as sent", Mark.REPORTED, poll.naive, poll.reports))
    first = view.poll(question, sender=there[0])
    if first.of_people is not None:
        for people in AS_IF:
            likely = room.as_if(first.of_people.share, people, first.channel)
            name = f"If {people:,} answered like you"
            rows.append(ShareRow(name, Mark.SIMULATED, likely.of_people, people, note="simulated"))
    return rows


def sender_text(view: View, question: int, sender: Sender) -> str:
    """Of what an estimate is: '30 phones', '60 reports of 30 phones'."""
    people, reports = view.people(question, sender), view.poll(question, sender=sender).reports
    of = _plural(people, _one(sender))
    return of if reports == people else f"{reports} reports of {of}"


# --- all questions, and all askings ---------------------------------------------------------------


def asked(view: View) -> list[int]:
    """The questions asked so far, in that order."""
    return list(dict.fromkeys(one.question for one in view.askings))


def overview(view: View) -> list[ShareRow]:
    """The estimate of every question asked so far, in that order, of phones where there are any."""
    rows = []
    for question in asked(view):
        sender = next(iter(senders(view, question)), Sender.PHONES)
        poll = view.poll(question, sender=sender)
        of = sender_text(view, question, sender)
        rows.append(
            ShareRow(view.questions[question], Mark.ESTIMATE, poll.of_people, poll.reports, note=of)
        )
    return rows


def ranked(rows: Sequence[ShareRow]) -> list[ShareRow] | None:
    """The same from the largest share down, those without reports last; None while their intervals
    overlap."""
    if not room.ranking(row.found for row in rows):
        return None
    return sorted(rows, key=lambda row: math.inf if row.found is None else -row.found.share)


def rounds(view: View, question: int, prior: float = 0.5) -> tuple[list[ShareRow], list[ShareRow]]:
    """What asking again does: the estimate after each round, and how often an attacker is right;
    prior: how sure of a yes before."""
    estimates, certainty = [], []
    sender = next(iter(senders(view, question)), Sender.PHONES)
    for times in range(1, view.times(question, sender) + 1):
        name = "Asked once" if times == 1 else f"Asked {times} times"
        poll = view.poll(question, times, sender)
        estimates.append(ShareRow(name, Mark.ESTIMATE, poll.of_people, poll.reports))
        told = replace(poll.channel, times=times)
        right = room.attacker(told, prior)
        note = f"epsilon {cards.epsilon_text(told.loss(1).epsilon)} in all"
        certainty.append(ShareRow(name, Mark.CERTAINTY, Bounds(right, right, right), note=note))
    return estimates, certainty


def surer(estimates: Sequence[ShareRow], certainty: Sequence[ShareRow]) -> str:
    """Whom the last round tells more of than the first, by what is written in the rows; and the
    sum of the epsilons."""
    first, *_, last = (row.found for row in estimates)
    grown = []
    if first is not None and last is not None and last.high - last.low < first.high - first.low:
        grown.append("surer about the class")
    if share_text(certainty[-1]) != share_text(certainty[0]):
        grown.append("surer about you")
    return f"Asked again: {', '.join(grown) or 'no surer'}; {certainty[-1].note}"


# --- words and tables -----------------------------------------------------------------------------


def words(rows: Sequence[ShareRow], about: str) -> str:
    """What a picture of rows shows."""
    told = []
    for row in rows:
        of = f" ({row.note})" if row.note else ""
        if row.found is None:
            told.append(f"{row.name}{of}: no reports yet")
        elif row.mark is Mark.CERTAINTY:
            told.append(f"{row.name}{of}: {share_text(row)}")
        else:
            told.append(f"{row.name}{of}: {share_text(row)}, 95 % interval {range_text(row)}")
        if row.truth is not None:
            told[-1] += f", true share {points(row.truth)} %"
    return f"{about}. {'; '.join(told)}."


def table(rows: Sequence[ShareRow]) -> dict[str, list[str | int]]:
    """The same by columns, in percent."""
    return {
        "what": [row.name for row in rows],
        "of": [row.note for row in rows],
        "reports": [row.reports for row in rows],
        "share in %": [share_text(row).removesuffix(" %") for row in rows],
        "95 % interval": [range_text(row) for row in rows],
    }


def rule_words(rule: Coins) -> str:
    """What to do with coins, for a class to follow."""
    if rule.heads:
        few = f"At most {_NUMBERS[rule.heads]} head{'' if rule.heads == 1 else 's'}"
    else:
        few = "Tails" if rule.coins == 1 else f"Tails {_TIMES[rule.coins]}"
    return (
        f"Throw one coin {_TIMES[rule.coins]} where nobody sees it. {few}: show the opposite of"
        " your answer. Anything else: show your answer."
    )


def epsilon_words(epsilon: float, phones: int = room.CLASS) -> tuple[str, str, str]:
    """What an epsilon per answer means: for an answer, for who guesses it, and for the class."""
    channel = room.coin(epsilon)
    good = room.good_to(channel, phones)
    answer = (
        f"With {phones} phones a share is good to about ± {points(good)} points."
        if good < 0.5
        else f"With {phones} phones the shares say nothing at all."
    )
    return (
        "A phone throws one tilted coin: it tells the opposite"
        f" {cards.hundred(float(channel.matrix[0, 1]))} times in 100.",
        "Who starts at 50:50 and guesses an answer from its report is right"
        f" {cards.hundred(room.attacker(channel))} times in 100.",
        answer,
    )


def two_coins(epsilon: float) -> str:
    """The tilted coin of a phone, explained by two; with as many digits as make the sum right."""
    chance = float(room.coin(epsilon).matrix[0, 1])
    own = cards.hundred(chance)
    digits = len(own.partition(".")[2])
    if abs(2 * float(own) - 200 * chance) >= 0.5 / 10**digits:
        digits += 1
        own = f"{100 * chance:.{digits}f}"
    return (
        f"Two coins would do the same: {100 - 2 * float(own):.{digits}f} = 100 - 2 x {own} times in"
        " 100 the first lets the answer out; else a second, fair coin answers."
    )


def cost_words(questions: int, epsilon: float) -> str:
    """What a person pays for the whole list, each question asked once."""
    if questions == 1:
        return f"1 answer at {epsilon:g}: asking again costs as much again."
    return f"{questions} answers at {epsilon:g}: {questions * epsilon:g} in all for each person."


# --- sentences ----------------------------------------------------------------------------------

_LEGEND = (
    "Share of yes, each with its 95 % interval. Solid: the class, with the chance taken out."
    " Hollow: reports as sent. Protected: one answer of one person."
)
_BEYOND = " An arrow: chance alone brought the estimate past the end."
_TRUTH = " Dashed upright: the true share of the simulated phones."
OVERLAP = "In the order asked: intervals overlap, so nobody may say which share is larger."
DIFFER = "These differ: no two intervals overlap."


def legend(rows: Sequence[ShareRow]) -> str:
    """What the marks of a question's picture mean."""
    beyond = any(row.found and not 0 <= row.found.share <= 1 for row in rows)
    known = any(row.truth is not None for row in rows)
    return _LEGEND + (_BEYOND if beyond else "") + (_TRUTH if known else "")


def counted(view: View) -> tuple[list[tuple[str, str]], str]:
    """How many reports there are to the question that is on, by who sends them; and whether more
    are taken."""
    now = view.askings[-1]
    told = []
    others = [one for one in senders(view, now.question) if one is not Sender.PHONES]
    if now.reports or view.phones or not others:
        here = f" · {_plural(view.phones, 'phone')} here" if view.phones else ""
        told.append((str(len(now.reports)), _many(len(now.reports), "report") + here))
    for sender in others:
        people = view.people(now.question, sender)
        told.append((str(people), _many(people, _one(sender))))
    times = len(view.rounds(now.question))
    place = f"Question {now.question + 1} of {len(view.questions)}"
    place += "" if times == 1 else f", asked {times} times"
    state = "the class is over" if view.ended else "closed" if view.locked else "open"
    return told, f"{place} · {state}"


def promise_words(view: View, question: int) -> list[str]:
    """What is proved for whoever answers, and how far it goes."""
    times = len(view.rounds(question))
    told = [
        "Protected: one answer of one person, before it leaves the phone. A report moves anyone's"
        f" odds about it at most {_odds(view.epsilon):,.1f}-fold.",
        "Who starts at 50:50 and guesses an answer from"
        f" {'its report' if times == 1 else f'its {times} reports'} is right at most"
        f" {cards.of_hundred(room.attacker(room.coin(view.epsilon, times)))} times in 100; who was"
        " surer before may be right more often.",
        f"Who has answered every time so far, {_plural(len(view.askings), 'answer')}, has spent"
        f" epsilon {cards.epsilon_text(view.most)}: budgets add up.",
    ]
    if Sender.HANDS in senders(view, question):
        hands = view.poll(question, sender=Sender.HANDS).channel.cell_epsilon
        told.append(f"Hands by coins: epsilon {cards.epsilon_text(hands)} for each answer.")
    return told


def _odds(epsilon: float) -> float:
    """e^epsilon, rounded up as on the phone: it is a limit."""
    return math.ceil(10 * math.exp(epsilon)) / 10


def cheat_words(epsilon: float) -> str:
    """What one report per browser does not keep away."""
    return (
        "One report per browser: a private window can cheat, and at this epsilon a made-up report"
        f" weighs as much as {room.weight(room.coin(epsilon)):.1f} people."
    )


def _plural(count: int, one: str) -> str:
    return f"{count} {_many(count, one)}"


def _many(count: int, one: str) -> str:
    return one if count == 1 else f"{one}s"


def _one(sender: Sender) -> str:
    return {Sender.PHONES: "phone", Sender.HANDS: "hand", Sender.SIMULATED: "simulated phone"}[
        sender
    ]
