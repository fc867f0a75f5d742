"""Pictures of the channels that randomise whole rows, missing cells included."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from dpmc_core.privacy import Laplace, LocalChannel, ModifiedLaplace, SymbolChannel

Floats = NDArray[np.float64]


def size(release: LocalChannel) -> tuple[str, float]:
    """What is measured against epsilon, and how large it is."""
    if isinstance(release, ModifiedLaplace):
        return "noise scale", release.scale
    return "chance of a changed answer", 1 - release.reported_if_rated + release.reported_if_missing


def additive_part(release: ModifiedLaplace) -> Laplace:
    """The noise on a reported value, as a release of its own, for its density."""
    return Laplace(query=release.query, shape=(None,), sensitivity={}, scale=release.scale)


def drawn_shares(release: SymbolChannel, draws: int, rng: np.random.Generator) -> Floats:
    """Shares of each output among fresh draws, for every input; 0 is a missing cell."""
    from scipy.sparse import csr_array

    row = dataclasses.replace(release, shape=(1, draws), sensitivity={})
    shares = np.empty_like(release.matrix)
    for a in range(len(shares)):
        cells = (np.full(draws, float(a)), np.arange(draws), [0, draws])
        given = csr_array(cells, shape=(1, draws)) if a else csr_array((1, draws))
        out = row.publish(given, rng).data.astype(np.int64)
        shares[a] = np.bincount(out, minlength=len(shares)) / draws
        shares[a, 0] = 1 - len(out) / draws
    return shares


def describe(release: LocalChannel) -> str:
    """The channel in one sentence."""
    rated, missing = 100 * release.reported_if_rated, 100 * release.reported_if_missing
    how, ends = "as itself or another symbol", ", as any symbol alike"
    if isinstance(release, ModifiedLaplace):
        how, ends = f"with Laplace noise of scale {release.scale:.4g}", ", as noise alone"
    return (
        f"Every cell of a row: a rated one is reported with chance {rated:.3g} %, {how}; a missing"
        f" one with chance {missing:.3g} %{ends}."
    )
