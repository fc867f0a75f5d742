"""Differentially private matrix factorization with a trusted recommender (scenario 1).

HXZ15: Hua, Xia, Zhong, "Differentially Private Matrix Factorization" (2015).
RYHH24: Ran, Ye, Huang, Hu, "Differentially Private Implicit Matrix Factorization" (2024).
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpmc_core.arrays import FactorAxis, Floats, ItemAxis, Rng, Sparse
from dpmc_core.model import Constant, Factors, Mechanism, OwnSide, Step, Steps, Task
from dpmc_core.privacy import (
    CELL,
    RATING,
    Guarantee,
    Laplace,
    NormLaplace,
    Publishes,
    Releases,
    Trust,
    Unaccounted,
)
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import PublishedSettings, inherit_setting, mechanism, setting
from dpmc_core.solvers.factorization import (
    LeastSquaresMF,
    PublicUserFactors,
    RatingMatrices,
    binary_matrix,
)
from dpmc_core.solvers.rows import factors_with_offsets, solve_ridge
from dpmc_core.style import PURPLE, SKY, VERMILION, Style

LINEAR_TERM = "linear term of each item's objective"


class NoiseForm(enum.Enum):
    """The form of the noise vector on an item's objective."""

    # Density proportional to exp(-eps ||eta||_2 / (2 width)), as published for scenario 1.
    NORM = "norm"
    # Laplace noise on coordinates, as in the scenarios without a trusted party.
    COORDINATE = "coordinate"


@dataclass(frozen=True)
class LinearTerm(Releases):
    """The release of the linear terms.

    Attributes:
        linear_term: shape (items, rank).
    """

    linear_term: NormLaplace | Laplace


