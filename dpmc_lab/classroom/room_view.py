"""Show a class on the projector: shares with their intervals on one axis, and sentences."""

import csv
import enum
import io
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from dpmc_lab.classroom import CLASS_SIZE, PHONE_TEXTS, room
from dpmc_lab.classroom.room import Bounds, CoinRule, Poll, Sender, View
from dpmc_lab.store import guard_formula
from dpmc_lab.views import cards
from dpmc_lab.views.text import format_count

PHONE_COUNTS = (30, 300, 3000)  # whose intervals the projector shows for comparison
MIN_PHONES = 3  # fewer phones have no share, so that no single report can be seen
PRIOR = 0.8  # probability of a yes before any report, with which a comparison begins
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
    """One share on an axis from 0 to 1.

    Attributes:
        name: of the row.
        mark: how it is drawn.
        interval: the share with its interval; None before it is displayed.
        reports: number of reports behind it.
        truth: the true share, where it is known.
        note: what it is a share of, or why it is not displayed.
    """

    name: str
    mark: Mark
    interval: Bounds | None
    reports: int = 0
    truth: float | None = None
    note: str = ""


def format_points(value: float) -> str:
    """Return a share in whole percent, which are points in a difference."""
    return f"{round(100 * value)}"


def format_row_share(row: ShareRow) -> str:
    """Return the share of a row: '62 %'."""
    if row.interval is None:
        return ""
    if row.mark is Mark.REACH:
        share, low, high = row.interval
        return f"± {format_points(max(share - low, high - share))}"
    format_share = cards.format_share_percent if row.mark is Mark.CERTAINTY else format_points
    return f"{format_share(row.interval.share)} %"


def format_row_interval(row: ShareRow) -> str:
    """Return the interval of a row: '39 to 85'."""
    if row.interval is None or row.mark in (Mark.CERTAINTY, Mark.REPORTED):
        return ""
    return f"{format_points(row.interval.low)} to {format_points(row.interval.high)}"


# --- one question ---------------------------------------------------------------------------------


def list_senders(view: View, question: int) -> list[Sender]:
    """Return who has reported to a question, phones first."""
    return [sender for sender in Sender if view.poll(question, sender=sender).reports]


def build_question_rows(view: View, question: int, *, reveal_truth: bool = False) -> list[ShareRow]:
    """Return each sender's estimates and reports, then what more phones would give.

    Args:
        view: the room.
        question: index of the question.
        reveal_truth: whether the true share of simulated phones may be displayed.
    """
    visible = view.visible
    present_senders = list_senders(visible, question)
    if not present_senders:
        note = HIDDEN_NOTE if list_senders(view, question) else "no reports yet"
        return [
            ShareRow("This class", Mark.ESTIMATE, None, note=note),
            ShareRow("Reports as sent", Mark.REPORTED, None),
        ]
    rows = []
    for sender in present_senders:
        hidden = sender is not Sender.SIMULATED or not reveal_truth
        truth = None if hidden else view.simulated_yes[question] / CLASS_SIZE
        *earlier_polls, all_answers = _select_polls(visible, question, sender)
        for poll in (*earlier_polls, all_answers):
            respondents = describe_respondents(poll, sender)
            if earlier_polls:
                respondents += (
                    " that answered the last time"
                    if poll is not all_answers
                    else ", all that answered"
                )
            rows.append(_build_row("This class", poll, sender, respondents, truth))
        if rows[-1].interval is not None and all_answers.of_people is not None:
            n_reports = all_answers.reports
            reported_share = all_answers.yes / n_reports
            sent = Bounds(reported_share, reported_share, reported_share)
            rows.append(
                ShareRow("People like this class", Mark.PEOPLE, all_answers.of_people, n_reports)
            )
            rows.append(ShareRow("Reports as sent", Mark.REPORTED, sent, n_reports))
    first_poll = visible.poll(question, sender=present_senders[0])
    if rows[0].interval is not None:
        for phones in PHONE_COUNTS:
            name = f"with {phones:,} phones the line would be this short"
            rows.append(
                ShareRow(
                    name, Mark.REACH, first_poll.interval_for(phones), phones, note=COMPUTED_NOTE
                )
            )
    return rows


