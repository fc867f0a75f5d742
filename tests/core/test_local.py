"""Whole-row channels: every input meets its law, and no law is further from another than eps."""

import dataclasses
import itertools
import math
import tracemalloc

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_array

from dpmc_core import registry
from dpmc_core.errors import InvalidSetting
from dpmc_core.privacy import (
    CELL,
    USER_EMPTIED,
    USER_REPLACED,
    Laplace,
    ModifiedLaplace,
    SymbolChannel,
    noise,
)
from dpmc_core.ratings import PublicFacts, Ratings
from tests.statistics_helpers import (
    FALSE_ALARM,
    assert_drawn_from,
    assert_frequencies,
    assert_scale,
)

EPSILONS = (0.3, 1.0, 4.0)
MISSING = None


def build_laplace_channel(epsilon, shape=(200, 500)):
    return ModifiedLaplace.from_epsilon(epsilon, query="rows", shape=shape, sensitivity={CELL: 1})


def build_symbol_channel(epsilon, d=5, shape=(200, 500)):
    levels = tuple(np.linspace(-1, 1, d).tolist())
    return SymbolChannel.symmetric(
        epsilon, levels, query="rows", shape=shape, sensitivity={CELL: 1}
    )


def fill_rows(value, shape):
    """A matrix with this value in every cell; None: nothing stored."""
    if value is MISSING:
        return csr_array(shape)
    cells = shape[0] * shape[1]
    starts = np.arange(shape[0] + 1) * shape[1]
    items = np.tile(np.arange(shape[1]), shape[0])
    return csr_array((np.full(cells, float(value)), items, starts), shape=shape)


def assert_symbols(channel, seed=0):
    """Chi-square of every input symbol's outputs, FALSE_ALARM in all."""
    rng, size = np.random.default_rng(seed), len(channel.levels) + 1
    for a in range(size):
        out = channel.publish(fill_rows(a or MISSING, channel.shape), rng)
        counts = np.bincount(out.data.astype(int), minlength=size)
        counts[0] = channel.shape[0] * channel.shape[1] - out.nnz
        truth = SymbolChannel.symmetric(
            1.0, channel.levels, query="", shape=(1, 1), sensitivity={}
        ).matrix[a]
        assert_frequencies(counts, truth, FALSE_ALARM / size)


def assert_laplace(channel, epsilon, seed=0):
    """Report rates and reported values of missing cells and of three ratings."""
    rng = np.random.default_rng(seed)
    q = math.exp(epsilon / 2) / (math.exp(epsilon / 2) + 1)
    for x in (MISSING, -1.0, 0.0, 1.0):
        out = channel.publish(fill_rows(x, channel.shape), rng)
        cells = channel.shape[0] * channel.shape[1]
        rate = 1 - q if x is MISSING else q
        assert_frequencies([out.nnz, cells - out.nnz], [rate, 1 - rate], FALSE_ALARM / 8)
        distribution = stats.laplace(loc=x or 0.0, scale=2 / epsilon)
        assert_drawn_from(out.data, distribution.cdf, FALSE_ALARM / 8)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_modified_laplace_meets_its_law_for_every_input(epsilon):
    assert_laplace(build_laplace_channel(epsilon), epsilon)


@pytest.mark.parametrize("x", [MISSING, 1.0])
def test_the_scale_of_reports_is_exact(x):
    """Planted bug: noise that is 3 % short, on rated or on missing cells."""
    channel = build_laplace_channel(0.5, shape=(600, 500))
    release = Laplace(query="reports", shape=(None,), sensitivity={}, scale=2 / 0.5)
    reports = channel.publish(fill_rows(x, channel.shape), np.random.default_rng(8))
    assert len(reports.data) > 120_000
    added_noise = reports.data.astype(float) - (x or 0.0)
    assert_scale(added_noise, release)
    with pytest.raises(AssertionError, match="scale off"):
        assert_scale(0.97 * added_noise, release)


