"""What the user-level mechanisms for ratings share: budget, card, and private item effects.

JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018).
The unit is a user's whole row and the notion is joint: everything but a user's own predictions is
private, so what a user computes from the own row alone (mean, clip, last update) costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from dpmc_core.arrays import Floats, Rng
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
from dpmc_core.solvers.effects import (
    OWN,
    OWN_PSEUDO,
    ItemEffects,
    Taste,
    believed_gain,
    bounded_gain,
    mean_of_users,
    told_apart,
    weighted_rows,
    with_own,
    with_sums,
    with_worth,
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
from dpmc_core.style import BLUE, GREEN, PURPLE, SKY, Style

_SHARES = (0.005, 0.20, 0.75, 0.005, 0.04)  # mean, counts, sums, gain, own
_EFFECTS_CLIP = 0.25  # C in widths of the rating range

_REGRESSION_FORMULA = (
    "theta = (Z_R' Z_R + ridge)^-1 Z_R' (x - mean - e_R), where R are the items that the user rated"
    " and Z_R their rows of Z"
)

R = TypeVar("R", bound=Releases)


@dataclass(frozen=True)
class EffectsReleases(Releases):
    """What private item effects take: the mean of all users, then counts, then sums and gain."""

    mean: Gaussian
    counts: Gaussian
    sums: Gaussian
    gain: Gaussian
    own: Gaussian
    facts: Gaussian | None  # none where nothing is publicly known of the items


@dataclass(frozen=True)
class EffectsFirstReleases(Releases):
    """What a method with private item effects releases first; none where they get no budget."""

    effects: EffectsReleases | None


class ClippedRows(NamedTuple):
    """Capped rows less item effects, clipped to L; by which factors, length m."""

    rows: ResidualRows
    scales: Floats


@mechanism
class PerUser(Mechanism):
    """A budget per user, and the card that goes with it."""

    uses_item_features = True
    task = Task.RATINGS
    baseline = "private-own-mean"
    revision = 2
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
        """How the noise follows from the budget, where that is no setting."""
        return Calibration.TIGHT

    @property
    def uses_paper_constant(self) -> bool:
        """Whether JTT18's constant holds."""
        return self.calibration is Calibration.PAPER

    def budget(self) -> Loss:
        """What all releases may spend: by the exact Gaussian curve, or in the paper's arithmetic
        mu = eps/(2 sqrt(ln(1/delta)))."""
        if self.uses_paper_constant:
            return Loss(mu=self.epsilon / (2 * math.sqrt(math.log(1 / self.delta))))
        return Loss(mu=gaussian_mu(self.epsilon, self.delta))

    def build_guarantee(
        self, public: PublicFacts, releases: R, source: str, *caveats: str
    ) -> Guarantee[R]:
        """The user-level card. Raises InvalidSetting where delta is not below 1/users."""
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
    """The methods that spend a share of the budget on item effects first; rows are clipped.

    The noise-aware estimator works on residuals of the users' own regressions on those effects, and
    drops directions that the noise alone would show; either way every release is the same.
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
        """The clip L of a centred row, in rating points."""
        return self.clip * public.half_width * math.sqrt(effective_cap(self.cap, public))

    def item_effects_releases(self, public: PublicFacts) -> EffectsReleases | None:
        """Releases of the private item effects, for their share of the budget; none for share 0.

        Raises InvalidSetting where only they could say which items are rated most.
        """
        if self.item_share == 0:
            if self.holds_gram:
                check_gram(
                    public.items, "with item_share above 0 it works on the most rated of them"
                )
            return None
        return build_effects_releases(public, self.budget() * self.item_share)

    def remaining_budget(self) -> Loss:
        """What is left of the budget after the item effects."""
        return self.budget() * (1 - self.item_share)

    def split_by_round(self, growth: float, rounds: int) -> list[tuple[str, Loss, int]]:
        """What rounds may spend of the rest: words, budget of one publication, how many of it.

        growth: of the signal-to-noise ratio from round to round; at 1 one record stands for all.
        """
        if growth == 1:
            return [("", self.remaining_budget() / rounds, rounds)]
        budgets = self.remaining_budget().split(*(growth ** (2 * t) for t in range(rounds)))
        return [(f", round {t}", budget, 1) for t, budget in enumerate(budgets, 1)]

    def compute_residual_rows(
        self, ratings: Ratings, item_effects: ItemEffects, cap: int, key: int
    ) -> ResidualRows:
        """At most `cap` ratings of each user less item effects and what else the user knows.

        As published that is the own mean; else what the own regression finds in the whole row.
        """
        if self.is_noise_aware:
            return ResidualRows.from_ratings(
                ratings, fit_user_regressions(ratings, item_effects), cap_mask(ratings, cap, key)
            )
        return centre_ratings(cap_ratings(ratings, cap, key), item_effects.effects)

    def clip_residual_rows(
        self, ratings: Ratings, releases: EffectsFirstReleases, rng: Rng
    ) -> tuple[ItemEffects, UserData]:
        """The item effects, and with the users their `ClippedRows` rows."""
        item_effects = publish_item_effects(releases.effects, ratings, rng)
        return item_effects, ratings.map_users(self.clip_user_rows, item_effects, draw_cap_key(rng))

    def clip_user_rows(self, ratings: Ratings, item_effects: ItemEffects, key: int) -> ClippedRows:
        """Of any users."""
        public = ratings.public
        rows = self.compute_residual_rows(
            ratings, item_effects, effective_cap(self.cap, public), key
        )
        if self.holds_gram:
            rows = rows.select_columns(item_effects.most_rated(count_gram_items(public)))
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
        """How a user finds the own row of factors whose first columns V were fitted to rows.

        ranks: how many columns V may have. formula: how the user's vector u follows from the
        residuals y. full_rows: whether those are of whole rows, not of capped ones.
        """
        capped_label = f"at most {effective_cap(self.cap, public)}, chosen at random,"
        n_known_columns = OWN + public.columns + 1 if self.is_noise_aware else 2
        n_factor_columns = columns - n_known_columns
        if self.is_noise_aware:
            arrays = {**describe_user_regression(public, n_known_columns).arrays, **arrays}
            text = (
                f"items is [V, Z, e], V its first {n_factor_columns} columns and e the last."
                f" {_REGRESSION_FORMULA};"
                f" b_j = mean + e_j + Z_j theta. S are {'all' if full_rows else capped_label} of"
                " R, and"
                " y = x_S - b_S."
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
    """The cap on ratings per user that holds: at most the number of items."""
    return min(cap or public.items, public.cap or public.items, public.items)


def most_rated_caveats(public: PublicFacts) -> tuple[str, ...]:
    """The caveat of a matrix items x items that is about the most rated items alone, if any.

    Its products would do for all items, but the largest eigenvalue of the noise grows with the root
    of their number, and rarely rated items tell little of taste.
    """
    n_held_items = count_gram_items(public)
    if n_held_items == public.items:
        return ()
    return (
        f"of {public.items:,} items taste is looked for on the {n_held_items:,} with the largest"
        " released"
        " counts, as noise grows with the items; the others get item effects alone",
    )


def build_effects_releases(
    public: PublicFacts, budget: Loss, shares: tuple[float, ...] = _SHARES
) -> EffectsReleases:
    """What the item effects release with all of the budget, in these shares.

    A user's part: (mean less middle over half the range, 1); 1/sqrt(k) at each of k items; the
    residuals, weighted and clipped to l2 norm C; the gain over its bound; eight numbers of the own
    regression, of size 1 at most. Where a row becomes any other, the mean moves by 2 at most, two
    rows of counts are non-negative, and two rows of sums may be opposed; of the eight numbers three
    then move by 17/16 at most, four by 1, and the number of users not at all: less than sqrt(8).
    Where facts about items are public, half of what goes to these numbers goes to one a fact, in
    [-1, 1].
    """
    n, clip, n_features = public.items, effects_row_clip(public), len(public.features)
    mean_budget, counts_budget, sums_budget, gain_budget, own_budget = budget.split(*shares)
    features_release = None
    if n_features:
        own_budget, features_budget = own_budget.split(0.5, 0.5)
        query = "how much more each public fact tells the users than by chance"
        features_release = build_gaussian_release(
            query, (n_features,), features_budget, math.sqrt(n_features), 2 * math.sqrt(n_features)
        )
    return EffectsReleases(
        _build_mean_release(mean_budget),
        build_gaussian_release(
            "ratings of each item, a user's counted as 1/sqrt(own ratings)",
            *((n,), counts_budget, 1.0, math.sqrt(2)),
        ),
        build_gaussian_release(
            "weighted sum of the users' residuals of each item", (n,), sums_budget, clip, 2 * clip
        ),
        build_gaussian_release(
            "sum of the users' gains, each at most 1", (), gain_budget, 1.0, 1.0
        ),
        build_gaussian_release(
            "squares of the users' own coefficients and residuals, and what they are worth",
            *((2, OWN + 1), own_budget, math.sqrt(2 * OWN + 2), math.sqrt(2 * OWN + 2)),
        ),
        features_release,
    )


def _build_mean_release(budget: Loss) -> Gaussian:
    """The release of the mean of all users, for that part of the budget."""
    query = "sum of the users' means, from the middle in half ranges, and number of users"
    return build_gaussian_release(query, (2,), budget, math.sqrt(2), 2.0)


def effects_row_clip(public: PublicFacts) -> float:
    """C, the largest l2 norm of a user's weighted residuals, in rating points."""
    return _EFFECTS_CLIP * public.width


