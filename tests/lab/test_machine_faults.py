"""Faults of the machine that take no second process; `make slow` has the rest."""

import pytest

pytest.importorskip("resource")

from benchmarks import faults


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return faults.Undisturbed(tmp_path_factory.mktemp("undisturbed")).path()


@pytest.mark.slow
@pytest.mark.parametrize("name", faults.DAMAGES)
def test_a_damaged_store_has_its_rows_or_says_what_is_wrong(tmp_path, sound, name):
    (row,) = faults.check_damages(tmp_path, sound, [name])
    assert row.wrong == ""
