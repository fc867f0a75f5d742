"""The sixth lesson: there is no right epsilon, only one that can be defended."""

from __future__ import annotations

from typing import NamedTuple

from dpmc_core.errors import capital
from dpmc_core.lab.sweep.presets import EPSILONS
from dpmc_core.lab.teach.lessons import films
from dpmc_core.lab.teach.lessons.frame import (
    EVEN,
    HUNDRED,
    Elsewhere,
    Lesson,
    Moved,
    Pick,
    Predict,
    Reveal,
    Slide,
    Worlds,
    listed,
    over_epsilon,
    percent,
    stops,
)
from dpmc_core.lab.views import cards
from dpmc_core.lab.views.cards import hundred

_EPSILON = 1.0


class Decider(NamedTuple):
    """Somebody who has to choose. gains: what good predictions are worth there; risks: what a
    right guess of an attacker costs, and whom."""

    name: str
    gains: str
    risks: str


DECIDERS = {
    "club": Decider(
        "a film club",
        "Good lists make good evenings, but few people give few ratings.",
        "Members know each other, and a like can tell of faith, love or politics.",
    ),
    "hospital": Decider(
        "a hospital",
        "What helped one patient helps the next.",
        "One answer can give an illness away, and patients cannot go elsewhere.",
    ),
    "ads": Decider(
        "an ad company",
        "Better guesses earn money, and millions of people make up for much noise.",
        "Those who carry the risk are not those who earn, and nobody asked them.",
    ),
}
PROMISES = {
    films.PER_RATING: "each rating, even from the server",
    films.PER_PERSON: "a whole person, server trusted",
}


def slides() -> tuple[Slide, ...]:
    names = {key: one.name for key, one in DECIDERS.items()}
    who = Pick("who", "You decide for", names, "club")
    promise = Pick("promise", "Protect", PROMISES, films.PER_RATING)
    budget = _budget(films.PER_PERSON, _EPSILON)
    mine = films.kept(films.PER_RATING, _EPSILON)
    whole = films.kept(films.PER_PERSON, _EPSILON)
    return (
        Slide(
            key="price",
            title="What it costs, what it risks",
            said="Film ratings, each flipped on its owner's phone. The gain is how much better than"
            " guessing the predictions are; noise takes some of it away.",
            predict=Predict.number(
                f"At epsilon {_EPSILON:g}: how much of the gain is kept?",
                mine,
                tuple(films.kept(films.PER_RATING, EPSILONS[k]) for k in (3, -5)),
                percent,
            ),
            move=(stops(_EPSILON),),
            reveal=_price,
            teacher="Both numbers rise together. Ask for the epsilon at which they stop being"
            " worth each other: every answer is an opinion, and needs a reason.",
            after=Elsewhere(
                "The same curve, with people and lists",
                "what_if",
                {"mechanism": films.PER_RATING, "epsilon": f"{_EPSILON:g}"},
            ),
        ),
        Slide(
            key="decide",
            title="Decide for somebody",
            said=f"Three ask you for an epsilon: {listed(names.values())}. Take these curves for"
            " theirs.",
            predict=Predict(
                "Who should get the smallest?", tuple(map(capital, names.values())), None
            ),
            move=(who, stops(_EPSILON)),
            reveal=_decide,
            teacher="Let groups take one each and defend it against the others. There is no right"
            " number, but there are numbers for which nobody finds a reason.",
        ),
        Slide(
            key="unit",
            title="Another promise",
            said="Epsilon says how much, the promise says for what. Another method sees the raw"
            " ratings on a server that one trusts, and protects all that a person gave.",
            predict=Predict.number(
                f"Set to {budget}: how much of the gain does it keep?",
                whole,
                (mine, (mine + whole) / 2),
                percent,
            ),
            move=(stops(_EPSILON),),
            reveal=_unit,
            teacher="The smaller gain does not make it the worse method: it promises more to the"
            " person, and less against the server.",
        ),
        Slide(
            key="write",
            title="Write it down",
            said="A decision is one sentence: the number, for what, what is kept, what an attacker"
            " gets, and what is not protected.",
            predict=None,
            move=(who, promise, stops(_EPSILON)),
            reveal=_write,
            teacher="Collect the sentences and read them aloud without the names: would you give"
            " your ratings?",
            after=Elsewhere("The same for ratings of your own", "answer"),
        ),
    )