def publish_item_effects(
    releases: EffectsReleases | None,
    ratings: Ratings,
    rng: Rng,
    later_scale: float = math.inf,
) -> ItemEffects:
    """Item effects of whole rows: weights keep a long one in bounds. Zeros without releases."""
    public = ratings.public
    if releases is None:
        return ItemEffects.unknown(public, ratings.features)
    mean = _publish_mean(releases.mean, ratings, rng)
    noisy_values = releases.counts.publish(ratings.sum_over_users(_sum_rating_weights), rng)
    combined_scale = 1 / math.hypot(1 / releases.sums.scale, 1 / later_scale)
    item_effects = ItemEffects.counted(
        public, mean, noisy_values, releases.counts.scale, combined_scale, ratings.features
    )
    sums, gains = ratings.sum_over_users(_sum_weighted_residuals, item_effects)
    noisy_values = releases.sums.publish(sums, rng)
    noisy_gain = releases.gain.publish(gains, rng)
    estimated_gain = believed_gain(float(noisy_gain), releases.gain.scale, public)
    item_effects = with_sums(item_effects, noisy_values, releases.sums.scale, estimated_gain)
    if releases.facts is not None:
        feature_gains = releases.facts.publish(
            ratings.sum_over_users(told_apart, item_effects), rng
        )
        item_effects = with_worth(item_effects, feature_gains, releases.facts.scale)
    variation = ratings.sum_over_users(_sum_coefficient_variation, item_effects)
    return with_own(item_effects, releases.own.publish(variation, rng), releases.own.scale)


