"""Differentially private implicit matrix factorisation: five ways to noise the loss of a profile.

RYHH24: Ran, Ye, Huang, Hu, "Differentially Private Implicit Matrix Factorization" (2024).

One side's profiles are solved with noise on their loss and published; the other side's factors are
refitted from the raw rows each round and never leave their owner. With p the fixed factors (m
rows), an item's loss is q'A2 q - q'A1 (Algorithm 2), where

    A1 = 2 sum_{U_i} p,   A2 = G_{U_i} + alpha (G_U - G_{U_i}) + lambda (|U_i| + alpha |not U_i|) I.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import InvalidSetting
from dpmc_core.model import Factors, Mechanism, OwnSide, Step, Task
from dpmc_core.privacy import (
    CELL,
    USER_REPLACED,
    Budget,
    Guarantee,
    Harmless,
    Laplace,
    Notion,
    Publishes,
    Releases,
    SampledLaplace,
    Sums,
    Trust,
    Unaccounted,
    harmless,
)
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import AsPublished, check_settings, setting
from dpmc_core.solvers.als import normal_equations
from dpmc_core.solvers.implicit import (
    ImplicitLoss,
    Over,
    binary_matrix,
    solve_rows,
)
from dpmc_core.solvers.rows import shrinkage
from dpmc_core.solvers.sizes import check_noise
from dpmc_core.solvers.trust_region import minimise_in_ball
from dpmc_core.style import BLUE, GREEN, ORANGE, RED, SKY, Style

if TYPE_CHECKING:
    from scipy.sparse import csr_array


Floats = NDArray[np.float64]
Rng = np.random.Generator


class Profiles(enum.Enum):
    """Whose profiles are solved with noise and published."""

    ITEMS = "items"
    USERS = "users"


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


_ALPHA = 0.8
ALONE = (
    "; its ten parties take 100 rounds of 20 solves each: here one party takes 100"
    " ('dpmc protocol federated' has parties)"
)
_PRINTED = f"rank and lambda are those for MovieLens in its experiments{ALONE}"


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
class Coefficients(Releases):
    """The coefficients of a profile's loss that are noised, one of each for every profile."""

    first: Laplace
    second: Laplace | None = None
    ridge: Laplace | None = None


