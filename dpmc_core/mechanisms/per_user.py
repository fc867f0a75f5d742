"""The base of the user-level mechanisms for ratings: budget, guarantee and private item effects.

JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018). The
privacy unit is a user's whole row and the notion is joint: everything but a user's own predictions
is private, so what a user computes from the own row alone (mean, clip, last update) costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from dpmc_core.arrays import Floats, ItemAxis, Rng
from dpmc_core.errors import InvalidSetting
from dpmc_core.model import (
    ArraySpec,
    Constant,
    Estimator,
    Factors,
    Mechanism,
    Model,
    OwnSide,
    Step,
    Steps,
    Task,
)
from dpmc_core.privacy import (
    USER_EMPTIED,
    USER_REPLACED,
    Budget,
    Calibration,
    Gaussian,
    Guarantee,
    Loss,
    Notion,
    Publishes,
    Releases,
    Trust,
)
from dpmc_core.privacy.accounting import gaussian_mu
from dpmc_core.ratings import PublicFacts, Ratings, UserData
from dpmc_core.settings import mechanism, setting
from dpmc_core.solvers.empirical_bayes import CountEstimate
from dpmc_core.solvers.item_effects import (
    N_USER_COEFFICIENTS,
    ItemEffects,
    LowRankFactors,
    estimate_item_effects,
    estimate_mean_gain,
    estimate_mean_of_users,
    estimate_user_variances,
)
from dpmc_core.solvers.linalg import LARGE_CHUNK, Pattern
from dpmc_core.solvers.rows import (
    ResidualRows,
    cap_mask,
    cap_ratings,
    centre_ratings,
    clip_rows,
    draw_cap_key,
    item_sums,
    row_means,
    row_sums,
)
from dpmc_core.solvers.sizes import check_gram, count_gram_items
from dpmc_core.solvers.streams import StatisticStream
from dpmc_core.solvers.user_regression import (
    SHARED_SLOPE_STD,
    USER_PSEUDO_RATINGS,
    UserModels,
    UserRegression,
    build_user_regression,
    sum_bounded_gains,
    weigh_rows,
)
from dpmc_core.style import BLUE, PURPLE, SKY, Style

# The mean of all users gets what brings its noise to this standard deviation in half ranges, within
# limits: with few users that is much, with many next to nothing.
_MEAN_NOISE, _MEAN_SHARES = 0.04, (0.005, 0.3)
_SHARES = (0.20, 0.75, 0.005, 0.04)  # what counts, sums, gain and own get of the remainder
_EFFECTS_CLIP = 0.25  # C in widths of the rating range

_REGRESSION_FORMULA = (
    "theta = (Z_R' Z_R + ridge)^-1 Z_R' (x - mean - e_R), where R are the items that the user rated"
    " and Z_R their rows of Z"
)
_AVERAGE_FORMULA = (
    "This holds for every model m, with the ridge divided by the products of its scales_m, without"
    " the columns where they are 0, and e_R times its effect_weights_m. Its log weight is"
    " log_priors_m + (log |ridge| - log |Z_R' Z_R + ridge|) / 2 - (2 + k) / 2 log(2 noise + z'z -"
    " theta' Z_R' z), where z are the k numbers that it regresses. theta and w are the weighted"
    " means of all theta and effect_weights"
)

R = TypeVar("R", bound=Releases)


@dataclass(frozen=True)
class EffectsReleases(Releases):
    """The releases of private item effects, in the order in which they are published.

    Attributes:
        mean: shape (2,), the sum of the users' means and the number of users.
        counts: shape (n,), the ratings of each item, a user's counted as 1/sqrt(own ratings).
        sums: shape (n,), the weighted residuals of each item, in rating points.
        gain: a number, the sum of the users' gains.
        own: shape (2, N_USER_COEFFICIENTS + 1), how much users' coefficients and residuals vary.
    """

    mean: Gaussian
    counts: Gaussian
    sums: Gaussian
    gain: Gaussian
    own: Gaussian


@dataclass(frozen=True)
class EffectsFirstReleases(Releases):
    """The releases of a method that publishes private item effects first.

    Attributes:
        effects: of the item effects; None where they get no share of the budget.
    """

    effects: EffectsReleases | None


class ClippedRows(NamedTuple):
    """Capped rows less item effects, clipped to l2 norm L.

    Attributes:
        rows: the clipped rows.
        scales: shape (m,), the factor of each row, at most 1.
    """

    rows: ResidualRows
    scales: Floats


@mechanism
class PerUser(Mechanism):
    """A mechanism with a privacy budget per user, and its guarantee."""

    uses_item_features = True
    task = Task.RATINGS
    baseline = "private-own-mean"
    revision = 3
    publishes: ClassVar[Publishes] = Publishes.ITEM_FACTORS
    epsilon: float = setting(help="privacy budget per user", above=0, at_most=1e6)
    delta: float = setting(1e-6, "chance the promise may fail; less than 1/users", above=0, below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        limit = 2 * math.log(1 / self.delta)
        if self.uses_paper_constant and self.epsilon > limit:
            raise InvalidSetting(
                "epsilon",
                f"<= 2 ln(1/delta) = {limit:.4g} with the paper's constant",
                self.epsilon,
                "calibration tight has no such condition",
            )

    @property
    def calibration(self) -> Calibration:
        """How the noise follows from the budget, in methods where that is no setting."""
        return Calibration.TIGHT

    @property
    def uses_paper_constant(self) -> bool:
        """Whether the noise has the scale of JTT18's constant."""
        return self.calibration is Calibration.PAPER

    def budget(self) -> Loss:
        """Return the budget of all releases.

        It follows from the exact Gaussian curve, or from the paper's arithmetic: mu = eps/(2
        sqrt(ln(1/delta))).
        """
        if self.uses_paper_constant:
            return Loss(mu=self.epsilon / (2 * math.sqrt(math.log(1 / self.delta))))
        return Loss(mu=gaussian_mu(self.epsilon, self.delta))

    def build_guarantee(
        self, public: PublicFacts, releases: R, source: str, *caveats: str
    ) -> Guarantee[R]:
        """Return the guarantee per user.

        Args:
            public: the public facts.
            releases: all that is published with noise.
            source: what the claim rests on.
            caveats: what else a reader should know.

        Raises:
            InvalidSetting: delta is not below 1/users.
        """
        check_delta(self.delta, public)
        if self.task is Task.RATINGS and public.users < public.items:
            caveats += (
                f"there are fewer users ({public.users}) than items ({public.items}): per-user"
                " privacy needs many users for every item, so expect little more than each user's"
                " own mean",
            )
        return Guarantee(
            change=USER_EMPTIED,
            notion=Notion.JOINT,
            trust=Trust.CURATOR,
            publishes=self.publishes,
            public=public,
            claimed=Budget(self.epsilon, self.delta),
            source=source,
            releases=releases,
            caveats=caveats,
        )


