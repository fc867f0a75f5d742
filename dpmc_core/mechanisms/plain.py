"""Methods without privacy: counterparts of the private methods, and trivial predictors."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np

from dpmc_core.arrays import Rng
from dpmc_core.mechanisms.per_user import (
    PrivateConstant,
    PrivateShrunkUserMean,
    PrivateShrunkUserRegression,
    fit_user_regressions,
    sum_user_means,
)
from dpmc_core.model import Constant, Factors, Mechanism, Model, Step, Steps, Task
from dpmc_core.privacy import RATING, Guarantee, Notion, Publishes, Releases, Trust, Unaccounted
from dpmc_core.ratings import PublicFacts, Ratings, index_most_rated
from dpmc_core.settings import mechanism, setting
from dpmc_core.solvers.factorization import (
    ImplicitLoss,
    LeastSquaresMF,
    PenalisedCells,
    binary_matrix,
    check_interactions,
    solve_implicit_rows,
)
from dpmc_core.solvers.item_effects import ItemEffects, estimate_mean_of_users
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.one_bit import Completion, likelihood_loss, positive_labels
from dpmc_core.solvers.ranking import (
    ItemScores,
    MostRatedModel,
    UserFeatureSums,
    cosine,
    ease_weights,
    find_items_sharing_users,
    jaccard,
)
from dpmc_core.solvers.recovery import Recovery, Reports, scale_to_unit_range
from dpmc_core.solvers.rows import (
    ResidualRows,
    centre_ratings,
    draw_cap_key,
    draw_random_factors,
    factors_with_offsets,
    item_sums,
    shrink_item_means,
)
from dpmc_core.solvers.sizes import GRAM_LIMIT

Fit = Callable[[Ratings, Rng], Steps]  # as `Mechanism.fit`


@mechanism
class NonprivateMechanism(Mechanism):
    """A method that reads raw ratings without noise and guarantees nothing.

    It is its own nonprivate counterpart.

    Attributes:
        reads: what it reads of the ratings, in words.
        publishes: what it publishes.
    """

    task = Task.RATINGS
    baseline = "user-mean"
    list_order = 5
    revision = 1
    reads: ClassVar[str] = "every rating"
    publishes: ClassVar[Publishes] = Publishes.EVERYTHING

    def __init_subclass__(cls) -> None:
        cls.nonprivate_counterpart = cls.id

    def guarantee(self, public: PublicFacts) -> Guarantee:
        """Return a guarantee that promises nothing and names what is read."""
        return Guarantee(
            change=RATING,
            notion=Notion.NONE,
            trust=Trust.CURATOR,
            publishes=self.publishes,
            public=public,
            claimed=None,
            source="no privacy",
            releases=Releases(),
            unaccounted=(Unaccounted(self.reads, "used without noise"),),
        )


@mechanism
class MaximumLikelihood(Completion, NonprivateMechanism):
    """Maximum-likelihood one-bit completion without privacy (Davenport et al. 2014)."""

    id = "clear"
    name = "Maximum likelihood, no privacy"
    task = Task.BINARY
    baseline = "majority"
    publishes = Publishes.MATRIX

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield the rounds of maximum likelihood on the raw signs."""
        loss = likelihood_loss(self.link, positive_labels(ratings))
        yield from self.solve(loss, ratings, rng, raw=True)


@mechanism
class Majority(NonprivateMechanism):
    """One score for every cell: the log odds of +1, whose sign is the more frequent one."""

    id = "majority"
    name = "Majority sign"
    task = Task.BINARY
    baseline = "majority"
    revision = 2
    reads = "the more frequent sign"
    publishes = Publishes.ONE_SIGN

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:  # noqa: ARG002
        """Yield one step, the log odds of +1."""
        labels = positive_labels(ratings)
        n_positive, count = labels.sum(), len(labels)
        # Half a rating on either side keeps the odds finite; a tie counts as +1.
        score = math.log((n_positive + 0.5) / (count - n_positive + 0.5)) or 1e-9
        yield Step.from_trace(1, 1, Constant(score), {"share of +1": n_positive / count})


