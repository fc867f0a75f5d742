"""A data set: ratings with a name, and the truth behind them if they were generated."""

from __future__ import annotations

from dataclasses import dataclass

from dpmc_core.display import Summarised
from dpmc_core.errors import check_type
from dpmc_core.model import Factors
from dpmc_core.ratings import Ratings


@dataclass(frozen=True, eq=False, repr=False)
class Dataset(Summarised):
    """Ratings with the names that results and pages show.

    Raises:
        BadRatings: if the ratings are something else, such as a data frame, or a name is no text.

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
        remedy = "Ratings.from_frame takes a data frame"
        check_type("the ratings of a data set", self.ratings, Ratings, remedy)
        check_type("the name of a data set", self.name, str, "give a text")
        if self.truth is not None:
            check_type("the truth of a data set", self.truth, Factors, "leave it out if unknown")

    def summarise(self) -> dict[str, object]:
        """Return the name of the data set and the sizes of its ratings, by label."""
        return {"name": self.title or self.name, **self.ratings.summarise()}
