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
from dpmc_core.solvers.empirical_bayes import PRIORS
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
from dpmc_core.solvers.user_regression import MAX_STRETCH
from dpmc_core.style import VERMILION, Style

_MEAN_SHARE = 0.15**2  # share of the squared clip that goes to the gradient of the mean
_MIN_NORM = 1e-200  # replaces a norm of zero in a quotient
# Standard deviations; in widths of the rating range unless a unit is given.
# On generated ratings these do better at epsilon 10 than a user's regression on private effects.
_INTERCEPT_STD = 0.14  # of users' intercepts
_SLOPE_STD = 0.35  # of users' slopes on item offsets, a plain number
_MEAN_CLIP = 0.25  # largest absolute mean residual of a user, in widths of the rating range
_FULL_MEAN_STEPS = 5  # number of full steps of the mean, after which they get shorter
_GRADIENT_DECAY = 0.9  # of Adam's average of gradients; both decays as Kingma and Ba propose
_SQUARE_DECAY = 0.999  # of Adam's average of squared gradients


class FactorPlan(NamedTuple):
    """How much goes into item factors.

    Attributes:
        rank: length of the factors.
        share: share of the squared clip that goes to their gradients.
        std: standard deviation of what they contribute to a rating, in widths of the rating range.
    """

    rank: int
    share: float
    std: float


_NO_FACTORS = FactorPlan(rank=0, share=0.0, std=1.0)
_FEW_FACTORS = FactorPlan(rank=2, share=0.2, std=0.03)
_MORE_FACTORS = FactorPlan(rank=4, share=0.5, std=0.1)


class ItemParameters(NamedTuple):
    """Item parameters that the server learns from noisy gradients.

    Attributes:
        mean: the mean of all ratings, in rating points.
        offsets: array of shape (n_items,), in rating points.
        features: array of shape (n_items, 2 + rank), of a user's regression: one, the offset less
            the mean offset, and the item factors in rating points.
        ridge: array of shape (2 + rank,), the penalties of that regression.
    """

    mean: float
    offsets: Floats
    features: Floats
    ridge: Floats

    @classmethod
    def from_vector(cls, vector: Floats, public: PublicFacts) -> ItemParameters:
        """Unpack the parameters from a vector with the layout of the gradients.

        Args:
            vector: array of shape (n_items * (1 + rank) + 1,): the offset and factors of each item
                in turn, then the mean.
            public: sizes and the rating range.
        """
        items = vector[:-1].reshape(public.items, -1)
        offsets = items[:, 0]
        features = np.column_stack([np.ones(len(items)), offsets - offsets.mean(), items[:, 1:]])
        # Prior standard deviations of a user's coefficients: intercept, slope, then 1 for factors.
        stds = np.ones(1 + items.shape[1])
        stds[:2] = _INTERCEPT_STD * public.width, _SLOPE_STD
        return cls(vector[-1], offsets, features, (PRIORS.rating * public.width / stds) ** 2)

    def fit_users(self, entries: Pattern, residuals: Floats) -> Floats:
        """Fit each user's ridge regression on the item features.

        Args:
            entries: the observed (user, item) pairs.
            residuals: array of shape (n_entries,), ratings less mean and offset, in rating points.

        Returns:
            Array of shape (n_users, 2 + rank), the coefficients.
        """
        # For features divided, and coefficients multiplied, by the root of it every ridge is 1.
        root_ridge = np.sqrt(self.ridge)
        (scaled,) = solve_ridge_rows(entries, residuals, self.features / root_ridge, 1.0)
        return scaled / root_ridge


@dataclass(frozen=True)
class DpSgdReleases(Releases):
    """The releases of DP-SGD.

    Attributes:
        gradients: the summed clipped gradients, in the layout of `ItemParameters.from_vector`; one
            publication in each step.
    """

    gradients: Gaussian