def _numbers(mechanism: str, epsilon: float) -> str:
    return (
        f"It {films.kept_words(mechanism, epsilon)}; who starts at {EVEN} is"
        f" right about one {unit(mechanism)} {hundred(films.right(mechanism, epsilon))} times in"
        f" {HUNDRED}."
    )


def _budget(mechanism: str, epsilon: float) -> str:
    """What is certified at a stop, and for what: 'epsilon 1, delta 1e-06 per user'."""
    card = films.card(mechanism, epsilon)
    own = card.certified()
    return f"epsilon {cards.budget_text(own.epsilon, own.delta)} {card.change.label}"


def unit(mechanism: str) -> str:
    """What one protected unit is called."""
    return "person" if films.card(mechanism, _EPSILON).change.per_user else "rating"


def _not_protected(mechanism: str, epsilon: float) -> str:
    if unit(mechanism) == "person":
        return "Not protected: what the server sees, and with it its staff and whoever breaks in."
    together = films.right(mechanism, epsilon, films.RATED)
    return (
        "Not protected: which films somebody rated, and a whole person; about which of two opposite"
        f" tastes somebody with {films.RATED} ratings has, the same attacker is right"
        f" {hundred(together)} times in {HUNDRED}."
    )


def _price(moved: Moved) -> Reveal:
    epsilon = moved["epsilon"]
    risk = tuple(films.right(films.PER_RATING, stop) for stop in EPSILONS)
    return Reveal(
        (_numbers(films.PER_RATING, epsilon), _not_protected(films.PER_RATING, epsilon)),
        over_epsilon(
            epsilon,
            {"gain kept": films.keeps(films.PER_RATING), "attacker right": risk},
            f"Of {HUNDRED}",
        ),
        "Film ratings of the sample data; measured on held-out ratings.",
    )


def _decide(moved: Moved) -> Reveal:
    epsilon, decider = moved["epsilon"], DECIDERS[moved["who"]]
    id = films.PER_RATING
    return Reveal(
        (
            f"At epsilon {epsilon:g}: {_numbers(id, epsilon)}",
            f"For {decider.name}: {decider.gains} {decider.risks}",
        ),
        Worlds(
            ("",),
            {
                "Gain kept": (max(0.0, films.kept(id, epsilon)),),
                "Attacker right about one rating": (films.right(id, epsilon),),
                f"Attacker right about which of two tastes, by {films.RATED} ratings": (
                    films.right(id, epsilon, films.RATED),
                ),
            },
        ),
        f"Of {HUNDRED}; an attacker who starts at {EVEN}.",
    )


def _unit(moved: Moved) -> Reveal:
    epsilon = moved["epsilon"]
    return Reveal(
        (
            _numbers(films.PER_PERSON, epsilon),
            f"Flipping each rating {films.kept_words(films.PER_RATING, epsilon)} at"
            f" {_budget(films.PER_RATING, epsilon)}; here it is"
            f" {_budget(films.PER_PERSON, epsilon)}: the same number, another promise.",
            _not_protected(films.PER_PERSON, epsilon),
        ),
        over_epsilon(
            epsilon,
            {capital(words): films.keeps(id) for id, words in PROMISES.items()},
            f"Gain kept, of {HUNDRED}",
        ),
        "Each between guessing and no privacy of its own kind: likes of the one, stars of the"
        " other.",
    )


def _write(moved: Moved) -> Reveal:
    id, epsilon = moved["promise"], moved["epsilon"]
    return Reveal(
        (
            f"For {DECIDERS[moved['who']].name} we choose {_budget(id, epsilon)}, to protect"
            f" {PROMISES[id]}.",
            _numbers(id, epsilon),
            _not_protected(id, epsilon),
            "Finish the sentence: it is worth it, because ...",
        ),
    )


LESSON = Lesson(
    "choose",
    "Choose: an epsilon you can defend",
    8,
    "There is no right epsilon, only one that somebody defends: what it keeps, what it risks, and"
    " what it does not cover.",
    slides,
)
