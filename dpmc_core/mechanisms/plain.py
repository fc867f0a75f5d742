"""Methods without privacy: the twins beside the private methods, and the trivial predictors."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import BadRatings
from dpmc_core.metrics import ranking, rmse
from dpmc_core.model import Constant, Factors, Mechanism, Model, Step, Task
from dpmc_core.privacy import RATING, Guarantee, Notion, Publishes, Releases, Trust, Unaccounted
from dpmc_core.ratings import PublicFacts, Ratings, place_in_row
from dpmc_core.settings import check_settings, setting
from dpmc_core.solvers.als import (
    bounded_scale,
    random_factors,
    ridge_rows,
)
from dpmc_core.solvers.cleansing import Answers, Cleansing
from dpmc_core.solvers.ease import Autoencoder
from dpmc_core.solvers.factorization import (
    ImplicitLoss,
    LeastSquaresMF,
    Over,
    binary_matrix,
    check_interactions,
    solve_rows,
)
from dpmc_core.solvers.frank_wolfe import StepRule, complete
from dpmc_core.solvers.linalg import Pattern, leading_right
from dpmc_core.solvers.most_rated import OnMostRated, most_rated
from dpmc_core.solvers.neighbours import Neighbourhood, cosine, jaccard, nearest
from dpmc_core.solvers.noisy_reports import SignReports, complete_signs, effects_and_taste
from dpmc_core.solvers.one_bit import Completion, likelihood, positive
from dpmc_core.solvers.pgd import Descent, Schedule
from dpmc_core.solvers.recovery import Recovery, Reports, on_unit_scale
from dpmc_core.solvers.rows import (
    Rows,
    item_sums,
    nuclear_radius,
    recentred,
    shrunken_means,
    user_rows,
    with_offsets,
)
from dpmc_core.solvers.sizes import GRAM_LIMIT, check_rank
from dpmc_core.stopping import waited

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Plain(Mechanism):
    """A method that reads raw ratings, adds no noise and promises nothing."""

    place: ClassVar[int] = 3
    revision: ClassVar[int] = 1
    reads: ClassVar[str] = "every rating"
    publishes: ClassVar[Publishes]

    def __post_init__(self) -> None:
        check_settings(self)

    def guarantee(self, public: PublicFacts) -> Guarantee:
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


@dataclass(frozen=True, kw_only=True)
class Clear(Completion, Plain):
    """Maximum-likelihood one-bit completion without privacy (Davenport et al. 2014)."""

    id: ClassVar[str] = "clear"
    name: ClassVar[str] = "Maximum likelihood, no privacy"
    task: ClassVar[Task] = Task.BINARY
    twin: ClassVar[str] = "clear"
    floor: ClassVar[str] = "majority"
    publishes: ClassVar[Publishes] = Publishes.MATRIX

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        loss = likelihood(self.link, positive(ratings))
        yield from self.solve(loss, ratings, rng, raw=True)


@dataclass(frozen=True, kw_only=True)
class ReferenceBinary(Plain):
    """Effects and taste from the signs themselves and who rated what: what privacy is measured by.

    The estimator of the private methods, given reports without noise.
    """

    id: ClassVar[str] = "reference-binary"
    name: ClassVar[str] = "Best likes without privacy"
    task: ClassVar[Task] = Task.BINARY
    twin: ClassVar[str] = "reference-binary"
    floor: ClassVar[str] = "majority"
    publishes: ClassVar[Publishes] = Publishes.MATRIX

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:  # noqa: ARG002
        signs = 2 * positive(ratings) - 1
        yield from complete_signs(Pattern.of(ratings), SignReports(signs, 1.0), raw=True)


@dataclass(frozen=True, kw_only=True)
class Majority(Plain):
    """One score for every cell: the log odds of +1, whose sign is the more frequent one."""

    id: ClassVar[str] = "majority"
    name: ClassVar[str] = "Majority sign"
    task: ClassVar[Task] = Task.BINARY
    twin: ClassVar[str] = "majority"
    floor: ClassVar[str] = "majority"
    revision: ClassVar[int] = 2
    reads: ClassVar[str] = "the more frequent sign"
    publishes: ClassVar[Publishes] = Publishes.ONE_SIGN

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:  # noqa: ARG002
        labels = positive(ratings)
        up, count = float(labels.sum()), len(labels)
        # Half a rating on either side keeps the odds finite; a tie counts as +1.
        score = math.log((up + 0.5) / (count - up + 0.5)) or 1e-9
        trace = {"share of +1": up / count}
        yield Step(1, 1, Constant(score), trace, frozenset(trace), True)


@dataclass(frozen=True, kw_only=True)
class GlobalMean(Plain):
    """The mean rating for every cell."""

    id: ClassVar[str] = "global-mean"
    name: ClassVar[str] = "Global mean"
    task: ClassVar[Task] = Task.RATINGS
    twin: ClassVar[str] = "global-mean"
    floor: ClassVar[str] = "global-mean"
    reads: ClassVar[str] = "the mean of all ratings"
    publishes: ClassVar[Publishes] = Publishes.ONE_NUMBER

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:  # noqa: ARG002
        mean = float(ratings.values.mean())
        yield Step(1, 1, Constant(mean), {"mean": mean}, frozenset({"mean"}), True)


@dataclass(frozen=True, kw_only=True)
class SoftImpute(Recovery, Plain):
    """Nuclear-norm recovery from the ratings themselves (Mazumder, Hastie, Tibshirani 2010)."""

    id: ClassVar[str] = "soft-impute"
    name: ClassVar[str] = "Soft-impute, no privacy"
    task: ClassVar[Task] = Task.RATINGS
    twin: ClassVar[str] = "soft-impute"
    floor: ClassVar[str] = "global-mean"
    publishes: ClassVar[Publishes] = Publishes.MATRIX

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        public = ratings.public
        reports = Reports(
            pattern=Pattern.of(ratings),
            values=on_unit_scale(ratings.values, public),
            gain=1.0,
            variance=self.misfit**2,
            rho=self.misfit * len(ratings) ** 0.5,
        )
        yield from self.recover(reports, public, rng, raw=True)


@dataclass(frozen=True, kw_only=True)
class PMF(LeastSquaresMF, Plain):
    """Regularised least-squares factorization (PMF), user factors in the unit ball, as in HXZ15."""

    id: ClassVar[str] = "pmf"
    name: ClassVar[str] = "PMF, no privacy"
    task: ClassVar[Task] = Task.RATINGS
    twin: ClassVar[str] = "pmf"
    floor: ClassVar[str] = "global-mean"
    publishes: ClassVar[Publishes] = Publishes.ITEM_AND_USER_FACTORS

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        sides = self.sides(ratings)
        for k, (users, items) in enumerate(self.alternate(sides, rng), start=1):
            yield Step(
                index=k,
                total=self.iterations,
                model=with_offsets(users, items, ratings.public.middle),
                trace={"objective": self.objective(sides, users, items)},
                raw=frozenset({"objective"}),
                final=k == self.iterations,
            )


@dataclass(frozen=True, kw_only=True)
class RatingBaseline(Plain):
    """What the twins of the user-level methods share."""

    task: ClassVar[Task] = Task.RATINGS
    floor: ClassVar[str] = "user-mean"
    publishes: ClassVar[Publishes] = Publishes.EVERYTHING


def centred(ratings: Ratings, rng: np.random.Generator) -> Rows:
    """All rows less user and item means."""
    rows = user_rows(ratings, ratings.public.items, rng)
    sums = item_sums(rows.cells, rows.values)
    counts = item_sums(rows.cells, np.ones_like(rows.values))
    return recentred(rows, shrunken_means(sums, counts))


def _on_most_rated(method: Mechanism, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
    """The method's steps on the items whose Gram matrix it can hold; for others user and item
    means."""
    inside, place = most_rated(ratings, GRAM_LIMIT)
    other = centred(ratings, rng).model()
    for step in method.fit(inside, rng):
        yield replace(step, model=step.model and OnMostRated(step.model, place, other))


@dataclass(frozen=True, kw_only=True)
class UserMean(RatingBaseline):
    """Each user's own mean for every item; under joint privacy this needs no noise at all."""

    id: ClassVar[str] = "user-mean"
    name: ClassVar[str] = "User mean"
    twin: ClassVar[str] = "user-mean"

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        yield Step(1, 1, user_rows(ratings, ratings.public.items, rng).model(), final=True)


