"""RYHH24: Ran, Ye, Huang, Hu, "Differentially Private Implicit Matrix Factorization" (2024).

Tables III to VIII print numbers; figures 5 to 8 are plots, read with their place.
"""

from __future__ import annotations

from typing import NamedTuple

from dpmc_core.papers.frame import (
    EPSILON,
    EPSILON_LOG,
    HIT_RATIO,
    NDCG,
    Axis,
    Experiment,
    Paper,
    Printed,
    Promise,
)
from dpmc_core.privacy import USER_REPLACED
from dpmc_core.ratings import PublicFacts

EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
PROTOCOL = (
    "RYHH24, tables III to VIII: HR@10 and NDCG@10 of user profiles solved with noise, the latest"
    " interaction of each user held out. The candidates a held-out item is ranked among are not"
    " stated; the numbers fit 99 sampled negatives only (without privacy, ranking among all unseen"
    " items gives an HR@10 of about 0.14 on MovieLens 100K). Apparently 10 parties with 100 rounds"
    " of 20 local solves, each solve counted as if it were the only one, and the largest norm in"
    " the data as sensitivity: not strictly comparable with anything measured here. The text says"
    " MovieLens 10M where the tables say 100K."
)
AMAZON_NOTE = (
    "Amazon Instant Video cannot match: the public 5-core file has no times, so a random"
    " interaction is held out, and under that protocol iALS without any privacy stays below what"
    " the paper prints for its private method at epsilon 1 (0.63)."
)


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


_LATER = "no grid has been made for it yet"
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
VARIANTS = tuple(NAMES)[:4]
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
    return tuple(
        Promise(mechanism=id, change=USER_REPLACED, public=SETS[data].public) for id in ids
    )


def _table(number: str, data: str, metric: str) -> Experiment:
    ten = ("III", "IV", "V", "VI", "VII", "VIII").index(number) + 3
    return Experiment(
        id=f"ryhh24-table-{ten}",
        place=f"table {number}",
        title=f"{metric.upper()} of user profiles over epsilon, {SETS[data].title}",
        x=EPSILON_LOG,
        y=HIT_RATIO if metric == "hr@10" else NDCG,
        printed=tuple(
            Printed(NAMES[id], epsilon, value, 0.00005, f"table {number}")
            for id in VARIANTS
            for epsilon, value in curve(data, metric, id).items()
        ),
        promises=_promises(data, VARIANTS),
        not_run=SETS[data].missing or _LATER,
    )


def _figure_5(part: str, data: str) -> Experiment:
    noise = part in "ace"
    what = "The noise on the coefficients" if noise else "HR@10 of item profiles over epsilon"
    return Experiment(
        id=f"ryhh24-5{part}",
        place=f"figure 5{part}",
        title=f"{what}, {SETS[data].title}",
        x=Axis("noise on a coefficient of second order") if noise else EPSILON,
        y=Axis("density") if noise else HIT_RATIO,
        promises=_promises(data, VARIANTS[:3] if noise else VARIANTS),
        not_run=SETS[data].missing or _LATER,
    )


def _figure_6(part: str, size: int) -> Experiment:
    return Experiment(
        id=f"ryhh24-6{part}",
        place=f"figure 6{part}",
        title=f"Sampling weights at {size} sampled users, 2,000 users of MovieLens 10M",
        x=Axis("norm of the user's factors"),
        y=Axis("weight"),
        not_run=_LATER,
    )


def _overall(number: int, part: str, data: str, profiles: str) -> Experiment:
    hits = part in "ace"
    return Experiment(
        id=f"ryhh24-{number}{part}",
        place=f"figure {number}{part}",
        title=f"{'HR' if hits else 'NDCG'}@10 of all methods over epsilon, {profiles} profiles,"
        f" {SETS[data].title}",
        x=EPSILON,
        y=HIT_RATIO if hits else NDCG,
        promises=_promises(data, RIVALS),
        not_run=SETS[data].missing or _LATER,
    )


_PAIRS = (("ab", "ml-10m"), ("cd", "yahoo-music"), ("ef", "amazon"))

PAPER = Paper(
    key="RYHH24",
    title="Differentially Private Implicit Matrix Factorization",
    authors=("Xun Ran", "Qingqing Ye", "Xin Huang", "Haibo Hu"),
    year=2024,
    venue="manuscript",
    experiments=(
        *(_table(*name) for name in _TABLES),
        *(_figure_5(part, data) for parts, data in _PAIRS for part in parts),
        _figure_6("a", 20),
        _figure_6("b", 100),
        *(
            _overall(number, part, data, profiles)
            for number, profiles in ((7, "item"), (8, "user"))
            for parts, data in _PAIRS
            for part in parts
        ),
        Experiment(
            id="ryhh24-table-1",
            place="table I",
            title="What related methods protect",
            not_run="a comparison in words: ours is the page of guarantees",
        ),
        Experiment(
            id="ryhh24-table-2",
            place="table II",
            title="Sizes of the three data sets",
            x=Axis(
                "",
                names=("users", "items", "density, %", "ratings per user", "ratings per item"),
            ),
            y=Axis("count or %"),
            not_run="its counts have not been taken here yet",
        ),
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
