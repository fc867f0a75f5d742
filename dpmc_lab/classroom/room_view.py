"""What the projector shows of a class: shares with their intervals over one axis, and words."""

from __future__ import annotations

import csv
import enum
import io
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from dpmc_lab.classroom import CLASS, room
from dpmc_lab.classroom.room import Ballot, Bounds, Coins, Poll, Sender, View
from dpmc_lab.curves import cards

PHONES = (30, 300, 3000)  # of which the wall shows how far they would reach
FEWEST = 3  # phones of which a share is shown: nobody's reports stand alone
_NUMBERS = ("no", "one", "two", "three", "four")
_TIMES = ("", "once", "twice", "three times", "four times")


class Mark(enum.Enum):
    """How a row is drawn."""

    ESTIMATE = "solid"
    PEOPLE = "thin"
    REPORTED = "hollow"
    REACH = "faint"  # the interval that so many phones would give
    CERTAINTY = "bar"  # a number that is known, without an interval


@dataclass(frozen=True)
class ShareRow:
    """One share on an axis of 0..1. found: None before it is shown; truth: where it is known, which
    an estimate can be compared with; note: of what it is, or why it is not shown."""

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
    if row.mark is Mark.REACH:
        share, low, high = row.found
        return f"± {points(max(share - low, high - share))}"
    form = cards.of_hundred if row.mark is Mark.CERTAINTY else points
    return f"{form(row.found.share)} %"


def range_text(row: ShareRow) -> str:
    """Its interval: '39 to 85'."""
    if row.found is None or row.mark in (Mark.CERTAINTY, Mark.REPORTED):
        return ""
    return f"{points(row.found.low)} to {points(row.found.high)}"


# --- one question ---------------------------------------------------------------------------------


def senders(view: View, question: int) -> list[Sender]:
    """Who has sent reports to a question, phones first."""
    return [sender for sender in Sender if view.poll(question, sender=sender).reports]


def of_question(view: View, question: int, *, told: bool = False) -> list[ShareRow]:
    """The estimates and what they are made from, for each kind of sender; then how far more phones
    would reach at the share of the first. told: whether the share of simulated phones is no
    secret."""
    visible = view.shown
    present_senders = senders(visible, question)
    if not present_senders:
        note = HIDDEN if senders(view, question) else "no reports yet"
        return [
            ShareRow("This class", Mark.ESTIMATE, None, note=note),
            ShareRow("Reports as sent", Mark.REPORTED, None),
        ]
    rows = []
    for sender in present_senders:
        hidden = sender is not Sender.SIMULATED or not told
        truth = None if hidden else view.pretended[question] / CLASS
        *earlier_polls, all_answers = _polls(visible, question, sender)
        for poll in (*earlier_polls, all_answers):
            respondents = of_text(poll, sender)
            if earlier_polls:
                respondents += (
                    " that answered the last time"
                    if poll is not all_answers
                    else ", all that answered"
                )
            rows.append(_row("This class", poll, sender, respondents, truth))
        if rows[-1].found is not None and all_answers.of_people is not None:
            sent = Bounds(*[all_answers.yes / all_answers.reports] * 3)
            n_reports = all_answers.reports
            rows.append(
                ShareRow("People like this class", Mark.PEOPLE, all_answers.of_people, n_reports)
            )
            rows.append(ShareRow("Reports as sent", Mark.REPORTED, sent, n_reports))
    first_poll = visible.poll(question, sender=present_senders[0])
    if rows[0].found is not None:
        for phones in PHONES:
            name = f"{phones:,} phones would resolve"
            rows.append(
                ShareRow(name, Mark.REACH, first_poll.resolved_by(phones), phones, note=COMPUTED)
            )
    return rows


def _polls(view: View, question: int, sender: Sender) -> list[Poll]:
    """Of those who answered the last time, where that tells them apart; and of all who answered."""
    all_answers = view.poll(question, sender=sender)
    if sender is not Sender.PHONES:
        return [all_answers]
    latest = view.poll(question, among=view.latest(question))
    return (
        [latest, all_answers]
        if FEWEST <= latest.people <= all_answers.people - FEWEST
        else [all_answers]
    )


def _row(
    name: str, poll: Poll, sender: Sender, note: str = "", truth: float | None = None
) -> ShareRow:
    """The share of a class; of fewer phones than FEWEST there is none."""
    if sender is Sender.PHONES and 0 < poll.people < FEWEST:
        return ShareRow(name, Mark.ESTIMATE, None, note=f"{note}: shown from {FEWEST} phones on")
    return ShareRow(name, Mark.ESTIMATE, poll.of_class, poll.reports, truth, note)


def of_text(poll: Poll, sender: Sender) -> str:
    """Of what an estimate is: '30 phones', '60 reports of 30 phones'."""
    of = _plural(poll.people, _one(sender))
    return of if poll.reports == poll.people else f"{poll.reports} reports of {of}"


