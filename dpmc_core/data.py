"""`dpmc_core.data` holds the names that it held before `dpmc_data` and `preparation` existed."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Return a name of `dpmc_core.preparation` or of `dpmc_data`, imported at its first use."""
    import dpmc_data
    from dpmc_core import preparation

    return getattr(preparation if hasattr(preparation, name) else dpmc_data, name)
