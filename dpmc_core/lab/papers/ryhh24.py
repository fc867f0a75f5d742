"""RYHH24: Ran, Ye, Huang, Hu, "Differentially Private Implicit Matrix Factorization" (2024).

Tables III to VIII print numbers; figures 5 to 8 are plots, read with their place.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import registry
from dpmc_core.data import datasets
from dpmc_core.lab.papers import parties
from dpmc_core.lab.papers.frame import (
    EPSILON,
    EPSILON_LOG,
    HIT_RATIO,
    NDCG,
    Axis,
    Experiment,
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
    above,
    all_of,
    approaches,
    mean_lead,
    near,
    rises,
)
from dpmc_core.lab.papers.parties import Size
from dpmc_core.lab.views import implicit
from dpmc_core.lab.views.lines import Interval
from dpmc_core.mechanisms.dpimf import Dpimf, Profiles
from dpmc_core.privacy import CELL, USER_REPLACED
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import parse_setting, setting_text

EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


# One row per variant, columns at EPSILONS.
_TABLES = {
    ("III", "ml-100k", "hr@10"): """
        dpimf-strawman      0.1148 0.1198 0.1469 0.1617 0.1527 0.1821 0.1919 0.1986 0.2084 0.2192
        dpimf-complementary 0.1106 0.1413 0.1824 0.1681 0.2060 0.2142 0.2200 0.2357 0.2561 0.2455
        dpimf-symmetric     0.1280 0.1429 0.1888 0.2017 0.2256 0.2452 0.2450 0.2739 0.2757 0.2768
        dpimf-optimal       0.1567 0.2314 0.2890 0.3523 0.4093 0.4552 0.4732 0.5127 0.5302 0.5342
    """,
    ("IV", "ml-100k", "ndcg@10"): """
        dpimf-strawman      0.0529 0.0531 0.0674 0.0727 0.0672 0.0808 0.0847 0.0894 0.0938 0.0991
        dpimf-complementary 0.0527 0.0648 0.0827 0.0763 0.0992 0.0952 0.0969 0.1080 0.1149 0.1142
        dpimf-symmetric     0.0598 0.0625 0.0887 0.0915 0.1039 0.1094 0.1105 0.1223 0.1265 0.1242
        dpimf-optimal       0.0731 0.1125 0.1501 0.1940 0.2352 0.2633 0.2830 0.3012 0.3183 0.3226
    """,
    ("V", "yahoo-music", "hr@10"): """
        dpimf-strawman      0.1268 0.1467 0.2072 0.2097 0.2708 0.2377 0.2524 0.2796 0.2959 0.2797
        dpimf-complementary 0.1505 0.1257 0.2442 0.2626 0.3133 0.3378 0.2828 0.3033 0.3021 0.3305
        dpimf-symmetric     0.1764 0.2077 0.2900 0.2875 0.3291 0.3201 0.3321 0.3492 0.3233 0.3278
        dpimf-optimal       0.2335 0.3328 0.4236 0.4294 0.4318 0.4650 0.4756 0.4792 0.4897 0.4784
    """,
    ("VI", "yahoo-music", "ndcg@10"): """
        dpimf-strawman      0.0507 0.0655 0.0927 0.0809 0.1173 0.1054 0.1064 0.1237 0.1258 0.1283
        dpimf-complementary 0.0642 0.0516 0.1133 0.1315 0.1448 0.1635 0.1250 0.1492 0.1312 0.1695
        dpimf-symmetric     0.0902 0.0898 0.1304 0.1299 0.1392 0.1546 0.1591 0.1690 0.1606 0.1597
        dpimf-optimal       0.1293 0.1981 0.2739 0.2832 0.2931 0.3104 0.3173 0.3189 0.3245 0.3198
    """,
    ("VII", "amazon", "hr@10"): """
        dpimf-strawman      0.1288 0.1234 0.1494 0.1496 0.2222 0.2201 0.2573 0.2395 0.3001 0.3114
        dpimf-complementary 0.1204 0.1669 0.1922 0.2318 0.2477 0.3358 0.3375 0.3659 0.4053 0.3828
        dpimf-symmetric     0.1309 0.1559 0.2320 0.2722 0.3274 0.2907 0.3832 0.4001 0.4291 0.4486
        dpimf-optimal       0.1984 0.3388 0.4315 0.4924 0.5174 0.5535 0.5810 0.6028 0.6116 0.6297
    """,
    ("VIII", "amazon", "ndcg@10"): """
        dpimf-strawman      0.0587 0.0569 0.0688 0.0614 0.1045 0.0966 0.1194 0.1088 0.1311 0.1495
        dpimf-complementary 0.0544 0.0713 0.0874 0.1015 0.1127 0.1559 0.1593 0.1771 0.2034 0.1920
        dpimf-symmetric     0.0596 0.0695 0.1089 0.1363 0.1462 0.1344 0.1843 0.1902 0.2048 0.2310
        dpimf-optimal       0.0933 0.1961 0.2822 0.3543 0.3936 0.4249 0.4627 0.4847 0.4931 0.5063
    """,
}


class _Set(NamedTuple):
    """A data set of the experiments, as its table has it."""

    title: str
    public: PublicFacts
    missing: str = ""


_ASKED = "Yahoo! gives its music ratings to universities on application only"
_DIAGRAM = "a diagram: there is nothing to measure"
SETS = {
    "ml-100k": _Set("MovieLens 100K", PublicFacts(users=943, items=1682, low=0, high=1)),
    "ml-10m": _Set("MovieLens 10M", PublicFacts(users=71_567, items=10_681, low=0, high=1)),
    "yahoo-music": _Set("Yahoo! Music", PublicFacts(users=8089, items=1000, low=0, high=1), _ASKED),
    "amazon": _Set("Amazon Instant Video", PublicFacts(users=5130, items=1685, low=0, high=1)),
}
NAMES = {  # as the paper calls them
    "dpimf-strawman": "str",
    "dpimf-complementary": "com",
    "dpimf-symmetric": "sym",
    "dpimf-optimal": "opt",
    "dpimf-sampled": "IS",
    "dpmf-clicks": "DPMF",
    "dplcf": "DPLCF",
    "ldpicf": "LDPICF",
    "ials": "GT",
}
METHODS = {name: id for id, name in NAMES.items()}
VARIANTS = tuple(NAMES)[:4]
SEEDS = (1, 2, 3)
# A solve of ten parties on MovieLens 100K took 0.015 s where all profiles share a quadratic term,
# 0.55 s where each has its own: a printed run is half a minute, or a third of an hour.
SIZE = Size(rounds=3, local=2)
_BEST = {"ml-100k": parties.PRINTED, "amazon": Size(rounds=10, local=20)}  # opt, in the tables
_THREE, _FIGURES = (0.1, 0.5, 1.0), (1.0, 3.0, 10.0)
_NO_NOISE = 1e6  # an epsilon at which noise is no longer seen
_GROUPS = 20  # of users with factors of like length


class _Tuned(NamedTuple):
    """Lambda as printed (section VI-A4) and as used, and the printed rank."""

    printed: float
    used: float
    rank: int


RIDGE = {"ml-100k": _Tuned(0.07, 0.07, 20), "amazon": _Tuned(1.0, Dpimf.regularisation, 8)}
RIVALS = ("dpimf-optimal", "dpimf-sampled", "dpmf-clicks", "dplcf", "ldpicf")


def curve(data: str, metric: str, mechanism: str) -> dict[float, float]:
    """The printed values of a mechanism by epsilon; empty where none is printed."""
    text = next((t for (_, d, m), t in _TABLES.items() if (d, m) == (data, metric)), "")
    for line in text.strip().split("\n"):
        name, *values = line.split() or ("",)
        if name == mechanism:
            return dict(zip(EPSILONS, map(float, values), strict=True))
    return {}


def _promises(data: str, ids: tuple[str, ...]) -> tuple[Promise, ...]:
    """A user's whole row, but of DPMF a record alone (its Table I)."""
    return tuple(
        Promise(
            mechanism=id,
            change=CELL if id == "dpmf-clicks" else USER_REPLACED,
            public=SETS[data].public,
        )
        for id in ids
    )


