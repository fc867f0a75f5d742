"""How scenarios 2 and 3 of HXZ15 come by user factors: refitted in phases, or passed in.

HXZ15: Hua, Xia, Zhong, "Differentially Private Matrix Factorization" (2015). Its proof holds user
factors constant and its distributed scenarios need some that no server has fitted. In phases, each
user refits the own factors to the item factors published last, at home, and every phase publishes
item factors anew with fresh noise: a release of its own, paid for with a part of epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import InvalidSetting
from dpmc_core.mechanisms.factorization import DPMF
from dpmc_core.ratings import PublicFacts
from dpmc_core.solvers.factorization import PublicUserFactors, Sides

Floats = NDArray[np.float64]

# Chosen on generated ratings with the errors on movie-night seen; kept after benchmarks/phases.py,
# which tests them on shapes not used before.
MOST = 14  # phases by the rule
_WORTH = 1270.0  # epsilon x users / sqrt(rank) up to which one phase is best
_MORE = 2.0  # phases for each doubling of it
GROWTH = 1.3  # of a phase's part of epsilon over that of the one before


def affordable(epsilon: float, users: int, rank: int) -> int:
    """How many phases a budget per rating is best split over.

    An item's noise grows with sqrt(rank) / epsilon, and no more than all users share it.
    """
    doublings = math.log2(epsilon * users / (_WORTH * math.sqrt(rank)))
    return min(max(1 + round(_MORE * doublings), 1), MOST)


@dataclass(frozen=True)
class HeldUserFactors:
    """User factors passed in and held for the whole run: 'pmf', 'random:SEED' or a .npy file.

    Those of PMF are fitted on the very ratings, without noise, by whoever holds all of them.
    """

    source: str

    def __str__(self) -> str:
        return self.source

    @classmethod
    def parse(cls, text: str) -> HeldUserFactors:
        """Raises InvalidSetting for text that names none of the three."""
        if text != "pmf":
            try:
                PublicUserFactors.parse(text)
            except InvalidSetting as error:
                raise InvalidSetting("user_factors", f"pmf, {error.limit}", text) from None
        return cls(text)

    @property
    def public(self) -> PublicUserFactors | None:
        """The same as scenario 1 has them; None for factors fitted on the ratings."""
        return None if self.source == "pmf" else PublicUserFactors(self.source)

    def load(
        self, mechanism: DPMF, sides: Sides, public: PublicFacts, rng: np.random.Generator
    ) -> Floats:
        """users x rank, rows of length 1 at most. Raises InvalidSetting where a file won't fit."""
        if self.public is not None:
            return self.public.load(public.users, mechanism.rank)
        *_, (users, _) = mechanism.alternate(sides, rng)
        return users
