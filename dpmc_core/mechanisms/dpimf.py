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
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpmc_core.arrays import FactorAxis, Floats, ItemAxis, Rng, Sparse, UserAxis
from dpmc_core.errors import InvalidSetting
from dpmc_core.model import Factors, Mechanism, OwnSide, Step, Steps, Task
from dpmc_core.privacy import (
    CELL,
    USER_REPLACED,
    Guarantee,
    Harmless,
    Laplace,
    Publishes,
    Releases,
    SampledLaplace,
    Sums,
    Trust,
    Unaccounted,
    harmless,
)
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import PublishedSettings, inherit_setting, mechanism, setting
from dpmc_core.solvers.factorization import (
    ImplicitLoss,
    PenalisedCells,
    binary_matrix,
    minimise_in_ball,
    solve_implicit_rows,
)
from dpmc_core.solvers.rows import normal_equations, shrinkage
from dpmc_core.solvers.sizes import check_noise_size
from dpmc_core.style import BLUE, PURPLE, SKY, VERMILION, Style


class Profiles(enum.Enum):
    """Whose factors are the profiles, which are solved with noise and published."""

    ITEMS = "items"
    USERS = "users"


class Variant(enum.Enum):
    """The five variants of the paper: what is noised of a profile's loss, and how."""

    STRAWMAN = "strawman"  # all coefficients of iALS's own loss, at one scale
    COMPLEMENTARY = "complementary"  # those of the complementary loss, each at its own scale
    SYMMETRIC = "symmetric"  # the same, with the upper triangle of the second moment only
    OPTIMAL = "optimal"  # the first order only: missing cells weigh as much as observed ones
    SAMPLED = "sampled"  # the same, importance-sampled


_QUERIES = {
    Profiles.ITEMS: (
        "doubled sum of the factors of all users who chose the item (A1)",
        "weighted second moment of the factors of all users, for each item (A2)",
        "weighted number of users who did and did not choose the item (the ridge)",
    ),
    Profiles.USERS: (
        "doubled sum of the factors of all items that the user chose (A1)",
        "weighted second moment of the factors of all items, for each user (A2)",
        "weighted number of items that the user did and did not choose (the ridge)",
    ),
}
_SAMPLED_NOTE = ", importance-sampled so that no cell's loss passes that of the longest"
_ALPHA = 0.8
SINGLE_PARTY_NOTE = (
    "; its ten parties take 100 rounds of 20 solves each: here one party takes 100"
    " ('dpmc protocol federated' has parties)"
)
_PUBLISHED_NOTE = f"rank and lambda are those for MovieLens in its experiments{SINGLE_PARTY_NOTE}"


@dataclass(frozen=True)
class FactorNorms:
    """Bounds on the norms of every fixed factor p.

    Attributes:
        l1: the bound on ||p||_1.
        full: the bound on ||p||_1^2, the sum of |pp'| over all entries.
        upper: the bound on (||p||_1^2 + ||p||_2^2) / 2, the sum of |pp'| over the upper triangle.
    """

    l1: float
    full: float
    upper: float

    @classmethod
    def from_clip(cls, l1: float, l2: float) -> FactorNorms:
        """Return the bounds of every p with ||p||_1 <= l1 and ||p||_2 <= l2."""
        return cls(l1, l1**2, (l1**2 + min(l1, l2) ** 2) / 2)  # ||p||_2 <= ||p||_1

    @classmethod
    def from_factors(cls, factors: Floats) -> FactorNorms:
        """Return the largest norms among some factors: these are private, as published.

        Args:
            factors: shape (m, d).
        """
        l1_norms = np.abs(factors).sum(axis=1)
        upper_sums = (l1_norms**2 + np.sum(factors**2, axis=1)) / 2
        largest = float(l1_norms.max())
        return cls(largest, largest**2, float(upper_sums.max()))


@dataclass(frozen=True)
class Coefficients(Releases):
    """The noised coefficients of a profile's loss.

    Attributes:
        first: A1, shape (n_profiles, d).
        second: A2 without its ridge, shape (n_profiles, d, d), or (n_profiles, d (d + 1) / 2) for
            the upper triangle; None where it does not depend on the clicks.
        ridge: shape (n_profiles,), the weighted number of clicks and of cells without one; None
            where it does not depend on the clicks.
    """

    first: Laplace
    second: Laplace | None = None
    ridge: Laplace | None = None