@dataclass(frozen=True, kw_only=True)
class ItemMean(RatingBaseline):
    """Each user's own mean plus the mean of each item's centred ratings."""

    id: ClassVar[str] = "item-mean"
    name: ClassVar[str] = "User and item means"
    twin: ClassVar[str] = "item-mean"

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        yield Step(1, 1, centred(ratings, rng).model(), final=True)


@dataclass(frozen=True, kw_only=True)
class ReferenceRatings(RatingBaseline):
    """User and item effects and low-rank taste by variational Bayes (Lim and Teh 2007).

    What the estimators of the private methods are without noise, see `solvers.noisy_reports`: all
    variances are estimated, each user's own noise too, so there is nothing to tune.
    """

    id: ClassVar[str] = "reference-ratings"
    name: ClassVar[str] = "Best ratings without privacy"
    twin: ClassVar[str] = "reference-ratings"
    rank: int = setting(10, "most directions of taste", at_least=0, at_most=200)
    rounds: int = setting(30, "most rounds over users and items", at_least=1, at_most=1_000)

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:  # noqa: ARG002
        cells, half = Pattern.of(ratings), ratings.public.half_width
        mean = float(ratings.values.mean())
        values = (ratings.values - mean) / half
        found = effects_and_taste(
            cells, values, users_differ=True, rank=self.rank, rounds=self.rounds
        )
        for index, now in enumerate(found, start=1):
            trace = {
                "training rmse": half * rmse(now.predict(cells), values),
                "noise left": half * math.sqrt(now.noise),
                "directions of taste": float(len(now.taste)),
            }
            yield Step(
                index=index,
                total=self.rounds,
                model=with_offsets(
                    half * now.left, now.right, mean + half * now.user, half * now.item
                ),
                trace=trace,
                raw=frozenset(trace),
                final=now.final,
            )


