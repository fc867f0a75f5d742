"""SVD after cleansing: item means, shrunken covariance, local prediction. No privacy here.

McSherry, Mironov, "Differentially Private Recommender Systems: Building Privacy into the Netflix
Prize Contenders" (2009): what its steps do with sums and counts that may carry noise.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmc_core.model import ArrayPart, Model, OwnSide
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import setting
from dpmc_core.solvers.als import ridge_rows
from dpmc_core.solvers.lapack import top_eigenpairs
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.rows import gram, item_sums, row_sums, with_offsets
from dpmc_core.stopping import look

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Answer = Callable[[Floats], Floats]

_LEAST_WEIGHT = 0.01  # noise may leave the weights of two items at nothing or below
_LEAST_VARIANCE = 0.01  # of the average, likewise
_CHUNK = 200_000  # predictions made at once by the neighbours


class Predictor(enum.Enum):
    """How a user's own predictions follow from the covariance of the items."""

    SVD = "svd"  # coordinates on its leading eigenvectors
    NEIGHBOURS = "neighbours"  # own ratings of the most correlated items


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What answers each statistic of the ratings, with noise or without."""

    total: Answer
    count: Answer
    item_sums: Answer
    item_counts: Answer
    products: Answer
    weights: Answer

    @classmethod
    def exact(cls) -> Answers:
        """Every statistic as it is."""

        def same(statistic: Floats) -> Floats:
            return statistic

        return cls(
            total=same,
            count=same,
            item_sums=same,
            item_counts=same,
            products=same,
            weights=same,
        )


@dataclass(frozen=True, kw_only=True)
class Cleansing:
    """The method's public settings and its steps."""

    rank: int = setting(3, "eigenvectors kept of the covariance", at_least=1, at_most=1_000)
    item_prior: float = setting(
        10.0, "fictitious average ratings of each item (beta_m)", above=0, at_most=1e4
    )
    user_prior: float = setting(
        5.0, "fictitious average ratings of each user (beta_p)", above=0, at_most=1e4
    )
    shrink: float = setting(
        10.0, "average entries added to each covariance (beta)", at_least=0, at_most=1e4
    )
    clamp: float = setting(
        0.25, "largest |residual| B, in widths of the rating range", above=0, at_most=1
    )
    predictor: Predictor = setting(Predictor.SVD, "local prediction from the covariance")
    neighbours: int = setting(20, "most similar items that vote", at_least=1, at_most=10_000)

    def complete(
        self, cells: Pattern, values: Floats, public: PublicFacts, ask: Answers
    ) -> tuple[Model, int]:
        """The model, and how many residuals were clamped.

        values: ratings at the cells, in rating points. Ratings reach anything but their user's own
        row only through `ask`.
        """
        about = values - public.middle
        total = float(ask.total(np.asarray(about.sum())))
        count = max(float(ask.count(np.asarray(float(len(values))))), 1.0)
        overall = float(np.clip(total / count, -public.half_width, public.half_width))
        sums = ask.item_sums(item_sums(cells, about))
        counts = ask.item_counts(item_sums(cells, np.ones_like(about)))
        means = (sums + self.item_prior * overall) / (np.maximum(counts, 0.0) + self.item_prior)
        means = np.clip(means, -public.half_width, public.half_width)

        raw = about - means[cells.items]
        rated = np.diff(cells.indptr)
        offsets = row_sums(cells, raw) / (rated + self.user_prior)
        bound = self.clamp * public.width
        residuals = np.clip(raw - offsets[cells.users], -bound, bound)
        clamped = int((residuals != raw - offsets[cells.users]).sum())

        exact, shares = self.products(cells, residuals)
        products, weights = ask.products(exact), ask.weights(shares)
        matrix = shrunken_covariance(products, weights, self.shrink)
        user, item = offsets + public.middle, means
        if self.predictor is Predictor.NEIGHBOURS:
            model: Model = neighbour_model(
                cells, residuals, user, item, matrix, min(self.neighbours, public.items)
            )
            return model, clamped
        factors, noise = leading_factors(matrix, self.rank)
        left = ridge_rows(cells.by_user(residuals), factors, noise)
        model = with_offsets(left, factors, user, item)
        return replace(model, own={"noise": np.asarray(noise)}), clamped

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        """How a user finds the own predictions; neighbours have no factors for it."""
        bound = self.clamp * public.width
        return OwnSide(
            f"items is [V, 1, e], V its first {columns - 2} columns and e the last. S are the"
            " items that the user rated, where there are more than the cap as many of them, chosen"
            f" at random; b = sum of (x_S - {public.middle!r} - e_S) / (number of S +"
            f" {self.user_prior!r}), y = x_S - {public.middle!r} - e_S - b cut to +-{bound!r},"
            f" u = (V_S' V_S + noise I)^-1 V_S' y; the prediction for item j is"
            f" {public.middle!r} + b + e_j + V_j u",
            () if self.predictor is Predictor.NEIGHBOURS else range(2, self.rank + 3),
            {"noise": ArrayPart(())},
        )

    def products(self, cells: Pattern, residuals: Floats) -> tuple[Floats, Floats]:
        """Weighted products of residuals of each two items, and the weights; n x n each.

        A user counts as 1/||e_u||_2 = 1/sqrt(ratings): the fourth root goes into either factor.
        """
        root = np.maximum(np.diff(cells.indptr), 1)[cells.users] ** -0.25
        return gram(cells, residuals * root), gram(cells, root)


