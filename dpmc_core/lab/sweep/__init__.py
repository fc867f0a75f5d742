"""Grids of runs over local processes or a cluster: the same rows whatever ran them, and when."""

from __future__ import annotations

from dpmc_core.lab.sweep.engine import (
    LISTS_OF,
    ClusterPool,
    LocalPool,
    Pool,
    SweepReport,
    check_address,
    default_jobs,
    partitioned,
    problem_of,
    processes,
    run,
    run_here,
    warm_up,
)
from dpmc_core.lab.sweep.grid import (
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
from dpmc_core.lab.sweep.sources import Pair, PrivateFolder, SweepData, Whole, lean, open_source

__all__ = [
    "LISTS_OF",
    "ClusterPool",
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
    "check_address",
    "command",
    "default_jobs",
    "lean",
    "open_source",
    "parse_epsilons",
    "parse_seeds",
    "partitioned",
    "pieces",
    "plan",
    "problem_of",
    "processes",
    "run",
    "run_here",
    "seeds_text",
    "warm_up",
]
