"""RYHH24: Ran, Ye, Huang, Hu, "Differentially Private Implicit Matrix Factorization" (2024).

What noise costs (Theorems 4 to 6, Corollary 1). N = sqrt(1/lambda) bounds a profile's norm
(Lemma 1), c the largest |entry| of a fixed factor, d the rank. Losses are sums of squared scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import registry
from dpmc_core.arrays import Bools, Floats
from dpmc_core.mechanisms.dpimf import Dpimf
from dpmc_core.privacy import CELL, USER_REPLACED, Additive
from dpmc_core.privacy.sampled import SampledLaplace, amplified_losses
from dpmc_core.ratings import PublicFacts
from dpmc_core.solvers.factorization import (
    ImplicitLoss,
    PenalisedCells,
    binary_matrix,
    solve_implicit_rows,
)
from tests.ratings_helpers import clicks
from tests.theory import make_row, summarise_mean

# --- bounds ------------------------------------------------------------------------------------


class Scales(NamedTuple):
    """Laplace scales of a profile's loss: of each number of A1 (2 sum p) and A2 (sum pp'), and of
    the ridge's count. 0: no noise; infinite: no budget."""

    first: float
    second: float = 0.0
    ridge: float = 0.0


def loss_change(
    alpha: float,
    positives: int,
    regularisation: float,
    rank: int,
    largest: float,
    *,
    printed: bool = False,
) -> float:
    """Theorem 4, repaired: what minimising the complementary loss L costs in iALS's own loss L^O.

    L^O(q*) - L^O(q') <= alpha |U_i| N^2 (lambda + d c^2) for the minimisers q* of L, q' of L^O.
    For L^O - L = alpha (sum_{U_i} (p'q)^2 + lambda |U_i| ||q||^2), at most that for ||q|| <= N, and
    L(q*) <= L(q') <= L^O(q'). Printed (Eq. 24) is alpha |U_i| N^2 (lambda + 2 d c^2), for
    L(q*) - L^O(q'), which the same lines show never to be positive; its proof sets
    q*'Wq* - q''Wq' to (q* - q')'W(q* - q') and ||q* - q'||^2 to at most 2 N^2 (it is 4 N^2).
    """
    squares = (2 if printed else 1) * rank * largest**2
    return alpha * positives / regularisation * (regularisation + squares)


def laplace_norm(numbers: int, scale: float) -> float:
    """Lemma 2: ||x||_2 of that many Laplace numbers is sqrt(2 numbers) scale at most, on average.

    E||x||_2^2 = 2 d (Delta/eps)^2; our copy of the paper has Delta under the root.
    """
    return math.sqrt(2 * numbers) * scale


class BudgetSplit(NamedTuple):
    """How the complementary loss spends its budget: alpha, the shares of the first order and of the
    second moment (the ridge has the rest), and whether the noise of the second is symmetric."""

    alpha: float
    beta1: float
    beta2: float
    symmetric: bool = False

    def entries(self, rank: int) -> float:
        """Of the second moment that are noised: d^2, or d (d + 1)/2."""
        return rank * (rank + 1) / 2 if self.symmetric else rank**2


def scales(epsilon: float, rank: int, largest: float, split: BudgetSplit | None = None) -> Scales:
    """Eq. 15 to 18: 2 c d/(beta1 eps), (1 - alpha) c^2 d^2/(beta2 eps) and (1 - alpha)/(beta3 eps).

    split: None for the strawman, Eq. 9: one Delta = c^2 d^2 + 2 c d + 1 for all, at all of the
    budget.
    """
    if split is None:
        scale = ((largest * rank) ** 2 + 2 * largest * rank + 1) / epsilon
        return Scales(scale, scale, scale)
    alpha, beta1, beta2, _ = split
    first, beta3 = 2 * largest * rank / (beta1 * epsilon), 1 - beta1 - beta2
    if alpha == 1:
        return Scales(first)
    second = (1 - alpha) * split.entries(rank) * largest**2
    return Scales(
        first,
        second / (beta2 * epsilon) if beta2 else math.inf,
        (1 - alpha) / (beta3 * epsilon) if beta3 > 1e-9 else math.inf,
    )


def excess_loss(scales: Scales, rank: int, regularisation: float, sampled: float = 0.0) -> float:
    """Theorem 5, repaired: how much more a profile solved with noise loses on average.

    N^2 E||B||_F + N (E||b||_2 + E||s||_2) + lambda N^2 E|eta|: the noisy minimiser may follow B, b,
    eta and what a sample adds to A1, s; the true one cannot, and all have mean zero. sampled: a
    bound on E||s||_2 (`sampling_norm`). Equations 25 to 28 count b twice, which is true but loose;
    25 to 27 leave out the ridge's noise eta, 28 leaves out s, which is not.
    """
    n = math.sqrt(1 / regularisation)
    matrix = n**2 * laplace_norm(rank**2, scales.second)
    return matrix + n * (laplace_norm(rank, scales.first) + sampled) + scales.ridge


