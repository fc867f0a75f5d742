"""Releases, guarantees and the conversions between units, checked by exhaustive enumeration."""

from __future__ import annotations

import dataclasses
import doctest
import itertools
import json
import math
import pickle
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpmc_core import privacy
from dpmc_core.errors import InvalidSetting
from dpmc_core.privacy import (
    CELL,
    RATING,
    ROW_VALUES,
    USER_EMPTIED,
    USER_REPLACED,
    Additive,
    Budget,
    Change,
    Gaussian,
    Guarantee,
    Laplace,
    NormLaplace,
    Notion,
    Publishes,
    RandomizedResponse,
    Release,
    Releases,
    Trust,
    Unaccounted,
    accounting,
    calibrate,
    record_publications,
    sensitivity_at,
)
from dpmc_core.ratings import PublicFacts

PUBLIC = PublicFacts(users=943, items=1682, low=1, high=5)
FLIP = ((0.75, 0.25), (0.25, 0.75))


def make_public(items: int, cap: int | None) -> PublicFacts:
    return PublicFacts(users=2, items=items, low=-1, high=1, cap=cap)


def make_sensitivity(sensitivity: Mapping[str, float]) -> dict[Change, float]:
    """A sensitivity table by the names of its changes in small letters."""
    return {Change[name.upper()]: s for name, s in sensitivity.items()}


def make_release(
    kind: type[Additive],
    scale: float = 1.0,
    times: int = 1,
    shape: tuple[int | None, ...] = (3,),
    **sensitivity: float,
) -> Any:
    return kind(
        query=kind.__name__.lower(),
        shape=shape,
        sensitivity=make_sensitivity(sensitivity),
        scale=scale,
        times=times,
    )


make_laplace, make_gaussian = partial(make_release, Laplace), partial(make_release, Gaussian)


