"""LWHM22: Li, Wei, Huang, Mao, Wang, "One-Bit Matrix Completion with Differential Privacy" (2022).

Its figures are plots without a table: what is printed are sentences, read with their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from dpmc_core.data import datasets
from dpmc_core.lab.papers.frame import (
    ACCURACY,
    ARE,
    EPSILON,
    OBSERVED,
    Axis,
    Experiment,
    GridRecipe,
    Made,
    Paper,
    Piece,
    PieceRecipe,
    Printed,
    Promise,
    Series,
    Statement,
    Tells,
    above,
    all_of,
    apart,
    approaches,
    below,
    every,
    falls,
    not_the_highest,
    option_of,
    rises,
    surely_above,
)
from dpmc_core.lab.sweep import Grid, Unit
from dpmc_core.lab.views.lines import Interval
from dpmc_core.privacy import RATING
from dpmc_core.ratings import PublicFacts

FOUR = ("input-flip", "objective", "gradient", "output")
NAMES = {  # as the paper calls them
    "input-flip": "InP",
    "objective": "ObjP",
    "gradient": "GraP",
    "output": "OutP",
    "clear": "Clear",
}
MAJORITY = "private majority (ours)"
_LABELS = tuple(NAMES[id] for id in FOUR)
_TEN = tuple(float(e) for e in range(1, 11))
_FIVE = (1.0, 2.0, 3.0, 5.0, 10.0)  # where each is a curve of its own: more cannot be told apart
_RATIOS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_SQUARE = PublicFacts(users=100, items=100, low=-1, high=1)


def _name(unit: Unit, bound: float | None = 1.0) -> str | None:
    """None for what the paper has not, and for Clear within another bound than the curves'."""
    if unit.mechanism.id == "clear" and unit.settings["bound"] != bound:
        return None
    return NAMES.get(unit.mechanism.id)


def _name_at(unit: Unit) -> str | None:
    name = _name(unit)
    return name if name is None or unit.epsilon is None else f"{name}, epsilon {unit.epsilon:g}"


def _name_real(unit: Unit, bound: float | None = 1.0) -> str | None:
    return MAJORITY if unit.mechanism.id == "private-majority" else _name(unit, bound)


def _share(unit: Unit) -> float:
    """Of the cells that train: a fifth of what is observed is held out."""
    return round(0.8 * option_of(unit, "observed"), 6)


def _promises(public: PublicFacts, link: str) -> tuple[Promise, ...]:
    settings: dict[str, Any] = {"link": link}
    return tuple(
        Promise(mechanism=id, change=RATING, public=public, settings=_parsed(id, settings))
        for id in FOUR
    )


def _parsed(id: str, texts: dict[str, str]) -> dict[str, Any]:
    from dpmc_core import registry
    from dpmc_core.settings import parse_setting

    return {name: parse_setting(registry.get(id), name, text) for name, text in texts.items()}


def _synthetic(
    link: str, ratios: tuple[float, ...], draws: int, epsilons: tuple[float, ...] = _TEN
) -> Grid:
    # A fifth is held out, so that the share used for training is the paper's.
    return Grid(
        data=[f"one-bit-lab:seed=each,observed={r / 0.8:g},link={link}" for r in ratios],
        mechanisms=FOUR,
        epsilons=epsilons,
        seeds=range(1, draws + 1),
        settings={"link": (link,)},
    ).as_published()


def _films(link: str) -> Grid:
    # Within the bound of the generated matrices a run takes 60 to 100 s of one core, without one
    # 0.6 to 4. Objective perturbation has no noise scale for the probit link without one.
    return Grid(
        data=["ml-100k/u1"],
        mechanisms=FOUR,
        epsilons=_TEN,
        seeds=range(1, 11),
        settings={
            "link": (link,),
            "radius": ("0.7",),
            "input-flip.bound": ("none",),
            "objective.bound": ("1" if link == "probit" else "none",),
            "gradient.bound": ("none",),
            "output.bound": ("0.1",),
            "output.within": ("clip",),
        },
        steps=("binarise=mean",),
    ).as_published()


def _tables(link: str) -> Grid:
    return Grid(
        data=["restaurant"],
        mechanisms=FOUR,
        epsilons=_TEN,
        seeds=range(1, 11),
        settings={"link": (link,)},
        steps=("binarise=2",),
    ).as_published()


# --- what the paper says -------------------------------------------------------------------------


def _range(made: Made, label: str) -> Interval | None:
    """How far a curve's ends are apart."""
    found = made.get(label)
    return None if found is None else apart(*found.ends)


def _steadier(label: str, other: str) -> Tells:
    """A curve's ends are nearer to each other than another one's."""
    return lambda made: surely_above(_range(made, other), _range(made, label))


def _step(made: Made, label: str, x: float, first: float, last: float) -> Interval | None:
    """What going from one epsilon to another changes at an observed share."""
    return apart(*(made.at(f"{label}, epsilon {e:g}", x) for e in (first, last)))