def build_result_rows(view: View, question: int) -> list[ShareRow]:
    """Return what a wall shows of a question: the estimates, round by round if there were more."""
    rounds, _ = compare_rounds(view, question)
    if len(rounds) > 1:
        return rounds
    return [row for row in build_question_rows(view, question) if row.mark is not Mark.REACH]


def _select_polls(view: View, question: int, sender: Sender) -> list[Poll]:
    """Return the polls of a question: of those who answered the last time, and of all.

    The first is left out where it would not differ, or too few phones make the difference.

    Args:
        view: the room.
        question: index of the question.
        sender: who sent the reports.
    """
    all_answers = view.poll(question, sender=sender)
    if sender is not Sender.PHONES:
        return [all_answers]
    latest = view.poll(question, among=view.latest_phones(question))
    return (
        [latest, all_answers]
        if MIN_PHONES <= latest.people <= all_answers.people - MIN_PHONES
        else [all_answers]
    )


def _build_row(
    name: str, poll: Poll, sender: Sender, note: str = "", truth: float | None = None
) -> ShareRow:
    """Return the share of a class; it is not displayed for fewer phones than MIN_PHONES.

    Args:
        name: of the row.
        poll: the reports.
        sender: who sent them.
        note: what the row is a share of.
        truth: the true share, if it may be displayed.
    """
    if sender is Sender.PHONES and 0 < poll.people < MIN_PHONES:
        return ShareRow(
            name, Mark.ESTIMATE, None, note=f"{note}: shown from {MIN_PHONES} phones on"
        )
    return ShareRow(name, Mark.ESTIMATE, poll.of_class, poll.reports, truth, note)


def describe_respondents(poll: Poll, sender: Sender) -> str:
    """Describe the reports that an estimate uses: '30 phones', '60 reports of 30 phones'."""
    phones_text = format_count(poll.people, _format_singular(sender))
    return (
        phones_text if poll.reports == poll.people else f"{poll.reports} reports of {phones_text}"
    )


# --- all questions, and all askings ---------------------------------------------------------------


def list_asked_questions(view: View) -> list[int]:
    """Return the questions asked so far, in the order of their first asking."""
    return list(dict.fromkeys(asking.question for asking in view.askings))


def summarise_questions(view: View) -> list[ShareRow]:
    """Return a row with the share of every question asked so far.

    It uses the reports of phones, or of the first other sender if no phone has reported.
    """
    rows, visible = [], view.visible
    for question in list_asked_questions(view):
        sender = next(iter(list_senders(visible, question)), Sender.PHONES)
        poll = visible.poll(question, sender=sender)
        note = (
            HIDDEN_NOTE
            if not poll.reports and list_senders(view, question)
            else describe_respondents(poll, sender)
        )
        rows.append(_build_row(view.questions[question], poll, sender, note))
    return rows


class Difference(NamedTuple):
    """How much larger the share of one question is than that of another, among the same people.

    Attributes:
        larger_question, smaller_question: indices of the questions.
        interval: the difference of the shares with its interval.
        people: number of people who answered both.
    """

    larger_question: int
    smaller_question: int
    interval: Bounds
    people: int

    @property
    def is_certain(self) -> bool:
        """Return whether the whole interval is above zero."""
        return self.interval.low > 0


def compare_questions(view: View) -> list[Difference]:
    """Compare every two questions that the same people have answered, the larger share first.

    In 95 of 100 classes every interval covers its difference.
    """
    visible = view.visible
    results = []
    pairs = list(itertools.combinations(list_asked_questions(view), 2))
    for pair in pairs:
        sender, *other_senders = {  # questions with different senders are not compared
            next(iter(list_senders(visible, question)), Sender.PHONES) for question in pair
        }
        shared_phones = set.intersection(*(visible.phones(question) for question in pair))
        if other_senders or (sender is Sender.PHONES and len(shared_phones) < MIN_PHONES):
            continue
        first_poll, second_poll = (
            visible.poll(question, sender=sender, among=shared_phones) for question in pair
        )
        # The pairs share the error probability (Bonferroni).
        interval = room.compute_share_difference(
            first_poll, second_poll, room.MISS_RATE / len(pairs)
        )
        if interval is not None and interval.share < 0:
            pair = pair[::-1]
            interval = Bounds(-interval.share, -interval.high, -interval.low)
        if interval is not None:
            results.append(Difference(*pair, interval, first_poll.people))
    return results


