"""From reported cells back to a low-rank matrix: which penalty, and which regression. No privacy.

Z16: Zheng, "Two Differentially Private Rating Collection Mechanisms for Recommender Systems".
Everything here works on values centred at 0 in -1..1; `Recovery` is the settings that the two
collection mechanisms and their twin without privacy share.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmc_core.linalg import Pattern
from dpmc_core.model import Factors, Step
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import check_settings, setting
from dpmc_core.solvers import soft_impute
from dpmc_core.solvers.soft_impute import Regression, Solution

Floats = NDArray[np.float64]

_MARGIN = 1.25  # over the spectral norm that pure noise has on average
_PRIOR = 0.5  # standard deviation of a mean rating in -1..1, before any is seen
_TOLERANCE = 1e-2  # relative change of a proximal step


class Regress(enum.Enum):
    """What the reported values are taken for."""

    NAIVE = "naive"  # ratings, as published
    DEBIASED = "debiased"  # ratings shrunk by the chance of being genuine, around an offset


class Rule(enum.Enum):
    """How the penalty is found; none looks at anything but the reports and public facts."""

    NOISE_LEVEL = "noise-level"  # the spectral norm of the noise: only what stands out is kept
    MOMENTS = "moments"  # discrepancy principle, residual from the channel's second moments
    THEOREM = "theorem-3"  # discrepancy principle, residual from the paper's Theorem 3


@dataclass(frozen=True, kw_only=True)
class Reports:
    """What a server holds: reported values on a pattern, and what is known of the channel.

    gain: E[report | cell reported] = gain x the rating there; variance: of a report around that;
    rho: Theorem 3's bound on the residual at the truth.
    """

    pattern: Pattern
    values: Floats
    gain: float
    variance: float
    rho: float


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """Settings of the recovery, and the recovery."""

    recovery: Regress = setting(
        Regress.DEBIASED,
        "take reports as they come (published), or allow for their chance of being genuine",
        choices=tuple(m.value for m in Regress),
    )
    rule: Rule = setting(
        Rule.NOISE_LEVEL,
        "what sets the penalty: the noise's spectral norm, or a residual to be met",
        choices=tuple(m.value for m in Rule),
    )
    intrinsic: float = setting(
        0.2,
        "how far ratings lie from any low-rank matrix, as a share of their range",
        above=0,
        at_most=1,
    )
    steps: int = setting(30, "most penalties tried on the way down", at_least=1, at_most=1_000)

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def misfit(self) -> float:
        """`intrinsic` in units of the scale -1..1: the rho_0 of Theorem 3."""
        return 2 * self.intrinsic

    def recover(
        self, reports: Reports, public: PublicFacts, rng: np.random.Generator, *, raw: bool
    ) -> Iterator[Step]:
        """A Step for each penalty; trace numbers are marked raw where the reports are."""
        debiased = self.recovery is Regress.DEBIASED
        gain = reports.gain if debiased else 1.0
        problem = Regression(
            reports.pattern,
            reports.values,
            gain,
            reports.variance / _PRIOR**2 if debiased else None,
        )
        count = len(reports.values)
        rows, columns = reports.pattern.shape
        penalty = residual = None
        if self.rule is Rule.NOISE_LEVEL:
            each = math.sqrt(reports.variance * count / (rows * columns))
            penalty = _MARGIN * gain * each * (math.sqrt(rows) + math.sqrt(columns))
        elif self.rule is Rule.MOMENTS:
            residual = math.sqrt(reports.variance * count)
        else:
            residual = reports.rho
        found = soft_impute.path(
            problem,
            penalty=penalty,
            residual=residual,
            steps=self.steps,
            tolerance=_TOLERANCE,
            rng=rng,
        )
        total = self.steps
        last: Solution | None = None
        index = 0
        for solution in found:
            if last is not None:
                index += 1
                yield _step(last, index, total, public, raw=raw, final=False)
            last = solution
        assert last is not None  # a path has at least one solution
        yield _step(last, index + 1, total, public, raw=raw, final=True)


def _step(
    solution: Solution, index: int, total: int, public: PublicFacts, *, raw: bool, final: bool
) -> Step:
    trace = {
        "penalty": solution.penalty,
        "residual": solution.residual,
        "rank": float(solution.rank),
    }
    return Step(
        index=index,
        total=total,
        model=in_points(solution, public),
        trace=trace,
        raw=frozenset(trace) if raw else frozenset(),
        final=final,
    )


def centre(public: PublicFacts) -> float:
    """The middle of the public range, in rating points: 0 on the scale -1..1."""
    return (public.low + public.high) / 2


def in_points(solution: Solution, public: PublicFacts) -> Factors:
    """The solution in rating points, its offset as a constant last pair of factors."""
    half = public.width / 2
    users, items = len(solution.left), len(solution.right)
    mean = centre(public) + half * solution.offset
    return Factors(
        np.hstack([half * solution.left * solution.values, np.full((users, 1), mean)]),
        np.hstack([solution.right, np.ones((items, 1))]),
    )
