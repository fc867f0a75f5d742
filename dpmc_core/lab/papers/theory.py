"""The papers' theorems beside what is measured on small generated instances, as one table.

LWHM22 (one-bit), Z16 (collection), RYHH24 (implicit) and JTT18 (Frank-Wolfe). Everything is
computed when it is asked for, the same every time.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core import registry
from dpmc_core.data.synthetic import one_bit_lab
from dpmc_core.errors import InvalidSetting
from dpmc_core.lab.papers import recovery
from dpmc_core.lab.papers.bounds import DRAWABLE, frank_wolfe, implicit, one_bit
from dpmc_core.links import LOGISTIC, Link, Probit
from dpmc_core.mechanisms.dpimf import Dpimf
from dpmc_core.mechanisms.frank_wolfe import (
    PrivateFrankWolfe,
    PrivateSvd,
    StepRule,
    exact_top_pair,
    oja,
)
from dpmc_core.mechanisms.frank_wolfe import frank_wolfe as conditional_gradient
from dpmc_core.mechanisms.one_bit import InputFlip, Objective, Output, OutputBound
from dpmc_core.model import Estimator, Factors, Mechanism
from dpmc_core.privacy import USER_REPLACED, Additive, Calibration
from dpmc_core.privacy.channels import flip_chance
from dpmc_core.privacy.importance import amplified_losses
from dpmc_core.privacy.sampled import SampledLaplace
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.factorization import ImplicitLoss, Over, binary_matrix, solve_rows
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.one_bit import positive

Floats = NDArray[np.float64]

_ROUNDING = 1 + 1e-9  # where a bound is met exactly


class Says(enum.Enum):
    """What a statement is about."""

    PRIVACY = "privacy"
    ACCURACY = "accuracy"


@dataclass(frozen=True, kw_only=True)
class TheoryRow:
    """One statement beside one measurement.

    quantity: what is bounded, with its unit; setting: the instance. bound: the statement as we
    prove it, or as printed where we have none; printed: the paper's own, where that differs.
    open_constant: what is printed leaves a constant open, which is taken as 1. spread: standard
    error of `measured`, 0 where that is exact. trivial: what holds without any theorem. note: what
    is wrong with what is printed, as we read it, and why. mechanism: whose promise the statement
    is, for a promise.
    """

    paper: str
    theorem: str
    says: Says = Says.ACCURACY
    quantity: str
    setting: str
    bound: float
    measured: float
    printed: float | None = None
    spread: float = 0.0
    open_constant: bool = False
    trivial: float = math.inf
    note: str = ""
    mechanism: str = ""

    @property
    def factor(self) -> float:
        """How many times what was measured the bound is; infinite where that is not above 0."""
        return self.bound / self.measured if self.measured > 0 else math.inf

    @property
    def holds(self) -> bool:
        """Whether what was measured is within the bound, or within 4 standard errors of it."""
        return self._within(self.bound)

    @property
    def counterexample(self) -> bool:
        """Whether what was measured contradicts what is printed, whatever its constants."""
        printed = self.bound if self.printed is None else self.printed
        return not self.open_constant and not self._within(printed)

    @property
    def drawable(self) -> bool:
        """Whether a dashed line may be drawn: at a bound that is met, is near and says something,
        and whose constant is known."""
        known = not self.open_constant or self.printed is not None
        return known and self.holds and self.factor < DRAWABLE and not self.silence

    @property
    def silence(self) -> str:
        """A sentence where the bound says nothing, else empty."""
        if self.bound < self.trivial:
            return ""
        return f"The bound says nothing here: {self.trivial:.3g} holds without it."

    def _within(self, limit: float) -> bool:
        return self.measured <= limit * _ROUNDING + 4 * self.spread


def table(paper: str | None = None) -> tuple[TheoryRow, ...]:
    """The rows of one paper, by its key, or of all; none of HXZ15.

    Raises InvalidSetting for another key. Takes some seconds the first time; then they are kept.
    """
    if paper is None:
        return tuple(row for key in _PAPERS for row in _rows(key))
    if paper not in _PAPERS:
        raise InvalidSetting("paper", f"one of {', '.join(_PAPERS)}", paper)
    return _rows(paper)


def broken_promise(mechanism: str) -> TheoryRow | None:
    """The row that contradicts the theorem a mechanism promises by, if there is one."""
    return next((r for r in _promises() if r.mechanism == mechanism and r.counterexample), None)


@cache
def _rows(paper: str) -> tuple[TheoryRow, ...]:
    return tuple(_PAPERS[paper]())


Found = Iterator[TheoryRow]


# LWHM22. The instance: 30 x 30 scores of rank one and up to 1, half of the signs seen.

_lwhm22 = partial(TheoryRow, paper="LWHM22")
_SCORES = one_bit.SignSample(30, 30, 450, 1, 1.0)
_LAB = (
    f"{_SCORES.d1} x {_SCORES.d2} scores of rank {_SCORES.rank} up to {_SCORES.alpha:g}, logistic"
    f" link, {_SCORES.seen:g} seen on average"
)
_LABS = 4
_PUBLISHED: dict[str, Any] = {"radius": 1.0, "bound": 1.0, "iterations": 300, "tolerance": 1e-3}
_OPEN = (
    "printed with C2 = 1, and as we read it with a root too many in C; ours has numbers for every"
    " constant"
)


@cache
def _lab(seed: int) -> tuple[Ratings, Floats]:
    """Signs and true scores; every cell is seen by a chance of its own."""
    rng = np.random.default_rng(seed)
    s, cells = _SCORES, _SCORES.d1 * _SCORES.d2
    share = rng.binomial(cells, s.seen / cells) / cells
    lab = one_bit_lab(d1=s.d1, d2=s.d2, rank=s.rank, alpha=s.alpha, observed=share, rng=rng)
    assert lab.truth is not None
    return lab.ratings, lab.truth.left @ lab.truth.right.T


def _matrix(mechanism: Mechanism, ratings: Ratings, seed: int = 0) -> Floats:
    """What a mechanism ends with, users x items."""
    *_, last = mechanism.fit(ratings, np.random.default_rng(seed))
    assert last.model is not None
    return np.asarray(last.model.predict(*np.indices(ratings.shape)), dtype=float)


def _fits(mechanism: Mechanism) -> list[Floats]:
    """What a mechanism makes of each lab, less the truth."""
    return [_matrix(mechanism, _lab(k)[0], k) - _lab(k)[1] for k in range(_LABS)]


def _mean(values: Sequence[float] | Floats) -> dict[str, Any]:
    """What was measured, and its standard error, of independent draws."""
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return {"measured": float(np.mean(values)), "spread": float(error)}


def _squares(off: list[Floats]) -> list[float]:
    return [float(np.mean(one**2)) for one in off]


def _one_bit() -> Found:
    for link in (LOGISTIC, Probit()):
        yield from _shape_of_chances(link, flip_chance(1.0))
    yield from _promises()
    yield from _one_bit_errors()


def _shape_of_chances(link: Link, flip: float) -> Found:
    x = np.linspace(-_SCORES.alpha, _SCORES.alpha, 2001)
    chance, slope = flip + (1 - 2 * flip) * link.probability(x), (1 - 2 * flip) * link.density(x)
    row = partial(_lwhm22, setting=f"{link} link, scores up to 1, flips at epsilon 1")
    yield row(
        theorem="Theorem 1, L",
        quantity="steepness |c'|/(c (1 - c)) of the chance of +1, per score",
        bound=one_bit.steepness(link, _SCORES.alpha, flip),
        printed=one_bit.printed_steepness(link, _SCORES.alpha, flip),
        measured=float(np.max(slope / (chance * (1 - chance)))),
    )
    own = "" if isinstance(link, Probit) else ", and e^alpha stands for e^alpha + 2 + e^-alpha"
    read = "printed too small: as we read it its first term lacks a division by h'^2"
    yield row(
        theorem="Theorem 1, beta",
        quantity="flatness c (1 - c)/c'^2 of the chance of +1, squared scores",
        bound=one_bit.flatness(link, _SCORES.alpha, flip),
        printed=one_bit.printed_flatness(link, _SCORES.alpha, flip),
        measured=float(np.max(chance * (1 - chance) / slope**2)),
        note=f"{read}{own}",
    )


@cache
def _promises() -> tuple[TheoryRow, ...]:
    return tuple(_one_bit_privacy())


def _one_bit_privacy() -> Found:
    row = partial(_lwhm22, says=Says.PRIVACY)
    ratings, _ = _lab(0)
    missing = (
        "its condition bounds (1 - p1)/p2 and p1/(1 - p2), not (1 - p2)/p1 and p2/(1 - p1); for"
        " p1 = p2, all that the paper uses, it is right"
    )
    lopsided = InputFlip(epsilon=math.log(2), p_plus=0.01, p_minus=0.5)
    for flips, note in ((InputFlip(epsilon=1.0), ""), (lopsided, missing)):
        plus, minus = flips.flips
        yield row(
            theorem="Theorem 1",
            quantity="privacy loss of one sign, nats",
            setting=f"flips of +1 with chance {plus:.3g}, of -1 with {minus:.3g}",
            bound=flips.guarantee(ratings.public).certified().epsilon,
            printed=flips.epsilon,
            measured=max(abs(math.log((1 - plus) / minus)), abs(math.log((1 - minus) / plus))),
            note=note,
        )
    link = Probit()
    for alpha, epsilon in ((1.0, 0.1), (2.0, 1.0)):
        paper = Objective(
            epsilon=epsilon,
            link=link,
            bound=alpha,
            estimator=Estimator.PUBLISHED,
            calibration=Calibration.PAPER,
        )
        x = np.linspace(-alpha, alpha, 2001)
        if alpha == _SCORES.alpha:
            yield row(
                theorem="Theorem 2, Delta",
                quantity="how far a sign moves the gradient of its cell, per score",
                setting=f"{link} link, scores up to {alpha:g}",
                bound=one_bit.steepness(link, alpha),
                printed=paper.delta_h,
                measured=float(np.max(link.score(x) + link.score(-x))),
                note="true, and not enough for epsilon with this link. For the logistic link Delta"
                " is 1, and it is enough",
            )
        yield row(
            theorem="Theorem 2",
            quantity="privacy loss of the solution when its sign flips, nats",
            setting=f"one cell, {link} link, scores up to {alpha:g}, epsilon {epsilon:g}",
            bound=one_bit.objective_privacy(link, alpha, epsilon, paper.delta_h),
            printed=epsilon,
            measured=_loss_of_a_cell(link, x, paper.delta_h / epsilon),
            mechanism=paper.id,
            note="the proof compares the noise that leads to one solution, not how fast the"
            " solution moves with it, which is the loss's curvature: of a Gaussian link it is"
            " another for each sign",
        )
    output = Output(epsilon=1.0, within=OutputBound.SOLVER, **_PUBLISHED)
    exact = registry.create("clear", **(_PUBLISHED | {"iterations": 3000, "tolerance": 1e-6}))
    signs = ratings.values.copy()
    signs[0] *= -1
    moved = _matrix(exact, ratings) - _matrix(exact, ratings.with_values(signs, low=-1, high=1))
    card = output.guarantee(ratings.public)
    yield row(
        theorem="Theorem 4",
        quantity="privacy loss of the noisy matrix when one sign flips, nats",
        setting=f"{_LAB}, epsilon 1",
        bound=card.certified().epsilon,
        printed=output.epsilon,
        measured=float(np.abs(moved).sum()) / card.releases.matrix.scale,
        mechanism=output.id,
        note="as we read it: the printed sensitivity of the matrix, 2 alpha, is that of one cell,"
        " and a sign moves them all. For one published cell it is right",
    )


def _loss_of_a_cell(link: Link, ends: Floats, scale: float) -> float:
    """How many times likelier, in nats, a solution between two ends is after one sign than after
    the other: +1 puts it at x where the Laplace noise is h'/h, -1 where it is -h'/(1 - h)."""
    after = [np.abs(np.diff(np.exp(-link.score(x) / scale))) for x in (ends, -ends)]
    return float(np.max(np.abs(np.log(after[0] / after[1]))))


def _one_bit_errors() -> Found:
    s, epsilon = _SCORES, 1.0
    box, drawn = 4 * s.alpha**2, f"; mean of {_LABS}"  # no two feasible matrices are further apart
    steep, flat = one_bit.steepness(LOGISTIC, s.alpha), one_bit.flatness(LOGISTIC, s.alpha)
    shared: dict[str, Any] = {"epsilon": epsilon, **_PUBLISHED}
    row = partial(_lwhm22, quantity="mean squared error of a score", trivial=box)

    before = _fits(registry.create("clear", **_PUBLISHED))
    chances = [
        [LOGISTIC.probability(m) for m in (_lab(k)[1] + off, _lab(k)[1])]
        for k, off in enumerate(before)
    ]
    distance = float(np.mean([one_bit.hellinger(*pair) for pair in chances]))
    yield row(
        theorem="Appendix B, Hellinger distance",
        setting=f"{_LAB}, no noise{drawn}",
        bound=one_bit.error_of_hellinger(flat, distance),
        printed=one_bit.error_of_hellinger(
            one_bit.printed_flatness(LOGISTIC, s.alpha), distance, printed=True
        ),
        measured=float(np.mean(_squares(before))),
        note="printed with 8 for pi^2/2, and beta = e^alpha, which is too small",
    )

    flip = flip_chance(epsilon)
    curve = one_bit.steepness(LOGISTIC, s.alpha, flip), one_bit.flatness(LOGISTIC, s.alpha, flip)
    flipped = _fits(InputFlip(estimator=Estimator.PUBLISHED, **shared))
    first = partial(
        row,
        setting=f"{_LAB}, input perturbation at epsilon 1{drawn}",
        open_constant=True,
        **_mean(_squares(flipped)),
    )
    yield first(
        theorem="Theorem 1",
        bound=one_bit.error(s, *curve),
        printed=one_bit.printed_error(s, *curve),
        note=_OPEN,
    )
    yield first(
        theorem="Theorem 1, misprint undone",
        bound=one_bit.printed_error(s, *curve, misprint=False),
        note="as its source has it: sqrt(1 + (d1 + d2) log(d1 d2)/n) for sqrt(C/n), with C2 = 1",
    )

    tilted = Objective(estimator=Estimator.PUBLISHED, **shared)
    off, gains = _fits(tilted), []
    for k in range(_LABS):
        ratings, _ = _lab(k)
        release = tilted.guarantee(ratings.public).releases.signs
        assert release is not None
        ones = positive(ratings)
        noise = release.publish(ones, np.random.default_rng(k)) - ones  # what the fit draws first
        gains.append(float(np.mean(noise * off[k][ratings.users, ratings.items])))
    followed = one_bit.printed_objective_noise(s, epsilon, 1.0)
    setting = f"{_LAB}, objective perturbation at epsilon 1{drawn}"
    yield _lwhm22(
        theorem="Theorem 2, its noise",
        quantity="what the solution gains by following the noise, nats per sign",
        setting=setting,
        bound=one_bit.objective_noise(s, 1 / epsilon),
        printed=followed,
        note="printed as if every score were off in the same direction, and without its 2 alpha",
        **_mean(gains),
    )
    yield row(
        theorem="Theorem 2",
        setting=setting,
        bound=one_bit.error(s, steep, flat, 1 / epsilon),
        printed=one_bit.printed_error(s, steep, flat)
        + one_bit.error_of_hellinger(flat, followed, printed=True),
        open_constant=True,
        note=_OPEN,
        **_mean(_squares(off)),
    )

    after = _squares(_fits(Output(within=OutputBound.SOLVER, **shared)))
    added = one_bit.output_noise(s, epsilon)
    printed = one_bit.printed_output_noise(s, epsilon)
    setting = f"{_LAB}, output perturbation at epsilon 1{drawn}"
    yield _lwhm22(
        theorem="Theorem 4, its noise",
        quantity="mean squared error that noise adds to a score",
        setting=setting,
        bound=added,
        printed=printed,
        open_constant=True,
        note="ours is the expectation, 8 alpha^2/eps^2; printed with C6 = 1, for all cells at once",
        **_mean(np.subtract(after, _squares(before))),
    )
    yield row(
        theorem="Theorem 4",
        setting=setting,
        bound=one_bit.error(s, steep, flat) + added,
        printed=one_bit.printed_error(s, steep, flat) + printed,
        trivial=box + added,
        open_constant=True,
        note=_OPEN,
        **_mean(after),
    )


# Z16. The instance of `recovery.bounds`: 300 x 200 ratings of which 30 % are given.

_z16 = partial(TheoryRow, paper="Z16")
_EPSILONS = (1.0, 4.0)


def _collection() -> Found:
    share, square = recovery.beyond()
    for id in ("modified-laplace", "randomised-response"):
        name = registry.get(id).name.removesuffix(" collection")
        views = recovery.bounds(id, _EPSILONS)
        useful = recovery.first_useful(id)
        for found in zip(*views, strict=True):
            view = recovery.RecoveryBounds(*found)
            setting = f"{name}, epsilon {view.epsilon:g} per cell, 300 x 200, 30 % given"
            row = partial(_z16, setting=setting)
            yield row(
                theorem="Theorem 3",
                quantity="distance rho of the reports from the truth, on the scale -1..1",
                bound=float(view.tight),
                printed=float(view.theorem),
                measured=float(view.rho),
                note="true; ours puts the parts under one root, and counts no cell twice. Both are"
                f" for truths in -1..1: {share:.1%} of these lie beyond, where the mean square, all"
                f" that the proof goes on with, is {square:.2f} and not the 1 that it allows",
            )
            yield row(
                theorem="Theorem 3 as a rule",
                quantity="distance of the recovered matrix from the reports, on the scale -1..1",
                bound=float(view.theorem),
                measured=float(view.residual),
                trivial=float(view.reported),
                note="Equation 4 takes the matrix of least nuclear norm within rho of the reports:"
                " the zero matrix where rho is their norm or more. It has norm"
                f" {view.kept:.2g}, the truth {view.size:.3g}. Here more than zero is expected from"
                f" epsilon {useful:.3g} per cell on",
            )
            yield row(
                theorem="Equation 5",
                quantity="distance of the rule's matrix from the truth, on the scale -1..1",
                bound=float(view.equation_5),
                open_constant=True,
                measured=float(view.published),
                trivial=float(view.size),
                note="printed under restricted isometry, which fails as soon as one cell is not"
                " reported: a matrix that is zero but there has rank one. With C0 = 1",
            )


# RYHH24. The instance: one item, fixed factors of 60 users, solved with fresh noise 600 times.

_ryhh24 = partial(TheoryRow, paper="RYHH24")
_USERS, _SOLVES = 60, 600
_SPLIT: dict[str, Any] = {"alpha": 0.8, "beta1": 0.5, "beta2": 0.4}
_ALONE: dict[str, Any] = {"alpha": 1.0, "beta1": 1.0, "beta2": 0.0}
_VARIANTS = ("strawman", "complementary", "symmetric", "optimal")
_EQUATIONS = dict(zip(_VARIANTS, (25, 26, 27, 28), strict=True))


@dataclass(frozen=True, kw_only=True)
class _Item:
    """A profile's problem: the largest entry of a factor, c, the ridge, lambda, and the budget."""

    rank: int = 4
    largest: float = 0.3
    regularisation: float = 0.05
    epsilon: float = 1.0

    def mechanism(self, variant: str) -> Dpimf:
        own: dict[str, Any] = {"clip": self.rank * self.largest}
        own |= {"clip_l2": math.sqrt(self.rank) * self.largest}
        if variant in ("complementary", "symmetric"):
            own |= _SPLIT | {"beta3": 1 - _SPLIT["beta1"] - _SPLIT["beta2"]}
        elif variant == "strawman":
            own["alpha"] = _SPLIT["alpha"]
        made = registry.create(
            f"dpimf-{variant}",
            epsilon=self.epsilon,
            rank=self.rank,
            regularisation=self.regularisation,
            rounds=1,
            **own,
        )
        assert isinstance(made, Dpimf)
        return made

    def scales(self, variant: str) -> implicit.Scales:
        """Of the noise, by the paper's sensitivities at the worst factor."""
        if variant == "strawman":
            return implicit.strawman_scales(self.epsilon, self.rank, self.largest)
        split = _ALONE if variant in ("optimal", "sampled") else _SPLIT
        return implicit.complementary_scales(
            self.epsilon, self.rank, self.largest, symmetric=variant == "symmetric", **split
        )

    def printed(self, variant: str) -> float:
        size = self.epsilon, self.rank, self.regularisation, self.largest
        if variant == "strawman":
            return implicit.printed_strawman(*size)
        split = _ALONE if variant in ("optimal", "sampled") else _SPLIT
        return implicit.printed_complementary(*size, symmetric=variant == "symmetric", **split)

    def drawn(self, rng: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
        """The users' factors, and who chose the item."""
        factors = rng.uniform(-self.largest, self.largest, (_USERS, self.rank))
        return factors, rng.random(_USERS) < 0.4

    def sampled(self) -> float:
        """How long a vector the sampled variant's sample adds to A1, on average, at most."""
        factors, ones = self.drawn(np.random.default_rng(2))
        first, terms = self.mechanism("sampled").releases(_SOLVES).first, 2 * factors[ones]
        assert isinstance(first, SampledLaplace)
        weights = first.weights(np.abs(terms).sum(axis=1))
        return implicit.sampling_norm(np.linalg.norm(terms, axis=1), weights)

    def excess(self, variant: str) -> Floats:
        """How much more than the least possible each noisy profile loses."""
        rng, mechanism = np.random.default_rng(2), self.mechanism(variant)
        factors, ones = self.drawn(rng)
        columns = _column(ones, _SOLVES)
        found = mechanism.private_profiles(columns, factors, mechanism.releases(_SOLVES), rng)
        best = solve_rows(columns[:1], factors, mechanism.loss)
        values = _losses(mechanism.loss, ones, factors, np.vstack((best, found)))
        excess: Floats = values[1:] - values[0]
        return excess

    @property
    def words(self) -> str:
        return (
            f"{_USERS} users, rank {self.rank}, entries up to {self.largest:g}, lambda"
            f" {self.regularisation:g}, epsilon {self.epsilon:g}; mean of {_SOLVES} solves"
        )


def _column(ones: NDArray[np.bool_], times: int = 1) -> Any:
    """Items that the same users chose, as rows of ones."""
    users, items = np.nonzero(np.repeat(ones[:, None], times, axis=1))
    public = PublicFacts(users=len(ones), items=times, low=0, high=1)
    ratings = Ratings.build(users, items, np.ones(len(users)), public)
    return binary_matrix(ratings).T.tocsr()


def _losses(
    loss: ImplicitLoss, ones: NDArray[np.bool_], factors: Floats, profiles: Floats
) -> Floats:
    """The loss of each profile of an item that these users chose."""
    scores = profiles @ factors.T
    pull = np.ones(len(ones)) if loss.over is Over.ALL else ~ones
    ridge = loss.ridge(np.array([ones.sum()]), len(ones))[0]
    found: Floats = ((scores[:, ones] - 1) ** 2).sum(axis=1)
    found += loss.alpha * (scores**2 @ pull) + ridge * (profiles**2).sum(axis=1)
    return found


def _implicit() -> Found:
    yield from _complementary_loss()
    yield from _variant_noise(_Item())
    usual = _Item()
    for variant, equation in _EQUATIONS.items():
        note = "b is counted twice: true, and loose" if variant == "optimal" else ""
        yield _excess_row(usual, variant, f"Theorem 5, Eq. {equation}", note)
    short: dict[str, Any] = {"rank": 1, "largest": 0.001, "regularisation": 1.0}
    ridge, square = "printed without the ridge's noise", "printed with one c for c^2"
    for item, variant, note in (
        (_Item(**short, epsilon=0.01), "strawman", f"{ridge}, and with 1/c for at most 1"),
        (_Item(largest=100.0), "strawman", square),
        (_Item(**short, epsilon=0.1), "complementary", ridge),
        (_Item(**short | {"rank": 2}, epsilon=0.1), "symmetric", ridge),
        (_Item(rank=1, largest=1000.0, epsilon=0.01), "complementary", square),
    ):
        words = "short" if item.largest < 1 else "long"
        theorem = f"Theorem 5, Eq. {_EQUATIONS[variant]}, {words} factors"
        yield _excess_row(item, variant, theorem, note)
    yield _excess_row(
        _Item(epsilon=300.0),
        "sampled",
        "Theorem 5, Eq. 28, as stated for importance sampling",
        "as we read it: the proof counts the noise b, not that the profile minimises the loss of a"
        " sample of the users, which costs as much at any epsilon. Where all count it is true",
    )
    yield from _corollary(usual)
    yield _one_weight(0.1, 1.0)


def _complementary_loss() -> Found:
    rng, alpha, ridge, rank = np.random.default_rng(1), 0.2, 0.1, 3
    factors, ones = rng.uniform(-0.5, 0.5, (_USERS, rank)), rng.random(_USERS) < 0.4
    theirs, ours = (ImplicitLoss(alpha, ridge, over) for over in Over)
    found = np.vstack([solve_rows(_column(ones), factors, loss) for loss in (theirs, ours)])
    size = alpha, int(ones.sum()), ridge, rank, float(np.abs(factors).max())
    original = _losses(theirs, ones, factors, found)
    row = partial(
        _ryhh24,
        setting=f"one item, {_USERS} users, rank {rank}, entries up to 0.5, alpha {alpha:g}",
        printed=implicit.loss_change(*size, printed=True),
    )
    yield row(
        theorem="Theorem 4",
        quantity="what minimising the complementary loss costs in iALS's loss",
        bound=implicit.loss_change(*size),
        measured=float(original[1] - original[0]),
        note="this is what its proof is after; the constant is d c^2, though printed as 2 d c^2",
    )
    least = float(_losses(ours, ones, factors, found[1:])[0])
    yield row(
        theorem="Theorem 4 as stated",
        quantity="least complementary loss less least loss of iALS",
        bound=0.0,
        measured=least - float(original[0]),
        note="never positive, as one loss is nowhere above the other: true, and says nothing",
    )


def _variant_noise(item: _Item) -> Found:
    """Each release's noise beside what the paper's sensitivities say of it."""
    rng, draws = np.random.default_rng(3), 20_000
    for variant in _VARIANTS:
        scales = item.scales(variant)._asdict()
        for name, release in item.mechanism(variant).releases(1):
            assert isinstance(release, Additive)
            yield _ryhh24(
                theorem=f"Eq. {'9' if variant == 'strawman' else '15 to 18'}, {variant}",
                quantity=f"variance of the noise on a number of the {_TERMS[name]}",
                setting=f"{item.words.split(';')[0]}; {draws} draws",
                bound=2 * scales[name] ** 2,
                **_mean(release.sample(draws, rng) ** 2),
            )
    first = item.mechanism("optimal").releases(1).first
    lengths = np.linalg.norm(first.sample(draws * item.rank, rng).reshape(draws, -1), axis=1)
    yield _ryhh24(
        theorem="Lemma 2",
        quantity="mean length of the noise vector b",
        setting=f"{item.words.split(';')[0]}, optimal variant; {draws} draws",
        bound=implicit.laplace_norm(item.rank, first.scale),
        note="our copy of the paper has Delta under the root, which its proof does not",
        **_mean(lengths),
    )


_TERMS = {"first": "first order (A1)", "second": "second moment (A2)", "ridge": "ridge"}


def _excess_row(item: _Item, variant: str, theorem: str, note: str) -> TheoryRow:
    sampled = item.sampled() if variant == "sampled" else 0.0
    return _ryhh24(
        theorem=theorem,
        quantity=f"mean excess loss of a noisy profile, {variant}",
        setting=item.words,
        bound=implicit.excess_loss(item.scales(variant), item.rank, item.regularisation, sampled),
        printed=item.printed(variant),
        **_mean(item.excess(variant)),
        note=note,
    )


def _corollary(usual: _Item) -> Found:
    split: dict[str, Any] = {"alpha": 0.8, "beta1": 0.1, "beta2": 0.8}
    ranks = range(1, 41)

    def below(rank: int) -> bool:
        """Whether Eq. 26 is below Eq. 25 for N from 1e-4 to 1e4."""
        sizes = ((1.0, rank, ridge, 0.3) for ridge in np.geomspace(1e-8, 1e8, 33))
        return all(
            implicit.printed_complementary(*size, **split) <= implicit.printed_strawman(*size)
            for size in sizes
        )

    def least(printed: bool) -> int:
        won = (d for d in ranks if implicit.complementary_wins(rank=d, printed=printed, **split))
        return next(won)

    yield _ryhh24(
        theorem="Corollary 1",
        quantity="rank from which the bound of Eq. 26 is below that of Eq. 25",
        setting=f"alpha {split['alpha']}, beta1 {split['beta1']}, beta2 {split['beta2']}, lambda"
        " from 1e-8 to 1e8",
        bound=least(printed=False),
        printed=least(printed=True),
        measured=next(d for d in ranks if below(d)),
        note="printed for d >= sqrt(1/beta1) - 1; of its own Eq. 25 and 26 it is true for"
        " (d + 1)^2 >= 2 d/beta1",
    )
    losses = [float(usual.excess(variant).mean()) for variant in _VARIANTS]
    for k, (before, after) in enumerate(pairwise(_VARIANTS)):
        yield _ryhh24(
            theorem="Corollary 1, in practice",
            quantity=f"excess loss, {after} over {before}",
            setting=usual.words,
            bound=1.0,
            measured=losses[k + 1] / losses[k],
            note="the corollary orders bounds; this is what they bound",
        )


def _one_weight(loss: float, epsilon: float) -> TheoryRow:
    weights = np.geomspace(1.0, 1e6, 100_001)
    above = amplified_losses(loss, weights) > epsilon
    return _ryhh24(
        theorem="Theorem 6",
        says=Says.PRIVACY,
        quantity="weights that keep a sampled term's privacy loss at epsilon",
        setting=f"loss {loss:g} without sampling, epsilon {epsilon:g}; weights up to 1e6 tried",
        bound=float(implicit.unique_weight_exists(loss, epsilon)),
        measured=float(np.count_nonzero(np.diff(above))),
        note="its condition epsilon > ln(1 + w (e^eps' - 1)) for all large w holds for no number"
        " epsilon; with the loss phi(w) for it, the theorem is true",
    )


# JTT18. The instances: sign matrices of rank one or two, all seen, rows of mean zero.

_jtt18 = partial(TheoryRow, paper="JTT18")
_RISK = "empirical risk, half a squared rating point"


def _signs(users: int, items: int, rank: int = 1) -> tuple[Ratings, Floats, float]:
    """Ratings that are all of a matrix of mean zero by row, that matrix, its nuclear norm."""
    rng = np.random.default_rng(0)
    left = rng.choice([-1.0, 1.0], (users, rank))
    right = np.array([np.tile(np.repeat([1.0, -1.0], items // 2**k), 2**k // 2)
                      for k in range(1, rank + 1)])  # fmt: skip
    matrix = left @ right / rank
    u, i = np.nonzero(np.ones(matrix.shape))
    public = PublicFacts(users=users, items=items, low=-1, high=1)
    nuclear = float(np.linalg.svd(matrix, compute_uv=False).sum())
    return Ratings.build(u, i, matrix[u, i], public), matrix, nuclear


def _frank_wolfe() -> Found:
    yield from _optimisation()
    yield _one_row()
    yield from _private_risk()
    yield from _powers()
    yield from _oja()
    yield _svd()


def _optimisation() -> Found:
    for rank, rule, rounds in (
        (1, StepRule.FIXED, 10),
        (1, StepRule.FIXED, 50),
        (2, StepRule.DECREASING, 50),
    ):
        ratings, _, nuclear = _signs(60, 32, rank)
        size = frank_wolfe.Regime(60, 32, len(ratings), nuclear, math.sqrt(32), 1.0)
        cells = Pattern.of(ratings)
        *_, found = conditional_gradient(
            *(cells, ratings.values, nuclear),
            rounds=rounds,
            step=rule,
            top_pair=exact_top_pair(cells, np.random.default_rng(0)),
        )
        row = partial(
            _jtt18,
            quantity=_RISK,
            measured=float(np.mean((found.observed - ratings.values) ** 2)) / 2,
            trivial=float(np.mean(ratings.values**2)) / 2,
        )
        setting = f"60 x 32 of rank {rank}, all seen, no noise, {rounds} steps of"
        if rule is StepRule.FIXED:
            yield row(
                theorem="Theorem A.1",
                setting=f"{setting} 1/T",
                bound=frank_wolfe.optimisation(size, rounds),
                printed=frank_wolfe.printed_optimisation(size, rounds),
                note="printed without the start's share, (1 - 1/T)^T, which the printed steps of"
                " 1/T never lose, and with half the curvature",
            )
        else:
            yield row(
                theorem="Theorem A.1, other steps",
                setting=f"{setting} 2/(t + 1)",
                bound=frank_wolfe.optimisation_decreasing(size, rounds),
                note="ours: these steps lose the start's share, and the bound vanishes as T grows",
            )


def _one_row() -> TheoryRow:
    limit, items = 1.5, 6
    public = PublicFacts(users=10, items=items, low=-1, high=1)
    mechanism = PrivateFrankWolfe(
        epsilon=1.0,
        clip=limit / math.sqrt(items),
        residual=2.0,
        item_share=0.0,
        cap=None,
    )
    (gram,) = mechanism.guarantee(public).releases.gram[:1]
    rows = 2 * limit * np.linalg.qr(np.random.default_rng(0).normal(size=(items, items)))[0]
    moved = [np.linalg.norm(np.outer(rows[0], rows[0]) - np.outer(row, row)) for row in rows]
    return _jtt18(
        theorem="Lemma D.1",
        says=Says.PRIVACY,
        quantity="how far the Gram matrix moves with a user's row, in L^2",
        setting="a row of norm 2 L becomes any other, as in Definition 2.1",
        bound=gram.sensitivity[USER_REPLACED] / limit**2,
        printed=4.0,
        measured=float(max(moved)) / limit**2,
        note="printed for a row that becomes empty. The noise of Algorithm 1 is enough all the"
        " same at the epsilons of its experiments, by the exact Gaussian curve",
    )


def _private_risk() -> Found:
    users, items, epsilon = 4000, 20, 2.0
    ratings, matrix, nuclear = _signs(users, items)
    cells, row = users * items, math.sqrt(items)
    size = frank_wolfe.Regime(users, items, cells, nuclear, row, epsilon)
    best = max(1, round(frank_wolfe.best_rounds(size)))
    for rounds in (5, best):
        mechanism = PrivateFrankWolfe(
            epsilon=epsilon,
            delta=size.delta,
            rounds=rounds,
            radius=nuclear / math.sqrt(cells),
            clip=1.0,
            cap=None,
            item_share=0.0,
            residual=2.0,
            slack=1.0,
            calibration=Calibration.PAPER,
            estimator=Estimator.PUBLISHED,
        )
        (gram,) = mechanism.guarantee(ratings.public).releases.gram
        risk = float(np.mean((_matrix(mechanism, ratings) - matrix) ** 2)) / 2
        common = partial(
            _jtt18,
            quantity=_RISK,
            setting=f"{users} x {items} of rank 1, all seen, epsilon {epsilon:g}, {rounds} rounds,"
            " as published",
            measured=risk,
            trivial=0.5,
        )
        yield common(
            theorem="Theorem 3.2",
            bound=frank_wolfe.empirical_risk(size, rounds, gram.scale),
            printed=frank_wolfe.printed_empirical_risk(size, rounds),
            open_constant=True,
            note="printed up to a constant, taken as 1; it rests on Theorem A.1, so with steps of"
            " 1/T and enough users no constant makes it true",
        )
        if rounds == best:
            yield common(
                theorem="Theorem 3.2, best number of rounds",
                bound=frank_wolfe.best_empirical_risk(size),
                open_constant=True,
                note="constants and logarithms left out; with steps of 1/T the risk of no noise"
                " alone stays above",
            )


def _powers() -> Found:
    """The printed powers of m and n, beside those of the paper's own theorems."""

    def price(users: float, items: float) -> float:
        return frank_wolfe.generalisation(frank_wolfe.rank_one(users, items, 1.0))[0]

    users, items, more = 1e12, 1e4, 16.0
    by_items = math.log(price(users, more * items) / price(users, items), more)
    by_users = -math.log(price(more * users, items) / price(users, items), more)
    printed = [
        frank_wolfe.rank_one_errors(*size)[0]
        for size in ((users, more * items), (more * users, items), (users, items))
    ]
    needed = math.log(frank_wolfe.users_needed(items), items)
    row = partial(_jtt18, setting="Corollary 3.1 where sqrt(n) of each row are seen, rank one")
    yield row(
        theorem="Remark 3 and Table 1",
        quantity="power of n that m must grow faster than",
        bound=needed,
        measured=by_items / by_users,
    )
    yield row(
        theorem="Remark 6",
        quantity="power of n that m must grow faster than",
        bound=needed,
        printed=math.log(printed[0] / printed[2]) / math.log(printed[2] / printed[1]),
        measured=by_items / by_users,
        note="printed n^(13/24)/m^(5/12) where Corollary 3.1 gives n^(5/8)/m^(1/2): (m/n)^(1/12)"
        " times as much, true and looser for m >= n",
    )

    def error(users: float, items: float) -> float:
        cells = users * items
        size = frank_wolfe.Regime(users, items, cells, math.sqrt(users), 1.0, 1.0)
        return math.sqrt(cells * frank_wolfe.best_empirical_risk(size))

    for name, grown in (("m", (more * users, items)), ("n", (users, more * items))):
        powers = [
            math.log(f(*grown) / f(users, items), more) for f in (frank_wolfe.low_rank_error, error)
        ]
        yield _jtt18(
            theorem="Table 2, Private Frank-Wolfe",
            quantity=f"power of {name} in ||Y - Y*||_F",
            setting="Theorem 3.2 where all is seen, rank one, rows of norm 1",
            bound=powers[0],
            measured=powers[1],
        )


def _oja() -> Found:
    items, updates, runs = 30, 1000, 20
    values = np.linspace(1.0, 0.0, items)  # eigenvalues of W, which is diagonal
    sigma = 0.5 / math.sqrt(items)
    variance = sigma**2 * items
    for step, words, note in (
        (1 / math.sqrt(variance * updates), "as in the theorem", ""),
        (
            1 / (updates * sigma * math.sqrt(items)),
            "as in Algorithm 2",
            "Algorithm 2 takes steps sqrt(Gamma) times shorter than the theorem is for",
        ),
    ):
        gaps = []
        for seed in range(runs):
            rng = np.random.default_rng(seed)

            def product(v: Floats, rng: np.random.Generator = rng) -> Floats:
                return values * v + sigma * rng.standard_normal(items)

            v = oja(product, items, updates, step, rng)
            gaps.append(1.0 - float(values @ v**2))
        yield _jtt18(
            theorem="Theorem 3.3",
            quantity="how far Oja's vector stays below the top eigenvalue, as a share of it",
            setting=f"{items} even eigenvalues, sigma sqrt(n) half the largest, {updates} steps"
            f" {words}; mean of {runs}",
            bound=frank_wolfe.oja_gap(1.0, variance, updates),
            open_constant=True,
            trivial=1.0,
            note=note,
            **_mean(gaps),
        )


def _svd() -> TheoryRow:
    users, items, epsilon, density = 4000, 20, 2.0, 0.5
    whole, matrix, nuclear = _signs(users, items)
    ratings = whole.select(np.random.default_rng(1).random(len(whole)) < density)
    size = frank_wolfe.Regime(users, items, len(ratings), nuclear, math.sqrt(items), epsilon)
    mechanism = PrivateSvd(
        epsilon=epsilon,
        delta=size.delta,
        rank=1,
        density=density,
        clip=1.0,
        cap=None,
        item_share=0.0,
        calibration=Calibration.PAPER,
        estimator=Estimator.PUBLISHED,
    )
    factors = Factors(matrix[:, :1], matrix[:1].T)
    mu, printed = (frank_wolfe.incoherence(factors, printed=p) for p in (False, True))
    return _jtt18(
        theorem="Theorem B.3",
        quantity="mean squared error of an entry, squared rating points",
        setting=f"{users} x {items} of rank 1, half seen, epsilon {epsilon:g}",
        bound=sum(frank_wolfe.svd_risk(size, 1, mu, 1.0, nuclear)),
        open_constant=True,
        measured=float(np.mean((_matrix(mechanism, ratings) - matrix) ** 2)),
        trivial=float(np.mean(matrix**2)),
        note=f"constants as 1. Definition B.2 makes the incoherence of a flat matrix {printed:.3g},"
        f" which Remark 5 takes for O(1): it lacks squares, with which it is {mu:.3g}",
    )


_PAPERS: dict[str, Callable[[], Iterable[TheoryRow]]] = {
    "LWHM22": _one_bit,
    "Z16": _collection,
    "RYHH24": _implicit,
    "HXZ15": tuple,  # the summary that we have states no theorem
    "JTT18": _frank_wolfe,
}
