"""DP-SGD factorization per user: noisy gradient descent on item factors, the method tried first.

Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang, "Deep Learning with Differential Privacy"
(2016), with a user's whole row as the unit, as in McMahan, Ramage, Talwar, Zhang, "Learning
Differentially Private Recurrent Language Models" (2018). Steps use all users: the signal-to-noise
ratio of sampled ones is never better, and the composition of full ones is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpmc_core.arrays import Floats, Rng
from dpmc_core.mechanisms.per_user import (
    PerUser,
    build_gaussian_release,
    describe_user_regression,
)
from dpmc_core.model import Factors, OwnSide, Step, Steps
from dpmc_core.privacy import Gaussian, Guarantee, Releases
from dpmc_core.ratings import PublicFacts, Ratings, hash_cells
from dpmc_core.settings import mechanism, setting
from dpmc_core.solvers.linalg import LARGE_CHUNK, Pattern
from dpmc_core.solvers.rows import (
    draw_cap_key,
    draw_random_factors,
    row_means,
    row_sums,
    shrinkage,
    solve_ridge_rows,
)
from dpmc_core.solvers.sizes import check_rank
from dpmc_core.style import RED, Style

_MEAN_SHARE = 0.15**2  # of the squared clip: the part of a gradient that moves the mean
_MAX_STRETCH = 1.5  # by which a short gradient may be scaled up to its clip
# Standard deviations; in widths of the rating range unless a unit is given.
_RATING_STD = 0.21  # of a rating around its prediction
_INTERCEPT_STD = 0.14  # of users
_SLOPE_STD = 0.5  # of users' slopes on item offsets, a plain number
_OFFSET_STD = 0.08  # of item offsets
_START_STD = 0.05  # of item factors at the start, all columns together
_MEAN_SPREAD = 0.25  # largest distance of a user's mean from the mean of all that counts
_DECAYS = 0.9, 0.999  # of Adam's averages of gradients and of their squares


class FactorPlan(NamedTuple):
    """What the size of the problem allows: rank, share of the squared clip, std in widths."""

    rank: int
    share: float
    std: float


_PLANS = ((1.0, FactorPlan(0, 0.0, 1.0)), (10.0, FactorPlan(2, 0.2, 0.03)))
_LARGEST_PLAN = FactorPlan(4, 0.5, 0.1)


class ItemParameters(NamedTuple):
    """What the server knows of the items, from noisy gradients alone.

    Attributes:
        mean: of all ratings, in rating points.
        items: array of shape (n_items, 1 + rank), the offset of each item and its factors, in
            rating points.
        width: of the rating range, in rating points.
    """

    mean: float
    items: Floats
    width: float

    def build_features(self) -> tuple[Floats, Floats]:
        """Features of a user's regression, n_items x (2 + rank), and the ridge on each."""
        offsets = self.items[:, 0]
        features = np.column_stack(
            [np.ones(len(offsets)), offsets - offsets.mean(), self.items[:, 1:]]
        )
        stds = np.ones(features.shape[1])
        stds[:2] = _INTERCEPT_STD * self.width, _SLOPE_STD
        return features, (_RATING_STD * self.width / stds) ** 2

    def fit_users(self, entries: Pattern, values: Floats) -> Floats:
        """Each user's ridge coefficients on those features; values: less mean and offsets."""
        features, ridge = self.build_features()
        (scaled,) = solve_ridge_rows(entries, values, features / np.sqrt(ridge), 1.0)
        return scaled / np.sqrt(ridge)


@dataclass(frozen=True)
class DpSgdReleases(Releases):
    gradients: Gaussian