@dataclass(frozen=True, kw_only=True)
class FrankWolfe(RatingBaseline):
    """Nuclear-norm completion by Frank-Wolfe (Jaggi and Sulovsky 2010; JTT18, Algorithm 3)."""

    id: ClassVar[str] = "frank-wolfe"
    name: ClassVar[str] = "Frank-Wolfe, no privacy"
    twin: ClassVar[str] = "frank-wolfe"
    rounds: int = setting(100, "most Frank-Wolfe rounds", at_least=1, at_most=10_000)
    step: StepRule = setting(
        StepRule.LINE_SEARCH, "share of the new part: 1/T, 2/(t+1) in round t, or exact line search"
    )
    radius: float = setting(
        0.8,
        "nuclear-norm radius k, in units of half the range x sqrt(users x items)",
        above=0,
        at_most=1e3,
    )
    tolerance: float = setting(
        1e-3, "stop when the duality gap is this small a part of the objective", at_least=0, below=1
    )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        rows = centred(ratings, rng)
        solver = complete(
            rows.cells,
            rows.values,
            nuclear_radius(self.radius, ratings.public),
            rounds=self.rounds,
            rule=self.step,
            tolerance=self.tolerance,
            rng=rng,
        )
        for found, solution in solver:
            trace = {
                "objective": found.objective,
                "duality gap": found.gap,
                "step": found.share,
            }
            yield Step(
                index=found.index,
                total=self.rounds,
                model=rows.model(solution.factors()),
                trace=trace,
                raw=frozenset(trace),
                final=found.final,
            )


@dataclass(frozen=True, kw_only=True)
class Als(RatingBaseline):
    """Matrix factorisation by alternating least squares on user- and item-centred ratings.

    Salakhutdinov and Mnih, "Probabilistic Matrix Factorization" (2007), solved by exact ridge
    problems; item factors are rescaled each round so that user factors are in rating points.
    """

    id: ClassVar[str] = "als"
    name: ClassVar[str] = "ALS, no privacy"
    twin: ClassVar[str] = "als"
    rank: int = setting(3, "length of the factors", at_least=1, at_most=200)
    rounds: int = setting(10, "rounds of alternating least squares", at_least=1, at_most=1_000)
    ridge: float = setting(10.0, "ridge of the users' problems", above=0, at_most=1e6)
    item_ridge: float = setting(
        1.0, "ridge of the items' problems, in squared rating points", above=0, at_most=1e6
    )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        check_rank(self.rank, ratings.public)
        rows = centred(ratings, rng)
        cells = rows.cells
        by_user, by_item = cells.by_user(rows.values), cells.by_item(rows.values)
        right = bounded_scale(random_factors(ratings.public.items, self.rank, rng))
        left = ridge_rows(by_user, right, self.ridge)
        for index in range(1, self.rounds + 1):
            right = bounded_scale(ridge_rows(by_item, left, self.item_ridge))
            left = ridge_rows(by_user, right, self.ridge)
            trace = {"training rmse": rmse(cells.sample(left, right), rows.values)}
            yield Step(
                index=index,
                total=self.rounds,
                model=rows.model(Factors(left, right)),
                trace=trace,
                raw=frozenset(trace),
                final=index == self.rounds,
            )