@mechanism
class DpSgd(PerUser):
    """Full-batch DP-SGD on x_ui = mean + b_i + a_u + s_u b_i + p_u . q_i; users fit a, s, p alone.

    A step: each user with k ratings fits either random half of the row, takes the residuals e of
    the other half, and with g_i = e_i / sqrt(k) contributes g_i to the offset b_i, g_i p_u to the
    factors q_i and the mean residual to the mean. Each part is scaled to an l2 norm; their squares
    sum to C^2, so all users' sum moves by C where a row becomes empty and by 2 C where it becomes
    another. T steps with noise N(0, (z C)^2), z = sqrt(T)/mu, spend the budget exactly. The server
    takes Adam's steps, with a weight decay that follows from the noise, and averages the last half.
    """

    id = "dp-sgd"
    supports_partitions = True
    uses_item_features = False
    list_order = 1
    name = "DP-SGD factorization"
    short = "DP-SGD"
    style = Style(VERMILION, "square", "dashdot")
    nonprivate_counterpart = "als"
    revision = 1
    rounds: int = setting(40, "steps T that share the budget", at_least=1, at_most=1_000)
    rank: int | None = setting(
        None, "length of the factors (none: 0, 2 or 4 by the budget, users and items)",
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
        """Choose the item factors' length, share of the clip and size from public facts.

        Unless `rank` is set, (mu of the budget) * users / items decides: there are no factors where
        it is below 1, two below 10, else four, and never more than items.
        """
        signal = self.budget().mu * public.users / public.items
        plan = _MORE_FACTORS if signal >= 10 else _FEW_FACTORS
        default_rank = min(plan.rank, public.items) if signal >= 1 else 0
        rank = default_rank if self.rank is None else self.rank
        check_rank(rank, public)
        return plan._replace(rank=rank) if rank else _NO_FACTORS

    def guarantee(self, public: PublicFacts) -> Guarantee[DpSgdReleases]:
        """Return the guarantee: the sums of clipped gradients, in each step."""
        clip = self.clip * public.width
        n_columns = 1 + self.plan_factors(public).rank
        gradients = build_gaussian_release(
            "clipped gradients of item offsets, item factors and the mean, summed over users",
            (public.items * n_columns + 1,),
            self.budget() / self.rounds,
            clip,
            2 * clip,
            self.rounds,
        )
        return self.build_guarantee(
            public, DpSgdReleases(gradients), "exact Gaussian curve for DP-SGD (Abadi et al. 2016)"
        )

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        """Describe how a user computes the user's own factors from the published ones.

        The columns are the three features besides the factors: one, the centred offset, and the
        offset.
        """
        n_columns = 3 + self.plan_factors(public).rank
        return replace(
            describe_user_regression(public, columns, is_averaged=False), columns=[n_columns]
        )

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield the model of the averaged parameters after each of Adam's steps."""
        public = ratings.public
        plan = self.plan_factors(public)
        release = self.guarantee(public).releases.gradients
        n, r, width = public.items, plan.rank, public.width
        # The clips of the parts for offsets, factors and the mean, in rating points.
        shares = np.array([1 - plan.share - _MEAN_SHARE, plan.share, _MEAN_SHARE])
        norms = np.sqrt(shares) * self.clip * width
        factors = draw_random_factors(n, r, rng, PRIORS.low_rank * width / math.sqrt(max(r, 1)))
        vector = np.append(np.column_stack([np.zeros(n), factors]), public.middle)
        average = vector
        momentum, squares = np.zeros((2, n, 1 + r))
        # The weight decay of a parameter as large as its standard deviation is as large as the
        # noise on the mean of all gradients. For factors an eighth of the ridge is added that a
        # least-squares fit would have, the variance of a rating over that of a factor.
        noise_scale = release.scale / math.sqrt(self.rounds)
        decay = np.full(
            1 + r, noise_scale / (plan.std * width) + (PRIORS.rating / plan.std) ** 2 / 8
        )
        decay[0] = noise_scale / (PRIORS.item_effect * width)
        # The rate turns the sum of users' mean residuals into their mean over all users. The decay
        # is the variance of the noise on that mean over the prior variance of the mean.
        mean_rate = _MEAN_CLIP * width / (norms[2] * public.users)
        mean_decay = (noise_scale * mean_rate / (PRIORS.mean * width)) ** 2
        for index in range(1, self.rounds + 1):
            parameters = ItemParameters.from_vector(vector, public)
            sums, n_clipped = ratings.sum_over_users(
                sum_clipped_gradients, parameters, norms, draw_cap_key(rng)
            )
            noisy = release.publish(sums, rng)
            gradients = noisy[:-1].reshape(n, -1) - decay * vector[:-1].reshape(n, -1)
            step = _take_adam_step(momentum, squares, gradients, index, self.learning_rate * width)
            mean_step = noisy[-1] * mean_rate - mean_decay * (vector[-1] - public.middle)
            mean_step *= min(1.0, _FULL_MEAN_STEPS / index) / (1 + mean_decay)
            vector = vector + np.append(step, mean_step)
            # The current parameters in the first half of the steps, then the mean of the second.
            average = average + (vector - average) / max(index - self.rounds // 2, 1)
            published = ItemParameters.from_vector(average, public)
            model = ratings.build_model(_build_model, published)
            published_trace = {"largest item offset": float(np.abs(published.offsets).max())}
            trace = {**published_trace, "gradients clipped": n_clipped}
            yield Step.from_trace(index, self.rounds, model, trace, published_names=published_trace)


def _take_adam_step(
    momentum: Floats, squares: Floats, gradients: Floats, index: int, learning_rate: float
) -> Floats:
    """Update Adam's averages in place, and return the step (Kingma, Ba, "Adam", 2015).

    All factors share one average of squares, so the step keeps the direction of their gradient.

    Args:
        momentum: shape (n_items, 1 + rank), the average of the gradients, overwritten.
        squares: shape (n_items, 1 + rank), the average of their squares, overwritten.
        gradients: shape (n_items, 1 + rank), those of item offsets and then of item factors.
        index: the number of the step, from 1.
        learning_rate: the step size, in rating points.

    Returns:
        Array of shape (n_items, 1 + rank).
    """
    gradient_squares = gradients**2
    gradient_squares[:, 1:] = gradient_squares[:, 1:].sum() / max(gradients[:, 1:].size, 1)
    momentum += (1 - _GRADIENT_DECAY) * (gradients - momentum)
    squares += (1 - _SQUARE_DECAY) * (gradient_squares - squares)
    # The root mean square, with the corrections of both averages for their start at 0.
    root = np.sqrt(squares / (1 - _SQUARE_DECAY**index)) * (1 - _GRADIENT_DECAY**index)
    return learning_rate * momentum / np.maximum(root, _MIN_NORM)


def _build_model(ratings: Ratings, parameters: ItemParameters) -> Factors:
    """Return users' predictions, each from a regression of the user's own ratings."""
    residuals = ratings.values - parameters.mean - parameters.offsets[ratings.items]
    coefficients = parameters.fit_users(Pattern.from_ratings(ratings), residuals)
    coefficients[:, 0] += parameters.mean  # the coefficients of the feature that is 1
    return Factors(
        np.column_stack([coefficients, np.ones(len(coefficients))]),
        np.column_stack([parameters.features, parameters.offsets]),
        {"mean": np.asarray(parameters.mean), "ridge": np.diag(parameters.ridge)},
    )


def sum_clipped_gradients(
    ratings: Ratings, parameters: ItemParameters, norms: Floats, key: int
) -> tuple[Floats, int]:
    """Sum the users' gradients, each part of which is clipped.

    Args:
        ratings: the ratings of any users.
        parameters: the published parameters.
        norms: array of shape (3,), the largest l2 norms of the parts for offsets, factors and the
            mean, in rating points.
        key: the key of the hash that splits each user's row in two random halves.

    Returns:
        The sums as in `ItemParameters.from_vector`, and how many users' offsets were scaled down.
    """
    sums = np.zeros((ratings.public.items, len(parameters.ridge) - 1))
    total_mean, n_clipped = 0.0, 0
    is_first = hash_cells(ratings, key) % np.uint64(2) == 0
    for _, span, chunk in Pattern.from_ratings(ratings).iter_chunks(LARGE_CHUNK):
        residuals = ratings.values[span] - parameters.mean - parameters.offsets[chunk.items]
        relative_means = row_means(chunk, residuals, 0.0) / (_MEAN_CLIP * ratings.public.width)
        total_mean += norms[2] * np.clip(relative_means, -1.0, 1.0).sum()
        root_counts = np.sqrt(np.maximum(chunk.counts, 1))
        half_gradients = []
        norm_squares = np.zeros((2, chunk.shape[0]))
        # Each half gets its gradients from coefficients that were fitted to the other half.
        for mask in (is_first[span], ~is_first[span]):
            half = chunk.select_entries(mask)
            coefficients = parameters.fit_users(chunk.select_entries(~mask), residuals[~mask])
            fitted = Factors(coefficients, parameters.features).predict(half.users, half.items)
            gradients = (residuals[mask] - fitted) / half.expand_rows(root_counts)
            factors = coefficients[:, 2:]  # behind the intercept and the slope on item offsets
            squares = row_sums(half, gradients**2)
            # Of the gradients of item offsets, and of item factors.
            norm_squares += np.array([squares, squares * (factors**2).sum(axis=1)])
            half_gradients.append((half.build_matrix(gradients), factors))
        # A part is scaled to its norm, but a short one is stretched by `MAX_STRETCH` at most.
        lengths = np.maximum(MAX_STRETCH * np.sqrt(norm_squares), _MIN_NORM)
        scales = MAX_STRETCH * shrinkage(lengths, norms[:2, None])
        n_clipped += (scales[0] < 1).sum()
        for matrix, factors in half_gradients:
            sums += matrix.T @ np.column_stack([scales[0], scales[1, :, None] * factors])
    return np.append(sums, total_mean), n_clipped