@mechanism
class DpSgd(PerUser):
    """Full-batch DP-SGD on r_ui = mean + b_i + a_u + s_u b_i + p_u . q_i; users fit a, s, p alone.

    A step: each user with k ratings and residuals e, a random half of the row against the fit to
    the other half, takes g_i = e_i / sqrt(k) and contributes g to the offsets b, g_i p_u to the
    factors q, and the own mean residual to the mean. The three parts are scaled to l2 norms whose
    squares sum to C^2 at most, so the sum over users moves by C where a row becomes empty and by 2C
    where it becomes another. T steps with noise N(0, (z C)^2), z = sqrt(T)/mu, spend the budget by
    the exact Gaussian curve. The server takes Adam's steps on the noisy sums, with a weight decay
    that the noise sets, and averages the last half of them.
    """

    id = "dp-sgd"
    supports_partitions = True
    uses_item_features = False
    list_order = 1
    name = "DP-SGD factorization"
    short = "DP-SGD"
    style = Style(RED, "square", "dot")
    nonprivate_counterpart = "als"
    revision = 1
    rounds: int = setting(40, "steps T that share the budget", at_least=1, at_most=1_000)
    rank: int | None = setting(
        None, "length of the factors (none: 0, 2 or 4 by users, items and budget)",
        at_least=0, at_most=200,
    )  # fmt: skip
    clip: float = setting(
        0.22, "largest l2 norm C of a user's gradient, in widths of the rating range",
        above=0, at_most=1e3,
    )  # fmt: skip
    learning_rate: float = setting(
        0.02, "Adam's step size, in widths of the rating range", above=0, at_most=1
    )

    def plan_factors(self, public: PublicFacts) -> FactorPlan:
        """Rank and scales by h = mu users / items, which is public."""
        signal = self.budget().mu * public.users / public.items
        plan = next((plan for limit, plan in _PLANS if signal < limit), _LARGEST_PLAN)
        plan = plan._replace(rank=min(plan.rank, *public.shape))
        if self.rank is None:
            return plan
        check_rank(max(self.rank, 1), public)
        return (_PLANS[1][1] if self.rank and not plan.share else plan)._replace(rank=self.rank)

    def guarantee(self, public: PublicFacts) -> Guarantee[DpSgdReleases]:
        clip, size = self.clip * public.width, public.items * (1 + self.plan_factors(public).rank)
        gradients = build_gaussian_release(
            "clipped gradients of item offsets, item factors and the mean, summed over users",
            *((size + 1,), self.budget() / self.rounds, clip, 2 * clip, self.rounds),
        )
        return self.build_guarantee(
            public, DpSgdReleases(gradients), "exact Gaussian curve for DP-SGD (Abadi et al. 2016)"
        )

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        n_columns = 3 + self.plan_factors(public).rank
        return replace(describe_user_regression(public, columns), columns=[n_columns])

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        public = ratings.public
        release, plan = self.guarantee(public).releases.gradients, self.plan_factors(public)
        n, width, clip = public.items, public.width, self.clip * public.width
        norms = np.sqrt([1 - plan.share - _MEAN_SHARE, plan.share, _MEAN_SHARE]) * clip
        noise = release.scale / math.sqrt(self.rounds)  # of the mean gradient
        decay = np.full(1 + plan.rank, noise / plan.std + (_RATING_STD / plan.std) ** 2 / 8 * width)
        decay[0] = noise / _OFFSET_STD
        decay /= width
        start = draw_random_factors(n, plan.rank, rng, _START_STD * width / max(plan.rank, 1) ** 0.5)
        parameters = ItemParameters(
            public.middle, np.column_stack([np.zeros(n), start]), width
        )
        average, momentum, squares = parameters, 0.0, 0.0
        for index in range(1, self.rounds + 1):
            sums = ratings.sum_over_users(
                sum_clipped_gradients, parameters, norms, draw_cap_key(rng)
            )
            noisy = release.publish(sums, rng)
            gradient = noisy[:-1].reshape(n, -1) - decay * parameters.items
            square = gradient**2
            square[:, 1:] = square[:, 1:].mean() if plan.rank else 0.0
            momentum = _DECAYS[0] * momentum + (1 - _DECAYS[0]) * gradient
            squares = _DECAYS[1] * squares + (1 - _DECAYS[1]) * square
            root = np.sqrt(squares / (1 - _DECAYS[1] ** index)) * (1 - _DECAYS[0] ** index)
            mean_step = noisy[-1] * _MEAN_SPREAD * width / (norms[2] * public.users)
            parameters = ItemParameters(
                parameters.mean + mean_step * min(1.0, 5 / index),
                parameters.items + self.learning_rate * width * momentum / np.maximum(root, 1e-300),
                width,
            )
            weight = 1 / max(index - self.rounds // 2, 1)
            average = ItemParameters(
                average.mean + weight * (parameters.mean - average.mean),
                average.items + weight * (parameters.items - average.items),
                width,
            )
            trace = {"largest item offset": float(np.abs(average.items[:, 0]).max())}
            model = ratings.build_model(build_user_models, average)
            yield Step(index, self.rounds, model, trace, final=index == self.rounds)


def sum_clipped_gradients(
    ratings: Ratings, parameters: ItemParameters, norms: Floats, key: int
) -> Floats:
    """Sum the users' gradients, each clipped.

    Args:
        ratings: of any users.
        parameters: what was published.
        norms: the largest l2 norms of the parts for offsets, factors and the mean, rating points.
        key: of the random halves of the rows.

    Returns:
        Array of length n_items x (1 + rank) + 1: offsets and factors item by item, then the mean.
    """
    total = np.zeros(parameters.items.shape)
    mean_total = 0.0
    features, _ = parameters.build_features()
    halves = hash_cells(ratings, key) >> np.uint64(63) == 1
    for _, span, chunk in Pattern.from_ratings(ratings).iter_chunks(LARGE_CHUNK):
        values = ratings.values[span] - parameters.mean - parameters.items[chunk.items, 0]
        means = row_means(chunk, values, 0.0) / (_MEAN_SPREAD * parameters.width)
        mean_total += norms[2] * float(np.clip(means, -1, 1).sum())
        root_counts = np.sqrt(np.maximum(chunk.counts, 1))
        masks = halves[span], ~halves[span]
        entries = [chunk.select_entries(mask) for mask in masks]
        fits = [
            parameters.fit_users(half, values[mask])
            for half, mask in zip(entries, masks, strict=True)
        ][::-1]
        gradients, squares = [], np.zeros((2, chunk.shape[0]))
        for half, mask, fit in zip(entries, masks, fits, strict=True):
            residuals = values[mask] - Factors(fit, features).predict(half.users, half.items)
            gradients.append(residuals / half.expand_rows(root_counts))
            half_squares = row_sums(half, gradients[-1] ** 2)
            squares += half_squares, half_squares * (fit[:, 2:] ** 2).sum(axis=1)
        scales = _MAX_STRETCH * shrinkage(_MAX_STRETCH * np.sqrt(squares), norms[:2, None])
        for half, gradient, fit in zip(entries, gradients, fits, strict=True):
            row_factors = np.column_stack([scales[0], scales[1, :, None] * fit[:, 2:]])
            total += half.build_matrix(gradient).T @ row_factors
    return np.append(total, mean_total)


def build_user_models(ratings: Ratings, parameters: ItemParameters) -> Factors:
    """Everybody's predictions: the own row regressed on what was published."""
    features, ridge = parameters.build_features()
    offsets = parameters.items[:, 0]
    values = ratings.values - parameters.mean - offsets[ratings.items]
    coefficients = parameters.fit_users(Pattern.from_ratings(ratings), values)
    coefficients[:, 0] += parameters.mean  # whose feature is 1
    return Factors(
        np.column_stack([coefficients, np.ones(len(coefficients))]),
        np.column_stack([features, offsets]),
        {"mean": np.asarray(parameters.mean), "ridge": np.diag(ridge)},
    )
