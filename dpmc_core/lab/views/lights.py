"""What one rating moves in output perturbation: every cell of the matrix before its noise."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import InvalidSetting
from dpmc_core.lab.refute.probe import run
from dpmc_core.lab.refute.run import one_rating_apart
from dpmc_core.mechanisms.one_bit import Output
from dpmc_core.ratings import Ratings

Floats = NDArray[np.float64]

_SEEN = 1e-3  # of the bound: a cell that moves by less is not counted


@dataclass(frozen=True, eq=False)
class Lights:
    """How far each cell moves when one rating turns to the other sign.

    user, item: of the rating, counted from 0. moved: users x items, |difference| of the matrices
    that get the noise. allowed: 2 bound, the most that the paper's proof lets them sum to; total:
    the sum; epsilon: total over the noise scale, so no smaller one holds; claimed: the card's.
    cells: how many move by a thousandth of the bound or more.
    """

    mechanism: Output
    user: int
    item: int
    moved: Floats
    allowed: float
    total: float
    epsilon: float
    claimed: float
    cells: int


def known_instance(epsilon: float = 1.0) -> tuple[Output, Ratings, int]:
    """A mechanism solved to tolerance, ratings, and the position of the one that lights it up.

    Its matrix moves by about 51 where the proof of LWHM22, Theorem 4 allows 2.
    """
    mechanism = Output(epsilon=epsilon, bound=1.0, radius=1.2, tolerance=1e-7, iterations=500)
    return mechanism, *one_rating_apart()


def lights(mechanism: Output, ratings: Ratings, position: int) -> Lights:
    """What the rating at a position of `ratings` moves; two solves. Raises InvalidSetting."""
    if not 0 <= position < len(ratings):
        raise InvalidSetting("position of the rating", f"in 0..{len(ratings) - 1}", position)
    values = ratings.values.copy()
    values[position] *= -1
    other = dataclasses.replace(ratings, values=values)
    (here,), (there,) = (run(mechanism, data, 0) for data in (ratings, other))
    card = mechanism.guarantee(ratings.public)
    moved: Floats = np.abs(here.private - there.private)
    total = card.releases.matrix.distance(here.private, there.private)
    return Lights(
        mechanism=mechanism,
        user=int(ratings.users[position]),
        item=int(ratings.items[position]),
        moved=moved,
        allowed=2 * mechanism.bound,
        total=total,
        epsilon=card.releases.matrix.loss(total).epsilon,
        claimed=mechanism.epsilon,
        cells=int((moved >= _SEEN * mechanism.bound).sum()),
    )
