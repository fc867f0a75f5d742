"""Ids, nearest names, and what `create` passes on."""

import pytest

from dpmc_core import registry
from dpmc_core.errors import InvalidSetting
from dpmc_core.mechanisms.one_bit import InputFlip
from dpmc_core.mechanisms.plain import MaximumLikelihood


def test_an_unknown_id_comes_with_the_nearest_names():
    with pytest.raises(InvalidSetting, match="did you mean input-flip") as caught:
        registry.get_mechanism("input-flop")
    assert "'input-flop'" in str(caught.value)
    with pytest.raises(InvalidSetting, match="did you mean objective or objective-statistic"):
        registry.get_mechanism("Objective-")


def test_create_passes_epsilon_only_where_it_means_something():
    assert registry.create("input-flip", epsilon=2.0) == InputFlip(epsilon=2.0)
    assert registry.create("clear", epsilon=2.0, delta=1e-6) == MaximumLikelihood()


def test_an_unknown_setting_is_named_with_the_nearest():
    with pytest.raises(InvalidSetting, match="did you mean radius"):
        registry.create("clear", radios=0.5)


def test_text_is_only_where_a_method_is_looked_for_first(monkeypatch):
    """An archive may hold no source, and a file may name an id that another one has."""

    def without(*_):
        raise OSError

    for get_data in (without, lambda *_: None, lambda *_: b'id = "input-flip"'):
        monkeypatch.setattr(registry.pkgutil, "get_data", get_data)
        fresh = registry._Mechanisms(registry._find_in_files)
        assert fresh["input-flip"] is registry.get_mechanism("input-flip")
        assert "input-flop" not in fresh
        assert list(fresh) == list(registry.MECHANISMS)
