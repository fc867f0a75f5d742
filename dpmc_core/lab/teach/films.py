"""Films: would you watch it? A class says so of a list, and of each phone two answers are sent.

Nobody leaves an answer out, so that which films somebody has rated tells nothing. What a class
releases is a share of each film. The matrix that completes is of simulated people who are given
these shares; and a phone orders the list by its own answers, which stay there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import registry
from dpmc_core.arrays import Bools, Floats
from dpmc_core.errors import InvalidSetting, parsed
from dpmc_core.experiment import Result
from dpmc_core.lab.teach import room
from dpmc_core.lab.teach.room import LIST, PICKED, Ballot, Poll, View
from dpmc_core.lab.teach.room_view import FEWEST, odds, points
from dpmc_core.lab.views import cards
from dpmc_core.lab.views.lines import interval
from dpmc_core.model import Task
from dpmc_core.problem import Problem, build_problem
from dpmc_core.ratings import PublicFacts, Ratings

SUM = 4.0  # epsilon of all that a phone sends
SUMS = (1.0, 2.0, 4.0, 8.0, 12.0, 20.0)
ASKED = "Would you watch it?"
SHOWN = 3  # of a phone's list
CROWDS = (300, 3000)  # simulated people
_TITLE = 60  # characters
_TASTE = 1.0  # spread of a person's liking of a genre, in log-odds
_RIDGE = 4.0  # of an answer's own variance, in that of a genre's part of it
_DECADES = 0.25  # of what years tell, in what a genre does
_CLEAR = 0.02  # a released share is at least so far from none and all of the simulated people

READY = {
    "Films": """Alien; horror; 1979
The Shining; horror; 1980
Toy Story; animation; 1995
Spirited Away; animation; 2001
Titanic; romance; 1997
Casablanca; romance; 1942
The Matrix; action; 1999
Mad Max: Fury Road; action; 2015
Some Like It Hot; comedy; 1959
Groundhog Day; comedy; 1993""",
    "Dishes": """Pizza; Italian