@mechanism
class GlobalMean(NonprivateMechanism):
    """The mean rating for every cell."""

    id = "global-mean"
    name = "Global mean"
    baseline = "global-mean"
    reads = "the mean of all ratings"
    publishes = Publishes.ONE_NUMBER

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:  # noqa: ARG002
        """Yield one step, the mean of all ratings."""
        mean = ratings.values.mean()
        yield Step.from_trace(1, 1, Constant(mean), {"mean": mean})


@mechanism
class SoftImpute(Recovery, NonprivateMechanism):
    """Nuclear-norm recovery from the ratings themselves (Mazumder, Hastie, Tibshirani 2010)."""

    id = "soft-impute"
    name = "Soft-impute, no privacy"
    baseline = "global-mean"
    publishes = Publishes.MATRIX

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield a step for each penalty of nuclear-norm recovery from the raw ratings."""
        public = ratings.public
        values = scale_to_unit_range(ratings.values, public)
        variance = self.misfit**2
        rho = self.misfit * math.sqrt(len(ratings))
        reports = Reports(Pattern.from_ratings(ratings), values, 1.0, variance, rho)
        yield from self.recover(reports, public, rng, raw=True)


@mechanism
class PMF(LeastSquaresMF, NonprivateMechanism):
    """Regularised least-squares factorization (PMF), user factors in the unit ball, as in HXZ15."""

    id = "pmf"
    name = "PMF, no privacy"
    baseline = "global-mean"
    publishes = Publishes.ITEM_AND_USER_FACTORS

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield a model after each alternation."""
        matrices = self.build_matrices(ratings)
        for index, (user_factors, item_factors) in enumerate(
            self.alternate(matrices, rng), start=1
        ):
            model = factors_with_offsets(user_factors, item_factors, ratings.public.middle)
            trace = {"objective": self.objective(matrices, user_factors, item_factors)}
            yield Step.from_trace(index, self.iterations, model, trace)


def centre_on_means(ratings: Ratings, rng: Rng) -> ResidualRows:
    """Subtract user and item means from the ratings.

    Args:
        ratings: the users' ratings.
        rng: the generator of the run, from which one unused key is drawn.
    """
    draw_cap_key(rng)  # the key is unused; this keeps the later draws of a seed as they were
    rows = centre_ratings(ratings)
    sums = item_sums(rows.entries, rows.values)
    return centre_ratings(ratings, shrink_item_means(sums, item_sums(rows.entries)))


def fit_on_most_rated(fit: Fit, ratings: Ratings, rng: Rng) -> Steps:
    """Fit a method to as many of the most rated items as a Gram matrix may have.

    The models predict the other items by user and item means.

    Args:
        fit: the `fit` of the method.
        ratings: the users' ratings.
        rng: the generator of the run.
    """
    if ratings.public.items <= GRAM_LIMIT:
        yield from fit(ratings, rng)
        return
    item_order = index_most_rated(ratings, GRAM_LIMIT)  # each item's new index, or -1
    means_model = centre_on_means(ratings, rng).base
    for step in fit(ratings.select_items(item_order), rng):
        model = step.model and MostRatedModel(step.model, item_order, means_model)
        yield replace(step, build=model)


@mechanism
class UserMean(NonprivateMechanism):
    """Each user's own mean for every item; under joint privacy this needs no noise at all."""

    id = "user-mean"
    name = "User mean"

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:  # noqa: ARG002
        """Yield one step, the mean of each user's own ratings."""
        yield Step(1, 1, centre_ratings(ratings).base, final=True)


@mechanism
class UserFeatureRegression(NonprivateMechanism):
    """Each user's own regression on public item features; it uses nobody else's ratings."""

    uses_item_features = True
    id = "alone"
    name = "Alone: public facts and own ratings"
    short = "Alone"
    reads = "each user's own ratings"

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:  # noqa: ARG002
        """Yield one step, each user's regression without any knowledge of item effects."""
        unknown_effects = ItemEffects.from_public(ratings.public, ratings.features)
        model = fit_user_regressions(ratings, unknown_effects, is_averaged=False)
        yield Step(1, 1, model, final=True)


