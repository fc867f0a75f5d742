"""Numbers printed in the papers, to lay over what is measured here.

RYHH24: Ran, Ye, Huang, Hu, "Differentially Private Implicit Matrix Factorization" (2024).
"""

from __future__ import annotations

from typing import NamedTuple

RYHH24_EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
RYHH24_PROTOCOL = (
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


class Printed(NamedTuple):
    """One printed number: paper, table, data set, metric name, mechanism id, epsilon, value."""

    paper: str
    table: str
    data: str
    metric: str
    mechanism: str
    epsilon: float
    value: float


# One row per variant, columns at RYHH24_EPSILONS.
_RYHH24 = {
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


def ryhh24() -> tuple[Printed, ...]:
    """Tables III to VIII of RYHH24."""
    found = []
    for (number, data, metric), text in _RYHH24.items():
        for line in text.strip().split("\n"):
            name, *values = line.split()
            found += [
                Printed("RYHH24", f"table {number}", data, metric, name, epsilon, float(value))
                for epsilon, value in zip(RYHH24_EPSILONS, values, strict=True)
            ]
    return tuple(found)


def curve(data: str, metric: str, mechanism: str) -> dict[float, float]:
    """The printed values of a mechanism by epsilon; empty where none is printed."""
    return {
        p.epsilon: p.value
        for p in ryhh24()
        if (p.data, p.metric, p.mechanism) == (data, metric, mechanism)
    }
