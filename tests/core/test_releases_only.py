"""Private values reach a model through its releases and nowhere else.

Every release is made deaf: it publishes the same arrays whatever goes in. Two data sets that differ
in their values alone must then give the same model. A line search on the true objective, a
stopping rule, a scale read off the data or a warm start from the raw ratings would show.
"""

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.model import Task
from dpmc_core.privacy import Additive, RandomizedResponse
from dpmc_core.ratings import PublicFacts, Ratings
from tests.replay import fit_model, predict_all

USERS, ITEMS = 24, 16
CERTIFIED = [
    id
    for id, cls in sorted(registry.MECHANISMS.items())
    if registry.adds_noise(cls) and cls.task is Task.BINARY
]
# By default gradient takes a single round, which shows nothing of how one leads to the next, and
# little noise lets the length of a step follow it. Solved closely within a wide ball, output takes
# other rounds for other data.
INFORMATIVE_SETTINGS = {
    "gradient": {"rounds": 6, "epsilon": 60.0},
    "output": {"radius": 3.0, "tolerance": 1e-6},
}


def make_signs(changed):
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((USERS, ITEMS)) < 0.6)
    values = np.where(rng.random(len(users)) < 0.6, 1.0, -1.0)
    if changed:
        values *= np.where(rng.random(len(users)) < 0.5, 1.0, -1.0)
    return Ratings.build(
        users, items, values, PublicFacts(users=USERS, items=ITEMS, low=-1, high=1)
    )


@pytest.fixture
def deaf(monkeypatch):
    def additive(self, value, rng):
        return self._draw_noise(np.shape(value), rng)

    def channel(self, value, rng):
        return rng.integers(0, len(self.channel[0]), np.shape(value))

    monkeypatch.setattr(Additive, "publish", additive)
    monkeypatch.setattr(RandomizedResponse, "publish", channel)


def fit_scores(mechanism, ratings):
    return predict_all(fit_model(mechanism, ratings, 1), (USERS, ITEMS))


@pytest.mark.usefixtures("deaf")
@pytest.mark.parametrize("id", CERTIFIED)
def test_no_value_reaches_the_model_past_its_releases(id):
    mechanism = registry.create(id, **{"epsilon": 1.0} | INFORMATIVE_SETTINGS.get(id, {}))
    first, second = (fit_scores(mechanism, make_signs(changed)) for changed in (False, True))
    assert np.array_equal(first, second)


@pytest.mark.slow
@pytest.mark.usefixtures("deaf")
@pytest.mark.parametrize("id", CERTIFIED)
def test_a_number_of_rounds_that_depends_on_raw_values_is_told_on_the_card(id):
    """The rounds of a run stand on its card and in the store."""
    mechanism = registry.create(id, **{"epsilon": 1.0} | INFORMATIVE_SETTINGS.get(id, {}))
    ratings = [make_signs(changed) for changed in (False, True)]
    first, second = (len(list(mechanism.fit(r, np.random.default_rng(1)))) for r in ratings)
    caveats = mechanism.guarantee(ratings[0].public).caveats
    assert (first != second) == any("number of solver rounds" in caveat for caveat in caveats)


@pytest.mark.usefixtures("deaf")
def test_the_check_sees_a_method_that_reads_raw_values():
    mechanism = registry.create("clear")
    first, second = (fit_scores(mechanism, make_signs(changed)) for changed in (False, True))
    assert not np.array_equal(first, second)
