"""JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018).

Its theorems are functions of epsilon, users, items and rounds. The constants and logarithms that
their O() and O~() hide are left out: shapes and crossings mean something, heights do not. Only
`optimisation`, `optimisation_decreasing` and `empirical_risk` have numbers for them. Errors are
mean squared errors of one entry, in squared rating points; the empirical risk is half of that on
the seen entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from dpmc_core.arrays import Floats
from dpmc_core.mechanisms.frank_wolfe import (
    PrivateFrankWolfe,
    PrivateSvd,
    StepRule,
    build_exact_top_pair,
    iterate_frank_wolfe,
    run_oja,
)
from dpmc_core.model import Estimator, Factors
from dpmc_core.privacy import USER_REPLACED, Calibration
from dpmc_core.privacy.accounting import gaussian_epsilon
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.linalg import Pattern
from tests.theory import make_row, predict_end, summarise_mean

_PRINTED: dict[str, Any] = {
    "clip": 1.0,
    "cap": None,
    "item_share": 0.0,
    "calibration": Calibration.PAPER,
    "estimator": Estimator.PUBLISHED,
}


class Regime(NamedTuple):
    """What the bounds depend on.

    users m, items n, seen |Omega|, nuclear-norm bound k, bound L on the l2 norm of a row's seen
    part (rating points for both), epsilon, delta.
    """

    users: float
    items: float
    seen: float
    nuclear: float
    row: float
    epsilon: float
    delta: float = 1e-6


def rank_one(users: float, items: float, epsilon: float, delta: float = 1e-6) -> Regime:
    """Remarks 1, 3, 5: entries of size one, sqrt(n) of each row seen, k = sqrt(m n), L = n^1/4."""
    seen, nuclear = users * math.sqrt(items), math.sqrt(users * items)
    return Regime(users, items, seen, nuclear, math.pow(items, 0.25), epsilon, delta)


def best_empirical_risk(s: Regime) -> float:
    """Theorem 3.2 at its best number of rounds: k^(6/5) n^(1/5) L^(4/5) / (|Omega| eps^(2/5))."""
    top = math.pow(s.nuclear, 1.2) * math.pow(s.items, 0.2) * math.pow(s.row, 0.8)
    return top / (s.seen * math.pow(s.epsilon, 0.4))


def price_of_privacy(s: Regime) -> float:
    """Corollary 3.1: what privacy adds to the error of completion."""
    top = math.pow(s.nuclear, 4 / 3) * s.row * math.pow(s.items, 0.25)
    both = math.pow(s.users + s.items, 1 / 6)
    return top / math.sqrt(s.epsilon * math.pow(s.seen, 13 / 6) * both)


def growth(bound: Callable[[float, float], float]) -> tuple[float, float]:
    """The powers of the users and of the items that a bound of both grows with."""
    users, items, more = 1e12, 1e4, 16.0
    grown = bound(more * users, items), bound(users, more * items)
    of_users, of_items = (math.log(value / bound(users, items), more) for value in grown)
    return of_users, of_items


def users_needed() -> float:
    """Remark 3 and Table 1: the power of n that m must outgrow for the error to vanish."""
    of_users, of_items = growth(lambda m, n: price_of_privacy(rank_one(m, n, 1.0)))
    return -of_items / of_users


def low_rank_error(users: float, items: float) -> float:
    """Table 2: ||Y - Y*||_F where all is seen and rows have norm 1."""
    size = Regime(users, items, users * items, math.sqrt(users), 1.0, 1.0)
    return math.sqrt(users * items * best_empirical_risk(size))


def printed_optimisation(s: Regime, rounds: float, slack: float = 0.0) -> float:
    """Theorem A.1: Frank-Wolfe's excess empirical risk is at most k^2/(|Omega| T) + the slack.

    False with the paper's steps of 1/T. Its proof drops (1 - 1/T)^T h(Y0), about h(Y0)/e, the
    weight at which the start stays, and takes the curvature for 2 k^2/|Omega|, half its bound.
    Where Y* has rank one and nuclear norm k, and all is seen, the excess is (1 - 1/T)^(2T) k^2/
    (2 |Omega|), more than is printed from T = 16 on, whatever k.
    """
    return s.nuclear**2 / (s.seen * rounds) + slack


def optimisation(s: Regime, rounds: float, slack: float = 0.0) -> float:
    """Theorem A.1, repaired for steps of 1/T from zero, where ||Y*||_nuc <= k.

    (k^2/|Omega|) (w/2 + 2 (1 - w)/T) + slack with w = (1 - 1/T)^T: the start's excess is at most
    k^2/(2 |Omega|), the curvature 4 k^2/|Omega|.
    """
    remaining = math.pow(1 - 1 / rounds, rounds)
    return (
        s.nuclear**2 / s.seen * (remaining / 2 + 2 * (1 - remaining) / rounds)
        + (1 - remaining) * slack
    )


def optimisation_decreasing(s: Regime, rounds: float, slack: float = 0.0) -> float:
    """The same for steps of 2/(t + 1): 8 k^2/(|Omega| (T + 2)) + slack, which does vanish.

    Jaggi, "Revisiting Frank-Wolfe" (2013), Theorem 1. h_t <= (1 - g) h_{t-1} + g^2 C/2 + g slack
    with g = 2/(t + 1) keeps h_t below 2 C/(t + 2) + slack, C = 4 k^2/|Omega|.
    """
    return 8 * s.nuclear**2 / (s.seen * (rounds + 2)) + slack


def printed_empirical_risk(s: Regime, rounds: float) -> float:
    """Theorem 3.2: optimisation error plus the price of privacy after `rounds` rounds.

    k^2/(|Omega| T) + k T^(1/4) L sqrt(sqrt(n log(1/delta)) log n)/(|Omega| sqrt(eps)), with one for
    the constant of its O(). It rests on Theorem A.1, and no constant makes it true for steps of
    1/T: where Y* is all ones and all seen, k = sqrt(m n), what is found has a nuclear norm of
    (1 - w) k at most, w = (1 - 1/T)^T, with the chance of `empirical_risk`. So the risk is w^2/2 or
    more, above 0.06 from T = 16 on, while with m growing, then T, what is printed vanishes. With
    the steps of `optimisation_decreasing` it does hold up to a constant.
    """
    noise = math.sqrt(math.sqrt(s.items * math.log(1 / s.delta)) * math.log(s.items))
    return printed_optimisation(s, rounds) + s.nuclear * math.pow(rounds, 0.25) * s.row * noise / (
        s.seen * math.sqrt(s.epsilon)
    )


def empirical_risk(s: Regime, rounds: int, scale: float) -> float:
    """Theorem 3.2 with constants, for steps of 1/T: holds with chance 2/3.

    scale: sigma of the Gaussian noise on a round's Gram matrix, which is averaged with its
    transpose. Its norm stays below e = sigma (sqrt(2 n) + sqrt(2 ln(6 T))) in all rounds, and a
    vector found in it, with the paper's addition a = sqrt(sigma ln(3 n)) n^(1/4) to the top
    singular value, has slack (k/|Omega|) (sqrt(e) + a): Lemma D.4 with numbers. It needs a^2 >= e,
    so that a step stays in the nuclear ball: true from 10 items on, for up to 1000 rounds.
    """
    norm = scale * (math.sqrt(2 * s.items) + math.sqrt(2 * math.log(6 * rounds)))
    added = math.sqrt(scale * math.log(3 * s.items)) * math.pow(s.items, 0.25)
    slack = s.nuclear / s.seen * (math.sqrt(norm) + added)
    return optimisation(s, rounds, slack)


def best_rounds(s: Regime) -> float:
    """Theorem 3.2: T = k^(4/5) eps^(2/5) / (n^(1/5) L^(4/5))."""
    top = math.pow(s.nuclear, 0.8) * math.pow(s.epsilon, 0.4)
    return top / (math.pow(s.items, 0.2) * math.pow(s.row, 0.8))


def oja_gap(top: float, variance: float, updates: float) -> float:
    """Theorem 3.3: how far the Rayleigh quotient of Oja's vector stays below the top eigenvalue.

    sqrt(V/Gamma) + ||W||/Gamma, V = sigma^2 n for the private method and one for the constant. For
    steps of 1/sqrt(V Gamma), as the theorem has them; Algorithm 2 takes 1/(Gamma sigma sqrt(n)):
    all its steps together grow the leading direction e^(||W||/(sigma sqrt(n))) times, however many
    there are, and the gap stays.
    """
    return math.sqrt(variance / updates) + top / updates


def svd_risk(s: Regime, incoherence: float, spectral: float) -> float:
    """Theorem B.3 for rank and condition 1, with one for the constants: privacy + completion.

    L^4 m^3 n^4 Delta^2/(|Omega|^4 ||Y*||_2^2) with Delta^2 = 64 log(1/delta)/eps^2, and
    mu ||Y*||_2^2 log m/(n |Omega|). spectral: ||Y*||_2. Stated for the empirical risk, proved for
    the mean squared error of all entries.
    """
    noise_variance = 64 * math.log(1 / s.delta) / s.epsilon**2
    cells = s.users**3 * s.items**4
    private = s.row**4 * cells * noise_variance / (s.seen**4 * spectral**2)
    return private + incoherence * spectral**2 * math.log(s.users) / (s.items * s.seen)


def incoherence(matrix: Factors, *, printed: bool = False) -> float:
    """Definition B.2, repaired: max(m/r max ||U U' e_i||^2, n/r max ||V V' f_j||^2) of a rank-r
    matrix, from 1 (flat) to max(m, n)/r (spiked).

    printed: without the squares, which makes it sqrt(m) for the flat rank-one matrix of Remark 5,
    where it is taken for O(1); Lemma B.4 uses it with them.
    """
    power, values = 1 if printed else 2, []
    for factor in (matrix.left, matrix.right):
        longest = float(np.linalg.norm(np.linalg.qr(factor)[0], axis=1).max())
        values.append(len(factor) / factor.shape[1] * longest**power)
    return float(max(values))


def printed_low_rank_error(users: float, items: float) -> float:
    """Table 2, Private Frank-Wolfe: ||Y - Y*||_F ~ m^(3/10) n^(1/10), all seen, rows of norm 1."""
    return math.pow(users, 0.3) * math.pow(items, 0.1)


def low_rank_svd_error(
    users: float, items: float, incoherence: float, *, printed: bool = True
) -> float:
    """Table 2, Private SVD: ||Y - Y*||_F ~ sqrt(mu (n^2/m + m/n)), all seen, rows of norm 1.

    printed=False: sqrt(n/m + mu m/n), which Theorem B.3's first form gives there for rank one; it
    is never larger. The second form has min(n, mu^2 n^2/m) in place of n/m, and the printed row
    does not follow from it: at m = n^(3/2) and mu = n^(1/4) that is n, and the row's square is
    2 n^(3/4).
    """
    ratio = users / items
    squared = incoherence * (items / ratio + ratio) if printed else 1 / ratio + incoherence * ratio
    return math.sqrt(squared)


def rank_one_error(users: float, items: float) -> float:
    """Remark 6: n^(13/24)/m^(5/12) for incoherent data, as printed.

    The paper's own Corollary 3.1 gives n^(5/8)/m^(1/2) in the same setting (`price_of_privacy`) and
    with it Remark 3's m > n^(5/4). What is printed is (m/n)^(1/12) times that: no contradiction
    while m >= n, as the paper assumes, only looser, and it would need m > n^(13/10).
    """
    return math.pow(items, 13 / 24) / math.pow(users, 5 / 12)


def printed_users_needed(items: float) -> float:
    """Remark 3 and Table 1: the error vanishes once m grows faster than n^(5/4)."""
    return math.pow(items, 1.25)


# --- beside what is measured: sign matrices of rank one or two, rows of mean zero ----------------


@cache
def theorems():
    """Each statement beside a measurement, the same every time."""
    first = (*_optimisation(), *_one_row(), *_private_risk(), *_powers(), *_oja())
    return (*first, _svd(), _sampled_risk())


def _signs(users: int, items: int, rank: int = 1) -> tuple[Ratings, Floats, float]:
    """Ratings that are all of a matrix of mean zero by row, that matrix, its nuclear norm."""
    rng = np.random.default_rng(0)
    left = rng.choice([-1.0, 1.0], (users, rank))
    halves = (np.repeat([1.0, -1.0], items // 2**k) for k in range(1, rank + 1))
    matrix = left @ np.array([np.resize(half, items) for half in halves]) / rank
    public = PublicFacts(users=users, items=items, low=-1, high=1)
    u, i = np.nonzero(matrix + 2)
    ratings = Ratings.build(u, i, matrix.ravel(), public)
    return ratings, matrix, float(np.linalg.norm(matrix, "nuc"))


def _optimisation():
    # After 20 decreasing steps: by 50, singular values of what remains have come so close to each
    # other that rounding, which differs between processors, decides which vector comes next.
    for rank, rule, rounds in (
        (1, StepRule.FIXED, 10),
        (1, StepRule.FIXED, 50),
        (2, StepRule.DECREASING, 20),
    ):
        ratings, _, nuclear = _signs(60, 32, rank)
        size = Regime(60, 32, len(ratings), nuclear, math.sqrt(32), 1.0)
        cells, fixed = Pattern.from_ratings(ratings), rule is StepRule.FIXED
        *_, step = iterate_frank_wolfe(
            *(cells, ratings.values, nuclear),
            rounds=rounds,
            step=rule,
            top_pair=build_exact_top_pair(ratings.public.items, np.random.default_rng(0)),
        )
        yield make_row(
            "steps of 1/T" if fixed else "other steps",
            bound=(optimisation if fixed else optimisation_decreasing)(size, rounds),
            printed=printed_optimisation(size, rounds) if fixed else None,
            measured=step.squared_norms[1] / len(ratings) / 2,
            trivial=float(np.mean(ratings.values**2)) / 2,
        )


def _one_row():
    limit, items = 1.5, 6
    public = PublicFacts(users=10, items=items, low=-1, high=1)
    settings = _PRINTED | {"epsilon": 1.0, "clip": limit / math.sqrt(items)}
    walk = PrivateFrankWolfe(residual=2.0, rounds=10, **settings).guarantee(public)
    svd = PrivateSvd(rank=1, density=0.5, **settings).guarantee(public)
    # what a row of norm L that becomes another one moves, in L^2; those of Algorithm 1 have 2 L
    first, *other_rows = np.linalg.qr(np.random.default_rng(0).normal(size=(items, items)))[0]
    distance = float(
        max(np.linalg.norm(np.outer(first, first) - np.outer(b, b)) for b in other_rows)
    )
    (gram,) = walk.releases.gram
    bound = gram.sensitivity[USER_REPLACED] / limit**2
    yield make_row("one row", bound=bound, printed=4.0, measured=4 * distance)
    for name, guarantee, rounds, square in (("joint", walk, 10, 4), ("joint SVD", svd, 1, 1)):
        scale = math.sqrt(64 * rounds * math.log(1e6))  # of the noise in L^2, as printed
        epsilon = gaussian_epsilon(math.sqrt(rounds) * square * distance / scale, 1e-6)
        bound = guarantee.certified(USER_REPLACED).epsilon
        yield make_row(name, bound=bound, printed=1.0, measured=epsilon)


def _private_risk():
    users, items, epsilon = 4000, 20, 2.0
    ratings, matrix, nuclear = _signs(users, items)
    cells = users * items
    size = Regime(users, items, cells, nuclear, math.sqrt(items), epsilon)
    best = max(1, round(best_rounds(size)))
    for rounds in (5, best):
        mechanism = PrivateFrankWolfe(
            epsilon=epsilon,
            delta=size.delta,
            rounds=rounds,
            radius=nuclear / math.sqrt(cells),
            residual=2.0,
            slack=1.0,
            **_PRINTED,
        )
        (gram,) = mechanism.guarantee(ratings.public).releases.gram
        risk = float(np.mean((predict_end(mechanism, ratings) - matrix) ** 2)) / 2
        measurements = {"measured": risk, "trivial": 0.5}
        printed = printed_empirical_risk(size, rounds)
        yield make_row(
            "risk", bound=empirical_risk(size, rounds, gram.scale), printed=printed, **measurements
        )
        if rounds == best:
            yield make_row("best rounds", bound=best_empirical_risk(size), **measurements)


def _powers():
    """The printed powers of m and n, beside those of the paper's own theorems."""
    items = 1e4
    of_users, of_items = growth(rank_one_error)
    bound = math.log(printed_users_needed(items), items)
    measurements = {"bound": bound, "measured": users_needed()}
    yield make_row("users needed", **measurements)
    yield make_row("users needed as printed", printed=-of_items / of_users, **measurements)
    for bound, measured in zip(growth(printed_low_rank_error), growth(low_rank_error), strict=True):
        yield make_row("low rank", bound=bound, measured=measured)
    errors = (low_rank_svd_error(1e6, 1e4, 4.0, printed=printed) for printed in (True, False))
    yield make_row(
        "low rank SVD", trivial=1e3, **dict(zip(("bound", "measured"), errors, strict=True))
    )


