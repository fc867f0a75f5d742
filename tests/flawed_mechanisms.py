"""Faults planted in a copy of a mechanism, to see whether an audit notices.

The copy shows the honest card and draws other noise, or clips nothing. It is of a class of its own
that no id names, and `release.check` refuses it for that.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.arrays import JsonObject
from dpmc_core.errors import CannotRelease, InvalidSetting
from dpmc_core.model import Mechanism
from dpmc_core.privacy import (
    Additive,
    Guarantee,
    ModifiedLaplace,
    NormLaplace,
    RandomizedResponse,
    Release,
    SymbolChannel,
)
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import list_settings

# Settings that bound what a rating or a row adds to an answer. Output perturbation's bound is none:
# what its card counts is the width of all matrices that it may publish.
_CLIPS = (
    *("clamp", "clip", "clip_l2", "contributions", "factor_clip"),
    *("residual", "residual_clip"),
)


class PlantedFault(enum.Enum):
    """What is wrong with the copy."""

    HALVED = "halved"
    SHARED = "shared"
    UNCLIPPED = "unclipped"


def list_faults(mechanism: Mechanism, public: PublicFacts) -> tuple[PlantedFault, ...]:
    """The faults that change anything in a mechanism on these public facts.

    Noise is halved where every release can be; one draw for all needs an answer of several numbers;
    a clip can be forgotten where a sensitivity, and with it something certified, rests on it.
    """
    guarantee = mechanism.guarantee(public)
    releases = [release for _, release in guarantee.releases]
    faults = []
    if all(map(_halve_noise, releases)):
        faults.append(PlantedFault.HALVED)
    if any(_share_noise(release) and release.shape != () for release in releases):
        faults.append(PlantedFault.SHARED)
    loose = [release for _, release in _without_clips(mechanism).guarantee(public).releases]
    if guarantee.certified().finite and any(
        loose_release.sensitivity.get(change, sensitivity) > sensitivity * (1 + 1e-9)
        for release, loose_release in zip(releases, loose, strict=False)
        for change, sensitivity in release.sensitivity.items()
    ):
        faults.append(PlantedFault.UNCLIPPED)
    return tuple(faults)


def plant_fault(mechanism: Mechanism, fault: PlantedFault, public: PublicFacts) -> Mechanism:
    """A copy with the fault, whose card stays the honest one.

    Raises InvalidSetting where the fault would change nothing on these public facts.
    """
    apply = list_faults(mechanism, public)
    if fault not in apply:
        names = " or ".join(f.value for f in apply) or "left out"
        raise InvalidSetting(f"the fault in {mechanism.id}", names, fault.value)

    def faulty(release: Release) -> Any:
        """The same record, which publishes with other noise."""
        methods = _halve_noise(release) if fault is PlantedFault.HALVED else _share_noise(release)
        return _copy_with_methods(release, fault, methods) if methods else release

    def guarantee(_: Mechanism, public: PublicFacts) -> Guarantee:
        guarantee = mechanism.guarantee(public)
        if fault is PlantedFault.UNCLIPPED:
            return guarantee
        return dataclasses.replace(guarantee, releases=guarantee.releases.map_releases(faulty))

    like = _without_clips(mechanism) if fault is PlantedFault.UNCLIPPED else mechanism
    copy: Mechanism = _copy_with_methods(like, fault, {"guarantee": guarantee})
    return copy


def _without_clips(mechanism: Mechanism) -> Mechanism:
    """The mechanism with every clip as wide as it can be set."""
    return dataclasses.replace(
        mechanism,  # type: ignore[type-var]
        **{
            s.name: s.type(s.info.at_most)
            for s in list_settings(type(mechanism))
            if s.name in _CLIPS and s.info.at_most and getattr(mechanism, s.name) is not None
        },
    )


def _halve_noise(release: Release) -> JsonObject:
    """The methods of a release that draw half its noise; none where nobody knows how."""
    if isinstance(release, Additive):
        return {
            "_draw_noise": lambda _, shape, rng: 0.5 * release._draw_noise(shape, rng),
            "_add_exact_noise": _refuse_release,
        }
    less: Any
    if isinstance(release, ModifiedLaplace):
        less = dataclasses.replace(release, flip=release.flip / 2, scale=release.scale / 2)
    elif isinstance(release, RandomizedResponse | SymbolChannel):
        half = 0.5 * (release.matrix + np.eye(len(release.matrix)))
        less = dataclasses.replace(release, channel=tuple(map(tuple, half.tolist())))
    else:
        return {}
    names = (
        ("_randomise",)
        if isinstance(release, RandomizedResponse)
        else ("_report_rated", "_report_missing")
    )
    return {name: getattr(less, name) for name in names}


def _share_noise(release: Release) -> JsonObject:
    """The methods of a release that draw once for a whole answer; none where that is not known."""
    if isinstance(release, Additive):

        def noise(_: Release, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
            row_shape = (
                (1,) * (len(shape) - 1) + shape[-1:] if isinstance(release, NormLaplace) else ()
            )
            return np.broadcast_to(release._draw_noise(row_shape, rng), shape)

        return {"_draw_noise": noise, "_add_exact_noise": _refuse_release}
    if isinstance(release, RandomizedResponse):

        def passed(_: Release, symbols: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
            draw = rng.random()
            answers = [int(np.searchsorted(np.cumsum(row)[:-1], draw)) for row in release.matrix]
            reported: NDArray[Any] = np.array(answers, dtype=symbols.dtype)[symbols]
            return reported

        return {"_randomise": passed}
    return {}


def _refuse_release(*_: Any) -> Any:
    raise CannotRelease("this noise has a planted fault: for audits only")


def _copy_with_methods(original: Any, fault: PlantedFault, methods: JsonObject) -> Any:
    """A copy of a class of its own with other methods, which is not validated again."""
    kind = type(original)
    copy: Any = object.__new__(type(f"{fault.name.title()}{kind.__name__}", (kind,), methods))
    copy.__dict__.update(original.__dict__)
    return copy