def describe_differences(view: View, pair_differences: Sequence[Difference]) -> list[str]:
    """Return sentences on which shares are larger."""
    sentences = [
        f"“{view.questions[difference.larger_question]}” has more yes in this class than"
        f" “{view.questions[difference.smaller_question]}”: by"
        f" {format_points(difference.interval.low)} to {format_points(difference.interval.high)}"
        f" points among the {difference.people} who answered both."
        for difference in pair_differences
        if difference.is_certain
    ]
    uncertain = [difference for difference in pair_differences if not difference.is_certain]
    if not uncertain:
        return [*sentences, DIFFER_NOTE] if sentences else []
    if len(uncertain) > 1:
        return [*sentences, f"{len(uncertain)} {'other ' if sentences else ''}pairs: {SAME_NOTE}"]
    (difference,) = uncertain
    names = (
        f"“{view.questions[difference.larger_question]}” less"
        f" “{view.questions[difference.smaller_question]}”"
    )
    return [
        *sentences,
        f"{names}: {format_points(difference.interval.low)} to"
        f" {format_points(difference.interval.high)} points among the {difference.people} who"
        f" answered both. {SAME_NOTE}",
    ]


def compare_rounds(
    view: View, question: int, prior: float = PRIOR
) -> tuple[list[ShareRow], list[ShareRow]]:
    """Return the estimate after each round, and how often an attacker is right.

    The attacker's first row is before any report, the last one for phones whose reports all agree.

    Args:
        view: the room.
        question: index of the question.
        prior: prior probability of a yes.
    """
    right = max(prior, 1 - prior)
    estimates = []
    certainty = [
        ShareRow("Before any report", Mark.CERTAINTY, Bounds(right, right, right)),
    ]
    visible = view.visible
    sender = next(iter(list_senders(visible, question)), Sender.PHONES)
    for times in range(1, len(visible.answered_rounds(question, sender)) + 1):
        name = "Asked once" if times == 1 else f"Asked {times} times"
        poll = visible.poll(question, times, sender)
        estimates.append(_build_row(name, poll, sender, describe_respondents(poll, sender)))
        channel = replace(poll.channel, times=times)
        right = room.guess_probability(channel, prior)
        note = f"epsilon {cards.format_epsilon(channel.loss(1).epsilon)} in all"
        name = "After one report" if times == 1 else f"After {times} reports"
        certainty.append(ShareRow(name, Mark.CERTAINTY, Bounds(right, right, right), note=note))
    if len(estimates) > 1:  # the poll and the number of times are those of the last round
        equal_share, right = room.equal_report_chances(poll.channel, times, prior)
        note = f"so for {cards.format_share_percent(equal_share)} % of phones"
        name = "All reports agree"
        certainty.append(ShareRow(name, Mark.CERTAINTY, Bounds(right, right, right), note=note))
    return estimates, certainty


def describe_repetition(estimates: Sequence[ShareRow], certainty: Sequence[ShareRow]) -> str:
    """Describe who knows more after the last round than after the first, and the total epsilon.

    The comparison uses the texts of the rows.

    Args:
        estimates, certainty: the rows of `compare_rounds`.
    """
    first, *_, last = (row.interval for row in estimates)
    gains = []
    if first is not None and last is not None and last.high - last.low < first.high - first.low:
        gains.append("we know more about the class")
    # Row 1 is after the first round, since row 0 is before any report. Row -2 is after the last
    # round, with the total epsilon.
    if format_row_share(certainty[-1]) != format_row_share(certainty[1]):
        gains.append("an attacker knows more about you")
    return f"Asked again: {', and '.join(gains) or 'nobody knows more'} ({certainty[-2].note})"


# --- words and tables -----------------------------------------------------------------------------


def describe_rows(rows: Sequence[ShareRow], title: str) -> str:
    """Describe a picture of rows in words."""
    sentences = []
    for row in rows:
        subject = f"{row.name} ({row.note})" if row.note else row.name
        sentence = f"{subject}: {format_row_share(row) or 'no share yet'}"
        if interval := format_row_interval(row):
            sentence += f", 95 % interval {interval}"
        if row.truth is not None:
            sentence += f", true share {format_points(row.truth)} %"
        sentences.append(sentence)
    return f"{title}. {'; '.join(sentences)}."


