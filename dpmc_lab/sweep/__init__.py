"""Grids of runs over local processes or a cluster: the same rows whatever ran them, and when."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a name loads its module when it is asked for: pages need no engine
    from dpmc_lab.sweep.engine import (
        LocalPool,
        Pool,
        SweepReport,
        default_jobs,
        problem_of,
        processes,
        run,
        run_here,
        warm_up,
    )
    from dpmc_lab.sweep.grid import (
        Grid,
        Keys,
        Plan,
        Unit,
        command,
        parse_epsilons,
        parse_seeds,
        pieces,
        plan,
        seeds_text,
    )
    from dpmc_lab.sweep.sources import (
        Pair,
        PrivateFolder,
        SweepData,
        Whole,
        lean,
        open_source,
        ratings_of,
    )
    from dpmc_lab.sweep.toplists import LISTS_OF

__all__ = [
    "LISTS_OF",
    "Grid",
    "Keys",
    "LocalPool",
    "Pair",
    "Plan",
    "Pool",
    "PrivateFolder",
    "SweepData",
    "SweepReport",
    "Unit",
    "Whole",
    "command",
    "default_jobs",
    "lean",
    "open_source",
    "parse_epsilons",
    "parse_seeds",
    "pieces",
    "plan",
    "problem_of",
    "processes",
    "ratings_of",
    "run",
    "run_here",
    "seeds_text",
    "warm_up",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        for home in ("grid", "sources", "toplists", "engine"):
            module = import_module(f"{__name__}.{home}")
            if name in vars(module):
                return vars(module)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
