"""The fourth lesson: what is asked again adds up, and so does all that one person tells."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from dpmc_core.lab.teach.lessons import films
from dpmc_core.lab.teach.lessons.attacker import prior, sure
from dpmc_core.lab.teach.lessons.frame import (
    EVEN,
    HUNDRED,
    Bend,
    Dots,
    Elsewhere,
    Lesson,
    Moved,
    Predict,
    Reveal,
    Slide,
    Stops,
    Throws,
    listed,
    people,
    stops,
)
from dpmc_core.lab.teach.room import EPSILON, View, attacker, coin
from dpmc_core.lab.views import cards
from dpmc_core.lab.views.cards import hundred
from dpmc_core.privacy import USER_EMPTIED
from dpmc_core.privacy.accounting import attacker_certainty

_EVEN = 0.5
_TIMES = range(1, 11)
_AGAIN, _OFTEN = 5, 10  # times asked
_ONCE = 1.0  # an epsilon at which one report leaves much open
_RATED = range(1, films.RATED + 1)


def slides() -> tuple[Slide, ...]:
    again = Stops("times", "Times asked", tuple(map(float, _TIMES)), float(_AGAIN))
    often = again._replace(start=float(_OFTEN))
    rated = Stops("rated", "Ratings of the person", tuple(map(float, _RATED)), float(films.RATED))
    one = films.card(films.PER_RATING, _ONCE)
    return (
        Slide(
            key="add",
            title="The same question again",
            said=f"You have answered at epsilon {EPSILON:g}. Now the teacher asks the same question"
            " again, and your phone throws its coin anew.",
            predict=Predict.number(
                f"Asked {_AGAIN} times: what epsilon have you spent on this answer?",
                spent(EPSILON, _AGAIN),
                (EPSILON, EPSILON**_AGAIN),
                "{:.3g}".format,
            ),
            move=(again, stops()),
            reveal=_add,
            teacher="On the page Class, Ask again does this to a room that is open: see what the"
            " phones say they have spent.",
            in_class=_room,
        ),
        Slide(
            key="majority",
            title="Go by the majority",
            said=f"Who starts at {EVEN} guesses right from one report at epsilon {_ONCE:g},"
            f" {hundred(best(_ONCE, 1))} times in {HUNDRED}. Now all your reports are kept.",
            predict=Predict.number(
                f"After {_OFTEN} reports: right how often in {HUNDRED}?",
                best(_ONCE, _OFTEN),
                (best(_ONCE, 1), attacker_certainty(_ONCE * _OFTEN)),
                hundred,
            ),
            move=(often, prior(_EVEN), stops(_ONCE), Throws()),
            reveal=_majority,
            teacher=f"Who starts at {EVEN} gets nothing from a second report: where two differ, the"
            " guess is as open as before. Whoever suspects something does get more from it. The"
            " sum of the epsilons is a limit on the worst that could come out; on average even the"
            " best attacker stays below it.",
        ),
        Slide(
            key="keep",
            title="Throw once, keep the report",
            said="Another phone throws its coin once, keeps the report, and sends that same report"
            " every time the question comes.",
            predict=Predict(
                f"Asked {_OFTEN} times: how much surer is the attacker than after one report?",
                ("Not at all", "A little", f"As after {_OFTEN} new throws"),
                0,  # what one knows already tells nothing new
            ),
            move=(often, stops(_ONCE)),
            reveal=_keep,
            teacher="The phones of this class do so when a page is loaded again. It helps only"
            " while the question and the answer stay the same: a new question throws anew.",
        ),
        Slide(
            key="person",
            title="One rating is not one person",
            said=f"Each film rating is flipped at epsilon {_ONCE:g}, and the promise reads:"
            f" {one.change.label}. One person has rated {films.RATED} films.",
            predict=Predict.number(
                "Which epsilon holds for all ratings of this person together?",
                cards.row_of_ratings(one, films.RATED).epsilon,
                (_ONCE, _ONCE / films.RATED),
                "{:.3g}".format,
            ),
            move=(rated, stops(_ONCE)),
            reveal=_person,
            teacher="Ask of every epsilon: for what? A small number for one rating is a large one"
            " for a person.",
            after=Elsewhere(
                "The same person's ratings, and who asks for all of them",
                "what_if",
                {"mechanism": films.PER_RATING, "epsilon": f"{_ONCE:g}", "asked": str(1)},
            ),
        ),
    )


def spent(epsilon: float, times: int) -> float:
    """What so many answers through the room's coin add up to."""
    return coin(epsilon, times).loss(1).epsilon


def best(epsilon: float, times: int, before: float = _EVEN) -> float:
    """How often the best guess from so many reports is right; before: how sure of a yes."""
    return min(attacker(coin(epsilon, times), before), math.nextafter(1.0, 0.0))  # never sure


