"""One-bit matrix completion under privacy: input, objective, gradient and output perturbation.

LWHM22: Li, Wei, Huang, Mao, Wang, "One-Bit Matrix Completion with Differential Privacy" (2022).
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace

import numpy as np

from dpmc_core.arrays import Floats, Rng
from dpmc_core.errors import InvalidSetting
from dpmc_core.links import Link, Logistic, steepness
from dpmc_core.model import (
    Constant,
    Dense,
    Estimator,
    Mechanism,
    PrivacyRequest,
    Rounds,
    Step,
    Steps,
    Task,
)
from dpmc_core.privacy import (
    RATING,
    USER_REPLACED,
    Calibration,
    Guarantee,
    Laplace,
    Publishes,
    RandomizedResponse,
    Releases,
    Trust,
    Unaccounted,
)
from dpmc_core.privacy.channels import flip_probability
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import PublishedSettings, inherit_setting, mechanism, setting
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.one_bit import (
    Completion,
    LossFunction,
    SignReports,
    build_feasible_set,
    flipped_likelihood_loss,
    likelihood_loss,
    positive_labels,
    spectral_step_length,
)
from dpmc_core.solvers.sizes import check_dense
from dpmc_core.style import BLUE, PURPLE, SKY, VERMILION, Style

_READS_RATED_CELLS = "the estimator reads who rated what, which this unit does not protect"
_PROJECTION_TOLERANCE = 1e-3  # accuracy of a projection, relative to ||X||_F
_PUBLISHED_ONLY = "published estimator only"
_PUBLISHED_BOUNDS = {"radius": 1.0, "bound": 1.0}  # rank 1 and alpha 1 (LWHM22, section 5)
_BOUNDS_NOTE = (
    "radius and bound are those of the paper's generated matrices, rank 1 with scores up to 1: for"
    " real ratings it prints none, and there the bound makes runs of seconds ones of minutes"
)
_UNBOUNDED_NOTE = f"{_BOUNDS_NOTE} (bound=none lifts it)"


@mechanism
class OneBit(Mechanism):
    """A mechanism for signs with a guarantee of pure epsilon for the value of each rating."""

    task = Task.BINARY
    nonprivate_counterpart = "clear"
    baseline = "private-majority"
    change = RATING
    trust = Trust.CURATOR
    publishes = Publishes.MATRIX
    epsilon: float = setting(help="privacy budget per rating", above=0, at_most=1e6)


@mechanism
class NoiseAwareOneBit(OneBit):
    """A one-bit mechanism with two estimators: the paper's, and one that allows for the noise."""

    link: Link = inherit_setting(Completion, "link", _PUBLISHED_ONLY)
    radius: float = inherit_setting(Completion, "radius", _PUBLISHED_ONLY)
    bound: float | None = inherit_setting(Completion, "bound", _PUBLISHED_ONLY)
    estimator: Estimator = setting(
        Estimator.NOISE_AWARE,
        "what completes the reports: effects and taste that know the noise and read who rated what,"
        " or the paper's maximum likelihood",
    )

    @property
    def is_noise_aware(self) -> bool:
        """Whether the estimator is the noise-aware one."""
        return self.estimator is Estimator.NOISE_AWARE

    @property
    def dense(self) -> bool:
        """Whether the solution is a dense matrix, not factors."""
        return self.bound is not None and not self.is_noise_aware

    @property
    def caveats(self) -> tuple[str, ...]:
        """The conditions under which the guarantee holds, because of the estimator."""
        return (_READS_RATED_CELLS,) if self.is_noise_aware else ()