@mechanism
class EffectsFirst(PerUser):
    """A method that spends a share of the budget on item effects first and then clips users' rows.

    The noise-aware estimator works on residuals of the users' own regressions on those effects, and
    drops directions that the noise alone would show; with either estimator every release is the
    same.
    """

    holds_gram: ClassVar[bool] = False  # whether it holds an items x items matrix
    cap: int | None = setting(
        80, "most ratings of a user that are used, chosen by own randomness (none: all)", at_least=1
    )
    clip: float = setting(
        0.45,
        "largest l2 norm of a user's centred row, in units of half the range x sqrt(cap)",
        above=0,
        at_most=10,
    )
    item_share: float = setting(
        0.3,
        "share of the budget spent on private item effects first (0: none)",
        at_least=0,
        below=1,
    )
    estimator: Estimator = setting(
        Estimator.NOISE_AWARE, "what noise drowns is shrunk or left out, or as published"
    )

    @property
    def is_noise_aware(self) -> bool:
        """Whether the estimator is the noise-aware one."""
        return self.estimator is Estimator.NOISE_AWARE

    def row_norm(self, public: PublicFacts) -> float:
        """Return the clip L of a centred row, in rating points."""
        return self.clip * public.half_width * math.sqrt(effective_cap(self.cap, public))

    def build_item_effects_releases(self, public: PublicFacts) -> EffectsReleases | None:
        """Return the releases of the item effects; None where their share of the budget is 0.

        Raises:
            InvalidSetting: the share is 0, and there are more items than the Gram matrix may have;
                only the released counts could say which items are rated most.
        """
        if self.item_share == 0:
            if self.holds_gram:
                check_gram(
                    public.items, "with item_share above 0 it works on the most rated of them"
                )
            return None
        budget = self.budget() * self.item_share
        return build_effects_releases(public, split_effects_budget(public, budget))

    def remaining_budget(self) -> Loss:
        """Return the budget that the item effects leave."""
        return self.budget() * (1 - self.item_share)

    def split_by_round(self, growth: float, rounds: int) -> list[tuple[str, Loss, int]]:
        """Split the remaining budget over the rounds.

        Args:
            growth: the signal-to-noise ratio of a round over that of the round before; at 1 one
                record stands for all rounds.
            rounds: the number of rounds.

        Returns:
            For each record its label, the budget of one publication, and the number of
            publications.
        """
        if growth == 1:
            return [("", self.remaining_budget() / rounds, rounds)]
        budgets = self.remaining_budget().split(*(growth ** (2 * t) for t in range(rounds)))
        return [(f", round {t}", budget, 1) for t, budget in enumerate(budgets, 1)]

    def compute_residual_rows(
        self, ratings: Ratings, item_effects: ItemEffects, cap: int, key: int
    ) -> ResidualRows:
        """Return at most `cap` ratings of each user less what the user knows beforehand.

        As published that is item effects and the user's mean; with the noise-aware estimator it is
        the prediction of the user's own regression on the whole row.

        Args:
            ratings: the users' ratings.
            item_effects: the private item effects.
            cap: the largest number of ratings of a user.
            key: the key of the choice of ratings, see `draw_cap_key`.
        """
        if self.is_noise_aware:
            return ResidualRows.from_ratings(
                ratings, fit_user_regressions(ratings, item_effects), cap_mask(ratings, cap, key)
            )
        return centre_ratings(cap_ratings(ratings, cap, key), item_effects.effects)

    def clip_residual_rows(
        self, ratings: Ratings, releases: EffectsFirstReleases, rng: Rng
    ) -> tuple[ItemEffects, UserData]:
        """Publish the item effects, and have the users compute their clipped residual rows.

        Args:
            ratings: the users' ratings.
            releases: the releases of the item effects.
            rng: draws the noise.

        Returns:
            The item effects, and the users' `ClippedRows`, which stay with the users.
        """
        item_effects = publish_item_effects(releases.effects, ratings, rng)
        return item_effects, ratings.map_users(self.clip_user_rows, item_effects, draw_cap_key(rng))

    def clip_user_rows(self, ratings: Ratings, item_effects: ItemEffects, key: int) -> ClippedRows:
        """Return the clipped residual rows of some users.

        A method with an items x items matrix has room for the most rated items only; which these
        are is told from the published item effects.

        Args:
            ratings: the users' ratings.
            item_effects: the private item effects.
            key: the key of the choice of ratings, see `draw_cap_key`.
        """
        public = ratings.public
        rows = self.compute_residual_rows(
            ratings, item_effects, effective_cap(self.cap, public), key
        )
        if self.holds_gram:
            rows = rows.select_columns(item_effects.select_most_rated(count_gram_items(public)))
        return ClippedRows(rows, clip_rows(rows.entries, rows.values, self.row_norm(public)))

    def describe_user_side(
        self,
        public: PublicFacts,
        columns: int,
        ranks: range,
        formula: str,
        arrays: Mapping[str, ArraySpec] = {},
        *,
        full_rows: bool = False,
    ) -> OwnSide:
        """Describe how a user computes the own factors, where columns V were fitted to rows.

        Args:
            public: the public facts.
            columns: the number of columns of the published factors.
            ranks: how many columns V, the first ones, may have.
            formula: how the user's vector u follows from the residuals y, in words.
            arrays: what else is published, by name.
            full_rows: whether the residuals are of whole rows, not of capped ones.
        """
        capped_label = f"at most {effective_cap(self.cap, public)}, chosen at random,"
        n_known_columns = N_USER_COEFFICIENTS + public.columns + 1 if self.is_noise_aware else 2
        n_factor_columns = columns - n_known_columns
        if self.is_noise_aware:
            regression, base, more = _describe_regression(public, n_known_columns - 1, True)
            arrays = {**more, **arrays}
            text = (
                f"items is [V, Z, e], V its first {n_factor_columns} columns and e the last."
                f" {regression}; b_j = {base}. S are"
                f" {'all' if full_rows else capped_label} of R, and y = x_S - b_S."
            )
            prediction_text = "the prediction for item j is b_j + V_j u"
        else:
            text = (
                f"items is [V, 1, e], V its first {n_factor_columns} columns and e the last. S are"
                f" {'all' if full_rows else capped_label} of the items that the user rated; b is"
                " the mean of"
                " x_S - e_S, without ratings the middle of the range, and y = x_S - b - e_S."
            )
            prediction_text = "the prediction for item j is b + e_j + V_j u"
        n_held_items = count_gram_items(public) if self.holds_gram else public.items
        if n_held_items < public.items:
            text += " Of S only the items in `columns`, counted from 0, are kept."
            last_item = public.items - 1
            kept_columns = ArraySpec((n_held_items,), type="int64", high=last_item, increasing=True)
            arrays = {**arrays, "columns": kept_columns}
        widths = range(ranks.start + n_known_columns, ranks.stop + n_known_columns)
        return OwnSide(f"{text} {formula}; {prediction_text}", widths, arrays)


