"""Item means from sums and counts that may carry noise. No privacy here."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ITEM_SPREAD = 0.1  # how much item means differ, in widths of the rating range
_RATING_SPREAD = 0.2  # how much the ratings of one item differ, likewise


def shrunken_means(
    sums: Floats, counts: Floats, width: float, sums_noise: float = 0.0, counts_noise: float = 0.0
) -> Floats:
    """The best linear estimate of item means, in rating points about zero; length n.

    sums: of centred ratings; counts: how many (weighted) ratings they hold; both may carry
    independent noise of the standard deviations given. Item means are taken as spread by a tenth
    of the public range, ratings about them by a fifth: without noise the mean of C ratings is
    shrunk as by four more ratings of the average item, and noise shrinks it further.
    """
    weight = np.maximum(counts, 0.0)
    item, rating = (_ITEM_SPREAD * width) ** 2, (_RATING_SPREAD * width) ** 2
    uncertain = sums_noise**2 / item + counts_noise**2 + weight * rating / item
    means: Floats = weight * sums / np.maximum(weight**2 + uncertain, np.finfo(float).tiny)
    return means
