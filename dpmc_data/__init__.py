"""Rating data from anywhere: samples, public sets and files, read, downloaded and generated.

    import dpmc_data

    data = dpmc_data.load("movie-night")  # a sample, a public set or a file
    data = dpmc_data.read("ratings.csv", low=1, high=5)  # a file, whatever its name
    train, test = dpmc_data.read_pair("u1.base", "u1.test")

Each name is loaded at its first use, as those of `dpmc_core` are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmc_data.datasets import LoadedDataset, load, read, read_pair
    from dpmc_data.source import ReadOptions

__all__ = ["LoadedDataset", "ReadOptions", "load", "read", "read_pair"]

_MODULES_BY_NAME = {
    "LoadedDataset": "dpmc_data.datasets",
    "ReadOptions": "dpmc_data.source",
    "load": "dpmc_data.datasets",
    "read": "dpmc_data.datasets",
    "read_pair": "dpmc_data.datasets",
}


def __getattr__(name: str) -> Any:
    """Import the module of a name at its first use and remember the name here."""
    if name not in _MODULES_BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    globals()[name] = value = getattr(import_module(_MODULES_BY_NAME[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
