"""Rankings from locally flipped bits: DPLCF, LDPICF and popularity.

Each user reports the whole 0/1 row, every bit flipped with probability 1/(1 + e^eps). The server
publishes what it estimates from the reports, and each user scores items with it and the user's own
true row: by item similarities (the published estimator), or by popularity and the low-rank factors
that exceed the noise (the default).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from dpmc_core.arrays import Floats, Ints, Rng
from dpmc_core.model import Estimator, Factors, Mechanism, Model, PrivacyRequest, Step, Steps, Task
from dpmc_core.privacy import (
    CELL,
    Guarantee,
    Publishes,
    RandomizedResponse,
    Releases,
    Trust,
)
from dpmc_core.privacy.channels import flip_probability
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import PublishedSettings, mechanism, setting
from dpmc_core.solvers.factorization import binary_matrix
from dpmc_core.solvers.ranking import (
    ClickFactors,
    FlippedBits,
    ItemScores,
    cosine,
    find_nearest_items,
    jaccard,
)
from dpmc_core.solvers.sizes import check_full_reports
from dpmc_core.style import BLUE, SKY, VERMILION, Style


@dataclass(frozen=True)
class FlippedRows(Releases):
    """The release of all rows, every bit flipped at random.

    Attributes:
        bits: shape (users, items), whether the user has the item.
    """

    bits: RandomizedResponse


@mechanism
class FlippedReports(Mechanism):
    """A mechanism in which every user reports the flipped row.

    Attributes:
        caveats: what else a reader of the guarantee should know.
        keeps_dense_reports: whether the reports of all cells are held as numbers.
    """

    change = CELL
    trust = Trust.LOCAL
    publishes = Publishes.FLIPPED_ROWS
    task = Task.RANKING
    baseline = "local-popularity"
    caveats: ClassVar[tuple[str, ...]] = ()
    epsilon: float = setting(help="privacy budget per user-item cell", above=0, at_most=1e6)
    keeps_dense_reports: ClassVar[bool] = False

    @property
    def bit_flip_probability(self) -> float:
        """The probability 1/(1 + e^eps) that a bit is reported wrongly."""
        return flip_probability(self.epsilon)

    def guarantee(self, public: PublicFacts) -> Guarantee[FlippedRows]:
        """Return the guarantee: every bit of every row is flipped at random."""
        bits = RandomizedResponse.binary(
            self.bit_flip_probability,
            self.bit_flip_probability,
            query="every bit of every row",
            shape=public.axes,
            sensitivity={CELL: 1},
        )
        return self.pure_guarantee(public, FlippedRows(bits), self.caveats)

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield one step, the model that `rank_items` builds from the flipped rows."""
        check_full_reports(ratings.public, as_dense=self.keeps_dense_reports)
        releases = self.guarantee(ratings.public).releases
        bits = releases.bits.publish_rows(binary_matrix(ratings), rng)
        reports = FlippedBits(bits, ratings.public.items, self.bit_flip_probability)
        model, model_trace = self.rank_items(reports, ratings)
        trace = {"share of bits reported as 1": reports.reported_shares.mean()}
        yield Step(1, 1, model, {**trace, **model_trace}, final=True)

    def rank_items(
        self, reports: FlippedBits, ratings: Ratings
    ) -> tuple[Model, Mapping[str, float]]:
        """Return the model that ranks items, and numbers for the trace, which may be published.

        Args:
            reports: the flipped bits.
            ratings: the users' items; each user's own row may only reach the scores of that user.
        """
        raise NotImplementedError


@mechanism
class LocalPopularity(FlippedReports):
    """How many of m users have each item, from bits flipped with f: (reports - m f) / (1 - 2 f)."""

    id = "local-popularity"
    name = "Local popularity"
    style = Style(SKY, "square", "dot")
    list_order = 2
    nonprivate_counterpart = "popularity"
    revision = 2
    source = "randomised response on every bit"
    caveats = ("the server holds the reports, whatever it publishes",)
    publishes = Publishes.ITEM_COUNTS

    def rank_items(
        self, reports: FlippedBits, ratings: Ratings
    ) -> tuple[Model, Mapping[str, float]]:
        """Rank items by the unbiased counts of their users."""
        users = ratings.public.users
        counts = users * reports.shares
        return Factors(np.ones((users, 1)), counts[:, None]), {"most popular item": counts.max()}