# --- what is run --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Trial:
    """A curve's runs at one epsilon (None: of a method without one), a piece for each seed.

    ridge: lambda among the parties, None where one party sees all clicks. settings: then, as text.
    """

    label: str
    data: str
    id: str
    epsilon: float | None = None
    ridge: float | None = None
    rank: int = 0
    profiles: Profiles = Profiles.USERS
    settings: tuple[tuple[str, str], ...] = ()
    size: Size = SIZE

    @property
    def level(self) -> bool:
        """Whether it holds at every epsilon."""
        return self.epsilon is None or self.epsilon >= _NO_NOISE

    @property
    def key(self) -> str:
        at = "" if self.epsilon is None else f" epsilon {self.epsilon:g}"
        revision = f"revision {registry.get(self.id).revision}"
        if self.ridge is None:
            texts = ",".join(f"{name}={text}" for name, text in self.settings)
            return " ".join(filter(None, (f"{self.data} {self.id}{at}", texts, revision)))
        return (
            f"{self.data} {self.profiles.value} {self.id}{at} lambda {self.ridge:g}"
            f" rank {self.rank} rounds {self.size} {revision}"
        )

    def make(self, seed: int) -> dict[str, Any]:
        """Ranking metrics, among parties also on the way. Raises DpmcError."""
        problem = parties.problem_of(self.data, seed)
        if self.ridge is None:
            given = {
                name: parse_setting(registry.get(self.id), name, text)
                for name, text in self.settings
            }
            return parties.by_one(problem, self.id, seed, epsilon=self.epsilon, **given)
        assert self.epsilon is not None
        return parties.among_parties(
            problem,
            self.id,
            self.epsilon,
            seed,
            profiles=self.profiles,
            size=self.size,
            rank=self.rank,
            regularisation=self.ridge,
        )