def effective_cap(cap: int | None, public: PublicFacts) -> int:
    """Return the cap on ratings per user that holds: at most the number of items."""
    return min(cap or public.items, public.cap or public.items, public.items)


def most_rated_caveats(public: PublicFacts) -> tuple[str, ...]:
    """Return the caveat of an items x items matrix that covers the most rated items alone, if any.

    Its products would do for all items, but the largest eigenvalue of the noise grows with the root
    of their number, and rarely rated items say little about taste.
    """
    n_held_items = count_gram_items(public)
    if n_held_items == public.items:
        return ()
    return (
        f"of {public.items:,} items taste is looked for on the {n_held_items:,} with the largest"
        " released counts, as noise grows with the items; the others get item effects alone",
    )


def split_effects_budget(
    public: PublicFacts, budget: Loss, shares: tuple[float, ...] = _SHARES
) -> tuple[Loss, ...]:
    """Split a budget: the mean of all users gets what it needs, all else the remainder.

    The mean of n users has noise of standard deviation sqrt(2) / (mu sqrt(share) n) in half ranges.

    Args:
        public: the public facts.
        budget: the budget.
        shares: in what proportion the remainder is split.

    Returns:
        The budget of the mean, and one for each of `shares`.
    """
    noise = math.sqrt(2) / (budget.mu * public.users)  # at the whole budget
    lowest, highest = _MEAN_SHARES
    mean_share = min(max((noise / _MEAN_NOISE) ** 2, lowest), highest)
    scale = (1 - mean_share) / math.fsum(shares)
    return budget.split(mean_share, *(scale * share for share in shares))


