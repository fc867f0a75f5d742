"""Links h of the one-bit model P(Y = +1) = h(M): logistic and probit, stable for |x| up to 1e3."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from dpmc_core.arrays import Floats
from dpmc_core.errors import InvalidSetting, check_number


class Link:
    """An increasing h with h(-x) = 1 - h(x); every method maps arrays elementwise."""

    def probability(self, x: Floats) -> Floats:
        """h(x)."""
        raise NotImplementedError

    def log_probability(self, x: Floats) -> Floats:
        """ln h(x); by symmetry ln(1 - h(x)) is log_probability(-x)."""
        raise NotImplementedError

    def score(self, x: Floats) -> Floats:
        """h'(x) / h(x); by symmetry h'(x) / (1 - h(x)) is score(-x)."""
        raise NotImplementedError

    def density(self, x: Floats) -> Floats:
        """h'(x)."""
        return self.score(x) * self.probability(x)


@dataclass(frozen=True)
class Logistic(Link):
    """h(x) = 1/(1 + e^-x): the paper's "Logistic noise"."""

    def probability(self, x: Floats) -> Floats:
        return scipy.special.expit(x)

    def log_probability(self, x: Floats) -> Floats:
        return scipy.special.log_expit(x)

    def score(self, x: Floats) -> Floats:
        return scipy.special.expit(-x)

    def __str__(self) -> str:
        return "logistic"


@dataclass(frozen=True)
class Probit(Link):
    """h(x) = Phi(x / sigma): the paper's "Gaussian noise" of standard deviation sigma."""

    sigma: float = 1.0

    def __post_init__(self) -> None:
        check_number("sigma of the probit link", self.sigma, above=0)

    def probability(self, x: Floats) -> Floats:
        return scipy.special.ndtr(x / self.sigma)

    def log_probability(self, x: Floats) -> Floats:
        return scipy.special.log_ndtr(x / self.sigma)

    def score(self, x: Floats) -> Floats:
        # phi/Phi through the scaled complementary error function: no 0/0 far in the tail.
        scale = self.sigma * np.sqrt(2.0)
        return np.asarray(2 / (np.sqrt(np.pi) * scale * scipy.special.erfcx(-x / scale)))

    def __str__(self) -> str:
        return f"probit:{self.sigma:g}"


LOGISTIC = Logistic()
LINK_CHOICES = ("logistic", "probit", "probit:SIGMA")


def parse_link(text: str) -> Link:
    """`logistic`, `probit` or `probit:SIGMA`. Raises InvalidSetting."""
    name, _, sigma = text.partition(":")
    if text == "logistic":
        return LOGISTIC
    try:
        if name == "probit":
            return Probit(float(sigma)) if sigma else Probit()
    except InvalidSetting:
        raise
    except ValueError:
        pass
    raise InvalidSetting("link", f"one of {', '.join(LINK_CHOICES)}", text)


def steepness(link: Link, bound: float) -> float:
    """Supremum of h'/(h (1 - h)) = h'/h + h'/(1 - h) over [-bound, bound].

    One for the logistic link everywhere; for the probit it grows with |x|, so the end decides.
    """
    ends = np.array([0.0, bound])
    return float(np.max(link.score(ends) + link.score(-ends)))