@dataclass(frozen=True, kw_only=True)
class Svd(RatingBaseline):
    """The zero-filled centred matrix over its density, cut to rank r (JTT18, Algorithm 4)."""

    id: ClassVar[str] = "svd"
    name: ClassVar[str] = "SVD, no privacy"
    twin: ClassVar[str] = "svd"
    rank: int = setting(3, "eigenvectors kept", at_least=1, at_most=1_000)

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        check_rank(self.rank, ratings.public)
        rows = centred(ratings, rng)
        values, basis = leading_right(rows.cells, rows.values, self.rank)
        left = np.asarray(rows.cells.by_user(rows.values) @ basis) / ratings.density
        trace = {"top singular value": float(values[0])}
        yield Step(1, 1, rows.model(Factors(left, basis)), trace, frozenset(trace), True)


@dataclass(frozen=True, kw_only=True)
class Pgd(RatingBaseline):
    """Nuclear-norm completion by projected gradient descent (Cai, Candes, Shen 2010).

    Of the 5,000 most rated items where there are more; others have user and item means.
    """

    id: ClassVar[str] = "pgd"
    name: ClassVar[str] = "Projected gradient, no privacy"
    twin: ClassVar[str] = "pgd"
    rounds: int = setting(20, "rounds", at_least=1, at_most=1_000)
    schedule: Schedule = setting(Schedule.CONSTANT, "step size by round")
    step: float = setting(0.5, "step size of the constant schedule", above=0, at_most=1)
    radius: float = setting(
        0.6,
        "nuclear-norm radius k, in units of half the range x sqrt(users x items)",
        above=0,
        at_most=1e3,
    )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        public = ratings.public
        if public.items > GRAM_LIMIT:
            yield from _on_most_rated(self, ratings, rng)
            return
        rows = centred(ratings, rng)
        descent = Descent(rows.cells, rows.values)
        radius = nuclear_radius(self.radius, public)
        for index in range(1, self.rounds + 1):
            step = self.schedule.step(index, self.step)
            exact, _ = descent.stepped_gram(step, math.inf)
            descent.project(step, math.inf, *waited(np.linalg.eigh, exact), radius)
            factors = descent.factors()
            trace = {
                "training rmse": descent.residual_rmse(),
                "rank": float(factors.right.shape[1]),
            }
            yield Step(
                index=index,
                total=self.rounds,
                model=rows.model(factors),
                trace=trace,
                raw=frozenset(trace),
                final=index == self.rounds,
            )


@dataclass(frozen=True, kw_only=True)
class CleansedSvd(Cleansing, RatingBaseline):
    """SVD after cleansing with exact statistics (McSherry and Mironov 2009).

    Of the 5,000 most rated items where there are more; others have user and item means.
    """

    id: ClassVar[str] = "cleansed-svd"
    name: ClassVar[str] = "SVD after cleansing, no privacy"
    twin: ClassVar[str] = "cleansed-svd"

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        check_rank(self.rank, ratings.public)
        if ratings.public.items > GRAM_LIMIT:
            yield from _on_most_rated(self, ratings, rng)
            return
        model, clamped = self.complete(
            Pattern.of(ratings), ratings.values, ratings.public, Answers.exact()
        )
        trace = {"residuals clamped": float(clamped)}
        yield Step(1, 1, model, trace, frozenset(trace), True)