# What a run depends on beside its key: every figure and table takes a run that another one made.
_POOL = ("ryhh24", parties.PARTIES, implicit.FIGURE_5, parties.LOOKS)


def _pieces(runs: Sequence[_Trial], seeds: tuple[int, ...]) -> Iterator[Piece]:
    for seed in seeds:
        for run in runs:
            yield Piece(f"{run.key} seed {seed}", partial(run.make, seed))


def _recipe(metric: str, runs: Sequence[_Trial]) -> PieceRecipe:
    """Curves of one metric; the pieces hold all metrics and are the same for each of them."""

    def series(found: Mapping[str, Any]) -> tuple[Series, ...]:
        values: dict[str, list[float]] = defaultdict(list)
        for key, metrics in found.items():
            values[key.rpartition(" seed ")[0]].append(metrics[metric])
        curves: dict[tuple[str, str], dict[float, Interval]] = defaultdict(dict)
        places = [run.epsilon for run in runs if run.epsilon is not None and not run.level]
        levels = set()
        for run in runs:
            at, curve = Point.of(values[run.key]), curves[run.label, run.id]
            if run.level:
                levels.add(run.label)
                curve |= {min(places): at, max(places): at}
            elif run.epsilon is not None:
                curve[run.epsilon] = at
        return tuple(
            Series.of(label, points, id, level=label in levels)
            for (label, id), points in curves.items()
        )

    return PieceRecipe(
        pieces=partial(_pieces, runs),
        series=series,
        settings={"runs": [run.key for run in runs]},
        mechanisms=tuple(dict.fromkeys(run.id for run in runs)),
        seeds=SEEDS,
        pool=_POOL,
    )


def _among(
    data: str,
    profiles: Profiles,
    ids: Sequence[str],
    epsilons: Sequence[float],
    size: Size = SIZE,
) -> list[_Trial]:
    """Variants in the paper's protocol."""
    tuned = RIDGE[data]
    return [
        _Trial(
            label=NAMES[id],
            data=data,
            id=id,
            epsilon=epsilon,
            ridge=tuned.used,
            rank=tuned.rank,
            profiles=profiles,
            size=size,
        )
        for id in ids
        for epsilon in epsilons
    ]


def _without_noise(data: str, profiles: Profiles) -> list[_Trial]:
    """The best variant with next to no noise, and the ground truth."""
    (limit,) = _among(data, profiles, ["dpimf-optimal"], [_NO_NOISE])
    return [
        replace(limit, label="opt without noise"),
        _Trial(label="GT", data=data, id="ials"),
        _Trial(label="most popular", data=data, id="popularity"),
    ]


def _at_our_ridge(data: str, profiles: Profiles, epsilons: Sequence[float]) -> list[_Trial]:
    """The best variant in the paper's protocol at the lambda of this program, and without noise."""
    ridge = Dpimf.regularisation
    if ridge == RIDGE[data].used:
        return []
    *noisy, limit = _among(data, profiles, ["dpimf-optimal"], [*epsilons, _NO_NOISE])
    return [
        *(replace(run, ridge=ridge, label=f"opt, lambda {ridge:g}") for run in noisy),
        replace(limit, ridge=ridge, label=f"opt without noise, lambda {ridge:g}"),
    ]


