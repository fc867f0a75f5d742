"""DPLCF and LDPICF: the channel, unbiased and likeliest pair estimates, neighbourhoods."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.optimize import minimize

from dpmc_core import registry
from dpmc_core.privacy import USER_EMPTIED, record_publications
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers import ranking as ranks
from dpmc_core.solvers.factorization import binary_matrix
from dpmc_core.solvers.ranking import FlippedBits, ItemScores, find_nearest_items
from tests.ratings_helpers import clicks
from tests.replay import predict_all
from tests.statistics_helpers import assert_channel

USERS, ITEMS = 40, 12


def draw_ratings(seed: int = 0, users: int = USERS, items: int = ITEMS) -> Ratings:
    return clicks(np.random.default_rng(seed).random((users, items)) < 0.35)


def flip_bits(bits: np.ndarray, flip: float, rng) -> np.ndarray:
    return np.where(rng.random(bits.shape) < flip, 1 - bits, bits)


def pack(bits: np.ndarray, flip: float) -> FlippedBits:
    return FlippedBits(np.packbits(bits.astype(bool), axis=1), bits.shape[1], flip)


@pytest.mark.parametrize("id", ["dplcf", "ldpicf"])
def test_each_bit_passes_the_stated_channel(id: str) -> None:
    public = PublicFacts(users=30, items=20, low=0, high=1)
    guarantee = registry.create(id, epsilon=1.7).guarantee(public)
    assert guarantee.certified().epsilon == pytest.approx(1.7)
    assert guarantee.certified(USER_EMPTIED).epsilon == pytest.approx(1.7 * 20)
    assert_channel(
        dataclasses.replace(guarantee.releases.bits, shape=(None,), sensitivity={}),
        np.random.default_rng(1),
    )


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 3.0, 9.0])
def test_rows_of_bits_pass_the_stated_channel_a_byte_each(epsilon: float) -> None:
    """Zeros and ones alike and on their own; false alarms: one in a million each."""
    users, items = 3000, 1001
    public = PublicFacts(users=users, items=items, low=0, high=1)
    release = registry.create("dplcf", epsilon=epsilon).guarantee(public).releases.bits
    truth = np.zeros((users, items), dtype=np.uint8)
    truth[::2] = 1
    packed = release.publish_rows(sparse.csr_array(truth), np.random.default_rng(2))
    flips = np.unpackbits(packed, axis=1, count=items) ^ truth
    chance = release.channel[0][1]
    for half in (flips[::2], flips[1::2]):
        assert stats.binomtest(int(half.sum()), half.size, chance).pvalue > 1e-6
    line, error = flips.ravel() - chance, math.sqrt(flips.size) * chance * (1 - chance)
    for lag in (1, 2, 4, 8, items):  # of a word, of a row
        assert abs(float(line[lag:] @ line[:-lag])) < 4.9 * error
    with record_publications() as publications:
        repeated = release.publish_rows(sparse.csr_array(truth), np.random.default_rng(2))
    assert np.array_equal(repeated, packed)
    assert np.array_equal(publications[0].private, truth)
    assert np.array_equal(publications[0].published, flips ^ truth)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [40.0, 300.0, 1000.0, 1e6])
@pytest.mark.parametrize("iterations", [20, 2000])
def test_bits_that_are_hardly_ever_flipped_count_as_they_are(epsilon, iterations) -> None:
    """Pairs with empty cells: nothing is divided by a chance that is no longer a number."""
    rng = np.random.default_rng(3)
    bits = (rng.random((60, 8)) < 0.3).astype(np.int64)
    bits[:, 1], bits[:, 2], bits[:, 3], bits[:, 4] = bits[:, 0], 1 - bits[:, 0], 0, 1
    flip = registry.create("ldpicf", epsilon=epsilon).bit_flip_probability
    pair_counts, first_counts, second_counts = pack(bits, flip).fit_pair_counts(
        np.arange(8), iterations
    )
    counts = bits.sum(axis=0).astype(float)
    off_diagonal = ~np.eye(8, dtype=bool)
    assert pair_counts[off_diagonal] == pytest.approx((bits.T @ bits)[off_diagonal], abs=1e-6)
    for item_counts, exact in ((first_counts, counts[:, None]), (second_counts, counts)):
        exact = np.broadcast_to(exact, (8, 8))
        assert item_counts[off_diagonal] == pytest.approx(exact[off_diagonal], abs=1e-6)


@pytest.mark.slow
def test_pair_counts_are_unbiased() -> None:
    rng = np.random.default_rng(2)
    truth = (rng.random((60, 6)) < 0.4).astype(int)
    flip = 0.25
    runs = []
    for _ in range(4000):
        pairs = pack(flip_bits(truth, flip, rng), flip)
        runs.append(np.vstack([pairs.estimate_shared_users(np.arange(6)), pairs.counts]))
    pair_counts, mean, error = truth.T @ truth, np.mean(runs, axis=0), np.std(runs, axis=0)
    exact = np.vstack([pair_counts, truth.sum(axis=0)]).astype(float)
    off_diagonal = ~np.eye(6, dtype=bool)
    mask = np.vstack([off_diagonal, np.ones((1, 6), dtype=bool)])
    # 36 estimates within 5 standard errors: false alarm rate about 2e-5.
    assert (np.abs(mean - exact)[mask] <= 5 * error[mask] / math.sqrt(len(runs))).all()


@pytest.mark.slow
def test_the_likeliest_shares_beat_a_general_solver() -> None:
    """Log-likelihood of four cells through the channel, maximised over the simplex."""
    rng = np.random.default_rng(4)
    flip, m = 0.3, 200
    truth = (rng.random((m, 5)) < 0.15).astype(int)
    reports = flip_bits(truth, flip, rng)
    pairs = pack(reports, flip)
    keep = np.array([[1 - flip, flip], [flip, 1 - flip]])
    channel = np.kron(keep, keep)
    pair_counts, first, second = pairs.fit_pair_counts(np.arange(5), 3000)
    n_outside = 0
    for i in range(5):
        for j in range(5):
            if i == j:
                continue
            cells = 2 * (1 - reports[:, i]) + (1 - reports[:, j])
            frequencies = np.bincount(cells, minlength=4) / m
            joint, a, b = pair_counts[i, j] / m, first[i, j] / m, second[i, j] / m
            share = np.array([joint, a - joint, b - joint, 1 - a - b + joint])
            assert share.min() >= -1e-9
            assert share.sum() == pytest.approx(1)
            n_outside += int((np.linalg.solve(channel, frequencies) < 0).any())

            def loss(theta, frequencies=frequencies):
                return -float(frequencies @ np.log(np.maximum(theta @ channel, 1e-12)))

            best = minimize(
                loss,
                np.full(4, 0.25),
                bounds=[(0, 1)] * 4,
                constraints=[{"type": "eq", "fun": lambda t: t.sum() - 1}],
                method="SLSQP",
            ).fun
            assert loss(share) <= best + 1e-5
    assert n_outside >= 3  # the constrained part was exercised


@pytest.mark.parametrize("block", [5, 2_000_000])
def test_nearest_keeps_the_most_similar_others(block: int, monkeypatch) -> None:
    monkeypatch.setattr(ranks, "BLOCK", block)
    similarity = np.random.default_rng(6).normal(size=(ITEMS, ITEMS))
    neighbours = find_nearest_items(ITEMS, 3, lambda rows: similarity[rows].copy()).toarray()
    for i, row in enumerate(similarity):
        expected = [j for j in np.argsort(-row) if j != i and row[j] > 0][:3]
        assert set(np.flatnonzero(neighbours[i])) == set(expected)
        assert neighbours[i, expected] == pytest.approx(row[expected])


@pytest.mark.parametrize("block", [20, 2_000_000])
def test_scores_are_sums_over_own_items(block: int, monkeypatch) -> None:
    monkeypatch.setattr(ranks, "BLOCK", block)
    ratings = draw_ratings(7)
    rows = binary_matrix(ratings)
    similar = find_nearest_items(
        ITEMS, 5, lambda b: np.random.default_rng(int(b[0])).random((len(b), ITEMS))
    )
    model = ItemScores(rows, similar.T.tocsr())
    dense = rows.toarray() @ similar.toarray().T
    assert predict_all(model, (USERS, ITEMS)) == pytest.approx(dense)
    assert model.predict([3, 3, 1], [0, 5, 5]) == pytest.approx(dense[[3, 3, 1], [0, 5, 5]])
