"""Generate ratings and clicks at benchmark size, as functions of a seed."""

from __future__ import annotations

from dpmc_core.errors import check_number
from dpmc_core.ratings import Ratings
from sample_data.generate import Shop, generate_clicks


def large_bookshop(seed: int, users: int = 50_000, items: int = 2_000) -> Ratings:
    """Generate the same kind of shop at benchmark size, with 20 clicks per reader on average."""
    check_number("users", users, at_least=10, integer=True)
    check_number("items", items, at_least=50, integer=True)
    return generate_clicks(seed, Shop(users=users, items=items, clicks=20 * users)).ratings
