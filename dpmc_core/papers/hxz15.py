"""HXZ15: Hua, Xia, Zhong, "Differentially Private Matrix Factorization" (2015).

Known here by a summary of one page, which names data, metrics and no number.
"""

from __future__ import annotations

from dpmc_core.papers.frame import BYTES, EPSILON_LOG, ERROR, Axis, Experiment, Paper, Promise
from dpmc_core.privacy import RATING
from dpmc_core.ratings import PublicFacts

_MOVIELENS = PublicFacts(users=943, items=1682, low=1, high=5)
_NETFLIX = PublicFacts(users=191_668, items=100, low=1, high=5)
_LATER = "no grid has been made for it yet"
_SUMMARY = "Known by a one-page summary: no figure, table or number of it can be compared."


def _promises(public: PublicFacts) -> tuple[Promise, ...]:
    return (Promise(mechanism="dpmf", change=RATING, public=public),)


PAPER = Paper(
    key="HXZ15",
    title="Differentially Private Matrix Factorization",
    authors=("Jingyu Hua", "Chang Xia", "Sheng Zhong"),
    year=2015,
    venue="IJCAI",
    entry="inproceedings",
    more={
        "booktitle": "Proceedings of the 24th International Joint Conference on Artificial"
        " Intelligence (IJCAI)",
        "pages": "1763--1770",
    },
    unjudged=_SUMMARY,
    theory=False,
    experiments=(
        Experiment(
            id="hxz15-cdf",
            place="summary, performance",
            title="How large the errors are at several epsilons, MovieLens 100K",
            x=ERROR,
            y=Axis("share of held-out ratings with an error up to this"),
            promises=_promises(_MOVIELENS),
            not_run=_LATER,
        ),
        Experiment(
            id="hxz15-increase",
            place="summary, performance",
            title="Mean increase of the error over the same method without privacy, MovieLens 100K",
            x=EPSILON_LOG,
            y=Axis("mean increase of the absolute error (rating points)"),
            promises=_promises(_MOVIELENS),
            not_run=_LATER,
        ),
        Experiment(
            id="hxz15-communication",
            place="summary, performance",
            title="Bytes that the untrusted recommender costs, scenarios 2 and 3",
            x=Axis("users of one item", log=True),
            y=BYTES,
            promises=_promises(_MOVIELENS),
            not_run=_LATER,
        ),
        Experiment(
            id="hxz15-netflix",
            place="summary, data",
            title="The same on Netflix ratings, 191,668 users and 100 films",
            x=EPSILON_LOG,
            y=Axis("mean increase of the absolute error (rating points)"),
            promises=_promises(_NETFLIX),
            not_run="the Netflix ratings are no longer given out",
        ),
    ),
)