def make_response(channel: Any = FLIP, times: int = 1, **sensitivity: float) -> RandomizedResponse:
    return RandomizedResponse(
        query="response", shape=(3,), sensitivity=make_sensitivity(sensitivity), channel=channel,
        times=times,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Several(Releases):
    listed: tuple[Release, ...]


def make_guarantee(*releases: Release, **changes: Any) -> Guarantee:
    settings: dict[str, Any] = {
        "change": RATING,
        "notion": Notion.PURE,
        "trust": Trust.CURATOR,
        "publishes": Publishes.ITEM_COUNTS,
        "public": PUBLIC,
        "claimed": Budget(1.0),
        "source": "a test",
        "releases": Several(releases),
    }
    return Guarantee(**(settings | changes))


def test_the_examples_at_the_top_hold() -> None:
    results = doctest.testmod(privacy, globs={})
    assert results.failed == 0
    assert results.attempted >= 10


# Conversions between units, by enumeration of every data set of a tiny shape

Row = tuple[int | None, ...]  # None: missing


def list_rows(items: int, cap: int | None) -> list[Row]:
    every = itertools.product((None, -1, 1), repeat=items)
    return [r for r in every if cap is None or sum(c is not None for c in r) <= cap]


def get_pattern(row: Row) -> tuple[bool, ...]:
    return tuple(c is not None for c in row)


def are_neighbours(key: Change, a: Row, b: Row) -> bool:
    """The relations by their definitions; one user's row is enough, the others do not move."""
    changed = sum(x != y for x, y in zip(a, b, strict=True))
    if key == RATING:
        return get_pattern(a) == get_pattern(b) and changed == 1
    if key == ROW_VALUES:
        return get_pattern(a) == get_pattern(b)
    if key == CELL:
        return changed == 1
    if key == USER_EMPTIED:
        return not any(get_pattern(a)) or not any(get_pattern(b))
    return True


def fill_missing(row: Row) -> NDArray[np.float64]:
    return np.array([0 if c is None else c for c in row], dtype=float)


def mark_rated(row: Row) -> NDArray[np.float64]:
    return np.array(get_pattern(row), dtype=float)


def average_row(row: Row) -> NDArray[np.float64]:
    return np.array([fill_missing(row).sum() / max(1.0, mark_rated(row).sum())])


QUERIES: dict[str, Callable[[Row], NDArray[np.float64]]] = {
    "sum of values": lambda row: np.array([fill_missing(row).sum()]),
    "count": lambda row: np.array([mark_rated(row).sum()]),
    "values": fill_missing,
    "pattern": mark_rated,
    "values and pattern": lambda row: np.concatenate([fill_missing(row), mark_rated(row)]),
    "mean": average_row,
    "covariance": lambda row: np.outer(fill_missing(row), fill_missing(row)).ravel(),
    "pair counts": lambda row: np.outer(mark_rated(row), mark_rated(row)).ravel(),
    "one particular row": lambda row: np.array([float(row[0] == 1 and row[-1] is None)]),
}
NORMS: dict[str, Callable[[NDArray[np.float64]], float]] = {
    "l1": lambda v: float(np.abs(v).sum()),
    "l2": lambda v: float(np.linalg.norm(v)),
}


def measure_sensitivities(
    query: Callable[[Row], NDArray[np.float64]],
    norm: Callable[[NDArray[np.float64]], float],
    items: int,
    cap: int | None,
) -> dict[Change, float]:
    every = list_rows(items, cap)
    answers = [query(row) for row in every]
    worst = dict.fromkeys(Change, 0.0)
    for (a, x), (b, y) in itertools.combinations(zip(every, answers, strict=True), 2):
        change = norm(x - y)
        for key in Change:
            if change > worst[key] and are_neighbours(key, a, b):
                worst[key] = change
    return worst


@pytest.mark.parametrize(("items", "cap"), [(1, None), (2, 1), (3, None), (3, 1), (3, 2), (4, 2)])
@pytest.mark.parametrize("norm", NORMS)
def test_derived_sensitivities_are_never_below_the_truth(
    norm: str, items: int, cap: int | None
) -> None:
    public = make_public(items, cap)
    for name, query in QUERIES.items():
        truth = measure_sensitivities(query, NORMS[norm], items, cap)
        for stated in Change:
            table = {stated: truth[stated]}
            for change in Change:
                derived = sensitivity_at(table, change, public)
                assert derived >= truth[change] - 1e-12, (name, stated, change)
        # A table with every true value derives nothing smaller than the truth either.
        for key in Change:
            assert sensitivity_at(truth, key, public) == pytest.approx(truth[key], abs=1e-12)


@pytest.mark.parametrize(
    ("query", "start", "end", "items", "cap", "factor"),
    [
        ("values", RATING, ROW_VALUES, 3, 2, 2),  # k values of a row
        ("pattern", CELL, USER_EMPTIED, 3, 2, 2),  # k cells come or go
        ("pattern", CELL, USER_REPLACED, 4, 2, 4),  # 2k cells: disjoint rows
        ("pattern", CELL, USER_REPLACED, 3, 2, 3),  # min(2k, n) = n
        ("pattern", CELL, USER_REPLACED, 3, 50, 3),  # a cap above n changes nothing
        ("values", RATING, ROW_VALUES, 3, 50, 3),
        ("pattern", USER_EMPTIED, USER_REPLACED, 4, 2, 2),
        ("values", USER_REPLACED, ROW_VALUES, 3, None, 1),
        ("values", USER_REPLACED, CELL, 1, None, 1),
        ("values", CELL, RATING, 3, None, 1),
        ("values", ROW_VALUES, RATING, 1, None, 1),
        ("count", USER_REPLACED, USER_EMPTIED, 3, None, 1),
        ("values", USER_EMPTIED, CELL, 1, None, 2),
        ("values", USER_EMPTIED, RATING, 1, None, 2),
    ],
)
def test_conversions_are_tight(
    query: str, start: Change, end: Change, items: int, cap: int | None, factor: int
) -> None:
    """For some query the truth attains the factor, so no smaller one would be sound."""
    truth = measure_sensitivities(QUERIES[query], NORMS["l1"], items, cap)
    derived = sensitivity_at({start: truth[start]}, end, make_public(items, cap))
    assert derived == factor * truth[start]
    assert derived == truth[end]


def test_values_never_bound_cells_or_users() -> None:
    table = {RATING: 1, ROW_VALUES: 5}
    for key in (CELL, USER_EMPTIED, USER_REPLACED):
        assert sensitivity_at(table, key, PUBLIC) == math.inf
    assert sensitivity_at({}, RATING, PUBLIC) == math.inf


@pytest.mark.parametrize(("items", "cap"), [(1, None), (3, 1), (3, 2), (100, None), (100, 10)])
def test_no_chain_of_steps_bounds_a_change_better(items: int, cap: int | None) -> None:
    public = make_public(items, cap)
    for start, between, end in itertools.product(Change, repeat=3):
        first = sensitivity_at({start: 1}, between, public)
        chain = sensitivity_at({between: first}, end, public)
        assert sensitivity_at({start: 1}, end, public) <= chain


def test_the_smaller_of_a_stated_and_a_derived_sensitivity_counts() -> None:
    public = make_public(100, 10)
    assert sensitivity_at({CELL: 1, USER_EMPTIED: 3}, USER_EMPTIED, public) == 3
    assert sensitivity_at({CELL: 1, USER_EMPTIED: 30}, USER_EMPTIED, public) == 10
    assert sensitivity_at({CELL: 1, USER_EMPTIED: 3}, USER_REPLACED, public) == 6
    tight = {USER_EMPTIED: 4, USER_REPLACED: 4 * math.sqrt(2)}
    assert sensitivity_at(tight, USER_REPLACED, public) == 4 * math.sqrt(2)
    assert sensitivity_at(tight, RATING, public) == 4 * math.sqrt(2)


def test_only_users_can_be_emptied_and_units_have_names() -> None:
    for change in (RATING, ROW_VALUES, CELL):
        with pytest.raises(InvalidSetting, match=f"neighbours {change.label} must be replace"):
            Change.from_json(change.unit, "empty")
    with pytest.raises(InvalidSetting, match="unit must be one of value, row-values, entry, user"):
        Change.from_json("rating", "replace")


# Sensitivity tables


def test_a_release_keeps_its_own_table_which_nobody_can_change() -> None:
    table: dict[Change, float] = {RATING: 1.0}
    release = Laplace(query="q", shape=(), sensitivity=table, scale=1.0)
    table[CELL] = 0.0
    assert dict(release.sensitivity) == {RATING: 1.0}
    with pytest.raises(TypeError):
        release.sensitivity[CELL] = 0.0  # type: ignore[index]


@pytest.mark.parametrize(
    ("make", "name", "values", "sentence"),
    [
        (make_laplace, "rating", (-1.0, math.nan, math.inf), "'laplace' per rating must be"),
        (make_laplace, "times", (0, -3, 1.5), "times of 'laplace' must be"),  # 0 would be free
        (make_laplace, "scale", (0, math.nan, math.inf), "noise scale of 'laplace' must be"),
        *(
            (partial(make_laplace, shape=(None,)), name, (1.0,), "left out where the number of")
            for name in ("cell", "user_emptied", "user_replaced")
        ),
        (
            partial(make_release, NormLaplace), "shape", ((), (None,), (3, None)),
            "must be rows of a fixed length",
        ),
        (
            make_response, "channel",
            (((0.5, 0.6), (0.5, 0.5)), ((1.5, -0.5), (0.5, 0.5)), ((1.0,), (0.5, 0.5)), ()),
            "channel of 'response' must be rows of prob",
        ),
    ],
)  # fmt: skip
def test_an_impossible_release_is_a_sentence(
    make: Callable[..., Release], name: str, values: tuple[Any, ...], sentence: str
) -> None:
    for value in values:
        with pytest.raises(InvalidSetting, match=sentence):
            make(**{"rating": 1.0} | {name: value})


# What one release is worth


def test_laplace_and_norm_laplace_epsilon() -> None:
    assert make_laplace(scale=0.5, times=3, rating=2).loss(2).epsilon == 12
    assert make_laplace(scale=0.5, rating=2).loss(2).mu == 0
    rows_ = NormLaplace(query="q", shape=(4, 5), sensitivity={RATING: 2}, scale=4.0, times=2)
    assert rows_.loss(2).epsilon == 1
    assert rows_.loss(2).mu == 0


def test_gaussian_mu() -> None:
    assert make_gaussian(scale=4.0, times=9, user_emptied=2).loss(2).mu == 1.5
    assert make_gaussian(scale=4.0, times=9, user_emptied=2).loss(2).epsilon == 0


def test_channel_epsilon_counts_changed_symbols() -> None:
    loss = make_response(times=2, cell=1).loss(3)  # six flips of 1/4, output by output
    assert loss.epsilon == pytest.approx(6 * math.log(3))
    for epsilon in (0.0, 2.0, 5.0):
        differences = (
            math.prod(weights) - math.exp(epsilon) * math.prod(4 - x for x in weights)
            for weights in itertools.product((1, 3), repeat=6)
        )
        exact = sum(max(0.0, difference) for difference in differences) / 4**6
        assert loss.delta_at(epsilon) == pytest.approx(exact, rel=1e-12)
    identity = make_response(((1.0, 0.0), (0.0, 1.0)), rating=1)
    assert identity.loss(1).epsilon == math.inf
    assert identity.loss(0).epsilon == 0  # and not 0 times infinity


def test_distances_are_in_the_norm_of_the_noise() -> None:
    first, second = np.array([[3.0, 0.0], [1.0, 1.0]]), np.array([[0.0, 4.0], [1.0, 0.0]])
    assert make_laplace(rating=1).distance(first, second) == 8
    assert make_laplace(rating=1).distance([True, False], [False, False]) == 1
    assert make_gaussian(rating=1).distance(first, second) == math.sqrt(26)
    rows_ = NormLaplace(query="q", shape=(2, 2), sensitivity={RATING: 1}, scale=1.0)
    assert rows_.distance(first, second) == 6


def test_laplace_likelihood_ratios_attain_the_certified_epsilon() -> None:
    """The exact ratio of densities at two answers one sensitivity apart."""
    release = make_laplace(scale=0.7, rating=1.3)
    x = np.linspace(-10, 10, 2001)
    loss = np.log(release.density(x) / release.density(x - 1.3))
    assert np.abs(loss).max() == pytest.approx(release.loss(1.3).epsilon, rel=1e-9)


def test_a_release_that_states_no_price_is_never_free() -> None:
    class Forgotten(Additive):
        pass

    new = Forgotten(query="q", shape=(), sensitivity={RATING: 1}, scale=1.0)
    assert make_guarantee(new).certified().epsilon == math.inf


# Publishing


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        ((2, 3), 0.0),  # one scalar draw for a matrix
        ((2, 3), np.zeros((3, 2))),
        ((2, 3), np.zeros((1, 3))),
        ((None,), np.zeros((4, 1))),
        ((None, 3), np.zeros((7, 2))),
        ((), np.zeros(1)),
    ],
)
@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_the_wrong_shape_is_refused(
    kind: type[Additive], shape: tuple[int | None, ...], value: Any
) -> None:
    release, rng = make_release(kind, shape=shape, rating=1), np.random.default_rng(0)
    match = "shape of .* must be"
    with record_publications() as published, pytest.raises(InvalidSetting, match=match):
        release.publish(value, rng)
    assert published == []
    with pytest.raises(InvalidSetting, match=match):
        make_response(rating=1).publish([0, 1], rng)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_noise_cannot_hide_is_not_published(bad: float) -> None:
    with pytest.raises(InvalidSetting, match="'laplace' must be finite before noise"):
        make_laplace(rating=1).publish([0.0, bad, 0.0], np.random.default_rng(0))


