"""Limits on sizes, checked before any memory is taken: InvalidSetting, or BadRatings."""

from __future__ import annotations

from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_core.ratings import PublicFacts

GRAM_LIMIT = 5_000  # items: their n x n Gram matrix, or all that its noise holds, takes 400 MB
DENSE_CELLS = 50_000_000  # 400 MB a matrix, and a few are alive at once
_MAX_REPORTED_CELLS = 8_000_000_000  # eight to a byte: 1 GB
_MAX_DENSE_REPORT_CELLS = 200_000_000  # in single precision: 800 MB
_MAX_REPORTS = 150_000_000  # 5 to 8 bytes each, so up to 1.2 GB
_MAX_REGRESSED_REPORTS = 30_000_000  # some 80 bytes each in a regression
_MAX_NOISE_VALUES = 40_000_000  # numbers of noise in one round: 320 MB
_MAX_DESCENT_CELLS = 400_000_000  # 3.2 GB for an iterate of full rank


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


def count_gram_items(public: PublicFacts) -> int:
    """Of how many items the n x n Gram matrix is held, or known by its products."""
    return min(public.items, GRAM_LIMIT)


def check_dense(shape: tuple[int, int], purpose: str) -> None:
    """A few whole users x items matrices fit in memory."""
    _check_cells(shape, DENSE_CELLS, f"{purpose}, which needs the whole matrix in memory")


def check_descent(shape: tuple[int, int]) -> None:
    """The iterates of projected gradient, which may have full rank, fit in memory."""
    _check_cells(shape, _MAX_DESCENT_CELLS, "projected gradient, whose iterates may have full rank")


def max_descent_rank(public: PublicFacts) -> int:
    """How many directions iterates of private projected gradient have at most."""
    return max(_MAX_DESCENT_CELLS // (public.users + public.items), 1)


def check_full_reports(public: PublicFacts, *, as_dense: bool) -> None:
    """The matrix in which every user reports every item fits in memory. Raises BadRatings."""
    max_cells = _MAX_DENSE_REPORT_CELLS if as_dense else _MAX_REPORTED_CELLS
    if public.users * public.items > max_cells:
        raise BadRatings(
            f"every user reports every item: {public.users:,} x {public.items:,} cells are more"
            f" than {max_cells:,}, so keep fewer items (top-items) or users"
        )


def check_report_count(
    public: PublicFacts, report_probability: float, *, for_regression: bool
) -> None:
    """The cells of whole rows that are reported, each with about that chance, fit in memory.

    for_regression: all of them enter a regression. Raises BadRatings.
    """
    expected, max_reports = (
        public.users * public.items * report_probability,
        _MAX_REGRESSED_REPORTS if for_regression else _MAX_REPORTS,
    )
    if expected > max_reports:
        raise BadRatings(
            f"about {expected:,.0f} of {public.users:,} x {public.items:,} cells are reported, more"
            f" than {max_reports:,}, so keep fewer items (top-items) or users"
        )


def check_noise_size(rank: int, n_profiles: int, values_per_profile: int) -> None:
    """The noise of a round fits in memory: `values_per_profile` numbers for each published
    profile."""
    if n_profiles * values_per_profile > _MAX_NOISE_VALUES:
        raise InvalidSetting(
            "rank",
            f"small enough that the noise of a round, {n_profiles:,} profiles x"
            f" {values_per_profile:,}, stays"
            f" below {_MAX_NOISE_VALUES:,} numbers",
            rank,
        )


def _check_cells(shape: tuple[int, int], max_cells: int, purpose: str) -> None:
    cells = shape[0] * shape[1]
    if cells > max_cells:
        raise InvalidSetting("users x items", f"<= {max_cells:,} cells for {purpose}", cells)
