"""Links h of the one-bit model P(Y = +1) = h(M): logistic and probit, stable for |x| up to 1e3."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from dpmc_core.arrays import Floats
from dpmc_core.errors import check_number, parse_number, unknown_name_error


class Link:
    """An increasing function h with h(-x) = 1 - h(x); its methods map arrays elementwise."""

    def probability(self, x: Floats) -> Floats:
        """Return h(x).

        Args:
            x: array of any shape, latent scores.
        """
        raise NotImplementedError

    def log_probability(self, x: Floats) -> Floats:
        """Return ln h(x); by symmetry ln(1 - h(x)) is log_probability(-x).

        Args:
            x: array of any shape, latent scores.
        """
        raise NotImplementedError

    def score(self, x: Floats) -> Floats:
        """Return h'(x) / h(x); by symmetry h'(x) / (1 - h(x)) is score(-x).

        Args:
            x: array of any shape, latent scores.
        """
        raise NotImplementedError

    def density(self, x: Floats) -> Floats:
        """Return h'(x).

        Args:
            x: array of any shape, latent scores.
        """
        return self.score(x) * self.probability(x)


@dataclass(frozen=True)
class Logistic(Link):
    """The link h(x) = 1/(1 + e^-x): the paper's "Logistic noise"."""

    def probability(self, x: Floats) -> Floats:
        """Return 1/(1 + e^-x).

        Args:
            x: array of any shape.
        """
        return scipy.special.expit(x)

    def log_probability(self, x: Floats) -> Floats:
        """Return -ln(1 + e^-x).

        Args:
            x: array of any shape.
        """
        return scipy.special.log_expit(x)

    def score(self, x: Floats) -> Floats:
        """Return h'(x) / h(x) = 1/(1 + e^x).

        Args:
            x: array of any shape.
        """
        return scipy.special.expit(-x)

    def __str__(self) -> str:
        return "logistic"


@dataclass(frozen=True)
class Probit(Link):
    """The link h(x) = Phi(x / sigma): the paper's "Gaussian noise".

    Attributes:
        sigma: standard deviation of the noise, in units of the latent score.
    """

    sigma: float = 1.0

    def __post_init__(self) -> None:
        check_number("sigma of the probit link", self.sigma, above=0)

    def probability(self, x: Floats) -> Floats:
        """Return Phi(x / sigma).

        Args:
            x: array of any shape.
        """
        return scipy.special.ndtr(x / self.sigma)

    def log_probability(self, x: Floats) -> Floats:
        """Return ln Phi(x / sigma).

        Args:
            x: array of any shape.
        """
        return scipy.special.log_ndtr(x / self.sigma)

    def score(self, x: Floats) -> Floats:
        """Return h'(x) / h(x) = phi(x / sigma) / (sigma Phi(x / sigma)).

        Args:
            x: array of any shape.
        """
        # phi/Phi through the scaled complementary error function: no 0/0 far in the tail.
        scale = self.sigma * np.sqrt(2.0)
        return 2 / (np.sqrt(np.pi) * scale * scipy.special.erfcx(-x / scale))

    def __str__(self) -> str:
        return f"probit:{self.sigma:g}"


LOGISTIC = Logistic()
LINK_CHOICES = ("logistic", "probit", "probit:SIGMA")


def parse_link(text: str) -> Link:
    """Parse `logistic`, `probit` or `probit:SIGMA`.

    Raises:
        InvalidSetting: if the text names no link, or sigma is no number above 0.
    """
    name, _, sigma = text.partition(":")
    if text == "logistic":
        return LOGISTIC
    if name == "probit":
        field = "sigma of the probit link"
        return Probit(parse_number(float, sigma, field)) if sigma else Probit()
    raise unknown_name_error("link", text, LINK_CHOICES)


def steepness(link: Link, bound: float) -> float:
    """Return the supremum of h'/(h (1 - h)) = h'/h + h'/(1 - h) over scores in [-bound, bound].

    It is 1 for the logistic link at any bound; for the probit link it grows with |x|, so the end of
    the interval decides.
    """
    ends = np.array([0.0, bound])
    return float(np.max(link.score(ends) + link.score(-ends)))