def test_randomised_response_meets_its_law_for_every_input():
    assert_symbols(build_symbol_channel(1.0))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_nine_cases_of_theorem_1_stay_within_e_to_the_epsilon(epsilon):
    """Theorem 1's cases: (rating, rating), (rating, missing), (missing, rating), each against a
    set of reported values, against {missing}, and against both together."""
    scale, q = 2 / epsilon, math.exp(epsilon / 2) / (math.exp(epsilon / 2) + 1)
    ends = np.union1d(np.linspace(-1 - 8 * scale, 1 + 8 * scale, 121), [-1.0, 0.0, 1.0])
    ends = np.concatenate([[-np.inf], ends, [np.inf]])

    def masses(x):
        """(chances of a report in each interval of the grid, chance of no report)."""
        rate = 1 - q if x is MISSING else q
        distribution = stats.laplace(x or 0.0, scale)
        lower, upper = ends[:-1], ends[1:]
        negative = np.where(upper <= 0, distribution.cdf(upper) - distribution.cdf(lower), 0)
        positive = np.where(upper > 0, distribution.sf(lower) - distribution.sf(upper), 0)
        return rate * (negative + positive), 1 - rate

    ratings = (-1.0, -0.3, 0.0, 1.0)
    cases = [*itertools.product(ratings, ratings)]
    cases += [(x, MISSING) for x in ratings] + [(MISSING, x) for x in ratings]
    worst = 0.0
    for a, b in cases:
        (values_a, none_a), (values_b, none_b) = masses(a), masses(b)
        # longer sets are sums of these, so their ratios lie between those of the parts
        only_values = np.abs(np.log(values_a / values_b)).max()
        only_missing = abs(math.log(none_a / none_b))
        combined = np.abs(np.log((none_a + values_a) / (none_b + values_b))).max()
        assert max(only_values, only_missing, combined) <= epsilon + 1e-9
        assert combined <= max(only_values, only_missing) + 1e-12
        worst = max(worst, only_values, only_missing)
    assert worst == pytest.approx(epsilon)
    assert build_laplace_channel(epsilon).cell_epsilon == pytest.approx(epsilon)