@mechanism
class DPMF(Mechanism, LeastSquaresMF):
    """Objective perturbation of the item factors, user factors held fixed (HXZ15, scenario 1).

    Fit without noise, keep U secret and fixed, add eta_j'v_j to each item's objective: v_j = (A_j +
    mu I)^-1 (b_j - eta_j/2) with A_j = sum u_i u_i', b_j = sum r_ij u_i. One rating moves the
    linear term -2 b_j by at most 2 width ||u_i|| <= 2 width. V is published; each user computes the
    own factors again from V and the own ratings, at home. U may be public from the start instead.

    Attributes:
        raters: the users over whom the sum of u u' runs, in words.
    """

    id = "dpmf"
    name = "Private matrix factorization"
    short = "Private MF"
    style = Style(PURPLE, "triangle-right", "dot")
    task = Task.RATINGS
    nonprivate_counterpart = "pmf"
    baseline = "private-mean"
    revision = 1
    change = RATING  # it moves one r_ij by `rating_sensitivity` at most
    trust = Trust.CURATOR
    publishes = Publishes.FACTORS_ALONE
    source = "HXZ15, scenario 1"
    raters: ClassVar[str] = "an item's raters"
    published_settings = PublishedSettings(
        {"noise": NoiseForm.NORM, "shrink": False},
        "rank and penalties stay what they are: the summary that this program knows the paper by"
        " prints none, nor whether users fit their factors anew to the published ones, as here",
    )
    epsilon: float = setting(help="privacy budget per rating", above=0, at_most=1e6)
    noise: NoiseForm = setting(
        NoiseForm.NORM,
        "noise by the norm of an item's vector (published), or Laplace on each coordinate",
    )
    shrink: bool = setting(
        True, "raise the item penalty with the noise, by a rule that reads no data"
    )
    user_factors: PublicUserFactors | None = setting(
        None,
        "public user factors: random:SEED or a .npy file of users x rank (none: fitted)",
        parse=PublicUserFactors.parse,
    )

    def rating_sensitivity(self, public: PublicFacts) -> float:
        """Return how far the value r_ij of one cell can move, in rating points."""
        return public.width

    def noisy_penalty(self, public: PublicFacts) -> float:
        """Return the ridge penalty of the noisy solution.

        With `shrink` the penalty grows by the standard deviation of eta/2 over that of an item
        factor, which is taken to be a quarter of the range. So it suits the noise, and depends on
        public numbers only.
        """
        if not self.shrink:
            return self.item_penalty
        factor_std = self.rating_sensitivity(public) / 4
        noise_std = self.guarantee(public).releases.linear_term.std
        return self.item_penalty + 0.5 * noise_std / factor_std

    def guarantee(self, public: PublicFacts) -> Guarantee[LinearTerm]:
        """Return the guarantee: noisy linear terms; raw user factors are unaccounted."""
        is_norm_noise = self.noise is NoiseForm.NORM
        change_norm = 2 * self.rating_sensitivity(public)  # l2; in l1 at most sqrt(rank) times it
        norm_ratio = 1 if is_norm_noise else math.sqrt(self.rank)
        is_bounded = self.unit_ball or self.user_factors is not None
        release = (NormLaplace if is_norm_noise else Laplace)(
            query=LINEAR_TERM,
            shape=(ItemAxis(public.items), FactorAxis(self.rank)),
            sensitivity={self.change: change_norm * norm_ratio} if is_bounded else {},
            scale=change_norm / self.epsilon * norm_ratio,
        )
        unit_label = "rating" if self.change is RATING else "click"
        if self.user_factors is not None:
            assumption = f"certified given that the user factors ({self.user_factors}) are public"
            return self.pure_guarantee(public, LinearTerm(release), (assumption,))
        unaccounted_factors = (
            Unaccounted(
                f"user factors, fitted on the same {unit_label}s without noise",
                f"the proof holds them constant; through them one {unit_label} moves every item",
            ),
            Unaccounted(
                f"the sum of u u' over the factors u of {self.raters}",
                "enters the published factors without noise",
            ),
        )
        return self.pure_guarantee(public, LinearTerm(release), unaccounted=unaccounted_factors)

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield a step without a model for each noiseless alternation, and last the private fit."""
        matrices = self.build_matrices(ratings)
        public = ratings.public
        raw_names = frozenset({"objective"})
        rounds = 1 if self.user_factors else self.iterations + 1
        if self.user_factors is not None:
            user_factors = self.user_factors.build(public.users, self.rank)
        else:
            for index, (user_factors, item_factors) in enumerate(
                self.alternate(matrices, rng), start=1
            ):
                trace = {"objective": self.objective(matrices, user_factors, item_factors)}
                yield Step(index, rounds, None, trace, raw_names)  # no noise yet: not publishable
        item_factors = self.fit_private_items(matrices, user_factors, public, rng)
        user_factors = self.fit_users(matrices, item_factors)
        trace = {"objective": self.objective(matrices, user_factors, item_factors)}
        yield Step(
            rounds,
            rounds,
            self.build_model(user_factors, item_factors, public),
            trace,
            raw_names,
            final=True,
        )

    def fit_private_items(
        self, matrices: RatingMatrices, user_factors: Floats, public: PublicFacts, rng: Rng
    ) -> Floats:
        """Fit item factors from the noisy linear terms.

        Args:
            matrices: the ratings.
            user_factors: shape (users, rank).
            public: the public facts.
            rng: draws the noise.

        Returns:
            Array of shape (items, rank).
        """
        releases = self.guarantee(public).releases
        squares, moments = self.normal_equation_terms(matrices.by_item, user_factors)
        # The loss of an item is q' A q - 2 b' q; the paper adds its noise to the linear term.
        noisy = releases.linear_term.publish(-2 * moments, rng)
        item_factors = solve_ridge(squares, -noisy / 2, self.noisy_penalty(public))
        if self.change is RATING:  # which ratings exist is public here
            item_factors[np.diff(matrices.by_item.indptr) == 0] = 0.0
        return item_factors

    def build_model(
        self, user_factors: Floats, item_factors: Floats, public: PublicFacts
    ) -> Factors:
        """Return the predictions.

        Args:
            user_factors: shape (users, rank).
            item_factors: shape (items, rank).
            public: the public facts.
        """
        return factors_with_offsets(user_factors, item_factors, public.middle)

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:  # noqa: ARG002
        """Describe how a user computes the user's own factors from the published ones."""
        return OwnSide(
            f"items is [V, 1]. S are the items that the user rated and y = x_S - {public.middle!r};"
            f" u minimises |y - V_S u|^2 + {self.user_penalty!r} |u|^2{self._ball_constraint}; the"
            f" prediction for item j is {public.middle!r} + V_j u",
            (self.rank + 1,),
        )

    @property
    def _ball_constraint(self) -> str:
        """The constraint on a user's factors, in words."""
        return ", over u of length 1 at most" if self.unit_ball else ""


