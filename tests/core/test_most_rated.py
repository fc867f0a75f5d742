"""Methods that hold items x items, on more items than fit: the most rated, by released counts."""

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.errors import InvalidSetting
from dpmc_core.metrics import rmse
from dpmc_core.privacy.releases import record_publications
from dpmc_core.ratings import PublicFacts
from dpmc_core.solvers import sizes
from sample_data import generate
from tests.replay import fit_model

pytestmark = pytest.mark.slow

IDS = ("private-frank-wolfe", "private-svd", "private-pgd", "svd-after-cleansing")
LIMIT = 60
PUBLIC = PublicFacts(users=3_000, items=150, low=1, high=5)


@pytest.fixture(scope="module")
def ratings():
    return generate.generate_long_tail(3, users=3_000, items=150, ratings=120_000).ratings


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(sizes, "GRAM_LIMIT", LIMIT)


def fit_at_20(id, ratings, **settings):
    return fit_model(registry.create(id, epsilon=20.0, **settings), ratings)


def measure_error(model, ratings):
    return rmse(model.predict(ratings.users, ratings.items), ratings.values)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("id", IDS)
def test_the_card_says_so_and_certifies_the_same(id):
    guarantee = registry.create(id, epsilon=1.0).guarantee(PUBLIC)
    assert any(f"{LIMIT:,}" in caveat and "150" in caveat for caveat in guarantee.caveats)
    assert guarantee.certified().epsilon == pytest.approx(1.0, rel=1e-9)
    small = registry.create(id, epsilon=1.0).guarantee(
        PublicFacts(users=3_000, items=LIMIT, low=1, high=5)
    )
    assert not any("largest released counts" in caveat for caveat in small.caveats)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("id", IDS)
def test_every_item_is_predicted_and_taste_is_that_of_items_with_large_released_counts(id, ratings):
    with record_publications() as publications:
        model = fit_at_20(id, ratings)
    assert measure_error(model, ratings) < measure_error(fit_at_20("user-mean", ratings), ratings)
    (counts,) = [p for p in publications if p.release.query.startswith("ratings of each item")]
    popular = np.sort(np.argsort(-counts.published, kind="stable")[:LIMIT])
    largest = max(p.published.size for p in publications)
    assert largest == LIMIT**2
    unpopular = np.setdiff1d(np.arange(150), popular)
    # beside the kept items' taste a user's scores of the other items are user and item effects
    interactions = []
    for items in (unpopular, popular):
        scores = model.predict(np.arange(3_000)[:, None], items)
        effects = scores.mean(axis=0) + scores.mean(axis=1)[:, None]
        interactions.append(np.std(scores - effects))
    assert interactions[0] < 0.6 * interactions[1]


@pytest.mark.usefixtures("few")
def test_without_released_counts_nothing_says_which_items():
    for id in IDS[:3]:
        with pytest.raises(InvalidSetting, match="item_share"):
            registry.create(id, epsilon=1.0, item_share=0.0).guarantee(PUBLIC)


@pytest.mark.parametrize("id", IDS)
def test_all_items_are_held_where_they_fit(id, ratings, monkeypatch):
    before = fit_at_20(id, ratings).predict(ratings.users, ratings.items)
    monkeypatch.setattr(sizes, "GRAM_LIMIT", 150)
    assert np.array_equal(before, fit_at_20(id, ratings).predict(ratings.users, ratings.items))