def of_ballot(view: View, guess_poll: Ballot) -> list[ShareRow]:
    """How many have chosen each option of a guess; nothing before it is locked."""
    rows, people = [], len(guess_poll.reports)
    for index, (option, chosen) in enumerate(
        zip(guess_poll.options, guess_poll.counts(), strict=True)
    ):
        if not (guess_poll.locked or view.ended):
            rows.append(ShareRow(option, Mark.ESTIMATE, None, note=HIDDEN))
            continue
        share = chosen / people if people else 0.0
        note = f"{chosen} of {people}" + ("; the answer" if index == guess_poll.right else "")
        rows.append(ShareRow(option, Mark.CERTAINTY, Bounds(share, share, share), note=note))
    return rows


# --- all questions, and all askings ---------------------------------------------------------------


def asked(view: View) -> list[int]:
    """The questions asked so far, in that order."""
    return list(dict.fromkeys(asking.question for asking in view.askings))


def overview(view: View) -> list[ShareRow]:
    """The share of every question asked so far, in that order, of phones where there are any."""
    rows, visible = [], view.shown
    for question in asked(view):
        sender = next(iter(senders(visible, question)), Sender.PHONES)
        poll = visible.poll(question, sender=sender)
        note = HIDDEN if not poll.reports and senders(view, question) else of_text(poll, sender)
        rows.append(_row(view.questions[question], poll, sender, note))
    return rows


class Difference(NamedTuple):
    """By how much one share is above another, among the same people; by their questions."""

    more: int
    less: int
    by: Bounds

    @property
    def sure(self) -> bool:
        return self.by.low > 0


def differences(view: View) -> list[Difference]:
    """Of every two questions to which the same people have answered, the estimated larger share
    first. In 95 of 100 classes every interval holds its difference."""
    visible, results = view.shown, []
    pairs = list(itertools.combinations(asked(view), 2))
    for pair in pairs:
        sender, *other_senders = {
            next(iter(senders(visible, entry)), Sender.PHONES) for entry in pair
        }
        shared_phones = set.intersection(*(visible.phones(entry) for entry in pair))
        if other_senders or (sender is Sender.PHONES and len(shared_phones) < FEWEST):
            continue
        entry, other_entry = (
            visible.poll(question, sender=sender, among=shared_phones) for question in pair
        )
        interval = room.difference(entry, other_entry, room.MISSED / len(pairs))
        if interval is not None and interval.share < 0:
            pair, interval = pair[::-1], Bounds(-interval.share, -interval.high, -interval.low)
        if interval is not None:
            results.append(Difference(*pair, interval))
    return results


def ranked(
    rows: Sequence[ShareRow], pair_differences: Sequence[Difference]
) -> list[ShareRow] | None:
    """The same from the largest share down, those without one last; None where two of them are not
    surely different."""
    n_shares = sum(row.found is not None for row in rows)
    if n_shares < 2 or sum(difference.sure for difference in pair_differences) < math.comb(
        n_shares, 2
    ):
        return None
    return sorted(rows, key=lambda row: math.inf if row.found is None else -row.found.share)


def compared(view: View, pair_differences: Sequence[Difference]) -> list[str]:
    """What may be said of which shares are larger."""
    told = [
        f"“{view.questions[one.more]}” has more yes in this class than"
        f" “{view.questions[one.less]}”: by {points(one.by.low)} to {points(one.by.high)} points."
        for one in pair_differences
        if one.sure
    ]
    if all(one.sure for one in pair_differences):
        return [*told, DIFFER] if told else []
    open_ = [one for one in pair_differences if not one.sure]
    if len(open_) > 1:
        return [*told, f"{len(open_)} {'other ' if told else ''}pairs: {SAME}"]
    (one,) = open_
    names = f"“{view.questions[one.more]}” less “{view.questions[one.less]}”"
    return [*told, f"{names}: {points(one.by.low)} to {points(one.by.high)} points. {SAME}"]


def rounds(view: View, question: int, prior: float = 0.5) -> tuple[list[ShareRow], list[ShareRow]]:
    """What asking again does: the estimate after each round, and how often an attacker is right, at
    last where all reports of a phone agree; prior: how sure of a yes before."""
    estimates, certainty = [], []
    visible = view.shown
    sender = next(iter(senders(visible, question)), Sender.PHONES)
    for times in range(1, len(visible.answered(question, sender)) + 1):
        name = "Asked once" if times == 1 else f"Asked {times} times"
        poll = visible.poll(question, times, sender)
        estimates.append(_row(name, poll, sender, of_text(poll, sender)))
        told = replace(poll.channel, times=times)
        right = room.attacker(told, prior)
        note = f"epsilon {cards.epsilon_text(told.loss(1).epsilon)} in all"
        certainty.append(ShareRow(name, Mark.CERTAINTY, Bounds(right, right, right), note=note))
    if len(estimates) > 1:
        agree, right = room.equal_reports(poll.channel, times, prior)
        note = f"as in {cards.hundred(agree)} of 100 phones"
        name = f"All {times} reports equal"
        certainty.append(ShareRow(name, Mark.CERTAINTY, Bounds(right, right, right), note=note))
    return estimates, certainty


