"""JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018).

Its figures are plots without a table: what is printed are sentences, read with their place.
"""

from __future__ import annotations

from dpmc_core.papers.frame import EPSILON_LOG, RMSE, Axis, Experiment, Paper, Promise
from dpmc_core.privacy import USER_EMPTIED
from dpmc_core.ratings import PublicFacts

_LATER = "no grid has been made for it yet"
_GONE = "the Netflix ratings are no longer given out"
_ASKED = "Yahoo! gives its music ratings to universities on application only"
_METHODS = ("private-frank-wolfe", "private-frank-wolfe-oja", "private-pgd", "svd-after-cleansing")


def _curves(
    part: str, title: str, users: int, items: int, ends: tuple[float, float], why: str = _LATER
) -> Experiment:
    """A panel of figure 2 or 3, for delta 1e-6; a user's row is what is protected."""
    cap = None if items == 100 else 80
    public = PublicFacts(users=users, items=items, low=ends[0], high=ends[1], cap=cap)
    methods = _METHODS if part.startswith("2") else (_METHODS[0], _METHODS[-1])
    return Experiment(
        id=f"jtt18-{part}",
        place=f"figure {part}",
        title=f"Error over epsilon, {title}",
        x=EPSILON_LOG,
        y=RMSE,
        promises=tuple(
            Promise(mechanism=id, change=USER_EMPTIED, public=public, delta=1e-6) for id in methods
        ),
        not_run=why,
    )


PAPER = Paper(
    key="JTT18",
    title="Differentially Private Matrix Completion Revisited",
    authors=("Prateek Jain", "Om Thakkar", "Abhradeep Thakurta"),
    year=2018,
    venue="ICML",
    entry="inproceedings",
    more={"booktitle": "International Conference on Machine Learning (ICML)"},
    experiments=(
        Experiment(
            id="jtt18-table-1",
            place="table 1",
            title="Users and observed ratings that a vanishing error needs",
            x=Axis("", names=("power of n in the users", "power of n in the ratings")),
            y=Axis("power of the number of items n"),
            not_run=_LATER,
        ),
        Experiment(
            id="jtt18-table-2",
            place="table 2",
            title="Error bounds of low-rank approximation",
            x=Axis("", names=("power of m", "power of n")),
            y=Axis("power of the number of users m, or items n"),
            not_run=_LATER,
        ),
        Experiment(
            id="jtt18-1",
            place="figure 1",
            title="Who computes what: the server and the users",
            not_run="a diagram: there is nothing to measure",
        ),
        _curves("2a", "generated rank-one matrix, 500,000 x 400", 500_000, 400, (-1, 1)),
        _curves("2b", "Jester, 100 jokes", 73_000, 100, (0, 5)),
        _curves("2c", "MovieLens 10M, the 400 most rated films", 70_000, 400, (0.5, 5)),
        _curves("2d", "Netflix, the 400 most rated films", 474_000, 400, (1, 5), _GONE),
        _curves("2e", "Yahoo! Music, the 400 most rated songs", 995_000, 400, (0, 5), _ASKED),
        _curves("3a", "generated rank-one matrix, 500,000 x 900", 500_000, 900, (-1, 1)),
        _curves("3b", "MovieLens 10M, the 900 most rated films", 70_000, 900, (0.5, 5)),
        _curves("3c", "Netflix, the 900 most rated films", 477_000, 900, (1, 5), _GONE),
        _curves("3d", "Yahoo! Music, the 900 most rated songs", 998_000, 900, (0, 5), _ASKED),
    ),
)
