"""DPALS: alternating least squares with private item statistics, and without privacy.

Chien, Jain, Krichene, Rendle, Song, Thakurta, Zhang, "Private Alternating Least Squares" (2021);
Krichene, Mayoraz, Rendle, Song, Thakurta, Zhang, "Private Learning with Public Features" and its
budgets over items by private counts (2023).
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from itertools import cycle
from typing import NamedTuple

import numpy as np

from dpmc_core.arrays import FactorAxis, Floats, ItemAxis, Rng
from dpmc_core.errors import InvalidSetting
from dpmc_core.mechanisms.per_user import (
    EffectsFirst,
    EffectsFirstReleases,
    build_gaussian_release,
    effective_cap,
    publish_item_effects,
)
from dpmc_core.mechanisms.plain import NonprivateMechanism, centre_on_means
from dpmc_core.metrics import rmse
from dpmc_core.model import Factors, OwnSide, Step, Steps
from dpmc_core.privacy import Gaussian, Guarantee, Releases
from dpmc_core.ratings import PublicFacts, Ratings, draw_cap_mask, rank_within_user
from dpmc_core.settings import inherit_setting, mechanism, setting
from dpmc_core.solvers.item_effects import ItemEffects, estimate_item_factors
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.rows import (
    ResidualRows,
    bound_spectral_norm,
    clip_dense_rows,
    clip_rows,
    draw_cap_key,
    draw_random_factors,
    item_normal_equations,
    project_to_semidefinite,
    solve_ridge,
    solve_ridge_rows,
    spectral_scale,
)
from dpmc_core.solvers.sizes import check_rank
from dpmc_core.style import PURPLE, Style

_MIN_ITEM_RIDGE = 4.0  # smallest ridge of the items' problems, in squared factor clips
_CLIP_LABELS = ("ratings clipped", "item weights scaled", "user factors clipped")


class ItemBudget(enum.Enum):
    """Which of a user's ratings enter the items' problems; their squared weights sum to `cap`."""

    UNIFORM = "uniform"  # a random choice
    TAIL = "tail"  # those of the items with the lowest private counts
    ADAPTIVE = "adaptive"  # all, with item j weighted by its private count to the power -exponent


class UserProblems(NamedTuple):
    """The ridge problems of some users, with their solutions for the current item factors.

    Attributes:
        rows: the users' residual rows.
        weights: shape (n_entries,), of the ratings in the items' problems.
        n_clipped: how many residuals exceed the bound on a residual.
        n_scaled: how many users had their weights scaled down.
        user_factors: shape (m, d), for the item factors as they are; the model uses them.
        query_factors: shape (m, d), for item factors scaled up to undo the shrinkage by noise; the
            items' problems of the next round use them.
    """

    rows: ResidualRows
    weights: Floats
    n_clipped: int
    n_scaled: int
    user_factors: Floats
    query_factors: Floats

    def solve_users(self, item_factors: Floats, penalty: float, is_rescaled: bool) -> UserProblems:
        """Solve each user's exact ridge problem, given the factors of the items.

        Args:
            item_factors: shape (n, d).
            penalty: the ridge.
            is_rescaled: whether `query_factors` are for item factors scaled up to the largest
                singular value sqrt(n); otherwise they equal `user_factors`.
        """
        inflation = max(spectral_scale(item_factors), 1.0) if is_rescaled else 1.0
        # With V scaled up by c = `inflation`, (c^2 V'V + penalty I)^-1 c V'y is the solution for V
        # at penalty / c^2, divided by c.
        user_factors, query_factors = solve_ridge_rows(
            self.rows.entries, self.rows.values, item_factors, penalty, penalty / inflation**2
        )
        return self._replace(user_factors=user_factors, query_factors=query_factors / inflation)

    def build_model(self, item_factors: Floats) -> Factors:
        """Return the model of these users.

        Args:
            item_factors: shape (n, d).
        """
        return self.rows.build_model(Factors(self.user_factors, item_factors))

    def sum_item_problems(self, clip: float, bound: float) -> tuple[Floats, Floats, int, int, int]:
        """Sum the items' normal equations A q = b over these users, factors and residuals clipped.

        Args:
            clip: the largest l2 norm c of a user's factors, in rating points.
            bound: the largest absolute value g of a residual, in rating points.

        Returns:
            A of shape (n, d, d) and b of shape (n, d); then how many ratings were clipped, how many
            users had their weights scaled down, and how many had their factors clipped.
        """
        clipped_factors, n_factors_clipped = clip_dense_rows(self.query_factors, clip)
        entries, values = self.rows.entries, self.rows.values
        squares, moments = item_normal_equations(
            entries, values, clipped_factors, self.weights, bound
        )
        return squares, moments, self.n_clipped, self.n_scaled, n_factors_clipped


@dataclass(frozen=True)
class ItemProblems(Releases):
    """The releases of one round: the items' normal equations A_j q_j = b_j.

    Attributes:
        squares: A, shape (n, d, d).
        moments: b, shape (n, d).
    """

    squares: Gaussian
    moments: Gaussian


@dataclass(frozen=True)
class DpalsReleases(EffectsFirstReleases):
    """All releases of DPALS.

    Attributes:
        rounds: the releases of each round; one element stands for all rounds if they are alike.
    """

    rounds: tuple[ItemProblems, ...]


@mechanism
class Dpals(EffectsFirst):
    """Alternating least squares: users solve alone, items from noisy sufficient statistics.

    In a round, each user solves an exact ridge problem for u_i (in rating points, clipped to norm
    c) and adds w_ij u_i u_i' to A_j and w_ij x_ij u_i to b_j. Here x_ij is the rating less user and
    item mean, clipped to g, and a user's weights are scaled down until sum_j w_ij^2 <= cap. If a
    row becomes empty, all A_j together move by sqrt(cap) c^2 and all b_j by sqrt(cap) c g; if it
    becomes any other row, by sqrt(2 cap) c^2 and 2 sqrt(cap) c g. The guarantee lists item effects
    and every round. For the noise-aware estimator x_ij is the residual of the user's own
    regression, and item factors are shrunk according to the noise on b.
    """

    id = "dpals"
    supports_partitions = True
    list_order = 1
    name = "DPALS"
    style = Style(PURPLE, "triangle-left")
    nonprivate_counterpart = "als"
    rank: int = setting(3, "length of the factors", at_least=1, at_most=200)
    rounds: int = setting(6, "rounds that share the budget", at_least=1, at_most=100)
    ridge: float = setting(10.0, "ridge of the users' problems", above=0, at_most=1e6)
    factor_clip: float = setting(
        0.1,
        "largest norm c of a user's factors, in widths of the rating range",
        above=0,
        at_most=1e3,
    )
    residual_clip: float = setting(
        0.3, "largest |rating less user and item mean| g, in widths of the range",
        above=0, at_most=1e3,
    )  # fmt: skip
    item_ridge: float = setting(
        2.0, "published: ridge of the items' problems, in standard deviations of the noise on b",
        at_least=0, at_most=1e3,
    )  # fmt: skip
    squares_share: float = setting(
        0.5, "share of a round's budget for the matrices A (the rest: the vectors b)",
        above=0, below=1,
    )  # fmt: skip
    growth: float = setting(
        1.0, "signal-to-noise ratio of a round over that of the round before", above=0.1, at_most=10
    )
    items: ItemBudget = setting(ItemBudget.UNIFORM, "which ratings of a user reach the item side")
    exponent: float = setting(
        0.25, "adaptive: item weight is its private count to minus this", at_least=0, at_most=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.items is not ItemBudget.UNIFORM and self.item_share == 0:
            raise InvalidSetting(
                "item_share", "> 0 for tail or adaptive budgets, which need private counts", 0
            )

    def clip_bounds(self, public: PublicFacts) -> tuple[float, float]:
        """Return the bounds (c, g) on a user's factors and on a residual, in rating points."""
        return self.factor_clip * public.width, self.residual_clip * public.width

    def guarantee(self, public: PublicFacts) -> Guarantee[DpalsReleases]:
        """Return the guarantee: item effects, and A and b of the items in each round."""
        check_rank(self.rank, public)
        n, r = ItemAxis(public.items), FactorAxis(self.rank)
        sqrt_cap = math.sqrt(effective_cap(self.cap, public))
        # The largest norm of a user's factors, and the largest |residual|.
        c, g = self.clip_bounds(public)
        round_releases = []
        for round_label, budget, n_publications in self.split_by_round(self.growth, self.rounds):
            squares, moments = budget.split(self.squares_share, 1 - self.squares_share)
            problems = ItemProblems(
                build_gaussian_release(
                    f"weighted squares of the users' factors of each item{round_label}",
                    (n, r, r),
                    squares,
                    sqrt_cap * c * c,
                    math.sqrt(2) * sqrt_cap * c * c,
                    n_publications,
                ),
                build_gaussian_release(
                    f"weighted ratings times the users' factors of each item{round_label}",
                    (n, r),
                    moments,
                    sqrt_cap * c * g,
                    2 * sqrt_cap * c * g,
                    n_publications,
                ),
            )
            round_releases.append(problems)
        releases = DpalsReleases(self.build_item_effects_releases(public), tuple(round_releases))
        return self.build_guarantee(
            public, releases, "exact Gaussian curve for DPALS (Chien et al. 2021)"
        )

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        """Describe how a user computes the user's own factors from the published ones."""
        formula = f"u = (V_S' V_S + {self.ridge!r} I)^-1 V_S' y"
        return self.describe_user_side(
            public, columns, range(self.rank, self.rank + 1), formula, full_rows=True
        )

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield a model after each round, which publishes the items' noisy normal equations."""
        public = ratings.public
        releases = self.guarantee(public).releases
        clip, bound = self.clip_bounds(public)
        item_effects = publish_item_effects(releases.effects, ratings, rng)
        user_key = draw_cap_key(rng)
        item_key = draw_cap_key(rng) if self.items is ItemBudget.UNIFORM else 0
        users = ratings.map_users(self._prepare_users, item_effects, user_key, item_key)
        item_factors = bound_spectral_norm(draw_random_factors(public.items, self.rank, rng))
        solved_users = users.map_users(UserProblems.solve_users, item_factors, self.ridge, False)
        # One release may stand for all rounds, so they are repeated.
        for index, release in zip(range(1, self.rounds + 1), cycle(releases.rounds), strict=False):
            squares, moments, *clip_counts = solved_users.sum_over_users(
                UserProblems.sum_item_problems, clip, bound
            )
            noisy_squares = release.squares.publish(squares, rng)
            noisy_moments = release.moments.publish(moments, rng)
            solvable = project_to_semidefinite(
                0.5 * (noisy_squares + noisy_squares.transpose(0, 2, 1))
            )
            if self.is_noise_aware:
                scale = release.moments.scale
                solution = estimate_item_factors(solvable, noisy_moments, scale, public.width)
            else:
                # The second term keeps the equations solvable where there is hardly any noise.
                penalty = self.item_ridge * release.moments.scale + _MIN_ITEM_RIDGE * clip**2
                solution = solve_ridge(solvable, noisy_moments, penalty)
            item_factors = bound_spectral_norm(solution)  # user factors are then in rating points
            solved_users = users.map_users(
                UserProblems.solve_users, item_factors, self.ridge, self.is_noise_aware
            )
            published_trace = {"largest item factor": np.abs(item_factors).max()}
            trace = published_trace | dict(zip(_CLIP_LABELS, clip_counts, strict=True))
            model = solved_users.build_model(UserProblems.build_model, item_factors)
            yield Step.from_trace(index, self.rounds, model, trace, published_names=published_trace)

    def _prepare_users(
        self, ratings: Ratings, item_effects: ItemEffects, user_key: int, item_key: int
    ) -> UserProblems:
        """Prepare the problems of some users, which have no factors yet.

        Args:
            ratings: the ratings of these users.
            item_effects: the published item effects.
            user_key: the key of the cap on a user's own problem.
            item_key: the key of the cap on the ratings that enter the items' problems.
        """
        public = ratings.public
        _, bound = self.clip_bounds(public)
        # A user's own problem may use the whole row, because what leaves the user is bounded.
        rows = self.compute_residual_rows(ratings, item_effects, public.items, user_key)
        weights, scales = self._weigh_entries(ratings, item_effects.counts, item_key)
        n_clipped = (np.abs(rows.values) > bound).sum()
        no_factors = np.zeros((public.users, 0))
        return UserProblems(rows, weights, n_clipped, (scales < 1).sum(), no_factors, no_factors)

    def _weigh_entries(self, ratings: Ratings, counts: Floats, key: int) -> tuple[Floats, Floats]:
        """Weigh the ratings in the items' problems so that a user's squares sum to the cap at most.

        Args:
            ratings: the ratings of some users.
            counts: shape (n,), the private counts of the items.
            key: the key of the random choice of ratings, for uniform budgets.

        Returns:
            The weights w, shape (n_ratings,), and the factor by which each user's weights were
            scaled, shape (m,).
        """
        max_ratings = effective_cap(self.cap, ratings.public)
        if self.items is ItemBudget.UNIFORM:
            weights = draw_cap_mask(ratings, max_ratings, key).astype(float)
        elif self.items is ItemBudget.TAIL:
            weights = (rank_within_user(ratings, counts[ratings.items]) < max_ratings).astype(float)
        else:
            positive_counts = np.maximum(counts, 1.0)
            item_weights = positive_counts**-self.exponent
            # Over all ratings the mean squared weight is one, as with uniform budgets.
            item_weights /= math.sqrt(positive_counts @ item_weights**2 / positive_counts.sum())
            weights = item_weights[ratings.items]
        return weights, clip_rows(Pattern.from_ratings(ratings), weights, math.sqrt(max_ratings))


