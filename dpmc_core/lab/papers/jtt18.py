"""JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018).

Its figures are plots without a table: what is printed are sentences, read with their place.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dpmc_core import experiment, registry
from dpmc_core.data import datasets
from dpmc_core.lab.papers import theory
from dpmc_core.lab.papers.frame import (
    EPSILON_LOG,
    RMSE,
    Axis,
    Experiment,
    GridRecipe,
    Made,
    Paper,
    Piece,
    PieceRecipe,
    Point,
    Printed,
    Promise,
    Series,
    Statement,
    Tells,
    near,
    nearer,
    surely_above,
)
from dpmc_core.lab.sweep import Grid, Unit
from dpmc_core.model import Task
from dpmc_core.privacy import USER_EMPTIED, USER_REPLACED
from dpmc_core.problem import Problem, RandomShare, build_problem
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import parse_setting, setting_text

_GONE = "the Netflix ratings are no longer given out"
_ASKED = "Yahoo! gives its music ratings to universities on application only"
FW, OJA, PGD, SVD = (
    "private-frank-wolfe",
    "private-frank-wolfe-oja",
    "private-pgd",
    "svd-after-cleansing",
)
FREE = "frank-wolfe"
NAMES = {  # as the paper calls them
    FW: "Private FW",
    OJA: "Private FW (Oja)",
    PGD: "Private PGD",
    SVD: "SVD after cleansing",
    FREE: "Non-private FW",
    "user-mean": "user mean (ours)",
}
_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_DELTA = 1e-6
_ROUNDS = 400  # of the method without privacy
_LARGE_EPSILONS, _LARGE_ROUNDS = (0.1, 1.0, 5.0), 20  # of a matrix with 40,000,000 ratings
_HELD_OUT = RandomShare(0.01)


def _label(unit: Unit) -> str | None:
    """None for a method without privacy that is not the paper's."""
    if unit.mechanism.id == FREE and unit.settings["rounds"] != _ROUNDS:
        return None
    return NAMES.get(unit.mechanism.id)


def _settings(radius: float, cap: int | None, rounds: int = _ROUNDS) -> dict[str, tuple[str, ...]]:
    """What the paper tunes and we do not: T = 10 of its 5 to 50; the baselines' are defaults."""
    k = (f"{radius:.3g}",)
    return {
        "cap": ("none" if cap is None else str(cap),),
        f"{FW}.radius": k,
        f"{FW}.rounds": ("10",),
        f"{OJA}.radius": k,
        f"{OJA}.rounds": ("10",),
        f"{OJA}.updates": ("10",),
        f"{PGD}.radius": k,
        f"{PGD}.rounds": ("5",),
        f"{PGD}.step": ("0.5",),
        f"{FREE}.radius": k,
        f"{FREE}.rounds": (str(rounds),),
    }


def _grid(
    data: str, steps: tuple[str, ...], ids: tuple[str, ...], cap: int | None, radius: float
) -> Grid:
    return Grid(
        data=[data],
        mechanisms=(*ids, FREE),
        epsilons=_EPSILONS,
        seeds=range(1, 6),
        steps=steps,
        split=_HELD_OUT,
        settings=_only(_settings(radius, cap), (*ids, FREE)),
    ).as_published()


def _only(settings: Mapping[str, tuple[str, ...]], ids: Collection[str]) -> dict[str, Any]:
    return {n: v for n, v in settings.items() if "." not in n or n.partition(".")[0] in ids}


def _radius(k: float, half: float, users: int, items: int) -> float:
    """A nuclear norm of the paper's in our units, half the range x sqrt(users x items)."""
    return k / (half * math.sqrt(users * items))


# --- what the paper says -------------------------------------------------------------------------


def _mostly_below(label: str, others: Collection[str], share: float = 0.8) -> Tells:
    """A curve is below the others at most places, a share of all of them at least."""

    def tells(made: Made) -> bool | None:
        found = [
            surely_above(made.at(other, x), made.at(label, x))
            for other in others
            for x in _EPSILONS
            if made.at(other, x) is not None and made.at(label, x) is not None
        ]
        if not found:
            return None
        if found.count(False) > (1 - share) * len(found):
            return False
        return True if found.count(True) >= share * len(found) else None

    return tells


