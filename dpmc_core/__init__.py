"""Differentially private matrix completion: mechanisms, exact accounting, and comparable runs.

    import dpmc_core as dpmc

    result = dpmc.run("input-flip", "movie-night", epsilon=2.0, seed=0)
    print(result.metrics, result.guarantee.certified())

Each name is loaded at its first use, so importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmc_core.dataset import Dataset
    from dpmc_core.errors import DpmcError
    from dpmc_core.experiment import Result, run
    from dpmc_core.privacy import Guarantee
    from dpmc_core.problem import build_problem
    from dpmc_core.ratings import Ratings
    from dpmc_core.registry import create, list_suitable_mechanisms
    from dpmc_data import load

__version__ = "1.0.0"  # pyproject.toml reads it
__all__ = [
    "Dataset",
    "DpmcError",
    "Guarantee",
    "Ratings",
    "Result",
    "build_problem",
    "create",
    "list_suitable_mechanisms",
    "load",
    "run",
]

_MODULES_BY_NAME = {
    "Dataset": "dpmc_core.dataset",
    "DpmcError": "dpmc_core.errors",
    "Guarantee": "dpmc_core.privacy",
    "Ratings": "dpmc_core.ratings",
    "Result": "dpmc_core.experiment",
    "build_problem": "dpmc_core.problem",
    "create": "dpmc_core.registry",
    "list_suitable_mechanisms": "dpmc_core.registry",
    "load": "dpmc_core.data",
    "run": "dpmc_core.experiment",
}


def __getattr__(name: str) -> Any:
    """Import the module of a name at its first use and remember the name here."""
    if name not in _MODULES_BY_NAME:
        names = ", ".join(__all__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: it has {names}")
    from importlib import import_module

    globals()[name] = value = getattr(import_module(_MODULES_BY_NAME[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
