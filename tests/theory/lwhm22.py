"""LWHM22: Li, Wei, Huang, Mao, Wang, "One-Bit Matrix Completion with Differential Privacy" (2022).

Theorems 1, 2 and 4 say two things each: that an algorithm is epsilon-DP, and how large the mean
squared error ||M^ - M||_F^2/(d1 d2) of a score may be; Theorem 3 is about privacy alone. Their
constants C1 to C6 are left open; ours are numbers.

M is d1 x d2 with ||M||_* <= tau = alpha sqrt(r d1 d2) and |M_ij| <= alpha; n signs are seen, +1
with chance c(M_ij), c = h (1 - p) + (1 - h) p for a link h and flips of chance p. Theirs rests on
Davenport, Plan, van den Berg, Wootters, "1-Bit Matrix Completion" (2014), and ours on

    n D <= sup over X of (E L - L)(X) + <H, M - M^>,   d_H^2 <= D,   error <= (pi^2/2) beta d_H^2,

with D the mean Kullback-Leibler divergence of the signs at M^ from those at M.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import links, registry
from dpmc_core.arrays import Floats
from dpmc_core.links import LOGISTIC, Link, Probit
from dpmc_core.mechanisms.one_bit import Gradient, InputFlip, Objective, Output, OutputBound
from dpmc_core.model import Estimator, Mechanism
from dpmc_core.privacy import Calibration
from dpmc_core.privacy.channels import flip_probability
from dpmc_core.ratings import Ratings
from dpmc_core.solvers.one_bit import positive_labels
from dpmc_data.synthetic import generate_one_bit_lab
from tests.ratings_helpers import with_values
from tests.theory import make_row, predict_end, summarise_mean

_GRID = 10_001  # points on which a supremum over 0..alpha is looked for


# --- bounds ------------------------------------------------------------------------------------


class SignSample(NamedTuple):
    """What is completed: d1 x d2 scores of rank r, none above alpha, of which n have a sign."""

    d1: int
    d2: int
    n_observed: float
    rank: int
    alpha: float

    @property
    def nuclear(self) -> float:
        """tau = alpha sqrt(r d1 d2), in scores: section 5.1."""
        return self.alpha * math.sqrt(self.rank * self.d1 * self.d2)


def steepness(link: Link, alpha: float, flip: float = 0.0) -> float:
    """L_{c,alpha} of section 3.1: the largest |c'|/(c (1 - c)) on |x| <= alpha, per score.

    flip: p, the chance that a sign is flipped; 0 leaves the link itself.
    """
    if not flip:
        return links.steepness(link, alpha)
    slope, variance = _model(link, flip, np.linspace(0.0, alpha, _GRID))
    return float(np.max(slope / variance))


def flatness(link: Link, alpha: float, flip: float = 0.0) -> float:
    """beta_{c,alpha} of section 3.1: the largest c (1 - c)/c'^2 on |x| <= alpha, in scores^2.

    For flips it is p (1 - p)/((1 - 2p) h'(alpha))^2 + beta_{h,alpha}: both rise with |x|.
    """
    slope, variance = _model(link, flip, np.array([alpha]))
    return float(variance[0] / slope[0] ** 2)


def printed_steepness(link: Link, alpha: float, flip: float = 0.0) -> float:
    """Below Theorem 1: L <= 1 - 2p (logistic), 8 (1 - 2p)(alpha/sigma + 1)/sigma (Gaussian)."""
    if isinstance(link, Probit):
        return 8 * (1 - 2 * flip) * (alpha / link.sigma + 1) / link.sigma
    return 1 - 2 * flip


def printed_flatness(link: Link, alpha: float, flip: float | None = None) -> float:
    """Appendix A: beta_h = e^alpha (logistic), pi sigma^2 e^(alpha^2/(2 sigma^2)) (Gaussian), and
    beta_c <= 1/(2 (1 - 2p)^2) + beta_h/2. flip: p; None: beta_h.

    As we read it, with equality: for the logistic link beta_h = e^alpha + 2 + e^-alpha, of which
    the first term is printed (Davenport et al. write "about" there); that of the Gaussian link is
    true. The step to beta_c divides 1/2 by (1 - 2p)^2 but not by h'^2, at most 1/16 for the
    logistic link: read with h'^2 it is true, for p (1 - p) <= 1/4.
    """
    if isinstance(link, Probit):
        noiseless = math.pi * link.sigma**2 * math.exp(alpha**2 / (2 * link.sigma**2))
    else:
        noiseless = math.exp(alpha)
    return noiseless if flip is None else 1 / (2 * (1 - 2 * flip) ** 2) + noiseless / 2


def hellinger(first: Floats, second: Floats) -> float:
    """Section 3.1: the mean of (sqrt p - sqrt q)^2 + (sqrt(1-p) - sqrt(1-q))^2, in 0..2.

    first, second: chances p, q of +1, of one shape.
    """
    up = np.sqrt(first) - np.sqrt(second)
    down = np.sqrt(1 - first) - np.sqrt(1 - second)
    return float(np.mean(up**2 + down**2))


def error_of_hellinger(flat: float, distance: float, *, printed: bool = False) -> float:
    """Appendix B: a mean squared error of at most (pi^2/2) beta d_H^2, in scores^2.

    With p = sin^2 t the distance is 4 sin^2(dt/2) >= (8/pi^2) dt^2 for dt <= pi/2, and dt >=
    |dx|/(2 sqrt(beta)). printed: 8 for pi^2/2, from Davenport et al., Lemma 2; true as well.
    """
    return (8 if printed else math.pi**2 / 2) * flat * distance


def printed_error(s: SignSample, steep: float, flat: float, *, misprint: bool = True) -> float:
    """Theorems 1, 2 and 4: C2 alpha L beta sqrt(r (d1+d2)/n) sqrt(C/n), in scores^2, with C2 = 1.

    C is printed as sqrt(n + d1 d2 log(d1+d2)): it has a root of its own, and d1 d2 for d1 + d2.
    Davenport et al. have sqrt(1 + (d1+d2) log(d1 d2)/n) for sqrt(C/n): misprint=False.
    """
    total_dimension = s.d1 + s.d2
    if misprint:
        factor = math.sqrt(
            math.sqrt(s.n_observed + s.d1 * s.d2 * math.log(total_dimension)) / s.n_observed
        )
    else:
        factor = math.sqrt(1 + total_dimension * math.log(s.d1 * s.d2) / s.n_observed)
    return s.alpha * steep * flat * math.sqrt(s.rank * total_dimension / s.n_observed) * factor


def error(s: SignSample, steep: float, flat: float, noise: float = 0.0) -> float:
    """Theorems 1 and 2 with a constant: the expected error, in scores^2, is at most

    (pi^2/2) beta (tau/n) (2 L E||E||_2 + E||H||_2), E random signs, H the noise, on seen cells.

    Cells are seen independently with chance n/(d1 d2). By symmetrisation, then contraction (ln c
    has slope at most L), E sup (E L - L) <= 2 L tau E||E||_2; and E <H, M> = 0. Both norms are
    bounded by `spectral_norm`. noise: scale of the Laplace noise H of objective perturbation.
    """
    signs = spectral_norm(s, 1.0, 1.0)
    tilt = spectral_norm(s, 2 * noise**2, noise) if noise else 0.0
    return error_of_hellinger(flat, s.nuclear / s.n_observed * (2 * steep * signs + tilt))


def spectral_norm(s: SignSample, variance: float, size: float) -> float:
    """At most the expected ||Z||_2 of independent symmetric numbers on the seen cells.

    sqrt(2 v ln(d1+d2)) + b ln(d1+d2) with v = variance n/min(d1, d2) where E|z|^k <=
    k! variance b^(k-2)/2: signs (b = 1) and Laplace numbers of scale b (variance 2 b^2). Matrix
    Bernstein: Tropp, "User-friendly tail bounds for sums of random matrices" (2012), Theorem 6.2.
    """
    log = math.log(s.d1 + s.d2)
    return math.sqrt(2 * variance * s.n_observed / min(s.d1, s.d2) * log) + size * log


def objective_privacy(link: Link, alpha: float, epsilon: float, delta: float) -> float:
    """What a sign of its own 1 x 1 matrix may lose under Theorem 2, in nats: at most this.

    Noise H = h'/h at x is what puts the solution there after a +1, and H = -h'/(1 - h) after a -1,
    so its densities are p(H) |dH/dx|: the noise accounts for epsilon (h'/h + h'/(1 - h))/delta, and
    the change of variables for |ln| of the ratio of the two losses' curvatures. The printed proof
    (Appendix B) has the first alone. For the logistic link the curvatures are the same, h (1 - h);
    for the Gaussian one they are not, and the second part stays where epsilon falls. At the ends
    of -alpha..alpha the solution has chances, which differ by the first part at most. delta: the
    paper's Delta, epsilon x the scale of H.
    """
    x = np.linspace(-alpha, alpha, _GRID)
    curvature = -np.gradient(link.score(x), x, edge_order=2)  # of -ln h; of -ln(1 - h) at -x
    change = float(np.max(np.abs(np.log(curvature / curvature[::-1]))))
    return epsilon * links.steepness(link, alpha) / delta + change


def printed_objective_noise(s: SignSample, epsilon: float, delta: float) -> float:
    """Appendix B: (1/n) sum H_ij (X_ij - M^_ij) <= sqrt(2) Delta/(eps n^(1/3)), in nats per sign.

    delta: the paper's Delta, epsilon x the scale of the Laplace noise H. Wrong: it bounds
    (1/n) |sum H_ij| instead, as if every X_ij - M^_ij had one sign, and then drops its own factor
    2 alpha. The fit follows the noise: `objective_noise` is what it may gain.
    """
    return math.sqrt(2) * delta / (epsilon * math.cbrt(s.n_observed))


def objective_noise(s: SignSample, scale: float) -> float:
    """The expected (1/n) <H, M - M^> for Laplace noise H of that scale: (tau/n) E||H||_2."""
    return s.nuclear / s.n_observed * spectral_norm(s, 2 * scale**2, scale)


def printed_output_noise(s: SignSample, epsilon: float) -> float:
    """Theorem 4: C6 alpha^2 log^2(d1+d2)/eps^2, in scores^2, with C6 = 1.

    Its proof has P(sum H^2 >= t) <= P(min H^2 >= t/(d1 d2)), which holds with the maximum, and
    ||A + B||^2 <= ||A||^2 + ||B||^2, which holds on average, for noise of mean zero.
    """
    return (s.alpha * math.log(s.d1 + s.d2) / epsilon) ** 2


def output_noise(s: SignSample, epsilon: float) -> float:
    """What Laplace(2 alpha/eps) adds to the expected squared error of a score: 8 alpha^2/eps^2."""
    return 8 * (s.alpha / epsilon) ** 2


def _model(link: Link, flip: float, x: Floats) -> tuple[Floats, Floats]:
    """c' and c (1 - c) = p (1 - p) + (1 - 2p)^2 h (1 - h)."""
    h = link.probability(x) * link.probability(-x)
    return (1 - 2 * flip) * link.density(x), flip * (1 - flip) + (1 - 2 * flip) ** 2 * h


# --- beside what is measured: 30 x 30 scores of rank one and up to 1, half of the signs seen ----

_SAMPLE = SignSample(30, 30, 450, 1, 1.0)
_LABS = 4
_PUBLISHED: dict[str, Any] = {"radius": 1.0, "bound": 1.0, "iterations": 300, "tolerance": 1e-3}


@cache
def theorems():
    """Each statement beside a measurement, the same every time."""
    chances = (
        chance for link in (LOGISTIC, Probit()) for chance in _chances(link, flip_probability(1.0))
    )
    return (*chances, *_losses(), *_errors())


@cache
def _lab(seed: int) -> tuple[Ratings, Floats]:
    """Signs and true scores; every cell is seen by a chance of its own."""
    rng = np.random.default_rng(seed)
    s, cells = _SAMPLE, _SAMPLE.d1 * _SAMPLE.d2
    share = rng.binomial(cells, s.n_observed / cells) / cells
    lab = generate_one_bit_lab(
        d1=s.d1, d2=s.d2, rank=s.rank, alpha=s.alpha, observed=share, rng=rng
    )
    assert lab.truth is not None
    return lab.ratings, lab.truth.left @ lab.truth.right.T


def _fits(mechanism: Mechanism) -> list[Floats]:
    """What a mechanism makes of each lab, less the truth."""
    return [predict_end(mechanism, _lab(k)[0], k) - _lab(k)[1] for k in range(_LABS)]


def _squares(differences: list[Floats]) -> list[float]:
    return [float(np.mean(difference**2)) for difference in differences]


def _chances(link: Link, flip: float):
    x = np.linspace(-1.0, 1.0, 2001)
    chance, slope = flip + (1 - 2 * flip) * link.probability(x), (1 - 2 * flip) * link.density(x)
    variance = chance * (1 - chance)
    beta = "beta probit" if isinstance(link, Probit) else "beta logistic"
    for name, compute_bound, printed, ratio in (
        ("L", steepness, printed_steepness, slope / variance),
        (beta, flatness, printed_flatness, variance / slope**2),
    ):
        limits = {"bound": compute_bound(link, 1.0, flip), "printed": printed(link, 1.0, flip)}
        yield make_row(name, measured=float(np.max(ratio)), **limits)


def _losses():
    ratings, _ = _lab(0)
    lopsided = InputFlip(epsilon=math.log(2), p_plus=0.01, p_minus=0.5)
    for flips, name in ((InputFlip(epsilon=1.0), "flips"), (lopsided, "lopsided flips")):
        plus, minus = flips.flip_probabilities
        yield make_row(
            name,
            bound=flips.guarantee(ratings.public).certified().epsilon,
            printed=flips.epsilon,
            measured=max(abs(math.log((1 - plus) / minus)), abs(math.log((1 - minus) / plus))),
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
        delta, x = paper.delta_h, np.linspace(-alpha, alpha, 2001)
        if alpha == 1.0:
            yield make_row(
                "Delta",
                bound=steepness(link, alpha),
                printed=delta,
                measured=float(np.max(link.score(x) + link.score(-x))),
            )
        yield make_row(
            "objective",
            bound=objective_privacy(link, alpha, epsilon, delta),
            printed=epsilon,
            measured=loss_of_a_cell(link, x, delta / epsilon),
        )
    walk = Gradient(epsilon=1.0, rounds=10, estimator=Estimator.PUBLISHED)
    guarantee, x = walk.guarantee(ratings.public), np.linspace(-1, 1, 2001)
    sensitivity = sum(np.clip(LOGISTIC.score(scores), -0.5, 0.5) for scores in (x, -x))
    measured = 10 * float(np.max(sensitivity)) / guarantee.releases.gradient.scale
    yield make_row("gradient", bound=guarantee.certified().epsilon, printed=1.0, measured=measured)
    output = Output(epsilon=1.0, within=OutputBound.SOLVER, **_PUBLISHED)
    exact = registry.create("clear", **(_PUBLISHED | {"iterations": 3000, "tolerance": 1e-6}))
    signs = ratings.values.copy()
    signs[0] *= -1
    difference = predict_end(exact, ratings) - predict_end(
        exact, with_values(ratings, signs, low=-1, high=1)
    )
    output_guarantee = output.guarantee(ratings.public)
    yield make_row(
        "output",
        bound=output_guarantee.certified().epsilon,
        printed=output.epsilon,
        measured=float(np.abs(difference).sum()) / output_guarantee.releases.matrix.scale,
    )


def loss_of_a_cell(link: Link, ends: Floats, scale: float) -> float:
    """How many times likelier, in nats, a solution between two ends is after one sign than after
    the other: +1 puts it at x where the Laplace noise is h'/h, -1 where it is -h'/(1 - h)."""
    after = [np.abs(np.diff(np.exp(-link.score(x) / scale))) for x in (ends, -ends)]
    return float(np.max(np.abs(np.log(after[0] / after[1]))))


def _errors():
    s = _SAMPLE
    box = 4 * s.alpha**2  # no two feasible matrices are further apart
    steep, flat = steepness(LOGISTIC, s.alpha), flatness(LOGISTIC, s.alpha)
    shared: dict[str, Any] = {"epsilon": 1.0, **_PUBLISHED}

    before = _fits(registry.create("clear", **_PUBLISHED))
    truths = [_lab(k)[1] for k in range(_LABS)]
    distances = [
        hellinger(LOGISTIC.probability(truth + difference), LOGISTIC.probability(truth))
        for truth, difference in zip(truths, before, strict=True)
    ]
    distance, printed_flat = float(np.mean(distances)), printed_flatness(LOGISTIC, s.alpha)
    yield make_row(
        "Hellinger",
        bound=error_of_hellinger(flat, distance),
        printed=error_of_hellinger(printed_flat, distance, printed=True),
        measured=float(np.mean(_squares(before))),
        trivial=box,
    )

    flip = flip_probability(1.0)
    curve = steepness(LOGISTIC, s.alpha, flip), flatness(LOGISTIC, s.alpha, flip)
    flipped = _squares(_fits(InputFlip(estimator=Estimator.PUBLISHED, **shared)))
    measurements = {"trivial": box, **summarise_mean(flipped)}
    yield make_row(
        "input", bound=error(s, *curve), printed=printed_error(s, *curve), **measurements
    )
    yield make_row("input undone", bound=printed_error(s, *curve, misprint=False), **measurements)

    tilted = Objective(estimator=Estimator.PUBLISHED, **shared)
    differences, gains = _fits(tilted), []
    for k in range(_LABS):
        ratings, _ = _lab(k)
        release = tilted.guarantee(ratings.public).releases.signs
        assert release is not None
        labels = positive_labels(ratings)
        # what the fit draws first
        noise = release.publish(labels, np.random.default_rng(k)) - labels
        gains.append(float(np.mean(noise * differences[k][ratings.users, ratings.items])))
    followed = printed_objective_noise(s, 1.0, 1.0)
    bound = objective_noise(s, 1.0)
    yield make_row("objective noise", bound=bound, printed=followed, **summarise_mean(gains))
    yield make_row(
        "objective error",
        bound=error(s, steep, flat, 1.0),
        printed=printed_error(s, steep, flat) + error_of_hellinger(flat, followed, printed=True),
        trivial=box,
        **summarise_mean(_squares(differences)),
    )

    after = _squares(_fits(Output(within=OutputBound.SOLVER, **shared)))
    added, printed = output_noise(s, 1.0), printed_output_noise(s, 1.0)
    added_error = summarise_mean(np.subtract(after, _squares(before)))
    yield make_row("output noise", bound=added, printed=printed, **added_error)
    yield make_row(
        "output error",
        bound=error(s, steep, flat) + added,
        printed=printed_error(s, steep, flat) + printed,
        trivial=box + added,
        **summarise_mean(after),
    )
