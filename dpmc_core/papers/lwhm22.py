"""LWHM22: Li, Wei, Huang, Mao, Wang, "One-Bit Matrix Completion with Differential Privacy" (2022).

Its figures are plots without a table: what is printed are sentences, read with their place.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from dpmc_core.papers.frame import (
    ACCURACY,
    ARE,
    EPSILON,
    OBSERVED,
    Axis,
    Experiment,
    GridRecipe,
    Paper,
    Promise,
    Statement,
    above,
    all_of,
    falls,
    near,
    option_of,
)
from dpmc_core.privacy import RATING
from dpmc_core.ratings import PublicFacts
from dpmc_core.sweep import Grid, Unit

FOUR = ("input-flip", "objective", "gradient", "output")
NAMES = {  # as the paper calls them
    "input-flip": "InP",
    "objective": "ObjP",
    "gradient": "GraP",
    "output": "OutP",
    "clear": "Clear",
}
_TEN = tuple(float(e) for e in range(1, 11))
_PUBLISHED = {f"{id}.estimator": ("published",) for id in FOUR[:2]}
_RATIOS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_SQUARE = PublicFacts(users=100, items=100, low=-1, high=1)


def _name(unit: Unit) -> str | None:
    return NAMES.get(unit.mechanism.id)


def _name_at(unit: Unit) -> str | None:
    name = _name(unit)
    return name if name is None or unit.epsilon is None else f"{name}, epsilon {unit.epsilon:g}"


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


def _synthetic(link: str, ratios: tuple[float, ...], draws: int) -> Grid:
    # A fifth is held out, so that the share used for training is the paper's.
    return Grid(
        data=[f"one-bit-lab:seed=each,observed={r / 0.8:g},link={link}" for r in ratios],
        mechanisms=FOUR,
        epsilons=_TEN,
        seeds=range(1, draws + 1),
        settings={
            **_PUBLISHED,
            "link": (link,),
            "radius": ("1",),
            "bound": ("1",),
            "output.within": ("solver",),
        },
    ).as_published()


def _real(link: str, data: str, steps: tuple[str, ...]) -> Grid:
    # The paper's radius and bound for real data are not printed: those of this program are used.
    # Objective perturbation has no noise scale for the probit link without a bound, which makes
    # its solver's points dense: on MovieLens each of its runs takes minutes.
    probit = {"link": ("probit",), "objective.bound": ("1",)}
    return Grid(
        data=[data],
        mechanisms=FOUR,
        epsilons=_TEN,
        seeds=range(1, 11),
        settings=_PUBLISHED | (probit if link == "probit" else {}),
        steps=steps,
    )


def _figure_1(part: str, link: str, noise: str) -> Experiment:
    return Experiment(
        id=f"lwhm22-1{part}",
        place=f"figure 1{part}",
        title=f"Error over epsilon, generated 100 x 100 matrices of rank 1, {noise} noise",
        x=EPSILON,
        y=ARE,
        statements=(
            Statement(
                "the errors fall as epsilon grows",
                "section 5.2.1",
                all_of(*(falls(NAMES[id]) for id in FOUR)),
            ),
            Statement(
                "output perturbation is worse when epsilon is small",
                "section 5.2.1",
                all_of(*(above("OutP", NAMES[id], [1.0]) for id in FOUR[:3])),
            ),
            Statement(
                "at epsilon 4 output perturbation is comparable to the others",
                "section 5.2.1",
                all_of(*(near("OutP", NAMES[id], [4.0], 0.5) for id in FOUR[:3])),
            ),
        ),
        unknown=("The solver's tolerance and its most rounds are not printed.",),
        promises=_promises(_SQUARE, link),
        recipe=GridRecipe(grid=_synthetic(link, (0.15,), 40), metric="are", label=_name),
    )


def _figure_2(part: str, link: str, noise: str) -> Experiment:
    return Experiment(
        id=f"lwhm22-2{part}",
        place=f"figure 2{part}",
        title=f"Accuracy over epsilon, MovieLens 100K split u1, cut at its mean, {noise} noise",
        x=EPSILON,
        y=ACCURACY,
        promises=_promises(PublicFacts(users=943, items=1682, low=-1, high=1), link),
        recipe=GridRecipe(
            grid=_real(link, "ml-100k/u1", ("binarise=mean",)), metric="accuracy", label=_name
        ),
    )


def _figure_3(part: str, link: str, noise: str) -> Experiment:
    return Experiment(
        id=f"lwhm22-3{part}",
        place=f"figure 3{part}",
        title=f"Accuracy over epsilon, restaurants, 2 against 0 and 1, {noise} noise",
        x=EPSILON,
        y=ACCURACY,
        promises=_promises(PublicFacts(users=138, items=130, low=-1, high=1), link),
        recipe=GridRecipe(
            grid=_real(link, "restaurants", ("binarise=2",)), metric="accuracy", label=_name
        ),
    )


def _over_share(number: int, link: str, noise: str) -> Experiment:
    return Experiment(
        id=f"lwhm22-{number}",
        place=f"figure {number}",
        title=f"Error over the share that is observed, generated matrices, {noise} noise",
        x=OBSERVED,
        y=ARE,
        promises=_promises(_SQUARE, link),
        recipe=GridRecipe(
            grid=_synthetic(link, _RATIOS, 10), metric="are", x=_share, label=_name_at
        ),
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
        Experiment(
            id="lwhm22-table-1",
            place="table 1",
            title="Sizes of MovieLens 100K and of the restaurant ratings",
            x=Axis("", names=("users", "items", "lowest rating", "highest rating", "density, %")),
            y=Axis("count, rating or %"),
            not_run="its counts have not been taken here yet",
        ),
    ),
)