def _ours(data: str, ids: Sequence[str], epsilons: Sequence[float]) -> list[_Trial]:
    """Variants as this program has them: item profiles, one party, a public clip, our lambda."""
    return [
        _Trial(label=f"{NAMES[id]}, our settings", data=data, id=id, epsilon=epsilon)
        for id in ids
        for epsilon in epsilons
    ]


def _rivals(data: str, epsilons: Sequence[float]) -> list[_Trial]:
    """What the paper compares with: one party sees, or collects, everything."""
    found = []
    for id in ("dpmf-clicks", "dplcf", "ldpicf"):
        texts = {n: setting_text(v) for n, v in registry.published(id).settings.items()}
        if "rank" in texts:
            texts["rank"] = str(RIDGE[data].rank)
        settings = tuple(texts.items())
        found += [
            _Trial(label=NAMES[id], data=data, id=id, epsilon=epsilon, settings=settings)
            for epsilon in epsilons
        ]
    return found


# --- what is said -------------------------------------------------------------------------------


def _ordered(labels: Sequence[str], at: Sequence[float]) -> Tells:
    """Each curve is above the one before it."""
    return all_of(*(above(more, less, at) for less, more in itertools.pairwise(labels)))


def _protocol_changes(data: str, best: Size = SIZE) -> tuple[str, ...]:
    """best: the size of the best variant's runs, where it is another than the others'."""
    tuned, printed = RIDGE[data], parties.PRINTED
    short = (
        f"{SIZE.rounds} rounds of {SIZE.local} solves in place of {printed.rounds} of"
        f" {printed.local}"
    )
    longer = {SIZE: "", printed: " but for opt"}.get(
        best, f", {best.rounds} of {best.local} of opt"
    )
    found: tuple[str, ...] = (f"{short}{longer}: what more of them change is under {_ROUNDS}.",)
    if tuned.used != tuned.printed:
        found += (
            f"Lambda is {tuned.used:g} in place of {tuned.printed:g}. At alpha = 1 the loss takes"
            " lambda sqrt(users x items) off every singular value of the clicks, none of which is"
            " longer than the root of their number: at lambda 1 the only minimum scores"
            " everything 0, and repeated solves run into it.",
        )
    if data == "amazon":
        found += (
            "The public file has no times, so a random interaction of each user is held out.",
        )
    return found


_UNKNOWN = (
    "Among how many items a held-out one is ranked is not printed: 99 that its user has not"
    " taken, here.",
    "Alpha is printed for figure 5 only, the shares of the budget for its noise only"
    f" ({', '.join(f'{name} {value:g}' for name, value in implicit.FIGURE_5.items())}): they are"
    " used throughout.",
)
_ONE_VALUE = (
    "At the printed lambda the loss keeps the largest singular value of MovieLens 100K alone: the"
    " best variant without any noise ('opt without noise') does not rank better than popularity"
    " does, so no epsilon brings it to what is printed. At this program's lambda it comes near"
    " iALS without noise, but the noise of so many parties and of the longest factor hides it at"
    " these epsilons."
)
_SCALE = (
    "Each solve spends epsilon anew and the noise is scaled to the longest factor in the data: no"
    " promise holds for a whole run. 'Our settings' are item profiles, one party and a public"
    " bound: what is promised for one solve of them is on their card."
)
_WHY = {
    "ml-100k": f"{_ONE_VALUE} {_SCALE}",
    "amazon": "Without privacy, iALS on the public file with a random click held out stays near"
    " what the paper prints for its private method at epsilon 1: another file or another split."
    f" {_SCALE}",
}


_ROUNDS = "ryhh24-rounds"