@mechanism
class MeanOfUsers(NonprivateMechanism):
    """The mean of all users' means for every cell: a private baseline without its noise.

    The private baseline that does best without noise is the one that is used, so that the choice
    depends on no epsilon.

    Attributes:
        private_counterpart: the private baseline that makes the predictions.
    """

    id = "mean-of-users"
    name = "Mean of all users"
    reads = "the mean of all users' means"
    private_counterpart: ClassVar[type[PrivateConstant]] = PrivateConstant

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:  # noqa: ARG002
        """Yield one step, the model that the private counterpart builds from the exact mean."""
        total, users = sum_user_means(ratings).tolist()
        mean = estimate_mean_of_users(total, users, 0.0, ratings.public)
        yield Step(1, 1, self.private_counterpart.build_model(ratings, mean), final=True)


@mechanism
class ShrunkUserMean(MeanOfUsers):
    """Each user's own mean, as if the user had three more ratings at the mean of all users."""

    id = "own-mean"
    name = "Own mean, shrunk to the mean of all users"
    private_counterpart = PrivateShrunkUserMean


@mechanism
class ShrunkUserRegression(MeanOfUsers):
    """Each user's own regression on public features, about the mean of all users."""

    uses_item_features = True
    id = "own-features"
    name = "Public facts and own ratings, shrunk to the mean of all users"
    private_counterpart = PrivateShrunkUserRegression


@mechanism
class UserFeatureRanking(NonprivateMechanism):
    """Items with public features similar to those of a user's items; no other user's clicks."""

    uses_item_features = True
    id = "alone-ranking"
    name = "Alone: public facts and own items"
    short = "Alone"
    task = Task.RANKING
    baseline = "popularity"
    reads = "each user's own items"

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:  # noqa: ARG002
        """Yield one step, scores by the public features of each user's own items."""
        check_interactions(ratings)
        n_users, n_items = ratings.shape
        feature_scores = UserFeatureSums.from_pattern(
            Pattern.from_ratings(ratings), ratings.used_features, np.ones(n_items)
        )
        no_factors = Factors(np.zeros((n_users, 0)), np.zeros((n_items, 0)))
        model = feature_scores.add_to_scores(no_factors, np.ones(len(ratings.used_features)))
        yield Step(1, 1, model, final=True)


@mechanism
class ItemMean(NonprivateMechanism):
    """Each user's own mean plus the mean of each item's centred ratings."""

    id = "item-mean"
    name = "User and item means"

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield one step, the sum of user and item means."""
        yield Step(1, 1, centre_on_means(ratings, rng).base, final=True)


@mechanism
class Ials(NonprivateMechanism):
    """Implicit alternating least squares (iALS), exact, without privacy.

    Rendle, Krichene, Zhang, Koren, "Revisiting the performance of iALS on item recommendation
    benchmarks" (2021). `over = missing` is the complementary loss of RYHH24.
    """

    id = "ials"
    name = "iALS, no privacy"
    task = Task.RANKING
    baseline = "popularity"
    publishes = Publishes.USER_AND_ITEM_FACTORS
    rank: int = setting(20, "number of factors (d)", at_least=1, at_most=1024)
    regularisation: float = setting(0.003, "weight of the ridge (lambda)", above=0, at_most=1e3)
    alpha: float = setting(
        0.2, "weight of cells that were not observed (alpha0)", at_least=0, at_most=1
    )
    over: PenalisedCells = setting(PenalisedCells.ALL, "which cells pull predictions to zero")
    frequency: bool = setting(True, "ridge in proportion to a row's weight, else constant")
    single: bool = setting(True, "single precision: six digits or so, twice as fast")
    rounds: int = setting(15, "alternations of users and items", at_least=1, at_most=10_000)

    @property
    def loss(self) -> ImplicitLoss:
        """The weights of the loss."""
        return ImplicitLoss(self.alpha, self.regularisation, self.over, self.frequency)

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield a model after each alternation."""
        matrix = binary_matrix(ratings)
        columns = matrix.T.tocsr()
        user_factors, item_factors = (
            draw_random_factors(size, self.rank, rng, 1 / self.rank) for size in ratings.shape
        )
        for index in range(1, self.rounds + 1):
            user_factors = solve_implicit_rows(
                matrix, item_factors, self.loss, single=self.single, start=user_factors
            )
            item_factors = solve_implicit_rows(
                columns, user_factors, self.loss, single=self.single, start=item_factors
            )
            trace = {"loss": self.loss.value(matrix, user_factors, item_factors)}
            yield Step.from_trace(index, self.rounds, Factors(user_factors, item_factors), trace)


