"""Objective perturbation of one-bit matrix completion, published and certified.

LWHM22: Li, Wei, Huang, Mao, Wang, "One-Bit Matrix Completion with Differential Privacy" (2022).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import InvalidSetting
from dpmc_core.links import Logistic, steepness
from dpmc_core.model import Step
from dpmc_core.perturbation import OneBit
from dpmc_core.privacy import Calibration, Guarantee, Laplace, Unaccounted, by_unit
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import setting
from dpmc_core.solvers.one_bit import Completion, as_step, likelihood, positive

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Objective(OneBit, Completion):
    """Objective perturbation as published: loss + sum H_ij X_ij (LWHM22, Algorithm 2).

    Logistic link: the data enter the loss only through sum s_ij X_ij, s = 1{Y = +1}, so adding
    sum H_ij X_ij is the Laplace mechanism on s, and every solver is post-processing. Probit link:
    the paper's argument needs the gradient to vanish at the solution, which the constraints break;
    claimed, not certified. Noise scale Delta/eps with the appendix's factor (loss + sum H X).
    """

    id: ClassVar[str] = "objective"
    name: ClassVar[str] = "Objective perturbation"
    revision: ClassVar[int] = 1
    calibration: Calibration = setting(
        Calibration.TIGHT,
        "probit link only: exact supremum of h'/(h(1-h)) or the paper's looser 2h'(0)/h(-bound)",
        choices=tuple(m.value for m in Calibration),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.link, Logistic) and self.bound is None:
            raise InvalidSetting(
                "bound", "a number for the probit link: its noise scale depends on it", None
            )

    @property
    def delta_h(self) -> float:
        """The paper's Delta: how far one rating moves the loss gradient of its cell."""
        if isinstance(self.link, Logistic) or self.bound is None:
            return 1.0
        if self.calibration is Calibration.TIGHT:
            return steepness(self.link, self.bound)
        zero, end = np.array([0.0]), np.array([-self.bound])
        return float(2 * self.link.density(zero)[0] / self.link.probability(end)[0])

    def guarantee(self, public: PublicFacts) -> Guarantee:
        logistic = isinstance(self.link, Logistic)
        scale = self.delta_h / self.epsilon
        # The two links publish different things: the noisy statistic, or a bare noise term.
        query = "1{Y = +1} of each observed rating" if logistic else "linear term of the objective"
        release = Laplace(
            query=query,
            shape=(None,),
            sensitivity=by_unit(value=1) if logistic else by_unit(),
            scale=scale,
        )
        return self.per_rating(
            public,
            source="LWHM22, Theorem 2",
            releases={"signs" if logistic else "linear term": release},
            unaccounted=()
            if logistic
            else (
                Unaccounted(
                    "the probit loss of the raw signs",
                    "the proof sets its gradient to zero, which the constraints and early stopping"
                    " break; 'objective-statistic' is certified for this link",
                ),
            ),
            caveats=(
                "any eps-DP release of one bit is a garbling of randomised response, so this"
                " cannot beat input perturbation statistically",
            )
            if logistic
            else (),
        )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        releases = self.guarantee(ratings.public).releases
        if "signs" in releases:
            loss = likelihood(self.link, releases["signs"].publish(positive(ratings), rng))
        else:
            tilt = releases["linear term"].publish(np.zeros(len(ratings)), rng)
            raw = likelihood(self.link, positive(ratings))

            def loss(x: Floats) -> tuple[float, Floats]:
                value, gradient = raw(x)
                return value + float(tilt @ x), gradient + tilt

        for iterate in self.solve(loss, ratings, rng):
            yield as_step(iterate, self.iterations, publishable=True, raw="signs" not in releases)


@dataclass(frozen=True, kw_only=True)
class ObjectiveStatistic(OneBit, Completion):
    """Certified objective perturbation for any link: noise on the statistic, then clip to [0, 1].

    s~ = clip(1{Y = +1} + Laplace(1/eps), 0, 1); minimise -sum [s~ ln h + (1 - s~) ln(1 - h)], which
    is convex. Clipping biases: E[s~ | s = 0] = (1 - e^-eps)/(2 eps). `debias` removes that
    (logistic link, where the loss stays convex for labels outside [0, 1]).
    """

    id: ClassVar[str] = "objective-statistic"
    name: ClassVar[str] = "Objective perturbation, certified for any link"
    revision: ClassVar[int] = 1
    debias: bool = setting(False, "remove the bias of clipping (logistic link only)")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.debias and not isinstance(self.link, Logistic):
            raise InvalidSetting("link", "logistic with debias: else not convex", str(self.link))

    @property
    def clipping_bias(self) -> float:
        """E[clip(Laplace(1/eps), 0, 1)]; by symmetry 1 minus it is the mean at s = 1."""
        return -math.expm1(-self.epsilon) / (2 * self.epsilon)

    def guarantee(self, public: PublicFacts) -> Guarantee:
        return self.per_rating(
            public,
            source="Laplace mechanism on the signs, in place of LWHM22, Theorem 2",
            releases={
                "signs": Laplace(
                    query="1{Y = +1} of each observed rating",
                    shape=(None,),
                    sensitivity=by_unit(value=1),
                    scale=1 / self.epsilon,
                )
            },
            caveats=()
            if self.debias
            else (
                f"clipping biases every label towards 1/2: E[s~ | s=0] = {self.clipping_bias:.3g}",
            ),
        )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        noisy = self.guarantee(ratings.public).releases["signs"].publish(positive(ratings), rng)
        labels = np.clip(noisy, 0.0, 1.0)
        if self.debias:
            labels = (labels - self.clipping_bias) / (1 - 2 * self.clipping_bias)
        for iterate in self.solve(likelihood(self.link, labels), ratings, rng):
            yield as_step(iterate, self.iterations, publishable=True, raw=False)