def build_effects_releases(public: PublicFacts, budgets: Sequence[Loss]) -> EffectsReleases:
    """Return the releases of the item effects.

    A user's contribution: (mean less middle over half the range, 1); 1/sqrt(k) at each of k items;
    the residuals, weighted and clipped to l2 norm C; the gain over its bound; eight numbers of the
    own regression, of size 1 at most. Where a row becomes any other, the mean moves by 2 at most,
    two rows of counts are non-negative, and two rows of sums may be opposed; of the eight numbers
    three then move by 17/16 at most, four by 1, and the number of users not at all: less than
    sqrt(8).

    Args:
        public: the public facts.
        budgets: of mean, counts, sums, gain and own, see `split_effects_budget`.
    """
    n, clip = ItemAxis(public.items), effects_row_clip(public)
    mean_budget, counts_budget, sums_budget, gain_budget, own_budget = budgets
    own_norm = math.sqrt(2 * N_USER_COEFFICIENTS + 2)
    return EffectsReleases(
        _build_mean_release(mean_budget),
        build_gaussian_release(
            "ratings of each item, a user's counted as 1/sqrt(own ratings)",
            (n,),
            counts_budget,
            1.0,
            math.sqrt(2),
        ),
        build_gaussian_release(
            "weighted sum of the users' residuals of each item", (n,), sums_budget, clip
        ),
        build_gaussian_release(
            "sum of the users' gains, each at most 1", (), gain_budget, 1.0, 1.0
        ),
        build_gaussian_release(
            "squares of the users' own coefficients and residuals, and what they are worth",
            (2, N_USER_COEFFICIENTS + 1),
            own_budget,
            own_norm,
            own_norm,
        ),
    )


