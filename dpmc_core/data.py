"""`dpmc_core.data` passes on names of `dpmc_core.preparation` and `dpmc_data` to older scripts."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Return a name of `dpmc_core.preparation` or of `dpmc_data`, imported at its first use."""
    import dpmc_data
    from dpmc_core import preparation

    return getattr(preparation if hasattr(preparation, name) else dpmc_data, name)
