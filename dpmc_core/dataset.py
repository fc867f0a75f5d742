"""A data set: ratings with a name, and the truth behind them if they were generated."""

from __future__ import annotations

from dataclasses import dataclass

from dpmc_core.model import Factors
from dpmc_core.ratings import Ratings


@dataclass(frozen=True, eq=False)
class Dataset:
    """Ratings with the names that results and pages show.

    Attributes:
        ratings: the ratings.
        name: a short name, which results carry.
        title: the name for display.
        truth: factors of the matrix behind generated ratings; None if there is none.
    """

    ratings: Ratings
    name: str
    title: str = ""
    truth: Factors | None = None
