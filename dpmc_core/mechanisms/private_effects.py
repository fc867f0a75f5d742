"""Private item effects and low-rank factors, per user: our own estimator under joint privacy.

Item effects come first (see `per_user`); rounds then refine them and, where the released counts say
that it would stand out of the noise, add low-rank factors. A user's own side is free under the
joint notion: every user regresses the own row on what was published.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpmc_core.arrays import Floats, Ints, ItemAxis, Rng
from dpmc_core.mechanisms.per_user import (
    EffectsReleases,
    PerUser,
    build_effects_releases,
    build_gaussian_release,
    describe_user_regression,
    effects_row_clip,
    fit_user_regressions,
    publish_item_effects,
    split_effects_budget,
)
from dpmc_core.model import ArraySpec, Factors, OwnSide, PrivacyRequest, Step, Steps
from dpmc_core.privacy import Gaussian, Guarantee, Releases, Trust
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import mechanism, setting
from dpmc_core.solvers.item_effects import (
    ItemEffects,
    LowRankFactors,
    choose_low_rank_share,
    estimate_low_rank,
    estimate_mean_gain,
    refine_item_effects,
    start_low_rank,
)
from dpmc_core.solvers.rows import draw_random_factors
from dpmc_core.solvers.streams import EarlierRelease, StatisticStream
from dpmc_core.solvers.user_regression import sum_round_statistics
from dpmc_core.style import VERMILION, Style

# What counts, sums, gain, own and all rounds get of the budget that the mean of all users leaves.
_SHARES = (0.12, 0.20, 0.005, 0.02, 0.65)
_MOMENTS_SHARE = 0.02  # of a round's budget


@dataclass(frozen=True)
class RoundReleases(Releases):
    """The releases of each round.

    Attributes:
        residuals: shape (n, r + 1), in rating points.
        moments: shape (r * r + 2,).
    """

    residuals: Gaussian
    moments: Gaussian


@dataclass(frozen=True)
class PrivateEffectsReleases(Releases):
    """All releases of the mechanism.

    Attributes:
        effects: of the item effects.
        rounds: of each round.
    """

    effects: EffectsReleases
    rounds: RoundReleases


@mechanism
class PrivateEffects(PerUser):
    """Item effects, then rounds of effects and low-rank factors that allow for the known noise.

    A round takes the users' residuals of ratings, each against a regression on the own other
    ratings, weighted to l2 norm sqrt(1 - phi) C for the effects and, times a unit vector of the
    user's factors from the other items, sqrt(phi) C for the low-rank factors; together that is a
    row of norm C. It also takes the users' squared unit vectors and two gains of at most 1: sqrt(3)
    where a row becomes empty, 2 where it becomes another. phi is decided from the released counts;
    shapes and scales do not depend on it.
    """

    id = "private-effects"
    supports_partitions = True
    list_order = -1
    name = "Private effects and taste"
    short = "Private effects"
    style = Style(VERMILION, "diamond-tall")
    nonprivate_counterpart = "reference-ratings"
    revision = 4
    rank: int = setting(5, "directions of taste, at most", at_least=1, at_most=50)
    rounds: int = setting(3, "rounds that share the rest of the budget", at_least=1, at_most=50)

    @classmethod
    def recommendation_reason(cls, request: PrivacyRequest) -> str | None:
        """Return why this mechanism suits the request, None where it does not."""
        if request.trust is Trust.LOCAL:
            return None
        return "item effects and taste from sums over many users, each user's own side for free"

    def guarantee(self, public: PublicFacts) -> Guarantee[PrivateEffectsReleases]:
        """Return the guarantee: item effects once, then residuals and moments in every round.

        A user adds the product u u' of a unit vector and two gains in 0..1 to the moments: a row of
        l2 norm sqrt(3) at most. Two such rows differ by at most 2, as two products by sqrt(2).
        """
        *effects_budgets, rounds_budget = split_effects_budget(public, self.budget(), _SHARES)
        residuals_budget, moments_budget = (rounds_budget / self.rounds).split(
            1 - _MOMENTS_SHARE, _MOMENTS_SHARE
        )
        n, r, clip = ItemAxis(public.items), self.rank, effects_row_clip(public)
        rounds = RoundReleases(
            build_gaussian_release(
                "weighted residuals of each item, alone and times the users' unit vectors of taste",
                (n, r + 1),
                residuals_budget,
                clip,
                2 * clip,
                self.rounds,
            ),
            build_gaussian_release(
                "products of the users' unit vectors of taste, and two gains",
                (r * r + 2,),
                moments_budget,
                math.sqrt(3),
                2.0,
                self.rounds,
            ),
        )
        releases = PrivateEffectsReleases(build_effects_releases(public, effects_budgets), rounds)
        return self.build_guarantee(public, releases, "exact Gaussian curve")

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        """Describe how a user computes the own predictions, and the noisy statistics."""
        own_side = describe_user_regression(public, columns, (0, self.rank))
        statistics = {
            f"noisy_{name}": ArraySpec(
                (release.times, *(n or 0 for n in release.shape)), "noisy answers, each time"
            )
            for name, release in self.guarantee(public).releases
        }
        shape = 1 + self.rounds, public.items
        statistics["sum_units"] = ArraySpec(shape, "factor of a residual in each sum over users")
        statistics["sum_centres"] = ArraySpec(shape, "item effects about which residuals are")
        return replace(own_side, arrays={**own_side.arrays, **statistics})

    def align_earlier(
        self, public: PublicFacts, arrays: Mapping[str, Floats], rows: Ints, decay: float
    ) -> EarlierRelease:
        """Return what `fit` takes of an earlier release.

        Args:
            public: the public facts of that release, which these settings made.
            arrays: its arrays.
            rows: shape (n,), where it has each item of the newest release; -1: nowhere.
            decay: the factor of its weights.
        """
        names = self.own_side(public, 0).arrays
        statistics = {n: arrays[n] for n in names if n.startswith(("noisy_", "sum_"))}
        return EarlierRelease.align(
            public, self.guarantee(public).releases, statistics, rows, decay
        )

    def fit(self, ratings: Ratings, rng: Rng, earlier: Sequence[EarlierRelease] = ()) -> Steps:
        """Yield a model of item effects, then one of refined effects and factors each round.

        Args:
            ratings: the users' ratings.
            rng: draws the noise.
            earlier: earlier releases of such ratings, with whose statistics these are averaged.
        """
        public, n_steps = ratings.public, self.rounds + 1
        releases = self.guarantee(public).releases
        noise_scale, r = releases.rounds.residuals.scale, self.rank
        stream = StatisticStream(public, earlier)
        item_effects = publish_item_effects(
            releases.effects, ratings, rng, noise_scale / math.sqrt(self.rounds), stream
        )
        random_start = draw_random_factors(public.items, r, rng)
        factor_share = choose_low_rank_share(
            item_effects, effects_row_clip(public), self.budget().mu
        )
        low_rank = start_low_rank(item_effects, random_start) if factor_share > 0 else None
        trace, likelihood = {"share of taste": factor_share}, None
        build = partial(ratings.build_model, fit_user_regressions, item_effects.scale_down())
        yield Step(1, n_steps, build, trace)
        for index in range(2, n_steps + 1):
            query_arguments = item_effects, low_rank, r, factor_share, effects_row_clip(public)
            sums, moments = ratings.sum_over_users(sum_round_statistics, *query_arguments)
            sums = releases.rounds.residuals.publish(sums, rng)
            moments = releases.rounds.moments.publish(moments, rng)
            averaged, gain_noise = stream.average_over_users(
                "noisy_moments", moments, releases.rounds.moments.scale
            )
            # Of the residuals for item effects, and of those for factors.
            effects_gain, factors_gain = (
                estimate_mean_gain(float(g), gain_noise, public) for g in averaged[-2:]
            )
            # The directions of low-rank factors are others in each release: those are not averaged.
            if low_rank is not None:
                root_share = math.sqrt(factor_share)
                second_moments = moments[:-2].reshape(r, r) / public.users
                low_rank, likelihood = estimate_low_rank(
                    item_effects,
                    sums[:, 1:] / root_share,
                    noise_scale / root_share,
                    factors_gain,
                    second_moments,
                    likelihood,
                )
            unit = math.sqrt(1 - factor_share) * item_effects.weights
            averaged, noise, shift = stream.average_sums(
                "noisy_residuals", sums, noise_scale, unit, item_effects.effects
            )
            averaged = averaged + item_effects.counts * unit * effects_gain * shift
            item_effects = refine_item_effects(
                item_effects, averaged, noise, effects_gain, 1 - factor_share
            )
            scaled = item_effects.scale_down()
            build = partial(ratings.build_model, _fit_with_statistics, stream, scaled, low_rank)
            yield Step(index, n_steps, build, trace, final=index == n_steps)


def _fit_with_statistics(
    ratings: Ratings,
    stream: StatisticStream,
    item_effects: ItemEffects,
    low_rank: LowRankFactors | None,
) -> Factors:
    """Return `fit_user_regressions` with the statistics from which later releases may learn."""
    model = fit_user_regressions(ratings, item_effects, low_rank)
    statistics = {name: np.array(values) for name, values in stream.published.items()}
    return replace(model, user_arrays={**model.user_arrays, **statistics})
