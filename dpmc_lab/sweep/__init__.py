"""Grids of runs over local processes or a cluster: the same rows whatever ran them, and when."""

from __future__ import annotations

from dpmc_lab.sweep.engine import (
    LISTS_OF,
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
