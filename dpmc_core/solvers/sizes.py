"""Limits on sizes, checked before any memory is taken: InvalidSetting, or BadRatings."""

from __future__ import annotations

from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_core.ratings import PublicFacts

GRAM_LIMIT = 5_000  # items: their n x n Gram matrix, or all that its noise holds, takes 400 MB
DENSE_CELLS = 50_000_000  # 400 MB a matrix, and a few are alive at once
_REPORTED_CELLS = 8_000_000_000  # eight to a byte: 1 GB
_WHOLE_CELLS = 200_000_000  # in single precision: 800 MB
_REPORTS = 150_000_000  # 5 to 8 bytes each, so up to 1.2 GB
_REGRESSED = 30_000_000  # some 80 bytes each in a regression
_NOISE = 40_000_000  # numbers of noise in one round: 320 MB
_DESCENT_CELLS = 400_000_000  # 3.2 GB for an iterate of full rank


def check_rank(rank: int, public: PublicFacts) -> None:
    """The rank is at most the number of items."""
    if rank > public.items:
        raise InvalidSetting("rank", f"<= items = {public.items}", rank)


def check_gram(items: int, remedy: str) -> None:
    """The n x n Gram matrix fits in memory."""
    if items > GRAM_LIMIT:
        raise InvalidSetting(
            "items",
            f"<= {GRAM_LIMIT} for a method that builds the items x items matrix",
            items,
            remedy,
        )


def gram_items(public: PublicFacts) -> int:
    """Of how many items the n x n Gram matrix is held, or known by its products."""
    return min(public.items, GRAM_LIMIT)


def check_dense(shape: tuple[int, int], what: str) -> None:
    """A few whole users x items matrices fit in memory."""
    _check_cells(shape, DENSE_CELLS, f"{what}, which needs the whole matrix in memory")


def check_descent(shape: tuple[int, int]) -> None:
    """The iterates of projected gradient, which may have full rank, fit in memory."""
    _check_cells(shape, _DESCENT_CELLS, "projected gradient, whose iterates may have full rank")


def descent_rank(public: PublicFacts) -> int:
    """How many directions iterates of private projected gradient have at most."""
    return max(_DESCENT_CELLS // (public.users + public.items), 1)


def check_reported(public: PublicFacts, *, whole: bool) -> None:
    """The matrix in which every user reports every item fits in memory. Raises BadRatings."""
    most = _WHOLE_CELLS if whole else _REPORTED_CELLS
    if public.users * public.items > most:
        raise BadRatings(
            f"every user reports every item: {public.users:,} x {public.items:,} cells are more"
            f" than {most:,}, so keep fewer items (top-items) or users"
        )


def check_reports(public: PublicFacts, report_probability: float, *, regressed: bool) -> None:
    """The cells of whole rows that are reported, each with about that chance, fit in memory.

    regressed: all of them enter a regression. Raises BadRatings.
    """
    expected, most = (
        public.users * public.items * report_probability,
        _REGRESSED if regressed else _REPORTS,
    )
    if expected > most:
        raise BadRatings(
            f"about {expected:,.0f} of {public.users:,} x {public.items:,} cells are reported, more"
            f" than {most:,}, so keep fewer items (top-items) or users"
        )


def check_noise(rank: int, published: int, each: int) -> None:
    """The noise of a round fits in memory: `each` numbers for each published profile."""
    if published * each > _NOISE:
        raise InvalidSetting(
            "rank",
            f"small enough that the noise of a round, {published:,} profiles x {each:,}, stays"
            f" below {_NOISE:,} numbers",
            rank,
        )


def _check_cells(shape: tuple[int, int], most: int, what: str) -> None:
    cells = shape[0] * shape[1]
    if cells > most:
        raise InvalidSetting("users x items", f"<= {most:,} cells for {what}", cells)
