"""What a mechanism published is all that others ever see of a user's row.

A data set and its neighbour, one user's row apart, are given the same answers. Everybody else's
predictions and every trace value that is not marked as raw must then be the same to the last bit.
A mechanism that publishes with noise and goes on with the raw value is caught here.
"""

import dataclasses

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.mechanisms.dpimf import Profiles
from dpmc_core.model import Task
from dpmc_core.privacy import CELL, USER_EMPTIED
from dpmc_core.ratings import PublicFacts, Ratings
from tests.replay import replay_run
from tests.user_level_helpers import (
    COLLECTED,
    FAMILY,
    IDS,
    ITEMS,
    RANKING,
    VARIANTS,
    build_ratings,
    create_mechanism,
    make_extreme_rows,
    make_rows,
)

USER = 4  # whose row differs


def make_clicks(rows):
    cells = [(u, i) for u, row in enumerate(rows) for i in sorted(row)]
    users, items = map(np.array, zip(*cells, strict=True))
    public = PublicFacts(users=len(rows), items=ITEMS, low=0, high=1)
    return Ratings.build(users, items, np.ones(len(users)), public)


def iterate_pairs(task):
    """Data sets with an extreme row of the user's, beside an empty one and another one."""
    make_of = make_clicks if task is Task.RANKING else build_ratings
    rows, extreme_rows = make_rows(), make_extreme_rows()
    for k, other in ((0, {}), (3, extreme_rows[1]), (6, {11: 5.0})):
        yield tuple(
            make_of([*rows[:USER], row, *rows[USER + 1 :]]) for row in (extreme_rows[k], other)
        )


def assert_nothing_but_answers_counts(mechanism):
    changed = False
    for ratings, neighbour in iterate_pairs(mechanism.task):
        first, second = replay_run(mechanism, ratings, neighbour, USER)
        assert first.public_traces == second.public_traces, "a trace shows a raw value"
        for a, b in zip(first.other_predictions, second.other_predictions, strict=True):
            assert np.array_equal(a, b), f"others see a raw value: {np.abs(a - b).max():.3g}"
        changed = changed or not np.array_equal(
            first.user_predictions[-1], second.user_predictions[-1]
        )
    return changed


# With little noise, where no part of an estimate is left out because noise hides it.
QUIET = [(id, {"epsilon": 1e3} | settings) for id, settings in FAMILY.items()]


@pytest.mark.parametrize(
    ("id", "settings"),
    VARIANTS + QUIET,
    ids=[*IDS, *(f"{id}-quiet" for id, _ in QUIET)],
)
def test_others_see_nothing_of_a_row_but_the_published_answers(id, settings):
    # the own row does reach the user's own predictions, so the data sets do differ
    user_changed = assert_nothing_but_answers_counts(create_mechanism(id, **settings))
    assert user_changed or id == "private-constant"  # which predicts one number for everybody


@pytest.mark.parametrize(("id", "settings"), RANKING + COLLECTED)
def test_rankings_and_collected_ratings_show_nothing_but_the_answers(id, settings):
    assert_nothing_but_answers_counts(registry.create(id, **settings))


@pytest.mark.parametrize("variant", ["complementary", "optimal", "sampled"])
def test_user_profiles_show_a_row_to_others_and_certify_nothing(variant):
    mechanism = registry.create(f"dpimf-{variant}", epsilon=2.0, rounds=1, profiles=Profiles.USERS)
    with pytest.raises(AssertionError, match="others see a raw value"):
        assert_nothing_but_answers_counts(mechanism)
    for unit in (CELL, USER_EMPTIED):
        assert not mechanism.guarantee(build_ratings(make_rows()).public).certified(unit).finite


def test_every_certified_mechanism_of_whole_rows_is_held_to_it():
    """A new mechanism with a bound per cell or user must be added to the lists above."""
    listed = {id for id, _ in [*VARIANTS, *RANKING, *COLLECTED]}
    public = PublicFacts(users=1000, items=12, low=1, high=5)
    for id, cls in registry.MECHANISMS.items():
        if cls.task is Task.BINARY or not registry.adds_noise(cls):
            continue
        guarantee = registry.create(id, epsilon=1.0).guarantee(public)
        assert id in listed or not guarantee.certified(CELL).finite, id


# --- planted bugs: publish as the card says, then go on with the raw value ------------------------

PLANTED = [
    (id, settings, name)
    for id, settings in [
        *((id, create_mechanism(id, **s)) for id, s in QUIET),
        *((id, registry.create(id, **s)) for id, s in RANKING + COLLECTED),
    ]
    for name, _ in settings.guarantee(build_ratings(make_rows()).public).releases
    # so noisy that it asks for counts alone, and no moments
    if (id, settings.epsilon, name) != ("private-taste", 2.0, "moments")
]


def leak_raw_value(release):
    """The same release, whose caller gets the raw value back once the noisy one is published."""

    def publish(self, value, rng):
        super(kind, self).publish(value, rng)
        return value

    def publish_rows(self, rows, rng):
        super(kind, self).publish_rows(rows, rng)
        return np.packbits(rows.toarray() != 0, axis=1)

    kind = type("Leaking", (type(release),), {"publish": publish, "publish_rows": publish_rows})
    planted = object.__new__(kind)
    planted.__dict__.update(release.__dict__)
    return planted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "name"), [p[1:] for p in PLANTED], ids=[f"{p[0]}-{p[2]}" for p in PLANTED]
)
def test_a_raw_value_used_after_it_was_published_is_caught(mechanism, name, monkeypatch):
    original_guarantee = type(mechanism).guarantee

    def guarantee(self, public):
        guarantee = original_guarantee(self, public)
        chosen = dict(guarantee.releases)[name]
        planted = guarantee.releases.map_releases(lambda r: leak_raw_value(r) if r is chosen else r)
        return dataclasses.replace(guarantee, releases=planted)

    monkeypatch.setattr(type(mechanism), "guarantee", guarantee)
    with pytest.raises(AssertionError, match="a raw value"):
        assert_nothing_but_answers_counts(mechanism)