def test_a_witness_leaves_the_block_once_it_has_seen_what_it_waits_for() -> None:
    rng, after = np.random.default_rng(0), False
    with record_publications(until_queries=["laplace", "gaussian"]) as published:
        for release in (make_laplace(rating=1), make_laplace(rating=1), make_gaussian(rating=1)):
            release.publish(np.zeros(3), rng)
        after = True
    assert not after
    assert [p.release.query for p in published] == ["laplace", "laplace", "gaussian"]
    make_laplace(rating=1).publish(np.zeros(3), rng)  # nobody looks any longer
    assert len(published) == 3


def test_the_witness_sees_copies_and_only_inside_its_block() -> None:
    rng = np.random.default_rng(0)
    private = np.arange(3.0)
    with record_publications() as publications:
        published = make_laplace(rating=1).publish(private, rng)
        make_response(rating=1).publish([0, 1, 1], rng)
    make_laplace(rating=1).publish(private, rng)
    assert len(publications) == 2
    np.testing.assert_array_equal(publications[0].private, private)
    np.testing.assert_array_equal(publications[0].published, published)
    assert publications[0].private is not private
    assert publications[0].published is not published
    np.testing.assert_array_equal(publications[1].private, [0, 1, 1])


# Certified values


def test_pure_releases_add_up() -> None:
    guarantee = make_guarantee(
        make_laplace(2.0, times=3, rating=1),
        make_laplace(0.5, rating=0.25),
        make_response(rating=1),
    )
    certified = guarantee.certified()
    assert certified.epsilon == pytest.approx(1.5 + 0.5 + math.log(3))
    assert certified.delta == 0
    assert certified.finite
    assert certified.reason == ""


