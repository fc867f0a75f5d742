"""Releases that learn from each other: noisy statistics averaged with those published earlier.

A year of weekly releases asks the same questions with fresh noise. What was published is public, so
averages of it cost no privacy. Release t says y_t = c_t x + N(0, s_t^2) of a statistic x of the
newest release, where c_t is how much of the newest data it contains, as ratings accumulate. Of all
weighted sums that expect x, the one with weights proportional to c_t / s_t^2 has the least noise.
With 52 releases of a growing year, c_t about sqrt(t / 52), that leaves 1.4 times the noise of one
release at the whole budget, where the last release alone has 7.2 times.

Statistics are averaged before anything is estimated from them: estimates are shrunk towards nothing
by their own noise, and an average of them stays as much shrunk.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np

from dpmc_core.arrays import Bools, Floats, Ints
from dpmc_core.privacy.releases import Additive, Releases
from dpmc_core.ratings import PublicFacts
from dpmc_core.solvers.empirical_bayes import update_normal

_MIN_CONTENT = 0.05  # the least that a release contains, relative to the largest one
# The items are their second axis; the first is how often a statistic is published.
PER_ITEM = ("noisy_counts", "noisy_sums", "noisy_residuals", "sum_units", "sum_centres")


class EarlierRelease(NamedTuple):
    """The statistics of an earlier release, over the items of the newest one.

    Attributes:
        users: the public number of users.
        scales: the noise scale of each statistic, by name.
        arrays: as of `StatisticStream.published`; rows of items without an entry are arbitrary.
        is_present: shape (n,), which of the n items it published.
        decay: the factor of its weights, because what people like drifts: 1 without drift.
    """

    users: int
    scales: Mapping[str, float]
    arrays: Mapping[str, Floats]
    is_present: Bools
    decay: float

    @classmethod
    def align(
        cls,
        public: PublicFacts,
        releases: Releases,
        arrays: Mapping[str, Floats],
        rows: Ints,
        decay: float,
    ) -> Self:
        """Return the statistics over the items of the newest release.

        Args:
            public: the public facts of the earlier release.
            releases: those of its guarantee.
            arrays: its statistics, over its own items.
            rows: shape (n,), where it has each item of the newest release; -1: nowhere.
            decay: as of the class.
        """
        return cls(
            public.users,
            {f"noisy_{name}": r.scale for name, r in releases if isinstance(r, Additive)},
            {
                name: array.take(rows, axis=1) if name in PER_ITEM else array
                for name, array in arrays.items()
            },
            rows >= 0,
            decay,
        )


class StatisticStream:
    """Averages each statistic of a release, as it is published, with those of earlier releases.

    Without earlier releases every average is the statistic itself.

    Attributes:
        published: by name, what this release published, one entry for each time; also the units and
            centres of its sums over items, see `average_sums`.
    """

    def __init__(self, public: PublicFacts, earlier: Sequence[EarlierRelease] = ()) -> None:
        self.published: dict[str, list[Floats]] = {}
        self._earlier = earlier
        self._decays = np.array([*(release.decay for release in earlier), 1.0])
        self._users = np.array([*(r.users / public.users for r in earlier), 1.0])
        everywhere = np.ones(public.items, dtype=bool)
        self._is_present = np.array([*(release.is_present for release in earlier), everywhere])
        self._contents = self._users  # until counts are known
        self._weights = np.ones((len(earlier) + 1, 1))  # of each release, for each item

    def average_over_users(
        self, name: str, published: Floats, scale: float
    ) -> tuple[Floats, float]:
        """Return a sum over all users and the standard deviation of its noise.

        Args:
            name: of the statistic.
            published: its noisy value, of any shape.
            scale: the standard deviation of the noise on it.
        """
        values, scales = self._gather(name, published), self._list_scales(name, scale)
        if not self._earlier:
            return published, scale
        weights = self._decays * self._users / scales**2
        weights /= weights @ self._users
        return np.tensordot(weights, values, 1), float(np.sqrt(weights**2 @ scales**2))

    def average_counts(self, published: Floats, scale: float) -> tuple[Floats, float | Floats]:
        """Return the counts of the items and the standard deviations of their noise.

        They also say how much each release contains. An item is averaged over the releases that
        have it.

        Args:
            published: shape (n,), the noisy counts.
            scale: the standard deviation of the noise on them.
        """
        values, scales = (
            self._gather("noisy_counts", published),
            self._list_scales("noisy_counts", scale),
        )
        if not self._earlier:
            return published, scale
        n_items = np.maximum(self._is_present.sum(axis=1), 1)
        levels, variances = (self._is_present * values).sum(axis=1) / n_items, scales**2 / n_items
        # Mean counts of a release, shrunk to those of all releases as far as noise explains them.
        common, excess = levels.mean(), max(float(np.var(levels) - variances.mean()), 0.0)
        levels, _ = update_normal(levels, 1.0, variances, excess, common)
        levels = np.maximum(levels, max(_MIN_CONTENT * levels.max(), math.sqrt(variances.min())))
        self._contents = levels / levels[-1]
        weights = self._is_present * (self._decays * self._contents / scales**2)[:, None]
        self._weights = weights / (self._contents @ weights)
        return (self._weights * values).sum(axis=0), np.sqrt(scales**2 @ self._weights**2)

    def average_sums(
        self, name: str, published: Floats, scale: float, unit: Floats, centre: Floats
    ) -> tuple[Floats, float | Floats, Floats]:
        """Return sums of residuals of each item, in the unit and with the counts of this release.

        Earlier sums had other units, and were about other effects. Their weights are those of the
        counts: the average then expects the average count times what it expects of one rating.

        Args:
            name: of the statistic.
            published: shape (n,) or (n, k), the noisy sums; the first column is averaged.
            scale: the standard deviation of the noise on them.
            unit: shape (n,), the factor with which a residual enters, up to the users' gain.
            centre: shape (n,), the item effects about which the residuals are.

        Returns:
            The sums, shape (n,), the standard deviations of their noise, and by how much the
            effects about which they are exceed `centre`.
        """
        values = self._gather(name, published)
        units, centres = self._gather("sum_units", unit), self._gather("sum_centres", centre)
        values = values[..., 0] if published.ndim > 1 else values
        if not self._earlier:
            return values[0], scale, np.zeros(len(centre))
        weights = self._weights * unit / units
        noise = np.sqrt(self._list_scales(name, scale) ** 2 @ weights**2)
        mean_centre = self._contents @ (self._weights * centres)
        return (weights * values).sum(axis=0), noise, mean_centre - centre

    def _gather(self, name: str, published: Floats) -> Floats:
        """Note a statistic; return it below those of the earlier releases of the same step."""
        own = self.published.setdefault(name, [])
        earlier = [release.arrays[name][len(own)] for release in self._earlier]
        own.append(np.asarray(published, dtype=float))
        return np.array([*earlier, published])

    def _list_scales(self, name: str, scale: float) -> Floats:
        """Return the noise scales of a statistic in all releases."""
        return np.array([*(release.scales[name] for release in self._earlier), scale])