Lasagne; Italian
Sushi; Japanese
Ramen; Japanese
Tacos; Mexican
Chili; Mexican
Falafel; Lebanese
Hummus; Lebanese""",
}


class Listed(NamedTuple):
    """One line of a list. year: 0 where it is not known."""

    title: str
    genre: str = ""
    year: int = 0

    @property
    def text(self) -> str:
        """The line again: what phones are sent."""
        return "; ".join(str(part) for part in self if part)


@lru_cache(maxsize=16)  # every phone asks for it every other second
def listed(text: str) -> tuple[Listed, ...]:
    """A list, a film a line: title; genre; year. Raises InvalidSetting, which names the line."""
    films: list[Listed] = []
    for number, line in enumerate(text.splitlines(), 1):
        title, *more = (" ".join(part.split()) for part in line.split(";"))
        if not title and not any(more):
            continue
        year = next((part for part in more if part.isdecimal()), "0")
        genre = next((part for part in more if part and not part.isdecimal()), "")
        if not 0 < len(title) <= _TITLE or len(genre) > _TITLE:
            raise InvalidSetting(f"line {number}", f"a title of 1 to {_TITLE} characters", line)
        if any(title.casefold() == one.title.casefold() for one in films):
            raise InvalidSetting(f"line {number}", "a title that is not there yet", title)
        films.append(Listed(title, genre, parsed(int, year[:4], f"year of line {number}")))
    if not PICKED <= len(films) <= LIST:
        raise InvalidSetting("length of the list", f"{PICKED} to {LIST} lines", len(films))
    return tuple(films)


def of(ballot: Ballot) -> tuple[Listed, ...]:
    """The films of a list that is asked."""
    return listed("\n".join(ballot.options))


def worth(films: int, total: float, phones: int) -> tuple[int, float, float]:
    """Reports of a film, and half the 95 % intervals of its share: of the class, of people."""
    reports = round(phones * PICKED / films)
    poll = Poll(reports // 2, reports, room.coin(total / PICKED), among=phones)
    found = (poll.of_class, poll.of_people)
    own, people = (0.5 if one is None else (one.high - one.low) / 2 for one in found)
    return reports, own, people


def before(films: int, total: float, phones: int = room.CLASS) -> tuple[str, str]:
    """What a list costs a phone, and what its shares will be good for: said before it is asked."""
    reports, own, people = worth(films, total, phones)
    good = (
        f"good to ± {points(own)} points for this class, ± {points(people)} for people like it"
        if own < 0.5
        else "no better than not asking"
    )
    return (
        f"Each phone answers all for itself, draws {PICKED} by chance and sends these through the"
        f" coin, at {total / PICKED:g} each: {total:g} in all.",
        f"{phones} phones, {films} titles: about {reports} reports of each, its share {good}.",
    )


def promised(ballot: Ballot) -> list[str]:
    """What is proved for whoever answers a list, and how far it goes."""
    each = ballot.channel
    both = replace(each, times=PICKED)  # of two reports of unlike people
    right = max(room.attacker(each), room.attacker(both))
    return [
        f"Protected: all that a phone sends, {PICKED} of its answers. Together they move anyone's"
        f" odds about it at most {odds(ballot.epsilon):,.1f}-fold.",
        "Everybody answers every title, and the phone draws which ones are sent: what somebody has"
        " seen tells nothing.",
        "Who starts at 50:50 and guesses one answer from its report, or which of two people it is"
        f" who differ in every answer, is right at most {cards.of_hundred(right)} times in 100.",
    ]


def shares(ballot: Ballot) -> Floats:
    """What the wall shows, within 0..1: the released share of each film, one half without one."""
    return np.array(
        [
            np.clip(one.share, _CLEAR, 1 - _CLEAR) if one.reports >= FEWEST else 0.5
            for one in ballot.polls()
        ]
    )


# --- a list of one's own --------------------------------------------------------------------------
#
# Half of the list is foretold from a phone's answers to the other half: what an engine would show
# who knew these alone. Answers, less a base, are Gaussian: a part that films of a genre share, a
# smaller one of films of about the same year, and one of each film alone.


class Halves(NamedTuple):
    """Places of the films that are foretold, those of the others, and what an answer to one of
    these adds to each of the first: by public facts alone."""

    shown: tuple[int, ...]
    known: tuple[int, ...]
    by: Floats

    def scores(self, answers: Floats, base: Floats) -> Floats:
        """answers: people x films; base: of each film before any answer."""
        known, shown = list(self.known), list(self.shown)
        found: Floats = base[shown] + (answers - base)[:, known] @ self.by.T
        return found


@lru_cache(maxsize=16)
def halves(films: tuple[Listed, ...]) -> Halves:
    """Every other film of each genre is foretold, so that every genre is in both halves."""
    genres = np.array([one.genre.casefold() for one in films])
    years = np.array([one.year for one in films], dtype=float)
    alike = (genres[:, None] == genres) & (genres != "")
    near = np.exp(-np.abs(years[:, None] - years) / 10) * np.outer(years > 0, years > 0)
    shared = alike + _DECADES * near
    order = np.argsort(genres, kind="stable")
    shown, known = np.sort(order[::2]), np.sort(order[1::2])
    inner = shared[np.ix_(known, known)] + _RIDGE * np.eye(len(known))
    by = np.linalg.solve(inner, shared[np.ix_(known, shown)]).T
    return Halves(tuple(shown.tolist()), tuple(known.tolist()), by)


class Hits(NamedTuple):
    """Of the first SHOWN of a list, the share that simulated people would watch: by their own
    answers alone, by these and the class's shares, and by the shares; and by how much the second
    list is ahead of the last at least, with 95 %."""

    alone: float
    own: float
    popular: float
    ahead: float

    @property
    def yours(self) -> bool:
        """Whether a phone may call such a list its owner's."""
        return self.ahead > 0