def test_mixed_releases_cost_less_than_the_pure_and_the_gaussian_epsilon() -> None:
    mixed = make_guarantee(make_laplace(2.0, rating=1), make_gaussian(2.0, rating=1))
    epsilon = mixed.certified(delta=1e-6).epsilon
    assert accounting.gaussian_epsilon(0.5, 1e-6) < epsilon
    assert epsilon < 0.5 + accounting.gaussian_epsilon(0.5, 1e-6)


def test_values_that_move_their_own_numbers_cost_what_so_many_answers_do() -> None:
    """Eighty ratings of one person: forty times as far in one number would cost far more."""
    disjoint = Laplace(
        query="signs", shape=(None,), sensitivity={RATING: 1}, scale=20, disjoint=True
    )
    summed = dataclasses.replace(disjoint, disjoint=False)
    each, sum_ = (
        make_guarantee(release).certified(ROW_VALUES, 1e-6).epsilon
        for release in (disjoint, summed)
    )
    assert sum_ == pytest.approx(
        make_guarantee(disjoint).certified(ROW_VALUES, 0.0).epsilon, rel=1e-4
    )
    from dp_accounting.pld import privacy_loss_distribution as pld

    peer_loss = pld.from_laplace_mechanism(20.0, value_discretization_interval=1e-4)
    cells = round(make_guarantee(disjoint).certified(ROW_VALUES, 0.0).epsilon * 20)
    assert each == pytest.approx(
        peer_loss.self_compose(cells).get_epsilon_for_delta(1e-6), rel=1e-5
    )
    assert each < sum_