@mechanism
class Popularity(NonprivateMechanism):
    """Every user gets the items that most users have."""

    id = "popularity"
    name = "Popularity"
    task = Task.RANKING
    baseline = "popularity"
    reads = "how many users have each item"
    publishes = Publishes.ITEM_COUNTS

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:  # noqa: ARG002
        """Yield one step, the number of users of each item."""
        check_interactions(ratings)
        counts = item_sums(Pattern.from_ratings(ratings), ratings.values)
        model = Factors(np.ones((ratings.public.users, 1)), counts[:, None])
        yield Step.from_trace(1, 1, model, {"most popular item": counts.max()})


class Similarity(enum.Enum):
    """How similar two items are, from the users who have them."""

    JACCARD = "jaccard"
    COSINE = "cosine"


@mechanism
class ItemNeighbours(NonprivateMechanism):
    """Nearest-neighbour scores over items, without privacy: the limit of DPLCF and LDPICF."""

    id = "item-knn"
    name = "Item neighbours, no privacy"
    task = Task.RANKING
    baseline = "popularity"
    publishes = Publishes.ITEM_SIMILARITIES
    neighbours: int = setting(100, "nearest items that score an item", at_least=1, at_most=10_000)
    similarity: Similarity = setting(Similarity.JACCARD, "how alike two items are")

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:  # noqa: ARG002
        """Yield one step, scores by each item's most similar items."""
        interactions = binary_matrix(ratings)
        measure = jaccard if self.similarity is Similarity.JACCARD else cosine
        similarities = find_items_sharing_users(interactions, self.neighbours, measure)
        trace = {"neighbours per item": similarities.nnz / ratings.public.items}
        # A row holds the neighbours that score its item, so the user's items are its columns.
        yield Step.from_trace(1, 1, ItemScores(interactions, similarities.T.tocsr()), trace)


@mechanism
class Ease(NonprivateMechanism):
    """Each item regressed on all others, in closed form (Steck, EASE, 2019), without privacy.

    It covers the 5,000 most popular items where there are more; the others rank after these.
    """

    id = "ease"
    name = "EASE, no privacy"
    task = Task.RANKING
    baseline = "popularity"
    ridge: float = setting(1_000.0, "ridge of the regressions (lambda)", above=0, at_most=1e9)

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:  # noqa: ARG002
        """Yield one step, scores by the weights of all items in the regression of each."""
        check_interactions(ratings)
        item_order = index_most_rated(ratings, GRAM_LIMIT)
        selected = ratings.select_items(item_order)
        weights = ease_weights(selected, self.ridge)
        model: Model = ItemScores(selected.matrix, weights)
        if selected.shape != ratings.shape:
            # A score is a sum of some weights of an item, so none is lower than the sum of its
            # negative ones. The remaining items rank below that, in the order of their counts.
            lowest_score = np.minimum(weights, 0.0).sum(axis=0).min()
            counts = item_sums(Pattern.from_ratings(ratings), ratings.values)
            remaining_scores = (lowest_score - 1.0 / (1.0 + counts))[:, None]
            model = MostRatedModel(
                model, item_order, Factors(np.ones((ratings.public.users, 1)), remaining_scores)
            )
        yield Step.from_trace(1, 1, model, {"largest weight": weights.max()})