def _levels_off(label: str) -> Tells:
    """At every share epsilon 1 to 5 changes more than 5 to 10."""
    return lambda made: every(
        surely_above(_step(made, label, x, 1.0, 5.0), _step(made, label, x, 5.0, 10.0))
        for x in _places(made, label)
    )


def _drastic(label: str, other: str) -> Tells:
    """At every share epsilon 1 to 10 changes more of a method's error than of another's."""
    return lambda made: every(
        surely_above(_step(made, label, x, 1.0, 10.0), _step(made, other, x, 1.0, 10.0))
        for x in _places(made, label)
    )


def _places(made: Made, label: str) -> tuple[float, ...]:
    found = made.get(f"{label}, epsilon 1")
    return () if found is None else found.x


def _all(tells: Any, labels: Iterable[str], *rest: Any) -> Tells:
    return all_of(*(tells(label, *rest) for label in labels))


_ONE_BIT_OFF = (
    "Without privacy the error is above that of the zero matrix, which is 1: so few signs of a"
    " matrix with entries up to 1 say too little. What adds noise last is above that by its noise."
    " Gradient perturbation is below it, which is no merit: its noise uses up the bound on the"
    " nuclear norm and leaves a matrix near zero; at epsilon 1000 it is where Clear is."
)
_ZERO = {"zero matrix": 1.0}
_SOLVER = "The solver's tolerance and its most rounds are not printed."
_K = "The number of rounds K of gradient perturbation is not printed: 10 here."


def _figure_1(part: str, link: str, noise: str) -> Experiment:
    stable, place = _LABELS[:3], "section 5.2.1"
    return Experiment(
        id=f"lwhm22-1{part}",
        place=f"figure 1{part}",
        title=f"Error over epsilon, generated 100 x 100 matrices of rank 1, {noise} noise",
        x=EPSILON,
        y=ARE,
        statements=(
            Statement("the errors fall as epsilon grows", place, _all(falls, _LABELS)),
            Statement(
                "as epsilon grows the errors approach Clear",
                place,
                _all(approaches, _LABELS, "Clear", 1.0, 10.0),
            ),
            Statement(
                "input, objective and gradient perturbation change less with epsilon than output"
                " perturbation",
                place,
                _all(_steadier, stable, "OutP"),
            ),
            Statement(
                "output perturbation is worse when epsilon is small",
                place,
                all_of(*(above("OutP", name, [1.0]) for name in stable)),
            ),
            Statement(
                "at epsilon 4 output perturbation is comparable to the others (here: not the worst"
                " of the four)",
                place,
                not_the_highest("OutP", stable, [4.0]),
            ),
        ),
        why=_ONE_BIT_OFF,
        guesses=_ZERO,
        unknown=(
            _SOLVER,
            _K,
            "The text counts three methods and names four: all four are meant here.",
        ),
        promises=_promises(_SQUARE, link),
        recipe=GridRecipe(grid=_synthetic(link, (0.15,), 40), metric="are", label=_name),
    )


def _figure_2(part: str, link: str, noise: str) -> Experiment:
    place, hard = "section 5.2.2", link == "probit"
    return Experiment(
        id=f"lwhm22-2{part}",
        place=f"figure 2{part}",
        title=f"Accuracy over epsilon, MovieLens 100K split u1, cut at its mean, {noise} noise",
        x=EPSILON,
        y=ACCURACY,
        statements=(
            Statement(
                "output perturbation is the best of the four (here: at epsilon 1, 2 and 4)",
                place,
                all_of(*(above("OutP", name, (1.0, 2.0, 4.0)) for name in _LABELS[:3])),
            ),
            Statement(
                "input, objective and gradient perturbation are less effective at small epsilon"
                " (here: at 1)",
                place,
                all_of(*(below(name, "OutP", [1.0]) for name in _LABELS[:3])),
            ),
            Statement("all four get better as epsilon grows", place, _all(rises, _LABELS)),
            Statement(
                "as epsilon grows all four approach Clear",
                place,
                _all(approaches, _LABELS, "Clear", 1.0, 10.0),
            ),
            Statement(
                "at about epsilon 4 all four are right on more than 68 % of the signs",
                place,
                all_of(*(above(name, 0.68, [4.0]) for name in _LABELS)),
            ),
        ),
        why="Gradient perturbation splits epsilon into K rounds; fewer rounds do better.",
        cut=True,
        changed=(
            "The program's own settings: a radius of 0.7 and no bound on the scores, within which a"
            " run takes more than a minute here; output perturbation is cut to its bound, 0.1,"
            " after the solver.",
            *(("Objective perturbation is solved within a bound of 1.",) if hard else ()),
        ),
        unknown=("Radius and bound for real data are not printed.", _K),
        promises=_promises(PublicFacts(users=943, items=1682, low=-1, high=1), link),
        recipe=GridRecipe(
            grid=_films(link), metric="accuracy", label=partial(_name_real, bound=None)
        ),
    )