def _publish_mean(release: Gaussian, ratings: Ratings, rng: Rng) -> tuple[float, float]:
    """The mean of all users from its release, and its variance."""
    total, users = release.publish(ratings.sum_over_users(sum_user_means), rng)
    return mean_of_users(float(total), float(users), release.scale, ratings.public)


def sum_user_means(ratings: Ratings) -> Floats:
    """The users' means, from the middle in half ranges, and how many users have one: sums."""
    public, entries = ratings.public, Pattern.from_ratings(ratings)
    scaled_means = (
        row_means(entries, ratings.values, public.middle) - public.middle
    ) / public.half_width
    return np.array([scaled_means.sum(), (entries.counts > 0).sum()])


def _sum_rating_weights(ratings: Ratings) -> Floats:
    """Each item's ratings, a user's counted as 1/sqrt(own ratings)."""
    entries = Pattern.from_ratings(ratings)
    return item_sums(entries, row_factors=1.0 / np.sqrt(np.maximum(entries.counts, 1)))


def _sum_weighted_residuals(ratings: Ratings, item_effects: ItemEffects) -> tuple[Floats, float]:
    """Each item's sum of the users' residuals, weighted and clipped; the sum of their gains."""
    sums, total_gain, clip = np.zeros(ratings.public.items), 0.0, effects_row_clip(ratings.public)
    for _, span, chunk in Pattern.from_ratings(ratings).iter_chunks(LARGE_CHUNK):
        values = ratings.values[span] - item_effects.mean
        # Three more ratings at the mean: a user with one rating says something, too.
        values -= chunk.expand_rows(row_sums(chunk, values) / (chunk.counts + OWN_PSEUDO))
        weights = item_effects.weights.take(chunk.items)
        weighted, gains = weighted_rows(chunk, values, weights, clip)
        sums += item_sums(chunk, weighted)
        total_gain += bounded_gain(gains)
    return sums, total_gain


def _sum_coefficient_variation(ratings: Ratings, item_effects: ItemEffects) -> Floats:
    return item_effects.design().differences(Pattern.from_ratings(ratings), ratings.values, OWN)


def build_gaussian_release(
    query: str,
    shape: tuple[int, ...],
    budget: Loss,
    emptied_sensitivity: float,
    replaced_sensitivity: float,
    n_publications: int = 1,
    calibrated_sensitivity: float | None = None,
) -> Gaussian:
    """Gaussian noise of which each publication spends `budget` where a row becomes empty.

    emptied_sensitivity, replaced_sensitivity: how far in l2 the answer moves then, and where a row
    becomes any other.
    calibrated_sensitivity: how far the noise takes it to move, where a paper takes another number.
    """
    return Gaussian(
        query=query,
        shape=shape,
        sensitivity={USER_EMPTIED: emptied_sensitivity, USER_REPLACED: replaced_sensitivity},
        scale=(calibrated_sensitivity or emptied_sensitivity) / budget.mu,
        times=n_publications,
    )