def surer(estimates: Sequence[ShareRow], certainty: Sequence[ShareRow]) -> str:
    """Whom the last round tells more of than the first, by what is written in the rows of `rounds`;
    and the sum of the epsilons."""
    first, *_, last = (row.found for row in estimates)
    grown = []
    if first is not None and last is not None and last.high - last.low < first.high - first.low:
        grown.append("surer about the class")
    if share_text(certainty[-1]) != share_text(certainty[0]):
        grown.append("surer about you")
    return f"Asked again: {', '.join(grown) or 'no surer'}; {certainty[-2].note}"


# --- words and tables -----------------------------------------------------------------------------


def words(rows: Sequence[ShareRow], about: str) -> str:
    """What a picture of rows shows."""
    told = []
    for row in rows:
        of = f" ({row.note})" if row.note else ""
        if row.found is None:
            told.append(f"{row.name}{of}: no share yet")
        elif not range_text(row):
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


def epsilon_words(epsilon: float, phones: int = CLASS) -> tuple[str, str, str]:
    """What an epsilon per answer means: for an answer, for who guesses it, and for the class."""
    channel = room.coin(epsilon)
    themselves, good = room.class_to(channel, phones), room.good_to(channel, phones)
    answer = (
        f"With {phones} phones the share of this class is good to about ± {points(themselves)}"
        f" points, that of people like this class to ± {points(good)}."
        if themselves < 0.5
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
    "Share of yes, each with its 95 % interval. Thick: this class, whose answers are fixed. Thin:"
    " people like this class, as many as you like. Hollow: reports as sent. Dashed: the interval"
    " that so many phones would give at this share. Protected: one answer of one person."
)
_TRUTH = " Dashed upright: the true share of the simulated phones."
HIDDEN = "hidden until locked"
COMPUTED = "people like this class, at its share"
SAME = "Their difference may be none, so nobody may say which share is larger."
DIFFER = "These differ, every two of them, with 95 % for all of this together."
GUESSED = "Share of the phones that guessed so: counted, nothing hides it."


def legend(rows: Sequence[ShareRow]) -> str:
    """What the marks of a question's picture mean."""
    has_truth = any(row.truth is not None for row in rows)
    return _LEGEND + (_TRUTH if has_truth else "")


def counted(view: View) -> tuple[list[tuple[str, str]], str]:
    """How many have answered the question that is on, by who sends, and how many phones are
    connected; and whether more reports are taken."""
    now = view.now
    if guess_poll := view.ballot:
        poll_figures = [
            (str(len(guess_poll.reports)), "answered"),
            (str(view.connected), "connected"),
        ]
        return poll_figures, _open(view)
    if now is None:
        return [], ""
    figures, rounds = [], view.rounds(now.question)
    other_senders = [entry for entry in senders(view, now.question) if entry is not Sender.PHONES]
    before = set().union(*(entry.reports for entry in rounds if entry.number < now.number))
    if now.reports or view.connected or before or not other_senders:
        again = len(before & now.reports.keys())
        new, label = len(now.reports) - again, "answered"
        if before:
            label = f"of {len(before)} {'has' if again == 1 else 'have'} answered again"
            label += f", {new} for the first time" if new else ""
        figures += [(str(again if before else new), label), (str(view.connected), "connected")]
    for sender in other_senders:
        figures.append(_counted(view.poll(now.question, sender=sender).people, _one(sender)))
    place = f"Question {now.question + 1} of {len(view.questions)}"
    place += "" if len(rounds) == 1 else f", round {rounds.index(now) + 1}"
    return figures, f"{place} · {_open(view)}"


def _open(view: View) -> str:
    return "the class is over" if view.ended else "closed" if view.locked else "open"


def waiting(view: View) -> str:
    """Why the wall does not change, or nothing."""
    if view.ballot:
        return "" if view.locked or view.ended else "Nothing is shown until it is locked (L)."
    if view.shown is view or view.now is None:
        return ""
    if len(view.rounds(view.now.question)) > 1:
        return "A round: the shares are those before it, and change when it is locked (L)."
    return "The shares are hidden until the question is locked (L)."