def tabulate_rows(rows: Sequence[ShareRow]) -> dict[str, list[str | int]]:
    """Return the rows as columns, in percent."""
    return {
        "what": [row.name for row in rows],
        "of": [row.note for row in rows],
        "reports": [row.reports for row in rows],
        "share in %": [format_row_share(row).removesuffix(" %") for row in rows],
        "95 % interval": [format_row_interval(row) for row in rows],
    }


def describe_coin_rule(rule: CoinRule) -> str:
    """Return instructions for a class to throw coins."""
    if rule.heads:
        condition = f"At most {_NUMBERS[rule.heads]} head{'' if rule.heads == 1 else 's'}"
    else:
        condition = "Tails" if rule.coins == 1 else f"Tails {_TIMES[rule.coins]}"
    return (
        f"Throw one coin {_TIMES[rule.coins]} where nobody sees it. {condition}: show the opposite"
        " of your answer. Anything else: show your answer."
    )


def explain_coin_rule(rule: CoinRule) -> str:
    """Explain how often the coins of a rule turn an answer around, and what that costs."""
    spent = cards.format_epsilon(rule.channel.cell_epsilon)
    return (
        f"This coin sends the opposite {100 * rule.chance:g} % of the time, which is epsilon"
        f" {spent}. No rule with one coin is closer to the phones and reveals no more."
    )


def explain_epsilon(epsilon: float) -> tuple[str, str, str]:
    """Explain an epsilon per answer in three sentences.

    They say how often a phone reports the opposite, how often a guess from the report is right, and
    how accurate the shares of a class of CLASS_SIZE are.
    """
    channel = room.build_phone_channel(epsilon)
    poll = room.build_even_poll(channel, CLASS_SIZE)
    class_width, population_width = map(room.get_half_width, (poll.of_class, poll.of_people))
    answer = (
        f"With {CLASS_SIZE} phones, the share of this class is known to about"
        f" ± {format_points(class_width)} points. For people like this class, it is"
        f" ± {format_points(population_width)} points."
        if class_width < 0.5
        else f"With {CLASS_SIZE} phones, the shares say nothing at all."
    )
    return (
        "A phone throws one unfair coin. It sends the opposite of the answer"
        f" {cards.format_share_percent(room.get_flip_chance(channel))} % of the time.",
        "From one report, someone with no idea about you guesses right"
        f" {cards.format_at_most(room.guess_probability(channel))} of the time.",
        answer,
    )


def explain_two_coins(epsilon: float) -> str:
    """Explain the biased coin of a phone by two coins.

    The first coin sends the answer; otherwise the second, a fair coin, decides. Both numbers are
    rounded, with enough digits that the first and twice the second still add up to 100.
    """
    chance = room.get_flip_chance(room.build_phone_channel(epsilon))
    flips_text = cards.format_share_percent(chance)
    digits = len(flips_text.partition(".")[2])
    # Twice the rounded number must be what twice the chance, in percent, is rounded to.
    if abs(2 * float(flips_text) - 200 * chance) >= 0.5 / 10**digits:
        digits += 1
        flips_text = f"{100 * chance:.{digits}f}"
    first = f"{100 - 2 * float(flips_text):.{digits}f}"
    return str(PHONE_TEXTS["two_coins"].format(first=first, flips=flips_text))


def explain_cost(questions: int, epsilon: float) -> str:
    """Return a sentence on the total epsilon of a person who answers each question once."""
    if questions == 1:
        return f"1 answer costs epsilon {epsilon:g}; asking again costs as much again."
    return f"{questions} answers at epsilon {epsilon:g} cost {questions * epsilon:g} in all."


# --- sentences ----------------------------------------------------------------------------------

_LEVEL = cards.format_share_percent(1 - room.MISS_RATE)  # of intervals, in percent
_LEGEND = (
    f"Each line is a {_LEVEL} % interval: all shares of yes that fit the reports. The thick line is"
    " for this class, the thin line for people like this class. The open circle shows what"
    " the phones sent. Dashed lines show what more phones would give. One answer of one person is"
    " protected."
)
_TRUTH = " The upright dashed line is the true share of the simulated phones."
HIDDEN_NOTE = "hidden until locked"
COMPUTED_NOTE = "people like this class, at its share"
SAME_NOTE = "Their shares may be equal, so nobody can say which is larger."
DIFFER_NOTE = f"All of these statements together are right in at least {_LEVEL} % of classes."


