"""The contract that every mechanism keeps, for tests of your own.

from dpmc_lab.testing import check_mechanism

def test_my_method():
    check_mechanism(MyMethod)
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from dpmc_core import registry
from dpmc_core.arrays import AnyArray, FactorAxis, Floats, ItemAxis, UserAxis
from dpmc_core.errors import InvalidSetting
from dpmc_core.model import Mechanism, Step, Task
from dpmc_core.privacy import (
    Additive,
    Change,
    Guarantee,
    ModifiedLaplace,
    Notion,
    Publication,
    SampledLaplace,
    record_publications,
)
from dpmc_core.problem import prepare_all_ratings
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import format_setting, list_settings, parse_setting

USERS, ITEMS = 24, 16
_HUGE_EPSILON, _TOLERANCE = 1e5, 0.05
_AMPLIFICATION = 1000  # of the noise, which a fit must then show
# Two of 60,000 independent numbers are so near each other with a chance below 2e-4.
MIN_DISTANCE = 1e-13
_NO_SETTINGS: Mapping[str, Any] = MappingProxyType({})


class _Run(NamedTuple):
    steps: list[Step]
    publications: list[Publication]
    is_early: bool  # whether there was a model before any release

    @property
    def predictions(self) -> Floats:
        model = self.steps[-1].model
        assert model is not None, "the last step must have a model"
        return model.predict(np.arange(USERS)[:, None], np.arange(ITEMS))


def check_mechanism(
    cls: type[Mechanism],
    *,
    settings: Mapping[str, Any] = _NO_SETTINGS,
    counterpart: Mapping[str, Any] = _NO_SETTINGS,
    limit: Mapping[str, Any] | None = _NO_SETTINGS,
) -> None:
    """Check that a mechanism keeps the contract on which commands, pages and releases rely.

    A class that is not registered yet is registered.

    Args:
        cls: the class of the mechanism.
        settings: settings of the mechanism in all checks but the last.
        counterpart: settings with which its nonprivate counterpart solves the same problem.
        limit: settings with which it meets its counterpart at a huge epsilon (such as more rounds,
            or a larger clip); None if it cannot meet it.

    Raises:
        AssertionError: if the contract is broken, with a sentence.
        DpmcError: if the class does not have the form of a mechanism (see
            `registry.add_mechanisms`).
    """
    contract = Contract(cls, settings, counterpart, limit)
    for check in CHECKS:
        getattr(contract, check)()


def sample_ratings(task: Task, seed: int = 7) -> Ratings:
    """Draw 24 x 16 ratings of rank 2 with noise, about 60 % of them observed."""
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((USERS, ITEMS)) < 0.6)
    low_rank = rng.normal(size=(USERS, 2)) @ rng.normal(size=(2, ITEMS))
    signal = low_rank[users, items] + 0.3 * rng.normal(size=len(users))
    public = PublicFacts(users=USERS, items=ITEMS, low=1, high=5)
    ratings = Ratings.build(users, items, np.clip(3 + signal, 1, 5), public)
    return prepare_all_ratings(ratings, task)[0]


def find_least_distance(publications: list[Publication]) -> float:
    """Return the least difference of the sizes of two numbers of noise: 0 if one serves twice.

    The noise is additive, and in units of its scale.
    """
    noise = [
        ((p.published - p.private) / p.release.scale).ravel()
        for p in publications
        if isinstance(p.release, Additive)
    ]
    sizes = np.abs(np.concatenate([np.empty(0), *noise]))
    return float(np.diff(np.sort(sizes)).min(initial=np.inf))


@dataclass
class Contract:
    """The checks of `check_mechanism`, one method each, for a mechanism with some settings."""

    cls: type[Mechanism]
    settings: Mapping[str, Any]
    counterpart: Mapping[str, Any]
    limit: Mapping[str, Any] | None

    def __post_init__(self) -> None:
        if self.cls not in registry.MECHANISMS.values():
            registry.add_mechanisms(self.cls)
        self.is_private = registry.adds_noise(self.cls)
        self.ratings = sample_ratings(self.cls.task)

    def create(self, **changes: Any) -> Any:
        """Create the mechanism with its settings and some changes."""
        budget = {"epsilon": 1.0, "delta": 1e-6}
        return registry.create(self.cls.id, **{**budget, **self.settings, **changes})

    def fit(self, mechanism: Mechanism, seed: int = 0) -> _Run:
        """Fit a mechanism, and collect its steps and what it publishes."""
        steps, is_early = [], False
        with record_publications() as publications:
            for step in mechanism.fit(self.ratings, np.random.default_rng(seed)):
                is_early |= step.build is not None and not publications
                steps.append(step)
        return _Run(steps, publications, is_early)

    @cached_property
    def runs(self) -> tuple[_Run, _Run]:
        """Two fits, with the seeds 0 and 1."""
        return self.fit(self.create()), self.fit(self.create(), seed=1)

    @cached_property
    def guarantee(self) -> Guarantee:
        """The guarantee on the ratings' public facts."""
        guarantee: Guarantee = self.create().guarantee(self.ratings.public)
        return guarantee

    def check_settings(self) -> None:
        """Settings have a help and a text form, and an impossible epsilon is refused."""
        mechanism = self.create()
        assert self.cls.__doc__, "the class needs a docstring"
        for s in list_settings(self.cls):
            value = getattr(mechanism, s.name)
            text = format_setting(value)
            assert parse_setting(self.cls, s.name, text) == value, f"{s.name}={text} is not read"
            assert s.info.help, f"the setting {s.name} needs a help"
        for epsilon in (0, -1, float("nan"), float("inf"), "much") if self.is_private else ():
            try:
                type(mechanism)(epsilon=epsilon)
            except InvalidSetting:
                continue
            raise AssertionError(f"epsilon {epsilon} must be refused")

    def check_seeds(self) -> None:
        """The seed alone decides the result; other randomness and the ratings stay untouched."""
        first = self.runs[0].predictions

        def read_global_states() -> str:
            return f"{np.random.get_state()} {random.getstate()}"  # noqa: NPY002

        states = read_global_states()
        assert np.array_equal(first, self.fit(self.create()).predictions), "one seed, two results"
        assert states == read_global_states(), "draw from `rng` alone, not from global randomness"
        if self.is_private:
            assert not np.array_equal(first, self.runs[1].predictions), "two seeds, one result"
        used, fresh = replace(self.ratings), sample_ratings(self.cls.task)  # nothing is cached
        assert used.fingerprint == fresh.fingerprint, "a fit must not change the ratings"

    def check_steps(self) -> None:
        """Steps count up to what they announce, and the last model predicts finite numbers."""
        run = self.runs[0]
        *_, last = steps = run.steps
        assert [s.index for s in steps] == [*range(1, len(steps) + 1)], "steps count from 1"
        assert {s.total for s in steps} == {last.total}, "all steps announce one total"
        assert last.final or last.index == last.total, "the last step is final or the total"
        assert not any(s.final for s in steps[:-1]), "only the last step is final"
        assert all(s.raw <= {*s.trace} for s in steps), "`raw` names numbers of `trace`"
        assert not (self.is_private and run.is_early), "no model before the noise"
        assert run.predictions.shape == (USERS, ITEMS), "one prediction per user and item"
        assert np.isfinite(run.predictions).all(), "predictions are finite"

    def check_publications(self) -> None:
        """What is published are the releases of the guarantee, as often as they say."""
        expected = [r for _, r in self.guarantee.releases for _ in range(r.times)]
        for publication in self.runs[0].publications:
            release = publication.release
            assert release in expected, f"not in the guarantee, or too often: {release}"
            expected.remove(release)
        assert not expected, f"in the guarantee, and never published: {expected}"

    def check_axes(self) -> None:
        """Releases name their axes of users, items and factors, whatever the lengths."""
        # Of two numbers of users and items, no other axis happens to have the same two lengths.
        sizes = (61, 59), (67, 71), (53, 53)
        facts = [replace(self.ratings.public, users=m, items=n) for m, n in sizes]
        mechanism = self.create()
        shapes = [[r.shape for _, r in mechanism.guarantee(public).releases] for public in facts]
        names = {(61, 67): UserAxis, (59, 71): ItemAxis, (None, None): type(None)}
        for shape in zip(*shapes, strict=True):
            for lengths in zip(*shape, strict=True):
                (axis,) = {type(length) for length in lengths}
                expected = names.get(lengths[:2], axis if axis in (int, FactorAxis) else int)
                assert axis is expected, (
                    f"the axis of lengths {lengths} must be {expected.__name__}"
                )
                if axis is FactorAxis:
                    assert {*lengths} == {mechanism.rank}, "a FactorAxis is as long as the rank"

    def check_fresh_noise(self) -> None:
        """No two numbers, rounds or runs share their noise."""
        publications = self.runs[0].publications + self.runs[1].publications
        assert find_least_distance(publications) > MIN_DISTANCE, "one draw of noise serves twice"

    def check_certified(self) -> None:
        """What is certified is finite or says why, grows with epsilon, and noise shrinks."""
        guarantee = self.guarantee
        for change in Change:
            proved = guarantee.certified(change)
            assert proved.finite or proved.reason, f"say why nothing is certified {change.label}"
            assert proved.epsilon >= 0, "a certified epsilon is at least 0"
        assert guarantee.source, "name the source of the claim"
        states = guarantee.claimed is not None, guarantee.notion is not Notion.NONE
        assert states == (self.is_private,) * 2, "a claim and its notion go with an epsilon"
        assert self.is_private or guarantee.unaccounted, "list what no noise covers"
        if not self.is_private:
            return
        mechanisms = [self.create(epsilon=epsilon) for epsilon in (0.5, 1.0, 4.0)]
        guarantees = [m.guarantee(self.ratings.public) for m in mechanisms]
        certified = [g.certified().epsilon for g in guarantees]
        assert certified == sorted(certified), "what is certified grows with epsilon"
        for versions in zip(*(g.releases for g in guarantees), strict=True):
            scales = [getattr(release, "scale", 0.0) for _, release in versions]
            assert scales == sorted(scales, reverse=True), "noise shrinks as epsilon grows"

    def check_noise_of_releases(self) -> None:
        """A fit draws the noise of its guarantee: with louder releases it is as much louder."""
        if not self.is_private:
            return
        mechanism, original = self.create(), self.cls.guarantee

        def amplify(own: Mechanism, public: PublicFacts) -> Guarantee:
            guarantee = original(own, public)
            return replace(guarantee, releases=guarantee.releases.map_releases(_amplify_noise))

        first = _get_first_noise(self.runs[0])
        with mock.patch.object(self.cls, "guarantee", amplify):
            second = _get_first_noise(self.fit(mechanism))
        if isinstance(self.runs[0].publications[0].release, Additive):
            is_amplified = np.allclose(second, _AMPLIFICATION * first, rtol=1e-6)
        else:  # a channel publishes what is true then
            is_amplified = bool(np.any(first) and np.abs(second).max() <= 1e-4)
        assert is_amplified, "the noise must come from the releases of `self.guarantee`"

    def check_limit(self) -> None:
        """At a huge epsilon the mechanism meets its nonprivate counterpart."""
        if not self.is_private or self.limit is None:
            return
        mechanism = self.create(**{"epsilon": _HUGE_EPSILON, **self.limit})
        id = mechanism.nonprivate_counterpart
        shared = {
            name: getattr(mechanism, name)
            for name in ("link", "radius")
            if registry.has_setting(registry.get_mechanism(id), name) and hasattr(mechanism, name)
        }
        expected = self.fit(registry.create(id, **shared | dict(self.counterpart))).predictions
        distance = np.linalg.norm(self.fit(mechanism).predictions - expected)
        assert distance <= _TOLERANCE * np.linalg.norm(expected), (
            f"at epsilon {_HUGE_EPSILON:g} it differs from {id}: give the settings with which it"
            " does not in limit= and counterpart=, or limit=None"
        )


CHECKS = tuple(name for name in vars(Contract) if name.startswith("check_"))


def _get_first_noise(run: _Run) -> AnyArray:
    """Return what the first publication adds to its private value."""
    change = run.publications[0].published - run.publications[0].private
    return np.asarray(change.toarray() if hasattr(change, "toarray") else change)  # sparse rows


def _amplify_noise(release: Any) -> Any:
    """Return a release with a thousandfold noise; a channel becomes the silent one."""
    if isinstance(release, SampledLaplace):  # the same weights
        release = replace(release, budget=release.budget / _AMPLIFICATION)
    if isinstance(release, Additive):
        return replace(release, scale=_AMPLIFICATION * release.scale)
    if isinstance(release, ModifiedLaplace):
        return replace(release, flip=1e-9, scale=1e-6)
    return replace(release, channel=tuple(map(tuple, np.eye(len(release.channel)).tolist())))