def promise_words(view: View, question: int) -> list[str]:
    """What is proved for whoever answers, and how far it goes."""
    times = len(view.rounds(question))
    right = room.attacker(room.coin(view.costs(question), times))
    agree, certain = room.equal_reports(room.coin(view.costs(question)), max(times, 2))
    sentences = [
        "Protected: one answer of one person, before it leaves the phone. A report moves anyone's"
        f" odds about it at most {odds(view.costs(question)):,.1f}-fold.",
        "Who starts at 50:50 and guesses an answer from"
        f" {'its report' if times == 1 else f'its {times} reports'} is right at most"
        f" {cards.of_hundred(right)} times in 100; who was surer before may be right more often.",
        f"If the question is asked {max(times, 2)} times, all reports of a phone agree for"
        f" {cards.hundred(agree)} of 100 phones. Someone with no idea about you then guesses right"
        f" {cards.hundred(certain)} % of the time.",
        f"Who has answered every time so far, {_plural(len(view.askings), 'answer')}, has spent"
        f" epsilon {cards.epsilon_text(view.most)}: budgets add up.",
    ]
    if Sender.HANDS in senders(view, question):
        hands = view.poll(question, sender=Sender.HANDS).channel.cell_epsilon
        sentences.append(f"Hands by coins: epsilon {cards.epsilon_text(hands)} for each answer.")
    return sentences


def odds(epsilon: float) -> float:
    """e^epsilon, rounded up as on the phone: it is a limit."""
    return math.ceil(10 * math.exp(epsilon)) / 10


def cheat_words(epsilon: float) -> str:
    """What one report per browser does not keep away."""
    return (
        "One report per browser: a private window can cheat, and at this epsilon a made-up report"
        f" weighs as much as {room.weight(room.coin(epsilon)):.1f} people."
    )


def _counted(count: int, one: str) -> tuple[str, str]:
    return str(count), one if count == 1 else f"{one}s"


def _plural(count: int, noun: str) -> str:
    return " ".join(_counted(count, noun))


def _one(sender: Sender) -> str:
    return sender.value.removesuffix("s")


# --- to take away ---------------------------------------------------------------------------------

_COLUMNS = ("kind", "question", "round", "epsilon", "sender", "people", "reports", "yes", "of")
_ENDS = ("share", "low", "high")


def export(view: View, note: Callable[[str, Exception], None] | None = None) -> str:
    """A table of what the wall may show: what was asked, in its order, with the reports as sent
    and without what ties those of one phone together; then every estimate. Shares in 0..1.

    note: is called with each fault; a fault takes away the rows of its question alone.
    """
    stream, visible = io.StringIO(), view.shown
    table = csv.writer(stream, lineterminator="\n")

    def write(
        kind: str, question: int, round_number: int, sender: Sender, poll: Poll, *of: object
    ) -> None:
        prefix = (
            kind,
            _cell(visible.questions[question]),
            round_number,
            f"{poll.channel.cell_epsilon:.6g}",
        )
        table.writerow((*prefix, sender.value, poll.people, poll.reports, poll.yes, *of))

    table.writerow((*_COLUMNS, *_ENDS))
    for asking in visible.askings:
        phones = Poll(sum(asking.reports.values()), len(asking.reports), room.coin(asking.epsilon))
        polls, round_number = (
            {**asking.counts, Sender.PHONES: phones},
            visible.rounds(asking.question).index(asking) + 1,
        )
        for sender in Sender:
            if sender in polls and (polls[sender].reports or not asking.counts):
                sent = ("reports as sent", *[""] * len(_ENDS))
                write("asked", asking.question, round_number, sender, polls[sender], *sent)
    for question in asked(visible):
        with _skip_failures(table, note):
            for sender in senders(visible, question):
                poll = visible.poll(question, sender=sender)
                if sender is not Sender.PHONES or poll.people >= FEWEST:
                    rounds = len(visible.answered(question, sender))
                    for of in ("this class", "people like this class"):
                        interval = poll.of_class if of == "this class" else poll.of_people
                        write("estimate", question, rounds, sender, poll, of, *(interval or ()))
    for guess_poll in view.ballots:
        if guess_poll.locked or view.ended:
            with _skip_failures(table, note):
                table.writerows(_guesses(guess_poll))
    return stream.getvalue()


@contextmanager
def _skip_failures(table: Any, note: Callable[[str, Exception], None] | None) -> Iterator[None]:
    """Where some rows fail, a row says so, and the table keeps all others."""
    try:
        yield
    except Exception as error:
        if note is not None:
            note("A table", error)
        table.writerow(("failed", "These rows could not be computed."))


def _guesses(ballot: Ballot) -> Iterator[tuple[object, ...]]:
    """A line of each option."""
    people, sender = len(ballot.reports), Sender.PHONES.value
    for option, chosen in zip(ballot.options, ballot.counts(), strict=True):
        asked = "guess", _cell(f"{ballot.title} {option}"), ballot.number, "none", sender
        yield (*asked, people, people, chosen, "as sent", chosen / people if people else "")


def _cell(text: str) -> str:
    """A question that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