@mechanism
class SignReporting(NoiseAwareOneBit, Completion):
    """A mechanism that publishes a noisy report of each sign and completes the matrix of signs."""

    iterations: int = inherit_setting(Completion, "iterations", _PUBLISHED_ONLY)
    tolerance: float = inherit_setting(Completion, "tolerance", _PUBLISHED_ONLY)

    def complete_reports(
        self, reports: SignReports, loss: LossFunction, ratings: Ratings, rng: Rng
    ) -> Steps:
        """Complete the matrix by the chosen estimator.

        Args:
            reports: the debiased reports, for the noise-aware estimator.
            loss: the loss that the paper's estimator minimises, from scores of shape (n_entries,).
            ratings: which cells are rated.
            rng: draws where the search for singular vectors starts.
        """
        if self.is_noise_aware:
            from dpmc_core.solvers.noisy_reports import complete_signs

            yield from complete_signs(Pattern.from_ratings(ratings), reports)
        else:
            yield from self.solve(loss, ratings, rng, raw=False)


class InputLoss(enum.Enum):
    """The loss that input perturbation minimises."""

    LIKELIHOOD = "likelihood"  # the likelihood of the flipped signs, as published; it is not convex
    UNBIASED = "unbiased"  # the logistic loss with the flips' bias removed; it is convex


@dataclass(frozen=True)
class NoisySigns(Releases):
    """The release of signs with Laplace noise.

    Attributes:
        signs: shape (n_entries,), 1{Y = +1}.
    """

    signs: Laplace

    @classmethod
    def from_epsilon(cls, epsilon: float) -> NoisySigns:
        """Return the release that spends epsilon per rating."""
        return cls(
            Laplace(
                query="1{Y = +1} of each observed rating",
                shape=(None,),
                sensitivity={RATING: 1},
                scale=1 / epsilon,
                disjoint=True,
            )
        )

    def publish_reports(self, ratings: Ratings, rng: Rng) -> tuple[Floats, SignReports]:
        """Publish the noisy signs, and debias them.

        Args:
            ratings: the raw signs.
            rng: draws the noise.

        Returns:
            The noisy statistic 1{Y = +1}, shape (n_entries,), and the debiased reports.
        """
        noisy_signs = self.signs.publish(positive_labels(ratings), rng)
        return noisy_signs, SignReports.from_laplace(noisy_signs, 1 / self.signs.scale)


@dataclass(frozen=True)
class FlippedSigns(Releases):
    """The release of flipped signs.

    Attributes:
        signs: shape (n_entries,), 1{Y = +1}.
    """

    signs: RandomizedResponse

    @classmethod
    def from_probabilities(cls, p_plus: float, p_minus: float) -> FlippedSigns:
        """Return the release with given flip probabilities.

        Args:
            p_plus: the probability that +1 is reported as -1.
            p_minus: the probability that -1 is reported as +1.
        """
        return cls(
            signs=RandomizedResponse.binary(
                p_minus,
                p_plus,
                query="sign of each observed rating",
                shape=(None,),
                sensitivity={RATING: 1},
            )
        )

    def publish_reports(self, ratings: Ratings, rng: Rng) -> tuple[Floats, SignReports]:
        """Publish the flipped signs, and debias them.

        Args:
            ratings: the raw signs.
            rng: draws the flips.

        Returns:
            The published signs as 0/1, shape (n_entries,), and their debiased reports.
        """
        flipped = self.signs.publish(positive_labels(ratings), rng).astype(float)
        (_, minus), (plus, _) = self.signs.channel
        return flipped, SignReports.from_flipped_signs(flipped, plus, minus)