def judged(answers: Bools, base: Floats, by: Halves) -> Hits:
    """On simulated people, who are given the class's shares."""
    told = answers.astype(float)
    there = told[:, list(by.shown)]

    def hits(scores: Floats) -> Floats:
        best = np.argsort(-np.broadcast_to(scores, there.shape), axis=1, kind="stable")
        found: Floats = np.take_along_axis(there, best[:, :SHOWN], 1).mean(axis=1)
        return found

    alone = hits(by.scores(told, np.full(len(base), 0.5)))
    own, popular = hits(by.scores(told, base)), hits(base[list(by.shown)])
    lead = interval(own - popular)
    means = [float(one.mean()) for one in (alone, own, popular)]
    return Hits(means[0], means[1], means[2], lead.mean - lead.half_width)


def told(view: View) -> dict[str, Any]:
    """What phones are told of a list beside `View.public`: once it is locked, what makes a list of
    one's own."""
    ballot = view.ballot
    if ballot is None or not ballot.epsilon or not (view.locked or view.ended):
        return {}
    return _told(tuple(shares(ballot).round(3).tolist()), of(ballot))


@lru_cache(maxsize=16)
def _told(base: tuple[float, ...], films: tuple[Listed, ...]) -> dict[str, Any]:
    by, shares = halves(films), np.array(base)
    people = simulated(films, shares, CROWDS[-1], np.random.default_rng(0))
    found = judged(people, shares, by)
    return {
        "base": base,
        "shown": by.shown,
        "known": by.known,
        "by": by.by.round(4).tolist(),
        "yours": found.yours,
    }


# --- the matrix, simulated ------------------------------------------------------------------------


def simulated(
    films: Sequence[Listed], base: Floats, people: int, rng: np.random.Generator
) -> Bools:
    """Which of people would watch which film: its share, moved by each one's taste for genres."""
    genres, of = np.unique(
        [one.genre.casefold() or one.title for one in films], return_inverse=True
    )
    taste = _TASTE * rng.normal(size=(people, len(genres)))[:, of]
    spread = math.sqrt(1 + math.pi * _TASTE**2 / 8)  # of a mean over tastes, about
    odds = spread * np.log(base / (1 - base)) + taste
    return rng.random(odds.shape) < 1 / (1 + np.exp(-odds))


def matrix(films: Sequence[Listed], base: Floats, people: int, seed: Sequence[int]) -> Problem:
    """Simulated people who answer all, of whom PICKED answers each are reported; the others are to
    be foretold. seed: of everything but the coins."""
    rng = np.random.default_rng(seed)
    answers = simulated(films, base, people, rng)
    places = rng.permuted(np.tile(np.arange(len(films)), (people, 1)), axis=1) < PICKED
    public = PublicFacts(users=people, items=len(films), low=-1, high=1)
    titles = tuple(one.title for one in films)

    def part(chosen: Bools) -> Ratings:
        users, items = np.nonzero(chosen)
        values = np.where(answers[chosen], 1.0, -1.0)
        return Ratings.build(users, items, values, public, titles=titles)

    return build_problem((part(places), part(~places)), Task.BINARY, name="simulated people")


def completed(result: Result, base: Floats) -> str:
    """How often the completed matrix is right of the answers that were not sent, beside each
    title's own share."""
    test, guess = result.problem.test, registry.floor_of(type(result.mechanism), ())
    shares = float(np.mean((base[test.items] > 0.5) == (test.values > 0)))
    told = {"the completed matrix": result.metrics["accuracy"], "each title's share alone": shares}
    if guess in result.baselines:
        told["guessing"] = result.baselines[guess]["accuracy"]
    if (plain := registry.REFERENCES[Task.BINARY]) in result.baselines:
        told["without any coin"] = result.baselines[plain]["accuracy"]
    words = "; ".join(f"{name} {100 * share:.1f} %" for name, share in told.items())
    return f"Right of the answers that were not sent: {words}. One draw of people and coins."