def describe_marks(rows: Sequence[ShareRow]) -> str:
    """Explain the marks in the picture of a question."""
    return _LEGEND + (_TRUTH if any(row.truth is not None for row in rows) else "")


def count_answers(view: View) -> tuple[list[tuple[str, str]], str]:
    """Return how many have answered and are connected, and the state of the current question.

    Returns:
        Pairs of a number and its label, and a text on the state.
    """
    now = view.now
    if now is None:
        return [], ""
    figures = []
    rounds = view.rounds(now.question)
    other_senders = [
        sender for sender in list_senders(view, now.question) if sender is not Sender.PHONES
    ]
    earlier_phones = set().union(
        *(asking.reports for asking in rounds if asking.number < now.number)
    )
    if now.reports or view.connected or earlier_phones or not other_senders:
        n_again = len(earlier_phones & now.reports.keys())
        n_new = len(now.reports) - n_again
        label = "answered"
        if earlier_phones:
            label = f"of {len(earlier_phones)} {'has' if n_again == 1 else 'have'} answered again"
            label += f", {n_new} for the first time" if n_new else ""
        figures += [
            (str(n_again if earlier_phones else n_new), label),
            (str(view.connected), "connected"),
        ]
    for sender in other_senders:
        people = view.poll(now.question, sender=sender).people
        number, _, noun = format_count(people, _format_singular(sender)).partition(" ")
        figures.append((number, noun))
    position = f"Question {now.question + 1} of {len(view.questions)}"
    position += "" if len(rounds) == 1 else f", round {rounds.index(now) + 1}"
    state = "the class is over" if view.ended else "closed" if view.locked else "open"
    return figures, f"{position} · {state}"


def explain_waiting(view: View) -> str:
    """Explain why the projector does not show new reports; empty where it does."""
    if view.visible is view or view.now is None:
        return ""
    if len(view.rounds(view.now.question)) > 1:
        return "A new round is open. The shares are from before it until it is locked (L)."
    return "The shares are hidden until the question is locked (L)."


def warn_of_lost_phones(view: View) -> str:
    """Warn of a room that phones have answered in while none is connected; empty otherwise."""
    n_answered = len({token for asking in view.askings for token in asking.reports})
    if view.connected or view.ended or not n_answered:
        return ""
    return (
        f"{format_count(n_answered, 'phone')} answered, but no phone is connected now. Wake the"
        " phones, and check that they are still in this network. Their reports are kept."
    )


def warn_of_burst(view: View) -> str:
    """Ask whether answers that came faster than people tap are from the class; empty otherwise."""
    rounds = view.rounds(view.now.question) if view.now else ()
    count, seconds = max((asking.burst for asking in rounds), default=(0, 0.0))
    in_time = format_count(int(seconds), "second")
    return f"{count} answers in {in_time}: is this your class?" if count else ""


def explain_promise(view: View, question: int) -> list[str]:
    """Return sentences on what is proved for people who answer, and its limits."""
    epsilon = view.question_epsilon(question)
    times = len(view.rounds(question))
    right = room.guess_probability(room.build_phone_channel(epsilon, times))
    equal_share, right_if_equal = room.equal_report_chances(
        room.build_phone_channel(epsilon), max(times, 2)
    )
    sentences = [
        "The phone protects one answer of one person before it sends it. One report changes"
        f" anybody's odds by at most a factor of {odds_factor(epsilon):,.1f}.",
        f"From {'one report' if times == 1 else f'{times} reports'}, someone with no idea about you"
        f" guesses right {cards.format_at_most(right)} of the time. Somebody who"
        " was surer before may be right more often.",
        f"If the question is asked {max(times, 2)} times, all reports of a phone agree for"
        f" {cards.format_share_percent(equal_share)} % of phones. Someone with no idea about"
        f" you then guesses right {cards.format_at_most(right_if_equal)} of the time.",
        f"Anybody who gave every answer so far ({format_count(len(view.askings), 'answer')}) has"
        f" spent epsilon {cards.format_epsilon(view.max_epsilon)}, because budgets add up.",
    ]
    if Sender.HANDS in list_senders(view, question):
        hands = view.poll(question, sender=Sender.HANDS).channel.cell_epsilon
        sentences.append(f"Hands by coins: epsilon {cards.format_epsilon(hands)} for each answer.")
    return sentences


