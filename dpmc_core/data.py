"""`dpmc_core.data` is `dpmc_data`, which is imported when one of its names is first used."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Return a name of `dpmc_data`."""
    import dpmc_data

    return getattr(dpmc_data, name)
