"""Ratings made from others."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from dpmc_core.ratings import Ratings


def with_values(ratings: Ratings, values: ArrayLike, low: float, high: float) -> Ratings:
    """Return the same cells with new values and another public range."""
    public = replace(ratings.public, low=low, high=high)
    return replace(ratings, values=np.asarray(values, dtype=float), public=public)