@dataclass(frozen=True, kw_only=True)
class Ials(Plain):
    """Implicit alternating least squares (iALS), exact, without privacy.

    Rendle, Krichene, Zhang, Koren, "Revisiting the performance of iALS on item recommendation
    benchmarks" (2021). `over = missing` is the complementary loss of RYHH24.
    """

    id: ClassVar[str] = "ials"
    name: ClassVar[str] = "iALS, no privacy"
    task: ClassVar[Task] = Task.RANKING
    twin: ClassVar[str] = "ials"
    floor: ClassVar[str] = "popularity"
    publishes: ClassVar[Publishes] = Publishes.USER_AND_ITEM_FACTORS
    rank: int = setting(20, "number of factors (d)", at_least=1, at_most=1024)
    regularisation: float = setting(0.003, "weight of the ridge (lambda)", above=0, at_most=1e3)
    alpha: float = setting(
        0.2, "weight of cells that were not observed (alpha0)", at_least=0, at_most=1
    )
    over: Over = setting(Over.ALL, "which cells pull predictions to zero")
    frequency: bool = setting(True, "ridge in proportion to a row's weight, else constant")
    single: bool = setting(True, "single precision: six digits or so, twice as fast")
    rounds: int = setting(15, "alternations of users and items", at_least=1, at_most=10_000)

    @property
    def loss(self) -> ImplicitLoss:
        return ImplicitLoss(self.alpha, self.regularisation, self.over, self.frequency)

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        matrix = binary_matrix(ratings)
        columns = matrix.T.tocsr()
        left, right = (
            random_factors(size, self.rank, rng, 1 / self.rank) for size in ratings.shape
        )
        for k in range(1, self.rounds + 1):
            left = solve_rows(matrix, right, self.loss, single=self.single)
            right = solve_rows(columns, left, self.loss, single=self.single)
            raw = {"loss": self.loss.value(matrix, left, right)}
            yield Step(k, self.rounds, Factors(left, right), raw, frozenset(raw), k == self.rounds)


@dataclass(frozen=True, kw_only=True)
class Popularity(Plain):
    """Every user gets the items that most users have."""

    id: ClassVar[str] = "popularity"
    name: ClassVar[str] = "Popularity"
    task: ClassVar[Task] = Task.RANKING
    twin: ClassVar[str] = "popularity"
    floor: ClassVar[str] = "popularity"
    reads: ClassVar[str] = "how many users have each item"
    publishes: ClassVar[Publishes] = Publishes.ITEM_COUNTS

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:  # noqa: ARG002
        check_interactions(ratings)
        counts = item_sums(Pattern.of(ratings), ratings.values)
        model = Factors(np.ones((ratings.public.users, 1)), counts[:, None])
        most = {"most popular item": float(counts.max())}
        yield Step(1, 1, model, most, frozenset(most), True)


class Similarity(enum.Enum):
    """How alike two items are, from the users who have them."""

    JACCARD = "jaccard"
    COSINE = "cosine"


@dataclass(frozen=True, kw_only=True)
class ItemNeighbours(Plain):
    """Nearest-neighbour scores over items, without privacy: the limit of DPLCF and LDPICF."""

    id: ClassVar[str] = "item-knn"
    name: ClassVar[str] = "Item neighbours, no privacy"
    task: ClassVar[Task] = Task.RANKING
    twin: ClassVar[str] = "item-knn"
    floor: ClassVar[str] = "popularity"
    publishes: ClassVar[Publishes] = Publishes.ITEM_SIMILARITIES
    neighbours: int = setting(100, "nearest items that score an item", at_least=1, at_most=10_000)
    similarity: Similarity = setting(Similarity.JACCARD, "how alike two items are")

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:  # noqa: ARG002
        rows = binary_matrix(ratings)
        columns = rows.T.tocsr()
        counts = np.diff(columns.indptr).astype(float)
        alike = jaccard if self.similarity is Similarity.JACCARD else cosine

        def similarities(block: Ints) -> Floats:
            both = (columns[block] @ rows).toarray()
            return alike(both, counts[block][:, None], counts)

        similar = nearest(ratings.public.items, self.neighbours, similarities)
        trace = {"neighbours per item": similar.nnz / ratings.public.items}
        yield Step(1, 1, Neighbourhood(rows, similar), trace, frozenset(trace), True)


