"""Private Frank-Wolfe, its variant with Oja's method, and the paper's baselines SVD and PGD.

Each method has its counterpart without privacy. JTT18: Jain, Thakkar, Thakurta, "Differentially
Private Matrix Completion Revisited" (2018).

In shapes, m is the number of users, n of items and n_entries of observed ratings, sorted by user.
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpmc_core.arrays import Floats, ItemAxis, Rng, Sparse
from dpmc_core.errors import InvalidSetting
from dpmc_core.mechanisms.per_user import (
    ClippedRows,
    EffectsFirst,
    EffectsFirstReleases,
    build_gaussian_release,
    describe_user_regression,
    effective_cap,
    fit_user_regressions,
    most_rated_caveats,
)
from dpmc_core.mechanisms.plain import NonprivateMechanism, centre_on_means, fit_on_most_rated
from dpmc_core.metrics import rmse
from dpmc_core.model import ArraySpec, Estimator, Factors, OwnSide, Step, Steps
from dpmc_core.privacy import Calibration, Gaussian, Guarantee, Loss
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import PublishedSettings, inherit_setting, mechanism, setting
from dpmc_core.solvers.empirical_bayes import shrink_eigenvalues
from dpmc_core.solvers.item_effects import estimate_low_rank_from_gram
from dpmc_core.solvers.linalg import (
    MatrixProduct,
    Pattern,
    SingularValueShrinker,
    eigenpairs_above,
    l1_threshold,
    leading_eigenpairs,
    low_rank_plus_sparse,
)
from dpmc_core.solvers.rows import (
    clip_rows,
    draw_random_factors,
    gram_products,
    low_rank_gram_products,
    nuclear_radius,
    row_norms,
    row_sums,
    scale_rows,
    scatter_rows,
    shrinkage,
)
from dpmc_core.solvers.sizes import check_descent, check_rank, count_gram_items, max_descent_rank
from dpmc_core.stopping import check_cancelled
from dpmc_core.style import BLUE, PURPLE, SKY, Style

# Finds the top singular pair of the clipped A; see `top_pair` of `iterate_frank_wolfe`.
TopPair = Callable[[int, Sparse, Floats], tuple[Floats, float, bool]]
# A noisy top eigenpair of A'A and its noise.
Eigenpair = tuple[
    Floats,  # v, of length 1, shape (n,)
    float,  # lambda^2, in squared rating points; noise may make it negative
    float,  # the scale of the noise
    float,  # the noise edge: the lambda^2 that noise alone usually has
]

# As in JTT18: no item effects first, the paper's constant, and rows that no clip shortens.
_PUBLISHED_SETTINGS = {
    "estimator": Estimator.PUBLISHED,
    "calibration": Calibration.PAPER,
    "item_share": 0.0,
    "clip": 1.0,
}
_PUBLISHED_NOTE = (
    "radius and rounds are cross-validated in the paper, and its noise changes from round to round"
    " by a rule that it does not print: they stay what they are; as printed, T rounds make T - 1"
    " updates, because the first direction is 0: here they make T"
)
_FAILURE_PROBABILITY = 1 / 3  # the paper's beta in the eigenvalue slack
_SVD_TOLERANCE = 1e-6  # relative accuracy of the eigenpairs of private SVD
# Relative accuracy of all other eigenpairs, which suffices because their noise is far larger.
_EIGEN_TOLERANCE = 1e-4


def _format_source(method: EffectsFirst, theorem: str) -> str:
    """Return the `source` of a guarantee: the theorem, and whether its own constant is used."""
    return f"{'' if method.uses_paper_constant else 'exact Gaussian curve for '}JTT18, {theorem}"


# The Gram matrix of users' rows.


def build_gram_release(
    method: EffectsFirst,
    public: PublicFacts,
    query: str,
    sensitivity: float,
    budget: Loss,
    n_publications: int = 1,
) -> Gaussian:
    """Return the release of the Gram matrix of users' rows.

    In the Frobenius norm the matrix moves by `sensitivity` if a row becomes empty, and by sqrt(2)
    times that if it becomes any other row. With the paper's constant, the noise is that for rows of
    norm 2 L, whatever they are clipped to.

    Args:
        method: the mechanism, which knows L and whether the paper's constant is used.
        public: the public facts.
        query: what is published, in words.
        sensitivity: the largest squared norm of a row, in squared rating points.
        budget: what one publication spends.
        n_publications: how often it is published.
    """
    paper_sensitivity = 4 * method.row_norm(public) ** 2 if method.uses_paper_constant else None
    n = ItemAxis(count_gram_items(public))
    return build_gaussian_release(
        query,
        (n, n),
        budget,
        sensitivity,
        math.sqrt(2) * sensitivity,
        n_publications,
        paper_sensitivity,
    )


def publish_gram(
    release: Gaussian, exact_products: MatrixProduct, symmetric: bool, rng: Rng
) -> tuple[MatrixProduct, int, float]:
    """Publish a Gram matrix and return its products with blocks of columns.

    Args:
        release: the release of the n x n matrix.
        exact_products: maps a block of shape (n, b) to the exact matrix times the block.
        symmetric: whether the noise is (N + N')/2, whose top eigenvalue is about sqrt(2 n) sigma;
            else the upper triangle of N is mirrored, as eigenvalue routines do that read one
            triangle, and the top eigenvalue is about 2 sqrt(n) sigma.
        rng: draws the noise.

    Returns:
        The function that multiplies the noisy matrix, n, and the largest eigenvalue of the noise.
    """
    n = release.shape[0] or 0
    edge = release.scale * math.sqrt(n) * (math.sqrt(2) if symmetric else 2.0)
    return release.publish_products(exact_products, rng, mirrored=not symmetric), n, edge


# Frank-Wolfe.


class StepRule(enum.Enum):
    """How the share of the new rank-one matrix in round t = 1, 2, ... of T is chosen."""

    FIXED = "fixed"  # 1/T
    DECREASING = "decreasing"  # 2/(t + 1): the first round forgets the start
    LINE_SEARCH = "line-search"  # exact, reads the ratings

    def share(self, index: int, total: int) -> float:
        """Return the share of the new matrix, for the rules that fix it in advance.

        Args:
            index: the round, from 1 to `total`.
            total: the number of rounds.
        """
        return 1 / total if self is StepRule.FIXED else 2 / (index + 1)


_PUBLISHED_FRANK_WOLFE = {
    **_PUBLISHED_SETTINGS,
    "residual": 2.0,
    "slack": 1.0,
    "step": StepRule.FIXED,
}


class FrankWolfeRound(NamedTuple):
    """One round of Frank-Wolfe; the next round overwrites the factors.

    Attributes:
        t: 1, 2, ...
        squared_norms: ||A||^2 before and after the round, A = P(Y - Y*).
        factors: Y after the round.
        top_singular_value: lambda' of A before the round.
        duality_gap: how far ||A||^2 / 2 was above its minimum before the round, at most; a bound
            only if the top pair is exact and no row of A was clipped.
        share: the share of the new rank-one matrix in Y.
        n_clipped: the number of rows of A that were clipped.
        n_scaled: the number of rows of Y that were scaled down.
    """

    t: int
    squared_norms: tuple[float, float]
    factors: Factors
    top_singular_value: float
    duality_gap: float
    share: float
    n_clipped: int
    n_scaled: int


def iterate_frank_wolfe(
    entries: Pattern,
    target: Floats,
    radius: float,
    rounds: int,
    step: StepRule,
    top_pair: TopPair,
    max_residual_norm: float = math.inf,
    max_row_norm: float = math.inf,
) -> Iterator[FrankWolfeRound]:
    """Minimise 1/2 ||P(Y - Y*)||^2 over ||Y||_nuc <= k, from zero (JTT18, Algorithms 1 and 3).

    P keeps the observed entries of a matrix and makes the others zero. Clipped rows of A are used
    for the top pair alone, since only that leaves the user; each user's own step and the gap use
    the unclipped rows. With the exact top pair and no bounds it is the method of Jaggi,
    "Revisiting Frank-Wolfe" (2013).

    Args:
        entries: the observed (user, item) pairs.
        target: the ratings Y* at these, shape (n_entries,), in rating points.
        radius: k, in rating points.
        rounds: T.
        step: the share of the new rank-one matrix.
        top_pair: maps the round t, A as a sparse matrix and the factors that clip its rows, shape
            (m,), to the top right singular vector v of the clipped A, shape (n,), its singular
            value lambda', and whether that is more than noise.
        max_residual_norm: the l2 norm to which the rows of A = P(Y - Y*) are clipped, in rating
            points.
        max_row_norm: L, the l2 norm to which the rows of P(Y) are scaled down, in rating points.

    Yields:
        The state after each round; the next round overwrites its factors.
    """
    m, n = entries.shape
    left, right = np.zeros((m, rounds)), np.zeros((n, rounds))
    residual = -target  # A = P(Y - Y*)
    matrix = entries.build_matrix(residual)  # its values are those of `residual`, not a copy
    residual_norms = row_norms(entries, residual)
    for t in range(1, rounds + 1):
        start_squared_norm = float(residual_norms @ residual_norms)
        clip_scales = shrinkage(residual_norms, max_residual_norm)
        v, top_value, is_signal = top_pair(t, matrix, clip_scales)
        # Each user multiplies the unclipped row of A.
        column = matrix @ v * (-radius / top_value if is_signal else 0.0)
        # <A, Y> + k lambda', where P(Y) = A + Y*; a bound only if the top pair is exact and no row
        # of A was clipped.
        duality_gap = start_squared_norm + float(residual @ target) + radius * top_value
        if step is StepRule.LINE_SEARCH:
            # On the way from Y to column v' the objective is quadratic with slope -duality_gap, so
            # it is smallest at duality_gap over the squared length of the way.
            squared_length = 0.0
            for rows, span, chunk in entries.iter_chunks():
                vertex = chunk.expand_rows(column[rows]) * v.take(chunk.items)
                direction = vertex - residual[span] - target[span]
                squared_length += float(direction @ direction)
            share = min(max(duality_gap / squared_length, 0.0), 1.0) if squared_length > 0 else 0.0
        else:
            share = step.share(t, rounds) if is_signal else 0.0
        left *= 1 - share  # Y = (1 - share) Y - share k / lambda' A v v'
        left[:, t - 1] = share * column
        right[:, t - 1] = v
        observed = (1 - share) * (residual + target)  # P(Y)
        observed += entries.expand_rows(left[:, t - 1]) * v.take(entries.items)
        row_scales = clip_rows(entries, observed, max_row_norm)
        np.subtract(observed, target, out=residual)
        residual_norms = row_norms(entries, residual)
        left *= row_scales[:, None]
        factors = Factors(left[:, :t], right[:, :t])
        n_clipped, n_scaled = ((scales < 1).sum() for scales in (clip_scales, row_scales))
        squared_norms = start_squared_norm, float(residual_norms @ residual_norms)
        yield FrankWolfeRound(
            t, squared_norms, factors, top_value, duality_gap, share, n_clipped, n_scaled
        )


def build_exact_top_pair(n: int, rng: Rng) -> TopPair:
    """Return a function that finds the exact top singular pair of A, for `iterate_frank_wolfe`.

    Each search starts at the vector of the last one.

    Args:
        n: the number of items.
        rng: draws where the first search starts.
    """
    start = draw_random_factors(n, 1, rng)[:, 0]

    def top_pair(
        _: int, residual_matrix: Sparse, clip_scales: Floats
    ) -> tuple[Floats, float, bool]:
        nonlocal start
        exact_products = gram_products(residual_matrix, clip_scales)
        (square,), vectors = leading_eigenpairs(exact_products, n, 1, _EIGEN_TOLERANCE, start)
        start = vectors[:, 0]  # the next search begins there, since rounds change little
        return start, math.sqrt(max(square, 0.0)), bool(square > 0)

    return top_pair


def run_oja(
    product: Callable[[Floats], Floats],
    size: int,
    updates: int,
    step: float,
    rng: Rng,
) -> Floats:
    """Run Oja's method: v <- v + step product(v), normalised each time (JTT18, Algorithm 2).

    The starting direction is uniform, and of length 1; the paper leaves the first vector
    un-normalised, which would scale the first product with it.

    Args:
        product: maps v of length 1 to A'A v with or without noise, both of shape (size,).
        size: the length of v.
        updates: the number of updates, Gamma.
        step: the step size.
        rng: draws the starting direction.

    Returns:
        Array of shape (size,), of length 1.
    """
    v = draw_random_factors(size, 1, rng)[:, 0]
    v /= np.linalg.norm(v)
    for _ in range(updates):
        check_cancelled()
        v = v + step * product(v)
        v /= np.linalg.norm(v)
    return v


@mechanism
class PrivateRounds(EffectsFirst):
    """The base of both private methods, which release the top eigenpair of A'A differently."""

    nonprivate_counterpart = "frank-wolfe"
    calibration: Calibration = setting(
        Calibration.TIGHT, "noise by the exact Gaussian curve, or by the paper's constant"
    )
    rounds: int = setting(15, "Frank-Wolfe rounds that share the budget", at_least=1, at_most=500)
    step: StepRule = setting(StepRule.FIXED, "share of the new part: 1/T, or 2/(t+1) in round t")
    radius: float = setting(
        0.5,
        "nuclear-norm radius k, in units of half the range x sqrt(users x items)",
        above=0,
        at_most=1e3,
    )
    residual: float = setting(
        0.6,
        "largest norm of a residual row, in units of the row clip (2: never cuts, as published)",
        above=0,
        at_most=2,
    )
    slack: float = setting(
        0.0,
        "share of the paper's eigenvalue slack that is added (1: as published)",
        at_least=0,
        at_most=10,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step is StepRule.LINE_SEARCH:
            raise InvalidSetting(
                "step",
                "fixed or decreasing",
                "line-search",
                "a line search reads every user's ratings, which no release covers",
            )

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        """Describe how a user computes the user's own factors from the published ones."""
        formula = (
            "y is scaled to length row_norm at most; u and p start at zero; for each column t of V"
            " in turn w = steps_t V_St' (p - y), u = (1 - shares_t) u, u_t = w, p = (1 - shares_t)"
            " p + w V_St, and u and p are scaled alike until |p| is row_norm at most"
        )
        each = ArraySpec((self.rounds,))
        ranks = range(self.rounds, self.rounds + 1)
        arrays = {"row_norm": ArraySpec(()), "shares": each, "steps": each}
        return self.describe_user_side(public, columns, ranks, formula, arrays)

    def release_eigenpair(
        self, releases: Any, t: int, residual_matrix: Sparse, clip_scales: Floats, rng: Rng
    ) -> Eigenpair:
        """Release the top eigenpair of A'A.

        Args:
            releases: those of `guarantee`.
            t: the round, from 1.
            residual_matrix: A before its rows are clipped.
            clip_scales: shape (m,), the factors that clip the rows.
            rng: draws the noise.
        """
        raise NotImplementedError

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield a model after each round, which releases a noisy top eigenpair of A'A."""
        public = ratings.public
        releases: Any = self.guarantee(public).releases
        _, clipped_users = self.clip_residual_rows(ratings, releases, rng)
        rows, row_scales = clipped_users.local_data
        radius = nuclear_radius(self.radius, public)
        row_clip = self.row_norm(public)
        # The paper raises lambda' by sqrt(sigma ln(n / beta)) n^(1/4).
        slack_factor = math.log(public.items / _FAILURE_PROBABILITY) * math.sqrt(public.items)
        shares, steps = [], []

        def top_pair(
            t: int, residual_matrix: Sparse, clip_scales: Floats
        ) -> tuple[Floats, float, bool]:
            v, top_eigenvalue, noise_scale, noise_edge = self.release_eigenpair(
                releases, t, residual_matrix, clip_scales, rng
            )
            slack = self.slack * math.sqrt(noise_scale * slack_factor)
            top_value = math.sqrt(max(top_eigenvalue, 0.0)) + slack
            return v, top_value, top_eigenvalue > (noise_edge if self.is_noise_aware else 0.0)

        for iterate in iterate_frank_wolfe(
            rows.entries,
            rows.values,
            radius,
            self.rounds,
            self.step,
            top_pair,
            max_residual_norm=self.residual * row_clip,
            max_row_norm=row_clip,
        ):
            share, top_value = iterate.share, iterate.top_singular_value
            shares.append(share)
            steps.append(-share * radius / top_value if share else 0.0)
            trace = {
                "top singular value": top_value,
                # Of the squared norms before and after the round, that after it.
                "training rmse": math.sqrt(iterate.squared_norms[1] / len(rows.values)),
                "rows clipped": (row_scales < 1).sum(),
                "residual rows clipped": iterate.n_clipped,
                "predicted rows scaled": iterate.n_scaled,
            }
            model = rows.build_model(iterate.factors, row_norm=row_clip, shares=shares, steps=steps)
            yield Step.from_trace(
                iterate.t, self.rounds, model, trace, published_names=("top singular value",)
            )


@dataclass(frozen=True)
class GramReleases(EffectsFirstReleases):
    """The releases of item effects and of a Gram matrix in each round.

    Attributes:
        gram: the Gram matrix of each round, shape (n, n); one element stands for all rounds if they
            are alike.
    """

    gram: tuple[Gaussian, ...]


@mechanism
class PrivateFrankWolfe(PrivateRounds):
    """Private Frank-Wolfe with a noisy Gram matrix a round (JTT18, Algorithm 1).

    A round reads the users' residual rows A = P(Y - Y*), clipped to `residual` x L, for a noisy top
    eigenpair (v, lambda^2) of A'A; each user then takes the step -(k/lambda') A_i v v' alone. The
    paper takes rows of norm 2 L and sigma = L^2 sqrt(64 T ln(1/delta))/eps; clipping the residual
    rows below 2 L and the exact curve let the same guarantee hold with less noise. As printed, the
    first direction is 0 and the last Gram matrix is not used: T - 1 updates, here T.
    """

    id = "private-frank-wolfe"
    name = "Private Frank-Wolfe"
    short = "Frank-Wolfe"
    style = Style(BLUE, "circle")
    revision = 4
    published_revision = 3
    holds_gram = True
    published_settings = PublishedSettings(
        {**_PUBLISHED_FRANK_WOLFE, "symmetric": False}, _PUBLISHED_NOTE
    )
    symmetric: bool = setting(
        True, "average the noise matrix with its transpose (else mirror its upper triangle)"
    )
    growth: float = setting(
        1.0, "signal-to-noise ratio of a round over that of the round before", above=0.1, at_most=10
    )

    def guarantee(self, public: PublicFacts) -> Guarantee[GramReleases]:
        """Return the guarantee: item effects, and a Gram matrix of residual rows in each round."""
        sensitivity = (self.residual * self.row_norm(public)) ** 2
        query = "Gram matrix of the residual rows"
        round_releases = [
            build_gram_release(
                self, public, query + round_label, sensitivity, budget, n_publications
            )
            for round_label, budget, n_publications in self.split_by_round(self.growth, self.rounds)
        ]
        releases = GramReleases(self.build_item_effects_releases(public), tuple(round_releases))
        return self.build_guarantee(
            public, releases, _format_source(self, "Theorem 3.1"), *most_rated_caveats(public)
        )

    def release_eigenpair(
        self, releases: GramReleases, t: int, residual_matrix: Sparse, clip_scales: Floats, rng: Rng
    ) -> Eigenpair:
        """Publish the noisy Gram matrix, and find its top eigenpair."""
        release = releases.gram[(t - 1) % len(releases.gram)]
        exact_products = gram_products(residual_matrix, clip_scales)
        noisy_products, n, noise_edge = publish_gram(release, exact_products, self.symmetric, rng)
        (squared_value,), vectors = leading_eigenpairs(noisy_products, n, 1, _EIGEN_TOLERANCE)
        return vectors[:, 0], float(squared_value), release.scale, noise_edge


@dataclass(frozen=True)
class OjaReleases(EffectsFirstReleases):
    """The releases of item effects and of Oja's method.

    Attributes:
        products: shape (n,), A'A v of a unit vector v, in squared rating points.
        squared_norms: a number, ||A v||^2, in squared rating points.
    """

    products: Gaussian
    squared_norms: Gaussian


@mechanism
class PrivateFrankWolfeOja(PrivateRounds):
    """Private Frank-Wolfe with Oja's method, for many items (JTT18, Algorithm 2).

    A round releases `updates` noisy products A'A v of unit vectors and the noisy squared norm
    ||A v||^2: no items x items matrix is built. Each moves by at most C^2 for rows of norm C, also
    where a row becomes any other one. The paper's sigma = L^2 sqrt(256 Gamma ln(2/delta))/eps is
    for one eigenproblem: it leaves out the number of rounds T.
    """

    id = "private-frank-wolfe-oja"
    name = "Private Frank-Wolfe (Oja)"
    short = "Frank-Wolfe (Oja)"
    style = Style(SKY, "triangle-down", "longdashdot")
    published_revision = 2
    published_settings = PublishedSettings(
        _PUBLISHED_FRANK_WOLFE, f"{_PUBLISHED_NOTE}; the number of updates is not printed either"
    )
    # Every update costs as much budget as a whole Gram matrix, so few rounds and updates pay.
    rounds: int = inherit_setting(PrivateRounds, "rounds", default=3)
    radius: float = inherit_setting(PrivateRounds, "radius", default=0.2)
    updates: int = setting(8, "vector updates a round (Gamma)", at_least=1, at_most=1_000)

    def guarantee(self, public: PublicFacts) -> Guarantee[OjaReleases]:
        """Return the guarantee: item effects, and noisy products and squared norms."""
        sensitivity = calibrated_sensitivity = (self.residual * self.row_norm(public)) ** 2
        budget = self.remaining_budget() / (self.rounds * (self.updates + 1))
        caveats = []
        if self.uses_paper_constant:
            spent_epsilon = self.epsilon * math.sqrt(1 - self.item_share)
            budget = Loss(  # the constant of the paper
                mu=spent_epsilon / math.sqrt(256 * self.updates * math.log(2 / self.delta))
            )
            calibrated_sensitivity = self.row_norm(public) ** 2
            if self.rounds > 1:
                caveats.append(
                    "the paper's noise is for one eigenproblem; the certified value counts every"
                    " round"
                )
        releases = OjaReleases(
            self.build_item_effects_releases(public),
            build_gaussian_release(
                "Gram matrix of the residual rows times a unit vector",
                (ItemAxis(public.items),),
                budget,
                sensitivity,
                sensitivity,
                self.rounds * self.updates,
                calibrated_sensitivity,
            ),
            build_gaussian_release(
                "squared norm of the residual rows along a unit vector",
                (),
                budget,
                sensitivity,
                sensitivity,
                self.rounds,
                calibrated_sensitivity,
            ),
        )
        source = _format_source(self, "Theorem 3.1 with Algorithm 2")
        return self.build_guarantee(public, releases, source, *caveats)

    def release_eigenpair(
        self,
        releases: OjaReleases,
        t: int,  # noqa: ARG002
        residual_matrix: Sparse,
        clip_scales: Floats,
        rng: Rng,
    ) -> Eigenpair:
        """Publish noisy products, by which Oja's method finds v, and the squared norm of A v."""

        scale, n = releases.products.scale, residual_matrix.shape[1]
        noise_edge = scale * math.sqrt(n)  # the usual length of the noise on a product
        exact_products = gram_products(residual_matrix, clip_scales)

        def multiply_noisily(v: Floats) -> Floats:
            return releases.products.publish(exact_products(v[:, None])[:, 0], rng)

        v = run_oja(multiply_noisily, n, self.updates, 1 / (self.updates * noise_edge), rng)
        projection = clip_scales * (residual_matrix @ v)
        squared_value = releases.squared_norms.publish(projection @ projection, rng)
        return v, float(squared_value), scale, noise_edge


@mechanism
class FrankWolfe(NonprivateMechanism):
    """Nuclear-norm completion by Frank-Wolfe (Jaggi and Sulovsky 2010; JTT18, Algorithm 3)."""

    id = "frank-wolfe"
    name = "Frank-Wolfe, no privacy"
    revision = 2
    rounds: int = setting(100, "most Frank-Wolfe rounds", at_least=1, at_most=10_000)
    step: StepRule = setting(
        StepRule.LINE_SEARCH, "share of the new part: 1/T, 2/(t+1) in round t, or exact line search"
    )
    radius: float = inherit_setting(PrivateFrankWolfe, "radius", default=0.8)
    tolerance: float = setting(
        1e-3, "stop when the duality gap is this small a part of the objective", at_least=0, below=1
    )

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield a model after each round, until the duality gap is small."""
        rows = centre_on_means(ratings, rng)
        radius = nuclear_radius(self.radius, ratings.public)
        top_pair = build_exact_top_pair(ratings.public.items, rng)
        for iterate in iterate_frank_wolfe(
            rows.entries, rows.values, radius, self.rounds, self.step, top_pair
        ):
            objective = 0.5 * iterate.squared_norms[0]
            trace = {
                "objective": objective,
                "duality gap": iterate.duality_gap,
                "step": iterate.share,
            }
            has_converged = iterate.duality_gap <= self.tolerance * objective
            yield Step.from_trace(
                iterate.t,
                self.rounds,
                rows.build_model(iterate.factors),
                trace,
                converged=has_converged,
            )
            if has_converged:
                return


# The singular value decomposition.


@dataclass(frozen=True)
class SvdReleases(EffectsFirstReleases):
    """The releases of item effects and of private SVD.

    Attributes:
        ratings: the number of ratings, a single number; None if the density is public.
        gram: shape (n, n), in squared rating points.
    """

    ratings: Gaussian | None
    gram: Gaussian


@mechanism
class PrivateSvd(EffectsFirst):
    """Y_i = (1/p) P(Y*_i) V V', V the leading r eigenvectors of one noisy Gram matrix.

    p = |Omega|/(m n): how many ratings there are is private too, so it is counted with noise
    (l2 sensitivity: the cap) unless a public density is given. Rows have norm <= L, so the Gram
    matrix moves by L^2 (empty) or sqrt(2) L^2 (replaced); the paper's sigma =
    L^2 sqrt(64 ln(1/delta))/eps is made for 4 L^2.
    """

    id = "private-svd"
    supports_partitions = True
    name = "Private SVD"
    style = Style(BLUE, "square", "dashdot")
    nonprivate_counterpart = "svd"
    revision = 4
    published_revision = 3
    holds_gram = True
    published_settings = PublishedSettings(
        {**_PUBLISHED_SETTINGS, "symmetric": False},
        "the rank is not printed: it stays what it is; the number of ratings, which the paper"
        " divides by as it is, is counted with noise here for count_share of the budget",
    )
    calibration: Calibration = inherit_setting(PrivateFrankWolfe, "calibration")
    rank: int = setting(3, "eigenvectors kept", at_least=1, at_most=1_000)
    density: float | None = setting(
        None, "public share of cells observed (none: counted with noise)", above=0, at_most=1
    )
    count_share: float = setting(
        0.01,
        "share of the budget for the number of ratings, where it is not public",
        above=0,
        below=1,
    )
    symmetric: bool = inherit_setting(PrivateFrankWolfe, "symmetric")

    def guarantee(self, public: PublicFacts) -> Guarantee[SvdReleases]:
        """Return the guarantee: item effects, the number of ratings, and a Gram matrix."""
        check_rank(self.rank, public)
        count_release = None
        remainder = self.remaining_budget()
        if self.density is None:
            count_budget, remainder = remainder.split(self.count_share, 1 - self.count_share)
            max_ratings = effective_cap(self.cap, public)
            count_release = build_gaussian_release(
                "number of ratings", (), count_budget, max_ratings, max_ratings
            )
        sensitivity = self.row_norm(public) ** 2
        gram = build_gram_release(
            self, public, "Gram matrix of the users' rows", sensitivity, remainder
        )
        releases = SvdReleases(self.build_item_effects_releases(public), count_release, gram)
        return self.build_guarantee(
            public, releases, _format_source(self, "Theorem B.1"), *most_rated_caveats(public)
        )

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        """Describe how a user computes the user's own factors from the published ones."""
        rank = min(self.rank, count_gram_items(public))
        if self.is_noise_aware:
            return describe_user_regression(public, columns, range(rank + 1))
        ranks = range(rank, rank + 1)
        return self.describe_user_side(
            public, columns, ranks, "u = V_S' y / density", {"density": ArraySpec(())}
        )

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield one step: each user's row, projected to the noisy leading eigenvectors."""
        public = ratings.public
        releases = self.guarantee(public).releases
        item_effects, clipped_users = self.clip_residual_rows(ratings, releases, rng)
        n_ratings, n_clipped = clipped_users.sum_over_users(_count_ratings_and_clipped)
        if self.density is not None:
            density = self.density
        else:
            assert releases.ratings is not None
            count = float(releases.ratings.publish(n_ratings, rng))
            density = min(max(count / (public.users * public.items), 1 / public.items), 1.0)
        # Each partition holds the function that multiplies the Gram matrix of its users. A product
        # is the sum of what these functions return, which `operator.call` calls.
        products_of_users = clipped_users.map_users(_build_gram_products, not self.is_noise_aware)
        exact_products = partial(products_of_users.sum_over_users, operator.call)
        noisy_products, n, noise_edge = publish_gram(
            releases.gram, exact_products, self.symmetric, rng
        )
        squares, basis = leading_eigenpairs(noisy_products, n, min(self.rank, n), _SVD_TOLERANCE)
        if self.is_noise_aware:
            n_pairs = (
                public.users * min(density * public.items, effective_cap(self.cap, public)) ** 2
            )
            low_rank = estimate_low_rank_from_gram(
                item_effects, squares, basis, noise_edge, n_pairs, item_effects.select_most_rated(n)
            )
            model = ratings.build_model(fit_user_regressions, item_effects, low_rank)
        else:
            model = clipped_users.build_model(_project_rows, basis, density)
        trace = {
            "top singular value": math.sqrt(max(squares[-1], 0.0)),
            "density": density,
            "rows clipped": n_clipped,
        }
        yield Step.from_trace(1, 1, model, trace, published_names=("top singular value", "density"))


def _count_ratings_and_clipped(clipped: ClippedRows) -> tuple[int, int]:
    """Return the number of ratings, and the number of users whose rows were scaled down."""
    return len(clipped.rows.values), (clipped.scales < 1).sum()


def _build_gram_products(clipped: ClippedRows, diagonal: bool) -> MatrixProduct:
    """Return the function that multiplies the exact Gram matrix of some users' rows.

    Without `diagonal` it multiplies the off-diagonal part of the matrix only.
    """
    return gram_products(clipped.rows.entries.build_matrix(clipped.rows.values), diagonal=diagonal)


def _project_rows(clipped: ClippedRows, basis: Floats, density: float) -> Factors:
    """Return the model of some users: their rows projected to the basis, divided by the density.

    Args:
        clipped: the users' clipped rows, from which the rows before clipping follow.
        basis: shape (n, r), orthonormal columns.
        density: the estimated share of cells that are rated.
    """
    rows = clipped.rows
    user_factors = rows.entries.build_matrix(rows.values) @ basis
    user_factors /= density * clipped.scales[:, None]  # of the rows before clipping
    return rows.build_model(Factors(user_factors, basis), density=density)


@mechanism
class Svd(NonprivateMechanism):
    """The zero-filled centred matrix over its density, cut to rank r (JTT18, Algorithm 4)."""

    id = "svd"
    name = "SVD, no privacy"
    rank: int = inherit_setting(PrivateSvd, "rank")

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield one step, the rows projected to the exact leading eigenvectors."""
        check_rank(self.rank, ratings.public)
        rows = centre_on_means(ratings, rng)
        matrix = rows.entries.build_matrix(rows.values)
        squares, basis = leading_eigenpairs(gram_products(matrix), matrix.shape[1], self.rank)
        left = matrix @ basis / ratings.density
        trace = {"top singular value": math.sqrt(max(squares[-1], 0.0))}
        yield Step.from_trace(1, 1, rows.build_model(Factors(left, basis)), trace)


# Projected gradient descent.


class Schedule(enum.Enum):
    """The step size of round t = 1, 2, ..."""

    ROOT = "root"  # t^(-1/2)
    INVERSE = "inverse"  # 1/t
    CONSTANT = "constant"  # the setting `step`

    def list_steps(self, constant: float, rounds: int) -> list[float]:
        """List the step sizes of all rounds.

        Args:
            constant: the step size of the constant schedule.
            rounds: the number of rounds.
        """
        if self is Schedule.CONSTANT:
            return [constant] * rounds
        divisor = math.sqrt if self is Schedule.ROOT else float
        return [1 / divisor(t) for t in range(1, rounds + 1)]


# Soft-thresholds singular values; see `project` of `iterate_projected_gradient`.
Projection = Callable[[Floats, Floats, Pattern, Floats], tuple[Floats, Floats]]


class DescentRound(NamedTuple):
    """One round of projected gradient descent.

    Attributes:
        t: 1, 2, ...
        factors: Y = left right' after the round.
        ratios: shape (r,), by what the projection multiplied the coordinates along each column of
            right.
        n_clipped: the number of rows of the stepped matrix that were scaled down.
        trace: the error on the observed ratings, and the rank.
    """

    t: int
    factors: Factors
    ratios: Floats
    n_clipped: int
    trace: dict[str, float]


def iterate_projected_gradient(
    entries: Pattern,
    target: Floats,
    steps: list[float],
    project: Projection,
    max_row_norm: float = math.inf,
) -> Iterator[DescentRound]:
    """Take gradient steps and soft-threshold the singular values after each, from zero.

    JTT18, Algorithm 5 (which prints the gradient with the wrong sign); without noise Cai, Candes,
    Shen (2010).

    Args:
        entries: the observed ratings.
        target: shape (n_entries,), in rating points.
        steps: the step size of each round.
        project: maps the matrix after a gradient step, which is left right' plus the values on the
            entries, to the right singular vectors that are kept, shape (n, r), and to the factors
            by which the coordinates along them are multiplied, shape (r,).
        max_row_norm: the l2 norm to which the rows are scaled down before that, in rating points.

    Yields:
        The state after each round.
    """
    m, n = entries.shape
    left, right = np.zeros((m, 0)), np.zeros((n, 0))
    fitted = np.zeros(len(target))  # P(Y), where Y is left right' with orthonormal columns
    for t, step in enumerate(steps, 1):
        gradient_step = step * (target - fitted)
        # The squared norms of the rows of Y after the gradient step.
        squares = (left**2).sum(axis=1)
        squares += row_sums(entries, (2 * fitted + gradient_step) * gradient_step)
        scale = shrinkage(np.sqrt(np.maximum(squares, 0.0)), max_row_norm)
        scale_rows(entries, gradient_step, scale)
        iterate = left * scale[:, None], right, entries, gradient_step
        right, ratios = project(*iterate)
        if not len(ratios):  # no singular value is left: Y is zero
            right, ratios = np.zeros((n, 1)), np.zeros(1)
        left = low_rank_plus_sparse(*iterate).multiply(right) * ratios
        fitted = entries.sample_product(left, right, fitted)
        trace = {"training rmse": rmse(fitted, target), "rank": len(ratios)}
        yield DescentRound(t, Factors(left, right), ratios, (scale < 1).sum(), trace)


def build_nuclear_projection(radius: float, accuracy: float, rng: Rng) -> Projection:
    """Return an exact `project` for `iterate_projected_gradient`: onto a nuclear-norm ball.

    Each search for singular vectors starts at those of the last one.

    Args:
        radius: the largest nuclear norm, in rating points.
        accuracy: bound on the Frobenius norm of the residuals of singular triplets.
        rng: draws where the first search starts.
    """
    shrinker = SingularValueShrinker(rng)

    def project(*iterate: Any) -> tuple[Floats, Floats]:
        """Return the right singular vectors that are left, and by what each value shrinks."""
        operator = low_rank_plus_sparse(*iterate)
        triplets = shrinker.soft_threshold(
            operator, lambda lengths: l1_threshold(lengths, radius), accuracy
        )
        # Along a right vector the matrix is as long as its singular value before the threshold.
        lengths = np.linalg.norm(operator.multiply(triplets.right), axis=0)
        return triplets.right, triplets.values / lengths

    return project


@mechanism
class PrivatePgd(EffectsFirst):
    """Private projected gradient descent: a noisy Gram matrix of the whole iterate in each round.

    Its soft-thresholded singular values are the next iterate. The rows of the iterate are clipped
    to L before the Gram matrix, for without that the paper's sigma = L^2 sqrt(64 T ln(1/delta))/eps
    has no bound to stand on.
    """

    id = "private-pgd"
    name = "Private projected gradient"
    short = "Private PGD"
    style = Style(PURPLE, "diamond", "longdashdot")
    nonprivate_counterpart = "pgd"
    revision = 4
    published_revision = 3
    holds_gram = True
    published_settings = PublishedSettings(
        {**_PUBLISHED_SETTINGS, "symmetric": False},
        "radius, rounds and step are tuned in the paper: they stay what they are; the rows of the"
        " iterate are clipped here, without which the paper's noise has no bound to stand on",
    )
    calibration: Calibration = inherit_setting(PrivateFrankWolfe, "calibration")
    rounds: int = setting(5, "rounds that share the budget", at_least=1, at_most=500)
    schedule: Schedule = setting(Schedule.CONSTANT, "step size by round")
    step: float = setting(0.5, "step size of the constant schedule", above=0, at_most=1)
    radius: float = inherit_setting(PrivateFrankWolfe, "radius", default=0.6)
    symmetric: bool = inherit_setting(PrivateFrankWolfe, "symmetric")

    def guarantee(self, public: PublicFacts) -> Guarantee[GramReleases]:
        """Return the guarantee: item effects, and a Gram matrix of the iterate in each round."""
        sensitivity = self.row_norm(public) ** 2
        budget = self.remaining_budget() / self.rounds
        query = "Gram matrix of the completed rows"
        gram = build_gram_release(self, public, query, sensitivity, budget, self.rounds)
        releases = GramReleases(self.build_item_effects_releases(public), (gram,))
        return self.build_guarantee(
            public, releases, _format_source(self, "Algorithm 5"), *most_rated_caveats(public)
        )

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        """Describe how a user computes the user's own factors from the published ones."""
        formula = (
            "y is scaled to length row_norm at most, and Y is a row of zeros for all items; for"
            " each step t in turn Y_S = Y_S + steps_t (y - Y_S), Y is scaled to length row_norm"
            " at most, B are the columns of `bases` from ends_(t-1) (the first: 0) up to ends_t"
            " and D the diagonal matrix of the same part of `ratios`, u' = Y B D and Y = u' B'"
        )
        n_gram_items = count_gram_items(public)
        max_columns = self.rounds * n_gram_items
        arrays = {
            "row_norm": ArraySpec(()),
            "steps": ArraySpec((self.rounds,)),
            "bases": ArraySpec((public.items, "k"), max_size=max_columns),
            "ratios": ArraySpec(("k",), max_size=max_columns),
            "ends": ArraySpec((self.rounds,), type="int64", low=1, high="k", increasing=True),
        }
        return self.describe_user_side(public, columns, range(1, n_gram_items + 1), formula, arrays)

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield a model after each round, which publishes the noisy Gram matrix of the iterate."""
        public = ratings.public
        releases = self.guarantee(public).releases
        row_clip = self.row_norm(public)
        steps = self.schedule.list_steps(self.step, self.rounds)
        # One release stands for all rounds.
        project = partial(self._project, releases.gram[0], public, rng)
        _, clipped_users = self.clip_residual_rows(ratings, releases, rng)
        rows, scales = clipped_users.local_data
        bases, ratios = [], []  # of all rounds, which users need for their own rows: see `own_side`
        for descent in iterate_projected_gradient(
            rows.entries, rows.values, steps, project, row_clip
        ):
            bases.append(scatter_rows(descent.factors.right, rows.columns, public.items))
            ratios.append(descent.ratios)
            user_arrays: dict[str, Any] = {}
            if descent.t == self.rounds:
                user_arrays = {
                    "row_norm": row_clip,
                    "steps": steps,
                    "bases": np.column_stack(bases),
                    "ratios": np.concatenate(ratios),
                    "ends": np.cumsum([*map(len, ratios)]),
                }
            clip_trace = {
                "rows clipped": (scales < 1).sum(),
                "completed rows clipped": descent.n_clipped,
            }
            model = rows.build_model(descent.factors, **user_arrays)
            yield Step.from_trace(
                descent.t, self.rounds, model, descent.trace | clip_trace, published_names=("rank",)
            )

    def _project(
        self, release: Gaussian, public: PublicFacts, rng: Rng, *iterate: Any
    ) -> tuple[Floats, Floats]:
        """Project an iterate to the nuclear-norm ball by its noisy Gram matrix.

        Args:
            release: of the Gram matrix, which is published here.
            public: the public facts, which set the radius of the ball and the largest rank.
            rng: draws the noise.
            iterate: the arguments of `low_rank_gram_products`.

        Returns:
            The directions, shape (n, k), and by what each singular value shrinks, shape (k,).
        """
        radius = nuclear_radius(self.radius, public)
        exact_products = low_rank_gram_products(*iterate)
        noisy_products, n, noise_edge = publish_gram(release, exact_products, self.symmetric, rng)

        def shrink(squares: Floats) -> tuple[Floats, Floats]:
            """Return the singular values of the iterate, and what the threshold leaves."""
            denoised = shrink_eigenvalues(squares, noise_edge) if self.is_noise_aware else squares
            roots = np.sqrt(np.maximum(denoised, 0.0))
            return roots, np.maximum(roots - l1_threshold(roots, radius), 0.0)

        def count_above(squares: Floats) -> int:
            _, shrunk_roots = shrink(squares)
            return min(int((shrunk_roots > 0).sum()), max_descent_rank(public))

        squares, vectors = eigenpairs_above(noisy_products, n, count_above, _EIGEN_TOLERANCE)
        roots, shrunk_roots = shrink(squares)
        return vectors, shrunk_roots / roots


@mechanism
class Pgd(NonprivateMechanism):
    """Nuclear-norm completion by projected gradient descent (Cai, Candes, Shen 2010).

    It covers the 5,000 most rated items where there are more; others have user and item means.
    """

    id = "pgd"
    name = "Projected gradient, no privacy"
    revision = 2
    rounds: int = setting(20, "rounds", at_least=1, at_most=1_000)
    schedule: Schedule = inherit_setting(PrivatePgd, "schedule")
    step: float = inherit_setting(PrivatePgd, "step")
    radius: float = inherit_setting(PrivatePgd, "radius")

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield a model after each round, fitted to the most rated items."""
        yield from fit_on_most_rated(self._fit_most_rated, ratings, rng)

    def _fit_most_rated(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield a model after each round, for so few items that iterates fit in memory."""
        check_descent(ratings.shape)
        rows = centre_on_means(ratings, rng)
        radius = nuclear_radius(self.radius, ratings.public)
        steps = self.schedule.list_steps(self.step, self.rounds)
        accuracy = _EIGEN_TOLERANCE * float(np.linalg.norm(rows.values))
        project = build_nuclear_projection(radius, accuracy, rng)
        for descent in iterate_projected_gradient(rows.entries, rows.values, steps, project):
            yield Step.from_trace(
                descent.t, self.rounds, rows.build_model(descent.factors), descent.trace
            )