@mechanism
class LocalNeighbours(FlippedReports):
    """A mechanism with two estimators from the same reports: as published, or noise-aware."""

    nonprivate_counterpart = "item-knn"
    caveats = (
        "each user scores with the own true row, on the own device: what the server holds are the"
        " reports",
    )
    uses_item_features = True
    estimator: Estimator = setting(
        Estimator.NOISE_AWARE, "popularity and tastes clear of the noise, or item similarities"
    )
    published_settings = PublishedSettings({"estimator": Estimator.PUBLISHED, "neighbours": 100})
    neighbours: int = setting(
        100, "nearest items that score an item (as published)", at_least=1, at_most=10_000
    )

    @property
    def keeps_dense_reports(self) -> bool:  # type: ignore[override]
        """Whether the reports of all cells are held as numbers."""
        return self.estimator is Estimator.PUBLISHED

    def estimate_similarities(self, reports: FlippedBits, item_block: Ints) -> Floats:
        """Estimate the similarities of the items of a block with all items.

        Args:
            reports: the flipped bits.
            item_block: shape (k,), item indices.

        Returns:
            Array of shape (k, items).
        """
        raise NotImplementedError

    def rank_items(
        self, reports: FlippedBits, ratings: Ratings
    ) -> tuple[Model, Mapping[str, float]]:
        """Rank items by popularity and low-rank factors, or by their most similar items."""
        interactions = binary_matrix(ratings)
        n_items = ratings.public.items
        if self.estimator is Estimator.NOISE_AWARE:
            click_factors = ClickFactors.from_reports(reports, ratings.used_features)
            n_factors = float(click_factors.loadings.shape[1])
            return click_factors.score_items(interactions), {"tastes clear of the noise": n_factors}
        similarities = find_nearest_items(
            n_items, self.neighbours, partial(self.estimate_similarities, reports)
        )
        return ItemScores(interactions, similarities.T.tocsr()), {
            "neighbours per item": similarities.nnz / n_items
        }


@mechanism
class Dplcf(LocalNeighbours):
    """DPLCF: Jaccard similarity from unbiased estimates of intersections and unions.

    Gao, Huang, Lin, Jin, Li, "DPLCF: Differentially Private Local Collaborative Filtering" (2020).
    """

    id = "dplcf"
    name = "DPLCF"
    style = Style(VERMILION, "hourglass", "longdashdot")
    revision = 3
    source = "Gao et al. 2020; randomised response on every bit"

    @classmethod
    def recommendation_reason(cls, request: PrivacyRequest) -> str | None:
        """Return why this mechanism suits the request, None where it does not."""
        if request.change.per_user:
            return None
        return "every cell reports, so tastes are seen through the flips; no trust needed"

    def estimate_similarities(self, reports: FlippedBits, item_block: Ints) -> Floats:
        """Estimate Jaccard similarities of the items of a block with all items.

        Args:
            reports: the flipped bits.
            item_block: shape (k,), item indices.

        Returns:
            Array of shape (k, items).
        """
        first, second = reports.counts[item_block][:, None], reports.counts
        return jaccard(reports.estimate_shared_users(item_block), first, second)


@mechanism
class Ldpicf(LocalNeighbours):
    """LDPICF: cosine similarity from maximum-likelihood pair frequencies in the simplex.

    Guo, Luo, Dong, Yang, "Locally Differentially Private Item-based Collaborative Filtering"
    (2019).
    """

    id = "ldpicf"
    name = "LDPICF"
    style = Style(BLUE, "bowtie", "dot")
    revision = 3
    source = "Guo et al. 2019; randomised response on every bit"
    iterations: int = setting(
        20, "expectation-maximisation steps of a pair", at_least=1, at_most=10_000
    )

    def estimate_similarities(self, reports: FlippedBits, item_block: Ints) -> Floats:
        """Estimate cosine similarities of the items of a block with all items.

        Args:
            reports: the flipped bits.
            item_block: shape (k,), item indices.

        Returns:
            Array of shape (k, items).
        """
        return cosine(*reports.fit_pair_counts(item_block, self.iterations))
