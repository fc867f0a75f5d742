"""Z16: Zheng, "Two Differentially Private Rating Collection Mechanisms for Recommender Systems".

The paper has no experiments: what it proves of the error is held against measurements.
"""

from __future__ import annotations

from dpmc_core.papers.frame import EPSILON_LOG, RMSE, Axis, Experiment, Paper, Promise
from dpmc_core.privacy import CELL
from dpmc_core.ratings import PublicFacts

_RESTAURANTS = PublicFacts(users=138, items=130, low=0, high=2)
_GENERATED = PublicFacts(users=300, items=200, low=-1, high=1)
_LATER = "no grid has been made for it yet"


def _promises(public: PublicFacts) -> tuple[Promise, ...]:
    return tuple(
        Promise(mechanism=id, change=CELL, public=public)
        for id in ("modified-laplace", "randomised-response")
    )


PAPER = Paper(
    key="Z16",
    title="Two Differentially Private Rating Collection Mechanisms for Recommender Systems",
    authors=("Wenjie Zheng",),
    year=2016,
    venue="preprint",
    experiments=(
        Experiment(
            id="z16-1",
            place="figure 1",
            title="How the ratings that are collected come about",
            not_run="a diagram: there is nothing to measure",
        ),
        Experiment(
            id="z16-theorem-3",
            place="theorem 3",
            title="The distance it bounds beside the distance measured, generated ratings",
            x=EPSILON_LOG,
            y=Axis("distance of the reports from the truth, Frobenius", log=True),
            promises=_promises(_GENERATED),
            not_run=_LATER,
        ),
        Experiment(
            id="z16-generated",
            place="section 3 (no experiment in the paper)",
            title="Error of the recovery over epsilon, generated ratings",
            x=EPSILON_LOG,
            y=RMSE,
            promises=_promises(_GENERATED),
            not_run=_LATER,
        ),
        Experiment(
            id="z16-restaurants",
            place="section 3 (no experiment in the paper)",
            title="Error of the recovery over epsilon, restaurant ratings",
            x=EPSILON_LOG,
            y=RMSE,
            promises=_promises(_RESTAURANTS),
            not_run=_LATER,
        ),
    ),
)