@mechanism
class Als(NonprivateMechanism):
    """Matrix factorisation by alternating least squares on user- and item-centred ratings.

    Salakhutdinov and Mnih, "Probabilistic Matrix Factorization" (2007), solved by exact ridge
    problems; item factors are rescaled each round so that user factors are in rating points.
    """

    id = "als"
    name = "ALS, no privacy"
    rank: int = inherit_setting(Dpals, "rank")
    rounds: int = setting(10, "rounds of alternating least squares", at_least=1, at_most=1_000)
    ridge: float = inherit_setting(Dpals, "ridge")
    item_ridge: float = setting(
        1.0, "ridge of the items' problems, in squared rating points", above=0, at_most=1e6
    )

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield a model after each round of solving for all items and then for all users."""
        check_rank(self.rank, ratings.public)
        rows = centre_on_means(ratings, rng)
        entries, values = rows.entries, rows.values
        right = bound_spectral_norm(draw_random_factors(ratings.public.items, self.rank, rng))
        (left,) = solve_ridge_rows(entries, values, right, self.ridge)
        for index in range(1, self.rounds + 1):
            squares, moments = item_normal_equations(entries, values, left)
            # On a huge range a smaller ridge would be lost in the rounding of the squares.
            ridge = max(self.item_ridge, 1e-15 * squares.max())
            right = bound_spectral_norm(solve_ridge(squares, moments, ridge))
            (left,) = solve_ridge_rows(entries, values, right, self.ridge)
            trace = {"training rmse": rmse(entries.sample_product(left, right), values)}
            yield Step.from_trace(index, self.rounds, rows.build_model(Factors(left, right)), trace)