@mechanism
class Dpimf(Mechanism):
    """The base of the five variants, which differ in the terms that are noised.

    The norms that scale the noise are bounded by a public clip, or (clip `none`, as published) read
    off the data, which certifies nothing. With one round the fixed factors are still the random
    start, so the releases certify epsilon per user-item cell; later rounds refit them from the same
    rows, which no release covers. With user profiles not even one round certifies anything: the
    item factors that every user's scores need are then fitted to all users' raw rows.

    Attributes:
        variant: which terms are noised, and how.
    """

    variant: ClassVar[Variant]
    change = USER_REPLACED
    trust = Trust.FEDERATED
    source = "RYHH24, Theorem 3"
    task = Task.RANKING
    nonprivate_counterpart = "ials"
    baseline = "private-popularity"
    revision = 1
    published_settings = PublishedSettings(
        {
            "clip": None,
            "profiles": Profiles.USERS,
            "rank": 20,
            "regularisation": 0.07,
            "rounds": 100,
        },
        _PUBLISHED_NOTE,
    )
    # Subclasses in which missing cells may weigh less make these settings.
    alpha = 1.0
    beta1, beta2, beta3 = 1.0, 0.0, 0.0
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

    def build_coefficients(self, norms: FactorNorms, n_profiles: int) -> Coefficients:
        """Return the releases of all profiles' coefficients, with the noise that the norms ask for.

        Args:
            norms: bounds on the fixed factors.
            n_profiles: the number of profiles.
        """
        d, epsilon = FactorAxis(self.rank), self.epsilon
        profile_axis = ItemAxis if self.profiles is Profiles.ITEMS else UserAxis
        # How far one cell moves A1, A2 without its ridge, and the ridge, in l1.
        complement = 1.0 - self.alpha
        first, second, ridge = 2.0 * norms.l1, complement * norms.full, complement
        second_shape: tuple[int, ...] = (d, d)
        scales = [first / epsilon]  # at alpha = 1 only A1 depends on the clicks and is released
        if self.variant is Variant.STRAWMAN:  # Eq. 9: a click adds 1 to its weight, not 1 - alpha
            second, ridge = norms.full, 1.0
            scales = 3 * [(first + second + ridge) / epsilon]
        elif complement > 0:
            if self.variant is Variant.SYMMETRIC:  # Eq. 18
                second_shape, second = (d * (d + 1) // 2,), complement * norms.upper
            scales = [
                first / (self.beta1 * epsilon),
                second / (self.beta2 * epsilon),
                ridge / (self.beta3 * epsilon),
            ]
        shapes = (d,), second_shape, ()
        sensitivities = first, second, ridge
        # There are as many releases as scales, so `zip` may leave out A2 and the ridge.
        terms = zip(_QUERIES[self.profiles], shapes, sensitivities, scales, strict=False)
        noisy_terms = [
            Laplace(
                query=query,
                shape=(profile_axis(n_profiles), *shape),
                # Without a public clip the scale is read off the data, which certifies nothing.
                sensitivity={CELL: sensitivity} if self.clip is not None else {},
                scale=scale,
                times=self.rounds,
            )
            for query, shape, sensitivity, scale in terms
        ]
        if self.variant is Variant.SAMPLED:
            (term,) = noisy_terms
            fields = vars(term) | {"query": term.query + _SAMPLED_NOTE}
            noisy_terms = [SampledLaplace(**fields, longest=2.0 * norms.l1, budget=epsilon)]
        return Coefficients(*noisy_terms)

    @property
    def loss(self) -> ImplicitLoss:
        """The loss that a solve of profiles minimises before it gets noise.

        The strawman takes the loss of iALS, and all other variants the paper's complementary loss.
        """
        penalised_cells = (
            PenalisedCells.ALL if self.variant is Variant.STRAWMAN else PenalisedCells.MISSING
        )
        return ImplicitLoss(self.alpha, self.regularisation, penalised_cells)

    @property
    def radius(self) -> float:
        """The bound on ||q||_2: no minimiser of the loss without noise is longer (Lemma 1)."""
        return math.sqrt(1.0 / self.regularisation)

    def public_norms(self) -> FactorNorms:
        """Return the public bounds; those of a one-hot factor where there is no public clip."""
        if self.clip is None:
            return FactorNorms.from_clip(1.0, 1.0)
        return FactorNorms.from_clip(
            min(self.clip, math.sqrt(self.rank) * self.clip_l2), self.clip_l2
        )

    def clip_factors(self, factors: Floats) -> Floats:
        """Clip the fixed factors to the public bounds.

        Args:
            factors: shape (m, d).

        Returns:
            Array of shape (m, d).
        """
        if self.clip is None:
            return factors
        l1_scales = shrinkage(np.abs(factors).sum(axis=1), self.clip)
        l2_scales = shrinkage(np.linalg.norm(factors, axis=1), self.clip_l2)
        return factors * np.minimum(l1_scales, l2_scales)[:, None]

    def build_releases(self, n_profiles: int) -> Coefficients:
        """Return the releases of all rounds, with the noise for the public norms.

        Args:
            n_profiles: the number of profiles.
        """
        return self.build_coefficients(self.public_norms(), n_profiles)

    def guarantee(self, public: PublicFacts) -> Guarantee[Coefficients]:
        """Return the guarantee: noisy coefficients; refits to raw rows are unaccounted."""
        publishes_items = self.profiles is Profiles.ITEMS
        other_party = "user" if publishes_items else "item"
        refit_factors = Unaccounted(
            f"{other_party} factors",
            "refitted from the same rows each round, while the noise takes them as public",
        )
        shared_factors = Unaccounted(
            "item factors", "fitted to every user's raw row; each user's scores use them"
        )
        caveats = (
            "the claim counts one cell of one solve: a whole row moves a cell of every profile it"
            " touches, and each round spends the budget again",
            f"{other_party} factors are fitted to raw rows and stay with their party",
        )
        unaccounted = (refit_factors,) * (self.rounds > 1)
        unaccounted += (shared_factors,) * (not publishes_items)
        releases = self.build_releases(public.items if publishes_items else public.users)
        return self.pure_guarantee(public, releases, caveats, unaccounted)

    @property
    def publishes(self) -> Publishes:  # type: ignore[override]
        """What leaves the trusted side: the profiles of items or of users."""
        publishes_items = self.profiles is Profiles.ITEMS
        return Publishes.ITEM_PROFILES if publishes_items else Publishes.USER_PROFILES

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield a model after each round: profiles with noise, then the other side's raw fit."""
        publishes_items = self.profiles is Profiles.ITEMS
        matrix = binary_matrix(ratings)  # a row for each fixed factor, a column for each profile
        if not publishes_items:
            matrix = matrix.T.tocsr()
        columns = matrix.T.tocsr()
        self.check_noise_fits(columns.shape[0])
        releases = self.guarantee(ratings.public).releases
        factors = harmless(rng, Harmless.START).random((matrix.shape[0], self.rank))
        for index in range(1, self.rounds + 1):
            profiles = self.solve_private_profiles(columns, factors, releases, rng)
            factors = solve_implicit_rows(matrix, profiles, self.loss)
            is_shortened = np.any(self.clip_factors(factors) != factors, axis=1)
            trace = {
                "loss": self.loss.value(matrix, factors, profiles),
                "share of fixed factors that the clip shortens": is_shortened.mean(),
            }
            model = Factors(factors, profiles) if publishes_items else Factors(profiles, factors)
            yield Step.from_trace(index, self.rounds, model, trace)

    def solve_private_profiles(
        self, columns: Sparse, factors: Floats, releases: Coefficients, rng: Rng
    ) -> Floats:
        """Clip the fixed factors and solve every profile once with noise.

        Args:
            columns: shape (n_profiles, m), a row of ones for each profile.
            factors: the fixed factors, shape (m, d).
            releases: the releases of the coefficients, as `build_releases` returns them.
            rng: draws the noise.

        Returns:
            Array of shape (n_profiles, d).

        Raises:
            InvalidSetting: if the noise is read off factors that are all zero.
        """
        clipped_factors = self.clip_factors(factors)
        if self.clip is None:  # as published: the scale is read off the factors
            norms = FactorNorms.from_factors(clipped_factors)
            if norms.full == 0:
                raise InvalidSetting(
                    "regularisation",
                    "small enough that the fixed factors do not shrink to zero, and with them the"
                    " noise that is read off them",
                    self.regularisation,
                )
            releases = self.build_coefficients(norms, columns.shape[0])
        first_order = (
            Sums(columns, 2.0 * clipped_factors)
            if self.variant is Variant.SAMPLED
            else 2.0 * (columns @ clipped_factors)
        )
        linear = releases.first.publish(first_order, rng)
        gram = clipped_factors.T @ clipped_factors
        if releases.second is None or releases.ridge is None:  # A2 is shared by all profiles
            shared = gram + self.regularisation * columns.shape[1] * np.eye(self.rank)
            return minimise_in_ball(shared, linear, self.radius)
        observed_moments, _ = normal_equations(columns, clipped_factors)
        moments = self.loss.observed_weight * observed_moments + self.alpha * gram
        if self.variant is Variant.SYMMETRIC:
            i, j = np.triu_indices(self.rank)
            moments[:, i, j] = moments[:, j, i] = releases.second.publish(moments[:, i, j], rng)
        else:
            moments = releases.second.publish(moments, rng)
        counts = np.diff(columns.indptr).astype(np.int64)
        weighted_counts = self.loss.ridge(counts, columns.shape[1]) / self.regularisation
        ridge = self.regularisation * releases.ridge.publish(weighted_counts, rng)
        moments += ridge[:, None, None] * np.eye(self.rank)
        return minimise_in_ball(moments, linear, self.radius)

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:  # noqa: ARG002
        """Describe how a user computes the user's own factors from the published ones."""
        alpha, weight = self.loss.alpha, self.loss.observed_weight
        n_penalised = (
            public.items
            if self.loss.penalised_cells is PenalisedCells.ALL
            else f"{public.items} - c"
        )
        return OwnSide(
            f"Q is items, S the c items that the user chose; u = ({weight!r} Q_S' Q_S + {alpha!r}"
            f" Q' Q + {self.regularisation!r} (c + {alpha!r} ({n_penalised})) I)^-1 times the sum"
            " of the rows of Q_S; the score of item j is Q_j u",
            (self.rank,),
        )

    def check_noise_fits(self, n_profiles: int) -> None:
        """Raise InvalidSetting where the noise of a round does not fit in memory."""
        single_profile = self.build_releases(1)
        max_values = max(math.prod(n or 1 for n in release.shape) for _, release in single_profile)
        check_noise_size(self.rank, n_profiles, max_values)


@mechanism
class Strawman(Dpimf):
    """One budget for all coefficients of iALS's own loss: every one gets Laplace(Delta/eps).

    Delta = 2 ||p||_1 + sum |pp'| + 1 (RYHH24, Eq. 9); the second term runs over all users, so a
    cell moves its whole pp'.
    """

    id = "dpimf-strawman"
    name = "DPIMF, strawman"
    short = "DPIMF strawman"
    style = Style(VERMILION, "triangle-down", "dot")
    variant = Variant.STRAWMAN
    published_settings = PublishedSettings(
        Dpimf.published_settings.settings,
        f"{_PUBLISHED_NOTE}; alpha, {_ALPHA:g}, is printed for the other variants of figure 5 only",
    )
    alpha: float = setting(
        _ALPHA, "weight of cells that were not observed (alpha0)", at_least=0, at_most=1
    )


@mechanism
class Complementary(Dpimf):
    """The complementary loss: zeros pull only where nothing was observed (RYHH24, section IV-B).

    A cell that turns from zero to one moves the second moment by (1 - alpha) pp' and the ridge by 1
    - alpha only. The budget is split as beta1 : beta2 : beta3 over first order, second moment and
    ridge, each with its own sensitivity; at alpha = 1 all of it goes to the first order.
    """

    id = "dpimf-complementary"
    name = "DPIMF, complementary loss"
    short = "DPIMF compl. loss"
    style = Style(SKY, "pentagon", "dash")
    variant = Variant.COMPLEMENTARY
    published_settings = PublishedSettings(
        {**Dpimf.published_settings.settings, "beta1": 0.1, "beta2": 0.8, "beta3": 0.1},
        f"{_PUBLISHED_NOTE}; alpha, {_ALPHA:g}, is printed for figure 5 only, the split of the"
        " budget for its noise only",
    )
    alpha: float = inherit_setting(Strawman, "alpha")
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


@mechanism
class Symmetric(Complementary):
    """The complementary loss with symmetric noise: only the upper triangle is released.

    Its sensitivity is (1 - alpha) (||p||_1^2 + ||p||_2^2)/2 (RYHH24, Eq. 18), so a bound on
    ||p||_2 well below that on ||p||_1 is what makes it pay.
    """

    id = "dpimf-symmetric"
    name = "DPIMF, symmetric noise"
    short = "DPIMF symmetric"
    style = Style(BLUE, "square", "dashdot")
    variant = Variant.SYMMETRIC


@mechanism
class Optimal(Dpimf):
    """The variant with alpha = 1: second moment and ridge do not depend on the clicks.

    Only A1 is noised, with all of the budget, and A2 = G_U + lambda m I is shared by all profiles.
    """

    id = "dpimf-optimal"
    name = "DPIMF, optimal"
    short = "DPIMF optimal"
    style = Style(BLUE, "circle")
    variant = Variant.OPTIMAL


@mechanism
class Sampled(Dpimf):
    """The optimal variant with importance sampling: each click counts w times with probability 1/w.

    The weights keep the privacy loss of every cell at epsilon for the same noise (`SampledLaplace`
    proves it): a cell whose fixed factor is short is sampled rarely and counted more. Because
    (e^{aw} - 1)/w grows with w, no weights allow less noise than none; the gain is a smaller
    sample.
    """

    id = "dpimf-sampled"
    name = "DPIMF, optimal with importance sampling"
    short = "DPIMF sampled"
    style = Style(PURPLE, "cross", "longdash")
    variant = Variant.SAMPLED