@mechanism
class ClickDPMF(DPMF):
    """DPMF on clicks, every cell of the matrix a rating of 1 or 0 (RYHH24's competitor).

    RYHH24 lists DPMF among its competitors and does not say how ratings are made of clicks; its
    Table I has DPMF protect ratings, not which items were chosen. With the ones alone there is
    nothing to fit, and that they are there is what DPMF leaves public. Over all cells A = sum u_i
    u_i' runs over all users and is the same for every item, so a click that comes or goes moves the
    linear term alone, by at most 2 ||u_i|| <= 2: with public user factors the noise covers which
    clicks exist, a guarantee per cell. User factors fitted to the same clicks, as published, void
    it, as they do for ratings.
    """

    id = "dpmf-clicks"
    name = "Private matrix factorization of clicks"
    style = Style(VERMILION, "triangle-right", "8px,3px")
    task = Task.RANKING
    nonprivate_counterpart = "ials"
    baseline = "local-popularity"  # the baseline with a guarantee per cell
    change = CELL
    source = "HXZ15, scenario 1, every cell a rating of 0 or 1"
    raters = "all users"
    published_settings = PublishedSettings(
        {"noise": NoiseForm.NORM, "shrink": False, "rank": 20, "iterations": 100},
        "rank and rounds are RYHH24's for MovieLens; how it makes ratings of clicks, and its"
        " penalties in the scale of this loss, are not printed",
    )
    epsilon: float = setting(help="privacy budget per user-item cell", above=0, at_most=1e6)
    rank: int = inherit_setting(LeastSquaresMF, "rank", default=8)
    user_penalty: float = inherit_setting(LeastSquaresMF, "user_penalty", default=0.1)
    item_penalty: float = inherit_setting(LeastSquaresMF, "item_penalty", default=10.0)
    shrink: bool = inherit_setting(DPMF, "shrink", default=False)

    def rating_sensitivity(self, public: PublicFacts) -> float:  # noqa: ARG002 - the range does not matter
        """Return 1: a cell is 0 or 1."""
        return 1.0

    def build_matrices(self, ratings: Ratings) -> RatingMatrices:
        """Return the matrix of clicks by user and by item.

        Raises:
            BadRatings: a rating is not 1.
        """
        matrix = binary_matrix(ratings)
        return RatingMatrices(matrix, matrix.T.tocsr())

    def normal_equation_terms(self, rows: Sparse, factors: Floats) -> tuple[Floats, Floats]:
        """Return the Gram matrix of the factors, which all rows share, and sum r f of each row.

        Args:
            rows: shape (k, n), the clicks r = 1 of each row.
            factors: f, shape (n, d), of the columns.

        Returns:
            Squares of shape (d, d) and moments of shape (k, d).
        """
        return factors.T @ factors, rows @ factors

    def squared_error(
        self, values: Floats, fitted: Floats, user_factors: Floats, item_factors: Floats
    ) -> Any:
        """Return the sum of squared errors over all cells, without building a users x items array.

        Args:
            values: shape (n_entries,), the clicks, all 1.
            fitted: shape (n_entries,), the predictions of them.
            user_factors: shape (users, rank).
            item_factors: shape (items, rank).
        """
        # The sum of (p'q)^2 over all cells is that of the products of two rank x rank matrices.
        squared_predictions = np.sum(
            (user_factors.T @ user_factors) * (item_factors.T @ item_factors)
        )
        return len(values) - 2 * fitted.sum() + squared_predictions

    def build_model(
        self,
        user_factors: Floats,
        item_factors: Floats,
        public: PublicFacts,  # noqa: ARG002
    ) -> Factors:
        """Return the scores.

        Args:
            user_factors: shape (users, rank).
            item_factors: shape (items, rank).
            public: the public facts.
        """
        return Factors(user_factors, item_factors)

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:  # noqa: ARG002
        """Describe how a user computes the user's own factors from the published ones."""
        return OwnSide(
            "V is items, x the user's row of 0 and 1 over all items; u minimises |x - V u|^2 +"
            f" {self.user_penalty!r} |u|^2{self._ball_constraint}; the score of item j is V_j u",
            (self.rank,),
        )


@dataclass(frozen=True)
class NoisySum(Releases):
    """The release of the private mean.

    Attributes:
        total: a number, the sum of the ratings less the middle of the range, in rating points.
    """

    total: Laplace


@mechanism
class PrivateMean(Mechanism):
    """The mean rating with Laplace noise on the sum: a baseline with the same guarantee.

    How many ratings there are is public where a guarantee covers their values only.
    """

    id = "private-mean"
    name = "Private mean"
    style = Style(SKY, "hourglass", "dot")
    list_order = 2
    task = Task.RATINGS
    nonprivate_counterpart = "global-mean"
    baseline = "private-mean"
    revision = 1
    change = RATING
    trust = Trust.CURATOR
    publishes = Publishes.ONE_NUMBER
    source = "Laplace mechanism"
    epsilon: float = inherit_setting(DPMF, "epsilon")

    def guarantee(self, public: PublicFacts) -> Guarantee[NoisySum]:
        """Return the guarantee: the noisy sum of the ratings."""
        total = Laplace(
            query="sum of the ratings less the middle of the range",
            shape=(),
            sensitivity={RATING: public.width},
            scale=public.width / self.epsilon,
        )
        return self.pure_guarantee(public, NoisySum(total))

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield one step, the noisy sum of the ratings over their public number."""
        public = ratings.public
        total = (ratings.values - public.middle).sum()
        noisy = float(self.guarantee(public).releases.total.publish(total, rng))
        mean = np.clip(public.middle + noisy / len(ratings), public.low, public.high)
        yield Step(1, 1, Constant(mean), {"mean": mean}, final=True)
