"""Noise has the distribution its release states, fresh in every cell; planted bugs are caught."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from dpmc_core.errors import InvalidSetting
from dpmc_core.privacy import (
    RATING,
    Additive,
    Gaussian,
    Laplace,
    NormLaplace,
    RandomizedResponse,
    noise,
)
from tests.statistics_helpers import (
    assert_channel,
    assert_drawn_from,
    assert_frequencies,
    assert_independent,
    assert_norm_laplace,
    assert_release_noise,
    assert_scale,
)

Floats = NDArray[np.float64]
RNG = np.random.default_rng


def make_release(kind: type[Additive], shape: tuple[int | None, ...], scale: float) -> Any:
    return kind(query="test", shape=shape, sensitivity={RATING: 1}, scale=scale)


# Sound releases pass


@pytest.mark.parametrize("scale", [1e-6, 0.3, 40.0])
@pytest.mark.parametrize("shape", [(None,), (3, 4), (2, 2, 2), (1,)])
@pytest.mark.parametrize("kind", [Laplace, Gaussian, NormLaplace])
def test_published_noise_is_what_the_release_states(
    kind: type[Additive], shape: tuple[int | None, ...], scale: float
) -> None:
    if kind is NormLaplace and shape[-1] is None:
        shape = (None, 3)
    assert_release_noise(make_release(kind, shape, scale), RNG(11))


@pytest.mark.parametrize("kind", [Laplace, Gaussian, NormLaplace])
def test_the_scale_of_noise_is_exact(kind: type[Additive]) -> None:
    """Planted bug: 3 % short, which the distribution tests above do not see."""
    exact = make_release(kind, (40_000, 3), 2.5)
    sample = exact.publish(np.zeros((40_000, 3)), RNG(5))
    assert_scale(sample, exact)
    for planted in (0.97, 1.03):
        with pytest.raises(AssertionError, match="scale off"):
            assert_scale(planted * sample, exact)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 2, 3, 10, 50])
def test_norm_laplace_norms_and_directions(length: int) -> None:
    assert_norm_laplace(noise.draw_norm_laplace(0.7, (20_000, length), RNG(3)), 0.7)


# Symmetric matrices by their products


def make_gram_release(size: int, scale: float = 3.0) -> Gaussian:
    return make_release(Gaussian, (size, size), scale)


def return_zeros(block: Floats) -> Floats:
    return np.zeros_like(block)


@pytest.mark.slow_unless_planted
@pytest.mark.parametrize("published", [False, True])  # directions, or all of it at once
def test_products_have_the_law_of_the_whole_matrix(published: bool) -> None:
    """Three checks at a false-alarm rate of 1e-6 each."""
    rng, runs, n = RNG(3), 3000, 6
    matrices = np.empty((runs, n, n))
    for matrix in matrices:
        if published:
            times = make_gram_release(n).publish_products(return_zeros, rng)
        else:
            times = noise.SymmetricGaussian(return_zeros, n, 3.0, rng).multiply
            first = times(np.ones((n, 1)))
            times(np.hstack([first, times(first)]))  # directions that follow from the noise
        matrix[:] = times(np.eye(n))
    assert np.allclose(matrices, np.swapaxes(matrices, 1, 2), atol=1e-9)
    triangle = np.triu_indices(n)
    size = np.where(triangle[0] == triangle[1], 1.0, math.sqrt(0.5)) * 3.0
    standard = matrices[:, *triangle] / size
    assert_drawn_from(standard, stats.norm.cdf)
    assert_independent(standard)
    assert_scale(standard, make_release(Gaussian, (len(size),), 1.0))


@pytest.mark.parametrize("n_columns", [1, 3])
def test_products_that_follow_from_earlier_ones_have_the_law_of_the_ensemble(
    n_columns: int,
) -> None:
    """Lanczos numbers of the Gaussian orthogonal ensemble (Dumitriu, Edelman, "Matrix models for
    beta ensembles", 2002): on the diagonal N(0, s^2), beside it s / sqrt(2) chi of one less a step.
    Three checks at a false-alarm rate of 1e-6 each."""
    rng, n, steps, s = RNG(4), 320, 30, 3.0
    diagonal, off_diagonal, before = [], [], None
    for _ in range(20):
        times = make_gram_release(n, s).publish_products(return_zeros, rng)
        q, last, size = np.eye(n)[0], np.zeros(n), 0.0
        for _ in range(steps):
            product = times(np.column_stack([q] * n_columns))[:, -1]
            diagonal.append(float(q @ product))
            product = product - diagonal[-1] * q - size * last
            last, size = q, float(np.linalg.norm(product))
            q = product / size
            off_diagonal.append(size)
        assert np.array_equal(times(np.eye(n)[:, :1]), times(np.eye(n)[:, :1]))
        assert before is None or not np.allclose(product, before)
        before = product
    assert_drawn_from(np.array(diagonal) / s, stats.norm.cdf)
    assert_independent(np.array(diagonal).reshape(20, steps)[:, :8])
    distribution = stats.chi2(20 * sum(n - 1 - k for k in range(steps)))
    total = float((2 * np.square(off_diagonal) / s**2).sum())
    assert 2 * min(distribution.cdf(total), distribution.sf(total)) >= 1e-6


def test_products_add_the_noise_to_the_private_ones_and_refuse_what_is_not_finite() -> None:
    n = 310
    private = np.diag(np.arange(float(n)))
    noisy = make_gram_release(n).publish_products(private.__matmul__, RNG(1))(np.eye(n))
    noise_only = make_gram_release(n).publish_products(return_zeros, RNG(1))(np.eye(n))
    assert np.allclose(noisy - noise_only, private)
    with pytest.raises(InvalidSetting, match="finite"):
        make_gram_release(n).publish_products(lambda block: block * np.nan, RNG(1))(np.eye(n, 1))


@pytest.mark.parametrize("e", [float(f"{lead}e{ten}") for ten in range(-14, 0) for lead in (1, 9)])
def test_no_difference_of_two_products_is_without_noise(e: float) -> None:
    """(t(q + e p) - t(q)) / e is the private product A p with fresh noise, or none of it.

    What it leaves of A p has at least 0.8 of the noise's standard deviation, which 310 draws fall
    short of with a chance below 1e-6. Answers are those of one matrix, whatever the distance.
    """
    n, s = 310, 3.0
    basis = np.linalg.qr(RNG(5).normal(size=(n, 4)))[0]
    private = (basis * [1e3, 4e2, -5e2, 2e2]) @ basis.T
    q, p = (basis @ np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 1.0], [1.0, -1.0]]) / 2).T[:, :, None]
    times = make_gram_release(n, s).publish_products(private.__matmul__, RNG(6))
    first, shifted = times(q), times(q + e * p)
    left = (shifted - first) / e - private @ p
    assert np.sqrt(np.mean(left**2)) >= 0.8 * s / math.sqrt(2)
    assert np.abs(shifted - first - e * times(p)).max() <= 1e-6


def test_a_mirrored_triangle_has_the_noise_of_that_triangle() -> None:
    n = 5
    matrix = make_gram_release(n).publish(np.zeros((n, n)), RNG(2))
    products = make_gram_release(n).publish_products(return_zeros, RNG(2), mirrored=True)(np.eye(n))
    assert np.array_equal(np.triu(products), np.triu(matrix))
    assert np.array_equal(products, products.T)


def test_publishing_leaves_the_value_and_the_global_generator_alone() -> None:
    np.random.seed(5)  # noqa: NPY002 - the legacy global state is what must not move
    before = np.random.get_state()[1].copy()  # type: ignore[index] # noqa: NPY002
    value = np.ones((4, 4))
    for kind in (Laplace, Gaussian, NormLaplace):
        make_release(kind, (4, 4), 1.0).publish(value, RNG(0))
    np.testing.assert_array_equal(value, np.ones((4, 4)))
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # type: ignore[index] # noqa: NPY002


# Planted bugs are caught


class HalvedLaplace(Laplace):
    def _draw_noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return rng.laplace(0.0, self.scale / 2, shape)


class TenPercentShort(Gaussian):
    def _draw_noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return rng.normal(0.0, 0.9 * self.scale, shape)


class OneDrawForAll(Laplace):
    def _draw_noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return np.full(shape, float(rng.laplace(0.0, self.scale)))


class OneDrawPerRow(Gaussian):
    def _draw_noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return np.broadcast_to(rng.normal(0.0, self.scale, (*shape[:-1], 1)), shape)


class SameNoiseEveryTime(Laplace):
    def _draw_noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:  # noqa: ARG002
        return RNG(0).laplace(0.0, self.scale, shape)


class NoNoiseInOneCellOfAThousand(Laplace):
    def _draw_noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        sample = rng.laplace(0.0, self.scale, shape)
        return np.where(rng.random(shape) < 0.001, 0.0, sample)


class GaussianInsteadOfLaplace(Laplace):
    def _draw_noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return rng.normal(0.0, self.scale * math.sqrt(2), shape)


class CoordinateLaplaceForNormLaplace(NormLaplace):
    def _draw_noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return rng.laplace(0.0, self.scale, shape)


class NormOfTheWrongShape(NormLaplace):
    def _draw_noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        rows = noise.draw_norm_laplace(self.scale, shape, rng)
        norms = np.linalg.norm(rows, axis=-1, keepdims=True)
        return rows / norms * rng.exponential(self.scale * shape[-1], norms.shape)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bug",
    [
        HalvedLaplace,
        TenPercentShort,
        OneDrawForAll,
        OneDrawPerRow,
        SameNoiseEveryTime,
        NoNoiseInOneCellOfAThousand,
        GaussianInsteadOfLaplace,
        CoordinateLaplaceForNormLaplace,
        NormOfTheWrongShape,
    ],
)
def test_planted_bugs_fail(bug: type[Additive]) -> None:
    with pytest.raises(AssertionError):
        assert_release_noise(make_release(bug, (3, 4), 0.3), RNG(11))


# Densities


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_densities_are_those_of_scipy(scale: float) -> None:
    x = np.linspace(-8 * scale, 8 * scale, 101)
    for density, expected in (
        (make_release(Laplace, (1,), scale).density(x), stats.laplace(scale=scale).pdf(x)),
        (make_release(Gaussian, (1,), scale).density(x), stats.norm(scale=scale).pdf(x)),
        (make_release(NormLaplace, (1,), scale).density(x), stats.laplace(scale=scale).pdf(x)),
    ):
        np.testing.assert_allclose(density, expected, rtol=1e-10)


@pytest.mark.parametrize("shape", [(None, 1), (4, 3), (2, 10)])
@pytest.mark.parametrize("kind", [Laplace, Gaussian, NormLaplace])
def test_std_is_the_standard_deviation_of_the_density(
    kind: type[Additive], shape: tuple[int | None, ...]
) -> None:
    """For NormLaplace, E||b||^2 = scale^2 d (d + 1) is shared evenly by d coordinates."""
    release = make_release(kind, shape, 0.7)
    x = np.linspace(0, 60 * 0.7, 20_001)
    variance = 2 * integrate.simpson(x**2 * release.density(x), x=x)
    assert release.std == pytest.approx(math.sqrt(variance), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("length", [2, 3, 10, 100, 400])
def test_norm_laplace_density_is_that_of_one_coordinate(length: int) -> None:
    scale = 0.7
    r = make_release(NormLaplace, (5, length), scale)
    reach = 60 * scale * math.sqrt(length)
    moment = [
        2 * integrate.quad(lambda x, k=k: x**k * r.density(x), 0, reach, limit=500)[0]
        for k in (0, 2)
    ]
    # E||b||^2 = scale^2 d (d + 1), shared evenly by d coordinates.
    assert moment == pytest.approx([1.0, scale**2 * (length + 1)], rel=1e-6)
    assert (np.diff(r.density(np.linspace(0, reach, 1000))) <= 0).all()
    grid = np.linspace(-reach, reach, 20_001)
    cdf = integrate.cumulative_simpson(r.density(grid), x=grid, initial=0)
    draws = r.sample(20_000, RNG(9))
    assert_drawn_from(draws, lambda x: np.interp(x, grid, cdf))


def test_sample_draws_one_coordinate() -> None:
    assert_drawn_from(
        make_release(Laplace, (7, 7), 2.0).sample(20_000, RNG(1)), stats.laplace(scale=2).cdf
    )
    assert_drawn_from(
        make_release(Gaussian, (None,), 2.0).sample(20_000, RNG(1)), stats.norm(scale=2).cdf
    )


# Channels


def make_response(channel: Any, shape: tuple[int | None, ...] = (None,)) -> RandomizedResponse:
    return RandomizedResponse(query="symbol", shape=shape, sensitivity={RATING: 1}, channel=channel)


CHANNELS = {
    "symmetric flip": ((0.7, 0.3), (0.3, 0.7)),
    "asymmetric flip": ((0.1, 0.9), (0.5, 0.5)),
    "six-ary response": tuple(tuple(0.5 if a == o else 0.1 for o in range(6)) for a in range(6)),
    "not square, with zeros": ((0.5, 0.0, 0.25, 0.25), (0.0, 0.2, 0.8, 0.0)),
    "identity": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
}


@pytest.mark.parametrize("name", CHANNELS)
def test_every_symbol_meets_its_row_of_the_channel(name: str) -> None:
    assert_channel(make_response(CHANNELS[name]), RNG(4))


def test_flips_three_percent_too_rare_are_seen() -> None:
    """400,000 symbols: 3 % of a chance of 0.27 are 11 standard deviations."""
    flip = 1 / (1 + math.e)
    correct = make_response(((1 - flip, flip), (flip, 1 - flip)))
    assert_channel(correct, RNG(6), per_symbol=400_000)
    rare = 0.97 * flip
    with pytest.raises(AssertionError):
        assert_frequencies([400_000 * rare, 400_000 * (1 - rare)], [flip, 1 - flip])


@pytest.mark.parametrize("uniform", [0.0, np.nextafter(1.0, 0.0)])
def test_the_ends_of_the_unit_interval_reach_no_impossible_output(uniform: float) -> None:
    class Stuck(np.random.Generator):
        def random(self, size: Any = None, *_: Any, **__: Any) -> Any:
            return np.full(size, uniform)

    tenths = (0.0, *[0.1] * 10, 0.0)  # adds up to 1 - 1e-16 in floats
    assert sum(tenths) < 1
    channel = make_response((tenths,))
    published = channel.publish([0, 0, 0], Stuck(np.random.PCG64(0)))
    assert ((published >= 1) & (published <= 10)).all()


class NextToOneEnd(np.random.Generator):
    """Uniform draws from the first or last `cells` multiples of 2^-53 alone."""

    end, cells = 0, 64

    def random(self, size: Any = None, *_: Any, **__: Any) -> Any:
        offset = self.integers(0, self.cells, size) * 2.0**-53
        return 1 - 2.0**-53 - offset if self.end else offset


@pytest.mark.parametrize(
    ("epsilon", "dtype"),
    [(34.0, np.int64), (36.0, np.int64), (40.0, np.int64), (45.0, np.int64), (45.0, np.uint8)],
)
@pytest.mark.parametrize("symbol", [0, 1])
def test_flips_far_rarer_than_a_uniform_draw_resolves_still_happen(
    epsilon: float, dtype: type[np.integer[Any]], symbol: int
) -> None:
    """Given a draw among the 2^-53 cells at the flip's end, the flip's chance is flip / share.

    Planted bug: comparing plain draws, which flips 0 never from epsilon = 37 on, and at 36 a sixth
    too often or too seldom.
    """
    flip = 1 / (1 + math.exp(epsilon))
    channel = make_response(((1 - flip, flip), (flip, 1 - flip)))
    rng = NextToOneEnd(np.random.PCG64(int(epsilon)))
    # A byte that may flip is looked up in the row of a 0.
    rng.end, rng.cells = 1 if dtype is np.uint8 else 1 - symbol, 1 if epsilon > 38 else 64
    chance = flip / (rng.cells * 2.0**-53)
    published = channel.publish(np.full(400_000, symbol, dtype), rng)
    flipped = int((published != symbol).sum())
    assert_frequencies([flipped, 400_000 - flipped], [chance, 1 - chance])


def test_ordinary_draws_of_a_channel_are_those_of_the_inverse_transform() -> None:
    """The finer ends use up no randomness where no draw comes near them."""
    matrix = np.array(CHANNELS["six-ary response"])
    symbols = RNG(2).integers(0, 6, 5000)
    expected, rng = np.empty_like(symbols), RNG(3)
    for a in range(6):
        mask = symbols == a
        expected[mask] = np.searchsorted(np.cumsum(matrix[a])[:-1], rng.random(mask.sum()), "right")
    np.testing.assert_array_equal(noise.pass_channel(matrix, symbols, RNG(3)), expected)


@pytest.mark.parametrize("symbols", [[0, 1, 2], [-1, 1], [0.0, 0.5], [math.nan, 1.0]], ids=str)
def test_symbols_outside_the_alphabet_are_refused(symbols: Any) -> None:
    """Signs -1/+1 in place of symbols 0/1 must not slip through as whatever memory held."""
    with pytest.raises(InvalidSetting, match=r"symbols of 'symbol' must be integers 0\.\.1, got"):
        make_response(CHANNELS["symmetric flip"]).publish(symbols, RNG(0))


class FlipsInPairs(RandomizedResponse):
    def publish(self, value: Any, rng: np.random.Generator) -> NDArray[np.int64]:
        array = np.asarray(value)
        flips = np.repeat(rng.random(len(array) // 2) < self.matrix[0, 1], 2)
        return np.where(flips, 1 - array, array)


class FlipsTooRarely(RandomizedResponse):
    def publish(self, value: Any, rng: np.random.Generator) -> NDArray[np.int64]:
        short = 0.9 * self.matrix + 0.1 * np.eye(len(self.matrix))
        return noise.pass_channel(short, np.asarray(value), rng)


class OneFlipForAll(RandomizedResponse):
    def publish(self, value: Any, rng: np.random.Generator) -> NDArray[np.int64]:
        array = np.asarray(value)
        return np.where(rng.random() < self.matrix[0, 1], 1 - array, array)


@pytest.mark.parametrize("bug", [FlipsTooRarely, OneFlipForAll, FlipsInPairs])
def test_planted_channel_bugs_fail(bug: type[RandomizedResponse]) -> None:
    planted = bug(
        query="symbol", shape=(None,), sensitivity={RATING: 1}, channel=CHANNELS["symmetric flip"]
    )
    with pytest.raises(AssertionError):
        assert_channel(planted, RNG(4))