def _over_rounds() -> Experiment:
    """What the length of a run changes; every point of a curve is from the same runs."""
    data, users = "ml-100k", Profiles.USERS
    printed, short = parties.PRINTED, SIZE._replace(rounds=10)
    long = printed._replace(rounds=3)
    (best,) = _among(data, users, ["dpimf-optimal"], [1.0], printed)
    (shop,) = _among("amazon", users, ["dpimf-optimal"], [1.0], _BEST["amazon"])
    runs = [best, replace(shop, label="opt, Amazon")]
    for size in (long, short):
        for run in _among(data, users, VARIANTS[:3], [1.0], size):
            label = run.label if size == long else f"{run.label}, {size.local} solves a round"
            runs.append(replace(run, label=label))

    def series(found: Mapping[str, Any]) -> tuple[Series, ...]:
        seeds = sorted({key.rpartition(" ")[2] for key in found})
        curves = []
        for run in runs:
            made = [found[f"{run.key} seed {seed}"]["after"] for seed in seeds]
            points = {
                float(rounds) * run.size.local: Point.of([one[rounds]["hr@10"] for one in made])
                for rounds in made[0]
            }
            curves.append(Series.of(run.label, points, run.id))
        return tuple(curves)

    solves = printed.rounds * printed.local
    hits = {id: curve(data, "hr@10", id)[1.0] for id in VARIANTS}
    return Experiment(
        id=_ROUNDS,
        place="section VI-A4",
        cut=tuple(run.label for run in runs if run.size != printed),
        title="HR@10 over the length of a run at epsilon 1, user profiles, MovieLens 100K; of opt"
        " also Amazon Instant Video",
        x=Axis("noisy solves of a party", log=True),
        y=HIT_RATIO,
        printed=tuple(
            Printed(NAMES[id], float(solves), value, 0.00005, "table III, epsilon 1")
            for id, value in hits.items()
        ),
        why="Every solve draws fresh noise: length alone brings no run nearer to what is printed."
        f" {_ONE_VALUE}",
        changed=(
            "The paper draws no such curve: it prints the length of a run, and what it ends at.",
            f"str, com and sym take {long.rounds} rounds of {long.local} solves, and {short.rounds}"
            f" of {short.local}; opt the printed {printed.rounds} of {printed.local}, on Amazon"
            f" Instant Video {shop.size.rounds} of {shop.size.local} at lambda {shop.ridge:g}.",
        ),
        unknown=_UNKNOWN,
        methods=METHODS,
        promises=_promises(data, VARIANTS),
        recipe=PieceRecipe(
            pieces=partial(_pieces, runs),
            series=series,
            settings={"runs": [run.key for run in runs]},
            mechanisms=VARIANTS,
            seeds=SEEDS,
            pool=_POOL,
        ),
    )


def _table(number: str, data: str, metric: str) -> Experiment:
    ten = ("III", "IV", "V", "VI", "VII", "VIII").index(number) + 3
    users, best = Profiles.USERS, ["dpimf-optimal"]
    missing = SETS[data].missing
    whole = {name for name, size in _BEST.items() if size == parties.PRINTED}
    runs: list[_Trial] = []
    if not missing:
        runs += _among(data, users, best, EPSILONS, _BEST[data])
        runs += _without_noise(data, users)
        runs += _at_our_ridge(data, users, _THREE)
        runs += _ours(data, VARIANTS, _THREE)
        runs += _among(data, users, VARIANTS[:3], EPSILONS)
    return Experiment(
        id=f"ryhh24-table-{ten}",
        place=f"table {number}",
        cut=not missing and (data not in whole or tuple(NAMES[id] for id in VARIANTS[:3])),
        title=f"{metric.upper()} of user profiles over epsilon, {SETS[data].title}",
        x=EPSILON_LOG,
        y=HIT_RATIO if metric == "hr@10" else NDCG,
        printed=tuple(
            Printed(NAMES[id], epsilon, value, 0.00005, f"table {number}")
            for id in VARIANTS
            for epsilon, value in curve(data, metric, id).items()
        ),
        statements=()
        if missing
        else (
            Statement(
                "every variant gains with epsilon",
                f"table {number}",
                all_of(*(rises(NAMES[id]) for id in VARIANTS)),
            ),
            Statement(
                "the best variant is far above the others",
                f"table {number}",
                all_of(*(above("opt", NAMES[id], [0.5, 1.0]) for id in VARIANTS[:3])),
            ),
            Statement(
                "at epsilon 1 the strawman is worst, then the complementary loss, then symmetric"
                " noise",
                f"table {number}",
                _ordered(["str", "com", "sym"], [1.0]),
            ),
        ),
        why="" if missing else _WHY[data],
        changed=() if missing else _protocol_changes(data, _BEST[data]),
        unknown=() if missing else _UNKNOWN,
        methods=METHODS,
        promises=_promises(data, VARIANTS),
        recipe=None if missing else _recipe(metric, runs),
        not_run=missing,
    )