def _oja():
    items, updates, runs = 30, 1000, 20
    values = np.linspace(1.0, 0.0, items)  # eigenvalues of W, which is diagonal
    sigma = 0.5 / math.sqrt(items)
    variance = sigma**2 * items
    for name, step in (
        ("Oja", 1 / math.sqrt(variance * updates)),
        ("Oja as printed", 1 / (updates * sigma * math.sqrt(items))),
    ):
        gaps = []
        for seed in range(runs):
            rng = np.random.default_rng(seed)

            def product(v: Floats, rng: np.random.Generator = rng) -> Floats:
                return values * v + sigma * rng.standard_normal(items)

            v = run_oja(product, items, updates, step, rng)
            gaps.append(1.0 - float(values @ v**2))
        yield make_row(
            name, bound=oja_gap(1.0, variance, updates), trivial=1.0, **summarise_mean(gaps)
        )


def _svd():
    users, items, epsilon, density = 4000, 20, 2.0, 0.5
    full, matrix, nuclear = _signs(users, items)
    ratings = full.select(np.random.default_rng(1).random(len(full)) < density)
    size = Regime(users, items, len(ratings), nuclear, math.sqrt(items), epsilon)
    mechanism = PrivateSvd(epsilon=epsilon, delta=size.delta, rank=1, density=density, **_PRINTED)
    factors = Factors(matrix[:, :1], matrix[:1].T)
    return make_row(
        "SVD",
        bound=svd_risk(size, incoherence(factors), nuclear),
        measured=float(np.mean((predict_end(mechanism, ratings) - matrix) ** 2)),
        trivial=float(np.mean(matrix**2)),
    )


def _sampled_risk():
    """Of the rank-one matrix of signs after the leading singular vectors of what is seen."""
    shape, gaps = (60, 32), []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        hidden, observed = rng.choice([-1.0, 1.0], shape), rng.random(shape) < 0.5
        u, _, vt = np.linalg.svd(np.where(observed, hidden, 0.0))
        risks = (np.sign(np.outer(u[:, 0], vt[0])) - hidden) ** 2 / 2
        gaps.append(abs(float(risks.mean() - risks[observed].mean())))
    bound = math.sqrt(2 * sum(shape) / math.prod(shape))
    return make_row("sampled risk", bound=bound, trivial=2.0, **summarise_mean(gaps))