def _build_mean_release(budget: Loss) -> Gaussian:
    """Return the release of the mean of all users."""
    query = "sum of the users' means, from the middle in half ranges, and number of users"
    # A user adds (mean, 1) with |mean| <= 1; another row changes the mean alone.
    return build_gaussian_release(query, (2,), budget, math.sqrt(2), 2.0)


def effects_row_clip(public: PublicFacts) -> float:
    """Return C, the largest l2 norm of a user's weighted residuals, in rating points."""
    return _EFFECTS_CLIP * public.width


def publish_item_effects(
    releases: EffectsReleases | None,
    ratings: Ratings,
    rng: Rng,
    later_scale: float = math.inf,
    stream: StatisticStream | None = None,
) -> ItemEffects:
    """Publish the item effects and return what they are believed to be.

    They read whole rows, because weights keep a long row within the bounds. Without releases all
    effects are zero.

    Args:
        releases: of the item effects; None: none.
        ratings: the users' ratings.
        rng: draws the noise.
        later_scale: the noise scale of all later sums that refine the effects, in rating points.
        stream: averages what is published with earlier releases; None: there are none.
    """
    public = ratings.public
    if releases is None:
        return ItemEffects.from_public(public, ratings.features)
    stream = stream or StatisticStream(public)
    mean = _publish_mean(releases.mean, ratings, rng, stream)
    counts = CountEstimate(
        *stream.average_counts(
            releases.counts.publish(ratings.sum_over_users(_sum_rating_weights), rng),
            releases.counts.scale,
        )
    )
    combined_scale = 1 / math.hypot(1 / releases.sums.scale, 1 / later_scale)
    sums_noise = combined_scale * (counts.noise_std / releases.counts.scale)
    item_effects = ItemEffects.from_counts(public, mean, counts, sums_noise, ratings.features)
    sums, gains = ratings.sum_over_users(_sum_weighted_residuals, item_effects)
    noisy_sums, sums_noise, _ = stream.average_sums(
        "noisy_sums",
        releases.sums.publish(sums, rng),
        releases.sums.scale,
        item_effects.weights,
        item_effects.effects,
    )
    noisy_gain, gain_noise = stream.average_over_users(
        "noisy_gain", releases.gain.publish(gains, rng), releases.gain.scale
    )
    estimated_gain = estimate_mean_gain(float(noisy_gain), gain_noise, public)
    item_effects = estimate_item_effects(item_effects, noisy_sums, sums_noise, estimated_gain)
    variation = ratings.sum_over_users(_sum_coefficient_variation, item_effects)
    noisy_variation = stream.average_over_users(
        "noisy_own", releases.own.publish(variation, rng), releases.own.scale
    )
    return estimate_user_variances(item_effects, *noisy_variation)


def _publish_mean(
    release: Gaussian, ratings: Ratings, rng: Rng, stream: StatisticStream
) -> tuple[float, float]:
    """Publish the mean of all users; return its estimate and the variance of that."""
    published = release.publish(ratings.sum_over_users(sum_user_means), rng)
    (total, users), noise = stream.average_over_users("noisy_mean", published, release.scale)
    return estimate_mean_of_users(float(total), float(users), noise, ratings.public)