def test_rounding_of_exact_noise_does_not_make_one_cell_two() -> None:
    signs = RandomizedResponse.binary(0.5, 0.5, query="s", shape=(None,), sensitivity={RATING: 1})
    signs = dataclasses.replace(signs, channel=((0.51, 0.49), (0.49, 0.51)))
    rounded = dataclasses.replace(signs, sensitivity={RATING: 1 + 2.0**-40})
    assert rounded.loss(80 * (1 + 2.0**-40)).pure[0].times == signs.loss(80).pure[0].times == 80
    assert rounded.loss(80 * (1 + 2.0**-40)).epsilon > signs.loss(80).epsilon
    (pure,) = signs.loss(1.5).pure  # counts nothing: one release of all of it
    assert pure == (1.5 * signs.cell_epsilon, 1, False)


def test_delta_defaults_to_the_claim() -> None:
    claim = make_guarantee(make_gaussian(rating=1), claimed=Budget(1.0, 1e-5))
    assert claim.certified().delta == 1e-5
    assert claim.certified().epsilon == accounting.gaussian_epsilon(1.0, 1e-5)
    pure = make_guarantee(make_gaussian(rating=1), claimed=None).certified()
    assert pure.epsilon == math.inf
    assert pure.reason == "Gaussian noise gives no finite epsilon at delta = 0"
    with pytest.raises(InvalidSetting, match="delta must be >= 0 and < 1, got 1"):
        claim.certified(delta=1.0)


