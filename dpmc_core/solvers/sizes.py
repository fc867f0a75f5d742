"""Limits on sizes, checked before any memory is allocated.

The checks raise InvalidSetting, or BadRatings where fewer users or items would help.
"""

from __future__ import annotations

from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_core.ratings import PublicFacts

GRAM_LIMIT = 5_000  # items, whose n x n Gram matrix, or all that its noise stores, takes 400 MB
DENSE_CELLS = 50_000_000  # 400 MB for a matrix, and a few exist at once
_MAX_REPORTED_CELLS = 8_000_000_000  # eight to a byte: 1 GB
_MAX_DENSE_REPORT_CELLS = 200_000_000  # in single precision: 800 MB
_MAX_REPORTS = 150_000_000  # 5 to 8 bytes each, twice while they are put together: up to 2.4 GB
_MAX_REGRESSED_REPORTS = 30_000_000  # about 80 bytes each in a regression
_MAX_NOISE_VALUES = 40_000_000  # noise values of one round: 320 MB
_MAX_DESCENT_CELLS = 400_000_000  # 3.2 GB for an iterate of full rank


def check_rank(rank: int, public: PublicFacts) -> None:
    """Raise InvalidSetting where the rank is larger than the number of items."""
    if rank > public.items:
        raise InvalidSetting("rank", f"<= items = {public.items}", rank)


def check_gram(items: int, remedy: str) -> None:
    """Raise InvalidSetting where the items x items Gram matrix does not fit in memory.

    Args:
        items: the number of items.
        remedy: what the person can do, in words.
    """
    if items > GRAM_LIMIT:
        raise InvalidSetting(
            "items",
            f"<= {GRAM_LIMIT} for a method that builds the items x items matrix",
            items,
            remedy,
        )


def count_gram_items(public: PublicFacts) -> int:
    """Return the number of items in a Gram matrix: all of them, or the most rated 5,000."""
    return min(public.items, GRAM_LIMIT)


def check_dense(shape: tuple[int, int], purpose: str) -> None:
    """Raise InvalidSetting where a few dense users x items matrices do not fit in memory.

    Args:
        shape: the numbers of users and items.
        purpose: what needs the matrices, in words.
    """
    _check_cells(shape, DENSE_CELLS, f"{purpose}, which needs the whole matrix in memory")


def check_descent(shape: tuple[int, int]) -> None:
    """Raise InvalidSetting where full-rank iterates of projected gradient do not fit in memory.

    Args:
        shape: the numbers of users and items.
    """
    _check_cells(shape, _MAX_DESCENT_CELLS, "projected gradient, whose iterates may have full rank")


def max_descent_rank(public: PublicFacts) -> int:
    """Return the largest rank of the iterates of private projected gradient."""
    return max(_MAX_DESCENT_CELLS // (public.users + public.items), 1)


def check_full_reports(public: PublicFacts, *, as_dense: bool) -> None:
    """Raise BadRatings where reports of every user on every item do not fit in memory.

    Args:
        public: the numbers of users and items.
        as_dense: whether the reports are held as numbers, not as bits.
    """
    max_cells = _MAX_DENSE_REPORT_CELLS if as_dense else _MAX_REPORTED_CELLS
    if public.users * public.items > max_cells:
        raise BadRatings(
            f"every user reports every item: {public.users:,} x {public.items:,} cells are more"
            f" than {max_cells:,}, so keep fewer items (top-items) or users"
        )


def check_report_count(
    public: PublicFacts, report_probability: float, *, for_regression: bool
) -> None:
    """Raise BadRatings where the reports that are expected of all cells do not fit in memory.

    Args:
        public: the numbers of users and items.
        report_probability: the approximate probability that a cell is reported.
        for_regression: whether all reports enter one regression, which needs more memory.
    """
    expected = public.users * public.items * report_probability
    max_reports = _MAX_REGRESSED_REPORTS if for_regression else _MAX_REPORTS
    if expected > max_reports:
        raise BadRatings(
            f"about {expected:,.0f} of {public.users:,} x {public.items:,} cells are reported, more"
            f" than {max_reports:,}, so keep fewer items (top-items) or users"
        )


def check_noise_size(rank: int, n_profiles: int, values_per_profile: int) -> None:
    """Raise InvalidSetting where the noise of one round does not fit in memory.

    Args:
        rank: the setting `rank`, which the message names.
        n_profiles: the number of published profiles.
        values_per_profile: the number of noisy values of each.
    """
    if n_profiles * values_per_profile > _MAX_NOISE_VALUES:
        raise InvalidSetting(
            "rank",
            f"small enough that the noise of a round, {n_profiles:,} profiles x"
            f" {values_per_profile:,}, stays below {_MAX_NOISE_VALUES:,} numbers",
            rank,
        )


def _check_cells(shape: tuple[int, int], max_cells: int, purpose: str) -> None:
    """Raise InvalidSetting where a matrix has more than `max_cells` cells."""
    cells = shape[0] * shape[1]
    if cells > max_cells:
        raise InvalidSetting("users x items", f"<= {max_cells:,} cells for {purpose}", cells)
