"""The card of releases that are sampled exactly: it certifies them with the rounding in it."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter

from dpmc_core import secure
from dpmc_core.local import SymbolChannel
from dpmc_core.privacy import Gaussian, Guarantee, Laplace, RandomizedResponse, Release

# What has an exact sampler. By exact type: another kind of noise may well be a subclass.
ADDITIVE = (Laplace, Gaussian)
CHANNELS = (RandomizedResponse, SymbolChannel)


def coordinates(release: Release, observed: int) -> int:
    """How many numbers one publication has; observed: the number of ratings."""
    return math.prod(observed if n is None else n for n in release.shape)


def secured(guarantee: Guarantee, observed: int) -> Guarantee:
    """The card of the same releases, sampled by a `SecureSource`.

    Each sensitivity is raised to the one at which the release's own formula gives the epsilon, or
    mu, of the exact sampler. Between units they still convert, for k changes of a value are
    rounded no more often than one. Every release must be of a type in ADDITIVE or CHANNELS.
    """
    releases = {name: _secured(r, observed) for name, r in guarantee.releases.items()}
    return dataclasses.replace(guarantee, releases=releases)


def _secured(release: Release, observed: int) -> Release:
    count = coordinates(release, observed)
    table = {key: max(s, _raised(release, count, s)) for key, s in release.sensitivity.items()}
    return dataclasses.replace(release, sensitivity=table)


def _raised(release: Release, count: int, sensitivity: float) -> float:
    if type(release) is Laplace:
        return release.scale * secure.laplace_epsilon(release.scale, count, sensitivity)
    if type(release) is Gaussian:
        return release.scale * secure.gaussian_mu(release.scale, count, sensitivity)
    assert isinstance(release, CHANNELS)
    once = dataclasses.replace(release, times=1).epsilon(1.0)
    return sensitivity * secure.channel_epsilon(release.matrix) / once if once > 0 else sensitivity


def counted(guarantee: Guarantee, observed: int) -> Counter[tuple[str, float, int]]:
    """What a `SecureSource` may draw under the card, as its `drawn` counts it."""
    found: Counter[tuple[str, float, int]] = Counter()
    for release in guarantee.releases.values():
        count = coordinates(release, observed)
        if type(release) in ADDITIVE:
            assert isinstance(release, ADDITIVE)
            kind = "laplace" if isinstance(release, Laplace) else "gaussian"
            found[kind, release.scale, count] += release.times
        else:
            found["channel", 0.0, 1] += release.times * count
    return found
