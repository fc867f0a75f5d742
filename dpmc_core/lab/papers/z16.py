"""Z16: Zheng, "Two Differentially Private Rating Collection Mechanisms for Recommender Systems".

The paper has no experiments: what it proves of the error is held against measurements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from dpmc_core.lab.papers import recovery
from dpmc_core.lab.papers.frame import (
    EPSILON_LOG,
    RMSE,
    Axis,
    Experiment,
    GridRecipe,
    Paper,
    Piece,
    PieceRecipe,
    Point,
    Promise,
    Series,
    Statement,
    all_of,
    below,
    falls,
)
from dpmc_core.lab.sweep import Grid, Unit
from dpmc_core.privacy import CELL
from dpmc_core.ratings import PublicFacts

NAMES = {"modified-laplace": "modified Laplace", "randomised-response": "randomised response"}
_RESTAURANTS = PublicFacts(users=138, items=130, low=0, high=2)
_GENERATED = PublicFacts(users=300, items=200, low=1, high=5)
_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_SEEDS = tuple(range(1, 11))
_OWN, _DEBIASED, _ZERO = "the paper's rule", "allowing for spurious cells", "the zero matrix"
_MEASURED, _THEOREM, _REPORTS = "measured", "Theorem 3", "norm of the reports"
_SECTION = "section 3"


def _of(id: str, what: str) -> str:
    return f"{NAMES[id]}, {what}"


def _promises(public: PublicFacts) -> tuple[Promise, ...]:
    return tuple(Promise(mechanism=id, change=CELL, public=public) for id in NAMES)


# --- generated ratings, whose truth is known -----------------------------------------------------


def _pieces(seeds: tuple[int, ...]) -> Iterable[Piece]:
    for seed in seeds:
        for id in NAMES:
            for epsilon in _EPSILONS:
                yield Piece(f"{seed} {id} {epsilon:g}", partial(_piece, id, epsilon, seed))


def _piece(id: str, epsilon: float, seed: int) -> dict[str, float]:
    found = recovery.bounds(id, [epsilon], seed)
    return {
        _MEASURED: float(found.rho[0]),
        _THEOREM: float(found.theorem[0]),
        _REPORTS: float(found.reported[0]),
        _OWN: float(found.published[0]),
        _DEBIASED: float(found.debiased[0]),
        _ZERO: float(found.size[0]),
    }


def _series(whats: tuple[str, ...], found: Mapping[str, Mapping[str, float]]) -> tuple[Series, ...]:
    values: dict[tuple[str, str], dict[float, list[float]]] = {}
    for key, row in found.items():
        _, id, epsilon = key.split()
        for what in whats:
            points = values.setdefault((id, what), {})
            points.setdefault(float(epsilon), []).append(row[what])
    curves = []
    for (id, what), points in values.items():
        at = {x: Point.of(one) for x, one in points.items()}
        if what != _ZERO:
            curves.append(Series.of(_of(id, what), at, id))
        elif all(one.label != _ZERO for one in curves):  # the same whatever is reported
            curves.append(Series.of(_ZERO, at, level=True))
    return tuple(curves)


def _recipe(*whats: str) -> PieceRecipe:
    return PieceRecipe(
        pieces=_pieces,
        series=partial(_series, whats),
        settings={"data": "300 x 200 ratings 1..5 of rank 4, 30 % given", "gamma": "0.05"},
        mechanisms=tuple(NAMES),
        seeds=_SEEDS,
    )


def _each(first: str, second: str) -> tuple[tuple[str, str], ...]:
    return tuple((_of(id, first), _of(id, second)) for id in NAMES)


_VOID = (
    "Theorem 3's bound counts what is reported of cells that nobody rated, and those are most."
    " Where it is above the norm of all reports the zero matrix, of the least nuclear norm, is"
    " what Equation 4 finds: everywhere but at the largest epsilons."
)
_MORE = Statement(
    "the less privacy, the more precise the estimate",
    _SECTION,
    all_of(*(falls(_of(id, _OWN)) for id in NAMES)),
)
_SCALE = "The paper names no data: these are ours."
_INTRINSIC = "How far ratings lie from a matrix of low rank is no number of the paper's: measured."

_BOUND = Experiment(
    id="z16-theorem-3",
    place="theorem 3",
    title="The distance it bounds beside the distance measured, generated ratings",
    x=EPSILON_LOG,
    y=Axis("distance of the reports from the truth on the scale -1..1, Frobenius", log=True),
    statements=(
        Statement(
            "with chance 1 - gamma the reports are no further from the truth than the bound (here:"
            " gamma is 5 %, and the mean distance is below it)",
            "theorem 3",
            all_of(*(below(*pair, _EPSILONS) for pair in _each(_MEASURED, _THEOREM))),
        ),
        Statement(
            "as epsilon grows the bound falls",
            _SECTION,
            all_of(*(falls(_of(id, _THEOREM)) for id in NAMES)),
        ),
        Statement(
            "with Equation 5 it assures the use of what is collected (here: it is below the norm of"
            " the reports, so that the zero matrix is not within it)",
            _SECTION,
            all_of(*(below(*pair, _EPSILONS) for pair in _each(_THEOREM, _REPORTS))),
        ),
    ),
    why=_VOID,
    unknown=(_SCALE, _INTRINSIC),
    promises=_promises(_GENERATED),
    recipe=_recipe(_MEASURED, _THEOREM, _REPORTS),
)

_RECOVERED = Experiment(
    id="z16-generated",
    place="section 3 (no experiment in the paper)",
    title="Error of the recovery over epsilon, generated ratings",
    x=EPSILON_LOG,
    y=Axis("distance of the recovered matrix from the truth on the scale -1..1, Frobenius"),
    statements=(
        Statement(
            "what is recovered is of use (here: nearer to the truth than the zero matrix)",
            _SECTION,
            all_of(*(below(_of(id, _OWN), _ZERO, _EPSILONS) for id in NAMES)),
        ),
        _MORE,
    ),
    why=_VOID,
    unknown=(_SCALE, _INTRINSIC),
    promises=_promises(_GENERATED),
    guesses={_ZERO: None},
    recipe=_recipe(_OWN, _DEBIASED, _ZERO),
)


# --- restaurants ---------------------------------------------------------------------------------

_GUESS = "local mean (ours)"
_FREE = "without privacy"


def _label(unit: Unit) -> str | None:
    """None for what is neither the paper's rule nor our best one."""
    id, settings = unit.mechanism.id, unit.settings
    if id == "local-mean":
        return _GUESS
    rules = settings.get("recovery"), settings.get("rule")
    if id == "soft-impute":
        return _FREE if rules == ("debiased", "noise-level") else None
    kinds = {("naive", "theorem-3"): _OWN, ("debiased", "noise-level"): _DEBIASED}
    return _of(id, kinds[rules]) if id in NAMES and rules in kinds else None


_TABLES = Experiment(
    id="z16-restaurants",
    place="section 3 (no experiment in the paper)",
    title="Error of the recovery over epsilon, restaurant ratings",
    x=EPSILON_LOG,
    y=RMSE,
    statements=(
        Statement(
            "what is recovered is of use (here: better than the mean rating alone)",
            _SECTION,
            all_of(*(below(_of(id, _OWN), _GUESS, _EPSILONS) for id in NAMES)),
        ),
        _MORE,
    ),
    why=_VOID,
    unknown=(_SCALE, "How far ratings lie from a matrix of low rank is taken as a fifth."),
    promises=_promises(_RESTAURANTS),
    recipe=GridRecipe(
        grid=Grid(
            data=["restaurant"],
            mechanisms=tuple(NAMES),
            epsilons=_EPSILONS,
            seeds=_SEEDS,
            settings={
                "estimator": ("published",),
                "recovery": ("naive", "debiased"),
                "rule": ("theorem-3", "noise-level"),
            },
        ),
        metric="rmse",
        label=_label,
    ),
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
        _BOUND,
        _RECOVERED,
        _TABLES,
    ),
)