def shrunken_covariance(products: Floats, weights: Floats, shrink: float) -> Floats:
    """Entrywise covariance from weighted products and weights (n x n), shrunk towards its mean.

    `shrink` average products and weights are added to every entry; the average is over entries.
    """
    look()
    average, weight = float(products.mean()), max(float(weights.mean()), _LEAST_WEIGHT)
    total = np.maximum(weights, 0.0) + shrink * weight
    look()
    found = (products + shrink * average) / np.maximum(total, _LEAST_WEIGHT)
    look()
    symmetric: Floats = 0.5 * (found + found.T)
    return symmetric


def leading_factors(matrix: Floats, rank: int) -> tuple[Floats, float]:
    """n x rank factors F of the best positive semidefinite approximation F F', and the variance
    of a rating that they leave (at least a hundredth of the average)."""
    values, vectors = top_eigenpairs(matrix, rank)
    kept = np.maximum(values, 0.0)
    average = max(float(np.trace(matrix)) / len(matrix), 1e-12)
    left = average - float(kept.sum()) / len(matrix)
    factors: Floats = vectors * np.sqrt(kept)
    return factors, max(left, 0.01 * average)


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Predictions from a user's own ratings of similar items.

    user + item offset + sum s_jk r_uk / sum s_jk over the rated items k among the most similar
    ones to j. residuals: users x items CSR; rated: the same cells with ones; similarity: items x
    items CSR with non-negative entries.
    """

    user: Floats
    item: Floats
    residuals: csr_array
    rated: csr_array
    similarity: csr_array
    factors: ClassVar[None] = None

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        u, j = np.broadcast_arrays(np.asarray(users), np.asarray(items))
        out = np.empty(u.size)
        flat_u, flat_j = u.ravel(), j.ravel()
        for start in range(0, u.size, _CHUNK):
            look()
            k = slice(start, start + _CHUNK)
            near = self.similarity[flat_j[k]]
            total = np.asarray((self.rated[flat_u[k]] * near).sum(axis=1)).ravel()
            voted = np.asarray((self.residuals[flat_u[k]] * near).sum(axis=1)).ravel()
            # One rating's worth of doubt: few or dissimilar neighbours say little.
            out[k] = self.user[flat_u[k]] + self.item[flat_j[k]] + voted / (total + 1.0)
        return out.reshape(u.shape)


def neighbour_model(
    cells: Pattern,
    residuals: Floats,
    user: Floats,
    item: Floats,
    matrix: Floats,
    count: int,
) -> Neighbours:
    """The nearest-neighbour model of a covariance matrix: correlations, the `count` largest."""
    from scipy.sparse import csr_array

    variance = np.diag(matrix)
    least = max(_LEAST_VARIANCE * float(np.abs(variance).mean()), 1e-12)
    spread = np.sqrt(np.maximum(variance, least))
    similarity = np.clip(matrix / spread[:, None] / spread, 0.0, 1.0)
    np.fill_diagonal(similarity, 0.0)
    if count < len(similarity):
        cut = np.partition(similarity, -count, axis=1)[:, -count]
        similarity = np.where(similarity >= cut[:, None], similarity, 0.0)
    return Neighbours(
        user,
        item,
        cells.by_user(residuals),
        cells.by_user(np.ones_like(residuals)),
        csr_array(similarity),
    )