def sampling_norm(lengths: Floats, weights: Floats) -> float:
    """At most E||s||_2, s = sum (g w - 1) t over terms t drawn by coins g of chance 1/w.

    The root of sum (w - 1) ||t||_2^2. lengths: ||t||_2; weights: w, finite.
    """
    return math.sqrt(float(np.sum((weights - 1) * lengths**2)))


def printed_excess_loss(
    epsilon: float,
    rank: int,
    regularisation: float,
    largest: float,
    split: BudgetSplit | None = None,
) -> float:
    """Theorem 5, Eq. 26 and 27 (symmetric), with one c dropped and without the ridge.

    sqrt(2) c d N (N d^2 (1 - alpha)/beta2 + 4 sqrt(d)/beta1)/eps, or d (d + 1)/2 for d^2. Factors s
    times as long with s^2 times the lambda give the same losses, by scores alone, and here another
    first term: only c^2 N^2 stays the same. At alpha = beta1 = 1 it is Eq. 28, 4 sqrt(2 d) c d
    N/eps. That is true where all cells count; with importance sampling, for which it is stated as
    we read it, the profile minimises the loss of a sample, and what that costs does not vanish as
    epsilon grows.

    split: None for the strawman, Eq. 25: sqrt(2) c d N (N + 2/sqrt d) (d + 1)^2/eps. It drops one
    c of c^2 d^2, takes 1/c for at most 1 and leaves the ridge's noise out.
    """
    n, d, c = math.sqrt(1 / regularisation), rank, largest
    if split is None:
        terms = (n + 2 / math.sqrt(d)) * (d + 1) ** 2
    else:
        alpha, beta1, beta2, _ = split
        second = n * split.entries(d) * (1 - alpha) / beta2 if alpha < 1 else 0.0
        terms = second + 4 * math.sqrt(d) / beta1
    return math.sqrt(2) * c * d * n * terms / epsilon


def complementary_wins(split: BudgetSplit, rank: int, *, printed: bool = False) -> bool:
    """Whether the complementary loss's printed bound is below the strawman's for every N > 0.

    Comparing Eq. 25 and 26 term by term: (1 - alpha) d^2 <= beta2 (d + 1)^2 and
    (d + 1)^2 >= 2 d/beta1. printed: Corollary 1 as it stands, alpha >= 1 - beta2 and
    d >= sqrt(1/beta1) - 1, which loses the factor 2 d of the first order and is too weak: at d = 4,
    lambda = 1, alpha = 0.8, beta = (0.1, 0.8, 0.1) the strawman's bound is the smaller one.
    """
    alpha, beta1, beta2, _ = split
    if printed:
        return alpha >= 1 - beta2 and rank >= math.sqrt(1 / beta1) - 1
    second = (1 - alpha) * rank**2 <= beta2 * (rank + 1) ** 2
    return second and (rank + 1) ** 2 >= 2 * rank / beta1


def unique_weight_exists(loss: float, epsilon: float) -> bool:
    """Theorem 6 for the loss a w of a term counted w times: a largest weight w >= 1 for a <= eps.

    (e^{a w} - 1)/w grows in w from e^a - 1, so it meets e^eps - 1 once, at w >= 1 where a <= eps.
    The printed condition, a constant epsilon > ln(1 + w (e^eps' - 1)) for all w from some v on,
    holds nowhere: the right side has no limit. With phi(w) = a w for that constant it does.
    """
    return 0 < loss <= epsilon


# --- beside what is measured: one item, fixed factors of 60 users, solved 600 times --------------

_USERS, _SOLVES = 60, 600
_SPLITS = {
    "complementary": BudgetSplit(0.8, 0.5, 0.4),
    "symmetric": BudgetSplit(0.8, 0.5, 0.4, symmetric=True),
    "optimal": BudgetSplit(1.0, 1.0, 0.0),
    "sampled": BudgetSplit(1.0, 1.0, 0.0),
}
_EQUATIONS = {"strawman": 25, "complementary": 26, "symmetric": 27, "optimal": 28}


