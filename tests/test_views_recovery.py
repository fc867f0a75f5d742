"""Theorem 3 beside practice: the picture's numbers, its words and its chart."""

import pytest

from dpmc_core.errors import InvalidSetting
from dpmc_core.views import recovery
from pages.ui import charts
from pages.ui.charts import noise as charts_noise


@pytest.fixture(scope="module", params=["modified-laplace", "randomised-response"])
def view(request):
    return request.param, recovery.bounds(request.param, (0.3, 3.0, 10.0))


def test_what_is_measured_stays_within_the_theorem_and_near_the_moments(view):
    _, found = view
    assert (found.rho <= found.theorem).all()
    assert (found.debiased <= found.equation_5).all()
    assert found.rho == pytest.approx(found.moments, rel=0.35)
    assert list(found.theorem) == sorted(found.theorem, reverse=True)


def test_allowing_for_spurious_cells_is_no_worse_where_they_drown_the_rest(view):
    _, found = view
    assert found.debiased[1] < found.naive[1]


def test_the_papers_rule_keeps_nothing_below_its_first_useful_epsilon(view):
    id, found = view
    assert recovery.rule_is_void(found).all()
    assert (found.kept < 1e-2).all()
    first = recovery.first_useful(id)
    useful = recovery.bounds(id, (0.8 * first, 1.3 * first))
    assert recovery.rule_is_void(useful).tolist() == [True, False]
    assert useful.kept[0] < 1e-2 < useful.kept[1]


def test_words_and_tables_tell_the_same_numbers(view):
    id, found = view
    assert "At epsilon 3 per cell" in recovery.words(found, 2.5)
    for epsilon, void in zip(found.epsilon, recovery.rule_is_void(found), strict=True):
        assert ("zero matrix" in recovery.words(found, epsilon)) == void
    table = recovery.table(found)
    assert {len(column) for column in table.values()} == {3}
    for draw in (charts_noise.residual, charts_noise.error):
        assert len(draw(id, found, 3.0, charts.DARK).data) == 3


def test_another_mechanism_is_refused():
    with pytest.raises(InvalidSetting, match="one that collects whole rows"):
        recovery.bounds("dpmf", (1.0,))