def odds_factor(epsilon: float) -> float:
    """Return e^epsilon, rounded up to one decimal as on the phone, since it is a limit."""
    return math.ceil(10 * math.exp(epsilon)) / 10


def explain_cheating(epsilon: float) -> str:
    """Explain that several browsers of one person can cheat, and how much that weighs."""
    flip_chance = room.get_flip_chance(room.build_phone_channel(epsilon))
    # An honest answer moves the expected number of yes reports by 1 - 2 flips, a made-up one by 1.
    return (
        "Each browser sends one report. A private window can cheat: at this epsilon, a made-up"
        f" report weighs as much as {1 / (1 - 2 * flip_chance):.1f} people."
    )


def _format_singular(sender: Sender) -> str:
    """Return the noun for one sender of a kind: 'phone', 'hand'."""
    return sender.value.removesuffix("s")


# --- to take away ---------------------------------------------------------------------------------

_COLUMNS = ("kind", "question", "round", "epsilon", "sender", "people", "reports", "yes", "of")
_ENDS = ("share", "low", "high")


def export_results(view: View, note: Callable[[str, Exception], None] | None = None) -> str:
    """Return a CSV table of what the projector may show, with shares in 0..1.

    First come the askings in order, with reports as sent and without what links those of one phone;
    then every estimate.

    Args:
        view: the room.
        note: called with a title and the error where rows cannot be computed; only the rows of one
            question are missing then.
    """
    stream = io.StringIO()
    visible = view.visible
    table = csv.writer(stream, lineterminator="\n")

    def write(
        kind: str, question: int, round_number: int, sender: Sender, poll: Poll, *subject: object
    ) -> None:
        """Write a row of the table.

        Args:
            kind: of the row.
            question: index of the question.
            round_number: which round of the question, or how many rounds.
            sender: who sent the reports.
            poll: the reports.
            *subject: what the share is of, and the share with its interval, if known.
        """
        prefix = (
            kind,
            guard_formula(visible.questions[question]),
            round_number,
            f"{poll.channel.cell_epsilon:.6g}",
        )
        table.writerow((*prefix, sender.value, poll.people, poll.reports, poll.yes, *subject))

    table.writerow((*_COLUMNS, *_ENDS))
    for asking in visible.askings:
        phones = Poll(
            sum(asking.reports.values()),
            len(asking.reports),
            room.build_phone_channel(asking.epsilon),
        )
        polls = {**asking.counts, Sender.PHONES: phones}
        numbers = [entry.number for entry in visible.rounds(asking.question)]
        round_number = 0 if asking.void else numbers.index(asking.number) + 1
        subject_columns = ("reports as sent", *[""] * len(_ENDS))  # without an estimate
        for sender in Sender:
            poll = polls.get(sender)
            if poll is not None and (poll.reports or not asking.counts):
                kind = "void" if asking.void else "asked"
                write(kind, asking.question, round_number, sender, poll, *subject_columns)
    for question in list_asked_questions(visible):
        with _skip_failures(table, note):
            for sender in list_senders(visible, question):
                poll = visible.poll(question, sender=sender)
                if sender is not Sender.PHONES or poll.people >= MIN_PHONES:
                    rounds = len(visible.answered_rounds(question, sender))
                    for subject, interval in (
                        ("this class", poll.of_class),
                        ("people like this class", poll.of_people),
                    ):
                        write(
                            "estimate", question, rounds, sender, poll, subject, *(interval or ())
                        )
    return stream.getvalue()


@contextmanager
def _skip_failures(table: Any, note: Callable[[str, Exception], None] | None) -> Iterator[None]:
    """Write a row that says so if the block fails, instead of its remaining rows.

    Args:
        table: the CSV writer.
        note: called with a title and the error.
    """
    try:
        yield
    except Exception as error:
        if note is not None:
            note("A table", error)
        table.writerow(("failed", "These rows could not be computed."))
