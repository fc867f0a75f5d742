"""User factors that are public input: from a file, or random directions that read no data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import InvalidSetting

Floats = NDArray[np.float64]

_RANDOM = "random:"


@dataclass(frozen=True)
class PublicUserFactors:
    """Where public user factors come from: a .npy file of users x rank, or 'random:SEED'."""

    source: str

    def __str__(self) -> str:
        return self.source

    @classmethod
    def parse(cls, text: str) -> PublicUserFactors:
        """Raises InvalidSetting for text that names neither."""
        seed = text.removeprefix(_RANDOM)
        if seed != text and not seed.isdecimal():
            raise InvalidSetting("user_factors", "random:SEED with a whole-numbered SEED", text)
        if seed == text and not text.endswith(".npy"):
            raise InvalidSetting("user_factors", "random:SEED or a .npy file", text)
        return cls(text)

    def load(self, users: int, rank: int) -> Floats:
        """users x rank, rows cut to length 1. Raises InvalidSetting where the file does not fit."""
        if self.source.startswith(_RANDOM):
            return _random_directions(users, rank, int(self.source.removeprefix(_RANDOM)))
        try:
            factors = np.load(Path(self.source), allow_pickle=False)
        except (OSError, ValueError):
            raise InvalidSetting("user_factors", "a readable .npy file", self.source) from None
        if factors.shape != (users, rank):
            raise InvalidSetting("shape of user_factors", f"({users}, {rank})", factors.shape)
        if factors.dtype.kind not in "fiu" or not np.isfinite(factors).all():
            raise InvalidSetting("user_factors", "finite numbers", self.source)
        return in_ball(factors.astype(float))


def in_ball(factors: Floats) -> Floats:
    """Each row, shortened to length 1 where it is longer."""
    lengths = np.linalg.norm(factors, axis=1, keepdims=True)
    shortened: Floats = factors / np.maximum(lengths, 1.0)
    return shortened


def _random_directions(users: int, rank: int, seed: int) -> Floats:
    """Unit rows: half of the squared length on a shared first coordinate, the rest random.

    The shared coordinate lets item factors hold item means; rank 1 is nothing else.
    """
    factors = np.ones((users, rank))
    if rank > 1:
        rest = np.random.default_rng(seed).standard_normal((users, rank - 1))
        factors[:, 1:] = rest / np.linalg.norm(rest, axis=1, keepdims=True)
        factors /= np.sqrt(2.0)
    return factors
