"""A data set: ratings with a name, and the truth behind them if they were generated."""

from __future__ import annotations

from dataclasses import dataclass

from dpmc_core.display import Summarised
from dpmc_core.errors import BadRatings
from dpmc_core.model import Factors
from dpmc_core.ratings import Ratings


@dataclass(frozen=True, eq=False, repr=False)
class Dataset(Summarised):
    """Ratings with the names that results and pages show.

    Raises:
        BadRatings: if the ratings are something else, such as a data frame.

    >>> import dpmc_core as dpmc
    >>> ratings = dpmc.load("restaurants").ratings
    >>> dpmc.Dataset(ratings, "lunch").name
    'lunch'

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

    def __post_init__(self) -> None:
        if not isinstance(self.ratings, Ratings):
            kind = type(self.ratings).__name__
            raise BadRatings(
                f"the ratings of a data set must be Ratings, got an object of the type {kind};"
                " Ratings.from_frame takes a data frame"
            )

    def summarise(self) -> dict[str, object]:
        """Return the name of the data set and the sizes of its ratings, by label."""
        return {"name": self.title or self.name, **self.ratings.summarise()}