def sum_user_means(ratings: Ratings) -> Floats:
    """Sum the users' means and count the users who have one.

    Returns:
        Array of shape (2,): the sum of the means, from the middle in half ranges, and the number of
        users with ratings.
    """
    public, entries = ratings.public, Pattern.from_ratings(ratings)
    scaled_means = (
        row_means(entries, ratings.values, public.middle) - public.middle
    ) / public.half_width
    return np.array([scaled_means.sum(), (entries.counts > 0).sum()])


def _sum_rating_weights(ratings: Ratings) -> Floats:
    """Count each item's ratings, a user's counted as 1/sqrt(own ratings)."""
    entries = Pattern.from_ratings(ratings)
    return item_sums(entries, row_factors=1.0 / np.sqrt(np.maximum(entries.counts, 1)))


def _sum_weighted_residuals(ratings: Ratings, item_effects: ItemEffects) -> tuple[Floats, float]:
    """Sum the users' weighted and clipped residuals of each item, and the users' gains."""
    sums, total_gain, clip = np.zeros(ratings.public.items), 0.0, effects_row_clip(ratings.public)
    for _, span, chunk in Pattern.from_ratings(ratings).iter_chunks(LARGE_CHUNK):
        values = ratings.values[span] - item_effects.mean
        # Each user has three more ratings at the mean, so that one rating says something, too.
        values -= chunk.expand_rows(row_sums(chunk, values) / (chunk.counts + USER_PSEUDO_RATINGS))
        weighted, gains = weigh_rows(chunk, values, item_effects.weights.take(chunk.items), clip)
        sums += item_sums(chunk, weighted)
        total_gain += sum_bounded_gains(gains)
    return sums, total_gain


def _sum_coefficient_variation(ratings: Ratings, item_effects: ItemEffects) -> Floats:
    """Sum over users how much their coefficients vary relative to the prior."""
    regression = build_user_regression(item_effects, slope_std=SHARED_SLOPE_STD)
    return regression.sum_coefficient_variation(
        Pattern.from_ratings(ratings), ratings.values, N_USER_COEFFICIENTS
    )


def build_gaussian_release(
    query: str,
    shape: tuple[int, ...],
    budget: Loss,
    emptied_sensitivity: float,
    replaced_sensitivity: float | None = None,
    n_publications: int = 1,
    calibrated_sensitivity: float | None = None,
) -> Gaussian:
    """Return Gaussian noise of which each publication spends `budget` where a row becomes empty.

    Args:
        query: what is published, in words.
        shape: of the answer.
        budget: what one publication spends.
        emptied_sensitivity: how far in l2 the answer moves where a row becomes empty.
        replaced_sensitivity: how far in l2 it moves where a row becomes any other; None: twice as
            far, by way of the empty row.
        n_publications: how often it is published.
        calibrated_sensitivity: the sensitivity that sets the noise, where a paper takes another
            one.
    """
    return Gaussian(
        query=query,
        shape=shape,
        sensitivity={
            USER_EMPTIED: emptied_sensitivity,
            USER_REPLACED: replaced_sensitivity or 2 * emptied_sensitivity,
        },
        scale=(calibrated_sensitivity or emptied_sensitivity) / budget.mu,
        times=n_publications,
    )


def check_delta(delta: float, public: PublicFacts) -> None:
    """Raise InvalidSetting unless the delta of a guarantee per user is below 1/users."""
    if delta >= 1 / public.users:
        raise InvalidSetting(
            "delta",
            f"< 1/users = {1 / public.users:.3g}",
            delta,
            "with more, publishing one random user's row would count as private",
        )