@dataclass(frozen=True, kw_only=True)
class Ease(Plain):
    """Each item regressed on all others, in closed form (Steck, EASE, 2019), without privacy.

    Of the 5,000 most popular items where there are more; the others rank after these.
    """

    id: ClassVar[str] = "ease"
    name: ClassVar[str] = "EASE, no privacy"
    task: ClassVar[Task] = Task.RANKING
    twin: ClassVar[str] = "ease"
    floor: ClassVar[str] = "popularity"
    publishes: ClassVar[Publishes] = Publishes.EVERYTHING
    ridge: float = setting(1_000.0, "ridge of the regressions (lambda)", above=0, at_most=1e9)

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:  # noqa: ARG002
        check_interactions(ratings)
        inside, place = most_rated(ratings, GRAM_LIMIT)
        found = Autoencoder.of(inside.matrix, self.ridge)
        model: Model = found
        if inside.shape != ratings.shape:
            counts = item_sums(Pattern.of(ratings), ratings.values)
            others = found.lowest - 1.0 / (1.0 + counts)
            model = OnMostRated(
                found, place, Factors(np.ones((ratings.public.users, 1)), others[:, None])
            )
        trace = {"largest weight": float(found.weights.max())}
        yield Step(1, 1, model, trace, frozenset(trace), True)


_RIVALS: tuple[Mechanism, ...] = (
    *(Ials(regularisation=weight, rounds=8) for weight in (0.03, 0.01, 0.003)),
    *(Ease(ridge=ridge) for ridge in (300.0, 1e3, 3e3, 1e4)),
    ItemNeighbours(neighbours=100),
    ItemNeighbours(neighbours=400),
    ItemNeighbours(neighbours=400, similarity=Similarity.COSINE),
    Popularity(),
)


@dataclass(frozen=True, kw_only=True)
class ReferenceRanking(Plain):
    """The best of iALS, EASE, item neighbours and popularity, its settings chosen for the data.

    Interactions of the training data, users' latest where times are known, are held out of it;
    what ranks most of them among the first ten then learns from all of the training data.
    """

    id: ClassVar[str] = "reference-ranking"
    name: ClassVar[str] = "Best ranking without privacy"
    task: ClassVar[Task] = Task.RANKING
    twin: ClassVar[str] = "reference-ranking"
    floor: ClassVar[str] = "popularity"
    publishes: ClassVar[Publishes] = Publishes.EVERYTHING
    judges: int = setting(
        5_000, "most held-out interactions that choose", at_least=1, at_most=1_000_000
    )
    rounds: int = setting(15, "rounds of iALS once it is chosen", at_least=1, at_most=10_000)

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        check_interactions(ratings)
        held = self._held_out(ratings, rng)
        seed = int(rng.integers(2**63))
        total = len(_RIVALS) + 1
        best, rated = _RIVALS[0], dict.fromkeys((rival.name for rival in _RIVALS), 0.0)
        for index, rival in enumerate(_RIVALS, start=1):
            found = _hit_ratio(rival, ratings, held, seed)
            if found > max(rated.values()):
                best = rival
            rated[rival.name] = max(rated[rival.name], found)
            trace = {f"validation HR@10, {name}": value for name, value in rated.items()}
            yield Step(index, total, None, trace, frozenset(trace))
        chosen = replace(best, rounds=self.rounds) if isinstance(best, Ials) else best
        *_, last = chosen.fit(ratings, np.random.default_rng(seed))
        yield Step(total, total, last.model, trace, frozenset(trace), True)

    def _held_out(self, ratings: Ratings, rng: np.random.Generator) -> NDArray[np.bool_]:
        """The judges: some interactions of every user or one of some; nobody's only one, and more
        than one only of who has five times as many."""
        counts = np.diff(ratings.indptr)
        able = rng.permutation(np.flatnonzero(counts > 1))[: self.judges]
        quota = np.zeros(len(counts), dtype=np.int64)
        each = self.judges // max(len(able), 1)
        quota[able] = np.clip(counts[able] // 5, 1, max(each, 1))
        latest = () if ratings.times is None else (-ratings.times,)
        held: NDArray[np.bool_] = (
            place_in_row(ratings, rng.random(len(ratings)), *latest) < quota[ratings.users]
        )
        return held


def _hit_ratio(method: Mechanism, ratings: Ratings, held: NDArray[np.bool_], seed: int) -> float:
    """HR@10 of the held-out interactions once a method has learnt from the others.

    0 where there is nothing to choose by: too few interactions, or items to rank them among.
    """
    if not held.any():
        return 0.0
    train, test = ratings.select(~held), ratings.select(held)
    *_, last = method.fit(train, np.random.default_rng(seed))
    assert last.model is not None  # no noise to wait for
    try:
        return ranking(last.model, train, test, np.random.default_rng(seed)).hr
    except BadRatings:
        return 0.0