def _figure_3(part: str, link: str, noise: str) -> Experiment:
    place = "section 5.2.2"
    return Experiment(
        id=f"lwhm22-3{part}",
        place=f"figure 3{part}",
        title=f"Accuracy over epsilon, restaurants, 2 against 0 and 1, {noise} noise",
        x=EPSILON,
        y=ACCURACY,
        statements=(
            Statement(
                "at epsilon 1 input, objective and gradient perturbation do badly (here: below"
                " Clear)",
                place,
                all_of(*(below(name, "Clear", [1.0]) for name in _LABELS[:3])),
            ),
            Statement(
                "the expected trade-off (here: all four get better as epsilon grows)",
                place,
                _all(rises, _LABELS),
            ),
        ),
        why="So few ratings carry little: what is compared with is the more frequent sign.",
        changed=(
            "Radius and bound are those of the generated matrices, the only ones that the paper"
            " prints. They were set so after results with the program's own, a radius of 0.7 and"
            " no bound, had been seen: of those the first statement holds, no more can be told.",
        ),
        unknown=(
            "Radius and bound for real data are not printed.",
            _K,
            "Which ratings are held out is not printed: a fifth, drawn anew for each seed.",
        ),
        promises=_promises(PublicFacts(users=138, items=130, low=-1, high=1), link),
        recipe=GridRecipe(grid=_tables(link), metric="accuracy", label=_name_real),
    )


def _over_share(number: int, link: str, noise: str) -> Experiment:
    place = "section 5.3"
    early = ("ObjP, epsilon 1", "OutP, epsilon 1")
    return Experiment(
        id=f"lwhm22-{number}",
        place=f"figure {number}",
        title=f"Error over the share that is observed, generated matrices, {noise} noise",
        x=OBSERVED,
        y=ARE,
        statements=(
            Statement(
                "the errors of all four fall as more is observed (here: at epsilon 10)",
                place,
                _all(falls, [f"{name}, epsilon 10" for name in _LABELS]),
            ),
            Statement(
                "input and output perturbation level off after about epsilon 5",
                place,
                _all(_levels_off, ("InP", "OutP")),
            ),
            Statement(
                "objective perturbation changes drastically with epsilon (here: more than input"
                " perturbation)",
                place,
                _drastic("ObjP", "InP"),
            ),
            Statement(
                "at epsilon 1 objective and output perturbation change less with the share"
                " (here: than input perturbation)",
                place,
                _all(_steadier, early, "InP, epsilon 1"),
            ),
        ),
        why="The noise of output perturbation does not know how much is observed.",
        guesses=_ZERO,
        changed=(
            "Of the epsilons from 1 to 10 five, those that the statements name and two more.",
        ),
        unknown=(_SOLVER, _K),
        promises=_promises(_SQUARE, link),
        recipe=GridRecipe(
            grid=_synthetic(link, _RATIOS, 10, _FIVE), metric="are", x=_share, label=_name_at
        ),
    )


# --- table 1 -------------------------------------------------------------------------------------

_SETS = {"ml-100k": "ML-100K", "restaurant": "RC"}
_COLUMNS = ("users", "items", "lowest rating", "highest rating", "density, %")
_PRINTED = {"ml-100k": (943, 1682, 1, 5, 6.3), "restaurant": (138, 130, 0, 2, 5.2)}


def _counts(data: str) -> list[float]:
    ratings = datasets.load(data).ratings
    public, values = ratings.public, ratings.values
    share = len(ratings) / (public.users * public.items)
    return [public.users, public.items, float(values.min()), float(values.max()), 100 * share]


def _count(seeds: tuple[int, ...]) -> Iterable[Piece]:  # noqa: ARG001 - counts are no draws
    for data in _SETS:
        yield Piece(data, partial(_counts, data))


def _counted(found: Mapping[str, Any]) -> tuple[Series, ...]:
    return tuple(Series.exact(_SETS[data], range(5), row) for data, row in found.items())


_TABLE_1 = Experiment(
    id="lwhm22-table-1",
    place="table 1",
    title="Sizes of MovieLens 100K and of the restaurant ratings",
    x=Axis("", names=_COLUMNS),
    y=Axis("count, rating or %"),
    printed=tuple(
        Printed(_SETS[data], float(at), float(value), 0.05 if at == 4 else 0.0, "table 1")
        for data, row in _PRINTED.items()
        for at, value in enumerate(row)
    ),
    why="The public file of restaurant ratings holds more of them than the paper counts.",
    recipe=PieceRecipe(pieces=_count, series=_counted),
)


_both = partial(zip, ("a", "b"), ("probit", "logistic"), ("Gaussian", "logistic"))

PAPER = Paper(
    key="LWHM22",
    title="One-Bit Matrix Completion with Differential Privacy",
    authors=("Zhengpin Li", "Zheng Wei", "Zengfeng Huang", "Xiaojun Mao", "Jian Wang"),
    year=2022,
    venue="arXiv 2110.00719",
    more={"eprint": "2110.00719", "archivePrefix": "arXiv"},
    experiments=(
        *(_figure_1(*one) for one in _both()),
        *(_figure_2(*one) for one in _both()),
        *(_figure_3(*one) for one in _both()),
        _over_share(4, "probit", "Gaussian"),
        _over_share(5, "logistic", "logistic"),
        _TABLE_1,
    ),
)
