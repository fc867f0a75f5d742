"""The second lesson: arithmetic takes the noise out of the crowd, and not out of one report."""

from __future__ import annotations

import math

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
    Spans,
    Stops,
    Throws,
    heard,
    lie,
    people,
    percent,
    stops,
)
from dpmc_core.lab.teach.room import Bounds, Poll, View, attacker, coin, good_to, truth
from dpmc_core.lab.views.cards import hundred

PHONES = 30  # a class
_SHARE = 0.1  # who would say yes
_MANY = (30, 100, 300, 1000, 3000, 10_000)
_STRICT = 1.0  # an epsilon at which a class is too small
_OFTEN = 0.95  # an interval holds the truth
_SHARES = tuple(k / 10 for k in range(11))
_THIS, _LIKE = "this class", "people like this class"  # what an interval is of
_COUNTED = f"Counted: {_LIKE}"


def slides() -> tuple[Slide, ...]:
    share = Stops("share", "Would say yes", _SHARES, _SHARE, percent, ends=("nobody", "everybody"))
    size = Stops("people", "People", tuple(map(float, _MANY)), float(PHONES), "{:,.0f}".format)
    told = reported(_SHARE, _STRICT)
    wide, plain = around(PHONES, _STRICT), around(PHONES, math.inf)
    return (
        Slide(
            key="count",
            title="Count what arrives",
            said=f"{PHONES} phones answer “Have you ever copied homework?”. In this class"
            f" {percent(_SHARE)} would say yes. Each phone throws its coin at epsilon"
            f" {_STRICT:g}, and you count the yes that arrive.",
            predict=Predict(
                "On average, your count is",
                ("too low", "right", "too high"),
                1 + (told > _SHARE) - (told < _SHARE),
            ),
            move=(share, stops(_STRICT), Throws()),
            reveal=_count,
            teacher="Slide the share to one half: there, and only there, counting is right on"
            " average.",
            in_class=_counted,
        ),
        Slide(
            key="undo",
            title="Undo the coins",
            said="Nobody knows which phones lied, but everybody knows how often. So take that share"
            " off, and stretch what is left by as much as the coins squeezed it: debiasing.",
            predict=Predict(
                f"Counted or debiased: which interval for {_LIKE} is longer, in most throws?",
                ("Counted", "The same", "Debiased"),
                1 + (wide > plain) - (wide < plain),
            ),
            move=(share, stops(_STRICT), Throws()),
            reveal=_undo,
            teacher="Throw often, before you move anything else: counted, the interval misses the"
            f" truth in most classes; debiased, in at most {hundred(1 - _OFTEN)} of {HUNDRED}."
            f" Precise is not right. The answers of {_THIS} are fixed, so its own interval knows no"
            f" chance but the coins'; who wants to speak of {_LIKE} needs the longer one.",
            in_class=_debiased,
            after=Elsewhere(
                "Two estimates of the same noisy film ratings",
                "what_if",
                {"mechanism": "input-flip", "epsilon": f"{_STRICT:g}"},
            ),
        ),
        Slide(
            key="more",
            title="More people",
            said="Now the phones are a sample of a whole country. At epsilon"
            f" {_STRICT:g}, {PHONES} of them tell its share to within plus or minus"
            f" {points(around(PHONES, _STRICT))} points: almost nothing.",
            predict=Predict.number(
                "About how many phones for plus or minus"
                f" {points(around(_MANY[-2], _STRICT))} points?",
                _MANY[-2],
                (_MANY[-1], 10 * _MANY[-1]),
                "{:,.0f}".format,
            ),
            move=(size, stops(_STRICT)),
            reveal=_more,
            teacher="A hundred times the people for a tenth of the error. That is why companies"
            " with millions of phones can afford this noise, and a class hardly.",
        ),
        Slide(
            key="me",
            title="And what about me?",
            said="With enough people the share becomes known almost exactly. Your own report lies"
            " among theirs.",
            predict=Predict(
                f"With {_MANY[-1]:,} people instead of {PHONES}: does your own report tell more of"
                " your answer?",
                ("Yes, all noise goes", "No, it tells as much as before"),
                1,  # its channel knows nothing of the others
            ),
            move=(size, stops()),
            reveal=_me,
            teacher="The crowd's line falls, mine is flat: there is nothing to average in one"
            " report. Several of one person would average too: that is lesson four. What the share"
            " tells of everybody is for the next one.",
        ),
    )


def reported(share: float, epsilon: float) -> float:
    """The share of yes among reports, on average."""
    lies = lie(epsilon)
    return share * (1 - lies) + (1 - share) * lies


def around(many: int, epsilon: float) -> float:
    """Half the 95 % interval of the debiased share, for people like those, where half of the
    reports say yes: there it is widest."""
    return good_to(truth() if math.isinf(epsilon) else coin(epsilon), many)


def _estimate(bounds: Bounds) -> str:
    """It may lie outside of all shares, so never without its interval."""
    return f"{percent(bounds.share)}, for {_THIS} {percent(bounds.low)} to {percent(bounds.high)}"


def points(share: float) -> str:
    return f"{HUNDRED * share:.0f}"