@dataclass(frozen=True, kw_only=True)
class Dpimf(Mechanism):
    """Settings, card and rounds; a variant says which terms are noised, and how.

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
    floor: ClassVar[str] = "private-popularity"
    revision: ClassVar[int]
    over: ClassVar[Over] = Over.MISSING
    published: ClassVar[AsPublished] = AsPublished(
        {
            "clip": None,
            "profiles": Profiles.USERS,
            "rank": 20,
            "regularisation": 0.07,
            "rounds": 100,
        },
        _PRINTED,
    )
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
    profiles: Profiles = setting(Profiles.ITEMS, "whose profiles are solved with noise")

    def __post_init__(self) -> None:
        check_settings(self)

    def weight(self) -> float:
        """alpha, the weight of cells that were not observed, in 0..1."""
        return 1.0

    def noised(self, norms: Norms, published: int) -> Coefficients:
        """What is noised for so many profiles, given bounds on the fixed factors.

        At alpha = 1 the first-order term with all of the budget: the others need no noise.
        """
        moves, shape = 2.0 * norms.l1, (published, self.rank)
        return Coefficients(self.release(_FIRST, shape, moves, moves / self.epsilon))

    def solve(
        self, columns: csr_array, factors: Floats, releases: Coefficients, rng: Rng
    ) -> Floats:
        """The minimisers of the noisy losses: profiles x d.

        columns: a row of ones for each profile (profiles x m). factors: m x d. releases: as
        `noised` names them, at the scale to use.
        """
        m, gram = columns.shape[1], factors.T @ factors
        linear = self._linear(columns, factors, releases.first, rng)
        if releases.second is None or releases.ridge is None:  # alpha = 1: shared by all profiles
            shared = gram + self.regularisation * m * np.eye(self.rank)
            return minimise_in_ball(shared, linear, self.radius)
        own = self.loss.own_weight * normal_equations(columns, factors)[0]
        quadratic = self._second(own + self.weight() * gram, releases.second, rng)
        counts = np.diff(columns.indptr).astype(np.int64)
        ridge = self.loss.ridge(counts, m) / self.regularisation
        ridge = self.regularisation * releases.ridge.publish(ridge, rng)
        diagonal = np.arange(self.rank)
        quadratic[:, diagonal, diagonal] += ridge[:, None]
        return minimise_in_ball(quadratic, linear, self.radius)

    def _linear(self, columns: csr_array, factors: Floats, release: Laplace, rng: Rng) -> Floats:
        return release.publish(2.0 * (columns @ factors), rng)

    def _second(self, moments: Floats, release: Laplace, rng: Rng) -> Floats:
        return release.publish(moments, rng)

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
        l1 = shrinkage(np.abs(factors).sum(axis=1), self.clip)
        l2 = shrinkage(np.linalg.norm(factors, axis=1), self.clip_l2)
        return factors * np.minimum(l1, l2)[:, None]

    def releases(self, published: int) -> Coefficients:
        """The releases of all rounds, for so many profiles."""
        return self.noised(self.norms(), published)

    def release(
        self, query: dict[Profiles, str], shape: tuple[int, ...], moves: float, scale: float
    ) -> Laplace:
        """A coefficient that one cell moves so far; it certifies nothing without a public clip."""
        release = Laplace(
            query=query[self.profiles],
            shape=shape,
            times=self.rounds,
            sensitivity={CELL: moves},
            scale=scale,
        )
        return release if self.clip is not None else release.at_scale(scale)

    def guarantee(self, public: PublicFacts) -> Guarantee[Coefficients]:
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
            change=USER_REPLACED,
            notion=Notion.PURE,
            trust=Trust.FEDERATED,
            publishes=Publishes.ITEM_PROFILES if items else Publishes.USER_PROFILES,
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
            matrix = matrix.T.tocsr()
        columns = matrix.T.tocsr()
        self.check_size(columns.shape[0])
        releases = self.guarantee(ratings.public).releases
        factors = harmless(rng, Harmless.START).random((matrix.shape[0], self.rank))
        for k in range(1, self.rounds + 1):
            found = self.private_profiles(columns, factors, releases, rng)
            factors = solve_rows(matrix, found, self.loss)
            raw = {
                "loss": self.loss.value(matrix, factors, found),
                "share of fixed factors that the clip shortens": self._share_clipped(factors),
            }
            items = self.profiles is Profiles.ITEMS
            sides = (factors, found) if items else (found, factors)
            model = Factors(*sides)
            yield Step(k, self.rounds, model, raw, frozenset(raw), k == self.rounds)

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:  # noqa: ARG002
        alpha, weight = self.loss.alpha, self.loss.own_weight
        rest = public.items if self.over is Over.ALL else f"{public.items} - c"
        return OwnSide(
            "Q is items, S the c items that the user chose;"
            f" u = ({weight!r} Q_S' Q_S + {alpha!r} Q' Q + {self.regularisation!r} (c +"
            f" {alpha!r} ({rest})) I)^-1 times the sum of the rows of Q_S; the score of item j is"
            " Q_j u",
            (self.rank,),
        )

    def private_profiles(
        self, columns: csr_array, factors: Floats, releases: Coefficients, rng: Rng
    ) -> Floats:
        """Clip the fixed factors and solve every profile once with noise."""
        fixed = self.clipped(factors)
        if self.clip is None:
            norms = Norms.read_off(fixed)
            try:
                releases = self.noised(norms, columns.shape[0])
            except InvalidSetting:
                if norms.full > 0:
                    raise
                raise InvalidSetting(
                    "regularisation",
                    "small enough that the fixed factors do not shrink to zero, and with them the"
                    " noise that is read off them",
                    self.regularisation,
                ) from None
        return self.solve(columns, fixed, releases, rng)

    def check_size(self, published: int) -> None:
        """Refuse noise that would not fit in memory."""
        one = self.releases(1)
        largest = max(math.prod(n or 1 for n in release.shape) for _, release in one)
        check_noise(self.rank, published, largest)

    def _share_clipped(self, factors: Floats) -> float:
        return float(np.mean(np.any(self.clipped(factors) != factors, axis=1)))


@dataclass(frozen=True, kw_only=True)
class _Weighted(Dpimf):
    """The variants in which alpha < 1 leaves noise on the second moment and the ridge."""

    published: ClassVar[AsPublished] = AsPublished(
        Dpimf.published.settings,
        f"{_PRINTED}; alpha, {_ALPHA:g}, is printed for the other variants of figure 5 only",
    )
    alpha: float = setting(
        _ALPHA, "weight of cells that were not observed (alpha0)", at_least=0, at_most=1
    )

    def weight(self) -> float:
        return self.alpha


@dataclass(frozen=True, kw_only=True)
class Strawman(_Weighted):
    """One budget for all coefficients of iALS's own loss: every one gets Laplace(Delta/eps).

    Delta = 2 ||p||_1 + sum |pp'| + 1 (RYHH24, Eq. 9); the second term runs over all users, so a
    cell moves its whole pp'.
    """

    id: ClassVar[str] = "dpimf-strawman"
    name: ClassVar[str] = "DPIMF, strawman"
    short: ClassVar[str] = "DPIMF strawman"
    style: ClassVar[Style] = Style(RED, "triangle-down", "dot")
    revision: ClassVar[int] = 1
    over: ClassVar[Over] = Over.ALL

    def noised(self, norms: Norms, published: int) -> Coefficients:
        scale = (2.0 * norms.l1 + norms.full + 1.0) / self.epsilon
        d = self.rank
        return Coefficients(
            first=self.release(_FIRST, (published, d), 2.0 * norms.l1, scale),
            second=self.release(_SECOND, (published, d, d), norms.full, scale),
            ridge=self.release(_RIDGE, (published,), 1.0, scale),
        )


@dataclass(frozen=True, kw_only=True)
class Complementary(_Weighted):
    """The complementary loss: zeros pull only where nothing was observed (RYHH24, section IV-B).

    A cell that turns from zero to one moves the second moment by (1 - alpha) pp' and the ridge by
    1 - alpha only. The budget is split as beta1 : beta2 : beta3 over first order, second moment and
    ridge, each with its own sensitivity; at alpha = 1 all of it goes to the first order.
    """

    id: ClassVar[str] = "dpimf-complementary"
    name: ClassVar[str] = "DPIMF, complementary loss"
    short: ClassVar[str] = "DPIMF compl. loss"
    style: ClassVar[Style] = Style(ORANGE, "pentagon", "dash")
    revision: ClassVar[int] = 1
    published: ClassVar[AsPublished] = AsPublished(
        {**Dpimf.published.settings, "beta1": 0.1, "beta2": 0.8, "beta3": 0.1},
        f"{_PRINTED}; alpha, {_ALPHA:g}, is printed for figure 5 only, the split of the budget for"
        " its noise only",
    )
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

    def noised(self, norms: Norms, published: int) -> Coefficients:
        if self.alpha == 1:
            return super().noised(norms, published)
        first, rest, epsilon = 2.0 * norms.l1, 1.0 - self.alpha, self.epsilon
        shape, moved = self._second_shape(norms)
        second = rest * moved
        return Coefficients(
            first=self.release(
                _FIRST, (published, self.rank), first, first / (self.beta1 * epsilon)
            ),
            second=self.release(
                _SECOND, (published, *shape), second, second / (self.beta2 * epsilon)
            ),
            ridge=self.release(_RIDGE, (published,), rest, rest / (self.beta3 * epsilon)),
        )

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
    short: ClassVar[str] = "DPIMF symmetric"
    style: ClassVar[Style] = Style(SKY, "hexagon", "dashdot")
    revision: ClassVar[int] = 1

    def _second_shape(self, norms: Norms) -> tuple[tuple[int, ...], float]:
        return (self.rank * (self.rank + 1) // 2,), norms.upper

    def _second(self, moments: Floats, release: Laplace, rng: Rng) -> Floats:
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
    short: ClassVar[str] = "DPIMF optimal"
    style: ClassVar[Style] = Style(BLUE, "circle")
    revision: ClassVar[int] = 1


@dataclass(frozen=True, kw_only=True)
class Sampled(Optimal):
    """The optimal variant with importance sampling: each one counts w times with chance 1/w.

    The weights keep the privacy loss of every cell at epsilon for the same noise (`SampledLaplace`
    proves it): a cell whose fixed factor is short is drawn rarely and counted more. Because
    (e^{aw} - 1)/w grows with w, no weights allow less noise than none; what is gained is a smaller
    sample.
    """

    id: ClassVar[str] = "dpimf-sampled"
    name: ClassVar[str] = "DPIMF, optimal with importance sampling"
    short: ClassVar[str] = "DPIMF sampled"
    style: ClassVar[Style] = Style(GREEN, "cross", "longdash")
    revision: ClassVar[int] = 1

    def noised(self, norms: Norms, published: int) -> Coefficients:
        plain = super().noised(norms, published).first
        sampled = SampledLaplace(
            query=f"{plain.query}, importance-sampled so that no cell's loss passes that of the"
            " longest",
            shape=plain.shape,
            times=plain.times,
            sensitivity=plain.sensitivity,
            scale=plain.scale,
            longest=2.0 * norms.l1,
            budget=self.epsilon,
        )
        return Coefficients(sampled)

    def _linear(self, columns: csr_array, factors: Floats, release: Laplace, rng: Rng) -> Floats:
        return release.publish(Sums(columns, 2.0 * factors), rng)
