"""Top eigenvector of A'A from noisy products with unit vectors (Oja 1982; JTT18, Algorithm 2)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def top_vector(
    product: Callable[[Floats], Floats],
    size: int,
    updates: int,
    step: float,
    rng: np.random.Generator,
) -> Floats:
    """v <- v + step product(v), normalised at the start and after every update; length `size`.

    product(v): A'A v with or without noise, for ||v|| = 1. The starting direction is uniform; the
    paper leaves the first vector un-normalised, which would scale the first product with it.
    """
    v: Floats = rng.standard_normal(size)
    v /= np.linalg.norm(v)
    for _ in range(updates):
        v = v + step * product(v)
        v /= np.linalg.norm(v)
    return v
