"""Rating data from anywhere: samples, public sets and files, read, downloaded and generated.

    import dpmc_data

    data = dpmc_data.load("movie-night")  # a sample, a public set or a file
    train, test = dpmc_data.read_pair("u1.base", "u1.test")

Each name is loaded at its first use, as those of `dpmc_core` are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmc_data.datasets import LoadedDataset, load, read_pair
    from dpmc_data.source import ReadOptions

__all__ = ["LoadedDataset", "ReadOptions", "load", "read_pair"]


def __getattr__(name: str) -> Any:
    """Import the module of a name at its first use and remember the name here."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"{__name__}.{'source' if name == 'ReadOptions' else 'datasets'}")
    globals()[name] = value = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return __all__