def _exact(share: float) -> str:
    return f"{HUNDRED * share:.1f} %"


def _class(moved: Moved) -> tuple[Dots, Poll, float]:
    """The reports of a simulated class, and its true share: of whole people."""
    told = people(moved["share"], PHONES, moved["epsilon"], moved["throw"])
    truth = round(moved["share"] * PHONES) / PHONES
    return told, Poll(sum(told.reports), PHONES, coin(moved["epsilon"])), truth


def _count(moved: Moved) -> Reveal:
    told, poll, truth = _class(moved)
    pulled = reported(truth, moved["epsilon"])
    return Reveal(
        (
            f"{poll.yes} of {PHONES} reports say yes: {percent(poll.yes / PHONES)}, where"
            f" {percent(truth)} is true.",
            f"On average it is {percent(pulled)}: the coins pull every share towards one half.",
        ),
        told,
        f"A simulated class of {PHONES}",
    )


def _rows(poll: Poll) -> dict[str, Bounds]:
    told = {
        _COUNTED: poll.naive,
        f"Debiased: {_LIKE}": poll.of_people,
        f"Debiased: {_THIS}": poll.of_class,
    }
    return {name: bounds for name, bounds in told.items() if bounds is not None}


def _undo(moved: Moved) -> Reveal:
    _, poll, truth = _class(moved)
    rows = _rows(poll)
    counted, _, this = rows.values()
    verdict = {True: "holds", False: "misses"}
    naive, debiased = (verdict[row.low <= truth <= row.high] for row in (counted, this))
    lies = lie(moved["epsilon"])
    return Reveal(
        (
            f"Counted {percent(counted.share)}; the debiased estimate is {_estimate(this)};"
            f" {percent(truth)} is true.",
            f"({_exact(counted.share)} - {_exact(lies)}) / {1 - 2 * lies:.3f} ="
            f" {_exact(this.share)}: right on average, but dividing stretches what chance does, and"
            f" the interval for {_LIKE} with it.",
            f"In this throw the counted interval {naive} the truth, the one of {_THIS} {debiased}"
            " it.",
        ),
        Spans(rows, truth),
        f"A simulated class of {PHONES}, with {percent(_OFTEN)} intervals",
    )


def _more(moved: Moved) -> Reveal:
    many, epsilon = int(moved["people"]), moved["epsilon"]
    here, free = around(many, epsilon), around(many, math.inf)
    return Reveal(
        (
            f"{many:,} people at epsilon {epsilon:g}: plus or minus {points(here)} points; without"
            f" privacy {points(free)}.",
            "The error shrinks with the square root of the crowd: four times the people, half the"
            " error.",
        ),
        Bend(
            "people",
            tuple(f"{n:,}" for n in _MANY),
            {
                f"epsilon {epsilon:g}": tuple(around(n, epsilon) for n in _MANY),
                "without privacy": tuple(around(n, math.inf) for n in _MANY),
            },
            _MANY.index(many),
            "Plus or minus so many points",
            points,
            high=0.5,
        ),
        f"{percent(_OFTEN)} intervals for {_LIKE}, where half of the reports say yes: there they"
        " are widest.",
    )


def _me(moved: Moved) -> Reveal:
    many, epsilon = int(moved["people"]), moved["epsilon"]
    sure = attacker(coin(epsilon))
    return Reveal(
        (
            f"{many:,} people: the share of {_LIKE} is known to within"
            f" {points(around(many, epsilon))} points.",
            f"Your report alone: who starts at {EVEN} guesses right {hundred(sure)} times in"
            f" {HUNDRED}, as with any other number of people.",
            "Only epsilon moves that line.",
        ),
        Bend(
            "people",
            tuple(f"{n:,}" for n in _MANY),
            {
                "the crowd's share, plus or minus": tuple(around(n, epsilon) for n in _MANY),
                "my report: the best guess is right": (sure,) * len(_MANY),
            },
            _MANY.index(many),
            f"Of {HUNDRED}",
            hundred,
            high=1.0,
        ),
    )


# --- in a room ----------------------------------------------------------------------------------


def _counted(view: View) -> Reveal | None:
    found = heard(view)
    if found is None:
        return None
    poll = found.poll
    return Reveal(
        (f"{poll.yes} of {poll.reports} reports say yes: {percent(poll.yes / poll.reports)}.",),
        Spans({_COUNTED: _rows(poll)[_COUNTED]}),
        found.words,
    )


def _debiased(view: View) -> Reveal | None:
    found = heard(view)
    if found is None:
        return None
    rows = _rows(found.poll)
    counted, _, this = rows.values()
    return Reveal(
        (
            f"Counted {percent(counted.share)}; the debiased estimate is {_estimate(this)}, by the"
            f" same {found.poll.reports} reports. Nobody knows the truth; a debiased interval holds"
            f" what it is of, {_THIS} or {_LIKE}, in at least {percent(_OFTEN)} of classes.",
        ),
        Spans(rows),
        found.words,
    )


LESSON = Lesson(
    "crowd",
    "The crowd: its noise goes, my report's stays",
    7,
    "Arithmetic takes the noise out of the crowd's share, but not out of my one report.",
    slides,
)