def _figure_5_noise(part: str, data: str) -> Experiment:
    def series(found: Mapping[str, Any]) -> tuple[Series, ...]:
        return tuple(
            Series.exact(NAMES[id], curve["x"], curve["density"], id)
            for id, curve in found["noise"].items()
        )

    def noise() -> dict[str, Any]:
        return {
            one.mechanism: {"x": one.x[::5].tolist(), "density": one.density[::5].tolist()}
            for one in implicit.figure_5(SETS[data].public)
            if one.density is not None
        }

    missing = SETS[data].missing
    return Experiment(
        id=f"ryhh24-5{part}",
        place=f"figure 5{part}",
        title=f"The noise on the coefficients of second order, {SETS[data].title}",
        x=Axis("noise on a coefficient of second order"),
        y=Axis("density"),
        statements=(
            Statement(
                "the strawman's noise is the widest, symmetric noise the narrowest",
                "section VI-B1",
                _ordered(["str", "com", "sym"], [0.0]),
            ),
        ),
        why="The order is the same. The widths are not comparable: the paper reads the longest"
        " factor off the data, here a public bound stands for it, so the curves are those of any"
        " data.",
        changed=("A public bound on the factors in place of the longest in the data.",),
        methods=METHODS,
        promises=_promises(data, VARIANTS[:3]),
        recipe=None
        if missing
        else PieceRecipe(
            pieces=lambda seeds: [Piece("noise", noise)],  # noqa: ARG005
            series=series,
            settings={"epsilon": implicit.FIGURE_5_EPSILON, **implicit.FIGURE_5},
            mechanisms=VARIANTS[:3],
        ),
        not_run=missing,
    )


def _figure_5_hits(part: str, printed_for: str) -> Experiment:
    data, changed = _standing_in(printed_for)
    missing = SETS[printed_for].missing
    items = Profiles.ITEMS
    statements = [
        Statement(
            "more epsilon, more hits",
            "section VI-B1",
            all_of(*(rises(NAMES[id]) for id in VARIANTS)),
        ),
        Statement(
            "above epsilon 1 the strawman is worst",
            "section VI-B1",
            all_of(*(above(NAMES[id], "str", _FIGURES[1:]) for id in VARIANTS[1:])),
        ),
        Statement(
            "the best variant is always best",
            "section VI-B1",
            all_of(*(above("opt", NAMES[id], _FIGURES) for id in VARIANTS[:3])),
        ),
    ]
    printed: tuple[Printed, ...] = ()
    if printed_for == "ml-10m":
        statements.append(
            Statement(
                "on average symmetric noise is 2.2 points above the complementary loss alone",
                "section VI-B1",
                mean_lead("sym", "com", 0.022, 0.0005, _FIGURES),
            )
        )
    if printed_for == "amazon":
        place = "section VI-B1"
        printed = (
            Printed("opt", 10.0, 0.64, 0.005, place),
            *(
                Printed(name, 10.0, 0.64 - behind, 0.01, place)
                for name, behind in (("str", 0.32), ("com", 0.25), ("sym", 0.19))
            ),
        )
    return Experiment(
        id=f"ryhh24-5{part}",
        place=f"figure 5{part}",
        title=f"HR@10 of item profiles over epsilon, {SETS[printed_for].title}",
        cut=not missing,
        x=EPSILON,
        y=HIT_RATIO,
        printed=printed,
        statements=tuple(statements),
        why="" if missing else _WHY[data],
        changed=() if missing else (*changed, *_protocol_changes(data)),
        unknown=(
            *_UNKNOWN,
            "Whose profiles figure 5 solves with noise is not printed: items', as in the text.",
            "Percentages are taken as points of the hit ratio.",
        ),
        methods=METHODS,
        promises=_promises(printed_for, VARIANTS),
        recipe=None
        if missing
        else _recipe(
            "hr@10",
            [
                *_among(data, items, ["dpimf-optimal"], _FIGURES),
                *_without_noise(data, items),
                *_at_our_ridge(data, items, _FIGURES),
                *_among(data, items, VARIANTS[:3], _FIGURES),
            ],
        ),
        not_run=missing,
    )


