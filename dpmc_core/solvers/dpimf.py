"""What the variants of differentially private implicit matrix factorisation share.

RYHH24: Ran, Ye, Huang, Hu, "Differentially Private Implicit Matrix Factorization" (2024).

One side's profiles are solved with noise on their loss and published; the other side's factors are
refitted from the raw rows each round and never leave their owner. With p the fixed factors (m
rows), an item's loss is q'A2 q - q'A1 (Algorithm 2), where

    A1 = 2 sum_{U_i} p,   A2 = G_{U_i} + alpha (G_U - G_{U_i}) + lambda (|U_i| + alpha |not U_i|) I.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import InvalidSetting
from dpmc_core.model import Factors, Step, Task
from dpmc_core.privacy import (
    Budget,
    Guarantee,
    Laplace,
    Neighbours,
    Notion,
    Release,
    Trust,
    Unaccounted,
    Unit,
    by_unit,
)
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import check_settings, setting
from dpmc_core.solvers.implicit import ImplicitLoss, Over, binary_matrix, solve_rows, transposed

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]

LARGEST = 40_000_000  # noise entries of one round: 320 MB


class Profiles(enum.Enum):
    """Whose profiles are solved with noise and published."""

    ITEMS = "items"
    USERS = "users"


@dataclass(frozen=True)
class Norms:
    """Bounds on one fixed factor p: ||p||_1, and sum |pp'| over all entries or the upper triangle.

    full = ||p||_1^2 and upper = (||p||_1^2 + ||p||_2^2) / 2.
    """

    l1: float
    full: float
    upper: float

    @classmethod
    def clipped(cls, l1: float, l2: float) -> Norms:
        """Of every p with ||p||_1 <= l1 and ||p||_2 <= l2."""
        return cls(l1, l1**2, (l1**2 + min(l1, l2) ** 2) / 2)

    @classmethod
    def read_off(cls, factors: Floats) -> Norms:
        """The largest among the rows of `factors`: private, as published."""
        l1 = np.abs(factors).sum(axis=1)
        upper = (l1**2 + np.sum(factors**2, axis=1)) / 2
        return cls(float(l1.max()), float(l1.max()) ** 2, float(upper.max()))


@dataclass(frozen=True)
class Term:
    """One coefficient of the loss: its query, shape per profile, l1 sensitivity and noise scale."""

    query: str
    shape: tuple[int, ...]
    sensitivity: float
    scale: float


@dataclass(frozen=True, kw_only=True)
class Dpimf:
    """Settings, card and rounds; a variant says which terms are noised and how to solve.

    The norms that scale the noise are bounded by a public clip, or (clip `none`, as published) read
    off the data, which certifies nothing. With one round the fixed factors are still the random
    start, so the releases certify epsilon per user-item cell; later rounds refit them from the same
    rows, which no release covers. With user profiles not even one round certifies anything: the
    item factors that every user's scores need are then fitted to all users' raw rows.
    """

    id: ClassVar[str]
    name: ClassVar[str]
    task: ClassVar[Task] = Task.RANKING
    twin: ClassVar[str] = "ials"
    floor: ClassVar[str] = "popularity"
    over: ClassVar[Over] = Over.MISSING
    epsilon: float = setting(help="privacy budget of one solve of a profile", above=0, at_most=1e6)
    rank: int = setting(8, "length of a profile (d)", at_least=1, at_most=256)
    regularisation: float = setting(
        0.004, "weight of the frequency ridge (lambda); also bounds profiles", above=0, at_most=1e3
    )
    rounds: int = setting(15, "times the profiles are solved anew", at_least=1, at_most=10_000)
    clip: float | None = setting(
        0.15, "largest l1 norm of a fixed factor (none: read off the data)", above=0, at_most=1e3
    )
    clip_l2: float = setting(0.07, "largest l2 norm of a fixed factor", above=0, at_most=1e3)
    profiles: Profiles = setting(
        Profiles.ITEMS,
        "whose profiles are solved with noise",
        choices=tuple(m.value for m in Profiles),
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def weight(self) -> float:
        """alpha, the weight of cells that were not observed, in 0..1."""
        return 1.0

    def terms(self, norms: Norms) -> dict[str, Term]:
        """What is noised, given bounds on the fixed factors."""
        raise NotImplementedError

    def solve(
        self, columns: csr_array, factors: Floats, releases: Mapping[str, Release], rng: Rng
    ) -> Floats:
        """The minimisers of the noisy losses: profiles x d.

        columns: a row of ones for each profile (profiles x m). factors: m x d. releases: as `terms`
        names them, at the scale to use.
        """
        raise NotImplementedError

    @property
    def loss(self) -> ImplicitLoss:
        """The loss without noise."""
        return ImplicitLoss(self.weight(), self.regularisation, self.over)

    @property
    def radius(self) -> float:
        """Bound on ||q||_2: no minimiser of the loss without noise is longer (Lemma 1)."""
        return math.sqrt(1.0 / self.regularisation)

    def norms(self) -> Norms:
        """The public bounds; those of a one-hot factor where the clip is read off the data."""
        if self.clip is None:
            return Norms.clipped(1.0, 1.0)
        return Norms.clipped(min(self.clip, math.sqrt(self.rank) * self.clip_l2), self.clip_l2)

    def clipped(self, factors: Floats) -> Floats:
        """The fixed factors within the public bounds."""
        if self.clip is None:
            return factors
        with np.errstate(divide="ignore"):
            l1 = self.clip / np.abs(factors).sum(axis=1)
            l2 = self.clip_l2 / np.linalg.norm(factors, axis=1)
        scaled: Floats = factors * np.minimum(np.minimum(l1, l2), 1.0)[:, None]
        return scaled

    def releases(self, published: int) -> dict[str, Release]:
        """The releases of all rounds, for so many profiles."""
        clip_is_public = self.clip is not None
        return {
            name: Laplace(
                query=term.query,
                shape=(published, *term.shape),
                times=self.rounds,
                sensitivity=by_unit(entry=term.sensitivity) if clip_is_public else by_unit(),
                scale=term.scale,
            )
            for name, term in self.terms(self.norms()).items()
        }

    def guarantee(self, public: PublicFacts) -> Guarantee:
        items = self.profiles is Profiles.ITEMS
        other = "user" if items else "item"
        refit = Unaccounted(
            f"{other} factors",
            "refitted from the same rows each round, while the noise takes them as public",
        )
        shared = Unaccounted(
            "item factors", "fitted to every user's raw row; each user's scores use them"
        )
        unaccounted = ((refit,) if self.rounds > 1 else ()) + (() if items else (shared,))
        return Guarantee(
            unit=Unit.USER,
            neighbours=Neighbours.REPLACE,
            notion=Notion.PURE,
            trust=Trust.FEDERATED,
            publishes=f"{self.profiles.value[:-1]} profiles, to the server and every party",
            public=public,
            claimed=Budget(self.epsilon),
            source="RYHH24, Theorem 3",
            releases=self.releases(public.items if items else public.users),
            unaccounted=unaccounted,
            caveats=(
                "the claim counts one cell of one solve: a whole row moves a cell of every profile"
                " it touches, and each round spends the budget again",
                f"{other} factors are fitted to raw rows and stay with their party",
            ),
        )

    def fit(self, ratings: Ratings, rng: Rng) -> Iterator[Step]:
        matrix = binary_matrix(ratings)
        if self.profiles is Profiles.USERS:
            matrix = transposed(matrix)
        columns = transposed(matrix)
        self.check_size(columns.shape[0])
        releases = self.guarantee(ratings.public).releases
        factors = rng.random((matrix.shape[0], self.rank))  # the start: no data in it
        for k in range(1, self.rounds + 1):
            found = self.private_profiles(columns, factors, releases, rng)
            factors = solve_rows(matrix, found, self.loss)
            raw = {
                "loss": self.loss.value(matrix, factors, found),
                "share of fixed factors that the clip shortens": self._share_clipped(factors),
            }
            sides = (factors, found) if self.profiles is Profiles.ITEMS else (found, factors)
            yield Step(k, self.rounds, Factors(*sides), raw, frozenset(raw), k == self.rounds)

    def private_profiles(
        self, columns: csr_array, factors: Floats, releases: Mapping[str, Release], rng: Rng
    ) -> Floats:
        """Clip the fixed factors and solve every profile once with noise."""
        fixed = self.clipped(factors)
        if self.clip is None:
            stated, found = self.terms(self.norms()), self.terms(Norms.read_off(fixed))
            releases = {
                name: _louder(release, found[name].scale / stated[name].scale)
                for name, release in releases.items()
            }
        return self.solve(columns, fixed, releases, rng)

    def check_size(self, published: int) -> None:
        """Refuse noise that would not fit in memory."""
        largest = max(math.prod(term.shape) for term in self.terms(self.norms()).values())
        if published * largest > LARGEST:
            raise InvalidSetting(
                "rank",
                f"small enough that the noise of a round, {published:,} profiles x {largest:,},"
                f" stays below {LARGEST:,} numbers",
                self.rank,
            )

    def _share_clipped(self, factors: Floats) -> float:
        return float(np.mean(np.any(self.clipped(factors) != factors, axis=1)))


def _louder(release: Release, factor: float) -> Release:
    assert isinstance(release, Laplace)
    return release.at_scale(factor * release.scale)


Rng = np.random.Generator
