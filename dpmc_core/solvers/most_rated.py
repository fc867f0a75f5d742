"""A method that holds items x items, on more items than that fits: the most rated ones of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmc_core.data.transforms import TopItems
from dpmc_core.model import Model
from dpmc_core.ratings import Ratings

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


def most_rated(ratings: Ratings, count: int) -> tuple[Ratings, Ints]:
    """The ratings of the `count` most rated items (ties: the lower index) as ratings of so many
    items, and where each item is among them, -1 for one that is not. Looks at the ratings."""
    choice = TopItems(count)
    return choice.apply(ratings, ratings), choice.places(ratings)


@dataclass(frozen=True, eq=False)
class OnMostRated:
    """One model for some items, by their place there, and another for the items without one."""

    model: Model
    place: Ints
    other: Model
    factors: ClassVar[None] = None

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        u, i = np.broadcast_arrays(np.asarray(users), np.asarray(items))
        scores, place = self.other.predict(u, i), self.place[i]
        inside = place >= 0
        scores[inside] = self.model.predict(u[inside], place[inside])
        return scores
