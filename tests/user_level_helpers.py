"""The user-level family in small: its variants, and rows that push their queries to the limits."""

import numpy as np

from dpmc_core import registry
from dpmc_core.mechanisms.cleansing import Predictor
from dpmc_core.mechanisms.dpals import ItemBudget
from dpmc_core.mechanisms.frank_wolfe import StepRule
from dpmc_core.model import Estimator
from dpmc_core.privacy import USER_EMPTIED, USER_REPLACED, Calibration
from dpmc_core.ratings import PublicFacts, Ratings

USERS, ITEMS, CAP = 30, 12, 7
PUBLIC = PublicFacts(users=USERS, items=ITEMS, low=1, high=5)
FAMILY = {
    "private-frank-wolfe": {"rounds": 3},
    "private-frank-wolfe-oja": {"rounds": 2, "updates": 3},
    "private-svd": {},
    "private-pgd": {"rounds": 3},
    "svd-after-cleansing": {},
    "dpals": {"rounds": 2},
    "private-item-mean": {},
    "private-effects": {"rounds": 2, "rank": 3},
    "dp-sgd": {"rounds": 3, "rank": 2},
}
BASELINES = ("private-constant", "private-own-mean", "private-alone")
WITHOUT_CAP = ("private-item-mean", "private-effects", "dp-sgd", *BASELINES)  # weights, no cap
PAPERS = [id for id in FAMILY if id not in WITHOUT_CAP]
VARIANTS = [
    *((id, settings) for id, settings in FAMILY.items() if id != "dp-sgd"),
    ("private-frank-wolfe", {"rounds": 3, "growth": 1.3, "residual": 2.0, "slack": 1.0}),
    ("private-frank-wolfe", {"rounds": 3, "calibration": Calibration.PAPER, "symmetric": False}),
    ("private-frank-wolfe", {"rounds": 3, "step": StepRule.DECREASING, "item_share": 0.0}),
    ("private-effects", {"epsilon": 40.0, "rounds": 2, "rank": 3}),  # with taste
    *((id, {}) for id in BASELINES),
    *((id, {"estimator": Estimator.PUBLISHED} | FAMILY[id]) for id in PAPERS),
    ("svd-after-cleansing", {"predictor": Predictor.NEIGHBOURS}),
    ("dpals", {"rounds": 2, "items": ItemBudget.TAIL, "growth": 1.3}),
    ("dpals", {"rounds": 2, "items": ItemBudget.ADAPTIVE, "exponent": 1.0}),
    ("dp-sgd", FAMILY["dp-sgd"]),
    ("dp-sgd", {"rounds": 3, "rank": 0}),
]
IDS = [f"{id}-{k}" for k, (id, _) in enumerate(VARIANTS)]
# Whole rows are protected by these, too, or every cell of them.
RANKING = [
    ("private-taste", {"epsilon": 2.0}),
    ("private-taste", {"epsilon": 1e4, "rank": 3}),
    ("private-popularity", {"epsilon": 2.0}),
    ("private-popularity", {"epsilon": 2.0, "delta": 0.0}),
    ("dpimf-strawman", {"epsilon": 2.0, "rounds": 1}),
    ("dpimf-complementary", {"epsilon": 2.0, "rounds": 1}),
    ("dpimf-symmetric", {"epsilon": 2.0, "rounds": 1}),
    ("dpimf-optimal", {"epsilon": 2.0, "rounds": 1}),
    ("dpimf-sampled", {"epsilon": 2.0, "rounds": 1}),
    ("dplcf", {"epsilon": 2.0}),
    ("dplcf", {"epsilon": 50.0}),
    ("ldpicf", {"epsilon": 2.0}),
    ("dplcf", {"epsilon": 2.0, "estimator": Estimator.PUBLISHED}),
    ("ldpicf", {"epsilon": 2.0, "estimator": Estimator.PUBLISHED}),
    ("local-popularity", {"epsilon": 2.0}),
]
COLLECTED = [
    *(
        (id, {"epsilon": 2.0, "estimator": estimator})
        for id in ("modified-laplace", "randomised-response")
        for estimator in Estimator
    ),
    ("local-mean", {"epsilon": 2.0}),
]


def create_mechanism(id, **settings):
    cap = {} if id in WITHOUT_CAP else {"cap": CAP}
    return registry.create(id, **{"epsilon": 2.0} | cap | FAMILY.get(id, {}) | settings)


def make_rows(seed=1):
    """One dict item -> rating a user."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(USERS):
        count = int(rng.integers(0, ITEMS + 1))
        items = rng.choice(ITEMS, count, replace=False)
        rows.append({int(i): float(rng.integers(1, 6)) for i in items})
    return rows


def build_ratings(rows):
    cells = [(u, i, v) for u, row in enumerate(rows) for i, v in row.items()]
    u, i, v = zip(*cells, strict=True)
    return Ratings.build(np.array(u), np.array(i), np.array(v), PUBLIC)


def make_extreme_rows():
    """Rows that push queries to their limits: full, half, one-sided, aligned, opposed, single."""
    half = ITEMS // 2
    return [
        dict.fromkeys(range(ITEMS), 5.0),
        {i: 5.0 if i < half else 1.0 for i in range(ITEMS)},
        {i: 1.0 if i < half else 5.0 for i in range(ITEMS)},
        {i: 5.0 if i % 2 else 1.0 for i in range(ITEMS)},
        {i: 1.0 if i % 2 else 5.0 for i in range(CAP)},
        {i: 5.0 if i % 2 else 1.0 for i in range(ITEMS - CAP, ITEMS)},
        {0: 5.0, 1: 1.0},
        {ITEMS - 1: 5.0, ITEMS - 2: 1.0},
        {3: 1.0},
    ]


def list_neighbours(relation, seed=2):
    """Pairs of data sets that differ in user 4: extreme rows, random rows, the empty row."""
    rng = np.random.default_rng(seed)
    rows = make_rows()
    user_rows = make_extreme_rows() + [r for r in make_rows(9)[:6] if r]
    for a in user_rows:
        other_rows = (
            [{}] if relation is USER_EMPTIED else [user_rows[int(rng.integers(len(user_rows)))]]
        )
        if relation is USER_REPLACED and a is user_rows[1]:
            other_rows.append(user_rows[2])
        if relation is USER_REPLACED and a is user_rows[4]:
            other_rows.append(user_rows[5])
        for b in other_rows:
            yield build_ratings([*rows[:4], a, *rows[5:]]), build_ratings([*rows[:4], b, *rows[5:]])
