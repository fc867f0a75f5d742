"""Private Frank-Wolfe, its variant with Oja's method, and the paper's baselines: SVD and PGD.

JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import InvalidSetting
from dpmc_core.mechanisms.per_user import (
    EffectsFirst,
    EffectsFirstReleases,
    own_arrays,
    own_model,
    regression_side,
    user_gaussian,
)
from dpmc_core.metrics import rmse
from dpmc_core.model import ArrayPart, Estimator, Factors, OwnSide, Step
from dpmc_core.privacy import USER_EMPTIED, USER_REPLACED, Calibration, Gaussian, Guarantee, Loss
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import AsPublished, setting
from dpmc_core.solvers.frank_wolfe import Expansion, StepRule, top_vector
from dpmc_core.solvers.item_effects import taste_of_gram, without_noise
from dpmc_core.solvers.lapack import top_eigenpairs
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.pgd import Descent, Schedule
from dpmc_core.solvers.rows import (
    clip_rows,
    gram,
    nuclear_radius,
    spread_out,
    times_vector,
)
from dpmc_core.solvers.sizes import check_descent, check_rank, gram_items
from dpmc_core.stopping import waited
from dpmc_core.style import BLUE, ORANGE, PURPLE, SKY, Style

Floats = NDArray[np.float64]

# JTT18's own: no item effects first, its constant, and rows that no clip cuts.
_PRINTED = {
    "estimator": Estimator.PUBLISHED,
    "calibration": Calibration.PAPER,
    "item_share": 0.0,
    "clip": 1.0,
}
_TUNED = (
    "radius and rounds are cross-validated in the paper, and its noise changes from round to round"
    " by a rule that it does not print: they stay what they are"
)
_FAILURE = 1 / 3  # the paper's beta in the eigenvalue slack


@dataclass(frozen=True, kw_only=True)
class Calibrated(EffectsFirst):
    """The paper's methods, with noise by the exact Gaussian curve or by the paper's constant."""

    theorem: ClassVar[str]
    calibration: Calibration = setting(
        Calibration.TIGHT, "noise by the exact Gaussian curve, or by the paper's constant"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        limit = 2 * math.log(1 / self.delta)
        if self.paper and self.epsilon > limit:
            raise InvalidSetting(
                "epsilon",
                f"<= 2 ln(1/delta) = {limit:.4g} with the paper's constant",
                self.epsilon,
                "calibration tight has no such condition",
            )

    @property
    def paper(self) -> bool:
        """Whether the paper's constant holds."""
        return self.calibration is Calibration.PAPER

    @property
    def source(self) -> str:
        """What the claim rests on."""
        return f"{'' if self.paper else 'exact Gaussian curve for '}JTT18, {self.theorem}"

    def budget(self) -> Loss:
        """What all releases may spend; in the paper's arithmetic mu = eps/(2 sqrt(ln(1/delta)))."""
        if self.paper:
            return Loss(mu=self.epsilon / (2 * math.sqrt(math.log(1 / self.delta))))
        return super().budget()

    def gram_release(
        self, public: PublicFacts, query: str, moves: float, part: Loss, times: int = 1
    ) -> Gaussian:
        """A Gram matrix of rows of norm sqrt(moves), of which each publication spends a part.

        It moves by `moves` where a row becomes empty and by sqrt(2) moves where it becomes any
        other. The paper's constant is for rows of norm 2 L, whatever they are clipped to.
        """
        counted = 4 * self.row_norm(public) ** 2 if self.paper else moves
        return Gaussian(
            query=query,
            shape=(gram_items(public),) * 2,
            sensitivity={USER_EMPTIED: moves, USER_REPLACED: math.sqrt(2) * moves},
            scale=counted / part.mu,
            times=times,
        )


def noisy_gram(
    release: Gaussian, gram: Floats, symmetric: bool, rng: np.random.Generator
) -> Floats:
    """The published Gram matrix as a symmetric one.

    symmetric: (N + N')/2, whose top eigenvalue is about sqrt(2 n) sigma; else the upper triangle
    of the noise is mirrored (2 sqrt(n) sigma), as eigenvalue routines that read one triangle do.
    """
    published: Floats = release.publish(gram, rng)
    if symmetric:
        return 0.5 * (published + published.T)
    upper = np.triu(published)
    return upper + np.triu(published, 1).T