def _statements(rivals: tuple[str, ...], oja: bool, place: str) -> tuple[Statement, ...]:
    names = [NAMES[id] for id in rivals]
    told = [
        Statement(
            "private Frank-Wolfe almost always has a significantly lower error than"
            f" {' and '.join(names)} (here: at four of five places)",
            place,
            _mostly_below(NAMES[FW], names),
        )
    ]
    if oja:
        told += [
            Statement(
                "private Frank-Wolfe is very close to the method without privacy (here: at epsilon"
                " 1 and 5 nearer to it than to the users' own means)",
                place,
                nearer(NAMES[FW], NAMES[FREE], NAMES["user-mean"], (1.0, 5.0)),
            ),
            Statement(
                "with Oja's method it loses nothing perceivable (here: less than 0.01 points, the"
                " second decimal)",
                "section 4, footnote 6",
                near(NAMES[FW], NAMES[OJA], _LARGE_EPSILONS, 0.01),
            ),
        ]
    return tuple(told)


_WHY = (
    "The paper's constant in the noise and its addition to the top singular value keep every step"
    " short: at small epsilon little but the users' own means is left. The baseline is accounted"
    " for by the exact Gaussian curve, which needs less noise."
)
_CHANGED = (
    "Of 10 runs as many as are named with the seeds.",
    "The private baselines center rows as Frank-Wolfe does; SVD after cleansing is accounted for"
    " each user, where its own paper counts single ratings.",
)
_SMALLER_K = "Which k was chosen of the two printed is not: it is the smaller one."
_OPEN = (
    "Which T, steps and shrinking parameters were chosen is not printed. They are not tuned here:"
    " T is 10, of the 5 to 50 tried in the paper, the others are the program's own.",
    "How the noise of a round depends on the rounds done is not printed: it is the same in all.",
    "How many updates Oja's method makes is not printed: 10.",
)


def _promises(ids: Iterable[str], public: PublicFacts) -> tuple[Promise, ...]:
    """Definition 2.1 lets a user's row become any other; SVD after cleansing is another paper's."""
    return tuple(
        Promise(
            mechanism=id,
            change=USER_EMPTIED if id == SVD else USER_REPLACED,
            public=public,
            delta=_DELTA,
        )
        for id in ids
    )


def _curves(
    part: str,
    title: str,
    public: PublicFacts,
    recipe: GridRecipe | PieceRecipe | None = None,
    why_not: str = "",
    changed: tuple[str, ...] = (),
    unknown: tuple[str, ...] = (_SMALLER_K,),
) -> Experiment:
    """A panel of figure 2 or 3, for delta 1e-6; a user's row is what is protected."""
    first = part.startswith("2")
    ids = (FW, OJA, PGD, SVD) if first else (FW, SVD)
    return Experiment(
        id=f"jtt18-{part}",
        place=f"figure {part}",
        title=f"Error over epsilon, {title}",
        x=EPSILON_LOG,
        y=RMSE,
        statements=_statements(
            (PGD, SVD) if first else (SVD,), first, "section 4" if first else "appendix C"
        ),
        why="" if why_not else _WHY,
        changed=() if why_not else (*changed, *_CHANGED),
        cut=bool(changed),
        unknown=() if why_not else (*unknown, *_OPEN),
        promises=_promises(ids, public),
        recipe=recipe,
        not_run=why_not,
    )


# --- the generated matrix: too large for a store's row with lists --------------------------------


@lru_cache(maxsize=1)
def _drawn(users: int, items: int, seed: int) -> Problem:
    """A draw, split; the one before is let go."""
    made = datasets.load("jtt18-synthetic", users=users, items=items, seed=seed)
    return build_problem(made, Task.RATINGS, split=_HELD_OUT, seed=seed)


