"""The words of the field that people meet here: thirty terms, each said once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from dpmc_core.metrics import METRICS
from dpmc_core.privacy import CELL, RATING, USER_EMPTIED

LONGEST = 140  # characters of an explanation


class Term(NamedTuple):
    """A word and what it means. also: other words for it, or for what it explains along the way.

    more: a second thought, for those who look it up. page: where one meets it, a file in pages/.
    """

    name: str
    words: str
    more: str = ""
    page: str = "what_if"
    also: tuple[str, ...] = ()


TERMS: Mapping[str, Term] = MappingProxyType(
    {
        "epsilon": Term(
            "epsilon",
            "The privacy budget: when one protected unit changes, no output gets more than"
            " e^epsilon times as likely. Smaller is more private.",
            "At epsilon 0 the output says nothing; at 1 odds move up to 2.7-fold, at 5 up to"
            " 150-fold.",
            also=("privacy budget",),
        ),
        "delta": Term(
            "delta",
            "A slack on top of epsilon: how far a chance may exceed e^epsilon times what it was;"
            " keep it far below one in the number of users.",
            "A method that publishes each user's ratings with a chance of 1e-6 has that delta, and"
            " gives ten users of ten million away.",
            "answer",
        ),
        "unit": Term(
            "unit of privacy",
            "The one thing that may differ between two data sets which the output must hardly tell"
            " apart.",
            "Two such data sets are neighbours. The same epsilon for another unit is another"
            " promise.",
            "guarantees",
            ("neighbouring data", "neighbours"),
        ),
        "rating": Term(
            RATING.label,
            f"Protects {RATING.protects}.",
            page="guarantees",
        ),
        "cell": Term(
            CELL.label,
            f"Protects {CELL.protects}.",
            page="guarantees",
            also=("entry",),
        ),
        "user": Term(
            USER_EMPTIED.label,
            f"Protects {USER_EMPTIED.protects}: the row may become empty, or any other row, which"
            " never costs less.",
            "Where the row becomes empty the number of users stays public.",
            "guarantees",
            ("row becomes empty", "row becomes any other"),
        ),
        "sensitivity": Term(
            "sensitivity",
            "How far one protected unit can move an answer at most, before any noise: the noise"
            " must hide as much.",
            page="guarantees",
        ),
        "scale": Term(
            "noise scale",
            "How wide the noise spreads: for Laplace noise the sensitivity divided by epsilon.",
            "Half the epsilon is twice the noise.",
            "noise",
        ),
        "laplace": Term(
            "Laplace and Gaussian noise",
            "Random numbers around 0 of a known law: Laplace noise gives a pure epsilon, Gaussian"
            " noise has shorter tails and needs a delta.",
            page="noise",
            also=("Laplace", "Gaussian"),
        ),
        "flips": Term(
            "randomised response",
            "Each answer is turned around with a known flip chance, 1/(1 + e^epsilon) for yes or"
            " no, so anyone can deny their answer.",
            "Warner, 1965, for questions about which people lie.",
            "noise",
            ("flip chance", "coin", "input perturbation"),
        ),
        "debiased": Term(
            "debiased",
            "The flips' average effect is taken out, (share - f)/(1 - 2f) for a flip chance f:"
            " right on average, for a crowd and not for one person.",
            page="room",
            also=("debiasing",),
        ),
        "claimed": Term(
            "claimed",
            "The epsilon that a method says it has. Drawn hollow where its noise does not prove"
            " it.",
            page="guarantees",
        ),
        "certified": Term(
            "certified",
            "The epsilon that follows from the noise really added and from how far one unit can"
            " move the output. Drawn filled.",
            page="guarantees",
            also=("proved",),
        ),
        "measured": Term(
            "measured",
            "What an audit has found: epsilon is at least that much, but for a stated chance of"
            " error. It can refute a claim, never confirm one.",
            page="guarantees",
            also=("audit",),
        ),
        "notion": Term(
            "pure, approx, joint",
            "Which promise is made: pure is epsilon alone, approx allows a delta, joint covers all"
            " outputs but a person's own.",
            page="guarantees",
            also=("notion", "approximate"),
        ),
        "trust": Term(
            "trust",
            "Who sees raw ratings: local, their owner alone; curator, a trusted server; federated,"
            " each party those of its own users.",
            "A fourth, aggregator: neither the recommender nor a third party, unless the two"
            " work together.",
            "guarantees",
            ("local", "curator", "federated", "aggregator"),
        ),
        "composition": Term(
            "composition",
            "Releases about one unit add up: the sum of their epsilons, and of their deltas, always"
            " holds; with a larger delta often less.",
            "So a budget is spent, and what is published every week must share it.",
            "guarantees",
            ("budget", "budgets add", "ledger"),
        ),
        "cap": Term(
            "cap",
            "At most k ratings of one person are used: k times the epsilon per rating then holds"
            " for all of them together.",
            "Values are bounded likewise: what is out of range is clipped, so that nobody counts"
            " more than the noise can hide.",
            "data",
            ("clip",),
        ),
        "attacker": Term(
            "attacker",
            "Knows all but one unit and starts from a 50/50 guess between two possibilities;"
            " epsilon limits how sure one can end.",
            "Who starts elsewhere may be right more often, and a second report then adds; the odds"
            " still move at most e^epsilon-fold with each.",
            also=("prior", "prior knowledge"),
        ),
        "facts": Term(
            "public facts",
            "What guarantees take for known: how many users and items there are, the rating range,"
            " and a cap on ratings per user.",
            page="guarantees",
        ),
        "held_out": Term(
            "held out",
            "Kept aside and never trained on: every score is measured on such ratings.",
            "They are raw, so scores measured on real people are not private.",
            "train",
            ("held-out ratings", "hold-out", "test ratings"),
        ),
        "guessing": Term(
            "guessing",
            "The best score under the same promise that looks at no personal taste: a method must"
            " beat it to be worth anything.",
            "The share of the gain kept counts from here: 0 % is guessing, 100 % no privacy.",
            also=("floor", "gain kept"),
        ),
        "without": Term(
            "no privacy",
            "The same ratings without any noise: how far a curve stays from it is what privacy"
            " costs.",
            also=("without privacy", "reference"),
        ),
        "accuracy": Term(
            METRICS["accuracy"].spoken,
            METRICS["accuracy"].means,
            page="train",
        ),
        "rmse": Term(
            METRICS["rmse"].spoken,
            METRICS["rmse"].means,
            page="train",
            also=("root mean squared error",),
        ),
        "hr@10": Term(
            f"{METRICS['hr@10'].spoken} and {METRICS['ndcg@10'].spoken}",
            f"{METRICS['hr@10'].means} {METRICS['ndcg@10'].means}",
            "Among 99 items drawn at random it is a far easier race than among all unseen items.",
            page="compare",
            also=("hit ratio",),
        ),
        "band": Term(
            "interval, band",
            "Drawn so that the true value lies within it in 95 of 100 cases; a band is the interval"
            " of a mean over seeds.",
            page="compare",
            also=("seeds", "confidence interval"),
        ),
        "factors": Term(
            "factors",
            "A few numbers for each user and item: their products, added up, predict a rating. The"
            " rank says how many numbers.",
            page="train",
            also=("rank", "matrix completion"),
        ),
        "rounds": Term(
            "rounds",
            "How often the method improves its model; each round that reads the data spends a part"
            " of epsilon.",
            page="train",
        ),
        "estimator": Term(
            "estimator",
            "What turns noisy reports into a model. It sees them and public facts alone, so it"
            " costs no epsilon (post-processing).",
            page="train",
            also=("post-processing",),
        ),
    }
)


def help(*terms: str) -> str:  # as the argument of a page's controls is called
    """What terms mean, for behind a question mark. Raises KeyError."""
    return " ".join(TERMS[term].words for term in terms)


def named(word: str) -> Term | None:
    """The term of this name, or that a word belongs to."""
    same = (term for term in TERMS.values() if word in (term.name, *term.also))
    return next(same, None)


def find(text: str = "") -> tuple[Term, ...]:
    """The terms in the order of the alphabet, those that a text stands in; all without one."""
    wanted = text.casefold().split()
    found = (
        term
        for term in TERMS.values()
        if all(word in " ".join((*term[:3], *term.also)).casefold() for word in wanted)
    )
    return tuple(sorted(found, key=lambda term: term.name.casefold()))
