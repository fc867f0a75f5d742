"""Laplace noise that nobody draws alone: each user adds a share, and the shares sum to it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpmc_core.arrays import Floats, Ints, Rng
from dpmc_core.errors import InvalidSetting, check_number
from dpmc_core.privacy import noise
from dpmc_core.privacy.releases import Laplace


class Shares(enum.Enum):
    """How a user's share of Laplace noise is drawn."""

    GAUSSIAN = "gaussian"  # as published: the recommender draws H, so it knows the variance
    GAMMA = "gamma"  # hardened: a difference of Gamma variables, so users know only their shares

    def check_colluding(self, colluding: int) -> None:
        """Check that so many colluding users may be left out of the noise.

        Gaussian shares add up to Laplace noise only if all of them are there. Gamma shares can be
        drawn larger, so that the remaining ones are enough.

        Raises:
            InvalidSetting: if the shares are Gaussian and any user colludes.
        """
        if colluding and self is Shares.GAUSSIAN:
            raise InvalidSetting("colluding", "0 with Gaussian shares: use gamma", colluding)


def min_group_size(colluding: int) -> int:
    """Return the size of the smallest group that can share noise: two, with one honest user.

    Args:
        colluding: how many users of the group may collude.
    """
    return max(2, colluding + 1)


@dataclass(frozen=True, kw_only=True)
class SharedLaplace(Laplace):
    """Coordinate-wise Laplace noise on the rows of sums over users, drawn by those users.

    The shape is (n_rows, d); row j is a sum over the k_j users of group j.

    Attributes:
        shares: how a user's share of the noise is drawn.
        colluding: how many users of a group may leave, or tell the others their shares, while the
            sum of the remaining shares still holds full Laplace noise (Gamma shares only: their
            shape is then 1/(k_j - colluding)).
    """

    shares: Shares = Shares.GAUSSIAN
    colluding: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("colluding", self.colluding, at_least=0, integer=True)
        self.shares.check_colluding(self.colluding)

    @property
    def min_sharing_users(self) -> int:
        """The size of the smallest group that can share noise."""
        return min_group_size(self.colluding)

    def draw_mixing(self, rng: Rng) -> Floats | None:
        """Draw the recommender's Exp(1) variables H; None for Gamma shares, which need none.

        Args:
            rng: draws the numbers.

        Returns:
            Array of shape (n_rows, d), or None.
        """
        if self.shares is Shares.GAMMA:
            return None
        return rng.standard_exponential(self._dimensions)

    def publish_shares(
        self,
        values: ArrayLike,
        groups: Ints,
        mixing: Floats | None,
        rng: Rng,
    ) -> Floats:
        """Publish each user's values plus that user's share of the noise.

        Args:
            values: array of shape (n_shares, d).
            groups: array of shape (n_shares,), the row to which each share belongs.
            mixing: array of shape (n_rows, d) from `draw_mixing`; None for Gamma shares.
            rng: draws the shares of the noise.

        Returns:
            Array of shape (n_shares, d).

        Raises:
            InvalidSetting: if a group is too small, an array has the wrong shape, or a value is not
                finite.
        """
        array = self._check_finite(values)
        rows, length = self._dimensions
        if array.shape != (len(groups), length):
            raise InvalidSetting(
                f"shape of shares of '{self.query}'", f"({len(groups)}, {length})", array.shape
            )
        sizes = np.bincount(groups, minlength=rows)
        small_groups = np.flatnonzero((sizes > 0) & (sizes < self.min_sharing_users))
        if len(small_groups):
            raise InvalidSetting(
                f"users who share the noise of row {small_groups[0]} of '{self.query}'",
                f">= {self.min_sharing_users}",
                int(sizes[small_groups[0]]),
            )
        count = sizes[groups].astype(float)
        if self.shares is Shares.GAMMA:
            noise_shares = noise.draw_gamma_shares(self.scale, count - self.colluding, length, rng)
        else:
            if mixing is None or mixing.shape != (rows, length):
                raise InvalidSetting("mixing variables", f"an array ({rows}, {length})", mixing)
            noise_shares = noise.draw_gaussian_shares(self.scale, mixing[groups], count, rng)
        return self._record(array, array + noise_shares)

    @property
    def _dimensions(self) -> tuple[int, int]:
        """The shape (n_rows, d)."""
        rows, length = self.shape
        assert rows is not None
        assert length is not None
        return rows, length
