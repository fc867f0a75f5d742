"""Five ways to noise the loss of a profile in implicit matrix factorisation.

RYHH24: Ran, Ye, Huang, Hu, "Differentially Private Implicit Matrix Factorization" (2024), Alg. 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import InvalidSetting
from dpmc_core.privacy import Laplace, Release
from dpmc_core.settings import setting
from dpmc_core.solvers.dpimf import Dpimf, Norms, Profiles, Rng, Term
from dpmc_core.solvers.implicit import Over, second_moments
from dpmc_core.solvers.importance import importance_weights
from dpmc_core.solvers.trust_region import minimise_in_ball

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]

_FIRST = {
    Profiles.ITEMS: "doubled sum of the factors of all users who chose the item (A1)",
    Profiles.USERS: "doubled sum of the factors of all items that the user chose (A1)",
}
_SECOND = {
    Profiles.ITEMS: "weighted second moment of the factors of all users, for each item (A2)",
    Profiles.USERS: "weighted second moment of the factors of all items, for each user (A2)",
}
_RIDGE = {
    Profiles.ITEMS: "weighted number of users who did and did not choose the item (the ridge)",
    Profiles.USERS: "weighted number of items that the user did and did not choose (the ridge)",
}


@dataclass(frozen=True, kw_only=True)
class _Weighted(Dpimf):
    """The variants in which alpha < 1 leaves noise on the second moment and the ridge."""

    alpha: float = setting(
        0.8, "weight of cells that were not observed (alpha0)", at_least=0, at_most=1
    )

    def weight(self) -> float:
        return self.alpha

    def solve(
        self, columns: csr_array, factors: Floats, releases: Mapping[str, Release], rng: Rng
    ) -> Floats:
        m = columns.shape[1]
        counts = np.diff(columns.indptr).astype(np.int64)
        linear = releases["first"].publish(2.0 * (columns @ factors), rng)
        if "second" not in releases:  # alpha = 1: both are the same for every profile
            shared = factors.T @ factors + self.regularisation * m * np.eye(self.rank)
            return minimise_in_ball(shared, linear, self.radius)
        own = self.loss.own_weight * second_moments(columns, factors)
        quadratic = self._second(own + self.alpha * (factors.T @ factors), releases["second"], rng)
        ridge = self.loss.ridge(counts, m) / self.regularisation
        ridge = self.regularisation * releases["ridge"].publish(ridge, rng)
        diagonal = np.arange(self.rank)
        quadratic[:, diagonal, diagonal] += ridge[:, None]
        return minimise_in_ball(quadratic, linear, self.radius)

    def _second(self, moments: Floats, release: Release, rng: Rng) -> Floats:
        return release.publish(moments, rng)


@dataclass(frozen=True, kw_only=True)
class Strawman(_Weighted):
    """One budget for all coefficients of iALS's own loss: every one gets Laplace(Delta/eps).

    Delta = 2 ||p||_1 + sum |pp'| + 1 (RYHH24, Eq. 9); the second term runs over all users, so a
    cell moves its whole pp'.
    """

    id: ClassVar[str] = "dpimf-strawman"
    name: ClassVar[str] = "DPIMF, strawman"
    revision: ClassVar[int] = 1
    over: ClassVar[Over] = Over.ALL

    def terms(self, norms: Norms) -> dict[str, Term]:
        scale = (2.0 * norms.l1 + norms.full + 1.0) / self.epsilon
        d = self.rank
        return {
            "first": Term(_FIRST[self.profiles], (d,), 2.0 * norms.l1, scale),
            "second": Term(_SECOND[self.profiles], (d, d), norms.full, scale),
            "ridge": Term(_RIDGE[self.profiles], (), 1.0, scale),
        }


@dataclass(frozen=True, kw_only=True)
class Complementary(_Weighted):
    """The complementary loss: zeros pull only where nothing was observed (RYHH24, section IV-B).

    A cell that turns from zero to one moves the second moment by (1 - alpha) pp' and the ridge by
    1 - alpha only. The budget is split as beta1 : beta2 : beta3 over first order, second moment and
    ridge, each with its own sensitivity; at alpha = 1 all of it goes to the first order.
    """

    id: ClassVar[str] = "dpimf-complementary"
    name: ClassVar[str] = "DPIMF, complementary loss"
    revision: ClassVar[int] = 1
    beta1: float = setting(0.8, "share of the first-order term", above=0, at_most=1)
    beta2: float = setting(0.15, "share of the second moment", at_least=0, below=1)
    beta3: float = setting(0.05, "share of the ridge", at_least=0, below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        total = math.fsum((self.beta1, self.beta2, self.beta3))
        if not math.isclose(total, 1.0, rel_tol=0, abs_tol=1e-9):
            raise InvalidSetting("beta1 + beta2 + beta3", "1", total)
        for name in ("beta2", "beta3"):
            if self.alpha < 1 and getattr(self, name) == 0:
                raise InvalidSetting(name, "> 0 where alpha < 1", 0)

    def terms(self, norms: Norms) -> dict[str, Term]:
        first = 2.0 * norms.l1
        if self.alpha == 1:
            return {"first": Term(_FIRST[self.profiles], (self.rank,), first, first / self.epsilon)}
        rest = 1.0 - self.alpha
        shape, moved = self._second_shape(norms)
        return {
            "first": Term(
                _FIRST[self.profiles], (self.rank,), first, first / (self.beta1 * self.epsilon)
            ),
            "second": Term(
                _SECOND[self.profiles],
                shape,
                rest * moved,
                rest * moved / (self.beta2 * self.epsilon),
            ),
            "ridge": Term(_RIDGE[self.profiles], (), rest, rest / (self.beta3 * self.epsilon)),
        }

    def _second_shape(self, norms: Norms) -> tuple[tuple[int, ...], float]:
        return (self.rank, self.rank), norms.full


@dataclass(frozen=True, kw_only=True)
class Symmetric(Complementary):
    """The complementary loss with symmetric noise: only the upper triangle is released.

    Its sensitivity is (1 - alpha) (||p||_1^2 + ||p||_2^2)/2 (RYHH24, Eq. 18), so a bound on
    ||p||_2 well below that on ||p||_1 is what makes it pay.
    """

    id: ClassVar[str] = "dpimf-symmetric"
    name: ClassVar[str] = "DPIMF, symmetric noise"
    revision: ClassVar[int] = 1

    def _second_shape(self, norms: Norms) -> tuple[tuple[int, ...], float]:
        return (self.rank * (self.rank + 1) // 2,), norms.upper

    def _second(self, moments: Floats, release: Release, rng: Rng) -> Floats:
        rows, columns = np.triu_indices(self.rank)
        noisy = release.publish(moments[:, rows, columns], rng)
        quadratic = np.empty_like(moments)
        quadratic[:, rows, columns] = noisy
        quadratic[:, columns, rows] = noisy
        return quadratic


@dataclass(frozen=True, kw_only=True)
class Optimal(Dpimf):
    """alpha = 1: second moment and ridge do not depend on the ones, so only A1 is noised.

    All of the budget goes to A1, and A2 = G_U + lambda m I is shared by all profiles.
    """

    id: ClassVar[str] = "dpimf-optimal"
    name: ClassVar[str] = "DPIMF, optimal"
    revision: ClassVar[int] = 1

    def terms(self, norms: Norms) -> dict[str, Term]:
        first = 2.0 * norms.l1
        return {"first": Term(_FIRST[self.profiles], (self.rank,), first, first / self.epsilon)}

    def solve(
        self, columns: csr_array, factors: Floats, releases: Mapping[str, Release], rng: Rng
    ) -> Floats:
        linear = releases["first"].publish(self._first(columns, factors, releases, rng), rng)
        m = columns.shape[1]
        shared = factors.T @ factors + self.regularisation * m * np.eye(self.rank)
        return minimise_in_ball(shared, linear, self.radius)

    def _first(
        self,
        columns: csr_array,
        factors: Floats,
        releases: Mapping[str, Release],  # noqa: ARG002
        rng: Rng,  # noqa: ARG002
    ) -> Floats:
        return 2.0 * (columns @ factors)


@dataclass(frozen=True, kw_only=True)
class Sampled(Optimal):
    """The optimal variant with importance sampling: each one counts w times with chance 1/w.

    The weights keep the privacy loss of every cell at epsilon for the same noise: a cell whose
    fixed factor is short is drawn rarely and counted more. Because (e^{aw} - 1)/w grows with w, no
    weights allow less noise than none; what is gained is a smaller sample (`importance_weights`).
    """

    id: ClassVar[str] = "dpimf-sampled"
    name: ClassVar[str] = "DPIMF, optimal with importance sampling"
    revision: ClassVar[int] = 1

    def terms(self, norms: Norms) -> dict[str, Term]:
        first = 2.0 * norms.l1
        query = (
            f"{_FIRST[self.profiles]}, importance-sampled so that no cell's loss passes that of"
            " the longest"
        )
        return {"first": Term(query, (self.rank,), first, first / self.epsilon)}

    def _first(
        self, columns: csr_array, factors: Floats, releases: Mapping[str, Release], rng: Rng
    ) -> Floats:
        from scipy.sparse import csr_array

        release = releases["first"]
        assert isinstance(release, Laplace)
        losses = 2.0 * np.abs(factors).sum(axis=1) / release.scale
        weights = importance_weights(losses, self.epsilon)[columns.indices]
        drawn = rng.random(len(weights)) * weights < 1.0
        counted = csr_array(
            (np.where(drawn, weights, 0.0), columns.indices, columns.indptr), shape=columns.shape
        )
        return 2.0 * (counted @ factors)
