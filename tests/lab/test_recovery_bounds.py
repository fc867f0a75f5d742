"""Theorem 3 beside practice."""

import pytest

from dpmc_lab.papers import z16 as recovery
from tests.theory.z16 import recovery_error


@pytest.fixture(scope="module", params=["modified-laplace", "randomised-response"])
def view(request):
    return request.param, recovery.measure_recovery(request.param, (0.3, 3.0, 10.0))


def test_what_is_measured_stays_within_the_theorem_and_near_the_moments(view):
    _, measured = view
    assert (measured["rho"] <= measured["theorem"]).all()
    limits = map(recovery_error, measured["rho"], measured["share"])
    assert (measured["published"] <= [*limits]).all()
    assert measured["rho"] == pytest.approx(measured["moments"], rel=0.35)
    assert list(measured["theorem"]) == sorted(measured["theorem"], reverse=True)


def test_theorem_3_assures_use_from_its_first_useful_epsilon(view):
    id, _ = view
    first = {"modified-laplace": 123, "randomised-response": 13.1}[id]  # as z16-theorem-3 says
    useful = recovery.measure_recovery(id, (0.8 * first, 1.3 * first))
    assert (useful["theorem"] >= useful["reported"]).tolist() == [True, False]
