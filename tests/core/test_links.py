"""Links: stable far in the tails, derivatives right, the steepness figures of the paper."""

import mpmath
import numpy as np
import pytest

from dpmc_core.links import LOGISTIC, Probit, steepness

LINKS = [LOGISTIC, Probit(), Probit(0.3), Probit(7.0)]


@pytest.mark.parametrize("link", LINKS, ids=str)
def test_finite_and_warning_free_up_to_a_thousand(link):
    x = np.array([-1e3, -40.0, -1.0, 0.0, 1.0, 40.0, 1e3])
    with np.errstate(all="raise", under="ignore"):
        for f in (link.probability, link.log_probability, link.density, link.score):
            assert np.isfinite(f(x)).all()


@pytest.mark.parametrize("link", LINKS, ids=str)
def test_derivatives_by_differences(link):
    x, step = np.linspace(-6, 6, 41), 1e-5
    slope = (link.probability(x + step) - link.probability(x - step)) / (2 * step)
    assert np.allclose(link.density(x), slope, atol=1e-8)
    log_slope = (link.log_probability(x + step) - link.log_probability(x - step)) / (2 * step)
    assert np.allclose(link.score(x), log_slope, rtol=1e-5, atol=1e-8)
    assert np.allclose(link.probability(x) + link.probability(-x), 1)


@pytest.mark.parametrize("x", [-30.0, -5.0, 0.5, 8.0])
def test_probit_against_high_precision(x):
    with mpmath.workdps(60):
        cdf, pdf = mpmath.ncdf(x), mpmath.npdf(x)
        assert Probit().score(np.array(x)) == pytest.approx(float(pdf / cdf), rel=1e-12)
        assert Probit().log_probability(np.array(x)) == pytest.approx(
            float(mpmath.log(cdf)), rel=1e-12
        )


def test_steepness_is_the_supremum_on_a_fine_grid():
    assert steepness(LOGISTIC, 5.0) == pytest.approx(1.0)
    for link, bound in ((Probit(), 1.0), (Probit(0.5), 2.0), (Probit(3.0), 0.1)):
        x = np.linspace(-bound, bound, 20_001)
        h = link.probability(x)
        grid = (link.density(x) / (h * (1 - h))).max()
        assert steepness(link, bound) == pytest.approx(grid, rel=1e-9)
    assert steepness(Probit(), 1.0) == pytest.approx(1.8127, abs=1e-3)
