"""Input perturbation of one-bit matrix completion: flip the signs, then complete.

LWHM22: Li, Wei, Huang, Mao, Wang, "One-Bit Matrix Completion with Differential Privacy" (2022).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpmc_core.errors import InvalidSetting
from dpmc_core.links import Logistic
from dpmc_core.model import Step
from dpmc_core.perturbation import OneBit
from dpmc_core.privacy import Guarantee, RandomizedResponse, Trust, by_unit
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import setting
from dpmc_core.solvers.one_bit import Completion, as_step, flipped_likelihood, likelihood, positive


class InputLoss(enum.Enum):
    """What input perturbation minimises."""

    LIKELIHOOD = "likelihood"  # of the flipped signs, as published; not convex
    UNBIASED = "unbiased"  # logistic loss with the flips' bias removed; convex


@dataclass(frozen=True, kw_only=True)
class InputFlip(OneBit, Completion):
    """Input perturbation: flip each observed sign, then complete (LWHM22, Algorithm 1).

    Symmetric by default, p = 1/(1 + e^epsilon). With p_plus = P(+1 -> -1) and p_minus =
    P(-1 -> +1) the paper's condition 1 - p_minus e^eps <= p_plus <= (1 - p_minus) e^eps does not
    suffice for its claim; the certified value is that of the channel.
    """

    id: ClassVar[str] = "input-flip"
    name: ClassVar[str] = "Input perturbation"
    revision: ClassVar[int] = 1
    p_plus: float | None = setting(
        None, "chance that +1 turns into -1 (none: 1/(1+e^eps))", at_least=0, at_most=1
    )
    p_minus: float | None = setting(
        None, "chance that -1 turns into +1 (none: 1/(1+e^eps))", at_least=0, at_most=1
    )
    loss: InputLoss = setting(
        InputLoss.LIKELIHOOD,
        "likelihood of the flipped signs (published) or a convex unbiased loss",
        choices=tuple(m.value for m in InputLoss),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        plus, minus = self.flips
        if (self.p_plus is None) != (self.p_minus is None):
            raise InvalidSetting(
                "p_plus and p_minus", "given together", (self.p_plus, self.p_minus)
            )
        if plus + minus == 1:
            if self.p_plus is None:
                limit = "large enough that a flipped sign differs from a fair coin"
                raise InvalidSetting("epsilon", f"> 1e-15, {limit}", self.epsilon)
            raise InvalidSetting("p_plus + p_minus", "other than 1: no information is left", 1)
        odds = math.exp(min(self.epsilon, 700.0))
        if self.p_plus is not None and not 1 - minus * odds <= plus <= (1 - minus) * odds:
            raise InvalidSetting(
                "p_plus", "between 1 - p_minus e^eps and (1 - p_minus) e^eps (Theorem 1)", plus
            )
        if self.loss is InputLoss.UNBIASED and not isinstance(self.link, Logistic):
            raise InvalidSetting("link", "logistic for the unbiased loss", str(self.link))

    @property
    def flips(self) -> tuple[float, float]:
        """(p_plus, p_minus) in force."""
        if self.p_plus is None or self.p_minus is None:
            p = 1 / (1 + math.exp(min(self.epsilon, 700.0)))
            return p, p
        return self.p_plus, self.p_minus

    def guarantee(self, public: PublicFacts) -> Guarantee:
        plus, minus = self.flips
        return self.per_rating(
            public,
            source="LWHM22, Theorem 1",
            trust=Trust.LOCAL,
            publishes="flipped signs",
            releases={
                "signs": RandomizedResponse(
                    query="sign of each observed rating",
                    shape=(None,),
                    sensitivity=by_unit(value=1),
                    channel=((1 - minus, minus), (plus, 1 - plus)),
                )
            },
        )

    def fit(self, ratings: Ratings, rng: np.random.Generator) -> Iterator[Step]:
        signs = self.guarantee(ratings.public).releases["signs"]
        flipped = signs.publish(positive(ratings), rng).astype(float)
        plus, minus = self.flips
        if self.loss is InputLoss.UNBIASED:
            loss = likelihood(self.link, (flipped - minus) / (1 - plus - minus))
        else:
            loss = flipped_likelihood(self.link, flipped, plus, minus)
        for iterate in self.solve(loss, ratings, rng):
            yield as_step(iterate, self.iterations, publishable=True, raw=False)