@dataclass(frozen=True, kw_only=True)
class _Item:
    """A profile's problem: the largest entry of a factor, c, the ridge, lambda, and the budget."""

    rank: int = 4
    largest: float = 0.3
    regularisation: float = 0.05
    epsilon: float = 1.0

    def mechanism(self, variant: str) -> Dpimf:
        id, split = f"dpimf-{variant}", {"alpha": 0.8, "beta1": 0.5, "beta2": 0.4, "beta3": 0.1}
        mechanism = registry.create(
            id,
            epsilon=self.epsilon,
            rank=self.rank,
            regularisation=self.regularisation,
            rounds=1,
            clip=self.rank * self.largest,
            clip_l2=math.sqrt(self.rank) * self.largest,
            **{
                n: v
                for n, v in split.items()
                if registry.has_setting(registry.get_mechanism(id), n)
            },
        )
        assert isinstance(mechanism, Dpimf)
        return mechanism

    def scales(self, variant: str) -> Scales:
        """Of the noise, by the paper's sensitivities at the worst factor."""
        return scales(self.epsilon, self.rank, self.largest, _SPLITS.get(variant))

    def draw_users(self, rng: np.random.Generator) -> tuple[Floats, Bools]:
        """The users' factors, and who chose the item."""
        factors = rng.uniform(-self.largest, self.largest, (_USERS, self.rank))
        return factors, rng.random(_USERS) < 0.4

    def sampled(self) -> float:
        """How long a vector the sampled variant's sample adds to A1, on average, at most."""
        factors, chosen = self.draw_users(np.random.default_rng(2))
        first, terms = self.mechanism("sampled").build_releases(_SOLVES).first, 2 * factors[chosen]
        assert isinstance(first, SampledLaplace)
        weights = first.weights(np.abs(terms).sum(axis=1))
        return sampling_norm(np.linalg.norm(terms, axis=1), weights)

    def excess(self, variant: str) -> Floats:
        """How much more than the least possible each noisy profile loses."""
        rng, mechanism = np.random.default_rng(2), self.mechanism(variant)
        factors, chosen = self.draw_users(rng)
        columns = _column(chosen, _SOLVES)
        profiles = mechanism.solve_private_profiles(
            columns, factors, mechanism.build_releases(_SOLVES), rng
        )
        best = solve_implicit_rows(columns[:1], factors, mechanism.loss)
        values = _losses(mechanism.loss, chosen, factors, np.vstack((best, profiles)))
        excess: Floats = values[1:] - values[0]
        return excess

    def row(self, name: str, variant: str):
        """Theorem 5 beside the excess loss of a variant."""
        sampled = self.sampled() if variant == "sampled" else 0.0
        size = self.epsilon, self.rank, self.regularisation, self.largest
        return make_row(
            name,
            bound=excess_loss(self.scales(variant), self.rank, self.regularisation, sampled),
            printed=printed_excess_loss(*size, _SPLITS.get(variant)),
            **summarise_mean(self.excess(variant)),
        )


def _column(chosen: Bools, times: int = 1) -> Any:
    """Items that the same users chose, as rows of ones."""
    return binary_matrix(clicks(np.repeat(chosen[:, None], times, axis=1))).T.tocsr()


def _losses(loss: ImplicitLoss, chosen: Bools, factors: Floats, profiles: Floats) -> Floats:
    """The loss of each profile of an item that these users chose."""
    scores = profiles @ factors.T
    pull = np.ones(len(chosen)) if loss.penalised_cells is PenalisedCells.ALL else ~chosen
    ridge = loss.ridge(np.array([chosen.sum()]), len(chosen))[0]
    losses: Floats = ((scores[:, chosen] - 1) ** 2).sum(axis=1)
    losses += loss.alpha * (scores**2 @ pull) + ridge * (profiles**2).sum(axis=1)
    return losses


@cache
def theorems():
    """Each statement beside a measurement, the same every time."""
    default = _Item()
    short: dict[str, Any] = {"rank": 1, "largest": 0.001, "regularisation": 1.0}
    cases = (
        *(("excess", default, variant) for variant in tuple(_EQUATIONS)[:3]),
        ("excess, twice", default, "optimal"),
        ("excess, short strawman", _Item(**short, epsilon=0.01), "strawman"),
        ("excess, long", _Item(largest=100.0), "strawman"),
        ("excess, short", _Item(**short, epsilon=0.1), "complementary"),
        ("excess, short", _Item(**short | {"rank": 2}, epsilon=0.1), "symmetric"),
        ("excess, long", _Item(rank=1, largest=1000.0, epsilon=0.01), "complementary"),
        ("excess, sampled", _Item(epsilon=300.0), "sampled"),
    )
    return (
        *_privacy(default),
        *_complementary_loss(),
        *_variant_noise(default),
        *(item.row(name, variant) for name, item, variant in cases),
        *_corollary(default),
        _one_weight(0.1, 1.0),
    )


