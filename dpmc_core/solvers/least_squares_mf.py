"""Regularised least-squares factorization, HXZ15's objective, by alternating exact solutions.

HXZ15: Hua, Xia, Zhong, "Differentially Private Matrix Factorization" (2015): minimise
sum (r_ij - u_i'v_j)^2 + user_penalty ||U||_F^2 + item_penalty ||V||_F^2 over the observed cells,
with ||u_i|| <= 1 where asked for. Ratings are taken from the middle of their public range. No
privacy here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core import archives
from dpmc_core.errors import InvalidSetting
from dpmc_core.ratings import Ratings
from dpmc_core.settings import check_settings, setting
from dpmc_core.solvers.als import normal_equations, random_factors, ridge_rows
from dpmc_core.solvers.implicit import binary_matrix
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.rows import clip_dense_rows
from dpmc_core.solvers.trust_region import minimise_in_ball

if TYPE_CHECKING:
    from scipy.sparse import csr_array


Floats = NDArray[np.float64]

_SPREAD = 0.1  # of the starting item factors around (1, 0, ..., 0), in rating points


class Sides(NamedTuple):
    """Centred ratings by user and, transposed, by item."""

    by_user: csr_array
    by_item: csr_array


@dataclass(frozen=True, kw_only=True)
class LeastSquaresMF:
    """Settings of the factorization, and its two half steps."""

    rank: int = setting(3, "length of a factor", at_least=1, at_most=200)
    user_penalty: float = setting(4.0, "ridge penalty on user factors", above=0, at_most=1e6)
    item_penalty: float = setting(4.0, "ridge penalty on item factors", above=0, at_most=1e6)
    iterations: int = setting(20, "alternations without noise", at_least=1, at_most=10_000)
    unit_ball: bool = setting(True, "hold each user's factors within length 1")

    def __post_init__(self) -> None:
        check_settings(self)

    def sides(self, ratings: Ratings) -> Sides:
        """The ratings as deviations from the middle of the public range, both ways round."""
        cells = Pattern.of(ratings)
        deviations = ratings.values - ratings.public.middle
        return Sides(cells.by_user(deviations), cells.by_item(deviations))

    def first_items(self, items: int, rng: np.random.Generator) -> Floats:
        """Data-free starting item factors: near (1, 0, ..., 0), so a first fit finds the means."""
        start = random_factors(items, self.rank, rng, _SPREAD)
        start[:, 0] += 1.0
        return start

    def fit_users(self, sides: Sides, item_factors: Floats) -> Floats:
        """Every user's own factors given those of the items; zeros without ratings."""
        if not self.unit_ball:
            return ridge_rows(sides.by_user, item_factors, self.user_penalty)
        squares, moments = normal_equations(sides.by_user, item_factors)
        quadratic = squares + self.user_penalty * np.eye(self.rank)
        return minimise_in_ball(quadratic, 2 * moments, 1.0)

    def fit_items(self, sides: Sides, user_factors: Floats) -> Floats:
        """Every item's factors given those of the users; zeros without ratings."""
        return ridge_rows(sides.by_item, user_factors, self.item_penalty)

    def alternate(self, sides: Sides, rng: np.random.Generator) -> Iterator[tuple[Floats, Floats]]:
        """(user factors, item factors) after each alternation, the users' fitted last."""
        users = self.fit_users(sides, self.first_items(sides.by_item.shape[0], rng))
        for _ in range(self.iterations):
            items = self.fit_items(sides, users)
            users = self.fit_users(sides, items)
            yield users, items

    def objective(self, sides: Sides, users: Floats, items: Floats) -> float:
        """The value that the alternation brings down."""
        fitted = Pattern.of_matrix(sides.by_user).sample(users, items)
        return float(
            np.square(sides.by_user.data - fitted).sum()
            + self.user_penalty * np.square(users).sum()
            + self.item_penalty * np.square(items).sum()
        )


@dataclass(frozen=True, kw_only=True)
class LeastSquaresOnClicks(LeastSquaresMF):
    """The same where every cell is a rating: 1 where a user chose the item, 0 where not.

    All rows of one side then share one quadratic, the Gram matrix of the other side's factors.
    """

    rank: int = setting(8, "length of a factor", at_least=1, at_most=200)
    user_penalty: float = setting(0.1, "ridge penalty on user factors", above=0, at_most=1e6)
    item_penalty: float = setting(10.0, "ridge penalty on item factors", above=0, at_most=1e6)

    def sides(self, ratings: Ratings) -> Sides:
        """The ones, both ways round. Raises BadRatings for ratings other than 1."""
        matrix = binary_matrix(ratings)
        return Sides(matrix, matrix.T.tocsr())

    def fit_users(self, sides: Sides, item_factors: Floats) -> Floats:
        """Every user's own factors given those of the items."""
        return self._solved(sides.by_user @ item_factors, item_factors, self.user_penalty, True)

    def fit_items(self, sides: Sides, user_factors: Floats) -> Floats:
        """Every item's factors given those of the users."""
        return self._solved(sides.by_item @ user_factors, user_factors, self.item_penalty, False)

    def _solved(self, moments: Floats, other: Floats, penalty: float, held: bool) -> Floats:
        quadratic = other.T @ other + penalty * np.eye(self.rank)
        if held and self.unit_ball:
            return minimise_in_ball(quadratic, 2 * moments, 1.0)
        return np.asarray(np.linalg.solve(quadratic, moments.T).T)

    def objective(self, sides: Sides, users: Floats, items: Floats) -> float:
        """The value that the alternation brings down, without a users x items array."""
        chosen = Pattern.of_matrix(sides.by_user).sample(users, items)
        return float(
            len(chosen)
            - 2 * chosen.sum()
            + np.sum((users.T @ users) * (items.T @ items))
            + self.user_penalty * np.square(users).sum()
            + self.item_penalty * np.square(items).sum()
        )


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
            factors = archives.array(Path(self.source))
        except archives.BadArchive as error:
            raise InvalidSetting(
                "user_factors", "a readable .npy file", self.source, error.reason
            ) from None
        if factors.shape != (users, rank):
            raise InvalidSetting("shape of user_factors", f"({users}, {rank})", factors.shape)
        if factors.dtype.kind not in "fiu" or not np.isfinite(factors).all():
            raise InvalidSetting("user_factors", "finite numbers", self.source)
        return clip_dense_rows(factors.astype(float), 1.0)[0]


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
