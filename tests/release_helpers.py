"""What tests of released files share: small ratings, and every mechanism that can be released."""

import json

import numpy as np

from dpmc_core import registry
from dpmc_core.errors import CannotRelease
from dpmc_core.model import Task
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import parse_setting
from dpmc_lab.study.release import check_releasable, digest_release_card

USERS, ITEMS = 24, 16

# id, settings as text: those that release each something else; what cannot be released goes below
_CASES = [
    *(
        (id, {})
        for id in sorted(registry.MECHANISMS)
        if registry.adds_noise(registry.get_mechanism(id))
    ),
    ("dpmf", {"user_factors": "random:1", "noise": "coordinate"}),
    ("dpmf", {"user_factors": "random:1", "noise": "coordinate", "unit_ball": "false"}),
    ("dpmf-clicks", {"user_factors": "random:1", "noise": "coordinate", "rank": "3"}),
    *(
        (f"dpimf-{name}", {"rounds": "1", "rank": "3"})
        for name in ("strawman", "complementary", "symmetric", "optimal", "sampled")
    ),
    ("private-popularity", {"per": "cell", "delta": "0"}),
    ("private-frank-wolfe", {"estimator": "published", "growth": "2", "rounds": "3"}),
    ("private-frank-wolfe-oja", {"estimator": "published", "calibration": "paper"}),
    ("private-svd", {"estimator": "published", "item_share": "0"}),
    ("private-svd", {"density": "0.5"}),
    ("private-pgd", {"estimator": "published", "radius": "5"}),
    ("svd-after-cleansing", {"estimator": "published"}),
    ("dpals", {"estimator": "published", "items": "adaptive"}),
    ("private-effects", {"epsilon": "300"}),
    ("private-taste", {"epsilon": "1000", "rank": "2"}),
    ("private-frank-wolfe", {"epsilon": "3000", "cap": "6"}),
    ("private-pgd", {"epsilon": "3000", "cap": "6"}),
    *(
        (id, {"epsilon": "3000"})
        for id in ("dpals", "private-frank-wolfe", "private-frank-wolfe-oja", "private-pgd")
    ),
    *((id, {"epsilon": "30000"}) for id in ("private-svd", "svd-after-cleansing")),
]


def format_case(case):
    id, settings = case
    return " ".join([id, *(f"{name}={value}" for name, value in settings.items())])


def create_mechanism(id, settings):
    """The mechanism with settings as text."""
    cls = registry.get_mechanism(id)
    values = {"epsilon": 1.0, "delta": 1e-6}
    values |= {name: parse_setting(cls, name, text) for name, text in settings.items()}
    return registry.create(id, **values)


def make_ratings(task, seed=7, pattern=7, **names):
    """Ratings of a task; `pattern` decides which cells are rated, `seed` what the ratings are."""
    users, items = np.nonzero(np.random.default_rng(pattern).random((USERS, ITEMS)) < 0.6)
    stars = np.random.default_rng(seed).integers(1, 6, len(users))
    values, low, high = {
        Task.BINARY: (np.where(stars > 2, 1.0, -1.0), -1, 1),
        Task.RATINGS: (stars, 1, 5),
        Task.RANKING: (np.ones(len(users)), 0, 1),
    }[task]
    public = PublicFacts(users=USERS, items=ITEMS, low=low, high=high)
    return Ratings.build(users, items, values, public, **names)


def can_release(case):
    """Whether small ratings could be released so."""
    mechanism = create_mechanism(*case)
    try:
        check_releasable(mechanism, make_ratings(mechanism.task))
    except CannotRelease:
        return False
    return True


RELEASED = [case for case in _CASES if can_release(case)]


def load_release(path):
    """(card, arrays) of a released file."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(str(arrays.pop("card"))), arrays


def save_release(path, guarantee, arrays, *, sealed=True):
    """The file with another card or other arrays; sealed: the card's own digest is made to fit."""
    if sealed:
        guarantee = guarantee | {"sha256": digest_release_card(guarantee)}
    np.savez(path, allow_pickle=False, card=np.array(json.dumps(guarantee)), **arrays)