def _privacy(item: _Item):
    """Of a term that is drawn, of one cell of one solve, and of the neighbours of section II-B."""
    loss, weight, x = 0.3, 4.0, np.linspace(-9, 9, 1801)
    ratio = 1 + np.expm1(np.abs(x) - np.abs(x - loss * weight)) / weight
    bound = float(amplified_losses(loss, weight))
    yield make_row("drawn term", bound=bound, measured=float(np.abs(np.log(ratio)).max()))
    factor, residual, items = np.full(item.rank, item.largest), 0.2, 3
    sensitivities = 2 * factor.sum(), residual * np.outer(factor, factor).sum(), residual
    cell_loss = float(np.sum(np.divide(sensitivities, item.scales("complementary"))))
    public = PublicFacts(users=_USERS, items=items, low=0, high=1)
    guarantee = item.mechanism("complementary").guarantee(public)
    for name, change, cells in (("cell", CELL, 1), ("row", USER_REPLACED, items)):
        bound = guarantee.certified(change).epsilon
        yield make_row(name, bound=bound, printed=item.epsilon, measured=cells * cell_loss)


def _complementary_loss():
    rng, alpha, ridge, rank = np.random.default_rng(1), 0.2, 0.1, 3
    factors, chosen = rng.uniform(-0.5, 0.5, (_USERS, rank)), rng.random(_USERS) < 0.4
    original_loss, changed_loss = (
        ImplicitLoss(alpha, ridge, penalised) for penalised in PenalisedCells
    )
    profiles = np.vstack(
        [
            solve_implicit_rows(_column(chosen), factors, loss)
            for loss in (original_loss, changed_loss)
        ]
    )
    for loss, profile in zip((original_loss, changed_loss), profiles, strict=True):
        weight = float(loss.ridge(np.array([chosen.sum()]), _USERS)[0])
        norms = {"bound": math.sqrt(chosen.sum() / weight), "printed": math.sqrt(1 / ridge)}
        yield make_row("profile", **norms, measured=float(np.linalg.norm(profile)))
    size = alpha, int(chosen.sum()), ridge, rank, float(np.abs(factors).max())
    original = _losses(original_loss, chosen, factors, profiles)
    least_loss = float(_losses(changed_loss, chosen, factors, profiles[1:])[0])
    printed = loss_change(*size, printed=True)
    cost, saved = float(original[1] - original[0]), least_loss - float(original[0])
    yield make_row("loss", bound=loss_change(*size), printed=printed, measured=cost)
    yield make_row("loss as stated", bound=0.0, printed=printed, measured=saved)


def _variant_noise(item: _Item):
    """Each release's noise beside what the paper's sensitivities say of it."""
    rng, draws = np.random.default_rng(3), 20_000
    for variant in _EQUATIONS:
        scales = item.scales(variant)._asdict()
        for name, release in item.mechanism(variant).build_releases(1):
            assert isinstance(release, Additive)
            yield make_row(
                "noise of the strawman" if variant == "strawman" else "noise",
                bound=2 * scales[name] ** 2,
                **summarise_mean(release.sample(draws, rng) ** 2),
            )
    first = item.mechanism("optimal").build_releases(1).first
    lengths = np.linalg.norm(first.sample(draws * item.rank, rng).reshape(draws, -1), axis=1)
    bound = laplace_norm(item.rank, first.scale)
    yield make_row("length of the noise", bound=bound, **summarise_mean(lengths))


def _corollary(default: _Item):
    split, ranks = BudgetSplit(0.8, 0.1, 0.8), range(1, 41)

    def is_below(rank: int) -> bool:
        """Whether Eq. 26 is below Eq. 25 for N from 1e-4 to 1e4."""
        sizes = ((1.0, rank, ridge, 0.3) for ridge in np.geomspace(1e-8, 1e8, 33))
        return all(
            printed_excess_loss(*size, split) <= printed_excess_loss(*size) for size in sizes
        )

    yield make_row(
        "corollary",
        bound=next(d for d in ranks if complementary_wins(split, d)),
        printed=next(d for d in ranks if complementary_wins(split, d, printed=True)),
        measured=next(d for d in ranks if is_below(d)),
    )
    losses = {variant: float(default.excess(variant).mean()) for variant in _EQUATIONS}
    for before, after in pairwise(losses):
        ratio = losses[after] / losses[before]
        yield make_row("corollary in practice", bound=1.0, measured=ratio)


def _one_weight(loss: float, epsilon: float):
    weights = np.geomspace(1.0, 1e6, 100_001)
    above = amplified_losses(loss, weights) > epsilon
    bound = float(unique_weight_exists(loss, epsilon))
    return make_row("one weight", bound=bound, measured=float(np.count_nonzero(np.diff(above))))