def test_other_units_cost_what_group_privacy_says() -> None:
    capped = dataclasses.replace(PUBLIC, cap=20)
    value = make_guarantee(make_laplace(rating=1), public=capped)
    assert value.certified(ROW_VALUES).epsilon == 20
    assert make_guarantee(make_laplace(rating=1)).certified(ROW_VALUES).epsilon == 1682
    for change in (CELL, USER_EMPTIED):
        infinite = value.certified(change)
        assert not infinite.finite
        assert "which ratings exist is public" in infinite.reason
        assert change.label in infinite.reason
    entry = make_guarantee(make_laplace(cell=1), public=capped)
    assert entry.certified(RATING).epsilon == 1
    assert entry.certified(USER_EMPTIED).epsilon == 20
    assert entry.certified(USER_REPLACED).epsilon == 40
    user = make_guarantee(make_laplace(user_emptied=1))
    assert user.certified(USER_EMPTIED).epsilon == 1
    assert user.certified(CELL).epsilon == 2
    assert user.certified(RATING).epsilon == 2


def test_one_uncovered_release_is_enough_to_be_infinite() -> None:
    guarantee = make_guarantee(
        make_laplace(user_emptied=1), make_gaussian(rating=1), claimed=Budget(1, 1e-6)
    )
    assert guarantee.certified(RATING).finite
    users = guarantee.certified(USER_EMPTIED)
    assert users.epsilon == math.inf
    assert "'gaussian' covers the values of ratings only" in users.reason


def test_what_covers_nothing_is_infinite_and_says_why() -> None:
    accesses = (Unaccounted("item means", "read without noise"), Unaccounted("clip", "a maximum"))
    unaccounted = make_guarantee(make_laplace(user_replaced=1), unaccounted=accesses)
    revealing = make_guarantee(make_response(((1.0, 0.0), (0.5, 0.5)), rating=1))
    for guarantee, changes, reason in (
        (unaccounted, Change, "item means: read without noise; clip: a maximum"),
        (revealing, [RATING], "some outputs reveal their input"),
        (make_guarantee(), [RATING], "nothing is randomised"),
    ):
        for change in changes:
            certified = guarantee.certified(change)
            assert (certified.epsilon, certified.reason) == (math.inf, reason)


def test_a_scale_read_off_the_data_certifies_nothing() -> None:
    for release in (make_laplace(user_replaced=1), make_gaussian(user_replaced=1)):
        scaled = dataclasses.replace(release, scale=7.0, sensitivity={})
        for change in Change:
            certified = make_guarantee(scaled, claimed=Budget(1, 1e-6)).certified(change)
            assert certified.epsilon == math.inf
            assert "read off the data" in certified.reason
    with pytest.raises(InvalidSetting, match="noise scale of 'laplace' must be > 0, got 0"):
        dataclasses.replace(make_laplace(rating=1), scale=0.0)


# Releases as fields


# Cards


def test_cards_are_plain_json() -> None:
    for guarantee in (
        make_guarantee(make_laplace(rating=1)),
        make_guarantee(make_gaussian(rating=1), claimed=None),
        make_guarantee(make_gaussian(user_emptied=1), change=USER_EMPTIED, claimed=Budget(1, 1e-6)),
        make_guarantee(
            unaccounted=(Unaccounted("ratings", "read raw"),), notion=Notion.NONE, claimed=None
        ),
    ):
        serialised = json.loads(json.dumps(guarantee.as_dict(), allow_nan=False))
        assert serialised == guarantee.as_dict()
        certified = guarantee.certified()
        budget = {"epsilon": certified.epsilon, "delta": certified.delta}
        assert serialised["certified"] == (budget if certified.finite else None)
        assert certified.finite or serialised["reason"]