def _piece(users: int, items: int, id: str, epsilon: float | None, seed: int) -> float:
    """RMSE of one run; the nuclear norm is that of the matrix drawn."""
    problem = _drawn(users, items, seed)
    assert problem.truth is not None
    sides = (problem.truth.left, problem.truth.right)
    nuclear = math.prod(float(np.linalg.norm(side)) for side in sides)
    texts = _settings(_radius(nuclear, 1.0, users, items), 80, _LARGE_ROUNDS)
    cls = registry.get(id)
    given = {
        name: parse_setting(cls, name, text)
        for full, (text,) in texts.items()
        for owner, _, name in (full.rpartition("."),)
        if owner in ("", id) and registry.has_setting(cls, name)
    }
    settings = {**registry.published(id).settings, **given}
    mechanism = registry.create(id, epsilon=epsilon, delta=_DELTA, **settings)
    result = experiment.run(mechanism, problem, seed, with_baselines=False)
    return result.metrics["rmse"]


def _pieces(
    users: int, items: int, ids: tuple[str, ...], seeds: tuple[int, ...]
) -> Iterable[Piece]:
    # What takes longest comes last, so that all methods stand beside each other early.
    places = sorted(_LARGE_EPSILONS, key=lambda epsilon: abs(math.log(epsilon)))
    private = [id for id in ids if id != OJA]
    order: list[tuple[int, str, float | None]] = []
    for place in places:
        for seed in seeds:
            free = ("user-mean", FREE) if place == places[0] else ()
            order += [(seed, id, None) for id in free] + [(seed, id, place) for id in private]
    if OJA in ids:
        order += [(seed, OJA, place) for place in places for seed in seeds]
    for seed, id, epsilon in order:
        at = "" if epsilon is None else f" {epsilon:g}"
        make = partial(_piece, users, items, id, epsilon, seed)
        yield Piece(f"{seed} {id}{at}", make)


def _series(found: Mapping[str, float]) -> tuple[Series, ...]:
    values: dict[str, dict[float | None, list[float]]] = {}
    for key, value in found.items():
        _, id, *at = key.split()
        place = float(at[0]) if at else None
        values.setdefault(id, {}).setdefault(place, []).append(value)
    series = []
    for id, points in values.items():
        if None in points:
            level = Point.of(points[None])
            ends = dict.fromkeys((_LARGE_EPSILONS[0], _LARGE_EPSILONS[-1]), level)
            series.append(Series.of(NAMES[id], ends, id, level=True))
        else:
            over = {x: Point.of(v) for x, v in points.items() if x is not None}
            series.append(Series.of(NAMES[id], over, id))
    return tuple(series)


def _synthetic(users: int, items: int, ids: tuple[str, ...]) -> PieceRecipe:
    settings = {
        name: ("the matrix's own" if name.endswith("radius") else text)
        for name, (text,) in _only(_settings(1.0, 80, _LARGE_ROUNDS), (*ids, FREE)).items()
    }
    published = {
        f"{id}.{name}": setting_text(value)
        for id in ids
        for name, value in registry.published(id).settings.items()
    }
    return PieceRecipe(
        pieces=partial(_pieces, users, items, ids),
        series=_series,
        settings={"users": users, "items": items, **published, **settings},
        mechanisms=("user-mean", FREE, *ids),
        seeds=(1, 2),
    )


# --- tables --------------------------------------------------------------------------------------

_FOUR = (FW, OJA, PGD, SVD)
_TWO = (FW, SVD)
_POWERS = Axis("power")


def _power_pieces(names: tuple[str, ...], seeds: tuple[int, ...]) -> Iterable[Piece]:  # noqa: ARG001
    yield Piece("powers", partial(_powers, names))


def _powers(names: tuple[str, ...]) -> list[float]:
    """What our versions of the theorems give, by the rows of the theory table."""
    return [row.measured for row in theory.table("JTT18") if row.theorem in names]


def _power_series(found: Mapping[str, list[float]]) -> tuple[Series, ...]:
    row = found["powers"]
    return (Series.exact(NAMES[FW], range(len(row)), row, FW),)