def _figure_6(part: str, size: int) -> Experiment:
    strategies = ("importance", "utility-optimal", "uniform")

    def weights() -> dict[str, Any]:
        ratings = parties.problem_of("ml-100k", 1).train
        (view,) = (
            one for one in implicit.figure_6(implicit.user_factors(ratings)) if one.sample == size
        )
        # Means of groups: no single person's factor is in a result.
        columns = {"norm": view.norm, **{name: view.weights[name] for name in strategies}}
        return {
            name: [float(group.mean()) for group in np.array_split(values, _GROUPS)]
            for name, values in columns.items()
        }

    def series(found: Mapping[str, Any]) -> tuple[Series, ...]:
        drawn = found["weights"]
        return tuple(Series.exact(name, drawn["norm"], drawn[name]) for name in strategies)

    def close(made: Made) -> bool | None:
        """Median ratio of importance to utility-optimal weights, of uniform to them beside it."""
        curves = [made.get(name) for name in strategies]
        if None in curves:
            return None
        ours, best, same = (np.asarray(one.mean) for one in curves if one is not None)
        apart, uniform = (np.median(np.abs(np.log(one / best))) for one in (ours, same))
        return bool(apart < uniform)

    def suboptimal(made: Made) -> bool | None:
        ours, same = made.get("importance"), made.get("uniform")
        if ours is None or same is None:
            return None
        return same.ends[1].mean > ours.ends[1].mean

    return Experiment(
        id=f"ryhh24-6{part}",
        place=f"figure 6{part}",
        title=f"Sampling weights at {size} sampled users, MovieLens",
        x=Axis("norm of the user's factors"),
        y=Axis("weight", log=True),
        statements=(
            Statement(
                "weights of importance sampling and utility-optimal ones are very close (here:"
                " nearer than uniform ones)",
                "section VI-B2",
                close,
            ),
            Statement(
                "uniform weights fall short: users with long factors count for as many others as"
                " anybody",
                "section VI-B2",
                suboptimal,
            ),
        ),
        why="The weights are as in the paper. What follows from them is not: no weights allow less"
        " noise than none at the same privacy; what is saved is work.",
        changed=(
            "MovieLens 100K, all users of it, in place of 2,000 of MovieLens 10M.",
            f"Means of {_GROUPS} groups of users, from short factors to long ones.",
        ),
        unknown=("How the factors behind the figure were fitted is not printed: iALS here.",),
        recipe=PieceRecipe(
            pieces=lambda seeds: [Piece("weights", weights)],  # noqa: ARG005
            series=series,
            settings={
                "users": implicit.USERS,
                "rank": implicit.RANK,
                "sample": size,
                "groups": _GROUPS,
            },
            mechanisms=("ials",),
        ),
    )


def _standing_in(data: str) -> tuple[str, tuple[str, ...]]:
    """The data that stand in for a set, and what is said of it."""
    if data != "ml-10m":
        return data, ()
    return "ml-100k", (
        f"{SETS['ml-100k'].title} in place of {SETS[data].title}, as in the paper's own tables:"
        " a run on the large set takes a hundred times as long.",
    )


def _overall(number: int, part: str, printed_for: str, profiles: Profiles) -> Experiment:
    hits = part in "ace"
    data, changed = _standing_in(printed_for)
    missing = SETS[printed_for].missing
    place = "section VI-B3"
    statements = [  # of figure 7; what is said of figure 8 is little more than that it is alike
        Statement(
            "all private methods come close to GT as epsilon grows (here: nearer at 10 than at 1)",
            place,
            all_of(*(approaches(NAMES[id], "GT", 1.0, 10.0) for id in RIVALS)),
        ),
        Statement(
            "DPIMF is above DPLCF and LDPICF at every epsilon",
            place,
            all_of(*(above("opt", other, _FIGURES) for other in ("DPLCF", "LDPICF"))),
        ),
        Statement(
            "with importance sampling it is above all other private methods",
            place,
            all_of(*(above("IS", NAMES[id], _FIGURES) for id in RIVALS if NAMES[id] != "IS")),
        ),
    ]
    if number == 8:
        statements = []
    if number == 7 and printed_for == "ml-10m":
        leads = (0.183, 0.083) if hits else (0.121, 0.054)
        for other, lead in zip(("DPLCF", "LDPICF"), leads, strict=True):
            statements.append(
                Statement(
                    f"on average it is {100 * lead:.3g} points above {other}",
                    place,
                    mean_lead("IS", other, lead, 0.0005, _FIGURES),
                )
            )
    if number == 7 and printed_for == "amazon":
        statements += [
            Statement(
                "DPLCF and LDPICF stay around 0.1 (here: give or take half of that decimal)",
                place,
                all_of(*(near(other, 0.1, _FIGURES, 0.05) for other in ("DPLCF", "LDPICF"))),
            ),
            Statement(
                f"at epsilon 10 DPIMF exceeds {0.6 if hits else 0.5:g}",
                place,
                above("opt", 0.6 if hits else 0.5, [10.0]),
            ),
        ]
    if number == 8 and printed_for == "ml-10m":
        statements.append(
            Statement(
                "above epsilon 5 the variant with importance sampling approaches GT (here: nearer"
                " at 10 than at 3)",
                place,
                approaches("IS", "GT", 3.0, 10.0),
            )
        )
    return Experiment(
        id=f"ryhh24-{number}{part}",
        cut=not missing,
        place=f"figure {number}{part}",
        title=f"{'HR' if hits else 'NDCG'}@10 of all methods over epsilon,"
        f" {profiles.value.removesuffix('s')} profiles, {SETS[printed_for].title}",
        x=EPSILON,
        y=HIT_RATIO if hits else NDCG,
        statements=() if missing else tuple(statements),
        why="" if missing else _WHY[data],
        changed=()
        if missing
        else (
            *changed,
            *_protocol_changes(data),
            "DPMF, DPLCF and LDPICF see all clicks at once: the federated flow has the variants of"
            " DPIMF alone.",
        ),
        unknown=() if missing else (*_UNKNOWN, "Percentages are taken as points of the metric."),
        methods=METHODS,
        promises=_promises(printed_for, RIVALS),
        recipe=None
        if missing
        else _recipe(
            "hr@10" if hits else "ndcg@10",
            [
                *_among(data, profiles, RIVALS[:2], _FIGURES),
                *_without_noise(data, profiles),
                *_at_our_ridge(data, profiles, _FIGURES),
                *_rivals(data, _FIGURES),
            ],
        ),
        not_run=missing,
    )