def test_cards_cross_process_borders_and_stay_immutable() -> None:
    guarantee = make_guarantee(
        make_laplace(rating=1), make_gaussian(rating=1), make_response(rating=1)
    )
    copy = pickle.loads(pickle.dumps(guarantee))
    assert copy == guarantee
    assert copy.certified(delta=1e-6) == guarantee.certified(delta=1e-6)
    with pytest.raises(TypeError):
        copy.releases.listed[0] = make_laplace(rating=0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        copy.releases.listed = ()
    with pytest.raises(TypeError):
        copy.releases.listed[0].sensitivity[RATING] = 0.0


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(-1, 0), (math.nan, 0), (math.inf, 0), (1, 1), (1, -0.1), (1, math.nan)]
)
def test_impossible_budgets(epsilon: float, delta: float) -> None:
    with pytest.raises(InvalidSetting):
        Budget(epsilon, delta)


# Calibration


def make_laplace_builder(sensitivity: float, **table: float) -> Callable[[float], Guarantee]:
    return lambda epsilon: make_guarantee(make_laplace(sensitivity / epsilon, **table))


@pytest.mark.parametrize("target", [0.01, 1.0, 10.0])
def test_calibrate_inverts_a_loose_constant(target: float) -> None:
    paper = make_laplace_builder(4.0, rating=1.0)  # spends a quarter of what it is set to
    setting = calibrate(paper, Budget(target))
    assert setting == pytest.approx(4 * target, rel=1e-11)
    assert paper(setting).certified().epsilon <= target


@pytest.mark.slow
@pytest.mark.parametrize("change", [USER_EMPTIED, USER_REPLACED])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0])
def test_calibrate_mixed_releases(epsilon: float, change: Change) -> None:
    def build_at(setting: float) -> Guarantee:
        return make_guarantee(
            make_laplace(10 / setting, user_emptied=1),
            make_gaussian(8 / setting, 20, user_emptied=1),
        )

    target = Budget(epsilon, 1e-6)
    setting = calibrate(build_at, target, change)
    certified = build_at(setting).certified(change, 1e-6).epsilon
    assert certified <= epsilon
    assert certified == pytest.approx(epsilon, rel=1e-9)


def test_calibrate_refuses_what_has_no_finite_value() -> None:
    with pytest.raises(InvalidSetting, match="which ratings exist is public"):
        calibrate(make_laplace_builder(1.0, rating=1.0), Budget(1.0), USER_EMPTIED)
    with pytest.raises(InvalidSetting, match="target epsilon must be > 0, got 0"):
        calibrate(make_laplace_builder(1.0, rating=1.0), Budget(0.0))
    with pytest.raises(InvalidSetting, match="no finite epsilon at delta = 0"):
        calibrate(lambda e: make_guarantee(make_gaussian(1 / e, rating=1)), Budget(1.0, 0.0))


def test_calibrate_ends_where_the_certified_value_saturates() -> None:
    def saturating(setting: float) -> Guarantee:
        return make_guarantee(make_laplace(1 + 1 / setting, rating=3))  # tends to 3 from below

    assert saturating(calibrate(saturating, Budget(2.9))).certified().epsilon <= 2.9
    with pytest.raises(InvalidSetting, match="target epsilon must be below 3, the most that any"):
        calibrate(saturating, Budget(4.0))
    with pytest.raises(InvalidSetting, match="must be below 1, the most that any setting spends"):
        calibrate(lambda _: make_guarantee(make_laplace(rating=1)), Budget(2.0))


def test_calibrate_ends_where_the_certified_value_never_gets_small() -> None:
    def fixed_part(setting: float) -> Guarantee:
        return make_guarantee(make_laplace(rating=1), make_laplace(1 / setting, rating=1))

    assert calibrate(fixed_part, Budget(1.5)) == pytest.approx(0.5)
    with pytest.raises(InvalidSetting, match="target epsilon must be at least 1, spent at any"):
        calibrate(fixed_part, Budget(0.5))


def test_calibrate_stops_at_the_setting_s_own_limit() -> None:
    def limited(setting: float) -> Guarantee:
        if setting > 27.6:
            raise InvalidSetting("epsilon", "<= 27.6", setting)
        return make_guarantee(make_laplace(4 / setting, rating=1))

    assert calibrate(limited, Budget(5.0)) == pytest.approx(20.0)
    assert calibrate(limited, Budget(20.0)) == pytest.approx(27.6)
    with pytest.raises(InvalidSetting, match=r"epsilon must be <= 27\.6, got 40"):
        calibrate(limited, Budget(40.0))