@mechanism
class InputFlip(SignReporting):
    """Input perturbation: flip each observed sign, then complete (LWHM22, Algorithm 1).

    The flips are symmetric by default, with probability 1/(1 + e^epsilon). With p_plus = P(+1 ->
    -1) and p_minus = P(-1 -> +1) the paper's condition 1 - p_minus e^eps <= p_plus <= (1 - p_minus)
    e^eps does not suffice for its claim; the certified value is that of the channel.
    """

    id = "input-flip"
    name = "Input perturbation"
    short = "Input"
    style = Style(BLUE, "circle")
    revision = 2
    trust = Trust.LOCAL
    publishes = Publishes.FLIPPED_SIGNS
    source = "LWHM22, Theorem 1"
    published_settings = PublishedSettings(
        {"estimator": Estimator.PUBLISHED, **_PUBLISHED_BOUNDS}, _UNBOUNDED_NOTE
    )
    p_plus: float | None = setting(
        None, "chance that +1 turns into -1 (none: 1/(1+e^eps))", at_least=0, at_most=1
    )
    p_minus: float | None = setting(
        None, "chance that -1 turns into +1 (none: 1/(1+e^eps))", at_least=0, at_most=1
    )
    loss: InputLoss = setting(
        InputLoss.LIKELIHOOD,
        "likelihood of the flipped signs (as published) or a convex unbiased loss"
        f" ({_PUBLISHED_ONLY})",
    )

    @classmethod
    def recommendation_reason(cls, request: PrivacyRequest) -> str | None:
        """Return why this mechanism suits the request, None where it does not."""
        if request.change is not RATING:
            return None
        return (
            "any private report of one bit tells at most what a coin flip tells, and flips need"
            " nobody's trust"
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        plus, minus = self.flip_probabilities
        if (self.p_plus is None) != (self.p_minus is None):
            raise InvalidSetting(
                "p_plus and p_minus", "given together", (self.p_plus, self.p_minus)
            )
        if plus + minus == 1:
            if self.p_plus is None:
                limit = "large enough that a flipped sign differs from a fair coin"
                raise InvalidSetting("epsilon", f"> 1e-15, {limit}", self.epsilon)
            raise InvalidSetting("p_plus + p_minus", "other than 1: no information is left", 1)
        odds = math.exp(min(self.epsilon, 700.0))  # a larger exponential may overflow
        if self.p_plus is not None and not 1 - minus * odds <= plus <= (1 - minus) * odds:
            raise InvalidSetting(
                "p_plus", "between 1 - p_minus e^eps and (1 - p_minus) e^eps (Theorem 1)", plus
            )
        if self.loss is InputLoss.UNBIASED and not isinstance(self.link, Logistic):
            raise InvalidSetting("link", "logistic for the unbiased loss", str(self.link))

    @property
    def flip_probabilities(self) -> tuple[float, float]:
        """The flip probabilities (p_plus, p_minus): as set, or both 1/(1 + e^epsilon)."""
        if self.p_plus is None or self.p_minus is None:
            p = flip_probability(self.epsilon)
            return p, p
        return self.p_plus, self.p_minus

    def guarantee(self, public: PublicFacts) -> Guarantee[FlippedSigns]:
        """Return the guarantee: every observed sign is flipped at random."""
        plus, minus = self.flip_probabilities
        return self.pure_guarantee(
            public, FlippedSigns.from_probabilities(plus, minus), self.caveats
        )

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield the rounds of the estimator that completes the flipped signs."""
        flipped, reports = self.guarantee(ratings.public).releases.publish_reports(ratings, rng)
        plus, minus = self.flip_probabilities
        if self.loss is InputLoss.UNBIASED:
            loss = likelihood_loss(self.link, (flipped - minus) / (1 - plus - minus))
        else:
            loss = flipped_likelihood_loss(self.link, flipped, plus, minus)
        yield from self.complete_reports(reports, loss, ratings, rng)


@mechanism
class PrivateMajority(OneBit):
    """The more frequent sign, from flipped signs: the baseline of the private methods.

    It has one score for every cell, the log odds of +1 once the flips' bias is removed.
    """

    id = "private-majority"
    name = "Private majority"
    style = Style(PURPLE, "pentagon", "dot")
    list_order = 2
    nonprivate_counterpart = "majority"
    revision = 1
    trust = Trust.LOCAL
    publishes = Publishes.FLIPPED_SIGNS
    source = "randomised response (Warner 1965)"

    def guarantee(self, public: PublicFacts) -> Guarantee[FlippedSigns]:
        """Return the guarantee: every observed sign is flipped at random."""
        p = flip_probability(self.epsilon)
        return self.pure_guarantee(public, FlippedSigns.from_probabilities(p, p))

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield one step, the log odds of +1 from the debiased mean of flipped signs."""
        _, reports = self.guarantee(ratings.public).releases.publish_reports(ratings, rng)
        max_mean = 1 - 1 / (len(ratings) + 1)  # as if there were half a rating of the other sign
        mean = min(max(reports.mean, -max_mean), max_mean)
        trace = {"share of +1": (1 + mean) / 2}
        # A score of 0 has no sign, so a tie counts as +1.
        yield Step(1, 1, Constant(2 * math.atanh(mean) or 1e-9), trace, final=True)


@dataclass(frozen=True)
class ObjectiveNoise(Releases):
    """The release of objective perturbation where the noise is not on the signs.

    Attributes:
        linear_term: shape (n_entries,), the noise term alone.
    """

    linear_term: Laplace


@mechanism
class Objective(SignReporting):
    """Objective perturbation: loss + sum H_ij X_ij (LWHM22, Algorithm 2).

    With the logistic link the data enter the loss only through sum s_ij X_ij, s = 1{Y = +1}. So
    adding sum H_ij X_ij is the Laplace mechanism on s, and every solver is post-processing, the
    noise-aware estimator included. With the probit link, as published, the paper's argument needs
    the gradient to vanish at the solution, which the constraints break; that guarantee is claimed,
    not certified. The noise scale is Delta/eps with the appendix's factor (loss + sum H X).
    """

    id = "objective"
    name = "Objective perturbation"
    short = "Objective"
    style = Style(VERMILION, "square", "longdash")
    revision = 2
    source = "LWHM22, Theorem 2"
    published_settings = PublishedSettings(
        {"estimator": Estimator.PUBLISHED, "calibration": Calibration.PAPER, **_PUBLISHED_BOUNDS},
        _UNBOUNDED_NOTE,
    )
    calibration: Calibration = setting(
        Calibration.TIGHT,
        "exact supremum of h'/(h(1-h)) or the paper's looser 2h'(0)/h(-bound)"
        f" (probit link, {_PUBLISHED_ONLY})",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.is_noise_on_signs and self.bound is None:
            raise InvalidSetting(
                "bound", "a number for the probit link: its noise scale depends on it", None
            )

    @property
    def is_noise_on_signs(self) -> bool:
        """Whether the noise is on the statistic s = 1{Y = +1}; all else is then post-processing."""
        return self.is_noise_aware or isinstance(self.link, Logistic)

    @property
    def delta_h(self) -> float:
        """The paper's Delta: how far one rating moves the loss gradient of its cell."""
        if self.is_noise_on_signs or self.bound is None:
            return 1.0
        if self.calibration is Calibration.TIGHT:
            return steepness(self.link, self.bound)
        zero_score, lowest_score = np.array([0.0]), np.array([-self.bound])
        return float(2 * self.link.density(zero_score)[0] / self.link.probability(lowest_score)[0])

    def guarantee(self, public: PublicFacts) -> Guarantee[NoisySigns | ObjectiveNoise]:
        """Return the guarantee: certified for noise on the signs, else claimed only."""
        if self.is_noise_on_signs:
            garbling_caveat = (
                "any eps-DP release of one bit is a garbling of randomised response, so this"
                " cannot beat input perturbation statistically"
            )
            return self.pure_guarantee(
                public, NoisySigns.from_epsilon(self.epsilon), (garbling_caveat, *self.caveats)
            )
        linear_term = Laplace(
            query="linear term of the objective",
            shape=(None,),
            sensitivity={},
            scale=self.delta_h / self.epsilon,
        )
        unaccounted_loss = Unaccounted(
            "the probit loss of the raw signs",
            "the proof sets its gradient to zero, which the constraints and early stopping break,"
            " and leaves out the curvature, which is another for each sign; 'objective-statistic'"
            " is certified for this link",
        )
        return self.pure_guarantee(
            public, ObjectiveNoise(linear_term), unaccounted=(unaccounted_loss,)
        )

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield the rounds of a solver of the perturbed objective."""
        releases = self.guarantee(ratings.public).releases
        if isinstance(releases, NoisySigns):
            noisy_signs, reports = releases.publish_reports(ratings, rng)
            noisy_loss = likelihood_loss(self.link, noisy_signs)
            yield from self.complete_reports(reports, noisy_loss, ratings, rng)
            return
        linear_noise = releases.linear_term.publish(np.zeros(len(ratings)), rng)
        raw_loss = likelihood_loss(self.link, positive_labels(ratings))

        def loss(x: Floats) -> tuple[float, Floats]:
            value, gradient = raw_loss(x)
            return value + float(linear_noise @ x), gradient + linear_noise

        yield from self.solve(loss, ratings, rng, raw=True)


@mechanism
class ObjectiveStatistic(SignReporting):
    """Certified objective perturbation for any link: noise on the statistic, then clip to [0, 1].

    It minimises -sum [s~ ln h + (1 - s~) ln(1 - h)] with s~ = clip(1{Y = +1} + Laplace(1/eps), 0,
    1), which is convex. Clipping biases: E[s~ | s = 0] = (1 - e^-eps)/(2 eps). The setting `debias`
    removes that (logistic link, where the loss stays convex for labels outside [0, 1]).
    """

    id = "objective-statistic"
    name = "Objective perturbation, certified for any link"
    short = "Objective any-link"
    style = Style(SKY, "diamond", "dashdot")
    revision = 2
    source = "Laplace mechanism on the signs, in place of LWHM22, Theorem 2"
    debias: bool = setting(False, f"remove the bias of clipping (logistic link, {_PUBLISHED_ONLY})")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.debias and not isinstance(self.link, Logistic):
            raise InvalidSetting("link", "logistic with debias: else not convex", str(self.link))

    @property
    def clipping_bias(self) -> float:
        """The mean of a clipped noisy sign at s = 0, E[clip(Laplace(1/eps), 0, 1)].

        By symmetry 1 minus it is the mean at s = 1.
        """
        return -math.expm1(-self.epsilon) / (2 * self.epsilon)

    def guarantee(self, public: PublicFacts) -> Guarantee[NoisySigns]:
        """Return the guarantee: every observed sign has Laplace noise."""
        bias_caveats = (
            f"clipping biases every label towards 1/2: E[s~ | s=0] = {self.clipping_bias:.3g}",
        )
        caveats = self.caveats if self.is_noise_aware or self.debias else bias_caveats
        return self.pure_guarantee(public, NoisySigns.from_epsilon(self.epsilon), caveats)

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield the rounds of the estimator that completes the clipped noisy signs."""
        noisy_signs, reports = self.guarantee(ratings.public).releases.publish_reports(ratings, rng)
        labels = np.clip(noisy_signs, 0.0, 1.0)
        if self.debias:
            labels = (labels - self.clipping_bias) / (1 - 2 * self.clipping_bias)
        yield from self.complete_reports(reports, likelihood_loss(self.link, labels), ratings, rng)


@dataclass(frozen=True)
class NoisyGradients(Releases):
    """The releases of gradient perturbation.

    Attributes:
        gradient: shape (n_entries,), the clamped loss gradient of a round.
    """

    gradient: Laplace


@mechanism
class Gradient(NoiseAwareOneBit):
    """Gradient perturbation: projected descent on clamped, noised gradients (LWHM22, Algorithm 3).

    Only those gradients read the data: there is no line search and no stopping rule on the true
    objective, and the spectral step comes from the noisy gradients. Flipping one sign moves one
    clamped entry by at most min(2 clamp, 1) for the logistic link (its gradient moves by exactly
    1), 2 clamp in general. The rounds share the budget evenly, so noise grows with their number:
    the default of 1 + eps/10 takes a second round only where the noise allows it. The first
    gradient, at scores of zero, is a noisy report of each sign, whose two values are min(2 clamp, 4
    density(0)) apart: the noise-aware estimator needs nothing else.
    """

    id = "gradient"
    name = "Gradient perturbation"
    short = "Gradient"
    style = Style(PURPLE, "triangle-up", "longdashdot")
    revision = 2
    published_settings = PublishedSettings(
        {"estimator": Estimator.PUBLISHED, "rounds": 10, **_PUBLISHED_BOUNDS},
        "neither the number of rounds K is printed, 10 here, nor the factor on the spectral step,"
        f" 1 here; {_UNBOUNDED_NOTE}",
    )
    source = "LWHM22, Theorem 3"
    rounds: int | None = setting(
        None,
        f"rounds that share the budget (none: 1 + eps/10; {_PUBLISHED_ONLY})",
        at_least=1,
        at_most=1_000,
    )
    clamp: float = setting(0.5, "largest |gradient| of one cell", above=0, at_most=1e3)

    @property
    def n_rounds(self) -> int:
        """The number of rounds, which share the budget."""
        return 1 if self.is_noise_aware else self.rounds or min(1 + int(self.epsilon / 10), 100)

    def guarantee(self, public: PublicFacts) -> Guarantee[NoisyGradients]:
        """Return the guarantee: clamped gradients of rounds that share the budget evenly."""
        sensitivity = 2 * self.clamp
        # The gradients of both signs are h'/h + h'/(1 - h) apart. That is 4 h'(0) at scores of 0,
        # where the noise-aware estimator takes them, and at all scores for the logistic link.
        if self.is_noise_aware or isinstance(self.link, Logistic):
            sensitivity = min(sensitivity, 4 * float(self.link.density(np.zeros(1))[0]))
        gradient = Laplace(
            query="clamped loss gradient on the observed cells",
            shape=(None,),
            sensitivity={RATING: sensitivity},
            scale=self.n_rounds * sensitivity / self.epsilon,
            disjoint=True,
            times=self.n_rounds,
        )
        return self.pure_guarantee(public, NoisyGradients(gradient), self.caveats)

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield the rounds of descent on noisy gradients, or of the noise-aware estimator."""
        releases = self.guarantee(ratings.public).releases
        # At scores of zero a gradient has one of two values, which are `sensitivity` apart.
        if self.is_noise_aware:
            from dpmc_core.solvers.noisy_reports import complete_signs

            sensitivity = releases.gradient.sensitivity[RATING]
            noisy_gradient = releases.gradient.publish(
                sensitivity * (0.5 - positive_labels(ratings)), rng
            )
            reports = SignReports.from_laplace(
                0.5 - noisy_gradient / sensitivity, sensitivity / releases.gradient.scale
            )
            yield from complete_signs(Pattern.from_ratings(ratings), reports)
            return
        loss = likelihood_loss(self.link, positive_labels(ratings))
        constraint = build_feasible_set(ratings, self.radius, self.bound, rng)
        point, previous, step = constraint.origin(), None, 0.0
        n_rounds = self.n_rounds
        for index in range(1, n_rounds + 1):
            objective, gradient = loss(point.observed)
            noisy_gradient = releases.gradient.publish(
                np.clip(gradient, -self.clamp, self.clamp), rng
            )
            if previous is None:
                step = constraint.first_step_length(noisy_gradient)
            else:
                previous_point, previous_gradient = previous
                gradient_change = noisy_gradient - previous_gradient
                step = spectral_step_length(point, previous_point, gradient_change) or step
            previous = point, noisy_gradient
            accuracy = _PROJECTION_TOLERANCE * max(1.0, math.sqrt(point.dot(point)))
            point = constraint.project(point, step, noisy_gradient, accuracy)
            trace = {"objective": objective, "step length": step}
            yield Step.from_trace(
                index, n_rounds, point.build_model(), trace, published_names=("step length",)
            )


class OutputBound(enum.Enum):
    """How output perturbation keeps scores within its bound."""

    CLIP = "clip"  # solve under the nuclear bound alone, and clip before the noise
    SOLVER = "solver"  # as published: the bound is a constraint of the solver


@dataclass(frozen=True)
class NoisyMatrix(Releases):
    """The release of output perturbation.

    Attributes:
        matrix: shape (users, items), the completed scores.
    """

    matrix: Laplace


@mechanism
class Output(OneBit, Completion):
    """Output perturbation: complete, then Laplace(2 bound / eps) on every cell (LWHM22, Alg. 4).

    The paper takes 2 bound as the l1 sensitivity of the matrix; it bounds one cell. Any two
    matrices of the feasible set are within min(2 bound m n, 2 tau sqrt(m n)) of each other in l1,
    which is what is certified, whatever the change in the data. The published matrix is brought
    within both limits after the solver, which meets its constraints to a tolerance only.
    """

    id = "output"
    name = "Output perturbation"
    short = "Output"
    style = Style(VERMILION, "x", "dot")
    revision = 3
    published_settings = PublishedSettings(
        {"within": OutputBound.SOLVER, **_PUBLISHED_BOUNDS},
        f"{_BOUNDS_NOTE}; what the solver's tolerance leaves beyond it is still cut off",
    )
    source = "LWHM22, Theorem 4"
    bound: float = setting(0.1, "largest |score|; sets the noise", above=0, at_most=1e3)
    within: OutputBound = setting(
        OutputBound.CLIP,
        "clip to the bound after solving, or solve under the bound (published, slower)",
    )

    @property
    def dense(self) -> bool:
        """Whether the solution is a dense matrix, not factors."""
        return True

    def guarantee(self, public: PublicFacts) -> Guarantee[NoisyMatrix]:
        """Return the guarantee: the noisy matrix, with a bound on how far any two may be apart."""
        # ||X||_1 <= sqrt(m n) ||X||_F <= sqrt(m n) ||X||_* <= m n radius.
        diameter = 2 * min(self.bound, self.radius) * public.users * public.items
        matrix = Laplace(
            query="completed matrix",
            shape=public.axes,
            sensitivity={RATING: diameter, USER_REPLACED: diameter},
            scale=2 * self.bound / self.epsilon,
        )
        caveats = (
            "the claim holds for publishing one cell: its noise hides what one cell can move, and"
            " one rating moves many cells",
            "the number of solver rounds, shown beside a run, is read off the raw ratings without"
            " noise: evaluation only, not private",
        )
        return self.pure_guarantee(public, NoisyMatrix(matrix), caveats)

    @property
    def solver_bound(self) -> float | None:
        """The largest |score| in the feasible set of the solver; None where scores are clipped."""
        return self.bound if self.within is OutputBound.SOLVER else None

    def solve_without_noise(self, ratings: Ratings) -> Rounds:
        """Yield the rounds of the solve without noise, which are the same for every epsilon.

        Yields:
            The step of a round without its model, and the model after the last round, else None.
        """
        loss = likelihood_loss(self.link, positive_labels(ratings))
        solver_rng = np.random.default_rng(0)  # where the search for vectors begins: no noise
        for step in self.solve(loss, ratings, solver_rng, raw=True):
            yield replace(step, build=None), step.model if step.final else None

    def fit(self, ratings: Ratings, rng: Rng, rounds: Rounds | None = None) -> Steps:
        """Yield the steps of the solve without noise, the last one with the noisy matrix.

        Args:
            ratings: training ratings.
            rng: draws the noise.
            rounds: the rounds of an earlier `solve_without_noise`; None to solve now.
        """
        check_dense(ratings.shape, "output perturbation")
        releases = self.guarantee(ratings.public).releases
        # The l1 norm that `guarantee` takes from the nuclear bound: ||X||_1 <= m n radius. The
        # certified value relies on it, and on the clipping to `bound`.
        max_l1_norm = self.radius * math.prod(ratings.shape)
        for step, solution in self.solve_without_noise(ratings) if rounds is None else rounds:
            if solution is None:
                yield step
                continue
            matrix = solution.predict(*np.indices(ratings.shape, sparse=True))
            clipped = np.clip(matrix, -self.bound, self.bound)
            l1_norm = np.abs(clipped).sum()
            if l1_norm > max_l1_norm:  # the solver meets the nuclear bound to its tolerance only
                clipped *= max_l1_norm / l1_norm
            yield replace(step, build=Dense(releases.matrix.publish(clipped, rng)))
