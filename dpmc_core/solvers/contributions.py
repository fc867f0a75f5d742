"""How much each cell of a user's row may count, so that no user moves a sum too far."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpmc_core.ratings import Ratings

Floats = NDArray[np.float64]


def contributions(ratings: Ratings, count: int, norm: int = 2) -> Floats:
    """A weight in 0..1 for each rating, so that no user's weights are longer than a row of `count`.

    norm 2: l2 length <= sqrt(count), weights min(1, sqrt(count / own)), own = the user's ratings;
    norm 1: l1 length <= count, weights min(1, count / own). They depend on the user's row alone.
    """
    own = np.diff(ratings.indptr)[ratings.users]
    share = count / np.maximum(own, 1)
    weights: Floats = np.minimum(1.0, np.sqrt(share) if norm == 2 else share)
    return weights