def _add(moved: Moved) -> Reveal:
    times, epsilon = int(moved["times"]), moved["epsilon"]
    return Reveal(
        (
            f"{_number(spent(epsilon, times))}: {times} times {epsilon:g}.",
            "The teacher learns your answer better each time, so each time counts. A budget is"
            " this sum, fixed before the first question.",
        ),
        _over_times(
            times,
            {
                "all together": [spent(epsilon, n) for n in _TIMES],
                "the last one": [spent(epsilon, 1)] * len(_TIMES),
            },
            "epsilon",
            _number,
        ),
    )


def _over_times(
    times: int,
    lines: Mapping[str, list[float]],
    up: str,
    form: Callable[[float], str],
    low: float = 0.0,
    high: float | None = None,
) -> Bend:
    drawn = {name: tuple(line) for name, line in lines.items()}
    stops = tuple(map(str, _TIMES))
    return Bend("times asked", stops, drawn, _TIMES.index(times), up, form, low, high)


def _number(epsilon: float) -> str:
    return f"{epsilon:.3g}"


def _room(view: View) -> Reveal | None:
    """What the phones of a room have spent."""
    asked = len(view.askings)
    if not asked:
        return None
    each = listed(f"{epsilon:g}" for epsilon in sorted({one.epsilon for one in view.askings}))
    return Reveal(
        (
            f"Your room has asked {asked} {'time' if asked == 1 else 'times'} at epsilon"
            f" {each}: whoever answered every time has spent {_number(view.most)}.",
        ),
    )


def _majority(moved: Moved) -> Reveal:
    times, epsilon, throw = int(moved["times"]), moved["epsilon"], moved["throw"]
    before = moved["before"]
    told = people(1.0, times, epsilon, throw).reports
    yes = sum(told)
    said = (
        f"In this throw {yes} of {times} reports say yes"
        + (": the majority is right." if 2 * yes > times else "")
        + (": the majority is wrong." if 2 * yes < times else "")
        + (": a tie, no better than a coin." if 2 * yes == times else "")
    )
    alone = max(before, 1 - before)
    limit = max(alone, attacker_certainty(spent(epsilon, times)))
    return Reveal(
        (
            f"Right {hundred(best(epsilon, times, before))} times in {HUNDRED} after {times}"
            f" {'report' if times == 1 else 'reports'}; after one"
            f" {hundred(best(epsilon, 1, before))}, without any {hundred(alone)}.",
            said,
            f"Whoever was {sure(before)} sure of a yes before: the sum, epsilon"
            f" {_number(spent(epsilon, times))}, limits them to {hundred(limit)}, on average.",
        ),
        Dots(told),
        "Simulated: your reports to one question; your answer is yes.",
    )


def _keep(moved: Moved) -> Reveal:
    times, epsilon = int(moved["times"]), moved["epsilon"]
    once = best(epsilon, 1)
    return Reveal(
        (
            f"Right {hundred(once)} times in {HUNDRED}, as after one report; with new throws"
            f" {hundred(best(epsilon, times))}.",
            "What was published once can be published again for nothing: epsilon is spent by new"
            " noise on the same answer, not by messages.",
        ),
        _over_times(
            times,
            {
                "thrown anew": [best(epsilon, n) for n in _TIMES],
                "kept": [once] * len(_TIMES),
            },
            f"The best guess from {EVEN} is right, of {HUNDRED}",
            hundred,
            low=0.5,
            high=1.0,
        ),
    )


def _person(moved: Moved) -> Reveal:
    rated, epsilon = int(moved["rated"]), moved["epsilon"]
    card = films.card(films.PER_RATING, epsilon)
    together = cards.row_of_ratings(card, rated).epsilon
    once = films.right(films.PER_RATING, epsilon)
    lines = [films.right(films.PER_RATING, epsilon, n) for n in _RATED]
    unbounded = (
        "" if card.certified(USER_EMPTIED).finite else "; who rated which films stays public"
    )
    return Reveal(
        (
            f"{_number(together)}: {rated} {'rating' if rated == 1 else 'ratings'} of epsilon"
            f" {epsilon:g}.",
            f"Who starts at {EVEN} is right about one rating {hundred(once)} times in {HUNDRED};"
            " about which of two opposite tastes the person has,"
            f" {hundred(lines[_RATED.index(rated)])}.",
            f"A person is not hidden by a promise {card.change.label}{unbounded}.",
        ),
        Bend(
            "ratings of the person",
            tuple(map(str, _RATED)),
            {"which of two opposite tastes": tuple(lines), "one rating": (once,) * len(_RATED)},
            _RATED.index(rated),
            f"The best attacker is right, of {HUNDRED}",
            hundred,
            low=0.5,
            high=1.0,
        ),
    )


LESSON = Lesson(
    "again",
    "Again and again: budgets add",
    7,
    "Every new noisy answer spends again, and all the answers of a person are more than one.",
    slides,
)