@mechanism
class PrivateItemMean(PerUser):
    """Each user's own regression, which is free, plus item effects that take the whole budget."""

    id = "private-item-mean"
    supports_partitions = True
    name = "Private user and item means"
    short = "Private means"
    style = Style(PURPLE, "cross", "dash")
    list_order = 2
    nonprivate_counterpart = "item-mean"
    publishes = Publishes.ITEM_MEANS

    def guarantee(self, public: PublicFacts) -> Guarantee[EffectsReleases]:
        """Return the guarantee of the item effects, the only release."""
        releases = build_effects_releases(public, split_effects_budget(public, self.budget()))
        return self.build_guarantee(public, releases, "exact Gaussian curve")

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        """Describe how a user computes the own predictions."""
        return describe_user_regression(public, columns)

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield the only model: every user's regression on the published item effects."""
        item_effects = publish_item_effects(self.guarantee(ratings.public).releases, ratings, rng)
        yield Step(1, 1, ratings.build_model(fit_user_regressions, item_effects), final=True)


@dataclass(frozen=True)
class MeanRelease(Releases):
    """The release of the baselines per user.

    Attributes:
        mean: shape (2,), the sum of the users' means and the number of users, for the whole budget.
    """

    mean: Gaussian


@mechanism
class PrivateConstant(PerUser):
    """The private mean of all users for every cell: the simplest baseline per user.

    A subclass predicts from the same release and each user's own ratings, which are free.
    """

    id = "private-constant"
    uses_item_features = False
    name = "Private mean of all users"
    short = "Private constant"
    style = Style(PURPLE, "star", "dashdot")
    list_order = 2
    nonprivate_counterpart = "mean-of-users"
    revision = 1
    publishes = Publishes.ONE_NUMBER

    def guarantee(self, public: PublicFacts) -> Guarantee[MeanRelease]:
        """Return the guarantee of the mean of all users, the only release."""
        return self.build_guarantee(
            public, MeanRelease(_build_mean_release(self.budget())), "exact Gaussian curve"
        )

    @classmethod
    def build_model(cls, ratings: Ratings, mean: tuple[float, float]) -> Model:  # noqa: ARG003
        """Return the predictions.

        Args:
            ratings: the users' ratings.
            mean: the mean of all users and its variance, in rating points.
        """
        return Constant(mean[0])

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield the only model, built from the published mean of all users."""
        release = self.guarantee(ratings.public).releases.mean
        mean = _publish_mean(release, ratings, rng, StatisticStream(ratings.public))
        yield Step(1, 1, self.build_model(ratings, mean), final=True)


@mechanism
class PrivateShrunkUserMean(PrivateConstant):
    """Each user's own mean with three more ratings at the private mean of all users."""

    id = "private-own-mean"
    name = "Own mean, shrunk to the private mean"
    short = "Private own mean"
    style = Style(SKY, "star", "solid")
    nonprivate_counterpart = "own-mean"
    publishes = Publishes.ITEM_FACTORS

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        """Describe how a user computes the own predictions."""
        return describe_user_regression(
            public if self.uses_item_features else replace(public, features=()),
            columns,
            is_averaged=False,
        )

    @classmethod
    def build_model(cls, ratings: Ratings, mean: tuple[float, float]) -> Model:
        """Return the predictions, each user's from the own ratings.

        Args:
            ratings: the users' ratings.
            mean: the mean of all users and its variance, in rating points.
        """
        features = (
            ratings.features if cls.uses_item_features else np.empty((ratings.public.items, 0))
        )
        effects = ItemEffects.from_public(ratings.public, features, mean)
        return ratings.build_model(fit_user_regressions, effects, None, False)


@mechanism
class PrivateShrunkUserRegression(PrivateShrunkUserMean):
    """Each user's own regression on public features, about the private mean of all users."""

    id = "private-alone"
    uses_item_features = True
    name = "Public facts and own ratings, shrunk to the private mean"
    short = "Private own facts"
    style = Style(BLUE, "star", "8px,3px")
    nonprivate_counterpart = "own-features"