@pytest.mark.parametrize("id", ["modified-laplace", "randomised-response"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
def test_certified_is_claimed_per_cell_and_n_times_that_per_user(id, epsilon):
    public = PublicFacts(users=30, items=40, low=1, high=5)
    guarantee = registry.create(id, epsilon=epsilon).guarantee(public)
    assert guarantee.certified().epsilon == pytest.approx(epsilon)
    assert guarantee.certified(USER_REPLACED).epsilon == pytest.approx(40 * epsilon)
    assert guarantee.certified(USER_EMPTIED).epsilon == pytest.approx(40 * epsilon)


@pytest.mark.parametrize("id", ["modified-laplace", "randomised-response", "local-mean"])
def test_a_rating_is_encoded_by_the_public_range_alone(id):
    """Ratings of 2, 3 and 5 of 1..5, whoever else rated; not by the smallest and largest seen."""
    public = PublicFacts(users=3, items=2, low=1, high=5)
    ratings = Ratings.build([0, 1, 2], [0, 1, 1], [2.0, 3.0, 5.0], public)
    mechanism = registry.create(id, epsilon=1.0)
    for rows in (ratings, ratings.select(np.array([True, True, False]))):
        encoded = mechanism.encode_rows(rows, mechanism.channel(public)).toarray()
        expected = [-0.5, 0.0] if id == "modified-laplace" else [2, 3]
        assert [encoded[0, 0], encoded[1, 1]] == expected


def test_a_channel_with_too_little_noise_is_certified_as_such():
    channel = dataclasses.replace(build_laplace_channel(1.0), scale=1.0)  # half of 2/eps
    assert channel.cell_epsilon == pytest.approx(2.0)
    quiet = dataclasses.replace(build_laplace_channel(1.0), flip=build_laplace_channel(3.0).flip)
    assert quiet.cell_epsilon == pytest.approx(1.5 + 0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("channel", "expected"),
    [
        (build_laplace_channel(1.0, (943, 1682)), 1 / (math.exp(0.5) + 1)),
        (build_symbol_channel(1.0, 5, (943, 1682)), 5 / (math.e + 5)),
    ],
    ids=["modified Laplace", "randomised response"],
)
def test_spurious_cells_are_as_many_as_stated_in_every_row(channel, expected):
    rng = np.random.default_rng(3)
    cells = np.sort(rng.choice(943 * 1682, 100_000, replace=False))
    starts = np.searchsorted(cells, np.arange(944) * 1682)
    rows = csr_array((np.ones(100_000), cells % 1682, starts), shape=(943, 1682))
    out = channel.publish(rows, rng)
    reported = np.repeat(np.arange(943), np.diff(out.indptr)) * 1682 + out.indices
    assert (np.diff(reported) > 0).all()
    spurious = np.setdiff1d(reported, cells)
    missing = 943 * 1682 - 100_000
    assert_frequencies([len(spurious), missing - len(spurious)], [expected, 1 - expected])
    # row by row: binomial, so the standardised counts are as good as normal
    free = 1682 - np.diff(starts)
    counts = np.bincount(spurious // 1682, minlength=943)
    z = (counts - free * expected) / np.sqrt(free * expected * (1 - expected))
    assert_drawn_from(z + rng.uniform(-0.5, 0.5, 943) / np.sqrt(free / 4), stats.norm.cdf)
    # and uniform over the columns
    columns = np.bincount(cells % 1682, minlength=1682)
    assert_frequencies(np.bincount(spurious % 1682, minlength=1682), 943 - columns)


@pytest.mark.slow
def test_hits_leave_the_taken_places_alone_and_find_all_others():
    rng = np.random.default_rng(0)
    occupied = np.array([0, 1, 5, 9])
    assert np.array_equal(noise.draw_hits(occupied, 10, 1.0, rng), [2, 3, 4, 6, 7, 8])
    assert len(noise.draw_hits(occupied, 10, 0.0, rng)) == 0
    assert len(noise.draw_hits(np.arange(10), 10, 0.5, rng)) == 0
    counts = np.zeros(10)
    pairs = np.zeros(4)
    for _ in range(20_000):
        hits = noise.draw_hits(occupied, 10, 0.3, rng)
        counts[hits] += 1
        pairs[2 * (2 in hits) + (3 in hits)] += 1
    free = np.setdiff1d(np.arange(10), occupied)
    assert counts[occupied].sum() == 0
    for position in free:
        assert_frequencies([counts[position], 20_000 - counts[position]], [0.3, 0.7])
    assert_frequencies(pairs, [0.49, 0.21, 0.21, 0.09])


def test_nothing_of_the_size_of_the_matrix_is_built():
    """20 billion cells, one report in a million: megabytes."""
    shape = (200_000, 100_000)
    channel = build_laplace_channel(2 * math.log(1e6), shape)
    tracemalloc.start()
    out = channel.publish(csr_array(shape), np.random.default_rng(0))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6  # bytes; a bit for each cell is 2.5e9
    assert_frequencies([out.nnz, 2e10 - out.nnz], [1e-6, 1 - 1e-6])


@pytest.mark.parametrize("bad", [-1.5, 1.01, math.nan])
def test_values_outside_the_scale_are_refused(bad):
    channel = build_laplace_channel(1.0, (1, 2))
    with pytest.raises(InvalidSetting, match=r"-1\.\.1"):
        channel.publish(csr_array(([0.0, bad], [0, 1], [0, 2]), shape=(1, 2)), None)


@pytest.mark.parametrize("bad", [0.0, 6.0, 1.5, math.nan])
def test_symbols_that_are_none_are_refused(bad):
    channel = build_symbol_channel(1.0, 5, (1, 2))
    with pytest.raises(InvalidSetting, match=r"1\.\.5"):
        channel.publish(csr_array(([1.0, bad], [0, 1], [0, 2]), shape=(1, 2)), None)


def test_a_missing_cell_reports_with_its_own_chance_at_any_epsilon(monkeypatch):
    """One minus the chance of silence would lose its digits: 38.35 where 38 is certified."""
    chances = []
    monkeypatch.setattr(
        noise, "draw_hits", lambda *arguments: chances.append(arguments[2]) or np.empty(0, int)
    )
    for epsilon in (1.0, 30.0, 38.0, 45.0):
        release = SymbolChannel.symmetric(
            epsilon, (-1.0, 0.0, 1.0), query="rows", shape=(3, 4), sensitivity={CELL: 1}
        )
        noise.pass_missing_channel(
            release.matrix[0], np.empty(0, int), 12, np.random.default_rng(0)
        )
        assert chances[-1] == pytest.approx(3 / (math.exp(epsilon) + 3), rel=1e-12)
        assert release.cell_epsilon == pytest.approx(epsilon, rel=1e-12)