def _sizes() -> Experiment:
    """Table II, of the one set that is here as the paper has it."""

    def counted() -> list[float]:
        ratings = datasets.load("amazon", for_ranking=True).ratings
        users, items = ratings.shape
        count = len(ratings)
        return [users, items, 100 * count / (users * items), count / users, count / items]

    def series(found: Mapping[str, Any]) -> tuple[Series, ...]:
        return (Series.exact("Amazon Instant Video", range(5), found["counts"]),)

    names = ("users", "items", "density, %", "ratings per user", "ratings per item")
    printed = ((5130, 0.5), (1685, 0.5), (0.7, 0.05), (12, 0.5), (36, 0.5))
    return Experiment(
        id="ryhh24-table-2",
        place="table II",
        title="Sizes of the data sets: Amazon Instant Video",
        x=Axis("", names=names),
        y=Axis("count or %"),
        printed=tuple(
            Printed("Amazon Instant Video", float(k), value, error, "table II")
            for k, (value, error) in enumerate(printed)
        ),
        why="Users and items are those of the public 5-core file, its ratings are fewer: the paper"
        " used another file of the same shop. For MovieLens 10M the printed"
        f" averages give {97 * 71_567:,} ratings by users and {40.5 * 10_681:,.0f} by items: one of"
        " them cannot be right.",
        changed=("One of three sets: the other two are not here.",),
        recipe=PieceRecipe(
            pieces=lambda seeds: [Piece("counts", counted)],  # noqa: ARG005
            series=series,
        ),
    )


_PAIRS = (("ab", "ml-10m"), ("cd", "yahoo-music"), ("ef", "amazon"))

PAPER = Paper(
    key="RYHH24",
    title="Differentially Private Implicit Matrix Factorization",
    authors=("Xun Ran", "Qingqing Ye", "Xin Huang", "Haibo Hu"),
    year=2024,
    venue="preprint",
    experiments=(
        *(_table(*name) for name in _TABLES),
        _over_rounds(),
        *(
            (_figure_5_noise if part in "ace" else _figure_5_hits)(part, data)
            for parts, data in _PAIRS
            for part in parts
        ),
        _figure_6("a", 20),
        _figure_6("b", 100),
        *(
            _overall(number, part, data, profiles)
            for number, profiles in ((7, Profiles.ITEMS), (8, Profiles.USERS))
            for parts, data in _PAIRS
            for part in parts
        ),
        Experiment(
            id="ryhh24-table-1",
            place="table I",
            title="What related methods protect",
            not_run="a comparison in words: ours is the page of guarantees",
        ),
        _sizes(),
        Experiment(
            id="ryhh24-1",
            place="figure 1",
            title="Examples of explicit and of implicit feedback",
            not_run=_DIAGRAM,
        ),
        Experiment(
            id="ryhh24-2",
            place="figure 2",
            title="Matrices of explicit and of implicit feedback",
            not_run=_DIAGRAM,
        ),
        Experiment(
            id="ryhh24-3",
            place="figure 3",
            title="Two parties that learn together",
            not_run=_DIAGRAM,
        ),
        Experiment(
            id="ryhh24-4",
            place="figure 4",
            title="The parts of the whole method",
            not_run=_DIAGRAM,
        ),
    ),
)