def check_delta(delta: float, public: PublicFacts) -> None:
    """Raise InvalidSetting unless the delta of a promise per user is below 1/users."""
    if delta >= 1 / public.users:
        raise InvalidSetting(
            "delta",
            f"< 1/users = {1 / public.users:.3g}",
            delta,
            "with more, publishing one random user's row would count as private",
        )


@mechanism
class PrivateItemMean(PerUser):
    """Each user's own side, which is free, plus item effects that take the whole budget."""

    id = "private-item-mean"
    supports_partitions = True
    name = "Private user and item means"
    short = "Private means"
    style = Style(PURPLE, "cross", "dash")
    list_order = 2
    nonprivate_counterpart = "item-mean"
    publishes = Publishes.ITEM_MEANS

    def guarantee(self, public: PublicFacts) -> Guarantee[EffectsReleases]:
        releases = build_effects_releases(public, self.budget())
        return self.build_guarantee(public, releases, "exact Gaussian curve")

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        return describe_user_regression(public, columns)

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        item_effects = publish_item_effects(self.guarantee(ratings.public).releases, ratings, rng)
        yield Step(1, 1, ratings.build_model(fit_user_regressions, item_effects), final=True)


@dataclass(frozen=True)
class MeanRelease(Releases):
    """What the baselines per user release: the mean of all users, for the whole budget."""

    mean: Gaussian


@mechanism
class PrivateConstant(PerUser):
    """The private mean of all users for every cell: the simplest baseline with a promise per user.

    A subclass predicts from the same release and each user's own ratings, which are free.
    """

    id = "private-constant"
    uses_item_features = False
    name = "Private mean of all users"
    short = "Private constant"
    style = Style(GREEN, "star", "dot")
    list_order = 2
    nonprivate_counterpart = "mean-of-users"
    revision = 1
    publishes = Publishes.ONE_NUMBER

    def guarantee(self, public: PublicFacts) -> Guarantee[MeanRelease]:
        return self.build_guarantee(
            public, MeanRelease(_build_mean_release(self.budget())), "exact Gaussian curve"
        )

    @classmethod
    def build_model(cls, ratings: Ratings, mean: tuple[float, float]) -> Model:  # noqa: ARG003
        """The predictions. mean: of all users, with its variance."""
        return Constant(mean[0])

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        mean = _publish_mean(self.guarantee(ratings.public).releases.mean, ratings, rng)
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
        return describe_user_regression(
            public if self.uses_item_features else replace(public, features=()), columns
        )

    @classmethod
    def build_model(cls, ratings: Ratings, mean: tuple[float, float]) -> Model:
        features = (
            ratings.features if cls.uses_item_features else np.empty((ratings.public.items, 0))
        )
        return ratings.build_model(
            fit_user_regressions, ItemEffects.unknown(ratings.public, features, mean)
        )


@mechanism
class PrivateShrunkUserRegression(PrivateShrunkUserMean):
    """Each user's own regression on public features, about the private mean of all users."""

    id = "private-alone"
    uses_item_features = True
    name = "Public facts and own ratings, shrunk to the private mean"
    short = "Private own facts"
    style = Style(BLUE, "star", "dot")
    nonprivate_counterpart = "own-features"


def describe_user_regression(
    public: PublicFacts, columns: int, factor_counts: Collection[int] = (0,)
) -> OwnSide:
    """How a user finds the own predictions of `fit_user_regressions`; factor_counts: how many of
    taste."""
    return OwnSide(
        f"items is [Z, e], e its last column. {_REGRESSION_FORMULA}; the prediction for item j is"
        " mean + e_j + Z_j theta",
        [OWN + public.columns + 1 + n_factors for n_factors in factor_counts],
        {"mean": ArraySpec(()), "ridge": ArraySpec((columns - 1, columns - 1))},
    )


def fit_user_regressions(
    ratings: Ratings, item_effects: ItemEffects, low_rank: Taste | None = None
) -> Factors:
    """Everybody's predictions: item effects, and the regression of the own row on them."""
    regression = item_effects.design(low_rank)
    coefficients = regression.coefficients(Pattern.from_ratings(ratings), ratings.values)
    coefficients[:, 0] += item_effects.mean  # whose feature is 1
    intercept = np.ones(len(coefficients))
    return Factors(
        np.column_stack([coefficients, intercept]),
        np.column_stack([regression.features, item_effects.effects]),
        {"mean": np.asarray(item_effects.mean), "ridge": regression.noise * regression.precision},
    )
