"""The three kinds of parties of HXZ15's scenarios 2 and 3, each with what it alone knows.

HXZ15: Hua, Xia, Zhong, "Differentially Private Matrix Factorization" (2015). Users are one object,
each user's row of every array standing for that user's own memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpmc_core.lab.protocol.messages import FixedPoint, Words

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(eq=False)
class Users:
    """Ratings, own factors and noise, by (user, item) pair; nothing here is seen by anyone else.

    factors: the user's factors, pairs x d; deviations: ratings from the middle of the range.
    linear: the term of the gradient that item factors do not touch, -2 r u, with the own share of
    noise added in scenario 2.
    """

    factors: Floats
    deviations: Floats
    fixed: FixedPoint
    linear: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.linear = -2 * self.deviations[:, None] * self.factors

    def gradient(self, pairs: Ints, items: Floats) -> Floats:
        """Each pair's gradient 2 (u'v - r) u at the item factors sent, plus any noise in it."""
        own = self.factors[pairs]
        slope: Floats = 2 * np.einsum("pd,pd->p", own, items)[:, None] * own + self.linear[pairs]
        return slope

    def answer(self, pairs: Ints, items: Floats, addends: Ints, *hidden: Words) -> Words:
        """The gradient in fixed point plus masks or pieces, mod P."""
        sent = self.fixed.encode(self.gradient(pairs, items), addends[:, None], "a user's gradient")
        for words in hidden:
            sent = self.fixed.reduce(sent + words)
        return sent


@dataclass(eq=False)
class Recommender:
    """Holds the item factors; draws masks and takes them off the sums it is handed.

    raters: how many users rated each item; penalty: of the ridge on item factors.
    """

    items: Floats
    raters: Ints
    penalty: float
    fixed: FixedPoint
    rng: np.random.Generator
    noise: Words | None = None  # scenario 3: noise + the third party's secret, mod P

    def mask(self, count: int) -> Words:
        """Uniform numbers mod P, a row for each of `count` users."""
        return self.fixed.uniform((count, self.items.shape[1]), self.rng)

    def pieces(self, groups: Ints) -> Words:
        """The hidden noise of each item split at random among the users in `groups`."""
        assert self.noise is not None
        pieces = self.mask(len(groups))
        present, first = np.unique(groups, return_index=True)
        pieces[first] = 0
        rest = self.fixed.sums(pieces, groups, len(self.items))
        pieces[first] = self.fixed.reduce(self.noise[present] - rest[present])
        return pieces

    def unmask(self, sums: Words, masks: Words, groups: Ints) -> Words:
        """Sums (one row per item) without the masks that this party sent to the groups' users."""
        return self.fixed.reduce(sums - self.fixed.sums(masks, groups, len(self.items)))

    def step(self, gradients: Floats, where: Ints) -> None:
        """One gradient step on the items in `where`; 2 (k + penalty) bounds the curvature."""
        here = self.items[where]
        slope = gradients + 2 * self.penalty * here
        self.items[where] = here - slope / (2 * (self.raters[where] + self.penalty))[:, None]


@dataclass(eq=False)
class ThirdParty:
    """Adds up what users send, and knows neither the masks nor the ratings."""

    fixed: FixedPoint
    rng: np.random.Generator
    secret: Words | None = None  # scenario 3: alpha, items x d

    def add(self, words: Words, groups: Ints, items: int) -> Words:
        """The sum of each group, mod P."""
        return self.fixed.sums(words, groups, items)
