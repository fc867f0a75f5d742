"""What one rating moves in output perturbation: every cell of the matrix before its noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmc_core.mechanisms.one_bit import Output
from dpmc_core.ratings import Ratings

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Lights:
    """How far each cell moves when one rating of (user, item) turns from `before` to `after`.

    moved: users x items, |difference| of the matrices before the noise. allowed: 2 bound, all that
    the paper's proof allows the sum to be; total: the sum; epsilon: total over the noise scale, an
    exact lower bound where claimed is the mechanism's epsilon. cells: how many move by more than a
    thousandth of the bound.
    """

    mechanism: Output
    user: int
    item: int
    before: float
    after: float
    moved: Floats
    allowed: float
    total: float
    epsilon: float
    claimed: float
    cells: int


def known_instance(epsilon: float = 1.0) -> tuple[Output, Ratings, int]:
    """The mechanism, the data set, and the position of the rating that lights the matrix up."""
    raise NotImplementedError


def lights(mechanism: Output, ratings: Ratings, position: int) -> Lights:
    """What the rating at a position of `ratings` moves; two solves, seconds on small data."""
    raise NotImplementedError