def _power_table(
    number: int, title: str, columns: tuple[str, ...], theorem: str, printed: tuple[float, ...]
) -> Experiment:
    return Experiment(
        id=f"jtt18-table-{number}",
        place=f"table {number}",
        title=title,
        x=Axis("", names=columns),
        y=_POWERS,
        printed=tuple(
            Printed(NAMES[FW], float(at), value, 0.0, f"table {number}, Private FW")
            for at, value in enumerate(printed)
        ),
        changed=(
            "The rows of private Frank-Wolfe alone: the others are other papers' bounds.",
            "They rest on Theorem 3.2, which does not hold with the printed steps of 1/T, but does"
            " with steps of 2/(t + 1): dpmc papers jtt18 --theory.",
        ),
        promises=_promises((FW,), PublicFacts(users=500_000, items=400, low=-1, high=1, cap=80)),
        recipe=PieceRecipe(
            pieces=partial(_power_pieces, (theorem,)),
            series=_power_series,
            settings={"row of the theory table": theorem},
        ),
    )


_JESTER = PublicFacts(users=24_983, items=100, low=0, high=5)
_JESTER_K = _radius(20_000, 2.5, 73_000, 100)
_SMALLER = (
    f"Three epsilons of the range, and {_LARGE_ROUNDS} rounds of the method without privacy instead"
    f" of {_ROUNDS}: with 40,000,000 ratings a run takes a minute or two.",
)
_PART_1 = (
    "Part 1 of the three of Jester, 24,983 of its users; k is 20,000 for all of them, and smaller"
    " by the root of the users here.",
)


def _made(users: int, items: int) -> PublicFacts:
    return PublicFacts(users=users, items=items, low=-1, high=1, cap=80)


def _rated(users: int, items: int, low: float) -> PublicFacts:
    return PublicFacts(users=users, items=items, low=low, high=5, cap=80)


def _films(part: str, items: int, k: float, ids: tuple[str, ...]) -> Experiment:
    grid = _grid("ml-10m", (f"top-items={items}",), ids, 80, _radius(k, 2.25, 70_000, items))
    return _curves(
        part,
        f"MovieLens 10M, the {items} most rated films",
        _rated(70_000, items, 0.5),
        GridRecipe(grid=grid, metric="rmse", label=_label),
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
        _power_table(
            1,
            "How many users a vanishing error needs",
            ("power of the items n that the users m must outgrow",),
            "Remark 3 and Table 1",
            (1.25,),
        ),
        _power_table(
            2,
            "Error bound of low-rank approximation",
            ("power of the users m", "power of the items n"),
            "Table 2, Private Frank-Wolfe",
            (0.3, 0.1),
        ),
        Experiment(
            id="jtt18-1",
            place="figure 1",
            title="Who computes what: the server and the users",
            not_run="a diagram: there is nothing to measure",
        ),
        _curves(
            "2a",
            "generated rank-one matrix, 500,000 x 400",
            _made(500_000, 400),
            _synthetic(500_000, 400, _FOUR),
            changed=_SMALLER,
            unknown=(),
        ),
        _curves(
            "2b",
            "Jester, 100 jokes",
            _JESTER,
            GridRecipe(
                grid=_grid("jester", ("rescale=0:5",), _FOUR, None, _JESTER_K),
                metric="rmse",
                label=_label,
            ),
            changed=_PART_1,
        ),
        _films("2c", 400, 30_000, _FOUR),
        _curves("2d", "Netflix, the 400 most rated films", _rated(474_000, 400, 1), why_not=_GONE),
        _curves(
            "2e", "Yahoo! Music, the 400 most rated songs", _rated(995_000, 400, 0), why_not=_ASKED
        ),
        _curves(
            "3a",
            "generated rank-one matrix, 500,000 x 900",
            _made(500_000, 900),
            _synthetic(500_000, 900, _TWO),
            changed=_SMALLER,
            unknown=(),
        ),
        _films("3b", 900, 50_000, _TWO),
        _curves("3c", "Netflix, the 900 most rated films", _rated(477_000, 900, 1), why_not=_GONE),
        _curves(
            "3d", "Yahoo! Music, the 900 most rated songs", _rated(998_000, 900, 0), why_not=_ASKED
        ),
    ),
)