def noise_edge(release: Gaussian, symmetric: bool) -> float:
    """The largest eigenvalue of the noise in `noisy_gram`, as the matrix grows."""
    return release.scale * math.sqrt(release.shape[0] or 1) * (math.sqrt(2) if symmetric else 2.0)


R = TypeVar("R", bound=EffectsFirstReleases)


@dataclass(frozen=True, kw_only=True)
class UserFrankWolfe(Calibrated, ABC, Generic[R]):
    """The two private Frank-Wolfe methods: they differ in how the top eigenpair is released.

    A round reads the users' residual rows A = P(Y - Y*), clipped to `residual` x L, for a noisy
    top eigenpair (v, lambda^2) of A'A; each user then takes the step -(k/lambda') A_i v v' alone.
    """

    twin: ClassVar[str] = "frank-wolfe"
    published: ClassVar[AsPublished] = AsPublished(
        {**_PRINTED, "residual": 2.0, "slack": 1.0, "step": StepRule.FIXED}, _TUNED
    )
    rounds: int = setting(15, "Frank-Wolfe rounds that share the budget", at_least=1, at_most=500)
    step: StepRule = setting(StepRule.FIXED, "share of the new part: 1/T, or 2/(t+1) in round t")
    radius: float = setting(
        0.5, "nuclear-norm radius k, in units of half the range x sqrt(users x items)",
        above=0, at_most=1e3,
    )  # fmt: skip
    residual: float = setting(
        0.6,
        "largest norm of a residual row, in units of the row clip (2: never cuts, as published)",
        above=0,
        at_most=2,
    )
    slack: float = setting(
        0.0, "share of the paper's eigenvalue slack that is added (1: as published)",
        at_least=0, at_most=10,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step is StepRule.LINE_SEARCH:
            raise InvalidSetting(
                "step", "fixed or decreasing", "line-search",
                "a line search reads every user's ratings, which no release covers",
            )  # fmt: skip

    def sensitivity(self, public: PublicFacts) -> float:
        """How far one row of the residual moves A'A, in squared rating points."""
        return (self.residual * self.row_norm(public)) ** 2

    def guarantee(self, public: PublicFacts) -> Guarantee[R]:
        caveats = (*self.caveats(), *self.most_rated_only(public))
        return self.card(public, self.releases(public), self.source, caveats)

    def caveats(self) -> tuple[str, ...]:
        return ()

    @abstractmethod
    def releases(self, public: PublicFacts) -> R:
        """Those of the item means and of all rounds."""

    @abstractmethod
    def top_pair(
        self,
        releases: R,
        index: int,
        cells: Pattern,
        residual: Floats,
        rng: np.random.Generator,
    ) -> tuple[Floats, float, float, float]:
        """(v, lambda^2, noise scale, edge) of round `index` from clipped residual rows.

        edge: what noise alone makes of lambda^2.
        """

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        finds = (
            "y is scaled to length row_norm at most; u and p start at zero; for each column t"
            " of V in turn w = steps_t V_St' (p - y), u = (1 - shares_t) u, u_t = w,"
            " p = (1 - shares_t) p + w V_St, and u and p are scaled alike until |p| is row_norm"
            " at most"
        )
        taken = {
            "row_norm": ArrayPart(()),
            **dict.fromkeys(("shares", "steps"), ArrayPart((self.rounds,))),
        }
        ranks = range(self.rounds, self.rounds + 1)
        return self.side(public, columns, ranks, self.most(public), finds, **taken)

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        public = ratings.public
        releases, bound = self.guarantee(public).releases, self.row_norm(public)
        _, rows, target, clipped = self.clipped_rows(ratings, releases, rng)
        cells = rows.cells
        solution = Expansion(cells, self.rounds)
        radius = nuclear_radius(self.radius, public)
        shares, steps = np.zeros(self.rounds), np.zeros(self.rounds)
        for index in range(1, self.rounds + 1):
            residual = solution.observed - target
            kept, cut = clip_rows(cells, residual, self.residual * bound)
            v, square, scale, edge = self.top_pair(releases, index, cells, kept, rng)
            if not self.aware:
                edge = 0.0
            top = math.sqrt(max(square, 0.0))
            top += self.slack * math.sqrt(
                scale * math.log(public.items / _FAILURE)
            ) * public.items**0.25  # fmt: skip
            # Each user on their own, with the whole residual row: only the release is clipped.
            column = times_vector(cells, residual, v)
            if square > edge:
                shares[index - 1] = share = self.step.share(index, self.rounds)
                steps[index - 1] = -share * radius / top
                solution.step(share, column * (-radius / top), v)
            else:  # all noise: no direction to move along
                solution.step(0.0, np.zeros_like(column), v)
            scaled = solution.scale_rows(bound)
            clips = {
                "rows clipped": float(clipped),
                "residual rows clipped": float(cut),
                "predicted rows scaled": float(scaled),
            }
            error = {"training rmse": rmse(solution.observed, target)}
            model = rows.model(solution.factors())
            taken = {"shares": shares[:index].copy(), "steps": steps[:index].copy()}
            yield Step(
                index=index,
                total=self.rounds,
                model=replace(model, own=own_arrays(rows, row_norm=bound, **taken)),
                trace={"top singular value": top, **error, **clips},
                raw=frozenset({*error, *clips}),
                final=index == self.rounds,
            )


@dataclass(frozen=True)
class GramReleases(EffectsFirstReleases):
    gram: tuple[Gaussian, ...]  # one record stands for all rounds where they are alike


@dataclass(frozen=True, kw_only=True)
class PrivateFrankWolfe(UserFrankWolfe[GramReleases]):
    """Private Frank-Wolfe with a noisy Gram matrix a round (JTT18, Algorithm 1).

    The Gram matrix of rows of norm <= C moves by C^2 where a row becomes empty and by sqrt(2) C^2
    where it becomes any other, in the Frobenius norm. The paper takes C = 2 L and sigma =
    L^2 sqrt(64 T ln(1/delta))/eps; clipping the residual rows below 2 L and the exact curve let
    the same promise hold with less noise.
    """

    id: ClassVar[str] = "private-frank-wolfe"
    name: ClassVar[str] = "Private Frank-Wolfe"
    short: ClassVar[str] = "Frank-Wolfe"
    style: ClassVar[Style] = Style(BLUE, "circle")
    revision: ClassVar[int] = 2
    holds_gram: ClassVar[bool] = True
    theorem: ClassVar[str] = "Theorem 3.1"
    published: ClassVar[AsPublished] = AsPublished(
        {**UserFrankWolfe.published.settings, "symmetric": False}, _TUNED
    )
    symmetric: bool = setting(
        True, "average the noise matrix with its transpose (else mirror its upper triangle)"
    )
    growth: float = setting(
        1.0, "signal-to-noise ratio of a round over that of the round before", above=0.1, at_most=10
    )

    def releases(self, public: PublicFacts) -> GramReleases:
        moves = self.sensitivity(public)

        def release(part: Loss, times: int, words: str) -> Gaussian:
            query = f"Gram matrix of the residual rows{words}"
            return self.gram_release(public, query, moves, part, times)

        each = self.by_round(self.growth, self.rounds, release)
        return GramReleases(self.effects_first(public), each)

    def top_pair(
        self,
        releases: GramReleases,
        index: int,
        cells: Pattern,
        residual: Floats,
        rng: np.random.Generator,
    ) -> tuple[Floats, float, float, float]:
        release = releases.gram[(index - 1) % len(releases.gram)]
        noisy = noisy_gram(release, gram(cells, residual), self.symmetric, rng)
        squares, vectors = top_eigenpairs(noisy, 1)
        edge = noise_edge(release, self.symmetric)
        return vectors[:, -1], float(squares[-1]), release.scale, edge


@dataclass(frozen=True)
class OjaReleases(EffectsFirstReleases):
    products: Gaussian
    squared_norms: Gaussian


@dataclass(frozen=True, kw_only=True)
class PrivateFrankWolfeOja(UserFrankWolfe[OjaReleases]):
    """Private Frank-Wolfe with Oja's method, for many items (JTT18, Algorithm 2).

    A round releases `updates` noisy products A'A v of unit vectors and the noisy squared norm
    ||A v||^2: no items x items matrix is built. Each moves by at most C^2 for rows of norm C, also
    where a row becomes any other one. The paper's sigma = L^2 sqrt(256 Gamma ln(2/delta))/eps is
    for one eigenproblem: it leaves out the number of rounds T.
    """

    id: ClassVar[str] = "private-frank-wolfe-oja"
    name: ClassVar[str] = "Private Frank-Wolfe (Oja)"
    short: ClassVar[str] = "Frank-Wolfe (Oja)"
    style: ClassVar[Style] = Style(SKY, "triangle-down", "longdash")
    revision: ClassVar[int] = 2
    theorem: ClassVar[str] = "Theorem 3.1 with Algorithm 2"
    published: ClassVar[AsPublished] = AsPublished(
        UserFrankWolfe.published.settings,
        f"{_TUNED}; the number of updates is not printed either",
    )
    # Every update costs as much budget as a whole Gram matrix: few of either pay.
    rounds: int = setting(3, "Frank-Wolfe rounds that share the budget", at_least=1, at_most=500)
    radius: float = setting(
        0.2,
        "nuclear-norm radius k, in units of half the range x sqrt(users x items)",
        above=0,
        at_most=1e3,
    )
    updates: int = setting(8, "vector updates a round (Gamma)", at_least=1, at_most=1_000)

    def caveats(self) -> tuple[str, ...]:
        if not self.paper or self.rounds == 1:
            return ()
        return (
            "the paper's noise is for one eigenproblem; the certified value counts every round",
        )

    def releases(self, public: PublicFacts) -> OjaReleases:
        moves = self.sensitivity(public)
        if self.paper:
            spent = self.epsilon * math.sqrt(1 - self.item_share)
            constant = math.sqrt(256 * self.updates * math.log(2 / self.delta))
            scale = self.row_norm(public) ** 2 * constant / spent
        else:
            scale = moves / (self.rest() / (self.rounds * (self.updates + 1))).mu
        both = {USER_EMPTIED: moves, USER_REPLACED: moves}
        return OjaReleases(
            effects=self.effects_first(public),
            products=Gaussian(
                query="Gram matrix of the residual rows times a unit vector",
                shape=(public.items,),
                sensitivity=both,
                scale=scale,
                times=self.rounds * self.updates,
            ),
            squared_norms=Gaussian(
                query="squared norm of the residual rows along a unit vector",
                shape=(),
                sensitivity=both,
                scale=scale,
                times=self.rounds,
            ),
        )

    def top_pair(
        self,
        releases: OjaReleases,
        index: int,  # noqa: ARG002 - every round has the same noise
        cells: Pattern,
        residual: Floats,
        rng: np.random.Generator,
    ) -> tuple[Floats, float, float, float]:
        scale, n = releases.products.scale, cells.shape[1]
        rows = cells.by_user(residual)

        def product(v: Floats) -> Floats:
            noisy: Floats = releases.products.publish(rows.T @ (rows @ v), rng)
            return noisy

        step = 1 / (self.updates * scale * math.sqrt(n))
        v = top_vector(product, n, self.updates, step, rng)
        along = rows @ v
        square = float(releases.squared_norms.publish(float(along @ along), rng))
        return v, square, scale, scale * math.sqrt(n)


@dataclass(frozen=True)
class SvdReleases(EffectsFirstReleases):
    ratings: Gaussian | None  # how many there are, where the density is not public
    gram: Gaussian


@dataclass(frozen=True, kw_only=True)
class PrivateSvd(Calibrated):
    """Y_i = (1/p) P(Y*_i) V V', V the leading r eigenvectors of one noisy Gram matrix.

    p = |Omega|/(m n): how many ratings there are is private too, so it is counted with noise
    (l2 sensitivity: the cap) unless a public density is given. Rows have norm <= L, so the Gram
    matrix moves by L^2 (empty) or sqrt(2) L^2 (replaced); the paper's sigma =
    L^2 sqrt(64 ln(1/delta))/eps is made for 4 L^2.
    """

    id: ClassVar[str] = "private-svd"
    name: ClassVar[str] = "Private SVD"
    style: ClassVar[Style] = Style(ORANGE, "square", "dashdot")
    twin: ClassVar[str] = "svd"
    revision: ClassVar[int] = 2
    holds_gram: ClassVar[bool] = True
    theorem: ClassVar[str] = "Theorem B.1"
    published: ClassVar[AsPublished] = AsPublished(
        {**_PRINTED, "symmetric": False},
        "the rank is not printed: it stays what it is; the number of ratings, which the paper"
        " divides by as it is, is counted with noise here for count_share of the budget",
    )
    rank: int = setting(3, "eigenvectors kept", at_least=1, at_most=1_000)
    density: float | None = setting(
        None, "public share of cells observed (none: counted with noise)", above=0, at_most=1
    )
    count_share: float = setting(
        0.01, "share of the budget for the number of ratings, where it is not public",
        above=0, below=1,
    )  # fmt: skip
    symmetric: bool = setting(
        True, "average the noise matrix with its transpose (else mirror its upper triangle)"
    )

    def guarantee(self, public: PublicFacts) -> Guarantee[SvdReleases]:
        check_rank(self.rank, public)
        most, count, rest = self.most(public), None, self.rest()
        if self.density is None:
            part, rest = rest.split(self.count_share, 1 - self.count_share)
            count = user_gaussian("number of ratings", (), part, most, most)
        gram = self.gram_release(
            public, "Gram matrix of the users' rows", self.row_norm(public) ** 2, rest
        )
        releases = SvdReleases(self.effects_first(public), count, gram)
        return self.card(public, releases, self.source, self.most_rated_only(public))

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        rank = min(self.rank, gram_items(public))
        if self.aware:
            return regression_side(columns, range(rank + 1))
        finds, density = "u = V_S' y / density", ArrayPart(())
        ranks = range(rank, rank + 1)
        return self.side(public, columns, ranks, self.most(public), finds, density=density)

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        public = ratings.public
        releases = self.guarantee(public).releases
        items, rows, kept, clipped = self.clipped_rows(ratings, releases, rng)
        if self.density is not None:
            density = self.density
        elif releases.ratings is not None:
            count = float(releases.ratings.publish(len(rows.values), rng))
            density = min(max(count / (public.users * public.items), 1 / public.items), 1.0)
        noisy = noisy_gram(releases.gram, gram(rows.cells, kept), self.symmetric, rng)
        squares, basis = top_eigenpairs(noisy, self.rank)
        if not self.aware:
            left = np.asarray(rows.cells.by_user(rows.values) @ basis) / density
            model = rows.model(Factors(left, basis))
            model = replace(model, own=own_arrays(rows, density=density))
        else:
            pairs = public.users * min(density * public.items, self.most(public)) ** 2
            edge = noise_edge(releases.gram, self.symmetric)
            taste = taste_of_gram(items, noisy, edge, self.rank, pairs, rows.columns)
            model = own_model(ratings, items, taste)
        yield Step(
            index=1,
            total=1,
            model=model,
            trace={
                "top singular value": math.sqrt(max(float(squares[-1]), 0.0)),
                "density": density,
                "rows clipped": float(clipped),
            },
            raw=frozenset({"rows clipped"}),
            final=True,
        )


@dataclass(frozen=True)
class PgdReleases(EffectsFirstReleases):
    gram: Gaussian


@dataclass(frozen=True, kw_only=True)
class PrivatePgd(Calibrated):
    """Gradient step, noisy Gram matrix of the whole iterate, soft-thresholded singular values.

    The rows of the iterate are clipped to L before the Gram matrix, for without that the paper's
    sigma = L^2 sqrt(64 T ln(1/delta))/eps has no bound to stand on.
    """

    id: ClassVar[str] = "private-pgd"
    name: ClassVar[str] = "Private projected gradient"
    short: ClassVar[str] = "Private PGD"
    style: ClassVar[Style] = Style(PURPLE, "diamond", "longdashdot")
    twin: ClassVar[str] = "pgd"
    revision: ClassVar[int] = 2
    holds_gram: ClassVar[bool] = True
    theorem: ClassVar[str] = "Algorithm 5"
    published: ClassVar[AsPublished] = AsPublished(
        {**_PRINTED, "symmetric": False},
        "radius, rounds and step are tuned in the paper: they stay what they are; the rows of the"
        " iterate are clipped here, without which the paper's noise has no bound to stand on",
    )
    rounds: int = setting(5, "rounds that share the budget", at_least=1, at_most=500)
    schedule: Schedule = setting(Schedule.CONSTANT, "step size by round")
    step: float = setting(0.5, "step size of the constant schedule", above=0, at_most=1)
    radius: float = setting(
        0.6, "nuclear-norm radius k, in units of half the range x sqrt(users x items)",
        above=0, at_most=1e3,
    )  # fmt: skip
    symmetric: bool = setting(
        True, "average the noise matrix with its transpose (else mirror its upper triangle)"
    )

    def guarantee(self, public: PublicFacts) -> Guarantee[PgdReleases]:
        check_descent((public.users, gram_items(public)))
        moves, query = self.row_norm(public) ** 2, "Gram matrix of the completed rows"
        gram = self.gram_release(public, query, moves, self.rest() / self.rounds, self.rounds)
        releases = PgdReleases(self.effects_first(public), gram)
        return self.card(public, releases, self.source, self.most_rated_only(public))

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        finds = (
            "y is scaled to length row_norm at most, and Y is a row of zeros for all items; for"
            " each step t in turn Y_S = Y_S + steps_t (y - Y_S), Y is scaled to length row_norm"
            " at most, B are the columns of `bases` from ends_(t-1) (the first: 0) up to ends_t"
            " and D the diagonal matrix of the same part of `ratios`, u' = Y B D and Y = u' B'"
        )
        largest = gram_items(public)
        most = self.rounds * largest
        return self.side(
            *(public, columns, range(1, largest + 1), self.most(public), finds),
            row_norm=ArrayPart(()),
            steps=ArrayPart((self.rounds,)),
            bases=ArrayPart((public.items, "k"), most=most),
            ratios=ArrayPart(("k",), most=most),
            ends=ArrayPart((self.rounds,), type="int64", low=1, high="k", rising=True),
        )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        public = ratings.public
        releases, bound = self.guarantee(public).releases, self.row_norm(public)
        _, rows, target, clipped = self.clipped_rows(ratings, releases, rng)
        descent = Descent(rows.cells, target)
        radius = nuclear_radius(self.radius, public)
        steps, bases, ratios = [], [], []
        for index in range(1, self.rounds + 1):
            step = self.schedule.step(index, self.step)
            exact, cut = descent.stepped_gram(step, bound)
            noisy = noisy_gram(releases.gram, exact, self.symmetric, rng)
            squares, vectors = waited(np.linalg.eigh, noisy)
            if self.aware:
                squares = without_noise(squares, noise_edge(releases.gram, self.symmetric))
            descent.project(step, bound, squares, vectors, radius)
            factors = descent.factors()
            model = rows.model(factors)
            steps.append(step)
            bases.append(spread_out(factors.right, rows.columns, public.items))
            ratios.append(descent.ratio)
            if index == self.rounds:
                own = own_arrays(
                    rows,
                    row_norm=bound,
                    steps=steps,
                    bases=np.column_stack(bases),
                    ratios=np.concatenate(ratios),
                    ends=np.cumsum([len(ratio) for ratio in ratios]),
                )
                model = replace(model, own=own)
            yield Step(
                index=index,
                total=self.rounds,
                model=model,
                trace={
                    "training rmse": descent.residual_rmse(),
                    "rank": float(factors.right.shape[1]),
                    "rows clipped": float(clipped),
                    "completed rows clipped": float(cut),
                },
                raw=frozenset({"training rmse", "rows clipped", "completed rows clipped"}),
                final=index == self.rounds,
            )