def describe_user_regression(
    public: PublicFacts,
    columns: int,
    factor_counts: Collection[int] = (0,),
    is_averaged: bool = True,
) -> OwnSide:
    """Describe how a user computes the own predictions of `fit_user_regressions`.

    Args:
        public: the public facts.
        columns: the number of columns of the published factors.
        factor_counts: how many low-rank factors there may be.
        is_averaged: whether the user averages over models, where there are item features.
    """
    formula, prediction, arrays = _describe_regression(public, columns - 1, is_averaged)
    note = " with item features in Z" if "scales" in arrays else ""
    return OwnSide(
        f"items is [Z, e]{note}, e its last column. {formula}; the prediction for item j is"
        f" {prediction}",
        [N_USER_COEFFICIENTS + public.columns + 1 + n_factors for n_factors in factor_counts],
        arrays,
    )


def _describe_regression(
    public: PublicFacts, n_features: int, is_averaged: bool
) -> tuple[str, str, dict[str, ArraySpec]]:
    """Return the formulas of theta and of a prediction, and the arrays that they need."""
    arrays = {"mean": ArraySpec(()), "ridge": ArraySpec((n_features, n_features))}
    if not (is_averaged and public.features):
        return _REGRESSION_FORMULA, "mean + e_j + Z_j theta", arrays
    n_models = len(UserModels.from_public(public).log_priors)
    arrays |= {
        "noise": ArraySpec(()),
        "scales": ArraySpec((n_models, n_features)),
        "effect_weights": ArraySpec((n_models,)),
        "log_priors": ArraySpec((n_models,)),
    }
    return f"{_REGRESSION_FORMULA}. {_AVERAGE_FORMULA}", "mean + w e_j + Z_j theta", arrays


def predict_own_ratings(
    arrays: Mapping[str, Floats], rated: Sequence[int], own_ratings: Floats
) -> Floats:
    """Compute a user's own predictions as `describe_user_regression` says, for all items.

    Args:
        arrays: the published arrays.
        rated: the rows of the items that the user rated.
        own_ratings: of the same length, in rating points.

    Returns:
        Array of shape (n,), not clipped.
    """
    features, effects, mean = arrays["items"][:, :-1], arrays["items"][:, -1], arrays["mean"]
    entries = Pattern(np.array(rated, np.int32), np.array([0, len(rated)]), (1, len(effects)))
    if "scales" in arrays:
        noise = float(arrays["noise"])
        regression = UserRegression(features, arrays["ridge"] / noise, noise)
        models = UserModels(arrays["scales"], arrays["effect_weights"], arrays["log_priors"])
        centred = own_ratings - mean
        (theta,) = models.average_regressions(regression, entries, centred, effects)
    else:
        regression = UserRegression(features, arrays["ridge"], 1.0, mean + effects)
        theta = np.append(regression.fit_coefficients(entries, own_ratings), 1.0)
    return np.asarray(mean + arrays["items"] @ theta)


def fit_user_regressions(
    ratings: Ratings,
    item_effects: ItemEffects,
    low_rank: LowRankFactors | None = None,
    is_averaged: bool = True,
) -> Factors:
    """Predict each user's ratings by item effects and the regression of the own row on features.

    Where there are item features, each user averages over which of them to use and how strongly,
    by the evidence of the own ratings. It is the user's own side, so nothing is released for it.

    Args:
        ratings: the users' ratings.
        item_effects: the item effects.
        low_rank: further features of the items, which every model uses; None: none.
        is_averaged: whether users average over models; else one regression uses all features.
    """
    regression, entries = (
        build_user_regression(item_effects, low_rank),
        Pattern.from_ratings(ratings),
    )
    arrays = {"mean": np.asarray(item_effects.mean), "ridge": regression.ridge}
    if is_averaged and ratings.public.features:
        models = UserModels.from_public(
            ratings.public, 0 if low_rank is None else len(low_rank.user_moments)
        )
        centered = ratings.values - item_effects.mean
        coefficients = models.average_regressions(
            regression, entries, centered, item_effects.effects
        )
        arrays |= {"noise": np.asarray(regression.noise_variance), **models._asdict()}
    else:
        coefficients = regression.fit_coefficients(entries, ratings.values)
        coefficients = np.column_stack([coefficients, np.ones(len(coefficients))])
    coefficients[:, 0] += item_effects.mean  # the intercept, whose feature is 1
    items = np.column_stack([regression.item_features, item_effects.effects])
    return Factors(coefficients, items, arrays)
